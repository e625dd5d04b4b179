"""The two messages of a secure sum, attend and add, and a client's durable memory of them.

A client first says that it takes part, with a key that is made for this attempt and signed by its
identity.  When it is shown the list of all who do, it draws its share of the noise, masks its sum
with keys that depend on the list, and forgets them (docs/theory/federated.md, Theorem 5).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from skriemdp._errors import PublicRuntimeError, PublicTypeError, PublicValueError
from skriemdp._validation import check_instance
from skriemdp.federated._agent import AnswerBook
from skriemdp.federated._agreement import MOST_TOTAL, Agreement
from skriemdp.federated._cohort import MOST_CLIENTS, Cohort, Identity, check_name
from skriemdp.federated._masks import (
    KEY_BYTES,
    check_key,
    digest,
    mask,
    number,
    packed,
    pair_keys,
    public_key,
    unpacked,
    whole,
)
from skriemdp.federated._messages import check_release_name, check_round
from skriemdp.ledger._errors import BudgetError

if TYPE_CHECKING:
    from sqlite3 import Connection

# An unanswered attendance becomes void after this many seconds, or when this many newer ones exist.
_OPEN_SECONDS, _MOST_OPEN = 86_400, 256


@dataclass(frozen=True)
class Attempt:
    """Identifier of one attempt of a secure sum.

    Attributes
    ----------
    fit_id : str
    round, attempt : int
        From 0 on.
    """

    fit_id: str
    round: int
    attempt: int

    def check(self, agreement: Agreement) -> None:
        """ValueError or TypeError unless the plan has such an attempt."""
        check_release_name(self.fit_id)
        check_round(self.round)
        if type(self.attempt) is not int:
            raise PublicTypeError(
                f"attempt must be a plain int, got {type(self.attempt).__name__}."
            )
        if not (self.round < agreement.rounds and 0 <= self.attempt < agreement.attempts):
            raise PublicValueError(
                f"the plan has {agreement.rounds} rounds of at most {agreement.attempts} attempts."
            )

    def of(self, name: str) -> tuple[str, str, int, int]:
        """Place in a client's book."""
        return name, self.fit_id, self.round, self.attempt

    def digest(self, cohort: Cohort, agreement: Agreement) -> bytes:
        """Digest of what is asked: of whom, with which settings, in which attempt."""
        attempt = self.fit_id.encode(), number(self.round), number(self.attempt)
        return digest("release", cohort.digest, agreement.digest, *attempt)


class Attendance(NamedTuple):
    """A client's word that it takes part in one attempt.

    Attributes
    ----------
    name : str
    key : bytes
        Public key of this attempt.
    size : int
        Number of its records, or people; public.
    signature : bytes
    marks : bytes
        For the server alone, to name what is set otherwise at this client.
    """

    name: str
    key: bytes
    size: int
    signature: bytes
    marks: bytes = b""

    def message(self, release: bytes) -> bytes:
        """Message that is signed."""
        return digest("attendance", release, self.name.encode(), self.key, number(self.size))

    def pack(self) -> bytes:
        """Write it as bytes."""
        return packed(self.name.encode(), self.key, number(self.size), self.signature, self.marks)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Read it from bytes; ValueError where they are something else."""
        name, key, size, signature, marks = unpacked(data)
        return cls(name.decode("ascii"), key, whole(size), signature, marks)

    def check(self) -> None:
        """ValueError or TypeError unless types and lengths are right."""
        check_name(self.name)
        check_key(self.key)
        if type(self.size) is not int or not 1 <= self.size < MOST_TOTAL:
            raise PublicValueError(f"client {self.name!r} has no number of records.")
        if type(self.signature) is not bytes or len(self.signature) != 64:
            raise PublicValueError(f"client {self.name!r} sent no signature.")


class Listed(NamedTuple):
    """A list of clients that was found in order.

    Attributes
    ----------
    names : tuple of str
        Sorted.
    keys : dict
        Client to public key.
    size : int
        Number of all their records.
    digest : bytes
        Of names and keys.
    honest : int
        Clients whose noise nobody else knows: all but those who may collude.
    """

    names: tuple[str, ...]
    keys: dict[str, bytes]
    size: int
    digest: bytes
    honest: int


def checked_list(
    cohort: Cohort, agreement: Agreement, attempt: Attempt, entries: Sequence[Attendance]
) -> Listed:
    """The list of an attempt, as server and clients check it.

    Raises
    ------
    ValueError, TypeError
        Names that are not sorted, not distinct or not of the cohort; equal or malformed keys; a
        signature that is missing or of something else; too few clients; too many records.
    """
    if not 2 <= len(entries) <= MOST_CLIENTS:
        raise PublicValueError(f"a list has 2 to {MOST_CLIENTS} clients.")
    for entry in entries:
        entry.check()
    names = tuple(entry.name for entry in entries)
    if list(names) != sorted(set(names)):
        raise PublicValueError("the names of a list must be sorted, each once.")
    strangers = set(names) - cohort.members.keys()
    if strangers:
        raise PublicValueError(f"client {min(strangers)!r} is not of the cohort.")
    keys = {entry.name: entry.key for entry in entries}
    if len(set(keys.values())) < len(keys):
        raise PublicValueError("two clients of a list have the same key.")
    honest = len(entries) - cohort.colluding
    if honest < 1:
        raise PublicValueError(
            f"a list must have more clients than may collude, {cohort.colluding}; it has "
            f"{len(entries)}."
        )
    size = sum(entry.size for entry in entries)
    agreement.check_sizes(size)
    release = attempt.digest(cohort, agreement)
    for entry in entries:
        if not cohort.signed(entry.name, entry.signature, entry.message(release)):
            raise PublicValueError(f"client {entry.name!r} did not sign this attendance.")
    pairs = [part for name in names for part in (name.encode(), keys[name])]
    return Listed(names, keys, size, digest("list", *pairs), honest)


_NOW = "CAST(strftime('%s', 'now') AS INTEGER)"
# Which row of the table.
_PLACE = "client = ? AND fit = ? AND round = ? AND attempt = ?"


class AttendanceBook(AnswerBook):
    """Durable memory of the secure sums that a client takes part in.

    The secret key of an attempt is stored from its attendance until its list is known, and erased
    in the transaction that reserves the list.  An attendance without a list is forgotten, with its
    key, when a newer attempt of the same fit is attended, after a day, and when 256 newer ones are
    open.  Erasing is best effort: a file system may keep what was overwritten.

    Parameters
    ----------
    path : str
        SQLite file on a local disk, readable by its owner only; answers may be in it too.
    """

    _OPENING = (
        "PRAGMA secure_delete=ON",
        "CREATE TABLE IF NOT EXISTS attendances (client TEXT, fit TEXT, round INTEGER,"
        " attempt INTEGER, opened INTEGER, release BLOB, key BLOB, secret BLOB, list BLOB,"
        " words BLOB, PRIMARY KEY (client, fit, round, attempt))",
        f"DELETE FROM attendances WHERE list IS NULL AND opened < {_NOW} - {_OPEN_SECONDS}",
    )

    def attend(
        self, name: str, attempt: Attempt, release: bytes, charged: Callable[[], bool]
    ) -> bytes:
        """Public key of this attendance, the same whenever it is asked for while it is open.

        Raises
        ------
        BudgetError
            If the attempt was attended with other settings, is over, is older than another one of
            this fit, or was charged, as the ledger says.
        """
        place = attempt.of(name)
        with self._begun() as connection:
            row = _row(connection, place, release)
            if row is not None:
                if row["list"] is not None:
                    raise BudgetError("this attempt was answered.")
                return bytes(row["key"])
            newer = connection.execute(
                "SELECT 1 FROM attendances WHERE client = ? AND fit = ?"
                " AND (round, attempt) > (?, ?)",
                place,
            ).fetchone()
            if newer is not None:
                raise BudgetError("a newer attempt of this fit was attended.")
            if charged():
                raise BudgetError("the ledger holds this attempt, and the book does not.")
            secret = secrets.token_bytes(KEY_BYTES)
            key = public_key(secret)
            connection.execute(
                "DELETE FROM attendances WHERE client = ? AND fit = ? AND list IS NULL", place[:2]
            )
            connection.execute(
                f"INSERT INTO attendances VALUES (?, ?, ?, ?, {_NOW}, ?, ?, ?, NULL, NULL)",
                (*place, release, key, secret),
            )
            connection.execute(
                "DELETE FROM attendances WHERE list IS NULL AND rowid NOT IN (SELECT rowid"
                " FROM attendances WHERE list IS NULL ORDER BY rowid DESC LIMIT ?)",
                (_MOST_OPEN,),
            )
            return key

    @contextlib.contextmanager
    def reserved(
        self, name: str, attempt: Attempt, release: bytes, listed: Listed
    ) -> Iterator[bytes | np.ndarray]:
        """A transaction that reserves a list and erases the key, which it gives; or stored words.

        Of several messages that come together one reserves.  A charge that is refused in it takes
        the reservation back; after a crash between charge and end of the transaction the ledger
        holds the attempt and the book does not.
        """
        with self._begun() as connection:
            row = _row(connection, attempt.of(name), release)
            if row is None:
                raise BudgetError("this attempt was not attended, or its attendance is over.")
            if listed.keys.get(name) != row["key"]:
                raise BudgetError("the list does not hold this client's own attendance.")
            if row["list"] is None:
                connection.execute(
                    f"UPDATE attendances SET list = ?, secret = NULL WHERE {_PLACE}",
                    (listed.digest, *attempt.of(name)),
                )
                yield row["secret"]
                return
            if row["list"] != listed.digest:
                raise BudgetError("another list of this attempt was answered.")
            if row["words"] is None:
                raise BudgetError("this sum was begun and never finished; it is not repeated.")
            yield words_of(row["words"])

    def keep(self, name: str, attempt: Attempt, words: np.ndarray) -> None:
        """Store the masked words before they leave."""
        with self._begun() as connection:
            done = connection.execute(
                f"UPDATE attendances SET words = ? WHERE {_PLACE}"
                " AND list IS NOT NULL AND words IS NULL",
                (bytes_of(words), *attempt.of(name)),
            )
            if done.rowcount != 1:
                raise BudgetError("this attempt was answered, or its book was changed.")


def _row(connection: Connection, place: tuple, release: bytes) -> Any:
    row = connection.execute(f"SELECT * FROM attendances WHERE {_PLACE}", place).fetchone()
    if row is not None and row["release"] != release:
        raise BudgetError("this attempt was attended with other settings.")
    return row


def bytes_of(words: np.ndarray) -> bytes:
    """Words of 64 bits as bytes that are the same on every machine."""
    return bytes(words.astype("<u8").tobytes())


def words_of(data: bytes) -> np.ndarray:
    """Inverse of :func:`bytes_of`: the words of a message."""
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


@dataclass(frozen=True, eq=False)
class Member:
    """One client's part in secure sums.

    Parameters
    ----------
    name : str
        As in the cohort.
    identity : Identity
    cohort : Cohort
        From the client's own people.
    agreement : Agreement
    book : AttendanceBook
    size : int
        Its public number of records, or people.

    Raises
    ------
    ValueError
        If the cohort does not have this name with this identity.
    """

    name: str
    identity: Identity
    cohort: Cohort
    agreement: Agreement
    book: AttendanceBook
    size: int

    def __post_init__(self) -> None:
        check_name(self.name)
        check_instance(Identity, "Identity.make(folder) makes one", identity=self.identity)
        check_instance(Cohort, "Cohort.read(path) reads one", cohort=self.cohort)
        if self.cohort.members.get(self.name) != self.identity.public:
            raise PublicValueError(
                f"the cohort does not hold client {self.name!r} with this identity; compare the "
                "file with the other clients."
            )
        self.agreement.check_sizes(self.size)

    def attend(self, attempt: Attempt, charged: Callable[[], bool]) -> Attendance:
        """Take part; nothing is read and nothing charged.

        Parameters
        ----------
        attempt : Attempt
        charged : callable
            Whether the ledger holds this attempt.
        """
        attempt.check(self.agreement)
        release = attempt.digest(self.cohort, self.agreement)
        key = self.book.attend(self.name, attempt, release, charged)
        entry = Attendance(self.name, key, self.size, b"")
        signature = self.identity.sign(entry.message(release))
        return entry._replace(signature=signature, marks=self.agreement.marks)

    def add(
        self,
        attempt: Attempt,
        entries: Sequence[Attendance],
        charged: Callable[[], bool],
        charge: Callable[[Listed], None],
        noisy: Callable[[int], np.ndarray],
    ) -> np.ndarray:
        """The masked sum for one list of clients.

        Parameters
        ----------
        attempt : Attempt
        entries : sequence of Attendance
            All who take part.
        charged : callable
            Whether the ledger holds this attempt.
        charge : callable
            ``charge(listed)`` charges the ledger, or raises.
        noisy : callable
            ``noisy(honest)`` is the exact sum of the client's integers with its share of the noise
            of a sum in which so many shares are unknown; int64.  It is called after the charge.

        Returns
        -------
        ndarray of uint64
            One word more than the sum: a count of the clients, without noise, which shows the
            server whether all masks cancelled.

        Raises
        ------
        ValueError, TypeError
            The list is not in order; nothing is charged.
        BudgetError
            The book or the ledger forbids it.
        """
        attempt.check(self.agreement)
        listed = checked_list(self.cohort, self.agreement, attempt, entries)
        release = attempt.digest(self.cohort, self.agreement)
        with self.book.reserved(self.name, attempt, release, listed) as found:
            if not isinstance(found, bytes):
                return found
            if charged():
                raise BudgetError("the ledger holds this attempt, and the book does not.")
            salt = listed.digest + release
            shared = pair_keys(self.name, found, listed.keys, salt)
            charge(listed)
        total = noisy(listed.honest)
        if total.dtype != np.int64 or total.shape != (self.agreement.length,):
            raise PublicValueError("a secure sum is of int64.")
        own = np.append(total, np.int64(1)).astype(np.uint64)
        words = own + mask(self.name, shared, len(own))
        self.book.keep(self.name, attempt, words)
        return words


def unmasked(agreement: Agreement, listed: Listed, uploads: dict[str, np.ndarray]) -> np.ndarray:
    """The noisy total of a list, from the masked words of all its clients.

    Raises
    ------
    ValueError
        Words of other types or lengths, or a client missing: nothing can be said then.
    RuntimeError
        The masks did not cancel, or the total is out of its public range: one of the clients sent
        something else than its sum, and nobody can tell which.
    """
    length = agreement.length + 1
    total = np.zeros(length, dtype=np.uint64)
    for name in listed.names:
        words = uploads.get(name)
        if type(words) is not np.ndarray or words.dtype != np.uint64 or words.shape != (length,):
            raise PublicValueError(f"client {name!r} did not send {length} words of 64 bits.")
        total = total + words
    signed = total.astype(np.int64)
    if signed[-1] != len(listed.names):
        raise PublicRuntimeError(_SPOILED)
    # Noise of a sum is shorter than 2^50, by far.
    most = listed.size * agreement.largest + 2**50
    if len(signed) > 1 and not (signed[:-1].max() <= most and signed[:-1].min() >= -most):
        raise PublicRuntimeError(_SPOILED)
    return signed[:-1]


def request(kind: str, attempt: Attempt, entries: Sequence[Attendance] = ()) -> bytes:
    """A message of the server, "attend" or "add"."""
    numbers = number(attempt.round), number(attempt.attempt)
    listed = (entry._replace(marks=b"").pack() for entry in entries)
    return packed(kind.encode(), attempt.fit_id.encode(), *numbers, *listed)


def reply(client: Any, data: bytes) -> bytes:
    """A client's answer to a message: an attendance, its masked words, or one word.

    Parameters
    ----------
    client : object
        With ``attend(attempt)`` and ``add(attempt, entries)``.
    data : bytes
        Of :func:`request`; anything, for all the client knows.

    Returns
    -------
    bytes
        For :func:`answered`.  No exception's text leaves: it might tell of a record.
    """
    try:
        kind, fit_id, *rest = unpacked(data)
        attempt = Attempt(fit_id.decode(), *map(whole, rest[:2]))
        if kind == b"attend" and len(rest) == 2:
            return packed(b"attendance", client.attend(attempt).pack())
        if kind == b"add":
            entries = [Attendance.unpack(part) for part in rest[2:]]
            if any(entry.marks for entry in entries):
                return packed(_FAILED)
            return packed(b"words", bytes_of(client.add(attempt, entries)))
    except BudgetError:
        return packed(_DECLINED)
    except Exception:  # noqa: BLE001
        return packed(_FAILED)
    return packed(_FAILED)


def answered(data: bytes) -> Attendance | np.ndarray | None:
    """Read a client's answer; None where it declined, ValueError for anything unreadable."""
    kind, *rest = unpacked(data)
    if kind == b"attendance" and len(rest) == 1:
        entry = Attendance.unpack(rest[0])
        entry.check()
        return entry
    if kind == b"words" and len(rest) == 1 and len(rest[0]) % 8 == 0:
        return words_of(rest[0])
    if kind == _DECLINED and not rest:
        return None
    raise PublicValueError("a client sent something unreadable, or failed.")


_DECLINED, _FAILED = b"declined", b"failed"
_SPOILED = (
    "the masks of this sum did not cancel: one of its clients sent something else than its sum, "
    "and nobody can tell which. No new attempt is made by itself, because each is charged; ask the "
    "clients first."
)
