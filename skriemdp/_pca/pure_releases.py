"""Private releases of a principal subspace with pure privacy, ``delta = 0``."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skriemdp._mechanisms.pure_covariance import PureSymmetric
from skriemdp._pca.releases import MOMENT, Release, Subspace, exact_moment, from_matrix
from skriemdp._pca.search_releases import Bounds, Budget, Streams
from skriemdp.privacy._sensitivity import trace_part_sensitivity


@dataclass(frozen=True)
class PureCovarianceRelease(Release):
    """Eigenvectors of the clipped second moment plus symmetric noise with pure privacy.

    *Guarantee*: that of :class:`PureSymmetric` at sensitivity ``row_norm^2 / n``; the eigenvectors
    and eigenvalues of the released matrix are post-processing, however many are used.
    """

    def release(self, found: Bounds, budget: Budget, streams: Streams) -> Subspace:
        rows = found.rows
        total, longest = exact_moment(rows, found.center, found.row_norm)
        sensitivity = trace_part_sensitivity(longest, rows.n)
        mechanism = PureSymmetric(rows.d, sensitivity, budget.rest(MOMENT, rows.d**2))
        matrix = mechanism.release(total / rows.n, streams("second moment"))
        return from_matrix(matrix, math.sqrt(2.0) * mechanism.entry_scale, self.n_components)

    def reserve(self, budget: Budget, d: int, people: bool) -> None:
        budget.rest(MOMENT, d**2)
