"""Rows of people who own several: one positive semidefinite matrix for each person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from skriemdp._groups import Groups
from skriemdp._location_scale.rows import (
    Rows,
    centred_rows,
    row_products,
    scale_factors,
)
from skriemdp._mechanisms.bounds import matrix_norms, short_factors
from skriemdp._mechanisms.units import Units, runs_of_neighbours
from skriemdp._random import public_generator


class GroupedRows:
    """People with rows in R^d, in the place of :class:`skriemdp._location_scale.rows.Rows`.

    A person is the matrix ``A = (1/m) sum z z'``, z the m own rows less a centre.  The part of a
    row's norm is played by ``rho = |A|_F^(1/2)``, or by the root of the trace of A; both are |z|
    for a single row.  A is scaled so that rho is at most a public radius.

    Parameters
    ----------
    table : ndarray, memory map or CSR matrix of shape (n_rows, d)
    groups : Groups
        Of the rows.
    by_trace : bool, default=False
        Whether the trace bounds A, as pure privacy needs it, and not the Frobenius norm.

    Attributes
    ----------
    n, d : int
        Numbers of people and of columns.
    points : Rows
        The means of people's own rows.

    Notes
    -----
    What a person gives is computed from own rows only, and is bitwise the same whatever
    rows the others have and wherever they stand: sums are those of
    :meth:`skriemdp._groups.Groups.sums`, and products are taken for each person by itself
    (docs/theory/groups.md).
    """

    grouped, streamed = True, False

    def __init__(self, table: Any, groups: Groups, by_trace: bool = False) -> None:
        self._table, self._groups, self.by_trace = table, groups, by_trace
        self.n, self.d = groups.count, table.shape[1]
        self._points: Rows | None = None
        self._norms: tuple[bytes, np.ndarray] | None = None

    @property
    def is_sparse(self) -> bool:
        """Whether the table is a sparse matrix; a few rows at a time are spelled out."""
        return bool(sparse.issparse(self._table))

    @property
    def units(self) -> Units:
        """The people, for sums of what their rows give."""
        return Units((self._table,), self._groups)

    def weighted(
        self, center: np.ndarray, radius: float
    ) -> tuple[Units, Callable[..., tuple[Any, np.ndarray]]]:
        """The people, and what makes of own rows the z, and weights that scale A to `radius`."""
        (norms,) = self.squared_norms(center)
        groups, weights = self._groups, np.empty(len(self._groups.order))
        weights[groups.order] = np.repeat(scale_factors(norms, radius), groups.sizes)
        centred = centred_rows(center)
        return Units((self._table, weights), groups), lambda rows, own: (centred(rows), own)

    @property
    def points(self) -> Rows:
        """The means of people's own rows, as records."""
        if self._points is None:
            means = np.empty((self.n, self.d))
            for run in self._groups.runs(self._most):
                owned = self._groups.select(run)
                means[run] = owned.means(self._gathered(owned.order))
            self._points = Rows(means, self.n, self.d)
        return self._points

    @property
    def _most(self) -> int:
        return max(1, (2**21) // (8 * self.d))

    def _gathered(self, rows: np.ndarray) -> np.ndarray:
        found = self._table[rows]
        if sparse.issparse(found):
            found = found.toarray()
        return np.asarray(found, dtype=float)

    # -- one matrix for each person ---------------------------------------------------------------

    def _factors(
        self, center: np.ndarray, only: Groups | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Numbers of people, and factors L of their ``A = L' L``, shape (b, rows, d)."""
        groups = self._groups if only is None else only
        sizes = groups.sizes
        for chosen, rows, inside in groups.blocks(self._most):
            roots = 1.0 / np.sqrt(sizes[chosen])
            with np.errstate(all="ignore"):
                z = self._gathered(rows.ravel()).reshape(*rows.shape, self.d) - center
                z = np.where(inside[:, :, None], z * roots[:, None, None], 0.0)
            yield chosen, short_factors(z)

    def centred(self, center: np.ndarray) -> Iterator[np.ndarray]:
        """Factors of all people's matrices, tile by tile, shape (b, rows, d)."""
        return (factors for _, factors in self._factors(center))

    def squared_norms(self, center: np.ndarray) -> Iterator[np.ndarray]:
        """The ``rho^2`` of all people; infinite where it overflows."""
        key = np.asarray(center).tobytes()
        if self._norms is None or self._norms[0] != key:
            found = self._traces(center) if self.by_trace else np.empty(self.n)
            if not self.by_trace:
                for chosen, factors in self._factors(center):
                    found[chosen] = matrix_norms(factors)
            self._norms = (key, found)
        yield self._norms[1]

    def _traces(self, center: np.ndarray) -> np.ndarray:
        """Mean squared norms of people's own rows."""
        traces = np.empty(self.n)
        for run in self._groups.runs(self._most):
            owned = self._groups.select(run)
            with np.errstate(all="ignore"):
                z = self._gathered(owned.order) - center
                squares = np.einsum("ij,ij->i", z, z)
                traces[run] = owned.sums(squares / np.repeat(owned.sizes, owned.sizes))
        return np.where(np.isnan(traces), np.inf, traces)

    def squared_cosines(self, center: np.ndarray, most: int) -> Iterator[np.ndarray]:
        """``<A, B>_F / (rho_A^2 rho_B^2)`` over disjoint pairs of people; zero without a value.

        Pairs are chosen by the order of the ids, at most `most` of them.
        """
        half = self.n // 2
        runs = [np.arange(r.start, r.stop) for r in runs_of_neighbours(half, most)]
        first = np.concatenate([np.empty(0, dtype=np.intp), *runs])
        if len(first) == 0:
            return
        (norms,) = self.squared_norms(center)
        inner = np.empty(len(first))
        for chosen, left, right in self._both(first, first + half, center):
            with np.errstate(all="ignore"):
                product = np.matmul(left, right.transpose(0, 2, 1))
                inner[chosen] = np.einsum("bij,bij->b", product, product)
        with np.errstate(all="ignore"):
            cosines = inner / (norms[first] * norms[first + half])
        yield np.minimum(np.where(np.isfinite(cosines), cosines, 0.0), 1.0)

    def _both(
        self, first: np.ndarray, second: np.ndarray, center: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Factors of pairs of people, by numbers of pairs, in arrays of like shapes."""
        blocks: list[list[np.ndarray]] = []
        where = []
        for people in (first, second):
            found = list(self._factors(center, self._groups.select(people)))
            place = np.empty((len(people), 2), dtype=np.intp)
            for number, (chosen, factors) in enumerate(found):
                place[chosen, 0], place[chosen, 1] = number, np.arange(len(factors))
            blocks.append([factors for _, factors in found])
            where.append(place)
        left, right = where
        kinds = left[:, 0] * len(blocks[1]) + right[:, 0]
        for kind in np.unique(kinds):
            chosen = np.flatnonzero(kinds == kind)
            one, two = divmod(int(kind), len(blocks[1]))
            yield chosen, blocks[0][one][left[chosen, 1]], blocks[1][two][right[chosen, 1]]

    def pairs(self, public_seed: int) -> GroupedRows:
        """Disjoint pairs of people in the place of people.

        The matrix of a pair is the mean of ``(x - y)(x - y)' / 2`` over the rows x of one and y of
        the other: half of the sum of their two covariances, and of the square of the difference of
        their means.
        """
        half = self.n // 2
        order = public_generator(public_seed, "pairs of records", self.n).permutation(self.n)
        first, second, pair_of = order[:half], order[half : 2 * half], np.full(self.n, half)
        pair_of[first] = pair_of[second] = np.arange(half)
        means, sizes = np.asarray(self.points.chunks), self._groups.sizes
        owners = self._groups.owners()
        with np.errstate(all="ignore"):
            # Halved before they are subtracted, so that no difference of finite numbers overflows.
            # The mean of so many outer products is a sum of terms with weights of their own.
            number = np.ones(half + 1)
            np.add.at(number, pair_of, sizes)
            roots = np.sqrt(0.5 * number[pair_of] / sizes)
            within = self._gathered(self._groups.order) * roots[owners, None]
            within -= (means * roots[:, None])[owners]
            halves = np.sqrt(0.5 * number[:half, None])
            between = means[first] * halves - means[second] * halves
        table = np.concatenate([within, between])
        ids = np.concatenate([pair_of[owners], np.arange(half)])
        matched = ids < half  # of an odd number one person is left out
        return GroupedRows(table[matched], Groups.from_ids(ids[matched]))

    # -- matrices scaled to rho <= radius ---------------------------------------------------------

    def scaled(self, center: np.ndarray, radius: float) -> Iterator[np.ndarray]:
        """Factors of people's matrices, scaled to rho <= `radius`, tile by tile."""
        (norms,) = self.squared_norms(center)
        for chosen, factors in self._factors(center):
            weights = scale_factors(norms[chosen], radius)[:, None, None]
            with np.errstate(all="ignore"):
                yield np.where(weights == 0.0, 0.0, factors * weights)

    def product_norms(
        self, center: np.ndarray, radius: float, frame: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Frobenius norms of the ``A W``, W the columns of `frame`, by tile."""
        for factors in self.scaled(center, radius):
            inside = row_products(factors.reshape(-1, self.d), frame)
            inside = inside.reshape(*factors.shape[:2], -1)
            products = np.matmul(factors.transpose(0, 2, 1), inside)
            yield np.sqrt(np.einsum("bij,bij->b", products, products))

    def scaled_squares(self, center: np.ndarray, radius: float) -> Iterator[np.ndarray]:
        """``tr A`` for each person, shape (b, 1), by tile."""
        for factors in self.scaled(center, radius):
            yield np.einsum("bij,bij->b", factors, factors)[:, None]
