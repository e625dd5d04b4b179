"""Centre and norm of rows, public or private, and a noisy count of the clipped rows."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from skriemdp._errors import PublicRuntimeError
from skriemdp._location_scale.columns import ColumnRule, Columns, ColumnSearch
from skriemdp._location_scale.rows import records_of, scaled_rows
from skriemdp._location_scale.search import (
    RADIUS,
    LocationScaleSearch,
    RadiusGrid,
    Shares,
    search_shares,
    until_near,
)
from skriemdp._mechanisms.bounded_sets import Moment
from skriemdp._mechanisms.budget import COUNT, GaussianBudget
from skriemdp._mechanisms.counts import noisy_clip_fraction, noisy_fraction
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import SeenRows, Units

if TYPE_CHECKING:
    from skriemdp._location_scale.grouped_rows import GroupedRows
    from skriemdp._location_scale.rows import Rows
    from skriemdp._location_scale.search import BallEstimate
    from skriemdp._random import NoiseStreams

# Grid of the norms that can be found: 24 decades, for any physical unit, in steps that cost little.
_LEAST, _RATIO, _STEPS = 1e-12, 1.1, 580
# Share of mu**2 for the number of clipped rows: a convention; its noise shows a few per cent.
COUNT_SHARE = 0.01
# Scales at which columns in unlike units are clipped; what is cut off costs targets more than
# labels (benchmarks/raw_tables.py --columns).
LABEL_CLIP, TARGET_CLIP = 4.0, 20.0
# Share of what a place leaves for the second moment of unit rows, where they are whitened
# (benchmarks/regressors.py --part white).
_WHITE_SHARE = 0.15
# Name of the release.
WHITE = "moment of unit rows"
# n mu from which on a search costs little, and more than two means are taken; below, radii and
# means get larger shares.
_PLENTY = 100.0
# n mu below which a regressor is a constant where nobody knows where its targets lie: what their
# search leaves makes a model of noise (benchmarks/regressors.py --part few).
LEAST_FOR_MODEL = 36.0
# Share of the norm that sets the grid of the columns; rows are then found a last norm as scaled.
_GRID_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class Whitening:
    """Linear map to rows of about equal spread in all directions that noise does not hide.

    Attributes
    ----------
    norm : float
        Rows, as scaled columns, are clipped to it and divided by it.
    matrix : ndarray of shape (d, d)
        W, which they are then multiplied by.
    """

    norm: float
    matrix: np.ndarray

    @classmethod
    def of(cls, norm: float, moment: np.ndarray, noise: float) -> Whitening:
        """Make it from the released mean of ``u u'``, u rows over their norm, and its noise.

        Half of the largest eigenvalue that noise makes of itself is added to all.
        """
        values, vectors = np.linalg.eigh(moment)
        floor = 0.5 * noise * math.sqrt(2.0 * len(values))
        return cls(norm, vectors / np.sqrt(np.maximum(values, 0.0) + floor))

    def unit(self, rows: np.ndarray) -> np.ndarray:
        """Shorten rows to the norm, and divide them by it."""
        return scaled_rows(rows, self.norm) / self.norm


@dataclass(frozen=True, eq=False)
class RowBallEstimate:
    """Centre and norm of rows: public numbers, or functions of noisy answers.

    Attributes
    ----------
    center : ndarray of shape (d,)
    norm : float
        About the share `level` of the rows, as `offsets` gives them, are no longer.
    level : float
        1 where the norm is public.
    columns : Columns or None
        Limits and scales, where the columns were looked at one by one.
    white : Whitening or None
        Where the norm is that of rows as :meth:`seen` gives them.
    """

    center: np.ndarray
    norm: float
    level: float = 1.0
    columns: Columns | None = None
    white: Whitening | None = None

    def seen(self, X: Any) -> Any:
        """The rows that a model is fitted to: offsets, or white rows of these."""
        rows = self.offsets(X)
        return rows if self.white is None else self.white.unit(rows) @ self.white.matrix

    def of_offsets(self, coef: np.ndarray) -> np.ndarray:
        """Coefficients of offsets, from those of the rows that are seen."""
        return coef if self.white is None else coef @ self.white.matrix.T / self.white.norm

    def offsets(self, X: Any) -> Any:
        """The rows less the centre, each number within its column's limit and over its scale.

        A table of which nothing is changed is not copied.
        """
        rows = X - self.center if self.center.any() else X
        if self.columns is None:
            return rows
        limit, scale = self.columns.limit, self.columns.scale
        if issparse(rows):
            at, rows = rows.indices, rows.copy()
            rows.data = np.clip(rows.data, -limit[at], limit[at]) / scale[at]
            return rows
        rows = np.minimum(rows, limit, out=None if rows is X else rows)
        np.maximum(rows, -limit, out=rows)
        return np.divide(rows, scale, out=rows) if self.columns.unlike else rows


def _shares(shares: Shares, t: float) -> Shares:
    """`shares`, and more where ``t = n mu`` is small.

    A model that is fitted to rows far from their centre is worth nothing, whatever is left for
    it.
    """
    if t >= _PLENTY or not shares.rounds:
        return shares
    return dataclasses.replace(
        shares,
        radius=min(0.01 * (_PLENTY / t) ** 2, 0.08) if t > 1.0 else 0.08,
        move=min(0.07 * _PLENTY / t, 0.18) if t > 1.0 else 0.18,
        final=0.12,
    )


def few_shares(t: float) -> Shares:
    """Shares of a search among rows of few numbers, from ``t = n mu``; below .33.

    Rough radii need no more, and a last one of less would clip more (benchmarks/raw_tables.py
    --columns).
    """
    radius, move, final = (
        float(np.clip((need / t) ** 2, least, most))
        for need, least, most in ((10.0, 0.005, 0.04), (20.0, 0.01, 0.04), (30.0, 0.05, 0.08))
    )
    return Shares(0.0, radius, move, final, 3)


def constant_shares() -> Shares:
    """Shares of a search before a constant, the mean of what was found, that needs little itself.

    Two rounds find what lies 20 spreads from zero from n mu = 22 on (benchmarks/regressors.py).
    """
    return Shares(0.0, 0.16, 0.16, 0.15, 2)


def shrunken(mean: np.ndarray, sigma: float) -> tuple[np.ndarray, float]:
    """A noisy vector moved towards zero, and about the error left in each of its coordinates.

    Either all coordinates alike (James and Stein 1961) or the small ones first (Breiman's garrote,
    1995), whichever has the least risk by Stein's unbiased estimate.  Post-processing.

    Parameters
    ----------
    mean : ndarray of shape (d,)
        With Gaussian noise of standard deviation `sigma` on every coordinate.
    sigma : float
    """
    d, squares, best = len(mean), (mean / sigma) ** 2, None
    total = float(squares.sum())
    keep = max(0.0, 1.0 - (d - 2) / max(total, 1e-300)) if d > 2 else 1.0
    risk = d - (d - 2) ** 2 / max(total, 1e-300) if keep > 0.0 and d > 2 else total - d
    best = (risk if d > 2 else float(d), keep * mean)
    # A garrote sets small coordinates of a noisy mean to zero.
    for threshold in (1.0, 1.5, 2.0, 2.5, 3.0):
        small, over = squares <= threshold**2, np.maximum(squares, threshold**2)
        part = threshold**2 / over
        costs = np.where(small, squares - 1.0, 1.0 + part * (threshold**2 + 2.0))
        if costs.sum() < best[0]:
            best = (float(costs.sum()), np.where(small, 0.0, 1.0 - part) * mean)
    return best[1], sigma * math.sqrt(min(max(best[0], 0.0) / d, 1.0))


@dataclass(frozen=True, eq=False)
class RowBounds:
    """Plans the search for the centre and the norm of rows, from public numbers.

    Parameters
    ----------
    n, d : int
        Numbers of rows and columns.
    mu : float
        Gaussian differential privacy parameter of the whole fit.
    center : ndarray of shape (d,), optional
        Public; None searches for one.
    norm : float, optional
        Public; None searches for one.
    max_level : float, default=0.997
        The largest share of rows that the norm is asked to hold.
    shares : Shares, optional
        Of the search; by default a rule of n mu.
    white : bool, default=False
        Whether rows are whitened, where the norm is searched and so many records show how.
    column_rule : ColumnRule, optional
        Columns may get scales of their own, by this rule, where the norm is searched and so many
        records show them.  By default they do not.

    Notes
    -----
    *Guarantee*: that of the search (docs/theory/location-scale.md), within `share` of ``mu**2``;
    what it does not need is left in the budget.
    """

    n: int
    d: int
    mu: float
    center: np.ndarray | None = None
    norm: float | None = None
    max_level: float = 0.997
    shares: Shares | None = None
    column_rule: ColumnRule | None = None
    white: bool = False

    @functools.cached_property
    def search(self) -> LocationScaleSearch | None:
        """The search for what is not public; None where there is nothing to find."""
        if self.center is not None and self.norm is not None:
            return None
        plan = plan_row_search(self.n, self.d, self.mu, self.center, self.norm)
        # Columns come in unlike units: a few of them may hold all of the mean.
        t = self.n * self.mu
        shares = until_near(self.shares or _shares(plan.shares, t), self.d, t)
        if self.center is not None:
            shares = dataclasses.replace(shares, rounds=0)
        return dataclasses.replace(plan, shares=shares, shrink=shrunken, max_level=self.max_level)

    @functools.cached_property
    def columns(self) -> ColumnSearch | None:
        """The search for the scales of columns; None where nobody asks or nothing would be seen."""
        if self.column_rule is None or self.norm is not None:
            return None
        if not ColumnSearch.is_seen(self.n, self.d, self.mu):
            return None
        return ColumnSearch(self.n, self.d, self.mu, self.column_rule, self.center is not None)

    @property
    def share(self) -> float:
        """The most that is spent of ``mu**2``."""
        if self.search is None:
            return 0.0
        last = self._white_share + self.search.shares.final if self.white else 0.0
        return self._place_share + last

    @property
    def _queried(self) -> LocationScaleSearch:
        """The search, where there is one."""
        if not self.search:
            raise PublicRuntimeError("nothing is searched.")
        return self.search

    @property
    def _place_share(self) -> float:
        """Share that is spent before rows are whitened."""
        further = 0.0 if self.columns is None else _GRID_SHARE + self.columns.rule.total
        return self._queried.shares.total + further

    @property
    def _white_share(self) -> float:
        """Share of the moment of unit rows."""
        return _WHITE_SHARE * (1.0 - self._place_share)

    @property
    def usual_mu(self) -> float:
        """Mu that remains for the model if the rows lie near enough for no far steps."""
        unspent = 0.0
        if self.search is not None:
            unspent = self.search.shares.total - self.search.near().shares.total
        if self.columns is not None:
            unspent += self.columns.rule.total - self.columns.rule.share
        return self.mu * math.sqrt(1.0 - self.share + unspent - COUNT_SHARE)

    def reserve(self, budget: GaussianBudget) -> None:
        """Take from the budget of a plan all that a search may spend."""
        if self.search is not None:
            self.search.shares.reserve(budget)
        if self.columns is not None:
            budget.take(_GRID_SHARE, RADIUS)
            self.columns.reserve(budget)
        if self.white and self.search is not None:
            bounded_set = Moment(1.0, self.d)
            bounded_set.check(budget.take(self._white_share, WHITE, self.d**2))
            budget.take(self.search.shares.final, RADIUS)

    def release(
        self, records: Units, budget: GaussianBudget, streams: NoiseStreams
    ) -> tuple[RowBallEstimate, np.ndarray]:
        """Spend at most `share` of the fit's budget on the rows of a table, dense or CSR.

        Where the records are people, means of own rows are added up, and distances are root mean
        squares of own rows'.

        Returns
        -------
        place : RowPlace
        beyond : ndarray of bool
            Which records lie beyond its norm; private.
        """
        place, beyond = self._place(records, budget, streams)
        if self.white:
            return self._whitened(records, place, beyond, budget, streams)
        return place, beyond

    def _whitened(
        self,
        records: Units,
        place: RowBallEstimate,
        beyond: np.ndarray,
        budget: GaussianBudget,
        streams: Any,
    ) -> tuple[RowBallEstimate, np.ndarray]:
        """Whiten the rows of a place, and find their norm once more."""
        first = Whitening(place.norm, np.eye(self.d))
        table, bounded_set = records.arrays[0], Moment(1.0, self.d)
        mu, rng = budget.take(self._white_share, WHITE), streams("second moment")
        units = SeenRows(table, lambda rows: first.unit(place.offsets(rows)), self.d)
        noisy = private_sum(Units((units,)), lambda rows: rows, bounded_set, mu, rng)
        white = Whitening.of(place.norm, noisy.value / self.n, noisy.sigma / self.n)
        place = dataclasses.replace(place, white=white)
        found, outside = self._norm(
            place.seen, records, math.sqrt(self.d), budget, streams, "white"
        )
        level = max(place.level + found.level - 1.0, 0.0)
        return dataclasses.replace(place, norm=found.radius, level=level), beyond | outside

    def _norm(
        self,
        seen: Any,
        records: Units,
        usual: float,
        budget: GaussianBudget,
        streams: Any,
        label: str,
    ) -> tuple[BallEstimate, np.ndarray]:
        """A last norm, of rows as they are seen, and which are longer."""
        last = dataclasses.replace(
            self._queried,
            center=np.zeros(self.d),
            shares=Shares(0.0, 0.0, 0.0, self._queried.shares.final, 0),
            radii=dataclasses.replace(row_radii(), median=usual),
        )
        scaled = SeenRows(records.arrays[0], seen, self.d)
        rows = RowRecords(records_of(dataclasses.replace(records, arrays=(scaled,))))
        own: Any = functools.partial(streams, label)
        found = last.release(rows, budget, own)
        return found, rows.outside(rows.origin, found.radius)

    def _place(
        self, records: Units, budget: GaussianBudget, streams: NoiseStreams
    ) -> tuple[RowBallEstimate, np.ndarray]:
        """Release centre and norm of the rows before they are whitened."""
        rows = RowRecords(records_of(records))
        if self.columns is None:
            place = RowBallEstimate(self.center, self.norm)  # type: ignore[arg-type]  # if both are public
            if self.search is not None:
                found = self.search.release(rows, budget, streams)
                place = RowBallEstimate(found.center, found.radius, found.level)
            return place, rows.outside(place.center, place.norm)
        shares = dataclasses.replace(self._queried.shares, final=_GRID_SHARE)
        search = dataclasses.replace(self._queried, shares=shares)
        found = search.release(rows, budget, streams)
        within = dataclasses.replace(self.columns, center=found.center, norm=found.radius)
        columns = within.release(records, budget, streams)
        place = RowBallEstimate(columns.center, found.radius, found.level, columns)
        # Quantiles of a normal law are .84 of its standard deviation from its mean.
        usual = 1.2 * math.sqrt(self.d) if columns.unlike else found.radius
        found, beyond = self._norm(place.offsets, records, usual, budget, streams, "scaled rows")
        return dataclasses.replace(place, norm=found.radius, level=found.level), beyond


def row_radii() -> RadiusGrid:
    """Radii of rows, which have no natural unit: from 1e-12 to 1e12, small ones preferred."""
    return RadiusGrid(tuple((_LEAST * _RATIO ** np.arange(float(_STEPS))).tolist()))


def plan_row_search(
    n: int, d: int, mu: float, center: np.ndarray | None = None, radius: float | None = None
) -> LocationScaleSearch:
    """A search among rows of R^d for what is None of `center` and `radius`.

    Parameters
    ----------
    n, d : int
    mu : float
        Of the whole fit, of which the search takes its shares.
    center, radius : ndarray, float or None
        Public, or None.

    Raises
    ------
    ValueError
        Where integers would be too coarse for some mean.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp._random import NoiseStreams
    >>> from skriemdp._location_scale.rows import Rows
    >>> from skriemdp._mechanisms.budget import GaussianBudget
    >>> X = 1e6 + np.random.default_rng(0).normal(size=(20_000, 3))
    >>> search = plan_row_search(*X.shape, mu=1.0)
    >>> found = search.release(RowRecords(Rows(X, *X.shape)), GaussianBudget(1.0), NoiseStreams(0))
    >>> bool(np.linalg.norm(found.center - 1e6) < 1.0), bool(2.0 < found.radius < 6.0)
    (True, True)
    """
    known = center is not None
    shares = search_shares(n * mu, center_known=known, radius_known=radius is not None)
    if shares.rounds and n * mu >= _PLENTY:
        shares = until_near(dataclasses.replace(shares, rounds=4), d, n * mu)
    return LocationScaleSearch(n, d, mu, shares, row_radii(), center=center, radius=radius)


class RowRecords:
    """Private rows, dense, sparse or streamed, for :class:`LocationScaleSearch`.

    The centre is subtracted in norms and sums and never from a table, so a sparse one stays sparse
    (but for a few rows at a time where integers are added) and a stream is read once per answer.

    Parameters
    ----------
    rows : Rows or GroupedRows
        With people for records, distances are root mean squares of own rows' distances, and what is
        added up are means of own rows.

    Notes
    -----
    For a search of your own: ``distances(center)`` gives the norms ``|x_i - center|``, never
    rounded down in sparse tables; ``logarithms(center)`` are the first arguments of
    :func:`skriemdp._mechanisms.sum.private_sum` for the rows less `center`; ``move(center, v)`` is
    ``center + v``.
    """

    def __init__(self, rows: Rows | GroupedRows) -> None:
        self.rows, self.n, self.dim = rows, rows.n, rows.d

    @property
    def units(self) -> Units:
        """The rows, or means of people's own rows."""
        return Units((self.rows.points.chunks,))

    @property
    def origin(self) -> np.ndarray:
        """Initial centre of a search."""
        return np.zeros(self.dim)

    def distances(self, center: np.ndarray) -> Iterator[np.ndarray]:
        """Norms of the rows less `center`, tile by tile; infinite where a square overflows."""
        for squares in self.rows.squared_norms(center):
            yield np.sqrt(squares)

    def outside(self, center: np.ndarray, radius: float) -> np.ndarray:
        """Non-private: which records lie farther from `center` than `radius`."""
        return ~np.concatenate([part <= radius for part in self.distances(center)])

    def logarithms(self, center: np.ndarray) -> tuple[Units, Callable[..., np.ndarray]]:
        """The units, and what takes `center` from them."""

        def give(rows: Any) -> np.ndarray:
            return np.asarray(rows.toarray() if issparse(rows) else rows) - center

        return self.units, give

    def move(self, center: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """``center + vector``, where floats hold it."""
        moved = center + vector
        return moved if np.isfinite(moved).all() else center


def clipped_fraction(
    clipped: int,
    n: int,
    expected_fraction: float,
    advice: str,
    budget: GaussianBudget,
    streams: Any,
) -> float:
    """Private share of records that were clipped; warns where it is far above what was meant.

    Parameters
    ----------
    clipped : int
        Number of records that were clipped: it moves by one when a record is replaced.
    n : int
    expected_fraction : float
        Share of the records that was meant to be clipped.
    advice : str
        What was done to them, and what to do about it; public or released.
    budget : GaussianBudget
        Spends `COUNT_SHARE` of it.
    streams : NoiseStreams
    """
    mu, rng = budget.take(COUNT_SHARE, COUNT, 1), streams("clipped fraction")
    return noisy_clip_fraction(
        *noisy_fraction(clipped, n, mu, False, rng), expected_fraction, advice
    )
