"""What charges come to if their list had been fixed in advance: composition, no filter."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from skriemdp.privacy.events import Event, SelfComposedEvent, compose, event_from_dict

__all__ = ["charge_lists", "together", "total_epsilon"]


def charge_lists(counts: Mapping[str, Iterable[tuple[str, str, int]]]) -> set[frozenset]:
    """The lists of charges, of which each record is concerned by one.

    Parameters
    ----------
    counts : dict of iterables of (part, event, count)
        Of each undivided data set that the records belong to; events as JSON.

    Returns
    -------
    set of frozenset of (event, count)
        One for each partition, common charges included; never empty.
    """
    common: Counter[str] = Counter()
    parts: dict[str, Counter[str]] = {}
    for rows in counts.values():
        for part, event, count in rows:
            # Partitions of different parts of a budget may hold the same records.
            apart = part and len(counts) == 1
            (parts.setdefault(part, Counter()) if apart else common)[event] += count
    lists = {frozenset((common + own).items()) for own in parts.values()}
    return lists or {frozenset(common.items())}


@lru_cache(maxsize=256)
def together(charges: frozenset) -> Event:
    """One event for a list of (event as JSON, count), which must not be empty."""
    return compose([_repeat(json.loads(event), count) for event, count in sorted(charges)])


@lru_cache(maxsize=256)
def total_epsilon(charges: frozenset, delta: float) -> float:
    """The smallest proved epsilon of a list of charges at `delta`."""
    if not charges:
        return 0.0
    total = together(charges)
    pure = total.renyi(math.inf) if total.extra_delta == 0 else math.inf
    return min(float(total.epsilon(delta)), pure) if delta > 0 or pure == math.inf else pure


def _repeat(event: dict, count: int) -> Event:
    single = event_from_dict(event)
    return single if count == 1 else SelfComposedEvent(single, count)
