"""Scales of radial laws that reach a target: one search for all exponents at once.

The unknown of a law with exponent p > 1 is the logarithm of its shift (sensitivity over scale).
With exponent 1 delta vanishes where the shift comes down to epsilon, like a power of the distance;
so there the unknown is ``log(shift - lowest)``, in which log delta is nearly a line, and no step
can leave the range.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from skriemdp.privacy._quadrature import Window
from skriemdp.privacy.radial_profile import radial_delta

__all__ = ["log_deltas", "mean_square", "search_shifts"]

_MOST_STEPS = 80
_LONGEST_STEP = 1.5


def mean_square(dim: int, p: float | np.ndarray) -> np.ndarray:
    """E|v|^2 over the squared scale."""
    return np.exp(gammaln((dim + 2.0) / p) - gammaln(dim / p))


def log_deltas(dim: int, exponents: ArrayLike, epsilon: float) -> Callable:
    """The ``log_delta`` of :func:`search_shifts` for one release of each exponent."""
    exponents = np.asarray(exponents, dtype=float)
    low, high = np.full(exponents.shape, np.nan), np.full(exponents.shape, np.nan)

    def log_delta(index: np.ndarray, shifts: np.ndarray) -> np.ndarray:
        known = np.isfinite(low[index]).all()
        window = Window(low[index], high[index]) if known else Window()
        deltas = radial_delta(dim, exponents[index], shifts, np.full(index.size, epsilon), window)
        if window.low is not None and window.low.size == index.size:
            low[index], high[index] = window.low, window.high
        return np.log(np.maximum(deltas, 5e-324))

    return log_delta


def search_shifts(
    log_delta: Callable,
    target: float,
    guess: ArrayLike,
    lowest: ArrayLike,
    tolerance: float,
    slopes: ArrayLike = np.nan,
) -> tuple[np.ndarray, np.ndarray]:
    """Shifts with ``log_delta(index, shift) = target``.

    A search ends with a step that moves its shift by less than `tolerance` of itself; what is left
    is an order smaller.

    Parameters
    ----------
    log_delta : callable
        Takes the indices of the searches that go on, and their shifts; increases with the shift.
    target : float
    guess, lowest : array-like of shape (k,)
        First shifts, and what they must stay above.
    tolerance : float
    slopes : array-like of shape (k,), optional
        Those that a search nearby ended with.

    Returns
    -------
    shifts : ndarray of shape (k,)
    slopes : ndarray of shape (k,)
        Of ``log_delta`` in the unknowns.
    """
    lowest = np.asarray(lowest, dtype=float)
    x = np.log(np.asarray(guess, dtype=float) - lowest)
    low, high = np.full(x.shape, -np.inf), np.full(x.shape, np.inf)
    shifts = np.exp(x) + lowest
    before, value_before = x.copy(), np.full(x.shape, np.nan)
    known = np.broadcast_to(np.asarray(slopes, dtype=float), x.shape).copy()
    # The slope of Gaussian tails serves the first step.
    known = np.where(np.isfinite(known) & (known > 0.0), known, max(2.0, -target))
    index = np.arange(x.size)
    for _ in range(_MOST_STEPS):
        shifts[index] = np.exp(x[index]) + lowest[index]
        value = log_delta(index, shifts[index]) - target
        at = x[index]
        low[index] = np.where(value <= 0.0, np.maximum(low[index], at), low[index])
        high[index] = np.where(value >= 0.0, np.minimum(high[index], at), high[index])
        with np.errstate(all="ignore"):
            slope = (value - value_before[index]) / (at - before[index])
        # Of points closer than that, rounding would decide.
        usable = np.isfinite(slope) & (slope > 0.0) & (np.abs(at - before[index]) > 1e-6)
        slope = np.where(usable, slope, known[index])
        known[index] = slope
        step = np.clip(-value / slope, -_LONGEST_STEP, _LONGEST_STEP)
        new = at + step
        outside = (new <= low[index]) | (new >= high[index])
        middle = 0.5 * (low[index] + high[index])
        new = np.where(outside & np.isfinite(middle), middle, new)
        before[index], value_before[index] = at, value
        # What the shift moves by, in units of itself.
        moves = np.abs(new - at) * (1.0 - lowest[index] / shifts[index])
        # Next to `lowest` a shift that hardly moves may still be far from its target.
        on = (moves > tolerance) | ((np.abs(value) > 0.01) & (moves > 1e-13))
        on &= value != 0.0
        x[index] = np.where(value != 0.0, new, at)
        index = index[on]
        if not index.size:
            return np.exp(x) + lowest, known
    raise ArithmeticError("a search for a radial law did not converge; please report the target.")
