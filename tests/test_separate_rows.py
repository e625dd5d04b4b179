"""Functions that mix records, or carry them along, are refused before anything is charged."""

import functools
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.neighbors import kneighbors_graph
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    PolynomialFeatures,
    StandardScaler,
)

from skriemdp import (
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateGridSearchCV,
    PrivateHyperbolicRegressor,
    PrivateMinimumDistanceToMean,
    PrivatePrincipalEigenvector,
)
from skriemdp._descent.carried import check_per_sample
from skriemdp._descent.per_sample import CostProblem, HalfSquaredDistance, make_gradient
from skriemdp._descent.separate_rows import check_rows, pairs_of_batches
from skriemdp._descent.steps import check_steps
from skriemdp._erm import PrivateRiemannianERM
from skriemdp._linear_model import PrivateNoisyAdaGrad
from skriemdp._reporting import (
    MIXES,
    NOT_CHECKED,
    NOT_FITTED,
    NOT_PRIVATE,
    STATELESS,
    privacy_report,
)
from skriemdp.geometry import SPD, Euclidean, Grassmann, Hyperboloid, Product, Sphere
from skriemdp.ledger._accountant import PrivacyAccountant
from skriemdp.pymanopt_optimizers import PerSampleProblem

N = 60
X = np.random.default_rng(0).normal(size=(N, 3))
Y = np.random.default_rng(1).integers(0, 2, N).astype(float)

MIXING = {
    "centring": lambda p, X, y: p - (X - X.mean(axis=0)),
    "a change that the clip hides": lambda p, X, y: 10 * np.tanh(100 * (X - X.mean(axis=0))),
    "standardising": lambda p, X, y: p - X / X.std(axis=0),
    "largest of the batch": lambda p, X, y: (p - X) / np.abs(X).max(),
    "length of the batch": lambda p, X, y: (p - X) / len(X),
    "softmax weights": lambda p, X, y: (
        (np.exp(X[:, :1] - X[:, :1].max()) / np.exp(X[:, :1] - X[:, :1].max()).sum()) * (p - X)
    ),
    "cumulative sums": lambda p, X, y: np.cumsum(p - X, axis=0),
    "sorting": lambda p, X, y: np.sort(p - X, axis=0),
    "the neighbour's row": lambda p, X, y: p - np.roll(X, 1, axis=0),
    "the place in the batch": lambda p, X, y: (p - X) * (1 + np.arange(len(X)))[:, None],
    "labels centred": lambda p, X, y: (p - X) * (y - y.mean())[:, None],
}
SEPARATE = {
    "difference": lambda p, X, y: p - X,
    "matrix product": lambda p, X, y: -2 * (X @ p)[:, None] * X,
    "einsum": lambda p, X, y: -2 * np.einsum("ij,j->i", X, p)[:, None] * X,
    "logistic": lambda p, X, y: -(y / (1 + np.exp(y * (X @ p))))[:, None] * X,
    "unit length": lambda p, X, y: (p - X) / np.linalg.norm(p - X, axis=1, keepdims=True),
    "indicator": lambda p, X, y: (p - X) * (X[:, :1] > 0),
}


@pytest.mark.parametrize("parameter", ["gradient", "euclidean_gradient"])
@pytest.mark.parametrize("kind", MIXING)
def test_gradients_that_mix_records_are_refused_for_free(kind, parameter):
    budget = PrivacyAccountant(epsilon=1.0)
    model = PrivateRiemannianERM(accountant=budget, n_steps=2, **{parameter: MIXING[kind]})
    with pytest.raises(ValueError, match=f"^{parameter}: row i must depend on record i only"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match="record i only"):
        PerSampleProblem("euclidean", None, (X, Y), **{parameter: MIXING[kind]})
    gradient = make_gradient(Euclidean(3), None, "numpy", **{parameter: MIXING[kind]})
    with pytest.raises(ValueError, match="record i only"):
        CostProblem(gradient, X, Y).dry_run(np.zeros(3))
    assert len(budget.history) == 0


@pytest.mark.parametrize("kind", SEPARATE)
def test_gradients_of_single_records_pass(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PerSampleProblem("euclidean", None, (X, Y), gradient=SEPARATE[kind])


@pytest.mark.parametrize("geometry", [Sphere(2), SPD(2), Hyperboloid(2), Grassmann(4, 2)], ids=str)
def test_points_of_manifolds_are_made_up_as_points(geometry):
    rng = np.random.default_rng(2)
    points = geometry.exp_coordinates(
        geometry.base_point, 0.1 * rng.normal(size=(30, geometry.dim))
    )

    def gradient(point, X, y):
        assert geometry.belongs(X).all()
        return -np.asarray(geometry.log(point, X))

    def centred(point, X, y):
        logs = -np.asarray(geometry.log(point, X))
        return logs - logs.mean(axis=0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PerSampleProblem(geometry, None, points, gradient=gradient)
    with pytest.raises(ValueError, match="record i only"):
        PerSampleProblem(geometry, None, points, gradient=centred)


def test_identical_bits_are_told_from_rounding():
    def flag(gradient):
        gradient = make_gradient(Euclidean(3), None, "numpy", gradient)
        return CostProblem(gradient, X, Y).row_check

    assert flag(SEPARATE["difference"]).identical
    # Products of a matrix of another memory order, whose sums depend on the number of rows.
    wide = np.random.default_rng(3).normal(size=(3, 200))

    def coupled(point, X, y):
        return np.asfortranarray(np.tanh(X @ wide)) @ (wide.T / 50)

    product = flag(coupled)
    assert product.separate
    assert flag(lambda p, X, y: X * (1 + 1e-12 * np.arange(len(X)))[:, None]).separate
    assert not flag(lambda p, X, y: X * (1 + 1e-12 * np.arange(len(X)))[:, None]).identical
    assert not flag(lambda p, X, y: X + 1e-15 * X.sum(axis=0)).identical
    assert CostProblem(HalfSquaredDistance(SPD(2)), np.zeros((5, 2, 2))).row_check.identical


def test_a_gradient_with_a_memory_is_refused():
    calls = []

    def gradient(point, X, y):
        calls.append(len(X))
        return (point - X) * (1.0 + len(calls))

    with pytest.raises(ValueError, match="same rows"):
        PerSampleProblem("euclidean", None, X, gradient=gradient)


def raising(error):
    def gradient(point, X, y):
        if len(X) > 1:
            raise error
        return point - X

    return gradient


@pytest.mark.parametrize("error", [FloatingPointError, OverflowError, ValueError])
def test_what_refuses_made_up_records_is_warned_about(error):
    with pytest.warns(UserWarning, match=f"{error.__name__} on made-up records"):
        PerSampleProblem("euclidean", None, X, gradient=raising(error))


@pytest.mark.parametrize(
    "error", [ZeroDivisionError, NameError, AttributeError, TypeError, RecursionError]
)
def test_a_function_that_fails_by_itself_is_refused_before_the_charge(error, recording_accountant):
    with pytest.raises(TypeError, match=f"gradient raised {error.__name__}.*would do so on yours"):
        PerSampleProblem("euclidean", None, X, gradient=raising(error))
    for name in ("gradient", "euclidean_gradient"):
        model = PrivateRiemannianERM(**{name: raising(error)}, accountant=recording_accountant)
        with pytest.raises(TypeError, match=f"^{name} raised {error.__name__} on made-up records"):
            model.fit(X)
    assert recording_accountant.spends == []


@pytest.mark.parametrize(
    "gradient",
    [
        lambda p, X, y: np.full_like(X, np.nan),
        lambda p, X, y: (X - X) / 0.0,
        lambda p, X, y: np.log(-(X**2) - 1.0),
        lambda p, X, y: (X - X.mean(axis=0)) * np.inf * 0.0,
        lambda p, X, y: np.where(X > 1e9, X - X.mean(axis=0), np.inf),
    ],
    ids=["nan", "zero by zero", "outside the domain", "mixing and nan", "mixing far away"],
)
def test_what_gives_no_number_is_not_taken_for_separate(gradient):
    """Nothing was seen of how it treats records."""
    with pytest.warns(UserWarning, match="gave no finite number on made-up records, so nobody"):
        PerSampleProblem("euclidean", None, X, gradient=gradient)
    found = CostProblem(make_gradient(Euclidean(3), None, "numpy", gradient), X).row_check
    assert not found.tried and not found.identical


def test_records_of_several_parts_are_taken_apart_by_the_manifold():
    space = Product(SPD(2), Euclidean(2))
    points = space.exp_coordinates(
        space.base_point, 0.2 * np.random.default_rng(0).normal(size=(60, 5))
    )

    def whole(point, X, y):
        (a, b), (A, B) = point, X
        return [-SPD(2).log(a, A), b - B]

    def apart(point, X, y):
        (a, b), (A, B) = point, space.split(X)
        return [-SPD(2).log(a, A), b - B]

    with pytest.raises(TypeError, match="manifold.split takes them apart"):
        PrivateRiemannianERM(space, gradient=whole).fit(points)
    assert PrivateRiemannianERM(space, gradient=apart, n_steps=2).fit(points).point_.shape == (6,)


def test_the_check_sees_public_numbers_only():
    """The same questions whatever the data are, so the answer says nothing about them."""
    asked = []

    def gradient(point, X, y):
        asked.append((point.tobytes(), X.tobytes(), y.tobytes()))
        return point - X

    PerSampleProblem("euclidean", None, (X, Y), gradient=gradient)
    first, asked[:] = list(asked), []
    PerSampleProblem("euclidean", None, (1e3 * X[::-1] + 7.0, 1 - Y), gradient=gradient)
    assert first == asked
    assert max(len(x) for _, x, _ in asked) >= 1000 * 3 * 8


def test_batches_are_long_enough_for_blocked_products():
    (first, other), *_ = pairs_of_batches(None, (3,), None)
    assert len(first[0]) >= 1000
    assert not np.isin(first[0], other[0]).any()
    assert check_rows(lambda X, y: X, [(first, other)]).identical
    assert not check_rows(lambda X, y: X[::-1], [(first, other)]).separate


# -- data in disguise ------------------------------------------------------------------------------


class Settings:
    rows = None


HELD = Settings()
PUBLIC = np.ones(3)
TABLE: dict = {}


def uses_an_attribute(point, X, y):
    return point - X + HELD.rows[0]


def uses_a_dict(point, X, y):
    return point - X + TABLE["rows"][0]


def uses_a_helper(point, X, y):
    return uses_a_dict(point, X, y)


def uses_it_within(point, X, y):
    return point - X + sum(0.0 * row[0] for row in TABLE["rows"])


def uses_it_inside(point, X, y):
    def shifted():
        return point - X + TABLE["rows"][0]

    return shifted()


@pytest.fixture
def globals_with_data():
    HELD.rows, TABLE["rows"] = X.copy(), X.tolist()
    yield
    HELD.rows = None
    TABLE.clear()


USES = [uses_an_attribute, uses_a_dict, uses_a_helper, uses_it_within, uses_it_inside]


@pytest.mark.parametrize("function", USES)
def test_data_in_globals_are_found(function, globals_with_data):
    budget = PrivacyAccountant(epsilon=1.0)
    with pytest.raises(TypeError, match="gradient carries"):
        PrivateRiemannianERM(gradient=function, accountant=budget).fit(X)
    assert len(budget.history) == 0


def test_a_cell_that_is_empty_hides_no_other():
    def gradient(point, X, y):
        return point - X + rows[0] if rows else later

    rows = X.copy()
    if rows is None:
        later = 0.0
    with pytest.raises(TypeError, match="gradient carries"):
        PrivateRiemannianERM(gradient=gradient, accountant=PrivacyAccountant()).fit(X)


def test_globals_without_data_pass():
    check_per_sample(uses_an_attribute, N, (X,))
    check_per_sample(lambda point, X, y: PUBLIC @ X, N, (X,))
    check_per_sample(lambda point, X, y: np.linalg.norm(X), N, (X,))


def test_data_in_containers_are_found():
    as_list, as_dict = X.tolist(), dict(enumerate(X))
    nested = {"settings": [{"deep": X.copy()}]}
    column = X[:, 0].tolist()

    class Holder:
        def __init__(self):
            self.inner = nested

        def __call__(self, point, X, y):
            return X

    functions = [
        lambda p, X, y: as_list[0],
        lambda p, X, y: as_dict[0],
        lambda p, X, y: nested["settings"],
        lambda p, X, y: column[0],
        Holder(),
        functools.partial(lambda extra, p, X, y: X, [1, as_list]),
        lambda p, X, y: (lambda: as_list)(),
    ]
    for number, function in enumerate(functions):
        with pytest.raises(TypeError, match="carries"):
            check_per_sample(function, N, (X, None))
            pytest.fail(f"function {number} was accepted")


def test_a_statistic_of_the_data_cannot_be_seen():
    """Named in the documentation; this test says when that changes."""
    center = X.mean(axis=0)
    check_per_sample(lambda p, X, y: p - X + center, N, (X, None))


# -- losses of a search ----------------------------------------------------------------------------


def record_loss(model, X, y):
    return np.sum((X - model.mean_) ** 2, axis=1)


def ranked_loss(model, X, y):
    losses = record_loss(model, X, y)
    return losses / losses.max()


def search(loss, budget):
    return PrivateGridSearchCV(
        PrivateFrechetMean(epsilon=0.5, radius=1.0),
        {"radius": [0.5, 1.0]},
        loss=loss,
        accountant=budget,
    )


def test_losses_that_mix_records_are_refused_for_free():
    budget = PrivacyAccountant(epsilon=9.0)
    with pytest.raises(ValueError, match="^loss: row i must depend on record i only"):
        search(ranked_loss, budget).fit(X)
    table = X.copy()
    with pytest.raises(TypeError, match="loss carries"):
        search(lambda model, X, y: record_loss(model, X, y) + table[0, 0], budget).fit(X)
    assert len(budget.history) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "delta=|with n=")
        search(record_loss, budget).fit(X)
    assert len(budget.history) == 1


SEARCHED = {
    "a linear model": (PrivateNoisyAdaGrad("squared_error"), NUMBERS := np.linspace(-1.0, 1.0, N)),
    "a classifier": (PrivateNoisyAdaGrad(classes=[0.0, 1.0]), (NUMBERS > 0.0).astype(float)),
    "directions": (PrivateGeodesicRegressor("sphere"), np.tile([0.0, 0.6, 0.8], (N, 1))),
    "angles": (PrivateGeodesicRegressor("circle"), NUMBERS),
    "a hierarchy": (PrivateHyperbolicRegressor(), 0.1 * NUMBERS[:, None] * np.ones(2)),
    "components": (PrivatePrincipalEigenvector(), None),
}


@pytest.mark.parametrize("name", SEARCHED)
def test_losses_are_tried_whatever_the_manifold_is_of(name):
    """Of rows, of responses, of coefficients, or of a frame."""

    def centred(model, X, y):
        sizes = np.abs(X).sum(axis=1)
        return sizes - sizes.mean()

    model, y = SEARCHED[name]
    searched = PrivateGridSearchCV(model, {"epsilon": [0.5, 1.0]}, loss=centred)
    with pytest.raises(ValueError, match="^loss: row i must depend on record i only"):
        searched.fit(X, y)


def test_a_loss_that_refuses_made_up_records_is_warned_about():
    def loss(model, X, y):
        if len(X) > N:
            raise KeyError
        return record_loss(model, X, y)

    with pytest.warns(UserWarning, match="loss raised KeyError"):
        search(loss, PrivacyAccountant()).fit(X)


# -- labels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [PrivateMinimumDistanceToMean, PrivateNoisyAdaGrad])
def test_labels_that_are_read_off_y_are_announced(model):
    with pytest.warns(UserWarning, match="classes=None publishes"):
        model().fit(X, Y)
    with warnings.catch_warnings():
        # What noise makes a fit of so few rows tell is left to chance; labels are not.
        warnings.filterwarnings("error", message=".*classes=None")
        model(classes=[0.0, 1.0]).fit(X, Y)


# -- steps of a pipeline --------------------------------------------------------------------------


def without_repetitions(X):
    return X[np.sort(np.unique(X, axis=0, return_index=True)[1])]


def middle(X):
    return np.clip(np.nanmedian(X[:, 2]), -1e-5, 1e-5)


def whitened(X):
    return (X - X.mean(axis=0)) @ np.linalg.pinv(np.cov(X.T))


class Quiet(TransformerMixin, BaseEstimator):
    """Centres rows, and keeps nothing that could be seen."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X - X.mean(axis=0)


class Keeper(Quiet):
    """Leaves rows as they are, and remembers their mean."""

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        return self

    def transform(self, X):
        return X


class TwoFaced(TransformerMixin, BaseEstimator):
    """Centres rows while it is fitted, or else later on."""

    def __init__(self, at_once=True):
        self.at_once = at_once

    def fit(self, X, y=None):
        return self

    def fit_transform(self, X, y=None):
        return X - X.mean(axis=0) if self.at_once else X

    def transform(self, X):
        return X if self.at_once else X - X.mean(axis=0)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


MIXING_STEPS = {
    "centred": lambda X: X - X.mean(axis=0),
    "scaled": lambda X: X / X.std(axis=0),
    "by the largest": lambda X: X / np.abs(X).max(),
    "whitened": whitened,
    "ranks": lambda X: np.argsort(np.argsort(X, axis=0), axis=0),
    "sorted": lambda X: np.sort(X, axis=0),
    "clipped at a quantile": lambda X: np.minimum(X, np.quantile(X, 0.9, axis=0)),
    "filled with means": lambda X: np.where(np.isnan(X), np.nanmean(X, axis=0), X),
    "neighbours": lambda X: kneighbors_graph(X, 5).toarray()[:, :3],
    "other row": lambda X: np.roll(X, 1, axis=0),
    "its place": lambda X: X + np.arange(len(X))[:, None],
    "number of rows": lambda X: X / len(X),
    "one small column": lambda X: np.c_[1e7 * X[:, :2], X[:, 2] - middle(X)],
    "little": lambda X: X + 1e-9 * np.nanmean(X, axis=0),
    "units guessed": lambda X: X * (1e-3 if np.nanmax(np.abs(X)) > 1e5 else 1.0),
    "fifty times": lambda X: np.repeat(X, 50, axis=0),
    "without outliers": lambda X: X[np.abs(X[:, 0]) < 3.0],
    "without NaN": lambda X: X[~np.isnan(X).any(axis=1)],
    "without repetitions": without_repetitions,
    "differences": lambda X: np.diff(X, axis=0, append=0.0)[1:],
    "logarithms": lambda X: np.log(np.where(X > 0, X, np.e)) - np.log(np.where(X > 0, X, 1)).mean(),
}
W = np.random.default_rng(1).normal(size=(3, 40))
KEEPING_STEPS = {
    "nothing": None,
    "exp": np.exp,
    "constants": lambda X: (X - 3.0) / 2.0,
    "logarithms": lambda X: np.log(np.abs(X)),
    "of shares": lambda X: np.arccos(np.clip(X, -1.0, 1.0)),
    "products": lambda X: X @ W,
    "single precision": lambda X: X.astype(np.float32) @ W.astype(np.float32),
    "its own mean": lambda X: X - X.mean(axis=1, keepdims=True),
    "public numbers": np.nan_to_num,
    "Fourier": lambda X: np.abs(np.fft.fft(X)),
}
STEPS = [
    Normalizer(),
    Binarizer(),
    PolynomialFeatures(),
    make_pipeline(FunctionTransformer(np.tanh)),
    make_pipeline("passthrough", Normalizer()),
]
MEAN = PrivateFrechetMean(noise="gaussian", epsilon=0.5, radius=1.0)


def searched(step, accountant=None, data=X, **grid):
    model = make_pipeline(step, PrivateFrechetMean(noise="gaussian", epsilon=0.5, radius=1.0))
    search = PrivateGridSearchCV(model, grid, accountant=accountant, loss_bound=4.0)
    return search.fit(data)


def reported(step, data=X):
    return privacy_report(make_pipeline(step, PrivateFrechetMean(radius=1.0)).fit(data))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MIXING_STEPS)
def test_steps_that_mix_or_repeat_records_are_refused(name, recording_accountant):
    step = FunctionTransformer(MIXING_STEPS[name])
    with pytest.raises(ValueError, match="row i must depend|one row must come out"):
        searched(step, recording_accountant)
    assert recording_accountant.spends == []
    report = reported(step)
    assert not report and [found.status for found in report.violations] == [MIXES]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "step",
    [FunctionTransformer(f) for f in KEEPING_STEPS.values()] + STEPS,
    ids=[*KEEPING_STEPS, *map(str, STEPS)],
)
def test_steps_that_keep_records_apart_may_run_first(step):
    assert searched(step).privacy_spent_.epsilon < np.inf
    report = reported(step)
    assert report and {found.status for found in report.steps[:-1]} == {STATELESS}


@pytest.mark.parametrize(
    "step", [StandardScaler(), Quiet(), Keeper(), make_pipeline(StandardScaler())]
)
def test_steps_that_learn_are_refused_as_such(step, recording_accountant):
    with pytest.raises(TypeError, match="learns from the records"):
        searched(step, recording_accountant)
    assert recording_accountant.spends == []
    assert [found.status for found in reported(step).violations] in ([NOT_PRIVATE], [MIXES])


@pytest.mark.parametrize("at_once", [True, False])
def test_a_step_is_asked_as_fits_and_predictions_ask_it(at_once, recording_accountant):
    with pytest.raises(ValueError, match="'twofaced': row i must depend"):
        searched(TwoFaced(at_once), recording_accountant)
    assert recording_accountant.spends == []


LENGTH = functools.partial(np.linalg.norm, axis=-1)
DOMAINS = {
    "positive": (3, lambda X: X > 0),
    "shares": (3, lambda X: (X >= 0) & (X <= 1)),
    "zeros and ones": (3, lambda X: (X == 0) | (X == 1)),
    "ranks": (3, lambda X: (X == X.round()) & (X > 0)),
    "of unit length": (3, lambda X: np.abs(LENGTH(X) - 1.0) < 1e-9),
    "within the ball": (3, lambda X: LENGTH(X) < 1.0),
    "on a hyperboloid": (3, lambda X: np.abs(X[:, 0] - np.hypot(1.0, LENGTH(X[:, 1:]))) < 1e-9),
    "definite": ((3, 3), lambda X: np.linalg.eigvalsh(X) > 0),
    "frames": ((4, 2), lambda X: np.abs(X.swapaxes(1, 2) @ X - np.eye(2)) < 1e-9),
}


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("mixes", [False, True])
def test_steps_that_take_some_numbers_only_are_tried_on_these(name, mixes):
    shape, belongs = DOMAINS[name]

    def picky(X):
        if not belongs(X).all():
            raise ValueError
        return X - X.mean(axis=0) if mixes else X

    (check,) = check_steps([FunctionTransformer(picky)], np.empty((0, *np.atleast_1d(shape))))
    assert check.tried and check.fine != mixes


def test_steps_of_all_candidates_are_tried(recording_accountant):
    functions = [None, np.tanh, MIXING_STEPS["centred"]]
    with pytest.raises(ValueError, match="row i must depend"):
        searched(FunctionTransformer(), recording_accountant, functiontransformer__func=functions)
    assert recording_accountant.spends == []


def test_the_step_that_mixes_is_named(recording_accountant):
    steps = [
        ("log", FunctionTransformer(np.log1p)),
        ("c", FunctionTransformer(MIXING_STEPS["centred"])),
    ]
    checks = check_steps([step for _, step in steps], np.abs(X))
    assert checks[0].fine and not checks[1].separate
    model = make_pipeline(*(step for _, step in steps), MEAN)
    with pytest.raises(ValueError, match="'functiontransformer-2': row i must"):
        PrivateGridSearchCV(model, {}, accountant=recording_accountant).fit(np.abs(X))
    assert recording_accountant.spends == []


def test_nothing_is_said_of_steps_where_other_columns_come_out():
    steps = [FunctionTransformer(np.tanh), FunctionTransformer(MIXING_STEPS["centred"])]
    assert not any(check.tried for check in check_steps(steps, X, width=X.shape[1] + 1))
    assert check_steps(steps, X, width=X.shape[1])[0].fine


def only_these(X):
    if X.shape != (N, 3):
        raise RuntimeError("other data")
    return X


def drawn(X):
    return X + np.random.default_rng().normal(size=X.shape)


@pytest.mark.parametrize(
    ("function", "words"), [(only_these, "nobody has checked"), (drawn, "must give the same rows")]
)
def test_what_cannot_be_tried_is_not_checked(function, words, recording_accountant):
    step = FunctionTransformer(function)
    with pytest.raises(ValueError, match=words):
        searched(step, recording_accountant)
    assert recording_accountant.spends == []
    report = reported(step)
    assert not report and not report.violations
    assert report.steps[0].status == NOT_CHECKED and "could not be checked" in str(report)


def test_records_that_a_step_leaves_out_for_themselves_are_missed_before_the_charge(
    recording_accountant,
):
    """No made-up row has that property, so only the number of rows shows it."""
    data = X.copy()
    data[7, 0] = 0.125
    with pytest.raises(ValueError, match="one row for each record"):
        searched(FunctionTransformer(lambda X: X[X[:, 0] != 0.125]), recording_accountant, data)
    assert recording_accountant.spends == []


def test_a_private_step_in_front_is_not_fitted_to_be_tried(recording_accountant):
    front = PrivateFrechetMean(radius=1.0, accountant=recording_accountant)
    with pytest.raises(TypeError, match="learns from the records"):
        searched(front, recording_accountant)
    with pytest.raises(TypeError, match="learns from the records"):
        searched(make_pipeline(front), recording_accountant)
    assert recording_accountant.spends == []


MATRICES = np.tile(np.eye(3), (N, 1, 1)) + 0.1 * np.einsum("ij,ik->ijk", X, X)
FRAMES = {"a": [1.0, 2.0], "b": [3.0, 4.0], "c": ["x", "y"]}


@pytest.mark.parametrize(
    ("step", "like", "fine"),
    [
        (FunctionTransformer(np.linalg.cholesky), MATRICES, True),
        (FunctionTransformer(lambda X: X / np.trace(X, axis1=1, axis2=2).mean()), MATRICES, False),
        (FunctionTransformer(lambda X: np.linalg.inv(X) - X.mean(axis=0)), MATRICES, False),
        (FunctionTransformer(lambda X: np.eye(9)[X % 9].reshape(len(X), -1)), X.astype(int), True),
        (FunctionTransformer(lambda X: X - X.min(axis=0)), X.astype(int), False),
        (HashingVectorizer(), ["one day", "two days"], True),
        (TfidfVectorizer(), ["one day", "two days"], False),
        (Normalizer(), sparse.csr_array((4, 5000)), True),
        (FunctionTransformer(lambda X: X / X.max()), sparse.csr_array((4, 5000)), False),
    ],
    ids=lambda value: str(value)[:30],
)
def test_steps_are_tried_on_tables_like_the_given_ones(step, like, fine):
    (check,) = check_steps([step], like)
    assert check.tried and check.fine == fine


def test_frames_keep_their_columns():
    pd = pytest.importorskip("pandas")
    numbers, mixed = pd.DataFrame(FRAMES)[["a", "b"]], pd.DataFrame(FRAMES)
    for like, function, fine in (
        (numbers, lambda frame: frame[["b"]], True),
        (numbers, lambda frame: frame[["b"]] - frame[["b"]].mean(), False),
        (mixed, lambda frame: frame[["a"]].astype(float), True),
        (mixed, lambda frame: frame[["c"]] == frame[["c"]].shift(1), False),
    ):
        (check,) = check_steps([FunctionTransformer(function)], like)
        assert check.tried and check.fine == fine
    rows = pd.DataFrame(X, columns=list("abc"))
    assert reported(FunctionTransformer(lambda frame: frame[["a", "b"]]), rows)
    assert not reported(FunctionTransformer(lambda frame: frame[["a", "b"]].rank()), rows)


def test_signals_that_become_covariances():
    estimation = pytest.importorskip("pyriemann.estimation")
    rng = np.random.default_rng(0)
    signals, labels = rng.normal(size=(60, 3, 30)), np.arange(60) % 2
    last = PrivateMinimumDistanceToMean(
        "spd", classes=[0, 1], center=np.eye(3), radius=1.0, epsilon=3.0
    )
    for function, fine in ((lambda X: 2.0 * X, True), (MIXING_STEPS["centred"], False)):
        model = make_pipeline(
            FunctionTransformer(function), estimation.Covariances("scm"), last
        ).fit(signals, labels)
        assert bool(privacy_report(model)) == fine
        assert privacy_report(model).steps[0].status == (STATELESS if fine else MIXES)
    model = make_pipeline(estimation.Covariances("scm"), last)
    assert PrivateGridSearchCV(model, {}).fit(signals, labels).privacy_spent_.unit == "record"


def test_rows_that_are_matrices_are_tried_as_such():
    """Of plain rows this would be the sum of all records."""
    model = make_pipeline(
        FunctionTransformer(lambda X: X + np.abs(X).sum(axis=(-2, -1), keepdims=True)),
        PrivateFrechetMean("spd", center=np.eye(MATRICES.shape[-1]), radius=1.0),
    )
    assert privacy_report(model.fit(MATRICES))


def test_parts_of_unions_are_tried():
    mix = FunctionTransformer(MIXING_STEPS["centred"])
    union = FeatureUnion([("same", Normalizer()), ("mean", mix)])
    columns = ColumnTransformer([("mean", mix, [0, 1]), ("same", Normalizer(), [2])])
    for step in (union, columns):
        found = {step.name: step.status for step in reported(step).steps}
        assert found["FunctionTransformer"] == MIXES and found["Normalizer"] == STATELESS


def test_steps_that_nobody_fitted_are_not_tried():
    report = privacy_report(make_pipeline(Quiet(), PrivateFrechetMean()))
    assert {step.status for step in report.steps} == {NOT_FITTED}


@pytest.mark.parametrize(
    ("step", "said"),
    [("products", "exact integers; floating-point losses"), ("exp", "exact integers")],
)
def test_a_search_behind_rows_that_round_by_their_company_is_not_exact(step, said):
    found = searched(
        FunctionTransformer(KEEPING_STEPS[step]), privatefrechetmean__radius=[0.5, 1.0]
    )
    assert found.privacy_spent_.public["arithmetic"].split(" that ")[0] == said


# -- lengths of tables -----------------------------------------------------------------------------


def mixing_from(least):
    """A function that mixes tables of so many rows and more, and passes on shorter ones."""
    return lambda X: X - X.mean(axis=0) if len(X) >= least else X


def mixing_up_to(most):
    return lambda X: X - X.mean(axis=0) if 1 < len(X) <= most else X


LENGTHS = (2, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 256)


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize("length", LENGTHS)
def test_steps_that_mix_from_some_length_on_are_found(length):
    """Up to the length of the tables that are tried, which is public."""
    step = FunctionTransformer(mixing_from(length))
    for width in (1, 3, 40):
        (check,) = check_steps([step], np.zeros((1000, width)))
        assert not check.fine, width
    among = np.zeros((1000, (1, 3, 40)[LENGTHS.index(length) % 3]))
    checks = check_steps([Binarizer(), step, Normalizer()], among)
    assert checks[0].fine and not checks[1].fine
    (check,) = check_steps([FunctionTransformer(mixing_from(10**9))], np.zeros((1000, 3)))
    assert check.fine


@pytest.mark.parametrize("length", [*LENGTHS, 257, 1000, 1024])
def test_gradients_that_mix_from_some_length_on_are_found(length):
    mix = mixing_from(length)
    with pytest.raises(ValueError, match="record i only"):
        PerSampleProblem("euclidean", None, (X, Y), gradient=lambda p, X, y: p - mix(X))


@pytest.mark.parametrize("length", [2, 3, 5, 7, 8, 17, 33, 129, 400])
def test_functions_that_mix_short_tables_only_are_found(length):
    """Batches may be short where the tables that are tried are long."""
    mix = mixing_up_to(length)
    with pytest.raises(ValueError, match="record i only"):
        PerSampleProblem("euclidean", None, (X, Y), gradient=lambda p, X, y: p - mix(X))
