"""Events made of others: participation by coins, disjoint records, private selection."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from skriemdp._errors import PublicValueError
from skriemdp._validation import check_generator, check_option, check_order, check_positive
from skriemdp.privacy._event import (
    Event,
    convex_profile,
    normalize_fields,
    real_delta,
    real_epsilon,
)
from skriemdp.privacy._loss_distributions import (
    TAIL,
    PrivacyLossDistribution,
    largest_loss,
    loss_from_profile,
    mixture_loss,
    nothing,
    product,
    repeat,
)


def _all_known(parts: Iterable[float | None]) -> list[float] | None:
    known = []
    for part in parts:
        if part is None:
            return None
        known.append(part)
    return known


def _largest(parts: Iterable[float | None]) -> float | None:
    known = _all_known(parts)
    return None if known is None else max(known)


@dataclass(frozen=True)
class MixtureEvent(Event):
    """One of several events happens, chosen by coins that do not depend on the data.

    The adversary may see the coins.  With ``events[k]`` a k-fold composition and `weights` the law
    of the number of rounds in which a client takes part, this is the client's guarantee against a
    server that sees every upload.

    Parameters
    ----------
    weights : tuple of float
        Probabilities; they sum to 1.
    events : tuple of Event
        ``ComposedEvent(())`` stands for no release.

    Notes
    -----
    *Guarantee*: exactly ``delta(epsilon) = sum_k weights[k] delta_k(epsilon)`` when every
    ``delta_k`` is exact: the pair is (coins, event) on both sides, and the coins cancel.
    """

    weights: tuple
    events: tuple
    kind = "mixture"

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", tuple(float(w) for w in self.weights))
        normalize_fields(self)
        if len(self.weights) != len(self.events) or not self.events:
            raise PublicValueError(
                f"weights and events must have the same length >= 1, got {len(self.weights)} and "
                f"{len(self.events)}."
            )
        if not all(0.0 <= weight <= 1.0 for weight in self.weights):
            raise PublicValueError("weights must be probabilities, between 0 and 1.")
        if abs(math.fsum(self.weights) - 1.0) > 1e-13:  # mass left out would be delta
            raise PublicValueError(f"weights must sum to 1, got {math.fsum(self.weights)!r}.")

    @property
    def _possible(self) -> list[tuple[float, Event]]:
        return [(w, e) for w, e in zip(self.weights, self.events, strict=True) if w > 0.0]

    @property
    def mu(self) -> float | None:
        """Mu of the events when they all agree, else None."""
        parts = {event.mu for _, event in self._possible}
        return parts.pop() if len(parts) == 1 else None

    @property
    def gdp_bound(self) -> float | None:
        """The largest bound of an event."""
        return _largest(event.gdp_bound for _, event in self._possible)

    @property
    def extra_delta(self) -> float:
        """The largest of an event: each may give away more mass than it has to."""
        return max(event.extra_delta for _, event in self._possible)

    @property
    def tv(self) -> float:
        """The mean over the coins."""
        return math.fsum(weight * event.tv for weight, event in self._possible) * (1.0 + 1e-12)

    @property
    def renyi_tv(self) -> float:
        """The largest of an event: high orders see the worst outcome of the coins."""
        return max(event.renyi_tv for _, event in self._possible)

    @property
    def steps(self) -> int:
        """Those of the longest event."""
        return max(event.steps for _, event in self._possible)

    @property
    def renyi_only(self) -> bool:
        """Whether every event is known by Renyi divergences alone, or Gaussian."""
        return self.renyi_inside and all(
            event.renyi_only or event.mu is not None for _, event in self._possible
        )

    @property
    def renyi_inside(self) -> bool:
        """Whether an event is known by Renyi divergences alone."""
        return any(event.renyi_inside for _, event in self._possible)

    def renyi(self, order: float) -> float:
        """``log(sum_k weights[k] exp((order - 1) renyi_k)) / (order - 1)``, exact."""
        weights, parts = zip(*((w, e.renyi(order)) for w, e in self._possible), strict=True)
        if order == math.inf or math.inf in parts:
            return max(parts)
        top = max(parts)
        scaled = [(w, (order - 1.0) * (part - top)) for w, part in self._pairs(parts)]
        total = math.fsum(w * math.exp(x) for w, x in scaled)
        if total < 0.5:
            inside = math.log(total)
        else:  # small divergences keep their digits
            inside = math.log1p(math.fsum(w * math.expm1(x) for w, x in scaled))
        return min(top, max(top + inside / (order - 1.0), 0.0) * (1.0 + 1e-12))

    def _pairs(self, parts: Iterable[float]) -> Iterator[tuple[float, float]]:
        return zip((w for w, _ in self._possible), parts, strict=True)

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """See :meth:`Event.privacy_loss_distribution`."""
        # k-fold compositions of one event are built from each other, shortest first.
        order = sorted(self._possible, key=lambda pair: pair[1].unit[1])
        known: dict[Event, tuple] = {}
        losses = []
        for _, event in order:
            unit, count = event.unit
            before, loss = known.get(unit, (0, None))
            if loss is None or event.mu is not None:
                loss = event.privacy_loss_distribution(interval)
            elif count > before:
                single = unit.privacy_loss_distribution(interval)
                step = repeat(single, count - before, interval)
                loss = product(loss, step, TAIL / len(order))
            known[unit] = (count, loss)
            losses.append(loss)
        return mixture_loss([weight for weight, _ in order], losses) or nothing(interval)

    def _exact_delta(self, epsilon: float) -> float | None:
        parts = _all_known(event._exact_delta(epsilon) for _, event in self._possible)
        if parts is None:
            return None
        total = math.fsum(w * part for w, part in self._pairs(parts)) * (1.0 + 1e-12)
        # A product of two tiny numbers must not become 0.
        return min(max(total, 5e-324 if any(parts) else 0.0), 1.0)

    def _exact_epsilon(self, delta: float) -> float | None:
        exact: Any = self._exact_delta
        if exact(0.0) is None:  # known at one epsilon, known at all
            return None
        if delta == 0.0:
            return math.inf if self.extra_delta else self.renyi(math.inf)
        if exact(0.0) <= delta:
            return 0.0
        high = _largest(event._exact_epsilon(delta) for _, event in self._possible)
        if high is None or not math.isfinite(high):
            high = 1.0
            while exact(high) > delta:
                high *= 2.0
                if high > 1e7:
                    return math.inf
        low = 0.0
        while high - low > 1e-12 * high:
            middle = 0.5 * (low + high)
            if exact(middle) > delta:
                low = middle
            else:
                high = middle
        return high


@dataclass(frozen=True)
class ParallelEvent(Event):
    """A record meets one of several events: releases on disjoint sets of records, say.

    Parameters
    ----------
    events : tuple of Event
        One for every set, if the sets are public; or one for every outcome of a coin whose law does
        not depend on the data, nor need be known.

    Notes
    -----
    *Guarantee*: a replaced record is in one set, so the pair of that set's release dominates; the
    profile and the divergences are the largest of the events'.  For a coin they cover the mean over
    its outcomes (:class:`MixtureEvent`).

    Examples
    --------
    >>> from skriemdp.privacy import GaussianEvent, ParallelEvent, PureEvent
    >>> event = ParallelEvent((PureEvent(0.5), GaussianEvent(4.0)))
    >>> round(event.epsilon(1e-5), 3), round(event.delta(0.1), 3)
    (0.926, 0.205)
    """

    events: tuple
    kind = "parallel"

    def __post_init__(self) -> None:
        normalize_fields(self)
        if not self.events:
            raise PublicValueError("events must not be empty.")

    @property
    def mu(self) -> float | None:
        """The largest, when all are Gaussian."""
        return _largest(event.mu for event in self.events)

    @property
    def gdp_bound(self) -> float | None:
        """The largest bound of an event."""
        return _largest(event.gdp_bound for event in self.events)

    @property
    def extra_delta(self) -> float:
        """The largest of an event."""
        return max(event.extra_delta for event in self.events)

    @property
    def tv(self) -> float:
        """The largest of an event."""
        return max(event.tv for event in self.events)

    @property
    def renyi_tv(self) -> float:
        """The largest of an event."""
        return max(event.renyi_tv for event in self.events)

    @property
    def steps(self) -> int:
        """Those of the longest event."""
        return max(event.steps for event in self.events)

    def renyi(self, order: float) -> float:
        """The largest of the events'."""
        return max(event.renyi(order) for event in self.events)

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """See :meth:`Event.privacy_loss_distribution`."""
        return largest_loss([e.privacy_loss_distribution(interval) for e in self.events], interval)

    def _exact_delta(self, epsilon: float) -> float:
        return max(real_delta(event, epsilon) for event in self.events)

    def _exact_epsilon(self, delta: float) -> float:
        return max(real_epsilon(event, delta) for event in self.events)


@functools.lru_cache(maxsize=256)
def _gamma(mean: float, shape: float) -> float:
    """Parameter gamma of the truncated negative binomial law with this mean."""

    def excess(log_odds: float) -> float:
        return math.log(_mean(1.0 / (1.0 + math.exp(log_odds)), shape)) - math.log(mean)

    return 1.0 / (1.0 + math.exp(brentq(excess, -30.0, 60.0, xtol=1e-13)))


def _mean(gamma: float, shape: float) -> float:
    if shape == 0.0:
        return (1.0 / gamma - 1.0) / -math.log(gamma)
    return shape * (1.0 - gamma) / (gamma * -math.expm1(shape * math.log(gamma)))


@dataclass(frozen=True)
class SelectionEvent(Event):
    """The best of a random number K of runs of `event` is released, and nothing else.

    Parameters
    ----------
    event : Event
        One run: a candidate drawn at random, its model and its noisy score.
    mean : float
        Expected number of runs, ``E[K]``.
    law : {"negative-binomial", "poisson"}
        Law of K.  The truncated negative binomial law is at least 1; a Poisson number may be 0, and
        then a fixed default is released.
    shape : float, default=1.0
        Parameter eta > -1 of the truncated negative binomial law: 1 geometric, 0 logarithmic.
        Unused with ``law="poisson"``.

    Notes
    -----
    *Guarantee* (Papernot and Steinke 2022): K must stay hidden.  Truncated negative binomial,
    Theorem 2: for every ``l > 1`` and ``m >= 1``

        renyi'(l) = renyi(l) + (1 + eta) ((1 - 1/m) renyi(m) + log(1/gamma) / m)
                    + log(E[K]) / (l - 1),

    and ``(2 + eta) epsilon`` if a run is epsilon-DP.  Poisson, Theorem 6: with ``e^epsilon = 1 +
    1/(l - 1)`` and ``delta`` of one run there,

        renyi'(l) = log(e^-E[K] + E[K] exp((l - 1) (renyi(l) + E[K] delta))) / (l - 1);

    the first term is the default's share (docs/theory/accounting.md, section 7).
    """

    event: Event
    mean: float
    law: str = "negative-binomial"
    shape: float = 1.0
    kind = "selection"

    def __post_init__(self) -> None:
        normalize_fields(self)
        check_option(("negative-binomial", "poisson"), law=self.law)
        check_positive(mean=self.mean)
        if self.law == "negative-binomial":
            if not -1.0 < self.shape < math.inf:
                raise PublicValueError(f"shape must be a finite number > -1, got {self.shape!r}.")
            if self.mean <= 1.0:
                raise PublicValueError(
                    f"mean must exceed 1, the least number of runs, got {self.mean!r}."
                )
            if not 1e-13 < self.gamma < 1.0 - 1e-13:
                raise PublicValueError(
                    f"mean={self.mean!r} is out of range for shape={self.shape!r}."
                )
        if self.event.extra_delta:
            raise PublicValueError(
                "private selection needs runs with finite Renyi divergence; an approximate event "
                "has none."
            )

    @property
    def gamma(self) -> float:
        """Parameter gamma in (0, 1) of the truncated negative binomial law."""
        return _gamma(float(self.mean), float(self.shape))

    def draw_count(self, rng: np.random.Generator) -> int:
        """K, drawn from the law that this event accounts for.

        Parameters
        ----------
        rng : numpy.random.Generator
            Secret randomness.
        """
        check_generator(rng)
        if self.law == "poisson":
            return int(rng.poisson(self.mean))
        if self.shape == 0.0:
            return int(rng.logseries(1.0 - self.gamma))
        if self.shape == 1.0:
            return int(rng.geometric(self.gamma))
        if self.shape > 0.0:
            while True:
                # Conditioned on a positive number; succeeds with probability 1 - gamma**shape.
                count = int(rng.negative_binomial(self.shape, self.gamma))
                if count:
                    return count
        # P(K = k+1) / P(K = k) = (1 - gamma) (k + shape) / (k + 1), from P(K = 1).
        uniform, count = rng.random(), 1
        mass = self.shape * (1.0 - self.gamma) / math.expm1(-self.shape * math.log(self.gamma))
        while uniform > mass and count < 10_000_000:
            uniform -= mass
            mass *= (1.0 - self.gamma) * (count + self.shape) / (count + 1)
            count += 1
        return count

    @property
    def tv(self) -> float:
        """``mean`` times that of a run: a search of K runs is off by K times as much at most."""
        return self.mean * self.event.tv * (1.0 + 1e-12)

    @property
    def renyi_tv(self) -> float:
        """Distance of a run, times how often the theorem of `law` adds up what a run has.

        ``2 + shape`` times (``renyi(l)`` once, ``renyi(m)`` up to ``1 + shape`` times), or ``1 +
        mean`` times under the Poisson law, where delta counts `mean` times.
        """
        times = 2.0 + self.shape if self.law == "negative-binomial" else 1.0 + self.mean
        return times * self.event.renyi_tv * (1.0 + 1e-12)

    @property
    def gdp_bound(self) -> None:
        """Return None: no GDP bound is known."""
        return None

    @property
    def renyi_only(self) -> bool:
        """True."""
        return True

    def renyi(self, order: float) -> float:
        """The theorem of `law`, at most the pure bound where a run is pure."""
        check_order(order)
        return _selection_renyi(self, float(order))

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """See :meth:`Event.privacy_loss_distribution`."""
        return loss_from_profile(convex_profile(self.renyi, interval), interval)


_LOG_ORDERS = np.linspace(-3.0, 9.0, 49)


@functools.lru_cache(maxsize=1024)
def _selection_terms(event: SelectionEvent) -> float:
    """Best ``(1 - 1/m) renyi(m) + log(1/gamma)/m`` over orders m >= 1; any m is valid."""
    log_inverse = -math.log(event.gamma)
    best = log_inverse
    for m in 1.0 + np.exp(_LOG_ORDERS):
        best = min(best, (1.0 - 1.0 / m) * event.event.renyi(m) + log_inverse / m)
    return min(best, event.event.renyi(math.inf))


@functools.lru_cache(maxsize=16384)
def _selection_renyi(event: SelectionEvent, order: float) -> float:
    # Divergences grow with the order, so a bound at a larger one holds as well.
    larger = [bound for grid_order, bound in _selection_grid(event) if grid_order > order]
    return min(_selection_bound(event, order), *larger, _selection_bound(event, math.inf))


@functools.lru_cache(maxsize=256)
def _selection_grid(event: SelectionEvent) -> tuple:
    return tuple((m, _selection_bound(event, m)) for m in (1.0 + np.exp(_LOG_ORDERS)).tolist())


def _selection_bound(event: SelectionEvent, order: float) -> float:
    base = event.event
    pure = base.renyi(math.inf)
    if event.law == "negative-binomial":
        if order == math.inf:
            return (2.0 + event.shape) * pure * (1.0 + 1e-12)
        extra = (1.0 + event.shape) * _selection_terms(event)
        return (base.renyi(order) + extra + math.log(event.mean) / (order - 1.0)) * (1.0 + 1e-12)
    if order == math.inf:
        # Pure runs: the ratio of two values of e^(E[K] x), at most total variation apart.
        return (
            (pure + event.mean * real_delta(base, 0.0)) * (1.0 + 1e-12) if pure < math.inf else pure
        )
    delta = real_delta(base, math.log1p(1.0 / (order - 1.0)))
    runs = math.log(event.mean) + (order - 1.0) * (base.renyi(order) + event.mean * delta)
    return float(np.logaddexp(-event.mean, runs)) / (order - 1.0) * (1.0 + 1e-12)
