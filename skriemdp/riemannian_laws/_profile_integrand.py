"""Two radial laws at a distance: weights, boundary of {loss >= epsilon}, shares of spheres."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaln


@dataclass(frozen=True)
class RadialPair:
    """Two radial laws ``exp(-V(distance to a centre))`` whose centres are a given distance apart.

    Lengths are in curvature radii on curved spaces and in units of `scale` on flat ones.

    Parameters
    ----------
    law : {"gaussian", "laplace"}
        ``V(r) = r**2 / (2 scale**2)`` or ``r / scale``.
    kind : {1, 0, -1}
        Sign of the curvature: sphere, Euclidean space, hyperbolic space.
    dim : int
    distance : float
        Between the centres; at most pi on the sphere.
    scale : float
    """

    law: str
    kind: int
    dim: int
    distance: float
    scale: float

    @property
    def order(self) -> int:
        """Dimension of the distance spheres."""
        return self.dim - 1

    @property
    def far(self) -> float:
        """Distance between the centres the long way round, on the sphere."""
        return 2.0 * math.pi - self.distance

    @property
    def epsilon_max(self) -> float:
        """Largest privacy loss; the profile is zero from here on."""
        if self.law == "laplace":
            return self.distance / self.scale
        if self.kind > 0:
            return self.distance * self.far / (2.0 * self.scale**2)
        return math.inf

    # -- radial weight exp(-V) S**order, up to the constant that `log_mass` also leaves out --

    def log_weight(self, r: np.ndarray, complement: np.ndarray | None = None) -> np.ndarray:
        """Log of ``exp(-V(r)) S(r)**order``; `complement` is pi - r where that is more accurate."""
        n, s = self.order, self.scale
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.kind < 0:
                # exp(order r) is joined with V: for wide noise both are huge and nearly cancel.
                curved = n * np.log(-np.expm1(-2.0 * r)) if n else 0.0
                if self.law == "laplace":
                    return curved - (1.0 - n * s) / s * r
                return curved - 0.5 * ((r - n * s**2) / s) ** 2
            potential = r / s if self.law == "laplace" else 0.5 * (r / s) ** 2
            if not n:
                return -potential
            sine = r if self.kind == 0 else np.sin(r if complement is None else complement)
            return n * np.log(sine) - potential

    # -- the boundary of {loss >= epsilon}: distances r and R(r) to the two centres --

    def boundary(self, epsilon: np.ndarray, gap: np.ndarray) -> _Boundary:
        """Numbers that describe the boundary for each epsilon; `gap` is epsilon_max - epsilon."""
        return _Boundary(self, epsilon, gap)


class _Boundary:
    """Points where loss = epsilon on the line through the centres, for arrays of epsilon >= 0.

    Attributes
    ----------
    start : ndarray
        Smallest distance r of the boundary from the first centre.
    inside : ndarray of bool
        Whether all shells with r < start lie in {loss >= epsilon}; otherwise none does.
    length : ndarray
        On the sphere: range of r on the boundary.
    first_rest, second_rest : ndarray
        On the sphere: pi - r and pi - R at the far end of the boundary.
    """

    def __init__(self, pair: RadialPair, epsilon: np.ndarray, gap: np.ndarray):
        self.pair = pair
        a, b, s = pair.distance, pair.far, pair.scale
        if pair.law == "laplace":
            self.c = s * epsilon
            missing = s * gap
            self.missing = missing
            self.start = 0.5 * missing
            self.inside = np.ones(np.shape(epsilon), dtype=bool)
            if pair.kind > 0:
                self.length = np.full(np.shape(epsilon), math.pi - a)
                self.first_rest = 0.5 * (a + self.c)
                self.second_rest = 0.5 * missing
            return
        self.c = 2.0 * s**2 * epsilon
        signed = (a * a - self.c) / (2.0 * a)
        self.start = np.abs(signed)
        self.inside = signed > 0.0
        if pair.kind > 0:
            missing = 2.0 * s**2 * gap
            self.missing = missing
            self.length = np.where(
                self.inside,
                0.5 * (b - a) + 0.5 * self.c * (1.0 / a - 1.0 / b),
                math.pi * missing / (a * b),
            )
            self.first_rest = 0.5 * a + self.c / (2.0 * b)
            self.second_rest = missing / (2.0 * b)

    def at(
        self, index: np.ndarray, x: np.ndarray, rest: np.ndarray | None
    ) -> tuple[
        np.ndarray,
        np.ndarray | None,
        np.ndarray,
        tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    ]:
        """Geometry at ``r = start + x`` (and ``rest = length - x`` on the sphere).

        Returns ``r, pi - r, log(dR/dr (S(R)/S(r))**order)`` and four numbers u whose incomplete
        betas are shares of distance spheres: of the first centre's inside and outside the set, of
        the second centre's inside and outside.
        """
        pair, n = self.pair, self.pair.order
        a = pair.distance
        c, start = self.c[index, None], self.start[index, None]
        r = start + x
        if pair.law == "laplace":
            R = r + c
            P, W = 2.0 * r + a + c, a + c
            Q, U = self.missing[index, None] + np.zeros_like(x), 2.0 * x
            log_slope = 0.0
            difference = c
        else:
            R = np.sqrt(r * r + c)
            difference = c / (R + r)
            inside = self.inside[index, None]
            near, wide = x, x + 2.0 * start
            P, W = r + a + R, difference + a
            Q = 2.0 * a * np.where(inside, wide, near) / P
            U = 2.0 * a * np.where(inside, near, wide) / W
            log_slope = -0.5 * np.log1p(c / (r * r))
        first_rest = None
        if pair.kind == 0:
            log_ratio = log_slope + n * np.log1p(difference / r) if n else log_slope
            denominator, other = 4.0 * r * a, 4.0 * R * a
            shares = (P * Q / denominator, U * W / denominator, U * Q / other, P * W / other)
        elif pair.kind < 0:
            e_p, e_q, e_u, e_w = (-np.expm1(-v) for v in (P, Q, U, W))
            e_r, e_R = -np.expm1(-2.0 * r), -np.expm1(-2.0 * R)
            e_a = -math.expm1(-2.0 * a)
            log_ratio = log_slope + n * (difference + np.log(e_R / e_r)) if n else log_slope
            shares = (
                e_p * e_q / (e_r * e_a),
                np.exp(W - 2.0 * a) * e_u * e_w / (e_r * e_a),
                np.exp(-W) * e_u * e_q / (e_R * e_a),
                e_p * e_w / (e_R * e_a),
            )
        else:
            assert rest is not None  # spheres are given it
            first_rest = self.first_rest[index, None] + rest
            if pair.law == "laplace":
                half = rest  # pi - P / 2
                second_rest = self.second_rest[index, None] + rest
            else:
                half = pair.far * rest / (pair.far - r + R)
                end = math.pi - self.first_rest[index, None]
                missing = self.missing[index, None]
                square = missing / pair.far * (math.pi - missing / (4.0 * pair.far))
                second_rest = (square + rest * (end + r)) / (math.pi + R)
            s_r, s_R, s_a = np.sin(first_rest), np.sin(second_rest), math.sin(a)
            s_r = np.where(r < 1.0, np.sin(r), s_r)
            s_R = np.where(R < 1.0, np.sin(R), s_R)
            turned = 2.0 * np.cos(0.5 * (R + r)) * np.sin(0.5 * difference) / s_r
            plain = np.log(s_R / s_r)
            log_ratio = np.where(np.abs(turned) < 0.5, np.log1p(np.maximum(turned, -0.9)), plain)
            log_ratio = log_slope + n * log_ratio if n else log_slope
            s_p = np.where(half < 1.0, np.sin(half), np.sin(0.5 * P))
            s_u = np.where(U < 2.0, np.sin(0.5 * U), np.sin(half + a))
            s_q, s_w = np.sin(0.5 * Q), np.sin(0.5 * W)
            shares = (
                s_p * s_q / (s_r * s_a),
                s_u * s_w / (s_r * s_a),
                s_u * s_q / (s_R * s_a),
                s_p * s_w / (s_R * s_a),
            )
        return r, first_rest, log_ratio + np.zeros_like(r), shares


def log_share(u: np.ndarray, order: int) -> np.ndarray:
    """Log of the incomplete beta ``I_u(order / 2, order / 2)``: the share of a distance sphere.

    Relative accuracy is kept where the share underflows.
    """
    u = np.clip(u, 0.0, 1.0)
    if order == 0:
        return np.full_like(u, math.log(0.5))
    with np.errstate(divide="ignore"):
        if order == 1:
            return np.log((2.0 / math.pi) * np.arcsin(np.sqrt(u)))
        if order == 2:
            return np.log(u)
        half = 0.5 * order
        value = betainc(half, half, u)
        result = np.log(value)
    tiny = (value < 1e-280) & (u > 0.0)
    if tiny.any():
        result[tiny] = _log_small_share(u[tiny], half)
    return result


@functools.cache
def _log_beta(half: float) -> float:
    return float(betaln(half, half))


def _log_small_share(u: np.ndarray, half: float) -> np.ndarray:
    # u^h (1-u)^h / (h B(h, h)) * 2F1(2h, 1; h + 1; u); terms shrink like 2u, and u is small here.
    term = np.ones_like(u)
    total = np.ones_like(u)
    for k in range(4000):
        term = term * u * (2.0 * half + k) / (half + 1.0 + k)
        total += term
        if (term <= 1e-17 * total).all():
            break
    return half * (np.log(u) + np.log1p(-u)) - math.log(half) - _log_beta(half) + np.log(total)
