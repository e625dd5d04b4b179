"""Matrix completion on the Grassmann manifold: per-user ridge regressions over sparse rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from skriemdp.descent.problem import Problem
from skriemdp.geometry.grassmann import Grassmann
from skriemdp.mechanisms.bounds import Ball, Bound

__all__ = [
    "LEAST_RIDGE",
    "CompletionProblem",
    "LocalFit",
    "hollow_moment",
    "normalized_blocks",
    "normalized_rows",
    "outer_products",
    "row_blocks",
    "row_squares",
]

# Below this, rounding in a nearly singular regression spoils the norms that clipping refers to.
LEAST_RIDGE = 1e-6
# Stored entries per block of users: temporaries stay in cache, calls do not count.
BLOCK_ENTRIES = 1 << 17
# Products of pairs of columns, and which pairs they are.
Outer = tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True, eq=False)
class CompletionProblem(Problem):
    """``F(W) = (1/n) sum_i min_v (|x_i - W_i v|^2 + ridge |v|^2) / 2`` on Gr(d, r).

    ``x_i`` holds the observed entries of row i and ``W_i`` the rows of W that belong to them.  With
    ``v_i`` the minimiser and ``R_i`` the residual, zero where nothing was observed, the Riemannian
    gradient is ``-(I - W W') R_i v_i'`` (Boumal and Absil 2011 for the non-private problem); its
    norm is at most ``|R_i| |v_i|``, to which clipping refers.

    Parameters
    ----------
    matrix : csr_array of shape (n, d)
        Observed entries, centred; explicit zeros are observed.
    rank : int
    ridge : float
        Penalty of a user's factors, at least `LEAST_RIDGE`.
    row_norm : float, default=inf
        Public bound of ``|x_i|``, if rows were scaled to it.  Then ``|R|^2 + ridge |v|^2 <=
        row_norm^2`` at the minimiser, hence ``|R| |v| <= row_norm^2 / (2 sqrt(ridge))`` without
        clipping.

    Notes
    -----
    One step costs O(nnz r^2 + n r^3) time and O(block + d r) memory beyond the data; no n x d
    array is formed.
    """

    matrix: sparse.csr_array
    rank: int
    ridge: float
    row_norm: float = math.inf

    def __post_init__(self) -> None:
        if not self.ridge >= LEAST_RIDGE:
            raise ValueError(f"ridge must be at least {LEAST_RIDGE:g}, got {self.ridge!r}.")

    @property
    def geometry(self) -> Grassmann:  # type: ignore[override]
        return Grassmann(self.matrix.shape[1], self.rank)

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.matrix.shape[0]

    @property
    def gradient_dim(self) -> int:
        return self.matrix.shape[1] * self.rank

    def gradient_ball(self, point: np.ndarray) -> Ball:
        return Ball(self.row_norm**2 / (2.0 * math.sqrt(self.ridge)))

    @property
    def factor_shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.matrix.shape[1], self.rank

    def gradient_factors(
        self, point: np.ndarray, indices: np.ndarray | None = None
    ) -> Iterator[tuple[sparse.csr_array, np.ndarray]]:
        outer = outer_products(point)
        for block in self.blocks(indices):
            fit = LocalFit(block, point, outer, self.ridge)
            residuals = _with_data(block, fit.residuals(point))
            lengths = np.sqrt(row_squares(residuals))
            inverse = 1.0 / np.maximum(lengths, 1e-150)
            residuals.data *= np.repeat(inverse, fit.counts)
            yield residuals, -lengths[:, None] * fit.factors

    def leave_gradients(self, point: np.ndarray, vector: np.ndarray) -> np.ndarray:
        tangent = self.geometry.projection(point, vector.reshape(point.shape))
        return np.asarray(self.geometry.coordinates_from_tangent(point, tangent))

    @property
    def longest_piece(self) -> int:
        # Blocks are cut by numbers of ratings, which are not public.
        return self.n

    def blocks(self, indices: np.ndarray | slice | None = None) -> Iterator[sparse.csr_array]:
        """CSR blocks of consecutive users (all, or the rows `indices`)."""
        matrix = self.matrix if indices is None else self.matrix[indices]
        # Each block adds a d x r (r + 1) / 2 matrix to the sum: that must not outweigh its entries.
        return row_blocks(matrix, max(BLOCK_ENTRIES, 32 * matrix.shape[1]))

    def factors(self, point: np.ndarray) -> np.ndarray:
        """The minimisers ``v_i``, shape ``(n, rank)``: the bare regressions of a step."""
        outer = outer_products(point)
        pieces = [LocalFit(b, point, outer, self.ridge).factors for b in self.blocks()]
        return np.concatenate(pieces)

    def norms(self, point: np.ndarray) -> np.ndarray:
        """``|R_i| |v_i|`` of every user, shape ``(n,)``."""
        outer = outer_products(point)
        return np.concatenate([LocalFit(b, point, outer, self.ridge).norms for b in self.blocks()])

    def gradients(self, point: np.ndarray, indices: np.ndarray | slice | None = None) -> np.ndarray:
        rows = self.gradient_coordinates(point, indices).reshape(-1, *point.shape)
        return self.geometry.projection(point, rows)

    def gradient_coordinates(
        self, point: np.ndarray, indices: np.ndarray | slice | None = None
    ) -> np.ndarray:
        outer, pieces = outer_products(point), []
        for block in self.blocks(indices):
            fit = LocalFit(block, point, outer, self.ridge)
            residuals = _with_data(block, fit.residuals(point)).toarray()
            ambient = -residuals[:, :, None] * fit.factors[:, None, :]
            pieces.append(ambient.reshape(len(residuals), -1))
        return np.concatenate(pieces)

    def gradient_sum(
        self, point: np.ndarray, bound: Bound, indices: np.ndarray | None = None
    ) -> np.ndarray:
        # What a user adds is an outer product: its norm is the product of the two lengths, of the
        # very numbers that are then multiplied.
        total, outer = np.zeros_like(point), outer_products(point)
        for block in self.blocks(indices):
            fit = LocalFit(block, point, outer, self.ridge)
            residuals = _with_data(block, fit.residuals(point))
            scaled = product_scale(residuals, fit.factors, bound.radius)[:, None] * fit.factors
            total -= residuals.T @ scaled
        return total.ravel()


class LocalFit:
    """Ridge regressions of a block of users on the rows of a subspace, and what they tell."""

    def __init__(
        self,
        block: sparse.csr_array,
        design: np.ndarray,
        outer: Outer,
        penalties: np.ndarray | float,
    ) -> None:
        products, triangle = outer
        self.block, self.mask = block, _mask(block)
        self.grams = _full(self.mask @ products, triangle)
        self.moments = block @ design
        self.refit(penalties)

    def refit(self, penalties: np.ndarray | float) -> None:
        """Regressions of the same users with other penalties; the products are kept."""
        r = self.grams.shape[1]
        self.regularized = self.grams.copy()
        self.regularized[:, np.arange(r), np.arange(r)] += penalties
        self.factors = np.linalg.solve(self.regularized, self.moments[:, :, None])[:, :, 0]

    @property
    def counts(self) -> np.ndarray:
        """Number of observed entries of each user."""
        return np.diff(self.block.indptr)

    @property
    def squares(self) -> np.ndarray:
        """Squared norm of each user's observed entries."""
        return row_squares(self.block)

    def residuals(self, design: np.ndarray) -> np.ndarray:
        """What the regressions leave of every stored entry."""
        # Factor by factor: gathering whole rows of both takes four times as long.
        block, counts, places = self.block, self.counts, self.block.indices.astype(np.intp)
        left, fitted = block.data.copy(), np.empty_like(block.data)
        for column, factor in zip(design.T.copy(), self.factors.T, strict=True):
            np.take(column, places, out=fitted, mode="clip")
            fitted *= np.repeat(factor, counts)
            left -= fitted
        return left

    @property
    def norms(self) -> np.ndarray:
        """``|R_i| |v_i|``, never smaller than the truth."""
        v, squares = self.factors, self.squares
        fitted = np.einsum("irs,is->ir", self.grams, v)
        residuals = squares + np.einsum("ir,ir->i", v, fitted - 2.0 * self.moments)
        # The difference loses digits when the fit is perfect; rounded up, it stays a bound.
        residuals = np.maximum(residuals, 0.0) + 1e-12 * squares
        return np.sqrt(residuals * np.einsum("ir,ir->i", v, v))


def product_scale(left: sparse.csr_array, right: np.ndarray, norm: float) -> np.ndarray:
    """Factors that shorten the outer products of rows to Frobenius norm `norm`; zero if not finite.

    Parameters
    ----------
    left : csr_array of shape (b, d)
    right : ndarray of shape (b, r)
    norm : float
    """
    with np.errstate(all="ignore"):
        lengths = np.sqrt(row_squares(left)) * np.sqrt(np.einsum("ir,ir->i", right, right))
        scale = norm / np.maximum(lengths, norm) if norm < math.inf else np.ones_like(lengths)
    return np.where(np.isfinite(lengths), scale, 0.0)


def normalized_rows(matrix: sparse.csr_array) -> sparse.csr_array:
    """The rows of a CSR matrix scaled to norm one; rows of zeros stay."""
    scale = 1.0 / np.maximum(np.sqrt(row_squares(matrix)), 1e-150)
    return _with_data(matrix, matrix.data * np.repeat(scale, np.diff(matrix.indptr)))


def hollow_moment(matrix: sparse.csr_array) -> np.ndarray:
    """Sum of ``z z'`` without its diagonal, z the rows scaled to norm one.

    As ``|z| <= 1``, replacing a row changes the sum by at most ``sqrt(2)`` in the Frobenius norm.
    Memory O(d^2), time O(sum of squared row lengths).
    """
    d = matrix.shape[1]
    total = np.zeros((d, d))
    for block in row_blocks(normalized_rows(matrix), entries=max(BLOCK_ENTRIES, 64 * d)):
        if block.nnz > 0.1 * block.shape[0] * d:
            dense = block.toarray()
            total += dense.T @ dense
        else:
            total += (block.T @ block).toarray()
    total[np.arange(d), np.arange(d)] = 0.0
    return total


def normalized_blocks(matrix: sparse.csr_array) -> Iterator[np.ndarray]:
    """Dense blocks of the rows of a CSR matrix scaled to norm one."""
    rows, length = normalized_rows(matrix), max(1, (1 << 22) // matrix.shape[1])
    for begin in range(0, rows.shape[0], length):
        yield rows[begin : begin + length].toarray()


def row_blocks(
    matrix: sparse.csr_array, entries: int = BLOCK_ENTRIES
) -> Iterator[sparse.csr_array]:
    """Consecutive rows of a CSR matrix with about `entries` stored entries each; shared memory."""
    n, indptr, begin = matrix.shape[0], matrix.indptr, 0
    while begin < n:
        end = int(np.searchsorted(indptr, indptr[begin] + entries, side="right")) - 1
        end = min(max(end, begin + 1), begin + entries, n)
        low, high = indptr[begin], indptr[end]
        parts = (matrix.data[low:high], matrix.indices[low:high], indptr[begin : end + 1] - low)
        yield sparse.csr_array(parts, shape=(end - begin, matrix.shape[1]))
        begin = end


def _with_data(block: sparse.csr_array, data: np.ndarray) -> sparse.csr_array:
    return sparse.csr_array((data, block.indices, block.indptr), shape=block.shape)


def _mask(block: sparse.csr_array) -> sparse.csr_array:
    return _with_data(block, np.ones_like(block.data))


def row_squares(block: sparse.csr_array) -> np.ndarray:
    """Squared norms of the rows of a CSR matrix."""
    squares, filled = np.zeros(block.shape[0]), np.flatnonzero(np.diff(block.indptr))
    if len(filled):
        squares[filled] = np.add.reduceat(block.data * block.data, block.indptr[filled])
    return squares


def outer_products(design: np.ndarray) -> Outer:
    """Upper triangles of the rows' outer products, ``(d, r (r + 1) / 2)``, and their place."""
    rows, columns = triangle = np.triu_indices(design.shape[1])
    return design[:, rows] * design[:, columns], triangle


def _full(triangles: np.ndarray, triangle: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Symmetric matrices ``(b, r, r)`` from their upper triangles."""
    rows, columns = triangle
    r = int(rows[-1]) + 1
    place = np.empty((r, r), dtype=np.intp)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    return triangles[:, place.ravel()].reshape(-1, r, r)
