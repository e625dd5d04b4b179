"""Functions of batched symmetric matrices, in closed form for 2x2.

A symmetric matrix is read from its lower triangle, as LAPACK does.
"""

from __future__ import annotations

import functools
import math
from types import ModuleType
from typing import Any

import numpy as np

from skriemdp._arrays import Array, device
from skriemdp.geometry._elementary import nonzero

# ---- orthonormal coordinates -----------------------------------------------------------------


def pack(xp: ModuleType, matrix: Array) -> Array:
    """Coordinates of symmetric matrices in a Frobenius-orthonormal basis, ``(..., m (m+1) / 2)``.

    Diagonal entries first, then sqrt(2) times the lower triangle, row by row.
    """
    size = matrix.shape[-1]
    flat = xp.reshape(matrix, (*matrix.shape[:-2], size * size))
    index, weight = _packing(size)
    taken = xp.take(flat, _constant(xp, index, matrix), axis=-1)
    return taken * _constant(xp, weight, matrix, matrix.dtype)


def unpack(xp: ModuleType, coordinates: Array, size: int) -> Array:
    """Symmetric matrices with these coordinates; inverse of :func:`pack`."""
    index, weight = _unpacking(size)
    taken = xp.take(coordinates, _constant(xp, index, coordinates), axis=-1)
    flat = taken * _constant(xp, weight, coordinates, coordinates.dtype)
    return xp.reshape(flat, (*coordinates.shape[:-1], size, size))


@functools.lru_cache(maxsize=64)
def _packing(size: int) -> tuple[Array, Array]:
    rows, columns = np.tril_indices(size, -1)
    diagonal = np.arange(size) * (size + 1)
    index = np.concatenate([diagonal, rows * size + columns])
    weight = np.concatenate([np.ones(size), np.full(rows.size, math.sqrt(2.0))])
    return _frozen(index), _frozen(weight)


@functools.lru_cache(maxsize=64)
def _unpacking(size: int) -> tuple[Array, Array]:
    rows, columns = np.tril_indices(size, -1)
    position = np.zeros((size, size), dtype=np.int64)
    position[np.arange(size), np.arange(size)] = np.arange(size)
    position[rows, columns] = position[columns, rows] = size + np.arange(rows.size)
    weight = np.full((size, size), math.sqrt(0.5))
    np.fill_diagonal(weight, 1.0)
    return _frozen(position.ravel()), _frozen(weight.ravel())


def _frozen(table: Array) -> Array:
    """A table that every call shares, so nobody may write into it."""
    table.flags.writeable = False
    return table


def _constant(xp: ModuleType, values: Array, like: Array, dtype: Any = None) -> Array:
    if isinstance(like, np.ndarray) and (dtype is None or dtype == values.dtype):
        return values
    # A copy, because a shared table must not become somebody's writeable tensor.
    return xp.asarray(
        values.copy(), dtype=dtype if dtype is not None else xp.int64, device=device(like)
    )


# ---- products --------------------------------------------------------------------------------


def transposed(xp: ModuleType, matrix: Array) -> Array:
    return xp.matrix_transpose(matrix)


def symmetrized(xp: ModuleType, matrix: Array) -> Array:
    return (matrix + xp.matrix_transpose(matrix)) / 2


def congruence(xp: ModuleType, factor: Array, matrix: Array) -> Array:
    """``factor @ matrix @ factor.T`` for symmetric `matrix`; both batched.

    One factor for many 2x2 matrices becomes a few sums of their entries.
    """
    if factor.ndim > 2 or matrix.ndim == 2 or factor.shape[-1] != 2:
        if factor.ndim > 2:
            factor, matrix = laid_out(factor), laid_out(matrix)
        return factor @ matrix @ xp.matrix_transpose(factor)
    (p, q), (s, t) = ((factor[i, 0], factor[i, 1]) for i in range(2))
    a, b, c = entries(matrix)
    side = (p * s) * a + (p * t + q * s) * b + (q * t) * c
    first, last = ((u * u) * a + (2 * u * v) * b + (v * v) * c for u, v in ((p, q), (s, t)))
    return assembled(xp, first, side, last)


def laid_out(matrices: Array) -> Array:
    """Matrices row by row in memory: old versions of NumPy multiply others in another order."""
    return np.ascontiguousarray(matrices) if isinstance(matrices, np.ndarray) else matrices


def conjugated(xp: ModuleType, vectors: Array, values: Array) -> Array:
    """``vectors @ diag(values) @ vectors.T``."""
    return (vectors * values[..., None, :]) @ xp.matrix_transpose(vectors)


# ---- spectra ---------------------------------------------------------------------------------


def floored(xp: ModuleType, eigenvalues: Array) -> Array:
    """Eigenvalues that rounding made zero or negative, raised to machine epsilon of the largest.

    They come in ascending order.  Positive ones are left alone, however small: a graded matrix such
    as diag(1, 1e-200) is exact.
    """
    if isinstance(eigenvalues, np.ndarray) and (eigenvalues[..., 0] > 0).all():
        return eigenvalues
    largest = xp.max(eigenvalues, axis=-1, keepdims=True)
    lowest = xp.finfo(eigenvalues.dtype).eps * largest
    return xp.where(eigenvalues > 0, eigenvalues, lowest + 0.0 * eigenvalues)


def entries(matrix: Array) -> tuple[Array, Array, Array]:
    """The three entries (0,0), (1,0), (1,1) of 2x2 symmetric matrices."""
    return matrix[..., 0, 0], matrix[..., 1, 0], matrix[..., 1, 1]


def assembled(xp: ModuleType, a: Array, b: Array, c: Array) -> Array:
    """2x2 symmetric matrices from their entries."""
    return xp.reshape(side_by_side(xp, a, b, b, c), (*a.shape, 2, 2))


def side_by_side(xp: ModuleType, *columns: Array) -> Array:
    """The columns on a last axis; each of them stays in one piece of memory."""
    stacked = xp.stack(columns, axis=0)
    return stacked.T if stacked.ndim == 2 else xp.moveaxis(stacked, 0, -1)


def log_parts(xp: ModuleType, a: Array, b: Array, c: Array) -> tuple[Array, Array, Array, Array]:
    """Logarithm of 2x2 SPD matrices as ``mean I + [[x, y], [y, -x]]``: (mean, x, y, half gap).

    The eigenvalues of the logarithm are mean +- half gap.  With the trace scaled to one, so that
    no product overflows, and h half the eigenvalue gap, the larger eigenvalue is l1 = 1/2 + h, the
    smaller one det / l1 (no cancellation of the trace), and half the gap of the logarithms is
    log1p(2 h / l2) / 2, accurate for equal and for very different eigenvalues alike.
    """
    trace, a, b, c, determinant = _unit_trace(xp, a, b, c)
    x = (a - c) / 2
    h = xp.sqrt(x * x + b * b)
    half_gap = xp.log1p(2 * h * (0.5 + h) / determinant) / 2
    ratio = half_gap / nonzero(xp, h)
    return xp.log(determinant) / 2 + xp.log(trace), ratio * x, ratio * b, half_gap


def _unit_trace(
    xp: ModuleType, a: Array, b: Array, c: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """The trace of 2x2 SPD matrices, their entries over it, and the determinant of those.

    A determinant that rounding made zero or negative is that of a smaller eigenvalue of machine
    epsilon times the larger one.
    """
    trace = a + c
    a, b, c = a / trace, b / trace, c / trace
    determinant = a * c - b * b
    positive = determinant > 0
    if not (isinstance(positive, np.ndarray) and positive.all()):
        larger = 0.5 + xp.sqrt(((a - c) / 2) ** 2 + b * b)
        determinant = xp.where(positive, determinant, xp.finfo(a.dtype).eps * larger * larger)
    return trace, a, b, c, determinant


def logm(xp: ModuleType, matrix: Array) -> Array:
    """Logarithm of SPD matrices."""
    if matrix.shape[-1] == 2:
        mean, x, y, _ = log_parts(xp, *entries(matrix))
        return assembled(xp, mean + x, y, mean - x)
    values, vectors = eigh(xp, matrix)
    return conjugated(xp, vectors, xp.log(floored(xp, values)))


def packed_logm(xp: ModuleType, matrix: Array) -> Array:
    """Coordinates of the logarithm, as :func:`pack` gives them."""
    if matrix.shape[-1] == 2:
        mean, x, y, _ = log_parts(xp, *entries(matrix))
        return side_by_side(xp, mean + x, mean - x, y * math.sqrt(2.0))
    return pack(xp, logm(xp, matrix))


def log_eigenvalues(xp: ModuleType, matrix: Array) -> Array:
    """Logarithms of the eigenvalues of SPD matrices, shape ``(..., m)``."""
    if matrix.shape[-1] == 2:
        mean, _, _, half_gap = log_parts(xp, *entries(matrix))
        return side_by_side(xp, mean - half_gap, mean + half_gap)
    usable, matrix = _finite(xp, matrix)
    values = xp.linalg.eigvalsh(matrix)
    return xp.log(floored(xp, _unless(xp, usable, values)))


def log_determinant(matrix: np.ndarray) -> np.ndarray:
    """Logarithms of the determinants of SPD matrices, shape ``(...)``; by their LU factors.

    Each matrix by itself; by its eigenvalues, as :func:`log_eigenvalues` reads them, where rounding
    left no positive determinant.
    """
    if matrix.shape[-1] == 2:
        trace, _, _, _, determinant = _unit_trace(np, *entries(matrix))
        return np.log(determinant) + 2.0 * np.log(trace)
    with np.errstate(all="ignore"):
        sign, logarithm = np.linalg.slogdet(matrix)
    lost = ~((sign > 0) & np.isfinite(logarithm))
    if lost.any():
        logarithm = np.asarray(logarithm)
        logarithm[lost] = log_eigenvalues(np, matrix[lost]).sum(axis=-1)
    return logarithm


def expm(xp: ModuleType, matrix: Array) -> Array:
    """Exponential of symmetric matrices, positive definite in floating point as well.

    Eigenvalues are cut to +-300 in the logarithm (+-40 in single precision), and no eigenvalue is
    smaller than 4 m machine epsilons of the largest: a float matrix cannot hold a smaller one
    reliably.
    """
    dtype = xp.finfo(matrix.dtype)
    longest = 300.0 if dtype.bits == 64 else 40.0
    values, vectors = eigh(xp, matrix)
    values = xp.clip(values, min=-longest, max=longest)
    spread = -math.log(4 * matrix.shape[-1] * float(dtype.eps))
    lowest = xp.max(values, axis=-1, keepdims=True) - spread
    values = xp.where(values < lowest, lowest + 0.0 * values, values)
    return symmetrized(xp, conjugated(xp, vectors, xp.exp(values)))


def sqrtm(xp: ModuleType, matrix: Array) -> Array:
    """Square root of SPD matrices."""
    if matrix.shape[-1] == 2:
        # Cayley and Hamilton: (S + sqrt(det) I) / sqrt(trace + 2 sqrt(det)), det from S / trace.
        a, b, c = entries(matrix)
        trace = a + c
        determinant = (a / trace) * (c / trace) - (b / trace) ** 2
        floor = xp.finfo(a.dtype).eps + 0.0 * trace
        root = trace * xp.sqrt(xp.where(determinant > 0, determinant, floor))
        scale = 1 / xp.sqrt(trace + 2 * root)
        return assembled(xp, (a + root) * scale, b * scale, (c + root) * scale)
    values, vectors = eigh(xp, matrix)
    return conjugated(xp, vectors, xp.sqrt(floored(xp, values)))


def _finite(xp: ModuleType, matrix: Array) -> tuple[None, Array]:
    """Return a mask of finite matrices (None: all), and the batch with identities elsewhere."""
    if bool(xp.isfinite(xp.sum(matrix))):
        return None, matrix
    usable = xp.all(xp.isfinite(matrix), axis=(-2, -1))
    unit = xp.eye(matrix.shape[-1], dtype=matrix.dtype, device=device(matrix))
    return usable, xp.where(usable[..., None, None], matrix, unit)


def _unless(xp: ModuleType, usable: Array | None, values: Array) -> Array:
    if usable is None:
        return values
    return xp.where(usable[..., None], values, xp.full_like(values, math.nan))


def eigh(xp: ModuleType, matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues in ascending order and orthonormal eigenvectors of symmetric matrices.

    NaN for the eigenvalues of matrices that are not finite, where LAPACK would raise an error: one
    record of a batch must not be able to do that.
    """
    if matrix.shape[-1] != 2:
        usable, matrix = _finite(xp, matrix)
        values, vectors = xp.linalg.eigh(matrix)
        return _unless(xp, usable, values), vectors
    a, b, c = entries(matrix)
    x, mean = (a - c) / 2, (a + c) / 2
    # Scaled so that the squares of a tiny deviation from a multiple of I do not underflow.
    scale = nonzero(xp, xp.maximum(xp.abs(x), xp.abs(b)))
    u, v = x / scale, b / scale
    root = xp.sqrt(u * u + v * v)
    h = scale * root
    # The eigenvector of mean + h is (u + root, v) or (v, root - u): the one without cancellation.
    sign = xp.where(v < 0, -xp.ones_like(v), xp.ones_like(v))
    first = xp.where(u >= 0, u + root, xp.abs(v))
    second = xp.where(u >= 0, v, sign * (root - u))
    norm = xp.sqrt(first * first + second * second)
    first = xp.where(norm == 0, xp.ones_like(first), first / nonzero(xp, norm))
    second = second / nonzero(xp, norm)
    vectors = xp.stack([-second, first, first, second], axis=-1)
    # The eigenvalue of larger modulus by a sum of one sign, the other one from the determinant.
    larger = mean + xp.where(mean < 0, -h, h)
    divisor = nonzero(xp, larger)
    smaller = (a / divisor) * c - (b / divisor) * b
    values = xp.stack([xp.minimum(smaller, larger), xp.maximum(smaller, larger)], axis=-1)
    return values, xp.reshape(vectors, (*a.shape, 2, 2))


def smallest_eigenvalue(xp: ModuleType, matrix: Array) -> Array:
    """Smallest eigenvalues, shape ``(...)``, as :func:`eigh` gives them, without eigenvectors."""
    if matrix.shape[-1] != 2:
        return xp.min(eigh(xp, matrix)[0], axis=-1)
    a, b, c = entries(matrix)
    x, mean = (a - c) / 2, (a + c) / 2
    scale = nonzero(xp, xp.maximum(xp.abs(x), xp.abs(b)))
    h = scale * xp.sqrt((x / scale) ** 2 + (b / scale) ** 2)
    larger = mean + xp.where(mean < 0, -h, h)
    divisor = nonzero(xp, larger)
    return xp.minimum((a / divisor) * c - (b / divisor) * b, larger)
