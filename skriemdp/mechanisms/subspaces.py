"""Sums of one projector per record: where subspaces lie, before any centre is known."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from skriemdp._validation import check_count, check_positive
from skriemdp.mechanisms import noise
from skriemdp.mechanisms.covariance import SymmetricGaussian
from skriemdp.mechanisms.integers import (
    ROUNDING_SHARE,
    UNIT_ROUNDOFF,
    ExactTotal,
    check_multiplier,
)
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.lattice import largest_shift
from skriemdp.privacy.sensitivity import computed_sum_sensitivity, semidefinite_sum_sensitivity

if TYPE_CHECKING:
    from skriemdp.privacy.sensitivity import Sensitivity


__all__ = ["ProjectorSum"]


@dataclasses.dataclass(frozen=True)
class ProjectorSum:
    """Noisy sum of ``F F'``, one matrix F of `rank` columns per record.

    Parameters
    ----------
    size, rank : int
        F has shape ``(size, rank)``; products are shortened to the Frobenius norm ``sqrt(rank)``,
        that of a projector.
    noise_multiplier : float
        Noise over the replace-one sensitivity ``sqrt(2 rank)``.

    Notes
    -----
    *Guarantee*: ``1 / noise_multiplier``-GDP under replacement of one record, whatever the F are.
    With ``exact`` for the program as it runs: two records' integer vectors are at most ``D`` apart,
    because rounding moves each coordinate of their difference by at most one, and the spacing ``g =
    sqrt(2 rank) (1 + eta) / (D - sqrt(k) - 2)`` leaves room for that (k coordinates; eta covers the
    rounding of products and of shortening; docs/theory/location-scale.md).
    """

    size: int
    rank: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        check_count(size=self.size, rank=self.rank)
        check_positive(noise_multiplier=self.noise_multiplier)

    @property
    def dim(self) -> int:
        """Number of coordinates of a symmetric matrix."""
        return self.size * (self.size + 1) // 2

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return GaussianEvent(self.noise_multiplier)

    def check_integers(self) -> None:
        """ValueError where there is no lattice that is fine enough."""
        check_multiplier(self.noise_multiplier)
        if math.sqrt(self.dim) > ROUNDING_SHARE * self._units:
            raise ValueError(
                f"noise_multiplier={self.noise_multiplier:.4g} with matrices of size {self.size} "
                "leaves fewer integers per record than rounding needs; use a larger epsilon or "
                "skriemdp.config_context(arithmetic='float')."
            )

    @functools.cached_property
    def _units(self) -> int:
        return largest_shift(noise.NOISE_SCALE, self.noise_multiplier)

    @functools.cached_property
    def _spacing(self) -> float:
        eta = (4 * self.dim + 32) * UNIT_ROUNDOFF
        return self._diameter.value * (1.0 + eta) / (self._units - math.sqrt(self.dim) - 2.0)

    @property
    def _diameter(self) -> Sensitivity:
        return semidefinite_sum_sensitivity(math.sqrt(self.rank))

    def release(
        self, blocks: Iterable[np.ndarray], n: int, rng: np.random.Generator, exact: bool
    ) -> np.ndarray:
        """Noisy sum, shape ``(size, size)``, symmetric, of blocks of shape ``(b, size, rank)``."""
        if exact:
            return self._release_integers(blocks, rng)
        total = np.zeros((self.size, self.size))
        longest = 1
        for frames in blocks:
            longest = max(longest, len(frames))
            total += self._products(frames).sum(axis=0)
        bound = computed_sum_sensitivity(
            self._diameter, math.sqrt(self.rank), n, self.size**2, min(longest, n)
        )
        return SymmetricGaussian(self.size, bound, self.noise_multiplier).release(total, rng)

    def sigma(self, n: int, exact: bool) -> float:
        """Standard deviation of the noise along every symmetric matrix of norm one."""
        if exact:
            return noise.NOISE_SCALE * self._spacing
        return self._diameter.value * self.noise_multiplier

    def _products(self, frames: np.ndarray) -> np.ndarray:
        """``F F'``, shortened; zero where one is not finite.  Positive semidefinite."""
        with np.errstate(all="ignore"):
            products = frames @ np.swapaxes(frames, -1, -2)
            norms = np.sqrt(np.einsum("ijk,ijk->i", products, products))
            bound = math.sqrt(self.rank)
            scale = np.where(np.isfinite(norms), bound / np.maximum(norms, bound), 0.0)
            products = np.where(np.isfinite(norms)[:, None, None], products, 0.0)
        return products * scale[:, None, None]

    def _release_integers(
        self, blocks: Iterable[np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        rows, columns = np.tril_indices(self.size)
        weights = np.where(rows == columns, 1.0, math.sqrt(2.0))
        total = ExactTotal((self.dim,), self._units)
        for frames in blocks:
            packed = self._products(frames)[:, rows, columns] * weights
            total.add_rows(np.rint(packed / self._spacing))
        noisy = noise.draw(
            total.value(), noise.NOISE_SCALE, "discrete-gaussian", rng, sensitivity=self._units
        )
        values = noisy.astype(float) * self._spacing / weights
        matrix = np.zeros((self.size, self.size))
        matrix[rows, columns] = values
        matrix[columns, rows] = values
        return matrix
