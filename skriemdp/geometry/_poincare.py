"""The Poincare ball: hyperbolic space as the open unit ball."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from skriemdp._arrays import Array, array_namespace
from skriemdp._validation import check_count
from skriemdp.geometry._base import CoordinateGeometry, Reach, SymmetricSpace
from skriemdp.geometry._curvature import constant_form
from skriemdp.geometry._elementary import dot, length, nonzero
from skriemdp.geometry._hyperbolic import check_negative_curvature, exponential_rounding


@dataclass(frozen=True)
class Poincare(CoordinateGeometry):
    """Hyperbolic space as the open unit ball, metric ``(2 R / (1 - |x|^2))^2 <u, v>``.

    ``R = 1 / sqrt(-curvature)`` is the curvature radius; with the default curvature -1 these are
    pymanopt's conventions (``PoincareBall(dim)``).  The ball is the unit ball for every curvature.

    Parameters
    ----------
    dim : int
        Dimension.
    curvature : float, default=-1.0
        Sectional curvature, negative.

    Notes
    -----
    All formulas are sums of terms of one sign, so no accuracy is lost beyond what the chart itself
    loses: a point at distance r R from the centre has ``1 - |x|`` about ``2 exp(-r)``, so a double
    places it within about ``1e-16 exp(r)`` (1e-8 at r = 18).  `exp` stops at ``1 - |x| = 8 eps``,
    r = 34.7 in double precision (14.6 in single).  Data further out than r = 15 belong on
    :class:`Hyperboloid`, whose normal coordinates lose nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Poincare
    >>> disk = Poincare(2)
    >>> round(float(disk.dist(np.zeros(2), np.array([0.5, 0.0]))), 6)  # log(3)
    1.098612
    """

    form = "poincare"
    remedy = (
        "they must lie inside the ball (norm below 1): scale each point outside of it to a "
        "norm of 1 - 1e-6, X * numpy.minimum(1, (1 - 1e-6) / numpy.linalg.norm(X, axis=1, "
        "keepdims=True).clip(1e-9)). Points of the hyperboloid become X[:, 1:] / (1 + X[:, "
        ":1])."
    )

    separate_rows = True

    dim: int
    curvature: float = -1.0

    def __post_init__(self) -> None:
        check_count(dim=self.dim)
        check_negative_curvature(self.curvature)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.dim,)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        if self.dim == 1:  # a line has no two-dimensional planes
            return (0.0, 0.0)
        return (float(self.curvature), float(self.curvature))

    @property
    def injectivity_radius(self) -> float:
        return math.inf

    @property
    def base_point(self) -> np.ndarray:
        return np.zeros(self.dim)

    @property
    def reach(self) -> Reach:
        return Reach(representable=(33.0 * self._scale, 13.0 * self._scale))

    @property
    def symmetric_space(self) -> SymmetricSpace:
        return SymmetricSpace("hyperbolic", self.dim, float(self.curvature))

    @property
    def _scale(self) -> float:
        """Curvature radius R."""
        return 1.0 / math.sqrt(-self.curvature)

    @staticmethod
    def _gap(xp: ModuleType, x: Array) -> Array:
        """``1 - |x|^2``, kept positive; shape ``(..., 1)``."""
        return xp.clip(1 - dot(xp, x, x), min=float(xp.finfo(x.dtype).eps))

    def _direction(self, xp: ModuleType, gap: Array, x: Array, difference: Array) -> Array:
        """Euclidean unit vector at `x` of the geodesic to ``x + difference``, zero if that is x.

        The Mobius difference of the two points is a positive multiple of
        ``(1 - |x|^2) d - |d|^2 x``, d the difference; its length is at least ``|d|^2``, so the
        subtraction cannot cancel.
        """
        size = length(xp, difference)
        moved = gap * (difference / nonzero(xp, size)) - size * x
        return moved / nonzero(xp, length(xp, moved))

    def _angle(self, xp: ModuleType, gap_x: Array, gap_y: Array, difference: Array) -> Array:
        """Distance in units of R, shape ``(..., 1)``: ``sinh^2(d/2) = |x-y|^2 / (gap gap)``."""
        return 2 * xp.asinh(length(xp, difference) / xp.sqrt(gap_x * gap_y))

    def log_coordinates(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        gap, difference = self._gap(xp, point), other - point
        angle = self._angle(xp, gap, self._gap(xp, other), difference)
        return (self._scale * angle) * self._direction(xp, gap, point, difference)

    def _walk(self, xp: ModuleType, x: Array, gap: Array, vector: Array, unit: Array) -> Array:
        """End point of the geodesic from `x` along `vector`, whose length is measured in `unit`.

        It is the Mobius sum of x and tanh(r/2) u, with numerator and denominator scaled by
        exp(-r) cosh(r/2)^2 and |x + u|^2 in place of the products that would cancel.
        """
        largest = nonzero(xp, xp.max(xp.abs(vector), axis=-1, keepdims=True))
        u = vector / largest  # squares of the entries stay in range
        size = length(xp, u)
        u, rate = u / nonzero(xp, size), size / unit
        r = rate * xp.minimum(largest, 1e4 / nonzero(xp, rate))  # further is not representable
        sine = -xp.expm1(-2 * r) / 4  # exp(-r) sinh(r) / 2
        shrink, twice = xp.exp(-r), xp.exp(-2 * r)
        chord = dot(xp, x + u, x + u)
        numerator = (twice + sine * chord) * x + (sine * gap) * (x + u)
        denominator = sine * chord + (twice * (2 - gap) + shrink * gap) / 2
        y = numerator / denominator
        longest = 1 - 8 * float(xp.finfo(y.dtype).eps)
        size = length(xp, y)
        return xp.where(size > longest, y * (longest / nonzero(xp, size)), y)

    def exp_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        return self._walk(xp, point, self._gap(xp, point), coordinates, self._scale)

    def exp(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        gap = self._gap(xp, point)
        return self._walk(xp, point, gap, tangent_vector, gap / 2)

    def dist(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        angle = self._angle(xp, self._gap(xp, point), self._gap(xp, other), other - point)
        return self._scale * angle[..., 0]

    def inner_product(
        self, point: Array, tangent_vector_a: Array, tangent_vector_b: Array
    ) -> Array:
        xp = array_namespace(point, tangent_vector_a, tangent_vector_b)
        factor = 2 * self._scale / self._gap(xp, point)[..., 0]
        return factor * factor * xp.sum(tangent_vector_a * tangent_vector_b, axis=-1)

    def projection(self, point: Array, vector: Array) -> Array:
        return vector + 0.0 * point

    def euclidean_to_riemannian_gradient(self, point: Array, euclidean_gradient: Array) -> Array:
        xp = array_namespace(point, euclidean_gradient)
        inverse_factor = self._gap(xp, point) / (2 * self._scale)
        return inverse_factor * inverse_factor * euclidean_gradient

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        # The chart is conformal, so transport is a rotation in the plane of x and y, scaled by the
        # conformal factors; it takes the geodesic's direction e at x to its direction f at y.  As
        # the product of two reflections it is exactly orthogonal, and the identity for x = y.
        xp = array_namespace(point, other, tangent_vector)
        gap_x, gap_y = self._gap(xp, point), self._gap(xp, other)
        e = self._direction(xp, gap_x, point, other - point)
        f = -self._direction(xp, gap_y, other, point - other)
        middle = e + f
        v = tangent_vector - 2 * dot(xp, e, tangent_vector) * e
        v = v - (2 * dot(xp, middle, v) / nonzero(xp, dot(xp, middle, middle))) * middle
        return (gap_y / gap_x) * v

    def tangent_from_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        return (self._gap(xp, point) / (2 * self._scale)) * coordinates

    def coordinates_from_tangent(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        return (2 * self._scale / self._gap(xp, point)) * tangent_vector

    def rounding(self, point: Array, radius: float = 0.0) -> float:
        """Coordinates grow like the exponential of the distance from the base point."""
        return exponential_rounding(self, point, radius)

    def curvature_form(self, point: Array, moment: Array) -> Array:
        return constant_form(array_namespace(point, moment), self.curvature, moment)

    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        """Strictly inside the unit ball; `atol` is not used, an open set has no near misses."""
        xp = array_namespace(x)
        return dot(xp, x, x)[..., 0] < 1

    def to_hyperboloid(self, x: Array) -> Array:
        """The points on ``Hyperboloid(dim, curvature)``; ``(..., dim)`` to ``(..., dim + 1)``."""
        xp = array_namespace(x)
        gap = self._gap(xp, x)
        return self._scale * xp.concat([(2 - gap) / gap, 2 * x / gap], axis=-1)

    def from_hyperboloid(self, x: Array) -> Array:
        """Inverse of :meth:`to_hyperboloid`; ``(..., dim+1)`` to ``(..., dim)``."""
        return x[..., 1:] / (self._scale + x[..., :1])
