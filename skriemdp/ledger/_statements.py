"""Notes on charges, and an accountant's statements: charges, totals, ceiling and refusals."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import numbers
import operator
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import skriemdp
from skriemdp._config import get_config
from skriemdp._errors import PublicIndexError
from skriemdp._validation import shown
from skriemdp.ledger._chain import Entry, Standing, add, canonical
from skriemdp.ledger._errors import BudgetError
from skriemdp.ledger._filters import Filter, Remaining, plain_number, round_up
from skriemdp.privacy._calibration import gaussian_epsilon, gaussian_mu
from skriemdp.privacy._event import Event
from skriemdp.privacy._events import GaussianEvent, SelfComposedEvent, compose, event_from_dict

if TYPE_CHECKING:
    from skriemdp.ledger._accountant import PrivacyAccountant
    from skriemdp.ledger._storage import Ledger


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
        The event in plain data (:func:`skriemdp.privacy.event_from_dict` revives it).
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
            raise PublicIndexError("the ledger has no such charge.")
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


class Charge(NamedTuple):
    """One charge as it is shown.

    Attributes
    ----------
    entry : int
    time : str
        ISO 8601, UTC.
    label, part, unit, noise : str
        Who charged, which partition (``""``: all records), whom it protects, kinds of noise.
    guarantee : str
        Its epsilon and delta.
    seeded : bool
        Its noise can be reproduced, so it protects nobody.
    share, used : float or None
        Of the budget: by this charge, and after it.  None without a ceiling.
    """

    entry: int
    time: str
    label: str
    part: str
    unit: str
    noise: str
    guarantee: str
    seeded: bool
    share: float | None
    used: float | None

    @property
    def cells(self) -> list[Any]:
        """Number, time, who, guarantee, noise and shares, for people."""
        where = f" on partition {self.part}" if self.part else ""
        seeded = "; seeded: protects nobody" if self.seeded else ""
        time, who = self.time[:19].replace("T", " "), self.label + where
        pair, noise = f"{self.guarantee} per {self.unit}", self.noise + seeded
        shares = [percent(share) for share in (self.share, self.used) if share is not None]
        return [self.entry, time, who, pair, noise, *shares]


def charge_of(row: Entry, delta: float, share: Any = None, used: Any = None) -> Charge:
    """The charge that an entry holds, as it is shown.

    Where no pair was noted, its epsilon is stated at the ledger's `delta`.
    """
    noise, seeded, _ = known_event(row.event or "{}")
    pair = guarantee(row.noted["params"], row.event or "{}", delta)
    return Charge(*row[:2], row.label, row.part, row.unit, noise, pair, seeded, share, used)


def guarantee(params: dict, event: str, delta: float) -> str:
    """Epsilon and delta of a charge: the pair that was noted, else that of its event.

    Of a secure sum with the epsilon that holds if all other clients work with the server, or if the
    cryptography is broken.
    """
    alone = params.get("epsilon_alone")
    if isinstance(alone, (int, float)):
        stated = guarantee(params | {"epsilon_alone": None}, event, delta)
        return f"{stated} (computational; alone epsilon={round_up(alone)})"
    noted = params.get("epsilon"), params.get("delta")
    if all(isinstance(number, (int, float)) for number in noted):
        return f"epsilon={noted[0]:g}, delta={noted[1]:g}"
    known = known_event(event)[-1]
    if known is None:
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


@lru_cache(maxsize=4096)
def known_event(text: str) -> tuple[str, bool, Event | None]:
    """Facts of a stored event: its noise, whether that can be reproduced, and itself.

    None for what another version wrote, or somebody made up.
    """
    found = json.loads(text)
    found = found if isinstance(found, dict) else {}
    try:
        event = event_from_dict(found)
    except Exception:  # whatever such an event leads to
        event = None
    return noise_of(found), found.get("kind") == "seeded", event


# -- totals, of lists of charges that were fixed in advance --------------------------------------

# Number of charges by (partition, event as JSON, how many times each counts where all other
# clients of secure sums work with the server).
Tallies = Mapping[tuple[str, str, int], int]


def charge_lists(tallies: Sequence[Tallies], alone: bool = False) -> list[frozenset]:
    """The lists of charges, of which each record is concerned by one; empty ones are left out.

    Parameters
    ----------
    tallies : sequence of Tallies
        Of each undivided data set that the records belong to.
    alone : bool
        As if all other clients of secure sums worked with the server.

    Returns
    -------
    list of frozenset of (event, count)
        One for each partition, common charges included.
    """
    common: Counter[str] = Counter()
    parts: dict[str, Counter[str]] = {}
    for found in tallies:
        for (part, event, shares), count in found.items():
            # Partitions of different parts of a budget may hold the same records.
            apart = part and len(tallies) == 1
            mine = parts.setdefault(part, Counter()) if apart else common
            mine[event] += count * (shares if alone else 1)
    lists = {frozenset((common + own).items()) for own in (parts or {"": Counter()}).values()}
    return [charges for charges in lists if charges]


@lru_cache(maxsize=256)
def together(charges: frozenset) -> Event:
    """One event for a list of (event as JSON, count), which must not be empty."""
    singles = ((event_from_dict(json.loads(event)), count) for event, count in sorted(charges))
    return compose([one if n == 1 else SelfComposedEvent(one, n) for one, n in singles])


def total_epsilon(lists: Sequence[frozenset], delta: float) -> float:
    """The smallest proved epsilon of the worst list of charges at `delta`."""
    return max((_epsilon(charges, delta) for charges in lists), default=0.0)


@lru_cache(maxsize=256)
def _epsilon(charges: frozenset, delta: float) -> float:
    total = together(charges)
    pure = total.renyi(math.inf) if total.extra_delta == 0 else math.inf
    return min(float(total.epsilon(delta)), pure) if delta > 0 or pure == math.inf else pure


# -- what remains, and refusals --------------------------------------------------------------------


class SpendRequest(NamedTuple):
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
    where: str, rule: Filter, standing: Standing, request: SpendRequest, divisible: bool
) -> BudgetExceededError:
    """The error of a refused spend; `divisible`: the ledger can still be split."""
    left = rule.remaining(standing, request.times)
    before = rule.used(standing.total)
    cost = [each and request.times * each for each in rule.cost(request.event, request.at)]
    after = rule.used(add(standing.total, tuple(cost)))
    would = "more than any budget" if math.isinf(after) else percent(after)
    asked = "" if request.times == 1 else f"{request.times} times "
    if request.at is None:
        asked += shown(request.event)
    else:
        noise = noise_of(request.event.to_dict())
        asked += (
            f"epsilon={request.at[0]:g}, delta={request.at[1]:g} per {request.unit} ({noise} noise)"
        )
    return BudgetExceededError(
        f"{where} has the ceiling epsilon={rule.epsilon:g}, delta={rule.delta:g} (rule "
        f"{rule.kind!r}), and {percent(min(before, 1.0))} of it is used. Asked: {asked}, "
        f"which would make it {would}. Left: {left}. Nothing was spent or released. "
        f"{_cure(rule, standing, request, divisible, left)}",
        left,
    )


def _cure(
    rule: Filter, standing: Standing, request: SpendRequest, divisible: bool, left: Remaining
) -> str:
    """One change, from public numbers, after which the spend is admitted."""
    if request.at is not None and request.event.mu is None:
        delta = request.at[1] or rule.delta
        if delta > 0.0 and _gaussian_fits(rule, standing, request.at[0], delta, request.times):
            given = f"delta={delta:g}" if request.at[1] == 0.0 else ""
            what = ", ".join(filter(None, (given, request.gaussian)))
            how = f": pass {what}" if what else ""
            return f"The same epsilon fits with Gaussian noise at delta={delta:g}{how}."
    if divisible and request.times > 1:
        return (
            f"split({request.times}) divides the budget into {request.times} parts, and any fit "
            "with **part.whole() fills one."
        )
    none = "No such release is admitted on these records any more."
    if rule.kind == "sum" and request.at is not None and request.at[0] <= left.epsilon:
        fits = 0.0 < left.delta < request.at[1]
        return f"Pass delta={plain_number(left.delta)} or less." if fits else none
    return _largest(rule, standing, request, left) or none


def _largest(rule: Filter, standing: Standing, request: SpendRequest, left: Remaining) -> str:
    """The largest epsilon (noise, where there is none) admitted now; empty if there is none."""
    how = ""
    if request.event.renyi(math.inf) < math.inf if request.at is None else request.at[1] == 0.0:
        epsilon = left.pure_epsilon
    elif left.mu <= 0.0:
        return ""
    elif request.at is None:
        least = plain_number(1.0 / left.mu, up=True)
        return f"Gaussian noise with a noise_multiplier of {least} or more is admitted."
    elif rule.kind == "sum" or (
        request.times == 1
        and standing.untouched
        and rule.kind != "gdp-part"
        and request.at[1] <= rule.delta
    ):
        epsilon = left.epsilon if request.at[1] <= left.delta else 0.0
    else:
        epsilon = gaussian_epsilon(left.mu, request.at[1]) * (1 - 1e-9)
        if request.event.mu is None:
            how = f" and {request.gaussian}" if request.gaussian else " with Gaussian noise"
    bound = plain_number(epsilon)
    return f"Pass epsilon={bound} or less{how}." if float(bound) > 0.0 else ""


def _gaussian_fits(rule: Any, standing: Any, epsilon: float, delta: float, times: int) -> bool:
    event = GaussianEvent(1.0 / gaussian_mu(epsilon, delta))
    return rule.count(standing, rule.costs(event, (epsilon, delta)), event) >= times


# -- summaries -------------------------------------------------------------------------------------

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
            f"{total} over {spent.n_entries} release{'s' * (spent.n_entries != 1)}, "
            "if this list had been fixed in advance",
        ),
        ("Head", f"entry {account.head}"),
    ]
    if rule.kind == "gdp-part":
        lines.append(("Together", _TOGETHER))
    if parts:
        lines.append(("Divided", f"into {len(parts)} parts; charge one of them"))
        lines += [("Part", _part_line(part)) for part in parts]
    else:
        with account._ledger.reading() as book:
            place = book.place(account._dataset)
            # The history has them all.
            last = list(book.rows(1, 20, place, account._partition, newest=True))
        left = rule.remaining(account._standing())
        lines.append(("Remaining", f"{left}"))
        lines += [("Used", percent(left.used))] if limited else []
        if earlier := len(account.history) - len(last):
            lines.append(("Charges", f"{earlier} earlier: see history"))
        charges = (charge_of(row, rule.delta).cells for row in reversed(last))
        lines += [("Charge", "  ".join(map(str, cells))) for cells in charges]
    return [*lines, ("Valid", _VALID)]


def _part_line(account: PrivacyAccountant) -> str:
    rule, parts = account._filter, len(account.parts)
    used = 0.0 if parts else rule.remaining(account._standing()).used
    state = f"divided into {parts}" if parts else f"{percent(used)} used"
    return f"{account._dataset}: epsilon={rule.epsilon:g}, delta={rule.delta:g}, {state}"


# -- what a charge notes --------------------------------------------------------------------------

# Largest facts noted in full, in numbers and in characters of JSON; larger ones by their digest.
MOST_NUMBERS, MOST_CHARACTERS = 100, 2000


def note(params: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The note of a charge, as canonical JSON.

    Parameters
    ----------
    params : dict
        Of the caller, in plain data.
    facts : dict
        What had to be public, by name; see :func:`plain_facts`.

    Returns
    -------
    str
        With the version of the library; with the names of machine and user under
        ``config_context(sign_charges=True)``.
    """
    found = {"params": dict(params), "facts": plain_facts(facts), "version": skriemdp.__version__}
    if get_config()["sign_charges"]:
        found |= {"host": platform.node(), "user": _user()}
    return canonical(found)


def plain_facts(facts: Mapping[Any, Any]) -> dict[str, Any]:
    """Facts as JSON holds them; the same for arrays and for the lists that they become.

    More than 100 numbers, or 2000 characters of JSON, become their digest: SHA-256 of the numbers
    as little-endian float64 in C order, or of the canonical JSON.
    """
    return {str(name): _short(_plain(value)) for name, value in facts.items()}


def _short(plain: Any) -> Any:
    """A fact, or the digest of a long one."""
    text = canonical(plain)
    if len(text) > MOST_CHARACTERS:
        digest = hashlib.sha256(text.encode("ascii"))
        return {"sha256": digest.hexdigest(), "characters": len(text)}
    return plain


def _plain(value: Any) -> Any:
    if value is None or type(value) in (bool, int) or isinstance(value, str):
        return value
    if isinstance(value, (list, tuple, np.ndarray)):
        table = _table(value)
        if table is not None and table.size > MOST_NUMBERS:
            digest = hashlib.sha256(np.ascontiguousarray(table, dtype="<f8").tobytes())
            return {"sha256": digest.hexdigest(), "shape": list(table.shape)}
        return [_plain(item) for item in (value.tolist() if table is value else value)]
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else str(float(value))
    return plain_facts(value) if isinstance(value, Mapping) else str(value)


def _table(value: Any) -> np.ndarray | None:
    """Numbers as one array; None where they are something else."""
    try:
        table = np.asarray(value)
    except ValueError:  # of different lengths
        return None
    return table if table.ndim and table.dtype.kind in "iuf" else None


def _user() -> str:
    try:
        import getpass

        return getpass.getuser()
    except (KeyError, OSError):  # a container may know no name
        return "unknown"
