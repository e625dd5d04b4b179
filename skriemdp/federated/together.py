"""Clients with few records each, trained in one pass: a simulation of many at the cost of few."""

from __future__ import annotations

import math

import numpy as np

from skriemdp.descent.problem import clipped_vectors
from skriemdp.descent.queries import GradientQuery
from skriemdp.descent.trajectory import Trajectory
from skriemdp.federated.messages import LocalUpdate
from skriemdp.federated.training import LocalSettings, local_solver
from skriemdp.mechanisms.tangent import TangentGaussian

__all__ = ["Cohort", "PooledRecords"]

# Above it a client's own pass over its records costs more than the calls around it.
FEW_RECORDS = 256
_BLOCK_BYTES = 2**20


class PooledRecords:
    """Records of all clients in one problem, for sums of every client's gradients at one point.

    Parameters
    ----------
    problem : Problem
        Of all records, client after client.
    sizes : dict
        Client to its number of records, in that order.
    """

    def __init__(self, problem, sizes):
        self.problem = problem
        ends = np.cumsum(list(sizes.values())).tolist()
        self._rows = dict(zip(sizes, zip([0, *ends[:-1]], ends, strict=True), strict=True))

    @staticmethod
    def worthwhile(sizes) -> bool:
        """Whether clients with these numbers of records gain from being treated together."""
        return sum(sizes.values()) <= FEW_RECORDS * len(sizes)

    def gradient_sums(self, clients, point, clip_norm=math.inf):
        """Sum of clipped gradients of each client's records at one point, ``(c, *shape)``."""
        geometry = self.problem.geometry
        sums = np.empty((len(clients), *geometry.shape))
        for part in self._parts(clients):
            rows = [self._rows[client] for client in clients[part]]
            starts = np.cumsum([0] + [end - begin for begin, end in rows[:-1]])
            indices = np.concatenate([np.arange(*row) for row in rows])
            vectors = self.problem.gradients(point, indices)
            scale, vectors = clipped_vectors(geometry, point, vectors, clip_norm)
            vectors = scale.reshape(-1, *(1,) * geometry.point_ndim) * vectors
            sums[part] = np.add.reduceat(vectors, starts, axis=0)
        return sums

    def _parts(self, clients):
        """Runs of clients whose gradients fit in a block."""
        row = 8 * math.prod(self.problem.geometry.shape)
        begin, size = 0, 0
        for position, client in enumerate(clients):
            first, last = self._rows[client]
            size += row * (last - first)
            if size >= _BLOCK_BYTES:
                yield slice(begin, position + 1)
                begin, size = position + 1, 0
        if begin < len(clients):
            yield slice(begin, len(clients))


class Cohort:
    """Agents of one simulation, answered together.

    The answers are those of one agent after another, up to rounding: same formulas, and every agent
    draws its noise from its own stream.

    Parameters
    ----------
    agents : dict
        Client to :class:`skriemdp.federated.Agent`; all with the same settings, noise and domain.
    pool : PooledRecords
    """

    def __init__(self, agents, pool):
        self.agents, self.pool = dict(agents), pool

    @staticmethod
    def suits(settings: LocalSettings) -> bool:
        """Whether local training with these settings can be done together."""
        return settings.method == "rsgd" and settings.batch_fraction >= 1.0

    def handle(self, tasks) -> list[LocalUpdate]:
        """Answer tasks of one round, which share their point."""
        clients = [task.client for task in tasks]
        agents = [self.agents[client] for client in clients]
        first, task = agents[0], tasks[0]
        point = first.checked_point(task)
        solver = local_solver(
            first.settings, first.noise_multiplier, first.problem.n, first.domain, task.round
        )
        rng = _Streams([agent.stream(task) for agent in agents])
        problems = [agent.problem for agent in agents]
        ends = self._trained(clients, problems, point, solver, rng)
        return [
            LocalUpdate(task.fit_id, task.round, client, end)
            for client, end in zip(clients, ends, strict=True)
        ]

    def _trained(self, clients, problems, point, solver, rng):
        geometry, clip = self.pool.problem.geometry, solver.clip_norm
        path = Trajectory(geometry, point, solver.walk, rng=None)
        counts = np.array([problem.n for problem in problems], dtype=float)
        for step in range(solver.walk.n_steps):
            if step == 0:  # all are at the server's point
                sums = self.pool.gradient_sums(clients, path.point, clip)
                diameters = GradientQuery(self.pool.problem, path.point, clip).diameter()
                diameters = np.full(len(clients), diameters)
            else:
                pairs = zip(problems, path.point, strict=True)
                queries = [GradientQuery(problem, here, clip) for problem, here in pairs]
                sums = np.stack([query.total() for query in queries])
                diameters = np.array([query.diameter() for query in queries])
            means = sums / counts.reshape(-1, *(1,) * geometry.point_ndim)
            path.advance(_noisy(geometry, path.point, means, diameters / counts, solver, rng))
        return np.asarray(path.result)


def _noisy(geometry, points, means, sensitivities, solver, rng):
    """Each client's mean with noise for its own sensitivity, as the full batch releases it."""
    noisy = np.empty_like(means)
    for sensitivity in np.unique(sensitivities):
        rows = np.flatnonzero(sensitivities == sensitivity)
        mechanism = TangentGaussian(geometry, float(sensitivity), solver.noise_multiplier)
        here = points if points.ndim == geometry.point_ndim else points[rows]
        noisy[rows] = mechanism.release(here, means[rows], rng.of(rows))
    return noisy


class _Streams:
    """Many generators as one: row i of a draw comes from generator i."""

    def __init__(self, generators):
        self._generators = generators

    def of(self, rows):
        """Those of some clients."""
        return _Streams([self._generators[row] for row in rows])

    def standard_normal(self, shape):
        return np.stack([rng.standard_normal(shape[1:]) for rng in self._generators])
