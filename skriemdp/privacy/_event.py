"""Base class of events: epsilon and delta, by whichever proved route is tightest."""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from skriemdp._validation import check_fraction, check_instance, check_nonnegative, plain_numbers
from skriemdp.privacy._calibration import gaussian_delta, gaussian_epsilon
from skriemdp.privacy._loss_distributions import LARGEST_LOSS, PrivacyLossDistribution, points_of
from skriemdp.privacy._renyi import renyi_delta, renyi_epsilon

# Rounding of sums over a loss distribution, put on top of every delta that comes from one; that of
# the transforms is in its mass at infinity.
_ROUNDING = 1e-12
# Smallest delta, and mass, from loss distributions; below, rounding dominates and Renyi divergences
# are used.
_SMALLEST_DELTA = 1e-10
_LARGE = 50.0  # epsilon, from which on a grid may be coarse
_UP = 1.0 + 1e-9


@dataclass(frozen=True)
class Event(abc.ABC):
    """A release in numbers: a frozen dataclass with a `kind`, under replace-one adjacency.

    Noise is always relative to the *replace-one* sensitivity (skriemdp/privacy/_events.py).  A
    subclass gives a loss distribution and Renyi divergences; everything else follows.  All answers
    are on the private side: epsilons and deltas are never below the truth.
    """

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        normalize_fields(self)

    @abc.abstractmethod
    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """Loss distribution that dominates the release, on a grid of width `interval`.

        Returns
        -------
        skriemdp.privacy._loss_distributions.PrivacyLossDistribution
            Pessimistic; the replace-one relation is already inside.
        """

    @abc.abstractmethod
    def renyi(self, order: float) -> float:
        """Upper bound of the Renyi divergence of `order` > 1, in both directions.

        ``order=math.inf`` gives the pure epsilon; inf where there is none.  Events with
        :attr:`extra_delta` bound the part that is left after mass `extra_delta` is taken away.
        """

    @property
    def mu(self) -> float | None:
        """Gaussian differential privacy parameter when the event is exactly Gaussian, else None."""
        return None

    @property
    def gdp_bound(self) -> float | None:
        """A proved mu such that the release is mu-GDP; None when there is none."""
        return self.mu

    @property
    def extra_delta(self) -> float:
        """Mass that the Renyi bound does not cover; 0 except for approximate events."""
        return 0.0

    @property
    def tv(self) -> float:
        """Total variation between the release and the one that all other numbers describe.

        Not 0 where integers stand for Gaussian noise on random batches (docs/theory/lattice.md,
        Theorem 3).  :meth:`epsilon` and :meth:`delta` count it; loss distributions and Renyi
        divergences are those of Gaussian noise.
        """
        return 0.0

    @property
    def renyi_tv(self) -> float:
        """The distance that a Renyi divergence has to count for the same integers.

        ``renyi(order) + rounding_divergence(renyi_tv, order)`` bounds the divergence of what was
        released (docs/theory/lattice.md, Theorem 3).  Not always :attr:`tv`: a divergence weighs
        the unlikely outcomes of a coin more than a distance does.
        """
        return self.tv

    @property
    def unit(self) -> tuple[Event, int]:
        """A simpler event and how often it happened: ``self == unit repeated count times``."""
        count = getattr(self, "count", 1)
        one = self if count == 1 else dataclasses.replace(self, count=1)  # type: ignore[call-arg]
        return one, count

    def repeated(self, count: int) -> Event | None:
        """`count` such events as one event of the same class; None where the class cannot."""
        if count == 1:
            return self
        if not hasattr(self, "count"):
            return None
        return dataclasses.replace(self, count=self.count * count)  # type: ignore[call-arg]

    @property
    def steps(self) -> int:
        """Number of elementary releases, for the choice of a grid."""
        return self.unit[1]

    def epsilon(self, delta: float) -> float:
        """Smallest proved epsilon such that the event is (epsilon, delta)-DP, rounded up.

        Parameters
        ----------
        delta : float
            In [0, 1).  ``delta=0`` gives the pure epsilon, inf where there is none.
        """
        check_fraction(open_left=False, delta=delta)
        return (real_epsilon if self.tv == 0.0 else _far_epsilon)(self, float(delta))

    def delta(self, epsilon: float) -> float:
        """Smallest proved delta such that the event is (epsilon, delta)-DP, rounded up.

        Parameters
        ----------
        epsilon : float
            Nonnegative.
        """
        check_nonnegative(epsilon=epsilon)
        return (real_delta if self.tv == 0.0 else _far_delta)(self, float(epsilon))

    def to_dict(self) -> dict:
        """Plain data, ready for ``json.dumps``; :func:`skriemdp.privacy.event_from_dict`."""
        fields = {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"kind": self.kind, **fields}

    # How the profile is found.  Overridden where there is a closed form.

    def _exact_delta(self, epsilon: float) -> float | None:
        """Exact profile, rounded up; None where the loss distribution is needed."""
        if self.mu is None:
            return None
        return 0.0 if self.mu == 0.0 else gaussian_delta(self.mu, epsilon)

    def _exact_epsilon(self, delta: float) -> float | None:
        """Exact inverse profile, rounded up; None where the loss distribution is needed."""
        if self.mu is None:
            return None
        if self.mu == 0.0:
            return 0.0
        return math.inf if delta == 0.0 else gaussian_epsilon(self.mu, delta)

    def delta_with_gaussian(self, mu: float, epsilon: float) -> float | None:
        """Delta of the event and a mu-GDP release together, rounded up.

        None where only loss distributions know.
        """
        return None

    def epsilon_with_gaussian(self, mu: float, delta: float) -> float | None:
        """The inverse of :meth:`delta_with_gaussian`, rounded up; None where that is None."""
        together: Any = functools.partial(self.delta_with_gaussian, mu)
        # Known at one epsilon, known at all.
        return None if together(0.0) is None else profile_epsilon(together, delta)

    @property
    def rough_size(self) -> float:
        """A number of the order of the Renyi divergence of order 2, to refuse absurd sizes by."""
        return self.renyi(2.0)

    @property
    def renyi_only(self) -> bool:
        """Whether nothing is known beyond Renyi divergences, so that they are the best profile."""
        return False

    @property
    def renyi_inside(self) -> bool:
        """Whether any component is known only through Renyi divergences."""
        return self.renyi_only


def normalize_fields(event: Event) -> None:
    """Make the numbers of a new event plain ones: narrow types would round towards the public.

    A ``numpy.float16`` noise multiplier makes numpy compute mu in half precision, and small
    integers overflow when counts are multiplied.  Its `event` or `events` must be of this class.
    """
    plain_numbers(event)
    if hasattr(event, "events"):
        object.__setattr__(event, "events", tuple(event.events))
        check_events(event.events)
    elif hasattr(event, "event"):
        check_events([event.event])


def check_events(events: Iterable[Any]) -> None:
    """TypeError unless all are events."""
    for event in events:
        if not isinstance(event, Event):
            check_instance(Event, "pass one of skriemdp.privacy, or as_event(release)", event=event)


def plain(value: Any) -> Any:
    """Fields of an event, and public facts, as JSON has them; text of what it has not."""
    if isinstance(value, Event):
        return value.to_dict()
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, str)) else str(value)


def distance_delta(event: Event, epsilon: float) -> float:
    """Return what the total variation `tv` adds to delta: ``(1 + e^epsilon) tv``, at most 1."""
    if event.tv == 0.0:
        return 0.0
    log_tv = math.log(event.tv) + max(epsilon, 0.0) + math.log1p(math.exp(-abs(epsilon)))
    return min(math.exp(min(log_tv, 0.0)) * _UP, 1.0)


def _sum_delta(event: Event, epsilon: float) -> float:
    return min(real_delta(event, epsilon) + distance_delta(event, epsilon), 1.0)


def _far_delta(event: Event, epsilon: float) -> float:
    """Smallest sum found of both deltas at one and the same epsilon up to this one."""
    found = _sum_delta(event, epsilon)
    # The sum is convex in e^epsilon, so it falls up to its least value.
    if found == 1.0 or _sum_delta(event, epsilon * (1.0 - 1e-6)) < found:
        turn = _turn(event)
        found = min(found, _sum_delta(event, min(turn, epsilon)), _sum_delta(event, 0.0))
    return found


@functools.lru_cache(maxsize=256)
def _turn(event: Event) -> float:
    """Find the epsilon that minimises :func:`_sum_delta`, where the distance adds less than 1."""
    found = minimize_scalar(
        lambda epsilon: math.log(_sum_delta(event, epsilon)),
        bounds=(0.0, max(-math.log(event.tv), 1e-9)),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(found.x)


def _far_epsilon(event: Event, delta: float) -> float:
    """Smallest epsilon found with ``real_delta + (1 + e^epsilon) tv <= delta``; inf if none."""
    epsilon = 0.0
    for _ in range(60):
        left = delta - distance_delta(event, epsilon)
        needed = real_epsilon(event, left) if left > 0.0 else math.inf
        if needed <= epsilon or needed == math.inf:
            return epsilon if needed <= epsilon else math.inf
        # The left side grows with epsilon: what is needed only grows, by less in every round.
        epsilon = needed * (1.0 + 1e-12)
    return math.inf


@functools.lru_cache(maxsize=4096)
def real_epsilon(event: Event, delta: float) -> float:
    """The inverse of :func:`real_delta`, rounded up."""
    exact = event._exact_epsilon(delta)
    if exact is not None:
        return exact
    extra, bound = event.extra_delta, event.gdp_bound
    if extra >= 1.0:
        return math.inf
    best = event.renyi(math.inf) if extra <= delta else math.inf
    if bound is not None and 0.0 < bound < math.inf and delta > 0.0:
        best = min(best, gaussian_epsilon(bound, delta))
    smallest = _SMALLEST_DELTA
    if delta >= smallest and not event.renyi_only:
        loss = _loss(event)
        smallest += loss.get_delta_for_epsilon(math.inf)
        best = min(best, loss_epsilon(loss, delta - _ROUNDING))
    if delta < 10.0 * smallest or best > _LARGE or event.renyi_inside:
        best = min(best, renyi_epsilon(event.renyi, delta - extra))
    return best


@functools.lru_cache(maxsize=4096)
def real_delta(event: Event, epsilon: float) -> float:
    """Delta of `event` as if its noise were real: without what its `tv` adds."""
    exact = event._exact_delta(epsilon)
    if exact is not None:
        return exact
    extra, bound = event.extra_delta, event.gdp_bound
    if extra >= 1.0:
        return 1.0
    best = extra if event.renyi(math.inf) <= epsilon else 1.0
    if bound is not None and 0.0 < bound < math.inf:
        best = min(best, gaussian_delta(bound, epsilon))
    smallest = _SMALLEST_DELTA
    if not event.renyi_only:
        loss = _loss(event)
        smallest += loss.get_delta_for_epsilon(math.inf)
        best = min(best, loss.get_delta_for_epsilon(epsilon) + _ROUNDING)
    if best < 10.0 * smallest or epsilon > _LARGE or event.renyi_inside:
        best = min(best, extra + renyi_delta(event.renyi, epsilon))
    return float(min(best, 1.0))


def profile_epsilon(profile: Callable[[float], float], delta: float) -> float:
    """Smallest epsilon >= 0 with ``profile(epsilon)`` at most `delta`, rounded up."""

    @functools.cache
    def excess(epsilon: float) -> float:
        return math.log(max(profile(epsilon), 1e-300)) - math.log(delta)

    if excess(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, 1.0
    while excess(high) > 0.0:
        low, high = high, 2.0 * high
        if high > 1e7:
            return math.inf
    epsilon = brentq(excess, low, high, xtol=1e-10 * high, rtol=1e-12)
    step = 1e-10 * high
    while profile(epsilon) > delta:  # the difference of logarithms may be rounded to zero
        epsilon += step
        step *= 2.0
    return epsilon


def loss_epsilon(loss: PrivacyLossDistribution, delta: float) -> float:
    """The same of a loss distribution."""
    if loss.get_delta_for_epsilon(math.inf) >= delta:
        return math.inf
    return profile_epsilon(loss.get_delta_for_epsilon, delta)


@functools.lru_cache(maxsize=16)
def _loss(event: Event) -> PrivacyLossDistribution:
    return event.privacy_loss_distribution(automatic_interval(event))


def automatic_interval(event: Event) -> float:
    """Grid width that moves epsilon by less than about 1e-4 of itself, at bounded cost.

    Connecting the dots adds at most ``h^2 / 4`` to the variance of each step's loss.  Where losses
    reach far more points are spent only as long as that shows.
    """
    variance = 2.0 * event.renyi(1.5) / 1.5
    if not 0.0 < variance < math.inf:
        variance = 1.0
    deviation = math.sqrt(variance / event.steps)
    orders = (1.25, 1.5, 2.0, 3.0, 5.0, 9.0, 20.0, 60.0, 200.0, 1000.0)
    reach = min([event.renyi(math.inf), *(_rough_reach(event.renyi(a), a) for a in orders)])
    reach = reach if math.isfinite(reach) else 0.0
    coarse = max(min(reach / 2.0**16, 0.03 * deviation), reach / 2.0**19)
    # A power of two: few different grids, so that caches hit.
    return 2.0 ** math.ceil(math.log2(max(min(0.01 * deviation, 2e-3), coarse, 1e-9)))


def _rough_reach(divergence: float, order: float) -> float:
    return divergence + 30.0 / (order - 1.0)


def convex_profile(divergence: Callable[[float], float], interval: float) -> np.ndarray:
    """Upper bounds of delta at 0, h, 2h, ... from Renyi divergences, until they vanish."""
    orders = 1.0 + np.exp(np.linspace(-4.0, 12.0, 129))
    values = np.array([divergence(order) for order in orders])
    orders, values = orders[np.isfinite(values)], values[np.isfinite(values)]
    if not orders.size:
        return np.ones(1)
    reach = min(renyi_epsilon(divergence, 1e-20), divergence(math.inf), LARGEST_LOSS)
    epsilon = interval * np.arange(points_of(reach, interval) + 1)
    best = np.zeros(epsilon.size)
    constant = (orders - 1.0) * (values + np.log1p(-1.0 / orders)) - np.log(orders)
    for order, offset in zip(orders, constant, strict=True):
        np.minimum(best, offset - (order - 1.0) * epsilon, out=best)
    pure = divergence(math.inf)
    deltas = np.exp(best) * _UP
    if math.isfinite(pure):
        response = np.maximum(-np.expm1(epsilon - pure), 0.0) / (1.0 + math.exp(-pure))
        deltas = np.minimum(deltas, response * _UP)
    return deltas
