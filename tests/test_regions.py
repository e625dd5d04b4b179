"""Confidence regions: what they hold, how they read, and that wrong ones are seen to be wrong.

Coverage tests draw the moments that a fit would release.  Bounds are binomial, with false alarms
below 1e-6 at 95 %, so a region that covers much less, or much more, fails.
"""

import dataclasses
import math
import pickle
import types

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skriemdp import PrivateFrechetMean, PrivateGeodesicRegressor
from skriemdp.geometry import SPD, Euclidean, Grassmann, Hyperboloid, Poincare, Rotations, Sphere
from skriemdp.inference import ConfidenceRegion, MeanInference
from skriemdp.inference import _moments as moments
from skriemdp.inference import _regions as regions
from skriemdp.inference._covariances import factor, kept_share, parts, symmetric_noise


class Straight(MeanInference):
    """Leaves out what curvature does."""

    @property
    def step(self):
        return self.first

    def _form(self, moment):
        return np.zeros_like(moment)


class KnownBend(MeanInference):
    """Takes the covariance, by which curvature bends the mean, for known."""

    def score_covariance(self, spread):
        return spread / self.n + self.first_noise**2 * np.eye(len(self.first))


class Unrepaired(MeanInference):
    """Plugs the released covariance in as it is."""

    @property
    def spread(self):
        noise = self.first_noise**2 * np.eye(len(self.first))
        return self.second - np.outer(self.first, self.first) + noise


def released(geometry, v, radius, mu, rng, kind=MeanInference):
    """Moments of coordinates v at the base point with the noise of a mu-GDP release."""
    n, d = v.shape
    v = v * np.minimum(1.0, radius / np.linalg.norm(v, axis=1))[:, None]
    s = 2.0 * radius / (n * mu)
    t = math.sqrt(2.0) * radius * s
    first = v.mean(axis=0) + s * rng.standard_normal(d)
    second = v.T @ v / n + t * symmetric_noise(rng, 1, d)[0]
    return kind(geometry, geometry.base_point, radius, first, second, n, s, t)


def again(fit, kind):
    """The same release, read by another class."""
    return kind(*(getattr(fit, field.name) for field in dataclasses.fields(fit)))


def covers(hits, trials, level=0.95):
    low = stats.binom.ppf(5e-7, trials, level)
    high = stats.binom.isf(5e-7, trials, level)
    return low <= hits <= high


# -- shapes -----------------------------------------------------------------------------------


SURFACES = [Euclidean(2), Sphere(2, radius=3.0), Hyperboloid(2), Poincare(2, curvature=-0.5)]


@pytest.mark.parametrize("space", SURFACES, ids=str)
def test_the_boundary_is_where_the_region_ends(space):
    center = space.exp_coordinates(space.base_point, np.array([0.3, -0.2]))
    region = ConfidenceRegion(space, center, np.array([[0.04, 0.01], [0.01, 0.02]]), 6.0, 0.95)
    edge = region.boundary(50)
    assert_allclose(edge[0], edge[-1])
    coordinates = space.log_coordinates(center, edge)
    assert region.contains(space.exp_coordinates(center, 0.999 * coordinates)).all()
    assert not region.contains(space.exp_coordinates(center, 1.001 * coordinates)).any()
    assert region.contains(center)
    ends = space.exp(center, 0.999999 * region.axes)
    assert (
        region.contains(ends).all()
        and not region.contains(space.exp(center, 1.01 * region.axes)).any()
    )
    assert_allclose(space.norm(center, region.axes), region.semi_axes)
    assert region.semi_axes[0] > region.semi_axes[1]
    assert_allclose(math.exp(region.log_volume), math.pi * np.prod(region.semi_axes))


def test_what_a_region_is_asked_must_make_sense():
    region = ConfidenceRegion(Euclidean(3), np.zeros(3), np.eye(3), 1.0, 0.95)
    with pytest.raises(ValueError, match="semi_axes"):
        region.boundary()
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        region.contains(np.zeros(2))
    assert region.contains(np.zeros((4, 5, 3))).shape == (4, 5)
    assert_allclose(math.exp(region.log_volume), 4.0 / 3.0 * math.pi)


def test_a_level_must_be_a_probability(rng):
    fit = released(Euclidean(2), 0.1 * rng.standard_normal((100, 2)), 1.0, 1.0, rng)
    for level in (0.0, 1.0, 95):
        with pytest.raises(ValueError, match="level"):
            fit.region(level)


# -- in words ---------------------------------------------------------------------------------


def spent(**changes):
    facts = {"epsilon": 1.0, "delta": 1e-5, "unit": "user", "seeded": False}
    facts["public"] = {"n": 300, "center": np.zeros(3), "manifold": "Sphere(2)"}
    facts["public"] |= {"arithmetic": "exact integers", "releases": ()}  # not said
    return types.SimpleNamespace(**facts | changes)


def test_a_region_on_the_globe_reads_in_degrees():
    south_east = np.array([1.0, 1.0, -math.sqrt(2.0)])
    covariance = np.diag(np.radians([2.0, 1.0]) ** 2)
    region = ConfidenceRegion(Sphere(2), south_east / 2.0, covariance, 4.0, 0.9, privacy=spent())
    words = str(region)
    assert words.count(". ") == 1 and words.endswith(".")
    assert "longitude 45.00° and latitude -45.00°" in words
    assert "semi-axes 4° and 2°" in words and "confidence 90 %" in words
    assert "(1, 1e-05)-differentially private under replacement of one user" in words
    assert words.endswith("public were n=300, center, manifold=Sphere(2).")


def test_words_for_other_spaces_and_for_noise_that_repeats():
    space = SPD(2)
    region = ConfidenceRegion(space, np.eye(2), np.diag([4.0, 1.0, 0.25]), 1.0, 0.95)
    assert "[[1., 0.], [0., 1.]]" in str(region)
    assert "semi-axes 2, 1 and 0.5" in str(region)
    seeded = dataclasses.replace(region, privacy=spent(seeded=True))
    assert "not private" in str(seeded) and "differentially private under" not in str(seeded)
    many = ConfidenceRegion(Euclidean(9), np.zeros(9), np.eye(9), 1.0, 0.95)
    assert "9 semi-axes between 1 and 1" in str(many)
    line = ConfidenceRegion(Euclidean(1), np.zeros(1), np.eye(1), 4.0, 0.95)
    assert "half length 2" in str(line)


def test_a_region_says_how_many_records_were_moved(rng):
    fit = released(Euclidean(2), 0.1 * rng.standard_normal((300, 2)), 1.0, 1.0, rng)
    region = fit.region(clipped=(0.02, 0.01), of="class 'a' of the population")
    assert_allclose(region.outside, 0.02 + 0.01 * stats.norm.ppf(0.95))
    words = str(region)
    assert "With confidence 95 %, at most 3.7 % of the records lay outside that ball" in words
    assert "does not say where the mean of the records is without that move" in words
    assert "class 'a' of the population, whose points outside the ball of radius 1 that" in words
    # A bound is never rounded down, never negative and never above all of them.
    for share, said in ((-0.5, "0.00017 %"), (0.1201, "13 %"), (2.0, "100 %"), (0.0301, "3.1 %")):
        assert f"at most {said} of" in str(fit.region(clipped=(share, 1e-6)))
    assert "outside that ball;" not in str(fit.region())


# -- what a fit released ----------------------------------------------------------------------


def test_without_curvature_or_noise_a_region_is_the_textbook_one(rng):
    v = rng.standard_normal((500_000, 3)) * [0.1, 0.2, 0.3]
    fit = released(Euclidean(3), v, 10.0, 1e9, rng)
    assert_allclose(fit.mean, v.mean(axis=0), atol=1e-9)
    assert_allclose(fit.covariance, np.cov(v.T, bias=True) / len(v), rtol=1e-6, atol=1e-13)
    assert_allclose(fit.tangent_covariance, np.cov(v.T, bias=True), rtol=1e-6, atol=1e-8)
    assert_allclose(fit.region().threshold, stats.chi2.ppf(0.95, 3), rtol=0.05)


def test_noise_in_the_covariance_widens_the_region(rng):
    v = 0.05 * rng.standard_normal((1000, 20)) * np.r_[4.0, np.ones(19)]
    fit = released(Euclidean(20), v, 1.0, 0.8, rng)
    assert fit.region().threshold > 1.02 * stats.chi2.ppf(0.95, 20)
    assert fit.region().threshold == fit.region().threshold
    assert fit.region(0.5).threshold < fit.region(0.99).threshold


def test_a_fit_survives_pickling(rng):
    fit = released(Sphere(2), 0.1 * rng.standard_normal((300, 2)), 1.0, 1.0, rng)
    before = fit.region()
    loaded = pickle.loads(pickle.dumps(fit))
    assert_allclose(loaded.mean, fit.mean)
    assert_allclose(loaded.region().covariance, before.covariance)


def test_the_mean_stays_in_the_ball(rng):
    fit = released(Euclidean(4), 0.1 * rng.standard_normal((5, 4)), 1.0, 0.1, rng)
    assert np.linalg.norm(fit.first) > 1.0
    assert_allclose(np.linalg.norm(fit.step), 1.0)


CURVED = [Sphere(3), Hyperboloid(2), SPD(2), Grassmann(4, 2)]


@pytest.mark.parametrize("largest", [moments._LARGEST_TENSOR, 1])
@pytest.mark.parametrize("space", CURVED, ids=str)
def test_what_curvature_adds_to_the_covariance(space, largest, monkeypatch, rng):
    """As by drawing records and noise; computed in small dimension, simulated in large."""
    monkeypatch.setattr(moments, "_LARGEST_TENSOR", largest)
    monkeypatch.setattr(moments, "_CURVED_DRAWS", 20_480)
    d, draws = space.dim, 100_000
    root = 0.3 * rng.standard_normal((d, d)) / math.sqrt(d)
    first = 0.6 * np.eye(d)[0]
    second = root @ root.T + np.outer(first, first)
    fit = MeanInference(space, space.base_point, 1.0, first, second, 1, 0.02, 0.01)
    kept = kept_share(second - np.outer(first, first) + 0.0004 * np.eye(d), 0.01)
    assert 0.5 < kept < 1.0

    def score(moved_first, moved_spread):
        trace, rest = parts(moved_spread)
        return moved_first + fit._form(trace + kept * rest) @ fit.step / 3.0

    z = rng.standard_normal((draws, d)) @ factor(fit.spread).T
    records = np.cov(score(z, z[:, :, None] * z[:, None, :]).T)
    eta = 0.02 * rng.standard_normal((draws, d))
    crossed = eta[:, :, None] * first + first[:, None] * eta[:, None, :]
    noise = np.cov(score(eta, 0.01 * symmetric_noise(rng, draws, d) - crossed).T)
    size = np.linalg.norm(records + noise, 2)
    computed = fit.score_covariance(fit.spread)
    assert_allclose(computed, records + noise, rtol=0, atol=0.03 * size)
    fit_without = fit.score_covariance(0.0 * fit.spread) - fit._curvature_terms[0]
    assert_allclose(fit_without, noise, rtol=0, atol=0.05 * np.linalg.norm(noise, 2))


@pytest.mark.parametrize("space", CURVED, ids=str)
def test_the_score_is_the_derivative_of_the_mean(space, rng):
    """Small changes of what is released move the mean as the covariance has it."""
    d = space.dim
    first = 0.15 * rng.standard_normal(d) / math.sqrt(d)
    root = 0.2 * rng.standard_normal((d, d)) / math.sqrt(d)
    second = root @ root.T + np.outer(first, first)
    fit = MeanInference(space, space.base_point, 1.0, first, second, 1, 1e-9, 1e-9)
    for _ in range(5):
        eta, crossed = 1e-4 * rng.standard_normal(d), 1e-4 * symmetric_noise(rng, 1, d)[0]
        moved = dataclasses.replace(fit, first=first + eta, second=second + crossed)
        change = crossed - np.outer(eta, first) - np.outer(first, eta)
        score = eta + fit._form(change) @ fit.step / 3.0
        seen = space.log_coordinates(fit.mean, moved.mean)
        size = np.linalg.norm(seen)
        assert_allclose(fit.score_to_mean @ score, seen, rtol=0, atol=0.02 * size)


def test_the_count_of_a_class_adds_its_noise(rng):
    """A mean is a sum over a count: its noise lies along the mean."""
    fit = released(Euclidean(2), 0.1 * rng.standard_normal((300, 2)) + 0.5, 1.0, 1.0, rng)
    counted = dataclasses.replace(fit, count_noise=0.1)
    added = counted.covariance - fit.covariance
    assert_allclose(added, 0.01 * np.outer(fit.first, fit.first), atol=1e-12)


# -- coverage ---------------------------------------------------------------------------------


def coverage(space, middle, scales, n, radius, mu, trials, kinds, seed=0):
    """Hits of the regions of each class, and their means' errors in coordinates at `middle`."""
    rng = np.random.default_rng(seed)
    truth = space.exp_coordinates(space.base_point, middle)
    hits, errors = [0] * len(kinds), [[] for _ in kinds]
    for _ in range(trials):
        points = space.exp_coordinates(truth, rng.standard_normal((n, space.dim)) * scales)
        v = space.log_coordinates(space.base_point, points)
        fit = released(space, v, radius, mu, rng)
        for number, kind in enumerate(kinds):
            part = again(fit, kind)
            hits[number] += bool(part.region().contains(truth))
            errors[number].append(space.log_coordinates(truth, part.mean))
    return hits, np.array(errors)


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize(
    "space", [Euclidean(3), Sphere(2), Hyperboloid(2), SPD(2), Grassmann(4, 2)], ids=str
)
def test_regions_cover_the_mean(space):
    d, trials = space.dim, 300
    middle, scales = 0.2 * np.eye(d)[0], 0.15 / np.sqrt(1.0 + np.arange(d))
    (hits,), _ = coverage(space, middle, scales, 400, 1.0, 0.5, trials, [MeanInference])
    assert covers(hits, trials)


def test_a_far_centre_needs_curvature():
    """Bias at most a third of the standard error with it; without it, regions miss."""
    space, trials = Sphere(2), 300
    (ours, straight), errors = coverage(
        space, np.array([0.6, 0.0]), 0.2, 2000, 1.0, 0.25, trials, [MeanInference, Straight]
    )
    assert covers(ours, trials) and not covers(straight, trials)
    bias, spread = np.abs(errors.mean(axis=1)).max(axis=1), errors.std(axis=1).mean(axis=1)
    # A mean over these trials is off by 5 of its own standard errors once in 2e6 tables.
    doubt = 5.0 / math.sqrt(trials)
    assert bias[0] <= (1.0 / 3.0 + doubt) * spread[0] and bias[1] > spread[1]


@pytest.mark.slow
def test_what_bends_the_mean_is_an_estimate_too():
    space, trials = Hyperboloid(2), 300
    (ours, known), _ = coverage(
        space, np.array([1.5, 0.0]), 0.1, 1000, 2.0, 0.25, trials, [MeanInference, KnownBend]
    )
    assert covers(ours, trials) and not covers(known, trials)


@pytest.mark.slow
def test_naive_regions_fail_where_dimension_is_high(monkeypatch):
    """A released covariance without repair, and the chi-square quantile, each cover too little."""
    space, d = Euclidean(20), 20
    scales = 0.05 * np.r_[math.sqrt(20.0), np.ones(d - 1)]
    settings = (space, 0.2 * np.eye(d)[0], scales, 2000, 1.0, 0.67)
    (hits,), _ = coverage(*settings, 300, [MeanInference])
    assert covers(hits, 300)
    monkeypatch.setattr(regions, "region_threshold", lambda fit, level: stats.chi2.ppf(level, 20))
    (chi_square,), _ = coverage(*settings, 2500, [MeanInference])
    assert chi_square < stats.binom.ppf(5e-7, 2500, 0.95)


def test_a_covariance_without_repair_is_no_covariance(rng):
    v = 0.05 * rng.standard_normal((300, 20))
    fit = released(Euclidean(20), v, 1.0, 0.67, rng)
    raw = again(fit, Unrepaired)
    assert np.linalg.eigvalsh(raw.score_covariance(raw.spread))[0] < 0.0
    assert np.linalg.eigvalsh(fit.covariance)[0] > 0.0
    assert regions.region_threshold(fit, 0.95) >= stats.chi2.ppf(0.95, 20)


def test_reports_say_whom_a_region_is_about():
    rng = np.random.default_rng(0)
    helix = np.cumsum(0.2 * rng.standard_t(2, size=(800, 3)), axis=1)
    X = Rotations().exp_coordinates(Rotations().base_point, helix)
    mean = PrivateFrechetMean(Rotations(), uncertainty=True, epsilon=3.0).fit(X)
    assert "are moved onto its edge" in str(mean.confidence_region())
    assert "of the records lay outside that ball" in str(mean.confidence_region())
    median = PrivateFrechetMean(statistic="median", uncertainty=True, epsilon=3.0).fit(helix)
    assert "It is conservative" in str(median.confidence_region())
    line = PrivateGeodesicRegressor(epsilon=8.0).fit(rng.normal(size=(800, 1)), helix)
    said = str(line.confidence_region([0.0]))
    assert "whose responses outside the ball of radius" in said
    assert "of the records lay outside that ball" in said and "features" in said
