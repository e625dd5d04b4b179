"""Lower bounds on the epsilon of any release, from runs on two neighbouring data sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import beta

from skriemdp._errors import PublicValueError
from skriemdp._quiet import quiet, read_numbers
from skriemdp._validation import check_count, check_fraction
from skriemdp.privacy._calibration import gaussian_epsilon

# Error probability of the intervals by which a threshold is chosen, on other trials than those of
# the reported bound, whose confidence does not depend on it.
_CHOICE_ERROR = 0.01


@dataclass(frozen=True)
class AuditResult:
    """Lower confidence bounds of one audit.

    Attributes
    ----------
    epsilon : float
        Distribution-free lower bound on epsilon at `delta` (Clopper-Pearson).
    mu : float
        Lower bound on mu if the release is mu-GDP; much tighter for Gaussian releases.
    epsilon_gdp : float
        The epsilon at `delta` that goes with `mu`.
    delta, confidence : float
    trials : int
        Runs per data set whose outcome was counted (not those that chose the attack).
    """

    epsilon: float
    mu: float
    epsilon_gdp: float
    delta: float
    confidence: float
    trials: int


def _clopper_pearson(successes: float, trials: int, error: float) -> tuple[float, float]:
    """One-sided lower and upper bounds, each wrong with probability at most `error`."""
    low = 0.0 if successes == 0 else float(beta.ppf(error, successes, trials - successes + 1))
    high = (
        1.0
        if successes == trials
        else float(beta.ppf(1.0 - error, successes + 1, trials - successes))
    )
    return low, high


def _bounds(
    false_hits: float,
    true_hits: float,
    trials: int,
    trials_neighbour: int,
    delta: float,
    error: float,
) -> tuple[float, float]:
    _, false_high = _clopper_pearson(false_hits, trials, error)
    true_low, _ = _clopper_pearson(true_hits, trials_neighbour, error)
    # The event of a high score on the neighbour, and of a low score on the other side.
    pairs = (true_low, false_high), (1.0 - false_high, 1.0 - true_low)
    epsilon = max(np.log((p - delta) / q) if p > delta else -np.inf for p, q in pairs)
    return float(epsilon), float(ndtri(true_low) - ndtri(false_high))


def _hits(threshold: float, scores: np.ndarray) -> int:
    return int((scores > threshold).sum())


@quiet
def audit_scores(
    scores: np.ndarray,
    scores_neighbour: np.ndarray,
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
    tuning_share: float = 0.5,
) -> AuditResult:
    """Audit from one-dimensional scores of the two sides; higher means "the neighbour".

    The first runs of each side choose the thresholds, the others are counted, so the bounds hold
    for any score that was fixed beforehand, whatever the number of thresholds tried.

    Parameters
    ----------
    scores, scores_neighbour : array-like of shape (trials,)
    delta : float
    confidence : float
        Probability with which each of the lower bounds holds, on its own.
    tuning_share : float, default=0.5
        Share of the runs that chooses the thresholds.  A half where the score was learned on the
        first half of the runs; less is enough for a score that was known before.
    """
    check_fraction(open_left=False, delta=delta)
    check_fraction(confidence=confidence, tuning_share=tuning_share)
    scores = read_numbers(scores, "scores", ensure_all_finite=False)
    scores_neighbour = read_numbers(scores_neighbour, "scores_neighbour", ensure_all_finite=False)
    if not scores.ndim == scores_neighbour.ndim == 1:
        raise PublicValueError(
            "scores and scores_neighbour must be one number for each run, got shapes "
            f"{scores.shape} and {scores_neighbour.shape}."
        )
    half, other = (int(tuning_share * len(s)) for s in (scores, scores_neighbour))
    counts = len(scores) - half, len(scores_neighbour) - other
    check_count(minimum=10, trials=min(half, other, *counts))
    # A union bound over the two Clopper-Pearson intervals of one threshold.
    error = (1.0 - confidence) / 2.0
    candidates = np.quantile(
        np.concatenate([scores[:half], scores_neighbour[:other]]), np.linspace(0.005, 0.995, 199)
    )
    # What each threshold promises: the bounds of as many hits among the runs that will be counted.
    # Far out few runs promise much by chance, so the rates are first moved to their own bounds.
    promised = []
    for threshold in candidates:
        _, rate = _clopper_pearson(_hits(threshold, scores[:half]), half, _CHOICE_ERROR)
        rate_neighbour, _ = _clopper_pearson(
            _hits(threshold, scores_neighbour[:other]), other, _CHOICE_ERROR
        )
        hits = rate * counts[0], rate_neighbour * counts[1]
        promised.append(_bounds(*hits, *counts, delta, error))
    chosen = candidates[np.argmax(np.asarray(promised), axis=0)]
    found = [
        _bounds(_hits(t, scores[half:]), _hits(t, scores_neighbour[other:]), *counts, delta, error)
        for t in chosen
    ]
    epsilon, mu = max(0.0, found[0][0]), max(0.0, found[1][1])
    return AuditResult(
        epsilon=epsilon,
        mu=mu,
        epsilon_gdp=gaussian_epsilon(mu, delta) if mu > 0 and delta > 0 else 0.0,
        delta=float(delta),
        confidence=float(confidence),
        trials=min(counts),
    )


def _linear_score(
    outputs: np.ndarray, outputs_neighbour: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fisher's linear discriminant, learned on the first half of each side."""
    half, other = len(outputs) // 2, len(outputs_neighbour) // 2
    left, right = outputs[:half], outputs_neighbour[:other]
    pooled = np.atleast_2d(np.cov(left.T)) + np.atleast_2d(np.cov(right.T))
    ridge = 1e-9 * np.trace(pooled) / len(pooled) + np.finfo(float).tiny
    direction = np.linalg.solve(
        pooled + ridge * np.eye(len(pooled)), right.mean(axis=0) - left.mean(axis=0)
    )
    return outputs @ direction, outputs_neighbour @ direction


@quiet
def audit_epsilon(
    release: Callable[..., Any],
    X: Any,
    X_neighbour: Any,
    *,
    trials: int = 2000,
    delta: float = 1e-5,
    confidence: float = 0.95,
    statistic: Callable[..., Any] | None = None,
) -> AuditResult:
    """Lower confidence bound on the epsilon of `release`, by telling two data sets apart.

    Parameters
    ----------
    release : callable
        ``release(data, trials)`` returns that many independent releases, an array of shape
        ``(trials, ...)``.
    X, X_neighbour : any
        Data sets that differ in one record; the closer they are to the worst case of the mechanism,
        the tighter the bound.
    trials : int
        Releases per data set; half of them choose the attack, half are counted.
    delta : float
    confidence : float
        Probability with which a reported bound holds.
    statistic : callable, optional
        Maps outputs of shape ``(m, ...)`` to scores ``(m,)`` that are higher for `X_neighbour`.  By
        default a linear discriminant learned on the first half of the releases.

    Returns
    -------
    AuditResult

    Notes
    -----
    If the release is (epsilon, delta)-DP then, with probability `confidence`, the returned
    `epsilon` is below epsilon; a larger value disproves the claim.  The converse is not true: a
    small bound proves nothing, because the attack may be weak.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.auditing import audit_epsilon
    >>> rng = np.random.default_rng(0)
    >>> noisy_mean = lambda x, trials: x.mean() + rng.normal(0, 0.1, size=trials)
    >>> x = np.zeros(10)
    >>> y = x.copy()
    >>> y[0] = 1.0                                    # sensitivity 0.1, noise 0.1: mu = 1
    >>> audit_epsilon(noisy_mean, x, y, trials=4000).mu <= 1.0
    True
    """
    check_count(minimum=40, trials=trials)
    outputs, outputs_neighbour = (
        read_numbers(release(data, trials), "release(data, trials)", ensure_all_finite=False)
        for data in (X, X_neighbour)
    )
    outputs, outputs_neighbour = outputs.reshape(trials, -1), outputs_neighbour.reshape(trials, -1)
    if statistic is None:
        scores, scores_neighbour = _linear_score(outputs, outputs_neighbour)
    else:
        scores, scores_neighbour = statistic(outputs), statistic(outputs_neighbour)
    return audit_scores(scores, scores_neighbour, delta=delta, confidence=confidence)
