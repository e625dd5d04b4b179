"""What a user computes from his own row, bias and factors; a private vote on their ridge."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse

from skriemdp._validation import check_positive
from skriemdp.completion.item_effects import BIAS_PENALTY, RESIDUAL_VARIANCE
from skriemdp.completion.problem import LocalFit, outer_products, row_blocks
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.sums import noisy_sum
from skriemdp.privacy.events import GaussianEvent

__all__ = ["VOTE_BOUND", "RidgeVote", "local_coordinates", "log_evidence"]

# Weight of the public guess of the residual variance, in halves of an observation.
_VARIANCE_SHAPE = 2.0
# Bound of the norm of a user's vote.
VOTE_BOUND = 2.0


def _design(subspace: np.ndarray) -> np.ndarray:
    return np.hstack([np.ones((len(subspace), 1)), subspace])


def _penalties(subspace: np.ndarray, ridge: float) -> np.ndarray:
    return np.concatenate([[BIAS_PENALTY], np.full(subspace.shape[1], ridge)])


def local_coordinates(matrix: sparse.csr_array, subspace: np.ndarray, ridge: float) -> np.ndarray:
    """Bias and factors of every row of `matrix` (item effects removed), shape ``(n, 1 + r)``.

    One ridge regression per row on a column of ones and the columns of `subspace`; an infinite
    ridge leaves the factors at zero.
    """
    n, (d, rank) = matrix.shape[0], subspace.shape
    if math.isinf(ridge) or rank == 0:
        subspace = np.zeros((d, 0))
    design, penalties = _design(subspace), _penalties(subspace, ridge)
    outer = outer_products(design)
    result = np.zeros((n, 1 + rank))
    begin = 0
    for block in row_blocks(matrix):
        factors = LocalFit(block, design, outer, penalties).factors
        result[begin : begin + len(factors), : factors.shape[1]] = factors
        begin += len(factors)
    return result


def log_evidence(
    matrix: sparse.csr_array, subspace: np.ndarray, ridges: Sequence[float]
) -> np.ndarray:
    """Log marginal likelihood of each row under each ridge, shape ``(n, len(ridges))``.

    Rows are ``1 bias + W v + noise`` with Gaussian bias and v, whose variances are the noise
    variance over the penalties, and an inverse-gamma prior of the noise variance.  The first column
    of ones and an infinite ridge mean a bias alone.
    """
    finite = [ridge for ridge in ridges if math.isfinite(ridge)]
    pieces = []
    for block in row_blocks(matrix):
        columns: dict[float, np.ndarray] = {}
        for basis, group in ((subspace, finite), (subspace[:, :0], [math.inf])):
            design, fit = _design(basis), None
            for ridge in group:
                penalties = _penalties(basis, ridge)
                if fit is None:
                    fit = LocalFit(block, design, outer_products(design), penalties)
                else:
                    fit.refit(penalties)
                columns[ridge] = _evidence(fit, penalties)
        pieces.append(np.stack([columns[ridge] for ridge in ridges], axis=1))
    return np.concatenate(pieces)


def _evidence(fit: LocalFit, penalties: np.ndarray) -> np.ndarray:
    shape = _VARIANCE_SHAPE
    explained = np.einsum("ir,ir->i", fit.factors, fit.moments)
    rest = np.maximum(fit.squares - explained, 0.0)
    log_volume = np.linalg.slogdet(fit.regularized)[1] - np.log(penalties).sum()
    log_scale = np.log(shape * RESIDUAL_VARIANCE + 0.5 * rest)
    return -0.5 * log_volume - (0.5 * fit.counts + shape) * log_scale


@dataclasses.dataclass(frozen=True)
class RidgeVote:
    """Private choice of the ridge: users vote with the log evidence of their own rows.

    A user's vote is the vector of log evidences of the finite ridges, minus that of no subspace at
    all, scaled to norm at most 2; the noisy mean of the votes is released and its largest entry
    wins, or no subspace if every entry is below zero.

    Parameters
    ----------
    noise_multiplier : float
        Noise over the replace-one sensitivity ``4 / n`` of the mean.
    exact : bool, default=False
        Votes and noise are integers.

    Notes
    -----
    *Guarantee*: exactly ``1 / noise_multiplier``-GDP, n public; the choice is post-processing.
    """

    noise_multiplier: float
    exact: bool = False

    def __post_init__(self) -> None:
        check_positive(noise_multiplier=self.noise_multiplier)

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return GaussianEvent(self.noise_multiplier)

    def release(
        self,
        matrix: sparse.csr_array,
        subspace: np.ndarray,
        ridges: Sequence[float],
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Mean votes for `ridges` (finite ones), shape ``(len(ridges),)``."""
        votes = log_evidence(matrix, subspace, [*ridges, math.inf])
        ballots = _Ballots(votes[:, :-1] - votes[:, -1:])
        return noisy_sum(ballots, self.noise_multiplier, rng, exact=self.exact) / ballots.n


@dataclasses.dataclass(frozen=True, eq=False)
class _Ballots:
    """One vote per row, in a public ball."""

    votes: np.ndarray
    bound = Ball(VOTE_BOUND)

    @property
    def n(self) -> int:
        return len(self.votes)

    @property
    def dim(self) -> int:
        return self.votes.shape[1]

    @property
    def longest_block(self) -> int:
        return self.n

    def blocks(self, indices: np.ndarray | None = None) -> Iterator[np.ndarray]:
        yield self.votes if indices is None else self.votes[indices]

    def total(self, indices: np.ndarray | None = None) -> np.ndarray:
        (rows,) = self.blocks(indices)
        return self.bound.enforce(rows).sum(axis=0)
