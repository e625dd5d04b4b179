"""Base of regressors of points: Fréchet R^2, and tags."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skriemdp._core.estimator import PrivateEstimator
from skriemdp._errors import PublicNotImplementedError, PublicValueError
from skriemdp._quiet import read_weights
from skriemdp.geometry import as_geometry
from skriemdp.geometry._base import Geometry


class ManifoldRegressor(RegressorMixin, PrivateEstimator):
    """Shared by regressors whose responses are points."""

    __metadata_request__fit = {"groups": True}
    geometry_: Any
    manifold: Any

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Fréchet R^2: one minus the squared distances to y over those of y's Fréchet mean.

        Parameters
        ----------
        X, y : as in `fit`
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        float
            1 is perfect, 0 as good as the non-private Fréchet mean of y.  Not private.
        """
        check_is_fitted(self)
        points, predicted = self._compared(X, y)
        weights = read_weights(sample_weight, len(points))
        return frechet_r2(self.geometry_, points, np.asarray(predicted), weights)

    def _stand_in(self, shape: tuple[int, ...], y_shape: tuple[int, ...]) -> tuple[Any, Any]:
        X, y = super()._stand_in(shape, y_shape)
        if self.manifold is None:
            return X, y
        try:
            geometry = as_geometry(self.manifold, point_shape=y_shape or (1,))
        except ValueError as error:
            raise PublicValueError(f"{error} y_shape= is the shape of a row of y.") from None
        return X, geometry.base_point if y_shape or geometry.shape != (1,) else y

    def _compared(self, X: Any, y: Any) -> tuple[Any, Any]:
        """The points y, and those that are predicted for X."""
        raise PublicNotImplementedError

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        # A private model of a few hundred records is mostly noise.
        tags.regressor_tags.poor_score = True
        return tags


def frechet_r2(
    geometry: Geometry, points: np.ndarray, predicted: np.ndarray, weights: np.ndarray
) -> float:
    """One minus the squared distances of predictions to points over those of the points' mean.

    Parameters
    ----------
    geometry : Geometry
    points, predicted : ndarray of shape (n, *shape)
    weights : ndarray of shape (n,)
    """
    squares = np.asarray(geometry.dist(predicted, points)) ** 2
    total, error = frechet_variation(geometry, points, weights), float(weights @ squares)
    if total == 0.0:
        return 1.0 if error == 0.0 else 0.0
    return 1.0 - error / total


def frechet_variation(geometry: Geometry, points: np.ndarray, weights: np.ndarray) -> float:
    """Weighted sum of squared distances to the weighted Fréchet mean; not private.

    Descent starts at the base point where there is one mean, and at the heaviest point where there
    may be several.
    """
    point = geometry.base_point if geometry.is_hadamard else points[int(np.argmax(weights))]
    step, previous = 1.0, math.inf
    shares = weights / weights.sum()
    for _ in range(200):
        move = shares @ np.asarray(geometry.log_coordinates(point, points))
        size = float(np.linalg.norm(move))
        if size <= 1e-9:
            break
        if size > 0.7 * previous:
            # Strong curvature overshoots with full steps; halving restores contraction.
            step = max(step / 2.0, 1.0 / 64.0)
        previous = size
        point = np.asarray(geometry.exp_coordinates(point, step * move))
    return float(weights @ np.asarray(geometry.dist(point, points)) ** 2)
