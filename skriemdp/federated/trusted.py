"""Whole clients protected: a trusted aggregator adds the noise and hides who trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skriemdp._progress import counted
from skriemdp.descent.queries import GradientQuery, LogarithmQuery
from skriemdp.descent.releases import exact_mean
from skriemdp.federated.together import queries_at
from skriemdp.mechanisms.sum import mu_of

if TYPE_CHECKING:
    from skriemdp.descent.problem import Problem
    from skriemdp.federated.loop import ServerLoop
    from skriemdp.federated.together import PooledRecords
    from skriemdp.federated.training import LocalSettings


def train_without_noise(
    problems: dict[int, Problem],
    pool: PooledRecords | None,
    clients: tuple[int, ...],
    point: np.ndarray,
    settings: LocalSettings,
    round: int = 0,
) -> np.ndarray:
    """Run noiseless full-batch descent on each client's records; end points ``(c, *shape)``.

    Parameters
    ----------
    problems : dict
        Client to its problem.
    pool : PooledRecords or None
        All records, where clients are so small that one pass over them is cheaper.
    clients : sequence
    point : ndarray
    settings : LocalSettings
    round : int
    """
    chosen = [problems[client] for client in clients]
    geometry, clip = chosen[0].geometry, settings.clip_norm
    queries = queries_at(point, chosen, clip, clients, pool)
    ends = np.broadcast_to(point, (len(clients), *geometry.shape))
    for step in range(settings.n_steps):
        if step:
            pairs = zip(chosen, ends, strict=True)
            queries = [GradientQuery(problem, end, clip) for problem, end in pairs]
        moves = np.stack([-settings.step(round) * exact_mean(query) for query in queries])
        if geometry.separate_rows:
            ends = np.asarray(geometry.exp_coordinates(ends, moves))
        else:  # a client's vector must not depend on those beside it
            ends = np.stack([geometry.exp_coordinates(*p) for p in zip(ends, moves, strict=True)])
    return ends


def run_trusted(
    loop: ServerLoop,
    problems: dict[int, Problem],
    settings: LocalSettings,
    noise_multiplier: float,
    update_clip: float,
    start: np.ndarray,
    rng: np.random.Generator,
    pool: PooledRecords | None = None,
) -> np.ndarray:
    """All rounds of `loop`, each one noisy mean of clipped tangent updates.

    Parameters
    ----------
    loop : ServerLoop
    problems : dict
        Client to its problem.
    settings : LocalSettings
    noise_multiplier : float
        Noise over the sensitivity ``2 update_clip / clients_per_round`` of a round's mean.
    update_clip : float
    start : ndarray
    rng : numpy.random.Generator
    pool : PooledRecords, optional
        As for :func:`train_without_noise`.

    Returns
    -------
    ndarray
        The output point.
    """
    geometry, point, chosen = loop.geometry, start, start
    for t, row in zip(counted("rounds", len(loop.schedule)), loop.schedule, strict=True):
        with np.errstate(all="ignore"):
            ends = train_without_noise(problems, pool, row, point, settings, t)
        query = LogarithmQuery(geometry, point, update_clip, ends)
        move = query.noisy(mu_of(noise_multiplier), rng).value / len(row)
        point = np.asarray(geometry.exp_coordinates(point, move))
        if loop.domain is not None:
            point = loop.domain.project(point)
        if loop.output == "last" or t == loop.pick:
            chosen = point
    return chosen
