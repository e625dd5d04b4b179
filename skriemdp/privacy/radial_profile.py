"""Hockey-stick divergence of the law exp(-|v|^p) on R^d and its shift: one integral, rounded up.

Derivation, monotonicity in the shift and error control: docs/theory/radial-noise.md.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import beta, betainc, betaln, binom, gammainc, gammaincc, gammaln

from skriemdp.privacy._quadrature import Window, integrate

__all__ = ["radial_delta", "log_renyi_tail"]

# Rounding of the nodes, relative to the probabilities whose difference is taken, and of the result;
# ten times what comparison with 40-digit arithmetic shows (tests/test_radial.py).
_NODE_ERROR = 2e-13
_MARGIN = 1e-11
_TINY = 5e-324  # stands for anything that underflows
_SMALL_CAP = 1e-200
_SPAN = (-5.5, 12.0)
# Caps of spheres of up to so many dimensions are polynomials of _SIDE^2 terms.
_MOST_SERIES, _SIDE = 13, 6


def _cap(u: np.ndarray, n: int) -> np.ndarray:
    """Share of S^n beyond the hyperplane at height 1 - 2u, I_u(n/2, n/2), for u in [0, 1]."""
    if n == 0:
        return np.where(u > 0.0, np.where(u < 1.0, 0.5, 1.0), 0.0)
    if n == 1:
        return (2.0 / math.pi) * np.arcsin(np.sqrt(u))
    if n == 2:
        return u
    if n > _MOST_SERIES:
        return np.asarray(betainc(0.5 * n, 0.5 * n, u))
    lower = np.minimum(u, 1.0 - u)
    z = lower - 0.25
    powers = np.empty((_SIDE, *z.shape))
    powers[0] = 1.0
    for k in range(1, _SIDE):
        np.multiply(powers[k - 1], z, out=powers[k])
    # The polynomial in z: rows of its coefficients at once, then Horner's rule over the rows.
    rows = (_cap_polynomial(n) @ powers.reshape(_SIDE, -1)).reshape(powers.shape)
    leap = powers[-1] * z
    share = rows[-1]
    for row in rows[-2::-1]:
        share *= leap
        share += row
    share *= lower ** (0.5 * n)
    return np.where(u > 0.5, 1.0 - share, share)


@functools.lru_cache(maxsize=_MOST_SERIES)
def _cap_polynomial(n: int) -> np.ndarray:
    """Coefficients in ``u - 1/4``, row by row, of ``I_u(a, a) / u^a`` for a = n/2, u up to 1/2.

    That is ``F(1 - a, a; a + 1; u) / (a B(a, a))`` with the hypergeometric series F, whose nearest
    singularity is at u = 1: a term is less than a third of the last one, and 36 are enough.
    """
    a, count = 0.5 * n, _SIDE * _SIDE
    j = np.arange(2 * count)
    ratios = (1.0 - a + j) * (a + j) / ((a + 1.0 + j) * (1.0 + j))
    series = np.append(1.0, np.cumprod(ratios))[:-1] / (a * beta(a, a))
    k = np.arange(count)[:, None]
    moved = series * binom(j, k) * 0.25 ** np.maximum(j - k, 0.0)
    return moved.sum(axis=1).reshape(_SIDE, _SIDE)


def _log_cap(u: np.ndarray, n: int) -> np.ndarray:
    """Logarithm of :func:`_cap`, also where that underflows."""
    half = 0.5 * n
    share = _cap(u, n)
    with np.errstate(divide="ignore"):
        log_share = np.log(share)
        small = (share < _SMALL_CAP) & (u > 0.0)
        if small.any():
            v = u[small]
            series, term, k = np.ones_like(v), np.ones_like(v), 0
            while np.any(term > 1e-17 * series):
                term = term * v * (2.0 * half + k) / (half + 1.0 + k)
                series, k = series + term, k + 1
            power = half * (np.log(v) + np.log1p(-v)) - math.log(half) - betaln(half, half)
            log_share[small] = power + np.log(series)
    return log_share


def _gap(r: np.ndarray, epsilon: np.ndarray, p: Any) -> tuple[np.ndarray, np.ndarray]:
    """R - r, where the loss at radius r is epsilon at the distance R, R^p = r^p + epsilon; r^p."""
    if np.all(p == 1.0):
        return np.broadcast_to(epsilon, np.shape(r)).astype(float), r
    power = r**p
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = epsilon / power
        curved = r * np.expm1(np.log1p(ratio) / p)
        if not ratio.max() < math.inf:
            curved = np.where(np.isfinite(ratio), curved, epsilon ** (1.0 / p) - r)
    return np.where(p == 1.0, epsilon, curved) if np.any(p == 1.0) else curved, power


def _first_radius(epsilon: np.ndarray, p: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Where spheres around the first centre begin to be cut by the set of large loss.

    Newton's method from a side where it is monotone: ``2 r + gap - shift`` is convex and increases,
    ``shift - gap`` is concave and increases.
    """
    near, pure = epsilon < shift**p, p == 1.0
    if pure.all():
        return np.where(near, 0.5 * (shift - epsilon), np.inf)
    # r + gap lies between r and r + shift, so epsilon <= p shift (r + shift)^(p - 1) at the root.
    with np.errstate(divide="ignore", over="ignore"):
        log_far = np.log(np.maximum(epsilon, 1e-300) / (p * shift)) / np.maximum(p - 1.0, 1e-300)
    far = np.maximum(np.exp(np.minimum(log_far, 600.0)) - shift, 0.0)
    tiny = 1e-19 * shift
    r = np.where(near, 0.5 * shift, np.maximum(far, tiny))
    lift, twice = p - 1.0, np.where(near, 2.0, 0.0)
    moving = ~pure
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for _ in range(60):
            # log(R / r), and (r / R)^(p - 1) - 1
            log_ratio = np.log1p(epsilon / r**p) / p
            slope = twice + np.minimum(np.expm1(-lift * log_ratio), -1e-300)
            step = (twice * r + r * np.expm1(log_ratio) - shift) / slope
            new = np.maximum(r - step, tiny)
            # What is left is of the order of the square of the step.
            moving &= np.abs(r - new) > 1e-8 * r
            r = new
            if not moving.any():
                break
    return np.where(pure, np.where(near, 0.5 * (shift - epsilon), np.inf), r)


def _ends(
    n: int, p: np.ndarray, r0: np.ndarray, scale: np.ndarray, near: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Guess of the t between which the integrand of :func:`radial_delta` matters.

    Towards r0 it falls like a power of x; far away like the density of r^p, a gamma law.
    """
    t = np.where(near, -3.81, -math.log(60.0 / (1.0 + 0.5 * n)))
    power, shape = r0**p, (n + 1.0) / p
    end = np.maximum(power, shape) + 44.0 + np.sqrt(110.0 * shape)
    log_x = np.log(np.maximum(end ** (1.0 / p) - r0, 1e-300) / scale)
    high = np.where(log_x > 0.0, log_x + np.exp(-np.maximum(log_x, 0.0)), 0.6)
    return t[:, 0], np.maximum(high, t + 0.5)[:, 0]


def radial_delta(
    dim: int, p: ArrayLike, shift: ArrayLike, epsilons: ArrayLike, window: Window | None = None
) -> np.ndarray:
    """Upper bounds of the smallest deltas of the law exp(-|v|^p) and its shift by `shift`.

    Parameters
    ----------
    dim : int
    p : float or array-like of shape (k,)
        In [1, 2].
    shift : float or array-like of shape (k,)
        Length of the shift over the scale b of the law; positive.
    epsilons : array-like of shape (k,)
        Nonnegative.
    window : Window, optional
        Of the last call with similar numbers, to be faster; it does not change the accuracy.

    Returns
    -------
    ndarray of shape (k,)
        At most 1e-10 above the exact values in relative terms unless delta < 1e-250 or the shift is
        below 1e-3 (rounding: at most 4e-13 above in absolute terms).
    """
    epsilons, p, shift = np.broadcast_arrays(
        np.asarray(epsilons, dtype=float), np.asarray(p, float), np.asarray(shift, float)
    )
    n, shape = dim - 1, dim / p
    near = epsilons < shift**p
    start = _first_radius(epsilons, p, shift)
    full = np.where(near, gammainc(shape, np.where(near, start, 0.0) ** p), 0.0)
    # Below this tail probability the tail itself is the bound.
    tail = np.where(near | np.isinf(start), 0.0, gammaincc(shape, np.where(near, 1.0, start) ** p))
    lost = ~near & (tail < 1e-250)
    rows = np.flatnonzero(np.isfinite(start) & ~lost)
    delta = np.where(lost, tail, full)
    if rows.size:
        r0, eps, a, powers = (x[rows, None] for x in (start, epsilons, shift, p))
        # A scalar exponent is faster.
        same = float(powers[0, 0]) if (powers == powers[0]).all() else None
        q = powers if same is None else np.full((1, 1), same)
        log_normaliser = gammaln(dim / q) - np.log(q)
        # Beyond r0 the tail of the law is a power of e within this distance.
        scale = np.minimum(1.0 + r0, (1.0 + r0) ** (2.0 - q)) if dim < 4 else 1.0 + r0
        log_factor = np.log(scale) - log_normaliser

        def evaluate(index: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            k: Any = powers[index] if same is None else same
            b = a[index]
            # Written over where that can be: memory that is not touched anew is half of the time.
            small_t = np.exp(-t)
            log_x = t - small_t
            r = np.exp(log_x)
            r *= scale[index]
            r += r0[index]
            gap, power = _gap(r, eps[index], k)
            R = r + gap
            # The two heights u and v at once.
            uv, both = np.empty((2, *r.shape)), r + R
            np.add(both, b, out=uv[0])
            np.subtract(both, b, out=uv[1])
            uv[0] /= r
            uv[1] /= R
            uv *= (b - gap) / (4.0 * b)
            np.minimum(np.maximum(uv, 0.0, out=uv), 1.0, out=uv)
            caps = _cap(uv, n)
            ratio = np.divide(r, R, out=both)
            here = caps[0] * ratio**n
            there = caps[1] if same == 1.0 else caps[1] * ratio ** (k - 1.0)
            larger = np.maximum(here, there)
            top = np.log(larger)
            if not larger.min() >= _SMALL_CAP:
                # Caps that underflow (large d) are compared by their logarithms instead.
                small = (larger < _SMALL_CAP) & (uv > 0.0).any(axis=0)
                log_ratio = np.log(ratio[small])
                lift = np.broadcast_to(k, ratio.shape)[small] - 1.0
                log_here = n * log_ratio + _log_cap(uv[0][small], n)
                log_there = lift * log_ratio + _log_cap(uv[1][small], n)
                top[small] = highest = np.maximum(log_here, log_there)
                larger[small | (larger == 0.0)] = 1.0
                here[small], there[small] = np.exp(log_here - highest), np.exp(log_there - highest)
            here /= larger
            there /= larger
            np.subtract(here, there, out=uv[0])
            np.add(here, there, out=uv[1])
            top += np.multiply(np.log(R, out=R), n, out=R)
            top -= power
            top += log_x
            top += np.log1p(small_t, out=small_t)
            top += log_factor[index]
            return top, uv

        guess = _ends(n, q, r0, scale, near[rows, None])
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            factor, sums = integrate(evaluate, rows.size, _SPAN, window, guess)
        # The sum of both shares bounds what rounding of the nodes does to their difference.
        delta[rows] += np.exp(factor) * (sums[0] + _NODE_ERROR * sums[1])
    delta = np.maximum(delta * (1.0 + _MARGIN), np.where(np.isfinite(start), _TINY, 0.0))
    return np.minimum(delta, 1.0)


def log_renyi_tail(dim: int, p: float, shift: float, alpha: float, epsilon: float) -> float:
    """Log of an upper bound of the integral of ``e^((alpha - 1) t) delta(t)`` over t > `epsilon`.

    The loss at radius r is at most ``t(r) = (r + shift)^p - r^p``, which increases with r for
    p > 1; hence ``delta(t(r)) <= P(|v| > r)``.  The integral over r is bounded from above cell by
    cell, and beyond the last cell by a log-concave majorant.
    """
    shape = dim / p

    def loss(r: Any) -> Any:
        return r**p * np.expm1(p * np.log1p(shift / r))

    def slope(r: Any) -> Any:
        return p * r ** (p - 1.0) * np.expm1((p - 1.0) * np.log1p(shift / r))

    def log_majorant(r: Any) -> Any:
        z = r**p
        tail = np.where(shape > 1.0, -np.log1p(-np.minimum((shape - 1.0) / z, 0.999)), 0.0)
        return (shape - 1.0) * np.log(z) - z - gammaln(shape) + tail

    def log_tail(r: Any) -> Any:
        with np.errstate(divide="ignore"):
            exact = np.log(gammaincc(shape, r**p))
        return np.where(exact > -600.0, exact, log_majorant(r))

    low, high = 1e-12, 1.0
    while loss(high) < epsilon:
        high *= 2.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if loss(middle) <= epsilon else (low, middle)
    start = low
    end = max(2.0 * start, (4.0 * shape) ** (1.0 / p), 1.0)
    while True:
        # Derivative of the logarithm of the majorant, which is concave up to decreasing factors.
        decay = -(
            (alpha - 1.0) * slope(end) - p * end ** (p - 1.0) + max(shape - 1.0, 0.0) * p / end
        )
        rest = (alpha - 1.0) * loss(end) + log_majorant(end)
        if decay > 0.0 and rest < -700.0:
            break
        end *= 1.2
    r = np.linspace(start, end, 4001)
    t = loss(r)
    width = np.maximum(np.diff(t), 0.0)
    cells = (alpha - 1.0) * t[1:] + log_tail(r[:-1]) + np.log(np.maximum(width, 1e-300))
    rest += math.log(slope(end)) - math.log(decay)
    top = max(float(cells.max()), rest)
    return top + math.log(float(np.exp(cells - top).sum()) + math.exp(rest - top)) + 1e-9
