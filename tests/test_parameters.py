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
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateTangentClassifier,
    PrivateTangentPCA,
)

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
