"""The releases of a private mean, and the covariance of the mean that follows from them."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._random import public_generator
from skriemdp.geometry._base import Geometry
from skriemdp.inference._covariances import (
    factor,
    kept_share,
    mean_hessian,
    parts,
    repair,
    sampled,
    symmetric_noise,
)
from skriemdp.inference._regions import ConfidenceRegion, Inference, share_outside

# Largest dimension at which curvature's contribution to the covariance is computed exactly; number
# of draws for its simulation above; and rows of a tensor computed at once.
_LARGEST_TENSOR, _CURVED_DRAWS, _CHUNK = 256, 1024, 64


@dataclass(frozen=True, eq=False)
class MeanInference(Inference):
    """The released moments of records around a point; everything else is computed from them.

    Parameters
    ----------
    geometry : Geometry
    center : ndarray of shape ``geometry.shape``
        Public, or released before: where the records' normal coordinates v were taken.
    radius : float
        Bound that every v was clipped to.
    first : ndarray of shape (dim,)
        Released mean of v.
    second : ndarray of shape (dim, dim)
        Released mean of ``v v'``.
    n : float
        Number of records; of a class, the released number.
    first_noise : float
        Standard deviation of the noise of each entry of `first`.
    second_noise : float
        Standard deviation of the noise of `second` along every unit matrix: as it is on the
        diagonal, over ``sqrt(2)`` off it.
    count_noise : float, default=0.0
        Standard deviation of the noise of `n`, over n, where n was released (classes).

    Notes
    -----
    Derivations: docs/theory/regions.md.  Everything here is post-processing of the parameters.
    """

    geometry: Geometry
    center: np.ndarray
    radius: float
    first: np.ndarray
    second: np.ndarray
    n: float
    first_noise: float
    second_noise: float
    count_noise: float = 0.0

    # -- the mean -------------------------------------------------------------------------------

    def _form(self, moment: np.ndarray) -> np.ndarray:
        return np.asarray(self.geometry.curvature_form(self.center, moment))

    @functools.cached_property
    def hessian(self) -> np.ndarray:
        """Hessian of half the mean squared distance from the mean, in coordinates at `center`."""
        return mean_hessian(self.geometry, self.center, self.spread, self.radius)

    @functools.cached_property
    def step(self) -> np.ndarray:
        """The released mean's coordinates at `center`, no longer than `radius`.

        The mean is that of ``2 dim`` weighted points whose coordinates have the released moments:
        curvature bends their mean as it bends that of the records, for any distance from `center`,
        up to what fourth moments about the mean would add.  In flat spaces it is `first`.
        """
        step = self._clip_norms(self.first)
        if self.geometry.is_flat:
            return step
        values, vectors = np.linalg.eigh(self.spread)
        values = np.maximum(values, 0.0)
        # No distribution in the ball has a larger trace.
        size = min(float(values.sum()), max(self.radius**2 - float(step @ step), 0.0)) ** 0.5
        if size == 0.0:
            return step
        weights = np.concatenate([values, values]) / (2.0 * values.sum())
        moves = size * np.concatenate([vectors.T, -vectors.T])
        points = self.geometry.exp_coordinates(self.center, step + moves)
        mean = _weighted_mean(self.geometry, self.center, points, weights, step)
        return self._clip_norms(np.asarray(self.geometry.log_coordinates(self.center, mean)))

    def _clip_norms(self, vector: np.ndarray) -> np.ndarray:
        return vector * min(1.0, self.radius / max(float(np.linalg.norm(vector)), 1e-300))

    @functools.cached_property
    def mean(self) -> np.ndarray:
        """The released mean, a point."""
        return np.asarray(self.geometry.exp_coordinates(self.center, self.step))

    # -- its covariance -------------------------------------------------------------------------

    @functools.cached_property
    def spread(self) -> np.ndarray:
        """Released covariance of the records' coordinates at `center`, repaired."""
        return repair(self._noisy_spread, self.second_noise)

    @functools.cached_property
    def _noisy_spread(self) -> np.ndarray:
        noise = self.first_noise**2 * np.eye(len(self.first))
        return self.second - np.outer(self.first, self.first) + noise

    @functools.cached_property
    def _curved(self) -> bool:
        return bool(np.any(self._form(np.eye(len(self.first)))))

    def _bends(self, rows: slice) -> np.ndarray:
        """Matrices B_i with ``(K(M) e)_i = <B_i, M>``: ``K(sym(u_i e'))``, as K is selfadjoint."""
        unit = np.eye(len(self.step))[rows]
        pairs = unit[:, :, None] * self.step
        return self._form((pairs + np.swapaxes(pairs, 1, 2)) / 2.0)

    def _repaired(self, matrices: np.ndarray) -> np.ndarray:
        """Derivative of the repair of the covariance, applied to small changes; selfadjoint."""
        trace, deviation = parts(matrices)
        return trace + kept_share(self._noisy_spread, self.second_noise) * deviation

    @functools.cached_property
    def _curvature_terms(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Covariance terms of the score ``first + K(spread) step / 3`` from errors of `spread`.

        Covariances of ``K(X) e / 3`` for X = z z', z Gaussian as the records, and for X = noise;
        and the matrix that noise in `first` is multiplied by, as it enters `spread` too.

        With ``B_i`` of :meth:`_bends`, repaired, S = `spread` and noise E of standard deviation t
        along unit matrices these are ``(2/9) tr(B_i S B_j S)``, by Wick's formula, ``(t^2/9)
        <B_i, B_j>``, and ``I - (2/3) [m' B_i]``: noise h of the mean m moves S by ``-(h m' + m
        h')``.
        """
        dim, unit = len(self.first), np.eye(len(self.first))
        if not self._curved:
            return 0.0 * unit, 0.0 * unit, unit
        root, through = factor(self.spread), unit.copy()
        for start in range(0, dim, _CHUNK):
            rows = slice(start, start + _CHUNK)
            through[rows] -= (2.0 / 3.0) * self._repaired(self._bends(rows)) @ self.first
        if dim <= _LARGEST_TENSOR:
            bends = self._repaired(self._bends(slice(None)))
            inner = (root.T @ bends @ root).reshape(dim, -1)
            bends = bends.reshape(dim, -1)
            noise = bends @ bends.T * (self.second_noise**2 / 9.0)
            return inner @ inner.T * (2.0 / 9.0), noise, through
        rng = public_generator(0, "curved covariance", dim)
        totals = np.zeros((2, dim, dim))
        for _ in range(0, _CURVED_DRAWS, _CHUNK):
            z = rng.standard_normal((_CHUNK, dim)) @ root.T
            records = z[:, :, None] * z[:, None, :] - self.spread
            noise = self.second_noise * symmetric_noise(rng, _CHUNK, dim)
            for total, matrices in zip(totals, (records, noise), strict=True):
                moved = self._form(self._repaired(matrices)) @ self.step / 3.0
                total += moved.T @ moved / _CURVED_DRAWS
        return totals[0], totals[1], through

    def score_covariance(self, spread: np.ndarray) -> np.ndarray:
        """Covariance of ``first + K(spread) step / 3``, sampling and noise.

        `spread` is what the records' covariance is taken to be; shape (..., dim, dim), as it is.
        """
        curved, noise, through = self._curvature_terms
        # A wrong count scales both moments, and the mean's coordinates with them.
        counted = np.outer(self.step, self.step) * self.count_noise**2
        noise = noise + self.first_noise**2 * through @ through.T + counted
        return (spread + curved) / self.n + noise

    @functools.cached_property
    def tangent_covariance(self) -> np.ndarray:
        """Covariance of the records, in coordinates at the mean."""
        return self._to_mean @ self.spread @ self._to_mean.T

    # -- regions --------------------------------------------------------------------------------

    def simulated_covariances(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        """Covariances of the score that other samples and noise would have released.

        Shape (draws, dim, dim); public randomness from released numbers.
        """
        noisy = sampled(self.spread, self.n, self.second_noise, rng, draws)
        if self.count_noise > 0.0:
            # The square of the mean, which is taken off the second moment, is scaled twice.
            wrong = self.count_noise * symmetric_noise(rng, draws, 1)
            noisy = noisy + wrong * np.outer(self.first, self.first)
        return self.score_covariance(repair(noisy, self.second_noise))

    def region(
        self,
        level: float = 0.95,
        privacy: Any = None,
        *,
        clipped: tuple[float, float] | None = None,
        of: str = "the population",
    ) -> ConfidenceRegion:
        """Region that holds the mean of the population with probability `level`.

        Parameters
        ----------
        level : float, default=0.95
        privacy : PrivacySpent, optional
            Of the fit, for reports.
        clipped : tuple of float, optional
            Released share of records outside the ball and the standard deviation of its noise, for
            reports.
        of : str
            Whose mean it is, for reports.
        """
        outside = None
        if clipped is not None:
            outside = share_outside(*clipped, level)
        return self._region(
            level,
            subject=f"the Fréchet mean of {of}, whose points outside the ball of radius "
            f"{self.radius:.3g} that was used are moved onto its edge,",
            privacy=privacy,
            outside=outside,
        )


def _weighted_mean(
    geometry: Geometry,
    center: np.ndarray,
    points: np.ndarray,
    weights: np.ndarray,
    start: np.ndarray,
) -> np.ndarray:
    """Fréchet mean of a few weighted points; the start is in coordinates at `center`."""
    mean = np.asarray(geometry.exp_coordinates(center, start))
    rate, previous = 1.0, math.inf
    for _ in range(60):
        move = weights @ np.asarray(geometry.log_coordinates(mean, points))
        size = float(np.linalg.norm(move))
        if not size > 1e-13 * float(np.linalg.norm(start)):  # or not a number
            break
        if size > 0.7 * previous:
            rate = max(rate / 2.0, 1.0 / 64.0)  # negative curvature overshoots with full steps
        previous = size
        mean = np.asarray(geometry.exp_coordinates(mean, rate * move))
    return mean
