"""Isotropic noise on vectors of R^k, in orthonormal coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._arrays import Size
from skriemdp._errors import PublicValueError
from skriemdp._mechanisms import noise
from skriemdp._validation import check_positive
from skriemdp.privacy._events import GaussianEvent
from skriemdp.privacy._laplace import LaplaceEvent
from skriemdp.privacy._sensitivity import Sensitivity, check_sensitivity

__all__ = ["GaussianNoise", "LaplaceNoise"]


@dataclass(frozen=True)
class GaussianNoise:
    """Gaussian noise, the same in every orthonormal coordinate.

    Parameters
    ----------
    sensitivity : Sensitivity
        Of the vector in Euclidean norm; from a function of :mod:`skriemdp.privacy`.
    noise_multiplier : float
        Standard deviation of every coordinate over `sensitivity`.

    Raises
    ------
    TypeError
        For a sensitivity that is a bare number, without a theorem.

    Notes
    -----
    *Guarantee*: a release is exactly ``1 / noise_multiplier``-GDP when two neighbouring data sets
    attain `sensitivity`, and at most that otherwise.  In orthonormal coordinates of a tangent space
    at a public or released point this is noise isotropic in the Riemannian metric; exponential
    maps, retractions and transports of the result are post-processing.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.privacy import ball_sensitivity
    >>> mechanism = GaussianNoise(ball_sensitivity(0.01), noise_multiplier=5.0)
    >>> round(mechanism.sigma, 6), mechanism.event.mu
    (0.1, 0.2)
    >>> mechanism.release(np.zeros(3), np.random.default_rng(0)).shape
    (3,)
    """

    sensitivity: Sensitivity
    noise_multiplier: float

    def __post_init__(self) -> None:
        check_sensitivity(self.sensitivity)
        check_positive(noise_multiplier=self.noise_multiplier)

    @property
    def sigma(self) -> float:
        """Standard deviation of each coordinate."""
        return self.sensitivity.value * self.noise_multiplier

    @property
    def event(self) -> GaussianEvent:
        """Event of one release."""
        return GaussianEvent(noise_multiplier=self.noise_multiplier)

    def release(self, value: Any, rng: np.random.Generator, size: Size = ()) -> Any:
        """`value` plus noise.

        Parameters
        ----------
        value : array of shape ``(..., k)``
            Exact numbers; each of them gets noise of its own, and each costs one `event`.
        rng : numpy.random.Generator
        size : int or tuple of int, default=()
            Independent releases of the same values, along leading axes; each costs one `event`.

        Returns
        -------
        array of shape ``(*size, ..., k)``
        """
        bound = self.sensitivity.value
        return noise.draw(value, self.sigma, "gaussian", rng, size, sensitivity=bound)


@dataclass(frozen=True)
class LaplaceNoise:
    """Noise of density proportional to ``exp(-|v| / s)``.

    With ``law = laplace_law(dim, epsilon, delta)`` its mean square error is below that of Gaussian
    noise in small dimension; alone it has pure differential privacy.

    Parameters
    ----------
    sensitivity : Sensitivity
        As for :class:`GaussianNoise`.
    law : LaplaceEvent
        Dimension and ``s / sensitivity``; also what a release costs.

    Notes
    -----
    *Guarantee*: the exact profile of `law` when neighbours attain `sensitivity`, never worse
    (docs/theory/laplace-noise.md).

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.privacy import laplace_law
    >>> from skriemdp.privacy import ball_sensitivity
    >>> law = laplace_law(dim=2, epsilon=1.0, delta=0.0)
    >>> mechanism = LaplaceNoise(ball_sensitivity(0.01), law)
    >>> mechanism.release(np.zeros(2), np.random.default_rng(0)).shape
    (2,)
    """

    sensitivity: Sensitivity
    law: LaplaceEvent

    def __post_init__(self) -> None:
        check_sensitivity(self.sensitivity)

    @property
    def scale(self) -> float:
        """s, in the units of the vector."""
        return self.sensitivity.value * self.law.scale_over_sensitivity

    @property
    def sigma(self) -> float:
        """Standard deviation of each coordinate."""
        variance = self.law.mean_square_over_sensitivity / self.law.dim
        return self.sensitivity.value * math.sqrt(variance)

    @property
    def event(self) -> LaplaceEvent:
        """Event of one release."""
        return self.law

    def release(self, value: Any, rng: np.random.Generator, size: Size = ()) -> Any:
        """`value` plus noise; arguments as in :meth:`GaussianNoise.release`."""
        if value.shape[-1] != self.law.dim:
            raise PublicValueError(
                f"law.dim={self.law.dim}, but the vector has {value.shape[-1]} coordinates; "
                "calibrate the law for that dimension."
            )
        presence = self.sensitivity.presence
        return noise.draw(
            value,
            self.scale,
            "radial",
            rng,
            size,
            sensitivity=self.sensitivity.value,
            presence=presence if math.isfinite(presence) else None,
            grid=self.sigma,
        )
