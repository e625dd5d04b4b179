"""Curvature forms: what the curvature tensor makes of a second moment.

For a symmetric matrix ``M = sum_k l_k u_k u_k'`` in orthonormal coordinates, the curvature form is
the symmetric matrix ``K(M) = sum_k l_k R(., u_k) u_k``, linear in M; ``x' K(y y') x`` is the
sectional curvature of the plane of orthonormal x and y.
"""

from __future__ import annotations

from types import ModuleType

from skriemdp._arrays import Array, device
from skriemdp.geometry._symmetric import unpack


def constant_form(xp: ModuleType, curvature: float, moment: Array) -> Array:
    """``curvature (tr(M) I - M)``: constant sectional curvature."""
    unit = xp.eye(moment.shape[-1], dtype=moment.dtype, device=device(moment))
    trace = xp.sum(xp.linalg.diagonal(moment), axis=-1)[..., None, None]
    return curvature * (trace * unit - moment)


def symmetric_form(xp: ModuleType, moment: Array, size: int) -> Array:
    """Curvature form of symmetric matrices, ``R(X, Y) Y = -[[X, Y], Y] / 4``; packed coordinates.

    ``[[X, Y], Y] = X Y^2 - 2 Y X Y + Y^2 X``.
    """
    dim = moment.shape[-1]
    eye = xp.eye(dim, dtype=moment.dtype, device=device(moment))
    basis = xp.reshape(unpack(xp, eye, size), (dim, size * size))
    tensor = _four(xp, xp.matrix_transpose(basis) @ moment @ basis, size, size)
    squares = _contracted(xp, tensor, (0, 3, 1, 2))
    operator = (
        _left(xp, squares, size)
        + _right(xp, squares, size)
        - 2 * _flat(xp, _permuted(xp, tensor, (0, 3, 1, 2)))
    )
    return -(basis @ operator @ xp.matrix_transpose(basis)) / 4


def grassmann_form(xp: ModuleType, moment: Array, rows: int, columns: int) -> Array:
    """Curvature form of ``rows x columns`` blocks, ``R(X, Y) Y = X Y'Y + Y Y'X - 2 Y X'Y``."""
    tensor = _four(xp, moment, rows, columns)
    left = _left(xp, _contracted(xp, tensor, (0, 2, 1, 3)), columns)
    right = _right(xp, _contracted(xp, tensor, (1, 3, 0, 2)), rows)
    return left + right - 2 * _flat(xp, _permuted(xp, tensor, (0, 3, 2, 1)))


def _four(xp: ModuleType, matrix: Array, rows: int, columns: int) -> Array:
    """The entries ``sum_k l_k U_k[a, b] U_k[c, d]`` of a second moment of flattened matrices."""
    return xp.reshape(matrix, (*matrix.shape[:-2], rows, columns, rows, columns))


def _permuted(xp: ModuleType, tensor: Array, axes: tuple[int, ...]) -> Array:
    batch = tensor.ndim - 4
    return xp.permute_dims(tensor, (*range(batch), *(batch + axis for axis in axes)))


def _contracted(xp: ModuleType, tensor: Array, axes: tuple[int, ...]) -> Array:
    """The first two of `axes` stay, the sum runs over the diagonal of the last two."""
    return xp.sum(xp.linalg.diagonal(_permuted(xp, tensor, axes)), axis=-1)


def _flat(xp: ModuleType, tensor: Array) -> Array:
    """The operator ``X -> sum_cd T[a, b, c, d] X[c, d]`` as a square matrix."""
    a, b, c, d = tensor.shape[-4:]
    return xp.reshape(tensor, (*tensor.shape[:-4], a * b, c * d))


def _left(xp: ModuleType, factor: Array, columns: int) -> Array:
    """``X -> factor @ X``."""
    unit = xp.eye(columns, dtype=factor.dtype, device=device(factor))
    return _flat(xp, factor[..., :, None, :, None] * unit[:, None, :])


def _right(xp: ModuleType, factor: Array, rows: int) -> Array:
    """``X -> X @ factor`` for symmetric `factor`."""
    unit = xp.eye(rows, dtype=factor.dtype, device=device(factor))
    return _flat(xp, unit[:, None, :, None] * factor[..., None, :, None, :])
