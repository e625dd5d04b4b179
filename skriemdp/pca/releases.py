"""Private releases of a principal subspace: one frozen settings object per mechanism."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp._random import public_generator
from skriemdp.descent.gradient_descent import RiemannianGradientDescent
from skriemdp.descent.queries import GradientQuery
from skriemdp.mechanisms.bingham import ExponentialDirection
from skriemdp.mechanisms.covariance import SymmetricGaussian
from skriemdp.mechanisms.sums import sum_sigma
from skriemdp.pca.bounds import product_quantile
from skriemdp.pca.problem import SubspaceProblem, frame_space
from skriemdp.privacy.sensitivity import (
    frame_product_sensitivity,
    interval_sensitivity,
    mean_sensitivity,
    second_moment_sensitivity,
)

__all__ = [
    "CovarianceRelease",
    "ExponentialRelease",
    "GradientRelease",
    "PowerRelease",
    "RefineRelease",
    "Subspace",
]

# Shares of mu**2 for the explained variances where no noisy matrix shows them: in the subspace, and
# in all.
_INSIDE_SHARE, _TOTAL_SHARE = 0.03, 0.02


@dataclasses.dataclass(frozen=True)
class Subspace:
    """A released subspace.

    Attributes
    ----------
    components : ndarray of shape (k, d)
        Orthonormal rows, by decreasing released variance.
    variances : ndarray of shape (k,)
        Released, not yet made nonnegative.
    total_variance : float
        Released trace.
    noise_scale : float
        Standard deviation of the noise of a coordinate of ``A w``, A the second moment, in the last
        release that the components come from; NaN where the noise is not additive.
    spectrum : ndarray of shape (d,) or None
        All eigenvalues of the released matrix, decreasing.
    spectrum_noise : float or None
        Standard deviation of the noise of that matrix's entries off the diagonal.
    """

    components: np.ndarray
    variances: np.ndarray
    total_variance: float
    noise_scale: float
    spectrum: np.ndarray | None = None
    spectrum_noise: float | None = None


@dataclasses.dataclass(frozen=True)
class CovarianceRelease:
    """Eigenvectors of the clipped second moment plus symmetric noise (Analyze Gauss).

    *Guarantee*: that of :class:`SymmetricGaussian` at sensitivity ``sqrt(2) row_norm^2 / n``; the
    eigenvectors and eigenvalues of the released matrix are post-processing, however many are used.
    Noise is isotropic in the Frobenius norm: the product with any unit vector has the noise of one
    private matrix-vector product with the whole budget, so iterating privately cannot gain.
    """

    n_components: int

    def release(self, rows, center, row_norm, budget, streams) -> Subspace:
        matrix, sigma = _noisy_matrix(rows, center, row_norm, budget.rest(), streams)
        return _from_matrix(matrix, sigma, self.n_components)


@dataclasses.dataclass(frozen=True)
class RefineRelease:
    """A noisy second moment, then one product with its eigenvectors, each record's term clipped.

    The terms ``|z| |W' z|`` are about ``sqrt(lambda trace)``, far below ``row_norm^2`` when the
    spectrum is flat, so one clipped product has much less noise than the matrix.

    *Guarantee*: adaptive Gaussian releases within one budget: the matrix as in
    :class:`CovarianceRelease`, a quantile from noisy counts, and a sum of terms of Frobenius norm
    at most C, of sensitivity ``min(2 C, diameter) / n``.
    """

    n_components: int
    matrix_share: float = 0.3
    quantile_share: float = 0.05
    level: float = 0.9

    def release(self, rows, center, row_norm, budget, streams) -> Subspace:
        mu = budget.take(self.matrix_share)
        matrix, sigma = _noisy_matrix(rows, center, row_norm, mu, streams)
        rough = _from_matrix(matrix, sigma, self.n_components)
        frame = rough.components.T
        bound = product_quantile(
            rows, center, row_norm, frame, budget, self.quantile_share, self.level, streams
        )
        product, scale = _noisy_product(
            rows, center, row_norm, frame, bound, budget.rest_noise, streams("product")
        )
        # The product is close to W times the eigenvalues, so its left singular vectors are ordered.
        frame = _signed(np.linalg.svd(product, full_matrices=False)[0])
        variances = np.einsum("ij,ij->j", frame, matrix @ frame)
        return dataclasses.replace(
            rough, components=frame.T, variances=variances, noise_scale=scale
        )


@dataclasses.dataclass(frozen=True)
class PowerRelease:
    """Block power iteration with clipped, noisy products; for d x d matrices too large to form.

    *Guarantee*: adaptive Gaussian releases within one budget, as in :class:`RefineRelease`.
    """

    n_components: int
    n_steps: int
    public_seed: int
    quantile_share: float = 0.06
    level: float = 0.8

    def release(self, rows, center, row_norm, budget, streams) -> Subspace:
        frame = _public_frame(rows.d, self.n_components, self.public_seed)
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) * budget.left / self.n_steps
        for step in range(self.n_steps):
            bound = product_quantile(
                rows,
                center,
                row_norm,
                frame,
                budget,
                share * self.quantile_share,
                self.level,
                streams,
                step,
            )
            noise = _at_share(budget, share * (1.0 - self.quantile_share))
            product, scale = _noisy_product(
                rows, center, row_norm, frame, bound, noise, streams("product", step)
            )
            frame = np.linalg.svd(product, full_matrices=False)[0]
        return _with_variances(frame, scale, rows, center, row_norm, budget, streams)


@dataclasses.dataclass(frozen=True)
class GradientRelease:
    """DP-RGD on the sphere, Stiefel or Grassmann manifold, or DP-PGD with ambient noise.

    *Guarantee*: that of :class:`RiemannianGradientDescent` on :class:`SubspaceProblem`.
    """

    n_components: int
    manifold: str
    n_steps: int
    step_size: float
    public_seed: int

    def release(self, rows, center, row_norm, budget, streams) -> Subspace:
        geometry, domain = frame_space(self.manifold, rows.d, self.n_components)
        problem = SubspaceProblem(geometry, rows, center, row_norm)
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) * budget.left
        solver = RiemannianGradientDescent(
            mu=budget.take(share),
            n_steps=self.n_steps,
            step_size=self.step_size / row_norm**2,
            domain=domain,
        )
        start = _public_frame(rows.d, self.n_components, self.public_seed)
        point = solver.solve(problem, start.reshape(geometry.shape), streams("descent"))
        query = GradientQuery(problem, point.reshape(geometry.shape))
        scale = sum_sigma(query, solver.noise_multipliers[-1]) / rows.n / 2.0
        frame = point.reshape(rows.d, -1)
        return _with_variances(frame, scale, rows, center, row_norm, budget, streams)


@dataclasses.dataclass(frozen=True)
class ExponentialRelease:
    """Directions from the exponential mechanism, one after the other; pure differential privacy.

    *Guarantee*: the epsilons of the directions and variances add up.  Each direction is drawn for
    the records projected off the earlier ones, which shortens them.
    """

    n_components: int

    def release(self, rows, center, row_norm, budget, streams) -> Subspace:
        gram = rows.clipped_gram(center, row_norm)
        share = (1.0 - _INSIDE_SHARE - _TOTAL_SHARE) * budget.left / self.n_components
        rest, frame = np.eye(rows.d), np.zeros((rows.d, 0))
        for index in range(self.n_components):
            # Coordinates of the orthogonal complement keep the law on its unit sphere.
            mechanism = ExponentialDirection(budget.take(share), row_norm)
            inside = mechanism.release(rest.T @ gram @ rest, streams("direction", index))[0]
            direction = rest @ inside
            frame = np.column_stack([frame, direction])
            rest = np.linalg.svd(frame, full_matrices=True)[0][:, index + 1 :]
        return _with_variances(frame, math.nan, rows, center, row_norm, budget, streams)


# -- parts --------------------------------------------------------------------------------------


def _noisy_matrix(rows, center, row_norm, mu, streams):
    sensitivity = mean_sensitivity(second_moment_sensitivity(row_norm), rows.n)
    mechanism = SymmetricGaussian(rows.d, sensitivity, 1.0 / mu)
    moment = rows.clipped_gram(center, row_norm) / rows.n
    return mechanism.release(moment, streams("second moment")), mechanism.sigma


def _from_matrix(matrix, sigma, k) -> Subspace:
    values, vectors = np.linalg.eigh(matrix)
    frame = _signed(vectors[:, ::-1][:, :k])
    return Subspace(
        components=frame.T,
        variances=values[::-1][:k],
        total_variance=float(np.trace(matrix)),
        noise_scale=sigma / math.sqrt(2.0),
        spectrum=values[::-1].copy(),
        spectrum_noise=sigma / math.sqrt(2.0),
    )


def _at_share(budget, share):
    return lambda sensitivity, dim: budget.noise(share, sensitivity, dim)


def _noisy_product(rows, center, row_norm, frame, bound, noise, rng):
    """Mean of ``z z' W``, terms clipped to Frobenius norm `bound`, plus noise; and its scale."""
    total = frame_product_sensitivity(row_norm, frame.shape[1], bound)
    mechanism = noise(mean_sensitivity(total, rows.n), frame.size)
    mean = rows.clipped_product(center, row_norm, frame, bound) / rows.n
    return mechanism.release(mean.ravel(), rng).reshape(frame.shape), mechanism.sigma


def _with_variances(frame, scale, rows, center, row_norm, budget, streams) -> Subspace:
    """Order the columns by their released variances, with what is left of the budget."""
    gram, total = rows.clipped_projected_gram(center, row_norm, frame)
    k = frame.shape[1]
    # Symmetric matrices as vectors: an isometry takes them to R^(k (k + 1) / 2).
    upper = np.triu_indices(k)
    weights = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    inside = budget.left * _INSIDE_SHARE / (_INSIDE_SHARE + _TOTAL_SHARE)
    square = interval_sensitivity(row_norm**2)
    moment = square if k == 1 else second_moment_sensitivity(row_norm)
    mechanism = budget.noise(inside, mean_sensitivity(moment, rows.n), len(weights))
    vector = gram[upper] * weights / rows.n
    noisy = mechanism.release(vector, streams("inside variance"))
    small = np.zeros((k, k))
    small[upper] = noisy / weights
    small = small + np.triu(small, 1).T
    # |z|^2 lies in [0, row_norm^2].
    mechanism = budget.rest_noise(mean_sensitivity(square, rows.n), 1)
    total = mechanism.release(np.array([total / rows.n]), streams("total variance"))
    values, vectors = np.linalg.eigh(small)
    frame = _signed(frame @ vectors[:, ::-1])
    return Subspace(frame.T, values[::-1], float(total[0]), scale)


def _signed(frame):
    """Columns with their largest entry positive; eigenvectors have no sign of their own."""
    largest = frame[np.argmax(np.abs(frame), axis=0), np.arange(frame.shape[1])]
    return frame * np.where(largest < 0, -1.0, 1.0)


def _public_frame(d, k, public_seed):
    """A uniformly random public frame, shape ``(d, k)``."""
    rng = public_generator(public_seed, "start of a private PCA", d, k)
    q, r = np.linalg.qr(rng.standard_normal((d, k)))
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)
