"""The number of records, released before everything else where it is secret."""

from __future__ import annotations

import functools
import math

from scipy.optimize import brentq

from skriemdp._mechanisms.counts import GaussianCount
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._event import Event
from skriemdp.privacy._events import ComposedEvent, GaussianEvent, compose
from skriemdp.privacy._laplace import LaplaceEvent


@functools.lru_cache(maxsize=1024)
def count_before(
    fit: Event, left: float, epsilon: float, delta: float
) -> tuple[GaussianCount, Event]:
    """The noise of the count, and what it and the fit after it cost together.

    Parameters
    ----------
    fit : Event
        Gaussian; or Gaussian releases before one with Laplace noise, for which one record counts
        half as much as two that differ.
    left : float
        The part of mu**2 that a Gaussian fit leaves where a record is added or removed.
    epsilon, delta : float
        Of the whole.

    Notes
    -----
    *Guarantee*: the event, which is (epsilon, delta)-DP if `fit` is (docs/theory/presence.md,
    Corollaries 3 and 4).
    """
    if fit.mu is not None:
        return GaussianCount(1.0 / (fit.mu * math.sqrt(left))), fit
    assert isinstance(fit, ComposedEvent)  # what a plan with Laplace noise costs
    before = fit.events[0].mu
    (law,) = (each for each in fit.events if isinstance(each, LaplaceEvent))
    half = LaplaceEvent(law.dim, 2.0 * law.scale_over_sensitivity)

    def present(mu: float) -> Event:
        return compose([GaussianEvent(1.0 / mu), half])

    def excess(mu: float) -> float:
        return math.log(present(mu).delta(epsilon) / delta)

    total = brentq(excess, before, gaussian_mu(epsilon, delta), xtol=1e-12)
    while excess(total) > 0.0:
        total *= 1.0 - 1e-12
    count = GaussianCount(1.0 / (math.sqrt(total**2 - before**2) * (1.0 - 1e-12)))
    from skriemdp.privacy._events import ParallelEvent  # of a secret number of records only

    return count, ParallelEvent((fit, present(total)))
