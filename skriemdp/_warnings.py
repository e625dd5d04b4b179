"""Warnings that point at the user's line, and that never cost a release."""

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


class Words:
    """Warnings of a fit, which after its charge wait until everything was learned.

    Where warnings are errors, one that was raised in between would lose a release that was paid
    for.  Before the charge nothing waits: such an error then refuses the fit, and costs nothing.
    """

    def __init__(self) -> None:
        self.waiting = False
        self._said: list[Warning] = []

    def add(self, warning: Warning) -> None:
        """Note a warning, once."""
        if all(str(warning) != str(other) for other in self._said):
            self._said.append(warning)

    def tell(self) -> None:
        """Warn; where warnings are errors, the first is raised and the others are its notes."""
        said, self._said, self.waiting = self._said, [], False
        for place, warning in enumerate(said):
            try:
                _warn(warning)
            except Warning as error:
                for other in said[place + 1 :]:
                    error.add_note(str(other))
                raise


_words: ContextVar[Words | None] = ContextVar("skriemdp_words", default=None)


@contextlib.contextmanager
def words_of_a_fit() -> Iterator[Words]:
    """Keep what is told in a block after a charge, for `tell`; within another block, for that."""
    if _words.get() is not None:
        yield Words()
        return
    token = _words.set(words := Words())
    try:
        yield words
    finally:
        _words.reset(token)


@contextlib.contextmanager
def after_a_charge() -> Iterator[None]:
    """Let no warning end a block: not one of ours, and not one of other packages.

    Outside of a fit what is released is what a function returns, so there none is raised at all.
    """
    words = _words.get()
    if words is not None:
        words.waiting = True
    # Filters belong to the whole process, so they are touched only where a warning would raise.
    if all(action != "error" for action, *_ in warnings.filters):
        yield
        return
    with warnings.catch_warnings():
        # What other packages and users' functions warn of may quote a record: it becomes no error.
        warnings.simplefilter("default" if words is None else "ignore")
        yield


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the nearest line outside this package that led here; after a charge, later."""
    if _silent.get():
        return
    words = _words.get()
    if words is not None and words.waiting:
        words.add(category(message))
    else:
        _warn(category(message))


def _warn(warning: Warning) -> None:
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


@contextlib.contextmanager
def unwarned() -> Iterator[None]:
    """Silence warnings in a block: of a plan that is made again, or of fits that nobody sees."""
    silent, words = _silent.set(True), _words.set(Words())
    try:
        yield
    finally:
        _words.reset(words)
        _silent.reset(silent)
