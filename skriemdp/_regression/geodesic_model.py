"""Geodesics through a base point, one for each feature, and residuals as that point sees them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._regression.planning import clip_norms
from skriemdp.geometry._base import Geometry

# Rows that are worked on at once; a few megabytes.
_TILE = 2048


def combined(features: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """``features @ slopes``, each row of which is bitwise the same in any batch."""
    total = np.zeros((len(features), slopes.shape[1]))
    for column, slope in zip(features.T, slopes, strict=True):
        total += column[:, None] * slope
    return total


@dataclass(frozen=True, eq=False)
class GeodesicModel:
    """The map ``z -> exp_base(sum_j z_j slopes_j)``.

    Parameters
    ----------
    geometry : Geometry
    base : ndarray of shape ``geometry.shape``
    slopes : ndarray of shape (n_features, dim)
        Orthonormal coordinates at `base`.
    """

    geometry: Geometry
    base: np.ndarray
    slopes: np.ndarray

    def points(self, features: np.ndarray) -> np.ndarray:
        """The predictions, ``(n, *shape)``; the base point where floats cannot hold one."""
        return _in_tiles(self._points, features)

    def _points(self, features: np.ndarray) -> np.ndarray:
        geometry, axes = self.geometry, (1,) * len(self.geometry.shape)
        velocities = combined(features, self.slopes)
        found = np.asarray(geometry.exp_coordinates(self.base, velocities))
        finite = np.isfinite(found.reshape(len(found), -1)).all(axis=1)
        found = np.where(finite.reshape(-1, *axes), found, self.base)
        inside = np.asarray(geometry.belongs(found)).reshape(-1, *axes)
        return np.where(inside, found, self.base)

    def residuals(self, features: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Logarithms of `points` at the predictions, carried to the base point; ``(n, dim)``.

        Row i depends on features and point of record i only.  A row that is not finite is one that
        no sum may take.
        """
        return _in_tiles(self._residuals, features, points)

    def _residuals(self, features: np.ndarray, points: np.ndarray) -> np.ndarray:
        geometry, predicted = self.geometry, self._points(features)
        carried = geometry.transport(predicted, self.base, geometry.log(predicted, points))
        return np.asarray(geometry.coordinates_from_tangent(self.base, carried))

    def distances(self, features: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Geodesic distances from the predictions to `points`, shape ``(n,)``."""
        dist = self.geometry.dist
        return _in_tiles(lambda z, x: np.asarray(dist(self._points(z), x)), features, points)

    def scattered(self, features: np.ndarray, residuals: np.ndarray, via: Any) -> np.ndarray:
        """Points with these residuals, which are coordinates at the point `via`."""
        geometry, predicted = self.geometry, self._points(features)
        tangent = geometry.tangent_from_coordinates(via, residuals)
        here = geometry.transport(via, self.base, tangent)
        return np.asarray(geometry.exp(predicted, geometry.transport(self.base, predicted, here)))

    def moved(self, change: np.ndarray, reach: float) -> GeodesicModel:
        """The model after `change`: its first row moves the base point, the others the slopes.

        Parameters
        ----------
        change : ndarray of shape (1 + n_features, dim)
            Coordinates at `base`; slopes are carried to the new base point.
        reach : float
            The base point moves by no more, and no features of length one move a prediction from
            the base point by more than twice as much.
        """
        geometry, base = self.geometry, self.base
        step = clip_norms(change[:1], reach)[0]
        slopes = self.slopes + change[1:]
        # A constant has no slopes, of which older versions of NumPy know no norm.
        longest = np.linalg.svd(slopes, compute_uv=False).max(initial=1e-300)
        slopes = slopes * min(1.0, 2.0 * reach / float(longest))
        point = np.asarray(geometry.exp_coordinates(base, step))
        if not np.isfinite(point).all() or not bool(geometry.belongs(point)):
            return dataclasses.replace(self, slopes=slopes)
        tangent = geometry.tangent_from_coordinates(base, slopes)
        carried = geometry.transport(base, point, tangent)
        return GeodesicModel(
            geometry, point, np.asarray(geometry.coordinates_from_tangent(point, carried))
        )


def _in_tiles(kernel: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """Apply `kernel` to at most `_TILE` rows at a time; once at least, so none give none."""
    places = range(0, max(len(arrays[0]), 1), _TILE)
    return np.concatenate([kernel(*(a[at : at + _TILE] for a in arrays)) for at in places])
