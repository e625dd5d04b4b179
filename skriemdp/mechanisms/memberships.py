"""Records that belong to several groups at once: bounded numbers, and their exact sums by group."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from skriemdp._validation import check_count, check_positive
from skriemdp.mechanisms.integers import (
    ROUNDING_SHARE,
    UNIT_ROUNDOFF,
    check_multiplier,
    refuse_coarse,
)
from skriemdp.mechanisms.noise import NOISE_SCALE
from skriemdp.privacy.lattice import largest_shift

__all__ = ["IntegerMemberships", "Memberships"]

# Integers below 2^51 are cut into halves of this many bits, of which 2^26 add up exactly.
_HALF_BITS, _HALVES = 26, 2**26
# Smaller ones add up exactly, many at a time.
_FEW_BITS = 2**36


@dataclasses.dataclass(frozen=True, eq=False)
class Memberships:
    """Record i belongs to the groups ``groups[indptr[i]:indptr[i + 1]]``, each at most once.

    Parameters
    ----------
    values : ndarray
        One number per membership.
    groups, indptr : ndarray of int
    n_groups : int
    """

    values: np.ndarray
    groups: np.ndarray
    indptr: np.ndarray
    n_groups: int

    @classmethod
    def of_one_group(cls, values: np.ndarray) -> Memberships:
        """Records that have one number each and belong to one group."""
        n = len(values)
        return cls(values, np.zeros(n, dtype=np.intp), np.arange(n + 1), 1)

    def bounded(self, bound: float, weight: float) -> tuple[np.ndarray, np.ndarray]:
        """What every membership adds to its group, in units of `bound`, and its weight.

        A record of m memberships has weight ``q = min(1, weight / sqrt(m))`` in each of them and
        adds ``q clip(v / bound, -1, 1)``; a value that is not finite adds zero.
        """
        counts = np.diff(self.indptr)
        weights = np.minimum(1.0, weight / np.sqrt(np.maximum(counts, 1)))
        weights = np.repeat(weights, counts)
        values = np.clip(self.values / bound, -1.0, 1.0)
        values = np.where(np.isfinite(self.values), values, 0.0)
        return weights * values, weights

    def by_group(self, numbers: np.ndarray) -> np.ndarray:
        """Floating-point sums of one number per membership over each group."""
        return np.bincount(self.groups, weights=numbers, minlength=self.n_groups)


@dataclasses.dataclass(frozen=True, eq=False)
class IntegerMemberships:
    """The integers that records with several memberships add to the sums and counts of groups.

    Parameters
    ----------
    bound : float
        Values are cut to ``[-bound, bound]``.
    weight : float
        Bound of the norm of a record's weights.
    n_groups : int
    noise_multiplier : float
        Noise over the sensitivity ``2 weight``, in records, of all sums and counts together.

    Raises
    ------
    ValueError
        When the noise is so large, or the groups so many, that the lattice would be too coarse.

    Notes
    -----
    Before rounding two records are at most ``2 weight (1 + eta)`` apart, ``eta = 2^-49``: in every
    group ``|v| <= q`` holds for the computed numbers too, because rounding is monotone, so inner
    products are not negative, and the squared weights add up to at most ``weight^2 (1 + eta)``.
    Rounding moves a difference by at most ``sqrt(k)``, k the number of all sums and counts.  The
    spacing ``g = 2 weight (1 + eta) / (D - sqrt(k) - 2)`` keeps integer vectors within D, the shift
    that the noise hides (docs/theory/lattice.md, "Several groups").
    """

    bound: float
    weight: float
    n_groups: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        check_count(n_groups=self.n_groups)
        check_positive(bound=self.bound, weight=self.weight)
        check_multiplier(self.noise_multiplier)
        if self._rounding > ROUNDING_SHARE * self.units:
            refuse_coarse(self.noise_multiplier, 2 * self.n_groups)

    @property
    def _rounding(self) -> float:
        return math.sqrt(2 * self.n_groups)

    @functools.cached_property
    def units(self) -> int:
        """D, the bound of the distance of two records' integer vectors."""
        return largest_shift(NOISE_SCALE, self.noise_multiplier)

    @functools.cached_property
    def spacing(self) -> float:
        """g, in records; public."""
        eta = 16 * UNIT_ROUNDOFF
        return 2.0 * self.weight * (1.0 + eta) / (self.units - self._rounding - 2.0)

    def integers(self, members: Memberships) -> tuple[np.ndarray, np.ndarray]:
        """What each membership adds to sum and count, float64."""
        values, weights = members.bounded(self.bound, self.weight)
        return np.rint(values / self.spacing), np.rint(weights / self.spacing)

    def total(self, members: Memberships) -> np.ndarray:
        """Exact sums and counts, Python integers of shape (2, n_groups)."""
        largest = math.ceil(1.0 / self.spacing) + 1  # of any weight, and any value
        return np.stack([_exact_sums(members, row, largest) for row in self.integers(members)])


def _exact_sums(members: Memberships, numbers: np.ndarray, largest: int) -> np.ndarray:
    """Sums by group of integers that floats hold, none above `largest` in modulus."""
    total = np.zeros(members.n_groups, dtype=object)
    if largest <= _FEW_BITS:
        for begin in range(0, len(numbers), step := 2**53 // largest):
            piece = slice(begin, begin + step)
            # Every partial sum is an integer of at most 2^53.
            part = np.bincount(
                members.groups[piece], weights=numbers[piece], minlength=members.n_groups
            )
            total = total + part.astype(np.int64).astype(object)
        return total
    for begin in range(0, len(numbers), _HALVES):
        piece = slice(begin, begin + _HALVES)
        high = np.floor(numbers[piece] * 2.0**-_HALF_BITS)
        for half, unit in ((high, 2**_HALF_BITS), (numbers[piece] - high * 2.0**_HALF_BITS, 1)):
            # Every partial sum is an integer below 2^53.
            part = np.bincount(members.groups[piece], weights=half, minlength=members.n_groups)
            total = total + part.astype(np.int64).astype(object) * unit
    return total
