"""Where rows are, public or found, and a private count of those that a fit had to change."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from skriemdp._groups import Groups
from skriemdp._warnings import warn_user
from skriemdp.location_scale.grouped_rows import records_of
from skriemdp.location_scale.row_records import RowRecords, plan_row_search
from skriemdp.location_scale.search import LocationScaleSearch, Shares
from skriemdp.mechanisms.budget import GaussianBudget

__all__ = [
    "COUNT_SHARE",
    "RowBounds",
    "RowPlace",
    "clipped_fraction",
    "rows_beyond",
    "shrunken",
]

# Share of mu**2 for the number of rows that were clipped.
COUNT_SHARE = 0.01
# n mu from which on a search costs little.
_PLENTY = 100.0
# Of the garrote, in standard deviations of the noise.
_THRESHOLDS = (1.0, 1.5, 2.0, 2.5, 3.0)
# Share of clipped rows, above the one that was meant, from which on to warn.
_EXCESS = 0.2


@dataclasses.dataclass(frozen=True, eq=False)
class RowPlace:
    """Where rows are: public numbers, or functions of noisy answers.

    Attributes
    ----------
    center : ndarray of shape (d,)
    norm : float
        About the share `level` of the rows lie within it of the centre.
    level : float
        1 where the norm is public.
    """

    center: np.ndarray
    norm: float
    level: float = 1.0

    def offsets(self, X: Any) -> Any:
        """The rows less the centre; a table from which nothing is subtracted is not copied."""
        return X - self.center if self.center.any() else X


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
    for threshold in _THRESHOLDS:
        small, over = squares <= threshold**2, np.maximum(squares, threshold**2)
        part = threshold**2 / over
        costs = np.where(small, squares - 1.0, 1.0 + part * (threshold**2 + 2.0))
        if costs.sum() < best[0]:
            best = (float(costs.sum()), np.where(small, 0.0, 1.0 - part) * mean)
    return best[1], sigma * math.sqrt(min(max(best[0], 0.0) / d, 1.0))


@dataclasses.dataclass(frozen=True, eq=False)
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

    @functools.cached_property
    def search(self) -> LocationScaleSearch | None:
        """The search for what is not public; None where there is nothing to find."""
        if self.center is not None and self.norm is not None:
            return None
        plan = plan_row_search(self.n, self.d, self.mu, self.center, self.norm)
        # Columns come in unlike units: a few of them may hold all of the mean.
        shares = _shares(plan.shares, self.n * self.mu)
        return dataclasses.replace(plan, shares=shares, shrink=shrunken, highest=self.highest)

    @property
    def share(self) -> float:
        """The most that is spent of ``mu**2``."""
        return 0.0 if self.search is None else self.search.shares.total

    def release(
        self, X: Any, budget: GaussianBudget, streams: Any, groups: Groups | None = None
    ) -> RowPlace:
        """Spend at most `share` of the fit's budget on the rows X, dense or CSR.

        With `groups` the records are people: means of own rows are added up, and distances are root
        mean squares of own rows'.
        """
        if self.search is None:
            assert self.center is not None and self.norm is not None
            return RowPlace(self.center, self.norm)
        records: Any = RowRecords(records_of(X, groups))
        found = self.search.release(records, budget, streams)
        return RowPlace(found.center, found.radius, found.level)


def rows_beyond(X: Any, place: RowPlace, groups: Groups | None = None) -> int:
    """Number of rows farther from the centre than the norm; private.

    With `groups` of people whose rows are, in root mean square.
    """
    norms = RowRecords(records_of(X, groups)).distances(place.center)
    return sum(int(np.count_nonzero(~(part <= place.norm))) for part in norms)


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
    count = budget.count(COUNT_SHARE)
    noisy = count.release(clipped, streams("clipped fraction")) / n
    return told_fraction(noisy, count.sigma / n, meant, advice)


def told_fraction(noisy: float, sigma: float, meant: float, advice: str) -> float:
    """A released share within [0, 1]; warns where it is far above what was `meant`."""
    if noisy - 4.0 * sigma > meant + _EXCESS:
        warn_user(f"about {min(noisy, 1.0):.0%} of the rows (a private estimate) {advice}")
    return float(np.clip(noisy, 0.0, 1.0))
