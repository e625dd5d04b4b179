"""Rows of a table, dense, sparse or streamed: sums over centred and clipped rows, tile by tile."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite

from skriemdp._arrays import squared_lengths
from skriemdp._quiet import quietly
from skriemdp._random import data_digest, public_generator
from skriemdp.mechanisms.bounds import Ball, shortened
from skriemdp.mechanisms.units import Units

__all__ = [
    "PairDifferences",
    "RowSum",
    "Rows",
    "centred_rows",
    "clip_weights",
    "is_stream",
    "largest_summand",
    "open_rows",
    "row_products",
    "rows_digest",
    "runs_of_neighbours",
]

# Large enough for BLAS to run at full speed, small enough that a centred copy stays in the cache
# (benchmarks/pca.py --only speed).
_TILE_BYTES = 1 << 22
_SPARSE_ROWS = 1 << 14
# What is computed from a few rows while they are in the innermost cache.
_BLOCK_BYTES, _SMALL_PRODUCT = 1 << 18, 10**6
# Rows that are rounded one by one go through several operations: fewer at a time.
_ROUNDED_BYTES = 1 << 18
_EPSILON = np.finfo(float).eps
# Neighbours per run when pairs of records are sampled, and numbers in the runs that are looked at
# together.
_RUN, _TOGETHER = 1024, 1 << 15
# Rows this many times longer than the clipping norm, or centres this far out in units of it, would
# lose digits if subtracted from a sum that contains them.
_MODERATE = 10.0


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

    grouped = False

    def __init__(self, chunks: Any, n: int, d: int) -> None:
        self.chunks, self.n, self.d = chunks, n, d
        self.streamed = not hasattr(chunks, "shape")
        self._norms: tuple[bytes, np.ndarray] | None = None
        self._plain: np.ndarray | None = None
        # Sums of the rows of each piece as they are, by the number of its first row.
        self._sums: dict[int, np.ndarray] = {}

    @property
    def points(self) -> Rows:
        """Of which a mean is taken: these rows."""
        return self

    @property
    def units(self) -> Units:
        """The records, for sums of :func:`centred_rows` and the like."""
        return Units((self.chunks,))

    def weighted(
        self, center: np.ndarray, radius: float
    ) -> tuple[Units, Callable[..., tuple[Any, np.ndarray]]]:
        """The records, and what makes of them the z_i and weights that scale them to `radius`.

        A z_i of a sparse table stays sparse where the centre is zero.
        """
        centred = centred_rows(center, keep_sparse=True)

        def give(rows: Any) -> tuple[Any, np.ndarray]:
            z = centred(rows)
            return z, clip_weights(squared_lengths(z), radius)

        return self.units, give

    def arrays(self) -> Iterator[Any]:
        """The chunks, one after the other."""
        return iter(self.chunks) if self.streamed else iter((self.chunks,))

    @property
    def longest_tile(self) -> int:
        """Most rows that are added in one go; public."""
        return max(_TILE_BYTES // (8 * self.d), _SPARSE_ROWS)

    def _pieces(self) -> Iterator[tuple[slice, Any]]:
        begin = 0
        rows = max(1, _TILE_BYTES // (8 * self.d))
        for chunk in self.arrays():
            if sparse.issparse(chunk):
                chunk = chunk.tocsr()
                rows = max(rows, _SPARSE_ROWS)
            elif not hasattr(chunk, "shape"):
                chunk = np.asarray(chunk)
            for start in range(0, chunk.shape[0], rows):
                piece = chunk[start : start + rows]
                stop = begin + piece.shape[0]
                yield slice(begin, stop), piece
                begin = stop

    def tiles(self, center: np.ndarray) -> Iterator[tuple[slice, Any]]:
        """Pairs (slice of record numbers, centred tile)."""
        # One workspace for all tiles: fresh memory would cost more than the arithmetic.
        workspace = np.empty((max(1, _TILE_BYTES // (8 * self.d)), self.d))
        for where, piece in self._pieces():
            yield where, _tile(piece, center, workspace, self._sums.get(where.start))

    def squared_norms(self, center: np.ndarray) -> Iterator[np.ndarray]:
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

    def _all_squared_norms(self, center: np.ndarray) -> np.ndarray:
        if not center.any():
            return self._plain_norms()
        squares, found = self._plain_norms(), np.empty(self.n)
        square = float(center @ center)
        with np.errstate(all="ignore"):
            for where, piece in self._pieces():
                along = found[where]
                if _is_plain(piece):
                    np.matmul(piece, center, out=along)
                else:
                    along[:] = _matrix(piece) @ center
                _expand(along, squares[where], square, self.d)
        return found

    def _plain_norms(self) -> np.ndarray:
        if self._plain is None:
            self._plain, ones = np.empty(self.n), np.ones(_block_rows(self.d))
            for where, piece in self._pieces():
                found = self._plain[where]
                if not _is_plain(piece):
                    found[:] = _tile(piece, np.zeros(self.d)).squared_norms
                    continue
                # Added up while the rows are in the cache; later sums start from here.
                total = np.zeros(self.d)
                with np.errstate(all="ignore"):
                    for begin in range(0, len(piece), len(ones)):
                        block = piece[begin : begin + len(ones)]
                        np.einsum("ij,ij->i", block, block, out=found[begin : begin + len(block)])
                        total += ones[: len(block)] @ block
                _raise_nan(found)
                self._sums[where.start] = total
        return self._plain

    @property
    def is_sparse(self) -> bool:
        """Whether the records, or their first chunk, are a sparse matrix."""
        return sparse.issparse(next(self.arrays()))

    @property
    def has_finite_norms(self) -> bool:
        """Whether all rows, one table in memory, are finite and their norms do not overflow."""
        return bool(np.isfinite(self._plain_norms().sum()))

    def pairs(self, public_seed: int) -> Rows:
        """The differences of disjoint pairs of these records, as rows."""
        differences = PairDifferences(self.chunks, public_seed)
        return Rows(differences, *differences.shape)

    def select(self, indices: Any, center: np.ndarray, radius: float) -> np.ndarray:
        """Records by slice or index array, centred and scaled to norm <= `radius`; dense."""
        if self.streamed:
            raise TypeError("single records of a stream cannot be selected; pass one table.")
        chosen = self.chunks if indices is None else self.chunks[indices]
        if sparse.issparse(chosen):
            chosen = chosen.toarray()
        tile = _DenseTile(chosen, center)
        return tile.scaled(clip_weights(tile.squared_norms, radius))

    def squared_cosines(self, center: np.ndarray, most: int) -> Iterator[np.ndarray]:
        """``cos^2`` of the angle between z_i and z_j over disjoint pairs, tile by tile.

        Pairs are chosen by position, at most `most` of them where the records are in memory.  Zero
        where there is no angle.
        """
        for first, second in self._pairs(center, most):
            squares = first.squared_norms * second.squared_norms
            with np.errstate(all="ignore"):
                cosines = first.inner_products(second) ** 2 / squares
            yield np.minimum(np.where(np.isfinite(cosines), cosines, 0.0), 1.0)

    def _pairs(self, center: np.ndarray, most: int) -> Iterator[tuple[Any, Any]]:
        if self.streamed:
            for _, piece in self._pieces():
                if (half := piece.shape[0] // 2) > 0:
                    yield _tile(piece[:half], center), _tile(piece[half : 2 * half], center)
            return
        # Evenly spaced runs of neighbours: cheap to read, and no part of the table is left out.
        half, runs = self.n // 2, list(runs_of_neighbours(self.n // 2, most))
        step = max(1, _TOGETHER // (self.d * _RUN)) if _is_plain(self.chunks) else 1
        for begin in range(0, len(runs), step):
            few = runs[begin : begin + step]
            first = [self.chunks[run] for run in few]
            second = [self.chunks[half + run.start : half + run.stop] for run in few]
            if len(few) > 1:
                first, second = [np.concatenate(first)], [np.concatenate(second)]
            yield _tile(first[0], center), _tile(second[0], center)

    def centred(self, center: np.ndarray) -> Iterator[np.ndarray]:
        """Dense tiles of the z_i, of all records; a tile is valid until the next one is asked."""
        few = max(
            1, min(max(_ROUNDED_BYTES // (8 * self.d), 4 * self.d), _TILE_BYTES // 8 // self.d)
        )
        workspace = np.empty((few, self.d))
        for _, piece in self._pieces():
            for begin in range(0, piece.shape[0], few):
                part = piece[begin : begin + few]
                if sparse.issparse(part):
                    part = part.toarray()
                yield _DenseTile(part, center, workspace).centred

    # -- sums -------------------------------------------------------------------------------------

    def _weighted(self, center: np.ndarray, radius: float) -> Iterator[tuple[Any, Clipping]]:
        norms = iter(self.squared_norms(center))
        whole = None if self.streamed else next(norms)
        for where, tile in self.tiles(center):
            squares = tile.squared_norms if whole is None else whole[where]
            yield tile, Clipping(squares, radius)

    def clipped_sum(self, center: np.ndarray, radius: float) -> np.ndarray:
        """Sum of the z_i, each scaled to norm <= `radius`, shape ``(d,)``."""
        total = np.zeros(self.d)
        for tile, clipping in self._weighted(center, radius):
            total += tile.weighted_sum(clipping)
        return total

    def clipped_gram(self, center: np.ndarray, radius: float) -> np.ndarray:
        """Sum of ``z_i z_i'``, each z_i scaled to norm <= `radius`, shape ``(d, d)``; in floats."""
        total = np.zeros((self.d, self.d))
        for tile in self.centred(center):
            z = shortened(tile, radius)
            total += z.T @ z
        return total

    def product_norms(
        self, center: np.ndarray, radius: float, frame: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Squared norms ``|z_i|^2 |W' z_i|^2`` of the terms ``z_i z_i' W``, by tile.

        Every z_i is scaled to norm <= `radius`; `frame` is W, with orthonormal columns.
        """
        for tile, clipping in self._weighted(center, radius):
            squares, weights = clipping.squares, clipping.weights
            projections = tile.product(frame) * weights[:, None]
            yield np.minimum(squares, radius * radius) * _row_squares(projections)


@dataclasses.dataclass(frozen=True, eq=False)
class RowSum:
    """One vector per record, tile by tile, for :func:`skriemdp.mechanisms.sums.noisy_sum`.

    Attributes
    ----------
    n, dim : int
    bound : Ball
        Every vector is moved into it.
    tiles : callable
        Gives the vectors anew, tile by tile; row i depends on record i and public numbers only.
    add : callable, optional
        The sum of the offsets from the centre of `bound`, in floating point, where there is a
        faster way than tile by tile.
    longest_block : int, default=1
        Most records that are added in one go in floating point.
    largest : float, optional
        Bound of the vectors that `add` really adds, where it moves them afterwards; the radius of
        `bound` otherwise.
    """

    n: int
    dim: int
    bound: Ball
    tiles: Callable[[], Iterator[np.ndarray]]
    add: Callable[[], np.ndarray] | None = None
    longest_block: int = 1
    largest: float | None = None

    def blocks(self, indices: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """All vectors, before the bound is enforced; there are no batches of them."""
        assert indices is None
        return self.tiles()

    def total(self, indices: np.ndarray | None = None) -> np.ndarray:
        """Floating-point sum of the offsets of all vectors from the centre of the ball."""
        assert indices is None
        if self.add is not None:
            return self.add()
        total = np.zeros(self.dim)
        for rows in self.blocks():
            total += self.bound.enforce(rows).sum(axis=0)
        return total


class PairDifferences:
    """Differences ``(x_i - x_j) / sqrt(2)`` of disjoint pairs of records, in place of a table.

    Their second moment has the covariance of the records as its expectation, without any centre.
    The n // 2 pairs are a public random matching, drawn without a look at the records; of an odd
    number one record is left out.  Replacing a record changes one difference.

    Parameters
    ----------
    table : ndarray, memory map or CSR matrix of shape (n, d)
    public_seed : int
        Of the matching.
    """

    def __init__(self, table: Any, public_seed: int) -> None:
        half = table.shape[0] // 2
        rng = public_generator(public_seed, "pairs of records", table.shape[0])
        order = rng.permutation(table.shape[0])
        self._table, self._first, self._second = table, order[:half], order[half : 2 * half]
        self.shape = (half, table.shape[1])

    def __getitem__(self, index: Any) -> Any:
        # Halved before they are subtracted, so that no difference of finite numbers overflows.
        first, second = (self._table[of[index]] for of in (self._first, self._second))
        return first * math.sqrt(0.5) - second * math.sqrt(0.5)


def runs_of_neighbours(count: int, most: int) -> Iterator[slice]:
    """Evenly spaced runs of neighbours among `count`, about `most` of them in all.

    They are cheap to read, and no part of a table is left out.
    """
    run = min(_RUN, most, count)
    if run > 0:
        for start in np.linspace(0, count - run, most // run).astype(int):
            yield slice(int(start), int(start) + run)


class Clipping:
    """Factors that scale vectors of these squared norms to norm <= `radius`; 0 for infinite ones.

    Attributes
    ----------
    squares : ndarray of shape (b,)
    radius : float
    outside : ndarray of int
        Places of the vectors that are longer.
    factors : ndarray
        Theirs; those of all others are one.
    """

    def __init__(self, squares: np.ndarray, radius: float) -> None:
        self.squares, self.radius = squares, radius
        self.outside = np.flatnonzero(~(squares <= radius * radius))
        self.factors = _shrinking(squares[self.outside], radius)

    @property
    def weights(self) -> np.ndarray:
        """The factors of all, shape ``(b,)``."""
        weights = np.ones_like(self.squares)
        weights[self.outside] = self.factors
        return weights


def _shrinking(squares: np.ndarray, radius: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        factors = radius / np.sqrt(squares)
    return np.where(np.isfinite(squares), factors, 0.0)


def clip_weights(squared_norms: np.ndarray, bound: float) -> np.ndarray:
    """Factors that scale vectors of these squared norms to norm <= `bound`; 0 for infinite ones."""
    return Clipping(squared_norms, bound).weights


def centred_rows(center: np.ndarray, keep_sparse: bool = False) -> Callable[[Any], Any]:
    """What takes a public `center` from rows of a table, row by row; dense rows.

    With `keep_sparse` those of a sparse table stay sparse where the centre is zero.
    """
    moves = bool(center.any())

    def give(rows: Any) -> Any:
        if sparse.issparse(rows) and (moves or not keep_sparse):
            rows = rows.toarray()
        if moves:
            return rows - center
        return rows if rows.dtype == np.float64 else rows.astype(float)

    return give


def row_products(rows: Any, frame: np.ndarray) -> np.ndarray:
    """``rows @ frame``, each row's to the last bit the same in any company, unlike with BLAS."""
    if sparse.issparse(rows):
        return np.asarray(rows @ frame)
    return np.stack([np.einsum("ij,j->i", rows, w) for w in frame.T.copy()], axis=1)


def _row_squares(matrix: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", matrix, matrix)


def _raise_nan(squares: np.ndarray) -> None:
    """Infinity in place of what is no number."""
    if not math.isfinite(squares.sum()):
        squares[np.isnan(squares)] = np.inf


def _is_plain(piece: Any) -> bool:
    """Whether rows are an array of floats that no copy has to be made of."""
    return isinstance(piece, np.ndarray) and piece.dtype == np.float64


def _block_rows(d: int) -> int:
    """Rows that fit into the innermost cache, and into one small product; public."""
    return max(1, min(_BLOCK_BYTES // (8 * d), _SMALL_PRODUCT // d**2))


def _matrix(piece: Any) -> Any:
    return piece if sparse.issparse(piece) else np.asarray(piece, dtype=float)


def _expand(along: np.ndarray, squares: np.ndarray, center_square: float, d: int) -> None:
    """``|x|^2 - 2 x'c + |c|^2``, raised by a bound of its rounding error, in place of ``x'c``."""
    slack = (2.0 * d + 16.0) * _EPSILON
    with np.errstate(all="ignore"):
        along *= -2.0
        along += (1.0 + slack) * center_square
        along += (1.0 + slack) * squares
        if not math.isfinite(along.sum()):
            along[~np.isfinite(along)] = np.inf
    np.maximum(along, 0.0, out=along)


def _tile(
    piece: Any,
    center: np.ndarray,
    workspace: np.ndarray | None = None,
    plain: np.ndarray | None = None,
) -> Any:
    if sparse.issparse(piece):
        return _SparseTile(piece, center)
    return _DenseTile(piece, center, workspace, plain)


class _DenseTile:
    """A few rows, centred explicitly, in `workspace` where they are changed."""

    def __init__(
        self,
        piece: np.ndarray,
        center: np.ndarray,
        workspace: np.ndarray | None = None,
        plain: np.ndarray | None = None,
    ) -> None:
        self._piece, self._center = piece, center
        self._plain_sum = plain
        self._space = workspace
        self._centred = piece if piece.dtype == np.float64 and not center.any() else None

    @property
    def _workspace(self) -> np.ndarray:
        if self._space is None:
            self._space = np.empty(self._piece.shape)
        return self._space[: len(self._piece)]

    @property
    def _rows(self) -> np.ndarray:
        if self._centred is None:
            self._centred = self._workspace
            with np.errstate(all="ignore"):
                np.subtract(self._piece, self._center, out=self._centred)
        return self._centred

    @property
    def centred(self) -> np.ndarray:
        """The rows less the centre."""
        return self._rows

    @property
    def squared_norms(self) -> np.ndarray:
        with np.errstate(all="ignore"):
            squares = _row_squares(self._rows)
            _raise_nan(squares)
        return squares

    def scaled(self, weights: np.ndarray) -> np.ndarray:
        changed = np.flatnonzero(weights != 1.0)
        if len(changed):
            if self._rows is self._piece:  # the caller's table is never written to
                self._centred = self._workspace
                self._centred[...] = self._piece
            self._rows[changed] = _times(self._rows[changed], weights[changed, None])
        return self._rows

    def weighted_sum(self, clipping: Clipping) -> np.ndarray:
        if _is_far(self._center, clipping.radius):
            return np.ones(len(clipping.squares)) @ self.scaled(clipping.weights)
        outside, missing = clipping.outside, 1.0 - clipping.factors
        with np.errstate(all="ignore"):
            if self._plain_sum is not None and self._few(clipping):
                total = self._plain_sum - missing @ self._piece[outside]
                mass = len(clipping.squares) - missing.sum()
            else:
                weights = clipping.weights
                total, mass = weights @ self._piece, weights.sum()
            total = total - mass * self._center
        if np.isfinite(total).all():
            return total
        return np.ones(len(clipping.squares)) @ self.scaled(clipping.weights)

    def _few(self, clipping: Clipping) -> bool:
        """Whether a sum may start from the whole table and correct for the rows that are longer."""
        limit = (_MODERATE * clipping.radius) ** 2
        return (
            self._piece.dtype == np.float64
            and 4 * len(clipping.outside) <= len(clipping.squares)
            and not _is_far(self._center, clipping.radius)
            and bool((clipping.squares[clipping.outside] <= limit).all())
        )

    def inner_products(self, other: Any) -> np.ndarray:
        return np.einsum("ij,ij->i", self._rows, other._rows)

    def product(self, frame: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            values = self._rows @ frame
        values[~np.isfinite(values)] = 0.0
        return values


class _SparseTile:
    """A few rows of a CSR matrix; the centre is subtracted in the sums, never in the rows."""

    def __init__(self, piece: Any, center: np.ndarray) -> None:
        self._rows = piece.astype(float, copy=False)
        self._center, self._d = center, len(center)

    @property
    def squared_norms(self) -> np.ndarray:
        with np.errstate(all="ignore"):
            squares = np.asarray(self._rows.multiply(self._rows).sum(axis=1), dtype=float).ravel()
            if not self._center.any():
                return squares
            along = self._rows @ self._center
        center_square = float(self._center @ self._center)
        _expand(along, squares, center_square, self._rows.shape[1])
        return along

    def _scaled(self, weights: np.ndarray) -> Any:
        scaled = self._rows.copy()
        lengths = np.diff(scaled.indptr)
        scaled.data = _times(scaled.data, np.repeat(weights, lengths))
        return scaled

    def weighted_sum(self, clipping: Clipping) -> np.ndarray:
        weights = clipping.weights
        if _is_far(self._center, clipping.radius):
            return sum((part.sum(axis=0) for part in self._spelled(weights)), self._center * 0.0)
        plain = np.asarray(self._scaled(weights).sum(axis=0), dtype=float).ravel()
        return plain - weights.sum() * self._center

    def _spelled(self, weights: np.ndarray) -> Iterator[np.ndarray]:
        """The centred and weighted rows, a few at a time.

        A far centre, subtracted from the sums, would leave more rounding than a record may move
        them; such rows are dense in all but name.
        """
        step = max(1, _TILE_BYTES // (8 * self._d))
        for begin in range(0, len(weights), step):
            part = slice(begin, begin + step)
            yield _times(self._rows[part].toarray() - self._center, weights[part, None])

    def inner_products(self, other: Any) -> np.ndarray:
        inner = np.asarray(self._rows.multiply(other._rows).sum(axis=1), dtype=float).ravel()
        if self._center.any():
            along = self._rows @ self._center + other._rows @ self._center
            inner += self._center @ self._center - along
        return inner

    def product(self, frame: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            values = self._rows @ frame - self._center @ frame
        values[~np.isfinite(values)] = 0.0
        return values


def _is_far(center: np.ndarray, radius: float) -> bool:
    """Whether sums are taken of centred rows, and not of rows, to be centred afterwards; public."""
    return not center @ center <= (_MODERATE * radius) ** 2


def largest_summand(radius: float) -> float:
    """How long a vector may be that stands for a row in :meth:`Rows.clipped_sum`, for its rounding.

    A row less its centre is no longer than `radius`; but where the centre is near, rows are added
    as they are, up to ``20 radius`` long, some of them twice, and their number times the centre.
    docs/theory/floats.md, "Means that centre rows".
    """
    return 4.0 * _MODERATE * radius


def _times(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Product in which a weight of zero wins over a value that overflowed."""
    with np.errstate(all="ignore"):
        return np.where(weights == 0.0, 0.0, values * weights)


def open_rows(X: Any, check: Callable[[Any, bool], Any]) -> Rows:
    """The rows of X, which is one table or a re-iterable of tables.

    Parameters
    ----------
    X : array-like, sparse matrix, or iterable of such
    check : callable
        ``check(table, first)`` returns the validated table or raises; it may leave it to this
        function to refuse NaN and infinity.

    Raises
    ------
    TypeError
        For an iterator, which could be read only once.
    """
    if not is_stream(X):
        table = check(X, True)
        rows = Rows(table, *table.shape)
        # The norms, needed later, are finite where the entries are: one pass instead of two.
        if sparse.issparse(table) or not rows.has_finite_norms:
            _refuse_nan(table)
        return rows
    if iter(X) is X:
        raise TypeError(
            "X is an iterator, which can be read only once, but a fit reads its rows several "
            "times; pass a list, a memory map, or an object whose __iter__ starts anew."
        )
    n, d = 0, None
    for table in X:
        table = check(table, d is None)
        _refuse_nan(table)
        n, d = n + table.shape[0], table.shape[1]
    if d is None:
        raise ValueError("X is an empty iterable; it must give at least one table of records.")
    return Rows(X, n, d)


def _refuse_nan(table: Any) -> None:
    entries = table.data if sparse.issparse(table) else table
    quietly(lambda entries: assert_all_finite(entries, input_name="X"), entries)


def is_stream(X: Any) -> bool:
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
