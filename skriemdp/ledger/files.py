"""Where files that keep a guarantee may lie, and how they are made: local, private, one name."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from pathlib import Path

from skriemdp.ledger.errors import BudgetError

# Locks on these are often pretended, and synced writes may not be.
NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs ncpfs afs lustre ceph gpfs glusterfs beegfs orangefs pvfs2 ocfs2 "
    "gfs2 fuse.sshfs fuse.glusterfs fuse.ceph fuse.s3fs fuse.rclone fuse.gcsfuse fuse.goofys "
    "fuse.blobfuse fuse.blobfuse2 fuse.davfs davfs".split()
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
    refuse_network(path)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        look(path, what)
    except OSError as error:
        raise BudgetError(f"the {what} {path!r} cannot be used: {error.strerror}.") from error
    return path


def refuse_network(path: str) -> None:
    """BudgetError where the file system of `path` is known to be one of a network."""
    if (kind := file_system(path)) in NETWORK_FILE_SYSTEMS:
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
