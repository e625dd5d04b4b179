"""What a private solver may know of a problem: its geometry, public bounds, and clipped sums of gradients."""

from __future__ import annotations

import abc
import dataclasses
import math

import numpy as np

from skriemdp.geometry.base import Geometry

__all__ = ["FrechetProblem", "Problem", "tiles"]

# Temporaries of a tile should stay in the second-level cache: larger tiles were slower on every
# machine measured, and make parallel workers fight for memory bandwidth (benchmarks/geometry.py).
_TILE_BYTES = 1 << 17


def tiles(n: int, bytes_per_row: int):
    """Slices that cut ``range(n)`` into pieces of about 128 KiB."""
    rows = max(1, _TILE_BYTES // max(1, bytes_per_row))
    for start in range(0, n, rows):
        yield slice(start, min(start + rows, n))


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

    def gradient_norm_bound(self, point) -> float:
        """Public bound of ``|grad f(point; z) - public_gradient(point)|`` over all records z."""
        return math.inf

    def gradient_diameter(self, point) -> float:
        """Public bound of ``|grad f(point; z) - grad f(point; z')|`` over all pairs of records."""
        return 2.0 * self.gradient_norm_bound(point)

    def public_gradient(self, point):
        """Known part of every record's gradient; zero unless the problem says otherwise."""
        return np.zeros(self.geometry.shape)

    def clipped_sum(self, point, clip_norm=math.inf, indices=None):
        """Sum over records of the gradient, each scaled to Riemannian norm <= `clip_norm`.

        Works tile by tile, so memory beyond the data is bounded.
        """
        count = self.n if indices is None else len(indices)
        total = np.zeros(self.geometry.shape)
        axes = tuple(range(1, self.geometry.point_ndim + 1))
        for piece in tiles(count, 8 * math.prod(self.geometry.shape)):
            chosen = piece if indices is None else indices[piece]
            gradients = self.gradients(point, chosen)
            if clip_norm < math.inf:
                norms = self.geometry.norm(point, gradients)
                scale = np.minimum(1.0, clip_norm / np.maximum(norms, np.finfo(float).tiny))
                gradients = gradients * np.expand_dims(scale, axes)
            total += gradients.sum(axis=0)
        return total


@dataclasses.dataclass(frozen=True, eq=False)
class FrechetProblem(Problem):
    """Half mean squared distance to points of a public ball; ``grad f(w; x) = -log_w x``.

    Parameters
    ----------
    ball : GeodesicBall
        Every row of `points` lies in it (the caller has projected).
    points : ndarray of shape (n, *shape)

    Notes
    -----
    With curvature at most kappa, ``log_w`` has Lipschitz constant ``s(rho) = rho / sin rho`` (in
    units of ``1/sqrt(kappa)``) on the ball of radius rho about w, and 1 when kappa <= 0, for every w
    (docs/theory/sensitivity.md).  Hence the diameter ``2 r s(r + d(w, c))``, no clipping needed.
    """

    ball: object
    points: np.ndarray

    @property
    def geometry(self):
        return self.ball.geometry

    @property
    def n(self):
        return len(self.points)

    def gradients(self, point, indices=None):
        chosen = self.points if indices is None else self.points[indices]
        return -self.geometry.log(point, chosen)

    def _lipschitz(self, point) -> float:
        from skriemdp.privacy.sensitivity import log_lipschitz

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
        if clip_norm < math.inf or indices is not None:
            return super().clipped_sum(point, clip_norm, indices)
        return -self.n * np.asarray(self.geometry.mean_log(point, self.points))
