"""A progress bar that shows steps and budget, and never a function of the records."""

from __future__ import annotations

import sys
import time


class ProgressBar:
    """Shows on standard error the steps done and the share of the run's releases that is left.

    There is no loss to show: the loss of a private run is itself a query about the records.

    Parameters
    ----------
    name : str
    epsilon, delta : float
        Of the whole run.
    n_steps : int
    """

    def __init__(self, name: str, epsilon: float, delta: float, n_steps: int):
        self._head = f"{name} (epsilon={epsilon:g}, delta={delta:g})"
        self._n_steps = n_steps
        self._last = 0.0

    def __call__(self, step: int, point: object) -> None:
        """Print the progress after a step; the point is not used."""
        now, n_steps = time.monotonic(), self._n_steps
        if step < n_steps and now - self._last < 0.1:
            return
        self._last = now
        bar = ("#" * (30 * step // n_steps)).ljust(30, ".")
        left = 100 * (n_steps - step) // n_steps
        end = "\n" if step == n_steps else "\r"
        sys.stderr.write(
            f"{self._head} [{bar}] step {step}/{n_steps}, {left:3d} % of releases left{end}"
        )
        sys.stderr.flush()
