"""The meaning of an epsilon for a test of "this record, or that one?" on the releases.

A release that is (x, delta(x))-private for every x bounds such a test: where it raises false alarms
at rate a, it finds at most ``min over x of e^x a + delta(x)``, and by the same inequality for the
opposite answers at most ``1 - e^-x (1 - a - delta(x))`` (Wasserman and Zhou 2010; Kairouz, Oh and
Viswanath 2015).  Every x gives a true bound, so a grid loses sharpness and never truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

# Rates of false alarms that a page shows.
ALARMS = (0.001, 0.01, 0.05, 0.1)
# From this epsilon on the page calls a guarantee weak.
WEAK = 3.0
_ROUND_UP = 1.0 + 1e-12

Profile = tuple[Iterable[float], Callable[[float], float]]


def pair(epsilon: float, delta: float) -> Profile:
    """The profile of a bare (epsilon, delta): one point."""
    return (epsilon,), lambda x: delta


def profile_of(delta_at: Callable[[float], float], epsilon: float) -> Profile:
    """The profile of a release, looked at from 0 to a little beyond its epsilon."""
    reach = 1.5 * epsilon if 0.0 < epsilon < 50.0 else 50.0
    return tuple(np.linspace(0.0, reach, 65).tolist()), delta_at


def found_at_most(alarm: float, profile: Profile) -> float:
    """Largest probability with which any test finds a record, at a rate of false alarms.

    Parameters
    ----------
    alarm : float
        Probability, in [0, 1], that the test says "this record" where it is that one.
    profile : tuple of (points, function)
        Epsilons to look at, and delta as a function of epsilon.

    Examples
    --------
    >>> from skriemdp.page._meaning import found_at_most, pair
    >>> round(found_at_most(0.01, pair(1.0, 1e-6)), 4)
    0.0272
    """
    best = 1.0
    points, delta_at = profile
    for x in points:
        delta = delta_at(x)
        rising = math.exp(min(x, 700.0)) * alarm + delta
        falling = 1.0 - math.exp(-x) * (1.0 - alarm - delta)
        best = min(best, _ROUND_UP * rising, _ROUND_UP * falling)
    return max(best, 0.0)


def guessed_at_most(profile: Profile) -> float:
    """Largest share of right guesses where both records are equally likely beforehand.

    Examples
    --------
    >>> from skriemdp.page._meaning import guessed_at_most, pair
    >>> round(guessed_at_most(pair(1.0, 1e-6)), 3)
    0.731
    """
    points, delta_at = profile
    # Half the sum of right answers is at most (e^x + delta) / (1 + e^x), whatever the x.
    bounds = [(1.0 + math.exp(-x) * delta_at(x)) / (1.0 + math.exp(-x)) for x in points]
    return min([1.0, *(_ROUND_UP * bound for bound in bounds)])
