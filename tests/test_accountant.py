"""The accountant: ceilings, partitions, data sets, the active stack, handles (one process)."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
import json
import math
import os
import pickle
import threading
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import skriemdp
from skriemdp import config_context, set_config
from skriemdp.ledger import _current as current
from skriemdp.ledger import matches
from skriemdp.ledger._accountant import BudgetError, BudgetExceededError, PrivacyAccountant
from skriemdp.ledger._chain import Standing, add
from skriemdp.ledger._current import active_accountant_token, current_accountant
from skriemdp.ledger._filters import (
    KINDS,
    make_filter,
    number,
    refuse_strange_sizes,
    renyi_budget,
)
from skriemdp.ledger._statements import plain_facts
from skriemdp.privacy._calibration import gaussian_epsilon, gaussian_mu
from skriemdp.privacy._events import (
    ApproximateEvent,
    Event,
    FixedSizeSampledGaussianEvent,
    GaussianEvent,
    PoissonSampledGaussianEvent,
    PureEvent,
    compose,
)

DELTA = 1e-5
RULES = ["auto", "renyi", "gdp"]


def gaussian(mu):
    """Gaussian event with at most this mu."""
    return GaussianEvent(math.nextafter(1 / mu, math.inf))


# -- ceilings --


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize(
    ("each", "times", "ceiling"), [(0.1, 3, 0.3), (0.1, 10, 1.0), (0.7, 3, 2.1)]
)
def test_decimal_ceilings_are_met_exactly(kind, each, times, ceiling):
    accountant = PrivacyAccountant(epsilon=ceiling, delta=1e-9, filter=kind)
    for _ in range(times):
        accountant.spend(PureEvent(each))
    with pytest.raises(BudgetExceededError):
        accountant.spend(PureEvent(1e-12))
    assert len(accountant.history) == times


@pytest.mark.parametrize("times", [1, 2, 3, 7, 16, 100])
def test_gaussian_shares_use_the_whole_gdp_budget(times):
    accountant = PrivacyAccountant(epsilon=1.0, delta=DELTA, filter="gdp")
    share = GaussianEvent(math.sqrt(times) / gaussian_mu(1.0, DELTA))
    accountant.reserve(times, share)
    for _ in range(times):
        accountant.spend(share)
    with pytest.raises(BudgetExceededError):
        accountant.spend(gaussian(1e-3))


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize(
    "event",
    [gaussian(gaussian_mu(1.0, DELTA)), PureEvent(1.0), ApproximateEvent(1.0, DELTA)],
    ids=lambda event: type(event).__name__,
)
def test_one_release_may_take_the_whole_ledger(kind, event):
    accountant = PrivacyAccountant(epsilon=1.0, delta=DELTA, filter=kind)
    if event.gdp_bound is None and kind == "gdp":
        with pytest.raises(ValueError, match="no finite mu"):
            accountant.spend(event)
        return
    assert accountant.remaining().epsilon == 1.0
    assert accountant.remaining(event) == 1
    accountant.spend(event)
    assert accountant.remaining(event) == 0
    with pytest.raises(BudgetExceededError):
        accountant.spend(gaussian(1e-3))
    too_much = PrivacyAccountant(epsilon=0.999, delta=DELTA, filter=kind)
    with pytest.raises(BudgetExceededError):
        too_much.spend(event)


def test_the_whole_ledger_is_open_to_the_first_spend_only():
    accountant = PrivacyAccountant(epsilon=1.0, delta=DELTA)
    accountant.spend(gaussian(1e-4))
    with pytest.raises(BudgetExceededError):
        accountant.spend(gaussian(gaussian_mu(1.0, DELTA)))


def test_pure_ledger_adds_epsilons_and_refuses_gaussians():
    accountant = PrivacyAccountant(epsilon=1.0, delta=0.0)
    accountant.spend(PureEvent(0.5))
    with pytest.raises(BudgetExceededError):
        accountant.spend(gaussian(0.01))
    accountant.spend(PureEvent(0.5))
    assert tuple(accountant.spent) == pytest.approx((1.0, 0.0))


def test_approximate_deltas_have_their_own_budget():
    accountant = PrivacyAccountant(epsilon=2.0, delta=1e-5)
    for _ in range(10):
        accountant.spend(ApproximateEvent(0.01, 1e-7))
    with pytest.raises(BudgetExceededError):
        accountant.spend(ApproximateEvent(0.01, 1e-9))
    accountant.spend(PureEvent(0.01))


@pytest.mark.parametrize("kind", RULES)
def test_many_small_spends_cost_what_one_large_costs(kind):
    many, one = (PrivacyAccountant(epsilon=8.0, filter=kind) for _ in range(2))
    for _ in range(64):
        many.spend(GaussianEvent(32.0))
    one.spend(GaussianEvent(4.0))  # the same mu: sqrt(64)/32 = 1/4
    assert many.remaining().mu == pytest.approx(one.remaining().mu, rel=1e-12)
    assert many.spent.epsilon == pytest.approx(one.spent.epsilon, rel=1e-6)


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("event", [GaussianEvent(9.0), PureEvent(0.21)], ids=str)
def test_remaining_counts_what_is_then_admitted(kind, event):
    accountant = PrivacyAccountant(epsilon=2.0, filter=kind)
    promised, admitted = accountant.remaining(event), 0
    while admitted <= promised:
        try:
            accountant.spend(event)
        except BudgetExceededError:
            break
        admitted += 1
    assert 0 < admitted == promised
    assert accountant.remaining(event) == 0


@pytest.mark.parametrize("kind", RULES)
def test_remaining_epsilon_is_what_the_next_gaussian_fit_may_ask(kind):
    accountant = PrivacyAccountant(epsilon=3.0, filter=kind)
    accountant.spend(GaussianEvent(3.0))
    left = accountant.remaining()
    with pytest.raises(BudgetExceededError):
        accountant.check(gaussian(left.mu * 1.0001))
    accountant.check(PureEvent(left.pure_epsilon))
    accountant.spend(gaussian(gaussian_mu(left.epsilon, DELTA)))


def test_mu_that_remains_under_a_sum_is_that_of_the_pair_that_remains():
    accountant = PrivacyAccountant(epsilon=3.0, delta=DELTA, filter="sum")
    assert accountant.remaining().mu == pytest.approx(gaussian_mu(3.0, DELTA), rel=1e-9)
    accountant.spend(PureEvent(1.0))
    assert accountant.remaining().mu == pytest.approx(gaussian_mu(2.0, DELTA), rel=1e-9)


def test_refusal_names_filter_remaining_and_asked_and_spends_nothing():
    accountant = PrivacyAccountant(epsilon=1.0)
    accountant.spend(PureEvent(0.2))
    before = accountant.remaining()
    with pytest.raises(BudgetExceededError) as caught:
        accountant.spend(GaussianEvent(0.5), label="Mean")
    text = str(caught.value)
    assert "rule 'auto'" in text and f"Left: {before}." in text
    assert "GaussianEvent(noise_multiplier=0.5, count=1)" in text and "20.0 % of it is used" in text
    assert caught.value.remaining == before == accountant.remaining()
    assert len(accountant.history) == 1
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


def test_without_a_delta_nothing_gaussian_is_offered():
    left = PrivacyAccountant(epsilon=1.5, delta=0.0).remaining()
    assert str(left) == "a pure fit of epsilon <= 1.5000"
    some = str(dataclasses.replace(left, times=3))
    assert some == "3 pure fits of epsilon <= 1.5000 each"


def test_without_a_ceiling_everything_is_recorded():
    accountant = PrivacyAccountant()
    for multiplier in (0.01, 1.0, 100.0):
        accountant.spend(GaussianEvent(multiplier))
    assert accountant.remaining().epsilon == math.inf
    assert accountant.remaining(GaussianEvent(1.0)) == math.inf
    assert accountant.spent.epsilon > 1000


@dataclasses.dataclass(frozen=True)
class Oddity(Event):
    """An event whose sizes are whatever the test says."""

    size: float

    mu = gdp_bound = property(lambda self: self.size)
    extra_delta = 0.0

    def renyi(self, alpha):
        return self.size

    def delta(self, epsilon):
        return 0.0

    def epsilon(self, delta):
        return 0.0

    def privacy_loss_distribution(self, interval=1e-4):
        raise NotImplementedError

    def to_dict(self):
        return {"kind": "Oddity", "size": self.size}


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("ceiling", [1.0, math.inf])
@pytest.mark.parametrize("size", [math.nan, -1.0, 5e-324, -5e-324, math.inf])
def test_strange_sizes_are_refused(kind, ceiling, size):
    accountant = PrivacyAccountant(epsilon=ceiling, filter=kind)
    with pytest.raises(ValueError):
        accountant.spend(Oddity(size))
    assert accountant.history == []


def test_only_events_can_be_spent():
    with pytest.raises(TypeError, match="Event"):
        PrivacyAccountant().spend(1.0)


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"epsilon": 0.0}, ValueError),
        ({"epsilon": math.nan}, ValueError),
        ({"epsilon": "1"}, TypeError),
        ({"epsilon": 1.0, "delta": 1.0}, ValueError),
        ({"epsilon": 1.0, "delta": 0.0, "filter": "gdp"}, ValueError),
        ({"filter": "pld"}, ValueError),
    ],
)
def test_parameters_are_checked(parameters, error):
    with pytest.raises(error):
        PrivacyAccountant(**parameters)


@pytest.mark.parametrize("given", ["study.ledger", Path("study.ledger"), "3"])
def test_a_file_is_not_taken_for_an_epsilon(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match=f"a number, and path='{given}'"):
        PrivacyAccountant(given)
    assert not list(tmp_path.iterdir())


# -- the filters' mathematics (docs/theory/filters.md) --

CEILINGS = [
    (0.1, 1e-6),
    (1.0, 1e-5),
    (1.0, 1e-40),
    (1.0, 1e-9),
    (3.0, 1e-3),
    (10.0, 1e-5),
    (40.0, 1e-6),
]


@pytest.mark.parametrize(("epsilon", "delta"), CEILINGS)
def test_gdp_limit_is_on_the_private_side(epsilon, delta):
    with mpmath.workdps(50):
        mu = mpmath.sqrt(mpmath.mpf(make_filter("gdp", epsilon, delta).limits[0]) / 10**24)
        e = mpmath.mpf(epsilon)
        reached = mpmath.ncdf(-e / mu + mu / 2) - mpmath.exp(e) * mpmath.ncdf(-e / mu - mu / 2)
        assert reached <= mpmath.mpf(delta)
        assert reached >= mpmath.mpf(delta) * (1 - mpmath.mpf("1e-5"))


@pytest.mark.parametrize(("epsilon", "delta"), CEILINGS)
def test_renyi_limit_is_on_the_private_side(epsilon, delta):
    rule = make_filter("renyi", epsilon, delta)
    with mpmath.workdps(50):
        a, rho = mpmath.mpf(rule.order), mpmath.mpf(rule.limits[0]) / 10**24
        c = (a - 1) ** (a - 1) / a**a
        reached = c * mpmath.exp((a - 1) * (rho - mpmath.mpf(epsilon)))
        reached += mpmath.mpf(rule.limits[1]) / 10**24
        # (below 1e-23 the tenth of delta kept for approximate events rounds down to nothing)
        assert (
            mpmath.mpf(delta) * (0.9 if delta < 1e-20 else 1) * (1 - mpmath.mpf("1e-5")) <= reached
        )
        assert reached <= mpmath.mpf(delta)
    nearby = [rule.order * factor for factor in (0.9, 1.1)]
    best = renyi_budget(rule.order, epsilon, 0.9 * delta) / rule.order
    assert all(renyi_budget(order, epsilon, 0.9 * delta) / order <= best for order in nearby)


def worst_delta(rule, epsilon, menu, rounds):
    """Largest delta at `epsilon` that an adaptive analyst reaches with randomized responses.

    Exact: after each answer the analyst picks the next event from `menu` (or stops), whatever is
    worst given the privacy loss so far, among those that `rule` admits.
    """

    def worst(loss, total, untouched, left):
        best = max(0.0, 1 - math.exp(min(epsilon - loss, 0.0)))
        if left == 0:
            return best
        for event in menu:
            cost = rule.cost(event)
            if rule.admits(Standing(total, untouched), cost, event):
                e, after = event.epsilon_0, add(total, cost)
                up = 1 / (1 + math.exp(-e))
                value = up * worst(loss + e, after, False, left - 1)
                value += (1 - up) * worst(loss - e, after, False, left - 1)
                best = max(best, value)
        return best

    return worst(0.0, rule.zero, True, rounds)


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.1), (0.5, 0.3), (2.0, 0.03)])
def test_adaptive_analyst_stays_within_the_ceiling(kind, epsilon, delta):
    rule = make_filter(kind, epsilon, delta)
    menu = [PureEvent(epsilon * share) for share in (1.3, 0.6, 0.35)]
    assert worst_delta(rule, epsilon, menu, 6) <= delta
    doubled = dataclasses.replace(rule, limits=tuple(4 * limit for limit in rule.limits))
    assert worst_delta(doubled, epsilon, menu, 6) > delta  # the test can fail


def test_stored_filter_survives_its_dictionary():
    for kind, (epsilon, delta) in itertools.product(KINDS, CEILINGS):
        rule = make_filter(kind, epsilon, delta)
        place = SimpleNamespace(name="a", terms={"filter": rule.to_dict()})
        assert type(rule).stored(place) == rule
        assert rule.used(rule.zero) == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_with_the_limits_of_another_is_not_read(kind):
    rule = make_filter(kind, 1.0, 1e-6)
    limits = rule.to_dict()["limits"] or []
    terms = {"filter": rule.to_dict() | {"limits": [*limits, "1", "1", "1"][: 7 - len(limits)]}}
    with pytest.raises(BudgetError, match="cannot read"):
        type(rule).stored(SimpleNamespace(name="a", terms=terms))


# -- partitions and data sets --


def test_partitions_cost_the_maximum_and_common_spends_add():
    mu = gaussian_mu(1.0, DELTA)
    accountant = PrivacyAccountant(epsilon=1.0, filter="gdp")
    accountant.spend(gaussian(0.6 * mu))
    for site in "abc":
        accountant.partition(site).spend(gaussian(0.79 * mu))  # .36 + .6241 < 1
    assert accountant.spent.epsilon == pytest.approx(
        gaussian_epsilon(mu * math.sqrt(0.36 + 0.6241), DELTA), rel=1e-5
    )
    assert accountant.spent.n_entries == 4
    assert accountant.partition("a").spent.n_entries == 2
    with pytest.raises(BudgetExceededError, match="partition 'a'"):
        accountant.partition("a").spend(gaussian(0.2 * mu))
    with pytest.raises(BudgetExceededError):
        accountant.spend(gaussian(0.2 * mu))  # every part would have to bear it
    accountant.partition("d").spend(gaussian(0.7 * mu))
    accountant.spend(gaussian(0.1 * mu))
    with pytest.raises(BudgetExceededError):
        accountant.partition("a").spend(gaussian(0.1 * mu))
    assert [spend.partition for spend in accountant.history] == ["", "a", "b", "c", "d", ""]


def test_partition_rules_match_a_plain_list(rng):
    """Random spends against a rule that looks at the whole list each time."""
    limit = Fraction("1")
    accountant = PrivacyAccountant(epsilon=1.0, delta=0.0)
    parts = {"a": Fraction(0), "b": Fraction(0), "c": Fraction(0)}
    common, decisions = Fraction(0), []
    for part, size in zip(rng.choice(["", *parts], 60), rng.integers(1, 12, 60), strict=True):
        each = Fraction(int(size), 100)
        worst = parts[part] if part else max(parts.values())
        expected = common + worst + each <= limit
        handle = accountant.partition(str(part)) if part else accountant
        try:
            handle.spend(PureEvent(float(each)))
            admitted = True
        except BudgetExceededError:
            admitted = False
        assert admitted == expected
        decisions.append(admitted)
        if admitted and part:
            parts[part] += each
        elif admitted:
            common += each
    assert set(decisions) == {True, False}


def test_partitions_do_not_nest_and_need_names():
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match="nest"):
        accountant.partition("a").partition("b")
    with pytest.raises(ValueError):
        accountant.partition("")
    with pytest.raises(TypeError):
        accountant.dataset(3)


def test_datasets_have_their_own_budgets(tmp_path):
    path = tmp_path / "budget.ledger"
    accountant = PrivacyAccountant(epsilon=1.0, path=path)
    other = accountant.dataset("clinic-b", epsilon=2.0, filter="gdp")
    accountant.spend(PureEvent(1.0))
    other.spend(PureEvent(1.0))
    assert (other.epsilon, other.delta, other.filter) == (2.0, DELTA, "gdp")
    assert accountant.dataset("clinic-c").epsilon == 1.0
    again = PrivacyAccountant(path=path).dataset("clinic-b")
    assert again == other and len(again.history) == 1
    with pytest.raises(BudgetError, match="clinic-b"):
        accountant.dataset("clinic-b", epsilon=3.0)


def test_reopening_keeps_the_stored_ceiling(tmp_path):
    path = tmp_path / "budget.ledger"
    PrivacyAccountant(epsilon=1.0, delta=1e-6, path=path).spend(PureEvent(0.75))
    for again in (PrivacyAccountant(path=path), PrivacyAccountant(1.0, 1e-6, path)):
        assert (again.epsilon, again.delta) == (1.0, 1e-6)
        with pytest.raises(BudgetExceededError):
            again.spend(PureEvent(0.5))
    for other in (
        {"epsilon": 2.0},
        {"epsilon": 1.0},
        {"epsilon": 1.0, "delta": 1e-6, "filter": "gdp"},
    ):
        with pytest.raises(BudgetError, match="fixed when it was made"):
            PrivacyAccountant(**other, path=path)


# -- the active accountant --


def test_innermost_block_is_current():
    outer, inner = PrivacyAccountant(), PrivacyAccountant()
    default = current_accountant()
    with outer:
        assert current_accountant() is outer
        with inner, outer.partition("a") as part:
            assert current_accountant() is part
        with pytest.raises(KeyError), inner:
            raise KeyError
        assert current_accountant() is outer
    assert current_accountant() is default and default.epsilon == math.inf


def in_thread(function, *arguments):
    result = []

    def work():
        try:
            result.append(function(*arguments))
        except Exception as error:
            result.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return result[0]


def test_blocks_reach_worker_threads():
    accountant, other = PrivacyAccountant(), PrivacyAccountant()

    def nested():
        with other:
            return current_accountant()

    with accountant:
        assert in_thread(current_accountant) is accountant
        assert in_thread(nested) is other
        assert current_accountant() is accountant


def test_threads_with_different_blocks_are_never_confused():
    accountant = PrivacyAccountant()
    opened, done = threading.Event(), threading.Event()

    def hold():
        with accountant.partition("a"):
            opened.set()
            done.wait(10)
            return current_accountant().partition_name

    result = []
    thread = threading.Thread(target=lambda: result.append(hold()))
    with accountant.partition("b"):
        thread.start()
        opened.wait(10)
        assert current_accountant().partition_name == "b"
        confused = in_thread(current_accountant)
        done.set()
        thread.join()
    assert isinstance(confused, BudgetError) and "cannot be seen" in str(confused)
    assert result == ["a"]


def test_tokens_are_for_other_processes():
    accountant, outer = PrivacyAccountant(), PrivacyAccountant()
    with accountant:
        token = active_accountant_token()
    assert current_accountant(token) == current_accountant() != accountant
    foreign = {**token, "process": [0, "elsewhere"]}
    assert current_accountant(foreign) == accountant
    assert active_accountant_token(foreign)["handle"] == accountant
    with outer:
        assert current_accountant(foreign) is outer
    os.unlink(accountant.path)
    with pytest.raises(BudgetError, match="does not exist"):
        current_accountant(foreign).spend(PureEvent(0.1))
    assert current_accountant({**foreign, "default": True}) is current._default


# -- handles --


class Holder(BaseEstimator):
    def __init__(self, accountant=None):
        self.accountant = accountant


def test_copies_are_handles_on_the_same_budget():
    accountant = PrivacyAccountant(epsilon=1.0)
    copies = [
        clone(Holder(accountant)).accountant,
        copy.deepcopy(accountant),
        copy.copy(accountant),
        pickle.loads(pickle.dumps(accountant)),
    ]
    assert copies[0] is accountant is accountant.__sklearn_clone__()
    for handle in copies:
        assert handle == accountant and hash(handle) == hash(accountant)
        handle.spend(PureEvent(0.25))
    with pytest.raises(BudgetExceededError):
        accountant.spend(PureEvent(0.01))
    part = pickle.loads(pickle.dumps(accountant.partition("a")))
    assert part.partition_name == "a" and part != accountant


def test_history_frame_and_summary(tmp_path):
    accountant = PrivacyAccountant(epsilon=4.0, path=tmp_path / "<b>.ledger")
    for site in ("north", "south"):
        accountant.partition(site).spend(
            GaussianEvent(5.0), label="Mean<script>", params={"epsilon": 0.5}
        )
    spend = accountant.spend(PureEvent(0.5), label="Quantile")
    assert accountant.history[-1] == spend
    assert [entry.entry for entry in accountant.history] == [2, 3, 4]
    assert accountant.history[0].params == {"epsilon": 0.5}
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(map(dataclasses.asdict, accountant.history))
    assert list(frame["partition"]) == ["north", "south", ""]
    text, markup = str(accountant), accountant._repr_html_()
    for words in (
        "epsilon=4",
        "3 releases",
        "if this list had been fixed",
        "KFold yes",
        "raw scores",
    ):
        assert words in text and words in markup
    assert "<script>" in text and "<script>" not in markup
    assert repr(accountant).startswith("PrivacyAccountant(path=")


def test_facts_are_plain_large_ones_digests_and_signed_on_request():
    large, nested = np.arange(101.0) / 7.0, {"radii": [1.0, math.inf], "ids": ["é" * 200] * 2}
    facts = {"center": np.eye(2), "large": large, "n": np.int64(3), "scale": None} | nested
    accountant = PrivacyAccountant()
    with config_context(sign_charges=True):
        signed = accountant.spend(PureEvent(0.1), facts=facts)
    plain = accountant.spend(PureEvent(0.1))
    assert signed.user and signed.host and not plain.user and not plain.host
    assert accountant.history == [signed, plain] and plain.facts == {}
    assert signed.version == plain.version == skriemdp.__version__
    found = signed.facts
    assert found["center"] == [[1.0, 0.0], [0.0, 1.0]] and found["radii"] == [1.0, "inf"]
    assert found["n"] == 3 and found["scale"] is None
    digest = hashlib.sha256(large.astype("<f8").tobytes()).hexdigest()
    assert found["large"] == {"sha256": digest, "shape": [101]}
    assert found["ids"].keys() == {"sha256", "characters"}
    again = json.loads(json.dumps({k: np.asarray(v).tolist() for k, v in facts.items()}))
    assert plain_facts(again) == found
    noted = next(accountant._ledger.entries("default")).noted
    assert noted["facts"] == found
    assert (noted["version"], noted["user"]) == (signed.version, signed.user)
    with pytest.raises(ValueError, match="sign_charges must be one of False, True"):
        set_config(sign_charges="yes")


def test_statements_that_name_no_charge():
    accountant = PrivacyAccountant()
    spend = accountant.spend(PureEvent(0.1), facts={"n": 3})
    stated = {"event": spend.event, "unit": "record", "public": {"n": 3}}
    entry = [spend.entry, spend.digest, "default"]
    assert matches(accountant.path, stated | {"entry": entry}) == []
    for name, value in (("unit", "group"), ("event", {}), ("public", {"n": 4})):
        assert len(matches(accountant.path, stated | {"entry": entry, name: value})) == 1
    assert matches(accountant.path, stated | {"entry": [9, *entry[1:]]}) == [
        "the ledger has no entry 9"
    ]
    for wrong in ({}, [], stated, stated | {"entry": None}, stated | {"entry": [True]}):
        with pytest.raises(ValueError, match="statement"):
            matches(accountant.path, wrong)


def test_params_must_be_plain_data():
    accountant = PrivacyAccountant()
    for params in ({"x": np.zeros(3)}, {"x": math.nan}):
        with pytest.raises((TypeError, ValueError)):
            accountant.spend(PureEvent(0.1), params=params)
    assert accountant.history == []


def test_spent_is_the_tight_total():
    accountant = PrivacyAccountant()
    assert tuple(accountant.spent) == (0.0, 0.0)
    for multiplier in (4.0, 4.0, 8.0):
        accountant.spend(GaussianEvent(multiplier))
    mu = math.sqrt(2 / 16 + 1 / 64)
    assert accountant.spent.epsilon == pytest.approx(gaussian_epsilon(mu, DELTA), rel=1e-4)


def test_room_is_never_shown_larger_than_it_is():
    rule = make_filter("renyi", 1.0, DELTA)
    full = Standing((rule.limits[0] // 2, 0, None), False)
    left = rule.remaining(full)
    assert left.mu**2 * rule.order / 2 <= number(rule.limits[0] - full.total[0])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 5e-324])
def test_strange_numbers_inside_an_event_are_refused(bad):
    class Strange:
        def __init__(self, value):
            self.value = value

        def to_dict(self):
            return {"kind": "strange", "parts": [{"noise": self.value}], "yes": True, "law": "none"}

    with pytest.raises(ValueError, match="Strange.parts.noise"):
        refuse_strange_sizes(Strange(bad))
    for good in (0.0, 1e-300, -2.0, True):
        refuse_strange_sizes(Strange(good))


def test_unknown_filters_are_refused():
    with pytest.raises(ValueError, match="filter"):
        make_filter("bayes", 1.0, 1e-5)


def test_a_refusal_reads_as_one_sentence_also_after_pickling():
    accountant = PrivacyAccountant(epsilon=0.5, delta=0.0)
    with pytest.raises(BudgetExceededError) as caught:
        accountant.spend(PureEvent(0.6))
    refusal = pickle.loads(pickle.dumps(caught.value))
    for error in (caught.value, refusal):
        assert error.args == (str(error),) and not str(error).startswith("(")
        assert error.remaining.pure_epsilon == 0.5


@pytest.mark.parametrize("rule", ["auto", "sum", "renyi"])
def test_a_pure_ceiling_admits_no_gaussian_step(rule):
    """Whether an event is pure does not depend on how small its delta is."""
    rng = np.random.default_rng(0)
    probability, noise, ceiling = 0.0007986592610596276, 0.41867210609649536, 3.176164491059071
    settings = [(probability, noise, 30_000, ceiling)]
    for _ in range(200):
        probability, noise, count = (
            10 ** rng.uniform(*ends) for ends in ((-5, 0), (-1, 5), (0, 6))
        )
        settings.append((probability, noise, int(count), 10 ** rng.uniform(-2, 3)))
    for place, (probability, noise, count, ceiling) in enumerate(settings):
        accountant = PrivacyAccountant(epsilon=ceiling, delta=0.0, filter=rule)
        kinds = (
            GaussianEvent(noise, count),
            PoissonSampledGaussianEvent(probability, noise, count),
            FixedSizeSampledGaussianEvent(10**6, max(int(10**6 * probability), 1), noise, count),
        )
        with pytest.raises(BudgetExceededError):
            accountant.spend(kinds[place % 3])


def test_purity_is_no_matter_of_a_delta_that_underflows(monkeypatch):
    monkeypatch.setattr(GaussianEvent, "delta", lambda event, epsilon: 0.0)
    assert not make_filter("auto", 5.0, 0.0).fills(GaussianEvent(100.0))


@pytest.mark.parametrize("kind", ["auto", "renyi", "gdp", "sum"])
@pytest.mark.parametrize("part", [None, "site"])
def test_what_costs_nothing_leaves_the_whole_ceiling(kind, part):
    """A fit of too few records asks nothing, and is charged an empty event."""
    book = PrivacyAccountant(epsilon=2.0, delta=1e-5, filter=kind)
    place = book if part is None else book.partition(part)
    untouched = str(place.remaining())
    for _ in range(3):
        place.spend(compose([]))
    assert str(place.remaining()) == untouched
    whole = gaussian(gaussian_mu(2.0, 1e-5) * (1.0 - 1e-9))
    place.spend(whole)
    with pytest.raises(BudgetExceededError):
        place.spend(whole)
    with pytest.raises(BudgetExceededError):
        book.spend(whole)


def test_a_division_is_no_cure_once_there_is_an_entry():
    book = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    event = gaussian(0.9 * gaussian_mu(1.0, 1e-5))
    with pytest.raises(BudgetExceededError, match=r"split\(2\)"):
        book.reserve(2, event)
    book.spend(compose([]))
    with pytest.raises(BudgetExceededError) as refused:
        book.reserve(2, event)
    assert "split" not in str(refused.value)
