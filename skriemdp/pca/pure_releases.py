"""Private releases of a principal subspace with pure privacy, ``delta = 0``."""

from __future__ import annotations

import math

import numpy as np

from skriemdp._dataclasses import dataclass
from skriemdp.mechanisms.pure_covariance import PureSymmetric
from skriemdp.pca.bounds import Budget, Records, Streams
from skriemdp.pca.releases import _MOMENT, Subspace, _from_matrix, exact_moment
from skriemdp.privacy.sensitivity import trace_part_sensitivity

__all__ = ["PureCovarianceRelease"]


@dataclass(frozen=True)
class PureCovarianceRelease:
    """Eigenvectors of the clipped second moment plus symmetric noise with pure privacy.

    *Guarantee*: that of :class:`PureSymmetric` at sensitivity ``row_norm^2 / n``; the eigenvectors
    and eigenvalues of the released matrix are post-processing, however many are used.
    """

    n_components: int

    def reserve(self, budget: Budget, d: int) -> None:
        """Take from the budget of a plan what the search leaves."""
        budget.rest(_MOMENT, d**2)

    def release(
        self, rows: Records, center: np.ndarray, row_norm: float, budget: Budget, streams: Streams
    ) -> Subspace:
        total, longest = exact_moment(rows, center, row_norm)
        sensitivity = trace_part_sensitivity(longest, rows.n)
        mechanism = PureSymmetric(rows.d, sensitivity, budget.rest(_MOMENT, rows.d**2))
        matrix = mechanism.release(total / rows.n, streams("second moment"))
        return _from_matrix(matrix, math.sqrt(2.0) * mechanism.entry_scale, self.n_components)
