"""Calibrations that survive the process, in the user's cache directory.

An entry is a few public numbers: dimension, target, and the law that was found.  Nothing that is
read is trusted (whoever asks checks it against the target again), so a stale, damaged or forged
entry costs time and never privacy.  Everything that goes wrong on the way is silent.  Switched off
by the environment variable ``SKRIEMDP_CACHE=off``.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from pathlib import Path

__all__ = ["read", "write"]

# Part of the directory's name; a change of what entries mean needs a new one.
_VERSION = 1
_MOST_ENTRIES = 2000
# Of an entry; more would be no entry of ours.
_MOST_CHARACTERS = 1 << 20


def _directory() -> Path | None:
    if os.environ.get("SKRIEMDP_CACHE", "").lower() == "off":
        return None
    from platformdirs import user_cache_path

    return user_cache_path("skriemdp", appauthor=False) / f"calibration-{_VERSION}"


def _place(key: list) -> tuple[Path, str] | None:
    directory = _directory()
    if directory is None:
        return None
    text = json.dumps(key)
    return directory / (hashlib.sha256(text.encode()).hexdigest()[:40] + ".json"), text


def read(key: list) -> dict | None:
    """What was written for `key`, a list of plain numbers and strings; None if there is nothing."""
    try:
        place = _place(key)
        if place is None:
            return None
        entry = json.loads(_text(place[0]))
        return entry["value"] if entry["key"] == place[1] else None
    except Exception:  # whatever lies there, or however the directory fails
        return None


def _text(path: Path) -> str:
    """What a regular file holds; a pipe or a device could make every fit wait for ever."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(f"{path} is no regular file")
    # The place may have changed hands meanwhile.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags), encoding="ascii") as file:
        return file.read(_MOST_CHARACTERS)


def write(key: list, value: dict) -> None:
    """Keep `value`; the file is complete or absent at every moment."""
    try:
        place = _place(key)
        if place is None:
            return
        path, text = place
        path.parent.mkdir(parents=True, exist_ok=True)
        old = list(path.parent.iterdir())
        if len(old) >= _MOST_ENTRIES:
            for entry in old:
                entry.unlink()
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                json.dump({"key": text, "value": value}, file)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except Exception:
        return
