"""Exact draws of the discrete Gaussian law: uniform integers and comparisons, nothing rounded."""

from __future__ import annotations

import bisect
import functools
import math

import numpy as np

from skriemdp._arrays import Size
from skriemdp._errors import PublicArithmeticError, PublicValueError
from skriemdp._validation import check_count

# Cells per scale.  Up to three scales a draw from a cell is accepted with probability .98 or more.
_CELLS = 64
# |x| = width * k + j must fit into 63 bits; beyond 64 scales lies less than exp(-2000).
LARGEST_SCALE = 2**56
# Bits of the uniform integer that chooses a cell, and of those that decide without a search.
_BITS, _QUICK_BITS = 63, 12
_MORE_BITS = 64


def discrete_gaussian(scale: int, rng: np.random.Generator, size: Size = ()) -> np.ndarray:
    """Integers with probabilities proportional to ``exp(-x^2 / (2 scale^2))``.

    Parameters
    ----------
    scale : int
        From 1 to 64, or a multiple of 64 up to ``2**56``.
    rng : numpy.random.Generator
        Source of uniform integers; no floating-point number is drawn.
    size : int or tuple of int, default=()

    Returns
    -------
    ndarray of int64, shape `size`

    Notes
    -----
    Cells of ``w = scale / 64`` integers (of one, up to scale 64) divide the half line.  Write ``|x|
    = w k + j`` with ``0 <= j < w``.  Then ``exp(-x^2 / (2 scale^2))`` is ``exp(-(w k)^2 / (2
    scale^2))``, from which the cell k is drawn, times ``exp(-j (2 w k + j) / (2 scale^2))``: j is
    uniform, and a coin of that probability accepts.

    The cell is found by inversion: a uniform number is compared with the running sums of the
    weights.  Its first 63 bits are drawn for all, and they decide unless they are the first 63 bits
    of a sum; then, once in ``10^16`` draws, more bits are drawn, and the sums computed to more
    bits, until they differ.  Sums come as intervals of integers, from a series of ``exp``.

    A coin of probability ``exp(-g)``, g in [0, 1], is made of coins of probability ``g / i`` (von
    Neumann; Canonne, Kamath and Steinke 2020, Algorithm 1), and those of uniform integers: ``g / i
    = (2 w k + j) / (128 scale) * j / w / i`` is "u < 2 w k + j, v < j and t = 0" with u uniform
    below ``128 scale``, v below w and t below i.

    The time that a draw takes depends on the noise, never on what it protects; but who can time a
    release to the microsecond learns something about the size of its noise.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp._mechanisms.discrete_gaussian import discrete_gaussian
    >>> discrete_gaussian(2**40, np.random.default_rng(0), size=3).dtype
    dtype('int64')
    """
    check_count(scale=scale)
    scale = int(scale)
    if scale > LARGEST_SCALE:
        raise PublicValueError(f"scale={scale} exceeds 2**56, the largest that fits into 63 bits.")
    if scale > _CELLS and scale % _CELLS:
        raise PublicValueError(
            f"scale={scale} must be a multiple of {_CELLS}, or no larger than it."
        )
    shape = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    wanted = math.prod(shape)
    kept, found = [np.empty(0, dtype=np.int64)], 0
    while found < wanted:
        # More than 98 % of the proposals are accepted, but for one half of the zeros.
        missing = min(wanted - found, 2**18)
        accepted = _accepted(scale, rng, missing + missing // 64 + 4)
        kept.append(accepted)
        found += accepted.size
    return np.concatenate(kept)[:wanted].reshape(shape)


def _accepted(scale: int, rng: np.random.Generator, count: int) -> np.ndarray:
    per_scale = min(scale, _CELLS)
    width = scale // per_scale
    words = rng.integers(2**64, size=count, dtype=np.uint64)
    negative = (words & np.uint64(1)).astype(bool)
    start = width * _cells((words >> np.uint64(1)).astype(np.int64), per_scale, rng)
    j = rng.integers(width, size=count) if width > 1 else np.zeros(count, dtype=np.int64)
    x = start + j
    accepted = ~(negative & (x == 0))  # zero would come up under both signs
    if width > 1:
        reach = 2 * per_scale * scale
        going = np.flatnonzero(rng.integers(reach, size=count) < start + x)
        going = going[rng.integers(width, size=going.size) < j[going]]
        i = 1
        while going.size:
            # These coins fell i times.  The first failure at an odd throw has probability
            # 1 - g + g^2/2 - ... = exp(-g).
            i += 1
            fell = (
                (rng.integers(reach, size=going.size) < (start + x)[going])
                & (rng.integers(width, size=going.size) < j[going])
                & (rng.integers(i, size=going.size) == 0)
            )
            accepted[going[~fell]] &= i % 2 == 1
            going = going[fell]
    return np.where(negative, -x, x)[accepted]


def _cells(uniform: np.ndarray, per_scale: int, rng: np.random.Generator) -> np.ndarray:
    """Cells k with probabilities proportional to ``exp(-k^2 / (2 per_scale^2))``, k >= 0."""
    sums, quick = _first_bits(per_scale)
    cells = quick[uniform >> (_BITS - _QUICK_BITS)]
    slow = np.flatnonzero(cells < 0)
    found = np.searchsorted(sums, uniform[slow], side="left")
    for place in np.flatnonzero(sums[np.minimum(found, sums.size - 1)] == uniform[slow]):
        found[place] = _undecided(int(uniform[slow[place]]), per_scale, _BITS, rng)
    cells[slow] = found
    return cells


def _undecided(uniform: int, per_scale: int, bits: int, rng: np.random.Generator) -> int:
    """The cell of a uniform number whose first `bits` are `uniform`, with as many more as needed.

    Cell k lies between the sums k - 1 and k; the number of sums below the uniform one is k.
    """
    while True:
        uniform = uniform << _MORE_BITS | int(rng.integers(2**64, dtype=np.uint64))
        bits += _MORE_BITS
        low, high = running_sums(per_scale, bits)
        cell = bisect.bisect_left(high, uniform)
        if cell < len(low) and uniform < low[cell]:
            return cell


@functools.lru_cache(maxsize=8)
def _first_bits(per_scale: int) -> tuple[np.ndarray, np.ndarray]:
    """The sums to 63 bits, rounded down; and the cell by its first bits, -1 where a sum has them.

    A number whose first 63 bits are larger than those of so many sums, and no sum's own, lies in
    the cell of that number.
    """
    low, high = running_sums(per_scale, _BITS)
    if low != high:
        raise PublicArithmeticError(
            "63 bits of a sum are not certain."
        )  # never: 128 more were computed
    sums = np.array(low, dtype=np.int64)
    firsts = sums >> (_BITS - _QUICK_BITS)
    quick = np.searchsorted(firsts, np.arange(2**_QUICK_BITS), side="left")
    quick[firsts] = -1
    return sums, quick


@functools.lru_cache(maxsize=8)
def running_sums(per_scale: int, bits: int) -> tuple[list[int], list[int]]:
    """Bounds of the sums of the weights of cells 0 to k, k = 0, 1, ...; the first `bits` of them.

    Parameters
    ----------
    per_scale : int
        The weight of cell k is ``exp(-k^2 / (2 per_scale^2))``; the sum of all counts as one.
    bits : int

    Returns
    -------
    low, high : list of int
        Sum k is at least ``low[k] 2^-bits`` and less than ``(high[k] + 1) 2^-bits``.  Sums beyond
        the last one differ from one by less than ``2^-bits``.
    """
    unit = bits + 128  # numbers are intervals of integers, in units of 2^-unit
    one = 1 << unit

    def times(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] * b[0] >> unit, -(-a[1] * b[1] >> unit)

    # exp(-x) = 1 - x + x^2/2 - ..., x = 1 / (2 per_scale^2) at most 1/2: each partial sum with an
    # even number of terms is below it, with an odd number above.
    term, series, i = (one, one), (one, one), 0
    while term[1] > 1:
        i += 1
        parts = 2 * per_scale**2 * i
        term = term[0] // parts, -(-term[1] // parts)
        series = (
            (series[0] - term[1], series[1] - term[0])
            if i % 2
            else (series[0] + term[0], series[1] + term[1])
        )
    base = series[0] - 1, series[1] + 1  # what is left out is below one unit
    ratio, square = base, times(base, base)
    weight, total, sums = (one, one), (0, 0), []
    while weight[1] >= 1 << 64:
        total = total[0] + weight[0], total[1] + weight[1]
        sums.append(total)
        weight, ratio = times(weight, ratio), times(ratio, square)
    # The cells that are left weigh less than a geometric series.
    whole = total[0], total[1] + weight[1] * one // (one - ratio[1]) + 1
    low = [(s[0] << bits) // whole[1] for s in sums]
    high = [min((s[1] << bits) // whole[0], (1 << bits) - 1) for s in sums]
    return low, high
