"""Rotations, planar shapes, correlation matrices and compositions: forms, cut loci, far ends."""

import math
import time

import numpy as np
import pytest
from conftest import random_points, same_point
from numpy.testing import assert_allclose, assert_array_equal

from skriemdp import PrivateFrechetMean, frechet_mean
from skriemdp.geometry import (
    Correlation,
    PlanarShapes,
    PymanoptGeometry,
    Rotations,
    Sphere,
    from_compositions,
    geometry_from_name,
    to_compositions,
)


def test_half_turns_are_half_a_turn_about_either_end_of_the_axis(rng):
    geometry, here = Rotations(), random_points(Rotations(), rng)
    axes = rng.normal(size=(20, 3))
    axes[:3] = np.eye(3)
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    turned = here @ (2.0 * axes[:, :, None] * axes[:, None, :] - np.eye(3))
    seen = geometry.log_coordinates(here, turned)
    assert_allclose(np.linalg.norm(seen, axis=1), math.pi, atol=1e-12)
    assert_allclose(geometry.exp_coordinates(here, seen), turned, atol=1e-12)


def test_batches_of_rotations_are_fifty_times_faster_than_one_by_one():
    manifolds = pytest.importorskip("pymanopt.manifolds")
    ours, adapter = Rotations(math.sqrt(2.0)), manifolds.SpecialOrthogonalGroup(3)
    theirs = PymanoptGeometry(adapter, injectivity_radius=ours.injectivity_radius)
    x = random_points(ours, np.random.default_rng(0), 200)
    seconds = []
    for geometry in (ours, theirs):
        geometry.log_coordinates(x[0], x[:2])
        begin = time.process_time()
        geometry.log_coordinates(x[0], x)
        seconds.append(time.process_time() - begin)
    assert seconds[1] > 50.0 * seconds[0]


def test_small_and_large_angles_keep_their_digits():
    geometry = Rotations(scale=2.0)
    c = np.zeros((30, 3))
    c[:, 1] = 2.0 * np.append(np.geomspace(1e-12, 1.0, 20), math.pi - np.geomspace(1e-6, 1.0, 10))
    seen = geometry.log_coordinates(np.eye(3), geometry.exp_coordinates(np.eye(3), c))
    assert_allclose(seen, c, atol=1e-14)


def test_place_size_and_direction_do_not_matter(rng):
    geometry = PlanarShapes(5)
    x = rng.normal(size=(40, 5, 2))
    angle, size = rng.uniform(0, 7, 40)[:, None, None], rng.uniform(0.1, 9, 40)[:, None, None]
    turned = np.stack([-x[..., 1], x[..., 0]], axis=-1)
    other = size * (np.cos(angle) * x + np.sin(angle) * turned) + 9.0 * rng.normal(size=(40, 1, 2))
    a, b = geometry.canonical(x), geometry.canonical(other)
    assert geometry.belongs(a).all() and not geometry.belongs(other).any()
    assert_allclose(geometry.dist(a, b), 0.0, atol=1e-12)
    assert_allclose(same_point(geometry, a), same_point(geometry, b), atol=1e-12)
    mirrored = geometry.canonical(x * [1.0, -1.0])
    assert geometry.dist(a, mirrored).min() > 1e-3  # a mirror image is another shape


def test_shapes_as_far_apart_as_they_can_be(rng):
    geometry = PlanarShapes(4)
    square = geometry.base_point
    other = square * [1.0, -1.0]
    assert geometry.dist(square, other) == math.pi / 2
    v = geometry.log(square, other)
    assert geometry.norm(square, v) == pytest.approx(math.pi / 2)
    assert_allclose(geometry.dist(geometry.exp(square, v), other), 0.0, atol=1e-8)
    assert not geometry.belongs(geometry.canonical(np.ones((4, 2))))  # all in one place: no shape


def test_landmarks_are_taken_as_they_are_measured(rng):
    square = 100.0 * np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    X = square + 5.0 * rng.normal(size=(800, 4, 2)) + 50.0 * rng.normal(size=(800, 1, 2))
    mean = PrivateFrechetMean("shapes", epsilon=2.0, random_state=0).fit(X)
    assert PlanarShapes(4).dist(mean.mean_, PlanarShapes(4).canonical(square)) < 0.03


def test_the_order_of_variables_does_not_matter(rng):
    geometry, order = Correlation(4), [2, 0, 3, 1]
    x = random_points(geometry, rng, 30)
    turned = x[:, order][:, :, order]
    assert_allclose(geometry.dist(x[0], x), geometry.dist(turned[0], turned), atol=1e-12)
    mean = frechet_mean(x, geometry)
    assert_allclose(frechet_mean(turned, geometry), mean[order][:, order], atol=1e-10)


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("length", [5.0, 16.0, 1e3, 1e200])
def test_ends_far_out_are_correlation_matrices(size, length, rng):
    geometry = Correlation(size)
    c = rng.normal(size=(40, geometry.dim))
    c[0], c[1] = 1.0, -1.0
    c *= length / np.linalg.norm(c, axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        x = geometry.exp_coordinates(geometry.base_point, c)
    assert geometry.belongs(x).all()
    assert_array_equal(np.diagonal(x, axis1=1, axis2=2), 1.0)
    if length <= 5.0:
        assert_allclose(geometry.log_coordinates(geometry.base_point, x), c, atol=1e-10)


def test_covariances_are_no_correlations(rng):
    X = np.broadcast_to(2.0 * np.eye(3), (50, 3, 3))
    with pytest.raises(ValueError, match="standard deviations"):
        PrivateFrechetMean("correlation").fit(X)
    crooked = np.broadcast_to(np.eye(3) + 0.1 * np.eye(3, k=1), (50, 3, 3))
    with pytest.raises(ValueError, match="symmetric"):
        PrivateFrechetMean("correlation").fit(crooked)


def test_compositions_are_points_of_an_orthant(rng):
    counts = rng.poisson(3.0, size=(50, 4)).astype(float)
    counts[:, 0] += 1.0
    points = from_compositions(counts)
    assert Sphere(3).belongs(points).all() and (points >= 0.0).all()
    assert_allclose(to_compositions(points), counts / counts.sum(axis=1, keepdims=True))
    p, q = to_compositions(points[:2])
    fisher_rao = 2.0 * math.acos(np.sqrt(p * q).sum())
    assert Sphere(3).dist(points[0], points[1]) == pytest.approx(fisher_rao / 2.0)
    for wrong in ([1.0, -1.0], [0.0, 0.0], [1.0]):
        with pytest.raises(ValueError, match="parts"):
            from_compositions(wrong)


@pytest.mark.parametrize(
    "name, shape", [("rotations", (2, 2)), ("shapes", (4, 3)), ("correlation", (3, 2))]
)
def test_names_say_what_they_expect(name, shape):
    with pytest.raises(ValueError, match="have shape"):
        geometry_from_name(name, shape)
