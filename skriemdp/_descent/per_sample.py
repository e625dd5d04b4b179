"""Per-sample Riemannian gradients of a user's cost: by explicit formula, torch, jax or autograd."""

from __future__ import annotations

import abc
import dataclasses
import functools
import importlib
import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._descent.carried import check_per_sample
from skriemdp._descent.problem import Problem
from skriemdp._descent.separate_rows import (
    RowCheck,
    check_rows,
    made_up_points,
    pairs_of_batches,
    refuse_faults,
    refuse_mixing,
)
from skriemdp._errors import PublicImportError, PublicTypeError, PublicValueError
from skriemdp._quiet import about_public_input
from skriemdp._random import public_generator
from skriemdp._validation import check_option, shown
from skriemdp.geometry._base import Geometry
from skriemdp.geometry._tiles import block_length, tiles

__all__ = [
    "BACKENDS",
    "CostGradient",
    "CostProblem",
    "EuclideanGradient",
    "HalfSquaredDistance",
    "PerSampleGradient",
    "RiemannianGradient",
    "check_per_sample",
    "make_gradient",
]

BACKENDS = ("numpy", "torch", "jax", "autograd")

# Bytes of gradients or records per block.  Calls into torch and jax have fixed costs of some 100
# microseconds, so their blocks are larger (benchmarks/solvers.py, table "Block size").
_BLOCK_BYTES = {"torch": 2**22, "jax": 2**20}


# Rows of a block of constant length: products of matrices end with full kernels there.
_ROWS = 256


def _has_parts(geometry: Geometry) -> bool:
    """Whether a point reaches a user's function as a tuple of arrays."""
    return isinstance(geometry.as_parts(geometry.base_point), tuple)


def _wants_parts(geometry: Geometry, name: str) -> str:
    parts = geometry.as_parts(geometry.base_point)
    shapes = ", ".join(str(np.shape(part)) for part in parts)
    gives = "the cost of one record" if name == "cost" else "a list of one array for each part"
    return (
        f"{name} gets points of {geometry} as the tuple of their parts, of shapes {shapes}: take "
        f"it apart, such as {', '.join('abcdefgh'[: len(parts)])} = point, and give {gives}"
        f"{'' if name == 'cost' else ', with an axis of records in front'}."
        + (" Records stay flat; manifold.split takes them apart." if geometry.factors else "")
    )


# -- gradients as functions (point, X, y) -> (b, *shape) ------------------------------------------


class PerSampleGradient(abc.ABC):
    """Riemannian gradients of a batch, in two parts that want blocks of different sizes.

    Attributes
    ----------
    geometry : Geometry
    backend : str
    parameter : str
        Name of the batched function of the user; empty if there is none.
    separate : bool
        Whether rows are computed one by one, whatever the user's function does.
    """

    geometry: Geometry
    backend = "numpy"
    parameter = ""

    @property
    def separate(self) -> bool:
        return False

    @abc.abstractmethod
    def ambient(self, point: np.ndarray, X: np.ndarray, y: Any = None) -> np.ndarray:
        """Evaluate the user's function, an array ``(b, *shape)``."""

    def tangent(self, point: np.ndarray, ambient: Any) -> np.ndarray:
        """The Riemannian gradients that this means, tangent at `point`."""
        return ambient

    def __call__(self, point: np.ndarray, X: np.ndarray, y: np.ndarray | None = None) -> np.ndarray:
        return self.tangent(point, self.ambient(point, X, y))

    def coordinate_blocks(
        self, point: np.ndarray, X: np.ndarray, y: np.ndarray | None = None
    ) -> Iterator[np.ndarray]:
        """Orthonormal coordinates of the gradients, ``(b, dim)``, in one block or more."""
        ambient = self.ambient(point, X, y)
        # Blocks are as large as the backend likes; what follows is ours and likes caches.
        for block in (ambient,) if self.backend == "numpy" else tiles(ambient):
            vectors = self.tangent(point, block)
            yield np.asarray(self.geometry.coordinates_from_tangent(point, vectors))

    def _checked(self, gradients: Any, count: int, name: str, tangent: bool = False) -> np.ndarray:
        if isinstance(gradients, (list, tuple)) and _has_parts(self.geometry):
            try:
                gradients = self.geometry.from_parts(gradients, tangent)
            except (TypeError, ValueError):
                raise PublicValueError(_wants_parts(self.geometry, name)) from None
        gradients = np.asarray(gradients, dtype=float)
        if gradients.shape != (count, *self.geometry.shape):
            if _has_parts(self.geometry):
                raise PublicValueError(_wants_parts(self.geometry, name))
            raise PublicValueError(
                f"{name} must give one gradient per record, an array of shape "
                f"({count}, {', '.join(map(str, self.geometry.shape))}) for {count} records on "
                f"{self.geometry}; got shape {gradients.shape}."
            )
        return gradients


@dataclass(frozen=True)
class HalfSquaredDistance(PerSampleGradient):
    """Cost ``dist(point, x)**2 / 2``, gradient ``-log_point(x)``: its minimiser is the mean.

    With `unchecked`, records that nobody has validated count as zero where they are not points of
    the manifold: LAPACK gives up on a whole batch of subspaces for one that is not finite.
    """

    geometry: Geometry
    unchecked: bool = False

    @property
    def separate(self) -> bool:
        return True

    def ambient(self, point: np.ndarray, X: np.ndarray, y: Any = None) -> np.ndarray:
        return -self.geometry.log(point, self._points(point, X))

    def coordinate_blocks(
        self, point: np.ndarray, X: np.ndarray, y: Any = None
    ) -> Iterator[np.ndarray]:
        yield -np.asarray(self.geometry.log_coordinates(point, self._points(point, X)))

    def _points(self, point: np.ndarray, X: np.ndarray) -> np.ndarray:
        X = self.geometry.canonical(X.reshape(len(X), *self.geometry.shape))
        if self.unchecked and not self.geometry.total_logarithms:
            axes = tuple(range(1, X.ndim))
            X = np.where(np.expand_dims(self.geometry.belongs(X), axes), X, point)
        return X

    def cost(self, point: np.ndarray, X: np.ndarray, y: Any = None) -> np.ndarray:
        """Cost of every record, shape ``(b,)``."""
        X = self.geometry.canonical(X.reshape(len(X), *self.geometry.shape))
        return 0.5 * self.geometry.dist(point, X) ** 2


@dataclass(frozen=True)
class RiemannianGradient(PerSampleGradient):
    """A batched Riemannian gradient ``gradient(point, X, y) -> (b, *shape)``.

    Its tangent part is taken, so that no component of a record escapes the noise.
    """

    geometry: Geometry
    gradient: Callable
    parameter = "gradient"

    def ambient(self, point: np.ndarray, X: np.ndarray, y: np.ndarray | None = None) -> np.ndarray:
        found = self.gradient(self.geometry.as_parts(point), X, y)
        return self._checked(found, len(X), "gradient", tangent=True)

    def tangent(self, point: np.ndarray, ambient: np.ndarray) -> np.ndarray:
        return self.geometry.projection(point, ambient)


@dataclass(frozen=True)
class EuclideanGradient(PerSampleGradient):
    """Batched partial derivatives ``gradient(point, X, y) -> (b, *shape)``, made Riemannian."""

    geometry: Geometry
    gradient: Callable
    parameter = "euclidean_gradient"

    def ambient(self, point: np.ndarray, X: np.ndarray, y: Any = None) -> np.ndarray:
        found = self.gradient(self.geometry.as_parts(point), X, y)
        return self._checked(found, len(X), "euclidean_gradient")

    def tangent(self, point: np.ndarray, ambient: np.ndarray) -> np.ndarray:
        return self.geometry.euclidean_to_riemannian_gradient(point, ambient)


@dataclass(frozen=True)
class CostGradient(PerSampleGradient):
    """Gradients of ``cost(point, x, y)``, a function of one record, by automatic differentiation.

    ``"torch"`` (``torch.func``) and ``"jax"`` (``jax.vmap``, compiled) treat the whole batch at
    once; ``"autograd"`` has no batching transform and loops over the records.
    """

    geometry: Geometry
    cost_function: Callable
    backend: str

    @property
    def separate(self) -> bool:
        return self.backend == "autograd"  # which loops

    def ambient(self, point: np.ndarray, X: np.ndarray, y: np.ndarray | None = None) -> np.ndarray:
        return self._checked(self._batched(point, X, y), len(X), "cost")

    def tangent(self, point: np.ndarray, ambient: np.ndarray) -> np.ndarray:
        return self.geometry.euclidean_to_riemannian_gradient(point, ambient)

    def cost(self, point: np.ndarray, X: np.ndarray, y: Any = None) -> np.ndarray:
        """Cost of every record, shape ``(b,)``."""
        return np.asarray(_VALUES[self.backend](self._of_point, point, X, y), dtype=float)

    @functools.cached_property
    def _of_point(self) -> Callable[..., Any]:
        """The cost as a function of a stored point, which the backend itself takes apart."""
        if not _has_parts(self.geometry):
            return self.cost_function
        return lambda point, x, y: self.cost_function(self.geometry.as_parts(point), x, y)

    @functools.cached_property
    def _batched(self) -> Callable[..., Any]:
        return _GRADIENTS[self.backend](self._of_point)

    def __getstate__(self) -> dict[str, Any]:  # compiled functions stay in their process
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


@dataclass(frozen=True)
class InBlocks(PerSampleGradient):
    """Another gradient, asked for `rows` records at a time; copies of the first fill a block up."""

    inner: PerSampleGradient
    rows: int

    @property
    def geometry(self) -> Geometry:  # type: ignore[override]  # read-only here
        return self.inner.geometry

    @property
    def backend(self) -> str:  # type: ignore[override]
        return self.inner.backend

    def ambient(self, point: np.ndarray, X: np.ndarray, y: Any = None) -> np.ndarray:
        count, rows = len(X), self.rows
        if not count:
            return self.inner.ambient(point, X, y)
        length = -(-count // rows) * rows
        X, y = _padded(X, length), None if y is None else _padded(y, length)
        blocks = [
            self.inner.ambient(point, X[i : i + rows], None if y is None else y[i : i + rows])
            for i in range(0, length, rows)
        ]
        return np.concatenate(blocks)[:count]

    def tangent(self, point: np.ndarray, ambient: Any) -> np.ndarray:
        return self.inner.tangent(point, ambient)


def _torch_gradients(cost: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    def gradients(point: np.ndarray, X: Any, y: Any) -> np.ndarray:
        # Every record gets a copy of the point, so the derivative of the sum of costs with respect
        # to the copies holds each record's own gradient.  Faster than vmap of torch.func.grad:
        # batching rules run in the forward pass only.
        X = _tensor(torch, X)
        points = _tensor(torch, point).expand(len(X), *point.shape).detach().requires_grad_()
        values = _torch_map(torch, cost, points, 0, X, y)
        (result,) = torch.autograd.grad(values.sum(), points, materialize_grads=True)
        return result.numpy()

    return gradients


def _torch_map(
    torch: Any, cost: Callable[..., Any], points: Any, axis: int | None, X: Any, y: Any
) -> Any:
    """Costs of the records, shape ``(b,)``; `axis` is that of the points' batch, or None."""
    if y is None:
        mapped = torch.func.vmap(lambda point, x: cost(point, x, None), in_dims=(axis, 0))
        return mapped(points, X)
    mapped = torch.func.vmap(lambda point, x, label: cost(point, x, label), in_dims=(axis, 0, 0))
    return mapped(points, X, _tensor(torch, y))


def _tensor(torch: Any, array: np.ndarray) -> Any:
    # from_numpy shares memory and warns of read-only arrays (memory maps), hence the copy of those.
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def _jax_gradients(cost: Callable[..., Any]) -> Callable[..., Any]:
    import jax

    batched = jax.jit(jax.vmap(jax.grad(cost), in_axes=(None, 0, 0)))
    without_y = jax.jit(
        jax.vmap(jax.grad(lambda point, x: cost(point, x, None)), in_axes=(None, 0))
    )

    def gradients(point: np.ndarray, X: np.ndarray, y: Any) -> np.ndarray:
        # Every new batch length would be compiled anew: pad to a power of two with copies of the
        # first record, whose gradients are then dropped.
        count = len(X)
        length = 1 << max(0, count - 1).bit_length()
        with jax.enable_x64(True):
            X = _padded(X, length)
            result = without_y(point, X) if y is None else batched(point, X, _padded(y, length))
            return np.asarray(result)[:count]

    return gradients


def _padded(array: np.ndarray, length: int) -> np.ndarray:
    missing = length - len(array)
    if not missing:
        return np.asarray(array)
    return np.concatenate([array, np.broadcast_to(array[:1], (missing, *array.shape[1:]))])


def _autograd_gradients(cost: Callable[..., Any]) -> Callable[..., Any]:
    import autograd

    gradient = autograd.grad(cost)

    def gradients(point: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        labels = [None] * len(X) if y is None else y
        return np.stack([gradient(point, x, label) for x, label in zip(X, labels, strict=True)])

    return gradients


def _loop_values(cost: Callable[..., Any], point: np.ndarray, X: Any, y: Any) -> list[Any]:
    labels = [None] * len(X) if y is None else y
    return [cost(point, x, label) for x, label in zip(X, labels, strict=True)]


def _torch_values(cost: Callable[..., Any], point: np.ndarray, X: Any, y: Any) -> np.ndarray:
    import torch

    with torch.no_grad():
        return _torch_map(torch, cost, _tensor(torch, point), None, _tensor(torch, X), y).numpy()


def _jax_values(cost: Callable[..., Any], point: np.ndarray, X: np.ndarray, y: Any) -> np.ndarray:
    import jax

    with jax.enable_x64(True):
        if y is None:
            return np.asarray(jax.vmap(lambda x: cost(point, x, None))(np.asarray(X)))
        values = jax.vmap(lambda x, label: cost(point, x, label))
        return np.asarray(values(np.asarray(X), np.asarray(y)))


_GRADIENTS = {"torch": _torch_gradients, "jax": _jax_gradients, "autograd": _autograd_gradients}
_VALUES = {"torch": _torch_values, "jax": _jax_values, "autograd": _loop_values}


def make_gradient(
    geometry: Geometry,
    cost: Any,
    backend: Any,
    gradient: Any = None,
    euclidean_gradient: Callable[..., Any] | None = None,
) -> PerSampleGradient:
    """The per-sample gradient that the arguments of an ERM describe.

    Parameters
    ----------
    geometry : Geometry
    cost : callable or None
        ``cost(point, x, y)`` of one record.
    backend : {"numpy", "torch", "jax", "autograd"}
    gradient, euclidean_gradient : callable or None
        Batched, for ``backend="numpy"``.

    Returns
    -------
    callable
        ``(point, X, y) -> (b, *shape)``.
    """
    check_option(BACKENDS, backend=backend)
    given = [f for f in (gradient, euclidean_gradient) if f is not None]
    if len(given) > 1:
        raise PublicValueError("pass only one of gradient and euclidean_gradient.")
    for name, function in (("gradient", gradient), ("euclidean_gradient", euclidean_gradient)):
        if function is not None:
            _check_callable(function, name)
    if backend == "numpy":
        if gradient is not None:
            return RiemannianGradient(geometry, gradient)
        if euclidean_gradient is not None:
            return EuclideanGradient(geometry, euclidean_gradient)
        if cost is None:
            return HalfSquaredDistance(geometry)
        raise PublicTypeError(
            "backend='numpy' cannot differentiate cost; pass gradient=, or "
            "backend='torch', 'jax' or 'autograd'."
        )
    if given:
        raise PublicValueError(f"backend={backend!r} differentiates cost; leave out the gradient.")
    _check_callable(cost, "cost")
    try:
        importlib.import_module(backend)
    except ImportError as error:
        raise PublicImportError(
            f"backend={backend!r} needs the package {backend!r}; install it, or pass "
            "backend='numpy' with a gradient."
        ) from error
    return CostGradient(geometry, cost, backend)


# -- what can be clipped per record ---------------------------------------------------------------


def _check_callable(function: Any, name: str) -> None:
    if not callable(function) or isinstance(function, type):
        raise PublicTypeError(f"{name} must be a function (point, x, y), got {shown(function)}.")
    if any(cls.__module__.startswith("pymanopt.") for cls in type(function).__mro__):
        raise PublicTypeError(
            f"{name} is a pymanopt cost of the point alone, which already sums over the records; "
            "pass a plain function of one record, cost(point, x, y)."
        )
    try:
        inspect.signature(function).bind(None, None, None)
    except ValueError:  # built in, without a signature
        return
    except TypeError:
        raise PublicTypeError(
            f"{name} must take three arguments (point, x, y): the cost of *one record* is clipped, "
            "and a function of the point alone has no per-record gradients."
        ) from None


# -- the problem ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CostProblem(Problem):
    """Mean of a user's cost over records ``(x_i, y_i)``.

    Parameters
    ----------
    gradient : callable
        ``(point, X, y) -> (b, *shape)`` Riemannian gradients, from :func:`make_gradient`.
    X : ndarray of shape (n, ...)
        A memory map is read block by block.
    y : ndarray of shape (n, ...), optional
    checked : RowCheck, optional
        What :attr:`row_check` found, where it was asked already.

    Notes
    -----
    Nothing is known about the size of the gradients, so solvers need a finite clip norm.  A record
    whose gradient is not finite counts as zero.
    """

    gradient: Any
    X: Any
    y: Any = None
    checked: RowCheck | None = None

    @property
    def geometry(self) -> Geometry:  # type: ignore[override]  # read-only here
        return self.gradient.geometry

    @property
    def n(self) -> int:  # type: ignore[override]  # read-only here
        return len(self.X)

    def gradients(self, point: np.ndarray, indices: np.ndarray | slice | None = None) -> np.ndarray:
        chosen = slice(None) if indices is None else indices
        labels = None if self.y is None else self.y[chosen]
        with np.errstate(all="ignore"):
            return self._gradient_of(chosen)(point, self.X[chosen], labels)

    def gradient_coordinates(
        self, point: np.ndarray, indices: np.ndarray | slice | None = None
    ) -> np.ndarray:
        chosen = slice(None) if indices is None else indices
        labels = None if self.y is None else self.y[chosen]
        with np.errstate(all="ignore"):
            gradient = self._gradient_of(chosen)
            blocks = list(gradient.coordinate_blocks(point, self.X[chosen], labels))
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def _gradient_of(self, piece: np.ndarray | slice) -> PerSampleGradient:
        """The gradient, in blocks where a row's bits would depend on who else is asked for.

        All records, in slices, have places of their own.
        """
        known = self.row_check
        if known.identical or (isinstance(piece, slice) and known.in_place):
            return self.gradient
        return InBlocks(self.gradient, known.together)

    @property
    def longest_piece(self) -> int:
        row = max(math.prod(self.geometry.shape), math.prod(self.X.shape[1:]))
        backend = self.gradient.backend
        if backend in _BLOCK_BYTES:
            rows = max(1, _BLOCK_BYTES[backend] // (8 * row))
        else:
            rows = 2 * block_length(np.empty((0, row)))
        if backend == "jax":  # which pads to powers of two
            rows = 1 << (rows.bit_length() - 1)
        return rows

    @property
    def separate_rows(self) -> bool:
        return self.row_check.identical

    @property
    def one_by_one(self) -> bool:
        return not self.geometry.separate_rows

    @functools.cached_property
    def row_check(self) -> RowCheck:
        """Whether the gradient of a record is the same in any batch, tried on made-up records.

        ``row_check.identical`` says whether that is so bitwise, in ambient numbers and, as
        `geometry.separate_rows` promises, in coordinates.
        """
        if self.checked is not None:
            return self.checked
        gradient, geometry = self.gradient, self.geometry
        exact = bool(geometry.separate_rows)
        if gradient.separate:
            return RowCheck(tried=True, separate=True, identical=exact, in_place=exact)
        rng = public_generator(0, "made-up point")
        point = made_up_points(geometry, 1, 0.3, rng)[0]
        y_shape = None if self.y is None else tuple(self.y.shape[1:])

        def check(gradient: PerSampleGradient) -> RowCheck:
            return check_rows(
                lambda X, y: gradient.ambient(point, X, y),
                pairs_of_batches(geometry, tuple(self.X.shape[1:]), y_shape),
                quick=isinstance(self.gradient, CostGradient),
            )

        found, together = check(gradient), 1
        if found.separate and not found.identical and check(InBlocks(gradient, _ROWS)).identical:
            together = _ROWS
        identical, in_place = found.identical and exact, found.in_place and exact
        return dataclasses.replace(found, identical=identical, in_place=in_place, together=together)

    def dry_run(self, point: np.ndarray) -> None:
        """Try the gradient on made-up records, before anything is charged or released.

        Raises
        ------
        ValueError
            If the gradient has the wrong shape, or if the rows of a batch depend on each other.
        """
        same = tuple(self.X.shape[1:]) == self.geometry.shape
        x = point if same else np.full(self.X.shape[1:], 0.5)
        y = None if self.y is None else np.zeros((1, *self.y.shape[1:]))
        problem = kind = ""
        try:
            with about_public_input(), np.errstate(all="ignore"):
                self.gradient(point, np.asarray(x, dtype=float)[None], y)
        except (ArithmeticError, np.linalg.LinAlgError):
            pass  # the made-up record may lie outside the function's domain
        except Exception as error:
            if not _has_parts(self.geometry):
                raise
            problem = _wants_parts(self.geometry, self.gradient.parameter or "cost")
            kind = type(error).__name__
        if problem:
            raise PublicTypeError(f"{problem} On a made-up record it raised {kind}.")
        if self.gradient.parameter:  # costs are mapped over records one by one
            refuse_faults(
                self.row_check, self.gradient.parameter, "a function (point, X, y)", "one gradient"
            )
            refuse_mixing(self.row_check, self.gradient.parameter)
