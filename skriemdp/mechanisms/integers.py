"""Vectors of records on a lattice of integers, whose sums floating point cannot spoil.

The noise has one law for every release of the library, discrete Gaussian of scale `NOISE_SCALE`;
only the spacing of the lattice varies.  docs/theory/lattice.md has the proofs.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from fractions import Fraction
from typing import ClassVar, NoReturn

import numpy as np

from skriemdp._validation import check_count, check_positive
from skriemdp.mechanisms import noise
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.noise import NOISE_SCALE
from skriemdp.privacy.lattice import largest_shift
from skriemdp.privacy.sensitivity import Sensitivity, check_sensitivity

__all__ = [
    "ExactTotal",
    "IntegerBall",
    "IntegerNumber",
    "IntegerWeights",
    "check_integers",
]

# Rounding moves a record by at most sqrt(dim) / 2 units; its share of the bound stays below this.
ROUNDING_SHARE = 0.01
UNIT_ROUNDOFF = 2.0**-53
_LONGEST = 2**62
_EXACT_FLOATS = 2**53


def check_multiplier(noise_multiplier: float) -> None:
    """ValueError where a record would need more bits than its floats have, or would have none."""
    if not 2.0**-10 < noise_multiplier < 2.0**32:
        raise ValueError(
            f"noise_multiplier={noise_multiplier:.4g} is out of range for exact integers; use "
            "skriemdp.config_context(arithmetic='float')."
        )


def refuse_coarse(noise_multiplier: float, dim: int) -> NoReturn:
    """ValueError: rounding would cost more than a hundredth of a record's integers."""
    raise ValueError(
        f"noise_multiplier={noise_multiplier:.4g} in dimension {dim} leaves fewer integers "
        "per record than rounding needs; use a larger epsilon or "
        "skriemdp.config_context(arithmetic='float')."
    )


def check_integers(dim: int, noise_multiplier: float) -> int:
    """Bound of the length of a record's integer vector; ValueError where it is too short.

    Rounding the coordinates must not cost more than a hundredth of it.
    """
    check_count(dim=dim)
    check_multiplier(noise_multiplier)
    units = largest_shift(NOISE_SCALE, noise_multiplier) // 2
    if 0.5 * math.sqrt(dim) > ROUNDING_SHARE * units:
        refuse_coarse(noise_multiplier, dim)
    return units


@dataclasses.dataclass(frozen=True, eq=False)
class IntegerBall:
    """The integer vectors that records of a `Ball` become.

    Parameters
    ----------
    bound : Ball
    dim : int
    noise_multiplier : float
        Noise over the replace-one sensitivity ``2 radius``.

    Raises
    ------
    ValueError
        When the noise is so large, or the dimension so high, that the lattice would be too coarse.

    Notes
    -----
    With D the largest shift that noise of scale `NOISE_SCALE` makes ``1 / noise_multiplier``-GDP,
    every record's integer vector has length at most ``R = floor(D / 2)``.  Shortened in floating
    point it has at most ``radius (1 + eta)``, ``eta = (2 dim + 16) 2^-53``; dividing by the spacing
    ``g = radius (1 + eta) / (R - sqrt(dim) / 2 - 1)`` and rounding every coordinate leave at most
    ``R - 1`` and the rounding of the quotient, which is below one.  (A row is shortened and divided
    by one factor, and ``1 / g`` and the product of the two round by no more than that.)
    """

    bound: Ball
    dim: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        check_positive(radius=self.bound.radius)
        check_integers(self.dim, self.noise_multiplier)

    @functools.cached_property
    def units(self) -> int:
        """R, the bound of the length of a record's integer vector."""
        return check_integers(self.dim, self.noise_multiplier)

    @functools.cached_property
    def spacing(self) -> float:
        """g, the distance of neighbouring lattice points; public."""
        eta = (2 * self.dim + 16) * UNIT_ROUNDOFF
        return self.bound.radius * (1.0 + eta) / (self.units - 0.5 * math.sqrt(self.dim) - 1.0)

    def integers(self, rows: np.ndarray) -> np.ndarray:
        """The integer vector of each row, as float64 of shape (b, dim), no longer than `units`."""
        units = self.bound.enforce(rows, self.spacing)
        return np.rint(units, out=units)


@dataclasses.dataclass(frozen=True, eq=False)
class IntegerWeights:
    """The integer vectors of ``(a v / bound, c a)``, c a little below ``sqrt(3)``; a in [0, 1].

    Parameters
    ----------
    bound : float
        ``|v| <= bound``; ``a v`` is shortened to ``a bound``.
    dim : int
    noise_multiplier : float
        Noise over the sensitivity 2 of sums and weights together.

    Notes
    -----
    The squared distance of ``(a v, c a)`` and ``(b w, c b)``, ``|v|, |w| <= 1``, is convex in each
    of a and b, so a corner attains the most: ``1 + c^2`` (one weight zero) or 4 (both one).  So two
    such vectors, and two means of such vectors, are at most ``2 (1 + eta)`` apart; rounding moves
    their difference by at most ``sqrt(dim + 1)``.  The spacing ``g = 2 (1 + eta) / (D - sqrt(dim +
    1) - 2)`` keeps the integer vectors within D of each other.
    """

    bound: float
    dim: int
    noise_multiplier: float
    # The root of 3, rounded down: 1 + c^2 < 4 in floats too.
    root: ClassVar[float] = 1.732

    def __post_init__(self) -> None:
        check_count(dim=self.dim)
        Ball(self.bound)  # refuses bounds whose squares are no floats
        check_multiplier(self.noise_multiplier)
        if math.sqrt(self.dim + 1) > ROUNDING_SHARE * self.units:
            refuse_coarse(self.noise_multiplier, self.dim)

    @functools.cached_property
    def units(self) -> int:
        """D, the bound of the distance of two records' integer vectors."""
        return largest_shift(NOISE_SCALE, self.noise_multiplier)

    @functools.cached_property
    def spacing(self) -> float:
        """g, in units of `bound`; public."""
        eta = (2 * self.dim + 18) * UNIT_ROUNDOFF
        return 2.0 * (1.0 + eta) / (self.units - math.sqrt(self.dim + 1) - 2.0)

    def weights(self, weights: np.ndarray) -> np.ndarray:
        """The integers of ``c a``, a cut to [0, 1]; float64 of the shape of `weights`."""
        return np.rint(self.root * _shares(weights) / self.spacing)

    def vectors(self, products: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The integers of each row ``a v``, shortened to ``a bound``, float64 of shape (b, dim)."""
        with np.errstate(all="ignore"):
            lengths = np.sqrt(np.einsum("ij,ij->i", products, products))
            factors = np.fmin(_shares(weights) * self.bound / lengths, 1.0)
            scaled = products * (factors / (self.bound * self.spacing))[:, None]
        usable = np.isfinite(lengths)
        if not usable.all():
            scaled[~usable] = 0.0
        return np.rint(scaled, out=scaled)

    def release_weights(self, weights: np.ndarray, times: int, rng: np.random.Generator) -> float:
        """The noisy sum of the weights: the mean of so many answers, one for each release below."""
        total = ExactTotal((1,), self.units)
        total.add_rows(self.weights(weights)[:, None])
        law, bound = "discrete-gaussian", self.units
        (noisy,) = noise.draw(
            total.value(), NOISE_SCALE, law, rng, sensitivity=bound, averaged=times
        )
        return float(noisy) * self.spacing / self.root

    def release_vectors(
        self, products: np.ndarray, weights: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """The noisy sum of the vectors ``a v``, shape (dim,); pays for an answer of the above."""
        total = ExactTotal((self.dim,), self.units)
        total.add_rows(self.vectors(products, weights))
        noisy = noise.draw(
            total.value(), NOISE_SCALE, "discrete-gaussian", rng, sensitivity=self.units
        )
        return noisy.astype(float) * (self.spacing * self.bound)


def _shares(weights: np.ndarray) -> np.ndarray:
    """Weights cut to [0, 1]; zero where one is not a number."""
    return np.fmin(np.fmax(weights, 0.0), 1.0)


@dataclasses.dataclass(frozen=True, eq=False)
class IntegerNumber:
    """One number per data set, rounded to a multiple of a public spacing before its noise.

    Parameters
    ----------
    sensitivity : Sensitivity
        Of the number as it is computed.
    noise_multiplier : float
        Noise over `sensitivity`.

    Notes
    -----
    Rounding moves the difference of two numbers by at most one unit, so with the spacing
    ``sensitivity / (D - 2)`` it stays within D, the shift that the noise hides.  Quotient and
    rounding are exact, in rational numbers.
    """

    sensitivity: Sensitivity
    noise_multiplier: float

    def __post_init__(self) -> None:
        check_sensitivity(self.sensitivity)
        check_multiplier(self.noise_multiplier)

    @functools.cached_property
    def units(self) -> int:
        """D, the bound of the change of the integer."""
        return largest_shift(NOISE_SCALE, self.noise_multiplier)

    @functools.cached_property
    def spacing(self) -> float:
        """Value of one integer; public."""
        return self.sensitivity.value / (self.units - 2)

    def release(self, number: float, rng: np.random.Generator) -> float:
        """`number` plus noise; ``1 / noise_multiplier``-GDP."""
        # A tiny spacing would lose its digits as a float.
        units = Fraction(float(number)) / Fraction(self.sensitivity.value) * (self.units - 2)
        exact = np.array(round(units), dtype=object)
        law, bound = "discrete-gaussian", self.units
        return float(noise.draw(exact, NOISE_SCALE, law, rng, sensitivity=bound)) * self.spacing


class ExactTotal:
    """A sum of integer vectors, exact in any order of addition.

    Parameters
    ----------
    shape : tuple of int
    largest : int
        Bound of the modulus of every entry that a record adds.
    """

    def __init__(self, shape: tuple[int, ...], largest: int):
        self._largest = int(largest)
        self._small = np.zeros(shape, dtype=np.int64)
        self._big: np.ndarray | None = None
        self._count = 0

    def add_rows(self, rows: np.ndarray) -> None:
        """Add integer rows (float64) of shape ``(b, *shape)``."""
        step = _EXACT_FLOATS // self._largest
        if step >= min(len(rows), 64):
            for begin in range(0, len(rows), step):
                piece = rows[begin : begin + step]
                self.add(_float_sum(piece), len(piece))
        else:
            step = max(_LONGEST // self._largest, 1)
            for begin in range(0, len(rows), step):
                piece = rows[begin : begin + step].astype(np.int64)
                self.add(piece.sum(axis=0), len(piece))

    def add(self, partial: np.ndarray, count: int) -> None:
        """Add the exact sum of `count` records, float64 or int64."""
        if (self._count + count) * self._largest > _LONGEST:
            self._big, self._count = self.value().astype(object), 0
            self._small = np.zeros_like(self._small)
        self._small += partial.astype(np.int64)
        self._count += count

    def value(self) -> np.ndarray:
        """The total: int64 of modulus at most ``2^62``, or Python integers."""
        if self._big is None:
            return self._small.copy()
        return self._big + self._small.astype(object)


def _float_sum(rows: np.ndarray) -> np.ndarray:
    """Sum of integer rows in floats, exact while every partial sum is below ``2^53``.

    Then so is a product with ones, in any order, fused or not; it is several times as fast.
    """
    return np.ones(len(rows)) @ rows if rows.ndim == 2 else rows.sum(axis=0)
