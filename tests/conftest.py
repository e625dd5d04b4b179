"""The geometries under test and random points on them; one that joins the list meets every law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skriemdp.geometry import (
    AffineInvariantSPD,
    BuresWassersteinSPD,
    Euclidean,
    Hyperboloid,
    LogEuclideanSPD,
    Sphere,
)

GEOMETRIES = [
    Euclidean(3),
    Euclidean(2, 2),
    Sphere(1),
    Sphere(2),
    Sphere(6, radius=2.0),
    Hyperboloid(1),
    Hyperboloid(2),
    Hyperboloid(5, curvature=-0.5),
    AffineInvariantSPD(1),
    AffineInvariantSPD(2),
    AffineInvariantSPD(4),
    LogEuclideanSPD(1),
    LogEuclideanSPD(2),
    LogEuclideanSPD(4),
    BuresWassersteinSPD(1),
    BuresWassersteinSPD(2),
    BuresWassersteinSPD(3),
]

# Geometries whose operations stop at an accuracy of their own: (geometry class, operation) -> atol.
ACCURACY = {
    (BuresWassersteinSPD, "transport"): 1e-6,
}


def accuracy(geometry, operation, default=1e-8):
    return ACCURACY.get((type(geometry), operation), default)


def reach(geometry):
    """Radius around the base point within which pairs of points have unique short geodesics."""
    if geometry.is_hadamard:
        return 2.0
    if geometry.injectivity_radius > 0:
        return 0.4 * min(geometry.injectivity_radius, 10.0)
    return 0.4  # not complete, but exp is a bijection on the unit ball at the base point


def points_from(geometry, coordinates):
    """Points within `reach` of the base point, from arrays of numbers in [-1, 1], (..., dim)."""
    scale = reach(geometry) / math.sqrt(geometry.dim)
    return geometry.exp_coordinates(geometry.base_point, coordinates * scale)


def random_points(geometry, rng, *batch):
    return points_from(geometry, rng.uniform(-1, 1, size=(*batch, geometry.dim)))


def random_tangents(geometry, rng, point, length=1.0):
    """One tangent vector at each of `point`, of norm at most `length`."""
    batch = point.shape[: point.ndim - geometry.point_ndim]
    coordinates = rng.uniform(-1, 1, size=(*batch, geometry.dim)) / math.sqrt(geometry.dim)
    return geometry.tangent_from_coordinates(point, length * coordinates)


@pytest.fixture(params=GEOMETRIES, ids=str)
def geometry(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(20240607)
