"""Correlation matrices with a flat metric that does not depend on the order of the variables."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from skriemdp._arrays import Array, array_namespace, device
from skriemdp._validation import check_count
from skriemdp.geometry import _symmetric as sym
from skriemdp.geometry._base import CoordinateGeometry, Reach
from skriemdp.geometry._elementary import length, nonzero
from skriemdp.geometry._spd.log_euclidean import LogEuclideanSPD

# Coordinates longer than this are of matrices that floats cannot tell from singular ones.
_LONGEST = {64: 16.0, 32: 6.0}
# Largest number of Newton steps towards a unit diagonal (six are usual), and of their length.
_STEPS, _STRIDE = 60, 3.0


@dataclass(frozen=True)
class Correlation(CoordinateGeometry):
    """Positive definite matrices with a unit diagonal, as the off-diagonal part of the logarithm.

    That part is any symmetric matrix with a zero diagonal, and determines the correlation matrix;
    distances are its Frobenius norm.  So the space is flat, every mean is an ordinary mean of these
    coordinates, and a permutation of the variables is an isometry.  Tangent vectors are symmetric
    matrices with a zero diagonal.

    Parameters
    ----------
    size : int
        Matrices are ``size x size``, at least 2.

    Notes
    -----
    `exp` finds the diagonal of the logarithm by Newton's method, each matrix by itself.  Ends
    further than 16 (in single precision 6) from the identity are moved to that distance.

    References
    ----------
    Archakov, Hansen (2021), A new parametrization of correlation matrices, Econometrica 89.
    Thanwerdas (2024), Permutation-invariant log-Euclidean geometries on full-rank correlation
    matrices, SIAM Journal on Matrix Analysis and Applications 45.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Correlation
    >>> x = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> round(float(Correlation(2).dist(np.eye(2), x)), 6)  # sqrt(2) artanh(0.5)
    0.776836
    """

    form = "correlation"
    remedy = (
        "they must be positive definite with ones on the diagonal: divide rows and columns of "
        "each covariance by its standard deviations, with d = numpy.sqrt(numpy.diagonal(X, "
        "axis1=1, axis2=2)): X / (d[:, :, None] * d[:, None, :]); and shrink singular ones by "
        "themselves, 0.99 * X + 0.01 * numpy.eye(X.shape[1])."
    )

    separate_rows = True
    symmetric_matrices = True

    size: int

    def __post_init__(self) -> None:
        check_count(size=self.size, minimum=2)

    @functools.cached_property
    def _spd(self) -> LogEuclideanSPD:
        return LogEuclideanSPD(self.size)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size, self.size)

    @property
    def dim(self) -> int:
        return self.size * (self.size - 1) // 2

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (0.0, 0.0)

    @property
    def injectivity_radius(self) -> float:
        return math.inf

    @property
    def reach(self) -> Reach:
        return Reach(math.sqrt(self.size), divergence_rate=0.5)

    @property
    def base_point(self) -> np.ndarray:
        return np.eye(self.size)

    def canonical(self, x: Array) -> Array:
        return self._spd.canonical(x)

    def rounding(self, point: Array, radius: float = 0.0) -> float:
        return self._spd.rounding(point, radius)

    def _unit(self, xp: ModuleType, like: Array) -> Array:
        return xp.eye(self.size, dtype=like.dtype, device=device(like))

    def _zeros(self, xp: ModuleType, coordinates: Array) -> Array:
        """Coordinates of diagonals, one for each of ours."""
        zeros = xp.zeros(self.size, dtype=coordinates.dtype, device=device(coordinates))
        return 0.0 * coordinates[..., :1] + zeros

    # Coordinates of symmetric matrices begin with the diagonal; what follows are ours.

    def log_coordinates(self, point: Array, other: Array) -> Array:
        return self._spd.log_coordinates(point, other)[..., self.size :]

    def exp_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        c = self.log_coordinates(self._unit(xp, point), point) + coordinates
        longest, norm = _LONGEST[xp.finfo(c.dtype).bits], length(xp, c)
        c = xp.where(norm > longest, c * (longest / nonzero(xp, norm)), c)
        diagonal = self._zeros(xp, c)
        done = xp.zeros_like(diagonal[..., :1]) > 1
        tolerance = 4 * self.size * float(xp.finfo(c.dtype).eps)
        for _ in range(_STEPS):
            matrix = sym.expm(xp, sym.unpack(xp, xp.concat([diagonal, c], axis=-1), self.size))
            entries = xp.linalg.diagonal(matrix)
            # Row sums of the derivative of the logarithms of the diagonal are one.
            gap = xp.log(entries)
            done = done | (xp.max(xp.abs(gap), axis=-1, keepdims=True) <= tolerance)
            if bool(xp.all(done)):
                break
            slope = self._slope(xp, matrix) / entries[..., None]
            step = xp.linalg.solve(slope, gap[..., None])[..., 0]
            longest_step = xp.max(xp.abs(step), axis=-1, keepdims=True)
            step = step * (_STRIDE / xp.maximum(longest_step, 0.0 * longest_step + _STRIDE))
            diagonal = xp.where(done, diagonal, diagonal - step)  # rows that are done stay put
        scale = 1 / xp.sqrt(entries)
        unit = self._unit(xp, point)
        return unit + (1 - unit) * (scale[..., :, None] * matrix * scale[..., None, :])

    def _slope(self, xp: ModuleType, point: Array) -> Array:
        """Diagonal of the exponential's derivative at ``logm(point)`` along each diagonal entry."""
        unit = xp.eye(self.size, self._spd.dim, dtype=point.dtype, device=device(point))
        along = self._spd.tangent_from_coordinates(xp.expand_dims(point, axis=-3), unit)
        slope = xp.matrix_transpose(xp.linalg.diagonal(along))
        # Positive semidefinite; rounding may not make it singular.
        least = 64 * self.size * float(xp.finfo(point.dtype).eps)
        least = least * xp.max(xp.abs(slope), axis=(-2, -1))[..., None, None]
        return slope + least * self._unit(xp, point)

    def tangent_from_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        whole = xp.concat([self._zeros(xp, coordinates), coordinates], axis=-1)
        matrix = self._spd.tangent_from_coordinates(point, whole)
        shift = xp.linalg.solve(self._slope(xp, point), xp.linalg.diagonal(matrix)[..., None])
        zeros = xp.zeros_like(coordinates) + 0.0 * shift[..., :1, 0]
        diagonal = xp.concat([shift[..., 0], zeros], axis=-1)
        matrix = matrix - self._spd.tangent_from_coordinates(point, diagonal)
        return (1 - self._unit(xp, point)) * matrix

    def coordinates_from_tangent(self, point: Array, tangent_vector: Array) -> Array:
        return self._spd.coordinates_from_tangent(point, tangent_vector)[..., self.size :]

    def projection(self, point: Array, vector: Array) -> Array:
        xp = array_namespace(point, vector)
        return (1 - self._unit(xp, point)) * self._spd.projection(point, vector)

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        coordinates = self.coordinates_from_tangent(point, tangent_vector)
        return self.tangent_from_coordinates(other, coordinates)

    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        xp = array_namespace(x)
        gap = xp.max(xp.abs(xp.linalg.diagonal(x) - 1), axis=-1)
        return self._spd.belongs(x, atol) & (gap <= atol)
