"""One round of sums: every client releases its own with noise, the server adds them up."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

import skriemdp
from skriemdp._core.additive import Additive, IntegerStatistic
from skriemdp._core.charge import charge
from skriemdp._core.estimator import Plan, Terms, check_noise, validated
from skriemdp._core.forecast import per_group
from skriemdp._core.parameters import warn_large_delta
from skriemdp._core.spent import COMPUTATIONAL, PrivacySpent
from skriemdp._errors import PublicRuntimeError, PublicValueError
from skriemdp._mechanisms.sum import noised
from skriemdp._mechanisms.units import Units
from skriemdp._random import NoiseStreams
from skriemdp._validation import check_count, check_instance, check_methods, check_option
from skriemdp._warnings import unwarned
from skriemdp.federated._agent import AnswerBook, SumsAgent
from skriemdp.federated._agreement import MOST_TOTAL, Agreement
from skriemdp.federated._attendance import AttendanceBook, Member
from skriemdp.federated._loop import check_checkpoint, check_transport
from skriemdp.federated._masks import digest
from skriemdp.federated._messages import (
    LocalTask,
    RefusedUpdate,
    check_release_name,
    gathered,
    read_floats,
)
from skriemdp.federated._shares import BY_AGGREGATOR, BY_CLIENTS, Shares
from skriemdp.ledger._accountant import BudgetError
from skriemdp.ledger._current import chosen_accountant
from skriemdp.privacy._calibration import gaussian_epsilon, gaussian_mu
from skriemdp.privacy._events import as_drawn, compose

if TYPE_CHECKING:
    from skriemdp.federated._cohort import Cohort, Identity
    from skriemdp.federated._loop import Transport
    from skriemdp.ledger._accountant import PrivacyAccountant


def share(epsilon: float, delta: float, times: int) -> float:
    """The epsilon of one release, of which so many are (epsilon, delta) together.

    Gaussian releases: each has the mu of the whole over the root of their number.

    Raises
    ------
    ValueError
        Where delta alone would cover such a release, so that no epsilon describes it.
    """
    check_count(clients_per_person=times)
    if times == 1:
        return epsilon
    mu = gaussian_mu(epsilon, delta) / math.sqrt(times)
    part = gaussian_epsilon(mu, delta)
    step = 1e-12
    while part > 0.0 and gaussian_mu(part, delta) > mu:
        part, step = part * (1.0 - step), 2.0 * step
    if part <= 0.0:
        raise PublicValueError(
            f"epsilon={epsilon:g} at delta={delta:g} is too little for a person in {times} "
            "clients; pass a larger epsilon or a smaller delta."
        )
    return part


def planned_sums(
    estimator: Any, facts: Any, terms: Terms, times: int = 1, together: bool = False
) -> Plan[Any]:
    """Plan the sums that each client releases; plans that cannot run are refused before any charge.

    Parameters
    ----------
    estimator : Additive
        Its (epsilon, delta) is that of all clients who may hold one person together.
    facts : dict
        Public; n is the number of records, or people, of all clients.
    terms : Terms
    times : int
        How many clients these are.
    together : bool
        Whether the noise is that of the sum over all clients: what one person adds at several of
        them then adds up, and integers are so many times coarser.  The event stays what each
        client is charged.
    """
    plan = _planned(estimator, facts, terms, times)
    if together:
        sums = plan if times == 1 else _planned(estimator, facts, terms, times**2)
        if plan.event.mu is None or not isinstance(sums.settings, IntegerStatistic):
            raise PublicValueError(
                "noise is added to the sum over all clients for PrivateFrechetMean and "
                "PrivateMinimumDistanceToMean with delta > 0; pass trust='nobody' (got "
                f"{type(estimator).__name__} with delta={estimator.delta:g})."
            )
        if facts["n"] * max(part.largest for part in sums.settings.parts) > MOST_TOTAL:
            raise PublicValueError(
                f"the sum over {facts['n']} records may not fit 62 bits; use a smaller epsilon."
            )
        plan = dataclasses.replace(plan, settings=sums.settings)
    return plan


def _planned(estimator: Any, facts: Any, terms: Terms, times: int) -> Plan[Any]:
    part = clone(estimator)
    part.epsilon = share(float(estimator.epsilon), float(estimator.delta), times)
    plan = part._additive_plan(facts, terms)
    warn_large_delta(part.delta, facts["n"])
    plan.work.check()
    check_noise(plan.event)
    return per_group(plan) if facts.get("grouped") else plan


def added_together(
    statistic: Any,
    tables: Iterable[tuple[Hashable, Units]],
    streams: Callable[..., np.random.Generator],
    uploads: Uploads,
    times: int = 1,
) -> Uploads:
    """Add up clients whose records are all on this machine; nobody masks, since masks would cancel.

    Parameters
    ----------
    statistic : Statistic or IntegerStatistic
    tables : iterable of (client, Units)
    streams : callable
    uploads : Uploads
        Without a total: whose noise it has.
    times : int
        In how many clients one person may be.
    """
    total: Any = 0
    with np.errstate(all="ignore"):  # a warning of overflow would tell of a record
        for client, records in tables:
            mine = functools.partial(streams, "client", repr(client))
            if not uploads.size:
                own = statistic.noisy(records, mine)
            elif uploads.shares is None:
                own = np.concatenate(statistic.exact(records))
            else:
                exact = statistic.exact(records)
                own = noised(statistic.parts, exact, mine, uploads.shares.honest)
            total = total + own
    if uploads.size and uploads.shares is None:
        total = with_one_noise(statistic, total, streams, times)
    return dataclasses.replace(uploads, total=total)


def with_one_noise(
    statistic: IntegerStatistic,
    total: np.ndarray,
    streams: Callable[..., np.random.Generator],
    times: int,
) -> np.ndarray:
    """Exact sums over all clients with the noise of one release; a person is in so many tables."""
    parts = [part.of_several(times) for part in statistic.parts]
    totals = np.split(total, np.cumsum([part.length for part in parts])[:-1])
    return noised(parts, totals, functools.partial(streams, "aggregator"))


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
    trust: str | None = None,
    cohort: Cohort | None = None,
    identity: Identity | None = None,
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
        all of them together are charged the estimator's (epsilon, delta).  Where too small,
        somebody in k clients more than said has k times the mu with one noise for all clients, and
        sqrt(k) times without.
    trust : {"nobody", "cohort", "aggregator"}, optional
        Whom this client trusts: "cohort" where one is passed, "nobody" otherwise.  With
        "aggregator" it sends its **exact** sums to the coordinator (:class:`AggregatorLoop`), which
        it trusts to add the noise and to show nothing else.
    cohort, identity : Cohort and Identity, optional
        For secure sums, in which the clients of the cohort have one noise together: who they are
        and how many may work with the server, from this client's own people, and its own key.  The
        client's name is that in the cohort.

    Returns
    -------
    SumsAgent
        Its number of records, or of people, is public.
    """
    check_count(clients_per_person=clients_per_person)
    check_option((None, "nobody", "cohort", "aggregator"), trust=trust)
    trust = trust or ("nobody" if cohort is None else "cohort")
    if not (trust == "cohort") == (cohort is not None) == (identity is not None):
        raise PublicValueError(
            f"trust='cohort', cohort= and identity= belong together; pass all or none (got trust="
            f"{trust!r})."
        )
    check_estimator(estimator)
    estimator = clone(estimator)
    data = validated(estimator, X, y, groups)
    facts, together = data.facts | {"tables": True}, trust != "nobody"
    plan = _plan_of_a_part(estimator, facts, clients_per_person, together)
    member, agreement = None, None
    if together:
        agreement = _agreement(estimator, plan, facts, clients_per_person)
    if trust == "aggregator":
        plan = dataclasses.replace(plan, public=plan.public | BY_AGGREGATOR)
    if cohort is not None and identity is not None and agreement is not None:
        pages, size = AttendanceBook(book.path), int(facts["n"])
        member, agreement = Member(str(client), identity, cohort, agreement, pages, size), None
    records = Units(estimator._records(data), data.groups)
    return SumsAgent(client, plan, records, accountant, book, member, agreement)


def sums_agreement(
    estimator: Additive,
    X: Any,
    y: Any = None,
    *,
    grouped: bool = False,
    clients_per_person: int = 1,
) -> Agreement:
    """Return, at the server, the settings that server and clients of a secure sum must share.

    Parameters
    ----------
    estimator : estimator with sums
        As at the clients.
    X, y
        Two made-up records, which show shapes.
    grouped : bool, default=False
        Whether clients passed ``groups=``.
    clients_per_person : int, default=1
        As at the clients.
    """
    estimator, facts = _at_server(estimator, X, y, grouped)
    plan = _plan_of_a_part(estimator, facts, clients_per_person, together=True)
    return _agreement(estimator, plan, facts, clients_per_person)


def check_estimator(estimator: Any) -> None:
    """TypeError unless `estimator` is a private estimator."""
    wanted = "a private estimator, such as PrivateFrechetMean(...)"
    check_methods(wanted, "fit", "get_params", "_validate", estimator=estimator)


def _at_server(estimator: Any, X: Any, y: Any, grouped: bool) -> tuple[Any, dict[str, Any]]:
    """A copy of the estimator, and public facts as two made-up records show them."""
    check_estimator(estimator)
    estimator = clone(estimator)
    return estimator, validated(estimator, X, y).facts | {"grouped": grouped, "tables": True}


def _plan_of_a_part(estimator: Any, facts: Any, times: int, together: bool) -> Plan[Any]:
    """A client's plan, or one without records.

    No warnings about the noise beside few records, where it is beside those of all clients.
    """
    with unwarned() if together else contextlib.nullcontext():
        plan = planned_sums(estimator, facts, _terms(estimator), times, together)
    geometry, center = facts.get("geometry"), plan.public.get("center")
    if geometry is not None and center is not None:
        if not geometry.has_steady_coordinates(center):
            raise PublicValueError(
                "the upper square block of center is singular; then rounding decides what "
                f"coordinates of {geometry} are, on each client's machine: pass another center."
            )
    return plan


def _terms(estimator: Any) -> Terms:
    return Terms(float(estimator.epsilon), float(estimator.delta))


# They say nothing about what is added.
_OWN_PARAMETERS = {"accountant", "n_jobs", "random_state"}


def _agreement(
    estimator: Any, plan: Plan[IntegerStatistic], facts: dict[str, Any], times: int
) -> Agreement:
    parts, parameters = plan.settings.parts, estimator.get_params(deep=False)
    settings = {name: parameters[name] for name in parameters.keys() - _OWN_PARAMETERS}
    settings |= {
        "class": type(estimator).__name__,
        "version": skriemdp.__version__,
        "geometry": facts["geometry"],
        "groups": bool(facts.get("grouped")),
        "clients_per_person": int(times),
        "parts": [list(part) for part in parts],
    }
    length = sum(part.length for part in parts)
    return Agreement(settings, length, max(part.largest for part in parts))


@dataclass(frozen=True, eq=False)
class Uploads:
    """The server's state after the round.

    Attributes
    ----------
    total : ndarray or None
        Sum of the uploads; None before there is one.
    clients : tuple
        Who sent them.
    size : int
        Of sums with one noise, whose total is of integers: number of records, or of people.
    attempts : tuple of Shares
        Of a secure sum: of each time that clients were asked to add; the last one is this sum.
    """

    total: Any
    clients: tuple
    size: int = 0
    attempts: tuple[Shares, ...] = ()

    @property
    def shares(self) -> Shares | None:
        """Number of shares in the noise of a secure sum."""
        return self.attempts[-1] if self.attempts else None

    @property
    def variance(self) -> float:
        """Variance of the noise, in units of that of one release."""
        if self.shares is not None:
            return self.shares.variance
        return 1.0 if self.size else float(len(self.clients))

    @property
    def public(self) -> dict[str, Any]:
        """Public facts: who took part, and whom they trust."""
        known: dict[str, Any] = {"clients": list(map(str, self.clients))}
        if self.shares is not None:
            return known | self.shares.stated | {"attempts": len(self.attempts)}
        return known | (BY_AGGREGATOR if self.size else BY_CLIENTS)


@dataclass
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

    @property
    def question(self) -> np.ndarray:
        """Zeros, as many as there are sums."""
        return np.zeros(self.size)

    def run(
        self, transport: Transport, start: Any, fit_id: str, checkpoint: Any = None
    ) -> tuple[Uploads, list[RefusedUpdate]]:
        """Ask, check, add; `start` has no meaning here.

        A trusted coordinator charges its ledger then, and adds the noise.

        Raises
        ------
        RuntimeError
            If too few answers can be used.
        ValueError
            If the checkpoint holds a run of this name with other sums; nobody is asked.
        BudgetError
            If a coordinator's ledger has no room, or holds this run and the checkpoint does not:
            another noise on the same sums would be a second release.
        """
        check_checkpoint(checkpoint)
        check_release_name(fit_id)
        asked = digest("question", self.question.tobytes()).hex()
        state = None if checkpoint is None else checkpoint.load(fit_id)
        if state is not None:
            if state.get("question") != asked:
                raise PublicValueError(
                    f"the checkpoint holds a run {fit_id!r} of other sums; pass another fit_id."
                )
            return Uploads(np.array(state["total"]), tuple(state["answered"]), state["size"]), []
        check_transport(transport)
        self._check_new(fit_id)
        tasks = [LocalTask(fit_id, 0, client, self.question) for client in self.clients]
        known, refused = gathered(tasks, transport.run(tasks), self._read)
        if len(known) < self.min_updates:
            raise PublicRuntimeError(
                f"{len(known)} of {len(tasks)} clients sent sums that can be used, fewer than "
                f"min_updates={self.min_updates}."
            )
        # In the order of the clients, never of arrival: floating-point sums depend on it.
        clients = tuple(client for client in self.clients if client in known)
        total = np.sum([known[client] for client in clients], axis=0)
        found = self._released(fit_id, Uploads(total, clients))
        if checkpoint is not None:
            state = {"fit_id": fit_id, "point": [], "chosen": [], "question": asked}
            kept = {"answered": list(clients), "size": found.size, "total": found.total}
            checkpoint.save(state | kept)
        return found, refused

    def _check_new(self, fit_id: str) -> None:
        """Raise where a run of this name must not be made again."""

    def _released(self, fit_id: str, uploads: Uploads) -> Uploads:
        """Return the uploads as they may leave the server's memory."""
        return uploads

    def _read(self, client: Hashable, sums: Any) -> np.ndarray:
        """A client's sums, or a :class:`RefusedUpdate`."""
        return read_floats((self.size,), client, sums)


class AggregatorLoop(SumsLoop):
    """A trusted coordinator's one round: exact sums of all clients, and one noise for all of them.

    Clients trust it with their exact sums, to add the noise and to show nothing else.  They are
    added up in memory: what it stores and returns has the noise.

    Parameters
    ----------
    estimator : estimator with sums
        As at the clients, whose agents have ``trust="aggregator"``.
    sizes : dict
        Client to its public number of records, or of people.
    X, y
        Two made-up records, which show shapes.
    accountant : PrivacyAccountant
        Charged for all clients together, before the noise is drawn.
    grouped : bool, default=False
        Whether clients passed ``groups=``.
    clients_per_person : int, default=1
        As at the clients.
    min_updates : int, default=1
        With fewer answers there is no result, and no charge here.
    """

    def __init__(
        self,
        estimator: Additive,
        sizes: dict,
        X: Any,
        y: Any = None,
        *,
        accountant: PrivacyAccountant,
        grouped: bool = False,
        clients_per_person: int = 1,
        min_updates: int = 1,
    ):
        check_count(clients_per_person=clients_per_person, min_updates=min_updates)
        self.estimator, self._facts = _at_server(estimator, X, y, grouped)
        self.sizes, self.accountant, self.times = dict(sizes), accountant, clients_per_person
        plan = self._plan(sum(self.sizes.values()))
        self.agreement = _agreement(self.estimator, plan, self._facts, clients_per_person)
        super().__init__(tuple(sizes), self.agreement.length, min_updates)

    @property
    def question(self) -> np.ndarray:
        """Return the digest of the settings that clients must share."""
        return self.agreement.question

    def _plan(self, n: int) -> Plan[Any]:
        facts, terms = self._facts | {"n": n}, _terms(self.estimator)
        return planned_sums(self.estimator, facts, terms, self.times, together=True)

    def _check_new(self, fit_id: str) -> None:
        label = type(self).__name__
        history = chosen_accountant(self.accountant).history
        if any(entry.label == label and entry.params.get("fit") == fit_id for entry in history):
            raise BudgetError(
                f"the ledger holds the run {fit_id!r}, which is not repeated; restore its "
                "checkpoint, or pass another fit_id (clients are charged anew)."
            )

    def _released(self, fit_id: str, uploads: Uploads) -> Uploads:
        found = dataclasses.replace(
            uploads, size=sum(self.sizes[client] for client in uploads.clients)
        )
        plan = self._plan(found.size)
        spent = stated(self.estimator, plan, self.times, found)
        charge(
            chosen_accountant(self.accountant),
            spent.event,
            self,
            random_state=None,
            params={"estimator": type(self.estimator).__name__, "unit": plan.unit, "fit": fit_id},
            facts=spent.public,
            at=(spent.epsilon, spent.delta),
        )
        total = with_one_noise(plan.settings, found.total, NoiseStreams(), self.times)
        return dataclasses.replace(found, total=total)

    def _read(self, client: Hashable, sums: Any) -> np.ndarray:
        """A client's sums, within what its number of records can add up to."""
        most = self.sizes[client] * self.agreement.largest
        if type(sums) is not np.ndarray or sums.dtype != np.int64:
            raise RefusedUpdate(f"client {client!r} did not send integers.")
        if sums.shape != (self.size,) or sums.max() > most or sums.min() < -most:
            raise RefusedUpdate(f"client {client!r} sent sums that its records cannot have.")
        return sums


def learn_from_sums(
    estimator: Any,
    uploads: Uploads,
    sizes: dict | None,
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
    sizes : dict or None
        Client to its public number of records, or of people; None of sums with one noise, whose
        uploads hold it.
    X, y
        Two made-up records: they show shapes and types, and nothing is learned from them.
    grouped : bool, default=False
        Whether clients passed ``groups=``.
    clients_per_person : int, default=1
        As at the clients.

    Returns
    -------
    estimator
        A fitted copy; nothing is charged, because clients, or their coordinator, have charged their
        ledgers.  Of a secure sum it states what all attempts cost together of which this server
        knows.
    """
    check_instance(Uploads, "pass what run() of a loop returned first", uploads=uploads)
    estimator, facts = _at_server(estimator, X, y, grouped)
    n = uploads.size or sum((sizes or {})[client] for client in uploads.clients)
    facts |= {"n": n}
    plan = planned_sums(estimator, facts, _terms(estimator), clients_per_person, bool(uploads.size))
    learn(estimator, plan, facts, uploads)
    estimator.privacy_spent_ = stated(estimator, plan, clients_per_person, uploads)
    return estimator


def learn(estimator: Any, plan: Plan[Any], facts: Any, uploads: Uploads) -> None:
    """Set the learned attributes from what clients added up."""
    total = plan.settings.decoded(uploads.total) if uploads.size else uploads.total
    estimator._learn(plan.settings, total, facts, uploads.variance)


def stated(
    estimator: Any, plan: Plan[Any], times: int, uploads: Uploads, random_state: int | None = None
) -> PrivacySpent:
    """Guarantee for one person, or record, over all its clients.

    A person may have records at `times` clients, each of which releases a `plan`.  For a secure
    sum, the statement covers all attempts together: each was charged, and the server may know it.
    """
    epsilon, delta = float(estimator.epsilon), float(estimator.delta)
    event, guarantee, alone = compose([plan.event] * times), plan.guarantee, None
    if uploads.attempts:
        single, guarantee = event, COMPUTATIONAL
        if len(uploads.attempts) > 1:
            event = compose([single] * len(uploads.attempts))
            epsilon = float(event.epsilon(delta))
        everything = compose([shares.alone(single) for shares in uploads.attempts])
        alone = max(epsilon, float(everything.epsilon(delta)) * (1.0 + 1e-12))
    return PrivacySpent(
        epsilon,
        delta,
        as_drawn(event, random_state),
        plan.unit,
        guarantee,
        plan.stated | uploads.public,
        planned_alone=alone,
    )
