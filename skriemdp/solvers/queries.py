"""Per-record tangent vectors with public bounds: the sums that a private step may release."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skriemdp._validation import check_positive
from skriemdp.geometry.base import Geometry, clip_scale

__all__ = ["Query", "difference_query", "gradient_query"]


@dataclasses.dataclass(frozen=True, eq=False)
class Query:
    """A tangent vector ``v(record)`` at one public point, and what is known of it in advance.

    Attributes
    ----------
    geometry : Geometry
    n : int
        Number of records.
    point : ndarray of shape ``geometry.shape``
        Public or released.
    total : callable
        ``total(indices)`` is the sum of v over these records, over all of them for None.
    center : ndarray of shape ``geometry.shape``
        Public tangent vector.
    radius : float
        ``|v(z) - center| <= radius`` for every record z: what Poisson sampling needs.
    diameter : float
        ``|v(z) - v(z')| <= diameter`` for all pairs: enough when the number of summands is fixed.
    """

    geometry: Geometry
    n: int
    point: Any
    total: Callable[[Any], Any]
    center: Any
    radius: float
    diameter: float


def gradient_query(problem, point, clip_norm: float = math.inf) -> Query:
    """The clipped gradients of `problem` at `point`.

    Clipping to norm c is the metric projection on a ball of the tangent space, hence 1-Lipschitz.
    So clipped gradients differ by at most ``min(2 c, gradient_diameter)``, and lie within
    ``min(c, gradient_norm_bound)`` of a public vector: zero, or the clipped `public_gradient`
    (docs/theory/optimisation.md, section 2).
    """
    bound = problem.gradient_norm_bound(point)
    center = np.zeros(problem.geometry.shape)
    if bound < clip_norm:
        center = np.asarray(problem.public_gradient(point))
        norm = problem.geometry.norm(point, center)
        center = center * clip_scale(np, np.asarray(norm), clip_norm)
    return Query(
        geometry=problem.geometry,
        n=problem.n,
        point=point,
        total=lambda indices: problem.clipped_sum(point, clip_norm, indices),
        center=center,
        radius=min(clip_norm, bound),
        diameter=min(2.0 * clip_norm, problem.gradient_diameter(point)),
    )


def difference_query(problem, point, anchor, clip_norm: float) -> Query:
    """Clipped differences ``grad f(point) - transport(grad f(anchor))``, tangent at `point`."""
    check_positive(clip_norm=clip_norm)
    return Query(
        geometry=problem.geometry,
        n=problem.n,
        point=point,
        total=lambda chosen: problem.clipped_difference_sum(point, anchor, clip_norm, chosen),
        center=np.zeros(problem.geometry.shape),
        radius=clip_norm,
        diameter=2.0 * clip_norm,
    )
