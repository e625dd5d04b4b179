"""Rating matrices: from data frames, dense arrays with NaN and sparse matrices; MovieLens files."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from skriemdp._containers import column_names
from skriemdp._errors import PublicFileNotFoundError, PublicTypeError, PublicValueError
from skriemdp._groups import find_ids, read_ids
from skriemdp._quiet import quiet, read_numbers
from skriemdp.datasets._home import data_home_of

__all__ = ["from_frame", "load_movielens", "observed_matrix"]


@quiet
def observed_matrix(X: Any) -> sparse.csr_array:
    """The observed entries of X as a CSR array of doubles with sorted columns.

    Parameters
    ----------
    X : array of shape (n, d) or sparse matrix
        Dense: NaN is unobserved.  Sparse: stored entries are observed, explicit zeros included;
        entries stored twice are added, as scipy does.
    """
    if sparse.issparse(X):
        matrix = sparse.csr_array(X, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
        unobserved = np.isnan(matrix.data)
        if unobserved.any():
            rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[~unobserved]
            entries = (matrix.data[~unobserved], (rows, matrix.indices[~unobserved]))
            matrix = sparse.csr_array(entries, shape=matrix.shape)
        return _same_index(matrix)
    X = read_numbers(X, "X", ensure_2d=True, allow_nd=False, ensure_all_finite="allow-nan")
    n, d = X.shape
    # Cells of a dense input that are looked at together.
    rows, values, columns, counts = max(1, 2**22 // max(d, 1)), [], [], []
    for begin in range(0, n, rows):
        block = X[begin : begin + rows]
        observed = ~np.isnan(block)
        values.append(np.asarray(block[observed], dtype=np.float64))
        columns.append(np.nonzero(observed)[1])
        counts.append(observed.sum(axis=1))
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    parts = (np.concatenate(values), np.concatenate(columns), indptr)
    return _same_index(sparse.csr_array(parts, shape=(n, d)))


def _same_index(matrix: sparse.csr_array) -> sparse.csr_array:
    """One integer type per size, so that equal ratings are equal in memory, however they came."""
    small = max(matrix.nnz, *matrix.shape) < 2**31 - 1
    dtype = np.int32 if small else np.int64
    indices, indptr = (a.astype(dtype, copy=False) for a in (matrix.indices, matrix.indptr))
    return sparse.csr_array((matrix.data, indices, indptr), shape=matrix.shape)


@quiet
def from_frame(
    users: Any,
    items: Any = None,
    ratings: Any = None,
    *,
    user: Any = None,
    item: Any = None,
    rating: Any = None,
    catalogue: Any,
) -> Any:
    """A sparse users x items matrix from a table with one rating per row.

    Parameters
    ----------
    users : data frame, or array-like of shape (m,)
        The table (pandas, polars, pyarrow, narwhals or a dict of columns), whose columns `user`,
        `item` and `rating` name; or the users, with `items` and `ratings` beside them.
    items, ratings : array-like of shape (m,), optional
        One rating per entry; users as :func:`skriemdp._groups.read_ids` takes ids.
    user, item, rating : column names, optional
    catalogue : array-like of shape (d,)
        Public list of all items, in the order of the columns.  Required: the set of items that
        occur is private, since one user may have rated an item that nobody else did.  Ratings of
        items outside it are dropped, and so are those without an item.

    Returns
    -------
    X : csr_array of shape (n, d)
        Observed ratings are stored, zeros included; of several ratings of an item by a user the
        last one counts.
    user_ids : ndarray of shape (n,)
        Identifiers of the rows: the users that occur, sorted.  Their number is public.

    Raises
    ------
    ValueError
        If the columns differ in length, if the id of a user, or a part of it, is missing, or if
        the catalogue is no list of distinct items.

    Examples
    --------
    >>> from skriemdp.datasets import from_frame
    >>> X, users = from_frame(["ann", "bob", "ann"], [7, 7, 9], [4, 2, 5], catalogue=[7, 8, 9])
    >>> X.toarray().tolist(), users.tolist()
    ([[4.0, 0.0, 5.0], [2.0, 0.0, 0.0]], ['ann', 'bob'])
    >>> table = {"who": ["ann", "bob"], "film": [7, 9], "stars": [4, 2]}
    >>> X, _ = from_frame(table, user="who", item="film", rating="stars", catalogue=[7, 8, 9])
    >>> X.toarray().tolist()
    [[4.0, 0.0, 0.0], [0.0, 0.0, 2.0]]
    """
    named = {"user": user, "item": item, "rating": rating}
    if items is None and ratings is None:
        users, items, ratings = (_column(users, what, name) for what, name in named.items())
    elif any(name is not None for name in named.values()):
        raise PublicTypeError(
            "pass a table with user=, item= and rating=, or three columns, not both."
        )
    ratings = read_numbers(ratings, "ratings", ensure_all_finite="allow-nan")
    columns = find_ids(items, catalogue)
    user_ids, rows = read_ids(users, None, "users")
    if not len(rows) == len(columns) == ratings.size or ratings.ndim != 1:
        raise PublicValueError(
            "users, items and ratings must be columns of one table, of one length."
        )
    known = columns >= 0
    rows, columns, ratings = rows[known], columns[known], ratings[known]
    cells = rows.astype(np.int64) * len(catalogue) + columns
    # The first of the reversed table is the last rating of a cell.
    cells, last = np.unique(cells[::-1], return_index=True)
    values = ratings[::-1][last]
    rows, columns = np.divmod(cells, len(catalogue))
    shape = (len(user_ids), len(catalogue))
    return sparse.csr_array((values, (rows, columns)), shape=shape), user_ids


def _column(table: Any, what: str, name: Any) -> Any:
    """One column of any data frame."""
    if name is None:
        raise PublicTypeError(
            "of a table, name the columns: from_frame(table, user=, item=, rating=, catalogue=)."
        )
    names = column_names(table)
    if names is None:
        raise PublicTypeError(
            f"a table of ratings must be a data frame, got {type(table).__name__}."
        )
    if name not in names:
        raise PublicValueError(f"{what}={name!r} is no column of the table, which has {names}.")
    return table[name]


_MOVIELENS = {
    # folder, ratings file, separator, item file, item separator
    "100k": ("ml-100k", "u.data", "\t", "u.item", "|"),
    "1m": ("ml-1m", "ratings.dat", "::", "movies.dat", "::"),
}


def load_movielens(*, size: str = "1m", data_home: str | Path | None = None) -> Any:
    """MovieLens ratings from files of the GroupLens project that you have downloaded.

    The licence does not allow redistribution: download ``ml-100k.zip`` or ``ml-1m.zip`` from
    https://grouplens.org/datasets/movielens/ and pass its folder.

    Parameters
    ----------
    size : {"1m", "100k"}
    data_home : str or path-like, optional
        Folder that holds the zip file, or the folder it unpacks to; by default the environment
        variable ``SKRIEMDP_DATA``, else scikit-learn's data home.

    Returns
    -------
    X : csr_array of shape (n, d)
        Users x movies; ``ml-1m``: 6040 x 3883, ``ml-100k``: 943 x 1682.  The catalogue is the
        movie list of the data set, not the movies that were rated.
    user_ids, item_ids : ndarray

    Raises
    ------
    FileNotFoundError
        When the files are not there; the message says where they were looked for.
    """
    if size not in _MOVIELENS:
        raise PublicValueError(f"size={size!r} is not one of '1m', '100k'.")
    folder, ratings_name, separator, items_name, item_separator = _MOVIELENS[size]
    place = _movielens_place(folder, data_home)
    table = _fields(_read(place, folder, ratings_name), separator)
    users, items, ratings = (np.array([row[k] for row in table], dtype=int) for k in range(3))
    lines = _fields(_read(place, folder, items_name), item_separator)
    catalogue = np.array(sorted(int(row[0]) for row in lines))
    X, user_ids = from_frame(users, items, ratings, catalogue=catalogue)
    return X, user_ids, catalogue


def _movielens_place(folder: str, data_home: str | Path | None) -> Any:
    home = data_home_of(data_home)
    candidates = [home / folder, home / f"{folder}.zip"]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    looked = " and ".join(str(candidate) for candidate in candidates)
    raise PublicFileNotFoundError(
        f"no MovieLens files at {looked}; download {folder}.zip from "
        "https://grouplens.org/datasets/movielens/ and pass its folder as data_home."
    )


def _read(place: Any, folder: str, name: str) -> Any:
    if place.is_dir():
        return (place / name).read_text(encoding="latin-1")
    with zipfile.ZipFile(place) as archive, archive.open(f"{folder}/{name}") as file:
        return io.TextIOWrapper(file, encoding="latin-1").read()


def _fields(text: str, separator: str) -> Any:
    return [line.split(separator) for line in text.splitlines() if line]
