"""Layouts of labels in hyperbolic space: normal coordinates at the origin, Lorentz, Poincaré."""

from __future__ import annotations

from typing import Any

import numpy as np

from skriemdp._validation import check_option
from skriemdp.geometry import Hyperboloid, Poincare, as_geometry

__all__ = ["label_space", "layout", "space_of", "tangent_labels"]

COORDINATES = ("tangent", "lorentz", "poincare")


def label_space(
    manifold: Any, coordinates: str, curvature: float, columns: int
) -> tuple[Hyperboloid, str]:
    """The space of labels with so many columns, and their layout, from an estimator's parameters.

    Parameters
    ----------
    manifold : str, Geometry or pymanopt manifold, or None
        Takes the place of `coordinates` and `curvature`, which then have their defaults.
    coordinates : str
    curvature : float
    columns : int

    Raises
    ------
    ValueError
        For a manifold that is not hyperbolic or of another dimension, or that is named twice.
    """
    check_option(COORDINATES, coordinates=coordinates)
    if manifold is None:
        return Hyperboloid(columns - (coordinates == "lorentz"), curvature), coordinates
    geometry = as_geometry(manifold, point_shape=(columns,))
    if not isinstance(geometry, (Hyperboloid, Poincare)):
        raise ValueError(
            f"manifold={geometry} is not hyperbolic; pass pymanopt's PoincareBall(dim), or "
            "Hyperboloid or Poincare of skriemdp.geometry. Responses on other manifolds are for "
            "PrivateGeodesicRegressor."
        )
    if coordinates != "tangent" or curvature != -1.0:
        raise ValueError(
            "manifold= says the layout and the curvature of y already; leave coordinates and "
            "curvature at their defaults, or pass manifold=None."
        )
    if geometry.shape != (columns,):
        raise ValueError(
            f"y has {columns} columns, but points of manifold={geometry} have {geometry.shape[0]}."
        )
    space = Hyperboloid(geometry.dim, geometry.curvature)
    return space, "lorentz" if isinstance(geometry, Hyperboloid) else "poincare"


def space_of(coordinates: str, geometry: Hyperboloid) -> Hyperboloid | Poincare | None:
    """The space whose points labels are, None where they are tangent vectors."""
    if coordinates == "tangent":
        return None
    return geometry if coordinates == "lorentz" else Poincare(geometry.dim, geometry.curvature)


def tangent_labels(y: Any, coordinates: str, geometry: Hyperboloid) -> np.ndarray:
    """Normal coordinates at the origin, ``(n, dim)``; ValueError for rows that are no points."""
    y = np.asarray(y, dtype=float)
    y = y[:, None] if y.ndim == 1 else y
    space = space_of(coordinates, geometry)
    expected = geometry.dim if space is None else space.shape[0]
    if y.shape[1] != expected:
        raise ValueError(f"y has {y.shape[1]} columns, but {expected} are expected.")
    if space is None:
        own = Hyperboloid(expected - 1, geometry.curvature) if expected > 1 else None
        if own is not None and np.asarray(own.belongs(y)).all():
            raise ValueError(
                f"all rows of y are points of {own}, but coordinates='tangent' takes them for "
                "vectors at the origin; pass coordinates='lorentz'."
            )
        return y
    if not np.asarray(space.belongs(y)).all():
        raise ValueError(
            f"some rows of y are not points of {space}; check coordinates="
            f"{coordinates!r} and curvature, or pass coordinates='tangent'."
        )
    return np.asarray(space.log_coordinates(space.base_point, y))


def layout(tangent: np.ndarray, coordinates: str, geometry: Hyperboloid, flat: bool) -> np.ndarray:
    """Labels in the user's layout, from normal coordinates at the origin; `flat`: ``(n,)``."""
    space = space_of(coordinates, geometry)
    if space is None:
        return tangent[:, 0] if flat else tangent
    return np.asarray(space.exp_coordinates(space.base_point, tangent))
