"""Where a descent may go, what a server may send, and which point a record is."""

import sqlite3
import types
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from skriemdp import PrivateFrechetMean, PrivateHyperbolicRegressor, PrivateMinimumDistanceToMean
from skriemdp._core.manifold_input import as_points, descent_domain
from skriemdp._descent.iterated_mean import iterate_mean
from skriemdp._descent.per_sample import CostProblem, HalfSquaredDistance
from skriemdp._descent.problem import FrechetProblem
from skriemdp._descent.queries import GradientQuery
from skriemdp._erm import PrivateRiemannianERM
from skriemdp._mean.output_releases import plan_output_mean
from skriemdp._mean.releases import MeanNoise, plan_tangent_mean
from skriemdp.federated import Agent, AnswerBook, FederatedEstimator, LocalSettings, LocalTask
from skriemdp.federated._together import ClientsTogether, PooledRecords
from skriemdp.geometry import (
    SPD,
    Euclidean,
    GeodesicBall,
    Hyperboloid,
    Poincare,
    Product,
    Sphere,
    Stiefel,
)
from skriemdp.geometry._ball import center_reach, descent_reach
from skriemdp.ledger._accountant import PrivacyAccountant
from skriemdp.privacy._mean_iteration import plan_mean_iteration, rounding_is_small
from skriemdp.pymanopt_optimizers import PerSampleProblem, PrivateGradientDescent

PLANE = Hyperboloid(2)
STEP = LocalSettings("rsgd", 1, 1.0, 1.0, 1.0)
METRICS = ["affine-invariant", "log-euclidean", "bures-wasserstein"]


def away(geometry, distance):
    direction = np.eye(geometry.dim)[0]
    return np.asarray(geometry.exp_coordinates(geometry.base_point, distance * direction))


def cloud(geometry, n=40, spread=0.3, seed=0):
    coordinates = spread * np.random.default_rng(seed).normal(size=(n, geometry.dim))
    return np.asarray(geometry.exp_coordinates(geometry.base_point, coordinates))


def agent(geometry=PLANE, radius=5.0, domain=True, problem="cost", **settings):
    ball = GeodesicBall(geometry, None, radius)
    X = cloud(geometry)
    made = CostProblem(HalfSquaredDistance(geometry), X)
    if problem == "mean":
        made = FrechetProblem(ball, ball.project(X))
    return Agent("a", made, STEP, 3.0, ball if domain else None, **settings)


# -- agents ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["cost", "mean"])
@pytest.mark.parametrize(
    "geometry", [PLANE, Poincare(2), SPD(2), Hyperboloid(1), Product(PLANE, Euclidean(2))], ids=str
)
def test_an_agent_on_negative_curvature_needs_a_domain(geometry, problem):
    with pytest.raises(ValueError, match="domain is required"):
        agent(geometry, domain=False, problem=problem)
    agent(geometry, problem=problem)


@pytest.mark.parametrize("geometry", [Euclidean(3), Sphere(2), Stiefel(3, 2)], ids=str)
def test_other_agents_do_without(geometry):
    agent(geometry, radius=0.3, domain=False)


def test_a_domain_is_small_near_and_of_the_right_space():
    problem = CostProblem(HalfSquaredDistance(PLANE), cloud(PLANE))
    with pytest.raises(ValueError, match="radius=11 is above 10"):
        Agent("a", problem, STEP, 3.0, GeodesicBall(PLANE, None, 11.0))
    with pytest.raises(ValueError, match="lies 18 from the base point"):
        Agent("a", problem, STEP, 3.0, GeodesicBall(PLANE, away(PLANE, 18.0), 1.0))
    with pytest.raises(ValueError, match="ball of"):
        Agent("a", problem, STEP, 3.0, GeodesicBall(Hyperboloid(3), None, 1.0))


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    "geometry, distance",
    [
        (PLANE, 5.1),
        (PLANE, 37.0),
        (PLANE, 300.0),
        (SPD(2), 30.0),
        (Sphere(2), 0.9),
        (Euclidean(2), 1e9),
    ],
    ids=str,
)
def test_a_servers_point_outside_the_domain_is_refused_for_free(
    geometry, distance, together, tmp_path
):
    radius = 0.7 if geometry == Sphere(2) else 5.0
    budget = PrivacyAccountant(5.0, path=str(tmp_path / "ledger"))
    one = agent(geometry, radius, accountant=budget, book=AnswerBook(tmp_path / "book"))
    task = LocalTask("fit", 0, "a", away(geometry, distance))
    with pytest.raises(ValueError, match="outside the agent's domain"):
        if together:
            pool = PooledRecords(one.problem, {"a": one.problem.n})
            ClientsTogether({"a": one}, pool).handle([task])
        else:
            one.handle(task)
    assert budget.history == []
    assert not (tmp_path / "book").exists()
    one.handle(LocalTask("fit", 0, "a", away(geometry, 0.99 * radius)))
    assert len(budget.history) == 1


NAMES = {
    "None": (None, 0, TypeError),
    "empty": ("", 0, ValueError),
    "bytes": (b"fit", 0, TypeError),
    "a NumPy string": (np.str_("fit"), 0, TypeError),
    "unprintable": ("a\0b", 0, ValueError),
    "half a character": ("\ud800", 0, ValueError),
    "a NumPy round": ("fit", np.int64(0), TypeError),
    "a fraction": ("fit", 0.5, TypeError),
    "a bool": ("fit", True, TypeError),
    "text": ("fit", "0", TypeError),
    "before the first": ("fit", -1, ValueError),
    "huge": ("fit", 2**63, ValueError),
    "huger": ("fit", 10**400, ValueError),
}


@pytest.mark.parametrize("kind", NAMES)
def test_a_release_without_a_proper_name_is_refused_for_free(kind, tmp_path):
    fit_id, round, error = NAMES[kind]
    budget = PrivacyAccountant(5.0, path=str(tmp_path / "ledger"))
    one = agent(accountant=budget, book=AnswerBook(tmp_path / "book"))
    task = LocalTask(fit_id, round, "a", PLANE.base_point)
    with pytest.raises(error, match="fit_id|round"):
        one.handle(task)
    with pytest.raises(error, match="fit_id|round"):
        one.book.begin(task, lambda: None)
    assert budget.history == []


def test_no_spelling_of_a_client_is_a_way_round_the_book(tmp_path):
    X, ball = cloud(PLANE), GeodesicBall(PLANE, None, 5.0)
    budget = PrivacyAccountant(50.0, path=str(tmp_path / "ledger"))
    book = AnswerBook(tmp_path / "book")
    one = Agent(1, FrechetProblem(ball, X), STEP, 3.0, ball, budget, book)
    first = one.handle(LocalTask("fit", 2**63 - 1, 1, PLANE.base_point)).point
    for client in (True, 1.0, np.int64(1), np.float64(1.0)):
        again = one.handle(LocalTask("fit", 2**63 - 1, client, PLANE.base_point))
        np.testing.assert_array_equal(again.point, first)
    assert len(budget.history) == 1
    rows = sqlite3.connect(tmp_path / "book").execute("SELECT client FROM answers").fetchall()
    assert rows == [("1",)]


def test_a_federated_run_needs_a_name_that_books_can_hold():
    budget = PrivacyAccountant(9.0)
    mean = PrivateFrechetMean("spd", center=np.eye(2), radius=1.0, accountant=budget)
    for fit_id in ("", "a\nb", 7):
        with pytest.raises((TypeError, ValueError), match="fit_id"):
            FederatedEstimator(mean, fit_id=fit_id).fit(cloud(SPD(2)), clients=np.arange(40) % 4)
    assert budget.history == []


# -- descents -------------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", [PLANE, Poincare(3), SPD(2), Hyperboloid(1)], ids=str)
def test_descents_without_a_radius_get_the_widest_ball(geometry):
    start = away(geometry, 4.0)
    domain, begin = descent_domain(geometry, None, None, start)
    np.testing.assert_array_equal(begin, start)
    np.testing.assert_array_equal(domain.center, start)
    assert domain.radius == descent_reach(geometry) < np.inf
    budget = PrivacyAccountant(epsilon=9.0)
    model = PrivateRiemannianERM(geometry, start=start, n_steps=3, epsilon=3.0, accountant=budget)
    model.fit(cloud(geometry))
    assert model.privacy_spent_.public["radius"] == domain.radius
    np.testing.assert_array_equal(model.privacy_spent_.public["center"], start)


def test_curved_up_and_flat_descents_stay_free():
    for geometry in (Sphere(2), Euclidean(2), SPD(2, "log-euclidean"), Stiefel(3, 2)):
        assert descent_domain(geometry, None, None, None)[0] is None
    with pytest.raises(ValueError, match="radius is required"):
        descent_domain(Product(PLANE, Sphere(2)), None, None, None)


@pytest.mark.parametrize("step_size", [0.5, 1.0, 30.0])
def test_a_descent_of_noise_stays_where_floats_hold_it(step_size):
    """With 20 records and these steps it ran to distances at which points were NaN."""
    X = cloud(PLANE, 20)
    model = PrivateRiemannianERM(PLANE, epsilon=0.05, n_steps=60, step_size=step_size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = []
        model.set_params(callback=lambda step, point: seen.append(point)).fit(X)
    distances = PLANE.dist(PLANE.base_point, np.array(seen))
    assert distances.max() <= descent_reach(PLANE) * (1 + 1e-9)
    assert distances.max() > 1.0


@pytest.mark.parametrize("federated", [False, True])
@pytest.mark.parametrize(
    "settings, words",
    [
        ({"radius": 10.5}, "radius=10.5 is above 10"),
        ({"start": away(PLANE, 17.5)}, "start lies 17.5"),
        ({"center": away(PLANE, 17.5)}, "center lies 17.5"),
        ({"center": away(PLANE, 17.5), "radius": 1.0}, "center lies 17.5"),
        ({"start": np.array([2.0, 0.0, 0.0])}, "start is not a point"),
    ],
)
def test_descents_too_far_out_are_refused_for_free(settings, words, federated):
    budget = PrivacyAccountant(epsilon=9.0)
    model = PrivateRiemannianERM(PLANE, accountant=budget, n_steps=2, **settings)
    with pytest.raises(ValueError, match=words):
        if federated:
            FederatedEstimator(model, 2, 2).fit(cloud(PLANE), clients=np.arange(40) % 4)
        else:
            model.fit(cloud(PLANE))
    assert budget.history == []


@pytest.mark.parametrize("unit", ["record", "client"])
def test_federated_descents_stay_in_the_ball_about_their_start(unit):
    budget = PrivacyAccountant(epsilon=9.0)
    model = PrivateRiemannianERM(PLANE, accountant=budget, epsilon=0.5)
    start = away(PLANE, 12.0)
    run = FederatedEstimator(model, 8, 2, step_size=40.0, unit=unit, start=start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run.fit(cloud(PLANE), clients=np.arange(40) % 4)
    assert PLANE.dist(start, run.point_) <= descent_reach(PLANE) * (1 + 1e-6)
    far = clone(run).set_params(start=away(PLANE, 20.0))
    with pytest.raises(ValueError, match="start lies 20"):
        far.fit(cloud(PLANE), clients=np.arange(40) % 4)
    assert len(budget.history) == 1


def test_pymanopt_runs_stay_in_the_ball_about_their_start():
    budget = PrivacyAccountant(epsilon=9.0)
    problem = PerSampleProblem(
        PLANE, None, cloud(PLANE, 20), gradient=lambda p, X, y: -np.asarray(PLANE.log(p, X))
    )
    optimizer = PrivateGradientDescent(
        0.05, step_size=30.0, max_iterations=20, accountant=budget, verbosity=0
    )
    result = optimizer.run(problem, initial_point=away(PLANE, 3.0))
    assert PLANE.dist(away(PLANE, 3.0), result.point) <= descent_reach(PLANE) * (1 + 1e-9)
    with pytest.raises(ValueError, match="start lies 18"):
        optimizer.run(problem, initial_point=away(PLANE, 18.0))
    assert len(budget.history) == 1


def test_a_private_base_point_needs_a_ball_that_descents_can_use():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(50, 2)), rng.normal(size=(50, 2))
    for curvature, radius in ((-1.0, 10.5), (-4.0, 5.5)):
        budget, space = PrivacyAccountant(epsilon=9.0), Hyperboloid(2, curvature)
        y = np.asarray(space.exp_coordinates(space.base_point, labels))
        model = PrivateHyperbolicRegressor(manifold=space, radius=radius, accountant=budget)
        with pytest.raises(ValueError, match="radius=.* above .*public base_point"):
            model.fit(X, y)
        assert budget.history == []
        model.set_params(base_point=space.base_point).fit(X, y)
    space = Hyperboloid(2, -0.25)
    y = np.asarray(space.exp_coordinates(space.base_point, labels))
    PrivateHyperbolicRegressor(manifold=space, radius=19.0).fit(X, y)


def test_reach_of_a_hyperbolic_line_and_of_products():
    assert descent_reach(Hyperboloid(1, -4.0)) == 5.0 == descent_reach(Poincare(1, -4.0))
    assert center_reach(Hyperboloid(1)) == center_reach(PLANE)
    assert descent_reach(Product(Euclidean(3), Hyperboloid(2, -4.0))) == 5.0
    both = Product(Euclidean(1), PLANE)
    far_flat = both.join(np.array([1e3]), PLANE.base_point)
    assert descent_domain(both, None, None, far_flat)[0] is not None
    with pytest.raises(ValueError, match="start lies"):
        descent_domain(both, None, None, both.join(np.zeros(1), away(PLANE, 18.0)))


# -- one record, one point -------------------------------------------------------------------------


def lopsided(n=30, size=2, gap=8e-7, seed=0):
    """SPD records whose triangles differ by what membership allows, and their symmetric parts."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, size, size))
    X = A @ A.transpose(0, 2, 1) + 0.2 * np.eye(size)
    skew = np.triu(rng.uniform(0.5, 1.0, size=(n, size, size)), 1)
    X = X + gap * np.abs(X).max(axis=(1, 2))[:, None, None] * skew
    return X, (X + X.transpose(0, 2, 1)) / 2


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("metric", METRICS)
def test_spd_records_are_their_symmetric_parts(metric, size):
    geometry = SPD(size, metric)
    X, symmetric = lopsided(size=size)
    for rows in (X, X.transpose(0, 2, 1), X.reshape(len(X), -1)):
        points = as_points(geometry, rows)
        np.testing.assert_allclose(points, symmetric, rtol=1e-15)
        np.testing.assert_array_equal(points, points.transpose(0, 2, 1))
    np.testing.assert_array_equal(as_points(geometry, symmetric), symmetric)
    np.testing.assert_array_equal(geometry.canonical(np.full((size, size), 1e308)), 1e308)
    mixed = Product(Euclidean(1), geometry)
    rows = mixed.join(np.ones((len(X), 1)), X)
    np.testing.assert_allclose(mixed.split(as_points(mixed, rows))[1], symmetric, rtol=1e-15)


@pytest.mark.parametrize("metric", METRICS)
def test_every_estimator_reads_either_triangle_alike(metric):
    geometry, (X, _) = SPD(3, metric), lopsided(size=3)
    flipped, y = X.transpose(0, 2, 1), np.arange(30) % 2
    models = [
        PrivateFrechetMean(geometry, center=geometry.base_point, radius=1.0),
        PrivateFrechetMean(geometry, center=geometry.base_point, radius=1.0, mechanism="gradient"),
        PrivateMinimumDistanceToMean(
            geometry, center=geometry.base_point, radius=1.0, classes=[0, 1]
        ),
        PrivateRiemannianERM(geometry, n_steps=3),
    ]
    shared = types.MethodType(lambda self, data, plan: b"shared", None or object())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model in models:
            points = []
            for rows in (X, flipped):
                one = clone(model).set_params(random_state=0)
                one._noise_context = shared
                one.fit(rows, y)
                points.append(getattr(one, "means_", getattr(one, "mean_", None)))
                points[-1] = one.point_ if points[-1] is None else points[-1]
            np.testing.assert_array_equal(*points, err_msg=str(model))
        sums = []
        for rows in (X, flipped):
            problem = PerSampleProblem(geometry, None, rows, backend="numpy").problem
            erm = PrivateRiemannianERM(geometry)._problem(rows)
            mean = PrivateFrechetMean(geometry, center=geometry.base_point, radius=1.0)._problem(
                rows
            )
            point = np.diag([1.0, 2.0, 0.5])
            sums.append([GradientQuery(p, point, 1.0).exact() for p in (problem, erm, mean)])
        np.testing.assert_array_equal(*sums)
        runs = []
        for rows in (X, flipped):
            run = FederatedEstimator(
                PrivateFrechetMean(geometry, center=geometry.base_point, radius=1.0), 1, 3
            )
            if metric == "bures-wasserstein":
                run.set_params(clip_norm=1.0)
            data = run.estimator._validate(rows)
            runs.append(run.estimator._problem(*data.arrays).points)
        np.testing.assert_array_equal(*runs)


# -- means that rounding would decide --------------------------------------------------------------


def tilted(condition, size, seed):
    """A rotated centre of this condition number, and the direction that makes it worse."""
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]
    values = np.logspace(0.0, -np.log10(condition), size)
    center = (turn * values) @ turn.T
    worse = (turn * values**1.1) @ turn.T
    return (center + center.T) / 2, (worse + worse.T) / 2


def moved_by_a_last_bit(geometry, center, toward, radius):
    ball, n = GeodesicBall(geometry, center, radius), 20
    direction = np.asarray(geometry.log_coordinates(center, toward))
    direction = direction / np.linalg.norm(direction)
    far = geometry.exp_coordinates(center, 0.95 * radius * direction)
    spread = 0.05 * radius * np.random.default_rng(1).normal(size=(n, geometry.dim))
    X = np.asarray(geometry.exp_coordinates(far, spread / np.sqrt(geometry.dim)))
    X = np.asarray(geometry.canonical(X))
    plan = plan_mean_iteration(radius, n, geometry.curvature_bounds, 0.1 * radius / n)
    means = []
    for k in range(4):
        changed = X.copy()
        changed[0] *= 1.0 + 2.3e-16 * k
        problem, _ = FrechetProblem.from_records(ball, changed)
        means.append(iterate_mean(problem, plan.step_sizes))
    return max(np.linalg.norm(geometry.log_coordinates(means[0], m)) for m in means[1:])


@pytest.mark.parametrize("radius", [1.0, 4.0])
@pytest.mark.parametrize("condition", [1e2, 1e5, 1e8])
@pytest.mark.parametrize("size", [2, 5])
def test_rounding_of_spd_means_is_what_the_rule_says(size, condition, radius):
    geometry = SPD(size)
    rule = 4.0 * np.finfo(float).eps
    worst = 0.0
    for seed in range(2):
        center, worse = tilted(condition, size, seed)
        moved = moved_by_a_last_bit(geometry, center, worse, radius)
        worst = max(worst, moved / (rule * geometry.rounding(center, radius)))
    assert worst < 1.0


@pytest.mark.parametrize("geometry", [PLANE, Poincare(2)], ids=str)
@pytest.mark.parametrize("distance, radius", [(8.0, 1.0), (8.0, 4.0), (15.0, 1.0)])
def test_rounding_of_hyperbolic_means_is_what_the_rule_says(geometry, distance, radius):
    center, further = away(geometry, distance), away(geometry, distance + 0.5)
    moved = moved_by_a_last_bit(geometry, center, further, radius)
    assert moved < 4.0 * np.finfo(float).eps * geometry.rounding(center, radius)


def test_an_ill_conditioned_centre_gets_the_mean_of_logarithms():
    n, good, bad = 2000, tilted(1e3, 5, 0)[0], tilted(1e13, 5, 0)[0]
    near = plan_tangent_mean(GeodesicBall(SPD(5), good, 1.0), n, MeanNoise(1.0, None))
    far = plan_tangent_mean(GeodesicBall(SPD(5), bad, 1.0), n, MeanNoise(1.0, None))
    assert near.schedule is not None
    assert far.schedule is None
    assert far.noise_scale == pytest.approx(2.0 / n, rel=1e-8)  # a sum moves by the diameter
    # Rounding is paid for where the mean is iterated.
    plain = plan_mean_iteration(1.0, n, (-0.5, 0.0), 1e-4).sensitivity
    assert plain > 2.0 / n * (1 + 1.9e-3)
    budget = PrivacyAccountant(epsilon=9.0)
    X = np.asarray(
        SPD(5).exp_coordinates(bad, 0.1 * np.random.default_rng(0).normal(size=(60, 15)))
    )
    model = PrivateFrechetMean("spd", bad, 1.0, accountant=budget).fit(SPD(5).canonical(X))
    assert len(budget.history) == 1 and np.isfinite(model.mean_).all()


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "k-norm"])
def test_output_perturbations_obey_the_same_guard(mechanism):
    bad = np.diag([1e7, 1e-7])
    budget = PrivacyAccountant(epsilon=9.0)
    model = PrivateFrechetMean("spd", bad, 1.0, mechanism, accountant=budget)
    with pytest.raises(ValueError, match="rounding could move"):
        model.fit(bad[None] * np.ones((50, 1, 1)))
    assert budget.history == []
    plan_output_mean(GeodesicBall(SPD(2), None, 0.5), 50, mechanism, 1.0, 1e-5)
    with pytest.raises(ValueError, match="rounding could move"):
        ball = GeodesicBall(Euclidean(2), np.array([1e13, 0.0]), 1.0)
        plan_output_mean(ball, 50, mechanism, 1.0, 1e-5)


def test_searched_centres_obey_the_guard_too():
    """The ball is released, so the switch by its centre is public."""
    center = np.diag([1e6, 1e-6])
    X = center[None] * (1 + 0.1 * np.random.default_rng(0).random((4000, 1, 1)))
    model = PrivateFrechetMean("spd", "private", 1.0, mechanism="tangent", epsilon=5.0).fit(X)
    found = GeodesicBall(SPD(2), model.center_, model.radius_)
    rounding = SPD(2).rounding(model.center_, model.radius_)
    assert rounding > 1e8
    plan = plan_tangent_mean(found, 10**6, MeanNoise(1.0, None))
    assert (plan.schedule is None) == (not rounding_is_small(1.0, 10**6, rounding))
    assert plan.schedule is None
