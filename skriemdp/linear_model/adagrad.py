"""Noisy AdaGrad: private adaptive gradient steps for generalised linear models."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._progress import counted
from skriemdp.descent.queries import Query
from skriemdp.descent.releases import FullBatch, PoissonSampler, exact_sums
from skriemdp.linear_model.glm import LinearProblem
from skriemdp.linear_model.groups import GroupedLinearProblem
from skriemdp.linear_model.preconditioners import Metric, make_preconditioner
from skriemdp.linear_model.releases import RootMoments
from skriemdp.mechanisms.bounds import Ball, Factors
from skriemdp.mechanisms.integer_products import IntegerFactors
from skriemdp.mechanisms.integers import ExactTotal, IntegerBall
from skriemdp.mechanisms.noise import NOISE_SCALE, expect_integers
from skriemdp.privacy.events import Event, compose

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams


__all__ = ["NoisyAdaGrad"]

# Steps of pure noise, as a share of the run, that adaptive preconditioners start from: one number
# for all data (docs/user_guide/adagrad.md, "The default"); more where the steps can grow.
_WARMUP = 0.25
_GROWING_WARMUP = 0.5
# A growing step size over the root mean square of the coordinates of the way so far.
_GROWTH = 3.0
# Longest step of "norm" and "diagonal", over the inverse of the loss's largest curvature.  2 is
# safe for any data; rows that spread over directions, and scores away from 0, leave room for more.
_LONGEST = 16.0

# Share of mu**2 that "paper" spends on its matrices.
_MOMENT_SHARE = 0.2


@dataclasses.dataclass(frozen=True, eq=False)
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
    preconditioner : {"noised", "diagonal", "norm", "paper", "public", "none"}
    moment_multiplier : float, optional
        Noise over sensitivity of the root moment of "paper".
    curvature : ndarray of shape (k, k), optional
        Public, of "public".
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
    """

    sampler: FullBatch | PoissonSampler
    n_steps: int
    noise_multiplier: float
    step_size: float
    clip_norms: Any
    preconditioner: str = "noised"
    moment_multiplier: float | None = None
    curvature: Any = None
    max_norm: float | None = None
    basis_at: Callable | None = None
    first_step_size: float | None = None
    grouped: bool = False

    def __post_init__(self) -> None:
        if self.exact and self.preconditioner == "paper":
            raise ValueError("root moments have no exact integers.")
        if type(self.sampler) not in (FullBatch, PoissonSampler):
            raise TypeError("sampler must be a FullBatch or a PoissonSampler.")
        if (self.preconditioner == "paper") != (self.moment_multiplier is not None):
            raise ValueError("moment_multiplier belongs to preconditioner='paper', which needs it.")
        if self.first_step_size is not None and self.preconditioner != "noised":
            raise ValueError("first_step_size belongs to preconditioner='noised'.")
        if self.preconditioner == "paper" and type(self.sampler) is not FullBatch:
            raise ValueError(
                "preconditioner='paper' reads every record in every step; use batch_size=None."
            )

    @property
    def exact(self) -> bool:
        """Whether gradients are added in exact integers (docs/theory/lattice.md)."""
        return exact_sums(self.sampler)

    def with_integers(self, dim: int) -> NoisyAdaGrad:
        """The same run, in exact integers; gradients have `dim` entries."""
        return dataclasses.replace(self, sampler=self.sampler.with_integers(dim))

    def event(self, n: int) -> Event:
        """What a run on n records costs."""
        steps = self.sampler.event(n, self.noise_multiplier, self.n_steps)
        if self.moment_multiplier is None:
            return steps
        return compose([steps, RootMoments(self.moment_multiplier).event(self.n_steps)])

    def with_mu(self, mu: float) -> NoisyAdaGrad:
        """The same run of full batches, mu-GDP: what :meth:`event` says is then mu."""
        share, moment = 1.0, None
        if self.preconditioner == "paper":
            share = 1.0 - _MOMENT_SHARE
            moment = math.sqrt(self.n_steps / _MOMENT_SHARE) / mu
        noise = math.sqrt(self.n_steps / share) / mu
        return dataclasses.replace(self, noise_multiplier=noise, moment_multiplier=moment)

    def factors(self, size: int, n_outputs: int) -> IntegerFactors:
        """The integers of a row's gradient of this shape."""
        return IntegerFactors(size, n_outputs, self.noise_multiplier)

    def integer_sigma(self, shape: tuple[int, int], bound: float) -> float:
        """Noise of an entry of an exact sum of gradients; ValueError without a fine lattice."""
        if self.grouped:
            ball = IntegerBall(Ball(bound), math.prod(shape), self.noise_multiplier)
            return NOISE_SCALE * ball.spacing
        return self.factors(*shape).sigma(bound)

    def noise(self, n: int, step: int, shape: tuple[int, int]) -> float:
        """Standard deviation of the noise of a coordinate of the mean gradient of `step`.

        `shape` is that of the gradient, in coordinates of the step's subspace.
        """
        bound = float(self.clip_norms[step - 1])
        if self.exact:
            return self.integer_sigma(shape, bound) / self.sampler.expected_size(n)
        return self.noise_multiplier * 2.0 * bound / self.sampler.expected_size(n)

    def solve(
        self,
        problem: LinearProblem,
        penalty: Any,
        start: np.ndarray,
        streams: NoiseStreams,
    ) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Run on `problem` from `start`.

        Parameters
        ----------
        problem : LinearProblem
        penalty : ndarray of shape (size, 1)
            Ridge per weight; public or released.
        start : ndarray of shape (size, n_outputs)
            Public.
        streams : NoiseStreams

        Returns
        -------
        weights : ndarray of shape (size, n_outputs)
        spectrum : ndarray
            Eigenvalues of the last preconditioner, largest first.
        floor : float
            What noise alone would have made of them, warm-up included.
        noise : float
            Standard deviation of the noise of a coordinate of the last mean gradient.
        """
        growing = self.first_step_size is not None
        warmup = (_GROWING_WARMUP if growing else _WARMUP) * self.n_steps
        rng = streams("gradients")
        state: Any = make_preconditioner(
            self.preconditioner,
            warmup=warmup,
            floor=self.step_size * problem.loss.curvature / _LONGEST,
            curvature=self.curvature,
            noise_multiplier=self.moment_multiplier,
            n=problem.n,
            rng=streams("root moments") if self.preconditioner == "paper" else None,
        )
        basis: Any
        metric: Any
        weights, basis, metric = np.array(start, dtype=float), None, None
        growth, variance = _Growth(self.first_step_size, self.step_size), 0.0
        units: dict[tuple[int, ...], float] = {}  # noise at a bound of one, by shape
        first = self.n_steps // 2 + 1  # of the iterates that are averaged
        total = np.zeros_like(weights)
        if self.exact and self.basis_at is None:
            if not self.grouped:
                batches = not isinstance(self.sampler, FullBatch)
                problem = problem.on_lattice(self.factors(*weights.shape), batches)
            expect_integers(rng, self.n_steps * weights.size)
        for done in counted("AdaGrad", self.n_steps):
            step = done + 1
            previous = basis
            basis = None if self.basis_at is None else self.basis_at(step)
            bound = float(self.clip_norms[step - 1])
            kind = _PeopleQuery if self.grouped else _StepQuery
            query = kind(problem, weights, basis, bound)
            gradient = self.sampler.release(query, self.noise_multiplier, rng)
            gradient = gradient + _coordinates(penalty * weights, basis)
            change = None if previous is None else basis.T @ previous
            exact = None
            if self.preconditioner == "paper":
                state.observe(self.clip_norms[step - 1])
                exact = (_ambient(query.exact_total / problem.n, basis), basis)
            # A share of the longest step weighs its gradient too, so that the metric forgets
            # gradients of steps much shorter than the present one.
            if gradient.shape not in units:
                units[gradient.shape] = self.noise(problem.n, step, gradient.shape) / bound
            share, noise = growth.share, bound * units[gradient.shape]
            metric = state.update(share * gradient, share * noise, change, exact)
            variance += (share * noise) ** 2
            length = self.step_size * share**2
            weights = self._move(weights, metric, length, gradient, basis)
            growth.see(weights - start, gradient.shape, length / metric.eigenvalues * noise)
            if step >= first:
                total += weights
        spectrum = np.sort(np.ravel(metric.eigenvalues))[::-1]
        floor = math.sqrt(variance + warmup * (share * noise) ** 2)
        return total / (self.n_steps + 1 - first), spectrum, floor, noise

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

    def see(self, way: np.ndarray, shape: tuple[int, ...], noise: np.ndarray) -> None:
        """Take in a step.

        Parameters
        ----------
        way : ndarray
            Iterate less start.
        shape : tuple
            Of the coordinates that move: dimensions, outputs.
        noise : array-like broadcastable to `shape`
            Standard deviation of the step's noise.
        """
        if self.share == 1.0:  # it only grows
            return
        size = math.prod(shape)
        self._walk += float(np.sum(np.broadcast_to(noise, shape) ** 2))
        square = float(np.sum(way**2)) - (1.0 + 0.5 * math.sqrt(2.0 / size)) * self._walk
        step_size = _GROWTH * math.sqrt(max(square, 0.0) / size)
        self.share = max(self.share, min(1.0, step_size / self._longest))


class _StepQuery(Query):
    """Clipped gradients of one step; remembers their exact sum for a mechanism that reads it too.

    With a basis the gradients are projected on it before they are clipped.
    """

    bound: Factors  # type: ignore[assignment]
    exact_total: Any

    def __init__(
        self,
        problem: LinearProblem,
        weights: np.ndarray,
        basis: np.ndarray | None,
        clip_norm: float,
    ):
        self.n, self.exact_total = problem.n, None
        self.longest_block = problem.n
        self._problem, self._weights, self._basis = problem, weights, basis
        size = len(weights) if basis is None else basis.shape[1]
        self._shape = (size, weights.shape[1])
        self.dim, self.bound = math.prod(self._shape), Factors(clip_norm, *self._shape)

    def blocks(self, indices: np.ndarray | None = None) -> Iterator[np.ndarray]:
        raise NotImplementedError("gradients are summed without being formed")

    def integer_total(
        self, lattice: IntegerFactors, indices: np.ndarray | None = None
    ) -> ExactTotal:
        clip, basis = self.bound.norm, self._basis
        return self._problem.integer_total(lattice, self._weights, clip, indices, basis)

    def total(self, indices: np.ndarray | None = None) -> np.ndarray:
        self.exact_total = self._problem.clipped_sum(
            self._weights, self.bound.radius, indices, self._basis
        )
        return self.exact_total.ravel()

    def leave(self, vector: np.ndarray) -> np.ndarray:
        return vector.reshape(self._shape)


class _PeopleQuery(_StepQuery):
    """The same for people: means of own rows' gradients, clipped after averaging."""

    _problem: GroupedLinearProblem
    bound: Ball  # type: ignore[assignment]

    def __init__(
        self,
        problem: LinearProblem,
        weights: np.ndarray,
        basis: np.ndarray | None,
        clip_norm: float,
    ):
        super().__init__(problem, weights, basis, clip_norm)
        self.bound = Ball(clip_norm)

    def blocks(self, indices: np.ndarray | None = None) -> Iterator[np.ndarray]:
        with np.errstate(all="ignore"):
            yield from self._problem.gradients(self._weights, indices, self._basis)

    def total(self, indices: np.ndarray | None = None) -> np.ndarray:
        total = Query.total(self, indices)
        self.exact_total = total.reshape(self._shape)
        return total


def _coordinates(vector: np.ndarray, basis: np.ndarray | None) -> np.ndarray:
    return vector if basis is None else basis.T @ vector


def _ambient(coordinates: np.ndarray, basis: np.ndarray | None) -> np.ndarray:
    return coordinates if basis is None else basis @ coordinates
