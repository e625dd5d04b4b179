"""The number of records, released before everything else where it is secret."""

from __future__ import annotations

import math

from skriemdp.mechanisms.counts import GaussianCount
from skriemdp.privacy.events import GaussianEvent

__all__ = ["count_before"]


def count_before(mu: float, left: float) -> tuple[GaussianCount, GaussianEvent]:
    """The noise of the count, and what it and a mu-GDP fit after it cost together.

    *Guarantee*: the event, if the fit leaves the part `left` of mu**2 where a record is added or
    removed (docs/theory/presence.md, Corollary 3).
    """
    return GaussianCount(1.0 / (mu * math.sqrt(left))), GaussianEvent(1.0 / mu)
