"""Fréchet R^2, and the variation of points around their Fréchet mean."""

from __future__ import annotations

import math

import numpy as np

from skriemdp.geometry.base import Geometry

__all__ = ["frechet_r2", "frechet_variation"]


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
