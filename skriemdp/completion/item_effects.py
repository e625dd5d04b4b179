"""Item effects of a rating matrix from noisy sums and counts; a user's bias from his own row."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import log_ndtr

from skriemdp._validation import check_positive
from skriemdp.mechanisms.counts import SumsAndCounts
from skriemdp.mechanisms.vector import GaussianNoise
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.sensitivity import histogram_sensitivity

__all__ = [
    "BIAS_PENALTY",
    "DyadicMedian",
    "ItemEffects",
    "RESIDUAL_VARIANCE",
    "centered_values",
    "overall_level",
    "row_sums",
    "share_within_bound",
    "user_biases",
]

# A user's bias counts as much as four of his ratings: residual variance over bias variance.
BIAS_PENALTY = 4.0
# Deviations of a rating from its user's mean are cut here, in units of half the rating range: below
# their usual spread, because noise grows with the bound faster than the signal does.
DEVIATION_BOUND = 0.4
# Variance of a cut deviation within an item, a public guess.
_CUT_VARIANCE = 0.1
# Public guess of the share of deviations that are not cut, its spread, and the least one used.
_SHARE_GUESS, _SHARE_SPREAD, _SHARE_LEAST = 0.6, 0.15, 0.4
# Residual variance of one rating, in the same units squared.
RESIDUAL_VARIANCE = 0.2


def row_sums(matrix, values):
    """Sum of `values` (one per stored entry of the CSR `matrix`) over each row."""
    # Differences of a cumulative sum would let one row's rounding reach another row.
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.bincount(rows, weights=values, minlength=matrix.shape[0])


def centered_values(matrix, effects, biases):
    """Stored entries minus item effect and user bias, in the order of ``matrix.data``."""
    return matrix.data - effects[matrix.indices] - np.repeat(biases, np.diff(matrix.indptr))


def user_biases(matrix, effects, penalty: float = BIAS_PENALTY):
    """Each user's mean deviation from the effects of the items he rated, shrunk towards zero."""
    deviations = row_sums(matrix, matrix.data - effects[matrix.indices])
    return deviations / (np.diff(matrix.indptr) + penalty)


@dataclasses.dataclass(frozen=True)
class DyadicMedian:
    """A typical size: noisy histogram of ``log2`` of a number per record, and its median.

    Parameters
    ----------
    low, high : int
        Bins are ``[2**(k/2), 2**((k+1)/2))`` for half-steps between ``2**low`` and ``2**high``;
        numbers outside count in the outer bins.
    noise_multiplier : float
        Noise over the replace-one sensitivity ``sqrt(2)``: a record leaves one bin for another.

    Notes
    -----
    *Guarantee*: exactly ``1 / noise_multiplier``-GDP under replacement of one record.  The median
    is post-processing of the noisy histogram.
    """

    low: int
    high: int
    noise_multiplier: float

    def __post_init__(self):
        check_positive(noise_multiplier=self.noise_multiplier)

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return GaussianEvent(self.noise_multiplier)

    @property
    def sigma(self) -> float:
        """Noise of each bin, in records."""
        return self._noise.sigma

    @property
    def _noise(self):
        return GaussianNoise(histogram_sensitivity(), self.noise_multiplier)

    def release(self, numbers, rng) -> float:
        """Noisy median of nonnegative `numbers`, one per record; a power of ``2**(1/4)``."""
        n_bins = 2 * (self.high - self.low)
        with np.errstate(divide="ignore"):
            steps = np.floor(2.0 * (np.log2(numbers) - self.low))
        bins = np.clip(np.nan_to_num(steps, nan=0.0), 0, n_bins - 1).astype(int)
        noisy = self._noise.release(np.bincount(bins, minlength=n_bins), rng)
        # The n records are in some bin, so the cumulated counts run from 0 to the public n; the
        # bridge of the partial sums from both ends halves the noise in the middle.
        upward, total = np.cumsum(noisy), float(len(numbers))
        weight = np.arange(1, n_bins + 1) / n_bins
        bridge = upward - weight * (upward[-1] - total)
        middle = int(np.argmax(bridge >= total / 2))
        return float(2.0 ** (self.low + (middle + 0.5) / 2.0))


@dataclasses.dataclass(frozen=True)
class ItemEffects:
    """DP item effects: weighted sums and counts of every item together, in one or two instalments.

    Parameters
    ----------
    typical_count : float
        Typical number of ratings of a user, public or released; ``tau**2 = weight_share * count``.
    weight_share : float

    Notes
    -----
    Values are ratings in units of half their range, 0 in the middle: ``|x_ij| <= 1``.  User i has
    weight ``w_i = min(1, tau / sqrt(m_i))`` and adds ``w_i clip(x_ij - own mean, +-0.4)`` and
    ``w_i`` to the items he rated; the pair is released jointly with sensitivity ``2 tau`` on the
    counts, which cost nothing (`SumsAndCounts`).  Two releases of the same totals, averaged with
    weights ``mu^2``, are as good as one of the combined mu: what another purpose did not need can
    be spent here later without loss.

    Cutting shrinks effects: the mean of ``clip(y + b)`` moves with b at the rate of the share of
    deviations that are not cut (the derivative at b = 0), which `share_within_bound` releases and
    `effects` divides by.
    """

    typical_count: float
    weight_share: float = 0.5

    @property
    def tau(self) -> float:
        """Bound of the norm of a user's weights over the items."""
        return max(1.0, math.sqrt(self.weight_share * self.typical_count))

    def mechanism(self, mu: float) -> SumsAndCounts:
        """The release of the totals at this mu."""
        return SumsAndCounts(DEVIATION_BOUND, 1.0 / mu, weight=self.tau)

    def totals(self, matrix, level: float):
        """Exact weighted sums of deviations, and weighted counts, of every item; not private."""
        counts = np.diff(matrix.indptr)
        weights = np.minimum(1.0, self.tau / np.sqrt(np.maximum(counts, 1)))
        weights = np.repeat(weights, counts)
        deviations = _deviations(matrix, level)
        np.clip(deviations, -DEVIATION_BOUND, DEVIATION_BOUND, out=deviations)
        d = matrix.shape[1]
        sums = np.bincount(matrix.indices, weights=weights * deviations, minlength=d)
        return sums, np.bincount(matrix.indices, weights=weights, minlength=d)

    def effects(self, sums, counts, mu: float, uncut: float):
        """Effects around the level from totals released with `mu` in all; post-processing.

        Posterior mean given the noisy sum and count, prior N(0, v) with the v that maximises the
        likelihood of the released sums.
        """
        mechanism = self.mechanism(mu)
        masses = posterior_counts(counts, mechanism.count_sigma)
        noise = _CUT_VARIANCE * masses + mechanism.sum_sigma**2
        grid = np.geomspace(1e-4, 0.5, 60)
        variances = grid[:, None] * masses**2 + noise
        likelihood = -0.5 * (sums**2 / variances + np.log(variances)).sum(axis=1)
        prior = float(grid[np.argmax(likelihood)])
        return prior * masses * sums / (prior * masses**2 + noise) / uncut


def share_within_bound(matrix, level: float, noise_multiplier: float, rng) -> float:
    """Noisy share of deviations within `DEVIATION_BOUND`, averaged over users, in [0.4, 1].

    The noisy share is averaged with a public guess, by precision.
    *Guarantee*: exactly ``1 / noise_multiplier``-GDP (`SumsAndCounts`, one group, bound 1).
    """
    counts = np.diff(matrix.indptr)
    inside = np.abs(_deviations(matrix, level)) <= DEVIATION_BOUND
    shares = row_sums(matrix, inside.astype(float)) / np.maximum(counts, 1)
    mechanism = SumsAndCounts(1.0, noise_multiplier)
    exact = np.array([shares.sum()]), np.array([float((counts > 0).sum())])
    total, present = mechanism.release(*exact, rng)
    users = max(float(present[0]), 1.0)
    precision, prior = (users / mechanism.sum_sigma) ** 2, _SHARE_SPREAD**-2
    share = (precision * total[0] / users + prior * _SHARE_GUESS) / (precision + prior)
    return float(np.clip(share, _SHARE_LEAST, 1.0))


def _deviations(matrix, level):
    """Ratings minus their user's own mean, shrunk towards the level."""
    counts = np.diff(matrix.indptr)
    own = row_sums(matrix, matrix.data)
    shrunk = level + (own - counts * level) / (counts + BIAS_PENALTY)
    return matrix.data - np.repeat(shrunk, counts)


def overall_level(matrix, noise_multiplier: float, rng) -> float:
    """Noisy mean, over the users who rated anything, of a user's own mean rating; in [-1, 1].

    *Guarantee*: exactly ``1 / noise_multiplier``-GDP (`SumsAndCounts`, one group, bound 1).
    """
    counts = np.diff(matrix.indptr)
    rated = counts > 0
    means = np.divide(row_sums(matrix, matrix.data), counts, out=np.zeros(len(counts)), where=rated)
    total, users = np.array([means.sum()]), np.array([float(rated.sum())])
    total, users = SumsAndCounts(1.0, noise_multiplier).release(total, users, rng)
    return float(np.clip(total[0] / max(users[0], 1.0), -1.0, 1.0))


def posterior_counts(counts, sigma: float):
    """Posterior mean of nonnegative counts seen with noise `sigma`, exponential prior.

    The prior mean is the mean of the released counts (at least its own standard error, at least 1).
    """
    mean = max(float(np.mean(counts)), sigma / math.sqrt(len(counts)), 1.0)
    shifted = (counts - sigma**2 / mean) / sigma
    # Mean of a normal truncated to the positive axis: m + s * hazard(-m/s), safe in the far tail.
    hazard = np.exp(-0.5 * shifted**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(shifted))
    return np.maximum(sigma * (shifted + hazard), 1e-3)
