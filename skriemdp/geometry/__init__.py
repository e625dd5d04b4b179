"""Riemannian manifolds as batched, array-API geometries; nothing here knows about privacy.

Each name is loaded on first use.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "AffineInvariantSPD": "skriemdp.geometry._spd.affine",
    "BuresWassersteinSPD": "skriemdp.geometry._spd.bures",
    "Circle": "skriemdp.geometry._circle",
    "CoordinateGeometry": "skriemdp.geometry._base",
    "Correlation": "skriemdp.geometry._correlation",
    "Embedding": "skriemdp.geometry._base",
    "Euclidean": "skriemdp.geometry._euclidean",
    "GeodesicBall": "skriemdp.geometry._ball",
    "Geometry": "skriemdp.geometry._base",
    "Grassmann": "skriemdp.geometry._grassmann",
    "Hyperboloid": "skriemdp.geometry._hyperbolic",
    "LogEuclideanSPD": "skriemdp.geometry._spd.log_euclidean",
    "PlanarShapes": "skriemdp.geometry._shapes",
    "Poincare": "skriemdp.geometry._poincare",
    "Product": "skriemdp.geometry._product",
    "PymanoptGeometry": "skriemdp.geometry._pymanopt_adapter",
    "Reach": "skriemdp.geometry._base",
    "Rotations": "skriemdp.geometry._rotations",
    "SPD": "skriemdp.geometry._spd",
    "Scaling": "skriemdp.geometry._base",
    "Sphere": "skriemdp.geometry._sphere",
    "Stiefel": "skriemdp.geometry._stiefel",
    "as_geometry": "skriemdp.geometry._convert",
    "from_compositions": "skriemdp.geometry._globe",
    "from_lat_lon": "skriemdp.geometry._globe",
    "geometry_from_name": "skriemdp.geometry._convert",
    "to_compositions": "skriemdp.geometry._globe",
    "to_lat_lon": "skriemdp.geometry._globe",
}

__all__ = list(_HOME)

if TYPE_CHECKING:  # so that type checkers and editors know what the names of `_HOME` are
    from skriemdp.geometry._ball import GeodesicBall as GeodesicBall
    from skriemdp.geometry._base import CoordinateGeometry as CoordinateGeometry
    from skriemdp.geometry._base import Embedding as Embedding
    from skriemdp.geometry._base import Geometry as Geometry
    from skriemdp.geometry._base import Reach as Reach
    from skriemdp.geometry._base import Scaling as Scaling
    from skriemdp.geometry._circle import Circle as Circle
    from skriemdp.geometry._convert import as_geometry as as_geometry
    from skriemdp.geometry._convert import geometry_from_name as geometry_from_name
    from skriemdp.geometry._correlation import Correlation as Correlation
    from skriemdp.geometry._euclidean import Euclidean as Euclidean
    from skriemdp.geometry._globe import from_compositions as from_compositions
    from skriemdp.geometry._globe import from_lat_lon as from_lat_lon
    from skriemdp.geometry._globe import to_compositions as to_compositions
    from skriemdp.geometry._globe import to_lat_lon as to_lat_lon
    from skriemdp.geometry._grassmann import Grassmann as Grassmann
    from skriemdp.geometry._hyperbolic import Hyperboloid as Hyperboloid
    from skriemdp.geometry._poincare import Poincare as Poincare
    from skriemdp.geometry._product import Product as Product
    from skriemdp.geometry._pymanopt_adapter import PymanoptGeometry as PymanoptGeometry
    from skriemdp.geometry._rotations import Rotations as Rotations
    from skriemdp.geometry._shapes import PlanarShapes as PlanarShapes
    from skriemdp.geometry._spd import SPD as SPD
    from skriemdp.geometry._spd.affine import AffineInvariantSPD as AffineInvariantSPD
    from skriemdp.geometry._spd.bures import BuresWassersteinSPD as BuresWassersteinSPD
    from skriemdp.geometry._spd.log_euclidean import LogEuclideanSPD as LogEuclideanSPD
    from skriemdp.geometry._sphere import Sphere as Sphere
    from skriemdp.geometry._stiefel import Stiefel as Stiefel
else:

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            return getattr(_import_module(_HOME[name]), name)
        raise AttributeError(f"module 'skriemdp.geometry' has no attribute {name!r}")
