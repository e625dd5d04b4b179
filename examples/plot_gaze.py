"""
A manifold from elsewhere: the gaze of two eyes
===============================================

Where two eyes look is a pair of directions, a point of pymanopt's ``Oblique(3, 2)``.
``PymanoptGeometry`` takes pymanopt's manifolds, and others with the same methods, as they are.
Means need two facts that no test can find, the curvature and the injectivity radius.  Two unit
spheres have curvature between 0 and 1, and shortest paths up to length pi.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_gaze.png"

import autograd.numpy
import matplotlib.pyplot as plt
import numpy as np
from pymanopt.manifolds import Oblique

from skriemdp import PrivateFrechetMean, PrivateRiemannianERM, frechet_mean
from skriemdp.geometry import PymanoptGeometry

gaze = PymanoptGeometry(Oblique(3, 2), curvature_bounds=(0.0, 1.0), injectivity_radius=np.pi)
rng = np.random.default_rng(0)
ahead = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])  # both eyes look along the first axis
X = ahead + rng.normal([[0, 0], [0.15, -0.05], [-0.1, -0.1]], [[0.02], [0.1], [0.05]], (500, 3, 2))
X /= np.linalg.norm(X, axis=1, keepdims=True)
slips = rng.uniform(size=500) < 0.04  # the camera lost one eye
X[slips, :, 1] = np.array([0.6, -0.3, 0.75]) / np.linalg.norm([0.6, -0.3, 0.75])

# %%
# A mean in a public ball, with a region; and a point with the least sum of straight distances,
# which lost eyes hardly move.  Its cost is that of one record, and autograd differentiates it.

mean = PrivateFrechetMean(gaze, center=ahead, radius=0.9, epsilon=2.0, uncertainty=True).fit(X)
region = mean.confidence_region(0.95)


def cost(point, x, y):
    return autograd.numpy.sqrt(autograd.numpy.sum((point - x) ** 2, axis=0) + 1e-6).sum()


median = PrivateRiemannianERM(
    gaze,
    cost,
    backend="autograd",
    clip_norm=1.5,
    start=ahead,
    n_steps=8,
    step_size=0.05,
    epsilon=2.0,
).fit(X)
print("mean cost of the records, not private:", -round(median.score(X), 3))
exact = frechet_mean(X, gaze)
print(region)
print("distance of mean and median:", np.round(gaze.dist(mean.mean_, median.point_), 3))

figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for eye, name in enumerate(["left eye", "right eye"]):
    axes[eye].plot(*X[:, 1:, eye].T, ".", color="0.8", label="records")
    for point, marker, label in [
        (exact, "kx", "exact mean"),
        (mean.mean_, "C0o", "private mean"),
        (median.point_, "C1s", "private median"),
    ]:
        axes[eye].plot(*point[1:, eye], marker, label=label)
    axes[eye].set(title=name, xlabel="to the side", ylabel="up")
axes[1].legend()
plt.show()
