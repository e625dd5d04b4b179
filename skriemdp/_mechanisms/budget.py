"""One fit's budget, divided among its releases by name: never more than all of it."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

from skriemdp._errors import PublicRuntimeError, PublicValueError
from skriemdp._mechanisms.counts import GaussianCount, LaplaceCount
from skriemdp._mechanisms.quantile import ExponentialQuantile, PrivateQuantile
from skriemdp.privacy._events import GaussianEvent, PureEvent
from skriemdp.privacy._lattice import NOISE_SCALE

# The name of the release that every fit makes besides its own.
COUNT = "clipped fraction"
# Relative rounding error granted to a sum of shares before it counts as above the plan.
_ROUNDING = 1e-14


class Release(NamedTuple):
    """Planned releases of one name.

    Attributes
    ----------
    name : str
    share : float
        Of mu**2, or of a pure epsilon.  What a search leaves goes to the releases after it.
    law : str
        Of the noise.
    dim : int or None
        Number of coordinates of one release; None where there are several kinds.
    """

    name: str
    share: float
    law: str
    dim: int | None = None


class _Budget:
    """The unspent part of a fit's budget, as a fraction; it refuses to spend more.

    A plan takes from one budget all that its fit may spend, and stores :attr:`releases`.  The fit
    takes from another budget, which gets them as `planned`.

    Parameters
    ----------
    total : float
        The mu, or the epsilon, of the whole fit.
    planned : tuple of Release, optional
        What a fit may take, and the event pays for; those with Laplace noise behind a Gaussian
        budget have an event of their own.  What the releases before one leave, it may take besides
        its own share; what has another name, or takes more, is refused.  None in a plan, which
        decides.
    """

    pure: ClassVar[bool]
    law: ClassVar[str]

    def __init__(self, total: float, planned: tuple[Release, ...] | None = None):
        self.total = total
        self.remaining = 1.0
        self._planned = planned
        self._taken: dict[str, Release] = {}

    @property
    def releases(self) -> tuple[Release, ...]:
        """Shares that were taken, by name, in the order of the first releases."""
        return tuple(self._taken.values())

    def _take(self, share: float, name: str, dim: int | None, law: str) -> float:
        if not 0.0 < share <= min(self.remaining, self._room(name)):
            raise PublicRuntimeError(
                f"the release {name!r} exceeds what is left of the budget planned for it; it was "
                "not made."
            )
        self.remaining -= share
        before = self._taken.get(name, Release(name, 0.0, law or self.law, dim))
        same = dim if dim == before.dim else None
        self._taken[name] = before._replace(share=before.share + share, dim=same)
        return share

    def _room(self, name: str) -> float:
        """The most that a release of this name may take."""
        if self._planned is None:
            return self.remaining
        room, least, reached = 0.0, math.inf, False
        for each in self._planned:
            if each.law == "laplace" and not self.pure:
                continue
            before = self._taken.get(each.name)
            room += each.share - (0.0 if before is None else before.share)
            reached = reached or each.name == name
            least = min(least, room) if reached else least
        return least + _ROUNDING if reached else 0.0

    def take(self, share: float, name: str, dim: int | None = None, law: str = "") -> float:
        """The mu, or the epsilon, of a release that gets the fraction `share`.

        ValueError where a mu is too small for any integers.
        """
        part = self._take(share, name, dim, law)
        if self.pure:  # epsilons add up to a little less, for the rounding of their sum
            return self.total * part * (1.0 - 1e-12)
        mu = self.total * math.sqrt(part)
        if mu * NOISE_SCALE < 4.0:
            raise PublicValueError(
                f"the release {name!r} would get mu={mu:.4g}, too little for integers; use a "
                "larger epsilon."
            )
        return mu

    def before(self, last: Release) -> tuple[Release, ...]:
        """The releases as parts of a fit that ends with `last`, which this budget does not pay."""
        own = (each._replace(share=(1.0 - last.share) * each.share) for each in self.releases)
        return (*own, last)

    def rest(self, name: str, dim: int | None = None, law: str = "") -> float:
        """The parameter of a release that gets everything left."""
        return self.take(self.remaining, name, dim, law)


class Steps:
    """The releases of one kind that are left to a run: as many as its event pays for."""

    def __init__(self, count: int):
        self.remaining = count

    def take(self) -> None:
        """Count one release, before its noise; RuntimeError where none is left."""
        if self.remaining < 1:
            raise PublicRuntimeError(
                "a step exceeds what was planned for this run; it was not made."
            )
        self.remaining -= 1


class GaussianBudget(_Budget):
    """Divides the mu**2 of one fit among Gaussian releases, and refuses to divide more than all.

    *Guarantee*: releases with ``sum mu_t^2 <= mu^2`` are mu-GDP together, also when each mu_t is a
    function of the releases before it (Smith and Thakurta 2022).
    """

    pure = False
    law = "gaussian"

    @property
    def event(self) -> GaussianEvent:
        """All releases together."""
        return GaussianEvent(1.0 / self.total)

    def quantile(
        self,
        share: float,
        grid: tuple[float, ...],
        level: float,
        name: str,
        prior: tuple[float, ...] | None = None,
    ) -> PrivateQuantile:
        return PrivateQuantile(grid=grid, level=level, mu=self.take(share, name, 1), prior=prior)

    def count(self, share: float) -> GaussianCount:
        return GaussianCount(1.0 / self.take(share, COUNT, 1))


class PureBudget(_Budget):
    """Divides the epsilon of one fit among pure releases; they add up."""

    pure = True
    law = "laplace"

    @property
    def event(self) -> PureEvent:
        """All releases together."""
        return PureEvent(self.total)

    def quantile(
        self, share: float, grid: tuple[float, ...], level: float, name: str
    ) -> ExponentialQuantile:
        epsilon = self.take(share, name, 1, "exponential")
        return ExponentialQuantile(grid=grid, level=level, epsilon=epsilon)

    def count(self, share: float) -> LaplaceCount:
        return LaplaceCount(self.take(share, COUNT, 1))
