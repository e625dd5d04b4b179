"""Eigenvalues of symmetric noise whose density falls with its trace parts, drawn exactly.

The law on symmetric d x d matrices has density proportional to ``exp(-max(tr N+, tr N-))``, N+ and
N- the positive and negative parts.  Its eigenvalues repel each other with the Vandermonde factor,
which splits into a sum of positive terms, one for every set K of exponents out of 0, ..., d - 1:
those of K belong to the positive eigenvalues, the others to the negative ones.  Given K, either
side is the record of a walk: exponents fall by one at a time, at exponential times, and each that
falls off the end leaves an eigenvalue behind.  Only positive numbers are added, so that the table
of 2^d probabilities has full relative precision.  Proofs: docs/theory/pure-covariance.md.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from skriemdp._errors import PublicValueError
from skriemdp._validation import check_count

# Two tables of 2^20 numbers: 24 MB, half a second once per process.
LARGEST_SIZE = 20

# Bound of what rounding in tables and choices adds to a log ratio (EigenvalueLaw, notes).
TABLE_ERROR = 5e-10


@dataclass(frozen=True, eq=False)
class EigenvalueLaw:
    """Tables for drawing eigenvalues of matrices of one size; made by :func:`eigenvalue_law`.

    Attributes
    ----------
    size : int
        d, rows of the matrix.
    masses : ndarray of shape (2**d,)
        ``Z(K)``, K as a bit mask: the integral of ``det(x_i^k / k!) exp(-sum x)``, k in K, over
        increasing positive x.
    sums : tuple of ndarray
        Probabilities of K, up to a factor, summed over all but the first j high bits, j = 0..d.
    entry_variance : float
        Variance of the matrix entries off the diagonal (zero for d = 1, which has none).

    Notes
    -----
    *Rounding.*  Let ``u = 2^-53``.  A path is drawn with probabilities ``Z(K') / sum``, the sum
    taken anew over the same numbers.  Along a path, and against the weight with which K was drawn,
    the errors of the table cancel, because each entry appears once above and once below; ``(d + 2)
    u`` stays per step, for a sum of at most d terms and a quotient.  A choice among moves compares
    a multiple of u with cumulative sums, each within ``(d - 1) u`` of the total: every probability
    is within ``2 (d + 1) u`` absolutely.  The smallest is ``2 / (d (d - 1))`` (computed for every
    set, d = 20, in the tests), so relatively it is within ``d (d^2 - 1) u``, 8.9e-13 for d = 20.
    The two walks together have 210 steps.  Bits of K can be rare (3e-9); a uniform number with 32
    more bits near zero decides on the rarer case, within 4 u relatively.  Altogether the density of
    the draw is within a factor ``1 +- 2.1e-10`` of the law's, so a log ratio gains less than 5e-10.
    """

    size: int
    masses: np.ndarray
    sums: tuple
    entry_variance: float

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Independent draws of all eigenvalues, shape ``(count, d)``, in no useful order."""
        d = self.size
        chosen = self._choose(rng, count)
        both = np.concatenate([chosen, (1 << d) - 1 - chosen])
        points = self._walk(both, rng)
        traces, degrees = points.sum(axis=1), _degrees(both, d)
        # Given K, the shape of a side does not depend on its trace; the pair of traces is uniform
        # under a common radius.
        radius = rng.standard_gamma(d * (d + 1) // 2 + 1, size=count)
        wanted = np.tile(radius, 2) * rng.random(2 * count) ** (1.0 / np.maximum(degrees, 1))
        points *= (wanted / np.where(degrees > 0, traces, 1.0))[:, None]
        # Points fill each row from the left, and the two sides have d of them together.
        return points[:count] - points[count:, ::-1]

    def _choose(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Bit masks of K, one bit after the other."""
        chosen = np.zeros(count, dtype=np.int64)
        for level in self.sums[1:]:
            chosen *= 2
            absent, present = level[chosen], level[chosen + 1]
            # Some bits are rare: a uniform number that is fine near zero decides on the rarer case.
            uniform = (rng.integers(1 << 32, size=count) + rng.random(count)) * 2.0**-32
            rarer = uniform < np.minimum(absent, present) / (absent + present)
            chosen += rarer == (present <= absent)
        return chosen

    def _walk(self, sets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Points with density proportional to ``det(x_i^k / k!) exp(-sum x)``, zeros after them."""
        d, sets = self.size, sets.copy()
        bits, step = np.arange(d), _steps(d)
        points, time = np.zeros((len(sets), d)), np.zeros(len(sets))
        found = np.zeros(len(sets), dtype=np.int64)
        moving = np.flatnonzero(sets)
        while len(moving):
            current = sets[moving]
            holds = (current[:, None] >> bits & 1).astype(bool)
            free = holds.copy()
            free[:, 1:] &= ~holds[:, :-1]
            weights = np.where(free, self.masses[np.where(free, current[:, None] - step, 0)], 0.0)
            heights = np.cumsum(weights, axis=1)
            total = heights[:, -1]
            level = np.minimum(rng.random(len(moving)) * total, np.nextafter(total, 0.0))
            bit = (level[:, None] >= heights).sum(axis=1)
            time[moving] += rng.standard_exponential(len(moving)) / holds.sum(axis=1)
            out = moving[bit == 0]
            points[out, found[out]] = time[out]
            found[out] += 1
            sets[moving] = current - step[bit]
            moving = moving[sets[moving] > 0]
        return points


def _steps(d: int) -> np.ndarray:
    """Return the decrease of the mask under each move: bit j falls to j - 1, bit 0 leaves."""
    return np.concatenate([[1], 1 << np.arange(d - 1)])


def _degrees(sets: np.ndarray, d: int) -> np.ndarray:
    """``sum of k + 1`` over each set: the number of steps of its walk."""
    total = np.zeros_like(sets)
    for k in range(d):
        total += (sets >> k & 1) * (k + 1)
    return total


@functools.lru_cache(maxsize=2)
def eigenvalue_law(size: int) -> EigenvalueLaw:
    """The law's tables, remembered for the last sizes asked for; `size` at most 20."""
    check_count(size=size)
    if size > LARGEST_SIZE:
        raise PublicValueError(f"size must be at most {LARGEST_SIZE}, got {size}.")
    sets = np.arange(1 << size)
    degrees = _degrees(sets, size)
    order = np.argsort(degrees, kind="stable")
    starts = np.searchsorted(degrees[order], np.arange(degrees[-1] + 2))
    masses, squares = np.ones(1 << size), np.zeros(1 << size)
    numbers = np.zeros_like(sets)
    for k in range(size):
        numbers += sets >> k & 1
    for degree in range(1, degrees[-1] + 1):
        # A step lowers the degree by one, so what it leads to is known.
        level = order[starts[degree] : starts[degree + 1]]
        total, second = np.zeros(len(level)), np.zeros(len(level))
        for bit, step in enumerate(_steps(size)):
            free = level & 1 == 1 if bit == 0 else level >> (bit - 1) & 3 == 2
            after = level[free] - step
            total[free] += masses[after]
            second[free] += masses[after] * squares[after]
        masses[level] = total / numbers[level]
        # E sum (T + x)^2 = p E T^2 + 2 E T E sum x + E sum x^2, T exponential of mean 1/p.
        squares[level] = 2.0 * degree / numbers[level] + second / total
    top = int(degrees[-1])
    ways = np.array([float(math.comb(top, m)) for m in range(top + 1)])
    weights = masses * masses[::-1] * ways[degrees]
    sums = [weights]
    while len(sums[-1]) > 1:
        sums.append(sums[-1][0::2] + sums[-1][1::2])
    variance = _entry_variance(size, weights / sums[-1][0], degrees, squares) if size > 1 else 0.0
    return EigenvalueLaw(size, masses, tuple(sums[::-1]), variance)


def _entry_variance(
    d: int, probabilities: np.ndarray, degrees: np.ndarray, squares: np.ndarray
) -> float:
    """Variance of an entry from the second moments of trace and Frobenius norm."""
    m, other = degrees.astype(float), degrees[-1] - degrees.astype(float)
    size_1, size_2 = m / (m + 2.0), other / (other + 2.0)

    def shape(
        squares: np.ndarray, m: np.ndarray
    ) -> np.ndarray:  # E sum x^2 / (sum x)^2, the sum of Gamma(m) law and independent
        return np.divide(squares, m * (m + 1.0), out=np.zeros_like(m), where=m > 0)

    frobenius = size_1 * shape(squares, m) + size_2 * shape(squares[::-1], other)
    trace = size_1 + size_2 - 2.0 * (m / (m + 1.0)) * (other / (other + 1.0))
    radius = (degrees[-1] + 1.0) * (degrees[-1] + 2.0)
    moment = float(probabilities @ (d * frobenius - trace))
    return radius * moment / (d * (d - 1.0) * (d + 2.0))
