"""Symmetric positive definite matrices with the affine-invariant metric."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from skriemdp._arrays import Array, array_namespace
from skriemdp.geometry import _symmetric as sym
from skriemdp.geometry._base import Reach, SymmetricSpace
from skriemdp.geometry._curvature import symmetric_form
from skriemdp.geometry._spd.base import SPDGeometry
from skriemdp.geometry._tiles import map_tiles


@dataclass(frozen=True)
class AffineInvariantSPD(SPDGeometry):
    """SPD matrices with ``<U, V>_W = tr(W^-1 U W^-1 V)``; a Hadamard manifold.

    ``dist(W, X)`` is the norm of the logarithms of the eigenvalues of ``W^-1 X`` and does not
    change under ``X -> A X A'``.

    Parameters
    ----------
    size : int
        Matrices are ``size x size``.

    Notes
    -----
    Sectional curvatures lie in [-1/2, 0] (size >= 2): at the identity the curvature of
    the plane of orthonormal X, Y is ``-|[X, Y]|^2 / 4``, and ``|[X, Y]|^2 <= 2 |X|^2 |Y|^2``
    (Boettcher and Wenzel 2008), attained by 2x2 blocks.

    Work at a point W is done on the whitened matrices ``W^-1/2 X W^-1/2``, one batched
    eigendecomposition per operation (a closed form for 2x2).  Eigenvalues of whitened matrices may
    range over ``exp(+-300)`` (``exp(+-40)`` in single precision).  Rounding can make an eigenvalue
    of a nearly singular matrix zero or negative; it then counts as machine epsilon times the
    largest.  `exp` returns a positive definite matrix always: see `_symmetric.expm`.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import AffineInvariantSPD
    >>> round(float(AffineInvariantSPD(2).dist(np.eye(2), np.diag([np.e, np.e]))), 12)  # sqrt(2)
    1.414213562373
    """

    pyriemann_metric = "riemann"

    @property
    def symmetric_space(self) -> SymmetricSpace | None:
        if self.size == 1:
            return super().symmetric_space
        return SymmetricSpace("spd", self.dim, -0.5)

    @property
    def reach(self) -> Reach:
        known = super().reach
        return known if self.size == 1 else known._replace(representable=(32.0, 12.0))

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (-0.5, 0.0) if self.size > 1 else (0.0, 0.0)

    @property
    def injectivity_radius(self) -> float:
        return math.inf

    def _metric_table(self, xp: ModuleType, eigenvalues: Array) -> Array:
        root = xp.sqrt(eigenvalues)
        return 1 / (root[..., :, None] * root[..., None, :])

    def _roots(self, xp: ModuleType, point: Array) -> tuple[Array, Array]:
        """Symmetric square root of the point, and its inverse."""
        if isinstance(point, np.ndarray) and point.ndim == 2 and point.dtype == np.float64:
            # A sum asks for them once for each block of records.
            return _known_roots(self, point.tobytes())
        return self._computed_roots(xp, point)

    def _computed_roots(self, xp: ModuleType, point: Array) -> tuple[Array, Array]:
        values, vectors = self._spectrum(xp, point)
        root = xp.sqrt(values)
        return sym.conjugated(xp, vectors, root), sym.conjugated(xp, vectors, 1 / root)

    def _whitening(self, xp: ModuleType, point: Array) -> Callable[[Array], Array]:
        """``X -> W^-1/2 X W^-1/2``; at multiples of the identity, a division."""
        _, whitener = self._roots(xp, point)
        if isinstance(whitener, np.ndarray) and whitener.ndim == 2:
            first = whitener[0, 0]
            # One entry tells of most others.
            if not whitener[-1, 0] and np.array_equal(whitener, first * np.eye(self.size)):
                square = float(first * first)
                return (lambda block: block) if square == 1.0 else (lambda block: block * square)
        return lambda block: sym.congruence(xp, whitener, block)

    def _per_block(self, point: Array, others: Array, kernel: Callable[..., Any]) -> Array:
        """`kernel` over blocks of many matrices against one point, at once otherwise."""
        if point.ndim == 2 and others.ndim == 3:
            return map_tiles(kernel, others)
        return kernel(others)

    def log(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        root, whiten = self._roots(xp, point)[0], self._whitening(xp, point)

        def kernel(block: Array) -> Array:
            return sym.symmetrized(xp, sym.congruence(xp, root, sym.logm(xp, whiten(block))))

        return self._per_block(point, other, kernel)

    def log_coordinates(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        whiten = self._whitening(xp, point)

        def kernel(block: Array) -> Array:
            return sym.packed_logm(xp, whiten(block))

        return self._per_block(point, other, kernel)

    def exp(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        root, whitener = self._roots(xp, point)
        whitened = sym.symmetrized(xp, sym.congruence(xp, whitener, tangent_vector))
        return sym.symmetrized(xp, sym.congruence(xp, root, sym.expm(xp, whitened)))

    def exp_coordinates(self, point: Array, coordinates: Array) -> Array:
        # Coordinates are those of the whitened tangent vector, so it need not be formed and undone.
        xp = array_namespace(point, coordinates)
        root, _ = self._roots(xp, point)
        whitened = sym.unpack(xp, coordinates, self.size)
        return sym.symmetrized(xp, sym.congruence(xp, root, sym.expm(xp, whitened)))

    def dist(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        whiten = self._whitening(xp, point)

        def kernel(block: Array) -> Array:
            logarithms = sym.log_eigenvalues(xp, whiten(block))
            return xp.sqrt(xp.sum(logarithms * logarithms, axis=-1))

        return self._per_block(point, other, kernel)

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        # E V E' with E = W^1/2 (W^-1/2 X W^-1/2)^1/2 W^-1/2, the half-way transvection.
        xp = array_namespace(point, other, tangent_vector)
        root, whitener = map(sym.laid_out, self._roots(xp, point))
        middle = sym.laid_out(sym.sqrtm(xp, sym.congruence(xp, whitener, other)))
        return sym.symmetrized(xp, sym.congruence(xp, root @ middle @ whitener, tangent_vector))

    def curvature_form(self, point: Array, moment: Array) -> Array:
        return symmetric_form(array_namespace(point, moment), moment, self.size)


@functools.lru_cache(maxsize=16)
def _known_roots(geometry: AffineInvariantSPD, point: bytes) -> tuple[np.ndarray, np.ndarray]:
    matrix = np.frombuffer(point).reshape(geometry.shape)
    root, whitener = geometry._computed_roots(array_namespace(matrix), matrix)
    root.flags.writeable = whitener.flags.writeable = False
    return root, whitener
