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
from skriemdp.privacy.sensitivity import computed_sum_sensitivity

__all__ = ["BoundedSum", "noisy_sum", "release_total", "sum_sigma"]


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

    def blocks(self, indices=None) -> Iterator[np.ndarray]:
        """Rows of the records `indices` (None: all), before the bound is enforced."""
        ...

    def total(self, indices=None) -> np.ndarray:
        """Floating-point sum of the offsets of those rows from the centre of the ball."""
        ...


def noisy_sum(
    query: BoundedSum, noise_multiplier: float, rng, indices=None, exact: bool = False
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
    the program as it runs (docs/theory/floats.md, docs/theory/lattice.md).
    """
    _check_bounded(query)
    if not exact:
        return release_total(query, query.total(indices), noise_multiplier, rng)
    lattice = IntegerBall(query.bound, query.dim, noise_multiplier)
    total = ExactTotal((query.dim,), lattice.units)
    for rows in query.blocks(indices):
        total.add_rows(lattice.integers(rows))
    noisy = noise.draw(
        total.value(), NOISE_SCALE, "discrete-gaussian", rng, sensitivity=2 * lattice.units
    )
    return noisy.astype(float) * lattice.spacing


def release_total(query: BoundedSum, total: np.ndarray, noise_multiplier: float, rng):
    """`total`, the floating-point sum of a query, plus its noise; as :func:`noisy_sum`."""
    _check_bounded(query)
    return _float_noise(query, noise_multiplier).release(total, rng)


def _check_bounded(query):
    if not query.bound.is_bounded:
        raise ValueError(
            "nothing bounds a record's gradient at the current iterate; pass a finite clip_norm."
        )


def sum_sigma(query: BoundedSum, noise_multiplier: float, exact: bool = False) -> float:
    """Standard deviation of the noise on every coordinate of :func:`noisy_sum`."""
    if exact:
        return NOISE_SCALE * IntegerBall(query.bound, query.dim, noise_multiplier).spacing
    return _float_noise(query, noise_multiplier).sigma


def _float_noise(query, noise_multiplier):
    bound = query.bound
    sensitivity = computed_sum_sensitivity(
        bound.diameter, bound.radius, query.n, query.dim, query.longest_block
    )
    return GaussianNoise(sensitivity, noise_multiplier)
