"""Any manifold written for pymanopt, as a geometry with noise in an orthonormal basis."""

from __future__ import annotations

import contextlib
import contextvars
import math
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._arrays import Array
from skriemdp._config import get_config
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp.geometry._base import Embedding, Geometry
from skriemdp.geometry._layout import Layout
from skriemdp.geometry._orthonormal import orthonormal_embedding

_UNKNOWN = (-math.inf, math.inf)
_GLOBAL_RNG = threading.RLock()


@dataclass(frozen=True, init=False, eq=False, repr=False)
class PymanoptGeometry(Geometry):
    """A manifold object with pymanopt's methods, pymanopt's own or yours.

    Parameters
    ----------
    manifold : object
        It needs ``projection(point, vector)`` on the tangent space, ``retraction(point, vector)``
        or ``exp``, and ``norm(point, vector)`` or ``inner_product(point, a, b)``.  ``log``,
        ``dist``, ``transport``, ``to_tangent_space`` and ``euclidean_to_riemannian_gradient`` are
        used when they exist; without ``log`` and ``dist`` the operations that need them raise
        TypeError.
    base_point : array or None, keyword-only
        The public default centre, in the manifold's own format.  None takes
        ``manifold.random_point()``, drawn from a generator of this package with a public seed.
    curvature_bounds : tuple of float, default=(-inf, inf), keyword-only
        Lower and upper bound of the sectional curvatures, if you know them.
    injectivity_radius : float, default=0.0, keyword-only
        If you know it.  With the defaults nothing is assumed, so no geodesic ball has a sensitivity
        bound and private means refuse; private optimisation with clipped gradients needs neither.

    Raises
    ------
    TypeError
        If a needed method is missing.
    ValueError
        If, at a test point, no available projection is linear, idempotent and of rank
        ``manifold.dim``, or the norm does not come from an inner product.

    Notes
    -----
    *Format.*  Points that are single real arrays keep their shape.  Points made of several arrays
    (products, fixed-rank matrices), complex points, and manifolds whose tangent vectors have a
    format of their own are stored as flat vectors: the real numbers one after the other (complex
    ones as real parts, then imaginary parts), zeros at the end where a point needs fewer numbers
    than a tangent vector.  :meth:`pack` and :meth:`unpack` convert points.

    *Noise.*  `tangent_from_coordinates` builds the matrix of the tangent projector, takes an
    orthonormal basis of its range in the manifold's inner product, and is a function of the point
    alone.  Isotropic noise in R^dim therefore is isotropic in the manifold's metric, whatever that
    is, and the noise of a private query has exactly the scale that its privacy was computed for.

    *Cost.*  pymanopt's methods take one point at a time, so batches are Python loops, and a basis
    takes one projection per stored number plus one QR decomposition (and ``dim**2 / 2`` inner
    products where the metric is not the Euclidean one of the stored numbers).  Operations at one
    point with many vectors compute the basis once and are vectorised.  Use a geometry of this
    package where there is one.

    *Retraction.*  Where pymanopt has no exponential map, `exp` is the retraction, pymanopt's
    convention.  `transport` is the manifold's own (or the projection), replaced by the nearest
    isometry.  Entries of a logarithm that are not finite (equal points in some
    manifolds) become zero.

    Examples
    --------
    >>> import numpy as np
    >>> from pymanopt.manifolds import Oblique
    >>> from skriemdp.geometry import PymanoptGeometry
    >>> geometry = PymanoptGeometry(Oblique(3, 2))
    >>> geometry.shape, geometry.dim
    ((3, 2), 4)
    """

    manifold: Any
    curvature_bounds: tuple[float, float]
    injectivity_radius: float
    _points: Layout
    _tangents: Layout
    _base_point: np.ndarray
    _projector_name: str
    _exp_name: str
    _last_basis: tuple

    def __init__(
        self,
        manifold: Any,
        *,
        base_point: Any = None,
        curvature_bounds: tuple[float, float] = _UNKNOWN,
        injectivity_radius: float = 0.0,
    ) -> None:
        set_ = object.__setattr__.__get__(self)
        set_("manifold", manifold)
        set_("_last_basis", ())
        set_("curvature_bounds", (float(curvature_bounds[0]), float(curvature_bounds[1])))
        set_("injectivity_radius", float(injectivity_radius))
        for needed in (("projection", "to_tangent_space"), ("retraction", "exp")):
            if not any(callable(getattr(manifold, name, None)) for name in needed):
                raise PublicTypeError(
                    f"{type(manifold).__name__} has no {' or '.join(needed)} method; a manifold "
                    "needs projection, retraction and norm (or inner_product)."
                )
        if not any(callable(getattr(manifold, n, None)) for n in ("norm", "inner_product")):
            raise PublicTypeError(f"{type(manifold).__name__} has neither norm nor inner_product.")

        probe = example_point(manifold, base_point)
        base = probe if base_point is None else base_point
        tangent = _example_tangent(manifold, probe)
        points, tangents = Layout.of(base), Layout.of(tangent)
        plain = points == tangents and points.is_real_array
        set_("_points", points)
        set_("_tangents", tangents)
        size = max(points.size, tangents.size)
        most = get_config()["most_bytes"]
        if 24.0 * tangents.size**2 > most:
            raise PublicValueError(
                f"{self._name} stores {tangents.size} numbers per vector, and matrices of that "
                f"size need {24.0 * tangents.size**2 / 2**30:.3g} GiB, above the limit of "
                f"{most / 2**30:.3g}; use a geometry of skriemdp.geometry, or raise the limit with "
                "skriemdp.config_context(most_bytes=...)."
            )
        set_("shape", points.array_shape if plain else (size,))
        set_("_base_point", self._store(points, base))
        with _silent():
            set_("_projector_name", self._choose_projector(probe))
            set_("dim", self._basis(probe)[0].shape[1])
            set_("_exp_name", self._choose_exp(probe, tangent))
        self._check_norm(probe)

    # -- values ---------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"PymanoptGeometry({self._name})"

    @property
    def _name(self) -> str:
        cls = type(self.manifold)
        speaks = cls.__str__ is not object.__str__ or cls.__repr__ is not object.__repr__
        return str(self.manifold) if speaks else cls.__name__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PymanoptGeometry):
            return NotImplemented
        return _same(self.__getstate__(), other.__getstate__())

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_last_basis"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _last_basis=())

    def __hash__(self) -> int:
        return hash((type(self.manifold), self.shape, self.dim))

    @property
    def embedding(self) -> Embedding | None:
        kind = type(self.manifold)
        own = kind.__module__.startswith("pymanopt.") and len(self.shape) == 2
        if own and kind.__name__ == "SpecialOrthogonalGroup" and self.shape[0] == self.shape[1]:
            return orthonormal_embedding(self.shape)
        return None

    @property
    def base_point(self) -> np.ndarray:
        return self._base_point.copy()

    @property
    def knows_logarithms(self) -> bool:
        """Whether means are defined at all, once its curvature is known."""
        return self._has("log")

    @property
    def knows_geodesics(self) -> bool:
        """Whether `log` should undo `exp`: both are the manifold's own."""
        return self._has("log") and self._exp_name == "exp"

    # -- formats --------------------------------------------------------------------------------

    def _store(self, layout: Layout, value: Any, dtype: Any = np.float64) -> Any:
        flat = layout.pack(value)
        padding = np.zeros(math.prod(self.shape) - layout.size)
        return np.concatenate([flat, padding]).astype(dtype).reshape(self.shape)

    def pack(self, point: Array) -> Any:
        """A point in the manifold's own format as an array of shape ``shape``."""
        return self._store(self._points, point)

    def unpack(self, x: Array) -> Any:
        """One point, array of shape ``shape``, in the manifold's own format."""
        return self._points.unpack(np.asarray(x, dtype=np.float64).ravel())

    def as_parts(self, point: Any) -> Any:
        if self.shape == self._points.array_shape and not self._points.is_complex:
            return point
        return self._points.view(point)

    def from_parts(self, parts: Any, tangent: bool = False) -> np.ndarray:
        layout = self._tangents if tangent else self._points
        array = isinstance(parts, np.ndarray) and parts.dtype.kind != "c"
        if array and parts.shape[parts.ndim - self.point_ndim :] == self.shape:
            return np.asarray(parts, dtype=np.float64)
        flat = layout.pack_rows(parts)
        padding = np.zeros((*flat.shape[:-1], math.prod(self.shape) - layout.size))
        flat = np.concatenate([flat, padding], axis=-1)
        return flat.reshape(*flat.shape[:-1], *self.shape)

    def _flat(self, x: Array) -> Any:
        """Batch of stored arrays as rows of numbers, ``(..., size)``."""
        return x.reshape(*x.shape[: x.ndim - self.point_ndim], math.prod(self.shape))

    def _loop(
        self,
        function: Callable[..., Any],
        layouts: Sequence[Layout],
        arrays: Array,
        result: Layout | None = None,
    ) -> Any:
        """``function`` of every record of the broadcast batch, unpacked by `layouts`.

        `result` is the layout of the values, None for numbers.
        """
        arrays = [_numpy(array) for array in arrays]
        rows = [self._flat(array) for array in arrays]
        batch = np.broadcast_shapes(*(row.shape[:-1] for row in rows))
        rows = [np.broadcast_to(row, (*batch, row.shape[-1])) for row in rows]
        dtype = np.result_type(*arrays)
        out = np.empty(batch if result is None else (*batch, *self.shape), dtype=dtype)
        with _silent():
            for index in np.ndindex(*batch):
                values = [
                    layout.unpack(np.asarray(row[index], dtype=np.float64))
                    for layout, row in zip(layouts, rows, strict=True)
                ]
                value = function(*values)
                if result is None:
                    out[index] = float(np.real(value))
                else:
                    out[index] = self._store(result, value)
        return out

    # -- tangent spaces ---------------------------------------------------------------------------

    def _choose_projector(self, probe: Any) -> str:
        """The method that projects stored tangent vectors: linear, idempotent, of rank dim.

        Some manifolds store tangent vectors in a format of their own (Lie algebras, factors); their
        ``projection`` takes ambient vectors and ``to_tangent_space`` is the one meant here.
        """
        dim = getattr(self.manifold, "dim", None)
        combination = np.random.default_rng(0).standard_normal(self._tangents.size)
        for name in ("projection", "to_tangent_space"):
            method = getattr(self.manifold, name, None)
            if not callable(method):
                continue
            try:
                matrix = self._projector_matrix(probe, method)
                image = self._tangents.pack(method(probe, self._tangents.unpack(combination)))
            except (NotImplementedError, ValueError, TypeError, AttributeError, IndexError):
                continue
            if not np.all(np.isfinite(matrix)):
                continue
            linear = np.allclose(matrix @ combination, image, atol=1e-8)
            idempotent = np.allclose(matrix @ matrix, matrix, atol=1e-8)
            rank = round(float(np.trace(matrix)))
            if linear and idempotent and rank >= 1 and (dim is None or rank == int(dim)):
                return name
        raise PublicValueError(
            f"no projection of {self._name} is linear and idempotent with rank equal to its "
            f"dimension (dim={dim}); check projection(point, vector) and dim."
        )

    def _projector_matrix(self, point: Array, method: Callable[..., Any]) -> Any:
        unit = np.eye(self._tangents.size)
        columns = [self._tangents.pack(method(point, self._tangents.unpack(e))) for e in unit]
        return np.stack(columns, axis=1)

    def _inner(self, point: Array, a: Array, b: Array) -> float:
        """Inner product of two vectors in the manifold's own format, or from its norm."""
        if callable(getattr(self.manifold, "inner_product", None)):
            return float(np.real(self.manifold.inner_product(point, a, b)))
        a, b = self._tangents.pack(a), self._tangents.pack(b)
        total = self.manifold.norm(point, self._tangents.unpack(a + b))
        difference = self.manifold.norm(point, self._tangents.unpack(a - b))
        return float(total**2 - difference**2) / 4

    def _basis(self, point: Array) -> Any:
        """:meth:`_new_basis`, kept for the last point: records come one by one, at one point."""
        place = self._points.pack(point).tobytes()
        last = self._last_basis
        if not last or last[0] != place:
            last = (place, self._new_basis(point))
            object.__setattr__(self, "_last_basis", last)
        return last[1]

    def _new_basis(self, point: Array) -> Any:
        """``(E, D)``: columns of E are an orthonormal basis, ``D E = I``; stored numbers only.

        Householder QR of the projector with column pivoting gives a basis of its range, Cholesky of
        its Gram matrix makes it orthonormal.
        """
        import scipy.linalg

        method = getattr(self.manifold, self._projector_name)
        matrix = self._projector_matrix(point, method)
        q, _, _ = scipy.linalg.qr(matrix, pivoting=True, mode="economic")
        rank = round(float(np.trace(matrix)))
        if rank != getattr(self, "dim", rank):
            raise PublicValueError(
                f"the tangent space of {self._name} at this point is not of dimension {self.dim}: "
                "it is not a regular point of the manifold; take another one."
            )
        q = q[:, :rank]
        if self._is_euclidean(point, q):
            return q, q.T
        vectors = [self._tangents.unpack(column) for column in q.T]
        gram = np.empty((len(vectors), len(vectors)))
        for i, a in enumerate(vectors):
            for j in range(i + 1):
                gram[i, j] = gram[j, i] = self._inner(point, a, vectors[j])
        try:
            lower = np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            raise PublicValueError(
                f"the inner product of {self._name} is not positive definite on a tangent space."
            ) from None
        return np.linalg.solve(lower, q.T).T, lower.T @ q.T

    def _is_euclidean(self, point: Array, q: Array) -> bool:
        # A quadratic form that is |v|^2 at generic directions is |v|^2; four fixed Gaussian ones.
        for c in np.random.default_rng(1).standard_normal((4, q.shape[1])):
            v = q @ c
            value = self._inner(point, *[self._tangents.unpack(v) for _ in range(2)])
            if not abs(value - c @ c) <= 1e-12 * (c @ c):
                return False
        return True

    def _check_norm(self, probe: Any) -> None:
        """The norm must be the one of the inner product, or noise would have the wrong scale."""
        if not callable(getattr(self.manifold, "norm", None)):
            return
        e, _ = self._basis(probe)
        for c in np.random.default_rng(2).standard_normal((3, self.dim)):
            norm = float(np.real(self.manifold.norm(probe, self._tangents.unpack(e @ c))))
            if not math.isclose(norm, float(np.linalg.norm(c)), rel_tol=1e-6):
                raise PublicValueError(
                    f"the norm of {self._name} does not come from its inner product; noise "
                    "needs a Riemannian metric."
                )

    def _matrices(self, point: Array, which: Any) -> Any:
        """One matrix of :meth:`_basis` per point, ``(..., rows, columns)``."""
        rows = self._flat(_numpy(point))
        size = math.prod(self.shape)
        shape = (size, self.dim) if which == 0 else (self.dim, size)
        out = np.zeros((*rows.shape[:-1], *shape))
        for index in np.ndindex(*rows.shape[:-1]):
            matrix = self._basis(self.unpack(rows[index]))[which]
            out[(*index, slice(matrix.shape[0]), slice(matrix.shape[1]))] = matrix
        return out

    def _is_one_point(self, point: Array, vectors: Array) -> bool:
        """One point with so many vectors that computing its basis first is cheaper."""
        count = vectors.size // math.prod(self.shape)
        return point.ndim == self.point_ndim and count > self._tangents.size

    def tangent_from_coordinates(self, point: Array, coordinates: Array) -> Array:
        matrices = self._matrices(point, 0)
        coordinates = _numpy(coordinates)
        if matrices.ndim == 2:
            flat = coordinates @ matrices.T
        else:
            flat = (matrices @ coordinates[..., None])[..., 0]
        return flat.astype(coordinates.dtype).reshape(*flat.shape[:-1], *self.shape)

    def coordinates_from_tangent(self, point: Array, tangent_vector: Array) -> Array:
        matrices = self._matrices(point, 1)
        vector = self._flat(_numpy(tangent_vector))
        if matrices.ndim == 2:
            return (vector @ matrices.T).astype(vector.dtype)
        return (matrices @ vector[..., None])[..., 0].astype(vector.dtype)

    def inner_product(
        self, point: Array, tangent_vector_a: Array, tangent_vector_b: Array
    ) -> Array:
        if self._is_one_point(_numpy(point), _numpy(tangent_vector_a)):
            a = self.coordinates_from_tangent(point, tangent_vector_a)
            b = self.coordinates_from_tangent(point, tangent_vector_b)
            return np.sum(a * b, axis=-1)
        layouts = (self._points, self._tangents, self._tangents)
        return self._loop(self._inner, layouts, (point, tangent_vector_a, tangent_vector_b))

    def projection(self, point: Array, vector: Array) -> Array:
        if self._is_one_point(_numpy(point), _numpy(vector)):
            coordinates = self._flat(_numpy(vector)) @ self._whole_projector(point).T
            return coordinates.astype(vector.dtype).reshape(vector.shape)
        method = getattr(self.manifold, self._projector_name)
        return self._loop(method, (self._points, self._tangents), (point, vector), self._tangents)

    def _whole_projector(self, point: Array) -> Any:
        method = getattr(self.manifold, self._projector_name)
        size, inner = math.prod(self.shape), self._tangents.size
        matrix = np.zeros((size, size))
        matrix[:inner, :inner] = self._projector_matrix(self.unpack(_numpy(point)), method)
        return matrix

    # -- the rest -------------------------------------------------------------------------------

    def _method(self, *names: str) -> Any:
        for name in names:
            if self._has(name):
                return getattr(self.manifold, name)
        raise PublicTypeError(
            f"{self._name} has no {' or '.join(names)}; implement it, or use an estimator that "
            "only needs gradients and a retraction."
        )

    def _has(self, name: str) -> bool:
        """Whether the manifold itself has this method (pymanopt's placeholders only raise)."""
        method = getattr(self.manifold, name, None)
        code = getattr(method, "__func__", method)
        owner = getattr(code, "__module__", "")
        return callable(method) and owner != "pymanopt.manifolds.manifold"

    def _choose_exp(self, probe: Any, tangent: Array) -> str:
        if not self._has("exp"):
            return "retraction"
        value = self.manifold.exp(probe, tangent)
        if Layout.of(value) != self._points and callable(getattr(self.manifold, "retraction", 0)):
            return "retraction"  # pymanopt 2.2's complex circle drops imaginary parts
        return "exp"

    def exp(self, point: Array, tangent_vector: Array) -> Array:
        method = getattr(self.manifold, self._exp_name)
        layouts = (self._points, self._tangents)
        return self._loop(method, layouts, (point, tangent_vector), self._points)

    def retraction(self, point: Array, tangent_vector: Array) -> Array:
        method = getattr(self.manifold, "retraction" if self._has("retraction") else self._exp_name)
        layouts = (self._points, self._tangents)
        return self._loop(method, layouts, (point, tangent_vector), self._points)

    def log(self, point: Array, other: Array) -> Array:
        method, layouts = self._method("log"), (self._points, self._points)
        vector = self._loop(method, layouts, (point, other), self._tangents)
        return self.projection(point, np.where(np.isfinite(vector), vector, 0.0))

    def dist(self, point: Array, other: Array) -> Array:
        if not self._has("dist"):
            self._method("dist", "log")
            return self.norm(point, self.log(point, other))
        result = self._loop(self.manifold.dist, (self._points, self._points), (point, other))
        return np.where(np.isfinite(result), result, 0.0)

    def transport(self, point: Array, other: Array, tangent_vector: Array) -> Array:
        if self._has("transport"):
            move = self.manifold.transport
        elif self._projector_name == "projection":

            def move(_: Any, end: Array, vector: Array) -> Any:
                return getattr(self.manifold, self._projector_name)(end, vector)
        else:
            move = self._method("transport")

        def isometric(start: Array, end: Array, vector: Array) -> Any:
            basis, dual = self._basis(start)
            end_basis, end_dual = self._basis(end)
            pack, unpack = self._tangents.pack, self._tangents.unpack
            columns = [end_dual @ pack(move(start, end, unpack(e))) for e in basis.T]
            u, _, vt = np.linalg.svd(np.stack(columns, axis=1))
            return unpack(end_basis @ (u @ (vt @ (dual @ pack(vector)))))

        layouts = (self._points, self._points, self._tangents)
        return self._loop(isometric, layouts, (point, other, tangent_vector), self._tangents)

    def euclidean_to_riemannian_gradient(self, point: Array, euclidean_gradient: Array) -> Array:
        method = getattr(self.manifold, "euclidean_to_riemannian_gradient", None)
        layouts, arrays = (self._points, self._points), (point, euclidean_gradient)
        if callable(method):
            with contextlib.suppress(NotImplementedError):
                gradient = self._loop(method, layouts, arrays, self._tangents)
                return self.projection(point, gradient)
        if self._projector_name != "projection":
            self._method("euclidean_to_riemannian_gradient")
        return super().euclidean_to_riemannian_gradient(point, euclidean_gradient)

    def belongs(self, x: Array, atol: float = 1e-6) -> Array:
        """Whether retracting by the zero vector leaves each of `x` where it is, within `atol`.

        pymanopt has no test of membership; this one sees what a retraction would repair.  Where the
        base point itself fails it (several representations of one point), only finiteness is
        tested.
        """
        finite = np.all(np.isfinite(self._flat(_numpy(x))), axis=-1)
        if self._moved(self._base_point) > 1e-9:
            return finite
        inside = np.where(finite.reshape(finite.shape + (1,) * self.point_ndim), x, 0.0)
        return finite & (self._moved(inside) <= atol)

    def _moved(self, x: Array) -> Any:
        """Largest change of an entry under retraction by zero, per point; inf where it fails."""
        retract = getattr(
            self.manifold, "retraction" if self._has("retraction") else self._exp_name
        )
        zero = self._tangents.unpack(np.zeros(self._tangents.size))

        def change(point: Array) -> Any:
            with contextlib.suppress(ArithmeticError, ValueError):
                start = self._points.pack(point)
                return np.max(np.abs(self._points.pack(retract(point, zero)) - start))
            return math.inf

        moved = self._loop(change, (self._points,), (x,))
        return np.where(np.isnan(moved), math.inf, moved)


def _numpy(array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        raise PublicTypeError(
            f"pymanopt manifolds compute with NumPy arrays, got {type(array).__name__}; convert "
            "the data, or use a geometry of skriemdp.geometry."
        )
    return array


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# The generator that ``np.random`` means to a manifold's module, in the context that set it.
_DRAWS: contextvars.ContextVar = contextvars.ContextVar("draws of a manifold", default=None)
_SHARED = np.random.mtrand._rand


class _Random:
    """``np.random``, but for the functions of the generator that a context has of its own."""

    def __getattr__(self, name: str) -> Any:
        own = _DRAWS.get()
        return getattr(own if hasattr(own, name) else np.random, name)


class _Numpy:
    """NumPy with that."""

    random = _Random()

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def _stand_in(value: Any) -> Any:
    """Return a stand-in for `value` that draws from the context's generator, or None."""
    if value is np:
        return _Numpy()
    if value is np.random:
        return _Numpy.random
    if getattr(value, "__self__", None) is not _SHARED:
        return None

    def own(*arguments: Any, **settings: Any) -> Any:  # from numpy.random import normal
        return getattr(_Numpy.random, value.__name__)(*arguments, **settings)

    return own


def _modules_of(manifold: Any) -> list[dict]:
    """Globals of the modules in which a manifold, or a factor of it, may draw random numbers."""
    names = {name for name in sys.modules if name.split(".")[:2] == ["pymanopt", "manifolds"]}
    for part in (manifold, *_parts(manifold)):
        names |= {cls.__module__ for cls in type(part).__mro__}
    return [vars(sys.modules[name]) for name in sorted(names) if name in sys.modules]


def _parts(manifold: Any) -> Any:
    try:
        return tuple(manifold.manifolds)
    except (AttributeError, TypeError):
        return ()


def _publicly_random(manifold: Any, draw: Callable[..., Any]) -> Any:
    """``draw()`` with ``np.random`` under a public seed, and NumPy's global generator untouched.

    What NumPy, its module and its functions of random numbers are called in the manifold's modules
    stands for the public generator meanwhile; in other threads it is NumPy's.
    """
    with _GLOBAL_RNG:
        places = [
            (module, name, value, stand_in)
            for module in _modules_of(manifold)
            for name, value in module.items()
            if (stand_in := _stand_in(value)) is not None
        ]
        for module, name, _, stand_in in places:
            module[name] = stand_in
        token = _DRAWS.set(np.random.RandomState(0))
        try:
            return draw()
        finally:
            _DRAWS.reset(token)
            for module, name, value, _ in places:
                module[name] = value


def example_point(manifold: Any, base_point: Any = None) -> Any:
    """A generic public point: the manifold's random point, from a public seed."""
    try:
        return _publicly_random(manifold, lambda: manifold.random_point())
    except (AttributeError, NotImplementedError):
        if base_point is not None:
            return base_point
        raise PublicTypeError(
            f"{type(manifold).__name__} has no random_point; pass base_point=, any public point."
        ) from None


def _example_tangent(manifold: Any, point: Array) -> Any:
    try:
        return _publicly_random(manifold, lambda: manifold.random_tangent_vector(point))
    except (AttributeError, NotImplementedError):
        return manifold.projection(point, 0.5 * point)


def _same(a: Any, b: Any) -> bool:
    """Equality of plain objects down to their arrays; bound methods compare by function."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if hasattr(a, "__func__"):
        return a.__func__ is b.__func__
    if type(a).__eq__ is object.__eq__ and hasattr(a, "__dict__") and not isinstance(a, type):
        return a is b or _same(vars(a), vars(b))
    return bool(a == b)
