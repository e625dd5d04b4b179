"""Mu, epsilon and delta from one another, and noise from a target; rounded to the private side.

A release is mu-GDP (Gaussian differential privacy) when telling two neighbouring data sets apart is
no easier than telling N(0, 1) from N(mu, 1) (Dong, Roth and Su 2022).  Its exact profile is (Balle
and Wang 2018)

    delta(epsilon) = Phi(-a) - e^epsilon Phi(-b),   a = epsilon/mu - mu/2,   b = epsilon/mu + mu/2.

Because ``e^epsilon phi(b) = phi(a)``, this equals ``phi(a) (R(a) - R(b))`` with Mills' ratio R, or
``phi(a)`` times the integral of ``1 - x R(x)`` from a to b: no cancellation at either end.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import erfcx, ndtri_exp

from skriemdp._errors import PublicArithmeticError, PublicValueError
from skriemdp._validation import check_fraction, check_methods, check_nonnegative, check_positive

if TYPE_CHECKING:
    from skriemdp.privacy._event import Event


__all__ = ["calibrate", "gaussian_delta", "gaussian_epsilon", "gaussian_mu", "log_gaussian_delta"]

# Relative error of exp(log_gaussian_delta) against 50-digit arithmetic stays below a tenth of this
# (tests/test_calibration.py); results move by it to the private side.
_MARGIN = 1e-10

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def _mills(x: ArrayLike) -> np.ndarray:
    """R(x) = Phi(-x) / phi(x)."""
    return math.sqrt(math.pi / 2.0) * erfcx(np.asarray(x) / math.sqrt(2.0))


def _mills_slope(x: ArrayLike) -> np.ndarray:
    """1 - x R(x) = -R'(x); by its asymptotic series where the difference would cancel."""
    x = np.asarray(x, dtype=float)
    with np.errstate(over="ignore", invalid="ignore"):
        direct = 1.0 - x * _mills(np.minimum(x, 10.0))
    if not (x > 10.0).any():
        return direct
    large = np.clip(x, 10.0, 1e150)
    term = 1.0 / large**2
    series = term.copy()
    for k in range(1, 25):
        term = -term * (2 * k + 1) / large**2
        series = series + term
    return np.where(x > 10.0, series, direct)


def log_gaussian_delta(mu: float, epsilon: float) -> float:
    """Natural logarithm of the exact delta at `epsilon` of a mu-GDP release (not rounded)."""
    check_positive(mu=mu)
    a = epsilon / mu - mu / 2.0
    b = epsilon / mu + mu / 2.0
    if mu > 0.25 * max(1.0, abs(a)):
        if a < 0.0:
            tail = math.exp(-0.5 * a * a - _LOG_SQRT_2PI) * float(_mills(b))
            return math.log1p(-(0.5 * math.erfc(-a / math.sqrt(2.0)) + tail))
        return -0.5 * a * a - _LOG_SQRT_2PI + math.log(float(_mills(a) - _mills(b)))
    middle = epsilon / mu
    integral = 0.5 * mu * float(_WEIGHTS @ _mills_slope(middle + 0.5 * mu * _NODES))
    return -0.5 * a * a - _LOG_SQRT_2PI + math.log(integral)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Smallest delta such that every mu-GDP release is (epsilon, delta)-DP, rounded up.

    Parameters
    ----------
    mu : float
        Positive.
    epsilon : float
        Nonnegative.

    Examples
    --------
    >>> from skriemdp.privacy import gaussian_delta
    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    check_positive(mu=mu)
    check_nonnegative(epsilon=epsilon)
    mu, epsilon = float(mu), float(epsilon)  # narrow numpy types would compute in their precision
    # The smallest positive float stands for anything that underflows.
    return min(1.0, max(math.exp(log_gaussian_delta(mu, epsilon)) * (1.0 + _MARGIN), 5e-324))


@functools.lru_cache(maxsize=4096)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu such that every mu-GDP release is (epsilon, delta)-DP, rounded down.

    Parameters
    ----------
    epsilon : float
        Nonnegative.
    delta : float
        In (0, 1); no Gaussian release has delta = 0.

    Examples
    --------
    >>> from skriemdp.privacy import gaussian_mu
    >>> round(gaussian_mu(1.0, 1e-5), 5)
    0.26805
    """
    check_nonnegative(epsilon=epsilon)
    check_fraction(delta=delta)
    epsilon, delta = float(epsilon), float(delta)
    # Twice the margin of gaussian_epsilon, so that epsilon -> mu -> epsilon never grows.
    target = math.log(delta) - 4.0 * _MARGIN

    def excess(log_mu: float) -> float:
        return log_gaussian_delta(math.exp(log_mu), epsilon) - target

    log_mu = _near_log_mu(epsilon, target)
    if math.isnan(log_mu):
        low, high = -1.0, 1.0
        while excess(low) > 0.0:
            low -= 5.0
            if low < -700.0:
                raise PublicValueError(f"no mu reaches (epsilon={epsilon}, delta={delta}).")
        while excess(high) < 0.0:
            high += 1.0
        log_mu = brentq(excess, low, high, xtol=1e-14, rtol=1e-14)
    shift = 1e-13
    while excess(log_mu) > 0.0:
        log_mu -= shift
        shift *= 2.0
    return math.exp(log_mu) * (1.0 - 1e-15)


def _near_log_mu(epsilon: float, log_delta: float) -> float:
    """Solve for log mu by Newton's method, in a few steps; nan if it does not converge.

    The start solves Phi(-a) = delta; the derivative of delta in mu is phi(a).
    """
    z = -float(ndtri_exp(log_delta))
    if not (z > 0.0 and epsilon > 0.0):
        return math.nan
    log_mu = math.log(2.0 * epsilon / (math.sqrt(z * z + 2.0 * epsilon) + z))
    for _ in range(12):
        mu = math.exp(log_mu)
        reached = log_gaussian_delta(mu, epsilon)
        a = epsilon / mu - mu / 2.0
        log_slope = log_mu - 0.5 * a * a - _LOG_SQRT_2PI - reached
        if not abs(log_slope) < 300.0:
            return math.nan
        step = (reached - log_delta) * math.exp(-log_slope)
        if abs(step) > 1.0:
            return math.nan
        log_mu -= step
        if abs(step) < 1e-8:
            return log_mu
    return math.nan


@functools.lru_cache(maxsize=4096)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon such that every mu-GDP release is (epsilon, delta)-DP, rounded up.

    Examples
    --------
    >>> from skriemdp.privacy import gaussian_epsilon
    >>> round(gaussian_epsilon(1.0, 1e-5), 4)
    4.3772
    """
    check_positive(mu=mu)
    check_fraction(delta=delta)
    mu, delta = float(mu), float(delta)
    target = math.log(delta) - 2.0 * _MARGIN

    def excess(epsilon: float) -> float:
        return log_gaussian_delta(mu, epsilon) - target

    if excess(0.0) <= 0.0:
        return 0.0
    # delta <= phi-tail at a: epsilon below mu^2/2 + mu sqrt(2 log(1/delta)) + mu always suffices.
    high = 0.5 * mu * mu + mu * (math.sqrt(-2.0 * target) + 1.0)
    if high > 1e300:  # beyond which floats cannot bisect
        return math.inf
    while excess(high) > 0.0:
        high *= 2.0
    epsilon = brentq(excess, 0.0, high, xtol=1e-14 * max(1.0, high), rtol=1e-14)
    shift = 1e-14 * max(1.0, epsilon)
    while excess(epsilon) > 0.0:
        epsilon += shift
        shift *= 2.0
    return epsilon * (1.0 + 1e-15)


# (events at the ends of the bracket, target) -> (parameter, its event).
_CALIBRATED: OrderedDict = OrderedDict()
# Tolerances of calibration: of log epsilon, below the target; and of the logarithm of the noise,
# where epsilon jumps.
_PRECISION, _CLOSEST = 5e-6, 1e-6
_SHORT, _LONG = math.log(4.0), math.log(16.0)  # longest steps of a search, down and up
_PATIENCE = 8  # steps after which a bracket is looked for, or halved


def calibrate(
    make_event: Callable[[float], Event], epsilon: float, delta: float, bracket: tuple[float, float]
) -> float:
    """Find the least noise for which an event is (epsilon, delta)-private, on the private side.

    Parameters
    ----------
    make_event : callable
        ``make_event(noise)`` returns an event whose delta at `epsilon` falls as `noise` grows.
    epsilon : float
        Positive.
    delta : float
        In [0, 1).  With 0 the event must have a pure epsilon.
    bracket : tuple of float
        Least and largest noise to consider, both positive.

    Returns
    -------
    float
        A `noise` with ``make_event(noise).delta(epsilon) <= delta``, within about 1e-4 of the least
        one.

    Raises
    ------
    ValueError
        When the upper end of the bracket is not private enough.

    Notes
    -----
    Only public numbers enter, so results are remembered for the life of the process.

    Examples
    --------
    >>> from skriemdp.privacy import calibrate
    >>> from skriemdp.privacy import PoissonSampledGaussianEvent
    >>> def solver(noise):
    ...     return PoissonSampledGaussianEvent(0.01, noise, count=1000)
    >>> round(calibrate(solver, 1.0, 1e-5, (0.1, 100.0)), 3)
    1.182
    """
    check_positive(epsilon=epsilon)
    check_fraction(open_left=False, delta=delta)
    epsilon, delta = float(epsilon), float(delta)
    low, high = (float(end) for end in bracket)
    if not 0.0 < low < high < math.inf:
        raise PublicValueError(f"bracket must be increasing, positive and finite, got {bracket!r}.")
    ends = make_event(low), make_event(high)
    for event in ends:
        check_methods("an Event", "epsilon", "delta", **{"make_event(noise)": event})
    key = *ends, epsilon, delta, low, high
    if key in _CALIBRATED:
        noise, event = _CALIBRATED[key]
        # Two families may agree at both ends; what counts is the event of the answer.
        if make_event(noise) == event:
            _CALIBRATED.move_to_end(key)
            return noise
    noise = _least_noise(make_event, epsilon, delta, low, high)
    _CALIBRATED[key] = noise, make_event(noise)
    while len(_CALIBRATED) > 1024:
        _CALIBRATED.popitem(last=False)
    return noise


def _least_noise(
    make_event: Callable[[float], Event], epsilon: float, delta: float, low: float, high: float
) -> float:
    """Find the noise by secants, on the nearly linear square of epsilon, in a bracket."""

    def private(noise: float) -> bool:
        return make_event(noise).delta(epsilon) <= delta

    def excess(log_noise: float) -> float:
        reached = make_event(math.exp(log_noise)).epsilon(delta)
        return math.log(min(max(reached, 1e-9), 1e9)) - math.log(epsilon)

    ends = math.log(low), math.log(high)
    # From the middle outwards, so that extreme ends, which are dear, are rarely computed.
    x = start = min(max(0.0, ends[0]), ends[1])
    inside, outside = math.inf, -math.inf
    before = math.nan, math.nan
    for number in itertools.count():
        value = excess(x)
        if value <= 0.0:
            inside = x
        else:
            outside = x
        if outside >= ends[1]:
            raise PublicValueError(
                f"no noise up to {high:.6g} reaches (epsilon={epsilon}, delta={delta}); allow more "
                "noise or a larger epsilon."
            )
        near = -_PRECISION <= value <= 0.0 or inside - outside <= _CLOSEST
        if near or inside <= ends[0]:
            break
        # What a fixed release adds to the square hardly depends on the noise.
        strength = max(math.exp(2.0 * (start - x)), 1e-300)
        square = math.exp(min(2.0 * value, 600.0))
        gained = strength - before[0]
        slope = (square - before[1]) / gained if gained else math.nan
        if not 0.0 < slope < math.inf:
            slope = square / strength
        before = strength, square
        wanted = strength + (math.exp(-0.8 * _PRECISION) - square) / slope
        both = math.isfinite(inside - outside)
        if number > _PATIENCE and not both:
            wanted = 0.0 if value > 0.0 else math.inf
        new = math.inf if wanted <= 0.0 else start - 0.5 * math.log(wanted)
        # Less noise is dear, and much of it is seldom wanted.
        x = min(max(new, x - _SHORT, ends[0]), x + _LONG, ends[1])
        if both and (not outside < x < inside or (number > _PATIENCE and number % 2)):
            x = 0.5 * (outside + inside)
    noise = min(max(math.exp(inside), low), high)
    step = 0.25 * _PRECISION
    while not private(noise):
        noise *= 1.0 + step
        step *= 2.0
        if noise > 2.0 * math.exp(inside):
            raise PublicArithmeticError("calibration did not converge; please report the event.")
    return min(noise, high)
