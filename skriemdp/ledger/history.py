"""The charges of a data set as a sequence that reads the ledger as it is asked."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

from skriemdp.ledger.statements import Spend, spend_of
from skriemdp.ledger.storage import Ledger

__all__ = ["History"]


class History(Sequence):
    """The charges of one data set, oldest first, as they are in the file when asked.

    Parameters
    ----------
    ledger : Ledger
    dataset : str
    partition : str or None
        None: all charges; else the common ones and those of this partition.
    """

    def __init__(self, ledger: Ledger, dataset: str, partition: str | None = None):
        self._ledger, self._dataset, self._partition = ledger, dataset, partition

    def __len__(self) -> int:
        return self._ledger.count(self._dataset, self._partition)

    def __iter__(self) -> Iterator[Spend]:
        return (
            spend_of(row, self._dataset)
            for row in self._ledger.entries(self._dataset, self._partition)
        )

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = operator.index(index)
        place += len(self) if place < 0 else 0
        row = self._ledger.entry_at(self._dataset, self._partition, place) if place >= 0 else None
        if row is None:
            raise IndexError("the ledger has no such charge.")
        return spend_of(row, self._dataset)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} charges of data set {self._dataset!r}>"
