"""What one Riemannian Gaussian draw on 2x2 SPD matrices reveals; SPD(2) is R x H^2(-1/2)."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from scipy.special import log_ndtr, ndtr

from skriemdp.riemannian_laws.profile_integrand import RadialPair
from skriemdp.riemannian_laws.profile_mu import certified_mu, mu_at_zero
from skriemdp.riemannian_laws.profile_release import (
    RadialRelease,
    epsilon_for_delta,
    symmetric_losses,
)

__all__ = ["MatrixRelease"]

_ROOT_CURVATURE = math.sqrt(0.5)
_POINTS = 200


@dataclasses.dataclass(frozen=True)
class MatrixRelease:
    """The pair of Gaussian laws of scale sigma at distance Delta on SPD(2), affine-invariant.

    The isometry with R x H^2(-1/2) (log-determinant and shape) splits a move of length Delta into
    parts ``Delta sqrt(q)`` along the line and ``Delta sqrt(1 - q)`` in the plane, and the law into
    independent Gaussians.  Which q is worst is not known in closed form (computed: q = 0), but both
    parts reveal more the longer they are.  So on each of the cells ``[q_i, q_(i+1)]`` of [0, 1] the
    pair with parts ``Delta sqrt(q_(i+1))`` and ``Delta sqrt(1 - q_i)`` bounds all its pairs, and
    the worst cell bounds them all: a proved bound, loose by the first cell's width in Delta^2 where
    q = 0 is worst.

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
    def epsilon_max(self) -> float:
        return math.inf

    @property
    def _reach(self) -> float:
        # The line's part adds a loss of at most this but for 1e-22.
        m = self.sensitivity / self.scale
        return RadialRelease(self._plane(0.0)).reach + m * (0.5 * m + 10.2)

    def _plane(self, q) -> RadialPair:
        distance = self.sensitivity * math.sqrt(1.0 - q) * _ROOT_CURVATURE
        return RadialPair("gaussian", -1, 2, distance, self.scale * _ROOT_CURVATURE)

    def _cells(self, fine=True):
        """Edges of the cells in q."""
        m = self.sensitivity / self.scale
        excess = max((mu_at_zero(self._plane(0.0)) / m) ** 2 - 1.0, 0.0)
        # Narrow at q = 0; elsewhere as wide as the plane's excess over a line makes harmless.
        first = 1.0 / 1024 if excess > 0.5 else 1.0 / 256 if excess > 0.05 else 1.0 / 128
        growth = (0.3 if excess > 0.1 else 0.6) * excess
        if not fine:
            first = max(first, 1.0 / 32)
        edges = [0.0]
        while edges[-1] < 1.0:
            edges.append(min(1.0, edges[-1] * (1.0 + growth) + first))
        return edges

    def log_delta_upper(self, epsilon):
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

    def delta(self, epsilon: float) -> float:
        return float(np.exp(self.log_delta_upper([epsilon])[0]))

    def epsilon(self, delta: float) -> float:
        return epsilon_for_delta(
            lambda e: float(self.log_delta_upper([e])[0]), delta, self.epsilon_max
        )

    def losses(self, interval: float):
        return symmetric_losses(self.log_delta_upper, self._reach, interval, 400)

    @property
    def gdp_bound(self) -> float | None:
        return _matrix_mu(self)

    def renyi(self, order: float) -> float:
        bound = self.gdp_bound
        if order == math.inf or bound is None:
            return math.inf
        return 0.5 * order * bound * bound * (1.0 + 1e-12)


@functools.lru_cache(maxsize=64)
def _cell_losses(release: MatrixRelease):
    """For each cell: mu of the line's part, and atoms that dominate the plane's loss."""
    edges = release._cells()
    result = []
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        mu = release.sensitivity * math.sqrt(high) / release.scale
        plane = RadialRelease(release._plane(low))
        interval = 1e-3 * max(1.0, release.sensitivity / release.scale)
        support, deltas = symmetric_losses(
            plane._quick_log_delta_upper, plane.reach, interval / 16.0, _POINTS
        )
        losses = support * interval / 16.0
        drop, gap = -np.diff(deltas), np.diff(losses)
        masses = np.append(1.0 - deltas[0], drop / -np.expm1(-gap))
        masses[:-1] -= drop / np.expm1(gap)
        result.append((mu, losses, np.maximum(masses, 0.0), float(deltas[-1])))
    return result


@functools.lru_cache(maxsize=256)
def _matrix_mu(release: MatrixRelease):
    edges = release._cells(fine=False)
    worst = 0.0
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        plane = certified_mu(release._plane(low))
        if plane is None:
            return None
        worst = max(worst, math.hypot(plane, release.sensitivity * math.sqrt(high) / release.scale))
    return worst * (1.0 + 1e-14)
