"""Whole clients protected: a trusted aggregator adds the noise and hides who trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._progress import counted
from skriemdp.descent.queries import GradientQuery, LogarithmQuery
from skriemdp.descent.releases import exact_mean
from skriemdp.mechanisms.sums import noisy_sum

if TYPE_CHECKING:
    from skriemdp.descent.problem import Problem
    from skriemdp.federated.loop import ServerLoop
    from skriemdp.federated.together import PooledRecords
    from skriemdp.federated.training import LocalSettings


__all__ = ["run_trusted", "train_without_noise"]


def train_without_noise(
    problems: dict[int, Problem],
    pool: PooledRecords | None,
    clients: tuple[int, ...],
    point: np.ndarray,
    settings: LocalSettings,
    round: int = 0,
) -> np.ndarray:
    """Where full-batch descent on each client's own records ends, ``(c, *shape)``.

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
    geometry = problems[clients[0]].geometry
    clip, size = settings.clip_norm, settings.step(round)
    ends = np.broadcast_to(point, (len(clients), *geometry.shape))
    for step in range(settings.n_steps):
        pairs = zip(clients, ends, strict=True)
        queries = [GradientQuery(problems[client], end, clip) for client, end in pairs]
        if pool is not None and step == 0:
            sums: Any = pool.gradient_sums(clients, point, queries[0].bound)
        else:
            sums = [query.total() for query in queries]
        moves = [exact_mean(query, total) for query, total in zip(queries, sums, strict=True)]
        ends = geometry.exp_coordinates(ends, -size * np.stack(moves))
    return np.asarray(ends)


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
        exact = settings.integers > 0
        move = noisy_sum(query, noise_multiplier, rng, exact=exact) / len(row)
        point = np.asarray(geometry.exp_coordinates(point, move))
        if loop.domain is not None:
            point = loop.domain.project(point)
        if loop.output == "last" or t == loop.pick:
            chosen = point
    return chosen
