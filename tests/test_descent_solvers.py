"""Private solvers: what they release, what it costs, what their schedules promise."""

import contextlib
import dataclasses
import functools
import math
from unittest import mock

import numpy as np
import pytest

from skriemdp._descent.gradient_descent import RiemannianGradientDescent, descend
from skriemdp._descent.per_sample import (
    CostGradient,
    CostProblem,
    EuclideanGradient,
    HalfSquaredDistance,
    RiemannianGradient,
    check_per_sample,
    make_gradient,
)
from skriemdp._descent.problem import FrechetProblem
from skriemdp._descent.progress import ProgressBar
from skriemdp._descent.queries import DifferenceQuery, GradientQuery
from skriemdp._descent.releases import FixedSizeSampler, FullBatch, PoissonSampler, exact_mean
from skriemdp._descent.stochastic import RiemannianSGD
from skriemdp._descent.trajectory import Moves, Trajectory, geodesic_average
from skriemdp._descent.variance_reduction import (
    RiemannianSVRG,
    calibrated_svrg,
)
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import Steps
from skriemdp.auditing import audit_scores
from skriemdp.geometry import SPD, Euclidean, GeodesicBall, Grassmann, Hyperboloid, Sphere, Stiefel
from skriemdp.privacy._calibration import gaussian_epsilon
from skriemdp.schedules import FUNCTION_CLASSES, FunctionClass, curvature_constant, schedule

SPACES = [
    Euclidean(3),
    Sphere(3),
    Hyperboloid(2),
    SPD(2),
    SPD(2, metric="bures-wasserstein"),
    Grassmann(4, 2),
    Stiefel(4, 2),
]


@contextlib.contextmanager
def no_noise():
    with mock.patch.object(noise, "draw", lambda exact, *law, **bounds: exact):
        yield


def cloud_problem(geometry, n=60, radius=0.4, seed=0):
    """The Fréchet problem of points near the base point."""
    rng = np.random.default_rng(seed)
    coordinates = rng.uniform(-1, 1, size=(n, geometry.dim)) * radius / math.sqrt(geometry.dim)
    points = geometry.exp_coordinates(geometry.base_point, coordinates)
    return FrechetProblem(GeodesicBall(geometry, None, radius), points)


def solvers(moves, clip_norm=5.0):
    n_epochs, length = 2, moves.n_steps // 2 - 1
    return {
        "sgd-full": RiemannianSGD(FullBatch(), 1.0, moves, clip_norm),
        "sgd-poisson": RiemannianSGD(PoissonSampler(30, 99), 1.0, moves, clip_norm),
        "sgd-fixed": RiemannianSGD(FixedSizeSampler(30, 99), 1.0, moves, clip_norm),
        "svrg-poisson": RiemannianSVRG(
            PoissonSampler(30, 99),
            1.0,
            1.0,
            n_epochs,
            length,
            moves,
            clip_norm,
            difference_clip=9.0,
        ),
        "svrg-fixed": RiemannianSVRG(
            FixedSizeSampler(30, 99), 1.0, 1.0, n_epochs, length, moves, clip_norm, smoothness=9.0
        ),
    }


# -- without noise they are the textbook algorithms -----------------------------------------------


@functools.cache
def mean_of_a_cloud(geometry):
    """The problem and its answer, which all solvers are held to."""
    problem = cloud_problem(geometry)
    target = descend(problem, problem.ball.center, Moves(60, 0.7), 5.0)
    assert np.linalg.norm(exact_mean(GradientQuery(problem, target, 5.0))) < 1e-6 / problem.n
    return problem, target


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("geometry", SPACES, ids=str)
@pytest.mark.parametrize("name", list(solvers(Moves(20))))
def test_without_noise_the_mean_is_found(geometry, name):
    problem, target = mean_of_a_cloud(geometry)
    steps = tuple(1.0 / (t + 1) for t in range(60))
    solver = solvers(Moves(60, steps))[name]
    with no_noise():
        found = solver.solve(problem, problem.ball.center, np.random.default_rng(0))
    assert bool(geometry.belongs(found))
    assert geometry.dist(found, target) < (1e-3 if name in ("sgd-full", "svrg-poisson") else 0.05)


def test_variance_reduction_reduces_variance():
    problem = cloud_problem(SPD(2), n=400)
    target = descend(problem, problem.ball.center, Moves(60, 0.9), 5.0)
    errors = {}
    for name in ("sgd-fixed", "svrg-fixed"):
        solver = solvers(Moves(40, 0.5))[name]
        with no_noise():
            runs = [
                solver.solve(problem, problem.ball.center, np.random.default_rng(s))
                for s in range(10)
            ]
        errors[name] = np.mean([SPD(2).dist(run, target) for run in runs])
    assert errors["svrg-fixed"] < 0.2 * errors["sgd-fixed"]


def test_full_batch_sgd_is_descent():
    problem = cloud_problem(Hyperboloid(2))
    by_mu = RiemannianGradientDescent(mu=2.0, n_steps=5, step_size=0.5, clip_norm=0.3)
    by_noise = RiemannianSGD(FullBatch(), by_mu.noise_multipliers[0], Moves(5, 0.5), 0.3)
    start = problem.ball.center
    results = [s.solve(problem, start, np.random.default_rng(1)) for s in (by_mu, by_noise)]
    np.testing.assert_array_equal(*results)
    assert by_noise.event(60).mu == pytest.approx(2.0)
    assert by_mu.event.mu == pytest.approx(2.0)


def test_shares_spend_the_whole_budget():
    solver = RiemannianGradientDescent(mu=0.7, n_steps=3, step_size=1.0, shares=(0.1, 0.2, 0.7))
    mus = 1.0 / np.asarray(solver.noise_multipliers)
    assert math.sqrt(np.sum(mus**2)) <= 0.7 * (1 + 1e-12)
    np.testing.assert_allclose(mus**2 / 0.49, (0.1, 0.2, 0.7))


@pytest.mark.parametrize("retraction", [False, True])
@pytest.mark.parametrize("geometry", [Sphere(3), Stiefel(4, 2), Grassmann(4, 2)], ids=str)
def test_retraction_stays_on_the_manifold(geometry, retraction):
    problem = cloud_problem(geometry)
    solver = RiemannianGradientDescent(
        mu=1.0, n_steps=20, step_size=0.5, clip_norm=1.0, retraction=retraction
    )
    found = solver.solve(problem, geometry.base_point, np.random.default_rng(0))
    assert bool(geometry.belongs(found))


# -- noise ----------------------------------------------------------------------------------------


@pytest.mark.mostly_slow(2)
@pytest.mark.parametrize("geometry", SPACES, ids=str)
def test_noise_has_the_calibrated_size_in_the_riemannian_metric(geometry):
    # A chi-square with 150 dim degrees of freedom, six standard deviations.
    problem = cloud_problem(geometry, n=2)
    point = problem.points[0]
    query = GradientQuery(problem, point, 0.2)
    sigma = 3.0 * 2 * 0.2 / 2
    mean = exact_mean(query)
    rng = np.random.default_rng(5)
    releases = np.stack([FullBatch().noisy_mean(query, 3.0, Steps(1), rng) for _ in range(150)])
    squares = (np.linalg.norm(releases - mean, axis=1) / sigma) ** 2
    degrees = 150 * geometry.dim
    assert squares.sum() == pytest.approx(degrees, abs=6 * math.sqrt(2 * degrees))


@pytest.mark.slow
@pytest.mark.parametrize("halved", [False, True])
def test_audit_of_a_whole_run(halved):
    # Flat and one-dimensional, all other gradients equal: the sum of the T noisy steps is a
    # sufficient statistic.  False-alarm rate 1e-6.
    n, steps, mu = 10, 4, 1.5
    solver = RiemannianGradientDescent(mu=mu, n_steps=steps, step_size=1.0, clip_norm=1.0)
    if halved:
        solver = dataclasses.replace(solver, mu=2 * mu)
    sides = []
    rng = np.random.default_rng(0)
    for value in (-1.0, 1.0):
        X = np.full((n, 1), -1.0)
        X[0] = value
        gradient = RiemannianGradient(Euclidean(1), lambda point, X, y: X)
        problem = CostProblem(gradient, X)
        runs = [float(solver.solve(problem, np.zeros(1), rng)[0]) for _ in range(1000)]
        sides.append(-np.asarray(runs))
    found = audit_scores(*sides, delta=1e-5, confidence=1 - 1e-6)
    claimed = gaussian_epsilon(mu, 1e-5)
    assert (found.mu > mu) == halved
    assert found.mu > 0.35 * (2 * mu if halved else mu)
    assert found.epsilon < claimed or halved


# -- trajectories ---------------------------------------------------------------------------------


def random_path(output, geometry=SPACES[2], steps=7, **settings):
    rng = np.random.default_rng(3)
    path = Trajectory(geometry, geometry.base_point, Moves(steps, 0.3, output), rng, **settings)
    visited = [path.point]
    for _ in range(steps):
        path.advance(rng.standard_normal(geometry.dim))
        visited.append(path.point)
    return path.result, visited


def test_a_vector_without_a_finite_norm_counts_as_zero():
    good = np.array([0.3, 0.4, 0.0])
    for bad in ([1.7e308, 1.7e308, 0.0], [np.inf, 0.0, 0.0], [0.0, np.nan, 1.0]):
        total = Ball(1.0).enforce(np.array([bad, good])).sum(axis=0)
        np.testing.assert_allclose(total, good, atol=0)


def test_descent_never_leaves_its_domain():
    ball = GeodesicBall(Hyperboloid(2), None, 0.5)
    problem = FrechetProblem(ball, np.repeat(ball.center[None], 10, axis=0))
    for output in ("last", "average", "random"):
        solver = RiemannianGradientDescent(0.01, 3, 1.0, output=output)
        ends = []
        for domain in (None, ball):
            solver = dataclasses.replace(solver, domain=domain)
            point = solver.solve(problem, ball.center, np.random.default_rng(0))
            ends.append(float(ball.geometry.dist(ball.center, point)))
        assert ends[0] > 1.0 and ends[1] <= 0.5 + 1e-9


def test_outputs():
    last, visited = random_path("last")
    np.testing.assert_array_equal(last, visited[-1])
    chosen, visited = random_path("random")
    assert any(np.array_equal(chosen, point) for point in visited[1:])
    for output, weight in (
        ("average", lambda k: 1 / k),
        ("weighted-average", lambda k: 2 / (k + 1)),
    ):
        result, visited = random_path(output)
        expected = visited[1]
        for k, point in enumerate(visited[2:], start=2):
            expected = geodesic_average(Hyperboloid(2), expected, point, weight(k))
        np.testing.assert_allclose(result, expected, atol=1e-9)


def test_flat_averages_are_weighted_means():
    result, visited = random_path("average", Euclidean(2))
    np.testing.assert_allclose(result, np.mean(visited[1:], axis=0))
    result, visited = random_path("weighted-average", Euclidean(2))
    weights = np.arange(1, len(visited))
    np.testing.assert_allclose(result, np.average(visited[1:], axis=0, weights=weights))


def test_random_output_is_uniform():
    chosen = []
    for seed in range(3000):
        path = Trajectory(
            Euclidean(1), np.zeros(1), Moves(3, 1.0, "random"), np.random.default_rng(seed)
        )
        for _ in range(3):
            path.advance(np.full(1, -1.0))
        chosen.append(int(path.result[0]))
    counts = np.bincount(chosen, minlength=4)
    assert counts[0] == 0 and np.abs(counts[1:] - 1000).max() < 5.1 * math.sqrt(3000 * 2 / 9)


def test_callbacks_see_copies_of_released_points():
    seen, steps = [], []

    def meddle(step, point):
        steps.append(step)
        seen.append(point.copy())
        point[:] = np.nan

    result, visited = random_path("last", callback=meddle)
    np.testing.assert_array_equal(seen, visited[1:])
    assert np.isfinite(result).all()
    assert steps == [t + 1 for t in range(7)]


def test_progress_shows_no_loss(capsys):
    bar = ProgressBar("Estimator", 1.0, 1e-5, 3)
    for step in range(1, 4):
        bar(step, np.zeros(2))
    shown = capsys.readouterr().err
    assert "step 3/3" in shown and "epsilon=1" in shown and "loss" not in shown


@pytest.mark.parametrize(
    "settings, error",
    [
        (dict(n_steps=0), ValueError),
        (dict(n_steps=3, step_size=-1.0), ValueError),
        (dict(n_steps=3, step_size=(1.0, 1.0)), ValueError),
        (dict(n_steps=2, step_size=(1.0, math.inf)), ValueError),
        (dict(n_steps=2, output="best"), ValueError),
    ],
)
def test_bad_moves(settings, error):
    with pytest.raises(error):
        Moves(**settings)


# -- variance reduction ---------------------------------------------------------------------------


def test_accounting_of_variance_reduction():
    moves = Moves(63)
    for sampler, expected in ((FixedSizeSampler(60), 1.653), (PoissonSampler(60), 1.541)):
        solver = RiemannianSVRG(sampler, 5.0, 2.0, 3, 20, moves, difference_clip=1.0)
        assert solver.event(1200).epsilon(1e-5) == pytest.approx(expected, abs=2e-3)


@pytest.mark.mostly_slow(2)
@pytest.mark.parametrize("geometry", SPACES, ids=str)
def test_clipped_differences_are_bounded(geometry):
    problem = cloud_problem(geometry)
    anchor, point = problem.points[0], problem.points[1]
    query = DifferenceQuery(problem, point, anchor, 0.05)
    each = np.stack([query.exact(np.array([i])) for i in range(problem.n)])
    assert (query.bound.center, query.bound.radius) == (None, 0.05)
    assert np.linalg.norm(each, axis=1).max() <= 0.05 * (1 + 1e-9)
    whole = query.exact(None)
    np.testing.assert_allclose(whole, each.sum(axis=0), atol=1e-12)


def test_clipped_differences_attain_their_diameter():
    # Two records whose gradients move in opposite directions between anchor and point.
    X = np.array([[1.0], [-1.0]])
    gradient = RiemannianGradient(Euclidean(1), lambda point, X, y: X * point)
    query = DifferenceQuery(CostProblem(gradient, X), np.ones(1), np.zeros(1), 0.25)
    apart = query.exact(np.array([0])) - query.exact(np.array([1]))
    assert abs(apart[0]) == pytest.approx(0.5, rel=1e-11)
    assert query.bound.radius == pytest.approx(0.25, rel=1e-14)


def test_smoothness_clip_has_no_bias():
    # Half squared distances on a Hadamard ball are smooth with zeta(2 r) there.
    geometry = SPD(2)
    problem = cloud_problem(geometry, radius=1.0)
    anchor, point = problem.points[0], problem.points[1]
    smoothness = curvature_constant(-0.5, 2.0)
    clip = smoothness * float(geometry.dist(anchor, point))
    clipped = DifferenceQuery(problem, point, anchor, clip).exact()
    free = DifferenceQuery(problem, point, anchor, 1e2).exact()
    np.testing.assert_allclose(clipped, free, atol=1e-12)


@pytest.mark.parametrize("sampler", [PoissonSampler(50), FixedSizeSampler(50)], ids=repr)
def test_calibrated_variance_reduction_is_private_enough(sampler):
    solver = calibrated_svrg(sampler, Moves(20), 1000, 1.0, 1e-5, 1.0, 1.0)
    assert solver.event(1000).epsilon(1e-5) <= 1.0
    assert solver.anchor_noise_multiplier == pytest.approx(2.5 * solver.noise_multiplier)


def test_variance_reduction_refuses_contradictions():
    moves = Moves(10)
    good = dict(sampler=PoissonSampler(5), anchor_noise_multiplier=1.0, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="exactly one"):
        RiemannianSVRG(**good, n_epochs=2, epoch_length=4, moves=moves)
    with pytest.raises(ValueError, match="exactly one"):
        RiemannianSVRG(
            **good, n_epochs=2, epoch_length=4, moves=moves, difference_clip=1.0, smoothness=1.0
        )
    with pytest.raises(ValueError, match="n_steps"):
        RiemannianSVRG(**good, n_epochs=2, epoch_length=5, moves=moves, difference_clip=1.0)
    with pytest.raises(TypeError, match="variance to reduce"):
        RiemannianSVRG(FullBatch(), 1.0, 1.0, 2, 4, moves, difference_clip=1.0)


# -- promised utility -----------------------------------------------------------------------------


def quadratic(geometry, points):
    """Half mean squared distance: strongly convex, hence in every class."""
    center = geometry.base_point
    ball = GeodesicBall(geometry, center, 1.0)
    problem = FrechetProblem(ball, points)

    def risk(w):
        return 0.5 * float(np.mean(geometry.dist(w, points) ** 2))

    return problem, ball, risk


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize("name", FUNCTION_CLASSES)
@pytest.mark.parametrize("geometry", [Euclidean(4), Hyperboloid(3)], ids=str)
def test_promised_utility_is_kept(name, geometry):
    # The mean over ten runs of a fixed seed, against a bound on the expectation.
    rng = np.random.default_rng(0)
    n, mu = 400, 0.5
    coordinates = rng.uniform(-1, 1, size=(n, geometry.dim)) * 0.4
    points = geometry.exp_coordinates(geometry.base_point, coordinates)
    problem, ball, risk = quadratic(geometry, points)
    diameter, low = 2.0, geometry.curvature_bounds[0]
    kind = FunctionClass(
        name,
        dim=geometry.dim,
        lipschitz=diameter,
        gradient_diameter=diameter,
        smoothness=curvature_constant(low, diameter),
        strong_convexity=1.0,
        pl_constant=0.5,
        diameter=diameter,
        lowest_curvature=low,
        initial_gap=0.5,
    )
    plan = schedule(kind, n, mu, max_steps=300)
    solver = RiemannianGradientDescent(
        mu=mu, n_steps=plan.n_steps, step_size=plan.step_size, output=plan.output, domain=ball
    )
    optimum = descend(problem, ball.center, Moves(100, 0.5))
    values = []
    for seed in range(10):
        found = solver.solve(problem, ball.center, np.random.default_rng(seed))
        if name == "nonconvex":
            gradient = exact_mean(GradientQuery(problem, found))
            values.append(float(gradient @ gradient))
        else:
            values.append(risk(found) - risk(optimum))
    # In the flat case one step of "pl" attains its bound, hence five standard errors.
    assert 0 < np.mean(values) <= plan.utility_bound + 5 * np.std(values) / math.sqrt(10)


# -- per-sample gradients -------------------------------------------------------------------------


def numeric_gradient(geometry, cost, point, x, y):
    """Riemannian gradient of one record by central differences along an orthonormal basis."""
    step = 1e-5
    basis = geometry.tangent_from_coordinates(
        np.broadcast_to(point, (geometry.dim, *geometry.shape)), np.eye(geometry.dim)
    )
    ahead = [cost(geometry.exp(point, step * v), x, y) for v in basis]
    behind = [cost(geometry.exp(point, -step * v), x, y) for v in basis]
    slopes = (np.array(ahead) - np.array(behind)) / (2 * step)
    return geometry.tangent_from_coordinates(point, slopes)


def numpy_cost(point, x, y):
    return float(np.sum(point * x) ** 2 + (0.0 if y is None else y * np.sum(point)))


def torch_cost(point, x, y):
    return (point * x).sum() ** 2 + (0.0 if y is None else y * point.sum())


def autograd_cost(point, x, y):
    import autograd.numpy as anp

    return anp.sum(point * x) ** 2 + (0.0 if y is None else y * anp.sum(point))


COSTS = {"torch": torch_cost, "jax": torch_cost, "autograd": autograd_cost}


@pytest.mark.parametrize("with_labels", [False, True])
@pytest.mark.parametrize("backend", list(COSTS))
@pytest.mark.parametrize("geometry", SPACES, ids=str)
def test_automatic_gradients(geometry, backend, with_labels, rng):
    pytest.importorskip(backend)
    point = cloud_problem(geometry).points[0]
    X = rng.standard_normal((5, *geometry.shape))
    y = rng.standard_normal(5) if with_labels else None
    gradient = make_gradient(geometry, COSTS[backend], backend)
    found = gradient(point, X, y)
    labels = [None] * 5 if y is None else y
    expected = [
        numeric_gradient(geometry, numpy_cost, point, x, label)
        for x, label in zip(X, labels, strict=True)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-7)
    costs = [numpy_cost(point, x, label) for x, label in zip(X, labels, strict=True)]
    np.testing.assert_allclose(gradient.cost(point, X, y), costs)


@pytest.mark.parametrize("geometry", SPACES, ids=str)
def test_half_squared_distance(geometry):
    problem = cloud_problem(geometry)
    gradient = HalfSquaredDistance(geometry)
    point = problem.points[0]
    np.testing.assert_allclose(gradient(point, problem.points), problem.gradients(point))
    distances = geometry.dist(point, problem.points)
    np.testing.assert_allclose(gradient.cost(point, problem.points), distances**2 / 2, atol=1e-12)


def test_riemannian_gradients_are_made_tangent(rng):
    geometry, point = Sphere(2), np.array([0.0, 0.0, 1.0])
    X = rng.standard_normal((6, 3))
    gradient = RiemannianGradient(geometry, lambda point, X, y: X)
    assert np.abs(gradient(point, X) @ point).max() < 1e-15


@pytest.mark.parametrize("n", [1, 7, 5000])
@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_bounded_sums_do_not_depend_on_blocks(backend, n, rng):
    if backend != "numpy":
        pytest.importorskip(backend)
    geometry, X = Sphere(9), rng.standard_normal((n, 10))
    point = geometry.base_point
    if backend == "numpy":
        gradient = EuclideanGradient(geometry, lambda point, X, y: 2 * (X @ point)[:, None] * X)
    else:
        gradient = CostGradient(geometry, torch_cost, backend)
    problem = CostProblem(gradient, X)
    query = GradientQuery(problem, point, 0.5)
    found = geometry.tangent_from_coordinates(point, query.exact())
    tangents = geometry.projection(point, 2 * (X @ point)[:, None] * X)
    norms = np.linalg.norm(tangents, axis=1)
    expected = (tangents * np.minimum(1.0, 0.5 / norms)[:, None]).sum(axis=0)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    indices = np.flatnonzero(rng.uniform(size=n) < 0.5)
    some = geometry.tangent_from_coordinates(point, query.exact(indices))
    expected = (tangents * np.minimum(1.0, 0.5 / norms)[:, None])[indices].sum(axis=0)
    np.testing.assert_allclose(some, expected, atol=1e-10)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_one_record_cannot_spoil_the_sum(bad):
    def gradient(point, X, y):
        return X

    X = np.ones((4, 3))
    X[1, 1] = bad
    problem = CostProblem(RiemannianGradient(Euclidean(3), gradient), X)
    with np.errstate(all="raise"):
        total = GradientQuery(problem, np.zeros(3), 1.0).exact()
    rest = 3 / math.sqrt(3)
    assert np.isfinite(total).all()
    assert np.linalg.norm(total - rest) <= 1.0 + 1e-9


def test_wrong_shapes_are_named():
    gradient = RiemannianGradient(Euclidean(3), lambda point, X, y: X.sum(axis=0))
    with pytest.raises(ValueError, match="one gradient per record"):
        CostProblem(gradient, np.ones((5, 3))).dry_run(np.zeros(3))


def test_closures_over_the_data_are_refused():
    data = np.arange(20.0).reshape(10, 2)

    def closure(point, x, y):
        return ((data - point) ** 2).sum()

    def default(point, x, y, data=data):
        return ((data - point) ** 2).sum()

    class Holder:
        def __init__(self):
            self.data = data

        def cost(self, point, x, y):
            return ((self.data - point) ** 2).sum()

        __call__ = cost

    def outer():
        def inner(point, x, y):
            return closure(point, x, y)

        return inner

    import functools

    partial = functools.partial(lambda data, point, x, y: 0.0, data)
    view = data[:4]

    def over_a_view(point, x, y):
        return view.sum()

    functions = [closure, default, Holder().cost, Holder(), outer(), partial, over_a_view]
    for function in functions:
        with pytest.raises(TypeError, match="closure|carries"):
            check_per_sample(function, 10, (data, None))
    weights = np.ones(2)
    check_per_sample(lambda point, x, y: float(weights @ x), 10, (data, None))


@pytest.mark.parametrize(
    "settings, error, match",
    [
        (dict(cost=lambda point: 0.0, backend="autograd"), TypeError, "one record"),
        (dict(cost=None, backend="torch"), TypeError, "function"),
        (dict(cost=lambda p, x, y: 0.0, backend="numpy"), TypeError, "differentiate"),
        (dict(cost=lambda p, x, y: 0.0, backend="tensorflow"), ValueError, "backend"),
        (
            dict(cost=None, gradient=lambda p, x, y: x, euclidean_gradient=lambda p, x, y: x),
            ValueError,
            "only one",
        ),
    ],
)
def test_bad_gradients(settings, error, match):
    settings = {"backend": "numpy"} | settings
    with pytest.raises(error, match=match):
        make_gradient(Euclidean(2), **settings)


def test_memory_maps_are_read_in_blocks(tmp_path, rng):
    X = rng.standard_normal((3000, 4))
    stored = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", float, X.shape)
    stored[:] = X
    stored.flush()
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for backend in ("numpy", "torch"):
        if backend == "torch":
            pytest.importorskip("torch")
            gradient = CostGradient(Euclidean(4), torch_cost, "torch")
        else:
            gradient = HalfSquaredDistance(Euclidean(4))
        problems = [CostProblem(gradient, data) for data in (X, mapped)]
        sums = [GradientQuery(p, np.zeros(4), 1.0).exact() for p in problems]
        np.testing.assert_array_equal(*sums)
