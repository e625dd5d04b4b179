"""Whole clients protected: a trusted aggregator adds the noise and hides who trained."""

from __future__ import annotations

import numpy as np

from skriemdp.descent.queries import GradientQuery, LogarithmQuery
from skriemdp.descent.sampling import exact_mean
from skriemdp.mechanisms.sums import noisy_sum

__all__ = ["run_trusted", "train_without_noise"]


def train_without_noise(problems, pool, clients, point, settings, round=0) -> np.ndarray:
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
            sums = pool.gradient_sums(clients, point, queries[0].bound)
        else:
            sums = [query.total() for query in queries]
        moves = [exact_mean(query, total) for query, total in zip(queries, sums, strict=True)]
        ends = geometry.exp_coordinates(ends, -size * np.stack(moves))
    return np.asarray(ends)


def run_trusted(
    loop, problems, settings, noise_multiplier, update_clip, start, rng, callback=None, pool=None
):
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
    callback : callable, optional
    pool : PooledRecords, optional
        As for :func:`train_without_noise`.

    Returns
    -------
    ndarray
        The output point.
    """
    geometry, point, chosen = loop.geometry, start, start
    for t, row in enumerate(loop.schedule):
        with np.errstate(all="ignore"):
            ends = train_without_noise(problems, pool, row, point, settings, t)
        query = LogarithmQuery(geometry, point, update_clip, ends)
        move = noisy_sum(query, noise_multiplier, rng) / len(row)
        point = np.asarray(geometry.exp_coordinates(point, move))
        if loop.domain is not None:
            point = loop.domain.project(point)
        if loop.output == "last" or t == loop.pick:
            chosen = point
        if callback is not None:
            callback(t + 1, len(loop.schedule), point)
    return chosen
