"""Rows of a table, dense, sparse or streamed: sums over centred and clipped rows, tile by tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite

from skriemdp._arrays import row_squares, squared_lengths
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._mechanisms.units import NEIGHBOURS, Units, runs_of_neighbours
from skriemdp._quiet import quietly
from skriemdp._random import data_digest, public_generator

if TYPE_CHECKING:
    from skriemdp._location_scale.grouped_rows import GroupedRows

# Large enough for BLAS to run at full speed, small enough that a centred copy stays in the cache
# (benchmarks/pca.py --only speed).
_TILE_BYTES = 1 << 22
# Rows that are rounded one by one go through several operations: fewer at a time.
_EPSILON = np.finfo(float).eps
# Numbers in the runs of pairs that are looked at together.
_TOGETHER = 1 << 15


class Rows:
    """Records ``x_i`` in R^d, and what private PCA asks of them.

    With ``z_i = x_i - center``, answers are computed tile by tile, so memory beyond the records
    stays at a few tiles and, for records in memory, one number per record.

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

    @property
    def points(self) -> Rows:
        """Points of which a mean is taken: these rows."""
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
            return z, scale_factors(squared_lengths(z), radius)

        return self.units, give

    def arrays(self) -> Iterator[Any]:
        """The chunks, one after the other."""
        return iter(self.chunks) if self.streamed else iter((self.chunks,))

    def _pieces(self) -> Iterator[tuple[slice, Any]]:
        begin = 0
        rows = max(1, _TILE_BYTES // (8 * self.d))
        for chunk in self.arrays():
            if sparse.issparse(chunk):
                chunk = chunk.tocsr()
                rows = max(rows, 2**14)
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
            yield where, _tile(piece, center, workspace)

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
            self._plain = np.empty(self.n)
            for where, piece in self._pieces():
                self._plain[where] = _tile(piece, np.zeros(self.d)).squared_norms
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
            raise PublicTypeError("single records of a stream cannot be selected; pass one table.")
        chosen = self.chunks if indices is None else self.chunks[indices]
        if sparse.issparse(chosen):
            chosen = chosen.toarray()
        return scaled_rows(_DenseTile(chosen, center).centred, radius)

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
        step = max(1, _TOGETHER // (self.d * NEIGHBOURS)) if _is_plain(self.chunks) else 1
        for begin in range(0, len(runs), step):
            few = runs[begin : begin + step]
            first = [self.chunks[run] for run in few]
            second = [self.chunks[half + run.start : half + run.stop] for run in few]
            if len(few) > 1:
                first, second = [np.concatenate(first)], [np.concatenate(second)]
            yield _tile(first[0], center), _tile(second[0], center)

    def centred(self, center: np.ndarray) -> Iterator[np.ndarray]:
        """Dense tiles of the z_i, of all records; a tile is valid until the next one is asked."""
        # Rows that are rounded one by one go through several operations: fewer at a time.
        few = max(1, min(max(2**18 // (8 * self.d), 4 * self.d), _TILE_BYTES // 8 // self.d))
        workspace = np.empty((few, self.d))
        for _, piece in self._pieces():
            for begin in range(0, piece.shape[0], few):
                part = piece[begin : begin + few]
                if sparse.issparse(part):
                    part = part.toarray()
                yield _DenseTile(part, center, workspace).centred

    def product_norms(
        self, center: np.ndarray, radius: float, frame: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Norms ``|z_i| |W' z_i|`` of the terms ``z_i z_i' W``, by tile.

        Every z_i is scaled to norm <= `radius`; `frame` is W, with orthonormal columns.
        """
        norms = iter(self.squared_norms(center))
        whole = None if self.streamed else next(norms)
        for where, tile in self.tiles(center):
            squares = tile.squared_norms if whole is None else whole[where]
            projections = tile.product(frame) * scale_factors(squares, radius)[:, None]
            yield np.sqrt(np.minimum(squares, radius * radius) * row_squares(projections))


def records_of(units: Units, by_trace: bool = True) -> Rows | GroupedRows:
    """The rows of one table as records, or the people who own them."""
    (table,) = units.arrays
    if units.groups is None:
        return Rows(table, *table.shape)
    from skriemdp._location_scale.grouped_rows import GroupedRows

    return GroupedRows(table, units.groups, by_trace)


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


def scale_factors(squared_norms: np.ndarray, norm: float) -> np.ndarray:
    """Factors that scale vectors of these squared norms to `norm` at most; 0 for infinite ones.

    Rows that are scaled so are what a second moment is estimated of.  No guarantee rests on it: the
    set that holds what a row gives shortens that once more.
    """
    norms = np.sqrt(squared_norms)
    return np.where(np.isfinite(norms), norm / np.maximum(norms, norm), 0.0)


def scaled_rows(rows: np.ndarray, norm: float) -> np.ndarray:
    """Dense rows, scaled by :func:`scale_factors`; a view where none is longer."""
    with np.errstate(all="ignore"):
        factors = scale_factors(row_squares(rows), norm)[:, None]
        return rows if factors.min(initial=1.0) == 1.0 else np.where(factors, rows * factors, 0.0)


def centred_rows(center: np.ndarray, keep_sparse: bool = False) -> Callable[[Any], Any]:
    """Return a function that subtracts a public `center` from rows, which become dense.

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
    """``rows @ frame``, each row's bitwise the same in any batch, unlike with BLAS."""
    if sparse.issparse(rows):
        return np.asarray(rows @ frame)
    return np.stack([np.einsum("ij,j->i", rows, w) for w in frame.T.copy()], axis=1)


def _raise_nan(squares: np.ndarray) -> None:
    """Infinity in place of what is no number."""
    if not math.isfinite(squares.sum()):
        squares[np.isnan(squares)] = np.inf


def _is_plain(piece: Any) -> bool:
    """Whether rows are an array of floats that no copy has to be made of."""
    return isinstance(piece, np.ndarray) and piece.dtype == np.float64


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


def _tile(piece: Any, center: np.ndarray, workspace: np.ndarray | None = None) -> Any:
    if sparse.issparse(piece):
        return _SparseTile(piece, center)
    return _DenseTile(piece, center, workspace)


class _DenseTile:
    """A few rows, centred explicitly, in `workspace` where they are changed."""

    def __init__(
        self, piece: np.ndarray, center: np.ndarray, workspace: np.ndarray | None = None
    ) -> None:
        self.centred = piece
        if piece.dtype != np.float64 or center.any():
            self.centred = np.empty(piece.shape) if workspace is None else workspace[: len(piece)]
            with np.errstate(all="ignore"):
                np.subtract(piece, center, out=self.centred)

    @property
    def squared_norms(self) -> np.ndarray:
        with np.errstate(all="ignore"):
            squares = row_squares(self.centred)
            _raise_nan(squares)
        return squares

    def inner_products(self, other: Any) -> np.ndarray:
        return np.einsum("ij,ij->i", self.centred, other.centred)

    def product(self, frame: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            values = self.centred @ frame
        values[~np.isfinite(values)] = 0.0
        return values


class _SparseTile:
    """A few rows of a CSR matrix; the centre is subtracted in the sums, never in the rows."""

    def __init__(self, piece: Any, center: np.ndarray) -> None:
        self._rows = piece.astype(float, copy=False)
        self._center = center

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
        raise PublicTypeError(
            "X is an iterator, which can be read only once, but a fit reads its rows several "
            "times; pass a list, a memory map, or an object whose __iter__ starts anew."
        )
    n, d = 0, None
    for table in X:
        table = check(table, d is None)
        _refuse_nan(table)
        n, d = n + table.shape[0], table.shape[1]
    if d is None:
        raise PublicValueError(
            "X is an empty iterable; it must give at least one table of records."
        )
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
