"""
A private geometric median in the hyperbolic plane
==================================================

The geometric median minimises the mean distance to the records.  Every record pulls with a force of
exactly one, however far away it is: the gradient norm is bounded by one with no clipping bias at
all, which is what privacy and robustness both want.  The mean, in contrast, follows outliers.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_geometric_median.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateFrechetMean, PrivateRiemannianERM
from skriemdp.geometry import Hyperboloid

# %%
# Four fifths of the points lie around a centre, the others far out on one side.

plane = Hyperboloid(2)
rng = np.random.default_rng(0)
center = plane.exp_coordinates(plane.base_point, np.array([0.4, 0.2]))


def cloud(n, outliers):
    inner = plane.exp_coordinates(center, 0.3 * rng.standard_normal((n, 2)))
    far = plane.exp_coordinates(
        plane.base_point, np.array([-2.5, 1.0]) + 0.2 * rng.standard_normal((n, 2))
    )
    return np.where(np.arange(n)[:, None] < outliers * n, far, inner)


# %%
# The Riemannian gradient of the distance to x is the unit vector that points away from x.  A record
# that coincides with the current point has no such vector; it counts as zero.


def away_from(point, X, y):
    logarithms = plane.log(point, X)
    return -logarithms / plane.norm(point, logarithms)[:, None]


median = PrivateRiemannianERM(
    plane,
    gradient=away_from,
    clip_norm=1.0,
    n_steps=40,
    step_size=[1.0 / (1 + t / 4) for t in range(40)],
    epsilon=1.0,
)

# %%
# Both estimates are (1, 1e-5)-differentially private; ten repetitions each.

shares = [0.0, 0.1, 0.2, 0.3]
errors = {"mean": [], "median": []}
for share in shares:
    trials = {"mean": [], "median": []}
    for _ in range(10):
        X = cloud(2000, share)
        mean = PrivateFrechetMean(plane, radius=4.0, epsilon=1.0).fit(X)
        trials["mean"].append(plane.dist(mean.mean_, center))
        trials["median"].append(plane.dist(median.fit(X).point_, center))
    for name, values in trials.items():
        errors[name].append(np.mean(values))

# %%
# Error against the share of outliers, and one data set in the Poincaré disc.


def disc(x):
    return x[..., 1:] / (1 + x[..., :1])


X = cloud(2000, 0.2)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
left.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.7"))
left.plot(*disc(X).T, ".", markersize=2, color="0.6")
left.plot(*disc(median.fit(X).point_), "o", label="private median")
mean = PrivateFrechetMean(plane, radius=4.0, epsilon=1.0).fit(X)
left.plot(*disc(mean.mean_), "s", label="private mean")
left.plot(*disc(center), "k+", markersize=12, label="centre")
left.set_aspect("equal")
left.set_axis_off()
left.legend(loc="lower right")
for name, values in errors.items():
    right.plot(shares, values, marker="o", label=f"private {name}")
right.set_xlabel("share of outliers")
right.set_ylabel("distance to the centre")
right.legend()
plt.show()
