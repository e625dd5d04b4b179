"""Fits that share a budget: what "auto" picks by the ledger's rule, for every estimator."""

from __future__ import annotations

import math

import numpy as np
import pytest

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
)
from skriemdp._core.estimator import Terms
from skriemdp.geometry import SPD, Euclidean, Hyperboloid, Sphere
from skriemdp.ledger._accountant import BudgetExceededError
from skriemdp.ledger._chain import Standing, add
from skriemdp.ledger._filters import make_filter

pytestmark = [
    pytest.mark.filterwarnings("ignore:with n="),
    pytest.mark.filterwarnings("ignore:n="),
    pytest.mark.filterwarnings("ignore:delta="),
]

DELTA = 1e-6
EPSILONS = [0.1, 0.3, 1 / 3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0]
# Of three fits at (epsilon, DELTA / 3) under (1, DELTA).
BY_AUTO = [3, 3, 3, 3, 3, 2, 2, 1, 1]
BY_SUM = [3, 3, 3, 2, 2, 1, 1, 1, 1]


def admitted(rule, plan, epsilons=EPSILONS, delta=DELTA / 3):
    """For each epsilon, how many of three equal fits a fresh ledger admits."""
    result = []
    for epsilon in epsilons:
        terms = Terms(epsilon, delta, rule.composes(epsilon, delta))
        event = plan(terms)
        total, times = rule.zero, 0
        for _ in range(3):
            for cost in rule.costs(event, (epsilon, delta)):
                if rule.admits(Standing(total, times == 0), cost, event):
                    total, times = add(total, cost), times + 1
                    break
        result.append(times)
    return result


def means():
    for d in range(1, 10):
        yield f"flat-{d}", PrivateFrechetMean(radius=1.0), {"geometry": Euclidean(d), "n": 400}
    for geometry in (Sphere(2), SPD(3), Hyperboloid(3)):
        for n in (100, 100_000):
            yield (
                f"{geometry}-{n}",
                PrivateFrechetMean(center=geometry.base_point, radius=0.5),
                {"geometry": geometry, "n": n},
            )
    searched = PrivateFrechetMean(center="private", radius="private")
    yield "searched", searched, {"geometry": Sphere(2), "n": 5000}


def others():
    for d in (2, 5, 9):
        yield (
            f"components-{d}",
            PrivatePrincipalEigenvector(),
            {"n": 500, "d": d, "sparse": False, "streamed": False},
        )
        facts = {"geometry": Euclidean(d), "n": 500, "classes": np.arange(3)}
        yield f"classes-{d}", PrivateMinimumDistanceToMean(), facts
    for preconditioner in ("auto", "diagonal", "paper"):
        linear = PrivateNoisyAdaGrad(preconditioner=preconditioner)
        yield (
            f"linear-{preconditioner}",
            linear,
            {
                "n": 2000,
                "p": 5,
                "classes": np.arange(2),
                "sparse": False,
            },
        )
    for method in ("parametric", "sufficient-statistics"):
        facts = {"geometry": Hyperboloid(2), "n": 200, "d": 4, "flat": False}
        facts["space"] = None
        yield method, PrivateHyperbolicRegressor(method), facts
    facts = {"geometry": Hyperboloid(2), "n": 2000, "d": 2, "axes": 2}
    yield "geodesic", PrivateGeodesicRegressor(), facts
    yield "ratings", PrivateMatrixCompletion(bounds=(1, 5)), {"n": 500, "d": 30}


def planner(model, facts):
    def plan(terms):
        model.set_params(epsilon=terms.epsilon, delta=terms.delta)
        return model._plan(facts | ({"flat": True} if "flat" not in facts else {}), terms).event

    return plan


CASES = [*means(), *others()]


@pytest.mark.parametrize(("name", "model", "facts"), CASES, ids=[case[0] for case in CASES])
def test_thirds_of_a_budget(name, model, facts):
    assert admitted(make_filter("auto", 1.0, DELTA), planner(model, facts)) == BY_AUTO


@pytest.mark.parametrize(("name", "model", "facts"), CASES, ids=[case[0] for case in CASES])
def test_thirds_of_a_budget_that_adds_up(name, model, facts):
    assert admitted(make_filter("sum", 1.0, DELTA), planner(model, facts)) == BY_SUM


@pytest.mark.parametrize("dim", [1, 2, 9])
def test_what_auto_noise_is(dim):
    facts = {"geometry": Euclidean(dim), "n": 400, "flat": True}

    def noise(epsilon, delta, composes, **parameters):
        model = PrivateFrechetMean(radius=1.0, epsilon=epsilon, delta=delta, **parameters)
        return model._plan(facts, Terms(epsilon, delta, composes)).event

    assert noise(0.3, DELTA, True).mu is not None
    assert noise(0.3, DELTA, False).mu is None
    # What the user chose is not touched, and neither is pure privacy.
    tangent = {"noise": "laplace", "mechanism": "tangent"}
    for parameters in (tangent, {"noise": "laplace"}, {"mechanism": "laplace"}):
        chosen = [noise(0.3, DELTA, composes, **parameters) for composes in (True, False)]
        assert chosen[0] == chosen[1] and chosen[0].mu is None
    assert noise(0.3, 0.0, False).renyi(math.inf) == pytest.approx(0.3)


@pytest.mark.parametrize("kind", ["renyi", "gdp", "sum"])
def test_a_mean_that_looks_first_is_charged_under_every_rule(kind):
    """Gaussian looks and a Laplace mean are one event, fixed before the first look."""
    X = np.random.default_rng(0).normal(size=(2000, 2)) * 0.1
    budget = PrivacyAccountant(2.0, DELTA, filter=kind)
    model = PrivateFrechetMean(
        epsilon=0.5, delta=DELTA / 4, noise="laplace", accountant=budget, radius=1.0
    )
    model.fit(X)
    assert model.mechanism_ == "adaptive"
    event = model.privacy_spent_.event
    looks, law = event.events
    assert looks.mu > 0.0 and law.mu is None
    assert event.delta(0.5) <= DELTA / 4
    (entry,) = budget.history
    assert entry.event == event.to_dict()
    # The same fit again and again is refused before the ceiling is passed.
    with pytest.raises(BudgetExceededError):
        for _ in range(20):
            model.fit(X)
    assert 1 <= len(budget.history) < 20


@pytest.mark.parametrize("kind", ["auto", "renyi", "gdp", "sum"])
def test_the_rule_decides_and_never_what_is_spent(kind):
    X = np.random.default_rng(0).normal(size=(200, 2)) * 0.1
    budget = PrivacyAccountant(1.0, DELTA, filter=kind)
    kinds = []
    for _ in range(2):
        model = PrivateFrechetMean(
            "euclidean", epsilon=0.2, delta=DELTA / 3, accountant=budget, radius=1.0
        )
        kinds.append(model.fit(X).privacy_spent_.mu is not None)
    assert kinds == ([False, False] if kind == "sum" else [True, True])
    if kind != "gdp":  # which takes no radial noise
        whole = PrivacyAccountant(1.0, DELTA, filter=kind).whole()
        assert PrivateFrechetMean("euclidean", radius=1.0, **whole).fit(X).privacy_spent_.mu is None


def test_without_a_ceiling_or_delta_nothing_composes():
    for epsilon, delta in [(1.0, DELTA), (0.1, DELTA)]:
        assert not PrivacyAccountant().composes(epsilon, delta)
        assert not PrivacyAccountant(1.0, 0.0).composes(epsilon, 0.0)
        assert PrivacyAccountant(1.0, DELTA).composes(epsilon, DELTA / 3)
    budget = PrivacyAccountant(1.0, DELTA)
    assert not budget.composes(1.0, DELTA) and not budget.composes(2.0, DELTA)
    assert not budget.composes(0.1, 0.0) and budget.composes(1.0, 0.9 * DELTA)
    part = budget.split(2, gaussian=True)[0]
    assert part.composes(part.epsilon, part.delta) and not part.composes(0.1, 0.0)


@pytest.mark.parametrize("kind", ["auto", "renyi"])
def test_sampled_fits_cost_less_for_less(kind):
    """Batch and steps come from public sizes, so costs fall with epsilon."""
    rule = make_filter(kind, 1.0, DELTA)
    models = [
        (
            PrivateNoisyAdaGrad(batch_size=200, subspace=np.eye(4)[:, :3], fit_intercept=False),
            {"n": 2000, "p": 4, "classes": np.arange(2), "sparse": False},
        ),
        (
            PrivateMatrixCompletion(bounds=(1, 5), mechanism="stochastic", rank=2),
            {"n": 500, "d": 30},
        ),
    ]
    for model, facts in models:
        plan = planner(model, facts)
        costs = [rule.cost(plan(Terms(e, DELTA / 3, True))) for e in (0.1, 0.3, 0.5, 1.0)]
        for less, more in zip(costs, costs[1:], strict=False):
            assert all(a <= b for a, b in zip(less, more, strict=True) if a is not None)


def test_a_search_costs_less_for_less():
    X = np.random.default_rng(0).normal(size=(400, 2)) * 0.1
    largest = []
    for epsilon in (0.1, 0.2, 0.4):
        budget = PrivacyAccountant(20.0, DELTA)
        search = PrivateGridSearchCV(
            PrivateFrechetMean("euclidean", delta=DELTA, epsilon=epsilon, radius=1.0),
            {"radius": [0.3, 0.5]},
            loss_bound=1.0,
            delta=DELTA,
            accountant=budget,
        )
        search.fit(X)
        assert budget.history[0].params["epsilon"] > epsilon
        assert search.privacy_spent_.event.event.mu is not None  # runs are Gaussian
        largest.append(budget.remaining().used)
    assert largest == sorted(largest)


def test_a_refused_search_runs_nothing():
    X = np.random.default_rng(0).normal(size=(100, 2)) * 0.1
    budget = PrivacyAccountant(0.1, DELTA)
    search = PrivateGridSearchCV(
        PrivateFrechetMean("euclidean", delta=DELTA, radius=1.0),
        {"epsilon": [0.5, 1.0]},
        loss_bound=1.0,
        delta=DELTA,
        accountant=budget,
    )
    with pytest.raises(BudgetExceededError):
        search.fit(X)
    assert len(budget.history) == 0
