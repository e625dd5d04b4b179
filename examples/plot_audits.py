"""
What an attacker finds: audits of estimators
============================================

A stated epsilon is an upper bound.  ``audit_estimator`` fits an estimator many times on the two
neighbouring data sets that are hardest for it, and tells from the results which one it was: a
lower bound.  A guarantee is false if the lower bound (bars) is above the stated epsilon (line).
With 100 fits on each side a bar of half the length is a strong attack; a short one proves nothing.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_audits.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateMinimumDistanceToMean,
    PrivateRiemannianERM,
    PrivateTangentPCA,
)
from skriemdp.auditing import audit_estimator

ball = {"center": np.eye(2), "radius": 1.0, "epsilon": 8.0}
cap = {"radius": 0.5, "epsilon": 8.0, "delta": 0.0}
mean = PrivateFrechetMean("spd", **ball)
anybody = PrivacyAccountant(epsilon=8.0, delta=1e-5, unit="record, present or not")
audited = {
    "mean": mean,
    "mean, one record more": PrivateFrechetMean("spd", accountant=anybody, **ball),
    "mean on a sphere": PrivateFrechetMean("sphere", mechanism="laplace", **cap),
    "the same by k-norm": PrivateFrechetMean("sphere", mechanism="k-norm", **cap),
    "class means": PrivateMinimumDistanceToMean("spd", classes=[0, 1], **ball),
    "tangent components": PrivateTangentPCA(manifold="spd", **ball),
    "own cost": PrivateRiemannianERM("spd", n_steps=5, epsilon=8.0),
}

# %%
# Records are made up, and the fits are charged to no ledger.

stated, found = [], []
for name, estimator in audited.items():
    audit = audit_estimator(estimator, trials=100)
    stated.append(audit.stated)
    found.append(max(audit.audited, 0.0))
    print(f"{name:22} stated {audit.stated:6.2f}  found {audit.audited:6.2f}")

figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
places = np.arange(len(audited))
axes.barh(places, found, label="lower bound of the attack, 95 %")
axes.vlines(stated, places - 0.4, places + 0.4, color="k", label="stated")
axes.set_yticks(places, list(audited))
axes.invert_yaxis()
axes.set(xlabel="epsilon, delta = 1e-5", xlim=(0, 1.05 * max(stated)))
axes.legend(loc="upper right")
plt.show()
