"""What a private mean released, and the covariance of the mean that follows from it."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from skriemdp._random import public_generator
from skriemdp.geometry.base import Geometry
from skriemdp.inference.covariances import (
    coordinate_jacobian,
    factor,
    repair,
    sampled,
    symmetric_noise,
)
from skriemdp.inference.regions import ConfidenceRegion, region_threshold

__all__ = ["MeanInference"]

# Newton's matrix is kept away from directions in which the released moments say nothing.
_LEAST_HESSIAN, _LARGEST_HESSIAN = 0.5, 2.0
# Up to this dimension what curvature adds to the covariance is computed; above, it is simulated.
_LARGEST_TENSOR, _CURVED_DRAWS, _CHUNK = 256, 1024, 64


@dataclasses.dataclass(frozen=True, eq=False)
class MeanInference:
    """The released moments of records around a point; everything else is computed from them.

    Parameters
    ----------
    geometry : Geometry
    center : ndarray of shape ``geometry.shape``
        Public, or released before: where the records' normal coordinates v were taken.
    radius : float
        Bound that every v was shortened to.
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
        """Newton's matrix at `center`, ``I - K(M) / 3``, eigenvalues within [1/2, 2]."""
        moment = repair(self.second, self.second_noise)
        values, vectors = np.linalg.eigh(np.eye(len(moment)) - self._form(moment) / 3.0)
        return (vectors * np.clip(values, _LEAST_HESSIAN, _LARGEST_HESSIAN)) @ vectors.T

    @functools.cached_property
    def newton_step(self) -> np.ndarray:
        """Coordinates at `center` where the gradient of the mean squared distance vanishes."""
        return np.linalg.solve(self.hessian, self.first)

    @functools.cached_property
    def step(self) -> np.ndarray:
        """`newton_step`, shortened to `radius`: the released mean's coordinates at `center`."""
        length = float(np.linalg.norm(self.newton_step))
        return self.newton_step * min(1.0, self.radius / max(length, 1e-300))

    @functools.cached_property
    def mean(self) -> np.ndarray:
        """The released mean, a point."""
        return np.asarray(self.geometry.exp_coordinates(self.center, self.step))

    # -- its covariance -------------------------------------------------------------------------

    @functools.cached_property
    def spread(self) -> np.ndarray:
        """Released covariance of the records' coordinates at `center`, repaired."""
        noisy = self.second - np.outer(self.first, self.first)
        return repair(noisy + self.first_noise**2 * np.eye(len(self.first)), self.second_noise)

    @functools.cached_property
    def _curved(self) -> bool:
        return bool(np.any(self._form(np.eye(len(self.first)))))

    def _bends(self, rows: slice) -> np.ndarray:
        """Matrices B_i with ``(K(M) e)_i = <B_i, M>``: ``K(sym(u_i e'))``, as K is selfadjoint."""
        unit = np.eye(len(self.step))[rows]
        pairs = unit[:, :, None] * self.step
        return self._form((pairs + np.swapaxes(pairs, 1, 2)) / 2.0)

    @functools.cached_property
    def _slope(self) -> np.ndarray:
        """Derivative of ``v + K(v v') e / 3`` by v, at the mean of v."""
        dim = len(self.first)
        slope = np.eye(dim)
        if self._curved:
            for start in range(0, dim, _CHUNK):
                rows = slice(start, start + _CHUNK)
                slope[rows] += (2.0 / 3.0) * self._bends(rows) @ self.first
        return slope

    @functools.cached_property
    def _curvature_terms(self) -> tuple[np.ndarray, np.ndarray]:
        """Covariances of ``K(X) e / 3``: for X = z z', z Gaussian as the records; for X = noise."""
        dim = len(self.first)
        if not self._curved:
            return np.zeros((dim, dim)), np.zeros((dim, dim))
        root = factor(self.spread)
        if dim <= _LARGEST_TENSOR:
            bends = self._bends(slice(None))
            inner = (root.T @ bends @ root).reshape(dim, -1)
            bends = bends.reshape(dim, -1)
            noise = bends @ bends.T * (self.second_noise**2 / 9.0)
            return inner @ inner.T * (2.0 / 9.0), noise
        rng = public_generator(0, "curved covariance", dim)
        totals = np.zeros((2, dim, dim))
        for _ in range(0, _CURVED_DRAWS, _CHUNK):
            z = rng.standard_normal((_CHUNK, dim)) @ root.T
            records = z[:, :, None] * z[:, None, :] - self.spread
            noise = self.second_noise * symmetric_noise(rng, _CHUNK, dim)
            for total, matrices in zip(totals, (records, noise), strict=True):
                moved = self._form(matrices) @ self.step / 3.0
                total += moved.T @ moved / _CURVED_DRAWS
        return totals[0], totals[1]

    def score_covariance(self, spread: np.ndarray) -> np.ndarray:
        """Covariance of ``first + K(second) step / 3``, sampling and noise.

        `spread` is what the records' covariance is taken to be; shape (..., dim, dim), as it is.
        """
        curved, noise = self._curvature_terms
        sampling = (self._slope @ spread @ self._slope.T + curved) / self.n
        counted = np.outer(self.first, self.first) * self.count_noise**2
        return sampling + noise + counted + self.first_noise**2 * np.eye(len(noise))

    @functools.cached_property
    def _to_mean(self) -> np.ndarray:
        return coordinate_jacobian(self.geometry, self.center, self.step)

    @functools.cached_property
    def score_to_mean(self) -> np.ndarray:
        """Matrix that takes an error of the score at `center` to coordinates at the mean."""
        return self._to_mean @ np.linalg.inv(self.hessian)

    @functools.cached_property
    def covariance(self) -> np.ndarray:
        """Covariance of the released mean, sampling and noise, in coordinates at the mean."""
        moved = self.score_to_mean
        return moved @ self.score_covariance(self.spread) @ moved.T

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
        return self.score_covariance(repair(noisy, self.second_noise))

    def region(self, level: float = 0.95, privacy: Any = None) -> ConfidenceRegion:
        """Region that holds the mean of the population with probability `level`.

        Parameters
        ----------
        level : float, default=0.95
        privacy : PrivacySpent, optional
            Of the fit, for reports.
        """
        return ConfidenceRegion(
            self.geometry,
            self.mean,
            self.covariance,
            region_threshold(self, level),
            level,
            subject=f"the Fréchet mean of the population projected on the ball of radius "
            f"{self.radius:.3g} that was used",
            privacy=privacy,
        )
