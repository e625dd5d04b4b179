"""One walk over what an object holds: parameters, fitted parts, callables with their closures.

Everything that asks what a model holds uses it: which ledger it names, what was fitted before,
which records a function carries.
"""

from __future__ import annotations

import functools
import numbers
import sys
import types
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np

_CONTAINERS = (list, tuple, set, frozenset, dict)
_PLAIN = (type(None), str, bytes, bytearray, numbers.Number, np.generic)

# A part with its name, and the names by which code reaches further from there.
_Part = tuple[str, Any, tuple[str, ...]]


def walk(
    root: Any, *, into: Callable[[Any], bool] | None = None, deepest: int | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield `root` and everything that it holds, to any depth, each object once.

    Parameters
    ----------
    root : object
    into : callable, optional
        Whether to look inside a value; everywhere by default.
    deepest : int, optional
        How many steps away from `root` to look.

    Yields
    ------
    path : str
        Attributes and places from `root`, ``"steps[0][1].mean_"``; ``""`` for `root` itself.
    value : object
        Numbers, strings, None and what is inside arrays of numbers are left out.
    """
    seen: set[int] = set()
    kept = []  # alive while their ids are in `seen`
    waiting: list[tuple[str, Any, tuple[str, ...], int]] = [("", root, (), 0)]
    while waiting:
        path, value, names, depth = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        kept.append(value)
        yield path, value
        if (deepest is not None and depth >= deepest) or not (into is None or into(value)):
            continue
        inside = [
            (path + name if name.startswith("[") or not path else f"{path}.{name}", part, found)
            for name, part, found in _parts(value, names)
            if not isinstance(part, _PLAIN)
        ]
        waiting.extend((*part, depth + 1) for part in reversed(inside))


def is_estimator(value: Any) -> bool:
    """Whether a value is an estimator, and no class of estimators."""
    return hasattr(value, "fit") and hasattr(value, "get_params") and not isinstance(value, type)


def is_container(value: Any) -> bool:
    """Whether a value is a list, a dict or an array of objects."""
    return isinstance(value, _CONTAINERS) or (
        isinstance(value, np.ndarray) and value.dtype.kind == "O"
    )


def _parts(value: Any, names: tuple[str, ...]) -> list[_Part]:
    """List the parts that a value holds directly."""
    if isinstance(value, functools.partial):
        given = [(f"[{place}]", part) for place, part in enumerate(value.args)]
        given += [*value.keywords.items(), ("func", value.func)]
        return [(name, part, names) for name, part in given]
    if isinstance(value, (types.ModuleType, type)):
        # Whatever else is in there, the code reaches what it names.
        named = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
        held = {} if _is_library(named) else vars(value)
        reached = [(name, held[name], names) for name in names if name in held]
        return [part for part in reached if not isinstance(part[1], types.ModuleType)]
    if isinstance(value, dict):
        return [(f"[{key!r}]", part, names) for key, part in value.items()]
    if is_container(value):
        entries = value.ravel() if isinstance(value, np.ndarray) else value
        return [(f"[{place}]", part, names) for place, part in enumerate(entries)]
    if hasattr(value, "shape"):
        return []
    if isinstance(value, types.MethodType):
        return [("__self__", value.__self__, names), ("__func__", value.__func__, names)]
    if isinstance(value, types.FunctionType):
        return _function_parts(value)
    inside = [(name, part, names) for name, part in getattr(value, "__dict__", {}).items()]
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            inside.append((name, getattr(value, name, None), names))
    if callable(value):
        inside.append(("__call__", type(value).__call__, names))
    return inside


def _function_parts(function: types.FunctionType) -> list[_Part]:
    """List defaults, closure and the globals that a function, or one within it, names."""
    code = function.__code__
    names = tuple(_names(code))
    inside = [("a default", part) for part in function.__defaults__ or ()]
    inside += (function.__kwdefaults__ or {}).items()
    inside += vars(function).items()  # __wrapped__ among them
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            inside.append((name, cell.cell_contents))
        except ValueError:  # not filled yet
            continue
    for name in names if not _is_library(function.__module__) else ():
        value = function.__globals__.get(name)
        # Functions of other modules are libraries, with tables of their own.
        foreign = isinstance(value, types.FunctionType) and value.__module__ != function.__module__
        if not foreign:
            inside.append((name, value))
    return [(name, part, names) for name, part in inside]


def _is_library(module: str | None) -> bool:
    """Whether a module was installed: its globals are its own."""
    package = (module or "").split(".")[0]
    if package in sys.stdlib_module_names or package == "skriemdp":
        return True
    file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


def _names(code: CodeType) -> Iterator[str]:
    """Yield globals and attributes that the code and the functions within it name."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
