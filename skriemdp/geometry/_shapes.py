"""Shapes of landmarks in the plane: what is left when place, size and direction do not matter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from skriemdp._arrays import Array, array_namespace, device
from skriemdp._validation import check_count
from skriemdp.geometry._base import Embedding, Geometry
from skriemdp.geometry._elementary import nonzero, sinc
from skriemdp.geometry._grassmann import Grassmann
from skriemdp.geometry._orthonormal import Complement, frobenius_product


@dataclass(frozen=True)
class PlanarShapes(Geometry):
    """Kendall's shapes of k landmarks in the plane, the complex projective space of k - 2.

    A point is any (k, 2) array whose rows sum to zero and whose squares sum to one; turned arrays
    are the same point.  Estimators take landmarks of any place and size, and bring each record to
    this form by itself (:meth:`canonical`).  A tangent vector U at X is horizontal: it sums to zero
    and is orthogonal to X and to X turned by a right angle; the metric is ``sum(U * V)``.

    Parameters
    ----------
    landmarks : int
        Their number k, at least 3.

    Notes
    -----
    Curvature lies between 1 and 4 (it is 4 for triangles), and no two shapes are further apart than
    pi/2, where there are many shortest geodesics and `log` returns one of them.

    References
    ----------
    Kendall (1984), Shape manifolds, Procrustean metrics, and complex projective spaces, Bulletin of
    the London Mathematical Society 16.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import PlanarShapes
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> geometry = PlanarShapes(4)
    >>> turned = 3.0 * square[:, ::-1] * [1.0, -1.0] + 5.0
    >>> round(float(geometry.dist(geometry.canonical(square), geometry.canonical(turned))), 6)
    0.0
    """

    form = "shapes"
    remedy = (
        "landmarks must not all lie in one place: put a public shape in the place of such a "
        "record, numpy.where((X == X[:, :1]).all(axis=(1, 2), keepdims=True), public_shape, "
        "X)."
    )

    separate_rows = True

    landmarks: int

    def __post_init__(self) -> None:
        check_count(landmarks=self.landmarks, minimum=3)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.landmarks, 2)

    @property
    def dim(self) -> int:
        return 2 * self.landmarks - 4

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (4.0, 4.0) if self.landmarks == 3 else (1.0, 4.0)

    @property
    def injectivity_radius(self) -> float:
        return math.pi / 2

    @property
    def base_point(self) -> np.ndarray:
        """A regular polygon."""
        angles = 2.0 * math.pi / self.landmarks * np.arange(self.landmarks)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1) / math.sqrt(self.landmarks)

    def canonical(self, x: Array) -> Array:
        """Landmarks moved to their centre and scaled to length one, each record by itself."""
        xp = array_namespace(x)
        x = x - xp.mean(x, axis=-2, keepdims=True)
        return x / nonzero(xp, xp.sqrt(frobenius_product(xp, x, x)))[..., None, None]

    @property
    def embedding(self) -> Embedding:
        # All turns and sizes of a shape are a plane.
        planes = Grassmann(2 * self.landmarks, 2).embedding

        def give(points: np.ndarray) -> np.ndarray:
            return planes.give(self.planes(points))

        def nearest(mean: np.ndarray) -> np.ndarray:
            return self.nearest(planes.nearest(mean))

        return planes._replace(give=give, nearest=nearest)

    def planes(self, x: np.ndarray) -> np.ndarray:
        """Orthonormal frames ``(..., 2 k, 2)`` of the planes of all turns and sizes of shapes."""
        frames = np.stack([x, _turned(np, x)], axis=-1)
        return frames.reshape(*x.shape[:-2], 2 * self.landmarks, 2)

    def nearest(self, frame: np.ndarray) -> np.ndarray:
        """The shape whose plane is nearest to that of `frame`, ``(2 k, 2)`` with any columns."""
        drawn = np.moveaxis(frame.reshape(self.landmarks, 2, 2), -1, 0)
        drawn = drawn - drawn.mean(axis=1, keepdims=True)
        rows = np.concatenate([drawn, _turned(np, drawn)]).reshape(4, 2 * self.landmarks)
        return np.asarray(self.canonical(np.linalg.svd(rows)[2][0].reshape(self.shape)))

    def _aligned(self, xp: ModuleType, point: Array, other: Array) -> tuple[Array, ...]:
        """Turn of `other` to `point` (cosine, sine), and the parts of it along `point` and not.

        The first part is the cosine of the distance, the length of the second its sine.
        """
        a, b = frobenius_product(xp, point, other), frobenius_product(xp, _turned(xp, point), other)
        size = xp.sqrt(a * a + b * b)
        a, b = xp.where(size == 0, xp.ones_like(a), a), xp.where(size == 0, xp.zeros_like(b), b)
        a, b = ((part / nonzero(xp, size))[..., None, None] for part in (a, b))
        rest = a * other - b * _turned(xp, other) - size[..., None, None] * point
        return a, b, size, rest

    def exp(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        angle = xp.sqrt(frobenius_product(xp, tangent_vector, tangent_vector))[..., None, None]
        end = xp.cos(angle) * point + sinc(xp, angle) * tangent_vector
        return end / xp.sqrt(frobenius_product(xp, end, end))[..., None, None]

    def log(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        _, _, cosine, rest = self._aligned(xp, point, other)
        rest = self.projection(point, rest)
        sine = xp.sqrt(frobenius_product(xp, rest, rest))
        return rest * (xp.atan2(sine, cosine) / nonzero(xp, sine))[..., None, None]

    def dist(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        _, _, cosine, rest = self._aligned(xp, point, other)
        return xp.atan2(xp.sqrt(frobenius_product(xp, rest, rest)), cosine)

    def inner_product(
        self, point: Array, tangent_vector_a: Array, tangent_vector_b: Array
    ) -> Array:
        xp = array_namespace(tangent_vector_a, tangent_vector_b)
        return frobenius_product(xp, tangent_vector_a, tangent_vector_b)

    def projection(self, point: Array, vector: Array) -> Array:
        xp = array_namespace(point, vector)
        vector = vector - xp.mean(vector, axis=-2, keepdims=True)
        for unit in (point, _turned(xp, point)):
            vector = vector - frobenius_product(xp, unit, vector)[..., None, None] * unit
        return vector

    euclidean_to_riemannian_gradient = projection  # type: ignore[assignment]  # only the names of arguments differ

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        # Along the geodesic only the complex line of its direction turns; then the end point is
        # turned back to `other`.
        xp = array_namespace(point, other, tangent_vector)
        a, b, cosine, rest = self._aligned(xp, point, other)
        middle, moved = point + rest / (1 + cosine[..., None, None]), tangent_vector
        for along, back in ((rest, middle), (_turned(xp, rest), _turned(xp, middle))):
            moved = moved - frobenius_product(xp, along, tangent_vector)[..., None, None] * back
        return a * moved + b * _turned(xp, moved)

    def _complement(self, xp: ModuleType, point: Array) -> Complement:
        """Basis of the directions that a tangent vector has no part in, among 2 k numbers."""
        k = self.landmarks
        one = xp.zeros_like(point[..., 0]) + 1.0 / math.sqrt(k)
        none = xp.zeros_like(one)
        across, up = xp.stack([one, none], axis=-1), xp.stack([none, one], axis=-1)
        columns = xp.stack([across, up, point, _turned(xp, point)], axis=-1)
        return Complement(xp, xp.reshape(columns, (*point.shape[:-2], 2 * k, 4)))

    def tangent_from_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        flat = self._complement(xp, point).expand(coordinates[..., None])
        return xp.reshape(flat, (*flat.shape[:-2], self.landmarks, 2))

    def coordinates_from_tangent(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        flat = xp.reshape(tangent_vector, (*tangent_vector.shape[:-2], 2 * self.landmarks, 1))
        return self._complement(xp, point).coordinates(flat)[..., 0]

    def curvature_form(self, point: Array, moment: Array) -> Array:
        # R(X, Y) Y = |Y|^2 X - <X, Y> Y + 3 <X, J Y> J Y, with J the turn by a right angle.
        xp = array_namespace(point, moment)
        unit = xp.eye(self.dim, dtype=moment.dtype, device=device(moment))
        basis = self.tangent_from_coordinates(xp.expand_dims(point, axis=-3), unit)
        turn = self.coordinates_from_tangent(xp.expand_dims(point, axis=-3), _turned(xp, basis))
        trace = xp.sum(xp.linalg.diagonal(moment), axis=-1)[..., None, None]
        return trace * unit - moment + 3 * (xp.matrix_transpose(turn) @ moment @ turn)

    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        xp = array_namespace(x)
        centred = xp.max(xp.abs(xp.mean(x, axis=-2)), axis=-1) <= atol
        return centred & (xp.abs(frobenius_product(xp, x, x) - 1) <= atol)


def _turned(xp: ModuleType, x: Array) -> Array:
    """Every landmark turned by a right angle."""
    return xp.stack([-x[..., 1], x[..., 0]], axis=-1)
