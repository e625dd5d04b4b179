"""What every estimator owes scikit-learn and the budget, whatever its method."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from skriemdp import (
    PrivateFrechetMean,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
)

ESTIMATORS = [
    PrivateFrechetMean(),
    PrivateMinimumDistanceToMean(),
    PrivateFrechetMean(mechanism="gradient"),
    PrivateHyperbolicRegressor(),
    PrivateHyperbolicRegressor("sufficient-statistics"),
    PrivateNoisyAdaGrad(),
    PrivateNoisyAdaGrad("huber", "diagonal"),
    PrivateMatrixCompletion(),
    PrivateMatrixCompletion(rank=1, signal_test="none"),
]


def data(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4)) * 0.2
    return X, (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_check_estimator(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = [(r["check_name"], repr(r["exception"])) for r in results if r["status"] == "failed"]
    assert failed == []
    assert sum(r["status"] == "passed" for r in results) > 30


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_one_fit_is_one_charge_of_what_it_reports(estimator, recording_accountant):
    model = clone(estimator).set_params(accountant=recording_accountant)
    model.fit(*data(estimator))
    (event,) = recording_accountant.spends
    assert event == model.privacy_spent_.event
    epsilon, delta = model.privacy_spent_
    assert event.delta(epsilon) <= delta


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_a_refused_charge_releases_nothing(estimator, recording_accountant):
    recording_accountant.refuse = True
    model = clone(estimator).set_params(accountant=recording_accountant)
    with pytest.raises(RuntimeError, match="refused"):
        model.fit(*data(estimator))
    assert [name for name in vars(model) if name.endswith("_")] in (
        [],
        ["n_features_in_"],
    )


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("bad", [{"epsilon": 0.0}, {"epsilon": np.inf}, {"delta": 1.0}], ids=str)
def test_impossible_budgets_are_refused(estimator, bad, recording_accountant):
    model = clone(estimator).set_params(accountant=recording_accountant, **bad)
    with pytest.raises(ValueError, match=next(iter(bad))):
        model.fit(*data(estimator))
    assert recording_accountant.spends == []


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_pickles_hold_no_records(estimator):
    X, y = data(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(estimator).fit(X, y)
    blob = pickle.dumps(model)
    assert not any(X[i].tobytes() in blob for i in range(len(X)))
    assert pickle.loads(blob).privacy_spent_.event == model.privacy_spent_.event
