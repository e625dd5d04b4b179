"""Simulated clients: small ones trained in one pass, whole ones behind a trusted aggregator."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._descent.queries import GradientQuery, LogarithmQuery
from skriemdp._descent.releases import exact_mean
from skriemdp._descent.trajectory import Trajectory
from skriemdp._mechanisms.budget import Steps
from skriemdp._mechanisms.noise import expect_integers
from skriemdp._mechanisms.sum import integer_total, mu_of
from skriemdp._mechanisms.units import Blocks, Units
from skriemdp._progress import counted
from skriemdp.federated._messages import LocalTask, LocalUpdate
from skriemdp.federated._training import LocalSettings

if TYPE_CHECKING:
    from skriemdp._descent.problem import Problem
    from skriemdp._mechanisms.bounded_sets import VectorSet
    from skriemdp.federated._agent import Agent
    from skriemdp.federated._loop import ServerLoop
    from skriemdp.federated._training import LocalSettings

# Largest number of records of clients that are computed in one batch, where calls cost more than
# arithmetic (benchmarks/federated.py --only engines).
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
    def worthwhile(problem: Problem, sizes: dict[int, int]) -> bool:
        """Whether clients with these numbers of records gain from being treated together."""
        return not problem.one_by_one and sum(sizes.values()) <= FEW_RECORDS * len(sizes)

    def totals(self, clients: Sequence, query: GradientQuery, steps: int) -> np.ndarray:
        """Exact sums of each client's gradients at the point of `query`, ``(c, dim)``."""

        def tiles() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for part in self._parts(clients):
                rows = [np.arange(*self._rows[client]) for client in clients[part]]
                owners = np.repeat(range(part.start, part.stop), list(map(len, rows)))
                indices = np.concatenate(rows)
                yield self.problem.gradient_coordinates(query.point, indices), owners

        bounded_set = query.bounded_set.by_party(len(clients))
        return integer_total(Units((Blocks(tiles),)), lambda *tile: tile, bounded_set, steps)

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
        point, problems = first.checked_point(task), [agent.problem for agent in agents]
        solver = first.solver(task)
        generators = [agent.stream(task) for agent in agents]
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
        path = Trajectory(self.pool.problem.geometry, point, solver.moves, rng=None)
        multiplier, clip = solver.noise_multiplier, solver.clip_norm
        queries = queries_at(point, problems, clip, clients, self.pool)
        for rng in generators:
            expect_integers(rng, solver.moves.n_steps * self.pool.problem.gradient_dim)
        steps = [Steps(solver.moves.n_steps) for _ in generators]
        for step in range(solver.moves.n_steps):
            if step:
                pairs = zip(problems, path.point, strict=True)
                queries = [GradientQuery(problem, point, clip) for problem, point in pairs]
            moves = [
                solver.sampler.noisy_mean(query, multiplier, paid, rng)
                for query, paid, rng in zip(queries, steps, generators, strict=True)
            ]
            path.advance(np.stack(moves))
        return np.asarray(path.result)


def queries_at(
    point: np.ndarray,
    problems: Sequence[Problem],
    clip_norm: float,
    clients: Sequence,
    pool: PooledRecords | None,
) -> list[GradientQuery]:
    """Each client's query at one point; with a pool, their sums are taken in one pass."""
    if pool is None:
        return [GradientQuery(problem, point, clip_norm) for problem in problems]
    whole = GradientQuery(pool.problem, point, clip_norm)
    totals = functools.cache(functools.partial(pool.totals, clients, whole))

    def query(place: int) -> GradientQuery:
        def add(units: Units, give: Any, bounded_set: VectorSet, steps: int) -> np.ndarray:
            return np.asarray(totals(steps)[place])

        return GradientQuery(problems[place], point, clip_norm, add)

    return [query(place) for place in range(len(problems))]


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
