"""Points of a manifold, as the search for centre and scale asks for them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from skriemdp._arrays import row_squares
from skriemdp._descent.groups import GroupedProblem
from skriemdp._descent.problem import FrechetProblem, Problem
from skriemdp._groups import Groups
from skriemdp._location_scale.search import (
    BallEstimate,
    LocationScaleSearch,
    RadiusGrid,
    Shares,
    search_shares,
    until_near,
)
from skriemdp._mechanisms.units import Units
from skriemdp._warnings import warn_user
from skriemdp.geometry._ball import GeodesicBall, center_reach
from skriemdp.geometry._base import Geometry
from skriemdp.geometry._columns import MOST_COLUMNS
from skriemdp.geometry._tiles import map_tiles, one_by_one, tiles

# Ratio of the grid of radii: fine enough that rounding to it costs little; a convention.
_RATIO = 1.1
# Smallest and largest radius that can be found, in natural units: a convention.
_LEAST, _MOST = 1e-5, 1e3
# The same in spaces without a natural unit, up and down.
_WIDEST = 1e12
# Prior medians of the first radius in negative and positive curvature, in curvature radii.
_NEGATIVE, _POSITIVE = 1.5, 0.6
# Coordinates at the last centre are kept up to this size: distances and logarithms share them.
_KEPT_BYTES = 2**26
# Further steps towards data far off in negative curvature: how many at most; the angle by which
# noise may turn one, in radians; and n mu of the radius between two of them (benchmarks/raw_data.py
# --part means).
_MAX_FAR_STEPS, _ANGLE, _FAR_COUNT = 8, 0.45, 7.0
# Shares of mu**2: what a search with further steps may cost in all; up to _FEW dimensions, where
# the last noise is often Laplace and cannot use what is left, they add at most _FAR_FEW.
_FAR_TOTAL, _FEW, _FAR_FEW = 0.65, 5, 0.1
# From this n mu on a rough mean in negative curvature has the smaller share _CHEAPER of mu**2.
_MANY, _CHEAPER = 200.0, 0.04
# Below this n mu a search of R^d has larger shares: of few records a radius or a mean of less may
# lead anywhere (benchmarks/raw_data.py --part few).
_FEW_RECORDS, _FEW_RADIUS, _FEW_MOVE = 30.0, 0.12, 0.15
# Radii that were found stay this factor below the limit of the geometry: a convention.
_BELOW = 0.999


def radii(geometry: Any) -> RadiusGrid:
    """Return the public radii on `geometry`."""
    low, high = geometry.curvature_bounds
    divergence_rate = math.sqrt(-low) if -math.inf < low < 0.0 else 0.0
    known, limit = geometry.reach, geometry.radius_limit
    if known.diameter < math.inf:
        typical = _POSITIVE * known.unit if known.typical is None else known.typical
        median = min(typical, 0.25 * known.diameter)
        grid = _grid(_LEAST * known.unit, known.diameter)
        return RadiusGrid(grid, median, known.diameter, ball=known.ball)
    if known.typical is not None:
        return RadiusGrid(
            _grid(_LEAST, _MOST),
            known.typical,
            divergence_rate=known.divergence_rate * divergence_rate,
        )
    if limit < math.inf:
        median = min(_POSITIVE, 0.5 * limit)
        return RadiusGrid(_grid(1e-5 * limit, _BELOW * limit), median, _BELOW * limit)
    if divergence_rate > 0.0 and high <= 0.0 and not geometry.factors:
        return RadiusGrid(
            _grid(_LEAST / divergence_rate, _MOST / divergence_rate),
            _NEGATIVE / divergence_rate,
            divergence_rate=divergence_rate,
        )
    return RadiusGrid(_grid(1.0 / _WIDEST, _WIDEST), divergence_rate=divergence_rate)


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
    from skriemdp._location_scale.start_releases import start_rule

    rule, known = start_rule(geometry, n, mu), center is not None
    t = n * mu
    shares = search_shares(
        t,
        start=0.0 if rule is None else rule.share,
        center_known=known,
        radius_known=radius is not None,
    )
    compact = geometry.reach.diameter < math.inf
    if rule is not None and compact:
        # From a mean in the surrounding space one step leads as near as two.
        shares = dataclasses.replace(shares, rounds=min(shares.rounds, 1))
    if compact or geometry.is_flat:
        shares = until_near(shares, geometry.dim, t)
    if geometry.is_flat and rule is None and shares.rounds and t < _FEW_RECORDS:
        last = _FEW_RADIUS if shares.final else 0.0
        shares = Shares(0.0, _FEW_RADIUS, _FEW_MOVE, last, 2)
    known_radii = radii(geometry)
    if shares.rounds and known_radii.divergence_rate > 0.0:
        shares = _with_far_steps(shares, geometry.dim, t)
    return LocationScaleSearch(
        n, geometry.dim, mu, shares, known_radii, center=center, radius=radius, rule=rule
    )


def _with_far_steps(shares: Shares, dim: int, t: float) -> Shares:
    """`shares`, and steps towards data far off in negative curvature, where t allows some.

    Such data are reached in several steps or not at all: how far one may go grows like the
    logarithm of its share alone, so many cheap steps go farther than few.
    """
    if t >= _MANY:
        shares = dataclasses.replace(shares, move=_CHEAPER)
    elif dim <= _FEW:
        return shares
    far_step = max(dim * (2.0 / (_ANGLE * t)) ** 2, 1e-3) if t > 1.0 else math.inf
    far_radius = min(max((_FAR_COUNT / t) ** 2, 2e-3), shares.radius) if t > 1.0 else shares.radius
    most = _FAR_TOTAL if dim > _FEW else shares.total + _FAR_FEW
    room = most - shares.total - shares.radius - shares.move
    max_far_steps = min(int(max(room, 0.0) / (far_step + far_radius)), _MAX_FAR_STEPS)
    if max_far_steps == 0:
        return shares
    return dataclasses.replace(
        shares, max_far_steps=max_far_steps, far_step=far_step, far_radius=far_radius
    )


def logarithms_at(geometry: Geometry, center: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function to normal coordinates, bitwise independent of the other points."""

    return alone(geometry, functools.partial(geometry.log_coordinates, center))


def distances_to(geometry: Geometry, center: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Distances of all points to `center`, each from its own numbers alone, bitwise."""
    return np.asarray(alone(geometry, functools.partial(geometry.dist, center))(points))


def alone(geometry: Geometry, give: Callable[..., Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Return `give`, applied row by row where rows of `geometry` are not computed separately."""
    return give if geometry.separate_rows else one_by_one(give)


def warn_direction(found: BallEstimate) -> None:
    """Warn, from released numbers, when the data favour no place of a compact manifold."""
    # Noise alone would show a mean of length 1; below, no direction was seen.
    if found.direction is not None and found.direction < 1.5:
        warn_user(
            "no direction stands out of the noise, so the mean need not be unique and the result "
            "may lie anywhere; use more records or a larger epsilon, or pass a public center."
        )


class PointRecords:
    """Private points, or people who own several.

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
        self.geometry, self.points, self.groups, self.noise = geometry, points, groups, noise
        self.units = Units((points,), groups)
        self.n, self.dim = len(points) if groups is None else groups.count, geometry.dim
        self.planned = self.n if planned is None else planned
        # Where the points were seen from last, at which lengths, and as which rows.
        self._last_center: np.ndarray | None = None
        self._lengths = np.empty(0)
        self._rows: np.ndarray | None = None

    @functools.cached_property
    def squares(self) -> np.ndarray | None:
        """Those of the geometry, where it has some."""
        return self.geometry.squares(self.points) if self.geometry.quick_distances else None

    @property
    def _kept(self) -> bool:
        return 8 * self.planned * self.dim <= _KEPT_BYTES and not self.geometry.quick_distances

    @functools.cached_property
    def chart(self) -> np.ndarray | None:
        """Points in the chart of the geometry, where it has one and coordinates are kept."""
        return self.geometry.chart(self.points) if self._kept else None

    @property
    def origin(self) -> np.ndarray:
        return self.geometry.base_point

    def distances(self, center: np.ndarray) -> Iterator[np.ndarray]:
        if not _same(self._last_center, center):
            if self.groups is None:
                self._see(center)
            else:
                self._rows = self.vectors(center)
                self._lengths = _norms(self._rows)
            self._last_center = center
        yield self._lengths

    def lengths(self, center: np.ndarray) -> np.ndarray:
        """:meth:`distances`, in one array; nothing is kept for them that was not there before."""
        if self.groups is not None or _same(self._last_center, center):
            return next(self.distances(center))
        give = functools.partial(distances_to, self.geometry, center)
        return np.asarray(map_tiles(give, self.points))

    def _see(self, center: np.ndarray) -> None:
        """Distances of all points to `center`, and their logarithms where they are kept."""
        # Column by column where kernels compute that way.
        order: Literal["C", "F"] = "F" if self.dim <= MOST_COLUMNS else "C"
        self._rows = np.empty((self.n, self.dim), order=order) if self._kept else None
        self._lengths, begin = np.empty(self.n), 0
        points, give = self.points, logarithms_at(self.geometry, center)
        if self.chart is not None:
            points = self.chart
            give = functools.partial(_less, np.asarray(self.geometry.chart(center)))
        for block in tiles(points, 4 if self.geometry.quick_distances else 1):
            piece = slice(begin, begin + len(block))
            if self._rows is not None:
                self._rows[piece] = give(block)
                self._lengths[piece] = _norms(self._rows[piece])
            elif self.squares is not None:
                squares = self.squares[piece]
                self._lengths[piece] = self.geometry.distances(center, block, squares)
            else:
                self._lengths[piece] = distances_to(self.geometry, center, block)
            begin += len(block)

    def logarithms(self, center: np.ndarray) -> tuple[Units, Callable[..., np.ndarray]]:
        known = self.coordinates(center)
        if known is not None:
            return Units((known,)), lambda rows: rows
        return self.units, logarithms_at(self.geometry, center)

    def vectors(self, center: np.ndarray) -> np.ndarray:
        """All records as they are seen from `center`, shape (n, dim)."""
        units, give = self.logarithms(center)
        if self.groups is None:
            return np.asarray(map_tiles(give, units.arrays[0]))
        with np.errstate(all="ignore"):  # a warning would speak of records
            return np.concatenate(list(units.tiles(give, self.dim, "mean")))

    def gradients(self, ball: GeodesicBall) -> Problem:
        """Half the mean squared distance in `ball`.

        Gradients of people are means of own rows', whose bounds are enforced on the mean alone.
        """
        if self.groups is None:
            return self.inside(ball)[0]
        return GroupedProblem(FrechetProblem(ball, self.points), self.groups)

    def inside(self, ball: GeodesicBall) -> tuple[FrechetProblem, int]:
        """The problem of the records' projections on `ball`, and how many lie outside.

        Of people: each is the point where the centre sees them, clipped to the radius.
        """
        if self.groups is None:
            # One record at a time looks from there by itself.
            known = self.cached_at(ball.center) if self.geometry.separate_rows else ()
            return FrechetProblem.from_records(ball, self.points, *known)
        seen = self.vectors(ball.center)
        give = alone(self.geometry, functools.partial(self.geometry.exp_coordinates, ball.center))
        with np.errstate(all="ignore"):  # long ones are shortened before they count
            people = np.asarray(map_tiles(give, seen))
        return FrechetProblem.from_records(ball, people, seen)

    def outside(self, center: np.ndarray, radius: float) -> int:
        """Non-private: number of records farther from `center` than `radius`."""
        return int(sum(np.count_nonzero(~(r <= radius)) for r in self.distances(center)))

    def coordinates(self, center: np.ndarray) -> np.ndarray | None:
        """All records in normal coordinates at `center`, if they were computed there last."""
        return self._rows if _same(self._last_center, center) else None

    def cached_at(
        self, center: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray, np.ndarray | None]:
        """:meth:`coordinates`, if they are kept, :meth:`distances`, and the points' squares."""
        (lengths,) = self.distances(center)
        return self.coordinates(center), lengths, self.squares

    def cache_coordinates(self, center: np.ndarray, rows: np.ndarray) -> None:
        """Take `rows` for the points' normal coordinates at `center`."""
        self._last_center, self._rows, self._lengths = center, rows, _norms(rows)

    def move(self, center: np.ndarray, vector: np.ndarray) -> np.ndarray:
        moved = np.asarray(self.geometry.exp_coordinates(center, vector))
        # Noise much longer than the data can leave the range of floats; then stay.
        if not np.isfinite(moved).all() or not bool(self.geometry.belongs(moved)):
            return center
        return within_reach(self.geometry, moved)


def _less(origin: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return rows - origin


def _same(last: np.ndarray | None, center: np.ndarray) -> bool:
    return last is not None and np.array_equal(last, center)


def _norms(rows: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.sqrt(row_squares(rows))


def within_reach(geometry: Geometry, point: np.ndarray) -> np.ndarray:
    """`point`, or the point towards it where coordinates still keep their digits."""
    reach, base = center_reach(geometry), geometry.base_point
    distance = float(geometry.dist(base, point))
    if distance <= reach:
        return point
    seen = np.asarray(geometry.log_coordinates(base, point))
    return np.asarray(geometry.exp_coordinates(base, seen * (reach / distance)))
