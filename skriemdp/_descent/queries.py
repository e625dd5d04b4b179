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

from skriemdp._mechanisms.bounded_sets import VectorSet, ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.sum import PLAIN_STEPS, Noisy, integer_total, private_sum
from skriemdp._mechanisms.units import Blocks, Units
from skriemdp._validation import check_positive
from skriemdp.geometry._base import Geometry
from skriemdp.geometry._tiles import tiles

if TYPE_CHECKING:
    from skriemdp._descent.problem import Problem


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
    """

    geometry: Geometry
    n: int
    point: Any
    bound: Any
    dim: int

    @abc.abstractmethod
    def blocks(self, indices: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Coordinates of v, ``(b, dim)``, of the records `indices` (None: all), block by block.

        Row i depends on record i and public numbers only.
        """

    @property
    def bounded_set(self) -> VectorSet:
        """The set that holds v, offset from the centre of `bound`."""
        return ball(self.bound, self.dim)

    def noisy(
        self, mu: float, rng: np.random.Generator, indices: np.ndarray | None = None
    ) -> Noisy:
        """Noisy sum of the offsets over the records `indices` (None: all)."""
        units, add = self._units(indices), self._adder(indices)
        return private_sum(units, _as_it_is, self.bounded_set, mu, rng, add)

    def exact(self, indices: np.ndarray | None = None) -> np.ndarray:
        """The sum without noise: not private."""
        units, add, bounded_set = self._units(indices), self._adder(indices), self.bounded_set
        return bounded_set.value(add(units, _as_it_is, bounded_set, PLAIN_STEPS), PLAIN_STEPS)

    def _units(self, indices: np.ndarray | None) -> Units:
        return Units((Blocks(lambda: self.blocks(indices)),))

    def _adder(self, indices: np.ndarray | None) -> Callable[..., np.ndarray]:
        return integer_total

    def leave(self, vector: np.ndarray) -> np.ndarray:
        """Coordinates of the tangent vector that a noisy mean of v stands for (post-processing)."""
        return vector


def _as_it_is(rows: Any) -> Any:
    return rows


class GradientQuery(Query):
    """The gradients of `problem` at `point`, each clipped to norm <= `clip_norm`.

    Shortening is the metric projection on a ball of the tangent space, hence 1-Lipschitz.  So
    clipped gradients lie within the smaller of `clip_norm` and the radius of the problem's own
    ball of a public vector: zero, or that ball's centre, shortened (docs/theory/optimisation.md,
    section 2).  `add` says who adds them, as for a private sum; the problem by default.
    """

    def __init__(
        self,
        problem: Problem,
        point: np.ndarray,
        clip_norm: float = math.inf,
        add: Callable[..., np.ndarray] | None = None,
    ):
        self.problem, self.point, self.clip_norm, self._add = problem, point, clip_norm, add
        self.geometry, self.n, self.dim = problem.geometry, problem.n, problem.gradient_dim
        self.bound = problem.clipped_gradient_ball(point, clip_norm)
        self._points: tuple[np.ndarray, ...] = (point,)

    def _adder(self, indices: np.ndarray | None) -> Callable[..., np.ndarray]:
        return self._add or self.problem.adder(indices, *self._points)

    def blocks(self, indices: np.ndarray | None = None) -> Iterator[np.ndarray]:
        return self.problem.vectors(indices, *self._points)

    def leave(self, vector: np.ndarray) -> np.ndarray:
        return self.problem.leave_gradients(self.point, vector)


class LogarithmQuery(Query):
    """Logarithms of the records at `point`, each clipped to a public norm.

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

    def blocks(self, indices: np.ndarray | None = None) -> Iterator[np.ndarray]:
        points = self.points if indices is None else self.points[indices]
        alone = (points[i : i + 1] for i in range(len(points)))
        for block in tiles(points) if self.geometry.separate_rows else alone:
            yield np.asarray(self.geometry.log_coordinates(self.point, block))


class DifferenceQuery(GradientQuery):
    """Clipped differences ``grad f(point) - transport(grad f(anchor))``, tangent at `point`."""

    def __init__(self, problem: Problem, point: np.ndarray, anchor: np.ndarray, clip_norm: float):
        check_positive(clip_norm=clip_norm)
        self.problem, self.point, self.clip_norm, self._add = problem, point, clip_norm, None
        self.geometry, self.n, self.dim = problem.geometry, problem.n, problem.geometry.dim
        self.bound, self._points = Ball(clip_norm), (point, anchor)

    def leave(self, vector: np.ndarray) -> np.ndarray:
        return vector
