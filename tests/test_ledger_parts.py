"""A budget that is divided: parts, what is left for k fits, refusals whose cure works, printing."""

from __future__ import annotations

import json
import math
import pickle
import re

import numpy as np
import pytest

from skriemdp import PrivacyAccountant, PrivateFrechetMean, PrivatePrincipalEigenvector
from skriemdp._core.spent import PrivacySpent
from skriemdp.ledger._accountant import BudgetError, BudgetExceededError
from skriemdp.ledger._chain import Entry
from skriemdp.ledger._filters import KINDS, plain_number
from skriemdp.ledger._statements import charge_of, noise_of
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import ApproximateEvent, GaussianEvent, PureEvent, compose
from skriemdp.privacy._laplace import laplace_law

pytestmark = [
    pytest.mark.filterwarnings("ignore:with n="),
    pytest.mark.filterwarnings("ignore:about "),
    pytest.mark.filterwarnings("ignore:the largest released eigenvalue"),
]

DELTA = 1e-6
X = np.random.default_rng(0).normal(size=(300, 3)) * 0.1 + [1.0, 0.0, 0.0]
X /= np.linalg.norm(X, axis=1)[:, None]


def fit_at(epsilon, delta):
    """A Gaussian fit: its event and its pair."""
    return {"event": GaussianEvent(1.0 / gaussian_mu(epsilon, delta)), "at": (epsilon, delta)}


def charged(budget, event, at):
    return budget.spend(event, at=at)


def mean(**parameters):
    return PrivateFrechetMean("sphere", center=[1.0, 0.0, 0.0], radius=0.5, **parameters)


# -- splitting --


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shares", [3, [2, 1, 1]])
def test_any_release_fills_its_part(kind, shares):
    for part in PrivacyAccountant(1.0, DELTA, filter=kind).split(shares):
        laplace = laplace_law(2, part.epsilon, part.delta)
        pair = part.epsilon, part.delta
        candidates = [
            fit_at(*pair),
            {"event": PureEvent(part.epsilon), "at": (part.epsilon, 0.0)},
            {"event": laplace, "at": pair},
            {"event": ApproximateEvent(*pair), "at": pair},
        ]
        for candidate in candidates:
            if kind == "gdp" and candidate["event"].gdp_bound is None:
                continue
            part.check(candidate["event"], at=candidate["at"])
        part.spend(laplace if kind != "gdp" else candidates[0]["event"], at=pair)
        with pytest.raises(BudgetExceededError):
            part.spend(PureEvent(0.01))


@pytest.mark.mostly_slow(2)
@pytest.mark.parametrize("kind", ["auto", "sum"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"noise": "gaussian"},
        {"noise": "laplace", "mechanism": "tangent"},
        {"noise": "laplace"},
        {"mechanism": "gradient"},
        {"mechanism": "gaussian"},
        {"mechanism": "laplace"},
        {"center": "private", "radius": "private"},
    ],
    ids=str,
)
def test_any_mechanism_of_a_mean_fills_its_part(kind, parameters):
    for part in PrivacyAccountant(6.0, DELTA, filter=kind).split([2, 1]):
        model = PrivateFrechetMean(
            "sphere", **({"center": [1.0, 0.0, 0.0], "radius": 0.5} | parameters | part.whole())
        )
        model.fit(X)
        assert len(part.history) == 1


@pytest.mark.parametrize("mechanism", ["covariance", "power", "auto"])
def test_any_mechanism_of_components_fills_its_part(mechanism):
    for part in PrivacyAccountant(3.0, DELTA).split(3):
        PrivatePrincipalEigenvector(mechanism=mechanism, row_norm=1.0, **part.whole()).fit(X)
        assert len(part.history) == 1


def test_parts_are_found_again_and_their_parent_is_closed(tmp_path):
    path = tmp_path / "clinic.ledger"
    budget = PrivacyAccountant(1.0, DELTA, path)
    first = budget.split([2, 1, 1])
    assert [part.epsilon for part in first] == [0.5, 0.25, 0.25]
    charged(first[0], **fit_at(0.4, DELTA / 3))
    again = PrivacyAccountant(path=path)
    assert again.parts == first == again.split([0.5, 0.25, 0.25])
    assert len(again.parts[0].history) == 1 and pickle.loads(pickle.dumps(first[1])) == first[1]
    for other in (3, [1, 1, 2], 2):
        with pytest.raises(BudgetError, match="divided in another way"):
            again.split(other)
    with pytest.raises(BudgetError, match="divided in another way"):
        again.split([2, 1, 1], gaussian=True)
    for use in (
        lambda: again.spend(PureEvent(0.01)),
        lambda: again.partition("a").spend(PureEvent(0.01)),
        lambda: again.check(PureEvent(0.01)),
        lambda: again.remaining(),
        lambda: mean(accountant=again, epsilon=0.1).fit(X),
    ):
        with pytest.raises(BudgetError, match="divided into"):
            use()
    assert again.spent.n_entries == 1 and 0 < again.spent.epsilon < first[0].spent.epsilon


def test_parts_have_partitions_and_parts():
    whole, half = PrivacyAccountant(1.0, DELTA).split(2)
    for site in "ab":
        charged(whole.partition(site), **fit_at(0.5, DELTA / 2))
    inner = half.split(2)
    assert [part.epsilon for part in inner] == [0.25, 0.25]
    inner[0].spend(PureEvent(0.25))
    gaussian = PrivacyAccountant(1.0, DELTA).split(2, gaussian=True)[0]
    with pytest.raises(ValueError, match="gaussian=True"):
        gaussian.split(2)
    assert {part.filter for part in gaussian.split(2, gaussian=True)} == {"gdp-part"}
    assert gaussian.dataset("other", epsilon=1.0, delta=DELTA).filter == "gdp"


def test_what_cannot_be_divided():
    used = PrivacyAccountant(1.0, DELTA)
    used.spend(PureEvent(0.1))
    with pytest.raises(BudgetError, match="has charges already"):
        used.split(2)
    with pytest.raises(ValueError, match="no ceiling"):
        PrivacyAccountant().split(2)
    with pytest.raises(ValueError, match="no ceiling"):
        PrivacyAccountant().whole()
    with pytest.raises(ValueError, match="delta > 0"):
        PrivacyAccountant(1.0, 0.0).split(2, gaussian=True)
    fresh = PrivacyAccountant(1.0, DELTA)
    with pytest.raises(ValueError, match="partition"):
        fresh.partition("a").split(2)
    for shares, error in [
        (1, ValueError),
        ([1], ValueError),
        ([1, 0], ValueError),
        (True, TypeError),
        ("ab", TypeError),
        (2.5, TypeError),
        ([1, math.nan], ValueError),
    ]:
        with pytest.raises(error):
            fresh.split(shares)
    with pytest.raises(ValueError, match="fewer or larger parts"):
        fresh.split([1, 1e-20], gaussian=True)
    fresh.dataset("default: part 1 of 2")
    with pytest.raises(BudgetError, match="another name"):
        fresh.split(2)
    assert fresh.parts == []


def test_pure_budgets_are_divided_too():
    for part in PrivacyAccountant(0.3, 0.0).split(3):
        assert (part.epsilon, part.delta) == (0.1, 0.0)
        mean(**part.whole()).fit(X)
        assert part.remaining().pure_epsilon == 0.0


def test_gaussian_parts_use_all_of_delta():
    budget = PrivacyAccountant(1.0, DELTA)
    for part in budget.split(3, gaussian=True):
        assert part.delta == DELTA and part.epsilon > 0.55
        model = mean(**part.whole()).fit(X)
        assert model.privacy_spent_.mu is not None  # Laplace noise would be refused
    assert budget.spent.epsilon <= 1.0


# -- what is left --


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 3, 10])
@pytest.mark.parametrize("first", [None, PureEvent(0.2), GaussianEvent(8.0)], ids=str)
def test_what_remains_for_k_fits_is_admitted_k_times(kind, k, first):
    budget = PrivacyAccountant(1.0, DELTA, filter=kind)
    if kind == "gdp" and isinstance(first, PureEvent):
        first = PureEvent(0.05)  # as a mu, 0.2 is more than this ceiling
    if first is not None:
        budget.spend(first)
    left = budget.remaining(k)
    assert 0 < left.epsilon <= 1.0 and left.times == k
    assert left.epsilon > 0.3 / k
    pure = {"event": PureEvent(left.pure_epsilon), "at": (left.pure_epsilon, 0.0)}
    for fit in (fit_at(left.epsilon, left.delta), pure):
        budget.reserve(k, fit["event"], at=fit["at"])
        assert budget.remaining(fit["event"], at=fit["at"]) >= k
    if k > 1:  # never from the exception for one release that fills the ledger
        assert left.epsilon < 1.0 and left.pure_epsilon < 1.0


# -- refusals --


def refused(budget, fit, times=1):
    with pytest.raises(BudgetExceededError) as caught:
        budget.reserve(times, fit["event"], at=fit.get("at"))
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_epsilon_named_is_admitted_and_little_more_is_not(kind):
    budget = PrivacyAccountant(1.0, DELTA, filter=kind)
    charged(budget, **fit_at(0.5, DELTA / 3))
    text = refused(budget, fit_at(0.95, DELTA / 3))
    epsilon = float(re.search(r"Pass epsilon=(\S+) or less\.$", text)[1])
    budget.check(**fit_at(epsilon, DELTA / 3))
    if kind != "sum":  # there a pair is found that fits a little more
        with pytest.raises(BudgetExceededError):
            budget.check(**fit_at(1.003 * epsilon, DELTA / 3))


def test_gaussian_noise_is_named_where_it_fits():
    budget = PrivacyAccountant(1.0, DELTA)
    mean(epsilon=0.5, delta=DELTA, noise="laplace", accountant=budget).fit(X)
    for parameters in ({"noise": "laplace"}, {"mechanism": "laplace"}):
        refusable = mean(epsilon=0.4, delta=DELTA, accountant=budget, **parameters)
        with pytest.raises(BudgetExceededError, match="Gaussian noise at delta=1e-06") as caught:
            refusable.fit(X)
        cure = eval(f"dict({re.search('pass (.*)[.]$', str(caught.value))[1]})")
        budget.check(**fit_at(0.4, DELTA))
        part = PrivacyAccountant(1.0, DELTA)  # the same standing, to see the cure at work
        mean(epsilon=0.5, delta=DELTA, noise="laplace", accountant=part).fit(X)
        refusable.set_params(accountant=part, **cure).fit(X)
    with pytest.raises(BudgetExceededError, match="pass delta=1e-06, noise='gaussian'") as caught:
        mean(epsilon=0.4, delta=0.0, noise="laplace", accountant=budget).fit(X)
    assert len(budget.history) == 1


def test_the_largest_delta_is_named_under_plain_addition():
    budget = PrivacyAccountant(1.0, DELTA, filter="sum")
    for _ in range(2):
        budget.spend(ApproximateEvent(0.1, 0.4 * DELTA), at=(0.1, 0.4 * DELTA))
    ask = {"event": ApproximateEvent(0.4, 0.3 * DELTA), "at": (0.4, 0.3 * DELTA)}
    delta = float(re.search(r"Pass delta=(\S+) or less", refused(budget, ask))[1])
    budget.check(ApproximateEvent(0.4, delta), at=(0.4, delta))


def test_a_division_is_named_for_several_fits_on_untouched_records():
    budget = PrivacyAccountant(1.0, DELTA)
    laplace = laplace_law(2, 0.5, DELTA)
    text = refused(budget, {"event": laplace, "at": (0.5, DELTA)}, times=5)
    assert "split(5) divides the budget" in text
    assert "split" not in refused(budget.partition("a"), {"event": laplace, "at": (0.5, DELTA)}, 5)
    for part in budget.split(5):
        part.check(laplace_law(2, part.epsilon, part.delta), at=(part.epsilon, part.delta))


def test_releases_without_a_pair_and_ledgers_that_are_full():
    budget = PrivacyAccountant(1.0, DELTA)
    budget.spend(PureEvent(0.4))
    least = re.search(
        r"noise_multiplier of (\S+) or more", refused(budget, {"event": GaussianEvent(1.0)})
    )
    budget.check(GaussianEvent(float(least[1])))
    pure = re.search(r"Pass epsilon=(\S+) or less", refused(budget, {"event": PureEvent(0.9)}))
    budget.check(PureEvent(float(pure[1])))
    budget.spend(PureEvent(0.6))
    assert "No such release is admitted" in refused(budget, {"event": PureEvent(0.1)})
    assert budget.remaining().used == 1.0


@pytest.mark.parametrize("at", [(0.1, 1e-9), (math.nan, 0.1), (0.5, 1.0), 0.5, ("a", 0.1)])
def test_a_pair_must_hold(at):
    budget = PrivacyAccountant(1.0, DELTA)
    with pytest.raises((ValueError, TypeError)):
        charged(budget, **fit_at(0.5, DELTA) | {"at": at})
    assert len(budget.history) == 0


# -- printing --


def test_each_charge_is_one_line():
    budget = PrivacyAccountant(1.0, DELTA)
    mean(epsilon=0.5, delta=DELTA, accountant=budget).fit(X)
    budget.spend(GaussianEvent(20.0), label="ages")
    mean(epsilon=0.3, delta=DELTA, accountant=budget).fit(X)
    lines = [line for line in str(budget).splitlines() if line.startswith("Charge:")]
    assert re.fullmatch(
        r"Charge: +\d+  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  PrivateFrechetMean  epsilon=0.5, "
        r"delta=1e-06 per record  gaussian",
        lines[0],
    )
    assert lines[1].endswith("ages  epsilon=0.1893, delta=1e-06 per record  gaussian")
    assert f"Used:       {100 * budget.remaining().used:.1f} %" in str(budget)
    params = budget.history[0].params
    assert params == {
        "epsilon": 0.5,
        "delta": DELTA,
        "unit": "record",
        "guarantee": "exact",
    }


def test_long_ledgers_show_their_last_charges():
    budget = PrivacyAccountant(10.0, 1e-5)
    for number in range(130):
        handle = budget.partition("ab"[number % 2]) if number % 3 else budget
        handle.spend(PureEvent(0.01 + 1e-4 * number), label=f"n{number}")
    for view, count in ((budget, 130), (budget.partition("a"), 87)):
        text = str(view)
        assert text.count("Charge:") == 20 and f"{count - 20} earlier: see history" in text
        assert "n129" in text and "n5 " not in text


def test_a_filled_ledger_is_used_up():
    budget = PrivacyAccountant(1.0, DELTA)
    mean(epsilon=1.0, delta=DELTA, noise="laplace", mechanism="tangent", accountant=budget).fit(X)
    assert budget.remaining().used == 1.0 and "100.0 %" in str(budget)


def test_a_divided_ledger_shows_its_parts():
    budget = PrivacyAccountant(1.0, DELTA)
    a, b, _ = budget.split(3, gaussian=True)
    mean(**a.whole()).fit(X)
    b.split(2, gaussian=True)
    text = str(budget)
    assert (
        "Divided:    into 3 parts" in text and "100.0 % used" in text and "divided into 2" in text
    )
    assert "must not be added" in str(a) and "must not be added" not in text
    assert "100.0 % used" in budget._repr_html_()


def test_a_statement_prints_in_one_line():
    spent = mean(epsilon=0.5, delta=DELTA).fit(X).privacy_spent_
    assert (
        repr(spent)
        == str(spent)
        == (
            "PrivacySpent(epsilon=0.5, delta=1e-06, per record, exact, "
            f"{len(spent.public)} public facts)"
        )
    )
    page = spent._repr_html_()
    assert "array of shape (3,)" in page and "<details>" in page
    hostile = PrivacySpent(1.0, 0.0, PureEvent(1.0), public={"<b>": "<script>", "long": [1] * 9})
    assert "<script>" not in hostile._repr_html_() and "list of 9" in hostile._repr_html_()
    assert "1 public fact)" in repr(PrivacySpent(1.0, 0.0, PureEvent(1.0), public={"n": 3}))


def test_words_for_events_and_numbers():
    both = compose([GaussianEvent(3.0), laplace_law(2, 0.5, DELTA)])
    assert noise_of(both.to_dict()) == "gaussian + laplace" and noise_of({}) == "unknown"
    assert [plain_number(v) for v in (0.123456, 1.0, 0.0, 1e-7)] == ["0.1234", "1", "0", "1e-07"]
    assert plain_number(0.123456, up=True) == "0.1235"
    strange, time = json.dumps({"kind": "of the future"}), "2026-03-02T14:05:31.123+00:00"
    row = Entry(7, time, "charged", 1, "north", "x", "{}", strange, "user", "[]", "[]", "")
    said = [7, time[:19].replace("T", " "), "x on partition north", "epsilon unknown per user"]
    assert charge_of(row, DELTA).cells == [*said, "of the future"]
    assert charge_of(row, DELTA, 0.1, 0.3).cells[-2:] == ["10.0 %", "30.0 %"]
