"""SPD matrices: three metrics against their definitions, 2x2 closed forms against 60 digits."""

from __future__ import annotations

import math
import tracemalloc

import mpmath
import numpy as np
import pytest
import scipy.linalg
from conftest import random_points, random_tangents
from numpy.testing import assert_allclose, assert_array_equal

from skriemdp.geometry import (
    SPD,
    AffineInvariantSPD,
    BuresWassersteinSPD,
    GeodesicBall,
    LogEuclideanSPD,
)
from skriemdp.geometry import _symmetric as sym
from skriemdp.geometry._spd import base, bures

METRICS = [AffineInvariantSPD, LogEuclideanSPD, BuresWassersteinSPD]
HADAMARD = METRICS[:2]
EPS = np.finfo(float).eps


def test_one_step_lands_where_steps_in_a_table_do(rng):
    space = SPD(2)
    for length in (0.0, 1e-9, 1e-3, 1.0, 5.0, 50.0):
        for _ in range(50):
            point = random_points(space, rng)
            step = rng.normal(size=3)
            step *= length / np.linalg.norm(step)
            together = space.exp_coordinates(point[None], step[None])[0]
            moved = space.exp_coordinates(point, step)
            assert_allclose(moved, together, rtol=0, atol=1e-12 * np.abs(together).max())
            assert_array_equal(moved, moved.T)


def rotated(diagonal, angle):
    c, s = math.cos(angle), math.sin(angle)
    q = np.array([[c, -s], [s, c]])
    m = q @ np.diag(diagonal) @ q.T
    m[0, 1] = m[1, 0]
    return m


def precise_logm(matrix):
    """Logarithm of a 2x2 matrix with exactly these entries, 60 digits, rounded once."""
    with mpmath.workdps(60):
        a, b, c = (mpmath.mpf(float(v)) for v in (matrix[0, 0], matrix[1, 0], matrix[1, 1]))
        x, mean = (a - c) / 2, (a + c) / 2
        h = mpmath.sqrt(x * x + b * b)
        low, high = mpmath.log((a * c - b * b) / (mean + h)), mpmath.log(mean + h)
        ratio = (high - low) / (2 * h) if h else mpmath.mpf(0)
        middle = (high + low) / 2
        rows = [[middle + ratio * x, ratio * b], [ratio * b, middle - ratio * x]]
        return np.array([[float(v) for v in row] for row in rows])


# ---- closed forms --------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [1.0, 1 + 1e-12, 1 + 1e-6, 1.5, 1e3, 1e6, 1e9, 1e12])
def test_logm_2x2_is_backward_stable(condition, rng):
    """Error of a few roundings of the entries, which move the logarithm by eps * condition."""
    for angle in [0.0, math.pi / 4, *rng.uniform(0, math.pi, size=50)]:
        matrix = rotated([condition**0.5, condition**-0.5], angle)
        error = np.abs(sym.logm(np, matrix) - precise_logm(matrix)).max()
        assert error <= EPS * (2 + condition)


def test_logm_2x2_keeps_the_digits_of_close_eigenvalues(rng):
    for size in (1e-3, 1e-6, 1e-9):
        matrix = np.eye(2) + rotated([size, -size], rng.uniform(0, math.pi))
        computed, exact = sym.logm(np, matrix), precise_logm(matrix)
        traceless = exact - np.trace(exact) / 2 * np.eye(2)
        computed = computed - np.trace(computed) / 2 * np.eye(2)
        assert_allclose(computed, traceless, rtol=1e-12, atol=1e-14 * size)


def test_logm_2x2_is_exact_for_graded_matrices(rng):
    """diag(s) C diag(s) with C well conditioned: full accuracy however large the condition."""
    for exponent in (-300, -30, -12, 0, 12, 30, 300):
        s = np.array([1.0, math.exp(exponent / 2)])
        matrix = s[:, None] * rotated([1.3, 0.6], 0.7) * s
        exact = precise_logm(matrix)
        assert_allclose(sym.logm(np, matrix), exact, atol=4 * EPS * max(np.abs(exact).max(), 1))


@pytest.mark.parametrize("scale", [1.0, 1e-8, 1e-160, 1e-250, 1e130, -1.0])
def test_eigh_2x2_is_orthonormal_and_reconstructs(scale, rng):
    matrices = sym.symmetrized(np, rng.normal(size=(100, 2, 2)))
    matrices[0] = 0.0
    matrices[1, 0, 1] = matrices[1, 1, 0] = 0.0
    matrices[2] = np.eye(2)
    for matrix in (scale * matrices, np.eye(2) + scale * matrices):
        values, vectors = sym.eigh(np, matrix)
        gram = np.swapaxes(vectors, -1, -2) @ vectors
        assert_allclose(gram, np.broadcast_to(np.eye(2), gram.shape), atol=1e-15)
        assert np.all(values[:, 0] <= values[:, 1])
        size = np.abs(matrix).max()
        assert_allclose(sym.conjugated(np, vectors, values), matrix, atol=4 * EPS * size)
        assert_allclose(values, np.linalg.eigvalsh(matrix), atol=4 * EPS * size)


@pytest.mark.parametrize("size", [2, 3, 6])
def test_an_exponential_that_floats_cannot_hold_is_positive_definite(size, rng):
    """Exact ones have eigenvalues from 1e-87 to 1."""
    turn = np.linalg.qr(rng.normal(size=(50, size, size)))[0]
    found = sym.expm(np, sym.conjugated(np, turn, np.linspace(-200.0, 0.0, size)))
    values = np.linalg.eigvalsh(found)
    assert (values[:, 0] > size * EPS * values[:, -1]).all()
    assert_allclose(values[:, -1], 1.0, rtol=1e-11)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_matrix_functions_agree_with_scipy(size, rng):
    a = rng.normal(size=(size, 2 * size))
    matrix = a @ a.T / size
    assert_allclose(sym.logm(np, matrix), scipy.linalg.logm(matrix), atol=1e-12)
    assert_allclose(sym.sqrtm(np, matrix), scipy.linalg.sqrtm(matrix), atol=1e-13)
    assert_allclose(sym.expm(np, matrix), scipy.linalg.expm(matrix), rtol=1e-11)
    assert_allclose(
        np.sort(sym.log_eigenvalues(np, matrix)), np.log(np.linalg.eigvalsh(matrix)), atol=1e-12
    )


def test_pack_is_an_isometry_with_inverse_unpack(rng):
    for size in (1, 2, 5):
        s = sym.symmetrized(np, rng.normal(size=(3, size, size)))
        packed = sym.pack(np, s)
        assert_allclose(np.linalg.norm(packed, axis=-1), np.linalg.norm(s, axis=(-2, -1)))
        assert_allclose(sym.unpack(np, packed, size), s, atol=1e-15)


@pytest.mark.parametrize("size", [2, 3, 5, 22])
def test_congruence_is_the_product_of_three(size, rng):
    matrices = sym.symmetrized(np, rng.normal(size=(50, size, size)))
    matrices *= 10.0 ** rng.uniform(-100, 100, size=(50, 1, 1))
    factor = rng.normal(size=(size, size))
    found = sym.congruence(np, factor, matrices)
    size_of = np.abs(factor) @ np.abs(matrices) @ np.abs(factor).T  # of the sums' terms
    assert (np.abs(found - factor @ matrices @ factor.T) <= 4 * size * EPS * size_of).all()


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 22, 32, 41])
def test_packed_logarithms_are_those_of_single_matrices(size, rng):
    """Matrices of different sizes are multiplied out differently, each of them by itself."""
    matrices = random_points(AffineInvariantSPD(size), rng, 7)
    packed = sym.packed_logm(np, matrices)
    assert_allclose(packed, sym.pack(np, sym.logm(np, matrices)), atol=1e-13)
    for place in range(7):
        alone = sym.packed_logm(np, matrices[place : place + 1])
        assert_array_equal(alone[0], packed[place])
        assert_array_equal(sym.packed_logm(np, matrices[place:])[0], packed[place])


# ---- metrics -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3])
def test_metrics_are_those_of_their_definitions(size, rng):
    for make in METRICS:
        geometry = make(size)
        w = random_points(geometry, rng)
        u, v = random_tangents(geometry, rng, np.stack([w, w]))
        if make is AffineInvariantSPD:
            inverse = np.linalg.inv(w)
            expected = np.trace(inverse @ u @ inverse @ v)
        elif make is BuresWassersteinSPD:
            expected = np.trace(scipy.linalg.solve_continuous_lyapunov(w, u) @ v) / 2
        else:
            h = 1e-5
            du, dv = [
                (scipy.linalg.logm(w + h * t) - scipy.linalg.logm(w - h * t)) / (2 * h)
                for t in (u, v)
            ]
            expected = np.trace(du @ dv)
        assert_allclose(geometry.inner_product(w, u, v), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_distances_agree_with_pyriemann(size, rng):
    distance = pytest.importorskip("pyriemann.geometry.distance")
    names = ["distance_riemann", "distance_logeuclid", "distance_wasserstein"]
    for make, name in zip(METRICS, names, strict=True):
        x, y = random_points(make(size), rng, 2, 5)
        for a, b in zip(x, y, strict=True):
            assert_allclose(make(size).dist(a, b), getattr(distance, name)(a, b), atol=1e-7)


@pytest.mark.parametrize("make", METRICS)
def test_close_matrices_have_accurate_distances(make, rng):
    """Distance 1e-8 with seven digits: no square root of a cancelled difference."""
    geometry = make(3)
    x = random_points(geometry, rng)
    v = random_tangents(geometry, rng, x, 1e-8)
    assert_allclose(geometry.dist(x, x + v), geometry.norm(x, v), rtol=1e-6)


def test_affine_invariance(rng):
    geometry = AffineInvariantSPD(4)
    x, y = random_points(geometry, rng, 2)
    a = rng.normal(size=(4, 4))
    assert_allclose(geometry.dist(a @ x @ a.T, a @ y @ a.T), geometry.dist(x, y), rtol=1e-9)
    inverse = geometry.dist(np.linalg.inv(x), np.linalg.inv(y))
    assert_allclose(inverse, geometry.dist(x, y), rtol=1e-10)


@pytest.mark.parametrize("size", [2, 4])
def test_affine_invariant_curvature_reaches_minus_one_half(size):
    """A hinge in the plane of most negative curvature is a hinge of H^2(-1/2)."""
    geometry = AffineInvariantSPD(size)
    u, v = np.zeros((2, size, size))
    u[0, 0], u[1, 1], v[0, 1], v[1, 0] = 1, -1, 1, 1
    a, b = 1.1, 0.7
    base = np.eye(size)
    y = geometry.exp(base, a * u / math.sqrt(2))
    z = geometry.exp(base, b * v / math.sqrt(2))
    root = math.sqrt(-geometry.curvature_bounds[0])
    expected = math.acosh(math.cosh(a * root) * math.cosh(b * root)) / root
    assert_allclose(geometry.dist(y, z), expected, rtol=1e-13)


# ---- hard input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("make", HADAMARD)
def test_scales_up_to_exp_300(make, size, rng):
    geometry = make(size)
    small, large = math.exp(-300) * np.eye(size), math.exp(300) * np.eye(size)
    assert_allclose(geometry.dist(small, large), 600 * math.sqrt(size), rtol=1e-13)
    assert_allclose(geometry.exp(small, geometry.log(small, np.eye(size))), np.eye(size), rtol=1e-9)
    x = random_points(geometry, rng)
    for scale in (math.exp(-300), math.exp(300)):
        c = geometry.log_coordinates(scale * np.eye(size), scale * x)
        assert_allclose(c, geometry.log_coordinates(np.eye(size), x), atol=1e-11)
        assert geometry.belongs(scale * x)
    spread = np.diag(np.exp(np.linspace(-300, 300, size)))
    lengths = np.linspace(-300, 300, size) if size > 1 else np.array([-300.0])
    assert_allclose(geometry.dist(np.eye(size), spread), np.linalg.norm(lengths), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("make", METRICS)
def test_exp_of_huge_vectors_is_positive_definite(make, size, dtype, rng):
    geometry = make(size)
    c = (rng.normal(size=(50, geometry.dim)) * np.logspace(0, 6, 50)[:, None]).astype(dtype)
    y = geometry.exp_coordinates(np.eye(size, dtype=dtype), c)
    assert y.dtype == dtype
    assert np.all(np.isfinite(y)) and np.all(geometry.belongs(y))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("make", METRICS)
def test_nearly_singular_records_never_give_nan(make, size, rng):
    geometry = make(size)
    a = rng.normal(size=(200, size, 1)) * np.logspace(-8, 8, 200)[:, None, None]
    singular = a @ np.swapaxes(a, -1, -2)  # rank one: smallest eigenvalues are rounding noise
    w = random_points(geometry, rng)
    assert np.all(np.isfinite(geometry.log(w, singular)))
    assert np.all(np.isfinite(geometry.dist(w, singular)))
    assert np.all(np.isfinite(geometry.clipped_log_sum(w, singular, 1.0)))


def test_bures_wasserstein_log_of_singular_matrices_is_exact():
    geometry = BuresWassersteinSPD(2)
    v = geometry.log(np.eye(2), np.diag([4.0, 0.0]))
    assert_allclose(v, np.diag([2.0, -2.0]), atol=1e-15)
    assert_allclose(geometry.dist(np.eye(2), np.diag([4.0, 0.0])), math.sqrt(2.0), rtol=1e-15)


@pytest.mark.parametrize("make", METRICS)
def test_belongs(make):
    geometry = make(2)
    good = np.array([np.eye(2), [[1, 0.999], [0.999, 1]], np.diag([1.0, 1e-200])])
    bad = np.array(
        [
            [[1.0, 2.0], [2.0, 1.0]],
            [[1.0, 1.0], [1.0, 1.0]],
            [[1.0, 0.1], [0.2, 1.0]],
            [[-1.0, 0.0], [0.0, -1.0]],
            [[1.0, math.nan], [math.nan, 1.0]],
            [[math.inf, 0.0], [0.0, 1.0]],
            [[0.0, 0.0], [0.0, 0.0]],
        ]
    )
    assert_array_equal(geometry.belongs(good), True)
    assert_array_equal(geometry.belongs(bad), False)
    assert geometry.belongs(np.array([[1.0, 0.1], [0.1 + 1e-8, 1.0]]))


@pytest.mark.parametrize("size", [2, 3, 22])
def test_a_quick_look_says_no_more_than_eigenvalues_do(size, rng):
    """Next to the threshold of the test, at every scale of rows and columns."""
    geometry, sure = AffineInvariantSPD(size), 0
    q = np.linalg.qr(rng.normal(size=(size, size)))[0]
    for smallest in 10.0 ** np.arange(-18.0, 0.0, 0.25):
        for scale in (1.0, 1e-160, 1e-70, 1e70, 1e150):
            values = np.append(smallest, rng.uniform(0.5, 1.5, size - 1))
            matrix = scale * sym.symmetrized(np, (q * values) @ q.T)
            grades = 10.0 ** rng.uniform(-20, 20, size) if scale == 1.0 else np.ones(size)
            matrix = grades[:, None] * matrix * grades
            matrix = np.stack([matrix, np.eye(size)])
            if base._surely_points(matrix):
                sure += 1
                finite, symmetric, definite = geometry._tests(matrix, 1e-6)
                assert (finite & symmetric & definite).all()
            assert_array_equal(geometry.belongs(matrix), np.all(geometry._tests(matrix, 1e-6), 0))
    assert sure > 40


# ---- Bures-Wasserstein ---------------------------------------------------------------------------


def test_bures_wasserstein_transport_has_the_stated_accuracy(rng, monkeypatch):
    """Against four times as many steps (256 times the accuracy), maps with spectrum [1/4, 4]."""
    geometry = BuresWassersteinSPD(3)
    w = random_points(geometry, rng, 10)
    q = np.linalg.qr(rng.normal(size=(10, 3, 3)))[0]
    stretch = sym.conjugated(np, q, np.tile([0.25, 1.0, 4.0], (10, 1)))
    x = sym.symmetrized(np, stretch @ w @ stretch)
    v = random_tangents(geometry, rng, w)
    coarse = geometry.transport(w, x, v)
    monkeypatch.setattr(bures, "TRANSPORT_STEPS", 4 * bures.TRANSPORT_STEPS)
    fine = geometry.transport(w, x, v)
    assert np.all(geometry.norm(x, coarse - fine) <= 1e-6 * geometry.norm(w, v))


def test_bures_wasserstein_transport_along_commuting_matrices(rng):
    """Diagonal matrices are flat: square roots of the eigenvalues are Cartesian coordinates."""
    geometry = BuresWassersteinSPD(3)
    w, x = np.diag([1.0, 2.0, 3.0]), np.diag([3.0, 0.5, 1.0])
    v = np.diag([0.3, -0.2, 0.1])
    expected = np.diag(np.diag(v) * np.sqrt(np.diag(x) / np.diag(w)))
    assert_allclose(geometry.transport(w, x, v), expected, atol=1e-9)


# ---- memory and the factory --------------------------------------------------------------------


@pytest.mark.mostly_slow(2)
@pytest.mark.parametrize("size", [2, 6])
@pytest.mark.parametrize("make", METRICS)
def test_memory_does_not_grow_beyond_the_result(make, size, rng, monkeypatch):
    """Input, result and thirty blocks: never three copies of the records."""
    geometry, block = make(size), 2**14
    for kind in ("CPU_BLOCK_BYTES", "DECOMPOSED_BLOCK_BYTES"):
        monkeypatch.setattr(f"skriemdp.geometry._tiles.{kind}", block)
    w = geometry.base_point
    x = np.tile(random_points(geometry, rng, 50), (4000 // size**2, 1, 1))
    assert x.nbytes > 90 * block
    for query, copies in [
        (lambda: geometry.clipped_log_sum(w, x, 1.0), 0),
        (lambda: geometry.log(w, x), 1),
        (lambda: geometry.dist(w, x), 1 / size**2),
        (lambda: GeodesicBall(geometry, w, 0.1).project(x), 1),
    ]:
        tracemalloc.start()
        query()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak <= copies * x.nbytes + 30 * block


def test_factory():
    assert SPD(3) == AffineInvariantSPD(3)
    assert SPD(2, metric="log-euclidean") == LogEuclideanSPD(2)
    assert SPD(2, metric="bures-wasserstein") == BuresWassersteinSPD(2)
    with pytest.raises(ValueError, match="metric"):
        SPD(3, metric="euclidean")
    with pytest.raises(ValueError, match="size"):
        SPD(0)


def test_one_matrix_has_the_spectrum_that_it_has_in_a_batch():
    """One 2x2 matrix is decomposed in Python's floats, many by NumPy: the same numbers."""
    rng = np.random.default_rng(0)
    for exponent in rng.uniform(-150, 150, size=(300, 2)):
        a, c = 10.0**exponent
        b = rng.uniform(-1, 1) * np.sqrt(a * c) * rng.choice([0.0, 1e-9, 1.0])
        for matrix in (np.array([[a, b], [b, c]]), np.array([[a, b], [b, a]]), a * np.eye(2)):
            for one, many in zip(sym.eigh(np, matrix), sym.eigh(np, matrix[None]), strict=True):
                assert_array_equal(one, many[0])
    assert np.isnan(sym.eigh(np, np.full((2, 2), np.nan))[0]).all()


@pytest.mark.parametrize("size", [2, 4])
def test_the_smallest_eigenvalue_is_that_of_numpy(size, rng):
    matrices = rng.normal(size=(50, size, size))
    matrices += matrices.swapaxes(1, 2)
    matrices[0] = np.eye(size)
    found = sym.smallest_eigenvalue(np, matrices)
    np.testing.assert_allclose(found, np.linalg.eigvalsh(matrices)[:, 0], atol=1e-12)


@pytest.mark.parametrize("word", ["finite", "symmetric", "positive definite"])
def test_a_geometry_says_what_matrices_are_not(word):
    wrong = {"finite": np.inf, "symmetric": 0.5, "positive definite": 1.0}[word]
    matrix = np.array([[1.0, 1.0], [wrong, 1.0]])
    assert AffineInvariantSPD(2).complaint(matrix[None]) == word
    assert AffineInvariantSPD(2).complaint(np.eye(2)[None]) is None
