"""Item effects of a rating matrix from noisy sums and counts; a user's bias from his own row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import log_ndtr

from skriemdp._completion.problem import Users, with_data
from skriemdp._mechanisms.bounded_sets import VectorSet, labelled
from skriemdp._mechanisms.quantile import PrivateQuantile, log_grid, log_normal_weights
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units

# Assumed ratio of residual variance to the variance of users' biases: a bias is shrunk as if the
# user had so many more ratings of average value.
BIAS_PENALTY = 4.0
# Clipping bound of a rating's deviation from its user's mean, in units of half the rating range;
# below their usual spread, because noise grows with the bound faster than the signal does.
DEVIATION_BOUND = 0.4
# Prior mean and standard deviation of the share of deviations within the bound, and its floor.
_SHARE_GUESS, _SHARE_SPREAD, _SHARE_LEAST = 0.6, 0.15, 0.4
# Residual variance of one rating, in the same units squared.
RESIDUAL_VARIANCE = 0.2
# Users' own means, and how many users have one.
LEVEL = labelled(1.0, 1, 1)
# Item effects rise by b per log(count + 5) around a: prior variances of a and b.
_OFFSET_VARIANCE, _SLOPE_VARIANCE, _COUNT_SHIFT = 0.05, 0.02, 5.0
# Numbers of ratings of a user: grid, and median and spread of the log-normal prior.
_COUNT_GRID = log_grid(1.0, 2.0**20, 2.0**0.25)
_COUNT_MEDIAN, _COUNT_SPREAD = 50.0, 1.3


def row_sums(matrix: sparse.csr_array, values: np.ndarray) -> np.ndarray:
    """Sum of `values` (one per stored entry of the CSR `matrix`) over each row."""
    # Differences of a cumulative sum would let one row's rounding reach another row.
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.bincount(rows, weights=values, minlength=matrix.shape[0])


def centered_values(
    matrix: sparse.csr_array, effects: np.ndarray, biases: np.ndarray
) -> np.ndarray:
    """Stored entries minus item effect and user bias, in the order of ``matrix.data``."""
    return matrix.data - effects[matrix.indices] - np.repeat(biases, np.diff(matrix.indptr))


def user_biases(matrix: sparse.csr_array, effects: np.ndarray) -> np.ndarray:
    """Each user's mean deviation from the effects of the items he rated, shrunk towards zero."""
    deviations = row_sums(matrix, matrix.data - effects[matrix.indices])
    return deviations / (np.diff(matrix.indptr) + BIAS_PENALTY)


def typical_count(matrix: sparse.csr_array, mu: float, rng: np.random.Generator) -> float:
    """Private median of the numbers of ratings of the users, between 1 and the number of items.

    *Guarantee*: mu-GDP (:class:`skriemdp._mechanisms.quantile.PrivateQuantile`).
    """
    prior = log_normal_weights(_COUNT_GRID, _COUNT_MEDIAN, _COUNT_SPREAD)
    quantile = PrivateQuantile(_COUNT_GRID, 0.5, mu, prior)
    median = quantile.release(np.diff(matrix.indptr), rng)
    return min(max(float(median), 1.0), float(matrix.shape[1]))


def effect_strength(n: int, d: int, mu: float, typical: float) -> float:
    """Spread of item effects over the noise of one, from public and released numbers.

    With weights ``w = sqrt(1/2)`` an item collects ``w n m / d`` and noise ``.8 sqrt(m/2) / mu``; a
    share .6 of the deviations is not cut, so its effect has the noise ``1.33 d / (n mu sqrt(m))``
    in units of half the range, against a spread of about .4 (docs/theory/completion.md).
    """
    # Spread of item effects over the noise of one that every user's t sqrt(m) / d ratings leave.
    return 0.31 * n * mu * math.sqrt(typical) / d


@dataclass(frozen=True)
class ItemEffects:
    """DP item effects: weighted sums and counts of every item together, in one or two instalments.

    Parameters
    ----------
    typical_count : float
        Released typical number of ratings of a user; ``tau**2`` is half of it.
    mu : float
        Of one release, or of all that were averaged.

    Notes
    -----
    Values are ratings in units of half their range, 0 in the middle: ``|x_ij| <= 1``.  User i has
    weight ``w_i = min(1, tau / sqrt(m_i))`` and adds ``w_i clip(x_ij - own mean, +-0.4)`` and
    ``w_i`` to the items he rated; the pair is released jointly with sensitivity ``2 tau`` on the
    counts, which cost nothing (:func:`skriemdp._mechanisms.bounded_sets.labelled`).  Two releases
    of the same totals, averaged with weights ``mu^2``, are as good as one of the combined mu: what
    another purpose did not need can be spent here later without loss.

    Cutting shrinks effects: the mean of ``clip(y + b)`` moves with b at the rate of the share of
    deviations that are not cut (the derivative at b = 0), which `share_within_bound` releases and
    `effects` divides by.
    """

    typical_count: float
    mu: float

    @property
    def tau(self) -> float:
        """Bound of the norm of a user's weights over the items."""
        # Half of the typical count: more would count active users fully, for more noise.
        return max(1.0, math.sqrt(0.5 * self.typical_count))

    def bounded_set(self, n_items: int) -> VectorSet:
        """Return the set to which a user's deviations and weights are clipped."""
        return labelled(DEVIATION_BOUND, 1, n_items, self.tau)

    def release(self, units: Units, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Noisy sums and counts of every item, of users' deviations; mu-GDP."""
        bounded_set = self.bounded_set(units.arrays[0].matrix.shape[1])
        total = private_sum(units, _entries, bounded_set, self.mu, rng).value
        return DEVIATION_BOUND * total[:, 0], total[:, 1]

    def effects(
        self, sums: np.ndarray, counts: np.ndarray, uncut: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Effects around the level from released totals, and counts.

        Post-processing: posterior means.  Effects have the prior ``N(a + b x, v)``, x the logarithm
        of 5 plus the posterior count, less its mean; a and b are normal around zero with variances
        .05 and .02, v maximises the likelihood of the released sums.
        """
        sigma = self.bounded_set(len(sums)).bound.value / self.mu
        masses = posterior_counts(counts, sigma)
        # The variance of a cut deviation within an item is guessed, .1.
        noise = 0.1 * masses + (DEVIATION_BOUND * sigma) ** 2
        logs = np.log(masses + _COUNT_SHIFT)
        design = masses * np.stack([np.ones_like(logs), logs - logs.mean()])
        variances = np.geomspace(1e-4, 0.5, 60)
        weights = 1.0 / (variances[:, None] * masses**2 + noise)
        precision = np.diag([1.0 / _OFFSET_VARIANCE, 1.0 / _SLOPE_VARIANCE])
        grams = np.einsum("vd,id,jd->vij", weights, design, design, optimize=True) + precision
        moments = (weights * sums) @ design.T
        lines = np.linalg.solve(grams, moments[:, :, None])[:, :, 0]
        likelihood = np.einsum("vi,vi->v", moments, lines) - weights @ sums**2
        likelihood += np.log(weights).sum(axis=1) - np.linalg.slogdet(grams)[1]
        best = int(np.argmax(likelihood))
        variance, means = variances[best], lines[best] @ design
        gain = variance * masses / (variance * masses**2 + noise)
        return (means / masses + gain * (sums - means)) / uncut, masses


def share_within_bound(
    matrix: sparse.csr_array, level: float, mu: float, rng: np.random.Generator
) -> float:
    """Noisy share of deviations within `DEVIATION_BOUND`, averaged over users, in [0.4, 1].

    The noisy share is averaged with a public guess, by precision.
    *Guarantee*: mu-GDP.
    """
    inside = np.abs(_deviations(matrix, level)) <= DEVIATION_BOUND
    total, users, sigma = _mean_of_rows(matrix, inside.astype(float), mu, rng)
    precision, prior = (users / sigma) ** 2, _SHARE_SPREAD**-2
    share = (precision * total / users + prior * _SHARE_GUESS) / (precision + prior)
    return float(np.clip(share, _SHARE_LEAST, 1.0))


def clipped_ratings(
    matrix: sparse.csr_array, mu: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Noisy share of ratings outside [-1, 1], averaged over users, and its standard deviation.

    *Guarantee*: mu-GDP.
    """
    # A rating at the end of the range may lie beyond it by the rounding of its scale.
    outside = np.abs(matrix.data) > 1.0 + 1e-9
    # From -1 to 1, the range that the sum is held in.
    total, users, sigma = _mean_of_rows(matrix, 2.0 * outside - 1.0, mu, rng)
    return (total / users + 1.0) / 2.0, sigma / (2.0 * users)


def overall_level(matrix: sparse.csr_array, mu: float, rng: np.random.Generator) -> float:
    """Noisy mean, over the users who rated anything, of a user's own mean rating; in [-1, 1].

    Shrunk towards the middle of the range by the public precision of the noise.
    *Guarantee*: mu-GDP.
    """
    total, users, sigma = _mean_of_rows(matrix, matrix.data, mu, rng)
    # The spread of a level about the middle of the range is guessed, .3.
    gain = 1.0 / (1.0 + (sigma / (users * 0.3)) ** 2)
    return float(np.clip(gain * total / users, -1.0, 1.0))


def _mean_of_rows(
    matrix: sparse.csr_array, values: np.ndarray, mu: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Noisy sum of the rows' means of `values` in [-1, 1], number of rows with any, noise."""
    counts = np.diff(matrix.indptr)
    rated = counts > 0
    means = row_sums(matrix, values)[rated] / counts[rated]
    units = Units((means[:, None], np.zeros(len(means), dtype=np.intp)))
    noisy = private_sum(units, lambda *rows: rows, LEVEL, mu, rng)
    total, users = noisy.value[0].tolist()
    return total, min(max(users, 1.0), float(matrix.shape[0])), noisy.sigma


def user_deviations(matrix: sparse.csr_array, level: float) -> Units:
    """Users, with their ratings' deviations for :meth:`ItemEffects.release`."""
    return Units((Users(with_data(matrix, _deviations(matrix, level))),))


def _entries(block: sparse.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, items, and how many of them each user has."""
    return block.data[:, None], block.indices, np.diff(block.indptr)


def _deviations(matrix: sparse.csr_array, level: float) -> np.ndarray:
    """Ratings minus their user's own mean, shrunk towards the level."""
    counts = np.diff(matrix.indptr)
    own = row_sums(matrix, matrix.data)
    shrunk = level + (own - counts * level) / (counts + BIAS_PENALTY)
    return matrix.data - np.repeat(shrunk, counts)


def posterior_counts(counts: np.ndarray, sigma: float) -> np.ndarray:
    """Posterior mean of nonnegative counts seen with noise `sigma`, exponential prior.

    The prior mean is the mean of the released counts (at least its own standard error, at least 1).
    """
    mean = max(float(np.mean(counts)), sigma / math.sqrt(len(counts)), 1.0)
    shifted = (counts - sigma**2 / mean) / sigma
    # Mean of a normal truncated to the positive axis: m + s * hazard(-m/s), safe in the far tail.
    hazard = np.exp(-0.5 * shifted**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(shifted))
    return np.maximum(sigma * (shifted + hazard), 1e-3)
