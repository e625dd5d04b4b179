"""Riemannian manifolds as batched, array-API geometries; nothing here knows about privacy."""

from skriemdp.geometry.ball import GeodesicBall
from skriemdp.geometry.base import Geometry
from skriemdp.geometry.circle import Circle
from skriemdp.geometry.convert import as_geometry, geometry_from_name
from skriemdp.geometry.correlation import Correlation
from skriemdp.geometry.euclidean import Euclidean
from skriemdp.geometry.globe import (
    from_compositions,
    from_lat_lon,
    to_compositions,
    to_lat_lon,
)
from skriemdp.geometry.grassmann import Grassmann
from skriemdp.geometry.hyperbolic import Hyperboloid
from skriemdp.geometry.poincare import Poincare
from skriemdp.geometry.product import Product
from skriemdp.geometry.pymanopt_adapter import PymanoptGeometry
from skriemdp.geometry.rotations import Rotations
from skriemdp.geometry.shapes import PlanarShapes
from skriemdp.geometry.spd import SPD
from skriemdp.geometry.spd.affine import AffineInvariantSPD
from skriemdp.geometry.spd.bures import BuresWassersteinSPD
from skriemdp.geometry.spd.log_euclidean import LogEuclideanSPD
from skriemdp.geometry.sphere import Sphere
from skriemdp.geometry.stiefel import Stiefel

__all__ = [
    "AffineInvariantSPD",
    "BuresWassersteinSPD",
    "Circle",
    "Correlation",
    "Euclidean",
    "GeodesicBall",
    "Geometry",
    "Grassmann",
    "Hyperboloid",
    "LogEuclideanSPD",
    "PlanarShapes",
    "Poincare",
    "Product",
    "PymanoptGeometry",
    "Rotations",
    "SPD",
    "Sphere",
    "Stiefel",
    "as_geometry",
    "from_compositions",
    "from_lat_lon",
    "geometry_from_name",
    "to_compositions",
    "to_lat_lon",
]
