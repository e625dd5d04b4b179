"""What a fit may take is what its event pays for: one release more is refused before its noise."""

from __future__ import annotations

import ast
import inspect
import math
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import skriemdp
from skriemdp import (
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateHyperbolicRegressor,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
)
from skriemdp._descent.stochastic import RiemannianSGD
from skriemdp._descent.variance_reduction import RiemannianSVRG
from skriemdp._linear_model.adagrad import NoisyAdaGrad
from skriemdp._location_scale.search import ROUGH, LocationScaleSearch
from skriemdp._mechanisms.budget import GaussianBudget, PureBudget, Release, Steps
from skriemdp._pca.search_releases import BoundsSearch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 3)) + 2.0
CLASSES = (X[:, 0] > 2.0).astype(int)
DIRECTIONS = X / np.linalg.norm(X, axis=1, keepdims=True)
SQUARED = {"gradient": lambda p, x, t: p - x, "manifold": "euclidean"}

SEARCHED = {
    "mean, Laplace noise": lambda: PrivateFrechetMean("euclidean").fit(X),
    "mean, Gaussian noise": lambda: PrivateFrechetMean("euclidean", noise="gaussian").fit(X),
    "mean, gradient": lambda: PrivateFrechetMean("sphere", mechanism="gradient").fit(DIRECTIONS),
    "mean of people": lambda: PrivateFrechetMean("euclidean").fit(X, groups=np.arange(2000) // 2),
    "mean with bars": lambda: PrivateFrechetMean("sphere", uncertainty=True).fit(DIRECTIONS),
    "median": lambda: PrivateFrechetMean("euclidean", statistic="median").fit(X),
    "classes": lambda: PrivateMinimumDistanceToMean("euclidean", classes=[0, 1]).fit(X, CLASSES),
    "linear": lambda: PrivateNoisyAdaGrad("log_loss", classes=[0, 1]).fit(X, CLASSES),
    "linear, sampled": lambda: PrivateNoisyAdaGrad(
        "log_loss", classes=[0, 1], batch_size=500, n_steps=20
    ).fit(X, CLASSES),
    "geodesic": lambda: PrivateGeodesicRegressor("sphere").fit(X, DIRECTIONS),
    "hyperbolic": lambda: PrivateHyperbolicRegressor().fit(X, 0.1 * X[:, :2]),
}


def more(budget, made, name=ROUGH, share=0.3):
    """One release more; `made` hears of it where nothing refuses it."""
    budget.take(share, name, 3)
    made.append(name)


def refused(fit, made):
    with pytest.raises(RuntimeError, match="budget planned"):
        fit()
    assert made == []


@pytest.mark.parametrize("name", SEARCHED)
def test_one_release_more_in_a_search_is_refused(name, monkeypatch):
    made, walk = [], LocationScaleSearch._walk

    def greedy(self, records, start, budget, streams):
        found = walk(self, records, start, budget, streams)
        more(budget, made)
        return found

    monkeypatch.setattr(LocationScaleSearch, "_walk", greedy)
    refused(SEARCHED[name], made)


@pytest.mark.parametrize("late", [{}, {"noise": "gaussian"}, {"noise": "laplace"}], ids=str)
def test_searches_in_a_public_ball_take_what_was_planned(late, monkeypatch):
    model = PrivateFrechetMean("euclidean", center=np.zeros(3), radius=50.0, **late)
    assert model.plan(2000, 3).mechanism.startswith("adaptive")
    monkeypatch.setitem(SEARCHED, "public", lambda: model.fit(X))
    test_one_release_more_in_a_search_is_refused("public", monkeypatch)


def test_looks_of_bars_in_a_public_ball_take_what_was_planned(monkeypatch):
    made, release = [], LocationScaleSearch.release

    def greedy(self, records, budget, streams):
        found = release(self, records, budget, streams)
        more(budget, made, self.name, 0.1)
        return found

    monkeypatch.setattr(LocationScaleSearch, "release", greedy)
    model = PrivateFrechetMean("euclidean", center=np.zeros(3), radius=50.0, uncertainty=True)
    refused(lambda: model.fit(X), made)


def test_private_clip_norms_have_no_share_of_the_run(monkeypatch):
    made, release = [], LocationScaleSearch.release

    def greedy(self, records, budget, streams):
        found = release(self, records, budget, streams)
        more(budget, made, "gradients", 0.1)
        return found

    monkeypatch.setattr(LocationScaleSearch, "release", greedy)
    refused(lambda: PrivateRiemannianERM(**SQUARED, clip_norm="private").fit(X), made)


@pytest.mark.parametrize("way", [{"delta": 0.0}, {}, {"mechanism": "power"}], ids=str)
def test_components_pure_or_not_refuse_one_release_more(way, monkeypatch):
    made, found = [], BoundsSearch._found

    def greedy(self, asked):
        bounds = found(self, asked)
        more(asked.budget, made, "mean")
        return bounds

    monkeypatch.setattr(BoundsSearch, "_found", greedy)
    refused(lambda: PrivatePrincipalEigenvector(**way).fit(X), made)


# -- runs ------------------------------------------------------------------------------------------

SVRG = {"solver": "variance-reduced", "batch_size": 50, "n_steps": 20, "clip_norm": 5.0}
RUNS = {
    "an anchor more": (RiemannianSVRG, "range(self.n_epochs)", SVRG),
    "a step more of an anchor": (RiemannianSVRG, "range(self.epoch_length)", SVRG),
    "a sampled step more": (
        RiemannianSGD,
        "range(self.moves.n_steps)",
        {"batch_size": 50, "n_steps": 10, "clip_norm": 5.0},
    ),
    "a step more of a sampled linear model": (
        NoisyAdaGrad,
        'counted("AdaGrad", self.n_steps)',
        {"batch_size": 50, "n_steps": 10},
    ),
    "a step more of a linear model": (
        NoisyAdaGrad,
        'counted("AdaGrad", self.n_steps)',
        {"n_steps": 10},
    ),
}


def planted(kind, place):
    """The method `solve` of a solver, whose loop at `place` runs once more."""
    text = textwrap.dedent(inspect.getsource(kind.solve))
    assert text.count(place) == 1
    space = dict(vars(sys.modules[kind.__module__]))
    exec(text.replace(place, f"{place[:-1]} + 1)"), space)
    return space["solve"]


@pytest.mark.parametrize("name", RUNS)
def test_one_step_more_of_a_run_is_refused(name, monkeypatch):
    kind, place, way = RUNS[name]

    def fit():
        if kind is NoisyAdaGrad:
            return PrivateNoisyAdaGrad("log_loss", classes=[0, 1], **way).fit(X, CLASSES)
        return PrivateRiemannianERM(**SQUARED, start=np.zeros(3), **way).fit(X)

    fit()
    monkeypatch.setattr(kind, "solve", planted(kind, place))
    with pytest.raises(RuntimeError, match="step exceeds"):
        fit()


def test_a_run_has_as_many_steps_as_its_event():
    steps = Steps(2)
    steps.take()
    steps.take()
    with pytest.raises(RuntimeError, match="step exceeds"):
        steps.take()


# -- the rule --------------------------------------------------------------------------------------

PLANNED = (Release("a", 0.2, "gaussian"), Release("b", 0.3, "gaussian"), Release("c", 0.1, "x"))


@pytest.mark.parametrize("kind", [GaussianBudget, PureBudget])
@pytest.mark.parametrize(
    ("taken", "refused"),
    [
        ([("a", 0.2), ("b", 0.3), ("c", 0.1)], False),
        ([("a", 0.1), ("a", 0.1), ("b", 0.3)], False),
        ([("a", 0.1), ("b", 0.4), ("c", 0.1)], False),  # what a leaves goes to b
        ([("b", 0.3), ("a", 0.2), ("c", 0.1)], False),
        ([("c", 0.1), ("b", 0.3), ("a", 0.2)], False),
        ([("c", 0.6)], False),
        ([("a", 0.3)], True),  # never what others have not had
        ([("b", 0.5), ("a", 0.2)], True),
        ([("c", 0.6), ("a", 0.1)], True),
        ([("a", 0.2), ("b", 0.3), ("c", 0.1 + 1e-12)], True),
        ([("d", 0.01)], True),
        ([("a", math.nan)], True),
        ([("a", -0.1)], True),
    ],
)
def test_shares_go_from_earlier_names_to_later_ones(kind, taken, refused):
    budget = kind(1.0, PLANNED)
    for name, share in taken[:-1]:
        budget.take(share, name)
    name, share = taken[-1]
    if not refused:
        budget.take(share, name)
        return
    left = budget.remaining
    with pytest.raises(RuntimeError, match=f"{name!r} exceeds"):
        budget.take(share, name)
    assert budget.remaining == left


def test_the_rest_is_no_more_than_was_planned():
    with pytest.raises(RuntimeError):
        GaussianBudget(1.0, PLANNED).rest("c")
    whole = (*PLANNED, Release("mean", 0.4, "gaussian"))
    budget = GaussianBudget(1.0, whole)
    budget.take(0.1, "b")
    assert budget.rest("mean") == math.sqrt(0.9)


def test_many_shares_do_not_trip_over_rounding():
    rng = np.random.default_rng(0)
    for _ in range(200):
        shares = rng.dirichlet(np.ones(12))
        plan = GaussianBudget(1.0)
        for k, share in enumerate(shares[:-1]):
            plan.take(float(share), str(k % 5))
        plan.rest("last")
        fit = GaussianBudget(1.0, plan.releases)
        for k in rng.permutation(11):
            fit.take(float(shares[k]), str(k % 5))
        fit.rest("last")
    assert fit.remaining == 0.0


def opened_without_a_plan(text):
    """Functions that release, and open a budget without saying what was planned."""
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef):
            given = {a.arg for a in [*function.args.args, *function.args.kwonlyargs]}
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and len(node.args) + len(node.keywords) < 2:
                    name = ast.unparse(node.func).rpartition(".")[2]
                    if name in ("GaussianBudget", "PureBudget") and given & {"streams", "rng"}:
                        yield function.name


def test_fits_open_no_budget_without_what_was_planned():
    release = "def release(self, records, streams):\n    budget = {}\n"
    assert list(opened_without_a_plan(release.format("GaussianBudget(self.mu)"))) == ["release"]
    assert not list(opened_without_a_plan(release.format("GaussianBudget(self.mu, planned)")))
    package = Path(skriemdp.__file__).parent
    for path in package.rglob("*.py"):
        assert not list(opened_without_a_plan(path.read_text())), path
