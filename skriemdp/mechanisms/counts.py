"""Noisy counts of records, alone or together with the sums they belong to."""

from __future__ import annotations

import dataclasses
import math

from skriemdp._validation import check_positive
from skriemdp.mechanisms import noise
from skriemdp.privacy.events import GaussianEvent, PureEvent

__all__ = ["GaussianCount", "LaplaceCount", "SumsAndCounts"]


@dataclasses.dataclass(frozen=True)
class GaussianCount:
    """A count of records plus Gaussian noise.

    *Guarantee*: exactly mu-GDP with ``mu = 1 / noise_multiplier``; replacing a record moves a count
    by at most one.
    """

    noise_multiplier: float

    def __post_init__(self):
        check_positive(noise_multiplier=self.noise_multiplier)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in records."""
        return self.noise_multiplier

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return GaussianEvent(self.noise_multiplier)

    def release(self, count, rng, size=()):
        """`count` plus noise, a float; with `size`, that many independent releases."""
        noisy = noise.draw(count, self.sigma, "gaussian", rng, size, sensitivity=1.0)
        return float(noisy) if size == () else noisy


@dataclasses.dataclass(frozen=True)
class LaplaceCount:
    """A count of records plus Laplace noise of scale ``1 / epsilon``.

    *Guarantee*: pure epsilon-DP; replacing a record moves a count by at most one.
    """

    epsilon: float

    def __post_init__(self):
        check_positive(epsilon=self.epsilon)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in records."""
        return math.sqrt(2.0) / self.epsilon

    @property
    def event(self) -> PureEvent:
        """What one release costs."""
        return PureEvent(self.epsilon)

    def release(self, count, rng, size=()):
        """`count` plus noise, a float; with `size`, that many independent releases."""
        scale = 1.0 / self.epsilon
        noisy = noise.draw(count, scale, "laplace", rng, size, sensitivity=1.0, grid=self.sigma)
        return float(noisy) if size == () else noisy


@dataclasses.dataclass(frozen=True)
class SumsAndCounts:
    """Sums of vectors by group together with the (weighted) sizes of the groups, in one release.

    A record adds ``(v_g, q_g)`` to the groups g it belongs to: a vector v_g and a weight q_g >= 0.
    Class means: one group, ``q = 1``, ``|v| <= bound``.  Item effects of a user who rated m items:
    ``q = min(1, weight / sqrt(m))``, ``|v_g| <= bound q_g``.

    Parameters
    ----------
    bound : float
        ``|v_g| <= bound * q_g`` for every record and group (public).
    noise_multiplier : float
        Standard deviation of the noise over the replace-one sensitivity.
    weight : float, default=1.0
        ``sum_g q_g^2 <= weight^2`` for every record (public).

    Notes
    -----
    *Guarantee*: exactly ``1 / noise_multiplier``-GDP in the worst case, replacement of one record,
    groups included.  In the coordinates ``(sums / bound, counts)`` a record adds a vector x with
    ``|x|^2 <= 2 weight^2``, and any two have a nonnegative inner product, because
    ``v_g . v'_g / bound^2 >= -q_g q'_g``; hence ``|x - x'|^2 <= |x|^2 + |x'|^2 <= 4 weight^2``.
    Without the counts the sensitivity ``2 weight`` is the same: they come free.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = SumsAndCounts(bound=0.5, noise_multiplier=4.0)
    >>> mechanism.sum_sigma, mechanism.count_sigma, mechanism.event.mu
    (4.0, 8.0, 0.25)
    """

    bound: float
    noise_multiplier: float
    weight: float = 1.0

    def __post_init__(self):
        check_positive(bound=self.bound, noise_multiplier=self.noise_multiplier, weight=self.weight)

    @property
    def count_sigma(self) -> float:
        """Standard deviation of the noise on every count."""
        return 2.0 * self.weight * self.noise_multiplier

    @property
    def sum_sigma(self) -> float:
        """Standard deviation of the noise on every coordinate of a sum."""
        return self.bound * self.count_sigma

    @property
    def event(self) -> GaussianEvent:
        """What one release of all sums and counts costs."""
        return GaussianEvent(self.noise_multiplier)

    def release(self, sums, counts, rng, size=()):
        """Noisy sums and counts.

        Parameters
        ----------
        sums : ndarray of shape (n_groups, ...)
            In orthonormal coordinates.
        counts : ndarray of shape (n_groups,)
        rng : numpy.random.Generator
        size : int or tuple of int, default=()
            Independent releases along leading axes, each of which costs one `event`.
        """
        scales = self.sum_sigma, self.count_sigma
        bounds = 2.0 * self.weight * self.bound, 2.0 * self.weight
        laws = "gaussian", "gaussian"
        return noise.draw((sums, counts), scales, laws, rng, size, sensitivity=bounds)
