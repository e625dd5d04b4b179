"""The contents of a ledger file, and the checks that notice when something was taken out of it.

Every entry carries the totals that it left behind and a digest over itself, over the file's key,
over the rule of its data set and over the digest before.  So a charge that is lost, cut away,
weakened or restored to an older state leaves a chain, a counter or a total that does not fit.
This finds accidents and edits.  Whoever may write the file and recomputes every digest is not
stopped; against that helps a head that was noted elsewhere (a witness file, or paper).
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from skriemdp._errors import PublicValueError
from skriemdp.ledger._errors import BudgetError

FORMAT = 4

# A data set (or a part that one was split into) is its first entry, whose label is the name and
# whose note is the rule; `dataset` is that entry's number.  `places` says which entry was the last
# of a data set (`part` empty) and of each partition.  Events and notes repeat, so entries point to
# their texts.
SCHEMA = """
CREATE TABLE ledger (key TEXT NOT NULL, created TEXT NOT NULL, witness TEXT NOT NULL);
CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL,
    dataset INTEGER NOT NULL, part TEXT NOT NULL, label TEXT NOT NULL,
    note INTEGER NOT NULL REFERENCES texts, event INTEGER REFERENCES texts,
    unit TEXT NOT NULL, cost TEXT NOT NULL, after TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE places (
    dataset INTEGER NOT NULL REFERENCES entries, part TEXT NOT NULL,
    last INTEGER NOT NULL REFERENCES entries, PRIMARY KEY (dataset, part)) WITHOUT ROWID;
"""
# Kinds of entries.  A data set's first entry is its creation; after a split there are no more.
CREATED, SPLIT, CHARGED = "created", "split", "charged"

Amounts = tuple  # of int | None, in the unit of skriemdp.ledger._filters; None: unbounded


class Broken(Exception):
    """The file contradicts itself; the message completes "the ledger ... does not add up: "."""


class Head(NamedTuple):
    """Number and digest of an entry."""

    entry: int
    digest: str

    def __str__(self) -> str:
        return f"{self.entry} {self.digest}"

    @classmethod
    def noted(cls, text: str) -> Head:
        """A head as reports and files show it; number 0 of a digest alone."""
        found = re.fullmatch(r"(?:entry )?\s*(?:([0-9]+) +)?([0-9a-f]{64})\s*", text)
        if found is None:
            raise PublicValueError(
                "a head is the number of an entry and the 64 hexadecimal digits of its digest, or "
                f"the digest alone, as reports show them; got {text!r}."
            )
        return cls(int(found[1] or 0), found[2])


class Standing(NamedTuple):
    """Running totals as one charge sees them.

    Attributes
    ----------
    total : Amounts
        What the records concerned have been charged so far: everything charged to the whole data
        set plus, for a partition, what that partition was charged, or, for the whole data set,
        the largest amount of any partition.
    untouched : bool
        Whether none of the records concerned has been charged anything before.
    """

    total: Amounts
    untouched: bool


class Entry(NamedTuple):
    """One row of `entries`, with the texts of its note and its event for their numbers."""

    id: int
    time: str
    kind: str
    dataset: int
    part: str
    label: str
    note: str
    event: str | None
    unit: str
    cost: str
    after: str
    digest: str

    @property
    def noted(self) -> dict:
        """Parse what :func:`skriemdp.ledger._statements.note` wrote; empty for other text."""
        return noted(self.note)

    @property
    def state(self) -> tuple:
        """The totals it left: see :func:`followed`."""
        return amounts(self.after)

    @property
    def total(self) -> Amounts:
        """Total over the whole data set of the charges to the records that were charged most."""
        return add(*self.state[2:4])


_NOTED = (("params", dict), ("facts", dict), ("version", str), ("host", str), ("user", str))
_ENTRY = (
    "SELECT e.id, e.time, e.kind, e.dataset, e.part, e.label, n.text, v.text, e.unit, "
    "e.cost, e.after, e.digest FROM entries e "
    "LEFT JOIN texts n ON n.id = e.note LEFT JOIN texts v ON v.id = e.event WHERE "
)


class Dataset(NamedTuple):
    """A data set, or a part that one was split into: its first entry and its last one."""

    made: Entry
    last: Entry

    @property
    def id(self) -> int:
        """Number of the entry that made it."""
        return self.made.id

    @property
    def name(self) -> str:
        """Its name, unique in a file."""
        return self.made.label

    @property
    def terms(self) -> dict:
        """Fixed terms of the data set: its ``filter``, and its ``parent`` where it is a part."""
        return json.loads(self.made.note)

    @property
    def division(self) -> str:
        """Note of the split of the data set; empty where it was not split."""
        return self.last.note if self.last.kind == SPLIT else ""

    @property
    def charges(self) -> int:
        """Number of its charges."""
        return 0 if self.division else self.last.state[0] - 1


# The one JSON text of a plain value.
canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def add(left: tuple, right: tuple) -> tuple:
    """Sum of two amounts, entry by entry; None (unbounded) absorbs."""
    return tuple([None if None in both else sum(both) for both in zip(left, right, strict=True)])


def highest(left: tuple, right: tuple) -> tuple:
    """Larger of two amounts, entry by entry; None (unbounded) is the largest."""
    return tuple([None if None in both else max(both) for both in zip(left, right, strict=True)])


@functools.lru_cache(maxsize=256)
def amounts(text: str) -> tuple:
    """Amounts as they are stored; or the totals that an entry left."""
    return tuple(json.loads(text))


def noted(note: str) -> dict:
    """Parse what :func:`skriemdp.ledger._statements.note` wrote; empty for other text."""
    found = json.loads(note)
    found = found if isinstance(found, dict) else {}
    return {k: found[k] if isinstance(found.get(k), kind) else kind() for k, kind in _NOTED}


@functools.lru_cache(maxsize=256)
def shares_of(note: str) -> int:
    """Number of times a charge counts if all other clients work with the server."""
    shares = noted(note)["params"].get("honest", 1)
    return shares if isinstance(shares, int) else 1


def now() -> str:
    """The time of an entry: ISO 8601, UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def followed(kind: str, state: tuple, own: tuple, part: str, cost: Amounts) -> tuple:
    """The totals that an entry leaves.

    They are the number of entries of its data set, the number and the sum of the charges to the
    whole of it, the largest sum of any partition, and the number and the sum of the charges to the
    partition that this one goes to.
    """
    entries, number, common, peak = state[:4]
    if kind == CHARGED and part:
        own = own[0] + 1, add(own[1], cost)
        peak = highest(peak, own[1])
    elif kind == CHARGED:
        number, common = number + 1, add(common, cost)
    return entries + 1, number, list(common), list(peak), own[0], list(own[1])


def digest(before: str, header: tuple, made: Entry, row: Entry) -> str:
    """The digest of an entry, from the digest before it."""
    text = canonical([before, header, [made.label, made.note, made.unit], row[:-1]])
    return hashlib.sha256(text.encode("ascii")).hexdigest()


_LAST_ONES = "FROM places p CROSS JOIN entries e ON e.id = p.last WHERE"


class Book:
    """The tables of a ledger.

    What it has read and checked it keeps for later transactions, for as long as nobody else writes.
    """

    def __init__(self, db: sqlite3.Connection, path: str):
        self.db, self.path = db, path
        self._version: tuple | None = None
        self._places: dict[str, Dataset] = {}

    def look(self) -> bool:
        """Read again who the file is and its last entry; False if nobody else has written since."""
        before, self._version = self._version, self._one("PRAGMA data_version")
        if self._version == before:
            return False
        # The key, when the file was made, and the path of the witness: they enter every digest.
        self.header: tuple = self._one("SELECT key, created, witness FROM ledger")
        last = self._one("SELECT id, digest FROM entries ORDER BY id DESC LIMIT 1")
        self.head, self._places = Head(*(last or (0, ""))), {}
        return True

    def _one(self, query: str, *values: Any) -> Any:
        return self.db.execute(query, values).fetchone()

    # -- looking --

    def rows(
        self,
        start: int = 1,
        most: int = -1,
        place: Dataset | None = None,
        part: str = "",
        newest: bool = False,
    ) -> Iterator[Entry]:
        """Up to `most` entries from number `start` on; the charges of a data set, of a partition.

        Of a partition: its own and the common ones.  `newest`: the last ones, and backwards.
        """
        where = "e.id >= ?"
        values: tuple = (start,)
        if place is not None:
            where, values = f"{where} AND e.dataset = ? AND e.kind = '{CHARGED}'", (start, place.id)
        if part:
            where, values = f"{where} AND e.part IN ('', ?)", (*values, part)
        query = f"{_ENTRY}{where} ORDER BY e.id {'DESC' if newest else 'ASC'} LIMIT ?"
        return map(Entry._make, self.db.execute(query, (*values, most)))

    def entry(self, number: int) -> Entry:
        """The entry of this number."""
        row = self._one(f"{_ENTRY}e.id = ?", number)
        if row is None:
            raise Broken(f"entry {number} is missing")
        return Entry._make(row)

    def before(self, number: int) -> str:
        """The digest of the entry before `number`."""
        return "" if number == 1 else self.entry(number - 1).digest

    def datasets(self, name: str | None = None) -> list[Dataset]:
        """All data sets, in the order of their creation, or the one of this name."""
        found = self.db.execute(
            "SELECT m.id, l.id FROM places p CROSS JOIN entries m ON m.id = p.dataset "
            "CROSS JOIN entries l ON l.id = p.last WHERE p.part = '' AND m.label = IFNULL(?, "
            "m.label) ORDER BY m.id",
            (name,),
        ).fetchall()
        return [Dataset(self.entry(made), self.entry(last)) for made, last in found]

    def place(self, name: str) -> Dataset:
        """A data set, whose last entry is intact."""
        if name not in self._places:
            found = self.datasets(name)
            if not found:
                raise BudgetError(f"the ledger {self.path!r} has no data set {name!r}.")
            self.check_entry(found[0], found[0].last)
            self._places[name] = found[0]
        return self._places[name]

    def own(self, place: Dataset, part: str) -> tuple[int, Amounts]:
        """Number and sum of the charges to one partition; nothing of the whole data set."""
        nothing = 0, (0,) * len(place.last.state[2])
        if not part:
            return nothing
        found = self._one("SELECT last FROM places WHERE dataset = ? AND part = ?", place.id, part)
        if found is None:
            self.check_partitions(place)
            return nothing
        row = self.entry(found[0])
        self.check_entry(place, row)
        if row.part != part:
            raise Broken(f"entry {row.id} is not of partition {part!r}")
        return row.state[4], tuple(row.state[5])

    def standing(self, place: Dataset, part: str) -> Standing:
        """Totals that a charge to `part` of a data set (``""``: all of it) would be added to."""
        if place.division:
            raise BudgetError(
                f"data set {place.name!r} of the ledger {self.path!r} was divided into parts; "
                "charge one of them (its `parts`)."
            )
        total = place.last.total
        if part:
            total = add(place.last.state[2], self.own(place, part)[1])
        # What cost nothing does not depend on the records.
        return Standing(total, all(amount == 0 for amount in total))

    def tallies(self, place: Dataset, part: str) -> Counter:
        """Number of charges by (partition, event, :func:`shares_of` their note)."""
        found: Counter = Counter()
        for of, event, note, count in self.db.execute(
            "SELECT e.part, v.text, n.text, COUNT(*) FROM entries e JOIN texts v ON v.id = e.event "
            "JOIN texts n ON n.id = e.note WHERE e.dataset = ? GROUP BY e.part, e.event, e.note",
            (place.id,),
        ):
            found[of, event, shares_of(note)] += count
        if found.total() != place.charges:
            raise Broken(f"the number of charges of {place.name!r} is not that of its entries")
        return Counter({k: n for k, n in found.items() if not part or k[0] in ("", part)})

    # -- writing --

    def add_dataset(
        self, name: str, settings: dict, zero: Amounts, unit: str, parent: str | None = None
    ) -> None:
        """Make a data set: the entry that fixes its rule."""
        note = json.dumps({"filter": settings, "parent": parent}, allow_nan=False)
        self.append(None, CREATED, zero=zero, label=name, note=note, unit=unit)

    def append(
        self,
        place: Dataset | None,
        kind: str,
        *,
        time: str | None = None,
        zero: Amounts = (),
        cost: Amounts = (),
        part: str = "",
        label: str = "",
        note: str = "{}",
        event: str | None = None,
        unit: str = "",
    ) -> Entry:
        """Write the next entry.

        Parameters
        ----------
        place : Dataset or None
            As it is; None makes one, with `zero` for its totals.
        kind : {"created", "split", "charged"}
        time : str, optional
            :func:`now` if not given.
        zero, cost : tuple of int or None
        part : str
            The partition charged, ``""`` for the whole data set.
        label, note, event, unit : str
            As stored; of a new data set its name and its terms, of a split the division.
        """
        number, own = self.head.entry + 1, self.own(place, part) if place else (0, zero)
        state = place.last.state if place else (0, 0, zero, zero)
        row = Entry(
            number, time or now(), kind, number if place is None else place.id, part, label, note,
            event, unit, canonical(cost), canonical(followed(kind, state, own, part, cost)), "",
        )  # fmt: skip
        made = row if place is None else place.made
        row = row._replace(digest=digest(self.head.digest, self.header, made, row))
        self.db.executemany("INSERT OR IGNORE INTO texts(text) VALUES (?)", [(note,), (event,)])
        self.db.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, (SELECT id FROM texts WHERE text = ?), "
            "(SELECT id FROM texts WHERE text = ?), ?, ?, ?, ?)",
            row,
        )
        places = [(row.dataset, where, number) for where in {"", part}]
        self.db.executemany("INSERT OR REPLACE INTO places VALUES (?, ?, ?)", places)
        self.head, self._places[made.label] = Head(number, row.digest), Dataset(made, row)
        return row

    # -- checking --

    def check(self, last: int) -> None:
        """Its tables and counts, and so many of the last entries, which are added up again."""
        self.check_schema()
        again = Replay(self, max(self.head.entry - last + 1, 1))
        for row in self.rows(again.start):
            again.take(row)
        again.finish(self)

    def check_schema(self) -> None:
        """The file has exactly the tables of the format: no trigger, view or column beside them."""
        found = self.db.execute("SELECT sql FROM sqlite_master WHERE sql NOTNULL ORDER BY rowid")
        if ";\n".join(sql for (sql,) in found) != SCHEMA.strip(";\n"):
            raise Broken("its tables are not those of a ledger (a table, trigger or view changed)")

    def check_entry(self, place: Dataset, row: Entry) -> None:
        """An entry belongs to a data set and is intact."""
        if row.dataset != place.id:
            raise Broken(f"entry {row.id} does not belong to data set {place.name!r}")
        if row.digest != digest(self.before(row.id), self.header, place.made, row):
            raise Broken(f"entry {row.id} or the rule of data set {place.name!r} was changed")

    def check_partitions(self, place: Dataset) -> None:
        """Check that no partition is missing: their charges and the common ones are all charges."""
        (own,) = self._one(
            f"SELECT TOTAL(json_extract(e.after, '$[4]')) {_LAST_ONES} p.dataset = ? AND p.part "
            "<> ''",
            place.id,
        )
        if place.last.state[1] + own != place.charges:
            raise Broken(f"a partition of data set {place.name!r} is missing or was changed")

    def check_counts(self) -> int:
        """There are as many entries as were counted; returns the number of the last one."""
        (counted,) = self._one(
            f"SELECT TOTAL(json_extract(e.after, '$[0]')) {_LAST_ONES} p.part = ''"
        )
        if counted != self.head.entry:
            raise Broken(
                f"its last entry is number {self.head.entry}, but {counted:g} were counted"
            )
        return self.head.entry

    def check_contains(self, seen: Head | None) -> None:
        """The file still holds an entry that it held once; number 0 stands for any."""
        query = "SELECT 1 FROM entries WHERE id BETWEEN ?1 AND IIF(?1, ?1, 1 << 62) AND digest = ?2"
        if seen is None or seen == self.head or self._one(query, *seen):
            return
        found = f"has another entry {seen.entry} than before"
        if self.head.entry < seen.entry:
            found = f"went back from entry {seen.entry} to {self.head.entry}"
        elif not seen.entry:
            found = "has no entry with the digest that was noted"
        raise BudgetError(
            f"the ledger {self.path!r} {found}: this is an old backup, or a part of the file was "
            "lost. Restore the newest copy; what was charged since is part of the guarantee. "
            "Nothing was released."
        )


class Replay:
    """Adds the entries up again, one by one, in the order of their numbers.

    A replay that begins in the middle takes the first totals that it meets as given.
    """

    def __init__(self, book: Book, start: int = 1):
        self.book, self.start, self.next = book, start, start
        self.before = book.before(start)
        self.made: dict[int, Entry] = {}
        self.last: dict[tuple[int, str], Entry] = {}

    def take(self, row: Entry) -> None:
        """Check the next entry."""
        if row.id != self.next:
            raise Broken(f"entry {self.next} is missing")
        if row.kind == CREATED and row.dataset == row.id:
            self.made[row.id] = row
        elif row.dataset < self.start and row.dataset not in self.made:
            self.made[row.dataset] = self.book.entry(row.dataset)
        if row.dataset not in self.made:
            raise Broken(f"entry {row.id} belongs to no data set")
        if row.digest != digest(self.before, self.book.header, self.made[row.dataset], row):
            raise Broken(f"entry {row.id} or an entry before it was changed")
        if not self._follows(row):
            raise Broken(f"the totals noted in entry {row.id} do not follow from those before")
        self.last[row.dataset, ""] = self.last[row.dataset, row.part] = row
        self.next, self.before = row.id + 1, row.digest

    def _follows(self, row: Entry) -> bool:
        known, left = self.last.get((row.dataset, "")), row.state
        zero = (0,) * len(left[2])
        if known is None and row.kind != CREATED:
            return row.dataset < self.start
        state = (0, 0, zero, zero) if known is None else known.state
        same = self.last.get((row.dataset, row.part)) if row.part else None
        own = (0, zero) if same is None else same.state[4:]
        after = followed(row.kind, state, own, row.part, amounts(row.cost))
        if row.part and same is None and row.dataset < self.start:
            return after[:3] == left[:3]
        first = state[0] == (0 if row.kind == CREATED else 1)
        return after == left and (row.kind == CHARGED or first)

    def finish(self, book: Book) -> None:
        """Check, after the last entry, that the sums found are those that the file states."""
        if book.check_counts() != self.next - 1:
            raise Broken(f"entry {self.next} is missing")
        places = book.db.execute("SELECT * FROM places WHERE last >= ?", (self.start,))
        if {row[:2]: row[2] for row in places} != {k: row.id for k, row in self.last.items()}:
            raise Broken("its data sets or partitions are not those that its entries were charged")
