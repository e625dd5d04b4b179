"""A client: owns its records, settings, limits and ledger; charges first, answers once."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import sqlite3
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._random import NoiseStreams
from skriemdp.core.manifold_input import check_walk_domain
from skriemdp.federated.messages import (
    LocalTask,
    LocalUpdate,
    check_release_name,
    check_round,
    is_within,
)
from skriemdp.federated.training import LocalSettings, local_solver, train
from skriemdp.ledger.accountant import BudgetError, PrivacyAccountant
from skriemdp.ledger.files import private_file

if TYPE_CHECKING:
    from sqlite3 import Connection


__all__ = ["Agent", "AnswerBook"]


class AnswerBook:
    """Durable memory of a client's releases: each is made once, and repeated word for word.

    A message that is delivered twice gets the stored answer and costs nothing; the same release
    asked from another point is refused, because it would be a second release.

    Parameters
    ----------
    path : str
        SQLite file on a local disk, made with its first entry, readable by its owner only.
    """

    def __init__(self, path: Path):
        self.path = os.fsdecode(path)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Connection]:
        path = private_file(self.path, "answer book")
        try:
            connection = sqlite3.connect(path, timeout=30.0, isolation_level=None)
            try:
                connection.execute("PRAGMA synchronous=EXTRA")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS answers (client TEXT, fit TEXT, round INTEGER,"
                    " point TEXT, answer TEXT, PRIMARY KEY (client, fit, round))"
                )
                yield connection
            finally:
                connection.close()
        except (sqlite3.Error, ValueError) as error:
            raise BudgetError(
                f"the answer book {path!r} cannot be used ({error}); restore it. Nothing was "
                "released."
            ) from error

    def begin(self, task: LocalTask) -> np.ndarray | None:
        """The stored answer, or None after reserving this release.

        Raises
        ------
        BudgetError
            If the release was begun from another point, or begun and never finished: its noise may
            be out, so it is not drawn again.
        """
        digest, release = _digest(task.point), _release(task)
        with self._opened() as connection:
            connection.execute("BEGIN IMMEDIATE")
            row = connection.execute(
                "SELECT point, answer FROM answers WHERE client = ? AND fit = ? AND round = ?",
                release,
            ).fetchone()
            if row is None:
                connection.execute(
                    "INSERT INTO answers VALUES (?, ?, ?, ?, NULL)", (*release, digest)
                )
            connection.execute("COMMIT")
            if row is None:
                return None
            if row[0] != digest:
                raise BudgetError("this release was already made from another point.")
            if row[1] is None:
                raise BudgetError("this release was begun and never finished; it is not repeated.")
            return np.array(json.loads(row[1]))

    def finish(self, task: LocalTask, answer: np.ndarray) -> None:
        """Store the answer before it leaves."""
        with self._opened() as connection:
            connection.execute(
                "UPDATE answers SET answer = ? WHERE client = ? AND fit = ? AND round = ?",
                (json.dumps(np.asarray(answer).tolist()), *_release(task)),
            )


def _release(task: LocalTask) -> tuple:
    check_release_name(task.fit_id)
    check_round(task.round)
    return repr(task.client), task.fit_id, task.round


def _digest(point: np.ndarray) -> str:
    point = np.ascontiguousarray(point, dtype=float)
    return hashlib.blake2b(repr(point.shape).encode() + point.tobytes()).hexdigest()


@dataclasses.dataclass(frozen=True, eq=False)
class Agent:
    """One client of a federation.

    Its noise and its limits are its own: what a server sends is a request.

    Parameters
    ----------
    client : hashable
    problem : Problem
        The client's records behind their public bounds.
    settings : LocalSettings
    noise_multiplier : float
    domain : GeodesicBall, optional
        Public ball.  The client's iterates stay in it, and a server's point outside is refused.
        Required on negatively curved manifolds, with a radius of at most 10 curvature radii: far
        out no float can hold what a client computes.
    accountant : PrivacyAccountant, optional
        Charged for every release, before it is computed; None when the run was charged as a whole
        (a simulation).  Outside one, give it a ceiling: it is what limits a server's requests.
    book : AnswerBook, optional
        Needed where an engine can deliver a message, or run a task, twice.
    random_state : int, optional
    context : bytes
        Enters the keys of seeded noise.
    shared : numpy.random.Generator, optional
        Noise of a simulation without a seed, from one stock for all its clients.  A deployed agent
        has its own.
    """

    client: Hashable
    problem: Any
    settings: LocalSettings
    noise_multiplier: float
    domain: Any = None
    accountant: PrivacyAccountant | None = None
    book: AnswerBook | None = None
    random_state: int | None = None
    context: bytes = b""
    shared: np.random.Generator | None = None

    def __post_init__(self) -> None:
        check_walk_domain(self.problem.geometry, self.domain)

    def handle(self, task: LocalTask) -> LocalUpdate:
        """Answer one task.

        Raises
        ------
        ValueError, TypeError
            If the task is for another client, names no release, or its point is not one of the
            manifold and of the domain; nothing is charged.
        BudgetError
            If the client's own ceiling, or its memory of earlier answers, forbids the release.
        """
        if task.client != self.client:
            raise ValueError("the task is for another client.")
        point = self.checked_point(task)
        # Under the agent's own spelling: 1, 1.0 and True are equal, and would be three releases.
        task = dataclasses.replace(task, client=self.client)
        if self.book is not None:
            stored = self.book.begin(task)
            if stored is not None:
                return LocalUpdate(task.fit_id, task.round, self.client, stored)
        solver = local_solver(
            self.settings, self.noise_multiplier, self.problem.n, self.domain, task.round
        )
        if self.accountant is not None:
            self.accountant.spend(
                solver.event(self.problem.n),
                label="federated round",
                params={
                    "fit": task.fit_id,
                    "round": task.round,
                    "seeded": self.random_state is not None,
                },
            )
        # A replayed release never comes here, so a stream is used once per client and round.
        answer = train(self.problem, point, solver, self.stream(task))
        if self.book is not None:
            self.book.finish(task, answer)
        return LocalUpdate(task.fit_id, task.round, self.client, answer)

    def checked_point(self, task: LocalTask) -> np.ndarray:
        """The server's point, if the task names a release and the point is one of the domain."""
        check_release_name(task.fit_id)
        check_round(task.round)
        geometry, point = self.problem.geometry, np.asarray(task.point, dtype=float)
        if point.shape != geometry.shape or not bool(np.all(geometry.belongs(point))):
            raise ValueError("the server's point is not a point of the manifold.")
        if self.domain is not None and not bool(is_within(self.domain, point)):
            raise ValueError("the server's point lies outside the agent's domain.")
        return geometry.canonical(point)

    def stream(self, task: LocalTask) -> np.random.Generator:
        """The noise of one release: of this client, this run and this round."""
        if self.shared is not None:
            return self.shared
        streams = NoiseStreams(self.random_state, self.context)
        fit_id = "" if streams.seeded else task.fit_id
        return streams("local", str(self.client), fit_id, task.round)
