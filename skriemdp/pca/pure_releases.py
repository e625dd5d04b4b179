"""Private releases of a principal subspace with pure privacy, ``delta = 0``."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp.mechanisms.pure_covariance import PureSymmetric
from skriemdp.pca.bounds import Budget, Records, Streams
from skriemdp.pca.releases import Subspace, _from_matrix
from skriemdp.privacy.sensitivity import trace_part_sensitivity

__all__ = ["PureCovarianceRelease"]


@dataclasses.dataclass(frozen=True)
class PureCovarianceRelease:
    """Eigenvectors of the clipped second moment plus symmetric noise with pure privacy.

    *Guarantee*: that of :class:`PureSymmetric` at sensitivity ``row_norm^2 / n``; the eigenvectors
    and eigenvalues of the released matrix are post-processing, however many are used.
    People's matrices have to be bounded by their traces: ``GroupedRows(by_trace=True)``.
    """

    n_components: int

    def release(
        self, rows: Records, center: np.ndarray, row_norm: float, budget: Budget, streams: Streams
    ) -> Subspace:
        sensitivity = trace_part_sensitivity(row_norm, rows.n)
        mechanism = PureSymmetric(rows.d, sensitivity, budget.rest())
        moment = rows.clipped_gram(center, row_norm) / rows.n
        matrix = mechanism.release(moment, streams("second moment"))
        return _from_matrix(matrix, math.sqrt(2.0) * mechanism.entry_scale, self.n_components)
