"""A private place and scale for every column of a table, where columns come in unlike units."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import log_ndtr

from skriemdp.mechanisms.budget import GaussianBudget
from skriemdp.mechanisms.held import answers
from skriemdp.mechanisms.sum import private_sum
from skriemdp.mechanisms.units import Units

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams

# All constants are measured (benchmarks/raw_tables.py), none of them on the data of a fit.

# Share of mu**2 of the vectors that place two quantiles of every column on a geometric grid, and of
# those that place them inside one cell of it, where both are there; and how many vectors.
_SHARE, _ROUNDS = 0.07, 9
_INSIDE_SHARE, _INSIDE_ROUNDS, _INSIDE_CELLS = 0.03, 10, 128
_FIFTHS = (0.2, 0.8)
# Distances from the centre, over the norm of the rows, that a quantile may have.
_DISTANCES = 4.0 * 1.5 ** -np.arange(34.0)
# Columns have scales of their own if the effective number of scales is below _ALIKE times the
# number of columns but the widest; of at most _FEW columns, if it is at most _ONE
# (benchmarks/raw_tables.py --columns).
_ALIKE, _FEW, _ONE = 0.3, 4, 1.3
# From n mu = _CERTAIN sqrt(d) on no answer is far off by chance; then, if they are narrower than
# _USUAL of their root mean square, in logarithms by _NARROWER in the mean; images of digits are by
# up to .08 (benchmarks/raw_tables.py --columns).
_CERTAIN, _USUAL, _NARROWER = 256.0, 1.0 / 3.0, 0.12
# An atom is clipped at this many widths of its cells (benchmarks/raw_tables.py --columns).
_ATOM_CLIP = 2.0
# Name of the releases.
COLUMNS = "scales of columns"


@dataclass(frozen=True, eq=False)
class Columns:
    """Centre and width of the columns of a table: functions of noisy answers.

    Attributes
    ----------
    center : ndarray of shape (d,)
    limit : ndarray of shape (d,)
        How far from `center` a number may lie; what lies farther counts as if it lay there.
    scale : ndarray of shape (d,)
        What numbers less `center` are divided by; ones where the columns are alike.
    unlike : bool
        Whether every column has a scale of its own.
    """

    center: np.ndarray
    limit: np.ndarray
    scale: np.ndarray
    unlike: bool


@dataclass(frozen=True, eq=False)
class ColumnSearch:
    """Plans private quantiles of all columns together, one vector of truth values at a time.

    Parameters
    ----------
    n, d : int
        Numbers of records and of columns.
    mu : float
        Gaussian differential privacy parameter of the whole fit.
    clip : float
        Columns are clipped at so many scales.
    fixed : bool, default=False
        Whether the centre is public and stays: the scale of a column is then that of the farther of
        two quantiles.
    center : float or ndarray of shape (d,), default=0.0
    norm : float, default=1.0
        Of the rows less `center`; both released, and set before :meth:`release`.

    Notes
    -----
    *Guarantee*: within `share` of ``mu**2``.  Each of the releases is a sum of one vector per
    record, ``[x_j <= t_j] - level`` for thresholds that are functions of earlier ones
    (docs/theory/location-scale.md, section 4).  What is not spent is left in the budget.

    Raises
    ------
    ValueError
        Where integers would be too coarse.
    """

    n: int
    d: int
    mu: float
    clip: float
    fixed: bool = False
    center: Any = 0.0
    norm: float = 1.0

    def __post_init__(self) -> None:
        least = min(_SHARE / _ROUNDS, _INSIDE_SHARE / _INSIDE_ROUNDS)
        answers(2 * self.d, _levels(self.d)).check(self.mu * math.sqrt(least))

    @staticmethod
    def is_seen(n: int, d: int, mu: float) -> bool:
        """Whether so many records show the scales of so many columns; from public numbers."""
        # Both quantiles of every column then stand out of the noise (benchmarks/raw_tables.py
        # --columns).
        return d > 1 and n * mu >= 64.0 * math.sqrt(d)

    @property
    def share(self) -> float:
        """The most that is spent of ``mu**2``."""
        return _SHARE + _INSIDE_SHARE

    def reserve(self, budget: GaussianBudget) -> None:
        """Take from the budget of a plan all that may be spent here."""
        budget.take(self.share, COLUMNS)

    def release(self, records: Units, budget: GaussianBudget, streams: NoiseStreams) -> Columns:
        """Quantiles of the columns of a table, dense or CSR; people give the shares of own rows."""
        center, norm = self.center, self.norm

        def asking(
            at: np.ndarray, columns: np.ndarray, share: float, label: str
        ) -> Callable[[np.ndarray, int], np.ndarray]:
            held = answers(2 * len(columns), _levels(len(columns)))
            both, everywhere = np.repeat(columns, 2), len(columns) == self.d

            def ask(places: np.ndarray, number: int) -> np.ndarray:
                thresholds = center[both] + at[np.arange(len(both)), places]
                # All lower ones, then all upper ones, each in one piece: compared faster.
                thresholds = thresholds.reshape(-1, 2).T.copy()

                def give(rows: Any) -> np.ndarray:
                    rows = rows.toarray() if issparse(rows) else rows
                    rows = rows if everywhere else rows[:, columns]
                    below = np.concatenate([rows <= ends for ends in thresholds], axis=1)
                    return below if records.groups is None else below.astype(float)

                mu = budget.take(share, COLUMNS, held.width)
                noisy = private_sum(records, give, held, mu, streams(label, number))
                return (noisy.value / noisy.sigma).reshape(2, -1).T.ravel()

            return ask

        every = np.arange(self.d)
        places = norm * np.concatenate([-_DISTANCES, [0.0], _DISTANCES[::-1]])
        grid = np.tile(places, (2 * self.d, 1))
        ask = asking(grid, every, _SHARE / _ROUNDS, "columns")
        found, least, most = _places(ask, grid.shape, _ROUNDS)
        low, high = _cells(grid, found)
        same = np.flatnonzero(found[::2] == found[1::2])
        # Two answers that may well be one.
        atoms = most[::2] >= least[1::2]
        if len(same):
            own = np.stack([2 * same, 2 * same + 1], axis=1).ravel()
            steps = np.arange(1, _INSIDE_CELLS + 1) / _INSIDE_CELLS
            inside = low[own, None] + (high - low)[own, None] * steps
            share = _INSIDE_SHARE / _INSIDE_ROUNDS
            ask = asking(inside, same, share, "columns, inside a cell")
            found, least, most = _places(ask, inside.shape, _INSIDE_ROUNDS)
            low[own], high[own] = _cells(inside, found)
            atoms[same] = most[::2] >= least[1::2]
        quantiles = np.sort((0.5 * (low + high)).reshape(-1, 2), axis=1)
        if self.fixed:
            atoms &= np.abs(quantiles).min(axis=1) <= norm * _DISTANCES[-1]
            moves, widths = np.zeros(self.d), np.abs(quantiles).max(axis=1)
        else:
            moves, widths = quantiles.mean(axis=1), 0.5 * (quantiles[:, 1] - quantiles[:, 0])
        low, high = low.reshape(-1, 2), high.reshape(-1, 2)
        widths = np.where(atoms, high.max(axis=1) - low.min(axis=1), widths)
        # Far from zero neighbouring floats may be farther apart than that.
        widths = np.maximum(widths, np.spacing(np.abs(center) + norm))
        certain = self.n * self.mu >= _CERTAIN * math.sqrt(self.d)
        if _are_unlike(widths[~atoms], certain):
            limit = np.where(atoms, _ATOM_CLIP, self.clip) * widths
            return Columns(center + moves, limit, widths, True)
        # A refused place was paid for: no column reaches much farther than it says.
        usual, ordinary = norm / math.sqrt(self.d), widths[~atoms]
        if 2 * len(ordinary) > self.d:
            usual = min(usual, float(np.median(ordinary)))
        limit = self.clip * np.where(atoms, usual, np.maximum(widths, usual))
        if not self.fixed:
            center = center + np.clip(0.0, *quantiles.T)
        return Columns(center, limit, np.ones(self.d), False)


def _are_unlike(scales: np.ndarray, certain: bool) -> bool:
    """Whether a few columns hold all of the length of rows.

    One answer alone says nothing, unless all are `certain`.
    """
    if len(scales) < 2:
        return False
    if certain:
        usual = _USUAL * math.sqrt(np.mean(scales * scales))
        return float(np.mean(np.log(np.maximum(usual / scales, 1.0)))) >= _NARROWER
    if len(scales) <= _FEW:
        return _effective(scales) <= _ONE
    others = np.sort(scales)[:-1]
    return _effective(others) < _ALIKE * len(others)


def _effective(scales: np.ndarray) -> float:
    """Effective number of columns: how many of equal scales would share their length alike."""
    squares = (scales / scales.max()) ** 2
    return float(squares.sum() ** 2 / np.sum(squares**2))


def _levels(columns: int) -> np.ndarray:
    """Levels of a vector that asks for all lower quantiles of so many columns, then the upper."""
    return np.repeat(_FIFTHS, columns)


def _cells(grid: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the cells that end at the values of these places."""
    every = np.arange(len(grid))
    below = grid[every, np.maximum(places - 1, 0)]
    first = 2.0 * grid[:, 0] - grid[:, 1]
    return np.where(places > 0, below, first), grid[every, places]


def _places(
    ask: Callable[[np.ndarray, int], np.ndarray], shape: tuple[int, int], rounds: int
) -> list[np.ndarray]:
    """Medians and fifths of the posterior weights of many grids, each halved by every noisy answer.

    As :class:`skriemdp.mechanisms.quantile.PrivateQuantile` for one grid, with a flat prior.
    `ask` says how many standard deviations of noise the counts at these places lie above their
    ranks.
    """
    size, every = shape[1], np.arange(shape[0])
    weight, total, asked, known = np.zeros((4, *shape))
    for number in range(rounds):
        below = _shares(weight)
        at = np.minimum((below < 0.5).sum(axis=1), size - 2)
        before = below[every, np.maximum(at - 1, 0)]
        at -= (at > 0) & (0.5 - before < below[every, at] - 0.5)
        total[every, at] += ask(at, number)
        asked[every, at] += 1.0
        z = total[every, at] / np.sqrt(asked[every, at])
        evidence = log_ndtr(z) - log_ndtr(-z)
        gain = evidence - known[every, at]
        weight += np.where(np.arange(size) <= at[:, None], gain[:, None], 0.0)
        known[every, at] = evidence
    below = _shares(weight)
    return [np.minimum((below < part).sum(axis=1), size - 1) for part in (0.5, *_FIFTHS)]


def _shares(weight: np.ndarray) -> np.ndarray:
    """Shares of the weights, which are logarithms, at or below each place."""
    below = np.cumsum(np.exp(weight - weight.max(axis=1, keepdims=True)), axis=1)
    return np.asarray(below / below[:, -1:])
