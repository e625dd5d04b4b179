"""Hyperbolic space in the Lorentz (hyperboloid) model."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from array_api_compat import array_namespace

from skriemdp._validation import check_count, check_positive
from skriemdp.geometry._elementary import dot, length, log_sinhc, nonzero, sinhc
from skriemdp.geometry.base import Geometry


@dataclasses.dataclass(frozen=True)
class Hyperboloid(Geometry):
    """Hyperbolic space as the upper sheet ``<x, x> = 1 / curvature`` of a hyperboloid.

    The Lorentz product is ``<x, y> = -x[0] y[0] + x[1] y[1] + ... + x[dim] y[dim]``: the time
    coordinate comes first.  A point is determined by its space coordinates ``x[1:]``; the time
    coordinate of an argument is recomputed from them, so every finite array is read as a point.

    Parameters
    ----------
    dim : int
        Dimension of the space; points have ``dim + 1`` coordinates.
    curvature : float, default=-1.0
        Sectional curvature, negative.

    Notes
    -----
    Tangent vectors in ambient coordinates grow like ``exp(distance from the base point)``, so a
    double keeps about eight digits of them at distance 17 and none at 35; `dist` and
    :meth:`log_coordinates` do not suffer from it.  `exp` shortens vectors longer than 300 (in
    units of the curvature radius; 40 in single precision), whose end points no float can hold.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Hyperboloid
    >>> space = Hyperboloid(2)
    >>> far = space.exp(space.base_point, np.array([0.0, 3.0, 4.0]))
    >>> round(float(space.dist(space.base_point, far)), 12)
    5.0
    """

    dim: int
    curvature: float = -1.0

    def __post_init__(self) -> None:
        check_count(dim=self.dim)
        check_positive(**{"-curvature": -self.curvature})

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.dim + 1,)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        if self.dim == 1:  # a line has no two-dimensional planes
            return (0.0, 0.0)
        return (float(self.curvature), float(self.curvature))

    @property
    def injectivity_radius(self) -> float:
        return math.inf

    @property
    def base_point(self):
        point = np.zeros(self.dim + 1)
        point[0] = self._scale
        return point

    @property
    def _scale(self) -> float:
        """Curvature radius R: the hyperboloid is R times the unit one."""
        return 1.0 / math.sqrt(-self.curvature)

    # The kernels work on the unit hyperboloid, on space coordinates s and time t = sqrt(1 + |s|^2).

    def _split(self, xp, point):
        space = point[..., 1:] / self._scale
        return xp.sqrt(1 + dot(xp, space, space)), space

    @staticmethod
    def _chord_squared(xp, time_x, x, time_y, y):
        """``<x - y, x - y>`` as a sum of terms of one sign, accurate for close and far points.

        Let u = x - y, s = x + y, t = time_x + time_y, and split u = u_perp + u_par along s.  From
        ``time_x - time_y = u.s / t`` and ``t^2 - |s|^2 = 4 + chord^2``,
        ``chord^2 (t^2 - |u_par|^2) = |u_perp|^2 t^2 + 4 |u_par|^2``, and ``t^2 - |u_par|^2`` equals
        ``2 (1 + time_x time_y + x.y) + |u_perp|^2``: no cancellation while x.y >= 0.  Otherwise
        ``chord^2 = 2 (time_x time_y - 1 - x.y)`` has none.
        """
        cosine = dot(xp, x, y)
        difference, total = x - y, x + y
        total_squared = nonzero(xp, dot(xp, total, total))
        along = dot(xp, difference, total)
        across = difference - total * (along / total_squared)
        across_squared = dot(xp, across, across)
        along_squared = along * along / total_squared
        time = time_x + time_y
        excess_x, excess_y = (
            dot(xp, x, x) / (1 + time_x),
            dot(xp, y, y) / (1 + time_y),
        )
        same_side = (across_squared * time * time + 4 * along_squared) / (
            2 * (1 + time_x * time_y + xp.abs(cosine)) + across_squared
        )
        opposite = 2 * (excess_x + excess_y + excess_x * excess_y + xp.abs(cosine))
        return xp.where(cosine < 0, opposite, same_side)

    @staticmethod
    def _boost(xp, time_x, x, time, space):
        """Space part of the Lorentz boost that takes the base point to `x`, applied to a vector."""
        return space + x * (time + dot(xp, x, space) / (1 + time_x))

    def log_coordinates(self, point, other):
        xp = array_namespace(point, other)
        time_x, x = self._split(xp, point)
        time_y, y = self._split(xp, other)
        angle = 2 * xp.asinh(xp.sqrt(self._chord_squared(xp, time_x, x, time_y, y)) / 2)
        # y - x boosted back to the base point; its time part is (|y|^2 - |x|^2) / (t_x + t_y).
        difference = y - x
        time = dot(xp, difference, x + y) / (time_x + time_y)
        moved = self._boost(xp, time_x, -x, time, difference)
        return moved * (self._scale * angle / nonzero(xp, length(xp, moved)))

    def exp_coordinates(self, point, coordinates):
        xp = array_namespace(point, coordinates)
        time_x, x = self._split(xp, point)
        c = coordinates / self._scale
        angle = length(xp, c)
        longest = 300.0 if xp.finfo(angle.dtype).bits == 64 else 40.0
        c = c * (xp.clip(angle, max=longest) / nonzero(xp, angle))
        angle = xp.clip(angle, max=longest)
        y = self._boost(xp, time_x, x, xp.cosh(angle), sinhc(xp, angle) * c)
        time = xp.sqrt(1 + dot(xp, y, y))
        return self._scale * xp.concat([time, y], axis=-1)

    def exp(self, point, tangent_vector):
        return self.exp_coordinates(point, self.coordinates_from_tangent(point, tangent_vector))

    def log(self, point, other):
        return self.tangent_from_coordinates(point, self.log_coordinates(point, other))

    def dist(self, point, other):
        xp = array_namespace(point, other)
        chord_squared = self._chord_squared(xp, *self._split(xp, point), *self._split(xp, other))
        return (2 * self._scale) * xp.asinh(xp.sqrt(chord_squared[..., 0]) / 2)

    def inner_product(self, point, tangent_vector_a, tangent_vector_b):
        xp = array_namespace(point, tangent_vector_a, tangent_vector_b)
        a = self.coordinates_from_tangent(point, tangent_vector_a)
        b = self.coordinates_from_tangent(point, tangent_vector_b)
        return xp.sum(a * b, axis=-1)

    def projection(self, point, vector):
        # Orthogonal in the Lorentz product, the ambient metric of this model.
        xp = array_namespace(point, vector)
        time, space = self._split(xp, point)
        x = xp.concat([time, space], axis=-1)
        product = dot(xp, space, vector[..., 1:]) - time * vector[..., :1]
        return self._tangent(xp, time, space, (vector + product * x)[..., 1:])

    def euclidean_to_riemannian_gradient(self, point, euclidean_gradient):
        # The Lorentz product turns the sign of the time derivative.
        xp = array_namespace(point, euclidean_gradient)
        head, tail = euclidean_gradient[..., :1], euclidean_gradient[..., 1:]
        return self.projection(point, xp.concat([-head, tail], axis=-1))

    @staticmethod
    def _tangent(xp, time_x, x, space):
        """Tangent vector at `x` with these space coordinates."""
        return xp.concat([dot(xp, x, space) / time_x + 0.0 * time_x, space + 0.0 * x], axis=-1)

    def transport(self, point, other, tangent_vector):
        xp = array_namespace(point, other, tangent_vector)
        time_x, x = self._split(xp, point)
        time_y, y = self._split(xp, other)
        c = self.coordinates_from_tangent(point, tangent_vector)
        # Seen from the base point, transport to p is the boost to p; then boost everything to x.
        difference = y - x
        time = dot(xp, difference, x + y) / (time_x + time_y)
        p = self._boost(xp, time_x, -x, time, difference)
        time_p = xp.sqrt(1 + dot(xp, p, p))
        zero = xp.zeros_like(time_p)
        moved = self._boost(xp, time_x, x, dot(xp, p, c), self._boost(xp, time_p, p, zero, c))
        return self._tangent(xp, time_y, y, moved)

    def tangent_from_coordinates(self, point, coordinates):
        xp = array_namespace(point, coordinates)
        time, space = self._split(xp, point)
        moved = self._boost(xp, time, space, xp.zeros_like(time), coordinates)
        return xp.concat([dot(xp, space, coordinates), moved], axis=-1)

    def coordinates_from_tangent(self, point, tangent_vector):
        xp = array_namespace(point, tangent_vector)
        time, space = self._split(xp, point)
        v = tangent_vector[..., 1:]
        return v - space * (dot(xp, space, v) / (time * (1 + time)))

    def log_volume_density(self, point, tangent_vector):
        xp = array_namespace(point, tangent_vector)
        return (self.dim - 1) * log_sinhc(xp, self.norm(point, tangent_vector) / self._scale)

    def belongs(self, x, atol=1e-6):
        # Relative to the time coordinate, whose square is what rounding perturbs.
        xp = array_namespace(x)
        time, _ = self._split(xp, x)
        error = xp.abs(x[..., 0] / self._scale - time[..., 0])
        return error <= atol * time[..., 0]
