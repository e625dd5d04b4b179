"""A Gaussian release and one with a known profile, together: a rigorous integral over chords.

Theorem, proof, rounding: docs/theory/riemannian-gdp.md, "Behind Gaussian releases".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

# Upper bounds of the delta of a symmetric pair, at an array of epsilons.
Profile: TypeAlias = Callable[[np.ndarray], np.ndarray]

# Largest mu: above it, e^loss nears the end of the floating-point range.
MOST_MU = 15.0
# Cells of the result; the error of chords falls like the inverse square of their number.
_CELLS = 160
# Fewer cells, which are used if a refinement from them changes the result by less than this factor.
_FEW, _ENOUGH = 40, 1.01
_REACH, _FARTHEST = 9.0, 37.0  # standard deviations of the Gaussian loss on both sides
_TAIL = 1e-6  # mass beyond the cells, over the result, that is not worth more cells


class Cells:
    """Cells of the loss L ~ N(mu^2/2, mu^2) between `edges`, in standard deviations from mu^2/2.

    Attributes
    ----------
    losses : ndarray of shape (k,)
        The edges themselves, increasing.
    weights : ndarray of shape (k,)
        ``E[f(L)] <= weights @ f(losses) + tail`` for every f from 0 to 1 that increases and is
        convex in ``exp(-L)``.
    tail : float
    """

    def __init__(self, mu: float, edges: ArrayLike):
        edges = np.asarray(edges, dtype=float)
        self.edges = edges
        self.losses = 0.5 * mu * mu + mu * edges
        mass = _between(edges)
        # E[exp(-L)] on a cell, times exp(L) at its lower end
        tilted = np.exp(self.losses[:-1]) * _between(edges + mu)
        upper = np.clip((mass - tilted) / -np.expm1(-np.diff(self.losses)), 0.0, mass)
        self.weights = np.zeros(edges.size)
        self.weights[1:] += upper
        self.weights[:-1] += mass - upper
        self.weights[0] += ndtr(edges[0])
        self.tail = float(ndtr(-edges[-1]))


def _between(edges: np.ndarray) -> np.ndarray:
    """N(0, 1) mass between successive edges, from the smaller tail."""
    below, above = ndtr(edges), ndtr(-edges)
    return np.where(edges[:-1] >= 0.0, above[:-1] - above[1:], below[1:] - below[:-1])


def memoized(profile: Profile) -> Profile:
    """`profile`, which is not asked again for what it has answered; cells share their edges."""
    known: dict[float, float] = {}

    def ask(epsilons: np.ndarray) -> np.ndarray:
        wanted = epsilons.tolist()
        new = [epsilon for epsilon in wanted if epsilon not in known]
        if new:
            known.update(zip(new, profile(np.array(new)).tolist(), strict=True))
        return np.array([known[epsilon] for epsilon in wanted])

    return ask


def _mirrored(profile: Profile, levels: np.ndarray) -> np.ndarray:
    """The profile of a symmetric pair at any epsilon."""
    size = np.abs(levels)
    deltas = profile(size)
    negative = -np.expm1(-size) + np.exp(-size) * deltas
    return np.where(levels >= 0.0, deltas, np.minimum(negative, 1.0))


def _first_cells(
    profile: Profile, mu: float, epsilon: float, kink: float | None
) -> tuple[Cells, np.ndarray]:
    """Equal cells that reach far enough, and what each of their edges contributes."""
    reach = _REACH
    while True:
        # A first look takes few cells.
        edges = np.linspace(-reach, reach, 37)
        if kink is not None:
            corner = (epsilon - kink) / mu - 0.5 * mu
            if -reach < corner < reach:
                edges = np.unique(np.append(edges, corner))
        cells = Cells(mu, edges)
        shares = cells.weights * _mirrored(profile, epsilon - cells.losses)
        total = float(shares.sum())
        if cells.tail <= _TAIL * total or reach == _FARTHEST:
            return cells, shares
        wanted = math.sqrt(2.0 * math.log(1.0 / _TAIL / max(total, 1e-300)))
        reach = min(max(wanted, reach + 1.0), _FARTHEST)


def _cut(mu: float, cells: Cells, shares: np.ndarray, count: int) -> Cells:
    """About `count` cells, most of them where the contributions are."""
    total = float(shares.sum())
    if not total > 0.0:
        return cells
    # A cell cut into n has an excess like 1/n^2: the sum is least for n like the cube root.
    size = np.cbrt(np.maximum(shares[:-1], shares[1:]) + 1e-9 * total)
    counts = np.ceil(count * size / size.sum()).astype(int)
    starts = np.repeat(cells.edges[:-1], counts)
    widths = np.repeat(np.diff(cells.edges) / counts, counts)
    position = np.arange(starts.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return Cells(mu, np.append(starts + widths * position, cells.edges[-1]))


def choose_cells(profile: Callable, mu: float, epsilon: float, count: int = _CELLS) -> Cells:
    """Cells that are narrow where the expectation of the profile comes from.

    Parameters
    ----------
    profile, mu, epsilon
        As for :func:`chord_delta`.
    count : int
        About how many cells.
    """
    first, shares = _first_cells(profile, mu, epsilon, None)
    return _cut(mu, first, shares, count)


def chord_delta(
    profile: Callable,
    mu: float,
    epsilon: float,
    kink: float | None = None,
    cells: Cells | None = None,
) -> float:
    """Delta at `epsilon` of a mu-GDP release and one of this profile together, rounded up.

    Parameters
    ----------
    profile : callable
        Upper bounds of the delta of a symmetric pair at an array of epsilons >= 0.
    mu : float
        Positive, at most :data:`MOST_MU`.
    epsilon : float
    kink : float, optional
        Where the profile becomes zero.
    cells : Cells, optional
        Of :func:`choose_cells` for similar numbers; any cells give a bound.
    """

    def value(cells: Cells) -> float:
        values = _mirrored(profile, epsilon - cells.losses)
        # rounding of the cells' masses
        return min(float(cells.weights @ values + cells.tail) * (1.0 + 1e-10), 1.0)

    if cells is not None:
        return value(cells)
    profile = memoized(profile)
    first, shares = _first_cells(profile, mu, epsilon, kink)
    # Of cells twice as wide the excess is about four times as large.
    wide = Cells(mu, np.append(first.edges[:-1:2], first.edges[-1]))
    # They are not tried where joining the first ones in pairs changes it by more.
    if value(wide) > 1.06 * (float(shares.sum()) + first.tail):
        return value(_cut(mu, first, shares, _CELLS))
    bound = value(_cut(mu, first, shares, _FEW))
    if float(shares.sum()) + first.tail <= _ENOUGH * bound:
        return bound  # chords hardly matter: the Gaussian loss is narrow
    return min(bound, value(_cut(mu, first, shares, _CELLS)))
