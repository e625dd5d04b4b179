"""What a refused charge is told: what was asked, what is left, and the one thing to change."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from skriemdp.ledger.filters import Filter
from skriemdp.ledger.statements import (
    BudgetExceededError,
    Remaining,
    noise_of,
    percent,
    plain_number,
    short_event,
)
from skriemdp.ledger.storage import Standing, add
from skriemdp.privacy.calibration import gaussian_epsilon, gaussian_mu
from skriemdp.privacy.events import Event, GaussianEvent

__all__ = ["Ask", "refusal", "remaining"]


@dataclasses.dataclass(frozen=True)
class Ask:
    """A spend that someone wants to make, `times` times.

    Attributes
    ----------
    event : Event
    at : tuple of float, or None
        The (epsilon, delta) that it was calibrated to.
    times : int
    unit : str
        Whose data are protected.
    gaussian : str
        Parameters with which the caller's release would be Gaussian; ``""`` where unknown.
    """

    event: Event
    at: tuple[float, float] | None = None
    times: int = 1
    unit: str = "record"
    gaussian: str = ""


def remaining(rule: Filter, standing: Standing, times: int = 1) -> Remaining:
    """What the rule would still admit `times` times."""
    room = rule.room(standing, times)
    return Remaining(
        filter=rule.describe(),
        epsilon=room["epsilon"],
        delta=room["delta"],
        mu=room["mu"],
        pure_epsilon=room["pure"],
        times=times,
        used=min(rule.used(standing.total), 1.0),
    )


def refusal(
    where: str, rule: Filter, standing: Standing, ask: Ask, divisible: bool
) -> BudgetExceededError:
    """The error of a refused spend; `divisible`: the ledger can still be split."""
    left = remaining(rule, standing, ask.times)
    before = rule.used(standing.total)
    after = rule.used(_charged(rule, standing, ask))
    would = "more than any budget" if math.isinf(after) else percent(after)
    return BudgetExceededError(
        f"{where} has the ceiling epsilon={rule.epsilon:g}, delta={rule.delta:g} (rule "
        f"{rule.kind!r}), and {percent(min(before, 1.0))} of it is used. Asked: {_asked(ask)}, "
        f"which would make it {would}. Left: {left}. Nothing was spent or released. "
        f"{_cure(rule, standing, ask, divisible)}",
        left,
    )


def _charged(rule: Filter, standing: Standing, ask: Ask) -> tuple[int | None, ...]:
    total, cost = standing.total, rule.cost(ask.event, ask.at)
    each = tuple(None if amount is None else ask.times * amount for amount in cost)
    return add(total, each)


def _asked(ask: Ask) -> str:
    times = f"{ask.times} times " if ask.times > 1 else ""
    if ask.at is None:
        return f"{times}{short_event(ask.event.to_dict())}"
    epsilon, delta = ask.at
    return (
        f"{times}epsilon={epsilon:g}, delta={delta:g} per {ask.unit} "
        f"({noise_of(ask.event.to_dict())} noise)"
    )


def _cure(rule: Filter, standing: Standing, ask: Ask, divisible: bool) -> str:
    """One change, from public numbers, after which the spend is admitted."""
    if ask.at is not None and ask.event.mu is None:
        epsilon, delta = ask.at[0], ask.at[1] or rule.delta
        if delta > 0.0 and _gaussian_fits(rule, standing, epsilon, delta, ask.times):
            what = [f"delta={delta:g}"] if ask.at[1] == 0.0 else []
            what += [ask.gaussian] if ask.gaussian else []
            how = f": pass {', '.join(what)}" if what else ""
            return f"The same epsilon fits with Gaussian noise at delta={delta:g}{how}."
    if divisible and ask.times > 1:
        return (
            f"split({ask.times}) divides the budget into {ask.times} parts, and any fit with "
            "**part.whole() fills one."
        )
    room = rule.room(standing, ask.times)
    if rule.kind == "sum" and ask.at is not None and ask.at[0] <= room["epsilon"]:
        if 0.0 < room["delta"] < ask.at[1]:
            return f"Pass delta={plain_number(room['delta'])} or less."
    elif (largest := _largest(rule, standing, ask, room)) is not None:
        return largest
    return "No such release is admitted on these records any more."


def _largest(rule: Filter, standing: Standing, ask: Ask, room: dict[str, float]) -> str | None:
    """The largest epsilon (noise, where there is none) admitted now; None if there is none."""
    pure = ask.event.renyi(math.inf) < math.inf if ask.at is None else ask.at[1] == 0.0
    if pure:
        bound = plain_number(room["pure"])
        return f"Pass epsilon={bound} or less." if float(bound) > 0.0 else None
    if room["mu"] <= 0.0:
        return None
    if ask.at is None:
        least = plain_number(1.0 / room["mu"], up=True)
        return f"Gaussian noise with a noise_multiplier of {least} or more is admitted."
    delta = ask.at[1]
    filled = ask.times == 1 and standing.untouched and rule.kind != "gdp-part"
    if rule.kind == "sum" or (filled and delta <= rule.delta):
        if delta > room["delta"]:
            return None
        epsilon, how = room["epsilon"], ""
    else:
        epsilon = gaussian_epsilon(room["mu"], delta) * (1 - 1e-9)
        how = f" and {ask.gaussian}" if ask.event.mu is None and ask.gaussian else ""
        how += "" if ask.event.mu is not None or ask.gaussian else " with Gaussian noise"
    bound = plain_number(epsilon)
    return f"Pass epsilon={bound} or less{how}." if float(bound) > 0.0 else None


def _gaussian_fits(rule: Any, standing: Any, epsilon: float, delta: float, times: int) -> bool:
    event = GaussianEvent(1.0 / gaussian_mu(epsilon, delta))
    return rule.count(standing, rule.costs(event, (epsilon, delta)), event) >= times
