"""What every estimator owes scikit-learn and the budget, whatever its method."""

import contextlib
import json
import math
import pickle
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import _num_samples

import skriemdp
from skriemdp import (
    BudgetError,
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateGridSearchCV,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    PrivateTangentClassifier,
    PrivateTangentPCA,
    PublicTable,
    SeededNoiseWarning,
    privacy_report,
)
from skriemdp._mechanisms import noise
from skriemdp.federated import FederatedEstimator
from skriemdp.ledger import matches
from skriemdp.ledger._statements import plain_facts
from skriemdp.privacy._events import GaussianEvent


class TwoClients(FederatedEstimator):
    """The checks of scikit-learn know no clients: records belong to two of them in turns."""

    def fit(self, X, y=None, clients=None, groups=None):
        return super().fit(X, y, np.arange(_num_samples(X)) % 2)


ESTIMATORS = [
    PrivateFrechetMean(radius=1.0),
    PrivateMinimumDistanceToMean(),
    PrivateFrechetMean(mechanism="gradient", radius=1.0),
    PrivateFrechetMean(uncertainty=True),
    PrivateFrechetMean(statistic="median"),
    PrivateMinimumDistanceToMean(uncertainty=True),
    PrivateTangentPCA(),
    PrivateTangentClassifier(),
    PrivateHyperbolicRegressor(),
    PrivateHyperbolicRegressor("sufficient-statistics"),
    PrivateGeodesicRegressor(),
    PrivateNoisyAdaGrad(),
    PrivateNoisyAdaGrad("huber", "diagonal"),
    PrivateMatrixCompletion(),
    PrivateMatrixCompletion(rank=1, signal_test="none"),
    PrivatePrincipalEigenvector(),
    PrivateRiemannianERM(),
]
# Estimators around another one: it is the inner one that has epsilon and delta.
AROUND = [
    PrivateGridSearchCV(PrivateFrechetMean(noise="gaussian", radius=1.0), {"radius": [1.0, 3.0]}),
    PrivateGridSearchCV(PrivateMinimumDistanceToMean(), {"radius": [1.0, 3.0]}),
    TwoClients(PrivateFrechetMean(radius=1.0)),
    TwoClients(PrivatePrincipalEigenvector(row_norm=1.0, center="assume")),
]


def one_quick_per_class(estimators):
    """The first configuration of each class as it is; the others marked slow."""
    seen = set()
    for estimator in estimators:
        later = type(estimator) in seen
        seen.add(type(estimator))
        marks = [pytest.mark.slow] if later else []
        yield pytest.param(estimator, marks=marks, id=str(estimator))


def data(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4)) * 0.2
    return X, (X[:, 0] > 0).astype(int)


def test_every_exported_estimator_is_checked_here():
    exported = [getattr(skriemdp, name) for name in skriemdp.__all__]
    exported = {e for e in exported if isinstance(e, type) and issubclass(e, BaseEstimator)}
    exported -= {PublicTable}  # releases nothing; tests/test_public_table.py checks it
    assert exported | {FederatedEstimator} == {
        FederatedEstimator if isinstance(e, TwoClients) else type(e) for e in ESTIMATORS + AROUND
    }


@pytest.mark.parametrize("estimator", list(one_quick_per_class(ESTIMATORS + AROUND)))
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


@pytest.mark.parametrize("estimator", ESTIMATORS + AROUND, ids=str)
def test_the_ledger_holds_what_had_to_be_public(estimator):
    with PrivacyAccountant() as budget, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, other = (clone(estimator).fit(*data(estimator)) for _ in range(2))
    spent, (charge, _) = model.privacy_spent_, budget.history
    assert spent.entry == (charge.entry, charge.digest, "default")
    assert charge.facts == plain_facts(spent.public) and "arithmetic" in charge.facts
    assert {"n", "n_groups"} & charge.facts.keys()
    assert (charge.version, charge.host, charge.user) == (skriemdp.__version__, "", "")
    statement = json.loads(json.dumps(pickle.loads(pickle.dumps(model)).privacy_spent_.to_dict()))
    assert matches(budget.path, statement) == []
    changed = statement | {"public": spent.public | {"arithmetic": "none"}}
    assert matches(budget.path, changed) == [
        f"the public facts of entry {charge.entry} is not that of the model"
    ]
    changed = statement | {"entry": other.privacy_spent_.entry[:1] + spent.entry[1:]}
    assert "another charge" in matches(budget.path, changed)[0]


@pytest.mark.parametrize("estimator", ESTIMATORS + AROUND, ids=str)
def test_a_refused_charge_releases_nothing(estimator, recording_accountant):
    recording_accountant.refuse = True
    model = clone(estimator).set_params(accountant=recording_accountant)
    with pytest.raises(RuntimeError, match="refused"):
        model.fit(*data(estimator))
    assert [name for name in vars(model) if name.endswith("_")] in (
        [],
        ["n_features_in_"],
    )


@pytest.mark.parametrize("estimator", ESTIMATORS + AROUND, ids=str)
def test_a_seeded_fit_states_no_epsilon(estimator):
    model = clone(estimator).set_params(random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with PrivacyAccountant() as budget:
            model.fit(*data(estimator))
        (warning,) = [w for w in caught if w.category is SeededNoiseWarning]
    assert warning.filename == __file__
    spent = model.privacy_spent_
    assert tuple(spent) == (math.inf, 1.0) and spent.mu is None and spent.seeded
    assert (spent.guarantee, "epsilon=inf" in repr(spent)) == ("none (seeded)", True)
    assert spent.event.delta(100.0) == 1.0 and spent.event.epsilon(0.5) == math.inf
    assert spent.planned_event.epsilon(spent.planned_delta) <= spent.planned_epsilon * (1 + 1e-9)
    if not isinstance(estimator, PrivateGridSearchCV):
        planned = getattr(model, "estimator", model)
        assert (spent.planned_epsilon, spent.planned_delta) == (planned.epsilon, planned.delta)
    for by_client in getattr(model, "privacy_spent_by_client_", {}).values():
        assert by_client.epsilon == math.inf
    # The ledger counts it as what it is, also beside fits that protect.
    budget.spend(GaussianEvent(9.0))
    assert budget.spent.epsilon == math.inf and len(budget.history) == 2
    lines = [line for line in str(budget).splitlines() if "seeded" in line or "Spent" in line]
    assert len(lines) == 2 and all("epsilon=inf" in line for line in lines)
    assert not privacy_report(model)


@pytest.mark.parametrize("estimator", ESTIMATORS + AROUND, ids=str)
def test_a_ceiling_refuses_a_seeded_fit_with_a_cure_that_works(estimator):
    model = clone(estimator).set_params(random_state=0)
    budget = PrivacyAccountant(1e3)
    with budget, pytest.raises(BudgetError, match="random_state") as refusal:
        model.fit(*data(estimator))
    assert len(budget.history) == 0 and not hasattr(model, "privacy_spent_")
    assert "random_state=None" in str(refusal.value)
    assert "without a ceiling: accountant=PrivacyAccountant()." in str(refusal.value)
    with budget:
        model.set_params(accountant=PrivacyAccountant()).fit(*data(estimator))
        assert len(budget.history) == 0
        model.set_params(accountant=None, random_state=None).fit(*data(estimator))
    assert len(budget.history) == 1


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("bad", [{"epsilon": 0.0}, {"epsilon": np.inf}, {"delta": 1.0}], ids=str)
def test_impossible_budgets_are_refused(estimator, bad, recording_accountant):
    model = clone(estimator).set_params(accountant=recording_accountant, **bad)
    with pytest.raises(ValueError, match=next(iter(bad))):
        model.fit(*data(estimator))
    assert recording_accountant.spends == []


@pytest.mark.parametrize(
    "estimator, words",
    [
        *((clone(estimator).set_params(delta=0.1), "at least 1/n") for estimator in ESTIMATORS),
        (PrivateFrechetMean(epsilon=0.1, radius=1.0), "little more than the public"),
        (PrivateFrechetMean(radius=0.05, epsilon=20.0, random_state=0), "outside the ball"),
        (PrivateFrechetMean(radius="private", epsilon=0.1), "few for a private ball"),
        (PrivatePrincipalEigenvector(row_norm=0.05, epsilon=10.0, random_state=0), "longer than"),
        (
            PrivatePrincipalEigenvector(epsilon=0.05, random_state=0),
            "within the reach of the noise",
        ),
    ],
    ids=str,
)
def test_warnings_point_at_the_line_that_called_fit(estimator, words, recording_accountant):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.set_params(accountant=recording_accountant).fit(*data(estimator))
    assert [w.filename for w in caught if words in str(w.message)] == [__file__]


@pytest.mark.parametrize("estimator", ESTIMATORS + AROUND, ids=str)
def test_pickles_hold_no_records(estimator):
    X, y = data(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(estimator).fit(X, y)
    blob = pickle.dumps(model)
    assert not any(X[i].tobytes() in blob for i in range(len(X)))
    assert pickle.loads(blob).privacy_spent_.event == model.privacy_spent_.event


# -- fits that do not end, and fits after others ---------------------------------------------------


# Each of them sets something that another one of its class does not.
OTHERS = [
    PrivateFrechetMean(mechanism="gradient", radius=2.0, center=[0.1, 0.0, 0.0, 0.0]),
    PrivatePrincipalEigenvector(row_norm=1.0),
    PrivatePrincipalEigenvector(2, mechanism="power", center="assume"),
    PrivateNoisyAdaGrad(public_X=np.eye(4), public_y=[0, 1, 0, 1]),
    PrivateNoisyAdaGrad(target_range=(0.0, 1.0), loss="squared_error"),
    PrivateHyperbolicRegressor("per-query"),
    PrivateRiemannianERM(clip_norm="private", n_steps=3),
    PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1]),
    TwoClients(PrivateFrechetMean(radius=1.0), local="statistic", n_rounds=1),
]
EVERYTHING = ESTIMATORS + AROUND + OTHERS


def learned(model):
    """What a fit left, as bytes that can be compared."""
    given = model.get_params(deep=False)
    return {name: pickle.dumps(value) for name, value in vars(model).items() if name not in given}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("estimator", EVERYTHING, ids=str)
def test_a_refit_is_a_first_fit(estimator, monkeypatch):
    """Equal seeds give equal noise, so all that an earlier fit left would show."""
    # Only where each was charged differs.
    monkeypatch.setattr("skriemdp._core.charge.ChargedEntry", lambda *entry: None)
    fresh = clone(estimator).set_params(random_state=0).fit(*data(estimator))
    for other in EVERYTHING:
        if type(other) is type(estimator) and other is not estimator:
            model = clone(other).fit(*data(other))
            model.set_params(**clone(fresh).get_params(deep=False))
            assert learned(model.fit(*data(estimator))) == learned(fresh), other


class Ending:
    """``noise.draw`` until the call of a number, which raises."""

    def __init__(self, kind, last):
        self.kind, self.left, self.draw = kind, last, noise.draw

    def __call__(self, *arguments, **facts):
        self.left -= 1
        if self.left == 0:
            raise self.kind
        return self.draw(*arguments, **facts)


@pytest.mark.mostly_slow(3)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("estimator", EVERYTHING, ids=str)
@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_a_fit_that_does_not_end_leaves_the_old_model_or_none(estimator, kind, monkeypatch):
    X, y = data(estimator)
    for last in (1, 2, 5):
        for model in (clone(estimator), clone(estimator).fit(X, y)):
            before, ending = dict(vars(model)), Ending(kind, last)
            with monkeypatch.context() as patched, PrivacyAccountant() as budget:
                patched.setattr(noise, "draw", ending)
                with contextlib.suppress(kind):
                    model.fit(X[:60], y[:60])
            assert len(budget.history) == 1  # the charge stays
            if ending.left <= 0:  # else the fit drew less
                assert vars(model).keys() == before.keys()
                assert all(vars(model)[name] is before[name] for name in before)


@pytest.mark.parametrize("estimator", ESTIMATORS + AROUND, ids=str)
def test_a_refused_refit_leaves_the_old_model(estimator, recording_accountant):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(estimator).set_params(accountant=recording_accountant).fit(*data(estimator))
        before = dict(vars(model))
        recording_accountant.refuse = True
        X, y = data(estimator)
        with pytest.raises(RuntimeError, match="refused"):
            model.fit(X[:, :3], y)
    assert vars(model) == before


# -- models that are published ---------------------------------------------------------------------


def addresses(budget):
    return [budget.path.encode(), budget._ledger.key.encode()]


@pytest.mark.mostly_slow(3)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("estimator", EVERYTHING, ids=str)
@pytest.mark.parametrize("named", [True, False])
def test_a_fitted_model_is_pickled_without_its_ledger(estimator, named, tmp_path):
    budget = PrivacyAccountant(1e3, path=tmp_path / "people.ledger")
    model = clone(estimator)
    inner = getattr(model, "estimator", model)
    if named:
        model.set_params(accountant=budget)
        inner.set_params(accountant=budget)
    with budget:
        # On its way to a worker it keeps the ledger.
        assert addresses(budget)[0] in pickle.dumps(model)
        sent = pickle.loads(pickle.dumps(model)).fit(*data(estimator))
        assert len(budget.history) == 1
        blob = pickle.dumps(sent)
    assert not any(address in blob for address in addresses(budget))
    received = pickle.loads(blob)
    if named:
        for copy in (received, clone(received)):
            with pytest.raises(BudgetError, match=r"set_params\(accountant=\.\.\.\)"):
                copy.fit(*data(estimator))
        received.set_params(accountant=budget).fit(*data(estimator))
        assert len(budget.history) == 2
        # The original keeps it.
        assert clone(sent).accountant == sent.accountant == budget
    received.set_params(accountant=None).fit(*data(estimator))
    assert len(budget.history) == 1 + named


# -- weights of scores -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        PrivateNoisyAdaGrad(),
        PrivateNoisyAdaGrad("squared_error"),
        PrivateMinimumDistanceToMean(),
        PrivateHyperbolicRegressor(),
        PrivateGridSearchCV(PrivateMinimumDistanceToMean(), {"radius": [1.0]}),
    ],
    ids=str,
)
def test_a_weight_of_two_is_a_row_that_occurs_twice(estimator):
    rows, targets = data(estimator)
    model = clone(estimator).fit(rows, targets)
    weight = 1.0 + (np.arange(80) < 20)
    twice = np.repeat(np.arange(80), weight.astype(int))
    expected = model.score(rows[twice], targets[twice])
    assert model.score(rows, targets, sample_weight=weight) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("weight", [np.full(80, -1.0), np.ones(79), np.full(80, np.nan)], ids=str)
def test_bad_weights_are_named(weight):
    X, y = data(PrivateNoisyAdaGrad())
    model = PrivateNoisyAdaGrad().fit(X, y)
    with pytest.raises(ValueError, match="sample_weight"):
        model.score(X, y, sample_weight=weight)


def test_weights_are_routed_through_pipelines_and_searches():
    X, y = data(PrivateNoisyAdaGrad())
    weight = 1.0 + (np.arange(80) < 20)
    with sklearn.config_context(enable_metadata_routing=True):
        model = PrivateNoisyAdaGrad(n_steps=5).set_score_request(sample_weight=True)
        pipeline = make_pipeline(Normalizer(), model).fit(X, y)
        expected = np.average(pipeline.predict(X) == y, weights=weight)
        assert pipeline.score(X, y, sample_weight=weight) == pytest.approx(expected)
        search = GridSearchCV(
            make_pipeline(Normalizer(), model).set_score_request(sample_weight=True),
            {"privatenoisyadagrad__alpha": [0.0, 0.1]},
            cv=KFold(3),
            error_score="raise",
        )
        search.fit(X, y, sample_weight=weight)
        expected = np.average(search.predict(X) == y, weights=weight)
        assert search.score(X, y, sample_weight=weight) == pytest.approx(expected)
        private = PrivateGridSearchCV(
            PrivateMinimumDistanceToMean(), {"radius": [1.0]}
        ).set_score_request(sample_weight=True)
        scores = cross_validate(private, X, y, cv=KFold(3), params={"sample_weight": weight})
        assert np.isfinite(scores["test_score"]).all()


CHANGES = {
    "epsilon": {"epsilon": 0.01},
    "delta": {"delta": 1e-9},
    "a seed": {"random_state": None},
    "a bound": {"clip_norm": 1e3},
    "several": {"epsilon": 0.5, "n_steps": 1},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", ["callback", "attribute", "gradient"])
def test_parameters_are_those_of_the_plan_until_the_end(change, way):
    """What a user's function sets between charge and statement was not what was charged."""
    accountant, models = PrivacyAccountant(), []

    def set_them(*_):
        if len(accountant.history):
            for name, value in CHANGES[change].items():
                if way == "attribute":
                    setattr(models[0], name, value)
                else:
                    models[0].set_params(**{name: value})

    def gradient(point, X, y=None):
        set_them() if way == "gradient" else None
        return X

    settings = {"epsilon": 3.0, "n_steps": 2, "random_state": 0, "gradient": gradient}
    settings |= {} if way == "gradient" else {"callback": set_them}
    models.append(PrivateRiemannianERM(accountant=accountant, **settings))
    before = models[0].get_params()
    with pytest.raises(RuntimeError, match=f"{next(iter(CHANGES[change]))}.* while this estimator"):
        models[0].fit(np.eye(2))
    assert models[0].get_params() == before and not hasattr(models[0], "privacy_spent_")
    assert len(accountant.history) == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "change", [{"delta": 0.1}, {"loss_bound": 9.0}, {"random_state": 1}], ids=str
)
def test_parameters_of_a_search_are_those_of_its_charge(change):
    accountant = PrivacyAccountant()

    def loss(model, X, y):
        if len(accountant.history):
            search.set_params(**change)
        return np.linalg.norm(X, axis=1)

    search = PrivateGridSearchCV(
        PrivateFrechetMean(radius=1.0), {"radius": [1.0, 2.0]}, loss=loss, accountant=accountant
    )
    with pytest.raises(RuntimeError, match="while this estimator was fitted"):
        search.fit(np.random.default_rng(0).normal(size=(40, 2)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "change", [{"unit": "client"}, {"random_state": 1}, {"n_rounds": 9}], ids=str
)
def test_parameters_of_a_federation_are_those_of_its_charge(change):
    accountant = PrivacyAccountant()

    def gradient(point, X, y=None):
        if len(accountant.history):
            model.set_params(**change)
        return X

    model = FederatedEstimator(PrivateRiemannianERM(gradient=gradient), 2, accountant=accountant)
    with pytest.raises(RuntimeError, match="while this estimator was fitted"):
        model.fit(np.eye(2).repeat(6, axis=0), clients=np.arange(12) % 3)
