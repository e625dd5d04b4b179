"""The door for manifolds: names, pymanopt's objects, users' own classes."""

import copy
import math
import pickle
import subprocess
import sys
import threading
import warnings

import numpy as np
import pymanopt.manifolds as pm
import pytest
from conftest import random_points, reach
from numpy.random import standard_normal
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

# Laws of every geometry, collected here again for adapted manifolds (see the fixture below).
from test_geometry_laws import (  # noqa: F401
    test_dist_is_a_metric,
    test_exp_undoes_log,
    test_log_undoes_exp,
    test_normal_coordinates_are_those_of_log,
    test_projection_is_idempotent_with_tangent_image,
    test_tangent_from_coordinates_is_a_linear_isometry,
)

from skriemdp import (
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
)
from skriemdp.geometry import (
    SPD,
    AffineInvariantSPD,
    BuresWassersteinSPD,
    Circle,
    Correlation,
    Euclidean,
    GeodesicBall,
    Geometry,
    Grassmann,
    Hyperboloid,
    LogEuclideanSPD,
    PlanarShapes,
    Poincare,
    Product,
    PymanoptGeometry,
    Rotations,
    Sphere,
    Stiefel,
    as_geometry,
    geometry_from_name,
)
from skriemdp.geometry._layout import Layout


class Ellipsoid:
    """A user's manifold with the three methods, no more: {x : x' diag(w) x = 1}, scaled metric."""

    dim = 2
    weights = np.array([1.0, 4.0, 0.25])

    def projection(self, point, vector):
        normal = self.weights * point
        return vector - normal * (normal @ vector) / (normal @ normal)

    def norm(self, point, tangent_vector):
        return 3.0 * np.sqrt(tangent_vector @ ((1 + self.weights) * tangent_vector))

    def retraction(self, point, tangent_vector):
        end = point + tangent_vector
        return end / math.sqrt(end @ (self.weights * end))


class SlantedPlane(pm.manifold.Manifold):
    """A user's subclass of pymanopt's base: vectors of mean zero under a point-dependent metric."""

    def __init__(self, size):
        super().__init__("slanted plane", size - 1)
        self.size = size

    def inner_product(self, point, tangent_vector_a, tangent_vector_b):
        return tangent_vector_a @ (np.exp(point) * tangent_vector_b)

    def norm(self, point, tangent_vector):
        return np.sqrt(self.inner_product(point, tangent_vector, tangent_vector))

    def projection(self, point, vector):
        return vector - np.mean(vector)

    def retraction(self, point, tangent_vector):
        return point + tangent_vector

    def random_point(self):
        point = np.random.normal(size=self.size)
        return point - point.mean()

    def random_tangent_vector(self, point):
        return self.projection(point, np.random.normal(size=self.size))

    def zero_vector(self, point):
        return np.zeros(self.size)


# With logarithms and with Riemannian facts: these obey the laws of our own geometries.
LAWFUL = [
    as_geometry(pm.Oblique(3, 2)),
    PymanoptGeometry(
        pm.SymmetricPositiveDefinite(2, k=2),
        curvature_bounds=(-0.5, 0.0),
        injectivity_radius=math.inf,
    ),
]
# Copies of manifolds of ours.
COPIES = [
    pm.SymmetricPositiveDefinite(2, k=2),
    pm.Stiefel(4, 2, k=2),
    pm.Grassmann(4, 2, k=2),
    pm.PoincareBall(2, k=2),
]
# The rest of pymanopt: several arrays, complex numbers, quotients, retractions only.
OTHERS = [
    pm.Positive(1, 2),
    pm.Stiefel(3, 3),
    pm.ComplexCircle(3),
    pm.ComplexGrassmann(4, 2),
    pm.UnitaryGroup(2),
    pm.FixedRankEmbedded(5, 4, 2),
    pm.PSDFixedRank(4, 2),
    pm.SphereSubspaceIntersection(np.eye(5)[:, :3]),
    pm.Sphere(2, 3),
    SlantedPlane(4),
]
OTHER_GEOMETRIES = [as_geometry(manifold) for manifold in OTHERS]
OTHER_GEOMETRIES += [PymanoptGeometry(manifold) for manifold in COPIES[1:]]
OTHER_GEOMETRIES.append(PymanoptGeometry(pm.SpecialOrthogonalGroup(3)))
OTHER_GEOMETRIES.append(PymanoptGeometry(Ellipsoid(), base_point=np.array([0.6, 0.4, 0.0])))
ids = {"ids": lambda value: str(value).split("(", 1)[-1].split(" object")[0]}


@pytest.fixture(params=LAWFUL, ids=str)
def geometry(request):
    return request.param


def test_lawful_manifolds_carry_their_curvature(geometry):
    assert isinstance(geometry, PymanoptGeometry)
    assert geometry.radius_limit > 0
    ball = GeodesicBall(geometry, center=None, radius=reach(geometry) / 4)
    x = random_points(geometry, np.random.default_rng(0), 6)
    projected = ball.project(x)
    assert np.all(ball.contains(projected))
    total = geometry.clipped_log_sum(geometry.base_point, x, 0.1)
    assert geometry.norm(geometry.base_point, total) <= 0.6 + 1e-12


# ---- noise on manifolds of any format ------------------------------------------------------------


@pytest.mark.parametrize("geometry", OTHER_GEOMETRIES, **ids)
def test_coordinates_are_isometric_by_the_manifolds_own_norm(geometry, rng):
    """The noise has the scale it claims, measured by nothing but the manifold's norm."""
    manifold = geometry.manifold
    x = geometry.base_point
    for _ in range(3):
        c = rng.normal(size=(5, geometry.dim))
        v = geometry.tangent_from_coordinates(x, c)
        assert v.shape == (5, *geometry.shape)
        assert_allclose(geometry.projection(x, v), v, atol=1e-10)
        assert_allclose(geometry.coordinates_from_tangent(x, v), c, atol=1e-10)
        point = geometry.unpack(x)
        for row, vector in zip(c, v, strict=True):
            own = manifold.norm(point, geometry._tangents.unpack(vector.ravel()))
            assert_allclose(own, np.linalg.norm(row), rtol=1e-9)
        x = geometry.retraction(x, 0.2 * v[0])
        assert np.all(geometry.belongs(x))


@pytest.mark.parametrize("geometry", OTHER_GEOMETRIES, **ids)
def test_the_basis_spans_the_whole_tangent_space(geometry):
    """dim independent directions, by the dimension that the manifold itself states."""
    basis = geometry.tangent_from_coordinates(geometry.base_point, np.eye(geometry.dim))
    rank = np.linalg.matrix_rank(basis.reshape(geometry.dim, -1), tol=1e-8)
    assert rank == geometry.dim == geometry.manifold.dim


def test_points_are_packed_in_double_precision():
    for point in (np.ones(3, np.float32), np.ones(3, int), np.ones(3, np.complex64)):
        assert Layout.of(point).pack(point).dtype == np.float64


@pytest.mark.parametrize("geometry", OTHER_GEOMETRIES, **ids)
def test_one_point_and_many_agree(geometry, rng):
    """Vectorised paths (one point, many vectors) give what the loops give, deterministically."""
    x = geometry.base_point
    many = geometry._tangents.size + 3
    c = rng.normal(size=(many, geometry.dim))
    v = geometry.tangent_from_coordinates(x, c)
    xs = np.broadcast_to(x, (many, *geometry.shape))
    assert_allclose(geometry.tangent_from_coordinates(xs, c), v, atol=1e-12)
    assert_allclose(geometry.norm(x, v), geometry.norm(xs, v), rtol=1e-10)
    assert_allclose(geometry.norm(x, v), np.linalg.norm(c, axis=-1), rtol=1e-10)
    assert_allclose(geometry.projection(x, v), geometry.projection(xs, v), atol=1e-10)
    assert_array_equal(geometry.tangent_from_coordinates(x, c), v)
    assert geometry.exp(x, v[:2]).shape == (2, *geometry.shape)


@pytest.mark.parametrize("geometry", OTHER_GEOMETRIES, **ids)
def test_transport_is_isometric(geometry, rng):
    x = geometry.base_point
    frame = geometry.tangent_from_coordinates(x, np.eye(geometry.dim))
    y = geometry.retraction(x, 0.1 * frame[0])
    moved = geometry.transport(x, y, frame)
    gram = geometry.inner_product(y, moved[:, None], moved[None])
    assert_allclose(gram, np.eye(geometry.dim), atol=1e-9)
    assert_allclose(geometry.transport(x, x, frame), frame, atol=1e-9)


@pytest.mark.parametrize("geometry", OTHER_GEOMETRIES, **ids)
def test_an_adapted_manifold_is_a_value(geometry):
    for twin in (pickle.loads(pickle.dumps(geometry)), copy.deepcopy(geometry)):
        assert twin == geometry and hash(twin) == hash(geometry)
    assert geometry != Euclidean(2)
    assert geometry.base_point.shape == geometry.shape
    point = geometry.unpack(geometry.base_point)
    assert_array_equal(geometry.pack(point), geometry.base_point)


@pytest.mark.parametrize(
    "geometry",
    [
        *map(as_geometry, [pm.Oblique(3, 2), pm.Symmetric(2)]),
        PymanoptGeometry(pm.SpecialOrthogonalGroup(3)),
        PymanoptGeometry(pm.SymmetricPositiveDefinite(2, k=2)),
        as_geometry(pm.ComplexCircle(2)),
        PymanoptGeometry(SlantedPlane(4)),
        PymanoptGeometry(Ellipsoid(), base_point=np.array([0.6, 0.4, 0.0])),
    ],
    **ids,
)
def test_riemannian_gradients_are_derivatives(geometry, rng):
    """In any format: the derivative of a function along a retraction is <gradient, direction>."""
    x, h = geometry.base_point, 1e-5
    partials = rng.normal(size=geometry.shape)
    if isinstance(geometry.manifold, pm.Symmetric | pm.SymmetricPositiveDefinite):
        partials = geometry.projection(x, partials)
    gradient = geometry.euclidean_to_riemannian_gradient(x, partials)
    for c in np.eye(geometry.dim):
        v = geometry.tangent_from_coordinates(x, c)
        ends = geometry.retraction(x, np.stack([h * v, -h * v]))
        measured = np.sum(partials * (ends[0] - ends[1])) / (2 * h)
        assert_allclose(geometry.inner_product(x, gradient, v), measured, atol=1e-6)


def test_nothing_private_leaves_the_tangent_space(rng):
    """What a manifold returns outside of the tangent space would get no noise; it is removed."""

    class Careless(SlantedPlane):
        def log(self, point_a, point_b):
            return point_b - point_a + 5.0

        def euclidean_to_riemannian_gradient(self, point, euclidean_gradient):
            return euclidean_gradient

    geometry = PymanoptGeometry(Careless(3))
    x = geometry.base_point
    for count in (2, 20):  # looped and vectorised
        vectors = rng.normal(size=(count, 3))
        for result in (
            geometry.log(x, vectors),
            geometry.euclidean_to_riemannian_gradient(x, vectors),
        ):
            assert_allclose(result.sum(axis=-1), 0.0, atol=1e-12)


def test_membership_is_what_a_retraction_leaves_alone(rng):
    for manifold in (pm.Oblique(3, 2), pm.SpecialOrthogonalGroup(3), pm.Sphere(2, 2)):
        geometry = as_geometry(manifold)
        x = np.stack([geometry.base_point] * 4)
        x[1] *= 1.1
        x[2] = np.nan
        x[3] = 0.0
        assert_array_equal(geometry.belongs(x), [True, False, False, False])
    pieces = as_geometry(pm.FixedRankEmbedded(4, 3, 2))
    assert pieces.belongs(pieces.base_point)


def test_rotations_in_the_lie_algebra(rng):
    """Tangent vectors in a format of their own: log inverts exp, distances are angles * sqrt(2)."""
    geometry = PymanoptGeometry(pm.SpecialOrthogonalGroup(3))
    x = geometry.base_point
    c = rng.normal(size=(8, 3))
    y = geometry.exp_coordinates(x, c)
    assert np.all(geometry.belongs(y))
    assert_allclose(geometry.log_coordinates(x, y), c, atol=1e-7)
    angles = np.arccos((np.trace(x.T @ y, axis1=-2, axis2=-1) - 1) / 2)
    assert_allclose(geometry.dist(x, y), math.sqrt(2) * angles, rtol=1e-6)


def test_nothing_is_assumed_about_unknown_manifolds():
    geometry = PymanoptGeometry(SlantedPlane(3))
    assert geometry.curvature_bounds == (-math.inf, math.inf)
    assert geometry.radius_limit == 0.0
    with pytest.raises(ValueError, match="nothing bounds the curvature"):
        GeodesicBall(geometry, None, 1e-9)
    with pytest.raises(TypeError, match="has no log"):
        geometry.log(geometry.base_point, geometry.base_point)
    stated = PymanoptGeometry(SlantedPlane(3), curvature_bounds=(-1, 0), injectivity_radius=2)
    assert stated.radius_limit == 1.0 and stated != geometry


def test_the_users_random_state_is_left_alone():
    np.random.seed(3)
    expected = np.random.random()
    np.random.seed(3)
    first = PymanoptGeometry(pm.Oblique(3, 2))
    as_geometry(pm.Sphere(3))
    assert np.random.random() == expected
    assert_array_equal(first.base_point, PymanoptGeometry(pm.Oblique(3, 2)).base_point)


class DrawsByName(pm.Euclidean):
    def random_point(self):
        return standard_normal(3)


def test_names_of_numpys_functions_draw_from_the_public_seed_too():
    state = np.random.get_state()[1].copy()
    points = [PymanoptGeometry(DrawsByName(3)).base_point for _ in range(2)]
    assert_array_equal(*points)
    assert_array_equal(np.random.get_state()[1], state)
    assert standard_normal.__self__ is np.random.mtrand._rand


def test_equal_points_of_manifolds_that_divide_zero_by_zero():
    geometry = PymanoptGeometry(pm.PoincareBall(2, k=2))
    x = geometry.base_point
    y = x.copy()
    y[0] *= 0.5
    v = geometry.log(x, y)
    assert np.all(v[1] == 0) and geometry.norm(x, v) > 0
    assert geometry.dist(x, x) == 0


class BrokenProjection(Ellipsoid):
    def projection(self, point, vector):
        return 0.9 * super().projection(point, vector)


class BrokenDimension(Ellipsoid):
    dim = 3


class BrokenNorm(Ellipsoid):
    def norm(self, point, tangent_vector):
        return np.sum(np.abs(tangent_vector))


class Norm:
    def norm(self, point, tangent_vector):
        return 1.0


@pytest.mark.parametrize(
    "manifold, error, message",
    [
        (BrokenProjection(), ValueError, "idempotent"),
        (BrokenDimension(), ValueError, "dim=3"),
        (BrokenNorm(), ValueError, "inner product"),
        (Norm(), TypeError, "no projection"),
        (pm.Elliptope(4, 2), ValueError, "idempotent"),  # not a projection in pymanopt 2.2
        (pm.SpecialHermitianPositiveDefinite(3), ValueError, "dimension"),  # stated wrongly
    ],
    ids=lambda value: type(value).__name__,
)
def test_broken_manifolds_are_refused(manifold, error, message):
    with pytest.raises(error, match=message):
        PymanoptGeometry(manifold, base_point=np.array([0.6, 0.4, 0.0]))


def test_a_base_point_is_asked_for_where_there_is_no_random_point():
    with pytest.raises(TypeError, match="base_point"):
        PymanoptGeometry(Ellipsoid())


def test_other_arrays_are_refused_with_the_cure():
    strict = pytest.importorskip("array_api_strict")
    geometry = PymanoptGeometry(pm.Oblique(3, 2))
    with pytest.raises(TypeError, match="NumPy"):
        geometry.norm(strict.asarray(geometry.base_point), strict.asarray(geometry.base_point))


# ---- as_geometry ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "manifold, expected",
    [
        (pm.Euclidean(3), Euclidean(3)),
        (pm.Euclidean(2, 3), Euclidean(2, 3)),
        (pm.Sphere(4), Sphere(3)),
        (pm.SymmetricPositiveDefinite(3), AffineInvariantSPD(3)),
        (pm.Grassmann(5, 2), Grassmann(5, 2)),
        (pm.Stiefel(5, 2), Stiefel(5, 2)),
        (pm.PoincareBall(3), Poincare(3)),
        (pm.Grassmann(5, 2, k=2), Product(Grassmann(5, 2), Grassmann(5, 2), stacked=True)),
        (pm.PoincareBall(3, k=2), Product(Poincare(3), Poincare(3), stacked=True)),
        (pm.SpecialOrthogonalGroup(3), Rotations(math.sqrt(2.0))),
        (
            pm.SpecialOrthogonalGroup(3, k=2),
            Product(*[Rotations(math.sqrt(2.0))] * 2, stacked=True),
        ),
        (pm.Product([pm.Sphere(3), pm.Euclidean(2)]), Product(Sphere(2), Euclidean(2))),
        (Circle(2.0), Circle(2.0)),
    ],
    ids=lambda value: str(value),
)
def test_pymanopt_twins(manifold, expected):
    """Same manifold, same metric (agreement of the numbers is a law test)."""
    assert as_geometry(manifold) == expected
    assert as_geometry(manifold, point_shape=(17, 17)) == expected  # rows need not be points


@pytest.mark.parametrize("manifold", COPIES, ids=str)
def test_copies_measure_as_pymanopt_does(manifold, rng):
    geometry, shape = as_geometry(manifold), np.shape(manifold.random_point())
    adapter = PymanoptGeometry(manifold)
    x = adapter.base_point
    v = adapter.tangent_from_coordinates(x, 0.3 * rng.normal(size=adapter.dim))
    flat, w = x.reshape(geometry.shape), v.reshape(geometry.shape)
    assert shape == x.shape and geometry.dim == manifold.dim and geometry.belongs(flat)
    assert_allclose(geometry.norm(flat, w), manifold.norm(x, v), rtol=1e-9)
    assert_allclose(geometry.projection(flat, w), w, atol=1e-10)
    if not isinstance(manifold, pm.Stiefel):  # which has no distance there
        y = manifold.exp(x, v)
        assert_allclose(geometry.dist(flat, y), manifold.dist(x, y), rtol=1e-6)


def test_records_of_copies_come_as_pymanopt_stores_them(rng):
    from skriemdp import PrivateFrechetMean

    X = 0.2 * rng.normal(size=(200, 2, 3)).clip(-2, 2)
    mean = PrivateFrechetMean(pm.PoincareBall(3, k=2), radius=2.0, epsilon=5.0, random_state=0)
    assert mean.fit(X).mean_.shape == (2, 3)
    assert_array_equal(mean.mean_, mean.fit(X.reshape(200, 6)).mean_)
    with pytest.raises(ValueError, match="rows of shape"):
        mean.fit(X[:, :1])


@pytest.mark.parametrize("twin", [pm.Oblique(3, 2), pm.SpecialOrthogonalGroup(4), pm.Sphere(2, 2)])
def test_facts_about_pymanopts_curvature(twin, rng):
    """Third sides of small hinges lie between those of the model planes, to fourth order."""
    geometry, h = as_geometry(twin), 0.05
    low, high = geometry.curvature_bounds
    x = geometry.base_point
    for _ in range(6):
        q, _ = np.linalg.qr(rng.normal(size=(geometry.dim, 2)))
        a, b = geometry.exp_coordinates(x, h * q.T)
        measured = 3 * (2 * h**2 - geometry.dist(a, b) ** 2) / h**4
        assert low - 0.01 <= measured <= high + 0.01


def test_subclasses_of_pymanopts_classes_keep_their_own_metric():
    class Doubled(pm.Euclidean):
        def inner_product(self, point, tangent_vector_a, tangent_vector_b):
            return 4 * super().inner_product(point, tangent_vector_a, tangent_vector_b)

        def norm(self, point, tangent_vector):
            return 2 * super().norm(point, tangent_vector)

    geometry = as_geometry(Doubled(2))
    assert isinstance(geometry, PymanoptGeometry) and geometry.radius_limit == 0
    v = geometry.tangent_from_coordinates(geometry.base_point, np.array([1.0, 0.0]))
    assert_allclose(np.linalg.norm(v), 0.5)


@pytest.mark.parametrize(
    "name, shape, expected",
    [
        ("euclidean", (4,), Euclidean(4)),
        ("euclidean", (2, 3, 2), Euclidean(2, 3, 2)),
        ("sphere", (3,), Sphere(2)),
        ("hyperboloid", (3,), Hyperboloid(2)),
        ("poincare", (3,), Poincare(3)),
        ("circle", (1,), Circle(2 * math.pi)),
        ("spd", (3, 3), SPD(3)),
        ("spd-log-euclidean", (3, 3), LogEuclideanSPD(3)),
        ("spd-bures-wasserstein", (3, 3), BuresWassersteinSPD(3)),
        ("correlation", (3, 3), Correlation(3)),
        ("rotations", (3, 3), Rotations()),
        ("shapes", (5, 2), PlanarShapes(5)),
        ("grassmann", (5, 2), Grassmann(5, 2)),
        ("stiefel", (5, 2), Stiefel(5, 2)),
    ],
)
def test_names(name, shape, expected):
    assert as_geometry(name, point_shape=shape) == expected
    assert geometry_from_name(name, np.asarray(shape)) == expected


@pytest.mark.parametrize(
    "name, shape, message",
    [
        ("torus", (3,), "'euclidean', 'sphere'.*'stiefel'"),
        ("sphere", (3, 3), r"\(d \+ 1,\).*got rows of shape \(3, 3\)"),
        ("sphere", (1,), r"\(d \+ 1,\)"),
        ("spd", (3, 2), r"\(m, m\).*got rows of shape \(3, 2\)"),
        ("spd", (9,), r"\(m, m\)"),
        ("grassmann", (2, 2), "p < n"),
        ("stiefel", (2, 5), "p < n"),
        ("euclidean", (), "any array"),
        ("euclidean", None, "shape of a point"),
    ],
)
def test_wrong_names_and_shapes_say_what_is_expected(name, shape, message):
    with pytest.raises(ValueError, match=message):
        as_geometry(name, point_shape=shape)


@pytest.mark.parametrize("wrong", [3, None, pm.Sphere, Sphere, np.eye(2), {"dim": 2}])
def test_what_is_no_manifold_is_refused(wrong):
    with pytest.raises(TypeError, match="pymanopt"):
        as_geometry(wrong)


def test_the_door_is_open_to_users_classes():
    class Dial:
        hours = 12.0

    @as_geometry.register
    def _(manifold: Dial, point_shape=None):
        return Circle(manifold.hours)

    assert as_geometry(Dial()) == Circle(12.0)
    assert isinstance(as_geometry(Dial()), Geometry)


def test_pymanopt_is_not_imported():
    code = (
        "import sys; from skriemdp.geometry import as_geometry; as_geometry('spd', (2, 2));"
        "print('pymanopt' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


# -- pymanopt's objects in estimators that do not estimate a point of the data's space -------------


def same_fit(estimator, data, *, by_name=None, **with_object):
    """The model of an object, which must be that of the name in every learned number."""
    warnings.simplefilter("ignore")
    model, named = (
        clone(estimator).set_params(random_state=0, **parameters).fit(*data)
        for parameters in (with_object, by_name or {})
    )
    learned = {name for name in vars(model) if name.endswith("_") and name[0] != "_"}
    for name in learned - {"privacy_spent_", "feature_map_", "geometry_"}:
        assert_array_equal(getattr(model, name), getattr(named, name))
    assert model.privacy_spent_.planned_event == named.privacy_spent_.planned_event
    return pickle.loads(pickle.dumps(model))


ROWS = np.random.default_rng(0).normal(size=(400, 5)) * [3, 1, 1, 1, 1]
FRAMES = (
    (pm.Sphere(5), 1, "sphere"),
    (pm.Grassmann(5, 2), 2, "grassmann"),
    (pm.Stiefel(5, 2), 2, "stiefel"),
    (pm.Grassmann(5, 1), 1, "grassmann"),
)


@pytest.mark.parametrize(("manifold", "k", "name"), FRAMES, ids=str)
def test_principal_components_are_points_of_pymanopts_manifold(manifold, k, name):
    pca = PrivatePrincipalEigenvector(k, 6.0, mechanism="gradient", n_steps=3, epsilon=5.0)
    model = same_fit(pca, (ROWS,), by_name={"manifold": name}, manifold=manifold)
    frame = model.components_.T.reshape(np.shape(manifold.random_point()))
    assert_allclose(manifold.retraction(frame, 0.0 * frame), frame, atol=1e-12)
    # Whatever the mechanism, the object says what is estimated.
    clone(pca).set_params(mechanism="auto", manifold=manifold).fit(ROWS)


@pytest.mark.parametrize("mechanism", ["auto", "gradient"])
@pytest.mark.parametrize(
    ("manifold", "k", "cure"),
    [
        (pm.Sphere(4), 1, r"pass Sphere\(5\)"),
        (pm.Sphere(5), 2, "pass n_components=1"),
        (pm.Grassmann(5, 3), 2, "pass n_components=3"),
        (Sphere(4, radius=2.0), 1, r"pass Sphere\(5\)"),
        (pm.SymmetricPositiveDefinite(5), 1, r"pass Sphere\(5\)"),
    ],
    ids=str,
)
def test_other_manifolds_hold_no_components(manifold, k, cure, mechanism, recording_accountant):
    pca = PrivatePrincipalEigenvector(
        k, mechanism=mechanism, manifold=manifold, accountant=recording_accountant
    )
    with pytest.raises(ValueError, match=cure):
        pca.fit(ROWS)
    assert recording_accountant.spends == []


@pytest.mark.parametrize("mechanism", ["parametric", "sufficient-statistics"])
def test_responses_are_points_of_pymanopts_ball(mechanism):
    ball = pm.PoincareBall(2)
    y = 0.3 * np.tanh(ROWS[:, :2])
    regressor = PrivateHyperbolicRegressor(mechanism, n_frequencies=4, epsilon=5.0)
    named = {"manifold": "poincare"}
    model = same_fit(regressor, (ROWS, y), by_name=named, manifold=ball)
    predicted = model.predict(ROWS[:5])
    assert predicted.shape == (5, *ball.random_point().shape)
    assert max(np.linalg.norm(predicted, axis=1)) < 1.0
    assert ball.dist(predicted[0], predicted[1]) > 0.0


def test_responses_are_points_of_our_hyperboloid():
    space = Hyperboloid(2, curvature=-4.0)
    y = np.asarray(space.exp_coordinates(space.base_point, 0.3 * np.tanh(ROWS[:, :2])))
    regressor = PrivateHyperbolicRegressor(n_frequencies=4, radius=3.0, epsilon=5.0)
    model = regressor.set_params(manifold=space).fit(ROWS, y)
    assert np.asarray(space.belongs(model.predict(ROWS[:5]))).all()
    assert model.geometry_.curvature == -4.0


@pytest.mark.parametrize(
    ("parameters", "cure"),
    [
        ({"manifold": pm.Sphere(2)}, "PrivateGeodesicRegressor"),
        ({"manifold": pm.PoincareBall(3)}, "y has 2 columns"),
    ],
    ids=["sphere", "dimension"],
)
def test_other_manifolds_hold_no_responses(parameters, cure, recording_accountant):
    model = PrivateHyperbolicRegressor(accountant=recording_accountant, **parameters)
    with pytest.raises(ValueError, match=cure):
        model.fit(ROWS, 0.1 * ROWS[:, :2] / 10.0)
    assert recording_accountant.spends == []


def test_the_subspace_of_ratings_is_a_point_of_pymanopts_grassmannian():
    rng = np.random.default_rng(1)
    ratings = np.clip(np.round(3.0 + 2.0 * rng.normal(size=(300, 1)) * np.resize([1, -1], 8)), 1, 5)
    completion = PrivateMatrixCompletion(signal_test="none", n_steps=3, epsilon=20.0)
    grassmannian = pm.Grassmann(8, 2)
    model = same_fit(completion, (ratings,), by_name={"rank": 2}, manifold=grassmannian)
    assert model.components_.T.shape == grassmannian.random_point().shape
    assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-12)
    for wrong, cure in (
        ({"manifold": pm.Grassmann(9, 2)}, r"Grassmann\(8, rank\)"),
        ({"manifold": pm.Stiefel(8, 2)}, r"Grassmann\(8, rank\)"),
        ({"manifold": pm.Grassmann(8, 2), "rank": 3}, "rank='auto'"),
    ):
        with pytest.raises(ValueError, match=cure):
            PrivateMatrixCompletion(**wrong).fit(ratings)


def test_linear_models_have_coefficients_in_pymanopts_euclidean_space():
    y = (ROWS[:, 0] > 0.0).astype(int)
    adagrad = PrivateNoisyAdaGrad(classes=[0, 1], epsilon=5.0)
    space = pm.Euclidean(5)
    model = same_fit(adagrad, (ROWS, y), manifold=space)
    assert space.dist(model.coef_[0], np.zeros(5)) > 0.0
    for wrong, cure in (
        (pm.Euclidean(4), r"pass Euclidean\(5\)"),
        (pm.Sphere(5), "not flat.*PrivateRiemannianERM"),
        (pm.PoincareBall(5), "not flat.*PrivateRiemannianERM"),
    ):
        with pytest.raises(ValueError, match=cure):
            clone(adagrad).set_params(manifold=wrong).fit(ROWS, y)


def test_points_of_foreign_manifolds_leave_numpys_generator_alone():
    np.random.seed(5)
    expected = np.random.random(20_000)
    drawn, ready, done = [], threading.Event(), threading.Event()

    def draw():
        ready.set()
        while not done.is_set() or len(drawn) < 100:
            drawn.append(np.random.random())

    np.random.seed(5)
    thread = threading.Thread(target=draw)
    thread.start()
    ready.wait()
    first = [PymanoptGeometry(pm.Oblique(3, 2)).base_point for _ in range(3)]
    done.set()
    thread.join()
    count = min(len(drawn), len(expected))
    np.testing.assert_array_equal(drawn[:count], expected[:count])
    np.testing.assert_array_equal(first[0], first[1])
    assert pm.oblique.np is np


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("euclidian", "euclidean"),
        ("spheres", "sphere"),
        ("spd-logeuclidean", "spd-log-euclidean"),
        ("riemann", "spd"),
        ("wasserstein", "spd-bures-wasserstein"),
        ("logeuclid", "spd-log-euclidean"),
    ],
)
def test_a_name_that_is_none_is_answered_by_the_one_that_is_meant(asked, meant):
    with pytest.raises(ValueError, match=f"Perhaps you mean '{meant}'"):
        as_geometry(asked, (3, 3))
    with pytest.raises(ValueError, match="nor a manifold object[.]$"):
        as_geometry("nothing like it", (3, 3))


@pytest.mark.parametrize("metric", ["affine-invariant", "log-euclidean", "bures-wasserstein"])
def test_metrics_of_pyriemann_are_told_ours(metric):
    theirs = SPD(3, metric=metric).pyriemann_metric
    with pytest.raises(ValueError, match=f"is metric='{metric}' here"):
        SPD(3, metric=theirs)


def test_several_manifolds_are_told_to_become_a_product():
    circles = [Circle(1.0), Circle(2.0)]
    with pytest.raises(TypeError, match=r"skriemdp.geometry.Product\(\*manifold\)"):
        as_geometry(circles)
    with pytest.raises(TypeError, match=r"as_geometry\(factor, point_shape\)"):
        Product("circle", "sphere")
    assert Product(as_geometry("circle", (1,)), as_geometry("sphere", (3,))).dim == 3
