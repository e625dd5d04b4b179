"""Second moments: symmetric Gaussian noise, isotropic in the Frobenius norm."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp._validation import check_count, check_positive
from skriemdp.privacy.events import GaussianEvent

__all__ = ["SymmetricGaussian", "second_moment_sensitivity"]


def second_moment_sensitivity(row_norm: float, n: int) -> float:
    """Largest Frobenius change of ``(1/n) sum z z'``, all ``|z| <= row_norm``, replacing one row.

    ``|z z' - y y'|_F^2 = |z|^4 + |y|^4 - 2 (z'y)^2 <= 2 row_norm^4``, attained by orthogonal rows.
    """
    return math.sqrt(2.0) * row_norm**2 / n


@dataclasses.dataclass(frozen=True)
class SymmetricGaussian:
    """A symmetric matrix plus symmetric Gaussian noise, isotropic in the Frobenius norm.

    Parameters
    ----------
    size : int
        Rows of the matrix.
    sensitivity : float
        Bound of the Frobenius norm of the change when one record is replaced.
    noise_multiplier : float
        Standard deviation of the noise along every unit matrix, over `sensitivity`.

    Notes
    -----
    *Guarantee*: exactly ``1 / noise_multiplier``-GDP when two neighbouring data sets attain
    `sensitivity`.  Diagonal entries get standard deviation sigma, the others ``sigma / sqrt(2)``:
    in the orthonormal basis ``E_ii, (E_ij + E_ji) / sqrt(2)`` this is the Gaussian mechanism.  Noise
    of standard deviation sigma in every entry of the upper triangle, the textbook form of Analyze
    Gauss (Dwork, Talwar, Thakurta and Zhang 2014), has the same guarantee and twice the variance
    off the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = SymmetricGaussian(3, sensitivity=0.1, noise_multiplier=2.0)
    >>> noisy = mechanism.release(np.eye(3), np.random.default_rng(0))
    >>> bool((noisy == noisy.T).all()), mechanism.event.mu
    (True, 0.5)
    """

    size: int
    sensitivity: float
    noise_multiplier: float

    def __post_init__(self):
        check_count(size=self.size)
        check_positive(sensitivity=self.sensitivity, noise_multiplier=self.noise_multiplier)

    @property
    def sigma(self) -> float:
        """Standard deviation along every unit matrix, and of the diagonal entries."""
        return self.sensitivity * self.noise_multiplier

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return GaussianEvent(self.noise_multiplier)

    def release(self, matrix, rng, size=()):
        """`matrix` plus noise; with `size`, that many independent releases along leading axes."""
        size = (size,) if isinstance(size, int) else tuple(size)
        noise = rng.standard_normal((*size, self.size, self.size))
        # (G + G') / 2 of independent entries: variance 1 on the diagonal, 1/2 off it.
        noise = (noise + np.swapaxes(noise, -1, -2)) * (0.5 * self.sigma)
        noisy = matrix + noise
        return 0.5 * (noisy + np.swapaxes(noisy, -1, -2))
