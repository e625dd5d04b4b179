"""
A private dictionary on the Stiefel manifold
============================================

Records are sparse combinations of unknown orthonormal atoms.  The frame W that maximises the mean
of ``sum_j (w_j' x)^4`` has the atoms as columns: sparse signals have heavy tails along them.  The
gradient is written out here; a cost of one record for torch or jax would do as well.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_dictionary_direction.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateRiemannianERM
from skriemdp.geometry import Stiefel

# %%
# Twenty thousand records in R^6, each a combination of a few of three atoms.

geometry = Stiefel(6, 3)
rng = np.random.default_rng(0)
atoms = np.linalg.qr(rng.standard_normal((6, 3)))[0]
codes = rng.standard_normal((20_000, 3)) * (rng.uniform(size=(20_000, 3)) < 0.25)
X = codes @ atoms.T + 0.05 * rng.standard_normal((20_000, 6))


def fourth_moment(W, X, y):
    return -(X[:, :, None] * (X @ W)[:, None, :] ** 3)


def overlap(W):
    """Smallest over the atoms of the best match with a column, one for a perfect dictionary."""
    return np.abs(atoms.T @ W).max(axis=1).min()


# %%
# The problem is not convex: one public random start.  Trying several and keeping the best on the
# data would be one more query to pay for.

start = np.linalg.qr(np.random.default_rng(3).standard_normal((6, 3)))[0]
paths = {}
for epsilon in (0.5, 2.0, 8.0):
    path = [overlap(start)]
    PrivateRiemannianERM(
        geometry,
        euclidean_gradient=fourth_moment,
        start=start,
        clip_norm=2.0,
        n_steps=80,
        step_size=0.6,
        retraction=True,
        epsilon=epsilon,
        callback=lambda step, W, path=path: path.append(overlap(W)),
    ).fit(X)
    paths[epsilon] = path

# %%
# The callback sees released frames only, so following the run costs nothing.

figure, axes = plt.subplots(figsize=(6, 4))
for epsilon, path in paths.items():
    axes.plot(path, label=f"epsilon = {epsilon:g}")
axes.axhline(overlap(start), color="0.5", linestyle=":", label="start, no data")
axes.set_xlabel("step")
axes.set_ylabel("overlap with the worst-matched atom")
axes.set_ylim(0, 1.02)
axes.legend()
plt.show()
