"""Positive semidefinite matrices of records, added in integers: one matrix for each person."""

from __future__ import annotations

import functools

import numpy as np

from skriemdp.mechanisms.bounds import matrix_norms, short_factors
from skriemdp.mechanisms.integer_products import IntegerMoments
from skriemdp.mechanisms.integers import ROUNDING_SHARE, UNIT_ROUNDOFF, refuse_coarse

__all__ = ["IntegerMatrices"]

# More than the rounding of the sum of squares that is compared with its bound; relative.
_SLACK = 2.0**-30


class IntegerMatrices(IntegerMoments):
    """The integer factors L of positive semidefinite matrices ``L' L`` whose sum is released.

    Parameters
    ----------
    radius : float
        Matrices are shortened to the Frobenius norm ``radius^2``.
    dim, noise_multiplier, hollow
        As in :class:`skriemdp.mechanisms.integer_products.IntegerMoments`, for one row.

    Notes
    -----
    Factors are rounded, not matrices.  With D and A as for one row, integer factors with ``|L'
    L|_F <= A^2`` give matrices at most ``sqrt(2) A^2 <= D`` apart, because positive semidefinite
    matrices have nonnegative inner products.  L has at most `dim` rows, so rounding adds a matrix
    of norm ``dim / 2`` at most, and ``|L' L|_F^(1/2)`` is a norm of L: the spacing ``g = radius (1
    + eta) / (A - dim / 2 - 1)`` leaves room for it.  The bound is then checked on the integers; a
    factor beyond it counts as zero (docs/theory/lattice.md, "Matrices of people").
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0.5 * self.dim > ROUNDING_SHARE * self.longest:
            refuse_coarse(self.noise_multiplier, self.dim)

    @functools.cached_property
    def spacing(self) -> float:
        """g, the distance of neighbouring lattice points of the factors; public."""
        eta = (self.dim + 16) ** 2 * UNIT_ROUNDOFF
        return self.radius * (1.0 + eta) / (self.longest - 0.5 * self.dim - 1.0)

    def integers(self, rows: np.ndarray) -> np.ndarray:
        """The rows of the integer factors, float64 of shape (b, dim), of a block of factors.

        Parameters
        ----------
        rows : ndarray of shape (b, size, dim)
            One factor for each record.
        """
        factors = short_factors(rows)
        with np.errstate(all="ignore"):
            lengths = np.sqrt(matrix_norms(factors))
            scale = self.radius / np.maximum(lengths, self.radius) / self.spacing
            scale = np.where(np.isfinite(lengths), scale, 0.0)[:, None, None]
            rounded = np.rint(np.where(scale > 0.0, factors * scale, 0.0))
            # Squares of rows that pass are exact, and so are the entries of their Gram matrix.
            squares = np.einsum("bij,bij->bi", rounded, rounded).max(axis=1)
            gram = np.matmul(rounded, rounded.transpose(0, 2, 1))
            sums = np.einsum("bij,bij->b", gram, gram)
        most = float(self.longest) ** 2
        within = (squares <= most) & (sums <= most**2 * (1.0 - _SLACK))
        rounded[~within] = 0.0
        return rounded.reshape(-1, self.dim)
