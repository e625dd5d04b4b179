"""Faults planted one at a time, to see that the pairs refute each of them."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import pkgutil
import sys
import textwrap
import time
from importlib import import_module
from pathlib import Path
from unittest import mock

from replay.pairs import PAIRS
from replay.tape import Fault, Purse, Refuted

import skriemdp
from skriemdp.mechanisms import covariance
from skriemdp.privacy import sensitivity
from skriemdp.privacy.events import ComposedEvent, GaussianEvent

PACKAGE = Path(skriemdp.__file__).parent


@dataclasses.dataclass(frozen=True)
class Planted:
    """What was planted, and which pair refuted it; None where none did."""

    kind: str
    place: str
    by: str | None


@functools.cache
def replayed(pair):
    """Tape of a pair without a fault, its seconds, and the theorems that its fit asked."""
    asked: set = set()
    started = time.process_time()
    with contextlib.ExitStack() as stack:
        for name, (function, users) in theorems().items():
            stack.enter_context(returning(name, users, _noting(name, function, asked)))
        tape = pair.run()
    return tape, time.process_time() - started, asked


def _noting(name, function, asked):
    def noted(*arguments, **settings):
        asked.add(name)
        return function(*arguments, **settings)

    return noted


def baseline() -> dict:
    """Pair to what `replayed` says of it; pairs that show known faults are left out."""
    return {pair: replayed(pair) for pair in PAIRS if not pair.xfail}


def quickest(pairs):
    """`pairs` by the time of their fits."""
    return sorted(pairs, key=lambda pair: replayed(pair)[1])


def refuting(pairs, fault=None, planted=contextlib.nullcontext):
    """Name of the first of `pairs` that refutes a fault, given to its tape or planted in code."""
    for pair in pairs:
        try:
            with planted():
                pair.run(fault)
        except Refuted:
            return pair.name
        except RuntimeError:  # the fit itself saw that its plan costs more than it may
            return f"{pair.name}, refused"
    return None


# -- every place that draws noise -----------------------------------------------------------------


def sites() -> dict:
    """Place to the pairs that reach it, those first that move its statistic most per second."""
    found: dict = {}
    for pair, (tape, seconds, _) in baseline().items():
        moved: dict = {}
        for draw in tape.draws:
            moved[draw.site] = max(moved.get(draw.site, 0.0), draw.moved)
        for site, most in moved.items():
            found.setdefault(site, []).append((most <= 0.5, seconds, pair.name, pair))
    return {site: [entry[-1] for entry in sorted(e)] for site, e in sorted(found.items())}


def faults_at_draws():
    """The noise halved, the bound and with it the noise halved, and the release made twice."""
    for site, pairs in sites().items():
        for kind in ("bound", "scale", "twice"):
            yield Planted(kind, site, refuting(pairs[:4], Fault(kind, site)))


def calls_of_draw() -> set:
    """``(module, line)`` of every call of ``noise.draw`` in the package."""
    calls = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "noise.draw":
                module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
                calls.add((module, node.lineno, node.end_lineno))
    return calls


def calls_reached() -> set:
    """Those that some pair reaches."""
    lines = {draw.call for tape, _, _ in baseline().values() for draw in tape.draws}
    return {call for call in calls_of_draw() if any(_within(call, line) for line in lines)}


def _within(call, line):
    return line[0] == call[0] and call[1] <= line[1] <= call[2]


# -- every function that proves a sensitivity -----------------------------------------------------


@functools.cache
def theorems() -> dict:
    """Name to ``(function, users)``: the modules of the package that call it."""
    for module in pkgutil.walk_packages(skriemdp.__path__, "skriemdp."):
        if module.name != "skriemdp.federated.flower":
            import_module(module.name)
    functions = {name: getattr(sensitivity, name) for name in sensitivity.__all__}
    functions |= {n: getattr(covariance, n) for n in covariance.__all__ if n.endswith("sitivity")}
    loaded = [m for n, m in sys.modules.items() if n.startswith("skriemdp.")]
    found = {}
    for name, function in functions.items():
        users = [m for m in loaded if vars(m).get(name) is function and _calls(m, name)]
        found[name] = (function, users)
    return found


def _calls(module, name):
    tree = ast.parse(inspect.getsource(module))
    return any(isinstance(n, ast.Call) and ast.unparse(n.func) == name for n in ast.walk(tree))


@contextlib.contextmanager
def returning(name, users, function):
    """Every caller gets `function` under this name."""
    with contextlib.ExitStack() as stack:
        for module in users:
            stack.enter_context(mock.patch.object(module, name, function))
        _forget()
        try:
            yield
        finally:
            _forget()


def _forget():
    """Empty the caches that would remember a theorem from before or during a fault."""
    for module in [m for n, m in sys.modules.items() if n.startswith("skriemdp.privacy.mean")]:
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def faults_in_theorems():
    """Each function that somebody calls, halved."""
    for name, (function, users) in theorems().items():
        if users:
            pairs = quickest(pair for pair, (_, _, asked) in baseline().items() if name in asked)
            half = functools.partial(returning, name, users, _half(function))
            yield Planted("theorem", name, refuting(pairs, None, half))


def _half(function):
    return lambda *arguments, **settings: 0.5 * function(*arguments, **settings)


# -- charges --------------------------------------------------------------------------------------


def faults_in_charges():
    """Nothing charged, less charged, one part of the charge left out; for every estimator."""
    seen = set()
    for pair in quickest(baseline()):
        event = replayed(pair)[0].charges[0][1]
        for name, other in _cheaper(event):
            key = (pair.name.split()[0], name, _outline(event))
            if key in seen:
                continue
            seen.add(key)
            planted = functools.partial(_charging, other)
            yield Planted(name, f"{pair.name}: {_outline(event)}", refuting([pair], None, planted))


def _outline(event):
    parts = getattr(event, "events", None)
    inside = "" if parts is None else f"({', '.join(sorted({_outline(e) for e in parts}))})"
    return type(event).__name__ + inside


def _cheaper(event):
    yield "charge dropped", lambda e: None
    if isinstance(event, ComposedEvent):
        for i in range(len(event.events)):
            yield f"part {i} of the charge dropped", functools.partial(_without, i)
    if isinstance(event, GaussianEvent):
        yield "charge halved", lambda e: GaussianEvent(2.0 * e.noise_multiplier, e.count)


def _without(i, event):
    return ComposedEvent((*event.events[:i], *event.events[i + 1 :]))


@contextlib.contextmanager
def _charging(change):
    original = Purse.spend
    first = []

    def spend(purse, event, **details):
        if not first:
            first.append(1)
            event = change(event)
        return None if event is None else original(purse, event, **details)

    with mock.patch.object(Purse, "spend", spend):
        yield


# -- lines of code --------------------------------------------------------------------------------

# Module, function, what its source says, and what it says when the fault is planted.
LINES = (
    ("pca.bounds", "_Budget._take", "self.left -= share", "pass"),
    ("pca.releases", "_noisy_product", "row_norm**2 * (1.0 if", "row_norm**2 * (0.5 if"),
    ("pca.releases", "_noisy_product", "else math.sqrt(2.0))", "else math.sqrt(0.5))"),
    ("pca.releases", "_noisy_product", "min(2.0 * bound", "min(bound"),
    ("pca.releases", "_with_variances", "row_norm**2 * (1.0 if", "row_norm**2 * (0.5 if"),
    ("pca.releases", "_with_variances", "math.sqrt(2.0)) / rows.n", "math.sqrt(0.5)) / rows.n"),
    ("pca.releases", "_with_variances", "row_norm**2 / rows.n)", "0.5 * row_norm**2 / rows.n)"),
    ("pca.bounds", "BoundsSearch._mean", "2.0 * bound / self.n", "bound / self.n"),
    ("pca.bounds", "BoundsSearch._effective_rank", "1.0 / pairs", "0.5 / pairs"),
    ("pca.rows", "clip_weights", "return weights", "return np.ones_like(weights)"),
    ("mean.search", "BallSearch._mean_log", "2.0 * radius / self.n", "radius / self.n"),
    ("mean.releases", "plan_tangent_mean", "smallest = 2.0 * radius / n", "smallest = radius / n"),
    ("mean.output", "plan_output_mean", "geometry, 2 * radius,", "geometry, radius,"),
    ("mean.planning", "split_budget", "1.0 - _COUNT - search", "1.0 - search"),
    ("mean.planning", "_radial_budget", "rest * epsilon, rest * delta)\n", "epsilon, delta)\n"),
    ("mechanisms.counts", "SumsAndCounts.count_sigma", "return 2.0 *", "return 1.0 *"),
    ("mechanisms.counts", "GaussianCount.sigma", "self.noise_multiplier", "self.noise_multiplier / 2"),
    ("mechanisms.counts", "LaplaceCount.release", "1.0 / self.epsilon", "0.5 / self.epsilon"),
    ("mechanisms.quantile", "PrivateQuantile.sigma", "math.sqrt(self.counts)", "1.0"),
    ("mechanisms.quantile", "ExponentialQuantile.release_counts", "0.5 * self.epsilon * utility", "self.epsilon * utility"),
    ("mechanisms.bingham", "ExponentialDirection.release", "2.0 * self.bound**2", "self.bound**2"),
    ("mechanisms.lattice", "LatticeSum.integers", "np.maximum(norm, longest)", "longest"),
    ("mechanisms.lattice", "LatticeSum.release", "2 * self.units", "self.units"),
    ("completion.releases", "CompletionPlan.main_share", "1.0 - sum(self.small.values())", "1.0"),
    ("completion.item_effects", "ItemEffects.totals", "np.minimum(1.0, self.tau / np.sqrt(np.maximum(counts, 1)))", "np.ones(len(counts))"),
    ("completion.item_effects", "DyadicMedian.sigma", "math.sqrt(2.0)", "math.sqrt(0.5)"),
    ("completion.local_factors", "RidgeVote.release", "self.bound / np.maximum(norms, 1e-300)", "1.0"),
    ("completion.local_factors", "RidgeVote.sigma", "2.0 * self.bound", "self.bound"),
    ("completion.signal", "SignalTest.sigma", "2.0 *", "1.0 *"),
    ("regression.wrapped_model", "WrappedModel.sigma", "2.0 *", "1.0 *"),
    ("regression.wrapped_model", "_clip_columns", None, "return gradients"),
    ("regression.structured_prediction", "WeightedMean.noise_multiplier", "math.sqrt(self.n_steps)", "1.0"),
    ("regression.structured_prediction", "WeightedMean.sigma", "2.0 *", "1.0 *"),
    ("linear_model.adagrad", "NoisyAdaGrad.event", "GaussianEvent(self.moment_multiplier, count=self.n_steps)", "GaussianEvent(self.moment_multiplier)"),
    ("selection", "PrivateGridSearchCV._run", "self.loss_bound / len(test[0])", "self.loss_bound / len(train[0])"),
    ("federated.training", "LocalSettings.sampler", "PoissonSampler(self.batch_fraction * n)", "PoissonSampler(0.5 * self.batch_fraction * n)"),
    ("federated.participation", "Participation.most_rounds", "math.ceil(self.n_rounds", "math.floor(0.5 * self.n_rounds"),
)


@contextlib.contextmanager
def line_changed(module, name, old, new):
    """A function of the package with one piece of its source replaced."""
    module = import_module(f"skriemdp.{module}")
    *owners, last = name.split(".")
    owner = module
    for part in owners:
        owner = getattr(owner, part)
    original = vars(owner)[last]
    function = inspect.unwrap(getattr(original, "fget", original))
    source = textwrap.dedent(inspect.getsource(function))
    if old is None:
        head, body = source.split("):\n", 1)
        changed = f"{head}):\n    {new}\n{body}"
    else:
        if old not in source:
            raise LookupError(f"{name} no longer says {old!r}: say what it says now, or drop it.")
        changed = source.replace(old, new, 1)
    space: dict = {}
    exec(compile(changed, f"<{name} with a fault>", "exec"), vars(module), space)
    planted = space[last]
    users = [m for n, m in sys.modules.items() if n.startswith("skriemdp.")]
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(owner, last, planted))
        if owner is module:
            for user in users:
                if vars(user).get(last) is original:
                    stack.enter_context(mock.patch.object(user, last, planted))
        _forget()
        try:
            yield
        finally:
            _forget()


def faults_in_lines():
    """Each of `LINES`, refuted by pairs of its package."""
    for module, name, old, new in LINES:
        planted = functools.partial(line_changed, module, name, old, new)
        pairs = _reaching(module, name)
        yield Planted("line", f"{module}:{name}: {old} -> {new}", refuting(pairs, None, planted))


def _reaching(module, name):
    """Pairs that may run the function: by package, the quickest first."""
    word = {"completion": "completion", "pca": "pca", "mean": "mean", "regression": "regression"}
    word |= {"linear_model": "adagrad", "selection": "search", "federated": "federated"}
    word = word.get(module.split(".")[0], "")
    pairs = [pair for pair in baseline() if word in pair.name]
    return quickest(pairs)
