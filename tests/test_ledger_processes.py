"""The ledger under threads, processes, kills and damage: never over the ceiling, nothing lost."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skriemdp import config_context
from skriemdp._core.estimator import Data, Plan, PrivateEstimator
from skriemdp.ledger import _files as files
from skriemdp.ledger import _storage as ledger
from skriemdp.ledger._accountant import BudgetError, BudgetExceededError, PrivacyAccountant
from skriemdp.ledger._chain import Book
from skriemdp.ledger._current import current_accountant
from skriemdp.ledger._files import file_system
from skriemdp.ledger._filters import number
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import GaussianEvent, PureEvent

SMALL = PureEvent(0.001)


def run(script, *arguments, **options):
    """Run a script in a fresh interpreter and return its last printed line."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def total(accountant):
    """Sum of pure epsilons in the ledger's running total."""
    return number(accountant._standing().total[-1])


# -- hammering --


def attempt(accountant, tries, connection):
    """Spend `tries` times; tell the parent of each charge only after it returned."""
    for _ in range(tries):
        try:
            connection.send(accountant.spend(SMALL, label=str(os.getpid())).entry)
        except BudgetExceededError:
            connection.send(None)
    connection.close()


def hammer(accountant, tries, start, kill_after=()):
    """Run workers; kill one when so many charges are acknowledged.  Returns them and refusals."""
    context = multiprocessing.get_context(start)
    ends, workers = [], []
    for count in tries:
        receiver, sender = context.Pipe(duplex=False)
        worker = context.Process(target=attempt, args=(accountant, count, sender))
        worker.start()
        sender.close()
        ends.append(receiver)
        workers.append(worker)
    rng = np.random.default_rng(7)
    acknowledged, refused = [], 0
    kills = list(kill_after)
    while ends:
        for end in multiprocessing.connection.wait(ends, timeout=0.05):
            try:
                entry = end.recv()
                acknowledged += [] if entry is None else [entry]
                refused += entry is None
            except EOFError:
                ends.remove(end)
        if kills and len(acknowledged) > kills[0]:
            kills.pop(0)
            alive = [worker for worker in workers if worker.is_alive()]
            os.kill(rng.choice(alive).pid, signal.SIGKILL)
    for worker in workers:
        worker.join()
    return acknowledged, refused


@pytest.mark.slow
def test_eight_processes_never_pass_the_ceiling(tmp_path):
    accountant = PrivacyAccountant(epsilon=2.4, delta=0.0, path=tmp_path / "hammered.ledger")
    acknowledged, refused = hammer(accountant, [500] * 8, "fork")
    assert len(acknowledged) == 2400 and refused == 1600
    assert sorted(acknowledged) == [entry.entry for entry in accountant.history]
    assert total(accountant) == 2.4


@pytest.mark.slow
def test_killed_workers_lose_no_charge(tmp_path):
    accountant = PrivacyAccountant(epsilon=4.0, delta=0.0, path=tmp_path / "killed.ledger")
    acknowledged, _ = hammer(accountant, [500] * 8, "fork", kill_after=[50, 200, 400, 700, 1100])
    history = {entry.entry for entry in accountant.history}
    assert set(acknowledged) <= history and len(set(acknowledged)) == len(acknowledged)
    # A worker killed between the commit and its report leaves its charge: at most one per worker.
    assert len(history) - len(acknowledged) <= 8
    assert total(accountant) == pytest.approx(len(history) * 0.001, abs=1e-12)
    assert 1500 <= len(acknowledged) < 4000  # five were killed, the other three finished
    again = PrivacyAccountant(path=accountant.path)
    again.spend(SMALL)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_share_the_ceiling(tmp_path, start):
    accountant = PrivacyAccountant(epsilon=0.1, delta=0.0, path=tmp_path / "shared.ledger")
    accountant.spend(SMALL)
    acknowledged, refused = hammer(accountant, [60, 60], start)
    assert (len(acknowledged), refused) == (99, 21)


def test_threads_share_the_ceiling():
    accountant = PrivacyAccountant(epsilon=0.2, delta=0.0)

    def work(_):
        try:
            return accountant.spend(SMALL).entry
        except BudgetExceededError:
            return None

    with ThreadPoolExecutor(8) as pool:
        entries = [entry for entry in pool.map(work, range(300)) if entry]
    assert len(set(entries)) == len(entries) == 200 == len(accountant.history)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_inherits_the_innermost_block():
    with PrivacyAccountant(), PrivacyAccountant(), PrivacyAccountant() as inner:
        pid = os.fork()
        if pid == 0:
            os._exit(0 if current_accountant() is inner else 1)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_connection_is_kept_while_nobody_else_writes(tmp_path):
    """And it crosses no fork, in which it would believe in locks that it does not hold."""
    accountant = PrivacyAccountant(path=tmp_path / "a.ledger")
    accountant.spend(SMALL)
    kept = ledger._kept
    accountant.spend(SMALL)
    assert ledger._kept[0] is kept[0]
    script = """
        import sys
        from skriemdp.ledger._accountant import PrivacyAccountant
        from skriemdp.privacy._events import PureEvent
        PrivacyAccountant(path=sys.argv[1]).spend(PureEvent(0.001))
    """
    run(script, accountant.path)
    assert len(accountant.history) == 3 and ledger._kept[0] is not kept[0]
    pid = os.fork()
    if pid == 0:
        alone = ledger._kept is None
        accountant.spend(SMALL)
        os._exit(0 if alone else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0 and ledger._kept is None
    accountant.spend(SMALL)
    assert len(accountant.history) == 5


def test_a_charge_of_another_process_is_seen_where_the_clock_is_coarse(tmp_path, monkeypatch):
    """What a connection has read is dropped where another one wrote, whatever the file's times."""
    monkeypatch.setattr(ledger, "_STATE", lambda status: (status.st_dev, status.st_ino))
    accountant = PrivacyAccountant(path=tmp_path / "a.ledger")
    accountant.spend(SMALL)
    kept = ledger._kept[0]
    with sqlite3.connect(accountant.path, isolation_level=None) as db:
        book = Book(db, accountant.path)
        book.look()
        row = book.append(book.place("default"), "charged", event="{}")
    assert accountant.spend(SMALL).entry == row.id + 1 == 4 and ledger._kept[0] is kept
    with sqlite3.connect(accountant.path, isolation_level=None) as db:
        db.execute("UPDATE entries SET label = 'x' WHERE id = 4")
    with pytest.raises(BudgetError, match="entry 4 .* was changed"):
        accountant.spend(SMALL)


def test_forking_among_busy_threads_loses_nothing():
    """A fork in mid-spend of another thread: both sides go on, no log is dropped."""
    accountant = PrivacyAccountant()
    stop = threading.Event()
    counts = [0] * 3

    def spend_on(slot):
        while not stop.is_set():
            accountant.spend(SMALL, label="parent")
            counts[slot] += 1

    threads = [threading.Thread(target=spend_on, args=(slot,)) for slot in range(3)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(12):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for _ in range(5):
                    accountant.spend(SMALL, label="child")
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    codes = [os.waitpid(pid, 0)[1] for pid in children]
    stop.set()
    for thread in threads:
        thread.join()
    labels = [entry.label for entry in accountant.history]
    assert codes == [0] * 12
    assert labels.count("child") == 60 and labels.count("parent") == sum(counts) > 0


def test_charge_survives_a_kill_before_the_release(tmp_path):
    path = tmp_path / "killed.ledger"
    script = """
        import os, signal, sys
        from skriemdp.ledger._accountant import PrivacyAccountant
        from skriemdp.privacy._events import PureEvent
        PrivacyAccountant(epsilon=1.0, path=sys.argv[1]).spend(PureEvent(0.75))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    accountant = PrivacyAccountant(path=path)
    assert len(accountant.history) == 1
    with pytest.raises(BudgetExceededError):
        accountant.spend(PureEvent(0.75))


# -- estimators in searches --


class PrivateTotal(PrivateEstimator):
    """Smallest honest estimator: a clipped sum with Gaussian noise."""

    def __init__(self, epsilon=1.0, delta=1e-5, accountant=None, random_state=None):
        self.epsilon, self.delta, self.accountant = epsilon, delta, accountant
        self.random_state = random_state

    def fit(self, X, y=None):
        return self._fit(X, y)

    def _validate(self, X, y):
        return Data((np.clip(X, 0, 1),), {"n": len(X)})

    def _plan(self, facts, terms):
        multiplier = 1 / gaussian_mu(self.epsilon, self.delta)
        return Plan(GaussianEvent(np.nextafter(multiplier, np.inf).item()), multiplier)

    def _release(self, data, plan, streams):
        self.total_ = data.arrays[0].sum() + plan.settings * streams("sum").normal()

    def score(self, X, y=None):
        return 0.0


X = np.random.default_rng(0).uniform(size=(30, 1))
EPSILONS = [0.1, 0.2, 0.4]


def grid_search(estimator, n_jobs, backend):
    name = "epsilon" if isinstance(estimator, PrivateTotal) else "privatetotal__epsilon"
    search = GridSearchCV(
        estimator, {name: EPSILONS}, cv=KFold(5), n_jobs=n_jobs, error_score="raise"
    )
    with joblib.parallel_backend(backend):
        return search.fit(X)


GRID_MU = np.sqrt(
    sum(5 * gaussian_mu(e, 1e-5) ** 2 for e in EPSILONS) + gaussian_mu(0.1, 1e-5) ** 2
)


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize(
    ("n_jobs", "backend"),
    [(1, "loky"), (2, "loky"), pytest.param(-1, "loky", marks=pytest.mark.slow), (2, "threading")],
)
@pytest.mark.parametrize("pipeline", [False, True], ids=["plain", "pipeline"])
@pytest.mark.parametrize("how", ["block", "parameter"])
def test_grid_search_charges_sixteen_fits(tmp_path, n_jobs, backend, pipeline, how):
    accountant = PrivacyAccountant(epsilon=20.0, path=tmp_path / "grid.ledger")
    estimator = PrivateTotal(accountant=accountant if how == "parameter" else None)
    if pipeline:
        estimator = make_pipeline(FunctionTransformer(), estimator)
    if how == "block":
        with accountant:
            grid_search(estimator, n_jobs, backend)
    else:
        grid_search(estimator, n_jobs, backend)
    assert [entry.label for entry in accountant.history] == ["PrivateTotal"] * 16
    expected = GaussianEvent(1 / GRID_MU).epsilon(1e-5)
    assert accountant.spent.epsilon == pytest.approx(expected, rel=1e-4)
    if (n_jobs, how, pipeline) == (2, "block", True):
        reread = """
            import sys
            from skriemdp.ledger._accountant import PrivacyAccountant
            accountant = PrivacyAccountant(path=sys.argv[1])
            print(len(accountant.history), accountant.spent.epsilon)
        """
        count, epsilon = run(reread, accountant.path).split()
        assert int(count) == 16 and float(epsilon) == accountant.spent.epsilon


def test_default_ledger_counts_worker_fits():
    before = len(current_accountant().history)
    grid_search(PrivateTotal(), 2, "loky")
    assert len(current_accountant().history) == before + 16


def fit_clone(estimator, data):
    clone(clone(estimator)).fit(data)
    return os.getpid()


def test_clones_made_in_a_worker_charge_the_caller():
    with PrivacyAccountant(epsilon=10.0) as accountant:
        pids = joblib.Parallel(n_jobs=2, backend="loky")(
            joblib.delayed(fit_clone)(PrivateTotal(epsilon=0.1), X) for _ in range(4)
        )
    assert os.getpid() not in pids
    assert len(accountant.history) == 4


@pytest.mark.filterwarnings("ignore")
def test_search_that_swallows_refusals_still_spends_nothing_more():
    with PrivacyAccountant(epsilon=1.0) as accountant:
        with pytest.raises(BudgetExceededError):  # the refit is not swallowed, failed folds are
            GridSearchCV(PrivateTotal(), {"epsilon": [0.4]}, cv=KFold(10)).fit(X)
        assert 2 <= len(accountant.history) < 10
    with PrivacyAccountant(epsilon=1.0) as accountant, pytest.raises(BudgetExceededError):
        grid_search(PrivateTotal(), 1, "loky")


def test_unfitted_pickle_names_the_ledger_and_a_fitted_one_does_not(tmp_path):
    accountant = PrivacyAccountant(epsilon=10.0, path=tmp_path / "a.ledger")
    with accountant:
        estimator = PrivateTotal()
        (tmp_path / "unfitted").write_bytes(pickle.dumps(estimator))
        (tmp_path / "fitted").write_bytes(pickle.dumps(estimator.fit(X)))
    assert b"a.ledger" in (tmp_path / "unfitted").read_bytes()
    assert b"a.ledger" not in (tmp_path / "fitted").read_bytes()
    script = """
        import pickle, sys
        import numpy as np
        from skriemdp import PrivacyAccountant
        budget = PrivacyAccountant(path=sys.argv[1])
        for name in sys.argv[2:]:
            pickle.loads(open(name, "rb").read()).fit(np.ones((3, 1)))
            print(len(budget.history), end=" ")
    """
    said = run(script, accountant.path, tmp_path / "unfitted", tmp_path / "fitted")
    assert said.split() == ["2", "2"] and len(accountant.history) == 2


# -- damage --


def charged_once(folder):
    path = folder / "budget.ledger"
    PrivacyAccountant(epsilon=1.0, path=path).spend(PureEvent(0.75))
    assert {item.name for item in folder.iterdir()} == {"budget.ledger", "budget.ledger-journal"}
    return path


@pytest.fixture
def spent(tmp_path):
    """A closed ledger with one charge."""
    return charged_once(tmp_path)


def overwrite(position, count):
    def damage(path):
        with open(path, "r+b") as file:
            file.seek(position)
            file.write(b"\xa5" * count)

    return damage


def cut(size):
    return lambda path: os.truncate(path, size)


def foreign(path):
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE ledger (key TEXT)")


@pytest.mark.parametrize(
    "damage",
    [
        overwrite(0, 100),
        overwrite(4096, 8192),
        overwrite(100, 200),
        cut(0),
        cut(50),
        cut(4096),
        cut(6000),
        foreign,
        lambda path: path.write_text("epsilon,delta\n1,0\n" * 50),
    ],
    ids="header page2 schema empty stub page1 half foreign text".split(),
)
def test_damaged_ledger_is_an_error_never_a_fresh_budget(spent, damage):
    handle = PrivacyAccountant(path=spent)
    pickled = pickle.dumps(handle)
    damage(spent)
    for use in (
        lambda: PrivacyAccountant(epsilon=1.0, path=spent).spend(SMALL),
        lambda: PrivacyAccountant(path=spent).spend(SMALL),
        lambda: pickle.loads(pickled).spend(SMALL),
        lambda: handle.spend(SMALL),
    ):
        with pytest.raises(BudgetError) as caught:
            use()
        assert not isinstance(caught.value, BudgetExceededError)


def test_missing_ledger_is_never_replaced(spent):
    handle = PrivacyAccountant(path=spent)
    spent.unlink()
    for again in (handle, pickle.loads(pickle.dumps(handle))):
        with pytest.raises(BudgetError, match="does not exist"):
            again.spend(SMALL)
        with pytest.raises(BudgetError, match="does not exist"):
            again.spent  # noqa: B018
    assert not spent.exists()


def test_another_ledger_at_the_same_path_is_noticed(spent):
    handle = PrivacyAccountant(path=spent)
    handle.check(SMALL)
    pickled = pickle.dumps(handle)
    for suffix in ("", "-journal"):
        if os.path.exists(f"{spent}{suffix}"):
            os.unlink(f"{spent}{suffix}")
    PrivacyAccountant(epsilon=1.0, path=spent)
    for again in (handle, pickle.loads(pickled)):
        with pytest.raises(BudgetError, match="replaced"):
            again.spend(SMALL)


def test_log_without_its_ledger_is_noticed(spent):
    os.unlink(spent)  # its journal stays
    with pytest.raises(BudgetError, match="lost its main file"):
        PrivacyAccountant(epsilon=1.0, path=spent)


def test_missing_folder_is_explained(tmp_path):
    with pytest.raises(BudgetError, match="folder"):
        PrivacyAccountant(path=tmp_path / "no" / "such" / "budget.ledger")


TRY_TO_SPEND = """
    import os, resource, sys
    from skriemdp.ledger._accountant import BudgetError, BudgetExceededError, PrivacyAccountant
    from skriemdp.privacy._events import PureEvent
    PureEvent(1e-4).renyi(2.0)  # everything is imported before root is given up
    if sys.argv[2] == "readonly" and os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    charged = 0
    try:
        accountant = PrivacyAccountant(path=sys.argv[1])
        if sys.argv[2] == "full":
            limit = os.stat(sys.argv[1]).st_size + 9000
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        for _ in range(2000):
            accountant.spend(PureEvent(1e-4), label="x" * 200)
            charged += 1
    except BudgetExceededError:
        print("exceeded")
    except BudgetError as error:
        print(charged, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_read_only_ledger_is_explained(what, request):
    # Not in `tmp_path`: another run of pytest closes the folder above it, and a child of root that
    # gives up root no longer reaches the file.
    folder = tempfile.TemporaryDirectory()
    request.addfinalizer(folder.cleanup)
    spent = charged_once(Path(folder.name))
    spent.parent.chmod(0o755)
    if what == "file":
        spent.chmod(0o444)
    else:
        spent.chmod(0o666 if os.geteuid() == 0 else 0o600)
        spent.parent.chmod(0o555)
    try:
        message = run(TRY_TO_SPEND, spent, "readonly")
    finally:
        spent.parent.chmod(0o755)
    assert message.startswith("0 ") and "Nothing was released" in message
    assert len(PrivacyAccountant(path=spent).history) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_full_disk_is_explained_and_loses_nothing(spent):
    message = run(TRY_TO_SPEND, spent, "full")
    charged = int(message.split()[0])
    assert "Nothing was released" in message
    after = PrivacyAccountant(path=spent)
    assert charged > 0
    # The charge that failed may stay (its commit was in doubt); none that succeeded is missing.
    assert charged <= len(after.history) - 1 <= charged + 1
    assert total(after) == pytest.approx(0.75 + 1e-4 * (len(after.history) - 1), abs=1e-12)
    after.spend(SMALL)


def test_full_database_is_explained(spent, monkeypatch):
    accountant = PrivacyAccountant(path=spent)
    accountant.check(SMALL)
    connect = ledger._connect

    def cramped(path):
        db = connect(path)
        db.execute(f"PRAGMA max_page_count = {pages}")
        return db

    pages = os.path.getsize(spent) // 4096
    ledger.close()
    monkeypatch.setattr(ledger, "_connect", cramped)
    with pytest.raises(BudgetError, match="full"):
        for _ in range(200):
            accountant.spend(PureEvent(1e-4), label="x" * 200)
    history = accountant.history
    assert total(accountant) == pytest.approx(0.75 + 1e-4 * (len(history) - 1), abs=1e-12)
    ledger.close()
    monkeypatch.setattr(ledger, "_connect", connect)
    accountant.spend(SMALL)


def test_a_busy_ledger_is_explained(spent, monkeypatch):
    monkeypatch.setattr(ledger, "BUSY_SECONDS", 0.1)
    ledger.close()
    accountant = PrivacyAccountant(path=spent)
    other = sqlite3.connect(spent, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(BudgetError, match="locked"):
        accountant.spend(SMALL)
    other.execute("ROLLBACK")
    other.close()
    accountant.spend(SMALL)


# -- files --


def test_temporary_ledgers_are_private_and_removed():
    accountant = PrivacyAccountant()
    folder = os.path.dirname(accountant.path)
    if sys.platform != "win32":
        assert stat.S_IMODE(os.stat(accountant.path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    path = run(
        """
        import os
        from skriemdp.ledger._accountant import PrivacyAccountant
        from skriemdp.privacy._events import PureEvent
        accountant = PrivacyAccountant()
        accountant.spend(PureEvent(1.0))
        if os.fork() == 0:
            accountant.spend(PureEvent(1.0))
            raise SystemExit  # runs exit handlers, and must not remove the parent's ledger
        os.wait()
        assert len(accountant.history) == 2
        print(accountant.path)
        """
    )
    assert path.endswith(".ledger") and not os.path.exists(os.path.dirname(path))


def spend_late(accountant, connection):
    own = PrivacyAccountant()
    own.spend(SMALL)
    connection.send(own.path)
    time.sleep(0.5)  # the parent has reached its exit by then
    accountant.spend(SMALL)


def test_children_clean_up_and_outlive_the_parents_last_line(tmp_path):
    receiver, sender = multiprocessing.get_context("fork").Pipe(duplex=False)
    accountant = PrivacyAccountant()
    child = multiprocessing.get_context("fork").Process(
        target=spend_late, args=(accountant, sender)
    )
    child.start()
    path = receiver.recv()
    assert os.path.exists(path)
    child.join()
    assert child.exitcode == 0 and not os.path.exists(os.path.dirname(path))
    assert len(accountant.history) == 1
    code = run(
        """
        import multiprocessing, sys
        from skriemdp.ledger._accountant import PrivacyAccountant
        from test_ledger_processes import spend_late
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=spend_late, args=(PrivacyAccountant(), sender))
        child.start()
        receiver.recv()
        import atexit
        import multiprocessing.util as util
        util.Finalize(None, lambda: print(child.exitcode, flush=True), exitpriority=-200)
        """
    )
    assert code == "0"  # the ledger was still there when the child charged it


def test_charges_are_synced_and_leave_no_log(tmp_path):
    kept = PrivacyAccountant(path=tmp_path / "study.ledger")
    fleeting = PrivacyAccountant()  # removed with this process, which no power failure survives
    for accountant, level in ((kept, 3), (fleeting, 0)):  # EXTRA: also the journal's end; OFF
        accountant.spend(SMALL)
        with accountant._ledger.writing() as book:
            assert book.db.execute("PRAGMA synchronous").fetchone() == (level,)
            assert book.db.execute("PRAGMA journal_mode").fetchone() == ("persist",)
        assert not os.path.exists(accountant.path + "-wal")


def test_another_process_syncs_what_it_charges_to_a_ledger_without_a_path():
    accountant = PrivacyAccountant()
    script = """
        import sys
        from skriemdp.ledger._storage import Ledger
        from skriemdp.ledger._accountant import PrivacyAccountant
        from skriemdp.privacy._events import PureEvent
        accountant = PrivacyAccountant(path=sys.argv[1])
        accountant.spend(PureEvent(0.001))
        with Ledger(accountant.path).writing() as book:
            print(book.db.execute("PRAGMA synchronous").fetchone()[0])
    """
    assert run(script, accountant.path) == "3"
    assert len(accountant.history) == 1


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_ledgers_keep_no_files_open():
    before = len(os.listdir("/proc/self/fd"))
    accountants = [PrivacyAccountant() for _ in range(12)]
    for accountant in accountants:
        accountant.spend(SMALL)
    assert len(os.listdir("/proc/self/fd")) == before
    assert [len(accountant.history) for accountant in accountants] == [1] * len(accountants)


def test_racing_creators_share_one_ledger(tmp_path):
    path = tmp_path / "raced.ledger"

    def create(_):
        return PrivacyAccountant(epsilon=1.0, path=path)

    with ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(create, range(8)))
    assert len(set(handles)) == 1
    assert not [item for item in tmp_path.iterdir() if "raced.ledger." in item.name]


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
//server/share /mnt/my\\040share cifs rw 0 0
tmpfs /home/local tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/ann/a.ledger", "nfs4"),
        ("/homes/a.ledger", "ext4"),
        ("/mnt/my share/a.ledger", "cifs"),
        ("/home/local/a.ledger", "tmpfs"),
    ],
)
def test_file_systems_are_recognised(path, kind):
    assert file_system(path, MOUNTS) == kind


# As kernels name them: shares, stores, what a host lends a virtual machine, and one of tomorrow.
ELSEWHERE = (
    "nfs nfs4 cifs smb3 smbfs 9p drvfs virtiofs vboxsf prl_fs vmhgfs fuse.vmhgfs-fuse fakeowner "
    "fuse.grpcfuse fuse fuse.drive fuse.sshfs fuse.s3fs fuse.mount-s3 fuse.gcsfuse fuse.rclone "
    "fuse.juicefs lustre ceph gpfs beegfs glusterfs ocfs2 gfs2 afs tomorrowfs"
).split()


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_file_systems_that_are_not_known_to_be_local_are_refused(kind, tmp_path, monkeypatch):
    """Unless somebody vouches for them, in the words of the refusal."""
    monkeypatch.setattr(files, "file_system", lambda path: kind)
    path = tmp_path / "a.ledger"
    with pytest.raises(BudgetError, match=re.escape(f"type {kind!r}")) as refused:
        PrivacyAccountant(path=path)
    assert not path.exists()
    (cure,) = re.findall(r"skriemdp\.set_config\((.*)\)", str(refused.value))
    with config_context(**eval(f"dict({cure})")):
        PrivacyAccountant(path=path).spend(SMALL)
    with pytest.raises(BudgetError, match="file system of type"):
        PrivacyAccountant(path=tmp_path / "b.ledger")


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "ntfs3", ""])
def test_local_file_systems_are_taken(kind, tmp_path, monkeypatch):
    """Also where the system does not say what a file lies on."""
    monkeypatch.setattr(files, "file_system", lambda path: kind)
    PrivacyAccountant(path=tmp_path / "a.ledger").spend(SMALL)


class Holder(BaseEstimator):
    def __init__(self, accountant=None):
        self.accountant = accountant


def spend_from(holder):
    return holder.accountant.spend(SMALL).entry


def test_pickled_handles_work_in_loky():
    accountant = PrivacyAccountant(epsilon=0.01, delta=0.0)
    entries = joblib.Parallel(n_jobs=2)(
        joblib.delayed(spend_from)(clone(Holder(accountant))) for _ in range(10)
    )
    assert sorted(entries) == list(range(2, 12))  # the first entry made the data set
    with pytest.raises(BudgetExceededError):
        accountant.spend(SMALL)


# -- what SQLite says, and what stays open --


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "cannot be used"),
        (sqlite3.SQLITE_BUSY, "stayed locked"),
        (sqlite3.SQLITE_FULL, "disk of the ledger"),
        (sqlite3.SQLITE_IOERR | 10 << 8, "input/output"),  # an extended code
        (sqlite3.SQLITE_MISUSE, "cannot be used"),
    ],
)
def test_every_error_of_sqlite_is_explained(code, words):
    error = sqlite3.OperationalError("something")
    if code is not None:
        error.sqlite_errorcode = code
    with (
        pytest.raises(BudgetError, match=f"{words}.*Nothing was released.*something"),
        ledger.explained("a.ledger"),
    ):
        raise error


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_other_threads_can_charge_after_a_fork():
    accountant = PrivacyAccountant()
    accountant.spend(SMALL)

    def charges_in_a_thread():
        thread = threading.Thread(target=accountant.spend, args=(SMALL,), daemon=True)
        thread.start()
        thread.join(10.0)
        return not thread.is_alive()

    child = os.fork()
    if child == 0:
        os._exit(0 if charges_in_a_thread() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert charges_in_a_thread() and len(accountant.history) == 3
