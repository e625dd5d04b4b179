"""Geodesic balls: the public domain that a private mean projects its records to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from skriemdp._arrays import Array, array_namespace, device
from skriemdp._errors import PublicValueError
from skriemdp._validation import check_instance, check_positive
from skriemdp.geometry._base import Geometry
from skriemdp.geometry._elementary import length
from skriemdp.geometry._tiles import map_tiles, tiles


def center_reach(geometry: Geometry) -> float:
    """Return the largest distance from the base point that the centre of a ball may have.

    Hyperbolic coordinates grow like the exponential of that distance, and their rounding then acts
    on a mean like a hash of all records.
    """
    low, high = geometry.curvature_bounds
    if low == high == 0.0:
        low = high = min(0.0, getattr(geometry, "curvature", 0.0))  # a hyperbolic line
    # In curvature radii: where hyperbolic coordinates keep about eight digits.
    return 17.0 / math.sqrt(-low) if low == high < 0.0 else math.inf


def within_center_reach(geometry: Geometry, point: Array) -> bool:
    """Whether `point`, and each part of it on a product, lies within :func:`center_reach`."""
    factors = geometry.factors
    if factors:
        parts = zip(factors, geometry.split(point), strict=True)  # type: ignore[attr-defined]
        return all(within_center_reach(factor, part) for factor, part in parts)
    reach = center_reach(geometry)
    return reach == math.inf or float(geometry.dist(geometry.base_point, point)) <= reach


def descent_reach(geometry: Geometry) -> float:
    """Largest radius of a ball in which gradients are released away from the centre.

    In wider balls of negative curvature rounding moves a sum of logarithms at an iterate by more
    than a negligible part of what a record may move it by; at the centre it does not.
    """
    if geometry.factors:
        return min(descent_reach(factor) for factor in geometry.factors)
    low = geometry.curvature_bounds[0]
    if geometry.curvature_bounds == (0.0, 0.0):
        low = min(0.0, getattr(geometry, "curvature", 0.0))  # a hyperbolic line
    bounded = geometry.injectivity_radius < math.inf  # a frame cannot go far
    # Up to ten curvature radii a tangent vector at the rim keeps its digits on the way to
    # orthonormal coordinates and back (seven of SPD matrices; at 17, two).
    return math.inf if bounded or not -math.inf < low < 0.0 else 10.0 / math.sqrt(-low)


def _below(limit: float) -> float:
    """A round number below a limit."""
    return math.floor(90.0 * limit) / 100.0 or 0.9 * limit


_IF_KNOWN = (
    " Or, if you know them, pass skriemdp.geometry.PymanoptGeometry(manifold, "
    "curvature_bounds=(low, high), injectivity_radius=radius)."
)


def check_bounded(geometry: Geometry) -> None:
    """Raise where no ball has a proven sensitivity: on manifolds whose curvature nobody knows."""
    if isinstance(geometry, Geometry) and geometry.radius_limit > 0.0:
        return
    check_instance(Geometry, "skriemdp.geometry has them", geometry=geometry)
    known = _IF_KNOWN * bool(getattr(geometry, "knows_logarithms", False))
    turns = " Rotation matrices are points of manifold='rotations'." * (geometry.shape == (3, 3))
    raise PublicValueError(
        f"nothing bounds the curvature of {geometry} and how far its logarithms reach, so no "
        "sensitivity of a mean on it is proven. "
        "What works without: skriemdp.PrivateRiemannianERM(manifold, euclidean_gradient=...), "
        f"whose clipped gradients need no ball.{known}{turns}"
    )


@dataclass(frozen=True, eq=False)
class GeodesicBall:
    """Closed ball of geodesic radius `radius` around a public `center`.

    Parameters
    ----------
    geometry : Geometry
        The space.
    center : array of shape ``geometry.shape`` or None
        Public centre; None stands for ``geometry.base_point``.
    radius : float
        Geodesic radius; it must stay below ``geometry.radius_limit``.

    Raises
    ------
    ValueError
        If the radius reaches the limit, or the centre is not a point of the geometry.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Euclidean, GeodesicBall
    >>> ball = GeodesicBall(Euclidean(2), center=None, radius=1.0)
    >>> ball.project(np.array([[0.0, 0.5], [0.0, 2.0]])).round(6)
    array([[0. , 0.5],
           [0. , 1. ]])
    """

    geometry: Geometry
    center: Any
    radius: float

    def __post_init__(self) -> None:
        check_positive(radius=self.radius)
        check_bounded(self.geometry)
        limit = self.geometry.radius_limit
        if self.radius >= limit:
            raise PublicValueError(
                f"radius={self.radius} is not below {limit:.6g}, the limit on {self.geometry}: "
                "means of larger balls need not be unique and no sensitivity bound holds; "
                f"pass a smaller radius, such as {_below(limit):g}. It is a distance: an angle in "
                "radians on a sphere of radius one."
            )
        if self.center is None:
            object.__setattr__(self, "center", self.geometry.base_point)
            return
        try:
            array_namespace(self.center)
        except TypeError:
            object.__setattr__(self, "center", np.asarray(self.center, dtype=np.float64))
        if tuple(self.center.shape) != self.geometry.shape:
            raise PublicValueError(
                f"center must have shape {self.geometry.shape}, one point of {self.geometry}; "
                f"got shape {tuple(self.center.shape)}."
            )
        if not bool(self.geometry.belongs(self.center)):
            raise PublicValueError(
                f"center is not a point of {self.geometry}; project it there first."
            )
        object.__setattr__(self, "center", self.geometry.canonical(self.center))

    def _center_like(self, x: Array) -> Array:
        xp = array_namespace(x)
        return xp.asarray(self.center, dtype=x.dtype, device=device(x))

    def distances(self, x: Array) -> Array:
        """Geodesic distances from the centre; ``(...)`` for `x` of shape ``(..., *shape)``."""
        xp = array_namespace(x)
        center, shape = self._center_like(x), self.geometry.shape
        flat = xp.reshape(x, (-1, *shape))
        result = map_tiles(lambda block: self.geometry.dist(center, block), flat)
        return xp.reshape(result, tuple(x.shape[: x.ndim - len(shape)]))

    def coordinates(self, x: Array) -> Array:
        """Normal coordinates at the centre of the projections of `x`, never longer than `radius`.

        Parameters
        ----------
        x : array of shape ``(n, *shape)``

        Returns
        -------
        array of shape ``(n, dim)``
            Projecting first and taking the logarithm after would lose, in rounding, what the bound
            promises where points of the ball are nearly degenerate.
        """
        xp = array_namespace(x)
        center, target = self._center_like(x), self._target(xp, x)
        return map_tiles(lambda block: self._clip_norms(xp, center, block, target)[0], x)

    def _target(self, xp: ModuleType, x: Array) -> Array:
        """Return the length to which longer logarithms are clipped: just below the radius."""
        return self.radius * (1 - float(xp.finfo(x.dtype).eps) ** 0.75)

    def _clip_norms(
        self,
        xp: ModuleType,
        center: Array,
        block: Array,
        target: Array,
        cached_logs: Array | None = None,
    ) -> tuple[Array, Array]:
        """Normal coordinates of the projections of `block`, and which of its points lie outside.

        A logarithm that is not finite, or too long for its square, becomes zero: no record may
        spoil a sum.
        """
        coordinates = (
            self.geometry.log_coordinates(center, block) if cached_logs is None else cached_logs
        )
        norms = length(xp, coordinates)
        outside = ~(norms[..., 0] <= self.radius)
        if bool(xp.any(outside)):
            usable = xp.isfinite(norms)
            coordinates = xp.where(usable, coordinates, xp.zeros_like(coordinates))
            shortened = coordinates * (target / xp.where(norms > target, norms, target))
            coordinates = xp.where(outside[..., None], shortened, coordinates)
        return coordinates, outside

    def contains(self, x: Array) -> Array:
        """Whether each of `x` lies in the ball, a boolean array of shape ``(...)``."""
        return self.distances(x) <= self.radius

    def project(self, x: Array) -> Array:
        """`x` with the points outside moved along the geodesic to the centre, to the boundary.

        Points inside come back bit for bit.  The others land within the ball by a relative margin
        of rounding size, so projecting again changes nothing.  This is the nearest point of the
        ball, and on Hadamard manifolds the map is 1-Lipschitz.  Points so far out that their
        logarithm is not finite go to the centre.  `x` is not changed; the result may share its
        memory when every point is inside.
        """
        xp = array_namespace(x)
        flat = xp.reshape(x, (-1, *self.geometry.shape))
        points = map_tiles(lambda block: self.project_and_count(block)[0], flat)
        return xp.reshape(points, x.shape)

    def project_and_count(self, x: Array, distances: Array | None = None) -> tuple[Array, int]:
        """:meth:`project` of points ``(n, *shape)``, and how many of them lay outside.

        `distances` to the centre, of all points, are computed unless they are known already.
        """
        xp, center = array_namespace(x), self._center_like(x)
        distances = self.distances(x) if distances is None else distances
        outside = ~(distances <= self.radius)
        count = int(xp.count_nonzero(outside))
        if not count:
            return x, 0
        coordinates, _ = self._clip_norms(xp, center, x[outside], self._target(xp, x))
        points = xp.asarray(x, copy=True)
        points[outside] = self.geometry.exp_coordinates(center, coordinates)
        return points, count

    def project_with_log_sum(
        self, x: Array, cached_logs: Array | None = None
    ) -> tuple[Array, int, Array]:
        """Project `x` and sum the logarithms of the result at the centre, in one pass.

        Parameters
        ----------
        x : array of shape ``(n, *shape)``
        cached_logs : array of shape ``(n, dim)``, optional
            Normal coordinates of `x` at the centre, where they have been computed already; those of
            points outside are shortened in place, to the coordinates of the projected ones.

        Returns
        -------
        points : array of shape ``(n, *shape)``
            What :meth:`project` gives; `x` itself when every point lies inside.
        outside : int
            How many points lay outside.
        log_sum : array of shape ``(dim,)``
            Sum over the projected points of their normal coordinates at the centre, none of them
            longer than `radius`.
        """
        xp = array_namespace(x)
        center = self._center_like(x)
        target = self._target(xp, x)
        points, count, begin, total = x, 0, 0, 0.0
        for block in tiles(x):
            computed = (
                None if cached_logs is None else cached_logs[begin : begin + block.shape[0], ...]
            )
            coordinates, outside = self._clip_norms(xp, center, block, target, computed)
            if bool(xp.any(outside)):
                moved = xp.asarray(block, copy=True)
                moved[outside] = self.geometry.exp_coordinates(center, coordinates[outside])
                if computed is not None:
                    computed[outside] = coordinates[outside]
                if points is x:
                    points = xp.asarray(x, copy=True)
                points[begin : begin + block.shape[0], ...] = moved
                count += int(xp.count_nonzero(outside))
            total = total + xp.sum(coordinates, axis=0)
            begin += block.shape[0]
        return points, count, total
