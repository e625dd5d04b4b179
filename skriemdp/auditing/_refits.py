"""An audit of an estimator: fit it many times on two neighbouring data sets and tell them apart."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone

from skriemdp._errors import PublicValueError
from skriemdp._selection.parts import Uncharged
from skriemdp._validation import (
    check_count,
    check_fraction,
    check_instance,
    check_jobs,
    check_methods,
)
from skriemdp.auditing._bounds import AuditResult, audit_scores
from skriemdp.auditing._canaries import Neighbours, worst_case_neighbours

if TYPE_CHECKING:
    from skriemdp._mean.estimator import PrivateFrechetMean


@dataclass(frozen=True)
class EstimatorAudit:
    """The epsilon that an estimator states, beside the lower bounds that an attack found.

    Attributes
    ----------
    estimator, event : str
        Names of the estimator's class and of what it was charged.
    stated : float
        Epsilon that the estimator states at `delta`.
    audited : float
        Lower confidence bound on epsilon at `delta`: by the Gaussian bound where the release is
        exactly Gaussian, else without assumptions.
    delta, confidence : float
    trials : int
        Fits on each of the two data sets.
    bounds : AuditResult
        All bounds of the attack.
    """

    estimator: str
    event: str
    stated: float
    audited: float
    delta: float
    confidence: float
    trials: int
    bounds: AuditResult

    @property
    def factor(self) -> float:
        """Stated over audited; 1 is a perfect attack on a tight guarantee."""
        return self.stated / self.audited if self.audited > 0 else math.inf

    @property
    def refuted(self) -> bool:
        """Whether the statement is false (wrongly so with probability ``1 - confidence``)."""
        return self.audited > self.stated


def _scores(
    model: PrivateFrechetMean, arguments: tuple[np.ndarray], score: Callable[..., Any], count: int
) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # worst cases look like bad data
        return [score(model.fit(*arguments)) for _ in range(count)]


def audit_estimator(
    estimator: Any,
    neighbours: Neighbours | None = None,
    *,
    trials: int = 1000,
    delta: float | None = None,
    confidence: float = 0.95,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> EstimatorAudit:
    """Fit an estimator many times on two neighbouring data sets, and try to tell which is which.

    Parameters
    ----------
    estimator : estimator
        With ``random_state=None``: noise comes from the operating system in every fit.
    neighbours : Neighbours, optional
        By default :func:`worst_case_neighbours` of the estimator.  The fits are not charged to any
        ledger, so the records must be made up or public.
    trials : int, default=1000
        Fits per data set; a fifth of them choose the threshold, the others are counted.
    delta : float, optional
        Where epsilons are compared; by default that of the estimator.
    confidence : float, default=0.95
        Probability that the bound found is below the true epsilon.
    n_jobs : int, optional
        Worker processes, as in joblib.
    verbose : int, default=0
        1 shows the progress.

    Returns
    -------
    EstimatorAudit

    Raises
    ------
    ValueError
        If `estimator` is seeded: repeated noise would audit nothing.

    Notes
    -----
    Every trial is a complete ``fit``: validation, projection, calibration, charge (to an account
    without a ceiling), noise.  A small bound proves nothing; a bound above the stated epsilon
    disproves it.

    Examples
    --------
    >>> from skriemdp import PrivateFrechetMean
    >>> from skriemdp.auditing import audit_estimator
    >>> model = PrivateFrechetMean(radius=1.0, noise="gaussian", mechanism="tangent", epsilon=4.0)
    >>> audit = audit_estimator(model, trials=200, confidence=1 - 1e-8)
    >>> audit.stated, audit.refuted
    (4.0, False)
    """
    check_methods("a private estimator", "fit", "get_params", estimator=estimator)
    check_count(minimum=50, trials=trials)
    check_fraction(confidence=confidence)
    check_jobs(n_jobs)
    for name, value in estimator.get_params(deep=True).items():
        if name.split("__")[-1] == "random_state" and value is not None:
            raise PublicValueError(
                f"{name} must be None: a seed repeats the same noise, and equal outputs audit "
                "nothing."
            )
    pair = worst_case_neighbours(estimator) if neighbours is None else neighbours
    check_instance(Neighbours, "pass Neighbours(data, neighbour, score)", neighbours=pair)
    # The records are made up, or public; what is protected is what the estimator's ledger does.
    unit = getattr(getattr(estimator, "accountant", None), "unit", None)
    model = clone(estimator).set_params(accountant=Uncharged(unit))
    # A model that was fitted here could not be fitted by other processes.
    spent = _scores(clone(model), pair.data, lambda fitted: fitted.privacy_spent_, 1)[0]
    gaussian = spent.event.mu is not None
    if delta is None:
        delta, stated = spent.delta, spent.epsilon
    else:
        check_fraction(open_left=False, delta=delta)
        stated = float(spent.event.epsilon(delta))
    batch = max(1, min(50, trials // (2 * effective_n_jobs(n_jobs))))
    sizes = [batch] * (trials // batch) + [trials % batch] * (trials % batch > 0)
    tasks = [(side, size) for size in sizes for side in (0, 1)]
    runs = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_scores)(model, (pair.data, pair.neighbour)[side], pair.score, size)
        for side, size in tasks
    )
    scores: tuple[list, list] = ([], [])
    for (side, _), found in zip(tasks, runs, strict=True):
        scores[side].extend(found)
        if verbose:
            done = len(scores[0]) + len(scores[1])
            end = "\n" if done == 2 * trials else ""
            sys.stderr.write(f"\raudit of {type(estimator).__name__}: fit {done}/{2 * trials}{end}")
    # Share of the trials that chooses a threshold; the others count.  The score is known
    # beforehand.
    bounds = audit_scores(
        *map(np.asarray, scores), delta=delta, confidence=confidence, tuning_share=0.2
    )
    return EstimatorAudit(
        estimator=type(estimator).__name__,
        event=type(spent.event).__name__,
        stated=float(stated),
        audited=bounds.epsilon_gdp if gaussian else bounds.epsilon,
        delta=float(delta),
        confidence=float(confidence),
        trials=trials,
        bounds=bounds,
    )
