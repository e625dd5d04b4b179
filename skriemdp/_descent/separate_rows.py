"""Whether a function of many records treats each on its own, tried on made-up records.

A gradient is clipped record by record.  That bounds nothing if row i of a batch of gradients
depends on the other records: ``X - X.mean(0)`` moves every row when one record changes.  So do the
steps of a pipeline before a private one (:mod:`skriemdp._descent.steps`).  The records that the
function is tried on are public random numbers, so the outcome tells nothing about anybody's.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._random import public_generator
from skriemdp._warnings import warn_user
from skriemdp.geometry._base import Geometry

# Enough rows for matrix products to be blocked as those of real batches are.
_ROWS = 1024
_SCALES = (1e-3, 1.0, 1e3)
_WORDS = np.array(["age", "and", "blood", "days", "left", "no", "of", "pain", "since", "the"])


@dataclass(frozen=True)
class RowCheck:
    """Result of a function of a batch on made-up records.

    `separate` and `identical` are what was seen on a few thousand made-up records, not proofs.

    Attributes
    ----------
    tried : bool
        Whether the function gave a finite number for any made-up batch; if not, nothing is known.
    separate : bool
        Whether no row changed, up to rounding, when other records were replaced, left out or moved.
    identical : bool
        Whether no bit of a row did.
    repeats : bool
        Whether the same batch gave the same rows twice.
    error : str
        Name of the exception with which the function refused a made-up batch; empty if none.
    counts : bool
        Whether it gave one row for each record.
    learns : str
        What a step of a pipeline learns, or learned before; empty if nothing was seen.
    in_place : bool
        Whether no bit of a row changed where others were replaced, and all stayed at their places.
    together : int
        How many rows have to be asked for at a time where bits depend on the place.
    """

    tried: bool
    separate: bool
    identical: bool
    repeats: bool = True
    error: str = ""
    counts: bool = True
    learns: str = ""
    in_place: bool = False
    together: int = 1

    @property
    def refusal(self) -> str:
        """Verb for what the function did with the made-up batches if it was not tried."""
        return f"raised {self.error}" if self.error else "gave no finite number"

    @property
    def fine(self) -> bool:
        """Whether the function was tried, and nothing spoke against it."""
        return self.tried and self.separate and self.repeats and not self.learns


class _NoNumber(PublicValueError):
    """Raised when a result holds no finite number: nobody can see what it depends on."""


class _OtherCount(PublicValueError):
    """Raised when a result does not have one row per record."""


def made_up_points(
    geometry: Geometry, n: int, scale: float, rng: np.random.Generator
) -> np.ndarray:
    """Public points of a manifold, at about this distance from its base point."""
    coordinates = rng.standard_normal((n, geometry.dim)) * scale
    if geometry.curvature_bounds != (0.0, 0.0) or geometry.point_ndim == 2:
        lengths = np.linalg.norm(coordinates, axis=1, keepdims=True)
        # Points farther out show nothing but the end of floats.
        coordinates *= np.minimum(1.0, 3.0 / np.maximum(lengths, 1e-300))
    return np.asarray(geometry.exp_coordinates(geometry.base_point, coordinates))


def made_up_records(
    geometry: Geometry | None,
    x_shape: tuple[int, ...],
    y_shape: tuple[int, ...] | None,
    scale: float,
    rng: np.random.Generator,
    n: int = _ROWS,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Public records ``(X, y)``: points where the shape is that of a point, else numbers.

    Labels are zeros and ones, or points where they have a point's shape; None for ``y_shape=None``.
    """

    def array(shape: tuple[int, ...], numbers: Callable[..., Any]) -> np.ndarray:
        if geometry is not None and tuple(shape) == geometry.shape:
            return made_up_points(geometry, n, scale, rng)
        return numbers((n, *shape))

    X = array(x_shape, lambda shape: scale * rng.standard_normal(shape))
    if y_shape is None:
        return X, None
    return X, array(y_shape, lambda shape: rng.integers(0, 2, shape).astype(float))


def check_rows(
    function: Callable, batches: Iterator[tuple[Any, Any]] | list, *, quick: bool = False
) -> RowCheck:
    """Ask `function` about the same records in other company and at other positions.

    Parameters
    ----------
    function : callable
        ``(X, y) -> (b, ...)``, one row per record.
    batches : iterable of pairs of (X, y)
        Two batches of made-up records each, of one length: the tried ones and other company.
    quick : bool, default=False
        For functions that a framework maps over records: one pair decides.

    Returns
    -------
    RowCheck
    """
    tried, separate, identical, repeats, error = False, True, True, True, ""
    counts, in_place = True, True
    for batch, others in batches:
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = _compared(function, batch, others)
        except _OtherCount:
            found, counts = (False, False, True, False), False
        except _NoNumber:
            continue
        except Exception as caught:  # noqa: BLE001  made-up records may be outside its domain
            error = type(caught).__name__
            continue
        tried = True
        separate &= found[0]
        identical &= found[1]
        repeats &= found[2]
        in_place &= found[3]
        if quick or not separate:
            break
    known = tried and separate
    seen = RowCheck(tried, separate, known and identical, repeats, error, counts)
    return dataclasses.replace(seen, in_place=known and in_place)


def _compared(
    function: Callable[..., Any],
    batch: tuple[np.ndarray, np.ndarray | None],
    others: tuple[np.ndarray, np.ndarray | None],
) -> tuple[bool, bool, bool, bool]:
    n = len(batch[0])
    rows = _rows(function, *batch)
    if rows.size and not np.isfinite(rows).any():
        raise _NoNumber
    again = _rows(function, *batch)
    typical = _typical(rows)
    if not np.array_equal(rows, again, equal_nan=True):
        return _close(rows, again, typical), False, _close(rows, again, typical), False
    half = n // 2
    # Moved by an odd number of places; reversed; fewer, down to one alone: the lengths are those at
    # which matrix products change their order of summation.
    places = np.arange(n)
    chosen = [np.roll(places, 37), places[::-1], places[::3], places[1:], places[half + 1 :]]
    chosen += [places[3 : 3 + count] for count in (1, 2, 3, 5, 7, 17, 33, 129)] + [places[-1:]]
    # In other company: one half stays where it is, then the other; then every second row.
    sides = [slice(0, half), slice(half, n), slice(0, n, 2), slice(1, n, 2)]
    pairs = zip(sides, (sides[1], sides[0], sides[3], sides[2]), strict=True)
    tests: list[Any] = [(_mixed(batch, others, left), kept, kept) for kept, left in pairs]
    tests += [(_taken(batch, index), slice(None), index) for index in chosen]
    separate = identical = in_place = True
    for number, ((X, y), got, expected) in enumerate(tests):
        result = _rows(function, X, y)[got]
        same = np.array_equal(result, rows[expected], equal_nan=True)
        identical, in_place = identical and same, in_place and (same or number >= len(sides))
        separate &= _close(result, rows[expected], typical)
        if not separate:
            break
    return bool(separate), identical, True, in_place


def _rows(function: Callable[..., Any], X: np.ndarray, y: np.ndarray | None) -> np.ndarray:
    # Copies: a function that writes into its argument must not change the next question.
    result = as_numbers(function(X.copy(), None if y is None else y.copy()))
    if result.shape[:1] != (len(X),) and len(X) > 1:
        raise _OtherCount
    return result.reshape(len(X), -1 if result.size else 0)


def as_numbers(result: Any) -> np.ndarray:
    """Convert a result to floats; of sparse rows, which may be wide, three sums of each."""
    if sparse.issparse(result):
        entries = result.tocoo()
        sums = [entries.data * np.cos(k * (1.0 + entries.col)) for k in (1, 2, 3)]
        rows, n = entries.row, entries.shape[0]
        return np.stack([np.bincount(rows, added, minlength=n) for added in sums], axis=1)
    result = np.asarray(result)
    return result if result.dtype.kind in "fc" else result.astype(float)


def _mixed(
    batch: tuple[np.ndarray, np.ndarray | None],
    others: tuple[np.ndarray, np.ndarray | None],
    where: slice,
) -> Any:
    pairs = zip(batch, others, strict=True)
    return tuple(None if a is None else _replaced(a, b, where) for a, b in pairs)


def _replaced(array: Any, other: Any, where: slice) -> np.ndarray:
    array = array.copy()
    array[where] = other[where]
    return array


def _taken(batch: tuple[np.ndarray, np.ndarray | None], index: np.ndarray) -> Any:
    return tuple(None if array is None else array[index] for array in batch)


def _typical(rows: np.ndarray) -> np.ndarray:
    """Size of a typical entry of each column."""
    if not rows.size:
        return np.zeros(rows.shape[1])
    sizes = np.where(np.isfinite(rows), np.abs(rows), np.nan)
    typical, rowwise = np.nanmedian(sizes, axis=0), np.nanmedian(np.nanmax(sizes, axis=1))
    # Entries of a small column are held to its own size, down to this share of the largest; single
    # precision rounds more.
    least = np.nan_to_num(rowwise) * (1e-5 if np.finfo(rows.dtype).eps < 1e-12 else 1.0)
    return np.maximum(np.nan_to_num(typical), least)


def _close(rows: np.ndarray, expected: np.ndarray, typical: np.ndarray) -> bool:
    finite = np.isfinite(rows)
    if not np.array_equal(finite, np.isfinite(expected)):
        return False
    if np.array_equal(rows, expected, equal_nan=True):
        return True
    here, there = np.where(finite, rows, 0.0), np.where(finite, expected, 0.0)
    largest = np.max(np.abs(there), axis=1, initial=0.0, keepdims=True)
    size = np.maximum(typical, largest * (typical / typical.max() if typical.max() else 1.0))
    # What agrees so far differs by the rounding of matrix products.
    agree = max(1e-8, 64.0 * float(np.finfo(expected.dtype).eps))
    return bool((np.abs(here - there) <= agree * size).all())


def pairs_of_batches(
    geometry: Geometry, x_shape: tuple[int, ...], y_shape: tuple[int, ...] | None, n: int = _ROWS
) -> Iterator[Any]:
    """Made-up batches at three scales, each with other company; public and always the same."""
    for scale in _SCALES:
        rng = public_generator(0, "made-up records", scale)
        yield tuple(made_up_records(geometry, x_shape, y_shape, scale, rng, n) for _ in range(2))


def made_up_tables(
    shape: tuple[int, ...], dtype: np.dtype, n: int, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Public tables of n rows, and as many that may take their places, of several kinds.

    Numbers: normal at three scales, positive, shares, whole, of unit length, within the unit ball,
    symmetric positive definite and orthonormal matrices where the shape is one's, points of a
    hyperboloid, some missing, and repeated rows beside far larger ones.  Whole numbers where
    `dtype` is of these, and words where it is of text.
    """
    both = (2 * n, *shape)
    normal, shares = rng.standard_normal(both), rng.random(both)
    whole = [rng.integers(0, most, both) for most in (2, 9, 10**4)]
    kind = dtype.kind
    if kind in "OUS":
        words = rng.choice(_WORDS, size=(*both, 4)).astype(object)
        tables = [words[..., 0] + " " + words[..., 1] + " " + words[..., 2], words[..., 3], normal]
        tables = [table.astype(object if kind == "O" else str) for table in tables]
    elif kind in "biu":
        tables = [table.astype(dtype) for table in (*whole, whole[1] - 4)]
    else:
        flat = normal.reshape(2 * n, -1)
        lengths = np.linalg.norm(flat, axis=1, keepdims=True)
        tables = [scale * normal for scale in _SCALES]
        tables += [np.exp(normal), shares, 1.0 + whole[1], 1.0 * whole[0]]
        tables += [(flat / lengths).reshape(both), (flat / (1.0 + lengths)).reshape(both)]
        if len(shape) == 1:
            time = np.sqrt(1.0 + np.sum(normal[:, 1:] ** 2, axis=1, keepdims=True))
            tables += [np.concatenate([time, normal[:, 1:]], axis=1)]
        elif len(shape) > 1 and shape[-1] == shape[-2]:
            tables += [normal @ np.swapaxes(normal, -1, -2) / shape[-1] + 0.1 * np.eye(shape[-1])]
        elif len(shape) > 1 and shape[-2] > shape[-1]:
            tables += [np.linalg.qr(normal)[0]]
        tables += [np.where(shares < 0.1, np.nan, normal)]
        tables += [np.concatenate([np.repeat(normal[: n // 4 + 1], 4, axis=0)[:n], 1e6 * normal])]
    for table in tables:
        yield table[:n], table[n : 2 * n]


# Errors that say more of a function's own lines than of the records that it was given.
_FAULTS = {"TypeError", "NameError", "AttributeError", "ZeroDivisionError", "RecursionError"}


def refuse_faults(check: RowCheck, name: str, function: str, gives: str) -> None:
    """Raise for a function that failed on all made-up records, in a way that is its own."""
    if check.error in _FAULTS and not check.tried:
        raise PublicTypeError(
            f"{name} raised {check.error} on made-up records, and would do so on yours; pass "
            f"{function} that returns {gives} for each record."
        )


def refuse_mixing(check: RowCheck, name: str) -> None:
    """Raise for a function that mixes records; warn where made-up records showed nothing.

    Parameters
    ----------
    check : RowCheck
    name : str
        Of the parameter.
    """
    if not check.tried:
        warn_user(
            f"{name} {check.refusal} on made-up records, so nobody has checked that row i depends "
            "on record i only; the guarantee holds only if it does."
        )
    elif not check.repeats:
        raise PublicValueError(
            f"{name}: the same records must give the same rows; two calls with one batch differed."
        )
    elif not check.counts:
        raise PublicValueError(
            f"{name}: one row must come out for each record; of made-up records, more or fewer "
            "did. Do not repeat, leave out or merge records."
        )
    elif not check.separate:
        raise PublicValueError(
            f"{name}: row i must depend on record i only; it changed when other records did. Leave "
            "out what is computed from the batch (means, maxima, sums, ranks, its length)."
        )
