"""Records in dask arrays: workers sum clipped gradients, the caller adds the noise."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import math
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._descent.problem import Problem
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._mechanisms.sum import ExactTotal
from skriemdp.geometry._tiles import blocks_of_at_most

if TYPE_CHECKING:
    from skriemdp._mechanisms.bounded_sets import BoundedSet
    from skriemdp._mechanisms.units import Units


def is_dask(array: np.ndarray) -> bool:
    """Whether `array` is a dask array, without importing dask."""
    return type(array).__module__.startswith("dask.array")


class DaskProblem(Problem):
    """A problem over chunked records; sums of clipped gradients are computed chunk by chunk.

    Parameters
    ----------
    make_problem : callable
        ``make_problem(*blocks)`` gives the problem of some of the records, from one NumPy array per
        dask array.  It is pickled, so it must carry settings only.
    *arrays : dask arrays
        Same chunks along the first axis; `None` is passed on as it is.

    Notes
    -----
    *Guarantee*: tasks return exact sums and draw no noise, so a scheduler that repeats a lost task
    repeats the same number, not a second release; the one noise vector of a step is drawn by the
    caller.  Sums are added in the order of the chunks, so results repeat bit for bit.

    Chunks must be recomputable (files, or a function of the block number), or a dead worker loses
    them.  ``array.persist()`` keeps them in the workers' memory.  Dask's messages are pickles:
    whoever reaches the scheduler runs code, so bind it to the loopback address or use TLS.
    """

    def __init__(self, make_problem: Callable[..., Any], *arrays: Any):
        chunked = [array for array in arrays if array is not None]
        if not chunked or not all(is_dask(array) for array in chunked):
            raise PublicTypeError(
                "DaskProblem needs dask arrays; use the problem itself for NumPy ones."
            )
        lengths = chunked[0].chunks[0]
        if any(math.isnan(length) for length in lengths):
            raise PublicValueError(
                "the dask array's number of rows is unknown, but n is public and scales the noise; "
                "call compute_chunk_sizes() first."
            )
        if any(array.chunks[0] != lengths for array in chunked):
            raise PublicValueError(
                "the dask arrays must have the same chunks along the first axis."
            )
        self._make = make_problem
        self._bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(int)
        columns = [_blocks(array, len(lengths)) for array in arrays]
        self._blocks = list(zip(*columns, strict=True))
        # Bounds depend on settings and the point only: a problem without records knows them.
        self.empty = make_problem(
            *(None if array is None else np.empty((0, *array.shape[1:])) for array in arrays)
        )

    @property
    def geometry(self) -> Any:  # type: ignore[override]  # read-only here, a field elsewhere
        return self.empty.geometry

    @property
    def n(self) -> int:  # type: ignore[override]  # read-only here, a field elsewhere
        return int(self._bounds[-1])

    @property
    def longest_piece(self) -> Any:
        return self.empty.longest_piece

    def gradient_ball(self, point: np.ndarray) -> Any:
        return self.empty.gradient_ball(point)

    def gradients(self, point: np.ndarray, indices: np.ndarray | slice | None = None) -> np.ndarray:
        if isinstance(indices, slice):
            indices = np.arange(self.n)[indices]
        parts = self._compute("gradients", indices, (point,))
        return np.concatenate([np.zeros((0, *self.geometry.shape)), *parts])

    def vectors(
        self, indices: np.ndarray | None, point: np.ndarray, anchor: np.ndarray | None = None
    ) -> Iterator[np.ndarray]:
        yield from self._compute("stacked", indices, (point, anchor))

    def adder(self, indices: np.ndarray | None, *points: np.ndarray) -> Callable[..., np.ndarray]:
        def add(
            units: Units, give: Callable[..., Any], bounded_set: BoundedSet, steps: int
        ) -> np.ndarray:
            total = ExactTotal(bounded_set.shape, bounded_set.largest(steps))
            parts = self._compute("integers", indices, (bounded_set, steps, points))
            for part, count in zip(parts, self._counts(indices), strict=True):
                total.add(part, count)
            return total.value()

        return add

    def _counts(self, indices: np.ndarray | None) -> list[int]:
        """Records of :meth:`_compute`'s chunks."""
        if indices is None:
            return np.diff(self._bounds).tolist()
        counts = np.diff(np.searchsorted(indices, self._bounds))
        return counts[counts > 0].tolist()

    @functools.cached_property
    def _checked(self) -> Callable[..., Any]:
        """`make_problem`, with what was found of its gradients: no task tries them again."""
        check = getattr(self.empty, "row_check", None)
        return self._make if check is None else functools.partial(self._make, checked=check)

    def _compute(self, method: str, indices: np.ndarray | None, arguments: Any) -> Any:
        """``method(*arguments, indices)`` of every chunk that has any, in the chunks' order."""
        import dask

        task = dask.delayed(_on_block, pure=False)
        tasks = []
        for k, blocks in enumerate(self._blocks):
            chosen = None
            if indices is not None:
                low, high = np.searchsorted(indices, self._bounds[k : k + 2])
                chosen = np.asarray(indices[low:high]) - self._bounds[k]
                if not len(chosen):
                    continue
            tasks.append(task(self._checked, method, arguments, chosen, *blocks))
        return dask.compute(*tasks)


def _blocks(array: Any, count: int) -> Any:
    if array is None:
        return [None] * count
    whole_rows = array.rechunk({axis: -1 for axis in range(1, array.ndim)})
    return list(whole_rows.to_delayed().reshape(count))


# Dask's workers are started with this variable set so low that freed memory goes back to the system
# at once, and temporaries cost a page fault per page, every time (benchmarks/solvers.py, table
# "dask").  Nor do pieces of 128 KiB and more then come from memory that is kept: glibc, which
# otherwise learns their size, maps each anew.  A task keeps so many bytes until it ends, and takes
# all smaller pieces from them; where that cannot be asked, blocks are small.
_TRIM_VARIABLE, _MAP_VARIABLE = "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"
_KEPT_BYTES, _SMALL_BLOCK_BYTES = 2**25, 2**16
_TRIM_OPTION, _MAP_OPTION = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc


@contextlib.contextmanager
def _memory_kept() -> Iterator[None]:
    limit = os.environ.get(_TRIM_VARIABLE)
    if limit is None or not limit.isdigit():
        yield
        return
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        with blocks_of_at_most(_SMALL_BLOCK_BYTES):
            yield
        return
    mapped = os.environ.get(_MAP_VARIABLE, "")
    usual = int(mapped) if mapped.isdigit() else 2**17
    set_option(_TRIM_OPTION, max(int(limit), _KEPT_BYTES))
    set_option(_MAP_OPTION, max(usual, _KEPT_BYTES))
    try:
        yield
    finally:
        set_option(_MAP_OPTION, usual)
        set_option(_TRIM_OPTION, int(limit))


def _on_block(
    make_problem: Callable[..., Any],
    method: str,
    arguments: Any,
    chosen: np.ndarray | None,
    *blocks: Any,
) -> Any:
    with _memory_kept():
        return getattr(make_problem(*blocks), method)(*arguments, chosen)


def dask_digest(*arrays: Any) -> bytes:
    """Digest of dask arrays, chunk by chunk; enters the stream keys of seeded fits only."""
    import dask

    from skriemdp._random import data_digest

    task = dask.delayed(data_digest, pure=False)
    state = hashlib.blake2b(digest_size=32)
    for array in arrays:
        if array is None:
            state.update(b"none")
            continue
        for part in dask.compute(*map(task, _blocks(array, len(array.chunks[0])))):
            state.update(part)
    return state.digest()
