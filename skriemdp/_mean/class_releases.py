"""Sums of a ball's tangent vectors by class, the class means that they give, and a vote on them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skriemdp._arrays import row_squares
from skriemdp._core.work import Work, decomposed
from skriemdp._groups import Groups
from skriemdp._location_scale.points import PointRecords
from skriemdp._location_scale.search import BallEstimate, LocationScaleSearch
from skriemdp._mean.domains import logarithms
from skriemdp._mean.linear_decision import ClassMoments, LinearDecision
from skriemdp._mechanisms.bounded_sets import Moment, VectorSet, answers, labelled
from skriemdp._mechanisms.budget import GaussianBudget, PureBudget, Release
from skriemdp._mechanisms.counts import GaussianCount, LaplaceCount
from skriemdp._mechanisms.pure_sums import PureSumsAndCounts
from skriemdp._mechanisms.sum import Part, integer_total, noised, part_of, private_sum
from skriemdp._mechanisms.units import Units
from skriemdp.geometry import GeodesicBall, Geometry
from skriemdp.geometry._tiles import map_tiles, one_by_one

# Names of the releases.
_SUMS, _VOTES = "sums and sizes of classes", "votes on how to decide"
MOMENT = "second moment of all classes"
# Share of the budget for the released fraction of clipped rows: of mu**2, and of a pure epsilon.
_COUNT, _COUNT_PURE = 0.01, 0.03

# Of the squared distances between class means: the least part that noise must leave unexplained,
# and by how many of its standard deviations they must exceed it.
_LEAST_KEPT, _STANDS_OUT = 0.25, 3.0
# Ways to label a point, once class means are released.
_GEODESIC, _TANGENT, _LINEAR, _LARGEST = "geodesic", "tangent", "linear", "largest class"
# Of ``n mu / sqrt(dim)``, from where on the second moment of all classes is asked, in all and for
# each class: below, its share costs the means more than it tells.  That is the share of what a
# search leaves of mu**2 (benchmarks/classification.py --part linear).
_LEAST_LINEAR, _LINEAR_BY_CLASSES, _POOLED = 100.0, 12.0, 0.12
# Part of the radius to which vectors are shortened in that moment: its noise goes with the square,
# and directions stay what they are.
SHORTER = 0.75
# Dimension above which matrices are not decomposed: a convention.
_MOST_DIM = 2000
# Share of mu**2 of a vote, for each way: the noise of a count is then 10 / mu records, which below
# this n mu hides what ways differ by.
_VOTE, _LEAST_VOTE = 0.01, 150.0
# By how many standard deviations of one count another way must lead the first, and the way that is
# decided for the largest class.
_AHEAD, _TELLS = 1.4, 1.0


def _person_lengths(vectors: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Root mean square lengths of each person's vectors, as many as `counts` says."""
    starts = np.cumsum(counts) - counts
    return np.sqrt(np.add.reduceat(row_squares(vectors), starts) / counts)


class PeopleOfClasses(PointRecords):
    """People who show several classes, as a search for a ball asks for them.

    How far a person is from a centre is the root mean square, over the classes shown, of the
    lengths of what is summed later: means of own rows of a class, as seen from there
    (docs/theory/groups.md).  Steps average the logarithms of all own rows.

    Parameters
    ----------
    geometry : Geometry
    points : ndarray of shape (n_rows, *geometry.shape)
    labels : ndarray of int, shape (n_rows,)
    groups : Groups
    """

    def __init__(self, geometry: Geometry, points: np.ndarray, labels: np.ndarray, groups: Groups):
        super().__init__(geometry, points, groups=groups)
        self._labels = labels

    def distances(self, center: np.ndarray) -> Iterator[np.ndarray]:
        seen = logarithms(self.geometry, center, self.points)
        units = Units((seen, self._labels), self.groups)
        with np.errstate(all="ignore"):  # a warning would speak of records
            yield np.concatenate(
                [
                    _person_lengths(vectors, counts)
                    for vectors, _, counts in units.tiles(_given, self.dim, "classes")
                ]
            )


def _given(*rows: np.ndarray) -> tuple[np.ndarray, ...]:
    return rows


def _over(radius: float, vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return vectors / radius


def drawn_together(means: np.ndarray, noise: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Noisy means moved towards their common mean, all by one factor; post-processing.

    The factor is the part of their squared distances to it, weighted by the squared sizes, that
    noise does not explain (James and Stein 1961).  Where that is small nothing moves: which means
    differ is then a guess, and means in one place tell no classes apart.

    Parameters
    ----------
    means : ndarray of shape (k, dim)
    noise : ndarray of shape (k,)
        Standard deviation of every coordinate of a mean.
    sizes : ndarray of shape (k,)
        Weights of the common mean.
    """
    weights = sizes / sizes.sum()
    common = weights @ means
    separation = means - common
    # Weighted, so that the noise of a class that nobody belongs to does not drown the others.
    explained = means.shape[1] * float((weights * noise) ** 2 @ (1.0 - weights))
    seen = float(weights**2 @ np.sum(separation**2, axis=1))
    keep = 1.0 - explained / max(seen, 1e-300)
    most = 1.0 + _STANDS_OUT * math.sqrt(2.0 / means.size)
    return common + keep * separation if keep >= max(_LEAST_KEPT, 1.0 - 1.0 / most) else means


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Class means in a ball, in two halves: noisy sums over a table, and what they say.

    Noisy sums over disjoint tables add up to noisy sums over all of them, so the tables may lie in
    different places.

    Parameters
    ----------
    fit : ClassReleases
    center : ndarray of shape ``point_shape``
        Public, or released.
    radius : float
        Longer vectors are clipped to it; public, or released.
    count : GaussianCount or LaplaceCount
        Noise for the number of records outside the ball.
    rest : float
        What the sums and sizes of all classes cost: mu, or the epsilon of pure privacy.
    reach : float, optional
        Who is farther off, counts as outside; `radius` by default.
    moment_mu : float, optional
        What the second moment of all classes costs, where it is released.

    Notes
    -----
    *Guarantee*: that of `count`, and `rest`-GDP or pure `rest`-DP, and `moment_mu`-GDP, for each
    table by itself (docs/theory/moments.md, "A second moment beside sums with counts").
    """

    fit: ClassReleases
    center: np.ndarray
    radius: float
    count: GaussianCount | LaplaceCount
    rest: float
    reach: float | None = None
    moment_mu: float | None = None

    @functools.cached_property
    def bounded_set(self) -> VectorSet:
        """The set of what a record adds."""
        return labelled(self.radius, self.fit.geometry.dim, self.fit.n_classes)

    @functools.cached_property
    def moment(self) -> Moment:
        """The set of what a record adds to the second moment of all classes, over the radius."""
        return Moment(SHORTER, self.fit.geometry.dim)

    @functools.cached_property
    def mechanism(self) -> PureSumsAndCounts:
        """Noise of pure privacy."""
        return PureSumsAndCounts(self.fit.geometry.dim, self.radius, self.rest)

    @property
    def sum_sigma(self) -> float:
        """Standard deviation of the noise on every coordinate of a sum."""
        if self.fit.pure:
            return self.mechanism.sum_sigma
        return self.radius * self.bounded_set.sigma(self.bounded_set.check(self.rest))

    @property
    def size(self) -> int:
        """Number of sums, and of those outside."""
        return 1 + self.fit.n_classes * (self.fit.geometry.dim + 1)

    def noisy(self, records: Units, streams: Callable[..., np.random.Generator]) -> np.ndarray:
        """Number outside the ball, sums and sizes of all classes, with noise; one vector.

        Where it is released, the second moment of all classes follows.

        Parameters
        ----------
        records : Units
            Points and the places of their labels in the class list.
        streams : callable
            ``streams("label")`` is the generator of a release.
        """
        if not self.fit.pure:
            return self.decoded(noised(self.parts, self.exact(records), streams))
        units = self._units(records)
        outside = self._outside(units)
        released = self.count.release(outside, streams("clipped fraction"))
        rng = streams("class means")
        vectors, labels = units.arrays
        sums, counts = self.mechanism.release_rows(vectors, labels, self.fit.n_classes, rng)
        return np.concatenate([[released], sums.ravel(), counts])

    def _units(self, records: Units) -> Units:
        """Coordinates at the centre, and labels."""
        points, labels = records.arrays
        vectors = logarithms(self.fit.geometry, self.center, points)
        return Units((vectors, labels), records.groups)

    def _outside(self, units: Units) -> int:
        """Number of records with a vector beyond; of people, in the root mean square."""
        found, radius = 0, self.reach or self.radius
        for vectors, _, *of in units.tiles(_given, self.fit.geometry.dim, "classes"):
            lengths = _person_lengths(vectors, *of) if of else np.linalg.norm(vectors, axis=1)
            found += int(np.count_nonzero(~(lengths <= radius)))
        return found

    @property
    def parts(self) -> tuple[Part, ...]:
        """Number outside the ball, sums and sizes of all classes, and their second moment."""
        assert isinstance(self.count, GaussianCount)
        parts = (
            self.count.part("clipped fraction"),
            part_of("class means", self.bounded_set, self.rest),
        )
        if self.moment_mu is None:
            return parts
        return *parts, part_of("second moment", self.moment, self.moment_mu)

    def exact(self, records: Units) -> list[np.ndarray]:
        """The exact integers of all of them."""
        assert isinstance(self.count, GaussianCount)
        units, parts = self._units(records), self.parts
        outside = self.count.exact(self._outside(units))
        totals = [outside, integer_total(units, _given, self.bounded_set, parts[1].steps).ravel()]
        if self.moment_mu is not None:
            give = functools.partial(_over, self.radius)
            totals.append(integer_total(units, give, self.moment, parts[2].steps).ravel())
        return totals

    def decoded(self, noisy: np.ndarray) -> np.ndarray:
        """Number, sums and sizes, and second moment, of noisy integers."""
        assert isinstance(self.count, GaussianCount)
        parts, size = self.parts, self.size
        totals = self.bounded_set.value(
            noisy[1:size].reshape(self.bounded_set.shape), parts[1].steps
        )
        sums, counts = totals[:, :-1] * self.radius, totals[:, -1]
        numbers = [self.count.value(noisy[:1]), sums.ravel(), counts]
        if self.moment_mu is not None:
            moment = noisy[size:].reshape(self.moment.shape)
            numbers.append(self.moment.value(moment, parts[2].steps).ravel())
        return np.concatenate(numbers)

    def finish(self, noisy: np.ndarray, n_tables: float = 1) -> tuple[float, ClassRule]:
        """Number outside the ball; class means and class sizes.

        `n_tables` is the variance of the noise in the sums, in units of that of one table.
        """
        k, dim = self.fit.n_classes, self.fit.geometry.dim
        sums, counts = noisy[1 : 1 + k * dim].reshape(k, dim), noisy[1 + k * dim : self.size]
        sizes = np.maximum(counts, 1.0)
        noise = math.sqrt(n_tables) * self.sum_sigma / sizes
        raw = sums / sizes[:, None]
        # A class of m records in the ball is off by chance by about this much, besides the noise.
        separation = _separation(raw, noise**2 + self.radius**2 / (dim * sizes))
        means = drawn_together(raw, noise, sizes)
        norms = np.linalg.norm(means, axis=1, keepdims=True)
        means *= np.minimum(1.0, self.radius / np.maximum(norms, 1e-300))
        points = np.asarray(self.fit.geometry.exp_coordinates(self.center, means))
        linear = None if self.moment_mu is None else self._linear(noisy, self.moment_mu)
        counts = np.maximum(counts, 0.0)
        rule = ClassRule(self.fit.geometry, self.center, points, means, counts, separation, linear)
        return float(noisy[0]), rule

    def _linear(self, noisy: np.ndarray, mu: float) -> LinearDecision:
        """Return the linear decision from the second moment of all classes."""
        k, dim, radius = self.fit.n_classes, self.fit.geometry.dim, self.radius
        sums, counts = noisy[1 : 1 + k * dim].reshape(k, dim), noisy[1 + k * dim : self.size]
        second = noisy[self.size :].reshape(dim, dim)
        noise = self.sum_sigma / radius, self.moment.sigma(self.moment.check(mu))
        found = ClassMoments(
            self.fit.vote.n, radius, sums / radius, counts, second, *noise, SHORTER
        )
        return LinearDecision.of(self.fit.geometry, self.center, found)

    def noise_scale(self, n: int, n_tables: float = 1) -> float:
        """Noise per tangent coordinate of a class of ``n / n_classes`` records.

        Parameters
        ----------
        n : int
            Number of records, or of people, who are taken to show all classes.
        n_tables : float
            As for :meth:`finish`.
        """
        shown = math.sqrt(self.fit.n_classes) if self.fit.grouped else self.fit.n_classes
        return math.sqrt(n_tables) * self.sum_sigma * shown / n


def _separation(means: np.ndarray, variances: np.ndarray) -> float:
    """Standardised excess of the chi-squared statistic of the differences of `means`."""
    freedom = (len(means) - 1) * means.shape[1]
    if not freedom:
        return math.inf
    weights = 1.0 / variances
    middle = weights @ means / weights.sum()
    statistic = float(weights @ ((means - middle) ** 2).sum(axis=1))
    return (statistic - freedom) / math.sqrt(2.0 * freedom)


@dataclass(frozen=True, eq=False)
class ClassRule:
    """Released class means, and the labels that they give to points.

    Parameters
    ----------
    geometry : Geometry
    center : ndarray of shape ``point_shape``
    means : ndarray of shape (n_classes, *point_shape)
    tangents : ndarray of shape (n_classes, dim) or None
        Normal coordinates of `means` at `center`; None where they were released otherwise.
    counts : ndarray of shape (n_classes,)
    separation : float, default=inf
        By how many standard deviations of that sum the squared differences of the released means
        add up to more than noise alone would make of equal ones.
    linear : LinearDecision or None
        Where a second moment was released.
    """

    geometry: Geometry
    center: np.ndarray
    means: np.ndarray
    tangents: np.ndarray | None
    counts: np.ndarray
    separation: float = math.inf
    linear: LinearDecision | None = None

    def squares(self, points: np.ndarray, way: str) -> np.ndarray:
        """Squared distances to the class means, ``(n, n_classes)``."""
        euclidean = self.geometry.is_flat and self.geometry.is_hadamard
        if self.tangents is not None and (way == _TANGENT or euclidean):
            seen = np.asarray(self.geometry.log_coordinates(self.center, points))
            columns = [row_squares(seen - tangent) for tangent in self.tangents]
        else:
            columns = [np.asarray(self.geometry.dist(mean, points)) ** 2 for mean in self.means]
        return np.stack(columns, axis=1)

    def scores(self, points: np.ndarray, way: str) -> np.ndarray:
        """Scores, largest for the predicted class, ``(n, n_classes)``."""
        if way == _LINEAR:
            assert self.linear is not None
            return self.linear.scores(points)
        return -self.squares(points, way)

    def places(self, points: np.ndarray, way: str) -> np.ndarray:
        """Places of the points' labels in the class list, ``(n,)``."""
        if way == _LARGEST:
            return np.full(len(points), int(np.argmax(self.counts)))
        return np.argmax(self.scores(points, way), axis=1)

    def shares(self) -> np.ndarray:
        """Released shares of the classes, ``(n_classes,)``."""
        total = float(self.counts.sum())
        return (
            self.counts / total
            if total > 0.0
            else np.full(len(self.counts), 1.0 / len(self.counts))
        )


def linear_pays(geometry: Geometry, n: int, n_classes: int, mu: float) -> bool:
    """Whether a second moment of all classes tells more than it costs, from public numbers.

    `mu` is that of the whole fit.
    """
    s = n * mu / math.sqrt(geometry.dim)
    enough = s >= _LEAST_LINEAR and s >= _LINEAR_BY_CLASSES * n_classes
    return enough and geometry.dim <= _MOST_DIM


class Decision(NamedTuple):
    """Result of a vote.

    Attributes
    ----------
    way : str
        "geodesic", "tangent", "linear" or "largest class".
    informative : bool
        Whether that way is right more often than the name of the largest class.
    """

    way: str
    informative: bool


@dataclass(frozen=True)
class Vote:
    """Asks the records which way of labelling them is right most often.

    Parameters
    ----------
    n : int
        Number of records, or of people.
    ways : tuple of str
        None of them where nothing is asked.
    mu : float
    rule : ClassRule or None
        Released; None in a plan.

    Notes
    -----
    *Guarantee*: mu-GDP.  Class means are released before, so what a record answers
    is a function of that record; a person answers with the shares of own rows that each way labels
    right (docs/theory/sensitivity.md, section 12).
    """

    n: int
    ways: tuple[str, ...]
    mu: float
    rule: ClassRule | None = None

    @classmethod
    def planned(
        cls, geometry: Geometry, n: int, n_classes: int, mu: float, linear: bool = True
    ) -> Vote:
        """Plan from public numbers: nothing is asked where noise would hide the answer.

        `mu` is that of the whole fit; `linear` says whether that may be one of the ways.
        """
        ways: tuple[str, ...] = ()
        if n_classes >= 2 and n * mu >= _LEAST_VOTE:
            one = geometry.is_flat and geometry.is_hadamard  # these two ways are one
            ways = (_GEODESIC, _LARGEST) if one else (_GEODESIC, _TANGENT, _LARGEST)
            if linear and linear_pays(geometry, n, n_classes, mu):
                ways = (_LINEAR, *ways)
        return cls(n, ways, mu * math.sqrt(_VOTE * len(ways)))

    @property
    def share(self) -> float:
        """Share of the fit's mu**2."""
        return _VOTE * len(self.ways)

    def check(self) -> None:
        """ValueError where integers would be too coarse."""
        if self.ways:
            answers(len(self.ways)).check(self.mu)

    def release(self, units: Units, rng: np.random.Generator) -> Decision:
        """Count, with noise, the records that each way labels right; and decide.

        The records are as for :meth:`ClassSums.noisy`.
        """
        points, labels = units.arrays
        right = np.stack([self._places(points, way) == labels for way in self.ways], axis=1)
        answering, bounded_set = (
            Units((right.astype(float),), units.groups),
            answers(len(self.ways)),
        )
        noisy, sigma = private_sum(answering, lambda rows: rows, bounded_set, self.mu, rng)
        return self.decided(np.clip(noisy + 0.5 * self.n, 0.0, self.n), sigma)

    def _places(self, points: np.ndarray, way: str) -> np.ndarray:
        rule: Any = self.rule

        def give(block: np.ndarray) -> np.ndarray:
            return rule.places(block, way)

        with np.errstate(all="ignore"):  # a warning would speak of records
            return np.asarray(
                map_tiles(give if rule.geometry.separate_rows else one_by_one(give), points)
            )

    def decided(self, counts: np.ndarray, sigma: float) -> Decision:
        """Post-processing: the first way, unless another stands out of the noise."""
        best = int(np.argmax(counts))
        if counts[best] <= counts[0] + _AHEAD * sigma:
            best = 0
        informative = counts[best] >= counts[-1] + _TELLS * sigma and self.ways[best] != _LARGEST
        return Decision(self.ways[best], bool(informative))


@dataclass(frozen=True, eq=False)
class ClassReleases:
    """Releases of a fit of class means, planned from public numbers.

    Parameters
    ----------
    geometry : Geometry
    n_classes : int
    total : float
        mu of the whole fit, or the epsilon of `pure` privacy.
    pure : bool
    grouped : bool
        Whether records are people with several rows: each gives one vector for each class shown,
        the mean of own rows, with weight ``1 / sqrt(classes)`` (docs/theory/groups.md).
    vote : Vote
    ball : GeodesicBall or None
        The public one.
    search : LocationScaleSearch or None
        For a private one.

    Raises
    ------
    ValueError
        Where integers would be too coarse for some sum.
    """

    geometry: Geometry
    n_classes: int
    total: float
    pure: bool
    grouped: bool
    vote: Vote
    ball: GeodesicBall | None
    search: LocationScaleSearch | None

    def __post_init__(self) -> None:
        self.vote.check()
        if self.pure:
            return
        dim = self.geometry.dim
        sums, moment = labelled(1.0, dim, self.n_classes), Moment(SHORTER, dim)
        for share in (self.remaining - _COUNT, 1.0):  # what the search leaves lies in between
            sums.check(self.total * math.sqrt(share * (1.0 - self._moment_share)))
            if self._moment_share:
                moment.check(self.total * math.sqrt(share * self._moment_share))

    @property
    def _moment_share(self) -> float:
        """Share of the second moment of all classes, of what the search leaves."""
        return _POOLED if _LINEAR in self.vote.ways else 0.0

    @property
    def remaining(self) -> float:
        """Share of the sums, their second moment, and of the count of clipped records."""
        return 1.0 - self.vote.share - (0.0 if self.search is None else self.search.shares.total)

    def work(self, n: int) -> Work:
        """Memory and time of a fit of n rows."""
        dim, numbers = self.geometry.dim, 24.0 * self.geometry.dim * self.n_classes
        work = Work.of_points(self.geometry, n).plus(numbers, "the number of classes")
        if not self._moment_share:
            return work
        said = f"the second moment of {dim} coordinates"
        return work.plus(64.0 * dim**2, said, 2.0 * n * dim**2 + decomposed(dim))

    def begun(
        self, planned: tuple[Release, ...] | None = None
    ) -> tuple[GaussianBudget | PureBudget, GaussianCount | LaplaceCount]:
        """The budget less what it pays first, and the count of clipped records that it pays."""
        budget = (PureBudget if self.pure else GaussianBudget)(self.total, planned)
        count = budget.count(_COUNT_PURE if self.pure else _COUNT)
        if self.vote.ways:
            budget.take(self.vote.share, _VOTES, len(self.vote.ways))
        return budget, count

    def reserved(self) -> GaussianBudget | PureBudget:
        """A budget of which everything was taken that a fit may release."""
        budget, count = self.begun()
        if self.search is not None:
            self.search.shares.reserve(budget)
        self.sums(BallEstimate(None), count, budget)
        return budget

    def sums(
        self,
        ball: GeodesicBall | BallEstimate,
        count: GaussianCount | LaplaceCount,
        budget: GaussianBudget | PureBudget,
        reach: float | None = None,
    ) -> ClassSums:
        """The class sums in a ball, public or found, for what is left of the budget."""
        dim, moment_mu = self.geometry.dim, None
        if self._moment_share:
            moment_mu = budget.take(self._moment_share * budget.remaining, MOMENT, dim**2)
        rest = budget.rest(_SUMS, self.n_classes * (dim + 1))
        return ClassSums(self, ball.center, ball.radius, count, rest, reach, moment_mu)
