"""Discrete privacy loss distributions that dominate a pair, as dp_accounting objects.

Only symmetric pairs (P, Q) occur here: the loss has the same law in both directions, so

    probability(loss in -A) = E[e^-loss; loss in A].                                         (1)

A pair is described by what happens at losses >= 0.  Mass of P and Q between two points of the grid
is moved to the two points so that both masses stay ("connect the dots", Doroshenko et al. 2022):
the profile is then the chord of the true one, never below it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr, ndtri_exp

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


__all__ = [
    "TAIL",
    "fixed_size_gaussian_loss",
    "gaussian_loss",
    "largest_loss",
    "loss_from_profile",
    "mixture_loss",
    "nothing",
    "poisson_gaussian_loss",
    "privacy_parameters_loss",
    "repeat",
]

# Mass that a composition may cut off; it is added to the mass at infinity.
TAIL = 1e-13
# Rounding of a power of a Fourier transform, for each factor: ours, of which a tenth was measured,
# and dp_accounting's, of which a third was.
_COPY, _FOREIGN_COPY = 2e-17, 1e-16
# Mass of a single event beyond the grid (put at infinity), small enough for 10^6 compositions.
_LOG_BEYOND = -50.0
_MOST_POINTS = 4_000_000
# Orders of Chernoff bounds, over the best one of a Gaussian law, and the largest one times the
# number of points: nothing overflows.
_ORDERS = (0.2, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0, 1.2, 1.5, 2.0)
_LARGEST_ORDER = 40.0


def _dp_accounting(
    lower: int, probabilities: np.ndarray, infinity: float, interval: float
) -> PrivacyLossDistribution:
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    pmf = pld_pmf.DensePLDPmf(interval, int(lower), probabilities, float(infinity), True)
    return PrivacyLossDistribution(pmf)


def _check_size(points: float) -> None:
    if points > _MOST_POINTS:
        raise ValueError(
            f"a privacy loss distribution with {points:.3g} points was asked for; use a larger "
            "interval (the noise is very small)."
        )


def _symmetric(
    atoms: np.ndarray, infinity: float, interval: float, zero: float = 0.0, count: int = 1
) -> PrivacyLossDistribution:
    """Atoms at 0, h, 2h, ... of one side; the other side follows from (1).  `count` copies."""
    k = np.arange(atoms.size)
    mirrored = atoms * np.exp(-interval * k)
    probabilities = np.concatenate([mirrored[:0:-1], atoms])
    probabilities[atoms.size - 1] += mirrored[0] + zero
    lower = 1 - atoms.size
    if count > 1:
        shift, probabilities = _convolved(probabilities, count)
        lower = count * lower + shift
        infinity = TAIL + count * _COPY - math.expm1(count * math.log1p(-infinity))
    return _dp_accounting(lower, probabilities, infinity, interval)


def _convolved(masses: np.ndarray, count: int) -> tuple[int, np.ndarray]:
    """`count` copies of a law on 0, 1, ..., without at most `TAIL` of mass, and its first place.

    What is left out is mass in both tails; the transform puts it somewhere else in the window.
    """
    first, last = _most_of(masses, count)
    size = last - first + 1
    length = next_fast_len(max(size, masses.size), real=True)
    found = irfft(rfft(masses, length) ** count, length)
    return first, np.roll(found, -first)[:size]


def _most_of(masses: np.ndarray, count: int) -> tuple[int, int]:
    """Places between which all but `TAIL` of the mass of `count` copies lies; Chernoff's bounds.

    Every order gives a bound, to which one place is added for rounding.  Those tried lie about the
    best one of a Gaussian law.
    """
    place = np.arange(masses.size)
    mean = float(place @ masses)
    variance = max(float(((place - mean) ** 2) @ masses), 1e-3)
    log_share = math.log(2.0 / TAIL)
    best = math.sqrt(2.0 * log_share / (count * variance))
    first, last = 0.0, float(count * (masses.size - 1))
    for factor in _ORDERS:
        order = min(factor * best, _LARGEST_ORDER / masses.size)
        power = np.exp(order * place)
        last = min(last, (count * math.log(power @ masses) + log_share) / order + 1.0)
        np.divide(1.0, power, out=power)
        first = max(first, -(count * math.log(power @ masses) + log_share) / order - 1.0)
    return math.floor(first), math.ceil(last)


def _connect(
    mass_p: np.ndarray,
    mass_q: np.ndarray,
    tail_p: float,
    interval: float,
    zero: float = 0.0,
    count: int = 1,
) -> PrivacyLossDistribution:
    """Distribution from the masses of P and Q in [0, h], [h, 2h], ... and of P beyond."""
    edge = interval * np.arange(mass_p.size)
    # Where Q's mass underflows, all of P's goes to the upper point.
    matched = np.where(edge < 600.0, mass_q * np.exp(np.minimum(edge, 600.0)), 0.0)
    upper = np.clip((mass_p - matched) / -math.expm1(-interval), 0.0, mass_p)
    atoms = np.zeros(mass_p.size + 1)
    atoms[1:] += upper
    atoms[:-1] += mass_p - upper
    return _symmetric(atoms, tail_p, interval, zero, count)


def _between(edges: np.ndarray) -> np.ndarray:
    """N(0, 1) mass between successive edges, from the smaller tail."""
    below, above = ndtr(edges), ndtr(-edges)
    return np.where(edges[:-1] > 0.0, above[:-1] - above[1:], below[1:] - below[:-1])


def gaussian_loss(mu: float, interval: float) -> PrivacyLossDistribution:
    """The pair N(mu, 1), N(0, 1)."""
    reach = 0.5 * mu * mu - mu * float(ndtri_exp(_LOG_BEYOND))
    count = max(math.ceil(reach / interval), 1)
    _check_size(count)
    edge = interval * np.arange(count + 1) / mu
    return _connect(
        _between(edge - 0.5 * mu), _between(edge + 0.5 * mu), ndtr(0.5 * mu - edge[-1]), interval
    )


def poisson_gaussian_loss(
    probability: float, noise: float, interval: float, count: int = 1
) -> PrivacyLossDistribution:
    """The pair ``q N(1/2, s^2) + (1-q) N(0, s^2)``, ``q N(-1/2, s^2) + (1-q) N(0, s^2)``.

    `count` independent copies of it.
    """
    q, s = probability, noise
    if q == 1.0:
        return gaussian_loss(math.sqrt(count) / s, interval)
    far = 0.5 - s * float(ndtri_exp(_LOG_BEYOND))
    log_odds = math.log(q) - math.log1p(-q)
    up, down = (log_odds + (sign * 0.5 * far - 0.125) / (s * s) for sign in (1.0, -1.0))
    reach = float(np.logaddexp(0.0, up) - np.logaddexp(0.0, down))
    points = max(math.ceil(reach / interval), 1)
    _check_size(points)
    loss = interval * np.arange(points + 1)
    # The observation with this loss: 2 s^2 (l/2 + asinh(sinh(l/2) (1-q)/q e^(1/(8 s^2)))).
    with np.errstate(divide="ignore"):
        log_sinh = 0.5 * loss + np.log(-np.expm1(-loss)) - math.log(2.0)
    log_argument = log_sinh - log_odds + 0.125 / (s * s)
    asinh = np.where(
        log_argument > 20.0,
        log_argument + math.log(2.0),
        np.arcsinh(np.exp(np.minimum(log_argument, 20.0))),
    )
    y = 2.0 * s * s * (0.5 * loss + asinh)
    absent = (1.0 - q) * _between(y / s)
    mass_p = q * _between((y - 0.5) / s) + absent
    mass_q = q * _between((y + 0.5) / s) + absent
    tail = q * ndtr((0.5 - y[-1]) / s) + (1.0 - q) * ndtr(-y[-1] / s)
    return _connect(mass_p, mass_q, tail, interval, count=count)


def fixed_size_gaussian_loss(
    fraction: float, noise: float, interval: float, count: int = 1
) -> PrivacyLossDistribution:
    """PLD*: profile ``q [Phi(-(x-1)/s) - e^t Phi(-x/s)]`` for epsilon >= 0, symmetric.

    An atom at 0 holds the rest.  `count` independent copies.
    """
    q, s = fraction, noise
    if q == 1.0:
        return gaussian_loss(math.sqrt(count) / s, interval)
    far = 1.0 - s * float(ndtri_exp(_LOG_BEYOND))
    reach = float(np.logaddexp(math.log1p(-q), math.log(q) + (far - 0.5) / (s * s)))
    points = max(math.ceil(reach / interval), 1)
    _check_size(points)
    loss = interval * np.arange(points + 1)
    # t = log(1 + (e^l - 1)/q), written for large l as well.
    with np.errstate(divide="ignore"):
        log_excess = loss + np.log(-np.expm1(-loss)) - math.log(q)
    x = s * s * np.logaddexp(0.0, log_excess) + 0.5
    mass_q = _between(x / s)
    mass_p = q * _between((x - 1.0) / s) + (1.0 - q) * mass_q
    tail = q * ndtr((1.0 - x[-1]) / s) + (1.0 - q) * ndtr(-x[-1] / s)
    zero = (1.0 - q) * (1.0 - 2.0 * ndtr(-0.5 / s))
    return _connect(mass_p, mass_q, tail, interval, zero, count)


def privacy_parameters_loss(
    epsilon: float, delta: float, interval: float
) -> PrivacyLossDistribution:
    """The pair that dominates every (epsilon, delta)-DP release (Kairouz, Oh, Viswanath 2015)."""
    k = math.floor(epsilon / interval)
    _check_size(k)
    odds = math.exp(-epsilon)
    present = (1.0 - delta) / (1.0 + odds)
    # The atom at epsilon, moved to its two neighbours on the grid as a bin of masses P and Q.
    offset = epsilon - k * interval
    upper = present * -math.expm1(-offset) / -math.expm1(-interval)
    atoms = np.zeros(k + 2)
    atoms[k], atoms[k + 1] = present - upper, upper
    return _symmetric(atoms, delta, interval)


def nothing(interval: float) -> PrivacyLossDistribution:
    """No release at all."""
    return _dp_accounting(0, np.ones(1), 0.0, interval)


def loss_from_profile(deltas: ArrayLike, interval: float) -> PrivacyLossDistribution:
    """Distribution of a symmetric pair from upper bounds of delta at 0, h, 2h, ...

    Profiles are convex in e^epsilon, so the true one lies below the greatest convex function below
    the bounds that also obeys the mirror law ``delta(-e) = 1 - e^-e + e^-e delta(e)``; the last
    bound becomes the mass at infinity.  A chord that obeys the mirror law across 0 is a line
    through the point (-1, 1), so that point stands for the whole left half.
    """
    deltas = np.minimum.accumulate(np.clip(np.asarray(deltas, dtype=float), 0.0, 1.0))
    gamma = np.exp(interval * np.arange(deltas.size))
    corners = _lower_hull(np.append(-1.0, gamma), np.append(1.0, deltas))
    x, y = np.append(-1.0, gamma)[corners], np.append(1.0, deltas)[corners]
    slope = np.append(np.minimum(np.diff(y) / np.diff(x), 0.0), 0.0)
    atoms = np.zeros(deltas.size)
    atoms[corners[1:] - 1] = x[1:] * np.maximum(np.diff(slope), 0.0)
    return _symmetric(atoms, deltas[-1], interval)


def _lower_hull(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    kept: list[int] = []
    for k in range(x.size):
        while len(kept) > 1:
            i, j = kept[-2], kept[-1]
            if (y[j] - y[i]) * (x[k] - x[j]) < (y[k] - y[j]) * (x[j] - x[i]):
                break
            kept.pop()
        kept.append(k)
    return np.asarray(kept)


def repeat(loss: PrivacyLossDistribution, count: int, interval: float) -> PrivacyLossDistribution:
    """`count` independent copies of a loss on multiples of `interval` at once."""
    if count == 1:
        return loss
    # Chernoff bounds that overflow are left out of the minimum they are meant for.
    with np.errstate(over="ignore"):
        whole = loss.self_compose(count, tail_mass_truncation=TAIL)
    if count * _FOREIGN_COPY < TAIL:
        return whole
    rounding = min(count * _FOREIGN_COPY, 1.0)
    return whole.compose(_dp_accounting(0, np.array([1.0 - rounding]), rounding, interval), 0.0)


def largest_loss(losses: list[PrivacyLossDistribution], interval: float) -> PrivacyLossDistribution:
    """Whose profile is the largest of the losses' at every epsilon."""
    count = 1
    while any(
        loss.get_delta_for_epsilon(interval * count) > loss.get_delta_for_epsilon(math.inf)
        for loss in losses
    ):
        count *= 2
    grid = interval * np.arange(count + 1)
    return loss_from_profile(
        np.max([loss.get_delta_for_epsilon(grid) for loss in losses], axis=0), interval
    )


def mixture_loss(
    weights: list[float], losses: list[PrivacyLossDistribution]
) -> PrivacyLossDistribution | None:
    """A public coin with these weights chose which release happened."""
    total, mixed = 0.0, None
    for weight, loss in zip(weights, losses, strict=True):
        if weight == 0.0:
            continue
        total += weight
        mixed = loss if mixed is None else loss.compute_mixture(mixed, weight / total)
    return mixed
