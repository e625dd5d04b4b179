"""PrivateFrechetMean: what it promises to scikit-learn users and to attackers."""

import json
import pickle
import re
import warnings

import numpy as np
import pytest
from pymanopt.manifolds import SymmetricPositiveDefinite
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skriemdp import PrivateFrechetMean, frechet_mean
from skriemdp._descent.gradient_descent import RiemannianGradientDescent
from skriemdp._descent.problem import FrechetProblem
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.vector import GaussianNoise
from skriemdp.auditing import audit_scores
from skriemdp.datasets import digits_covariances, make_cloud
from skriemdp.geometry import SPD, GeodesicBall, Hyperboloid, Sphere
from skriemdp.privacy._calibration import gaussian_epsilon, gaussian_mu

CONFIDENCE = 1 - 1e-8
RNG = np.random.default_rng(0)
SPACES = [
    SPD(2),
    SPD(3),
    SPD(2, metric="log-euclidean"),
    SPD(2, metric="bures-wasserstein"),
    Hyperboloid(3),
    Sphere(4),
]


def cloud(geometry, n=200, radius=0.5, seed=0):
    return make_cloud(geometry, n, radius=radius, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("geometry", SPACES, ids=str)
@pytest.mark.parametrize("mechanism", ["auto", "tangent", "gradient"])
def test_large_budget_recovers_the_mean(geometry, mechanism):
    X = cloud(geometry, n=2000)
    model = PrivateFrechetMean(
        geometry, center=geometry.base_point, radius=0.5, mechanism=mechanism, epsilon=200.0
    ).fit(X)
    assert geometry.dist(model.mean_, frechet_mean(X, geometry)) < 0.02
    assert bool(geometry.belongs(model.mean_))


@pytest.mark.parametrize("geometry", SPACES, ids=str)
def test_more_budget_less_noise(geometry):
    X = cloud(geometry)
    scales = [
        PrivateFrechetMean(geometry, center=geometry.base_point, radius=0.5, epsilon=e)
        .fit(X)
        .noise_scale_
        for e in (0.1, 1.0, 10.0)
    ]
    assert scales[0] > scales[1] > scales[2] > 0


def test_matrix_and_flat_input_agree():
    X = cloud(SPD(3))
    model = PrivateFrechetMean("spd", random_state=0, center=np.eye(3), radius=1.0)
    matrix, flat = clone(model).fit(X), clone(model).fit(X.reshape(len(X), 9))
    np.testing.assert_array_equal(matrix.mean_, flat.mean_)
    assert flat.predict(X.reshape(-1, 9)).shape == (200, 9)
    assert matrix.predict(X).shape == X.shape
    coordinates = matrix.transform(X)
    assert coordinates.shape == (200, 6)
    np.testing.assert_allclose(matrix.inverse_transform(coordinates), X, atol=1e-9)
    np.testing.assert_allclose(flat.inverse_transform(coordinates), X.reshape(200, 9), atol=1e-9)


def test_pymanopt_manifold_is_accepted():
    X = cloud(SPD(2))
    ours = PrivateFrechetMean("spd", random_state=1, center=np.eye(2), radius=1.0).fit(X)
    theirs = PrivateFrechetMean(
        SymmetricPositiveDefinite(2), center=np.eye(2), random_state=1, radius=1.0
    ).fit(X)
    np.testing.assert_array_equal(ours.mean_, theirs.mean_)


def test_score_is_minus_the_mean_squared_distance():
    X = cloud(SPD(2))
    model = PrivateFrechetMean("spd", center=np.eye(2), radius=1.0).fit(X)
    expected = -np.mean(SPD(2).dist(model.mean_, X) ** 2)
    assert model.score(X) == pytest.approx(expected)


def test_privacy_statement():
    model = PrivateFrechetMean(
        "spd", noise="gaussian", epsilon=0.7, delta=1e-6, center=np.eye(2), radius=1.0
    )
    model.fit(cloud(SPD(2)))
    spent = model.privacy_spent_
    assert tuple(spent) == (0.7, 1e-6)
    assert spent.mu == pytest.approx(gaussian_mu(0.7, 1e-6), rel=1e-6)
    assert spent.event.epsilon(1e-6) <= 0.7
    assert (spent.unit, spent.guarantee, spent.neighboring) == ("record", "exact", "replace-one")
    assert json.loads(json.dumps(spent.to_dict()))["public"]["n"] == 200


def test_seeded_noise_repeats_and_is_declared_worthless():
    X = cloud(SPD(2))
    first, second = (
        PrivateFrechetMean("spd", random_state=5, center=np.eye(2), radius=1.0).fit(X)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.mean_, second.mean_)
    assert first.privacy_spent_.seeded and first.privacy_spent_.guarantee == "none (seeded)"


def test_unseeded_noise_is_fresh():
    X = cloud(SPD(2))
    a, b = (
        PrivateFrechetMean("spd", center=np.eye(2), radius=1.0, shrink=None).fit(X).mean_
        for _ in range(2)
    )
    assert not np.any(a == b)


def test_two_epsilons_with_one_seed_do_not_reveal_the_mean():
    """The linear combination that cancels a shared draw must not give the exact mean."""
    X = RNG.normal(size=(100, 2)) * 0.1
    exact = X.mean(axis=0)
    models = [PrivateFrechetMean(epsilon=e, random_state=3, radius=1.0).fit(X) for e in (0.5, 1.0)]
    (m1, s1), (m2, s2) = ((m.mean_, m.noise_scale_) for m in models)
    attack = (m1 * s2 - m2 * s1) / (s2 - s1)
    assert np.linalg.norm(attack - exact) > 1e-4


def test_far_points_are_projected_silently():
    """A tenth of the rows; the noise on that has a standard deviation of .0047."""
    X = cloud(SPD(2), n=4000)
    X[:400] = 1e6 * np.eye(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PrivateFrechetMean("spd", center=np.eye(2), radius=0.5, epsilon=10.0).fit(X)
    assert abs(model.clipped_fraction_ - 0.1) < 0.04
    assert SPD(2).dist(np.eye(2), model.mean_) <= 0.5 * (1 + 1e-9)


def test_a_ball_that_does_not_fit_is_reported_privately():
    X, _ = digits_covariances()
    with pytest.warns(UserWarning, match="private estimate"):
        model = PrivateFrechetMean("spd", epsilon=3.0, center=np.eye(5), radius=1.0).fit(X)
    assert model.clipped_fraction_ > 0.9


def test_pipeline_clone_grid_search():
    X = cloud(SPD(2), n=120)
    pipeline = make_pipeline(
        FunctionTransformer(), PrivateFrechetMean("spd", center=[[1, 0], [0, 1]], radius=1.0)
    )
    search = GridSearchCV(
        pipeline,
        {"privatefrechetmean__epsilon": [0.5, 5.0]},
        cv=KFold(3),
        n_jobs=2,
        error_score="raise",
    ).fit(X.reshape(-1, 4))
    assert tuple(search.best_estimator_[-1].privacy_spent_)[0] in (0.5, 5.0)
    assert clone(pipeline)[-1].get_params() == pipeline[-1].get_params()
    scores = cross_val_score(
        PrivateFrechetMean("spd", center=np.eye(2), radius=1.0), X, cv=KFold(3), error_score="raise"
    )
    assert np.isfinite(scores).all()


def test_pickle_keeps_the_fit_and_no_data():
    X = cloud(SPD(2))
    model = PrivateFrechetMean("spd", center=np.eye(2), radius=1.0).fit(X)
    blob = pickle.dumps(model)
    np.testing.assert_array_equal(pickle.loads(blob).mean_, model.mean_)
    assert len(blob) < 5000
    assert np.asarray(X[0]).tobytes() not in blob


def test_feature_names_and_set_output():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(RNG.normal(size=(50, 3)), columns=list("abc"))
    model = PrivateFrechetMean(radius=1.0).set_output(transform="pandas").fit(X)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert list(model.transform(X).columns) == ["tangent0", "tangent1", "tangent2"]


def test_published_schedule_is_expressible():
    """T = n steps of size 0.01 from a public start, as Han et al. (2022) ran it."""
    X = cloud(SPD(2), n=60)
    model = PrivateFrechetMean(
        "spd",
        mechanism="gradient",
        n_steps=60,
        step_size=0.01,
        start=2.0 * np.eye(2),
        center=np.eye(2),
        radius=1.0,
    ).fit(X)
    assert model.privacy_spent_.mu == pytest.approx(gaussian_mu(1.0, 1e-5), rel=1e-6)


def test_published_noise_of_han_et_al_has_its_true_epsilon():
    """sigma^2 = T log(1/delta) L0^2 / (n eps)^2 is reported as (0.142, 1e-3), not (0.1, 1e-3)."""
    n, steps, epsilon, delta, bound = 300, 300, 0.1, 1e-3, 1.0
    sigma = np.sqrt(steps * np.log(1 / delta)) * bound / (n * epsilon)
    # Replace-one sensitivity of the mean gradient is 2 L0 / n, whatever the iterate.
    mu = np.sqrt(steps) * (2 * bound / n) / sigma
    solver = RiemannianGradientDescent(mu=float(mu), n_steps=steps, step_size=0.01)
    assert solver.event.epsilon(delta) == pytest.approx(0.1416, abs=1e-4)
    assert gaussian_epsilon(mu, delta) == pytest.approx(0.1416, abs=1e-4)
    problem = FrechetProblem(GeodesicBall(SPD(2), np.eye(2), bound), cloud(SPD(2), n=n))
    ball = problem.gradient_ball(3.0 * np.eye(2))
    assert ball.radius == bound
    assert bound <= ball.radius <= bound * (1 + 1e-14)


BAD = [
    ({"epsilon": 0.0}, ValueError, "epsilon"),
    ({"epsilon": -1.0}, ValueError, "epsilon"),
    ({"epsilon": np.inf}, ValueError, "non-private"),
    ({"epsilon": np.nan}, ValueError, "epsilon"),
    ({"epsilon": "1"}, TypeError, "epsilon"),
    ({"delta": 1.0}, ValueError, "delta"),
    ({"delta": -1e-9}, ValueError, "delta"),
    ({"radius": 0.0}, ValueError, "radius"),
    ({"radius": np.nan}, ValueError, "radius"),
    ({"mechanism": "magic"}, ValueError, "mechanism"),
    ({"manifold": "torus-knot"}, ValueError, "manifold"),
    ({"manifold": 3}, TypeError, "manifold"),
    ({"center": np.zeros((2, 2))}, ValueError, "center"),
    ({"center": np.eye(3)}, ValueError, "center"),
    ({"random_state": np.random.default_rng(0)}, TypeError, "random_state"),
    ({"random_state": np.random.RandomState(0)}, TypeError, "random_state"),
    ({"mechanism": "gradient", "n_steps": 0}, ValueError, "n_steps"),
    ({"mechanism": "gradient", "step_size": -1.0}, ValueError, "step_size"),
    ({"mechanism": "gradient", "clip_norm": 0.0}, ValueError, "clip_norm"),
]


@pytest.mark.parametrize("parameters, error, words", BAD, ids=lambda value: str(value)[:30])
def test_bad_parameters_release_nothing(parameters, error, words, recording_accountant):
    model = PrivateFrechetMean(**{"manifold": "spd", "radius": 1.0, **parameters})
    model.set_params(accountant=recording_accountant)
    with pytest.raises(error, match=words):
        model.fit(cloud(SPD(2)))
    assert recording_accountant.spends == []
    assert not hasattr(model, "mean_")


def _with(value, where=(0, 0, 0)):
    X = cloud(SPD(2), n=20)
    X[where] = value
    return X


@pytest.mark.parametrize(
    "X, words",
    [
        (_with(np.nan), "NaN"),
        (_with(np.inf), "infinity"),
        (_with(777.125, (3, 0, 1)), "not points"),
        (_with(-777.125), "not points"),
        (np.eye(2)[None], "1 sample"),
        (np.empty((0, 2, 2)), "0 sample"),
        (np.ones((5, 3)), "square|shape"),
        (np.ones((5, 2, 3)), "square|shape"),
    ],
    ids=["nan", "inf", "asymmetric", "indefinite", "n=1", "empty", "flat", "oblong"],
)
def test_bad_data_releases_nothing_and_shows_nothing(X, words, recording_accountant):
    model = PrivateFrechetMean("spd", accountant=recording_accountant, center=np.eye(2), radius=1.0)
    with pytest.raises(ValueError, match=words) as caught:
        model.fit(X)
    assert "777" not in str(caught.value)
    assert recording_accountant.spends == []


@pytest.mark.parametrize("manifold", ["sphere", "hyperboloid"])
def test_points_off_the_manifold(manifold):
    X = RNG.normal(size=(20, 3)) + 3.0
    with pytest.raises(ValueError, match="some rows of X are not points"):
        PrivateFrechetMean(manifold, radius=1.0).fit(X)


def test_radius_beyond_the_theorem():
    with pytest.raises(ValueError, match="radius"):
        PrivateFrechetMean("sphere", radius=1.6).fit(cloud(Sphere(2)))


def test_sample_weight_is_refused():
    with pytest.raises(TypeError, match="sample_weight"):
        PrivateFrechetMean("spd", center=np.eye(2), radius=1.0).fit(
            cloud(SPD(2)), sample_weight=np.ones(200)
        )


def test_large_delta_warns_from_public_numbers():
    with pytest.warns(UserWarning, match="at least 1/n"):
        PrivateFrechetMean("spd", delta=0.01, center=np.eye(2), radius=1.0).fit(cloud(SPD(2)))


def test_the_charge_comes_before_any_statistic(recording_accountant):
    recording_accountant.refuse = True
    model = PrivateFrechetMean("spd", accountant=recording_accountant, center=np.eye(2), radius=1.0)
    with pytest.raises(RuntimeError, match="refused"):
        model.fit(cloud(SPD(2)))
    assert not hasattr(model, "mean_") and not hasattr(model, "clipped_fraction_")


def test_repr_and_parameters_hold_no_data():
    X = cloud(SPD(2))
    model = PrivateFrechetMean("spd", center=np.eye(2), radius=1.0)
    before = repr(model), model.get_params()
    model.fit(X)
    assert (repr(model), model.get_params()) == before


# -- audits: worst-case neighbours, one record jumps across the ball ------------------------------


def worst_neighbours(geometry, n, radius):
    line = np.zeros((2, geometry.dim))
    line[:, 0] = radius, -radius
    base = geometry.base_point
    ends = geometry.exp(base, geometry.tangent_from_coordinates(base, line))
    X = np.broadcast_to(base, (n, *geometry.shape)).copy()
    Y = X.copy()
    X[0], Y[0] = ends
    return X, Y


@pytest.mark.slow
@pytest.mark.parametrize("halved", [False, True], ids=["as shipped", "too little noise"])
@pytest.mark.parametrize(
    # One score sees a part of what three adaptive releases give away: it needs a larger fault.
    "mechanism, divisor",
    [("tangent", 4), ("auto", 8)],
)
def test_audit_end_to_end(mechanism, divisor, halved, monkeypatch):
    """250 fits per side; wrong alarm with probability below 1e-7 (Clopper-Pearson at 1 - 1e-8)."""
    if halved:
        sigma, integers = GaussianNoise.sigma.fget, noise._integers
        monkeypatch.setattr(GaussianNoise, "sigma", property(lambda self: sigma(self) / divisor))
        monkeypatch.setattr(noise, "_integers", lambda *args: integers(*args) // divisor)
    geometry, n = SPD(2), 30 if mechanism == "auto" else 10
    X, Y = worst_neighbours(geometry, n, 1.0)
    estimator = PrivateFrechetMean(
        "spd",
        mechanism=mechanism,
        noise="gaussian",
        shrink=None,  # a shrunk mean shows less
        n_steps=1,
        epsilon=8.0,
        delta=1e-3,
        center=np.eye(2),
        radius=1.0,
    )

    def scores(data):
        means = np.stack([estimator.fit(data).mean_ for _ in range(250)])
        velocity = geometry.log(np.eye(2), means)
        return -geometry.coordinates_from_tangent(np.eye(2), velocity)[:, 0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sides = scores(X), scores(Y)
        audit = audit_scores(*sides, delta=1e-3, confidence=CONFIDENCE, tuning_share=0.2)
    assert (audit.mu > gaussian_mu(8.0, 1e-3)) == halved


@pytest.mark.parametrize("geometry, radius", [(Hyperboloid(2), 3.0), (Sphere(20), 1.2)], ids=str)
def test_the_exact_mean_of_a_wide_cloud_takes_few_steps(geometry, radius):
    """Steps of length one take 27 and more here."""
    for seed in range(3):
        X = make_cloud(geometry, 200, radius=radius, rng=np.random.default_rng(seed))
        found = frechet_mean(X, geometry, max_iter=12)
        gradient = np.asarray(geometry.log_coordinates(found, X)).mean(axis=0)
        assert np.linalg.norm(gradient) < 2e-10


@pytest.mark.parametrize("ridge", [1e-9, 1e-10, 1e-11, 1e-12, 1e-13])
@pytest.mark.parametrize("size", [3, 4])
def test_a_mean_of_matrices_of_large_condition_is_the_best_that_floats_hold(ridge, size):
    rng = np.random.default_rng(size)
    signals = rng.standard_normal((100, size, 40))
    shared = np.eye(size) - 1.0 / size  # an average reference, then a tiny ridge
    X = shared @ (signals @ signals.swapaxes(1, 2) / 40) @ shared + ridge * np.eye(size)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        mean = frechet_mean(X, "spd", center=X[0])
    assert np.isfinite(mean).all() and SPD(size).belongs(mean)
    for warning in seen:  # the advice is followed, and nothing is told any more
        tol = float(re.search(r"tol=([\d.e+-]+),", str(warning.message)[100:])[1])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = frechet_mean(X, "spd", center=X[0], tol=tol)
        assert SPD(size).dist(again, mean) < 1e-2
