"""Second moments: symmetric Gaussian noise, isotropic in the Frobenius norm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._arrays import Size
from skriemdp._mechanisms import noise
from skriemdp._validation import check_count, check_fraction, check_positive
from skriemdp.privacy._events import GaussianEvent
from skriemdp.privacy._sensitivity import Sensitivity, check_sensitivity

__all__ = ["SymmetricGaussian", "symmetric_noise_radius"]


@dataclass(frozen=True)
class SymmetricGaussian:
    """A symmetric matrix plus symmetric Gaussian noise, isotropic in the Frobenius norm.

    Parameters
    ----------
    size : int
        Rows of the matrix.
    sensitivity : Sensitivity
        Of the matrix in the Frobenius norm.
    noise_multiplier : float
        Standard deviation of the noise along every unit matrix, over `sensitivity`.
    hollow : bool, default=False
        Release the entries off the diagonal only; the diagonal of the result is zero.

    Notes
    -----
    *Guarantee*: exactly ``1 / noise_multiplier``-GDP when two neighbouring data sets attain
    `sensitivity`.  Diagonal entries get standard deviation sigma, the others ``sigma / sqrt(2)``:
    in the orthonormal basis ``E_ii, (E_ij + E_ji) / sqrt(2)`` this is the Gaussian mechanism.
    Noise of standard deviation sigma in every entry of the upper triangle, the textbook form of
    Analyze Gauss (Dwork, Talwar, Thakurta and Zhang 2014), has the same guarantee and twice the
    variance
    off the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.privacy import second_moment_sensitivity
    >>> mechanism = SymmetricGaussian(3, second_moment_sensitivity(1.0), noise_multiplier=2.0)
    >>> noisy = mechanism.release(np.eye(3), np.random.default_rng(0))
    >>> bool((noisy == noisy.T).all()), mechanism.event.mu
    (True, 0.5)
    """

    size: int
    sensitivity: Sensitivity
    noise_multiplier: float
    hollow: bool = False

    def __post_init__(self) -> None:
        check_count(size=self.size)
        check_sensitivity(self.sensitivity)
        check_positive(noise_multiplier=self.noise_multiplier)

    @property
    def sigma(self) -> float:
        """Standard deviation along every unit matrix, and of the diagonal entries."""
        return self.sensitivity.value * self.noise_multiplier

    @property
    def event(self) -> GaussianEvent:
        """Event of one release."""
        return GaussianEvent(self.noise_multiplier)

    def release(self, value: Any, rng: np.random.Generator, size: Size = ()) -> Any:
        """`value` plus noise; with `size`, that many independent releases along leading axes."""
        bound = self.sensitivity.value
        noisy = noise.draw(value, self.sigma, "symmetric", rng, size, sensitivity=bound)
        if self.hollow:
            diagonal = np.arange(self.size)
            noisy[..., diagonal, diagonal] = 0.0
        return noisy


def symmetric_noise_radius(sigma: float, size: int, level: float) -> float:
    """Bound the operator norm of symmetric noise with probability `level`.

    Parameters
    ----------
    sigma : float
        Standard deviation along every unit matrix, and of the diagonal entries.
    size : int
        Number of rows.
    level : float
        In (0, 1).

    Returns
    -------
    float
        ``sigma (sqrt(2 size) + sqrt(2 log(2 / (1 - level))))``.

    Notes
    -----
    *Proof.*  For unit vectors u, v and ``c = u.v``, noise E has ``E (u'Eu - v'Ev)^2 = sigma^2
    |uu' - vv'|^2 = 2 sigma^2 (1 - c^2) <= 4 sigma^2 (1 - c) = 2 sigma^2 |u - v|^2``, the
    last being that of the process ``sqrt(2) sigma g.u``, g standard Gaussian.  So by Sudakov and
    Fernique the largest eigenvalue is at most ``sqrt(2) sigma E |g| <= sigma sqrt(2 size)`` on
    average.  It is 1-Lipschitz in the coordinates of E along unit matrices, so it exceeds its
    average by x with probability at most ``exp(-x^2 / (2 sigma^2))`` (Borell; Tsirelson, Ibragimov
    and Sudakov).  The same holds of -E; put ``x = sigma sqrt(2 log(2 / (1 - level)))``.

    Examples
    --------
    >>> round(symmetric_noise_radius(1.0, 50, 0.95), 3)
    12.716
    """
    check_positive(sigma=sigma)
    check_count(size=size)
    check_fraction(level=level)
    return sigma * (math.sqrt(2.0 * size) + math.sqrt(2.0 * math.log(2.0 / (1.0 - level))))
