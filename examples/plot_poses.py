"""
How a hand holds a tool: a mean of poses
========================================

Each of 3000 records is the pose of a tool in a hand: a rotation, and a place in centimetres from
where the tool should be held.  A pose is a point of a product of manifolds, and its private mean
is one, too, and no matrix that fails to be a rotation.  Left: the tool's axes in 60 poses (thin)
and in the private mean (thick).  Right: error bars of the mean, and its distance to the exact mean.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_poses.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateFrechetMean, frechet_mean
from skriemdp.geometry import Euclidean, Product, Rotations

# %%
# ``scale=5`` lets a fifth of a radian count as much as a centimetre.  ``join`` makes a flat row of
# a rotation and a place, and ``split`` undoes it.

poses = Product(Rotations(scale=5.0), Euclidean(3))
rng = np.random.default_rng(0)
usual = np.array([3.0, -2.0, 2.0, 1.0, 2.0, -0.5])  # coordinates of the usual pose
spread = np.array([1.0, 0.6, 0.6, 1.2, 0.8, 0.4])
X = poses.exp_coordinates(poses.base_point, rng.normal(usual, spread, (3000, 6)))
exact = frechet_mean(X, poses)

epsilons, regions = np.array([0.5, 1.0, 2.0, 4.0]), []
for epsilon in epsilons:
    model = PrivateFrechetMean(poses, epsilon=epsilon, uncertainty=True).fit(X)
    regions.append(model.confidence_region(0.95))
turn, place = poses.split(model.mean_)
print("the tool lies at", place.round(2), "and is turned by", turn.round(2), sep="\n")
print(regions[-1])

# %%
# Where the axes of the tool point, seen from its usual place.

figure = plt.figure(figsize=(9, 4), layout="constrained")
axes = figure.add_subplot(1, 2, 1, projection="3d", label="thumbnail")
for row, width in [*((row, 0.4) for row in X[:60]), (model.mean_, 4.0)]:
    turn, place = poses.split(row)
    for k in range(3):
        ends = np.stack([place, place + 4.0 * turn[:, k]])
        axes.plot(*ends.T, color=f"C{k}", linewidth=width)
axes.set(xlabel="cm", ylabel="cm", zlabel="cm")

errors = figure.add_subplot(1, 2, 2)
errors.loglog(epsilons, [r.semi_axes[0] for r in regions], "o-", label="longest semi-axis, 95 %")
errors.loglog(epsilons, [poses.dist(r.center, exact) for r in regions], "s--", label="error")
errors.set(xlabel="epsilon", ylabel="cm, or fifths of a radian")
errors.legend()
plt.show()
