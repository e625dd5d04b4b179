"""Noisy covariances: what is left of them without their noise, and how they move between points."""

from __future__ import annotations

import math

import numpy as np

from skriemdp._random import public_generator
from skriemdp._validation import check_generator
from skriemdp.geometry._base import Geometry

# Number of vectors drawn for a Hessian, each an eigenproblem, up to each dimension; and vectors
# handled at once.
_HESSIAN_DRAWS = ((50, 300), (256, 50), (math.inf, 8))
_CHUNK = 64


def repair(matrix: np.ndarray, noise: float) -> np.ndarray:
    """A positive semidefinite estimate of a covariance that was released with symmetric noise.

    The part of the matrix without trace is shrunk by the share that the noise has in its squared
    norm (:func:`kept_share`), and negative eigenvalues become zero.

    Parameters
    ----------
    matrix : ndarray of shape (..., d, d)
        Symmetric.
    noise : float
        Standard deviation of the noise along every unit matrix: `noise` on the diagonal,
        ``noise / sqrt(2)`` off it.

    Returns
    -------
    ndarray of shape (..., d, d)
        For ``d = 1``, and where nothing but the trace is left, ``max(trace / d, 0)`` times the
        identity.
    """
    trace, deviation = parts(matrix)
    kept = kept_share(matrix, noise)[..., None, None]
    values, vectors = np.linalg.eigh(np.maximum(trace, 0.0) + kept * deviation)
    return (vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def kept_share(matrix: np.ndarray, noise: float) -> np.ndarray:
    """Factor by which :func:`repair` shrinks the trace-free part, shape (...): 1 without noise."""
    d = matrix.shape[-1]
    squared = np.asarray(np.sum(parts(matrix)[1] ** 2, axis=(-2, -1)))
    expected = noise**2 * (d * (d + 1) / 2 - 1)
    kept = np.zeros_like(squared)
    np.divide(squared - expected, squared, out=kept, where=squared > expected)
    return kept


def variances_along(values: np.ndarray, noise: float) -> np.ndarray:
    """Variances along the eigenvectors of a noisy covariance, without what noise adds to them.

    For large d an eigenvalue ``b + t`` above a mean b of the others, ``t > noise sqrt(d / 2)``, is
    seen at ``b + g``, ``g = t + d noise^2 / (2 t)``, and its vector with the squared cosine ``1 - d
    noise^2 / (2 t^2)`` (Benaych-Georges and Nadakuditi 2011).  So the variance along that vector is
    ``b + t - d noise^2 / (2 t) = b + sqrt(g^2 - 2 d noise^2)``.  What is within ``sqrt(2 d) noise``
    of the others tells nothing apart, and all of these get their mean.  The sum stays the trace,
    whose noise has mean zero.

    Parameters
    ----------
    values : ndarray of shape (d,)
        Of the released matrix, decreasing.
    noise : float
        As of :func:`repair`.

    Examples
    --------
    >>> variances_along(np.array([5.0, 1.2, 1.0, 0.8]), 0.1).round(3)
    array([4.987, 1.004, 1.004, 1.004])
    """
    d = len(values)
    edge, found = 2.0 * d * noise**2, np.full(d, float(values.mean()))
    for place in range(d - 1):
        rest = (values.sum() - found[:place].sum()) / (d - place)
        square = float(values[place] - rest) ** 2 - edge
        if values[place] <= rest or square <= 0.0:
            break
        found[place] = rest + math.sqrt(square)
        found[place + 1 :] = (values.sum() - found[: place + 1].sum()) / (d - place - 1)
    return found


def shares_of(variances: np.ndarray, total: float) -> np.ndarray:
    """Some variances over the total of all, each and together in [0, 1]."""
    known = np.maximum(variances, 0.0)
    return known / max(total, float(known.sum()), 1e-300)


def parts(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``tr(matrix) / d`` times the identity, and the rest; each of shape (..., d, d)."""
    d = matrix.shape[-1]
    trace = np.trace(matrix, axis1=-2, axis2=-1)[..., None, None] / d * np.eye(d)
    return trace, matrix - trace


def factor(covariance: np.ndarray) -> np.ndarray:
    """``L`` with ``L L' = covariance`` for positive semidefinite ones; shape (..., d, d)."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]


def symmetric_noise(rng: np.random.Generator, draws: int, d: int) -> np.ndarray:
    """Symmetric Gaussian matrices of unit standard deviation along every unit matrix.

    For the simulation of released numbers only: public randomness, shape (draws, d, d).
    """
    check_generator(rng)
    square = rng.standard_normal((draws, d, d))
    return (square + np.swapaxes(square, -1, -2)) / 2.0


def sampled(
    covariance: np.ndarray, n: float, noise: float, rng: np.random.Generator, draws: int
) -> np.ndarray:
    """Covariances as other samples of `n` records and other noise would release them.

    A sample covariance of Gaussian records is ``L (I + sqrt(2/n) G) L'`` up to terms of higher
    order in 1/n, G symmetric Gaussian noise of unit standard deviation.

    Returns
    -------
    ndarray of shape (draws, d, d)
        Not repaired.
    """
    d = len(covariance)
    root = factor(covariance)
    spread = root @ symmetric_noise(rng, draws, d) @ root.T * math.sqrt(2.0 / n)
    return covariance + spread + noise * symmetric_noise(rng, draws, d)


def hessian_draws(dim: int) -> int:
    """Vectors that :func:`mean_hessian` draws, each of which takes an eigenproblem."""
    return next(number for most, number in _HESSIAN_DRAWS if dim <= most)


def mean_hessian(
    geometry: Geometry, point: np.ndarray, covariance: np.ndarray, radius: float
) -> np.ndarray:
    """Mean second derivative of half the squared distance to records, at their mean.

    Records with coordinates v at `point` are taken for Gaussian.  With K the curvature form, one of
    them adds ``h(K(v v'))``, where ``h(x) = sqrt(x) cot sqrt(x)``: exact on symmetric spaces.  The
    terms of second order are those of the covariance itself, ``I - K(S) / 3``; the rest is an
    average over public, fixed draws (docs/theory/regions.md, "Its covariance").

    Parameters
    ----------
    geometry : Geometry
    point : ndarray of shape ``geometry.shape``
    covariance : ndarray of shape (dim, dim)
        Of the records' coordinates at `point`.
    radius : float
        No record lies farther off.

    Returns
    -------
    ndarray of shape (dim, dim)
        Eigenvalues are at least .36, and at most what curvature allows within `radius`.
    """
    dim = len(covariance)
    form = np.asarray(geometry.curvature_form(point, covariance))
    if not np.any(form):
        return np.eye(dim)
    draws = hessian_draws(dim)
    vectors = public_generator(0, "mean hessian", dim).standard_normal((draws, dim))
    vectors = vectors @ factor(covariance).T
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors *= np.minimum(1.0, radius / np.maximum(lengths, 1e-300))
    # Terms of second order are those of the covariance itself, not those of the draws.
    drawn = np.asarray(geometry.curvature_form(point, vectors.T @ vectors / draws))
    hessian = second_derivatives(geometry, point, vectors) + (drawn - form) / 3.0
    values, axes = np.linalg.eigh(hessian)
    bend = max(-geometry.curvature_bounds[0], 0.0) * radius**2
    largest = float(_second_derivative(np.array(-bend))) if bend < math.inf else math.inf
    # Least second derivative of half a squared distance in the widest ball for which regions exist:
    # estimates below are noise.
    return (axes * np.clip(values, 0.36, largest)) @ axes.T


def second_derivatives(geometry: Geometry, point: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Mean second derivative of half the squared distance to records with these coordinates.

    Parameters
    ----------
    geometry : Geometry
    point : ndarray of shape ``geometry.shape``
    vectors : ndarray of shape (m, dim)
        Normal coordinates at `point`.

    Returns
    -------
    ndarray of shape (dim, dim)
    """
    total = np.zeros((vectors.shape[1],) * 2)
    for start in range(0, len(vectors), _CHUNK):
        few = vectors[start : start + _CHUNK]
        forms = np.asarray(geometry.curvature_form(point, few[:, :, None] * few[:, None, :]))
        values, axes = np.linalg.eigh(forms)
        bent = axes * _second_derivative(values)[:, None, :]
        total += (bent @ np.swapaxes(axes, -1, -2)).sum(axis=0) / len(vectors)
    return total


def _second_derivative(values: np.ndarray) -> np.ndarray:
    """``sqrt(x) cot sqrt(x)``, and ``sqrt(-x) coth sqrt(-x)`` below zero."""
    root = np.sqrt(np.maximum(np.abs(values), 1e-12))
    near = np.minimum(root, math.sqrt(3.0))
    above = near / np.tan(near)
    return np.where(values > 0.0, above, root / np.tanh(root))


def coordinate_jacobian(geometry: Geometry, center: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Derivative of coordinates at ``exp_center(step)`` by coordinates at `center`, at `step`.

    Parameters
    ----------
    geometry : Geometry
    center : ndarray of shape ``geometry.shape``
    step : ndarray of shape (dim,)
        Normal coordinates at `center` of the new point.

    Returns
    -------
    ndarray of shape (dim, dim)
        J such that a covariance Q of normal coordinates at `center`, near `step`, is ``J Q J'`` in
        normal coordinates at the new point.  By central differences, 2 dim exponentials; exact
        on flat spaces.
    """
    dim, size = len(step), float(np.linalg.norm(step))
    if geometry.is_flat or size == 0.0:
        return np.eye(dim)
    low, high = geometry.curvature_bounds
    bend = max(abs(low), abs(high))
    if 0.0 < bend < math.inf:
        size = max(size, 1.0 / math.sqrt(bend))
    elif geometry.injectivity_radius < math.inf:
        size = max(size, geometry.injectivity_radius)
    width = float(np.finfo(float).eps) ** (1.0 / 3.0) * size
    point = geometry.exp_coordinates(center, step)
    moves = width * np.concatenate([np.eye(dim), -np.eye(dim)])
    moved = np.asarray(
        geometry.log_coordinates(point, geometry.exp_coordinates(center, step + moves))
    )
    return (moved[:dim] - moved[dim:]).T / (2.0 * width)


def transport_matrix(geometry: Geometry, point: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Parallel transport from `point` to `other` in orthonormal coordinates, shape (dim, dim).

    An isometry: a covariance Q at `point` becomes ``P Q P'`` at `other`.
    """
    basis = geometry.tangent_from_coordinates(point, np.eye(geometry.dim))
    moved = geometry.transport(point, other, basis)
    return np.asarray(geometry.coordinates_from_tangent(other, moved)).T


def largest_stretch(geometry: Geometry, center: np.ndarray, point: np.ndarray) -> float:
    """Largest factor by which a step at `center` moves `point`; infinite where floats end."""
    step = np.asarray(geometry.log_coordinates(center, point))
    jacobian = coordinate_jacobian(geometry, center, step)
    return float(np.linalg.norm(jacobian, 2)) if np.isfinite(jacobian).all() else math.inf
