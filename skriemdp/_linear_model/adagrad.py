"""Noisy AdaGrad: private adaptive gradient steps for generalised linear models."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skriemdp._descent.releases import Evidence, FullBatch, PoissonSampler
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._linear_model.glm import LinearProblem
from skriemdp._linear_model.preconditioners import Axes, Metric, Noised, Plain
from skriemdp._mechanisms.bounded_sets import BoundedSet, Outer, ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import Steps
from skriemdp._mechanisms.noise import NOISE_SCALE, expect_integers
from skriemdp._mechanisms.sum import Noisy, integer_total, mu_of, private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._progress import counted
from skriemdp.privacy._events import Event, compose

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams

# Longest step of "norm" and "diagonal", over the inverse of the loss's largest curvature.  2 is
# safe for any data; rows that spread over directions, and scores away from 0, leave room for more.
_LONGEST = 16.0

# Share of mu**2 that "paper" spends on its matrices: a convention.
_MOMENT_SHARE = 0.2


class Solution(NamedTuple):
    """Result of a run, computed from noisy gradients alone.

    Attributes
    ----------
    weights : ndarray of shape (size, n_outputs)
    spectrum : ndarray
        Eigenvalues of the last preconditioner, largest first.
    floor : float
        What noise alone would have made of them, warm-up included.
    noise : float
        Standard deviation of the noise of a coordinate of the last mean gradient.
    evidence : float
        Of the gradients, as :class:`Evidence` sees them, the intercept left out.
    """

    weights: np.ndarray
    spectrum: np.ndarray
    floor: float
    noise: float
    evidence: float


@dataclass(frozen=True, eq=False)
class NoisyAdaGrad:
    """Settings of a run; everything in it is public.

    Parameters
    ----------
    sampler : FullBatch or PoissonSampler
        Draws the batches and names the event.
    n_steps : int
    noise_multiplier : float
        Noise of a step's mean gradient over its replace-one sensitivity.
    step_size : float
    first_step_size : float, optional
        With "noised": steps grow from it to `step_size`, as far as the released iterates have moved
        beyond what noise explains.
    clip_norms : ndarray of shape (n_steps,)
        Bound of a record's gradient in each step: the envelope.  Gradients are clipped to it.
    preconditioner : {"noised", "diagonal", "norm", "paper", "none"}
    moment_multiplier : float, optional
        Noise over sensitivity of the root moment of "paper".
    max_norm : float, optional
        Radius of the ball that holds the iterates.
    basis_at : callable, optional
        ``basis_at(t)`` is the public orthonormal basis, shape (size, k), of step t = 1, 2, ...
    grouped : bool, default=False
        Whether records are people, whose gradients are no outer products.

    Notes
    -----
    *Guarantee*: ``event(n)``.  Every step releases a mean gradient at a released point, clipped to
    ``L_t``: sensitivity ``2 L_t / n``.  "paper" releases ``G_t`` too, of sensitivity ``2 sqrt(2)
    sqrt(sum_s<=t L_s^2) / n`` given the iterates.  All else is post-processing
    (docs/theory/adagrad.md).

    *Steps that grow.*  With k parameters the size of a coordinate of the solution is estimated by
    ``R_t^2 = (|theta_t - theta_1|^2 - (1 + sqrt(2 / k) / 2) sum_{s<t} eta_s^2 sigma_s^2 tr
    H_s^-2)_+ / k``.  Step t has the size ``eta_t = min(step_size, max(eta_{t-1}, 3 R_t))``;
    gradients enter the second moment, and noise its moment, with weight ``eta_s^2 / eta_t^2``.
    """

    sampler: FullBatch | PoissonSampler
    n_steps: int
    noise_multiplier: float
    step_size: float
    clip_norms: Any
    preconditioner: str = "noised"
    moment_multiplier: float | None = None
    max_norm: float | None = None
    basis_at: Callable | None = None
    first_step_size: float | None = None
    grouped: bool = False

    def __post_init__(self) -> None:
        if type(self.sampler) not in (FullBatch, PoissonSampler):
            raise PublicTypeError("sampler must be a FullBatch or a PoissonSampler.")
        if (self.preconditioner == "paper") != (self.moment_multiplier is not None):
            raise PublicValueError(
                "moment_multiplier belongs to preconditioner='paper', which needs it."
            )
        if self.first_step_size is not None and self.preconditioner != "noised":
            raise PublicValueError("first_step_size belongs to preconditioner='noised'.")
        if self.preconditioner == "paper" and type(self.sampler) is not FullBatch:
            raise PublicValueError(
                "preconditioner='paper' reads every record in every step; use batch_size=None."
            )

    def event(self, n: int) -> Event:
        """Event of a run on n records."""
        steps = self.sampler.event(n, self.noise_multiplier, self.n_steps)
        if self.moment_multiplier is None:
            return steps
        from skriemdp._linear_model.releases import RootMoments

        return compose([steps, RootMoments(self.moment_multiplier).event(self.n_steps)])

    def with_mu(self, mu: float) -> NoisyAdaGrad:
        """Return this run with the noise that makes it mu-GDP; for full batches."""
        share, moment = 1.0, None
        if self.preconditioner == "paper":
            share = 1.0 - _MOMENT_SHARE
            moment = math.sqrt(self.n_steps / _MOMENT_SHARE) / mu
        noise = math.sqrt(self.n_steps / share) / mu
        return dataclasses.replace(self, noise_multiplier=noise, moment_multiplier=moment)

    def bounded_set(self, shape: tuple[int, int], bound: float) -> BoundedSet:
        """The set of records' gradients of this shape, no longer than `bound`."""
        return ball(Ball(bound), math.prod(shape)) if self.grouped else Outer(bound, *shape)

    def check(self, shape: tuple[int, int]) -> None:
        """ValueError where integers are too coarse for gradients of this shape."""
        self.bounded_set(shape, 1.0).check(mu_of(self.noise_multiplier))

    def noise_of_last(self, shape: tuple[int, int], n: int) -> float:
        """Noise of a coordinate of the last step's mean gradient."""
        bounded_set, mu = (
            self.bounded_set(shape, float(self.clip_norms[-1])),
            mu_of(self.noise_multiplier),
        )
        return bounded_set.sigma(bounded_set.check(mu)) / self.sampler.expected_size(n)

    def solve(
        self,
        problem: LinearProblem,
        penalty: Any,
        start: np.ndarray,
        streams: NoiseStreams,
        intercept: bool = False,
    ) -> Solution:
        """Run on `problem` from `start`.

        Parameters
        ----------
        problem : LinearProblem
        penalty : ndarray of shape (size, 1)
            Ridge per weight; public or released.
        start : ndarray of shape (size, n_outputs)
            Public.
        streams : NoiseStreams
        intercept : bool, default=False
            Whether the last weight, and the last direction of a basis, is the intercept's.
        """
        growing = self.first_step_size is not None
        # One number for all data (docs/benchmarks.md, "Linear models"); more where the steps can
        # grow.
        warmup = (0.5 if growing else 0.25) * self.n_steps
        rng = streams("gradients")
        state = self._state(problem, warmup, streams)
        basis: Any
        metric: Any
        weights, basis, metric = np.array(start, dtype=float), None, None
        growth, variance = _Growth(self.first_step_size, self.step_size), 0.0
        known: Any = None
        evidence = Evidence()
        first = self.n_steps // 2 + 1  # of the iterates that are averaged
        total = np.zeros_like(weights)
        records = self._records(problem, weights)
        # What is read from now on.
        problem = dataclasses.replace(problem, rows=records.arrays[0])
        if self.basis_at is None:
            expect_integers(rng, self.n_steps * weights.size)
        paid = Steps(self.n_steps)
        for done in counted("AdaGrad", self.n_steps):
            paid.take()
            step = done + 1
            previous = basis
            basis = None if self.basis_at is None else self.basis_at(step)
            asked = _shape(weights, basis), float(self.clip_norms[step - 1])
            if asked != known:
                known, bounded_set = asked, self.bounded_set(*asked)
            noisy, without = self._mean(problem, records, weights, basis, bounded_set, rng)
            gradient = noisy.value + _coordinates(penalty * weights, basis)
            change = None if previous is None else basis.T @ previous
            if self.preconditioner == "paper":
                # Half of how far two totals may lie apart as numbers, a little above the bound.
                steps = bounded_set.check(mu_of(self.noise_multiplier))
                longest = 0.5 * steps * bounded_set.sigma(steps) / NOISE_SCALE
                state.observe(longest, _ambient(without, basis), basis)
            # A share of the longest step weighs its gradient too, so that the metric forgets
            # gradients of steps much shorter than the present one.
            share, noise = growth.share, noisy.sigma
            metric = state.update(share * gradient, share * noise, change)
            variance += (share * noise) ** 2
            length = self.step_size * share**2
            weights = self._move(weights, metric, length, gradient, basis)
            if growth.share < 1.0:  # it only grows
                moved = np.broadcast_to(length / metric.eigenvalues * noise, gradient.shape)
                growth.see(weights - start, moved)
            slopes = gradient[: len(gradient) - intercept]
            axes = None if basis is None else basis[:, : len(slopes)]
            evidence.see(_ambient(slopes / noise, axes), slopes.size)
            if step >= first:
                total += weights
        spectrum = np.sort(np.ravel(metric.eigenvalues))[::-1]
        floor = math.sqrt(variance + warmup * (share * noise) ** 2)
        average = total / (self.n_steps + 1 - first)
        return Solution(average, spectrum, floor, noise, evidence.most)

    def _state(self, problem: LinearProblem, warmup: float, streams: NoiseStreams) -> Any:
        """The preconditioner of a run."""
        if self.moment_multiplier is not None:
            from skriemdp._linear_model.releases import Paper

            return Paper(self.moment_multiplier, problem.n, streams("root moments"))
        if self.preconditioner == "noised":
            return Noised(warmup)
        if self.preconditioner == "none":
            return Plain()
        floor = self.step_size * problem.loss.curvature / _LONGEST
        return Axes(warmup, floor, self.preconditioner == "norm")

    def _records(self, problem: LinearProblem, weights: np.ndarray) -> Units:
        """The records of a run; rows are rounded once where every step reads the same."""
        rows: Any = problem.rows
        if self.basis_at is None and not self.grouped:
            bounded_set = Outer(1.0, *weights.shape)
            steps = bounded_set.check(mu_of(self.noise_multiplier))
            # Products with one vector are a fifth faster so, and batches gather rows slower.
            rows = bounded_set.rounded(rows, steps, by_column=isinstance(self.sampler, FullBatch))
        return Units((rows, problem.targets), problem.groups)

    def _mean(
        self,
        problem: LinearProblem,
        records: Units,
        weights: np.ndarray,
        basis: np.ndarray | None,
        bounded_set: BoundedSet,
        rng: np.random.Generator,
    ) -> tuple[Noisy, np.ndarray]:
        """Noisy mean gradient of a step; and without noise, for a mechanism that reads it too."""
        mu = mu_of(self.noise_multiplier)
        steps, size = bounded_set.check(mu), self.sampler.expected_size(problem.n)
        if isinstance(bounded_set, Outer) and basis is None:
            weights = weights / bounded_set.resolution(steps)  # of the rounded rows
        chosen = self.sampler.batch(bounded_set, problem.n, rng)
        if chosen is not None:
            records = records.take(chosen)
        total: Any = None

        def add(*requested: Any) -> np.ndarray:
            nonlocal total
            total = integer_total(*requested)
            return total

        give = problem.gradients(weights, basis, batch_invariant=chosen is not None)
        noisy = private_sum(records, give, bounded_set, mu, rng, add)
        values = (noisy.value, bounded_set.value(total, steps))
        mean, exact = (value.reshape(_shape(weights, basis)) / size for value in values)
        return Noisy(mean, noisy.sigma / size), exact

    def _move(
        self,
        weights: np.ndarray,
        metric: Metric,
        length: float,
        gradient: np.ndarray,
        basis: np.ndarray | None,
    ) -> np.ndarray:
        inside = _coordinates(weights, basis)
        moved = inside - length * metric.solve(gradient)
        if basis is None:
            return moved if self.max_norm is None else metric.project(moved, self.max_norm)
        rest = weights - basis @ inside
        if self.max_norm is not None:
            # The metric is zero outside the subspace, where the iterate stays.
            radius = max(self.max_norm**2 - float(np.sum(rest**2)), 0.0) ** 0.5
            moved = metric.project(moved, radius)
        return rest + basis @ moved


class _Growth:
    """Step size as a share of the longest one, from released iterates: post-processing.

    The way from the start, less the walk that the noise of its gradients alone would make (and half
    a standard deviation of the walk's square), says how large the coordinates of the solution are.
    """

    def __init__(self, first: float | None, longest: float):
        self._longest = longest
        self._walk = 0.0
        self.share = 1.0 if first is None else min(1.0, first / longest)

    def see(self, way: np.ndarray, noise: np.ndarray) -> None:
        """Take in a step.

        Parameters
        ----------
        way : ndarray
            Iterate less start.
        noise : ndarray of shape (dimensions, n_outputs)
            Standard deviation of the step's noise, of the coordinates that move.
        """
        size = noise.size
        self._walk += float(np.sum(noise**2))
        square = float(np.sum(way**2)) - (1.0 + 0.5 * math.sqrt(2.0 / size)) * self._walk
        # Over the root mean square of the coordinates of the way so far (benchmarks/adagrad.py).
        step_size = 3.0 * math.sqrt(max(square, 0.0) / size)
        self.share = max(self.share, min(1.0, step_size / self._longest))


def _shape(weights: np.ndarray, basis: np.ndarray | None) -> tuple[int, int]:
    """Shape of a gradient, in coordinates of `basis`."""
    return len(weights) if basis is None else basis.shape[1], weights.shape[1]


def _coordinates(vector: np.ndarray, basis: np.ndarray | None) -> np.ndarray:
    return vector if basis is None else basis.T @ vector


def _ambient(coordinates: np.ndarray, basis: np.ndarray | None) -> np.ndarray:
    return coordinates if basis is None else basis @ coordinates
