"""The users' private vote on the ridge of their own factors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from skriemdp.completion.local_factors import log_evidence
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.held import VectorSet, ball
from skriemdp.mechanisms.sum import private_sum
from skriemdp.mechanisms.units import Units

__all__ = ["ballots", "voted_ridges"]

# Bound of the norm of a user's vote.
_VOTE_BOUND = 2.0


def ballots(n_ridges: int) -> VectorSet:
    """What holds a user's vote."""
    return ball(Ball(_VOTE_BOUND), n_ridges)


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
    units, held = Units((votes[:, :-1] - votes[:, -1:],)), ballots(len(ridges))
    return private_sum(units, lambda rows: rows, held, mu, rng).value / len(votes)
