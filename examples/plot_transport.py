"""
How a cloud spreads: covariances in the Bures-Wasserstein metric
================================================================

Each of 3000 wells is photographed once, and the cells in it have a place and a spread: a covariance
matrix.  The Bures-Wasserstein distance between two is what it costs to move the one cloud of cells
onto the other.  A private geodesic regression tells how the spread changes with time, so that every
prediction is a covariance, too.  Ellipses show the truth (dashed) and the released curve.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_transport.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateGeodesicRegressor
from skriemdp.geometry import SPD

metric = SPD(2, metric="bures-wasserstein")
start, later = np.diag([0.5, 0.2]), np.array([[2.0, 0.9], [0.9, 1.0]])
direction = metric.log(start, later)


def truth(hours):
    """Where transport at constant speed is after so many of 48 hours."""
    return metric.exp(start, np.asarray(hours)[:, None, None] / 48.0 * direction)


rng = np.random.default_rng(0)
hours = rng.uniform(0.0, 48.0, 3000)
roots = np.linalg.cholesky(truth(hours))
cells = rng.standard_normal((3000, 30, 2)) @ np.swapaxes(roots, 1, 2)
X = np.einsum("nij,nik->njk", cells, cells) / 30  # of 30 cells in each well

# %%
# Times are public, and so is a ball that holds such covariances; noise falls on the curve alone.

model = PrivateGeodesicRegressor(
    metric, center=np.eye(2), radius=1.5, feature_center=[24.0], feature_scale=[24.0], epsilon=1.0
).fit(hours[:, None], X)
print("score", round(model.score(hours[:, None], X), 2), tuple(model.privacy_spent_))

figure, axes = plt.subplots(figsize=(9, 2.6), layout="constrained")
circle = np.stack([np.cos(np.linspace(0, 2 * np.pi, 100)), np.sin(np.linspace(0, 2 * np.pi, 100))])
shown = np.array([0.0, 12.0, 24.0, 36.0, 48.0])
for curve, style in ((model.predict(shown[:, None]), "C0-"), (truth(shown), "k--")):
    for hour, S in zip(shown, curve, strict=True):
        ring = np.linalg.cholesky(S) @ circle
        axes.plot(hour / 3.0 + ring[0], ring[1], style, linewidth=1.5)
axes.set_xticks(shown / 3.0, [f"{hour:.0f} h" for hour in shown])
axes.set(aspect="equal", ylabel="spread of the cells")
plt.show()
