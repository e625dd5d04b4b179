"""Sizes of Poisson batches, drawn with integers, so that no float decides who is in a batch."""

from __future__ import annotations

import bisect
import functools
import itertools
import math

import numpy as np

# A record is sampled if a uniform integer below this is below the threshold.
COIN = 2**53
# Weight of the most likely size; others are proportional, rounded down.
_PEAK = 2**512


def coin_threshold(probability: float) -> int:
    """Largest integer t with ``t / COIN <= probability``."""
    # A float times a power of two is exact.
    return math.floor(probability * COIN)


def binomial_sizes(n: int, probability: float, count: int, rng: np.random.Generator) -> list[int]:
    """Draw binomial numbers: n coins, each with probability ``coin_threshold(probability) / COIN``.

    Parameters
    ----------
    n : int
    probability : float
        In (0, 1].  Rounded down to a multiple of ``2^-53``, which can only add to privacy.
    count : int
        Number of independent answers.
    rng : numpy.random.Generator
        Source of random bytes.

    Notes
    -----
    *Guarantee*: a table of integers holds the weights of all sizes, relative to the most likely
    one's.  Every weight is rounded down and lacks at most n units, so the law differs from the
    binomial one by at most ``n^2 2^-512`` in total variation; and sizes that weigh more than
    ``2^256`` units, all but ``n 2^-256`` of them, have their probability up to a relative ``n
    2^-255`` (docs/theory/lattice.md).
    """
    threshold = coin_threshold(probability)
    if threshold >= COIN:
        return [n] * count
    smallest, sums = _table(n, threshold)
    return [smallest + bisect.bisect_right(sums, u) for u in _below(sums[-1], count, rng)]


@functools.lru_cache(maxsize=64)
def _table(n: int, threshold: int) -> tuple[int, list[int]]:
    """The smallest size of positive weight, and the running sums of the weights from there on."""
    falls, stays = threshold, COIN - threshold
    peak = min((n + 1) * falls // COIN, n)
    larger, weight = [], _PEAK
    for size in range(peak, n):
        weight = weight * ((n - size) * falls) // ((size + 1) * stays)
        if not weight:
            break
        larger.append(weight)
    smaller, weight = [], _PEAK
    for size in range(peak, 0, -1):
        weight = weight * (size * stays) // ((n - size + 1) * falls)
        if not weight:
            break
        smaller.append(weight)
    weights = [*reversed(smaller), _PEAK, *larger]
    return peak - len(smaller), list(itertools.accumulate(weights))


def _below(high: int, count: int, rng: np.random.Generator) -> list[int]:
    """Draw so many uniform integers in ``[0, high)``."""
    bits = high.bit_length()
    length = (bits + 7) // 8
    found: list[int] = []
    while len(found) < count:
        drawn = rng.bytes(length * (count - len(found)))
        for begin in range(0, len(drawn), length):
            number = int.from_bytes(drawn[begin : begin + length], "little") >> (8 * length - bits)
            if number < high:
                found.append(number)
    return found
