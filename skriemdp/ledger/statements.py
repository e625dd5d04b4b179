"""What an accountant says: its charges and totals, what remains, refusals, and a summary."""

from __future__ import annotations

import itertools
import json
import math
import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from skriemdp._dataclasses import dataclass
from skriemdp.ledger.chain import Entry, Standing, add
from skriemdp.ledger.errors import BudgetError
from skriemdp.ledger.filters import Filter, Remaining, plain_number, round_up
from skriemdp.privacy.calibration import gaussian_epsilon, gaussian_mu
from skriemdp.privacy.events import Event, GaussianEvent, event_from_dict

if TYPE_CHECKING:
    from skriemdp.ledger.accountant import PrivacyAccountant
    from skriemdp.ledger.storage import Ledger


__all__ = [
    "Ask",
    "BudgetExceededError",
    "History",
    "LedgerTotal",
    "Spend",
    "charge_line",
    "guarantee",
    "noise_of",
    "percent",
    "recent_charges",
    "refusal",
    "short_event",
    "spend_of",
    "summary_lines",
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


@dataclass(frozen=True)
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
    event = json.loads(row.event or "{}")
    return Spend(
        row.id, row.time, dataset, row.part, row.label, digest=row.digest, event=event, **row.noted
    )


class History(Sequence):
    """The charges of one data set, oldest first, as they are in the file when asked.

    Parameters
    ----------
    ledger : Ledger
    dataset : str
    partition : str
        Empty: all charges; else the common ones and those of this partition.
    """

    def __init__(self, ledger: Ledger, dataset: str, partition: str = ""):
        self._ledger, self._dataset, self._partition = ledger, dataset, partition

    def __len__(self) -> int:
        with self._ledger.reading() as book:
            place = book.place(self._dataset)
            if not self._partition:
                return place.charges
            return place.last.state[1] + book.own(place, self._partition)[0]

    def __iter__(self) -> Iterator[Spend]:
        rows = self._ledger.entries(self._dataset, self._partition)
        return (spend_of(row, self._dataset) for row in rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = operator.index(index)
        with self._ledger.reading() as book:
            wanted = book.place(self._dataset), self._partition
            rows = book.rows(1, -1, *wanted, newest=place < 0)
            row = next(itertools.islice(rows, place if place >= 0 else -1 - place, None), None)
        if row is None:
            raise IndexError("the ledger has no such charge.")
        return spend_of(row, self._dataset)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} charges of data set {self._dataset!r}>"


@dataclass(frozen=True)
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
    event = json.loads(row.event or "{}")
    where = f" on partition {row.part}" if row.part else ""
    stated = guarantee(row.noted["params"], event, delta)
    pieces = [
        row.id,
        row.time[:19].replace("T", " "),
        row.label + where,
        f"{stated} per {row.unit}",
    ]
    pieces += [] if share is None else [percent(share)]
    seeded = ", seeded" if event.get("kind") == "seeded" else ""
    return "  ".join([*map(str, pieces), f"({noise_of(event)}{seeded})"])


def guarantee(params: dict, event: dict, delta: float) -> str:
    """Epsilon and delta of a charge: the pair that was noted, else that of its event.

    Of a secure sum with the epsilon that holds if all other clients work with the server, or if the
    cryptography is broken.
    """
    alone = params.get("epsilon_alone")
    if isinstance(alone, (int, float)):
        others = {name: value for name, value in params.items() if name != "epsilon_alone"}
        stated = guarantee(others, event, delta)
        return f"{stated} (computational; alone epsilon={round_up(alone)})"
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


# -- what remains, and refusals --------------------------------------------------------------------


class Ask(NamedTuple):
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


def refusal(
    where: str, rule: Filter, standing: Standing, ask: Ask, divisible: bool
) -> BudgetExceededError:
    """The error of a refused spend; `divisible`: the ledger can still be split."""
    left = rule.remaining(standing, ask.times)
    before = rule.used(standing.total)
    cost = [each and ask.times * each for each in rule.cost(ask.event, ask.at)]
    after = rule.used(add(standing.total, tuple(cost)))
    would = "more than any budget" if math.isinf(after) else percent(after)
    asked = "" if ask.times == 1 else f"{ask.times} times "
    if ask.at is None:
        asked += short_event(ask.event.to_dict())
    else:
        noise = noise_of(ask.event.to_dict())
        asked += f"epsilon={ask.at[0]:g}, delta={ask.at[1]:g} per {ask.unit} ({noise} noise)"
    return BudgetExceededError(
        f"{where} has the ceiling epsilon={rule.epsilon:g}, delta={rule.delta:g} (rule "
        f"{rule.kind!r}), and {percent(min(before, 1.0))} of it is used. Asked: {asked}, "
        f"which would make it {would}. Left: {left}. Nothing was spent or released. "
        f"{_cure(rule, standing, ask, divisible, left)}",
        left,
    )


def _cure(rule: Filter, standing: Standing, ask: Ask, divisible: bool, left: Remaining) -> str:
    """One change, from public numbers, after which the spend is admitted."""
    if ask.at is not None and ask.event.mu is None:
        delta = ask.at[1] or rule.delta
        if delta > 0.0 and _gaussian_fits(rule, standing, ask.at[0], delta, ask.times):
            given = f"delta={delta:g}" if ask.at[1] == 0.0 else ""
            what = ", ".join(filter(None, (given, ask.gaussian)))
            how = f": pass {what}" if what else ""
            return f"The same epsilon fits with Gaussian noise at delta={delta:g}{how}."
    if divisible and ask.times > 1:
        return (
            f"split({ask.times}) divides the budget into {ask.times} parts, and any fit with "
            "**part.whole() fills one."
        )
    none = "No such release is admitted on these records any more."
    if rule.kind == "sum" and ask.at is not None and ask.at[0] <= left.epsilon:
        fits = 0.0 < left.delta < ask.at[1]
        return f"Pass delta={plain_number(left.delta)} or less." if fits else none
    return _largest(rule, standing, ask, left) or none


def _largest(rule: Filter, standing: Standing, ask: Ask, left: Remaining) -> str:
    """The largest epsilon (noise, where there is none) admitted now; empty if there is none."""
    how = ""
    if ask.event.renyi(math.inf) < math.inf if ask.at is None else ask.at[1] == 0.0:
        epsilon = left.pure_epsilon
    elif left.mu <= 0.0:
        return ""
    elif ask.at is None:
        least = plain_number(1.0 / left.mu, up=True)
        return f"Gaussian noise with a noise_multiplier of {least} or more is admitted."
    elif rule.kind == "sum" or (
        ask.times == 1
        and standing.untouched
        and rule.kind != "gdp-part"
        and ask.at[1] <= rule.delta
    ):
        epsilon = left.epsilon if ask.at[1] <= left.delta else 0.0
    else:
        epsilon = gaussian_epsilon(left.mu, ask.at[1]) * (1 - 1e-9)
        if ask.event.mu is None:
            how = f" and {ask.gaussian}" if ask.gaussian else " with Gaussian noise"
    bound = plain_number(epsilon)
    return f"Pass epsilon={bound} or less{how}." if float(bound) > 0.0 else ""


def _gaussian_fits(rule: Any, standing: Any, epsilon: float, delta: float, times: int) -> bool:
    event = GaussianEvent(1.0 / gaussian_mu(epsilon, delta))
    return rule.count(standing, rule.costs(event, (epsilon, delta)), event) >= times


# -- summaries -------------------------------------------------------------------------------------

_CHARGES_SHOWN = 20  # of a summary; the history has them all
_SHARES = (
    "of the condition closest to its limit; Gaussian charges add by mu squared, so half the "
    "epsilon takes about a quarter"
)
_VALID = (
    "for released models only, not for raw scores or a choice based on them; if each fit's data "
    "were chosen independently of the records (KFold yes, StratifiedKFold no) and its noise came "
    "from the system (no integer random_state)."
)
_TOGETHER = (
    "this ceiling holds for this part alone; what holds for all parts together is the ceiling of "
    "the divided budget, and ceilings of Gaussian parts must not be added"
)


def summary_lines(account: PrivacyAccountant) -> list[tuple[str, str]]:
    """Names and values of the lines, in their order; no record is shown."""
    rule, spent, parts = account._filter, account.spent, account.parts
    limited = rule.limits is not None
    ceiling = f"epsilon={rule.epsilon:g}, delta={rule.delta:g}, filter {rule.describe()}"
    part = f", partition {account._partition}" if account._partition else ""
    protects = f"each {account.unit}"
    if account.unit == "record":
        protects += "; for people who own several, make an accountant with unit='group'"
    if not limited:
        protects += "; without a ceiling nothing is refused, so see the unit of each charge"
    total = f"epsilon={round_up(spent.epsilon)} at delta={rule.delta:g}"
    lines = [
        ("Data set", f"{account._dataset}{part} ({account.path})"),
        ("Ceiling", ceiling if limited else "none"),
        ("Protects", protects),
        (
            "Spent",
            f"{total} over {spent.n_entries} releases, if this list had been fixed in advance",
        ),
        ("Head", f"entry {account.head}"),
    ]
    if rule.kind == "gdp-part":
        lines.append(("Together", _TOGETHER))
    if parts:
        lines.append(("Divided", f"into {len(parts)} parts; charge one of them"))
        lines += [("Part", _part_line(part)) for part in parts]
    else:
        rows, used = recent_charges(account, _CHARGES_SHOWN)
        lines.append(("Remaining", f"{account.remaining()}"))
        if earlier := len(account.history) - len(rows):
            lines.append(("Charges", f"{earlier} earlier ones: see history"))
        if rows and limited:
            lines.append(("Shares", _SHARES))
        for row, before, after in zip(rows, used[:-1], used[1:], strict=True):
            share = after - before if limited else None
            lines.append(("Charge", charge_line(row, share, account.delta)))
    return [*lines, ("Valid", _VALID)]


def _part_line(account: PrivacyAccountant) -> str:
    rule, parts = account._filter, account.parts
    state = (
        f"divided into {len(parts)}"
        if parts
        else f"{percent(recent_charges(account, 1)[1][-1])} used"
    )
    return f"{account._dataset}: epsilon={rule.epsilon:g}, delta={rule.delta:g}, {state}"


def recent_charges(account: PrivacyAccountant, most: int) -> tuple[list, list[float]]:
    """The last charges, and the share of the budget used before and after each."""
    rule, part, used = account._filter, account._partition, []
    with account._ledger.reading() as book:
        place = book.place(account._dataset)
        rows = list(book.rows(1, most + 1, place, part, newest=True))[::-1]
        earlier = (
            row for row in book.rows(1, -1, place, part, newest=True) if row.id <= rows[0].id
        )
        own = next((row.state[5] for row in earlier if row.part == part), rule.zero)
    for row in rows:
        own = row.state[5] if part and row.part else own
        total = add(row.state[2], own) if part else row.total
        used.append(min(rule.used(total), 1.0))
    more = len(rows) > most
    return rows[more:], used if more else [0.0, *used]
