"""The releases of a private median, and the covariance of the median that follows from them."""

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
    hessian_draws,
    repair,
    sampled,
    second_derivatives,
    symmetric_noise,
)
from skriemdp.inference._regions import ConfidenceRegion, Inference

# Clipping bound of relative errors of second derivatives in simulations, whose inverse would
# otherwise be unbounded.
_WRONG = 0.9
# What reports say: benchmarks/median.py --part coverage.
_CONSERVATIVE = (
    "It is conservative: of a few hundred records its axes are up to 3.5 times as long as needed."
)


@dataclass(frozen=True, eq=False)
class MedianInference(Inference):
    """Released second derivatives and directions at a point; everything else follows from them.

    Parameters
    ----------
    geometry : Geometry
    center : ndarray of shape ``geometry.shape``
        Released before: where the records' normal coordinates v were taken, d their lengths.
    scale : float
        Released before: about the median of d.
    smooth : float
        s, released before: distances below it count as ``d^2 / (2 s) + s / 2``.
    bends : ndarray of shape (dim + 1, dim + 1)
        Released mean of ``c (u, 1)(u, 1)'``, ``c = min(1, s / d)``, u the direction ``v / d``, zero
        for d below s.
    bends_noise : float
        Standard deviation of its noise along every unit matrix.
    directions : ndarray of shape (dim + 1, dim + 1)
        Released mean of ``(w, 1)(w, 1)'``, ``w = v / max(d, s)``.
    directions_noise : float
        As `bends_noise`.
    n : float
        Number of records.
    clipped_median : ndarray of shape ``geometry.shape``, optional
        The median, where the step leads out of the public ball or the range of floats.

    Notes
    -----
    The median solves ``mean w = 0``: the sandwich ``H^-1 V H^-1 / n`` is its covariance, V that of
    w and H the second derivative of the mean distance (docs/theory/mean-iteration.md, "Medians").
    Everything here is post-processing of the parameters.
    """

    geometry: Geometry
    center: np.ndarray
    scale: float
    smooth: float
    bends: np.ndarray
    bends_noise: float
    directions: np.ndarray
    directions_noise: float
    n: float
    clipped_median: np.ndarray | None = None

    # -- the median -----------------------------------------------------------------------------

    @functools.cached_property
    def first(self) -> np.ndarray:
        """Released mean direction."""
        return self.directions[:-1, -1]

    @property
    def first_noise(self) -> float:
        """Standard deviation of the noise of its entries."""
        return self.directions_noise / math.sqrt(2.0)

    @functools.cached_property
    def spread(self) -> np.ndarray:
        """Covariance of the directions, repaired."""
        noisy = self.directions[:-1, :-1] - np.outer(self.first, self.first)
        noisy = noisy + self.first_noise**2 * np.eye(len(self.first))
        return repair(noisy, self.directions_noise)

    @property
    def weight(self) -> float:
        """Mean of c."""
        return float(np.clip(self.bends[-1, -1], 0.25 * self.smooth / self.scale, 1.0))

    @property
    def distance(self) -> float:
        """Harmonic mean of the distances of the records."""
        return self.smooth / self.weight

    @functools.cached_property
    def hessian(self) -> np.ndarray:
        """Second derivative of the mean distance at `center`."""
        dim, weight = len(self.first), self.weight
        flat = weight * np.eye(dim) - self.bends[:-1, :-1]
        # Where noise hides the difference, as if directions were uniform: eigenvalues of noise are
        # at most about its standard deviation times the root of 2 dim.
        even = weight * max(1.0 - 1.0 / dim, 0.4) * np.eye(dim)
        values, axes = np.linalg.eigh(flat - even)
        hidden = 2.0 * (dim + 1) * self.bends_noise**2 / np.maximum(values**2, 1e-300)
        flat = even + (axes * np.maximum(1.0 - hidden, 0.0) * values) @ axes.T
        values, axes = np.linalg.eigh(flat + weight * self._curvature)
        # Eigenvalues have a floor, over the mean inverse distance.
        return (axes * np.maximum(values, 0.1 * weight)) @ axes.T / self.smooth

    @functools.cached_property
    def _curvature(self) -> np.ndarray:
        """Contribution of curvature to `hessian`, times `distance`, for records that far away."""
        dim = len(self.first)
        unit = np.eye(dim)
        if not np.any(self.geometry.curvature_form(self.center, unit)):
            return 0.0 * unit
        rng = public_generator(0, "median hessian", dim)
        vectors = rng.standard_normal((hessian_draws(dim), dim))
        # Round noise keeps a noisy second moment from being singular.
        vectors = vectors @ factor(self.spread + 1e-3 / dim * unit).T
        vectors *= self.distance / np.linalg.norm(vectors, axis=1, keepdims=True)
        return second_derivatives(self.geometry, self.center, vectors) - unit

    @functools.cached_property
    def step(self) -> np.ndarray:
        """Newton's step from `center`, no longer than `scale`."""
        step = np.linalg.solve(self.hessian, self.first)
        return step * min(1.0, self.scale / max(float(np.linalg.norm(step)), 1e-300))

    @functools.cached_property
    def mean(self) -> np.ndarray:
        """The released median, a point."""
        return self.moved if self.clipped_median is None else self.clipped_median

    @functools.cached_property
    def moved(self) -> np.ndarray:
        """The centre after the step."""
        return np.asarray(self.geometry.exp_coordinates(self.center, self.step))

    # -- its covariance -------------------------------------------------------------------------

    def score_covariance(self, spread: np.ndarray) -> np.ndarray:
        """Covariance of the mean direction, sampling and noise; and of ``H step``, by errors of H.

        `spread` is what the directions' covariance is taken to be; shape (..., dim, dim).
        """
        bends = 1.5 * self.bends_noise**2 + self.weight / self.n
        noise = self.first_noise**2 + bends * float(self.step @ self.step) / self.smooth**2
        return spread / self.n + noise * np.eye(len(self.first))

    def simulated_covariances(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        """Covariances of the score that other samples and noise would have released.

        Shape (draws, dim, dim).  Another H' makes of a covariance C of the score what
        ``(H H'^-1) C (H'^-1 H)`` makes with H.
        """
        dim = len(self.first)
        unit = np.eye(dim)
        noisy = sampled(self.spread, self.n, self.directions_noise, rng, draws)
        scores = self.score_covariance(repair(noisy, self.directions_noise))
        # c lies in [0, 1]: its variance is at most that of zeros and ones.
        relative = math.sqrt((1.0 - self.weight) / (self.n * self.weight))
        wrong = relative * symmetric_noise(rng, draws, 1) * unit
        noise = symmetric_noise(rng, draws, dim) + symmetric_noise(rng, draws, 1) * unit
        wrong = wrong + self.bends_noise / self.smooth * np.linalg.solve(self.hessian, noise)
        inverse = np.linalg.inv(unit + np.clip(wrong, -_WRONG, _WRONG))
        return np.swapaxes(inverse, -1, -2) @ scores @ inverse

    # -- what is told ---------------------------------------------------------------------------

    def region(self, level: float = 0.95, privacy: Any = None) -> ConfidenceRegion:
        """Region that holds the geometric median of the population with probability `level`."""
        subject = "the geometric median of the population"
        return self._region(level, subject=subject, privacy=privacy, remark=_CONSERVATIVE)
