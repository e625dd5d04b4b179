"""What every mechanism promises, and a check by mypy that each keeps the shape of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from skriemdp._arrays import Size
from skriemdp.privacy.event import Event

if TYPE_CHECKING:
    from skriemdp.mechanisms.counts import GaussianCount, LaplaceCount
    from skriemdp.mechanisms.covariance import SymmetricGaussian
    from skriemdp.mechanisms.vector import GaussianNoise, LaplaceNoise

__all__ = ["Mechanism"]


class Mechanism(Protocol):
    """One private release: what it costs, how much noise it has, and the release itself."""

    @property
    def event(self) -> Event:
        """What one release costs."""
        ...

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on every coordinate."""
        ...

    def release(self, value: Any, rng: np.random.Generator, size: Size = ()) -> Any:
        """`value` plus noise; with `size`, independent releases, each of which costs `event`."""
        ...


if TYPE_CHECKING:

    def _held(
        count: GaussianCount | LaplaceCount,
        vector: GaussianNoise | LaplaceNoise,
        matrix: SymmetricGaussian,
    ) -> tuple[Mechanism, ...]:
        return count, vector, matrix
