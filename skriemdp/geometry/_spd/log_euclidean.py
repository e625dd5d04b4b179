"""Symmetric positive definite matrices with the log-Euclidean metric."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from skriemdp._arrays import Array, array_namespace
from skriemdp.geometry import _symmetric as sym
from skriemdp.geometry._elementary import length, sinhc
from skriemdp.geometry._spd.base import SPDGeometry
from skriemdp.geometry._tiles import map_tiles


@dataclass(frozen=True)
class LogEuclideanSPD(SPDGeometry):
    """SPD matrices with the Frobenius metric of their logarithms; flat.

    ``dist(W, X) = |logm W - logm X|``.  Tangent vectors are ordinary symmetric matrices (velocities
    of curves of SPD matrices), so the metric at W is ``<D logm_W [U], D logm_W [V]>`` with the
    differential of the matrix logarithm, by the formula of Daleckii and Krein: in the eigenbasis of
    W it multiplies entry (i, j) by the divided difference ``(log l_i - log l_j) / (l_i - l_j)``.

    Parameters
    ----------
    size : int
        Matrices are ``size x size``.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import LogEuclideanSPD
    >>> round(float(LogEuclideanSPD(2).dist(np.eye(2), np.diag([np.e, np.e]))), 12)  # sqrt(2)
    1.414213562373
    """

    pyriemann_metric = "logeuclid"
    charted = True

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (0.0, 0.0)

    @property
    def injectivity_radius(self) -> float:
        return math.inf

    def _metric_table(self, xp: ModuleType, eigenvalues: Array) -> Array:
        # The divided difference is 1 / (sqrt(l_i l_j) sinhc(h / 2)), h = log l_i - log l_j, which
        # has no cancellation for close eigenvalues.
        root, logarithm = xp.sqrt(eigenvalues), xp.log(eigenvalues)
        half = (logarithm[..., :, None] - logarithm[..., None, :]) / 2
        return 1 / (root[..., :, None] * root[..., None, :] * sinhc(xp, half))

    def chart(self, others: Array) -> Array:
        xp = array_namespace(others)
        if others.ndim != 3:
            return sym.packed_logm(xp, others)
        return map_tiles(lambda block: sym.packed_logm(xp, block), others)

    def _differences(self, point: Array, others: Array, finish: Callable[[Array], Array]) -> Array:
        """`finish` of the chart of every record less that of the point, in blocks if many."""
        origin = self.chart(point)

        def kernel(block: Array) -> Array:
            return finish(self.chart(block) - origin)

        if point.ndim == 2 and others.ndim == 3:
            return map_tiles(kernel, others)
        return kernel(others)

    def log_coordinates(self, point: Array, other: Array) -> Array:
        return self._differences(point, other, lambda rows: rows)

    def log(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        spectrum = self._spectrum(xp, point)
        return self._differences(
            point,
            other,
            lambda rows: self._scaled(xp, spectrum, sym.unpack(xp, rows, self.size), -1),
        )

    def dist(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        return self._differences(point, other, lambda rows: length(xp, rows)[..., 0])

    def exp_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        return sym.expm(xp, sym.logm(xp, point) + sym.unpack(xp, coordinates, self.size))

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        coordinates = self.coordinates_from_tangent(point, tangent_vector)
        return self.tangent_from_coordinates(other, coordinates)
