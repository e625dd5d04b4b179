"""
A linear model seen from a private mean
=======================================

Class means decide by distance, so directions in which all records vary drown those in which classes
differ.  A linear model on tangent coordinates weighs directions.  Made-up trials of six channels:
two sources tell the classes apart, two others vary much more.  ``PrivateTangentClassifier`` finds
the mean and the model in one fit.

"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_tangent_classifier.png"

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from skriemdp import PrivateMinimumDistanceToMean, PrivateTangentClassifier, frechet_mean
from skriemdp.geometry import AffineInvariantSPD

# %%
# Covariances of 128 samples each; the gain of a trial and two sources vary widely.
rng = np.random.default_rng(0)
n, channels, samples = 3000, 6, 128
y = rng.integers(0, 2, size=n)
powers = np.array([0.4, 0.4, 0.4, 0.4, 1.5, 1.5]) * rng.normal(size=(n, channels))
powers += 0.8 * rng.normal(size=(n, 1))
powers[:, :2] += 0.6 * np.stack([y, -y], axis=1)
signals = rng.normal(size=(n, samples, channels)) * np.exp(0.5 * powers)[:, None, :]
signals = signals @ rng.normal(size=(channels, channels))
X = np.einsum("nsi,nsj->nij", signals, signals) / samples
old, new = slice(0, 2000), slice(2000, n)

# %%
# Without privacy: all that either way can do.
space = AffineInvariantSPD(channels)
seen = space.log_coordinates(frechet_mean(X[old], "spd", center=np.eye(channels)), X)
best = LogisticRegression(max_iter=2000).fit(seen[old], y[old]).score(seen[new], y[new])

# %%
# Four private fits at each epsilon, seeded to draw the same figure every time.
epsilons = np.array([0.2, 0.5, 1.0, 3.0, 10.0])
ways = {"linear, at a mean": PrivateTangentClassifier, "class means": PrivateMinimumDistanceToMean}
found = {
    name: np.array(
        [
            [
                kind("spd", classes=[0, 1], epsilon=e, random_state=seed)
                .fit(X[old], y[old])
                .score(X[new], y[new])
                for seed in range(4)
            ]
            for e in epsilons
        ]
    )
    for name, kind in ways.items()
}

# %%
# Left: the trials along the model's direction, and along the one in which they vary most.
model = PrivateTangentClassifier("spd", classes=[0, 1], epsilon=1.0, random_state=0)
scores = model.fit(X[old], y[old]).decision_function(X[new])
_, _, axes = np.linalg.svd(seen[new] - seen[new].mean(axis=0), full_matrices=False)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for label, color in ((0, "#4477aa"), (1, "#ee6677")):
    of = y[new] == label
    left.plot(seen[new][of] @ axes[0], scores[of], ".", color=color, ms=3, label=f"class {label}")
left.axhline(0.0, color="0.3", lw=1)
left.set(xlabel="where trials vary most", ylabel="score of the private model, epsilon = 1")
left.legend(markerscale=3, loc="upper left")
for (name, scores), color in zip(found.items(), ("#228833", "#aa3377"), strict=True):
    right.errorbar(
        epsilons, scores.mean(axis=1), scores.std(axis=1), fmt="o-", color=color, label=name
    )
right.axhline(best, color="0.3", ls="--", lw=1, label="linear, without privacy")
right.set(xscale="log", xlabel="epsilon", ylabel="accuracy on new trials")
right.legend(loc="lower right")
plt.show()
print({name: scores.mean(axis=1).round(3).tolist() for name, scores in found.items()}, best)
