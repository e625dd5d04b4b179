"""Settings that clients of a secure sum must share, as bytes that are equal on every machine."""

from __future__ import annotations

import dataclasses
import functools
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._validation import check_count, shown
from skriemdp.federated._masks import MOST_WORDS, digest, packed

# Bytes of each setting's digest that the server gets, by which it names a setting that differs.
_MARK_BYTES = 2
# Bound of exact totals: masks are modulo 2^64, and the rest of the range is for noise.
MOST_TOTAL = 2**62


def canonical(value: Any) -> bytes:
    """Bytes that two values share only if they are equal settings.

    Numbers, text, arrays, and lists, dicts and frozen dataclasses of such: balls and geometries.
    TypeError for anything else.
    """
    if value is None:
        return packed(b"none")
    if isinstance(value, (bool, np.bool_)):
        return packed(b"bool", b"1" if value else b"0")
    if isinstance(value, numbers.Integral):
        return packed(b"int", str(int(value)).encode())
    if isinstance(value, (float, np.floating)):
        return packed(b"float", (float(value) + 0.0).hex().encode())  # -0.0 and 0.0 are equal
    if isinstance(value, str):
        return packed(b"str", value.encode())
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        table = np.ascontiguousarray(value, dtype="<f8") + 0.0
        return packed(b"array", repr(value.shape).encode(), table.tobytes())
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuUO":
        return canonical(value.tolist())
    if isinstance(value, (list, tuple, range)):
        return packed(b"list", *map(canonical, value))
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        pairs = [packed(name.encode(), canonical(value[name])) for name in sorted(value)]
        return packed(b"dict", *pairs)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.compare]
        held = {name: getattr(value, name) for name in names}
        return packed(b"object", type(value).__qualname__.encode(), canonical(held))
    raise PublicTypeError(
        f"clients cannot compare a setting of type {type(value).__name__} ({shown(value)}); pass "
        "numbers, text, arrays, or a geometry of this library."
    )


@dataclass(frozen=True)
class Agreement:
    """Everything that has to be the same at all clients of a sum; public.

    Parameters
    ----------
    settings : dict
        By name, as :func:`canonical` takes them.
    length : int
        Number of integers that a client adds.
    largest : int
        Bound of each of them, for one record.
    rounds, attempts : int
        A client takes part in so many rounds of a fit, and in so many attempts at each.

    Notes
    -----
    Privacy does not depend on it: the noise has one law, and each client bounds what its own
    records add.  Clients with other settings get other masks, so their sum has no meaning.
    """

    settings: Mapping[str, Any]
    length: int
    largest: int
    rounds: int = 1
    attempts: int = 2

    def __post_init__(self) -> None:
        check_count(
            length=self.length, largest=self.largest, rounds=self.rounds, attempts=self.attempts
        )
        if self.length >= MOST_WORDS:
            raise PublicValueError(f"a sum has fewer than 2^32 numbers, got length={self.length}.")
        for value in self.settings.values():
            canonical(value)

    @functools.cached_property
    def _parts(self) -> list[tuple[str, bytes]]:
        counts = ("attempts", "largest", "length", "rounds")
        everything = {f"{name} of the sum": getattr(self, name) for name in counts}
        everything |= self.settings
        return [(name, canonical(everything[name])) for name in sorted(everything)]

    @functools.cached_property
    def digest(self) -> bytes:
        """Digest of everything in it."""
        pairs = [part for name, value in self._parts for part in (name.encode(), value)]
        return digest("plan", *pairs)

    @property
    def question(self) -> np.ndarray:
        """The digest as integers, with which a coordinator asks for exact sums."""
        return np.frombuffer(self.digest, dtype="<i8").astype(np.int64)

    @functools.cached_property
    def marks(self) -> bytes:
        """A few bytes for each setting."""
        marks = [digest("setting", name.encode(), value) for name, value in self._parts]
        return b"".join(mark[:_MARK_BYTES] for mark in marks)

    def differing(self, marks: bytes) -> str:
        """Name of the first setting in which another client's marks differ; empty if none does."""
        if len(marks) != len(self.marks):
            return "the number of settings (another class, or another version of the library)"
        for place, (name, _) in enumerate(self._parts):
            part = slice(_MARK_BYTES * place, _MARK_BYTES * (place + 1))
            if marks[part] != self.marks[part]:
                return name
        return ""

    def check_sizes(self, total: int) -> None:
        """ValueError where the sum over so many records would leave the range of its words."""
        if total * self.largest > MOST_TOTAL:
            raise PublicValueError(
                f"the sum over {total} records may not fit 62 bits; use a smaller epsilon or fewer "
                "records."
            )
