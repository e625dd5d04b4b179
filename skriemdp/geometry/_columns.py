"""Arrays of records turned so that each coordinate of all records lies side by side.

A kernel over rows of three numbers spends its time between rows.  Over columns it runs at the speed
of memory, once the rows have been copied; with many coordinates rows are as fast, and nothing is
copied.  Which of the two is used depends on the number of coordinates only, and both compute each
record by itself, in an order that does not depend on the others.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from skriemdp._arrays import Array
from skriemdp.geometry._elementary import dot

# Largest number of coordinates for which column-wise sums are faster than a copy by rows.
MOST_COLUMNS = 8


def are_rows(point: Array, other: Array) -> bool:
    """Whether one point and a table of others are doubles in NumPy."""
    arrays = isinstance(point, np.ndarray) and isinstance(other, np.ndarray)
    return (
        arrays and point.ndim == 1 and other.ndim == 2 and point.dtype == other.dtype == np.float64
    )


class Rows:
    """Coordinates on the last axis, as they come."""

    axis = -1
    dot = staticmethod(dot)

    @staticmethod
    def turned(xp: ModuleType, x: Array, ndim: int) -> Array:
        return x

    @staticmethod
    def turned_back(xp: ModuleType, x: Array) -> Array:
        return x

    @staticmethod
    def split(x: Array) -> tuple[Array, Array]:
        """The first coordinate, as an axis of length one, and the others."""
        return x[..., :1], x[..., 1:]


class Columns:
    """Coordinates on the first axis."""

    axis = 0

    @staticmethod
    def dot(xp: ModuleType, a: Array, b: Array) -> Array:
        """Inner product over the first axis, kept; term by term, however many records there are."""
        products = a * b
        if products.shape[0] == 1:
            return products
        # One call then costs less than one for each coordinate.
        if isinstance(products, np.ndarray) and products.size <= 2048:
            return np.add.accumulate(products, axis=0)[-1:]  # the same sums in one call
        total = products[0, ...] + products[1, ...]
        for k in range(2, products.shape[0]):
            total += products[k, ...]
        return total[None, ...]

    @staticmethod
    def turned(xp: ModuleType, x: Array, ndim: int) -> Array:
        if x.ndim < ndim:
            x = xp.reshape(x, (*(1,) * (ndim - x.ndim), *x.shape))
        return _permuted(xp, x, (ndim - 1, *range(ndim - 1)))

    @staticmethod
    def turned_back(xp: ModuleType, x: Array) -> Array:
        return _permuted(xp, x, (*range(1, x.ndim), 0))

    @staticmethod
    def split(x: Array) -> tuple[Array, Array]:
        return x[:1, ...], x[1:, ...]


def _permuted(xp: ModuleType, x: Array, axes: tuple[int, ...]) -> Array:
    if isinstance(x, np.ndarray):
        return np.ascontiguousarray(x.transpose(axes))
    return xp.permute_dims(x, axes)


def layout(coordinates: int) -> type[Rows] | type[Columns]:
    """Return the class that lays out points of so many coordinates for the kernels."""
    return Columns if coordinates <= MOST_COLUMNS else Rows
