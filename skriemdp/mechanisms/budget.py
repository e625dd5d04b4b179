"""One fit's budget, divided among its releases: never more than all of it."""

from __future__ import annotations

import abc
import math

from skriemdp.mechanisms.counts import GaussianCount, LaplaceCount
from skriemdp.mechanisms.quantile import ExponentialQuantile, PrivateQuantile
from skriemdp.mechanisms.vector import GaussianNoise, LaplaceNoise
from skriemdp.privacy.events import GaussianEvent, PureEvent
from skriemdp.privacy.laplace import LaplaceEvent
from skriemdp.privacy.sensitivity import Sensitivity

__all__ = ["GaussianBudget", "PureBudget"]


class _Budget(abc.ABC):
    """What is left of a fit's budget, as a fraction; never more is taken."""

    def __init__(self, total: float):
        self.total = total
        self.left = 1.0

    def _take(self, share: float) -> float:
        if not 0.0 < share <= self.left:
            raise RuntimeError("the releases of this fit exceed its budget; nothing was released.")
        self.left -= share
        return share

    @abc.abstractmethod
    def take(self, share: float) -> float:
        """The parameter of a release that gets the fraction `share`."""

    @abc.abstractmethod
    def count(self, share: float) -> GaussianCount | LaplaceCount:
        """Noise for a count of records that gets the fraction `share`."""

    @abc.abstractmethod
    def noise(
        self, share: float, sensitivity: Sensitivity, dim: int
    ) -> GaussianNoise | LaplaceNoise:
        """Noise for a vector of `dim` coordinates that gets the fraction `share`."""

    def rest(self) -> float:
        """The parameter of a release that gets everything left."""
        return self.take(self.left)

    def rest_noise(self, sensitivity: Sensitivity, dim: int) -> GaussianNoise | LaplaceNoise:
        """Noise that gets everything left."""
        return self.noise(self.left, sensitivity, dim)


class GaussianBudget(_Budget):
    """Divides the mu**2 of one fit among Gaussian releases, and refuses to divide more than all.

    *Guarantee*: releases with ``sum mu_t^2 <= mu^2`` are mu-GDP together, also when each mu_t is a
    function of the releases before it (Smith and Thakurta 2022).  Two totals are kept: what it
    tells to replace a record, `total`, which is promised; and what it tells to add or remove one,
    :attr:`presence_mu`, of what has been taken.
    """

    pure = False

    def __init__(self, total: float):
        super().__init__(total)
        self._present = 0.0

    @property
    def presence_mu(self) -> float:
        """Mu of all that was taken, when a record is added or removed; inf where nobody knows."""
        return self.total * math.sqrt(self._present)

    @property
    def event(self) -> GaussianEvent:
        """All releases together."""
        return GaussianEvent(1.0 / self.total)

    def take(self, share: float, presence: float = math.inf) -> float:
        """The mu of a release that gets the fraction `share` of mu**2.

        `presence` is what a record adds over what replacing one moves.
        """
        mu = self.total * math.sqrt(self._take(share))
        self._present += share * presence * presence
        return mu

    def quantile(
        self,
        share: float,
        grid: tuple[float, ...],
        level: float,
        prior: tuple[float, ...] | None = None,
    ) -> PrivateQuantile:
        return PrivateQuantile(grid=grid, level=level, mu=self.take(share, 1.0), prior=prior)

    def count(self, share: float) -> GaussianCount:
        return GaussianCount(1.0 / self.take(share, 1.0))

    def noise(self, share: float, sensitivity: Sensitivity, dim: int) -> GaussianNoise:
        presence = sensitivity.presence / sensitivity.value
        return GaussianNoise(sensitivity, 1.0 / self.take(share, presence))


class PureBudget(_Budget):
    """Divides the epsilon of one fit among pure releases; they add up."""

    pure = True

    @property
    def event(self) -> PureEvent:
        """All releases together."""
        return PureEvent(self.total)

    def take(self, share: float) -> float:
        """The epsilon of a release that gets the fraction `share`."""
        return self.total * self._take(share)

    def quantile(self, share: float, grid: tuple[float, ...], level: float) -> ExponentialQuantile:
        return ExponentialQuantile(grid=grid, level=level, epsilon=self.take(share))

    def count(self, share: float) -> LaplaceCount:
        return LaplaceCount(self.take(share))

    def noise(self, share: float, sensitivity: Sensitivity, dim: int) -> LaplaceNoise:
        return LaplaceNoise(sensitivity, LaplaceEvent(dim, 1.0 / self.take(share)))
