"""privacy_report names exactly the steps that learned from data without a guarantee."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from skriemdp import PrivateFrechetMean, PrivateMinimumDistanceToMean
from skriemdp._core.spent import PrivacySpent
from skriemdp._reporting import NOT_FITTED, NOT_PRIVATE, PRIVATE, SEEDED, STATELESS, privacy_report
from skriemdp.privacy._events import GaussianEvent, as_drawn

X = np.random.default_rng(0).normal(size=(20, 3))
Y = X[:, 0]


class Private(BaseEstimator):
    """Stands for an estimator of the library."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        event = as_drawn(GaussianEvent(5.0), self.random_state)
        self.privacy_spent_ = PrivacySpent(0.5, 1e-6, event)
        self.mean_ = np.zeros(X.shape[1])
        return self

    def transform(self, X):
        return X

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y=None):
        return 0.0


def statuses(model):
    return {step.path: step.status for step in privacy_report(model).steps}


def test_scaler_before_and_model_behind_a_private_step():
    model = make_pipeline(StandardScaler(), Private(), LinearRegression()).fit(X, Y)
    report = privacy_report(model)
    assert [step.path for step in report.violations] == ["standardscaler", "linearregression"]
    assert not report
    assert "2 of 3 steps" in str(report) and "epsilon=0.5" in str(report)


def test_private_and_stateless_steps_pass():
    model = make_pipeline(Normalizer(), FunctionTransformer(), Private()).fit(X)
    report = privacy_report(model)
    assert report and [step.status for step in report.steps] == [STATELESS, STATELESS, PRIVATE]


def test_seeded_noise_is_a_violation():
    report = privacy_report(make_pipeline(Private(random_state=0)).fit(X))
    assert not report and "epsilon=inf, delta=1" in str(report)


def test_column_transformer_and_union():
    columns = ColumnTransformer(
        [("scale", StandardScaler(), [0]), ("mean", Private(), [1, 2])], remainder="passthrough"
    )
    union = FeatureUnion([("columns", columns), ("pca", PCA(1))]).fit(X)
    found = statuses(union)
    assert found["columns.scale"] == found["pca"] == NOT_PRIVATE
    assert found["columns.mean"] == PRIVATE


def test_plain_search_is_reported_with_its_winner():
    search = GridSearchCV(Private(), {"random_state": [None]}, cv=2).fit(X)
    found = statuses(search)
    assert found == {"": NOT_PRIVATE, "best_estimator_": PRIVATE}


def test_members_of_ensembles_are_reported():
    found = statuses(BaggingRegressor(Private(), n_estimators=2).fit(X, Y))
    # Ensembles write an integer random_state into their members, which makes the noise public.
    assert found[""] == NOT_PRIVATE and found["estimators_[0]"] == SEEDED


def test_nothing_fitted_is_no_guarantee():
    report = privacy_report(make_pipeline(StandardScaler(), Private()))
    assert {step.status for step in report.steps} == {NOT_FITTED} and not report


def test_only_estimators():
    with pytest.raises(TypeError):
        privacy_report(X)
    with pytest.raises(TypeError):
        privacy_report(StandardScaler)


@pytest.mark.parametrize("grouped", [(), ("a",), ("b",), ("a", "b")])
def test_a_report_says_whom_each_step_protects(grouped):
    X, y = np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) % 2
    steps = [
        ("a", PrivateFrechetMean(radius=3.0)),
        ("b", PrivateMinimumDistanceToMean(classes=[0, 1], radius=3.0)),
    ]
    owners = {f"{name}__groups": np.arange(80) // 2 for name in grouped}
    report = privacy_report(Pipeline(steps).fit(X, y, **owners))
    for step in report.steps:
        assert step.unit == ("group" if step.path in grouped else "record")
        assert f"delta=1e-05 per {step.unit})" in str(step)
    assert ("different units, group and record" in str(report)) == (len(grouped) == 1)
    assert bool(report)
