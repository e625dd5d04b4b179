"""What a private solver may know of a problem: geometry, public bounds, clipped sums."""

from __future__ import annotations

import abc
import dataclasses
import math

import numpy as np

from skriemdp.geometry._tiles import block_length, tiles
from skriemdp.geometry.ball import GeodesicBall
from skriemdp.geometry.base import Geometry, clip_scale, summand_scale
from skriemdp.privacy.sensitivity import log_lipschitz

__all__ = ["FrechetProblem", "Problem", "clipped_total", "clipped_vectors"]


# Distance, in units of the largest negative curvature, up to which logarithms are accurate to about
# nine digits also for SPD matrices, whose condition number grows like its exponential, squared.
_ACCURATE_REACH = 8.0


class Problem(abc.ABC):
    """An empirical risk ``F(w) = (1/n) sum_i f(w; record_i)`` on a geometry.

    Attributes
    ----------
    geometry : Geometry
    n : int
        Number of records, public.

    Notes
    -----
    The two public bounds answer different questions and are kept apart (docs/theory/accounting.md):
    `gradient_diameter` bounds the difference of two records' gradients, which is enough when a
    record is always in the sum (full batch, fixed-size sampling); Poisson sampling compares a
    record with its absence and needs `gradient_norm_bound`.
    """

    geometry: Geometry
    n: int

    @abc.abstractmethod
    def gradients(self, point, indices=None):
        """Riemannian gradient of each record at `point`, shape ``(b, *shape)``."""

    def gradient_coordinates(self, point, indices=None):
        """Orthonormal coordinates of :meth:`gradients`, shape ``(b, dim)``."""
        return self.geometry.coordinates_from_tangent(point, self.gradients(point, indices))

    def gradient_norm_bound(self, point) -> float:
        """Public bound of ``|grad f(point; z) - public_gradient(point)|`` over all records z."""
        return math.inf

    def gradient_diameter(self, point) -> float:
        """Public bound of ``|grad f(point; z) - grad f(point; z')|`` over all pairs of records."""
        return 2.0 * self.gradient_norm_bound(point)

    def public_gradient(self, point):
        """Known part of every record's gradient; zero unless the problem says otherwise."""
        return np.zeros(self.geometry.shape)

    def pieces(self, indices=None):
        """Cut the records (all, or the array `indices`) into blocks that fit in cache."""
        count = self.n if indices is None else len(indices)
        rows = block_length(np.empty((0, *self.geometry.shape)))
        for begin in range(0, count, rows):
            piece = slice(begin, min(begin + rows, count))
            yield piece if indices is None else indices[piece]

    def clipped_sum(self, point, clip_norm=math.inf, indices=None):
        """Sum over records of the gradient, each scaled to Riemannian norm <= `clip_norm`.

        Works tile by tile, so memory beyond the data is bounded.
        """
        total = np.zeros(self.geometry.shape)
        for piece in self.pieces(indices):
            total += clipped_total(self.geometry, point, self.gradients(point, piece), clip_norm)
        return total

    def clipped_difference_sum(self, point, anchor, clip_norm, indices=None):
        """Sum of ``grad f(point) - transport(grad f(anchor))``, each scaled like `clipped_sum`."""
        geometry, total = self.geometry, np.zeros(self.geometry.shape)
        for piece in self.pieces(indices):
            moved = geometry.transport(anchor, point, self.gradients(anchor, piece))
            difference = self.gradients(point, piece) - moved
            total += clipped_total(geometry, point, difference, clip_norm)
        return total


def clipped_total(geometry, point, vectors, clip_norm):
    """Sum of tangent vectors ``(b, *shape)``, each scaled to Riemannian norm <= `clip_norm`."""
    scale, vectors = clipped_vectors(geometry, point, vectors, clip_norm)
    with np.errstate(all="ignore"):
        return (scale @ vectors.reshape(len(vectors), -1)).reshape(vectors.shape[1:])


def clipped_vectors(geometry, point, vectors, clip_norm):
    """Factors ``(b,)`` and the finite vectors that they shorten to norm <= `clip_norm`.

    A vector whose norm is not finite counts as zero: one record must not be able to spoil a sum.
    """
    with np.errstate(all="ignore"):
        norms = geometry.norm(point, vectors)
        scale = clip_scale(np, norms, clip_norm)
        if not math.isfinite(norms.sum()):
            usable = np.isfinite(norms)
            scale = np.where(usable, scale, 0.0)
            vectors = np.where(np.isfinite(vectors), vectors, 0.0)
        return scale, vectors


@dataclasses.dataclass(frozen=True, eq=False)
class FrechetProblem(Problem):
    """Half mean squared distance to points of a public ball; ``grad f(w; x) = -log_w x``.

    Parameters
    ----------
    ball : GeodesicBall
        Every row of `points` lies in it (the caller has projected).
    points : ndarray of shape (n, *shape)
    center_log_sum : ndarray of shape ``shape``, optional
        Sum of ``log(center, points)`` where it is known already.

    Notes
    -----
    With curvature at most kappa, ``log_w`` has Lipschitz constant ``s(rho) = rho / sin rho`` (in
    units of ``1/sqrt(kappa)``) on the ball of radius rho about w, and 1 when kappa <= 0, for all w
    (docs/theory/sensitivity.md).  Hence the diameter ``2 r s(r + d(w, c))``, no clipping needed.
    """

    ball: GeodesicBall
    points: np.ndarray
    center_log_sum: np.ndarray | None = None

    @classmethod
    def from_records(cls, ball, records):
        """The problem of `records` projected on `ball`, and how many lay outside; one pass."""
        points, outside, log_sum = ball.project_with_log_sum(records)
        return cls(ball, points, log_sum), outside

    @classmethod
    def from_separate_records(cls, ball, records):
        """As :meth:`from_records`; no record influences another's computed projection."""
        points, outside = ball.project_in_place(records)
        return cls(ball, points), outside

    @property
    def geometry(self):
        return self.ball.geometry

    @property
    def n(self):
        return len(self.points)

    def gradients(self, point, indices=None):
        chosen = self.points if indices is None else self.points[indices]
        if self._loses_digits(point):
            coordinates = self._guarded_coordinates(point, chosen)
            return -np.asarray(self.geometry.tangent_from_coordinates(point, coordinates))
        return -self.geometry.log(point, chosen)

    def gradient_coordinates(self, point, indices=None):
        chosen = self.points if indices is None else self.points[indices]
        return -np.asarray(self.geometry.log_coordinates(point, chosen))

    def _lipschitz(self, point) -> float:
        kappa = self.geometry.curvature_bounds[1]
        if self.geometry.is_hadamard:
            return 1.0
        reach = float(self.geometry.dist(self.ball.center, point)) + self.ball.radius
        if kappa * reach**2 >= math.pi**2 or reach >= self.geometry.injectivity_radius:
            return math.inf
        return log_lipschitz(kappa, reach)

    def gradient_diameter(self, point) -> float:
        return 2.0 * self.ball.radius * self._lipschitz(point)

    def gradient_norm_bound(self, point) -> float:
        return self.ball.radius * self._lipschitz(point)

    def public_gradient(self, point):
        return -self.geometry.log(point, self.ball.center)

    def clipped_sum(self, point, clip_norm=math.inf, indices=None):
        whole = indices is None
        # At the centre no logarithm is longer than the radius, and the sum is known already.
        known = whole and self.center_log_sum is not None and clip_norm >= self.ball.radius
        if known and np.array_equal(point, self.ball.center):
            return -np.asarray(self.center_log_sum)
        chosen = self.points if whole else self.points[indices]
        if self._loses_digits(point):
            return self._guarded_sum(point, clip_norm, chosen)
        return -np.asarray(self.geometry.clipped_log_sum(point, chosen, clip_norm))

    def _loses_digits(self, point) -> bool:
        """Whether logarithms at `point` may be wrong by more than rounding; public."""
        low = self.geometry.curvature_bounds[0]
        if not -math.inf < low < 0.0 or not math.isfinite(self._lipschitz(point)):
            return False
        reach = float(self.geometry.dist(self.ball.center, point)) + self.ball.radius
        return not math.sqrt(-low) * reach <= _ACCURATE_REACH

    def _guarded_coordinates(self, point, chosen):
        # Records lie within `gradient_norm_bound` of a public vector, and computed ones that do
        # not are moved there: the bounds then hold for what is computed, however inaccurate.
        geometry, bound = self.geometry, self.gradient_norm_bound(point)
        public = np.asarray(geometry.log_coordinates(point, self.ball.center))
        with np.errstate(all="ignore"):
            moves = np.asarray(geometry.log_coordinates(point, chosen)) - public
            norms = np.linalg.norm(moves, axis=-1)
            scale, (moves,) = summand_scale(np, norms, bound, moves)
            return public + scale[:, None] * moves

    def _guarded_sum(self, point, clip_norm, chosen):
        total = np.zeros(self.geometry.dim)
        for block in tiles(chosen):
            logarithms = self._guarded_coordinates(point, block)
            norms = np.linalg.norm(logarithms, axis=-1)
            total += clip_scale(np, norms, clip_norm) @ logarithms
        return -np.asarray(self.geometry.tangent_from_coordinates(point, total))
