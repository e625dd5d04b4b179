"""What a page says of a ledger, gathered in one pass over its file."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from skriemdp.ledger import reading
from skriemdp.ledger.chain import CHARGED, Dataset, Entry, Head, add
from skriemdp.ledger.errors import BudgetError
from skriemdp.ledger.filters import AXES, Filter
from skriemdp.ledger.statements import guarantee, noise_of
from skriemdp.ledger.totals import charge_lists, together, total_epsilon
from skriemdp.privacy.event import Event
from skriemdp.privacy.events import event_from_dict

__all__ = ["ENDS", "Account", "Charge", "Facts", "Group", "clean", "gather"]

# Longer lists show so many charges at each end, and all of them grouped by label and day.
LISTED, ENDS = 1000, 100
# More groups than this are counted, not listed.
GROUPS = 1000
# Total profiles of more kinds of releases, or of more partitions, would take minutes.
MOST_KINDS, MOST_LISTS = 200, 20
# The figure has no steps below this share.
STEP = 1.0 / 400.0


@dataclasses.dataclass(frozen=True)
class Charge:
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


@dataclasses.dataclass
class Group:
    """The charges of one label on one day (UTC)."""

    day: str
    label: str
    count: int = 0
    first: int = 0
    last: int = 0
    share: float | None = None
    used: float | None = None


@dataclasses.dataclass
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
    groups : list of Group
        Empty where all charges are listed.
    more_groups : int
        How many groups were left out.
    steps : list of (time, used)
        Largest share of the budget used so far, where it grew visibly.
    used : float
        Share used now, in [0, 1].
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
    groups: list[Group] = dataclasses.field(default_factory=list)
    more_groups: int = 0
    steps: list[tuple[str, float]] = dataclasses.field(default_factory=list)
    used: float = 0.0
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
                f"{self.name}: {_count(self.seeded, 'charge')} with noise that can be reproduced "
                f"(an integer random_state), which protects nobody: {_entries(self.seeded)}"
            )
        if self.unreadable:
            found.append(
                f"{self.name}: {_count(self.unreadable, 'charge')} whose event this version cannot "
                f"read, so its size is not known here: {_entries(self.unreadable)}"
            )
        return found


@dataclasses.dataclass
class Facts:
    """What is known of a ledger file.

    Attributes
    ----------
    file : str
        Name of the file, without its folder.
    created : str
    head : Head or None
        The last entry.
    accounts : list of Account
        Data sets in the order of their creation, each followed by its parts.
    problems : list of str
        What does not add up in the file.
    """

    file: str
    created: str
    head: Head | None
    accounts: list[Account]
    problems: list[str]

    @property
    def findings(self) -> list[str]:
        """Everything that breaks a guarantee; empty where nothing was found."""
        return [*self.problems, *(text for each in self.accounts for text in each.findings)]

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.problems:
            return "The file does not add up: do not rely on what it says."
        count = len(self.findings)
        if count:
            return f"{_plural(count, 'finding')}: the ceilings do not protect what they concern."
        if not any(each.limited for each in self.accounts):
            return "Nothing was found, and there is no ceiling: nothing limits what is released."
        return "Nothing was found: every ceiling below holds, under the conditions below."


def gather(path: str, dataset: str | None = None, noted: Head | None = None) -> Facts:
    """Read a ledger from end to end, without writing to it.

    Parameters
    ----------
    path : str or path-like
    dataset : str, optional
        Only this data set and its parts.
    noted : Head, optional
        An entry that the file must hold; number 0 stands for any.

    Returns
    -------
    Facts

    Raises
    ------
    BudgetError
        The file cannot be read as a ledger.
    KeyError
        There is no such data set.
    """
    books: dict[int, _Book] = {}

    def take(row: Entry, place: Dataset) -> None:
        if place.id not in books:
            books[place.id] = _Book(place)
        if row.kind == CHARGED:
            books[place.id].take(row)

    file = reading.read(path, take, noted)
    known = {place.name: books.setdefault(place.id, _Book(place)) for place in file.datasets}
    wanted = [place.name for place in file.datasets if place.parent is None]
    if dataset is not None:
        if dataset not in known:
            raise KeyError(dataset)
        wanted = [dataset]
    for place in file.datasets:
        if place.parent is not None and place.parent in known:
            known[place.parent].account.parts.append(place.name)
    accounts = [known[name].close(known) for top in wanted for name in _below(top, known)]
    for account in accounts:
        account.void = account.void or bool(file.problems)
    name = clean(os.path.basename(os.fsdecode(path)))
    return Facts(name, file.created, file.head, accounts, file.problems)


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
        self.tallies: Counter[tuple[str, str]] = Counter()
        self.first: list[Charge] = []
        self.recent: list[tuple[Entry, float | None, float | None]] = []
        self.groups: dict[tuple[str, str], Group] = {}

    def take(self, row: Entry) -> None:
        """One more charge."""
        account = self.account
        event, share, used = row.event or "{}", None, None
        account.count += 1
        self.tallies[row.part, event] += 1
        if account.limited:
            after = json.loads(row.after)
            total = add(tuple(after[2]), tuple(after[3]))
            used = min(account.rule.used(total), 1.0)
            share, account.used = used - account.used, used
            highest = account.steps[-1][1] if account.steps else -1.0
            if used > highest + STEP or (used > highest and used == 1.0) or not account.steps:
                account.steps.append((row.time, used))
        if _seeded(event):
            account.seeded.append(row.id)
        if _revived(event) is None:
            account.unreadable.append(row.id)
        group = self.groups.setdefault((row.time[:10], row.label), Group(row.time[:10], row.label))
        group.count, group.last, group.used = group.count + 1, row.id, used
        group.first = group.first or row.id
        group.share = None if share is None else (group.share or 0.0) + share
        self.recent.append((row, share, used))
        if len(self.recent) > 2 * LISTED:  # the first are kept once, the last ones go on
            self.first = self.first or self._shown(self.recent[:ENDS])
            del self.recent[:LISTED]

    def close(self, known: dict[str, _Book]) -> Account:
        """What was taken, as the page shows it."""
        account = self.account
        if account.count <= LISTED:
            account.charges = self._shown(self.recent)
        else:
            first = self.first or self._shown(self.recent[:ENDS])
            account.charges = first + self._shown(self.recent[-ENDS:])
            account.groups = list(self.groups.values())[:GROUPS]
            account.more_groups = len(self.groups) - len(account.groups)
        leaves = [name for name in _below(account.name, known) if not known[name].account.parts]
        counts = {
            name: [(part, event, n) for (part, event), n in known[name].tallies.items()]
            for name in leaves
        }
        account.totals, account.epsilon = _totals(counts, account.rule.delta)
        account.void = any(known[name].account.seeded for name in leaves)
        return account

    def _shown(self, rows: list) -> list[Charge]:
        return [_charge(row, share, used, self.account.rule.delta) for row, share, used in rows]


def _charge(row: Entry, share: float | None, used: float | None, delta: float) -> Charge:
    event = row.event or "{}"
    return Charge(
        row.id, row.time, row.label, row.part, row.unit, noise_of(json.loads(event)),
        guarantee(row.params, json.loads(event), delta), _seeded(event), share, used,
    )  # fmt: skip


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
def _params(text: str) -> dict[str, Any]:
    found = json.loads(text)
    return found if isinstance(found, dict) else {}


def _seeded(event: str) -> bool:
    return _params(event).get("kind") == "seeded"


@lru_cache(maxsize=4096)
def _revived(event: str) -> Event | None:
    try:
        return event_from_dict(json.loads(event))
    except Exception:  # whatever an event of another version, or a made-up one, leads to
        return None


# Characters that steer a terminal or turn the direction of a text; RTL letters are not among them.
_STEERING = re.compile("[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


def clean(text: str) -> str:
    """A text from the file without characters that steer a terminal or a page."""
    text = _STEERING.sub("\ufffd", str(text))
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _count(entries: list[int], what: str) -> str:
    return _plural(len(entries), what)


def _entries(entries: list[int]) -> str:
    more = f" and {len(entries) - 5} more" if len(entries) > 5 else ""
    word = "entry" if len(entries) == 1 else "entries"
    return f"{word} {', '.join(map(str, entries[:5]))}{more}"
