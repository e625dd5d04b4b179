"""One round of sums: every client releases its own with noise, the server adds them up."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from skriemdp._validation import check_count
from skriemdp.core.additive import Additive, Statistic
from skriemdp.core.arithmetic import check_arithmetic
from skriemdp.core.estimator import Plan, Terms, check_noise, validated
from skriemdp.core.spent import PrivacySpent
from skriemdp.federated.agent import AnswerBook, SumsAgent
from skriemdp.federated.messages import (
    LocalTask,
    RefusedUpdate,
    check_release_name,
    checked_updates,
)
from skriemdp.geometry import Euclidean
from skriemdp.mechanisms.budget import GaussianBudget
from skriemdp.privacy.calibration import gaussian_mu
from skriemdp.privacy.event import Event
from skriemdp.privacy.events import compose

if TYPE_CHECKING:
    from skriemdp._groups import Groups
    from skriemdp.federated.transport import Transport
    from skriemdp.ledger.accountant import PrivacyAccountant

__all__ = ["SumsLoop", "Uploads", "learn_from_sums", "planned_sums", "share", "sums_agent"]


def share(epsilon: float, delta: float, times: int) -> float:
    """The epsilon of one release, of which so many are (epsilon, delta) together.

    Gaussian releases: each has the mu of the whole over the root of their number.

    Raises
    ------
    ValueError
        Where delta alone would cover such a release, so that no epsilon describes it.
    """
    if times == 1:
        return epsilon
    mu = gaussian_mu(epsilon, delta) / math.sqrt(times)
    part = float(GaussianBudget(mu).event.epsilon(delta))
    step = 1e-12
    while part > 0.0 and gaussian_mu(part, delta) > mu:
        part, step = part * (1.0 - step), 2.0 * step
    if part <= 0.0:
        raise ValueError(
            f"epsilon={epsilon:g} at delta={delta:g} is too little for a person in {times} "
            "clients; pass a larger epsilon or a smaller delta."
        )
    return part


def planned_sums(estimator: Any, facts: Any, terms: Terms, times: int = 1) -> Plan[Statistic]:
    """What each client releases; refused before anything is charged if it cannot run.

    Parameters
    ----------
    estimator : Additive
        Its (epsilon, delta) is that of all clients who may hold one person together.
    facts : dict
        Public; n is the number of records, or people, of all clients.
    terms : Terms
    times : int
        How many clients these are.
    """
    part = clone(estimator)
    part.epsilon = share(float(estimator.epsilon), float(estimator.delta), times)
    plan = part._additive_plan(facts, terms)
    plan.work.check()
    check_noise(plan.event)
    check_arithmetic(plan.exact, f"sums of {type(estimator).__name__} with these parameters")
    public = dict(plan.public)
    if facts.get("grouped"):
        plan = dataclasses.replace(plan, unit="group")
        public = {"n_groups" if name == "n" else name: value for name, value in public.items()}
    return dataclasses.replace(plan, public=public)


def sums_agent(
    estimator: Additive,
    X: Any,
    y: Any = None,
    groups: Any = None,
    *,
    client: Hashable,
    accountant: PrivacyAccountant,
    book: AnswerBook,
    clients_per_person: int = 1,
    random_state: int | None = None,
) -> SumsAgent:
    """A deployed client's agent, from its own records.

    Parameters
    ----------
    estimator : estimator with sums
        As for ``FederatedEstimator(estimator, 1, local="statistic")``; the same at every client and
        at the server.  Its ledger is not charged: `accountant` is.
    X, y, groups
        This client's records, and whose they are.
    client : hashable
        Its name.
    accountant : PrivacyAccountant
        Charged with one client's release, before it is computed.
    book : AnswerBook
    clients_per_person : int, default=1
        In how many clients one person may be: the noise of each is larger then, and the ledgers of
        all of them together are charged the estimator's (epsilon, delta).
    random_state : int, optional
        For tests; nobody is protected then.

    Returns
    -------
    SumsAgent
        Its number of records, or of people, is public.
    """
    check_count(clients_per_person=clients_per_person)
    estimator = clone(estimator)
    data = validated(estimator, X, y, groups)
    terms = Terms(float(estimator.epsilon), float(estimator.delta))
    plan = planned_sums(estimator, data.facts, terms, clients_per_person)
    records = estimator._records(data)
    return SumsAgent(client, plan, records, data.groups, accountant, book, random_state)


@dataclasses.dataclass(frozen=True, eq=False)
class Uploads:
    """What the server has after the round.

    Attributes
    ----------
    total : ndarray
        Sum of the uploads.
    clients : tuple
        Who sent them.
    """

    total: np.ndarray
    clients: tuple


@dataclasses.dataclass(frozen=True)
class SumsLoop:
    """The server's one round: ask every client for its sums, add what comes back.

    Parameters
    ----------
    clients : tuple
    size : int
        Number of sums.
    min_updates : int
        With fewer answers there is no result.

    Notes
    -----
    It stores nothing before it asks: a client gives a repeated task its stored answer, and is
    charged once.
    """

    clients: tuple
    size: int
    min_updates: int = 1

    def run(
        self, transport: Transport, start: Any, fit_id: str, checkpoint: Any = None
    ) -> tuple[Uploads, list[RefusedUpdate]]:
        """Ask, check, add; `start` has no meaning here.

        Raises
        ------
        RuntimeError
            If too few answers can be used.
        ValueError
            If the checkpoint holds a run of this name with other sums; nobody is asked.
        """
        check_release_name(fit_id)
        state = None if checkpoint is None else checkpoint.load(fit_id)
        if state is not None:
            if state["point"].shape != (self.size,):
                raise ValueError(
                    f"the checkpoint holds a run {fit_id!r} of other sums; pass another fit_id."
                )
            return Uploads(state["point"], tuple(state["answered"])), []
        tasks = [LocalTask(fit_id, 0, client, np.zeros(self.size)) for client in self.clients]
        answers = transport.run(tasks)
        updates, refused = checked_updates(Euclidean(self.size), tasks, answers)
        if len(updates) < self.min_updates:
            raise RuntimeError(
                f"{len(updates)} of {len(self.clients)} clients sent sums that can be used, fewer "
                f"than min_updates={self.min_updates}."
            )
        # In the order of the clients, never of arrival: floating-point sums depend on it.
        total = np.sum([update.point for update in updates], axis=0)
        found = Uploads(total, tuple(update.client for update in updates))
        if checkpoint is not None:
            state = {"fit_id": fit_id, "point": total, "chosen": total}
            checkpoint.save(state | {"answered": list(found.clients)})
        return found, refused


def learn_from_sums(
    estimator: Any,
    uploads: Uploads,
    sizes: dict,
    X: Any,
    y: Any = None,
    *,
    grouped: bool = False,
    clients_per_person: int = 1,
) -> Any:
    """The fitted estimator, at the server, which has no records.

    Parameters
    ----------
    estimator : estimator with sums
        As at the clients.
    uploads : Uploads
    sizes : dict
        Client to its public number of records, or of people.
    X, y
        Two made-up records: they show shapes and types, and nothing is learned from them.
    grouped : bool, default=False
        Whether clients passed ``groups=``.
    clients_per_person : int, default=1
        As at the clients.

    Returns
    -------
    estimator
        A fitted copy; nothing is charged, because clients have charged their own ledgers.
    """
    estimator = clone(estimator)
    n = sum(sizes[client] for client in uploads.clients)
    facts = validated(estimator, X, y).facts | {"n": n, "grouped": grouped}
    terms = Terms(float(estimator.epsilon), float(estimator.delta))
    plan = planned_sums(estimator, facts, terms, clients_per_person)
    estimator._learn(plan.settings, uploads.total, facts, len(uploads.clients))
    estimator.privacy_spent_ = stated(estimator, plan, compose([plan.event] * clients_per_person))
    return estimator


def stated(estimator: Any, plan: Plan[Any], event: Event) -> PrivacySpent:
    """What a person, or a record, has been told of: at most the estimator's (epsilon, delta)."""
    return PrivacySpent(
        float(estimator.epsilon),
        float(estimator.delta),
        event,
        plan.unit,
        plan.guarantee,
        plan.stated,
    )


def simulated_agents(
    plan: Plan[Statistic],
    parts: Iterable[tuple[Hashable, tuple, Groups | None]],
    random_state: int | None,
    context: bytes,
    shared: np.random.Generator | None,
) -> dict:
    """Agents of clients whose records are all here; the run is charged as a whole."""
    context += hashlib.blake2b(repr(plan.event.to_dict()).encode()).digest()
    return {
        client: SumsAgent(
            client,
            plan,
            arrays,
            groups,
            random_state=random_state,
            context=context,
            shared=shared,
        )
        for client, arrays, groups in parts
    }
