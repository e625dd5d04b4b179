"""The server's loop: send the point, gather private updates, average them on the manifold.

Answers may be lost, and nothing is asked twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import joblib
import numpy as np

from skriemdp._errors import PublicRuntimeError, PublicValueError
from skriemdp._progress import counted
from skriemdp._validation import (
    check_count,
    check_instance,
    check_jobs,
    check_methods,
    check_nonnegative,
    check_option,
)
from skriemdp.federated._attendance import reply
from skriemdp.federated._messages import (
    LocalTask,
    LocalUpdate,
    RefusedUpdate,
    check_messages,
    check_release_name,
    checked_tasks,
    checked_updates,
)
from skriemdp.ledger._accountant import BudgetError
from skriemdp.ledger._files import look, private_file, refuse_elsewhere, sync_folder

if TYPE_CHECKING:
    from skriemdp.federated._agent import Agent
    from skriemdp.geometry._base import Geometry

AGGREGATIONS = ("tangent-mean", "frechet")


def tangent_mean(
    geometry: Geometry, point: np.ndarray, updates: Sequence[np.ndarray], weights: Any
) -> np.ndarray:
    """``exp_x`` of the weighted mean of ``log_x`` of the updates (Huang et al. 2025, eq. 3.1)."""
    weights = np.asarray(weights, dtype=float) / np.sum(weights)
    velocity = np.tensordot(weights, geometry.log(point, np.stack(updates)), axes=(0, 0))
    return geometry.exp(point, velocity)


def _frechet(
    geometry: Geometry, point: np.ndarray, updates: Sequence[Any], weights: Any, n_steps: int = 20
) -> np.ndarray:
    for _ in range(n_steps):
        point = tangent_mean(geometry, point, updates, weights)
    return point


def check_transport(transport: Any, asking: str = "run") -> None:
    """TypeError unless clients can be asked through `transport`; a finished run needs none."""
    wanted = f"InProcessTransport(agents), or another object with a method {asking}"
    check_methods(wanted, asking, transport=transport)


def check_checkpoint(checkpoint: Any) -> None:
    """TypeError unless `checkpoint` is None or stores the progress of a run."""
    if checkpoint is not None:
        check_methods("Checkpoint(path), or None", "load", "save", checkpoint=checkpoint)


class Checkpoint:
    """Progress of a run, stored on disk: a restart continues with the next round.

    The round is written before its tasks go out, so a round that was interrupted is not asked
    again: clients may have released for it already.

    Parameters
    ----------
    path : str
        JSON file on a local disk, readable by its owner only.
    """

    def __init__(self, path: str | Path):
        self.path = os.fsdecode(path)

    @contextlib.contextmanager
    def locked(self, wait: float = 0.0) -> Iterator[Checkpoint]:
        """Keep other processes from running from this file; released when the process ends.

        Parameters
        ----------
        wait : float, default=0.0
            Seconds that another process has to end: a run may outlive the server that began it.

        Raises
        ------
        RuntimeError
            If one still runs: both would release for one charge.
        """
        check_nonnegative(wait=wait)
        lock = private_file(f"{self.path}.lock", "lock of the checkpoint")
        connection = sqlite3.connect(lock, timeout=wait, isolation_level=None)
        try:
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                raise PublicRuntimeError(
                    f"another run is using the checkpoint {self.path}."
                ) from error
            yield self
        finally:
            connection.close()

    def load(self, fit_id: str) -> dict | None:
        """The stored state of this run, None if there is none."""
        if not os.path.lexists(self.path):
            return None
        try:
            look(self.path, "checkpoint")
            with open(self.path, encoding="utf-8") as file:
                state = json.load(file)
            if state["fit_id"] != fit_id:
                return None
            for name in ("point", "chosen"):
                state[name] = np.array(state[name], dtype=float)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BudgetError(
                f"the checkpoint {self.path!r} cannot be read ({type(error).__name__}): without it "
                "rounds that were paid for would be asked again. Restore it, or pass another path "
                "(a new run, charged anew)."
            ) from error
        return state

    def save(self, state: dict) -> None:
        """Replace the stored state, atomically and durably."""
        check_instance(Mapping, "pass the state of a run", state=state)
        path = os.path.realpath(self.path)
        refuse_elsewhere(path)
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in state.items()}
        temporary = private_file(f"{path}.new", "checkpoint")
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(plain, file, default=repr)  # of clients, whose ids may be dates
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(os.path.dirname(path))


@dataclass(frozen=True)
class ServerLoop:
    """Settings of the server (Huang et al. 2025, Algorithm 1); it sees private updates only.

    Parameters
    ----------
    geometry : Geometry
    schedule : tuple of tuple
        Clients of each round, drawn in advance.
    weights : dict
        Client to its public number of records.
    aggregation : {"tangent-mean", "frechet"}
    output : {"last", "random"}
        The last point, or one of all rounds drawn uniformly (Options 1 and 2 of the paper).
    pick : int
        Round whose point is the output for "random".
    min_updates : int
        A round with fewer valid updates leaves the point where it is.
    domain : GeodesicBall, optional
        Points are projected on it; uploads from outside are refused.
    """

    geometry: Any
    schedule: tuple
    weights: dict
    aggregation: str = "tangent-mean"
    output: str = "last"
    pick: int = -1
    min_updates: int = 1
    domain: Any = None

    def __post_init__(self) -> None:
        check_option(AGGREGATIONS, aggregation=self.aggregation)
        check_option(("last", "random"), output=self.output)
        check_count(min_updates=self.min_updates)

    @property
    def fingerprint(self) -> str:
        """Digest of the public settings: a resumed run must have the same."""
        public = (self.schedule, sorted(self.weights.items(), key=repr), self.pick)
        rest = (str(self.geometry), self.aggregation, self.output, self.min_updates)
        return hashlib.blake2b(repr((public, rest)).encode(), digest_size=16).hexdigest()

    def run(
        self, transport: Transport, start: np.ndarray, fit_id: str, checkpoint: Any = None
    ) -> tuple[np.ndarray, list[RefusedUpdate]]:
        """All rounds; returns the output point and the refusals of all rounds.

        Partial rounds change the estimate and not the bill: everyone who was asked has paid.

        Parameters
        ----------
        transport : Transport
        start : ndarray
            Public.
        fit_id : str
        checkpoint : Checkpoint, optional
            A stored run with this `fit_id` is continued.

        Raises
        ------
        ValueError
            If the checkpoint holds a run of this name with other settings; nobody is asked.
        """
        state, refusals = self.opened(start, fit_id, checkpoint), []
        point, chosen = state["point"], state["chosen"]
        first = state["next_round"]
        for done in counted("rounds", len(self.schedule) - first):
            t = first + done
            # Written before anyone is asked: whoever may have released is not asked again.
            state |= {"next_round": t + 1, "point": point, "chosen": chosen}
            if checkpoint is not None:
                checkpoint.save(state)
            tasks = [LocalTask(fit_id, t, client, point) for client in self.schedule[t]]
            point, refused, answered = self._moved(point, tasks, transport)
            state["answered"][str(t)] = answered
            refusals.extend(refused)
            if self.output == "last" or t == self.pick:
                chosen = point
        if checkpoint is not None:
            checkpoint.save(state | {"point": point, "chosen": chosen})
        return chosen, refusals

    def opened(self, start: np.ndarray, fit_id: str, checkpoint: Any = None) -> dict:
        """The state from which `run` continues."""
        check_checkpoint(checkpoint)
        check_release_name(fit_id)
        start = np.asarray(start, dtype=float)
        state = None if checkpoint is None else checkpoint.load(fit_id)
        if state is None:
            fresh = {"fit_id": fit_id, "loop": self.fingerprint, "next_round": 0}
            fresh["answered"] = {}
            return fresh | {"point": start, "chosen": start}
        if state["loop"] != self.fingerprint:
            raise PublicValueError(
                f"the checkpoint holds a run {fit_id!r} with other settings; restore them, or pass "
                "another fit_id (a new run, charged anew)."
            )
        return state

    def _moved(
        self, point: np.ndarray, tasks: list[LocalTask], transport: Transport
    ) -> tuple[np.ndarray, list[RefusedUpdate], list[Hashable]]:
        """The next point, why uploads were refused, and whose were used."""
        check_transport(transport)
        answers = transport.run(tasks)
        updates, refused = checked_updates(self.geometry, tasks, answers, self.domain)
        if len(updates) < self.min_updates:
            return point, refused, []
        # In the order of the schedule, never of arrival: floating-point sums depend on it.
        points = [update.point for update in updates]
        clients = [update.client for update in updates]
        weights = [self.weights[client] for client in clients]
        combine = tangent_mean if self.aggregation == "tangent-mean" else _frechet
        with np.errstate(all="ignore"):
            moved = combine(self.geometry, point, points, weights)
            if self.domain is not None and np.isfinite(moved).all():
                moved = self.domain.project(moved)
            usable = np.isfinite(moved).all() and bool(self.geometry.belongs(moved))
        if not usable:
            refused.append(RefusedUpdate("the mean of a round was not a point; it was not used."))
            return point, refused, []
        return np.asarray(moved), refused, clients


class Transport(Protocol):
    """Transport of tasks to clients and of updates back, as the loop needs it."""

    def run(self, tasks: Sequence[LocalTask]) -> Iterable[tuple]:
        """Pairs (client, update), the client as the transport knows it; any order, maybe fewer."""


class InProcessTransport:
    """Clients on this machine: one after another, together where they are small, or in processes.

    Processes give the numbers of one after another, bit for bit when seeded.

    Parameters
    ----------
    agents : dict
        Client to :class:`skriemdp.federated.Agent`.
    together : ClientsTogether, optional
        Trains all clients of a round in one pass.  Its agents have no accountant and no book: the
        run was charged as a whole.
    n_jobs : int, optional
        Workers of joblib.  Its own backends run a task once; one that may run it again (dask, when
        a worker dies) needs agents with an `AnswerBook`, which refuses the second release.
    """

    def __init__(self, agents: Mapping[Any, Any], together: Any = None, n_jobs: int | None = None):
        check_jobs(n_jobs)
        self.agents, self.together, self.n_jobs = dict(agents), together, n_jobs

    def run(self, tasks: Sequence[LocalTask]) -> list[tuple]:
        tasks = checked_tasks(tasks)
        if self.together is not None:
            return [(update.client, update) for update in self.together.handle(tasks)]
        pairs = [(self.agents[task.client], task) for task in tasks]
        if self.n_jobs is None:
            answers = [_handle(*pair) for pair in pairs]
        else:
            call = joblib.delayed(_handle)
            answers = joblib.Parallel(n_jobs=self.n_jobs)(call(*pair) for pair in pairs)
        return [(task.client, answer) for task, answer in zip(tasks, answers, strict=True)]

    def relay(self, messages: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
        """Answers to the messages of a secure sum."""
        check_messages(messages)
        known = {name: data for name, data in messages.items() if name in self.agents}
        return [(name, reply(self.agents[name], data)) for name, data in known.items()]


def _handle(agent: Agent, task: LocalTask) -> LocalUpdate | None:
    # A client whose own limits forbid the release stays silent; the round goes on without it.
    try:
        return agent.handle(task)
    except BudgetError:
        return None
