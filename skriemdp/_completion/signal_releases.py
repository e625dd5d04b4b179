"""Is there a subspace worth paying for, and how much of it?  Private numbers that tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skriemdp._completion.local_factors import log_evidence
from skriemdp._completion.problem import normalized_rows
from skriemdp._mechanisms.bounded_sets import Moment, VectorSet, ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.counts import GaussianNumber
from skriemdp._mechanisms.sum import PLAIN_STEPS, integer_total, private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._validation import check_count, check_positive
from skriemdp.privacy._sensitivity import Sensitivity, leading_eigenvalues_sensitivity

# Number of items in the moment whose eigenvalues are released, at a cost of O(512^3) once.
SIGNAL_ITEMS = 512


@dataclass(frozen=True)
class SignalTest:
    """Noisy sum of the `rank` largest eigenvalues of the hollow moment of the normalised rows.

    Parameters
    ----------
    rank : int
    n : int
        Number of rows.
    mu : float

    Notes
    -----
    *Guarantee*: mu-GDP.  The sum is ``max tr(U' M U)`` over orthonormal U of
    `rank` columns, and a row z with ``|z| <= 1`` adds ``|U'z|^2 - sum_j z_j^2 |U_j|^2`` to it,
    which lies in [-1, 1]; the maximum of functions that move by at most 2 moves by at most 2.  Only
    one number is released, so it does not feel the dimension, unlike the matrix.

    M is an exact sum of integers, of a public choice of at most `SIGNAL_ITEMS` items, and all its
    eigenvalues are computed: no iteration whose length, or whose blind spots, depend on the
    records.  Time O(n p^2 + p^3).
    """

    rank: int
    n: int
    mu: float

    def __post_init__(self) -> None:
        check_count(rank=self.rank, n=self.n)
        check_positive(mu=self.mu)

    @property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity of the computed sum: no eigenvalue of M exceeds n."""
        # LAPACK's eigenvalues of a symmetric p x p matrix are those of one within c p u |M|, and c,
        # which is about 1, is taken for 64.
        return leading_eigenvalues_sensitivity(self.rank * 2.0**-47 * SIGNAL_ITEMS * self.n)

    def release(self, units: Units, rng: np.random.Generator) -> float:
        """The noisy sum of the rows of one CSR matrix, of the public items."""
        return GaussianNumber(self.sensitivity, self.mu).release(self.value(units), rng)

    def value(self, units: Units) -> float:
        """The sum without noise, not private."""
        moment = _hollow_integers(units)
        return float(np.linalg.eigvalsh(moment)[-self.rank :].sum())


def _hollow_integers(units: Units) -> np.ndarray:
    """Hollow moment of the rows, normalised; exact up to its last division."""
    bounded_set = Moment(1.0, units.arrays[0].shape[1])
    total = integer_total(
        units, lambda rows: normalized_rows(rows).toarray(), bounded_set, PLAIN_STEPS
    )
    moment = (
        total.astype(float) / bounded_set.longest(PLAIN_STEPS) ** 2
    )  # integer rows are no longer
    np.fill_diagonal(moment, 0.0)
    return moment


def whole_spectrum(total: float, popularity: np.ndarray, columns: np.ndarray) -> float:
    """Extrapolate a sum of leading eigenvalues from the items in `columns` to all items.

    Post-processing.  Users whose chance of rating item j is proportional to ``q_j`` give a subspace
    eigenvalues proportional to ``m sum q_j^2``, where q adds up to one and m is their number of
    ratings; `columns` see the share of m, and the renormalised q.
    """
    part = popularity[columns]
    share = part.sum() / popularity.sum()
    return float(total * share * np.sum(popularity**2) / np.sum(part**2))


def ballots(n_ridges: int) -> VectorSet:
    """Return the ball to which a user's vector of log evidences is clipped."""
    return ball(Ball(2.0), n_ridges)


def voted_ridges(
    matrix: sparse.csr_array,
    subspace: np.ndarray,
    ridges: Sequence[float],
    mu: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Noisy mean votes for `ridges` (finite ones), shape ``(len(ridges),)``.

    A user's vote is the vector of log evidences of the finite ridges, minus that of no subspace at
    all, scaled to norm at most 2; the largest entry wins, or no subspace if every entry is below
    zero.

    *Guarantee*: mu-GDP, n public; the choice is post-processing.
    """
    votes = log_evidence(matrix, subspace, [*ridges, math.inf])
    units, bounded_set = Units((votes[:, :-1] - votes[:, -1:],)), ballots(len(ridges))
    return private_sum(units, lambda rows: rows, bounded_set, mu, rng).value / len(votes)
