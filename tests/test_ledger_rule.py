"""Random histories of data sets, partitions and parts, beside a rule that adds up in fractions.

The rule: what is charged to one partition, with what is charged to the whole, stays under the
ceiling, for every partition; parts share their whole's ceiling; data sets have their own.
"""

import sqlite3
from fractions import Fraction

import numpy as np
import pytest

from skriemdp.ledger import _chain as chain
from skriemdp.ledger import _storage as storage
from skriemdp.ledger._accountant import BudgetError, BudgetExceededError, PrivacyAccountant
from skriemdp.ledger._chain import Book
from skriemdp.privacy._events import GaussianEvent, PureEvent

SEEDS = 100
NAMES = ("", "a", "b", "c")  # the whole, and three partitions


class Model:
    """One data set: its ceiling, and the sums of what whole and partitions were charged."""

    def __init__(self, ceiling):
        self.ceiling, self.sums = Fraction(ceiling), dict.fromkeys(NAMES, Fraction(0))
        self.count = dict.fromkeys(NAMES, 0)

    def admits(self, part, cost):
        return self.total(part) + cost <= self.ceiling

    def total(self, part):
        own = [self.sums[part]] if part else [self.sums[name] for name in NAMES[1:]]
        return self.sums[""] + max(own)

    def charge(self, part, cost):
        self.sums[part] += cost
        self.count[part] += 1

    def charges(self, part):
        return self.count[""] + (self.count[part] if part else sum(self.count.values()))


class Pure:
    """Epsilons add up."""

    settings = {"filter": "sum", "delta": 0.0}

    @staticmethod
    def event(cost):
        return PureEvent(float(cost))

    @staticmethod
    def ceiling(accountant):
        return Fraction(accountant.epsilon)


class Gaussian:
    """Squares of mu add up, to about 1.9 at (8, 1e-5)."""

    settings = {"filter": "gdp", "delta": 1e-5}

    @staticmethod
    def event(cost):
        return GaussianEvent(float(cost) ** -0.5)

    @staticmethod
    def ceiling(accountant):
        return Fraction(
            accountant._filter.limits[0], accountant._filter.cost(GaussianEvent(1.0))[0]
        )


def history(seed, law, path):
    """A ledger after random charges, and its models by data set; each answer is checked."""
    rng = np.random.default_rng(seed)
    whole = PrivacyAccountant(epsilon=float(rng.integers(1, 5)), path=path, **law.settings)
    handles = [whole]
    if rng.random() < 0.5:
        handles.append(whole.dataset("others", epsilon=float(rng.integers(1, 4))))
    if rng.random() < 0.3:
        handles = [*whole.split(2, gaussian=law is Gaussian), *handles[1:]]
    models = {handle.name: Model(law.ceiling(handle)) for handle in handles}
    for _ in range(14):
        handle, part = handles[rng.integers(len(handles))], NAMES[rng.integers(len(NAMES))]
        model, cost = models[handle.name], Fraction(int(rng.integers(1, 48)), 32)
        asked = handle.partition(part) if part else handle
        if model.admits(part, cost):
            asked.check(law.event(cost))
            asked.spend(law.event(cost))
            model.charge(part, cost)
        else:
            for ask in (asked.check, asked.spend):
                with pytest.raises(BudgetExceededError):
                    ask(law.event(cost))
        for name in NAMES:
            seen = handle.partition(name) if name else handle
            assert len(seen.history) == (model.charges(name) if name else sum(model.count.values()))
            room = (model.ceiling - model.total(name)) / Fraction(1, 64)
            assert seen.remaining(law.event(Fraction(1, 64))) == int(room)
    return whole, handles, models


@pytest.mark.parametrize("law", [Pure, Gaussian], ids=lambda law: law.__name__)
@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3))])
def test_every_history_follows_the_rule(law, part, tmp_path):
    for seed in range(part, SEEDS, 4):
        whole, handles, models = history(seed, law, tmp_path / f"{seed}.ledger")
        whole.verify()
        storage.close()
        storage._looked_through.clear()
        again = PrivacyAccountant(path=whole.path)
        again.verify()
        for handle in handles:
            model = models[handle.name]
            for name in NAMES:
                seen = again._handle(again._ledger, handle.name, name)
                room = (model.ceiling - model.total(name)) / Fraction(1, 64)
                assert seen.remaining(law.event(Fraction(1, 64))) == int(room)


@pytest.mark.parametrize("part", NAMES)
def test_a_full_ledger_admits_not_even_the_smallest_charge(part, tmp_path):
    whole = PrivacyAccountant(epsilon=1.0, delta=0.0, filter="sum", path=tmp_path / "a.ledger")
    asked = whole.partition(part) if part else whole
    for _ in range(4):
        asked.spend(PureEvent(0.25))
    for least in (1e-300, 1e-20, 2.0**-52):
        for other in (asked, whole):
            with pytest.raises(BudgetExceededError):
                other.spend(PureEvent(least))
    if part:
        other = NAMES[1 + NAMES.index(part) % 3]
        whole.partition(other).spend(PureEvent(1.0))
    whole.verify()


def forge(path, number, change):
    """Change an entry, and make every digest from there on fit again."""
    with sqlite3.connect(path, isolation_level=None) as db:
        book = Book(db, path)
        book.look()
        rows = {row.id: row for row in book.rows()}
        before = ""
        for row in rows.values():
            row = change(row) if row.id == number else row
            rows[row.id] = row
            digest = chain.digest(before, book.header, rows[row.dataset], row)
            db.execute(
                "UPDATE entries SET cost = ?, after = ?, digest = ? WHERE id = ?",
                (row.cost, row.after, digest, row.id),
            )
            before = digest
    db.close()


def less(place):
    """Totals of which one is smaller: counts by one, sums by a third."""

    def change(row):
        state = list(row.state)
        if isinstance(state[place], int):
            state[place] -= 1
        else:
            state[place] = [None if x is None else x - x // 3 - 1 for x in state[place]]
        return row._replace(after=chain.canonical(state))

    return change


def cheaper(row):
    return row._replace(cost=chain.canonical([x - x // 3 - 1 for x in chain.amounts(row.cost)]))


FORGED = {
    "entries": less(0), "charges": less(1), "common": less(2), "peak": less(3), "own": less(4),
    "own sum": less(5), "cost": cheaper,
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
def test_totals_that_do_not_follow_are_found_whoever_made_the_digests_fit(what, tmp_path):
    """In the first, the middle and the last entry of partitions and of the whole."""
    budget = PrivacyAccountant(epsilon=8.0, path=tmp_path / "0.ledger", filter="sum")
    for part in ("a", "", "b", "a", "", "b", "a"):
        (budget.partition(part) if part else budget).spend(PureEvent(0.25))
    rows = storage.Ledger(budget.path)
    with rows.reading() as book:
        charged = [row for row in book.rows() if row.kind == "charged"]
    found = 0
    for row in charged:
        if what in ("own", "own sum") and not row.part:
            continue  # of no partition; what stands there is nothing
        copy = tmp_path / f"{row.id}.copy"
        storage.close()
        copy.write_bytes((tmp_path / "0.ledger").read_bytes())
        forge(copy, row.id, FORGED[what])
        (problem,) = storage.read(str(copy)).problems
        assert "do not follow" in problem or "were counted" in problem or "is missing" in problem
        found += "do not follow" in problem
        storage._looked_through.clear()
        storage._marks.clear()
        storage._places.clear()
        with pytest.raises(BudgetError):
            PrivacyAccountant(path=copy).verify()
    assert found >= 4


def test_a_file_whose_digests_were_made_again_and_nothing_else_is_sound(tmp_path):
    budget = PrivacyAccountant(epsilon=8.0, path=tmp_path / "0.ledger", filter="sum")
    budget.partition("a").spend(PureEvent(0.25))
    head = budget.head
    storage.close()
    forge(budget.path, 2, lambda row: row)
    assert budget.head == head
    budget.verify()
