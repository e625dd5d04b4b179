"""DP-RSGD: private Riemannian gradient descent on random batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._descent.gradient_descent import run
from skriemdp._descent.problem import Problem
from skriemdp._descent.releases import FixedSizeSampler, FullBatch, PoissonSampler
from skriemdp._descent.trajectory import Moves, Trajectory
from skriemdp._errors import PublicTypeError
from skriemdp._validation import check_positive, check_scale, plain_numbers
from skriemdp.privacy._calibration import calibrate
from skriemdp.privacy._event import Event

SAMPLINGS: dict[str, Any] = {"poisson": PoissonSampler, "fixed-size": FixedSizeSampler}

# Noise multipliers below the first end give epsilon in the hundreds; above the second, noise alone.
NOISE_BRACKET = (0.05, 1e4)


@dataclass(frozen=True)
class RiemannianSGD:
    """Settings of DP-RSGD (Han, Mishra, Jawanpuria and Gao 2022, Algorithm 1).

    Parameters
    ----------
    sampler : PoissonSampler, FixedSizeSampler or FullBatch
        Draws the batches *and* names the event; no event can be given separately, so the two cannot
        disagree.
    noise_multiplier : float
        Noise over the replace-one sensitivity of a batch, the same in every step.
    moves : Moves
        Steps, step sizes and output.
    clip_norm : float, default=inf
        Riemannian norm to which each record's gradient is clipped; ``inf`` relies on the problem's
        own bounds.

    Notes
    -----
    *Guarantee*: that of ``event(n)`` under replace-one adjacency, n public.  With Poisson sampling
    the accounting is exact; the published moment bound for sampling without replacement is false
    (docs/theory/optimisation.md, section 1) and not used.
    """

    sampler: PoissonSampler | FixedSizeSampler | FullBatch
    noise_multiplier: float
    moves: Moves
    clip_norm: float = math.inf

    def __post_init__(self) -> None:
        # Exactly these classes: a subclass could draw one way and account for another.
        if type(self.sampler) not in (PoissonSampler, FixedSizeSampler, FullBatch):
            raise PublicTypeError(
                "sampler must be a PoissonSampler, FixedSizeSampler or FullBatch: other ways to "
                "form batches (shuffled epochs, for instance) have no accounting here; got "
                f"{type(self.sampler).__name__}."
            )
        plain_numbers(self)
        check_positive(noise_multiplier=self.noise_multiplier)
        check_scale(allow_inf=True, clip_norm=self.clip_norm)

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """Noise multipliers that occur."""
        return (self.noise_multiplier,)

    def event(self, n: int) -> Event:
        """Event of a run on n records; known before any record is read."""
        return self.sampler.event(n, self.noise_multiplier, self.moves.n_steps)

    def solve(
        self,
        problem: Problem,
        start: np.ndarray,
        rng: np.random.Generator,
        callback: Callable | None = None,
    ) -> np.ndarray:
        """Run on `problem` from `start`; arguments as in `RiemannianGradientDescent.solve`.

        `rng` draws the noise and the batches, which are secret too.

        Raises
        ------
        TypeError
            With Poisson sampling, if neither the clip norm nor the problem bounds the norm of every
            record's gradient.
        """
        path = Trajectory(problem.geometry, start, self.moves, rng, callback)
        same = [self.noise_multiplier for _ in range(self.moves.n_steps)]
        return run(path, problem, self.sampler, same, self.clip_norm, rng)


def calibrated_sgd(
    sampler: PoissonSampler | FixedSizeSampler | FullBatch,
    moves: Moves,
    n: int,
    epsilon: float,
    delta: float,
    clip_norm: float = math.inf,
) -> RiemannianSGD:
    """DP-RSGD with the least noise whose whole run on n records is (epsilon, delta)-private.

    Parameters
    ----------
    sampler : PoissonSampler, FixedSizeSampler or FullBatch
    moves : Moves
    n : int
    epsilon, delta : float
    clip_norm : float, default=inf

    Returns
    -------
    RiemannianSGD

    Examples
    --------
    >>> from skriemdp._descent.releases import PoissonSampler
    >>> from skriemdp._descent.trajectory import Moves
    >>> solver = calibrated_sgd(PoissonSampler(100), Moves(1000, 0.1), 10_000, 1.0, 1e-5)
    >>> solver.event(10_000).epsilon(1e-5) <= 1.0
    True
    """

    def event(noise_multiplier: float) -> Event:
        return sampler.event(n, noise_multiplier, moves.n_steps)

    noise_multiplier = calibrate(event, epsilon, delta, NOISE_BRACKET)
    return RiemannianSGD(sampler, noise_multiplier, moves, clip_norm)
