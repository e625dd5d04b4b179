"""Everything that a fit leaves behind, compared bitwise."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import io
import logging
import math
import re
import struct
import threading
import types
import warnings
import weakref
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

from skriemdp import _progress

PLAIN = (str, bytes, bool, int, range, slice, type(None), type(Ellipsis), type(NotImplemented))
NAMED = (type, types.ModuleType, types.CodeType, np.ufunc)
LOCKS = (type(threading.Lock()), type(threading.RLock()))


@dataclasses.dataclass
class Outcome:
    """What a fit returned or raised, and what it told on the way."""

    result: Any = None
    error: str = ""
    warnings: list = dataclasses.field(default_factory=list)
    logged: list = dataclasses.field(default_factory=list)
    printed: str = ""

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note warnings, log lines, printed text and an exception meanwhile.

        Without lines about progress, which come by the clock.
        """
        handler = logging.Handler(logging.DEBUG)
        handler.emit = lambda line: self.logged.append((line.name, line.getMessage()))
        root, text = logging.getLogger(), io.StringIO()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            with (
                warnings.catch_warnings(record=True) as told,
                contextlib.redirect_stdout(text),
                contextlib.redirect_stderr(text),
                mock.patch.object(_progress, "_SECONDS", math.inf),
            ):
                warnings.simplefilter("always")
                try:
                    yield
                finally:
                    self.printed = text.getvalue()
                    self.warnings = [(w.category.__name__, str(w.message)) for w in told]
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            root.removeHandler(handler)
            root.setLevel(level)


def differences(first: Any, second: Any, opaque: tuple = ()) -> list[str]:
    """Paths at which two objects differ, in anything that can be reached from them.

    Attributes, slots, cached values, closures, default arguments, partial calls and containers are
    walked; arrays differ by one bit, by type or by shape.  Objects of the types `opaque` are equal.
    """
    found = _Walk((*opaque, *LOCKS)).compare(first, second, "")
    return [re.sub(r"\.__dict__\['(\w+)'\]", r".\1", line) for line in found]


class _Walk:
    def __init__(self, opaque: tuple):
        self._opaque = opaque
        self._seen: dict = {}

    def compare(self, a: Any, b: Any, path: str) -> Iterator[str]:
        if a is b or (isinstance(a, self._opaque) and isinstance(b, self._opaque)):
            return
        if type(a) is not type(b):
            yield f"{path}: {type(a).__name__}, {type(b).__name__}"
        elif isinstance(a, PLAIN):
            if a != b:
                yield f"{path}: {_short(a)}, {_short(b)}"
        elif isinstance(a, float):
            if struct.pack("d", a) != struct.pack("d", b):
                yield f"{path}: {a!r}, {b!r}"
        elif isinstance(a, NAMED):
            yield f"{path}: {_short(a)}, {_short(b)}"
        elif (id(a), id(b)) not in self._seen:
            self._seen[id(a), id(b)] = a, b  # kept alive, so that no other object takes the name
            yield from self._inside(a, b, path)

    def _inside(self, a: Any, b: Any, path: str) -> Iterator[str]:
        if isinstance(a, np.ndarray | np.generic):
            if (a.dtype, a.shape) != (b.dtype, b.shape):
                yield f"{path}: {a.dtype}{a.shape}, {b.dtype}{b.shape}"
            elif a.dtype.hasobject:
                yield from self.compare(a.tolist(), b.tolist(), path)
            elif a.tobytes() != b.tobytes():
                yield f"{path}: {_short(a)}, {_short(b)}"
            return
        if isinstance(a, np.random.Generator):
            yield from self.compare(a.bit_generator.state, b.bit_generator.state, f"{path}.state")
            return
        if isinstance(a, collections.abc.Mapping):
            if [repr(key) for key in a] != [repr(key) for key in b]:
                yield f"{path}: keys {_short(list(a))}, {_short(list(b))}"
            else:
                for key, one, two in zip(a, a.values(), b.values(), strict=True):
                    yield from self.compare(one, two, f"{path}[{key!r}]")
        elif isinstance(a, list | tuple | collections.deque):
            if len(a) != len(b):
                yield f"{path}: {len(a)} and {len(b)} entries"
            else:
                for i, (one, two) in enumerate(zip(a, b, strict=True)):
                    yield from self.compare(one, two, f"{path}[{i}]")
        elif isinstance(a, set | frozenset):
            if sorted(map(repr, a)) != sorted(map(repr, b)):
                yield f"{path}: {_short(a)}, {_short(b)}"
        for name, one, two in _parts(a, b):
            yield from self.compare(one, two, f"{path}{name}")


def _parts(a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    """What hangs on two objects of one type: name and both values."""
    parts: list = []
    if isinstance(a, functools.partial):
        parts = [(n, getattr(a, n), getattr(b, n)) for n in ("func", "args", "keywords")]
    elif isinstance(a, types.MethodType | types.BuiltinFunctionType):
        names = ("__func__", "__name__", "__self__")
        parts = [(n, getattr(a, n, None), getattr(b, n, None)) for n in names]
    elif isinstance(a, types.FunctionType):
        names = ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__wrapped__")
        parts = [(n, getattr(a, n, None), getattr(b, n, None)) for n in names]
    elif isinstance(a, types.CellType):
        parts = [("cell", _held(a), _held(b))]
    elif isinstance(a, weakref.ref):
        parts = [("ref", a(), b())]
    elif isinstance(a, functools._lru_cache_wrapper):
        parts = [
            ("__wrapped__", a.__wrapped__, b.__wrapped__),
            ("cache", a.cache_info(), b.cache_info()),
        ]
    elif isinstance(a, property | functools.cached_property):
        parts = [("repr", repr(a), repr(b))]
    owned = [vars(x) if hasattr(x, "__dict__") else {} for x in (a, b)]
    slots = {
        name
        for kind in type(a).__mro__
        for name in _slots(kind)
        if name not in ("__dict__", "__weakref__")
    }
    for name in sorted(slots):
        parts.append((name, getattr(a, name, None), getattr(b, name, None)))
    if owned[0] or owned[1]:
        parts.append(("__dict__", *owned))
    elif not parts and not isinstance(a, collections.abc.Collection):
        parts.append(("repr", repr(a), repr(b)))
    return iter((f".{name}", one, two) for name, one, two in parts)


def _slots(kind: type) -> tuple:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _held(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None


def _short(value: Any) -> str:
    return " ".join(repr(value).split())[:80]
