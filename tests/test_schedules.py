"""Step sizes, numbers of steps and noise of published theorems."""

import dataclasses
import math

import numpy as np
import pytest

from skriemdp.schedules import (
    FUNCTION_CLASSES,
    FunctionClass,
    curvature_constant,
    schedule,
    several_steps_limit,
    svrg_settings,
)


def test_curvature_constant():
    assert curvature_constant(0.0, 3.0) == curvature_constant(1.0, 3.0) == 1.0
    assert curvature_constant(-1.0, 2.0) == pytest.approx(2.0 / math.tanh(2.0))
    assert curvature_constant(-1.0, 0.0) == 1.0


CLASSES = {
    "convex": dict(diameter=2.0),
    "strongly-convex": dict(strong_convexity=1.0),
    "pl": dict(smoothness=1.0, pl_constant=0.5),
    "nonconvex": dict(smoothness=1.0, initial_gap=1.0),
}


@pytest.mark.parametrize(
    "name, in_n, in_d",
    [
        ("convex", -1.0, 0.5),
        ("strongly-convex", -2.0, 1.0),
        ("pl", -2.0, 1.0),
        ("nonconvex", -1.0, 0.5),
    ],
)
def test_bounds_have_the_rates_of_table_1(name, in_n, in_d):
    def bound(n, dim):
        kind = FunctionClass(name, dim=dim, lipschitz=1.0, **CLASSES[name])
        return schedule(kind, n, mu=0.3, max_steps=10**6).utility_bound

    slope_n = math.log(bound(8000, 4) / bound(2000, 4)) / math.log(4)
    slope_d = math.log(bound(8000, 64) / bound(8000, 4)) / math.log(16)
    # "pl" carries a log(n) that the slope sees.
    assert slope_n == pytest.approx(in_n, abs=0.25 if name == "pl" else 0.01)
    assert slope_d == pytest.approx(in_d, abs=0.25 if name == "pl" else 0.01)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("convex", 2.0 * math.sqrt((1 + 3) / 9)),
        ("strongly-convex", 2 * (1 + 3) / 10),
        ("pl", 0.5 * 3),
        ("nonconvex", 2 / 9 + (1 + 1 / 9) * 3),
    ],
)
def test_bounds_by_hand(name, expected):
    kind = FunctionClass(name, dim=2, lipschitz=1.0, **CLASSES[name])
    assert kind.bound(9, 3.0) == pytest.approx(expected)
    assert kind.bound(9, 2.0, batch_variance=1.0) == pytest.approx(expected)


@pytest.mark.parametrize("name", list(CLASSES))
def test_schedule_minimises_its_bound(name):
    kind = FunctionClass(name, dim=5, lipschitz=1.0, **CLASSES[name])
    plan = schedule(kind, n=2000, mu=0.5, max_steps=2000)
    noise = plan.n_steps * 5 * (2.0 / 2000 / 0.5) ** 2
    assert plan.sigma == pytest.approx(math.sqrt(noise / 5))
    assert plan.utility_bound == pytest.approx(kind.bound(plan.n_steps, noise))
    best = min(kind.bound(T, T * noise / plan.n_steps) for T in range(1, 2001))
    assert plan.utility_bound <= best * (1.0 + 1e-9 if name in ("pl", "nonconvex") else 1.5)


@pytest.mark.parametrize(
    "settings, match",
    [
        (dict(name="convex"), "diameter"),
        (dict(name="strongly-convex"), "strong_convexity"),
        (dict(name="pl", smoothness=1.0), "pl_constant"),
        (dict(name="pl", smoothness=1.0, pl_constant=0.1), "no function"),
        (dict(name="nonconvex", smoothness=1.0), "initial_gap"),
        (dict(name="concave"), "concave"),
        (dict(name="strongly-convex", strong_convexity=1.0, lowest_curvature=-1.0), "diameter"),
    ],
)
def test_function_classes_say_what_is_missing(settings, match):
    with pytest.raises(ValueError, match=match):
        FunctionClass(dim=2, lipschitz=1.0, **settings)


def test_the_step_sizes_of_the_theorems_by_hand():
    def steps(name, **settings):
        return FunctionClass(name, dim=2, lipschitz=1.0, **(CLASSES[name] | settings)).step_sizes

    zeta = 2.0 / math.tanh(2.0)
    curved = steps("convex", lowest_curvature=-1.0)
    assert curved(9, 3.0) == pytest.approx(2.0 / math.sqrt(4.0 * zeta * 9.0))
    # Theorem 3's steps telescope: t (1/eta_t - beta) = (t - 1)/eta_{t-1}.
    beta = 0.7
    eta = steps("strongly-convex", strong_convexity=beta)(6, 3.0)
    assert eta[0] == pytest.approx(1.0 / beta)
    for t in range(1, 6):
        assert t * (1.0 / eta[t] - beta) == pytest.approx((t - 1) / eta[t - 1])
    for name in ("pl", "nonconvex"):
        assert steps(name, smoothness=4.0)(6, 3.0) == 0.25


@pytest.mark.parametrize("name", FUNCTION_CLASSES)
def test_a_cost_in_other_units_has_the_same_schedule(name):
    # Costs times s: gradients, smoothness, convexity and gaps too; 1/tau and the noise as well.
    s, plans = 8.0, []
    for unit in (1.0, s):
        kind = FunctionClass(name, dim=3, lipschitz=unit, **CLASSES[name])
        scaled = {
            key: unit * value
            for key in ("smoothness", "strong_convexity", "initial_gap")
            if (value := getattr(kind, key)) is not None
        }
        if kind.pl_constant is not None:
            scaled["pl_constant"] = kind.pl_constant / unit
        plans.append(schedule(dataclasses.replace(kind, **scaled), n=1000, mu=0.4, max_steps=500))
    first, second = plans
    assert second.n_steps == first.n_steps
    assert second.sigma == pytest.approx(s * first.sigma)
    np.testing.assert_allclose(np.multiply(s, second.step_size), first.step_size)
    power = 2 if name == "nonconvex" else 1  # a squared gradient norm
    assert second.utility_bound == pytest.approx(s**power * first.utility_bound)


@pytest.mark.parametrize("name", FUNCTION_CLASSES)
def test_more_budget_never_promises_less(name):
    kind = FunctionClass(name, dim=3, lipschitz=1.0, **CLASSES[name])
    bounds = [schedule(kind, 500, mu, max_steps=300).utility_bound for mu in (0.1, 0.3, 1.0, 3.0)]
    assert sorted(bounds, reverse=True) == bounds


def test_the_noise_of_a_schedule_costs_its_budget():
    kind = FunctionClass("convex", dim=3, lipschitz=1.5, gradient_diameter=2.0, diameter=1.0)
    plan = schedule(kind, n=300, mu=0.6)
    # T releases of sensitivity 2/n, each sensitivity/sigma-GDP.
    assert math.sqrt(plan.n_steps) * 2.0 / 300 / plan.sigma == pytest.approx(0.6)


# -- federated runs -------------------------------------------------------------------------------


def test_steps_per_epoch_of_theorem_5_6():
    # zeta = 1 and N = 8: floor(80/3), 1/(10 * 4).
    assert svrg_settings(8, 1.0, 1.0) == (26, pytest.approx(1 / 40))


@pytest.mark.parametrize("k", [2, 3, 5, 20])
def test_the_longest_step_of_several(k):
    limit = several_steps_limit(k)
    beta = 2.0 if k == 2 else ((k - 1) / (k - 2)) ** (k - 1)
    assert (1 + limit * beta) ** (k - 1) == pytest.approx(beta)  # where delta_min vanishes
    others = [several_steps_limit(k, b) for b in np.linspace(1.01, 20, 400)]
    assert k == 2 or limit >= max(others)


@pytest.mark.parametrize("beta", [1.0, math.inf, math.nan])
def test_betas_that_the_theorem_excludes(beta):
    with pytest.raises(ValueError, match="beta must be"):
        several_steps_limit(3, beta)


def test_budgets_and_betas_beyond_floats_are_refused():
    smooth = FunctionClass("strongly-convex", dim=3, lipschitz=1.0, strong_convexity=1.0)
    with pytest.raises(ValueError, match="mu"):
        schedule(smooth, n=1000, mu=1e-200)
    with pytest.raises(ValueError, match="beta"):
        several_steps_limit(3, 10**400)
