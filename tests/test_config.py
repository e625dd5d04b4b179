"""Limits, by which a fit is refused before its charge, and the settings that move them."""

import re
import threading
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

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
from skriemdp._validation import check_fraction
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import PymanoptGeometry

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)) * 0.2
Y = (X[:, 0] > 0).astype(int)


def data(estimator):
    if isinstance(estimator, (PrivateHyperbolicRegressor, PrivateGeodesicRegressor)):
        return X, X[:, :2]
    if getattr(estimator, "loss", None) in ("squared_error", "huber"):
        return X, X[:, 0]
    return X, Y


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
    (PrivatePrincipalEigenvector(epsilon=1e-200, delta=0.0), None, "epsilon"),
    (PrivatePrincipalEigenvector(epsilon=1e-12, delta=1e-13), None, "larger epsilon"),
    (PrivatePrincipalEigenvector(epsilon=1e200, delta=0.0), None, "protects nobody"),
    (PrivateFrechetMean(delta=1e-320), None, "delta=.* larger delta"),
    (PrivateFrechetMean(center="private", radius=1e-320), None, "radius"),
    (
        PrivateGridSearchCV(PrivatePrincipalEigenvector(), {"n_components": [1]}),
        [X, X],
        "list of tables",
    ),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_cannot_be_done_is_refused_before_the_charge(case, recording_accountant):
    estimator, table, words = REFUSED[case]
    estimator = clone(estimator).set_params(accountant=recording_accountant)
    records, targets = data(estimator)
    if table is not None:
        records, targets = table, targets[: getattr(table, "shape", (60,))[0]]
    clients = {"clients": np.arange(60) % 2} if isinstance(estimator, FederatedEstimator) else {}
    tracemalloc.start()
    try:
        with pytest.raises((ValueError, TypeError), match=words):
            estimator.fit(records, targets, **clients)
        assert tracemalloc.get_traced_memory()[1] < 2**30
    finally:
        tracemalloc.stop()
    assert not recording_accountant.spends


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


def test_wide_foreign_manifolds_are_refused():
    manifolds = pytest.importorskip("pymanopt.manifolds")
    with pytest.raises(ValueError, match="above the limit"):
        PymanoptGeometry(manifolds.Oblique(30_000, 2))


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


@pytest.mark.parametrize("open_left", [True, False])
@pytest.mark.parametrize("open_right", [True, False])
def test_a_range_is_quoted_with_the_brackets_of_its_ends(open_left, open_right):
    words = f"share must lie in {'[('[open_left]}0, 1{'])'[open_right]}, got 2.0."
    with pytest.raises(ValueError, match=re.escape(words)):
        check_fraction(open_left=open_left, open_right=open_right, share=2.0)
