"""Where rows are, public or found, and a private count of those that a fit had to change."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from skriemdp.location_scale.rows import records_of
from skriemdp.location_scale.search import (
    RADIUS,
    LocationScaleSearch,
    Radii,
    Shares,
    search_shares,
    until_near,
)
from skriemdp.mechanisms.budget import COUNT, GaussianBudget
from skriemdp.mechanisms.counts import noisy_fraction, told_fraction
from skriemdp.mechanisms.units import SeenRows, Units

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams
    from skriemdp.location_scale.columns import Columns, ColumnSearch
    from skriemdp.location_scale.grouped_rows import GroupedRows
    from skriemdp.location_scale.rows import Rows

# Grid of the norms that can be found: 24 decades, for any physical unit, in steps that cost little.
_LEAST, _RATIO, _STEPS = 1e-12, 1.1, 580
# Share of mu**2 for the number of clipped rows: a convention; its noise shows a few per cent.
COUNT_SHARE = 0.01
# Scales at which columns in unlike units are clipped; what is cut off costs targets more than
# labels (benchmarks/raw_tables.py --columns).
LABEL_CLIP, TARGET_CLIP = 4.0, 20.0
# n mu from which on a search costs little, and more than two means are taken; below, radii and
# means get larger shares.
_PLENTY = 100.0
# Share of the norm that sets the grid of the columns; rows are then found a last norm as scaled.
_GRID_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class RowPlace:
    """Where rows are: public numbers, or functions of noisy answers.

    Attributes
    ----------
    center : ndarray of shape (d,)
    norm : float
        About the share `level` of the rows, as `offsets` gives them, are no longer.
    level : float
        1 where the norm is public.
    columns : Columns or None
        Limits and scales, where the columns were looked at one by one.
    """

    center: np.ndarray
    norm: float
    level: float = 1.0
    columns: Columns | None = None

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

    A model that is fitted to rows far from their centre is worth nothing, whatever is left for it
    (docs/user_guide/adagrad.md).
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
    highest : float, default=0.997
        The largest share of rows that the norm is asked to hold.
    shares : Shares, optional
        Of the search; by default a rule of n mu.
    apart : float, optional
        Columns may get scales of their own, where the norm is searched and so many records show
        them, and are then clipped at so many scales.  By default they do not.
    how : dict, optional
        Other parameters of the :class:`ColumnSearch`.

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
    highest: float = 0.997
    shares: Shares | None = None
    apart: float | None = None
    how: dict[str, Any] | None = None

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
        return dataclasses.replace(plan, shares=shares, shrink=shrunken, highest=self.highest)

    @functools.cached_property
    def columns(self) -> ColumnSearch | None:
        """The search for the scales of columns; None where nobody asks or nothing would be seen."""
        if self.apart is None or self.norm is not None:
            return None
        from skriemdp.location_scale.columns import ColumnSearch

        if not ColumnSearch.is_seen(self.n, self.d, self.mu):
            return None
        search = ColumnSearch(self.n, self.d, self.mu, self.apart, self.center is not None)
        return dataclasses.replace(search, **(self.how or {}))

    @property
    def share(self) -> float:
        """The most that is spent of ``mu**2``."""
        if self.search is None:
            return 0.0
        further = 0.0
        if self.columns is not None:
            further = _GRID_SHARE + self.columns.total
        return self.search.shares.total + further

    @property
    def usual_mu(self) -> float:
        """What is left for a model of rows that lie near enough for no further steps."""
        unspent = 0.0
        if self.search is not None:
            unspent = self.search.shares.total - self.search.near().shares.total
        return self.mu * math.sqrt(1.0 - self.share + unspent - COUNT_SHARE)

    def reserve(self, budget: GaussianBudget) -> None:
        """Take from the budget of a plan all that a search may spend."""
        if self.search is not None:
            self.search.shares.reserve(budget)
        if self.columns is not None:
            budget.take(_GRID_SHARE, RADIUS)
            self.columns.reserve(budget)

    def release(
        self, records: Units, budget: GaussianBudget, streams: NoiseStreams
    ) -> tuple[RowPlace, np.ndarray]:
        """Spend at most `share` of the fit's budget on the rows of a table, dense or CSR.

        Where the records are people, means of own rows are added up, and distances are root mean
        squares of own rows'.

        Returns
        -------
        place : RowPlace
        beyond : ndarray of bool
            Which records lie beyond its norm; private.
        """
        rows = RowRecords(records_of(records))
        if self.columns is None:
            place = RowPlace(self.center, self.norm)  # type: ignore[arg-type]  # if both are public
            if self.search is not None:
                found = self.search.release(rows, budget, streams)
                place = RowPlace(found.center, found.radius, found.level)
            return place, rows.outside(place.center, place.norm)
        assert self.search is not None
        shares = dataclasses.replace(self.search.shares, final=_GRID_SHARE)
        search = dataclasses.replace(self.search, shares=shares)
        found = search.release(rows, budget, streams)
        within = dataclasses.replace(self.columns, center=found.center, norm=found.radius)
        columns = within.release(records, budget, streams)
        place = RowPlace(columns.center, found.radius, found.level, columns)
        # Quantiles of a normal law are .84 of its standard deviation from its mean.
        usual = 1.2 * math.sqrt(self.d) if columns.unlike else found.radius
        last = dataclasses.replace(
            self.search,
            center=np.zeros(self.d),
            shares=Shares(0.0, 0.0, 0.0, self.search.shares.final, 0),
            radii=dataclasses.replace(row_radii(), median=usual),
        )
        scaled = SeenRows(records.arrays[0], place.offsets, self.d)
        rows = RowRecords(records_of(dataclasses.replace(records, arrays=(scaled,))))
        again: Any = functools.partial(streams, "scaled rows")
        found = last.release(rows, budget, again)
        place = dataclasses.replace(place, norm=found.radius, level=found.level)
        return place, rows.outside(rows.origin, place.norm)


def row_radii() -> Radii:
    """Radii of rows, which have no natural unit: from 1e-12 to 1e12, small ones preferred."""
    return Radii(tuple((_LEAST * _RATIO ** np.arange(float(_STEPS))).tolist()))


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
    >>> from skriemdp.location_scale.rows import Rows
    >>> from skriemdp.mechanisms.budget import GaussianBudget
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
    :func:`skriemdp.mechanisms.sum.private_sum` for the rows less `center`; ``move(center, v)`` is
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
        """Where a search begins."""
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
    clipped: int, n: int, meant: float, advice: str, budget: GaussianBudget, streams: Any
) -> float:
    """Private share of records that were clipped; warns where it is far above what was meant.

    Parameters
    ----------
    clipped : int
        Number of records that were clipped: it moves by one when a record is replaced.
    n : int
    meant : float
        Share of the records that was meant to be clipped.
    advice : str
        What was done to them, and what to do about it; public or released.
    budget : GaussianBudget
        Spends `COUNT_SHARE` of it.
    streams : NoiseStreams
    """
    mu, rng = budget.take(COUNT_SHARE, COUNT, 1), streams("clipped fraction")
    return told_fraction(*noisy_fraction(clipped, n, mu, False, rng), meant, advice)
