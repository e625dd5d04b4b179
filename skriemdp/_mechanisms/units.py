"""Units of privacy: a record is a row, or a person with several rows; and their tiles."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skriemdp._groups import Groups

# Numbers of a tile: few enough for the cache between the processor's passes over it; fewer still
# where rows are short and passes go column by column.
_NUMBERS, _FEW_NUMBERS, _SHORT = 2**17, 2**15, 8
# Rows read together where a sample of the table suffices.
NEIGHBOURS = 1024


@dataclass(frozen=True, eq=False)
class Units:
    """The records of a table, each a row or a person who owns several.

    Parameters
    ----------
    arrays : tuple
        With one entry per row: arrays, memory maps, CSR matrices, or whatever has a shape and can
        be indexed by a slice and by row numbers; its `block_rows`, if it has any, go into a tile.
        Or one re-iterable of such, read anew every time; of tuples where these are to be the tiles.
    groups : Groups, optional
        Whose the rows are.
    chosen : ndarray of int, optional
        The records of a batch, as numbers of rows or of people; all by default.
    """

    arrays: tuple
    groups: Groups | None = None
    chosen: np.ndarray | None = None

    def take(self, indices: np.ndarray) -> Units:
        """A batch: the records of these numbers."""
        return dataclasses.replace(self, chosen=indices)

    def tiles(self, give: Callable[..., Any], width: int, per_person: str) -> Iterator[Any]:
        """Yield the results of `give` on the rows, about 1 MiB at a time.

        Parameters
        ----------
        give : callable
            ``give(*rows)`` of some rows of every array.  What it says of a row depends on that row
            alone, bitwise, whatever rows stand beside it.
        width : int
            Numbers that it gives for a row.
        per_person : {"mean", "factors", "classes"}
            What a person gives: the mean of own rows; a matrix of own rows over the root of their
            number, filled up with zeros, as factor of the mean of outer products; or the mean of
            own rows of every class shown, where `give` says ``(rows, labels)``.

        Yields
        ------
        object
            What `give` said, of rows or of people; with "factors" an array ``(b, m, width)``, with
            "classes" ``(means, labels, counts)``, counts of classes person by person.
        """
        most = max(1, (_FEW_NUMBERS if width <= _SHORT else _NUMBERS) // max(width, 1))
        if self.groups is None:
            for rows in self._rows(most):
                yield give(*rows)
            return
        groups = self.groups.select(self.chosen)
        if per_person == "factors":
            for owners, places, inside in groups.blocks(most):
                given = np.asarray(give(*self._at(places.ravel())))
                shares = np.where(inside, 1.0 / np.sqrt(groups.sizes[owners, None]), 0.0)
                yield given.reshape(*places.shape, -1) * shares[:, :, None]
            return
        for run in groups.runs(most):
            people = groups.select(run)
            given = give(*self._at(people.order))
            if per_person == "classes":
                yield _by_class(people, *given)
            elif isinstance(given, tuple):
                yield tuple(people.means(part) for part in given)
            else:
                yield people.means(given)

    def _at(self, rows: Any) -> tuple:
        return tuple(array[rows] for array in self.arrays)

    def _rows(self, most: int) -> Iterator[tuple]:
        """Rows of every array, at most so many at a time."""
        if self.chosen is not None:
            for begin in range(0, len(self.chosen), most):
                yield self._at(self.chosen[begin : begin + most])
        elif hasattr(self.arrays[0], "shape"):
            most = getattr(self.arrays[0], "block_rows", most)
            for begin in range(0, self.arrays[0].shape[0], most):
                yield self._at(slice(begin, begin + most))
        else:
            for chunk in self.arrays[0]:
                if isinstance(chunk, tuple):
                    yield chunk
                    continue
                whole = chunk.tocsr() if issparse(chunk) else np.asarray(chunk)
                yield from Units((whole,))._rows(most)


@dataclass(frozen=True, eq=False)
class SeenRows:
    """Rows of a table as `give` sees them, of `width` numbers; made anew whenever they are read."""

    table: Any
    give: Callable[[Any], Any]
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self.table.shape[0], self.width

    def __getitem__(self, rows: Any) -> Any:
        return self.give(self.table[rows])


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of rows that are made anew whenever they are read."""

    make: Callable[[], Iterator[Any]]

    def __iter__(self) -> Iterator[Any]:
        return self.make()


def _by_class(
    people: Groups, rows: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of own rows by person and class, person by person; and how many classes each shows."""
    classes = int(labels.max()) + 1
    keys = people.owners() * classes + labels
    pairs = Groups.from_ids(keys)
    shown = keys[pairs.order[pairs.starts]]
    counts = np.bincount(shown // classes, minlength=people.count)
    return pairs.means(rows[pairs.order]), shown % classes, counts


def runs_of_neighbours(count: int, most: int) -> Iterator[slice]:
    """Yield evenly spaced runs of neighbouring rows among `count`, about `most` rows in all.

    They are cheap to read, and no part of a table is left out.
    """
    run = min(NEIGHBOURS, most, count)
    if run > 0:
        for start in np.linspace(0, count - run, most // run).astype(int):
            yield slice(int(start), int(start) + run)
