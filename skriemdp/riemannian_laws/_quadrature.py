"""Integrals of analytic bumps, many at a time: a window, then the doubled trapezoidal rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from skriemdp._errors import PublicArithmeticError

_DEPTH = 42.0  # integrand below exp(-42) of its peak is left out: 6e-19
# Where the ends of a window are looked for, from the peak: finer offsets narrow it and cost time.
_OFFSETS = np.concatenate([[0.0], np.geomspace(1e-7, 40.0, 36)])
# Number of first nodes; rules on every fourth and every second of them must agree, and every eighth
# locates the integrand.
_FIRST_NODES = 96
# Changes by a refinement, whose squares are the errors of the finer rule; see `integrate`.
_CHANGE, _ROUGH_CHANGE = 2e-8, 0.03
# One integral in so many locates its own window; those between try their neighbours'.
_STRIDE = 12
# Nodes that are evaluated at once: their temporaries stay in cache, and are so small that their
# memory is used again and not asked for anew.
_BLOCK = 6000


class QuadratureError(PublicArithmeticError):
    """An integral did not reach its accuracy; nothing is returned instead of a wrong number."""


# The logarithms of scales, and the terms, of rows (by index) at points t; see `integrate`.
Integrand: TypeAlias = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass
class Window:
    """Interval in which integrands were found to matter: a first guess for the next call."""

    low: np.ndarray | None = None
    high: np.ndarray | None = None


def integrate(
    evaluate: Integrand, rows: int, span: tuple[float, float], window: Window | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Integrals over the real line of functions that decay (super)exponentially on both sides.

    The integrands are analytic after the substitutions of their callers, so the trapezoidal rule on
    a window that ends where they have decayed converges geometrically: when two successive
    refinements differ by e, the error of the finer one is of order e**2.  Refinement stops when
    every integral changed by less than 2e-8 of itself (or by less than rounding).  The first nodes
    hold three rules, whose differences are looked at.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(index, t)`` for ``index`` of shape ``(k,)`` (the rows asked for) and ``t`` of
        shape ``(k, m)`` returns ``(log_scale, terms)``: the integrands are
        ``exp(log_scale) * terms[j]``, ``log_scale`` ``(k, m)``, ``terms`` ``(j, k, m)`` with
        entries of size at most about one.
    rows : int
        Number of integrals.
    span : tuple of float
        Where to look for the peaks in t.
    window : Window, optional
        Read if it is of as many rows, then overwritten.  Successive rows are also taken to be
        similar.  A guessed window is never trusted: at both of its ends the integrand must have
        decayed as far as a search would ask for, else the row is searched.

    Returns
    -------
    log_factor : ndarray of shape (rows,)
        ``-inf`` where the integrand vanishes.
    sums : ndarray of shape (j, rows)
        The integrals are ``exp(log_factor) * sums``.
    """
    top, low, high, first = _windows(evaluate, rows, span, window)
    alive = np.isfinite(top)
    top = np.where(alive, top, 0.0)

    # Every fourth, every other and all of the first nodes.
    total, step = first[2].copy(), (high - low) / _FIRST_NODES
    result = step * total
    half, quarter = (
        np.abs(k * step * part - result) for k, part in ((2.0, first[1]), (4.0, first[0]))
    )
    size = np.abs(result)
    rounding = 1e-14 * size.max(axis=0)
    # An error may vanish at one spacing, by the place of the nodes, but not at two.
    rough = (half > _CHANGE * size + rounding) | (quarter > _ROUGH_CHANGE * size + rounding)
    index = np.flatnonzero(alive & (high > low) & rough.any(axis=0))
    count = _FIRST_NODES
    while index.size:
        if count > 49152:
            raise QuadratureError("an integral of a privacy profile did not converge.")
        step = (high[index] - low[index]) / count
        t = low[index, None] + step[:, None] * (np.arange(count) + 0.5)
        total[:, index] += _sums(evaluate, index, t, top[index])
        current = 0.5 * step * total[:, index]
        change = np.abs(current - result[:, index])
        rounding = 1e-14 * np.abs(current).max(axis=0)
        result[:, index] = current
        index = index[(change > _CHANGE * np.abs(current) + rounding).any(axis=0)]
        count *= 2
    return np.where(alive, top, -np.inf), result


def _windows(
    evaluate: Integrand, rows: int, span: tuple[float, float], window: Window | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Log heights near the peaks, and the ends of the intervals that matter, of all rows.

    And the sums of :func:`_opening`.
    """
    everyone = np.arange(rows)
    top, low, high = np.full(rows, np.nan), np.zeros(rows), np.zeros(rows)

    def search(index: np.ndarray) -> None:
        top[index], low[index], high[index] = _search(evaluate, index, span)

    tried = np.zeros(rows, dtype=bool)
    if window is not None and window.low is not None and window.low.size == rows:
        low[:], high[:] = window.low, window.high
        tried[:] = True
    elif rows > 2 * _STRIDE:
        anchors = np.append(everyone[:-1:_STRIDE], rows - 1)
        search(anchors)
        left = np.minimum(everyone // _STRIDE, anchors.size - 2)
        left, right = anchors[left], anchors[left + 1]
        tried[:] = True
        tried[anchors] = False
        ends = np.minimum(low[left], low[right]), np.maximum(high[left], high[right])
        low[tried], high[tried] = ends[0][tried], ends[1][tried]
    else:
        search(everyone)
    wider = 0.04 * (high[tried] - low[tried])
    low[tried] = np.maximum(low[tried] - wider, span[0])
    high[tried] = np.minimum(high[tried] + wider, span[1])
    sums, good = _opening(evaluate, everyone, low, high, top, span)
    again = np.flatnonzero(tried & ~good)
    if again.size:
        search(again)
        sums[:, :, again], _ = _opening(evaluate, again, low, high, top, span)
    if window is not None:
        window.low, window.high = low.copy(), high.copy()
    return top, low, high, sums


def _opening(
    evaluate: Integrand,
    index: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    top: np.ndarray,
    span: tuple[float, float],
) -> tuple[np.ndarray, np.ndarray]:
    """Sums over every fourth, every other and all of the first nodes, in the windows of `index`.

    And whether each window will do: the integrand has decayed at its ends, or they are those of the
    span, and its peak does not fall between the nodes.  Heights that are not known yet are set.
    """
    sums, good = [], np.zeros(index.size, dtype=bool)
    for block in _blocks(index.size, _FIRST_NODES):
        rows = index[block]
        step = (high[rows] - low[rows])[:, None] / _FIRST_NODES
        log_scale, terms = evaluate(rows, low[rows, None] + step * np.arange(_FIRST_NODES + 1))
        probes = _cleaned(log_scale[:, :: _FIRST_NODES // 12])
        top[rows] = np.where(np.isnan(top[rows]), probes.max(axis=1), top[rows])
        found = np.isfinite(top[rows])
        bottom = np.where(found, top[rows], np.inf) - _DEPTH
        enough = (probes[:, 0] < bottom) | (low[rows] <= span[0])
        enough &= (probes[:, -1] < bottom) | (high[rows] >= span[1])
        enough &= (probes > bottom[:, None]).sum(axis=1) >= 3
        good[block] = enough & found
        weighted = _weighted(log_scale, terms, np.where(found, top[rows], 0.0), good[block])
        sums.append([weighted[:, :, ::4].sum(-1), weighted[:, :, ::2].sum(-1), weighted.sum(-1)])
    return np.concatenate(sums, axis=-1), good


def _search(
    evaluate: Integrand, index: np.ndarray, span: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log heights of the peaks, and the ends of the intervals that matter."""
    grid = np.linspace(span[0], span[1], 48)
    peak, top = _best(evaluate, index, np.broadcast_to(grid, (index.size, grid.size)))
    width = np.full(index.size, grid[1] - grid[0])
    # A search may go on from narrow peaks that it had missed.
    for _ in range(6):
        for _ in range(4):
            t = peak[:, None] + width[:, None] * np.linspace(-1.0, 1.0, 13)
            peak, top = _best(evaluate, index, np.clip(t, *span))
            width = width / 6.0
        t = np.concatenate([peak[:, None] - _OFFSETS[::-1], peak[:, None] + _OFFSETS], axis=1)
        values = _scale(evaluate, index, np.clip(t, *span))
        better = values.max(axis=1) > top + 0.5
        if not better.any():
            break
        # A narrow peak was missed: go on from the best point, at the spacing of the grid there.
        best = t[np.arange(index.size), values.argmax(axis=1)]
        width = np.where(better, np.maximum(np.abs(best - peak), 1e-6), width)
        peak = np.where(better, np.clip(best, *span), peak)
    deep = values < np.where(np.isfinite(top), top, 0.0)[:, None] - _DEPTH
    low = _edge(peak, -_OFFSETS, deep[:, : _OFFSETS.size][:, ::-1], span)
    high = _edge(peak, _OFFSETS, deep[:, _OFFSETS.size :], span)
    return top, low, high


def _blocks(rows: int, nodes: int) -> list[slice]:
    """The rows in blocks of about `_BLOCK` nodes."""
    step = max(1, _BLOCK // nodes)
    return [slice(begin, begin + step) for begin in range(0, rows, step)]


def _scale(evaluate: Integrand, index: np.ndarray, t: np.ndarray) -> np.ndarray:
    found = np.empty(t.shape)
    for block in _blocks(*t.shape):
        found[block] = evaluate(index[block], t[block])[0]
    return _cleaned(found)


def _cleaned(log_scale: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(log_scale), log_scale, -np.inf)


def _best(evaluate: Integrand, index: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    value = _scale(evaluate, index, t)
    column = np.argmax(value, axis=1)
    row = np.arange(index.size)
    return t[row, column], value[row, column]


def _edge(
    peak: np.ndarray, offsets: np.ndarray, deep: np.ndarray, span: tuple[float, float]
) -> np.ndarray:
    # One grid point beyond the outermost that still counts; also right for several bumps.
    last = offsets.size - 1 - np.argmax(~deep[:, ::-1], axis=1)
    last = np.where(deep.all(axis=1), 0, last)
    return np.clip(peak + offsets[np.minimum(last + 1, offsets.size - 1)], *span)


def _sums(evaluate: Integrand, index: np.ndarray, t: np.ndarray, top: np.ndarray) -> np.ndarray:
    totals = []
    for block in _blocks(*t.shape):
        log_scale, terms = evaluate(index[block], t[block])
        totals.append(_weighted(log_scale, terms, top[block]).sum(axis=-1))
    return np.concatenate(totals, axis=-1)


def _weighted(
    log_scale: np.ndarray, terms: np.ndarray, top: np.ndarray, rows: np.ndarray | None = None
) -> np.ndarray:
    """The integrands over ``exp(top)``; of `rows`, a mask, no node may lie far above that."""
    relative = log_scale - top[:, None]
    if not (relative.max() <= 20.0 and relative.min() > -np.inf):
        # Where an integrand vanishes its terms mean nothing.
        terms = np.where(np.isfinite(relative), terms, 0.0)
        relative = _cleaned(relative)
        if (relative if rows is None else relative[rows]).max(initial=-np.inf) > 20.0:
            raise QuadratureError("the peak of an integral of a privacy profile was missed.")
        np.minimum(relative, 700.0, out=relative)
    return terms * np.exp(relative, out=relative)
