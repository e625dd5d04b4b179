"""Clients of a simulated federation: the records that each holds, and the people who own them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._errors import PublicValueError
from skriemdp._groups import Groups, read_ids
from skriemdp._validation import check_count, shown


@dataclass(frozen=True, eq=False)
class Clients:
    """Disjoint parts of a table, one for each client.

    Parameters
    ----------
    names : list
        Public ids.
    rows : list of ndarray
        Row numbers of each client.
    people : list of Groups or None
        Which of these rows belong to the same person; None where each row is a record.
    most : int
        Most clients that hold rows of one person; public, like the ids.
    """

    names: list
    rows: list[np.ndarray]
    people: list[Groups] | None
    most: int

    @property
    def sizes(self) -> dict:
        """Client to the public number of its records, or people."""
        parts: Any = self.rows if self.people is None else self.people
        counts = [part.count if isinstance(part, Groups) else len(part) for part in parts]
        return dict(zip(self.names, counts, strict=True))

    def part(self, place: int, arrays: tuple) -> tuple[tuple, Groups | None]:
        """The rows of `arrays` that one client holds, and their people."""
        people = None if self.people is None else self.people[place]
        return tuple(None if a is None else a[self.rows[place]] for a in arrays), people

    def together(self, arrays: tuple) -> tuple[tuple, Groups | None]:
        """All rows, client after client; a person of two clients counts as two."""
        everyone = np.concatenate(self.rows)
        rows = tuple(None if a is None else a[everyone] for a in arrays)
        if self.people is None:
            return rows, None
        begins = np.cumsum([0] + [len(part) for part in self.rows[:-1]])
        shifted = list(zip(begins, self.people, strict=True))
        order = np.concatenate([begin + part.order for begin, part in shifted])
        return rows, Groups(order, np.concatenate([begin + part.starts for begin, part in shifted]))


def read_clients(clients: Any, n: int, people: Groups | None = None) -> Clients:
    """Parts of a table of n rows, from one client id per row; with `people`, from theirs too.

    Raises
    ------
    ValueError
        As :func:`skriemdp._groups.read_ids` does, or if a client holds fewer than two records or
        people.
    """
    if clients is None:
        raise PublicValueError(
            "clients is required: the public client id of every record, fit(X, y, clients=ids). "
            "(groups names people who own several records, inside clients.)"
        )
    ids, index = read_ids(clients, n, "clients")
    names = ids.tolist()
    order = np.argsort(index, kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(index))[:-1])
    parts, most = None, 1
    if people is not None:
        owner = np.empty(n, dtype=np.intp)
        owner[people.order] = people.owners()
        parts = [Groups.from_ids(owner[own]) for own in rows]
        pairs = np.unique(owner * len(names) + index)
        most = int(np.bincount(pairs // len(names)).max())
    found = Clients(names, rows, parts, most)
    if min(found.sizes.values()) < 2:
        unit = "records, but one has 1 sample" if people is None else "people (groups)"
        raise PublicValueError(f"every client needs at least 2 {unit}.")
    return found


def clients_of_a_person(stated: int | None, found: int, n_clients: int) -> int:
    """Number of clients that a person may be in: as `stated`, or as the public ids show.

    Raises
    ------
    ValueError
        If the ids show more than was stated, or there are fewer clients.
    """
    if stated is None:
        return found
    check_count(clients_per_person=stated)
    if stated > n_clients:
        raise PublicValueError(
            f"clients_per_person={shown(stated)}, but there are {n_clients} clients; pass "
            f"clients_per_person={n_clients} or less."
        )
    if found > stated:
        raise PublicValueError(
            f"clients_per_person={stated}, but groups and clients show a person in {found} "
            f"clients; pass clients_per_person={found}."
        )
    return int(stated)
