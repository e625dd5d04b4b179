"""Second moments and outer products of records, added in integers: exact, BLAS included.

docs/theory/lattice.md, "Second moments", "Products with a frame" and "Outer products", has the
proofs.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skriemdp._validation import check_count
from skriemdp.mechanisms import noise
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.integers import (
    ROUNDING_SHARE,
    UNIT_ROUNDOFF,
    ExactTotal,
    check_multiplier,
    refuse_coarse,
)
from skriemdp.mechanisms.noise import NOISE_SCALE
from skriemdp.privacy.lattice import largest_shift

__all__ = ["IntegerFactors", "IntegerMoments"]

_EXACT_FLOATS = 2**53
# A left factor of this length, and of the rounding of a million coordinates, has an exact square.
_LONGEST_LEFT = 2**26
# Entries of a frame are rounded to multiples of 2^-27: times integers of at most 2^25, the longest
# that any noise allows, they add up exactly in float64.
_FRAME_BITS = 27
# Room for the rounding of square roots and quotients, relative; their errors are below 2^-50.
_SLACK = 2.0**-40


@dataclasses.dataclass(frozen=True, eq=False)
class IntegerMoments:
    """The integer vectors z of records whose second moment ``sum z z'`` is released.

    Parameters
    ----------
    radius : float
        Rows are shortened to this norm (public).
    dim : int
    noise_multiplier : float
        Noise over the replace-one sensitivity ``sqrt(2) radius^2`` of the sum.
    hollow : bool, default=False
        Leave out the diagonal, which moves two matrices closer: it is zero before the noise, and in
        the result.

    Raises
    ------
    ValueError
        When the noise is so large, or the dimension so high, that the lattice would be too coarse.

    Notes
    -----
    Records are rounded, not their products.  With D the largest shift that the noise hides, and A
    the largest integer with ``2 A^4 <= D^2``, integer vectors of length at most A have ``|z z' - y
    y'|^2 = |z|^4 + |y|^4 - 2 (z'y)^2 <= 2 A^4 <= D^2``, in integers.  The spacing is that of
    :class:`skriemdp.mechanisms.integers.IntegerBall` with A in the place of R.
    """

    radius: float
    dim: int
    noise_multiplier: float
    hollow: bool = False

    def __post_init__(self) -> None:
        check_count(dim=self.dim)
        Ball(self.radius)  # refuses radii whose squares are no floats
        check_multiplier(self.noise_multiplier)
        if 0.5 * math.sqrt(self.dim) > ROUNDING_SHARE * self.longest:
            refuse_coarse(self.noise_multiplier, self.dim)

    @functools.cached_property
    def units(self) -> int:
        """D, the bound of the Frobenius norm of the change of the integer matrix."""
        return largest_shift(NOISE_SCALE, self.noise_multiplier)

    @functools.cached_property
    def longest(self) -> int:
        """A, the bound of the length of a record's integer vector."""
        return math.isqrt(math.isqrt(self.units**2 // 2))

    @functools.cached_property
    def spacing(self) -> float:
        """g, the distance of neighbouring lattice points of the records; public."""
        eta = (2 * self.dim + 16) * UNIT_ROUNDOFF
        return self.radius * (1.0 + eta) / (self.longest - 0.5 * math.sqrt(self.dim) - 1.0)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise along every symmetric matrix of norm one."""
        return NOISE_SCALE * self.spacing**2

    def integers(self, rows: np.ndarray) -> np.ndarray:
        """The integer vector of each row, float64 of shape (b, dim), no longer than `longest`."""
        return _rounded_rows(rows, self.radius, self.spacing)

    def total(self, blocks: Iterable[np.ndarray]) -> np.ndarray:
        """Exact sum of ``z z'`` over the rows of all blocks, integers of shape (dim, dim)."""
        total = _ProductTotal((self.dim, self.dim), self.longest**2)
        for block in blocks:
            rows = self.integers(block)
            total.add(rows, rows)
        return total.value()

    def release(self, blocks: Iterable[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """Noisy sum of ``x x'``, each row x shortened to `radius`; symmetric.

        *Guarantee*: ``1 / noise_multiplier``-GDP under replacement of one row, for the program as
        it runs.  All entries get independent integer noise; taking the symmetric part, after that,
        leaves noise of the law of :class:`skriemdp.mechanisms.covariance.SymmetricGaussian`.
        """
        exact = self.total(blocks)
        if self.hollow:
            np.fill_diagonal(exact, 0)
        noisy = self._noisy(exact, rng)
        if self.hollow:
            np.fill_diagonal(noisy, 0.0)
        return noisy

    def release_classes(
        self, classes: Iterable[Iterable[np.ndarray]], rng: np.random.Generator
    ) -> np.ndarray:
        """Noisy sums of ``x x'`` of several classes, each given by its blocks of rows.

        *Guarantee*: as :meth:`release`, for all classes together: the integer matrices of two
        records are at most `units` apart in one block, and so they are in two blocks.
        """
        return self._noisy(np.stack([self.total(blocks) for blocks in classes]), rng)

    def _noisy(self, exact: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Integers (..., dim, dim) with integer noise; the symmetric parts, in units of rows."""
        law = "discrete-gaussian"
        noisy = noise.draw(exact, NOISE_SCALE, law, rng, sensitivity=self.units).astype(float)
        return (0.5 * self.spacing**2) * (noisy + np.swapaxes(noisy, -1, -2))


class _ProductTotal:
    """A sum of matrix products of integers, exact in any order of addition.

    Parameters
    ----------
    shape : tuple of int
    largest : int
        Bound of the modulus of every entry that a record adds.
    """

    def __init__(self, shape: tuple[int, ...], largest: int) -> None:
        self._total, self._step = ExactTotal(shape, largest), max(1, _EXACT_FLOATS // largest)
        self._partial, self._count = np.zeros(shape), 0

    def add(self, left: np.ndarray, right: np.ndarray) -> None:
        """Add ``sum a_i b_i'`` over the rows of two float64 arrays of integers."""
        for begin in range(0, len(left), self._step):
            a, b = left[begin : begin + self._step], right[begin : begin + self._step]
            if self._count + len(a) > self._step:
                self._flush()
            # Every partial sum is an integer below 2^53, so any order of addition is exact.
            self._partial += a.T @ b
            self._count += len(a)

    def _flush(self) -> None:
        self._total.add(self._partial, self._count)
        self._partial, self._count = np.zeros_like(self._partial), 0

    def value(self) -> np.ndarray:
        """The total, as of :class:`ExactTotal`."""
        self._flush()
        return self._total.value()


def _row_squares(rows: Any) -> np.ndarray:
    """Squared lengths of the rows of a CSR matrix of integers."""
    if not rows.has_canonical_format:  # an entry may be stored in parts
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=float).ravel()
    squares, filled = np.zeros(rows.shape[0]), np.flatnonzero(np.diff(rows.indptr))
    if len(filled):
        squares[filled] = np.add.reduceat(rows.data * rows.data, rows.indptr[filled])
    return squares


def _rounded_rows(rows: np.ndarray, radius: float, spacing: float) -> np.ndarray:
    """Rows shortened to norm `radius`, in units of `spacing`, rounded; zero if not finite."""
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        usable = np.isfinite(lengths)
        factors = radius / np.maximum(lengths, radius) / spacing
        scaled = rows * factors[:, None]
    if not usable.all():
        scaled[~usable] = 0.0
    return np.rint(scaled, out=scaled)


@dataclasses.dataclass(frozen=True, eq=False)
class IntegerFactors:
    """The integer factors of outer products ``a b'`` that records add to a matrix.

    Parameters
    ----------
    left, right : int
        Lengths of a and b.
    noise_multiplier : float
        Noise over the replace-one sensitivity ``2 bound`` of the sum.

    Notes
    -----
    With ``R = floor(D / 2)``, integer factors of ``|a| |b| <= R`` have products no further than
    ``2 R <= D`` apart.  The left factor, of norm about 1 at most, is rounded to multiples of ``1 /
    resolution`` once; the right one is then shortened by the length of the *rounded* left one, so
    that ``|a| (|b| + sqrt(right) / 2) <= R`` before b is rounded.  The two resolutions are balanced
    so that rounding costs both the same share.
    """

    left: int
    right: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        check_count(left=self.left, right=self.right)
        check_multiplier(self.noise_multiplier)
        a, b = 0.5 * math.sqrt(self.left), 0.5 * math.sqrt(self.right)
        if a > ROUNDING_SHARE * self.resolution or b > ROUNDING_SHARE * self._longest_right:
            refuse_coarse(self.noise_multiplier, self.left * self.right)

    @functools.cached_property
    def units(self) -> int:
        """R, the bound of the Frobenius norm of a record's integer matrix."""
        return largest_shift(NOISE_SCALE, self.noise_multiplier) // 2

    @functools.cached_property
    def resolution(self) -> int:
        """Integers per unit of the left factor; squares of its length are exact floats."""
        balanced = math.isqrt(math.floor(self.units * math.sqrt(self.left / self.right)))
        return max(1, min(balanced, _LONGEST_LEFT))

    @functools.cached_property
    def _longest_right(self) -> float:
        """Length that b may have, in integers, beside the longest a."""
        longest = self.resolution + 0.5 * math.sqrt(self.left)
        return self.units * (1.0 - 2.0 * _SLACK) / longest - 0.5 * math.sqrt(self.right)

    def spacing(self, bound: float) -> float:
        """Value of one integer of the product, where ``|a| |b| <= bound`` and ``|a| <= 1``."""
        return bound / (self.resolution * self._longest_right)

    def sigma(self, bound: float) -> float:
        """Standard deviation of the noise on every entry of the sum."""
        return NOISE_SCALE * self.spacing(bound)

    def round_left(self, rows: Any) -> tuple[Any, np.ndarray]:
        """Integer left factors (dense or CSR, float64), at most `units` long; and their lengths."""
        sparse = issparse(rows)
        values = rows.data if sparse else rows
        with np.errstate(all="ignore"):
            rounded = np.rint(values * float(self.resolution))
        if sparse:
            result = rows.copy()
            result.data = rounded
            squares = _row_squares(result)
        else:
            result, squares = rounded, np.einsum("ij,ij->i", rounded, rounded)
        # Squares below 2^53 are exact.  Longer rows, which no caller has, count as zero.
        dropped = np.flatnonzero(~(squares <= min(_EXACT_FLOATS, self.units**2)))
        if len(dropped):
            if sparse:
                keep = np.ones(len(squares), dtype=bool)
                keep[dropped] = False
                result.data = np.where(np.repeat(keep, np.diff(result.indptr)), result.data, 0.0)
            else:
                result[dropped] = 0.0
            squares[dropped] = 0.0
        return result, np.sqrt(squares)

    def limits(self, lengths: np.ndarray) -> np.ndarray:
        """How long right factors may be before they are rounded, beside left ones of `lengths`."""
        half = 0.5 * math.sqrt(self.right)
        with np.errstate(all="ignore"):
            limits = self.units * (1.0 - _SLACK) / lengths - half
            return np.where((lengths > 0.0) & (limits > 0.0), limits, 0.0)

    def round_right(self, rows: np.ndarray, lengths: np.ndarray, bound: float) -> np.ndarray:
        """Integer right factors of records whose left ones have these lengths, shape (b, right)."""
        return self.round_within(rows, self.limits(lengths), bound)

    def round_within(self, rows: np.ndarray, limits: np.ndarray, bound: float) -> np.ndarray:
        """:meth:`round_right` where the :meth:`limits` are known, which a run's steps share."""
        with np.errstate(all="ignore"):
            scaled = rows / (self.spacing(bound) * self.resolution)
            if self.right == 1:
                flat = scaled[:, 0]
                finite = None if math.isfinite(flat.sum()) else np.isfinite(flat)
                # One number is cut at both ends, whatever the others are.
                np.maximum(np.minimum(flat, limits, out=flat), -limits, out=flat)
                if finite is not None:
                    flat[~finite] = 0.0
                return np.rint(scaled, out=scaled)
            norms = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
            scaled *= (limits / np.maximum(np.maximum(norms, limits), 1e-300))[:, None]
        usable = np.isfinite(norms) & (limits > 0.0)
        if not usable.all():
            scaled = np.where(usable[:, None], scaled, 0.0)
        return np.rint(scaled)

    def start(self) -> ExactTotal:
        """An empty sum of products."""
        return ExactTotal((self.left, self.right), self.units)

    def add(self, total: ExactTotal, a: Any, b: np.ndarray) -> None:
        """Add ``sum a_i b_i'`` of integer factors to `total`."""
        step = _EXACT_FLOATS // self.units
        for begin in range(0, len(b), step):
            piece = slice(begin, begin + step)
            if issparse(a):
                partial = np.asarray(a[piece].T @ b[piece])
            else:  # BLAS is fast with the long factor last
                partial = (np.ascontiguousarray(b[piece].T) @ a[piece]).T
            total.add(partial, len(b[piece]))

    def release(self, total: ExactTotal, bound: float, rng: np.random.Generator) -> np.ndarray:
        """The noisy sum, shape (left, right).

        *Guarantee*: ``1 / noise_multiplier``-GDP under replacement of one record, for the program
        as it runs.
        """
        exact, law = total.value(), "discrete-gaussian"
        noisy = noise.draw(exact, NOISE_SCALE, law, rng, sensitivity=2 * self.units)
        return noisy.astype(float) * self.spacing(bound)
