"""The door: names, pymanopt manifolds and geometries all become geometries here."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np

from skriemdp import geometry as spaces
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp.geometry._base import Geometry
from skriemdp.geometry._trial import refuse_lawless


def _square(build: Callable[[int], Geometry]) -> Callable[[int, int], Geometry | None]:
    return lambda rows, columns: build(rows) if rows == columns else None


def _rotations(scale: float) -> Callable[[int, int], Geometry | None]:
    return lambda rows, columns: spaces.Rotations(scale) if rows == columns == 3 else None


def _shapes(landmarks: int, plane: int) -> Geometry | None:
    return spaces.PlanarShapes(landmarks) if plane == 2 else None


# What builds a geometry from the sizes of a point, and returns None where there is none.
Build: TypeAlias = Callable[..., Geometry | None]

# name -> (what a point looks like, number of axes or None for any, geometry from the shape)
_NAMES: dict[str, tuple[str, int | None, Build]] = {
    "euclidean": ("any array", None, lambda *sizes: spaces.Euclidean(*sizes)),
    "sphere": (
        "(d + 1,), vectors of length one (places: skriemdp.geometry.from_lat_lon(lat, lon))",
        1,
        lambda size: spaces.Sphere(size - 1),
    ),
    "circle": (
        "(1,), angles in radians (other units: pass skriemdp.geometry.Circle(24.0))",
        1,
        lambda size: spaces.Circle(math.tau) if size == 1 else None,
    ),
    "hyperboloid": (
        "(d + 1,), time coordinate first",
        1,
        lambda size: spaces.Hyperboloid(size - 1),
    ),
    "poincare": ("(d,), vectors shorter than one", 1, lambda size: spaces.Poincare(size)),
    "spd": ("(m, m), symmetric positive definite", 2, _square(lambda size: spaces.SPD(size))),
    "spd-log-euclidean": (
        "(m, m), symmetric positive definite",
        2,
        _square(lambda size: spaces.SPD(size, metric="log-euclidean")),
    ),
    "spd-bures-wasserstein": (
        "(m, m), symmetric positive definite",
        2,
        _square(lambda size: spaces.SPD(size, metric="bures-wasserstein")),
    ),
    "correlation": (
        "(m, m), correlation matrices",
        2,
        _square(lambda size: spaces.Correlation(size)),
    ),
    "rotations": ("(3, 3), rotation matrices", 2, _rotations(1.0)),
    "shapes": ("(k, 2), landmarks in the plane", 2, _shapes),
    "grassmann": ("(n, p) with p < n, orthonormal columns", 2, lambda n, p: spaces.Grassmann(n, p)),
    "stiefel": ("(n, p) with p < n, orthonormal columns", 2, lambda n, p: spaces.Stiefel(n, p)),
}


# What pyRiemann calls the metrics of covariance matrices.
_PYRIEMANN = {
    "riemann": "spd",
    "logeuclid": "spd-log-euclidean",
    "wasserstein": "spd-bures-wasserstein",
    "euclid": "euclidean",
}


def geometry_from_name(name: str, point_shape: tuple[int, ...] | None) -> Geometry:
    """The geometry with this name whose points have this shape.

    Parameters
    ----------
    name : str
        "euclidean", "sphere", "circle", "hyperboloid", "poincare", "spd" (affine-invariant metric),
        "spd-log-euclidean", "spd-bures-wasserstein", "correlation", "rotations", "shapes" (planar),
        "grassmann" or "stiefel" (embedded metric).
    point_shape : tuple of int
        Shape of one point, ``X.shape[1:]`` of the data.

    Returns
    -------
    Geometry

    Raises
    ------
    ValueError
        For an unknown name, or a shape that points of this geometry cannot have.

    Examples
    --------
    >>> from skriemdp.geometry import geometry_from_name
    >>> geometry_from_name("sphere", (3,))
    Sphere(dim=2, radius=1.0)
    """
    if name not in _NAMES:
        listed = ", ".join(repr(known) for known in _NAMES)
        # Only its beginning: a long text takes minutes to compare.
        near = get_close_matches(_PYRIEMANN.get(name, name[:40]), _NAMES, 1, 0.7)
        raise PublicValueError(
            f"manifold={name[:40]!r} is not one of {listed}; nor a manifold object."
            + (f" Perhaps you mean {near[0]!r}." if near else "")
        )
    if point_shape is None:
        raise PublicValueError(f"manifold={name!r} needs the shape of a point, or pass a geometry.")
    expected, axes, build = _NAMES[name]
    shape = tuple(int(size) for size in point_shape)
    problem = f"points of {name!r} have shape {expected}; got rows of shape {shape}."
    if axes is not None and len(shape) != axes:
        raise PublicValueError(problem)
    try:
        geometry = build(*shape)
    except ValueError as error:
        raise PublicValueError(problem) from error
    if geometry is None:
        raise PublicValueError(problem)
    return geometry


@functools.singledispatch
def as_geometry(manifold: Any, point_shape: tuple[int, ...] | None = None) -> Geometry:
    """The geometry that a user's ``manifold=`` means.

    Parameters
    ----------
    manifold : Geometry, str, or pymanopt manifold
        A geometry comes back as it is; a name is looked up by :func:`geometry_from_name`;
        pymanopt's Euclidean, Sphere, SymmetricPositiveDefinite, Grassmann, Stiefel, PoincareBall,
        SpecialOrthogonalGroup(3) and Product become our batched geometries with the same metric,
        ``k > 1`` copies a :class:`Product`; any other object with pymanopt's methods (yours, too)
        becomes a :class:`PymanoptGeometry`.
    point_shape : tuple of int or None, default=None
        Shape of one point; a name needs it, an object knows its own.

    Returns
    -------
    Geometry

    Raises
    ------
    TypeError
        If the object is no manifold.
    ValueError
        If the name is unknown, or points of that name cannot have the shape.

    Notes
    -----
    ``as_geometry.register(YourClass)`` opens the door to classes of your own: register a function
    of (manifold, point_shape) that returns a :class:`Geometry`.

    Examples
    --------
    >>> from pymanopt.manifolds import SymmetricPositiveDefinite
    >>> from skriemdp.geometry import as_geometry
    >>> as_geometry(SymmetricPositiveDefinite(3))
    AffineInvariantSPD(size=3)
    >>> as_geometry("hyperboloid", point_shape=(3,))
    Hyperboloid(dim=2, curvature=-1.0)
    """
    if _is_pymanopt(type(manifold)) or _resembles_a_manifold(manifold):
        geometry = _from_pymanopt(manifold)
        refuse_lawless(geometry)
        return geometry
    listed = ", ".join(repr(name) for name in _NAMES)
    several = isinstance(manifold, (list, tuple))
    raise PublicTypeError(
        f"manifold={manifold!r} is not a geometry, a pymanopt manifold (an instance, with "
        f"projection, retraction and norm) or one of {listed}."
        + (" Several make one: skriemdp.geometry.Product(*manifold)." if several else "")
    )


@as_geometry.register
def _(manifold: Geometry, point_shape: tuple[int, ...] | None = None) -> Geometry:
    refuse_lawless(manifold)
    return manifold


@as_geometry.register
def _(manifold: str, point_shape: tuple[int, ...] | None = None) -> Geometry:
    return geometry_from_name(manifold, point_shape)


# ---- pymanopt, recognised without importing it ---------------------------------------------------


def _is_pymanopt(cls: type) -> bool:
    return any(base.__module__.split(".")[0] == "pymanopt" for base in cls.__mro__)


def _resembles_a_manifold(manifold: object) -> bool:
    has = functools.partial(hasattr, manifold)
    measured, moves = has("norm") or has("inner_product"), has("retraction") or has("exp")
    return not isinstance(manifold, type) and has("projection") and measured and moves


def _stiefel(n: int, p: int) -> Geometry | None:
    return spaces.Stiefel(n, p) if p < n else None


# Class -> geometry from the shape of a point, None where there is none of ours.  Metrics agree with
# pymanopt's; a test compares them.
_TWINS: dict[str, tuple[int | None, Build]] = {
    "Euclidean": (None, lambda *sizes: spaces.Euclidean(*sizes)),
    "Sphere": (1, lambda size: spaces.Sphere(size - 1)),
    "SymmetricPositiveDefinite": (2, lambda rows, _: spaces.SPD(rows)),
    "Grassmann": (2, lambda n, p: spaces.Grassmann(n, p)),
    "Stiefel": (2, _stiefel),
    "PoincareBall": (1, lambda size: spaces.Poincare(size)),
    "SpecialOrthogonalGroup": (2, _rotations(math.sqrt(2.0))),
}

# Sectional curvature bounds and injectivity radius of pymanopt's metrics where we have no twin.
_FACTS = {
    "Oblique": ((0.0, 1.0), math.pi),  # a product of unit spheres
    "Positive": ((0.0, 0.0), math.inf),  # flat in logarithms
    "Sphere": ((1.0, 1.0), math.pi),
    "SkewSymmetric": ((0.0, 0.0), math.inf),
    "SpecialOrthogonalGroup": ((0.0, 0.25), math.sqrt(2.0) * math.pi),  # |[A, B]|^2 / 4
    "Symmetric": ((0.0, 0.0), math.inf),
}


# Classes whose points have one axis more where they hold k > 1 copies; metrics add up.
_COPIED = {
    "SymmetricPositiveDefinite",
    "Grassmann",
    "Stiefel",
    "PoincareBall",
    "SpecialOrthogonalGroup",
}


def _from_pymanopt(manifold: Any) -> Geometry:
    from skriemdp.geometry._pymanopt_adapter import example_point

    cls = type(manifold)
    # A subclass may have changed the metric, so only pymanopt's own classes are known.
    name = cls.__name__ if cls.__module__.split(".")[:2] == ["pymanopt", "manifolds"] else ""
    if name == "Product":
        return spaces.Product(*(as_geometry(factor) for factor in manifold.manifolds))
    if name in _TWINS:
        axes, build = _TWINS[name]
        shape = np.shape(example_point(manifold))
        geometry = build(*shape) if axes in (None, len(shape)) else None
        if name in _COPIED and axes is not None and len(shape) == axes + 1:
            factor = build(*shape[1:])
            if factor is not None:
                geometry = spaces.Product(*[factor] * shape[0], stacked=True)
        if geometry is not None:
            return geometry
    bounds, radius = _FACTS.get(name, ((-math.inf, math.inf), 0.0))
    return spaces.PymanoptGeometry(manifold, curvature_bounds=bounds, injectivity_radius=radius)
