"""What charges come to if their list had been fixed in advance: composition, no filter."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from skriemdp.privacy.events import Event, SelfComposedEvent, compose, event_from_dict

__all__ = ["Tallies", "charge_lists", "together", "total_epsilon"]


# Number of charges by (partition, event as JSON, how many times each counts where all other
# clients of secure sums work with the server).
Tallies = Mapping[tuple[str, str, int], int]


def charge_lists(tallies: Sequence[Tallies], alone: bool = False) -> list[frozenset]:
    """The lists of charges, of which each record is concerned by one; empty ones are left out.

    Parameters
    ----------
    tallies : sequence of Tallies
        Of each undivided data set that the records belong to.
    alone : bool
        As if all other clients of secure sums worked with the server.

    Returns
    -------
    list of frozenset of (event, count)
        One for each partition, common charges included.
    """
    common: Counter[str] = Counter()
    parts: dict[str, Counter[str]] = {}
    for found in tallies:
        for (part, event, shares), count in found.items():
            # Partitions of different parts of a budget may hold the same records.
            apart = part and len(tallies) == 1
            mine = parts.setdefault(part, Counter()) if apart else common
            mine[event] += count * (shares if alone else 1)
    lists = {frozenset((common + own).items()) for own in (parts or {"": Counter()}).values()}
    return [charges for charges in lists if charges]


@lru_cache(maxsize=256)
def together(charges: frozenset) -> Event:
    """One event for a list of (event as JSON, count), which must not be empty."""
    singles = ((event_from_dict(json.loads(event)), count) for event, count in sorted(charges))
    return compose([one if n == 1 else SelfComposedEvent(one, n) for one, n in singles])


def total_epsilon(lists: Sequence[frozenset], delta: float) -> float:
    """The smallest proved epsilon of the worst list of charges at `delta`."""
    return max((_epsilon(charges, delta) for charges in lists), default=0.0)


@lru_cache(maxsize=256)
def _epsilon(charges: frozenset, delta: float) -> float:
    total = together(charges)
    pure = total.renyi(math.inf) if total.extra_delta == 0 else math.inf
    return min(float(total.epsilon(delta)), pure) if delta > 0 or pure == math.inf else pure
