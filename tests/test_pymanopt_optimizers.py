"""The private solvers as pymanopt optimizers."""

import math

import numpy as np
import pymanopt
import pytest
from pymanopt.manifolds import Euclidean, Oblique, Product, Sphere
from pymanopt.optimizers.optimizer import Optimizer, OptimizerResult

from skriemdp import PrivacyAccountant
from skriemdp.ledger._accountant import BudgetExceededError
from skriemdp.pymanopt_optimizers import (
    PerSampleProblem,
    PrivateGradientDescent,
    PrivateStochasticGradientDescent,
    PrivateVarianceReducedGradientDescent,
)

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(1500, 3)) * [1.0, 0.2, 0.2]
START = np.array([0.6, 0.8, 0.0])


def gradient(point, X, y):
    return -2 * (X @ point)[:, None] * X


def problem():
    return PerSampleProblem(Sphere(3), None, ROWS, euclidean_gradient=gradient)


OPTIMIZERS = {
    "full": (PrivateGradientDescent, ()),
    "poisson": (PrivateStochasticGradientDescent, (300,)),
    "variance-reduced": (PrivateVarianceReducedGradientDescent, (300,)),
}
EXTRA = {"variance-reduced": dict(smoothness=4.0)}


def build(name, **settings):
    cls, arguments = OPTIMIZERS[name]
    settings = dict(verbosity=0, clip_norm=2.0, max_iterations=30, step_size=0.2) | settings
    return cls(*arguments, 3.0, 1e-5, **EXTRA.get(name, {}), **settings)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_minimises_and_states_its_privacy(name):
    optimizer = build(name)
    assert isinstance(optimizer, Optimizer)
    result = optimizer.run(problem(), initial_point=START)
    assert isinstance(result, OptimizerResult)
    assert abs(result.point[0]) > 0.97
    assert result.iterations == 30
    assert math.isnan(result.cost) and result.gradient_norm is None
    assert tuple(result.privacy_spent) == (3.0, 1e-5)
    assert result.privacy_spent.event.epsilon(1e-5) <= 3.0


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_a_plain_problem_is_refused(name):
    manifold = Sphere(3)

    @pymanopt.function.numpy(manifold)
    def cost(point):
        return -float(np.mean((ROWS @ point) ** 2))

    with pytest.raises(TypeError, match="PerSampleProblem.*no record's gradient"):
        build(name).run(pymanopt.Problem(manifold, cost), initial_point=START)
    with pytest.raises(TypeError, match="one record"):
        PerSampleProblem(manifold, cost, ROWS)


def test_costs_are_differentiated():
    import autograd.numpy as anp

    def cost(point, x, y):
        return -(anp.dot(point, x) ** 2) + 0.0 * y

    data = ROWS[:100], np.ones(100)
    automatic = PerSampleProblem(Sphere(3), cost, data)
    explicit = PerSampleProblem(Sphere(3), None, data, euclidean_gradient=gradient)
    points = [
        build("full", random_state=0, max_iterations=3).run(p, initial_point=START).point
        for p in (automatic, explicit)
    ]
    np.testing.assert_allclose(*points, atol=1e-12)


def test_runs_are_charged(tmp_path):
    with PrivacyAccountant(epsilon=4.0, delta=1e-5, path=tmp_path / "ledger.db") as accountant:
        build("full").run(problem(), initial_point=START)
        assert len(accountant.history) == 1
        with pytest.raises(BudgetExceededError):
            build("full").run(problem(), initial_point=START)


def test_products_and_strange_manifolds_keep_their_format():
    X = RNG.normal(size=(200, 5)) + 1.0
    manifold = Product([Sphere(3), Euclidean(2)])

    def apart(point, X, y):
        direction, place = point
        return [direction - X[:, :3], place - X[:, 3:]]

    target = PerSampleProblem(manifold, None, X, euclidean_gradient=apart)
    start = [START, np.zeros(2)]
    result = build("full", clip_norm=5.0).run(target, initial_point=start)
    sphere, plane = result.point
    assert np.linalg.norm(sphere) == pytest.approx(1.0)
    np.testing.assert_allclose(plane, X[:, 3:].mean(axis=0), atol=0.7)
    columns = RNG.normal(size=(200, 3, 2)) + 1.0
    oblique = PerSampleProblem(Oblique(3, 2), None, columns, gradient=lambda p, X, y: p - X)
    result = build("full", clip_norm=3.0).run(oblique, initial_point=np.eye(3, 2))
    np.testing.assert_allclose(np.linalg.norm(result.point, axis=0), 1.0)


def test_progress_shows_no_cost(capsys):
    build("full", verbosity=2).run(problem(), initial_point=START)
    shown = capsys.readouterr()
    assert "step 30/30" in shown.err and "Cost" not in shown.out + shown.err


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: build("full", clip_norm=-1.0), ValueError),
        (lambda: build("full", max_iterations=0), ValueError),
        (lambda: PrivateGradientDescent(1.0, 0.0), ValueError),
        (lambda: PrivateGradientDescent(math.inf, 1e-5), ValueError),
        (lambda: PrivateStochasticGradientDescent(10, sampling="epochs"), ValueError),
        (lambda: build("variance-reduced", max_iterations=31), ValueError),
        (lambda: PerSampleProblem(Sphere(3), None, ROWS * np.nan, gradient=gradient), ValueError),
        (
            lambda: PerSampleProblem(Sphere(3), None, (ROWS, ROWS[:4]), gradient=gradient),
            ValueError,
        ),
        (lambda: build("full").run(problem(), initial_point=np.zeros(3)), ValueError),
    ],
)
def test_bad_settings(make, error):
    with pytest.raises(error):
        make()
