"""Spheres and hyperboloids against 60-digit arithmetic, where their formulas are delicate."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from skriemdp import PrivacyAccountant, PrivateFrechetMean
from skriemdp.datasets import make_cloud
from skriemdp.geometry import GeodesicBall, Hyperboloid, Sphere


@pytest.mark.parametrize("dim", [1, 2, 7])
@pytest.mark.parametrize("length", [0.0, 1e-12, 1e-3, 1.0, 3.0, math.pi - 1e-9, 40.0])
def test_one_point_of_a_sphere_moves_as_a_table_does(dim, length, rng):
    space = Sphere(dim, radius=2.0)
    for _ in range(20):
        point, step = space.random_point(rng), rng.normal(size=dim)
        step *= 2.0 * length / np.linalg.norm(step)
        moved = space.exp_coordinates(point, step)
        together = space.exp_coordinates(point[None], step[None])
        assert_allclose(moved, together[0], rtol=0, atol=1e-13)
        back = space.log_coordinates(point, moved)
        assert_allclose(back, space.log_coordinates(point, moved[None])[0], rtol=0, atol=1e-13)


def precise_hyperbolic_distance(x, y):
    """Distance of two points given by their space coordinates, 60 digits."""
    with mpmath.workdps(60):
        x, y = [[mpmath.mpf(float(v)) for v in p[1:]] for p in (x, y)]
        time_x = mpmath.sqrt(1 + sum(v * v for v in x))
        time_y = mpmath.sqrt(1 + sum(v * v for v in y))
        return float(mpmath.acosh(time_x * time_y - sum(a * b for a, b in zip(x, y, strict=True))))


def precise_angle(x, y):
    with mpmath.workdps(60):
        x, y = [[mpmath.mpf(float(v)) for v in p] for p in (x, y)]
        norm_x, norm_y = [mpmath.sqrt(sum(v * v for v in p)) for p in (x, y)]
        chord = mpmath.sqrt(sum((a / norm_x - b / norm_y) ** 2 for a, b in zip(x, y, strict=True)))
        return float(2 * mpmath.asin(min(chord / 2, mpmath.mpf(1))))


@pytest.mark.parametrize("far", [0.0, 1.0, 5.0, 15.0])
@pytest.mark.parametrize("apart", [1e-9, 1e-4, 1.0, 10.0])
def test_hyperbolic_distances_have_relative_accuracy(far, apart, rng):
    space = Hyperboloid(3)
    for _ in range(20):
        direction = rng.normal(size=3)
        x = space.exp_coordinates(space.base_point, far * direction / np.linalg.norm(direction))
        step = rng.normal(size=3)
        y = space.exp_coordinates(x, apart * step / np.linalg.norm(step))
        exact = precise_hyperbolic_distance(x, y)
        rtol = 1e-8 if far == 15.0 else 1e-11
        assert_allclose(space.dist(x, y), exact, rtol=rtol)
        # The rounding of y moves it by about eps * time(x), whatever the algorithm.
        assert_allclose(exact, apart, rtol=1e-8 + 1e-15 * x[0] / apart)
        assert_allclose(np.linalg.norm(space.log_coordinates(x, y)), exact, rtol=rtol)


def test_hyperbolic_points_on_opposite_sides(rng):
    space = Hyperboloid(4)
    for scale in (1e-8, 1e-3, 1.0, 1e3, 1e8):
        direction = rng.normal(size=4)
        x = np.concatenate([[0.0], scale * direction])
        y = np.concatenate([[0.0], -scale * (direction + 1e-3 * rng.normal(size=4))])
        assert_allclose(space.dist(x, y), precise_hyperbolic_distance(x, y), rtol=1e-14)


def test_hyperboloid_round_trip_at_distance_15(rng):
    space = Hyperboloid(2)
    direction = rng.normal(size=(50, 2))
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    x = space.exp_coordinates(space.base_point, 15 * direction)
    c = rng.normal(size=(50, 2))
    assert_allclose(space.log_coordinates(x, space.exp_coordinates(x, c)), c, atol=1e-8)
    v = space.tangent_from_coordinates(x, c)
    assert_allclose(space.coordinates_from_tangent(x, v), c, atol=1e-8)
    assert_allclose(space.norm(x, v), np.linalg.norm(c, axis=-1), atol=1e-8)
    back = space.exp_coordinates(x, space.log_coordinates(x, space.base_point))
    assert_allclose(back, np.tile(space.base_point, (50, 1)), atol=1e-8)
    assert_allclose(space.log(space.base_point, x)[:, 1:], 15 * direction, rtol=1e-13)


def test_hyperboloid_reads_points_by_their_space_coordinates(rng):
    space = Hyperboloid(2, curvature=-0.25)
    x = space.exp_coordinates(space.base_point, rng.normal(size=(5, 2)))
    y = space.exp_coordinates(space.base_point, rng.normal(size=(5, 2)))
    bent = x.copy()
    bent[:, 0] *= 1 + 1e-7
    assert np.all(space.belongs(bent)) and not np.any(space.belongs(bent, atol=1e-9))
    assert_allclose(space.dist(bent, y), space.dist(x, y), rtol=1e-15)
    bent[:, 0] *= -1
    assert not np.any(space.belongs(bent))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hyperboloid_exp_of_huge_vectors_is_finite(dtype):
    space = Hyperboloid(2)
    x = np.array([0, 3, 4], dtype=dtype)
    y = space.exp_coordinates(x, np.array([[1e4, -1e4], [1e30, 0]], dtype=dtype))
    assert np.all(np.isfinite(y)) and y.dtype == dtype
    assert np.all(np.isfinite(space.dist(x, y)))


@pytest.mark.parametrize("apart", [1e-12, 1e-8, 1e-3, 1.0, math.pi - 1e-7])
def test_sphere_angles_have_relative_accuracy(apart, rng):
    sphere = Sphere(3)
    for _ in range(20):
        x = sphere.exp_coordinates(sphere.base_point, rng.normal(size=3))
        step = rng.normal(size=3)
        y = sphere.exp_coordinates(x, apart * step / np.linalg.norm(step))
        assert_allclose(sphere.dist(x, y), precise_angle(x, y), rtol=1e-15, atol=1e-16)
        v = sphere.log(x, y)
        assert_allclose(sphere.norm(x, v), sphere.dist(x, y), rtol=1e-14, atol=1e-16)
        assert_allclose(sphere.exp(x, v), y, atol=1e-15)
        # Tangent even next to the antipode, where y - <x, y> x is all cancellation.
        assert abs(v @ x) < 1e-8 * sphere.norm(x, v)


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_log_of_the_antipode_depends_on_the_point_only(dim, rng):
    sphere = Sphere(dim, radius=2.0)
    x = sphere.exp_coordinates(sphere.base_point, 2 * rng.normal(size=(30, dim)))
    v = sphere.log(x, -x)
    first = sphere.tangent_from_coordinates(x, np.eye(dim)[0])
    assert_allclose(v, 2 * math.pi * first, atol=1e-14)
    assert_allclose(sphere.exp(x, v), -x, atol=1e-14)
    u = sphere.tangent_from_coordinates(x, rng.normal(size=(30, dim)))
    moved = sphere.transport(x, -x, u)
    assert_allclose(np.linalg.norm(moved, axis=-1), np.linalg.norm(u, axis=-1), atol=1e-13)


def test_sphere_rescales_points_that_are_off_by_rounding(rng):
    sphere = Sphere(2, radius=3.0)
    x, y = sphere.exp_coordinates(sphere.base_point, rng.normal(size=(2, 2)))
    assert sphere.belongs(1.0000001 * x) and not sphere.belongs(1.001 * x)
    assert_allclose(sphere.dist(1.0000001 * x, y), sphere.dist(x, y), rtol=1e-14)
    assert_allclose(sphere.log(1.0000001 * x, y), sphere.log(x, y), atol=1e-14)
    assert_allclose(np.linalg.norm(sphere.exp(1.0000001 * x, 0 * y)), 3.0, rtol=1e-15)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Sphere(0), "dim"),
        (lambda: Sphere(2, radius=-1.0), "radius"),
        (lambda: Hyperboloid(2, curvature=1.0), "curvature"),
        (lambda: Hyperboloid(2, curvature=-math.inf), "curvature"),
    ],
)
def test_parameters_are_checked(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_points_that_overflow_are_no_points():
    points = np.array([[1.7e308, 1.7e308, 0.0], [np.inf, 1e200, 0.0], [np.sqrt(2.0), 1.0, 0.0]])
    assert Hyperboloid(2).belongs(points).tolist() == [False, False, True]


PRODUCTS = [Hyperboloid(20), Hyperboloid(9, curvature=-0.3)]


@pytest.mark.parametrize("geometry", PRODUCTS, ids=str)
@pytest.mark.parametrize("away", [0.0, 0.5, 2.0])
def test_distances_of_many_numbers_are_those_by_differences(geometry, away):
    rng = np.random.default_rng(1)
    point = geometry.exp_coordinates(geometry.base_point, away * np.eye(geometry.dim)[1])
    lengths = np.repeat([0.0, 1e-9, 1e-3, 0.05, 0.4, 1.0, 3.0, 6.0], 40)
    vectors = rng.normal(size=(len(lengths), geometry.dim))
    vectors *= (lengths / np.linalg.norm(vectors, axis=1))[:, None]
    points = geometry.exp_coordinates(point, vectors)
    distances = geometry.dist(point, points)
    np.testing.assert_allclose(distances, geometry._dist_by_differences(point, points), rtol=2e-14)
    for some in (slice(100, 101), slice(3, 290), np.arange(319, 2, -7)):
        np.testing.assert_array_equal(geometry.dist(point, points[some]), distances[some])


@pytest.mark.parametrize("geometry", PRODUCTS, ids=str)
def test_records_that_are_no_numbers_are_still_none(geometry):
    points = np.tile(geometry.base_point, (4, 1))
    points[1], points[2, 3] = np.nan, np.inf
    point = geometry.exp_coordinates(geometry.base_point, 0.4 * np.eye(geometry.dim)[0])
    for found in (geometry.log_coordinates(point, points), geometry.dist(point, points)[:, None]):
        assert np.isfinite(found[[0, 3]]).all() and not np.isfinite(found[1:3]).all(axis=1).any()


def test_means_are_the_same_whether_distances_are_quick_or_not(monkeypatch):
    geometry = Hyperboloid(20)
    points = make_cloud(geometry, 4000, radius=0.6, rng=np.random.default_rng(0))

    def mean():
        model = PrivateFrechetMean(geometry, accountant=PrivacyAccountant(), random_state=0)
        return model.fit(points).mean_

    quick = mean()
    assert geometry.quick_distances
    monkeypatch.setattr(type(geometry), "quick_distances", property(lambda self: False))
    np.testing.assert_allclose(quick, mean(), atol=1e-12)


@pytest.mark.parametrize("geometry", [Sphere(20), Hyperboloid(3)], ids=str)
def test_projecting_and_counting(geometry):
    points = make_cloud(geometry, 500, radius=0.6, rng=np.random.default_rng(0))
    ball = GeodesicBall(geometry, None, 0.5)
    projected, outside = ball.project_and_count(points)
    np.testing.assert_array_equal(projected, ball.project(points))
    assert outside == np.count_nonzero(~ball.contains(points)) > 0
    inside, none = ball.project_and_count(projected, ball.distances(projected))
    assert none == 0
    assert inside is projected
