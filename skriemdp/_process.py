"""Which process this is: one answer for everything that must not cross a fork.

A number alone does not tell: where numbers begin anew (containers, pid namespaces) a child may bear
that of its parent.
"""

from __future__ import annotations

import os

_forks = 0


def this_process() -> tuple[int, int]:
    """Its number, and how many forks lie between it and the process that loaded this module.

    No process has the answer of one that it descends from, and so of one whose memory it holds.
    """
    return os.getpid(), _forks


def _count() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count)
