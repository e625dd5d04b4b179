"""Warnings that point at the user's line."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

__all__ = ["SeededNoiseWarning", "warn_user"]

_PACKAGE = str(Path(__file__).parent)


class SeededNoiseWarning(UserWarning):
    """The noise of a fit can be repeated from its `random_state`, so it protects nobody."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the nearest line outside this package that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
