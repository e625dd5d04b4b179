"""Ids of people who own several rows: which rows belong to whom, so that the person is the unit."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import operator
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from skriemdp._errors import PublicValueError

R = TypeVar("R")

# What ids may say, by the name of the argument.
_WHAT = {
    "groups": "who owns each row",
    "clients": "which client holds each row",
    "users": "whose rating each row is",
    "items": "which item each rating is of",
    "subjects": "which subject each trial is of",
    "catalogue": "which item each column is",
}
_NO_COLUMN = "must hold one id for each row; pass a column of ids, and tuples where one has parts."
_MISSING = (
    "must say {}, but an id or a part of one is missing (None, NaN, NaT, NA, masked) or infinite; "
    "fill it in, the same in all rows that belong together."
)
_KIND = (
    "must say {}, but holds ids of a kind that is not known to compare well; pass numbers, text, "
    "bytes, dates, UUIDs, or tuples or frozensets of these, for instance a public number for each."
)
# Python types of which a list is an array without loss.
_PLAIN: dict[type, Any] = {int: np.int64, float: np.float64, complex: np.complex128, bool: np.bool_}
_NUMBERS = (int, float, complex, Decimal, Fraction, np.longdouble, np.clongdouble)


@dataclass(frozen=True, eq=False)
class Groups:
    """The rows of each group.

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
        """Groups of equal `ids`, in the order of the ids, which are public."""
        return cls._of_places(_read(ids)[1])

    @classmethod
    def _of_places(cls, places: np.ndarray) -> Groups:
        """Groups by their numbers, each of which occurs."""
        sizes = np.bincount(places)
        return cls(np.argsort(places, kind="stable"), np.cumsum(sizes) - sizes)

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
        """Cut the groups into runs of about `most` rows, for :meth:`select`; no group, no run."""
        first = np.flatnonzero(np.diff(self.starts // max(most, 1), prepend=-1))
        for begin, end in itertools.pairwise([*first.tolist(), self.count]):
            yield slice(begin, end)

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


class _UnreadableError(PublicValueError):
    """A fault in ids, described without the name of their argument."""


def read_groups(groups: Any, n_rows: int, name: str = "groups", least: int = 2) -> Groups:
    """Groups of the `n_rows` rows, from one id per row.

    Raises
    ------
    ValueError
        As :func:`read_ids` does, and if there are fewer than `least` groups.
    """
    result = Groups._of_places(read_ids(groups, n_rows, name)[1])
    if result.count < least:
        raise PublicValueError(
            f"{name} must name two groups at least: with one, everything would be replaced at once."
        )
    return result


def check_order(groups: Any, X: Any, name: str = "groups") -> None:
    """Raise where X and ids name their rows alike, but in different orders.

    Ids are taken in the order in which they stand, as scikit-learn takes labels.  After one of two
    columns of pandas was sorted or shuffled, rows would be protected with those of others.
    """
    ids: Any = getattr(groups, "index", None)
    rows: Any = getattr(X, "index", None)
    if not hasattr(ids, "equals") or not hasattr(rows, "equals") or len(ids) != len(rows):
        return
    if not ids.equals(rows) and ids.is_unique and rows.is_unique and rows.isin(ids).all():
        raise PublicValueError(
            f"{name} and X have the same index in different orders, so rows could count as those "
            f"of others: pass {name}.loc[X.index], or {name}.to_numpy() if they stand in order."
        )


def read_ids(ids: Any, n_rows: int | None, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Distinct ids, and the place of each row's id among them.

    All ids of the library are read here.  They are the same if their values are exactly equal,
    whatever their types (``1 == 1.0 == True``, but ``np.float32(0.1)`` is a little more than 0.1,
    whatever NumPy says); nothing is rounded or written as text to compare it.  The order of
    distinct ids is a function of their set alone: numbers, text, bytes, UUIDs, dates, tuples,
    frozensets, each in its own order.  So who owns which rows, and what else stands in the column,
    moves nobody's place.

    Parameters
    ----------
    ids : array-like of shape (n_rows,)
        Numbers, text, bytes, dates, UUIDs, or tuples or frozensets of these, mixed or not; or a
        structured array, whose records are tuples.
    n_rows : int or None
        None for any number.
    name : {"groups", "clients", "users"}
        Of the argument, for messages.

    Returns
    -------
    names : ndarray of shape (k,)
        Distinct ids.
    places : ndarray of int, shape (n_rows,)

    Raises
    ------
    ValueError
        If there is not one id for each row, if an id or a part of one is missing, or if ids are of
        another kind.  The message tells neither ids nor numbers of rows.
    """
    names, places = _named(_read, ids, name)
    if n_rows is not None and len(places) != n_rows:
        raise PublicValueError(f"{name} {_NO_COLUMN}")
    return names, places


def find_ids(ids: Any, catalogue: Any) -> np.ndarray:
    """The place of each of `ids` in the public `catalogue`; -1 where it is not in it.

    One of `ids` that is missing is not in the catalogue, and changes nothing for the others.

    Raises
    ------
    ValueError
        If `ids` are no column, or some are of a kind (numbers, text, bytes, dates, ...) that no
        entry of the catalogue has; if the catalogue has an id twice, or one that is missing or of
        another kind than :func:`read_ids` takes.
    """
    listed, column = _named(_listed, catalogue, "catalogue"), _named(_listed, ids, "items")
    places = _named(
        lambda listed: {_key(one): k for k, one in enumerate(listed)}, listed, "catalogue"
    )
    if len(places) < len(listed):
        raise PublicValueError("catalogue must be a one-dimensional list of distinct items.")
    known = {key[0] for key in places}
    kinds = {
        values.dtype.kind if isinstance(values, np.ndarray) else "O" for values in (listed, column)
    }
    if len(kinds) == 1 and kinds <= set("iuUS") and len(listed):
        order = np.argsort(listed)
        near = np.searchsorted(listed, column, sorter=order)
        near = order[np.minimum(near, len(listed) - 1)]
        return np.where(listed[near] == column, near, -1)
    found = [_place(one, places) for one in column]
    if not {kind for kind, _ in found} <= known | {None}:
        raise PublicValueError(
            "items holds ids of a kind that no entry of the catalogue has, such as text beside "
            "numbers; make both of one kind: items.astype(int), or "
            "catalogue=[str(one) for one in catalogue]."
        )
    return np.array([place for _, place in found], dtype=np.intp)


def _place(one: Any, places: dict[tuple, int]) -> tuple[Any, int]:
    """The kind of an id, None where it is missing, and its place; -1 if it has none."""
    try:
        if one is None or one is np.ma.masked or one != one:
            return None, -1
        key = _key(one)
    except _UnreadableError as error:
        return (None if str(error) == _MISSING else "another kind"), -1
    except Exception:
        return (None if type(one).__name__ == "NAType" else "another kind"), -1
    return key[0], places.get(key, -1)


def _named(read: Callable[[Any], R], ids: Any, name: str) -> R:
    """``read(ids)``, whose errors name the argument and nothing that is in it."""
    try:
        return read(ids)
    except _UnreadableError as error:
        finding = str(error)
    except Exception:
        finding = _KIND
    raise PublicValueError(f"{name} {finding.format(_WHAT[name])}")


def _column(ids: Any) -> np.ndarray | list[Any]:
    """`ids` as an array with a type of its own, or as the list of what they hold.

    NumPy would write 1 beside "a" as text, and round a large integer beside a fraction: one id
    would change others.  So arrays are made of lists of one type only.
    """
    if isinstance(ids, Sequence) and not isinstance(ids, (str, bytes, bytearray)):
        values = list(ids)
    else:
        ids = np.asanyarray(ids)
        if ids.ndim != 1:
            raise _UnreadableError(_NO_COLUMN)
        masked = ids.dtype.names is None and np.ma.is_masked(ids)
        if ids.dtype.kind not in "OT" and not masked:
            return ids
        values = ids.tolist()
    types = set(map(type, values))
    kind = types.pop() if len(types) == 1 else object
    # Text and bytes stay as they are: arrays of them drop zeros at their ends.
    if issubclass(kind, np.generic) and not issubclass(kind, np.character):
        if len({value.dtype for value in values}) == 1:
            return np.array(values, dtype=values[0].dtype)
    elif kind in _PLAIN:
        with contextlib.suppress(OverflowError):
            return np.array(values, dtype=_PLAIN[kind])
    return values


def _listed(ids: Any) -> np.ndarray | list[Any]:
    """List ids as :func:`_column` does, with tuples for records of a structured array."""
    column = _column(ids)
    if isinstance(column, np.ndarray) and column.dtype.names is not None:
        return column.tolist()
    return column


def _read(ids: Any) -> tuple[np.ndarray, np.ndarray]:
    """Read ids of any number of rows, as :func:`read_ids`; errors do not name the argument."""
    ids = _column(ids)
    if isinstance(ids, list):
        return _read_list(ids)
    if ids.dtype.names is not None:
        return _read_parts(ids)
    ids = np.asarray(ids)
    kind = ids.dtype.kind
    if kind not in "biufcmMUS":
        raise _UnreadableError(_KIND)
    if (kind in "fc" and not np.isfinite(ids).all()) or (kind in "mM" and np.isnat(ids).any()):
        raise _UnreadableError(_MISSING)
    names, places = np.unique(ids, return_inverse=True)
    return names + 0.0 if kind in "fc" else names, places  # of the two zeros, one


def _read_parts(records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ids of a structured array: tuples of what its fields hold."""
    codes, fields = np.zeros(len(records), dtype=np.int64), []
    for field in records.dtype.names or ():
        for column in records[field].reshape(len(records), -1).T:
            fields.append(_read(column))
            names, places = fields[-1]
            codes = np.unique(codes * len(names) + places, return_inverse=True)[1]
    first = np.unique(codes, return_index=True)[1]
    parts = [names[places[first]].tolist() for names, places in fields]
    distinct = np.fromiter(zip(*parts, strict=True), dtype=object, count=len(first))
    return distinct, codes


def _read_list(values: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Ids of any types."""
    types = set(map(type, values))
    # Equal ids of two types are kept apart here: whose rows come first must not decide whether 1
    # or True is named.
    each: Any = values if len(types) == 1 else list(zip(map(type, values), values, strict=True))
    try:
        samples = dict(zip(each, values, strict=True))
    except Exception:  # something cannot be hashed, or not be compared with what is equal to it
        each = range(len(values))
        samples = dict(enumerate(values))
    key_of: Callable[[Any], Any] = str.__str__ if types == {str} else _key  # text is its own key
    keys = {one: key_of(value) for one, value in samples.items()}
    found: dict[Any, Any] = {}
    for one in sorted(keys, key=lambda one: type(samples[one]).__name__):
        hash(samples[one])
        found.setdefault(keys[one], samples[one])
    ordered = sorted(found)
    if not all(itertools.starmap(operator.lt, itertools.pairwise(ordered))):
        raise _UnreadableError(_KIND)
    numbers = {key: number for number, key in enumerate(ordered)}
    known = {one: numbers[key] for one, key in keys.items()}
    places = np.fromiter(map(known.__getitem__, each), dtype=np.intp, count=len(values))
    return np.fromiter(map(found.__getitem__, ordered), dtype=object, count=len(ordered)), places


def _key(value: Any) -> tuple:
    """Return the key by which `value` is compared and sorted: built-in types, which have one order.

    Equal ids have equal keys.  A type that is not known here is refused: nobody knows which of its
    values are equal, which are missing, or whether its order is one.
    """
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    if value is None or value is np.ma.masked or type(value).__name__ == "NAType":
        raise _UnreadableError(_MISSING)
    if isinstance(value, _NUMBERS):
        return 0, _exact(value.real), _exact(value.imag)
    if isinstance(value, str):
        return 1, str.__str__(value)
    if isinstance(value, bytes):
        return 2, bytes.__getitem__(value, slice(None))
    if isinstance(value, uuid.UUID):
        return 3, value.int
    if isinstance(value, (datetime.date, np.datetime64)):
        if value != value:
            raise _UnreadableError(_MISSING)
        zone = getattr(value, "tzinfo", None)
        if isinstance(value, datetime.datetime) and zone is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        text = value.isoformat() if isinstance(value, datetime.date) else str(value)
        exact = np.datetime_as_string(np.datetime64(text), unit="as", casting="unsafe")
        return 4, zone is not None, str(exact)
    if isinstance(value, tuple):
        return 5, *map(_key, tuple.__iter__(value))
    if isinstance(value, frozenset):
        return 6, *sorted(map(_key, frozenset.__iter__(value)))
    raise _UnreadableError(_KIND)


def _exact(number: Any) -> int | float | Fraction:
    """A real number as one that Python compares exactly with all others."""
    if isinstance(number, int):
        return int(number)
    try:
        ratio = number.as_integer_ratio()
    except (OverflowError, ValueError):
        raise _UnreadableError(_MISSING) from None
    return float(number) if isinstance(number, float) else Fraction(*ratio)
