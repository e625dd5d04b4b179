"""The risk of a principal subspace as a Riemannian problem: what DP-RGD and DP-PGD minimise."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp.descent.problem import Problem
from skriemdp.geometry import Euclidean, Grassmann, Sphere, Stiefel
from skriemdp.geometry.base import Geometry
from skriemdp.pca.rows import Rows

__all__ = ["FRAME_SPACES", "OrthonormalFrames", "SubspaceProblem", "frame_space"]

FRAME_SPACES = ("auto", "sphere", "stiefel", "grassmann", "ambient")


def frame_space(name: str, d: int, k: int):
    """Geometry of the iterates, and the set that they are projected on (None: they stay there)."""
    if name == "auto":
        name = "sphere" if k == 1 else "grassmann"
    if name == "sphere":
        if k != 1:
            raise ValueError(
                f"manifold='sphere' holds one component, but n_components={k}; use 'grassmann'."
            )
        return Sphere(d - 1), None
    if name == "ambient":
        return Euclidean(d, k), OrthonormalFrames()
    return (Stiefel(d, k) if name == "stiefel" else Grassmann(d, k)), None


@dataclasses.dataclass(frozen=True)
class OrthonormalFrames:
    """Matrices with orthonormal columns, as a set to project on; DP-PGD's domain."""

    def project(self, x):
        """The nearest matrix with orthonormal columns (polar factor)."""
        left, _, right = np.linalg.svd(x, full_matrices=False)
        return left @ right


@dataclasses.dataclass(frozen=True, eq=False)
class SubspaceProblem(Problem):
    """``f(W; z) = -|W' z|^2``, z a centred record scaled to norm at most `row_norm`.

    Parameters
    ----------
    geometry : Geometry
        ``Sphere(d - 1)``, ``Stiefel(d, k)``, ``Grassmann(d, k)`` or ``Euclidean(d, k)``; points
        have orthonormal columns on all of them.
    rows : Rows
    center : ndarray of shape (d,)
    row_norm : float

    Notes
    -----
    With ``a = W' z`` and r the part of z outside the subspace, the Riemannian gradient is
    ``-2 r a'`` (the same on all three manifolds), of norm ``2 |r| |a| <= |z|^2 <= row_norm^2``.
    Two of them differ by at most ``2 row_norm^2``, attained on the sphere by
    ``z, z' = row_norm (w +- u) / sqrt(2)``.  The ambient gradient ``-2 z z' W`` has norm at most
    ``2 row_norm^2``; for one column the vectors ``z z' w`` fill a ball of diameter ``row_norm^2``,
    so two gradients differ by ``2 row_norm^2`` at most, and by ``2 sqrt(2) row_norm^2`` in general
    (``|z z' - y y'|_F <= sqrt(2) row_norm^2``).  The published constant ``2 max |z|^2`` is twice
    the norm bound.
    """

    geometry: Geometry
    rows: Rows
    center: np.ndarray
    row_norm: float

    @property
    def n(self):
        return self.rows.n

    @property
    def _ambient(self) -> bool:
        return isinstance(self.geometry, Euclidean)

    def gradient_norm_bound(self, point) -> float:
        return (2.0 if self._ambient else 1.0) * self.row_norm**2

    def gradient_diameter(self, point) -> float:
        several = self._ambient and math.prod(self.geometry.shape) > self.rows.d
        return (2.0 * math.sqrt(2.0) if several else 2.0) * self.row_norm**2

    def gradients(self, point, indices=None):
        chosen = self.rows.select(indices, self.center, self.row_norm)
        frame = point.reshape(self.rows.d, -1)
        ambient = -2.0 * np.einsum("ni,nk->nik", chosen, chosen @ frame)
        ambient = ambient.reshape(len(chosen), *self.geometry.shape)
        return self.geometry.euclidean_to_riemannian_gradient(point, ambient)

    def clipped_sum(self, point, clip_norm=math.inf, indices=None):
        if indices is not None or clip_norm < self.gradient_norm_bound(point):
            return super().clipped_sum(point, clip_norm, indices)
        frame = point.reshape(self.rows.d, -1)
        product = self.rows.clipped_product(self.center, self.row_norm, frame)
        ambient = (-2.0 * product).reshape(self.geometry.shape)
        return self.geometry.euclidean_to_riemannian_gradient(point, ambient)
