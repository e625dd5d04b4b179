"""Laplace noise on R^d, density as ``exp(-|v| / s)``: exact profile, also behind Gaussian releases.

For small d and small delta it beats Gaussian noise at equal (epsilon, delta); alone it is purely
differentially private.  Its privacy loss is ``cos(theta) / s`` for an angle with an elementary
density (docs/theory/laplace-noise.md, Theorem L), so a profile is one integral over an interval.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, kve

from skriemdp._errors import PublicArithmeticError, PublicValueError
from skriemdp._validation import (
    check_count,
    check_nonnegative,
    check_order,
    check_positive,
    check_privacy,
)
from skriemdp.privacy._calibration import gaussian_epsilon, gaussian_mu
from skriemdp.privacy._event import Event, normalize_fields, profile_epsilon
from skriemdp.privacy._events_basic import PureEvent
from skriemdp.privacy._loss_distributions import (
    PrivacyLossDistribution,
    loss_from_profile,
    points_of,
)

__all__ = ["LaplaceEvent", "laplace_law"]

# Rounding of an integrand and of its constants, relative; ten times what comparison with 60-digit
# arithmetic shows (tests/test_laplace.py).
_MARGIN = 1e-11
# Smallest delta reported for a law that is not pure.
_FLOOR = 1e-300
_PANELS, _MOST_ROUNDS = 8, 200

Panels = tuple[np.ndarray, np.ndarray, np.ndarray]  # row of each panel, its left end, its right end

# Integrals take time in proportion to the dimension: half a minute here.
_MOST_DIM = 10**7
# Beyond, delta narrows the noise by less than what integrals resolve, and epsilons are added.
_PURE_ENOUGH = 1e4


@functools.lru_cache(maxsize=1)
def _rules() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of both rules, one after the other; weights of the coarse and of the fine one."""
    few, many = (np.polynomial.legendre.leggauss(count) for count in (12, 24))
    return np.concatenate([few[0], many[0]]), few[1], many[1]


@functools.lru_cache(maxsize=512)
def _constants(dim: int, scale: float) -> tuple[float, float]:
    """`excess` and the logarithm of the normaliser in :func:`_log_density`.

    Ratios of Bessel functions ``K_{v+1} / K_v`` come from their upward recurrence, whose terms are
    positive; so no order and no argument leaves the floats.
    """
    z, half = 0.5 / scale, 0.5 * dim - 1.0
    start = 0.0 if dim % 2 == 0 else 0.5
    log_bessel = math.log(kve(start, z))
    ratio = float(kve(start + 1.0, z) / kve(start, z))
    if dim > 1:
        for k in range(round(half - start)):
            log_bessel += math.log(ratio)
            ratio = 2.0 * (start + k + 1.0) / z + 1.0 / ratio
    else:
        ratio = 1.0  # K_{1/2} = K_{-1/2}
    log_normaliser = half * math.log(2.0 / z) + math.lgamma(half + 1.5) - log_bessel
    log_normaliser += math.log(2.0 * math.sqrt(math.pi)) - 2.0 * math.log(z)
    return (2.0 * half + 1.0) / z * ratio, log_normaliser


def _log_density(dim: int, scale: float, theta: np.ndarray) -> np.ndarray:
    """Log density of the angle in (0, pi) whose cosine over `scale` is the privacy loss.

    ``sin^(d-2) exp(cos / (2 scale)) (sin^2 + excess)`` over its normaliser.
    """
    if dim > _MOST_DIM:
        raise PublicValueError(
            f"dim must be at most {_MOST_DIM:g} where more than the pure epsilon of Laplace noise "
            f"is asked for, got {dim}; pass delta=0, or add Gaussian noise."
        )
    excess, log_normaliser = _constants(dim, scale)
    sine = np.sin(theta)
    down = np.sin(0.5 * theta) ** 2 / scale  # (1 - cos) / (2 scale)
    log = np.log(sine * sine + excess) - down - log_normaliser
    return log if dim == 2 else log + (dim - 2.0) * np.log(sine)


def _log_integrals(log_f: Callable, panels: Panels, rows: int) -> tuple[np.ndarray, Panels]:
    """Logarithms of the integrals of ``exp(log_f(row, theta))``, rounded up, and their last panels.

    Every panel is seen by rules of 12 and of 24 nodes, and halved until they agree; what they
    differ by is added.
    """
    done: list[tuple] = []
    sums = np.full(rows, -np.inf)  # of the panels that are done
    row, left, right = panels
    nodes, coarse, fine = _rules()
    for _ in range(_MOST_ROUNDS):
        half = 0.5 * (right - left)
        middle = 0.5 * (right + left)
        logs = log_f(row[:, None], middle[:, None] + half[:, None] * nodes)
        top = np.maximum(logs.max(axis=1), -1e300)
        values = np.exp(logs - top[:, None])
        few, many = values[:, : coarse.size] @ coarse, values[:, coarse.size :] @ fine
        with np.errstate(divide="ignore"):
            log_value = np.log(many + np.abs(many - few)) + np.log(half) + top
            log_change = np.log(np.abs(many - few)) + np.log(half) + top
        totals = sums.copy()
        np.logaddexp.at(totals, row, log_value)
        # A panel is halved where its two rules differ by more than that of the whole; the
        # differences are added to the result.
        ready = log_change <= totals[row] + math.log(1e-11)
        ready |= half <= 1e-15 * (1.0 + middle)
        np.logaddexp.at(sums, row[ready], log_value[ready])
        done.append((row[ready], left[ready], right[ready]))
        if ready.all():
            break
        row, left, right = row[~ready], left[~ready], right[~ready]
        middle = middle[~ready]
        row, left, right = np.tile(row, 2), np.append(left, middle), np.append(middle, right)
    else:
        raise PublicArithmeticError(
            "an integral over Laplace noise did not converge; please report it."
        )
    found = (np.concatenate(parts) for parts in zip(*done, strict=True))
    return sums + _MARGIN, tuple(found)  # type: ignore[return-value]


def _equal_panels(start: float, end: float) -> Panels:
    edges = np.linspace(start, end, _PANELS + 1)
    return np.zeros(_PANELS, dtype=int), edges[:-1], edges[1:]


def _log_gaussian(mu: float, epsilons: np.ndarray) -> np.ndarray:
    """Logarithm of the delta of a mu-GDP release at any real epsilon, rounded up."""
    size = np.abs(epsilons)
    a = size / mu - 0.5 * mu
    root = math.sqrt(0.5)
    # Mills' ratios but for a factor
    here, there = erfcx(root * a), erfcx(root * (a + mu))
    with np.errstate(divide="ignore"):
        # The rounding of a difference of two of Mills' ratios, over the larger one, is added.
        log = np.log(0.5 * (here - there + 4e-16 * here)) - 0.5 * a * a
    if (epsilons >= 0.0).all():
        return log
    return np.where(epsilons >= 0.0, log, np.log(np.exp(log - size) - np.expm1(-size)))


def _deltas(dim: int, scale: float, epsilons: np.ndarray) -> np.ndarray:
    """Upper bounds of the deltas of one release at nonnegative `epsilons`."""
    shift = _shift(scale)
    deltas = np.zeros(epsilons.shape)
    inside = np.flatnonzero(epsilons < shift)
    if not inside.size:
        return deltas
    level = epsilons[inside]
    # Losses above epsilon have angles below these; the rounding makes them larger.
    ends = 2.0 * np.arcsin(np.sqrt(0.5 * np.clip(1.0 - level * scale + 4e-16, 0.0, 1.0)))

    def log_f(row: np.ndarray, theta: np.ndarray) -> np.ndarray:
        end = ends[row]
        above = np.sin(0.5 * (end - theta)) * np.sin(0.5 * (end + theta)) * (2.0 / scale)
        with np.errstate(divide="ignore"):
            return _log_density(dim, scale, theta) + np.log(-np.expm1(-above))

    panels = np.arange(level.size), np.zeros(level.size), ends
    log, _ = _log_integrals(log_f, panels, level.size)
    found = np.exp(log)
    if dim == 1:
        found += -0.5 * np.expm1(level - shift) * (1.0 + _MARGIN)
    deltas[inside] = np.clip(found, _FLOOR, 1.0)
    return deltas


def _log_delta_behind(
    dim: int, scale: float, mu: float, epsilon: float, panels: Panels | None = None
) -> tuple[float, Panels]:
    """Log delta of one release behind mu-GDP ones, and the panels of the integral."""
    # Below, the Gaussian release is taken to be this much worse: the profile increases with mu.
    mu = max(mu, 1e-8)
    # Rounding of a difference of losses goes to the private side.
    epsilon -= 4e-16 * (epsilon + 1.0 / scale)

    def log_f(row: np.ndarray, theta: np.ndarray) -> np.ndarray:
        above = _log_gaussian(mu, epsilon - np.cos(theta) / scale)
        return _log_density(dim, scale, theta) + above

    if panels is None:
        panels = _equal_panels(0.0, math.pi)
    (log,), panels = _log_integrals(log_f, panels, 1)
    if dim == 1:
        shift = 1.0 / scale
        ends = _log_gaussian(mu, np.array([epsilon - shift, epsilon + shift]))
        log = np.logaddexp.reduce([log, ends[0] - math.log(2.0), ends[1] - shift - math.log(2.0)])
    return min(max(float(log), math.log(_FLOOR)), 0.0), panels


@dataclass(frozen=True)
class LaplaceEvent(Event):
    """One release with noise of density proportional to ``exp(-|v| / s)`` on R^dim.

    Parameters
    ----------
    dim : int
    scale_over_sensitivity : float
        s over the replace-one sensitivity in the Euclidean norm.

    Notes
    -----
    *Guarantee*: ``delta(epsilon)`` is the exact profile at the full sensitivity, rounded up, and
    the profile of a shorter shift is never larger.  It vanishes from ``epsilon = 1 /
    scale_over_sensitivity`` on: pure differential privacy.

    Examples
    --------
    >>> from skriemdp.privacy import LaplaceEvent
    >>> event = LaplaceEvent(dim=3, scale_over_sensitivity=0.5)
    >>> event.delta(2.0), event.epsilon(0.0)
    (0.0, 2.0)
    >>> round(event.delta(1.0), 4)
    0.166
    """

    dim: int
    scale_over_sensitivity: float
    kind = "laplace"

    def __post_init__(self) -> None:
        normalize_fields(self)
        check_count(dim=self.dim)
        check_positive(scale_over_sensitivity=self.scale_over_sensitivity)

    @property
    def shift(self) -> float:
        """The sensitivity in units of s, rounded up: the pure epsilon."""
        return _shift(self.scale_over_sensitivity)

    @property
    def mean_square_over_sensitivity(self) -> float:
        """E|v|^2 of the noise over the squared sensitivity: ``d (d + 1) s^2``."""
        return self.dim * (self.dim + 1.0) * self.scale_over_sensitivity**2

    @property
    def gdp_bound(self) -> float | None:
        """Bound of every pure release."""
        return PureEvent(self.shift).gdp_bound

    def renyi(self, order: float) -> float:
        """See :meth:`Event.renyi`; an integral, rounded up, and at most the pure epsilon."""
        check_order(order)
        return self.shift if order == math.inf else min(_renyi(self, float(order)), self.shift)

    def _exact_delta(self, epsilon: float) -> float:
        return float(_deltas(self.dim, self.scale_over_sensitivity, np.array([epsilon]))[0])

    def _exact_epsilon(self, delta: float) -> float:
        if delta == 0.0:
            return self.shift
        return min(profile_epsilon(self._exact_delta, delta), self.shift)

    def delta_with_gaussian(self, mu: float, epsilon: float) -> float | None:
        """See :meth:`Event.delta_with_gaussian`; exact, rounded up."""
        # Mills' ratio would leave the floats.
        return None if not mu <= 50.0 else _delta_behind(self, mu, epsilon)

    @property
    def rough_size(self) -> float:
        """The squared shift."""
        return self.shift**2

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """See :meth:`Event.privacy_loss_distribution`."""
        epsilons, deltas = _profile(self)
        count = points_of(epsilons[-1], interval) + 1
        # Chords in e^epsilon: the profile is convex there, so this never falls below it.
        fine = np.expm1(interval * np.arange(count))
        return loss_from_profile(np.interp(fine, np.expm1(epsilons), deltas), interval)


def _shift(scale: float) -> float:
    shift = 1.0 / scale
    exact = Fraction(shift) * Fraction(scale) >= 1
    return shift if exact else math.nextafter(shift, math.inf)


@functools.lru_cache(maxsize=4096)
def _delta_behind(event: LaplaceEvent, mu: float, epsilon: float) -> float:
    return math.exp(_log_delta_behind(event.dim, event.scale_over_sensitivity, mu, epsilon)[0])


@functools.lru_cache(maxsize=64)
def _profile(event: LaplaceEvent) -> tuple[np.ndarray, np.ndarray]:
    """Grid of epsilons, and upper bounds of delta there; denser towards both ends."""
    epsilons = 0.5 * event.shift * (1.0 - np.cos(np.linspace(0.0, math.pi, 2001)))
    deltas = _deltas(event.dim, event.scale_over_sensitivity, epsilons)
    deltas[-1] = 0.0
    return epsilons, np.minimum.accumulate(deltas)


@functools.lru_cache(maxsize=4096)
def _renyi(event: LaplaceEvent, order: float) -> float:
    """Divergence from ``E e^((order-1) L) - 1``, a loss and its negative taken together.

    The loss -l has e^-l times the probability of l, so they contribute ``(e^((order-1) l) - 1) (1 -
    e^(-order l))`` times the latter: positive.
    """
    dim, scale = event.dim, event.scale_over_sensitivity

    def log_moment(loss: np.ndarray) -> np.ndarray:
        tilted = (order - 1.0) * loss
        return tilted + np.log(-np.expm1(-tilted)) + np.log(-np.expm1(-order * loss))

    def log_f(row: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return _log_density(dim, scale, theta) + log_moment(np.cos(theta) / scale)

    (log,), _ = _log_integrals(log_f, _equal_panels(0.0, 0.5 * math.pi), 1)
    if dim == 1:
        log = np.logaddexp(log, log_moment(np.array(1.0 / scale)) - math.log(2.0))
    return float(np.logaddexp(0.0, log)) / (order - 1.0) * (1.0 + 1e-9)


@functools.lru_cache(maxsize=4096)
def laplace_law(dim: int, epsilon: float, delta: float, mu: float = 0.0) -> LaplaceEvent:
    """The narrowest law that is (epsilon, delta)-DP together with mu-GDP releases before it.

    Parameters
    ----------
    dim : int
    epsilon, delta : float
        For all releases together; ``delta = 0`` gives scale ``sensitivity / epsilon``.
    mu : float, default=0.0
        Of everything that is released before, Gaussian and fixed in advance.

    Notes
    -----
    Takes time in proportion to `dim`: three seconds for a million.

    *Guarantee*: ``compose([GaussianEvent(1 / mu), law]).delta(epsilon) <= delta``
    (docs/theory/laplace-noise.md, "Behind Gaussian releases").

    Examples
    --------
    >>> from skriemdp.privacy import GaussianEvent, compose
    >>> from skriemdp.privacy import laplace_law
    >>> law = laplace_law(3, 1.0, 1e-5, mu=0.05)
    >>> compose([GaussianEvent(20.0), law]).delta(1.0) <= 1e-5
    True
    >>> laplace_law(2, 1.0, 0.0)
    LaplaceEvent(dim=2, scale_over_sensitivity=1.0)
    """
    check_count(dim=dim)
    check_privacy(epsilon, delta)
    check_nonnegative(mu=mu)
    total = gaussian_mu(epsilon, delta) if delta > 0.0 else 0.0
    if mu > 0.0 and not mu < 0.999 * total:
        raise PublicValueError(
            f"mu={mu!r} leaves nothing of epsilon={epsilon!r}, delta={delta!r}, which is worth "
            f"mu={total:.6g} to Gaussian noise; pass a smaller mu."
        )
    if delta == 0.0 or epsilon > _PURE_ENOUGH:
        before = gaussian_epsilon(mu, delta) if mu > 0.0 else 0.0
        epsilon = math.nextafter(epsilon - before, 0.0) if mu > 0.0 else epsilon
        scale = 1.0 / epsilon
        while _shift(scale) > epsilon:
            scale = math.nextafter(scale, math.inf)
        return LaplaceEvent(dim, scale)
    # Alone, delta is zero up to a shift of epsilon, and about a power of the excess beyond.
    mu = max(mu, 1e-6 * total) if mu > 0.0 else 0.0  # integrals do not resolve less
    lowest = epsilon if mu == 0.0 else 0.0
    panels: Panels | None = None

    @functools.cache
    def excess(u: float) -> float:
        nonlocal panels
        scale = 1.0 / (lowest + math.exp(u))
        if mu == 0.0:
            log = math.log(max(_deltas(dim, scale, np.array([epsilon]))[0], _FLOOR))
        else:
            log, panels = _log_delta_behind(dim, scale, mu, epsilon, panels)
        return log - math.log(delta)

    # Delta alone, at epsilon = 0, allows a scale of 0.3 / delta.
    low = high = math.log(max(epsilon if mu > 0.0 else 0.1 * epsilon, 1e-3 * delta))
    step = 0.1
    while excess(low) > 0.0:
        high, low, step = low, low - step, 2.0 * step
    while excess(high) <= 0.0:
        low, high, step = high, high + step, 2.0 * step
    u = brentq(excess, low, high, xtol=1e-9, rtol=1e-14)
    event, step = LaplaceEvent(dim, 1.0 / (lowest + math.exp(u))), 1e-10
    while (_delta_behind(event, mu, epsilon) if mu else event._exact_delta(epsilon)) > delta:
        event = LaplaceEvent(dim, event.scale_over_sensitivity * (1.0 + step))
        step *= 2.0
    return event
