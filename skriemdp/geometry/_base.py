"""Base class of geometries: points and tangent vectors, batched over leading axes; no budget."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from skriemdp._arrays import Array, array_namespace, device
from skriemdp._validation import check_instance
from skriemdp.geometry._elementary import dot, length
from skriemdp.geometry._tiles import tiles


class Embedding(NamedTuple):
    """A manifold inside a ball of vectors, or among projectors: a mean there is a place to begin.

    Attributes
    ----------
    give : callable
        ``give(points)`` returns one vector for each point, ``(n, size)``, or orthonormal rows that
        span the image of its projector, ``(n, rank, size)``.
    nearest : callable
        ``nearest(mean)`` returns a point near a mean of vectors, any array ``(size,)``, or near a
        mean of projectors, any symmetric matrix.
    size : int
        Length of the vectors, or of the rows.
    radius : float
        Bound of the Euclidean norm of the vectors; longer ones are clipped to it.
    rank : int
        Rank of the projectors; 0 for vectors.
    on_sphere : bool
        Whether all vectors have norm 1, so that the norm of their mean tells how far apart they
        are.
    """

    give: Callable[[np.ndarray], np.ndarray]
    nearest: Callable[[np.ndarray], np.ndarray]
    size: int
    radius: float = 1.0
    rank: int = 0
    on_sphere: bool = False


class Scaling(NamedTuple):
    """Dependence of points on their unit of measurement; searches begin at a scaled base point.

    Attributes
    ----------
    unit : callable
        ``unit(points)`` returns one positive number for each point.
    charted : callable
        ``charted(rows)`` returns the same numbers, from rows of :meth:`Geometry.chart`.
    point : callable
        ``point(unit)`` is the base point in this unit.
    distance : callable
        ``distance(unit)`` is the factor by which the unit makes distances longer.
    """

    unit: Callable[[np.ndarray], np.ndarray]
    charted: Callable[[np.ndarray], np.ndarray]
    point: Callable[[float], np.ndarray]
    distance: Callable[[float], float]


class Reach(NamedTuple):
    """Typical and largest distances between points, as far as they are public.

    Attributes
    ----------
    typical : float or None
        Distance of an ordinary record to the mean; None where the space suggests none.
    unit : float
        Radius of curvature of a compact space.
    diameter : float
        Largest distance of two points; infinite where it is not known.
    ball : float
        A radius a little above this one is brought down to it.
    divergence_rate : float
        Rate at which most geodesics part, as a fraction of what the lower curvature bound allows.
    representable : tuple of float
        Largest distance from the base point at which arrays of 64 and of 32 bits hold points; of
        matrices, the largest difference of the logarithms of two eigenvalues.
    """

    typical: float | None = None
    unit: float = 1.0
    diameter: float = math.inf
    ball: float = math.inf
    divergence_rate: float = 1.0
    representable: tuple[float, float] = (math.inf, math.inf)


class SymmetricSpace(NamedTuple):
    """A space whose points all look alike and for which exact laws are known, by numbers.

    Attributes
    ----------
    name : {"euclidean", "sphere", "hyperbolic", "spd"}
        "spd" means symmetric positive definite matrices with the affine-invariant metric.
    dim : int
    curvature : float
        The sectional curvature, of matrices the least; of a circle that of the sphere on which it
        is a great circle.
    """

    name: str
    dim: int
    curvature: float

    @property
    def size(self) -> int:
        """Rows of the matrices."""
        return (math.isqrt(8 * self.dim + 1) - 1) // 2


class Geometry(abc.ABC):
    """A Riemannian manifold with the batched operations that private statistics need.

    Subclasses are frozen dataclasses: equal parameters make equal geometries, and instances may be
    hashed, pickled, cloned and shared between threads.

    Conventions, the same for every method:

    * a point or tangent vector is an array of shape ``(..., *shape)``; leading axes are batch axes
      and broadcast against each other;
    * arguments come as (point, vector), the order pymanopt uses;
    * a kernel takes its array namespace and dtype from its input, so NumPy and torch both work;
    * degenerate input (zero vector, equal points, antipodes, near-singular matrices) is exact or
      raises; it never gives NaN.

    Attributes
    ----------
    shape : tuple of int
        Shape of one point (and of one tangent vector) in ambient coordinates.
    dim : int
        Dimension of the manifold, the number of noise coordinates.
    curvature_bounds : tuple of float
        Lower and upper bound of the sectional curvatures, ``-inf`` / ``inf`` where there is none.
    injectivity_radius : float
        Infimum over points, in geodesic distance.
    factors : tuple of Geometry
        Of a product; its methods `split` and `join` convert points.  Empty by default.
    base_point : ndarray of shape ``shape``
        The public default centre; a fresh NumPy array of float64.
    """

    # Whether a row of log_coordinates, exp_coordinates and dist, and of what embedding and scaling
    # give, is bitwise the same whatever the other rows are, how many there are, and
    # where it stands among them; tests/test_lattice.py holds those to it that say so.
    separate_rows: ClassVar[bool] = False
    # Whether :meth:`chart` returns coordinates.
    charted: ClassVar[bool] = False
    # Whether points are symmetric matrices, of which methods may read either triangle.
    symmetric_matrices: ClassVar[bool] = False
    # Whether logarithms of arrays that are no points are numbers, or NaN in their own rows alone,
    # and never an error; then nobody needs to look at the arrays first.
    total_logarithms: ClassVar[bool] = False
    # What points are, by the name of the table of foreign forms (_foreign.py); "" for none.
    form: ClassVar[str] = ""
    # One turn, where points are angles: numbers further from zero may be in another unit.
    turn: float = math.inf
    # What to do about arrays that are no points, as the end of a sentence.
    remedy: ClassVar[str] = "check their layout, or map them to the manifold first."
    # The metric's name in pyRiemann, for matrices that it knows.
    pyriemann_metric: ClassVar[str | None] = None

    if TYPE_CHECKING:  # a subclass makes each a field or a property

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dim(self) -> int: ...
        @property
        def curvature_bounds(self) -> tuple[float, float]: ...
        @property
        def injectivity_radius(self) -> float: ...
        @property
        def factors(self) -> tuple[Geometry, ...]: ...
    else:
        factors = ()

    def __repr__(self) -> str:  # of a dataclass, its own
        return f"{type(self).__name__}()"

    # -- every geometry must say ------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def base_point(self) -> np.ndarray:
        """Public default centre, ndarray of shape ``shape``."""

    @abc.abstractmethod
    def exp(self, point: Array, tangent_vector: Array) -> Array:
        """Geodesic from `point` along `tangent_vector`, at time 1; shape ``(..., *shape)``."""

    @abc.abstractmethod
    def log(self, point: Array, other: Array) -> Array:
        """Initial velocity of the shortest geodesic from `point` to `other`; ``(..., *shape)``."""

    @abc.abstractmethod
    def inner_product(
        self, point: Array, tangent_vector_a: Array, tangent_vector_b: Array
    ) -> Array:
        """Riemannian inner product in the tangent space at `point`; shape ``(...)``."""

    @abc.abstractmethod
    def projection(self, point: Array, vector: Array) -> Array:
        """Orthogonal projection (ambient metric) of an ambient `vector` on the tangent space."""

    @abc.abstractmethod
    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        """Parallel transport of `tangent_vector` from `point` to `other` along the geodesic."""

    @abc.abstractmethod
    def tangent_from_coordinates(self, point: Array, coordinates: Array) -> Array:
        """Linear isometry from R^dim to the tangent space at `point`.

        It depends on the point only.  ``coordinates`` has shape ``(..., dim)``.  Isotropic Gaussian
        coordinates therefore become isotropic Gaussian noise in the Riemannian metric at `point`,
        which is what every noise scale of this library is stated in.
        """

    @abc.abstractmethod
    def coordinates_from_tangent(self, point: Array, tangent_vector: Array) -> Array:
        """Inverse of :meth:`tangent_from_coordinates`; result of shape ``(..., dim)``."""

    @abc.abstractmethod
    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        """Whether each of `x`, shape ``(..., *shape)``, is a point; a boolean array ``(...)``."""

    # -- what follows from the above; override where a closed form is better --

    def norm(self, point: Array, tangent_vector: Array) -> Array:
        """Riemannian norm of `tangent_vector`, shape ``(...)``."""
        xp = array_namespace(tangent_vector)
        squared = self.inner_product(point, tangent_vector, tangent_vector)
        return xp.sqrt(xp.clip(squared, min=0.0) if hasattr(xp, "clip") else squared)

    def dist(self, point: Array, other: Array) -> Array:
        """Geodesic distance, shape ``(...)``."""
        return self.norm(point, self.log(point, other))

    def euclidean_to_riemannian_gradient(self, point: Array, euclidean_gradient: Array) -> Array:
        """Tangent vector G with ``<G, v>_point = sum(euclidean_gradient * v)`` for tangent v.

        `euclidean_gradient` holds the partial derivatives of a function of the ambient coordinates,
        shape ``(..., *shape)``.  This default tests it on an orthonormal basis, ``dim`` vectors per
        point.
        """
        xp = array_namespace(point, euclidean_gradient)
        unit = xp.eye(self.dim, dtype=point.dtype, device=device(point))
        basis = self.tangent_from_coordinates(
            xp.expand_dims(point, axis=-self.point_ndim - 1), unit
        )
        size = math.prod(self.shape)
        basis = xp.reshape(basis, (*basis.shape[: basis.ndim - self.point_ndim], size))
        batch = euclidean_gradient.shape[: euclidean_gradient.ndim - self.point_ndim]
        column = xp.reshape(euclidean_gradient, (*batch, size, 1))
        return self.tangent_from_coordinates(point, (basis @ column)[..., 0])

    def log_coordinates(self, point: Array, other: Array) -> Array:
        """Normal coordinates of `other` at `point`: `log` in :meth:`coordinates_from_tangent`.

        Their Euclidean norm is the distance.  Many geometries compute them faster and more
        accurately than the tangent vector itself.  Shape ``(..., dim)``.
        """
        return self.coordinates_from_tangent(point, self.log(point, other))

    def exp_coordinates(self, point: Array, coordinates: Array) -> Array:
        """Inverse of :meth:`log_coordinates`: the point with these normal coordinates."""
        return self.exp(point, self.tangent_from_coordinates(point, coordinates))

    def clipped_log_sum(self, point: Array, others: Array, clip_norm: float = math.inf) -> Array:
        """Sum over records of ``log(point, record)``, each clipped to norm `clip_norm` at most.

        The gradient of half the sum of squared distances is minus this sum.  It is computed in
        normal coordinates, block by block, so its memory beyond the records does not grow with
        their number.

        Parameters
        ----------
        point : array of shape ``shape``
            One point.
        others : array of shape ``(n, *shape)``
            The records.
        clip_norm : float, default=inf
            Bound on the Riemannian norm of every summand.

        Returns
        -------
        array of shape ``shape``
            A tangent vector at `point`.  A summand that is not finite counts as zero: one record
            must not be able to spoil the sum.
        """
        xp = array_namespace(point, others)
        if clip_norm == math.inf and xp is np and point.dtype == others.dtype == np.float64:
            known = self.bounded_log_sum(point, others, clip_norm, np.zeros(self.dim))
            if known is not None:
                return self.tangent_from_coordinates(point, known)
        total = xp.zeros(self.dim, dtype=point.dtype, device=device(point))
        for block in tiles(others):
            coordinates = self.log_coordinates(point, block)
            norms = length(xp, coordinates)
            usable = xp.isfinite(norms)
            coordinates = xp.where(usable, coordinates, xp.zeros_like(coordinates))
            if clip_norm < math.inf:
                norms = xp.where(usable, norms, xp.zeros_like(norms))
                coordinates = coordinates * (clip_norm / xp.clip(norms, min=clip_norm))
            total = total + xp.sum(coordinates, axis=0)
        return self.tangent_from_coordinates(point, total)

    def bounded_log_sum(
        self,
        point: np.ndarray,
        others: np.ndarray,
        radius: float,
        center: np.ndarray,
        squares: np.ndarray | None = None,
    ) -> np.ndarray | None:
        """Sum of the offsets of the logarithms at `point` from `center`, each shortened; or None.

        What ``Ball(radius, center).enforce`` makes of the rows of :meth:`log_coordinates`, added
        up, where a geometry knows it from a few products for each record.

        Parameters
        ----------
        point : ndarray of shape ``shape``
        others : ndarray of shape ``(n, *shape)``
        radius : float
        center : ndarray of shape ``(dim,)``
        squares : ndarray of shape ``(n,)``, optional
            :meth:`squares` of `others`, where they are known already.

        Returns
        -------
        ndarray of shape ``(dim,)`` or None
            None where the geometry has no such form, or it would lose digits; this default.
        """
        return None

    def chart(self, others: Array) -> Array | None:
        """Coordinates ``(..., dim)`` whose differences are logarithms, bitwise.

        ``log_coordinates(p, x)`` is ``chart(x) - chart(p)``: of a flat space whose logarithms cost
        more than that.  None elsewhere; this default.
        """
        return None

    def squares(self, others: np.ndarray) -> np.ndarray | None:
        """Squared lengths of the records, where distances or :meth:`bounded_log_sum` need them.

        They are the same at every point.  None where nothing needs them; this default.
        """
        return None

    def distances(
        self, point: np.ndarray, others: np.ndarray, squares: np.ndarray | None = None
    ) -> np.ndarray:
        """:meth:`dist` of many records, with their :meth:`squares` where those are known."""
        return np.asarray(self.dist(point, others))

    def retraction(self, point: Array, tangent_vector: Array) -> Array:
        """A first-order approximation of :meth:`exp` that stays on the manifold; here `exp`."""
        return self.exp(point, tangent_vector)

    def canonical(self, x: Array) -> Array:
        """`x` in the one form that every method reads alike; points are returned as they are.

        Overridden where an array can be a point up to a tolerance in ways that methods would read
        differently: an SPD matrix that is not quite symmetric.
        """
        return x

    def rounding(self, point: Array, radius: float = 0.0) -> float:
        """Bound how far rounding moves a point within `radius` of `point`, in machine epsilons.

        A geodesic distance; a rule that was measured and not proved (docs/theory/
        mean-iteration.md).  This default fits spaces whose coordinates have the size of distances.
        """
        return float(np.linalg.norm(np.asarray(point, dtype=float))) + radius

    def curvature_form(self, point: Array, moment: Array) -> Array:
        """Contract the curvature tensor with a second moment: ``sum_k l_k R(., u_k) u_k``.

        With it the mean squared distance of records is known around a point, from two moments of
        their normal coordinates: ``d(exp w, exp v)^2 = |w - v|^2 - w' K(v v') w / 3``, up to terms
        of higher order (docs/theory/regions.md).

        Parameters
        ----------
        point : array of shape ``shape``
        moment : array of shape ``(..., dim, dim)``
            Symmetric, ``sum_k l_k u_k u_k'`` in orthonormal coordinates at `point`.

        Returns
        -------
        array of shape ``(..., dim, dim)``
            Symmetric, linear in `moment`.  This default is zero: exact on flat spaces, and
            elsewhere it means that no closed form is known here, so that statistics built on it
            leave out what curvature does.
        """
        array_namespace(point, moment)
        return 0.0 * moment

    def complaint(self, x: Array) -> str | None:
        """The property that some of `x` lack, in a word; None, this default, says no more.

        It is asked of arrays of which some are no points, and tells nothing else about them.
        """
        return None

    def has_steady_coordinates(self, point: np.ndarray) -> bool:
        """Whether rounding has no say in how the coordinates at `point` are turned."""
        return True

    def in_words(self, point: np.ndarray) -> str:
        """A point as people read it."""
        text = np.array2string(np.asarray(point), precision=4, separator=", ", threshold=30)
        return " ".join(text.split())

    def lengths_in_words(self, lengths: np.ndarray) -> list[str]:
        """Geodesic lengths as people read them."""
        return [f"{length:.3g}" for length in lengths]

    @property
    def quick_distances(self) -> bool:
        """Whether distances cost so much less than logarithms that no logarithm is worth keeping.

        A matter of speed alone; false by default.
        """
        return False

    # -- what a private search for a ball asks; by default it begins at the base point --

    @property
    def embedding(self) -> Embedding | None:
        """The space inside a ball of vectors or among projectors; None, this default, if neither.

        Compact spaces should have one: a search cannot find data there that are far from the base
        point.
        """
        return None

    @property
    def scaling(self) -> Scaling | None:
        """Dependence of points on their unit of measurement; None, this default, for none."""
        return None

    @property
    def reach(self) -> Reach:
        """Public facts about distances between points; by default none."""
        return Reach()

    @property
    def symmetric_space(self) -> SymmetricSpace | None:
        """The space this one is isometric to, if exact laws are known there; flat spaces, or None.

        Noise on the manifold itself, and regression onto hyperbolic space, need it.
        """
        return SymmetricSpace("euclidean", self.dim, 0.0) if self.is_flat else None

    def as_parts(self, point: Any) -> Any:
        """One point as its owner knows it: the tuple of its arrays where it has several.

        The point may be of any backend whose arrays are sliced and reshaped by their own methods.
        This default is of points that are one array.
        """
        return point

    def from_parts(self, parts: Any, tangent: bool = False) -> np.ndarray:
        """The inverse, for one point or a batch of points or ambient vectors, of NumPy.

        With `tangent`, of tangent vectors, where these have other arrays.
        """
        return np.asarray(parts, dtype=float)

    # -- derived facts --------------------------------------------------------------------------

    @property
    def point_ndim(self) -> int:
        """Number of trailing axes that one point takes."""
        return len(self.shape)

    @property
    def is_hadamard(self) -> bool:
        """Complete, simply connected, curvature <= 0: logarithms are 1-Lipschitz everywhere."""
        return self.curvature_bounds[1] <= 0.0 and self.injectivity_radius == math.inf

    @property
    def is_flat(self) -> bool:
        """Curvature zero everywhere and `exp` a bijection."""
        return self.curvature_bounds == (0.0, 0.0) and self.injectivity_radius == math.inf

    @property
    def radius_limit(self) -> float:
        """Radii of balls must stay below this for means and their sensitivity bounds to exist.

        Infinite on Hadamard manifolds, otherwise the smaller of ``pi / (2 sqrt(kappa))`` and half
        the injectivity radius (docs/theory/sensitivity.md).
        """
        if self.is_hadamard:
            return math.inf
        kappa = self.curvature_bounds[1]
        regular = math.pi / (2.0 * math.sqrt(kappa)) if kappa > 0 else math.inf
        return min(regular, self.injectivity_radius / 2.0)


class CoordinateGeometry(Geometry):
    """A geometry that knows normal coordinates best: the rest follows from them.

    Subclasses write `log_coordinates` and `exp_coordinates`, or `log` and `exp`.
    """

    def exp(self, point: Array, tangent_vector: Array) -> Array:
        return self.exp_coordinates(point, self.coordinates_from_tangent(point, tangent_vector))

    def log(self, point: Array, other: Array) -> Array:
        return self.tangent_from_coordinates(point, self.log_coordinates(point, other))

    def dist(self, point: Array, other: Array) -> Array:
        xp = array_namespace(point, other)
        return length(xp, self.log_coordinates(point, other))[..., 0]

    def inner_product(
        self, point: Array, tangent_vector_a: Array, tangent_vector_b: Array
    ) -> Array:
        a = b = self.coordinates_from_tangent(point, tangent_vector_a)
        if tangent_vector_b is not tangent_vector_a:
            b = self.coordinates_from_tangent(point, tangent_vector_b)
        return dot(array_namespace(a, b), a, b)[..., 0]


def check_geometry(geometry: Any) -> None:
    """TypeError unless `geometry` is a geometry; a name or a manifold of others is not one yet."""
    cure = "convert a name or a manifold with skriemdp.geometry.as_geometry(manifold, point_shape)"
    check_instance(Geometry, cure, geometry=geometry)
