"""Releases that are sums with noise and then a computation: what clients can do a part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from skriemdp._mechanisms.sum import Part
from skriemdp._mechanisms.units import Units

if TYPE_CHECKING:
    from skriemdp._core.estimator import Data, Plan, Terms


@runtime_checkable
class IntegerStatistic(Protocol):
    """Noisy sums over the records of a table, whose noise may be added to several tables' sum."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Its releases; they do not depend on a table's number of records."""
        ...

    def exact(self, records: Units) -> list[np.ndarray]:
        """The exact integers of each part over a table, without noise."""
        ...

    def decoded(self, noisy: np.ndarray) -> np.ndarray:
        """The noisy sums of noisy integers, as the statistic's ``noisy`` returns them."""
        ...


@runtime_checkable
class Additive(Protocol):
    """A private estimator that learns from noisy sums alone, where its bounds are public.

    Attributes
    ----------
    epsilon, delta : float
    accountant : PrivacyAccountant or None
    """

    epsilon: float
    delta: float
    accountant: Any

    def _records(self, data: Data) -> tuple:
        """Arrays with one row per record, from validated input."""
        ...

    def _additive_plan(self, facts: Any, terms: Terms) -> Plan[Any]:
        """A plan whose settings are noisy sums in public bounds; ValueError where there is none.

        ``settings.noisy(records, streams)`` are the sums over a table with noise for all of the
        planned event, one vector of ``settings.size`` numbers.  Sums over disjoint tables, each
        with noise of its own, add up to sums over all records.  `records` are the arrays of
        `_records` and whose rows they are, and ``streams("label")`` is the noise generator of a
        release.
        """
        ...

    def _learn(self, statistic: Any, noisy: np.ndarray, facts: Any, n_tables: float) -> None:
        """Set the learned attributes from noisy sums over n records.

        `n_tables` is the variance of their noise, in units of that of one table.
        """
        ...
