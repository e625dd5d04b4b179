"""Renyi divergences of pairs, and what they say in (epsilon, delta)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, ndtr

from skriemdp._validation import check_order

# Log of (order - 1), where conversions look for the best order; every order is valid.
_LOG_ORDERS = np.linspace(-10.0, 12.0, 45)
_UP = 1.0 + 1e-12
_MOST_NODES = 200_000


def _log_delta(divergence: float, order: float, epsilon: float) -> float:
    # Canonne, Kamath and Steinke (2020), Proposition 12, solved for delta.
    return (
        (order - 1.0) * (divergence - epsilon)
        + (order - 1.0) * math.log1p(-1.0 / order)
        - math.log(order)
    )


def _epsilon(divergence: float, order: float, log_delta: float) -> float:
    return divergence + math.log1p(-1.0 / order) - (log_delta + math.log(order)) / (order - 1.0)


def _best(value: Callable[[float], float]) -> float:
    """Smallest value over orders > 1 that the search finds."""

    def at(log_order: float) -> float:
        result = value(1.0 + math.exp(log_order))
        return result if not math.isnan(result) else math.inf

    values = [at(x) for x in _LOG_ORDERS]
    k = int(np.argmin(values))
    if not math.isfinite(values[k]):
        return values[k]
    ends = _LOG_ORDERS[max(k - 1, 0)], _LOG_ORDERS[min(k + 1, _LOG_ORDERS.size - 1)]
    found = minimize_scalar(at, bounds=ends, method="bounded", options={"xatol": 1e-4})
    return min(values[k], found.fun)


def renyi_epsilon(divergence: Callable[[float], float], delta: float) -> float:
    """Epsilon at which Renyi divergences ``divergence(order)`` in both directions give `delta`."""
    if delta <= 0.0:
        return math.inf
    log_delta = math.log(delta)
    best = _best(lambda order: _epsilon(divergence(order), order, log_delta))
    return max(best, 0.0) * _UP


def renyi_delta(divergence: Callable[[float], float], epsilon: float) -> float:
    """Delta at which Renyi divergences ``divergence(order)`` in both directions give `epsilon`."""
    log_delta = _best(lambda order: _log_delta(divergence(order), order, epsilon))
    return min(1.0, max(math.exp(min(log_delta, 0.0)) * _UP, 5e-324))


def randomized_response_renyi(epsilon: float, order: float) -> float:
    """Largest divergence of any pure epsilon-DP release: that of randomized response.

    Every such pair is a function of randomized response (Kairouz, Oh and Viswanath 2015).
    """
    check_order(order)
    if order == math.inf:
        return epsilon
    if epsilon < 1e-5:
        # The exact value cancels to nothing here; D <= order * epsilon^2 / 2 always.
        return min(epsilon, 0.5 * order * epsilon * epsilon * _UP)
    top = np.logaddexp(order * epsilon, (1.0 - order) * epsilon) - np.logaddexp(0.0, epsilon)
    exact = float(top) / (order - 1.0) + 4e-16 * (1.0 + order * epsilon) / (order - 1.0)
    return min(epsilon, 0.5 * order * epsilon * epsilon * _UP, exact)


@functools.lru_cache(maxsize=65536)
def poisson_gaussian_renyi(probability: float, noise: float, order: float) -> float:
    """Divergence of ``q N(1/2) + (1-q) N(0)`` from ``q N(-1/2) + (1-q) N(0)``, sd `noise`.

    By the trapezoidal rule on an integrand that is analytic in a strip and decays like a Gaussian:
    the error is of the order of rounding.  At most ``order / (2 noise**2)``, the value at q = 1.
    """
    q, s = probability, noise
    if order == math.inf:
        return math.inf
    whole = order / (2.0 * s * s) * _UP
    step = min(s, s * s) / 8.0
    low, high = -0.5 - 13.0 * s, 0.5 * order + 13.0 * s
    count = (high - low) / step
    if q == 1.0 or count > _MOST_NODES:
        return whole
    y = low + step * np.arange(math.ceil(count) + 1)
    rest, log_q = math.log1p(-q), math.log(q)
    base = -0.5 * (y / s) ** 2 - math.log(s * math.sqrt(2.0 * math.pi))
    shift = (0.5 * y) / (s * s)
    drop = -0.125 / (s * s)
    upper = np.logaddexp(rest, log_q + shift + drop)
    lower = np.logaddexp(rest, log_q - shift + drop)
    # E_Q[(P/Q)^order - 1], without losing small values to the leading 1.
    ratio = upper - lower
    log_weight = base + lower + math.log(step)
    if float(np.max(order * ratio)) < 600.0:
        moment = float(np.exp(log_weight) @ np.expm1(order * ratio))
        value = math.log1p(max(moment, 0.0)) / (order - 1.0) + 1e-15 / (order - 1.0)
    else:
        value = float(logsumexp(order * ratio + log_weight)) / (order - 1.0)
    return min(value * (1.0 + 1e-9), whole)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


@functools.lru_cache(maxsize=65536)
def fixed_size_gaussian_renyi(fraction: float, noise: float, order: float) -> float:
    """Divergence of the symmetric pair PLD* of fixed-size sampling (docs/theory/accounting.md).

    Its losses l >= 0 have the law of ``log(1 - q + q e^((x - 1/2)/s^2))`` under ``q N(1) + (1-q)
    N(0)``, its losses below 0 the mirrored one; integrated panel by panel.
    """
    q, s = fraction, noise
    if order == math.inf:
        return math.inf
    whole = order / (2.0 * s * s) * _UP
    width = min(s, s * s) / 2.0
    panels = (order + 0.5 + 13.0 * s) / width
    if q == 1.0 or panels * _NODES.size > _MOST_NODES:
        return whole
    left = 0.5 + width * np.arange(math.ceil(panels))
    x = (left[:, None] + 0.5 * width * (1.0 + _NODES)).ravel()
    log_weight = np.tile(np.log(0.5 * width * _WEIGHTS), left.size)
    rest, log_q = math.log1p(-q), math.log(q)
    loss = np.logaddexp(rest, log_q + (x - 0.5) / (s * s))
    log_weight += -0.5 * (x / s) ** 2 - math.log(s * math.sqrt(2.0 * math.pi))
    # Per mass of Q: e^(order l) from losses l, e^(l (1 - order)) from losses -l; minus P's e^l + 1.
    if order * float(loss[-1]) < 600.0:
        terms = np.expm1(order * loss) - np.expm1(loss) + np.expm1((1.0 - order) * loss)
        moment = float(np.exp(log_weight) @ terms)
        value = math.log1p(max(moment, 0.0)) / (order - 1.0) + 1e-15 / (order - 1.0)
    else:
        both = np.logaddexp(order * loss, (1.0 - order) * loss)
        atom = (1.0 - q) * (1.0 - 2.0 * ndtr(-0.5 / s))
        total = np.logaddexp(logsumexp(both + log_weight), math.log(max(atom, 1e-300)))
        value = float(total) / (order - 1.0)
    return min(value * (1.0 + 1e-9), whole)
