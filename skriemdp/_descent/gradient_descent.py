"""DP-RGD: full-batch private Riemannian gradient descent with public step sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from skriemdp._descent.problem import FrechetProblem, Problem
from skriemdp._descent.queries import GradientQuery
from skriemdp._descent.releases import Batches, FullBatch, exact_mean
from skriemdp._descent.trajectory import Moves, Trajectory
from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.budget import Steps
from skriemdp._mechanisms.noise import expect_integers
from skriemdp._validation import check_positive, check_scale, plain_numbers
from skriemdp.privacy._events import GaussianEvent


@dataclass(frozen=True)
class RiemannianGradientDescent:
    """Settings of full-batch DP-RGD (Han, Mishra, Jawanpuria and Gao 2022, Algorithm 1 with b = n).

    Step t releases ``(1/n) sum_i clip(grad f_i(w_t)) + noise`` in the tangent space at the released
    iterate ``w_t`` and moves along it.  Noise is Gaussian in the Riemannian metric, relative to the
    sensitivity of a mean of vectors in a public ball, so the whole run is exactly mu-GDP.

    Parameters
    ----------
    mu : float
        Gaussian differential privacy parameter of the whole run.
    n_steps : int
    step_size : float or sequence of float of length `n_steps`
        Public step sizes.
    shares : sequence of float of length `n_steps`, optional
        Fractions of ``mu**2`` given to the steps; equal by default.
    clip_norm : float, default=inf
        Riemannian norm to which each record's gradient is clipped; ``inf`` relies on the problem's
        `gradient_ball`.
    output, retraction, domain
        As in :class:`skriemdp._descent.trajectory.Moves`.

    Notes
    -----
    *Guarantee*: mu-GDP under replace-one adjacency, n public; Gaussian composition is exact and
    adaptive (Dong, Roth and Su 2022), projections, averages and random choice are post-processing.
    The published noise variance ``T log(1/delta) L0^2 / (n epsilon)^2`` does not give (epsilon,
    delta) (docs/theory/optimisation.md, section 1).
    """

    mu: float
    n_steps: int
    step_size: float | Sequence[float]
    shares: tuple[float, ...] | None = None
    clip_norm: float = math.inf
    output: str = "last"
    retraction: bool = False
    domain: object = None

    def __post_init__(self) -> None:
        plain_numbers(self)
        check_positive(mu=self.mu)
        check_scale(allow_inf=True, clip_norm=self.clip_norm)
        object.__setattr__(self, "step_size", self.moves.step_size)
        object.__setattr__(self, "shares", self._checked_shares())

    def _checked_shares(self) -> tuple[float, ...]:
        if self.shares is None:
            return (1.0 / self.n_steps,) * self.n_steps
        if not isinstance(self.shares, Sequence) or len(self.shares) != self.n_steps:
            raise PublicValueError(f"shares must hold n_steps={self.n_steps} fractions of mu**2.")
        if min(self.shares) <= 0 or not math.isclose(math.fsum(self.shares), 1.0, rel_tol=1e-9):
            raise PublicValueError("shares must be positive and sum to 1.")
        return tuple(float(share) for share in self.shares)

    @property
    def moves(self) -> Moves:
        """The public part: steps, step sizes, output."""
        return Moves(self.n_steps, self.step_size, self.output, self.retraction, self.domain)

    @property
    def event(self) -> GaussianEvent:
        """The whole run: Gaussian releases whose squared mu add up to ``mu**2``."""
        return FullBatch().event(1, 1.0 / self.mu)

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """Noise of each step over its sensitivity."""
        shares = self._checked_shares()
        # The shares sum to one only up to rounding; dividing by their sum rounds to the safe side.
        total = max(math.fsum(shares), 1.0)
        return tuple(1.0 / (self.mu * math.sqrt(share / total)) for share in shares)

    def solve(
        self,
        problem: Problem,
        start: np.ndarray,
        rng: np.random.Generator,
        callback: Callable | None = None,
    ) -> np.ndarray:
        """Run on `problem` from the public point `start`; every visited point is private-safe.

        Parameters
        ----------
        problem : Problem
        start : ndarray of shape ``problem.geometry.shape``
        rng : numpy.random.Generator
            Source of the noise of this run.
        callback : callable, optional
            ``callback(step, point)`` after each step, with a copy of the released iterate.

        Returns
        -------
        ndarray
            The output point.
        """
        path = Trajectory(problem.geometry, start, self.moves, rng, callback)
        return run(path, problem, FullBatch(), self.noise_multipliers, self.clip_norm, rng)


def run(
    path: Trajectory,
    problem: Problem,
    batches: Batches,
    noise_multipliers: Sequence[float],
    clip_norm: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """The output point of `path` after a step along a noisy mean gradient for each multiplier."""
    expect_integers(rng, len(noise_multipliers) * problem.gradient_dim)
    steps = Steps(path.moves.n_steps)
    for multiplier in noise_multipliers:
        query = GradientQuery(problem, path.point, clip_norm)
        path.advance(batches.noisy_mean(query, multiplier, steps, rng))
    return path.result


def descend(
    problem: FrechetProblem, start: np.ndarray, moves: Moves, clip_norm: float = math.inf
) -> np.ndarray:
    """Non-private full-batch Riemannian gradient descent: what DP-RGD does without its noise.

    Parameters
    ----------
    problem : Problem
    start : ndarray of shape ``problem.geometry.shape``
    moves : Moves
        With ``output="random"`` there is no generator to draw from; it is refused.
    clip_norm : float, default=inf

    Returns
    -------
    ndarray
        The output point; not private.
    """
    if moves.output == "random":
        raise PublicValueError(
            "a run without noise has no random output; use 'last' or an average."
        )
    path = Trajectory(problem.geometry, start, moves, rng=None)
    for _ in range(moves.n_steps):
        query = GradientQuery(problem, path.point, clip_norm)
        path.advance(exact_mean(query))
    return path.result
