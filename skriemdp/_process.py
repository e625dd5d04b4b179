"""The identity of this process, and locks for work that it does one thread at a time.

A number alone does not tell: where numbers begin anew (containers, pid namespaces) a child may bear
that of its parent.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from skriemdp._errors import PublicRuntimeError

_forks = 0


def this_process() -> tuple[int, int]:
    """Its number, and how many forks lie between it and the process that loaded this module.

    No process has the answer of one that it descends from, and so of one whose memory it holds.
    """
    return os.getpid(), _forks


def refuse_forks(process: tuple[int, int], what: str, would: str) -> None:
    """RuntimeError unless this is the process that made what must not be doubled."""
    if this_process() != process:
        raise PublicRuntimeError(
            f"{what} was carried into a forked process, where it would {would}; start the fit in "
            "the process that runs it."
        )


class Alone:
    """A lock that no thread holds twice: its own is refused at once, others wait.

    A signal handler, a finalizer or a callback that Python runs in the middle of something would
    see it half done, or wait forever for what it interrupted.

    Parameters
    ----------
    refusal : Exception
        Raised there.
    """

    def __init__(self, refusal: Exception):
        self._refusal, self._lock, self._locked = refusal, threading.RLock(), False

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._locked:
            self._lock.release()
            raise type(self._refusal)(*self._refusal.args)
        self._locked = True

    def __exit__(self, *_: Any) -> None:
        self._locked = False
        self._lock.release()


def _count() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count)
