"""People who own several records, in sums of gradients over people.

The unit of privacy is then the group: all its rows, any number of them with any values and labels,
may be replaced at once.  Its contribution to every sum is computed from its own rows only, and is
bitwise the same whatever rows the others have and wherever they stand
(docs/theory/groups.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._descent.problem import Problem
from skriemdp._groups import Groups
from skriemdp._mechanisms.bounds import Ball
from skriemdp.geometry._base import Geometry


@dataclass(frozen=True, eq=False)
class GroupedProblem(Problem):
    """`problem` with groups for records: a group's gradient is the mean of its rows' gradients.

    Parameters
    ----------
    problem : Problem
        Its records are rows.
    groups : Groups
        Of the rows.

    Notes
    -----
    A mean of vectors lies in their convex hull.  So a ball that holds every row's gradient holds
    every group's, and two groups' gradients are no further apart than two rows' can be
    (docs/theory/groups.md).  Bounds are enforced on the mean, after averaging.
    """

    problem: Problem
    groups: Groups

    @property
    def geometry(self) -> Geometry:  # type: ignore[override]  # read-only here
        return self.problem.geometry

    @property
    def n(self) -> int:  # type: ignore[override]  # read-only here
        return self.groups.count

    @property
    def separate_rows(self) -> bool:
        return self.problem.separate_rows

    @property
    def one_by_one(self) -> bool:
        return False  # rows are, where it takes that

    @property
    def gradient_dim(self) -> int:
        return self.problem.gradient_dim

    @property
    def longest_piece(self) -> int:
        return self.problem.longest_piece

    def gradient_ball(self, point: np.ndarray) -> Ball:
        return self.problem.gradient_ball(point)

    def leave_gradients(self, point: np.ndarray, vector: np.ndarray) -> np.ndarray:
        return self.problem.leave_gradients(point, vector)

    def gradients(self, point: np.ndarray, indices: Any = None) -> np.ndarray:
        return self._means(lambda rows: self.problem.gradients(point, rows), indices)

    def gradient_coordinates(self, point: np.ndarray, indices: Any = None) -> np.ndarray:
        return self._means(lambda rows: self.problem.gradient_coordinates(point, rows), indices)

    def difference_coordinates(
        self, point: np.ndarray, anchor: np.ndarray, indices: Any = None
    ) -> np.ndarray:
        return self._means(
            lambda rows: self.problem.difference_coordinates(point, anchor, rows), indices
        )

    def _means(self, vectors: Any, indices: Any) -> np.ndarray:
        chosen = self.groups.select(indices)
        rows = [np.asarray(vectors(tile)) for tile in self._row_tiles(chosen.order)]
        return chosen.means(np.concatenate(rows))

    def _row_tiles(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        step = 1 if self.problem.one_by_one else max(1, self.problem.longest_piece)
        for begin in range(0, len(rows), step):
            yield rows[begin : begin + step]
