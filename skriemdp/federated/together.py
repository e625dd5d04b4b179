"""Clients with few records each, trained in one pass: a simulation of many at the cost of few."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp.descent.queries import GradientQuery
from skriemdp.descent.releases import exact_sums, full_batch_integer_mean, full_batch_mean
from skriemdp.descent.stochastic import RiemannianSGD
from skriemdp.descent.trajectory import Trajectory
from skriemdp.federated.messages import LocalTask, LocalUpdate
from skriemdp.federated.training import LocalSettings, local_solver
from skriemdp.mechanisms.integers import IntegerBall
from skriemdp.mechanisms.noise import expect_integers
from skriemdp.mechanisms.sums import integer_sums, integer_total

if TYPE_CHECKING:
    from skriemdp.descent.problem import Problem
    from skriemdp.federated.agent import Agent
    from skriemdp.mechanisms.bounds import Bound


__all__ = ["ClientsTogether", "PooledRecords"]

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

    def __init__(self, problem: Problem, sizes: dict[int, int]):
        self.problem = problem
        ends = np.cumsum(list(sizes.values())).tolist()
        self._rows = dict(zip(sizes, zip([0, *ends[:-1]], ends, strict=True), strict=True))

    @staticmethod
    def worthwhile(sizes: dict[int, int]) -> bool:
        """Whether clients with these numbers of records gain from being treated together."""
        return sum(sizes.values()) <= FEW_RECORDS * len(sizes)

    def gradient_sums(self, clients: Sequence[Any], point: np.ndarray, bound: Bound) -> np.ndarray:
        """Sum of each client's gradients at one point, offsets in `bound`, ``(c, dim)``."""
        sums = np.empty((len(clients), self.problem.gradient_dim))
        for part in self._parts(clients):
            indices, starts = self._gathered(clients[part])
            vectors = np.asarray(self.problem.gradient_coordinates(point, indices))
            sums[part] = np.add.reduceat(bound.enforce(vectors), starts, axis=0)
        return sums

    def integer_sums(
        self, clients: Sequence, point: np.ndarray, lattice: IntegerBall
    ) -> list[np.ndarray]:
        """The same in exact integers: Python integers of shape ``(dim,)`` for each client."""
        sums: list[np.ndarray] = []
        for part in self._parts(clients):
            indices, starts = self._gathered(clients[part])
            rows = np.asarray(self.problem.gradient_coordinates(point, indices))
            sums += list(integer_sums(lattice, rows, starts))
        return sums

    def _gathered(self, clients: Sequence) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the records of some clients, and where each client's begin."""
        rows = [self._rows[client] for client in clients]
        starts = np.cumsum([0] + [end - begin for begin, end in rows[:-1]])
        return np.concatenate([np.arange(*row) for row in rows]), starts

    def _parts(self, clients: Sequence[Any]) -> Iterator[slice]:
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


class ClientsTogether:
    """Agents of one simulation, answered together.

    The answers are those of one agent after another, up to rounding: same formulas, and every agent
    draws its noise from its own stream.

    Parameters
    ----------
    agents : dict
        Client to :class:`skriemdp.federated.Agent`; all with the same settings, noise and domain.
    pool : PooledRecords
    """

    def __init__(self, agents: Mapping[Any, Agent], pool: PooledRecords):
        self.agents, self.pool = dict(agents), pool

    @staticmethod
    def suits(settings: LocalSettings) -> bool:
        """Whether local training with these settings can be done together."""
        return settings.method == "rsgd" and settings.batch_fraction >= 1.0

    def handle(self, tasks: Sequence[LocalTask]) -> list[LocalUpdate]:
        """Answer tasks of one round, which share their point."""
        clients = [task.client for task in tasks]
        agents = [self.agents[client] for client in clients]
        first, task = agents[0], tasks[0]
        point = first.checked_point(task)
        solver = local_solver(
            first.settings, first.noise_multiplier, first.problem.n, first.domain, task.round
        )
        generators = [agent.stream(task) for agent, task in zip(agents, tasks, strict=True)]
        if exact_sums(solver.sampler):
            for rng in generators:
                expect_integers(rng, solver.moves.n_steps * self.pool.problem.gradient_dim)
        problems = [agent.problem for agent in agents]
        ends = self._trained(clients, problems, point, solver, generators)
        return [
            LocalUpdate(task.fit_id, task.round, client, end)
            for client, end in zip(clients, ends, strict=True)
        ]

    def _trained(
        self,
        clients: list[Any],
        problems: list[Problem],
        point: np.ndarray,
        solver: Any,
        generators: list[np.random.Generator],
    ) -> np.ndarray:
        clip = solver.clip_norm
        path = Trajectory(self.pool.problem.geometry, point, solver.moves, rng=None)
        for step in range(solver.moves.n_steps):
            here = path.point
            points = [here] * len(clients) if step == 0 else here
            pairs = zip(problems, points, strict=True)
            queries = [GradientQuery(problem, point, clip) for problem, point in pairs]
            sums = self._sums(clients, here, queries, solver, together=step == 0)
            noisy_mean = full_batch_integer_mean if exact_sums(solver.sampler) else full_batch_mean
            moves = [
                noisy_mean(query, total, solver.noise_multiplier, rng)
                for query, total, rng in zip(queries, sums, generators, strict=True)
            ]
            path.advance(np.stack(moves))
        return np.asarray(path.result)

    def _sums(
        self,
        clients: Sequence,
        point: np.ndarray,
        queries: list[GradientQuery],
        solver: RiemannianSGD,
        together: bool,
    ) -> Any:
        """Sums of gradients, in integers or floats; `together` if all clients are at `point`."""
        if not exact_sums(solver.sampler):
            if together:
                return self.pool.gradient_sums(clients, point, queries[0].bound)
            return [query.total() for query in queries]

        def lattice(query: GradientQuery) -> IntegerBall:
            return IntegerBall(query.bound, query.dim, solver.noise_multiplier)

        if together:
            return self.pool.integer_sums(clients, point, lattice(queries[0]))
        return [integer_total(query, lattice(query)).value() for query in queries]
