"""Rows of a table, as the search for centre and scale asks for them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from skriemdp.location_scale.search import LocationScaleSearch, Radii, Start, search_shares
from skriemdp.mechanisms.budget import GaussianBudget, PureBudget
from skriemdp.mechanisms.units import Units

if TYPE_CHECKING:
    from skriemdp.location_scale.grouped_rows import GroupedRows
    from skriemdp.location_scale.rows import Rows

__all__ = ["RowRecords", "norm_quantile", "plan_row_search", "row_radii"]

# Norms that a search may return: any physical unit, in steps that cost little.
_LEAST, _RATIO, _STEPS = 1e-12, 1.1, 580
# Above this n mu more than two means are allowed.
_MANY = 100.0
# Squared norms that are placed on a grid at a time, so that they stay in the cache.
_COUNTED = 1 << 15


def row_radii() -> Radii:
    """Radii of rows, which have no natural unit: from 1e-12 to 1e12, small ones preferred."""
    return Radii(tuple((_LEAST * _RATIO ** np.arange(float(_STEPS))).tolist()))


def plan_row_search(
    n: int,
    d: int,
    mu: float,
    center: np.ndarray | None = None,
    radius: float | None = None,
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
    if shares.rounds and n * mu >= _MANY:
        # Tables may lie a million times their spread from zero; a mean that is not needed is not
        # taken, and its share stays with the fit.
        shares = dataclasses.replace(shares, rounds=4)
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

    def start(self, budget: GaussianBudget, share: float, streams: object) -> Start:
        """The origin, which costs nothing."""
        return Start(np.zeros(self.dim))

    def distances(self, center: np.ndarray) -> Iterator[np.ndarray]:
        """Norms of the rows less `center`, tile by tile; infinite where a square overflows."""
        for squares in self.rows.squared_norms(center):
            yield np.sqrt(squares)

    def logarithms(self, center: np.ndarray) -> tuple[Units, Callable[..., np.ndarray]]:
        """The rows, or means of people's own rows, and what takes `center` from them."""

        def give(rows: Any) -> np.ndarray:
            return np.asarray(rows.toarray() if issparse(rows) else rows) - center

        return Units((self.rows.points.chunks,)), give

    def move(self, center: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """``center + vector``, where floats hold it."""
        moved = center + vector
        return moved if np.isfinite(moved).all() else center


def norm_quantile(
    budget: GaussianBudget | PureBudget,
    share: float,
    name: str,
    grid: np.ndarray,
    level: float,
    squares: Iterator[np.ndarray],
    n: int,
    rng: np.random.Generator,
) -> float:
    """Private quantile of the roots of `squares`, on a public geometric grid.

    Parameters
    ----------
    budget : GaussianBudget or PureBudget
    share, name : float, str
        Of the budget, and of the release.
    grid : ndarray
    level : float
        Share of the values that should lie at or below the answer.
    squares : iterator of ndarray
        One squared norm per record, tile by tile: ``rows.squared_norms(center)``.
    n : int
    rng : numpy.random.Generator

    Notes
    -----
    *Guarantee*: that of the budget's quantile; counts move by one when a record is replaced.
    """
    mechanism = budget.quantile(share, tuple(grid.tolist()), level, name)
    ratio = float(grid[1] / grid[0])
    counts = np.zeros(len(grid) + 1, dtype=np.int64)
    for tile in squares:
        for begin in range(0, len(tile), _COUNTED):
            counts += _places(tile[begin : begin + _COUNTED], grid[0], math.log(ratio), len(grid))
    # A grid value stands for the interval below it; its middle is as often too small as too large.
    found: float = mechanism.release_counts(np.cumsum(counts)[:-1], n, rng)
    return found / math.sqrt(ratio)


def _places(squares: np.ndarray, first: float, step: float, size: int) -> np.ndarray:
    """Numbers of roots at or below the first grid value, in each interval above, and beyond."""
    # Logarithms place a value on the grid much faster than comparisons.
    with np.errstate(divide="ignore"):
        places = np.log(squares)
    places *= 0.5 / step
    places -= math.log(first) / step
    np.ceil(places, out=places)
    np.clip(places, 0.0, size, out=places)
    return np.bincount(places.astype(np.intp), minlength=size + 1)
