"""Files that keep a guarantee: allowed places (local, private, one name), and their creation.

A *witness* is a second file, best on another disk, that remembers how far a ledger had got.  Each
line is the number and the digest of an entry, written and synced before the charge is reported.
The ledger may be ahead of it (a crash between the two), never behind.  Lines of several processes
may arrive out of order, so the line with the highest number counts.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from pathlib import Path

from skriemdp._config import get_config
from skriemdp._errors import PublicOSError
from skriemdp.ledger._chain import Head
from skriemdp.ledger._errors import BudgetError

# Of one machine, whose kernel keeps the locks and syncs what is written.  Elsewhere (networks,
# folders of a virtual machine's host, stores behind FUSE) locks are often pretended.
LOCAL_FILE_SYSTEMS = frozenset(
    "ext2 ext3 ext4 xfs btrfs zfs f2fs bcachefs jfs nilfs2 reiserfs ubifs jffs2 tmpfs ramfs rootfs "
    "overlay aufs ecryptfs vfat exfat ntfs ntfs3 fuseblk hfs hfsplus apfs ufs udf iso9660 squashfs "
    "erofs fuse.fuse-overlayfs".split()
)


def look(path: str, what: str = "ledger") -> os.stat_result:
    """The status of a file that must have one name only; FileNotFoundError where there is none."""
    for pause in (0.01, 0.1, 0.5, 0.0):
        status = os.stat(path)
        # A ledger that is being made has two names for a moment; a folder always has several.
        if status.st_nlink <= 1 or not stat.S_ISREG(status.st_mode):
            return status
        time.sleep(pause)
    raise BudgetError(
        f"the {what} {path!r} has a second name (a hard link): what was interrupted under one name "
        "would not be finished under the other. Remove the other name. Nothing was released."
    )


def private_file(path: str, what: str) -> str:
    """The real path of a local file that only its owner may read, made if it is not there."""
    path = os.path.realpath(os.fsdecode(path))
    refuse_elsewhere(path)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        look(path, what)
    except OSError as error:
        raise BudgetError(f"the {what} {path!r} cannot be used: {error.strerror}.") from error
    return path


def refuse_elsewhere(path: str) -> None:
    """BudgetError where the file system of `path` is not known to be one of this machine alone."""
    kind = file_system(path)
    if kind and kind not in LOCAL_FILE_SYSTEMS.union(get_config()["local_file_systems"]):
        raise BudgetError(
            f"{path!r} lies on a file system of type {kind!r}, of a network or of a host perhaps, "
            "where concurrent charges can be lost; put the ledger on a local disk (for ledgers "
            "without a path: set TMPDIR). If you know that one machine alone writes it, that its "
            "locks hold and that synced writes last, say "
            f"skriemdp.set_config(local_file_systems=[{kind!r}])."
        )


def file_system(path: str, mounts: str | None = None) -> str:
    """Type of the file system of `path` as the kernel names it; ``""`` where it does not say.

    Linux says it, and of Windows the names of shares do.
    """
    if os.path.splitdrive(path)[0].startswith("\\\\"):
        return "smbfs"
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
    found = [(0, "")]
    for place, kind in re.findall(r"^[^ \n]* ([^ \n]+) ([^ \n]+)", mounts, re.MULTILINE):
        place = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), place)
        if f"{path}/".startswith(f"{place.rstrip('/')}/"):
            found.append((len(place), kind))
    return max(reversed(found), key=lambda each: each[0])[1]


def sync_folder(folder: str) -> None:
    """Make names in a folder durable, where the platform can."""
    with contextlib.suppress(OSError):  # not every platform can open a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# -- the witness of a ledger --

# Bytes read from the end of a witness: hundreds of lines, and processes are a few lines apart.
TAIL = 65_536


def begin_witness(path: str, key: str) -> None:
    """Begin the file (mode 0600) of a new ledger; it must not exist."""
    try:
        _append(path, f"ledger {key}\n", os.O_CREAT | os.O_EXCL)
    except OSError as error:
        raise BudgetError(
            f"cannot create the witness file {path!r}: {error.strerror}. It must be a new file."
        ) from error


def note_witness(path: str, head: Head) -> None:
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
            raise PublicOSError(0, "the line was not written completely")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def newest_of_witness(path: str, key: str) -> Head | None:
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
