"""The planned iteration comes that close, and no neighbours move it further than proved."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from skriemdp._descent.iterated_mean import iterate_mean
from skriemdp._descent.problem import FrechetProblem
from skriemdp._mean.estimator import frechet_mean
from skriemdp.geometry import (
    SPD,
    Euclidean,
    GeodesicBall,
    Grassmann,
    Hyperboloid,
    Poincare,
    Sphere,
)
from skriemdp.privacy._mean_iteration import (
    _root_from_above,
    least_convexity,
    plan_mean_iteration,
)

CASES = [
    (SPD(2), 1.0),
    (SPD(2), 3.0),
    (SPD(3), 1.5),
    (Hyperboloid(2), 1.0),
    (Hyperboloid(4), 3.0),
    (Sphere(2), math.pi / 8),
    (Sphere(5), 0.2),
    (Sphere(2), math.pi / 4),
    (Sphere(3), 1.0),
    (Sphere(2, radius=2.0), 2.4),
    (Sphere(2), 1.4),
    (Grassmann(4, 1), 0.7),
]


def ball_of(geometry, radius):
    return GeodesicBall(geometry, geometry.base_point, radius)


def adversarial_sets(ball, n, rng):
    """Neighbours that stress the iteration: clusters on the boundary, few directions."""
    geometry, center, radius = ball.geometry, ball.center, ball.radius
    for _ in range(12):
        directions = rng.standard_normal((3, geometry.dim))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        weights = rng.integers(0, 3, size=n)
        coordinates = radius * directions[weights] * rng.choice([1.0, 1.0, 0.3], size=(n, 1))
        neighbour = coordinates.copy()
        neighbour[0] = -coordinates[0] if rng.random() < 0.5 else radius * directions[2]
        yield tuple(
            geometry.exp(center, geometry.tangent_from_coordinates(center, c))
            for c in (coordinates, neighbour)
        )


@pytest.mark.parametrize("geometry, radius", CASES, ids=str)
@pytest.mark.parametrize("n", [2, pytest.param(5, marks=pytest.mark.slow), 40])
def test_bounds_hold_for_adversarial_neighbours(geometry, radius, n):
    ball = ball_of(geometry, radius)
    known = geometry.curvature_bounds, 0.01 * radius, 1.0, geometry.injectivity_radius
    plan = plan_mean_iteration(radius, n, *known)
    assert plan.distance_bound <= 0.01 * radius
    for points, neighbour in adversarial_sets(ball, n, np.random.default_rng(n)):
        first = iterate_mean(FrechetProblem(ball, points), plan.step_sizes)
        second = iterate_mean(FrechetProblem(ball, neighbour), plan.step_sizes)
        assert geometry.dist(first, second) <= plan.sensitivity * (1 + 1e-9)
        exact = frechet_mean(points, geometry, center=ball.center)
        assert geometry.dist(first, exact) <= plan.distance_bound + 1e-8


@pytest.mark.parametrize("geometry, radius", CASES[:5], ids=str)
def test_sensitivity_is_tight_on_hadamard_manifolds(geometry, radius):
    n = 2000
    plan = plan_mean_iteration(radius, n, geometry.curvature_bounds, 0.01 * radius)
    assert plan.sensitivity <= 1.012 * 2 * radius / n * (1 + 1e-9)
    # All records at the centre but one, which jumps across the ball.
    ball = ball_of(geometry, radius)
    line = np.zeros((2, geometry.dim))
    line[:, 0] = radius, -radius
    ends = geometry.exp(ball.center, geometry.tangent_from_coordinates(ball.center, line))
    images = []
    for end in ends:
        points = np.broadcast_to(ball.center, (n, *geometry.shape)).copy()
        points[0] = end
        images.append(iterate_mean(FrechetProblem(ball, points), plan.step_sizes))
    assert geometry.dist(*images) >= 0.97 * plan.sensitivity


@pytest.mark.parametrize("radius", [0.4, math.pi / 4, 1.1, 1.4])
def test_convexity_where_the_gradient_is_small(radius):
    """Random records and points of a ball: no Hessian is below the bound for its gradient."""
    geometry, rng = Sphere(2), np.random.default_rng(7)
    ball, checked = ball_of(geometry, radius), 0
    for trial in range(400):
        directions = rng.standard_normal((rng.integers(2, 5), 2))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        lengths = radius * rng.random((len(directions), 1)) ** rng.choice([0.0, 0.5])
        points = geometry.exp_coordinates(ball.center, lengths * directions)
        aim = rng.standard_normal(2)
        aim *= radius * rng.random() ** 0.5 / np.linalg.norm(aim)
        place = geometry.exp_coordinates(ball.center, aim)
        for _ in range(trial % 4):  # on the way to the mean
            place = geometry.exp_coordinates(
                place, geometry.log_coordinates(place, points).mean(axis=0)
            )
        logs = geometry.log_coordinates(place, points)
        t = np.linalg.norm(logs, axis=1)
        units = logs / t[:, None]
        across = t / np.tan(t)
        outer = units[:, :, None] * units[:, None, :]
        hessian = (across[:, None, None] * (np.eye(2) - outer) + outer).mean(axis=0)
        gradient = float(np.linalg.norm(logs.mean(axis=0)))
        bound = least_convexity(radius, gradient, radius)
        assert np.linalg.eigvalsh(hessian)[0] >= bound
        assert geometry.dist(ball.center, place) <= radius * (1.0 + 1e-9)
        checked += bound > 0.0
    assert checked > 50


@pytest.mark.parametrize("radius, beyond", [(0.3, 1.2), (math.pi / 4, 0.7), (1.2, 0.3)])
def test_convexity_outside_of_the_ball(radius, beyond):
    """Long steps may leave the ball of the records: the bound of Hessians holds there too."""
    geometry, rng = Sphere(2), np.random.default_rng(8)
    ball, checked, inwards = ball_of(geometry, radius), 0, []
    for _ in range(600):
        directions = rng.standard_normal((rng.integers(1, 5), 2))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        points = geometry.exp_coordinates(ball.center, radius * directions)
        reach = radius + beyond * rng.random()
        aim = rng.standard_normal(2) if rng.random() < 0.5 else directions.mean(axis=0)
        place = geometry.exp_coordinates(ball.center, reach * aim / np.linalg.norm(aim))
        logs = geometry.log_coordinates(place, points)
        t = np.linalg.norm(logs, axis=1)
        units = logs / t[:, None]
        outer = units[:, :, None] * units[:, None, :]
        across = (t / np.tan(t))[:, None, None]
        hessian = (across * (np.eye(2) - outer) + outer).mean(axis=0)
        mean = logs.mean(axis=0)
        bound = least_convexity(radius, float(np.linalg.norm(mean)), reach)
        assert np.linalg.eigvalsh(hessian)[0] >= bound
        checked += bound > 0.0
        inwards.append(float(mean @ geometry.log_coordinates(place, ball.center)))
    assert checked > 10
    assert min(inwards) > 0.0  # out there the steps lead towards the centre


def test_long_steps_on_spheres_are_fewer_than_full_ones():
    for radius, most in ((0.4, 6), (math.pi / 4, 10), (1.0, 17)):
        plan = plan_mean_iteration(radius, 10**6, (1.0, 1.0), 1e-6, 1.0, math.pi)
        assert len(plan.step_sizes) <= most  # full steps: 7, 14 and 23
        assert 1.0 < max(plan.step_sizes) < 2.0
        assert plan.step_sizes[0] >= 1.0
        # Lines through the origin: records must stay nearer than a right angle.
        lines = plan_mean_iteration(radius, 10**6, (1.0, 1.0), 1e-6, 1.0, math.pi / 2.0)
        assert len(plan.step_sizes) <= len(lines.step_sizes)
    within = plan_mean_iteration(math.pi / 4, 10**6, (1.0, 1.0), 1e-6)
    assert set(within.step_sizes) == {1.0}  # where nothing is known of the space further out


@pytest.mark.parametrize("gradient", [1e-9, 1e-3, 0.1, 0.6, 3.0])
@pytest.mark.parametrize("radius", [1e-3, 0.3, 1.0, 1.5])
def test_roots_of_the_convexity_bound_are_never_too_small(radius, gradient):
    ends = np.linspace(0.0, radius, 65)
    ratio, slope = math.cos(radius) / np.cos(ends[:-1]), gradient * np.tan(ends[1:])
    most = np.minimum(radius + ends[1:], math.pi)
    found = _root_from_above(ratio, slope, most)

    def excess(t, k):
        return math.cos(t) + slope[k] * np.sinc(t / math.pi) - ratio[k]

    for k in range(0, 64, 9):
        if excess(most[k], k) >= 0.0:  # none below
            assert found[k] == most[k]
        else:
            root = brentq(excess, 1e-9 * radius, most[k], args=(k,), xtol=1e-15, rtol=1e-14)
            slack = 1e-15 / root  # the cosine of a small angle holds no more of it
            assert root - slack <= found[k] <= root + slack + 1e-10 * most[k]


def test_an_iterate_of_a_wide_ball_moves_no_further_than_the_ball_is_wide():
    plan = plan_mean_iteration(1.4, 3, (1.0, 1.0), 0.1, 1.0, math.pi)
    assert max(plan.step_sizes) > 1.0
    assert plan.sensitivity <= 2.8 * (1.0 + 2e-3)
    assert len(plan_mean_iteration(math.pi / 4, 10**9, (1.0, 1.0), 1e-9).step_sizes) <= 25


def test_number_of_steps_does_not_grow_with_n_on_hadamard_manifolds():
    few = plan_mean_iteration(1.0, 100, (-0.5, 0.0), 1e-2)
    many = plan_mean_iteration(1.0, 10**9, (-0.5, 0.0), 1e-2)
    assert len(few.step_sizes) == len(many.step_sizes) <= 5


def test_flat_space_needs_one_exact_step():
    plan = plan_mean_iteration(3.0, 50, Euclidean(4).curvature_bounds, 1e-9)
    assert plan.step_sizes == (1.0,)
    assert plan.sensitivity == 2 * 3.0 / 50


@pytest.mark.parametrize(
    "bounds, radius", [((0.0, math.inf), 0.1), ((0.0, 1.0), 0.75), ((1.0, 1.0), 1.55)]
)
def test_no_plan_without_a_contraction_rate(bounds, radius):
    assert plan_mean_iteration(radius, 10, bounds, 1e-3) is None


@pytest.mark.parametrize("radius, n", [(2.0, 10), (3.0, 10), (5.0, 40)])
@pytest.mark.parametrize("accuracy", [1.0, 0.1, 0.03])
def test_sensitivity_is_close_to_the_mean_s_at_any_accuracy(radius, n, accuracy):
    """The plan goes on until neighbours have come together, also where accuracy asks for less."""
    plan = plan_mean_iteration(radius, n, (-1.0, -1.0), accuracy * radius)
    # 1 % for neighbours that are still apart, two thousandths for rounding.
    assert plan.sensitivity <= 1.012 * (2.0 * radius / n) * (1 + 1e-9)


@pytest.mark.parametrize("geometry", [SPD(2), SPD(4), Hyperboloid(2), Poincare(2)], ids=str)
@pytest.mark.parametrize("reach", [4.0, 8.0, 12.0])
def test_the_mean_is_iterated_only_where_rounding_moves_it_less_than_a_record(geometry, reach):
    # One record changes in its last bits; nothing but rounding can move the mean by more than that.
    rng = np.random.default_rng(0)
    radius = reach / np.sqrt(-geometry.curvature_bounds[0])
    ball, n = GeodesicBall(geometry, None, radius), 20
    direction = np.eye(geometry.dim)[0]
    if geometry.point_ndim == 2:
        direction = direction - np.eye(geometry.dim)[1]  # the worst condition number
    direction /= np.linalg.norm(direction)
    far = geometry.exp_coordinates(ball.center, 0.95 * radius * direction)
    X = geometry.exp_coordinates(far, 0.05 * rng.normal(size=(n, geometry.dim)))
    if geometry.point_ndim == 2:
        turn = np.linalg.qr(rng.normal(size=geometry.shape))[0]
        X = turn @ X @ turn.T
        X = 0.5 * (X + X.transpose(0, 2, 1))
    steps = plan_mean_iteration(radius, n, geometry.curvature_bounds, 0.1 * radius / n).step_sizes
    means = []
    for k in range(3):
        X[0] *= 1.0 + 2e-16 * k
        problem, _ = FrechetProblem.from_records(ball, X)
        means.append(geometry.log_coordinates(ball.center, iterate_mean(problem, steps)))
    moved = max(np.linalg.norm(mean - means[0]) for mean in means)
    assert moved < 4.0 * np.finfo(float).eps * geometry.rounding(ball.center, radius)


def test_no_schedule_where_rounding_would_decide():
    spd, hyperbolic = SPD(3).curvature_bounds, Hyperboloid(3).curvature_bounds
    assert plan_mean_iteration(10.0, 10**6, spd, 1e-6) is not None
    assert plan_mean_iteration(20.0, 10**6, spd, 1e-6) is None
    assert plan_mean_iteration(20.0, 10**6, hyperbolic, 1e-6) is None
    assert plan_mean_iteration(10.0, 10**6, hyperbolic, 1e-6) is not None
