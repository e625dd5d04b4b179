"""Public settings of a federated run, from a `FederatedEstimator`'s parameters; no record."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any, Protocol, runtime_checkable

import numpy as np

from skriemdp._core.additive import Additive
from skriemdp._core.estimator import Data
from skriemdp._core.manifold_input import check_descent_domain, public_point
from skriemdp._core.parameters import check_parameters, check_target
from skriemdp._core.work import check_limit
from skriemdp._descent.problem import FrechetProblem, Problem
from skriemdp._descent.releases import check_run
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._random import check_random_state, public_generator
from skriemdp._validation import (
    check_count,
    check_fraction,
    check_jobs,
    check_option,
    check_path,
    check_positive,
    check_scale,
    shown,
)
from skriemdp._warnings import warn_user
from skriemdp.federated._loop import AGGREGATIONS
from skriemdp.federated._messages import check_release_name
from skriemdp.federated._releases import Participation
from skriemdp.federated._theory import ball_constant
from skriemdp.federated._training import LocalSettings, local_event
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.geometry._base import Geometry
from skriemdp.privacy._calibration import calibrate
from skriemdp.privacy._event import Event
from skriemdp.privacy._events import compose

# Root mean square length of the noise in a result, over the radius of the ball: half, and a tenth
# of that to spare (benchmarks/federated.py --only rounds).
_ROOM = 0.45


def check_settings(run: Any) -> None:
    """Raise unless the parameters of a `FederatedEstimator` make sense; nothing is spent."""
    if run.local == "statistic":
        _check_sums(run)
    elif not isinstance(run.estimator, Federable):
        raise PublicTypeError(
            "estimator must be a private estimator with a problem on a manifold "
            "(PrivateFrechetMean, PrivateRiemannianERM, ...); got "
            f"{type(run.estimator).__name__}."
        )
    check_target(run.estimator.epsilon, run.estimator.delta)
    check_option(("rsgd", "rsvrg", "statistic"), local=run.local)
    check_option(AGGREGATIONS, aggregation=run.aggregation)
    check_option(("last", "random"), output=run.output)
    check_option(("record", "client"), unit=run.unit)
    check_count(
        n_rounds=run.n_rounds, clients_per_round=run.clients_per_round, local_steps=run.local_steps
    )
    check_limit("most_rounds", n_rounds=run.n_rounds)
    check_limit("most_steps", local_steps=run.local_steps)
    check_scale(update_clip=run.update_clip)
    check_fraction(open_right=False, batch_fraction=run.batch_fraction)
    check_random_state(run.random_state)
    check_parameters(run)
    check_parameters(run.estimator)
    if run.clients_per_person is not None:
        check_count(clients_per_person=run.clients_per_person)
    check_jobs(run.n_jobs)
    if run.clip_norm is not None:
        check_scale(clip_norm=run.clip_norm)
    if run.local == "rsvrg" and run.batch_fraction >= 1.0:
        raise PublicValueError(
            "local='rsvrg' needs batch_fraction < 1: full batches have no variance."
        )
    _check_trust(run)
    if run.unit == "client":
        why = "unit='client' trains without local noise, and hides who trains"
        only = {"local": "rsgd", "batch_fraction": 1.0, "aggregation": "tangent-mean"}
        _check_only(run, why, **only, checkpoint=None)
    if run.checkpoint is not None and run.fit_id is None:
        raise PublicValueError("checkpoint needs a fit_id: the name under which the run resumes.")
    if run.checkpoint is not None:
        check_path(checkpoint=run.checkpoint)
    if run.fit_id is not None:
        check_release_name(run.fit_id)


def check_takes_groups(estimator: Any) -> None:
    """TypeError where clients train on an estimator's rows only."""
    if "groups" not in inspect.signature(estimator._problem).parameters:
        sums = ", or pass local='statistic'" if isinstance(estimator, Additive) else ""
        raise PublicTypeError(
            f"training at clients, {type(estimator).__name__} protects rows, not groups of them; "
            f"leave groups out, use PrivateFrechetMean or PrivateRiemannianERM{sums}."
        )


def _check_sums(run: Any) -> None:
    if not isinstance(run.estimator, Additive):
        raise PublicTypeError(
            "local='statistic' needs an estimator that learns from sums "
            "(PrivateMinimumDistanceToMean, PrivateFrechetMean, PrivatePrincipalEigenvector, "
            f"PrivateHyperbolicRegressor); got {type(run.estimator).__name__}."
        )
    why = "local='statistic' is one round of all clients, with nothing to resume"
    _check_only(run, why, n_rounds=1, unit="record", n_jobs=None, checkpoint=None)


def _check_only(run: Any, why: str, **only: Any) -> None:
    """ValueError where a parameter has another value than the only one that is possible."""
    for name, value in only.items():
        if getattr(run, name) != value:
            raise PublicValueError(
                f"{why}; pass {name}={value!r} (got {shown(getattr(run, name))})."
            )


def _check_trust(run: Any) -> None:
    check_option((None, "nobody", "cohort", "aggregator"), trust=run.trust)
    check_count(colluding=run.colluding)
    if run.colluding != 1 and run.trust != "cohort":
        raise PublicValueError(
            f"colluding={run.colluding} is for trust='cohort'; leave it out with "
            f"trust={run.trust!r}."
        )
    if run.unit == "client" and run.trust not in (None, "aggregator"):
        raise PublicValueError(
            "whole clients are protected by an aggregator that they trust; with unit='client' pass "
            f"trust='aggregator' (got {run.trust!r})."
        )
    if run.unit == "record" and run.local != "statistic" and run.trust not in (None, "nobody"):
        raise PublicValueError(
            f"trust={run.trust!r} adds up sums, and clients with local={run.local!r} send points; "
            "pass local='statistic' with n_rounds=1, or trust='nobody'."
        )


def domain_and_start(
    run: Any, estimator: Federable, problem: Problem
) -> tuple[GeodesicBall | None, np.ndarray]:
    """Public ball of the iterates, or None, and the public start."""
    geometry: Any = problem.geometry
    domain, start = estimator._domain_and_start(geometry, run.start)
    check_descent_domain(geometry, domain)
    if run.start is not None:
        start = public_point(geometry, start=run.start)
        start = start if domain is None else domain.project(start)
    elif domain is not None and start is None:
        start = domain.center
    elif start is None:
        # Base points are often critical points: a first component that is a coordinate.
        start = geometry.random_point(public_generator(0, "start"))
    return domain, np.asarray(start, dtype=float)


def local_settings(
    run: Any, estimator: Federable, problem: Problem, start: np.ndarray
) -> LocalSettings:
    """Derive the settings of local training: clip norm, step size, number of steps."""
    clip = run.clip_norm
    if clip is None:
        clip = getattr(estimator, "clip_norm", None)
    if clip is None:
        clip = _own_clip(run, problem, start)
    step_size = run.step_size
    if np.ndim(step_size) == 0:
        check_positive(step_size=step_size)
        step_size = float(step_size)
    else:
        if np.shape(step_size) != (run.n_rounds,):
            raise PublicValueError(
                f"step_size must be a number, or n_rounds={run.n_rounds} of them."
            )
        step_size = tuple(float(step) for step in step_size)
        for step in step_size:
            check_positive(step_size=step)
    return LocalSettings(
        run.local,
        int(run.local_steps),
        step_size,
        float(run.batch_fraction),
        float(clip),
        _smoothness(run, problem),
    )


def _smoothness(run: Any, problem: Problem) -> float | None:
    if run.smoothness is not None:
        check_positive(smoothness=run.smoothness)
        return float(run.smoothness)
    return ball_constant(problem.ball) if isinstance(problem, FrechetProblem) else None


def _own_clip(run: Any, problem: Problem, start: np.ndarray) -> float:
    """A clip norm that shortens nothing, from public bounds; infinite where none is needed."""
    if isinstance(problem, FrechetProblem):
        # A logarithm within the ball is no longer than its diameter.  On Hadamard spaces the
        # problem's own bounds are finite everywhere.
        return math.inf if problem.geometry.is_hadamard else 2.0 * problem.ball.radius
    bound = problem.gradient_ball(start).radius
    if not math.isfinite(bound):
        raise PublicValueError("this problem has no public gradient bound; pass clip_norm.")
    return bound if run.local == "rsvrg" else math.inf


def calibrated(
    run: Any,
    participation: Participation,
    settings: LocalSettings,
    problem: Problem,
    clients: int = 1,
) -> tuple[Event, float]:
    """Event of the whole run, and the noise multiplier it needs.

    `clients` is the number of clients that one person may be in.
    """
    epsilon, delta = float(run.estimator.epsilon), float(run.estimator.delta)
    if delta == 0:
        raise PublicValueError("delta=0 cannot be had from Gaussian noise; pass delta > 0.")
    whole = run.unit == "client"
    integers = problem.geometry.dim if whole else problem.integers_of_a_step

    def event(multiplier: float) -> Event:
        if whole:
            return participation.client_event(multiplier, integers)
        return participation.record_event(local_event(settings, multiplier, integers), clients)

    noise = calibrate(event, epsilon, delta, (0.05, 1e5))
    check_run((noise,), integers)
    return event(noise), noise


def affordable(
    run: Any,
    participation: Participation,
    settings: LocalSettings,
    problem: Problem,
    domain: GeodesicBall | None,
    start: np.ndarray,
    sizes: dict[int, int],
    clients: int = 1,
) -> tuple[Participation | None, Event, float]:
    """Rounds whose noise stays within half of the public ball, their event and noise multiplier.

    More would end farther from the answer than the start is, so a warning says how many are left;
    None where one is too many.  Without a public ball nothing tells how much noise is too much, and
    all rounds are made.

    Parameters
    ----------
    run : FederatedEstimator
    participation : Participation
    settings : LocalSettings
    problem : Problem
    domain : GeodesicBall or None
    start : ndarray
    sizes : dict
        Public numbers of records of the clients, with ``unit="record"``.
    clients : int
        Of one person.
    """
    event, noise = calibrated(run, participation, settings, problem, clients)
    if domain is None:
        return participation, event, noise
    asked, room = participation.n_rounds, _ROOM * float(domain.radius)
    while (far := _noise_length(run, participation, settings, problem, start, sizes, noise)) > room:
        # Noise grows at least like the root of the rounds, and its events are no smaller than it.
        fewer = int(participation.n_rounds * min(room / far, 1.0))
        if fewer == participation.n_rounds:
            fewer -= 1
        if fewer < 1:
            warn_user(
                "the noise of one round is longer than half of the public ball, so no client is "
                "asked anything: the result is the public start (n_rounds_). Use more records, a "
                "larger epsilon or a smaller ball."
            )
            return None, compose([]), noise
        participation = dataclasses.replace(participation, n_rounds=fewer)
        event, noise = calibrated(run, participation, settings, problem, clients)
    if participation.n_rounds < asked:
        warn_user(
            f"n_rounds={asked} would add up to more noise than half of the public ball, and end "
            f"farther from the answer than the start; {participation.n_rounds} are made "
            "(n_rounds_). Use more records or a larger epsilon, or ask for fewer rounds."
        )
    return participation, event, noise


def _noise_length(
    run: Any,
    participation: Participation,
    settings: LocalSettings,
    problem: Problem,
    start: np.ndarray,
    sizes: dict[int, int],
    noise: float,
) -> float:
    """About the root mean square length of the noise in the last point of a run; public.

    Steps of a mean forget a share of what came before, those of other costs may forget nothing.
    """
    step, steps = float(np.max(settings.step_size)), settings.n_steps
    if run.unit == "client":
        one = 2.0 * float(run.update_clip) / participation.clients_per_round
        forgotten, count = 1.0 - max(1.0 - step, 0.0) ** steps, participation.n_rounds
    else:
        bound = problem.clipped_gradient_ball(start, settings.clip_norm).radius
        counts = settings.batch_fraction * np.array(list(sizes.values()), dtype=float)
        one = 2.0 * bound * math.sqrt(np.mean(counts**-2.0) / participation.clients_per_round)
        forgotten, count = step, participation.n_rounds * steps
        if settings.method == "rsvrg":  # the noise of an anchor is in all steps after it
            step *= steps + 1
            step = min(step, 1.0) if isinstance(problem, FrechetProblem) else step
            forgotten, count = step, participation.n_rounds
        one *= step
    kept = float(count)
    if isinstance(problem, FrechetProblem) and forgotten < 2.0:
        kept = min(kept, 1.0 / (forgotten * (2.0 - forgotten)))
    return noise * one * math.sqrt(kept * problem.geometry.dim)


@runtime_checkable
class Federable(Protocol):
    """A private estimator with a problem on a manifold and public bounds.

    Attributes
    ----------
    epsilon, delta : float
        Of the whole run.
    accountant : PrivacyAccountant or None
    """

    epsilon: float
    delta: float
    accountant: Any

    def _records(self, data: Data) -> tuple:
        """Arrays with one row per record, from validated input."""
        ...

    def _problem(self, X: Any, y: Any = None) -> Problem:
        """The risk on these rows; its bounds and geometry are the same for any."""
        ...

    def _domain_and_start(
        self, geometry: Geometry, start: Any = None
    ) -> tuple[GeodesicBall | None, np.ndarray | None]:
        """Public ball of the iterates, None for everywhere; and a public start, None for any."""
        ...

    def _adopt_point(self, point: np.ndarray) -> None:
        """Set the learned attributes from a released point."""
        ...
