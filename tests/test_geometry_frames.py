"""Grassmann and Stiefel manifolds: cut loci, curvature constants, exact formulas."""

import math

import numpy as np
import pytest
import scipy.linalg
from conftest import random_points
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from skriemdp.geometry import (
    Grassmann,
    Sphere,
    Stiefel,
)
from skriemdp.geometry._stiefel_paths import expm_skew


def test_grassmann_principal_angles_at_their_extremes(rng):
    geometry = Grassmann(6, 2)
    frame = geometry.random_point(rng)
    q, _ = np.linalg.qr(np.concatenate([frame, rng.normal(size=(6, 4))], axis=1))
    x, orthogonal = q[:, :2], q[:, 2:4]
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    for angles in [(0, 0), (0, 1e-9), (1e-9, 1e-9), (0.3, 0.3), (0, math.pi / 2), (1.2, 1e-12)]:
        y = (x * np.cos(angles) + orthogonal * np.sin(angles)) @ turn
        assert_allclose(geometry.dist(x, y), np.linalg.norm(angles), rtol=1e-6, atol=1e-15)
        v = geometry.log(x, y)
        assert_allclose(geometry.norm(x, v), np.linalg.norm(angles), rtol=1e-6, atol=1e-15)
        end = geometry.exp(x, v)
        assert_allclose(end @ end.T, y @ y.T, atol=1e-14)
        moved = geometry.transport(x, y, orthogonal)
        assert_allclose(geometry.norm(y, moved), math.sqrt(2), rtol=1e-12)
    right = geometry.log(x, orthogonal)
    assert_allclose(geometry.norm(x, right), math.pi / math.sqrt(2))


@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("place", [(0, 0), (1, 0), (5, 2)])
def test_an_infinite_entry_ends_at_once(place, rng):
    """LAPACK may look for singular values of infinite matrices for ever."""
    geometry = Grassmann(6, 3)
    x, y = geometry.random_point(rng), geometry.random_point(rng)
    broken = x.copy()
    broken[place] = np.inf
    for formula in (
        lambda: geometry.coordinates_from_tangent(broken, geometry.log(x, y)),
        lambda: geometry.log(x, broken),
        lambda: geometry.dist(broken, y),
    ):
        try:
            assert not np.isfinite(formula()).all()
        except np.linalg.LinAlgError:
            continue


def test_lines_are_a_sphere_without_signs(rng):
    lines, sphere = Grassmann(4, 1), Sphere(3)
    x, y = random_points(sphere, rng, 2)
    expected = min(sphere.dist(x, y), sphere.dist(x, -y))
    assert_allclose(lines.dist(x[:, None], -y[:, None]), expected)


@pytest.mark.parametrize("n, p", [(4, 2), (7, 3), (5, 4)])
def test_stiefel_exp_against_matrix_exponentials(n, p, rng):
    """Edelman, Arias and Smith (1998), equation 2.42."""
    geometry = Stiefel(n, p)
    x = geometry.random_point(rng)
    u = geometry.projection(x, rng.normal(size=(n, p)))
    a = x.T @ u
    block = np.block([[a, -u.T @ u], [np.eye(p), a]])
    expected = np.hstack([x, u]) @ scipy.linalg.expm(block)[:, :p] @ scipy.linalg.expm(-a)
    assert_allclose(geometry.exp(x, u), expected, atol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
@pytest.mark.parametrize("scale", [0.0, 1e-9, 1.0, 20.0])
def test_exponentials_of_skew_matrices_in_closed_form(size, scale, rng):
    matrices = scale * rng.normal(size=(50, size, size))
    matrices -= matrices.swapaxes(1, 2)
    found = expm_skew(np, matrices)
    expected = [scipy.linalg.expm(matrix) for matrix in matrices]
    assert_allclose(found, expected, atol=1e-11)
    assert_allclose(
        found @ found.swapaxes(1, 2), np.broadcast_to(np.eye(size), found.shape), atol=1e-14
    )


@pytest.mark.parametrize("share, atol", [(0.5, 1e-12), (0.7, 1e-8), (0.8, 1e-6)])
def test_stiefel_log_up_to_the_injectivity_radius(share, atol, rng):
    geometry = Stiefel(7, 3)
    x = geometry.random_point(rng)
    c = rng.normal(size=(60, geometry.dim))
    c[:10, :3] = 0.0  # no rotation inside the subspace
    c[10:20, 3:] = 0.0  # nothing else
    c[20:30, 3:9] = 0.0  # rank-deficient
    c *= share * geometry.injectivity_radius / np.linalg.norm(c, axis=1, keepdims=True)
    v = geometry.tangent_from_coordinates(x, c)
    assert_allclose(geometry.log(x, geometry.exp(x, v)), v, atol=atol)


def test_stiefel_log_beyond_the_injectivity_radius_is_a_tangent_vector(rng):
    geometry = Stiefel(4, 2)
    x = geometry.base_point
    far = np.stack([geometry.random_point(rng) for _ in range(50)] + [-x])
    v = geometry.log(x, far)
    assert_allclose(geometry.projection(x, v), v, atol=1e-12)
    reached = np.linalg.norm(geometry.exp(x, v) - far, axis=(-2, -1)) < 1e-8
    assert np.mean(reached) > 0.5
    assert np.all(geometry.norm(x, v) <= 2 * geometry.injectivity_radius + 1e-9)


def sectional_curvature(n, p, pair):
    """Curvature of the plane spanned by two tangent vectors, by Gauss."""

    def vector(c):
        a = np.zeros((p, p))
        a[np.tril_indices(p, -1)] = c[: p * (p - 1) // 2]
        return np.vstack([a - a.T, c[p * (p - 1) // 2 :].reshape(n - p, p)])

    u, v = (vector(c) for c in np.split(pair, 2))
    u = u / np.linalg.norm(u)
    v = v - np.sum(u * v) * u
    v = v / np.linalg.norm(v)
    mixed = (u.T @ v + v.T @ u) / 2  # second fundamental form -X sym(U' V)
    return np.sum((u.T @ u) * (v.T @ v)) - np.sum(mixed**2)


def test_stiefel_curvature_bounds_are_attained(rng):
    geometry = Stiefel(4, 2)
    low, high = geometry.curvature_bounds
    starts = rng.normal(size=(6, 2 * geometry.dim))
    values = []
    for sign in (1, -1):
        results = [
            minimize(lambda z, s=sign: s * sectional_curvature(4, 2, z), start) for start in starts
        ]
        values.append(sign * min(result.fun for result in results))
    assert_allclose(values, [low, high], atol=1e-4)


def test_grassmann_curvature_bounds_are_attained():
    """The third side of a hinge, to fourth order, shows curvature 0 and 2 on Gr(4, 2)."""
    geometry, h = Grassmann(4, 2), 0.05
    x = geometry.base_point
    directions = {
        0.0: ([1, 0, 0, 0], [0, 0, 0, 1]),
        2.0: ([1, 0, 0, 1], [0, 1, -1, 0]),
    }
    for curvature, (u, v) in directions.items():
        u, v = (h * np.array(w, dtype=float) / np.linalg.norm(w) for w in (u, v))
        side = geometry.dist(geometry.exp_coordinates(x, u), geometry.exp_coordinates(x, v))
        measured = 3 * (2 * h**2 - side**2) / h**4
        assert_allclose(measured, curvature, atol=0.02)


@pytest.mark.parametrize(
    "geometry", [Sphere(3, radius=2.0), Grassmann(5, 2), Stiefel(4, 2)], ids=str
)
def test_random_points_are_uniform(geometry):
    rng = np.random.default_rng(5)
    points = np.stack([geometry.random_point(rng) for _ in range(4000)])
    assert np.all(geometry.belongs(points, 1e-12))
    flat = points.reshape(4000, -1)
    # Mean zero and, by invariance, every entry with the variance radius^2 / n; 6 standard errors.
    scale = np.sum(flat**2, axis=1).mean() / flat.shape[1]
    assert np.max(np.abs(flat.mean(axis=0))) < 6 * math.sqrt(scale / 4000)
    assert_allclose(np.mean(flat**2, axis=0), scale, rtol=6 * math.sqrt(3 / 4000))
    again = geometry.random_point(np.random.default_rng(5))
    assert_allclose(again, points[0])


def test_iterates_do_not_drift_off_the_manifold(rng):
    for geometry in (Grassmann(6, 2), Stiefel(6, 2)):
        x = geometry.base_point
        for step in rng.normal(size=(500, geometry.dim)):
            x = geometry.exp(x, geometry.tangent_from_coordinates(x, step))
        assert np.max(np.abs(x.T @ x - np.eye(2))) < 1e-14
