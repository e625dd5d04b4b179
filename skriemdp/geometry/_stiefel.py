"""Stiefel manifolds: matrices with orthonormal columns, under the embedded metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from skriemdp._arrays import Array, array_namespace
from skriemdp._errors import PublicValueError
from skriemdp._validation import check_count
from skriemdp.geometry import _orthonormal as orth
from skriemdp.geometry import _stiefel_paths as paths
from skriemdp.geometry._base import Embedding, Geometry
from skriemdp.geometry._orthonormal import Complement, orthonormal_embedding, skew, t


@dataclass(frozen=True)
class Stiefel(Geometry):
    """The (n, p) matrices X with orthonormal columns, ``X' X = I``.

    Tangent vectors at X are ``U = X A + X_perp B`` with A skew and B any (n - p, p) matrix; the
    metric is that of the ambient space, ``|A|^2 + |B|^2``, as in pymanopt.

    Parameters
    ----------
    n, p : int
        Number of rows and columns, ``1 <= p < n``.

    Notes
    -----
    `exp` is in closed form, and so is `transport` (the exponential of a constant
    operator: geodesics are orbits of isometries).  `log` is in closed form for ``p = 1``, otherwise
    16 iterations for every record, so that its time tells nothing of any: accurate to about 1e-12
    up to half of the injectivity radius, to 1e-6 up to 0.8, and degrading towards the radius.  For
    points further apart there may be no unique answer; the result is then a tangent vector whose
    end point is as close to `other` as the iterations came.  It never raises, so it says nothing
    about a record; a caller who needs its norm bounded must clip it.

    Sectional curvature lies in [-1/2, 1] (Nguyen 2022); it is constant 1 for p = 1.  The
    injectivity radius is pi (Zimmermann and Stoye 2025).

    ``p = n``, the orthogonal group, is not connected and therefore left out; pass pymanopt's
    ``SpecialOrthogonalGroup(n)`` instead.

    References
    ----------
    Edelman, Arias, Smith (1998), SIAM J. Matrix Anal. Appl. 20.
    Zimmermann, Hueper (2022), Computing the Riemannian logarithm on the Stiefel manifold: metrics,
    methods and performance, SIAM J. Matrix Anal. Appl. 43.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.geometry import Stiefel
    >>> geometry = Stiefel(4, 2)
    >>> x = geometry.base_point
    >>> v = geometry.tangent_from_coordinates(x, np.array([0.3, 0.1, -0.2, 0.0, 0.4]))
    >>> bool(np.allclose(geometry.log(x, geometry.exp(x, v)), v))
    True
    """

    form = "stiefel"
    remedy = "their columns must be orthonormal: numpy.linalg.qr(X)[0] makes them so."

    n: int
    p: int

    separate_rows = True

    def __post_init__(self) -> None:
        check_count(n=self.n, p=self.p)
        if self.p >= self.n:
            raise PublicValueError(
                f"Stiefel needs 1 <= p < n, got n={self.n}, p={self.p}; for square matrices pass "
                "pymanopt's SpecialOrthogonalGroup(n)."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n, self.p)

    @property
    def dim(self) -> int:
        return self.n * self.p - self.p * (self.p + 1) // 2

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        if self.dim == 1:  # a curve has no two-dimensional planes
            return (0.0, 0.0)
        if self.p == 1:
            return (1.0, 1.0)
        return (-0.5, 1.0)

    @property
    def injectivity_radius(self) -> float:
        return math.pi

    @property
    def base_point(self) -> np.ndarray:
        return np.eye(self.n, self.p)

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """A uniformly distributed point, ndarray, from the NumPy generator `rng`."""
        return orth.uniform(rng, self.n, self.p)

    # -- tangent vectors as pairs (A, B), U = X A + X_perp B -------------------------------------

    @staticmethod
    def _parts(xp: ModuleType, complement: Complement, vector: Array) -> tuple[Array, Array]:
        return skew(xp, t(xp, complement.x) @ vector), complement.coordinates(vector)

    @staticmethod
    def _vector(complement: Complement, a: Array, b: Array) -> Array:
        return complement.x @ a + complement.expand(b)

    def _reduced(
        self, xp: ModuleType, point: Array, other: Array
    ) -> tuple[Complement, Array, Array]:
        """`other` in the frame of `point`, as ``[M; N]`` with the frame ``[X, X_perp Q]``.

        The shortest geodesic stays among the matrices with these columns: it is fixed by every
        isometry that fixes both ends.
        """
        complement = Complement(xp, point)
        q, r = xp.linalg.qr(complement.coordinates(other), mode="reduced")
        inner = t(xp, point) @ other
        return complement, q, xp.concat([inner + xp.zeros_like(r[..., :1, :]), r], axis=-2)

    def _log_parts(
        self, xp: ModuleType, point: Array, other: Array
    ) -> tuple[Complement, Array, Array]:
        complement, q, target = self._reduced(xp, point, other)
        a, b = paths.log(xp, target, self.p, 2 * self.injectivity_radius)
        return complement, a, q @ b

    def has_steady_coordinates(self, point: np.ndarray) -> bool:
        return orth.has_steady_complement(point)

    @property
    def embedding(self) -> Embedding:
        return orthonormal_embedding(self.shape)

    def exp(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        complement = Complement(xp, point)
        a, b = self._parts(xp, complement, tangent_vector)
        q, r = xp.linalg.qr(b, mode="reduced")
        turn, twist = paths.group_elements(xp, a, r)
        end = turn[..., : self.p] @ twist
        moved = point @ end[..., : self.p, :] + complement.expand(q @ end[..., self.p :, :])
        return orth.polished(xp, moved)

    def log(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        return self._vector(*self._log_parts(xp, point, other))

    def inner_product(
        self, point: Array, tangent_vector_a: Array, tangent_vector_b: Array
    ) -> Array:
        xp = array_namespace(point, tangent_vector_a, tangent_vector_b)
        return orth.frobenius_product(xp, tangent_vector_a, tangent_vector_b)

    def projection(self, point: Array, vector: Array) -> Array:
        xp = array_namespace(point, vector)
        inner = t(xp, point) @ vector
        return vector - point @ ((inner + t(xp, inner)) / 2)

    def euclidean_to_riemannian_gradient(self, point: Array, euclidean_gradient: Array) -> Array:
        return self.projection(point, euclidean_gradient)

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, other, tangent_vector)
        complement, a, b = self._log_parts(xp, point, other)
        q, r = xp.linalg.qr(b, mode="reduced")
        moved_a, moved_b = self._parts(xp, complement, tangent_vector)
        moved_a, moved_b = paths.carry(xp, a, b, moved_a, moved_b)
        # The isometry that moves `point` to `other` along the geodesic, applied to the vector; the
        # part of X_perp beyond q stays.
        turn, twist = paths.group_elements(xp, a, r)
        inside = t(xp, q) @ moved_b
        turned = turn @ xp.concat([moved_a + 0.0 * inside[..., :1, :], inside], axis=-2)
        top, bottom = turned[..., : self.p, :], turned[..., self.p :, :]
        result = self._vector(complement, top, moved_b + q @ (bottom - inside)) @ twist
        return self.projection(other, result)

    def retraction(self, point: Array, tangent_vector: Array) -> Array:
        """Q of the QR decomposition of ``point + tangent_vector``, with R's diagonal positive."""
        return orth.q_factor(array_namespace(point, tangent_vector), point + tangent_vector)

    def tangent_from_coordinates(self, point: Array, coordinates: Array) -> Array:
        xp = array_namespace(point, coordinates)
        count = self.dim - self.p * (self.n - self.p)
        batch = tuple(coordinates.shape[:-1])
        a = orth.skew_from_coordinates(xp, coordinates[..., :count], self.p)
        b = xp.reshape(coordinates[..., count:], (*batch, self.n - self.p, self.p))
        return self._vector(Complement(xp, point), a, b)

    def coordinates_from_tangent(self, point: Array, tangent_vector: Array) -> Array:
        xp = array_namespace(point, tangent_vector)
        a, b = self._parts(xp, Complement(xp, point), tangent_vector)
        b = xp.reshape(b, (*b.shape[:-2], self.p * (self.n - self.p)))
        a = orth.skew_coordinates(xp, a)
        batch = np.broadcast_shapes(tuple(a.shape[:-1]), tuple(b.shape[:-1]))
        return xp.concat([xp.broadcast_to(c, (*batch, c.shape[-1])) for c in (a, b)], axis=-1)

    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        return orth.has_orthonormal_columns(array_namespace(x), x, atol)
