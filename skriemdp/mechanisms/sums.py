"""The one place where records' bounded vectors are added up and get Gaussian noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from skriemdp.mechanisms import noise
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.integers import ExactTotal, IntegerBall
from skriemdp.mechanisms.noise import NOISE_SCALE
from skriemdp.mechanisms.vector import GaussianNoise
from skriemdp.privacy.sensitivity import Sensitivity, computed_sum_sensitivity

__all__ = [
    "BoundedSum",
    "float_sensitivity",
    "integer_sums",
    "integer_total",
    "noisy_batch_sum",
    "noisy_sum",
    "release_integers",
    "release_rows",
    "release_total",
    "sum_sigma",
]


class BoundedSum(Protocol):
    """One vector of R^dim per record, in a public ball."""

    @property
    def bound(self) -> Ball: ...
    @property
    def n(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def longest_block(self) -> int: ...

    def blocks(self, indices: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Rows of the records `indices` (None: all), before the bound is enforced."""
        ...

    def total(self, indices: np.ndarray | None = None) -> np.ndarray:
        """Floating-point sum of the offsets of those rows from the centre of the ball."""
        ...


def noisy_batch_sum(
    query: BoundedSum,
    noise_multiplier: float,
    rng: np.random.Generator,
    indices: np.ndarray,
    exact: bool = False,
) -> np.ndarray:
    """:func:`noisy_sum` over a batch that was drawn at random.

    Raises
    ------
    TypeError
        Unless what a record adds is bounded by itself.  The difference of two records may be
        shorter than twice that; but in a batch a record may also be absent, and its absence must
        not move the sum by more than half of what the noise hides (docs/theory/accounting.md).
    """
    if type(query.bound) is not Ball:
        raise TypeError(
            f"sums over random batches need a Ball, got {type(query.bound).__name__}: a "
            "bound of differences does not say how far an absent record moves a sum."
        )
    return noisy_sum(query, noise_multiplier, rng, indices, exact)


def noisy_sum(
    query: BoundedSum,
    noise_multiplier: float,
    rng: np.random.Generator,
    indices: np.ndarray | None = None,
    exact: bool = False,
) -> np.ndarray:
    """Sum of the records' offsets from the centre of the query's ball, plus Gaussian noise.

    Parameters
    ----------
    query : BoundedSum
    noise_multiplier : float
        Noise over the replace-one sensitivity of the sum.
    rng : numpy.random.Generator
    indices : ndarray of int, optional
        The records of a batch; all by default.
    exact : bool, default=False
        Add integers, and discrete Gaussian integers to them.

    Returns
    -------
    ndarray of shape (dim,)

    Notes
    -----
    *Guarantee*: ``1 / noise_multiplier``-GDP under replacement of one record, if row i of the query
    depends on record i and public numbers only; in floating point for real noise, with `exact` for
    the program as it runs (docs/theory/floats.md, docs/theory/lattice.md).  A batch that was drawn
    at random is half as sensitive to a record's absence.
    """
    _check_bounded(query)
    if not exact:
        total = query.total(indices)
        return _float_noise(query, noise_multiplier).release(total, rng)
    lattice = IntegerBall(query.bound, query.dim, noise_multiplier)
    return release_integers(lattice, integer_total(query, lattice, indices).value(), rng)


def integer_total(
    query: BoundedSum, lattice: IntegerBall, indices: np.ndarray | None = None
) -> ExactTotal:
    """Exact sum of the integer vectors of the records `indices` (None: all)."""
    total = ExactTotal((query.dim,), lattice.units)
    for rows in query.blocks(indices):
        total.add_rows(lattice.integers(rows))
    return total


def integer_sums(lattice: IntegerBall, rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Exact sums of the integer vectors of runs of rows that begin at `starts`; Python integers."""
    vectors = lattice.integers(rows)
    kind = np.int64 if len(rows) * lattice.units < 2**62 else object
    return np.add.reduceat(vectors.astype(kind), starts, axis=0).astype(object)


def release_rows(lattice: IntegerBall, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The exact sum of the integer vectors of all `rows` at once, with its noise."""
    total = ExactTotal((lattice.dim,), lattice.units)
    total.add_rows(lattice.integers(rows))
    return release_integers(lattice, total.value(), rng)


def release_integers(
    lattice: IntegerBall, total: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """`total`, the exact sum of a query in Python integers, with its noise; as `noisy_sum`."""
    noisy = noise.draw(total, NOISE_SCALE, "discrete-gaussian", rng, sensitivity=2 * lattice.units)
    return noisy.astype(float) * lattice.spacing


def release_total(
    query: BoundedSum,
    total: np.ndarray,
    noise_multiplier: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """`total`, the floating-point sum of a query, plus its noise; as :func:`noisy_sum`."""
    _check_bounded(query)
    return _float_noise(query, noise_multiplier).release(total, rng)


def _check_bounded(query: BoundedSum) -> None:
    if not query.bound.is_bounded:
        raise ValueError(
            "nothing bounds a record's gradient at the current iterate; pass a finite clip_norm."
        )


def sum_sigma(query: BoundedSum, noise_multiplier: float, exact: bool = False) -> float:
    """Standard deviation of the noise on every coordinate of :func:`noisy_sum`."""
    if exact:
        lattice = IntegerBall(query.bound, query.dim, noise_multiplier)
        return NOISE_SCALE * lattice.spacing
    return _float_noise(query, noise_multiplier).sigma


def _float_noise(query: BoundedSum, noise_multiplier: float) -> GaussianNoise:
    return GaussianNoise(float_sensitivity(query), noise_multiplier)


def float_sensitivity(query: BoundedSum) -> Sensitivity:
    """Of the sum as ``query.total()`` computes it, its rounding included.

    A query that adds longer vectors than its bound says, and moves them afterwards, has a
    `largest`, which bounds them.
    """
    bound = query.bound
    largest = getattr(query, "largest", None) or bound.radius
    return computed_sum_sensitivity(
        bound.diameter, largest, query.n, query.dim, query.longest_block
    )
