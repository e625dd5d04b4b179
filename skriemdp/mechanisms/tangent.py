"""Isotropic noise in one tangent space; curvature plays no part in its privacy."""

from __future__ import annotations

import dataclasses
import math

from array_api_compat import array_namespace

from skriemdp._validation import check_positive
from skriemdp.geometry.base import Geometry
from skriemdp.mechanisms import noise
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.radial import RadialEvent

__all__ = ["TangentGaussian", "TangentRadial"]


@dataclasses.dataclass(frozen=True)
class TangentGaussian:
    """Gaussian noise, isotropic in the Riemannian metric of one tangent space.

    Parameters
    ----------
    geometry : Geometry
    sensitivity : float
        Bound of ``|v - v'|`` in the metric at the point of the release, over data sets that differ
        in one replaced record.
    noise_multiplier : float
        Standard deviation of every orthonormal coordinate over `sensitivity`.

    Notes
    -----
    *Guarantee*: a release is exactly ``1 / noise_multiplier``-GDP when two neighbouring data sets
    attain `sensitivity`, and at most that otherwise, if the point is public or already released.
    The orthonormal basis depends on the point only, so in its coordinates this is the Gaussian
    mechanism of R^dim; exponential maps, retractions and transports of the result are
    post-processing.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Sphere
    >>> mechanism = TangentGaussian(Sphere(2), sensitivity=0.02, noise_multiplier=5.0)
    >>> mechanism.sigma, mechanism.event.mu
    (0.1, 0.2)
    >>> pole = np.array([0.0, 0.0, 1.0])
    >>> mechanism.release(pole, np.zeros(3), np.random.default_rng(0)).shape
    (3,)
    """

    geometry: Geometry
    sensitivity: float
    noise_multiplier: float

    def __post_init__(self):
        check_positive(sensitivity=self.sensitivity, noise_multiplier=self.noise_multiplier)

    @property
    def sigma(self) -> float:
        """Standard deviation of each orthonormal tangent coordinate, in geodesic distance."""
        return self.sensitivity * self.noise_multiplier

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return GaussianEvent(noise_multiplier=self.noise_multiplier)

    def release(self, point, tangent_vector, rng, size=()):
        """`tangent_vector` plus noise.

        Parameters
        ----------
        point : array of shape ``(*shape)`` or ``(..., *shape)``
            Public or already released.
        tangent_vector : array of shape ``(..., *shape)``
            Exact values; each of them gets noise of its own, and each costs one `event`.
        rng : numpy.random.Generator
        size : int or tuple of int, default=()
            Independent releases of the same values, along leading axes; each costs one `event`.

        Returns
        -------
        array of shape ``(*size, ..., *shape)``
        """
        return _release(self, "gaussian", self.sigma, point, tangent_vector, rng, size)


@dataclasses.dataclass(frozen=True)
class TangentRadial:
    """Noise of density proportional to ``exp(-(|v|/b)^p)`` in one tangent space.

    With ``law = best_radial_law(dim, epsilon, delta)`` its mean square error is the smallest of the
    family at (epsilon, delta): below Gaussian noise, much below it in small dimension; exponent 1
    is Laplace-like noise with pure differential privacy.

    Parameters
    ----------
    geometry : Geometry
    sensitivity : float
        As for :class:`TangentGaussian`.
    law : RadialEvent
        Exponent and ``b / sensitivity``, for ``dim = geometry.dim``; also what a release costs.

    Notes
    -----
    *Guarantee*: the exact profile of `law` when neighbours attain `sensitivity`, never worse
    (docs/theory/radial-noise.md), if the point is public or already released.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Sphere
    >>> from skriemdp.privacy.radial import best_radial_law
    >>> law = best_radial_law(dim=2, epsilon=1.0, delta=0.0)
    >>> mechanism = TangentRadial(Sphere(2), sensitivity=0.02, law=law)
    >>> pole = np.array([0.0, 0.0, 1.0])
    >>> mechanism.release(pole, np.zeros(3), np.random.default_rng(0)).shape
    (3,)
    """

    geometry: Geometry
    sensitivity: float
    law: RadialEvent

    def __post_init__(self):
        check_positive(sensitivity=self.sensitivity)
        if self.law.dim != self.geometry.dim:
            raise ValueError(
                f"law.dim={self.law.dim}, but tangent spaces of {self.geometry} have dimension "
                f"{self.geometry.dim}; calibrate the law for that dimension."
            )

    @property
    def scale(self) -> float:
        """b, in geodesic distance."""
        return self.sensitivity * self.law.scale_over_sensitivity

    @property
    def sigma(self) -> float:
        """Standard deviation of each orthonormal tangent coordinate, in geodesic distance."""
        return self.sensitivity * math.sqrt(self.law.mean_square_over_sensitivity / self.law.dim)

    @property
    def event(self) -> RadialEvent:
        """What one release costs."""
        return self.law

    def release(self, point, tangent_vector, rng, size=()):
        """`tangent_vector` plus noise; arguments as in :meth:`TangentGaussian.release`."""
        exponent = self.law.exponent
        return _release(
            self, "radial", self.scale, point, tangent_vector, rng, size, exponent=exponent
        )


def _release(mechanism, law, scale, point, tangent_vector, rng, size, **shape):
    geometry = mechanism.geometry
    xp = array_namespace(tangent_vector)
    if not xp.isdtype(tangent_vector.dtype, "real floating"):
        raise TypeError(f"tangent_vector must be real floating, got {tangent_vector.dtype}.")
    coordinates = geometry.coordinates_from_tangent(point, tangent_vector)
    bound, grid = mechanism.sensitivity, mechanism.sigma
    noisy = noise.draw(coordinates, scale, law, rng, size, sensitivity=bound, grid=grid, **shape)
    return geometry.tangent_from_coordinates(point, noisy)
