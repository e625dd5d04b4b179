"""Connections to ledger files: one for each transaction, checked, and what goes wrong explained.

SQLite keeps the POSIX locks of a file per process: a connection (or even its bookkeeping) that
crosses fork() believes in locks that the child does not hold.  So a connection lives for one
transaction, under one lock of the process that is held across a fork.  For the same reason nothing
here opens the ledger with open(): closing that descriptor would drop the locks.
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
from typing import TYPE_CHECKING, Any, NamedTuple

from skriemdp.ledger import chain, files, witness
from skriemdp.ledger.errors import BudgetError

if TYPE_CHECKING:
    from sqlite3 import Connection


__all__ = ["BudgetError"]

APPLICATION_ID = 0x736B7264  # "skrd"; tells our files from other SQLite files
BUSY_SECONDS = 60.0
# So many of the last entries are added up again when a process first opens a ledger.
FIRST_LOOK = 10_000

_lock = threading.RLock()
# By the ledger's key: the newest entry that this process has seen, and where the file was.
_marks: dict[str, chain.Head] = {}
_places: dict[str, str] = {}
# Paths with device and number of the file.
_looked_through: set[tuple] = set()


class Session(NamedTuple):
    """A checked transaction on a ledger."""

    db: sqlite3.Connection
    header: tuple
    path: str

    @property
    def key(self) -> str:
        """The random name of the ledger."""
        return self.header[0]

    def place(self, dataset: str) -> chain.Dataset:
        """A data set, whose last entry is intact and left the totals found."""
        found = chain.dataset(self.db, dataset)
        if found is None:
            raise BudgetError(f"the ledger {self.path!r} has no data set {dataset!r}.")
        chain.check_dataset(self.db, self.header, found)
        return found

    def own(self, place: chain.Dataset, part: str) -> tuple[int, tuple]:
        """Number of charges and amounts of one partition; nothing of the whole data set."""
        if not part:
            return 0, ()
        return chain.check_partition(self.db, self.header, place, part)

    def check_held(self, seen: chain.Head | None) -> None:
        """The file still holds an entry that it held once."""
        if seen is None:
            return
        row = self.db.execute("SELECT digest FROM entries WHERE id = ?", seen[:1]).fetchone()
        if row is not None and row[0] == seen.digest:
            return
        newest = chain.newest(self.db)
        if newest < seen.entry:
            found = f"went back from entry {seen.entry} to {newest}"
        else:
            found = f"has another entry {seen.entry} than before"
        raise BudgetError(
            f"the ledger {self.path!r} {found}: this is an old backup, or a part of the file was "
            "lost. Restore the newest copy; what was charged since is part of the guarantee. "
            "Nothing was released."
        )

    def check_whole(self) -> None:
        """What is looked at before each charge: tables, counts, the last entry, the witness."""
        chain.check_schema(self.db)
        chain.check_head(self.db, self.header)
        if self.header[2]:
            self.check_held(witness.newest(self.header[2], self.key))


def mark(key: str) -> chain.Head | None:
    """The newest entry that this process has seen of a ledger."""
    return _marks.get(key)


def remember(key: str, head: chain.Head | None) -> None:
    """From now on, a file with this key that lacks this entry is refused."""
    if head is not None and (key not in _marks or _marks[key].entry < head.entry):
        _marks[key] = head


@contextlib.contextmanager
def reading(path: str, key: str | None) -> Iterator[Session]:
    """Several reads of one state of the ledger, checked to be no older than what was seen."""
    with _connected(path) as db:
        db.execute("BEGIN")
        yield _checked(db, path, key)


@contextlib.contextmanager
def writing(path: str, key: str | None) -> Iterator[Session]:
    """One durable transaction; leaving it without an exception means it is on disk."""
    with _connected(path) as db:
        db.execute("BEGIN IMMEDIATE")
        session = _checked(db, path, key)
        session.check_whole()
        yield session
        written = chain.last(db)
        db.execute("COMMIT")
        before = mark(session.key)
        remember(session.key, written)
        if session.header[2] and written is not None and written != before:
            witness.note(session.header[2], written)


@contextlib.contextmanager
def looking(path: str) -> Iterator[Connection]:
    """One transaction that cannot write, of a ledger of this format.

    For reports: the file may lie where nobody may write, and nothing is remembered of it.
    """
    with _lock, explained(path):
        _file(path)
        with contextlib.closing(open_file(path, "ro")) as db:
            db.execute("PRAGMA query_only = ON")
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("BEGIN")
            _check_format(db, path)
            yield db


def _checked(db: sqlite3.Connection, path: str, key: str | None) -> Session:
    session = Session(db, chain.header(db), path)
    if key is not None and key != session.key:
        raise BudgetError(
            f"{path!r} is not the ledger that this accountant was made for: the file was replaced. "
            "Restore the original; its charges are part of the guarantee."
        )
    elsewhere = _places.setdefault(session.key, path)
    if elsewhere != path and os.path.lexists(elsewhere):
        raise BudgetError(
            f"{path!r} is a copy of the ledger {elsewhere!r}, which this process uses already: a "
            "budget kept in two files would be spent twice. Remove one of them."
        )
    _places[session.key] = path
    session.check_held(mark(session.key))
    remember(session.key, chain.last(db))
    return session


@contextlib.contextmanager
def _connected(path: str) -> Iterator[Connection]:
    """A connection for one transaction; what was not committed when it is closed is undone."""
    with _lock, explained(path):
        place = path, *_file(path)
        if place not in _looked_through:
            files.refuse_network(path)
        with contextlib.closing(_connect(path)) as db:
            if place not in _looked_through:
                _share_journal(path)
                _look_through(db, path)
                _looked_through.add(place)
            yield db


def _file(path: str) -> tuple:
    """Device and number of the file, which must be there, under one name, without a `-wal`."""
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
    return status.st_dev, status.st_ino


def _connect(path: str) -> sqlite3.Connection:
    db = open_file(path)
    try:
        _check_format(db, path)
        # The journal stays and is overwritten; each commit is synced, and so is its end mark.  A
        # ledger of this process alone need not outlive the machine: power that fails ends both.
        db.execute("PRAGMA journal_mode = PERSIST")
        db.execute(f"PRAGMA synchronous = {'OFF' if _is_own(path) else 'EXTRA'}")
        db.execute("PRAGMA fullfsync = ON")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        db.close()
        raise
    return db


def _check_format(db: sqlite3.Connection, path: str) -> None:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise BudgetError(f"{path!r} is an SQLite file, but not a privacy ledger.")
    if version != chain.FORMAT:
        raise BudgetError(
            f"the ledger {path!r} has format {version}, this version of skriemdp reads "
            f"{chain.FORMAT}; use the version that wrote it."
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
    chain.check_schema(db)
    head = chain.header(db)
    chain.check_head(db, head)
    for place in chain.datasets(db):
        chain.check_dataset(db, head, place)
        chain.check_partition_count(db, place)
    start = max(chain.newest(db) - FIRST_LOOK + 1, 1)
    again = chain.Replay(head, start, chain.digest_before(db, start))
    again.places = {place.id: place for place in chain.datasets(db)}
    for row in chain.rows(db, start):
        again.take(row)
    again.finish(db)
    db.execute("COMMIT")


def open_file(path: str, mode: str = "rw") -> sqlite3.Connection:
    """An existing SQLite file, for reading and writing ("ro": reading), with nothing checked."""
    return sqlite3.connect(
        f"{Path(path).as_uri()}?mode={mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
    )


def initialise(path: str, key: str, created: str, witness: str) -> None:
    """Write the tables of a new ledger into an empty file."""
    with _lock, contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = EXTRA")
        db.execute("PRAGMA fullfsync = ON")
        db.executescript(
            f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; "
            f"PRAGMA user_version = {chain.FORMAT}; {chain.SCHEMA}"
        )
        db.execute("INSERT INTO ledger VALUES (?, ?, ?)", (key, created, witness))
        db.execute("COMMIT")


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
    except chain.Broken as error:
        raise BudgetError(
            f"the ledger {path!r} does not add up: {error}. It was changed, or a part of it was "
            "lost. Restore the newest good copy. Nothing was released."
        ) from error
    except Exception as error:
        raise BudgetError(
            f"the ledger {path!r} cannot be read ({type(error).__name__}: {error}). Restore the "
            "newest good copy. Nothing was released."
        ) from error


# -- life of the process -------------------------------------------------------------------------

_folder: tuple[int, str] | None = None


def private_folder() -> str:
    """A folder of this process alone (mode 0700), removed when it ends."""
    global _folder
    with _lock:
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


def _is_own(path: str) -> bool:
    """Whether a ledger lies in the folder that is removed with this process."""
    if _folder is None or _folder[0] != os.getpid():
        return False
    return os.path.dirname(path) == os.path.realpath(_folder[1])


def _remove() -> None:
    if _folder is not None and _folder[0] == os.getpid():
        shutil.rmtree(_folder[1], ignore_errors=True)


def _terminated(number: int, frame: Any) -> None:
    _remove()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _lock.acquire(),
        after_in_parent=lambda: _lock.release(),
        after_in_child=_after_fork_in_child,
    )
