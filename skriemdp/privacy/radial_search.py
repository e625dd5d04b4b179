"""Scales of radial laws that reach a target: one search for all exponents at once.

The unknown of a law with exponent p > 1 is the logarithm of its shift (sensitivity over scale).
With exponent 1 delta vanishes where the shift comes down to epsilon, like a power of the distance;
so there the unknown is ``log(shift - lowest)``, in which log delta is nearly a line, and no step
can leave the range.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, kve

from skriemdp.privacy._quadrature import Window
from skriemdp.privacy.radial_profile import radial_delta

__all__ = ["guessed_shifts", "log_deltas", "mean_square", "search_shifts"]

_MOST_STEPS = 80
_LONGEST_STEP = 1.5


def mean_square(dim: int, p: float | np.ndarray) -> np.ndarray:
    """E|v|^2 over the squared scale."""
    return np.exp(gammaln((dim + 2.0) / p) - gammaln(dim / p))


def guessed_shifts(dim: int, p: np.ndarray, mu: float, epsilon: float, delta: float) -> np.ndarray:
    """Shifts that are about (epsilon, delta)-private, for exponents `p` and `mu` of Gaussian noise.

    With exponent 1, delta is about ``K (shift - epsilon)^((dim + 1) / 2)`` next to epsilon.  Far
    from it the shift is that of Gaussian noise of the same mean square, which is larger there.  The
    logarithm of the ratio of the two is nearly a line in p, and zero at 2.  A first guess: nothing
    rests on it.
    """
    gaussian = mu * np.sqrt(mean_square(dim, p) / dim)
    pure = mu * math.sqrt(float(mean_square(dim, 1.0)) / dim)
    excess = math.exp(2.0 / (dim + 1.0) * (math.log(delta) - _log_corner(dim, epsilon)))
    lift = math.log(max(pure, epsilon + excess) / pure)
    guess = gaussian * np.exp(lift * (2.0 - p))
    return np.where(p == 1.0, max(pure, epsilon + excess), guess)


def _log_corner(dim: int, epsilon: float) -> float:
    """The logarithm of K in :func:`guessed_shifts`.

    Where the loss exceeds epsilon next to the half line away from the second centre, it does so by
    ``s - c t^2`` at the angle t, with s the excess of the shift and ``c = r epsilon / (2 (r +
    epsilon))`` at the radius r; K is what that integrates to.
    """
    if dim == 1:
        return -math.log(2.0)
    half = 0.5 * (dim - 1.0)
    angles = -math.log(half * (dim + 1.0)) + half * math.log(2.0 / epsilon)
    areas = gammaln(0.5 * dim) - gammaln(half) - 0.5 * math.log(math.pi)
    radii = gammaln(half + 1.0) + 0.5 * dim * math.log(epsilon) - 0.5 * math.log(math.pi)
    bessel = math.log(kve(0.5 * dim, 0.5 * epsilon))
    return float(angles + areas - gammaln(dim) + radii + bessel)


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
    probe: float = 0.0,
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
    probe : float, default=0.0
        How far from the first unknowns others are looked at in the same call, for a first slope.

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

    def narrow(at: np.ndarray, value: np.ndarray) -> None:
        low[index] = np.where(value <= 0.0, np.maximum(low[index], at), low[index])
        high[index] = np.where(value >= 0.0, np.minimum(high[index], at), high[index])

    for step_number in range(_MOST_STEPS):
        shifts[index] = np.exp(x[index]) + lowest[index]
        if probe > 0.0 and step_number == 0:
            before += probe
            both = np.concatenate([shifts, np.exp(before) + lowest])
            value, value_before = np.split(log_delta(np.tile(index, 2), both) - target, 2)
            narrow(before, value_before)
        else:
            value = log_delta(index, shifts[index]) - target
        at = x[index]
        narrow(at, value)
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
