"""Where a private PCA centres and clips its rows: found privately, in any unit of measurement."""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.counts import GaussianCount, LaplaceCount
from skriemdp.mechanisms.integers import check_integers
from skriemdp.mechanisms.quantile import ExponentialQuantile, PrivateQuantile
from skriemdp.mechanisms.sums import noisy_sum, sum_sigma
from skriemdp.mechanisms.vector import GaussianNoise, RadialNoise
from skriemdp.privacy.events import GaussianEvent, PureEvent
from skriemdp.privacy.radial import RadialEvent
from skriemdp.privacy.sensitivity import (
    Sensitivity,
    ball_sensitivity,
    interval_sensitivity,
    mean_sensitivity,
)

__all__ = ["BoundsSearch", "GaussianBudget", "PureBudget", "clip_level", "product_quantile"]

# Norms that a search may return: any physical unit, fine enough that rounding to the grid costs
# little.  Around a released centre the norms are known up to a factor, and the grid is shorter.
_RATIO = 1.08
_WIDE = 1e-9 * _RATIO ** np.arange(640.0)
_COARSE = 1e-9 * 1.2 ** np.arange(256.0)
_NEAR = _RATIO ** np.arange(-111.0, 17.0)
_BELOW = _RATIO ** np.arange(-127.0, 1.0)

# Shares of mu**2: the norm about the origin, the effective rank, and the norm that clips
# (docs/user_guide/pca.md).
_ORIGIN_SHARE, _RANK_SHARE, _NORM_SHARE = (0.02, 0.06), 0.01, 0.05
# Before it is measured, the mean squared cosine between two records is about .1 +- .1.
_COSINE, _COSINE_SPREAD = 0.1, 0.1
# Noise of that mean below which more pairs of records are not worth their time.
_COSINE_NOISE = 0.008
_LEVEL = 5.0
# Each mean shrinks the distance to the data by about its noise; four lead from a hundred times the
# spread of the data to the data, where the budget suffices at all.
_MOST_MEANS = 4


class _Budget(abc.ABC):
    """What is left of a fit's budget, as a fraction; never more is taken."""

    def __init__(self, total: float):
        self.total = total
        self.left = 1.0

    def _take(self, share: float) -> float:
        if not 0.0 < share <= self.left:
            raise RuntimeError("the releases of this fit exceed its budget; nothing was released.")
        self.left -= share
        return share

    @abc.abstractmethod
    def take(self, share: float) -> float:
        """The parameter of a release that gets the fraction `share`."""

    @abc.abstractmethod
    def count(self, share: float):
        """Noise for a count of records that gets the fraction `share`."""

    @abc.abstractmethod
    def noise(self, share: float, sensitivity: Sensitivity, dim: int):
        """Noise for a vector of `dim` coordinates that gets the fraction `share`."""

    def rest(self) -> float:
        """The parameter of a release that gets everything left."""
        return self.take(self.left)

    def rest_noise(self, sensitivity: Sensitivity, dim: int):
        """Noise that gets everything left."""
        return self.noise(self.left, sensitivity, dim)


class GaussianBudget(_Budget):
    """Divides the mu**2 of one fit among Gaussian releases, and refuses to divide more than all.

    *Guarantee*: releases with ``sum mu_t^2 <= mu^2`` are mu-GDP together, also when each mu_t is a
    function of the releases before it (Smith and Thakurta 2022).
    """

    pure = False

    @property
    def event(self) -> GaussianEvent:
        """All releases together."""
        return GaussianEvent(1.0 / self.total)

    def take(self, share: float) -> float:
        """The mu of a release that gets the fraction `share` of mu**2."""
        return self.total * math.sqrt(self._take(share))

    def quantile(self, share, grid, level):
        return PrivateQuantile(grid=grid, level=level, mu=self.take(share))

    def count(self, share):
        return GaussianCount(1.0 / self.take(share))

    def noise(self, share, sensitivity, dim):
        return GaussianNoise(sensitivity, 1.0 / self.take(share))


class PureBudget(_Budget):
    """Divides the epsilon of one fit among pure releases; they add up."""

    pure = True

    @property
    def event(self) -> PureEvent:
        """All releases together."""
        return PureEvent(self.total)

    def take(self, share: float) -> float:
        """The epsilon of a release that gets the fraction `share`."""
        return self.total * self._take(share)

    def quantile(self, share, grid, level):
        return ExponentialQuantile(grid=grid, level=level, epsilon=self.take(share))

    def count(self, share):
        return LaplaceCount(self.take(share))

    def noise(self, share, sensitivity, dim):
        return RadialNoise(sensitivity, RadialEvent(dim, 1.0, 1.0 / self.take(share)))


def clip_level(d: int, n_mu: float, effective_rank: float) -> float:
    """Quantile of the row norms at which to clip.

    Clipping at R loses about ``mean((|z|^2 - R^2)_+)`` of the second moment, noise of
    ``sqrt(d) R^2 / (n mu)`` hides as much; their sum with weights kappa and 1 is least where the
    fraction ``sqrt(d) / (kappa n mu)`` of the rows is clipped.  How much a loss turns the leading
    direction depends on the share of the norms that lies in it: kappa is inversely proportional to
    the effective rank, with the constant that was best on the data sets of docs/user_guide/pca.md.
    """
    clipped = _LEVEL * effective_rank * math.sqrt(d) / n_mu
    return float(np.clip(1.0 - clipped, 0.5, 0.998))


@dataclasses.dataclass(frozen=True)
class BoundsSearch:
    """Finds the centre and the clipping norm.

    Parameters
    ----------
    n, d : int
        Numbers of records and features.
    strength : float
        ``mu`` of the fit, or the mu that stands for a pure epsilon; sets levels and shares.
    private_center : bool
        Release a mean; otherwise the rows are taken as centred at zero.
    row_norm : float or None
        Public clipping norm; None searches for one.
    exact : bool, default=False
        Add integers, and discrete Gaussian integers to them (docs/theory/lattice.md).

    Notes
    -----
    *Guarantee*: everything is charged to the budget that `release` divides.  A norm is a noisy
    quantile of the row norms (counts, sensitivity one each); a mean of rows clipped to norm R
    changes by at most ``2 R / n`` when a record is replaced.  What comes later depends on earlier
    releases only, never on a record.
    """

    n: int
    d: int
    strength: float
    private_center: bool
    row_norm: float | None
    exact: bool = False

    def check_integers(self, mu: float) -> None:
        """ValueError where some release has no lattice that is fine enough."""
        if self.private_center:
            check_integers(self.d, 1.0 / (mu * math.sqrt(self.mean_share)))
        check_integers(1, 1.0 / (mu * math.sqrt(_RANK_SHARE)))

    @property
    def _n_mu(self) -> float:
        # The square of the smallest epsilons would be zero; below this nothing is left to tell.
        return max(self.n * self.strength, 1e-100)

    @property
    def mean_share(self) -> float:
        """Share of a mean: its squared noise enters the matrix once per entry, beside R^2/(n mu).

        Entries then have variances in the proportion ``1/(1 - s)`` to ``(4/(s n mu))^2``, smallest
        together at ``s = (32/(n mu)^2)^(1/3)``; shrinkage (below) allows a little less.
        """
        return float(np.clip((16.0 / self._n_mu**2) ** (1 / 3), 0.01, 0.1))

    def release(self, rows, budget, streams):
        """Centre of shape ``(d,)`` and clipping norm."""
        center, rng = np.zeros(self.d), streams("centre and norm")
        if not self.private_center:
            return center, self._norm(rows, center, _WIDE, budget, rng)
        # A clipped mean is a start only; where counts are noisy, a bound too small is the smaller
        # evil, and worth more of the budget.
        n_mu = self._n_mu
        level = float(np.clip(1.0 - 45.0 / n_mu, 0.5, 0.9))
        share = float(np.clip(600.0 / n_mu**2, *_ORIGIN_SHARE))
        bound = _quantile(budget, share, _COARSE, level, rows.squared_norms(center), rows.n, rng)
        center, error = self._mean(rows, center, bound, budget, rng)
        norm = self._norm(rows, center, bound * _NEAR, budget, rng)
        # Data far from the origin leave a rough centre; from there the rows look closer, and one
        # more mean is much better.  Otherwise its share stays with the components.
        for _ in range(_MOST_MEANS - 1):
            harmless = 0.5 * self._matrix_noise * norm**2
            if error <= harmless or norm >= 0.7 * bound or budget.left < 0.5:
                break
            bound = norm
            center, error = self._mean(rows, center, bound, budget, rng)
            norm = self._norm(rows, center, bound * _NEAR, budget, rng)
        return center, norm

    def _mean(self, rows, center, bound, budget, rng):
        """A private mean of the rows about `center`, and its expected squared error from noise."""
        # Far from the data a bound a little too small would shorten every row and miss them all.
        bound = 1.1 * bound
        move, sigma = self._noisy_move(rows, center, bound, budget, rng)
        error = self.d * sigma**2
        keep = 1.0
        # James and Stein: shrinking towards the old centre never hurts on average (d > 2), and
        # leaves nearly no noise where the data are centred already.
        if self.d > 2:
            size = float(move @ move)
            excess = error - 2.0 * sigma**2
            keep = max(0.0, 1.0 - excess / size) if size > 0 else 0.0
        # Times `keep`, the noise is Stein's estimate of the error of the shrunken mean.
        error *= keep
        if keep**2 * float(move @ move) < 0.25 * self._matrix_noise * bound**2:
            keep = 0.0  # closer than the matrix will show; where it was, less has to be computed
        return center + keep * move, error

    def _noisy_move(self, rows, center, bound, budget, rng):
        """A private mean of the offsets from `center`, and the noise of its coordinates."""
        if self.exact:
            query = _RowSum(rows.n, self.d, Ball(bound), lambda: rows.centred(center))
            noise_multiplier = 1.0 / budget.take(self.mean_share)
            noisy = noisy_sum(query, noise_multiplier, rng, exact=True)
            return noisy / self.n, sum_sigma(query, noise_multiplier, exact=True) / self.n
        sensitivity = mean_sensitivity(ball_sensitivity(bound), self.n)
        mechanism = budget.noise(self.mean_share, sensitivity, self.d)
        return mechanism.release(rows.clipped_sum(center, bound) / self.n, rng), mechanism.sigma

    @property
    def _matrix_noise(self):
        """Noise of the second moment, in spectral norm over squared clipping norm (half of it)."""
        return math.sqrt(self.d) / self._n_mu

    def _norm(self, rows, center, grid, budget, rng):
        if self.row_norm is not None:
            return self.row_norm
        rank = self._effective_rank(rows, center, budget, rng)
        level = clip_level(self.d, self._n_mu, rank)
        norms = rows.squared_norms(center)
        return _quantile(budget, _NORM_SHARE, grid, level, norms, rows.n, rng)

    def _effective_rank(self, rows, center, budget, rng):
        """``tr(A)^2 / tr(A^2)``, A the second moment of the rows scaled to norm one.

        It is one over the mean squared cosine between independent rows.  Disjoint pairs of records,
        chosen by position, keep the sensitivity of that mean at one over the number of pairs.
        """
        share = budget.total * (_RANK_SHARE if budget.pure else math.sqrt(_RANK_SHARE))
        enough = math.ceil(1.0 / (share * _COSINE_NOISE))
        most = min(enough, rows.n // 2)
        if self.exact:
            return self._rank(*self._exact_cosine(rows, center, most, budget, rng))
        total, pairs = rows.paired_cosines(center, most)
        if pairs == 0:  # a stream of tables of one row each; the share stays with the rest
            return 1.0 / float(np.clip(_COSINE, 1.0 / self.d, 1.0))
        mechanism = budget.noise(_RANK_SHARE, mean_sensitivity(interval_sensitivity(1.0), pairs), 1)
        noisy = float(mechanism.release(np.array([total / pairs]), rng)[0])
        return self._rank(noisy, mechanism.sigma)

    def _exact_cosine(self, rows, center, most, budget, rng):
        """The mean squared cosine from a sum of integers, and the noise on it."""
        cosines = np.concatenate([np.empty(0), *rows.squared_cosines(center, most)])
        if (pairs := len(cosines)) == 0:  # a stream of tables of one row each
            return _COSINE, math.inf
        # A squared cosine lies within 1/2 of 1/2.
        middle = Ball(0.5, np.array([0.5]))
        query = _RowSum(pairs, 1, middle, lambda: iter([cosines[:, None]]))
        noise_multiplier = 1.0 / budget.take(_RANK_SHARE)
        noisy = float(noisy_sum(query, noise_multiplier, rng, exact=True)[0])
        sigma = sum_sigma(query, noise_multiplier, exact=True) / pairs
        return 0.5 + noisy / pairs, sigma

    def _rank(self, noisy, sigma):
        # Where the noise is large the public guess takes over.
        weight = _COSINE_SPREAD**2 / (_COSINE_SPREAD**2 + sigma**2)
        cosine = weight * noisy + (1.0 - weight) * _COSINE
        return 1.0 / float(np.clip(cosine, 1.0 / self.d, 1.0))


@dataclasses.dataclass(frozen=True, eq=False)
class _RowSum:
    """Rows of all records, in tiles, as a sum of exact integers asks for them."""

    n: int
    dim: int
    bound: Ball
    tiles: Callable[[], Iterator[np.ndarray]]

    def blocks(self, indices=None):
        return self.tiles()


def product_quantile(rows, center, row_norm, frame, budget, share, level, streams, *label):
    """A norm that bounds about the fraction `level` of the terms ``z z' W``."""
    norms = rows.product_norms(center, row_norm, frame)
    rng = streams("product norm", *label)
    return _quantile(budget, share, row_norm**2 * _BELOW, level, norms, rows.n, rng)


def _quantile(budget, share, grid, level, squares, n, rng):
    """Release a quantile of the roots of `squares`, given tile by tile, on a geometric grid."""
    mechanism = budget.quantile(share, tuple(grid.tolist()), level)
    ratio = grid[1] / grid[0]
    # A grid value stands for the interval below it; its middle is as often too small as too large.
    middle = 1.0 / math.sqrt(ratio)
    first = next(squares)
    if len(first) == n and isinstance(mechanism, PrivateQuantile):
        return middle * mechanism.search(lambda t: np.count_nonzero(first <= t * t), n, rng)
    counts = np.zeros(len(grid) + 1, dtype=np.int64)
    scale, shift = 0.5 / math.log(ratio), math.log(grid[0]) / math.log(ratio)
    for tile in itertools.chain([first], squares):
        # Logarithms place a value on the grid much faster than comparisons.
        with np.errstate(divide="ignore"):
            places = np.log(tile)
        places *= scale
        places -= shift
        np.ceil(places, out=places)
        np.clip(places, 0.0, len(grid), out=places)
        counts += np.bincount(places.astype(np.intp), minlength=len(counts))
    return middle * mechanism.release_counts(np.cumsum(counts)[:-1], n, rng)
