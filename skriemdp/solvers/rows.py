"""Rows of a table, dense, sparse or streamed: sums over centred and clipped rows, tile by tile."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from skriemdp._random import data_digest

__all__ = ["Rows", "clip_weights", "open_rows", "rows_digest"]

# A tile and its centred copy stay in the second-level cache, and BLAS still runs at full speed
# (benchmarks/pca.py --only speed).
_TILE_BYTES = 1 << 19
_EPSILON = np.finfo(float).eps


class Rows:
    """Records ``x_i`` in R^d, and the sums over clipped, centred records that private PCA needs.

    With ``z_i = x_i - center`` and a weight per record, the sums are computed tile by tile, so
    memory beyond the records stays at a few tiles, the result and, for records in memory, one
    number per record.

    Parameters
    ----------
    chunks : ndarray, memory map, CSR matrix, or re-iterable of such
        Each of shape ``(b, d)``.  An iterable is read anew for every sum.
    n, d : int
        Numbers of rows and columns in all.

    Attributes
    ----------
    streamed : bool
        Whether `chunks` is an iterable rather than one table in memory or mapped to it.
    """

    def __init__(self, chunks, n: int, d: int):
        self.chunks, self.n, self.d = chunks, n, d
        self.streamed = not hasattr(chunks, "shape")
        self._norms: tuple[bytes, np.ndarray] | None = None
        self._plain_norms: np.ndarray | None = None

    def arrays(self):
        """The chunks, one after the other."""
        return iter(self.chunks) if self.streamed else iter((self.chunks,))

    def _pieces(self):
        begin = 0
        rows = max(1, _TILE_BYTES // (8 * self.d))
        for chunk in self.arrays():
            if sparse.issparse(chunk):
                chunk = chunk.tocsr()
                rows = max(rows, 1 << 14)
            elif not hasattr(chunk, "shape"):
                chunk = np.asarray(chunk)
            for start in range(0, chunk.shape[0], rows):
                piece = chunk[start : start + rows]
                stop = begin + piece.shape[0]
                yield slice(begin, stop), piece
                begin = stop

    def tiles(self, center):
        """Pairs (slice of record numbers, centred tile)."""
        for where, piece in self._pieces():
            yield where, _tile(piece, center)

    def squared_norms(self, center):
        """``|z_i|^2``, rounded up, one array per tile; infinite where it overflows.

        Kept for the last centre when the records are in memory.
        """
        if self.streamed:
            for _, tile in self.tiles(center):
                yield tile.squared_norms
            return
        key = np.asarray(center).tobytes()
        if self._norms is None or self._norms[0] != key:
            self._norms = (key, self._all_squared_norms(np.asarray(center)))
        yield self._norms[1]

    def _all_squared_norms(self, center):
        if self._plain_norms is None:
            zero = np.zeros(self.d)
            self._plain_norms = np.concatenate([tile.squared_norms for _, tile in self.tiles(zero)])
        if not center.any():
            return self._plain_norms
        with np.errstate(all="ignore"):
            along = np.concatenate([_matrix(piece) @ center for _, piece in self._pieces()])
            return _expanded(self._plain_norms, along, float(center @ center), self.d)

    def select(self, indices, center, radius):
        """Records by slice or index array, centred and scaled to norm <= `radius`; dense."""
        if self.streamed:
            raise TypeError("single records of a stream cannot be selected; pass one table.")
        chosen = self.chunks if indices is None else self.chunks[indices]
        if sparse.issparse(chosen):
            chosen = chosen.toarray()
        tile = _DenseTile(chosen, center)
        return tile.scaled(clip_weights(tile.squared_norms, radius))

    def paired_cosines(self, center, most: int):
        """Sum of ``cos^2`` of the angle between z_i and z_j over disjoint pairs, and their number.

        Pairs are chosen by position, at most `most` of them where the records are in memory.
        """
        total, pairs = 0.0, 0
        for first, second in self._pairs(center, most):
            squares = first.squared_norms * second.squared_norms
            with np.errstate(all="ignore"):
                cosines = first.inner_products(second) ** 2 / squares
            usable = np.isfinite(cosines)
            total += float(np.minimum(cosines[usable], 1.0).sum())
            pairs += len(cosines)
        return total, pairs

    def _pairs(self, center, most):
        if self.streamed:
            for _, piece in self._pieces():
                if (half := piece.shape[0] // 2) > 0:
                    yield _tile(piece[:half], center), _tile(piece[half : 2 * half], center)
            return
        half = self.n // 2
        stride = max(1, half // most)
        rows = max(1, _TILE_BYTES // (8 * self.d))
        for start in range(0, min(most * stride, half), rows * stride):
            stop = min(start + rows * stride, most * stride, half)
            first = self.chunks[start:stop:stride]
            second = self.chunks[half + start : half + stop : stride]
            yield _tile(first, center), _tile(second, center)

    # -- sums -------------------------------------------------------------------------------------

    def _weighted(self, center, radius):
        norms = iter(self.squared_norms(center))
        whole = None if self.streamed else next(norms)
        for where, tile in self.tiles(center):
            squares = tile.squared_norms if whole is None else whole[where]
            yield tile, squares, clip_weights(squares, radius)

    def clipped_sum(self, center, radius):
        """Sum of the z_i, each scaled to norm <= `radius`, shape ``(d,)``."""
        total = np.zeros(self.d)
        for tile, _, weights in self._weighted(center, radius):
            total += tile.weighted_sum(weights)
        return total

    def clipped_gram(self, center, radius):
        """Sum of ``z_i z_i'``, each z_i scaled to norm <= `radius`, shape ``(d, d)``."""
        total = np.zeros((self.d, self.d))
        for tile, _, weights in self._weighted(center, radius):
            total += tile.gram(weights)
        return total

    def clipped_product(self, center, radius, frame, bound=math.inf):
        """Sum of ``z_i z_i' W``, with z_i scaled to norm <= `radius` and each term to <= `bound`.

        `frame` is W, shape ``(d, k)`` with orthonormal columns; the norm of a term is Frobenius.
        """
        total = np.zeros(frame.shape)
        for tile, squares, weights in self._weighted(center, radius):
            projections = tile.product(frame) * weights[:, None]
            if bound < math.inf:
                norms = np.minimum(squares, radius * radius) * _row_squares(projections)
                projections *= clip_weights(norms, bound)[:, None]
            total += tile.back(projections * weights[:, None])
        return total

    def product_norms(self, center, radius, frame):
        """Squared norms ``|z_i|^2 |W' z_i|^2`` of the terms of :meth:`clipped_product`, by tile."""
        for tile, squares, weights in self._weighted(center, radius):
            projections = tile.product(frame) * weights[:, None]
            yield np.minimum(squares, radius * radius) * _row_squares(projections)

    def clipped_projected_gram(self, center, radius, frame):
        """Sums of ``W' z_i z_i' W`` and of ``|z_i|^2``, each z_i scaled to norm <= `radius`."""
        k = frame.shape[1]
        gram, total = np.zeros((k, k)), 0.0
        for tile, squares, weights in self._weighted(center, radius):
            projections = tile.product(frame) * weights[:, None]
            gram += projections.T @ projections
            total += float(np.minimum(squares, radius * radius).sum())
        return gram, total


def clip_weights(squared_norms, bound):
    """Factors that scale vectors of these squared norms to norm <= `bound`; 0 for infinite ones."""
    weights = np.ones_like(squared_norms)
    outside = np.flatnonzero(~(squared_norms <= bound * bound))
    with np.errstate(all="ignore"):
        shrunk = bound / np.sqrt(squared_norms[outside])
    weights[outside] = np.where(np.isfinite(squared_norms[outside]), shrunk, 0.0)
    return weights


def _row_squares(matrix):
    return np.einsum("ij,ij->i", matrix, matrix)


def _matrix(piece):
    return piece if sparse.issparse(piece) else np.asarray(piece, dtype=float)


def _expanded(squares, along, center_square, d):
    """``|x|^2 - 2 x'c + |c|^2``, raised by a bound of its rounding error."""
    slack = (2.0 * d + 16.0) * _EPSILON
    with np.errstate(all="ignore"):
        raised = (1.0 + slack) * squares + ((1.0 + slack) * center_square - 2.0 * along)
    raised[~np.isfinite(raised)] = np.inf
    return np.maximum(raised, 0.0)


def _tile(piece, center):
    return (_SparseTile if sparse.issparse(piece) else _DenseTile)(piece, center)


class _DenseTile:
    """A few rows, centred explicitly."""

    def __init__(self, piece, center):
        with np.errstate(all="ignore"):
            self._rows = np.subtract(piece, center, dtype=float)

    @property
    def squared_norms(self):
        with np.errstate(all="ignore"):
            squares = _row_squares(self._rows)
        squares[np.isnan(squares)] = np.inf
        return squares

    def scaled(self, weights):
        changed = np.flatnonzero(weights != 1.0)
        if len(changed):
            self._rows[changed] = _times(self._rows[changed], weights[changed, None])
        return self._rows

    def weighted_sum(self, weights):
        return np.ones(len(weights)) @ self.scaled(weights)

    def gram(self, weights):
        rows = self.scaled(weights)
        return rows.T @ rows

    def inner_products(self, other):
        return np.einsum("ij,ij->i", self._rows, other._rows)

    def product(self, frame):
        with np.errstate(all="ignore"):
            values = self._rows @ frame
        values[~np.isfinite(values)] = 0.0
        return values

    def back(self, coefficients):
        bad = ~np.isfinite(self._rows).all(axis=1) if not np.isfinite(self._rows.sum()) else None
        if bad is not None:
            self._rows[bad] = 0.0
        return self._rows.T @ coefficients


class _SparseTile:
    """A few rows of a CSR matrix; the centre is subtracted in the sums, never in the rows."""

    def __init__(self, piece, center):
        self._rows = piece.astype(float, copy=False)
        self._center = center

    @property
    def squared_norms(self):
        with np.errstate(all="ignore"):
            squares = np.asarray(self._rows.multiply(self._rows).sum(axis=1), dtype=float).ravel()
            if not self._center.any():
                return squares
            along = self._rows @ self._center
        center_square = float(self._center @ self._center)
        return _expanded(squares, along, center_square, self._rows.shape[1])

    def _scaled(self, weights):
        scaled = self._rows.copy()
        lengths = np.diff(scaled.indptr)
        scaled.data = _times(scaled.data, np.repeat(weights, lengths))
        return scaled

    def weighted_sum(self, weights):
        plain = np.asarray(self._scaled(weights).sum(axis=0), dtype=float).ravel()
        return plain - weights.sum() * self._center

    def gram(self, weights):
        scaled, center = self._scaled(weights), self._center
        gram = (scaled.T @ scaled).toarray()
        if center.any():
            cross = np.outer(scaled.T @ weights, center)
            gram += (weights @ weights) * np.outer(center, center) - cross - cross.T
        return gram

    def inner_products(self, other):
        inner = np.asarray(self._rows.multiply(other._rows).sum(axis=1), dtype=float).ravel()
        if self._center.any():
            along = self._rows @ self._center + other._rows @ self._center
            inner += self._center @ self._center - along
        return inner

    def product(self, frame):
        with np.errstate(all="ignore"):
            values = self._rows @ frame - self._center @ frame
        values[~np.isfinite(values)] = 0.0
        return values

    def back(self, coefficients):
        return self._rows.T @ coefficients - np.outer(self._center, coefficients.sum(axis=0))


def _times(values, weights):
    """Product in which a weight of zero wins over a value that overflowed."""
    with np.errstate(all="ignore"):
        return np.where(weights == 0.0, 0.0, values * weights)


def open_rows(X, check) -> Rows:
    """The rows of X, which is one table or a re-iterable of tables.

    Parameters
    ----------
    X : array-like, sparse matrix, or iterable of such
    check : callable
        ``check(table, first)`` returns the validated table or raises.

    Raises
    ------
    TypeError
        For an iterator, which could be read only once.
    """
    if not _is_stream(X):
        table = check(X, True)
        return Rows(table, *table.shape)
    if iter(X) is X:
        raise TypeError(
            "X is an iterator, which can be read only once, but a fit reads its rows several "
            "times; pass a list, a memory map, or an object whose __iter__ starts anew."
        )
    n, d = 0, None
    for table in X:
        table = check(table, d is None)
        n, d = n + table.shape[0], table.shape[1]
    if d is None:
        raise ValueError("X is an empty iterable; it must give at least one table of records.")
    return Rows(X, n, d)


def _is_stream(X):
    """Whether X gives tables, rather than being one: its items would have two dimensions."""
    if hasattr(X, "shape") or hasattr(X, "__array__") or hasattr(X, "__dataframe__"):
        return False
    if not hasattr(X, "__iter__") or isinstance(X, (str, bytes, dict)):
        return False
    if iter(X) is X:
        return True
    first = next(iter(X), None)
    return getattr(first, "ndim", len(getattr(first, "shape", ()))) == 2


def rows_digest(rows: Rows) -> bytes:
    """Digest of all rows, chunk by chunk; enters the stream keys of seeded fits only."""
    state = b""
    for chunk in rows.arrays():
        state = data_digest(np.frombuffer(state, dtype=np.uint8), chunk)
    return state
