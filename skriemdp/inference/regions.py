"""Confidence regions on a manifold: ellipsoids in the tangent space at a private mean."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln
from scipy.stats import chi2

from skriemdp._random import public_generator
from skriemdp._validation import check_count, check_fraction
from skriemdp.geometry.base import Geometry

if TYPE_CHECKING:
    from skriemdp.inference.moments import MeanInference

__all__ = ["ConfidenceRegion", "region_threshold"]

# Covariances drawn, and values of the form for each.
_DRAWS, _VALUES = 50, 200


@dataclasses.dataclass(frozen=True, eq=False)
class ConfidenceRegion:
    """The points x with ``u' covariance^-1 u <= threshold``, u the coordinates of x at `center`.

    Parameters
    ----------
    geometry : Geometry
    center : ndarray of shape ``geometry.shape``
        The private estimate.
    covariance : ndarray of shape (dim, dim)
        Of the estimate, sampling and noise together, in orthonormal coordinates at `center`.
    threshold : float
    level : float
        Probability with which the region holds what is estimated.
    n : float
        Number of records.
    guarantee : str
        What the numbers are protected by, in words.
    public : tuple of str
        What had to be public, in words.
    """

    geometry: Geometry
    center: np.ndarray
    covariance: np.ndarray
    threshold: float
    level: float
    n: float = math.nan
    guarantee: str = ""
    public: tuple[str, ...] = ()

    @functools.cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(self.covariance)
        return np.maximum(values[::-1], 0.0), vectors[:, ::-1]

    @property
    def semi_axes(self) -> np.ndarray:
        """Half lengths of the axes, longest first, in geodesic distance; shape (dim,)."""
        return np.sqrt(self.threshold * self._spectrum[0])

    @property
    def axes(self) -> np.ndarray:
        """Tangent vectors at `center` to the ends of the axes; shape (dim, *point_shape)."""
        coordinates = (self._spectrum[1] * self.semi_axes).T
        return np.asarray(self.geometry.tangent_from_coordinates(self.center, coordinates))

    @property
    def log_volume(self) -> float:
        """Logarithm of the volume of the ellipsoid in the tangent space."""
        d = len(self.covariance)
        unit = 0.5 * d * math.log(math.pi) - float(gammaln(0.5 * d + 1.0))
        return unit + float(np.sum(np.log(self.semi_axes)))

    def contains(self, X: np.ndarray) -> np.ndarray:
        """Whether each point of X, shape (..., *point_shape), lies in the region."""
        coordinates = np.asarray(self.geometry.log_coordinates(self.center, np.asarray(X)))
        values, vectors = self._spectrum
        form = np.sum((coordinates @ vectors) ** 2 / values, axis=-1)
        return form <= self.threshold

    def boundary(self, n: int = 200) -> np.ndarray:
        """`n` points of the region's edge, in order, first and last alike; two dimensions only."""
        check_count(n=n)
        if self.geometry.dim != 2:
            raise ValueError(
                f"boundary draws regions of two dimensions, got {self.geometry} of dimension "
                f"{self.geometry.dim}; use semi_axes and axes."
            )
        angle = np.linspace(0.0, 2.0 * np.pi, n)[:, None]
        first, second = (self._spectrum[1] * self.semi_axes).T
        coordinates = np.cos(angle) * first + np.sin(angle) * second
        return np.asarray(self.geometry.exp_coordinates(self.center, coordinates))

    def __str__(self) -> str:
        return f"{self.level:.0%} confidence region"


def region_threshold(inference: MeanInference, level: float) -> float:
    """Size of a region of probability `level`, by simulation from released numbers.

    The covariance of the estimate is itself estimated, so the chi-square quantile would be too
    small.  Released numbers are taken as the truth, covariances are released anew from them, and
    the form of the error in each is a weighted sum of chi-squares.  The randomness is public and
    fixed: the same fit gives the same region.
    """
    check_fraction(level=level)
    truth = inference.score_covariance(inference.spread)
    d = len(truth)
    rng = public_generator(0, "confidence region", d)
    released = inference.simulated_covariances(rng, _DRAWS)
    weights = np.linalg.eigvals(np.linalg.solve(released, truth)).real
    values = rng.standard_normal((_DRAWS, _VALUES, d)) ** 2 @ weights[:, :, None]
    return float(max(np.quantile(values, level), chi2.ppf(level, d)))
