"""Fits that protect people: the number of their rows reaches nothing, one row each is a record."""

import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_validate

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateMinimumDistanceToMean,
    PrivateRiemannianERM,
)
from skriemdp.geometry import Hyperboloid, Sphere

COUNT = 30


def gradient(point, X, y):
    return point - X


SEEDED = {"epsilon": 3.0, "random_state": 0}
RISK = PrivateRiemannianERM(gradient=gradient, n_steps=10, **SEEDED)
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
    "risk, clip found": clone(RISK).set_params(clip_norm="auto"),
}


def people(rng, most):
    """Rows of `COUNT` people, one to `most` each."""
    ids = np.repeat(np.arange(COUNT), rng.integers(1, most + 1, COUNT))
    ids = rng.permutation(ids)
    X = 0.3 * rng.standard_normal((COUNT, 2))[ids] + 0.1 * rng.standard_normal((len(ids), 2))
    return X, rng.integers(0, 3, len(ids)), ids


def released(model):
    for name in ("mean_", "means_", "point_"):
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
        words = [str(w.message) for w in caught if "private estimate" not in str(w.message)]
        settings = repr(made.settings)
        if name == "class means found":  # which holds a function
            settings = settings.split("budget=")[0]
        said.append((made.event, settings, made.work, made.exact, repr(spent), words))
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
    np.testing.assert_allclose(released(owners), released(rows), rtol=0, atol=1e-6)
    assert owners.privacy_spent_.event == rows.privacy_spent_.event
    assert rows.privacy_spent_.unit == "record"
    if "class" not in name:
        assert owners.noise_scale_ == pytest.approx(rows.noise_scale_, rel=1e-12)
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
