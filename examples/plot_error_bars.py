"""
Confidence regions of private means
===================================

A mean of directions with a region for the mean of the population, of sampling and noise together,
at three budgets.  The cross is the mean of the population; dots are a part of the records.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_error_bars.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateFrechetMean
from skriemdp.datasets import make_cloud
from skriemdp.geometry import Sphere

sphere = Sphere(2)
X = make_cloud(sphere, 2000, radius=1.0, offset=0.0, spread=0.3, rng=np.random.default_rng(0))
pole = sphere.base_point


def flat(points):
    """Two coordinates of points near the pole."""
    return np.asarray(sphere.log_coordinates(pole, points)).T


figure, axes = plt.subplots(figsize=(6, 4.5), layout="constrained")
axes.scatter(*flat(X[:1000]), s=3, color="0.75")
for number, epsilon in enumerate((0.1, 0.3, 1.0)):
    mean = PrivateFrechetMean(
        sphere, center=pole, radius=1.0, uncertainty=True, epsilon=epsilon
    ).fit(X)
    region = mean.confidence_region(0.95)
    axes.plot(*flat(region.boundary()), color=f"C{number}", label=f"epsilon = {epsilon:g}")
    axes.plot(*flat(mean.mean_[None]), "o", color=f"C{number}", markersize=4)
axes.plot(0, 0, "k+", markersize=14, label="mean of the population")
axes.set(aspect="equal", xlim=(-0.2, 0.2), ylim=(-0.15, 0.15))
axes.set(xlabel="radians", ylabel="radians", title="95 % regions, 2000 records")
axes.legend(loc="upper right", fontsize="small")
plt.show()
