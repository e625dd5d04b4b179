"""Covariances that were released with noise: repair, simulation, and moves between points."""

import math

import numpy as np
import pytest
from conftest import random_points
from numpy.testing import assert_allclose, assert_array_equal

from skriemdp.geometry import (
    AffineInvariantSPD,
    BuresWassersteinSPD,
    Euclidean,
    Grassmann,
    Hyperboloid,
    LogEuclideanSPD,
    Sphere,
)
from skriemdp.inference._covariances import (
    coordinate_jacobian,
    factor,
    mean_hessian,
    repair,
    sampled,
    shares_of,
    symmetric_noise,
    transport_matrix,
    variances_along,
)


def covariance(rng, d):
    root = rng.standard_normal((d, d))
    return root @ root.T


def test_without_noise_a_covariance_stays_as_it_is(rng):
    truth = covariance(rng, 5)
    assert_allclose(repair(truth, 0.0), truth, atol=1e-12)


@pytest.mark.parametrize("noise", [0.0, 0.3, 1e6])
@pytest.mark.parametrize("trace", [-2.0, 0.0, 3.0])
@pytest.mark.parametrize("d", [1, 4])
def test_where_nothing_but_the_trace_is_left(d, trace, noise):
    assert_allclose(repair(trace * np.eye(d), noise), max(trace, 0.0) * np.eye(d))


def test_repair_shrinks_by_the_share_of_the_noise(rng):
    truth, noise, d = covariance(rng, 4) + 20.0 * np.eye(4), 0.5, 4
    deviation = truth - np.trace(truth) / d * np.eye(d)
    kept = 1.0 - noise**2 * (d * (d + 1) / 2 - 1) / np.sum(deviation**2)
    assert_allclose(repair(truth, noise), truth - (1.0 - kept) * deviation)
    assert_allclose(repair(truth, 1e3), np.trace(truth) / d * np.eye(d))


def test_repaired_batches_are_positive_and_like_single_ones(rng):
    noisy = covariance(rng, 6) + 4.0 * symmetric_noise(rng, 30, 6)
    together = repair(noisy, 4.0)
    assert np.linalg.eigvalsh(together).min() > -1e-12
    assert_allclose(together, [repair(one, 4.0) for one in noisy])


def test_repair_brings_noisy_covariances_closer(rng):
    truth = covariance(rng, 8) / 8.0
    noisy = truth + 0.5 * symmetric_noise(rng, 500, 8)
    before = np.sum((noisy - truth) ** 2, axis=(1, 2)).mean()
    after = np.sum((repair(noisy, 0.5) - truth) ** 2, axis=(1, 2)).mean()
    assert after < 0.7 * before


def test_noise_has_unit_deviation_along_unit_matrices(rng):
    noise = symmetric_noise(rng, 40_000, 3)
    direction = covariance(rng, 3)
    direction /= np.linalg.norm(direction)
    along = np.sum(noise * direction, axis=(1, 2))
    assert abs(along.var() - 1.0) < 0.05
    assert_array_equal(noise, np.swapaxes(noise, 1, 2))


def test_a_factor_of_a_singular_matrix():
    singular = np.diag([4.0, 0.0])
    assert_allclose(factor(singular) @ factor(singular).T, singular)


def test_sampled_covariances_spread_like_those_of_samples(rng):
    truth, n = np.diag([3.0, 1.0, 0.5]), 200
    ours = sampled(truth, n, 0.0, rng, 20_000)
    records = rng.standard_normal((4000, n, 3)) * np.sqrt(np.diag(truth))
    theirs = np.swapaxes(records, 1, 2) @ records / n
    assert_allclose(ours.mean(axis=0), truth, atol=0.01)
    assert_allclose(ours.std(axis=0), theirs.std(axis=0), rtol=0.06)
    noisy = sampled(0.0 * truth, n, 2.0, rng, 20_000)
    expected = 2.0 * np.where(np.eye(3) > 0, 1.0, 0.5**0.5)
    assert_allclose(noisy.std(axis=0), expected, rtol=0.05)


def test_the_jacobian_moves_coordinates(geometry, rng):
    if isinstance(geometry, BuresWassersteinSPD):
        pytest.skip("coordinates there have an accuracy of their own")
    unit = min(1.0, geometry.injectivity_radius)
    point = random_points(geometry, rng)
    step = 0.2 * unit * rng.standard_normal(geometry.dim) / geometry.dim**0.5
    end = geometry.exp_coordinates(point, step)
    jacobian = coordinate_jacobian(geometry, point, step)
    move = 1e-4 * unit * rng.standard_normal(geometry.dim)
    ends = [geometry.exp_coordinates(point, step + sign * move) for sign in (0.5, -0.5)]
    seen = geometry.log_coordinates(end, ends[0]) - geometry.log_coordinates(end, ends[1])
    assert_allclose(jacobian @ move, seen, rtol=0, atol=2e-3 * np.linalg.norm(move))


def test_flat_spaces_and_small_steps_move_nothing(geometry):
    start = geometry.base_point
    assert_array_equal(
        coordinate_jacobian(geometry, start, np.zeros(geometry.dim)), np.eye(geometry.dim)
    )
    for flat in (Euclidean(3), LogEuclideanSPD(2)):
        step = np.array([1.0, -2.0, 3.0])
        assert_array_equal(coordinate_jacobian(flat, flat.base_point, step), np.eye(3))


def test_transport_is_an_isometry_that_keeps_the_geodesic(geometry, rng):
    if isinstance(geometry, BuresWassersteinSPD):
        pytest.skip("transport there has an accuracy of its own")
    point, other = random_points(geometry, rng, 2)
    matrix = transport_matrix(geometry, point, other)
    assert_allclose(matrix @ matrix.T, np.eye(geometry.dim), atol=1e-6)
    if "Stiefel" in type(geometry).__name__:
        return
    along = matrix @ geometry.log_coordinates(point, other)
    assert_allclose(along, -geometry.log_coordinates(other, point), atol=1e-6)


@pytest.mark.parametrize(
    ("geometry", "spread", "tolerance"),
    [
        (AffineInvariantSPD(3), 3.5, 0.06),
        (Hyperboloid(2), 2.0, 0.06),
        (Sphere(3), 0.5, 0.02),
        (Grassmann(5, 2), 0.4, 0.02),
    ],
)
def test_the_hessian_is_that_of_the_mean_squared_distance(rng, geometry, spread, tolerance):
    """Against the derivative of the mean logarithm of many records, at their mean."""
    dim, center = geometry.dim, geometry.base_point
    scales = spread * np.linspace(1.5, 0.5, dim) / np.sqrt(dim)
    radius = 1.3 if geometry.curvature_bounds[1] > 0.0 else 4.0 * spread
    if isinstance(geometry, Grassmann):
        radius /= np.sqrt(2.0)
    v = rng.standard_normal((20_000, dim)) * scales
    v *= np.minimum(1.0, radius / np.linalg.norm(v, axis=1, keepdims=True))
    v = np.concatenate([v, -v])
    records, step = geometry.exp_coordinates(center, v), 1e-4
    derivative = np.empty((dim, dim))
    for k in range(dim):
        moves = []
        for sign in (1.0, -1.0):
            place = geometry.exp_coordinates(center, sign * step * np.eye(dim)[k])
            mean = geometry.log_coordinates(place, records).mean(axis=0)
            # Along the short way back, coordinates at both ends are alike to first order.
            back = transport_matrix(geometry, place, center)
            moves.append(back @ mean)
        derivative[:, k] = (moves[1] - moves[0]) / (2.0 * step)
    found = mean_hessian(geometry, center, v.T @ v / len(v), radius)
    assert np.linalg.norm(found - derivative, 2) <= tolerance * np.linalg.norm(derivative, 2)


def test_the_hessian_of_narrow_or_flat_data_is_the_first_term(rng):
    spread = 1e-3 * covariance(rng, 6)
    space = AffineInvariantSPD(3)
    first = np.eye(6) - space.curvature_form(np.eye(3), spread) / 3.0
    assert_allclose(mean_hessian(space, np.eye(3), spread, 1.0), first, atol=1e-4)
    assert_array_equal(mean_hessian(Euclidean(6), np.zeros(6), spread, 1.0), np.eye(6))


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1, 0.3])
@pytest.mark.parametrize("kind", ["spikes", "decay", "round", "one", "many"])
def test_shares_of_the_variance_count_no_noise(kind, noise):
    values = {
        "spikes": np.r_[1.0, 0.64, 0.04 * np.ones(8)],
        "decay": 0.64 ** np.arange(20.0),
        "round": np.ones(12),
        "one": np.r_[1.0, 0.01 * np.ones(5)],
        "many": np.r_[np.ones(3), 0.02 * np.ones(60)],
    }[kind]
    rng, d = np.random.default_rng(len(kind)), len(values)
    found, truth, counted = [], [], []
    for draw in symmetric_noise(rng, 40, d):
        released, vectors = np.linalg.eigh(np.diag(values) + noise * draw)
        released, vectors = released[::-1], vectors[:, ::-1]
        truth.append(np.einsum("ji,j,ji->i", vectors, values, vectors)[:2].sum() / values.sum())
        total = float(released.sum())
        found.append(shares_of(variances_along(released, noise)[:2], total).sum())
        counted.append(shares_of(released[:2], total).sum())
        assert np.isclose(variances_along(released, noise).sum(), total)
    error, before = (abs(np.median(each) / np.median(truth) - 1.0) for each in (found, counted))
    if noise == 0.0:
        assert error < 1e-9
    elif noise * math.sqrt(2 * d) < 0.5 * values[0]:  # the noise does not hide the first
        assert error < 0.12 and error <= before + 0.05


def test_shares_of_a_matrix_of_noise_lie_between_nothing_and_one():
    for total in (-1.0, 0.0, 1e-320, 3.0):
        for values in ([0.0, 0.0], [-1.0, -2.0], [5.0, -4.0], [1e-310, 0.0]):
            along = variances_along(np.array(values), 1.0)
            shares = shares_of(along, total)
            assert (shares >= 0.0).all() and shares.sum() <= 1.0 + 1e-12
    assert variances_along(np.array([2.0]), 1.0) == [2.0]
