"""The mean of a table whose columns may come in unlike units: every column in its own scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skriemdp._location_scale.columns import ColumnRule, price
from skriemdp._location_scale.row_releases import COUNT_SHARE, RowBounds, few_shares
from skriemdp._location_scale.search import james_stein
from skriemdp._mean.planning import LAPLACE_GAIN, MEAN, law_after, with_laplace
from skriemdp._mean.releases import MeanNoise
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import COUNT, GaussianBudget, Release
from skriemdp._mechanisms.counts import noisy_fraction
from skriemdp._mechanisms.units import SeenRows, Units
from skriemdp.geometry._base import Geometry
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._event import Event
from skriemdp.privacy._events import compose
from skriemdp.privacy._laplace import LaplaceEvent

if TYPE_CHECKING:
    from skriemdp._location_scale.row_releases import RowBallEstimate
    from skriemdp._random import NoiseStreams

# Shares of mu**2 for the scales of columns: (64 / s)**2 between these, s = n mu / sqrt(d); and the
# part that looks inside one cell.  Columns have own scales if one norm costs a column so many times
# its noise (benchmarks/raw_tables.py --means).
_NEED, _LEAST, _MOST, _INSIDE, _PASSES, _PRICE = 64.0, 0.05, 0.2, 0.2, 4, 3.0
# For quantiles farther out of columns whose fifths are one place.
_TAILS = 0.05
# Scales at which a column is clipped.
_CLIP = 12.0
# Of few columns the mean often has Laplace noise, which pays for the search whether it needs it or
# not: so many need s from here on.
_FEW, _FEW_NEED = 4, 200.0
# A scaled row is asked to be no longer than what holds so many rows: tails of one column would pay
# with noise in all.
_HIGHEST = 0.98


class Released(NamedTuple):
    """Noisy numbers of a fit, and where its rows were found."""

    mean: np.ndarray
    place: RowBallEstimate
    scale: np.ndarray
    unlike: bool
    sigma: float
    outside: float
    outside_noise: float


@dataclass(frozen=True, eq=False)
class TableMean:
    """A mean of rows of R^d, found and bounded column by column.

    A search finds where the rows are, vectors of truth values how wide each column is, a last norm
    how long the scaled rows are; then one sum is released and scaled back.

    Attributes
    ----------
    geometry : Geometry
        R^d.
    n : int
    bounds : RowBounds
    mu : float
    event : Event
        All of it.
    law : LaplaceEvent or None
        Laplace noise of the mean, behind all that the searches may take.
    shrink : bool
    releases : tuple of Release

    Notes
    -----
    *Guarantee*: that of `event`.  Thresholds are functions of earlier answers; 2 d truth values
    have sensitivity ``sqrt(2 d)``; every row is clipped column by column, scaled and shortened by
    itself, so the sum moves by at most twice the norm (docs/theory/location-scale.md, section 4).
    """

    geometry: Geometry
    n: int
    bounds: RowBounds
    mu: float
    event: Event
    law: LaplaceEvent | None
    shrink: bool
    releases: tuple[Release, ...]

    def noise(self, mu: float) -> MeanNoise:
        """Noise of the mean, where `mu` is left for it."""
        return MeanNoise(None, self.law) if self.law is not None else MeanNoise(mu, None)

    def release(self, records: Units, streams: NoiseStreams) -> Released:
        """Release it; `records` are rows, or people who own several."""
        planned = self.releases if self.law is None else self.releases[:-1]
        budget, dim = GaussianBudget(self.mu, planned), self.geometry.dim
        count = budget.take(COUNT_SHARE, COUNT, 1)
        place, beyond = self.bounds.release(records, budget, streams)
        rng = streams("clipped fraction")
        noisy = noisy_fraction(int(np.count_nonzero(beyond)), self.n, count, False, rng)
        noise = self.noise(budget.rest(MEAN, dim) if self.law is None else 0.0)
        scaled = SeenRows(records.arrays[0], place.offsets, dim)
        asked = Units((scaled,), records.groups), lambda rows: rows
        move, sigma = noise.noisy_mean(*asked, Ball(place.norm), dim, self.n, streams("mean"))
        if self.shrink:
            move, _ = james_stein(move, sigma)
        assert place.columns is not None  # as planned
        scale, unlike = place.columns.scale, place.columns.unlike  # ones where alike
        return Released(place.center + scale * move, place, scale, unlike, sigma, *noisy)


def are_unlike(covariance: np.ndarray) -> bool:
    """Whether columns with this released covariance would get scales of their own."""
    widest = float(np.diag(covariance).max())
    return widest > 0.0 and price(np.sqrt(np.maximum(np.diag(covariance), 1e-12 * widest))) > _PRICE


def plan_table_mean(
    geometry: Geometry, n: int, epsilon: float, delta: float, noise: str, shrink: bool
) -> TableMean | None:
    """The mean of n rows of R^d, from public numbers; None where scales of columns are not seen.

    Raises
    ------
    ValueError
        Where integers would be too coarse for some sum.
    """
    mu, dim = gaussian_mu(epsilon, delta), geometry.dim
    need = (_NEED * math.sqrt(dim) / (n * mu)) ** 2
    # From four times as many records on, far quantiles stand out of the noise.
    tails = _TAILS if need < 1.0 / 16.0 else 0.0
    share = min(max(need, _LEAST), _MOST)
    rule = ColumnRule(_CLIP, share, _INSIDE, _PASSES, tails, _PRICE)
    how: Any = {"max_level": _HIGHEST, "shares": few_shares(n * mu), "column_rule": rule}
    bounds = RowBounds(n, dim, mu, **how)
    if bounds.columns is None or (dim <= _FEW and n * mu < _FEW_NEED * math.sqrt(dim)):
        return None
    budget, law = GaussianBudget(mu), None
    event: Event = budget.event
    budget.take(COUNT_SHARE, COUNT, 1)
    bounds.reserve(budget)
    before, usual = 1.0 - budget.remaining, 1.0 - (bounds.usual_mu / mu) ** 2
    if noise != "gaussian" and with_laplace(noise, dim, epsilon, delta):
        needed = LAPLACE_GAIN * (1.0 - before) / (1.0 - usual)
        first = GaussianBudget(mu * math.sqrt(before))
        law = law_after(dim, epsilon, delta, mu, first.event.mu, needed)
        if law is not None:
            event = compose([first.event, law])
    if law is None:
        # What the searches leave lies in between.
        for one in (mu * math.sqrt(budget.remaining), mu):
            MeanNoise(one, None).check(dim)
    last = Release(MEAN, budget.remaining, "gaussian" if law is None else "laplace", dim)
    return TableMean(geometry, n, bounds, mu, event, law, shrink, (*budget.releases, last))
