"""Isotropic noise in one tangent space; curvature plays no part in its privacy."""

from __future__ import annotations

import dataclasses

from array_api_compat import array_namespace, device

from skriemdp._validation import check_positive
from skriemdp.geometry.base import Geometry
from skriemdp.privacy.events import GaussianEvent

__all__ = ["TangentGaussian"]


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
        shape = _coordinate_shape(self.geometry, tangent_vector, size)
        noise = self.sigma * rng.standard_normal(shape)
        return _add(self.geometry, point, tangent_vector, noise)


def _coordinate_shape(geometry, tangent_vector, size):
    size = (size,) if isinstance(size, int) else tuple(size)
    batch = tuple(tangent_vector.shape)[: tangent_vector.ndim - geometry.point_ndim]
    return (*size, *batch, geometry.dim)


def _add(geometry, point, tangent_vector, coordinates):
    xp = array_namespace(tangent_vector)
    if not xp.isdtype(tangent_vector.dtype, "real floating"):
        raise TypeError(f"tangent_vector must be real floating, got {tangent_vector.dtype}.")
    coordinates = xp.asarray(coordinates, dtype=tangent_vector.dtype, device=device(tangent_vector))
    return tangent_vector + geometry.tangent_from_coordinates(point, coordinates)
