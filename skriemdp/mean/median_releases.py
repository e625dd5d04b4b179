"""The geometric median: Newton's steps for the mean distance, from a centre that a search found."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skriemdp._arrays import row_squares
from skriemdp._dataclasses import dataclass
from skriemdp._validation import check_scale, shown
from skriemdp.core.estimator import Data
from skriemdp.curator.curator import Curator
from skriemdp.curator.openings import Gaussian
from skriemdp.curator.rehearsal import Rehearsal
from skriemdp.curator.sets import Set, lifts, moment
from skriemdp.curator.tables import Memory
from skriemdp.geometry.ball import GeodesicBall
from skriemdp.geometry.base import Geometry
from skriemdp.gives.base import Give
from skriemdp.gives.points import LogAt
from skriemdp.inference.medians import MedianInference
from skriemdp.location_scale.points import Points, warn_direction
from skriemdp.location_scale.search import Found, LocationScaleSearch, search
from skriemdp.mean.domains import public_domain, search_domain
from skriemdp.mechanisms.bounds import lifted
from skriemdp.mechanisms.budget import Release

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams

# All constants are measured (benchmarks/median.py).

# Names of the releases.
_BENDS, _DIRECTIONS = "second derivatives of the mean distance", "directions"
# Rough steps: their number at most, the noise of each over the scale, the least share of mu**2 of
# each of its two releases, and the most that all may take (benchmarks/median.py --part error).
_ROUGH, _NOISE, _LEAST, _ALL_ROUGH = 6, 0.2, 0.01, 0.25
# Parts of what is left: the second derivatives of the last steps, and the directions of the last
# but one (benchmarks/median.py --part coverage).
_OF_BENDS, _OF_FIRST = 0.1, 0.15
# Length below which distances are smoothed, over the scale: more makes second derivatives less
# noisy, and the result less of a median.  In the last steps it is at most _SHARP / (n mu).
_SMOOTH, _SHARP = 0.5, 80.0


def check_median(mechanism: Any, noise: Any, delta: float, geometry: Geometry) -> None:
    """Refuse what no median is released with; all of it public."""
    if mechanism != "auto":
        raise ValueError(
            f"statistic='median' has a mechanism of its own; leave mechanism='auto' instead of "
            f"{shown(mechanism)}."
        )
    if noise not in ("auto", "gaussian"):
        raise ValueError(
            f"statistic='median' has Gaussian noise; pass noise='auto' instead of {shown(noise)}."
        )
    if delta == 0.0:
        raise ValueError("statistic='median' has Gaussian noise; pass delta > 0.")
    if geometry.curvature_bounds[1] == math.inf:
        raise ValueError(
            f"nothing bounds the curvature of {geometry}, so no ball is known in which distances "
            "are convex and a median is unique; pass another manifold, such as 'spd'."
        )


@dataclass(frozen=True, eq=False)
class Bends(Give):
    """``sqrt(c) (u, 1)``: u the direction of a record, zero below the length `smooth`."""

    inner: LogAt
    smooth: float

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.inner.width + 1,)

    def of(self, points: Any, *rest: Any, beside: np.ndarray | None = None) -> Any:
        return self.after(self.inner.of(points))

    def after(self, inner: np.ndarray, *rest: Any) -> Any:
        with np.errstate(all="ignore"):
            lengths = np.sqrt(row_squares(inner))
            roots = np.fmin(1.0, np.sqrt(self.smooth / lengths))
            units = np.where(lengths > self.smooth, roots / lengths, 0.0)
            return np.concatenate([inner * units[:, None], roots[:, None]], axis=1)


@dataclass(frozen=True, eq=False)
class OwnDirections(Give):
    """The mean of a person's own logarithms, each shortened to the length `smooth`."""

    seen: LogAt
    smooth: float
    of_people = True

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.seen.width,)

    def key(self) -> Hashable:
        return "directions", self.seen.key(), self.smooth

    def of(self, points: Any, *rest: Any, beside: np.ndarray | None = None) -> Any:
        return lifted(self.seen.of(points), self.smooth, 0.0)[:, :-1]


class _Step(NamedTuple):
    """Shares of mu**2 for second derivatives, if they are asked anew, and for directions."""

    bends: float
    directions: float


@dataclass(frozen=True, eq=False)
class GeometricMedian:
    """Median of the records: a search, rough Newton steps, and two last ones.

    A step asks for two things at its iterate.  With s the smoothing, d a record's distance and u
    its direction: the mean of ``(w, 1)(w, 1)'``, ``w = u min(1, d / s)``, whose corner is the
    gradient of the mean distance; and the mean of ``c (u, 1)(u, 1)'``, ``c = min(1, s / d)``, u
    zero below s, from which its second derivative follows.  The last step uses the second
    derivative of the step before it.

    Parameters
    ----------
    geometry : Geometry
    n : int
    mu : float
        Of the whole fit.
    search : LocationScaleSearch
        For a centre, and for the median distance of the records to it.
    reach : float
        No iterate is farther from that centre.
    rough : int
        Number of rough steps.
    share : float
        Of mu**2, for each of the two releases of a rough step.
    people : bool
        Whether records are people, with rows of their own.
    releases : tuple of Release
        What may be released, with its share.

    Notes
    -----
    *Guarantee*: mu-GDP under replacement of one record.  Whatever and wherever a record is, it
    gives vectors of squared length 2 at most to either release, so that ``sum z z'`` moves by at
    most ``2 sqrt(2)``, and the sum of directions by at most 2 (docs/theory/mean-iteration.md,
    "Medians").
    """

    geometry: Geometry
    n: int
    mu: float
    search: LocationScaleSearch
    reach: float
    rough: int
    share: float
    people: bool = False
    releases: tuple[Release, ...] = ()

    @property
    def opening(self) -> Gaussian:
        """What it costs."""
        return Gaussian(self.mu)

    def _steps(self, left: float) -> list[_Step]:
        """What is `left` behind the search, divided; a single step where rough ones cost more."""
        steps = [_Step(self.share, self.share)] * self.rough
        left -= sum(step.bends + step.directions for step in steps)
        bends, first = _OF_BENDS * left, (_OF_FIRST if self.rough else 0.0) * left
        if first:
            return [*steps, _Step(bends, first), _Step(0.0, left - bends - first)]
        return [_Step(bends, left - bends)]

    def check(self) -> None:
        """ValueError where integers would be too coarse for all that a search may leave."""
        for share in {share for step in self._steps(1.0) for share in step if share}:
            for held in (self._held, moment(1.0, self.geometry.dim + 1)):
                held.made().check(self.mu * math.sqrt(share))

    @property
    def _held(self) -> Set:
        """The set of second derivatives."""
        return moment(math.sqrt(2.0), self.geometry.dim + 1, self.people)

    @property
    def bytes(self) -> float:
        """Memory of the logarithms and of matrices, besides the records."""
        dim = self.geometry.dim
        return 8.0 * (3.0 * self.n * dim + 8.0 * (dim + 1) ** 2 + 2.0 * min(dim, 256) ** 3)

    def release(self, data: Data, streams: NoiseStreams) -> tuple[Found, MedianInference]:
        """Everything that a fit of these records releases."""
        table = Memory(*data.arrays, groups=data.groups)
        found, known = self.run(Curator(table, self.opening, streams, planned=self.releases))
        warn_direction(found)
        return found, known

    def run(self, curator: Curator) -> tuple[Found, MedianInference]:
        """What the search found, and what the last step released."""
        geometry, n, where = self.geometry, self.n, Points(self.geometry)
        found = search(curator, self.search, where)
        point, scale, known, smooth = found.center, found.radius, None, 0.0
        bends: tuple[np.ndarray, float] = (np.empty(0), 0.0)
        for k, step in enumerate(self._steps(curator.left)):
            # In a rehearsal there is nowhere to go.
            if known is not None and curator.whether(True, dearest=False):
                known = self._moved(found, known)
                point = known.mean
                # The median of the distances is about 1.1 times their harmonic mean.
                scale = 1.1 * known.distance if step.bends else scale
            if step.bends:
                sharp = _SHARP / (n * curator.mu * math.sqrt(step.bends))
                smooth = (_SMOOTH if k < self.rough else min(_SMOOTH, sharp)) * scale
                bends = self._bends(curator, where.seen(point), smooth, step.bends, k)
            directions = self._directions(curator, where.seen(point), smooth, step.directions, k)
            known = MedianInference(geometry, point, scale, smooth, *bends, *directions, n)
        assert known is not None  # there is a step
        return found, known if curator.whether(False, dearest=True) else self._moved(found, known)

    def _moved(self, found: Found, known: MedianInference) -> MedianInference:
        """What is known, with a median that is inside of what is public."""
        moved = Points(self.geometry).move(known.center, known.step)
        moved = self._inside(found.center, moved)
        same = np.array_equal(moved, known.moved)
        return known if same else dataclasses.replace(known, kept=moved)

    def _inside(self, start: np.ndarray, point: np.ndarray) -> np.ndarray:
        """`point`, no farther from `start` than `reach`."""
        if self.reach == math.inf:
            return point
        return np.asarray(GeodesicBall(self.geometry, start, self.reach).project(point))

    def _bends(
        self, curator: Curator, seen: LogAt, smooth: float, share: float, k: int
    ) -> tuple[np.ndarray, float]:
        """The mean of ``c (u, 1)(u, 1)'`` and its noise."""
        label, size = ("second derivatives", k), (self.geometry.dim + 1) ** 2
        noisy = curator.sum(Bends(seen, smooth), self._held, share, _BENDS, *label, dim=size)
        return noisy.value / self.n, noisy.sigma / self.n

    def _directions(
        self, curator: Curator, seen: LogAt, smooth: float, share: float, k: int
    ) -> tuple[np.ndarray, float]:
        """The mean of ``(w, 1)(w, 1)'`` and its noise; of people, w is the mean of own ones."""
        give: Give = OwnDirections(seen, smooth) if self.people else seen
        held, size = lifts(smooth, self.geometry.dim, 1.0), (self.geometry.dim + 1) ** 2
        noisy = curator.sum(give, held, share, _DIRECTIONS, "directions", k, dim=size)
        return noisy.value / (self.n * smooth**2), noisy.sigma / (self.n * smooth**2)


def plan_median(
    geometry: Geometry, n: int, mu: float, center: Any, radius: Any, people: bool = False
) -> GeometricMedian:
    """Number and shares of the steps, from public numbers, and rehearse.

    What cannot run raises here.

    Distances are convex on Hadamard manifolds, and elsewhere between the points of a ball of half
    the convexity radius, pi/4 on unit spheres: no iterate is farther from the start.

    Parameters
    ----------
    geometry : Geometry
    n : int
    mu : float
        Of the whole fit.
    center, radius : Any
        As of :class:`skriemdp.PrivateFrechetMean`.
    people : bool, default=False
        Whether records are people, with rows of their own.
    """
    reach, ball = 0.5 * geometry.radius_limit, public_domain(geometry, center, radius)
    if not isinstance(radius, str) or radius != "private":
        check_scale(radius=radius)
        reach = min(reach, float(radius))
    start = center if ball is None else ball.center
    walk = search_domain(geometry, n, mu, start, "private")
    # The radius is a scale, which far records must not stretch.
    walk = dataclasses.replace(walk, highest=0.5)
    dim = geometry.dim
    noise = 2.0 * math.sqrt(dim) / (max(1.0 - 1.0 / dim, 0.5) * n * mu)  # of a step, over the scale
    share = max((noise / _NOISE) ** 2, _LEAST)
    most = min(_ALL_ROUGH, 0.5 * (1.0 - walk.shares.total))
    rough = min(_ROUGH, int(most / (2.0 * share)))
    plan = GeometricMedian(geometry, n, mu, walk, reach, rough, share, people)
    plan.check()
    rehearsal = Rehearsal(n, plan.opening)
    plan.run(rehearsal)
    return dataclasses.replace(plan, releases=rehearsal.releases)
