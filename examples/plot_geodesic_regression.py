"""
Directions against age, with error bars
=======================================

A direction on the sphere turns with age.  One private fit of the geodesic (epsilon = 1) gives the
curve and, at no further cost, regions of 95 % for it: sampling error and privacy noise together.
Beside it the curve without privacy.  Small dots are records.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_geodesic_regression.png"

import math

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateGeodesicRegressor
from skriemdp._regression.geodesic_model import GeodesicModel
from skriemdp.geometry import Sphere

sphere = Sphere(2)
rng = np.random.default_rng(0)
age = rng.uniform(20.0, 80.0, size=(3000, 1))
base = np.array([math.cos(0.3), 0.0, math.sin(0.3)])
turns = GeodesicModel(sphere, base, np.array([[0.018, 0.012]]))
residuals = 0.15 * rng.normal(size=(3000, 2))
y = sphere.exp_coordinates(turns.points(age - 50.0), residuals)

grid = np.linspace(20.0, 80.0, 61)[:, None]
shown = np.array([[20.0], [35.0], [50.0], [65.0], [80.0]])
private = PrivateGeodesicRegressor("sphere", epsilon=1.0).fit(age, y)

# Without privacy: the residuals of the curve must not depend on age.
open_ = GeodesicModel(sphere, base, np.zeros((1, 2)))
rows = np.concatenate([np.ones_like(age), age - 50.0], axis=1)
for _ in range(8):
    change = np.linalg.lstsq(rows, open_.residuals(age - 50.0, y), rcond=None)[0]
    open_ = open_.moved(change, math.inf)


def degrees(points):
    """Longitude and latitude."""
    x, y, z = np.moveaxis(points, -1, 0)
    return np.degrees(np.arctan2(y, x)), np.degrees(np.arcsin(np.clip(z, -1.0, 1.0)))


figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharex=True, sharey=True)
curves = (("epsilon = 1", private.predict(grid)), ("without privacy", open_.points(grid - 50.0)))
for ax, (title, curve) in zip(axes, curves, strict=True):
    ax.plot(*degrees(y[:600]), ".", color="0.8", markersize=2)
    ax.plot(*degrees(curve), color="C0", label="fitted")
    ax.plot(*degrees(turns.points(grid - 50.0)), "--", color="k", linewidth=1, label="true")
    ax.set(title=title, xlabel="longitude", ylabel="latitude")
for region in private.confidence_region(shown):
    axes[0].fill(*degrees(region.boundary(80)), color="C0", alpha=0.3)
axes[0].legend(loc="lower right")
figure.tight_layout()
plt.show()
