"""A client: owns its records, settings, limits and ledger; charges first, answers once."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._core.arithmetic import INTEGERS
from skriemdp._core.charge import warn_seeded
from skriemdp._core.manifold_input import check_descent_domain
from skriemdp._descent.groups import GroupedProblem
from skriemdp._descent.problem import Problem
from skriemdp._descent.releases import check_run
from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.budget import Release
from skriemdp._mechanisms.sum import noised
from skriemdp._mechanisms.units import Units
from skriemdp._quiet import QuietQueries
from skriemdp._random import NoiseStreams
from skriemdp._validation import check_instance, check_option
from skriemdp.federated._messages import (
    LocalTask,
    LocalUpdate,
    check_release_name,
    check_round,
    checked_tasks,
    is_within,
)
from skriemdp.federated._shares import Shares, noted
from skriemdp.federated._training import LocalSettings, local_solver, train
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.ledger._accountant import BudgetError, PrivacyAccountant
from skriemdp.ledger._current import chosen_accountant
from skriemdp.ledger._files import private_file
from skriemdp.privacy._events import as_drawn

if TYPE_CHECKING:
    from sqlite3 import Connection

    from skriemdp._core.estimator import Plan
    from skriemdp.federated._agreement import Agreement
    from skriemdp.federated._attendance import Attempt, Attendance, Listed, Member
    from skriemdp.privacy._event import Event

# Who charges, in the ledger.
_SECURE_SUM = "secure sum"


class AnswerBook:
    """Durable memory of a client's releases: each is made once, and repeated word for word.

    A message that is delivered twice gets the stored answer and costs nothing; the same release
    asked from another point is refused, because it would be a second release.

    Parameters
    ----------
    path : str
        SQLite file on a local disk, made with its first entry, readable by its owner only.
    """

    # What each transaction finds.
    _OPENING: tuple[str, ...] = (
        "CREATE TABLE IF NOT EXISTS answers (client TEXT, fit TEXT, round INTEGER, point TEXT,"
        " answer TEXT, PRIMARY KEY (client, fit, round))",
    )

    def __init__(self, path: str | Path):
        self.path = os.fsdecode(path)

    @contextlib.contextmanager
    def _begun(self) -> Iterator[Connection]:
        """A transaction, which an exception, or the end of the process, takes back."""
        path = private_file(self.path, "answer book")
        try:
            opened = sqlite3.connect(path, timeout=30.0, isolation_level=None)
            opened.row_factory = sqlite3.Row
            with contextlib.closing(opened) as connection:
                for statement in ("PRAGMA synchronous=EXTRA", *self._OPENING, "BEGIN IMMEDIATE"):
                    connection.execute(statement)
                yield connection
                connection.execute("COMMIT")
        except (sqlite3.Error, json.JSONDecodeError) as error:
            raise BudgetError(
                f"the answer book {path!r} cannot be used ({error}); restore it. Nothing was "
                "released."
            ) from error

    def begin(self, task: LocalTask, charge: Callable[[], None]) -> np.ndarray | None:
        """The stored answer, or None after reserving this release and charging for it.

        A charge that is refused takes the reservation back.  After a crash between charge and end
        of the transaction the release may be asked for again and is charged twice: no noise was
        drawn for the first charge.

        Raises
        ------
        BudgetError
            If the release was begun from another point, or begun and never finished: its noise may
            be out, so it is not drawn again.
        """
        release, digest = _release(task), _digest(task.point)
        with self._begun() as connection:
            row = connection.execute(
                "SELECT point, answer FROM answers WHERE client = ? AND fit = ? AND round = ?",
                release,
            ).fetchone()
            if row is None:
                connection.execute(
                    "INSERT INTO answers VALUES (?, ?, ?, ?, NULL)", (*release, digest)
                )
                charge()
                return None
            if row[0] != digest:
                raise BudgetError("this release was already made from another point.")
            if row[1] is None:
                raise BudgetError("this release was begun and never finished; it is not repeated.")
            return np.array(json.loads(row[1]))

    def finish(self, task: LocalTask, answer: np.ndarray) -> None:
        """Store the answer before it leaves."""
        with self._begun() as connection:
            connection.execute(
                "UPDATE answers SET answer = ? WHERE client = ? AND fit = ? AND round = ?",
                (json.dumps(np.asarray(answer).tolist()), *_release(task)),
            )


def _release(task: LocalTask) -> tuple:
    checked_tasks([task])
    check_release_name(task.fit_id)
    check_round(task.round)
    return repr(task.client), task.fit_id, task.round


def _digest(point: np.ndarray) -> str:
    point = np.ascontiguousarray(point, dtype=float)
    return hashlib.blake2b(repr(point.shape).encode() + point.tobytes()).hexdigest()


def check_deployed(accountant: PrivacyAccountant) -> None:
    """ValueError unless a ledger limits a server that asks as often as it likes."""
    if not (math.isfinite(accountant.epsilon) and accountant.lasts):
        raise PublicValueError(
            "an agent that answers needs a ledger with a ceiling, in a file: PrivacyAccountant("
            "epsilon, path=...). One that ends with its process forgets what was spent."
        )


class _Client(QuietQueries):
    """Base of clients that answer a server's tasks: each is charged first and answered once."""

    if TYPE_CHECKING:  # what a subclass has
        client: Hashable
        accountant: PrivacyAccountant | None
        book: AnswerBook | None
        unit: str

        def checked_point(self, task: LocalTask) -> np.ndarray: ...
        def event(self, task: LocalTask) -> Event: ...
        def answer(self, task: LocalTask, point: np.ndarray) -> np.ndarray: ...
        def facts(self) -> dict[str, Any]: ...

    random_state: int | None = None

    def handle(self, task: LocalTask) -> LocalUpdate:
        """Answer one task.

        Raises
        ------
        ValueError, TypeError
            If the task is for another client, names no release, or its point is not what it should
            be; nothing is charged.
        BudgetError
            If the client's own ceiling, or its memory of earlier answers, forbids the release.
        """
        if task.client != self.client:
            raise PublicValueError("the task is for another client.")
        point = self.checked_point(task)
        # Under the client's own spelling: 1, 1.0 and True are equal, and would be three releases.
        task = dataclasses.replace(task, client=self.client)

        def charge() -> None:
            if self.accountant is not None:
                release = {"fit": task.fit_id, "round": task.round}
                self._spend(self.event(task), "federated round", release)

        if self.book is None:
            charge()
        elif (stored := self.book.begin(task, charge)) is not None:
            return LocalUpdate(task.fit_id, task.round, self.client, stored)
        answer = self.answer(task, point)
        if self.book is not None:
            self.book.finish(task, answer)
        return LocalUpdate(task.fit_id, task.round, self.client, answer)

    def _spend(self, event: Event, label: str, params: dict[str, Any], **facts: Any) -> None:
        """Charge the client's ledger with what has to be public, before any noise is drawn."""
        chosen_accountant(self.accountant).spend(
            as_drawn(event, self.random_state),
            label=label,
            params=params | {"unit": self.unit},
            facts=self.facts() | facts,
        )


@dataclass(frozen=True, eq=False)
class Agent(_Client):
    """One client of a federation.

    Its noise and its limits are its own: what a server sends is a request.

    Parameters
    ----------
    client : hashable
    problem : Problem
        The client's records behind their public bounds; a
        :class:`skriemdp._descent.groups.GroupedProblem` where people own several.
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
    unit : {"record", "group"}, default="record"
        Whom a release protects: "group" where each record of the problem stands for a person, as in
        a grouped problem, which says so by itself.
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
    unit: str = "record"

    def __post_init__(self) -> None:
        if self.accountant is not None and self.shared is not None:
            raise PublicValueError(
                "shared is the noise of a simulation; an agent with an accountant draws its own. "
                "Leave one of the two out."
            )
        if self.accountant is not None and self.random_state is not None:
            warn_seeded()
        check_instance(Problem, "pass a PerSampleProblem or another problem", problem=self.problem)
        check_instance(LocalSettings, "pass LocalSettings(...)", settings=self.settings)
        if self.domain is not None:
            check_instance(GeodesicBall, "pass a ball, or None", domain=self.domain)
        check_descent_domain(self.problem.geometry, self.domain)
        check_run((self.noise_multiplier,), self.problem.integers_of_a_step)
        check_option(("record", "group"), unit=self.unit)
        if isinstance(self.problem, GroupedProblem):
            object.__setattr__(self, "unit", "group")

    def stream(self, task: LocalTask) -> np.random.Generator:
        """The noise of one release: of this client, this run and this round."""
        if self.shared is not None:
            return self.shared
        # A replayed release never comes here, so a stream is used once per client and round.
        streams = NoiseStreams(self.random_state, self.context)
        fit_id = "" if streams.seeded else task.fit_id
        return streams("local", repr(self.client), fit_id, task.round)

    def event(self, task: LocalTask) -> Event:
        """Event of one answer, for a record."""
        return self.solver(task).event(self.problem.n)

    def facts(self) -> dict[str, Any]:
        """Return the numbers that must be public for the guarantee of an answer."""
        geometry, settings, n = self.problem.geometry, self.settings, self.problem.n
        known = {"n_groups" if self.unit == "group" else "n": n, "manifold": str(geometry)}
        known |= {"clip_norm": settings.clip_norm, "noise_multiplier": self.noise_multiplier}
        if self.domain is not None:
            known |= {"center": self.domain.center, "radius": self.domain.radius}
        return known | {
            "arithmetic": INTEGERS,
            "releases": (Release("gradients", 1.0, "gaussian", geometry.dim),),
        }

    def answer(self, task: LocalTask, point: np.ndarray) -> np.ndarray:
        """Train from the server's point on private records, and return the end point."""
        return train(self.problem, point, self.solver(task), self.stream(task))

    def solver(self, task: LocalTask) -> Any:
        """Return the solver for the round of a task."""
        return local_solver(
            self.settings,
            self.noise_multiplier,
            self.problem.n,
            self.problem.integers_of_a_step,
            self.domain,
            task.round,
        )

    def checked_point(self, task: LocalTask) -> np.ndarray:
        """The server's point, if the task names a release and the point is one of the domain."""
        check_release_name(task.fit_id)
        check_round(task.round)
        geometry, point = self.problem.geometry, np.asarray(task.point, dtype=float)
        if point.shape != geometry.shape or not bool(np.all(geometry.belongs(point))):
            raise PublicValueError("the server's point is not a point of the manifold.")
        if self.domain is not None and not bool(is_within(self.domain, point)):
            raise PublicValueError("the server's point lies outside the agent's domain.")
        return geometry.canonical(point)


@dataclass(frozen=True, eq=False)
class SumsAgent(_Client):
    """One client of a federation that adds up sums: it releases its own, with noise, once.

    Its records, its noise and its limits are its own.

    Parameters
    ----------
    client : hashable
    plan : Plan
        Public settings and what one release costs; :func:`skriemdp.federated.sums_agent` makes it.
    records : Units
        The client's.
    accountant, book
        As for :class:`Agent`.
    member : Member, optional
        Its part in secure sums: it then attends and adds, and answers nothing else.
    agreement : Agreement, optional
        What it adds for a coordinator that it trusts: it then answers with **exact** sums.
    """

    client: Hashable
    plan: Plan[Any]
    records: Units
    accountant: PrivacyAccountant
    book: AnswerBook | None
    member: Member | None = None
    agreement: Agreement | None = None

    def attend(self, attempt: Attempt) -> Attendance:
        """Take part in a secure sum; nothing is charged.

        Raises
        ------
        ValueError, TypeError
            The plan has no such attempt.
        BudgetError
            The ledger would not admit the charge, or the book forbids it.
        """
        member = self._of_cohort()
        chosen_accountant(self.accountant).check(self.plan.event)
        return member.attend(attempt, lambda: self._charged(attempt))

    def add(self, attempt: Attempt, entries: Sequence[Attendance]) -> np.ndarray:
        """The masked sum for one list of clients, as :meth:`Member.add`; charged first."""
        member, event = self._of_cohort(), self.plan.event

        def charge(listed: Listed) -> None:
            shares = Shares(len(listed.names), member.cohort.colluding)
            known = noted(shares, event, chosen_accountant(self.accountant).delta)
            release = self._release(attempt) | {"list": listed.digest.hex()} | known
            self._spend(event, _SECURE_SUM, release, clients=list(listed.names), **shares.stated)

        def noisy(honest: int) -> np.ndarray:
            with np.errstate(all="ignore"):  # a warning of overflow would tell of a record
                return noised(self.plan.settings.parts, self._exact(), NoiseStreams(), honest)

        return member.add(attempt, entries, lambda: self._charged(attempt), charge, noisy)

    def _exact(self) -> list[np.ndarray]:
        """The client's integers, of one type whatever its records are: all are below 2^62."""
        totals = self.plan.settings.exact(self.records)
        return [total.astype(np.int64) for total in totals]

    def _of_cohort(self) -> Member:
        if self.member is None:
            raise PublicValueError("this client is of no cohort; make its agent with cohort=.")
        return self.member

    def _release(self, attempt: Attempt) -> dict[str, Any]:
        """Return the fields by which the ledger identifies an attempt of a secure sum."""
        place = attempt.of(self._of_cohort().name)
        return dict(zip(("client", "fit", "round", "attempt"), place, strict=True))

    def _charged(self, attempt: Attempt) -> bool:
        """Whether the ledger holds this attempt."""
        return any(
            entry.label == _SECURE_SUM and self._release(attempt).items() <= entry.params.items()
            for entry in chosen_accountant(self.accountant).history
        )

    @property
    def unit(self) -> str:  # type: ignore[override]  # a field elsewhere
        """Whom a release protects."""
        return self.plan.unit

    def event(self, task: LocalTask) -> Event:
        """Event of one answer, for a record, or a person."""
        return self.plan.event

    def facts(self) -> dict[str, Any]:
        """Return the numbers that must be public for the guarantee of an answer."""
        return self.plan.stated

    def answer(self, task: LocalTask, point: np.ndarray) -> np.ndarray:
        """The client's sums: with noise, or exact integers for a coordinator that it trusts."""
        with np.errstate(all="ignore"):  # a warning of overflow would tell of a record
            if self.agreement is not None:
                return np.concatenate(self._exact())
            return np.asarray(self.plan.settings.noisy(self.records, NoiseStreams()))

    def checked_point(self, task: LocalTask) -> np.ndarray:
        """Check that server and client mean the same statistic, and return the query as sent.

        A query of sums consists of zeros, one for each sum; a coordinator sends the digest of the
        common settings.
        """
        if self.member is not None:
            raise PublicValueError("this client adds up with its cohort; ask it to attend.")
        check_release_name(task.fit_id)
        check_round(task.round)
        if self.agreement is not None:
            if not np.array_equal(np.asarray(task.point), self.agreement.question):
                raise PublicValueError("the coordinator means other sums, or has other settings.")
            return self.agreement.question
        point = np.asarray(task.point, dtype=float)
        if point.shape != (self.plan.settings.size,) or point.any():
            raise PublicValueError(
                "sums are asked for with as many zeros; the server means others."
            )
        return point
