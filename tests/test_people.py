"""Fits that protect people: the number of their rows reaches nothing, one row each is a record."""

import inspect
import math
import re
import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_validate

import skriemdp
from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGridSearchCV,
    PrivateHyperbolicRegressor,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
)
from skriemdp._groups import Groups
from skriemdp._mean.class_releases import PeopleOfClasses
from skriemdp.geometry import Euclidean, Hyperboloid, Sphere

COUNT = 30


def gradient(point, X, y):
    return point - X


SEEDED = {"epsilon": 3.0, "random_state": 0}
RISK = PrivateRiemannianERM(gradient=gradient, n_steps=10, **SEEDED)
PCA = PrivatePrincipalEigenvector(row_norm=2.0, center="assume", **SEEDED)
LINEAR = PrivateNoisyAdaGrad(
    feature_norm=2.0, center=np.zeros(2), classes=range(3), clip_norm=0.3, n_steps=10, **SEEDED
)
REGRESSION = PrivateHyperbolicRegressor(
    base_point=[0.0], feature_scale=1.0, n_frequencies=4, n_steps=5, **SEEDED
)
MODELS = {
    "mean": PrivateFrechetMean(radius=2.0, mechanism="tangent", **SEEDED),
    "mean of a large delta": PrivateFrechetMean(
        radius=2.0, mechanism="tangent", delta=0.1, **SEEDED
    ),
    "mean adaptive": PrivateFrechetMean(radius=2.0, epsilon=30.0, random_state=0),
    "mean descent": PrivateFrechetMean(radius=2.0, mechanism="gradient", **SEEDED),
    "mean found": PrivateFrechetMean(**SEEDED),
    "class means": PrivateMinimumDistanceToMean(radius=2.0, classes=range(3), **SEEDED),
    "class means found": PrivateMinimumDistanceToMean(classes=range(3), **SEEDED),
    "risk": RISK,
    "risk of batches": clone(RISK).set_params(batch_size=6),
    "risk of batches of one size": clone(RISK).set_params(batch_size=6, sampling="fixed-size"),
    "risk of differences": clone(RISK).set_params(batch_size=6, solver="variance-reduced"),
    "risk, clip found": clone(RISK).set_params(clip_norm="private"),
    "components": PCA,
    "components pure": clone(PCA).set_params(delta=0.0),
    "components refined, found": clone(PCA).set_params(mechanism="refine"),
    "components by power, found": clone(PCA).set_params(mechanism="power", n_steps=2),
    "components by descent": clone(PCA).set_params(mechanism="gradient", n_steps=5),
    "components, centre found": clone(PCA).set_params(center="private", row_norm="private"),
    "components of pairs, found": PrivatePrincipalEigenvector(epsilon=1.3, random_state=0),
    "linear": LINEAR,
    "linear paper": clone(LINEAR).set_params(preconditioner="paper"),
    "linear in batches": clone(LINEAR).set_params(batch_size=6),
    "linear in a subspace": clone(LINEAR).set_params(subspace=np.eye(2)[:, :1]),
    "linear, place found": clone(LINEAR).set_params(feature_norm="private", center=None),
    "regression": REGRESSION,
    "regression, place found": clone(REGRESSION).set_params(
        base_point="private", feature_scale="private"
    ),
    "regression by moments": clone(REGRESSION).set_params(
        mechanism="sufficient-statistics", ridge=10.0
    ),
    "regression by query": clone(REGRESSION).set_params(mechanism="per-query", n_queries=3),
}


def people(rng, most):
    """Rows of `COUNT` people, one to `most` each."""
    ids = np.repeat(np.arange(COUNT), rng.integers(1, most + 1, COUNT))
    ids = rng.permutation(ids)
    X = 0.3 * rng.standard_normal((COUNT, 2))[ids] + 0.1 * rng.standard_normal((len(ids), 2))
    return X, rng.integers(0, 3, len(ids)), ids


def released(model):
    if getattr(model, "mechanism", "") == "per-query":
        return model.predict(np.array([[0.1, 0.2], [0.3, -0.1]]))
    for name in ("components_", "coef_", "mean_", "means_", "point_"):
        if hasattr(model, name):
            return getattr(model, name)
    raise AssertionError


@pytest.mark.parametrize("name", MODELS)
def test_numbers_of_rows_reach_neither_plan_nor_words(name):
    said = []
    for most in (1, 3, 40):
        model = clone(MODELS[name])
        plans = []

        def plan(facts, terms, model=model, plans=plans):
            plans.append(type(model)._plan(model, facts, terms))
            return plans[0]

        model._plan = plan
        X, y, ids = people(np.random.default_rng(most), most)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y, groups=ids)
        (made,), spent = plans, model.privacy_spent_
        assert spent.unit == "group" and spent.public["n_groups"] == COUNT
        assert "n" not in spent.public
        words = [str(w.message) for w in caught]
        # Of released numbers.
        released = ("private estimate", "released eigen", "never stood out", "released class means")
        words = [w for w in words if not any(part in w for part in released)]
        settings = re.sub(" at 0x[0-9a-f]+", "", repr(made.settings))
        if name == "class means found":  # which holds a function
            settings = settings.split("budget=")[0]
        said.append((made.event, settings, made.work, made.arithmetic, repr(spent), words))
        if "found" not in name and "adaptive" not in name:  # where it is released
            said[-1] += (model.noise_scale_,)
    assert said[0] == said[1] == said[2]
    if "large delta" in name:
        assert said[0][5]


@pytest.mark.parametrize("name", MODELS)
def test_one_row_each_is_a_record(name):
    rng = np.random.default_rng(0)
    X, y, _ = people(rng, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = clone(MODELS[name]).fit(X, y)
        owners = clone(MODELS[name]).fit(X, y, groups=np.arange(COUNT))
    np.testing.assert_allclose(released(owners), released(rows), rtol=1e-4, atol=1e-5)
    assert owners.privacy_spent_.event == rows.privacy_spent_.event
    assert rows.privacy_spent_.unit == "record"
    if "class" not in name:
        # Sets of people have room for rounding of their own.
        assert owners.noise_scale_ == pytest.approx(rows.noise_scale_, rel=2e-5)
    else:
        np.testing.assert_allclose(owners.class_counts_, rows.class_counts_, atol=1e-6)
        # Nominal: a person shows every class, a record one of three.
        assert owners.noise_scale_ * 3**0.5 == pytest.approx(rows.noise_scale_, rel=1e-12)


@pytest.mark.parametrize("geometry", [Sphere(2), Hyperboloid(2)], ids=str)
def test_a_persons_rows_count_as_their_own_mean(geometry):
    rng = np.random.default_rng(1)
    sizes = np.where(np.arange(COUNT) % 10, 1, 50)
    ids = np.repeat(np.arange(COUNT), sizes)
    steps = np.where(ids % 10, 0.1, -0.4)[:, None] * [1.0, 0.0]
    steps += 0.05 * rng.standard_normal(steps.shape)
    X = np.asarray(geometry.exp_coordinates(geometry.base_point, steps))
    model = PrivateFrechetMean(geometry, radius=1.0, epsilon=1e4, random_state=0)
    seen = np.asarray(geometry.log_coordinates(geometry.base_point, model.fit(X, groups=ids).mean_))
    assert abs(seen[0] - 0.05) < 0.02  # people; rows are at -.31
    risk = PrivateRiemannianERM(geometry, n_steps=30, step_size=0.5, epsilon=1e4, random_state=0)
    point = risk.fit(X, groups=ids).point_
    np.testing.assert_allclose(point, model.mean_, atol=0.02)


def test_functions_are_tried_against_the_number_of_people():
    X, _, ids = people(np.random.default_rng(2), 5)
    budget = PrivacyAccountant(epsilon=1.0)

    def fit(rows):
        table = np.zeros((rows, 2))
        model = PrivateRiemannianERM(
            gradient=lambda point, X, y: point - X + table[0], n_steps=2, accountant=budget
        )
        return model.fit(X, groups=ids)

    with pytest.raises(TypeError, match=f"n={COUNT}"):
        fit(COUNT)
    assert len(budget.history) == 0
    fit(len(X))  # who has how many rows is not told by a refusal


def test_groups_of_dask_arrays_are_refused():
    da = pytest.importorskip("dask.array")
    X, _, ids = people(np.random.default_rng(3), 5)
    budget = PrivacyAccountant(epsilon=1.0)
    model = PrivateRiemannianERM(gradient=gradient, accountant=budget)
    with pytest.raises(ValueError, match="NumPy"):
        model.fit(da.from_array(X, chunks=(10, 2)), groups=ids)
    assert len(budget.history) == 0


EXACT = ["components", "components by power, found", "components by descent", "linear"]
EXACT += ["linear, place found", "regression", "regression by moments"]
EXACT += ["components, centre found", "components of pairs, found", "regression, place found"]


@pytest.mark.parametrize("name", EXACT)
def test_people_are_added_in_integers(name):
    rng = np.random.default_rng(5)
    X, y, ids = people(rng, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(MODELS[name]).fit(X, y, groups=ids)
    assert model.privacy_spent_.public["arithmetic"] == "exact integers"


def test_searches_score_people_and_split_them_by_their_ids():
    rng = np.random.default_rng(6)
    X, _, ids = people(rng, 8)
    means = clone(MODELS["mean"]).set_params(random_state=None)
    search = PrivateGridSearchCV(means, {"radius": [0.5, 2.0]}, random_state=0, loss_bound=4.0)
    search.fit(X, groups=ids)
    spent = search.privacy_spent_
    assert spent.unit == "group"
    assert spent.public.items() >= {"n_groups": 30, "n_validation": 8}.items()
    assert search.best_estimator_.privacy_spent_ is spent
    # Who trains depends on the ids, and on nobody's number of rows.
    more = np.concatenate([np.arange(COUNT), ids[ids == 4]])
    parts = [search._parts(np.zeros((len(p), 2)), None, p)[1] for p in (ids, more)]
    assert set(parts[0].people) == set(parts[1].people)
    # One row each: the same search as that of rows.
    one, _, _ = people(rng, 1)
    rows = clone(search).fit(one)
    owners = clone(search).fit(one, groups=np.arange(COUNT))
    assert owners.best_index_ == rows.best_index_
    assert owners.privacy_spent_.event == rows.privacy_spent_.event
    assert owners.best_score_ == pytest.approx(rows.best_score_, abs=0.05)


def test_a_search_protects_no_more_than_its_fits():
    X, y, _ = people(np.random.default_rng(7), 1)
    labels = clone(REGRESSION).set_params(privacy_unit="label", random_state=None)
    search = PrivateGridSearchCV(labels, {"clip_norm": [0.5, 1.0]}, mean_runs=2.0)
    assert search.fit(X, y.astype(float)).privacy_spent_.unit == "label"
    ledger = PrivacyAccountant(epsilon=1e3, delta=1e-2)
    with pytest.raises(Exception, match="protects each record"):
        search.set_params(accountant=ledger).fit(X, y.astype(float))


def test_what_cannot_be_done_for_people_is_refused_before_the_charge():
    X, y, ids = people(np.random.default_rng(8), 5)
    budget = PrivacyAccountant(epsilon=1.0)
    with pytest.raises(ValueError, match="one table"):
        PrivatePrincipalEigenvector(accountant=budget).fit([X, X], groups=[*ids, *ids])
    with pytest.raises(ValueError, match="privacy_unit='record'"):
        model = clone(REGRESSION).set_params(privacy_unit="label", accountant=budget)
        model.fit(X, y, groups=ids)
    assert len(budget.history) == 0


@pytest.mark.parametrize("name", ["mean", "class means", "risk"])
def test_cross_validation_hands_groups_on_where_metadata_are_routed(name):
    X, y, ids = people(np.random.default_rng(4), 5)
    folds = GroupKFold(3, shuffle=True, random_state=0)
    model = clone(MODELS[name])
    scoring = None if name != "risk" else lambda fitted, X, y=None: float(-np.sum(fitted.point_**2))
    settings = {"cv": folds, "scoring": scoring, "return_estimator": True}
    with config_context(enable_metadata_routing=True):
        found = cross_validate(model, X, y, params={"groups": ids}, **settings)
    assert {m.privacy_spent_.unit for m in found["estimator"]} == {"group"}
    # Without routing the groups split the rows, and nothing more.
    found = cross_validate(model, X, y, groups=ids, **settings)
    assert {m.privacy_spent_.unit for m in found["estimator"]} == {"record"}
    # A ledger of people notices.
    model.set_params(accountant=PrivacyAccountant(unit="group"))
    with pytest.raises(Exception, match="groups"):
        cross_validate(model, X, y, groups=ids, error_score="raise", **settings)


def test_every_fit_that_takes_groups_asks_for_them():
    asked = []
    for name in skriemdp.__all__:
        kind = getattr(skriemdp, name)
        if not (isinstance(kind, type) and hasattr(kind, "fit")):
            continue
        parameters = inspect.signature(kind).parameters
        if "groups" in inspect.signature(kind.fit).parameters and "estimator" not in parameters:
            given = {"manifold": "sphere"} if "manifold" in parameters else {}
            routing = kind(**given).get_metadata_routing()
            asked.append((name, routing.fit.requests.get("groups")))
    assert len(asked) >= 8
    assert [name for name, request in asked if request is not True] == []


# -- a private ball for class means ----------------------------------------------------------------


def recentred_people(people=150, rows=30, seed=0):
    """Rows of three classes about the origin, at distance .5, each person's with mean zero."""
    rng = np.random.default_rng(seed)
    groups, centers = np.repeat(np.arange(people), rows), 0.5 * np.eye(3)
    y = np.arange(len(groups)) % 3
    X = (centers - centers.mean(axis=0))[y] + 0.3 * rng.normal(size=(len(y), 3))
    for person in range(people):
        X[groups == person] -= X[groups == person].mean(axis=0)
    return X, y, groups


def test_the_radius_of_people_is_that_of_their_class_means():
    X, y, groups = recentred_people()
    settings = {"classes": range(3), "epsilon": 5.0, "center": np.zeros(3), "random_state": 0}
    model = PrivateMinimumDistanceToMean(**settings).fit(X, y, groups=groups)
    length = math.sqrt(2.0 / 3.0) * 0.5  # of a class mean; people's own means are zero
    assert 0.6 * length < model.radius_ / 0.6 < 2.0 * length
    assert model.clipped_fraction_ < 0.2
    assert model.score(X, y) > 0.75


def test_a_persons_distance_is_the_root_mean_square_over_the_classes_shown():
    X, y, groups = recentred_people(20, 7, seed=1)
    y = np.where(groups % 4 == 0, 1, y)  # some show one class
    records = PeopleOfClasses(Euclidean(3), X, y, Groups.from_ids(groups))
    (found,) = records.distances(np.full(3, 0.1))
    for person in range(20):
        own = groups == person
        means = [X[own & (y == k)].mean(axis=0) - 0.1 for k in np.unique(y[own])]
        assert found[person] == pytest.approx(np.sqrt(np.mean(np.sum(np.square(means), axis=1))))
    # Bitwise the same in any batch.
    some = groups < 5
    alone = PeopleOfClasses(Euclidean(3), X[some], y[some], Groups.from_ids(groups[some]))
    np.testing.assert_array_equal(next(alone.distances(np.full(3, 0.1))), found[:5])


SAMPLED = {
    "linear model": PrivateNoisyAdaGrad(batch_size=2, feature_norm=1.0, classes=[0, 1]),
    "risk": PrivateRiemannianERM(gradient=gradient, clip_norm=1.0, batch_size=2, n_steps=150),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", SAMPLED.values(), ids=SAMPLED)
def test_no_batch_of_people_ends_a_fit(model):
    """Of 20 people a batch of two holds nobody in one step of eight; a fit has about 150 steps."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    for _ in range(5):
        fitted = clone(model).fit(X, (X[:, 0] > 0).astype(int), groups=np.arange(40) // 2)
        assert fitted.privacy_spent_.unit == "group"
