"""What a fit is charged for holds on every path along which its answers can lead it.

A replay gives neighbours the same answers, so it walks one path.  Here noise of any size leads fits
astray: searches stop early or late, radii come out tiny or huge, data look wide.  The plan fixes
the event, so on every path the same event is charged, its laws that are not Gaussian are drawn as
they stand there, scale and number, and Gaussian releases take at most its mu^2.  More is proved for
no path (docs/theory/laplace-noise.md, "Behind Gaussian releases").
"""

import dataclasses
import re
from unittest import mock

import numpy as np
import pytest

from replay import tape as tapes
from replay.pairs import PAIRS
from replay.tape import Refuted, Tape, check_paths
from skriemdp._mean import estimator
from skriemdp._mechanisms.budget import GaussianBudget

PATHS = 2
# Fits that ask what earlier answers decide, and those whose last law is not Gaussian.
BRANCHING = r"found|private|search|auto|refine|extreme|paid|adaptive|wide|sampled|laplace"
CHOSEN = [
    pair
    for pair in PAIRS
    if re.search(BRANCHING, pair.name)
    and getattr(pair.charge, "func", pair.charge) is Tape.check_charge
]


def walked(pair, path, plans=None):
    """A tape of one fit, whose noise is now much smaller and now much larger than it should be.

    What it states that it may release is added to the list `plans`.
    """
    fate, real = np.random.default_rng(path), tapes.REAL_DRAW

    def other(scale, factor):
        integers = isinstance(scale, int)
        return 64 * max(1, int(scale * factor) // 64) if integers else scale * factor

    def astray(exact, scale, law, rng, size, **more):
        factor = 10.0 ** fate.uniform(-3.0, 3.0)
        several = isinstance(scale, tuple)
        scale = tuple(other(s, factor) for s in scale) if several else other(scale, factor)
        return real(exact, scale, law, rng, size, **more)

    tape = Tape(pair.changed, quiet=False, geometry=pair.geometry)
    tape.plans = [] if plans is None else plans
    with mock.patch.object(tapes, "REAL_DRAW", astray):
        tape.record(pair.fit, pair.data)
    return tape


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("pair", CHOSEN, ids=lambda pair: pair.name)
def test_the_plan_fixes_the_event(pair):
    check_paths([walked(pair, path) for path in range(PATHS)], pair.mine)


def test_fits_take_different_paths():
    """Else the test above says nothing."""
    several = 0
    for pair in CHOSEN[::5]:
        costs = {tuple(draw.cost for draw in walked(pair, path).draws) for path in range(PATHS)}
        several += len(costs) > 1
    assert several >= 5


def _named(name):
    return next(pair for pair in CHOSEN if pair.name == name)


def test_a_law_chosen_after_the_search_is_found(monkeypatch):
    def late(ball, n, noise, *rest):
        if noise.law is not None and ball.radius > 1.0:
            narrow = 0.9 * noise.law.scale_over_sensitivity
            law = dataclasses.replace(noise.law, scale_over_sensitivity=narrow)
            noise = dataclasses.replace(noise, law=law)
        return plan(ball, n, noise, *rest)

    pair, plan = _named("mean found hyperboloid"), estimator.plan_tangent_mean
    monkeypatch.setattr(estimator, "plan_tangent_mean", late)
    with pytest.raises(Refuted, match="radial"):
        check_paths([walked(pair, path) for path in range(8)], pair.mine)


@pytest.mark.parametrize("name", ["mean found hyperboloid", "pca refine 1"])
def test_a_share_that_is_not_in_the_plan_is_found(name, monkeypatch):
    take = GaussianBudget.take
    monkeypatch.setattr(GaussianBudget, "take", lambda self, *asked: 1.1 * take(self, *asked))
    pair = _named(name)
    with pytest.raises(Refuted, match="gaussian"):
        check_paths([walked(pair, path) for path in range(PATHS)], pair.mine)


def test_an_event_that_depends_on_answers_is_found():
    pair = _named("mean found hyperboloid")
    several = [walked(pair, path) for path in range(2)]
    ((place, event),) = several[1].charges
    several[1].charges[:] = [(place, event.events[0])]
    with pytest.raises(Refuted, match="another event"):
        check_paths(several)
