"""PriRFed between organisations, on Flower: clients' nodes, the server's transport, a budget.

The only module that imports Flower (extra ``flower``).  Importing it switches Flower's telemetry
and update checks off in this process; set the same variables for Flower's own commands
(docs/user_guide/federated.md).
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skriemdp._errors import PublicImportError, PublicValueError

if TYPE_CHECKING:
    from flwr.app.message.recorddict import RecordDict

    from skriemdp.federated._agent import Agent


os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

try:
    from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import (
        GaussianPrivacyEvent,
        NeighboringRelation,
        PrivacyConfig,
        PrivacySpent,
        SamplingMethod,
        ServerApp,
    )
except ImportError as error:
    raise PublicImportError(
        "federated deployment needs Flower: pip install 'skriemdp[flower]'."
    ) from error

from dataclasses import dataclass

import numpy as np

from skriemdp._validation import (
    check_count,
    check_instance,
    check_methods,
    check_option,
    check_positive,
    shown,
)
from skriemdp.federated._agent import check_deployed
from skriemdp.federated._local_agent import ask
from skriemdp.federated._loop import Checkpoint
from skriemdp.federated._messages import LocalTask, LocalUpdate, check_messages, checked_tasks
from skriemdp.federated._round_releases import RoundBudget
from skriemdp.ledger._accountant import BudgetError, PrivacyAccountant
from skriemdp.privacy._events import Event
from skriemdp.privacy._foreign import noisy_sums

__all__ = [
    "Deployment",
    "FlowerAccountant",
    "GridTransport",
    "make_client_app",
    "make_relay_app",
    "make_server_app",
]

# All that a server ever hears from a client besides points.
DECLINED, FAILED = "declined", "failed"


def make_client_app(build_agent: Callable[[dict], Any]) -> Any:
    """Flower's client application around an agent that owns its data, settings and limits.

    Parameters
    ----------
    build_agent : callable
        ``build_agent(node_config)`` gives this node's :class:`skriemdp.federated.Agent` from the
        node's *own* configuration (``flower-supernode --node-config``), never from the server's.
        It runs anew for every message, in a new process, so the agent needs a durable accountant
        with a ceiling, and an :class:`skriemdp.federated.AnswerBook`; without them it declines.

    Returns
    -------
    flwr.clientapp.ClientApp
    """
    return _client_app(functools.partial(_answer, build_agent))


def make_relay_app() -> Any:
    """Flower's client application that hands messages on to an agent, and its answers back.

    The agent runs in a process of its own (:class:`skriemdp.federated.LocalAgent`), on the port
    that the node's own configuration names: ``--node-config 'agent-port=8765'``.  So the code that
    a server sends sees what the network sees.

    Returns
    -------
    flwr.clientapp.ClientApp
    """
    return _client_app(_relayed)


def _client_app(answer: Callable[[Any, dict], RecordDict]) -> Any:
    app = ClientApp()

    @app.train()
    def train(message: Any, context: Any) -> Any:
        return Message(answer(message, dict(context.node_config)), reply_to=message)

    return app


def _status(text: str) -> RecordDict:
    return RecordDict({"status": ConfigRecord({"text": text})})


def _made(point: np.ndarray, fit_id: str, number: int) -> RecordDict:
    """A point with the release that it belongs to; a task and an update alike."""
    release = ConfigRecord({"fit": fit_id, "round": number})
    return RecordDict({"point": ArrayRecord([np.asarray(point)]), "release": release})


def _relayed(message: Any, node_config: dict[str, Any]) -> RecordDict:
    try:
        data = bytes(message.content["message"]["bytes"])
        answer = ask(int(node_config["agent-port"]), data)
    except Exception:  # noqa: BLE001  the text of an error may quote records
        return _status(FAILED)
    return RecordDict({"message": ConfigRecord({"bytes": answer})})


def _answer(
    build_agent: Callable[[dict], Any], message: Any, node_config: dict[str, Any]
) -> RecordDict:
    # Exceptions are caught here because Flower sends their text, and with it perhaps a record's
    # value, to the server.
    try:
        agent = build_agent(node_config)
        _check_agent(agent)
        release = message.content["release"]
        (point,) = message.content["point"].to_numpy_ndarrays()
        task = LocalTask(str(release["fit"]), int(release["round"]), agent.client, point)
        update = agent.handle(task)
        return _made(update.point, update.fit_id, update.round)
    except BudgetError:
        return _status(DECLINED)
    except Exception:  # noqa: BLE001
        return _status(FAILED)


def _check_agent(agent: Agent) -> None:
    if agent.book is None or agent.accountant is None:
        raise BudgetError("a deployed agent needs an accountant and a book of answers.")
    try:
        check_deployed(agent.accountant)
    except ValueError as error:
        raise BudgetError(str(error)) from None


class GridTransport:
    """The server's side of Flower: pushes tasks to nodes, takes what comes back in time.

    Nothing is asked twice.  A client is known by its registered node, not by what it says.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
    nodes : dict
        Client to the node id that Flower gave when its key was registered.
    timeout : float, default=60.0
        Seconds that a round waits; later answers are lost (and paid for).
    grace : float, default=inf
        Seconds that it waits for the others once somebody has answered, so that a client that is
        gone does not cost every round its full timeout.
    poll : float, default=0.2
        Seconds between looks at the inbox.
    """

    def __init__(
        self,
        grid: Any,
        nodes: dict[Any, int],
        timeout: float = 60.0,
        grace: float = math.inf,
        poll: float = 0.2,
    ):
        check_instance(Mapping, "pass a dict of node ids by client", nodes=nodes)
        check_positive(timeout=timeout, poll=poll)
        check_positive(allow_inf=True, grace=grace)
        self.grid, self.nodes = grid, {client: int(node) for client, node in nodes.items()}
        self.timeout, self.grace, self.poll = timeout, grace, poll

    def wait_for_nodes(self, seconds: float) -> set:
        """Wait until all clients are connected, at most so long; returns those that are."""
        check_methods("Flower's grid", "get_node_ids", grid=self.grid)
        deadline = time.monotonic() + seconds
        while True:
            online = set(self.grid.get_node_ids())
            connected = {client for client, node in self.nodes.items() if node in online}
            if len(connected) == len(self.nodes) or time.monotonic() >= deadline:
                return connected
            time.sleep(self.poll)

    def run(self, tasks: Iterable[LocalTask]) -> Iterator[tuple[Any, ...]]:
        """Pairs (client, update); clients that do not answer in time are missing."""
        tasks = checked_tasks(tasks)
        for task, reply in self._replies({task: self._message(task) for task in tasks}):
            yield task.client, self._update(task, reply)

    def relay(self, messages: Mapping[str, bytes]) -> Iterator[tuple[str, Any]]:
        """Pairs (client, answer) of a secure sum; clients run :func:`make_relay_app`."""
        check_messages(messages)
        asked = {
            client: self._to(client, RecordDict({"message": ConfigRecord({"bytes": data})}), "")
            for client, data in messages.items()
            if client in self.nodes
        }
        for client, reply in self._replies(asked):
            if reply.metadata.src_node_id != self.nodes[client]:
                continue
            try:
                yield client, bytes(reply.content["message"]["bytes"])
            except Exception:  # noqa: BLE001  a hostile answer must not stop the round
                yield client, b""

    def _replies(self, messages: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
        """Yield each task with its reply, as replies arrive."""
        check_methods("Flower's grid", "push_messages", "pull_messages", grid=self.grid)
        ids = list(self.grid.push_messages(list(messages.values())))
        # An id is empty where a message was not accepted.
        waiting = {i: task for i, task in zip(ids, messages, strict=True) if i}
        deadline = time.monotonic() + self.timeout
        while waiting and time.monotonic() < deadline:
            for reply in self.grid.pull_messages(list(waiting)):
                task = waiting.pop(reply.metadata.reply_to_message_id, None)
                if task is not None and not reply.has_error():
                    deadline = min(deadline, time.monotonic() + self.grace)
                    yield task, reply
            if waiting:
                time.sleep(self.poll)

    def _message(self, task: Any) -> Any:
        content = _made(task.point, task.fit_id, task.round)
        return self._to(task.client, content, str(task.round))

    def _to(self, client: Any, content: Any, group: str) -> Any:
        return Message(content, self.nodes[client], "train", ttl=self.timeout, group_id=group)

    def _update(self, task: LocalTask, reply: Any) -> LocalUpdate | str | None:
        try:
            if reply.metadata.src_node_id != self.nodes[task.client]:
                return FAILED
            if "status" in reply.content:
                return None if reply.content["status"]["text"] == DECLINED else FAILED
            (point,) = reply.content["point"].to_numpy_ndarrays()
            release = reply.content["release"]
            return LocalUpdate(release["fit"], release["round"], task.client, point)
        except Exception:  # noqa: BLE001  a hostile upload must not stop the round
            return FAILED


@dataclass(frozen=True)
class Deployment:
    """Settings with which a server runs a federation.

    Parameters
    ----------
    loop : ServerLoop, SumsLoop, AggregatorLoop or CohortLoop
    nodes : dict
        Client to its registered node id.
    start : ndarray
        Public.
    fit_id : str
        A restarted server with the same name continues from the checkpoint.
    checkpoint : str
        File; holds the result in the end.
    round_timeout : float, default=60.0
    round_grace : float, default=inf
        As `timeout` and `grace` of :class:`GridTransport`.
    wait_for_nodes : float, default=60.0
        Seconds to wait for all clients before the first round, and before that for a run of a
        lost server to let go of the checkpoint.
    """

    loop: Any
    nodes: dict
    start: Any
    fit_id: str
    checkpoint: str | Path
    round_timeout: float = 60.0
    round_grace: float = math.inf
    wait_for_nodes: float = 60.0

    def run(self, grid: Any) -> Any:
        """All rounds that the checkpoint does not hold yet; returns the point and the refusals."""
        transport = GridTransport(grid, self.nodes, self.round_timeout, self.round_grace)
        transport.wait_for_nodes(self.wait_for_nodes)
        with Checkpoint(self.checkpoint).locked(self.wait_for_nodes) as checkpoint:
            return self.loop.run(transport, self.start, self.fit_id, checkpoint)


def make_server_app(build_deployment: Callable[[dict], Deployment]) -> Any:
    """Flower's server application.

    Parameters
    ----------
    build_deployment : callable
        ``build_deployment(run_config)`` gives the :class:`Deployment`.

    Returns
    -------
    flwr.serverapp.ServerApp
    """
    app = ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        _, refusals = build_deployment(dict(context.run_config)).run(grid)
        for refusal in refusals:
            print(f"[skriemdp] {refusal}", flush=True)

    return app


_SAMPLING = {
    SamplingMethod.NO_AMPLIFICATION: NeighboringRelation.ADD_OR_REMOVE_ONE,
    SamplingMethod.POISSON: NeighboringRelation.ADD_OR_REMOVE_ONE,
    SamplingMethod.WITHOUT_REPLACEMENT: NeighboringRelation.REPLACE_ONE,
}
# Who charges, in the ledger.
_LABEL = "Flower round"


class FlowerAccountant:
    """Flower's ``PrivacyAccountant`` on a ledger that lasts, charged before a round begins.

    Flower asks :meth:`would_exceed` before it sends a round's messages, and calls :meth:`compose`
    after its noise.  Here the question is the charge: "no" is answered after the round is written
    to the ledger, and :meth:`compose` confirms it.  A round that failed before any noise leaves its
    charge to the next one; what a crash leaves is spent.

    Parameters
    ----------
    budget : PrivacyAccountant
        With a ceiling and delta > 0; its unit may be "client".
    population_size : int
        Number of clients to sample from, public and the same in every round.
    sampling : {"no-amplification", "poisson", "without-replacement"}
        How clients are drawn.  Flower's strategies with fixed clipping take the first only.

    Raises
    ------
    ValueError
        The budget has no ceiling (Flower would ask nothing before a round), or delta=0.

    Notes
    -----
    *Guarantee*: everything charged to the budget, under the replacement of one client; this covers
    a client added or removed.  Flower's noise multiplier is over the norm of one update, so a
    replaced client moves the sum twice as far.  True as far as Flower's noise is what it says: it
    is drawn in floats from numpy's generator.

    Examples
    --------
    >>> from skriemdp import PrivacyAccountant
    >>> from skriemdp.federated import FlowerAccountant
    >>> from flwr.serverapp import GaussianPrivacyEvent
    >>> accountant = FlowerAccountant(PrivacyAccountant(3.0, unit="client"), population_size=10)
    >>> round_ = GaussianPrivacyEvent(noise_multiplier=10.0, sample_size=10, population_size=10)
    >>> accountant.would_exceed(round_)
    False
    >>> accountant.compose(round_)
    >>> round(accountant.get_epsilon(1e-5), 3)
    0.726
    """

    def __init__(
        self, budget: PrivacyAccountant, population_size: int, sampling: str = "no-amplification"
    ):
        self.rounds = RoundBudget(budget, _LABEL, "Flower")
        check_count(population_size=population_size)
        check_option([method.value for method in _SAMPLING], sampling=sampling)
        method = SamplingMethod(sampling)
        self.budget = budget
        self.config = PrivacyConfig(
            budget.delta, population_size, _SAMPLING[method], method, budget.epsilon
        )

    def _event(self, event: GaussianPrivacyEvent, count: int) -> Event:
        check_instance(GaussianPrivacyEvent, "pass the event that Flower hands over", event=event)
        check_count(count=count)
        if event.population_size != self.config.population_size:
            raise PublicValueError(
                f"the event is of {event.population_size} clients and the accountant of "
                f"{self.config.population_size}; the population must stay the same."
            )
        size, population = event.sample_size, event.population_size
        method = self.config.sampling_method
        return noisy_sums(
            event.noise_multiplier,
            count,
            probability=size / population if method is SamplingMethod.POISSON else None,
            sizes=(population, size) if method is SamplingMethod.WITHOUT_REPLACEMENT else None,
        )

    def _round(self, event: GaussianPrivacyEvent, count: int) -> tuple[Any, Any, int, dict]:
        """The round, what so many of it cost, their number and the facts for the ledger."""
        self._event(event, count)  # a bad one must raise, charged or not
        sampling = {"sampling": self.config.sampling_method.value}
        facts = dataclasses.asdict(event) | sampling
        return event, functools.partial(self._event, event), count, facts

    @property
    def num_releases(self) -> int:
        """Rounds charged to the budget by any process, but for those this one may still confirm."""
        return self.rounds.confirmed

    def would_exceed(
        self, event: GaussianPrivacyEvent, max_epsilon: float | None = None, count: int = 1
    ) -> bool:
        """Charge the rounds that this asks for; True, and nothing charged, where there is no room.

        Rounds that were charged before and never confirmed are not charged again.

        Parameters
        ----------
        event : flwr.serverapp.GaussianPrivacyEvent
        max_epsilon : float, optional
            A limit below the budget's ceiling, for the total of all charges with this one.
        count : int, default=1
        """
        return self.rounds.would_exceed(*self._round(event, count), max_epsilon)

    def compose(self, event: GaussianPrivacyEvent, count: int = 1) -> None:
        """Confirm charged rounds; those that were not charged are charged now.

        Raises
        ------
        BudgetExceededError
            There was no charge, and the ceiling would be passed: the rounds must not be released.
        """
        self.rounds.confirm(*self._round(event, count))

    def get_epsilon(self, delta: float) -> float:
        """Epsilon at `delta` of everything charged to the budget."""
        return self.rounds.total().epsilon(delta)

    def get_delta(self, epsilon: float) -> float:
        """Delta at `epsilon` of everything charged to the budget."""
        return self.rounds.total().delta(epsilon)

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """Privacy that was charged, at `delta` or the budget's own."""
        delta = self.budget.delta if delta is None else delta
        return PrivacySpent(self.get_epsilon(delta), delta, self.num_releases, "skriemdp")

    def state_dict(self) -> dict[str, object]:
        """Return the data set's name and last ledger entry; the ledger keeps the state itself."""
        return {"dataset": self.budget.name, "head": self.budget.head}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Check that the ledger holds what `state` had seen; there is nothing else to restore.

        Raises
        ------
        BudgetError
            The file is another one, or an older copy.
        """
        check_instance(Mapping, "pass what state_dict() returned", state=state)
        if state.get("dataset") != self.budget.name:
            raise BudgetError(
                f"the state is of data set {shown(state.get('dataset'))}, and the budget is of "
                f"{self.budget.name!r}; open the ledger that the state was made with."
            )
        self.budget.verify(str(state.get("head")))
