"""The charges of a data set as a sequence that reads the ledger as it is asked."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from skriemdp.ledger.chain import Entry
from skriemdp.ledger.statements import Spend
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
        return map(self._spend, self._ledger.entries(self._dataset, self._partition))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = operator.index(index)
        place += len(self) if place < 0 else 0
        row = self._ledger.entry_at(self._dataset, self._partition, place) if place >= 0 else None
        if row is None:
            raise IndexError("the ledger has no such charge.")
        return self._spend(row)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} charges of data set {self._dataset!r}>"

    def _spend(self, row: Entry) -> Spend:
        return Spend(
            row.id,
            row.time,
            self._dataset,
            row.part,
            row.label,
            json.loads(row.params),
            json.loads(row.event or "{}"),
        )
