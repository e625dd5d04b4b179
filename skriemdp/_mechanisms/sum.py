"""The one place where what records give is added up and gets Gaussian noise: exact integers.

An estimator says who the record is (:class:`skriemdp._mechanisms.units.Units`), what a row gives,
and which public set holds it (:mod:`skriemdp._mechanisms.bounded_sets`)::

    held = ball(Ball(radius), dim)
    held.check(least_mu)                  # before the charge: ValueError where integers are coarse
    noisy = private_sum(Units((X,), groups), lambda rows: rows - center, held, mu, rng)
    mean = noisy.value / n                # noisy.sigma is the noise of every coordinate

What a row gives need not lie in the set, nor be finite: the set shortens and rounds it as the last
thing before it is added.  It must depend on that row alone, bitwise.  A batch is
``units.take(numbers)``, and its set must have ``bounded_set.halves``; what one of several parties
adds is :func:`integer_total`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skriemdp._mechanisms import noise
from skriemdp._mechanisms.noise import NOISE_SCALE
from skriemdp._mechanisms.units import Units
from skriemdp.privacy._sensitivity import exact_moment_norm, exact_total_sensitivity

if TYPE_CHECKING:
    from skriemdp._mechanisms.bounded_sets import BoundedSet, Moment, VectorSet
    from skriemdp.privacy._sensitivity import Sensitivity

_EXACT_FLOATS, _LONGEST = 2**53, 2**62
# Lattice steps between two records if the noise is continuous.
PLAIN_STEPS = 2**40


class Noisy(NamedTuple):
    """A noisy sum.

    Attributes
    ----------
    value : ndarray
    sigma : float
        Standard deviation of the noise along every vector, or symmetric matrix, of length one.
    """

    value: np.ndarray
    sigma: float


class Part(NamedTuple):
    """Public description of a sum that several parties add up and release with one noise.

    Attributes
    ----------
    label : str
        Names the noise.
    length : int
        Number of integers.
    steps : int
        How far apart two records' integers may be.
    presence : int
        How far a record that is added or removed moves the integers.
    largest : int
        Bound of every entry that a record adds.
    """

    label: str
    length: int
    steps: int
    presence: int
    largest: int

    def of_several(self, times: int) -> Part:
        """The part where one record, a person, is in so many of the tables that are added."""
        return self._replace(steps=times * self.steps, presence=times * self.presence)


class ExactTotal:
    """A sum of integers, exact in any order of addition.

    Parameters
    ----------
    shape : tuple of int
    largest : int
        Bound of the modulus of every entry that a record adds.

    Attributes
    ----------
    floats : ndarray
        Added to by products of float64, of as many records as :meth:`pieces` says: every partial
        sum is then an integer of at most ``2^53``, so that any order of addition is exact.
    """

    def __init__(self, shape: tuple[int, ...], largest: int):
        self.floats, self._largest = np.zeros(shape), int(largest)
        self._most = self._room = max(1, _EXACT_FLOATS // self._largest)
        self._integers, self._count = np.zeros(shape, dtype=np.int64), 0

    def pieces(self, count: int) -> Iterator[slice]:
        """Cut `count` records into pieces; each is added to `floats` before the next is asked."""
        begin = 0
        while begin < count:
            if not self._room:
                self._flush()
            piece = slice(begin, min(count, begin + self._room))
            self._room -= piece.stop - begin
            yield piece
            begin = piece.stop

    def add(self, partial: np.ndarray, count: int) -> None:
        """Add the sum of `count` records, int64."""
        if (self._count + count) * self._largest > _LONGEST and self._integers.dtype != object:
            self._integers = self._integers.astype(object)  # Python integers have no end
        self._integers += partial
        self._count += count

    def _flush(self) -> None:
        self.add(self.floats.astype(np.int64), self._most - self._room)
        self.floats[...], self._room = 0.0, self._most

    def value(self) -> np.ndarray:
        """The total: int64 of modulus at most ``2^62``, or Python integers."""
        self._flush()
        return self._integers


def integer_total(
    units: Units, give: Callable[..., Any], bounded_set: BoundedSet, steps: int
) -> np.ndarray:
    """Sum one party's records exactly, as integers, without noise.

    Parameters
    ----------
    units : Units
    give : callable
        ``give(*rows)``, as for :meth:`skriemdp._mechanisms.units.Units.tiles`.
    bounded_set : Held
    steps : int
        Lattice steps between two records, ``bounded_set.check(mu)``; public.

    Returns
    -------
    ndarray of shape ``bounded_set.shape``
        int64, or Python integers.
    """
    total = ExactTotal(bounded_set.shape, bounded_set.largest(steps))
    with np.errstate(all="ignore"):  # a warning would speak of records
        for tile in units.tiles(give, bounded_set.width, bounded_set.per_person):
            bounded_set.add(total, tile, steps)
    return total.value()


def private_sum(
    units: Units,
    give: Callable[..., Any],
    bounded_set: BoundedSet,
    mu: float,
    rng: np.random.Generator,
    add: Callable[..., np.ndarray] = integer_total,
    part: slice = slice(None),
    averaged: int | None = None,
) -> Noisy:
    """Noisy sum of what the records give, each held in a public set.

    Parameters
    ----------
    units : Units
    give : callable
        ``give(*rows)``, as for :meth:`skriemdp._mechanisms.units.Units.tiles`.
    bounded_set : Held
    mu : float
    rng : numpy.random.Generator
    add : callable
        Function that adds, called like :func:`integer_total`, the default.
    part : slice
        Of the coordinates of a :class:`skriemdp._mechanisms.bounded_sets.VectorSet`, that is
        released.
    averaged : int, optional
        The average of so many answers: as many later releases of the other part pay for it.

    Notes
    -----
    *Guarantee*: mu-GDP under replacement of one record, ``mu presence / diameter``-GDP where one is
    added or removed, for the program as it runs (docs/theory/lattice.md).

    Raises
    ------
    ValueError
        Where integers are too coarse; a plan asks ``bounded_set.check`` before its charge.
    """
    steps = bounded_set.check(mu)
    exact = add(units, give, bounded_set, steps)[part]
    noisy = noise.draw(
        exact,
        NOISE_SCALE,
        "discrete-gaussian",
        rng,
        sensitivity=steps,
        presence=bounded_set.presence(steps),
        averaged=averaged,
    )
    return Noisy(bounded_set.value(noisy, steps), bounded_set.sigma(steps))


def part_of(label: str, bounded_set: BoundedSet, mu: float) -> Part:
    """Describe the integer sum of a set, for the noise of one release."""
    steps = bounded_set.check(mu)
    largest = bounded_set.largest(steps)
    return Part(label, math.prod(bounded_set.shape), steps, bounded_set.presence(steps), largest)


def noised(
    parts: Sequence[Part],
    totals: Sequence[np.ndarray],
    streams: Callable[..., np.random.Generator],
    shares: int | None = None,
) -> np.ndarray:
    """Exact totals of all parts with their noise, integers in one vector.

    Parameters
    ----------
    parts : sequence of Part
    totals : sequence of ndarray
        Of each part; of one party, or of all together.
    streams : callable
        ``streams(label)`` is the noise generator of a part.
    shares : int, optional
        Each of so many parties adds its share of the noise, and nobody sees less than their sum;
        by default the whole noise is drawn here.

    Notes
    -----
    *Guarantee*: each part as :func:`private_sum`, with `shares` the sum over so many parties
    (docs/theory/lattice.md, Theorem 4).
    """
    noisy = [
        noise.draw(
            total,
            NOISE_SCALE,
            "discrete-gaussian",
            streams(part.label),
            sensitivity=part.steps,
            presence=part.presence,
            shares=shares,
        )
        for part, total in zip(parts, totals, strict=True)
    ]
    return np.concatenate(noisy)


def mu_of(noise_multiplier: float) -> float:
    """mu of a release with this noise over its sensitivity, rounded down."""
    return math.nextafter(1.0 / noise_multiplier, 0.0)


def plain_sum(
    units: Units, give: Callable[..., Any], bounded_set: VectorSet, n: float
) -> tuple[np.ndarray, Sensitivity]:
    """The exact sum over at most n records as a float, for noise that is one; and its sensitivity.

    The float is off by its own rounding alone, which the sensitivity covers together with that of
    the noise's addition (docs/theory/floats.md, "Floating-point noise on an exact total").
    """
    total = integer_total(units, give, bounded_set, PLAIN_STEPS)
    return bounded_set.value(total, PLAIN_STEPS), plain_sensitivity(bounded_set, n)


def plain_sensitivity(bounded_set: VectorSet, n: float) -> Sensitivity:
    """Sensitivity of :func:`plain_sum`."""
    moved = PLAIN_STEPS * bounded_set.spacing(PLAIN_STEPS)
    return exact_total_sensitivity(bounded_set.bound, moved, n)


def plain_moment(
    units: Units, give: Callable[..., Any], bounded_set: Moment, n: int
) -> tuple[np.ndarray, float]:
    """The exact sum of ``z z'`` over n records as floats, for pure noise; and a bound of ``|z|``.

    As if rows had this length and nothing had been rounded (docs/theory/floats.md, "Floating-point
    noise on an exact total").  People's matrices are bounded so by their traces,
    ``bounded_set.by_trace``.
    """
    total = integer_total(units, give, bounded_set, PLAIN_STEPS)
    longest = bounded_set.longest(PLAIN_STEPS) * bounded_set.spacing(PLAIN_STEPS)
    return bounded_set.value(total, PLAIN_STEPS), exact_moment_norm(longest, n, bounded_set.dim)
