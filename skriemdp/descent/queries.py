"""Per-record tangent vectors with public bounds: the sums that a private step may release."""

from __future__ import annotations

import abc
import math
from typing import Any

import numpy as np

from skriemdp._validation import check_positive
from skriemdp.geometry.base import Geometry, clip_scale

__all__ = ["DifferenceQuery", "GradientQuery", "Query"]


class Query(abc.ABC):
    """A tangent vector ``v(record)`` at one public point, and what is known of it in advance.

    Attributes
    ----------
    geometry : Geometry
    n : int
        Number of records.
    point : ndarray of shape ``geometry.shape``
        Public or released.
    """

    geometry: Geometry
    n: int
    point: Any

    @abc.abstractmethod
    def total(self, indices=None):
        """Sum of v over the records `indices`, over all of them for None."""

    @abc.abstractmethod
    def diameter(self) -> float:
        """Bound of ``|v(z) - v(z')|`` over pairs: enough when the number of summands is fixed."""

    @abc.abstractmethod
    def enclosing_ball(self):
        """Public ``(center, radius)`` with ``|v(z) - center| <= radius`` for every record z.

        Poisson sampling needs it.  A center of None stands for zero.
        """


class GradientQuery(Query):
    """The gradients of `problem` at `point`, each scaled to norm <= `clip_norm`.

    Clipping to norm c is the metric projection on a ball of the tangent space, hence 1-Lipschitz.
    So clipped gradients differ by at most ``min(2 c, gradient_diameter)``, and lie within
    ``min(c, gradient_norm_bound)`` of a public vector: zero, or the clipped `public_gradient`
    (docs/theory/optimisation.md, section 2).
    """

    def __init__(self, problem, point, clip_norm: float = math.inf):
        self.problem, self.point, self.clip_norm = problem, point, clip_norm
        self.geometry, self.n = problem.geometry, problem.n

    def total(self, indices=None):
        return self.problem.clipped_sum(self.point, self.clip_norm, indices)

    def coordinate_blocks(self):
        """Orthonormal coordinates of the records' vectors, in blocks ``(b, dim)``.

        Row i depends on record i and the point only.
        """
        for piece in self.problem.pieces():
            rows = np.asarray(self.problem.gradient_coordinates(self.point, piece))
            with np.errstate(all="ignore"):
                norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
                yield rows * clip_scale(np, norms, self.clip_norm)[:, None]

    def diameter(self):
        return min(2.0 * self.clip_norm, self.problem.gradient_diameter(self.point))

    def enclosing_ball(self):
        bound = self.problem.gradient_norm_bound(self.point)
        if bound >= self.clip_norm:
            return None, self.clip_norm
        center = np.asarray(self.problem.public_gradient(self.point))
        norm = np.asarray(self.geometry.norm(self.point, center))
        return center * clip_scale(np, norm, self.clip_norm), bound


class DifferenceQuery(Query):
    """Clipped differences ``grad f(point) - transport(grad f(anchor))``, tangent at `point`."""

    def __init__(self, problem, point, anchor, clip_norm: float):
        check_positive(clip_norm=clip_norm)
        self.problem, self.point, self.anchor = problem, point, anchor
        self.clip_norm = clip_norm
        self.geometry, self.n = problem.geometry, problem.n

    def total(self, indices=None):
        return self.problem.clipped_difference_sum(self.point, self.anchor, self.clip_norm, indices)

    def diameter(self):
        return 2.0 * self.clip_norm

    def enclosing_ball(self):
        return None, self.clip_norm
