"""
Visits of patients: everything that is learned from one person's rows is protected
==================================================================================

Patients come once or twenty times, and each visit is a row of measurements in unlike units.  With
``groups=`` epsilon holds for a *patient* with all visits, whose number stays private.  Left: means
of the columns, in standard deviations from the truth.  Right: the plane of two principal
components, and the direction in which a linear model sees the score rise.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_visits.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
)

COLUMNS = ["pulse", "pressure", "weight", "glucose"]
MIDDLE, SCALE = np.array([72.0, 128.0, 78.0, 5.6]), np.array([9.0, 16.0, 14.0, 0.8])

# %%
# Patients are ill to different degrees, and some are seen more often.  An id is a clinic and a
# number there: tuples, text, dates and numbers may be ids.

rng = np.random.default_rng(0)
ill = rng.standard_normal(4000)
visits = 1 + rng.poisson(np.exp(0.7 * ill))
person = [(f"clinic {k % 7}", k) for k in range(4000) for _ in range(visits[k])]
seen = np.repeat(ill, visits) + 0.5 * rng.standard_normal(visits.sum())
Z = np.outer(seen, [0.5, 0.8, 0.3, 0.7]) + 0.5 * rng.standard_normal((len(seen), 4))
X, score = MIDDLE + SCALE * Z, 50.0 + 10.0 * seen + rng.normal(0.0, 3.0, len(seen))

budget = PrivacyAccountant(epsilon=4.0, delta=1e-5, unit="group")
paid = {"epsilon": 1.0, "accountant": budget}
mean = PrivateFrechetMean(**paid).fit(X, groups=person)
components = PrivatePrincipalEigenvector(2, **paid).fit((X - MIDDLE) / SCALE, groups=person)
model = PrivateNoisyAdaGrad("squared_error", **paid).fit(X, score, groups=person)
print(components.explained_variance_ratio_.round(2), "of the variance")
print("R2 of rows", round(model.score(X, score), 2))
print(budget.remaining())

# %%
# The mean is that of *patients*: somebody with many visits counts once, while the mean of all rows
# leans towards the ill.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
start = np.r_[0, np.cumsum(visits)[:-1]]
of_people = (np.add.reduceat(X, start) / visits[:, None]).mean(axis=0)
left.axhline(0.0, color="0.7")
left.plot(COLUMNS, (mean.mean_ - of_people) / SCALE, "o", label="private, of patients")
left.plot(COLUMNS, (X.mean(axis=0) - of_people) / SCALE, "s", label="exact, of rows")
left.set_ylabel("from the mean of patients, in standard deviations")
left.legend(loc="center right")

plane = components.transform((X[start] - MIDDLE) / SCALE)
colors = right.scatter(*plane[:1500].T, c=score[start][:1500], s=6)
arrow = components.components_ @ (model.coef_ * SCALE)
right.annotate("", 2.5 * arrow / np.linalg.norm(arrow), (0, 0), arrowprops={"width": 1.5})
right.set(xlabel="first component", ylabel="second component", label="thumbnail")
figure.colorbar(colors, ax=right, label="score")
plt.show()
