"""Text labels inside tools of scikit-learn that number them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV, cross_val_predict
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import MultiOutputClassifier

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    PrivateTangentClassifier,
    PrivateTangentPCA,
)
from skriemdp.geometry import Euclidean, Hyperboloid

PLACES = np.random.default_rng(0).normal(size=(900, 3))
TEXT = np.where(PLACES[:, 0] > 0, "task", "rest")
NUMBERING = {
    "cross_val_predict": lambda m: (
        cross_val_predict(m, PLACES, TEXT, cv=3, method="predict_proba").argmax(1)
        == (TEXT == "task")
    ).mean(),
    "soft vote": lambda m: scored(VotingClassifier([("a", m), ("b", m)], voting="soft")),
    "hard vote": lambda m: scored(VotingClassifier([("a", m), ("b", m)])),
    "stack": lambda m: scored(StackingClassifier([("a", m)], LogisticRegression(), cv=3)),
    "one against the rest": lambda m: scored(OneVsRestClassifier(m)),
    "one against one": lambda m: scored(OneVsOneClassifier(m)),
    "codes": lambda m: scored(OutputCodeClassifier(m, random_state=0)),
    "calibrated": lambda m: scored(CalibratedClassifierCV(m, cv=3)),
    "bags": lambda m: scored(BaggingClassifier(m, n_estimators=2)),
    "many outputs": lambda m: (
        MultiOutputClassifier(m).fit(PLACES, np.c_[TEXT, TEXT]).predict(PLACES)[:, 1] == TEXT
    ).mean(),
    "threshold": lambda m: scored(TunedThresholdClassifierCV(m, cv=3)),
    "grid": lambda m: scored(GridSearchCV(m, {"epsilon": [3.0]}, cv=3)),
    "itself": lambda m: scored(m),
}


def scored(model):
    return model.fit(PLACES, TEXT).score(PLACES, TEXT)


@pytest.mark.parametrize("kind", [PrivateNoisyAdaGrad, PrivateMinimumDistanceToMean])
@pytest.mark.parametrize("tool", NUMBERING)
@pytest.mark.filterwarnings("ignore")
def test_tools_that_number_text_labels_are_served_or_told_the_numbers(tool, kind):
    model = kind(classes=["rest", "task"], epsilon=4.0)
    try:
        assert NUMBERING[tool](model) > 0.85
    except ValueError as error:
        assert tool == "codes" and "classes=[0, 1]" in str(error)
        cured = clone(model).set_params(classes=[-1, 1])
        assert NUMBERING[tool](cured) > 0.85


@pytest.mark.parametrize("kind", [PrivateNoisyAdaGrad, PrivateMinimumDistanceToMean])
@pytest.mark.filterwarnings("ignore")
def test_numbers_stand_for_sorted_text_alone(kind):
    codes = (TEXT == "task").astype(int)
    for classes in (["rest", "task"], np.array(["rest", "task"], dtype=object), ("rest", "task")):
        model = kind(classes=classes, epsilon=4.0).fit(PLACES, codes)
        assert model.classes_.tolist() == [0, 1] and model.predict(PLACES).dtype.kind == "i"
        assert kind(classes=classes).fit(PLACES, TEXT).classes_.tolist() == ["rest", "task"]
    names = [f"c{k:02}" for k in range(12)]
    for classes, y, cure in (
        (["task", "rest"], codes, [0, 1]),
        (["rest", "task"], codes - 1, [-1, 0]),
        (names[::-1], codes, list(range(12))),
        (pd.Index(["task", "rest"]), pd.Series(codes), [0, 1]),
    ):
        with pytest.raises(ValueError, match="y holds integers and classes text") as refusal:
            kind(classes=classes).fit(PLACES, y)
        numbers = "range(12)" if len(cure) > 5 else "[0, 1]"
        assert numbers in str(refusal.value)
        assert len(kind(classes=cure).fit(PLACES, y).classes_) == len(cure)
    with pytest.raises(ValueError, match="not in classes"):
        kind(classes=["rest", "task"]).fit(PLACES, np.where(codes, "task", "nap"))
    with pytest.raises(ValueError, match="not in classes"):
        kind(classes=["rest", "task"]).fit(PLACES, codes == 1)


@pytest.mark.filterwarnings("ignore")
def test_public_labels_are_text_or_their_numbers_whatever_y_is():
    codes, more = (TEXT == "task").astype(int), {"public_X": PLACES[:50], "max_norm": 5.0}
    for public in (TEXT[:50], codes[:50]):
        for y in (TEXT, codes):
            model = PrivateNoisyAdaGrad(classes=["rest", "task"], public_y=public, **more)
            assert model.fit(PLACES, y).score(PLACES, y) > 0.8


YES = np.array(["no", "yes"])[np.arange(60) % 2]


@pytest.mark.parametrize(
    ("classes", "y", "words"),
    [
        ([0, 1], YES, "y holds text and classes numbers"),
        ([False, True], YES, "y holds text and classes numbers"),
        ([0.0, 1.0], pd.Series(YES, dtype="str"), "y holds text and classes numbers"),
        (range(2), YES.tolist(), "y holds text and classes numbers"),
        ([0, "yes"], np.array([0, "yes"] * 30, dtype=object), "mixes text and numbers"),
        (["no", 1], YES, "mixes text and numbers"),
        (["yes", None], YES, "mixes text and numbers"),
    ],
    ids=range(7),
)
@pytest.mark.parametrize("kind", [PrivateMinimumDistanceToMean, PrivateNoisyAdaGrad])
def test_labels_of_another_kind_than_classes_are_told(kind, classes, y, words):
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match=words):
        kind(classes=classes).fit(X, y)


SEARCHED = [
    (PrivateFrechetMean(), "radius"),
    (PrivateMinimumDistanceToMean(classes=[0, 1]), "radius"),
    (PrivateTangentClassifier(classes=[0, 1]), "radius"),
    (PrivateTangentPCA(1), "radius"),
    (PrivatePrincipalEigenvector(), "row_norm"),
    (PrivateNoisyAdaGrad(classes=[0, 1]), "feature_norm"),
    (PrivateNoisyAdaGrad(loss="huber"), "target_range"),
]


@pytest.mark.parametrize("value", [None, "auto", "Private"])
@pytest.mark.parametrize(("model", "name"), SEARCHED, ids=str)
def test_a_bound_that_is_searched_is_a_number_or_private(model, name, value):
    X = np.random.default_rng(0).normal(size=(60, 2))
    budget = PrivacyAccountant()
    model = clone(model).set_params(**{name: value}, accountant=budget)
    y = np.arange(60) % 2
    with pytest.raises((TypeError, ValueError), match=f"^{name} must be .*, or 'private', which"):
        model.fit(X, y)
    assert not budget.history
    model.set_params(**{name: "private"}).fit(X, y)
    assert len(budget.history) == 1


# -- numbers of any type ---------------------------------------------------------------------------


def _descent(**settings):
    plain = {"gradient": lambda point, X, y=None: X, "clip_norm": 0.3, "step_size": 0.1}
    return PrivateRiemannianERM("euclidean", **{**plain, **settings})


SPACE, ROWS = Hyperboloid(2), np.random.default_rng(0).normal(size=(60, 2))
NEAR = np.asarray(SPACE.exp_coordinates(SPACE.base_point, 0.4 * ROWS))
AT = {"center": SPACE.base_point, "radius": 0.3, "epsilon": 1.3}
LABELS, TARGETS = np.arange(60) % 2, ROWS[:, 1]
RATINGS = np.where(ROWS > -1.0, np.clip(np.rint(3.0 + ROWS), 1.0, 5.0), np.nan).repeat(8, axis=1)
LINEAR = {"feature_norm": 0.3, "n_steps": 3, "epsilon": 3.3}
FITS = {
    "mean": (PrivateFrechetMean(radius=0.3, epsilon=9.3), ROWS),
    "mean by descent": (
        PrivateFrechetMean(
            SPACE, mechanism="gradient", clip_norm=0.1, step_size=0.7, n_steps=4, **AT
        ),
        NEAR,
    ),
    "mean by a law": (PrivateFrechetMean(SPACE, mechanism="laplace", **AT), NEAR),
    "median": (PrivateFrechetMean(radius=0.3, epsilon=3.3, statistic="median"), ROWS),
    "class means": (
        PrivateMinimumDistanceToMean(radius=0.3, classes=[0, 1], epsilon=33.3),
        ROWS,
        LABELS,
    ),
    "pure class means": (
        PrivateMinimumDistanceToMean(radius=0.3, classes=[0, 1], epsilon=3.3, delta=0.0),
        ROWS,
        LABELS,
    ),
    "tangent components": (PrivateTangentPCA(2, radius=0.3, epsilon=3.3), ROWS),
    "tangent model": (
        PrivateTangentClassifier(radius=0.3, classes=[0, 1], epsilon=3.3),
        ROWS,
        LABELS,
    ),
    "components": (PrivatePrincipalEigenvector(row_norm=0.3, epsilon=3.3), ROWS),
    "components by products": (
        PrivatePrincipalEigenvector(
            2, 0.3, "power", center="assume", n_steps=3, epsilon=3.3
        ),
        ROWS,
    ),
    "linear model": (
        PrivateNoisyAdaGrad(
            "squared_error", target_range=(-0.3, 0.7), alpha=0.1, max_norm=0.7, clip_norm=0.1,
            step_size=0.3, **LINEAR,
        ),
        ROWS,
        TARGETS,
    ),
    "sampled linear model": (
        PrivateNoisyAdaGrad("huber", target_range=(-0.3, 0.7), batch_size=20.3, **LINEAR),
        ROWS,
        TARGETS,
    ),
    "root moments": (
        PrivateNoisyAdaGrad(classes=[0, 1], preconditioner="paper", **LINEAR),
        ROWS,
        LABELS,
    ),
    "descent": (_descent(n_steps=3, radius=0.7, center=[0.1, 0.3], epsilon=3.3), ROWS),
    "sampled descent": (_descent(n_steps=3, batch_size=10.3, epsilon=3.3), ROWS),
    "batches of a size": (_descent(n_steps=100, batch_size=6, sampling="fixed-size"), ROWS),
    "small differences": (
        PrivateRiemannianERM(
            SPACE, solver="variance-reduced", smoothness=1.3, n_steps=100, batch_size=6, **AT
        ),
        NEAR,
    ),
    "hyperbolic model": (
        PrivateHyperbolicRegressor(
            radius=3.3, feature_scale=0.7, length_scale=1.3, clip_norm=0.3, n_steps=100,
            n_frequencies=100, base_point=[0.0, 0.0], epsilon=3.3,
        ),
        ROWS,
        0.1 * ROWS,
    ),
    "moments of features": (
        PrivateHyperbolicRegressor(
            "sufficient-statistics", feature_scale=0.7, ridge=0.1, n_frequencies=8, epsilon=3.3
        ),
        ROWS,
        0.1 * ROWS,
    ),
    "geodesic model": (
        PrivateGeodesicRegressor(Euclidean(2), radius=0.7, feature_scale=0.3, epsilon=400.3),
        ROWS,
        ROWS,
    ),
    "completion": (
        PrivateMatrixCompletion(
            2, (0.7, 5.3), mechanism="gradient", signal_test="none", n_steps=100, epsilon=8.3
        ),
        RATINGS,
    ),
}  # fmt: skip
TYPES = [np.float16, np.float32, np.longdouble, np.int8, np.uint8, np.int64]


def _of_type(value, kind):
    """Numbers of a type, and the same in Python's own."""
    if isinstance(value, (tuple, list)):
        return type(value)(_of_type(one, kind) for one in value)
    whole = issubclass(kind, np.integer)
    return kind(value) if type(value) is (int if whole else float) else value


def _own(value):
    if isinstance(value, (tuple, list)):
        return type(value)(map(_own, value))
    return (
        value.item()
        if isinstance(value, (np.integer, np.float16, np.float32))
        else (float(value) if isinstance(value, np.longdouble) else value)
    )


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", FITS)
@pytest.mark.filterwarnings("ignore")
def test_a_number_of_a_narrow_type_is_that_number(name, kind):
    """Its precision would decide how far a record moves a sum; a short integer would overflow."""
    model, *data = FITS[name]
    given = {k: _of_type(v, kind) for k, v in model.get_params(deep=False).items()}
    given["random_state"] = 0
    if "classes" in given:  # labels keep their type
        given["classes"] = model.classes
    fits = [
        clone(model).set_params(**settings).fit(*data)
        for settings in (given, {k: _own(v) for k, v in given.items()})
    ]
    one, two = ({k: v for k, v in vars(fit).items() if k.endswith("_")} for fit in fits)
    assert one.keys() == two.keys()
    assert fits[0].privacy_spent_.event == fits[1].privacy_spent_.event
    for key, value in one.items():
        if isinstance(value, (np.ndarray, float)) and np.asarray(value).dtype != object:
            assert np.asarray(value).dtype == np.asarray(two[key]).dtype, key
            np.testing.assert_array_equal(value, two[key], err_msg=key)
