"""Errors that show no record, limits before the charge, and the settings that move them."""

import ast
import contextlib
import importlib
import importlib.util
import inspect
import re
import threading
import tracemalloc
import types
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.covariance import shrunk_covariance
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import skriemdp
from skriemdp import (
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
    PrivateTangentPCA,
    config_context,
    get_config,
    set_config,
)
from skriemdp._quiet import quietly, read_records, stand_in
from skriemdp._validation import check_fraction
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import AffineInvariantSPD, PymanoptGeometry

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)) * 0.2
Y = (X[:, 0] > 0).astype(int)


def data(estimator):
    if isinstance(estimator, (PrivateHyperbolicRegressor, PrivateGeodesicRegressor)):
        return X, X[:, :2]
    if getattr(estimator, "loss", None) in ("squared_error", "huber"):
        return X, X[:, 0]
    return X, Y


@pytest.fixture
def counting():
    """An accountant that numbers its entries from 12 on."""

    class Counting:
        entries: list = []

        def __sklearn_clone__(self):
            return self

        def composes(self, epsilon, delta):
            return False

        def spend(self, event, **details):
            self.entries.append(event)
            return types.SimpleNamespace(entry=11 + len(self.entries), digest="", dataset="")

    accountant = Counting()
    accountant.entries = []
    return accountant


# -- errors show no record -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0).reshape(2, 3),
        np.array([["secret", "b"]]),
        np.array([[1 + 2j]]),
        np.array(["2024-01-01"], dtype="M8[D]"),
        np.array([[1, "secret"]], dtype=object),
        pd.DataFrame({"age": [41.5, 3.0], "name": ["secret", "b"]}),
        pd.Series([41.5], name="age"),
        sparse.csr_matrix([[41.5, 0.0]]),
        sparse.coo_array([[41.5, 0.0]]),
        [[41.5, 2.0]],
        "secret",
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_stand_in_has_the_shape_and_nothing_else(value):
    zeros = stand_in(value)
    assert np.shape(zeros) == np.shape(value)
    assert "41.5" not in repr(zeros) and "secret" not in repr(zeros)
    if hasattr(value, "columns"):
        assert list(zeros.columns) == ["age", "name"]
    if sparse.issparse(value):
        assert type(zeros) is type(value) and zeros.nnz == 0


def test_what_is_said_of_the_shape_survives():
    with pytest.raises(ValueError, match=r"Expected 2D array, got 1D array") as caught:
        PrivateFrechetMean(radius=1.0).fit(np.full(7, 41.5))
    assert "Reshape your data" in str(caught.value) and "array=" not in str(caught.value)
    model = PrivateFrechetMean(radius=1.0).fit(X)
    with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 4"):
        model.transform(X[:, :2])


@pytest.mark.parametrize(
    "entry, words",
    [
        ("carla@example.org", "holds text"),
        ({"carla": 41.5}, "holds text"),
        (np.nan, "contains NaN or infinity"),
        (np.inf, "contains NaN or infinity"),
    ],
    ids=str,
)
def test_an_odd_entry_is_not_quoted(entry, words, counting):
    odd = X.astype(object)
    odd[3, 0] = entry
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        PrivateFrechetMean(accountant=counting, radius=1.0).fit(odd)
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert "carla" not in str(caught.value) and not counting.entries
    if words.endswith("infinity"):  # n is public: it must not follow from what is missing
        assert "by public numbers. Do not leave such rows out" in str(caught.value)


def test_no_message_recommends_to_leave_records_out():
    advice = re.compile(r"(?i)leave such (rows|records) out, or|remove (what is|missing|or impute)")
    for path in Path(importlib.util.find_spec("skriemdp").origin).parent.rglob("*.py"):
        assert not advice.search(re.sub(r'"\s*f?"', "", path.read_text())), path


def named_in_messages(text):
    """Dotted names of this package in the sentences of a module; docstrings are no messages."""
    tree = ast.parse(text)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            if " " in node.value.strip():
                yield from re.findall(r"\bskriemdp(?:\.\w+)+", node.value)


def test_messages_recommend_public_names_that_exist():
    planted = 'raise E("use skriemdp._mean.f, or skriemdp.nothing")'
    assert list(named_in_messages(planted)) == ["skriemdp._mean.f", "skriemdp.nothing"]
    found = {
        n
        for path in Path(skriemdp.__file__).parent.rglob("*.py")
        for n in named_in_messages(path.read_text())
    }
    assert len(found) > 10
    for name in found:
        parts = name.split(".")
        assert not any(part.startswith("_") for part in parts), name
        value = skriemdp
        for k, part in enumerate(parts[1:], start=2):
            with contextlib.suppress(ImportError):
                importlib.import_module(".".join(parts[:k]))
            value = getattr(value, part)


@pytest.mark.parametrize("open_left", [True, False])
@pytest.mark.parametrize("open_right", [True, False])
def test_a_range_is_quoted_with_the_brackets_of_its_ends(open_left, open_right):
    words = f"share must lie in {'[('[open_left]}0, 1{'])'[open_right]}, got 2.0."
    with pytest.raises(ValueError, match=re.escape(words)):
        check_fraction(open_left=open_left, open_right=open_right, share=2.0)


def test_an_error_of_a_c_function_called_here_is_foreign():
    # float() has no frame of its own: the innermost frame is one of this package.
    with pytest.raises(ValueError) as caught:
        quietly(lambda value: float(value), "secret", names=("y",))
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "matrices, words",
    [
        (np.array([[2.0, 1.0], [0.5, 2.0]]), "not symmetric"),
        (np.array([[1.0, 1.0], [1.0, 1.0]]), "not positive definite"),
        (np.ones(3), r"points of 'spd' have shape"),
    ],
    ids=["skew", "singular", "size"],
)
def test_bad_covariances_get_three_sentences_and_no_counts(matrices, words):
    good = np.tile(np.eye(2), (20, 1, 1))
    bad = np.tile(matrices, (20,) + (1,) * matrices.ndim)
    if matrices.ndim == 2:
        bad[:15] = good[:15]
    with pytest.raises(ValueError, match=words) as caught:
        PrivateFrechetMean("spd", center=np.eye(2), radius=1.0).fit(bad)
    assert not re.search(r"\b(5|15|20)\b", str(caught.value))


def test_the_cure_for_singular_covariances_works():
    singular = np.tile(np.ones((2, 2)), (20, 1, 1))
    with pytest.raises(ValueError, match=r"sklearn\.covariance\.shrunk_covariance\(X, 0\.01\)"):
        PrivateFrechetMean("spd", center=np.eye(2), radius=5.0).fit(singular)
    cured = shrunk_covariance(singular, 0.01)
    assert PrivateFrechetMean("spd", center=np.eye(2), radius=5.0).fit(cured).mean_.shape == (2, 2)


def test_a_short_recording_with_a_dead_channel_is_cured_record_by_record():
    signals = np.random.default_rng(0).normal(size=(30, 6, 4))  # fewer samples than channels
    signals[:, 2] = 0.0
    covariances = signals @ signals.swapaxes(1, 2)
    model, y = (
        PrivateMinimumDistanceToMean("spd", center=np.eye(6), radius=5.0, classes=[0, 1]),
        [0, 1] * 15,
    )
    with pytest.raises(ValueError, match="fewer samples than channels"):
        model.fit(covariances, y)
    cured = shrunk_covariance(covariances, 0.01)
    alone = np.stack([shrunk_covariance(one, 0.01) for one in covariances])
    assert np.array_equal(cured, alone)
    assert model.fit(cured, y).means_.shape == (2, 6, 6)


@pytest.mark.parametrize("word", ["finite", "symmetric", "positive definite"])
def test_a_geometry_says_what_matrices_are_not(word):
    wrong = {"finite": np.inf, "symmetric": 0.5, "positive definite": 1.0}[word]
    matrix = np.array([[1.0, 1.0], [wrong, 1.0]])
    assert AffineInvariantSPD(2).complaint(matrix[None]) == word
    assert AffineInvariantSPD(2).complaint(np.eye(2)[None]) is None


def test_public_methods_keep_their_signatures():
    assert list(inspect.signature(PrivateNoisyAdaGrad.score).parameters) == [
        "self",
        "X",
        "y",
        "sample_weight",
    ]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        PrivateFrechetMean(radius=1.0).fit(X).predict()


@pytest.mark.parametrize(
    "estimator",
    [PrivateFrechetMean(radius=1.0), PrivatePrincipalEigenvector(), PrivateNoisyAdaGrad()],
    ids=str,
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_numpy_does_not_warn_of_huge_queries(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = clone(estimator).fit(X, Y)
    method = model.transform if hasattr(model, "transform") else model.predict
    assert len(method(np.full((2, 4), 1e308))) == 2
    model.score(np.full((2, 4), 1e308), [0, 1])


# -- after the charge ------------------------------------------------------------------------------


def test_an_error_after_the_charge_names_the_entry(counting, monkeypatch):
    def broken(self, data, plan, streams):
        raise ValueError(f"bad {data.arrays[0][0, 0]}")

    monkeypatch.setattr(PrivateFrechetMean, "_release", broken)
    with pytest.raises(ValueError) as caught:
        PrivateFrechetMean(accountant=counting, radius=1.0).fit(X)
    assert caught.value.__notes__ == [
        "entry 12 was charged before this error; nothing was released"
    ]
    assert str(X[0, 0]) not in str(caught.value) and len(counting.entries) == 1


def test_an_interrupt_passes_with_a_note(counting):
    def stop(step, point):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        PrivateRiemannianERM(callback=stop, accountant=counting, n_steps=3).fit(X)
    assert "entry 12" in caught.value.__notes__[0] and "callback" in caught.value.__notes__[0]


def test_a_users_own_exception_passes_with_a_note(counting):
    class Enough(Exception):
        pass

    def stop(step, point):
        raise Enough("at once")

    with pytest.raises(Enough, match="at once") as caught:
        PrivateRiemannianERM(callback=stop, accountant=counting, n_steps=3).fit(X)
    assert "entry 12" in caught.value.__notes__[0]


def test_a_stream_of_tables_of_one_row_is_fitted(counting):
    stream = [X[i : i + 1] for i in range(len(X))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = PrivatePrincipalEigenvector(accountant=counting).fit(stream)
    assert model.components_.shape == (1, 4) and len(counting.entries) == 1


def test_an_infinite_ridge_means_no_factors():
    ratings = sparse.csr_array(np.clip(RNG.integers(1, 6, (50, 6)), 1, 5).astype(float))
    model = PrivateMatrixCompletion(rank=0).fit(ratings)
    assert model.ridge_ == np.inf and model.rank_ == 0
    assert np.isfinite(model.transform(ratings)).all()


# -- limits before the charge ----------------------------------------------------------------------

LARGE = 10**400
WIDE = RNG.normal(size=(6, 60_000)) * 1e-3


def broken(part, value, place=3):
    matrix = sparse.csr_matrix(X)
    getattr(matrix, part)[place] = value
    return matrix


REFUSED = [
    (PrivateFrechetMean(mechanism="gradient", n_steps=10**9, radius=1.0), None, "n_steps"),
    (PrivatePrincipalEigenvector(mechanism="power", n_steps=10**9), None, "n_steps"),
    (PrivateMatrixCompletion(n_steps=10**9), None, "n_steps"),
    (PrivateNoisyAdaGrad(n_steps=LARGE), None, "n_steps"),
    (PrivateRiemannianERM(n_steps=10**5000), None, "n_steps"),
    (PrivateHyperbolicRegressor(n_frequencies=10**8), None, "n_frequencies"),
    (PrivateHyperbolicRegressor("per-query", n_queries=10**9), None, "n_queries"),
    (PrivateHyperbolicRegressor(length_scale=5e-324), None, "length_scale"),
    (PrivateHyperbolicRegressor(radius=20.5), None, "20 curvature radii"),
    (PrivateHyperbolicRegressor(feature_scale=LARGE), None, "feature_scale"),
    (
        PrivateHyperbolicRegressor("per-query", privacy_unit="label", ridge=1e-20),
        None,
        "ridge",
    ),
    (PrivateMinimumDistanceToMean(classes=range(10**7)), None, "classes"),
    (PrivateNoisyAdaGrad(classes=range(10**7)), None, "classes"),
    (PrivateNoisyAdaGrad(alpha=1e308, feature_norm=1.0), None, "alpha"),
    (PrivateNoisyAdaGrad("huber", target_range=(-1e308, 1e308)), None, "target_range"),
    (PrivateMatrixCompletion(bounds=(-1e308, 1e308)), None, "bounds"),
    (PrivateMatrixCompletion(public_seed="seed"), None, "public_seed"),
    (PrivatePrincipalEigenvector(public_seed=1.5), None, "public_seed"),
    (PrivateFrechetMean(random_state=10**5000, radius=1.0), None, "random_state"),
    (PrivateFrechetMean(epsilon=LARGE, radius=1.0), None, "epsilon"),
    (PrivateFrechetMean(noise="laplace", radius=1.0), WIDE, "noise='gaussian'"),
    (PrivateFrechetMean(delta=LARGE, radius=1.0), None, "delta"),
    (PrivatePrincipalEigenvector(mechanism="covariance"), WIDE, "60000"),
    (PrivatePrincipalEigenvector(delta=0.0), WIDE, "60000"),
    (PrivateMatrixCompletion(rank=50_000), WIDE, "rank=50000"),
    (PrivateMatrixCompletion(rank=2, mechanism="covariance"), WIDE, "60000"),
    (PrivateNoisyAdaGrad(public_X=WIDE), WIDE, "public_X"),
    *(
        (estimator, broken(part, value, place), "broken sparse")
        for estimator in (
            PrivatePrincipalEigenvector(),
            PrivateMatrixCompletion(),
            PrivateNoisyAdaGrad(),
        )
        for part, value, place in (
            ("indices", 10**6, 3),
            ("indices", -3, 3),
            ("indptr", 10**6, 3),
            ("indptr", -5, 3),
            ("indptr", -5, -1),  # "nothing is stored": SciPy checks no indices then
            ("indptr", 1, 0),
        )
    ),
    (
        PrivateGridSearchCV(
            PrivateFrechetMean(radius=1.0), {"epsilon": np.linspace(1, 2, 10**4 + 1)}
        ),
        None,
        "candidates",
    ),
    (PrivateGridSearchCV(PrivateFrechetMean(radius=1.0), {}, mean_runs=1e9), None, "mean_runs"),
    (FederatedEstimator(PrivateFrechetMean(radius=1.0), n_rounds=10**6), None, "n_rounds"),
    (FederatedEstimator(PrivateFrechetMean(radius=1.0), local_steps=10**9), None, "local_steps"),
    (
        FederatedEstimator(PrivateFrechetMean(radius=1.0), checkpoint=5, fit_id="a"),
        None,
        "checkpoint",
    ),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_cannot_be_done_is_refused_before_the_charge(case, counting):
    estimator, table, words = REFUSED[case]
    estimator = clone(estimator).set_params(accountant=counting)
    records, targets = data(estimator)
    if table is not None:
        records, targets = table, targets[: table.shape[0]]
    clients = {"clients": np.arange(60) % 2} if isinstance(estimator, FederatedEstimator) else {}
    tracemalloc.start()
    try:
        with pytest.raises((ValueError, TypeError), match=words):
            estimator.fit(records, targets, **clients)
        assert tracemalloc.get_traced_memory()[1] < 2**30
    finally:
        tracemalloc.stop()
    assert not counting.entries


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
def test_a_broken_sparse_matrix_is_refused_by_queries_too(form):
    model = PrivateNoisyAdaGrad().fit(X, Y)
    matrix = sparse.csr_array(X).asformat(form)
    (matrix.col if form == "coo" else matrix.indices)[0] = 10**7
    for query in (model.predict, model.decision_function, lambda rows: model.score(rows, Y)):
        with pytest.raises(ValueError, match="broken sparse"):
            query(matrix)


def test_entries_stored_twice_are_added_before_they_are_bounded():
    twice = sparse.csr_array((np.full(120, 0.1), np.repeat(0, 120), np.arange(0, 121, 2)))
    twice.has_canonical_format = True  # a flag that lies
    table = read_records(PrivatePrincipalEigenvector(), twice, accept_sparse="csr")
    assert table.nnz == 60 and (table.data == 0.2).all() and twice.nnz == 120


# -- settings --------------------------------------------------------------------------------------


def test_limits_are_settings():
    assert get_config()["sign_charges"] is False
    with config_context(most_steps=3, sign_charges=True):
        assert get_config()["most_steps"] == 3 and get_config()["sign_charges"] is True
        with config_context(most_steps=4):
            assert get_config()["sign_charges"] is True
        with pytest.raises(ValueError, match="n_steps=5 is above the limit of 3 steps"):
            PrivateNoisyAdaGrad(n_steps=5).fit(X, Y)
    assert PrivateNoisyAdaGrad(n_steps=5).fit(X, Y).n_iter_ == 5


def test_set_config_holds_in_every_thread_and_a_context_in_its_own():
    seen = []

    def look():
        seen.append((get_config()["most_rounds"], get_config()["most_runs"]))

    set_config(most_rounds=7)
    try:
        with config_context(most_runs=8):
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
            look()
    finally:
        set_config(most_rounds=10**5)
    assert seen == [(7, 10**5), (7, 8)]


@pytest.mark.filterwarnings("ignore")
def test_limits_belong_to_numbers_whoever_asks():
    """A plan, synthetic records, the edge of a region and parts of a budget fill no memory."""
    plane = PrivateFrechetMean("euclidean", uncertainty=True, radius=3.0, epsilon=9.0).fit(X[:, :2])
    components = PrivateTangentPCA(1, "euclidean", radius=3.0).fit(X)
    classes = PrivateMinimumDistanceToMean(
        "euclidean", classes=[0, 1], radius=3.0, uncertainty=True, epsilon=9.0
    ).fit(X, Y)
    huge = 10**9
    asked = {
        "n_classes": [
            lambda model=model: model.plan(1000, 3, n_classes=huge)
            for model in (PrivateMinimumDistanceToMean("euclidean"), PrivateNoisyAdaGrad())
        ],
        "shape": [
            lambda: PrivateFrechetMean("euclidean").plan(1000, huge),
            lambda: PrivateFrechetMean("spd").plan(1000, (10**5, 10**5)),
        ],
        "n=1000000000": [
            lambda: plane.sample(huge),
            lambda: components.sample(huge),
            lambda: classes.sample(huge),
            lambda: plane.inference_.region().boundary(huge),
        ],
        "parts": [
            lambda: PrivacyAccountant(epsilon=1.0).split(huge),
            lambda: PrivacyAccountant(epsilon=1.0).split(range(1, 10**5)),
        ],
    }
    for words, calls in asked.items():
        for call in calls:
            with pytest.raises(ValueError, match=words) as refused:
                call()
            assert str(refused.value).endswith(".")
    with config_context(most_bytes=1000), pytest.raises(ValueError, match="most_bytes"):
        plane.sample(100)
    assert plane.sample(100).shape == (100, 2)


@pytest.mark.parametrize(
    "setting, error",
    [
        ({"most_steps": 0}, ValueError),
        ({"most_steps": "many"}, TypeError),
        ({"most_steps": True}, TypeError),
        ({"most_bytes": float("nan")}, ValueError),
        ({"local_file_systems": "virtiofs"}, TypeError),
        ({"local_file_systems": [1]}, TypeError),
        ({"local_file_systems": 1}, TypeError),
        ({"sign_charges": "yes"}, ValueError),
        ({"sign_charges": None}, ValueError),
        ({"arithmetic": "auto"}, TypeError),
        ({"most_step": 3}, TypeError),
    ],
    ids=str,
)
def test_bad_settings_change_nothing(setting, error):
    before = get_config()
    with pytest.raises(error, match=next(iter(setting))):
        set_config(most_runs=5, **setting)
    with pytest.raises(error), config_context(**setting):
        pass
    assert get_config() == before


# -- weights and routing ---------------------------------------------------------------------------


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
    rows, targets = data(getattr(estimator, "estimator", estimator))
    model = clone(estimator).fit(rows, targets)
    weight = 1.0 + (np.arange(60) < 20)
    twice = np.repeat(np.arange(60), weight.astype(int))
    expected = model.score(rows[twice], targets[twice])
    assert model.score(rows, targets, sample_weight=weight) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("weight", [np.full(60, -1.0), np.ones(59), np.full(60, np.nan)], ids=str)
def test_bad_weights_are_named(weight):
    model = PrivateNoisyAdaGrad().fit(X, Y)
    with pytest.raises(ValueError, match="sample_weight"):
        model.score(X, Y, sample_weight=weight)


def test_weights_are_routed_through_pipelines_and_searches():
    weight = 1.0 + (np.arange(60) < 20)
    with sklearn.config_context(enable_metadata_routing=True):
        model = PrivateNoisyAdaGrad(n_steps=5).set_score_request(sample_weight=True)
        pipeline = make_pipeline(Normalizer(), model).fit(X, Y)
        expected = np.average(pipeline.predict(X) == Y, weights=weight)
        assert pipeline.score(X, Y, sample_weight=weight) == pytest.approx(expected)
        search = GridSearchCV(
            make_pipeline(Normalizer(), model).set_score_request(sample_weight=True),
            {"privatenoisyadagrad__alpha": [0.0, 0.1]},
            cv=KFold(3),
            error_score="raise",
        )
        search.fit(X, Y, sample_weight=weight)
        expected = np.average(search.predict(X) == Y, weights=weight)
        assert search.score(X, Y, sample_weight=weight) == pytest.approx(expected)
        private = PrivateGridSearchCV(
            PrivateMinimumDistanceToMean(), {"radius": [1.0]}
        ).set_score_request(sample_weight=True)
        scores = cross_validate(private, X, Y, cv=KFold(3), params={"sample_weight": weight})
        assert np.isfinite(scores["test_score"]).all()


# -- pymanopt --------------------------------------------------------------------------------------


def test_points_of_foreign_manifolds_leave_numpys_generator_alone():
    manifolds = pytest.importorskip("pymanopt.manifolds")
    np.random.seed(5)
    expected = np.random.random(20_000)
    drawn, ready, done = [], threading.Event(), threading.Event()

    def draw():
        ready.set()
        while not done.is_set() or len(drawn) < 100:
            drawn.append(np.random.random())

    np.random.seed(5)
    thread = threading.Thread(target=draw)
    thread.start()
    ready.wait()
    first = [PymanoptGeometry(manifolds.Oblique(3, 2)).base_point for _ in range(3)]
    done.set()
    thread.join()
    count = min(len(drawn), len(expected))
    np.testing.assert_array_equal(drawn[:count], expected[:count])
    np.testing.assert_array_equal(first[0], first[1])
    assert manifolds.oblique.np is np


def test_wide_foreign_manifolds_are_refused():
    manifolds = pytest.importorskip("pymanopt.manifolds")
    with pytest.raises(ValueError, match="above the limit"):
        PymanoptGeometry(manifolds.Oblique(30_000, 2))


def test_all_settings_are_exported():
    assert {"config_context", "get_config", "set_config"} <= set(skriemdp.__all__)


@pytest.mark.parametrize(
    ("model", "X", "words"),
    [
        (PrivatePrincipalEigenvector(epsilon=1e-200, delta=0.0), np.ones((20, 3)), "epsilon"),
        (
            PrivatePrincipalEigenvector(epsilon=1e-12, delta=1e-13),
            np.ones((20, 3)),
            "larger epsilon",
        ),
        (
            PrivatePrincipalEigenvector(epsilon=1e200, delta=0.0),
            np.ones((20, 3)),
            "protects nobody",
        ),
        (PrivateFrechetMean(delta=1e-320), np.ones((20, 3)), "delta=.* larger delta"),
        (PrivateFrechetMean(center="private", radius=1e-320), np.ones((20, 3)), "radius"),
        (
            PrivateGridSearchCV(PrivatePrincipalEigenvector(), {"n_components": [1]}),
            [np.ones((20, 3)), np.ones((20, 3))],
            "list of tables",
        ),
    ],
    ids=[
        "tiny epsilon",
        "tiny mu",
        "huge epsilon",
        "tiny delta",
        "tiny radius",
        "search over a stream",
    ],
)
def test_what_cannot_end_well_is_refused_before_the_charge(model, X, words):
    budget = PrivacyAccountant(epsilon=10.0, delta=1e-3)
    with pytest.raises((ValueError, TypeError), match=words):
        model.set_params(accountant=budget).fit(X)
    assert len(budget.history) == 0
