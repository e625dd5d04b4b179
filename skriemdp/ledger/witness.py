"""A second file, best on another disk, that remembers how far a ledger had got.

Each line is the number and the digest of an entry, written and synced before the charge is
reported.  The ledger may be ahead of it (a crash between the two), never behind.  Lines of several
processes may arrive out of order, so the line with the highest number counts.
"""

from __future__ import annotations

import os

from skriemdp.ledger.chain import Head
from skriemdp.ledger.errors import BudgetError

__all__ = ["create", "newest", "note"]

# Enough for hundreds of lines: processes overtake each other by a few lines at most.
TAIL = 65_536


def create(path: str, key: str) -> None:
    """Begin the file (mode 0600) of a new ledger; it must not exist."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            os.write(descriptor, f"ledger {key}\n".encode("ascii"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise BudgetError(
            f"cannot create the witness file {path!r}: {error.strerror}. It must be a new file."
        ) from error


def note(path: str, head: Head) -> None:
    """Append an entry that was stored, durably."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            # The empty line ends whatever a crash may have left half written.
            line = f"\n{head.entry} {head.digest}\n".encode("ascii")
            if os.write(descriptor, line) != len(line):
                raise OSError(0, "the line was not written completely")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise BudgetError(
            f"entry {head.entry} was charged, but the witness file {path!r} cannot be written: "
            f"{error.strerror}. Nothing was released."
        ) from error


def newest(path: str, key: str) -> Head | None:
    """The entry with the highest number in the file, None before the first."""
    try:
        with open(path, "rb") as file:
            first = file.readline(128)
            file.seek(max(os.fstat(file.fileno()).st_size - TAIL, 0))
            lines = file.read().splitlines()
    except OSError as error:
        raise BudgetError(
            f"the witness file {path!r} of the ledger cannot be read: {error.strerror}. Restore "
            "it; without it an old copy of the ledger would not be noticed. Nothing was released."
        ) from error
    if first != f"ledger {key}\n".encode("ascii"):
        raise BudgetError(
            f"{path!r} is not the witness file of this ledger, or was emptied; restore it. Nothing "
            "was released."
        )
    found = [_entry(line) for line in lines]
    return max((head for head in found if head is not None), default=None)


def _entry(line: bytes) -> Head | None:
    number, _, digest = line.partition(b" ")
    if number.isdigit() and len(digest) == 64:
        return Head(int(number), digest.decode("ascii", "replace"))
    return None  # the first line, an empty one, the middle of one, or half of one
