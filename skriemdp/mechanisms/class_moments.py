"""Numbers, sums and second moments of the records of every class, in one release."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator

import numpy as np

from skriemdp._validation import check_count, check_positive
from skriemdp.mechanisms.covariance import SymmetricGaussian
from skriemdp.mechanisms.lifted_moments import TILE, LiftedMoments
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.sensitivity import class_moments_sensitivity, computed_sum_sensitivity

__all__ = ["ClassMoments"]


@dataclasses.dataclass(frozen=True)
class ClassMoments:
    """``sum z z'``, ``sum z`` and the number of records of each class, together.

    A record of class k adds ``w w'`` of its lift ``w = (z, radius)`` to block k.

    Parameters
    ----------
    dim : int
        Length of z.
    radius : float
        Public bound of ``|z|``; longer vectors are shortened.
    n : int
        Number of records, at most.
    n_classes : int
    noise_multiplier : float
        Standard deviation of the noise along every unit matrix, over the sensitivity.
    exact : bool, default=False
        Add integers, and discrete Gaussian integers to them (docs/theory/lattice.md).

    Notes
    -----
    *Guarantee*: exactly ``1 / noise_multiplier``-GDP in the worst case, replacement of one record,
    its class included.  All blocks together move by at most ``2 sqrt(2) radius^2``, as one does
    (docs/theory/moments.md, "Second moments by class").  Sums get noise ``2 radius
    noise_multiplier`` in every coordinate, what they would get alone; numbers ``2 sqrt(2)
    noise_multiplier``.  With `exact` the statement is about the program.

    Examples
    --------
    >>> mechanism = ClassMoments(3, radius=0.5, n=100, n_classes=10, noise_multiplier=4.0)
    >>> mechanism.event.mu, round(mechanism.product_sigma, 3), round(mechanism.count_sigma, 3)
    (0.25, 4.0, 11.314)
    """

    dim: int
    radius: float
    n: int
    n_classes: int
    noise_multiplier: float
    exact: bool = False

    def __post_init__(self) -> None:
        check_count(n_classes=self.n_classes)
        check_positive(radius=self.radius)
        self.lifted  # noqa: B018 - raises for what is no number, or integers that are too coarse

    @functools.cached_property
    def lifted(self) -> LiftedMoments:
        """The lifts of records, and their integers."""
        sizes, norms = (self.dim, 1), (self.radius, 1.0)
        return LiftedMoments(sizes, norms, self.n, self.noise_multiplier, 1.0, self.exact)

    @property
    def event(self) -> GaussianEvent:
        """What one release of all classes costs."""
        return self.lifted.event

    @functools.cached_property
    def noise(self) -> SymmetricGaussian:
        """Noise on every block, as floating point computes it."""
        norm, size = self.lifted.norm, self.dim + 1
        moved = class_moments_sensitivity(norm)
        bound = computed_sum_sensitivity(moved, norm**2, self.n, size, TILE)
        return SymmetricGaussian(size, bound, self.noise_multiplier)

    @property
    def first_sigma(self) -> float:
        """Standard deviation of the noise on a ``sum z z'`` along every unit matrix."""
        return self.lifted.lattice.sigma if self.exact else self.noise.sigma

    @property
    def product_sigma(self) -> float:
        """Standard deviation of the noise on every coordinate of a sum."""
        return self.first_sigma / (math.sqrt(2.0) * self.lifted.unit)

    @property
    def count_sigma(self) -> float:
        """Standard deviation of the noise on the number of records of a class."""
        return self.first_sigma / self.lifted.unit**2

    def _classes(self, rows: np.ndarray, labels: np.ndarray) -> Iterator[Iterator[np.ndarray]]:
        """Tiles of the lifts of each class."""
        order = np.argsort(labels, kind="stable")
        ends = np.cumsum(np.bincount(labels, minlength=self.n_classes))
        for own in np.split(order, ends[:-1]):
            yield self.lifted.lifts(rows[own], np.ones((len(own), 1)))

    def totals(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """``sum w w'`` of each class in floating point, without noise."""
        totals = np.zeros((self.n_classes, self.dim + 1, self.dim + 1))
        for total, tiles in zip(totals, self._classes(rows, labels), strict=True):
            for lifts in tiles:
                total += lifts.T @ lifts
        return totals

    def release(
        self, rows: np.ndarray, labels: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Noisy ``sum z z'`` (n_classes, dim, dim), sums (n_classes, dim) and numbers (n_classes,).

        Parameters
        ----------
        rows : ndarray of shape (m, dim)
            The z of each record; at most n of them.
        labels : ndarray of int, shape (m,)
            Their classes, from 0.
        rng : numpy.random.Generator
        """
        if len(rows) != len(labels) or len(rows) > self.n:
            raise ValueError(f"rows and labels must be as many, at most n={self.n}.")
        if self.exact:
            noisy = self.lifted.lattice.release_classes(self._classes(rows, labels), rng)
        else:
            noisy = self.noise.release(self.totals(rows, labels), rng)
        k, unit = self.dim, self.lifted.unit
        return noisy[:, :k, :k], noisy[:, :k, k] / unit, noisy[:, k, k] / unit**2
