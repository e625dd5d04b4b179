"""What a private estimator must say of itself so that clients can train it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from skriemdp.core.estimator import Data
from skriemdp.descent.problem import Problem
from skriemdp.geometry.ball import GeodesicBall
from skriemdp.geometry.base import Geometry


@runtime_checkable
class Federable(Protocol):
    """A private estimator with a problem on a manifold and public bounds.

    Attributes
    ----------
    epsilon, delta : float
        Of the whole run.
    accountant : PrivacyAccountant or None
    """

    epsilon: float
    delta: float
    accountant: Any

    def _records(self, data: Data) -> tuple:
        """Arrays with one row per record, from validated input."""
        ...

    def _problem(self, X: Any, y: Any = None) -> Problem:
        """The risk on these rows; its bounds and geometry are the same for any."""
        ...

    def _domain_and_start(
        self, geometry: Geometry, start: Any = None
    ) -> tuple[GeodesicBall | None, np.ndarray | None]:
        """Public ball of the iterates, None for everywhere; and a public start, None for any."""
        ...

    def _adopt_point(self, point: np.ndarray) -> None:
        """Set the learned attributes from a released point."""
        ...
