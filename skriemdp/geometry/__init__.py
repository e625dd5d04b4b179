"""Riemannian manifolds as batched, array-API geometries; nothing here knows about privacy.

Each name is loaded on first use.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "AffineInvariantSPD": "skriemdp.geometry.spd.affine",
    "BuresWassersteinSPD": "skriemdp.geometry.spd.bures",
    "Circle": "skriemdp.geometry.circle",
    "Correlation": "skriemdp.geometry.correlation",
    "Euclidean": "skriemdp.geometry.euclidean",
    "GeodesicBall": "skriemdp.geometry.ball",
    "Geometry": "skriemdp.geometry.base",
    "Grassmann": "skriemdp.geometry.grassmann",
    "Hyperboloid": "skriemdp.geometry.hyperbolic",
    "LogEuclideanSPD": "skriemdp.geometry.spd.log_euclidean",
    "PlanarShapes": "skriemdp.geometry.shapes",
    "Poincare": "skriemdp.geometry.poincare",
    "Product": "skriemdp.geometry.product",
    "PymanoptGeometry": "skriemdp.geometry.pymanopt_adapter",
    "Rotations": "skriemdp.geometry.rotations",
    "SPD": "skriemdp.geometry.spd",
    "Sphere": "skriemdp.geometry.sphere",
    "Stiefel": "skriemdp.geometry.stiefel",
    "as_geometry": "skriemdp.geometry.convert",
    "from_compositions": "skriemdp.geometry.globe",
    "from_lat_lon": "skriemdp.geometry.globe",
    "geometry_from_name": "skriemdp.geometry.convert",
    "to_compositions": "skriemdp.geometry.globe",
    "to_lat_lon": "skriemdp.geometry.globe",
}

__all__ = list(_HOME)

if TYPE_CHECKING:  # so that type checkers and editors know what the names of `_HOME` are
    from skriemdp.geometry.ball import GeodesicBall as GeodesicBall
    from skriemdp.geometry.base import Geometry as Geometry
    from skriemdp.geometry.circle import Circle as Circle
    from skriemdp.geometry.convert import as_geometry as as_geometry
    from skriemdp.geometry.convert import geometry_from_name as geometry_from_name
    from skriemdp.geometry.correlation import Correlation as Correlation
    from skriemdp.geometry.euclidean import Euclidean as Euclidean
    from skriemdp.geometry.globe import from_compositions as from_compositions
    from skriemdp.geometry.globe import from_lat_lon as from_lat_lon
    from skriemdp.geometry.globe import to_compositions as to_compositions
    from skriemdp.geometry.globe import to_lat_lon as to_lat_lon
    from skriemdp.geometry.grassmann import Grassmann as Grassmann
    from skriemdp.geometry.hyperbolic import Hyperboloid as Hyperboloid
    from skriemdp.geometry.poincare import Poincare as Poincare
    from skriemdp.geometry.product import Product as Product
    from skriemdp.geometry.pymanopt_adapter import PymanoptGeometry as PymanoptGeometry
    from skriemdp.geometry.rotations import Rotations as Rotations
    from skriemdp.geometry.shapes import PlanarShapes as PlanarShapes
    from skriemdp.geometry.spd import SPD as SPD
    from skriemdp.geometry.spd.affine import AffineInvariantSPD as AffineInvariantSPD
    from skriemdp.geometry.spd.bures import BuresWassersteinSPD as BuresWassersteinSPD
    from skriemdp.geometry.spd.log_euclidean import LogEuclideanSPD as LogEuclideanSPD
    from skriemdp.geometry.sphere import Sphere as Sphere
    from skriemdp.geometry.stiefel import Stiefel as Stiefel
else:

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            return getattr(_import_module(_HOME[name]), name)
        raise AttributeError(f"module 'skriemdp.geometry' has no attribute {name!r}")
