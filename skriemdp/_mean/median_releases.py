"""The geometric median: Newton's steps for the mean distance, from a centre that a search found."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skriemdp._arrays import row_squares
from skriemdp._errors import PublicValueError
from skriemdp._groups import Groups
from skriemdp._location_scale.points import PointRecords, warn_direction
from skriemdp._location_scale.search import LocationScaleSearch
from skriemdp._mean.domains import logarithms, public_domain, search_domain
from skriemdp._mechanisms.bounded_sets import Moment
from skriemdp._mechanisms.bounds import lifted
from skriemdp._mechanisms.budget import GaussianBudget, Release
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._validation import check_scale, shown
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.geometry._base import Geometry
from skriemdp.inference._medians import MedianInference
from skriemdp.privacy._events import GaussianEvent

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
        raise PublicValueError(
            f"statistic='median' has a mechanism of its own; leave mechanism='auto' instead of "
            f"{shown(mechanism)}."
        )
    if noise not in ("auto", "gaussian"):
        raise PublicValueError(
            f"statistic='median' has Gaussian noise; pass noise='auto' instead of {shown(noise)}."
        )
    if delta == 0.0:
        raise PublicValueError("statistic='median' has Gaussian noise; pass delta > 0.")
    if geometry.curvature_bounds[1] == math.inf:
        raise PublicValueError(
            f"nothing bounds the curvature of {geometry}, so no ball is known in which distances "
            "are convex and a median is unique; pass another manifold, such as 'spd'."
        )


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

    @property
    def event(self) -> GaussianEvent:
        """Event of all releases together."""
        return GaussianBudget(self.mu).event

    @property
    def releases(self) -> tuple[Release, ...]:
        """Names of what may be released, with shares."""
        budget = GaussianBudget(self.mu)
        self.search.shares.reserve(budget)
        for step in self._steps(budget.remaining):
            self._take(budget, step)
        return budget.releases

    def _steps(self, left: float) -> list[_Step]:
        """Split the remaining budget into steps; a single step where rough ones do not pay."""
        steps = [_Step(self.share, self.share)] * self.rough
        left -= sum(step.bends + step.directions for step in steps)
        bends, first = _OF_BENDS * left, (_OF_FIRST if self.rough else 0.0) * left
        if first:
            return [*steps, _Step(bends, first), _Step(0.0, left - bends - first)]
        return [_Step(bends, left - bends)]

    def _take(self, budget: GaussianBudget, step: _Step) -> tuple[float, float]:
        """mu of the two releases of a step."""
        size = (self.geometry.dim + 1) ** 2
        bends = budget.take(step.bends, _BENDS, size) if step.bends else 0.0
        return bends, budget.take(min(step.directions, budget.remaining), _DIRECTIONS, size)

    def _bounded_set(self, unit: float, people: bool = False) -> Moment:
        return Moment(unit * math.sqrt(2.0), self.geometry.dim + 1, people)

    def check(self) -> None:
        """ValueError where integers would be too coarse."""
        # What a search leaves goes to the last steps, and less noise needs more bits.
        for left in (1.0 - self.search.shares.total, 1.0):
            for share in {share for step in self._steps(left) for share in step if share}:
                self._bounded_set(1.0).check(self.mu * math.sqrt(share))
                self._bounded_set(1.0, people=True).check(self.mu * math.sqrt(share))

    @property
    def bytes(self) -> float:
        """Memory of the logarithms and of matrices, besides the records."""
        dim = self.geometry.dim
        return 8.0 * (3.0 * self.n * dim + 8.0 * (dim + 1) ** 2 + 2.0 * min(dim, 256) ** 3)

    def release(
        self, records: PointRecords, streams: NoiseStreams
    ) -> tuple[np.ndarray, float, MedianInference]:
        """The centre and the scale that were found, and what the last step released."""
        geometry, n, budget = self.geometry, self.n, GaussianBudget(self.mu, self.releases)
        found = self.search.release(records, budget, streams)
        warn_direction(found)
        point, scale, known, smooth = found.center, found.radius, None, 0.0
        bends: tuple[np.ndarray, float] = (np.empty(0), 0.0)
        for k, step in enumerate(self._steps(budget.remaining)):
            if known is not None:
                point = known.mean
                # The median of the distances is about 1.1 times their harmonic mean.
                scale = 1.1 * known.distance if step.bends else scale
            bends_mu, mu = self._take(budget, step)
            seen, groups = logarithms(geometry, point, records.points), records.groups
            if step.bends:
                sharp = _SMOOTH if k < self.rough else min(_SMOOTH, _SHARP / (n * bends_mu))
                smooth = sharp * scale
                units = Units((seen,), groups)
                bends = self._bends(units, smooth, bends_mu, streams("second derivatives", k))
            directions = self._directions(seen, groups, smooth, mu, streams("directions", k))
            known = MedianInference(geometry, point, scale, smooth, *bends, *directions, n)
            moved = self._inside(found.center, records.move(point, known.step))
            if not np.array_equal(moved, known.moved):
                known = dataclasses.replace(known, clipped_median=moved)
        assert known is not None  # there is a step
        return found.center, found.radius, known

    def _inside(self, start: np.ndarray, point: np.ndarray) -> np.ndarray:
        """`point`, no farther from `start` than `reach`."""
        if self.reach == math.inf:
            return point
        return np.asarray(GeodesicBall(self.geometry, start, self.reach).project(point))

    def _bends(
        self, units: Units, smooth: float, mu: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        """The mean of ``c (u, 1)(u, 1)'`` and its noise."""

        def give(rows: np.ndarray) -> np.ndarray:
            lengths = np.sqrt(row_squares(rows))
            roots = np.fmin(1.0, np.sqrt(smooth / lengths))
            units = np.where(lengths > smooth, roots / lengths, 0.0)
            return np.concatenate([rows * units[:, None], roots[:, None]], axis=1)

        bounded_set = self._bounded_set(1.0, units.groups is not None)
        noisy = private_sum(units, give, bounded_set, mu, rng)
        return noisy.value / self.n, noisy.sigma / self.n

    def _directions(
        self,
        rows: np.ndarray,
        groups: Groups | None,
        smooth: float,
        mu: float,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, float]:
        """The mean of ``(w, 1)(w, 1)'`` and its noise; of people, w is the mean of own ones."""
        vectors = lifted(rows, smooth, smooth)
        if groups is not None:
            vectors = groups.means(vectors[groups.order])
        noisy = private_sum(Units((vectors,)), np.array, self._bounded_set(smooth), mu, rng)
        return noisy.value / (self.n * smooth**2), noisy.sigma / (self.n * smooth**2)


def plan_median(geometry: Geometry, n: int, mu: float, center: Any, radius: Any) -> GeometricMedian:
    """Number and shares of the steps, from public numbers; what cannot run raises here.

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
    """
    reach, ball = 0.5 * geometry.radius_limit, public_domain(geometry, center, radius)
    if not isinstance(radius, str) or radius != "private":
        check_scale(radius=radius)
        reach = min(reach, float(radius))
    start = center if ball is None else ball.center
    search = search_domain(geometry, n, mu, start, "private")
    # The radius is a scale, which far records must not stretch.
    search = dataclasses.replace(search, max_level=0.5)
    dim = geometry.dim
    noise = 2.0 * math.sqrt(dim) / (max(1.0 - 1.0 / dim, 0.5) * n * mu)  # of a step, over the scale
    share = max((noise / _NOISE) ** 2, _LEAST)
    most = min(_ALL_ROUGH, 0.5 * (1.0 - search.shares.total))
    rough = min(_ROUGH, int(most / (2.0 * share)))
    plan = GeometricMedian(geometry, n, mu, search, reach, rough, share)
    plan.check()
    return plan
