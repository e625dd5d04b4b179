"""Layouts of labels in hyperbolic space: points of it, or tangent vectors at the origin."""

from __future__ import annotations

from typing import Any

import numpy as np

from skriemdp._errors import PublicValueError
from skriemdp.geometry import Hyperboloid, as_geometry
from skriemdp.geometry._base import Geometry


def label_space(manifold: Any, columns: int) -> tuple[Hyperboloid, Geometry | None]:
    """The hyperbolic space of labels with so many columns, and the space whose points they are.

    Parameters
    ----------
    manifold : str, Geometry or pymanopt manifold, or None
        None: labels are tangent vectors, and points of no space.
    columns : int

    Raises
    ------
    ValueError
        For a manifold that is not hyperbolic or of another dimension.
    """
    if manifold is None:
        return Hyperboloid(columns), None
    space = as_geometry(manifold, point_shape=(columns,))
    known = space.symmetric_space
    if known is None or known.name != "hyperbolic":
        raise PublicValueError(
            f"manifold={space} is not hyperbolic; pass pymanopt's PoincareBall(dim), or "
            "Hyperboloid or Poincare of skriemdp.geometry. Responses on other manifolds are for "
            "PrivateGeodesicRegressor."
        )
    if space.shape != (columns,):
        raise PublicValueError(
            f"y has {columns} columns, but points of manifold={space} have {space.shape[0]}."
        )
    return Hyperboloid(known.dim, known.curvature), space


def tangent_labels(y: Any, space: Geometry | None, geometry: Hyperboloid) -> np.ndarray:
    """Normal coordinates at the origin, ``(n, dim)``; ValueError for rows that are no points."""
    y = np.asarray(y, dtype=float)
    y = y[:, None] if y.ndim == 1 else y
    expected = geometry.dim if space is None else space.shape[0]
    if y.shape[1] != expected:
        raise PublicValueError(f"y has {y.shape[1]} columns, but {expected} are expected.")
    if space is None:
        own = Hyperboloid(expected - 1) if expected > 1 else None
        if own is not None and np.asarray(own.belongs(y)).all():
            raise PublicValueError(
                f"all rows of y are points of {own}, but manifold=None takes them for "
                "vectors at the origin; pass manifold='hyperboloid'."
            )
        return y
    if not np.asarray(space.belongs(y)).all():
        raise PublicValueError(
            f"some rows of y are not points of {space}; pass the manifold= that they are points "
            "of, or manifold=None for vectors at the origin."
        )
    return np.asarray(space.log_coordinates(space.base_point, y))


def layout(tangent: np.ndarray, space: Geometry | None, flat: bool) -> np.ndarray:
    """Labels as the user has them, from normal coordinates at the origin; `flat`: ``(n,)``."""
    if space is None:
        return tangent[:, 0] if flat else tangent
    return np.asarray(space.exp_coordinates(space.base_point, tangent))
