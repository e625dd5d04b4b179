"""Matrix completion on the Grassmann manifold: per-user ridge regressions over sparse rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.units import Units
from skriemdp.geometry._grassmann import Grassmann

# Smallest ridge: below it, rounding in a nearly singular regression spoils the norms for clipping.
LEAST_RIDGE = 1e-6
# Stored ratings per block of users: temporaries stay in cache, and the overhead of calls is small.
BLOCK_ENTRIES = 1 << 17
# Products of pairs of columns, and which pairs they are.
Outer = tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Users:
    """The users of a CSR matrix, in tiles of about so many stored entries, at least `entries`."""

    matrix: sparse.csr_array
    entries: int = BLOCK_ENTRIES

    def __iter__(self) -> Iterator[tuple[sparse.csr_array]]:
        for block in row_blocks(self.matrix, self.entries):
            yield (block,)


@dataclass(frozen=True, eq=False)
class CompletionProblem:
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

    Notes
    -----
    One step costs O(nnz r^2 + n r^3) time and O(block + d r) memory beyond the data; no n x d
    array is formed.
    """

    matrix: sparse.csr_array
    rank: int
    ridge: float

    def __post_init__(self) -> None:
        if not self.ridge >= LEAST_RIDGE:
            raise PublicValueError(f"ridge must be at least {LEAST_RIDGE:g}, got {self.ridge!r}.")

    @property
    def geometry(self) -> Grassmann:
        """The subspaces."""
        return Grassmann(self.matrix.shape[1], self.rank)

    def units(self, batch: np.ndarray | None = None) -> Units:
        """The users, or those of a batch."""
        matrix = self.matrix if batch is None else self.matrix[batch]
        # Each tile adds a d x r (r + 1) / 2 matrix to the sum: that must not outweigh its entries.
        return Units((Users(matrix, max(BLOCK_ENTRIES, 32 * matrix.shape[1])),))

    def products(
        self, point: np.ndarray
    ) -> Callable[[sparse.csr_array], tuple[sparse.csr_array, np.ndarray]]:
        """Return a function from users' rows to factors ``R_i``, ``-v_i`` of their gradients."""
        outer = outer_products(point)

        def give(block: sparse.csr_array) -> tuple[sparse.csr_array, np.ndarray]:
            fit = LocalFit(block, point, outer, self.ridge)
            return with_data(block, fit.residuals(point)), -fit.factors

        return give

    def leave(self, point: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Coordinates of the tangent vector that a mean of outer products stands for."""
        tangent = self.geometry.projection(point, mean)
        return np.asarray(self.geometry.coordinates_from_tangent(point, tangent))

    def factors(self, point: np.ndarray) -> np.ndarray:
        """The minimisers ``v_i``, shape ``(n, rank)``: the bare regressions of a step."""
        return np.concatenate([fit.factors for fit in self._fits(point)])

    def norms(self, point: np.ndarray) -> np.ndarray:
        """``|R_i| |v_i|`` of every user, shape ``(n,)``."""
        return np.concatenate([fit.norms for fit in self._fits(point)])

    def _fits(self, point: np.ndarray) -> Iterator[LocalFit]:
        outer = outer_products(point)
        for (block,) in self.units().arrays[0]:
            yield LocalFit(block, point, outer, self.ridge)


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
        self.block, mask = block, with_data(block, np.ones_like(block.data))
        self.grams = _full(mask @ products, triangle)
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
        """Return the residual of every stored entry after the users' regressions."""
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


def normalized_rows(matrix: sparse.csr_array) -> sparse.csr_array:
    """The rows of a CSR matrix scaled to norm one; rows of zeros stay."""
    scale = 1.0 / np.maximum(np.sqrt(row_squares(matrix)), 1e-150)
    return with_data(matrix, matrix.data * np.repeat(scale, np.diff(matrix.indptr)))


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


def with_data(block: sparse.csr_array, data: np.ndarray) -> sparse.csr_array:
    """A CSR matrix with other values in the same places."""
    return sparse.csr_array((data, block.indices, block.indptr), shape=block.shape)


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
