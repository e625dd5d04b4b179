"""Second moments of two vectors per record and of their products, in one release."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator

import numpy as np

from skriemdp._groups import Groups
from skriemdp._validation import check_count, check_positive
from skriemdp.mechanisms.bounds import shortened
from skriemdp.mechanisms.covariance import SymmetricGaussian
from skriemdp.mechanisms.integer_matrices import IntegerMatrices
from skriemdp.mechanisms.integer_products import IntegerMoments
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.sensitivity import (
    averaged_moment_sensitivity,
    computed_sum_sensitivity,
    second_moment_sensitivity,
)

__all__ = ["TILE", "LiftedMoments"]

# Records whose products are added at once.
TILE = 4096
# Entries of people's matrices that are added at once.
_ENTRIES = 1 << 20


@dataclasses.dataclass(frozen=True)
class LiftedMoments:
    """``sum z z'``, ``sum z y'`` and ``sum y y'`` of vectors z and y of each record, together.

    The record becomes one vector, the lift ``w = (z, a y)`` in units in which both bounds are
    alike, and what is released is ``sum w w'``.  Together the three need less noise than apart.
    With the constant ``y = 1`` the second and third are the sum of z and the number of records.

    Parameters
    ----------
    sizes : tuple of int
        Lengths of z and of y.
    norms : tuple of float
        Public bounds of ``|z|`` and ``|y|``; longer vectors are shortened.
    n : int
        Number of records, at most.
    noise_multiplier : float
        Standard deviation of the noise on ``sum w w'``, along every unit matrix, over the
        sensitivity of that sum.
    scale : float, default=sqrt(1/2)
        a, at most 1: larger means less noise on the products, and more on ``sum z z'``.
    exact : bool, default=False
        Add integers, and discrete Gaussian integers to them (docs/theory/lattice.md).
    grouped : bool, default=False
        Whether records are people who own several rows: then ``w w'`` is the mean over own rows.

    Notes
    -----
    *Guarantee*: exactly ``1 / noise_multiplier``-GDP in the worst case, replacement of one record.
    A lift has ``|w|^2 <= norms[0]^2 (1 + a^2)``, so the sum moves by at most ``sqrt(2)`` times as
    much; orthogonal lifts attain it (docs/theory/moments.md).  Means
    over own rows are no further apart (docs/theory/groups.md).  With `exact` the statement is about
    the program.

    Examples
    --------
    >>> mechanism = LiftedMoments((3, 1), norms=(1.0, 2.0), n=100, noise_multiplier=4.0)
    >>> mechanism.event.mu, round(mechanism.first_sigma, 3), round(mechanism.product_sigma, 3)
    (0.25, 8.485, 16.971)
    """

    sizes: tuple[int, int]
    norms: tuple[float, float]
    n: int
    noise_multiplier: float
    scale: float = math.sqrt(0.5)
    exact: bool = False
    grouped: bool = False

    def __post_init__(self) -> None:
        check_count(n=self.n)
        for size, norm in zip(self.sizes, self.norms, strict=True):
            check_count(size=size)
            check_positive(norm=norm)
        check_positive(noise_multiplier=self.noise_multiplier, scale=self.scale)
        if self.scale > 1.0:
            raise ValueError(f"scale={self.scale!r} must be at most 1.")
        if self.exact:
            self.lattice  # noqa: B018 - raises where the integers would be too coarse

    @property
    def unit(self) -> float:
        """What y is multiplied by in the lift."""
        return self.scale * self.norms[0] / self.norms[1]

    @property
    def norm(self) -> float:
        """Bound of ``|w|``."""
        return self.norms[0] * math.sqrt(1.0 + self.scale**2)

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return GaussianEvent(self.noise_multiplier)

    @functools.cached_property
    def lattice(self) -> IntegerMoments:
        """The integer vectors of the lifts; ValueError where they would be too coarse."""
        kind = IntegerMatrices if self.grouped else IntegerMoments
        return kind(self.norm, sum(self.sizes), self.noise_multiplier)

    @functools.cached_property
    def noise(self) -> SymmetricGaussian:
        """Noise on ``sum w w'`` as floating point computes it."""
        size = sum(self.sizes)
        if self.grouped:
            moved, most = averaged_moment_sensitivity(self.norm), self._most_entries
            bound = computed_sum_sensitivity(moved, self.norm**2, self.n, size**2, most)
            return SymmetricGaussian(size, bound, self.noise_multiplier)
        moved = second_moment_sensitivity(self.norm)
        bound = computed_sum_sensitivity(moved, self.norm**2, self.n, size, TILE)
        return SymmetricGaussian(size, bound, self.noise_multiplier)

    @property
    def first_sigma(self) -> float:
        """Standard deviation of the noise on ``sum z z'`` along every unit matrix."""
        return self.lattice.sigma if self.exact else self.noise.sigma

    @property
    def product_sigma(self) -> float:
        """Standard deviation of the noise on every entry of ``sum z y'``."""
        return self.first_sigma / (math.sqrt(2.0) * self.unit)

    @property
    def second_sigma(self) -> float:
        """Standard deviation of the noise on ``sum y y'`` along every unit matrix."""
        return self.first_sigma / self.unit**2

    def lifts(self, first: np.ndarray, second: np.ndarray) -> Iterator[np.ndarray]:
        """The lifts of all records, tile by tile; row i depends on record i only."""
        for begin in range(0, len(first), TILE):
            rows = slice(begin, begin + TILE)
            z = shortened(first[rows], self.norms[0])
            y = shortened(second[rows], self.norms[1])
            yield np.concatenate([z, self.unit * y], axis=1)

    def total(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """``sum w w'`` in floating point, without noise."""
        size = sum(self.sizes)
        total = np.zeros((size, size))
        for rows in self.lifts(first, second):
            total += rows.T @ rows
        return total

    def factors(
        self, first: np.ndarray, second: np.ndarray, groups: Groups
    ) -> Iterator[np.ndarray]:
        """Factors L of people's mean ``w w' = L' L``, shape (b, rows, size), tile by tile."""
        size, sizes = sum(self.sizes), groups.sizes
        for chosen, rows, inside in groups.blocks(self._most_entries):
            places = rows.ravel()
            lifts = np.concatenate(list(self.lifts(first[places], second[places])))
            shares = np.where(inside, 1.0 / np.sqrt(sizes[chosen, None]), 0.0)
            yield lifts.reshape(*rows.shape, size) * shares[:, :, None]

    def averages(
        self, first: np.ndarray, second: np.ndarray, groups: Groups
    ) -> Iterator[np.ndarray]:
        """Mean of ``w w'`` over people's own rows, no longer than ``norm^2``; shape (b, size**2).

        In the order of ``groups.blocks``.  A person's matrix is of own rows to the last bit.
        """
        for factors in self.factors(first, second, groups):
            matrices = np.matmul(factors.transpose(0, 2, 1), factors)
            yield shortened(matrices.reshape(len(factors), -1), self.norm**2)

    def _total_of_averages(
        self, first: np.ndarray, second: np.ndarray, groups: Groups
    ) -> np.ndarray:
        size = sum(self.sizes)
        total = np.zeros(size * size)
        for rows in self.averages(first, second, groups):
            total += rows.sum(axis=0)
        return total.reshape(size, size)

    @property
    def _most_entries(self) -> int:
        """Most rows, and so most people, of a tile of people."""
        return max(1, _ENTRIES // sum(self.sizes) ** 2)

    def release(
        self,
        first: np.ndarray,
        second: np.ndarray,
        rng: np.random.Generator,
        groups: Groups | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Noisy ``sum z z'``, ``sum z y'`` and ``sum y y'``.

        Parameters
        ----------
        first : ndarray of shape (m, sizes[0])
            The z of each record; at most n of them.
        second : ndarray of shape (m, sizes[1])
            The y of each record.
        rng : numpy.random.Generator
        groups : Groups, optional
            Of the rows, where people are the records.
        """
        if (groups is not None) != self.grouped:
            raise ValueError("groups belongs to grouped=True, which needs it.")
        records = len(first) if groups is None else groups.count
        if len(second) != len(first) or records > self.n:
            raise ValueError(
                f"first and second must have as many rows, of at most n={self.n} records."
            )
        if self.exact:
            lifts = self.lifts(first, second)
            if groups is not None:
                lifts = self.factors(first, second, groups)
            noisy = self.lattice.release(lifts, rng)
        elif groups is not None:
            noisy = self.noise.release(self._total_of_averages(first, second, groups), rng)
        else:
            noisy = self.noise.release(self.total(first, second), rng)
        k = self.sizes[0]
        return noisy[:k, :k], noisy[:k, k:] / self.unit, noisy[k:, k:] / self.unit**2
