"""Second moments and outer products in integers: bounds in Python integers, and whole fits."""

import functools

import numpy as np
import pytest
from replay.tape import Pair
from scipy import sparse
from threadpoolctl import threadpool_limits

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
    PrivateTangentClassifier,
    PrivateTangentPCA,
)
from skriemdp._core.arithmetic import INTEGERS, MATRIX, PLAIN
from skriemdp._location_scale.rows import Rows
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.bounded_sets import Moment, Outer
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._mechanisms.discrete_gaussian import discrete_gaussian
from skriemdp._mechanisms.sum import integer_total
from skriemdp._mechanisms.units import Units
from skriemdp._pca.search_releases import Bounds
from skriemdp.federated import FederatedEstimator

MULTIPLIERS = [2.0**-9, 0.3, 7.7, 1000.0]


# -- sums ---------------------------------------------------------------------------------------


def totals(X, residuals, mu):
    """Integer sums of ``z z'`` and of ``a b'``."""
    moment, outer = Moment(2.0, X.shape[1]), Outer(1.0, X.shape[1], 2)
    return (
        integer_total(Units((X,)), lambda z: z, moment, moment.check(mu)),
        integer_total(Units((X, residuals)), lambda a, b: (a, b), outer, outer.check(mu)),
    )


@pytest.mark.parametrize("mu", [2.0**9, 1.0])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_sums_do_not_depend_on_order(mu, convert):
    rng = np.random.default_rng(0)
    X, residuals = rng.normal(size=(500, 4)), rng.normal(size=(500, 2))
    truth, order = totals(X, residuals, mu), rng.permutation(500)
    for one, other in zip(totals(convert(X[order]), residuals[order], mu), truth, strict=True):
        assert (one == other).all()


@pytest.mark.parametrize("threads", [2, 5])
def test_sums_do_not_depend_on_the_threads_of_the_matrix_library(threads):
    """Products large enough to be shared among threads, which add in another order then."""
    rng = np.random.default_rng(0)
    X, residuals = rng.normal(size=(1500, 160)), rng.normal(size=(1500, 2))
    with threadpool_limits(1):
        truth = totals(X, residuals, 1.0)
    with threadpool_limits(threads):
        found = totals(X, residuals, 1.0)
    for one, other in zip(found, truth, strict=True):
        assert (one == other).all()


@pytest.mark.parametrize("mechanism", ["covariance", "refine", "power", "gradient"])
def test_exact_fits_of_sparse_and_streamed_tables_equal_dense_ones(mechanism):
    """The same integers, whatever holds the rows: bitwise equal, with the same noise."""
    X = sparse.random(400, 6, 0.5, format="csr", random_state=0)
    tables = X.toarray(), X, [X[:170], X[170:].toarray()]
    found = []
    for table in tables:
        rng = np.random.default_rng(1)
        release = PrivatePrincipalEigenvector(2, mechanism=mechanism)._release_of(mechanism)
        center = np.linspace(-0.1, 0.1, 6)
        bounds = Bounds(Rows(table, 400, 6), center, 0.9, center)
        streams = functools.partial(lambda rng, *label: rng, rng)
        found.append(release.release(bounds, GaussianBudget(1.0), streams))
    for other in found[1:]:
        assert (other.components == found[0].components).all()
        assert (other.variances == found[0].variances).all()


# -- whole fits ---------------------------------------------------------------------------------


def fitted(kind, *arguments, **settings):
    def fit(accountant, *data):
        return kind(*arguments, **settings, accountant=accountant).fit(*data)

    return fit


def changed(X, *values):
    copies = [np.array(X, dtype=float) for _ in values]
    for copy, value in zip(copies, values, strict=True):
        copy[0] = value
    return copies


def neighbours():
    zeros = np.zeros((40, 3))
    spread = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 0.5, 0.2]
    pca = functools.partial(fitted, PrivatePrincipalEigenvector, mechanism="covariance")
    for kind, convert in (("dense", np.asarray), ("sparse", sparse.csr_array)):
        data = [(convert(x),) for x in changed(zeros, [3.0, 0, 0], [0, 1.0, 0])]
        yield Pair(f"pca {kind}", pca(row_norm=1.0, center="assume"), *data, 0.95)
    data = [(x,) for x in changed(spread, [1e200, 0, 0], [0, -1e-120, 0])]
    yield Pair("pca searched", pca(), *data)
    data = [(x,) for x in changed(spread, [9.0, 0, 0], [-9.0, 0, 0])]
    yield Pair("pca far", pca(row_norm=1.0), *data, quiet=False)
    for k, convert in ((1, np.asarray), (2, sparse.csr_array), (3, lambda x: [x[:17], x[17:]])):
        data = [(convert(x),) for x in changed(spread, [3.0, 0, 0], [0, 1.0, 0])]
        far = [(convert(x),) for x in changed(spread, [1e200, 0, 0], [0, -1e-120, 0])]
        for mechanism in ("refine", "power", "gradient"):
            if mechanism == "gradient" and k == 3:
                continue
            settings = {} if mechanism == "refine" else {"n_steps": 2}
            pca = functools.partial(fitted, PrivatePrincipalEigenvector, k, mechanism=mechanism)
            yield Pair(
                f"pca {mechanism} {k}", pca(row_norm=1.0, center="assume", **settings), *data
            )
            yield Pair(f"pca {mechanism} {k} searched", pca(**settings), *far, quiet=False)
    ends = [(x,) for x in changed(spread, [1e9, 0, 0], [0, 1e9, 0])]
    pairs = fitted(PrivatePrincipalEigenvector, epsilon=1.5)
    yield Pair("pca pairs", pairs, *ends, 0.8)
    X, y = np.zeros((30, 2)), np.zeros(30)
    X[:, 1] = 0.3
    rows, targets = changed(X, [1.0, 0], [1.0, 0]), changed(y, 1.0, -1.0)
    known = {"target_range": (-1.0, 1.0), "n_steps": 4}
    adagrad = functools.partial(fitted, PrivateNoisyAdaGrad, "squared_error", **known)
    data = (rows[0], targets[0]), (rows[1], targets[1])
    for name in ("noised", "diagonal", "norm", "none"):
        yield Pair(f"adagrad {name}", adagrad(name, fit_intercept=False), *data, 0.75)
    yield Pair("adagrad intercept", adagrad("norm"), *data, 0.2, quiet=False)
    axis = np.array([[1.0], [0.0]])
    yield Pair("adagrad subspace", adagrad("noised", subspace=axis), *data, 0.5)
    yield Pair("adagrad moving", adagrad("noised", subspace=lambda step: axis), *data, 0.5)
    sizes = (changed(X, [1e200, 1e200])[0], y), (changed(X, [1e-120, 0])[0], targets[0] * 1e200)
    yield Pair("adagrad extremes", adagrad("norm"), *sizes)
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 2)), 0.1 * rng.normal(size=(30, 2))
    X[0] = 0.0
    ends = changed(y, [5.0, 0], [-5.0, 0])
    data = (X, ends[0]), (X, ends[1])
    regress = functools.partial(
        fitted, PrivateHyperbolicRegressor, n_frequencies=8, n_steps=4, feature_scale=1.0
    )
    yield Pair("regression", regress(base_point=[0.0, 0.0]), *data, 0.95)
    yield Pair("regression, private base", regress(), *data, 0.5)
    sizes = (X, ends[0]), (changed(X, [1e200, -1e200])[0], changed(y, [1e200, 1e-120])[0])
    yield Pair("regression extremes", regress(), *sizes, quiet=False)


@pytest.mark.parametrize("pair", list(neighbours()), ids=lambda pair: pair.name)
def test_neighbours_of_exact_fits_stay_within_their_integers(pair):
    tape = pair.run()
    assert {law for draw in tape.draws for law in draw.law} == {"discrete-gaussian"}
    share = tape.attained(pair.mine)
    assert share >= pair.attains, f"attains {share:.3f} of what is charged"


# -- low bits -----------------------------------------------------------------------------------


def low_bits(monkeypatch, fit, *data, least=64):
    """How often each value of the last three bits occurs, over all noisy integers of some fits."""
    counts, draw, fits = np.zeros(8, dtype=int), noise.draw, 0

    def watched(*arguments, **settings):
        noisy = draw(*arguments, **settings)
        assert arguments[2] == "discrete-gaussian"
        counts[:] += np.bincount([int(v) % 8 for v in np.ravel(noisy)], minlength=8)
        return noisy

    with monkeypatch.context() as patch:
        patch.setattr(noise, "draw", watched)
        while counts.sum() < least:
            fits += 1
            done = fit.set_params(accountant=PrivacyAccountant()).fit(*data)
            if getattr(done, "mechanism", "") == "per-query":
                done.predict(np.zeros((1, 3)))
            assert counts.sum() >= fits // 20, "fits that draw nothing"
    return counts


def unlike(first, second):
    """Chi-squared distance of two rows of counts; above 50 with a chance below 1e-7 if alike."""
    counts = np.array([first, second], dtype=float)
    shares = (counts.sum(axis=0) + 1e-9) / counts.sum()
    expected = counts.sum(axis=1, keepdims=True) * shares
    return float(((counts - expected) ** 2 / expected).sum())


def attacked_fits():
    """Models, and data of which one record is somewhere else in the second set."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 3))
    far = (rows, changed(rows, [7.0, 0.0, -3.0])[0])
    pca = PrivatePrincipalEigenvector
    yield "covariance", pca(mechanism="covariance"), far, ()
    yield "pairs", pca(mechanism="covariance", epsilon=1.5), far, ()
    yield "refine", pca(2, mechanism="refine"), far, ()
    yield "power", pca(mechanism="power", n_steps=2), far, ()
    yield "gradient", pca(mechanism="gradient", n_steps=2), far, ()
    ball = 0.3 * rows, changed(0.3 * rows, [-0.9, 0.0, 0.3])[0]
    yield "tangent components", PrivateTangentPCA(2, "euclidean", radius=1.0), ball, ()
    settings = {"radius": 1.0, "noise": "gaussian"}
    for way in (
        {"mechanism": "tangent"},
        {"mechanism": "gradient"},
        {"radius": "private", "epsilon": 8.0},
    ):
        yield f"mean {way}", PrivateFrechetMean(**settings | way), ball, ()
    labels = np.arange(30) % 2
    yield "class means", PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1]), ball, (labels,)
    linear = {"classes": [0, 1], "n_steps": 4}
    yield "linear model", PrivateNoisyAdaGrad(**linear), far, (labels,)
    yield "linear batches", PrivateNoisyAdaGrad(**linear, batch_size=10), far, (labels,)
    plane = 0.3 * rows[:, :2]
    for mechanism in ("parametric", "sufficient-statistics", "per-query"):
        steps = {"n_steps": 2} if mechanism != "sufficient-statistics" else {}
        model = PrivateHyperbolicRegressor(mechanism, n_frequencies=4, **steps)
        yield f"regression {mechanism}", model, far, (plane,)
    yield "geodesics", PrivateGeodesicRegressor(radius=1.0), ball, (0.3 * rows,)
    erm = {"n_steps": 4, "start": [0.0, 0.0, 0.0]}
    batch = erm | {"batch_size": 10}
    reduced = batch | {"solver": "variance-reduced", "smoothness": 1.0, "n_steps": 10}
    for name, way in {
        "all": erm,
        "poisson": batch,
        "fixed": batch | {"sampling": "fixed-size"},
        "variance-reduced": reduced,
    }.items():
        yield f"risk {name}", PrivateRiemannianERM("euclidean", gradient=offsets, **way), far, ()
    ratings = rng.integers(1, 6, size=(30, 12)) * (rng.random((30, 12)) < 0.5)
    other = changed(ratings, np.r_[5, 1, 5, 1, np.zeros(8)])[0]
    ratings = sparse.csr_array(ratings.astype(float)), sparse.csr_array(other)
    for mechanism in ("gradient", "covariance", "stochastic"):
        model = PrivateMatrixCompletion(2, mechanism=mechanism, epsilon=20.0, n_steps=5)
        yield f"completion {mechanism}", model, ratings, ()
    clients, inner = np.arange(30) % 3, PrivateFrechetMean(radius=1.0, epsilon=30.0)
    for name, way in {
        "steps": {},
        "sums": {"n_rounds": 1, "local": "statistic"},
        "svrg": {"local": "rsvrg", "batch_fraction": 0.5},
        "clients": {"unit": "client"},
    }.items():
        model = FederatedEstimator(inner, **{"n_rounds": 2, "clients_per_round": 2} | way)
        yield f"federated {name}", model, ball, (None, clients)
    grid = {"radius": [0.5, 1.0]}
    search = PrivateGridSearchCV(PrivateFrechetMean(noise="gaussian"), grid, mean_runs=2.0)
    yield "search", search, ball, ()


def offsets(point, X, y):
    return point - X


@pytest.mark.mostly_slow(2)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", list(attacked_fits()), ids=lambda case: case[0])
def test_low_bits_of_exact_fits_tell_nothing(monkeypatch, case):
    name, fit, tables, more = case
    counts = [low_bits(monkeypatch, fit, table, *more) for table in tables]
    assert unlike(*counts) < 50.0
    assert fit.privacy_spent_.public["arithmetic"] == "exact integers"


def test_low_bits_would_tell_of_noise_that_has_none(monkeypatch):
    coarse = lambda scale, rng, size: 8 * (discrete_gaussian(scale, rng, size) // 8)  # noqa: E731
    monkeypatch.setattr(noise, "discrete_gaussian", coarse)
    fit = PrivatePrincipalEigenvector(mechanism="covariance", row_norm=1.0, center="assume")
    X = np.random.default_rng(0).normal(size=(30, 3))
    far = X.copy()
    far[0] = [7.0, 0.0, -3.0]
    assert unlike(*(low_bits(monkeypatch, fit, data) for data in (X, far))) > 50.0


RNG = np.random.default_rng(1)
X = RNG.normal(size=(1000, 3))
LABELS, PLANE = (X[:, 0] > 0) * 1, 0.3 * X[:, :2]
LINEAR = PrivateNoisyAdaGrad(classes=[0, 1], n_steps=4)
CURVED = PrivateHyperbolicRegressor(n_frequencies=4, n_steps=3)
MOMENTS = PrivateHyperbolicRegressor("sufficient-statistics", n_frequencies=4)


@pytest.mark.parametrize(
    ("model", "y", "words"),
    [
        (LINEAR, LABELS, INTEGERS),
        (CURVED, PLANE, INTEGERS),
        (MOMENTS, PLANE, INTEGERS),
        (PrivateNoisyAdaGrad("hinge", "paper", classes=[0, 1]), LABELS, MATRIX),
        (PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1]), LABELS, INTEGERS),
        (PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1], delta=0.0), LABELS, PLAIN),
        (PrivateTangentClassifier(classes=[0, 1]), LABELS, INTEGERS),
    ],
    ids=str,
)
def test_arithmetic_is_stated(model, y, words):
    model.set_params(accountant=PrivacyAccountant()).fit(X, y)
    assert model.privacy_spent_.public["arithmetic"] == words


@pytest.mark.filterwarnings("ignore:the largest released eigenvalue")
def test_components_state_their_arithmetic_whatever_their_size():
    tall = RNG.normal(size=(20_000, 2))
    for settings, words in (
        ({}, INTEGERS),
        ({"mechanism": "power"}, INTEGERS),
        ({"mechanism": "gradient"}, INTEGERS),
        ({"delta": 0.0}, PLAIN),
    ):
        model = PrivatePrincipalEigenvector(**settings, accountant=PrivacyAccountant())
        for table in (X, tall, sparse.csr_array(X), [X, X]):
            assert model.fit(table).privacy_spent_.public["arithmetic"] == words
