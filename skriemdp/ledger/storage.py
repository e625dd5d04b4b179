"""A durable list of charges in one SQLite file; of filters it knows only how to add integers.

Every charge is one ``BEGIN IMMEDIATE`` transaction, synced to disk before it returns, so a charge
that was reported survives a crash and two processes never spend the same remainder.  Amounts are
tuples of integers in the unit of :mod:`skriemdp.ledger.filters`; None stands for "unbounded".
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from skriemdp.ledger import chain, connections, files, reading, witness
from skriemdp.ledger.chain import Dataset, Entry, Head, add, highest
from skriemdp.ledger.connections import Session, explained
from skriemdp.ledger.errors import BudgetError

__all__ = ["Amounts", "Ledger", "Standing", "add", "highest"]

Amounts = tuple  # of int | None

PAGE = 10_000  # entries read in one transaction, so that readers never hold up writers for long


class Standing(NamedTuple):
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

    total: Amounts
    untouched: bool


class Ledger:
    """A handle on a ledger file: its path and its key, nothing else.

    Opening never creates: use :meth:`create`.  `key` is a random name written into the file when
    it is made, so that a handle notices when another ledger lies at its path.
    """

    def __init__(self, path: str | Path, key: str | None = None):
        self.path = _real(path)
        self.key = key
        if key is None:
            with self._reading() as session:
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
                connections.initialise(draft, key, chain.now(), seen_by)
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

    def _reading(self) -> contextlib.AbstractContextManager[Session]:
        return connections.reading(self.path, self.key)

    def _writing(self) -> contextlib.AbstractContextManager[Session]:
        return connections.writing(self.path, self.key)

    # -- data sets --

    def open_dataset(
        self, name: str, settings: dict | None, zero: Amounts = (), *, unit: str = "record"
    ) -> Dataset:
        """The row of a data set; the first call with `settings` of a filter fixes it for good."""
        with self._reading() as session:
            found = chain.dataset(session.db, name)
        if found is None and settings is not None:
            with self._writing() as session:
                found = chain.dataset(session.db, name) or chain.create(
                    session.db, name, None, unit, settings, zero
                )
        if found is None:
            raise BudgetError(f"the ledger {self.path!r} has no data set {name!r}.")
        return found

    def datasets(self) -> list[Dataset]:
        """The rows of all data sets and their parts, in the order of their creation."""
        with self._reading() as session:
            return chain.datasets(session.db)

    def row(self, dataset: str) -> Dataset:
        """What the ledger stores of one data set: its rule, its division, its totals."""
        with self._reading() as session:
            return session.place(dataset)

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
            over the unit.

        Returns
        -------
        names : list of str
        """
        text = chain.canonical(division)
        with self._writing() as session:
            db, place = session.db, session.place(dataset)
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
                    chain.create(db, name, place, place.unit, settings, zero)
                chain.append(db, place, chain.SPLIT, note=text)
            return [row.name for row in chain.datasets(db) if row.parent == dataset]

    # -- charges --

    def standing(self, dataset: str, part: str = "") -> Standing:
        """Totals that a charge to `part` of `dataset` (``""``: all of it) would be added to."""
        with self._reading() as session:
            return self._before(session, dataset, part)[0]

    def _before(
        self, session: Session, dataset: str, part: str
    ) -> tuple[Standing, Dataset, tuple[int, Amounts]]:
        place = session.place(dataset)
        if place.division:
            raise BudgetError(
                f"data set {dataset!r} of the ledger {self.path!r} was divided into parts; charge "
                "one of them (its `parts`)."
            )
        own, common = session.own(place, part), chain.amounts(place.common)
        if part:
            standing = Standing(add(common, own[1]), place.common_entries + own[0] == 0)
        else:
            standing = Standing(add(common, chain.amounts(place.peak)), place.entries == 0)
        return standing, place, own

    def charge(
        self,
        dataset: str,
        part: str,
        cost: Amounts,
        admits: Callable[[Standing], bool],
        **release: str,
    ) -> tuple[Entry | None, Standing]:
        """Write one charge if `admits` agrees, else nothing.

        `admits` runs inside the write transaction: no other process can spend in between.

        Parameters
        ----------
        dataset, part : str
        cost : Amounts
        admits : callable
        **release
            Event, label, note and unit, as :func:`skriemdp.ledger.chain.append` takes them.

        Returns
        -------
        row : Entry or None
            None when refused.
        standing : Standing
            Totals before the charge.
        """
        with self._writing() as session:
            before, place, own = self._before(session, dataset, part)
            if not admits(before):
                return None, before
            row = chain.append(
                session.db, place, chain.CHARGED, cost=cost, part=part, own=own, **release
            )
        return row, before

    # -- looking --

    def entries(self, dataset: str, part: str | None = None, *, after: int = 0) -> Iterator[Entry]:
        """The charges with a number above `after`, in the order of charging.

        Of a partition: its own and the common ones.  Read in short transactions, so that a long
        list neither fills the memory nor keeps others from charging.
        """
        while True:
            with self._reading() as session:
                page = chain.rows(session.db, after + 1, PAGE, session.place(dataset), part)
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].id

    def entry_at(self, dataset: str, part: str | None, place: int) -> Entry | None:
        """The charge at a place of the list, counted from 0."""
        with self._reading() as session:
            found = chain.rows(session.db, 1, 1, session.place(dataset), part, place)
            return found[0] if found else None

    def tallies(self, dataset: str) -> list[tuple]:
        """Rows (part, label, event JSON, count): the charges, grouped."""
        with self._reading() as session:
            return chain.tallies(session.db, session.place(dataset))

    def count(self, dataset: str, part: str | None = None) -> int:
        """Number of charges of the data set; of a partition: its own and the common ones."""
        with self._reading() as session:
            place = session.place(dataset)
            if part is None:
                return place.entries
            return place.common_entries + session.own(place, part)[0]

    def check_witness(self, path: str | Path) -> None:
        """BudgetError unless the ledger was made with this witness file."""
        with self._reading() as session:
            stored = session.header[2]
        if _real(path) != stored:
            made = f"the witness file {stored!r}" if stored else "no witness file"
            raise BudgetError(
                f"the ledger {self.path!r} was made with {made}, and that is fixed. Leave witness= "
                "out, or repeat it."
            )

    def verify(self, head: str | None = None) -> None:
        """Add up the whole file again; `head` is an entry that it must hold."""
        noted = None if head is None else Head.noted(head)
        with self._reading() as session:
            session.check_whole()
            session.check_held(noted)
        problems = reading.read(self.path).problems
        if problems:
            raise BudgetError(
                f"the ledger {self.path!r}: {problems[0]}. It was changed, or a part of it was "
                "lost. Restore the newest good copy."
            )

    def head(self) -> Head | None:
        """Number and digest of the last entry: the state of the whole file in one line."""
        with self._reading() as session:
            return chain.last(session.db)


def _real(path: str | Path) -> str:
    path = os.fsdecode(path)
    with explained(path):
        return os.path.realpath(path)
