"""Noisy counts of records, alone or with the sums they belong to; and a number of a data set."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from skriemdp._arrays import Size
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.sum import Part
from skriemdp._validation import check_fraction, check_positive
from skriemdp._warnings import warn_user
from skriemdp.privacy._events import GaussianEvent, PureEvent
from skriemdp.privacy._lattice import largest_shift
from skriemdp.privacy._sensitivity import Sensitivity, check_sensitivity, interval_sensitivity

__all__ = [
    "RARELY",
    "GaussianCount",
    "GaussianNumber",
    "LaplaceCount",
    "noisy_fraction",
    "noisy_clip_fraction",
]

# A fit warns if the noisy clipped fraction exceeds the expected one by EXCESS plus _SURE standard
# deviations of the noise; Gaussian noise alone does so in 3 of 1e7 fits.
EXCESS, _SURE = 0.2, 5.0
# Quantiles of noise exceeded in one of 1e6 fits, in standard deviations: Gaussian and Laplace.
RARELY, _RARELY_PURE = 4.754, 9.279


@dataclass(frozen=True)
class GaussianCount:
    """A count of records plus discrete Gaussian noise, on integers much finer than one record.

    Parameters
    ----------
    noise_multiplier : float
    level : float, optional
        In (0, 1): the count less this share of all records.  Each record then adds ``1 - level`` or
        ``-level``, and nobody has to know how many there are.
    of : int, default=0
        How many there are, of a count with a level; private, and not shown.

    Raises
    ------
    ValueError
        For a noise multiplier of `2**40` and more.

    Notes
    -----
    *Guarantee*: mu-GDP with ``mu = 1 / noise_multiplier``; replacing a record moves a count by at
    most one, and nothing is computed in floating point before the noise is in
    (docs/theory/lattice.md).  Adding one moves it by `presence`: by one, or less if it is centred.
    """

    noise_multiplier: float
    level: float | None = None
    of: int = dataclasses.field(default=0, repr=False, compare=False)
    # Integers per record, and what of them every record is short of.
    _units: int = dataclasses.field(init=False, repr=False, compare=False)
    _short: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_positive(noise_multiplier=self.noise_multiplier)
        units = largest_shift(noise.NOISE_SCALE, self.noise_multiplier)
        object.__setattr__(self, "_units", units)
        if self.level is not None:
            check_fraction(level=self.level)
        object.__setattr__(self, "_short", round(units * (self.level or 0.0)))

    @property
    def presence(self) -> float:
        """Sensitivity to adding or removing a record over that to replacing one."""
        return math.nextafter(max(self._short, self._units - self._short) / self._units, 2.0)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in records."""
        return noise.NOISE_SCALE / self._units

    @property
    def event(self) -> GaussianEvent:
        """Event of one release."""
        return GaussianEvent(self.noise_multiplier)

    def part(self, label: str) -> Part:
        """The release as one of those that several parties add up; of a count without a level."""
        return Part(label, 1, self._units, self._units, self._units)

    def exact(self, count: int) -> np.ndarray:
        """Return the integers of one party's count, without noise."""
        return np.array([int(count) * self._units])

    def value(self, noisy: np.ndarray) -> np.ndarray:
        """The count of noisy integers."""
        return noisy.astype(float) / self._units

    def release(self, value: Any, rng: np.random.Generator, size: Size = ()) -> Any:
        """The integer count `value` plus noise, less ``level * of``.

        With `size`, that many independent releases.
        """
        units, law = self._units, "discrete-gaussian"
        exact = int(value) * units - self.of * self._short
        adds = max(self._short, units - self._short)
        noisy = noise.draw(
            exact, noise.NOISE_SCALE, law, rng, size, sensitivity=units, presence=adds
        )
        return float(noisy) / units if size == () else np.asarray(noisy).astype(float) / units


@dataclass(frozen=True)
class GaussianNumber:
    """One number per data set, rounded to a multiple of a public spacing before its noise.

    Parameters
    ----------
    sensitivity : Sensitivity
        Of the number as it is computed.
    mu : float

    Notes
    -----
    *Guarantee*: mu-GDP.  Rounding moves the difference of two numbers by at most one unit, so with
    the spacing ``sensitivity / (D - 2)`` it stays within D, the shift that the noise hides.
    Quotient and rounding are exact, in rational numbers.
    """

    sensitivity: Sensitivity
    mu: float

    def __post_init__(self) -> None:
        check_sensitivity(self.sensitivity)
        check_positive(mu=self.mu)

    @functools.cached_property
    def units(self) -> int:
        """D, the bound of the change of the integer."""
        return largest_shift(noise.NOISE_SCALE, 1.0 / self.mu)

    @property
    def spacing(self) -> float:
        """Value of one integer; public."""
        return self.sensitivity.value / (self.units - 2)

    def release(self, value: Any, rng: np.random.Generator, size: Size = ()) -> Any:
        """The number `value` plus noise; with `size`, that many independent releases."""
        # A tiny spacing would lose its digits as a float.
        units = Fraction(float(value)) / Fraction(self.sensitivity.value) * (self.units - 2)
        exact, law, bound = np.array(round(units), dtype=object), "discrete-gaussian", self.units
        noisy = noise.draw(exact, noise.NOISE_SCALE, law, rng, size, sensitivity=bound)
        return np.asarray(noisy).astype(float)[()] * self.spacing


@dataclass(frozen=True)
class LaplaceCount:
    """A count of records plus Laplace noise of scale ``1 / epsilon``.

    *Guarantee*: pure epsilon-DP; replacing a record moves a count by at most one.
    """

    epsilon: float

    def __post_init__(self) -> None:
        check_positive(epsilon=self.epsilon)

    @property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity of a count."""
        return interval_sensitivity(1.0)

    @property
    def scale(self) -> float:
        """Scale of the Laplace law, in records."""
        return self.sensitivity.value / self.epsilon

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in records."""
        return math.sqrt(2.0) * self.scale

    @property
    def event(self) -> PureEvent:
        """Event of one release."""
        return PureEvent(self.epsilon)

    def release(self, value: Any, rng: np.random.Generator, size: Size = ()) -> Any:
        """`value` plus noise, a float; with `size`, that many independent releases."""
        bound, grid = self.sensitivity.value, self.sigma
        noisy = noise.draw(value, self.scale, "laplace", rng, size, sensitivity=bound, grid=grid)
        return float(noisy) if size == () else noisy


def noisy_fraction(
    part: int, n: int, parameter: float, pure: bool, rng: np.random.Generator
) -> tuple[float, float]:
    """A part of n records, as a fraction with noise, and the standard deviation of the noise.

    `parameter` is the mu of the count, or its epsilon where it is `pure`.
    """
    count = LaplaceCount(parameter) if pure else GaussianCount(1.0 / parameter)
    return count.release(part, rng) / n, count.sigma / n


def noisy_clip_fraction(
    noisy: float,
    sigma: float,
    expected_fraction: float,
    advice: str,
    pure: bool = False,
    *,
    excess: float = EXCESS,
    of: str = "the rows",
) -> float:
    """A released share of clipped records, within [0, 1]; warns where far more were than meant.

    Parameters
    ----------
    noisy, sigma : float
        The released share, and the standard deviation of its noise.
    expected_fraction : float
    advice : str
        What was done to them, and what to do about it; public or released.
    pure : bool, default=False
        Whether the noise is Laplace: of as many records as were meant it warns once in 1e6 fits.
    excess : float, default=0.2
        What is tolerated above `expected_fraction`, besides noise.
    of : str, default="the rows"
        What it is a share of.
    """
    if noisy - expected_fraction > max(
        excess + _SURE * sigma, _RARELY_PURE * sigma if pure else 0.0
    ):
        warn_user(f"about {min(noisy, 1.0):.0%} of {of} (a private estimate) {advice}")
    return float(np.clip(noisy, 0.0, 1.0))
