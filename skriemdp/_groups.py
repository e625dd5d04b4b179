"""Which rows of a table belong to whom, where people own several: the group is the unit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["Groups", "read_groups"]


@dataclasses.dataclass(frozen=True, eq=False)
class Groups:
    """Which rows belong to which group.

    Parameters
    ----------
    order : ndarray of shape (n_rows,)
        Row numbers, group by group; within a group as they were given.
    starts : ndarray of shape (n_groups,)
        Where each group begins in `order`; no group is empty.
    """

    order: np.ndarray
    starts: np.ndarray

    @classmethod
    def from_ids(cls, ids: np.ndarray) -> Groups:
        """Groups of equal `ids`, in the order of the sorted ids, which are public."""
        _, places = np.unique(ids, return_inverse=True)
        order = np.argsort(places, kind="stable")
        _, starts = np.unique(places[order], return_index=True)
        return cls(order, starts)

    @property
    def count(self) -> int:
        """Number of groups, public."""
        return len(self.starts)

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each group; private."""
        return np.diff(self.starts, append=len(self.order))

    def rows(self) -> list[np.ndarray]:
        """Row numbers of each group."""
        return np.split(self.order, self.starts[1:])

    def owners(self) -> np.ndarray:
        """The group of each row of `order`."""
        return np.repeat(np.arange(self.count), self.sizes)

    def select(self, chosen: slice | np.ndarray | None) -> Groups:
        """The groups `chosen` alone, as groups of rows of the same table; None for all."""
        if chosen is None:
            return self
        starts, sizes = self.starts[chosen], self.sizes[chosen]
        begins = np.cumsum(sizes) - sizes
        places = np.arange(int(sizes.sum())) + np.repeat(starts - begins, sizes)
        return Groups(self.order[places], begins)

    def runs(self, most: int) -> Iterator[slice]:
        """Cut the groups into runs of about `most` rows, for :meth:`select`."""
        first = np.flatnonzero(np.diff(self.starts // max(most, 1), prepend=-1))
        for begin, end in zip(first, np.append(first[1:], self.count), strict=True):
            yield slice(int(begin), int(end))

    def blocks(self, most: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Groups of about one size together, for arrays with one slot for each group.

        Sizes are filled up to powers of two, so that a group's slot depends on its own size only
        and there are few lengths.

        Parameters
        ----------
        most : int
            Rows at a time, but for a single group that has more.

        Yields
        ------
        chosen : ndarray of shape (b,)
            Numbers of groups.
        rows : ndarray of shape (b, size)
            Numbers of their rows; some repeat where a group has fewer.
        inside : ndarray of bool, shape (b, size)
            Which of `rows` count.
        """
        sizes = self.sizes
        filled = np.left_shift(1, np.frexp(sizes - 1.0)[1].astype(np.intp))
        for size in np.unique(filled):
            members, places = np.flatnonzero(filled == size), np.arange(size)
            step = max(1, most // int(size))
            for begin in range(0, len(members), step):
                chosen = members[begin : begin + step]
                own = sizes[chosen, None]
                rows = self.order[self.starts[chosen, None] + np.minimum(places, own - 1)]
                yield chosen, rows, places < own

    def sums(self, rows: np.ndarray) -> np.ndarray:
        """Sum of each group's own `rows`, which are given in the order of `order`."""
        return np.add.reduceat(rows, self.starts, axis=0)

    def means(self, rows: np.ndarray) -> np.ndarray:
        """Mean of each group's own `rows`, which are given in the order of `order`.

        A row that is not finite counts as zero.
        """
        rows = np.asarray(rows, dtype=float)
        axes = tuple(range(1, rows.ndim))
        finite = np.isfinite(rows).all(axis=axes)
        if not finite.all():
            rows = np.where(finite.reshape(-1, *(1 for _ in axes)), rows, 0.0)
        # Divided first, so that a sum of finite rows cannot overflow.
        sizes = self.sizes
        shares = np.repeat(1.0 / sizes, sizes).reshape(-1, *(1 for _ in axes))
        return self.sums(rows * shares)


def read_groups(groups: Any, n_rows: int, least: int = 2) -> Groups:
    """Groups of the `n_rows` rows, from one id per row.

    Raises
    ------
    ValueError
        If there is not one id for each row, if an id is missing, or if there is one group only.
        The message tells neither ids nor numbers of rows.
    """

    def places(ids: Any) -> np.ndarray:
        ids = np.asarray(ids)
        if ids.dtype.kind == "f" and not np.isfinite(ids).all():
            raise ValueError("missing")
        if ids.dtype.kind == "O" and any(key is None or key != key for key in ids.ravel()):
            raise ValueError("missing")
        return np.unique(ids.ravel(), return_inverse=True)[1]

    try:
        shape = np.shape(groups)
        found = places(groups) if shape == (n_rows,) else None
    except Exception:
        shape, found = (n_rows,), None
    if shape != (n_rows,):
        raise ValueError("groups must hold one id for each row of X; pass a column of ids.")
    if found is None:
        raise ValueError(
            "groups must be ids that can be sorted, none of them missing; number them, for "
            "instance with pandas.factorize."
        )
    result = Groups.from_ids(found)
    if result.count < least:
        raise ValueError(
            "groups must name two groups at least: with one, everything would be replaced at once."
        )
    return result
