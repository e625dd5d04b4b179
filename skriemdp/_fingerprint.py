"""A digest of plain values: what a fit released, so that a file of it can be compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from skriemdp._errors import PublicTypeError

_PLAIN = "biufcSUmM"


def fingerprint(value: Any) -> str | None:
    """Digest of numbers, text, arrays and lists or dicts of them; None of anything else.

    The same for the value itself and for what :mod:`skriemdp.page` reads of its pickle.
    """
    try:
        digest = hashlib.blake2b(digest_size=16)
        for part in _parts(value):
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.hexdigest()
    except TypeError:
        return None


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        yield f"{type(value).__name__} {value!r}".encode("utf-8", "surrogatepass")
    elif type(value) is np.ndarray and value.dtype.kind in _PLAIN:
        yield f"array {value.dtype.str} {value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif type(value) is np.ndarray and value.dtype.kind == "O":
        yield f"array of objects {value.shape}".encode()
        for entry in value.ravel():
            yield from _parts(entry)
    elif type(value) in (list, tuple):
        yield f"{type(value).__name__} {len(value)}".encode()
        for entry in value:
            yield from _parts(entry)
    elif type(value) is dict:
        yield f"dict {len(value)}".encode()
        for key, entry in value.items():
            yield from _parts(key)
            yield from _parts(entry)
    else:
        raise PublicTypeError(type(value).__name__)
