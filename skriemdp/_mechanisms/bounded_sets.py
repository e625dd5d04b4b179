"""Public sets that hold what a record gives to a sum, and the integers that it becomes there.

A set is made by :func:`ball`, :func:`labelled`, :func:`answers`, :func:`weighted`,
:func:`projectors` or :func:`variances` (:class:`VectorSet`: whatever has a diameter), or is a
:class:`Moment` (``z z'``), an :class:`Outer` (``a b'``) or a :class:`Frame` (``z z'W``).  All of
them answer alike:
``bounded_set.check(mu)`` before the charge, and :func:`skriemdp._mechanisms.sum.private_sum` adds,
noises and turns back to numbers.  What a row gives is a tile of rows, or a tuple of arrays where
the set says so.  Private numbers are shortened and rounded in ``add``, and nowhere else; the proofs
are in docs/theory/lattice.md.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from skriemdp._arrays import squared_lengths
from skriemdp._errors import PublicRuntimeError, PublicValueError
from skriemdp._mechanisms.bounds import Ball, matrix_norms, short_factors
from skriemdp._mechanisms.noise import NOISE_SCALE
from skriemdp._validation import check_count, check_positive, plain_numbers
from skriemdp.privacy._lattice import largest_shift
from skriemdp.privacy._sensitivity import (
    Sensitivity,
    answers_sensitivity,
    ball_sensitivity,
    class_moments_sensitivity,
    frame_product_sensitivity,
    interval_sensitivity,
    second_moment_sensitivity,
    semidefinite_sum_sensitivity,
    sums_and_counts_sensitivity,
    weighted_sum_sensitivity,
)

if TYPE_CHECKING:
    from skriemdp._mechanisms.sum import ExactTotal

_UNIT_ROUNDOFF = 2.0**-53
_EXACT_FLOATS = 2**53
_MOST_MU, _LEAST_MU = 2.0**10, 2.0**-32
# Entries of a frame are rounded to multiples of 2^-27: times integers of at most 2^25, the longest
# that any noise allows, they add up exactly in float64.
_FRAME_BITS = 27
# Entries of rounded rows multiplied at a time, so that both products find them in a cache.
_BLOCK = 2**19
# Entries of rows computed and rounded at a time, and the number from which integers that fit are
# stored in 32 bits: as fast, and half as large.
_ROUNDED, _NARROW = 2**16, 2**22
# Bound of relative rounding errors of square roots, quotients and sums of squares.
_SLACK = 2.0**-30
# c of :func:`weighted`, the root of 3 rounded down: 1 + c^2 < 4 in floats too.
WEIGHT_UNIT = 1.732


class BoundedSet(abc.ABC):
    """A public set that bounds the contribution of a record and turns it into integers.

    Attributes
    ----------
    bound : Sensitivity
        How far the sum moves when a record is replaced, and when one is added or removed.
    shape : tuple of int
        Of the sum.
    width : int
        Numbers of a row.
    per_person : {"mean", "factors", "classes"}
        What people give, as for :meth:`skriemdp._mechanisms.units.Units.tiles`.
    """

    bound: Sensitivity
    shape: tuple[int, ...]
    width: int
    per_person = "mean"

    def check(self, mu: float) -> int:
        """D, how far apart two records' integers may be; ValueError where those are too coarse.

        A plan asks it for the least mu of its releases, before the charge.
        """
        check_positive(mu=mu)
        if not _LEAST_MU < mu < _MOST_MU:
            raise PublicValueError(
                f"the budget of a release, mu={mu:.4g}, is out of the range of exact integers; use "
                f"{'a larger' if mu < 1.0 else 'a smaller'} epsilon."
            )
        steps = largest_shift(NOISE_SCALE, 1.0 / mu)
        # Rounding stays below a hundredth of what a record's integers may be.
        if not all(rounding <= 0.01 * room for rounding, room in self.rounding(steps)):
            raise PublicValueError(
                f"the budget of a release, mu={mu:.4g}, leaves a record of {self.width} numbers "
                "fewer integers than rounding needs; use a larger epsilon or fewer dimensions."
            )
        return steps

    @property
    def halves(self) -> bool:
        """Whether an absent record moves the sum half as far as a replaced one, or less."""
        return 2.0 * self.bound.presence <= self.bound.value

    def presence(self, steps: int) -> int:
        """Distance by which one record more or less moves the integers."""
        bound = self.bound
        if 2.0 * bound.presence == bound.value:
            return steps - steps // 2
        return math.ceil(steps * Fraction(bound.presence) / Fraction(bound.value))

    @abc.abstractmethod
    def rounding(self, steps: int) -> tuple[tuple[float, float], ...]:
        """Pairs (largest rounding error, largest norm) of each rounded part, in integers."""

    @abc.abstractmethod
    def largest(self, steps: int) -> int:
        """Bound of every entry that a record adds."""

    @abc.abstractmethod
    def add(self, total: ExactTotal, tile: Any, steps: int) -> None:
        """Shorten, round and add what records give: the only place that does."""

    @abc.abstractmethod
    def value(self, total: np.ndarray, steps: int) -> np.ndarray:
        """Numbers of a noisy integer total."""

    @abc.abstractmethod
    def sigma(self, steps: int) -> float:
        """Standard deviation of the noise along every vector of length one."""


@dataclass(frozen=True, eq=False)
class VectorSet(BoundedSet):
    """Vectors of a set that is known by its diameter, and by the length of its longest one.

    Parameters
    ----------
    shape : tuple of int
        Of a vector; `(groups, width)` where a record adds rows of it to some of the groups.
    bound : Sensitivity
        Diameter and length, ``diameter / 2 <= length <= diameter``.
    hold : callable
        ``hold(tile, unit)`` returns vectors of the set over `unit`, ``(b, size)``, in an array of
        its own; or rows and the groups of theirs.  Its rounding is below ``(4 k + 32) 2^-53`` of
        the diameter, k the number of coordinates.
    per_person : str
    parties : int, default=1
        How many sums there are, as of :meth:`by_party`.

    Notes
    -----
    Integers are ``x / g``, rounded, ``g = diameter (1 + eta) / (D - sqrt(k) - 2)``: at most D
    apart, and ``D length / diameter`` long, for every set (docs/theory/lattice.md, "One lattice for
    every set").  A vector that is not finite counts as zero.
    """

    shape: tuple[int, ...]
    bound: Sensitivity
    hold: Callable[[Any, float], Any]
    per_person: str = "mean"
    parties: int = 1

    def __post_init__(self) -> None:
        length, diameter = self.bound.presence, self.bound.value
        if not 0.5 * diameter <= length * (1.0 + 1e-12) or not length <= diameter:
            raise PublicValueError(
                f"a set of diameter {diameter:g} with vectors of length {length:g} is not held: "
                "the length must lie between half the diameter and the diameter; center the set."
            )

    @property
    def width(self) -> int:  # type: ignore[override]  # read-only here
        return self.shape[-1]

    @property
    def _size(self) -> int:
        return math.prod(self.shape) // self.parties

    def by_party(self, parties: int) -> VectorSet:
        """The same set, and the same integers, for the sums of several parties at once.

        A tile is ``(tile, numbers)``, the second saying whose each record is.
        """

        def hold(tile: tuple, unit: float) -> tuple[np.ndarray, np.ndarray]:
            return self.hold(tile[0], unit), tile[1]  # type: ignore[return-value]

        shape = (parties, *self.shape)
        return dataclasses.replace(self, shape=shape, hold=hold, parties=parties)

    def rounding(self, steps: int) -> tuple[tuple[float, float], ...]:
        return ((math.sqrt(self._size), steps),)

    def spacing(self, steps: int) -> float:
        """g, the distance of neighbouring lattice points; public."""
        eta = (4 * self._size + 32) * _UNIT_ROUNDOFF
        return self.bound.value * (1.0 + eta) / (steps - math.sqrt(self._size) - 2.0)

    def largest(self, steps: int) -> int:
        return self.presence(steps)

    def add(self, total: ExactTotal, tile: Any, steps: int) -> None:
        bounded_set = self.hold(tile, self.spacing(steps))
        rows, places = bounded_set if isinstance(bounded_set, tuple) else (bounded_set, None)
        np.rint(rows, out=rows)
        if places is None:
            for piece in total.pieces(len(rows)):
                # A product with ones is several times as fast as a sum along the first axis.
                ones, part = np.ones(piece.stop - piece.start), rows[piece]
                sums = ones @ part
                if not math.isfinite(sums.sum()):
                    part[~np.isfinite(part).all(axis=1)] = 0.0
                    sums = ones @ part
                total.floats += sums.reshape(self.shape)
            return
        if not math.isfinite(np.add.reduce(rows, axis=None)):
            rows[~np.isfinite(rows).all(axis=1)] = 0.0
        most = max(1, 2**62 // self.largest(steps))  # so many int64 rows add up without overflow
        for begin in range(0, len(rows), most):
            part, groups = rows[begin : begin + most], places[begin : begin + most]
            ones, ends = np.ones(len(part), np.int64), np.arange(len(part) + 1)
            chosen = csr_matrix((ones, groups, ends), (len(part), self.shape[0]))
            total.add(chosen.T @ part.astype(np.int64), len(part))

    def value(self, total: np.ndarray, steps: int) -> np.ndarray:
        return total.astype(float) * self.spacing(steps)

    def sigma(self, steps: int) -> float:
        return NOISE_SCALE * self.spacing(steps)


def ball(bound: Ball, dim: int) -> VectorSet:
    """Vectors of R^dim in a ball; what is summed is their offset from its centre."""
    check_count(dim=dim)
    _bounded(bound)
    return VectorSet((dim,), ball_sensitivity(bound.radius), bound.enforce)


def _bounded(bound: Ball) -> None:
    if not bound.is_bounded:
        raise PublicValueError(
            "nothing bounds a record's gradient at the current iterate; pass a finite clip_norm."
        )


def labelled(bound: float, dim: int, n_groups: int, weight: float = 1.0) -> VectorSet:
    """Sums and counts by group: records add ``q (v / bound, 1)`` to each group they belong to.

    A tile is ``(rows, groups)``, one row for a record, or ``(rows, groups, counts)``, as many rows
    as `counts` says for each record in turn, of different groups.  Rows v are clipped to `bound`,
    and ``q = min(1, weight / sqrt(count))``.  A row of a group that there is not counts as zero.
    People of several classes have the mean of own rows in each, with weight ``1 / sqrt(classes)``.

    The sum has shape ``(n_groups, dim + 1)``: sums in units of `bound`, counts last.
    """
    check_count(dim=dim, n_groups=n_groups)
    bound, most = float(bound), float(weight)
    inside = Ball(bound)

    def hold(tile: tuple, unit: float) -> tuple[np.ndarray, np.ndarray]:
        vectors, groups, *counts = tile
        rows = np.empty((len(vectors), dim + 1))
        rows[:, :dim] = inside.enforce(vectors, bound * unit)
        rows[:, dim] = 1.0 / unit
        sizes = counts[0] if counts else np.ones(len(rows), dtype=np.intp)
        shares = np.minimum(1.0, most / np.sqrt(np.maximum(sizes, 1)))
        if counts or most < 1.0:
            rows *= np.repeat(shares, sizes)[:, None]
        known = (groups >= 0) & (groups < n_groups)
        if not known.all():
            rows, groups = np.where(known[:, None], rows, 0.0), np.where(known, groups, 0)
        return rows, groups.astype(np.intp)

    sensitivity = sums_and_counts_sensitivity(most)
    return VectorSet((n_groups, dim + 1), sensitivity, hold, "classes")


def answers(count: int, level: Any = 0.5) -> VectorSet:
    """Set of so many numbers in [0, 1], each cut to it; a tile is ``(b, count)``, or truth values.

    What is summed is what each number exceeds its level by, one for all or an array: an absent
    record, or one with a number that is not finite, adds a level everywhere.
    """
    check_count(count=count)
    levels = np.broadcast_to(np.asarray(level, dtype=float), count)
    farthest = float(np.maximum(levels, 1.0 - levels).max())

    def hold(tile: np.ndarray, unit: float) -> np.ndarray:
        rows = np.clip(tile, 0.0, 1.0)
        rows -= levels
        rows /= unit
        return rows

    return _Answers((count,), answers_sensitivity(count, farthest), hold)


@dataclass(frozen=True, eq=False)
class _Answers(VectorSet):
    """Numbers in [0, 1]; truth values are counted, as each is one of two integers."""

    def add(self, total: ExactTotal, tile: np.ndarray, steps: int) -> None:
        if tile.dtype != bool:
            super().add(total, tile, steps)
            return
        ends = np.repeat([[0.0], [1.0]], self.width, axis=1)
        false, true = np.rint(self.hold(ends, self.spacing(steps)))
        for piece in total.pieces(len(tile)):
            known = _true(tile[piece])
            total.floats += known * true + (piece.stop - piece.start - known) * false


def _true(tile: np.ndarray) -> np.ndarray:
    """Count the true values in every column."""
    # Bytes add up fastest, at most 255 rows at a time, and side by side where they are short.
    beside = 2**10 // tile.shape[1] + 1
    ends, count = len(tile) // beside * beside, tile.shape[1]
    wide = tile[:ends].reshape(-1, beside * count).view(np.uint8)
    total = np.zeros(beside * count, dtype=np.int64)
    for begin in range(0, len(wide), 255):
        total += np.add.reduce(wide[begin : begin + 255], axis=0, dtype=np.uint8)
    return total.reshape(beside, count).sum(axis=0) + tile[ends:].sum(axis=0)


def weighted(bound: float, dim: int, counted: bool = True) -> VectorSet:
    """Vectors ``(a v / bound, c a)``, a in [0, 1], ``|v| <= bound``, c = `WEIGHT_UNIT`.

    A tile is ``(products, weights)``: weights a are cut to [0, 1], products ``a v`` clipped to
    ``a bound``.  The sum has ``dim + 1`` coordinates, that of ``c a`` last.  Of weights that are
    public and not `counted`, in [-1, 1], it has the first `dim`.
    """
    check_count(dim=dim)
    bound = Ball(bound).radius  # refuses bounds whose squares are no floats

    def hold(tile: tuple, unit: float) -> np.ndarray:
        products, weights = tile
        shares = np.fmin(np.fmax(weights, 0.0) if counted else np.abs(weights), 1.0)
        rows = np.empty((len(products), dim + counted))
        lengths = np.sqrt(np.einsum("ij,ij->i", products, products))
        factors = np.fmin(shares * bound / lengths, 1.0) / (bound * unit)
        rows[:, :dim] = products * factors[:, None]
        if counted:
            rows[:, dim] = WEIGHT_UNIT / unit * shares
        return rows

    bound_ = weighted_sum_sensitivity(1.0) if counted else ball_sensitivity(1.0)
    return VectorSet((dim + counted,), bound_, hold)


def projectors(size: int, rank: int) -> VectorSet:
    """Matrices ``F F'``, clipped to the norm of a projector; a tile is ``(b, rank, size)``.

    Its rows are the columns of F; of people they are those of all own F, in factors.
    The sum is of the lower triangles, entries off the diagonal times ``sqrt(2)``;
    :func:`unpacked` gives the matrix.
    """
    check_count(size=size, rank=rank)

    def products(frames: np.ndarray) -> np.ndarray:
        factors = short_factors(frames.reshape(len(frames), -1, size))
        return np.swapaxes(factors, -1, -2) @ factors

    norm = math.sqrt(rank)
    return _matrices(norm, size, semidefinite_sum_sensitivity(norm), products, "factors")


def variances(radius: float, size: int) -> VectorSet:
    """Few-columned matrices ``z z'``, or ``L'L`` of people, clipped to norm ``radius^2``.

    Each costs its own product, unlike those of a :class:`Moment`; but the set answers to every
    law.  A tile is rows ``(b, size)``, or factors ``(b, m, size)``; sums are as of
    :func:`projectors`.  A single number lies between 0 and ``radius^2``.
    """
    check_count(size=size)
    radius = float(radius)

    def products(factors: np.ndarray) -> np.ndarray:
        if factors.ndim == 2:
            return factors[:, :, None] * factors[:, None, :]
        factors = short_factors(factors)
        return np.swapaxes(factors, -1, -2) @ factors

    one = size == 1
    bound = interval_sensitivity(radius**2) if one else second_moment_sensitivity(radius)
    return _matrices(radius**2, size, bound, products, "factors")


def _matrices(
    norm: float,
    size: int,
    bound: Sensitivity,
    products: Callable[[np.ndarray], np.ndarray],
    per_person: str,
) -> VectorSet:
    """Positive semidefinite matrices that `products` makes of a tile, clipped to `norm`."""
    rows, columns, weights = _triangle(size)

    def hold(tile: np.ndarray, unit: float) -> np.ndarray:
        return Ball(norm).enforce(products(tile)[:, rows, columns] * weights, unit)

    return VectorSet((len(rows),), bound, hold, per_person)


def unpacked(packed: np.ndarray, size: int) -> np.ndarray:
    """The symmetric matrix of a sum of :func:`projectors` or :func:`variances`."""
    rows, columns, weights = _triangle(size)
    matrix = np.empty((size, size))
    matrix[rows, columns] = matrix[columns, rows] = packed / weights
    return matrix


def _triangle(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, columns = np.tril_indices(size)
    return rows, columns, np.where(rows == columns, 1.0, math.sqrt(2.0))


@dataclass(frozen=True, eq=False)
class Moment(BoundedSet):
    """Second moments ``z z'``, rows z clipped to `radius`; or ``L'L`` of people.

    Parameters
    ----------
    radius : float
    dim : int
    people : bool, default=False
        Whether tiles are factors L, ``(b, m, dim)``, whose ``L'L`` are clipped to ``radius^2``.
    by_trace : bool, default=False
        Whether the traces of these are shortened, and not their Frobenius norms.
    classes : int, optional
        Then a tile is ``(rows, labels)``, and there is a sum for each class, of shape ``(classes,
        dim, dim)``.

    Notes
    -----
    Records are rounded, not their products.  With A the largest integer with ``2 A^4 <= D^2``,
    integer vectors of length at most A have ``|z z' - y y'|^2 <= 2 A^4 <= D^2``, in one class or in
    two; and so have factors with ``|L'L| <= A^2``, which is checked in integers (docs/theory/
    lattice.md, "Second moments" and "Matrices of people").  Noise is symmetrised by ``value``.
    """

    radius: float
    dim: int
    people: bool = False
    by_trace: bool = False
    classes: int | None = None

    def __post_init__(self) -> None:
        plain_numbers(self)
        check_count(dim=self.dim)
        Ball(self.radius)  # refuses radii whose squares are no floats

    @property
    def bound(self) -> Sensitivity:  # type: ignore[override]  # read-only here
        if self.classes is not None:
            return class_moments_sensitivity(self.radius)
        return second_moment_sensitivity(self.radius)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]  # read-only here
        return (self.dim,) * 2 if self.classes is None else (self.classes, self.dim, self.dim)

    @property
    def width(self) -> int:  # type: ignore[override]  # read-only here
        return self.dim

    @property
    def per_person(self) -> str:  # type: ignore[override]  # read-only here
        return "factors" if self.people else "mean"

    @property
    def _half(self) -> float:
        """Distance by which rounding moves a vector, or a factor."""
        return 0.5 * (self.dim if self.people else math.sqrt(self.dim))

    def longest(self, steps: int) -> int:
        """A, the bound of the length of a record's integer vector."""
        return math.isqrt(math.isqrt(steps**2 // 2))

    def rounding(self, steps: int) -> tuple[tuple[float, float], ...]:
        return ((self._half, self.longest(steps)),)

    def spacing(self, steps: int) -> float:
        """g, the distance of neighbouring lattice points of the records; public."""
        eta = (self.dim + 16) ** 2 if self.people else 2 * self.dim + 16
        return self.radius * (1.0 + eta * _UNIT_ROUNDOFF) / (self.longest(steps) - self._half - 1.0)

    def presence(self, steps: int) -> int:
        return self.longest(steps) ** 2

    def largest(self, steps: int) -> int:
        return self.longest(steps) ** 2

    def add(self, total: ExactTotal, tile: Any, steps: int) -> None:
        if self.classes is None:
            round_ = self._factors if self.people else self._rows
            self._add(total, total.floats, round_(tile, steps))
            return
        rows, labels = tile
        for label in range(self.classes):
            self._add(total, total.floats[label], self._rows(rows[labels == label], steps))

    def _add(self, total: ExactTotal, floats: np.ndarray, rows: Any) -> None:
        for piece in total.pieces(rows.shape[0]):
            product = rows[piece].T @ rows[piece]
            floats += product.toarray() if issparse(product) else product

    def _rows(self, rows: Any, steps: int) -> Any:
        if issparse(rows):
            lengths = np.sqrt(squared_lengths(rows))
            scale = self.radius / np.maximum(lengths, self.radius) / self.spacing(steps)
            scaled = rows.multiply(np.where(np.isfinite(lengths), scale, 0.0)[:, None]).tocsr()
            scaled.sum_duplicates()  # an entry may be stored in parts
            np.rint(scaled.data, out=scaled.data)
            scaled.data[~np.isfinite(scaled.data)] = 0.0
            return scaled
        scaled = Ball(self.radius).enforce(rows, self.spacing(steps))
        return np.rint(scaled, out=scaled)

    def _factors(self, factors: np.ndarray, steps: int) -> np.ndarray:
        """The rows of the integer factors of a tile of people."""
        factors = short_factors(factors)
        lengths = np.sqrt(_traces(factors) if self.by_trace else matrix_norms(factors))
        scale = self.radius / np.maximum(lengths, self.radius) / self.spacing(steps)
        scale = np.where(np.isfinite(lengths), scale, 0.0)[:, None, None]
        rounded = np.rint(np.where(scale > 0.0, factors * scale, 0.0))
        if self.by_trace:
            rounded[~(_traces(rounded) <= float(self.longest(steps)) ** 2)] = 0.0
            return rounded.reshape(-1, self.dim)
        # Squares of rows that pass are exact, and so are the entries of their Gram matrix.
        squares = np.einsum("bij,bij->bi", rounded, rounded).max(axis=1)
        gram = np.matmul(rounded, rounded.transpose(0, 2, 1))
        sums, most = np.einsum("bij,bij->b", gram, gram), float(self.longest(steps)) ** 2
        rounded[~((squares <= most) & (sums <= most**2 * (1.0 - _SLACK)))] = 0.0
        return rounded.reshape(-1, self.dim)

    def value(self, total: np.ndarray, steps: int) -> np.ndarray:
        noisy = total.astype(float)
        return (0.5 * self.spacing(steps) ** 2) * (noisy + np.swapaxes(noisy, -1, -2))

    def sigma(self, steps: int) -> float:
        return NOISE_SCALE * self.spacing(steps) ** 2


def _traces(factors: np.ndarray) -> np.ndarray:
    """Traces of the ``L'L`` of factors L, shape ``(b, m, dim)``."""
    return np.einsum("bij,bij->b", factors, factors)


@dataclass(frozen=True, eq=False)
class RoundedRows:
    """Left factors that were rounded once for all steps of a run; indexed as the rows are.

    Attributes
    ----------
    rows : ndarray or CSR matrix
        Integers, as floats; of many rows in 32 bits, which hold them.
    limits : ndarray
        How long the right factor of each may be, in integers.
    lattice : tuple
        What they were rounded for.
    """

    rows: Any
    limits: np.ndarray
    lattice: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the rows."""
        return self.rows.shape

    @property
    def block_rows(self) -> int:
        """Rows that are multiplied at a time: those stored sparsely all at once."""
        return len(self.limits) if issparse(self.rows) else _BLOCK // self.rows.shape[1] + 1

    def __getitem__(self, which: Any) -> RoundedRows:
        rows = self.rows[which].astype(float, copy=False)
        return RoundedRows(rows, self.limits[which], self.lattice)


@functools.lru_cache(maxsize=64)
def _outer_lattice(left: int, right: int, steps: int) -> tuple[int, float]:
    """Lattice of outer products: integers per unit of the left factor, longest right one."""
    balanced = math.isqrt(math.floor(steps // 2 * math.sqrt(left / right)))
    # A left factor of this length, and of the rounding of a million coordinates, has an exact
    # square.
    resolution = max(1, min(balanced, 2**26))
    longest = resolution + 0.5 * math.sqrt(left)
    return resolution, steps // 2 * (1.0 - 2.0 * _SLACK) / longest - 0.5 * math.sqrt(right)


@dataclass(frozen=True, eq=False)
class Outer(BoundedSet):
    """Outer products ``a b'``, clipped to Frobenius norm `norm`.

    Parameters
    ----------
    norm : float
    left, right : int
        Lengths of a and b.
    longest : float, default=inf
        Where b is linear in a: products are first scaled to those of an a no longer than this.

    Notes
    -----
    A tile is ``(a, b)``; both factors of a product then get the same length before they are
    rounded, which lengthens a by ``sqrt(left) / 2`` at most.  Or a is a slice of :meth:`rounded`,
    rows of length about 1 at most, rounded once for all steps, and b is shortened by the length of
    the rounded a: ``|a| (|b| + sqrt(right) / 2) <= R``, ``R = floor(D / 2)``, so that products are
    at most R long (docs/theory/lattice.md, "Outer products").
    """

    norm: float
    left: int
    right: int
    longest: float = math.inf

    def __post_init__(self) -> None:
        plain_numbers(self)
        check_count(left=self.left, right=self.right)
        _bounded(Ball(self.norm))  # refuses norms that are infinite, or have no squares

    @property
    def bound(self) -> Sensitivity:  # type: ignore[override]  # read-only here
        return ball_sensitivity(self.norm)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]  # read-only here
        return self.left, self.right

    @property
    def width(self) -> int:  # type: ignore[override]  # read-only here
        return self.left + self.right

    def resolution(self, steps: int) -> int:
        """Integers per unit of the left factor; squares of its length are exact floats."""
        return _outer_lattice(self.left, self.right, steps)[0]

    def _longest_right(self, steps: int) -> float:
        """Length that b may have, in integers, beside the longest a."""
        return _outer_lattice(self.left, self.right, steps)[1]

    def rounding(self, steps: int) -> tuple[tuple[float, float], ...]:
        return (
            (0.5 * math.sqrt(self.left), self.resolution(steps)),
            (0.5 * math.sqrt(self.right), self._longest_right(steps)),
        )

    def spacing(self, steps: int) -> float:
        """Value of one integer of the product; public."""
        return self.norm / (self.resolution(steps) * self._longest_right(steps))

    def largest(self, steps: int) -> int:
        return steps // 2

    def rounded(self, rows: Any, steps: int, by_column: bool = False) -> RoundedRows:
        """Left factors, dense or CSR, of length about 1 at most, for all steps of a run.

        Dense ones lie column by column if asked for; a few of them are read at a time.
        """
        most, scale = steps // 2, float(self.resolution(steps))
        longest = min(_EXACT_FLOATS, most**2)
        whole: Any
        with np.errstate(all="ignore"):
            if issparse(rows):
                whole = rows * scale
                values = np.rint(whole.data, out=whole.data)
                squares = squared_lengths(whole)
            else:
                count, width = rows.shape
                narrow = count * width >= _NARROW and scale < 2**23
                longest = min(longest, 2**48) if narrow else longest
                kind: Any = np.float32 if narrow else float
                whole = np.empty((count, width), kind, "F" if by_column else "C")
                squares, step = np.empty(count), _ROUNDED // max(width, 1) + 1
                for begin in range(0, count, step):
                    block = rows[begin : begin + step] * scale
                    squares[begin : begin + step] = squared_lengths(np.rint(block, out=block))
                    whole[begin : begin + step] = block
            # Squares below 2^53 are exact, and integers up to 2^24 in 32 bits.  Longer rows, which
            # no caller has, count as zero.
            dropped = ~(squares <= longest)
            if dropped.any():
                if issparse(whole):
                    values[np.repeat(dropped, np.diff(whole.indptr))] = 0.0
                else:
                    whole[dropped] = 0.0
            dropped |= squares == 0.0
            limits = np.divide(most * (1.0 - _SLACK), np.sqrt(squares, out=squares), out=squares)
            limits -= 0.5 * math.sqrt(self.right)
            limits[dropped | ~(limits > 0.0)] = 0.0
        return RoundedRows(whole, limits, (self.left, self.right, steps))

    def add(self, total: ExactTotal, tile: tuple, steps: int) -> None:
        left, right = tile
        if not isinstance(left, RoundedRows):
            left, right = self._balanced(left, right, steps)
        if left.lattice != (self.left, self.right, steps):
            raise PublicRuntimeError("the rows were rounded for another lattice.")
        scaled = right / (self.spacing(steps) * self.resolution(steps))
        limits = left.limits
        if self.right == 1:  # one number is cut at both ends, whatever the others are
            flat = scaled[:, 0]
            np.maximum(np.minimum(flat, limits, out=flat), -limits, out=flat)
            if not math.isfinite(np.add.reduce(flat)):
                flat[~np.isfinite(flat)] = 0.0
        else:
            norms = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
            scaled *= (limits / np.maximum(np.maximum(norms, limits), 1e-300))[:, None]
            usable = np.isfinite(norms) & (limits > 0.0)
            if not usable.all():
                scaled[~usable] = 0.0
        np.rint(scaled, out=scaled)
        for piece in total.pieces(len(scaled)):
            if issparse(left.rows):
                total.floats += np.asarray(left.rows[piece].T @ scaled[piece])
            else:  # BLAS is fast with the long factor last
                total.floats += (np.ascontiguousarray(scaled[piece].T) @ left.rows[piece]).T

    def _balanced(self, left: Any, right: np.ndarray, steps: int) -> tuple[RoundedRows, np.ndarray]:
        """Factors of the same products, clipped to `norm`, the left one rounded.

        They are of one length but for two scales.
        """
        unit = float(self.resolution(steps))
        lengths = [np.sqrt(squared_lengths(rows)) for rows in (left, right)]
        products = lengths[0] * np.square(np.fmin(1.0, self.longest / lengths[0])) * lengths[1]
        shares = np.sqrt(np.minimum(products, self.norm) / self.norm)
        scales = [shares * unit / lengths[0], shares * self.norm / lengths[1]]
        usable = np.isfinite(lengths[0]) & np.isfinite(scales[0]) & np.isfinite(scales[1])
        a, b = (np.where(usable, scale, 0.0)[:, None] for scale in scales)
        right = np.where(usable[:, None], right * b, 0.0)
        if issparse(left):
            data = left.data * np.repeat(a, np.diff(left.indptr))
            rounded = csr_matrix((data, left.indices.copy(), left.indptr.copy()), left.shape)
            rounded.sum_duplicates()  # an entry may be stored in parts
            np.rint(rounded.data, out=rounded.data)
            rounded.data[~np.isfinite(rounded.data)] = 0.0
        else:
            rounded = left * a if usable.all() else np.where(usable[:, None], left * a, 0.0)
            np.rint(rounded, out=rounded)
        stretch = 1.0 + (self.left + 16) * _UNIT_ROUNDOFF
        longest = shares * (unit * stretch) + 0.5 * math.sqrt(self.left)
        limits = steps // 2 * (1.0 - _SLACK) / longest - 0.5 * math.sqrt(self.right)
        limits = np.where(usable & (limits > 0.0), limits, 0.0)
        return RoundedRows(rounded, limits, (self.left, self.right, steps)), right

    def value(self, total: np.ndarray, steps: int) -> np.ndarray:
        return total.astype(float) * self.spacing(steps)

    def sigma(self, steps: int) -> float:
        return NOISE_SCALE * self.spacing(steps)


@dataclass(frozen=True, eq=False)
class Frame(BoundedSet):
    """Products ``z z'W`` of rows z, clipped to `radius`, with a public or released frame W.

    Parameters
    ----------
    radius : float
    frame : ndarray of shape (dim, columns)
        With columns that are orthonormal up to rounding.

    Notes
    -----
    The frame is rounded to multiples of ``2^-27``, so that its products with integer vectors z of
    length at most A are exact in float64; b is that product, rounded to integers.  Two terms ``z
    b'`` differ by at most ``c A^2 |W| + A sqrt(columns)``, c = 1 for one column and ``sqrt(2)`` for
    more; A is the largest integer that keeps this within D, checked in integers (docs/theory/
    lattice.md, "Products with a frame").
    """

    radius: float
    frame: np.ndarray

    def __post_init__(self) -> None:
        plain_numbers(self)
        Ball(self.radius)  # refuses radii whose squares are no floats

    @functools.cached_property
    def bound(self) -> Sensitivity:  # type: ignore[override]  # read-only here
        return frame_product_sensitivity(self.radius, self.frame.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]  # read-only here
        return self.frame.shape

    @property
    def width(self) -> int:  # type: ignore[override]  # read-only here
        return self.frame.shape[0]

    @functools.cached_property
    def _integer_frame(self) -> np.ndarray:
        """W in multiples of ``2^-27``."""
        return np.rint(self.frame * 2.0**_FRAME_BITS)

    @functools.cached_property
    def stretch(self) -> int:
        """Bound of ``|W|^2`` in units of ``2^-54``: the largest row sum of moduli of ``W'W``."""
        with np.errstate(all="ignore"):
            lengths = np.sqrt(np.square(self.frame).sum(axis=0))
        if not lengths.max() < 2.0:
            raise PublicValueError("the columns of a frame must be orthonormal.")
        whole = self._integer_frame.astype(np.int64)
        # By their lengths, products of two columns are below 2^57, sums of moduli below 2^58.
        squares = (whole.T @ whole).astype(object)
        return max(sum(abs(int(v)) for v in row) for row in squares)

    @functools.lru_cache(maxsize=4)  # noqa: B019 - a frame is short-lived
    def longest(self, steps: int) -> int:
        """A, the bound of the length of a record's integer vector."""
        columns = self.frame.shape[1]
        root = math.isqrt(columns - 1) + 1  # at least the root of the number of columns
        factor = self.stretch * (1 if columns == 1 else 2)
        low, high = 0, 2 * math.isqrt(steps) + 2
        while high - low > 1:
            middle = (low + high) // 2
            rest = steps - middle * root
            fits = rest >= 0 and factor * middle**4 <= rest * rest << (2 * _FRAME_BITS)
            low, high = (middle, high) if fits else (low, middle)
        # Products with the frame must be exact as well.
        return min(low, math.isqrt(_EXACT_FLOATS**2 // self.stretch))

    def rounding(self, steps: int) -> tuple[tuple[float, float], ...]:
        return ((0.5 * math.sqrt(self.width), self.longest(steps)),)

    def spacing(self, steps: int) -> float:
        """g, the distance of neighbouring lattice points of the records; public."""
        eta = (2 * self.width + 16) * _UNIT_ROUNDOFF
        room = self.longest(steps) - 0.5 * math.sqrt(self.width) - 1.0
        return self.radius * (1.0 + eta) / room

    def largest(self, steps: int) -> int:
        # No entry of a term is larger than the product of the lengths of its factors.
        return self.longest(steps) * (2 * self.longest(steps) + self.frame.shape[1])

    def add(self, total: ExactTotal, tile: np.ndarray, steps: int) -> None:
        z = Ball(self.radius).enforce(tile, self.spacing(steps))
        np.rint(z, out=z)
        b = np.rint(z @ self._integer_frame * 2.0**-_FRAME_BITS)
        for piece in total.pieces(len(z)):
            total.floats += z[piece].T @ b[piece]

    def value(self, total: np.ndarray, steps: int) -> np.ndarray:
        return total.astype(float) * self.spacing(steps) ** 2

    def sigma(self, steps: int) -> float:
        return NOISE_SCALE * self.spacing(steps) ** 2
