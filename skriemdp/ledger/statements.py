"""What an accountant says: entries of its ledger, totals, what remains, and refusals."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from skriemdp.ledger.errors import BudgetError
from skriemdp.privacy.events import event_from_dict

if TYPE_CHECKING:
    from skriemdp.ledger.chain import Entry


__all__ = [
    "BudgetExceededError",
    "LedgerTotal",
    "Remaining",
    "Spend",
    "charge_line",
    "guarantee",
    "noise_of",
    "percent",
    "plain_number",
    "round_down",
    "round_up",
    "short_event",
    "spend_of",
]


class BudgetExceededError(BudgetError):
    """The spend would pass the ceiling; nothing was charged and nothing was released.

    Attributes
    ----------
    remaining : Remaining
        What the ledger would still admit.
    """

    def __init__(self, message: str, remaining: Remaining | None = None):
        super().__init__(message)
        self.remaining = remaining

    def __reduce__(self) -> tuple[type, tuple[str, Remaining | None]]:
        return type(self), (self.args[0], self.remaining)


@dataclasses.dataclass(frozen=True)
class Spend:
    """One charge, as the ledger holds it.

    Attributes
    ----------
    entry : int
        Number in the ledger, increasing in the order of charging.
    time : str
        ISO 8601, UTC.
    dataset, partition : str
        What was charged; ``partition=""`` is the whole data set.
    label : str
        Who charged: the estimator's class name.
    params : dict
        Public parameters that the estimator noted.
    event : dict
        The event in plain data (:func:`skriemdp.privacy.events.event_from_dict` revives it).
    facts : dict
        What had to be public for the guarantee to hold, by name; large ones as a digest.
    version : str
        Of the library that charged.
    host, user : str
        Who charged, under ``config_context(sign_charges=True)``; else ``""``.
    digest : str
        Of the entry, over everything in it and before it.
    """

    entry: int
    time: str
    dataset: str
    partition: str
    label: str
    params: dict
    event: dict
    facts: dict
    version: str
    host: str
    user: str
    digest: str


def spend_of(row: Entry, dataset: str) -> Spend:
    """The charge that an entry holds."""
    return Spend(
        row.id, row.time, dataset, row.part, row.label, row.params, json.loads(row.event or "{}"),
        row.facts, row.version, row.host, row.user, row.digest,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class LedgerTotal:
    """The tight total of the entries; unpacks as ``epsilon, delta = accountant.spent``.

    It states: everything charged so far is jointly (epsilon, delta)-private **if this list of
    charges had been fixed in advance** (a grid, folds, a script).  The promise that holds for
    choices made after seeing results is the ceiling's, enforced by the filter.

    Attributes
    ----------
    epsilon, delta : float
        By composition of privacy loss distributions, rounded up; the worst partition's.
    n_entries : int
        Number of charges.
    """

    epsilon: float
    delta: float
    n_entries: int

    def __iter__(self) -> Iterator[float]:
        yield self.epsilon
        yield self.delta


@dataclasses.dataclass(frozen=True)
class Remaining:
    """What the filter would still admit, rounded down.

    Attributes
    ----------
    filter : str
        The stored rule these numbers speak of.
    epsilon, delta : float
        Largest epsilon that one more Gaussian fit (under ``"sum"``: any fit) at this delta may ask;
        with `times` above 1, that each of so many may ask.
    mu : float
        The same as a Gaussian mu.
    pure_epsilon : float
        An epsilon that one more pure (delta = 0) fit, or each of `times`, may surely ask; the
        filter may admit more.
    times : int
        For how many equal fits the numbers hold.
    used : float
        Share of the budget that is used, in [0, 1], by the condition that is closest to its limit.
    """

    filter: str
    epsilon: float
    delta: float
    mu: float
    pure_epsilon: float
    times: int = 1
    used: float = 0.0

    def __str__(self) -> str:
        if math.isinf(self.epsilon):
            return f"no ceiling [{self.filter}]"
        fit, each = ("a", "") if self.times == 1 else (f"{self.times}", " each")
        fits = "fit" if self.times == 1 else "fits"
        kind = "" if self.filter.startswith("sum") else "Gaussian "
        return (
            f"{fit} {kind}{fits} of epsilon <= {round_down(self.epsilon)} at delta={self.delta:g}"
            f"{each}, or {fit} pure {fits} of epsilon <= {round_down(self.pure_epsilon)}{each}"
        )


def round_up(value: float) -> str:
    """Four digits, never below the value."""
    return f"{math.ceil(value * 1e4) / 1e4:.4f}" if math.isfinite(value) else "inf"


def round_down(value: float) -> str:
    """Four digits, never above the value."""
    # The factor keeps an untouched 0.3 from printing as 0.2999.
    return f"{math.floor(value * 1e4 * (1 + 1e-12)) / 1e4:.4f}"


def plain_number(value: float, up: bool = False) -> str:
    """Four significant digits, never above the value (`up`: never below)."""
    if value <= 0.0 or not math.isfinite(value):
        return f"{max(value, 0.0):g}"
    step = 10.0 ** (math.floor(math.log10(value)) - 3)
    whole = math.ceil(value / step * (1 - 1e-12)) if up else math.floor(value / step * (1 + 1e-12))
    return f"{whole * step:.4g}"


def percent(share: float) -> str:
    """A share of a budget, to a tenth of a per cent."""
    return f"{100.0 * share:.1f} %"


def charge_line(row: Entry, share: float | None, delta: float) -> str:
    """One charge for people: number, time, who, its guarantee, its share of the budget, its noise.

    Parameters
    ----------
    row : skriemdp.ledger.chain.Entry
    share : float or None
        None without a ceiling.
    delta : float
        The ledger's; where no pair was noted, the charge's epsilon is stated at it.
    """
    assert row.event is not None  # a charge has one
    params, event = row.params, json.loads(row.event)
    where = f" on partition {row.part}" if row.part else ""
    pieces = [f"{row.id}", row.time[:19].replace("T", " "), f"{row.label}{where}"]
    pieces.append(f"{guarantee(params, event, delta)} per {row.unit}")
    if share is not None:
        pieces.append(percent(share))
    seeded = ", seeded" if event.get("kind") == "seeded" else ""
    return "  ".join([*pieces, f"({noise_of(event)}{seeded})"])


def guarantee(params: dict, event: dict, delta: float) -> str:
    """Epsilon and delta of a charge: the pair that was noted, else that of its event."""
    noted = params.get("epsilon"), params.get("delta")
    if all(isinstance(number, (int, float)) for number in noted):
        return f"epsilon={noted[0]:g}, delta={noted[1]:g}"
    try:
        known = event_from_dict(event)
    except (ValueError, TypeError, KeyError):  # written by another version
        return "epsilon unknown"
    pure = known.renyi(math.inf)
    if pure < math.inf and known.extra_delta == 0.0:
        return f"epsilon={pure:g}, delta=0"
    epsilon = known.epsilon(delta) if delta > 0.0 else math.inf
    return f"epsilon={round_up(epsilon)}, delta={delta:g}"


def noise_of(event: dict) -> str:
    """The kinds of noise in an event, in plain words."""
    kinds = [noise_of(part) for part in event.get("events", []) if isinstance(part, dict)]
    if isinstance(event.get("event"), dict):
        kinds.append(noise_of(event["event"]))
    return " + ".join(dict.fromkeys(kinds)) or str(event.get("kind", "unknown"))


def short_event(event: dict) -> str:
    """An event in one line: its kind and its numbers."""
    inside = ", ".join(
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in event.items()
        if name != "kind" and isinstance(value, (int, float, str))
    )
    return f"{event.get('kind', 'event')}({inside})"
