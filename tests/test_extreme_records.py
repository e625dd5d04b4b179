"""Extreme records: no record crashes a fit after its charge, or makes what is released infinite."""

import functools
import math
import warnings

import numpy as np
import pytest
from conftest import GEOMETRIES, RecordingAccountant
from scipy import sparse
from sklearn.base import clone

from skriemdp import (
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    PrivateTangentPCA,
)
from skriemdp._completion.problem import LEAST_RIDGE, CompletionProblem
from skriemdp._core.estimator import Terms
from skriemdp._mean.planning import plan_mean
from skriemdp._mechanisms.bounded_sets import Outer
from skriemdp._mechanisms.sum import PLAIN_STEPS, integer_total
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import SPD, Euclidean, Grassmann, Hyperboloid, Sphere
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import GaussianEvent, PoissonSampledGaussianEvent

pytestmark = pytest.mark.filterwarnings("ignore")

ESTIMATORS = [
    PrivateFrechetMean(radius=1.0),
    PrivateFrechetMean(noise="gaussian", shrink=None, radius=1.0),
    PrivateFrechetMean(mechanism="gradient", radius=1.0),
    PrivateFrechetMean(center="private", radius="private"),
    PrivateFrechetMean(uncertainty=True),
    PrivateMinimumDistanceToMean(uncertainty=True),
    PrivateTangentPCA(1),
    PrivateFrechetMean(mechanism="laplace", radius=1.0),
    PrivateMinimumDistanceToMean(),
    PrivateGeodesicRegressor(),
    PrivateGeodesicRegressor(radius=1.0, feature_scale=1.0),
    PrivateHyperbolicRegressor(),
    PrivateHyperbolicRegressor("sufficient-statistics"),
    PrivateMatrixCompletion(),
    PrivateNoisyAdaGrad(),
    PrivateNoisyAdaGrad("squared_error"),
    PrivatePrincipalEigenvector(),
    PrivateRiemannianERM(),
]
SECRET = 31415.926


def records(estimator, n=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)) * 0.2
    X[3] = SECRET
    y = (X[:, 0] > 0).astype(int)
    manifold = (PrivateHyperbolicRegressor, PrivateGeodesicRegressor)
    return (X, X[:, :2]) if isinstance(estimator, manifold) else (X, y)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("value", [1e300, -1e300, 1e154, 5e-324, 0.0])
def test_one_extreme_record_changes_no_outcome(estimator, value):
    """No record can crash a fit after its charge, or make what is released infinite."""
    recorder = RecordingAccountant()
    X, y = records(estimator)
    X[3] = value
    if isinstance(estimator, (PrivateHyperbolicRegressor, PrivateGeodesicRegressor)):
        y = X[:, :2]
    model = clone(estimator).set_params(accountant=recorder).fit(X, y)
    assert len(recorder.spends) == 1
    for name, learned in vars(model).items():
        if isinstance(learned, np.ndarray) and learned.dtype.kind == "f":
            if name.endswith("covariances_"):  # of classes with a released member at least
                learned = learned[model.class_counts_ >= 1.0]
            # Infinite where no limit was asked for, or nothing of the slopes.
            constant = getattr(model, "is_constant_", False) and name == "coef_standard_error_"
            if name != "feature_limit_" and not constant:
                assert np.isfinite(learned).all(), name


@pytest.mark.parametrize("geometry", [SPD(2), Sphere(2), Hyperboloid(2)], ids=str)
@pytest.mark.parametrize("parameters", [{}, {"epsilon": 8.0}, {"mechanism": "gradient"}])
def test_one_far_point_changes_no_outcome(geometry, parameters):
    rng = np.random.default_rng(1)
    base = geometry.base_point
    X = geometry.exp_coordinates(base, 0.1 * rng.normal(size=(50, geometry.dim)))
    far = np.zeros(geometry.dim)
    far[0] = 3.0 if isinstance(geometry, Sphere) else 15.0
    X[0] = geometry.exp_coordinates(base, far)
    model = PrivateFrechetMean(
        geometry, **{"center": geometry.base_point, "radius": 0.5} | parameters
    ).fit(X)
    assert np.isfinite(model.mean_).all() and bool(geometry.belongs(model.mean_))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_nothing_learned_equals_a_record(estimator):
    X, y = records(estimator, n=60)
    model = clone(estimator).fit(X, y)
    secrets = {float(v) for v in X.ravel()}
    for name, learned in vars(model).items():
        if isinstance(learned, np.ndarray) and learned.dtype.kind == "f":
            assert not secrets & {float(v) for v in learned.ravel()}, name


SMALL = np.eye(3) * 1e-12  # covariances in squared volts
LONE = [
    # (manifold, records, centre, one record whose logarithm overflows)
    ("spd", np.eye(2), np.eye(2), np.eye(2) * 1e308),
    ("spd", np.eye(2), np.eye(2), np.diag([1e-310, 1e8])),
    ("spd", SMALL, SMALL, np.diag([1e308, 1.0, 1e-300])),
    ("spd-log-euclidean", np.eye(2), np.eye(2), np.eye(2) * 1e308),
    ("euclidean", np.zeros(3), np.full(3, -1.5e308), np.full(3, 1.5e308)),
]


@pytest.mark.parametrize("settings", [{}, {"mechanism": "gradient"}, {"epsilon": 8.0}])
@pytest.mark.parametrize("case", LONE, ids=lambda case: case[0])
def test_a_record_out_of_range_spoils_no_mean(case, settings):
    # A release of NaN, or an exception after the charge, would tell that the record is there.
    manifold, usual, center, lone = case
    X = np.stack([usual] * 60)
    X[0] = lone
    recorder = RecordingAccountant()
    settings = {"epsilon": 2.0} | settings
    model = PrivateFrechetMean(manifold, center, 1.0, accountant=recorder, **settings)
    assert np.isfinite(model.fit(X).mean_).all()
    assert len(recorder.spends) == 1
    model = PrivateMinimumDistanceToMean(manifold, center, classes=[0, 1], accountant=recorder)
    assert np.isfinite(model.fit(X, np.arange(60) % 2).means_).all()


def test_a_record_out_of_range_spoils_no_search():
    for usual, lone in [(np.eye(2), np.eye(2) * 1e308), (np.eye(3), np.diag([1e308, 1, 1e-300]))]:
        X = np.stack([usual] * 60)
        X[0] = lone
        model = PrivateFrechetMean(
            "spd", "private", "private", epsilon=3.0, accountant=RecordingAccountant()
        )
        assert np.isfinite(model.fit(X).mean_).all()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("size", [1e200, 1e-320])
def test_no_floating_point_warning_tells_of_a_record(estimator, size):
    X, y = records(estimator)
    X[3] = size  # a regressor's labels share the memory of X
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn", under="raise"):
        warnings.simplefilter("always")
        clone(estimator).set_params(accountant=RecordingAccountant(), epsilon=2.0).fit(X, y)
    assert not [w for w in caught if issubclass(w.category, RuntimeWarning)]


@pytest.mark.parametrize("narrow", [np.float16, np.float32])
def test_narrow_numpy_numbers_round_nothing_to_the_public_side(narrow):
    x = narrow(3.3)
    assert PoissonSampledGaussianEvent(0.01, x, 100).gdp_bound == 10.0 / float(x)
    assert GaussianEvent(2.0, np.int8(100)).repeated(3).mu == GaussianEvent(2.0, 300).mu
    for epsilon in (narrow(0.7), narrow(1.0)):
        assert gaussian_mu.__wrapped__(epsilon, 1e-5) == gaussian_mu(float(epsilon), 1e-5)
        budget = plan_mean(Euclidean(2), 100, epsilon, 0.0, mechanism="tangent")
        assert budget.count + 1.0 / budget.law.scale_over_sensitivity <= float(epsilon)
    model = PrivateHyperbolicRegressor(clip_norm=narrow(0.5), n_frequencies=4)
    terms = Terms(1.0, 1e-5)
    facts = {"geometry": Hyperboloid(2), "n": 40_000_000, "d": 2, "flat": False}
    facts["space"] = None
    sigma = model._plan(facts, terms).settings.model.sigma
    assert sigma >= 2 * 0.5 / 40_000_000 / gaussian_mu(1.0, 1e-5)


TINY = [
    PrivateFrechetMean(radius=1e-170),
    PrivateFrechetMean(mechanism="gradient", clip_norm=1e-170, radius=1.0),
    PrivateMinimumDistanceToMean(radius=1e-170),
    PrivateHyperbolicRegressor(radius=1e-170),
    PrivateHyperbolicRegressor(clip_norm=1e-170),
    PrivateNoisyAdaGrad(feature_norm=1e-170),
    PrivatePrincipalEigenvector(row_norm=1e-80),
    PrivateRiemannianERM(clip_norm=1e-170),
]


@pytest.mark.parametrize("estimator", TINY, ids=str)
def test_bounds_whose_squares_underflow_are_refused(estimator):
    # With feature_norm=1e-170 a row of norm 1e-162 had length zero, so it was scaled to 1e8.
    recorder = RecordingAccountant()
    with pytest.raises(ValueError, match=r"between 1e-60 and 1e\+60"):
        clone(estimator).set_params(accountant=recorder).fit(*records(estimator))
    assert not recorder.spends


def test_a_radius_that_underflows_in_curvature_radii_is_refused():
    space = Hyperboloid(2, curvature=-1e-99)
    with pytest.raises(ValueError, match=r"between 1e-60 and 1e\+60"):
        PrivateHyperbolicRegressor(manifold=space, radius=1e-30).plan(40, 4, y_shape=3)


def test_the_clip_holds_for_nearly_singular_regressions():
    # With a ridge of 1e-14 a user's contribution was 40 times the clip norm.
    rng = np.random.default_rng(0)
    d, rank, worst = 40, 4, 0.0
    for _ in range(150):
        frame = Grassmann(d, rank).random_point(rng)
        m = rng.integers(1, 8)
        frame[:m] = rng.normal(size=rank) + rng.normal(size=(m, rank)) * 10.0 ** rng.uniform(-17, 0)
        frame, _ = np.linalg.qr(frame)
        entries = (rng.uniform(-1, 1, size=m), (np.zeros(m, dtype=int), np.arange(m)))
        problem = CompletionProblem(sparse.csr_array(entries, shape=(1, d)), rank, LEAST_RIDGE)
        clip = 10.0 ** rng.uniform(-6, 0)
        bounded_set = Outer(clip, d, rank)
        total = integer_total(problem.units(), problem.products(frame), bounded_set, PLAIN_STEPS)
        square = sum(int(x) ** 2 for x in total.ravel())
        assert square <= (PLAIN_STEPS // 2) ** 2
        worst = max(worst, 2.0 * math.sqrt(square) / PLAIN_STEPS)
    assert worst > 0.9


def test_wide_balls_are_left_at_their_centre_only(mechanism="gradient"):
    X = np.exp(np.random.default_rng(4).normal(size=(60, 2)))[:, :, None] * np.eye(2)
    ledger = RecordingAccountant()
    wide = PrivateFrechetMean("spd", center=np.eye(2), radius=15.0, epsilon=8.0, accountant=ledger)
    with pytest.raises(ValueError, match=f"radius=15 is above 14.14.*{mechanism}"):
        clone(wide).set_params(mechanism=mechanism).fit(X)
    with pytest.raises(ValueError, match="radius=15 is above 14.14"):
        FederatedEstimator(wide, 2, 2).fit(X, clients=np.arange(60) % 2)
    assert not ledger.spends
    assert clone(wide).fit(X).mechanism_ == "tangent"
    searched = clone(wide).set_params(mechanism=mechanism, radius="private", random_state=0)
    assert searched.fit(X).mechanism_ == mechanism and searched.radius_ < 14.0
    far = np.diag([np.exp(30.0), 1.0]) * np.ones((60, 1, 1))
    far[::2] = np.diag([1.0, np.exp(30.0)])
    assert searched.fit(far).mechanism_ == "tangent" and searched.radius_ > 14.2


@pytest.mark.parametrize("unit", ["record", "client"])
def test_no_floating_point_warning_tells_of_a_clients_record(unit):
    X = np.full((24, 2), 0.1)
    X[3] = 1e200
    mean = PrivateFrechetMean(epsilon=2.0, accountant=RecordingAccountant(), radius=1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = FederatedEstimator(mean, 2, 2, unit=unit).fit(X, clients=np.arange(24) % 4)
    assert np.isfinite(model.point_).all()
    assert not [w for w in caught if issubclass(w.category, RuntimeWarning)]


def test_centres_where_coordinates_lose_their_digits_are_refused():
    # At distance 30, rounding moved the mean of 2000 records by a tenth of what a record may.
    space, recorder = Hyperboloid(2), RecordingAccountant()
    for distance, allowed in [(16.0, True), (18.0, False)]:
        center = space.exp_coordinates(space.base_point, np.array([distance, 0.0]))
        model = PrivateFrechetMean("hyperboloid", center, accountant=recorder, radius=1.0)
        X = np.stack([center] * 20)
        if allowed:
            model.fit(X)
        else:
            with pytest.raises(ValueError, match="lost their digits"):
                model.fit(X)
    assert len(recorder.spends) == 1


@pytest.mark.parametrize(
    "estimator",
    [PrivateFrechetMean(radius=1.0), PrivatePrincipalEigenvector(), PrivateNoisyAdaGrad()],
    ids=str,
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_numpy_does_not_warn_of_huge_queries(estimator):
    X, y = records(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = clone(estimator).fit(X, y)
    method = model.transform if hasattr(model, "transform") else model.predict
    assert len(method(np.full((2, 4), 1e308))) == 2
    model.score(np.full((2, 4), 1e308), [0, 1])


# -- extreme bounds -------------------------------------------------------------------------------


def fits_in_a_ball(geometry):
    """Estimators of a public ball, each with what it is fitted with, as a function of points."""
    labels, columns = np.arange(30) % 2, np.random.default_rng(1).normal(size=(30, 2))
    mean = functools.partial(PrivateFrechetMean, geometry)
    yield functools.partial(mean, shrink=None), lambda X: (X,)
    yield functools.partial(mean, uncertainty=True), lambda X: (X,)
    yield functools.partial(mean, statistic="median"), lambda X: (X,)
    classes = functools.partial(PrivateMinimumDistanceToMean, geometry, classes=[0, 1])
    yield functools.partial(classes, uncertainty=True), lambda X: (X, labels)
    yield functools.partial(PrivateTangentPCA, 1, geometry), lambda X: (X,)
    yield functools.partial(PrivateGeodesicRegressor, geometry), lambda X: (columns, X)


@pytest.mark.mostly_slow(5)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("radius", [1e-60, 1e3, 1e13, 1e60])
@pytest.mark.parametrize("epsilon", [1e-4, 1.0])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=repr)
def test_no_public_radius_loses_a_charge(geometry, epsilon, radius):
    steps = 0.2 * np.random.default_rng(0).normal(size=(30, geometry.dim))
    X = np.asarray(geometry.exp_coordinates(geometry.base_point, steps))
    for make, given in fits_in_a_ball(geometry):
        recorder = RecordingAccountant()
        model = make(radius=radius, epsilon=epsilon, accountant=recorder)
        try:
            with np.errstate(all="ignore"):
                model.fit(*given(X))
        except ValueError:
            assert not recorder.spends
        else:
            assert len(recorder.spends) == 1


@pytest.mark.filterwarnings("ignore")
def test_the_length_of_noise_that_no_float_holds_is_infinite():
    X = np.tile(Hyperboloid(2).base_point, (30, 1))
    mean = PrivateFrechetMean(Hyperboloid(2), radius=1e13, shrink=None).fit(X)
    assert mean.noise_radius(0.95) == math.inf
