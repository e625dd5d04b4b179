"""Points of a manifold, as the search for centre and scale asks for them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from skriemdp._groups import Groups
from skriemdp._warnings import warn_user
from skriemdp.curator.tables import Memory
from skriemdp.descent.groups import GroupedProblem
from skriemdp.descent.problem import FrechetProblem, Problem
from skriemdp.geometry._tiles import map_tiles
from skriemdp.geometry.ball import GeodesicBall, center_reach
from skriemdp.geometry.base import Geometry
from skriemdp.gives.points import Length, LogAt, logarithms_at
from skriemdp.location_scale.search import Found, LocationScaleSearch, Radii, Shares, search_shares
from skriemdp.mechanisms.units import Units

# Ratio of the grid of radii: fine enough that rounding to it costs little; a convention.
_RATIO = 1.1
# Smallest and largest radius that can be found, in natural units: a convention.
_LEAST, _MOST = 1e-5, 1e3
# The same in spaces without a natural unit, up and down.
_WIDEST = 1e12
# Prior medians of the first radius in negative and positive curvature, in curvature radii.
_NEGATIVE, _POSITIVE = 1.5, 0.6
# Further steps towards data far off in negative curvature: how many at most; the angle by which
# noise may turn one, in radians; and n mu of the radius between two of them (benchmarks/raw_data.py
# --part means).
_FURTHER, _ANGLE, _FAR_COUNT = 8, 0.45, 7.0
# Shares of mu**2: what a search with further steps may cost in all; up to _FEW dimensions, where
# the last noise is often Laplace and cannot use what is left, they add at most _FAR_FEW.
_FAR_TOTAL, _FEW, _FAR_FEW = 0.65, 5, 0.1
# From this n mu on a rough mean in negative curvature has the smaller share _CHEAPER of mu**2.
_MANY, _CHEAPER = 200.0, 0.04
# Radii that were found stay this factor below the limit of the geometry: a convention.
_BELOW = 0.999


def radii(geometry: Any) -> Radii:
    """What is public about radii on `geometry`."""
    low, high = geometry.curvature_bounds
    bend = math.sqrt(-low) if -math.inf < low < 0.0 else 0.0
    known, limit = geometry.reach, geometry.radius_limit
    if known.diameter < math.inf:
        typical = _POSITIVE * known.unit if known.typical is None else known.typical
        median = min(typical, 0.25 * known.diameter)
        grid = _grid(_LEAST * known.unit, known.diameter)
        return Radii(grid, median, known.diameter, ball=known.ball)
    if known.typical is not None:
        return Radii(_grid(_LEAST, _MOST), known.typical, bend=known.bend * bend)
    if limit < math.inf:
        median = min(_POSITIVE, 0.5 * limit)
        return Radii(_grid(1e-5 * limit, _BELOW * limit), median, _BELOW * limit)
    if bend > 0.0 and high <= 0.0 and not geometry.factors:
        return Radii(_grid(_LEAST / bend, _MOST / bend), _NEGATIVE / bend, bend=bend)
    return Radii(_grid(1.0 / _WIDEST, _WIDEST), bend=bend)


@functools.lru_cache(maxsize=64)
def _grid(low: float, high: float) -> tuple[float, ...]:
    """Geometric grid that ends at `high`."""
    count = math.ceil(math.log(high / low) / math.log(_RATIO))
    return tuple((high * _RATIO ** -np.arange(count, -1.0, -1.0)).tolist())


def plan_point_search(
    geometry: Geometry,
    n: int,
    mu: float,
    center: np.ndarray | None = None,
    radius: float | None = None,
) -> LocationScaleSearch:
    """A search on `geometry` for what is None of `center` and `radius`.

    Parameters
    ----------
    geometry : Geometry
    n : int
    mu : float
        Of the whole fit, of which the search takes its shares.
    center, radius : ndarray, float or None
        Public, or None.

    Raises
    ------
    ValueError
        Where integers would be too coarse for some sum.
    """
    from skriemdp.location_scale.start_releases import start_rule

    rule, known = start_rule(geometry, n, mu), center is not None
    t = n * mu
    shares = search_shares(
        t,
        start=0.0 if rule is None else rule.share,
        center_known=known,
        radius_known=radius is not None,
    )
    if rule is not None and geometry.reach.diameter < math.inf:
        # From a mean in the surrounding space one step leads as near as two.
        shares = dataclasses.replace(shares, rounds=min(shares.rounds, 1))
    known_radii = radii(geometry)
    if shares.rounds and known_radii.bend > 0.0:
        shares = _with_further(shares, geometry.dim, t)
    return LocationScaleSearch(
        n, geometry.dim, mu, shares, known_radii, center=center, radius=radius, rule=rule
    )


def _with_further(shares: Shares, dim: int, t: float) -> Shares:
    """`shares`, and steps towards data far off in negative curvature, where t allows some.

    Such data are reached in several steps or not at all: how far one may go grows like the
    logarithm of its share alone, so many cheap steps go farther than few.
    """
    if t >= _MANY:
        shares = dataclasses.replace(shares, move=_CHEAPER)
    elif dim <= _FEW:
        return shares
    stride = max(dim * (2.0 / (_ANGLE * t)) ** 2, 1e-3) if t > 1.0 else math.inf
    far_radius = min(max((_FAR_COUNT / t) ** 2, 2e-3), shares.radius) if t > 1.0 else shares.radius
    most = _FAR_TOTAL if dim > _FEW else shares.total + _FAR_FEW
    room = most - shares.total - shares.radius - shares.move
    further = min(int(max(room, 0.0) / (stride + far_radius)), _FURTHER)
    if further == 0:
        return shares
    return dataclasses.replace(shares, further=further, stride=stride, far_radius=far_radius)


def warn_direction(found: Found) -> None:
    """Warn, from released numbers, when the data favour no place of a compact manifold."""
    # Noise alone would show a mean of length 1; below, no direction was seen.
    if found.direction is not None and found.direction < 1.5:
        warn_user(
            "no direction stands out of the noise, so the mean need not be unique and the result "
            "may lie anywhere; use more records or a larger epsilon, or pass a public center."
        )


class Points:
    """Points of a manifold, as a search asks for them."""

    def __init__(self, geometry: Geometry):
        self.geometry = geometry

    @property
    def origin(self) -> np.ndarray:
        """Where a search begins whose start is public."""
        return self.geometry.base_point

    def seen(self, center: np.ndarray) -> LogAt:
        """Normal coordinates at `center`."""
        return LogAt(self.geometry, np.asarray(center))

    def distance(self, center: np.ndarray) -> Length:
        """Distances to `center`."""
        return Length(self.seen(center))

    def move(self, center: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """The point seen from `center` at `vector`, or `center` where floats cannot hold that."""
        moved = np.asarray(self.geometry.exp_coordinates(center, vector))
        # Noise much longer than the data can leave the range of floats; then stay.
        if not np.isfinite(moved).all() or not bool(self.geometry.belongs(moved)):
            return center
        return within_reach(self.geometry, moved)


class PointRecords(Points):
    """Private points, or people who own several; of fits that are no programs yet.

    A person is seen from a centre as the mean of the logarithms of own points there
    (docs/theory/groups.md).

    Parameters
    ----------
    geometry : Geometry
    points : ndarray of shape (n_rows, *geometry.shape)
    planned : int, optional
        How many records there are, for what is released; n by default, where that is public.
    noise : float, default=0.0
        Of that number, where it was released.
    groups : Groups, optional
        Whose the points are.
    """

    def __init__(
        self,
        geometry: Geometry,
        points: np.ndarray,
        planned: int | None = None,
        noise: float = 0.0,
        groups: Groups | None = None,
    ):
        super().__init__(geometry)
        self.points, self.groups, self.noise = points, groups, noise
        self.table = Memory(points, groups=groups, planned=planned)
        self.n, self.dim, self.planned = self.table.n, geometry.dim, self.table.planned

    def distances(self, center: np.ndarray) -> Iterator[np.ndarray]:
        """Distances of all records to `center`."""
        return self.table.numbers(self.distance(center))

    def logarithms(self, center: np.ndarray) -> tuple[Units, Callable[..., np.ndarray]]:
        """The records, and what gives them as seen from `center`."""
        return self.table.asked(self.seen(center))

    def vectors(self, center: np.ndarray) -> np.ndarray:
        """All records as they are seen from `center`, shape (n, dim)."""
        known = self.table.known(self.seen(center))
        if known is None:
            known = np.asarray(map_tiles(logarithms_at(self.geometry, center), self.points))
        return known

    def gradients(self, ball: GeodesicBall) -> Problem:
        """Half the mean squared distance in `ball`.

        Gradients of people are means of own rows', whose bounds are enforced on the mean alone.
        """
        if self.groups is None:
            return self.inside(ball)[0]
        return GroupedProblem(FrechetProblem(ball, self.points), self.groups)

    def inside(self, ball: GeodesicBall) -> tuple[FrechetProblem, int]:
        """The problem of the records' projections on `ball`, and how many lie outside."""
        return self.table.inside(ball)

    def outside(self, center: np.ndarray, radius: float) -> int:
        """Non-private: number of records farther from `center` than `radius`."""
        return self.table.beyond(self.distance(center), radius)


def within_reach(geometry: Geometry, point: np.ndarray) -> np.ndarray:
    """`point`, or the point towards it where coordinates still keep their digits."""
    reach, base = center_reach(geometry), geometry.base_point
    distance = float(geometry.dist(base, point))
    if distance <= reach:
        return point
    seen = np.asarray(geometry.log_coordinates(base, point))
    return np.asarray(geometry.exp_coordinates(base, seen * (reach / distance)))
