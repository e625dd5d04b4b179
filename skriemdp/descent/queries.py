"""One bounded vector per record, in orthonormal coordinates: the sums that a private step asks for.

A query names a public ball, and every record's vector is moved into it as the last thing that
happens to it.  What is summed, what gets noise and what is divided are coordinates; points and
tangent vectors appear before and after, and their rounding cannot reach the sum's sensitivity.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._validation import check_positive
from skriemdp.geometry._tiles import block_length, tiles
from skriemdp.geometry.base import Geometry
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.held import Held, ball
from skriemdp.mechanisms.sum import Noisy, integer_total, private_sum
from skriemdp.mechanisms.units import Blocks, Units

if TYPE_CHECKING:
    from skriemdp.descent.problem import Problem


__all__ = ["DifferenceQuery", "GradientQuery", "LogarithmQuery", "Query"]


class Query(abc.ABC):
    """A vector ``v(record)`` at one public point, and what is known of it in advance.

    Attributes
    ----------
    geometry : Geometry
    n : int
        Number of records.
    point : ndarray of shape ``geometry.shape``
        Public or released.
    bound : Ball
        Public; every record's vector is moved into it.
    dim : int
        Number of coordinates of v.
    longest_block : int
        Most records that are summed before their sum joins the total; public.
    """

    geometry: Geometry
    n: int
    point: Any
    bound: Any
    dim: int
    longest_block: int

    @abc.abstractmethod
    def blocks(self, indices: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Coordinates of v, ``(b, dim)``, of the records `indices` (None: all), block by block.

        Row i depends on record i and public numbers only.
        """

    @property
    def held(self) -> Held:
        """The set that holds v, offset from the centre of `bound`."""
        return ball(self.bound, self.dim)

    def noisy(
        self, mu: float, rng: np.random.Generator, indices: np.ndarray | None = None
    ) -> Noisy:
        """Noisy sum of the offsets over the records `indices` (None: all)."""
        units = Units((Blocks(lambda: self.blocks(indices)),))
        return private_sum(units, lambda rows: rows, self.held, mu, rng, self._adder(indices))

    def _adder(self, indices: np.ndarray | None) -> Callable[..., np.ndarray]:
        return integer_total

    def total(self, indices: np.ndarray | None = None) -> np.ndarray:
        """Sum over the records `indices` of their offsets from the centre of `bound`."""
        total = np.zeros(self.dim)
        for rows in self.blocks(indices):
            total += self.bound.enforce(rows).sum(axis=0)
        return total

    def leave(self, vector: np.ndarray) -> np.ndarray:
        """Coordinates of the tangent vector that a noisy mean of v stands for (post-processing)."""
        return vector


class GradientQuery(Query):
    """The gradients of `problem` at `point`, each shortened to norm <= `clip_norm`.

    Shortening is the metric projection on a ball of the tangent space, hence 1-Lipschitz.  So
    clipped gradients lie within the smaller of `clip_norm` and the radius of the problem's own
    ball of a public vector: zero, or that ball's centre, shortened (docs/theory/optimisation.md,
    section 2).
    """

    def __init__(self, problem: Problem, point: np.ndarray, clip_norm: float = math.inf):
        self.problem, self.point, self.clip_norm = problem, point, clip_norm
        self.geometry, self.n = problem.geometry, problem.n
        self.dim, self.longest_block = problem.gradient_dim, problem.longest_piece
        self.bound = problem.clipped_gradient_ball(point, clip_norm)

    def _adder(self, indices: np.ndarray | None) -> Callable[..., np.ndarray]:
        return self.problem.adder(indices, self.point)

    def blocks(self, indices: np.ndarray | None = None) -> Iterator[np.ndarray]:
        return self.problem.vectors(indices, self.point)

    def total(self, indices: np.ndarray | None = None) -> np.ndarray:
        return self.problem.gradient_sum(self.point, self.bound, indices)

    def leave(self, vector: np.ndarray) -> np.ndarray:
        return self.problem.leave_gradients(self.point, vector)


class LogarithmQuery(Query):
    """Logarithms of the records at `point`, each shortened to a public norm.

    With ``radius`` that of a geodesic ball about `point` this is the logarithm of the record's
    projection on that ball, on any manifold.

    Parameters
    ----------
    geometry : Geometry
    point : ndarray of shape ``geometry.shape``
    radius : float
    points : ndarray of shape ``(n, *geometry.shape)``
        The records.
    """

    def __init__(self, geometry: Geometry, point: np.ndarray, radius: float, points: np.ndarray):
        self.geometry, self.point, self.points = geometry, point, points
        self.n, self.dim, self.bound = len(points), geometry.dim, Ball(radius)
        self.longest_block = block_length(points)

    def blocks(self, indices: np.ndarray | None = None) -> Iterator[np.ndarray]:
        for block in tiles(self.points if indices is None else self.points[indices]):
            yield np.asarray(self.geometry.log_coordinates(self.point, block))


class DifferenceQuery(Query):
    """Clipped differences ``grad f(point) - transport(grad f(anchor))``, tangent at `point`."""

    def __init__(self, problem: Problem, point: np.ndarray, anchor: np.ndarray, clip_norm: float):
        check_positive(clip_norm=clip_norm)
        self.problem, self.point, self.anchor = problem, point, anchor
        self.clip_norm = clip_norm
        self.geometry, self.n = problem.geometry, problem.n
        self.dim, self.longest_block = problem.geometry.dim, problem.longest_piece
        self.bound = Ball(clip_norm)

    def blocks(self, indices: np.ndarray | None = None) -> Iterator[np.ndarray]:
        return self.problem.vectors(indices, self.point, self.anchor)

    def _adder(self, indices: np.ndarray | None) -> Callable[..., np.ndarray]:
        return self.problem.adder(indices, self.point, self.anchor)

    def total(self, indices: np.ndarray | None = None) -> np.ndarray:
        return self.problem.difference_sum(self.point, self.anchor, self.bound, indices)
