"""Faults planted one at a time, to see that the pairs refute each of them."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import itertools
import logging
import math
import pkgutil
import sys
import types
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from unittest import mock

import numpy as np

import skriemdp
from replay.pairs import PAIRS
from replay.tape import Fault, Purse, Refuted, halved
from skriemdp._groups import Groups
from skriemdp._location_scale.row_releases import COUNT_SHARE, WHITE
from skriemdp._mechanisms.sum import Noisy
from skriemdp._mechanisms.units import Units
from skriemdp._regression.estimator import BASE_SHARE
from skriemdp._warnings import warn_user
from skriemdp.privacy import _mean_iteration as mean_iteration
from skriemdp.privacy import _sensitivity as sensitivity
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import ComposedEvent, GaussianEvent, SeededEvent

PACKAGE = Path(skriemdp.__file__).parent


@dataclasses.dataclass(frozen=True)
class Planted:
    """What was planted, and which pair refuted it; None where none did."""

    kind: str
    place: str
    by: str | None


@functools.cache
def replayed(pair):
    """Tape of a pair without a fault, and the theorems that its fit asked."""
    asked: set = set()
    noting = [
        (user, name, _noting((user.__name__, name), function, asked))
        for name, (function, users) in theorems().items()
        for user in users
    ]
    with patched(noting):
        tape = pair.run(strangers=True)
    return tape, asked


def _noting(name, function, asked):
    def noted(*arguments, **settings):
        asked.add(name)
        return function(*arguments, **settings)

    return noted


def baseline() -> dict:
    """Pair to what `replayed` says of it, without pairs that are slow or show known faults.

    In the order of `PAIRS`, where the quick ones of a family are first: which pair a fault is given
    to must not depend on how busy the machine is.
    """
    return {pair: replayed(pair) for pair in PAIRS if not pair.xfail and not pair.slow}


def refuting(pairs, fault=None, planted=contextlib.nullcontext, strangers=False):
    """Name of the first of `pairs` that refutes a fault, given to its tape or planted in code."""
    for pair in pairs:
        try:
            with planted():
                pair.run(fault, strangers)
        except Refuted:
            return pair.name
        except RuntimeError:  # the fit itself saw that its plan costs more than it may
            return f"{pair.name}, refused"
    return None


# -- every place that draws noise -----------------------------------------------------------------


def sites() -> dict:
    """Place to the pairs that reach it, those first that move its statistic by much."""
    found: dict = {}
    for place, (pair, (tape, _)) in enumerate(baseline().items()):
        moved: dict = {}
        for draw in tape.draws:
            moved[draw.site] = max(moved.get(draw.site, 0.0), draw.moved)
        for site, most in moved.items():
            found.setdefault(site, []).append((most <= 0.5, place, pair))
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


def method_of(call) -> str:
    """Where a call stands, as "module:Class.method"."""
    module, first, last = call
    names = []
    node = ast.parse(PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py").read_text())
    while node is not None:
        inside = [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.ClassDef | ast.FunctionDef)
            and child.lineno <= first <= last <= child.end_lineno
        ]
        node = inside[0] if inside else None
        names += [child.name for child in inside]
    return f"{module}:{'.'.join(names)}"


def calls_reached() -> set:
    """Those that some pair reaches."""
    lines = {draw.call for tape, _ in baseline().values() for draw in tape.draws}
    return {call for call in calls_of_draw() if any(_within(call, line) for line in lines)}


def _within(call, line):
    return line[0] == call[0] and call[1] <= line[1] <= call[2]


# -- every function that proves a sensitivity -----------------------------------------------------


@functools.cache
def theorems() -> dict:
    """Name to ``(function, users)``: the modules of the package that call it."""
    for module in pkgutil.walk_packages(skriemdp.__path__, "skriemdp."):
        if module.name not in ("skriemdp.federated.flower", "skriemdp.federated.nvflare"):
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
    for value in vars(mean_iteration).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()


def faults_in_theorems():
    """Each function halved for each module that calls it."""
    for name, (function, users) in theorems().items():
        for user in users:
            asked = (user.__name__, name)
            pairs = [pair for pair, (_, known) in baseline().items() if asked in known]
            half = functools.partial(patched, [(user, name, times(0.5)(function))])
            place = f"{name} in {user.__name__}"
            yield Planted("theorem", place, refuting(pairs, None, half))


# -- charges --------------------------------------------------------------------------------------


def faults_in_charges():
    """Nothing charged, less charged, one part of the charge left out; for every estimator."""
    seen = set()
    for pair, (tape, _) in baseline().items():
        event = tape.charges[0][1]
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
            event = change(event.event if isinstance(event, SeededEvent) else event)
        return None if event is None else original(purse, event, **details)

    with mock.patch.object(Purse, "spend", spend):
        yield


# -- functions and arguments ----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Change:
    """A function of the package, what becomes of it, and the pairs that run it.

    Attributes
    ----------
    place : str
        "module:function" or "module:Class.name", of a method, a property or a cached property.
    change : callable
        ``change(original)`` is what stands in its place.
    says : str
    pairs : str
        Part of their names.
    strangers : bool
        Whether the fault is one that shows on unrelated data.
    """

    place: str
    change: Callable
    says: str
    pairs: str = ""
    strangers: bool = False

    @property
    def name(self):
        """What the table calls it."""
        return f"{self.place}: {self.says} ({self.pairs.strip()})"

    def owner(self):
        """What holds the name, and the name."""
        module, name = self.place.split(":")
        *owners, last = name.split(".")
        return functools.reduce(getattr, owners, import_module(f"skriemdp.{module}")), last

    def standing(self):
        """The value with the fault."""
        owner, last = self.owner()
        original = vars(owner)[last]
        if isinstance(original, property):
            return property(self.change(original.fget))
        if isinstance(original, functools.cached_property):
            changed = functools.cached_property(self.change(original.func))
            changed.__set_name__(owner, last)
            return changed
        if isinstance(original, type):
            return self.change(original)
        return functools.wraps(original)(self.change(original))

    @contextlib.contextmanager
    def planted(self):
        """The fault in every module that holds the function."""
        owner, last = self.owner()
        places, original = [owner], vars(owner)[last]
        if inspect.ismodule(owner):
            loaded = [m for n, m in sys.modules.items() if n.startswith("skriemdp.")]
            places = [m for m in loaded if vars(m).get(last) is original]
        value = self.standing()
        with patched([(place, last, value) for place in places]):
            yield


def _arguments(function, arguments, settings):
    """What a function is given, by name."""
    bound = inspect.signature(function).bind(*arguments, **settings)
    bound.apply_defaults()
    return bound


def returns(change):
    """``change(result, given)`` instead of the result; `given` has the arguments by name."""

    def plant(original):
        def faulty(*arguments, **settings):
            given = types.SimpleNamespace(**_arguments(original, arguments, settings).arguments)
            return change(original(*arguments, **settings), given)

        return faulty

    return plant


def takes(**changes):
    """Other arguments: each is a function of those that were given."""

    def plant(original):
        def faulty(*arguments, **settings):
            bound = _arguments(original, arguments, settings)
            given = types.SimpleNamespace(**bound.arguments)
            assert changes.keys() <= bound.signature.parameters.keys()
            bound.arguments.update({name: make(given) for name, make in changes.items()})
            return original(*bound.args, **bound.kwargs)

        return faulty

    return plant


class _Stand:
    """An object with some attributes of other values."""

    def __init__(self, whole, **other):
        self.__dict__.update(other, _whole=whole)

    def __getattr__(self, name):
        return getattr(self._whole, name)


def sees(**changes):
    """A method that sees other attributes of its object: each is a function of the object."""
    return takes(self=lambda a: _Stand(a.self, **{k: make(a.self) for k, make in changes.items()}))


def meanwhile(place, change):
    """While the function runs, what it calls at `place` is changed likewise."""

    def plant(original):
        def faulty(*arguments, **settings):
            # Looked up now: a tape stands in the place of what draws noise.
            inner = Change(place, change, "")
            with mock.patch.object(*inner.owner(), inner.standing()):
                return original(*arguments, **settings)

        return faulty

    return plant


def instead(function):
    """Another function, given the same."""
    return lambda original: function


def times(factor):
    """The result, or what its sensitivity is, so many times."""
    return returns(lambda found, given: _times(factor, found))


def _times(factor, found):
    if isinstance(found, sensitivity.Sensitivity):
        both = {"value": factor * found.value, "presence": factor * found.presence}
        return dataclasses.replace(found, **both)
    return factor * found


def _with(**fields):
    """The result with other fields: each is a function of the result and what was given."""
    return returns(
        lambda found, given: dataclasses.replace(
            found, **{name: make(found, given) for name, make in fields.items()}
        )
    )


def _projectors_as_long(frames, unit):
    places = np.tril_indices(frames.shape[2])
    root = np.where(places[0] == places[1], 1.0, math.sqrt(2.0))
    return (np.swapaxes(frames, -1, -2) @ frames)[:, places[0], places[1]] * root / unit


def _twice_as_far(hold):
    return lambda tile, unit: 2.0 * hold(tile, unit)


def _half_noise(noise):
    """Gaussian noise of twice its mu."""
    return dataclasses.replace(noise, mu=2.0 * noise.mu)


def _half_of(name):
    return lambda given: _times(0.5, getattr(given, name))


def _at(call, change):
    """The change at one call of several, counted from one."""

    def plant(original):
        made, changed = itertools.count(1), change(original)
        return lambda *a, **k: (changed if next(made) == call else original)(*a, **k)

    return plant


def _forgets(original):
    def take(self, share, *more):
        left = self.remaining
        found = original(self, share, *more)
        self.remaining = left
        return found

    return take


def _same_second(found, given):
    given.self._second = np.zeros_like(given.self._second)


def _alone(found, given):
    return found[0], Groups.from_ids(np.arange(len(given.self.rows[given.place])))


def _mean_size(found, given):
    rows = np.asarray(given.rows, dtype=float)
    return given.self.sums(np.where(np.isfinite(rows), rows, 0.0) / given.self.sizes.mean())


def _thrice(found, given):
    left, right = found
    return dataclasses.replace(left, limits=3.0 * left.limits), 3.0 * right


def _all_rows(found, given):
    return dataclasses.replace(found, facts=found.facts | {"n": len(given.groups.order)})


def _twice_the_looks(original):
    """The first releases of a plan drawn from a budget that the law after them does not know."""
    return meanwhile("_mean.planning:GaussianBudget", takes(total=lambda a: 2.0 * a.total))(
        original
    )


def _of_rows(data):
    return dataclasses.replace(data, groups=None)


def _with_twice_the_budget(plan):
    bounds = dataclasses.replace(plan.settings.bounds, mu=2.0 * plan.settings.bounds.mu)
    return dataclasses.replace(plan, settings=dataclasses.replace(plan.settings, bounds=bounds))


_DRAW = "_mechanisms.noise:draw"
_UNPAID = meanwhile(_DRAW, takes(sensitivity=lambda a: halved(a.sensitivity)))
_ALL = meanwhile("_mechanisms.budget:_Budget.rest", returns(lambda found, a: a.self.total))
_AS_LONG = meanwhile(
    "_mechanisms.bounds:Ball.enforce", instead(lambda self, rows, unit: rows / unit)
)
_NO_BALL = returns(lambda found, a: a.rows / (a.unit or 1.0))
_LONG_LOSSES = meanwhile("_mechanisms.bounds:Ball.enforce", _NO_BALL)
_BOUNDED_SETS = "_mechanisms.bounded_sets"
_SEARCH = "_selection.estimator:PrivateGridSearchCV._run"
_QUERIES = "_regression.prediction_releases:WeightedMean"

CHANGES = (
    Change(
        "_mechanisms.bounds:Ball.enforce",
        _NO_BALL,
        "rows stay as long as they are",
        "erm ",
    ),
    Change("_mechanisms.sum:private_sum", _UNPAID, "half the sensitivity", "federated client"),
    Change(
        "_mechanisms.bounded_sets:VectorSet.spacing",
        times(1.0 / 3.0),
        "a third",
        "federated client",
    ),
    Change("_mechanisms.sum:private_sum", _UNPAID, "half the sensitivity", "mean integers"),
    Change("_mechanisms.sum:integer_total", times(2), "twice the integers", "mean integers"),
    Change("_mechanisms.sum:ExactTotal.value", times(3), "added three times", "mean integers"),
    Change(
        "_mechanisms.bounded_sets:VectorSet.spacing", times(1.0 / 3.0), "a third", "mean integers"
    ),
    Change(
        "_mechanisms.bounds:Ball.enforce",
        _NO_BALL,
        "rows stay as long as they are",
        "mean integers",
    ),
    Change(
        "_mechanisms.bounded_sets:VectorSet.spacing", times(1.0 / 3.0), "a third", "erm descent"
    ),
    Change(
        "_mechanisms.bounded_sets:Outer.rounded",
        returns(lambda found, a: dataclasses.replace(found, limits=3.0 * found.limits)),
        "three times as long",
        "adagrad ",
    ),
    Change("_mechanisms.sum:integer_total", times(2), "twice the integers", "people adagrad"),
    Change(
        "_mean.table_releases:TableMean.noise",
        returns(lambda found, a: _half_noise(found)),
        "half the noise of a table",
        "mean table unlike",
    ),
    Change(
        "_mean.estimator:PrivateFrechetMean._release",
        takes(data=lambda a: _of_rows(a.data)),
        "a table protects rows, not people",
        "people mean table",
    ),
    Change(
        "_mechanisms.bounded_sets:answers",
        returns(lambda found, a: dataclasses.replace(found, hold=_twice_as_far(found.hold))),
        "answers count twice",
        "adagrad columns",
    ),
    Change(
        "_linear_model.fit_plan:_share",
        times(0.0),
        "the range of targets is not charged",
        "adagrad targets sampled",
    ),
    Change(
        "_linear_model.releases:ScaledMean.bounded_set",
        returns(lambda found, a: dataclasses.replace(found, hold=_twice_as_far(found.hold))),
        "a target counts twice",
        "adagrad constant",
    ),
    Change(
        "_linear_model.releases:ScaledMean.release",
        takes(numbers=lambda a: Units(a.numbers.arrays)),
        "rows answer, not people",
        "people adagrad constant",
    ),
    Change(
        "_linear_model.fit_plan:_constant_plan",
        returns(lambda found, a: dataclasses.replace(found, event=GaussianEvent(1e3))),
        "a constant for little",
        "adagrad constant",
    ),
    Change(
        "_regression.geodesic_releases:GeodesicPlan.moments",
        takes(mu=lambda a: 2.0 * a.mu),
        "half the noise",
        "geodesics constant",
    ),
    Change(
        "_location_scale.row_releases:RowBounds._whitened",
        _UNPAID,
        "half the sensitivity",
        "adagrad white",
    ),
    Change(
        "_location_scale.row_releases:RowBounds._whitened",
        meanwhile("_mechanisms.bounded_sets:Moment.longest", times(2)),
        "unit rows twice as long",
        "geodesics white",
    ),
    Change(
        "_location_scale.row_releases:RowBounds.reserve",
        meanwhile(
            "_mechanisms.budget:_Budget.take",
            lambda take: (
                lambda self, share, name, *more: take(
                    self, 0.5 * share if name == WHITE else share, name, *more
                )
            ),
        ),
        "half of the moment is not planned",
        "adagrad white about zero",
    ),
    Change(
        "federated._round_releases:UpdateRelease.release",
        takes(self=lambda a: dataclasses.replace(a.self, mu=2.0 * a.self.mu)),
        "half the noise",
        "client update",
    ),
    Change(
        "federated._round_releases:UpdateRelease.event",
        returns(lambda event, a: GaussianEvent(2.0 * event.noise_multiplier)),
        "half a charge",
        "client update",
    ),
    Change(
        "federated._round_releases:UpdateRelease.bounded_set",
        returns(lambda found, a: dataclasses.replace(found, hold=_twice_as_far(found.hold))),
        "an update counts twice",
        "client update",
    ),
    Change(
        "_tangent.releases:TwoPlans.event",
        returns(lambda found, a: a.self.model.event),
        "the mean is not charged",
        "tangent model at a mean",
    ),
    Change(
        "_tangent.estimator:_release_part",
        takes(plan=lambda a: _with_twice_the_budget(a.plan) if a.name == "model" else a.plan),
        "half the noise in the model",
        "tangent model at a mean",
    ),
    Change(
        "_tangent.estimator:_release_part",
        takes(data=lambda a: a.data if a.name == "model" else _of_rows(a.data)),
        "the mean protects rows, not people",
        "tangent model at a mean people",
    ),
    Change(
        "_location_scale.row_releases:RowBounds.share",
        times(0.5),
        "half of the search is not planned",
        "adagrad columns sampled",
    ),
    Change(
        "_mechanisms.bounded_sets:answers",
        returns(lambda found, a: dataclasses.replace(found, hold=_twice_as_far(found.hold))),
        "answers count twice",
        "regression columns",
    ),
    Change(
        "_descent.queries:Query.noisy",
        takes(mu=lambda a: 2.0 * a.mu),
        "half the noise",
        "pymanopt",
    ),
    Change(
        "federated._together:PooledRecords.totals", times(2), "twice the integers", "federated rsgd"
    ),
    Change(
        "_descent.releases:PoissonSampler.event",
        _with(integers=lambda event, a: 0),
        "no integers",
        "erm p",
    ),
    Change(
        "_descent.releases:FixedSizeSampler.event",
        _with(integers=lambda event, a: 0),
        "no integers",
        "erm f",
    ),
    Change("_mechanisms.vector:GaussianNoise.sigma", times(0.5), "halved", "mean tangent"),
    Change("_mechanisms.vector:LaplaceNoise.scale", times(0.5), "halved", "mean laplace"),
    Change(
        "_mechanisms.bounded_sets:VectorSet.spacing",
        times(1.0 / 3.0),
        "a third",
        "federated rsgd 1.0",
    ),
    Change(
        "_mechanisms.bounds:Ball.enforce",
        _NO_BALL,
        "rows stay as long as they are",
        "federated erm",
    ),
    Change("_mechanisms.bounded_sets:VectorSet.spacing", times(0.5), "halved", "class means"),
    Change("_mechanisms.bounded_sets:VectorSet.add", _AS_LONG, "not shortened", "class means"),
    Change(
        "_mean.class_releases:Vote.release", _UNPAID, "half the sensitivity", "class means vote"
    ),
    Change(
        "_mean.class_releases:Vote.release",
        takes(self=lambda a: dataclasses.replace(a.self, mu=2.0 * a.self.mu)),
        "twice the share",
        "class means vote",
    ),
    Change(
        "_mean.class_releases:Vote.release",
        takes(units=lambda a: Units(a.units.arrays)),
        "rows answer, not people",
        "class means vote people",
    ),
    Change("_mechanisms.bounded_sets:Moment.spacing", times(0.5), "halved", "class moments"),
    Change("_mechanisms.bounded_sets:Moment.spacing", times(0.5), "halved", "class means linear"),
    Change("_mechanisms.bounded_sets:Moment.add", _AS_LONG, "not shortened", "class means linear"),
    Change(
        "_mean.class_releases:ClassReleases.sums",
        _with(moment_mu=lambda found, a: found.moment_mu and 2.0 * found.moment_mu),
        "twice the share of a second moment",
        "class means linear",
    ),
    Change("_mechanisms.counts:GaussianCount.release", _UNPAID, "half the bound", "mean counts"),
    Change("_mechanisms.counts:LaplaceCount.scale", times(0.5), "halved", "mean laplace 0"),
    Change(
        "_mechanisms.quantile:PrivateQuantile.sigma",
        returns(lambda found, a: 1.0 / a.self.mu),
        "noise of one count",
        "adaptive",
    ),
    Change(
        "_mechanisms.quantile:ExponentialQuantile._places",
        sees(sensitivity=_half_of("sensitivity")),
        "half the sensitivity",
        "pca pure noisy",
    ),
    Change(f"{_BOUNDED_SETS}:Moment.spacing", times(0.5), "halved", "pca covariance"),
    Change(f"{_BOUNDED_SETS}:Moment.longest", times(2), "doubled", "pca covariance"),
    Change(f"{_BOUNDED_SETS}:_traces", times(0.25), "a quarter of the traces", "people pca pure"),
    Change(f"{_BOUNDED_SETS}:Frame.spacing", times(0.5), "halved", "pca power 1, long"),
    Change(f"{_BOUNDED_SETS}:Frame.longest", times(2), "doubled", "pca power 1, long"),
    Change(
        f"{_BOUNDED_SETS}:Frame.longest", times(2), "doubled for two columns", "pca power 2, long"
    ),
    Change(
        f"{_BOUNDED_SETS}:Outer._balanced",
        returns(_thrice),
        "three times as long",
        "pca power, short",
    ),
    Change(f"{_BOUNDED_SETS}:VectorSet.spacing", times(0.5), "halved", "pca mean"),
    Change("_mechanisms.sum:private_sum", _UNPAID, "half the sensitivity", "pca covariance"),
    Change(
        "_location_scale.rows:PairDifferences.__init__",
        returns(_same_second),
        "one record in all pairs",
        "pca pairs",
    ),
    Change(
        "_location_scale.start_releases:projectors",
        _with(hold=lambda found, a: _projectors_as_long),
        "not shortened",
        "search start long frames",
    ),
    Change(
        "_mechanisms.bounded_sets:VectorSet.spacing", times(0.5), "halved", "search start grassmann"
    ),
    Change(
        "_location_scale.search:LocationScaleSearch._moved",
        takes(mu=lambda a: 2.0 * a.mu),
        "twice the share",
        "search hyperboloid",
    ),
    Change(
        "_location_scale.search:LocationScaleSearch._moved",
        takes(clip=lambda a: float(np.max(next(a.records.distances(a.center))))),
        "the radius of the farthest record",
        "search hyperboloid",
    ),
    Change(
        "_mechanisms.units:_by_class",
        returns(lambda found, a: (*found[:2], np.ones(len(found[1]), dtype=int))),
        "a class counted with its whole weight",
        "people class means",
    ),
    Change(
        "_mean.class_releases:_person_lengths",
        returns(lambda found, a: found * len(a.vectors) / len(a.counts)),
        "lengths that know how many classes others show",
        "people class means counts",
    ),
    Change(
        "_groups:_key",
        returns(lambda found, a: (0, repr(a.value)) if found[0] == 0 else found),
        "a person whose number is written in two ways counts as two",
        "ids mixed",
    ),
    Change(
        "federated._clients:read_clients",
        _with(most=lambda found, a: 1),
        "a person of two clients pays one",
        "of two",
    ),
    Change("federated._sums:share", takes(times=lambda a: 1), "the whole", "federated class sums"),
    Change("_mechanisms.sum:noised", _UNPAID, "half the sensitivity", "federated log sums"),
    Change(
        "_mechanisms.counts:GaussianCount.exact", times(2), "counted twice", "federated log sums"
    ),
    Change(
        "_mechanisms.sum:Part.of_several",
        takes(times=lambda a: 1),
        "a person of two clients moves as one",
        "aggregator of two",
    ),
    Change(
        "federated._sums:planned_sums",
        meanwhile("federated._sums:_planned", takes(times=lambda a: 2 if a.times > 2 else a.times)),
        "integers of shifts that do not add up",
        "aggregator of two",
    ),
    Change(
        "federated._sums:planned_sums",
        meanwhile("federated._sums:share", times(4.0)),
        "shares of more than there is",
        "federated log sums",
    ),
    Change(
        "federated._shares:Shares.honest",
        returns(lambda found, a: found + 1),
        "the share that a colluder knows is counted",
        "federated log sums",
    ),
    Change(
        "federated._sums:with_one_noise",
        takes(times=lambda a: 1),
        "a person of two clients moves as one",
        "coordinator of two",
    ),
    Change(
        "federated._sums:AggregatorLoop._released",
        meanwhile("federated._sums:compose", takes(events=lambda a: a.events[:1])),
        "one client of two is charged",
        "coordinator of two",
    ),
    Change("federated._clients:Clients.part", returns(_alone), "rows as people", "erm people"),
    Change(
        "federated._releases:Participation.record_event",
        takes(clients=lambda a: 1),
        "one client of two",
        "federated erm people of two",
    ),
    Change("_core.estimator:Data.by_group", returns(_all_rows), "rows as people", "people mean"),
    Change("_core.estimator:Data.by_group", returns(_all_rows), "rows as people", "people erm poi"),
    Change("_groups:Groups.means", returns(_mean_size), "weights of everybody", "people erm 1"),
    Change("_mechanisms.budget:_Budget._take", _forgets, "forgets what was taken", "pca"),
    Change(
        f"{_BOUNDED_SETS}:variances",
        meanwhile(f"{_BOUNDED_SETS}:second_moment_sensitivity", times(0.8)),
        "less than two matrices are apart",
        "pca power 2",
    ),
    Change(
        "_mean.output_releases:_k_norm_mean",
        meanwhile("_mean.output_releases:ball_sensitivity", takes(radius=_half_of("radius"))),
        "half the radius",
        "mean k-norm",
    ),
    Change(
        "_mean.output_releases:_k_norm_mean",
        meanwhile(
            "_mean.output_releases:ball_logarithms_sensitivity", takes(radius=_half_of("radius"))
        ),
        "half the radius",
        "mean k-norm sphere",
    ),
    Change(
        "_mean.releases:LogStep.release",
        takes(self=lambda a: dataclasses.replace(a.self, noise=_half_noise(a.self.noise))),
        "half the noise of one step",
        "mean found curved",
    ),
    Change(
        "_mean.planning:MeanPlan.search_budget",
        _twice_the_looks,
        "looks with twice their mu",
        "mean adaptive laplace",
    ),
    Change(
        "_mean.planning:law_after",
        meanwhile("_mean.planning:laplace_law", takes(mu=_half_of("mu"))),
        "a law after half of what was",
        "mean laplace",
    ),
    Change("_mean.planning:_pure_plan", _ALL, "the whole after a count", "mean laplace"),
    Change(
        "_completion.releases:CompletionPlan.main_share",
        returns(lambda found, a: 1.0),
        "the whole after small shares",
        "completion",
    ),
    Change(
        "_completion.releases:clipped_ratings",
        takes(mu=lambda a: 1.1 * a.mu),
        "a tenth more for the clipped share",
        "completion clipped",
    ),
    Change(
        f"{_BOUNDED_SETS}:labelled",
        _with(hold=lambda bounded_set, a: lambda tile, unit: bounded_set.hold(tile[:2], unit)),
        "no weights",
        "completion",
    ),
    Change(f"{_BOUNDED_SETS}:VectorSet.spacing", times(0.5), "halved", "completion"),
    Change(
        "_mechanisms.counts:GaussianNumber.release",
        takes(value=lambda a: 3.0 * a.value),
        "three times the number",
        "completion signal",
    ),
    Change(
        f"{_BOUNDED_SETS}:Outer.rounded",
        _with(limits=lambda rows, a: 3.0 * rows.limits),
        "right factors three times as long",
        "regression parametric",
    ),
    Change(f"{_QUERIES}.step_mu", returns(lambda found, a: a.self.mu), "of all steps", "queries"),
    Change(
        f"{_BOUNDED_SETS}:weighted",
        _with(hold=lambda bounded_set, a: lambda tile, unit: 2.0 * bounded_set.hold(tile, unit)),
        "doubled",
        "queries",
    ),
    Change(f"{_BOUNDED_SETS}:Moment.spacing", times(0.5), "halved", "regression moments"),
    Change(f"{_BOUNDED_SETS}:Moment.spacing", times(0.5), "halved", "median of a far end"),
    Change(
        "_mean.median_releases:GeometricMedian._take",
        returns(lambda found, a: (2.0 * found[0], found[1])),
        "second derivatives for a quarter",
        "median one step",
    ),
    Change(
        "_mean.joint_releases:JointMean.tangent_sample",
        _ALL,
        "the whole after a ball",
        "class moments",
    ),
    Change(
        "_mean.releases:StartAlone.release",
        meanwhile("_mean.releases:GaussianBudget", takes(total=lambda a: 2.0 * a.total)),
        "twice its mu",
        "mean start alone",
    ),
    Change(
        "_linear_model.adagrad:NoisyAdaGrad.with_mu",
        _with(noise_multiplier=lambda found, a: math.sqrt(found.n_steps) / a.mu),
        "the whole beside moments",
        "adagrad root moments",
    ),
    Change(
        "_location_scale.row_releases:RowBounds.share",
        times(0.0),
        "no search",
        "search sampled",
    ),
    Change(
        "_linear_model.estimator:PrivateNoisyAdaGrad._release",
        _ALL,
        "the whole after a count",
        "adagrad hinge",
    ),
    Change(
        "_regression.estimator:PrivateHyperbolicRegressor._release",
        meanwhile(
            "_mechanisms.budget:_Budget.take",
            lambda take: (
                lambda self, share, *more: None if share == BASE_SHARE else take(self, share, *more)
            ),
        ),
        "a base point for nothing",
        "private base",
    ),
    Change(
        "_erm.clipping:ClipNorm.share",
        returns(lambda found, a: COUNT_SHARE),
        "a count alone",
        "erm found clip",
    ),
    Change(
        f"{_BOUNDED_SETS}:VectorSet.spacing", times(0.5), "halved", "search gaussian validation"
    ),
    Change(
        "_selection.releases:Scores.bounded_set",
        _with(bound=lambda found, a: _times(1.0 / 3.0, found.bound)),
        "noise for losses of a third",
        "search gaussian validation",
    ),
    Change(
        "_mechanisms.vector:LaplaceNoise.scale", times(0.5), "halved", "search laplace validation"
    ),
    Change(
        "_selection.releases:plain_sum",
        returns(lambda found, a: (found[0], _times(0.5, found[1]))),
        "half the sensitivity",
        "search laplace validation",
    ),
    Change(
        _SEARCH,
        lambda run: _LONG_LOSSES(sees(loss_bound=lambda whole: math.inf)(run)),
        "losses without bound",
        "search gaussian validation",
    ),
    Change(
        "federated._training:local_event",
        takes(noise_multiplier=lambda a: 2.0 * a.noise_multiplier),
        "twice the noise",
        "federated",
    ),
    Change(
        "federated._releases:Participation.most_rounds",
        returns(lambda found, a: found // 2),
        "half of the rounds",
        "federated",
    ),
    Change(
        "_random:NoiseStreams._key",
        takes(label=lambda a: a.label if a.self._secret is None else a.label[:1]),
        "one noise for all queries",
        "regression",
    ),
    Change(
        "_random:NoiseStreams._key",
        takes(label=lambda a: a.label[:-1]),
        "one noise for all clients",
        "federated rsgd 1.0",
    ),
)

# What no charge and no bound shows: numbers that nobody released.
LEAKS = (
    Change(
        "_tangent.estimator:logarithms",
        takes(center=lambda a: a.points[0]),
        "coordinates at a record",
        "tangent model at a mean",
        strangers=True,
    ),
    Change(
        "_location_scale.start_releases:_Embedded.release",
        _with(length=lambda start, a: float(np.linalg.norm(a.records.points.mean(axis=0)))),
        "the exact length of the mean vector",
        "mean of wide directions",
        strangers=True,
    ),
    Change(
        "_completion.releases:typical_count",
        returns(lambda found, a: float(np.median(np.diff(a.matrix.indptr)))),
        "a fit steered by the exact typical count",
        "completion",
        strangers=True,
    ),
    Change(
        "_mean.joint_releases:JointMean.tangent_sample",
        _with(clipped=lambda seen, a: np.mean(_lengths(seen.vectors) > seen.radius)),
        "the exact share of clipped records",
        "moments",
        strangers=True,
    ),
    Change(
        "_location_scale.row_releases:clipped_fraction",
        returns(lambda found, a: warn_user(f"{a.clipped / a.n:.1%} were clipped") or found),
        "a warning that quotes the exact share",
        "adagrad search",
        strangers=True,
    ),
    Change(
        "_location_scale.columns:ColumnSearch.release",
        _with(limit=lambda found, a: np.abs(a.records.arrays[0] - found.center).max(axis=0)),
        "columns reach as far as their farthest numbers",
        "adagrad columns",
        strangers=True,
    ),
    Change(
        "_regression.estimator:PrivateHyperbolicRegressor._release",
        returns(lambda found, a: setattr(a.self, "_responses", a.data.arrays[1])),
        "responses are kept",
        "regression parametric",
        strangers=True,
    ),
    Change(
        "_mean.estimator:PrivateFrechetMean._release",
        returns(lambda found, a: setattr(a.self, "score", lambda X, rows=a.data.arrays: X)),
        "a closure keeps records",
        "mean tangent euclidean",
        strangers=True,
    ),
    Change(
        "_mean.estimator:PrivateFrechetMean._release",
        returns(lambda found, a: gaussian_mu(1.0, min(0.5, 1e-9 + float(_size(a.data.arrays))))),
        "a cache that remembers a record",
        "mean gradient euclidean",
        strangers=True,
    ),
    Change(
        "_erm.estimator:PrivateRiemannianERM._release",
        returns(lambda found, a: logging.getLogger("skriemdp").info("%r", _size(a.data.arrays))),
        "a log line of a record",
        "erm descent",
        strangers=True,
    ),
    Change(
        "_mean.class_releases:Vote.release",
        returns(lambda found, a: found._replace(tells=_right(a)[0] > 0.9 * a.self.n)),
        "an exact count warns",
        "class means vote",
        strangers=True,
    ),
    Change(
        "_mean.class_releases:ClassSums.noisy",
        returns(lambda found, a: np.r_[found[: a.self.size], _exact_moment(a)]),
        "an exact second moment",
        "class means linear",
        strangers=True,
    ),
    Change(
        "_linear_model.estimator:PrivateNoisyAdaGrad._release",
        returns(lambda found, a: print(_size(a.data.arrays))),
        "printed text of a record",
        "adagrad squared_error noised",
        strangers=True,
    ),
    Change(
        "_groups:Groups.runs",
        lambda original: lambda self, most: _at_least(1, self.count, original(self, most)),
        "a batch of nobody ends the fit",
        "people adagrad sampled",
        strangers=True,
    ),
    Change(
        "_mechanisms.units:Units.take",
        returns(lambda found, a: _at_least(2, len(a.indices), found)),
        "a batch of one ends the fit",
        "adagrad sampled",
        strangers=True,
    ),
    Change(
        "_descent.problem:Problem.pieces",
        takes(indices=lambda a: _twice_if_all(a.indices, a.self.n)),
        "a batch of everybody counts twice",
        "erm poisson",
        strangers=True,
    ),
    Change(
        "_mechanisms.sum:private_sum",
        lambda original: (
            lambda units, give, bounded_set, *more: (
                original(units, give, bounded_set, *more)
                if units.chosen is None or len(units.chosen)
                else Noisy(np.zeros(bounded_set.shape), 0.0)
            )
        ),
        "a batch of nobody gets no noise",
        "adagrad sampled",
        strangers=True,
    ),
    Change(
        "_selection.estimator:PrivateGridSearchCV._run",
        returns(lambda found, a: _at_least(2, a.scores.event.draw_count(None), found)),
        "a search of one run fails",
        "search gaussian validation",
        strangers=True,
    ),
)


def _at_least(least, count, found):
    if count < least:
        raise ValueError("too few")
    return found


def _twice_if_all(indices, n):
    return indices if indices is None or len(indices) < n else np.repeat(indices, 2)


def _lengths(vectors):
    return np.linalg.norm(vectors, axis=1)


def _right(given):
    """How many records each way of a vote labels right."""
    points, labels = given.units.arrays
    rule = given.self.rule
    return np.array([(rule.places(points, w) == labels).sum() for w in given.self.ways])


def _exact_moment(given):
    """The second moment of all classes, without noise."""
    rows = given.self._units(given.records).arrays[0] / given.self.radius
    return (rows.T @ rows).ravel()


def _size(arrays):
    """A number of the records."""
    return np.abs(np.asarray(arrays[0], dtype=float)).mean()


TABLE = Path(__file__).with_name("killed_by.tsv")


def faults_in_functions():
    """Each of `CHANGES`, given to the pairs it names, the one that `TABLE` names first."""
    return _changes(CHANGES, "function")


def leaks():
    """Each of `LEAKS`, likewise."""
    return _changes(LEAKS, "leak")


def killed_by():
    """The table: a fault to the pair that refuted it when it was written."""
    lines = TABLE.read_text().splitlines()
    return dict(line.split("\t")[1:] for line in lines)


def _changes(changes, kind):
    table = killed_by()
    for change in changes:
        killer = table.get(change.name, "").removesuffix(", refused")
        pairs = [pair for pair in baseline() if change.pairs in pair.name]
        pairs.sort(key=lambda pair: pair.name != killer)
        by = refuting(pairs, None, change.planted, change.strangers)
        yield Planted(kind, change.name, by)


def changing_nothing(change):
    """The pair that refutes a change which only passes on what it is given; None, let us hope."""
    killer = killed_by()[change.name].removesuffix(", refused")
    pairs = [pair for pair in PAIRS if pair.name == killer]
    idle = dataclasses.replace(change, change=returns(lambda found, given: found))
    return refuting(pairs, None, idle.planted, change.strangers)


if __name__ == "__main__":  # python -m replay.faults > replay/killed_by.tsv, in tests
    for fault in itertools.chain(faults_in_functions(), leaks()):
        print(fault.kind, fault.place, fault.by, sep="\t")
