"""`FederatedEstimator`: an estimator with a problem, trained by clients that keep their data."""

from __future__ import annotations

import hashlib
import math
import secrets
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skriemdp._base import PrivateEstimator
from skriemdp._random import NoiseStreams, check_random_state, data_digest, public_generator
from skriemdp._validation import check_count, check_fraction, check_option, check_positive
from skriemdp.federated.agent import Agent
from skriemdp.federated.loop import AGGREGATIONS, Checkpoint, ServerLoop
from skriemdp.federated.participation import Participation
from skriemdp.federated.training import LocalSettings, local_event, train_without_noise
from skriemdp.federated.transport import InProcessTransport, JoblibTransport
from skriemdp.mechanisms.tangent import TangentGaussian
from skriemdp.privacy.accountant import current_accountant
from skriemdp.privacy.calibration import calibrate
from skriemdp.privacy.spent import PrivacySpent

__all__ = ["FederatedEstimator"]

ENGINES = ("in-process", "joblib")
_BRACKET = (0.05, 1e5)


class FederatedEstimator(MetaEstimatorMixin, BaseEstimator):
    """PriRFed: clients train privately on their own records, a server averages on the manifold.

    Parameters
    ----------
    estimator : PrivateEstimator
        One with a problem on a manifold and public bounds: `PrivateFrechetMean`,
        `PrivatePrincipalEigenvector(row_norm=<number>)`, `PrivateRiemannianERM`.  Its (epsilon,
        delta) is the total of the whole run for every record (or client).
    n_rounds, clients_per_round : int
    local : {"rsgd", "rsvrg"}, default="rsgd"
        Local training: DP-RSGD, or the anchor-noised DP-RSVRG.
    local_steps : int, default=1
    local_epochs : int, default=1
        Anchors per round of "rsvrg".
    step_size : float, default=1.0
        Public.
    batch_fraction : float, default=1.0
        Share of a client's records in a Poisson batch; 1 is the full batch.
    clip_norm : float, optional
        Riemannian norm of a record's gradient; by default the problem's own bound.
    participation : {"schedule", "uniform"}, default="schedule"
        Clients take turns, or uniform random subsets as published; see `Participation`.
    aggregation : {"tangent-mean", "frechet"}, default="tangent-mean"
    output : {"last", "random"}, default="last"
    engine : {"in-process", "joblib"}, default="in-process"
        Simulation of the clients; for real deployment see :mod:`skriemdp.federated.flower`.
    n_jobs : int, optional
        Workers of "joblib".
    unit : {"record", "client"}, default="record"
        Whom epsilon protects.  "record": against everyone, the server included.  "client": a whole
        client, against all but a trusted aggregator that hides who trained.
    update_clip : float, default=1.0
        Riemannian norm of a client's update with ``unit="client"``.
    start : ndarray, optional
        Public start; by default the problem's centre or base point.
    checkpoint : path, optional
        File from which an interrupted fit resumes (with the same `fit_id`).
    fit_id : str, optional
        Names the run; drawn at random by default.
    accountant, random_state, public_seed, verbose
        As for every estimator.

    Attributes
    ----------
    estimator_ : PrivateEstimator
        A copy of `estimator` whose learned point is the federated one.
    point_ : ndarray
    privacy_spent_ : PrivacySpent
        Of the client that trained most often.
    privacy_spent_by_client_ : dict
        Client to PrivacySpent (``unit="record"``): of its own rounds when clients take turns; the
        same for all with ``participation="uniform"``, where the coins are part of the guarantee.
    refused_updates_ : list of str
        Why uploads were not used.

    Notes
    -----
    *Guarantee*: client ids and their numbers of records are public.  ``unit="record"``: replacing
    one record of one client changes the distribution of all uploads of the run by at most (epsilon,
    delta); sampling clients is not counted as amplification, because the server sees who trains
    (docs/theory/federated.md).

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
    >>> model = FederatedEstimator(PrivateFrechetMean(epsilon=1.0), 4, 3)
    >>> tuple(model.fit(X, groups=hospitals).privacy_spent_)
    (1.0, 1e-05)
    """

    __metadata_request__fit = {"groups": True}

    def __init__(
        self,
        estimator,
        n_rounds=10,
        clients_per_round=1,
        *,
        local="rsgd",
        local_steps=1,
        local_epochs=1,
        step_size=1.0,
        batch_fraction=1.0,
        clip_norm=None,
        participation="schedule",
        aggregation="tangent-mean",
        output="last",
        engine="in-process",
        n_jobs=None,
        unit="record",
        update_clip=1.0,
        start=None,
        checkpoint=None,
        fit_id=None,
        accountant=None,
        random_state=None,
        public_seed=0,
        verbose=0,
    ):
        self.estimator = estimator
        self.n_rounds = n_rounds
        self.clients_per_round = clients_per_round
        self.local = local
        self.local_steps = local_steps
        self.local_epochs = local_epochs
        self.step_size = step_size
        self.batch_fraction = batch_fraction
        self.clip_norm = clip_norm
        self.participation = participation
        self.aggregation = aggregation
        self.output = output
        self.engine = engine
        self.n_jobs = n_jobs
        self.unit = unit
        self.update_clip = update_clip
        self.start = start
        self.checkpoint = checkpoint
        self.fit_id = fit_id
        self.accountant = accountant
        self.random_state = random_state
        self.public_seed = public_seed
        self.verbose = verbose

    def fit(self, X, y=None, groups=None):
        """Simulate the federation on records that `groups` assigns to clients.

        Parameters
        ----------
        X, y
            As for `estimator`.
        groups : array-like of shape (n,)
            Public client id of each record.

        Returns
        -------
        self
        """
        settings = self._checked_settings()
        data = self.estimator._validate(X, y)
        clients, members = _members(groups, len(data.arrays[0]))
        # Whole clients are protected by hiding who trains, so they cannot take turns.
        rule = "uniform" if self.unit == "client" else self.participation
        participation = Participation(len(clients), self.n_rounds, self.clients_per_round, rule)
        problems = {
            client: self.estimator._problem(*_rows(data.arrays, rows))
            for client, rows in zip(clients, members, strict=True)
        }
        first = problems[clients[0]]
        settings = self._with_clip(settings, first)
        event, noise = self._calibrated(participation, settings)
        self._charge(event)
        digest = b"" if self.random_state is None else data_digest(*data.arrays)
        context = b"federated" + digest + repr(event.to_dict()).encode()
        streams = NoiseStreams(self.random_state, context)
        point, drawn = self._run(
            first.geometry, problems, participation, settings, noise, streams, context
        )
        self._report(point, event, settings, noise, drawn, clients, streams.seeded)
        return self

    # -- public settings ------------------------------------------------------------------------

    def _checked_settings(self) -> LocalSettings:
        if not isinstance(self.estimator, PrivateEstimator) or not hasattr(
            self.estimator, "_problem"
        ):
            raise TypeError(
                "estimator must be a private estimator with a problem on a manifold "
                "(PrivateFrechetMean, PrivateRiemannianERM, ...); got "
                f"{type(self.estimator).__name__}."
            )
        check_option(("rsgd", "rsvrg"), local=self.local)
        check_option(ENGINES, engine=self.engine)
        check_option(AGGREGATIONS, aggregation=self.aggregation)
        check_option(("last", "random"), output=self.output)
        check_option(("record", "client"), unit=self.unit)
        check_count(local_steps=self.local_steps, local_epochs=self.local_epochs)
        check_positive(step_size=self.step_size, update_clip=self.update_clip)
        check_fraction(open_right=False, batch_fraction=self.batch_fraction)
        check_random_state(self.random_state)
        if self.local == "rsvrg" and self.batch_fraction >= 1.0:
            raise ValueError(
                "local='rsvrg' needs batch_fraction < 1: full batches have no variance."
            )
        clip = math.inf if self.clip_norm is None else self.clip_norm
        check_positive(allow_inf=True, clip_norm=clip)
        return LocalSettings(
            self.local,
            self.local_steps,
            self.local_epochs,
            float(self.step_size),
            float(self.batch_fraction),
            float(clip),
        )

    def _with_clip(self, settings, problem) -> LocalSettings:
        """A finite clip norm where the problem's own bounds do not suffice; from public numbers."""
        if settings.clip_norm < math.inf or (self.unit == "client" and self.local == "rsgd"):
            return settings
        bound = problem.gradient_norm_bound(self._start(problem))
        needed = self.local == "rsvrg" or not math.isfinite(bound)
        if not needed:
            return settings
        if not math.isfinite(bound):
            raise ValueError("this problem has no public gradient bound; pass clip_norm.")
        return _replace(settings, clip_norm=2.0 * bound)

    def _start(self, problem):
        if self.start is not None:
            return np.asarray(self.start, dtype=float).reshape(problem.geometry.shape)
        ball = getattr(problem, "ball", None)
        if ball is not None:
            return np.asarray(ball.center)
        if hasattr(problem.geometry, "random_point"):
            return problem.geometry.random_point(public_generator(self.public_seed, "start"))
        return problem.geometry.base_point

    def _calibrated(self, participation, settings):
        """Event of the whole run, and the noise multiplier that it needs."""
        epsilon, delta = self.estimator.epsilon, self.estimator.delta
        if self.unit == "client":
            noise = calibrate(participation.client_event, epsilon, delta, _BRACKET)
            return participation.client_event(noise), noise

        def event(multiplier):
            return participation.record_event(local_event(settings, multiplier))

        noise = calibrate(event, epsilon, delta, _BRACKET)
        return event(noise), noise

    def _charge(self, event):
        accountant = current_accountant() if self.accountant is None else self.accountant
        accountant.spend(
            event,
            label=type(self).__name__,
            params={"estimator": type(self.estimator).__name__, "unit": self.unit},
        )

    # -- the run --------------------------------------------------------------------------------

    def _run(self, geometry, problems, participation, settings, noise, streams, context):
        clients = sorted(problems, key=str)
        rng = streams("participation")
        schedule = participation.draw(rng)
        pick = int(rng.integers(self.n_rounds)) if self.output == "random" else -1
        fit_id = self.fit_id
        if fit_id is None:
            fit_id = secrets.token_hex(8) if not streams.seeded else "seeded"
        domain = getattr(problems[clients[0]], "ball", None)
        loop = ServerLoop(
            geometry=geometry,
            schedule=tuple(tuple(clients[i] for i in row) for row in schedule),
            weights={client: problem.n for client, problem in problems.items()},
            aggregation=self.aggregation,
            output=self.output,
            pick=pick,
            domain=domain,
        )
        start = self._start(problems[clients[0]])
        checkpoint = None if self.checkpoint is None else Checkpoint(self.checkpoint)
        callback = _progress if self.verbose else None
        if self.unit == "client":
            point = self._run_trusted(loop, problems, settings, noise, start, streams, callback)
            self.refused_updates_ = []
            return point, loop.schedule
        agents = {
            client: Agent(
                client,
                problem,
                settings,
                noise,
                domain,
                random_state=self.random_state,
                context=context + hashlib.blake2b(fit_id.encode()).digest(),
            )
            for client, problem in problems.items()
        }
        if self.engine == "joblib":
            transport: Any = JoblibTransport(agents, -1 if self.n_jobs is None else self.n_jobs)
        else:
            transport = InProcessTransport(agents)
        point, refusals = loop.run(transport, start, fit_id, checkpoint, callback)
        self.refused_updates_ = [str(refusal) for refusal in refusals]
        return point, loop.schedule

    def _run_trusted(self, loop, problems, settings, noise, start, streams, callback):
        """Client unit: noise on the mean of clipped updates, at the aggregator."""
        geometry, point, chosen = loop.geometry, start, start
        mechanism = TangentGaussian(
            geometry, 2.0 * self.update_clip / self.clients_per_round, noise
        )
        rng = streams("aggregator")
        for t, row in enumerate(loop.schedule):
            moves = [
                geometry.log(point, train_without_noise(problems[client], point, settings))
                for client in row
            ]
            norms = np.array([float(geometry.norm(point, move)) for move in moves])
            scale = np.minimum(1.0, self.update_clip / np.maximum(norms, 1e-300))
            mean = np.tensordot(scale, np.stack(moves), axes=(0, 0)) / len(row)
            point = geometry.exp(point, mechanism.release(point, mean, rng))
            if loop.domain is not None:
                point = loop.domain.project(point)
            if loop.output == "last" or t == loop.pick:
                chosen = point
            if callback is not None:
                callback(t + 1, len(loop.schedule), point)
        return chosen

    # -- the result -----------------------------------------------------------------------------

    def _report(self, point, event, settings, noise, schedule, clients, seeded):
        from sklearn.base import clone

        self.point_ = np.asarray(point)
        self.noise_multiplier_ = noise
        guarantee = "none (seeded)" if seeded else "exact"
        public = {"clients": list(map(str, clients)), "n_rounds": self.n_rounds}
        target = (float(self.estimator.epsilon), float(self.estimator.delta))
        self.privacy_spent_ = PrivacySpent(
            *target, event, self.unit, guarantee, seeded, public, "replace-one"
        )
        if self.unit == "record":
            self.privacy_spent_by_client_ = self._spent_by_client(
                settings, noise, schedule, clients, guarantee, seeded, public
            )
        self.estimator_ = clone(self.estimator)
        adopt = getattr(self.estimator_, "_adopt_point", None)
        if adopt is not None:
            adopt(self.point_)
            self.estimator_.privacy_spent_ = self.privacy_spent_

    def _spent_by_client(self, settings, noise, schedule, clients, guarantee, seeded, public):
        from skriemdp.privacy.events import compose

        if self.participation == "uniform":
            # The guarantee averages over the coins; what the coins came to is not a guarantee.
            return dict.fromkeys(clients, self.privacy_spent_)
        local = local_event(settings, noise)
        delta, spent = float(self.estimator.delta), {}
        for client in clients:
            event = compose([local] * sum(client in row for row in schedule))
            spent[client] = PrivacySpent(
                float(event.epsilon(delta)), delta, event, "record", guarantee, seeded, public
            )
        return spent

    @available_if(lambda self: hasattr(self.estimator, "predict"))
    def predict(self, X):
        """``estimator_.predict(X)`` at the federated point."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @available_if(lambda self: hasattr(self.estimator, "transform"))
    def transform(self, X):
        """``estimator_.transform(X)`` at the federated point."""
        check_is_fitted(self)
        return self.estimator_.transform(X)

    @available_if(lambda self: hasattr(self.estimator, "score"))
    def score(self, X, y=None):
        """``estimator_.score(X, y)`` at the federated point; not private for the rows given."""
        check_is_fitted(self)
        return self.estimator_.score(X, y)


def _members(groups, n):
    if groups is None:
        raise ValueError("groups is required: the public client id of every record.")
    groups = np.asarray(groups)
    check_consistent_length(groups, np.empty(n))
    clients, index = np.unique(groups, return_inverse=True)
    members = [np.flatnonzero(index == k) for k in range(len(clients))]
    if min(map(len, members)) < 2:
        raise ValueError("every client needs at least 2 records.")
    return [c.item() if hasattr(c, "item") else c for c in clients], members


def _rows(arrays, rows):
    return [None if a is None else a[rows] for a in arrays]


def _replace(settings, **changes):
    import dataclasses

    return dataclasses.replace(settings, **changes)


def _progress(step, n_steps, point):
    import sys

    end = "\n" if step == n_steps else "\r"
    sys.stderr.write(f"federated round {step}/{n_steps}{end}")
