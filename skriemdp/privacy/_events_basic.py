"""Events with a formula or a table: Gaussian noise, releases known by their claims."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import erfinv, logsumexp, ndtri_exp

from skriemdp._errors import PublicValueError
from skriemdp._validation import check_count, check_fraction, check_order, check_positive
from skriemdp.privacy._event import Event, convex_profile, normalize_fields, profile_epsilon
from skriemdp.privacy._loss_distributions import (
    LARGEST_LOSS,
    PrivacyLossDistribution,
    gaussian_loss,
    loss_from_profile,
    points_of,
    privacy_parameters_loss,
    profile_atoms,
)
from skriemdp.privacy._renyi import randomized_response_renyi


@dataclass(frozen=True)
class GaussianEvent(Event):
    """Gaussian noise of `noise_multiplier` times the replace-one sensitivity, `count` times.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation per orthonormal coordinate over the replace-one sensitivity in the same
        norm.
    count : int, default=1
        Number of adaptive releases.

    Notes
    -----
    *Guarantee*: exactly mu-GDP with ``mu = sqrt(count) / noise_multiplier``, for any adaptive
    choice of the queries (Dong, Roth and Su 2022, Corollary 3.3).

    Examples
    --------
    >>> from skriemdp.privacy import GaussianEvent
    >>> GaussianEvent(2.0, count=4).mu
    1.0
    """

    noise_multiplier: float
    count: int = 1
    kind = "gaussian"

    def __post_init__(self) -> None:
        normalize_fields(self)
        check_positive(noise_multiplier=self.noise_multiplier)
        check_count(count=self.count)

    @property
    def mu(self) -> float:
        """``sqrt(count) / noise_multiplier``."""
        return math.sqrt(self.count) / float(self.noise_multiplier)

    @property
    def steps(self) -> int:
        """One: the composition is Gaussian again."""
        return 1

    def renyi(self, order: float) -> float:
        """``order * mu**2 / 2``."""
        check_order(order)
        return 0.5 * order * self.mu**2

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """See :meth:`Event.privacy_loss_distribution`."""
        return gaussian_loss(self.mu, interval)


class _Response(Event):
    """A release of which only (epsilon, delta) is known.

    It is at most as revealing as this: with probability delta everything is released, else a
    randomized response.
    """

    epsilon_0: float
    delta_0: float

    def renyi(self, order: float) -> float:
        """Divergence of randomized response, for the part of mass ``1 - delta_0``."""
        return randomized_response_renyi(float(self.epsilon_0), order)

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """See :meth:`Event.privacy_loss_distribution`."""
        return privacy_parameters_loss(self.epsilon_0, self.delta_0, interval)

    def _exact_delta(self, epsilon: float) -> float:
        if epsilon >= self.epsilon_0:
            return self.delta_0
        response = -math.expm1(epsilon - self.epsilon_0) / (1.0 + math.exp(-self.epsilon_0))
        return min(self.delta_0 + (1.0 - self.delta_0) * response * (1.0 + 1e-14), 1.0)

    def _exact_epsilon(self, delta: float) -> float:
        if delta < self.delta_0:
            return math.inf
        share = (delta - self.delta_0) / (1.0 - self.delta_0)
        share = share * (1.0 + math.exp(-self.epsilon_0)) * (1.0 - 1e-14)
        if share >= 1.0:
            return 0.0
        found = self.epsilon_0 + math.log1p(-share) * (1.0 - 1e-14)
        return min(self.epsilon_0, max(0.0, math.nextafter(found, math.inf)))


@dataclass(frozen=True)
class PureEvent(_Response):
    """Any pure epsilon-differentially private release.

    Parameters
    ----------
    epsilon_0 : float

    Notes
    -----
    *Guarantee*: every such release is a function of randomized response with the same epsilon
    (Kairouz, Oh and Viswanath 2015), whose profile, divergences and composition are used; hence
    nothing better can be said without knowing the mechanism.
    """

    epsilon_0: float
    kind = "pure"
    delta_0 = 0.0

    def __post_init__(self) -> None:
        normalize_fields(self)
        check_positive(epsilon_0=self.epsilon_0)

    @property
    def gdp_bound(self) -> float:
        """``2 Phi^-1(e^epsilon_0 / (1 + e^epsilon_0))``.

        Its trade-off curve passes through the kink of randomized response's, and lies below it
        elsewhere because it is convex.
        """
        if self.epsilon_0 < 1.0:  # 1/2 + tanh(...) / 2 would lose the digits of small ones
            half = math.sqrt(2.0) * float(erfinv(math.tanh(0.5 * self.epsilon_0)))
        else:
            half = -float(ndtri_exp(-np.logaddexp(0.0, self.epsilon_0)))
        return 2.0 * half * (1.0 + 1e-13)


@dataclass(frozen=True)
class ApproximateEvent(_Response):
    """Any (epsilon, delta)-differentially private release.

    Parameters
    ----------
    epsilon_0 : float
    delta_0 : float
        In (0, 1); for 0 use :class:`PureEvent`.

    Notes
    -----
    *Guarantee*: every such release is a function of "everything is told with probability delta_0,
    else randomized response" (Kairouz, Oh and Viswanath 2015).  The Renyi bound is that of the
    second part and :attr:`extra_delta` the mass of the first.
    """

    epsilon_0: float
    delta_0: float
    kind = "approximate"

    def __post_init__(self) -> None:
        normalize_fields(self)
        check_positive(epsilon_0=self.epsilon_0)
        check_fraction(delta_0=self.delta_0)

    @property
    def gdp_bound(self) -> None:
        """Return None: with probability delta_0 there is no protection at all."""
        return None

    @property
    def extra_delta(self) -> float:
        """``delta_0``."""
        return float(self.delta_0)


@dataclass(frozen=True)
class ZCDPEvent(Event):
    """Any rho-zero-concentrated private release: Renyi divergences at most ``order * rho``.

    Parameters
    ----------
    rho : float

    Notes
    -----
    *Guarantee*: that definition (Bun and Steinke 2016), converted by Canonne, Kamath and Steinke
    (2020), Proposition 12.  For discrete Gaussian noise skriemdp/privacy/_lattice.py proves more.
    """

    rho: float
    kind = "zcdp"

    def __post_init__(self) -> None:
        normalize_fields(self)
        check_positive(rho=self.rho)

    @property
    def renyi_only(self) -> bool:
        """True."""
        return True

    def repeated(self, count: int) -> ZCDPEvent:
        """Zero-concentrated privacy adds up."""
        return self if count == 1 else dataclasses.replace(self, rho=self.rho * count)

    def renyi(self, order: float) -> float:
        """``order * rho``."""
        check_order(order)
        return order * float(self.rho)

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """See :meth:`Event.privacy_loss_distribution`."""
        return loss_from_profile(convex_profile(self.renyi, interval), interval)


@dataclass(frozen=True)
class ProfileEvent(Event):
    """Any release of which delta is known at some epsilons.

    Parameters
    ----------
    epsilons : tuple of float
        Increasing, from 0 to at most 600.
    deltas : tuple of float
        Upper bounds of delta at them, the last below 1; it holds from there on.

    Notes
    -----
    *Guarantee*: the largest symmetric profile below these bounds, which is linear in e^epsilon
    between some of them, is above the true one (docs/theory/accounting.md, section 5).
    """

    epsilons: tuple
    deltas: tuple
    kind = "profile"

    def __post_init__(self) -> None:
        epsilons = np.asarray(self.epsilons, dtype=float)
        deltas = np.asarray(self.deltas, dtype=float)
        if epsilons.ndim != 1 or epsilons.shape != deltas.shape or not epsilons.size:
            raise PublicValueError(
                "epsilons and deltas must be two sequences of the same length >= 1."
            )
        if epsilons[0] != 0.0 or not np.all(np.diff(epsilons) > 0.0):
            raise PublicValueError("epsilons must increase, from 0 on.")
        if not epsilons[-1] <= LARGEST_LOSS:
            raise PublicValueError(f"epsilons must not exceed {LARGEST_LOSS:g}.")
        if not (np.all((deltas >= 0.0) & (deltas <= 1.0)) and deltas[-1] < 1.0):
            raise PublicValueError("deltas must lie in [0, 1], the last below 1.")
        object.__setattr__(self, "epsilons", tuple(epsilons.tolist()))
        object.__setattr__(self, "deltas", tuple(np.minimum.accumulate(deltas).tolist()))

    @property
    def extra_delta(self) -> float:
        """The last delta."""
        return self.deltas[-1]

    @property
    def gdp_bound(self) -> float | None:
        """Bound of the last epsilon, where delta is 0; else None."""
        if self.extra_delta > 0.0:
            return None
        return PureEvent(self.epsilons[-1]).gdp_bound if self.epsilons[-1] > 0.0 else 0.0

    def renyi(self, order: float) -> float:
        """Divergence of the pair that :attr:`extra_delta` leaves."""
        check_order(order)
        if order == math.inf:
            return self.epsilons[-1]
        places, mass = _corners(self)
        loss, mass = np.array(self.epsilons)[places], mass / (1.0 - self.extra_delta)
        up = (order - 1.0) * loss
        if up[-1] < 600.0:
            moment = float(mass @ (np.expm1(up) + np.exp(-loss) * np.expm1(-up)))
            value = math.log1p(max(moment, 0.0))
        else:  # losses up to 0 count once at most
            value = float(np.logaddexp(0.0, logsumexp(up, b=mass)))
        return min(value * (1.0 + 1e-9) / (order - 1.0) + 1e-15 / (order - 1.0), self.epsilons[-1])

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """See :meth:`Event.privacy_loss_distribution`."""
        grid = interval * np.arange(points_of(self.epsilons[-1], interval) + 1)
        return loss_from_profile(self._profile(grid), interval)

    def _profile(self, epsilon: np.ndarray) -> np.ndarray:
        places, _ = _corners(self)
        ends, deltas = np.array(self.epsilons)[places], np.array(self.deltas)[places]
        later = np.searchsorted(ends, epsilon)
        high, low = np.minimum(later, ends.size - 1), np.maximum(later - 1, 0)
        # Shares of a chord's ends, without differences of nearly equal numbers; the first chord
        # begins at (-1, 1).
        first, x = later == 0, np.exp(epsilon)
        above = x * np.maximum(np.expm1(ends[high] - epsilon), 0.0)
        below = np.where(first, x + 1.0, -x * np.expm1(np.minimum(ends[low] - epsilon, 0.0)))
        before = np.where(first, 1.0, deltas[low])
        between = (above * before + below * deltas[high]) / (above + below)
        return np.minimum(between * (1.0 + 1e-12), 1.0)  # its rounding on top

    def _exact_delta(self, epsilon: float) -> float:
        return float(self._profile(np.array(min(epsilon, LARGEST_LOSS))))

    def _exact_epsilon(self, delta: float) -> float:
        if delta < self.extra_delta:
            return math.inf
        last = self.epsilons[-1]
        return last if delta == 0.0 else min(profile_epsilon(self._exact_delta, delta), last)


@functools.lru_cache(maxsize=64)
def _corners(event: ProfileEvent) -> tuple[np.ndarray, np.ndarray]:
    """Return the kinks of the profile, and the masses of the losses there."""
    return profile_atoms(np.exp(np.array(event.epsilons)), np.array(event.deltas))


@dataclass(frozen=True)
class SeededEvent(Event):
    """A release with noise from a seed: whoever knows or guesses that can subtract it.

    Parameters
    ----------
    event : Event
        What the same release costs with noise that nobody can repeat.

    Notes
    -----
    *Guarantee*: none.  Delta is 1 at every epsilon, also of all compositions.
    """

    event: Event
    kind = "seeded"

    @property
    def extra_delta(self) -> float:
        """One: all mass is without a bound."""
        return 1.0

    def renyi(self, order: float) -> float:
        """Infinite."""
        return math.inf

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """All its mass is at infinity."""
        return privacy_parameters_loss(0.0, 1.0, interval)

    def _exact_delta(self, epsilon: float) -> float:
        return 1.0

    def _exact_epsilon(self, delta: float) -> float:
        return math.inf
