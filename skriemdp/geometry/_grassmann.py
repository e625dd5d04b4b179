"""Grassmann manifolds: subspaces, as matrices with orthonormal columns that span them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from skriemdp._arrays import Array, array_namespace
from skriemdp._errors import PublicValueError
from skriemdp._validation import check_count
from skriemdp.geometry import _orthonormal as orth
from skriemdp.geometry._base import Embedding, Geometry, Reach
from skriemdp.geometry._curvature import grassmann_form
from skriemdp.geometry._elementary import sinc
from skriemdp.geometry._orthonormal import Complement, t
from skriemdp.geometry._symmetric import conjugated, eigh


@dataclass(frozen=True)
class Grassmann(Geometry):
    """The p-dimensional subspaces of R^n, with the quotient metric of the Stiefel manifold.

    A point is any (n, p) matrix X with orthonormal columns that span the subspace; X and X R, R
    orthogonal, are the same point.  A tangent vector at X is its horizontal lift, an (n, p) matrix
    U with ``X' U = 0``; the metric is ``tr(U' V)`` (pymanopt's convention).  The distance is the
    Euclidean norm of the principal angles.

    Parameters
    ----------
    n, p : int
        Dimension of the space and of the subspaces, ``1 <= p < n``.

    Notes
    -----
    Sectional curvature lies in [0, 2], and is constant 1 for lines and hyperplanes (real projective
    space); the injectivity radius is pi/2.  Both are attained.

    `log` needs one p x p singular value decomposition and is accurate to rounding for every pair of
    points: the angles come from sine and cosine together, so neither nearly equal subspaces nor
    principal angles near pi/2 lose digits.  At a principal angle of exactly pi/2 there are several
    shortest geodesics; one of them is returned.  The result of `exp` is the end point of the
    horizontal geodesic in the Stiefel manifold, so representatives move continuously.

    References
    ----------
    Bendokat, Zimmermann, Absil (2024), A Grassmann manifold handbook, Adv. Comput. Math. 50.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Grassmann
    >>> line = np.array([[1.0], [0.0], [0.0]])
    >>> other = np.array([[0.6], [0.8], [0.0]])
    >>> round(float(Grassmann(3, 1).dist(line, -other)), 6)  # arccos(0.6)
    0.927295
    """

    form = "grassmann"
    remedy = "their columns must be orthonormal: numpy.linalg.qr(X)[0] makes them so."

    separate_rows = True

    n: int
    p: int

    def __post_init__(self) -> None:
        check_count(n=self.n, p=self.p)
        if self.p >= self.n:
            raise PublicValueError(
                f"Grassmann needs 1 <= p < n, got n={self.n}, p={self.p}; "
                "R^n has only one subspace of dimension n."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n, self.p)

    @property
    def dim(self) -> int:
        return self.p * (self.n - self.p)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        if self.dim == 1:  # a curve has no two-dimensional planes
            return (0.0, 0.0)
        if min(self.p, self.n - self.p) == 1:
            return (1.0, 1.0)
        return (0.0, 2.0)

    @property
    def injectivity_radius(self) -> float:
        return math.pi / 2

    @property
    def base_point(self) -> np.ndarray:
        return np.eye(self.n, self.p)

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """A uniformly distributed point, ndarray, from the NumPy generator `rng`."""
        return orth.uniform(rng, self.n, self.p)

    def has_steady_coordinates(self, point: np.ndarray) -> bool:
        return orth.has_steady_complement(point)

    @property
    def embedding(self) -> Embedding:
        # Projectors on the complements, where those have the lower rank: they are closer together.
        turned, corank = 2 * self.p > self.n, self.n - self.p

        def give(points: np.ndarray) -> np.ndarray:
            if turned:
                unit = np.broadcast_to(np.eye(corank), (len(points), corank, corank))
                points = Complement(np, points).expand(unit)
            return np.swapaxes(points, -1, -2)

        def nearest(mean: np.ndarray) -> np.ndarray:
            return np.linalg.eigh(-mean if turned else mean)[1][:, corank:]

        return Embedding(give, nearest, self.n, rank=corank if turned else self.p)

    @property
    def reach(self) -> Reach:
        angles = min(self.p, self.n - self.p)
        diameter = 0.5 * math.pi * math.sqrt(angles)
        return Reach(diameter=diameter, ball=0.999 * self.radius_limit)

    def exp(self, point: Array, tangent_vector: Array) -> Array:
        # X cos(S) + U sin(S)/S with S = (U' U)^(1/2): entire functions of U' U, so its eigenvalues
        # may be as small or as close as they like.
        xp = array_namespace(point, tangent_vector)
        squares, vectors = eigh(xp, t(xp, tangent_vector) @ tangent_vector)
        angles = xp.sqrt(xp.clip(squares, min=0.0))
        cosine = conjugated(xp, vectors, xp.cos(angles))
        sine = conjugated(xp, vectors, sinc(xp, angles))
        return orth.polished(xp, point @ cosine + tangent_vector @ sine)

    def _aligned(
        self, xp: ModuleType, point: Array, other: Array
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Principal vectors: ``(X Q, Q, R, C, D)`` with ``X' Y = Q C R'`` and ``D = Y R - X Q C``.

        The columns of D are orthogonal and as long as the sines of the principal angles; C holds
        the cosines.
        """
        left, cosines, right = orth.svd(xp, t(xp, point) @ other)
        x, right = point @ left, t(xp, right)
        return x, left, right, cosines, other @ right - x * cosines[..., None, :]

    def log(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        _, left, _, cosines, difference = self._aligned(xp, point, other)
        sines = xp.sqrt(xp.sum(difference * difference, axis=-2))
        _, ratio = orth.unit_columns_angle(xp, sines, cosines)
        return self.projection(point, (difference * ratio[..., None, :]) @ t(xp, left))

    def dist(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        *_, cosines, difference = self._aligned(xp, point, other)
        sines = xp.sqrt(xp.sum(difference * difference, axis=-2))
        angles, _ = orth.unit_columns_angle(xp, sines, cosines)
        return xp.sqrt(xp.sum(angles * angles, axis=-1))

    def inner_product(
        self, point: Array, tangent_vector_a: Array, tangent_vector_b: Array
    ) -> Array:
        xp = array_namespace(tangent_vector_a, tangent_vector_b)
        return orth.frobenius_product(xp, tangent_vector_a, tangent_vector_b)

    def projection(self, point: Array, vector: Array) -> Array:
        xp = array_namespace(point, vector)
        return vector - point @ (t(xp, point) @ vector)

    euclidean_to_riemannian_gradient = projection  # type: ignore[assignment]  # only the names of arguments differ

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        # With W the unit columns of D and S, C the sines and cosines, parallel transport is
        # I - X Q S W' + W (C - 1) W'; S = |D| and C^2 + S^2 = 1 leave no division by a sine:
        # I - (X Q + D (1 + C)^-1) D'.  Q R' turns the representative of the end point to `other`.
        xp = array_namespace(point, other, tangent_vector)
        x, left, right, cosines, difference = self._aligned(xp, point, other)
        inner = t(xp, difference) @ tangent_vector
        moved = tangent_vector - (x + difference / (1 + cosines[..., None, :])) @ inner
        return self.projection(other, moved @ (left @ t(xp, right)))

    def retraction(self, point: Array, tangent_vector: Array) -> Array:
        """Polar factor of ``point + tangent_vector``; agrees with `exp` to second order."""
        xp = array_namespace(point, tangent_vector)
        squares, vectors = eigh(xp, t(xp, tangent_vector) @ tangent_vector)
        shrink = 1 / xp.sqrt(1 + xp.clip(squares, min=0.0))
        return orth.polished(xp, (point + tangent_vector) @ conjugated(xp, vectors, shrink))

    def tangent_from_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        batch = tuple(coordinates.shape[:-1])
        matrix = xp.reshape(coordinates, (*batch, self.n - self.p, self.p))
        return Complement(xp, point).expand(matrix)

    def coordinates_from_tangent(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        matrix = Complement(xp, point).coordinates(tangent_vector)
        return xp.reshape(matrix, (*matrix.shape[:-2], self.dim))

    def curvature_form(self, point: Array, moment: Array) -> Array:
        xp = array_namespace(point, moment)
        return grassmann_form(xp, moment, self.n - self.p, self.p)

    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        return orth.has_orthonormal_columns(array_namespace(x), x, atol)
