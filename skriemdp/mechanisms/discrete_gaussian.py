"""Exact draws of the discrete Gaussian law: uniform integers and comparisons, nothing rounded."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from skriemdp._arrays import Size
from skriemdp._validation import check_count

__all__ = ["LARGEST_SCALE", "discrete_gaussian"]

# |x| = scale * k + j must fit into 63 bits; k > 127 has probability below exp(-8000).
LARGEST_SCALE = 2**56


def discrete_gaussian(scale: int, rng: np.random.Generator, size: Size = ()) -> np.ndarray:
    """Integers with probabilities proportional to ``exp(-x^2 / (2 scale^2))``.

    Parameters
    ----------
    scale : int
        From 1 to ``2**56``.
    rng : numpy.random.Generator
        Source of uniform integers; no floating-point number is drawn.
    size : int or tuple of int, default=()

    Returns
    -------
    ndarray of int64, shape `size`

    Notes
    -----
    Write ``|x| = scale k + j`` with ``0 <= j < scale``.  Then ``exp(-x^2 / (2 scale^2))`` is
    ``exp(-k^2/2) exp(-k j/scale) exp(-j^2 / (2 scale^2))``: k is drawn from the first factor, j is
    uniform, and coins that fall with the other two factors accept (as Karney 2016 does for the
    normal law).  A coin of probability ``exp(-g)``, g in [0, 1], is made of coins of probability
    ``g / i`` (von Neumann; Canonne, Kamath and Steinke 2020, Algorithm 1), and those of uniform
    integers: ``j / (scale i)`` is "u < j, and v = 0" with u uniform below scale and v below i.

    The time that a draw takes depends on the noise, never on what it protects; but who can time a
    release to the microsecond learns something about the size of its noise.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.mechanisms.discrete_gaussian import discrete_gaussian
    >>> discrete_gaussian(10**9, np.random.default_rng(0), size=3).dtype
    dtype('int64')
    """
    check_count(scale=scale)
    if scale > LARGEST_SCALE:
        raise ValueError(f"scale={scale} exceeds 2**56, the largest that fits into 63 bits.")
    shape = (size,) if isinstance(size, int) else tuple(size)
    wanted = math.prod(shape)
    kept, found = [], 0
    while found < wanted:
        # About 71 % of the proposals are accepted.
        accepted = _accepted(int(scale), rng, int(1.6 * (wanted - found)) + 8)
        kept.append(accepted)
        found += accepted.size
    return np.concatenate([*kept, np.empty(0, dtype=np.int64)])[:wanted].reshape(shape)


def _accepted(scale: int, rng: np.random.Generator, count: int) -> np.ndarray:
    k = _half_normal(rng, count)
    j = rng.integers(scale, size=k.size)
    negative = rng.integers(2, size=k.size) == 1
    # Zero would come up under both signs.
    alive = np.flatnonzero(~(negative & (k == 0) & (j == 0)))

    def linear(among: np.ndarray, i: int) -> np.ndarray:  # probability (j / scale) / i
        return _below(rng, scale, j[alive[among]]) & _one_in(rng, i, among.size)

    def square(among: np.ndarray, i: int) -> np.ndarray:  # probability (j / scale)^2 / (2 i)
        here = j[alive[among]]
        twice = _below(rng, scale, here) & _below(rng, scale, here)
        return twice & _one_in(rng, 2 * i, among.size)

    alive = alive[_exponential_coins(alive.size, square)]
    tossed = 0
    while (k[alive] > tossed).any():
        due = np.flatnonzero(k[alive] > tossed)
        fell = np.ones(alive.size, dtype=bool)

        def owed(among: np.ndarray, i: int, due: np.ndarray = due) -> np.ndarray:
            return linear(due[among], i)

        fell[due] = _exponential_coins(due.size, owed)
        alive = alive[fell]
        tossed += 1
    x = scale * k[alive] + j[alive]
    return np.where(negative[alive], -x, x)


def _half_normal(rng: np.random.Generator, count: int) -> np.ndarray:
    """Up to `count` independent integers k >= 0 with probabilities prop. to ``exp(-k^2/2)``."""

    def half(among: np.ndarray, i: int) -> np.ndarray:
        return _one_in(rng, 2 * i, among.size)

    # k with probability prop. to exp(-k/2), the number of coins before the first that fails;
    k = np.zeros(count, dtype=np.int64)
    going = np.arange(count)
    while going.size:
        going = going[_exponential_coins(going.size, half)]
        k[going] += 1
    # then k (k - 1) more of these coins must fall.
    alive = np.arange(count)
    tossed = 0
    while True:
        due = k[alive] * (k[alive] - 1) > tossed
        if not due.any():
            return k[alive]
        fell = np.ones(alive.size, dtype=bool)
        fell[due] = _exponential_coins(int(due.sum()), half)
        alive = alive[fell]
        tossed += 1


def _exponential_coins(count: int, coin: Callable[[np.ndarray, int], np.ndarray]) -> np.ndarray:
    """Coins that fall with probability ``exp(-g)``, from ``coin(among, i)`` that fall with g/i."""
    outcome = np.zeros(count, dtype=bool)
    going = np.arange(count)
    i = 1
    while going.size:
        fell = coin(going, i)
        # The first failure at an odd i has probability 1 - g + g^2/2 - ... = exp(-g).
        outcome[going[~fell]] = i % 2 == 1
        going = going[fell]
        i += 1
    return outcome


def _below(rng: np.random.Generator, high: int, values: np.ndarray) -> np.ndarray:
    """Coins of probability ``values / high``."""
    return rng.integers(high, size=values.size) < values


def _one_in(rng: np.random.Generator, i: int, count: int) -> np.ndarray:
    """Coins of probability ``1 / i``."""
    return rng.integers(i, size=count) == 0
