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

import skriemdp
from replay.pairs import PAIRS
from replay.tape import Fault, Purse, Refuted
from skriemdp.mechanisms import sums
from skriemdp.privacy import mean_iteration, sensitivity
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
    noting = [
        (user, name, _noting((user.__name__, name), function, asked))
        for name, (function, users) in theorems().items()
        for user in users
    ]
    with patched(noting):
        tape = pair.run(strangers=True)
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
    functions = {
        name: value
        for name, value in vars(sensitivity).items()
        if getattr(value, "__module__", "") == sensitivity.__name__
        and not inspect.isclass(value)
        and not name.startswith(("_", "check"))
    }
    loaded = [m for n, m in sys.modules.items() if n.startswith("skriemdp.")]
    found = {}
    for name, function in functions.items():
        users = [m for m in loaded if vars(m).get(name) is function and _calls(m, name)]
        found[name] = (function, [user for user in users if user is not sensitivity])
    return found


def _calls(module, name):
    tree = ast.parse(inspect.getsource(module))
    return any(isinstance(n, ast.Call) and ast.unparse(n.func) == name for n in ast.walk(tree))


@contextlib.contextmanager
def patched(changes):
    """``(owner, name, value)``: names of the package that stand for other values meanwhile."""
    with contextlib.ExitStack() as stack:
        for owner, name, value in changes:
            stack.enter_context(mock.patch.object(owner, name, value))
        _forget()
        try:
            yield
        finally:
            _forget()


def _forget():
    """Empty the caches that would remember a theorem from before or during a fault."""
    for module in (mean_iteration, sums):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def faults_in_theorems():
    """Each function halved for each module that calls it."""
    for name, (function, users) in theorems().items():
        for user in users:
            asked = (user.__name__, name)
            pairs = quickest(pair for pair, facts in baseline().items() if asked in facts[2])
            half = functools.partial(patched, [(user, name, _half(function))])
            place = f"{name} in {user.__name__}"
            yield Planted("theorem", place, refuting(pairs, None, half))


def _half(function):
    def half(*arguments, **settings):
        whole = function(*arguments, **settings)
        if isinstance(whole, sensitivity.Sensitivity):
            return dataclasses.replace(whole, value=0.5 * whole.value)
        return 0.5 * whole

    return half


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


@dataclasses.dataclass(frozen=True)
class Line:
    """A function, what its source says, what it says with the fault, and pairs that run it."""

    function: str
    says: str
    planted: str
    pairs: str = ""


_MEMBERS = "mechanisms.memberships"
_SEARCH = "selection.estimator:PrivateGridSearchCV._run"
_QUERIES = "regression.prediction_releases:WeightedMean"
_PRODUCT = "privacy.sensitivity:frame_product_sensitivity"
_LATTICE = "mechanisms.integers"
_LIFTED = "mechanisms.lifted_moments:LiftedMoments"
_UNWEIGHTED = "np.minimum(1.0, weight / np.sqrt(np.maximum(counts, 1)))"
_EXACT = "mechanisms.integer_products"
_ROOTS = "GaussianEvent(self.moment_multiplier, count=self.n_steps)"
_ROUNDS = "math.ceil(self.n_rounds"

LINES = (
    Line(
        "mechanisms.bounds:Ball.enforce",
        "_shortened(offsets, self.radius, unit)",
        "offsets / (unit or 1.0)",
        "erm ",
    ),
    Line("mechanisms.sums:release_integers", "2 * lattice.units", "lattice.units", "mean lattice"),
    Line("mechanisms.sums:integer_total", "lattice.integers(", "2.0 * lattice.integers(", "erm p"),
    Line("descent.releases:PoissonSampler.event", "integers=self.integers", "integers=0", "erm p"),
    Line(
        "descent.releases:FixedSizeSampler.event", "integers=self.integers", "integers=0", "erm f"
    ),
    Line(
        "mechanisms.sums:integer_sums",
        "lattice.integers(",
        "2.0 * lattice.integers(",
        "federated rsgd 1.0",
    ),
    Line(
        "mechanisms.integer_products:IntegerFactors.limits",
        "self.units * (1.0 - _SLACK) / lengths - half",
        "3.0 * self.units / lengths",
        "adagrad ",
    ),
    Line("mechanisms.vector:GaussianNoise.sigma", "self.sens", "0.5 * self.sens", "pca cov"),
    Line("mechanisms.vector:RadialNoise.scale", "self.sens", "0.5 * self.sens", "mean laplace"),
    Line(f"{_LATTICE}:IntegerBall.spacing", "(self.units -", "(3 * self.units -", "mean lattice"),
    Line(
        f"{_LATTICE}:IntegerBall.integers",
        "self.bound.enforce(rows, self.spacing)",
        "rows / self.spacing",
        "erm descent",
    ),
    Line(f"{_LATTICE}:IntegerWeights.spacing", "2.0 * (1.0", "1.0 * (1.0", "queries"),
    Line(
        f"{_LATTICE}:IntegerWeights.vectors",
        "self.bound / lengths, 1.0",
        "2.0 * self.bound / lengths, 2.0",
        "queries",
    ),
    Line(f"{_LATTICE}:IntegerWeights.weights", "self.root *", "2.0 * self.root *", "queries"),
    Line(f"{_LATTICE}:IntegerPairs.spacing", "2.0 * (1.0", "1.0 * (1.0", "class means"),
    Line(
        f"{_LATTICE}:IntegerPairs.integers",
        "shortened(rows / self.bound, 1.0)",
        "2.0 * rows / self.bound",
        "class means",
    ),
    Line(
        f"{_LATTICE}:ExactTotal.add_rows",
        "self.add(_float_sum(piece), len(piece))",
        "self.add(3 * _float_sum(piece), len(piece))",
        "mean lattice",
    ),
    Line(
        "mechanisms.counts:GaussianCount.release",
        "sensitivity=units",
        "sensitivity=units // 2",
        "mean counts",
    ),
    Line("mechanisms.counts:LaplaceCount.scale", "self.sens", "0.5 * self.sens", "mean laplace 0"),
    Line("mechanisms.quantile:PrivateQuantile.sigma", "math.sqrt(self.counts)", "1.0", "adaptive"),
    Line(
        "mechanisms.quantile:ExponentialQuantile.release_counts",
        "0.5 * self.epsilon / self",
        "self.epsilon / self",
        "pca exponential noisy",
    ),
    Line(
        "mechanisms.bingham:ExponentialDirection.release",
        "self.epsilon / self",
        "2.0 * self.epsilon / self",
        "pca exponential 1",
    ),
    Line(_PRODUCT, "(1.0 if", "(0.5 if", "pca power 1, long"),
    Line(_PRODUCT, "else math.sqrt(2.0))", "else math.sqrt(0.5))", "pca power 2, long"),
    Line(_PRODUCT, "min(2.0 * bound", "min(bound", "pca refine"),
    Line(
        f"{_EXACT}:IntegerFrames.spacing", "(self.longest -", "(2 * self.longest -", "exact, long"
    ),
    Line(
        f"{_EXACT}:IntegerFrames.longest", "factor * middle", "factor // 16 * middle", "exact, long"
    ),
    Line(
        "location_scale.rows:PairDifferences.__init__",
        "order[half : 2 * half]",
        "np.zeros(half, dtype=int)",
        "pca pairs",
    ),
    Line(
        "mechanisms.subspaces:ProjectorSum._products",
        "bound / np.maximum(norms, bound)",
        "1.0",
        "search start long frames",
    ),
    Line(
        "mechanisms.subspaces:ProjectorSum._spacing",
        "self._diameter.value",
        "0.5 * self._diameter.value",
        "search start grassmann",
    ),
    Line(
        "location_scale.search:LocationScaleSearch._walk",
        "budget.take(share)",
        "2.0 * budget.take(share)",
        "search hyperboloid",
    ),
    Line(
        "location_scale.points:PointRecords.logarithms",
        "center, radius, self.points",
        "center, float(np.max(next(self.distances(center)))), self.points",
        "search hyperboloid",
    ),
    # People: a class counted with its whole weight, means that nobody shortens, rows counted as
    # people, and weights that everybody's number of rows decides.
    Line(
        "mean.class_releases:_by_person",
        "np.sqrt(classes[owners])",
        "np.ones(len(owners))",
        "people class means",
    ),
    Line(
        "mean.class_releases:ClassSums._noisy_classes",
        "weights[:, None] * shortened",
        "weights[:, None] * vectors",
        "people class means beyond float",
    ),
    # A person whose number is written in two ways counts as two.
    Line("_groups:_key", "return 0, _exact(value.real)", "return 0, repr(value)", "ids mixed"),
    # Clients: a person of two clients who pays one, a share that is the whole, shares of more than
    # there is, and rows counted as people.
    Line("federated.clients:read_clients", "most = int(", "most = 1 + 0 * int(", "of two"),
    Line("federated.sums:share", "if times == 1:", "if True:", "federated class sums"),
    Line(
        "federated.sums:planned_sums",
        "share(float(",
        "4.0 * share(float(",
        "federated log sums",
    ),
    Line(
        "federated.clients:Clients.part",
        "self.people[place]",
        "Groups.from_ids(np.arange(len(self.rows[place])))",
        "people",
    ),
    Line(
        "federated.releases:Participation.record_event",
        "self.most_rounds * clients",
        "self.most_rounds",
        "federated erm people of two",
    ),
    Line("core.estimator:Data.by_group", "groups.count", "len(groups.order)", "people mean"),
    Line("core.estimator:Data.by_group", "groups.count", "len(groups.order)", "people erm poisson"),
    Line(
        "_groups:Groups.means",
        "np.repeat(1.0 / sizes, sizes)",
        "np.repeat(1.0 / np.full(self.count, sizes.mean()), sizes)",
        "people erm 1 ",
    ),
    Line("mechanisms.budget:_Budget._take", "self.left -= share", "pass", "pca"),
    Line(
        "location_scale.rows:_shrinking",
        "np.where(np.isfinite(squares), factors, 0.0)",
        "np.ones_like(squares)",
        "pca",
    ),
    Line(
        "pca.releases:_float_variances",
        "second_moment_sensitivity(row_norm)",
        "interval_sensitivity(0.7 * row_norm**2)",
        "pca exponential 2",
    ),
    Line(
        "mean.output_releases:_k_norm_mean",
        "ball_sensitivity(ball.radius)",
        "ball_sensitivity(0.5 * ball.radius)",
        "mean k-norm",
    ),
    Line(
        "mean.output_releases:_k_norm_mean",
        "ball_logarithms_sensitivity(ball.radius,",
        "ball_logarithms_sensitivity(0.5 * ball.radius,",
        "mean k-norm sphere",
    ),
    Line("mean.planning:_seeking_plan", "else first.mu", "else total", "mean adaptive radial"),
    Line("mean.planning:_seeking_plan", "dim, first.mu,", "dim, 0.5 * first.mu,", "mean radial"),
    Line("mean.planning:_pure_plan", "budget.rest()", "epsilon", "mean laplace"),
    Line(
        "completion.releases:CompletionPlan.main_share",
        "1.0 - sum(self.small.values())",
        "1.0",
        "completion",
    ),
    Line(f"{_MEMBERS}:Memberships.bounded", _UNWEIGHTED, "np.ones(len(counts))", "completion"),
    Line(
        f"{_MEMBERS}:Memberships.bounded",
        "np.clip(self.values / bound, -1.0, 1.0)",
        "self.values / bound",
        "completion lattice",
    ),
    Line(
        f"{_MEMBERS}:IntegerMemberships.spacing",
        "return 2.0 * self.weight",
        "return 1.0 * self.weight",
        "completion lattice",
    ),
    Line(
        f"{_LATTICE}:IntegerNumber.release",
        "(self.units - 2)",
        "(3 * self.units)",
        "completion lattice signal",
    ),
    Line(
        "completion.ridge_releases:_Ballots.total",
        "self.bound.enforce(rows)",
        "rows",
        "completion covariance",
    ),
    Line("regression.wrapped_releases:clip_columns", "gradients *= scale", "", "parametric"),
    Line(f"{_QUERIES}.noise_multiplier", "math.sqrt(self.n_steps)", "1.0", "queries"),
    Line(f"{_QUERIES}.mechanism", "(self.clip_norm", "(0.5 * self.clip_norm", "queries"),
    Line(
        f"{_QUERIES}.release",
        "self.clip_norm / np.maximum(norms, self.clip_norm)",
        "1.0",
        "queries",
    ),
    Line(f"{_LIFTED}.norm", "1.0 + self.scale**2", "0.5", "moments"),
    Line(f"{_LIFTED}.lifts", "shortened(second[rows], self.norms[1])", "second[rows]", "moments"),
    Line("mean.joint_releases:JointMean.seen", "budget.rest()", "self.mu", "class moments"),
    Line(
        "linear_model.adagrad:NoisyAdaGrad.with_mu",
        "1.0 - _MOMENT_SHARE",
        "1.0",
        "adagrad root moments",
    ),
    Line(
        "linear_model.fit_plan:_event",
        "bounds.share + COUNT_SHARE",
        "COUNT_SHARE",
        "search sampled",
    ),
    Line(
        "linear_model.estimator:PrivateNoisyAdaGrad._release",
        "budget.rest()",
        "budget.total",
        "adagrad hinge",
    ),
    Line(
        "regression.estimator:PrivateHyperbolicRegressor._release",
        "budget.take(BASE_SHARE)",
        "pass",
        "private base",
    ),
    Line("erm.clipping:ClipNorm.share", "_SHARE if", "0.0 if", "erm found clip"),
    Line(_SEARCH, "scorer(test.n", "scorer(train.n", "search"),
    Line(
        _SEARCH,
        "0.0, self.loss_bound)",
        "0.0, None)",
        "search gaussian validation",
    ),
    Line(
        "federated.training:local_event",
        "noise_multiplier, 1000)",
        "2.0 * noise_multiplier, 1000)",
        "federated",
    ),
    Line(
        "federated.releases:Participation.most_rounds",
        _ROUNDS,
        _ROUNDS.replace("ceil(", "floor(0.5 * "),
        "federated",
    ),
)


@contextlib.contextmanager
def line_changed(line):
    """A function of the package with one piece of its source replaced."""
    module, name = line.function.split(":")
    module = import_module(f"skriemdp.{module}")
    *owners, last = name.split(".")
    owner = functools.reduce(getattr, owners, module)
    original = vars(owner)[last]
    function = getattr(original, "fget", original)
    if isinstance(original, functools.cached_property):
        function = original.func
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    if line.says not in source:
        raise LookupError(f"{name} no longer says {line.says!r}: plant the fault elsewhere.")
    space: dict = {}
    changed = source.replace(line.says, line.planted, 1)
    exec(compile(changed, f"<{name} with a fault>", "exec"), vars(module), space)
    if isinstance(space[last], functools.cached_property):
        space[last].__set_name__(owner, last)
    places = [owner]
    if owner is module:
        loaded = [m for n, m in sys.modules.items() if n.startswith("skriemdp.")]
        places = [m for m in loaded if vars(m).get(last) is original]
    with patched([(place, last, space[last]) for place in places]):
        yield


def faults_in_lines():
    """Each of `LINES`, given to the pairs it names."""
    for line in LINES:
        planted = functools.partial(line_changed, line)
        pairs = quickest(pair for pair in baseline() if line.pairs in pair.name)
        place = f"{line.function}: {line.says} -> {line.planted}"
        yield Planted("line", place, refuting(pairs, None, planted))
