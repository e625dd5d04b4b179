"""A mean and a linear model in one fit: what each gets, where coordinates are taken, refusals."""

import math
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateMinimumDistanceToMean,
    PrivateTangentClassifier,
)
from skriemdp._core.estimator import Terms
from skriemdp._tangent.releases import MEAN_SHARE, shares_of_epsilon
from skriemdp.datasets import make_people
from skriemdp.geometry import AffineInvariantSPD, Sphere
from skriemdp.preprocessing import PerGroup, Recenter
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import GaussianEvent

RNG = np.random.default_rng(0)
SPACE = AffineInvariantSPD(3)
LABELS = RNG.integers(0, 2, size=900)
# Wide where nothing tells the classes apart, narrow where they differ.
COORDINATES = RNG.normal(size=(900, 6)) * [1.0, 0.8, 0.1, 0.1, 0.1, 0.1]
COORDINATES[:, 2] += 0.15 * (2 * LABELS - 1)
POINTS = SPACE.exp_coordinates(4.0 * np.eye(3), COORDINATES)
KNOWN = {"manifold": "spd", "classes": [0, 1]}


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.05])
def test_two_shares_are_no_more_than_the_whole(delta):
    for epsilon in np.geomspace(0.01, 30.0, 40):
        mu = gaussian_mu(epsilon, delta)
        parts = [
            gaussian_mu(e, delta) for e in shares_of_epsilon(Terms(epsilon, delta), MEAN_SHARE)
        ]
        if min(parts) <= math.sqrt(MEAN_SHARE) * mu:  # else the epsilon of the mean is zero
            assert 1.0 - 1e-6 < math.hypot(*parts) / mu <= 1.0


def test_labels_are_told_apart_as_without_privacy():
    """Seeded, so it never fails by chance."""
    settings = KNOWN | {"epsilon": 2.0, "random_state": 0}
    kept, new = slice(0, 700), slice(700, 900)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PrivateTangentClassifier(**settings).fit(POINTS[kept], LABELS[kept])
        means = PrivateMinimumDistanceToMean(**settings).fit(POINTS[kept], LABELS[kept])
    exact = LogisticRegression().fit(COORDINATES[kept], LABELS[kept])
    score = model.score(POINTS[new], LABELS[new])
    assert score > exact.score(COORDINATES[new], LABELS[new]) - 0.05
    # Class means decide linearly here, and are as good.
    assert means.decision_ == "linear"
    assert score > means.score(POINTS[new], LABELS[new]) - 0.05
    scores, shares = model.decision_function(POINTS), model.predict_proba(POINTS)
    assert np.array_equal(model.predict(POINTS), scores > 0.0)
    assert np.allclose(shares.sum(axis=1), 1.0) and np.array_equal(shares[:, 1] > 0.5, scores > 0)
    ball = PrivateTangentClassifier(**settings, center=np.eye(3), radius=6.0)
    scores = ball.fit(POINTS, LABELS).decision_function(POINTS)
    seen = SPACE.log_coordinates(np.eye(3), POINTS)
    assert np.allclose(seen @ ball.coef_[0] + ball.intercept_[0], scores)


def test_what_is_public_is_not_paid_for():
    names = {}
    for given in ({}, {"center": np.eye(3)}, {"center": np.eye(3), "radius": 4.0}):
        model = PrivateTangentClassifier(**KNOWN, **given, accountant=PrivacyAccountant())
        model.fit(POINTS, LABELS)
        planned = model.plan(len(POINTS), (3, 3)).releases
        assert planned == model.privacy_spent_.public["releases"]
        assert math.fsum(each.share for each in planned) == pytest.approx(1.0)
        names[len(given)] = [each.name for each in planned]
        assert set(given) <= set(model.privacy_spent_.public)
    assert [name.startswith("mean: ") for name in names[0]].count(True) >= 3
    assert names[1] == ["radius", "scales of columns", "clipped fraction", "gradients"]
    assert names[2] == ["clipped fraction", "gradients"]
    assert np.array_equal(model.center_, np.eye(3)) and model.radius_ == 4.0


def test_a_center_may_be_found_for_a_public_radius():
    model = PrivateTangentClassifier("sphere", "private", 0.8, classes=["a", "b"], random_state=0)
    sphere = Sphere(2)
    X = np.asarray(sphere.exp_coordinates(sphere.base_point, 0.1 * COORDINATES[:, 1:3]))
    turned = X @ np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]])
    model.fit(turned, np.array(["a", "b"])[LABELS])
    mean = PrivateFrechetMean("sphere", epsilon=50.0, random_state=0).fit(turned).mean_
    assert sphere.dist(model.center_, mean) < 0.1 and model.radius_ == 0.8
    assert set(model.predict(turned)) <= {"a", "b"}


def test_recentred_people_pay_for_no_mean(recording_accountant):
    X, y, person = make_people(60, 8, 3, rng=np.random.default_rng(1))
    inner = PrivateTangentClassifier(**KNOWN, accountant=recording_accountant)
    model = PerGroup(Recenter("spd"), inner).fit(X, y, groups=person)
    fitted = model.estimator_
    assert np.array_equal(fitted.center_, np.eye(3))
    assert model.privacy_spent_.unit == "group"
    assert recording_accountant.spends == [GaussianEvent(1.0 / gaussian_mu(1.0, 1e-5))]
    assert set(model.predict(X, groups=person)) <= {0, 1}
    plan = inner.plan(60, (3, 3), grouped=True)
    assert plan.unit == "group" and "private mean" in plan.mechanism


@pytest.mark.parametrize(
    ("given", "cure", "words"),
    [
        ({"delta": 0.0}, {"delta": 1e-5}, "delta=0"),
        ({"radius": "auto"}, {"radius": "private"}, "radius"),
        ({"radius": -1.0}, {"radius": 1.0, "center": np.eye(3)}, "radius"),
        ({"radius": 1.0}, {"center": np.eye(3)}, "center"),
        ({"center": "mean"}, {"center": "private"}, "center"),
        ({"center": np.eye(2)}, {"center": np.eye(3)}, "center"),
        ({"center": -np.eye(3)}, {"center": np.eye(3)}, "center"),
        ({"classes": [0]}, {"classes": [0, 1]}, "not in classes"),
        ({"classes": [0, 2]}, {"classes": [0, 1, 2]}, "not in classes"),
        ({"epsilon": 2e-6}, {"epsilon": 0.1}, "epsilon"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_refusals_have_cures_and_spend_nothing(given, cure, words, recording_accountant):
    settings = KNOWN | {"accountant": recording_accountant} | given
    with pytest.raises(ValueError, match=words):
        PrivateTangentClassifier(**settings).fit(POINTS, LABELS)
    assert recording_accountant.spends == []
    PrivateTangentClassifier(**settings | cure).fit(POINTS, LABELS)
    assert len(recording_accountant.spends) == 1


def test_warnings_name_the_parameters_of_this_class():
    model = PrivateTangentClassifier(
        **KNOWN, center=4.0 * np.eye(3), radius=0.1, epsilon=10.0, random_state=0
    )
    with pytest.warns(UserWarning, match="choose radius") as said:
        model.fit(POINTS, LABELS)
    assert not any("feature_norm" in str(w.message) for w in said)


def test_a_radius_beyond_floats_is_refused(recording_accountant):
    model = PrivateTangentClassifier(
        "euclidean", classes=[0, 1], radius=10**400, accountant=recording_accountant
    )
    with pytest.raises(ValueError, match="radius must be a positive real number"):
        model.fit(np.zeros((4, 2)), [0, 1, 0, 1])
    assert not recording_accountant.spends
