"""Whether a function of many records treats each on its own, tried on made-up records.

A gradient is clipped record by record.  That bounds nothing if row i of a batch of gradients
depends on the other records: ``X - X.mean(0)`` moves every row when one record changes.  The
records that the function is tried on are public random numbers, so the outcome tells nothing about
anybody's.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from skriemdp._random import public_generator
from skriemdp._warnings import warn_user
from skriemdp.geometry.base import Geometry

__all__ = [
    "RowCheck",
    "check_rows",
    "made_up_points",
    "made_up_records",
    "pairs_of_batches",
    "refuse_mixing",
]

# Enough rows for matrix products to be blocked as those of real batches are.
_ROWS = 1024
_SCALES = (1e-3, 1.0, 1e3)
# Rows that agree so far, relative to a typical row, differ by the rounding of matrix products.
_AGREE = 1e-8
# Points farther out than this show nothing but the end of floats.
_FARTHEST = 3.0


@dataclasses.dataclass(frozen=True)
class RowCheck:
    """What made-up records showed of a function of a batch.

    `separate` and `identical` are what was seen on a few thousand made-up records, not proofs.

    Attributes
    ----------
    tried : bool
        Whether the function accepted any made-up batch; if not, nothing is known.
    separate : bool
        Whether no row changed, up to rounding, when other records were replaced, left out or moved.
    identical : bool
        Whether no bit of a row did.
    repeats : bool
        Whether the same batch gave the same rows twice.
    error : str
        Name of the exception with which the function refused a made-up batch; empty if none.
    """

    tried: bool
    separate: bool
    identical: bool
    repeats: bool = True
    error: str = ""


def made_up_points(
    geometry: Geometry, n: int, scale: float, rng: np.random.Generator
) -> np.ndarray:
    """Public points of a manifold, at about this distance from its base point."""
    coordinates = rng.standard_normal((n, geometry.dim)) * scale
    if geometry.curvature_bounds != (0.0, 0.0) or geometry.point_ndim == 2:
        lengths = np.linalg.norm(coordinates, axis=1, keepdims=True)
        coordinates *= np.minimum(1.0, _FARTHEST / np.maximum(lengths, 1e-300))
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
    for batch, others in batches:
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = _compared(function, batch, others)
        except Exception as caught:  # noqa: BLE001  made-up records may be outside its domain
            error = type(caught).__name__
            continue
        tried = True
        separate &= found[0]
        identical &= found[1]
        repeats &= found[2]
        if quick or not separate:
            break
    return RowCheck(tried, separate, tried and separate and identical, repeats, error)


def _compared(
    function: Callable[..., Any],
    batch: tuple[np.ndarray, np.ndarray | None],
    others: tuple[np.ndarray, np.ndarray | None],
) -> tuple[bool, bool, bool]:
    n = len(batch[0])
    rows = _rows(function, *batch)
    again = _rows(function, *batch)
    typical = _typical(rows)
    if not np.array_equal(rows, again, equal_nan=True):
        return _close(rows, again, typical), False, _close(rows, again, typical)
    half = n // 2
    # Moved by an odd number of places; reversed; fewer, down to one alone: the lengths are those at
    # which matrix products change their order of summation.
    places = np.arange(n)
    chosen = [np.roll(places, 37), places[::-1], places[::3], places[1:], places[half + 1 :]]
    chosen += [places[3 : 3 + count] for count in (1, 2, 3, 5, 7, 17, 33, 129)] + [places[-1:]]
    tests: list[Any] = [(_taken(batch, index), slice(None), index) for index in chosen]
    # In other company: the first half stays where it is, then the last.
    tests += [(_mixed(batch, others, slice(half, n)), slice(0, half), slice(0, half))]
    tests += [(_mixed(batch, others, slice(0, half)), slice(half, n), slice(half, n))]
    separate = identical = True
    for (X, y), got, expected in tests:
        result = _rows(function, X, y)[got]
        identical &= np.array_equal(result, rows[expected], equal_nan=True)
        separate &= _close(result, rows[expected], typical)
    return bool(separate), bool(identical), True


def _rows(function: Callable[..., Any], X: np.ndarray, y: np.ndarray | None) -> np.ndarray:
    # Copies: a function that writes into its argument must not change the next question.
    result = np.asarray(function(X.copy(), None if y is None else y.copy()), dtype=float)
    if result.shape[:1] != (len(X),):
        raise ValueError("not one row per record")
    return result.reshape(len(X), -1)


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


def _typical(rows: np.ndarray) -> float:
    sizes = np.max(np.abs(rows), axis=1, initial=0.0)
    finite = sizes[np.isfinite(sizes)]
    return float(np.median(finite)) if len(finite) else 0.0


def _close(rows: np.ndarray, expected: np.ndarray, typical: float) -> bool:
    finite = np.isfinite(rows)
    if not np.array_equal(finite, np.isfinite(expected)):
        return False
    here, there = np.where(finite, rows, 0.0), np.where(finite, expected, 0.0)
    size = np.maximum(np.max(np.abs(there), axis=1, initial=0.0), typical)
    return bool((np.max(np.abs(here - there), axis=1, initial=0.0) <= _AGREE * size).all())


def pairs_of_batches(
    geometry: Geometry, x_shape: tuple[int, ...], y_shape: tuple[int, ...] | None, n: int = _ROWS
) -> Iterator[Any]:
    """Made-up batches at three scales, each with other company; public and always the same."""
    for scale in _SCALES:
        rng = public_generator(0, "made-up records", scale)
        yield tuple(made_up_records(geometry, x_shape, y_shape, scale, rng, n) for _ in range(2))


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
            f"{name} raised {check.error or 'an error'} on made-up records, so nobody has checked "
            "that row i depends on record i only; the guarantee holds only if it does."
        )
    elif not check.repeats:
        raise ValueError(
            f"{name}: the same records must give the same rows; two calls with one batch differed."
        )
    elif not check.separate:
        raise ValueError(
            f"{name}: row i must depend on record i only; it changed when other records did. Leave "
            "out what is computed from the batch (means, maxima, sums, ranks, its length)."
        )
