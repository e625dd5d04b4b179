"""Hyperbolic space in the Lorentz (hyperboloid) model."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from skriemdp._arrays import Array, array_namespace, row_squares
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._validation import check_count, shown
from skriemdp.geometry._base import CoordinateGeometry, Reach, SymmetricSpace
from skriemdp.geometry._columns import MOST_COLUMNS, Columns, Rows, are_rows, layout
from skriemdp.geometry._curvature import constant_form
from skriemdp.geometry._elementary import dot, length, nonzero, sinhc
from skriemdp.geometry._tiles import tiles

if TYPE_CHECKING:
    from skriemdp.geometry._poincare import Poincare


# The fast sum of clipped logarithms applies where the centre's squared space coordinates, the
# radius of the ball and the coordinates in radii are at most these: elsewhere differences of
# coordinates lose digits.
_FAR_SPACE, _WIDE, _MANY = 64.0, 4.0, 32.0


def check_negative_curvature(curvature: float) -> None:
    """Raise unless `curvature` is a finite negative number."""
    if not isinstance(curvature, numbers.Real) or isinstance(curvature, bool):
        raise PublicTypeError(f"curvature must be a negative real number, got {shown(curvature)}.")
    if not -1e100 <= curvature <= -1e-100:  # type: ignore[operator]
        raise PublicValueError(
            f"curvature must be a negative number in [-1e100, -1e-100], got {shown(curvature)}."
        )


def exponential_rounding(geometry: Hyperboloid | Poincare, point: Array, radius: float) -> float:
    """``R exp(d / R)`` for the largest distance d from the base point within `radius` of `point`.

    R is the curvature radius.
    """
    scale = 1.0 / math.sqrt(-geometry.curvature)
    point = np.asarray(point, dtype=float)
    reach = float(geometry.dist(geometry.base_point, point)) + radius
    return scale * math.exp(min(reach / scale, 700.0))


@dataclass(frozen=True)
class Hyperboloid(CoordinateGeometry):
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

    form = "hyperboloid"
    remedy = (
        "the time coordinate comes first, numpy.roll(X, 1, axis=1) where it is last, and "
        "follows from the others: numpy.c_[numpy.sqrt(1 + (X[:, 1:] ** 2).sum(axis=1)), X[:, "
        "1:]]. Points of the ball are read by manifold='poincare'."
    )

    separate_rows = True

    dim: int
    curvature: float = -1.0

    def __post_init__(self) -> None:
        check_count(dim=self.dim)
        check_negative_curvature(self.curvature)

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
    def base_point(self) -> np.ndarray:
        point = np.zeros(self.dim + 1)
        point[0] = self._scale
        return point

    @property
    def reach(self) -> Reach:
        return Reach(representable=(300.0 * self._scale, 40.0 * self._scale))

    @property
    def symmetric_space(self) -> SymmetricSpace:
        return SymmetricSpace("hyperbolic", self.dim, float(self.curvature))

    @property
    def _scale(self) -> float:
        """Curvature radius R: the hyperboloid is R times the unit one."""
        return 1.0 / math.sqrt(-self.curvature)

    # The kernels work on the unit hyperboloid, on space coordinates s and time t = sqrt(1 + |s|^2).

    def _split(self, xp: ModuleType, point: Array) -> tuple[Array, Array]:
        space = point[..., 1:] / self._scale
        return xp.sqrt(1 + dot(xp, space, space)), space

    # Everything is split at x into the radial direction x / |x| and the rest.  A boost by x leaves
    # the rest alone and maps the radial part q_r of a point q = (q_0, q_r, q_rest) to
    # x_0 q_r +- |x| q_0.  Where these two cancel, the conjugate form has no cancellation:
    #     ((q_r - |x|) (q_r + |x|) - |x|^2 |q_rest|^2) / (x_0 q_r -+ |x| q_0),
    # because x_0^2 = 1 + |x|^2 and q_0^2 = 1 + q_r^2 + |q_rest|^2.  It is divided by x_0 q_0 so
    # that nothing overflows before distances of about 350.

    @staticmethod
    def _radial(
        xp: ModuleType, x: Array, form: type[Rows] | type[Columns] = Rows
    ) -> tuple[Array, Array]:
        radius = xp.sqrt(form.dot(xp, x, x))
        return radius, x / nonzero(xp, radius)

    def _seen_from(
        self,
        xp: ModuleType,
        time_x: Array,
        x: Array,
        time_y: Array,
        y: Array,
        form: type[Rows] | type[Columns] = Rows,
    ) -> Array:
        """Space part of y after the boost that takes x to the base point; length sinh(dist)."""
        radius, direction = self._radial(xp, x, form)
        difference = y - x
        gain = form.dot(xp, direction, difference)
        rest = difference - gain * direction
        y_radial = form.dot(xp, direction, y)
        rest_length = xp.sqrt(form.dot(xp, rest, rest))
        slope_x, slope_y = radius / time_x, y_radial / time_y
        opposed = time_x * y_radial - radius * time_y
        fall = slope_x * (radius * rest_length) * (rest_length / time_y)
        aligned = gain / time_y * ((y_radial + radius) / time_x) - fall
        aligned = aligned / nonzero(xp, slope_y + slope_x)
        return rest + xp.where(y_radial > 0, aligned, opposed) * direction

    def _carried_to(self, xp: ModuleType, time_x: Array, x: Array, q: Array) -> Array:
        """Space part of the point with space part q after the boost that takes the base to x."""
        radius, direction = self._radial(xp, x)
        time_q = xp.sqrt(1 + dot(xp, q, q))
        q_radial = dot(xp, direction, q)
        rest = q - q_radial * direction
        rest_length = length(xp, rest)
        slope_x, slope_q = radius / time_x, q_radial / time_q
        aligned = time_x * q_radial + radius * time_q
        rise = slope_x * (radius * rest_length) * (rest_length / time_q)
        opposed = (radius - q_radial) / time_x * ((radius + q_radial) / time_q) + rise
        opposed = opposed / nonzero(xp, slope_x - slope_q)
        return rest + xp.where(q_radial < 0, opposed, aligned) * direction

    def log_coordinates(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        form, ndim = layout(self.dim), max(point.ndim, other.ndim)
        parts = []
        for ends in (point, other):
            space = form.turned(xp, ends[..., 1:], ndim)
            if self.curvature != -1:
                space = space / self._scale
            parts += [xp.sqrt(1 + form.dot(xp, space, space)), space]
        time_x, x, time_y, y = parts
        seen = self._seen_from(xp, time_x, x, time_y, y, form)
        size = xp.sqrt(form.dot(xp, seen, seen))
        return form.turned_back(xp, seen * (self._scale * xp.asinh(size) / nonzero(xp, size)))

    def exp_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        c = coordinates / self._scale
        size = length(xp, c)
        longest = 300.0 if xp.finfo(size.dtype).bits == 64 else 40.0
        shortened = xp.clip(size, max=longest)
        q = sinhc(xp, shortened) * (shortened / nonzero(xp, size)) * c
        y = self._carried_to(xp, *self._split(xp, point), q)
        time = xp.sqrt(1 + dot(xp, y, y))
        return self._scale * xp.concat([time, y], axis=-1)

    def squares(self, others: np.ndarray) -> np.ndarray:
        return row_squares(others[:, 1:])

    def bounded_log_sum(
        self,
        point: np.ndarray,
        others: np.ndarray,
        radius: float,
        center: np.ndarray,
        squares: np.ndarray | None = None,
    ) -> np.ndarray | None:
        scale = self._scale
        x, c, bound = point[1:] / scale, center / scale, radius / scale
        square, offset = float(x @ x), float(c @ c)
        if not (square <= _FAR_SPACE and bound <= _WIDE and offset <= (_MANY * bound) ** 2):
            return None
        total = None
        if square <= bound * bound:
            known = self.squares(others) if squares is None else squares
            total = self._bounded_sum(x, others, bound, c, known)
        if total is None:
            total = self._bounded_sum(x, others, bound, c)
        return None if total is None else scale * total

    def _bounded_sum(
        self,
        x: np.ndarray,
        others: np.ndarray,
        bound: float,
        c: np.ndarray,
        squares: np.ndarray | None = None,
    ) -> np.ndarray | None:
        """:meth:`bounded_log_sum` on the unit hyperboloid, of space coordinates.

        By differences unless the `squares` are given.

        Notes
        -----
        With x and y the space coordinates of the iterate and a record, ``D = y - x``, ``g = <x,
        D>`` and ``e = |D|^2``, the time coordinates differ by ``h = (2 g + e) / (t_x + t_y)``, the
        distance d follows from ``q = e - h^2 = 4 sinh^2(d / 2)``, and the logarithm's orthonormal
        coordinates are ``w (D - a x)``, ``w = d / sinh d``, ``a = q / (2 t_x) + g / (t_x (1 +
        t_x))``.  In the ball of radius r about c the record adds ``f (w (D - a x) - c)``, ``f = r /
        max(r, sqrt(p))``, p being ``w^2 (e - 2 a g + a^2 |x|^2) - 2 w (<D, c> - a <x, c>) +
        |c|^2`` as it was computed.  So the sum is one product of weights and D.

        *Rounding.*  In real arithmetic on the computed D, w, a and f this p is exactly the squared
        length of what is bounded: only the inner products and a dozen roundings are off, together
        by at most ``(3 m + 20) u (w |D| + w |a| |x| + |c|)^2``, m the number of coordinates and
        ``u = 2^-53``.  If ``w |D| + w |a| |x| <= 32 r`` and ``|c| <= 32 r`` for every record, none
        adds more than ``r (1 + 2048 (3 m + 20) u)``; else there is no answer, and logarithms are
        formed.  The mean loses at most 64 r machine epsilons (q loses more, so ``|x| <= 8`` and ``r
        <= 4``).  Where ``|x| <= r`` the same is computed first with ``D = y`` and ``1 + a`` for a:
        the bracket is again the squared length of what is added.
        """
        square, offset, along = float(x @ x), float(c @ c), float(x @ c)
        time, length_x, scale = math.sqrt(1.0 + square), math.sqrt(square), self._scale
        both = np.stack([x, c], axis=1)
        whole = np.concatenate([np.zeros((1, 2)), both / scale])
        total, shift, shares, done = np.zeros_like(x), 0.0, 0.0, 0
        with np.errstate(all="ignore"):
            for block in tiles(others, 1 if squares is None else 4):
                if squares is None:
                    space = block[:, 1:]
                    D = (space if scale == 1.0 else space / scale) - x
                    inner_x, inner_c = np.ascontiguousarray((D @ both).T)
                    norms = row_squares(D)
                    g, e, before = inner_x, norms, 0.0
                else:
                    D = block
                    inner_x, inner_c = np.ascontiguousarray((block @ whole).T)
                    norms = squares[done : done + len(block)] * (1.0 / (scale * scale))
                    g, e, before = inner_x - square, norms - 2.0 * inner_x + square, 1.0
                change = 2.0 * g + e
                rise = change / (np.sqrt(time * time + change) + time)
                # 1e-300 stands for the q of a record at the point itself.
                q = np.maximum(e - rise * rise, 1e-300)  # 4 sinh(distance / 2)^2
                weight = 2.0 * np.arcsinh(0.5 * np.sqrt(q)) / np.sqrt(q * (1.0 + 0.25 * q))
                a = (0.5 * q + g / (1.0 + time)) / time + before
                size = weight * (np.sqrt(norms) + np.abs(a) * length_x)
                if not size.max(initial=0.0) <= _MANY * bound:  # or NaN
                    return None
                inner = weight * weight * (norms - 2.0 * a * inner_x + a * a * square)
                inner += offset - 2.0 * weight * (inner_c - a * along)
                share = bound / np.sqrt(np.maximum(inner, bound * bound))
                weight *= share
                added = weight @ D
                total += added if squares is None else added[1:] / scale
                done += len(block)
                shift += float(weight @ a)
                shares += float(share.sum())
        return total - shift * x - shares * c

    @property
    def quick_distances(self) -> bool:
        return self.dim >= MOST_COLUMNS

    def dist(self, point: Array, other: Array) -> Array:
        if self.quick_distances and are_rows(point, other):
            return self._dist_by_products(point, other)
        return self._dist_by_differences(point, other)

    def _dist_by_products(self, point: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Distances of rows of many numbers; those that would lose digits by differences."""
        scale = self._scale
        x, space = point[1:] / scale, others[:, 1:]
        square = float(x @ x)
        with np.errstate(all="ignore"):
            inner = np.einsum("ij,j->i", space, x / scale)
            norms = np.einsum("ij,ij->i", space, space) / (scale * scale)
            rise = (norms - square) / (np.sqrt(1.0 + norms) + math.sqrt(1.0 + square))
            q = norms - 2.0 * inner + square - rise * rise  # 4 sinh(distance / 2)^2
            distances = 2.0 * scale * np.arcsinh(0.5 * np.sqrt(q))
            # Too close, or too far off: q is a small part of the sum of the squares of coordinates.
            sizes = norms + (1.0 + square)
            lost = ~((q > 0.04 * sizes) & (sizes < _FAR_SPACE))
        if lost.any():
            distances[lost] = self._dist_by_differences(point, others[lost])
        return distances

    def _dist_by_differences(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        # Seen from the point nearer to the base point: most accurate, and exactly symmetric.
        time_x, x = self._split(xp, point)
        time_y, y = self._split(xp, other)
        swap = time_x > time_y
        near, far = xp.where(swap, y, x), xp.where(swap, x, y)
        seen = self._seen_from(
            xp, xp.minimum(time_x, time_y), near, xp.maximum(time_x, time_y), far
        )
        return self._scale * xp.asinh(length(xp, seen))[..., 0]

    def projection(self, point: Array, vector: Array) -> Array:
        # Orthogonal in the Lorentz product, the ambient metric of this model.
        xp = array_namespace(point, vector)
        time, space = self._split(xp, point)
        x = xp.concat([time, space], axis=-1)
        product = dot(xp, space, vector[..., 1:]) - time * vector[..., :1]
        return self._tangent(xp, time, space, (vector + product * x)[..., 1:])

    def euclidean_to_riemannian_gradient(self, point: Array, euclidean_gradient: Array) -> Array:
        # The Lorentz product turns the sign of the time derivative.
        xp = array_namespace(point, euclidean_gradient)
        head, tail = euclidean_gradient[..., :1], euclidean_gradient[..., 1:]
        return self.projection(point, xp.concat([-head, tail], axis=-1))

    @staticmethod
    def _tangent(xp: ModuleType, time_x: Array, x: Array, space: Array) -> Array:
        """Tangent vector at `x` with these space coordinates."""
        return xp.concat([dot(xp, x, space) / time_x + 0.0 * time_x, space + 0.0 * x], axis=-1)

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        # The boosts to x and then to p compose to the boost to y and a rotation, and transport is
        # that rotation of the coordinates.  In the plane of X = tanh(a/2), P = tanh(b/2) exp(i t),
        # half-tangents of the two rapidities, it turns by twice the argument of 1 + X conj(P).
        xp = array_namespace(point, other, tangent_vector)
        time_x, x = self._split(xp, point)
        p = self._seen_from(xp, time_x, x, *self._split(xp, other))
        radius, first = self._radial(xp, x)
        half_x = radius / (1 + time_x)
        half_p = p / (1 + xp.sqrt(1 + dot(xp, p, p)))
        along = dot(xp, first, half_p)
        across, second = self._radial(xp, half_p - along * first)
        real, imaginary = 1 + half_x * along, -half_x * across
        squared = nonzero(xp, real * real + imaginary * imaginary)
        c = self.coordinates_from_tangent(point, tangent_vector)
        c_first, c_second = dot(xp, first, c), dot(xp, second, c)
        cosine_minus_one = -2 * imaginary * imaginary / squared
        sine = 2 * real * imaginary / squared
        turned = (
            c
            + (cosine_minus_one * c_first - sine * c_second) * first
            + (cosine_minus_one * c_second + sine * c_first) * second
        )
        return self.tangent_from_coordinates(other, turned)

    def tangent_from_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        time, space = self._split(xp, point)
        along = dot(xp, space, coordinates)
        return xp.concat([along, coordinates + space * (along / (1 + time))], axis=-1)

    def coordinates_from_tangent(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        time, space = self._split(xp, point)
        v = tangent_vector[..., 1:]
        return v - space * (dot(xp, space, v) / (time * (1 + time)))

    def rounding(self, point: Array, radius: float = 0.0) -> float:
        """Coordinates grow like the exponential of the distance from the base point."""
        return exponential_rounding(self, point, radius)

    def curvature_form(self, point: Array, moment: Array) -> Array:
        return constant_form(array_namespace(point, moment), self.curvature, moment)

    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        # Relative to the time coordinate, whose square is what rounding perturbs.
        xp = array_namespace(x)
        time, _ = self._split(xp, x)
        error = xp.abs(x[..., 0] / self._scale - time[..., 0])
        return (error <= atol * time[..., 0]) & xp.isfinite(time[..., 0])
