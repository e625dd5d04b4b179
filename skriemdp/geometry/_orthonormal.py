"""Matrices with orthonormal columns: frames of the complement, nearest ones, Haar sampling.

The frame.  For X in R^(n x p) with orthonormal columns let X1 be its upper square block, O the
orthogonal polar factor of X1 and E the first p columns of the identity.  With ``F = X + E O`` and
``K = (I + O' X1)^-1``, the block reflector ``H = I - F K F'`` is orthogonal and symmetric, and
``H X = -E O`` because ``F' X = I + O' X1`` (X' X = I).  Its last n - p columns are therefore an
orthonormal basis of the complement of the columns of X, a function of X alone.  ``O' X1`` is
positive semidefinite, so ``I + O' X1`` has eigenvalues in [1, 2]: nothing is ever ill-conditioned,
and no n x n matrix is formed.
"""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from skriemdp._arrays import Array, device
from skriemdp._validation import check_generator
from skriemdp.geometry._base import Embedding
from skriemdp.geometry._elementary import nonzero
from skriemdp.geometry._symmetric import conjugated


def frobenius_product(xp: ModuleType, a: Array, b: Array) -> Array:
    """Sum of products of the entries of matrices ``(..., n, p)``; no array of products is made."""
    size = a.shape[-2] * a.shape[-1]
    a, b = (xp.reshape(x, (*x.shape[:-2], size)) for x in (a, b))
    return xp.vecdot(a, b, axis=-1)


def t(xp: ModuleType, matrix: Array) -> Array:
    return xp.matrix_transpose(matrix)


def skew(xp: ModuleType, matrix: Array) -> Array:
    return (matrix - t(xp, matrix)) / 2


def frobenius(xp: ModuleType, matrix: Array) -> Array:
    """Frobenius norm over the last two axes."""
    return xp.sqrt(xp.sum(matrix * matrix, axis=(-2, -1)))


def svd(xp: ModuleType, matrix: Array) -> tuple[Array, Array, Array]:
    """Thin decomposition; infinite entries count as NaN: with them LAPACK may never return."""
    matrix = xp.where(xp.isfinite(matrix), matrix, xp.nan)
    left, values, right = xp.linalg.svd(matrix, full_matrices=False)
    return left, values, right


class Complement:
    """The orthonormal basis ``X_perp`` of the complement of the columns of X, never formed."""

    def __init__(self, xp: ModuleType, x: Array):
        p = x.shape[-1]
        self.xp, self.x, self.p = xp, x, p
        left, values, right = svd(xp, x[..., :p, :])
        self.rotation = left @ right
        self.gain = conjugated(xp, t(xp, right), 1 / (1 + values))

    def expand(self, coordinates: Array) -> Array:
        """``X_perp @ coordinates``; (..., n-p, k) to (..., n, k)."""
        xp, x, p = self.xp, self.x, self.p
        mixed = self.gain @ (t(xp, x[..., p:, :]) @ coordinates)
        top = -((x[..., :p, :] + self.rotation) @ mixed)
        return xp.concat([top, coordinates - x[..., p:, :] @ mixed], axis=-2)

    def coordinates(self, vectors: Array) -> Array:
        """``X_perp' @ vectors``; (..., n, k) to (..., n-p, k)."""
        xp, x, p = self.xp, self.x, self.p
        inner = t(xp, x) @ vectors + t(xp, self.rotation) @ vectors[..., :p, :]
        return vectors[..., p:, :] - x[..., p:, :] @ (self.gain @ inner)


def has_steady_complement(x: np.ndarray) -> bool:
    """Whether the upper square block of x is far from singular: else rounding turns the basis."""
    return bool(np.linalg.norm(x[: x.shape[-1]], -2) >= 1e-6)  # the least singular value


def polished(xp: ModuleType, x: Array) -> Array:
    """One Newton-Schulz step to the nearest matrix with orthonormal columns; for x close to it."""
    gram = t(xp, x) @ x
    identity = xp.eye(x.shape[-1], dtype=x.dtype, device=device(x))
    return x + x @ (identity - gram) / 2


def q_factor(xp: ModuleType, matrix: Array) -> Array:
    """Q of the QR decomposition whose R has a nonnegative diagonal; continuous at full rank."""
    q, r = xp.linalg.qr(matrix, mode="reduced")
    diagonal = xp.linalg.diagonal(r)
    sign = xp.where(diagonal < 0, -xp.ones_like(diagonal), xp.ones_like(diagonal))
    return q * sign[..., None, :]


def uniform(rng: np.random.Generator, n: int, p: int) -> Array:
    """A NumPy (n, p) matrix with orthonormal columns, uniform (Haar), from a NumPy generator."""
    check_generator(rng)
    q, r = np.linalg.qr(rng.standard_normal((n, p)))
    return q * np.where(np.diagonal(r) < 0, -1.0, 1.0)


def has_orthonormal_columns(xp: ModuleType, x: Array, atol: float) -> Array:
    """Whether the columns are orthonormal, entries of the Gram matrix within `atol`."""
    identity = xp.eye(x.shape[-1], dtype=x.dtype, device=device(x))
    gap = xp.abs(t(xp, x) @ x - identity)
    return xp.max(gap, axis=(-2, -1)) <= atol


def unit_columns_angle(xp: ModuleType, sines: Array, cosines: Array) -> tuple[Array, Array]:
    """Angles in [0, pi/2] and the factors angle / sine (one at zero)."""
    angles = xp.atan2(sines, cosines)
    return angles, xp.where(sines == 0, xp.ones_like(sines), angles / nonzero(xp, sines))


# ---- skew matrices -------------------------------------------------------------------------------


def skew_coordinates(xp: ModuleType, matrix: Array) -> Array:
    """Frobenius-orthonormal coordinates of skew matrices: sqrt(2) times the lower triangle."""
    p = matrix.shape[-1]
    rows, columns = np.tril_indices(p, -1)
    flat = xp.reshape(matrix, (*matrix.shape[:-2], p * p))
    index = xp.asarray(rows * p + columns, dtype=xp.int64, device=device(matrix))
    return math.sqrt(2.0) * xp.take(flat, index, axis=-1)


def skew_from_coordinates(xp: ModuleType, coordinates: Array, p: int) -> Array:
    """Inverse of :func:`skew_coordinates`."""
    rows, columns = np.tril_indices(p, -1)
    basis = np.zeros((rows.size, p * p))
    basis[np.arange(rows.size), rows * p + columns] = math.sqrt(0.5)
    basis[np.arange(rows.size), columns * p + rows] = -math.sqrt(0.5)
    basis = xp.asarray(basis, dtype=coordinates.dtype, device=device(coordinates))
    return xp.reshape(coordinates @ basis, (*coordinates.shape[:-1], p, p))


def orthonormal_embedding(shape: tuple[int, ...]) -> Embedding:
    """Matrices with orthonormal columns as the vectors of their entries; square ones: rotations."""

    def nearest(mean: np.ndarray) -> np.ndarray:
        left, _, right = np.linalg.svd(mean.reshape(shape), full_matrices=False)
        if shape[0] == shape[1] and np.linalg.det(left @ right) < 0.0:
            left[:, -1] *= -1.0  # the nearest rotation
        return left @ right

    size = math.prod(shape)
    return Embedding(lambda x: x.reshape(len(x), size), nearest, size, math.sqrt(shape[1]))
