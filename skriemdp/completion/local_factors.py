"""What a user computes from his own row, bias and factors; a private vote on their ridge."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp._validation import check_positive
from skriemdp.completion.item_effects import BIAS_PENALTY, RESIDUAL_VARIANCE
from skriemdp.completion.problem import LocalFit, outer_products, row_blocks
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.vector import GaussianNoise
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.sensitivity import ball_sensitivity, mean_sensitivity

__all__ = ["RidgeVote", "local_coordinates", "log_evidence"]

# Weight of the public guess of the residual variance, in halves of an observation.
_VARIANCE_SHAPE = 2.0


def _design(subspace):
    return np.hstack([np.ones((len(subspace), 1)), subspace])


def _penalties(subspace, ridge):
    return np.concatenate([[BIAS_PENALTY], np.full(subspace.shape[1], ridge)])


def local_coordinates(matrix, subspace, ridge: float):
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


def log_evidence(matrix, subspace, ridges):
    """Log marginal likelihood of each row under each ridge, shape ``(n, len(ridges))``.

    Rows are ``1 bias + W v + noise`` with Gaussian bias and v, whose variances are the noise
    variance over the penalties, and an inverse-gamma prior of the noise variance.  The first column
    of ones and an infinite ridge mean a bias alone.
    """
    finite = [ridge for ridge in ridges if math.isfinite(ridge)]
    pieces = []
    for block in row_blocks(matrix):
        columns = dict.fromkeys(ridges)
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


def _evidence(fit, penalties):
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
    all, scaled to norm at most `bound`; the noisy mean of the votes is released and its largest
    entry wins, or no subspace if every entry is below zero.

    Parameters
    ----------
    noise_multiplier : float
        Noise over the replace-one sensitivity ``2 bound / n`` of the mean.
    bound : float

    Notes
    -----
    *Guarantee*: exactly ``1 / noise_multiplier``-GDP, n public; the choice is post-processing.
    """

    noise_multiplier: float
    bound: float = 2.0

    def __post_init__(self):
        check_positive(noise_multiplier=self.noise_multiplier, bound=self.bound)

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return GaussianEvent(self.noise_multiplier)

    def sigma(self, n: int) -> float:
        """Noise of every entry of the mean vote."""
        return self._noise(n).sigma

    def _noise(self, n):
        sensitivity = mean_sensitivity(ball_sensitivity(self.bound), n)
        return GaussianNoise(sensitivity, self.noise_multiplier)

    def release(self, matrix, subspace, ridges, rng):
        """Mean votes for `ridges` (finite ones), shape ``(len(ridges),)``."""
        n = matrix.shape[0]
        votes = log_evidence(matrix, subspace, [*ridges, math.inf])
        votes = votes[:, :-1] - votes[:, -1:]
        total = Ball(self.bound).enforce(votes).sum(axis=0)
        return self._noise(n).release(total / n, rng)
