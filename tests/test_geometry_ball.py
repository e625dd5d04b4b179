"""Geodesic balls: projections obey the radius, and rounding within reach is negligible."""

import numpy as np
import pytest
from conftest import reach

from skriemdp.geometry import SPD, GeodesicBall, Grassmann, Hyperboloid, Stiefel
from skriemdp.geometry._ball import descent_reach


@pytest.mark.parametrize("geometry", [SPD(2), SPD(3), Hyperboloid(3)], ids=str)
def test_coordinates_at_the_centre_obey_the_radius(geometry):
    # Projecting and then taking the logarithm returned 1.37 times the radius for SPD(3).
    rng = np.random.default_rng(0)
    ball = GeodesicBall(geometry, None, 100.0)
    u = rng.normal(size=(50, geometry.dim))
    u *= 250.0 / np.linalg.norm(u, axis=1, keepdims=True)
    points = geometry.exp_coordinates(geometry.base_point, u)
    lengths = np.linalg.norm(ball.coordinates(points), axis=1)
    assert lengths.max() <= 100.0


@pytest.mark.parametrize("geometry", [SPD(2), SPD(5), Hyperboloid(3)], ids=str)
def test_within_reach_of_a_descent_rounding_is_negligible(geometry):
    rng, radius, worst = np.random.default_rng(3), descent_reach(geometry), 0.0
    for _ in range(60):
        u = rng.normal(size=geometry.dim)
        u *= radius / np.linalg.norm(u)
        point = geometry.exp_coordinates(geometry.base_point, u)
        vectors = rng.normal(size=(20, geometry.dim))
        tangent = geometry.tangent_from_coordinates(point, vectors)
        moved = geometry.coordinates_from_tangent(point, tangent) - vectors
        worst = max(worst, (np.linalg.norm(moved, axis=1) / np.linalg.norm(vectors, axis=1)).max())
    assert worst < 1e-6


@pytest.mark.parametrize("geometry", [Grassmann(5, 2), Stiefel(5, 2)], ids=str)
def test_balls_below_the_limit_keep_their_promise(geometry, rng):
    """Points of a ball of nearly the limiting radius have logarithms that end at each other."""
    ball = GeodesicBall(geometry, center=None, radius=0.99 * geometry.radius_limit)
    x = ball.project(np.stack([geometry.random_point(rng) for _ in range(40)]))
    assert np.all(ball.contains(x))
    inside = geometry.dist(x, geometry.base_point)
    assert np.all(inside < geometry.radius_limit)
    assert reach(geometry) < geometry.injectivity_radius


@pytest.mark.parametrize("geometry", [-0.5, Hyperboloid, "spd", None])
def test_a_ball_of_no_geometry_is_refused_by_name(geometry):
    with pytest.raises(TypeError, match="geometry must be a Geometry"):
        GeodesicBall(geometry, None, 1.0)
