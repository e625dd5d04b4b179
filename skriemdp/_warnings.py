"""Warnings that point at the user's line."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)
_silent: ContextVar[bool] = ContextVar("skriemdp_silent", default=False)


class SeededNoiseWarning(UserWarning):
    """The noise of a fit can be repeated from its `random_state`, so it protects nobody."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the nearest line outside this package that led here."""
    if _silent.get():
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextlib.contextmanager
def unwarned() -> Iterator[None]:
    """Silence warnings in a block: of a plan that is made again."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)
