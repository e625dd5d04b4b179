"""Base class of all metrics on symmetric positive definite matrices."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import numpy as np

from skriemdp._arrays import Array, array_namespace
from skriemdp._validation import check_count
from skriemdp.geometry import _symmetric as sym
from skriemdp.geometry._base import CoordinateGeometry, Reach, Scaling
from skriemdp.geometry._tiles import map_tiles


@dataclass(frozen=True)
class SPDGeometry(CoordinateGeometry):
    """Symmetric positive definite matrices of one size, under a rotation-invariant metric.

    With ``W = Q diag(l) Q'``, every metric here has the form ``|U|_W = |G * (Q' U Q)|`` (Frobenius
    norm, entrywise product) for a symmetric table ``G`` of the eigenvalues; `_metric_table` says
    which.  Tangent coordinates at W are therefore the coordinates of ``Q (G * (Q' U Q)) Q'`` in a
    Frobenius-orthonormal basis of symmetric matrices: the diagonal, then sqrt(2) times the lower
    triangle row by row.
    """

    form = "spd"

    separate_rows = True
    symmetric_matrices = True
    total_logarithms = True

    size: int

    def __post_init__(self) -> None:
        check_count(size=self.size)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size, self.size)

    @property
    def dim(self) -> int:
        return self.size * (self.size + 1) // 2

    # Power of the unit of measurement that distances are proportional to.
    _unit_power: ClassVar[float] = 0.0

    @property
    def reach(self) -> Reach:
        return Reach(math.sqrt(self.size), divergence_rate=0.5)

    @property
    def scaling(self) -> Scaling:
        """A matrix's unit is the geometric mean of its eigenvalues."""
        m = self.size

        def unit(points: np.ndarray) -> np.ndarray:
            return np.exp(sym.log_determinant(points) / m)

        def charted(rows: np.ndarray) -> np.ndarray:
            # A chart of these spaces holds logarithms, whose trace is that of the determinant.
            return np.exp(np.asarray(sum(rows.T[1:m], start=rows[:, 0])) / m)

        return Scaling(unit, charted, lambda unit: unit * np.eye(m), self._distance_in)

    def _distance_in(self, unit: float) -> float:
        return unit**self._unit_power

    @property
    def base_point(self) -> np.ndarray:
        return np.eye(self.size)

    def canonical(self, x: Array) -> Array:
        """The symmetric part: methods read one triangle, the other, or both."""
        xp = array_namespace(x)
        if isinstance(x, np.ndarray) and x.ndim == 3 and x.dtype.kind == "f":
            turned = differ_from_transposes(x)
            if not turned.any():
                return x
            points = x.copy()
            points[turned] = x[turned] / 2 + sym.transposed(xp, x[turned]) / 2
            return points
        return x / 2 + sym.transposed(xp, x) / 2  # halves first: their sum cannot overflow

    def rounding(self, point: Array, radius: float = 0.0) -> float:
        """The largest condition number within `radius` of `point`, times the size."""
        logarithms = sym.log_eigenvalues(np, np.asarray(point, dtype=float))
        spread = float(np.max(logarithms) - np.min(logarithms))
        # The exponent stays within the range of floats.
        return self.size * math.exp(min(spread + math.sqrt(2.0) * radius, 700.0))

    @abstractmethod
    def _metric_table(self, xp: ModuleType, eigenvalues: Array) -> Array:
        """The table G at a point with these eigenvalues, shape ``(..., size, size)``."""

    def _spectrum(self, xp: ModuleType, point: Array) -> tuple[Array, Array]:
        values, vectors = sym.eigh(xp, point)
        return sym.floored(xp, values), vectors

    def projection(self, point: Array, vector: Array) -> Array:
        xp = array_namespace(point, vector)
        symmetric = sym.symmetrized(xp, vector)
        return symmetric if point.ndim == 2 else symmetric + 0.0 * point

    def _scaled(
        self, xp: ModuleType, spectrum: tuple[Array, Array], matrices: Array, power: int
    ) -> Array:
        """``Q (G^power * (Q' S Q)) Q'`` of symmetric matrices S, in blocks if there are many."""
        values, vectors = spectrum
        table = self._metric_table(xp, values) ** power

        def kernel(block: Array) -> Array:
            rotated = sym.congruence(xp, sym.transposed(xp, vectors), block)
            return sym.symmetrized(xp, sym.congruence(xp, vectors, rotated * table))

        if values.ndim == 1 and matrices.ndim == 3:
            return map_tiles(kernel, matrices)
        return kernel(matrices)

    def tangent_from_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        matrices = sym.unpack(xp, coordinates, self.size)
        return self._scaled(xp, self._spectrum(xp, point), matrices, -1)

    def coordinates_from_tangent(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        return sym.pack(xp, self._scaled(xp, self._spectrum(xp, point), tangent_vector, 1))

    def euclidean_to_riemannian_gradient(self, point: Array, euclidean_gradient: Array) -> Array:
        xp = array_namespace(point, euclidean_gradient)
        symmetric = sym.symmetrized(xp, euclidean_gradient)
        return self._scaled(xp, self._spectrum(xp, point), symmetric, -2)

    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        """Symmetric within `atol` times the largest entry, and numerically positive definite.

        The second test is scale-free: after division of rows and columns by the square roots of
        the diagonal, the smallest eigenvalue exceeds `size` machine epsilons.
        """
        if isinstance(x, np.ndarray) and x.dtype.kind == "f" and _surely_points(x):
            return np.ones(x.shape[:-2], dtype=bool)[()]
        finite, symmetric, definite = self._tests(x, atol)
        return finite & symmetric & definite

    def complaint(self, x: Array, atol: float = 1e-6) -> str | None:
        """Name a test that some of `x` fail ("finite", "symmetric", "positive definite"), or None.

        It tells which test failed, and nothing else about the matrices.
        """
        words = "finite", "symmetric", "positive definite"
        for word, passed in zip(words, self._tests(x, atol), strict=True):
            if not bool(passed.all()):
                return word
        return None

    def _tests(self, x: Array, atol: float) -> tuple[Array, Array, Array]:
        xp = array_namespace(x)
        finite = xp.all(xp.isfinite(x), axis=(-2, -1))
        if not bool(xp.all(finite)):
            x = xp.where(finite[..., None, None], x, xp.zeros_like(x))
        largest = xp.max(xp.abs(x), axis=(-2, -1))
        gap = xp.max(xp.abs(x - sym.transposed(xp, x)), axis=(-2, -1))
        diagonal = xp.linalg.diagonal(x)
        positive = xp.all(diagonal > 0, axis=-1)
        scale = 1 / xp.sqrt(xp.where(diagonal > 0, diagonal, xp.ones_like(diagonal)))
        correlation = scale[..., :, None] * x * scale[..., None, :]
        bounded = xp.where(positive[..., None, None], correlation, xp.zeros_like(x))
        definite = sym.smallest_eigenvalue(xp, bounded) > self.size * xp.finfo(x.dtype).eps
        return finite, gap <= atol * largest, positive & definite


def differ_from_transposes(points: np.ndarray) -> np.ndarray:
    """Return a mask of the matrices ``(n, r, r)`` that do not equal their transposes bitwise."""
    if points.shape[-1] == 2:
        return np.asarray(points[:, 0, 1] != points[:, 1, 0])
    return np.asarray(map_tiles(_different, points))


def _different(block: np.ndarray) -> np.ndarray:
    different = block != block.swapaxes(1, 2)
    return different.any(axis=(1, 2)) if different.any() else np.zeros(len(block), dtype=bool)


def _surely_points(x: np.ndarray) -> bool:
    """Whether a quick look shows that all matrices pass every test; a False says nothing.

    2x2 ones by their determinants.  Larger ones X, with diagonal D, by Cholesky's factors: those of
    ``X - s D`` exist in floating point only if the smallest eigenvalue of ``D^-1/2 X D^-1/2`` is at
    least ``s - size (size + 1) eps``, which is far above the threshold of the test.
    """
    size, limits = x.shape[-1], np.finfo(x.dtype)
    stack = x.reshape(-1, size, size)
    with np.errstate(all="ignore"):
        if not np.isfinite(stack.sum()) or differ_from_transposes(stack).any():
            return False
        diagonal = stack.diagonal(axis1=1, axis2=2)
        # Products of two entries, and what rounding leaves of them, are ordinary floats.
        low, high = math.sqrt(limits.tiny) / limits.eps, math.sqrt(limits.max)
        if not (diagonal.min(initial=1.0) > low and diagonal.max(initial=1.0) < high):
            return False
        if size == 2:
            product, side = diagonal[:, 0] * diagonal[:, 1], stack[:, 1, 0]
            return bool((side * side <= (1.0 - 64.0 * limits.eps) * product).all())
        shifted = stack.copy()
        shifted.reshape(-1, size * size)[:, :: size + 1] *= (
            1.0 - 4.0 * size * (size + 1) * limits.eps
        )
        try:
            np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            return False
    return True
