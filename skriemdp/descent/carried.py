"""Refusing functions that carry the records with them, as far as that can be seen."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import types
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np

# How far to look: nested containers and objects, values in all, entries of one container.
_DEPTH, _VALUES, _ENTRIES = 5, 20_000, 1000


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
    for value in _carried(function):
        kind = _has_rows(value, n)
        shares = isinstance(value, np.ndarray) and any(
            isinstance(array, np.ndarray) and np.may_share_memory(value, array) for array in arrays
        )
        if shares or kind:
            raise TypeError(
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
    """What kind of table with n rows this is; empty if it is none."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return "an array" if shape and shape[0] == n and math.prod(shape) > 1 else ""
    # Shorter lists are taken for settings.
    if isinstance(value, (list, tuple, set, frozenset, dict)) and len(value) == n >= 5:
        entries = value.values() if isinstance(value, dict) else value
        if all(isinstance(e, (numbers.Number, list, tuple, dict, np.ndarray)) for e in entries):
            return f"a {type(value).__name__}"
    return ""


def _carried(function: Callable[..., Any]) -> Iterator:
    """Values that a function brings along besides its arguments."""
    seen: set[int] = set()
    module = getattr(inspect.unwrap(function), "__module__", None) if callable(function) else None
    # Kept alive while their ids are in `seen`.
    waiting: list[tuple[Any, int, tuple[str, ...]]] = [(function, 0, ())]
    kept: list[Any] = []
    while waiting and len(kept) < _VALUES:
        value, depth, names = waiting.pop()
        if id(value) in seen or value is None or isinstance(value, (str, bytes, numbers.Number)):
            continue
        seen.add(id(value))
        kept.append(value)
        if depth:
            yield value
        if depth < _DEPTH:
            parts = _parts(value, names, module)
            waiting.extend((part, depth + 1, names) for part, names in parts)


def _parts(
    value: Any, names: tuple[str, ...], module: str | None
) -> list[tuple[Any, tuple[str, ...]]]:
    """What a value holds, with the names by which code would reach further."""
    if isinstance(value, functools.partial):
        inside = [*value.args, *value.keywords.values(), value.func]
        return [(part, names) for part in inside]
    if isinstance(value, types.ModuleType) or isinstance(value, type):
        # Whatever else is in there, the code reaches what it names.
        held = vars(value)
        inside = [held[name] for name in names if name in held]
        return [(part, names) for part in inside if not isinstance(part, types.ModuleType)]
    if isinstance(value, dict):
        return [(part, names) for part in list(value.values())[:_ENTRIES]]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(part, names) for part in list(value)[:_ENTRIES]]
    if hasattr(value, "shape"):
        return []
    if isinstance(value, types.MethodType):
        return [(value.__self__, names), (value.__func__, names)]
    if isinstance(value, types.FunctionType):
        return _function_parts(value, module)
    inside = list(getattr(value, "__dict__", {}).values())
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            inside.append(getattr(value, name, None))
    if callable(value):
        inside.append(type(value).__call__)
    return [(part, names) for part in inside]


def _function_parts(
    function: Callable[..., Any], module: str | None
) -> list[tuple[Any, tuple[str, ...]]]:
    names = tuple(_names(function.__code__))
    inside = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    inside += list(vars(function).values())  # __wrapped__ among them
    for cell in function.__closure__ or ():
        try:
            inside.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    for name in names:
        value = function.__globals__.get(name)
        # Functions of other modules are libraries, with tables of their own.
        foreign = isinstance(value, types.FunctionType) and value.__module__ != module
        if not foreign:
            inside.append(value)
    return [(part, names) for part in inside]


def _names(code: CodeType) -> Iterator[str]:
    """Globals and attributes that the code and the functions within it name."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
