"""Rows transformed by their own group's rows; the group is what is protected then."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from skriemdp import PrivacyAccountant, PrivateMinimumDistanceToMean
from skriemdp.datasets import make_people
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import AffineInvariantSPD, Hyperboloid, Sphere
from skriemdp.mean.estimator import frechet_mean
from skriemdp.preprocessing import PerGroup, Recenter

X, Y, PEOPLE = make_people(30, 12, 3, rng=np.random.default_rng(0))
MDM = PrivateMinimumDistanceToMean(
    "spd-log-euclidean", radius=0.5, classes=[0, 1], epsilon=3.0, random_state=0
)
MODEL = PerGroup(Recenter("spd"), MDM)


@parametrize_with_checks([Recenter("euclidean")])
def test_recenter_is_a_transformer(estimator, check):
    check(estimator)


@pytest.mark.parametrize("geometry", [AffineInvariantSPD(3), Sphere(2), Hyperboloid(2)], ids=str)
def test_recentred_points_have_their_mean_at_the_base_point(geometry):
    rng = np.random.default_rng(1)
    center = geometry.exp_coordinates(geometry.base_point, 0.7 * rng.standard_normal(geometry.dim))
    coordinates = 0.2 * rng.standard_normal((40, geometry.dim))
    points = np.asarray(geometry.exp_coordinates(center, coordinates))
    moved = Recenter(geometry).fit_transform(points)
    mean = frechet_mean(moved, geometry)
    assert float(geometry.dist(geometry.base_point, mean)) < 1e-7
    # An isometry: distances between points stay.
    before, after = geometry.dist(points[0], points[1:]), geometry.dist(moved[0], moved[1:])
    if isinstance(geometry, AffineInvariantSPD):
        np.testing.assert_allclose(after, before, atol=1e-7)


def test_recentring_whitens_matrices():
    recentre = Recenter("spd").fit(X[PEOPLE == 3])
    values, vectors = np.linalg.eigh(recentre.mean_)
    root = (vectors / np.sqrt(values)) @ vectors.T
    np.testing.assert_allclose(recentre.transform(X), root @ X @ root, atol=1e-9)


def test_recentring_by_person_helps_new_people():
    new, truth, who = make_people(30, 12, 3, rng=np.random.default_rng(1))
    recentred = clone(MODEL).fit(X, Y, groups=PEOPLE).score(new, truth, groups=who)
    raw = clone(MDM).fit(X, Y, groups=PEOPLE).score(new, truth)
    assert recentred > raw + 0.1  # seeded: .84 and .64


def test_clients_may_add_up_what_recentred_people_show():
    sums = FederatedEstimator(MDM, 1, local="statistic")
    model = PerGroup(Recenter("spd"), sums).fit(X, Y, groups=PEOPLE, clients=PEOPLE % 3)
    assert model.privacy_spent_.unit == "group"
    alone = clone(MODEL).fit(X, Y, groups=PEOPLE)
    noise = model.estimator_.estimator_.noise_scale_
    assert noise == pytest.approx(3**0.5 * alone.estimator_.noise_scale_)
    with pytest.raises(ValueError, match="clients is required"):
        PerGroup(Recenter("spd"), sums).fit(X, Y, groups=PEOPLE)
    # Rows at one client would be moved by rows at another.
    wandering = np.arange(len(PEOPLE)) % 2
    with pytest.raises(ValueError, match="somebody in two clients"):
        PerGroup(Recenter("spd"), sums).fit(X, Y, groups=PEOPLE, clients=wandering)


def test_a_changed_person_changes_own_transformed_rows_only():
    seen = []

    class Watching(PrivateMinimumDistanceToMean):
        def fit(self, X, y, groups=None):
            seen.append(X)
            return super().fit(X, y, groups)

    model = PerGroup(Recenter("spd"), Watching(**MDM.get_params()))
    model.fit(X, Y, groups=PEOPLE)
    changed = X.copy()
    changed[np.flatnonzero(PEOPLE == 4)[0]] *= 1e6
    model.fit(changed, Y, groups=PEOPLE)
    moved = (seen[0] != seen[1]).any(axis=(1, 2))
    assert moved[PEOPLE == 4].sum() > 1 and not moved[PEOPLE != 4].any()


def test_groups_are_required_and_the_cure_works():
    with pytest.raises(ValueError, match="groups=np.zeros"):
        clone(MODEL).fit(X, Y)
    model = clone(MODEL).fit(X, Y, groups=PEOPLE)
    for call in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match="groups=np.zeros"):
            call(X[:12])
    assert model.predict(X[:12], groups=np.zeros(12)).shape == (12,)
    assert model.predict_proba(X[:12], groups=np.zeros(12)).shape == (12, 2)
    assert model.privacy_spent_.unit == "group"
    assert "n" not in model.privacy_spent_.public
    assert model.privacy_spent_.public["n_groups"] == 30


class Failing(TransformerMixin, BaseEstimator):
    """Cannot transform rows that hold a large number, and says so."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        if (X > 100.0).any():
            raise ValueError(f"{X}")
        return X


class Shortening(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[1:]


def test_a_group_that_cannot_be_transformed_is_not_told_of():
    eye = np.tile(np.eye(3), (len(X), 1, 1))
    model = PerGroup(Failing(), MDM)
    eye[PEOPLE == 3] = 1e3 * np.eye(3)
    assert np.isfinite(model.fit(eye, Y, groups=PEOPLE).estimator_.means_).all()


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (PerGroup(Recenter("spd"), LogisticRegression()), ValueError, "takes no groups"),
        (PerGroup(Shortening(), MDM), ValueError, "number of rows"),
        (PerGroup(FunctionTransformer(lambda A, held=Y[:30]: A), MDM), TypeError, "carries"),
    ],
    ids=["no groups", "fewer rows", "carries data"],
)
def test_what_has_no_guarantee_is_refused_for_free(model, error, words):
    budget = PrivacyAccountant(epsilon=1.0)
    if hasattr(model.estimator, "accountant"):
        model = clone(model).set_params(estimator__accountant=budget)
    with pytest.raises(error, match=words):
        model.fit(X, Y, groups=PEOPLE)
    assert len(budget.history) == 0


@pytest.mark.parametrize("routing", [False, True])
def test_people_stay_together_in_cross_validation(routing):
    folds = GroupKFold(3, shuffle=True, random_state=0)
    with config_context(enable_metadata_routing=routing):
        if routing:
            given = {"params": {"groups": PEOPLE}}
            found = cross_validate(clone(MODEL), X, Y, cv=folds, **given, return_estimator=True)
            assert found["test_score"].mean() > 0.6
            assert all(m.privacy_spent_.unit == "group" for m in found["estimator"])
        else:
            # Without routing scikit-learn keeps the groups for the splitter: a refusal, not a fit
            # that protects rows.
            with pytest.raises(ValueError, match="groups=np.zeros"):
                cross_validate(clone(MODEL), X, Y, cv=folds, groups=PEOPLE, error_score="raise")


def test_in_a_pipeline():
    with config_context(enable_metadata_routing=True):
        pipe = make_pipeline(FunctionTransformer(), clone(MODEL))
        pipe.fit(X, Y, groups=PEOPLE)
        assert pipe.score(X, Y, groups=PEOPLE) > 0.6
