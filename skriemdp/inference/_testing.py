"""Tests of equal means, or of a given one, for private means with their covariances."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2
from sklearn.utils.validation import check_is_fitted

from skriemdp._errors import PublicValueError
from skriemdp._quiet import quiet, read_numbers
from skriemdp._random import public_generator
from skriemdp.inference._covariances import factor, transport_matrix
from skriemdp.inference._moments import MeanInference

# Simulated covariances under the hypothesis, and values of the statistic for each: 6,000 values, a
# compromise between time and noise.
_DRAWS, _VALUES = 60, 100
# Smallest p-value from ranks of simulated values; smaller ones are from a scaled chi-square law.
_SMALLEST_RANK = 0.01


class MeanTestResult(NamedTuple):
    """Result of :func:`mean_test`.

    Attributes
    ----------
    statistic : float
        Sum of the squared distances of the means from their weighted mean, or of one mean from the
        given point, each in its own covariance.
    pvalue : float
        Probability of such a statistic, or a larger one, under the hypothesis.
    df : int
        Degrees of freedom: dim times the number of means that are free to differ.
    """

    statistic: float
    pvalue: float
    df: int


@quiet
def mean_test(*estimators: Any, popmean: Any = None) -> MeanTestResult:
    """Test whether the means of several populations are equal, or one is a given point.

    It costs no budget: everything it uses was released with the means.

    Parameters
    ----------
    *estimators : fitted estimators or MeanInference
        Private means with ``uncertainty=True``; an estimator of class means counts as one mean for
        each class.  No person may be in two of the samples: means that share people share
        sampling errors, and the test would not know.
    popmean : array-like of shape ``point_shape``, optional
        The public point to compare one mean with.

    Returns
    -------
    MeanTestResult
        Unpacks as ``statistic, pvalue, df``.

    Raises
    ------
    ValueError
        Without `popmean` for one mean, with it for several, for means on different manifolds, one
        fit given twice, fits without uncertainty, or a class whose released count is not positive.

    Notes
    -----
    Coordinates and covariances are moved to the first mean by parallel transport.  The law of the
    statistic under the hypothesis is simulated from released numbers with public randomness, noise
    in the covariances included, so the same fits give the same p-value (docs/theory/regions.md).
    A p-value is valid for one comparison that was planned before; the smallest of many, or one for
    groups chosen after a look at the same records, is not.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Euclidean
    >>> from skriemdp.inference import MeanInference, mean_test
    >>> first = np.array([0.1, 0.0])  # as a fit would release it
    >>> fit = MeanInference(Euclidean(2), np.zeros(2), 1.0, first, 0.04 * np.eye(2), 500, .01, .01)
    >>> statistic, pvalue, df = mean_test(fit, popmean=np.array([0.1, 0.01]))
    >>> pvalue > 0.05, df
    (True, 2)
    """
    inferences = _inferences(estimators)
    base = inferences[0]
    if len(inferences) == 1:
        steps = _to_popmean(base, popmean)[None]
        maps = [base.score_to_mean]
    else:
        if popmean is not None:
            raise PublicValueError(
                f"popmean= is for the test of one mean, got {len(inferences)}; leave it out to "
                "test whether these are equal, or test each of them alone."
            )
        geometry = base.geometry
        means = np.stack([part.mean for part in inferences])
        steps = np.asarray(geometry.log_coordinates(base.mean, means))
        maps = [
            transport_matrix(geometry, part.mean, base.mean) @ part.score_to_mean
            for part in inferences
        ]
    released = np.stack([_moved(m, p, p.spread) for m, p in zip(maps, inferences, strict=True)])
    statistic = float(_statistic(steps, released))
    k, d = steps.shape
    df = d * max(k - 1, 1)
    return MeanTestResult(statistic, _pvalue(statistic, df, maps, inferences, released), df)


def _inferences(estimators: tuple[Any, ...]) -> list[MeanInference]:
    """Return the released moments of each mean; ValueError where the means cannot be compared."""
    if not estimators:
        raise PublicValueError("mean_test needs at least one fitted estimator.")
    inferences: list[MeanInference] = []
    for estimator in estimators:
        held = estimator
        if not isinstance(estimator, MeanInference):
            check_is_fitted(estimator)
            held = getattr(estimator, "inference_", None)
            if held is None:
                raise PublicValueError(
                    f"{type(estimator).__name__} was fitted without what a test needs; pass "
                    "uncertainty=True to it. A refit costs budget."
                )
        inferences += held if isinstance(held, tuple) else (held,)
    if any(part is None for part in inferences):
        raise PublicValueError(
            "the released count of a class is not positive, so nothing is known about its mean; "
            "leave the class out, or test other estimators."
        )
    for one, other in itertools.pairwise(inferences):
        if type(one) is not type(other):
            raise PublicValueError(
                "a median is not compared with a mean; pass fits of one statistic."
            )
        if one.geometry != other.geometry:
            raise PublicValueError(
                f"means must lie on one manifold, got {one.geometry} and {other.geometry}."
            )
    for one, other in itertools.combinations(inferences, 2):
        if one is other or np.array_equal(one.first, other.first):
            raise PublicValueError(
                "the same fit was given twice; a test compares fits of different people."
            )
    return inferences


def _to_popmean(inference: MeanInference, popmean: Any) -> np.ndarray:
    """Coordinates of a given point at the released mean."""
    geometry = inference.geometry
    if popmean is None:
        raise PublicValueError(
            "one mean needs popmean=, the public point to compare it with; or pass two estimators."
        )
    point = read_numbers(popmean, "popmean")
    if point.size == np.prod(geometry.shape):
        point = point.reshape(geometry.shape)
    if point.shape != geometry.shape or not bool(geometry.belongs(point)):
        raise PublicValueError(
            f"popmean must be a point of {geometry}, an array of shape {geometry.shape}; project "
            "it there first."
        )
    return np.asarray(geometry.log_coordinates(inference.mean, point))


def _moved(matrix: np.ndarray, inference: MeanInference, spread: np.ndarray) -> np.ndarray:
    """Covariances of a mean in common coordinates, if records had covariance `spread`."""
    return matrix @ inference.score_covariance(spread) @ matrix.T


def _pvalue(
    statistic: float,
    df: int,
    maps: list[np.ndarray],
    inferences: list[MeanInference],
    released: np.ndarray,
) -> float:
    """Rank of `statistic` among values drawn under the hypothesis, from released numbers."""
    k, d = released.shape[:2]
    rng = public_generator(0, "mean test", d, k)
    drawn = np.stack(
        [
            m @ part.simulated_covariances(rng, _DRAWS) @ m.T
            for m, part in zip(maps, inferences, strict=True)
        ],
        axis=1,
    )
    errors = rng.standard_normal((_VALUES, _DRAWS, k, d, 1))
    null = _statistic((factor(released) @ errors)[..., 0], drawn)
    rank = (1.0 + np.count_nonzero(null >= statistic)) / (1.0 + null.size)
    if rank >= _SMALLEST_RANK:
        return float(rank)
    tail = chi2.sf(statistic * df / max(float(null.mean()), df), df)
    return float(min(tail, _SMALLEST_RANK))


def _statistic(steps: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """Squared distances of (..., k, d) from their weighted mean, or from zero for ``k = 1``."""
    weights = np.linalg.inv(covariances)
    pulled = np.einsum("...kab,...kb->...ka", weights, steps)
    total = np.sum(steps * pulled, axis=(-2, -1))
    if steps.shape[-2] == 1:
        return total
    pull = np.sum(pulled, axis=-2)
    middle = np.linalg.solve(np.sum(weights, axis=-3), pull[..., None])[..., 0]
    return total - np.sum(pull * middle, axis=-1)
