"""
The mean shape of made-up outlines
==================================

Landmarks in the plane have a shape: what is left when place, size and direction do not matter.  It
is a point of Kendall's shape space, a curved manifold on which `PrivateFrechetMean` and
`PrivateTangentPCA` work as on any other.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_planar_shapes.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateTangentPCA, frechet_mean
from skriemdp.geometry import PlanarShapes

# %%
# Outlines of 3000 made-up leaves by 16 landmarks each.  Leaves are bent more or less, and each was
# photographed at its own place, in its own direction and size.

rng = np.random.default_rng(0)
n, k = 3000, 16
angles = 2 * np.pi * np.arange(k) / k
bend, width = 0.5 * rng.standard_normal((n, 1)), 1 + 0.15 * rng.standard_normal((n, 1))
along = 3 * np.cos(angles) + 0.05 * rng.standard_normal((n, k))
across = width * np.sin(angles) + 0.12 * bend * along**2 + 0.05 * rng.standard_normal((n, k))
turn, size = rng.uniform(0, 2 * np.pi, (n, 1)), rng.uniform(0.5, 2, (n, 1))
X = size[..., None] * np.stack(
    [
        np.cos(turn) * along - np.sin(turn) * across + 8 * rng.standard_normal((n, 1)),
        np.sin(turn) * along + np.cos(turn) * across + 8 * rng.standard_normal((n, 1)),
    ],
    axis=-1,
)

# %%
# One fit at (1, 1e-5) gives the mean shape and the directions in which shapes vary most.  Nothing
# is passed as public: where the shapes are is found with a part of the budget.

space = PlanarShapes(k)
pca = PrivateTangentPCA(1, "shapes", epsilon=1.0).fit(X)
exact = frechet_mean(space.canonical(X), space)
print("distance to the mean without privacy:", round(float(space.dist(pca.mean_, exact)), 4))

# %%
# Left: records as they come.  Middle: the private mean and the one without privacy.  Right: two
# standard deviations to either side along the private first component, which is the bend.


def drawn(shape, like):
    """`shape` turned to `like`, and closed."""
    z, w = shape @ [1, 1j], like @ [1, 1j]
    z = z * np.exp(1j * np.angle(np.vdot(z, w)))
    return np.append(z, z[0])


upright = space.canonical(np.stack([3 * np.cos(angles), np.sin(angles)], axis=-1))
figure, axes = plt.subplots(1, 3, figsize=(10, 3))
for record in X[:12]:
    closed = np.append(record @ [1, 1j], record[0] @ [1, 1j])
    axes[0].plot(closed.real, closed.imag, linewidth=1)
axes[0].set_title("records")
for shape, style, label in ((exact, "k:", "without privacy"), (pca.mean_, "-", "private")):
    line = drawn(shape, upright)
    axes[1].plot(line.real, line.imag, style, label=label)
axes[1].set_title("mean shape")
axes[1].legend(loc="center", fontsize="small", frameon=False)
step = 2 * np.sqrt(pca.explained_variance_[0])
for sign in (-1, 1):
    (end,) = pca.inverse_transform(np.array([[sign * step]]))
    line = drawn(end, upright)
    axes[2].plot(line.real, line.imag, label=f"{2 * sign:+d} sd")
axes[2].set_title("first component")
axes[2].legend(loc="center", fontsize="small", frameon=False)
for each in axes:
    each.set_aspect("equal")
    each.set_axis_off()
plt.show()
