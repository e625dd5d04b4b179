"""Laws that every geometry obeys, at random and degenerate points."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from conftest import (
    GEOMETRIES,
    PYMANOPT_TWINS,
    accuracy,
    points_from,
    random_points,
    random_tangents,
    reach,
    same_point,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from skriemdp.geometry import (
    Circle,
    GeodesicBall,
    Geometry,
    Grassmann,
    Poincare,
    Product,
    Sphere,
    Stiefel,
)
from skriemdp.geometry._tiles import block_length

laws = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
# Few distinct values make equal points, zero vectors and points on axes frequent.
coordinate = st.one_of(
    st.floats(-1, 1, width=32),
    st.sampled_from([0.0, 1.0, -1.0, 1e-8, 1e-160]),
)


def draw(data, geometry, *batch):
    """Coordinates in [-1, 1] of shape (*batch, dim)."""
    return data.draw(arrays(np.float64, (*batch, geometry.dim), elements=coordinate))


def draw_points(data, geometry, count):
    return points_from(geometry, draw(data, geometry, count))


def coordinate_norm(c):
    return np.linalg.norm(c, axis=-1)


# ---- exp, log, dist ----------------------------------------------------------------------------


@laws
@given(data=st.data())
def test_exp_undoes_log(geometry, data):
    x, y = draw_points(data, geometry, 2)
    assert geometry.belongs(x) and geometry.belongs(y)
    v = geometry.log(x, y)
    assert_allclose(geometry.projection(x, v), v, atol=1e-10)
    end = same_point(geometry, geometry.exp(x, v))
    assert_allclose(end, same_point(geometry, y), atol=accuracy(geometry, "log"))
    assert_allclose(geometry.norm(x, v), geometry.dist(x, y), atol=accuracy(geometry, "log"))


@laws
@given(data=st.data())
def test_log_undoes_exp(geometry, data):
    (x,) = draw_points(data, geometry, 1)
    c = draw(data, geometry) * reach(geometry) / math.sqrt(geometry.dim)
    v = geometry.tangent_from_coordinates(x, c)
    y = geometry.exp(x, v)
    assert geometry.belongs(y)
    assert_allclose(geometry.log(x, y), v, atol=accuracy(geometry, "log"))
    assert_allclose(geometry.dist(x, y), coordinate_norm(c), atol=accuracy(geometry, "log"))


@laws
@given(data=st.data())
def test_normal_coordinates_are_those_of_log(geometry, data):
    x, y = draw_points(data, geometry, 2)
    c = geometry.log_coordinates(x, y)
    atol = accuracy(geometry, "log")
    assert_allclose(geometry.tangent_from_coordinates(x, c), geometry.log(x, y), atol=atol)
    assert_allclose(coordinate_norm(c), geometry.dist(x, y), atol=atol)
    end = same_point(geometry, geometry.exp_coordinates(x, c))
    assert_allclose(end, same_point(geometry, y), atol=atol)


@laws
@given(data=st.data())
def test_dist_is_a_metric(geometry, data):
    x, y, z = draw_points(data, geometry, 3)
    atol = accuracy(geometry, "log", 1e-10)
    assert geometry.dist(x, x) <= atol
    assert_allclose(geometry.dist(x, y), geometry.dist(y, x), atol=atol)
    assert geometry.dist(x, z) <= geometry.dist(x, y) + geometry.dist(y, z) + atol


def test_equal_points_and_zero_vectors_are_exact(geometry, rng):
    x = random_points(geometry, rng, 20)
    zero = np.zeros_like(x)
    assert_allclose(geometry.exp(x, zero), x, atol=1e-13)
    assert_allclose(geometry.log(x, x), zero, atol=1e-7)
    assert np.all(geometry.dist(x, x) < 1e-7)
    assert_array_equal(geometry.norm(x, zero), 0.0)


# ---- tangent spaces: what noise relies on -----------------------------------------------------


@laws
@given(data=st.data())
def test_tangent_from_coordinates_is_a_linear_isometry(geometry, data):
    """Gram matrix of the image of the standard basis is the identity, and images add up.

    Together: isotropic Gaussian coordinates become Gaussian noise of the same scale in the metric.
    """
    (x,) = draw_points(data, geometry, 1)
    basis = geometry.tangent_from_coordinates(x, np.eye(geometry.dim))
    gram = geometry.inner_product(x, basis[:, None], basis[None, :])
    assert_allclose(gram, np.eye(geometry.dim), atol=1e-10)
    assert_allclose(geometry.projection(x, basis), basis, atol=1e-11)
    c = draw(data, geometry) * 3.0
    combined = np.tensordot(c, basis, axes=1)
    assert_allclose(geometry.tangent_from_coordinates(x, c), combined, atol=1e-11)
    assert_allclose(geometry.coordinates_from_tangent(x, combined), c, atol=1e-10)


@laws
@given(data=st.data())
def test_projection_is_idempotent_with_tangent_image(geometry, data):
    (x,) = draw_points(data, geometry, 1)
    ambient = data.draw(arrays(np.float64, geometry.shape, elements=coordinate))
    v = geometry.projection(x, ambient)
    assert_allclose(geometry.projection(x, v), v, atol=1e-10)
    c = geometry.coordinates_from_tangent(x, v)
    assert_allclose(geometry.tangent_from_coordinates(x, c), v, atol=1e-10)


@laws
@given(data=st.data())
def test_transport_is_isometric_and_reverses_geodesics(geometry, data):
    x, y = draw_points(data, geometry, 2)
    atol = accuracy(geometry, "transport")
    frame = geometry.tangent_from_coordinates(x, np.eye(geometry.dim))
    moved = geometry.transport(x, y, frame)
    gram = geometry.inner_product(y, moved[:, None], moved[None, :])
    assert_allclose(gram, np.eye(geometry.dim), atol=atol)
    assert_allclose(geometry.projection(y, moved), moved, atol=atol)
    assert_allclose(geometry.transport(y, x, moved), frame, atol=atol)
    along = geometry.transport(x, y, geometry.log(x, y))
    assert_allclose(along, -geometry.log(y, x), atol=atol)


@laws
@given(data=st.data())
def test_retraction_agrees_with_exp_to_first_order(geometry, data):
    (x,) = draw_points(data, geometry, 1)
    step = 1e-3 * draw(data, geometry) * reach(geometry) / math.sqrt(geometry.dim)
    v = geometry.tangent_from_coordinates(x, step)
    end = geometry.retraction(x, v)
    assert geometry.belongs(end)
    assert geometry.dist(end, geometry.exp(x, v)) <= 1e-5 * reach(geometry)


# ---- curvature ---------------------------------------------------------------------------------


def third_side(kappa, a, b, angle):
    """Side opposite to `angle` between sides a and b in the plane of constant curvature kappa."""
    if kappa == 0:
        return math.sqrt(max(a * a + b * b - 2 * a * b * math.cos(angle), 0.0))
    root = math.sqrt(abs(kappa))
    a, b = a * root, b * root
    half = math.sin(angle / 2) ** 2
    if kappa < 0:
        value = math.sinh((a - b) / 2) ** 2 + math.sinh(a) * math.sinh(b) * half
        return 2 * math.asinh(math.sqrt(value)) / root
    value = math.sin((a - b) / 2) ** 2 + math.sin(a) * math.sin(b) * half
    return 2 * math.asin(math.sqrt(min(value, 1.0))) / root


@laws
@given(data=st.data())
def test_curvature_bounds_hold_for_hinges(geometry, data):
    """Rauch and Toponogov: the third side lies between those of the two model planes."""
    (x,) = draw_points(data, geometry, 1)
    low, high = geometry.curvature_bounds
    length = reach(geometry)
    if 0 < high < math.inf:
        length = min(length, math.pi / (4 * math.sqrt(high)))
    u, v = draw(data, geometry, 2) * length / math.sqrt(geometry.dim)
    a, b = np.linalg.norm(u), np.linalg.norm(v)
    y, z = geometry.exp_coordinates(x, u), geometry.exp_coordinates(x, v)
    d = geometry.dist(y, z)
    if a * b == 0:
        assert_allclose(d, a + b, atol=1e-7)
        return
    across = np.linalg.norm(u / a - v / b), np.linalg.norm(u / a + v / b)
    angle = 2 * math.atan2(*across)
    if math.isfinite(low):
        assert d <= third_side(low, a, b, angle) + 1e-7
    if math.isfinite(high):
        assert d >= third_side(high, a, b, angle) - 1e-7


@laws
@given(data=st.data())
def test_log_is_nonexpansive_on_hadamard_manifolds(geometry, data):
    if not geometry.is_hadamard:
        pytest.skip("positive curvature: logarithms expand")
    x, y, z = draw_points(data, geometry, 3)
    c, e = geometry.log_coordinates(x, y), geometry.log_coordinates(x, z)
    assert np.linalg.norm(c - e) <= geometry.dist(y, z) + 1e-9


# ---- sums of clipped logarithms, the query of every mean ----------------------------------------


@pytest.mark.parametrize("clip_norm", [math.inf, 0.5, 1e-3])
def test_clipped_log_sum_is_the_sum_of_clipped_logs(geometry, rng, clip_norm):
    x, others = random_points(geometry, rng), random_points(geometry, rng, 50)
    others[7] = x
    vectors = geometry.log(x, others)
    norms = geometry.norm(x, vectors)
    expected = sum(
        v * min(1.0, clip_norm / max(norm, 1e-300)) for v, norm in zip(vectors, norms, strict=True)
    )
    atol = 50 * accuracy(geometry, "log", 1e-10)
    assert_allclose(geometry.clipped_log_sum(x, others, clip_norm), expected, atol=atol)
    assert_array_equal(geometry.clipped_log_sum(x, others[:0], clip_norm), np.zeros(geometry.shape))


def test_many_records_are_worked_on_in_blocks_with_the_same_result(geometry, rng, monkeypatch):
    x, others = random_points(geometry, rng), random_points(geometry, rng, 23)
    queries = (geometry.log, geometry.dist, geometry.log_coordinates, geometry.clipped_log_sum)
    whole = [query(x, others) for query in queries]
    monkeypatch.setattr("skriemdp.geometry._tiles.CPU_BLOCK_BYTES", 5 * others[0].nbytes)
    blocks = [query(x, others) for query in queries]
    for a, b in zip(whole, blocks, strict=True):
        assert_allclose(a, b, atol=1e-12)


def test_blocks_of_another_library_on_a_cpu_are_those_of_numpy():
    strict = pytest.importorskip("array_api_strict")
    assert block_length(strict.zeros((4, 3))) == block_length(np.zeros((4, 3)))


# ---- values --------------------------------------------------------------------------------------


def test_a_geometry_is_a_value(geometry):
    copy = pickle.loads(pickle.dumps(geometry))
    assert copy == geometry and hash(copy) == hash(geometry) and repr(copy) == repr(geometry)
    assert geometry.base_point.shape == geometry.shape
    assert geometry.base_point.dtype == np.float64
    assert geometry.belongs(geometry.base_point)
    assert geometry.dim >= 1 and geometry.point_ndim == len(geometry.shape)
    low, high = geometry.curvature_bounds
    assert low <= high


def test_batches_broadcast(geometry, rng):
    x, y = random_points(geometry, rng, 3, 1), random_points(geometry, rng, 4)
    v = random_tangents(geometry, rng, x, reach(geometry) / 2)
    shape = (3, 4, *geometry.shape)
    assert geometry.log(x, y).shape == shape
    assert geometry.dist(x, y).shape == (3, 4)
    assert geometry.exp(x, np.broadcast_to(v, shape)).shape == shape
    assert geometry.transport(x, y, v).shape == shape
    c = rng.normal(size=(4, geometry.dim))
    assert geometry.tangent_from_coordinates(x, c).shape == shape
    assert geometry.log_coordinates(x, y).shape == (3, 4, geometry.dim)
    assert geometry.inner_product(x, v, v).shape == (3, 1)
    one = geometry.log(x[2, 0], y[1])
    atol = accuracy(geometry, "log", 1e-12)
    assert_allclose(geometry.log(x, y)[2, 1], one, atol=atol)
    moved = geometry.transport(x[2, 0], y[1], v[2, 0])
    atol = accuracy(geometry, "transport", 1e-12)
    assert_allclose(geometry.transport(x, y, v)[2, 1], moved, atol=atol)


# ---- number formats and array libraries ------------------------------------------------------


def run_everything(geometry, x, y, v, c, others):
    """Every operation, by name, on arrays of one library."""
    results = {
        "exp": geometry.exp(x, v),
        "log": geometry.log(x, y),
        "dist": geometry.dist(x, y),
        "norm": geometry.norm(x, v),
        "inner_product": geometry.inner_product(x, v, v),
        "projection": geometry.projection(x, v),
        "gradient": geometry.euclidean_to_riemannian_gradient(x, v),
        "retraction": geometry.retraction(x, v),
        "tangent_from_coordinates": geometry.tangent_from_coordinates(x, c),
        "coordinates_from_tangent": geometry.coordinates_from_tangent(x, v),
        "log_coordinates": geometry.log_coordinates(x, y),
        "exp_coordinates": geometry.exp_coordinates(x, c),
        "transport": geometry.transport(x, y, v),
        "clipped_log_sum": geometry.clipped_log_sum(x[0, ...], others, 0.5),
        "belongs": geometry.belongs(x),
    }
    return results


def case(geometry, rng):
    x, y, others = (random_points(geometry, rng, n) for n in (4, 4, 9))
    v = random_tangents(geometry, rng, x, reach(geometry) / 2)
    return x, y, v, geometry.coordinates_from_tangent(x, v), others


def test_single_precision_is_kept(geometry, rng):
    arguments = case(geometry, rng)
    double = run_everything(geometry, *arguments)
    single = run_everything(geometry, *[a.astype(np.float32) for a in arguments])
    for name, value in single.items():
        if name != "belongs":
            assert value.dtype == np.float32, name
        assert_allclose(value, double[name], atol=2e-3, err_msg=name)
        assert double[name].dtype in (np.float64, np.bool_), name


@pytest.mark.mostly_slow(3)
def test_array_api_strict_gives_the_same(geometry, rng):
    strict = pytest.importorskip("array_api_strict")
    arguments = case(geometry, rng)
    expected = run_everything(geometry, *arguments)
    results = run_everything(geometry, *[strict.asarray(a) for a in arguments])
    for name, value in results.items():
        assert isinstance(value, type(strict.asarray(0.0))), name
        assert_allclose(np.asarray(value), expected[name], atol=1e-12, err_msg=name)
    ball = GeodesicBall(geometry, center=None, radius=reach(geometry) / 3)
    assert_allclose(
        np.asarray(ball.project(strict.asarray(arguments[4]))),
        ball.project(arguments[4]),
        atol=1e-12,
    )


def test_torch_gives_the_same(geometry, rng):
    torch = pytest.importorskip("torch")
    arguments = case(geometry, rng)
    expected = run_everything(geometry, *arguments)
    results = run_everything(geometry, *[torch.asarray(a) for a in arguments])
    for name, value in results.items():
        assert isinstance(value, torch.Tensor), name
        atol = max(accuracy(geometry, "log", 1e-11), accuracy(geometry, "transport", 1e-11))
        assert_allclose(value.numpy(), expected[name], atol=atol, err_msg=name)
    ball = GeodesicBall(geometry, center=None, radius=reach(geometry) / 3)
    assert_allclose(
        ball.project(torch.asarray(arguments[4])).numpy(),
        ball.project(arguments[4]),
        atol=accuracy(geometry, "log", 1e-11),
    )


# ---- balls ---------------------------------------------------------------------------------------


@laws
@given(data=st.data())
def test_projection_to_a_ball(geometry, data):
    x = draw_points(data, geometry, 4)
    ball = GeodesicBall(geometry, center=None, radius=reach(geometry) / 3)
    before = x.copy()
    projected = ball.project(x)
    assert_array_equal(x, before)
    inside = ball.contains(x)
    assert_array_equal(projected[inside], x[inside])
    assert np.all(ball.contains(projected))
    assert_array_equal(ball.project(projected), projected)
    atol = accuracy(geometry, "log")
    moved = geometry.dist(x, projected)
    assert_allclose(moved, np.maximum(ball.distances(x) - ball.radius, 0), atol=atol)
    if geometry.is_hadamard:
        assert geometry.dist(projected[0], projected[1]) <= geometry.dist(x[0], x[1]) + atol


def test_ball_projects_and_sums_in_one_pass(geometry, rng, monkeypatch):
    x = random_points(geometry, rng, 22)
    center = random_points(geometry, rng)
    radius = min(np.median(geometry.dist(center, x)), 0.99 * geometry.radius_limit)
    ball = GeodesicBall(geometry, center, radius)
    monkeypatch.setattr("skriemdp.geometry._tiles.CPU_BLOCK_BYTES", 5 * x[0].nbytes)
    before = x.copy()
    points, outside, total = ball.project_with_log_sum(x)
    assert_array_equal(x, before)
    inside = ball.contains(x)
    assert outside == np.count_nonzero(~inside) and 0 < outside < 22
    assert_array_equal(points[inside], x[inside])
    assert_allclose(points, ball.project(x), atol=1e-10)
    expected = geometry.clipped_log_sum(ball.center, x, ball.radius)
    expected = geometry.coordinates_from_tangent(ball.center, expected)
    assert_allclose(total, expected, atol=22 * accuracy(geometry, "log", 1e-10))


def test_ball_accepts_a_center_and_any_batch(geometry, rng):
    center = random_points(geometry, rng)
    ball = GeodesicBall(geometry, center, radius=reach(geometry) / 4)
    x = random_points(geometry, rng, 3, 5)
    assert ball.project(x).shape == x.shape
    assert ball.contains(ball.project(x)).shape == (3, 5)
    assert np.all(ball.contains(ball.project(x)))
    one = ball.project(x[0, 0])
    assert one.shape == geometry.shape and ball.contains(one)


def test_ball_names_the_limit(geometry):
    limit = geometry.radius_limit
    with pytest.raises(ValueError, match="radius"):
        GeodesicBall(geometry, None, math.inf)
    with pytest.raises(ValueError, match="shape"):
        GeodesicBall(geometry, np.zeros((7, *geometry.shape)), 0.1)
    if math.isfinite(limit):
        GeodesicBall(geometry, None, limit * 0.999)
        with pytest.raises(ValueError, match=f"{limit:.6g}"):
            GeodesicBall(geometry, None, limit)


def test_the_list_covers_every_sign_of_curvature():
    bounds = [geometry.curvature_bounds for geometry in GEOMETRIES]
    assert any(low > 0 for low, _ in bounds)
    assert any(high < 0 for _, high in bounds)
    assert any(low == high == 0 for low, high in bounds)


@laws
@given(data=st.data())
def test_riemannian_gradient_represents_the_differential(geometry, data):
    (x,) = draw_points(data, geometry, 1)
    partial = data.draw(arrays(np.float64, geometry.shape, elements=coordinate))
    gradient = geometry.euclidean_to_riemannian_gradient(x, partial)
    assert_allclose(geometry.projection(x, gradient), gradient, atol=1e-9)
    basis = geometry.tangent_from_coordinates(x, np.eye(geometry.dim))
    expected = (partial * basis).reshape(geometry.dim, -1).sum(axis=-1)
    assert_allclose(geometry.inner_product(x, gradient, basis), expected, atol=1e-9)
    default = Geometry.euclidean_to_riemannian_gradient(geometry, x, partial)
    assert_allclose(gradient, default, atol=1e-9)


# ---- agreement with pymanopt ---------------------------------------------------------------------


@pytest.mark.parametrize("geometry", PYMANOPT_TWINS, ids=str)
def test_pymanopt_agrees(geometry, rng):
    module, name, arguments, operations = PYMANOPT_TWINS[geometry]
    twin = getattr(pytest.importorskip(module), name)(*arguments)
    for x, y in zip(
        random_points(geometry, rng, 10), random_points(geometry, rng, 10), strict=True
    ):
        u, v = random_tangents(geometry, rng, np.stack([x, x]), reach(geometry))
        calls = {
            "dist": (x, y),
            "log": (x, y),
            "exp": (x, v),
            "inner_product": (x, u, v),
            "norm": (x, v),
            "projection": (x, rng.normal(size=geometry.shape)),
            "euclidean_to_riemannian_gradient": (x, rng.normal(size=geometry.shape)),
            "transport": (x, y, v),
        }
        for operation in operations:
            ours = getattr(geometry, operation)(*calls[operation])
            theirs = getattr(twin, operation)(*calls[operation])
            assert_allclose(ours, theirs, atol=1e-8, err_msg=operation)


# ---- what single geometries owe --------------------------------------------------------------


CURVED = [
    Poincare(2),
    Poincare(3, curvature=-2.0),
    Grassmann(4, 1),
    Grassmann(5, 2),
    Grassmann(5, 3),
    Stiefel(4, 1),
    Stiefel(3, 2),
    Stiefel(6, 3),
    Product(Sphere(2), Poincare(2)),
]


def pole_ladder(geometry, point, velocity, vector, rungs):
    """Parallel transport along a geodesic by exp and log alone; second order in the rung length."""
    small = 1e-3
    start = point
    for k in range(rungs):
        end = geometry.exp(point, velocity * ((k + 1) / rungs))
        middle = geometry.exp(point, velocity * ((k + 0.5) / rungs))
        tip = geometry.exp(start, small * vector)
        tip = geometry.exp(middle, -geometry.log(middle, tip))
        vector, start = -geometry.log(end, tip) / small, end
    return start, vector


@pytest.mark.parametrize("geometry", CURVED, ids=str)
def test_transport_is_parallel(geometry, rng):
    c = rng.normal(size=(2, geometry.dim))
    c *= reach(geometry) / np.linalg.norm(c, axis=1, keepdims=True)
    x = geometry.exp_coordinates(geometry.base_point, c[0])
    velocity = geometry.tangent_from_coordinates(x, c[1])
    vector = geometry.tangent_from_coordinates(x, np.ones(geometry.dim) / math.sqrt(geometry.dim))
    y, carried = pole_ladder(geometry, x, velocity, vector, rungs=8)
    error = geometry.norm(y, geometry.transport(x, y, vector) - carried)
    # Exact on symmetric spaces; elsewhere 1e-4 at this rung, and an error of 1 % in the connection
    # gives 1e-3.
    assert error < 3e-4


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Grassmann(3, 3), "p < n"),
        (lambda: Stiefel(3, 3), "SpecialOrthogonalGroup"),
        (lambda: Poincare(2, curvature=1.0), "curvature"),
        (lambda: Poincare(0), "dim"),
        (lambda: Circle(0.0), "length"),
        (lambda: Circle(math.inf), "length"),
    ],
)
def test_parameters_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


COMPACT = [g for g in GEOMETRIES if 0.0 < g.injectivity_radius < math.inf]


def stretched(geometry, share):
    """Lengths of geodesics over distances of their ends, along axes and others, at two points."""
    radius, axes = share * geometry.injectivity_radius, np.eye(geometry.dim)
    c = np.concatenate([axes, -axes, np.random.default_rng(0).normal(size=(40, geometry.dim))])
    c *= radius / np.linalg.norm(c, axis=1, keepdims=True)
    away = np.full(geometry.dim, 0.1 * geometry.injectivity_radius / geometry.dim**0.5)
    for base in (
        geometry.base_point,
        np.asarray(geometry.exp_coordinates(geometry.base_point, away)),
    ):
        ends = np.asarray(geometry.exp_coordinates(base, c))
        yield from radius / np.asarray(geometry.dist(base, ends))


@pytest.mark.parametrize("geometry", COMPACT, ids=str)
def test_geodesics_shorter_than_the_injectivity_radius_are_shortest(geometry):
    assert max(stretched(geometry, 0.97)) <= 1.0 + 1e-5
    if not isinstance(geometry, Stiefel) or geometry.p == 1:  # whose radius is a lower bound
        assert max(stretched(geometry, 1.05)) >= 1.05


def test_a_radius_that_is_too_long_is_found():
    class Long(Sphere):
        injectivity_radius = 2.0 * math.pi

    assert max(stretched(Long(2), 0.97)) > 1.5
