"""Batches: one object draws the records, knows the sensitivity it needs and names the event."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp._validation import check_count, check_fraction, check_positive
from skriemdp.mechanisms.lattice import LatticeSum
from skriemdp.mechanisms.tangent import TangentGaussian
from skriemdp.privacy import events

__all__ = ["FixedSizeSampler", "FullBatch", "LatticeBatch", "PoissonSampler"]


@dataclasses.dataclass(frozen=True)
class FullBatch:
    """Every record in every step; an exactly Gaussian release.

    *Guarantee*: noise `noise_multiplier` times the replace-one sensitivity ``diameter / n`` of the
    mean, so ``count`` adaptive steps are ``sqrt(count) / noise_multiplier``-GDP.
    """

    def event(self, n: int, noise_multiplier: float, count: int = 1):
        """What `count` releases cost."""
        return events.GaussianEvent(noise_multiplier=noise_multiplier, count=count)

    def expected_size(self, n: int) -> float:
        """Expected number of records in a batch."""
        return n

    def variance_share(self, n: int) -> float:
        """Bound of ``E|batch mean - mean|^2`` in units of the squared norm bound; here zero."""
        return 0.0

    def release(self, query, noise_multiplier: float, rng):
        """Noisy mean of ``query`` over the records, a tangent vector at its point."""
        sensitivity = _finite(query.diameter()) / query.n
        mean = query.total() / query.n
        return _noisy(query, mean, sensitivity, noise_multiplier, rng)


@dataclasses.dataclass(frozen=True)
class LatticeBatch:
    """Every record in every step, summed in exact integers with discrete Gaussian noise.

    *Guarantee*: that of :class:`FullBatch`, without trust in floating-point arithmetic
    (docs/theory/lattice.md).  It needs a ball that holds every record's vector, as Poisson sampling
    does; the sensitivity is twice its radius.
    """

    def event(self, n: int, noise_multiplier: float, count: int = 1):
        """What `count` releases cost."""
        return events.GaussianEvent(noise_multiplier=noise_multiplier, count=count)

    def release(self, query, noise_multiplier: float, rng):
        """Noisy mean of ``query`` over the records, a tangent vector at its point."""
        center, radius = query.enclosing_ball()
        geometry, point = query.geometry, query.point
        offset = np.zeros(geometry.dim)
        if center is not None:
            offset = np.asarray(geometry.coordinates_from_tangent(point, center))
        mechanism = LatticeSum(geometry.dim, _finite(radius), noise_multiplier)
        total = mechanism.release((rows - offset for rows in query.coordinate_blocks()), rng)
        return geometry.tangent_from_coordinates(point, total / query.n + offset)


@dataclasses.dataclass(frozen=True)
class PoissonSampler:
    """Every record enters each batch independently with the same probability; the default.

    *Guarantee*: replace-one adjacency.  Batch sums are divided by the public expected batch size,
    never by the realised one, and the noise is `noise_multiplier` times ``2 radius``: conditional
    on the others, the record's contribution lies within ``radius`` of the public centre whether it
    is the old one, the new one, or absent.  The pair of mixtures named by the event dominates, and
    composition is exact (docs/theory/accounting.md).  A bound on the *difference* of two records
    does not suffice here, and is refused.

    Parameters
    ----------
    batch_size : float
        Expected number of records in a batch, at most n.

    Notes
    -----
    The batch is secret; it is drawn from the noise generator.  Its size is binomial and the records
    are then a uniform subset of that size, which is the same law as n independent coins but costs
    time proportional to the batch.
    """

    batch_size: float

    def __post_init__(self):
        check_positive(batch_size=self.batch_size)

    def probability(self, n: int) -> float:
        """Sampling probability on n records."""
        if self.batch_size > n:
            raise ValueError(
                f"batch_size={self.batch_size} exceeds n={n}; use a smaller batch, or the full one."
            )
        return self.batch_size / n

    def event(self, n: int, noise_multiplier: float, count: int = 1):
        """What `count` releases cost."""
        return events.PoissonSampledGaussianEvent(
            sampling_probability=self.probability(n), noise_multiplier=noise_multiplier, count=count
        )

    def expected_size(self, n: int) -> float:
        """Expected number of records in a batch."""
        return self.batch_size

    def variance_share(self, n: int) -> float:
        """Bound of ``E|batch mean - mean|^2`` in units of the squared norm bound."""
        return (1.0 - self.probability(n)) / self.batch_size

    def draw(self, n: int, rng):
        """Sorted indices of one batch; may be empty."""
        return _subset(n, int(rng.binomial(n, self.probability(n))), rng)

    def release(self, query, noise_multiplier: float, rng):
        """Noisy estimate of the mean of ``query``, a tangent vector at its point."""
        center, radius = query.enclosing_ball()
        if not math.isfinite(radius):
            raise TypeError(
                "Poisson sampling compares a record with its absence and needs a bound on the norm "
                "of every record's gradient, which this problem does not have at the current "
                "iterate; a bound on the difference of two gradients (gradient_diameter) does not "
                "suffice. Pass a finite clip_norm, give the problem a gradient_norm_bound, or use "
                "the full batch or fixed-size batches."
            )
        chosen = self.draw(query.n, rng)
        mean = query.total(chosen) / self.batch_size
        if center is not None:
            mean = mean + (1.0 - len(chosen) / self.batch_size) * center
        sensitivity = 2.0 * radius / self.batch_size
        return _noisy(query, mean, sensitivity, noise_multiplier, rng)


@dataclasses.dataclass(frozen=True)
class FixedSizeSampler:
    """A uniformly random batch of fixed size, without replacement, drawn anew in each step.

    *Guarantee*: replace-one adjacency; noise is `noise_multiplier` times the sensitivity
    ``diameter / batch_size`` of the batch mean.  The event is the smallest pair that dominates a
    step for all orders; under composition it is an upper bound, not exact, and always larger than
    Poisson sampling's (docs/theory/accounting.md).

    Parameters
    ----------
    batch_size : int
        Number of records in a batch, smaller than n.
    """

    batch_size: int

    def __post_init__(self):
        check_count(batch_size=self.batch_size)

    def event(self, n: int, noise_multiplier: float, count: int = 1):
        """What `count` releases cost."""
        self._check(n)
        return events.FixedSizeSampledGaussianEvent(
            population=n,
            batch_size=self.batch_size,
            noise_multiplier=noise_multiplier,
            count=count,
        )

    def _check(self, n):
        check_fraction(**{"batch_size / n": self.batch_size / n})

    def expected_size(self, n: int) -> float:
        """Number of records in a batch."""
        return self.batch_size

    def variance_share(self, n: int) -> float:
        """Bound of ``E|batch mean - mean|^2`` in units of the squared norm bound."""
        return (n / self.batch_size - 1.0) / max(n - 1.0, 1.0)

    def draw(self, n: int, rng):
        """Sorted indices of one batch."""
        self._check(n)
        return _subset(n, self.batch_size, rng)

    def release(self, query, noise_multiplier: float, rng):
        """Noisy mean of ``query`` over one batch, a tangent vector at its point."""
        sensitivity = _finite(query.diameter()) / self.batch_size
        mean = query.total(self.draw(query.n, rng)) / self.batch_size
        return _noisy(query, mean, sensitivity, noise_multiplier, rng)


def _subset(n, size, rng):
    # Sorted, so that records on disk are read in order; order carries no information.
    return np.sort(rng.choice(n, size=size, replace=False, shuffle=False))


def _finite(diameter):
    if not math.isfinite(diameter):
        raise ValueError(
            "this problem has no finite gradient_diameter at the current iterate; pass a finite "
            "clip_norm."
        )
    return diameter


def _noisy(query, mean, sensitivity, noise_multiplier, rng):
    mechanism = TangentGaussian(query.geometry, sensitivity, noise_multiplier)
    return mechanism.release(query.point, mean, rng)
