"""A durable list of charges in one SQLite file; of filters it knows only how to add integers.

Every charge is one ``BEGIN IMMEDIATE`` transaction, synced to disk before it returns, so a charge
that was reported survives a crash and two processes never spend the same remainder.  Amounts are
tuples of integers in the unit of :mod:`skriemdp.ledger.filters`; None stands for "unbounded".
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skriemdp.ledger import chain, connections, files, witness
from skriemdp.ledger.chain import Head, add, highest
from skriemdp.ledger.connections import BudgetError, explained, reading, writing

if TYPE_CHECKING:
    from sqlite3 import Connection


__all__ = ["Amounts", "BudgetError", "Ledger", "Standing", "add", "highest"]

Amounts = tuple  # of int | None

PAGE = 10_000  # entries read in one transaction, so that readers never hold up writers for long


class Standing:
    """Running totals as one charge sees them.

    Attributes
    ----------
    total : Amounts
        What the records concerned have been charged so far: everything charged to the whole data
        set plus, for a partition, what that partition was charged, or, for the whole data set,
        the largest amount of any partition.
    untouched : bool
        Whether none of the records concerned has been charged before.
    """

    __slots__ = ("total", "untouched")

    def __init__(self, total: Amounts, untouched: bool):
        self.total = total
        self.untouched = untouched


class Ledger:
    """A handle on a ledger file: its path and its key, nothing else.

    Opening never creates: use :meth:`create`.  `key` is a random name written into the file when
    it is made, so that a handle notices when another ledger lies at its path.
    """

    def __init__(self, path: str | Path, key: str | None = None):
        self.path = _real(path)
        self.key = key
        if key is None:
            with reading(self.path, None) as session:
                self.key = session.key

    @classmethod
    def create(cls, path: Path | str, witness_path: Path | None = None) -> Ledger:
        """Make a new ledger file (mode 0600) that either exists completely or not at all."""
        path = _real(path)
        files.refuse_network(path)
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            raise BudgetError(f"the folder of the ledger {path!r} does not exist; create it first.")
        for suffix in ("-wal", "-shm", "-journal"):
            if os.path.lexists(path + suffix) and not os.path.lexists(path):
                raise BudgetError(
                    f"{path + suffix!r} exists but {path!r} does not: an earlier ledger lost its "
                    "main file. Restore it, or move the remains away to begin a new budget."
                )
        key = secrets.token_hex(16)
        draft = f"{path}.{key}"
        seen_by = "" if witness_path is None else _real(witness_path)
        with explained(path):
            if seen_by:
                witness.create(seen_by, key)
            try:
                os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                connections.initialise(draft, key, now(), seen_by)
                # A hard link appears in one step and fails if another process was first.
                os.link(draft, path)
            except FileExistsError:
                return cls(path)
            except OSError as error:
                raise BudgetError(
                    f"cannot create the ledger {path!r}: {error.strerror}."
                ) from error
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(draft)
            files.sync_folder(folder)
        return cls(path, key)

    @classmethod
    def temporary(cls) -> Ledger:
        """Make a ledger in this process's private folder (mode 0700), removed when it exits."""
        name = f"{secrets.token_hex(8)}.ledger"
        return cls.create(os.path.join(connections.private_folder(), name))

    @staticmethod
    def exists(path: Path | str) -> bool:
        """Whether something lies at `path` (it need not be a ledger)."""
        return os.path.lexists(path)

    # -- data sets --

    def open_dataset(
        self,
        name: str,
        settings: dict | None,
        zero: Amounts = (),
        *,
        unit: str = "record",
        arithmetic: str = "float",
    ) -> dict:
        """Settings of the data set's filter; the first call with `settings` fixes them for good."""
        with reading(self.path, self.key) as session:
            found = chain.dataset(session.db, name)
        if found is None and settings is not None:
            with writing(self.path, self.key) as session:
                found = chain.dataset(session.db, name)
                if found is None:
                    found = enter_dataset(
                        session.db, name, None, settings, zero, unit, arithmetic, now()
                    )
        if found is None:
            raise BudgetError(f"the ledger {self.path!r} has no data set {name!r}.")
        with explained(self.path):
            return json.loads(found.filter)

    def dataset_names(self) -> list[str]:
        """Names of the data sets and their parts, in the order of their creation."""
        return [place.name for place in self.datasets()]

    def datasets(self) -> list[chain.Dataset]:
        """The rows of all data sets and their parts, in the order of their creation."""
        with reading(self.path, self.key) as session:
            return chain.datasets(session.db)

    def row(self, dataset: str) -> chain.Dataset:
        """What the ledger stores of one data set: its rule, its division, its totals."""
        with reading(self.path, self.key) as session:
            return _checked(session, self.path, dataset)

    def divide(
        self, dataset: str, division: dict, parts: list[tuple[str, dict, Amounts]]
    ) -> list[str]:
        """Split a data set without charges into parts, and close it; the same call again is fine.

        Parameters
        ----------
        dataset : str
        division : dict
            How, in plain data; a second call must give the same.
        parts : list of (name, settings, zero)
            Name, filter and zero cost of each part, as for :meth:`open_dataset`.  The parts take
            over the unit and the arithmetic.

        Returns
        -------
        names : list of str
        """
        text = chain.canonical(division)
        with writing(self.path, self.key) as session:
            db, place = session.db, _checked(session, self.path, dataset)
            if place.division and place.division != text:
                raise BudgetError(
                    f"data set {dataset!r} of the ledger {self.path!r} was divided in another way "
                    f"before: {place.division}. Repeat that division."
                )
            if not place.division:
                if place.entries:
                    raise BudgetError(
                        f"data set {dataset!r} of the ledger {self.path!r} has charges already; "
                        "divide a data set before its first charge."
                    )
                for name, settings, zero in parts:
                    enter_dataset(
                        db, name, place, settings, zero, place.unit, place.arithmetic, now()
                    )
                row = chain.append(
                    db, place, chain.SPLIT, time=now(), note=text, after=chain.totals(place),
                    unit=place.unit, arithmetic=place.arithmetic,
                )  # fmt: skip
                db.execute(
                    "UPDATE datasets SET division = ?, last = ? WHERE id = ?",
                    (text, row.id, place.id),
                )
            return [row.name for row in chain.datasets(db) if row.parent == dataset]

    # -- charges --

    def standing(self, dataset: str, part: str = "") -> Standing:
        """Totals that a charge to `part` of `dataset` (``""``: all of it) would be added to."""
        with reading(self.path, self.key) as session:
            place = _checked(session, self.path, dataset)
            return _standing(place, part, *_own(session, place, part))

    def charge(
        self,
        dataset: str,
        part: str,
        cost: Amounts,
        admits: Callable[[Standing], bool],
        *,
        event: str,
        label: str,
        note: str,
        unit: str = "record",
        arithmetic: str = "float",
    ) -> tuple[chain.Entry | None, Standing]:
        """Write one charge if `admits` agrees, else nothing.

        `admits` runs inside the write transaction: no other process can spend in between.

        Returns
        -------
        row : Entry or None
            None when refused.
        standing : Standing
            Totals before the charge.
        """
        with writing(self.path, self.key) as session:
            db, place = session.db, _checked(session, self.path, dataset)
            if place.division:
                raise BudgetError(
                    f"data set {dataset!r} of the ledger {self.path!r} was divided into parts; "
                    "charge one of them."
                )
            own_entries, own = _own(session, place, part)
            before = _standing(place, part, own_entries, own)
            if not admits(before):
                return None, before
            row = write_charge(
                db, place, part, own_entries, own, cost, time=now(), label=label, note=note,
                event=event, unit=unit, arithmetic=arithmetic,
            )  # fmt: skip
        return row, before

    # -- looking --

    def entries(
        self, dataset: str, part: str | None = None, *, after: int = 0
    ) -> Iterator[chain.Entry]:
        """The charges with a number above `after`, in the order of charging.

        Of a partition: its own and the common ones.  Read in short transactions, so that a long
        list neither fills the memory nor keeps others from charging.
        """
        while True:
            with reading(self.path, self.key) as session:
                place = _checked(session, self.path, dataset)
                page = chain.charges(session.db, place, part, after, PAGE)
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].id

    def entry_at(self, dataset: str, part: str | None, place: int) -> chain.Entry | None:
        """The charge at a place of the list, counted from 0."""
        with reading(self.path, self.key) as session:
            row = _checked(session, self.path, dataset)
            found = chain.charges(session.db, row, part, 0, 1, place)
            return found[0] if found else None

    def tallies(self, dataset: str) -> list[tuple]:
        """Rows (part, label, event JSON, count): the charges, grouped."""
        with reading(self.path, self.key) as session:
            return chain.tallies(session.db, _checked(session, self.path, dataset))

    def count(self, dataset: str, part: str | None = None) -> int:
        """Number of charges of the data set; of a partition: its own and the common ones."""
        with reading(self.path, self.key) as session:
            place = _checked(session, self.path, dataset)
            if part is None:
                return place.entries
            return place.common_entries + _own(session, place, part)[0]

    def check_witness(self, path: str | Path) -> None:
        """BudgetError unless the ledger was made with this witness file."""
        with reading(self.path, self.key) as session:
            stored = session.header[2]
        if _real(path) != stored:
            made = f"the witness file {stored!r}" if stored else "no witness file"
            raise BudgetError(
                f"the ledger {self.path!r} was made with {made}, and that is fixed. Leave witness= "
                "out, or repeat it."
            )

    def verify(self, head: str | None = None) -> None:
        """Add up the whole file again; `head` is an entry that it must hold."""
        noted = None if head is None else _parsed(head)
        connections.verify(self.path, self.key, noted)

    def head(self) -> Head | None:
        """Number and digest of the last entry: the state of the whole file in one line."""
        with reading(self.path, self.key) as session:
            return chain.last(session.db)


def _real(path: str | Path) -> str:
    path = os.fsdecode(path)
    with explained(path):
        return os.path.realpath(path)


def enter_dataset(
    db: Connection,
    name: str,
    parent: chain.Dataset | None,
    settings: dict[str, Any],
    zero: tuple[int, ...],
    unit: str,
    arithmetic: str,
    time: str,
) -> chain.Dataset:
    """Create a data set: its row and the entry that fixes its rule."""
    text, nothing = json.dumps(settings, allow_nan=False), chain.canonical(zero)
    above = None if parent is None else parent.id
    db.execute(
        "INSERT INTO datasets VALUES (NULL, ?, ?, ?, ?, ?, '', ?, 0, 0, ?, ?)",
        (name, above, unit, arithmetic, text, chain.newest(db) + 1, nothing, nothing),
    )
    place = chain.dataset(db, name)
    assert place is not None
    chain.append(
        db, place, chain.CREATED, time=time, after=chain.totals(place), unit=unit,
        arithmetic=arithmetic,
    )  # fmt: skip
    return place


def write_charge(
    db: Connection,
    place: chain.Dataset,
    part: str,
    own_entries: int,
    own: Amounts,
    cost: Amounts,
    **release: str,
) -> chain.Entry:
    """Add one charge to the totals of a data set (and of a partition) and to the chain."""
    common, peak = chain.amounts(place.common), chain.amounts(place.peak)
    common_entries = place.common_entries
    if part:
        own_entries, own = own_entries + 1, add(own, cost)
        peak = highest(peak, own)
    else:
        common_entries, common = common_entries + 1, add(common, cost)
    place = place._replace(
        entries=place.entries + 1,
        common_entries=common_entries,
        common=chain.canonical(common),
        peak=chain.canonical(peak),
    )
    after = chain.totals(place, own_entries, own) if part else chain.totals(place)
    row = chain.append(db, place, chain.CHARGED, cost=cost, after=after, part=part, **release)
    if part:
        db.execute(
            "INSERT INTO partitions VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "last = excluded.last, entries = excluded.entries, amounts = excluded.amounts",
            (place.id, part, row.id, own_entries, chain.canonical(own)),
        )
    db.execute(
        "UPDATE datasets SET last = ?, entries = ?, common_entries = ?, common = ?, peak = ? "
        "WHERE id = ?",
        (row.id, *place[8:12], place.id),
    )
    return row


def _checked(session: connections.Session, path: str, dataset: str) -> chain.Dataset:
    place = chain.dataset(session.db, dataset)
    if place is None:
        raise BudgetError(f"the ledger {path!r} has no data set {dataset!r}.")
    chain.check_dataset(session.db, session.header, place)
    return place


def _own(session: connections.Session, place: chain.Dataset, part: str) -> tuple[int, Amounts]:
    if not part:
        return 0, ()
    return chain.check_partition(session.db, session.header, place, part)


def _standing(place: chain.Dataset, part: str, own_entries: int, own: Amounts) -> Standing:
    common = chain.amounts(place.common)
    if part:
        return Standing(add(common, own), place.common_entries + own_entries == 0)
    return Standing(add(common, chain.amounts(place.peak)), place.entries == 0)


def now() -> str:
    """The time of an entry: ISO 8601, UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _parsed(text: str) -> Head:
    number, _, digest = text.removeprefix("entry ").strip().partition(" ")
    if not number.isdigit() or len(digest.strip()) != 64:
        raise ValueError(
            f"head must be the number of an entry and its digest, as the summary shows them; got "
            f"{text!r}."
        )
    return Head(int(number), digest.strip())
