"""Second moments of two vectors per record and of their products, in one release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.bounded_sets import Moment
from skriemdp._mechanisms.bounds import clip_norms
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._validation import check_count, check_positive


@dataclass(frozen=True)
class Lifts:
    """``sum z z'``, ``sum z y'`` and ``sum y y'`` of vectors z and y of each record, together.

    The record becomes one vector, the lift ``w = (z, a y)`` in units in which both bounds are
    alike, and what is released is ``sum w w'``.  Together the three need less noise than apart.
    With the constant ``y = 1`` the second and third are the sum of z and the number of records.

    Parameters
    ----------
    sizes : tuple of int
        Lengths of z and of y.
    norms : tuple of float
        Public bounds of ``|z|`` and ``|y|``; longer vectors are shortened.
    mu : float
        Gaussian differential privacy parameter of the release.
    scale : float, default=sqrt(1/2)
        a, at most 1: larger means less noise on the products, and more on ``sum z z'``.
    people : bool, default=False
        Whether records are people who own several rows: then ``w w'`` is the mean over own rows.
    classes : int, optional
        Then there are sums for each class.

    Notes
    -----
    *Guarantee*: mu-GDP under replacement of one record.  A lift has ``|w|^2 <= norms[0]^2 (1 +
    a^2)``, so the sum moves by at most ``sqrt(2)`` times as much; orthogonal lifts attain it
    (docs/theory/moments.md).  Means over own rows are no further apart (docs/theory/groups.md).

    Examples
    --------
    >>> lifts = Lifts((3, 1), norms=(1.0, 2.0), mu=0.25)
    >>> [round(sigma, 3) for sigma in lifts.sigmas]
    [8.485, 16.971, 67.883]
    """

    sizes: tuple[int, int]
    norms: tuple[float, float]
    mu: float
    scale: float = math.sqrt(0.5)
    people: bool = False
    classes: int | None = None

    def __post_init__(self) -> None:
        for size, norm in zip(self.sizes, self.norms, strict=True):
            check_count(size=size)
            check_positive(norm=norm)
        check_positive(mu=self.mu, scale=self.scale)
        if self.scale > 1.0:
            raise PublicValueError(f"scale={self.scale!r} must be at most 1.")

    @property
    def unit(self) -> float:
        """Factor by which y is multiplied in the lift."""
        return self.scale * self.norms[0] / self.norms[1]

    @property
    def bounded_set(self) -> Moment:
        """The set of ``w w'``."""
        norm = self.norms[0] * math.sqrt(1.0 + self.scale**2)
        return Moment(norm, sum(self.sizes), self.people, classes=self.classes)

    def lift(self, z: np.ndarray, y: np.ndarray, *labels: np.ndarray) -> Any:
        """The lifts of some rows; with their labels, where there are any."""
        parts = clip_norms(z, self.norms[0]), self.unit * clip_norms(y, self.norms[1])
        lifts = np.concatenate(parts, axis=1)
        return (lifts, *labels) if labels else lifts

    @property
    def sigmas(self) -> tuple[float, float, float]:
        """Noise on ``sum z z'``, every entry of ``sum z y'``, and ``sum y y'``.

        Standard deviations; of the symmetric ones along every unit matrix.
        """
        first, unit = self.bounded_set.sigma(self.bounded_set.check(self.mu)), self.unit
        return first, first / (math.sqrt(2.0) * unit), first / unit**2

    def release(
        self, units: Units, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Noisy ``sum z z'``, ``sum z y'`` and ``sum y y'``.

        Parameters
        ----------
        units : Units
            Of two arrays, ``(n_rows, sizes[0])`` and ``(n_rows, sizes[1])``; then places in the
            list of classes, where there are any.
        rng : numpy.random.Generator
        """
        if (units.groups is not None) != self.people:
            raise PublicValueError(
                "people=True needs units with groups, and nothing else takes them."
            )
        if len(units.arrays[0]) != len(units.arrays[1]):
            raise PublicValueError("the two arrays of units must have as many rows.")
        k, unit = self.sizes[0], self.unit
        noisy = private_sum(units, self.lift, self.bounded_set, self.mu, rng).value
        return noisy[..., :k, :k], noisy[..., :k, k:] / unit, noisy[..., k:, k:] / unit**2
