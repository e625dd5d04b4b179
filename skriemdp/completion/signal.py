"""Is there a subspace worth paying for?  A private scalar that tells."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from skriemdp._validation import check_count, check_positive
from skriemdp.completion.problem import normalized_rows
from skriemdp.mechanisms.vector import GaussianNoise
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.sensitivity import leading_eigenvalues_sensitivity

__all__ = ["SignalTest"]

# Lanczos iterations stop at the precision of the machine; on spectra with many equal eigenvalues
# their sum was off by 2e-10 at most.
_TOLERANCE = 1e-6


@dataclasses.dataclass(frozen=True)
class SignalTest:
    """Noisy sum of the `rank` largest eigenvalues of the hollow moment of the normalised rows.

    Parameters
    ----------
    rank : int
    noise_multiplier : float
        Noise over the sensitivity, 2.

    Notes
    -----
    *Guarantee*: ``1 / noise_multiplier``-GDP.  The sum is ``max tr(U' M U)`` over orthonormal U of
    `rank` columns, and a row z with ``|z| <= 1`` adds ``|U'z|^2 - sum_j z_j^2 |U_j|^2`` to it,
    which lies in [-1, 1]; the maximum of functions that move by at most 2 moves by at most 2.  Only
    one number is released, so it does not feel the dimension, unlike the matrix.
    Time O(nnz rank) per iteration of Lanczos, no d x d matrix.
    """

    rank: int
    noise_multiplier: float

    def __post_init__(self):
        check_count(rank=self.rank)
        check_positive(noise_multiplier=self.noise_multiplier)

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return self._noise.event

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise."""
        return self._noise.sigma

    @property
    def _noise(self):
        return GaussianNoise(leading_eigenvalues_sensitivity(_TOLERANCE), self.noise_multiplier)

    def release(self, matrix, start, rng) -> float:
        """The noisy sum; `start` is a public vector of length d, where the iteration begins."""
        exact = self.value(matrix, start)
        return float(self._noise.release(exact, rng))

    def value(self, matrix, start) -> float:
        """The exact sum, not private."""
        d = matrix.shape[1]
        rows = normalized_rows(matrix)
        diagonal = np.bincount(rows.indices, weights=rows.data**2, minlength=d)
        if d > 2 * self.rank + 2 and len(rows.data):
            operator = LinearOperator(
                (d, d), matvec=lambda x: rows.T @ (rows @ x) - diagonal * x, dtype=float
            )
            try:
                options = {"k": self.rank, "which": "LA", "return_eigenvectors": False}
                return float(eigsh(operator, v0=start, **options).sum())
            except ArpackError:  # whether it converges depends on the records: nobody may know
                pass
        moment = (rows.T @ rows).toarray() - np.diag(diagonal)
        return float(np.sort(np.linalg.eigvalsh(moment))[-self.rank :].sum())
