"""Latitudes and longitudes: the same distances as by the haversine formula, and back."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skriemdp import PrivateFrechetMean
from skriemdp.geometry import Sphere, from_lat_lon, to_lat_lon


@pytest.fixture
def places():
    generator = np.random.default_rng(0)
    return generator.uniform(-90, 90, (7, 5)), generator.uniform(-180, 180, (7, 5))


@pytest.mark.parametrize("degrees", [True, False])
def test_there_and_back(places, degrees):
    lat, lon = places if degrees else np.deg2rad(places)
    points = from_lat_lon(lat, lon, degrees)
    assert points.shape == (7, 5, 3) and Sphere(2).belongs(points).all()
    back = to_lat_lon(points, degrees)
    assert_allclose(back, (lat, lon), atol=1e-12)
    assert_allclose(to_lat_lon(3.0 * points, degrees), back)


def test_distances_are_those_of_the_haversine_formula(places):
    (one, other), (lon, east) = np.deg2rad(places[0][:2]), np.deg2rad(places[1][:2])
    square = np.sin((one - other) / 2) ** 2
    square += np.cos(one) * np.cos(other) * np.sin((lon - east) / 2) ** 2
    measured = Sphere(2).dist(from_lat_lon(one, lon, False), from_lat_lon(other, east, False))
    assert_allclose(measured, 2 * np.arcsin(np.sqrt(square)))


def test_axes_and_wrapping():
    assert_allclose(from_lat_lon(0, 0), [1, 0, 0])
    assert_allclose(from_lat_lon(-90, 77), [0, 0, -1], atol=1e-15)
    assert_allclose(from_lat_lon(10, 370), from_lat_lon(10, 10))
    assert to_lat_lon([0.0, 0.0, 2.0]) == (90.0, 0.0)


@pytest.mark.parametrize(
    "lat, lon, degrees, message",
    [
        ([10.0, 123456.5], [0.0, 0.0], True, "beyond a pole"),
        ([90.0], [0.0], False, "radians"),
        ([np.nan], [0.0], True, "infinity"),
        ([0.0], [np.inf], True, "infinity"),
        ([0.0, 1.0], [0.0], True, "same shape"),
    ],
)
def test_what_is_no_place_is_refused_without_a_word_about_it(lat, lon, degrees, message):
    with pytest.raises(ValueError, match=message) as caught:
        from_lat_lon(lat, lon, degrees)
    assert "12345" not in str(caught.value)


def test_points_of_other_shapes_are_refused():
    for points in (np.ones((4, 2)), 1.0):
        with pytest.raises(ValueError, match="shape"):
            to_lat_lon(points)


def test_the_messages_of_the_sphere_name_it(places):
    degrees = np.stack(places, axis=-1).reshape(-1, 2)
    for rows in (degrees, degrees[:, :1]):
        with pytest.raises(ValueError, match="from_lat_lon"):
            PrivateFrechetMean("sphere").fit(rows)


def test_angles_have_a_name(places):
    angles = np.deg2rad(places[1]).reshape(-1, 1)
    mean = PrivateFrechetMean("circle", center=[0.0], radius=1.0, epsilon=5.0).fit(angles)
    assert mean.geometry_.length == 2 * np.pi
    with pytest.raises(ValueError, match="Circle"):
        PrivateFrechetMean("circle").fit(np.hstack([angles, angles]))
