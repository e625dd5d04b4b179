"""How tasks reach clients and updates come back: answers may be lost, never asked twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import joblib

from skriemdp.federated.attendance import reply
from skriemdp.federated.messages import LocalTask, LocalUpdate
from skriemdp.ledger.accountant import BudgetError

if TYPE_CHECKING:
    from skriemdp.federated.agent import Agent


class Transport(Protocol):
    """What the loop needs of an engine."""

    def run(self, tasks: Sequence[LocalTask]) -> Iterable[tuple]:
        """Pairs (client, update), the client as the transport knows it; any order, maybe fewer."""


class InProcessTransport:
    """Clients on this machine: one after another, together where they are small, or in processes.

    Processes give the numbers of one after another, bit for bit when seeded.

    Parameters
    ----------
    agents : dict
        Client to :class:`skriemdp.federated.agent.Agent`.
    together : ClientsTogether, optional
        Trains all clients of a round in one pass.  Its agents have no accountant and no book: the
        run was charged as a whole.
    n_jobs : int, optional
        Workers of joblib.  Its own backends run a task once; one that may run it again (dask, when
        a worker dies) needs agents with an `AnswerBook`, which refuses the second release.
    """

    def __init__(self, agents: Mapping[Any, Any], together: Any = None, n_jobs: int | None = None):
        self.agents, self.together, self.n_jobs = dict(agents), together, n_jobs

    def run(self, tasks: Sequence[LocalTask]) -> list[tuple]:
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
        known = {name: data for name, data in messages.items() if name in self.agents}
        return [(name, reply(self.agents[name], data)) for name, data in known.items()]


def _handle(agent: Agent, task: LocalTask) -> LocalUpdate | None:
    # A client whose own limits forbid the release stays silent; the round goes on without it.
    try:
        return agent.handle(task)
    except BudgetError:
        return None
