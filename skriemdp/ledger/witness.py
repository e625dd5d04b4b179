"""A second file, best on another disk, that remembers how far a ledger had got.

Each line is the number and the digest of an entry, written and synced before the charge is
reported.  The ledger may be ahead of it (a crash between the two), never behind.  Lines of several
processes may arrive out of order, so the line with the highest number counts.
"""

from __future__ import annotations

import os
import re

from skriemdp.ledger.chain import Head
from skriemdp.ledger.errors import BudgetError

# Enough for hundreds of lines: processes overtake each other by a few lines at most.
TAIL = 65_536


def create(path: str, key: str) -> None:
    """Begin the file (mode 0600) of a new ledger; it must not exist."""
    try:
        _append(path, f"ledger {key}\n", os.O_CREAT | os.O_EXCL)
    except OSError as error:
        raise BudgetError(
            f"cannot create the witness file {path!r}: {error.strerror}. It must be a new file."
        ) from error


def note(path: str, head: Head) -> None:
    """Append an entry that was stored, durably."""
    try:
        # The empty line ends whatever a crash may have left half written.
        _append(path, f"\n{head.entry} {head.digest}\n")
    except OSError as error:
        raise BudgetError(
            f"entry {head.entry} was charged, but the witness file {path!r} cannot be written: "
            f"{error.strerror}. Nothing was released."
        ) from error


def _append(path: str, text: str, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | flags, 0o600)
    try:
        if os.write(descriptor, text.encode("ascii")) != len(text):
            raise OSError(0, "the line was not written completely")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
    # The first line, an empty one, the middle of one and half of one are no entries.
    found = [re.fullmatch(rb"([0-9]+) ([0-9a-f]{64})", line) for line in lines]
    return max((Head(int(f[1]), f[2].decode()) for f in found if f), default=None)
