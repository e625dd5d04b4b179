"""Privacy of one Riemannian Gaussian draw on 2x2 SPD matrices; SPD(2) is R x H^2(-1/2)."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from skriemdp.privacy._calibration import gaussian_delta
from skriemdp.privacy._loss_distributions import PrivacyLossDistribution
from skriemdp.riemannian_laws._gaussian_chords import MOST_MU, choose_cells, chord_delta
from skriemdp.riemannian_laws._profile_integrand import RadialPair
from skriemdp.riemannian_laws._profile_mu import certified_mu, mu_at_zero
from skriemdp.riemannian_laws._profile_release import (
    RadialRelease,
    epsilon_for_delta,
    symmetric_losses,
)
from skriemdp.riemannian_laws._quadrature import Window

_ROOT_CURVATURE = math.sqrt(0.5)
# Atoms of the plane's loss in each cell; more would tighten the bound.
_POINTS = 200
# Factor on the sensitivity at which the profile is evaluated, with the whole move in the plane,
# where it is shown to bound every direction; cells start as wide as this slack allows.
_STRETCH = 1.003
_NARROWEST = 2e-4


@dataclass(frozen=True)
class MatrixRelease:
    """The pair of Gaussian laws of scale sigma at distance Delta on SPD(2), affine-invariant.

    The isometry with R x H^2(-1/2) (log-determinant and shape) splits a move of length Delta into
    parts ``Delta sqrt(q)`` along the line and ``Delta sqrt(1 - q)`` in the plane, and the law into
    independent Gaussians.  Which q is worst is not known in closed form (computed: q = 0), but both
    parts reveal more the longer they are.  So on each cell ``[a, b]`` of [0, 1] the pair with parts
    ``Delta sqrt(b)`` and ``Delta sqrt(1 - a)`` bounds all its pairs, and the worst cell bounds them
    all: a proved bound.  A single delta is the one at q = 0 and 1.003 Delta, if cells that are
    narrow enough all lie below it, else that of the worst cell.

    Parameters
    ----------
    sensitivity : float
        Delta, affine-invariant distance.
    scale : float
        sigma.
    """

    sensitivity: float
    scale: float

    @property
    def worst_pair(self) -> RadialPair:
        """All of the move in the plane: the worst direction, as computed."""
        return self._plane(0.0)

    @property
    def stretched_pair(self) -> RadialPair:
        """The pair whose profile is reported."""
        return dataclasses.replace(self, sensitivity=_STRETCH * self.sensitivity).worst_pair

    @property
    def _reach(self) -> float:
        # The line's part adds a loss of at most this but for 1e-22.
        m = self.sensitivity / self.scale
        return RadialRelease(self._plane(0.0)).reach + m * (0.5 * m + 10.2)

    def _plane(self, q: float) -> RadialPair:
        distance = self.sensitivity * math.sqrt(1.0 - q) * _ROOT_CURVATURE
        return RadialPair("gaussian", -1, 2, distance, self.scale * _ROOT_CURVATURE)

    @property
    def _excess(self) -> float:
        """Excess of the plane's mu^2 over a line's, at the full distance."""
        m = self.sensitivity / self.scale
        return max((mu_at_zero(self._plane(0.0)) / m) ** 2 - 1.0, 0.0)

    def _cells(self) -> list[float]:
        """Edges of the cells in q for whole profiles."""
        excess = self._excess
        # Narrow at q = 0; elsewhere as wide as the plane's excess over a line makes harmless.
        first = 1.0 / 1024 if excess > 0.5 else 1.0 / 256 if excess > 0.05 else 1.0 / 128
        growth = (0.3 if excess > 0.1 else 0.6) * excess
        edges = [0.0]
        while edges[-1] < 1.0:
            edges.append(min(1.0, edges[-1] * (1.0 + growth) + first))
        return edges

    def log_delta_upper(self, epsilon: ArrayLike) -> np.ndarray:
        """``log delta`` at an array of epsilon >= 0, rounded up."""
        epsilon = np.asarray(epsilon, dtype=float)
        worst = np.zeros(epsilon.shape)
        for mu, losses, masses, beyond in _cell_losses(self):
            shifted = epsilon[:, None] - losses
            a, b = shifted / mu - 0.5 * mu, shifted / mu + 0.5 * mu
            with np.errstate(over="ignore"):
                profile = ndtr(-a) - np.exp(shifted + log_ndtr(-b))
            # Rounding of the difference, relative to its size of order mu**2 at least.
            profile = np.maximum(profile, 0.0) * (1.0 + 1e-9 + 4e-15 / mu**2)
            worst = np.maximum(worst, profile @ masses + beyond)
        with np.errstate(divide="ignore"):
            return np.minimum(np.log(worst), 0.0)

    def delta(self, epsilon: float, mu: float = 0.0) -> float:
        """Delta of the release and, if mu > 0, a mu-GDP one together."""
        if math.hypot(mu, self.sensitivity / self.scale) > MOST_MU:
            return float(np.exp(self.log_delta_upper([epsilon])[0])) if mu == 0.0 else 1.0
        return _matrix_delta(self, float(epsilon), float(mu))

    def epsilon(self, delta: float, mu: float = 0.0) -> float:
        """The inverse of :meth:`delta`: where the reported profile reaches it, then checked."""
        stretched = _with_line(_profile(self.stretched_pair), mu)

        def log_delta(epsilon: float) -> float:
            return math.log(max(stretched(epsilon), 1e-300))

        epsilon = epsilon_for_delta(log_delta, delta, math.inf)
        step = 1e-6
        while 0.0 < delta < self.delta(epsilon, mu) and epsilon < math.inf:
            epsilon += step * max(epsilon, 1.0)
            step *= 4.0
        return epsilon

    def losses(self, interval: float) -> PrivacyLossDistribution:
        return symmetric_losses(self.log_delta_upper, self._reach, interval, 400)

    @property
    def gdp_bound(self) -> float | None:
        return _matrix_mu(self)

    def renyi(self, order: float) -> float:
        bound = self.gdp_bound
        if order == math.inf or bound is None:
            return math.inf
        return 0.5 * order * bound * bound * (1.0 + 1e-12)


def _profile(pair: RadialPair) -> Callable[..., Any]:
    """Upper deltas of one radial release; successive calls use each other's windows."""
    release, windows = RadialRelease(pair), (Window(), Window())
    return lambda epsilon: np.exp(release._quick_log_delta_upper(epsilon, windows))


def _with_line(profile: Callable[..., Any], mu: float) -> Callable[..., Any]:
    """Delta, as a function of epsilon, of a release with this profile and a mu-GDP one."""
    if mu > 0.0:
        return lambda epsilon: chord_delta(profile, mu, epsilon)
    return lambda epsilon: float(profile(np.array([epsilon]))[0])


@functools.lru_cache(maxsize=256)
def _matrix_delta(release: MatrixRelease, epsilon: float, mu: float) -> float:
    reported = _with_line(_profile(release.stretched_pair), mu)(epsilon)
    # One Gaussian bound for all directions is tried first where mu^2 exceeds it little in the
    # plane.
    bound = release.gdp_bound if release._excess < 0.05 else None
    if bound is not None and gaussian_delta(math.hypot(bound, mu), epsilon) <= reported:
        return reported
    # From q = 0 on: the widest cells whose pairs stay below what is reported.
    m, excess = release.sensitivity / release.scale, release._excess
    slack = 2.0 * (_STRETCH - 1.0) * (1.0 + excess)
    q, width = 0.0, slack
    while q < 1.0:
        profile = _profile(release._plane(q))
        while True:
            end = min(1.0, q + width)
            line = math.hypot(mu, m * math.sqrt(end))
            cells = choose_cells(profile, line, epsilon, count=48)
            value = chord_delta(profile, line, epsilon, cells=cells)
            if value <= reported or end - q <= _NARROWEST:
                break
            width = max(0.6 * (end - q), _NARROWEST)
        reported = max(reported, value)
        q, width = end, max(width, 0.9 * (slack + excess * end))
    return reported


@functools.lru_cache(maxsize=64)
def _cell_losses(release: MatrixRelease) -> list[tuple[float, np.ndarray, np.ndarray, float]]:
    """Mu of the line's part, and atoms that dominate the plane's loss, for each cell."""
    edges = release._cells()
    result = []
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        mu = release.sensitivity * math.sqrt(high) / release.scale
        plane = RadialRelease(release._plane(low))
        interval = 1e-3 / 16.0 * max(1.0, release.sensitivity / release.scale)
        loss = symmetric_losses(plane._quick_log_delta_upper, plane.reach, interval, _POINTS)
        places = np.flatnonzero(loss.masses)
        losses = (places + loss.lower) * interval
        result.append((mu, losses, loss.masses[places], float(loss.infinity)))
    return result


@functools.lru_cache(maxsize=256)
def _matrix_mu(release: MatrixRelease) -> float | None:
    """A mu for all directions from one certificate, by group privacy.

    If the plane's pair at distance ``Delta / k`` is nu-GDP, then the one at ``j Delta / k`` is
    (j nu)-GDP, for a chain of j such pairs joins its ends.  A move with share q along the line has
    ``j = ceil(k sqrt(1 - q))``, so ``q <= 1 - ((j - 1) / k)^2``.
    """
    k = 1000
    step = certified_mu(dataclasses.replace(release, sensitivity=release.sensitivity / k)._plane(0))
    if step is None:
        return None
    j = np.arange(k + 1)
    along = np.append(1.0, 1.0 - ((j[1:] - 1) / k) ** 2)
    square = (release.sensitivity / release.scale) ** 2 * along + (j * step) ** 2
    return math.sqrt(float(square.max())) * (1.0 + 1e-14)
