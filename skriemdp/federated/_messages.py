"""Messages between server and clients: plain data, checked on arrival."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._validation import check_instance

if TYPE_CHECKING:
    from skriemdp.geometry._ball import GeodesicBall
    from skriemdp.geometry._base import Geometry

# Round numbers are below this: SQLite stores them as 64-bit integers.
_ROUNDS = 2**63


@dataclass(frozen=True, eq=False)
class LocalTask:
    """One client's work in one round.

    Attributes
    ----------
    fit_id : str
        Names the run, so that a client can recognise a release it has made already.
        A string of printable characters.
    round : int
        From 0 on.
    client : hashable
    point : ndarray
        The server's current point.
    """

    fit_id: str
    round: int
    client: Hashable
    point: np.ndarray


@dataclass(frozen=True, eq=False)
class LocalUpdate:
    """A client's answer: a point of the manifold, private on its own."""

    fit_id: str
    round: int
    client: Hashable
    point: np.ndarray


def check_release_name(fit_id: str) -> None:
    """Raise unless `fit_id` can name a run in a book of answers.

    A book finds a release again by the name of its run and its round, so both must have one
    spelling: SQLite holds every None for different, and has no place for NumPy's numbers.
    """
    if type(fit_id) is not str:
        raise PublicTypeError(f"fit_id must be a plain string, got {type(fit_id).__name__}.")
    if not fit_id or not fit_id.isprintable():
        raise PublicValueError("fit_id must be a string of printable characters, at least one.")


def check_round(round: int) -> None:
    """Raise unless `round` can number a release in a book of answers."""
    if type(round) is not int:
        raise PublicTypeError(
            f"round must be a plain int, got {type(round).__name__}; pass int(round)."
        )
    if not 0 <= round < _ROUNDS:
        raise PublicValueError(f"round must lie between 0 and {_ROUNDS - 1}.")


def is_within(domain: GeodesicBall, points: np.ndarray) -> bool | np.ndarray:
    """Whether each of `points` lies in the ball, or as far outside as rounding explains."""
    distances = np.asarray(domain.geometry.dist(domain.center, points))
    return distances <= domain.radius * (1.0 + 1e-6) + 1e-9


class RefusedUpdate(PublicValueError):
    """An upload that was not used; the message holds no number of it."""


def checked_updates(
    geometry: Geometry,
    tasks: list[LocalTask],
    updates: Iterable[tuple[Any, ...]],
    domain: GeodesicBall | None = None,
) -> tuple[list[LocalUpdate], list[RefusedUpdate]]:
    """Valid updates in the order of `tasks`, and why the others were refused.

    A client's identity comes from the transport, never from the payload.  Refused are answers that
    nobody asked for, second answers, wrong shapes or types, numbers that are not finite and points
    off the manifold.

    Parameters
    ----------
    geometry : Geometry
    tasks : list of LocalTask
    updates : iterable of (client, LocalUpdate)
        The client as the transport knows it.
    domain : GeodesicBall, optional
        Where honest clients stay; points outside are refused.

    Returns
    -------
    accepted : list of LocalUpdate
    refused : list of RefusedUpdate
    """
    points, refused = gathered(tasks, updates, functools.partial(read_floats, geometry.shape))
    usable = [task for task in tasks if task.client in points]
    accepted = []
    findings = _findings(geometry, [points[task.client] for task in usable], usable, domain)
    for task, finding in zip(usable, findings, strict=True):
        if finding:
            refused.append(RefusedUpdate(f"client {task.client!r} sent a point {finding}."))
        else:
            point = points[task.client]
            accepted.append(LocalUpdate(task.fit_id, task.round, task.client, point))
    return accepted, refused


def gathered(
    tasks: list[LocalTask],
    updates: Iterable[tuple[Any, ...]],
    read: Callable[[Hashable, Any], np.ndarray],
) -> tuple[dict[Hashable, np.ndarray], list[RefusedUpdate]]:
    """Collect the clients' accepted answers, and the reasons for which others were refused.

    ``read(client, sent)`` gives what is used of an answer, or raises :class:`RefusedUpdate`.
    """
    asked = {task.client: task for task in tasks}
    known: dict[Hashable, np.ndarray] = {}
    refused = []
    for client, update in updates:
        try:
            _check_answer(asked, known, client, update)
            known[client] = read(client, update.point)
        except RefusedUpdate as refusal:
            refused.append(refusal)
        except Exception:  # noqa: BLE001  an upload may be anything; none may stop the round
            refused.append(RefusedUpdate(f"client {client!r} sent something unreadable."))
    return known, refused


def _check_answer(
    requested: dict[Hashable, LocalTask],
    known: dict[Hashable, np.ndarray],
    client: Hashable,
    update: LocalUpdate | str | None,
) -> None:
    if client not in requested:
        raise RefusedUpdate(f"client {client!r} was not asked in this round.")
    if client in known:
        raise RefusedUpdate(f"client {client!r} answered twice.")
    task = requested[client]
    if update is None:
        raise RefusedUpdate(f"client {client!r} declined.")
    if not isinstance(update, LocalUpdate):
        raise RefusedUpdate(f"client {client!r} sent something else than an update.")
    if (update.client, update.fit_id, update.round) != (client, task.fit_id, task.round):
        raise RefusedUpdate(f"client {client!r} sent an answer to another question.")


def read_floats(shape: tuple[int, ...], client: Hashable, sent: Any) -> np.ndarray:
    """Finite floats of this shape, or a :class:`RefusedUpdate`."""
    if not isinstance(sent, np.ndarray) or sent.dtype.kind != "f":
        raise RefusedUpdate(f"client {client!r} did not send an array of floats.")
    if sent.shape != shape:
        raise RefusedUpdate(f"client {client!r} sent an array of the wrong shape.")
    sent = np.array(sent, dtype=float)
    if not np.isfinite(sent).all():
        raise RefusedUpdate(f"client {client!r} sent numbers that are not finite.")
    return sent


def _findings(
    geometry: Geometry,
    points: list[np.ndarray],
    tasks: list[LocalTask],
    domain: GeodesicBall | None,
) -> list[str]:
    """Describe what is wrong with each finite point; empty strings for valid ones."""
    if not points:
        return []
    try:
        with np.errstate(all="ignore"):
            return _judged(geometry, np.stack(points), tasks[0].point, domain)
    except Exception:  # noqa: BLE001  arithmetic gave up on one of them: find out which
        if len(points) == 1:
            return ["that cannot be used"]
        pairs = zip(points, tasks, strict=True)
        return [_findings(geometry, [point], [task], domain)[0] for point, task in pairs]


def _judged(
    geometry: Geometry, points: np.ndarray, start: np.ndarray, domain: GeodesicBall | None
) -> list[str]:
    findings = np.full(len(points), "off the manifold", dtype=object)
    on = np.flatnonzero(geometry.belongs(points))
    if not len(on):
        return findings.tolist()
    moves = geometry.log(start, points[on])
    lengths = np.asarray(geometry.norm(start, moves))
    # A point of the manifold so far out that the arithmetic of the mean would overflow.
    flat = moves.reshape(len(on), -1)
    near = np.isfinite(lengths) & np.isfinite(flat).all(axis=1)
    findings[on] = np.where(near, "", "too far away")
    if domain is not None:
        # Rounding of a projection onto the ball must not cost an honest client its update.
        outside = ~is_within(domain, points[on])
        findings[on[near & outside]] = "outside the public ball"
    return findings.tolist()


def checked_tasks(tasks: Iterable[LocalTask]) -> list[LocalTask]:
    """The tasks as a list; TypeError unless they are tasks."""
    tasks = list(tasks)
    for task in tasks:
        check_instance(LocalTask, "pass LocalTask(fit_id, round, client, point)", task=task)
    return tasks


def check_messages(messages: Any) -> None:
    """TypeError unless `messages` say what is sent to whom."""
    check_instance(Mapping, "pass a dict of bytes by client", messages=messages)
