"""A handle on a ledger file, for whoever charges it; of filters it knows nothing.

Every charge is one ``BEGIN IMMEDIATE`` transaction, synced to disk before it returns, so a charge
that was reported survives a crash and two processes never spend the same remainder.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from skriemdp.ledger import chain, connections, files, reading, witness
from skriemdp.ledger.chain import Amounts, Book, Dataset, Entry, Head
from skriemdp.ledger.connections import explained
from skriemdp.ledger.errors import BudgetError

__all__ = ["Ledger"]

PAGE = 10_000  # entries read in one transaction, so that readers never hold up writers for long


class Ledger:
    """A handle on a ledger file: its path and its key, nothing else.

    Opening never creates: use :meth:`create`.  `key` is a random name written into the file when
    it is made, so that a handle notices when another ledger lies at its path.
    """

    def __init__(self, path: str | Path, key: str = ""):
        self.path, self.key = _real(path), key
        if not key:
            with self.reading() as book:
                self.key = book.header[0]

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

    def reading(self) -> contextlib.AbstractContextManager[Book]:
        """One state of the file, as of one moment."""
        return connections.reading(self.path, self.key)

    def writing(self) -> contextlib.AbstractContextManager[Book]:
        """One durable transaction."""
        return connections.writing(self.path, self.key)

    def open_dataset(self, name: str, asked: tuple[dict, Amounts, str] | None) -> Dataset:
        """A data set; the first call with settings of a filter, its zero and a unit fixes them."""
        with self.reading() as book:
            if asked is None or book.datasets(name):
                return book.place(name)
        with self.writing() as book:
            if not book.datasets(name):
                book.add_dataset(name, *asked)
            return book.place(name)

    def datasets(self) -> list[Dataset]:
        """All data sets and their parts, in the order of their creation."""
        with self.reading() as book:
            return book.datasets()

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
        with self.writing() as book:
            place = book.place(dataset)
            if place.division not in ("", text):
                raise BudgetError(
                    f"data set {dataset!r} of the ledger {self.path!r} was divided in another way "
                    f"before: {place.division}. Repeat that division."
                )
            if place.charges:
                raise BudgetError(
                    f"data set {dataset!r} of the ledger {self.path!r} has charges already; "
                    "divide a data set before its first charge."
                )
            if not place.division:
                for part in parts:
                    if book.datasets(part[0]):
                        raise BudgetError(
                            f"the ledger {self.path!r} has a data set {part[0]!r}, which is what a "
                            "part would be called; divide a data set of another name."
                        )
                    book.add_dataset(*part, place.made.unit, dataset)
                book.append(place, chain.SPLIT, note=text)
        return [name for name, *_ in parts]

    def entries(self, dataset: str, part: str = "", *, after: int = 0) -> Iterator[Entry]:
        """The charges with a number above `after`, in the order of charging.

        Of a partition: its own and the common ones.  Read in short transactions, so that a long
        list neither fills the memory nor keeps others from charging.
        """
        while True:
            with self.reading() as book:
                page = list(book.rows(after + 1, PAGE, book.place(dataset), part))
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].id

    def check_witness(self, path: str | Path) -> None:
        """BudgetError unless the ledger was made with this witness file."""
        with self.reading() as book:
            stored = book.header[2]
        if _real(path) != stored:
            made = f"the witness file {stored!r}" if stored else "no witness file"
            raise BudgetError(
                f"the ledger {self.path!r} was made with {made}, and that is fixed. Leave witness= "
                "out, or repeat it."
            )

    def verify(self, head: str | None = None) -> None:
        """Add up the whole file again; `head` is an entry that it must hold."""
        noted = None if head is None else Head.noted(head)
        with self.reading() as book:
            connections.check_whole(book)
            book.check_held(noted)
        if problems := reading.read(self.path).problems:
            raise BudgetError(
                f"the ledger {self.path!r}: {problems[0]}. It was changed, or a part of it was "
                "lost. Restore the newest good copy."
            )


def _real(path: str | Path) -> str:
    path = os.fsdecode(path)
    with explained(path):
        return os.path.realpath(path)
