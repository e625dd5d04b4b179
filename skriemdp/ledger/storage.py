"""A durable list of charges in one SQLite file; of filters it knows only how to add integers.

Every charge is one ``BEGIN IMMEDIATE`` transaction, synced to disk before it returns, so a charge
that was reported survives a crash and two processes never spend the same remainder.  Amounts are
tuples of integers in the unit of :mod:`skriemdp.ledger.filters`; None stands for "unbounded".
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import secrets
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from multiprocessing.util import Finalize
from pathlib import Path

__all__ = ["Amounts", "BudgetError", "Ledger", "Standing", "add", "highest"]

Amounts = tuple  # of int | None

APPLICATION_ID = 0x736B7264  # "skrd"; tells our files from other SQLite files
SCHEMA_VERSION = 1
BUSY_SECONDS = 60.0
OPEN_LEDGERS = 16
# Shared memory of a WAL does not exist between hosts, and locks on these are often pretended.
NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs ncpfs afs lustre ceph gpfs glusterfs beegfs orangefs pvfs2 ocfs2 "
    "gfs2 fuse.sshfs fuse.glusterfs fuse.ceph fuse.s3fs fuse.rclone fuse.gcsfuse fuse.goofys "
    "fuse.blobfuse fuse.blobfuse2 fuse.davfs davfs".split()
)

SCHEMA = """
CREATE TABLE ledger (key TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE datasets (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, filter TEXT NOT NULL,
    entries INTEGER NOT NULL, common_entries INTEGER NOT NULL,
    common TEXT NOT NULL, peak TEXT NOT NULL);
CREATE TABLE parts (
    dataset INTEGER NOT NULL REFERENCES datasets, name TEXT NOT NULL,
    entries INTEGER NOT NULL, amounts TEXT NOT NULL,
    PRIMARY KEY (dataset, name)) WITHOUT ROWID;
CREATE TABLE events (id INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, dataset INTEGER NOT NULL REFERENCES datasets,
    part TEXT NOT NULL, label TEXT NOT NULL, params TEXT NOT NULL,
    event INTEGER NOT NULL REFERENCES events, time TEXT NOT NULL);
"""


class BudgetError(RuntimeError):
    """The ledger cannot be used, so nothing was released; the message says why and what to do."""


def add(left: Amounts, right: Amounts) -> Amounts:
    """Sum of two amounts, entry by entry; None (unbounded) absorbs."""
    return tuple(
        None if a is None or b is None else a + b for a, b in zip(left, right, strict=True)
    )


def highest(left: Amounts, right: Amounts) -> Amounts:
    """Larger of two amounts, entry by entry; None (unbounded) is the largest."""
    return tuple(
        None if a is None or b is None else max(a, b) for a, b in zip(left, right, strict=True)
    )


class Standing:
    """Running totals as one charge sees them.

    Attributes
    ----------
    total : Amounts
        What the records concerned have been charged so far: everything charged to the whole data
        set plus, for a partition, what that partition was charged, or, for the whole data set,
        the largest amount of any partition.
    untouched : bool
        Whether none of the records concerned has been charged before.
    """

    __slots__ = ("total", "untouched")

    def __init__(self, total: Amounts, untouched: bool):
        self.total = total
        self.untouched = untouched


class Ledger:
    """A handle on a ledger file: its path and its key, nothing else.

    Opening never creates: use :meth:`create`.  `key` is a random name written into the file when
    it is made, so that a handle notices when another ledger lies at its path.
    """

    def __init__(self, path, key: str | None = None):
        self.path = os.path.realpath(path)
        self.key = key
        if key is None:
            with _link(self) as db:
                self.key = db.execute("SELECT key FROM ledger").fetchone()[0]

    @classmethod
    def create(cls, path) -> Ledger:
        """Make a new ledger file (mode 0600) that either exists completely or not at all."""
        path = os.path.realpath(path)
        _refuse_network(path)
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            raise BudgetError(f"the folder of the ledger {path!r} does not exist; create it first.")
        for suffix in ("-wal", "-shm", "-journal"):
            if os.path.exists(path + suffix) and not os.path.exists(path):
                raise BudgetError(
                    f"{path + suffix!r} exists but {path!r} does not: an earlier ledger lost its "
                    "main file. Restore it, or move the remains away to begin a new budget."
                )
        key = secrets.token_hex(16)
        draft = f"{path}.{key}"
        with _explained(path):
            try:
                os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                _initialise(draft, key)
                # A hard link appears in one step and fails if another process was first.
                os.link(draft, path)
            except FileExistsError:
                return cls(path)
            except OSError as error:
                raise BudgetError(
                    f"cannot create the ledger {path!r}: {error.strerror}."
                ) from error
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(draft)
            _sync_folder(folder)
        return cls(path, key)

    @classmethod
    def temporary(cls) -> Ledger:
        """Make a ledger in this process's private folder (mode 0700), removed when it exits."""
        return cls.create(os.path.join(_private_folder(), f"{secrets.token_hex(8)}.ledger"))

    @staticmethod
    def exists(path) -> bool:
        """Whether something lies at `path` (it need not be a ledger)."""
        return os.path.lexists(path)

    def open_dataset(self, name: str, settings: dict | None, zero: Amounts = ()) -> dict:
        """Settings of the data set's filter; the first call with `settings` fixes them for good."""
        with _link(self) as db:
            found = db.execute("SELECT filter FROM datasets WHERE name = ?", (name,)).fetchone()
            if found is None and settings is not None:
                text = json.dumps(settings, allow_nan=False)
                with _write(db):
                    db.execute(
                        "INSERT OR IGNORE INTO datasets VALUES (NULL, ?, ?, 0, 0, ?, ?)",
                        (name, text, json.dumps(zero), json.dumps(zero)),
                    )
                found = db.execute("SELECT filter FROM datasets WHERE name = ?", (name,)).fetchone()
        if found is None:
            raise BudgetError(f"the ledger {self.path!r} has no data set {name!r}.")
        return json.loads(found[0])

    def dataset_names(self) -> list[str]:
        """Names of the data sets, in the order of their creation."""
        with _link(self) as db:
            return [row[0] for row in db.execute("SELECT name FROM datasets ORDER BY id")]

    def standing(self, dataset: str, part: str = "") -> Standing:
        """Totals that a charge to `part` of `dataset` (``""``: all of it) would be added to."""
        with _link(self) as db, _read(db):
            return _standing(_dataset_row(db, self, dataset), _part_row(db, dataset, part), part)

    def charge(
        self,
        dataset: str,
        part: str,
        cost: Amounts,
        admits: Callable[[Standing], bool],
        *,
        event: str,
        label: str,
        params: str,
    ) -> tuple[int | None, str, Standing]:
        """Write one charge if `admits` agrees, else nothing.

        `admits` runs inside the write transaction: no other process can spend in between.

        Returns
        -------
        entry : int or None
            Number of the entry, None when refused.
        time : str
            When, ISO 8601, UTC.
        standing : Standing
            Totals before the charge.
        """
        time = _now()
        with _link(self) as db, _write(db):
            row = _dataset_row(db, self, dataset)
            part_row = _part_row(db, dataset, part)
            before = _standing(row, part_row, part)
            if not admits(before):
                return None, time, before
            identity, _, entries, common_entries, common, peak = row
            if part:
                amounts = add(_load(part_row[1]), cost)
                db.execute(
                    "INSERT INTO parts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                    "entries = excluded.entries, amounts = excluded.amounts",
                    (identity, part, part_row[0] + 1, json.dumps(amounts)),
                )
                peak = json.dumps(highest(_load(peak), amounts))
            else:
                common = json.dumps(add(_load(common), cost))
                common_entries += 1
            db.execute(
                "UPDATE datasets SET entries = ?, common_entries = ?, common = ?, peak = ? "
                "WHERE id = ?",
                (entries + 1, common_entries, common, peak, identity),
            )
            db.execute("INSERT OR IGNORE INTO events(json) VALUES (?)", (event,))
            entry = db.execute(
                "INSERT INTO entries(dataset, part, label, params, event, time) "
                "SELECT ?, ?, ?, ?, id, ? FROM events WHERE json = ?",
                (identity, part, label, params, time, event),
            ).lastrowid
        return entry, time, before

    def entries(self, dataset: str, part: str | None = None) -> list[tuple]:
        """Rows (id, time, part, label, params, event JSON) in the order of charging."""
        clause = "" if part is None else " AND part IN ('', ?)"
        values = (dataset,) if part is None else (dataset, part)
        with _link(self) as db:
            return db.execute(
                "SELECT e.id, e.time, e.part, e.label, e.params, v.json FROM entries e "
                "JOIN datasets d ON d.id = e.dataset JOIN events v ON v.id = e.event "
                f"WHERE d.name = ?{clause} ORDER BY e.id",
                values,
            ).fetchall()

    def tallies(self, dataset: str) -> list[tuple]:
        """Rows (part, label, event JSON, count): the entries, grouped."""
        with _link(self) as db:
            return db.execute(
                "SELECT e.part, e.label, v.json, COUNT(*) FROM entries e "
                "JOIN datasets d ON d.id = e.dataset JOIN events v ON v.id = e.event "
                "WHERE d.name = ? GROUP BY e.part, e.label, e.event ORDER BY MIN(e.id)",
                (dataset,),
            ).fetchall()

    def count(self, dataset: str) -> int:
        """Number of entries of the data set."""
        with _link(self) as db:
            return _dataset_row(db, self, dataset)[2]


def _load(text: str) -> Amounts:
    return tuple(json.loads(text))


def _dataset_row(db, ledger: Ledger, dataset: str) -> tuple:
    row = db.execute(
        "SELECT id, name, entries, common_entries, common, peak FROM datasets WHERE name = ?",
        (dataset,),
    ).fetchone()
    if row is None:
        raise BudgetError(f"the ledger {ledger.path!r} has no data set {dataset!r}.")
    return row


def _part_row(db, dataset: str, part: str) -> tuple:
    if not part:
        return 0, "[]"
    row = db.execute(
        "SELECT p.entries, p.amounts FROM parts p JOIN datasets d ON d.id = p.dataset "
        "WHERE d.name = ? AND p.name = ?",
        (dataset, part),
    ).fetchone()
    if row is not None:
        return row
    (common,) = db.execute("SELECT common FROM datasets WHERE name = ?", (dataset,)).fetchone()
    return 0, json.dumps([0] * len(_load(common)))


def _standing(row: tuple, part_row: tuple, part: str) -> Standing:
    _, _, entries, common_entries, common, peak = row
    if part:
        total = add(_load(common), _load(part_row[1]))
        return Standing(total, common_entries + part_row[0] == 0)
    return Standing(add(_load(common), _load(peak)), entries == 0)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


# -- connections ---------------------------------------------------------------------------------
# One connection per process and file, used under a lock.  SQLite keeps the POSIX locks of a file
# per process: a connection (or even its bookkeeping) that crosses fork() believes in locks that the
# child does not hold, and the last writer may then delete a log that a sibling still appends to.
# So all connections are closed before a fork and reopened on demand on both sides.  For the same
# reason nothing here opens the ledger with open(): closing that descriptor would drop the locks.


class _Link:
    def __init__(self):
        self.lock = threading.RLock()
        self.db: sqlite3.Connection | None = None
        self.inode: tuple | None = None
        self.key: str | None = None

    def close(self) -> None:
        if self.db is not None:
            with contextlib.suppress(sqlite3.Error):
                self.db.close()
            self.db = None


_links: dict[str, _Link] = {}
_links_lock = threading.RLock()


@contextlib.contextmanager
def _link(ledger: Ledger):
    """Lend the process's connection to the ledger, checked to be the file the handle means."""
    with _links_lock:
        link = _links.pop(ledger.path, None) or _Link()
        _links[ledger.path] = link  # last used, last in line
        _close_idle(link)
    with link.lock, _explained(ledger.path):
        inode = _inode(ledger.path)
        if link.db is not None and link.inode != inode:
            link.close()
        if link.db is None:
            link.db, link.key = _connect(ledger.path)
            _leave_at_exit()
            link.inode = inode
        if ledger.key is not None and ledger.key != link.key:
            raise BudgetError(
                f"{ledger.path!r} is not the ledger that this accountant was made for: the file "
                "was replaced. Restore the original; its charges are part of the guarantee."
            )
        try:
            yield link.db
        except sqlite3.Error:
            link.close()
            raise


def _close_idle(used: _Link) -> None:
    """Keep file descriptors for few ledgers; a program may make thousands."""
    opened = [link for link in _links.values() if link.db is not None and link is not used]
    for link in opened[: max(len(opened) - OPEN_LEDGERS + 1, 0)]:
        if link.lock.acquire(blocking=False):
            link.close()
            link.lock.release()


def _inode(path: str) -> tuple:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise BudgetError(
            f"the ledger {path!r} does not exist (any more), and a missing ledger is never "
            "replaced by a fresh one. A ledger without a path ends with the process that made it; "
            "give PrivacyAccountant a path to keep it."
        ) from None
    except OSError as error:
        raise BudgetError(f"the ledger {path!r} cannot be reached: {error.strerror}.") from error
    if status.st_size == 0:
        raise BudgetError(
            f"{path!r} is empty, so it is not a ledger (or no longer one). Restore it, or move it "
            "away to begin a new budget."
        )
    return status.st_dev, status.st_ino


def _connect(path: str) -> tuple[sqlite3.Connection, str]:
    _refuse_network(path)
    db = sqlite3.connect(
        f"{Path(path).as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        application = db.execute("PRAGMA application_id").fetchone()[0]
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION_ID:
            raise BudgetError(f"{path!r} is an SQLite file, but not a privacy ledger.")
        if version != SCHEMA_VERSION:
            raise BudgetError(
                f"the ledger {path!r} has format {version}, this version of skriemdp reads "
                f"{SCHEMA_VERSION}; use the version that wrote it."
            )
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA trusted_schema = OFF")
        if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            raise BudgetError(f"{path!r} was changed by another program; restore the ledger.")
        if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise BudgetError(_CORRUPT.format(path=path))
        (key,) = db.execute("SELECT key FROM ledger").fetchone()
    except BaseException:
        db.close()
        raise
    return db, key


def _initialise(path: str, key: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA synchronous = FULL")
        db.executescript(
            f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; "
            f"PRAGMA user_version = {SCHEMA_VERSION}; {SCHEMA} COMMIT;"
        )
        db.execute("INSERT INTO ledger VALUES (?, ?)", (key, _now()))
        if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise BudgetError(
                f"the file system of {path!r} cannot hold a write-ahead log; use a local disk."
            )
    finally:
        db.close()


@contextlib.contextmanager
def _write(db: sqlite3.Connection):
    """One durable transaction; leaving it without an exception means it is on disk."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def _read(db: sqlite3.Connection):
    """Several reads of one state."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        if db.in_transaction:
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


@contextlib.contextmanager
def _explained(path: str):
    """Turn what SQLite says into what happened and what to do; nothing is ever released after."""
    try:
        yield
    except sqlite3.Error as error:
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        message = _EXPLANATIONS.get(code, "the ledger {path!r} cannot be used.")
        raise BudgetError(
            f"{message.format(path=path)} Nothing was released. (SQLite: {error})"
        ) from error


def _refuse_network(path: str) -> None:
    kind = file_system(path)
    if kind in NETWORK_FILE_SYSTEMS:
        raise BudgetError(
            f"{path!r} lies on a network file system ({kind}), where concurrent charges can be "
            "lost; put the ledger on a local disk (for ledgers without a path: set TMPDIR)."
        )


def file_system(path: str, mounts: str | None = None) -> str:
    """Type of the file system of `path` as the kernel names it; ``""`` where it does not say."""
    if os.path.splitdrive(path)[0].startswith("\\\\"):
        return "smbfs"
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        place = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = path == place or path.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):
            best, kind = place, fields[2]
    return kind


def _sync_folder(folder: str) -> None:
    with contextlib.suppress(OSError):  # not every platform can open a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# -- life of the process -------------------------------------------------------------------------

_folder: tuple[int, str] | None = None
_leaver: int | None = None


def _private_folder() -> str:
    global _folder
    with _links_lock:
        if _folder is None or _folder[0] != os.getpid() or not os.path.isdir(_folder[1]):
            _folder = os.getpid(), tempfile.mkdtemp(prefix="skriemdp-")
            _leave_at_exit()
        return _folder[1]


def _leave_at_exit() -> None:
    # Not atexit: it runs before child processes are joined, and never in children of
    # multiprocessing.  A finalizer of negative priority runs in both, after the joining.
    global _leaver
    if _leaver != os.getpid():
        _leaver = os.getpid()
        Finalize(None, _leave, exitpriority=-100)


def _leave() -> None:
    with _links_lock:
        for link in _links.values():
            link.close()
        if _folder is not None and _folder[0] == os.getpid():
            shutil.rmtree(_folder[1], ignore_errors=True)


def _before_fork() -> None:
    _links_lock.acquire()
    for link in _links.values():
        link.lock.acquire()
        link.close()


def _after_fork_in_parent() -> None:
    for link in _links.values():
        link.lock.release()
    _links_lock.release()


def _after_fork_in_child() -> None:
    global _links_lock
    _links.clear()
    _links_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
