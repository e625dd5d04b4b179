"""What a private mean released, and the covariance of the mean that follows from it."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from skriemdp.geometry.base import Geometry
from skriemdp.inference.covariances import coordinate_jacobian, repair, sampled
from skriemdp.inference.regions import ConfidenceRegion, region_threshold

__all__ = ["MeanInference"]

# Newton's matrix is kept away from directions in which the released moments say nothing.
_LEAST_HESSIAN, _LARGEST_HESSIAN = 0.5, 2.0


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
    guarantee : str, default=""
        What the numbers are protected by, in words, for reports.
    public : tuple of str, default=()
        What had to be public, in words, for reports.

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
    guarantee: str = ""
    public: tuple[str, ...] = ()

    @functools.cached_property
    def hessian(self) -> np.ndarray:
        """Newton's matrix at `center`, ``I - K(M) / 3``, eigenvalues within [1/2, 2]."""
        moment = repair(self.second, self.second_noise)
        bend = np.asarray(self.geometry.curvature_form(self.center, moment))
        values, vectors = np.linalg.eigh(np.eye(len(bend)) - bend / 3.0)
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

    @functools.cached_property
    def spread(self) -> np.ndarray:
        """Released covariance of the records' coordinates at `center`, repaired."""
        noisy = self.second - np.outer(self.first, self.first)
        return repair(noisy + self.first_noise**2 * np.eye(len(self.first)), self.second_noise)

    @functools.cached_property
    def _bends(self) -> np.ndarray:
        """Matrices B_i with ``(K(M) e)_i = <B_i, M>``: ``K(sym(u_i e'))``, K being selfadjoint."""
        unit = np.eye(len(self.step))
        pairs = unit[:, :, None] * self.step
        pairs = (pairs + np.swapaxes(pairs, 1, 2)) / 2.0
        return np.asarray(self.geometry.curvature_form(self.center, pairs))

    def score_covariance(self, spread: np.ndarray) -> np.ndarray:
        """Covariance of ``first + K(second) step / 3`` if records had covariance `spread`.

        Sampling and noise; shape (..., dim, dim) as `spread`.
        """
        bends, first = self._bends, self.first
        slope = np.eye(len(first)) + (2.0 / 3.0) * bends @ first
        turned = bends @ spread[..., None, :, :]
        curved = np.einsum("...iab,...jba->...ij", turned, turned) * (2.0 / 9.0)
        sampling = slope @ spread @ slope.T + curved
        return sampling / self.n + self._noise

    @functools.cached_property
    def _noise(self) -> np.ndarray:
        bends = self._bends
        curved = np.einsum("iab,jab->ij", bends, bends) * (self.second_noise**2 / 9.0)
        counted = np.outer(self.first, self.first) * self.count_noise**2
        return self.first_noise**2 * np.eye(len(bends)) + curved + counted

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
        map_ = self.score_to_mean
        return map_ @ self.score_covariance(self.spread) @ map_.T

    @functools.cached_property
    def tangent_covariance(self) -> np.ndarray:
        """Covariance of the records, in coordinates at the mean."""
        return self._to_mean @ self.spread @ self._to_mean.T

    def simulated_covariances(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        """Covariances of the score that other samples and noise would have released.

        Shape (draws, dim, dim); public randomness from released numbers.
        """
        noisy = sampled(self.spread, self.n, self.second_noise, rng, draws)
        return self.score_covariance(repair(noisy, self.second_noise))

    def region(self, level: float = 0.95) -> ConfidenceRegion:
        """Region that holds the mean of the population with probability `level`."""
        threshold = region_threshold(self, level)
        return ConfidenceRegion(
            self.geometry,
            self.mean,
            self.covariance,
            threshold,
            level,
            self.n,
            self.guarantee,
            self.public,
        )

    def __reduce__(self) -> Any:
        fields = tuple(getattr(self, field.name) for field in dataclasses.fields(self))
        return type(self), fields
