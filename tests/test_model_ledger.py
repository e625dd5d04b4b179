"""A ledger named anywhere in a model admits nothing beyond its ceiling, in its unit."""

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import VotingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGridSearchCV,
    PrivateNoisyAdaGrad,
    PrivateRiemannianERM,
)
from skriemdp._core.model_ledger import ledger_of
from skriemdp.federated import FederatedEstimator
from skriemdp.ledger._errors import BudgetError
from skriemdp.ledger._units import PRESENT
from skriemdp.preprocessing import PerGroup

X = np.random.default_rng(0).normal(size=(120, 2)) * 0.1
Y = (X[:, 0] > 0).astype(int)
RADII = {"radius": [0.5, 1.0]}
UNITS = ("record", "group", "client", PRESENT)
CEILING = 0.5
quiet = pytest.mark.filterwarnings("ignore::UserWarning")


def mean(budget=None):
    return PrivateFrechetMean(radius=1.0, noise="gaussian", epsilon=0.3, accountant=budget)


def erm(budget=None):
    return PrivateRiemannianERM(epsilon=0.3, clip_norm=1.0, accountant=budget)


def linear(budget=None):
    return PrivateNoisyAdaGrad(
        classes=[0, 1], feature_norm=1.0, epsilon=0.3, n_steps=2, accountant=budget
    )


def search(estimator, grid=None, **settings):
    return PrivateGridSearchCV(estimator, grid or RADII, mean_runs=1.5, **settings)


def of_the_pipeline(budget, *steps):
    model = make_pipeline(*steps, mean(budget))
    return search(model, {"privatefrechetmean__radius": [0.5, 1.0]})


def in_a_block(model, open_block):
    """A model that is fitted inside a block."""

    class Blocked:
        def fit(self, *records, **groups):
            with open_block():
                return model.fit(*records, **groups)

    return Blocked()


def sent(model, budget):
    """The model as it arrives in a worker process."""
    with budget:
        model = pickle.loads(pickle.dumps(model))
    for part in (model, model.estimator):
        part._ledger_token = part._ledger_token | {"process": [0, "another"]}
    return model


ROUTES = {
    "a parameter": mean,
    "the search": lambda b: search(mean(), accountant=b),
    "the estimator of a search": lambda b: search(mean(b)),
    "the last step": of_the_pipeline,
    "keywords of a step": lambda b: of_the_pipeline(
        None, FunctionTransformer(kw_args={"accountant": b})
    ),
    "within a step": lambda b: of_the_pipeline(None, Normalizer(), PerGroup(Normalizer(), mean(b))),
    "values of a grid": lambda b: search(mean(), RADII | {"accountant": [b]}),
    "one of several grids": lambda b: search(mean(), [RADII, RADII | {"accountant": [None, b]}]),
    "estimators of a grid": lambda b: search(
        make_pipeline(Normalizer(), mean()), {"privatefrechetmean": [mean(b), mean()]}
    ),
    "the active block": lambda b: in_a_block(search(mean()), lambda: b),
    "a partition's block": lambda b: in_a_block(search(mean()), lambda: b.partition("a")),
    "a partition": lambda b: search(mean(b.partition("a"))),
    "a partition inside the block of the whole": lambda b: in_a_block(
        mean(b.partition("a")), lambda: b
    ),
    "a clone": lambda b: clone(search(mean(b))),
    "a pickle": lambda b: pickle.loads(pickle.dumps(search(mean(b)))),
    "a pickle from another process": lambda b: sent(search(mean()), b),
    "set_params": lambda b: search(mean()).set_params(estimator__accountant=b),
    "a search in a pipeline": lambda b: make_pipeline(Normalizer(), search(mean(b))),
    "a pipeline in a pipeline": lambda b: make_pipeline(make_pipeline(Normalizer(), mean(b))),
    "a frozen search": lambda b: FrozenEstimator(search(mean(b))),
    "people's rows": lambda b: search(PerGroup(Normalizer(), mean(b)), {"estimator__radius": [1]}),
    # Of no public ball: one round is made, however much its noise.
    "a federation": lambda b: FederatedEstimator(erm(b), n_rounds=1),
    "a plain search": lambda b: GridSearchCV(
        mean(b), RADII, cv=KFold(2), error_score="raise", scoring=lambda *records: 0.0
    ),
    "a vote": lambda b: VotingClassifier([("a", linear(b)), ("b", linear(b))]),
    "many targets": lambda b: MultiOutputClassifier(linear(b)),
    "a union": lambda b: FeatureUnion([("a", mean(b)), ("b", mean(b))]),
    "a target that is transformed": lambda b: TransformedTargetRegressor(
        PrivateNoisyAdaGrad(
            "squared_error",
            feature_norm=1.0,
            target_range=(0, 1),
            n_steps=2,
            epsilon=0.3,
            accountant=b,
        )
    ),
    "a selection of columns": lambda b: SelectFromModel(
        linear(b), importance_getter="coefficients"
    ),
}


def fit(model, groups):
    """Fit, and return the refusal."""
    y = np.stack([Y, Y], axis=1) if isinstance(model, MultiOutputClassifier) else Y
    ids = {} if groups is None else {"groups": groups}
    if isinstance(model, FederatedEstimator):
        ids["clients"] = np.arange(len(X)) % 3
    with config_context(enable_metadata_routing=True):
        try:
            model.fit(X, y, **ids)
        except (ValueError, TypeError, RuntimeError, AttributeError) as error:
            return error
    return None


@quiet
@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("route", ROUTES)
def test_a_ledger_named_anywhere_keeps_its_ceiling_and_its_unit(route, unit):
    admitted = []
    for groups in (None, np.arange(len(X)) // 2):
        budget = PrivacyAccountant(CEILING, delta=1e-4, unit=unit)
        try:
            made = ROUTES[route](budget)
        except ValueError as error:
            assert unit == PRESENT and "partition" in route and "number of records" in str(error)
            continue
        errors = []
        for _ in range(4):
            before = len(budget.history)
            errors.append(fit(made, groups))
            # What was released was charged here, unless nothing was fitted.
            charged = len(budget.history) > before
            assert charged or errors[-1] is not None or isinstance(made, FrozenEstimator)
        assert budget.spent.epsilon <= CEILING
        assert {spend.params["unit"] for spend in budget.history} <= covered(unit)
        if not isinstance(made, FrozenEstimator):  # four fits are more than the ceiling
            assert errors[-1] is not None
        admitted.append(errors[0] is None)
    if unit == "record" and not {"step", "frozen", "plain"} & set(route.split()):
        assert any(admitted), errors  # the first is not refused for nothing
    if route in ("a parameter", "the estimator of a search"):
        fine = {"record": [True, True], "group": [False, True], PRESENT: [True, False]}
        alone = route == "a parameter" or unit != PRESENT
        assert admitted == (fine.get(unit, [False] * 2) if alone else [False] * 2)


def covered(unit):
    return {"record": {"record", "group"}, "group": {"group"}, PRESENT: {PRESENT}}.get(unit, set())


TWO = {
    "of the search and its estimator": lambda a, b: search(mean(a), accountant=b),
    "of the search and a step": lambda a, b: search(
        make_pipeline(Normalizer(), mean(a)), {"privatefrechetmean__radius": [1]}, accountant=b
    ),
    "of a grid": lambda a, b: search(mean(), {"accountant": [a, b]}),
    "of a grid and the estimator": lambda a, b: search(mean(a), {"accountant": [b]}),
    "of a federation and its estimator": lambda a, b: FederatedEstimator(mean(a), accountant=b),
    "of people's rows and the search": lambda a, b: search(
        PerGroup(Normalizer(), mean(a)), {"estimator__radius": [1]}, accountant=b
    ),
    "of the whole and a part": lambda a, b: search(mean(a), accountant=a.partition("north")),
    "of two parts": lambda a, b: search(mean(a.partition("s")), accountant=a.partition("n")),
    "of two data sets": lambda a, b: search(mean(a), accountant=a.dataset("b")),
}


@pytest.mark.parametrize("which", TWO)
def test_two_ledgers_are_refused_before_the_charge(which):
    a, b = PrivacyAccountant(5.0), PrivacyAccountant(5.0)
    model = TWO[which](a, b)
    error = fit(model, np.arange(len(X)) // 2)
    assert isinstance(error, BudgetError) and "names two ledgers" in str(error)
    assert not a.history and not b.history


@quiet
def test_the_same_ledger_may_be_named_twice(tmp_path):
    path = tmp_path / "a.ledger"
    budget = PrivacyAccountant(5.0, path=path)
    search(mean(budget), accountant=PrivacyAccountant(path=path)).fit(X)
    assert len(budget.history) == 1


@quiet
@pytest.mark.parametrize(
    ("block", "named", "refused"),
    [
        (lambda b: b.partition("a"), lambda b: b, True),
        (lambda b: b.partition("a"), lambda b: b.partition("b"), True),
        (lambda b: b.dataset("other"), lambda b: b, True),
        (lambda b: b, lambda b: b.dataset("other"), True),
        (lambda b: b.partition("a"), lambda b: b.dataset("other").partition("a"), True),
        (lambda b: b.partition("a"), lambda b: b.partition("a"), False),
        (lambda b: b, lambda b: b.partition("a"), False),
        (lambda b: b, lambda b: b, False),
        (lambda b: PrivacyAccountant(), lambda b: b.partition("a"), False),
    ],
)
def test_a_block_of_another_part_is_refused(block, named, refused):
    budget = PrivacyAccountant(5.0)
    around, accountant = block(budget), named(budget)
    with around:
        for model in (mean(accountant), search(mean(accountant))):
            error = fit(model, None)
            assert isinstance(error, BudgetError) == refused, error
    assert len(accountant.history) == (0 if refused else 2)
    # The cure that the message names.
    with around:
        assert fit(mean(), None) is None
    assert around.history


def test_what_is_no_accountant_is_refused_wherever_it_is_named():
    for model in (search(mean("budget")), search(mean(), accountant=PrivacyAccountant)):
        with pytest.raises(TypeError, match="accountant must be"):
            ledger_of(model)
