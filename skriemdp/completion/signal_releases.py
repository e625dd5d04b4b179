"""Is there a subspace worth paying for?  A private scalar that tells."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy import sparse

from skriemdp._validation import check_count, check_positive
from skriemdp.completion.problem import row_squares
from skriemdp.mechanisms.integers import ExactTotal, IntegerNumber
from skriemdp.mechanisms.vector import GaussianNoise
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.sensitivity import Sensitivity, leading_eigenvalues_sensitivity

__all__ = ["SIGNAL_ITEMS", "SignalTest", "whole_spectrum"]

# Items whose moment is looked at: its eigenvalues take time O(512^3), once, whatever the data.
SIGNAL_ITEMS = 512
# Rows are rounded to integers of this length; of so many rows products add up exactly.
_LENGTH, _EXACT_ROWS = 2**20, 2**13
# LAPACK's eigenvalues of a symmetric p x p matrix are those of one within c p u |M|; c is about 1.
_BACKWARD = 64.0 * 2.0**-53


@dataclasses.dataclass(frozen=True)
class SignalTest:
    """Noisy sum of the `rank` largest eigenvalues of the hollow moment of the normalised rows.

    Parameters
    ----------
    rank : int
    n : int
        Number of rows.
    noise_multiplier : float
        Noise over the sensitivity, 2.
    exact : bool, default=False
        Noise in integers.

    Notes
    -----
    *Guarantee*: ``1 / noise_multiplier``-GDP.  The sum is ``max tr(U' M U)`` over orthonormal U of
    `rank` columns, and a row z with ``|z| <= 1`` adds ``|U'z|^2 - sum_j z_j^2 |U_j|^2`` to it,
    which lies in [-1, 1]; the maximum of functions that move by at most 2 moves by at most 2.  Only
    one number is released, so it does not feel the dimension, unlike the matrix.

    M is an exact sum of integers, of a public choice of at most `SIGNAL_ITEMS` items, and all its
    eigenvalues are computed: no iteration whose length, or whose blind spots, depend on the
    records.  Time O(n p^2 + p^3).
    """

    rank: int
    n: int
    noise_multiplier: float
    exact: bool = False

    def __post_init__(self) -> None:
        check_count(rank=self.rank, n=self.n)
        check_positive(noise_multiplier=self.noise_multiplier)

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return self._noise.event

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise."""
        return self._noise.sigma

    @property
    def sensitivity(self) -> Sensitivity:
        """Of the sum as it is computed: no eigenvalue of M exceeds n."""
        return leading_eigenvalues_sensitivity(self.rank * _BACKWARD * SIGNAL_ITEMS * self.n)

    @property
    def _noise(self) -> GaussianNoise:
        return GaussianNoise(self.sensitivity, self.noise_multiplier)

    def release(
        self, matrix: sparse.csr_array, columns: np.ndarray, rng: np.random.Generator
    ) -> float:
        """The noisy sum of the rows of `matrix`, cut to the public `columns`."""
        value = self.value(matrix, columns)
        if self.exact:
            return IntegerNumber(self.sensitivity, self.noise_multiplier).release(value, rng)
        return float(self._noise.release(value, rng))

    def value(self, matrix: sparse.csr_array, columns: np.ndarray) -> float:
        """The sum without noise, not private."""
        moment = _hollow_integers(matrix, columns)
        return float(np.linalg.eigvalsh(moment)[-self.rank :].sum())


def _hollow_integers(matrix: sparse.csr_array, columns: np.ndarray) -> np.ndarray:
    """Hollow moment of the rows, cut to `columns` and normalised; exact up to its last division."""
    part, p = matrix[:, columns], len(columns)
    # Rounding adds at most sqrt(p) / 2 to the length.
    length = _LENGTH - 0.5 * np.sqrt(p) - 1.0
    scale = length / np.maximum(np.sqrt(row_squares(part)), 1e-150)
    values = np.rint(part.data * np.repeat(scale, np.diff(part.indptr)))
    part = sparse.csr_array((values, part.indices, part.indptr), shape=part.shape)
    total = ExactTotal((p, p), _LENGTH**2)
    for begin in range(0, part.shape[0], _EXACT_ROWS):
        rows = part[begin : begin + _EXACT_ROWS].toarray()
        # Every partial sum is an integer of at most 2^53, so any order of addition is exact.
        total.add(rows.T @ rows, len(rows))
    moment = total.value().astype(float) / _LENGTH**2
    np.fill_diagonal(moment, 0.0)
    return moment


def whole_spectrum(total: float, popularity: np.ndarray, columns: np.ndarray) -> float:
    """What a sum of leading eigenvalues would be of all items, not of `columns` alone.

    Post-processing.  Users whose chance of rating item j is proportional to ``q_j`` give a subspace
    eigenvalues proportional to ``m sum q_j^2``, where q adds up to one and m is their number of
    ratings; `columns` see the share of m, and the renormalised q.
    """
    part = popularity[columns]
    share = part.sum() / popularity.sum()
    return float(total * share * np.sum(popularity**2) / np.sum(part**2))
