"""Functions that mix records, or carry them along, are refused before anything is charged."""

import functools
import warnings

import numpy as np
import pytest

from skriemdp import PrivateFrechetMean, PrivateGridSearchCV, PrivateMinimumDistanceToMean
from skriemdp.descent.carried import check_per_sample
from skriemdp.descent.per_sample import CostProblem, HalfSquaredDistance, make_gradient
from skriemdp.descent.separate_rows import check_rows, pairs_of_batches
from skriemdp.erm import PrivateRiemannianERM
from skriemdp.geometry import SPD, Euclidean, Grassmann, Hyperboloid, Sphere
from skriemdp.ledger.accountant import PrivacyAccountant
from skriemdp.linear_model import PrivateNoisyAdaGrad
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


def test_what_refuses_made_up_records_is_warned_about():
    def gradient(point, X, y):
        if len(X) > 1:
            raise ZeroDivisionError
        return point - X

    with pytest.warns(UserWarning, match="ZeroDivisionError on made-up records"):
        PerSampleProblem("euclidean", None, X, gradient=gradient)


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


@pytest.fixture
def globals_with_data():
    HELD.rows, TABLE["rows"] = X.copy(), X.tolist()
    yield
    HELD.rows = None
    TABLE.clear()


@pytest.mark.parametrize("function", [uses_an_attribute, uses_a_dict, uses_a_helper])
def test_data_in_globals_are_found(function, globals_with_data):
    budget = PrivacyAccountant(epsilon=1.0)
    with pytest.raises(TypeError, match="gradient carries"):
        PrivateRiemannianERM(gradient=function, accountant=budget).fit(X)
    assert len(budget.history) == 0


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
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "delta=|n=60 records")
        model(classes=[0.0, 1.0]).fit(X, Y)
