"""Rotations of space, as 3 x 3 matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from skriemdp._arrays import Array, array_namespace, device
from skriemdp._validation import check_positive
from skriemdp.geometry import _orthonormal as orth
from skriemdp.geometry._base import CoordinateGeometry, Embedding
from skriemdp.geometry._curvature import constant_form
from skriemdp.geometry._elementary import dot, length, nonzero, sinc
from skriemdp.geometry._orthonormal import orthonormal_embedding, t


@dataclass(frozen=True)
class Rotations(CoordinateGeometry):
    """The rotations of space, 3 x 3 matrices, where distance is the angle between two of them.

    Poses, a rotation and a place, are points of ``Product(Rotations(), Euclidean(3))``.

    Parameters
    ----------
    scale : float, default=1.0
        Distance of two rotations that are one radian apart; sqrt(2) is pymanopt's
        ``SpecialOrthogonalGroup(3)``.

    Notes
    -----
    A tangent vector at X is ``X W`` with a skew matrix W; its length is `scale` times the angular
    velocity.  The metric is that of a sphere of radius ``2 scale`` whose antipodes are one point:
    curvature is constant.  Half a turn has two shortest geodesics; `log` returns one of them, which
    depends on both points.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Rotations
    >>> quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> round(float(Rotations().dist(np.eye(3), quarter)), 6)  # pi / 2
    1.570796
    """

    form = "rotations"
    remedy = (
        "they must be orthogonal with determinant 1: the nearest rotations are "
        "scipy.spatial.transform.Rotation.from_matrix(X).as_matrix(); matrices with "
        "determinant -1 are reflections."
    )

    separate_rows = True

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_positive(scale=self.scale)

    @property
    def shape(self) -> tuple[int, ...]:
        return (3, 3)

    @property
    def dim(self) -> int:
        return 3

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (0.25 * self.scale**-2, 0.25 * self.scale**-2)

    @property
    def injectivity_radius(self) -> float:
        return math.pi * self.scale

    @property
    def base_point(self) -> np.ndarray:
        return np.eye(3)

    @property
    def embedding(self) -> Embedding:
        return orthonormal_embedding(self.shape)

    def log_coordinates(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        first, rest = _quaternion(xp, t(xp, point) @ other)
        sine = length(xp, rest)
        return rest * (2 * self.scale * xp.atan2(sine, first) / nonzero(xp, sine))

    def exp_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        return orth.polished(xp, point @ _turn(xp, coordinates / self.scale))

    def inner_product(
        self, point: Array, tangent_vector_a: Array, tangent_vector_b: Array
    ) -> Array:
        xp = array_namespace(tangent_vector_a, tangent_vector_b)
        product = orth.frobenius_product(xp, tangent_vector_a, tangent_vector_b)
        return 0.5 * self.scale * self.scale * product

    def projection(self, point: Array, vector: Array) -> Array:
        xp = array_namespace(point, vector)
        return point @ orth.skew(xp, t(xp, point) @ vector)

    def euclidean_to_riemannian_gradient(self, point: Array, euclidean_gradient: Array) -> Array:
        return 2.0 * self.scale**-2 * self.projection(point, euclidean_gradient)

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        # As seen from the moving rotation, a parallel vector turns half as fast, and backwards.
        xp = array_namespace(point, other, tangent_vector)
        half = _turn(xp, self.log_coordinates(point, other) / (2 * self.scale))
        return other @ (t(xp, half) @ (t(xp, point) @ tangent_vector) @ half)

    def tangent_from_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        return point @ _skew(xp, coordinates / self.scale)

    def coordinates_from_tangent(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        skew = orth.skew(xp, t(xp, point) @ tangent_vector)
        return self.scale * xp.stack([skew[..., 1, 0], skew[..., 2, 0], skew[..., 2, 1]], axis=-1)

    def curvature_form(self, point: Array, moment: Array) -> Array:
        return constant_form(array_namespace(point, moment), self.curvature_bounds[0], moment)

    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        xp = array_namespace(x)
        side = xp.vecdot(xp.linalg.cross(x[..., 0], x[..., 1]), x[..., 2], axis=-1)
        return orth.has_orthonormal_columns(xp, x, atol) & (side > 0)


def _skew(xp: ModuleType, b: Array) -> Array:
    """Skew matrices with the entries `b` below the diagonal, row by row."""
    p, q, r = b[..., 0], b[..., 1], b[..., 2]
    zero = xp.zeros_like(p)
    flat = xp.stack([zero, -p, -q, p, zero, -r, q, r, zero], axis=-1)
    return xp.reshape(flat, (*b.shape[:-1], 3, 3))


def _turn(xp: ModuleType, b: Array) -> Array:
    """The exponential of :func:`_skew`, a rotation by the angle ``|b|``."""
    skew, angle = _skew(xp, b), length(xp, b)[..., None]
    unit = xp.eye(3, dtype=b.dtype, device=device(b))
    half = sinc(xp, angle / 2)
    return unit + sinc(xp, angle) * skew + half * half / 2 * (skew @ skew)


def _quaternion(xp: ModuleType, x: Array) -> tuple[Array, Array]:
    """Cosine of half the angle, not negative, and the sine times the axis, in order of `_skew`.

    Every row of ``4 q q'`` is a multiple of the quaternion q; the one with the largest diagonal
    entry is divided by nothing small.
    """
    (a, b, c), (d, e, f), (g, h, i) = ([x[..., j, k] for k in range(3)] for j in range(3))
    rows = [
        [1 + a + e + i, d - b, g - c, h - f],
        [d - b, 1 - a - e + i, -(f + h), c + g],
        [g - c, -(f + h), 1 - a + e - i, -(b + d)],
        [h - f, c + g, -(b + d), 1 + a - e - i],
    ]
    best, largest = xp.stack(rows[0], axis=-1), rows[0][0]
    for k in range(1, 4):
        better = rows[k][k] > largest
        largest = xp.where(better, rows[k][k], largest)
        best = xp.where(better[..., None], xp.stack(rows[k], axis=-1), best)
    q = best / xp.sqrt(dot(xp, best, best))
    q = xp.where(q[..., :1] < 0, -q, q)
    return q[..., :1], q[..., 1:]
