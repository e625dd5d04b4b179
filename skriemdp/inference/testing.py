"""Tests of hypotheses about private means."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from skriemdp._random import public_generator
from skriemdp.inference.covariances import transport_matrix
from skriemdp.inference.moments import MeanInference

__all__ = ["MeanTestResult", "mean_test"]

_DRAWS, _VALUES = 60, 100
# Below it a p-value is read off a scaled chi-square law, not off ranks.
_SMALLEST_RANK = 0.01


class MeanTestResult(NamedTuple):
    """Result of :func:`mean_test`.

    Attributes
    ----------
    statistic : float
    pvalue : float
    df : int
    """

    statistic: float
    pvalue: float
    df: int


def mean_test(*estimators: Any, popmean: Any = None) -> MeanTestResult:
    """Test whether private means estimate the same point, or a given one."""
    inferences = [part for estimator in estimators for part in _inferences(estimator)]
    base = inferences[0]
    geometry = base.geometry
    if len(inferences) == 1:
        steps = np.asarray(geometry.log_coordinates(base.mean, np.asarray(popmean)))[None]
        maps = [base.score_to_mean]
    else:
        steps = np.stack(
            [np.asarray(geometry.log_coordinates(base.mean, part.mean)) for part in inferences]
        )
        maps = [
            transport_matrix(geometry, part.mean, base.mean) @ part.score_to_mean
            for part in inferences
        ]
    covariances = np.stack(
        [m @ p.score_covariance(p.spread) @ m.T for m, p in zip(maps, inferences, strict=True)]
    )
    statistic = float(_statistic(steps, covariances))
    k, d = steps.shape
    df = d * max(k - 1, 1)
    rng = public_generator(0, "mean test", d, k)
    released = np.stack(
        [
            m @ p.simulated_covariances(rng, _DRAWS) @ m.T
            for m, p in zip(maps, inferences, strict=True)
        ],
        axis=1,
    )
    roots = np.linalg.cholesky(covariances)
    errors = np.einsum("kab,...kb->...ka", roots, rng.standard_normal((_VALUES, _DRAWS, k, d)))
    null = _statistic(errors, released).ravel()
    rank = (1.0 + np.count_nonzero(null >= statistic)) / (1.0 + null.size)
    if rank >= _SMALLEST_RANK:
        return MeanTestResult(statistic, float(rank), df)
    scaled = statistic * df / max(float(null.mean()), df)
    return MeanTestResult(statistic, float(min(chi2.sf(scaled, df), _SMALLEST_RANK)), df)


def _inferences(estimator: Any) -> tuple[MeanInference, ...]:
    held = estimator if isinstance(estimator, MeanInference) else estimator.inference_
    return held if isinstance(held, tuple) else (held,)


def _statistic(steps: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """Weighted squared distances of (..., k, d) from their weighted mean; from zero for k = 1."""
    weights = np.linalg.inv(covariances)
    pulled = np.einsum("...kab,...kb->...ka", weights, steps)
    total = np.sum(steps * pulled, axis=(-2, -1))
    if steps.shape[-2] == 1:
        return total
    pull = pulled.sum(axis=-2)
    middle = np.linalg.solve(weights.sum(axis=-3), pull[..., None])[..., 0]
    return total - np.sum(pull * middle, axis=-1)
