"""Batches: one object draws the records, knows the sensitivity it needs and names the event."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skriemdp._descent.queries import Query
from skriemdp._errors import PublicRuntimeError, PublicTypeError, PublicValueError
from skriemdp._mechanisms.batch_sizes import binomial_sizes
from skriemdp._mechanisms.bounded_sets import BoundedSet, ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import Steps
from skriemdp._mechanisms.sum import mu_of
from skriemdp._random import NoiseGenerator
from skriemdp._validation import check_count, check_fraction, check_positive, plain_numbers
from skriemdp.privacy import _events as events


class Batches(abc.ABC):
    """A rule for batches: it draws the records of each step and states the event."""

    @abc.abstractmethod
    def batch(self, bounded_set: BoundedSet, n: int, rng: np.random.Generator) -> np.ndarray | None:
        """Indices of a batch of records that each give a vector of `bounded_set`; None: all."""

    @abc.abstractmethod
    def expected_size(self, n: int) -> float:
        """Expected number of records in a batch; public."""

    def noisy_mean(
        self, query: Query, noise_multiplier: float, steps: Steps, rng: np.random.Generator
    ) -> np.ndarray:
        """Noisy mean of ``query`` over a batch: coordinates of a tangent vector; one of `steps`.

        Centre of the query's ball plus the noisy sum of the batch's offsets over a public number.
        A record that is absent from the sum counts as the centre, so for every way of drawing
        batches the record's contribution stays in one public ball.
        """
        steps.take()
        chosen = self.batch(query.bounded_set, query.n, rng)
        noisy = query.noisy(mu_of(noise_multiplier), rng, chosen)
        return _with_center(query, noisy.value / self.expected_size(query.n))


@dataclass(frozen=True)
class _RandomBatches(Batches):
    """Batches drawn anew in each step.

    Parameters
    ----------
    batch_size : float
        Number of records in a batch, or its expectation; at most n.
    integers : int, default=0
        Most integers of a release; a run of batches needs them.
    """

    batch_size: float
    integers: int = 0

    def __post_init__(self) -> None:
        plain_numbers(self)
        check_count(minimum=0, integers=self.integers)

    @abc.abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Sorted indices of one batch; may be empty."""

    def batch(self, bounded_set: BoundedSet, n: int, rng: np.random.Generator) -> np.ndarray:
        _check_batches(bounded_set, self.integers)
        return self.draw(n, rng)

    def expected_size(self, n: int) -> float:
        return self.batch_size


@dataclass(frozen=True)
class FullBatch(Batches):
    """Every record in every step; an exactly Gaussian release.

    *Guarantee*: noise `noise_multiplier` times the replace-one sensitivity ``2 radius / n`` of the
    mean of vectors in a public ball, so ``count`` adaptive steps are
    ``sqrt(count) / noise_multiplier``-GDP.
    """

    def event(self, n: int, noise_multiplier: float, count: int = 1) -> events.GaussianEvent:
        """Event of `count` releases."""
        return events.GaussianEvent(noise_multiplier=noise_multiplier, count=count)

    def expected_size(self, n: int) -> float:
        return n

    def batch(self, bounded_set: BoundedSet, n: int, rng: np.random.Generator) -> None:
        return None


@dataclass(frozen=True)
class PoissonSampler(_RandomBatches):
    """Every record enters each batch independently with the same probability; the default.

    *Guarantee*: replace-one adjacency.  Batch sums are divided by the public expected batch size,
    never by the realised one, and the noise is `noise_multiplier` times ``2 radius``: conditional
    on the others, the record's contribution lies within ``radius`` of the public centre whether it
    is the old one, the new one, or absent.  The pair of mixtures named by the event dominates, and
    composition is exact (docs/theory/accounting.md).

    Parameters
    ----------
    batch_size : float
        Expected number of records in a batch, at most n.
    integers : int, default=0
        Most integers of a release; a run of batches needs them.

    Notes
    -----
    The batch is secret; it is drawn from the noise generator.  Its size is binomial and the records
    are then a uniform subset of that size, which is the same law as n independent coins but costs
    time proportional to the batch.  Both are drawn with integers, for a probability that is rounded
    down (:mod:`skriemdp._mechanisms.batch_sizes`).  Batches of several steps are drawn at a time.
    """

    def __post_init__(self) -> None:
        check_positive(batch_size=self.batch_size)
        super().__post_init__()

    def probability(self, n: int) -> float:
        """Sampling probability on n records."""
        if self.batch_size > n:
            raise PublicValueError(
                f"batch_size={self.batch_size} exceeds n={n}; use a smaller batch, or the full one."
            )
        return self.batch_size / n

    def event(
        self, n: int, noise_multiplier: float, count: int = 1
    ) -> events.PoissonSampledGaussianEvent:
        """Event of `count` releases."""
        return events.PoissonSampledGaussianEvent(
            sampling_probability=self.probability(n),
            noise_multiplier=noise_multiplier,
            count=count,
            integers=self.integers,
        )

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        probability = self.probability(n)

        def batches(rng: np.random.Generator, count: int) -> list[np.ndarray]:
            # All coins in a row are those of one batch of so many times n records.
            size = sum(binomial_sizes(n, probability, count, rng))
            chosen = _subset(count * n, size, rng)
            ends = np.searchsorted(chosen, n * np.arange(count + 1)).tolist()
            return [chosen[ends[k] : ends[k + 1]] - k * n for k in range(count)]

        return _next_batch(("Poisson", n, probability), batches, self.batch_size, rng)


@dataclass(frozen=True)
class FixedSizeSampler(_RandomBatches):
    """A uniformly random batch of fixed size, without replacement, drawn anew in each step.

    *Guarantee*: replace-one adjacency; noise is `noise_multiplier` times the sensitivity
    ``2 radius / batch_size`` of the batch mean.  The event is the smallest pair that dominates a
    step for all orders; under composition it is an upper bound, not exact, and always larger than
    Poisson sampling's (docs/theory/accounting.md).

    Parameters
    ----------
    batch_size : int
        Number of records in a batch, smaller than n.
    integers : int, default=0
        As for :class:`PoissonSampler`.
    """

    batch_size: int

    def __post_init__(self) -> None:
        check_count(batch_size=self.batch_size)
        super().__post_init__()

    def event(
        self, n: int, noise_multiplier: float, count: int = 1
    ) -> events.FixedSizeSampledGaussianEvent:
        """Event of `count` releases."""
        self._check(n)
        return events.FixedSizeSampledGaussianEvent(
            population=n,
            batch_size=self.batch_size,
            noise_multiplier=noise_multiplier,
            count=count,
            integers=self.integers,
        )

    def _check(self, n: int) -> None:
        share: dict[str, Any] = {"batch_size / n": self.batch_size / n}
        check_fraction(**share)

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        self._check(n)

        def batches(rng: np.random.Generator, count: int) -> list[np.ndarray]:
            return [_subset(n, self.batch_size, rng) for _ in range(count)]

        return _next_batch(("fixed size", n, self.batch_size), batches, self.batch_size, rng)


def _next_batch(
    law: tuple, batches: Callable[..., list[np.ndarray]], size: float, rng: np.random.Generator
) -> np.ndarray:
    """One batch; a generator of noise draws many at a time, which costs less."""
    if isinstance(rng, NoiseGenerator):
        # As many indices as the innermost cache holds are drawn ahead.
        return rng.next_ahead(law, batches, max(1, int(2**13 // max(size, 1.0))))
    return batches(rng, 1)[0]


def _subset(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    # Sorted, so that records on disk are read in order; order carries no information.
    chosen = rng.choice(n, size=size, replace=False, shuffle=False)
    chosen.sort()
    return chosen


class Evidence:
    """Whether noisy vectors hold more than their noise; a function of released numbers.

    Attributes
    ----------
    most : float
        By how many of its standard deviations the squared length of a sum of the first vectors, of
        however many, is above what noise alone would make of it, at most.
    """

    # A fit whose vectors never rise so far above their noise warns; ``python
    # benchmarks/adagrad.py --warned`` counts how often linear models do.
    HIDDEN: ClassVar[float] = 1.0

    def __init__(self) -> None:
        self.most, self._sum, self._count = -math.inf, np.zeros(()), 0

    def see(self, vector: np.ndarray, size: int) -> None:
        """Take in a vector of so many free coordinates, each with noise of variance one."""
        self._sum = self._sum + vector
        self._count += 1
        excess = float(np.sum(self._sum**2)) / self._count - size
        self.most = max(self.most, excess / math.sqrt(2.0 * size))


def exact_mean(query: Query, indices: np.ndarray | None = None) -> np.ndarray:
    """The mean of a query without noise, over the records `indices` (None: all): not private."""
    count = query.n if indices is None else len(indices)
    return _with_center(query, query.exact(indices) / count)


def _check_batches(bounded_set: BoundedSet, integers: int) -> None:
    """Refuse sums over random batches of what no event counts, or an absent record moves more."""
    if math.prod(bounded_set.shape) > integers:
        raise PublicRuntimeError("a batch would release more integers than its event counts.")
    if not bounded_set.halves:
        raise PublicTypeError(
            "sums over random batches need a set whose records move a sum half as far by their "
            "absence as by their replacement."
        )


def check_run(noise_multipliers: Iterable[float], dim: int) -> None:
    """ValueError where integers are too coarse for sums of `dim` coordinates with such noise."""
    bounded_set = ball(Ball(1.0), dim)
    for noise_multiplier in noise_multipliers:
        bounded_set.check(mu_of(noise_multiplier))


def _with_center(query: Query, mean: np.ndarray) -> np.ndarray:
    center = query.bound.center
    return query.leave(mean if center is None else center + mean)
