"""Whole clients protected: a trusted aggregator adds the noise and hides who trained."""

from __future__ import annotations

import numpy as np

from skriemdp.solvers.problem import clipped_total

__all__ = ["run_trusted", "train_without_noise"]


def train_without_noise(problem, point, settings, round=0) -> np.ndarray:
    """Full-batch descent on a client's own records."""
    geometry = problem.geometry
    for _ in range(settings.n_steps):
        gradient = problem.clipped_sum(point, settings.clip_norm) / problem.n
        point = geometry.exp(point, -settings.step(round) * gradient)
    return np.asarray(point)


def run_trusted(loop, problems, settings, mechanism, update_clip, start, rng, callback=None):
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

    Returns
    -------
    ndarray
        The output point.
    """
    geometry, point, chosen = loop.geometry, start, start
    for t, row in enumerate(loop.schedule):
        ends = (train_without_noise(problems[client], point, settings, t) for client in row)
        # A client whose update is not finite counts as zero: it must not spoil the sum.
        total = sum(
            clipped_total(geometry, point, geometry.log(point, end)[None], update_clip)
            for end in ends
        )
        point = geometry.exp(point, mechanism.release(point, total / len(row), rng))
        if loop.domain is not None:
            point = loop.domain.project(point)
        if loop.output == "last" or t == loop.pick:
            chosen = point
        if callback is not None:
            callback(t + 1, len(loop.schedule), point)
    return chosen
