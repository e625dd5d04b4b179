"""Whole clients protected: a trusted aggregator adds the noise and hides who trained."""

from __future__ import annotations

import numpy as np

from skriemdp.descent.problem import clipped_total

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
    counts = np.reshape([problems[c].n for c in clients], (-1, *(1,) * geometry.point_ndim))
    ends = np.broadcast_to(point, (len(clients), *geometry.shape))
    for step in range(settings.n_steps):
        if pool is not None and step == 0:
            sums = pool.gradient_sums(clients, point, clip)
        else:
            pairs = zip(clients, ends, strict=True)
            sums = np.stack([problems[client].clipped_sum(end, clip) for client, end in pairs])
        ends = geometry.exp(ends, -size * sums / counts)
    return np.asarray(ends)


def run_trusted(
    loop, problems, settings, mechanism, update_clip, start, rng, callback=None, pool=None
):
    """All rounds of `loop`, each one noisy mean of clipped tangent updates.

    Parameters
    ----------
    loop : ServerLoop
    problems : dict
        Client to its problem.
    settings : LocalSettings
    mechanism : TangentGaussian
        Of sensitivity ``2 update_clip / clients_per_round``.
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
            updates = geometry.log(point, ends)
        # A client whose update is not finite counts as zero: it must not spoil the sum.
        total = clipped_total(geometry, point, updates, update_clip)
        point = geometry.exp(point, mechanism.release(point, total / len(row), rng))
        if loop.domain is not None:
            point = loop.domain.project(point)
        if loop.output == "last" or t == loop.pick:
            chosen = point
        if callback is not None:
            callback(t + 1, len(loop.schedule), point)
    return chosen
