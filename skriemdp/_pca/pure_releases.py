"""Private releases of a principal subspace with pure privacy, ``delta = 0``."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skriemdp._mechanisms.bingham import ExponentialDirection
from skriemdp._mechanisms.pure_covariance import PureSymmetric
from skriemdp._pca.releases import MOMENT, Directions, Release, Subspace, exact_moment, from_matrix
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


@dataclass(frozen=True)
class ExponentialRelease(Directions):
    """Directions from the exponential mechanism, one after the other; pure differential privacy.

    *Guarantee*: the epsilons of the directions and variances add up.  Each direction is drawn for
    the records projected off the earlier ones, which shortens them.
    """

    name, law = "directions", "exponential"

    def dim(self, d: int) -> int:
        return d

    def frame(
        self, found: Bounds, budget: Budget, share: float, streams: Streams
    ) -> tuple[np.ndarray, float]:
        d = found.rows.d
        gram, longest = exact_moment(found.rows, found.center, found.row_norm)
        rest, frame = np.eye(d), np.zeros((d, 0))
        for index in range(self.n_components):
            # Coordinates of the orthogonal complement keep the law on its unit sphere.
            epsilon = budget.take(share / self.n_components, self.name, d, self.law)
            mechanism = ExponentialDirection(epsilon, longest)
            inside = mechanism.release(rest.T @ gram @ rest, streams("direction", index))
            direction = rest @ inside
            frame = np.column_stack([frame, direction])
            rest = np.linalg.svd(frame, full_matrices=True)[0][:, index + 1 :]
        return frame, math.nan

    def check(self, mu: float, d: int, people: bool) -> None:
        """Nothing is added in integers."""
