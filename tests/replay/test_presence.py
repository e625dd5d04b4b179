"""A record more or less moves no release further than its presence, and nothing else at all.

The ledger keeps the number of records secret.  Every pair is replayed in three ways: a record
replaced, removed and added; at the start, in the middle and at the end of the table, and in tables
of next to no records.  What a fit leaves behind, and what each of its queries is about, is equal to
the last bit at equal answers.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from replay.pairs import GEOMETRIES, along, fitted
from replay.tape import Tape, check_within
from skriemdp import PrivateFrechetMean, PrivateMinimumDistanceToMean, PrivateTangentPCA
from skriemdp._core import count_releases, estimator
from skriemdp._location_scale import search
from skriemdp._mean import planning, releases
from skriemdp._mean.joint_releases import JointMean
from skriemdp._mechanisms.bounded_sets import BoundedSet, Moment
from skriemdp._mechanisms.counts import GaussianCount
from skriemdp.geometry import Euclidean, Grassmann, Hyperboloid, Product, Sphere
from skriemdp.geometry._spd.base import SPDGeometry
from skriemdp.ledger._units import PRESENT
from skriemdp.privacy._calibration import gaussian_epsilon, gaussian_mu
from skriemdp.privacy._events import ParallelEvent

N, EPSILON = 120, 20.0
COUNTED = "number of records"


@dataclasses.dataclass(frozen=True)
class Table:
    """A fit, and a table with a record that is as far out as records count."""

    name: str
    fit: Callable
    data: tuple
    far: tuple
    quiet: bool = True

    def rows(self, chosen):
        return tuple(column[chosen] for column in self.data)

    def with_far(self, at, n=N):
        """The first n rows with the far record at the place `at`."""
        rows = self.rows(slice(0, n))
        return tuple(np.insert(c, at, far, axis=0) for c, far in zip(rows, self.far, strict=True))


def tables():
    for name, (geometry, radius) in GEOMETRIES.items():
        near = along(geometry, radius * np.sin(np.arange(N + 1)))
        far = along(geometry, [radius])[0]
        for mechanism, noise in itertools.product(("tangent", "auto"), ("gaussian", "laplace")):
            given = {"radius": radius, "mechanism": mechanism, "noise": noise, "epsilon": EPSILON}
            fit = fitted(PrivateFrechetMean, geometry, **given)
            quiet = (mechanism == "tangent") == (noise == "gaussian")
            yield Table(f"mean {mechanism} {noise} {name}", fit, (near,), (far,), quiet)
        if geometry.separate_rows:
            fit = fitted(PrivateFrechetMean, geometry, epsilon=EPSILON)
            for quiet in (True, False):
                yield Table(f"mean found {name} quiet {quiet}", fit, (near,), (far,), quiet)
        if name in ("sphere", "spd", "stiefel"):
            yield from moments(name, geometry, radius, near, far)


def moments(name, geometry, radius, near, far):
    """Class means, regions and tangent components."""
    labels = np.arange(N + 1) % 3
    for quiet, bound in ((True, radius), (False, radius), (False, "private")):
        if bound == "private" and not geometry.separate_rows:
            continue
        given = {"radius": bound, "epsilon": EPSILON}
        classes = {"classes": [0, 1, 2], **given}
        label = f"{name} {bound} quiet {quiet}"
        fit = fitted(PrivateMinimumDistanceToMean, geometry, **classes)
        yield Table(f"classes {label}", fit, (near, labels), (far, 2), quiet)
        fit = fitted(PrivateMinimumDistanceToMean, geometry, **classes, uncertainty=True)
        yield Table(f"class regions {label}", fit, (near, labels), (far, 2), quiet)
        if bound != "private" or not isinstance(geometry, SPDGeometry):
            fit = fitted(PrivateFrechetMean, geometry, **given, uncertainty=True)
            yield Table(f"region {label}", fit, (near,), (far,), quiet)
        fit = fitted(PrivateTangentPCA, 1, geometry, **given)
        yield Table(f"components {label}", fit, (near,), (far,), quiet)


TABLES = list(tables())


def later(table):
    """Whether a quick run leaves it out: slow spaces and noisy answers that others there hold."""
    if table.name.startswith("mean"):
        known = ("euclidean", "hyperboloid", "spd")
        return "found" in table.name and not table.quiet and table.name.split()[2] not in known
    return "stiefel" in table.name


WITH_SLOW = [pytest.param(t, marks=[pytest.mark.slow] if later(t) else []) for t in TABLES]


def check_both(tape):
    """Raise unless the charge covers a record that is replaced, and one that is present or not."""
    ((place, event),) = tape.charges
    assert place == 0 and tape.draws[0].label == (COUNTED,)
    replaced, present = event.events if isinstance(event, ParallelEvent) else (event, event)
    check_within(tape.draws[1:], replaced, 1e-9)
    check_within([dataclasses.replace(d, bound=(d.presence,)) for d in tape.draws], present, 1e-9)


def recorded(table, data):
    tape = Tape(quiet=table.quiet, unit=PRESENT)
    tape.record(table.fit, data)
    return tape


def replayed(table, less, more):
    """Both ways, and within mu**2; the tape of the record removed."""
    for first, second in ((less, more), (more, less)):
        tape = recorded(table, first)
        tape.replay(table.fit, second, presence=True)
        check_both(tape)
    return tape


def check_count(tape):
    """Raise unless the count moved as far as its presence, and no query further than its own."""
    check_both(tape)
    counts = [d for d in tape.draws if d.label[:1] == (COUNTED,)]
    assert [d.moved * d.bound[0] / d.presence for d in counts] == [1.0]


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("table", WITH_SLOW, ids=lambda table: table.name)
def test_a_record_more_moves_nothing_beyond_its_presence(table):
    """One recording without the record answers for each place at which it may be added."""
    less = table.rows(slice(0, N))
    more = {at: table.with_far(at) for at in (0, N // 2, N)}
    tape = recorded(table, less)
    for data in more.values():
        tape.replay(table.fit, data, presence=True)
        check_count(tape)
    tape.replay(table.fit, table.with_far(0, N - 1))
    for at in (0, N):
        tape = recorded(table, more[at])
        tape.replay(table.fit, less, presence=True)
        check_count(tape)


@pytest.mark.mostly_slow(7)
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_record_more_than_next_to_none(table, n):
    replayed(table, table.rows(slice(0, n)), table.with_far(0, n))


def test_the_bound_is_attained():
    """By the sum of a public ball and by the count before it."""
    for noise in ("gaussian", "laplace"):
        table = next(t for t in TABLES if t.name == f"mean tangent {noise} euclidean")
        tape = replayed(table, table.rows(slice(0, N)), table.with_far(0))
        ratios = {d.label[0]: d.moved * d.bound[0] / d.presence for d in tape.draws}
        assert 0.98 <= ratios["tangent mean"] <= 1.0 and ratios[COUNTED] == 1.0


class Planned(Tape):
    """A tape that answers with another number of records."""

    def __init__(self, n, quiet=True):
        super().__init__(quiet=quiet, unit=PRESENT)
        self.n = n

    def _without_noise(self, exact, law):
        return exact if self.draws else exact // N * self.n


PLANS = [round(n) for n in np.geomspace(1, 1e9, 10)]
SPACES = [
    *(Euclidean(d) for d in (1, 3, 30)),
    Sphere(9),
    Hyperboloid(12),
    Grassmann(6, 2),
    Product(Hyperboloid(2), Grassmann(4, 2), Sphere(3)),
]


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("radius", [0.2, "private"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, EPSILON])
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_both_totals_stay_within_the_charge_whatever_number_is_planned_for(space, epsilon, radius):
    data = along(space, 0.1 * np.sin(np.arange(N)))
    fit = fitted(PrivateFrechetMean, space, radius=radius, epsilon=epsilon)
    charged = set()
    for n in PLANS:
        tape = Planned(n)
        tape.record(fit, (data,))
        check_both(tape)
        charged.add(tape.charges[0][1])
    assert len(charged) == 1


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("radius", [0.2, "private"])
@pytest.mark.parametrize("space", [Hyperboloid(12), Sphere(9)], ids=str)
def test_those_of_moments_and_classes_stay_within_it_too(space, radius):
    data, labels = along(space, 0.1 * np.sin(np.arange(N))), np.arange(N) % 3
    given = {"radius": radius, "epsilon": EPSILON}
    for fit in (
        fitted(PrivateFrechetMean, space, **given, uncertainty=True),
        fitted(PrivateTangentPCA, 1, space, **given),
        fitted(PrivateMinimumDistanceToMean, space, **given, classes=[0, 1, 2]),
        fitted(PrivateMinimumDistanceToMean, space, **given, classes=[0, 1, 2], uncertainty=True),
    ):
        for n in PLANS:
            tape = Planned(n)
            tape.record(fit, (data, labels))
            check_both(tape)


def _divided_by_rows(monkeypatch):
    noisy_mean = releases.MeanNoise.noisy_mean

    def of_rows(self, units, give, bound, dim, n, rng):
        return noisy_mean(self, units, give, bound, dim, units.arrays[0].shape[0], rng)

    monkeypatch.setattr(releases.MeanNoise, "noisy_mean", of_rows)


def _search_divided_by_rows(monkeypatch):
    moved = search.LocationScaleSearch._moved

    def of_rows(self, records, *rest):
        return moved(dataclasses.replace(self, n=max(records.n, 1)), records, *rest)

    monkeypatch.setattr(search.LocationScaleSearch, "_moved", of_rows)


def _clipped_fraction_of_rows(monkeypatch):
    release = PrivateFrechetMean._release

    def of_rows(self, data, plan, streams):
        facts = data.facts | {"n": len(data.arrays[0])}
        release(self, dataclasses.replace(data, facts=facts), plan, streams)

    monkeypatch.setattr(PrivateFrechetMean, "_release", of_rows)


def _presence_halved(monkeypatch):
    draw = Tape.draw

    def halved(self, *args, presence=None, **facts):
        return draw(self, *args, presence=None if presence is None else presence // 2, **facts)

    monkeypatch.setattr(Tape, "draw", halved)


def _regions_divided_by_rows(monkeypatch):
    release = JointMean.release

    def of_rows(self, records, *rest):
        return release(dataclasses.replace(self, n=records.n), records, *rest)

    monkeypatch.setattr(JointMean, "release", of_rows)


def _counted_twice(monkeypatch):
    release = PrivateFrechetMean._release

    def again(self, data, plan, streams):
        mu = gaussian_mu(self.epsilon, self.delta) * math.sqrt(self._share_after_presence)
        GaussianCount(1.0 / mu).release(len(data.arrays[0]), streams(COUNTED, 2))
        release(self, data, plan, streams)

    monkeypatch.setattr(PrivateFrechetMean, "_release", again)


def _adds_less(monkeypatch, kind):
    presence = kind.presence
    monkeypatch.setattr(kind, "presence", lambda self, steps: round(0.9 * presence(self, steps)))


def _vectors_add_less(monkeypatch):
    _adds_less(monkeypatch, BoundedSet)


def _moments_add_less(monkeypatch):
    _adds_less(monkeypatch, Moment)


def _count_left_out_of_the_charge(monkeypatch):
    def count_before(fit, *rest):
        return count_releases.count_before(fit, *rest)[0], fit

    monkeypatch.setattr(estimator, "count_before", count_before)


def _law_chosen_by_the_released_number(monkeypatch):
    def by_number(ball, n, mu, fixed):
        return None, 0.02 if n * mu < 1000.0 else 0.01

    monkeypatch.setattr(planning, "_inside", by_number)


def _nothing_kept_for_the_count(monkeypatch):
    monkeypatch.setattr(PrivateFrechetMean, "_share_after_presence", 1.0)


FAULTS = {
    _divided_by_rows: "mean tangent gaussian euclidean",
    _search_divided_by_rows: "mean found hyperboloid quiet True",
    _clipped_fraction_of_rows: "mean tangent gaussian poincare",
    _regions_divided_by_rows: "region spd 1.5 quiet True",
    _presence_halved: "mean tangent laplace spd",
    _vectors_add_less: "classes sphere 0.4 quiet True",
    _moments_add_less: "region sphere 0.4 quiet True",
    _count_left_out_of_the_charge: "mean tangent laplace euclidean",
    _law_chosen_by_the_released_number: "mean auto laplace euclidean",
    _counted_twice: "mean tangent gaussian euclidean",
    _nothing_kept_for_the_count: "mean tangent gaussian euclidean",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_faults_are_found(fault, monkeypatch):
    table = next(t for t in TABLES if t.name == FAULTS[fault])
    pair = table.rows(slice(0, N)), table.with_far(0)
    replayed(table, *pair)
    fault(monkeypatch)
    with pytest.raises((AssertionError, RuntimeError)):  # the fit may see it itself
        replayed(table, *pair)


ASIDE = 25317829.903411347  # each radius of a search is rounded down to its grid, so it goes on


@pytest.mark.parametrize("dim", [3, 60, 400])
@pytest.mark.parametrize("kind", ["mean", "bars", "classes"])
def test_both_totals_cover_a_search_that_takes_all_its_rounds(kind, dim):
    """Radii of many columns have high levels, and records far away ask for many of them."""
    m, delta, taken = 1200, PrivateFrechetMean().delta, []
    data, labels = np.zeros((m, dim)), np.arange(m) % 3
    data[:, 0] = ASIDE
    for times in (1.02, 1.5):  # of the number from which on rounds are cheap
        epsilon = gaussian_epsilon(times * 63.0 * math.sqrt(dim) / m, delta)
        fit = {
            "mean": fitted(PrivateFrechetMean, "euclidean", epsilon=epsilon, noise="gaussian"),
            "bars": fitted(PrivateFrechetMean, "euclidean", epsilon=epsilon, uncertainty=True),
            "classes": fitted(PrivateMinimumDistanceToMean, epsilon=epsilon, classes=[0, 1, 2]),
        }[kind]
        tape = Tape(unit=PRESENT)
        tape.record(fit, (data, labels))
        check_both(tape)
        taken.append(len({draw.label for draw in tape.draws if "rough mean" in draw.label}))
    assert max(taken) >= 8
