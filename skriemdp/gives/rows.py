"""What rows of a table give: themselves less a centre, and how long that is."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from skriemdp._arrays import row_squares
from skriemdp._dataclasses import dataclass
from skriemdp.gives.base import Give


@dataclass(frozen=True, eq=False)
class Centred(Give):
    """A row less a public or released centre."""

    center: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.center.shape

    def of(self, rows: Any, *rest: Any, beside: np.ndarray | None = None) -> Any:
        return np.asarray(rows.toarray() if issparse(rows) else rows) - self.center


@dataclass(frozen=True, eq=False)
class RowLength(Give):
    """Length of a row less a centre."""

    center: np.ndarray
    shape = ()

    def of(self, rows: Any, *rest: Any, beside: np.ndarray | None = None) -> Any:
        return np.sqrt(row_squares(Centred(self.center).of(rows)))
