"""Class means decide linearly: what is asked, what it pays, and what the released numbers say."""

import math

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from skriemdp import PrivateMinimumDistanceToMean
from skriemdp._mean import class_releases, linear_decision
from skriemdp._mean.class_releases import SHORTER, Vote, linear_pays
from skriemdp._mean.linear_decision import ClassMoments, LinearDecision
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.bounded_sets import Moment
from skriemdp.auditing import audit_scores, worst_case_neighbours
from skriemdp.geometry import Euclidean, Hyperboloid, Sphere
from skriemdp.privacy._calibration import gaussian_mu

SPACE = Euclidean(4)


def table(n=3000, seed=0):
    """Three classes whose columns share a factor that tells nothing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    common = rng.normal(size=(n, 1)) * np.array([4.0, -3.0, 3.0, 4.0])
    return common + rng.normal(size=(n, 4)) + np.eye(3, 4)[y], y


def moments_of(X, y, noise=1e-6):
    """Moments of these records in a ball of radius 2 about zero; as good as exact, by default."""
    Z, classes = X / 2.0, np.eye(y.max() + 1)[y]
    return ClassMoments(len(X), 2.0, classes.T @ Z, classes.sum(axis=0), Z.T @ Z, noise, noise)


def test_without_noise_it_is_the_linear_discriminant(monkeypatch):
    monkeypatch.setattr(linear_decision, "_SHARES", 1.0)
    X, y = table()
    scores = LinearDecision.of(SPACE, np.zeros(4), moments_of(X, y)).scores(X)
    known = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    # Scikit-learn's scores leave out nothing but a number of each class that all share.
    expected = X @ known.coef_.T + known.intercept_
    np.testing.assert_allclose(scores - scores[:, :1], expected - expected[:, :1], atol=1e-6)


def test_scores_do_not_depend_on_the_company_of_a_row():
    X, y = table()
    rule = LinearDecision.of(SPACE, np.zeros(4), moments_of(X, y))
    alone = np.concatenate([rule.scores(row[None]) for row in X[:50]])
    np.testing.assert_array_equal(alone, rule.scores(X)[:50])


def test_moments_that_are_noise_leave_round_distances_and_means_that_are_noise_the_shares():
    rng, dim, n = np.random.default_rng(0), 30, 1000
    counts, sigma = np.array([700.0, 300.0]), 40.0
    noise = sigma * Moment(1.0, dim).sigma(1000) / Moment(1.0, dim).sigma(1000)
    drawn = rng.normal(size=(dim, dim)) * noise / math.sqrt(2.0)
    second = n / dim * np.eye(dim) + (drawn + drawn.T) / math.sqrt(2.0)
    sums = np.zeros((2, dim))
    sums[:, 0] = 0.3 * counts * [1.0, -1.0]
    rule = LinearDecision.of(
        Euclidean(dim), np.zeros(dim), ClassMoments(n, 1.0, sums, counts, second, 1.0, noise)
    )
    turned = rule.weights[0] / np.linalg.norm(rule.weights[0])
    assert abs(turned[0]) > 0.99  # the direction of the means, whatever the noise says
    sums = rng.normal(size=(2, dim)) * sigma
    found = ClassMoments(n, 1.0, sums, counts, n / dim * np.eye(dim), sigma, 1.0)
    rows = rng.normal(size=(200, dim)) / math.sqrt(dim)
    scores = LinearDecision.of(Euclidean(dim), np.zeros(dim), found).scores(rows)
    assert (scores.argmax(axis=1) == 0).mean() > 0.95


@pytest.mark.parametrize("second", [-1e3, 0.0, 1e-12, 1e3])
@pytest.mark.parametrize("counts", [(0.0, 0.0), (-50.0, 1050.0), (1000.0, 1000.0)])
def test_whatever_noise_made_of_the_numbers_scores_are_finite(second, counts):
    rng = np.random.default_rng(0)
    for size in (1e-3, 1.0, 1e3):
        sums = size * rng.normal(size=(2, 4))
        given = (1000.0, 1e100, sums, np.array(counts), second * np.eye(4), size, size)
        scores = LinearDecision.of(SPACE, np.zeros(4), ClassMoments(*given)).scores(np.eye(4))
        assert np.isfinite(scores).all()


def test_centres_of_classes_are_as_short_as_the_vectors_of_the_second_moment():
    # One class lies about zero, the other beyond the length to which vectors are shortened.
    rng, y = np.random.default_rng(0), np.arange(3000) % 2
    Z = 0.95 * np.outer(y, [1.0, 0.0]) + 0.1 * rng.normal(size=(3000, 2))
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    short = Z * np.minimum(1.0, SHORTER / lengths)
    found = moments_of(2.0 * Z, y)._replace(second=short.T @ short, longest=SHORTER)
    shares, common, means, *_ = linear_decision._class_means(found)
    within = [
        linear_decision._within(found._replace(longest=longest), shares, common, means)[0, 0]
        for longest in (SHORTER, 1.0)
    ]
    # Half of .01 is left of the first class; of longer centres nothing at all.
    assert 0.001 < within[0] < 0.006 and within[1] < 1e-6


# -- what a fit asks ------------------------------------------------------------------------------


def test_a_second_moment_is_asked_from_public_numbers_only_and_only_where_it_pays():
    # n mu, over the root of the dimension: 100, or 12 for each class.
    for k, least in ((2, 100.0), (8, 100.0), (9, 108.0), (30, 360.0)):
        for dim in (1, 4, 100):
            mu = least * math.sqrt(dim) / 1000
            assert linear_pays(Euclidean(dim), 1000, k, 1.001 * mu)
            assert not linear_pays(Euclidean(dim), 1000, k, 0.999 * mu)
    assert not linear_pays(Euclidean(2001), 10**9, 2, 1.0)
    flat, curved = Euclidean(4), Hyperboloid(4)
    assert Vote.planned(flat, 1000, 3, 0.201).ways == ("linear", "geodesic", "largest class")
    assert Vote.planned(curved, 1000, 3, 0.201).ways[0] == "linear"
    assert "linear" not in Vote.planned(flat, 1000, 3, 0.199).ways
    assert "linear" not in Vote.planned(flat, 1000, 3, 9.0, linear=False).ways
    assert Vote.planned(flat, 1000, 1, 9.0).ways == ()


@pytest.mark.parametrize(
    "settings",
    [
        {"delta": 0.0, "radius": 9.0},
        {"epsilon": 0.2},
        {"epsilon": 0.2, "uncertainty": True},
        {"groups": np.arange(3000) // 2},
    ],
)
def test_elsewhere_a_fit_is_what_it_was(settings, monkeypatch):
    X, y = table()
    groups = settings.pop("groups", None)
    given = {"classes": range(3), "epsilon": 1.0, "random_state": 0} | settings

    def learned():
        model = PrivateMinimumDistanceToMean(**given).fit(X, y, groups)
        assert getattr(model, "decision_", "geodesic") != "linear"
        return model.means_, model.class_counts_, model.radius_, model.predict_proba(X)

    now = learned()
    monkeypatch.setattr(class_releases, "_LEAST_LINEAR", math.inf)
    for one, other in zip(now, learned(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("ball", [{}, {"radius": 12.0}])
def test_shares_of_a_fit_add_up_to_its_budget(ball):
    model = PrivateMinimumDistanceToMean(classes=range(3), **ball)
    releases = {r.name: r.share for r in model.plan(3000, (4,)).releases}
    before = 1.0 - releases["second moment of all classes"] - releases["sums and sizes of classes"]
    assert sum(releases.values()) == pytest.approx(1.0, abs=1e-12)
    left = 1.0 - before
    assert releases["second moment of all classes"] == pytest.approx(0.12 * left, rel=1e-9)


def test_correlated_columns_are_told_apart_where_distances_do_not():
    X, y = table(6000)
    model = PrivateMinimumDistanceToMean(classes=range(3), epsilon=1.0, random_state=0)
    model.fit(X[:3000], y[:3000])
    assert model.decision_ == "linear"
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (model.classes_[proba.argmax(axis=1)] == model.predict(X)).all()
    linear = model.score(X[3000:], y[3000:])
    model.decision_ = "geodesic"
    assert linear > model.score(X[3000:], y[3000:]) + 0.05


def test_moments_of_classes_that_are_released_anyway_decide_for_nothing(monkeypatch):
    X, y = table(6000)
    model = PrivateMinimumDistanceToMean(
        classes=range(3), epsilon=2.0, uncertainty=True, random_state=0
    )
    planned = model.plan(3000, (4,)).releases
    model.fit(X[:3000], y[:3000])
    assert model.decision_ == "linear"
    means, better = model.means_, model.score(X[3000:], y[3000:])
    monkeypatch.setattr(class_releases, "_LEAST_LINEAR", math.inf)
    assert model.plan(3000, (4,)).releases == planned
    model.fit(X[:3000], y[:3000])
    assert not hasattr(model, "decision_")
    np.testing.assert_array_equal(model.means_, means)
    assert better > model.score(X[3000:], y[3000:]) + 0.05


def test_on_a_sphere_scatter_that_tells_nothing_is_left_out():
    rng, sphere = np.random.default_rng(0), Sphere(5)
    y = rng.integers(2, size=6000)
    steps = rng.normal(size=(6000, 5)) * [0.6, 0.1, 0.1, 0.1, 0.1]
    steps[:, 1:] += 0.08 * (2.0 * y - 1.0)[:, None]
    X = np.asarray(sphere.exp_coordinates(sphere.base_point, steps))
    model = PrivateMinimumDistanceToMean(sphere, classes=[0, 1], epsilon=1.0, random_state=0)
    model.fit(X[:3000], y[:3000])
    assert model.decision_ == "linear" and model.score(X[3000:], y[3000:]) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("faulty", [False, True], ids=["as shipped", "quarter of the noise"])
def test_audit_of_a_record_at_right_angles_to_what_it_was(faulty, monkeypatch):
    """500 fits a side; false alarm below 1e-7."""
    if faulty:
        integers = noise._integers
        monkeypatch.setattr(noise, "_integers", lambda *args: integers(*args) // 4)
    model = PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1], epsilon=4.0, delta=1e-3)
    pair = worst_case_neighbours(model, n=200)
    sides = []
    for data in (pair.data, pair.neighbour):
        sides.append([pair.score(model.fit(*data)) for _ in range(500)])
    audit = audit_scores(*sides, delta=1e-3, confidence=1 - 1e-8, tuning_share=0.2)
    assert (audit.mu > gaussian_mu(4.0, 1e-3)) == faulty


def test_the_pair_of_an_audit_moves_all_that_such_a_fit_releases():
    model = PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1], epsilon=2e4, random_state=0)
    pair = worst_case_neighbours(model, n=200)
    scores = [pair.score(model.fit(*data)) for data in (pair.data, pair.neighbour)]
    found = model._rule.linear.found
    # Four of sums and counts, and two of the second moment, over their variances; its noise is
    # seven thousandths of that.
    moved = 4.0 / found.sum_sigma**2 + 2.0 * SHORTER**4 / found.second_sigma**2
    assert scores[1] - scores[0] == pytest.approx(moved, rel=0.04)
