"""
A private robust covariance: Tyler's estimator
==============================================

Tyler's M-estimator of scatter minimises ``log det S + p log(x' S^-1 x)`` on average over the
records x, on the manifold of positive definite matrices.  In the affine-invariant metric its
gradient at a record is ``S - p x x' / (x' S^-1 x)``, whose norm is ``sqrt(p (p - 1))`` for *every*
record and every S.  So there is nothing to clip, no bound to guess, and an outlier counts like
anyone else.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_robust_covariance.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateRiemannianERM
from skriemdp.geometry import SPD

# %%
# Directions with an elliptical distribution; a tenth of the records is replaced by large outliers.

p, n = 3, 5000
geometry = SPD(p)
rng = np.random.default_rng(0)
truth = np.array([[2.0, 0.8, 0.0], [0.8, 1.0, 0.3], [0.0, 0.3, 0.5]])
truth *= p / np.trace(truth)


def sample(outliers):
    X = rng.standard_normal((n, p)) @ np.linalg.cholesky(truth).T
    bad = rng.uniform(size=n) < outliers
    X[bad] = 30.0 * rng.standard_normal((bad.sum(), p)) * [0.1, 0.1, 1.0]
    return X


# %%
# The Riemannian gradient, batched.


def tyler(S, X, y):
    weights = p / np.einsum("ni,ij,nj->n", X, np.linalg.inv(S), X)
    return S - weights[:, None, None] * X[:, :, None] * X[:, None, :]


estimator = PrivateRiemannianERM(
    geometry,
    gradient=tyler,
    clip_norm=np.sqrt(p * (p - 1)),
    n_steps=15,
    step_size=0.4,
    epsilon=1.0,
)


def shape(S):
    """Scatter matrices are defined up to scale: compare them at trace p."""
    return S * p / np.trace(S)


# %%
# Non-private sample covariance against private Tyler, five repetitions.

shares = [0.0, 0.05, 0.1, 0.2]
covariance, private = [], []
for share in shares:
    rows = []
    for _ in range(5):
        X = sample(share)
        S = estimator.fit(X).point_
        rows.append([geometry.dist(truth, shape(np.cov(X.T))), geometry.dist(truth, shape(S))])
    covariance.append(np.mean(rows, axis=0)[0])
    private.append(np.mean(rows, axis=0)[1])

# %%

figure, axes = plt.subplots(figsize=(6, 4))
axes.plot(shares, covariance, marker="s", label="sample covariance, not private")
axes.plot(shares, private, marker="o", label="Tyler, (1, 1e-5)-private")
axes.axhline(
    float(geometry.dist(truth, np.eye(p))), color="0.5", linestyle=":", label="identity, no data"
)
axes.set_xlabel("share of outliers")
axes.set_ylabel("affine-invariant distance to the truth")
axes.set_yscale("log")
axes.legend()
plt.show()
