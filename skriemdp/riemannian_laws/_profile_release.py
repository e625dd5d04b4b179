"""Privacy of one draw from a radial law: delta, epsilon, Renyi, losses, on the private side."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import log_ndtr

from skriemdp._validation import check_order, check_positive
from skriemdp.privacy._calibration import _LOG_SQRT_2PI
from skriemdp.privacy._loss_distributions import PrivacyLossDistribution, loss_from_profile
from skriemdp.riemannian_laws._profile_hockey import log_delta, log_delta_and_loss
from skriemdp.riemannian_laws._profile_integrand import RadialPair
from skriemdp.riemannian_laws._profile_mu import _gaussian_logs, certified_mu, tail_line

if TYPE_CHECKING:
    from skriemdp.riemannian_laws._quadrature import Window

# Nodes of a loss distribution or a Renyi divergence; more would tighten its chords.
_POINTS = 2000
# Log delta below which an analytic bound replaces the quadrature.
_FAR_LOG_DELTA = -2e4
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def log_margin(pair: RadialPair, epsilon: np.ndarray, log_value: np.ndarray) -> np.ndarray:
    """Return the margin that is added to a computed ``log delta`` before it is reported.

    1e-10 exceeds the error of every high-precision case of the tests; 1e-14 of the logarithm covers
    its own rounding; next to ``epsilon_max`` the profile is a power of the remaining distance,
    whose relative rounding error counts ``dim + 1`` times.
    """
    margin = 1e-10 + 1e-14 * np.abs(np.where(np.isfinite(log_value), log_value, 0.0))
    if math.isfinite(pair.epsilon_max):
        gap = np.maximum(pair.epsilon_max - epsilon, 1e-300)
        margin = margin + 1e-15 * (pair.dim + 1) * pair.epsilon_max / gap
    return margin


def epsilon_for_delta(log_delta_upper: Callable[..., Any], delta: float, top: float) -> float:
    """Smallest epsilon found with ``log_delta_upper(epsilon) <= log(delta)``; at most `top`.

    ``log_delta_upper`` takes and returns one number and does not increase.
    """
    if delta <= 0.0:
        return top
    target = math.log(delta)

    def excess(epsilon: float) -> float:
        return max(log_delta_upper(epsilon), -1e6) - target

    if excess(0.0) <= 0.0:
        return 0.0
    high = min(1.0, top)
    while high < top and excess(high) > 0.0:
        high = min(2.0 * high, top)
        if high > 1e12:
            return math.inf
    if excess(high) > 0.0:
        return top
    root = brentq(excess, 0.0, high, xtol=1e-13, rtol=1e-13)
    step = 1e-13
    while root < high and excess(root) > 0.0:  # to the private side
        root = min(root * (1.0 + step) + 1e-300, high)
        step *= 4.0
    return root


def symmetric_losses(
    log_delta_upper: Callable[..., Any], reach: float, interval: float, points: int = _POINTS
) -> PrivacyLossDistribution:
    """Loss distribution of a symmetric pair, on few multiples of `interval`.

    The discretisation error is of second order in their spacing.  `reach` is an epsilon beyond
    which delta is negligible.
    """
    check_positive(interval=interval)
    grid = np.linspace(0.0, reach, 33)[1:]
    for _ in range(2):
        # A loss distribution resolves no smaller delta; the mass beyond becomes an infinite loss.
        far = log_delta_upper(grid) <= math.log(1e-22)
        k = int(np.argmax(far)) if far.any() else grid.size - 1
        high = grid[k]
        grid = np.linspace(grid[k - 1] if k else 0.0, high, 17)[1:]
    stride = max(1, math.ceil(high / interval / points))
    last = math.ceil(high / interval / stride)
    deltas = np.exp(np.minimum(log_delta_upper(stride * interval * np.arange(last + 1)), 0.0))
    return loss_from_profile(deltas, interval, stride)


@dataclass(frozen=True)
class RadialRelease:
    """Privacy of one draw from a radial law whose centre moves by at most ``pair.distance``.

    The pair at smaller distances is less distinguishable (docs/theory/riemannian-gdp.md), so these
    bounds hold for every move up to that distance.
    """

    pair: RadialPair

    @property
    def worst_pair(self) -> RadialPair:
        """The pair itself; for releases of several parts the one found to be worst."""
        return self.pair

    @property
    def epsilon_max(self) -> float:
        return self.pair.epsilon_max * (1.0 + 1e-14)

    def log_delta_upper(self, epsilon: ArrayLike) -> np.ndarray:
        """``log delta`` at an array of epsilon >= 0, rounded up."""
        epsilon = np.asarray(epsilon, dtype=float)
        value = self._tail_bound(epsilon)
        near = ~(value < _FAR_LOG_DELTA)
        value[near] = log_delta(self.pair, epsilon[near])
        return self._rounded(epsilon, value, log_margin(self.pair, epsilon, value))

    def _quick_log_delta_upper(
        self, epsilon: ArrayLike, windows: tuple[Window | None, Window | None] = (None, None)
    ) -> np.ndarray:
        """Log delta with a margin that grows with cancellation (at most 4e-9): for whole grids."""
        epsilon = np.asarray(epsilon, dtype=float)
        value, cancellation = self._tail_bound(epsilon), np.ones(epsilon.shape)
        near = ~(value < _FAR_LOG_DELTA)
        found = log_delta_and_loss(self.pair, epsilon[near], 1e6, windows)
        value[near], cancellation[near] = found
        margin = log_margin(self.pair, epsilon, value) + 4e-15 * cancellation
        return self._rounded(epsilon, value, margin)

    def _rounded(self, epsilon: np.ndarray, value: np.ndarray, margin: np.ndarray) -> np.ndarray:
        rounded = value + margin
        # Just below epsilon_max the difference may have been lost to rounding.
        lost = ~np.isfinite(value) & (epsilon < self.epsilon_max)
        if lost.any():
            before = np.array([self.pair.epsilon_max * (1.0 - 1e-9)])
            rounded[lost] = self.log_delta_upper(before)[0]
        return np.where(epsilon >= self.epsilon_max, -np.inf, np.minimum(rounded, 0.0))

    def delta(self, epsilon: float) -> float:
        return float(np.exp(self.log_delta_upper(np.array([epsilon]))[0]))

    def epsilon(self, delta: float) -> float:
        return epsilon_for_delta(
            lambda e: float(self._quick_log_delta_upper([e])[0]), delta, self.epsilon_max
        )

    def losses(self, interval: float) -> PrivacyLossDistribution:
        return symmetric_losses(self._quick_log_delta_upper, self.reach, interval)

    @property
    def gdp_bound(self) -> float | None:
        return certified_mu(self.pair)

    def renyi(self, order: float) -> float:
        """Upper bound of the Renyi divergence of `order` > 1; ``order=inf``: the pure epsilon.

        With alpha = order, a symmetric pair has ``exp((alpha - 1) D) = 1 + alpha (alpha - 1) I``,
        ``I = int (e^((alpha-1) e) + e^(-alpha e)) delta(e) de`` over e > 0.  The profile is convex
        in exp(e), so chords bound it from above; beyond the last node a hyperbolic Gaussian has an
        analytic tail.
        """
        if order == math.inf:
            return self.epsilon_max
        check_order(order)
        return min(_renyi(self, float(order)), self.epsilon_max)

    def _tail_bound(self, epsilon: np.ndarray) -> np.ndarray:
        if self.pair.law == "laplace":
            return np.full(epsilon.shape, np.inf)
        m, shift, log_constant = tail_line(self.pair)
        y = epsilon / m - shift
        bound = log_constant + _gaussian_logs(m, m * (np.maximum(y, 0.0) + 0.5 * m))[0]
        return np.where(y >= 0.0, bound, np.inf)

    @property
    def reach(self) -> float:
        """An epsilon beyond which delta is below 1e-22."""
        if self.pair.law == "laplace":
            return self.epsilon_max
        m, shift, log_constant = tail_line(self.pair)
        return min(m * (shift + math.sqrt(104.0 + 2.0 * max(log_constant, 0.0))), self.epsilon_max)

    def _tail(self, alpha: float) -> tuple[float, float]:
        """Last node, and the log of the integral beyond it: ``delta <= C Phi(-y)``, y linear."""
        m, shift, log_constant = tail_line(self.pair)
        tilt = (alpha - 1.0) * m
        y = tilt + 10.0
        while True:
            # int e^((alpha-1) e) exp(-y(e)^2 / 2) / 2 de, twice for the second exponential
            log_tail = (
                log_constant + math.log(m) + (alpha - 1.0) * m * shift
                + 0.5 * tilt**2 + _LOG_SQRT_2PI + float(log_ndtr(tilt - y))
            )  # fmt: skip
            if log_tail < -40.0:
                return m * (y + shift), log_tail
            y += 2.0


@functools.lru_cache(maxsize=64)
def _base_nodes(release: RadialRelease) -> tuple[np.ndarray, np.ndarray]:
    """Nodes on which the profile drops by less than a quarter per cell, and upper logs of delta."""
    top = release.reach
    nodes = np.concatenate([[0.0], np.geomspace(1e-3 * top, top, 48)])
    logs = release._quick_log_delta_upper(nodes)
    while nodes.size < _POINTS:
        steep = (np.diff(logs) < -0.25) & (logs[:-1] > -60.0) & (np.diff(nodes) > 2e-3 * top)
        if not steep.any():
            break
        nodes, logs = _split(release, nodes, logs, steep)
    return nodes, logs


def _split(
    release: RadialRelease, nodes: np.ndarray, logs: np.ndarray, cells: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    left, right = nodes[:-1][cells, None], nodes[1:][cells, None]
    extra = (left + (right - left) * np.array([0.25, 0.5, 0.75])).ravel()
    nodes, first = np.unique(np.concatenate([nodes, extra]), return_index=True)
    return nodes, np.concatenate([logs, release._quick_log_delta_upper(extra)])[first]


@functools.lru_cache(maxsize=4096)
def _renyi(release: RadialRelease, alpha: float) -> float:
    pair = release.pair
    flat = 0.5 * alpha * (pair.distance / pair.scale) ** 2 * (1.0 + 1e-12)
    if pair.law == "gaussian" and pair.kind == 0:
        return flat
    nodes, logs = _base_nodes(release)
    beyond = -math.inf
    if not math.isfinite(release.epsilon_max):
        # Renyi divergences of higher orders on hyperbolic space come from the certified mu.
        if alpha > 64.0:
            mu = release.gdp_bound
            if mu is not None:
                return 0.5 * alpha * mu * mu * (1.0 + 1e-12)
        top, beyond = release._tail(alpha)
        if top > nodes[-1]:
            extra = np.geomspace(nodes[-1], top, 12)[1:]
            nodes = np.concatenate([nodes, extra])
            logs = np.concatenate([logs, release._quick_log_delta_upper(extra)])
    while True:
        cells = _chord_integrals(nodes, logs, alpha)
        peak = cells.max()
        log_integral = float(peak + np.log(np.exp(cells - peak).sum()))
        wide = (alpha * np.diff(nodes) > 0.7) & (cells > log_integral - 9.0)
        if not wide.any() or nodes.size > _POINTS:
            break
        nodes, logs = _split(release, nodes, logs, wide)
    log_moment = math.log(alpha * (alpha - 1.0)) + np.logaddexp(log_integral, beyond)
    return float(np.logaddexp(0.0, log_moment)) / (alpha - 1.0) * (1.0 + 1e-9)


def _chord_integrals(nodes: np.ndarray, logs: np.ndarray, alpha: float) -> np.ndarray:
    """Logs of the integrals of ``(e^((alpha-1) e) + e^(-alpha e))`` times chords in exp(e)."""
    left, right = nodes[:-1, None], nodes[1:, None]
    e = 0.5 * (left + right) + 0.5 * (right - left) * _NODES
    rest = np.expm1(e - right) / np.expm1(left - right)
    share = np.exp(e - right) * np.expm1(left - e) / np.expm1(left - right)
    # Relative to the left end: values may lie far below the smallest double.
    top = logs[:-1, None]
    chord = rest + share * np.exp(logs[1:, None] - top)
    log_weight = np.logaddexp((alpha - 1.0) * e, -alpha * e)
    terms = log_weight + top + np.log(chord) + np.log(0.5 * (right - left) * _WEIGHTS)
    return np.logaddexp.reduce(terms, axis=1)
