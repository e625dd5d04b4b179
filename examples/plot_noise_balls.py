"""
Noise balls on the sphere and in the Poincaré disk
==================================================

A private mean is a point and a scale of noise; both are released, so one may draw where the true
mean can be.  On the left directions on the sphere, on the right points of the hyperbolic plane.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_noise_balls.png"

import math

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateFrechetMean
from skriemdp.datasets import make_cloud
from skriemdp.geometry import Hyperboloid, Sphere
from skriemdp.plotting import NoiseBallDisplay

rng = np.random.default_rng(0)
figure = plt.figure(figsize=(10, 4.5))

sphere = Sphere(2)
X = make_cloud(sphere, 300, radius=math.pi / 8, offset=0.4, spread=0.3, rng=rng)
mean = PrivateFrechetMean(
    sphere, radius=math.pi / 8, mechanism="gradient", epsilon=0.3, delta=1e-4
).fit(X)
left = NoiseBallDisplay.from_estimator(mean, figure.add_subplot(1, 2, 1, projection="3d"))
left.ax_.computed_zorder = False  # records behind the balls of the noise, not before them
left.ax_.scatter(*X.T, s=2, color="0.6", zorder=1.5)
left.ax_.view_init(elev=5, azim=5)
left.ax_.set_box_aspect((1, 1, 1), zoom=1.4)
left.ax_.set_axis_off()

plane = Hyperboloid(2)
X = make_cloud(plane, 300, radius=1.5, offset=0.5, spread=0.3, rng=rng)
mean = PrivateFrechetMean(
    plane, radius=1.5, mechanism="tangent", noise="gaussian", epsilon=0.3, delta=1e-4
).fit(X)
right = NoiseBallDisplay.from_estimator(mean, figure.add_subplot(1, 2, 2))
disk = X[:, 1:] / (1.0 + X[:, :1])
right.ax_.scatter(*disk.T, s=2, color="0.6", zorder=1.5)
figure.tight_layout()

# %%
# The same ball, and noise on the manifold itself.

for law in ("gaussian", "laplace", "k-norm"):
    drawn = PrivateFrechetMean(plane, radius=1.5, mechanism=law, epsilon=0.3).fit(X)
    print(f"{law}: {float(plane.dist(drawn.mean_, mean.mean_)):.3f} away")
plt.show()
