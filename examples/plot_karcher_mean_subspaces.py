"""
A private mean of subspaces
===========================

Each record is a plane in R^8, for instance the span of the two leading directions of one person's
measurements.  Their Karcher mean lives on a Grassmann manifold.  The default cost of
`PrivateRiemannianERM` is half the squared distance, so it finds means on any manifold.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_karcher_mean_subspaces.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateFrechetMean, PrivateRiemannianERM
from skriemdp.geometry import Grassmann, Stiefel

# %%
# Planes scattered around a true one.

geometry = Grassmann(8, 2)
rng = np.random.default_rng(0)
truth = np.linalg.qr(rng.standard_normal((8, 2)))[0]
X = geometry.exp_coordinates(truth, 0.15 * rng.standard_normal((5000, geometry.dim)))

# %%
# Frames, whose order counts, have a space of their own.

frames = Stiefel(8, 2)
F = frames.exp_coordinates(truth, 0.05 * rng.standard_normal((500, frames.dim)))
mean = PrivateFrechetMean(frames, center=truth, radius=1.0).fit(F)
print(f"distance to the true frame: {float(frames.dist(mean.mean_, truth)):.3f}")

# %%
# A start must be public: here a rough guess at distance 0.8 from the truth.  Clipping to norm one
# bounds what any one record can do.

start = geometry.exp_coordinates(truth, np.full(geometry.dim, 0.8 / np.sqrt(geometry.dim)))


def error(epsilon, **settings):
    model = PrivateRiemannianERM(
        geometry,
        start=start,
        clip_norm=1.0,
        n_steps=8,
        step_size=0.8,
        epsilon=epsilon,
        **settings,
    )
    return geometry.dist(model.fit(X).point_, truth)


# %%
# Full batches against Poisson batches of a tenth of the records, five repetitions each.  At a small
# budget they are alike; at a larger one full batches win, because batches vary on their own.

epsilons = [0.25, 0.5, 1.0, 2.0, 4.0]
full = [[error(epsilon) for _ in range(5)] for epsilon in epsilons]
sampled = [[error(epsilon, batch_size=500) for _ in range(5)] for epsilon in epsilons]

# %%

figure, axes = plt.subplots(figsize=(6, 4))
for values, label in ((full, "full batch"), (sampled, "Poisson batches of 500")):
    axes.loglog(epsilons, np.mean(values, axis=1), marker="o", label=label)
axes.axhline(float(geometry.dist(start, truth)), color="0.5", linestyle=":", label="start, no data")
axes.set_xticks(epsilons, epsilons)
axes.minorticks_off()
axes.set_xlabel("epsilon (delta = 1e-5)")
axes.set_ylabel("distance to the true plane")
axes.legend()
plt.show()
