"""Spheres, as unit or longer vectors of the ambient Euclidean space."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from skriemdp._arrays import Array, array_namespace
from skriemdp._validation import check_count, check_generator, check_positive
from skriemdp.geometry._base import CoordinateGeometry, Embedding, Reach, SymmetricSpace
from skriemdp.geometry._columns import layout
from skriemdp.geometry._curvature import constant_form
from skriemdp.geometry._elementary import dot, length, nonzero, sinc


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
    def base_point(self) -> np.ndarray:
        point = np.zeros(self.dim + 1)
        point[0] = self.radius
        return point

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """A uniformly distributed point, ndarray, from the NumPy generator `rng`."""
        check_generator(rng)
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

    def log_coordinates(self, point: Array, other: Array) -> Array:
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

    def dist(self, point: Array, other: Array) -> Array:
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
