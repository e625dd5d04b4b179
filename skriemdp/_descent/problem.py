"""Problems as private solvers see them: geometry, public bounds, sums in coordinates."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._mechanisms.bounded_sets import BoundedSet
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.sum import integer_total
from skriemdp._mechanisms.units import Blocks, Units
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.geometry._base import Geometry
from skriemdp.geometry._tiles import rows_per_block
from skriemdp.privacy._sensitivity import log_lipschitz


class Problem(abc.ABC):
    """An empirical risk ``F(w) = (1/n) sum_i f(w; record_i)`` on a geometry.

    Attributes
    ----------
    geometry : Geometry
    n : int
        Number of records, public.

    Notes
    -----
    `gradient_ball` is a public ball that holds every record's gradient.  It answers for full
    batches, where a record is replaced, and for Poisson batches, where it may also be absent and
    then counts as the centre (docs/theory/accounting.md).  The ball is enforced on what was
    computed, so a wrong logarithm costs accuracy and never privacy.
    """

    geometry: Geometry
    n: int

    @property
    def separate_rows(self) -> bool:
        """Whether what a record adds is bitwise the same in any batch and place."""
        return False

    @property
    def one_by_one(self) -> bool:
        """Whether records have to be asked for one at a time."""
        return not self.separate_rows

    @abc.abstractmethod
    def gradients(self, point: np.ndarray, indices: np.ndarray | slice | None = None) -> np.ndarray:
        """Riemannian gradient of each record at `point`, shape ``(b, *shape)``."""

    @property
    def gradient_dim(self) -> int:
        """Number of coordinates of one record's vector in a sum of gradients."""
        return self.geometry.dim

    @property
    def integers_of_a_step(self) -> int:
        """Number of coordinates of a sum of gradients, or of their differences; the larger one."""
        return max(self.gradient_dim, self.geometry.dim)

    def gradient_coordinates(
        self, point: np.ndarray, indices: np.ndarray | slice | None = None
    ) -> Any:
        """Orthonormal coordinates of :meth:`gradients`, shape ``(b, gradient_dim)``."""
        return self.geometry.coordinates_from_tangent(point, self.gradients(point, indices))

    def gradient_ball(self, point: np.ndarray) -> Ball:
        """Public ball that holds the coordinates of every record's gradient at `point`."""
        return Ball(math.inf)

    def clipped_gradient_ball(self, point: np.ndarray, clip_norm: float) -> Ball:
        """Public ball that holds them after each was clipped to `clip_norm`."""
        return self.gradient_ball(point).clipped(clip_norm)

    def leave_gradients(self, point: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """Coordinates of the tangent vector that a mean of `gradient_coordinates` stands for."""
        return vector

    @property
    def longest_piece(self) -> int:
        """Largest number of records in one of :meth:`pieces`; public."""
        return rows_per_block(self.geometry.shape)

    def pieces(self, indices: np.ndarray | None = None) -> Iterator[np.ndarray | slice]:
        """Cut the records (all, or the array `indices`) into blocks that fit in cache."""
        count = self.n if indices is None else len(indices)
        rows = 1 if self.one_by_one else self.longest_piece
        for begin in range(0, count, rows):
            piece = slice(begin, min(begin + rows, count))
            yield piece if indices is None else indices[piece]

    def vectors(
        self, indices: np.ndarray | None, point: np.ndarray, anchor: np.ndarray | None = None
    ) -> Iterator[np.ndarray]:
        """Gradients of the records `indices`, or their differences to those at `anchor`; blocks."""
        for piece in self.pieces(indices):
            if anchor is None:
                yield np.asarray(self.gradient_coordinates(point, piece))
            else:
                yield self.difference_coordinates(point, anchor, piece)

    def stacked(
        self, point: np.ndarray, anchor: np.ndarray | None = None, indices: np.ndarray | None = None
    ) -> np.ndarray:
        """:meth:`vectors` in one array."""
        return np.concatenate(list(self.vectors(indices, point, anchor)))

    def adder(self, indices: np.ndarray | None, *points: np.ndarray) -> Callable[..., np.ndarray]:
        """Return the function that adds up :meth:`vectors`, as `add` of a private sum."""
        return integer_total

    def integers(
        self, bounded_set: BoundedSet, steps: int, points: tuple, indices: np.ndarray | None = None
    ) -> np.ndarray:
        """Exact sum of :meth:`vectors`: the part of one of several parties."""
        units = Units((Blocks(lambda: self.vectors(indices, *points)),))
        return integer_total(units, lambda rows: rows, bounded_set, steps)

    def difference_coordinates(
        self, point: np.ndarray, anchor: np.ndarray, indices: np.ndarray | slice | None = None
    ) -> np.ndarray:
        """Coordinates at `point` of each gradient less the transported one at `anchor`."""
        geometry = self.geometry
        moved = geometry.transport(anchor, point, self.gradients(anchor, indices))
        difference = self.gradients(point, indices) - moved
        return np.asarray(geometry.coordinates_from_tangent(point, difference))


@dataclass(frozen=True, eq=False)
class FrechetProblem(Problem):
    """Half mean squared distance to points of a public ball; ``grad f(w; x) = -log_w x``.

    Parameters
    ----------
    ball : GeodesicBall
        Every row of `points` lies in it (the caller has projected).
    points : ndarray of shape (n, *shape)
    center_log_sum : ndarray of shape ``(dim,)``, optional
        Sum of the normal coordinates of `points` at the centre, none longer than the radius, where
        it is known already.
    cached_squares : ndarray of shape ``(n,)``, optional
        ``geometry.squares(points)``, where they are known already.
    center_rows : ndarray of shape ``(n, dim)``, optional
        Normal coordinates of `points` at the centre, where they are known already.

    Notes
    -----
    On a Hadamard manifold every ``log_w z`` lies within the radius r of the public ``log_w c``
    (triangles are thinner than flat ones).  With curvature at most kappa it lies within ``r s(r +
    d(w, c))``, ``s(x) = x / sin x`` in units of ``1/sqrt(kappa)`` (Rauch).  Both are proved in
    docs/theory/sensitivity.md; no clipping is needed.
    """

    ball: GeodesicBall
    points: np.ndarray
    center_log_sum: np.ndarray | None = None
    cached_squares: np.ndarray | None = None
    center_rows: np.ndarray | None = None

    @classmethod
    def from_records(
        cls,
        ball: GeodesicBall,
        records: np.ndarray,
        cached_logs: np.ndarray | None = None,
        distances: np.ndarray | None = None,
        squares: np.ndarray | None = None,
    ) -> tuple[FrechetProblem, int]:
        """The problem of `records` projected on `ball`, and how many lay outside; one pass.

        `cached_logs` are the records' normal coordinates at the centre, which the problem keeps,
        `distances` theirs to it, and `squares` those of the geometry, where there are some already.
        """
        if not ball.geometry.separate_rows:  # nobody's point may depend on those beside it
            alone = [
                ball.project_with_log_sum(
                    row, None if cached_logs is None else cached_logs[i : i + 1]
                )[:2]
                for i, row in enumerate(records[:, None])
            ]
            if not alone:
                return cls(ball, records), 0
            points, counts = zip(*alone, strict=True)
            return cls(ball, np.concatenate(points)), sum(counts)
        if cached_logs is None and ball.geometry.quick_distances:
            points, outside = ball.project_and_count(records, distances)
            return cls(ball, points, None, None if outside else squares), outside
        points, outside, log_sum = ball.project_with_log_sum(records, cached_logs)
        return cls(ball, points, log_sum, None, cached_logs), outside

    @property
    def geometry(self) -> Geometry:  # type: ignore[override]  # read-only here
        return self.ball.geometry

    @property
    def separate_rows(self) -> bool:
        return bool(self.geometry.separate_rows)

    @property
    def n(self) -> int:  # type: ignore[override]  # read-only here
        return len(self.points)

    def gradients(self, point: np.ndarray, indices: np.ndarray | slice | None = None) -> np.ndarray:
        chosen = self.points if indices is None else self.points[indices]
        return -self.geometry.log(point, chosen)

    def gradient_coordinates(
        self, point: np.ndarray, indices: np.ndarray | slice | None = None
    ) -> np.ndarray:
        chosen = self.points if indices is None else self.points[indices]
        return -np.asarray(self.geometry.log_coordinates(point, chosen))

    def gradient_ball(self, point: np.ndarray) -> Ball:
        return self.clipped_gradient_ball(point, math.inf)

    def clipped_gradient_ball(self, point: np.ndarray, clip_norm: float) -> Ball:
        if self._curvature[0] and clip_norm <= self.ball.radius:
            return Ball(clip_norm)  # whatever the centre is
        center, distance = None, 0.0
        if not np.array_equal(point, self.ball.center):
            center = -np.asarray(self.geometry.log_coordinates(point, self.ball.center))
            distance = math.sqrt(center @ center)
        # No record of the ball is further from the point, so none has a longer logarithm.
        reach = distance + self.ball.radius
        radius = self.ball.radius * self._lipschitz(reach)
        if radius == math.inf:
            return Ball(math.inf).clipped(clip_norm)
        ball = Ball(radius, center)
        return ball if max(radius, reach) <= clip_norm else ball.clipped(clip_norm)

    def _lipschitz(self, reach: float) -> float:
        """Lipschitz constant of ``log_w`` on the ball of radius `reach` around w."""
        is_hadamard, kappa, injectivity_radius = self._curvature
        if is_hadamard:
            return 1.0
        if kappa * reach**2 >= math.pi**2 or reach >= injectivity_radius:
            return math.inf
        return log_lipschitz(kappa, reach)

    @functools.cached_property
    def squares(self) -> np.ndarray | None:
        """``geometry.squares(points)``."""
        known = self.cached_squares
        return self.geometry.squares(self.points) if known is None else known

    @functools.cached_property
    def _curvature(self) -> tuple[bool, float, float]:
        geometry = self.geometry
        return geometry.is_hadamard, geometry.curvature_bounds[1], geometry.injectivity_radius
