"""Reading a ledger file from end to end without writing to it, and adding it up on the way."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from skriemdp.ledger import chain, connections
from skriemdp.ledger.chain import Dataset, Entry, Head
from skriemdp.ledger.errors import BudgetError
from skriemdp.ledger.facts import plain_facts
from skriemdp.ledger.units import PRESENT, RELEASED

__all__ = ["File", "matches", "read"]

PAGE = 10_000  # entries of one transaction, so that nobody who charges has to wait for long


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
    path = os.path.realpath(os.fsdecode(path))
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
    with connections.looking(os.path.realpath(os.fsdecode(path))) as book:
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
