"""The users' private vote on the ridge of their own factors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse

from skriemdp._validation import check_positive
from skriemdp.completion.local_factors import log_evidence
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.sums import noisy_sum
from skriemdp.privacy.events import GaussianEvent

__all__ = ["VOTE_BOUND", "RidgeVote"]

# Bound of the norm of a user's vote.
VOTE_BOUND = 2.0


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
