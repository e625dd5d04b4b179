"""Second moments that clients release, each with noise of its own, and what their sum says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._location_scale.row_releases import RowRecords
from skriemdp._location_scale.rows import records_of
from skriemdp._mechanisms.bounded_sets import Moment
from skriemdp._mechanisms.counts import GaussianCount
from skriemdp._mechanisms.units import Units
from skriemdp._pca.releases import MOMENT, Subspace, from_matrix, noisy_matrix
from skriemdp._pca.search_releases import Bounds, Budget, Streams, count_share


@dataclass(frozen=True)
class CovarianceSums:
    """The release of :class:`CovarianceRelease` in two halves: noisy sums, and what they say.

    Parameters
    ----------
    n_components, dim : int
    row_norm : float
        Public bound of the rows, which are taken as centred at zero.
    mu : float
        Of the matrix.
    count : GaussianCount
        Noise for the number of longer rows.
    people : bool, default=False
        Whether records are people who own several rows.

    Notes
    -----
    *Guarantee*: that of the matrix and `count` together, for each table by itself.
    """

    n_components: int
    dim: int
    row_norm: float
    mu: float
    count: GaussianCount
    people: bool = False

    @classmethod
    def planned(
        cls, k: int, d: int, row_norm: float, people: bool, budget: Budget
    ) -> CovarianceSums:
        """Plan it with all of a Gaussian budget."""
        count: Any = budget.count(count_share(budget))
        return cls(k, d, row_norm, budget.rest(MOMENT, d**2), count, people)

    @property
    def size(self) -> int:
        """Number of sums."""
        return 1 + self.dim**2

    @property
    def center(self) -> np.ndarray:
        """Zero, which is public."""
        return np.zeros(self.dim)

    def noisy(self, records: Units, streams: Streams) -> np.ndarray:
        """Number of records that are shortened, and the sum of their matrices; one noisy vector.

        A row's matrix is ``z z'``, a person's the mean of those of own rows.
        """
        rows = records_of(records, by_trace=False)
        found = Bounds(rows, self.center, self.row_norm, self.center)
        longer = int(np.count_nonzero(RowRecords(rows).outside(self.center, self.row_norm)))
        noisy = self.count.release(longer, streams("clipped fraction"))
        moment, _ = noisy_matrix(found, self.mu, streams("second moment"))
        return np.concatenate([[noisy], rows.n * moment.ravel()])

    def finish(self, noisy: np.ndarray, n: int, n_tables: int) -> Subspace:
        """The subspace of noisy sums over so many tables, of n records in all."""
        bounded_set = Moment(self.row_norm, self.dim, self.people)
        sigma = math.sqrt(n_tables) * bounded_set.sigma(bounded_set.check(self.mu)) / n
        matrix = noisy[1:].reshape(self.dim, self.dim) / n
        return from_matrix(matrix, sigma, self.n_components)
