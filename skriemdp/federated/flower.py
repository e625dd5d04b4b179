"""PriRFed between organisations, on Flower: clients' nodes, and the server's transport.

The only module that imports Flower (extra ``flower``).  Importing it switches Flower's telemetry
and update checks off in this process; set the same variables for Flower's own commands
(docs/user_guide/federated.md).
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flwr.app.message.recorddict import RecordDict

    from skriemdp.federated.agent import Agent


os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

try:
    from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
except ImportError as error:
    raise ImportError(
        "federated deployment needs Flower: pip install 'skriemdp[flower]'."
    ) from error

import numpy as np

from skriemdp._validation import check_positive
from skriemdp.federated.loop import Checkpoint, ServerLoop
from skriemdp.federated.messages import LocalTask, LocalUpdate
from skriemdp.ledger.accountant import BudgetError

__all__ = ["Deployment", "GridTransport", "make_client_app", "make_server_app"]

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
    app = ClientApp()

    @app.train()
    def train(message: Any, context: Any) -> Any:
        return Message(_answer(build_agent, message, dict(context.node_config)), reply_to=message)

    return app


def _answer(
    build_agent: Callable[..., Any], message: Any, node_config: dict[str, Any]
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
        return RecordDict(
            {
                "point": ArrayRecord([np.asarray(update.point)]),
                "release": ConfigRecord({"fit": update.fit_id, "round": update.round}),
            }
        )
    except BudgetError:
        return RecordDict({"status": ConfigRecord({"text": DECLINED})})
    except Exception:  # noqa: BLE001
        return RecordDict({"status": ConfigRecord({"text": FAILED})})


def _check_agent(agent: Agent) -> None:
    if agent.book is None or agent.accountant is None:
        raise BudgetError("a deployed agent needs an accountant and a book of answers.")
    if not math.isfinite(agent.accountant.epsilon):
        raise BudgetError("a deployed agent needs a ceiling: the server decides how often it asks.")


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
        check_positive(timeout=timeout, poll=poll)
        check_positive(allow_inf=True, grace=grace)
        self.grid, self.nodes = grid, {client: int(node) for client, node in nodes.items()}
        self.timeout, self.grace, self.poll = timeout, grace, poll

    def wait_for_nodes(self, seconds: float) -> set:
        """Wait until all clients are connected, at most so long; returns those that are."""
        deadline = time.monotonic() + seconds
        while True:
            online = set(self.grid.get_node_ids())
            connected = {client for client, node in self.nodes.items() if node in online}
            if len(connected) == len(self.nodes) or time.monotonic() >= deadline:
                return connected
            time.sleep(self.poll)

    def run(self, tasks: Iterable[LocalTask]) -> Iterator[tuple[Any, ...]]:
        """Pairs (client, update); clients that do not answer in time are missing."""
        tasks = list(tasks)
        ids = list(self.grid.push_messages([self._message(task) for task in tasks]))
        # An id is empty where a message was not accepted.
        waiting = {i: task for i, task in zip(ids, tasks, strict=True) if i}
        deadline = time.monotonic() + self.timeout
        while waiting and time.monotonic() < deadline:
            for reply in self.grid.pull_messages(list(waiting)):
                task = waiting.pop(reply.metadata.reply_to_message_id, None)
                if task is not None and not reply.has_error():
                    deadline = min(deadline, time.monotonic() + self.grace)
                    yield task.client, self._update(task, reply)
            if waiting:
                time.sleep(self.poll)

    def _message(self, task: Any) -> Any:
        content = RecordDict(
            {
                "point": ArrayRecord([np.asarray(task.point)]),
                "release": ConfigRecord({"fit": task.fit_id, "round": task.round}),
            }
        )
        return Message(
            content,
            self.nodes[task.client],
            "train",
            ttl=self.timeout,
            group_id=str(task.round),
        )

    def _update(self, task: LocalTask, reply: Any) -> LocalUpdate | str | None:
        if reply.metadata.src_node_id != self.nodes[task.client]:
            return "from another node"
        try:
            if "status" in reply.content:
                declined = reply.content["status"]["text"] == DECLINED
                return None if declined else FAILED
            (point,) = reply.content["point"].to_numpy_ndarrays()
            release = reply.content["release"]
            return LocalUpdate(release["fit"], release["round"], task.client, point)
        except Exception:  # noqa: BLE001  a hostile upload must not stop the round
            return "unreadable"


@dataclasses.dataclass(frozen=True)
class Deployment:
    """What a server needs to run a federation.

    Parameters
    ----------
    loop : ServerLoop
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
        Seconds to wait for all clients before the first round.
    """

    loop: ServerLoop
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
        with Checkpoint(self.checkpoint).held() as checkpoint:
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
