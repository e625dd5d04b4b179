"""`FederatedEstimator`: an estimator with a problem, trained by clients that keep their data."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import math
import os
import secrets
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skriemdp._arrays import ArrayLike
from skriemdp._core.arithmetic import INTEGERS
from skriemdp._core.charge import charge
from skriemdp._core.estimator import CarriesLedger, Data, PrivateEstimator, tags_of, validated
from skriemdp._core.spent import ChargedEntry, PrivacySpent
from skriemdp._core.work import Work
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._groups import Groups, check_order
from skriemdp._mechanisms.budget import Release
from skriemdp._mechanisms.noise import expect_integers
from skriemdp._mechanisms.units import Units
from skriemdp._quiet import Charged, QuietQueries, quietly
from skriemdp._random import NoiseStreams, data_digest
from skriemdp.federated._agent import Agent
from skriemdp.federated._clients import Clients, clients_of_a_person, read_clients
from skriemdp.federated._loop import Checkpoint, InProcessTransport, ServerLoop
from skriemdp.federated._planning import (
    affordable,
    check_settings,
    check_takes_groups,
    domain_and_start,
    local_settings,
)
from skriemdp.federated._releases import Participation
from skriemdp.federated._shares import Shares, noted
from skriemdp.federated._sums import Uploads, added_together, learn, planned_sums, stated
from skriemdp.federated._together import ClientsTogether, PooledRecords, run_trusted
from skriemdp.federated._training import LocalSettings, local_event
from skriemdp.ledger._accountant import PrivacyAccountant
from skriemdp.privacy._events import as_drawn, compose

if TYPE_CHECKING:
    from skriemdp._descent.problem import Problem
    from skriemdp.privacy._event import Event


class FederatedEstimator(CarriesLedger, QuietQueries, MetaEstimatorMixin, BaseEstimator):
    """PriRFed: clients train privately on their own records, a server averages on the manifold.

    Parameters
    ----------
    estimator : PrivateEstimator
        One with a problem on a manifold and public bounds: `PrivateFrechetMean`,
        `PrivatePrincipalEigenvector(row_norm=<number>, center="assume")`, `PrivateRiemannianERM`;
        for ``local="statistic"`` one that learns from sums, in public bounds too.
        Its (epsilon, delta) is the total of the whole run for every record (person, client); its
        own solver settings are not used, except bounds: `clip_norm`, `start`, `center`, `radius`.
    n_rounds, clients_per_round : int
    local : {"rsgd", "rsvrg", "statistic"}, default="rsgd"
        Local training: DP-RSGD, or the anchor-noised DP-RSVRG.  "statistic": none; in one round
        (``n_rounds=1``) every client releases its sums with noise of its own, the server adds them
        and learns what the estimator would.  For `PrivateMinimumDistanceToMean` with `classes`,
        `PrivateFrechetMean` (the mean of logarithms at `center`), `PrivatePrincipalEigenvector`
        ("covariance") and `PrivateHyperbolicRegressor` ("sufficient-statistics").  Parameters of
        rounds and steps are not used.
    local_steps : int, default=1
    step_size : float or sequence of length n_rounds, default=1.0
        Public; one for all rounds, or one per round.  :func:`skriemdp.federated.theory_settings`
        gives it, and `local_steps`, by Theorems 5.1, 5.5 and 5.6.
    smoothness : float, optional
        Public geodesic smoothness L_g of a record's cost; known for Fréchet means.  The differences
        of "rsvrg" are clipped to L_g times the distance from the anchor.
    batch_fraction : float, default=1.0
        Share of a client's records in a Poisson batch; 1 is the full batch.
    clip_norm : float, optional
        Riemannian norm of a record's gradient; by default that of `estimator`, else the problem's
        own bound.
    participation : {"schedule", "uniform"}, default="schedule"
        Clients take turns, or uniform random subsets as published; see `Participation`.
    aggregation : {"tangent-mean", "frechet"}, default="tangent-mean"
    output : {"last", "random"}, default="last"
    n_jobs : int, optional
        Processes of joblib that simulate the clients, -1 for one per processor; none but this one
        by default.  For real deployment see :mod:`skriemdp.federated.flower`.
    unit : {"record", "client"}, default="record"
        Whom epsilon protects.  "record": against everyone, the server included.  "client": a whole
        client, against all but a trusted aggregator that hides who trained.
    update_clip : float, default=1.0
        Riemannian norm of a client's update with ``unit="client"``.
    trust : {"nobody", "cohort", "aggregator"}, optional
        Whom a client trusts.  "nobody", the default for records and people: each client adds all
        the noise that its own upload needs.  The others have nearly the error of the pooled
        records, with ``local="statistic"`` for `PrivateFrechetMean` and
        `PrivateMinimumDistanceToMean`.  "cohort" (experimental: nobody outside the project has
        reviewed the protocol yet): clients add shares of one noise under masks that cancel, and
        trust that at most `colluding` of them work with the server.  "aggregator", and always for
        whole clients: clients trust the coordinator with their exact sums and with the noise,
        which it adds once.
    colluding : int, default=1
        With ``trust="cohort"``, how many clients may work with the server.  At least 1: whoever
        took part can subtract the own noise from the result.
    clients_per_person : int, optional
        In how many clients one person may be.  With `groups`, by default what the ids show; a
        larger number where clients use ids of their own; where too small, somebody in k clients
        more than said has k times the mu with one noise for all clients, and sqrt(k) times without.
        With ``unit="client"``, 1 declares that
        nobody is in two clients: only then may a budget of people pay for the run.
    start : ndarray, optional
        Public start; by default that of `estimator`, the centre of its ball, or a random point of
        the manifold, the same in every run.
    checkpoint : path, optional
        File from which an interrupted fit on the same records resumes, without a second charge.
        Needs a `fit_id`; for ``unit="record"`` only, because it names who trained.
    fit_id : str, optional
        Names the run; drawn at random by default.
    accountant : PrivacyAccountant, optional
        By default that of `estimator`, else the active one; two different ones are refused.
    random_state : int, optional
        As for every estimator.

    Attributes
    ----------
    estimator_ : PrivateEstimator
        A copy of `estimator` whose learned point is the federated one.
    n_rounds_ : int
        Rounds that were made: `n_rounds`, or those whose noise stays within half of the public ball
        of the estimator, by a rule of public numbers.  0 where one is too many: `point_` is the
        start, nothing is asked, and the ledger has a line of zero.  Not for ``local="statistic"``.
    point_ : ndarray
        Not with ``local="statistic"``.
    privacy_spent_ : PrivacySpent
        Of the client that trained most often; with `groups`, of all clients of one person.
    privacy_spent_by_client_ : dict
        Client to PrivacySpent (``unit="record"``): of its own rounds when clients take turns; the
        same for all with ``participation="uniform"``, where the coins are part of the guarantee.
    refused_updates_ : list of str
        Why uploads were not used.

    Notes
    -----
    *Guarantee*: client ids and, with ``unit="record"``, their numbers of records are public.
    ``unit="record"``: replacing one record of one client changes the distribution of all uploads of
    the run by at most (epsilon, delta); sampling clients is not counted as amplification, because
    the server sees who trains.  With `groups` the same holds for all rows of one person, at all
    clients that have some; which people a client has is public, how many rows is not.
    ``unit="client"``: replacing all records of one client changes that
    of the points which the aggregator sends out by at most that (docs/theory/federated.md).

    References
    ----------
    Huang, Huang, Jawanpuria, Mishra (2025), Algorithms 1 to 3; its privacy statement, Theorem 4.2,
    is corrected here.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import PrivateFrechetMean
    >>> from skriemdp.federated import FederatedEstimator
    >>> X = np.random.default_rng(0).normal(size=(600, 2)) * 0.2
    >>> hospitals = np.arange(600) % 6
    >>> model = FederatedEstimator(PrivateFrechetMean(radius=1.0, epsilon=1.0), 4, 3)
    >>> tuple(model.fit(X, clients=hospitals).privacy_spent_)
    (1.0, 1e-05)

    Class means of people, from sums of six hospitals:

    >>> from skriemdp import PrivateMinimumDistanceToMean
    >>> means = PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1], epsilon=1.0)
    >>> model = FederatedEstimator(means, n_rounds=1, local="statistic")
    >>> people, y = np.arange(600) // 12, np.arange(600) // 6 % 2
    >>> model.fit(X, y, clients=people % 6, groups=people).privacy_spent_.unit
    'group'
    """

    __metadata_request__fit = {"clients": True, "groups": True}

    def __init__(
        self,
        estimator: PrivateEstimator,
        n_rounds: int = 10,
        clients_per_round: int = 1,
        *,
        local: Literal["rsgd", "rsvrg", "statistic"] = "rsgd",
        local_steps: int = 1,
        step_size: float | Sequence[float] = 1.0,
        smoothness: float | None = None,
        batch_fraction: float = 1.0,
        clip_norm: float | None = None,
        participation: Literal["schedule", "uniform"] = "schedule",
        aggregation: Literal["tangent-mean", "frechet"] = "tangent-mean",
        output: Literal["last", "random"] = "last",
        n_jobs: int | None = None,
        unit: Literal["record", "client"] = "record",
        update_clip: float = 1.0,
        trust: Literal["nobody", "cohort", "aggregator"] | None = None,
        colluding: int = 1,
        clients_per_person: int | None = None,
        start: ArrayLike | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        fit_id: str | None = None,
        accountant: PrivacyAccountant | None = None,
        random_state: int | None = None,
    ):
        self.estimator = estimator
        self.n_rounds = n_rounds
        self.clients_per_round = clients_per_round
        self.local = local
        self.local_steps = local_steps
        self.step_size = step_size
        self.smoothness = smoothness
        self.batch_fraction = batch_fraction
        self.clip_norm = clip_norm
        self.participation = participation
        self.aggregation = aggregation
        self.output = output
        self.n_jobs = n_jobs
        self.unit = unit
        self.update_clip = update_clip
        self.trust = trust
        self.colluding = colluding
        self.clients_per_person = clients_per_person
        self.start = start
        self.checkpoint = checkpoint
        self.fit_id = fit_id
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, clients: Any = None, groups: Any = None) -> Self:
        """Simulate the federation on records that `clients` assigns to clients.

        Parameters
        ----------
        X, y
            As for `estimator`.
        clients : array-like of shape (n,)
            Public client id of each record.
        groups : array-like of shape (n,), optional
            Who owns each row; one id means one person at all clients.  Then all rows of a person
            and their number are protected together, and a client publishes its number of people.

        Returns
        -------
        self
        """
        if hasattr(X, "tocsr"):
            raise PublicTypeError(
                "sparse input is not supported by federated training; pass X.toarray()"
            )
        check_settings(self)
        estimator = clone(self.estimator)
        if groups is not None and self.local != "statistic":
            check_takes_groups(estimator)
        data = validated(estimator, X, y, groups)
        check_order(clients, X, "clients")
        arrays = estimator._records(data)
        parts = read_clients(clients, len(arrays[0]), data.groups)
        most = clients_of_a_person(self.clients_per_person, parts.most, len(parts.names))
        if self.local == "statistic":
            return self._fit_sums(estimator, data, arrays, parts, most)
        names, sizes = parts.names, parts.sizes
        # Whole clients are protected by hiding who trains, so they cannot take turns.
        rule = "uniform" if self.unit == "client" else self.participation
        participation = Participation(len(names), self.n_rounds, self.clients_per_round, rule)
        # Bounds and geometry are the same for all records; two show them before anything is charged
        probe = quietly(lambda: estimator._problem(*_rows(arrays, slice(0, 2))))
        cause = "n_rounds and clients_per_round"
        Work(100.0 * self.n_rounds * self.clients_per_round, cause=cause).check()
        domain, start = domain_and_start(self, estimator, probe)
        settings = local_settings(self, estimator, probe, start)
        taken, event, noise = affordable(
            self, participation, settings, probe, domain, start, sizes, most
        )
        self.n_rounds_ = 0 if taken is None else taken.n_rounds
        digest = b"" if self.random_state is None else data_digest(*arrays)
        context = b"federated" + digest + repr(event.to_dict()).encode()
        streams = NoiseStreams(self.random_state, context)

        loop = ServerLoop(probe.geometry, (), sizes, self.aggregation, self.output, domain=domain)
        unit = "group" if data.groups is not None and self.unit == "record" else self.unit
        facts = {
            "clients": list(map(str, names)),
            "manifold": str(probe.geometry),
            "n_rounds": self.n_rounds_,
            "arithmetic": INTEGERS,
            "releases": (Release("updates of clients", 1.0, "gaussian", probe.geometry.dim),),
        }
        if unit != "client":  # whose numbers of records are private
            facts["n_groups" if unit == "group" else "n"] = sum(sizes.values())
        event = as_drawn(event, self.random_state)
        spent = PrivacySpent(*self._target(), event, unit, public=facts)
        public = {"event": spent.planned_event.to_dict(), "settings": repr(settings)}
        public |= {"start": start.tolist(), "budget": _paid_by(self._accountant())}
        checkpoint = None if self.checkpoint is None else Checkpoint(os.fsdecode(self.checkpoint))
        with contextlib.nullcontext() if checkpoint is None else checkpoint.locked():
            if taken is None:
                spent = PrivacySpent(0.0, 0.0, compose([]), unit, public=facts | {"releases": ()})
                spent = dataclasses.replace(spent, entry=self._charge(spent, {}))
                return self._started(estimator, start, noise, spent, names)
            loop, fit_id, entry = self._charged(
                loop, taken, names, spent, public, checkpoint, streams
            )
            with (charged := Charged(entry)):
                problems = {
                    name: _problem(estimator, *parts.part(place, arrays))
                    for place, name in enumerate(names)
                }
                pool, refusals = None, list[Any]()
                if self.n_jobs is None and PooledRecords.worthwhile(probe, sizes):
                    pool = PooledRecords(_problem(estimator, *parts.together(arrays)), sizes)
                if self.unit == "client":
                    clip, rng = float(self.update_clip), streams("aggregator")
                    point = run_trusted(loop, problems, settings, noise, clip, start, rng, pool)
                else:
                    context += hashlib.blake2b(fit_id.encode()).digest()
                    transport = self._transport(problems, pool, settings, noise, domain, context)
                    point, refusals = loop.run(transport, start, fit_id, checkpoint)
            charged.raise_failure()
        self.refused_updates_ = [str(refusal) for refusal in refusals]
        self.point_, self.noise_multiplier_ = np.asarray(point), noise
        self.privacy_spent_ = dataclasses.replace(spent, entry=entry)
        self.estimator_ = estimator
        estimator._adopt_point(self.point_)
        estimator.privacy_spent_ = self.privacy_spent_
        if unit != "client":
            local = local_event(settings, noise, probe.integers_of_a_step)
            schedule = None if rule == "uniform" else loop.schedule
            self.privacy_spent_by_client_ = self._spent_by_client(local, schedule, names)
        return self

    def _started(
        self, estimator: Any, start: np.ndarray, noise: float, spent: PrivacySpent, names: Any
    ) -> Self:
        """Learn the public start; nothing was released."""
        self.refused_updates_, self.noise_multiplier_ = [], noise
        self.point_, self.privacy_spent_ = np.asarray(start), spent
        self.estimator_ = estimator
        estimator._adopt_point(self.point_)
        estimator.privacy_spent_ = spent
        if self.unit == "record":
            self.privacy_spent_by_client_ = dict.fromkeys(names, spent)
        return self

    def _fit_sums(
        self, estimator: Any, data: Data, arrays: tuple, parts: Clients, most: int
    ) -> Self:
        """One round of sums; each client has the noise that it needs, or all have one noise."""
        names, trust = tuple(parts.names), self.trust or "nobody"
        n, together = sum(parts.sizes.values()), trust != "nobody"
        facts, terms = data.facts | {"n": n}, estimator._terms(self._accountant())
        plan = planned_sums(estimator, facts, terms, most, together)
        attempts = (Shares(len(names), int(self.colluding)),) if trust == "cohort" else ()
        uploads = Uploads(None, names, n if together else 0, attempts)
        spent = stated(self.estimator, plan, most, uploads, self.random_state)
        event, delta = spent.planned_event, spent.planned_delta
        params = {} if uploads.shares is None else noted(uploads.shares, event, delta)
        entry = self._charge(spent, params)
        digest = b"" if self.random_state is None else data_digest(*arrays)
        known = plan.event.to_dict(), trust, len(names), self.colluding, most
        streams: Any = NoiseStreams(self.random_state, b"sums" + digest + repr(known).encode())
        if self.random_state is None:  # one stock for all clients, where integers cost little
            streams = functools.partial(_always, streams("simulated clients"))
        held = ((name, Units(*parts.part(k, arrays))) for k, name in enumerate(names))
        with (charged := Charged(entry)):
            uploads = added_together(plan.settings, held, streams, uploads, most)
            learn(estimator, plan, facts, uploads)
        charged.raise_failure()
        self.estimator_, self.refused_updates_ = estimator, []
        self.privacy_spent_ = dataclasses.replace(spent, entry=entry)
        estimator.privacy_spent_ = self.privacy_spent_
        own = self._at_client(plan.event) if most > 1 else self.privacy_spent_
        self.privacy_spent_by_client_ = dict.fromkeys(parts.names, own)
        return self

    # -- charge, then run -----------------------------------------------------------------------

    def _charged(
        self,
        loop: ServerLoop,
        participation: Participation,
        names: list,
        spent: PrivacySpent,
        public: dict[str, Any],
        checkpoint: Checkpoint | None,
        streams: NoiseStreams,
    ) -> tuple[ServerLoop, str, ChargedEntry | None]:
        """Charge a new run and draw who trains; or find that a stored run has been charged."""

        def drawn(rows: list[list[int]], pick: int) -> ServerLoop:
            schedule = tuple(tuple(names[i] for i in row) for row in rows)
            return dataclasses.replace(loop, schedule=schedule, pick=pick)

        fit_id = self.fit_id
        if fit_id is None:
            fit_id = "seeded" if streams.seeded else secrets.token_hex(8)
        state = None if checkpoint is None else checkpoint.load(fit_id)
        if state is not None:
            if state.get("public") != public:
                raise PublicValueError(
                    f"the checkpoint holds a run {fit_id!r} with other settings, or one that "
                    "another budget paid for; restore them, or pass another fit_id (a new run, "
                    "charged anew)."
                )
            found = drawn(state["drawn"], state["pick"])
            found.opened(state["point"], fit_id, checkpoint)
            return found, fit_id, ChargedEntry(*state["entry"]) if state.get("entry") else None
        entry = self._charge(spent, {})
        with (charged := Charged(entry)):
            rng = streams("participation")
            rows = participation.draw(rng).tolist()
            pick = int(rng.integers(self.n_rounds_)) if self.output == "random" else -1
            found = drawn(rows, pick)
            if checkpoint is not None:
                # From here on a restart continues this run; a crash before here charges again.
                run = {"public": public, "drawn": rows, "pick": pick, "entry": entry}
                checkpoint.save(found.opened(public["start"], fit_id) | run)
        charged.raise_failure()
        return found, fit_id, entry

    def _target(self) -> tuple[float, float]:
        return float(self.estimator.epsilon), float(self.estimator.delta)

    def _charge(self, spent: PrivacySpent, params: dict[str, Any]) -> ChargedEntry | None:
        params = {"estimator": type(self.estimator).__name__, "unit": spent.unit} | params
        if spent.unit == "client" and self.clients_per_person is not None:
            params["clients_per_person"] = int(self.clients_per_person)
        return charge(
            self._accountant(),
            spent.planned_event,
            self,
            random_state=self.random_state,
            params=params,
            facts=spent.public,
            at=self._target(),
        )

    def _transport(
        self,
        problems: dict[int, Problem],
        pool: PooledRecords | None,
        settings: LocalSettings,
        noise: float,
        domain: Any,
        context: bytes,
    ) -> Any:
        """The simulated clients."""
        shared = None
        if self.n_jobs is None and self.random_state is None:
            # Drawn ahead for all clients at once, integers cost little.
            shared = NoiseStreams()("simulated clients")
            steps = settings.n_steps + (settings.method == "rsvrg")
            releases = self.n_rounds_ * self.clients_per_round * steps
            integers = next(iter(problems.values())).integers_of_a_step
            expect_integers(shared, releases * integers)
        agent = functools.partial(
            Agent,
            settings=settings,
            noise_multiplier=noise,
            domain=domain,
            random_state=self.random_state,
            context=context,
            shared=shared,
        )
        agents = {client: agent(client, problem) for client, problem in problems.items()}
        together = None
        if pool is not None and ClientsTogether.suits(settings):
            together = ClientsTogether(agents, pool)
        return InProcessTransport(agents, together, self.n_jobs)

    # -- the result -----------------------------------------------------------------------------

    def _spent_by_client(
        self, local: Event, schedule: tuple[tuple[int, ...], ...] | None, clients: list[int]
    ) -> dict[int, PrivacySpent]:
        if schedule is None:
            # The guarantee averages over the coins; what the coins came to is not a guarantee.
            return dict.fromkeys(clients, self.privacy_spent_)
        rounds = Counter(client for row in schedule for client in row)
        counts = {rounds[client] for client in clients}
        known = {count: self._at_client(compose([local] * count)) for count in counts}
        return {client: known[rounds[client]] for client in clients}

    def _at_client(self, event: Event) -> PrivacySpent:
        """Return the guarantee for the releases of one client; at most that of all clients."""
        whole = self.privacy_spent_
        epsilon, delta = whole.planned_epsilon, whole.planned_delta
        return dataclasses.replace(
            whole,
            planned_epsilon=min(float(event.epsilon(delta)), epsilon),
            event=as_drawn(event, 0 if whole.seeded else None),
        )

    def __sklearn_tags__(self) -> Tags:
        tags = tags_of(super().__sklearn_tags__(), self.estimator)
        tags.input_tags.sparse = False
        return tags

    @property
    def n_features_in_(self) -> int:
        check_is_fitted(self)
        return self.estimator_.n_features_in_

    @available_if(lambda self: hasattr(self.estimator, "predict"))
    def predict(self, X: np.ndarray) -> np.ndarray:
        """``estimator_.predict(X)`` at the federated point."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @property
    def classes_(self) -> np.ndarray:
        """Labels of a classifier."""
        check_is_fitted(self)
        return self.estimator_.classes_

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """``estimator_.predict_proba(X)`` of the federated model."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(lambda self: hasattr(self.estimator, "transform"))
    def transform(self, X: Any) -> np.ndarray:
        """``estimator_.transform(X)`` at the federated point."""
        check_is_fitted(self)
        return self.estimator_.transform(X)

    @available_if(lambda self: hasattr(self.estimator, "transform"))
    def fit_transform(
        self, X: Any, y: Any = None, clients: Any = None, groups: Any = None
    ) -> np.ndarray:
        """Train, then ``estimator_.transform`` the same rows."""
        return self.fit(X, y, clients, groups).transform(X)

    @available_if(lambda self: hasattr(self.estimator, "score"))
    def score(
        self, X: np.ndarray, y: np.ndarray | None = None, sample_weight: np.ndarray | None = None
    ) -> float:
        """``estimator_.score(X, y)`` at the federated point; not private for the rows given.

        `sample_weight` is passed on when it is given.
        """
        check_is_fitted(self)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return self.estimator_.score(X, y, **weights)


def _always(rng: np.random.Generator, *label: object) -> np.random.Generator:
    return rng


def _problem(estimator: Any, arrays: tuple, groups: Groups | None) -> Problem:
    more = {} if groups is None else {"groups": groups}
    return estimator._problem(*arrays, **more)


def _paid_by(accountant: PrivacyAccountant) -> Any:
    """Identify the ledger that was charged, as plain data; None for one without a ceiling."""
    if math.isinf(getattr(accountant, "epsilon", math.inf)):
        return None
    return [accountant.path, accountant.name, accountant.partition_name]


def _rows(
    arrays: tuple[np.ndarray | None, ...], rows: np.ndarray | slice
) -> list[np.ndarray | None]:
    return [None if a is None else a[rows] for a in arrays]
