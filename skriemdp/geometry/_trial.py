"""A trial of manifolds from outside the package: the laws on which noise and means rest.

Points and vectors are public random numbers around the base point, so what is found, and what a
method says when it fails, tells nothing about any record.
"""

from __future__ import annotations

import functools
import math
import numbers
import warnings
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp.geometry._base import Geometry

_POINTS = 6
_AGREE = 1e-5


def refuse_lawless(geometry: Geometry) -> None:
    """Raise for a geometry from outside the package that breaks a law at a public point.

    Tried are the facts, the base point, `exp` and `log`, frames, lengths, and whether rows are
    computed each by itself.  That curvature and injectivity radius are true cannot be tried.

    Raises
    ------
    TypeError
        For a fact of another type.
    ValueError
        For a law that does not hold, with the name of the method.
    """
    for part in geometry.factors or (geometry,):
        owner = type(getattr(part, "manifold", part))
        if owner.__module__.split(".")[0] in ("skriemdp", "pymanopt"):
            continue
        (_tried if isinstance(part, Hashable) else _try)(part)


def _try(geometry: Geometry) -> None:
    _check_facts(geometry)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        broken = next(_broken(geometry), None)
    if broken is not None:
        raise _refused(geometry, broken)


_tried = functools.lru_cache(maxsize=64)(_try)


def _refused(geometry: Geometry, finding: str) -> PublicValueError:
    return PublicValueError(
        f"manifold: {type(geometry).__name__} was tried at public points, and {finding}. The "
        "docstrings of skriemdp.geometry.Geometry say what each method returns."
    )


def _check_facts(geometry: Geometry) -> None:
    name = type(geometry).__name__
    shape, dim = geometry.shape, geometry.dim
    sizes = shape if isinstance(shape, tuple) else ()
    whole = all(isinstance(size, numbers.Integral) and size >= 1 for size in (*sizes, dim))
    if not isinstance(shape, tuple) or not whole:
        raise PublicTypeError(
            f"manifold: {name} must have a shape, a tuple of whole numbers such as (3,), and a "
            f"whole number dim >= 1; got shape={shape!r}, dim={dim!r}."
        )
    bounds, radius = geometry.curvature_bounds, geometry.injectivity_radius
    ends = tuple(bounds) if isinstance(bounds, (tuple, list)) else ()
    known = all(isinstance(number, numbers.Real) for number in (*ends, radius))
    if len(ends) != 2 or not known or not ends[0] <= ends[1] or not radius >= 0:
        raise PublicTypeError(
            f"manifold: {name} must have curvature_bounds, two numbers (low, high), and an "
            f"injectivity_radius, a number; got {bounds!r} and {radius!r}."
        )


def _broken(geometry: Geometry) -> Iterator[str]:
    """Yield each law that does not hold, in the order in which to mend them."""
    shape, base = geometry.shape, geometry.base_point
    if np.shape(base) != shape:
        yield f"base_point has shape {np.shape(base)} and not shape={shape}"
    ask = functools.partial(_answer, geometry)
    radius = _radius(geometry)
    lengths = radius * np.linspace(0.2, 1.0, _POINTS)
    c = np.random.default_rng(0).standard_normal((_POINTS, geometry.dim))
    c *= (lengths / np.linalg.norm(c, axis=1))[:, None]
    points = ask("exp_coordinates", base, c)
    yield from _of_shape(points, (_POINTS, *shape), "exp_coordinates(point, coordinates)")
    for x, count in ((base, ()), (points, (_POINTS,))):
        inside = ask("belongs", x)
        if inside.shape != count:
            yield f"belongs of an array {np.shape(x)} gives shape {inside.shape} and not {count}"
        if not inside.all():
            yield "belongs says that the base point, or what exp returns, is no point"
    for x in (base, points[-1]):
        tangents = ask("tangent_from_coordinates", x, c)
        yield from _of_shape(tangents, (_POINTS, *shape), "tangent_from_coordinates(point, c)")
        if not _agree(ask("coordinates_from_tangent", x, tangents), c, radius):
            yield "coordinates_from_tangent does not undo tangent_from_coordinates"
        combined = ask("tangent_from_coordinates", x, c[0] + 2.0 * c[1])
        if not _agree(combined, tangents[0] + 2.0 * tangents[1]):
            yield "tangent_from_coordinates is not linear"
        if not _agree(ask("norm", x, tangents), lengths, radius):
            yield (
                "tangent_from_coordinates is no isometry: the norm of a tangent vector is not the "
                "length of its coordinates, so noise would have another scale than is stated"
            )
    if geometry.radius_limit > 0.0 and getattr(geometry, "knows_geodesics", True):
        yield from _of_geodesics(geometry, base, points, c)


def _of_geodesics(geometry: Geometry, base: Any, points: Any, c: np.ndarray) -> Iterator[str]:
    """Laws of logarithms, which only means ask for."""
    ask = functools.partial(_answer, geometry)
    lengths = np.linalg.norm(c, axis=1)
    radius = lengths[-1]
    back = ask("log_coordinates", base, points)
    yield from _of_shape(back, c.shape, "log_coordinates(point, others)")
    if not _agree(back, c, radius):
        yield "log does not undo exp"
    if not _agree(ask("dist", base, points), lengths, radius):
        yield "the distance from a point to exp(point, v) is not the norm of v"
    x, others = points[-1], points[:-1]
    again = ask("exp_coordinates", x, ask("log_coordinates", x, others))
    if not _agree(ask("dist", others, again), np.zeros(len(others)), radius):
        yield "exp does not undo log away from the base point"
    # Rows in other company: fewer, one alone, and in the opposite order.
    for method, rows in (("log_coordinates", points), ("dist", points), ("exp_coordinates", c)):
        whole = ask(method, base, rows)
        for index in (slice(1, None), slice(2, 3), slice(None, None, -1)):
            some = ask(method, base, rows[index])
            if not _agree(some, whole[index], radius):
                yield f"a row of {method} changes when other rows do; compute each by itself"
            if geometry.separate_rows and not np.array_equal(some, whole[index]):
                yield (
                    f"rounding in a row of {method} depends on the other rows, which "
                    "separate_rows = True denies; set it to False"
                )


def _answer(geometry: Geometry, method: str, *arguments: Any) -> Any:
    failure: Any = None
    try:
        return np.asarray(getattr(geometry, method)(*(np.array(a) for a in arguments)))
    except Exception as error:  # noqa: BLE001  a method may raise what it likes
        failure = f"{method} raised {type(error).__name__}: {error}"
    raise _refused(geometry, failure)


def _of_shape(found: Any, shape: tuple[int, ...], what: str) -> Iterator[str]:
    if found.shape != shape:
        yield f"{what} of {_POINTS} rows gives shape {found.shape} and not {shape}"
    elif not np.isfinite(found).all():
        yield f"{what} gives numbers that are not finite"


def _agree(found: Any, expected: Any, size: float | None = None) -> bool:
    found, expected = np.asarray(found), np.asarray(expected)
    size = float(np.abs(expected).max(initial=0.0)) if size is None else size
    return found.shape == expected.shape and bool((abs(found - expected) <= _AGREE * size).all())


def _radius(geometry: Geometry) -> float:
    """Distance from the base point up to which laws are tried.

    It lies within all that the geometry says of itself; where that is nothing, it is a hundredth.
    """
    low, high = geometry.curvature_bounds
    bend = max(abs(low), abs(high))
    limit = geometry.radius_limit
    radius = 0.5 / math.sqrt(max(bend, 0.25)) if math.isfinite(bend) else 0.01
    return min(radius, 0.5 * limit) if limit > 0.0 else min(radius, 0.01)
