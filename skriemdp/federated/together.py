"""Clients with few records each, trained in one pass: a simulation of many at the cost of few."""

from __future__ import annotations

import math

import numpy as np

from skriemdp.descent.queries import GradientQuery
from skriemdp.descent.sampling import full_batch_mean
from skriemdp.descent.trajectory import Trajectory
from skriemdp.federated.messages import LocalUpdate
from skriemdp.federated.training import LocalSettings, local_solver

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

    def gradient_sums(self, clients, point, bound):
        """Sum of each client's gradients at one point, offsets in `bound`, ``(c, dim)``."""
        sums = np.empty((len(clients), self.problem.gradient_dim))
        for part in self._parts(clients):
            rows = [self._rows[client] for client in clients[part]]
            starts = np.cumsum([0] + [end - begin for begin, end in rows[:-1]])
            indices = np.concatenate([np.arange(*row) for row in rows])
            vectors = np.asarray(self.problem.gradient_coordinates(point, indices))
            sums[part] = np.add.reduceat(bound.enforce(vectors), starts, axis=0)
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
        generators = [agent.stream(task) for agent in agents]
        problems = [agent.problem for agent in agents]
        ends = self._trained(clients, problems, point, solver, generators)
        return [
            LocalUpdate(task.fit_id, task.round, client, end)
            for client, end in zip(clients, ends, strict=True)
        ]

    def _trained(self, clients, problems, point, solver, generators):
        clip = solver.clip_norm
        path = Trajectory(self.pool.problem.geometry, point, solver.walk, rng=None)
        for step in range(solver.walk.n_steps):
            here = path.point
            points = [here] * len(clients) if step == 0 else here
            pairs = zip(problems, points, strict=True)
            queries = [GradientQuery(problem, point, clip) for problem, point in pairs]
            if step == 0:  # all are at the server's point
                sums = self.pool.gradient_sums(clients, here, queries[0].bound)
            else:
                sums = [query.total() for query in queries]
            moves = [
                full_batch_mean(query, total, solver.noise_multiplier, rng)
                for query, total, rng in zip(queries, sums, generators, strict=True)
            ]
            path.advance(np.stack(moves))
        return np.asarray(path.result)
