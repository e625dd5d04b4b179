"""A budget says whom it protects, and refuses what protects less."""

import sqlite3

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold

from skriemdp import PrivacyAccountant, PrivateMinimumDistanceToMean
from skriemdp.datasets import make_people
from skriemdp.ledger import _storage as storage
from skriemdp.ledger._errors import BudgetError
from skriemdp.ledger._storage import Ledger
from skriemdp.ledger._units import PRESENT, UNITS
from skriemdp.privacy._events import GaussianEvent

X, Y, PEOPLE = make_people(12, 6, 2, rng=np.random.default_rng(0))
MDM = PrivateMinimumDistanceToMean("spd", center=np.eye(2), radius=0.5, classes=[0, 1], epsilon=0.1)
EVENT = GaussianEvent(50.0)


@pytest.mark.parametrize(
    ("stored", "admitted"),
    [
        ("label", {"label", "record", PRESENT, "group", "user", "client"}),
        ("record", {"record", PRESENT, "group", "user", "client"}),
        (PRESENT, {PRESENT}),
        ("group", {"group", "user"}),
        ("client", {"client"}),
    ],
)
def test_a_charge_must_protect_what_the_budget_protects(stored, admitted):
    budget = PrivacyAccountant(epsilon=1.0, unit=stored)
    assert budget.unit == stored
    for asked in ("label", "record", PRESENT, "group", "user", "client"):
        before = len(budget.history)
        if asked in admitted:
            budget.spend(EVENT, params={"unit": asked})
            assert len(budget.history) == before + 1
        else:
            with pytest.raises(BudgetError, match=f"protects each {stored}.* each {asked} only"):
                budget.spend(EVENT, params={"unit": asked})
            assert len(budget.history) == before


def test_parts_and_other_data_sets_protect_the_same_and_files_remember(tmp_path):
    path = tmp_path / "people.ledger"
    budget = PrivacyAccountant(epsilon=1.0, path=path, unit="group")
    assert budget.dataset("second").unit == "group"
    assert [part.unit for part in budget.split(2)] == ["group", "group"]
    assert PrivacyAccountant(path=path).unit == "group"
    assert "each group" in budget.summary()
    with pytest.raises(BudgetError, match="unit='record'"):
        PrivacyAccountant(path=path, unit="record")


def while_it_is_made(monkeypatch, other):
    """Let `other` run once, where another process is faster."""
    create, waiting = Ledger.create.__func__, [other]

    def created(cls, path, *rest):
        if waiting:
            waiting.pop()(path)
        return create(cls, path, *rest)

    monkeypatch.setattr(Ledger, "create", classmethod(created))


def test_a_ledger_that_another_process_makes_first_keeps_the_unit_that_was_asked(
    tmp_path, monkeypatch
):
    path = tmp_path / "race.ledger"
    while_it_is_made(monkeypatch, lambda path: PrivacyAccountant(1.0, path=path))
    with pytest.raises(BudgetError, match="each record, .*unit='group'"):
        PrivacyAccountant(1.0, path=path, unit="group")
    assert PrivacyAccountant(path=path).unit == "record"
    path = tmp_path / "second.ledger"
    while_it_is_made(monkeypatch, lambda path: PrivacyAccountant(1.0, path=path))
    assert PrivacyAccountant(1.0, path=path, unit="record").unit == "record"


def test_a_file_without_its_first_data_set_gets_the_unit_that_was_asked(tmp_path):
    """An earlier version made the file, and was killed before it fixed the rule."""
    path = tmp_path / "begun.ledger"
    PrivacyAccountant(1.0, path=path)
    storage.close()
    storage._marks.clear()
    with sqlite3.connect(path) as db:
        db.executescript("DELETE FROM places; DELETE FROM entries")
    assert PrivacyAccountant(1.0, path=path, unit="group").unit == "group"
    assert PrivacyAccountant(path=path).unit == "group"


def test_a_ledger_that_another_process_makes_first_has_the_witness_that_was_asked(
    tmp_path, monkeypatch
):
    path = tmp_path / "race.ledger"
    while_it_is_made(monkeypatch, lambda path: PrivacyAccountant(1.0, path=path))
    with pytest.raises(BudgetError, match="made with no witness file"):
        PrivacyAccountant(1.0, path=path, witness=tmp_path / "witness")


def test_units_are_named():
    assert UNITS == ("label", "record", PRESENT, "group", "client")
    with pytest.raises(ValueError, match="unit='person' is not one of"):
        PrivacyAccountant(unit="person")


def test_a_fit_without_groups_is_refused_and_the_cure_works():
    budget = PrivacyAccountant(epsilon=1.0, unit="group")
    model = MDM.set_params(accountant=budget)
    with pytest.raises(BudgetError, match="pass groups= to fit"):
        model.fit(X, Y)
    assert len(budget.history) == 0
    model.fit(X, Y, groups=PEOPLE)
    assert len(budget.history) == 1


def test_a_search_that_swallows_the_groups_is_refused():
    # With routing off, scikit-learn gives groups to the splitter and not to fit.
    budget = PrivacyAccountant(epsilon=1.0, unit="group")
    model = MDM.set_params(accountant=budget)
    folds = GroupKFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(model, {"radius": [0.4, 0.5]}, cv=folds, error_score="raise")
    with pytest.raises(BudgetError, match="metadata routing"):
        search.fit(X, Y, groups=PEOPLE)
    assert len(budget.history) == 0
