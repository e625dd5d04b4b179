"""Sums of vectors by group with the sizes of the groups, in one release of pure privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._arrays import Size
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.bounded_sets import ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.sum import plain_sensitivity, plain_sum
from skriemdp._mechanisms.units import Units
from skriemdp._validation import check_count, check_positive
from skriemdp.privacy._events import PureEvent
from skriemdp.privacy._sensitivity import grouped_sum_sensitivity

__all__ = ["PureSumsAndCounts"]


@dataclass(frozen=True)
class _Blocks:
    """Sums and counts, which get their noise together."""

    blocks: tuple


@dataclass(frozen=True)
class PureSumsAndCounts:
    """Sums of vectors and numbers of records by group; pure epsilon-DP.

    Each record belongs to one group and adds a vector of length at most `bound` to its sum.

    Parameters
    ----------
    dim : int
        Coordinates m of a vector.
    bound : float
        Public bound of every vector's length.
    epsilon : float

    Notes
    -----
    *Guarantee*: pure epsilon-DP under replacement of one record, group included.  The noise (s, c)
    has density proportional to ``exp(-(epsilon / 2) sum_g max(|s_g| / bound, |c_g|))``.  The sum is
    a norm, in which a record weighs one, its count included; so replacing it moves the sums and
    counts of all groups by at most 2.  More groups cost no more.  In each group s has a direction
    of its own, and length and count are uniform under a common radius of Gamma(m + 2) law.

    Examples
    --------
    >>> mechanism = PureSumsAndCounts(dim=1, bound=0.5, epsilon=2.0)
    >>> round(mechanism.sum_sigma, 9), round(mechanism.count_sigma, 9), mechanism.event.epsilon_0
    (1.0, 2.0, 2.0)
    """

    dim: int
    bound: float
    epsilon: float

    def __post_init__(self) -> None:
        check_count(dim=self.dim)
        check_positive(bound=self.bound, epsilon=self.epsilon)

    @property
    def scale(self) -> float:
        """Sensitivity over epsilon."""
        return grouped_sum_sensitivity().value / self.epsilon

    @property
    def count_sigma(self) -> float:
        """Standard deviation of the noise on every count."""
        return self.scale * math.sqrt((self.dim + 2) * (self.dim + 3) / 3.0)

    @property
    def sum_sigma(self) -> float:
        """Standard deviation of the noise on every coordinate of a sum."""
        return self.scale * self.bound * math.sqrt(self.dim + 3)

    @property
    def event(self) -> PureEvent:
        """Event of one release of all sums and counts."""
        return PureEvent(self.epsilon)

    def release_rows(
        self, rows: np.ndarray, groups: np.ndarray, n_groups: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Noisy sums and counts of rows, each of one group; the sums are exact totals.

        Rows are clipped to `bound`, less what the rounding of a total to a float may add
        (docs/theory/floats.md).
        """
        n = max(1, len(rows))
        share = 1.0 / plain_sensitivity(ball(Ball(1.0), self.dim), n).presence
        bounded_set = ball(Ball(share * self.bound), self.dim).by_party(n_groups)
        sums, _ = plain_sum(Units((rows, groups)), lambda *tile: tile, bounded_set, n)
        counts = np.bincount(groups, minlength=n_groups).astype(float)
        noisy: tuple[np.ndarray, np.ndarray] = self.release((sums, counts), rng)
        return noisy

    def release(self, value: Any, rng: np.random.Generator, size: Size = ()) -> Any:
        """Noisy sums, from shape ``(n_groups, dim)``, and counts, from ``(n_groups,)``.

        With `size`, that many independent releases along leading axes, each of which costs one
        `event`.
        """
        bound = grouped_sum_sensitivity().value
        return noise.draw(
            _Blocks(value),
            self.scale,
            "pure sums",
            rng,
            size,
            sensitivity=bound,
            sampler=self._draws,
        )

    def _draws(
        self, totals: _Blocks, rng: np.random.Generator, size: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        sums, counts = totals.blocks
        shape = (*size, *counts.shape)
        radius = self.scale * rng.standard_gamma(self.dim + 2, size=shape)
        direction = rng.standard_normal((*shape, self.dim))
        length = rng.random(shape) ** (1.0 / self.dim) / np.linalg.norm(direction, axis=-1)
        noisy_sums = sums + self.bound * (radius * length)[..., None] * direction
        noisy_counts = counts + radius * rng.uniform(-1.0, 1.0, size=shape)
        sums = noise.on_public_grid(noisy_sums, self.sum_sigma)
        return sums, noise.on_public_grid(noisy_counts, self.count_sigma)
