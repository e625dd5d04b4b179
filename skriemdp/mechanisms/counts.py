"""Noisy counts of records, alone or together with the sums they belong to."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from skriemdp._arrays import Size
from skriemdp._validation import check_positive
from skriemdp.mechanisms import noise
from skriemdp.mechanisms.memberships import IntegerMemberships, Memberships
from skriemdp.privacy.events import GaussianEvent, PureEvent
from skriemdp.privacy.lattice import largest_shift
from skriemdp.privacy.sensitivity import (
    Sensitivity,
    interval_sensitivity,
    sums_and_counts_sensitivity,
)

__all__ = ["GaussianCount", "LaplaceCount", "SumsAndCounts"]


@dataclasses.dataclass(frozen=True)
class GaussianCount:
    """A count of records plus discrete Gaussian noise, on integers much finer than one record.

    Raises
    ------
    ValueError
        For a noise multiplier of `2**40` and more.

    Notes
    -----
    *Guarantee*: mu-GDP with ``mu = 1 / noise_multiplier``; replacing a record moves a count by at
    most one, and nothing is computed in floating point before the noise is in
    (docs/theory/lattice.md).
    """

    noise_multiplier: float
    # Integers per record.
    _units: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_positive(noise_multiplier=self.noise_multiplier)
        units = largest_shift(noise.NOISE_SCALE, self.noise_multiplier)
        object.__setattr__(self, "_units", units)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in records."""
        return noise.NOISE_SCALE / self._units

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return GaussianEvent(self.noise_multiplier)

    def release(self, count: float, rng: np.random.Generator, size: Size = ()) -> Any:
        """The integer `count` plus noise; with `size`, that many independent releases."""
        units, law = self._units, "discrete-gaussian"
        exact = int(count) * units
        noisy = noise.draw(exact, noise.NOISE_SCALE, law, rng, size, sensitivity=units)
        return float(noisy) / units if size == () else np.asarray(noisy).astype(float) / units


@dataclasses.dataclass(frozen=True)
class LaplaceCount:
    """A count of records plus Laplace noise of scale ``1 / epsilon``.

    *Guarantee*: pure epsilon-DP; replacing a record moves a count by at most one.
    """

    epsilon: float

    def __post_init__(self) -> None:
        check_positive(epsilon=self.epsilon)

    @property
    def sensitivity(self) -> Sensitivity:
        """Of a count."""
        return interval_sensitivity(1.0)

    @property
    def scale(self) -> float:
        """Of the Laplace law, in records."""
        return self.sensitivity.value / self.epsilon

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in records."""
        return math.sqrt(2.0) * self.scale

    @property
    def event(self) -> PureEvent:
        """What one release costs."""
        return PureEvent(self.epsilon)

    def release(self, count: float, rng: np.random.Generator, size: Size = ()) -> Any:
        """`count` plus noise, a float; with `size`, that many independent releases."""
        bound, grid = self.sensitivity.value, self.sigma
        noisy = noise.draw(count, self.scale, "laplace", rng, size, sensitivity=bound, grid=grid)
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
    >>> round(mechanism.sum_sigma, 9), round(mechanism.count_sigma, 9), mechanism.event.mu
    (4.0, 8.0, 0.25)
    """

    bound: float
    noise_multiplier: float
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_positive(bound=self.bound, noise_multiplier=self.noise_multiplier, weight=self.weight)

    @property
    def sensitivity(self) -> Sensitivity:
        """Of all sums and counts together, in units of the counts."""
        return sums_and_counts_sensitivity(self.weight)

    @property
    def count_sigma(self) -> float:
        """Standard deviation of the noise on every count."""
        return self.sensitivity.value * self.noise_multiplier

    @property
    def sum_sigma(self) -> float:
        """Standard deviation of the noise on every coordinate of a sum."""
        return self.bound * self.count_sigma

    @property
    def event(self) -> GaussianEvent:
        """What one release of all sums and counts costs."""
        return GaussianEvent(self.noise_multiplier)

    def release_members(
        self, members: Memberships, rng: np.random.Generator, exact: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Noisy sums and counts of records that belong to several groups each, ``(n_groups,)``.

        Values are cut to `bound`; a record of m memberships has weight ``min(1, weight / sqrt(m))``
        in each of them.  With `exact` sums and noise are integers.
        """
        if not exact:
            values, weights = members.bounded(self.bound, self.weight)
            sums, counts = members.by_group(self.bound * values), members.by_group(weights)
            return self.release(sums, counts, rng)
        lattice = self.member_integers(members.n_groups)
        total, law = lattice.total(members), "discrete-gaussian"
        noisy = noise.draw(total, noise.NOISE_SCALE, law, rng, sensitivity=lattice.units)
        noisy = noisy.astype(float) * lattice.spacing
        return noisy[0] * self.bound, noisy[1]

    def member_integers(self, n_groups: int) -> IntegerMemberships:
        """The lattice of :meth:`release_members`; ValueError where there is none."""
        return IntegerMemberships(self.bound, self.weight, n_groups, self.noise_multiplier)

    def release(
        self, sums: np.ndarray, counts: np.ndarray, rng: np.random.Generator, size: Size = ()
    ) -> tuple[np.ndarray, np.ndarray]:
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
        largest = self.sensitivity.value
        bounds = self.bound * largest, largest
        laws = "gaussian", "gaussian"
        return noise.draw((sums, counts), scales, laws, rng, size, sensitivity=bounds)
