"""Symmetric positive definite matrices with the Bures-Wasserstein metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from skriemdp._arrays import Array, array_namespace, device
from skriemdp.geometry import _symmetric as sym
from skriemdp.geometry._spd.base import SPDGeometry
from skriemdp.geometry._tiles import map_tiles

# Runge-Kutta steps of the parallel transport; its relative error is below 1e-6 between matrices
# whose optimal transport map has eigenvalues in [1/4, 4] (tests/test_spd.py).
TRANSPORT_STEPS = 64


@dataclass(frozen=True)
class BuresWassersteinSPD(SPDGeometry):
    """SPD matrices with the 2-Wasserstein distance of centred Gaussians.

    ``dist(W, X)^2 = tr W + tr X - 2 tr (W^1/2 X W^1/2)^1/2``.  The metric is
    ``<U, V>_W = tr(L_W[U] V) / 2``, where ``L = L_W[U]`` solves ``L W + W L = U``.  With the
    optimal transport map T from W to X, ``T W T = X``, the logarithm is ``(T - I) W + W (T - I)``
    and the geodesic ``(I + t (T - I)) W (I + t (T - I))``.

    Parameters
    ----------
    size : int
        Matrices are ``size x size``.

    Notes
    -----
    Sectional curvature is nonnegative and unbounded near singular matrices, and the space is not
    complete: at W the exponential map is a bijection on tangent vectors with ``I + L > 0``, which
    contains a ball of radius sqrt(smallest eigenvalue of W), so the injectivity radius, an infimum
    over W, is zero.  Nevertheless any two SPD matrices are joined by exactly one shortest geodesic
    and every finite set of them has exactly one mean (Agueh and Carlier 2011), so balls of any
    radius are accepted (``radius_limit`` is infinite).  Logarithms are *not* 1-Lipschitz here.

    `exp` uses ``(I + L) W (I + L)`` for every tangent vector; where the result is not numerically
    positive definite, eigenvalues are raised to 4 `size` machine epsilons of the largest.
    `log` and `dist` accept singular positive semidefinite second arguments.  `transport` has no
    closed form; it integrates the transport equation of the horizontal lift, see the source.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import BuresWassersteinSPD
    >>> float(BuresWassersteinSPD(2).dist(np.eye(2), np.diag([4.0, 1.0])))
    1.0
    """

    _unit_power = 0.5
    pyriemann_metric = "wasserstein"

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        # One-dimensional: the map x -> sqrt(x) is an isometry to the half line.
        return (0.0, math.inf) if self.size > 1 else (0.0, 0.0)

    @property
    def injectivity_radius(self) -> float:
        return 0.0

    @property
    def radius_limit(self) -> float:
        return math.inf

    def _metric_table(self, xp: ModuleType, eigenvalues: Array) -> Array:
        return 1 / xp.sqrt(2 * (eigenvalues[..., :, None] + eigenvalues[..., None, :]))

    def _increment(
        self, xp: ModuleType, values: Array, vectors: Array, point: Array, other: Array
    ) -> Array:
        """E = M - W in the eigenbasis of W, where ``M = (W^1/2 X W^1/2)^1/2``.

        From ``M^2 - W^2 = E M + W E`` and ``M^2 - W^2 = W^1/2 (X - W) W^1/2``, E solves a Sylvester
        equation with the small right-hand side: close points cost no digits, equal ones give zero.
        """
        difference = sym.congruence(xp, sym.transposed(xp, vectors), other - point)
        root = xp.sqrt(values)
        right = sym.laid_out(root[..., :, None] * difference * root[..., None, :])
        identity = xp.eye(self.size, dtype=values.dtype, device=device(values))
        squares, basis = sym.eigh(xp, right + (values * values)[..., None] * identity)
        middle = xp.sqrt(xp.clip(squares, min=0.0))
        scaled = (right @ basis) / (values[..., :, None] + middle[..., None, :])
        return sym.symmetrized(xp, scaled @ sym.transposed(xp, basis))

    def _blocks(self, point: Array, other: Array, finish: Callable[..., Any]) -> Array:
        """``finish(values, vectors, increment)`` over blocks of many matrices against one point."""
        xp = array_namespace(point, other)
        values, vectors = self._spectrum(xp, point)

        def kernel(block: Array) -> Array:
            increment = self._increment(xp, values, vectors, point, block)
            return finish(xp, values, vectors, increment)

        if point.ndim == 2 and other.ndim == 3:
            return map_tiles(kernel, other)
        return kernel(other)

    def log(self, point: Array, other: Array) -> Array:
        def finish(xp: ModuleType, values: Array, vectors: Array, increment: Array) -> Array:
            root = xp.sqrt(values)
            ratio = root[..., :, None] / root[..., None, :]
            table = ratio + sym.transposed(xp, ratio)
            return sym.symmetrized(xp, sym.congruence(xp, vectors, increment * table))

        return self._blocks(point, other, finish)

    def log_coordinates(self, point: Array, other: Array) -> Array:
        def finish(xp: ModuleType, values: Array, vectors: Array, increment: Array) -> Array:
            inverse = 1 / values
            table = xp.sqrt((inverse[..., :, None] + inverse[..., None, :]) / 2)
            return sym.pack(xp, sym.congruence(xp, vectors, increment * table))

        return self._blocks(point, other, finish)

    def dist(self, point: Array, other: Array) -> Array:
        def finish(xp: ModuleType, values: Array, vectors: Array, increment: Array) -> Array:
            return xp.sqrt(xp.sum(increment * increment / values[..., :, None], axis=(-2, -1)))

        return self._blocks(point, other, finish)

    def _lyapunov(self, xp: ModuleType, values: Array, vectors: Array, vector: Array) -> Array:
        """Solution L of ``L W + W L = vector``."""
        rotated = sym.congruence(xp, sym.transposed(xp, vectors), vector)
        return sym.congruence(xp, vectors, rotated / (values[..., :, None] + values[..., None, :]))

    def exp(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        values, vectors = self._spectrum(xp, point)
        step = self._lyapunov(xp, values, vectors, tangent_vector)
        end = sym.symmetrized(xp, point + tangent_vector + step @ point @ step)
        raised, basis = sym.eigh(xp, end)
        lowest = 4 * self.size * xp.finfo(end.dtype).eps * xp.max(raised, axis=-1, keepdims=True)
        raised = sym.conjugated(xp, basis, xp.maximum(raised, lowest))
        inside = self.belongs(end)[..., None, None]
        return xp.where(inside, end, sym.symmetrized(xp, raised))

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        # W = F F' with F = W^1/2 is a Riemannian submersion from matrices with the Frobenius
        # metric.  Horizontal vectors at F are H F with H symmetric, vertical ones F A with A
        # antisymmetric, and the geodesic lifts to the line F_t = (I + t L) F.  A horizontal field
        # is parallel along it when its derivative is vertical:
        #     H' F + H L F_0 = F A,   that is   H' = B P^-1 - H M,   B = F A F', P = F F',
        # with M = L (I + t L)^-1; symmetry of H' asks B P^-1 + P^-1 B = H M - M H.
        xp = array_namespace(point, other, tangent_vector)
        values, vectors = self._spectrum(xp, point)
        line = self._lyapunov(xp, values, vectors, self.log(point, other))
        stretch, basis = sym.eigh(xp, line)
        field = self._lyapunov(xp, values, vectors, tangent_vector)
        half = 1 / (2 * TRANSPORT_STEPS)

        def coefficients(times: Array) -> Any:
            factor = 1 + times * stretch
            map_ = sym.conjugated(xp, basis, factor)
            p_values, p_vectors = self._spectrum(xp, sym.symmetrized(xp, map_ @ point @ map_))
            share = p_values[..., :, None] / (p_values[..., :, None] + p_values[..., None, :])
            return sym.conjugated(xp, basis, stretch / factor), p_vectors, share

        def slope(h: Any, at: Any) -> Any:
            m, q, share = at
            product = h @ m
            commutator = product - sym.transposed(xp, product)
            rotated = (sym.transposed(xp, q) @ commutator @ q) * share
            return sym.symmetrized(xp, q @ rotated @ sym.transposed(xp, q) - product)

        def along() -> Iterator[Any]:
            # Many times at once where the matrices are few: calls would cost more than arithmetic.
            last = 2 * TRANSPORT_STEPS
            entries = max(math.prod(line.shape), math.prod(point.shape))
            # Entries of the matrices whose coefficients are computed at once.
            group = max(1, 2**14 // max(1, entries))
            for begin in range(0, last + 1, group):
                steps = [step * half for step in range(begin, min(begin + group, last + 1))]
                times = xp.asarray(steps, dtype=line.dtype, device=device(line))
                found = coefficients(xp.reshape(times, (-1, *(1,) * stretch.ndim)))
                for k in range(len(steps)):
                    yield tuple(part[k, ...] for part in found)

        at = along()
        now = next(at)
        for _ in range(TRANSPORT_STEPS):
            middle, after = next(at), next(at)
            k1 = slope(field, now)
            k2 = slope(field + half * k1, middle)
            k3 = slope(field + half * k2, middle)
            k4 = slope(field + 2 * half * k3, after)
            field = field + half * (k1 + 2 * k2 + 2 * k3 + k4) / 3
            now = after
        product = field @ other
        return product + sym.transposed(xp, product)
