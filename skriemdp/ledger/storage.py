"""A ledger file: a handle for whoever charges it, and a reader from end to end that writes nothing.

Every charge is one ``BEGIN IMMEDIATE`` transaction, synced to disk before it returns, so a charge
that was reported survives a crash and two processes never spend the same remainder.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from skriemdp.ledger import chain, connections, files, witness
from skriemdp.ledger.chain import Amounts, Book, Dataset, Entry, Head
from skriemdp.ledger.connections import explained
from skriemdp.ledger.errors import BudgetError
from skriemdp.ledger.statements import plain_facts
from skriemdp.ledger.units import PRESENT, RELEASED

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
        key = secrets.token_hex(16)
        path = os.path.join(_real(connections.private_folder()), f"{key}.ledger")
        files.refuse_network(path)
        with explained(path):
            connections.initialise(path, key, chain.now(), "")
        return cls(path, key)

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
        if problems := read(self.path).problems:
            raise BudgetError(
                f"the ledger {self.path!r}: {problems[0]}. It was changed, or a part of it was "
                "lost. Restore the newest good copy."
            )


def _real(path: str | Path) -> str:
    path = os.fsdecode(path)
    with explained(path):
        return os.path.realpath(path)


# -- reading without writing -----------------------------------------------------------------------


class File(NamedTuple):
    """What a file turned out to be.

    Attributes
    ----------
    created : str
        When it was made.
    datasets : list of Dataset
        In the order of their creation, parts included.
    head : Head or None
        The last entry.
    problems : list of str
        Sentences on what does not add up; empty for an intact file.
    """

    created: str
    datasets: list[Dataset]
    head: Head | None
    problems: list[str]


def read(
    path: str,
    take: Callable[[Entry, Dataset], None] = lambda row, place: None,
    noted: Head | None = None,
    witness_path: str = "",
) -> File:
    """Read all entries, in short transactions, adding them up again.

    Parameters
    ----------
    path : str or path-like
    take : callable
        Gets every entry with its data set, in order, also after a problem was found.
    noted : Head, optional
        An entry that the file must hold; number 0 stands for any.
    witness_path : str
        A witness file of this ledger, or a copy, whose newest entry the file must hold.

    Returns
    -------
    File

    Raises
    ------
    BudgetError
        The file is missing, no ledger, of another format, or damaged so that it cannot be read.
    """
    path = _real(path)
    problems: list[str] = []
    again: chain.Replay | None = None
    header, number = None, 1
    while True:
        with connections.looking(path) as book:
            if header is None:
                connections.check_pages(book.db, path)
                header, again = book.header, chain.Replay(book)
                _note(problems, book.check_schema)
            elif header != book.header:
                raise BudgetError(f"{path!r} was replaced while it was read; try again.")
            places = {place.id: place for place in book.datasets()}
            found = list(book.rows(number, PAGE))
            for row in found:
                if again is not None and not _note(problems, again.take, row):
                    again = None
                if row.dataset in places:
                    take(row, places[row.dataset])
                number = row.id + 1
            if len(found) < PAGE:
                if again is not None:
                    _note(problems, again.finish, book)
                if witness_path:
                    _note(problems, connections.check_witness, book, witness_path)
                _note(problems, book.check_held, noted)
                head = book.head
                break
    return File(header[1], list(places.values()), head, problems)


def matches(path: str, statement: Mapping[str, Any]) -> list[str]:
    """Whether a model is the one that a ledger charged: what speaks against it; nothing if it is.

    Parameters
    ----------
    path : str or path-like
        The ledger.  Whether its chain holds is what :func:`read` says.
    statement : dict
        ``model.privacy_spent_.to_dict()``, also after JSON; or its ``"entry"`` alone, whose digest
        covers the rest.

    Returns
    -------
    list of str
        Sentences; empty where entry, digest, data set, event, unit and public facts are equal.

    Raises
    ------
    BudgetError
        The ledger cannot be read.
    ValueError
        The statement is none, or names no entry.
    """
    try:
        named = statement["entry"]
        number, digest, dataset = (None, "", "") if named is None else named
        stated = {"data set": dataset}
        if len(statement) > 1:
            event, unit, public = statement["event"], statement["unit"], statement["public"]
            event = json.loads(json.dumps(event))
            if unit == PRESENT:  # some were released after the charge
                public = {name: value for name, value in public.items() if name not in RELEASED}
            stated |= {"event": event, "unit": unit, "public facts": plain_facts(public)}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError(
            "this is not the statement of a fit; write one with json.dump("
            "model.privacy_spent_.to_dict(), file)."
        ) from None
    if not isinstance(number, int):
        raise ValueError("the statement names no entry: its fit was charged to no ledger.")
    with connections.looking(_real(path)) as book:
        row = next(book.rows(number, 1), None)
        places = {place.id: place.name for place in book.datasets()}
    if row is None or row.id != number:
        return [f"the ledger has no entry {number}"]
    if row.digest != digest:
        return [f"entry {number} of the ledger is another charge: its digest is {row.digest}"]
    charged = {
        "data set": places.get(row.dataset),
        "event": json.loads(row.event or "null"),
        "unit": row.unit,
        "public facts": row.noted["facts"],
    }
    return [
        f"the {what} of entry {number} is not that of the model"
        for what, value in stated.items()
        if charged[what] != value
    ]


def _note(problems: list[str], check: Callable[..., object], *values: object) -> bool:
    """Whether a check passes; what it says otherwise joins the problems."""
    try:
        check(*values)
    except (chain.Broken, BudgetError) as error:
        strange = isinstance(error, chain.Broken)
        problems.append(f"the file does not add up: {error}" if strange else str(error))
        return False
    return True
