"""People who own several records: a mean of their own, and sums over people.

The unit of privacy is then the group: all its rows, any number of them with any values and labels,
may be replaced at once.  Its contribution to every sum is computed from its own rows only, and is
the same to the last bit whatever rows the others have and wherever they stand
(docs/theory/groups.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from skriemdp._dataclasses import dataclass
from skriemdp._groups import Groups
from skriemdp.descent.problem import Problem
from skriemdp.geometry.base import Geometry
from skriemdp.mechanisms.bounds import Ball

__all__ = ["GroupedProblem", "local_means"]

# Steps of a local mean: after ten, rows within .4 of each other are 1e-11 from converged
# (tests/test_groups.py).  A fixed number, so that running time says nothing about a person's rows.
_STEPS = 10


def local_means(geometry: Geometry, points: Any, groups: Groups) -> np.ndarray:
    """Fréchet mean of each group's own points, shape ``(n_groups, *shape)``.

    Ten steps of gradient descent from the group's first point, with step lengths of its own; no
    group's number of steps or result depends on another's rows.  A step that leaves the manifold
    is not taken.

    Where the logarithms of a geometry are iterated together until all have converged, a group's
    mean would tell of the others': there the groups are computed one at a time.
    """
    if not geometry.separate_rows and groups.count > 1:
        each = (groups.select(np.array([k])) for k in range(groups.count))
        return np.concatenate([local_means(geometry, points, group) for group in each])
    points = np.asarray(points)[groups.order]
    owners = groups.owners()
    first = points[groups.starts]
    current, axes = first, (1,) * (first.ndim - 1)
    steps, previous = np.ones(groups.count), np.full(groups.count, np.inf)
    with np.errstate(all="ignore"):
        for _ in range(_STEPS):
            base = current[owners] if groups.count > 1 else current[0]
            velocity = groups.means(geometry.log(base, points))
            sizes = np.asarray(geometry.norm(current, velocity))
            # Strong negative curvature overshoots with full steps; halving restores contraction.
            steps = np.where(sizes > 0.7 * previous, np.maximum(steps / 2.0, 1.0 / 64.0), steps)
            previous = sizes
            moved = np.asarray(geometry.exp(current, steps.reshape(-1, *axes) * velocity))
            inside = np.asarray(geometry.belongs(moved)).reshape(-1, *axes)
            current = np.where(inside, moved, current)
    return current


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
