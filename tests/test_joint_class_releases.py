"""Class means with their errors: what they cost, what they cover, what is refused."""

import functools
import math
import pickle

import numpy as np
import pytest
from conftest import weaker_scale
from scipy import stats

from skriemdp import (
    PrivateFrechetMean,
    PrivateMinimumDistanceToMean,
    frechet_mean,
    mean_test,
)
from skriemdp._mean.joint_releases import JointMean, TangentSample
from skriemdp._mechanisms import noise
from skriemdp.auditing import audit_scores, worst_case_neighbours
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import Euclidean, GeodesicBall, Hyperboloid, LogEuclideanSPD, Sphere
from skriemdp.plotting import NoiseBallDisplay

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def classes_of(geometry, sizes, seed, spread=0.15, offset=0.5):
    """Records of classes, labels, and the classes' means: at distance `offset`, each elsewhere."""
    rng, dim = np.random.default_rng(seed), geometry.dim
    steps = np.zeros((len(sizes), dim))
    steps[np.arange(len(sizes)), np.arange(len(sizes)) % dim] = offset
    means = np.asarray(geometry.exp_coordinates(geometry.base_point, steps))
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = geometry.exp_coordinates(means[y], spread * rng.normal(size=(len(y), dim)))
    return np.asarray(X), y, means


def uncertain(geometry="euclidean", **settings):
    settings = {"random_state": 0, "classes": range(2), **settings}
    return PrivateMinimumDistanceToMean(geometry, uncertainty=True, **settings)


# -- what it costs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", [Euclidean(3), Sphere(2), LogEuclideanSPD(3)], ids=str)
def test_second_moments_of_classes_are_free(geometry):
    X, y, _ = classes_of(geometry, [100, 150], 0)
    both = uncertain(geometry, center=geometry.base_point, radius=1.0).fit(X, y)
    alone = both.set_params(uncertainty=False)
    scale, event = both.noise_scale_, both.privacy_spent_.event
    alone.fit(X, y)
    assert alone.privacy_spent_.event == event
    assert scale == pytest.approx(alone.noise_scale_, rel=1e-3)


@pytest.mark.parametrize("settings", [{"radius": 2.0}, {}])
def test_releases_add_up_to_the_budget(settings, recording_accountant):
    X, y, _ = classes_of(Euclidean(3), [600, 600], 0)
    fit = uncertain(accountant=recording_accountant, random_state=None, **settings).fit(X, y)
    (event,) = recording_accountant.spends
    assert event == fit.privacy_spent_.event
    assert event.delta(1.0) <= 1e-5
    assert fit.privacy_spent_.public["arithmetic"] == "exact integers"
    np.testing.assert_array_equal(fit.privacy_spent_.public["classes"], [0, 1])


@pytest.mark.parametrize("n_classes", [None, 3])
def test_noise_has_the_stated_standard_deviations(n_classes):
    """Against a normal law: false alarms below 1e-6 for each of three."""
    space, rng = Euclidean(2), np.random.default_rng(0)
    ball = GeodesicBall(space, None, 2.0)
    plan = JointMean(space, 4, 0.6, 1.0, 1.0, ball, n_classes=n_classes)
    seen = TangentSample(space.base_point, 2.0, np.zeros((0, 2)), 0.0, 0.0, 0.6)
    labels = None if n_classes is None else np.zeros(0, dtype=int)
    runs = [plan.moments(seen, rng, labels) for _ in range(1000)]
    second, first, counts = (np.stack(block) for block in list(zip(*runs, strict=True))[:3])
    said = runs[0]
    assert said.first_sigma == pytest.approx(2.0 * 2.0 / 0.6, rel=1e-3)
    assert said.count_sigma == pytest.approx(2.0 * math.sqrt(2.0) / 0.6, rel=1e-3)
    for values, sigma in (
        (second[..., [0, 1], [0, 1]], said.second_sigma),
        (math.sqrt(2.0) * second[..., 0, 1], said.second_sigma),
        (first, said.first_sigma),
        (counts, said.count_sigma),
    ):
        size = values.size
        assert abs(np.sum((values / sigma) ** 2) / size - 1.0) < 5.2 * math.sqrt(2.0 / size)


# -- what it says ----------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", [Euclidean(2), Sphere(2), Hyperboloid(2)], ids=str)
def test_without_noise_it_is_the_textbook_covariance_of_each_class(geometry):
    X, y, _ = classes_of(geometry, [300, 500], 0)
    fit = uncertain(geometry, radius=1.2, epsilon=4e5).fit(X, y)
    for k, n in enumerate((300, 500)):
        truth = frechet_mean(X[y == k], geometry)
        seen = geometry.log_coordinates(truth, X[y == k])
        assert float(geometry.dist(fit.means_[k], truth)) < 1e-3
        spread = np.sqrt(np.linalg.eigvalsh(np.cov(seen.T, ddof=0)))
        found = np.sqrt(np.linalg.eigvalsh(fit.tangent_covariances_[k]))
        np.testing.assert_allclose(found, spread, rtol=0.02)
        errors = np.sqrt(np.linalg.eigvalsh(fit.covariances_[k]))
        np.testing.assert_allclose(errors, spread / math.sqrt(n), rtol=0.1)
    np.testing.assert_allclose(fit.class_counts_, [300, 500], atol=0.01)


@pytest.mark.parametrize(
    "geometry, settings",
    [(Euclidean(3), {"radius": 1.0}), (Sphere(2), {})],
    ids=str,
)
def test_regions_hold_the_means_of_classes(geometry, settings):
    hits, sampling_only = 0, 0
    for seed in range(40):
        X, y, means = classes_of(geometry, [700, 1500], seed)
        fit = uncertain(geometry, **{**settings, "random_state": seed}).fit(X, y)
        for k in (0, 1):
            hits += bool(fit.confidence_region(k, 0.9).contains(means[k]))
            seen = np.asarray(geometry.log_coordinates(fit.means_[k], means[k]))
            sampling = fit.tangent_covariances_[k] / fit.inference_[k].n
            alone = seen @ np.linalg.solve(sampling + 1e-12 * np.eye(len(seen)), seen)
            sampling_only += alone <= stats.chi2.ppf(0.9, len(seen))
    # Binomial, of 80 at level .9: one in a million each way; sampling alone is too short.
    assert stats.binom.ppf(5e-7, 80, 0.9) <= hits
    assert sampling_only < stats.binom.ppf(5e-7, 80, 0.9)


def test_the_noise_of_a_count_turns_a_mean_that_is_far_from_the_centre():
    """Along the mean the error is larger than across it, as the covariance says."""
    X, y, means = classes_of(Euclidean(2), [120, 120], 0, spread=0.02, offset=0.9)
    errors, said = [], []
    for seed in range(60):
        fit = uncertain(radius=1.0, random_state=seed).fit(X, y)
        errors.append(fit.means_[0] - means[0])
        said.append(np.diag(fit.covariances_[0]))
    along, across = np.mean(np.square(errors), axis=0)
    said_along, said_across = np.mean(said, axis=0)
    assert said_along > 1.5 * said_across
    # Of 60 squares: 4.4 standard deviations each way.
    assert 0.3 < along / said_along < 1.8 and 0.3 < across / said_across < 1.8


def test_classes_of_one_fit_are_tested_with_each_other():
    X, y, _ = classes_of(Euclidean(2), [800, 800, 800], 0, spread=0.1)
    X[y == 2] -= X[y == 2].mean(axis=0) - X[y == 0].mean(axis=0)
    fit = uncertain(radius=1.0, epsilon=3.0, classes=range(3)).fit(X, y)
    statistic, pvalue, df = mean_test(fit)
    assert df == 4 and pvalue < 1e-6
    one, two, three = fit.inference_
    assert mean_test(one, two).pvalue < 1e-6
    assert mean_test(one, three).pvalue > 1e-3
    assert mean_test(one, popmean=fit.means_[0]).pvalue > 0.9


def test_equal_classes_are_rejected_as_often_as_stated():
    """60 tests at 20 %: binomial bounds, false alarms below 1e-6."""
    rejected = 0
    for seed in range(60):
        X = 0.2 * np.random.default_rng(seed).normal(size=(800, 2)) + [0.4, 0.0]
        fit = uncertain(radius=1.0, random_state=seed).fit(X, np.arange(800) % 2)
        rejected += mean_test(fit).pvalue <= 0.2
    assert rejected <= stats.binom.isf(1e-6, 60, 0.2)


def test_a_class_that_nobody_shows_has_wide_regions_or_none():
    X, y, _ = classes_of(Euclidean(2), [300, 300], 0)
    found = {"none": 0, "wide": 0}
    for seed in range(20):
        fit = uncertain(radius=1.0, classes=range(3), random_state=seed).fit(X, y)
        region = fit.confidence_region(2)
        assert np.linalg.norm(fit.means_[2]) <= 1.0 + 1e-9
        if region is None:
            found["none"] += 1
            assert fit.inference_[2] is None and np.isnan(fit.covariances_[2]).all()
            with pytest.raises(ValueError, match="count of a class"):
                mean_test(fit)
        else:
            found["wide"] += 1
            assert region.semi_axes[0] > 0.5
        assert np.isfinite(fit.predict(X[:3])).all()
    assert min(found.values()) >= 1


def test_a_region_of_a_class_says_whose_mean_it_is():
    X, y, _ = classes_of(Euclidean(2), [300, 300], 0)
    labels = np.array(["left", "right"])[y]
    fit = uncertain(radius=1.0, classes=["left", "right"]).fit(X, labels)
    words = str(fit.confidence_region("right"))
    assert "the Fréchet mean of class 'right' of the population" in words
    assert "of the records lay outside" in words
    with pytest.raises(ValueError, match="none of classes_"):
        fit.confidence_region("up")
    again = pickle.loads(pickle.dumps(fit)).confidence_region("right")
    assert again.threshold == fit.confidence_region("right").threshold


def test_regions_of_classes_are_drawn():
    X, y, _ = classes_of(Sphere(2), [300, 300], 0)
    fit = uncertain(Sphere(2), radius=1.0, epsilon=8.0).fit(X, y)
    ax = None
    for k in (0, 1):
        edge = fit.confidence_region(k).boundary(50)
        assert (Sphere(2).dist(fit.means_[k], edge) < 0.2).all()
        region = functools.partial(fit.confidence_region, k)
        display = NoiseBallDisplay(
            fit.geometry_, fit.means_[k], fit.noise_scale_, confidence_region=region
        )
        ax = display.plot(ax).ax_
    assert len(ax.lines) >= 4  # two levels for each of two classes


def test_a_second_fit_forgets_the_first():
    X, y, _ = classes_of(Euclidean(2), [300, 300], 0)
    fit = uncertain(radius=1.0).fit(X, y)
    fit.set_params(uncertainty=False).fit(X, y)
    assert not hasattr(fit, "covariances_") and not hasattr(fit, "inference_")
    with pytest.raises(AttributeError, match="uncertainty=True"):
        fit.confidence_region(0)


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "geometry, settings, words",
    [
        (Euclidean(2), {"delta": 0.0}, "delta > 0"),
        (Euclidean(2), {"uncertainty": "yes"}, "uncertainty"),
        (Sphere(2), {"radius": 1.4}, "above 1.3"),
    ],
    ids=str,
)
def test_what_has_no_region_is_refused_uncharged(geometry, settings, words, recording_accountant):
    X, y, _ = classes_of(geometry, [50, 50], 0)
    fit = uncertain(geometry, radius=1.0, accountant=recording_accountant)
    with pytest.raises(ValueError, match=words):
        fit.set_params(**settings).fit(X, y)
    assert recording_accountant.spends == []


def test_people_are_refused_with_a_cure_that_works(recording_accountant):
    X, y, _ = classes_of(Euclidean(2), [300, 300], 0)
    person = np.arange(600) // 3
    fit = uncertain(radius=1.0, accountant=recording_accountant)
    with pytest.raises(ValueError, match=r"uncertainty=False.*PrivateFrechetMean"):
        fit.fit(X, y, groups=person)
    assert recording_accountant.spends == []
    fit.set_params(uncertainty=False, accountant=None).fit(X, y, groups=person)
    alone = [
        PrivateFrechetMean(radius=1.0, uncertainty=True, random_state=k, epsilon=8.0).fit(
            X[y == k], groups=person[y == k]
        )
        for k in (0, 1)
    ]
    assert mean_test(*alone).pvalue < 1e-3


def test_clients_are_refused():
    X, y, _ = classes_of(Euclidean(2), [50, 50], 0)
    fit = FederatedEstimator(uncertain(radius=1.0), n_rounds=1, local="statistic")
    with pytest.raises(ValueError, match="uncertainty=False"):
        fit.fit(X, y, clients=np.arange(100) % 2)


# -- audits ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_audit_of_whole_fits(monkeypatch):
    """500 fits a side; false alarm at most 1e-7, and a third of the noise is found."""
    estimator = PrivateMinimumDistanceToMean(
        radius=1.0, classes=range(2), uncertainty=True, epsilon=8.0
    )
    pair = worst_case_neighbours(estimator, n=24)
    found, draw = {}, noise.draw
    for size in (1.0, 0.33):

        def weaker(exact, scale, *arguments, size=size, **settings):
            return draw(exact, weaker_scale(scale, size), *arguments, **settings)

        monkeypatch.setattr(noise, "draw", weaker)
        sides = (pair.data, pair.neighbour)
        scores = [[pair.score(estimator.fit(*data)) for _ in range(500)] for data in sides]
        found[size] = audit_scores(*np.array(scores), confidence=1 - 1e-7).mu
    claimed = estimator.privacy_spent_.mu
    assert 0.1 * claimed < found[1.0] <= claimed
    assert found[0.33] > claimed
