"""One private search for where data lie and how far they reach, behind every estimator."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from scipy.special import chdtri, gammaincinv

from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.bounded_sets import ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import GaussianBudget, PureBudget
from skriemdp._mechanisms.quantile import log_normal_weights, noisy_quantile
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._validation import check_count, check_fraction, check_positive
from skriemdp._warnings import warn_user

if TYPE_CHECKING:
    from skriemdp._location_scale.points import PointRecords
    from skriemdp._location_scale.start_releases import StartRule
    from skriemdp._random import NoiseStreams

# All constants are measured (benchmarks/raw_data.py), none of them on the data of a fit.

# A radius leaves out this many records, over mu.  Half as many suit skewed data better and cost
# Gaussian data a fifth of their error; twice as many gain Gaussian data a tenth
# (benchmarks/raw_data.py --part means).
_CLIPPED = 6.0
# Records lie to one side of a centre from which their mean is so many radii away: a search goes on.
# Laplace noise, which cannot use what a search leaves, comes behind rounds of so much in all.
_ASIDE, _MODEST = 0.5, 0.16
# It ends where they do not, if the next radius is at least this part of the last: noise may make
# one of both short, and rarely both.
_SAME = 0.5
# The least share of such a radius and mean, how many rounds there are, and the n mu from which they
# are cheap, over the root of the dimension.
_LEAST, _ROUNDS, _CHEAP = 0.005, 12, 63.0
# A second rough mean is taken unless the first left the radius at this fraction of its size or
# more.
_SHRUNK = 0.7
# It is always taken where the radius exceeds this many curvature radii: there one mean goes too
# far.
_CURVED = 2.0
# A search that ends while its radii still shrink so fast, with one below this many times what its
# own noise explains, ended by its depth and not by what it found, and says so.  A scale among a
# tenth of far records is less than a tenth of a radius that holds nearly all.
_FAST, _FAST_SCALE, _HIDDEN = 0.2, 0.03, 8.0
# Names of the releases.
START, ROUGH, RADIUS = "start of the search", "rough radii and means", "radius"


@dataclass(frozen=True)
class RadiusGrid:
    """Public facts about the distances of records to a centre.

    Attributes
    ----------
    grid : tuple of float
        Geometric; the radii that a search may return, before they are widened.
    median : float or None
        Of the log-normal prior of the first radius; None prefers small values, for data without a
        natural unit.
    limit : float
        Released radii stay below this.
    ball : float
        Radii a little above this are brought down to it: means of longer vectors gain less than
        their noise costs.
    divergence_rate : float
        Geodesics that part from each other part like ``sinh(divergence_rate * length)``, most of
        them; zero where they never part faster than straight lines.
    spread : float
        Standard deviation of the logarithm of a radius before it is looked for.
    """

    grid: tuple[float, ...]
    median: float | None = None
    limit: float = math.inf
    ball: float = math.inf
    divergence_rate: float = 0.0
    spread: float = 1.5  # wide enough for any data, a convention

    def __post_init__(self) -> None:
        check_positive(allow_inf=True, limit=self.limit, ball=self.ball)
        if len(self.grid) < 2:
            raise PublicValueError("grid must hold two radii at least.")


@dataclass(frozen=True)
class Shares:
    """Fractions of the ``mu**2`` of a fit that its search may spend; public.

    Attributes
    ----------
    start : float
        Of the start, before any radius is known; zero where there is none.
    radius, move : float
        Of each of the `rounds` radii, and of the mean after it.
    final : float
        Of the radius about the last centre; zero where the radius is public.
    rounds : int
        Most means that are taken; zero where the centre is public.
    max_far_steps : int
        Rounds besides these, taken only while the data lie farther off than noise lets one step go.
    far_step, far_radius : float
        Of the mean of each of those, and of the radius after it.
    until_near : bool
        Whether rounds end where a mean is short beside its radius and the next radius is not, as
        they are where the records lie about the centre, and not before; `rounds` are then the most.
    """

    start: float
    radius: float
    move: float
    final: float
    rounds: int
    max_far_steps: int = 0
    far_step: float = 0.0
    far_radius: float = 0.0
    until_near: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.total <= 1.0:
            raise PublicValueError(
                f"the shares of a search add up to {self.total:.4g}, not to (0, 1]."
            )

    @property
    def total(self) -> float:
        """The most that a search spends, whatever it finds."""
        # The step that shows how far off the data are is taken once more in the end.
        rounds = (self.rounds + (self.max_far_steps > 0)) * (self.radius + self.move)
        rounds += self.max_far_steps * (self.far_radius + self.far_step)
        return self.start + rounds + self.final

    @property
    def near(self) -> Shares:
        """Return the shares that are enough where records lie near the start."""
        rounds = self.rounds
        if self.until_near:
            rounds = min(rounds, int(_MODEST / (self.radius + self.move)))
        return dataclasses.replace(self, rounds=rounds, max_far_steps=0)

    def reserve(self, budget: GaussianBudget | PureBudget, last: str = RADIUS) -> None:
        """Take from the budget of a plan all that the search may spend; `last` names the radius."""
        rounds = self.total - self.start - self.final
        for share, name in ((self.start, START), (rounds, ROUGH), (self.final, last)):
            if share > 1e-12:
                budget.take(share, name)


def search_shares(
    t: float, start: float = 0.0, center_known: bool = False, radius_known: bool = False
) -> Shares:
    """Shares of a search for what is not known, from ``t = n mu`` of the whole fit.

    `start` is the share of the start, by the kind of the data.

    Examples
    --------
    >>> search_shares(100.0).total <= 0.35
    True
    """
    check_positive(t=t)
    # Skewed data need a level that counts tell directly, hence a last radius that is not cheap.
    # A rank that is off by half of the records is a radius that may be anything.
    radius = float(np.clip((12.0 / t) ** 2, 0.01, 0.08)) if t > 1e-3 else 0.08
    final = float(np.clip((30.0 / t) ** 2, 0.05, 0.08)) if t > 1e-3 else 0.08
    rounds = 2 if t >= 30.0 else 1
    if center_known:
        start, rounds = 0.0, 0
    final = 0.0 if radius_known else final
    return Shares(start, radius, 0.07, final, rounds)


def until_near(shares: Shares, dim: int, t: float) -> Shares:
    """`shares` of many cheap rounds, which go on until the records lie about the centre.

    From ``t = n mu`` of the whole fit.  The noise of a mean is then at most a quarter of the radius
    at which it is clipped, in root mean square, so each round brings far records four times nearer.
    Fewer records keep their few rounds.
    """
    if not shares.rounds or t < _CHEAP * math.sqrt(max(dim, 3)):
        return shares
    each = max((8.0 / t) ** 2 * max(dim, 3), _LEAST)
    return dataclasses.replace(shares, radius=each, move=each, rounds=_ROUNDS, until_near=True)


@dataclass(frozen=True, eq=False)
class InitialCenter:
    """Initial centre of a search; released, or public.

    Attributes
    ----------
    center : Any
    unit : float
        Released length by which the public radii are multiplied.
    direction : float or None
        Length of a released mean over the length that noise alone would give it; below 3 none
        stands out.  None where there is no such mean.
    length : float or None
        That length without its noise, of unit vectors.
    """

    center: Any
    unit: float = 1.0
    direction: float | None = None
    length: float | None = None


class Records(Protocol):
    """Private records as a search asks for them: points of a manifold, or rows of a table."""

    @property
    def n(self) -> int: ...
    @property
    def dim(self) -> int: ...

    @property
    def units(self) -> Units: ...
    @property
    def origin(self) -> Any:
        """Public initial centre of a search."""
        ...

    def distances(self, center: Any) -> Iterable[np.ndarray]:
        """Distances of all records to `center`, block by block; one number per record."""
        ...

    def logarithms(self, center: Any) -> tuple[Units, Callable[..., np.ndarray]]:
        """The records, and what gives them as seen from `center`, in orthonormal coordinates."""
        ...

    def move(self, center: Any, vector: np.ndarray) -> Any:
        """The centre seen at `vector`, or the old one where floats cannot hold that."""
        ...


@dataclass(frozen=True, eq=False)
class BallEstimate(InitialCenter):
    """Result of a search: functions of noisy answers and of public numbers.

    Besides the last centre and what is known from the start:

    Attributes
    ----------
    radius : float
        About the share `level` of the records should lie within it.
    level : float
    noise : float
        Standard deviation of the noise on every coordinate of the centre, in distance, from the
        last mean; what is left of it after shrinkage.
    """

    radius: float = math.inf
    level: float = 1.0
    noise: float = 0.0


def warn_unsettled(
    radius: float, noise: float, dim: int, shrinks: bool, cure: str = "pass a public center= or "
) -> None:
    """Warn, from released numbers, where a search ended before its radius was that of the data.

    Parameters
    ----------
    radius, noise : float
        The last radius, and the noise of each coordinate of its centre.
    dim : int
    shrinks : bool
        Whether it was still much smaller than the one before.
    cure : str
        What there is besides a shift of the rows.
    """
    if shrinks and radius < _HIDDEN * noise * math.sqrt(chdtri(dim, 0.05)):
        warn_user(
            f"a search ended with a radius of {radius:.3g} (a private estimate) that its own noise "
            "explains: the data lie far from where it began, beside their spread, or are few. The "
            f"result may be off by more than their spread; {cure}subtract a public point near the "
            "data from the rows, or use more records or a larger epsilon."
        )


def warn_grid_edge(q: float, grid: np.ndarray, limit: float = math.inf) -> None:
    """Warn where a released radius is the widest or the narrowest of the public `grid`."""
    # An answer is the middle of an interval that ends in the grid.
    if q > 0.999 * math.sqrt(grid[-2] * grid[-1]) and math.isinf(limit):
        warn_user(
            f"a radius above {grid[-1]:.3g} was needed (a private estimate), the widest that a "
            "search knows, so where the data are was not found; divide them by a public number of "
            "their size."
        )
    elif q <= grid[0]:
        warn_user(
            f"a radius below {grid[0]:.3g} was needed (a private estimate), the narrowest that a "
            "search knows: unless the data are all equal, the noise may be wider than their "
            "spread. Multiply them by a public number, or pass a public center and radius."
        )


# Of a noisy vector and its noise: the vector after shrinkage, and the noise left in a coordinate.
Shrink = Callable[[np.ndarray, float], tuple[np.ndarray, float]]


def james_stein(mean: np.ndarray, sigma: float) -> tuple[np.ndarray, float]:
    """A noisy vector moved towards zero, all coordinates alike, and the error left in each.

    Post-processing.  Times the factor, the variance of the noise is Stein's estimate of the error.
    """
    square = float(mean @ mean)
    if len(mean) <= 2 or square == 0.0:
        return mean, sigma
    keep = max(0.0, 1.0 - (len(mean) - 2) * sigma**2 / square)
    return keep * mean, sigma * math.sqrt(keep)


@dataclass(frozen=True, eq=False)
class LocationScaleSearch:
    """Private centre and radius, planned from public numbers.

    Quantiles of the distances to a centre and means of the records seen from there, each clipped
    to the last quantile, take turns; a last quantile, widened, is the radius.

    Parameters
    ----------
    n, dim : int
        Numbers of records and of coordinates.
    mu : float
        Gaussian differential privacy parameter of the whole fit.
    shares : Shares
        What the search may spend of ``mu**2``.
    radii : Radii
    center : Any, optional
        Public centre; None searches for one.
    radius : float, optional
        Public radius; None searches for one.
    rule : StartRule, optional
        How the records release a start, where they do.
    max_level : float, default=0.997
        The radius is asked to hold at most this share of the records: less than the default where
        it is a scale, which a few far records must not stretch.
    expected_clipped : float, default=6.0
        It is asked to leave out this many records, over mu.
    noise : float, default=0.0
        Of every coordinate of a released `center`.
    name : str, default="radius"
        Of the last radius, among the releases of a fit.
    shrink : callable, default=james_stein
        ``shrink(mean, sigma)`` moves a noisy mean, of standard deviation `sigma` in every
        coordinate, towards zero, and says what noise is left; chosen when a fit is planned.

    Notes
    -----
    *Guarantee*: ``mu sqrt(shares.total)``-GDP under replacement of one record.  A radius comes from
    counts, which move by one; a mean of vectors no longer than q moves by 2q over n, on any
    manifold; every release is asked with what earlier ones answered, and their ``mu_t^2`` add up
    to at most the planned total (docs/theory/location-scale.md).  What is not spent is left in the
    budget, for a Gaussian release that takes the rest.

    Raises
    ------
    ValueError
        Where integers would be too coarse for some sum; a search is planned before the charge.
    """

    n: int
    dim: int
    mu: float
    shares: Shares
    radii: RadiusGrid
    center: Any = None
    radius: float | None = None
    rule: StartRule | None = None
    max_level: float = 0.997
    expected_clipped: float = _CLIPPED
    noise: float = 0.0
    name: str = RADIUS
    shrink: Shrink = james_stein

    def __post_init__(self) -> None:
        check_count(n=self.n, dim=self.dim)
        check_positive(mu=self.mu)
        check_fraction(max_level=self.max_level)
        if self.center is not None:
            return
        for share in (self.shares.move, self.shares.far_step):
            if share > 0.0:
                ball(Ball(1.0), self.dim).check(self.mu * math.sqrt(share))
        if self.begin is not None:
            self.begin.check(self.mu)

    @property
    def begin(self) -> StartRule | None:
        """The rule of the start, for the share that the search has for it."""
        return self.rule and dataclasses.replace(self.rule, share=self.shares.start)

    @property
    def mu_search(self) -> float:
        """Mu of the search alone, whatever it finds."""
        return self.mu * math.sqrt(self.shares.total)

    def near(self) -> LocationScaleSearch:
        """The same search, without steps towards data far off."""
        return dataclasses.replace(self, shares=self.shares.near)

    @property
    def level(self) -> float:
        """The share of records that the radius should hold."""
        wanted = max(1.0 - self.expected_clipped / (self.n * self.mu), 0.6)
        return min(max(wanted, self._resolved(self.shares.final)), self.max_level)

    def release(
        self, records: Records, budget: GaussianBudget, streams: NoiseStreams
    ) -> BallEstimate:
        """Search; spends at most `shares.total` of the `budget`, whose `total` is `mu`."""
        if self.center is not None:
            start, noise, last = InitialCenter(self.center), self.noise, None
            center = self.center
        else:
            start = InitialCenter(records.origin)
            if (begin := self.begin) is not None:
                points = cast("PointRecords", records)  # tables have no rule
                start = begin.release(points, budget, streams)
            center, noise, last = self._walk(records, start, budget, streams)
        if self.radius is not None:
            radius, level = float(self.radius), 1.0
        else:
            resolved, level = min(self._resolved(self.shares.final), self.max_level), self.level
            grid, prior = self._grid(start.unit, last)
            asked = grid, resolved, records.distances(center), records.n, streams("search radius")
            q = noisy_quantile(budget, self.shares.final, self.name, *asked, **prior)
            radius = min(self._widened(q, resolved, noise), self.radii.limit)
            # A radius little above that of the widest ball with unique means is brought down to it
            # (benchmarks/wide_means.py).
            if radius <= 1.4 * self.radii.ball:
                radius = min(radius, self.radii.ball)
            fast = _FAST if self.max_level > 0.9 else _FAST_SCALE
            warn_unsettled(
                radius,
                noise,
                self.dim,
                self.center is None and last is not None and q < fast * last,
            )
            warn_grid_edge(q, grid, self.radii.limit)
        return BallEstimate(center, start.unit, start.direction, start.length, radius, level, noise)

    def _walk(
        self, records: Records, start: InitialCenter, budget: GaussianBudget, streams: NoiseStreams
    ) -> tuple[Any, float, float | None]:
        """Means of shortened records; the centre, its noise, and the last radius."""
        shares, center, noise, last = self.shares, start.center, 0.0, None
        short, far_step, near, rounds, far_count = False, False, False, 0, 0
        while True:
            # A step that was cut short is followed by cheap ones, and does not count.
            far_step, after = short and far_count < shares.max_far_steps, far_step
            if rounds == shares.rounds + (far_count > 0) and not far_step:
                return center, noise, last
            k = rounds + far_count
            share = shares.far_radius if far_step else shares.radius
            grid, prior = self._grid(start.unit, last)
            # The number of records may be secret, and not the one that was planned for.
            asked = grid, self._resolved(share), records.distances(center), records.n
            q = noisy_quantile(budget, share, ROUGH, *asked, streams("rough radius", k), **prior)
            if shares.until_near:
                settled = last is not None and near and q >= _SAME * last
            else:
                settled = last is not None and q >= _SHRUNK * last
                settled = (
                    settled and self.radii.divergence_rate * q < _CURVED and not (short or after)
                )
            if settled:
                return center, noise, q
            share = shares.far_step if far_step else shares.move
            mu, rng = budget.take(share, ROUGH, self.dim), streams("rough mean", k)
            center, noise, length, short = self._moved(records, center, q, mu, rng)
            near = length < _ASIDE * q
            last, far_count, rounds = q, far_count + far_step, rounds + (not far_step)

    def _moved(
        self, records: Records, center: Any, clip: float, mu: float, rng: np.random.Generator
    ) -> tuple[Any, float, float, bool]:
        """The centre after one private mean, shrunk; its noise; its length, and if that was cut."""
        noisy = private_sum(*records.logarithms(center), ball(Ball(clip), self.dim), mu, rng)
        sigma = noisy.sigma / self.n
        move, left = self.shrink(noisy.value / self.n, sigma)
        length = float(np.linalg.norm(move))
        most = min(clip, self._longest(sigma * math.sqrt(self.dim) / clip))
        move = move * min(1.0, most / length if length > 0.0 else 1.0)
        return records.move(center, move), left, length, most < min(clip, length)

    def _longest(self, angle: float) -> float:
        """Longest useful step in a direction turned by noise by `angle`, in negative curvature.

        The last bit of a step of length L leads nearer by itself and away by
        ``angle * cosh(divergence_rate * L)``.
        """
        if self.radii.divergence_rate == 0.0:
            return math.inf
        return math.acosh(max(1.0 / angle, math.cosh(1.0))) / self.radii.divergence_rate

    def _resolved(self, share: float) -> float:
        """The highest level that noisy counts of this share can tell from all records."""
        if share == 0.0:
            return 0.5
        return float(np.clip(1.0 - 6.0 / (self.n * self.mu * math.sqrt(share)), 0.5, 0.98))

    def _grid(self, unit: float, last: float | None) -> tuple[np.ndarray, dict[str, Any]]:
        """Radii that may be answered, and their weights, given the last answer."""
        grid = unit * np.array(self.radii.grid)
        if last is None and self.radii.median is not None:
            last = unit * self.radii.median
        if last is None:
            return grid, {}
        return grid, {"prior": log_normal_weights(grid, last, self.radii.spread)}

    def _widened(self, q: float, resolved: float, noise: float) -> float:
        """`q`, released at the level that counts resolve, carried on to the level wanted.

        As if the squared distances less the noise of the centre were chi-squared.
        """
        # Of quantiles of chi-squared laws.
        half = 0.5 * self.dim
        growth = float(gammaincinv(half, self.level) / gammaincinv(half, resolved)) - 1.0
        return math.sqrt(q * q + growth * max(q * q - self.dim * noise * noise, 0.0))
