"""What a fit states that it may release is its plan: fixed before the charge, and kept.

The plan lists releases by name, each with its share.  It is the same on every path along which
noise can lead a fit, and for data that share nothing but what is public.  Behind the charge a fit
takes no more for the first so many names of the list than the list holds for them: what a search
leaves goes to the releases after it, never the other way.
"""

import dataclasses
import functools
import itertools
from unittest import mock

import pytest

from replay.pairs import PAIRS
from replay.test_paths import walked
from replay.unrelated import unrelated
from skriemdp._core.arithmetic import INTEGERS, PLAIN
from skriemdp._mechanisms.budget import GaussianBudget, Release, _Budget

# Parts of fits by themselves state no plan; a search over fits states one for all of them.
PARTS = ("search ", "curator ", "completion signal")
FITS = [pair for pair in PAIRS if not pair.name.startswith(PARTS)]


def followed(pair, path=0):
    """The plan that was charged, the shares taken behind the charge, by name, and the tape."""
    taken, plans, take = {}, [], _Budget._take

    def note(budget, share, name, *more):
        # One that plans again, to know what it may take, releases nothing.
        if plans and budget._planned is not None:
            taken[name] = taken.get(name, 0.0) + share
        return take(budget, share, name, *more)

    with mock.patch.object(_Budget, "_take", note):
        tape = walked(pair, path, plans)
    assert tape.recorded.error == ""
    return plans, taken, tape


@functools.cache
def followed_twice(pair):
    """On its own data, and on unrelated data along another path."""
    others = dataclasses.replace(pair, data=unrelated(pair))
    return followed(pair, 0), followed(others, 1)


def check_stated(tape):
    """Who states exact integers draws nothing else, and who states something else does."""
    laws = {law for draw in tape.draws for law in draw.law}
    for words in tape.stated:
        if words == INTEGERS:
            assert laws == {"discrete-gaussian"}
        elif " may " not in words:  # a mean that may be iterated, losses that may round
            assert laws - {"discrete-gaussian"}


def check_kept(releases, taken):
    """No more is taken for the first names of a plan than it holds for them."""
    assert taken.keys() <= {release.name for release in releases}
    bounded_set = itertools.accumulate(release.share for release in releases)
    used = itertools.accumulate(taken.get(release.name, 0.0) for release in releases)
    assert all(b <= a + 1e-9 for a, b in zip(bounded_set, used, strict=True))


@pytest.mark.mostly_slow(6)
@pytest.mark.parametrize(
    "pair",
    [pytest.param(p, marks=[pytest.mark.slow] * p.slow) for p in FITS],
    ids=lambda pair: pair.name,
)
def test_a_plan_names_all_that_may_be_released(pair):
    runs = followed_twice(pair)
    (releases,) = {plan for plans, *_ in runs for plan in plans}
    assert releases and all(isinstance(release, Release) for release in releases)
    assert all(release.name and release.law and release.share > 0.0 for release in releases)
    assert len({release.name for release in releases}) == len(releases)
    assert sum(release.share for release in releases) <= 1.0 + 1e-9
    for _, taken, tape in runs:
        check_stated(tape)
        # The budgets of two fits in one know these by names without their prefix.
        if releases[0].name != "fits and scores" and ": " not in releases[0].name:
            check_kept(releases, taken)


def _named(name):
    return next(pair for pair in FITS if pair.name == name)


def test_most_fits_divide_a_budget_behind_the_charge():
    """Else the test above says little of what they take."""
    some = [pair for pair in FITS[::6] if not pair.slow]  # those above, of a quick run
    assert sum(bool(followed_twice(pair)[0][1]) for pair in some) > len(some) / 3


@pytest.mark.parametrize("name", ["mean found hyperboloid", "pca refine 1"])
def test_what_is_in_no_plan_is_found(name, monkeypatch):
    pair, take = _named(name), GaussianBudget.take
    (releases,), taken, _ = followed(pair)
    with pytest.raises(AssertionError):
        check_kept(releases, taken | {"another": 0.01})
    with pytest.raises(AssertionError):
        check_kept(releases, taken | {releases[0].name: releases[0].share + 0.01})
    monkeypatch.setattr(
        GaussianBudget, "take", lambda self, share, *a: take(self, share, "x", *a[1:])
    )
    with pytest.raises(AssertionError):
        check_kept(releases, followed(pair)[1])


def test_words_that_are_not_what_is_drawn_are_found():
    for name, wrong in (("mean output laplace spd", INTEGERS), ("pca refine 1", PLAIN)):
        *_, tape = followed(_named(name))
        check_stated(tape)
        tape.stated = [wrong]
        with pytest.raises(AssertionError):
            check_stated(tape)
