"""A private place and scale for every column of a table, where columns come in unlike units."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import log_ndtr

from skriemdp._mechanisms.bounded_sets import answers
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams

# All constants are measured (benchmarks/raw_tables.py), none of them on the data of a fit.

# Share of mu**2 of the vectors that place two quantiles of every column, first on a geometric grid;
# the part of it that places them inside one cell, where both are there; and how many vectors.
_SHARE, _ROUNDS = 0.1, 9
_INSIDE, _INSIDE_ROUNDS, _INSIDE_CELLS = 0.3, 10, 128
_FIFTHS = (0.2, 0.8)
# Farther quantiles, of columns whose fifths are one place; in so many scales.
_TAILS, _TAIL_SCALES = (0.04, 0.96), 2.0
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
    atoms : ndarray of shape (d,), of bool
        Whether most numbers of a column may well be one.
    """

    center: np.ndarray
    limit: np.ndarray
    scale: np.ndarray
    unlike: bool
    atoms: np.ndarray


class ColumnRule(NamedTuple):
    """Rule by which columns are looked at, and get scales of their own or not; public.

    Attributes
    ----------
    clip : float
        Columns are clipped at so many scales.
    share, inside : float
        Of ``mu**2``; and the part of it that places quantiles inside one cell.
    passes : int
        How often that is done, for columns that are narrower again, for that part each time.
    tails : float
        Of ``mu**2`` besides, for quantiles farther out of columns whose fifths are one place.
    price : float or None
        Columns have scales of their own if one norm for all costs a column so many times the noise
        that it would have by itself, in root mean square.  None: a rule for rows of models.
    """

    clip: float
    share: float = _SHARE
    inside: float = _INSIDE
    passes: int = 1
    tails: float = 0.0
    price: float | None = None

    @property
    def total(self) -> float:
        """The most that is spent of ``mu**2``."""
        return self.share * (1.0 + self.inside * (self.passes - 1)) + self.tails


@dataclass(frozen=True, eq=False)
class ColumnSearch:
    """Plans private quantiles of all columns together, one vector of truth values at a time.

    Parameters
    ----------
    n, d : int
        Numbers of records and of columns.
    mu : float
        Gaussian differential privacy parameter of the whole fit.
    rule : ColumnRule
    fixed : bool, default=False
        Whether the centre is public and stays: the scale of a column is then that of the farther of
        two quantiles.
    center : float or ndarray of shape (d,), default=0.0
    norm : float, default=1.0
        Of the rows less `center`; both released, and set before :meth:`release`.

    Notes
    -----
    *Guarantee*: within ``rule.total`` of ``mu**2``.  Each release is a sum of one vector per
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
    rule: ColumnRule
    fixed: bool = False
    center: Any = 0.0
    norm: float = 1.0

    def __post_init__(self) -> None:
        least = min(self._grid_share, self._inside_share)
        answers(2 * self.d, np.repeat(_FIFTHS, self.d)).check(self.mu * math.sqrt(least))

    @staticmethod
    def is_seen(n: int, d: int, mu: float) -> bool:
        """Whether so many records show the scales of so many columns; from public numbers."""
        # Both quantiles of every column then stand out of the noise (benchmarks/raw_tables.py
        # --columns).
        return d > 1 and n * mu >= 64.0 * math.sqrt(d)

    @property
    def _grid_share(self) -> float:
        return (1.0 - self.rule.inside) * self.rule.share / _ROUNDS

    @property
    def _inside_share(self) -> float:
        return self.rule.inside * self.rule.share / _INSIDE_ROUNDS

    def reserve(self, budget: GaussianBudget) -> None:
        """Take from the budget of a plan all that may be spent here."""
        budget.take(self.rule.total, COLUMNS)

    def release(self, records: Units, budget: GaussianBudget, streams: NoiseStreams) -> Columns:
        """Quantiles of the columns of a table, dense or CSR; people give the shares of own rows."""
        located = functools.partial(self._located, records, budget, streams)
        center, norm, every = self.center, self.norm, np.arange(self.d)
        places = norm * np.concatenate([-_DISTANCES, [0.0], _DISTANCES[::-1]])
        grid = np.tile(places, (2 * self.d, 1))
        found, atoms = located(grid, every, _FIFTHS, self._grid_share, _ROUNDS, "columns")
        low, high = _cells(grid, found)
        # Neighbouring cells may share the quantiles of a narrow column, too.
        same = np.flatnonzero(found[1::2] - found[::2] <= 1)
        for number in range(self.rule.passes):
            if len(same) == 0:
                break
            own = _both(same)
            low[own] = np.repeat(low[own].reshape(-1, 2).min(axis=1), 2)
            high[own] = np.repeat(high[own].reshape(-1, 2).max(axis=1), 2)
            steps = np.arange(1, _INSIDE_CELLS + 1) / _INSIDE_CELLS
            inside = low[own, None] + (high - low)[own, None] * steps
            label = ("columns, inside a cell", number)[: 1 + (number > 0)]
            found, atoms[same] = located(
                inside, same, _FIFTHS, self._inside_share, _INSIDE_ROUNDS, *label
            )
            low[own], high[own] = _cells(inside, found)
            same = same[found[1::2] - found[::2] <= 1]
        quantiles = np.sort((0.5 * (low + high)).reshape(-1, 2), axis=1)
        if self.fixed:
            atoms &= np.abs(quantiles).min(axis=1) <= norm * _DISTANCES[-1]
            moves, widths = np.zeros(self.d), np.abs(quantiles).max(axis=1)
        else:
            moves, widths = quantiles.mean(axis=1), 0.5 * (quantiles[:, 1] - quantiles[:, 0])
        low, high = low.reshape(-1, 2), high.reshape(-1, 2)
        widths = np.where(atoms, high.max(axis=1) - low.min(axis=1), widths)
        few = np.flatnonzero(atoms)
        if self.rule.tails > 0.0 and len(few):
            grid, share = grid[_both(few)], self.rule.tails / _ROUNDS
            found, hidden = located(grid, few, _TAILS, share, _ROUNDS, "columns, beyond atoms")
            ends = np.stack(_cells(grid, found)).mean(axis=0).reshape(-1, 2)
            seen = few[~hidden]
            far = np.abs(ends - moves[few, None]).max(axis=1)[~hidden]
            widths[seen], atoms[seen] = np.maximum(far / _TAIL_SCALES, widths[seen]), False
        # Far from zero neighbouring floats may be farther apart than that.
        widths = np.maximum(widths, np.spacing(np.abs(center) + norm))
        return self._decided(quantiles, moves, widths, atoms)

    def _located(
        self,
        records: Units,
        budget: GaussianBudget,
        streams: NoiseStreams,
        grid: np.ndarray,
        columns: np.ndarray,
        levels: tuple[float, float],
        share: float,
        rounds: int,
        *label: Any,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Places in `grid` of two quantiles of each of `columns`, and whether both may be one."""
        bounded_set = answers(2 * len(columns), np.repeat(levels, len(columns)))
        both, everywhere = np.repeat(columns, 2), len(columns) == self.d

        def ask(places: np.ndarray, number: int) -> np.ndarray:
            thresholds = self.center[both] + grid[np.arange(len(both)), places]
            # All lower ones, then all upper ones, each in one piece: compared faster.
            thresholds = thresholds.reshape(-1, 2).T.copy()

            def give(rows: Any) -> np.ndarray:
                rows = rows.toarray() if issparse(rows) else rows
                rows = rows if everywhere else rows[:, columns]
                below = np.concatenate([rows <= ends for ends in thresholds], axis=1)
                return below if records.groups is None else below.astype(float)

            mu = budget.take(share, COLUMNS, bounded_set.width)
            noisy = private_sum(records, give, bounded_set, mu, streams(*label, number))
            return (noisy.value / noisy.sigma).reshape(2, -1).T.ravel()

        found, least, most = _places(ask, grid.shape, rounds)
        return found, most[::2] >= least[1::2]

    def _decided(
        self, quantiles: np.ndarray, moves: np.ndarray, widths: np.ndarray, atoms: np.ndarray
    ) -> Columns:
        """Columns with scales of their own, or with one; from released numbers."""
        usual, ordinary = self.norm / math.sqrt(self.d), widths[~atoms]
        if self.rule.price is not None:
            unlike = price(ordinary) > self.rule.price
        else:
            unlike = _are_unlike(ordinary, self.n * self.mu >= _CERTAIN * math.sqrt(self.d))
        if unlike:
            limit = np.where(atoms, _ATOM_CLIP, self.rule.clip) * widths
            return Columns(self.center + moves, limit, widths, True, atoms)
        # A refused place was paid for: no column reaches much farther than it says.
        if 2 * len(ordinary) > self.d:
            usual = min(usual, float(np.median(ordinary)))
        limit = self.rule.clip * np.where(atoms, usual, np.maximum(widths, usual))
        center = self.center if self.fixed else self.center + np.clip(0.0, *quantiles.T)
        return Columns(center, limit, np.ones(self.d), False, atoms)


def _both(columns: np.ndarray) -> np.ndarray:
    """Return the numbers of both quantiles of each of these columns."""
    return np.stack([2 * columns, 2 * columns + 1], axis=1).ravel()


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


def price(scales: np.ndarray) -> float:
    """Return the noise of a column under one norm for all over that under a scale of its own."""
    if len(scales) == 0:
        return 1.0
    return float(np.sqrt(np.mean(scales**2) * np.mean(scales**-2.0)))


def _effective(scales: np.ndarray) -> float:
    """Effective number of columns: how many of equal scales would share their length alike."""
    squares = (scales / scales.max()) ** 2
    return float(squares.sum() ** 2 / np.sum(squares**2))


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

    As :class:`skriemdp._mechanisms.quantile.PrivateQuantile` for one grid, with a flat prior.
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
