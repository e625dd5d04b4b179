"""Confidence regions on a manifold: ellipsoids in the tangent space at a private mean."""

from __future__ import annotations

import abc
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, ndtri
from scipy.stats import chi2

from skriemdp._config import check_bytes
from skriemdp._errors import PublicValueError
from skriemdp._quiet import QuietQueries, read_numbers
from skriemdp._random import public_generator
from skriemdp._validation import check_count, check_fraction
from skriemdp.geometry._base import Geometry
from skriemdp.inference._covariances import coordinate_jacobian

# Simulated covariances for a threshold, and values of the statistic for each: 10,000 values
# estimate its 95 % quantile; a compromise between time and noise.
_DRAWS, _VALUES = 50, 200


@dataclass(frozen=True, eq=False)
class ConfidenceRegion(QuietQueries):
    """The points x with ``u' covariance^-1 u <= threshold``, u the coordinates of x at `center`.

    ``str(region)`` is what a report says about it, in two or three sentences.

    Parameters
    ----------
    geometry : Geometry
    center : ndarray of shape ``geometry.shape``
        The private estimate.
    covariance : ndarray of shape (dim, dim)
        Of the estimate, sampling and noise together, in orthonormal coordinates at `center`.
    threshold : float
        Value of the quadratic form at the edge.
    level : float
        Probability, over samples and noise, with which such a region holds what is estimated.
    subject : str
        What is estimated, in words.
    privacy : PrivacySpent or None
        Guarantee of the fit that the region comes from.
    outside : float or None
        With probability `level`, over the noise, no larger share of the fit's records lay outside
        the ball and was moved onto its edge.  None where nothing was.
    remark : str
        What else a report says, in sentences.

    Notes
    -----
    A region is computed from released numbers and public ones, so it costs no budget.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Euclidean
    >>> from skriemdp.inference import ConfidenceRegion
    >>> region = ConfidenceRegion(Euclidean(2), np.zeros(2), np.diag([4.0, 1.0]), 6.0, 0.95)
    >>> region.contains(np.array([[4.8, 0.0], [0.0, 4.8]]))
    array([ True, False])
    >>> region.semi_axes.round(2)
    array([4.9 , 2.45])
    """

    geometry: Geometry
    center: np.ndarray
    covariance: np.ndarray
    threshold: float
    level: float
    subject: str = "the mean of the population"
    privacy: Any = None
    outside: float | None = None
    remark: str = ""

    @functools.cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(self.covariance)
        return values[::-1], vectors[:, ::-1]

    @property
    def semi_axes(self) -> np.ndarray:
        """Half lengths of the axes, longest first, in geodesic distance; shape (dim,)."""
        return np.sqrt(self.threshold * self._spectrum[0])

    @property
    def axes(self) -> np.ndarray:
        """Tangent vectors from `center` to the ends of the axes; shape (dim, *point_shape)."""
        coordinates = (self._spectrum[1] * self.semi_axes).T
        return np.asarray(self.geometry.tangent_from_coordinates(self.center, coordinates))

    @property
    def log_volume(self) -> float:
        """Logarithm of the volume that the region has in the tangent space at `center`."""
        d = len(self.covariance)
        unit = 0.5 * d * math.log(math.pi) - float(gammaln(0.5 * d + 1.0))
        return unit + float(np.sum(np.log(self.semi_axes)))

    def contains(self, X: Any) -> np.ndarray:
        """Whether each point lies in the region.

        Parameters
        ----------
        X : array-like of shape (..., *point_shape)

        Returns
        -------
        ndarray of bool, shape (...)

        Raises
        ------
        ValueError
            For points of another shape, of another manifold, or that are not finite.
        """
        points = read_numbers(X, "X")
        shape = self.geometry.shape
        if points.shape[points.ndim - len(shape) :] != shape:
            raise PublicValueError(
                f"X must hold points of shape {shape}, one of {self.geometry} each; got an array "
                f"of shape {points.shape}. Reshape flat rows to points."
            )
        if not np.asarray(self.geometry.belongs(points)).all():
            raise PublicValueError(
                f"some rows of X are not points of {self.geometry} (tolerance 1e-6); map them "
                "to the manifold first."
            )
        coordinates = np.asarray(self.geometry.log_coordinates(self.center, points))
        values, vectors = self._spectrum
        return np.sum((coordinates @ vectors) ** 2 / values, axis=-1) <= self.threshold

    def boundary(self, n: int = 200) -> np.ndarray:
        """Points of the edge of a region of two dimensions, in order, first and last alike.

        Parameters
        ----------
        n : int, default=200
            Number of points.

        Returns
        -------
        ndarray of shape (n, *point_shape)

        Raises
        ------
        ValueError
            In other dimensions.
        """
        check_count(n=n)
        check_bytes(64.0 * n * (2.0 + math.prod(self.geometry.shape)), f"n={n} points", "")
        if self.geometry.dim != 2:
            raise PublicValueError(
                f"the edge of a region is a curve in two dimensions only, and {self.geometry} has "
                f"{self.geometry.dim}; use semi_axes and axes."
            )
        angle = np.linspace(0.0, 2.0 * np.pi, n)[:, None]
        first, second = (self._spectrum[1] * self.semi_axes).T
        coordinates = np.cos(angle) * first + np.sin(angle) * second
        return np.asarray(self.geometry.exp_coordinates(self.center, coordinates))

    # -- in words -------------------------------------------------------------------------------

    def __str__(self) -> str:
        percent, estimate = f"{100.0 * self.level:.4g} %", self.geometry.in_words(self.center)
        return (
            f"The private estimate is {estimate}; with confidence {percent}, "
            f"{self.subject} lies in the region around it with {self._extent()}. "
            f"{self._moved(percent)}{self.remark and self.remark + ' '}{self._protection()}"
        )

    def _moved(self, percent: str) -> str:
        if self.outside is None:
            return ""
        return (
            f"With confidence {percent}, at most {_share(self.outside)} of the records lay outside "
            "that ball; the region does not say where the mean of the records is without that "
            "move. "
        )

    def _extent(self) -> str:
        words = self.geometry.lengths_in_words(self.semi_axes)
        if len(words) == 1:
            return f"half length {words[0]}"
        if len(words) > 4:
            return f"{len(words)} semi-axes between {words[-1]} and {words[0]}"
        return f"semi-axes {', '.join(words[:-1])} and {words[-1]}"

    def _protection(self) -> str:
        spent = self.privacy
        if spent is None:
            return "All of this follows from released and public numbers."
        promise = (
            f"({spent.epsilon:g}, {spent.delta:g})-differentially private under replacement of "
            f"one {spent.unit}"
        )
        if spent.seeded:
            promise = "not private, because random_state makes its noise reproducible"
        told = {k: v for k, v in spent.public.items() if k not in ("arithmetic", "releases")}
        facts = ", ".join(_fact(name, value) for name, value in told.items())
        return f"The release behind it is {promise}; public were {facts or 'no other facts'}."


def share_outside(share: float, noise: float, level: float) -> float:
    """Upper confidence bound of a released share, at `level`, over its noise."""
    return min(max(share, 0.0) + noise * float(ndtri(level)), 1.0)


def _share(share: float) -> str:
    """A share in per cent, never rounded down."""
    percent = min(100.0 * share, 100.0)
    digits = 0 if percent >= 10.0 else 1 - math.floor(math.log10(max(percent, 1e-4)))
    return f"{math.ceil(percent * 10**digits) / 10**digits:g} %"


def _fact(name: str, value: Any) -> str:
    """A public fact: its name, and its value where that is short."""
    number = isinstance(value, (bool, int, float, str))
    return f"{name}={value}" if number else name


class Inference(abc.ABC):
    """A released estimate, the errors of its score, and the region that follows from them."""

    @abc.abstractmethod
    def score_covariance(self, spread: np.ndarray) -> np.ndarray:
        """Covariance of the score, sampling and noise, if records had covariance `spread`."""

    @abc.abstractmethod
    def simulated_covariances(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        """Covariances of the score that other samples and noise would have released."""

    @functools.cached_property
    def _to_mean(self: Any) -> np.ndarray:
        return coordinate_jacobian(self.geometry, self.center, self.step)

    @functools.cached_property
    def score_to_mean(self: Any) -> np.ndarray:
        """Matrix that takes an error of the score at `center` to coordinates at `mean`."""
        return self._to_mean @ np.linalg.inv(self.hessian)

    @functools.cached_property
    def covariance(self: Any) -> np.ndarray:
        """Covariance of the released `mean`, sampling and noise, in coordinates at it."""
        moved = self.score_to_mean
        return moved @ self.score_covariance(self.spread) @ moved.T

    def _region(self: Any, level: float, **words: Any) -> ConfidenceRegion:
        threshold = region_threshold(self, level)
        return ConfidenceRegion(
            self.geometry, self.mean, self.covariance, threshold, level, **words
        )


def region_threshold(inference: Any, level: float) -> float:
    """Value of the quadratic form within which the mean lies with probability `level`.

    The covariance of the mean is itself an estimate, so the chi-square quantile would be too small.
    Here released numbers are taken for the truth, covariances are drawn as other samples and other
    noise would release them, and the form of the mean's error in each of them is a weighted sum of
    chi-squares, of which the quantile is taken.  The randomness is public and fixed: the same fit
    gives the same region (docs/theory/regions.md).

    Parameters
    ----------
    inference : Inference
    level : float

    Returns
    -------
    float
        At least the chi-square quantile.
    """
    check_fraction(level=level)
    d = len(inference.first)
    rng = public_generator(0, "confidence region", d)
    released = inference.simulated_covariances(rng, _DRAWS)
    root = np.linalg.cholesky(inference.score_covariance(inference.spread))
    weights = np.linalg.eigvalsh(root.T @ np.linalg.solve(released, root))
    values = rng.standard_normal((_DRAWS, _VALUES, d)) ** 2 @ weights[:, :, None]
    return float(max(np.quantile(values, level), chi2.ppf(level, d)))
