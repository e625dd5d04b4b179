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
    from skriemdp.federated.together import ClientsTogether


__all__ = ["InProcessTransport", "JoblibTransport", "Transport"]


class Transport(Protocol):
    """What the loop needs of an engine."""

    def run(self, tasks: Sequence[LocalTask]) -> Iterable[tuple]:
        """Pairs (client, update), the client as the transport knows it; any order, maybe fewer."""


class InProcessTransport:
    """Clients in this process, one after another or, where they are small, together.

    Parameters
    ----------
    agents : dict
        Client to :class:`skriemdp.federated.agent.Agent`.
    together : ClientsTogether, optional
        Trains all clients of a round in one pass.  Its agents have no accountant and no book: the
        run was charged as a whole.
    """

    def __init__(self, agents: Mapping[Any, Agent], together: ClientsTogether | None = None):
        self.agents, self.together = dict(agents), together

    def run(self, tasks: Sequence[LocalTask]) -> list[tuple]:
        if self.together is not None:
            return [(update.client, update) for update in self.together.handle(tasks)]
        return [(task.client, _handle(self.agents[task.client], task)) for task in tasks]

    def relay(self, messages: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
        """Answers to the messages of a secure sum."""
        known = {name: data for name, data in messages.items() if name in self.agents}
        return [(name, reply(self.agents[name], data)) for name, data in known.items()]


class JoblibTransport:
    """Clients in joblib workers; the same numbers as in one process, bit for bit when seeded.

    joblib's own backends run a task once.  A backend that may run it again (dask, when a worker
    dies) needs agents with an `AnswerBook`, which refuses the second release.

    Parameters
    ----------
    agents : dict
    n_jobs : int
    """

    def __init__(self, agents: Mapping[Any, Agent], n_jobs: int = -1):
        self.agents, self.n_jobs = dict(agents), n_jobs

    def run(self, tasks: Sequence[LocalTask]) -> list[tuple]:
        answers = joblib.Parallel(n_jobs=self.n_jobs)(
            joblib.delayed(_handle)(self.agents[task.client], task) for task in tasks
        )
        return [(task.client, answer) for task, answer in zip(tasks, answers, strict=True)]


def _handle(agent: Agent, task: LocalTask) -> LocalUpdate | None:
    # A client whose own limits forbid the release stays silent; the round goes on without it.
    try:
        return agent.handle(task)
    except BudgetError:
        return None
