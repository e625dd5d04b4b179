"""Post-processing of moments of features and residuals: a better model, and its error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2

from skriemdp._location_scale.points import radii
from skriemdp._random import public_generator
from skriemdp._regression.geodesic_model import GeodesicModel
from skriemdp._regression.planning import clip_norms
from skriemdp.geometry._base import Geometry
from skriemdp.inference._covariances import factor, repair, sampled, transport_matrix

# Made-up records, in pairs, on which the curvature of the space is seen; at least so many per row
# of the model.
_DRAWS, _PER_ROW = 128, 4
# Of these pairs Newton's matrix sees the first; at least so many per row of the model.
_MATRIX_DRAWS, _MATRIX_PER_ROW = 32, 2
# Newton's matrix shortens or lengthens a step by at most these factors: its noise is not followed
# further.
_LEAST, _LARGEST = 0.5, 2.0
# Made-up records are believed where the root mean square of the data is so many radii of curvature
# at most, and where they move a change by no more than this part of it.
_STRAIGHT, _NEAR = 1.0, 0.5
# Draws for the mean second derivative, and the dimension from which on there are only as many as
# that: time against noise.
_HESSIAN_DRAWS, _FEW_DIMENSIONS = 300, 50
# Steps of difference quotients, over the radius of the data.
_DIFFERENCE = 1e-4
# Simulated covariances of residuals for a threshold, and errors for each: time against noise.
_COVARIANCES, _ERRORS = 50, 200


@dataclass(frozen=True, eq=False)
class Gram:
    """Noisy second moment of the rows ``(1, z)``.

    Parameters
    ----------
    matrix : ndarray of shape (k, k)
        A sum over the records.
    noise : float
        Standard deviation along every unit matrix.
    """

    matrix: np.ndarray
    noise: float

    def pooled(self, other: Gram | None) -> Gram:
        """Average of two releases of one moment, by inverse variance."""
        if other is None:
            return self
        weight = other.noise**2 / (self.noise**2 + other.noise**2)
        matrix = weight * self.matrix + (1.0 - weight) * other.matrix
        return Gram(matrix, math.sqrt(weight) * self.noise)

    def inverse(self) -> tuple[np.ndarray, bool]:
        """Inverse with eigenvalues floored at twice their noise, and whether that changed any."""
        values, vectors = np.linalg.eigh(self.matrix)
        # Two standard deviations of the noise.
        floor = 2.0 * math.sqrt(len(values)) * self.noise
        kept = np.maximum(values, max(floor, 1e-300))
        return (vectors / kept) @ vectors.T, bool((values < kept).any())


@dataclass(frozen=True, eq=False)
class ReleasedMoments:
    """Noisy sums over `n` records of ``g g'``, ``g e'`` and ``e e'``, with ``g = (1, z)``.

    Parameters
    ----------
    n : int
    gram : Gram
    product : ndarray of shape (k, dim)
        e are residuals, in coordinates at the base point of a model.
    second : ndarray of shape (dim, dim)
    product_noise : float
        Standard deviation of every entry of `product`.
    second_noise : float
        Of `second`, along every unit matrix.
    """

    n: int
    gram: Gram
    product: np.ndarray
    second: np.ndarray
    product_noise: float
    second_noise: float


@dataclass(frozen=True, eq=False)
class ModelLaw:
    """Law of the error of a private model, from released numbers.

    Parameters
    ----------
    model : GeodesicModel
    n : int
    inverse : ndarray of shape (k, k)
        Of the second moment of the rows ``(1, z)``.
    spread : ndarray of shape (dim, dim)
        Covariance of residuals, repaired; coordinates at the model's base point.
    fixed : ndarray of shape (k, dim, k, dim)
        Covariance of the change of the model by noise.
    curvature_factor : ndarray of shape (k dim, k dim) or None
        From a change that flat space would need to the one that was made; None in flat space.
    spread_noise : float
        Standard deviation of the noise of `spread` along every unit matrix.
    reach : float
    """

    model: GeodesicModel
    n: int
    inverse: np.ndarray
    spread: np.ndarray
    fixed: np.ndarray
    curvature_factor: np.ndarray | None
    spread_noise: float
    reach: float

    def covariance(self) -> np.ndarray:
        """Covariance of base point and slopes, sampling and noise; shape (k, dim, k, dim)."""
        sampling = np.einsum("ij,ab->iajb", self.inverse, self.spread)
        total = sampling + self.fixed
        if self.curvature_factor is None:
            return total
        shape, size = total.shape, len(self.curvature_factor)
        return (
            self.curvature_factor @ total.reshape(size, size) @ self.curvature_factor.T
        ).reshape(shape)

    def covariances(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predictions ``(m, *shape)``, and covariances ``(m, dim, dim)`` in coordinates there."""
        geometry, total = self.model.geometry, self.covariance()
        points = self.model.points(features)
        if geometry.is_flat:
            rows = _with_ones(features)
            here = np.einsum("mi,iajb,mj->mab", rows, total, rows)
            carried = [transport_matrix(geometry, self.model.base, point) for point in points]
            moves = np.stack(carried)
            return points, moves @ here @ np.swapaxes(moves, 1, 2)
        slopes = self._derivatives(features, points)
        size = slopes.shape[-1]
        return points, slopes @ total.reshape(size, size) @ np.swapaxes(slopes, 1, 2)

    def _derivatives(self, features: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Derivatives of the predictions' coordinates by the model; shape (m, dim, k dim)."""
        shape, width = (len(self.inverse), len(self.spread)), _DIFFERENCE * self.reach
        log, columns = self.model.geometry.log_coordinates, []
        for index in np.ndindex(shape):
            change = np.zeros(shape)
            change[index] = width
            ends = [
                np.asarray(log(points, self.model.moved(sign * change, math.inf).points(features)))
                for sign in (1.0, -1.0)
            ]
            columns.append((ends[0] - ends[1]) / (2.0 * width))
        return np.stack(columns, axis=-1)

    def thresholds(self, features: np.ndarray, level: float) -> np.ndarray:
        """Value of the quadratic form that the error of a prediction keeps to; shape (m,).

        The chi-square quantile would be too small, because the covariance of the residuals is an
        estimate: it is drawn as other samples and other noise would have released it.  Public
        randomness: the same fit has the same thresholds.
        """
        dim, rows = len(self.spread), _with_ones(features)
        rng = public_generator(0, "geodesic regression, thresholds", dim)
        drawn = sampled(self.spread, self.n, self.spread_noise, rng, _COVARIANCES)
        drawn = repair(drawn, self.spread_noise)
        squares = rng.chisquare(1.0, (_COVARIANCES, _ERRORS, dim))
        shares = np.einsum("mi,ij,mj->m", rows, self.inverse, rows)
        noise = np.einsum("mi,iajb,mj->mab", rows, self.fixed, rows)
        least, found = chi2.ppf(level, dim), np.empty(len(rows))
        for place, (share, fixed) in enumerate(zip(shares, noise, strict=True)):
            root = np.linalg.cholesky(share * self.spread + fixed)
            weights = np.linalg.eigvalsh(root.T @ np.linalg.solve(share * drawn + fixed, root))
            values = squares @ weights[:, :, None]
            found[place] = max(float(np.quantile(values, level)), least)
        return found


def improved(
    model: GeodesicModel, moments: ReleasedMoments, gram: Gram, reach: float
) -> tuple[ModelLaw, bool]:
    """`model` moved to where its residuals do not depend on the features, and the error's law.

    Parameters
    ----------
    model : GeodesicModel
        Whose residuals `moments` are of.
    moments : ReleasedMoments
    gram : Gram
        The best estimate of the second moment of the rows ``(1, z)``.
    reach : float
        As for :meth:`GeodesicModel.moved`.

    Returns
    -------
    law : ModelLaw
    floored : bool
        Whether noise hides some combination of the features.
    """
    inverse, floored = gram.inverse()
    change, dim = inverse @ moments.product, moments.product.shape[1]
    lost = moments.product_noise**2 * float(np.trace(inverse)) * np.eye(dim)
    spread = (moments.second - moments.product.T @ change + lost) / moments.n
    spread_noise = moments.second_noise / moments.n
    spread = repair((spread + spread.T) / 2.0, spread_noise)
    fixed = _noise_covariance(inverse, change, moments.product_noise, gram.noise)
    curvature_factor = None
    if not model.geometry.is_flat:
        change, curvature_factor = _curved(model, change, gram, spread, moments.n, reach)
    better = model.moved(change, reach)
    carried = transport_matrix(model.geometry, model.base, better.base)
    spread = carried @ spread @ carried.T
    fixed = np.einsum("ca,iajb,db->icjd", carried, fixed, carried)
    if curvature_factor is not None:
        every = np.kron(np.eye(len(inverse)), carried)
        curvature_factor = every @ curvature_factor @ every.T
    law = ModelLaw(better, moments.n, inverse, spread, fixed, curvature_factor, spread_noise, reach)
    return law, floored


def shrunk(law: ModelLaw, gram: Gram) -> tuple[GeodesicModel, float, bool]:
    """The model of a law with its slopes drawn to zero, for predictions; post-processing.

    All of them by the part of the predictions' mean square that their errors explain, less what two
    of the largest errors do (James and Stein 1961; Bock 1975): with up to two slopes, or where one
    error outweighs the others, nothing is drawn.  The prediction at the mean of the features stays.

    Returns
    -------
    model : GeodesicModel
    kept : float
        What the slopes are multiplied by, in [0, 1].
    stands_out : bool
        Whether the predictions' mean square exceeds what errors alone make of it, by two of its
        standard deviations.
    """
    model, size = law.model, law.model.slopes.size
    if not size:  # a constant
        return model, 1.0, True
    mean = gram.matrix[0, 1:] / law.n
    root = factor(gram.matrix[1:, 1:] / law.n - np.outer(mean, mean))
    seen = float(np.sum((root.T @ model.slopes) ** 2))
    errors = np.einsum("ik,iajb,jl->kalb", root, law.covariance()[1:, :, 1:, :], root)
    values = np.linalg.eigvalsh(errors.reshape(size, size))
    explained, drawn = float(values.sum()), max(float(values.sum() - 2.0 * values[-1]), 0.0)
    kept = 1.0 - min(drawn / max(seen, 1e-300), 1.0)
    change = (kept - 1.0) * np.concatenate([-mean[None] @ model.slopes, model.slopes])
    most = explained + 2.0 * math.sqrt(2.0 * float(np.sum(values**2)))
    return model.moved(change, math.inf), kept, seen > most


def _curved(
    model: GeodesicModel, target: np.ndarray, gram: Gram, spread: np.ndarray, n: int, reach: float
) -> tuple[np.ndarray, np.ndarray]:
    """The change of a model in curved space for which flat space asks `target`; its derivative.

    Made-up records say it where the data are not much wider than the radius of curvature and what
    they say is near `target` (:func:`_bent`).  Elsewhere a model without slopes, which sees the
    records from their centre, is changed by `target`; and one with slopes by that over the Hessian
    of half the mean squared distance.
    """
    size = target.size
    # Mean squared length of what the model sees, as released.
    square = np.trace(spread) + np.trace(target.T @ gram.matrix @ target) / n
    if radii(model.geometry).divergence_rate * math.sqrt(max(float(square), 0.0)) <= _STRAIGHT:
        change, curvature_factor = _bent(model, target, *_made_up(gram, spread, n), reach)
        if np.linalg.norm(change - target) <= _NEAR * np.linalg.norm(target):
            return change, curvature_factor
    if not model.slopes.any():
        return target, np.eye(size)
    inverse = np.linalg.inv(_hessian(model.geometry, model.base, spread))
    return target @ inverse, np.kron(np.eye(len(target)), inverse)


def _hessian(geometry: Geometry, point: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Mean Hessian of half the squared distance to residuals of this covariance.

    Exact on symmetric spaces: a residual v adds ``h(K(v v'))``, K the curvature form and h(x) =
    ``sqrt(x) cot sqrt(x)``, at most at x = 3, and no less than its floor: moves are divided by it.
    """
    rng = public_generator(0, "geodesic regression, Hessian", len(spread))
    draws = _HESSIAN_DRAWS if len(spread) <= _FEW_DIMENSIONS else _FEW_DIMENSIONS
    vectors = rng.standard_normal((draws, len(spread))) @ factor(spread).T
    forms = geometry.curvature_form(point, vectors[:, :, None] * vectors[:, None, :])
    values, turns = np.linalg.eigh(np.asarray(forms))
    roots, most = np.maximum(np.sqrt(np.abs(values)), 1e-6), math.sqrt(3.0)
    bent = np.where(
        values > 0.0,
        np.minimum(roots, most) / np.tan(np.minimum(roots, most)),
        roots / np.tanh(roots),
    )
    # No step becomes longer than five times the gradient.
    bent = np.maximum(bent, 0.2)
    return np.mean((turns * bent[:, None, :]) @ np.swapaxes(turns, 1, 2), axis=0)


def _noise_covariance(
    inverse: np.ndarray, change: np.ndarray, product_noise: float, gram_noise: float
) -> np.ndarray:
    """Covariance of ``inverse (N - E change)``, N and E the noise of products and Gram matrix.

    E is symmetric with ``Cov(E_im, E_jl) = (t^2 / 2)(1_ij 1_ml + 1_il 1_mj)``, t = `gram_noise`, so
    with D = `change` ``Cov((E D)_ia, (E D)_jb) = (t^2 / 2)(1_ij (D'D)_ab + D_ja D_ib)``.
    """
    twice, both = inverse @ inverse, inverse @ change
    products = product_noise**2 * np.eye(change.shape[1])
    same = products + 0.5 * gram_noise**2 * change.T @ change
    crossed = 0.5 * gram_noise**2 * np.einsum("ja,ib->iajb", both, both)
    return np.einsum("ij,ab->iajb", twice, same) + crossed


def _bent(
    model: GeodesicModel,
    target: np.ndarray,
    features: np.ndarray,
    residuals: np.ndarray,
    reach: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The change whose made-up records show `target`, and its derivative by `target`.

    Records are made up from released numbers: features with the released mean and covariance, and
    residuals with the released covariance about the changed model.  What the old model sees of
    them, by the same least squares as of the private records, differs from the change by what
    curvature does; Newton's method takes that back.
    """

    def view(draws: Any) -> Callable[[np.ndarray], np.ndarray]:
        z, scatter = features[draws], residuals[draws]
        fit = np.linalg.pinv(_with_ones(z))

        def seen(change: np.ndarray) -> np.ndarray:
            points = model.moved(change, reach).scattered(z, scatter, model.base)
            found = model.residuals(z, points)
            return fit @ np.where(np.isfinite(found).all(axis=1)[:, None], found, 0.0)

        return seen

    # Both signs of each residual, so that in flat space the matrix is the identity.
    some, half = max(_MATRIX_DRAWS, _MATRIX_PER_ROW * len(target)), len(features) // 2
    seen, roughly = view(slice(None)), view(np.r_[:some, half : half + some])
    size, width = target.size, _DIFFERENCE * reach
    here, columns = roughly(target), []
    for unit in np.eye(size).reshape(size, *target.shape):
        columns.append(((roughly(target + width * unit) - here) / width).ravel())
    left, values, right = np.linalg.svd(np.stack(columns, axis=1))
    inverse = (right.T / np.clip(values, _LEAST, _LARGEST)) @ left.T
    change, missing = target, target - seen(target)
    for _ in range(3):
        trial = change + (inverse @ missing.ravel()).reshape(target.shape)
        still = target - seen(trial)
        if not np.linalg.norm(still) < np.linalg.norm(missing):
            break
        change, missing = trial, still
    return change, inverse


def _made_up(gram: Gram, spread: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and residuals with the released moments, each features with both signs."""
    k, dim = len(gram.matrix), len(spread)
    rng = public_generator(0, "geodesic regression, records", k, dim)
    mean = gram.matrix[0, 1:] / n
    covariance = gram.matrix[1:, 1:] / n - np.outer(mean, mean)
    white = rng.standard_normal((max(_DRAWS, _PER_ROW * k), k - 1))
    white -= white.mean(axis=0)
    white = white @ np.linalg.inv(np.linalg.cholesky(white.T @ white / len(white))).T
    features = clip_norms(mean + white @ factor(covariance).T, 1.0)
    residuals = rng.standard_normal((len(white), dim)) @ factor(spread).T
    return np.concatenate([features, features]), np.concatenate([residuals, -residuals])


def _with_ones(features: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones((len(features), 1)), features], axis=1)
