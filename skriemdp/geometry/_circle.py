"""Circles of any length, as one coordinate that wraps around."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skriemdp._arrays import Array, array_namespace
from skriemdp._validation import check_positive
from skriemdp.geometry._base import Embedding, Geometry, Reach, SymmetricSpace


@dataclass(frozen=True)
class Circle(Geometry):
    """The circle of circumference `length`, as arc length modulo `length`.

    A point is an array of shape (1,), any finite number: ``x`` and ``x + length`` are the same
    point.  Methods return the representative in ``[0, length)``.  ``Circle(2 * math.pi)`` holds
    angles, ``Circle(24)`` hours of the day, ``Circle(1)`` phases.

    Parameters
    ----------
    length : float
        Circumference, in the units of the data.

    Notes
    -----
    Antipodes have two shortest geodesics; `log` returns the one it meets, of length
    ``length / 2``.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Circle
    >>> Circle(24.0).log(np.array([23.0]), np.array([1.5]))
    array([2.5])
    """

    form = "circle"

    separate_rows = True

    length: float

    def __post_init__(self) -> None:
        check_positive(length=self.length)

    @property
    def turn(self) -> float:  # type: ignore[override]  # read-only here
        return self.length

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,)

    @property
    def dim(self) -> int:
        return 1

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (0.0, 0.0)

    @property
    def injectivity_radius(self) -> float:
        return self.length / 2

    @property
    def base_point(self) -> np.ndarray:
        return np.zeros(1)

    def exp(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        wrapped = xp.remainder(point + tangent_vector, self.length + 0.0 * point)
        # The remainder of a tiny negative number rounds to the length itself.
        return xp.where(wrapped >= self.length, xp.zeros_like(wrapped), wrapped)

    def log(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        difference = other - point
        return difference - self.length * xp.round(difference / self.length)

    def inner_product(
        self, point: Array, tangent_vector_a: Array, tangent_vector_b: Array
    ) -> Array:
        return (tangent_vector_a * tangent_vector_b + 0.0 * point)[..., 0]

    def projection(self, point: Array, vector: Array) -> Array:
        return vector + 0.0 * point

    euclidean_to_riemannian_gradient = projection  # type: ignore[assignment]  # only the names of arguments differ
    tangent_from_coordinates = projection  # type: ignore[assignment]  # only the names of arguments differ
    coordinates_from_tangent = projection  # type: ignore[assignment]  # only the names of arguments differ

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        return tangent_vector + 0.0 * point + 0.0 * other

    @property
    def embedding(self) -> Embedding:
        def give(points: np.ndarray) -> np.ndarray:
            angles = points[:, 0] * (2.0 * math.pi / self.length)
            return np.stack([np.cos(angles), np.sin(angles)], axis=1)

        def nearest(mean: np.ndarray) -> np.ndarray:
            turn = math.atan2(mean[1], mean[0]) % (2.0 * math.pi)
            return np.array([turn * (self.length / (2.0 * math.pi))])

        return Embedding(give, nearest, 2, on_sphere=True)

    @property
    def symmetric_space(self) -> SymmetricSpace:
        return SymmetricSpace("sphere", 1, (2.0 * math.pi / self.length) ** 2)

    @property
    def reach(self) -> Reach:
        unit = self.length / (2.0 * math.pi)
        return Reach(unit=unit, diameter=math.pi * unit)

    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        return array_namespace(x).isfinite(x)[..., 0]
