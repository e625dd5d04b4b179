"""A ledger that was rewound, edited or lost in part is refused; it is never a fresh budget."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import tracemalloc

import joblib
import numpy as np
import pytest

from skriemdp.federated._agent import AnswerBook
from skriemdp.federated._loop import Checkpoint
from skriemdp.federated._messages import LocalTask
from skriemdp.ledger import _chain as chain
from skriemdp.ledger import _files as files
from skriemdp.ledger import _storage as storage
from skriemdp.ledger._accountant import BudgetError, BudgetExceededError, PrivacyAccountant
from skriemdp.ledger._current import active_accountant_token
from skriemdp.privacy._events import PureEvent

SMALL = PureEvent(0.001)
LARGE = PureEvent(0.5)


def forget():
    """Make this process see every ledger for the first time, as a new one would."""
    storage.close()
    storage._marks.clear()
    storage._places.clear()
    storage._looked_through.clear()


def child(script, *arguments, check=True):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def charged(path, **options):
    """A ledger with common charges, partitions and a second data set."""
    budget = PrivacyAccountant(epsilon=4.0, path=path, **options)
    for size in (0.5, 0.25, 0.5):
        budget.spend(PureEvent(size), label="Mean", params={"epsilon": size}, facts={"n": 100})
    budget.partition("north").spend(PureEvent(0.75))
    budget.partition("south").spend(PureEvent(0.5))
    budget.dataset("other").spend(LARGE)
    return budget


@pytest.fixture
def budget(tmp_path):
    return charged(tmp_path / "clinic.ledger")


def copy(path, target):
    """What a backup program takes: the file and its journal."""
    for suffix in ("", "-journal"):
        if os.path.exists(f"{path}{suffix}"):
            shutil.copy2(f"{path}{suffix}", f"{target}{suffix}")


def edit(path, statement):
    with sqlite3.connect(path, isolation_level=None) as db:
        done = db.execute(statement)
        assert done.rowcount  # -1 of what is no update
    db.close()


# -- edits --

# Entry 8 is the last one of its data set, 5 that of partition north, 4 a common charge.
EDITS = {
    "totals set to zero": """UPDATE entries SET after =
        '[6,3,[0,0,0,0],[0,0,0,0],1,[0,0,0,0]]' WHERE id = 6""",
    "peak set to zero": """UPDATE entries SET after = replace(after, ',[8', ',[0') WHERE id = 6""",
    "counter set back": "UPDATE entries SET after = replace(after, '[6,', '[1,') WHERE id = 6",
    "limits raised": """UPDATE texts SET text = replace(text, 'limits": ["', 'limits": ["9')""",
    "ceiling raised": "UPDATE texts SET text = replace(text, '4.0', '40.0')",
    "unit changed": "UPDATE entries SET unit = 'label' WHERE id = 1",
    "last entry deleted": "DELETE FROM entries WHERE id = (SELECT MAX(id) FROM entries)",
    "first charge deleted": "DELETE FROM entries WHERE id = 2",
    "creation deleted": "DELETE FROM entries WHERE id = 1",
    "creation of another time": "UPDATE entries SET time = '2020' WHERE id = 1",
    "charge weakened": "UPDATE entries SET cost = '[1,1,1]' WHERE id = 3",
    "charge replaced": """UPDATE entries
        SET event = (SELECT event FROM entries WHERE id = 3) WHERE id = 2""",
    "event weakened": """UPDATE texts SET text = replace(text, '0.5', '0.05')
        WHERE text LIKE '%pure%'""",
    "note changed": "UPDATE entries SET note = 1 WHERE id = 2",
    "fact changed": """UPDATE texts SET text = replace(text, '"n":100', '"n":1000')
        WHERE text LIKE '%facts%'""",
    "version changed": """UPDATE texts SET text = replace(text, '"version":"', '"version":"9')
        WHERE text LIKE '%facts%'""",
    "note deleted": "DELETE FROM texts WHERE text LIKE '%facts%'",
    "totals noted changed": "UPDATE entries SET after = replace(after, '5', '4') WHERE id = 4",
    "digest changed": "UPDATE entries SET digest = digest || '0' WHERE id = 3",
    "partition set to zero": """UPDATE entries SET after =
        substr(after, 1, instr(after, ',1,[')) || '1,[0,0,0,0]]'
        WHERE id = 5""",
    "partition set back": "UPDATE places SET last = 4 WHERE part = 'north'",
    "partition deleted": "DELETE FROM places WHERE part = 'north'",
    "partition renamed": "UPDATE places SET part = 'nord' WHERE part = 'north'",
    "charge of a partition renamed": "UPDATE entries SET part = 'nord' WHERE id = 5",
    "charge moved": "UPDATE entries SET dataset = 7 WHERE id = 3",
    "data set set back": "UPDATE places SET last = 4 WHERE part = '' AND dataset = 1",
    "data set of another": "UPDATE places SET last = 8 WHERE part = '' AND dataset = 1",
    "data set deleted": "DELETE FROM places WHERE dataset = 7",
    "places deleted": "DELETE FROM places",
    "division invented": "UPDATE entries SET kind = 'split' WHERE id = 8",
    "creation invented": "UPDATE entries SET kind = 'created' WHERE id = 3",
    "trigger": """CREATE TRIGGER undo AFTER INSERT ON entries
        BEGIN UPDATE places SET last = 1; END""",
    "view": "CREATE VIEW looks AS SELECT * FROM entries",
    "index": "CREATE INDEX quick ON entries (dataset)",
    "column": "ALTER TABLE places ADD COLUMN spare TEXT",
    "table dropped": "DROP TABLE texts",
    "key changed": "UPDATE ledger SET key = 'a' || key",
    "not a number": "UPDATE entries SET after = replace(after, '[6,', '[\"x\",') WHERE id = 6",
    "not JSON": "UPDATE entries SET after = 'nothing' WHERE id = 6",
    "a NULL total": """UPDATE entries SET after = substr(after, 1, instr(after, ',1,['))
        || '1,[null,null,null,null]]' WHERE id = 5""",
    "a filter that is none": """UPDATE texts SET text = '{"filter":{},"parent":null}'
        WHERE text LIKE '%filter%'""",
    "write-ahead log": "PRAGMA journal_mode = WAL",
}  # fmt: skip


@pytest.mark.parametrize("what", EDITS)
@pytest.mark.parametrize("process", ["same", "new"])
def test_every_edit_is_noticed_and_restores_nothing(budget, what, process):
    pickled = pickle.dumps(budget)
    edit(budget.path, EDITS[what])
    if process == "new":
        forget()
    noticed = 0
    for use in (
        lambda: PrivacyAccountant(path=budget.path).verify(),
        lambda: pickle.loads(pickled).verify(),
        budget.verify,
    ):
        with pytest.raises(BudgetError) as caught:
            use()
        noticed += not isinstance(caught.value, BudgetExceededError)
    assert noticed == 3
    with pytest.raises(BudgetError):  # what was left before is the most that can be had
        for _ in range(10):
            budget.partition("north").spend(LARGE)
    if process == "new":  # the first look adds the last entries up: no call to verify is needed
        for use in (
            lambda: PrivacyAccountant(path=budget.path).spend(SMALL),
            lambda: pickle.loads(pickled).spend(SMALL),
            lambda: budget.spend(SMALL),
            lambda: budget.history[0],
            lambda: budget.spent,
        ):
            with pytest.raises(BudgetError):
                use()


@pytest.mark.parametrize("what", ["trigger", "view", "index", "column", "data set deleted"])
def test_a_charge_looks_at_what_others_wrote(budget, what):
    edit(budget.path, EDITS[what])
    with pytest.raises(BudgetError, match="does not add up"):
        budget.spend(SMALL)


def test_a_sound_ledger_is_not_refused(budget):
    for _ in range(2):
        budget.verify()
        budget.verify(budget.head)
        PrivacyAccountant(path=budget.path).spend(SMALL)
        forget()
    assert len(budget.history) == 7


def test_verify_knows_an_earlier_head_and_no_other(budget):
    head = budget.head
    budget.spend(SMALL)
    assert head != budget.head and budget.head in budget.summary()
    budget.verify(head)
    budget.verify("entry " + budget.head)
    budget.verify(head.split()[1])
    another = head[:-1] + ("1" if head[-1] == "0" else "0")
    for other in (another, another.split()[1], budget.head.replace(" ", "0 ")):
        with pytest.raises(BudgetError, match="entry"):
            budget.verify(other)
    for nonsense in ("", "12", "twelve " + 64 * "0"):
        with pytest.raises(ValueError, match="head"):
            budget.verify(nonsense)


@pytest.mark.parametrize("entries", range(1, 9))
def test_the_first_look_at_a_ledger_begins_in_its_middle(budget, monkeypatch, entries):
    monkeypatch.setattr(storage, "FIRST_LOOK", entries)
    forget()
    again = PrivacyAccountant(epsilon=4.0, path=budget.path)
    assert again.spent == budget.spent and len(again.history) == 5


def test_a_long_ledger_is_verified_in_pieces(tmp_path, monkeypatch):
    budget = PrivacyAccountant(path=tmp_path / "long.ledger")
    for size in range(30):
        budget.partition(str(size % 3)).spend(PureEvent(0.1 + size))
    pieces, rows = [], chain.Book.rows

    def noted(book, start, *rest):
        pieces.append(start)
        return rows(book, start, *rest)

    monkeypatch.setattr(storage, "PAGE", 7)
    with monkeypatch.context() as patch:
        patch.setattr(chain.Book, "rows", noted)
        budget.verify()
    assert [start for start in pieces if start % 7 == 1] == [1, 8, 15, 22, 29]
    edit(budget.path, "UPDATE entries SET label = 'y' WHERE id = 17")
    with pytest.raises(BudgetError, match="entry 17"):
        budget.verify()


# -- backups --


def test_an_old_backup_under_a_live_handle_is_noticed(budget, tmp_path):
    copy(budget.path, tmp_path / "backup")
    newest = budget.spend(LARGE).entry
    pickled = pickle.dumps(budget)
    copy(tmp_path / "backup", budget.path)
    for use in (
        lambda: budget.spend(SMALL),
        lambda: budget.history[0],
        lambda: pickle.loads(pickled).spend(SMALL),
        lambda: PrivacyAccountant(path=budget.path),
    ):
        with pytest.raises(BudgetError, match=f"went back from entry {newest} to {newest - 1}"):
            use()


@pytest.mark.parametrize("what", ["handle", "token"])
def test_an_old_backup_is_noticed_by_a_new_process_with_a_pickle(budget, tmp_path, what):
    copy(budget.path, tmp_path / "backup")
    budget.spend(LARGE)
    with budget:
        sent = budget if what == "handle" else active_accountant_token()
        (tmp_path / "pickle").write_bytes(pickle.dumps(sent))
    copy(tmp_path / "backup", budget.path)
    script = """
        import pickle, sys
        from skriemdp.ledger._accountant import BudgetError
        from skriemdp.ledger._current import current_accountant
        from skriemdp.privacy._events import PureEvent
        sent = pickle.loads(open(sys.argv[1], "rb").read())
        try:
            budget = current_accountant(sent) if isinstance(sent, dict) else sent
            budget.spend(PureEvent(0.001))
        except BudgetError as error:
            print(error)
    """
    assert "went back" in child(script, tmp_path / "pickle").stdout
    forget()
    PrivacyAccountant(path=budget.path).spend(SMALL)  # without a memory it cannot be known


def test_what_the_sender_of_a_pickle_has_seen_counts_at_once(budget, tmp_path):
    copy(budget.path, tmp_path / "backup")
    budget.spend(LARGE)
    sent = pickle.dumps(budget)
    copy(tmp_path / "backup", budget.path)
    forget()
    again = PrivacyAccountant(path=budget.path)  # whose connection is kept
    pickle.loads(sent)
    with pytest.raises(BudgetError, match="went back"):
        again.spend(SMALL)


def test_another_history_of_the_same_length_is_noticed(budget, tmp_path):
    copy(budget.path, tmp_path / "backup")
    budget.spend(LARGE)
    copy(budget.path, tmp_path / "first")
    copy(tmp_path / "backup", budget.path)
    forget()
    PrivacyAccountant(path=budget.path).spend(SMALL)
    copy(tmp_path / "first", budget.path)
    with pytest.raises(BudgetError, match="has another entry"):
        PrivacyAccountant(path=budget.path).spend(SMALL)


def test_one_ledger_at_two_paths_is_refused(budget, tmp_path):
    second = tmp_path / "second.ledger"
    copy(budget.path, second)
    with pytest.raises(BudgetError, match="is a copy of the ledger"):
        PrivacyAccountant(path=second)
    for suffix in ("", "-journal"):
        os.unlink(budget.path + suffix)
    PrivacyAccountant(path=second).spend(SMALL)  # it was moved


@pytest.mark.skipif(not hasattr(os, "link"), reason="needs hard links")
def test_hard_links_are_refused(budget, tmp_path):
    os.link(budget.path, tmp_path / "second.ledger")
    for use in (
        lambda: budget.spend(SMALL),
        lambda: PrivacyAccountant(path=budget.path),
        lambda: PrivacyAccountant(path=tmp_path / "second.ledger"),
    ):
        with pytest.raises(BudgetError, match="second name"):
            use()
    os.unlink(tmp_path / "second.ledger")
    budget.spend(SMALL)


def test_a_pickle_is_the_same_to_caches_after_a_charge(budget):
    with budget:
        before = joblib.hash(budget), joblib.hash(active_accountant_token())
        budget.spend(SMALL)
        after = joblib.hash(budget), joblib.hash(active_accountant_token())
    assert before == after


# -- the witness --


@pytest.fixture
def witnessed(tmp_path):
    (tmp_path / "disk").mkdir()
    return charged(tmp_path / "clinic.ledger", witness=tmp_path / "disk" / "clinic.witness")


def lines(witnessed):
    with open(os.path.join(os.path.dirname(witnessed.path), "disk", "clinic.witness")) as file:
        return [line for line in file.read().splitlines() if line]


def test_an_old_backup_is_noticed_by_the_witness(witnessed, tmp_path):
    assert lines(witnessed)[-1] == witnessed.head and len(lines(witnessed)) == 9
    if os.name == "posix":
        mode = os.stat(tmp_path / "disk" / "clinic.witness").st_mode
        assert stat.S_IMODE(mode) == 0o600
    copy(witnessed.path, tmp_path / "backup")
    witnessed.spend(LARGE)
    copy(tmp_path / "backup", witnessed.path)
    forget()
    again = PrivacyAccountant(path=witnessed.path)
    for use in (again.verify, lambda: again.spend(SMALL)):
        with pytest.raises(BudgetError, match="went back"):
            use()


def test_a_file_ahead_of_its_witness_is_fine(witnessed, tmp_path):
    path = tmp_path / "disk" / "clinic.witness"
    text = path.read_bytes()
    keep = text.splitlines(keepends=True)
    for damaged in (
        b"".join(keep[:-2]),  # a crash before the line was written
        b"".join(keep[:-1]) + keep[-1][:20],  # half a line
        b"".join([keep[0], *reversed(keep[1:])]),  # several processes, out of order
    ):
        path.write_bytes(damaged)
        forget()
        witnessed.verify()
        witnessed.spend(SMALL)
        assert lines(witnessed)[-1] == witnessed.head
        path.write_bytes(path.read_bytes())


@pytest.mark.parametrize("damage", ["missing", "empty", "foreign", "other"])
def test_a_lost_witness_is_an_error(witnessed, tmp_path, damage):
    path = tmp_path / "disk" / "clinic.witness"
    text = path.read_text()
    if damage == "missing":
        path.unlink()
    else:
        key = text.split()[1]
        path.write_text(
            {"empty": "", "foreign": text.replace(key, key[::-1]), "other": "x"}[damage]
        )
    before = len(witnessed.history)
    with pytest.raises(BudgetError, match="witness"):
        witnessed.spend(SMALL)
    assert len(witnessed.history) == before


def test_a_witness_is_fixed_with_the_ledger(witnessed, budget, tmp_path):
    same = tmp_path / "disk" / "clinic.witness"
    for path, given in ((witnessed.path, tmp_path / "x"),):
        with pytest.raises(BudgetError, match="was made with"):
            PrivacyAccountant(path=path, witness=given)
    assert PrivacyAccountant(path=witnessed.path, witness=same) == witnessed
    with pytest.raises(BudgetError, match="must be a new file"):
        PrivacyAccountant(path=tmp_path / "new.ledger", witness=same)
    assert not (tmp_path / "new.ledger").exists()
    with pytest.raises(ValueError, match="path="):
        PrivacyAccountant(witness=same)


def spend_some(budget):
    return [budget.spend(SMALL).entry for _ in range(20)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_processes_share_a_witness(witnessed):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        found = pool.map(spend_some, [witnessed] * 4)
    numbers = [int(line.split()[0]) for line in lines(witnessed)[1:]]
    assert {entry for part in found for entry in part} <= set(numbers)
    witnessed.verify()


# -- side files --


def test_a_stray_log_is_refused(budget):
    with open(budget.path + "-wal", "wb"):
        pass
    with pytest.raises(BudgetError, match="-wal"):
        budget.spend(SMALL)
    os.unlink(budget.path + "-wal")
    budget.spend(SMALL)


KILLED = """
    import os, signal, sys, threading, time
    from skriemdp.ledger._accountant import BudgetError, PrivacyAccountant
    from skriemdp.privacy._events import PureEvent
    budget = PrivacyAccountant(path=sys.argv[1])
    budget.spend(PureEvent(0.001), label="x" * 1000)
    for turn in range(10000):
        if turn == int(sys.argv[3]):
            delay = float(sys.argv[2])
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
        os.write(1, b"%d\\n" % budget.spend(PureEvent(0.001), label="x" * 1000).entry)
"""


# Kills of the slow form; ten thousand charges need SKRIEMDP_KILLS=60 and some minutes.
KILLS = int(os.environ.get("SKRIEMDP_KILLS", "8"))


@pytest.mark.timeout(1800)
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("length", ["quick", pytest.param("slow", marks=pytest.mark.slow)])
def test_kills_and_side_files_lose_no_charge(tmp_path, length, rng):
    """Kill during spends; keep, cut, empty or delete what lies beside the file."""
    rounds = 4 if length == "quick" else KILLS
    before = 20 if length == "quick" else 170
    refused = reported = 0
    for turn in range(rounds):
        path = tmp_path / f"{turn}.ledger"
        charged(path)
        forget()
        done = child(KILLED, path, rng.uniform(0.0, 0.02), before, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        entries = [int(line) for line in done.stdout.splitlines()]
        journal = f"{path}-journal"
        match turn % 4:
            case 1 if os.path.exists(journal):
                os.truncate(journal, os.path.getsize(journal) // 2)
            case 2 if os.path.exists(journal):
                os.truncate(journal, 0)
            case 3 if os.path.exists(journal):
                os.unlink(journal)
        reported += len(entries)
        try:
            budget = PrivacyAccountant(path=path)
            budget.verify()
        except BudgetError:
            refused += 1  # the journal was needed
            continue
        assert set(entries) <= {spend.entry for spend in budget.history}
    print(f"{reported} charges reported, {rounds} kills, {refused} files refused, 0 charges lost")
    assert reported >= before * rounds and refused <= rounds // 2


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_an_auditor_who_may_not_write_reads_what_was_shared():
    script = """
        import os, sys
        from skriemdp import BudgetError
        from skriemdp.ledger import _storage as storage
        os.setuid(65534)
        try:
            print(storage.read(sys.argv[1]).problems)
        except BudgetError as error:
            print(error)
    """
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "clinic.ledger")
        charged(path)
        os.chmod(path, 0o644)
        said = child(script, path).stdout
        assert "may not be read here" in said and "holds an unfinished" not in said
        forget()
        PrivacyAccountant(path=path).spend(SMALL)
        assert child(script, path).stdout == "[]\n"


def test_an_unfinished_charge_is_explained_where_nothing_can_be_written():
    error = sqlite3.OperationalError("attempt to write a readonly database")
    error.sqlite_errorcode = sqlite3.SQLITE_READONLY_ROLLBACK
    with (
        pytest.raises(BudgetError, match="open it once where"),
        storage.explained("a.ledger"),
    ):
        raise error


# -- other files --


def task(point=1.0):
    return LocalTask("run", 0, "clinic", np.array([point]))


def free():
    """A charge of nothing."""


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_answer_books_and_checkpoints_are_private(tmp_path, monkeypatch):
    old = os.umask(0)
    try:
        book, checkpoint = AnswerBook(tmp_path / "book"), Checkpoint(tmp_path / "point")
        book.begin(task(), free)
        state = {"fit_id": "run", "point": np.ones(2), "chosen": np.ones(2)}
        with checkpoint.locked():
            checkpoint.save(state)
    finally:
        os.umask(old)
    names = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert names == {"book": 0o600, "point": 0o600, "point.lock": 0o600}
    assert checkpoint.load("run")["point"].tolist() == [1.0, 1.0]
    os.link(tmp_path / "book", tmp_path / "second")
    os.link(tmp_path / "point", tmp_path / "third")
    for use in (lambda: book.begin(task(), free), lambda: checkpoint.load("run")):
        with pytest.raises(BudgetError, match="second name"):
            use()
    os.unlink(tmp_path / "second")
    monkeypatch.setattr(files, "file_system", lambda path: "nfs4")
    for use in (lambda: book.begin(task(), free), lambda: checkpoint.save(state)):
        with pytest.raises(BudgetError, match="file system of type"):
            use()


def test_damaged_answer_books_and_checkpoints_are_errors(tmp_path):
    (tmp_path / "book").write_text("nothing" * 100)
    with pytest.raises(BudgetError, match="answer book"):
        AnswerBook(tmp_path / "book").begin(task(), free)
    book = AnswerBook(tmp_path / "second")
    book.begin(task(), free)
    book.finish(task(), [1.0])
    assert book.begin(task(), free) == [1.0]
    edit(tmp_path / "second", "UPDATE answers SET answer = '[1.0'")
    with pytest.raises(BudgetError, match="answer book"):
        book.begin(task(), free)
    for text in ("", "{}", '{"fit_id": "run"}', '{"fit_id": "run", "point": "x", "chosen": 1}'):
        (tmp_path / "point").write_text(text)
        with pytest.raises(BudgetError, match="checkpoint"):
            Checkpoint(tmp_path / "point").load("run")


@pytest.mark.parametrize("name", [b"clinic.ledger", b"\xff\xfe.ledger", "läuft % #?.ledger"])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="any bytes are a name on Linux")
def test_any_name_of_a_file_will_do(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path) if isinstance(name, bytes) else tmp_path, name)
    PrivacyAccountant(epsilon=1.0, path=path).spend(SMALL)
    assert len(pickle.loads(pickle.dumps(PrivacyAccountant(path=path))).history) == 1


def test_a_name_that_no_file_can_have_is_explained(tmp_path):
    for path in (tmp_path / "a\0b", tmp_path / ("x" * 5000)):
        with pytest.raises(BudgetError):
            PrivacyAccountant(path=path)


@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
def test_a_terminated_process_removes_its_temporary_ledger():
    script = """
        import os, signal, sys
        from skriemdp.ledger._accountant import PrivacyAccountant
        for own in (False, True):
            if (pid := os.fork()) == 0:
                if own:
                    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(3))
                print(PrivacyAccountant().path, flush=True)
                os.kill(os.getpid(), signal.SIGTERM)
                signal.pause()
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    """
    first, ended, second, code = child(script).stdout.split()
    assert (int(ended), int(code)) == (-signal.SIGTERM, 3) and first != second
    assert not any(os.path.exists(os.path.dirname(path)) for path in (first, second))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_hangs_in_foreign_code_ends_at_sigterm():
    """Its signal is the system's own again: a handler in Python would wait for that code."""
    script = """
        import os, signal
        from skriemdp.ledger._accountant import PrivacyAccountant
        budget = PrivacyAccountant()
        print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, flush=True)
        if os.fork() == 0:
            print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, flush=True)
            os._exit(0)
        os.wait()
        print(os.path.exists(budget.path))
    """
    assert child(script).stdout.split() == ["False", "True", "True"]


# -- long lists --


def test_history_is_read_as_it_is_asked(monkeypatch, tmp_path):
    budget = PrivacyAccountant(path=tmp_path / "long.ledger")
    expected = []
    for index in range(23):
        handle = budget.partition("a") if index % 4 == 0 else budget
        expected.append(handle.spend(PureEvent(0.1 + index)))
    budget.dataset("other").spend(SMALL)
    monkeypatch.setattr(storage, "PAGE", 5)
    history = budget.history
    assert len(history) == 23 and list(history) == expected and history == expected
    assert history[0] == expected[0] and history[-1] == expected[-1]
    assert history[3:9:2] == expected[3:9:2] and history[::-1] == expected[::-1]
    assert expected[7] in history and history != expected[1:]
    for place in (23, -24):
        with pytest.raises(IndexError):
            history[place]
    later = budget.spend(SMALL)
    assert len(history) == 24 and history[-1] == later
    part = budget.partition("b").history
    assert list(part) == [spend for spend in [*expected, later] if not spend.partition]
    assert len(part) == len(list(part)) and len(budget.partition("a").history) == 24


def test_a_long_history_needs_little_memory(monkeypatch, tmp_path):
    budget = PrivacyAccountant(path=tmp_path / "long.ledger")
    with budget._ledger.writing() as book:
        for _ in range(400):
            book.append(book.place("default"), chain.CHARGED, label="x" * 1000, event="{}")
    monkeypatch.setattr(storage, "PAGE", 10)
    tracemalloc.start()
    assert sum(len(spend.label) for spend in budget.history) == 400 * 1000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150_000  # all labels together are 400 kB


def test_other_formats_are_left_alone(tmp_path, budget):
    edit(budget.path, "PRAGMA user_version = 2")
    forget()
    with pytest.raises(BudgetError, match="format 2, this version of skriemdp reads 4"):
        PrivacyAccountant(path=budget.path)
    edit(tmp_path / "other", "CREATE TABLE x (y)")
    with pytest.raises(BudgetError, match="not a privacy ledger"):
        PrivacyAccountant(path=tmp_path / "other")


# -- divisions --


def test_a_divided_data_set_takes_no_charge_and_keeps_its_division(budget):
    other = PrivacyAccountant(epsilon=2.0, path=budget.path + ".2")
    ledger, rule = other._ledger, other._filter
    parts = [(f"default/{number}", rule.to_dict(), rule.zero) for number in (1, 2)]
    names = ledger.divide("default", {"shares": [1, 1]}, parts)
    assert names == ["default/1", "default/2"]
    assert ledger.divide("default", {"shares": [1, 1]}, parts) == names
    with pytest.raises(BudgetError, match="divided in another way"):
        ledger.divide("default", {"shares": [2, 1]}, parts)
    for handle in (other, other.partition("a"), pickle.loads(pickle.dumps(other))):
        with pytest.raises(BudgetError, match="divided into parts"):
            handle.spend(SMALL)
    part = other.dataset("default/1")
    part.spend(SMALL)
    assert [place.terms["parent"] for place in ledger.datasets()] == [None, "default", "default"]
    other.verify()
    edit(other.path, "UPDATE places SET last = 1 WHERE dataset = 1")
    with pytest.raises(BudgetError, match="does not add up"):
        other.spend(SMALL)
    with pytest.raises(BudgetError, match="already"):
        budget._ledger.divide("default", {}, parts)


def test_a_charge_that_is_refused_takes_the_reservation_back(tmp_path):
    """Else the release could never be asked for again; one that was charged never is twice."""
    book = AnswerBook(tmp_path / "book")

    def refuse():
        raise BudgetExceededError("no")

    for _ in range(2):
        with pytest.raises(BudgetExceededError):
            book.begin(task(), refuse)
    assert book.begin(task(), free) is None
    with pytest.raises(BudgetError, match="never finished"):
        book.begin(task(), free)


def test_a_client_killed_within_its_charge_may_answer_later(tmp_path):
    """The reservation is lost with the process; no noise was drawn for it."""
    script = """
        import os, sys
        import numpy as np
        from skriemdp.federated import AnswerBook, LocalTask
        task = LocalTask("run", 0, "clinic", np.array([1.0]))
        AnswerBook(sys.argv[1]).begin(task, lambda: os._exit(7))
    """
    assert child(script, tmp_path / "book", check=False).returncode == 7
    assert AnswerBook(tmp_path / "book").begin(task(), free) is None
