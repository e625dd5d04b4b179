"""Tests of equal means: level, power, uniform p-values, and refusals."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from skriemdp import PrivateFrechetMean, mean_test
from skriemdp._mean.estimator import frechet_mean
from skriemdp.geometry import SPD, Euclidean, Hyperboloid, Sphere
from skriemdp.inference import MeanInference
from skriemdp.inference._covariances import symmetric_noise


def released(space, rng, n=1000, mu=0.25, middle=0.2, move=0.0, scales=None):
    """What a mu-GDP fit would release, at its own rough mean; `move` shifts the population."""
    d, radius = space.dim, 1.0
    scales = 0.25 / np.sqrt(1.0 + np.arange(d)) if scales is None else scales
    truth = space.exp_coordinates(space.base_point, middle * np.eye(d)[0])
    truth = space.exp_coordinates(truth, move * np.eye(d)[-1])
    points = space.exp_coordinates(truth, rng.standard_normal((n, d)) * scales)
    center = space.exp_coordinates(truth, 0.05 * rng.standard_normal(d))
    v = space.log_coordinates(center, points)
    v = v * np.minimum(1.0, radius / np.linalg.norm(v, axis=1))[:, None]
    s = 2.0 * radius / (n * mu)
    t = math.sqrt(2.0) * radius * s
    first = v.mean(axis=0) + s * rng.standard_normal(d)
    second = v.T @ v / n + t * symmetric_noise(rng, 1, d)[0]
    return MeanInference(space, center, radius, first, second, n, s, t), truth


def pvalues(space, k, trials, seed=0, **settings):
    rng, found = np.random.default_rng(seed), []
    for _ in range(trials):
        fits, truths = zip(*(released(space, rng, **settings) for _ in range(k)), strict=True)
        found.append(mean_test(*fits, popmean=truths[0] if k == 1 else None).pvalue)
    return np.array(found)


SPACES = [(Euclidean(6), 2), (Sphere(2), 3), (SPD(2), 2), (Hyperboloid(2), 1)]


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize(("space", "k"), SPACES, ids=str)
def test_true_hypotheses_are_rejected_as_often_as_stated(space, k):
    """Binomial bounds, false alarms below 1e-6."""
    found = pvalues(space, k, 200)
    for level in (0.05, 0.5):
        rejected = np.count_nonzero(found <= level)
        assert stats.binom.ppf(5e-7, 200, level) <= rejected <= stats.binom.isf(5e-7, 200, level)


@pytest.mark.slow
@pytest.mark.parametrize(("space", "k"), [(Euclidean(6), 1), (Sphere(2), 2)], ids=str)
def test_p_values_are_uniform(space, k):
    """Above this with probability 1e-6 (Dvoretzky, Kiefer and Wolfowitz)."""
    assert stats.kstest(pvalues(space, k, 400, seed=1), "uniform").statistic <= 0.135


def test_a_test_that_knows_the_noise_only_rejects_too_often():
    """The level is off by so much that these trials show it."""
    space, rng, rejected, trials = Euclidean(3), np.random.default_rng(0), 0, 200
    for _ in range(trials):
        one, other = (released(space, rng)[0] for _ in range(2))
        statistic = np.sum((one.mean - other.mean) ** 2) / (2.0 * one.first_noise**2)
        rejected += stats.chi2.sf(statistic, 3) <= 0.05
    assert rejected > stats.binom.isf(1e-6, trials, 0.05)


def test_different_means_are_told_apart(rng):
    space = Sphere(2)
    one, other = released(space, rng)[0], released(space, rng, move=0.3)[0]
    result = mean_test(one, other)
    assert result.pvalue < 1e-4 and result.df == 2
    assert result == (result.statistic, result.pvalue, result.df)
    assert mean_test(one, other) == result
    far = space.exp_coordinates(one.mean, np.array([0.0, 0.4]))
    assert mean_test(one, popmean=far).pvalue < mean_test(one, popmean=one.mean).pvalue


def test_one_mean_far_from_noise_is_hotellings_test(rng):
    space, n = Euclidean(3), 100_000
    fit, truth = released(space, rng, n=n, mu=1e6)
    result = mean_test(fit, popmean=truth)
    gap = fit.mean - truth
    assert_allclose(result.statistic, gap @ np.linalg.solve(fit.covariance, gap))
    assert abs(result.pvalue - stats.chi2.sf(result.statistic, 3)) < 0.05
    assert result.df == 3


def test_the_statistic_is_that_of_weighted_means(rng):
    """In a flat space: the same in any order, and one formula for two means."""
    space = Euclidean(3)
    fits = [released(space, rng, n=n)[0] for n in (500, 1000, 3000)]
    assert_allclose(mean_test(*fits).statistic, mean_test(*fits[::-1]).statistic)
    one, other = fits[:2]
    gap = one.mean - other.mean
    expected = gap @ np.linalg.solve(one.covariance + other.covariance, gap)
    assert_allclose(mean_test(one, other).statistic, expected)
    assert mean_test(*fits).df == 6


def test_estimators_are_asked_for_what_they_released(rng):
    one, other = (released(SPD(2), rng)[0] for _ in range(2))
    assert mean_test(fitted((one, other))) == mean_test(one, other)
    assert mean_test(fitted(one), other) == mean_test(one, other)


class Fitted(BaseEstimator):
    """Stands in for an estimator that was fitted with uncertainty, or without."""

    def fit(self, X, y=None):
        return self


def fitted(inference):
    model = Fitted()
    model.inference_ = inference
    return model


def test_what_cannot_be_tested_is_refused(rng):
    one, other = (released(Euclidean(2), rng)[0] for _ in range(2))
    globe = released(Sphere(2), rng)[0]
    refusals = [
        ((), None, "at least one"),
        ((one,), None, "popmean="),
        ((one, other), np.zeros(2), "leave it out"),
        ((one, one), None, "same fit"),
        ((one, globe), None, "one manifold"),
        ((one,), np.zeros(3), "popmean must be a point"),
        ((globe,), np.array([1.0, 1.0, 0.0]), "popmean must be a point"),
        ((fitted((one, None)),), None, "count of a class"),
        ((fitted(None),), np.zeros(2), "uncertainty=True"),
    ]
    for estimators, popmean, words in refusals:
        with pytest.raises(ValueError, match=words):
            mean_test(*estimators, popmean=popmean)
    with pytest.raises(NotFittedError):
        mean_test(PrivateFrechetMean())


def test_a_flat_row_is_a_point(rng):
    fit, truth = released(SPD(2), rng)
    assert mean_test(fit, popmean=truth.ravel()) == mean_test(fit, popmean=truth)


def test_a_released_mean_is_the_frechet_mean_without_noise(rng):
    """Newton's step ends at the mean of the records, up to terms of higher order."""
    space = Sphere(2)
    center = space.base_point
    points = space.exp_coordinates(center, 0.1 * rng.standard_normal((500, 2)) + [0.2, 0.1])
    v = space.log_coordinates(center, points)
    fit = MeanInference(space, center, 1.0, v.mean(axis=0), v.T @ v / 500, 500, 1e-9, 1e-9)
    gap = space.dist(fit.mean, frechet_mean(points, space))
    plain = space.dist(space.exp_coordinates(center, fit.first), frechet_mean(points, space))
    assert gap < 1e-4 and gap < 0.1 * plain
