"""Private centre and clip norm of a PCA's rows, in any unit of measurement."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skriemdp._location_scale.row_releases import RowRecords
from skriemdp._location_scale.rows import centred_rows
from skriemdp._location_scale.search import james_stein, warn_grid_edge, warn_unsettled
from skriemdp._mechanisms.bounded_sets import VectorSet, ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import COUNT, GaussianBudget, PureBudget
from skriemdp._mechanisms.counts import noisy_fraction
from skriemdp._mechanisms.quantile import noisy_quantile
from skriemdp._mechanisms.sum import plain_sum, private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._mechanisms.vector import LaplaceNoise
from skriemdp._warnings import warn_user
from skriemdp.privacy._laplace import LaplaceEvent
from skriemdp.privacy._sensitivity import mean_sensitivity

if TYPE_CHECKING:
    from skriemdp._location_scale.grouped_rows import GroupedRows
    from skriemdp._location_scale.rows import Rows

    # Records are rows, or people who own several.
    Records = Rows | GroupedRows

Budget = GaussianBudget | PureBudget
# A fresh generator of noise for every label.
Streams = Callable[..., np.random.Generator]

# Norms that a search may return: any physical unit, fine enough that rounding to the grid costs
# little.  Around a released centre the norms are known up to a factor, and the grid is shorter.
_RATIO = 1.08
# Norms about zero or of pairs, in any unit; norms about a released centre, known up to a factor.
_WIDE = 1e-9 * _RATIO ** np.arange(640.0)
_NEAR = _RATIO ** np.arange(-111.0, 17.0)

# Shares of mu**2: the norm about the origin, the effective rank, and the norm that clips.
_ORIGIN_SHARE, _RANK_SHARE, _NORM_SHARE = (0.02, 0.06), 0.01, 0.05
# Of a pure epsilon a norm needs so much over n, for its grid has hundreds of places, and at most
# so much of it; and the margin of ranks above it, over the noise.
_PURE_NORM, _PURE_MOST, _PURE_MARGIN = 60.0, 0.25, 4.0
# Mean squared cosine between two records before it is measured, and its standard deviation:
# effective ranks from five on are likely.
_COSINE, _COSINE_SPREAD = 0.1, 0.1
# A norm clips so many records for each dimension of the data, over the noise.
_LEVEL = 5.0
# Share of mu**2 that the search leaves to the components at least.
LEAST_LEFT = 0.12
# Share that pays for the released fraction of clipped rows, where the norm is public; a share of a
# pure epsilon costs twice as much variance as one of mu**2.
_COUNT_SHARE, _PURE_COUNT_SHARE = 0.01, 0.005
# Where differences of pairs are released: n mu over the root of d.
_PAIRS_FROM, _PAIRS_TO = 6.7, 12.0
# Shares of mu**2 for the rough mean beside them: the norm about the origin, and the mean.
_ROUGH_NORM_SHARE, _ROUGH_MEAN_SHARE = 0.02, 0.03
# Of the norm of the differences: there are few of them.
_PAIR_NORM_SHARE = 0.1
# Names of the releases.
NORM, MEAN, RANK = "norms that clip", "means", "effective rank"
# Means at most.  Each shrinks the distance to the data by about its noise; twelve lead from 1e7
# spreads away to the data, where the budget suffices (benchmarks/raw_data.py --part shift).  A pure
# fit cannot use what a search leaves, and has few.
_MOST_MEANS, _MOST_PURE = 12, 4


def _most_means(budget: Budget) -> int:
    return _MOST_PURE if budget.pure else _MOST_MEANS


def clip_level(d: int, n_mu: float, effective_rank: float) -> float:
    """Quantile of the row norms at which to clip.

    Clipping at R loses about ``mean((|z|^2 - R^2)_+)`` of the second moment, noise of
    ``sqrt(d) R^2 / (n mu)`` hides as much; their sum with weights kappa and 1 is least where the
    fraction ``sqrt(d) / (kappa n mu)`` of the rows is clipped.  How much a loss turns the leading
    direction depends on the share of the norms that lies in it: kappa is inversely proportional to
    the effective rank, with the constant that was best on the data sets of
    ``python benchmarks/pca.py --only utility``.
    """
    clipped = _LEVEL * effective_rank * math.sqrt(d) / n_mu
    return float(np.clip(1.0 - clipped, 0.5, 0.998))


def pairs_are_better(n: int, d: int, n_mu: float) -> bool:
    """Whether differences of disjoint pairs show more than rows about a private mean.

    Pairs need no mean, and have half as many terms.  With less budget than the window names neither
    finds much, with more the means come close.  Two or three records make one difference, which
    has no angle with another.
    """
    return n >= 4 and _PAIRS_FROM <= n_mu / math.sqrt(d) <= _PAIRS_TO


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds that a search found.

    Attributes
    ----------
    rows : Rows
        Whose second moment is released: the records, or differences of pairs.
    center : ndarray of shape (d,)
        Subtracted from `rows`.
    row_norm : float
        They are scaled to this norm.
    mean : ndarray of shape (d,)
        The released mean of the records.
    clipped : tuple of two floats or None
        Released fraction of the records that are longer, and its noise; where the norm is public.
    """

    rows: Records
    center: np.ndarray
    row_norm: float
    mean: np.ndarray
    clipped: tuple[float, float] | None = None


class _Asking(NamedTuple):
    """Records that are queried, with budget and noise."""

    rows: Records
    budget: Budget
    rng: np.random.Generator


@dataclass(frozen=True)
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
    pair_seed : int or None, default=None
        Seed of the public matching whose differences take the place of the centred rows; None
        keeps the rows.
    n_epsilon : float, optional
        Of a fit with pure privacy: n times its epsilon.

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
    pair_seed: int | None = None
    n_epsilon: float | None = None

    @property
    def _n_mu(self) -> float:
        # The square of the smallest epsilons would be zero; below this nothing is left to tell.
        return max(self.n * self.strength, 1e-100)

    @property
    def mean_share(self) -> float:
        """Share of a mean, whose error e adds ``e e'`` to the second moment.

        With ``t = n mu`` the spectral norm ``|e|^2`` is ``4 d R^2 / (s t^2)``, that of the matrix's
        own noise ``2 sqrt(d) R^2 / t``; a weighted sum of both is least for s in proportion to
        ``d^(1/4) / sqrt(t)``.  Where t is too small for any mean to find the data, less is better.
        """
        most = 0.25 if self._n_mu >= _PAIRS_FROM * math.sqrt(self.d) else 0.1
        return float(np.clip(0.5 * self.d**0.25 / math.sqrt(self._n_mu), 0.01, most))

    def reserve(self, budget: Budget) -> None:
        """Take from the budget of a plan all that the search may spend.

        Raises
        ------
        ValueError
            Where integers would be too coarse for some sum.
        """
        paired, norms = self.pair_seed is not None, []
        if self.row_norm is None:
            share = _PAIR_NORM_SHARE if paired else self._norm_share(_NORM_SHARE)
            norms = [(_RANK_SHARE, RANK, 1), (share, NORM, 1)]
        else:
            budget.take(count_share(budget), COUNT, 1)
        first, mean = self._first_shares
        means = [(first, NORM, 1), (mean, MEAN, self.d)] if self.private_center else []
        for share, name, dim in means + norms:
            mu = budget.take(share, name, dim)
            if name != NORM and not budget.pure:
                ball(Ball(1.0), dim).check(mu)
        for _ in range(0 if paired or not self.private_center else _most_means(budget) - 1):
            if not self._affords_more(budget):
                break
            for taken in [(self.mean_share, MEAN, self.d), *norms]:
                budget.take(*taken)

    @property
    def usual_share(self) -> float:
        """Share of ``mu**2`` where the data lie so near that one mean finds them."""
        share = sum(self._first_shares) if self.private_center else 0.0
        if self.row_norm is None:
            paired = self.pair_seed is not None
            share += _PAIR_NORM_SHARE if paired else self._norm_share(_NORM_SHARE)
            share += _RANK_SHARE
        return share

    @property
    def _first_shares(self) -> tuple[float, float]:
        """Shares of the norm about the origin, and of the mean of the rows scaled to it."""
        if self.pair_seed is not None:
            return _ROUGH_NORM_SHARE, _ROUGH_MEAN_SHARE
        origin = float(np.clip(600.0 / self._n_mu**2, *_ORIGIN_SHARE))
        return self._norm_share(origin), self.mean_share

    def _norm_share(self, share: float) -> float:
        """Share of a norm; a pure one of few records needs more than a Gaussian one."""
        if self.n_epsilon is None:
            return share
        return max(share, min(_PURE_NORM / self.n_epsilon, _PURE_MOST))

    def warn_hidden(self) -> None:
        """Warn, from public numbers, where a pure search finds no norm of so few records."""
        least, searches = _PURE_NORM / _PURE_MOST, self.private_center or self.row_norm is None
        if self.n_epsilon is not None and searches and self.n_epsilon < least:
            warn_user(
                f"n times epsilon is {self.n_epsilon:.3g}, and with delta=0 norms of rows are "
                f"found from {least:g} on: what is found may be anything, and so may the "
                "components. Pass a public row_norm and center='assume', use delta > 0, more "
                "records or a larger epsilon."
            )

    def _affords_more(self, budget: Budget) -> bool:
        """Whether one more mean and norm leave the components what they need."""
        share = self.mean_share + _RANK_SHARE + self._norm_share(_NORM_SHARE)
        return budget.remaining - share >= LEAST_LEFT

    def release(self, rows: Records, budget: Budget, streams: Streams) -> Bounds:
        """Rows, centre and clipping norm."""
        query = _Asking(rows, budget, streams("centre and norm"))
        if self.row_norm is None:
            return self._found(query)
        parameter = budget.take(count_share(budget), COUNT, 1)
        found = self._found(query)
        longer = int(np.count_nonzero(RowRecords(found.rows).outside(found.center, found.row_norm)))
        rng = streams("clipped fraction")
        clipped = noisy_fraction(longer, rows.n, parameter, budget.pure, rng)
        return dataclasses.replace(found, clipped=clipped)

    def _found(self, query: _Asking) -> Bounds:
        rows, center = query.rows, np.zeros(self.d)
        if self.pair_seed is not None:
            return self._release_pairs(query)
        if not self.private_center:
            return Bounds(rows, center, self._norm(query, center, _WIDE), center)
        bound, center, error = self._first_mean(query)
        norm = self._norm(query, center, bound * _NEAR)
        # Data far from the origin leave a rough centre; from there the rows look closer, and one
        # more mean is much better.  Otherwise its share stays with the components.
        for _ in range(_most_means(query.budget) - 1):
            harmless = 0.5 * self._matrix_noise * norm**2
            if error <= harmless or norm >= 0.7 * bound or not self._affords_more(query.budget):
                break
            bound = norm
            center, error = self._mean(query, center, bound, self.mean_share)
            norm = self._norm(query, center, bound * _NEAR)
        if self.row_norm is None:
            warn_unsettled(norm, math.sqrt(error / self.d), self.d, norm < 0.2 * bound, "")
        return Bounds(rows, center, norm, center)

    def _release_pairs(self, query: _Asking) -> Bounds:
        """Differences of disjoint pairs, their clipping norm, and one rough mean of the records."""
        _, mean, error = self._first_mean(query)
        pairs = query.rows.pairs(self.pair_seed or 0)
        search = dataclasses.replace(self, n=pairs.n, private_center=False, pair_seed=None)
        center = np.zeros(self.d)
        norm = search._norm(query._replace(rows=pairs), center, _WIDE, _PAIR_NORM_SHARE)
        if error > norm**2:
            warn_user(
                f"mean_ is off by about {math.sqrt(error):.3g} (a private estimate), more than the "
                f"spread of the data, which lie within about {norm:.3g} of their mean; the "
                "components do not depend on it. For mean_ and transform subtract a public point "
                "near the data from the rows, or use more records or a larger epsilon."
            )
        return Bounds(pairs, center, norm, mean)

    def _first_mean(self, query: _Asking) -> tuple[float, np.ndarray, float]:
        """Norm about the origin, mean of the rows scaled to it, and the mean's squared error."""
        # A clipped mean is a start only; where counts are noisy, a bound too small is the smaller
        # evil, and worth more of the budget.
        n_mu, origin = self._n_mu, np.zeros(self.d)
        level = float(np.clip(1.0 - 45.0 / n_mu, 0.5, 0.9))
        shares = self._first_shares
        # Norms of the mean's ball may be coarse.
        coarse = 1e-9 * 1.2 ** np.arange(256.0)
        bound = _quantile(query, origin, shares[0], coarse, level)
        warn_grid_edge(bound, coarse)
        center, error = self._mean(query, origin, bound, shares[1])
        return bound, center, error

    def _mean(
        self, query: _Asking, center: np.ndarray, bound: float, share: float
    ) -> tuple[np.ndarray, float]:
        """A private mean of the rows about `center`, and its expected squared error from noise."""
        # Far from the data a bound a little too small would shorten every row and miss them all.
        bound = 1.1 * bound
        bounded_set, give = ball(Ball(bound), self.d), centred_rows(center)
        rows, budget, rng = query
        move, sigma = noisy_mean(rows.units, give, bounded_set, self.n, budget, share, MEAN, rng)
        # Shrinking leaves nearly no noise where the data are centred already.
        move, left = james_stein(move, sigma)
        if float(move @ move) < 0.25 * self._matrix_noise * bound**2:
            move = 0.0 * move  # closer than the matrix will show: less has to be computed
        return center + move, self.d * left**2

    @property
    def _matrix_noise(self) -> float:
        """Noise of the second moment, in spectral norm over squared clipping norm (half of it)."""
        return math.sqrt(self.d) / self._n_mu

    def _norm(
        self, query: _Asking, center: np.ndarray, grid: np.ndarray, share: float | None = None
    ) -> float:
        if self.row_norm is not None:
            return self.row_norm
        share = self._norm_share(_NORM_SHARE) if share is None else share
        rank = self._effective_rank(query, center)
        return _quantile(query, center, share, grid, clip_level(self.d, self._n_mu, rank))

    def _effective_rank(self, query: _Asking, center: np.ndarray) -> float:
        """``tr(A)^2 / tr(A^2)``, A the second moment of the rows scaled to norm one.

        It is one over the mean squared cosine between independent rows.  Disjoint pairs of records,
        chosen by position, keep the sensitivity of that mean at one over the number of pairs.
        """
        rows, budget, rng = query
        share = budget.total * (_RANK_SHARE if budget.pure else math.sqrt(_RANK_SHARE))
        # With less noise, more pairs of records are not worth their time.
        enough = math.ceil(1.0 / (share * 0.008))
        most = min(enough, rows.n // 2)
        cosines = np.concatenate([np.empty(0), *rows.squared_cosines(center, most)])
        noisy, sigma = _COSINE, math.inf
        if len(cosines):  # a stream of tables of one row each has no pairs
            values = Units((cosines[:, None],))
            noisy, sigma = noisy_number(
                values, lambda v: v, 1.0, len(cosines), budget, _RANK_SHARE, RANK, rng
            )
        # Where the noise is large the public guess takes over.
        weight = _COSINE_SPREAD**2 / (_COSINE_SPREAD**2 + sigma**2)
        cosine = weight * noisy + (1.0 - weight) * _COSINE
        return 1.0 / float(np.clip(cosine, 1.0 / self.d, 1.0))


def _quantile(
    query: _Asking, center: np.ndarray, share: float, grid: np.ndarray, level: float
) -> float:
    """A private quantile of the distances to `center`."""
    rows, budget, rng = query
    if budget.pure:
        # Each place beyond all rows is as likely as those ranks are few.
        above = 2.0 * (math.log(len(grid)) + _PURE_MARGIN) / (rows.n * share * budget.total)
        level = max(min(level, 1.0 - above), 0.5)
    distances = RowRecords(rows).distances(center)
    return noisy_quantile(budget, share, NORM, grid, level, distances, rows.n, rng)


def count_share(budget: Budget) -> float:
    """Share of a budget for the number of rows that are longer than a public norm."""
    return _PURE_COUNT_SHARE if budget.pure else _COUNT_SHARE


def noisy_mean(
    units: Units,
    give: Callable[..., Any],
    bounded_set: VectorSet,
    n: int,
    budget: Budget,
    share: float,
    name: str,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """A private mean of what n records give, and the noise of its coordinates."""
    if isinstance(budget, PureBudget):
        total, sensitivity = plain_sum(units, give, bounded_set, n)
        dim = bounded_set.shape[0]
        law = LaplaceEvent(dim, 1.0 / budget.take(share, name, dim))
        mechanism = LaplaceNoise(mean_sensitivity(sensitivity, n), law)
        return mechanism.release(total / n, rng), mechanism.sigma
    mu = budget.take(share, name, bounded_set.width)
    noisy = private_sum(units, give, bounded_set, mu, rng)
    return noisy.value / n, noisy.sigma / n


def noisy_number(
    units: Units,
    give: Callable[..., Any],
    most: float,
    n: int,
    budget: Budget,
    share: float,
    name: str,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Release the mean of one number between zero and `most` for each record."""
    half = 0.5 * most
    bounded_set = ball(Ball(half, np.array([half])), 1)
    (mean,), sigma = noisy_mean(units, give, bounded_set, n, budget, share, name, rng)
    return half + float(mean), sigma
