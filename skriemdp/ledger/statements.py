"""What an accountant says: its charges and totals, what remains, refusals, and a summary."""

from __future__ import annotations

import json
import math
import operator
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from skriemdp._dataclasses import dataclass
from skriemdp.ledger.chain import add
from skriemdp.ledger.errors import BudgetError
from skriemdp.privacy.calibration import gaussian_epsilon, gaussian_mu
from skriemdp.privacy.events import Event, GaussianEvent, event_from_dict

if TYPE_CHECKING:
    from skriemdp.ledger.accountant import PrivacyAccountant
    from skriemdp.ledger.chain import Entry
    from skriemdp.ledger.filters import Filter
    from skriemdp.ledger.storage import Ledger, Standing


__all__ = [
    "Ask",
    "BudgetExceededError",
    "History",
    "LedgerTotal",
    "Remaining",
    "Spend",
    "charge_line",
    "guarantee",
    "noise_of",
    "percent",
    "plain_number",
    "recent_charges",
    "refusal",
    "remaining",
    "round_up",
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
    partition : str or None
        None: all charges; else the common ones and those of this partition.
    """

    def __init__(self, ledger: Ledger, dataset: str, partition: str | None = None):
        self._ledger, self._dataset, self._partition = ledger, dataset, partition

    def __len__(self) -> int:
        return self._ledger.count(self._dataset, self._partition)

    def __iter__(self) -> Iterator[Spend]:
        return (
            spend_of(row, self._dataset)
            for row in self._ledger.entries(self._dataset, self._partition)
        )

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = operator.index(index)
        place += len(self) if place < 0 else 0
        row = self._ledger.entry_at(self._dataset, self._partition, place) if place >= 0 else None
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


@dataclass(frozen=True)
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
    params, event = row.noted["params"], json.loads(row.event)
    where = f" on partition {row.part}" if row.part else ""
    pieces = [f"{row.id}", row.time[:19].replace("T", " "), f"{row.label}{where}"]
    pieces.append(f"{guarantee(params, event, delta)} per {row.unit}")
    if share is not None:
        pieces.append(percent(share))
    seeded = ", seeded" if event.get("kind") == "seeded" else ""
    return "  ".join([*pieces, f"({noise_of(event)}{seeded})"])


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


@dataclass(frozen=True)
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
        f"{_cure(rule, standing, ask, divisible)}",
        left,
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


# -- summaries -------------------------------------------------------------------------------------

_CHARGES_SHOWN = 20  # of a summary; the history has them all
_SHARES = (
    "of the condition closest to its limit; Gaussian charges add by mu squared, so half the "
    "epsilon takes about a quarter"
)
_TOGETHER = (
    "this ceiling holds for this part alone; what holds for all parts together is the ceiling of "
    "the divided budget, and ceilings of Gaussian parts must not be added"
)


def summary_lines(account: PrivacyAccountant) -> list[tuple[str, str]]:
    """Names and values of the lines, in their order; no record is shown."""
    rule, spent = account._filter, account.spent
    ceiling = (
        "none"
        if math.isinf(rule.epsilon)
        else f"epsilon={rule.epsilon:g}, delta={rule.delta:g}, filter {rule.describe()}"
    )
    place = account._dataset + (f", partition {account._partition}" if account._partition else "")
    parts = account.parts
    lines = [
        ("Data set", f"{place} ({account.path})"),
        ("Ceiling", ceiling),
        ("Protects", _protects(account)),
        (
            "Spent",
            f"epsilon={round_up(spent.epsilon)} at delta={rule.delta:g} over {spent.n_entries} "
            f"releases, if this list had been fixed in advance",
        ),
        ("Head", f"entry {account.head}"),
    ]
    if rule.kind == "gdp-part":
        lines.append(("Together", _TOGETHER))
    if parts:
        lines.append(("Divided", f"into {len(parts)} parts; charge one of them"))
        lines += [("Part", _part_line(part)) for part in parts]
    else:
        lines.append(("Remaining", f"{account.remaining()}"))
        lines += _charge_lines(account)
    lines.append(
        (
            "Valid",
            "for released models only, not for raw scores or a choice based on them; if each "
            "fit's data were chosen independently of the records (KFold yes, StratifiedKFold "
            "no) and its noise came from the system (no integer random_state).",
        )
    )
    return lines


def _protects(account: PrivacyAccountant) -> str:
    unit, rule = account.unit, account._filter
    text = f"each {unit}"
    if unit == "record":
        text += "; for people who own several, make an accountant with unit='group'"
    if rule.limits is None:
        text += "; without a ceiling nothing is refused, so see the unit of each charge"
    return text


def _part_line(account: PrivacyAccountant) -> str:
    rule, parts = account._filter, account.parts
    state = (
        f"divided into {len(parts)}"
        if parts
        else f"{percent(remaining(rule, account._standing()).used)} used"
    )
    return f"{account._dataset}: epsilon={rule.epsilon:g}, delta={rule.delta:g}, {state}"


def _charge_lines(account: PrivacyAccountant) -> list[tuple[str, str]]:
    """One line for each of the last charges, and one that counts those before."""
    limited = account._filter.limits is not None
    rows, used = recent_charges(account, _CHARGES_SHOWN)
    lines = []
    earlier = account._ledger.count(account._dataset, account._partition or None) - len(rows)
    if earlier:
        lines.append(("Charges", f"{earlier} earlier ones: see history or to_frame()"))
    if rows and limited:
        lines.append(("Shares", _SHARES))
    for row, before, after in zip(rows, used[:-1], used[1:], strict=True):
        share = after - before if limited else None
        lines.append(("Charge", charge_line(row, share, account.delta)))
    return lines


def recent_charges(account: PrivacyAccountant, most: int) -> tuple[list, list[float]]:
    """The last charges, and the share of the budget used before and after each."""
    rule, row = account._filter, account._ledger.row(account._dataset)
    own = rule.zero
    seen: deque = deque(maxlen=most + 1)
    seen.append((None, 0.0))
    # A partition's total needs its own entries from the first on; a data set's last ones
    # carry all that is needed, so a long ledger is read from its end.
    part, reach = account._partition or None, 4 * most
    while True:
        start = 0 if part else max(row.last - reach, 0)
        rows = list(account._ledger.entries(account._dataset, part, after=start))
        if start == 0 or len(rows) > most:
            break
        reach *= 8
    for found in rows if part else rows[-most - 1 :]:
        after = json.loads(found.after)
        own = tuple(after[5]) if part and found.part else own
        total = add(tuple(after[2]), own if part else tuple(after[3]))
        seen.append((found, min(rule.used(total), 1.0)))
    return [found for found, _ in seen][1:], [used for _, used in seen]
