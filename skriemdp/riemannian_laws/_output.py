"""Output perturbation: the statistic itself is replaced by a draw from a law around it."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skriemdp._arrays import Size
from skriemdp._errors import PublicValueError
from skriemdp._mechanisms import noise
from skriemdp._validation import check_count, check_positive
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.geometry._base import Geometry, SymmetricSpace, check_geometry
from skriemdp.privacy._events import Event, PureEvent
from skriemdp.privacy._sensitivity import Sensitivity, check_sensitivity
from skriemdp.riemannian_laws._distributions import RiemannianGaussian, RiemannianLaplace
from skriemdp.riemannian_laws._distributions_radial import accepted
from skriemdp.riemannian_laws._k_norm_ball import expected_proposals, sample_k_norm_in_ball
from skriemdp.riemannian_laws._profiles import RiemannianEvent, calibrated_riemannian_event


def _space(geometry: Geometry) -> SymmetricSpace:
    """Space, dimension and curvature as RiemannianEvent wants them."""
    check_geometry(geometry)
    space = geometry.symmetric_space
    if space is not None and (space.name != "spd" or space.size == 2):
        return space
    raise PublicValueError(
        f"the privacy of Riemannian Gaussian noise on {geometry}, whose curvature is not constant, "
        "is known only through loose bounds.  Use Gaussian noise in a tangent space, "
        "as PrivateFrechetMean(mechanism='tangent') does: it is exactly sensitivity / sigma-GDP on "
        "every manifold."
    )


def _only_pure(geometry: Geometry) -> bool:
    """Whether no more than a pure epsilon is known of Laplace noise."""
    check_geometry(geometry)
    space = geometry.symmetric_space
    return space is None or space.name == "spd"


class _PointMechanism(abc.ABC):
    """A draw from a radial law around a point."""

    geometry: Geometry
    sensitivity: Sensitivity
    _name: ClassVar[str]

    def __post_init__(self) -> None:
        check_sensitivity(self.sensitivity)
        _ = self.law, self.event

    @property
    @abc.abstractmethod
    def law(self) -> RiemannianGaussian | RiemannianLaplace:
        """The noise."""

    @property
    @abc.abstractmethod
    def event(self) -> Event:
        """Event of one release."""

    def release(self, value: Any, rng: np.random.Generator, size: Size = ()) -> Any:
        """A draw around the exact point `value`; `size` draws of them cost that many events.

        Parameters
        ----------
        value : array of shape ``shape``
        rng : numpy.random.Generator
        size : int or tuple of int, default=()

        Returns
        -------
        array of shape ``(*size, *shape)``
        """
        law, bound = self.law, self.sensitivity.value

        def sampler(point: np.ndarray, rng: np.random.Generator, size: tuple) -> np.ndarray:
            return law.sample(point, size, rng)

        return noise.draw(
            value, law._length, self._name, rng, size, sensitivity=bound, sampler=sampler
        )


@dataclass(frozen=True)
class RiemannianGaussianMechanism(_PointMechanism):
    """A draw with density proportional to ``exp(-dist(y, point)**2 / (2 sigma**2))``.

    Parameters
    ----------
    geometry : Geometry
        Sphere, circle, flat or hyperbolic space, or 2x2 SPD matrices (affine-invariant).
    sensitivity : Sensitivity
        Bound of the geodesic distance between the points of neighbouring data sets
        (:mod:`skriemdp.privacy`).
    sigma : float
        In geodesic distance.

    Notes
    -----
    *Guarantee*: that of :attr:`event`, whose profile is exact on spaces of constant curvature.  On
    hyperbolic space it is weaker than ``sensitivity / sigma``-GDP, on spheres stronger
    (docs/theory/riemannian-gdp.md).

    References
    ----------
    Y. Jiang, X. Chang, Y. Liu, L. Ding, L. Kong, B. Jiang. Gaussian differential privacy on
    Riemannian manifolds. NeurIPS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Sphere
    >>> from skriemdp.riemannian_laws import RiemannianGaussianMechanism
    >>> from skriemdp.privacy import iterated_mean_sensitivity
    >>> move = iterated_mean_sensitivity(0.1, stretch=1.0)
    >>> mechanism = RiemannianGaussianMechanism.calibrated(Sphere(2), move, epsilon=1.0, delta=1e-5)
    >>> round(mechanism.sigma, 4)
    0.3643
    >>> mechanism.release(Sphere(2).base_point, np.random.default_rng(0)).shape
    (3,)
    """

    geometry: Geometry
    sensitivity: Sensitivity
    sigma: float
    _name = "riemannian-gaussian"

    @classmethod
    def calibrated(
        cls,
        geometry: Geometry,
        sensitivity: Sensitivity,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        mu: float | None = None,
    ) -> RiemannianGaussianMechanism:
        """The least noise found that meets (epsilon, delta), or is certified to be mu-GDP.

        Raises :class:`skriemdp.riemannian_laws.InfeasibleTarget` where no sigma does.
        """
        check_sensitivity(sensitivity)
        event = calibrated_riemannian_event(
            "gaussian", *_space(geometry), sensitivity.value, epsilon=epsilon, delta=delta, mu=mu
        )
        return cls(geometry, sensitivity, event.scale)

    @property
    def event(self) -> RiemannianEvent:
        """Event of one release."""
        where = _space(self.geometry)
        return RiemannianEvent("gaussian", *where, self.sensitivity.value, float(self.sigma))

    @property
    def law(self) -> RiemannianGaussian:
        """The noise."""
        return RiemannianGaussian(self.geometry, self.sigma)


@dataclass(frozen=True)
class RiemannianLaplaceMechanism(_PointMechanism):
    """A draw with density proportional to ``exp(-dist(y, point) / scale)``.

    Parameters
    ----------
    geometry : Geometry
        As :class:`RiemannianGaussianMechanism`, and SPD matrices up to 10 x 10.
    sensitivity : Sensitivity
        Bound of the geodesic distance between the points of neighbouring data sets.
    scale : float
        In geodesic distance; the law must exist
        (:class:`skriemdp.riemannian_laws.RiemannianLaplace`).

    Notes
    -----
    *Guarantee*: pure ``sensitivity / scale``-DP.  These spaces are homogeneous, so the normaliser
    does not depend on the point, and the triangle inequality bounds the privacy loss.  (With a
    normaliser that varies, twice the scale would be needed.)  On spaces of constant curvature
    :attr:`event` also knows the exact delta at every smaller epsilon.

    References
    ----------
    M. Reimherr, K. Bharath, C. Soto. Differential privacy over Riemannian manifolds. NeurIPS 2021.

    Examples
    --------
    >>> from skriemdp.geometry import Hyperboloid
    >>> from skriemdp.riemannian_laws import RiemannianLaplaceMechanism
    >>> from skriemdp.privacy import iterated_mean_sensitivity
    >>> move = iterated_mean_sensitivity(0.1, stretch=1.0)
    >>> mechanism = RiemannianLaplaceMechanism.calibrated(Hyperboloid(2), move, epsilon=1.0)
    >>> round(mechanism.scale, 12), round(mechanism.event.epsilon(0.0), 12)
    (0.1, 1.0)
    """

    geometry: Geometry
    sensitivity: Sensitivity
    scale: float
    _name = "riemannian-laplace"

    @classmethod
    def calibrated(
        cls,
        geometry: Geometry,
        sensitivity: Sensitivity,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        mu: float | None = None,
    ) -> RiemannianLaplaceMechanism:
        """The least noise found that meets (epsilon, delta), pure by default, or mu.

        Raises
        ------
        InfeasibleTarget, ValueError
            Where the law that the target needs does not exist.
        """
        check_sensitivity(sensitivity)
        if _only_pure(geometry):
            if mu is not None or delta != 0.0:
                raise PublicValueError(
                    f"on {geometry} Laplace noise is calibrated to pure epsilon: pass epsilon "
                    "alone."
                )
            check_positive(epsilon=epsilon)
            assert epsilon is not None
            return cls(geometry, sensitivity, sensitivity.value / epsilon * (1.0 + 1e-15))
        event = calibrated_riemannian_event(
            "laplace",
            *_space(geometry),
            sensitivity.value,
            epsilon=epsilon,
            delta=None if mu is not None else delta,
            mu=mu,
        )
        return cls(geometry, sensitivity, event.scale)

    @property
    def event(self) -> Event:
        """Event of one release."""
        if _only_pure(self.geometry):
            return PureEvent(self.sensitivity.value / self.scale * (1.0 + 1e-15))
        where = _space(self.geometry)
        return RiemannianEvent("laplace", *where, self.sensitivity.value, float(self.scale))

    @property
    def law(self) -> RiemannianLaplace:
        """The noise."""
        return RiemannianLaplace(self.geometry, self.scale)


class GradientSum(NamedTuple):
    """A sum of gradients, as :class:`KNormGradientMechanism` asks for it; not private.

    Attributes
    ----------
    norm : callable
        The norms of the sum at points.
    n_records : int
    center : ndarray
        About where it is zero: how exact that is decides on the number of proposals alone.
    distances : ndarray or None
        In a ball: of the records from `center`.
    """

    norm: Callable[[np.ndarray], np.ndarray]
    n_records: int
    center: np.ndarray
    distances: np.ndarray | None = None


@dataclass(frozen=True)
class KNormGradientMechanism:
    """A draw with density proportional to ``exp(-|G(x)|_x / scale)``, G a sum of gradients.

    For a Fréchet mean ``G(x) = -sum_i log_x(x_i)``.  The draw is exact: no Markov chain, hence no
    convergence to trust.

    Parameters
    ----------
    geometry : Geometry
        A Hadamard manifold whose Riemannian Laplace law can be drawn: flat, hyperbolic, or
        affine-invariant SPD matrices up to 10 x 10; with `ball` a space of constant curvature at
        least 0, such as a sphere.
    sensitivity : Sensitivity
        Bound of ``|G(x) - G'(x)|_x`` over all points x of the law's support and neighbouring data
        sets: for a Fréchet mean of data in a ball of radius r, ``2 r`` on Hadamard manifolds and
        :func:`skriemdp.privacy.ball_logarithms_sensitivity` on spheres.
    scale : float
        Of the norm of the sum.
    ball : GeodesicBall, optional
        Public support of the law.  It holds the records.

    Notes
    -----
    *Guarantee*: pure ``2 sensitivity / scale``-DP; the density changes by ``sensitivity / scale``
    and its normaliser, which depends on the data, by as much again (the support does not).  How
    many proposals are drawn depends on the data, so an observer of the running time is outside the
    guarantee.

    References
    ----------
    C. Soto, K. Bharath, M. Reimherr, A. Slavkovic. Shape and structure preserving differential
    privacy. NeurIPS 2022.
    """

    geometry: Geometry
    sensitivity: Sensitivity
    scale: float
    ball: GeodesicBall | None = None

    def __post_init__(self) -> None:
        check_sensitivity(self.sensitivity)
        check_positive(scale=self.scale)
        if self.ball is None:
            _check_hadamard(self.geometry)
        else:
            check_k_norm_ball(self.geometry)

    @classmethod
    def calibrated(
        cls,
        geometry: Geometry,
        sensitivity: Sensitivity,
        *,
        epsilon: float,
        ball: GeodesicBall | None = None,
    ) -> KNormGradientMechanism:
        """The mechanism that is pure epsilon-DP."""
        check_sensitivity(sensitivity)
        check_positive(epsilon=epsilon)
        scale = 2.0 * sensitivity.value / epsilon * (1.0 + 1e-15)
        return cls(geometry, sensitivity, scale, ball)

    @property
    def event(self) -> PureEvent:
        """Event of one release."""
        return PureEvent(2.0 * self.sensitivity.value / self.scale * (1.0 + 1e-15))

    def check_law(self, n_records: int) -> None:
        """Raise ValueError unless there is a law for this many records, and a draw ends soon."""
        check_count(n_records=n_records)
        if self.ball is None:
            _proposal(self.geometry, n_records, self.scale)
        elif (proposals := expected_proposals(self.ball, n_records, self.scale)) > 1e4:
            raise PublicValueError(
                f"a draw of the K-norm gradient law on {self.geometry}, radius="
                f"{self.ball.radius:g}, for n={n_records} records would take about "
                f"{proposals:.1g} proposals, each as dear as a gradient; use a smaller radius, or "
                "a tangent-space mechanism (mechanism='tangent')."
            )

    def release(self, value: Any, rng: np.random.Generator, size: Size = ()) -> Any:
        """Draws around a :class:`GradientSum`."""
        norms, n_records, center, distances = value

        def sampler(norm: Callable[..., Any], *drawn: Any) -> np.ndarray:
            if self.ball is not None:
                assert distances is not None
                return sample_k_norm_in_ball(self.ball, norm, distances, center, self.scale, *drawn)
            return sample_k_norm_gradient(
                self.geometry, norm, n_records, center, self.scale, *drawn
            )

        known: dict[str, Any] = {"sensitivity": self.sensitivity.value, "sampler": sampler}
        return noise.draw(norms, self.scale, "k-norm", rng, size, **known)


def _check_hadamard(geometry: Geometry) -> None:
    check_geometry(geometry)
    if not geometry.is_hadamard:
        raise PublicValueError(
            f"the K-norm gradient law is drawn exactly on Hadamard manifolds only, got {geometry}; "
            "pass a ball= that holds the records, or use a tangent-space mechanism."
        )


def check_k_norm_ball(geometry: Geometry) -> None:
    """Raise ValueError unless the law is known on balls of `geometry`."""
    check_geometry(geometry)
    low, high = geometry.curvature_bounds
    if not low == high >= 0.0:
        raise PublicValueError(
            "on balls the K-norm gradient law is drawn where curvature is constant and at least "
            f"0, as on spheres; that of {geometry} is between {low:g} and {high:g}.  Use a "
            "tangent-space mechanism."
        )


def _proposal(geometry: Geometry, n_records: int, scale: float) -> RiemannianLaplace:
    law = RiemannianLaplace(geometry, scale / n_records)
    law.check_representable()
    return law


def sample_k_norm_gradient(
    geometry: Geometry,
    gradient_norm: Callable[[np.ndarray], np.ndarray],
    n_records: int,
    center: np.ndarray,
    scale: float,
    rng: np.random.Generator,
    size: Size = (),
) -> np.ndarray:
    """Exact draws with density proportional to ``exp(-gradient_norm(x) / scale)``.

    Parameters
    ----------
    geometry : Geometry
        Hadamard.
    gradient_norm : callable
        Points of shape ``(k, *shape)`` to norms ``(k,)`` of ``sum_i log_x(x_i)``.
    n_records : int
        Number of terms of the sum.
    center : array of shape ``shape``
        Any point; the closer to the Fréchet mean, the fewer proposals.
    scale : float
        ``scale / n_records`` must be one at which the Riemannian Laplace law exists.
    rng : numpy.random.Generator
    size : int or tuple of int, default=()

    Returns
    -------
    ndarray of shape ``(*size, *shape)``

    Notes
    -----
    Half the sum of squared distances is n-strongly convex along geodesics, so ``|G(x)| >= n
    dist(x, p) - |G(p)|`` for every point p.  A Laplace draw of scale ``scale / n`` at p is
    therefore kept with probability ``exp(-(|G(x)| + |G(p)| - n dist(x, p)) / scale)``.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Hyperboloid
    >>> from skriemdp.riemannian_laws._output import sample_k_norm_gradient
    >>> space = Hyperboloid(2)
    >>> data = space.exp_coordinates(space.base_point, np.eye(2))
    >>> def gradient_norm(x):
    ...     return np.linalg.norm(space.log_coordinates(x[:, None], data).sum(axis=1), axis=-1)
    >>> rng = np.random.default_rng(0)
    >>> sample_k_norm_gradient(space, gradient_norm, 2, space.base_point, 0.5, rng, 4).shape
    (4, 3)
    """
    _check_hadamard(geometry)
    check_count(n_records=n_records)
    check_positive(scale=scale)
    law = _proposal(geometry, n_records, scale)
    at_center = float(gradient_norm(np.asarray(center)[None])[0])

    def propose(batch: int) -> np.ndarray:
        coordinates = law.sample_coordinates(batch, rng)
        points = geometry.exp_coordinates(center, coordinates)
        distance = np.linalg.norm(coordinates, axis=-1)
        excess = gradient_norm(points) + at_center - n_records * distance
        return points[np.log(rng.random(batch)) < -excess / scale]

    return accepted(size, propose, 0.5, 0.01, (16, 100_000))
