"""Array libraries: the namespace and device of an array, type names, squared row lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from skriemdp._errors import PublicTypeError

if TYPE_CHECKING:
    import torch

__all__ = [
    "Array",
    "ArrayLike",
    "ManifoldLike",
    "Size",
    "array_namespace",
    "device",
    "row_squares",
    "squared_lengths",
]

# What a kernel takes and gives back: an array of NumPy, or of torch where that is installed.
Array: TypeAlias = Union[np.ndarray, "torch.Tensor"]
# The `size` of a draw, as NumPy's generators take it.
Size: TypeAlias = int | tuple[int, ...]


class _Manifold(Protocol):
    """Methods shared by geometries and pymanopt's manifolds."""

    def projection(self, point: Any, vector: Any, /) -> Any: ...


# What `manifold=` takes: a name, a geometry, or an object of pymanopt.
ManifoldLike: TypeAlias = str | _Manifold


def array_namespace(*arrays: Any) -> Any:
    """The library whose functions work on these arrays: NumPy for its own, else as they say."""
    for array in arrays:
        if type(array) is np.ndarray or isinstance(array, np.generic):
            continue
        if isinstance(array, np.ma.MaskedArray):  # NumPy's functions keep some masks, not all
            raise PublicTypeError(
                "geometries compute with arrays in which nothing is missing, got a masked one; "
                "pass array.filled(number), with a public number."
            )
        if not isinstance(array, np.ndarray):
            from array_api_compat import array_namespace

            return array_namespace(*arrays)
    return np


def device(array: Any) -> Any:
    """Device of an array."""
    if isinstance(array, (np.ndarray, np.generic)):
        return "cpu"
    from array_api_compat import device

    return device(array)


def row_squares(rows: np.ndarray) -> np.ndarray:
    """Squared lengths of rows ``(b, m)``; that of one depends on it alone, not on the layout.

    A loop over rows of three numbers spends its time between rows.
    """
    # Short rows are squared and added column by column.
    if rows.shape[1] > 8 or not rows.shape[1]:
        if rows.strides[0] < rows.strides[1]:  # columns in one piece would be added in their order
            rows = np.ascontiguousarray(rows)
        return np.einsum("ij,ij->i", rows, rows)
    with np.errstate(all="ignore"):  # as a product of arrays does; a square may overflow
        total = rows[:, 0] * rows[:, 0]
        for column in rows.T[1:]:
            total += column * column
    return total


def squared_lengths(rows: Any) -> np.ndarray:
    """:func:`row_squares`, also of CSR; exact where they are integers below ``2^53``."""
    if not issparse(rows):
        return row_squares(rows)
    if not rows.has_canonical_format:  # an entry may be stored in parts
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=float).ravel()
    squares, filled = np.zeros(rows.shape[0]), np.flatnonzero(np.diff(rows.indptr))
    if len(filled):
        squares[filled] = np.add.reduceat(rows.data * rows.data, rows.indptr[filled])
    return squares
