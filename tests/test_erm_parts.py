"""Points of several arrays, and of copies, as pymanopt writes them: in every backend, or told."""

import importlib.util

import numpy as np
import pymanopt.manifolds as pm
import pytest

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateMinimumDistanceToMean,
    PrivateRiemannianERM,
)
from skriemdp.geometry import Circle, Euclidean, Product, PymanoptGeometry, Sphere, as_geometry
from skriemdp.pymanopt_optimizers import PerSampleProblem, PrivateGradientDescent

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
LEFT = np.linalg.qr(RNG.normal(size=(4, 2)))[0]
RIGHT = np.linalg.qr(RNG.normal(size=(3, 2)))[0]
TARGET = LEFT * [2.0, 1.0] @ RIGHT.T
MATRICES = TARGET + 0.1 * RNG.normal(size=(60, 4, 3))
PLACES = RNG.normal(size=(60, 2)) * 0.2 + [1.0, -1.0]
NORTH = RNG.normal(size=(60, 3)) * 0.2 + [0.0, 0.0, 1.0]
NORTH /= np.linalg.norm(NORTH, axis=1, keepdims=True)
PAIRS = np.c_[PLACES, NORTH]

FIXED_RANK = pm.FixedRankEmbedded(4, 3, 2)
PRODUCT = pm.Product([pm.Euclidean(2), pm.Sphere(3)])
SETTINGS = {"clip_norm": 4.0, "n_steps": 15, "step_size": 0.4, "epsilon": 200.0, "retraction": True}


def start_of_rank():
    u, s, vt = np.linalg.svd(TARGET + 0.3, full_matrices=False)
    return [u[:, :2], s[:2], vt[:2]]


def rank_cost(point, x, y):
    u, s, vt = point
    return 0.5 * (((u * s) @ vt - x) ** 2).sum()


def rank_gradient(point, X, y):
    u, s, vt = point
    gap = (u * s) @ vt - X
    return [
        (gap @ vt.T) * s,
        np.einsum("ik,nij,kj->nk", u, gap, vt),
        s[:, None] * np.einsum("ik,nij->nkj", u, gap),
    ]


def pair_cost(point, x, y):
    place, direction = point
    return ((place - x[:2]) ** 2).sum() + ((direction - x[2:]) ** 2).sum()


def pair_gradient(point, X, y):
    place, direction = point
    return [2 * (place - X[:, :2]), 2 * (direction - X[:, 2:])]


PROBLEMS = {
    "fixed rank": (FIXED_RANK, MATRICES, start_of_rank, rank_cost, rank_gradient),
    "product": (
        PRODUCT,
        PAIRS,
        lambda: [np.zeros(2), np.array([0.6, 0.0, 0.8])],
        pair_cost,
        pair_gradient,
    ),
}


def is_near(name, parts):
    if name == "fixed rank":
        u, s, vt = parts
        return np.abs((u * s) @ vt - TARGET).max() < 0.2
    place, direction = parts
    mean = NORTH.mean(axis=0)
    near = np.abs(place - PLACES.mean(axis=0)).max() < 0.1
    return near and np.abs(direction - mean / np.linalg.norm(mean)).max() < 0.1


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("backend", ["numpy", "autograd", "torch", "jax"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_points_of_several_arrays_run_in_every_backend(name, backend):
    if backend != "numpy" and importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    manifold, X, start, cost, gradient = PROBLEMS[name]
    function = {"euclidean_gradient": gradient} if backend == "numpy" else {"cost": cost}
    model = PrivateRiemannianERM(
        manifold, **function, backend=backend, start=start(), random_state=0, **SETTINGS
    ).fit(X)
    parts = model.geometry_.as_parts(model.point_)
    assert isinstance(parts, tuple) and is_near(name, parts)
    if backend != "numpy":
        assert np.isfinite(model.score(X[:20]))


@pytest.mark.parametrize("name", PROBLEMS)
def test_all_backends_see_the_same_gradients(name):
    manifold, X, start, cost, gradient = PROBLEMS[name]
    results = [
        PrivateRiemannianERM(
            manifold, **function, start=start(), random_state=0, **(SETTINGS | {"n_steps": 2})
        )
        .fit(X)
        .point_
        for function in (
            {"euclidean_gradient": gradient},
            {"cost": cost, "backend": "autograd"},
            {"cost": cost, "backend": "jax"},
        )
    ]
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], atol=1e-3)


@pytest.mark.parametrize("name", PROBLEMS)
def test_optimizers_take_and_give_them_too(name):
    manifold, X, start, cost, gradient = PROBLEMS[name]
    optimizer = PrivateGradientDescent(
        200.0, 1e-5, clip_norm=4.0, step_size=0.4, max_iterations=15, retraction=True, verbosity=0
    )
    for problem in (
        PerSampleProblem(manifold, None, X, euclidean_gradient=gradient),
        PerSampleProblem(manifold, cost, X),
    ):
        assert is_near(name, optimizer.run(problem, initial_point=start()).point)


def test_riemannian_gradients_have_the_arrays_of_tangent_vectors():
    manifold, X, start, _, gradient = PROBLEMS["fixed rank"]

    def tangent(point, X, y):
        vectors = [
            manifold.euclidean_to_riemannian_gradient(point, [part[i] for part in rows])
            for rows in [gradient(point, X, y)]
            for i in range(len(X))
        ]
        return [np.stack(part) for part in zip(*vectors, strict=True)]

    settings = SETTINGS | {"n_steps": 3, "start": start(), "random_state": 0}
    ours = PrivateRiemannianERM(manifold, gradient=tangent, **settings).fit(X[:20])
    same = PrivateRiemannianERM(manifold, euclidean_gradient=gradient, **settings).fit(X[:20])
    np.testing.assert_allclose(ours.point_, same.point_, atol=1e-8)


@pytest.mark.parametrize(
    "manifold, start",
    [
        (PRODUCT, [np.zeros(2), np.array([0.0, 0.0, 1.0])]),
        (PRODUCT, np.r_[0.0, 0.0, 0.0, 0.0, 1.0]),
        (Product(Euclidean(2), Sphere(2)), [np.zeros(2), np.array([0.0, 0.0, 1.0])]),
        (Product(Euclidean(2), Sphere(2)), (np.zeros(2), [0.0, 0.0, 1.0])),
        (
            Product(Product(Euclidean(2)), Sphere(2)),
            [[np.zeros(2)], [0.0, 0.0, 1.0]],
        ),
    ],
    ids=["list", "flat", "ours", "tuple", "nested"],
)
def test_products_of_any_make_are_written_alike(manifold, start):
    def gradient(point, X, y):
        place, direction = point
        nested = isinstance(place, tuple)
        place = place[0] if nested else place
        first = 2 * (place - X[:, :2])
        return [[first] if nested else first, 2 * (direction - X[:, 2:])]

    settings = SETTINGS | {"n_steps": 2}
    model = PrivateRiemannianERM(manifold, euclidean_gradient=gradient, start=start, **settings)
    assert model.fit(PAIRS).point_.shape == (5,)


# Functions that take a point of several arrays for one, or give something else for it.
STRANGE = {
    "flat": lambda point, X, y: [point[:2] - X[:, :2], point[2:] - X[:, 2:]],
    "one array": lambda point, X, y: point - X,
    "three": lambda point, X, y: [point[0] - X[:, :2], point[1] - X[:, 2:], X],
    "exchanged": lambda point, X, y: [point[1] - X[:, 2:], point[0] - X[:, :2]],
    "one record": lambda point, X, y: [point[0] - X[0, :2], point[1] - X[0, 2:]],
    "unpacked in three": lambda point, X, y: (lambda a, b, c: [a, b])(*point),
    "too few columns": lambda point, X, y: np.zeros((len(X), 4)),
}


@pytest.mark.parametrize("case", STRANGE)
def test_a_function_that_takes_them_wrongly_is_told_how(case):
    model = PrivateRiemannianERM(PRODUCT, euclidean_gradient=STRANGE[case], n_steps=2)
    with PrivacyAccountant() as budget, pytest.raises((TypeError, ValueError)) as caught:
        model.fit(PAIRS)
    assert not budget.history
    said = str(caught.value)
    assert "of shapes (2,), (3,)" in said and "a, b = point" in said and "inhomogeneous" not in said


def test_a_cost_that_takes_them_wrongly_is_told_how():
    def cost(point, x, y):
        return ((point - x) ** 2).sum()

    with pytest.raises(TypeError, match="a, b = point, and give the cost of one record"):
        PrivateRiemannianERM(PRODUCT, cost, backend="autograd").fit(PAIRS)


# -- copies ---------------------------------------------------------------------------------------


def spd(*shape):
    A = RNG.normal(size=(300, *shape, 9))
    return A @ A.swapaxes(-1, -2) / 9


COPIES = {
    "matrices": (
        pm.SymmetricPositiveDefinite(2, k=2),
        lambda: spd(2, 2),
        np.stack([np.eye(2)] * 2),
    ),
    "three matrices": (
        pm.SymmetricPositiveDefinite(3, k=3),
        lambda: spd(3, 3),
        np.stack([np.eye(3)] * 3),
    ),
    "balls": (
        pm.PoincareBall(3, k=2),
        lambda: 0.2 * RNG.uniform(-1, 1, (300, 2, 3)),
        np.zeros((2, 3)),
    ),
    "subspaces": (
        pm.Grassmann(4, 1, k=2),
        lambda: np.linalg.qr(np.eye(4, 1) + 0.1 * RNG.normal(size=(300, 2, 4, 1)))[0],
        np.stack([np.eye(4, 1)] * 2),
    ),
    "frames": (
        pm.Stiefel(4, 2, k=2),
        lambda: (
            np.linalg.qr(np.eye(4, 2) + 0.1 * RNG.normal(size=(300, 2, 4, 2)))[0]
            * np.array([-1.0, -1.0])
        ),
        np.stack([np.eye(4, 2)] * 2),
    ),
    "rotations": (
        pm.SpecialOrthogonalGroup(3, k=2),
        lambda: np.asarray(
            as_geometry("rotations", (3, 3)).exp_coordinates(
                np.eye(3), 0.2 * RNG.normal(size=(300, 2, 3))
            )
        ),
        np.stack([np.eye(3)] * 2),
    ),
}


@pytest.mark.parametrize("case", COPIES)
def test_copies_keep_their_axis(case):
    manifold, make, start = COPIES[case]
    X = make()
    seen = []

    def gradient(point, X, y):
        seen.append(point.shape)
        return 2 * (point - X)

    erm = PrivateRiemannianERM(
        manifold, euclidean_gradient=gradient, n_steps=3, start=start, epsilon=3.0
    ).fit(X)
    assert erm.point_.shape == start.shape and set(seen) == {start.shape}
    assert as_geometry(manifold).shape == start.shape
    if case != "frames":
        mean = PrivateFrechetMean(manifold, epsilon=3.0).fit(X)
        assert mean.mean_.shape == start.shape and mean.transform(X[:3]).shape[0] == 3
        y = np.arange(300) % 2
        classes = PrivateMinimumDistanceToMean(manifold, classes=[0, 1], epsilon=3.0).fit(X, y)
        assert classes.means_.shape == (2, *start.shape)


# -- manifolds whose curvature nobody knows -------------------------------------------------------

SQUARE = np.linalg.qr(np.eye(3) + 0.1 * RNG.normal(size=(60, 3, 3)))[0]
SQUARE *= np.sign(SQUARE[:, [0, 1, 2], [0, 1, 2]])[:, None]
FACTORS = np.eye(4, 2) + 0.1 * RNG.normal(size=(60, 4, 2))
AXIS = np.linalg.qr(np.eye(4, 2))[0]


def on_subsphere():
    X = RNG.normal(size=(60, 4)) * [0.2, 0.2, 0.0, 0.0] + [1.0, 0.0, 0.0, 0.0]
    return X / np.linalg.norm(X, axis=1, keepdims=True)


UNKNOWN = {
    "square frames": (pm.Stiefel(3, 3), SQUARE),
    "factors": (pm.PSDFixedRank(4, 2), FACTORS),
    "a sphere in a subspace": (pm.SphereSubspaceIntersection(AXIS), on_subsphere()),
    "a product with one": (
        pm.Product([pm.Euclidean(2), pm.Stiefel(3, 3)]),
        np.c_[PLACES, SQUARE.reshape(-1, 9)],
    ),
    "an adapter": (PymanoptGeometry(pm.Oblique(3, 2)), NORTH[:, :, None] * np.ones(2)),
}


@pytest.mark.mostly_slow(2)
@pytest.mark.parametrize("case", UNKNOWN)
def test_an_unknown_curvature_is_refused_with_what_works(case):
    manifold, X = UNKNOWN[case]
    center = as_geometry(manifold).base_point
    for fit in (
        lambda: PrivateFrechetMean(manifold).fit(X),
        lambda: PrivateFrechetMean(manifold, statistic="median").fit(X),
        lambda: PrivateFrechetMean(manifold, center=center, radius=0.4).fit(X),
        lambda: PrivateMinimumDistanceToMean(manifold, classes=[0, 1]).fit(X, np.arange(60) % 2),
    ):
        with PrivacyAccountant() as budget, pytest.raises(ValueError) as caught:
            fit()
        said = str(caught.value)
        assert "nothing bounds the curvature" in said and not budget.history
        assert "smaller radius" not in said and "PrivateRiemannianERM" in said

    def gradient(point, X, y):
        if isinstance(point, tuple):
            return [point[0] - X[:, :2], point[1] - X[:, 2:].reshape(-1, 3, 3)]
        return point - X

    model = PrivateRiemannianERM(manifold, euclidean_gradient=gradient, n_steps=3).fit(X)
    assert np.isfinite(model.point_).all()
    if "curvature_bounds" in said:
        known = PymanoptGeometry(
            getattr(manifold, "manifold", manifold),
            curvature_bounds=(0.0, 1.0),
            injectivity_radius=np.pi,
        )
        assert np.isfinite(PrivateFrechetMean(known).fit(X).mean_).all()
    if "manifold='rotations'" in said:
        assert np.isfinite(PrivateFrechetMean("rotations").fit(X).mean_).all()


@pytest.mark.parametrize(
    "geometry, row", [(Sphere(2), 3), (Circle(24.0), 1), (Sphere(1), 2)], ids=str
)
def test_a_radius_that_is_too_wide_is_told_one_that_is_not(geometry, row):
    X = np.tile(geometry.base_point, (60, 1))
    with pytest.raises(ValueError, match="pass a smaller radius, such as") as caught:
        PrivateFrechetMean(geometry, radius=90.0).fit(X)
    radius = float(str(caught.value).split("such as ")[1].split(". ")[0])
    assert PrivateFrechetMean(geometry, radius=radius).fit(X).mean_.shape == (row,)
