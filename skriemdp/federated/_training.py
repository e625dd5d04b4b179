"""Local training of one client in one round: a private solver from the server's point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._descent.problem import Problem
from skriemdp._descent.releases import FullBatch, PoissonSampler
from skriemdp._descent.stochastic import RiemannianSGD
from skriemdp._descent.trajectory import Moves
from skriemdp._descent.variance_reduction import RiemannianSVRG
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.privacy._event import Event


@dataclass(frozen=True)
class LocalSettings:
    """Public settings of local training.

    Parameters
    ----------
    method : {"rsgd", "rsvrg"}
    n_steps : int
        Steps per round ("rsgd"), or difference steps after the one anchor ("rsvrg").
    step_size : float or tuple of float
        One for all rounds, or one per round.
    batch_fraction : float
        1 for full batches, else Poisson batches of this share of a client's records.
    clip_norm : float
    smoothness : float, optional
        Clips the differences of "rsvrg" to this times the distance from the anchor; without it, to
        `clip_norm`.
    """

    method: str
    n_steps: int
    step_size: float | tuple[float, ...]
    batch_fraction: float
    clip_norm: float
    smoothness: float | None = None

    def sampler(self, n: int, integers: int) -> Any:
        """Batches of a client with n records, each release one of so many integers at most."""
        if self.batch_fraction >= 1.0:
            return FullBatch()
        return PoissonSampler(self.batch_fraction * n, integers)

    def step(self, round: int) -> float:
        """Step size of a round; a round beyond the last takes the last one's."""
        if not isinstance(self.step_size, tuple):
            return self.step_size
        return self.step_size[min(max(round, 0), len(self.step_size) - 1)]


def local_solver(
    settings: LocalSettings,
    noise_multiplier: float,
    n: int,
    integers: int,
    domain: GeodesicBall | None = None,
    round: int = 0,
) -> RiemannianSGD | RiemannianSVRG:
    """The private solver of a client with n records in a round; it names its own event.

    `integers` is the `integers_of_a_step` of its problem.
    """
    sampler = settings.sampler(n, integers)
    if settings.method == "rsgd":
        moves = Moves(settings.n_steps, settings.step(round), domain=domain)
        return RiemannianSGD(sampler, noise_multiplier, moves, settings.clip_norm)
    moves = Moves(1 + settings.n_steps, settings.step(round), domain=domain)
    # Anchors get the noise of the differences: more spoils long runs (benchmarks/federated.py).
    return RiemannianSVRG(
        sampler,
        noise_multiplier,
        noise_multiplier,
        1,
        settings.n_steps,
        moves,
        clip_norm=settings.clip_norm,
        difference_clip=settings.clip_norm if settings.smoothness is None else None,
        smoothness=settings.smoothness,
    )


def local_event(settings: LocalSettings, noise_multiplier: float, integers: int) -> Event:
    """Event of one local training, for a record.

    It depends on the share of records in a batch, not on their number, so it is the same for every
    client; 1000 stands for any n.
    """
    return local_solver(settings, noise_multiplier, 1000, integers).event(1000)


def train(
    problem: Problem,
    point: np.ndarray,
    solver: RiemannianSGD | RiemannianSVRG,
    rng: np.random.Generator,
) -> np.ndarray:
    """One private local training from the server's point."""
    with np.errstate(all="ignore"):  # a warning of overflow would tell of a record
        return np.asarray(solver.solve(problem, point, rng))
