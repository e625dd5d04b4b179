"""Records in the memory of this process: the only code of a curator that reads a row."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from skriemdp._descent.iterated_mean import iterate_mean
from skriemdp._descent.problem import FrechetProblem
from skriemdp._errors import PublicValueError
from skriemdp._gives.base import Give, whole
from skriemdp._gives.points import Length, LogAt, separately
from skriemdp._groups import Groups
from skriemdp._mechanisms.bounded_sets import BoundedSet, Outer
from skriemdp._mechanisms.quantile import counts_on
from skriemdp._mechanisms.sum import integer_total
from skriemdp._mechanisms.units import SeenRows, Units, runs_of_neighbours
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.geometry._tiles import map_tiles, tiles

# Answers for all rows are kept up to this size: those that are made of them take one pass.
KEPT_BYTES = 2**26


class Memory:
    """Rows in this process, or people who own several.

    Parameters
    ----------
    *arrays : array or CSR matrix
        With one entry for each row.
    groups : Groups, optional
        Whose the rows are.
    planned : int, optional
        How many records there are, for whatever changes bits: their number, or the released one.
    """

    def __init__(self, *arrays: Any, groups: Groups | None = None, planned: int | None = None):
        self.arrays, self.groups = tuple(map(_read_only, arrays)), groups
        self.n = arrays[0].shape[0] if groups is None else groups.count
        self.planned = self.n if planned is None else planned
        # Of each kind of give the last answers, and what they were asked for.
        self._answers: dict[type, tuple[Any, np.ndarray]] = {}
        self._rounded: tuple[Any, Any] = (None, None)

    # -- what a curator asks --------------------------------------------------------------------

    def total(
        self, give: Give, bounded_set: BoundedSet, steps: int, chosen: np.ndarray | None = None
    ) -> Any:
        """The exact sum of the integers that records give, each held in its set."""
        if isinstance(bounded_set, Outer) and give.inner is not None and self.groups is None:
            units, call = self._in_a_run(give, bounded_set, steps)
        else:
            units, call = self.requested(give)
        units = units if chosen is None else units.take(chosen)
        return integer_total(units, whole(give, call), bounded_set, steps)

    def places(self, give: Give, grid: np.ndarray) -> np.ndarray:
        """Count records by number: up to the first grid value, in each interval, and beyond."""
        return counts_on(grid, self.numbers(give))

    def count_above(self, give: Give, bound: float) -> int:
        """Count the records whose number is not at most `bound`."""
        return int(sum(np.count_nonzero(~(part <= bound)) for part in self.numbers(give)))

    def iterated(self, ball: GeodesicBall, step_sizes: tuple[float, ...]) -> np.ndarray:
        """The exact mean of the records' projections on `ball`, by so many steps."""
        return iterate_mean(self.inside(ball)[0], step_sizes)

    def pairs(self, most: int) -> Memory:
        """Disjoint pairs of rows, by position, as records; about `most` of them."""
        if self.groups is not None:
            raise PublicValueError("pairs are of rows; people who own several have none.")
        half = self.n // 2
        first = np.concatenate([np.arange(half)[run] for run in runs_of_neighbours(half, most)])
        return Memory(*(a[first] for a in self.arrays), *(a[half + first] for a in self.arrays))

    def part(self, chosen: np.ndarray) -> Memory:
        """Some of the records alone."""
        if self.groups is None:
            return Memory(*(a[chosen] for a in self.arrays))
        groups = self.groups.select(chosen)
        own = Groups(np.arange(len(groups.order)), groups.starts)
        return Memory(*(a[groups.order] for a in self.arrays), groups=own)

    # -- answers --------------------------------------------------------------------------------

    def requested(self, give: Give) -> tuple[Units, Any]:
        """The records, and what says of their rows what `give` does; from kept answers if any."""
        known = self.known(give)
        if known is not None:
            return Units((known,)), lambda rows: rows
        inner = self._inner(give)
        if inner is not None:
            return Units((inner, *self.arrays[1:])), give.after
        beside = self._beside(give)
        if beside is None:
            return Units(self.arrays, self.groups), give.of

        def of(known: np.ndarray, *rows: Any) -> Any:
            return give.of(*rows, beside=known)

        return Units((beside, *self.arrays), self.groups), of

    def known(self, give: Give) -> np.ndarray | None:
        """All answers of `give`, where they are kept."""
        people = self.groups is not None
        kept = give.of_people if people else give.kept
        if not kept:
            return None
        if not (people or give.always or 8 * self.planned * give.width <= KEPT_BYTES):
            return None
        last = self._answers.get(type(give))
        if last is None or last[0] != give.key():
            last = give.key(), self._computed(give)
            self._answers[type(give)] = last
        return _view(last[1])

    def numbers(self, give: Give) -> Iterator[np.ndarray]:
        """One number of each record, block by block."""
        known = self.known(give)
        if known is not None:
            yield known
            return
        units, call = self.requested(give)
        with np.errstate(all="ignore"):
            for tile in units.tiles(whole(give, call), max(give.width, 1), "mean"):
                yield np.asarray(tile, dtype=float)

    def _computed(self, give: Give) -> np.ndarray:
        inner, beside = self._inner(give), self._beside(give)
        with np.errstate(all="ignore"):
            if inner is not None:
                call, known = whole(give, give.after), (inner,)
            elif self.groups is not None:
                units = Units(self.arrays, self.groups)
                return np.concatenate(list(units.tiles(whole(give, give.of), give.width, "mean")))
            elif beside is not None:
                call = whole(give, lambda known, *rows: give.of(*rows, beside=known))
                known = (beside, *self.arrays)
            else:
                call, known = whole(give, give.of), self.arrays
            return self._filled(give, call, known)

    def _filled(self, give: Give, call: Any, known: tuple) -> np.ndarray:
        order: Any = "F" if getattr(give, "by_column", False) else "C"
        answers, begin = np.empty((self.n, *give.shape), order=order), 0
        for block in tiles(known[0]):
            piece = slice(begin, begin + len(block))
            answers[piece] = call(*(part[piece] for part in known))
            begin = piece.stop
        return answers

    def _inner(self, give: Give) -> np.ndarray | None:
        if give.inner is None or (self.groups is not None and not give.of_people):
            return None
        return self.known(give.inner)

    def _beside(self, give: Give) -> np.ndarray | None:
        if give.beside is None or self.groups is not None:
            return None
        return self.known(give.beside)

    def _in_a_run(self, give: Give, bounded_set: Outer, steps: int) -> tuple[Units, Any]:
        """Left factors that are rounded once for all steps."""
        key = give.inner.key(), bounded_set.left, bounded_set.right, steps
        if self._rounded[0] != key:
            inner = give.inner
            seen = SeenRows(self.arrays[0], whole(inner, inner.of), inner.width)
            self._rounded = key, bounded_set.rounded(seen, steps, by_column=True)
        over = bounded_set.resolution(steps)
        after = functools.partial(give.after, resolution=over)  # type: ignore[call-arg]
        return Units((self._rounded[1], *self.arrays[1:])), after

    def inside(self, ball: GeodesicBall) -> tuple[FrechetProblem, int]:
        """The problem of the records' projections on `ball`, and how many lie outside.

        Of people: each is the point where the centre sees them, clipped to the radius.
        """
        geometry, seen = ball.geometry, LogAt(ball.geometry, ball.center)
        (points,) = self.arrays
        if self.groups is None:
            known: tuple = ()
            if geometry.separate_rows:
                rows, (lengths,) = self._taken(seen), tuple(self.numbers(Length(seen)))
                squares = self._beside(Length(seen))
                known = rows, lengths, squares
            return FrechetProblem.from_records(ball, points, *known)
        vectors = self._taken(seen)
        exp = separately(geometry, functools.partial(geometry.exp_coordinates, ball.center))
        with np.errstate(all="ignore"):  # long ones are shortened before they count
            people = np.asarray(map_tiles(exp, vectors))
        return FrechetProblem.from_records(ball, people, vectors)

    def _taken(self, seen: LogAt) -> Any:
        """All logarithms, if they are kept, to be changed: they are not kept any longer."""
        if self.known(seen) is None:
            return None
        self.known(Length(seen))
        return self._answers.pop(LogAt)[1]


def _view(array: np.ndarray) -> np.ndarray:
    """The same memory, which no give can change, nor make writable again."""
    if array.dtype.kind in "fiub" and type(array) is np.ndarray:
        return np.asarray(memoryview(array).toreadonly())  # type: ignore[arg-type]
    view = array.view()
    view.flags.writeable = False
    return view


def _read_only(array: Any) -> Any:
    """The same numbers, which no give can change."""
    if isinstance(array, np.ndarray):
        return _view(array)
    if issparse(array) and array.format == "csr":
        parts: Iterable = (_view(a) for a in (array.data, array.indices, array.indptr))
        return csr_matrix(tuple(parts), array.shape)
    return array
