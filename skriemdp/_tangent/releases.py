"""One budget for a mean and for a linear model on the coordinates there."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from skriemdp._core.arithmetic import INTEGERS
from skriemdp._core.estimator import Plan, Terms
from skriemdp._core.work import Work
from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.budget import Release
from skriemdp.privacy._calibration import gaussian_epsilon, gaussian_mu
from skriemdp.privacy._event import Event
from skriemdp.privacy._events import compose

# Of mu**2, for the mean; half of it does as well, and is less safe.
MEAN_SHARE = 0.15


def shares_of_epsilon(terms: Terms, share: float) -> tuple[float, float]:
    """Epsilons of two Gaussian fits at the delta of `terms`: `share` of its mu**2, and the rest.

    Rounded so that the two together have no more than that mu.
    """
    mu = gaussian_mu(terms.epsilon, terms.delta)
    first, last = (mu * math.sqrt(part) for part in (share, 1.0 - share))
    return gaussian_epsilon(first, terms.delta), gaussian_epsilon(last, terms.delta)


@dataclass(frozen=True, eq=False)
class TwoPlans:
    """Plans of two fits that are charged together.

    Parameters
    ----------
    mean : Plan or None
        Of a private mean; None where the base point is public.
    model : Plan
        Of a linear model on coordinates at the base point.

    Notes
    -----
    *Guarantee*: both plans' events together.  The mean is released first, and the coordinates of a
    record at it are a function of that record, so the second fit is one of records again
    (docs/theory/adagrad.md, section 6).
    """

    mean: Plan[Any] | None
    model: Plan[Any]

    @property
    def event(self) -> Event:
        """Event of both releases."""
        return compose([plan.event for plan in self._plans])

    @property
    def arithmetic(self) -> str:
        """Words for what is added; exact integers where both are."""
        return next((p.arithmetic for p in self._plans if p.arithmetic != INTEGERS), INTEGERS)

    @property
    def releases(self) -> tuple[Release, ...]:
        """Releases of both, by name, with their shares of the whole."""
        if self.mean is None:
            return self.model.releases
        return (
            *_as_parts(self.mean.releases, "mean: ", MEAN_SHARE),
            *_as_parts(self.model.releases, "model: ", 1.0 - MEAN_SHARE),
        )

    @property
    def work(self) -> Work:
        """Memory and steps of both."""
        first, last = self._plans[0].work, self._plans[-1].work
        if self.mean is None:
            return last
        both = first.plus(last.bytes, last.cause, last.operations)
        return dataclasses.replace(both, steps=first.steps + last.steps)

    def checked(self, terms: Terms) -> TwoPlans:
        """These plans, or ValueError where they would cost more than the fit may."""
        mu = self.event.mu
        if mu is None or mu > gaussian_mu(terms.epsilon, terms.delta) * (1.0 + 1e-12):
            raise PublicValueError(
                f"epsilon={terms.epsilon:g} is too small to be divided between a mean and a model "
                f"at delta={terms.delta:g}; use a larger epsilon, or pass a public center=."
            )
        return self

    @property
    def _plans(self) -> list[Plan[Any]]:
        return [plan for plan in (self.mean, self.model) if plan is not None]


def _as_parts(releases: tuple[Release, ...], name: str, share: float) -> tuple[Release, ...]:
    return tuple(
        each._replace(name=name + each.name, share=share * each.share) for each in releases
    )
