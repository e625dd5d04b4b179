"""Progress of a long fit: steps done of steps planned, reported through `logging` alone."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import time
from collections.abc import Iterator

_LOGGER = logging.getLogger("skriemdp")
_SECONDS = 1.0
_silent: contextvars.ContextVar[bool] = contextvars.ContextVar("silent", default=False)


def counted(what: str, count: int) -> Iterator[int]:
    """``range(count)``; about every second the logger "skriemdp" tells, at INFO, how far it is.

    Both numbers are public: a fit plans its steps before it sees a record.
    """
    said = time.monotonic()
    for done in range(count):
        yield done
        said = tell(what, done + 1, count, said)


def expect(seconds: float) -> None:
    """Tell how long a fit will take, if that is long; from its plan, which is public."""
    # A fit that takes longer tells so before it begins.
    if seconds > 5.0 and not _silent.get():
        _LOGGER.info("this fit takes about %s of one core", duration(seconds))


def duration(seconds: float) -> str:
    """A length of time in the unit that suits it."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def tell(what: str, done: int, count: int, said: float) -> float:
    """Tell that `done` of `count` are done, unless `said` was just now; returns when it was."""
    now = time.monotonic()
    if now - said < _SECONDS or _silent.get():
        return said
    _LOGGER.info("%s: %d of %d", what, done, count)
    return now


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Nothing is told meanwhile: the number of runs of a private search is a secret."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)
