"""Second moments: symmetric Gaussian noise, isotropic in the Frobenius norm; joint moments."""

from __future__ import annotations

import dataclasses

import numpy as np

from skriemdp._validation import check_count, check_positive
from skriemdp.mechanisms import noise
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.sensitivity import (
    Sensitivity,
    check_sensitivity,
    joint_moment_sensitivity,
)

__all__ = [
    "JointMoments",
    "SymmetricGaussian",
]


@dataclasses.dataclass(frozen=True)
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
    >>> from skriemdp.privacy.sensitivity import second_moment_sensitivity
    >>> mechanism = SymmetricGaussian(3, second_moment_sensitivity(1.0), noise_multiplier=2.0)
    >>> noisy = mechanism.release(np.eye(3), np.random.default_rng(0))
    >>> bool((noisy == noisy.T).all()), mechanism.event.mu
    (True, 0.5)
    """

    size: int
    sensitivity: Sensitivity
    noise_multiplier: float
    hollow: bool = False

    def __post_init__(self):
        check_count(size=self.size)
        check_sensitivity(self.sensitivity)
        check_positive(noise_multiplier=self.noise_multiplier)

    @property
    def sigma(self) -> float:
        """Standard deviation along every unit matrix, and of the diagonal entries."""
        return self.sensitivity.value * self.noise_multiplier

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return GaussianEvent(self.noise_multiplier)

    def release(self, matrix, rng, size=()):
        """`matrix` plus noise; with `size`, that many independent releases along leading axes."""
        bound = self.sensitivity.value
        noisy = noise.draw(matrix, self.sigma, "symmetric", rng, size, sensitivity=bound)
        if self.hollow:
            diagonal = np.arange(self.size)
            noisy[..., diagonal, diagonal] = 0.0
        return noisy


@dataclasses.dataclass(frozen=True)
class JointMoments:
    """Second moments of features and their products with targets, in one release.

    Released together they need less noise than apart.  With the constant target 1 the second block
    is the sum of the features: second moment and mean for the price of little more than the first.

    Parameters
    ----------
    feature_norm, target_norm : float
        Public bounds of ``|x|`` and ``|y|`` for every record; rows must have been clipped to them.
    noise_multiplier : float
        Standard deviation of the noise over the sensitivity of the pair.
    weight : float, optional
        Of the second block against the first: larger means less noise on the products and more on
        the second moments.  By default ``feature_norm / target_norm``, which puts the same noise on
        both in units of their bounds.

    Notes
    -----
    *Guarantee*: exactly ``1 / noise_multiplier``-GDP in the worst case, replacement of one record;
    :func:`joint_moment_sensitivity` is attained.

    Examples
    --------
    >>> mechanism = JointMoments(feature_norm=1.0, target_norm=2.0, noise_multiplier=4.0)
    >>> mechanism.event.mu, round(mechanism.moment_sigma, 3), round(mechanism.product_sigma, 3)
    (0.25, 8.485, 16.971)
    """

    feature_norm: float
    target_norm: float
    noise_multiplier: float
    weight: float | None = None

    def __post_init__(self):
        check_positive(
            feature_norm=self.feature_norm,
            target_norm=self.target_norm,
            noise_multiplier=self.noise_multiplier,
        )
        if self.weight is not None:
            check_positive(weight=self.weight)

    @property
    def _weight(self):
        return self.feature_norm / self.target_norm if self.weight is None else self.weight

    @property
    def sensitivity(self) -> Sensitivity:
        """Of ``(sum x x', weight * sum x y')`` in the Frobenius norm."""
        return joint_moment_sensitivity(self.feature_norm, self.target_norm, self._weight)

    @property
    def moment_sigma(self) -> float:
        """Standard deviation of the noise on ``sum x x'`` along every unit matrix."""
        return self.sensitivity.value * self.noise_multiplier

    @property
    def product_sigma(self) -> float:
        """Standard deviation of the noise on every entry of ``sum x y'``."""
        return self.moment_sigma / self._weight

    @property
    def event(self) -> GaussianEvent:
        """What one release of both blocks costs."""
        return GaussianEvent(self.noise_multiplier)

    def release(self, moment, product, rng, size=()):
        """Noisy ``sum x x'`` (symmetric) and ``sum x y'``.

        Parameters
        ----------
        moment : ndarray of shape (p, p)
        product : ndarray of shape (p, q)
            Or (p,).
        rng : numpy.random.Generator
        size : int or tuple of int, default=()
            Independent releases along leading axes, each of which costs one `event`.
        """
        scales = self.moment_sigma, self.product_sigma
        bounds = self.sensitivity.value, self.sensitivity.value / self._weight
        laws = "symmetric", "gaussian"
        return noise.draw((moment, product), scales, laws, rng, size, sensitivity=bounds)
