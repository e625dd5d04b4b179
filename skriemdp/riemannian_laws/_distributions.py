"""Riemannian Gaussian and Laplace laws: exact draws, moments, densities; no Markov chain."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from skriemdp._arrays import array_namespace, device
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._validation import check_generator, check_positive
from skriemdp.geometry import _symmetric as sym
from skriemdp.geometry._base import Geometry, SymmetricSpace, check_geometry
from skriemdp.geometry._hyperbolic import Hyperboloid
from skriemdp.riemannian_laws._distributions_matrix import (
    sample_gaussian_logarithms,
    sample_laplace_logarithms,
    volume_growth,
)
from skriemdp.riemannian_laws._distributions_radial import RadialTable

__all__ = ["RiemannianGaussian", "RiemannianLaplace"]


class _RadialLaw(abc.ABC):
    """Shared by both laws: density ``exp(-(dist / length)**power / power)``, directions uniform."""

    geometry: Geometry
    _power: ClassVar[int]
    # Logarithms of draws at the identity of SPD matrices: of their size, the length, how many.
    _matrix_logarithms: ClassVar[Callable[..., np.ndarray]]

    @property
    @abc.abstractmethod
    def _length(self) -> float:
        """Parameter of the law that is a length."""

    def _potential(self, r: np.ndarray) -> np.ndarray:
        """Minus the log density at distance r, up to a constant."""
        return (r / self._length) ** self._power / self._power

    def _check(self) -> None:
        check_geometry(self.geometry)
        space = self.geometry.symmetric_space
        if space is None:
            raise PublicTypeError(
                f"there is no exact sampler for {type(self).__name__} on {self.geometry}: spheres, "
                "hyperbolic, flat and affine-invariant SPD spaces have one.  Elsewhere add noise "
                "in a tangent space: geometry.exp_coordinates(point, noise)."
            )
        if space.name == "spd" and space.size > 10:
            raise PublicValueError(
                f"the sampler is meant for matrices up to 10 x 10, got {space.size}: "
                "rejection becomes slow beyond.  Add noise in a tangent space instead."
            )

    @property
    def _space(self) -> SymmetricSpace:
        space = self.geometry.symmetric_space
        assert space is not None  # _check refuses others
        return space

    @property
    def _of_matrices(self) -> bool:
        return self._space.name == "spd"

    @property
    def _table(self) -> RadialTable:
        if self._of_matrices:
            raise PublicTypeError(f"the radius of {self} has no one-dimensional density.")
        return _table(self)

    def sample(
        self, center: np.ndarray, size: int | tuple[int, ...], rng: np.random.Generator
    ) -> np.ndarray:
        """Independent draws.

        Parameters
        ----------
        center : array of shape ``shape``
        size : int or tuple of int
        rng : numpy.random.Generator

        Returns
        -------
        array of shape ``(*size, *shape)``

        Raises
        ------
        ValueError
            If more than 1e-13 of the law lies where no floating-point array can hold the point.
        """
        xp = array_namespace(center)
        self.check_representable(xp.finfo(center.dtype).bits)
        coordinates = self.sample_coordinates(size, rng)
        coordinates = xp.asarray(coordinates, dtype=center.dtype, device=device(center))
        return self.geometry.exp_coordinates(center, coordinates)

    def check_representable(self, bits: int = 64) -> None:
        """Raise ValueError if more than 1e-13 of the law lies beyond what points can hold."""
        reach = self.geometry.reach.representable[0 if bits == 64 else 1]
        if reach == math.inf:
            return
        widest = self._matrix_reach() if self._of_matrices else self.distance_quantile(1.0 - 1e-13)
        if widest > reach:
            raise PublicValueError(
                f"{self} is too wide: some of its draws have no floating-point representation on "
                f"{self.geometry}.  Use less noise (a larger data set or epsilon), a tangent-space "
                "mechanism, or sample_coordinates."
            )

    @abc.abstractmethod
    def _matrix_reach(self) -> float:
        """Largest gap of log-eigenvalues but for about 1e-13 of the law; an estimate."""

    def sample_coordinates(
        self, size: int | tuple[int, ...], rng: np.random.Generator
    ) -> np.ndarray:
        """Normal coordinates of draws at any centre, ndarray ``(*size, dim)``; norm = distance.

        They keep full accuracy where the points themselves lose it (far out in hyperbolic space).
        """
        check_generator(rng)
        size = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
        if self._of_matrices:
            count = math.prod(size)
            logarithms = self._matrix_logarithms(self._space.size, self._length, count, rng)
            return sym.pack(np, logarithms).reshape(*size, self.geometry.dim)
        radius = self._table.sample(size, rng)[..., None]
        direction = rng.standard_normal((*size, self.geometry.dim))
        return direction * (radius / np.linalg.norm(direction, axis=-1, keepdims=True))

    def log_density(self, center: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Log density of `points` with respect to the Riemannian volume, shape ``(...)``.

        Raises TypeError on SPD matrices, where the normaliser has no simple form.
        """
        normaliser, dim = self._table.log_normaliser, self.geometry.dim
        sphere = math.log(2.0) + 0.5 * dim * math.log(math.pi) - gammaln(0.5 * dim)
        distance = self.geometry.dist(center, points)
        return -self._potential(distance) - (normaliser + float(sphere))

    def expected_distance(self) -> float:
        """Mean geodesic distance to the centre."""
        return self._table.mean(lambda r: r)

    def mean_squared_distance(self) -> float:
        """Mean squared geodesic distance to the centre."""
        if self._of_matrices and self._space.size == 2:
            return self._matrix_mean_square()
        return self._table.mean(lambda r: r * r)

    def distance_quantile(self, probability: float) -> float:
        """Geodesic distance that a draw does not exceed with this probability."""
        return float(self._table.ppf(probability))

    def _matrix_mean_square(self) -> float:
        raise PublicTypeError(f"the mean squared distance of {self} has no simple form.")


@dataclass(frozen=True)
class RiemannianGaussian(_RadialLaw):
    """Density proportional to ``exp(-dist(y, center)**2 / (2 sigma**2))``.

    Parameters
    ----------
    geometry : Geometry
        Sphere, circle, Euclidean or other flat space, hyperbolic space, or affine-invariant SPD
        matrices up to 10 x 10.
    sigma : float
        In geodesic distance.

    Notes
    -----
    On spaces of constant curvature the distance to the centre is drawn by its inverse distribution
    function and the direction uniformly.  SPD draws come from the better of two exact rejection
    samplers (docs/theory/riemannian-gdp.md, "Samplers").

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Hyperboloid
    >>> from skriemdp.riemannian_laws import RiemannianGaussian
    >>> law = RiemannianGaussian(Hyperboloid(2), sigma=0.5)
    >>> law.sample(law.geometry.base_point, 4, np.random.default_rng(0)).shape
    (4, 3)
    >>> round(law.mean_squared_distance(), 4)        # more than dim * sigma**2 = 0.5
    0.5424
    """

    geometry: Geometry
    sigma: float
    _power = 2
    _matrix_logarithms = staticmethod(sample_gaussian_logarithms)

    def __post_init__(self) -> None:
        check_positive(sigma=self.sigma)
        self._check()

    @property
    def _length(self) -> float:
        return self.sigma

    def _matrix_reach(self) -> float:
        return (self._space.size - 1) * self.sigma**2 + 10.6 * self.sigma

    def _matrix_mean_square(self) -> float:
        # SPD(2) is isometric to R x H^2(-1/2), and the law is a product.
        plane = RiemannianGaussian(Hyperboloid(2, -0.5), self.sigma)
        return self.sigma**2 + plane.mean_squared_distance()


@dataclass(frozen=True)
class RiemannianLaplace(_RadialLaw):
    """Density proportional to ``exp(-dist(y, center) / scale)``.

    Parameters
    ----------
    geometry : Geometry
        As for :class:`RiemannianGaussian`.
    scale : float
        In geodesic distance.

    Raises
    ------
    ValueError
        Where volume grows faster than the density falls: ``1 / scale`` must exceed ``(dim - 1)
        sqrt(-curvature)`` on hyperbolic space, and ``sqrt(m (m**2 - 1) / 12)`` on m x m SPD
        matrices.

    Examples
    --------
    >>> from skriemdp.geometry import SPD
    >>> from skriemdp.riemannian_laws import RiemannianLaplace
    >>> RiemannianLaplace(SPD(2), scale=1.5)
    Traceback (most recent call last):
        ...
    skriemdp._errors.PublicValueError: there is no Laplace law of scale=1.5 on \
AffineInvariantSPD(size=2): volume grows like exp(0.707107 r), \
so 1 / scale must exceed 0.707107, that is scale < 1.41421.
    """

    geometry: Geometry
    scale: float
    _power = 1
    _matrix_logarithms = staticmethod(sample_laplace_logarithms)

    def __post_init__(self) -> None:
        check_positive(scale=self.scale)
        self._check()
        space = self._space
        if self._of_matrices:
            growth = volume_growth(space.size)
        elif space.name == "hyperbolic":
            growth = (space.dim - 1) * math.sqrt(-space.curvature)
        else:
            growth = 0.0
        if self.scale * growth >= 1.0:
            raise PublicValueError(
                f"there is no Laplace law of scale={self.scale!r} on {self.geometry}: volume grows "
                f"like exp({growth:.6g} r), so 1 / scale must exceed {growth:.6g}, that is "
                f"scale < {1.0 / growth:.6g}."
            )

    @property
    def _length(self) -> float:
        return self.scale

    def _matrix_reach(self) -> float:
        dim = self.geometry.dim
        excess = 1.0 / self.scale - volume_growth(self._space.size)
        return math.sqrt(2.0) * (30.0 + 0.5 * dim) / excess


@functools.lru_cache(maxsize=128)
def _table(law: _RadialLaw) -> RadialTable:
    """Law of the distance to the centre, ``exp(-potential) S(r)**(dim - 1)``."""
    space = law._space
    n, root = space.dim - 1, math.sqrt(abs(space.curvature))
    sphere = space.name == "sphere"
    if sphere or space.name == "euclidean" or n == 0:

        def on_others(r: np.ndarray) -> np.ndarray:
            reach = np.sin(root * r) / root if sphere else r
            return (n * np.log(reach) if n else 0.0) - law._potential(r)

        return RadialTable(on_others, law._length, math.pi / root if sphere else math.inf)

    def on_hyperbolic(r: np.ndarray) -> np.ndarray:
        # exp(n r) joined with the potential: for wide laws both are huge.
        x = root * r
        curved = n * (np.log(-np.expm1(-2.0 * x)) - math.log(2.0 * root))
        if isinstance(law, RiemannianLaplace):
            return curved - (1.0 - n * root * law.scale) / law.scale * r
        assert isinstance(law, RiemannianGaussian)
        return curved + (n * root - 0.5 * r / law.sigma**2) * r

    return RadialTable(on_hyperbolic, law._length)
