"""Connections to ledger files: one at a time, checked, and what goes wrong explained.

SQLite keeps the POSIX locks of a file per process: a connection (or even its bookkeeping) that
crosses fork() believes in locks that the child does not hold.  So there is one lock of the process,
held during each transaction and across a fork, and the last connection is kept for the next
transaction only while nobody else touches its file, and closed before a fork.  For the same reason
nothing here opens the ledger with open(): closing that descriptor would drop the locks.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Iterator
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from skriemdp.ledger import files, witness
from skriemdp.ledger.chain import FORMAT, SCHEMA, Book, Broken, Head, Replay
from skriemdp.ledger.errors import BudgetError

__all__ = ["BudgetError"]

APPLICATION_ID = 0x736B7264  # "skrd"; tells our files from other SQLite files
BUSY_SECONDS = 60.0
# So many of the last entries are added up again when a process first opens a ledger.
FIRST_LOOK = 10_000

_lock = threading.RLock()
# By the ledger's key: the newest entry that this process has seen, and where the file was.
_marks: dict[str, Head] = {}
_places: dict[str, str] = {}
# Paths with device and number of the file.
_looked_through: set[tuple] = set()
# The last connection, its file's path, and the file as the last transaction left it.
_kept: tuple[sqlite3.Connection, str, tuple] | None = None


def locked() -> threading.RLock:
    """The lock of this process, for ledgers and open blocks; a child of a fork has its own."""
    return _lock


def mark(key: str) -> Head | None:
    """The newest entry that this process has seen of a ledger."""
    return _marks.get(key)


def remember(key: str, head: Head | None) -> None:
    """Remember an entry: a file with this key that lacks it is refused from now on."""
    if head is not None and (key not in _marks or _marks[key].entry < head.entry):
        _marks[key] = head


@contextlib.contextmanager
def reading(path: str, key: str, begin: str = "BEGIN") -> Iterator[Book]:
    """Several reads of one state of the ledger, checked to be no older than what was seen."""
    global _kept
    with locked(), explained(path), contextlib.ExitStack() as undone:
        state = _file(path)
        new = (place := (path, *state[:2])) not in _looked_through
        if new:
            files.refuse_network(path)
        if _kept is None or _kept[1:] != (path, state):
            close()
        db, _kept = _connect(path) if _kept is None else _kept[0], None
        undone.callback(db.close)  # which undoes what was not committed
        if new:
            _share_journal(path)
            _look_through(db, path)
            _looked_through.add(place)
        db.execute(begin)
        book = Book(db, path)
        _recognised(book, key)
        yield book
        if db.in_transaction:
            db.execute("ROLLBACK")
        close()
        _kept = db, path, _file(path)
        undone.pop_all()


def close() -> None:
    """Close the connection that is kept."""
    global _kept
    if _kept is not None:
        _kept[0].close()
        _kept = None


@contextlib.contextmanager
def writing(path: str, key: str) -> Iterator[Book]:
    """One durable transaction; leaving it without an exception means it is on disk."""
    with reading(path, key, "BEGIN IMMEDIATE") as book:
        check_whole(book)
        yield book
        written, (key, _, witness_path) = book.head, book.header
        book.db.execute("COMMIT")
        before = mark(key)
        remember(key, written)
        if witness_path and written is not None and written != before:
            witness.note(witness_path, written)


@contextlib.contextmanager
def looking(path: str) -> Iterator[Book]:
    """One transaction that cannot write, of a ledger of this format.

    For reports: the file may lie where nobody may write, and nothing is remembered of it.
    """
    with locked(), explained(path):
        _file(path)
        with contextlib.closing(open_file(path, "ro")) as db:
            db.executescript("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF")
            db.execute("BEGIN")
            _check_format(db, path)
            yield Book(db, path)


def check_whole(book: Book) -> None:
    """What is looked at before each charge: tables, counts, the last entry, the witness."""
    book.check_schema()
    book.check_head()
    if book.header[2]:
        check_witness(book, book.header[2])


def check_witness(book: Book, path: str) -> None:
    """The file holds the newest entry that its witness file, or a copy of that, has noted."""
    book.check_held(witness.newest(path, book.header[0]))


def _recognised(book: Book, wanted: str) -> None:
    """The file is the ledger that was meant, in one place, and no older than what was seen."""
    key, path = book.header[0], book.path
    if wanted not in ("", key):
        raise BudgetError(
            f"{path!r} is not the ledger that this accountant was made for: the file was replaced. "
            "Restore the original; its charges are part of the guarantee."
        )
    elsewhere = _places.setdefault(key, path)
    if elsewhere != path and os.path.lexists(elsewhere):
        raise BudgetError(
            f"{path!r} is a copy of the ledger {elsewhere!r}, which this process uses already: a "
            "budget kept in two files would be spent twice. Remove one of them."
        )
    _places[key] = path
    book.check_held(mark(key))
    remember(key, book.head)


def _file(path: str) -> tuple:
    """Which file it is, its size and times; it must be there, under one name, without a `-wal`."""
    try:
        status = files.look(path)
    except FileNotFoundError:
        raise BudgetError(
            f"the ledger {path!r} does not exist (any more), and a missing ledger is never "
            "replaced by a fresh one. A ledger without a path ends with the process that made it; "
            "give PrivacyAccountant a path to keep it."
        ) from None
    except OSError as error:
        raise BudgetError(f"the ledger {path!r} cannot be reached: {error.strerror}.") from error
    if not stat.S_ISREG(status.st_mode):
        raise BudgetError(f"{path!r} is a folder or a device, not a ledger; give a file's path.")
    if status.st_size == 0:
        raise BudgetError(
            f"{path!r} is empty, so it is not a ledger (or no longer one). Restore it, or move it "
            "away to begin a new budget."
        )
    if os.path.lexists(path + "-wal"):
        raise BudgetError(
            f"{path + '-wal'!r} lies beside the ledger: another program changed how the file is "
            "written. Close it there. Nothing was released."
        )
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _connect(path: str) -> sqlite3.Connection:
    db = open_file(path)
    try:
        _check_format(db, path)
        # The journal stays and is overwritten.
        db.executescript(
            f"PRAGMA journal_mode = PERSIST; PRAGMA synchronous = {_synchronous(path)}; "
            "PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF"
        )
    except BaseException:
        db.close()
        raise
    return db


def _synchronous(path: str) -> str:
    """Each commit is synced, and so is its end mark.

    A ledger of this process alone need not outlive the machine: power that fails ends both.
    """
    return "OFF" if is_own(path) else "EXTRA"


def _check_format(db: sqlite3.Connection, path: str) -> None:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise BudgetError(f"{path!r} is an SQLite file, but not a privacy ledger.")
    if version != FORMAT:
        raise BudgetError(
            f"the ledger {path!r} has format {version}, this version of skriemdp reads "
            f"{FORMAT}; use the version that wrote it."
        )
    if db.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        raise BudgetError(f"{path!r} was changed by another program; restore the ledger.")


def _share_journal(path: str) -> None:
    """Whoever may read the ledger may see in its journal that no charge is unfinished."""
    with contextlib.suppress(OSError):  # there is none, or it belongs to somebody else
        os.chmod(f"{path}-journal", stat.S_IMODE(os.stat(path).st_mode))


def check_pages(db: sqlite3.Connection, path: str) -> None:
    """SQLite's own check of the file."""
    if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise BudgetError(_CORRUPT.format(path=path))


def _look_through(db: sqlite3.Connection, path: str) -> None:
    """What a process looks at when it first opens a file."""
    check_pages(db, path)
    db.execute("BEGIN")
    book = Book(db, path)
    book.check_schema()
    for place in book.datasets():
        book.check_entry(place, place.last)
        book.check_partitions(place)
    again = Replay(book, max(book.newest - FIRST_LOOK + 1, 1))
    for row in book.rows(again.start):
        again.take(row)
    again.finish(book)
    db.execute("COMMIT")


def open_file(path: str, mode: str = "rw") -> sqlite3.Connection:
    """An existing SQLite file, for reading and writing ("ro": reading), with nothing checked."""
    return sqlite3.connect(
        f"{Path(path).as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,  # used under the lock of this process
    )


def initialise(path: str, *header: str) -> None:
    """Make a file (mode 0600) with the tables of a new ledger."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with locked(), contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(
            f"PRAGMA synchronous = {_synchronous(path)}; PRAGMA fullfsync = ON; BEGIN IMMEDIATE; "
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; {SCHEMA}"
        )
        db.execute("INSERT INTO ledger VALUES (?, ?, ?)", header)
        db.execute("COMMIT")
    if is_own(path):  # nobody else has written to it yet
        _looked_through.add((path, *_file(path)[:2]))


_CORRUPT = (
    "the ledger {path!r} is damaged or is not a ledger. Restore it from a backup; starting afresh "
    "would forget what was spent."
)
_EXPLANATIONS = {
    sqlite3.SQLITE_BUSY: "the ledger {path!r} stayed locked for "
    f"{BUSY_SECONDS:.0f} s by another process; find the process that holds it.",
    sqlite3.SQLITE_FULL: "the disk of the ledger {path!r} is full; free some space.",
    sqlite3.SQLITE_READONLY: "the ledger {path!r} is read-only here; make the file and its folder "
    "writable.",
    sqlite3.SQLITE_CANTOPEN: "the ledger {path!r} cannot be opened for writing; check the "
    "permissions of the file and its folder.",
    sqlite3.SQLITE_CORRUPT: _CORRUPT,
    sqlite3.SQLITE_NOTADB: _CORRUPT,
    sqlite3.SQLITE_IOERR: "writing the ledger {path!r} failed (input/output error or file size "
    "limit); check its disk.",
}
# A charge was interrupted, and undoing it needs to write; or nobody can tell.
_UNFINISHED = (
    "the ledger {path!r} holds an unfinished charge and is read-only here; open it once where the "
    "file and its folder are writable."
)
_HIDDEN = (
    "the journal of the ledger {path!r} may not be read here, so whether a charge is unfinished "
    "cannot be seen; let its owner give {path}-journal the permissions of the ledger (chmod), or "
    "charge once, which does it."
)


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what went wrong into what happened and what to do; nothing is ever released after."""
    try:
        yield
    except BudgetError:
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None) or 0
        message = _EXPLANATIONS.get(code & 0xFF, "the ledger {path!r} cannot be used.")
        if code == sqlite3.SQLITE_READONLY_ROLLBACK:
            journal = f"{path}-journal"
            hidden = os.path.lexists(journal) and not os.access(journal, os.R_OK)
            message = _HIDDEN if hidden else _UNFINISHED
        raise BudgetError(
            f"{message.format(path=path)} Nothing was released. (SQLite: {error})"
        ) from error
    except Exception as error:
        what = f"cannot be read ({type(error).__name__}: {error})"
        if isinstance(error, Broken):
            what = f"does not add up: {error}. It was changed, or a part of it was lost"
        raise BudgetError(
            f"the ledger {path!r} {what}. Restore the newest good copy. Nothing was released."
        ) from error


# -- life of the process -------------------------------------------------------------------------

_folder: tuple[int, str] | None = None


def private_folder() -> str:
    """A folder of this process alone (mode 0700), removed when it ends."""
    global _folder
    with locked():
        if _folder is None or _folder[0] != os.getpid() or not os.path.isdir(_folder[1]):
            _folder = os.getpid(), tempfile.mkdtemp(prefix="skriemdp-")
            # Not atexit: it runs before child processes are joined, and never in children of
            # multiprocessing.  A finalizer of negative priority runs in both, after the joining.
            Finalize(None, _remove, exitpriority=-100)
            # Exit handlers do not run at SIGTERM.  Where the program has a handler of its own it
            # stays, and only the main thread may set one.
            with contextlib.suppress(ValueError):
                if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                    signal.signal(signal.SIGTERM, _terminated)
        return _folder[1]


def is_own(path: str) -> bool:
    """Whether a ledger lies in the folder that is removed with this process."""
    if _folder is None or _folder[0] != os.getpid():
        return False
    return os.path.dirname(path) == os.path.realpath(_folder[1])


def _remove() -> None:
    close()
    if _folder is not None and _folder[0] == os.getpid():
        shutil.rmtree(_folder[1], ignore_errors=True)


def _terminated(number: int, frame: Any) -> None:
    _remove()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _before_fork() -> None:
    _lock.acquire()
    close()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    # The folder is the parent's; a child that hangs in foreign code must still end at SIGTERM.
    with contextlib.suppress(ValueError):
        if signal.getsignal(signal.SIGTERM) is _terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _lock.release(),
        after_in_child=_after_fork_in_child,
    )
