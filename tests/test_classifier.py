"""PrivateMinimumDistanceToMean: one joint release for all classes, and a useful classifier."""

import re
import warnings
from fractions import Fraction

import numpy as np
import pytest

from skriemdp import PrivateMinimumDistanceToMean
from skriemdp._mean.class_releases import ClassRule, Vote, drawn_together
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.bounded_sets import answers
from skriemdp._mechanisms.pure_sums import PureSumsAndCounts
from skriemdp._mechanisms.units import Units
from skriemdp.auditing import audit_scores
from skriemdp.datasets import digits_covariances, make_people
from skriemdp.geometry import Euclidean, Hyperboloid, Sphere
from skriemdp.preprocessing import PerGroup, Recenter
from skriemdp.privacy._calibration import gaussian_mu

CENTER = np.diag([9 / 84, 9 / 84, 1 / 12, 1 / 48, 1 / 48]) + 1e-3 * np.eye(5)


def test_digits_by_their_covariances():
    X, y = digits_covariances()
    model = PrivateMinimumDistanceToMean("spd", CENTER, 2.0, epsilon=100.0, classes=range(10))
    private = model.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:])
    # The non-private classifier (pyRiemann's MDM) reaches .59; chance is .1.
    assert private > 0.5
    assert model.class_counts_.sum() == pytest.approx(1200, abs=5)
    assert model.predict_proba(X[:5]).sum(axis=1) == pytest.approx(np.ones(5))


def test_more_classes_cost_no_more_budget():
    X, y = digits_covariances()
    few = PrivateMinimumDistanceToMean("spd", CENTER, 2.0).fit(X, y > 4)
    many = PrivateMinimumDistanceToMean("spd", CENTER, 2.0).fit(X, y)
    assert few.privacy_spent_.mu == many.privacy_spent_.mu == gaussian_mu(1.0, 1e-5)


def test_empty_class_of_a_public_list_is_a_point_of_the_ball():
    X, y = digits_covariances()
    model = PrivateMinimumDistanceToMean("spd", CENTER, 2.0, classes=range(12)).fit(X, y)
    assert model.means_.shape == (12, 5, 5)
    assert (model.geometry_.dist(CENTER, model.means_) <= 2.0 * (1 + 1e-9)).all()


def test_unknown_label_is_refused(recording_accountant):
    X, y = digits_covariances()
    model = PrivateMinimumDistanceToMean(
        "spd", CENTER, 2.0, classes=range(5), accountant=recording_accountant
    )
    with pytest.raises(ValueError, match="not in classes"):
        model.fit(X, y)
    assert recording_accountant.spends == []


@pytest.mark.slow
@pytest.mark.parametrize("faulty", [False, True], ids=["as shipped", "quarter of the noise"])
def test_audit_of_a_record_that_changes_its_class(faulty, monkeypatch):
    """400 fits a side; false alarm below 1e-7."""
    if faulty:
        integers = noise._integers
        monkeypatch.setattr(noise, "_integers", lambda *args: integers(*args) // 4)
    X = np.zeros((12, 1))
    y = np.r_[0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    X[0], Z, z = 1.0, X.copy(), y.copy()
    Z[0], z[0] = -1.0, 1
    model = PrivateMinimumDistanceToMean(
        center=[0.0], radius=1.0, classes=[0, 1], epsilon=8.0, delta=1e-3
    )

    def scores(rows, labels):
        out = []
        for _ in range(400):
            fit = model.fit(rows, labels)
            sums = fit.means_[:, 0] * np.maximum(fit.class_counts_, 1.0)
            # The optimal direction: sums and counts of both classes.
            out.append(-sums[0] - sums[1] - fit.class_counts_[0] + fit.class_counts_[1])
        return np.array(out)

    sides = scores(X, y), scores(Z, z)
    audit = audit_scores(*sides, delta=1e-3, confidence=1 - 1e-8, tuning_share=0.2)
    assert (audit.mu > gaussian_mu(8.0, 1e-3)) == faulty


def test_noisy_means_are_drawn_together_by_what_noise_explains():
    rng = np.random.default_rng(0)
    truth = 0.3 * rng.normal(size=(8, 30))
    sizes = np.linspace(50.0, 150.0, 8)
    noise = 20.0 / sizes
    noisy = truth + noise[:, None] * rng.normal(size=truth.shape)
    better = drawn_together(noisy, noise, sizes)
    assert np.sum((better - truth) ** 2) < 0.8 * np.sum((noisy - truth) ** 2)
    weights = sizes / sizes.sum()
    np.testing.assert_allclose(weights @ better, weights @ noisy)


def test_means_that_do_not_stand_out_stay_where_they_are():
    rng = np.random.default_rng(1)
    sizes = np.full(4, 10.0)
    means = rng.normal(size=(4, 50))
    for scale in (1.0, 3.0):
        np.testing.assert_array_equal(drawn_together(means, np.full(4, scale), sizes), means)
    np.testing.assert_allclose(drawn_together(means, np.full(4, 1e-9), sizes), means)
    # One class alone, or means in one place: nothing to draw.
    same = np.ones((2, 3))
    assert np.isfinite(drawn_together(same, np.zeros(2), np.ones(2))).all()
    np.testing.assert_array_equal(drawn_together(means[:1], np.ones(1), np.ones(1)), means[:1])


@pytest.mark.parametrize(("n", "end"), [(20_000, 0.86306302498177), (50_000, 0.6308060671246583)])
def test_class_sums_of_pure_fits_are_no_farther_apart_than_twice_the_radius(n, end, monkeypatch):
    """Added as floats and shortened by 1e-12 alone, these two are."""
    mechanism, found = PureSumsAndCounts(1, end, 1.0), []
    monkeypatch.setattr(noise, "draw", lambda exact, *_, **__: found.append(exact) or exact)
    rows = np.full((n, 1), 2.0 * end)
    for sign in (1.0, -1.0):
        rows[0] *= sign
        mechanism.release_rows(rows, np.zeros(n, dtype=int), 1, None)
    one, two = (Fraction(float(x.blocks[0][0, 0])) for x in found)
    unit = Fraction(end)
    assert 1.99 * unit < one - two <= 2 * unit


# -- how a fit decides ----------------------------------------------------------------------------


def wide_class(n=4000, dim=30):
    """Seven tenths of the records in one class, spread over half of a sphere."""
    rng, sphere = np.random.default_rng(0), Sphere(dim)
    y = rng.choice(4, size=n, p=[0.7, 0.1, 0.1, 0.1])
    centers = np.zeros((4, dim))
    centers[1:, :3] = 1.1 * np.eye(3)
    steps = rng.normal(size=(n, dim)) * np.where(y == 0, 1.3, 0.5)[:, None] / np.sqrt(dim)
    middles = sphere.exp_coordinates(sphere.base_point, centers)[y]
    return sphere.exp_coordinates(middles, steps), y


def model_of(X, y, **settings):
    kind = Sphere(X.shape[1] - 1)
    return PrivateMinimumDistanceToMean(kind, classes=range(4), **settings).fit(X, y)


@pytest.mark.parametrize(("epsilon", "way"), [(0.3, "tangent"), (3.0, "linear")])
def test_wide_classes_are_told_apart_in_the_coordinates_of_their_means(epsilon, way):
    X, y = wide_class()
    model = model_of(X, y, epsilon=epsilon)
    assert model.decision_ == way
    better = model.score(X, y)
    proba = model.predict_proba(X)
    assert (model.classes_[proba.argmax(axis=1)] == model.predict(X)).all()
    model.decision_ = "geodesic"
    assert better > model.score(X, y) + 0.1


def test_labels_without_a_meaning_are_named_and_warned_of():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(2000, 3)), rng.choice(3, size=2000, p=[0.7, 0.2, 0.1])
    model = PrivateMinimumDistanceToMean(radius=3.0, classes=range(3), epsilon=0.27, random_state=0)
    with pytest.warns(UserWarning, match="hardly more records right"):
        model.fit(X, y)
    assert model.decision_ == "largest class"
    assert (model.predict(X) == 0).all()
    assert (model.predict_proba(X).argmax(axis=1) == 0).all()
    model.set_params(epsilon=5.0)
    with pytest.warns(UserWarning, match="hardly more records right|differ by no more than"):
        model.fit(X, y)  # the shares of the classes alone tell a linear decision
    assert (model.predict(X) == 0).mean() > 0.99
    # What one fit learned another forgets.
    model.set_params(epsilon=0.1).fit(X, y)
    assert not hasattr(model, "decision_")
    assert len(set(model.predict(X))) == 3


def test_who_is_asked():
    space, flat = Hyperboloid(3), Euclidean(3)
    assert Vote.planned(space, 1000, 3, 0.15).ways == ("geodesic", "tangent", "largest class")
    assert Vote.planned(flat, 1000, 3, 0.15).ways == ("geodesic", "largest class")
    for n, classes, mu in ((1000, 3, 0.149), (1000, 1, 0.15), (1000, 3, 0.0)):
        assert Vote.planned(space, n, classes, mu).ways == ()
    X, y = wide_class(600)
    for settings in ({"uncertainty": True, "epsilon": 1.0}, {"delta": 0.0, "epsilon": 8.0}):
        assert not hasattr(model_of(X, y, radius=1.2, **settings), "decision_")


def test_a_way_must_stand_out_of_the_noise():
    vote = Vote.planned(Hyperboloid(2), 1000, 3, 1.0, linear=False)
    assert vote.decided(np.array([500.0, 513.0, 100.0]), 10.0) == ("geodesic", True)
    assert vote.decided(np.array([500.0, 515.0, 100.0]), 10.0) == ("tangent", True)
    assert vote.decided(np.array([500.0, 515.0, 520.0]), 10.0) == ("largest class", False)
    assert vote.decided(np.array([500.0, 480.0, 510.0]), 10.0) == ("geodesic", False)
    assert vote.decided(np.array([500.0, 480.0, 491.0]), 10.0) == ("geodesic", False)


def test_a_vote_pays_its_share_and_the_whole_charge_is_as_before():
    X, y = wide_class(600)
    asked = model_of(X, y, epsilon=8.0, radius=1.2)
    assert asked.privacy_spent_.mu == pytest.approx(gaussian_mu(8.0, 1e-5), rel=1e-12)
    vote = Vote.planned(Sphere(30), 600, 4, gaussian_mu(8.0, 1e-5))
    bounded_set = answers(len(vote.ways))
    sigma = bounded_set.sigma(bounded_set.check(vote.mu))
    assert sigma == pytest.approx(10.0 / gaussian_mu(8.0, 1e-5), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("halved", [False, True], ids=["as shipped", "halved noise"])
def test_audit_of_a_record_that_every_way_labels_right(halved, monkeypatch):
    """3000 votes a side; false alarm below 1e-7."""
    if halved:
        integers = noise._integers
        monkeypatch.setattr(noise, "_integers", lambda *args: integers(*args) // 2)
    ways, found = ("geodesic", "tangent", "largest class"), []
    decided = Vote.decided
    monkeypatch.setattr(
        Vote,
        "decided",
        lambda self, counts, sigma: found.append(counts) or decided(self, counts, sigma),
    )

    class Rule:
        geometry = Hyperboloid(2)

        @staticmethod
        def places(points, way):
            return np.zeros(len(points), dtype=int)

    points, labels = np.tile(Rule.geometry.base_point, (1000, 1)), np.arange(1000) % 2
    rng = np.random.default_rng(0)
    sides = []
    for label in (0, 1):
        labels[0], found[:] = label, []
        for _ in range(3000):
            Vote(1000, ways, 4.0, Rule).release(Units((points, labels)), rng)
        sides.append(-np.sum(found, axis=1))
    audit = audit_scores(*sides, delta=1e-3, confidence=1 - 1e-8, tuning_share=0.2)
    assert (audit.mu > 4.0) == halved


@pytest.mark.parametrize("settings", [{}, {"radius": 1.0}, {"radius": 1.0, "delta": 0.0}])
def test_a_fit_says_beforehand_that_noise_is_of_the_size_of_the_ball(settings, recwarn):
    rng = np.random.default_rng(0)
    model = PrivateMinimumDistanceToMean(classes=range(4), epsilon=1.0, **settings)
    for n, said in ((15, True), (4000, False)):
        recwarn.clear()
        model.fit(rng.normal(size=(n, 3)), rng.integers(4, size=n))
        assert any("times the radius" in str(w.message) for w in recwarn) == said


def test_shares_of_classes_that_noise_leaves_empty_are_equal():
    rule = ClassRule(Euclidean(2), np.zeros(2), np.zeros((4, 2)), None, np.zeros(4))
    assert rule.shares().tolist() == [0.25] * 4


def told_of_noise(fit):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fit()
    return any(
        re.search("hardly more records right|differ by no more than", str(warning.message))
        for warning in seen
    )


@pytest.mark.parametrize("radius", ["private", 4.0])
@pytest.mark.parametrize(("n", "gap"), [(300, 3.0), (2000, 1.0), (2000, 0.0), (300, 0.0)])
def test_a_fit_says_that_it_found_noise_when_it_did_and_only_then(n, gap, radius):
    # Of equal means one fit in 200 says nothing; six or more of 12: chance below 1e-10.
    rng, told = np.random.default_rng(n), 0
    for _ in range(12):
        y = rng.integers(0, 2, n)
        X = rng.normal(size=(n, 3))
        X[:, 0] += gap * y
        model = PrivateMinimumDistanceToMean(classes=[0, 1], radius=radius)
        told += told_of_noise(lambda model=model, X=X, y=y: model.fit(X, y))
    assert told > 6 if gap == 0.0 else told < 6


@pytest.mark.parametrize(("chance", "people"), [(False, 200), (True, 200), (True, 40)])
def test_people_are_told_of_noise_when_labels_mean_nothing(chance, people):
    told = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y, person = make_people(people, 10, 3, rng=rng)
        y = rng.permutation(y) if chance else y
        ball = {"center": np.eye(3), "radius": 0.7}
        decoder = PrivateMinimumDistanceToMean("spd", classes=[0, 1], epsilon=2.0, **ball)
        model = PerGroup(Recenter("spd"), decoder)
        told += told_of_noise(lambda model=model, of=(X, y, person): model.fit(*of))
    assert told >= 3 if chance else told <= 1
