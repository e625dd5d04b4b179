"""Blocks of records small enough that the temporaries of a kernel stay in the processor's cache."""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from skriemdp._arrays import Array, array_namespace, device

# A kernel holds a handful of temporaries of a block's size; 2**18 bytes each fit in common level-2
# caches, and a block still holds thousands of small records, so Python's overhead is negligible.
CPU_BLOCK_BYTES = 2**18
# From this order on matrices are decomposed one by one, which takes longer than a fetch from the
# next cache; longer blocks, of so many bytes, then save calls.
DECOMPOSED, DECOMPOSED_BLOCK_BYTES = 5, 2**20

_CAP = contextvars.ContextVar("cap on the bytes of a block", default=math.inf)


@contextlib.contextmanager
def blocks_of_at_most(n_bytes: int) -> Iterator[None]:
    """Smaller blocks within the ``with``; for processes where memory is dear to ask for."""
    token = _CAP.set(n_bytes)
    try:
        yield
    finally:
        _CAP.reset(token)


def rows_per_block(shape: tuple[int, ...], itemsize: int = 8) -> int:
    """Number of records of this shape per block of a NumPy array."""
    decomposed = len(shape) == 2 and min(shape) >= DECOMPOSED
    budget = min(DECOMPOSED_BLOCK_BYTES if decomposed else CPU_BLOCK_BYTES, _CAP.get())
    return max(1, int(budget) // (itemsize * max(1, math.prod(shape))))


def block_length(records: Array) -> int:
    """Number of records, first axis of the array, per block."""
    if type(records) is np.ndarray:
        return rows_per_block(records.shape[1:], records.itemsize)
    on_cpu = "cpu" in str(device(records)).lower()
    # Accelerators want few large blocks; this bounds their temporaries to a few hundred megabytes.
    budget = min(CPU_BLOCK_BYTES, _CAP.get()) if on_cpu else 2**27
    bits = array_namespace(records).finfo(records.dtype).bits
    return max(1, budget * 8 // (bits * max(1, math.prod(records.shape[1:]))))


def tiles(records: Array, times: int = 1) -> Iterator[Array]:
    """Iterate over consecutive blocks of the first axis; views, not copies.

    A kernel without temporaries of a block's size may ask for blocks so many times as long.
    """
    count, length = records.shape[0], times * block_length(records)
    for start in range(0, count, length):
        yield records[start : min(start + length, count), ...]


def map_tiles(kernel: Callable[..., Any], records: Array) -> Array:
    """``kernel`` of every block, gathered in one array; one copy of the result, nothing more."""
    if records.shape[0] <= block_length(records):
        return kernel(records)
    xp = array_namespace(records)
    result = None
    start = 0
    for block in tiles(records):
        part = kernel(block)
        if result is None:
            result = xp.empty(
                (records.shape[0], *part.shape[1:]), dtype=part.dtype, device=device(part)
            )
        result[start : start + block.shape[0], ...] = part
        start += block.shape[0]
    return result


def one_by_one(give: Callable[..., Any]) -> Callable[..., Any]:
    """`give`, called with each row alone, where a row's bits may depend on those beside it."""

    def alone(*rows: Any) -> np.ndarray:
        each = range(rows[0].shape[0])
        if not each:
            return np.asarray(give(*rows))
        return np.concatenate([give(*(part[i : i + 1] for part in rows)) for i in each])

    return alone
