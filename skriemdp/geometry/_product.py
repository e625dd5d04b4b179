"""Products of geometries, with points stored as one flat vector."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from skriemdp._arrays import Array, array_namespace
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp.geometry._base import Geometry


@dataclass(frozen=True, init=False, repr=False)
class Product(Geometry):
    """The Riemannian product of geometries.

    A point is the concatenation of the factors' points, each flattened in C order, so data stay one
    array of shape ``(n, sum of sizes)``; :meth:`join` and :meth:`split` convert.  Costs and
    gradients of your own get the tuple of the parts of a point.

    Parameters
    ----------
    *factors : Geometry
        At least one.
    stacked : bool, default=False
        For copies of one geometry: a point is then an array ``(len(factors), *factor.shape)``.

    Notes
    -----
    Squared distances add.  A plane that mixes factors has a curvature between zero and the
    factors', so the curvature bounds are those of the factors extended to contain zero.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Circle, Euclidean, Product
    >>> cylinder = Product(Euclidean(2), Circle(24.0))
    >>> x = cylinder.join(np.zeros((5, 2)), np.full((5, 1), 23.0))
    >>> x.shape
    (5, 3)
    >>> float(cylinder.dist(x[0], np.array([3.0, 0.0, 3.0])))
    5.0
    """

    form = "product"
    remedy = (
        "look at each part: manifold.split(X) gives them, and manifold.join(*parts) puts them "
        "side by side again."
    )

    factors: tuple[Geometry, ...]
    stacked: bool = False

    def __init__(self, *factors: Geometry, stacked: bool = False) -> None:
        if not factors:
            raise PublicValueError("Product needs at least one geometry.")
        for factor in factors:
            if not isinstance(factor, Geometry):
                shape = ", point_shape" if isinstance(factor, str) else ""
                raise PublicTypeError(
                    f"Product needs geometries, got {factor!r}; convert each factor first by "
                    f"skriemdp.geometry.as_geometry(factor{shape})."
                )
        if stacked and any(factor != factors[0] for factor in factors):
            raise PublicValueError("stacked=True is for copies of one geometry; leave it out.")
        object.__setattr__(self, "factors", tuple(factors))
        object.__setattr__(self, "stacked", bool(stacked))

    def __repr__(self) -> str:
        listed = ", ".join(map(repr, self.factors))
        return f"Product({listed}{', stacked=True' if self.stacked else ''})"

    @property
    def shape(self) -> tuple[int, ...]:
        if self.stacked:
            return (len(self.factors), *self.factors[0].shape)
        return (sum(self._sizes),)

    @property
    def separate_rows(self) -> bool:  # type: ignore[override]
        return all(factor.separate_rows for factor in self.factors)

    @property
    def dim(self) -> int:
        return sum(factor.dim for factor in self.factors)

    @property
    def _sizes(self) -> list[int]:
        return [math.prod(factor.shape) for factor in self.factors]

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        if len(self.factors) == 1:
            return self.factors[0].curvature_bounds
        low, high = zip(*(factor.curvature_bounds for factor in self.factors), strict=True)
        return (min(0.0, *low), max(0.0, *high))

    @property
    def injectivity_radius(self) -> float:
        return min(factor.injectivity_radius for factor in self.factors)

    @property
    def base_point(self) -> np.ndarray:
        return np.asarray(self.join(*(factor.base_point for factor in self.factors)))

    # -- points as tuples of the factors' points ------------------------------------------------

    def join(self, *parts: Array) -> Array:
        """One flat array ``(..., sum of sizes)`` from one array per factor (points or vectors)."""
        if len(parts) != len(self.factors):
            raise PublicValueError(f"join needs {len(self.factors)} arrays, one per factor.")
        xp = array_namespace(*parts)
        flat = []
        for factor, part in zip(self.factors, parts, strict=True):
            batch = tuple(part.shape[: part.ndim - factor.point_ndim])
            if tuple(part.shape[len(batch) :]) != factor.shape:
                raise PublicValueError(
                    f"{factor} holds points of shape {factor.shape}, got {tuple(part.shape)}."
                )
            flat.append(xp.reshape(part, (*batch, math.prod(factor.shape))))
        joined = _concat(xp, flat)
        return xp.reshape(joined, (*joined.shape[:-1], *self.shape)) if self.stacked else joined

    def split(self, x: Array) -> tuple[Array, ...]:
        """The factors' parts of `x`, a tuple of arrays ``(..., *factor.shape)``."""
        xp = array_namespace(x)
        batch = tuple(x.shape[: x.ndim - self.point_ndim])
        x = xp.reshape(x, (*batch, sum(self._sizes)))
        stops = list(itertools.accumulate(self._sizes))
        return tuple(
            xp.reshape(x[..., stop - size : stop], batch + factor.shape)
            for factor, size, stop in zip(self.factors, self._sizes, stops, strict=True)
        )

    def as_parts(self, point: Any) -> Any:
        if self.stacked:
            return point
        stops = itertools.accumulate(self._sizes)
        return tuple(
            factor.as_parts(point[stop - size : stop].reshape(factor.shape))
            for factor, size, stop in zip(self.factors, self._sizes, stops, strict=True)
        )

    def from_parts(self, parts: Any, tangent: bool = False) -> np.ndarray:
        if self.stacked or not isinstance(parts, (list, tuple)):
            return super().from_parts(parts, tangent)
        if len(parts) != len(self.factors):
            raise PublicValueError(
                f"{len(self.factors)} arrays are asked for, one for each factor."
            )
        pairs = zip(self.factors, parts, strict=True)
        return np.asarray(self.join(*(one.from_parts(part, tangent) for one, part in pairs)))

    def _split_coordinates(self, coordinates: Array) -> tuple[Array, ...]:
        stops = itertools.accumulate(factor.dim for factor in self.factors)
        return tuple(
            coordinates[..., stop - factor.dim : stop]
            for factor, stop in zip(self.factors, stops, strict=True)
        )

    def _each(self, method: str, *arguments: Any) -> list[Any]:
        """The result of a method for every factor; the arguments are tuples, one item a factor."""
        return [
            getattr(factor, method)(*items)
            for factor, *items in zip(self.factors, *arguments, strict=True)
        ]

    def _points(self, method: str, *arrays: Array) -> Array:
        return self.join(*self._each(method, *map(self.split, arrays)))

    def _numbers(self, method: str, *arrays: Array) -> list[Array]:
        return self._each(method, *map(self.split, arrays))

    # -- the geometry ---------------------------------------------------------------------------

    def exp(self, point: Array, tangent_vector: Array) -> Array:
        return self._points("exp", point, tangent_vector)

    def log(self, point: Array, other: Array) -> Array:
        return self._points("log", point, other)

    def retraction(self, point: Array, tangent_vector: Array) -> Array:
        return self._points("retraction", point, tangent_vector)

    def projection(self, point: Array, vector: Array) -> Array:
        return self._points("projection", point, vector)

    def euclidean_to_riemannian_gradient(self, point: Array, euclidean_gradient: Array) -> Array:
        return self._points("euclidean_to_riemannian_gradient", point, euclidean_gradient)

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        return self._points("transport", point, other, tangent_vector)

    def inner_product(
        self, point: Array, tangent_vector_a: Array, tangent_vector_b: Array
    ) -> Array:
        return sum(self._numbers("inner_product", point, tangent_vector_a, tangent_vector_b))

    def dist(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        return xp.sqrt(sum(d * d for d in self._numbers("dist", point, other)))

    def curvature_form(self, point: Array, moment: Array) -> Array:
        # R(x, u) u has no part in one factor that comes from another: blocks on the diagonal.
        xp = array_namespace(point, moment)
        rows, start = [], 0
        for factor, part in zip(self.factors, self.split(point), strict=True):
            stop = start + factor.dim
            block = factor.curvature_form(part, moment[..., start:stop, start:stop])
            before = xp.zeros_like(moment[..., start:stop, :start])
            after = xp.zeros_like(moment[..., start:stop, stop:])
            rows.append(xp.concat([before, block, after], axis=-1))
            start = stop
        return xp.concat(rows, axis=-2)

    def tangent_from_coordinates(self, point: Array, coordinates: Array) -> Array:
        parts = self._split_coordinates(coordinates)
        return self.join(*self._each("tangent_from_coordinates", self.split(point), parts))

    def coordinates_from_tangent(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        return _concat(xp, self._numbers("coordinates_from_tangent", point, tangent_vector))

    def log_coordinates(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        return _concat(xp, self._numbers("log_coordinates", point, other))

    def exp_coordinates(self, point: Array, coordinates: Array) -> Array:
        parts = self._split_coordinates(coordinates)
        return self.join(*self._each("exp_coordinates", self.split(point), parts))

    def canonical(self, x: Array) -> Array:
        return self._points("canonical", x)

    def rounding(self, point: Array, radius: float = 0.0) -> float:
        parts = zip(self.factors, self.split(np.asarray(point, dtype=float)), strict=True)
        return math.hypot(*(factor.rounding(part, radius) for factor, part in parts))

    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        xp = array_namespace(x)
        inside = xp.stack(
            [
                factor.belongs(part, atol)
                for factor, part in zip(self.factors, self.split(x), strict=True)
            ]
        )
        return xp.all(inside, axis=0)


def _concat(xp: ModuleType, parts: Iterable[Array]) -> Array:
    """Concatenation over the last axis of arrays whose batch axes broadcast."""
    batch = np.broadcast_shapes(*(tuple(part.shape[:-1]) for part in parts))
    return xp.concat([xp.broadcast_to(part, (*batch, part.shape[-1])) for part in parts], axis=-1)
