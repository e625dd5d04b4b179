"""A progress bar that shows steps and budget, and never a function of the records."""

from __future__ import annotations

import sys
import time
from typing import TextIO

__all__ = ["ProgressBar"]

_WIDTH = 30


class ProgressBar:
    """Prints steps done and the share of the run's releases that is left.

    There is no loss to show: the loss of a private run is itself a query about the records.

    Parameters
    ----------
    name : str
    epsilon, delta : float
        Of the whole run.
    stream : file, optional
        Standard error by default.
    """

    def __init__(self, name: str, epsilon: float, delta: float, stream: TextIO | None = None):
        self._head = f"{name} (epsilon={epsilon:g}, delta={delta:g})"
        self._stream = stream
        self._last = 0.0

    def __call__(self, step: int, n_steps: int) -> None:
        now = time.monotonic()
        if step < n_steps and now - self._last < 0.1:
            return
        self._last = now
        filled = _WIDTH * step // n_steps
        bar = "#" * filled + "." * (_WIDTH - filled)
        left = 100 * (n_steps - step) // n_steps
        stream = sys.stderr if self._stream is None else self._stream
        end = "\n" if step == n_steps else "\r"
        stream.write(
            f"{self._head} [{bar}] step {step}/{n_steps}, {left:3d} % of releases left{end}"
        )
        stream.flush()
