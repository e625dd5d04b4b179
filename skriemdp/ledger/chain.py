"""What a ledger file holds, and how it is noticed that something was taken out of it.

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
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from sqlite3 import Connection


__all__ = ["FORMAT", "SCHEMA", "Broken", "Dataset", "Head", "canonical", "check_schema"]

FORMAT = 3

# `datasets` holds one row for each data set and for each part that a data set was split into
# (`parent`, its name); `division` says how it was split.  `last` is the entry that changed the row
# last.  `unit` is what the ceiling protects; each entry says that of its release.  Events and notes
# repeat, so entries point to their texts.
SCHEMA = """
CREATE TABLE ledger (key TEXT NOT NULL, created TEXT NOT NULL, witness TEXT NOT NULL);
CREATE TABLE datasets (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, parent TEXT REFERENCES datasets (name),
    unit TEXT NOT NULL, filter TEXT NOT NULL, division TEXT NOT NULL, last INTEGER NOT NULL,
    entries INTEGER NOT NULL, common_entries INTEGER NOT NULL, common TEXT NOT NULL,
    peak TEXT NOT NULL);
CREATE TABLE partitions (
    dataset INTEGER NOT NULL REFERENCES datasets, name TEXT NOT NULL, last INTEGER NOT NULL,
    entries INTEGER NOT NULL, amounts TEXT NOT NULL,
    PRIMARY KEY (dataset, name)) WITHOUT ROWID;
CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE tallies (
    dataset INTEGER NOT NULL REFERENCES datasets, part TEXT NOT NULL, label TEXT NOT NULL,
    event INTEGER NOT NULL REFERENCES texts, first INTEGER NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (dataset, part, label, event)) WITHOUT ROWID;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, kind TEXT NOT NULL,
    dataset INTEGER NOT NULL REFERENCES datasets, part TEXT NOT NULL, label TEXT NOT NULL,
    note INTEGER NOT NULL REFERENCES texts, event INTEGER REFERENCES texts,
    unit TEXT NOT NULL, cost TEXT NOT NULL, after TEXT NOT NULL, digest TEXT NOT NULL);
"""
# Kinds of entries.  A data set's first entry is its creation; after a split there are no more.
CREATED, SPLIT, CHARGED = "created", "split", "charged"


class Broken(Exception):
    """The file contradicts itself; the message completes "the ledger ... does not add up: "."""


class Head(NamedTuple):
    """Number and digest of an entry."""

    entry: int
    digest: str

    @classmethod
    def noted(cls, text: str) -> Head:
        """A head as reports and files show it; number 0 of a digest alone."""
        number, _, digest = text.removeprefix("entry ").strip().rpartition(" ")
        if not re.fullmatch("[0-9]*", number.strip()) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise ValueError(
                "a head is the number of an entry and the 64 hexadecimal digits of its digest, or "
                f"the digest alone, as reports show them; got {text!r}."
            )
        return cls(int(number or 0), digest)


class Dataset(NamedTuple):
    """One row of `datasets`."""

    id: int
    name: str
    parent: str | None
    unit: str
    filter: str
    division: str
    last: int
    entries: int
    common_entries: int
    common: str
    peak: str

    @property
    def rule(self) -> tuple:
        """What is fixed for good when the data set is made; part of every digest."""
        return self.name, self.parent, self.unit, self.filter


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
        """What :func:`skriemdp.ledger.facts.note` wrote; nothing for another kind of text."""
        found = json.loads(self.note or "{}")
        found = found if isinstance(found, dict) else {}
        return {k: found[k] if isinstance(found.get(k), kind) else kind() for k, kind in _NOTED}


_NOTED = (("params", dict), ("facts", dict), ("version", str), ("host", str), ("user", str))
_ENTRY = (
    "SELECT e.id, e.time, e.kind, e.dataset, e.part, e.label, n.text, v.text, e.unit, "
    "e.cost, e.after, e.digest FROM entries e "
    "LEFT JOIN texts n ON n.id = e.note LEFT JOIN texts v ON v.id = e.event "
)


# The one JSON text of a plain value.
canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def add(left: tuple, right: tuple) -> tuple:
    """Sum of two amounts, entry by entry; None (unbounded) absorbs."""
    return tuple(
        None if a is None or b is None else a + b for a, b in zip(left, right, strict=True)
    )


def highest(left: tuple, right: tuple) -> tuple:
    """Larger of two amounts, entry by entry; None (unbounded) is the largest."""
    return tuple(
        None if a is None or b is None else max(a, b) for a, b in zip(left, right, strict=True)
    )


@functools.lru_cache(maxsize=256)
def amounts(text: str) -> tuple:
    """Amounts as they are stored; or the totals that an entry left, see :func:`append`."""
    return tuple(json.loads(text))


@functools.cache
def _expected_schema() -> frozenset:
    with sqlite3.connect(":memory:") as db:
        db.executescript(SCHEMA)
        return _schema(db)


def _schema(db: sqlite3.Connection) -> frozenset:
    return frozenset(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


def check_schema(db: sqlite3.Connection) -> None:
    """The file has exactly the tables of the format: no trigger, view or column beside them."""
    if _schema(db) != _expected_schema():
        raise Broken("its tables are not those of a ledger (a table, trigger or view was changed)")


def header(db: sqlite3.Connection) -> tuple:
    """(key, created, witness): enters every digest."""
    return db.execute("SELECT key, created, witness FROM ledger").fetchone()


def datasets(db: sqlite3.Connection) -> list[Dataset]:
    """All data sets, in the order of their creation."""
    return [Dataset(*row) for row in db.execute("SELECT * FROM datasets ORDER BY id")]


def dataset(db: sqlite3.Connection, name: str) -> Dataset | None:
    """The data set of this name."""
    row = db.execute("SELECT * FROM datasets WHERE name = ?", (name,)).fetchone()
    return None if row is None else Dataset(*row)


def entry(db: sqlite3.Connection, number: int) -> Entry | None:
    """The entry of this number."""
    found = rows(db, number, 1)
    return found[0] if found and found[0].id == number else None


def digest(before: str, head: tuple, rule: tuple, row: Entry) -> str:
    """The digest of an entry, from the digest before it."""
    text = canonical([before, head, rule, row[:3], row[4:-1]])
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def digest_before(db: sqlite3.Connection, number: int) -> str:
    """The digest of the entry before `number`."""
    if number == 1:
        return ""
    row = db.execute("SELECT digest FROM entries WHERE id = ?", (number - 1,)).fetchone()
    if row is None:
        raise Broken(f"entry {number - 1} is missing")
    return row[0]


def create(
    db: Connection, name: str, parent: Dataset | None, unit: str, settings: dict, zero: tuple
) -> Dataset:
    """Make a data set: its row, and the entry that fixes its rule."""
    text, nothing = json.dumps(settings, allow_nan=False), canonical(zero)
    db.execute(
        "INSERT INTO datasets VALUES (NULL, ?, ?, ?, ?, '', 0, 0, 0, ?, ?)",
        (name, parent and parent.name, unit, text, nothing, nothing),
    )
    place = dataset(db, name)
    assert place is not None
    append(db, place, CREATED)
    return place


def append(
    db: Connection,
    place: Dataset,
    kind: str,
    *,
    time: str | None = None,
    cost: tuple = (),
    part: str = "",
    own: tuple = (0, ()),
    label: str = "",
    note: str = "{}",
    event: str | None = None,
    unit: str | None = None,
) -> Entry:
    """Write the next entry, and what it changes in the rows of its data set and partition.

    Parameters
    ----------
    db : Connection
        In a transaction.
    place : Dataset
        As it is.
    kind : {"created", "split", "charged"}
    time : str, optional
        :func:`now` if not given.
    cost : tuple of int or None
    part : str
        The partition charged, ``""`` for the whole data set.
    own : (int, tuple)
        Number of charges and amounts of that partition so far.
    label, note, event, unit : str
        As stored; the division is the note of a split.
    """
    if kind == SPLIT:
        place = place._replace(division=note)
    elif kind == CHARGED:
        place = place._replace(entries=place.entries + 1)
        if part:
            own = own[0] + 1, add(own[1], cost)
            place = place._replace(peak=canonical(highest(amounts(place.peak), own[1])))
        else:
            common = canonical(add(amounts(place.common), cost))
            place = place._replace(common=common, common_entries=place.common_entries + 1)
    number, after = newest(db) + 1, canonical([*_totals(place), *own])
    row = Entry(
        number, time or now(), kind, place.id, part, label, note, event, unit or place.unit,
        canonical(cost), after, "",
    )  # fmt: skip
    row = row._replace(digest=digest(digest_before(db, number), header(db), place.rule, row))
    for text in (note,) if event is None else (note, event):
        db.execute("INSERT OR IGNORE INTO texts(text) VALUES (?)", (text,))
    db.execute(
        "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, (SELECT id FROM texts WHERE text = ?), "
        "(SELECT id FROM texts WHERE text = ?), ?, ?, ?, ?)",
        row,
    )
    if kind == CHARGED:
        db.execute(
            "INSERT INTO tallies SELECT ?, ?, ?, id, ?, 1 FROM texts WHERE text = ? "
            "ON CONFLICT DO UPDATE SET count = count + 1",
            (place.id, part, label, number, event),
        )
    if part:
        db.execute(
            "INSERT OR REPLACE INTO partitions VALUES (?, ?, ?, ?, ?)",
            (place.id, part, number, own[0], canonical(own[1])),
        )
    db.execute(
        "UPDATE datasets SET division = ?, last = ?, entries = ?, common_entries = ?, common = ?, "
        "peak = ? WHERE id = ?",
        (place.division, number, *place[-4:], place.id),
    )
    return row


def now() -> str:
    """The time of an entry: ISO 8601, UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def newest(db: sqlite3.Connection) -> int:
    """Number of the last entry, 0 if there is none."""
    return db.execute("SELECT MAX(id) FROM entries").fetchone()[0] or 0


def last(db: sqlite3.Connection) -> Head | None:
    """The last entry, as it is noted."""
    row = db.execute("SELECT id, digest FROM entries ORDER BY id DESC LIMIT 1").fetchone()
    return None if row is None else Head(*row)


def _totals(place: Dataset) -> list:
    """What an entry notes as the state it left of its data set; then comes that of the part."""
    return [place.entries, place.common_entries, *map(json.loads, (place.common, place.peak))]


def check_dataset(db: sqlite3.Connection, head: tuple, place: Dataset) -> None:
    """The row of a data set is what its last entry left, and that entry is intact."""
    last = _intact(db, head, place, place.last)
    if json.loads(last.after)[:4] != _totals(place):
        raise Broken(f"the totals of data set {place.name!r} are not what entry {last.id} left")
    if place.division != (last.note if last.kind == SPLIT else ""):
        raise Broken(f"the division of data set {place.name!r} is not the one that was entered")


def check_partition(db: Connection, head: tuple, place: Dataset, name: str) -> tuple[int, tuple]:
    """Number of charges and amounts of one partition, checked like :func:`check_dataset`."""
    row = db.execute(
        "SELECT last, entries, amounts FROM partitions WHERE dataset = ? AND name = ?",
        (place.id, name),
    ).fetchone()
    if row is None:
        check_partition_count(db, place)
        return 0, (0,) * len(amounts(place.common))
    last = _intact(db, head, place, row[0])
    if last.part != name or json.loads(last.after)[4:] != [row[1], json.loads(row[2])]:
        raise Broken(f"the totals of partition {name!r} are not what entry {last.id} left")
    return row[1], amounts(row[2])


def check_partition_count(db: sqlite3.Connection, place: Dataset) -> None:
    """No partition is missing: their charges and the common ones are all charges."""
    (own,) = db.execute(
        "SELECT TOTAL(entries) FROM partitions WHERE dataset = ?", (place.id,)
    ).fetchone()
    if place.common_entries + own != place.entries:
        raise Broken(f"a partition of data set {place.name!r} is missing or was changed")


def check_counts(db: sqlite3.Connection) -> int:
    """There are as many entries as were counted; returns the number of the last one."""
    counted = db.execute(
        "SELECT COALESCE(SUM(entries + 1 + (division <> '')), 0) FROM datasets"
    ).fetchone()[0]
    number = newest(db)
    if counted != number:
        raise Broken(f"its last entry is number {number}, but {counted} were counted")
    return number


def check_head(db: sqlite3.Connection, head: tuple) -> Head | None:
    """The last entry is intact and counted; returns it (None in a ledger without data sets)."""
    number = check_counts(db)
    if number == 0:
        return None
    (name,) = db.execute(
        "SELECT d.name FROM entries e JOIN datasets d ON d.id = e.dataset WHERE e.id = ?", (number,)
    ).fetchone() or (None,)
    place = None if name is None else dataset(db, name)
    if place is None:
        raise Broken(f"entry {number} belongs to no data set")
    return Head(number, _intact(db, head, place, number).digest)


def _intact(db: Connection, head: tuple, place: Dataset, number: int) -> Entry:
    found = entry(db, number)
    if found is None or found.dataset != place.id:
        raise Broken(f"entry {number} of data set {place.name!r} is missing")
    if found.digest != digest(digest_before(db, number), head, place.rule, found):
        raise Broken(f"entry {number} or the rule of data set {place.name!r} was changed")
    return found


class Replay:
    """Adds the entries up again, one by one, in the order of their numbers.

    A replay that begins in the middle takes the first totals that it meets as given.
    """

    def __init__(self, head: tuple, start: int = 1, before: str = ""):
        self.places: dict[int, Dataset] = {}
        self.head, self.start, self.next, self.before = head, start, start, before
        self.common: dict[int, list] = {}
        self.own: dict[tuple, list] = {}
        self.tallies: Counter = Counter()

    def take(self, row: Entry) -> None:
        """Check the next entry."""
        if row.id != self.next:
            raise Broken(f"entry {self.next} is missing")
        place = self.places.get(row.dataset)
        if place is None:
            raise Broken(f"entry {row.id} belongs to no data set")
        if row.digest != digest(self.before, self.head, place.rule, row):
            raise Broken(f"entry {row.id} or an entry before it was changed")
        after = list(amounts(row.after))
        if not self._follows(row, after, amounts(row.cost)):
            raise Broken(f"the totals noted in entry {row.id} do not follow from those before")
        self.common[row.dataset] = after[:4]
        if row.part:
            self.own[row.dataset, row.part] = after[4:]
        if row.kind == CHARGED:
            self.tallies[row.dataset, row.part, row.label, row.event] += 1
        self.next, self.before = row.id + 1, row.digest

    def _follows(self, row: Entry, after: list, cost: tuple) -> bool:
        state = self.common.get(row.dataset)
        if row.kind == CREATED:
            zero = [0] * len(after[2])
            return state is None and after == [0, 0, zero, zero, 0, []]
        if state is None:
            return self.start > 1
        entries, common_entries, common, peak = state
        if row.kind == SPLIT:
            return after == [0, 0, common, peak, 0, []] and entries == 0
        if not row.part:
            common = list(add(tuple(common), cost))
            return after == [entries + 1, common_entries + 1, common, peak, 0, []]
        known = self.own.get((row.dataset, row.part))
        if known is None and self.start > 1:
            return after[:3] == [entries + 1, common_entries, common]
        number, own = known or (0, [0] * len(cost))
        own = add(tuple(own), cost)
        peak = list(highest(tuple(peak), own))
        return after == [entries + 1, common_entries, common, peak, number + 1, list(own)]

    def finish(self, db: sqlite3.Connection) -> None:
        """After the last entry of a whole replay: what was added up is what the tables say."""
        if check_counts(db) != self.next - 1:
            raise Broken(f"entry {self.next} is missing")
        for place in self.places.values():
            check_dataset(db, self.head, place)
            if self.start == 1 and place.id not in self.common:
                raise Broken(f"data set {place.name!r} was never entered")
        if self.start > 1:
            return
        found = db.execute("SELECT dataset, name, entries, amounts FROM partitions")
        partitions = {(row[0], row[1]): [row[2], json.loads(row[3])] for row in found}
        if partitions != self.own:
            raise Broken("the totals of the partitions are not the sums of their entries")
        found = db.execute(
            "SELECT t.dataset, t.part, t.label, v.text, t.count FROM tallies t "
            "LEFT JOIN texts v ON v.id = t.event"
        )
        if {row[:4]: row[4] for row in found} != dict(self.tallies):
            raise Broken("the counts of equal charges are not those of the entries")


def rows(
    db: Connection,
    start: int,
    most: int = -1,
    place: Dataset | None = None,
    part: str | None = None,
    skip: int = 0,
) -> list[Entry]:
    """Up to `most` entries from number `start` on; the charges of a data set, of a partition."""
    where = "e.id >= ?"
    values: list[Any] = [start]
    if place is not None:
        where, values = f"{where} AND e.dataset = ? AND e.kind = '{CHARGED}'", [start, place.id]
    if part is not None:
        where, values = f"{where} AND e.part IN ('', ?)", [*values, part]
    found = db.execute(
        f"{_ENTRY}WHERE {where} ORDER BY e.id LIMIT ? OFFSET ?", (*values, most, skip)
    )
    return [Entry(*row) for row in found]


def tallies(db: sqlite3.Connection, place: Dataset) -> list[tuple]:
    """Rows (part, label, event JSON, count) of a data set, in the order of their first charge."""
    found = db.execute(
        "SELECT t.part, t.label, v.text, t.count FROM tallies t JOIN texts v ON v.id = t.event "
        "WHERE t.dataset = ? ORDER BY t.first",
        (place.id,),
    ).fetchall()
    if sum(row[3] for row in found) != place.entries:
        raise Broken(f"the counts of equal charges of {place.name!r} are not those of its entries")
    return found
