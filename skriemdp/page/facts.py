"""What a report says of a ledger, gathered in one pass over its file."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterable
from functools import lru_cache
from typing import IO, Any, NamedTuple

from skriemdp._dataclasses import dataclass
from skriemdp.ledger import reading
from skriemdp.ledger.chain import CHARGED, Dataset, Entry, Head, add, amounts, now
from skriemdp.ledger.errors import BudgetError
from skriemdp.ledger.filters import AXES, Filter
from skriemdp.ledger.statements import Remaining, guarantee, noise_of, remaining
from skriemdp.ledger.storage import Standing
from skriemdp.ledger.totals import charge_lists, together, total_epsilon
from skriemdp.privacy.event import Event
from skriemdp.privacy.events import event_from_dict

__all__ = ["ENDS", "Account", "Charge", "Facts", "Release", "clean", "gather", "plural"]

# Longer lists show so many charges at each end, and all of them grouped by label and note.
LISTED, ENDS = 1000, 100
# More different releases than this are counted, not listed.
RELEASES = 200
# Total profiles of more kinds of releases, or of more partitions, would take minutes.
MOST_KINDS, MOST_LISTS = 200, 20
# The figure has no steps below this share.
STEP = 1.0 / 400.0
# What a caller noted and the list of charges shows already.
_SHOWN = ("epsilon", "delta", "unit", "guarantee", "noise")
# Facts that say how many units there are.
_COUNTS = {"group": "n_groups", "user": "n_groups", "client": "clients"}


class Charge(NamedTuple):
    """One charge.

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


@dataclass
class Release:
    """Charges with the same label and note, and so with the same public facts.

    Attributes
    ----------
    label : str
    facts : dict
        What had to be public, and what else the caller noted.
    planned : list
        Rows (name, share, law, dimension) of what each may release.
    version, signed : str
        The library that charged; user and machine, ``""`` where nobody asked for them.
    days : str
        Of the first and the last charge.
    count, first, last : int
        How many charges, and the numbers of the first and the last entry.
    share, used : float or None
        Of the budget: by all of them, and after the last.  None without a ceiling.
    """

    label: str
    facts: dict[str, Any]
    planned: list[Any]
    version: str
    signed: str
    days: str
    first: int
    last: int = 0
    count: int = 0
    share: float | None = None
    used: float | None = None


@dataclass(eq=False)
class Account:
    """One data set, or one part of a divided one.

    Attributes
    ----------
    name, unit : str
    parent : str or None
        The divided budget that this is a part of.
    rule : Filter
    parts : list of str
        Names of its parts.
    count : int
        Number of its own charges.
    charges : list of Charge
        All of them, or where they are many the first and the last.
    releases : list of Release
    more_releases : int
        How many of them were left out.
    noises : dict of int
        Number of charges by kind of noise.
    n : int or None
        Largest number of units that a charge stated.
    steps : list of (count, used)
        Number of charges before a visible step of the share used, and the share after it.
    used : float
        Share used now, in [0, 1].
    remaining : Remaining or None
        What the rule still admits; None of a divided budget.
    seeded, unreadable : list of int
        Entries with noise that can be reproduced, and with events that cannot be revived.
    totals : tuple of Event, or None
        What the charges come to if their list had been fixed in advance, for each partition.
        None where that is not known.
    epsilon : float or None
        The same at the ceiling's delta, of the worst partition.
    void : bool
        Whether something was found that leaves no bound standing.
    """

    name: str
    unit: str
    parent: str | None
    rule: Filter
    parts: list[str] = dataclasses.field(default_factory=list)
    count: int = 0
    charges: list[Charge] = dataclasses.field(default_factory=list)
    releases: list[Release] = dataclasses.field(default_factory=list)
    more_releases: int = 0
    noises: Counter[str] = dataclasses.field(default_factory=Counter)
    n: int | None = None
    steps: list[tuple[int, float]] = dataclasses.field(default_factory=list)
    used: float = 0.0
    remaining: Remaining | None = None
    seeded: list[int] = dataclasses.field(default_factory=list)
    unreadable: list[int] = dataclasses.field(default_factory=list)
    totals: tuple[Event, ...] | None = ()
    epsilon: float | None = 0.0
    void: bool = False

    @property
    def limited(self) -> bool:
        """Whether it has a ceiling."""
        return self.rule.limits is not None

    @property
    def findings(self) -> list[str]:
        """What breaks its guarantee, in sentences."""
        found = []
        if self.seeded:
            found.append(
                f"{self.name}: {plural(len(self.seeded), 'charge')} with noise that can be "
                "reproduced (an integer random_state), which protects nobody: "
                f"{_entries(self.seeded)}"
            )
        if self.unreadable:
            found.append(
                f"{self.name}: {plural(len(self.unreadable), 'charge')} whose event this version "
                f"cannot read, so its size is not known here: {_entries(self.unreadable)}"
            )
        return found


@dataclass
class Facts:
    """What is known of a ledger file.

    Attributes
    ----------
    file : str
        Name of the file, without its folder.
    created, date : str
        When the file was made, and when this was gathered (ISO 8601, UTC).
    author : str
        Who had it gathered; ``""`` where nobody said.
    head : Head or None
        The last entry.
    accounts : list of Account
        Data sets in the order of their creation, each followed by its parts: those to be shown.
    everything : list of Account
        Those of the whole file.
    problems : list of str
        What does not add up in the file.
    models : list of (str, list of str)
        Of each statement of a model: which entry it names, and what speaks against it.
    """

    file: str
    created: str
    date: str
    author: str
    head: Head | None
    accounts: list[Account]
    everything: list[Account]
    problems: list[str]
    models: list[tuple[str, list[str]]]

    @property
    def roots(self) -> list[Account]:
        """Data sets of the whole file that are no parts."""
        return [account for account in self.everything if account.parent is None]

    @property
    def findings(self) -> list[str]:
        """Everything that breaks a guarantee, wherever in the file; empty: nothing was found."""
        found = [*self.problems, *(text for each in self.everything for text in each.findings)]
        return found + [
            f"the model is not the one charged: {x}" for _, no in self.models for x in no
        ]


def gather(
    path: str,
    dataset: str | None = None,
    noted: Head | None = None,
    author: str = "",
    model: str | None = None,
) -> Facts:
    """Read a ledger from end to end, without writing to it.

    Parameters
    ----------
    path : str or path-like
    dataset : str, optional
        Show this data set and its parts only; findings are of the whole file all the same.
    noted : Head, optional
        An entry that the file must hold; number 0 stands for any.
    author : str, default=""
        Who asks, for the page to say.
    model : str or path-like, optional
        A pickled model, which is looked at and not loaded, or its statement
        (``privacy_spent_.to_dict()``) as JSON: whether it is the one that was charged here.

    Returns
    -------
    Facts

    Raises
    ------
    BudgetError
        The file cannot be read as a ledger.
    KeyError
        There is no such data set.
    ValueError
        The model's file cannot be read, or holds no statement of a fit.
    """
    statements = [] if model is None else _statements(model)
    books: dict[int, _Book] = {}

    def take(row: Entry, place: Dataset) -> None:
        if place.id not in books:
            books[place.id] = _Book(place)
        if row.kind == CHARGED:
            books[place.id].take(row)

    file = reading.read(path, take, noted)
    known = {place.name: books.setdefault(place.id, _Book(place)) for place in file.datasets}
    roots = [place.name for place in file.datasets if place.parent is None]
    if dataset is not None and dataset not in known:
        raise KeyError(dataset)
    for place in file.datasets:
        if place.parent is not None and place.parent in known:
            known[place.parent].account.parts.append(place.name)
    everything = [known[name].close(known) for top in roots for name in _below(top, known)]
    for account in everything:
        account.void = account.void or bool(file.problems)
    shown = everything
    if dataset is not None:
        shown = [known[name].account for name in _below(dataset, known)]
    models = [_compared(path, statement) for statement in statements]
    name = clean(os.path.basename(os.fsdecode(path)))
    return Facts(
        name, file.created, now(), author, file.head, shown, everything, file.problems,
        models,
    )  # fmt: skip


def _below(name: str, known: dict[str, _Book]) -> Iterable[str]:
    yield name
    for part in known[name].account.parts:
        yield from _below(part, known)


class _Book:
    """Takes the charges of one data set, and keeps what the page shows."""

    def __init__(self, place: Dataset):
        try:
            rule = Filter.from_dict(json.loads(place.filter))
            if rule.limits is not None and len(rule.limits) != len(AXES[rule.kind]):
                raise ValueError("limits of another rule")
        except (KeyError, TypeError, ValueError):
            raise BudgetError(
                f"data set {clean(place.name)!r} has a rule that this version cannot read; the "
                "file was changed, or a newer version made it. Use that version."
            ) from None
        self.account = Account(place.name, place.unit, place.parent, rule)
        self.total = rule.zero
        self.tallies: Counter[tuple[str, str]] = Counter()
        self.first: list[tuple[Entry, float | None, float | None]] = []
        self.recent: deque[tuple[Entry, float | None, float | None]] = deque(maxlen=ENDS)
        self.releases: dict[tuple[str, str], Release] = {}

    def take(self, row: Entry) -> None:
        """One more charge."""
        account = self.account
        event, share, used = row.event or "{}", None, None
        account.count += 1
        self.tallies[row.part, event] += 1
        if account.limited:
            after = amounts(row.after)
            self.total = add(after[2], after[3])
            used = min(account.rule.used(self.total), 1.0)
            share, account.used = used - account.used, used
            highest = account.steps[-1][1] if account.steps else -1.0
            if used > highest + STEP or (used > highest and used == 1.0) or not account.steps:
                account.steps.append((account.count - 1, used))
        if _seeded(event):
            account.seeded.append(row.id)
        if _revived(event) is None:
            account.unreadable.append(row.id)
        account.noises[_noise(event)] += 1
        release = self.releases.get((row.label, row.note)) or _release(row)
        self.releases[row.label, row.note] = release
        release.count, release.last, release.used = release.count + 1, row.id, used
        release.share = None if share is None else (release.share or 0.0) + share
        release.days = f"{release.days[:10]} to {row.time[:10]}"
        (self.first if account.count <= LISTED else self.recent).append((row, share, used))

    def close(self, known: dict[str, _Book]) -> Account:
        """What was taken, as the page shows it."""
        account = self.account
        kept = self.first + list(self.recent)
        if self.recent:
            kept = kept[:ENDS] + kept[-ENDS:]
        account.charges = [_charge(*each, delta=account.rule.delta) for each in kept]
        leaves = [name for name in _below(account.name, known) if not known[name].account.parts]
        noted = [release.facts for name in leaves for release in known[name].releases.values()]
        account.n = max(filter(None, (_size(facts, account.unit) for facts in noted)), default=None)
        account.releases = list(self.releases.values())[:RELEASES]
        account.more_releases = len(self.releases) - len(account.releases)
        if account.limited and not account.parts:
            standing = Standing(self.total, account.count == 0)
            account.remaining = remaining(account.rule, standing)
        counts = {
            name: [(part, event, n) for (part, event), n in known[name].tallies.items()]
            for name in leaves
        }
        account.totals, account.epsilon = _totals(counts, account.rule.delta)
        account.void = any(known[name].account.seeded for name in leaves)
        return account


def _charge(row: Entry, share: float | None, used: float | None, delta: float) -> Charge:
    event = row.event or "{}"
    return Charge(
        row.id, row.time, row.label, row.part, row.unit, _noise(event),
        guarantee(row.noted["params"], json.loads(event), delta), _seeded(event), share, used,
    )  # fmt: skip


def _release(row: Entry) -> Release:
    noted = row.noted
    params = {name: value for name, value in noted["params"].items() if name not in _SHOWN}
    signed = " at ".join(filter(None, (noted["user"], noted["host"])))
    facts = noted["facts"] | params
    planned = facts.pop("releases") if _is_plan(facts.get("releases")) else []
    return Release(row.label, facts, planned, noted["version"], signed, row.time[:10], row.id)


def _is_plan(noted: Any) -> bool:
    """Whether these are rows of a plan; a caller may note anything."""
    rows = noted if isinstance(noted, list) else [None]
    return all(
        isinstance(row, list) and len(row) == 4 and isinstance(row[1], (int, float)) for row in rows
    )


def _size(facts: dict[str, Any], unit: str) -> int | None:
    found = facts.get(_COUNTS.get(unit, "n"), facts.get("n_groups") or facts.get("n"))
    if isinstance(found, list):
        return len(found)
    return found if isinstance(found, int) else None


def _totals(counts: dict, delta: float) -> tuple[tuple[Event, ...] | None, float | None]:
    lists = charge_lists(counts)
    if any(_revived(event) is None for charges in lists for event, _ in charges):
        return None, None
    used = [charges for charges in lists if charges]
    events = tuple(together(charges) for charges in used) if len(used) <= MOST_LISTS else ()
    if len(events) < len(used) or any(_kinds(event) > MOST_KINDS for event in events):
        return None, None
    # Sets have no order of their own, and the same file gives the same page.
    ordered = tuple(sorted(events, key=repr))
    return ordered, max((total_epsilon(charges, delta) for charges in used), default=0.0)


def _kinds(event: Event) -> int:
    return len(getattr(event, "events", (event,)))


@lru_cache(maxsize=4096)
def _noise(event: str) -> str:
    found = json.loads(event)
    return noise_of(found) if isinstance(found, dict) else "unknown"


@lru_cache(maxsize=4096)
def _seeded(event: str) -> bool:
    found = json.loads(event)
    return isinstance(found, dict) and found.get("kind") == "seeded"


@lru_cache(maxsize=4096)
def _revived(event: str) -> Event | None:
    try:
        return event_from_dict(json.loads(event))
    except Exception:  # whatever an event of another version, or a made-up one, leads to
        return None


# -- a model and its charge --


class _Inert:
    """Stands for every object of a pickle that is looked at, so that nothing of it runs."""

    kept: list | None = None

    def __new__(cls, *parts: Any, **more: Any) -> _Inert:
        """Note what it would be made of, where that is asked for."""
        if cls.kept is not None:
            cls.kept.append(parts)
        return super().__new__(cls)

    def __init__(self, *parts: Any, **more: Any):
        pass

    def __setitem__(self, name: Any, value: Any) -> None:
        pass

    append = extend = add = __setstate__ = __init__


class _Looking(pickle.Unpickler):
    """Finds the charges that a pickled model names; no class of it is loaded, nothing is called."""

    def __init__(self, file: IO[bytes]):
        super().__init__(file)
        self.charges: list[tuple] = []

    def find_class(self, module: str, name: str) -> Any:
        """A class that does nothing, whatever the name."""
        return type(name, (_Inert,), {"kept": self.charges if name == "ChargedEntry" else None})


def _statements(path: str) -> list[dict[str, Any]]:
    """What a model's file states of its charges, each as `reading.matches` takes it."""
    try:
        with open(path, "rb") as file:
            if file.read(1) == b"{":
                file.seek(0)
                return [json.load(file)]
            file.seek(0)
            looking = _Looking(file)
            looking.load()
    except OSError as error:
        raise ValueError(f"cannot read {clean(path)!r}: {error.strerror}.") from None
    except Exception:  # whatever a file that is neither leads to
        looking = None
    if looking is None or not looking.charges:
        raise ValueError(
            f"{clean(path)!r} names no charge; give a pickled model that was charged to a ledger, "
            "or write its statement with json.dump(model.privacy_spent_.to_dict(), file)."
        )
    return [{"entry": list(charge)} for charge in dict.fromkeys(looking.charges)]


def _compared(path: str, statement: dict[str, Any]) -> tuple[str, list[str]]:
    against = reading.matches(path, statement)
    number, digest, _ = statement["entry"]
    return f"entry {number}, {digest}", against


# -- words for numbers --

# Characters that steer a terminal or turn the direction of a text; RTL letters are not among them.
_STEERING = re.compile("[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


def clean(text: object) -> str:
    """A text from the file without characters that steer a terminal or a page."""
    text = _STEERING.sub("\ufffd", str(text))
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)


def plural(count: int, what: str) -> str:
    """A number of things."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _entries(entries: list[int]) -> str:
    more = f" and {len(entries) - 5} more" if len(entries) > 5 else ""
    word = "entry" if len(entries) == 1 else "entries"
    return f"{word} {', '.join(map(str, entries[:5]))}{more}"
