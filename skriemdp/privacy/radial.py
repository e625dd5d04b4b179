"""Radial noise on R^d, density as ``exp(-(|v|/b)^p)``: event, calibration, best exponent.

For small d and small delta it beats Gaussian noise at equal (epsilon, delta); exponent 1 gives pure
differential privacy.  Two data sets shift the law by at most the sensitivity, and the profile of
that shift is exact (docs/theory/radial-noise.md).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import logsumexp

from skriemdp._validation import check_count, check_positive, check_privacy
from skriemdp.privacy import _disk_cache
from skriemdp.privacy._quadrature import Window
from skriemdp.privacy.calibration import gaussian_delta, gaussian_epsilon, gaussian_mu
from skriemdp.privacy.event import Event
from skriemdp.privacy.events_basic import PureEvent
from skriemdp.privacy.gaussian_chords import (
    CELLS,
    MOST_MU,
    Cells,
    asked_once,
    choose_cells,
    chord_delta,
    first_delta,
)
from skriemdp.privacy.loss_distributions import gaussian_loss, loss_from_profile
from skriemdp.privacy.radial_profile import log_renyi_tail, radial_delta
from skriemdp.privacy.radial_search import (
    guessed_shifts,
    log_deltas,
    mean_square,
    search_shifts,
)

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


__all__ = [
    "EXPONENTS",
    "RadialEvent",
    "best_radial_law",
    "best_radial_law_after",
    "calibrated_radial_law",
]

EXPONENTS = (1.0, 1.2, 1.4, 1.6, 2.0)

_GRID = 2000  # values of epsilon that represent a profile in a loss distribution
_ROUGH = 1e-4  # relative error of the scales that decide which exponents are worth an exact search
_PROBE = 0.05  # steps of the logarithms of shifts that tell first slopes
_RENYI_GRID = 200  # for Renyi divergences where they are short and smooth integrals
# Shares of delta that a calibration from the disk may leave unused: alone, and with chords.
_SLACK, _CHORD_SLACK = 1e-5, 1e-2
# Few equal cells come within this factor of many.
_CLEARLY = 1.5
# A search over chords aims this far below the logarithm of delta, so that its end is private.
_BELOW_TARGET = 3e-6
_NEGLIGIBLE = 1e-15  # mass beyond the grid of a loss distribution; goes to infinity
_FAR = 1e-120  # mass beyond the grid of Renyi divergences; high orders weigh far losses


@dataclasses.dataclass(frozen=True)
class RadialEvent(Event):
    """One release with noise of density proportional to ``exp(-(|v|/b)^p)`` on R^dim.

    Parameters
    ----------
    dim : int
    exponent : float
        p, in [1, 2]; 2 is Gaussian noise with ``sigma = b / sqrt(2)``.
    scale_over_sensitivity : float
        b over the replace-one sensitivity in the Euclidean norm.

    Notes
    -----
    *Guarantee*: ``delta(epsilon)`` is the exact profile at the full sensitivity, rounded up, and
    the profile of a shorter shift is never larger.  With exponent 1 it vanishes from ``epsilon =
    1 / scale_over_sensitivity`` on: pure differential privacy.

    Examples
    --------
    >>> from skriemdp.privacy.radial import RadialEvent
    >>> event = RadialEvent(dim=3, exponent=1.0, scale_over_sensitivity=0.5)
    >>> event.delta(2.0), event.epsilon(0.0)
    (0.0, 2.0)
    >>> round(event.delta(1.0), 4)
    0.166
    """

    dim: int
    exponent: float
    scale_over_sensitivity: float
    kind = "radial"

    def __post_init__(self) -> None:
        check_count(dim=self.dim)
        check_positive(exponent=self.exponent, scale_over_sensitivity=self.scale_over_sensitivity)
        if not 1.0 <= self.exponent <= 2.0:
            raise ValueError(f"exponent must lie in [1, 2], got {self.exponent!r}.")

    @property
    def shift(self) -> float:
        """The sensitivity in units of b."""
        return 1.0 / self.scale_over_sensitivity

    @property
    def mean_square_over_sensitivity(self) -> float:
        """E|v|^2 of the noise over the squared sensitivity."""
        return self.scale_over_sensitivity**2 * float(mean_square(self.dim, self.exponent))

    @property
    def mu(self) -> float | None:
        return math.sqrt(2.0) * self.shift if self.exponent == 2.0 else None

    @property
    def gdp_bound(self) -> float | None:
        if self.exponent == 1.0:
            return PureEvent(self.shift).gdp_bound
        return self.mu

    def renyi(self, order: float) -> float:
        if self.exponent == 2.0:
            return order * self.shift**2 * (1.0 + 1e-12)
        pure = self.shift if self.exponent == 1.0 else math.inf
        return pure if order == math.inf else min(_renyi(self, float(order)), pure)

    def _exact_delta(self, epsilon: float) -> float:
        if self.mu is not None:
            return gaussian_delta(self.mu, epsilon)
        return float(radial_delta(self.dim, self.exponent, self.shift, [epsilon])[0])

    def _exact_epsilon(self, delta: float) -> float:
        if delta == 0.0:
            return self.shift if self.exponent == 1.0 else math.inf
        if self.mu is not None:
            return gaussian_epsilon(self.mu, delta)
        if self._exact_delta(0.0) <= delta:
            return 0.0
        high = self.shift
        while self._exact_delta(high) > delta:
            high *= 2.0
        log_target = math.log(delta)
        found = brentq(lambda e: self._log_delta(e) - log_target, 0.0, high, xtol=1e-13)
        step = 1e-13 * max(1.0, found)
        while self._exact_delta(found) > delta:
            found += step
            step *= 2.0
        return found if self.exponent > 1.0 else min(found, self.shift)

    def delta_with_gaussian(self, mu: float, epsilon: float) -> float | None:
        """See :meth:`Event.delta_with_gaussian`; exact but for chords, at most 0.2 % above."""
        return None if mu > MOST_MU else _delta_with_gaussian(self, mu, epsilon)

    @property
    def rough_size(self) -> float:
        """The squared shift."""
        return self.shift**2

    def _log_delta(self, epsilon: float) -> float:
        return math.log(max(self._exact_delta(epsilon), 5e-324))

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        if self.exponent == 2.0:
            return gaussian_loss(math.sqrt(2.0) * self.shift, interval)
        epsilons, deltas = _profile(self, _NEGLIGIBLE, _GRID)
        count = math.ceil(epsilons[-1] / interval) + 1
        # Chords in e^epsilon: the profile is convex there, so this never falls below it.
        fine = np.expm1(interval * np.arange(count))
        return loss_from_profile(np.interp(fine, np.expm1(epsilons), deltas), interval)


@functools.lru_cache(maxsize=4096)
def _delta_with_gaussian(event: RadialEvent, mu: float, epsilon: float) -> float:
    def profile(epsilons: np.ndarray) -> np.ndarray:
        return radial_delta(event.dim, event.exponent, event.shift, epsilons)

    return chord_delta(profile, mu, epsilon, _kink(event.exponent, event.shift))


@functools.lru_cache(maxsize=64)
def _profile(event: RadialEvent, negligible: float, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Grid of epsilons up to where delta is negligible, and upper bounds of delta there."""
    end = event.shift
    if event.exponent > 1.0:
        while True:
            ends = end * 1.25 ** np.arange(12)
            small = radial_delta(event.dim, event.exponent, event.shift, ends) <= negligible
            end = float(ends[np.argmax(small)] if small.any() else 1.25 * ends[-1])
            if small.any():
                break
    # Denser towards both ends, where the profile turns most.
    epsilons = 0.5 * end * (1.0 - np.cos(np.linspace(0.0, math.pi, points + 1)))
    deltas = radial_delta(event.dim, event.exponent, event.shift, epsilons)
    if event.exponent == 1.0:
        deltas[-1] = 0.0
    return epsilons, np.minimum.accumulate(deltas)


def _renyi_profile(event: RadialEvent) -> tuple[np.ndarray, np.ndarray]:
    """With exponent 1 in few dimensions a tenth of the points adds at most 3e-5 of a divergence.

    Elsewhere it would add up to 5e-3, so these keep all points.
    """
    short = event.exponent == 1.0 and event.dim <= 3
    return _profile(event, _FAR, _RENYI_GRID if short else _GRID)


@functools.lru_cache(maxsize=4096)
def _renyi(event: RadialEvent, alpha: float) -> float:
    """From the masses that represent the chords of the profile, plus a bound of its tail."""
    epsilons, deltas = _renyi_profile(event)
    drop, gap = -np.diff(deltas), np.diff(epsilons)
    masses = drop / -np.expm1(-gap)
    masses[:-1] -= drop[1:] / np.expm1(gap[1:])
    loss, masses, beyond = epsilons[1:], np.maximum(masses, 0.0), float(deltas[-1])
    order = alpha - 1.0
    if order * epsilons[-1] < 300.0:
        moment = float(masses @ (np.expm1(order * loss) + np.exp(-loss) * np.expm1(-order * loss)))
        if beyond > 0.0:
            # Beyond the grid x^alpha continues along its tangent; the tail bound is the rest.
            tangent = alpha * math.exp(order * epsilons[-1]) - 1.0
            tail = _log_tail(event, alpha)
            moment += beyond * tangent + alpha * order * math.exp(tail)
        return math.log1p(moment) / order * (1.0 + 1e-9)
    with np.errstate(divide="ignore"):
        terms: list[ArrayLike] = [np.log(masses) + order * loss, [0.0]]
    if beyond > 0.0:
        terms.append([math.log(beyond * alpha) + order * epsilons[-1]])
        terms.append([math.log(alpha * order) + _log_tail(event, alpha)])
    return float(logsumexp(np.concatenate(terms))) / order * (1.0 + 1e-9)


def _log_tail(event: RadialEvent, alpha: float) -> float:
    end = float(_renyi_profile(event)[0][-1])
    return log_renyi_tail(event.dim, event.exponent, event.shift, alpha, end)


@functools.lru_cache(maxsize=4096)
def calibrated_radial_law(dim: int, exponent: float, epsilon: float, delta: float) -> RadialEvent:
    """The narrowest law of this exponent that is (epsilon, delta)-DP; its scale is rounded up.

    Parameters
    ----------
    dim : int
    exponent : float
        In [1, 2]; must be 1 for ``delta = 0``.
    epsilon, delta : float

    Examples
    --------
    >>> from skriemdp.privacy.radial import calibrated_radial_law
    >>> law = calibrated_radial_law(3, 1.0, 1.0, 1e-5)
    >>> law.delta(1.0) <= 1e-5
    True
    """
    check_privacy(epsilon, delta)
    if delta == 0.0:
        if exponent != 1.0:
            raise ValueError(
                f"delta=0 needs exponent 1, got {exponent!r}: with lighter tails the privacy loss "
                "is unbounded."
            )
        scale = 1.0 / epsilon
        while 1.0 / scale > epsilon:
            scale = math.nextafter(scale, math.inf)
        return RadialEvent(dim, 1.0, scale)
    if exponent == 2.0:
        return RadialEvent(dim, 2.0, math.sqrt(2.0) / gaussian_mu(epsilon, delta) * (1.0 + 1e-15))

    (law,) = _search(dim, (exponent,), epsilon, delta)
    return law


@functools.lru_cache(maxsize=4096)
def best_radial_law(dim: int, epsilon: float, delta: float) -> RadialEvent:
    """The calibrated law with the smallest mean square among :data:`EXPONENTS`.

    Parameters
    ----------
    dim : int
    epsilon, delta : float
        ``delta = 0`` gives exponent 1 at scale ``sensitivity / epsilon``.

    Returns
    -------
    RadialEvent
        ``mean_square_over_sensitivity`` tells its error.

    Examples
    --------
    >>> from skriemdp.privacy.radial import best_radial_law
    >>> best_radial_law(2, 1.0, 1e-5).exponent
    1.0
    >>> best_radial_law(2, 1.0, 0.0).scale_over_sensitivity
    1.0
    """
    check_privacy(epsilon, delta)
    if delta == 0.0:
        return calibrated_radial_law(dim, 1.0, epsilon, delta)

    def compute() -> RadialEvent:
        laws = _search(dim, EXPONENTS[:-1], epsilon, delta)
        laws.append(calibrated_radial_law(dim, 2.0, epsilon, delta))
        return min(laws, key=lambda law: law.mean_square_over_sensitivity)

    return _remembered(dim, 0.0, epsilon, delta, compute)


@functools.lru_cache(maxsize=4096)
def best_radial_law_after(dim: int, mu: float, epsilon: float, delta: float) -> RadialEvent:
    """The widest-tailed use of what a mu-GDP release leaves: the law with the smallest mean square.

    Together with the Gaussian release it is (epsilon, delta)-DP.

    Parameters
    ----------
    dim : int
    mu : float
        Of everything that is released before, Gaussian and fixed in advance.
    epsilon, delta : float
        For both together; ``delta > 0``.

    Returns
    -------
    RadialEvent
        Of the exponent that is best without the other release or one of the next two.

    Notes
    -----
    *Guarantee*: ``compose([GaussianEvent(1 / mu), law]).delta(epsilon) <= delta``
    (docs/theory/radial-noise.md, "With Gaussian releases").

    Examples
    --------
    >>> from skriemdp.privacy.events import GaussianEvent, compose
    >>> from skriemdp.privacy.radial import best_radial_law, best_radial_law_after
    >>> law = best_radial_law_after(3, 0.05, 1.0, 1e-5)
    >>> compose([GaussianEvent(20.0), law]).delta(1.0) <= 1e-5
    True
    >>> alone = best_radial_law(3, 1.0, 1e-5)
    >>> round(law.mean_square_over_sensitivity / alone.mean_square_over_sensitivity, 2)
    1.22
    """
    check_positive(mu=mu)
    check_privacy(epsilon, delta)
    total = gaussian_mu(epsilon, delta) if delta > 0.0 else 0.0
    if not mu < 0.999 * total:
        raise ValueError(
            f"mu={mu!r} leaves nothing of epsilon={epsilon!r}, delta={delta!r}, which is worth "
            f"mu={total:.6g} to Gaussian noise; pass a smaller mu."
        )
    return _remembered(
        dim, mu, epsilon, delta, lambda: _search_after(dim, mu, total, epsilon, delta)
    )


def _search_after(dim: int, mu: float, total: float, epsilon: float, delta: float) -> RadialEvent:
    alone = best_radial_law(dim, epsilon, delta)
    first = EXPONENTS.index(alone.exponent)
    rest = total * math.sqrt((1.0 - mu / total) * (1.0 + mu / total))
    gaussian = RadialEvent(dim, 2.0, math.sqrt(2.0) / rest * (1.0 + 1e-13))
    p = np.array([q for q in EXPONENTS[first : first + 3] if q < 2.0])
    if not p.size:
        return gaussian
    guess = np.full(p.size, alone.shift * rest / total)
    guess *= np.sqrt(mean_square(dim, p) / mean_square(dim, alone.exponent))

    profiles = [_profile_at(dim, q) for q in p]

    def cells_at(k: int, shift: float, count: int) -> Cells:
        """Cells chosen at a guess; every choice gives upper bounds."""
        return choose_cells(profiles[k](shift), mu, epsilon, _kink(p[k], shift), count)

    def log_delta(k: int, shift: float, cells: Cells) -> float:
        value = chord_delta(profiles[k](float(shift)), mu, epsilon, cells=cells)
        return math.log(max(value, 5e-324))

    def search(
        k: int, guess: float, cells: Cells, target: float, tolerance: float, slope: float = math.nan
    ) -> tuple[float, float]:
        found, slopes = search_shifts(
            lambda _, shifts: np.array([log_delta(k, shifts[0], cells)]),
            target,
            [guess],
            [0.0],
            tolerance,
            slope,
        )
        return float(found[0]), float(slopes[0])

    # Roughly for one exponent, then for those that are better than the best so far: at the shift
    # where they would be as good, they still have delta to spare.
    best, shift, slope, target = -1, 0.0, math.nan, math.log(delta)
    for k in sorted(range(p.size), key=lambda k: abs(k - 1)):
        at = guess[k]
        if best >= 0:
            at = shift * math.sqrt(mean_square(dim, p[k]) / mean_square(dim, p[best]))
            if first_delta(profiles[k](at), mu, epsilon, _kink(p[k], at)) > delta * _CLEARLY:
                continue
        cells = cells_at(k, at, 40)
        if best < 0 or log_delta(k, at, cells) < target:
            if best >= 0:
                cells = cells_at(k, guess[k], 40)
            best, (shift, slope) = k, search(k, guess[k], cells, target, 3e-3)
    # An edge of the cells must lie very close to where the profile of p = 1 vanishes.
    for tolerance in (1e-3, 1e-4) if p[best] == 1.0 else (1e-4,):
        cells = cells_at(best, shift, CELLS)
        shift, slope = search(best, shift, cells, target - _BELOW_TARGET, tolerance, slope)
    law = _private(RadialEvent(dim, float(p[best]), 1.0 / shift), epsilon, delta, mu)
    return min(law, gaussian, key=lambda law: law.mean_square_over_sensitivity)


def _profile_at(dim: int, p: float) -> Callable[[float], Callable[[np.ndarray], np.ndarray]]:
    """The profile of a shift, which is not asked twice for the same epsilon."""
    window = Window()

    @functools.lru_cache(maxsize=1)
    def at(shift: float) -> Callable[[np.ndarray], np.ndarray]:
        return asked_once(lambda epsilons: radial_delta(dim, p, shift, epsilons, window))

    return at


def _kink(exponent: float, shift: float) -> float | None:
    return shift if exponent == 1.0 else None


def _remembered(
    dim: int, mu: float, epsilon: float, delta: float, compute: Callable[[], RadialEvent]
) -> RadialEvent:
    """The law from the disk if it is there and right, else computed and kept.

    Right means private and not wider than needed, by its own profile; which exponent is best is
    believed.
    """
    key = ["best radial law", int(dim), *(float(x).hex() for x in (mu, epsilon, delta, *EXPONENTS))]
    stored = _disk_cache.read(key) or {}
    try:
        if stored["exponent"] in EXPONENTS[:-1]:
            law = RadialEvent(int(dim), float(stored["exponent"]), float(stored["scale"]))
            reached = _reached(law, epsilon, mu)
            if delta * (1.0 - (_SLACK if mu == 0.0 else _CHORD_SLACK)) <= reached <= delta:
                return law
    except (KeyError, TypeError, ValueError, ArithmeticError):
        pass
    law = compute()
    if law.exponent < 2.0:
        value = {"exponent": law.exponent, "scale": law.scale_over_sensitivity}
        _disk_cache.write(key, value)
    return law


def _reached(law: RadialEvent, epsilon: float, mu: float) -> float:
    if mu == 0.0:
        return law._exact_delta(epsilon)
    reached = law.delta_with_gaussian(mu, epsilon)
    assert reached is not None  # only a mu above MOST_MU has none, and leaves nothing to a law
    return reached


def _search(
    dim: int, exponents: tuple[float, ...], epsilon: float, delta: float
) -> list[RadialEvent]:
    """Calibrated laws of those exponents that may have the smallest mean square.

    All are searched roughly, and the smallest ones are then found exactly.
    """
    target = math.log(delta)
    p = np.asarray(exponents, dtype=float)
    guess = guessed_shifts(dim, p, gaussian_mu(epsilon, delta), epsilon, delta)
    lowest = np.where(p == 1.0, epsilon, 0.0)
    log_delta = log_deltas(dim, p, epsilon)
    # An excess that is lost in epsilon is not looked for there.
    guess = np.maximum(guess, (1.0 + 1e-12) * lowest)
    shifts, slopes = search_shifts(log_delta, target, guess, lowest, _ROUGH, probe=_PROBE)
    squares = mean_square(dim, p) / shifts**2
    close = np.flatnonzero(squares <= squares.min() * (1.0 + 20.0 * _ROUGH))
    shifts, _ = search_shifts(
        lambda k, shift: log_delta(close[k], shift),
        target - 1e-11,
        shifts[close],
        lowest[close],
        1e-7,
        slopes[close],
    )
    return [
        _private(RadialEvent(dim, exponents[k], 1.0 / shift), epsilon, delta)
        for k, shift in zip(close, shifts.tolist(), strict=True)
    ]


def _private(law: RadialEvent, epsilon: float, delta: float, mu: float = 0.0) -> RadialEvent:
    """`law`, moved to the private side of the target if it lies on the other."""
    step = 1e-13 if mu == 0.0 else 1e-8
    while _reached(law, epsilon, mu) > delta:
        law = dataclasses.replace(
            law, scale_over_sensitivity=law.scale_over_sensitivity * (1.0 + step)
        )
        step *= 2.0
    return law
