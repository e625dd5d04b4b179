"""Finding the ball that holds the data, privately: zoom from a huge ball to a small one."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp.descent.queries import LogarithmQuery
from skriemdp.geometry.ball import GeodesicBall, center_reach
from skriemdp.geometry.base import Geometry
from skriemdp.mean.releases import exact_tangents
from skriemdp.mechanisms.quantile import PrivateQuantile
from skriemdp.mechanisms.sums import noisy_sum
from skriemdp.privacy.events import GaussianEvent

__all__ = ["BallSearch", "private_radius", "radius_grid", "within_reach"]

# Radii that a search may return: wide enough for covariances in any physical unit, fine enough that
# rounding up to the grid costs little.  Public, whatever the data.
_LARGEST, _RATIO, _COUNT = 300.0, 1.15, 127
# Zoom stages of a private centre: each shrinks the ball by about the noise of its rough mean, so
# three lead from covariances in squared volts (distance 100 from the identity) to unit radius.
_STAGES = 3
# Share of the search's mu**2 for each rough mean, and for each radius.
_MEAN_SHARE, _RADIUS_SHARE = 0.24, 0.07


def radius_grid(geometry: Geometry) -> np.ndarray:
    """Public, increasing grid of radii on `geometry`."""
    grid = _LARGEST * _RATIO ** -np.arange(_COUNT - 1.0, -1.0, -1.0)
    return grid[grid < 0.99 * geometry.radius_limit]


def radius_level(n: int, mu: float) -> float:
    """Quantile level whose radius balances clipping against noise (A.5 rule, public)."""
    return float(np.clip(1.0 - 12.0 / (n * mu), 0.6, 0.995))


def _safe_level(n: int, mu: float) -> float:
    """A level that noisy counts cannot mistake for "all records", which would return a huge radius.

    Four standard deviations of a count (seven counts share mu) below one, but at least a half.
    """
    return float(np.clip(1.0 - 4.0 * math.sqrt(7.0) / (n * mu), 0.5, 0.9))


def private_radius(geometry, mu: float, level: float) -> PrivateQuantile:
    """The mechanism that releases a radius holding about `level` of the records, mu-GDP in all."""
    return PrivateQuantile(tuple(radius_grid(geometry)), level, mu)


@dataclasses.dataclass(frozen=True)
class BallSearch:
    """Private centre and / or radius of a ball that holds most of the data.

    Parameters
    ----------
    geometry : Geometry
    n : int
        Number of records.
    mu : float
        Gaussian differential privacy parameter of the whole search.
    center : ndarray or None
        Public centre; None searches for one.
    radius : float or None
        Public radius; None searches for one.
    start : ndarray
        Public point from which a centre is searched.

    Notes
    -----
    *Guarantee*: mu-GDP under replace-one adjacency.  A radius comes from noisy counts (sensitivity
    one each).  A rough mean is the mean of the logarithms at a released point, each clipped to the
    released radius; it changes by at most twice that radius over n when a record is replaced, on
    any manifold.  Every later query is adaptive in what was released before, which Gaussian
    composition allows.
    """

    geometry: Geometry
    n: int
    mu: float
    center: np.ndarray | None
    radius: float | None
    start: np.ndarray

    @property
    def exact(self) -> bool:
        """Whether the logarithms are added in exact integers, as the counts are."""
        if self.center is not None:
            return True
        multiplier = 1.0 / (self.mu * math.sqrt(_MEAN_SHARE))
        return exact_tangents(self.geometry, [multiplier])

    @property
    def event(self) -> GaussianEvent:
        return GaussianEvent(1.0 / self.mu)

    def release(self, points, streams) -> GeodesicBall:
        """A ball; a function of noisy answers and public numbers only."""
        center, radius, cap = self.center, self.radius, math.inf
        if center is None:
            center, cap = self._zoom(points, streams)
        if radius is None:
            # What the centre did not use; the fractions of all stages add up to one.
            spent = _STAGES * (_MEAN_SHARE + _RADIUS_SHARE) if self.center is None else 0.0
            mu = self.mu * math.sqrt(1.0 - spent)
            level = radius_level(self.n, mu)
            quantile = private_radius(self.geometry, mu, level)
            distances = np.asarray(self.geometry.dist(center, points))
            radius = 1.1 * min(cap, quantile.release(distances, streams("ball radius")))
        radius = min(radius, 0.999 * self.geometry.radius_limit)
        return GeodesicBall(self.geometry, center, float(radius))

    def _zoom(self, points, streams):
        geometry, center, cap = self.geometry, self.start, math.inf
        scale = 1.0 if self.radius is None else 1.0 / (_STAGES * (_MEAN_SHARE + _RADIUS_SHARE))
        for stage in range(_STAGES):
            mu = self.mu * math.sqrt(_RADIUS_SHARE * scale)
            quantile = private_radius(geometry, mu, _safe_level(self.n, mu))
            distances = np.asarray(geometry.dist(center, points))
            # The new centre lies within the last radius, so twice that still holds its data.
            radius = min(cap, quantile.release(distances, streams("zoom radius", stage)))
            cap = 2.0 * radius
            mu = self.mu * math.sqrt(_MEAN_SHARE * scale)
            move = self._mean_log(center, points, radius, 1.0 / mu, streams("zoom mean", stage))
            moved = np.asarray(geometry.exp_coordinates(center, _shortened(move, radius)))
            # Noise much longer than the data can leave the range of floats; then stay.
            center = within_reach(geometry, moved) if bool(geometry.belongs(moved)) else center
        return center, cap

    def _mean_log(self, center, points, radius, noise_multiplier, rng):
        """Noisy mean of the logarithms at a released centre, each clipped to a released radius."""
        # The radius of a ball is limited where means must be unique; here it only clips.
        query = LogarithmQuery(self.geometry, center, radius, points)
        return noisy_sum(query, noise_multiplier, rng, exact=self.exact) / self.n


def within_reach(geometry, point):
    """`point`, or the point towards it where coordinates still keep their digits."""
    reach, base = center_reach(geometry), geometry.base_point
    if float(geometry.dist(base, point)) <= reach:
        return point
    seen = np.asarray(geometry.log_coordinates(base, point))
    return np.asarray(geometry.exp_coordinates(base, _shortened(seen, reach)))


def _shortened(vector, length):
    """Coordinates scaled to norm <= `length` (post-processing)."""
    norm = float(np.linalg.norm(vector))
    return vector * min(1.0, length / norm) if norm > 0 else vector
