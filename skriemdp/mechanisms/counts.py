"""Noisy counts of records: sensitivity one."""

from __future__ import annotations

import dataclasses

from skriemdp._validation import check_positive
from skriemdp.privacy.events import GaussianEvent

__all__ = ["GaussianCount"]


@dataclasses.dataclass(frozen=True)
class GaussianCount:
    """A count of records plus Gaussian noise.

    *Guarantee*: exactly mu-GDP with ``mu = 1 / noise_multiplier``; replacing a record moves a count
    by at most one.
    """

    noise_multiplier: float

    def __post_init__(self):
        check_positive(noise_multiplier=self.noise_multiplier)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in records."""
        return self.noise_multiplier

    @property
    def event(self) -> GaussianEvent:
        return GaussianEvent(self.noise_multiplier)

    def release(self, count, rng):
        return float(count + self.sigma * rng.standard_normal())
