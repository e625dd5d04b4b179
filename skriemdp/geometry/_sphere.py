"""Spheres, as unit or longer vectors of the ambient Euclidean space."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from skriemdp._arrays import Array, array_namespace, row_squares
from skriemdp._validation import check_count, check_positive
from skriemdp.geometry._base import CoordinateGeometry, Embedding, Reach, SymmetricSpace
from skriemdp.geometry._columns import MOST_COLUMNS, are_rows, layout
from skriemdp.geometry._curvature import constant_form
from skriemdp.geometry._elementary import dot, length, nonzero, sinc
from skriemdp.geometry._tiles import tiles

# Cosine of the distance below which the direction to a point loses digits.
_NEAR_ANTIPODE = -0.9
# The fast sum of clipped logarithms needs a bound of at least the first, in radii of the sphere,
# and records and centres within the second times that bound.
_LEAST, _FURTHEST = 1e-6, 8.0


def _are_single(point: Array, other: Array) -> bool:
    """Whether both are vectors of a few doubles in NumPy."""
    arrays = type(point) is np.ndarray and type(other) is np.ndarray
    # For short vectors, Python's arithmetic costs less than calls of NumPy.
    if not arrays or not point.ndim == other.ndim == 1 or point.size > 32:
        return False
    return point.dtype == other.dtype == np.float64


@dataclass(frozen=True)
class Sphere(CoordinateGeometry):
    """The sphere ``{x in R^(dim+1) : |x| = radius}`` with the metric of the ambient space.

    Points are rescaled to the sphere wherever they come in, so a point off by rounding gives the
    same answer as the nearest point on the sphere.

    Parameters
    ----------
    dim : int
        Dimension of the sphere; ``Sphere(2)`` is the globe.
    radius : float, default=1.0
        Geodesic distances scale with it; sectional curvature is ``1 / radius**2``.

    Notes
    -----
    The logarithm of the antipode is not unique.  `log` then returns the vector of length
    ``pi * radius`` along the first tangent coordinate, a function of the point only.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Sphere
    >>> north, east = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])
    >>> float(Sphere(2).dist(north, east)) == np.pi / 2
    True
    """

    form = "sphere"
    remedy = (
        "they must have that length: divide each by its norm, X / numpy.linalg.norm(X, "
        "axis=1, keepdims=True); make places by skriemdp.geometry.from_lat_lon(lat, lon), and "
        "shares of a whole by skriemdp.geometry.from_compositions(X)."
    )

    separate_rows = True

    dim: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        check_count(dim=self.dim)
        check_positive(radius=self.radius)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.dim + 1,)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        if self.dim == 1:  # a curve has no two-dimensional planes
            return (0.0, 0.0)
        return (self.radius**-2, self.radius**-2)

    @property
    def injectivity_radius(self) -> float:
        return math.pi * self.radius

    @property
    def quick_distances(self) -> bool:
        return self.dim >= MOST_COLUMNS

    @property
    def base_point(self) -> np.ndarray:
        point = np.zeros(self.dim + 1)
        point[0] = self.radius
        return point

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """A uniformly distributed point, ndarray, from the NumPy generator `rng`."""
        point = rng.standard_normal(self.dim + 1)
        return point * (self.radius / np.linalg.norm(point))

    # Everything below works with unit vectors and angles; the radius enters at the doors.

    @staticmethod
    def _reflect(xp: ModuleType, x: Array, coordinates: Array) -> Array:
        # Householder reflection that takes the first axis to -sign(x0) x: it maps (0, c) to the
        # tangent space at x, and the sign keeps the divisor away from zero.
        first, rest = x[..., :1], x[..., 1:]
        sign = xp.where(first < 0, -xp.ones_like(first), xp.ones_like(first))
        component = dot(xp, rest, coordinates)
        head = -sign * component
        tail = coordinates - rest * (component / (1 + xp.abs(first)))
        return xp.concat([head, tail], axis=-1)

    def exp(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        x = point / length(xp, point)
        v = tangent_vector / self.radius
        angle = length(xp, v)
        y = xp.cos(angle) * x + sinc(xp, angle) * v
        return y * (self.radius / length(xp, y))

    def exp_coordinates(self, point: Array, coordinates: Array) -> Array:
        if not _are_single(point, coordinates):
            return super().exp_coordinates(point, coordinates)
        # A step of a descent moves one point of few numbers: as above, without calls for tables.
        x, c = point.tolist(), coordinates.tolist()
        norm, angle = math.hypot(*x), math.hypot(*c) / self.radius
        if not (0.0 < norm < math.inf and 0.0 < angle < math.inf):
            return super().exp_coordinates(point, coordinates)
        along, share = math.cos(angle) / norm, math.sin(angle) / (angle * self.radius)
        component = share * sum(map(operator.mul, x[1:], c)) / norm
        head = along * x[0] + (component if x[0] < 0 else -component)
        along -= component / (norm + abs(x[0]))
        y = [head, *(along * a + share * b for a, b in zip(x[1:], c, strict=True))]
        return np.array(y) * (self.radius / math.hypot(*y))

    def log_coordinates(self, point: Array, other: Array) -> Array:
        if _are_single(point, other):
            return self._one_logarithm(point, other)
        if self.quick_distances and are_rows(point, other):
            return self._seen_by_products(point, other)
        return self._seen_by_differences(point, other)

    def _one_logarithm(self, point: np.ndarray, other: np.ndarray) -> Array:
        """Logarithm of one point, as :meth:`_seen_by_differences`, without the calls for tables."""
        x = point.tolist()
        norm = math.hypot(*x)
        if not 0.0 < norm < math.inf:
            return self._seen_by_differences(point, other)
        x = [a / norm for a in x]
        difference = [b - self.radius * a for a, b in zip(x, other.tolist(), strict=True)]
        change = sum(map(operator.mul, x, difference))
        cosine, head = self.radius + change, difference[0]
        along = (change + (-head if x[0] < 0 else head)) / (1.0 + abs(x[0]))
        c = [b - along * a for a, b in zip(x[1:], difference[1:], strict=True)]
        sine = math.hypot(*c)
        if not (cosine >= 0.0 and 0.0 < sine < math.inf):
            return self._seen_by_differences(point, other)
        return np.array(c) * (self.radius * math.atan2(sine, cosine) / sine)

    def _seen_by_products(self, point: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Coordinates of many records of many numbers, each computed by itself.

        ``angle / sine`` times ``y - <x, y> x``, reflected: two passes over the records.
        """
        x = point / np.linalg.norm(point)
        t, sine, close = self._products(x, others)
        if close.all():
            return self._seen_by_differences(point, others)
        with np.errstate(all="ignore"):
            weight = self.radius * np.arctan2(sine, t) / sine
            along = t + math.copysign(1.0, x[0]) * (others[:, 0] - t * x[0]) / (1.0 + abs(x[0]))
            c = along[:, None] * x[1:]
            np.subtract(others[:, 1:], c, out=c)
            c *= weight[:, None]
        if close.any():
            c[close] = self._seen_by_differences(point, others[close])
        return c

    @staticmethod
    def _products(
        x: np.ndarray, others: np.ndarray, squares: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``<x, y>``, the length of the rest of y, and which y are so close that it cancels.

        Close to x or to its antipode, or no numbers; they are to be seen by differences.
        """
        with np.errstate(all="ignore"):
            t = np.einsum("ij,j->i", others, x)
            square = row_squares(others) if squares is None else squares
            cosine = t / np.sqrt(square)
            # Records closer than this are seen by differences.
            close = ~((cosine > _NEAR_ANTIPODE) & (cosine < 0.995))
            return t, np.sqrt(np.maximum(square - t * t, 0.0)), close

    def _seen_by_differences(self, point: Array, other: Array) -> Array:
        # The reflection of _reflect takes the point to an axis, and what remains of the difference
        # to the other point are its coordinates, times the sine over the angle.
        xp = array_namespace(point, other)
        form, ndim = layout(self.dim + 1), max(point.ndim, other.ndim)
        x, y = form.turned(xp, point, ndim), form.turned(xp, other, ndim)
        x = x / xp.sqrt(form.dot(xp, x, x))
        # y - x is free of cancellation next to x, y + x next to the antipode.  The length of y
        # enters sine and cosine alike, and cancels.
        middle = self.radius * x
        difference = y - middle
        change = form.dot(xp, x, difference)
        cosine = self.radius + change
        opposed = cosine < 0
        some_opposed = bool(xp.any(opposed))
        if some_opposed:
            other_side = y * (self.radius / xp.sqrt(form.dot(xp, y, y))) + middle
            difference = xp.where(opposed, other_side, difference)
            change = form.dot(xp, x, difference)
            side = xp.where(opposed, -xp.ones_like(cosine), xp.ones_like(cosine))
            cosine = change + self.radius * side
        (first, rest), (head, tail) = form.split(x), form.split(difference)
        one = xp.ones_like(first)
        sign = xp.where(first < 0, -one, one)
        along = (change + sign * head) / (1 + xp.abs(first))
        c = tail - along * rest
        sine = xp.sqrt(form.dot(xp, c, c))
        if some_opposed:
            head, tail = form.split(c)
            unit = xp.concat([xp.ones_like(head), xp.zeros_like(tail)], axis=form.axis)
            c = xp.where((sine == 0) & opposed, unit, c)
        c = c * (self.radius * xp.atan2(sine, cosine) / nonzero(xp, sine))
        return form.turned_back(xp, c)

    def squares(self, others: np.ndarray) -> np.ndarray:
        return row_squares(others)

    def bounded_log_sum(
        self,
        point: np.ndarray,
        others: np.ndarray,
        radius: float,
        center: np.ndarray,
        squares: np.ndarray | None = None,
    ) -> np.ndarray | None:
        # With D = y - R x, or y itself, and t = <D, x>, the logarithm of y is w (D - t x), w the
        # angle over the sine.  Its length, and its distance from a tangent vector, follow from
        # three numbers per record, and the shortened sum is one product of weights and D
        # (docs/theory/floats.md).
        x = point / np.linalg.norm(point)
        middle = self.tangent_from_coordinates(x, center)
        both, square = np.stack([x, middle], axis=1), float(middle @ middle)
        furthest, most = _FURTHEST * radius, radius * radius
        if radius < _LEAST * self.radius or not square <= furthest * furthest:
            return None
        # Larger bounds keep enough digits without a difference to the centre.
        begin = self.radius if radius < 0.05 * self.radius else 0.0
        total, along, shares, done = np.zeros_like(x), 0.0, 0.0, 0
        with np.errstate(all="ignore"):
            for block in tiles(others, 1 if begin else 4):
                D, piece = block - begin * x if begin else block, slice(done, done + len(block))
                lengths = row_squares(D) if begin or squares is None else squares[piece]
                t, inner = np.ascontiguousarray((D @ both).T)
                # 1e-300 stands for the squared sine of a record at the point itself.
                sine = np.sqrt(np.maximum(lengths - t * t, 1e-300))
                cosine = t + begin if begin else t
                angle = np.arctan2(sine, cosine)
                angle *= self.radius
                far = not cosine.min(initial=1.0) > _NEAR_ANTIPODE * self.radius  # or NaN
                if far or not angle.max(initial=0.0) <= furthest:
                    return None
                weight = angle / sine
                inner *= weight
                offset = angle * angle - 2.0 * inner + square
                if offset.max(initial=0.0) <= most:
                    shares += len(block)
                else:
                    share = radius / np.sqrt(np.maximum(offset, most))
                    weight *= share
                    shares += float(share.sum())
                total += weight @ D
                along += float(weight @ t)
                done += len(block)
        tangent = total - along * x - shares * middle
        return self.coordinates_from_tangent(x, tangent)

    def dist(self, point: Array, other: Array) -> Array:
        if are_rows(point, other):
            return self.distances(point, other)
        return self._dist_by_differences(point, other)

    def distances(
        self, point: np.ndarray, others: np.ndarray, squares: np.ndarray | None = None
    ) -> np.ndarray:
        if not self.quick_distances:
            return self._dist_by_differences(point, others)
        t, sine, close = self._products(point / np.linalg.norm(point), others, squares)
        distances = self.radius * np.arctan2(sine, t)
        if close.any():
            distances[close] = self._dist_by_differences(point, others[close])
        return distances

    def _dist_by_differences(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        x, y = point / length(xp, point), other / length(xp, other)
        return (2 * self.radius) * xp.atan2(length(xp, x - y), length(xp, x + y))[..., 0]

    def inner_product(
        self, point: Array, tangent_vector_a: Array, tangent_vector_b: Array
    ) -> Array:
        xp = array_namespace(tangent_vector_a, tangent_vector_b)
        return dot(xp, tangent_vector_a, tangent_vector_b)[..., 0]

    def projection(self, point: Array, vector: Array) -> Array:
        xp = array_namespace(point, vector)
        x = point / length(xp, point)
        return vector - x * dot(xp, x, vector)

    def euclidean_to_riemannian_gradient(self, point: Array, euclidean_gradient: Array) -> Array:
        return self.projection(point, euclidean_gradient)

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, other, tangent_vector)
        # The reflection that takes the point to minus the other one.
        middle = point / length(xp, point) + other / length(xp, other)
        square = nonzero(xp, dot(xp, middle, middle))
        share = 2 * dot(xp, middle, tangent_vector) / square
        return self.projection(other, tangent_vector - share * middle)

    def tangent_from_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        return self._reflect(xp, point / length(xp, point), coordinates)

    def coordinates_from_tangent(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        x = point / length(xp, point)
        first, rest = x[..., :1], x[..., 1:]
        sign = xp.where(first < 0, -xp.ones_like(first), xp.ones_like(first))
        head, tail = tangent_vector[..., :1], tangent_vector[..., 1:]
        return tail - rest * (sign * head / (1 + xp.abs(first)))

    @property
    def embedding(self) -> Embedding:
        def give(points: np.ndarray) -> np.ndarray:
            return points if self.radius == 1.0 else points / self.radius

        def nearest(mean: np.ndarray) -> np.ndarray:
            size = float(np.linalg.norm(mean))
            return mean * (self.radius / size) if size > 0.0 else self.base_point

        return Embedding(give, nearest, self.dim + 1, on_sphere=True)

    def in_words(self, point: np.ndarray) -> str:
        if self.dim != 2:
            return super().in_words(point)
        x, y, z = point / np.linalg.norm(point)
        longitude = math.degrees(math.atan2(y, x))
        latitude = math.degrees(math.atan2(z, math.hypot(x, y)))
        return f"the direction of longitude {longitude:.2f}° and latitude {latitude:.2f}°"

    def lengths_in_words(self, lengths: np.ndarray) -> list[str]:
        return [f"{angle:.3g}°" for angle in np.degrees(lengths / self.radius)]

    @property
    def symmetric_space(self) -> SymmetricSpace:
        return SymmetricSpace("sphere", self.dim, self.radius**-2)

    @property
    def reach(self) -> Reach:
        return Reach(unit=self.radius, diameter=math.pi * self.radius)

    def curvature_form(self, point: Array, moment: Array) -> Array:
        return constant_form(array_namespace(point, moment), self.radius**-2, moment)

    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        xp = array_namespace(x)
        return xp.abs(length(xp, x)[..., 0] / self.radius - 1) <= atol
