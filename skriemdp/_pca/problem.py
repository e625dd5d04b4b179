"""The risk of a principal subspace as a Riemannian problem, and DP-RGD and DP-PGD for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._descent.gradient_descent import RiemannianGradientDescent
from skriemdp._descent.problem import Problem
from skriemdp._descent.queries import GradientQuery
from skriemdp._errors import PublicValueError
from skriemdp._location_scale.grouped_rows import GroupedRows
from skriemdp._location_scale.rows import Rows, row_products, scaled_rows
from skriemdp._mechanisms.bounded_sets import ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.sum import mu_of
from skriemdp._pca.releases import Directions, product_ball, public_frame
from skriemdp._pca.search_releases import Bounds, Budget, Streams
from skriemdp.geometry import Euclidean, Grassmann, Sphere, Stiefel, as_geometry
from skriemdp.geometry._base import Geometry

# Step of "gradient", in units of 1 / row_norm**2.
STEP_SIZE = 4.0


def frame_space(name: Any, d: int, k: int) -> tuple[Geometry, OrthonormalFrames | None]:
    """Geometry of the iterates, and the set that they are projected on (None: they stay there)."""
    if not isinstance(name, str):
        return _given_space(name, d, k), None
    if name == "auto":
        name = "sphere" if k == 1 else "grassmann"
    if name == "sphere":
        if k != 1:
            raise PublicValueError(
                f"manifold='sphere' holds one component, but n_components={k}; use 'grassmann'."
            )
        return Sphere(d - 1), None
    if name == "ambient":
        return Euclidean(d, k), OrthonormalFrames()
    return (Stiefel(d, k) if name == "stiefel" else Grassmann(d, k)), None


def _given_space(manifold: Any, d: int, k: int) -> Geometry:
    """The geometry of a manifold object, whose points must be k components of d features."""
    geometry = as_geometry(manifold)
    if geometry in _fitting(d, k):
        return geometry
    columns = geometry.shape[1] if geometry.point_ndim == 2 else 1
    if geometry in _fitting(d, columns):
        cure = f"n_components={columns}"
    else:
        cure = f"Grassmann({d}, {k}) or Stiefel({d}, {k})" if k < d else "manifold='auto'"
        cure = f"Sphere({d})" if k == 1 else cure
    raise PublicValueError(
        f"manifold={geometry} does not hold n_components={k} of {d} features; pass {cure}, of "
        "pymanopt or of skriemdp.geometry."
    )


def _fitting(d: int, k: int) -> list[Geometry]:
    """The manifolds whose points are k components of d features."""
    fitting: list[Geometry] = [Grassmann(d, k), Stiefel(d, k)] if k < d else []
    return [*fitting, Sphere(d - 1)] if k == 1 and d > 1 else fitting


@dataclass(frozen=True)
class OrthonormalFrames:
    """Matrices with orthonormal columns, as a set to project on; DP-PGD's domain."""

    def project(self, x: np.ndarray) -> np.ndarray:
        """The nearest matrix with orthonormal columns (polar factor)."""
        left, _, right = np.linalg.svd(x, full_matrices=False)
        return left @ right


@dataclass(frozen=True, eq=False)
class SubspaceProblem(Problem):
    """``f(W; z) = -|W' z|^2``, z a centred record scaled to norm at most `row_norm`.

    With people for records it is ``-tr W' A W``, A the scaled matrix of a person.

    Parameters
    ----------
    geometry : Geometry
        ``Sphere(d - 1)``, ``Stiefel(d, k)``, ``Grassmann(d, k)`` or ``Euclidean(d, k)``; points
        have orthonormal columns on all of them.
    rows : Rows or GroupedRows
    center : ndarray of shape (d,)
    row_norm : float

    Notes
    -----
    With ``a = W' z`` and r the part of z outside the subspace, the Riemannian gradient is
    ``-2 r a'`` (the same on all three manifolds), of norm ``2 |r| |a| <= |z|^2 <= row_norm^2``,
    attained on the sphere by ``z = row_norm (w +- u) / sqrt(2)``.  It is summed as the ambient
    matrix ``-2 r a'``; isotropic noise on that, projected, is isotropic in the tangent space.  The
    ambient gradients ``-2 z z' W`` of k columns lie within ``2 row_norm^2 rho`` of ``-(2 row_norm^2
    / m) W``, with ``m = max(k, 2)`` and ``rho = 1/2`` for one column, ``sqrt(1 - 1/k)`` for more
    (docs/theory/pca.md); people's gradients, with A for ``z z'``, keep these bounds
    (docs/theory/groups.md).  The published constant ``2 max |z|^2`` is twice the norm bound.
    """

    geometry: Geometry
    rows: Rows | GroupedRows
    center: np.ndarray
    row_norm: float

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.rows.n

    @property
    def _ambient(self) -> bool:
        return self.geometry.is_flat

    @property
    def separate_rows(self) -> bool:
        return True  # row_products are

    @property
    def gradient_dim(self) -> int:
        return math.prod(self.geometry.shape)

    def gradient_ball(self, point: np.ndarray) -> Ball:
        if not self._ambient:
            return Ball(self.row_norm**2)
        bound = product_ball(self.row_norm, point.reshape(self.rows.d, -1))
        assert bound.center is not None
        return Ball(2.0 * bound.radius, -2.0 * bound.center)

    def leave_gradients(self, point: np.ndarray, vector: np.ndarray) -> np.ndarray:
        tangent = self.geometry.projection(point, vector.reshape(self.geometry.shape))
        return np.asarray(self.geometry.coordinates_from_tangent(point, tangent))

    @property
    def longest_piece(self) -> int:
        # How many people are added in one go depends on their numbers of rows.
        return self.n if self.rows.grouped else super().longest_piece

    def pieces(self, indices: np.ndarray | None = None) -> Iterator[Any]:
        """Yield tiles as :class:`Problem` does: dense and scaled, whatever the table is."""
        if indices is not None:
            yield from super().pieces(indices)
            return
        most = self.longest_piece
        if isinstance(self.rows, GroupedRows):
            yield from self.rows.scaled(self.center, self.row_norm)
            return
        for tile in self.rows.centred(self.center):
            for begin in range(0, len(tile), most):
                yield scaled_rows(tile[begin : begin + most], self.row_norm)

    def gradients(self, point: np.ndarray, indices: Any = None) -> np.ndarray:
        rows = self.gradient_coordinates(point, indices)
        return rows.reshape(len(rows), *self.geometry.shape)

    def gradient_coordinates(self, point: np.ndarray, indices: Any = None) -> np.ndarray:
        """Coordinates as in :class:`Problem`; `indices` may be a tile of :meth:`pieces`."""
        z, rows = indices, self.rows
        if isinstance(rows, Rows) and getattr(z, "ndim", 1) == 1:
            z = rows.select(indices, self.center, self.row_norm)
        flat, frame = z.reshape(-1, self.rows.d), point.reshape(self.rows.d, -1)
        inside = row_products(flat, frame)
        left = flat
        if not self._ambient:
            left = flat - sum(inside[:, [j]] * w for j, w in enumerate(frame.T))
        if z.ndim == 3:  # factors of people's matrices
            left, inside = (part.reshape(*z.shape[:2], -1) for part in (left, inside))
            return -2.0 * np.matmul(left.transpose(0, 2, 1), inside).reshape(len(z), -1)
        return -2.0 * (left[:, :, None] * inside[:, None, :]).reshape(len(z), -1)


@dataclass(frozen=True)
class GradientRelease(Directions):
    """DP-RGD on the sphere, Stiefel or Grassmann manifold, or DP-PGD with ambient noise.

    *Guarantee*: that of :class:`RiemannianGradientDescent` on :class:`SubspaceProblem`.
    """

    manifold: Any
    n_steps: int
    public_seed: int
    name = "gradients"

    def dim(self, d: int) -> int:
        return d * self.n_components

    def frame(
        self, found: Bounds, budget: Budget, share: float, streams: Streams
    ) -> tuple[np.ndarray, float]:
        rows, d = found.rows, found.rows.d
        geometry, domain = frame_space(self.manifold, d, self.n_components)
        problem = SubspaceProblem(geometry, rows, found.center, found.row_norm)
        solver = RiemannianGradientDescent(
            mu=budget.take(share, self.name, self.dim(d)),
            n_steps=self.n_steps,
            step_size=STEP_SIZE / found.row_norm**2,
            domain=domain,
        )
        start = public_frame(d, self.n_components, self.public_seed)
        point = solver.solve(problem, start.reshape(geometry.shape), streams("descent"))
        bounded_set = GradientQuery(problem, point.reshape(geometry.shape)).bounded_set
        sigma = bounded_set.sigma(bounded_set.check(mu_of(solver.noise_multipliers[-1])))
        return point.reshape(d, -1), sigma / rows.n / 2.0

    def check(self, mu: float, d: int, people: bool) -> None:
        ball(Ball(1.0), self.dim(d)).check(mu / math.sqrt(self.n_steps))
