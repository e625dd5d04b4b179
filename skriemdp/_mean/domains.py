"""The ball of a mean, public or searched for, from the parameters `center` and `radius`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skriemdp._core.estimator import Data, PrivateEstimator
from skriemdp._core.manifold_input import (
    as_points,
    check_membership,
    check_reach,
    checked_points,
    public_ball,
    public_point,
    read_points,
    warn_published_labels,
    warn_small_search,
)
from skriemdp._core.parameters import read_labels
from skriemdp._errors import PublicValueError
from skriemdp._location_scale.points import logarithms_at, plan_point_search
from skriemdp._location_scale.search import LocationScaleSearch
from skriemdp._validation import check_scale
from skriemdp.geometry import GeodesicBall, as_geometry
from skriemdp.geometry._ball import check_bounded
from skriemdp.geometry._base import Geometry
from skriemdp.geometry._tiles import map_tiles


class PointEstimator(PrivateEstimator):
    """Base of estimators whose records are points of ``manifold``."""

    manifold: Any
    geometry_: Geometry
    _flat: bool

    def _validate(self, X: Any, y: Any = None, least: int = 2) -> Data:
        X = read_points(self, X, manifold=self.manifold, ensure_min_samples=least)
        geometry, points = checked_points(X, self.manifold)
        check_bounded(geometry)
        return Data((points,), {"geometry": geometry, "n": len(points), "flat": X.ndim == 2})

    def _stand_in(self, shape: tuple[int, ...], y_shape: tuple[int, ...]) -> tuple[Any, Any]:
        return as_geometry(self.manifold, point_shape=shape).base_point, np.zeros(())

    def _points(self, X: Any) -> np.ndarray:
        """Rows that a fitted estimator is asked about, as points."""
        check_is_fitted(self)
        points = as_points(
            self.geometry_, read_points(self, X, manifold=self.geometry_, reset=False)
        )
        check_membership(self.geometry_, points)
        return points

    def _layout(self, points: np.ndarray) -> np.ndarray:
        """Points as the rows of X were."""
        return points.reshape(len(points), -1) if self._flat else points

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class PointClassifier(ClassifierMixin, PointEstimator):
    """Base of classifiers of points: records are points, and the places of their labels."""

    classes: Any

    def _validate(self, X: Any, y: Any = None, least: int = 2) -> Data:
        X, y = read_points(
            self, X, y, manifold=self.manifold, labels=True, ensure_min_samples=least
        )
        classes, y = read_labels(self.classes, y)
        warn_published_labels(self.classes)
        geometry, points = checked_points(X, self.manifold)
        check_bounded(geometry)
        facts = {"geometry": geometry, "n": len(points), "classes": classes}
        return Data((points, y), facts)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # A private model of a handful of records is mostly noise.
        tags.classifier_tags.poor_score = True
        return tags


def public_domain(geometry: Geometry, center: Any, radius: Any) -> GeodesicBall | None:
    """The public ball; None where a part of it is private."""
    asked = isinstance(center, str) and center == "private"
    if asked or (isinstance(radius, str) and radius == "private"):
        return None
    return public_ball(geometry, center, radius)


def search_domain(
    geometry: Geometry, n: int, mu: float, center: Any, radius: Any, secret_n: bool = False
) -> LocationScaleSearch:
    """The search for what is private of the ball; `mu` is that of the whole fit."""
    if secret_n and not geometry.separate_rows:
        raise PublicValueError(
            f"a search on {geometry} computes points together, so that one point more may show "
            "in the last digits of all, and the number of records is secret; pass a public "
            "center and radius, or make an accountant with unit='record', under which it is "
            "public."
        )
    middle, bound = None, None
    if not isinstance(radius, str) or radius != "private":
        check_scale(radius=radius)
        bound = float(radius)
        if bound >= geometry.radius_limit:
            public_ball(geometry, geometry.base_point, bound)  # says why not
    if center is not None and not isinstance(center, str):
        middle = public_point(geometry, center=center)
        check_reach(geometry, center=middle)
    elif isinstance(center, str) and center != "private":
        public_ball(geometry, center, 1.0)  # says why not
    names = ("center", middle), ("radius", bound)
    missing = " and ".join(name for name, known in names if known is None)
    warn_small_search(n, mu, f"a public {missing}")
    try:
        return plan_point_search(geometry, n, mu, middle, bound)
    except ValueError as refusal:  # by a sum, which knows no ball
        raise PublicValueError(
            f"a private ball is searched in exact integers: {refusal} Or pass a public center and "
            "radius."
        ) from None


def logarithms(geometry: Geometry, center: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Normal coordinates of all points, each from its own numbers alone, bitwise."""
    return np.asarray(map_tiles(logarithms_at(geometry, center), points))


def is_table(geometry: Geometry) -> bool:
    """Whether points are rows of R^d, whose columns may come in units of their own."""
    line = geometry.is_flat and geometry.scaling is None and geometry.reach.diameter == math.inf
    return line and len(geometry.shape) == 1 and not geometry.factors


def public_facts(
    geometry: Geometry, n: int, ball: GeodesicBall | None, search: LocationScaleSearch | None
) -> dict[str, Any]:
    """Return the numbers that must be public for a fit in this ball, or after this search."""
    known: Any = search if ball is None else ball
    found = (("center", known.center), ("radius", known.radius))
    facts = {"n": n, "manifold": str(geometry)}
    return facts | {name: value for name, value in found if value is not None}
