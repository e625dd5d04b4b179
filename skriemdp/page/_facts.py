"""Facts of a report on a ledger, gathered in one pass over its file."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from skriemdp._errors import PublicValueError
from skriemdp.ledger import _statements as statements
from skriemdp.ledger import _storage as storage
from skriemdp.ledger._chain import CHARGED, Dataset, Entry, Head, Standing, now, shares_of
from skriemdp.ledger._filters import Filter, Remaining
from skriemdp.ledger._statements import charge_lists, charge_of, known_event, together
from skriemdp.page._model_file import ModelFile, read_model
from skriemdp.privacy._event import Event

# Longest list of charges shown in full; longer ones show ENDS at each end, and groups by label.
LISTED, ENDS = 1000, 100
# More different releases than this are counted, not listed.
RELEASES = 200
# Total profiles of more kinds of releases, or of more partitions, would take minutes.
MOST_KINDS, MOST_LISTS = 200, 20
# Smallest step of the figure, as a share of the budget.
STEP = 1.0 / 400.0
# What a caller noted and the list of charges shows already.
_SHOWN = ("epsilon", "delta", "unit", "guarantee", "noise")
# Facts that say how many units there are.
_COUNTS = {"group": "n_groups", "user": "n_groups", "client": "clients"}


@dataclass
class Release:
    """Charges with the same label and note, and so with the same public facts.

    Attributes
    ----------
    first, last : Entry
        Its first and its last charge.
    count : int
        How many charges.
    share, used : float or None
        Of the budget: by all of them, and after the last.  None without a ceiling.
    """

    first: Entry
    last: Entry
    count: int = 0
    share: float | None = None
    used: float | None = None

    @property
    def days(self) -> str:
        """Days of the first and the last charge."""
        return f"{self.first.time[:10]} to {self.last.time[:10]}"

    @property
    def noted(self) -> dict[str, Any]:
        """Notes of the charge: version, host, user, and all else as ``facts``.

        The releases that it planned are rows (name, share, law, dimension) of ``planned``.
        """
        noted = self.first.noted
        params = noted.pop("params")
        noted["facts"] |= {name: value for name, value in params.items() if name not in _SHOWN}
        planned = _is_plan(noted["facts"].get("releases"))
        return noted | {"planned": noted["facts"].pop("releases") if planned else []}


class Account:
    """One data set, or one part of a divided one; it takes the charges and keeps what is shown.

    Attributes
    ----------
    name, unit : str
    parent : str or None
        The divided budget that this is a part of.
    parts : list of Account
    rule : Filter
    count : int
        Number of its own charges.
    noises : dict of int
        Number of charges by kind of noise.
    steps : list of (count, used)
        Number of charges before a visible step of the share used, and the share after it.
    used : float
        Share used now, in [0, 1].
    seeded, unreadable : list of int
        Entries with noise that can be reproduced, and with events that cannot be revived.
    broken : bool
        Whether the file does not add up.
    """

    def __init__(self, place: Dataset):
        self.rule = Filter.stored(place)
        self.limited = self.rule.limits is not None
        self.name, self.unit, self.parent = place.name, place.made.unit, place.terms["parent"]
        self.parts: list[Account] = []
        self.count, self.used, self.total, self.broken = 0, 0.0, self.rule.zero, False
        self.noises: Counter[str] = Counter()
        self.steps: list[tuple[int, float]] = []
        self.seeded: list[int] = []
        self.unreadable: list[int] = []
        self._kept: list[tuple[Entry, float | None, float | None]] = []
        self._releases: dict[tuple[str, str], Release] = {}
        self._tallies: Counter[tuple[str, str, int]] = Counter()

    def take(self, row: Entry) -> None:
        """One more charge."""
        event, share, used = row.event or "{}", None, None
        if self.limited:
            self.total = row.total
            used = min(self.rule.used(self.total), 1.0)
            share, self.used = used - self.used, used
            highest = self.steps[-1][1] if self.steps else -1.0
            if used > highest + STEP or (used > highest and used == 1.0):
                self.steps.append((self.count, used))
        self.count += 1
        self._tallies[row.part, event, shares_of(row.note)] += 1
        noise, seeded, known = known_event(event)
        self.noises[noise] += 1
        if seeded:
            self.seeded.append(row.id)
        if known is None:
            self.unreadable.append(row.id)
        release = self._releases.get((row.label, row.note)) or Release(row, row)
        self._releases[row.label, row.note] = release
        release.count, release.last, release.used = release.count + 1, row, used
        release.share = None if share is None else (release.share or 0.0) + share
        self._kept.append((row, share, used))
        if self.count > LISTED:
            del self._kept[ENDS:-ENDS]

    @property
    def family(self) -> Iterator[Account]:
        """Itself, its parts, and theirs."""
        yield self
        for part in self.parts:
            yield from part.family

    @property
    def _leaves(self) -> list[Account]:
        return [each for each in self.family if not each.parts]

    @cached_property
    def charges(self) -> list[statements.Charge]:
        """All of them, or where they are many the first and the last."""
        return [charge_of(row, self.rule.delta, *shares) for row, *shares in self._kept]

    @property
    def releases(self) -> list[Release]:
        """The first of them; :attr:`more_releases` says how many there are beyond."""
        return list(self._releases.values())[:RELEASES]

    @property
    def more_releases(self) -> int:
        """Number of releases that were left out."""
        return max(len(self._releases) - RELEASES, 0)

    @cached_property
    def n(self) -> int | None:
        """Largest number of units that a charge stated."""
        known = [each.noted["facts"] for a in self._leaves for each in a._releases.values()]
        return max(filter(None, (_size(facts, self.unit) for facts in known)), default=None)

    @property
    def remaining(self) -> Remaining | None:
        """Budget that the rule still admits; None for a divided budget and without a ceiling."""
        if self.parts or not self.limited:
            return None
        return self.rule.remaining(Standing(self.total, self.count == 0))

    @cached_property
    def totals(self) -> tuple[Event, ...] | None:
        """Events of all charges, by partition, if their list had been fixed in advance.

        None where that is not known.
        """
        lists = charge_lists(self._all_tallies)
        if any(known_event(event)[-1] is None for charges in lists for event, _ in charges):
            return None
        events = [together(charges) for charges in lists] if len(lists) <= MOST_LISTS else []
        kinds = (len(getattr(event, "events", ())) for event in events)
        if len(events) < len(lists) or max(kinds, default=0) > MOST_KINDS:
            return None
        # Sets have no order of their own, and the same file gives the same page.
        return tuple(sorted(events, key=repr))

    @property
    def epsilon(self) -> float | None:
        """The same at the ceiling's delta, of the worst partition."""
        return self._epsilon(alone=False)

    @property
    def alone(self) -> float | None:
        """:attr:`epsilon` if all other clients of secure sums work with the server."""
        return self._epsilon(alone=True)

    def _epsilon(self, alone: bool) -> float | None:
        if self.totals is None:
            return None
        return statements.total_epsilon(charge_lists(self._all_tallies, alone), self.rule.delta)

    @property
    def _all_tallies(self) -> list[statements.Tallies]:
        return [each._tallies for each in self._leaves]

    @property
    def void(self) -> bool:
        """Whether something was found that leaves no bound standing."""
        return self.broken or any(each.seeded for each in self._leaves)

    @property
    def findings(self) -> list[str]:
        """Charges that break the guarantee, as sentences."""
        found = (
            (self.seeded, "with noise that can be reproduced (an integer random_state), which "
             "protects nobody"),
            (self.unreadable, "whose event this version cannot read, so its size is not known "
             "here"),
        )  # fmt: skip
        return [
            f"{self.name}: {plural(len(entries), 'charge')} {what}: {_entries(entries)}"
            for entries, what in found
            if entries
        ]


@dataclass
class Facts:
    """Facts about a ledger file.

    Attributes
    ----------
    file : str
        Name of the file, without its folder.
    read : File
        When it was made, its last entry, and what does not add up in it.
    date : str
        When this was gathered (ISO 8601, UTC).
    author : str
        Who had it gathered; ``""`` where nobody said.
    accounts : list of Account
        Data sets in the order of their creation, each followed by its parts: those to be shown.
    everything : list of Account
        Those of the whole file.
    models, against : list of str
        Which entries the statements of a model name, and what speaks against it.
    compared, left : list of str
        What of the model was compared with its charge and its fit, and what was not.
    """

    file: str
    read: storage.File
    date: str
    author: str
    accounts: list[Account]
    everything: list[Account]
    models: list[str]
    against: list[str]
    compared: list[str]
    left: list[str]

    @property
    def findings(self) -> list[str]:
        """Everything that breaks a guarantee, wherever in the file; empty: nothing was found."""
        return [
            *self.read.problems,
            *(text for each in self.everything for text in each.findings),
            *(f"the model is not the one charged: {clean(text)}" for text in self.against),
        ]


def gather(
    path: str,
    dataset: str | None = None,
    author: str = "",
    model: str | None = None,
    head: Head | None = None,
    witness: str = "",
) -> Facts:
    """Read a ledger from end to end, without writing to it.

    Parameters
    ----------
    path : str or path-like
    dataset : str, optional
        Show this data set and its parts only; findings are of the whole file all the same.
    author : str, default=""
        Who asks, for the page to say.
    model : str or path-like, optional
        A model written by pickle or joblib, which is looked at and not loaded, or its statement
        (``privacy_spent_.to_dict()``) as JSON: whether it is the one that was charged here.
    head : Head, optional
        An entry that the file must hold; number 0 stands for any.
    witness : str or path-like
        The ledger's witness file, or a copy, whose newest entry the file must hold.

    Returns
    -------
    Facts

    Raises
    ------
    BudgetError
        The file cannot be read as a ledger.
    ValueError
        There is no such data set, or the model's file cannot be read or holds no statement of a
        fit.
    """
    given = ModelFile([], [], [], [], []) if model is None else read_model(model)
    numbers = {_number(statement) for statement in given.statements}
    rows: dict[int, Entry] = {}
    books: dict[int, Account] = {}

    def take(row: Entry, place: Dataset) -> None:
        if place.id not in books:
            books[place.id] = Account(place)
        if row.kind == CHARGED:
            books[place.id].take(row)
        if row.id in numbers:
            rows[row.id] = row

    file = storage.read(path, take, head, witness)
    known = {place.name: books.get(place.id) or Account(place) for place in file.datasets}
    for account in known.values():
        account.broken = bool(file.problems)
        if account.parent in known:
            known[account.parent].parts.append(account)
    roots = [account for account in known.values() if account.parent not in known]
    everything = [each for root in roots for each in root.family]
    if dataset is not None and dataset not in known:
        names = ", ".join(repr(clean(name)) for name in sorted(known))
        raise PublicValueError(f"the ledger has no data set {clean(dataset)!r}; it has {names}.")
    shown = everything if dataset is None else list(known[dataset].family)
    against = [text for each in given.statements for text in storage.matches(path, each)]
    for statement, said in zip(given.statements, given.stated, strict=True):
        if not against and (row := rows.get(_number(statement))) is not None:
            charged = row.noted["params"] | {"unit": row.unit}
            against += [
                f"the {name} that it states is not that of entry {row.id}"
                for name, value in said.items()
                if charged.get(name, value) != value
            ]
    against += given.against
    models = ["entry {}, {}".format(*statement["entry"]) for statement in given.statements]
    name = clean(os.path.basename(os.fsdecode(path)))
    compared = ["entry and digest in the ledger", *given.compared]
    return Facts(
        name, file, now(), author, shown, everything, models, against, compared, given.left
    )


def _number(statement: Any) -> Any:
    """Number of the entry that a statement names."""
    entry = statement.get("entry") if isinstance(statement, dict) else None
    return entry[0] if entry else None


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
