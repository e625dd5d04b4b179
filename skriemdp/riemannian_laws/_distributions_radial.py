"""Positive random numbers with a given log density: one table, inverse distribution function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skriemdp._arrays import Size

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_DEPTH = 60.0  # the density is cut where it has fallen by exp(-60)


class RadialTable:
    """Law on an interval ``(0, end)`` with density proportional to ``exp(log_density(r))``.

    Parameters
    ----------
    log_density : callable
        Vectorised; at most a few bumps, integrable at both ends.
    scale : float
        A length of the law, to start the search for its support.
    end : float, default=inf
    cuts : array-like, default=()
        Where the log density jumps; cells end there.

    Notes
    -----
    The distribution function is tabulated by Gauss quadrature on about 4000 cells of similar mass
    and similar width, and inverted through its cubic Hermite interpolant: ``|F(ppf(u)) - u|`` is
    below 1e-13 (tests/test_distributions.py).  Draws take 53-bit uniform numbers.
    """

    def __init__(
        self,
        log_density: Callable[..., Any],
        scale: float,
        end: float = np.inf,
        cuts: np.ndarray | tuple[int, ...] = (),
    ):
        self._log_density = log_density
        low, high, self._top = _support(log_density, scale, end)
        width = high - low
        cuts = np.asarray(cuts, dtype=float)
        grids = [np.linspace(0.0, 1.0, 1025), np.geomspace(1e-9, 1.0, 512)]
        edges = np.concatenate([low + width * np.concatenate(grids), cuts])
        edges = np.unique(edges[(edges >= low) & (edges <= high)])
        mass = self._cell_integrals(edges)
        shares = np.concatenate([[0.0], np.cumsum(mass)]) / mass.sum()
        equal = np.interp(np.linspace(0.0, 1.0, 2049), shares, edges)
        self._edges = edges = np.unique(np.concatenate([edges, equal]))
        mass = self._cell_integrals(edges)
        self.log_normaliser = float(np.log(mass.sum()) + self._top)
        self._cdf = np.concatenate([[0.0], np.cumsum(mass)]) / mass.sum()
        # Densities at both ends of each cell, from inside, in units of the cell's width.
        cell = np.diff(edges)
        inside = edges[:-1] + 1e-9 * cell, edges[1:] - 1e-9 * cell
        self._slopes = [np.exp(self._safe_log(r) - self._top) * cell / mass.sum() for r in inside]

    def _safe_log(self, r: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(self._log_density(r), nan=-np.inf, neginf=-np.inf)

    def _cell_integrals(
        self, edges: np.ndarray, factor: Callable[..., Any] | None = None
    ) -> np.ndarray:
        half = 0.5 * np.diff(edges)[:, None]
        r = edges[:-1, None] + half * (1.0 + _NODES)
        value = np.exp(self._safe_log(r) - self._top)
        if factor is not None:
            value = value * factor(r)
        return (half * value) @ _WEIGHTS

    def mean(self, function: Callable[..., Any]) -> float:
        """Expectation of a vectorised function of the variable."""
        total = np.exp(self.log_normaliser - self._top)
        return float(self._cell_integrals(self._edges, function).sum() / total)

    def cdf(self, r: np.ndarray) -> np.ndarray:
        """Distribution function, by interpolation."""
        r = np.clip(r, self._edges[0], self._edges[-1])
        cell = np.clip(np.searchsorted(self._edges, r, side="right") - 1, 0, self._cdf.size - 2)
        x = (r - self._edges[cell]) / (self._edges[cell + 1] - self._edges[cell])
        return self._cdf[cell] + self._hermite(cell, x)[0]

    def _hermite(
        self, cell: int | np.ndarray, x: float | np.ndarray
    ) -> tuple[float | np.ndarray, float | np.ndarray]:
        """Mass of the cell up to the share x of its width, and its derivative."""
        rise = self._cdf[cell + 1] - self._cdf[cell]
        first, last = self._slopes[0][cell], self._slopes[1][cell]
        bend = first + last - 2.0 * rise
        value = x * (first + x * (3.0 * rise - 2.0 * first - last + x * bend))
        slope = first + x * (2.0 * (3.0 * rise - 2.0 * first - last) + 3.0 * x * bend)
        return value, slope

    def ppf(self, u: float | np.ndarray) -> Any:
        """Inverse of the distribution function."""
        u = np.asarray(u, dtype=float)
        cell = np.clip(np.searchsorted(self._cdf, u, side="right") - 1, 0, self._cdf.size - 2)
        wanted = u - self._cdf[cell]
        rise = self._cdf[cell + 1] - self._cdf[cell]
        x = np.clip(wanted / np.maximum(rise, 1e-300), 0.0, 1.0)
        for _ in range(4):
            value, slope = self._hermite(cell, x)
            x = np.clip(x - (value - wanted) / np.maximum(slope, 1e-3 * rise + 1e-300), 0.0, 1.0)
        return self._edges[cell] + x * (self._edges[cell + 1] - self._edges[cell])

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator) -> Any:
        """Independent draws; `size` an int or a tuple."""
        return self.ppf(rng.random(size))


def accepted(
    size: Size,
    propose: Callable[[int], np.ndarray],
    rate: float,
    least_rate: float,
    batches: tuple[int, int],
) -> np.ndarray:
    """The first `size` of what ``propose(batch)`` keeps of so many proposals.

    Parameters
    ----------
    size : int or tuple of int
    propose : callable
    rate : float
        The share that is first expected to be kept; then it is what was seen, no less than
        `least_rate`.
    least_rate : float
    batches : tuple of int
        The fewest and the most proposals at a time.
    """
    kept, have, tried = [], 0, 0
    shape = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    count = math.prod(shape)
    while have < count:
        rate = max(have / tried, least_rate) if tried else rate
        batch = int(min(max(1.2 * (count - have) / rate, batches[0]), batches[1]))
        found = propose(batch)
        kept.append(found)
        have, tried = have + len(found), tried + batch
    found = np.concatenate(kept)[:count]
    return found.reshape(*shape, *found.shape[1:])


def _support(
    log_density: Callable[..., Any], scale: float, end: float
) -> tuple[float, float, float]:
    """Interval outside which the density is negligible, and the log of its peak."""

    def value(r: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(log_density(r), nan=-np.inf, neginf=-np.inf)

    if np.isfinite(end):
        grid = end * np.concatenate([np.geomspace(1e-9, 0.4, 200), np.linspace(0.4, 1.0, 200)[:-1]])
    else:
        grid = scale * np.geomspace(1e-8, 1e10, 600)
    peak = grid[np.argmax(value(grid))]
    for spread in (0.3, 0.03, 0.003, 3e-4, 3e-5):
        around = np.clip(peak * (1.0 + spread * np.linspace(-1.0, 1.0, 61)), 0.0, end)
        peak = around[np.argmax(value(around))]
    top = float(value(np.array([peak]))[0])
    steps = np.geomspace(1e-9, 1e10, 2000) * scale
    left, right = peak - steps[steps < peak], peak + steps
    right = right[right < end] if np.isfinite(end) else right
    low = left[value(left) < top - _DEPTH]
    high = right[value(right) < top - _DEPTH]
    return (low[0] if low.size else 0.0), (high[0] if high.size else float(end)), top
