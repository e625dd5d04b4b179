"""Fits that are recorded on one data set and replayed on a neighbour, with the same answers.

Every draw of noise of the package passes ``skriemdp._mechanisms.noise.draw``.  A tape takes its
place: it keeps what a fit asks and what it is answered, gives a fit on neighbouring data the same
answers, and measures how far each exact statistic moves.  No randomness is left, so one pair of
fits can refute a claimed sensitivity.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fractions
import functools
import hashlib
import math
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from replay.outcomes import Outcome, differences
from replay.unrelated import unrelated
from skriemdp._descent.releases import FixedSizeSampler, PoissonSampler
from skriemdp._mechanisms import noise
from skriemdp._random import NoiseStreams
from skriemdp.privacy._events import (
    ComposedEvent,
    FixedSizeSampledGaussianEvent,
    GaussianEvent,
    PoissonSampledGaussianEvent,
    PureEvent,
    SeededEvent,
    SelectionEvent,
    SelfComposedEvent,
)
from skriemdp.privacy._laplace import LaplaceEvent
from skriemdp.riemannian_laws._profiles import RiemannianEvent

REAL_DRAW, REAL_STREAM = noise.draw, NoiseStreams.__call__
# Rounding of the differences that a test forms; integers have none.
TOLERANCE = 1e-9
RUNS_OF_A_SEARCH = 3
# What a Poisson batch may hold, besides what its coins say.
BATCHES = {"nobody": 0, "one": 1, "everybody": None}


class Refuted(AssertionError):
    """A pair of neighbours, or the charge, contradicts what is claimed."""


@dataclasses.dataclass
class Draw:
    """One release: what was asked, with which noise and bound, and the answer."""

    exact: tuple
    scale: tuple
    law: tuple
    bound: tuple
    site: str
    call: tuple
    label: tuple
    size: tuple
    batch: Any
    averaged: int | None
    shares: int | None
    presence: int | None
    points: dict  # what the query asks about: centres, sets, grids
    estimator: str
    answer: Any
    moved: float = 0.0  # in units of the claimed bound

    @property
    def cost(self) -> float:
        """Squared bound over scale, of all repetitions; 0 where later releases pay."""
        if self.averaged is not None:
            return 0.0
        return math.prod(self.size) * (float(self.bound[0]) / float(self.scale[0])) ** 2

    @property
    def distance(self) -> str:
        """How far the statistic moved; of several blocks only shares of bounds are known."""
        several = len(self.bound) > 1
        return "in blocks" if several else f"by {self.moved * float(self.bound[0]):.6g}"

    @property
    def public(self) -> dict:
        """What must not depend on the records, by name."""
        return {
            "law": self.law,
            "scale": self.scale,
            "bound": self.bound,
            "place that asks": self.site,
            "number of repetitions": self.size,
            "kind of batch": None if self.batch is None else self.batch[:3],
            "shape": tuple(np.shape(block) for block in self.exact if hasattr(block, "shape")),
            "number of averaged answers": self.averaged,
            "number of shares": self.shares,
            "bound of a record's presence": self.presence,
        }

    @property
    def place(self) -> str:
        """The site without the name of its stream."""
        return self.site.rpartition(" (")[0]

    @property
    def title(self) -> str:
        """Who asks, and what."""
        return f"{self.estimator}, query {' '.join(map(str, self.label))!r} at {self.place}"


class Purse:
    """An accountant that notes on the tape what it is charged."""

    def __init__(self, tape):
        self._tape, self.unit = tape, tape.unit

    def __sklearn_clone__(self):
        return self

    def composes(self, epsilon, delta):
        return False

    def spend(self, event, **details):
        # Some pairs are seeded, so that both runs toss the same coins; the plan is replayed.
        planned = event.event if isinstance(event, SeededEvent) else event
        self._tape.charges.append((len(self._tape.draws), planned))
        self._tape.estimator = _fitted()
        facts = details.get("facts", {})
        self._tape.plans += [facts["releases"]] if "releases" in facts else []
        self._tape.stated += [facts["arithmetic"]] if "arithmetic" in facts else []


@dataclasses.dataclass(frozen=True)
class Fault:
    """A planted fault at one place that draws noise: "scale", "bound" or "twice"."""

    kind: str
    site: str

    def __call__(self, site, scale, bound):
        if site != self.site or self.kind == "twice":
            return scale, bound
        if self.kind == "scale":
            return halved(scale), bound
        return halved(scale), halved(bound)


def halved(value):
    """Half of a number, or of each of several."""
    if isinstance(value, tuple):
        return tuple(map(halved, value))
    return value // 2 if isinstance(value, int) else value / 2.0


class Tape:
    """Records one fit, then replays it on other data.

    Parameters
    ----------
    changed : int
        Position of the record in which the data differ: sampled batches hold it twice out of three
        times.
    quiet : bool
        Answer with the exact statistic (its noise happens to be zero), not with a noisy one.
    geometry : Geometry, optional
        Of releases that are points.
    fault : Fault, optional
    unit : str
        Of the ledger.
    batches : str, optional
        Of `BATCHES`: what each Poisson batch holds, instead of what coins say.
    runs : int
        How many candidates a search runs.
    """

    def __init__(
        self,
        changed=0,
        quiet=True,
        geometry=None,
        fault=None,
        unit="record",
        batches=None,
        runs=RUNS_OF_A_SEARCH,
    ):
        self.unit, self.batches, self.runs = unit, batches, runs
        self.changed, self.quiet, self.geometry, self.fault = changed, quiet, geometry, fault
        self.draws: list[Draw] = []
        self.charges: list[tuple] = []
        self.plans: list[tuple] = []  # what was stated with the charges
        self.stated: list[str] = []  # of the arithmetic
        self.recorded = Outcome()
        self.estimator = "nothing charged"
        self.without = False
        self._refuted: Refuted | None = None
        self._rng = np.random.default_rng(20)
        self._start(recording=True)

    def _start(self, recording):
        self._recording, self._place, self._batches, self._batch = recording, 0, 0, None
        self._labels: dict[int, tuple] = {}
        self._real: dict[int, np.random.Generator] = {}
        self._words: dict[int, Draw] = {}
        self._alive: list = []

    # -- fits -------------------------------------------------------------------------------------

    def record(self, fit, data):
        """Fit, and keep every release."""
        with self._installed(self.recorded):
            self.recorded.result = fit(Purse(self), *data)

    def replay(self, fit, data, without=False, limit=1.0, presence=False):
        """Fit other data to the same answers; with `without`, the same data less one record.

        The record is then missing from the sampled batches, and only those are compared.  With
        `presence` the other data have a record more, or less.  What the fit leaves behind is what
        it left on the first data, bitwise.
        """
        # What the second fit is charged is not of interest.
        kept, outcome = Tape(unit=self.unit), Outcome()
        self._start(recording=False)
        self.without, self.limit, self.presence = without, limit, presence
        for draw in self.draws:
            draw.moved = 0.0
        missed = _cache_misses()
        with self._installed(outcome):
            outcome.result = fit(Purse(kept), *data)
        if self._place != len(self.draws):
            raise Refuted(
                f"{len(self.draws)} releases on one data set, {self._place} on another: the first "
                f"that is left out is {self.draws[self._place].title}"
            )
        found = differences(self.recorded, outcome, opaque=(Purse,))
        found += [f"{name}: asked anew" for name, n in _cache_misses().items() if n > missed[name]]
        if found:
            raise Refuted(
                f"{self.estimator}: what is left behind depends on the records:\n"
                + "\n".join(found[:20])
            )

    @contextlib.contextmanager
    def _installed(self, outcome):
        def stream(streams, *label):
            real = REAL_STREAM(streams, *label)
            key = hashlib.blake2b(repr(label).encode(), digest_size=8).digest()
            generator = np.random.default_rng(int.from_bytes(key, "little"))
            # A release may wrap the generator, never its bits.
            bits = id(generator.bit_generator)
            self._labels[bits], self._real[bits] = label, real
            self._alive.append(generator)
            return generator

        tape = self
        patches = [
            mock.patch.object(noise, "draw", self.draw),
            mock.patch.object(NoiseStreams, "__call__", stream),
            mock.patch.object(PoissonSampler, "draw", lambda s, n, rng: tape.batch(s, n)),
            mock.patch.object(FixedSizeSampler, "draw", lambda s, n, rng: tape.batch(s, n)),
            mock.patch.object(SelectionEvent, "draw_count", lambda s, rng: tape.runs),
            np.errstate(all="ignore"),
            outcome.noted(),
        ]
        with contextlib.ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            try:
                yield
            except Exception as error:
                if not self._recording:
                    raise Refuted(
                        f"{self.estimator} fails on other data alone, after release {self._place} "
                        f"of {len(self.draws)}: {error!r}"
                    ) from error
                if self.charges:  # a failure is an output, and no event speaks of it
                    raise Refuted(f"{self.estimator}: charged, then failed: {error!r}") from error
                raise
            finally:
                # The package rewords what is raised while it reads records.
                if self._refuted is not None:
                    raise self._refuted

    # -- what takes the place of chance -----------------------------------------------------------

    def batch(self, sampler, n):
        """A batch with the changed record in it, or without it every third time."""
        if self._batch is not None:
            self._refute("a batch was drawn and never used, or used without a release.")
        rng, changed = np.random.default_rng(self._batches), self.changed % n
        holds = self._batches % 3 != 2
        self._batches += 1
        if isinstance(sampler, PoissonSampler):
            chosen = rng.random(n) < sampler.probability(n)
            if self.batches is not None:
                most = BATCHES[self.batches]
                chosen, holds = np.full(n, most is None), most != 0
            chosen[changed] = holds
            indices, kind = np.flatnonzero(chosen), ("poisson", n, sampler.probability(n))
            if self.without:
                indices = indices[indices != changed]
        else:
            others = rng.permutation(np.delete(np.arange(n), changed))
            indices = others[: sampler.batch_size - holds]
            indices = np.sort(np.append(indices, changed) if holds else indices)
            kind = ("fixed", n, sampler.batch_size)
        self._batch = (*kind, holds)
        return indices

    def draw(
        self,
        exact,
        scale,
        law,
        rng,
        size=(),
        *,
        sensitivity,
        presence=None,
        grid=None,
        averaged=None,
        shares=None,
        sampler=None,
    ):
        """In the place of ``noise.draw``."""
        several = isinstance(exact, tuple)
        scale, bound = (v if several else (v,) for v in (scale, sensitivity))
        label = self.label(rng)
        # A quantile wraps its stream; its draws are one site, whatever the stream is called.
        wrapped = type(getattr(rng, "_generators", [rng])[0]) is not np.random.Generator
        site = _site(() if wrapped else label)
        if self.fault is not None:
            scale, bound = self.fault(site, scale, bound)
        batch, self._batch = self._batch, None
        entry = Draw(
            exact=tuple(map(_copied, exact)) if several else (_copied(exact),),
            scale=tuple(scale),
            law=tuple(law) if several else (law,),
            bound=tuple(bound),
            site=site,
            call=_call(),
            label=label,
            size=(size,) if isinstance(size, int) else tuple(size),
            batch=batch,
            averaged=averaged,
            shares=shares,
            presence=presence,
            points=_asked_about() if self.unit != "record" else {},
            estimator=self.estimator,
            answer=None,
        )
        self._hold_noise_apart(entry, rng)
        if not self._recording:
            return self._replayed(entry)
        if self.quiet and not entry.size and law != "k-norm":
            entry.answer = self._without_noise(exact, law)
        else:
            whole = {"grid": grid, "averaged": averaged, "shares": shares, "sampler": sampler}
            s, b = (entry.scale, entry.bound) if several else (entry.scale[0], entry.bound[0])
            entry.answer = REAL_DRAW(exact, s, law, self._rng, size, sensitivity=b, **whole)
        self.draws.append(entry)
        if self.fault is not None and self.fault.kind == "twice" and site == self.fault.site:
            self.draws.append(entry)
        return _copied(entry.answer)

    def _refute(self, message):
        self._refuted = Refuted(message)
        raise self._refuted

    def _without_noise(self, exact, law):
        if law == "exponential":
            return np.argmax(exact, axis=-1)
        return _copied(exact.blocks if law == "pure sums" else exact)

    def label(self, rng):
        """The name of the stream that `rng` is; of the first one of several."""
        rng = getattr(rng, "_generators", [rng])[0]
        return self._labels.get(id(rng.bit_generator), ())

    def _hold_noise_apart(self, entry, rng):
        """Refute two unlike releases that real generators would give the same noise.

        The first word that each would draw now tells: one that goes on has another one.
        """
        for generator in getattr(rng, "_generators", [rng]):
            real = self._real.get(id(generator.bit_generator))
            if real is None:
                continue
            word = int(real.integers(2**64, dtype=np.uint64))
            first = self._words.setdefault(word, entry)
            if first is not entry and differences(
                (first.exact, first.public), (entry.exact, entry.public)
            ):
                self._refute(f"two releases with the same noise: {first.title}; {entry.title}")

    def _replayed(self, entry):
        if self._place >= len(self.draws):
            self._refute(f"one release more on the other data: {entry.title}")
        first = self.draws[self._place]
        self._place += 1
        both = zip(first.public.items(), entry.public.values(), strict=True)
        facts = [f"{name}: {one!r}, {other!r}" for (name, one), other in both if one != other]
        if facts:
            self._refute(f"{first.title}: depends on the records in\n" + "\n".join(facts))
        found = differences(first.points, entry.points)
        if found:
            self._refute(f"{first.title}: is about the records in\n" + "\n".join(found[:9]))
        limit = self.limit
        if self.presence:
            if entry.presence is None:
                self._refute(f"{first.title}: nothing is said of a record more.")
            limit = entry.presence / entry.bound[0] * (1.0 + 1e-15)  # a quotient's rounding
        if first.batch is not None and not first.batch[-1] and math.isfinite(limit):
            limit = 0.0
        elif self.without:
            limit = 0.5
        first.moved = self._moved(first, entry)
        exact = set(first.law) == {"discrete-gaussian"}
        if not first.moved <= limit * (1.0 if exact else 1.0 + TOLERANCE) + (not exact) * 1e-9:
            self._refute(
                f"{first.title}: the statistic moved {first.distance}, claimed bound "
                f"{_numbers(first.bound)}: {first.moved:.6g} of it, at most {limit:g} is allowed"
            )
        return _copied(first.answer)

    def _moved(self, first, second):
        blocks = zip(first.law, first.exact, second.exact, first.bound, strict=True)
        moves = [self._block_moved(*block) for block in blocks]
        return moves[0] if len(moves) == 1 else math.hypot(*moves)

    def _block_moved(self, law, a, b, bound):
        if law == "discrete-gaussian":
            a, b = np.ravel(np.asarray(a, object)), np.ravel(np.asarray(b, object))
            square = sum((int(x) - int(y)) ** 2 for x, y in zip(a, b, strict=True))
            if square > bound * bound:
                return max(1.0 + 1e-15, math.sqrt(fractions.Fraction(square, bound * bound)))
            return math.sqrt(fractions.Fraction(square, bound * bound))
        if law == "k-norm":
            probes = _probes(self.geometry)
            first, second = a(probes), b(probes)
            possible = np.isfinite(first)  # elsewhere there is no density
            if (possible != np.isfinite(second)).any():
                return math.inf
            return float(np.max(np.abs(first[possible] - second[possible]))) / bound
        if law.startswith("riemannian"):
            return float(self.geometry.dist(a, b)) / bound
        if law == "pure sums":  # of vectors of length at most one
            sums, counts = (x - y for x, y in zip(a.blocks, b.blocks, strict=True))
            lengths = np.linalg.norm(sums, axis=-1)
            return float(np.maximum(lengths, np.abs(counts)).sum()) / bound
        change = np.asarray(a, float) - np.asarray(b, float)
        if law == "pure symmetric":
            values = np.linalg.eigvalsh(change)
            return float(max(values.clip(0).sum(), -values.clip(None, 0).sum())) / bound
        if law == "exponential":
            return float(np.max(np.abs(change))) / bound
        if law == "symmetric":
            change = 0.5 * (change + np.swapaxes(change, -1, -2))
        return float(np.linalg.norm(change)) / bound

    # -- what the draws add up to -----------------------------------------------------------------

    def attained(self, mine=lambda draw: True) -> float:
        """Squared moves over squared scales of the whole fit, over the claimed total."""
        # A batch without the record says nothing about it, whatever it costs on average.
        draws = [d for d in self.draws if mine(d) and (d.batch is None or d.batch[-1])]
        # An averaged answer is paid for by others, but what it tells counts.
        told = sum(
            (draw.moved * float(draw.bound[0]) / float(draw.scale[0])) ** 2 * (draw.averaged or 1)
            for draw in draws
        )
        return told / sum(draw.cost for draw in draws)

    def check_charge(self, mine=lambda draw: True, unspent=0.0):
        """One charge before the first release, and the releases add up to it.

        A share of the Gaussian budget may be left, where a public choice makes a release needless.
        """
        if [place for place, _ in self.charges] != [0]:
            raise Refuted(
                f"{self.estimator}: charged {len(self.charges)} times, not once before all "
                "releases."
            )
        ((_, event),) = self.charges
        check_composition([draw for draw in self.draws if mine(draw)], event, unspent)


def check_composition(draws, event, unspent=0.0):
    """Raise unless the laws of `draws` compose to `event`, or to what is left of it."""
    claimed, used = _claims(event), _uses(draws, _kinds(event))
    if "gaussian" in claimed:
        claimed["gaussian"] *= 1.0 - unspent
    for kind in claimed.keys() | used.keys():
        have, want = used.get(kind, 0.0), claimed.get(kind, 0.0)
        if not math.isclose(have, want, rel_tol=1e-6, abs_tol=1e-12):
            raise Refuted(_unequal(kind, have, want, draws))


def _unequal(kind, have, want, draws):
    """All releases behind a sum that is not the charge; those that are alike on one line."""
    alike = Counter(
        f"{draw.title}: {', '.join(draw.law)}, mu^2 {draw.cost:.6g}, scale {_numbers(draw.scale)}, "
        f"bound {_numbers(draw.bound)}"
        for draw in draws
    )
    lines = [f"{count} x {line}" for line, count in alike.items()]
    return f"{kind}: releases add up to {have!r}, charged is {want!r}\n" + "\n".join(lines)


def check_paths(tapes, mine=lambda draw: True):
    """Raise unless all `tapes` of one fit were charged one event that holds on each of them.

    Laws that are not Gaussian are drawn as the event says; Gaussian releases take at most its mu^2.
    """
    events = {event for tape in tapes for _, event in tape.charges}
    if len(events) != 1 or any([p for p, _ in tape.charges] != [0] for tape in tapes):
        raise Refuted("another event was charged on another path, or not once before all releases.")
    for tape in tapes:
        check_within([draw for draw in tape.draws if mine(draw)], *events)


def check_within(draws, event, margin=1e-6):
    """Raise unless `draws` are of the laws of `event`, and its mu^2 covers the Gaussian ones."""
    claimed, used = _claims(event), _uses(draws, _kinds(event))
    for kind in claimed.keys() | used.keys():
        have, want = used.get(kind, 0.0), claimed.get(kind, 0.0)
        least = 0.0 if kind == "gaussian" else (1.0 - margin) * want
        if not least <= have <= (1.0 + margin) * want:
            raise Refuted(_unequal(kind, have, want, draws))


def _claims(event, times=1) -> Counter:
    """Amounts by kind: mu^2, pure epsilon, or the number of like releases."""
    total: Counter = Counter()
    if isinstance(event, ComposedEvent):
        for part in event.events:
            total.update(_claims(part, times))
    elif isinstance(event, SelfComposedEvent):
        total.update(_claims(event.event, times * event.count))
    elif isinstance(event, GaussianEvent):
        total["gaussian"] += times * event.mu**2
    elif isinstance(event, PureEvent):
        total["pure"] += times * event.epsilon_0 * getattr(event, "count", 1)
    elif isinstance(event, LaplaceEvent):
        key = ("radial", event.dim, _rounded(event.scale_over_sensitivity))
        total[key] += times * getattr(event, "count", 1)
    elif isinstance(event, RiemannianEvent):
        total[("riemannian", event.law, _rounded(event.scale / event.sensitivity))] += times
    elif isinstance(event, PoissonSampledGaussianEvent):
        if event.sampling_probability == 1.0:
            total["gaussian"] += times * event.count / event.noise_multiplier**2
        else:
            rate = _rounded(event.sampling_probability)
            key = ("poisson", rate, _rounded(event.noise_multiplier), event.integers)
            total[key] += times * event.count
    elif isinstance(event, FixedSizeSampledGaussianEvent):
        share = _rounded(event.batch_size / event.population)
        key = ("fixed", share, _rounded(event.noise_multiplier), event.integers)
        total[key] += times * event.count
    else:
        raise TypeError(f"no rule for {type(event).__name__}")
    return total


def _kinds(event):
    if isinstance(event, ComposedEvent):
        return set().union(*map(_kinds, event.events))
    return _kinds(event.event) if isinstance(event, SelfComposedEvent) else {type(event)}


def _uses(draws, kinds) -> Counter:
    total: Counter = Counter()
    for draw in draws:
        law, times = draw.law[0], math.prod(draw.size)
        scale, bound = float(draw.scale[0]), float(draw.bound[0])
        for s, b in zip(draw.scale, draw.bound, strict=True):
            if not math.isclose(s * bound, b * scale, rel_tol=1e-9):
                raise Refuted(
                    f"{draw.title}: unlike noise in the blocks of one release, "
                    f"bounds {_numbers(draw.bound)}, scales {_numbers(draw.scale)}"
                )
        if draw.averaged is not None:
            continue
        if draw.batch is not None:
            kind, n, rate, _ = draw.batch
            rate = rate if kind == "poisson" else rate / n
            integers = np.size(draw.exact[0]) if law == "discrete-gaussian" else 0
            total[(kind, _rounded(rate), _rounded(scale / bound), integers)] += times
        elif law in ("gaussian", "symmetric"):
            total["gaussian"] += draw.cost
        elif law == "discrete-gaussian":
            # The integer scale is a little above the multiplier that the statement needs.
            total["gaussian"] += draw.cost
        elif law == "radial" and LaplaceEvent in kinds:
            dim = np.shape(draw.exact[0])[-1]
            total[("radial", dim, _rounded(scale / bound))] += times
        elif law.startswith("riemannian") and RiemannianEvent in kinds:
            total[("riemannian", law.split("-")[1], _rounded(scale / bound))] += times
        else:
            factor = {"exponential": 2.0, "k-norm": 2.0}.get(law, 1.0)
            total["pure"] += times * factor * bound / scale
    return total


def _rounded(value):
    return float(f"{value:.7g}")


def _site(label) -> str:
    """The place that asked: the first frames outside the mechanisms, and the stream's name."""
    places: list[str] = []
    frame = sys._getframe(2)
    while frame is not None and len(places) < 2:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("skriemdp.") and not module.startswith("skriemdp._mechanisms"):
            name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
            place = f"{module.removeprefix('skriemdp.')}:{name}"
            if not places or module.split(".")[1:] != places[0].split(":")[0].split("."):
                places.append(place)
        frame = frame.f_back
    name = str(label[0]) if label else ""
    return f"{' < '.join(places)} ({name})"


# Names of what a query is about.
_POINTS = ("center", "point", "bounded_set", "bound", "quantile")


def _asked_about() -> dict:
    """What the functions that led to a draw call so: released or public, bitwise."""
    found: dict = {}
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("skriemdp."):
            values = {name: frame.f_locals[name] for name in _POINTS if name in frame.f_locals}
            found |= {f"{frame.f_code.co_name}.{name}": value for name, value in values.items()}
        frame = frame.f_back
    return found


def _fitted() -> str:
    """The class of the outermost object of the package that is at work: what is fitted."""
    found, frame = "no estimator", sys._getframe(2)
    while frame is not None:
        kind = type(frame.f_locals.get("self"))
        found = kind.__name__ if kind.__module__.startswith("skriemdp.") else found
        frame = frame.f_back
    return found


def _numbers(values) -> str:
    return ", ".join(f"{float(value):.6g}" for value in values)


def _call() -> tuple:
    """Module and line that called ``noise.draw``."""
    frame = sys._getframe(2)
    return frame.f_globals.get("__name__", ""), frame.f_lineno


def _probes(geometry):
    """Points around the base point, near and far; on spheres up to the end of any ball."""
    directions = np.concatenate([np.eye(geometry.dim), -np.eye(geometry.dim)])
    lengths = (0.01, 0.5, 2.0, 6.0) if geometry.is_hadamard else np.linspace(0.01, 1.57, 53)
    coordinates = np.concatenate([s * directions for s in lengths])
    return np.asarray(geometry.exp_coordinates(geometry.base_point, coordinates))


def _cache_misses() -> Counter:
    """Misses of every large cache of the package: those of public numbers alone know them all."""
    infos = {cache: cache.cache_info() for cache in _caches(len(sys.modules))}
    return Counter({c.__qualname__: i.misses for c, i in infos.items() if i.maxsize >= 1024})


@functools.lru_cache(maxsize=1)
def _caches(_loaded) -> set:
    modules = [module for name, module in sys.modules.items() if name.startswith("skriemdp.")]
    found = (value for module in modules for value in vars(module).values())
    caches = {value for value in found if isinstance(value, functools._lru_cache_wrapper)}
    return {cache for cache in caches if cache.cache_info().maxsize}


def _copied(value):
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    return value.copy() if isinstance(value, np.ndarray) else value


@dataclasses.dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring data sets and the fit that must not tell them apart.

    Attributes
    ----------
    name : str
    fit : callable
        ``fit(accountant, *data)``.
    data, other : tuple
        They differ in the record `changed`.
    attains : float
        Least share of the claimed total that this pair must use up; worst pairs say how much.
    mine : callable
        Which releases the changed record takes part in.
    charge : callable, optional
        Checks the charge in another way than :meth:`Tape.check_charge`.
    public : tuple of int
        Places in `data` that are public, so that unrelated data share them.
    slow : bool
        No quick run replays it: the same fit elsewhere holds what this space adds nothing to.
    """

    name: str
    fit: Callable
    data: tuple
    other: tuple
    attains: float = 0.0
    changed: int = 0
    quiet: bool = True
    geometry: Any = None
    mine: Callable = lambda draw: True
    charge: Callable = Tape.check_charge
    public: tuple[int, ...] = ()
    slow: bool = False
    xfail: str = ""

    def run(self, fault=None, strangers=False) -> Tape:
        """Record, replay both ways of comparing, check the charge; the tape of the replay.

        With `strangers`, on unrelated data too, and with batches of any size.
        """
        tape = Tape(self.changed, self.quiet, self.geometry, fault)
        tape.record(self.fit, self.data)
        self.charge(tape, self.mine)
        if strangers:
            tape.replay(self.fit, unrelated(self), limit=math.inf)
        if any(draw.batch and draw.batch[0] == "poisson" for draw in tape.draws):
            tape.replay(self.fit, self.data, without=True)
            for batches in BATCHES if strangers else ():
                self.by_chance(fault, batches=batches)
        if strangers and isinstance(tape.charges[0][1], SelectionEvent):
            self.by_chance(fault, runs=1)
        tape.replay(self.fit, self.other)
        share = tape.attained(self.mine)
        if not share <= 1.0 + TOLERANCE:
            raise Refuted(f"{tape.estimator}: the whole fit tells {share:.6g} of what is charged")
        return tape

    def by_chance(self, fault=None, **chance) -> None:
        """Record and replay with other draws of our own: no fit may end for one, nor tell it."""
        tape = Tape(self.changed, self.quiet, self.geometry, fault, **chance)
        tape.record(self.fit, self.data)
        self.charge(tape, self.mine)
        tape.replay(self.fit, self.other)
