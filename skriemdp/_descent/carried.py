"""Refusing functions that carry the records with them, as far as that can be seen."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from skriemdp._errors import PublicTypeError
from skriemdp._walk import walk

# How far to look: nested containers and objects, and values in all.
_DEPTH, _VALUES = 5, 20_000


def check_per_sample(
    function: Callable[..., Any], n: int, arrays: tuple[np.ndarray | None, ...], name: str = "cost"
) -> None:
    """Refuse a function that carries the records with it: its gradients cannot be clipped.

    Looks at closures, defaults, `functools.partial` arguments, the object of a bound method, the
    globals that the code names and what these hold in lists, dicts and attributes: for anything
    with n rows, and for arrays that share memory with the data.

    It catches the common mistakes.  It cannot see what has been *computed* from the records: a
    mean, a scale or a kernel matrix of another size, a number in a string, a file that the function
    reads.  ``center = X.mean(axis=0)`` before ``gradient = lambda p, X, y: p - X + center`` looks
    like a public constant, and voids the guarantee.

    Parameters
    ----------
    function : callable
    n : int
        Number of records.
    arrays : tuple
        The records.
    name : str
        Of the parameter.

    Raises
    ------
    TypeError
        If it carries such a thing.
    """
    for _, value in itertools.islice(walk(function, deepest=_DEPTH), 1, _VALUES):
        kind = _has_rows(value, n)
        shares = isinstance(value, np.ndarray) and any(
            isinstance(array, np.ndarray) and np.may_share_memory(value, array) for array in arrays
        )
        if shares or kind:
            raise PublicTypeError(
                f"{name} carries {kind or 'an array'} with {len(value)} rows, the number of "
                "records or a part of them: a closure over the data cannot be clipped per record, "
                "so no guarantee is possible. Write it as a function of the records that it is "
                f"given, and pass the data to fit (n={n})."
                if kind
                else f"{name} carries an array that shares memory with the data: a closure over "
                "the data cannot be clipped per record, so no guarantee is possible. Write it as a "
                "function of the records that it is given, and pass the data to fit."
            )


def _has_rows(value: Any, n: int) -> str:
    """Name the kind of table with n rows that this is; empty if it is none."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return "an array" if shape and shape[0] == n and math.prod(shape) > 1 else ""
    # Shorter lists are taken for settings.
    if isinstance(value, (list, tuple, set, frozenset, dict)) and len(value) == n >= 5:
        entries = value.values() if isinstance(value, dict) else value
        if all(isinstance(e, (numbers.Number, list, tuple, dict, np.ndarray)) for e in entries):
            return f"a {type(value).__name__}"
    return ""
