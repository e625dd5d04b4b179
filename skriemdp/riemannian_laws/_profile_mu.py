"""Gaussian differential privacy of radial pairs: mu by one integral, and a certificate."""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from skriemdp.privacy._calibration import _LOG_SQRT_2PI, _NODES, _WEIGHTS, _mills, _mills_slope
from skriemdp.riemannian_laws._profile_hockey import (
    _log_normaliser,
    log_complement,
    log_delta,
    log_delta_and_loss,
    log_half_complement,
)
from skriemdp.riemannian_laws._profile_integrand import RadialPair, log_share
from skriemdp.riemannian_laws._quadrature import QuadratureError

# Quadrature error of log delta and log(1 - delta) that certificates allow for.
_MARGIN = 1e-10
# Largest number of cells of a certificate; more would certify a mu nearer to the supremum.
_MOST_CELLS = 12000


def _gaussian_logs(mu: float | np.ndarray, epsilon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``log delta`` and ``log(1 - delta)`` of mu-GDP at epsilon; both arrays."""
    mu, epsilon = np.broadcast_arrays(np.asarray(mu, float), np.asarray(epsilon, float))
    middle, half = epsilon / mu, 0.5 * mu
    a, b = middle - half, middle + half
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        log_density = -0.5 * a * a - _LOG_SQRT_2PI
        complement = np.logaddexp(log_ndtr(a), log_density + np.log(_mills(b)))
        difference = np.log(_mills(np.maximum(a, -30.0)) - _mills(b))
        nodes = middle[..., None] + half[..., None] * _NODES
        close = np.log(half * (_mills_slope(np.maximum(nodes, -5.0)) @ _WEIGHTS))
        small = mu <= 0.25 * np.maximum(1.0, np.abs(a))
        delta = log_density + np.where(small & (a > -4.0), close, difference)
        delta = np.where(a < -2.0, np.log(-np.expm1(np.minimum(complement, -1e-300))), delta)
    return delta, np.minimum(complement, 0.0)


def _profile_logs(
    pair: RadialPair, epsilon: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``log delta``, ``log(1 - delta)`` and the error of the first; never the slow nested form."""
    delta, cancellation = log_delta_and_loss(pair, epsilon, 1e7)
    delta = np.minimum(delta, -1e-300)
    complement = np.log(-np.expm1(delta))
    near_one = delta > math.log(0.4)
    if near_one.any():
        complement[near_one] = log_complement(pair, epsilon[near_one])
    return delta, complement, _MARGIN + 4e-15 * cancellation


def mu_at_zero(pair: RadialPair) -> float:
    """The mu whose Gaussian pair has the same total variation: a lower bound, one integral."""
    if pair.law == "gaussian" and pair.kind == 0:
        return pair.distance / pair.scale
    log_half = log_half_complement(pair)
    if log_half > math.log(0.49):  # delta(0) itself is small and known with relative accuracy
        # Inverse of Phi(x) - 1/2 for small values: series of the inverse error function.
        z = 0.5 * math.exp(float(log_delta(pair, 0.0)[0])) * math.sqrt(2.0 * math.pi)
        z2 = z * z
        return 2.0 * (z * (1.0 + z2 * (1.0 / 6.0 + z2 * (7.0 / 120.0 + z2 * 127.0 / 5040.0))))
    return -2.0 * float(ndtri_exp(log_half))


def _mu_of_profile(pair: RadialPair, epsilon: np.ndarray) -> np.ndarray:
    """The mu of the Gaussian pair with the same delta at each epsilon, by bisection."""
    delta, complement, _ = _profile_logs(pair, epsilon)
    low, high = np.full(epsilon.size, math.log(1e-12)), np.full(epsilon.size, math.log(1e4))
    for _ in range(64):
        middle = 0.5 * (low + high)
        gauss, gauss_complement = _gaussian_logs(np.exp(middle), epsilon)
        less = np.where(delta < math.log(0.5), gauss < delta, gauss_complement > complement)
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.exp(0.5 * (low + high))


@functools.lru_cache(maxsize=4096)
def mu_estimate(pair: RadialPair) -> float:
    """The supremum over epsilon of ``mu_epsilon``: at zero, or found by a scan; not certified.

    In every case computed it sits at epsilon = 0, except for Gaussians on hyperbolic space whose
    centres are more than about 2.9 curvature radii apart; these are scanned
    (docs/theory/riemannian-gdp.md).
    """
    best = mu_at_zero(pair)
    # Hyperbolic Gaussians: the supremum over epsilon leaves epsilon = 0 near this distance or
    # beyond.
    if pair.law == "laplace" or pair.kind >= 0 or pair.distance <= 2.5:
        return best
    m = pair.distance / pair.scale
    reach = min(best * (0.5 * best + 25.0), m * (40.0 + 0.5 * m + pair.order * pair.scale))
    grid = np.concatenate([[0.0], np.geomspace(1e-3 * reach, reach, 40)])
    for _ in range(4):
        values = _mu_of_profile(pair, grid)
        top = int(np.argmax(values))
        best = max(best, float(values[top]))
        grid = np.linspace(grid[max(top - 1, 0)], grid[min(top + 1, grid.size - 1)], 13)
    return best


def tail_line(pair: RadialPair) -> tuple[float, float, float]:
    """m, shift, log C of ``delta <= C phi(y) (R(y) - R(y + m))``, ``y = epsilon/m - shift >= 0``.

    Gaussian laws (docs/theory/riemannian-gdp.md): on the sphere the flat profile, by comparison; on
    hyperbolic space the triangle inequality.
    """
    m = pair.distance / pair.scale
    if pair.kind >= 0:
        return m, 0.5 * m, 0.0
    log_constant = _LOG_SQRT_2PI + math.log(pair.scale) - _log_normaliser(pair)
    return m, 0.5 * m + pair.order * pair.scale, log_constant


@functools.lru_cache(maxsize=1024)
def _tail_start(pair: RadialPair, mu: float) -> float | None:
    """An epsilon from which on ``delta(epsilon) <= delta_mu(epsilon)`` is proved; None if none.

    With the flat value m = Delta / sigma (docs/theory/riemannian-gdp.md, "Certificate"):

    * sphere, ``mu >= m``: by Toponogov's comparison the pair lies below the flat one from
      ``m**2 / 2`` on;
    * hyperbolic space, ``mu > m``: ``loss <= (2 r a + a**2) / (2 s**2)`` gives
      ``delta <= C phi(y) (R(y) - R(y + m))`` with y linear in epsilon.  From where this holds below
      ``delta_mu = phi(z) (R(z) - R(z + mu))``, ``z = epsilon / mu - mu / 2 >= 0`` and
      ``y / m >= z / mu``, it holds for ever.
    """
    m = pair.distance / pair.scale
    if pair.kind > 0:
        return 0.5 * m * m if mu >= m else None
    if mu <= m:
        return None
    _, shift, log_constant = tail_line(pair)
    epsilon = max(0.5 * mu * mu, (shift / m - 0.5) / (m**-2 - mu**-2))
    for _ in range(10):
        epsilons = epsilon * 1.05 ** np.arange(40)
        y = epsilons / m - shift
        bound = log_constant + _gaussian_logs(m, m * (y + 0.5 * m))[0]
        holds = (y >= 0.0) & (bound + _MARGIN <= _gaussian_logs(mu, epsilons)[0])
        if holds.any():
            return float(epsilons[np.argmax(holds)])
        epsilon = 1.05 * float(epsilons[-1])
    return None


def _end(pair: RadialPair, mu: float) -> float:
    """Epsilon from which on the profile is zero, or a tail bound holds."""
    start = _tail_start(pair, mu) if pair.law == "gaussian" else None
    return start or pair.epsilon_max


def is_gdp(pair: RadialPair, mu: float) -> bool:
    """Whether the pair is mu-GDP, proved for every epsilon up to the accuracy of the quadrature.

    Both profiles are convex functions of ``exp(epsilon)``.  In each cell the chord of the pair's
    profile must lie below a tangent of the Gaussian one; cells that fail are halved.  Beyond the
    last cell the pair's profile is zero, or a tail bound holds (:func:`_tail_start`).

    False means "not proved", also when it would take too many cells or a quadrature fails.
    """
    try:
        return _is_gdp(pair, mu)
    except QuadratureError:
        return False


def _is_gdp(pair: RadialPair, mu: float) -> bool:
    if pair.law == "gaussian" and pair.kind == 0:
        return pair.distance / pair.scale <= mu
    end = _end(pair, mu)
    if not math.isfinite(end):
        return False
    nodes = np.linspace(0.0, end, 65)
    values = np.array(_profile_logs(pair, nodes))
    left, right = (nodes[:-1], values[:, :-1]), (nodes[1:], values[:, 1:])
    cells = 0
    while left[0].size:
        cells += left[0].size
        delta, complement, error = left[1]
        gauss, gauss_complement = _gaussian_logs(mu, left[0])
        above = (delta > gauss + error) & (complement < gauss_complement - _MARGIN)
        if above.any() or cells > _MOST_CELLS:
            return False
        bad = ~(_below_tangent(mu, left, right, left) & _below_tangent(mu, left, right, right))
        left, right = (left[0][bad], left[1][:, bad]), (right[0][bad], right[1][:, bad])
        if bad.any():
            middle = 0.5 * (left[0] + right[0])
            values = np.array(_profile_logs(pair, middle))
            left, right = (
                (np.concatenate([left[0], middle]), np.hstack([left[1], values])),
                (np.concatenate([middle, right[0]]), np.hstack([values, right[1]])),
            )
    return True


def _below_tangent(
    mu: float,
    left: tuple[np.ndarray, np.ndarray],
    right: tuple[np.ndarray, np.ndarray],
    at: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """Whether the values at one end lie below the Gaussian profile's tangent at the middle."""
    middle = 0.5 * (left[0] + right[0])
    epsilon, (delta, complement, error) = at
    log_value, log_rest = _gaussian_logs(mu, middle)
    # T(x) = delta_mu(x_m) + (x_m - x) Phi(-b), x = exp(epsilon)
    log_slope = middle + log_ndtr(-(middle / mu + 0.5 * mu))
    change = -np.expm1(epsilon - middle)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = change * np.exp(log_slope - log_value)
        tangent = log_value + np.log1p(np.maximum(ratio, -1.0))
        rest_ratio = change * np.exp(log_slope - log_rest)
        tangent_rest = log_rest + np.log1p(np.maximum(-rest_ratio, -1.0))
    return (delta + error <= tangent) | (complement - _MARGIN >= tangent_rest)


@functools.lru_cache(maxsize=4096)
def certified_mu(pair: RadialPair) -> float | None:
    """A mu for which :func:`is_gdp` holds, 1e-5 to 1e-2 above the supremum; None if none found."""
    if pair.law == "gaussian" and pair.kind == 0:
        return pair.distance / pair.scale
    best = mu_estimate(pair)
    for slack in (1e-5, 1e-4, 1e-3, 1e-2):
        mu = best * (1.0 + slack)
        if pair.law == "gaussian" and pair.kind > 0:
            # Next to the flat value a comparison takes over beyond epsilon = flat**2 / 2.
            flat = pair.distance / pair.scale
            mu = max(flat, mu) if mu > 0.9999 * flat else mu
        # A cell of width h passes while (h / mu)**2 / 8 <= slack, roughly.
        affordable = 0.25 * _MOST_CELLS * mu * math.sqrt(8.0 * slack)
        if _end(pair, mu) <= affordable and is_gdp(pair, mu):
            return mu
    return None


def mu_floor(dim: int, distance: float) -> float:
    """Limit of mu on hyperbolic space as the noise grows; `distance` in curvature radii.

    ``-2 Phi^-1( I_u((dim-1)/2, (dim-1)/2) )``, ``u = 1 / (1 + exp(distance))``: far noise is seen
    as a point of the boundary sphere, whose law depends on the centre.
    """
    u = np.array([1.0 / (1.0 + math.exp(distance))])
    return -2.0 * float(ndtri_exp(log_share(u, dim - 1)[0]))


def delta_floor(dim: int, distance: float, epsilon: float) -> float:
    """Limit of delta(epsilon) on hyperbolic space as the noise grows: two harmonic measures."""
    n = dim - 1
    if epsilon >= n * distance:
        return 0.0
    scale = -math.expm1(-2.0 * distance)
    first = -math.expm1(epsilon / n - distance) / scale
    second = math.exp(-distance) * (math.exp(-epsilon / n) - math.exp(-distance)) / scale
    logs = log_share(np.array([first, second]), n)
    return max(0.0, math.exp(logs[0]) * -math.expm1(min(0.0, epsilon + logs[1] - logs[0])))
