"""A ledger file: a handle for whoever charges it, and a reader from end to end that writes nothing.

Every charge is one ``BEGIN IMMEDIATE`` transaction, synced to disk before it returns, so a charge
that was reported survives a crash and two processes never spend the same remainder.

SQLite keeps the POSIX locks of a file per process: a connection (or even its bookkeeping) that
crosses fork() believes in locks that the child does not hold.  So there is one lock of the process,
held during each transaction and across a fork, and the last connection is kept for the next
transaction only while nobody else touches its file, and closed before a fork.  For the same reason
nothing here opens the ledger with open(): closing that descriptor would drop the locks.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.util import Finalize
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from skriemdp._errors import PublicValueError
from skriemdp._process import Alone, this_process
from skriemdp.ledger import _chain as chain
from skriemdp.ledger import _files as files
from skriemdp.ledger._chain import Amounts, Book, Broken, Dataset, Entry, Head
from skriemdp.ledger._errors import BudgetError
from skriemdp.ledger._statements import plain_facts
from skriemdp.ledger._units import PRESENT, RELEASED

APPLICATION_ID = 0x736B7264  # "skrd"; tells our files from other SQLite files
BUSY_SECONDS = 60.0
# Number of last entries that are verified when a process first opens a ledger.
FIRST_LOOK = 10_000
PAGE = 10_000  # entries read in one transaction, so that readers never hold up writers for long

# Of this process, for ledgers and open blocks.
LOCK = threading.RLock()
_TRANSACTION = Alone(
    BudgetError(
        "a ledger was asked for something while this thread was in the middle of a charge: in a "
        "signal handler, a finalizer or a trace. Let the handler set a flag, and fit when the "
        "interrupted fit has ended. Nothing was released."
    )
)
# By the ledger's key: the newest entry that this process has seen, and where the file was.
_marks: dict[str, Head] = {}
_places: dict[str, str] = {}
# Paths with device and number of the file.
_looked_through: set[tuple] = set()
# The last connection, and its file as the last transaction left it.
_kept: tuple[Book, tuple] | None = None


class Ledger:
    """A handle on a ledger file: its path and its key, nothing else.

    Opening never creates: use :meth:`create`.  `key` is a random name written into the file when
    it is made, so that a handle notices when another ledger lies at its path.
    """

    def __init__(self, path: str | Path, key: str = ""):
        self.path, self.key = _real(path), key
        if not key:
            with self.reading() as book:
                self.key = book.header[0]

    @classmethod
    def create(cls, path: Path | str, first: tuple, witness_path: Path | None = None) -> Ledger:
        """Make a new ledger file (mode 0600) that either exists completely or not at all.

        `first` are name, filter, zero cost and unit of its first data set.
        """
        path = _real(path)
        files.refuse_elsewhere(path)
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            raise BudgetError(f"the folder of the ledger {path!r} does not exist; create it first.")
        for suffix in ("-wal", "-shm", "-journal"):
            if os.path.lexists(path + suffix) and not os.path.lexists(path):
                raise BudgetError(
                    f"{path + suffix!r} exists but {path!r} does not: an earlier ledger lost its "
                    "main file. Restore it, or move the remains away to begin a new budget."
                )
        key = secrets.token_hex(16)
        draft = f"{path}.{key}"
        seen_by = "" if witness_path is None else _real(witness_path)
        with LOCK, explained(path):
            if seen_by:
                files.begin_witness(seen_by, key)
            try:
                book = _made(draft, "DELETE", key, seen_by, first)
                book.db.close()
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
            files.sync_folder(folder)
            if seen_by:
                files.note_witness(seen_by, book.head)
        return cls(path, key)

    @classmethod
    def temporary(cls, first: tuple) -> Ledger:
        """Make a ledger in this process's private folder (mode 0700), removed when it exits."""
        key = secrets.token_hex(16)
        with LOCK, _TRANSACTION, explained(path := os.path.join(private_folder(), f"{key}.ledger")):
            _keep(_made(path, "PERSIST", key, "", first))
        return cls(path, key)

    @contextlib.contextmanager
    def reading(self, begin: str = "BEGIN") -> Iterator[Book]:
        """One state of the file, as of one moment, checked to be no older than what was seen."""
        global _kept
        with LOCK, _TRANSACTION, explained(self.path), contextlib.ExitStack() as undone:
            state = _file(self.path)
            if _kept is not None and _kept[1] == state:
                book, _kept = _kept[0], None
            else:
                close()
                book = Book(_connect(self.path), self.path)
            undone.callback(book.db.close)  # which undoes what was not committed
            book.db.execute(begin)
            if book.look():
                _recognise(book, state)
            (key, _, witness_path), before = book.header, book.head
            if self.key not in ("", key):
                raise BudgetError(
                    f"{self.path!r} is not the ledger that this accountant was made for: the file "
                    "was replaced. Restore the original; its charges are part of the guarantee."
                )
            if witness_path and begin != "BEGIN":
                _check_noted(book, witness_path)
            yield book
            book.db.execute("COMMIT")
            _keep(book)
            undone.pop_all()
            if witness_path and book.head != before:
                files.note_witness(witness_path, book.head)

    def writing(self) -> contextlib.AbstractContextManager[Book]:
        """One durable transaction; leaving it without an exception means it is on disk."""
        return self.reading("BEGIN IMMEDIATE")

    def open_dataset(self, name: str, *rule: Any) -> Dataset:
        """A data set; the first call with a filter, its zero and a unit fixes them."""
        with self.reading() as book:
            if not rule or book.datasets(name):
                return book.place(name)
        with self.writing() as book:
            if not book.datasets(name):
                book.add_dataset(name, *rule)
            return book.place(name)

    @property
    def seen(self) -> Head | None:
        """The newest entry that this process has seen."""
        return _marks.get(self.key)

    def remember(self, head: Head | None) -> None:
        """Remember an entry: a file with this key that lacks it is refused from now on."""
        with LOCK:
            if head is not None and (self.seen is None or self.seen.entry < head.entry):
                _marks[self.key] = head
                close()  # what is looked at next is held against it

    def datasets(self) -> list[Dataset]:
        """All data sets and their parts, in the order of their creation."""
        with self.reading() as book:
            return book.datasets()

    def divide(
        self, dataset: str, division: dict, parts: list[tuple[str, dict, Amounts]]
    ) -> list[str]:
        """Split a data set without charges into parts, and close it; the same call again is fine.

        Parameters
        ----------
        dataset : str
        division : dict
            How, in plain data; a second call must give the same.
        parts : list of (name, settings, zero)
            Name, filter and zero cost of each part, as for :meth:`open_dataset`.  The parts take
            over the unit.

        Returns
        -------
        names : list of str
        """
        text = chain.canonical(division)
        with self.writing() as book:
            place = book.place(dataset)
            if place.division not in ("", text):
                raise BudgetError(
                    f"data set {dataset!r} of the ledger {self.path!r} was divided in another way "
                    f"before: {place.division}. Repeat that division."
                )
            if place.charges:
                raise BudgetError(
                    f"data set {dataset!r} of the ledger {self.path!r} has charges already; "
                    "divide a data set before its first charge."
                )
            if not place.division:
                for part in parts:
                    if book.datasets(part[0]):
                        raise BudgetError(
                            f"the ledger {self.path!r} has a data set {part[0]!r}, which is what a "
                            "part would be called; divide a data set of another name."
                        )
                    book.add_dataset(*part, place.made.unit, dataset)
                book.append(place, chain.SPLIT, note=text)
        return [name for name, *_ in parts]

    def entries(self, dataset: str, part: str = "", *, after: int = 0) -> Iterator[Entry]:
        """The charges with a number above `after`, in the order of charging.

        Of a partition: its own and the common ones.  Read in short transactions, so that a long
        list neither fills the memory nor keeps others from charging.
        """
        while True:
            with self.reading() as book:
                page = list(book.rows(after + 1, PAGE, book.place(dataset), part))
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].id

    def check_witness(self, path: str | Path) -> None:
        """BudgetError unless the ledger was made with this witness file."""
        with self.reading() as book:
            stored = book.header[2]
        if _real(path) != stored:
            made = f"the witness file {stored!r}" if stored else "no witness file"
            raise BudgetError(
                f"the ledger {self.path!r} was made with {made}, and that is fixed. Leave witness= "
                "out, or repeat it."
            )

    def verify(self, head: str | None = None) -> None:
        """Add up the whole file again; `head` is an entry that it must hold."""
        noted = None if head is None else Head.noted(head)
        with self.reading() as book:
            if book.header[2]:
                _check_noted(book, book.header[2])
            book.check_contains(noted)
        if problems := read(self.path).problems:
            raise BudgetError(
                f"the ledger {self.path!r}: {problems[0]}. It was changed, or a part of it was "
                "lost. Restore the newest good copy."
            )


# -- connections ---------------------------------------------------------------------------------


def _keep(book: Book) -> None:
    """Keep a connection for the next transaction, and what was seen with it."""
    global _kept
    close()
    _marks[book.header[0]], _places[book.header[0]] = book.head, book.path
    _kept = book, _file(book.path)
    _looked_through.add(_kept[1][:3])


def close() -> None:
    """Close the connection that is kept."""
    global _kept
    kept, _kept = _kept, None  # nobody finds a closed one
    if kept is not None:
        kept[0].db.close()


@contextlib.contextmanager
def looking(path: str) -> Iterator[Book]:
    """One transaction that cannot write, of a ledger of this format.

    For reports: the file may lie where nobody may write, and nothing is remembered of it.
    """
    with LOCK, _TRANSACTION, explained(path):
        _file(path)
        with contextlib.closing(open_file(path, "ro")) as db:
            db.executescript("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF")
            db.execute("BEGIN")
            _check_format(db, path)
            book = Book(db, path)
            book.look()
            yield book


def _check_noted(book: Book, path: str) -> None:
    """The file holds the newest entry that its witness file, or a copy of that, has noted."""
    book.check_contains(files.newest_of_witness(path, book.header[0]))


def _recognise(book: Book, state: tuple) -> None:
    """Check a file that somebody else may have written: it is intact, and in one place.

    If this process has not opened the file before, the last entries are added up again.
    """
    path, new = book.path, state[:3] not in _looked_through
    if new:
        files.refuse_elsewhere(path)
        with contextlib.suppress(OSError):  # there is none, or it belongs to somebody else
            # Whoever may read the ledger may see in its journal that no charge is unfinished.
            os.chmod(f"{path}-journal", stat.S_IMODE(os.stat(path).st_mode))
        check_pages(book)
    book.check(FIRST_LOOK if new else 1)
    for place in book.datasets() if new else ():
        book.check_entry(place, place.last)
        book.check_partitions(place)
    key = book.header[0]
    book.check_contains(_marks.get(key))
    _marks[key] = book.head
    elsewhere = _places.get(key, path)
    if elsewhere != path and os.path.lexists(elsewhere):
        raise BudgetError(
            f"{path!r} is a copy of the ledger {elsewhere!r}, which this process uses already: a "
            "budget kept in two files would be spent twice. Remove one of them."
        )


_STATE = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")


def _file(path: str) -> tuple:
    """Return identity, size and times of the file; it must have one name and no `-wal`."""
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
    return path, *_STATE(status)


def _connect(path: str) -> sqlite3.Connection:
    with contextlib.ExitStack() as undone:
        db = undone.enter_context(contextlib.closing(open_file(path)))
        _check_format(db, path)
        db.executescript(_settings(path))
        undone.pop_all()
    return db


def _settings(path: str, journal: str = "PERSIST") -> str:
    """The journal stays and is overwritten; each commit is synced, and so is its end mark.

    A ledger of this process alone need not outlive the machine: power that fails ends both.
    """
    level = "OFF" if is_own(path) else "EXTRA"
    return (
        f"PRAGMA journal_mode = {journal}; PRAGMA synchronous = {level}; PRAGMA fullfsync = ON; "
        "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;"
    )


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


def check_pages(book: Book) -> None:
    """SQLite's own check of the file."""
    if book.db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise BudgetError(_CORRUPT.format(f"the ledger {book.path!r}"))


# Used under the lock of this process.
_OPEN: Any = {"uri": True, "isolation_level": None, "check_same_thread": False}


def open_file(path: str, mode: str = "rw") -> sqlite3.Connection:
    """An existing SQLite file, for reading and writing ("ro": reading), with nothing checked."""
    return sqlite3.connect(f"{Path(path).as_uri()}?mode={mode}", timeout=BUSY_SECONDS, **_OPEN)


def _made(path: str, journal: str, key: str, witness_path: str, first: tuple) -> Book:
    """A file (mode 0600) with the tables and the first data set of a new ledger."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with contextlib.ExitStack() as undone:
        db = undone.enter_context(contextlib.closing(open_file(path)))
        db.executescript(
            f"{_settings(path, journal)} BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID};"
            f"PRAGMA user_version = {chain.FORMAT}; {chain.SCHEMA}"
        )
        db.execute("INSERT INTO ledger VALUES (?, ?, ?)", (key, chain.now(), witness_path))
        book = Book(db, path)
        book.look()
        book.add_dataset(*first)
        db.execute("COMMIT")
        undone.pop_all()
    return book


_CORRUPT = (
    "{} is damaged or is not a ledger. Restore it from a backup; starting afresh would forget what "
    "was spent."
)
_EXPLANATIONS = {
    sqlite3.SQLITE_BUSY: f"{{}} stayed locked for {BUSY_SECONDS:.0f} s by another process; find "
    "the process that holds it.",
    sqlite3.SQLITE_FULL: "the disk of {} is full; free some space.",
    sqlite3.SQLITE_READONLY: "{} is read-only here; make the file and its folder writable.",
    sqlite3.SQLITE_CANTOPEN: "{} cannot be opened for writing; check the permissions of the file "
    "and its folder.",
    sqlite3.SQLITE_CORRUPT: _CORRUPT,
    sqlite3.SQLITE_NOTADB: _CORRUPT,
    sqlite3.SQLITE_IOERR: "writing {} failed (input/output error or file size limit); check its "
    "disk.",
}
# A charge was interrupted, and undoing it needs to write; or nobody can tell.
_UNFINISHED = (
    "{} holds an unfinished charge and is read-only here; open it once where the file and its "
    "folder are writable."
)
_HIDDEN = (
    "the journal of {} may not be read here, so whether a charge is unfinished cannot be seen; let "
    "its owner give it the permissions of the ledger (chmod), or charge once, which does it."
)


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what went wrong into what happened and what to do; nothing is ever released after."""
    try:
        yield
    except BudgetError:
        raise
    except Exception as error:
        named, end = f"the ledger {path!r}", "Restore the newest good copy. Nothing was released."
        if isinstance(error, sqlite3.Error):
            code, journal = getattr(error, "sqlite_errorcode", None) or 0, f"{path}-journal"
            said = _EXPLANATIONS.get(code & 0xFF, "{} cannot be used.")
            if code == sqlite3.SQLITE_READONLY_ROLLBACK:
                hidden = os.path.lexists(journal) and not os.access(journal, os.R_OK)
                said = _HIDDEN if hidden else _UNFINISHED
            said, end = said.format(named), f"Nothing was released. (SQLite: {error})"
        elif isinstance(error, Broken):
            said = f"{named} does not add up: {error}. It was changed, or a part of it was lost."
        else:
            said = f"{named} cannot be read ({type(error).__name__}: {error})."
        raise BudgetError(f"{said} {end}") from error


_folder: tuple[tuple[int, int], str] | None = None


def private_folder() -> str:
    """A folder of this process alone (mode 0700), removed when it ends."""
    global _folder
    if _folder is None or _folder[0] != this_process() or not os.path.isdir(_folder[1]):
        files.refuse_elsewhere(os.path.realpath(tempfile.gettempdir()))
        _folder = this_process(), os.path.realpath(tempfile.mkdtemp(prefix="skriemdp-"))
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
    return _folder == (this_process(), os.path.dirname(path))


def _remove() -> None:
    close()
    if _folder is not None and _folder[0] == this_process():
        shutil.rmtree(_folder[1], ignore_errors=True)


def _terminated(number: int, frame: Any) -> None:
    _remove()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTERM)


def _before_fork() -> None:
    LOCK.acquire()
    close()


def _after_fork_in_child() -> None:
    LOCK.release()  # by the thread that took it, the only one here
    # The folder is the parent's; a child that hangs in foreign code must still end at SIGTERM.
    with contextlib.suppress(ValueError):
        if signal.getsignal(signal.SIGTERM) is _terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=LOCK.release, after_in_child=_after_fork_in_child
    )


def _real(path: str | Path) -> str:
    with explained(os.fsdecode(path)):
        return os.path.realpath(os.fsdecode(path))


# -- reading without writing -----------------------------------------------------------------------


class File(NamedTuple):
    """The contents of a ledger file, and its faults.

    Attributes
    ----------
    created : str
        When it was made.
    datasets : list of Dataset
        In the order of their creation, parts included.
    head : Head or None
        The last entry.
    problems : list of str
        Sentences on what does not add up; empty for an intact file.
    """

    created: str
    datasets: list[Dataset]
    head: Head | None
    problems: list[str]


def read(
    path: str,
    take: Callable[[Entry, Dataset], None] = lambda row, place: None,
    noted: Head | None = None,
    witness_path: str = "",
) -> File:
    """Read all entries, in short transactions, adding them up again.

    Parameters
    ----------
    path : str or path-like
    take : callable
        Gets every entry with its data set, in order, also after a problem was found.
    noted : Head, optional
        An entry that the file must hold; number 0 stands for any.
    witness_path : str
        A witness file of this ledger, or a copy, whose newest entry the file must hold.

    Returns
    -------
    File

    Raises
    ------
    BudgetError
        The file is missing, no ledger, of another format, or damaged so that it cannot be read.
    """
    path = _real(path)
    problems: list[str] = []
    again: chain.Replay | None = None
    header, number = None, 1
    while True:
        with looking(path) as book:
            if header is None:
                check_pages(book)
                header, again = book.header, chain.Replay(book)
                _note(problems, book.check_schema)
            elif header != book.header:
                raise BudgetError(f"{path!r} was replaced while it was read; try again.")
            places = {place.id: place for place in book.datasets()}
            found = list(book.rows(number, PAGE))
            for row in found:
                if again is not None and not _note(problems, again.take, row):
                    again = None
                if row.dataset in places:
                    take(row, places[row.dataset])
                number = row.id + 1
            if len(found) < PAGE:
                if again is not None:
                    _note(problems, again.finish, book)
                if witness_path:
                    _note(problems, _check_noted, book, witness_path)
                _note(problems, book.check_contains, noted)
                head = book.head if book.head.entry else None
                break
    return File(header[1], list(places.values()), head, problems)


def matches(path: str, statement: Mapping[str, Any]) -> list[str]:
    """Whether a model is the one that a ledger charged: what speaks against it; nothing if it is.

    Parameters
    ----------
    path : str or path-like
        The ledger.  Whether its chain holds is what :func:`read` says.
    statement : dict
        ``model.privacy_spent_.to_dict()``, also after JSON; or its ``"entry"`` alone, whose digest
        covers the rest.

    Returns
    -------
    list of str
        Sentences; empty where entry, digest, data set, event, unit and public facts are equal.

    Raises
    ------
    BudgetError
        The ledger cannot be read.
    ValueError
        The statement is none, or names no entry.
    """
    try:
        named = statement["entry"]
        number, digest, dataset = (None, "", "") if named is None else named
        stated = {"data set": dataset}
        if len(statement) > 1:
            event, unit, public = statement["event"], statement["unit"], statement["public"]
            event = json.loads(json.dumps(event))
            if unit == PRESENT:  # some were released after the charge
                public = {name: value for name, value in public.items() if name not in RELEASED}
            stated |= {"event": event, "unit": unit, "public facts": plain_facts(public)}
    except (LookupError, TypeError, ValueError, AttributeError):
        raise PublicValueError(
            "this is not the statement of a fit; write one with json.dump("
            "model.privacy_spent_.to_dict(), file)."
        ) from None
    if not isinstance(number, int):
        raise PublicValueError("the statement names no entry: its fit was charged to no ledger.")
    with looking(_real(path)) as book:
        row = next(book.rows(number, 1), None)
        places = {place.id: place.name for place in book.datasets()}
    if row is None or row.id != number:
        return [f"the ledger has no entry {number}"]
    if row.digest != digest:
        return [f"entry {number} of the ledger is another charge: its digest is {row.digest}"]
    charged = {
        "data set": places.get(row.dataset),
        "event": json.loads(row.event or "null"),
        "unit": row.unit,
        "public facts": row.noted["facts"],
    }
    return [
        f"the {what} of entry {number} is not that of the model"
        for what, value in stated.items()
        if charged[what] != value
    ]


def _note(problems: list[str], check: Callable[..., object], *values: object) -> bool:
    """Whether a check passes; what it says otherwise joins the problems."""
    try:
        check(*values)
    except (Broken, BudgetError) as error:
        strange = isinstance(error, Broken)
        problems.append(f"the file does not add up: {error}" if strange else str(error))
        return False
    return True
