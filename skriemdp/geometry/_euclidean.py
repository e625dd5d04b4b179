"""Euclidean space of vectors, matrices or tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skriemdp._arrays import Array, array_namespace
from skriemdp._errors import PublicValueError
from skriemdp._validation import check_count
from skriemdp.geometry._base import Geometry


@dataclass(frozen=True, init=False, repr=False)
class Euclidean(Geometry):
    """Arrays of one shape with the Frobenius inner product; flat.

    Parameters
    ----------
    *shape : int
        Shape of one point: ``Euclidean(5)`` holds vectors, ``Euclidean(2, 3)`` matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Euclidean
    >>> float(Euclidean(2).dist(np.array([0.0, 0.0]), np.array([3.0, 4.0])))
    5.0
    """

    separate_rows = True

    shape: tuple[int, ...]

    def __init__(self, *shape: int) -> None:
        if not shape:
            raise PublicValueError(
                "Euclidean needs the shape of a point, for example Euclidean(3)."
            )
        for length in shape:
            check_count(shape=length)
        object.__setattr__(self, "shape", tuple(int(length) for length in shape))

    def __repr__(self) -> str:
        return f"Euclidean({', '.join(map(str, self.shape))})"

    @property
    def dim(self) -> int:
        return math.prod(self.shape)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (0.0, 0.0)

    @property
    def injectivity_radius(self) -> float:
        return math.inf

    @property
    def base_point(self) -> np.ndarray:
        return np.zeros(self.shape)

    @property
    def _axes(self) -> tuple[int, ...]:
        return tuple(range(-len(self.shape), 0))

    def _at(self, point: Array, vector: Array) -> Array:
        """`vector`, broadcast against the batch axes of `point`."""
        return vector if point.ndim <= len(self.shape) else point * 0.0 + vector

    def exp(self, point: Array, tangent_vector: Array) -> Array:
        return point + tangent_vector

    def log(self, point: Array, other: Array) -> Array:
        return other - point

    def inner_product(
        self, point: Array, tangent_vector_a: Array, tangent_vector_b: Array
    ) -> Array:
        xp = array_namespace(tangent_vector_a, tangent_vector_b)
        return xp.sum(tangent_vector_a * tangent_vector_b, axis=self._axes)

    def projection(self, point: Array, vector: Array) -> Array:
        return self._at(point, vector)

    def euclidean_to_riemannian_gradient(self, point: Array, euclidean_gradient: Array) -> Array:
        return self.projection(point, euclidean_gradient)

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        return self._at(other, self._at(point, tangent_vector))

    def tangent_from_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(coordinates)
        batch = tuple(coordinates.shape[:-1])
        return self._at(point, xp.reshape(coordinates, batch + self.shape))

    def coordinates_from_tangent(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(tangent_vector)
        vector = self._at(point, tangent_vector)
        batch = tuple(vector.shape[: vector.ndim - len(self.shape)])
        return xp.reshape(vector, (*batch, self.dim))

    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        xp = array_namespace(x)
        return xp.all(xp.isfinite(x), axis=self._axes)
