"""Events, which describe releases in numbers: composition, and conversion to and from JSON.

**The convention of noise, stated once.**  Adjacency is replace-one.  The `noise_multiplier` of an
event is the standard deviation of the noise over the *replace-one* sensitivity of the query it was
added to: ``GaussianEvent(nu)`` is (1/nu)-GDP.  dp_accounting's ``GaussianDpEvent(z)`` divides by
the norm of one record's contribution instead; its PLD accountant under REPLACE_ONE doubles the
sensitivity itself (so z = 2 nu), its RDP accountant does not (so z = nu; reported upstream as
google/differential-privacy#378).  Nothing here goes through those accountants: loss distributions
are built directly (skriemdp/privacy/_loss_distributions.py), and tests/test_events.py pins how both
read an event.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from skriemdp._errors import PublicAttributeError, PublicValueError
from skriemdp._validation import check_count
from skriemdp.privacy._event import Event, check_events, normalize_fields
from skriemdp.privacy._events_basic import (
    ApproximateEvent,
    GaussianEvent,
    ProfileEvent,
    PureEvent,
    SeededEvent,
    ZCDPEvent,
)
from skriemdp.privacy._loss_distributions import (
    TAIL,
    PrivacyLossDistribution,
    gaussian_loss,
    nothing,
    product,
    repeat,
)

if TYPE_CHECKING:
    from skriemdp.privacy._events_mixed import MixtureEvent, ParallelEvent, SelectionEvent
    from skriemdp.privacy._events_sampled import (
        FixedSizeSampledGaussianEvent,
        PoissonSampledGaussianEvent,
    )

__all__ = [
    "ApproximateEvent",
    "ComposedEvent",
    "Event",
    "FixedSizeSampledGaussianEvent",
    "GaussianEvent",
    "MixtureEvent",
    "ParallelEvent",
    "PoissonSampledGaussianEvent",
    "ProfileEvent",
    "PureEvent",
    "SeededEvent",
    "SelectionEvent",
    "SelfComposedEvent",
    "ZCDPEvent",
    "as_drawn",
    "compose",
    "event_from_dict",
]

# Where each kind of event lives; imported when a stored event is revived.
KINDS = {
    "gaussian": "skriemdp.privacy._events:GaussianEvent",
    "pure": "skriemdp.privacy._events:PureEvent",
    "approximate": "skriemdp.privacy._events:ApproximateEvent",
    "zcdp": "skriemdp.privacy._events:ZCDPEvent",
    "profile": "skriemdp.privacy._events:ProfileEvent",
    "seeded": "skriemdp.privacy._events:SeededEvent",
    "poisson-gaussian": "skriemdp.privacy._events:PoissonSampledGaussianEvent",
    "fixed-size-gaussian": "skriemdp.privacy._events:FixedSizeSampledGaussianEvent",
    "composed": "skriemdp.privacy._events:ComposedEvent",
    "self-composed": "skriemdp.privacy._events:SelfComposedEvent",
    "mixture": "skriemdp.privacy._events:MixtureEvent",
    "parallel": "skriemdp.privacy._events:ParallelEvent",
    "selection": "skriemdp.privacy._events:SelectionEvent",
    "riemannian": "skriemdp.riemannian_laws._profiles:RiemannianEvent",
    "laplace": "skriemdp.privacy._laplace:LaplaceEvent",
}


# Events that few fits release; loaded on first use.
_ELSEWHERE = {
    "MixtureEvent": "_events_mixed",
    "ParallelEvent": "_events_mixed",
    "SelectionEvent": "_events_mixed",
    "FixedSizeSampledGaussianEvent": "_events_sampled",
    "PoissonSampledGaussianEvent": "_events_sampled",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _ELSEWHERE:
            return getattr(import_module(f"skriemdp.privacy.{_ELSEWHERE[name]}"), name)
        raise PublicAttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Together(Event):
    """Releases on the same records, each so many times; its numbers are sums over the releases."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[tuple[Event, int], ...]:
        """The releases, and how often each happened."""

    def _sum(self, number: Callable[[Event], float]) -> float:
        return math.fsum(count * number(event) for event, count in self.parts)

    def _root(self, known: Callable[[Event], float | None]) -> float | None:
        roots = []
        for event, count in self.parts:
            if (part := known(event)) is None:
                return None
            roots.append(math.sqrt(count) * part)
        return math.sqrt(math.fsum(root * root for root in roots))

    @property
    def mu(self) -> float | None:
        """Root of the sum of squares when all parts are Gaussian."""
        return self._root(lambda event: event.mu)

    @property
    def gdp_bound(self) -> float | None:
        """Root of the sum of squares of the parts' bounds."""
        return self._root(lambda event: event.gdp_bound)

    @property
    def extra_delta(self) -> float:
        """Sum over the parts."""
        return self._sum(lambda event: event.extra_delta)

    @property
    def tv(self) -> float:
        """Sum over the parts."""
        return self._sum(lambda event: event.tv)

    @property
    def renyi_tv(self) -> float:
        """Sum over the parts."""
        return self._sum(lambda event: event.renyi_tv)

    @property
    def steps(self) -> int:
        """Sum over the parts."""
        return max(sum(count * event.steps for event, count in self.parts), 1)

    @property
    def rough_size(self) -> float:
        """Sum over the parts."""
        return self._sum(lambda event: event.rough_size)

    @property
    def renyi_only(self) -> bool:
        """Whether every part is known by Renyi divergences alone, or Gaussian."""
        known = (event.renyi_only or event.mu is not None for event, _ in self.parts)
        return self.renyi_inside and all(known)

    @property
    def renyi_inside(self) -> bool:
        """Whether a part is known by Renyi divergences alone."""
        return any(event.renyi_inside for event, _ in self.parts)

    def renyi(self, order: float) -> float:
        """Sum over the parts."""
        return self._sum(lambda event: event.renyi(order))


@dataclass(frozen=True)
class ComposedEvent(_Together):
    """Several releases on the same records, fixed in advance or all Gaussian; may be empty.

    Parameters
    ----------
    events : tuple of Event

    Notes
    -----
    *Guarantee*: product of the dominating pairs (adaptive queries, events fixed in advance).  Use
    :func:`compose`, which merges what can be merged exactly.
    """

    events: tuple
    kind = "composed"

    @property
    def parts(self) -> tuple[tuple[Event, int], ...]:
        """Each once."""
        return tuple((event, 1) for event in self.events)

    def _gaussian_and_other(self) -> tuple[float, Event] | None:
        """Mu of the one part and the other part, for a Gaussian and another event; else None."""
        if len(self.events) == 2:
            for gaussian, other in (self.events, self.events[::-1]):
                if gaussian.mu and other.mu is None:
                    return gaussian.mu, other
        return None

    def _exact_delta(self, epsilon: float) -> float | None:
        pair = self._gaussian_and_other()
        if pair is None:
            return super()._exact_delta(epsilon)
        return pair[1].delta_with_gaussian(pair[0], epsilon)

    def _exact_epsilon(self, delta: float) -> float | None:
        pair = self._gaussian_and_other()
        if pair is None:
            return super()._exact_epsilon(delta)
        return pair[1].epsilon_with_gaussian(pair[0], delta) if delta > 0.0 else None

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """See :meth:`Event.privacy_loss_distribution`."""
        losses = [
            (
                gaussian_loss(event.mu, interval)
                if event.mu
                else event.privacy_loss_distribution(interval)
            )
            for event in self.events
        ]
        if not losses:
            return nothing(interval)
        # Neighbours in pairs, so that long distributions meet few others.
        while len(losses) > 1:
            paired = [
                product(a, b, TAIL / len(self.events))
                for a, b in zip(losses[::2], losses[1::2], strict=False)
            ]
            losses = paired + losses[2 * len(paired) :]
        return losses[0]


@dataclass(frozen=True)
class SelfComposedEvent(_Together):
    """Event of one release that is made `count` times.

    Parameters
    ----------
    event : Event
    count : int
    """

    event: Event
    count: int
    kind = "self-composed"

    def __post_init__(self) -> None:
        normalize_fields(self)
        check_count(count=self.count)

    @property
    def parts(self) -> tuple[tuple[Event, int], ...]:
        """One, `count` times."""
        return ((self.event, self.count),)

    @property
    def unit(self) -> tuple[Event, int]:
        """The innermost event and how often it happened in all."""
        event, count = self.event.unit
        return event, count * self.count

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """See :meth:`Event.privacy_loss_distribution`."""
        event, count = self.unit
        merged = event.repeated(count)
        if merged is not None:
            return merged.privacy_loss_distribution(interval)
        return repeat(event.privacy_loss_distribution(interval), count, interval)


def compose(events: Iterable[Event]) -> Event:
    """One event for several on the same records.

    Nested compositions are opened, equal events counted, Gaussian parts merged into one by their
    sum of ``mu**2`` and zero-concentrated parts by their sum of rho; all exact.

    Parameters
    ----------
    events : iterable of Event

    Examples
    --------
    >>> from skriemdp.privacy import GaussianEvent, PureEvent, compose
    >>> compose([GaussianEvent(5.0), GaussianEvent(5.0)])
    GaussianEvent(noise_multiplier=5.0, count=2)
    >>> compose([PureEvent(0.1), GaussianEvent(3.0), PureEvent(0.1)]).events[0]
    SelfComposedEvent(event=PureEvent(epsilon_0=0.1), count=2)
    """
    counts: dict[Event, int] = {}
    _open(events, 1, counts)
    # What tells nothing costs nothing, however many are left out.
    counts = {event: count for event, count in counts.items() if event.mu != 0.0}
    gaussian = {event: count for event, count in counts.items() if event.mu is not None}
    concentrated = {e: count for e, count in counts.items() if isinstance(e, ZCDPEvent)}
    if len(gaussian) > 1:
        square = math.fsum(count * (event.mu or 0.0) ** 2 for event, count in gaussian.items())
        counts = {event: count for event, count in counts.items() if event not in gaussian}
        # A rounding up, so that the merged mu is never below the true one.
        counts[GaussianEvent(1.0 / (math.sqrt(square) * (1.0 + 1e-15)))] = 1
    if len(concentrated) > 1:
        rho = math.fsum(count * event.rho for event, count in concentrated.items())
        counts = {event: count for event, count in counts.items() if event not in concentrated}
        counts[ZCDPEvent(rho)] = 1
    parts = []
    for event, count in counts.items():
        merged = event.repeated(count)
        parts.append(SelfComposedEvent(event, count) if merged is None else merged)
    return parts[0] if len(parts) == 1 else ComposedEvent(tuple(parts))


def as_drawn(event: Event, random_state: int | None) -> Event:
    """`event`, which protects nobody where its noise comes from an integer."""
    return event if random_state is None else SeededEvent(event)


def _open(events: Iterable[Event], times: int, counts: dict) -> None:
    for event in events:
        check_events([event])
        unit, count = event.unit
        if isinstance(unit, ComposedEvent):
            _open(unit.events, times * count, counts)
        else:
            counts[unit] = counts.get(unit, 0) + times * count


def event_from_dict(values: dict) -> Event:
    """Inverse of :meth:`Event.to_dict`.

    Raises
    ------
    ValueError
        When the kind is unknown or the fields do not fit it.
    """
    fields = dict(values)
    kind = fields.pop("kind", None)
    if kind not in KINDS:
        raise PublicValueError(f"kind={kind!r} is not a known kind of event.")
    module, name = KINDS[kind].split(":")
    try:
        return getattr(import_module(module), name)(**{k: _revive(v) for k, v in fields.items()})
    except TypeError as error:
        raise PublicValueError(
            f"the stored event of kind {kind!r} is malformed: {error}"
        ) from error


def _revive(value: Any) -> Any:
    if isinstance(value, dict) and "kind" in value:
        return event_from_dict(value)
    if isinstance(value, (list, tuple)):
        return tuple(_revive(item) for item in value)
    return value
