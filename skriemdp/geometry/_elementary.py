"""Elementary functions of arrays, exact where the textbook formula divides zero by zero."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from skriemdp._arrays import Array


def dot(xp: ModuleType, a: Array, b: Array) -> Array:
    """Inner product over the last axis, kept as an axis of length one."""
    return xp.vecdot(a, b, axis=-1)[..., None]


def length(xp: ModuleType, a: Array) -> Array:
    """Euclidean length over the last axis, kept as an axis of length one."""
    return xp.sqrt(xp.vecdot(a, a, axis=-1))[..., None]


def nonzero(xp: ModuleType, x: Array) -> Array:
    """`x` with its zeros replaced by one: a divisor for numerators that are zero there as well."""
    zero = x == 0
    if isinstance(zero, np.ndarray) and not zero.any():
        return x
    return xp.where(zero, xp.ones_like(x), x)


def sinc(xp: ModuleType, x: Array) -> Array:
    """sin(x) / x, one at zero."""
    safe = nonzero(xp, x)
    return xp.where(x == 0, xp.ones_like(x), xp.sin(safe) / safe)


def sinhc(xp: ModuleType, x: Array) -> Array:
    """sinh(x) / x, one at zero."""
    safe = nonzero(xp, x)
    return xp.where(x == 0, xp.ones_like(x), xp.sinh(safe) / safe)
