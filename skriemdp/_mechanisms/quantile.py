"""Private quantiles on a public grid: bisection with noisy counts, or the exponential mechanism."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_ndtr

from skriemdp._arrays import Size
from skriemdp._errors import PublicNotImplementedError, PublicValueError
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.counts import GaussianCount
from skriemdp._random import NoiseGenerator
from skriemdp._validation import check_fraction, check_positive
from skriemdp.privacy._events import GaussianEvent, PureEvent
from skriemdp.privacy._sensitivity import Sensitivity, interval_sensitivity

if TYPE_CHECKING:
    from skriemdp._mechanisms.budget import GaussianBudget, PureBudget

__all__ = [
    "ExponentialQuantile",
    "PrivateQuantile",
    "log_grid",
    "log_normal_weights",
    "noisy_quantile",
]

# Preference for smaller answers before any count is seen, in nats from the first grid value to the
# last: where the data say nothing, too small a clipping norm is the smaller evil
# (benchmarks/private_quantile.py).
_TILT = 6.0


def log_grid(low: float, high: float, ratio: float) -> tuple[float, ...]:
    """Geometric grid from `low` up to the first value that is at least `high`.

    Examples
    --------
    >>> log_grid(1.0, 8.0, 2.0)
    (1.0, 2.0, 4.0, 8.0)
    """
    check_positive(low=low, high=high)
    if not ratio > 1.0:
        raise PublicValueError(f"ratio must exceed 1, got {ratio!r}.")
    steps = max(math.ceil(math.log(high / low) / math.log(ratio) - 1e-9), 0)
    return tuple(low * ratio**k for k in range(steps + 1))


def log_normal_weights(grid: Iterable[float], median: float, spread: float) -> tuple[float, ...]:
    """Log weights of positive `grid` values whose logarithm is normal: a prior of a scale.

    Parameters
    ----------
    grid : sequence of float
    median : float
    spread : float
        Standard deviation of the logarithm.

    Examples
    --------
    >>> log_normal_weights((1.0, 2.0, 4.0), median=2.0, spread=1.0)[1]
    -0.0
    """
    check_positive(median=median, spread=spread)
    deviations = (np.log(_values(tuple(grid))) - math.log(median)) / spread
    return tuple((-0.5 * deviations**2).tolist())


class _Quantile:
    """Common base of both searches: a grid, a level, and exact counts of the values on the grid."""

    grid: tuple[float, ...]
    level: float

    def _check(self) -> None:
        check_fraction(level=self.level)
        _values(tuple(self.grid))

    def release(self, value: Any, rng: np.random.Generator, size: Size = ()) -> Any:
        """An element of `grid`.

        Parameters
        ----------
        value : array-like of shape (n,)
            Private numbers.
        rng : numpy.random.Generator
        size : int or tuple of int, default=()
            Independent releases, each of which costs one `event`.

        Returns
        -------
        float, or ndarray of shape `size`
        """
        values = np.ravel(np.asarray(value, dtype=float))
        places = np.bincount(np.searchsorted(self.grid, values), minlength=len(self.grid) + 1)
        return self.release_counts(np.cumsum(places)[:-1], len(values), rng, size)

    def release_counts(self, counts: Any, n: int, rng: np.random.Generator, size: Size = ()) -> Any:
        """Release from the exact numbers of values <= each grid value, and of all."""
        shape = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
        found = _values(tuple(self.grid))[self._places(counts, n, rng, shape)]
        return found if shape else float(found)

    def _places(self, counts: Any, n: int, rng: np.random.Generator, shape: tuple) -> Any:
        """Places in the grid, an array of this shape."""
        raise PublicNotImplementedError


@dataclass(frozen=True)
class PrivateQuantile(_Quantile):
    """About the smallest grid value that a given share of private values does not exceed.

    Every step asks for the number of values <= t less `level` times the number of all, with noise,
    at the t that halves the weight of the grid values that may still be the answer; the weights are
    then multiplied by the probability that the answer lies on their side of t.  A clear count
    settles as much as in an ordinary binary search; a doubtful one is asked again, so that no
    single count sends the search astray.

    Parameters
    ----------
    grid : tuple of float
        Public, strictly increasing; the answer is one of its values.  Its span should be generous:
        it costs logarithmically.
    level : float
        In (0, 1): the share of values that should lie at or below the answer.
    mu : float
        Gaussian differential privacy parameter of the whole release.
    prior : tuple of float, optional
        Public log weights of the grid values before any count is seen; :func:`log_normal_weights`
        makes some.  By default they fall by six nats from the first grid value to the last.

    Notes
    -----
    *Guarantee*: mu-GDP under replacement of one value; under addition or removal of one, the
    number of values secret, ``presence * mu``-GDP.  A value adds ``1 - level`` or ``-level`` to a
    query, so replacing one changes it by at most one; each of the `counts` adaptive queries gets
    Gaussian noise of standard deviation ``sqrt(counts) / mu``, drawn and added in integers, and
    everything else is a function of noisy answers.
    Values are used in comparisons only, so their size does not matter: no bound is needed.

    *Accuracy*: the rank error has a standard deviation of about ``2 / mu`` plus the grid's own step
    (docs/theory/private-quantile.md), where at least a few times that many values lie on either
    side of the quantile; the smallest grid values where the budget is too small to see anything.

    Examples
    --------
    >>> import numpy as np
    >>> quantile = PrivateQuantile(log_grid(1e-3, 1e3, 1.1), level=0.9, mu=0.5)
    >>> values = np.random.default_rng(0).exponential(size=2000)     # 0.9-quantile: 2.30
    >>> 1.9 < quantile.release(values, np.random.default_rng(1)) < 2.8
    True
    """

    grid: tuple[float, ...]
    level: float
    mu: float
    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_positive(mu=self.mu)
        self._check()
        if self.prior is not None:
            _check_prior(self.prior, len(self.grid))

    @property
    def counts(self) -> int:
        """Number of noisy counts; public."""
        return max(3 * math.ceil(math.log2(max(len(self.grid), 2))), 8)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on every count, in records."""
        return math.sqrt(self.counts) / self.mu

    @property
    def presence(self) -> float:
        """Sensitivity of a query to adding or removing a value over that to replacing one."""
        return GaussianCount(self.sigma, self.level).presence

    @property
    def event(self) -> GaussianEvent:
        """Event of one release."""
        return GaussianEvent(noise_multiplier=self.sigma, count=self.counts)

    def _places(self, counts: Any, n: int, rng: np.random.Generator, shape: tuple) -> np.ndarray:
        exact = np.asarray(counts).astype(int).tolist()
        places = [self._search_once(exact.__getitem__, n, rng) for _ in range(math.prod(shape))]
        return np.array(places, dtype=int).reshape(shape)

    def _search_once(self, count: Callable[[int], int], n: int, rng: np.random.Generator) -> int:
        last, sigma = len(self.grid) - 1, self.sigma
        if type(rng) is np.random.Generator:
            rng = NoiseGenerator(rng.bit_generator)  # one that draws ahead, for many small draws
        mechanism = GaussianCount(sigma, self.level, n)
        weight = _prior(last + 1) if self.prior is None else np.array(self.prior, dtype=float)
        # Per grid value: sum of its noisy answers in units of the noise of one, their number, and
        # the log factor that they gave to the weights at or below it over that above it.
        state: dict[int, tuple[float, int, float]] = {}
        for _ in range(self.counts if last else 0):
            at = _halving(weight)
            total, asked, known = state.get(at, (0.0, 0, 0.0))
            excess = mechanism.release(count(at), rng)
            total, asked = total + excess / sigma, asked + 1
            # A count above the wanted rank says "the answer is here or below".  All answers at one
            # place count as one with less noise, so its factor is replaced, not multiplied.
            z = total / math.sqrt(asked)
            evidence = float(log_ndtr(z)) - float(log_ndtr(-z))
            chosen = weight[: at + 1]
            chosen += evidence - known
            state[at] = (total, asked, evidence)
        below = np.cumsum(np.exp(weight - weight.max()))
        return min(int(np.searchsorted(below, 0.5 * below[-1])), last)


@dataclass(frozen=True)
class ExponentialQuantile(_Quantile):
    """Private quantile with pure differential privacy; needs a larger margin of ranks.

    Parameters
    ----------
    grid : tuple of float
    level : float
    epsilon : float

    Notes
    -----
    *Guarantee*: pure epsilon-DP under replacement of one value, the number of values public: the
    exponential mechanism (McSherry and Talwar 2007) whose utility is minus the distance of
    ``level n`` to the ranks between two neighbouring grid values, which a replacement moves by at
    most one, and a public base measure that prefers smaller answers.

    Examples
    --------
    >>> import numpy as np
    >>> quantile = ExponentialQuantile(log_grid(1e-3, 1e3, 1.1), level=0.9, epsilon=0.5)
    >>> values = np.random.default_rng(0).exponential(size=2000)
    >>> 1.9 < quantile.release(values, np.random.default_rng(1)) < 2.8
    True
    """

    grid: tuple[float, ...]
    level: float
    epsilon: float

    def __post_init__(self) -> None:
        check_positive(epsilon=self.epsilon)
        self._check()

    @property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity of every grid value's utility."""
        return interval_sensitivity(1.0)

    @property
    def event(self) -> PureEvent:
        """Event of one release."""
        return PureEvent(self.epsilon)

    def _places(self, counts: Any, n: int, rng: np.random.Generator, shape: tuple) -> Any:
        counts, target = np.asarray(counts, dtype=float), self.level * n
        # Ranks that lead to a grid value: above those of the value before, up to its own.  Only the
        # right answer has the wanted rank among them, also where many values share one place.
        before = np.concatenate([[0.0], counts[:-1]])
        utility = -np.maximum(np.maximum(before - target, target - counts), 0.0)
        weight, bound = 0.5 * self.epsilon / self.sensitivity.value, 0.5 * self.epsilon
        scores = weight * utility + _prior(len(self.grid))
        return noise.draw(scores, 1.0, "exponential", rng, shape, sensitivity=bound)


@functools.lru_cache(maxsize=64)
def _values(grid: tuple[float, ...]) -> np.ndarray:
    """A grid as an array; ValueError unless it increases."""
    values = np.asarray(grid, dtype=float)
    if values.ndim != 1 or not len(values) or not (np.diff(values) > 0).all():
        raise PublicValueError(
            "grid must be a strictly increasing, nonempty sequence of numbers; build it with "
            "log_grid(low, high, ratio)."
        )
    return values


def noisy_quantile(
    budget: GaussianBudget | PureBudget,
    share: float,
    name: str,
    grid: np.ndarray,
    level: float,
    tiles: Iterable[np.ndarray],
    n: int,
    rng: np.random.Generator,
    **prior: tuple[float, ...],
) -> float:
    """Private quantile of n positive numbers, one for each record, on a public geometric grid.

    Parameters
    ----------
    budget : GaussianBudget or PureBudget
    share, name : float, str
        Of the budget, and of the release.
    grid : ndarray
    level : float
        Share of the numbers that should lie at or below the answer.
    tiles : iterable of ndarray
        The numbers.
    n : int
    rng : numpy.random.Generator
    **prior : tuple of float
        Log weights of the grid; of a Gaussian budget.

    Notes
    -----
    *Guarantee*: that of the budget's quantile; counts move by one when a record is replaced.
    """
    quantile = budget.quantile(share, tuple(grid.tolist()), level, name, **prior)
    counts = np.cumsum(counts_on(grid, tiles))[:-1]
    return middle(grid, quantile.release_counts(counts, n, rng))


def counts_on(grid: np.ndarray, tiles: Iterable[np.ndarray]) -> np.ndarray:
    """Exact: how many numbers lie up to the first grid value, in each interval, and beyond."""
    counts = np.zeros(len(grid) + 1, dtype=np.int64)
    for tile in tiles:
        for begin in range(0, len(tile), 2**15):  # so many values stay in the cache
            counts += _counts(tile[begin : begin + 2**15], grid)
    return counts


def middle(grid: np.ndarray, found: float) -> float:
    """Return the middle of the interval below a released grid value, which it stands for."""
    # It is as often too small as too large.
    return found / math.sqrt(grid[1] / grid[0])


def _counts(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Numbers of values at or below the first grid value, in each interval above, and beyond."""
    # Logarithms place a value on the grid much faster than comparisons.
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.log(values)
    places *= 1.0 / (step := math.log(grid[1] / grid[0]))
    places -= math.log(grid[0]) / step
    np.ceil(places, out=places)
    np.fmin(places, len(grid), out=places)  # what is not a number lies beyond
    np.maximum(places, 0.0, out=places)
    return np.bincount(places.astype(np.intp), minlength=len(grid) + 1)


def _check_prior(prior: tuple[float, ...], size: int) -> None:
    weights = np.asarray(prior, dtype=float)
    if weights.shape != (size,) or not np.isfinite(weights).all():
        raise PublicValueError(
            f"prior must hold one finite log weight for each of the {size} grid values; build it "
            "with log_normal_weights(grid, median, spread)."
        )


def _prior(size: int) -> np.ndarray:
    """Log weights before any count is seen."""
    return -_TILT * np.arange(size) / max(size - 1, 1)


def _halving(weight: np.ndarray) -> int:
    """Index, not the last, at or below which the share of the weights is closest to one half."""
    below = np.exp(weight - np.maximum.reduce(weight)).cumsum()
    half = 0.5 * float(below[-1])
    at = min(int(below.searchsorted(half)), len(below) - 2)
    return at - 1 if at > 0 and half - below[at - 1] < below[at] - half else at
