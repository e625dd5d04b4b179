"""Exact privacy of Riemannian Gaussian and Laplace noise: the event, and its calibration."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from skriemdp._errors import PublicArithmeticError, PublicTypeError, PublicValueError
from skriemdp._validation import check_count, check_option, check_positive, check_privacy
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._event import Event, normalize_fields
from skriemdp.privacy._loss_distributions import PrivacyLossDistribution
from skriemdp.riemannian_laws._gaussian_chords import MOST_MU, chord_delta
from skriemdp.riemannian_laws._profile_integrand import RadialPair
from skriemdp.riemannian_laws._profile_mu import delta_floor, mu_estimate, mu_floor
from skriemdp.riemannian_laws._profile_release import RadialRelease
from skriemdp.riemannian_laws._profile_spd import MatrixRelease
from skriemdp.riemannian_laws._quadrature import Window

__all__ = ["InfeasibleTarget", "RiemannianEvent", "calibrated_riemannian_event"]

_KINDS = {"euclidean": 0, "sphere": 1, "hyperbolic": -1}
_LAWS = ("gaussian", "laplace")


class InfeasibleTarget(PublicValueError):
    """Raised when no noise scale of this law reaches the privacy target.

    Attributes
    ----------
    floor : float
        What the target must exceed: a delta, a mu, or an epsilon, as asked for.
    """

    def __init__(self, message: str, floor: float):
        super().__init__(message)
        self.floor = floor


@dataclass(frozen=True)
class RiemannianEvent(Event):
    """One draw from a Riemannian Gaussian or Laplace law centred at the statistic.

    The density with respect to the Riemannian volume is proportional to
    ``exp(-dist(y, center)**2 / (2 scale**2))`` or ``exp(-dist(y, center) / scale)``; replacing one
    record moves the centre by at most `sensitivity`.

    Parameters
    ----------
    law : {"gaussian", "laplace"}
    space : {"euclidean", "sphere", "hyperbolic", "spd"}
        "spd" is the 2x2 symmetric positive definite matrices under the affine-invariant metric
        (Gaussian law only, dim 3, curvature -0.5).
    dim : int
        Dimension of the space.
    curvature : float
        Sectional curvature: positive, zero or negative, as `space` has it.  One-dimensional
        spheres take ``1 / radius**2``; a one-dimensional hyperbolic space is a line.
    sensitivity : float
        In geodesic distance; at most half a great circle.
    scale : float
        In geodesic distance.

    Raises
    ------
    ValueError
        If the law does not exist: Laplace noise on hyperbolic space needs
        ``1 / scale > (dim - 1) sqrt(-curvature)``.

    Notes
    -----
    *Guarantee*: ``delta(epsilon)`` of a single release is the exact hockey-stick divergence at
    distance `sensitivity`, by one-dimensional quadrature, times at most ``1 + 1e-10`` (more only
    within rounding of the largest loss, see `log_margin`); on "spd" it is an upper bound within
    about one per cent of the scale.  Smaller moves of the centre reveal less (proved for every
    radially decreasing density).  The Gaussian law is not mu-GDP with mu = sensitivity / scale on
    curved spaces: :attr:`gdp_bound` is a certified mu, above it on hyperbolic space.  Proofs and
    what is only computed: docs/theory/riemannian-gdp.md.

    Examples
    --------
    >>> from skriemdp.riemannian_laws import RiemannianEvent
    >>> event = RiemannianEvent("gaussian", "hyperbolic", 2, -1.0, sensitivity=1.0, scale=1.0)
    >>> round(event.gdp_bound, 3)                      # not sensitivity / scale = 1
    1.161
    >>> round(event.epsilon(1e-5), 3), event.delta(1.0) < 0.19
    (4.958, True)
    """

    law: str
    space: str
    dim: int
    curvature: float
    sensitivity: float
    scale: float
    kind = "riemannian"

    def __post_init__(self) -> None:
        normalize_fields(self)
        check_option(_LAWS, law=self.law)
        check_option((*_KINDS, "spd"), space=self.space)
        check_count(dim=self.dim)
        check_positive(sensitivity=self.sensitivity, scale=self.scale)
        _check_space(self)

    @property
    def profile(self) -> RadialRelease | MatrixRelease:
        """The profile behind the event; a value without points."""
        return _release(self)

    @property
    def mu(self) -> float | None:
        if self.law == "gaussian" and self._is_flat:
            return self.sensitivity / self.scale
        return None

    @property
    def gdp_bound(self) -> float | None:
        """A certified mu, None where no certificate was found."""
        return self.mu if self.mu is not None else self.profile.gdp_bound

    @property
    def mu_estimate(self) -> float:
        """The smallest mu, to about 1e-9, as computed and not certified; for tables and plots.

        On "spd" that of the direction found to be worst.
        """
        if self.mu is not None:
            return self.mu
        return mu_estimate(self.profile.worst_pair)

    def renyi(self, order: float) -> float:
        return self.profile.renyi(order)

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        return self.profile.losses(interval)

    def _exact_delta(self, epsilon: float) -> float:
        return self.profile.delta(epsilon)

    def _exact_epsilon(self, delta: float) -> float:
        return self.profile.epsilon(delta)

    def delta_with_gaussian(self, mu: float, epsilon: float) -> float | None:
        """See :meth:`Event.delta_with_gaussian`."""
        if not mu <= MOST_MU:
            return None
        release = self.profile
        if isinstance(release, MatrixRelease):
            return release.delta(epsilon, mu)
        pure = release.epsilon_max
        return chord_delta(
            lambda e: np.exp(release._quick_log_delta_upper(e)),
            mu,
            epsilon,
            pure if math.isfinite(pure) else None,
        )

    def epsilon_with_gaussian(self, mu: float, delta: float) -> float | None:
        """See :meth:`Event.epsilon_with_gaussian`."""
        release = self.profile
        if isinstance(release, MatrixRelease) and mu <= MOST_MU:
            return release.epsilon(delta, mu)
        return super().epsilon_with_gaussian(mu, delta)

    @property
    def rough_size(self) -> float:
        """``(sensitivity / scale)**2``."""
        return (self.sensitivity / self.scale) ** 2

    @property
    def _is_flat(self) -> bool:
        return self.space == "euclidean" or (self.space == "hyperbolic" and self.dim == 1)


def _check_space(event: RiemannianEvent) -> None:
    curvature = event.curvature
    if event.space == "spd":
        if event.law != "gaussian" or event.dim != 3 or curvature != -0.5:
            raise PublicValueError(
                'space="spd" means Gaussian noise on 2x2 matrices: law="gaussian", dim=3, '
                f"curvature=-0.5, got law={event.law!r}, dim={event.dim}, curvature={curvature!r}. "
                "For larger matrices use Gaussian noise in a tangent space (GaussianNoise), "
                "whose mu is exact; Laplace noise of scale b is PureEvent(sensitivity / b)."
            )
        return
    if _KINDS[event.space] != (curvature > 0) - (curvature < 0) or not math.isfinite(curvature):
        wanted = {0: "0", 1: "positive", -1: "negative"}[_KINDS[event.space]]
        raise PublicValueError(
            f"curvature of space={event.space!r} must be {wanted}, got {curvature!r}."
        )
    root = math.sqrt(abs(curvature))
    if event.space == "sphere" and event.sensitivity * root > math.pi * (1.0 + 1e-12):
        raise PublicValueError(
            f"sensitivity={event.sensitivity!r} exceeds {math.pi / root:.6g}, the largest distance "
            "on this sphere."
        )
    if event.law == "laplace" and event.space == "hyperbolic":
        growth = (event.dim - 1) * root
        if event.scale * growth >= 1.0:
            raise PublicValueError(
                f"there is no Laplace law of scale={event.scale!r} here: volume grows like "
                f"exp({growth:.6g} r), so 1 / scale must exceed (dim - 1) sqrt(-curvature) = "
                f"{growth:.6g}.  Use a scale below {1.0 / growth:.6g}, or Gaussian noise."
            )


@functools.lru_cache(maxsize=1024)
def _release(event: RiemannianEvent) -> MatrixRelease | RadialRelease:
    if event.space == "spd":
        return MatrixRelease(event.sensitivity, event.scale)
    if event._is_flat:
        distance = event.sensitivity / event.scale
        return RadialRelease(RadialPair(event.law, 0, event.dim, distance, 1.0))
    root = math.sqrt(abs(event.curvature))
    distance, scale = event.sensitivity * root, event.scale * root
    kind = _KINDS[event.space]
    if kind > 0:
        distance = min(distance, math.pi)
    return RadialRelease(RadialPair(event.law, kind, event.dim, distance, scale))


def calibrated_riemannian_event(
    law: str,
    space: str,
    dim: int,
    curvature: float,
    sensitivity: float,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
) -> RiemannianEvent:
    """The event with the least noise found that meets a privacy target; its scale is rounded up.

    Parameters
    ----------
    law, space, dim, curvature, sensitivity
        As for :class:`RiemannianEvent`.
    epsilon, delta : float, optional
        Target; ``delta=0`` asks for pure differential privacy (Laplace, or Gaussian on a sphere).
    mu : float, optional
        Target instead of (epsilon, delta): the event is certified to be mu-GDP.

    Raises
    ------
    InfeasibleTarget
        On negatively curved spaces wide noise does not hide the centre completely: the target lies
        below the floor that every scale stays above.

    Examples
    --------
    >>> from skriemdp.riemannian_laws import calibrated_riemannian_event
    >>> globe = ("sphere", 2, 1.0)
    >>> event = calibrated_riemannian_event("gaussian", *globe, 0.1, epsilon=1, delta=1e-5)
    >>> event.delta(1.0) <= 1e-5
    True
    >>> calibrated_riemannian_event("gaussian", "hyperbolic", 5, -1.0, 1.0, mu=1.0)
    Traceback (most recent call last):
        ...
    skriemdp.riemannian_laws._profiles.InfeasibleTarget: mu=1.0 cannot be reached: on this space \
mu stays above 1.84539 however wide the noise; reduce the sensitivity below 0.535, add noise in a \
tangent space instead, or raise mu.
    """
    if mu is None:
        if epsilon is None or delta is None:
            raise PublicTypeError("pass epsilon and delta, or mu.")
        check_privacy(epsilon, delta)
    elif epsilon is not None or delta is not None:
        raise PublicValueError("pass either mu or epsilon and delta.")
    else:
        check_positive(mu=mu)
    numbers = curvature, sensitivity, epsilon, delta, mu
    return _calibrated(
        law, space, int(dim), *(None if number is None else float(number) for number in numbers)
    )


@functools.lru_cache(maxsize=1024)
def _calibrated(
    law: str,
    space: str,
    dim: int,
    curvature: float,
    sensitivity: float,
    epsilon: float | None,
    delta: float | None,
    mu: float | None,
) -> RiemannianEvent:
    def event(scale: float) -> RiemannianEvent:
        return RiemannianEvent(law, space, dim, curvature, sensitivity, scale)

    def floor(target: Callable[..., float], moved: float) -> float:
        """Limit of ``target(dim, distance)`` as the noise grows; zero on spheres and lines."""
        if space == "spd":
            return target(2, moved * math.sqrt(0.5))
        return target(dim, moved * root) if root else 0.0

    curved = space == "hyperbolic" and dim > 1
    root = math.sqrt(-curvature) if curved else 0.0
    widest = (1.0 - 1e-9) / ((dim - 1) * root) if curved and law == "laplace" else math.inf
    # Also validates the arguments; half the limit is a scale that exists.
    event(min(1.0, 0.5 * widest))
    if mu is not None:
        _refuse("mu", mu, sensitivity, functools.partial(floor, mu_floor))
        return _calibrated_mu(event, sensitivity, mu, widest)
    assert epsilon is not None and delta is not None  # else mu was given
    if delta == 0.0:
        return _calibrated_pure(event, epsilon, widest)
    of_delta = functools.partial(delta_floor, epsilon=epsilon)
    _refuse("delta", delta, sensitivity, functools.partial(floor, of_delta))
    target = math.log(delta)
    windows = Window(), Window()

    def excess(log_scale: float) -> float:
        release = event(math.exp(log_scale)).profile
        if isinstance(release, MatrixRelease):
            release = RadialRelease(release.stretched_pair)
        value = release._quick_log_delta_upper([epsilon], windows)
        return max(float(value[0]), -1e6) - target

    guess = sensitivity / gaussian_mu(epsilon, delta)
    scale = math.exp(_root(excess, math.log(guess), math.log(widest)))
    if space == "spd":
        scale *= 1.0 + 1e-9  # a second try would be dear
    found = event(scale)
    step = 1e-12
    while (excess_delta := math.log(max(found.profile.delta(epsilon), 1e-300)) - target) > 0.0:
        if scale >= widest:
            raise _infeasible("delta", delta, delta, sensitivity)
        # To the private side.  On 2x2 matrices the bound over all directions may be a little
        # larger; the slope of log delta in the log scale is at least about two.
        scale = min(scale * math.exp(max(0.1 * excess_delta, step)), widest)
        step *= 8.0
        found = event(scale)
    return found


def _refuse(name: str, value: float, sensitivity: float, floor: Callable[..., float]) -> None:
    if value > floor(sensitivity):
        return
    low, high = 0.0, sensitivity
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if floor(middle) < value else (low, middle)
    raise _infeasible(name, value, floor(sensitivity), low)


def _infeasible(name: str, value: float, floor: float, sensitivity: float) -> InfeasibleTarget:
    return InfeasibleTarget(
        f"{name}={value!r} cannot be reached: on this space {name} stays above {floor:.6g} however "
        f"wide the noise; reduce the sensitivity below {sensitivity:.3g}, add noise in a tangent "
        f"space instead, or raise {name}.",
        floor,
    )


def _root(excess: Callable[..., Any], start: float, top: float) -> float:
    """Find the sign change of a decreasing function of the log scale; at most `top`."""
    low = high = min(start, top - 1e-9)
    while excess(low) < 0.0:
        low -= 0.5
    while excess(high) > 0.0:
        if high >= top:
            return top
        high = min(high + 0.5, top)
        if high > start + 60.0:
            raise PublicArithmeticError(
                "no noise scale was found; the target is too close to its floor."
            )
    return low if low == high else brentq(excess, low, high, xtol=1e-13, rtol=1e-14)


def _calibrated_pure(event: Callable[..., Any], epsilon: float, widest: float) -> RiemannianEvent:
    asked = event(min(1.0, 0.5 * widest))
    if asked.law == "laplace":
        scale = asked.sensitivity / epsilon
        if scale >= widest:
            floor = asked.sensitivity / widest
            raise InfeasibleTarget(
                f"epsilon={epsilon!r} cannot be reached with delta=0: the Laplace law of scale "
                f"sensitivity / epsilon = {scale:.6g} does not exist on this space (the scale must "
                f"stay below {widest:.6g}), so epsilon must exceed {floor:.6g}; allow delta > 0, "
                "reduce the sensitivity, or add noise in a tangent space.",
                floor,
            )
    elif asked.space == "sphere":
        far = 2.0 * math.pi / math.sqrt(asked.curvature) - asked.sensitivity
        scale = math.sqrt(asked.sensitivity * far / (2.0 * epsilon))
    else:
        raise PublicValueError(
            "delta=0 needs the Laplace law: the privacy loss of Gaussian noise is unbounded on "
            f"space={asked.space!r}."
        )
    while event(scale).profile.epsilon_max > epsilon:
        scale *= 1.0 + 1e-14
    return event(scale)


def _calibrated_mu(
    event: Callable[..., Any], sensitivity: float, mu: float, widest: float
) -> RiemannianEvent:
    def excess(log_scale: float) -> float:
        return mu_estimate(event(math.exp(log_scale)).profile.worst_pair) - aim

    aim = mu / (1.0 + 1e-5) * (1.0 - 1e-12)
    scale = math.exp(_root(excess, math.log(sensitivity / mu), math.log(widest)))
    if event(scale).mu is not None:
        return event(math.nextafter(sensitivity / mu, math.inf))
    for _ in range(12):
        found = event(scale)
        bound = found.gdp_bound
        if bound is not None and bound <= mu:
            return found
        # Certified values fall at least about as fast as 1 / scale, except next to a floor.
        scale = min(
            scale * (1.01 if bound is None else (bound / mu) ** 1.5 * (1.0 + 1e-12)), widest
        )
    raise PublicArithmeticError(
        f"no scale was certified to be {mu!r}-GDP; ask for (epsilon, delta)."
    )
