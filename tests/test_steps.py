"""What a step knows of the records: shown by class and parameters or by trial, never assumed."""

import functools
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
    make_column_transformer,
)
from sklearn.decomposition import PCA
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
    RegressorChain,
)
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGridSearchCV,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateTangentPCA,
    PublicTable,
)
from skriemdp._descent.steps import check_steps, known_free
from skriemdp._reporting import COMBINES, LABELS, MIXES, NOT_PRIVATE, privacy_report
from skriemdp.ledger._errors import BudgetError
from skriemdp.preprocessing import PerGroup

RNG = np.random.default_rng(0)
N = 120
CODES = RNG.integers(0, 3, (N, 2)).astype(float)
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] > 0).astype(int)
PUBLIC = [[0.0, 1.0, 2.0]] * 2
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def last():
    return PrivateNoisyAdaGrad(classes=[0, 1], feature_norm=1.0, n_steps=2)


def report_of(step, data=X):
    return privacy_report(make_pipeline(step, last()).fit(data, Y))


def search_of(step, budget, data=X, **settings):
    model = make_pipeline(step, last())
    grid = {"privatenoisyadagrad__epsilon": [1.0]}
    return PrivateGridSearchCV(model, grid, mean_runs=1.5, accountant=budget, **settings).fit(
        data, Y
    )


def judged_alike(step, data=X):
    """Whether report and search find that the step learned nothing; they must agree."""
    report, budget = report_of(step, data), PrivacyAccountant()
    try:
        search_of(step, budget, data)
    except TypeError as error:
        assert "learns from the records" in str(error) and not budget.history
        assert not report and report.violations, str(report)
        return False
    assert report, str(report)
    return True


KNOTS = np.array([[-3.0] * 3, [0.0] * 3, [3.0] * 3])
FREE = {
    "OneHotEncoder": (OneHotEncoder(categories=PUBLIC, sparse_output=False), CODES),
    "OneHotEncoder, sparse": (OneHotEncoder(categories=PUBLIC, handle_unknown="ignore"), CODES),
    "OneHotEncoder, drop": (
        OneHotEncoder(categories=PUBLIC, drop="first", sparse_output=False),
        CODES,
    ),
    "OrdinalEncoder": (OrdinalEncoder(categories=PUBLIC), CODES),
    "SimpleImputer": (
        SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True),
        X,
    ),
    "MissingIndicator": (MissingIndicator(features="all"), X),
    "SplineTransformer": (SplineTransformer(knots=KNOTS), X),
    "RBFSampler": (RBFSampler(gamma=0.5, n_components=5), X),
    "RBFSampler, seeded": (RBFSampler(random_state=0, n_components=5), X),
    "GaussianRandomProjection": (GaussianRandomProjection(2), X),
    "SparseRandomProjection": (SparseRandomProjection(2), X),
}
NUMBERS = SimpleImputer(strategy="constant", keep_empty_features=True)
ONE_HOT = OneHotEncoder(categories=[[0.0, 1.0, 2.0]], handle_unknown="ignore", sparse_output=False)
CODES_AND_NUMBERS = np.c_[CODES[:, :1], X[:, :2]]
COMPOSED = {
    "columns": ColumnTransformer([("c", ONE_HOT, [0]), ("n", NUMBERS, [1, 2])]),
    "remainder": ColumnTransformer([("c", ONE_HOT, [0])], remainder="passthrough"),
    "remainder, filled": ColumnTransformer([("c", ONE_HOT, [0])], remainder=NUMBERS),
    "sparse": ColumnTransformer(
        [("c", OneHotEncoder(categories=[[0.0, 1.0, 2.0]]), [0]), ("n", NUMBERS, [1, 2])]
    ),
    "beside a function": ColumnTransformer(
        [("c", ONE_HOT, [0]), ("n", FunctionTransformer(np.tanh), [1, 2])]
    ),
    "pipeline within": ColumnTransformer(
        [("c", ONE_HOT, [0]), ("n", make_pipeline(NUMBERS, FunctionTransformer(np.tanh)), [1, 2])]
    ),
    "a public table": PublicTable({0: [0, 1, 2], 1: (-3, 3), 2: (-3, 3)}),
    "a public table beside": FeatureUnion(
        [("t", PublicTable({0: [0, 1, 2], 1: (-3, 3), 2: (-3, 3)})), ("n", Normalizer())]
    ),
    "pipeline around": make_pipeline(
        ColumnTransformer([("c", ONE_HOT, [0])], remainder="passthrough"), Normalizer()
    ),
    "union": FeatureUnion([("n", NUMBERS), ("gaps", MissingIndicator(features="all"))]),
    "columns within columns": ColumnTransformer(
        [("a", ColumnTransformer([("c", ONE_HOT, [0])], remainder="drop"), [0, 1])],
        remainder="passthrough",
    ),
}


@pytest.mark.parametrize("name", FREE)
def test_steps_whose_parameters_are_public_are_accepted(name):
    step, data = FREE[name]
    assert known_free(step) and judged_alike(step, data)


@pytest.mark.parametrize("name", COMPOSED)
def test_compositions_of_them_are_accepted(name):
    assert judged_alike(COMPOSED[name], CODES_AND_NUMBERS)


def test_columns_of_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(CODES_AND_NUMBERS, columns=["kind", "a", "b"])
    frame["kind"] = np.array(["x", "y", "z"])[CODES[:, 0].astype(int)]
    kinds = OneHotEncoder(categories=[["x", "y", "z"]], sparse_output=False)
    text = make_column_selector(dtype_exclude="number")
    for columns in (["kind"], text):
        step = make_column_transformer(
            (kinds, columns),
            (make_pipeline(NUMBERS, FunctionTransformer(np.tanh)), ["a", "b"]),
        )
        assert judged_alike(step, frame)
    learning = make_column_transformer((kinds, ["kind"]), (StandardScaler(), slice("a", "b")))
    assert not judged_alike(learning, frame)


class SelfMade(TransformerMixin, BaseEstimator):
    """Keeps what the function makes of the records it is fitted to, under any name."""

    def __init__(self, keep=np.ndim, name="kept_", stateless=False):
        self.keep, self.name, self.stateless = keep, name, stateless

    def fit(self, X, y=None):
        self.n_features_in_ = np.shape(X)[1]
        setattr(self, self.name, self.keep(np.asarray(X)))
        return self

    def transform(self, X):
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = not self.stateless
        return tags


LEARNING = [
    StandardScaler(),
    MinMaxScaler(),
    MaxAbsScaler(),
    RobustScaler(),
    QuantileTransformer(n_quantiles=5),
    PowerTransformer(),
    KBinsDiscretizer(3, strategy="uniform"),
    PCA(2),
    SelectKBest(k=1),
    KNNImputer(),
    VarianceThreshold(),
    TargetEncoder(target_type="continuous"),
    Nystroem(n_components=3),
    SimpleImputer(),
    SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True),
    OrdinalEncoder(),
    OneHotEncoder(sparse_output=False),
    MissingIndicator(features="missing-only", error_on_new=False),
    SplineTransformer(),
    RBFSampler(gamma="scale"),
    SelfMade(lambda X: X.mean(axis=0)),
    SelfMade(lambda X: X.mean(axis=0), "hidden"),
    SelfMade(lambda X: {"deep": [StandardScaler().fit(X)]}, "_hidden", stateless=True),
    SelfMade(lambda X: functools.partial(np.add, X[0]), "function"),
    ColumnTransformer([("a", StandardScaler(), [0])], remainder="passthrough"),
    ColumnTransformer([("a", "passthrough", lambda X: [int(np.argmax(X[0]))])]),
    FeatureUnion([("a", Normalizer()), ("b", PCA(1))]),
    make_pipeline(Normalizer(), MinMaxScaler()),
]


def test_an_imputer_learns_which_columns_are_empty_where_it_drops_them():
    """It drops them since scikit-learn 1.8, whatever stands in the others."""
    step = SimpleImputer(strategy="constant")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the change to come
        drops = step.fit_transform(np.full((2, 1), np.nan)).shape[1] == 0
    assert judged_alike(step, X) is not drops


@pytest.mark.parametrize("step", LEARNING, ids=lambda step: str(step)[:60].split(" at 0x")[0])
def test_steps_that_learn_are_named(step):
    data = np.round(X) if isinstance(step, TargetEncoder) else X
    if isinstance(step, MissingIndicator):
        data = np.where(X > 2.0, np.nan, X)
        assert not known_free(step) and not check_steps([step], data)[0].fine
        return
    assert not judged_alike(step, data)


def test_what_is_kept_of_any_table_is_not_learned():
    assert judged_alike(SelfMade())
    assert judged_alike(SelfMade(lambda X: {"public": np.arange(3)}, "_hidden"))


@pytest.mark.parametrize(
    ("step", "cure"),
    [
        (OneHotEncoder(sparse_output=False), {"categories": [[0.0, 1.0, 2.0]] * 2}),
        (OrdinalEncoder(), {"categories": [[0.0, 1.0, 2.0]] * 2}),
        (SimpleImputer(), {"strategy": "constant", "keep_empty_features": True}),
        (SplineTransformer(), {"knots": KNOTS[:, :2]}),
        (RBFSampler(gamma="scale"), {"gamma": 1.0}),
    ],
    ids=lambda value: str(value)[:20],
)
def test_the_cure_that_is_named_works(step, cure):
    (name, *_) = cure
    budget = PrivacyAccountant()
    with pytest.raises(TypeError, match=f"pass .*{name}="):
        search_of(step, budget, CODES)
    assert f"with {name}=" in str(report_of(step, CODES)).replace("with knots=,", "with knots=")
    assert judged_alike(step.set_params(**cure), CODES)


def test_the_format_of_a_table_is_no_secret_channel():
    kinds = OneHotEncoder(categories=[np.arange(20.0)], handle_unknown="ignore")
    step = ColumnTransformer([("c", kinds, [0])], remainder="drop")
    with pytest.raises(TypeError, match="pass sparse_threshold=0"):
        search_of(step, PrivacyAccountant(), CODES)
    assert not report_of(step, CODES)
    assert judged_alike(step.set_params(sparse_threshold=0), CODES)


# -- what was fitted before ------------------------------------------------------------------------


SCALER = StandardScaler().fit(X)


class Holder(FunctionTransformer):
    """Holds a fitted scaler in an attribute that no parameter shows."""

    def __init__(self, func=None):
        super().__init__(func)
        self.held = {"deep": [SCALER]}


HIDDEN = {
    "frozen": lambda: FrozenEstimator(SCALER),
    "frozen twice": lambda: FrozenEstimator(FrozenEstimator(SCALER)),
    "a frozen pipeline": lambda: FrozenEstimator(make_pipeline(StandardScaler()).fit(X)),
    "a bound method": lambda: FunctionTransformer(SCALER.transform),
    "a partial": lambda: FunctionTransformer(functools.partial(scaled, by=SCALER)),
    "a closure": lambda: closure(SCALER),
    "a global": lambda: FunctionTransformer(lambda X: SCALER.transform(X)),
    "keywords": lambda: FunctionTransformer(scaled, kw_args={"by": SCALER}),
    "a default": lambda: FunctionTransformer(lambda X, by=SCALER: by.transform(X)),
    "within columns": lambda: ColumnTransformer([("a", FrozenEstimator(SCALER), [0, 1, 2])]),
    "within a union": lambda: FeatureUnion([("a", FrozenEstimator(SCALER))]),
    "a selection": lambda: SelectFromModel(
        FrozenEstimator(Ridge().fit(X, Y)), prefit=True, threshold=-np.inf
    ),
}


def scaled(X, by):
    return by.transform(X)


def closure(scaler):
    return FunctionTransformer(lambda X: scaler.transform(X))


@pytest.mark.parametrize("where", HIDDEN)
def test_what_was_fitted_before_is_found_wherever_it_hides(where):
    step = HIDDEN[where]()
    if where == "keywords":  # clones of the search are not fitted
        with pytest.raises(ValueError, match="NotFittedError"):
            search_of(step, PrivacyAccountant())
    else:
        assert not judged_alike(step)
    names = {found.name for found in report_of(step).violations}
    assert names & {"StandardScaler", "Ridge"}, report_of(step)


def test_what_hides_behind_a_private_step_or_in_its_parameters():
    model = make_pipeline(
        PrivatePrincipalEigenvector(1), FrozenEstimator(LogisticRegression().fit(X[:, :1], Y))
    ).fit(X, Y)
    assert [found.name for found in privacy_report(model).violations] == ["LogisticRegression"]
    moved = FunctionTransformer(SCALER.transform)
    people = PerGroup(moved, PrivateFrechetMean(radius=1.0))
    people.fit(X, groups=np.arange(N))
    assert "StandardScaler" in [found.name for found in privacy_report(people).violations]
    ids, budget = np.arange(N), PrivacyAccountant()
    with pytest.raises(TypeError, match="holds a fitted StandardScaler"):
        PrivateGridSearchCV(people, {}, accountant=budget).fit(X, groups=ids)
    mean = PrivateFrechetMean(radius=1.0)

    def loss(model, X, y):
        return np.abs(SCALER.transform(X)[:, 0])

    with pytest.raises(TypeError, match="loss learns .*a fitted StandardScaler"):
        PrivateGridSearchCV(mean, {}, loss=loss, accountant=budget).fit(X)
    assert not budget.history


def test_a_private_model_may_be_frozen():
    tangent = PrivateTangentPCA(radius=3.0, n_components=2).fit(X)
    model = make_pipeline(FrozenEstimator(tangent), last()).fit(X, Y)
    report = privacy_report(model)
    assert report and report.steps[0].status == f"{COMBINES} 1 private fit"
    assert privacy_report(FrozenEstimator(tangent))


# -- models that combine fits ----------------------------------------------------------------------


def numbers():
    return PrivateNoisyAdaGrad(
        "squared_error", feature_norm=1.0, target_range=(-3.0, 3.0), n_steps=2
    )


TARGETS = np.c_[X[:, 0], X[:, 1]]
COMBINING = {
    "MultiOutputRegressor": (MultiOutputRegressor(numbers()), TARGETS, 2),
    "MultiOutputClassifier": (MultiOutputClassifier(last()), (TARGETS > 0).astype(int), 2),
    "RegressorChain": (RegressorChain(numbers()), TARGETS, 2),
    "RegressorChain, folds": (RegressorChain(numbers(), cv=KFold(2)), TARGETS, 2),
    "ClassifierChain": (ClassifierChain(last()), (TARGETS > 0).astype(int), 2),
    "VotingRegressor": (VotingRegressor([("a", numbers()), ("b", numbers())]), X[:, 0], 2),
    "RFE": (RFE(numbers()), X[:, 0], 1),
    "SelectFromModel": (SelectFromModel(numbers()), X[:, 0], 1),
    "TransformedTargetRegressor": (
        TransformedTargetRegressor(numbers(), func=np.tanh, inverse_func=np.arctanh),
        X[:, 0],
        1,
    ),
}


@pytest.mark.parametrize("name", COMBINING)
def test_combined_private_fits_are_private_with_their_entries(name):
    model, y, count = COMBINING[name]
    with PrivacyAccountant() as budget:
        report = privacy_report(model.fit(X, y))
    assert report, str(report)
    combined = report.steps[0]
    assert combined.status.startswith(f"{COMBINES} {count} private fit")
    charged = {spend.entry for spend in budget.history}
    assert len(combined.entries) == count and charged.issuperset(combined.entries)
    assert str(combined.entries[0]) in str(report)


@pytest.mark.parametrize(
    "model",
    [
        VotingClassifier([("a", last())]),
        OneVsRestClassifier(last()),
        OutputCodeClassifier(last().set_params(classes=[-1, 1]), code_size=2.0, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_labels_that_occurred_are_told(model):
    y = np.arange(N) % 3 if isinstance(model, OneVsRestClassifier) else Y
    found = privacy_report(model.fit(X, y)).violations[0]
    assert found.status == LABELS and "classes_ holds" in str(found) and found.entries


def test_what_is_combined_must_be_private_and_keep_rows_apart():
    plain = privacy_report(MultiOutputRegressor(Ridge()).fit(X, TARGETS))
    assert not plain and {found.name for found in plain.violations} == {"Ridge"}
    centred = TransformedTargetRegressor(
        numbers(), func=lambda y: y - y.mean(), inverse_func=np.asarray, check_inverse=False
    )
    (found,) = privacy_report(centred.fit(X, X[:, 0])).violations
    assert found.status == MIXES
    scaled = TransformedTargetRegressor(numbers(), transformer=StandardScaler())
    (found,) = privacy_report(scaled.fit(X, X[:, 0])).violations
    assert found.name == "StandardScaler"
    folds = ClassifierChain(last(), cv=2).fit(X, (TARGETS > 0).astype(int))
    assert privacy_report(folds).violations[0].status == NOT_PRIVATE


# -- repeated rows ---------------------------------------------------------------------------------


def test_repeated_rows_are_one_person():
    rng = np.random.default_rng(1)
    again = rng.integers(0, N, N)
    mean = PrivateFrechetMean(radius=1.0, noise="gaussian")
    spent = mean.fit(X[again], groups=again).privacy_spent_
    assert spent.unit == "group" and spent.public["n_groups"] == len(np.unique(again))
    budget = PrivacyAccountant(epsilon=5.0, unit="group")
    with pytest.raises(BudgetError, match="pass groups= to fit"):
        mean.set_params(accountant=budget).fit(X[again])
    mean.fit(X[again], groups=again)
    assert len(budget.history) == 1
    # Windows that overlap hold the same samples, and belong to one person.
    windows = np.stack([np.arange(k, k + 4) for k in range(0, N - 3, 2)])
    spent = mean.fit(X[windows[:, 0]], groups=windows[:, 0] // 40).privacy_spent_
    assert spent.unit == "group"


def test_a_report_of_nothing_that_is_fitted_says_so():
    assert not privacy_report(make_pipeline(StandardScaler(), last()))
