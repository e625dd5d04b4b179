"""
pymanopt's manifolds and optimizers, with privacy
=================================================

A study in pymanopt has a manifold, a cost and an optimizer.  The cost is a mean over records; as a
``PerSampleProblem`` it keeps them apart, and private optimizers can bound what each of them moves.
Here a bilinear form ``x' W z`` of rank two is learned from 400 measurements, on pymanopt's
manifold of matrices of fixed rank, whose points are three arrays.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_pymanopt.png"

import matplotlib.pyplot as plt
import numpy as np
from pymanopt.manifolds import FixedRankEmbedded

from skriemdp import PrivacyAccountant
from skriemdp.pymanopt_optimizers import (
    PerSampleProblem,
    PrivateGradientDescent,
    PrivateStochasticGradientDescent,
)

rng = np.random.default_rng(0)
truth = np.outer([1.0, 0.0, 0.0, 0.5], [1.0, 0.0, 0.5]) - np.outer([0.0, 1.0, 0, 0], [0, 1.0, 0])
X = rng.standard_normal((400, 7))  # x and z, side by side
y = np.einsum("ij,jk,ik->i", X[:, :4], truth, X[:, 4:]) + 0.1 * rng.standard_normal(400)

# %%
# Derivatives by the three arrays, of a block of records at once.  A cost of one record in autograd
# or jax would do, and takes longer.


def derivatives(point, X, y):
    u, s, vt = point
    left, right = X[:, :4] @ u, X[:, 4:] @ vt.T
    error = (np.sum(left * s * right, axis=1) - y)[:, None]
    by_u = X[:, :4, None] * (error * s * right)[:, None, :]
    return by_u, error * left * right, (error * s * left)[:, :, None] * X[:, None, 4:]


problem = PerSampleProblem(FixedRankEmbedded(4, 3, 2), None, (X, y), euclidean_gradient=derivatives)
start = np.eye(4, 2), np.array([0.5, 0.4]), np.eye(2, 3)

# %%
# Each run is charged as a whole, before a record is read.

optimizers = {
    "all records": (PrivateGradientDescent, (), 10),
    "batches of 100": (PrivateStochasticGradientDescent, (100,), 10),
}
epsilons = [1.0, 8.0]
settings = {"clip_norm": 3.0, "step_size": 0.6, "verbosity": 0}
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
with PrivacyAccountant(epsilon=20.0, delta=1e-5) as budget:
    for name, (optimizer, batch, steps) in optimizers.items():
        errors = []
        for epsilon in epsilons:
            run = optimizer(*batch, epsilon=epsilon, max_iterations=steps, **settings)
            u, s, vt = run.run(problem, initial_point=start).point
            errors.append(np.linalg.norm(u @ np.diag(s) @ vt - truth) / np.linalg.norm(truth))
        axes.loglog(epsilons, errors, "o-", label=name)
print(budget.spent)
axes.set(xlabel="epsilon, delta = 1e-5", ylabel="relative error of the form")
axes.legend()
plt.show()
