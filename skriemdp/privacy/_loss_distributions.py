"""Discrete privacy loss distributions that dominate a pair.

Only symmetric pairs (P, Q) occur here: the loss has the same law in both directions, so

    probability(loss in -A) = E[e^-loss; loss in A].                                         (1)

A pair is described by what happens at losses >= 0.  Mass of P and Q between two points of the grid
is moved to the two points so that both masses stay ("connect the dots", Doroshenko et al. 2022):
the profile is then the chord of the true one, never below it.  Rounding is on the private side too:
that of masses moves mass up (:func:`_connect`), that of Fourier transforms is added to the mass at
infinity (:func:`_convolved`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr, ndtri_exp

from skriemdp._errors import PublicValueError
from skriemdp._validation import check_positive

# Mass that a composition may cut off; it is added to the mass at infinity.
TAIL = 1e-13
# Spacing of floats at 1, for masses and for the transforms (the longest type that there is).
_EPS, _LONG_EPS = float(np.finfo(float).eps), float(np.finfo(np.longdouble).eps)
# Mass of a single event beyond the grid (put at infinity), small enough for 10^6 compositions.
_LOG_BEYOND = -50.0
LARGEST_LOSS = 600.0  # of a profile that has to be written in e^epsilon; larger ones are infinite
# Orders of Chernoff bounds, over the best one of a Gaussian law.
_ORDERS = (0.2, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0, 1.2, 1.5, 2.0)


@dataclass(frozen=True, eq=False)
class PrivacyLossDistribution:
    """Law of the privacy loss of a symmetric pair, on multiples of `interval`.

    Attributes
    ----------
    lower : int
        The least loss, in intervals.
    masses : ndarray
        Of that loss and those above it.
    infinity : float
        Mass at infinity.
    interval : float
    """

    lower: int
    masses: np.ndarray
    infinity: float
    interval: float

    def get_delta_for_epsilon(self, epsilon: Any) -> Any:
        """The profile at `epsilon`, or at each of them."""
        losses = (np.arange(self.masses.size) + self.lower) * self.interval
        if np.ndim(epsilon) == 0:
            above = losses > epsilon
            return self.infinity - np.dot(np.expm1(epsilon - losses[above]), self.masses[above])
        # From the largest loss down, as many as are above each epsilon.
        masses = self.masses[::-1]
        mass_p = np.cumsum(np.append(self.infinity, masses))
        mass_q = np.cumsum(np.append(0.0, masses * np.exp(-losses[::-1])))
        count = losses.size - np.searchsorted(losses, epsilon, side="right")
        scale = np.exp(np.where(count > 0, epsilon, 0.0))
        return mass_p[count] - scale * mass_q[count]

    def mixed(self, other: PrivacyLossDistribution, weight: float) -> PrivacyLossDistribution:
        """This one with probability `weight`, else `other`."""
        parts = ((self, weight), (other, 1.0 - weight))
        lower = min(self.lower, other.lower)
        masses = np.zeros(max(loss.lower + loss.masses.size for loss, _ in parts) - lower)
        for loss, share in parts:
            masses[loss.lower - lower :][: loss.masses.size] += share * loss.masses
        infinity = self.infinity * weight + other.infinity * (1.0 - weight)
        return PrivacyLossDistribution(lower, masses, infinity, self.interval)


def points_of(reach: float, interval: float) -> int:
    """Number of intervals that cover losses up to `reach`; ValueError where these are too many."""
    check_positive(interval=interval)
    points = reach / float(interval)
    if points > 4_000_000:
        raise PublicValueError(
            f"a privacy loss distribution with {points:.3g} points was asked for; use a larger "
            "interval (the noise is very small)."
        )
    return math.ceil(points)


def _symmetric(
    atoms: np.ndarray, infinity: float, interval: float, count: int = 1
) -> PrivacyLossDistribution:
    """Atoms at h, 2h, ... of one side (the first is not looked at); `count` copies.

    The other side follows from (1), and 0 has the mass that is left.
    """
    loss = interval * np.arange(atoms.size)
    # Rounded down: the mass goes to 0, which is higher.
    mirrored = atoms * (np.exp(-loss * (1.0 + 4.0 * _EPS)) * (1.0 - 4.0 * _EPS))
    masses = np.concatenate([mirrored[:0:-1], np.zeros(1), atoms[1:]]).astype(np.longdouble)
    masses[atoms.size - 1] = max(1.0 - masses.sum() - infinity, 0.0)
    return _copies(1 - atoms.size, masses, infinity, interval, count)


def _copies(
    lower: int, masses: np.ndarray, infinity: float, interval: float, count: int
) -> PrivacyLossDistribution:
    """`count` copies of a law that begins at `lower`, in long floats."""
    if count == 1:
        return PrivacyLossDistribution(lower, masses.astype(float), infinity, interval)
    first, found, rounding = _convolved(masses, count)
    infinity = TAIL + rounding - math.expm1(count * math.log1p(-infinity))
    return PrivacyLossDistribution(count * lower + first, found, min(infinity, 1.0), interval)


def _convolved(masses: np.ndarray, count: int) -> tuple[int, np.ndarray, float]:
    """`count` copies of a law on 0, 1, ..., without at most `TAIL` of mass; its first place.

    What is left out is mass in both tails; the transform puts it somewhere else in the window.
    And how far all masses together can be off by rounding.

    Notes
    -----
    *Rounding.*  Let f be the transform of the law of one step over n places, F that as computed, r
    its mass outside its heaviest place, N = `count`, eps that of long floats.  A transform by
    factors 2 to 5 is a sum over paths from inputs to outputs, with at most 10 roundings of ``eps /
    2`` for each factor two of n (for a factor 5 fourteen on 2.3 factors two), so every value is off
    by at most ``e = eps ((5 log2(n) + 20) r + 3)``.  Here the heaviest mass, moved to place 0, is
    added after the transform; ``20 r`` is for the sum of which it is the rest, and 3 for that
    addition and the power's N - 1 complex products: each is off by ``sqrt(5) eps / 2`` relatively,
    which adds to the error of ``f^N`` as much as such an error of f would.  Hence

        |F^N - f^N| <= N e (|F| + e)^(N-1)    at every frequency.

    By Parseval the masses of the sum are off by at most N e times the root of the mean over
    frequencies of ``(|F| + e)^(2N-2)`` in the Euclidean norm, to which the way back adds ``5 eps
    log2(n)`` times their norm.  The root of the number of places that are kept, times this, bounds
    the sum of absolute errors, hence that of delta.
    """
    first, last = _most_of(masses.astype(float), count)
    size = max(last - first, 0) + 1  # the ends cross where nearly all mass is at infinity
    length = next_fast_len(max(size, masses.size), real=True)
    heaviest = int(masses.argmax())
    others = np.zeros(length, dtype=np.longdouble)
    others[: masses.size] = masses
    others[heaviest] = 0.0
    transform = masses[heaviest] + rfft(np.roll(others, -heaviest))
    levels = 5.0 * math.log2(length)
    one = _LONG_EPS * ((levels + 20.0) * float(others.sum()) + 3.0)
    modulus = np.minimum(np.abs(transform).astype(float) + one, 1.0)
    with np.errstate(divide="ignore"):
        depth = np.log(modulus)
    # All but the last frequency (or the first two) stand for two.
    square = 2.0 * float(np.exp((2.0 * count - 2.0) * depth).sum()) / length
    rounding = _LONG_EPS * levels + count * one
    # Smaller powers of a transform may be taken as 0.
    seen = count * depth > -80.0
    powers = np.zeros(transform.size, dtype=np.clongdouble)
    powers[seen] = _raised(transform[seen], count)
    spread = 1.01 * math.sqrt(size * square)
    if _EPS * levels * spread < TAIL:  # the way back happens once
        powers, rounding = powers.astype(complex), rounding + _EPS * levels
    found = np.roll(irfft(powers, length), (count * heaviest - first) % length)[:size]
    return first, np.maximum(found, 0.0).astype(float), rounding * spread


def _raised(base: np.ndarray, count: int) -> np.ndarray:
    """Powers by squaring: as many roundings as factors, which a power of libm does not promise."""
    found = np.ones_like(base)
    while True:
        if count % 2:
            found *= base
        count //= 2
        if not count:
            return found
        base = base * base


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
    # Nothing overflows.
    orders = np.minimum(best * np.array(_ORDERS), 40.0 / masses.size)
    orders = np.concatenate([orders, -orders])
    # Exponentials of a place are products of those of its row and its column.
    columns = min(256, masses.size)
    rows = -(-masses.size // columns)
    table = np.zeros(rows * columns)
    table[: masses.size] = masses
    inside = table.reshape(rows, columns) @ np.exp(np.outer(np.arange(columns), orders))
    outside = np.exp(np.outer(columns * np.arange(rows), orders))
    bounds = (count * np.log((inside * outside).sum(axis=0)) + log_share) / orders
    first = max(0.0, float(bounds[len(_ORDERS) :].max()) - 1.0)
    last = min(float(count * (masses.size - 1)), float(bounds[: len(_ORDERS)].min()) + 1.0)
    return math.floor(first), math.ceil(last)


def _connect(
    mass_p: np.ndarray,
    mass_q: np.ndarray,
    tail_p: float,
    interval: float,
    far: float,
    count: int = 1,
) -> PrivacyLossDistribution:
    """Distribution from the masses of P and Q in [0, h], [h, 2h], ... and of P beyond.

    They are differences of normal tails at most `far` from the mean.

    Notes
    -----
    *Rounding.*  The mass at loss 0 is what the others leave.  If delta at every grid point is at
    least the true one, so is it between them (chords), at negative epsilon (mirror law), and after
    composition.  With T_p(j), T_q(j) the masses of P and Q at losses above j h, and p_j, q_j those
    in [j h, (j + 1) h], the atoms give ``delta(k h)`` as the mass of P beyond the grid plus

        sum_{j>=k} [p_j (1 - e^(-(j-k) h)) + v_j e^(-(j-k) h) (1 - e^-h)],

    with ``v_j = (p_j - e^(j h) q_j) / (1 - e^-h)`` in [0, p_j], the part of p_j that goes to the
    upper point.

    1. A normal tail at x is computed to ``2 eps (10 + x^2 / 2)`` of itself (a test), and its
       argument adds as much.  So T_p and ``e^(j h) T_q <= T_p`` are known to ``rho = 4 eps (20 +
       x^2 + j h)`` of T_p, and ``p_j - e^(j h) q_j`` to ``2 rho T_p(j)``, which is added before v_j
       is clipped to [0, p_j].  So v_j is too small only where it is clipped from above.
    2. There p_j has the weight ``1 - e^(-(j+1-k) h)``.  In every case the weights of p_j grow with
       j, so by summation by parts the sum grows with every T_p(j).  All atoms are multiplied by
       ``1 + rho``, so no T_p(j) is below the true one.
    3. Observations are computed from losses with a relative error, in losses, of at most ``16 eps
       (20 + M)``, M the sum of the absolute values added up on the way.  The losses are lowered by
       that factor first (:func:`_edges`), so no edge has a larger loss than its grid point; a lower
       one only makes v_j larger.
    4. Masses at negative losses are rounded down and 0 takes the difference, which raises the
       losses of P.
    """
    edge = interval * np.arange(mass_p.size)
    rounding = 4.0 * _EPS * (20.0 + far * far + edge)
    tail = np.cumsum(mass_p[::-1])[::-1] + tail_p
    # Where Q's mass underflows, all of P's goes to the upper point.
    matched = np.where(edge < 600.0, mass_q * np.exp(np.minimum(edge, 600.0)), 0.0)
    upper = (mass_p - matched + 2.0 * rounding * tail) / -math.expm1(-interval)
    upper = np.clip(upper, 0.0, mass_p)
    atoms = np.zeros(mass_p.size + 1)
    atoms[1:] += upper
    atoms[:-1] += mass_p - upper
    up = 1.0 + float(rounding[-1])
    return _symmetric(atoms * up, tail_p * up, interval, count)


def _edges(interval: float, points: int, size: float) -> np.ndarray:
    """Losses 0, h, 2h, ..., so little lower that the observations found for them have no larger.

    `size` is that of the numbers which are added on the way.
    """
    return interval * (1.0 - 16.0 * _EPS * (20.0 + size)) * np.arange(points + 1)


def _between(edges: np.ndarray) -> np.ndarray:
    """N(0, 1) mass between successive edges, from the smaller tail."""
    below, above = ndtr(edges), ndtr(-edges)
    return np.where(edges[:-1] > 0.0, above[:-1] - above[1:], below[1:] - below[:-1])


def gaussian_loss(mu: float, interval: float) -> PrivacyLossDistribution:
    """The pair N(mu, 1), N(0, 1)."""
    reach = 0.5 * mu * mu - mu * float(ndtri_exp(_LOG_BEYOND))
    count = max(points_of(reach, interval), 1)
    edge = _edges(interval, count, 0.0) / mu
    masses = _between(edge - 0.5 * mu), _between(edge + 0.5 * mu)
    far = float(edge[-1]) + 0.5 * mu
    return _connect(*masses, float(ndtr(0.5 * mu - edge[-1])), interval, far)


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
    points = max(points_of(reach, interval), 1)
    loss = _edges(interval, points, abs(log_odds) + 0.125 / (s * s) + reach)
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
    return _connect(mass_p, mass_q, float(tail), interval, float(y[-1] + 0.5) / s, count)


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
    points = max(points_of(reach, interval), 1)
    first = math.log1p(math.expm1(min(interval, 1.0)) / q)
    loss = _edges(interval, points, reach - math.log(q) + 0.5 / (s * s * first))
    # t = log(1 + (e^l - 1)/q), written for large l as well.
    with np.errstate(divide="ignore"):
        log_excess = loss + np.log(-np.expm1(-loss)) - math.log(q)
    x = s * s * np.logaddexp(0.0, log_excess) + 0.5
    mass_q = _between(x / s)
    mass_p = q * _between((x - 1.0) / s) + (1.0 - q) * mass_q
    tail = q * ndtr((1.0 - x[-1]) / s) + (1.0 - q) * ndtr(-x[-1] / s)
    return _connect(mass_p, mass_q, float(tail), interval, float(x[-1]) / s, count)


def privacy_parameters_loss(
    epsilon: float, delta: float, interval: float
) -> PrivacyLossDistribution:
    """The pair that dominates every (epsilon, delta)-DP release (Kairouz, Oh, Viswanath 2015)."""
    points_of(epsilon, interval)
    k = math.floor(epsilon / interval)
    odds = math.exp(-epsilon)
    present = (1.0 - delta) / (1.0 + odds)
    # The atom at epsilon, moved to its two neighbours on the grid as a bin of masses P and Q.
    offset = epsilon - k * interval
    upper = present * -math.expm1(-offset) / -math.expm1(-interval)
    atoms = np.zeros(k + 2)
    atoms[k], atoms[k + 1] = present - upper, upper
    return _symmetric(atoms, delta, interval)


def nothing(interval: float) -> PrivacyLossDistribution:
    """Return the loss distribution of no release."""
    return PrivacyLossDistribution(0, np.ones(1), 0.0, interval)


def loss_from_profile(
    deltas: ArrayLike, interval: float, stride: int = 1
) -> PrivacyLossDistribution:
    """Distribution of a symmetric pair from upper bounds of delta at 0, kh, 2kh, ... (k: `stride`).

    Profiles are convex in e^epsilon, so the true one lies below the greatest convex function below
    the bounds that also obeys the mirror law ``delta(-e) = 1 - e^-e + e^-e delta(e)``; the last
    bound becomes the mass at infinity.  A chord that obeys the mirror law across 0 is a line
    through the point (-1, 1), so that point stands for the whole left half.
    """
    check_positive(interval=interval)
    deltas = np.minimum.accumulate(np.clip(np.asarray(deltas, dtype=float), 0.0, 1.0))
    deltas = deltas[: math.floor(LARGEST_LOSS / (stride * interval)) + 1]
    places, masses = profile_atoms(np.exp(stride * interval * np.arange(deltas.size)), deltas)
    atoms = np.zeros(stride * (deltas.size - 1) + 1)
    atoms[stride * places] = masses
    return _symmetric(atoms, deltas[-1], interval)


def profile_atoms(gamma: np.ndarray, deltas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and masses of that pair's atoms, from bounds at e^epsilon = gamma = 1, ..."""
    corners = _lower_hull(np.append(-1.0, gamma), np.append(1.0, deltas))
    x, y = np.append(-1.0, gamma)[corners], np.append(1.0, deltas)[corners]
    slope = np.append(np.minimum(np.diff(y) / np.diff(x), 0.0), 0.0)
    return corners[1:] - 1, x[1:] * np.maximum(np.diff(slope), 0.0)


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
    masses = np.maximum(loss.masses, 0.0).astype(np.longdouble)
    # Floats: what they lack together, and what one may lack while another has it, are lost.
    lost = max(float(1.0 - masses.sum()) - loss.infinity, 0.0) + 0.5 * _EPS
    infinity = min(loss.infinity + lost, 1.0)
    return _copies(loss.lower, masses, infinity, interval, count)


def product(
    one: PrivacyLossDistribution, two: PrivacyLossDistribution, tail: float = TAIL
) -> PrivacyLossDistribution:
    """Both losses, independent; mass up to `tail` at either end is moved up, to infinity above."""
    size = one.masses.size + two.masses.size - 1
    length = next_fast_len(size, real=True)
    transforms = [rfft(part.masses.astype(np.longdouble), length) for part in (one, two)]
    found = irfft(transforms[0] * transforms[1], length)[:size].astype(float)
    found = np.maximum(found, 0.0)
    length_2 = min(math.sqrt(part.masses @ part.masses) for part in (one, two))
    infinity = one.infinity + two.infinity * (1.0 - one.infinity)
    infinity += _LONG_EPS * 20.0 * math.log2(2.0 * length) * math.sqrt(size) * length_2
    above = np.cumsum(found[::-1])
    size -= int(np.searchsorted(above, tail, side="right"))
    lower, below = one.lower + two.lower, np.cumsum(found[:size])
    begin = int(np.searchsorted(below, tail, side="right"))
    if begin >= size:
        return PrivacyLossDistribution(lower, np.zeros(1), 1.0, one.interval)
    infinity += float(found[size:].sum())
    found[begin] += below[begin - 1] if begin else 0.0
    found = found[begin:size]
    return PrivacyLossDistribution(lower + begin, found, min(infinity, 1.0), one.interval)


def largest_loss(losses: list[PrivacyLossDistribution], interval: float) -> PrivacyLossDistribution:
    """Return a loss distribution whose profile is the pointwise maximum over all `losses`."""
    count = 1
    while interval * count < LARGEST_LOSS and any(
        loss.get_delta_for_epsilon(interval * count) > loss.get_delta_for_epsilon(math.inf)
        for loss in losses
    ):
        count *= 2
    grid = interval * np.arange(min(count, math.floor(LARGEST_LOSS / interval)) + 1)
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
        mixed = loss if mixed is None else loss.mixed(mixed, weight / total)
    return mixed
