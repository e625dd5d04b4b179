"""What runs in the middle of a charge, a signal handler or a finalizer, is refused at once."""

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

from skriemdp import PrivacyAccountant, PrivateFrechetMean, PrivateHyperbolicRegressor
from skriemdp._process import Alone
from skriemdp.ledger import _storage as storage
from skriemdp.ledger._chain import Book, Head
from skriemdp.ledger._errors import BudgetError
from skriemdp.privacy._events import PureEvent

SMALL = PureEvent(0.001)


def nested_at_every_line(charge, nested, modules=("_storage.py", "_chain.py", "_files.py")):
    """What `nested` returned or raised, called once before every new line that `charge` runs."""
    seen, found = set(), []

    def trace(frame, event, _):
        name = os.path.basename(frame.f_code.co_filename)
        if "skriemdp" not in frame.f_code.co_filename:
            return None
        if name in modules and (name, frame.f_lineno) not in seen:
            seen.add((name, frame.f_lineno))
            sys.settrace(None)
            try:
                found.append(nested())
            except BudgetError as error:
                found.append(error)
            sys.settrace(trace)
            frame.f_trace = trace
        return trace

    sys.settrace(trace)
    try:
        charge()
    finally:
        sys.settrace(None)
    return found


@pytest.mark.parametrize(
    "kind", ["with a path", "without", "with a witness", "another", "a new one"]
)
def test_a_charge_in_the_middle_of_a_charge_is_refused_at_once(kind, tmp_path):
    """At every line of it: either it is charged, or it is refused; nothing waits or is lost."""
    settings = {"path": tmp_path / "a.ledger"} if kind != "without" else {}
    if kind == "with a witness":
        settings["witness"] = tmp_path / "a.witness"
    accountant = PrivacyAccountant(**settings)
    inner = PrivacyAccountant(path=tmp_path / "b.ledger") if kind == "another" else accountant

    def nested():
        return (PrivacyAccountant() if kind == "a new one" else inner).spend(SMALL)

    before, started = len(accountant.history), time.monotonic()
    found = nested_at_every_line(lambda: accountant.spend(SMALL), nested)
    assert time.monotonic() - started < 30.0
    refused = [each for each in found if isinstance(each, BudgetError)]
    assert len(refused) >= 40
    assert all("in the middle of a charge" in str(error) for error in refused)
    charged = len(found) - len(refused)
    assert charged >= 1
    mine = charged if inner is accountant and kind != "a new one" else 0
    assert len(accountant.history) == before + 1 + mine
    if kind == "another":
        assert len(inner.history) == charged
    for each in {accountant, inner}:
        each.verify()
        each.spend(SMALL)


OTHERS = {
    "a new ledger": lambda known, folder: PrivacyAccountant(path=folder / "new.ledger"),
    "a ledger without a path": lambda known, folder: PrivacyAccountant(),
    "a look": lambda known, folder: storage.read(known.path),
    "a mark": lambda known, folder: known._ledger.remember(Head(10**6, "")),
}


@pytest.mark.parametrize("outer", OTHERS)
def test_nothing_else_of_a_ledger_has_a_charge_in_its_middle(outer, tmp_path):
    known = PrivacyAccountant(path=tmp_path / "a.ledger")
    known.spend(SMALL)
    found = nested_at_every_line(lambda: OTHERS[outer](known, tmp_path), lambda: known.spend(SMALL))
    refused = [each for each in found if isinstance(each, BudgetError)]
    if outer == "a mark":  # of an entry that the file does not have; it is no transaction
        assert all("went back" in str(error) for error in refused)
        assert len(found) - len(refused) >= 3
        return
    assert len(refused) >= 10
    assert all("in the middle of a charge" in str(error) for error in refused)
    assert len(known.history) == 1 + len(found) - len(refused)


def test_a_fit_in_a_signal_handler_is_refused_at_once(monkeypatch, tmp_path):
    accountant = PrivacyAccountant(path=tmp_path / "a.ledger")
    X = np.zeros((100, 2))
    model = PrivateFrechetMean(radius=1.0, mechanism="tangent", accountant=accountant)
    told = []

    def handler(number, frame):
        with pytest.raises(BudgetError, match="in the middle of a charge") as refused:
            clone(model).fit(X)
        told.append(refused)

    append = Book.append

    def interrupted(*arguments, **settings):
        signal.raise_signal(signal.SIGUSR1)
        return append(*arguments, **settings)

    monkeypatch.setattr(Book, "append", interrupted)
    old = signal.signal(signal.SIGUSR1, handler)
    try:
        started = time.monotonic()
        model.fit(X)
        assert time.monotonic() - started < 5.0
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert len(told) == 1 and len(accountant.history) == 1


def test_a_finalizer_in_the_middle_of_a_charge_is_refused(monkeypatch, tmp_path):
    accountant, told = PrivacyAccountant(path=tmp_path / "a.ledger"), []

    class Late:
        def __del__(self):
            try:
                accountant.spend(SMALL)
            except BudgetError as error:
                told.append(str(error))

    append = Book.append

    def interrupted(*arguments, **settings):
        Late()
        return append(*arguments, **settings)

    monkeypatch.setattr(Book, "append", interrupted)
    accountant.spend(SMALL)
    assert len(told) == 1 and "in the middle of a charge" in told[0]
    assert len(accountant.history) == 1


@pytest.mark.filterwarnings("ignore")
def test_no_answer_is_given_in_the_middle_of_another(monkeypatch):
    """Two would both find the last query of the budget free."""
    X, y = np.linspace(0.0, 1.0, 40)[:, None], np.zeros((40, 2))
    model = PrivateHyperbolicRegressor("per-query", n_queries=1).fit(X, y)
    release, told = type(model._server.release).release, []

    def interrupted(*arguments):
        with pytest.raises(RuntimeError, match="in the middle of another"):
            model.predict(X[3:4])
        told.append(1)
        return release(*arguments)

    monkeypatch.setattr(type(model._server.release), "release", interrupted)
    model.predict(X[:1])
    assert told == [1] and model._server.n_answered == 1


def test_a_lock_that_was_refused_is_free_afterwards():
    alone = Alone(RuntimeError("no"))
    for _ in range(3):
        with alone:
            for _ in range(2):
                with pytest.raises(RuntimeError, match="^no$"), alone:
                    pass
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(alone._lock.acquire, timeout=5.0).result()
