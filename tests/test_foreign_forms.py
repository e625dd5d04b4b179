"""Foreign forms of points are refused with the line that mends them; each line is run here."""

import re

import numpy as np
import pytest
import scipy.spatial.transform

import skriemdp.geometry
from skriemdp import PrivacyAccountant, PrivateFrechetMean, PrivateMinimumDistanceToMean
from skriemdp._core.manifold_input import checked_points
from skriemdp.geometry import (
    SPD,
    Circle,
    Euclidean,
    Grassmann,
    Hyperboloid,
    PlanarShapes,
    Poincare,
    Product,
    Rotations,
    Sphere,
    Stiefel,
    from_compositions,
    from_lat_lon,
)
from skriemdp.geometry._base import Geometry
from skriemdp.geometry._foreign import _COMPLEX, _FORMS

pytestmark = pytest.mark.filterwarnings("ignore")

N = 60
RNG = np.random.default_rng(0)


def spread(geometry, scale=0.2):
    return np.asarray(
        geometry.exp_coordinates(
            geometry.base_point, scale * RNG.standard_normal((N, geometry.dim))
        )
    )


SIGNALS = RNG.normal(size=(N, 4, 12))
COVARIANCES = SIGNALS @ SIGNALS.swapaxes(1, 2) / 12
DEVIATIONS = np.sqrt(np.diagonal(COVARIANCES, axis1=1, axis2=2))
CORRELATIONS = COVARIANCES / (DEVIATIONS[:, :, None] * DEVIATIONS[:, None, :])
TURNS = spread(Rotations())
TURN = scipy.spatial.transform.Rotation.from_matrix(TURNS)
PLANES, FRAMES = spread(Grassmann(5, 2)), spread(Stiefel(5, 2))
FACES = spread(PlanarShapes(6))
NORTH, BALL, TREE = spread(Sphere(2)), spread(Poincare(2)), spread(Hyperboloid(2))
HOURS = RNG.uniform(0.0, 2.0, (N, 1))
SHARES = RNG.dirichlet([3.0, 2.0, 4.0], N)
LOWER, UPPER, STRICT = np.tril_indices(4), np.triu_indices(4), np.tril_indices(4, -1)
BOTH = Product(Euclidean(2), Sphere(2))


def hermitian(n=N, m=3, p=12):
    Z = RNG.normal(size=(n, m, p)) + 1j * RNG.normal(size=(n, m, p))
    return Z @ Z.conj().swapaxes(1, 2) / p


def coherence():
    C = hermitian()
    d = np.sqrt(np.diagonal(C.real, axis1=1, axis2=2))
    return C / (d[:, :, None] * d[:, None, :])


def edge(points):
    points = points.copy()
    points[5] = [1.0, 0.0]
    return points


def unitary():
    Z = RNG.normal(size=(N, 4, 1)) + 1j * RNG.normal(size=(N, 4, 1))
    return np.linalg.qr(Z)[0]


# (manifold, form as it is found in files, the line of the message, what it must give or None)
FORMS = {
    "matrices, records last": (
        "spd",
        np.moveaxis(COVARIANCES, 0, -1),
        "numpy.moveaxis(X, -1, 0)",
        COVARIANCES,
    ),
    "matrices, records last, of a geometry": (
        SPD(4),
        np.moveaxis(COVARIANCES, 0, -1),
        "numpy.moveaxis(X, -1, 0)",
        COVARIANCES,
    ),
    "matrices, another metric, last": (
        "spd-log-euclidean",
        np.moveaxis(COVARIANCES, 0, -1),
        "numpy.moveaxis(X, -1, 0)",
        COVARIANCES,
    ),
    "correlations, records last": (
        "correlation",
        np.moveaxis(CORRELATIONS, 0, -1),
        "numpy.moveaxis(X, -1, 0)",
        CORRELATIONS,
    ),
    "rotations, records last": (
        "rotations",
        np.moveaxis(TURNS, 0, -1),
        "numpy.moveaxis(X, -1, 0)",
        TURNS,
    ),
    "landmarks, records last": (
        "shapes",
        np.moveaxis(FACES, 0, -1),
        "numpy.moveaxis(X, -1, 0)",
        FACES,
    ),
    "subspaces, records last": (
        "grassmann",
        np.moveaxis(PLANES, 0, -1),
        "numpy.moveaxis(X, -1, 0)",
        PLANES,
    ),
    "frames, records last": (
        "stiefel",
        np.moveaxis(FRAMES, 0, -1),
        "numpy.moveaxis(X, -1, 0)",
        FRAMES,
    ),
    "directions, records last": ("sphere", NORTH.T, "X.T", NORTH),
    "ball, records last": ("poincare", np.tile(BALL, (4, 1)).T, "X.T", None),
    "tree, records last": ("hyperboloid", TREE.T, "X.T", TREE),
    "lower halves": (
        "spd",
        COVARIANCES[:, LOWER[0], LOWER[1]],
        "X[:, j * (j + 1) // 2 + k]",
        COVARIANCES,
    ),
    "upper halves": (
        "spd",
        COVARIANCES[:, UPPER[0], UPPER[1]],
        "X[:, k * (7 - k) // 2 + j]",
        COVARIANCES,
    ),
    "lower halves of a geometry": (
        SPD(4),
        COVARIANCES[:, LOWER[0], LOWER[1]],
        "X[:, j * (j + 1) // 2 + k]",
        COVARIANCES,
    ),
    "halves without ones": (
        "correlation",
        CORRELATIONS[:, STRICT[0], STRICT[1]],
        "numpy.where(j == k, 1.0, X[:, numpy.where(j == k, 0, j * (j - 1) // 2 + k)])",
        CORRELATIONS,
    ),
    "an axis at the end": ("spd", COVARIANCES[..., None], "X[..., 0]", COVARIANCES),
    "an axis in front": ("spd", COVARIANCES[:, None], "X[:, 0]", COVARIANCES),
    "directions with an axis": ("sphere", NORTH[..., None], "X[..., 0]", NORTH),
    "signals": ("spd", SIGNALS, "numpy.stack([numpy.cov(x) for x in X])", None),
    "signals for correlations": (
        "correlation",
        SIGNALS,
        "numpy.stack([numpy.corrcoef(x) for x in X])",
        None,
    ),
    "bands": (
        "spd",
        np.stack([COVARIANCES] * 3, axis=1),
        "skriemdp.geometry.Product(*[skriemdp.geometry.SPD(4)] * 3, stacked=True)",
        None,
    ),
    "triangular factors": (
        "spd",
        np.linalg.cholesky(COVARIANCES),
        "X @ X.swapaxes(1, 2)",
        COVARIANCES,
    ),
    "rounded matrices": (
        "spd",
        COVARIANCES + 1e-5 * np.triu(np.ones((4, 4))),
        "(X + X.swapaxes(1, 2)) / 2",
        None,
    ),
    "covariances for correlations": (
        "correlation",
        COVARIANCES,
        "X / (d[:, :, None] * d[:, None, :])",
        CORRELATIONS,
    ),
    "singular correlations": (
        "correlation",
        np.ones((N, 3, 3)),
        "0.99 * X + 0.01 * numpy.eye(X.shape[1])",
        None,
    ),
    "Hermitian": ("spd", hermitian(), "numpy.block([[X.real, -X.imag], [X.imag, X.real]])", None),
    "coherence": (
        "correlation",
        coherence(),
        "numpy.block([[X.real, -X.imag], [X.imag, X.real]])",
        None,
    ),
    "complex lines": (
        "grassmann",
        unitary(),
        "numpy.block([[X.real, -X.imag], [X.imag, X.real]])",
        None,
    ),
    "complex numbers for angles": ("circle", np.exp(1j * HOURS), "numpy.angle(X)", HOURS),
    "complex landmarks": (
        "shapes",
        FACES[..., 0] + 1j * FACES[..., 1],
        "numpy.stack([X.real, X.imag], axis=-1)",
        FACES,
    ),
    "complex directions": (
        "sphere",
        np.exp(1j * HOURS),
        "numpy.concatenate([X.real, X.imag], axis=-1)",
        None,
    ),
    "the complex disk": (
        "poincare",
        BALL[:, :1] + 1j * BALL[:, 1:],
        "numpy.concatenate([X.real, X.imag], axis=-1)",
        BALL,
    ),
    "complex vectors": (
        "euclidean",
        BALL + 1j,
        "numpy.concatenate([X.real, X.imag], axis=-1)",
        None,
    ),
    "flat rotations": ("rotations", TURNS.reshape(N, 9), "X.reshape(-1, 3, 3)", TURNS),
    "quaternions": (
        "rotations",
        TURN.as_quat(),
        "scipy.spatial.transform.Rotation.from_quat(X).as_matrix()",
        TURNS,
    ),
    "rotation vectors": (
        "rotations",
        TURN.as_rotvec(),
        "scipy.spatial.transform.Rotation.from_rotvec(X).as_matrix()",
        TURNS,
    ),
    "Euler angles": (
        "rotations",
        TURN.as_euler("xyz"),
        "scipy.spatial.transform.Rotation.from_euler('xyz', X).as_matrix()",
        TURNS,
    ),
    "poses": ("rotations", np.pad(TURNS, ((0, 0), (0, 1), (0, 1))), "X[:, :3, :3]", TURNS),
    "rounded rotations": (
        "rotations",
        TURNS.round(4),
        "scipy.spatial.transform.Rotation.from_matrix(X).as_matrix()",
        None,
    ),
    "turns of the plane": (
        "rotations",
        np.stack(
            [
                np.stack([np.cos(HOURS), -np.sin(HOURS)], 2),
                np.stack([np.sin(HOURS), np.cos(HOURS)], 2),
            ],
            1,
        )[:, :, 0],
        "numpy.arctan2(X[:, 1, 0], X[:, 0, 0])[:, None]",
        HOURS,
    ),
    "landmarks transposed": ("shapes", FACES.swapaxes(1, 2), "X.swapaxes(1, 2)", FACES),
    "flat landmarks": ("shapes", FACES.reshape(N, 12), "X.reshape(len(X), -1, 2)", FACES),
    "landmarks in one place": (
        "shapes",
        np.r_[FACES[:-1], np.ones((1, 6, 2))],
        "numpy.where((X == X[:, :1]).all(axis=(1, 2), keepdims=True), public_shape, X)",
        None,
    ),
    "projectors": (
        "grassmann",
        PLANES @ PLANES.swapaxes(1, 2),
        "numpy.linalg.eigh(X)[1][..., -p:]",
        None,
    ),
    "subspaces transposed": ("grassmann", PLANES.swapaxes(1, 2), "X.swapaxes(1, 2)", PLANES),
    "frames transposed": ("stiefel", FRAMES.swapaxes(1, 2), "X.swapaxes(1, 2)", FRAMES),
    "lines": (
        "grassmann",
        3.0 * NORTH,
        "(X / numpy.linalg.norm(X, axis=1, keepdims=True))[:, :, None]",
        None,
    ),
    "any basis": ("grassmann", 2.0 * PLANES, "numpy.linalg.qr(X)[0]", None),
    "any columns": ("stiefel", FRAMES + 0.01, "numpy.linalg.qr(X)[0]", None),
    "square frames": ("stiefel", TURNS, "manifold='rotations'", TURNS),
    "vectors of any length": (
        "sphere",
        7.0 * NORTH,
        "X / numpy.linalg.norm(X, axis=1, keepdims=True)",
        NORTH,
    ),
    "shares": (
        "sphere",
        SHARES,
        "skriemdp.geometry.from_compositions(X)",
        from_compositions(SHARES),
    ),
    "places": (
        "sphere",
        np.c_[48.0 + HOURS, 16.0 + HOURS],
        "skriemdp.geometry.from_lat_lon(lat, lon)",
        from_lat_lon(48.0 + HOURS[:, 0], 16.0 + HOURS[:, 0]),
    ),
    "angles for directions": ("sphere", HOURS, "manifold='circle'", HOURS),
    "cosine and sine": (
        "circle",
        np.c_[np.cos(HOURS), np.sin(HOURS)],
        "numpy.arctan2(X[:, 1], X[:, 0])[:, None]",
        HOURS,
    ),
    "several angles": (
        "circle",
        np.repeat(HOURS, 3, axis=1),
        "skriemdp.geometry.Product(*[skriemdp.geometry.Circle(2 * numpy.pi)] * X.shape[1])",
        None,
    ),
    "degrees": ("circle", np.rad2deg(HOURS), "numpy.deg2rad(X)", HOURS),
    "degrees, kept": (
        "circle",
        np.rad2deg(HOURS),
        "manifold=skriemdp.geometry.Circle(360.0)",
        None,
    ),
    "minutes of a day": (Circle(24.0), 60.0 * HOURS, "numpy.mod(X, 24.0)", None),
    "angles that wind": ("circle", HOURS + 20 * np.pi, "numpy.mod(X, 6.283185307179586)", HOURS),
    "degrees in a product": (
        Product(Euclidean(1), Circle(2 * np.pi)),
        np.rad2deg(np.c_[HOURS, HOURS]),
        "numpy.deg2rad(X)",
        None,
    ),
    "time last": ("hyperboloid", np.roll(TREE, -1, axis=1), "numpy.roll(X, 1, axis=1)", TREE),
    "a rounded tree": (
        "hyperboloid",
        TREE.round(3),
        "numpy.c_[numpy.sqrt(1 + (X[:, 1:] ** 2).sum(axis=1)), X[:, 1:]]",
        None,
    ),
    "ball for a tree": ("hyperboloid", BALL, "manifold='poincare'", BALL),
    "a point on the edge": (
        "poincare",
        edge(BALL),
        "X * numpy.minimum(1, (1 - 1e-6) / numpy.linalg.norm(X, axis=1, keepdims=True).clip(1e-9))",
        None,
    ),
    "a point on the edge in single precision": (
        "poincare",
        edge(BALL).astype(np.float32),
        "X * numpy.minimum(1, (1 - 1e-6) / numpy.linalg.norm(X, axis=1, keepdims=True).clip(1e-9))",
        None,
    ),
    "tree for the ball": ("poincare", TREE, "X[:, 1:] / (1 + X[:, :1])", None),
    "a list of parts": (BOTH, [HOURS @ [[1.0, 2.0]], NORTH], "manifold.join(*X)", None),
}
ABOUT = {
    "halves": "i = numpy.arange(4); j, k = numpy.maximum.outer(i, i), numpy.minimum.outer(i, i)",
    "covariances for": "d = numpy.sqrt(numpy.diagonal(X, axis1=1, axis2=2))",
    "landmarks in": "public_shape = numpy.arange(12.0).reshape(6, 2) ** 2",
    "projectors": "p = 2",
    "places": "lat, lon = X.T",
}


def refusal(manifold, X):
    with PrivacyAccountant() as budget:
        with pytest.raises(ValueError) as caught:
            PrivateFrechetMean(manifold).fit(X)
        assert not budget.history
    return str(caught.value)


def mended(case, manifold, X, line):
    """The manifold and the points, after the advice."""
    known = {"numpy": np, "scipy": scipy, "skriemdp": skriemdp, "X": X, "manifold": manifold}
    for words, before in ABOUT.items():
        if words in case:
            exec(before, known)  # what the message says before the line, in these words or as code
    names = line.removeprefix("manifold=")
    if names != line or names.startswith("skriemdp.geometry.Product"):
        return eval(names, known), X
    made = eval(line, known)
    if "manifold='circle' takes" in refusal(manifold, X):
        return "circle", made
    return manifold, made


@pytest.mark.parametrize("case", FORMS)
def test_a_foreign_form_is_refused_with_a_line_that_mends_it(case):
    manifold, X, line, expected = FORMS[case]
    said = refusal(manifold, X)
    assert line in said, said
    assert "smaller radius" not in said and len(said) < 700
    kind, points = mended(case, manifold, X, line)
    geometry, found = checked_points(np.asarray(points, dtype=float), kind)
    assert np.isfinite(PrivateFrechetMean(kind).fit(points).mean_).all()
    if expected is not None:
        assert np.max(np.abs(geometry.dist(found, expected))) < 1e-5


def is_a_geometry(kind):
    return isinstance(kind, type) and issubclass(kind, Geometry)


def test_every_line_of_the_tables_is_run():
    lines = [line for _, _, line, _ in FORMS.values()]
    spaces = [getattr(skriemdp.geometry, name) for name in skriemdp.geometry.__all__]
    remedies = {kind.remedy for kind in spaces if is_a_geometry(kind)}
    remedies -= {Geometry.remedy}
    told = [form.cure for form in _FORMS if isinstance(form.cure, str)]
    for cure in (*told, *_COMPLEX.values(), *remedies):
        if "have no geometry here" not in cure and "look at each part" not in cure:
            assert any(line in cure for line in lines), cure
    for form in _FORMS:
        if not isinstance(form.cure, str):
            shape = next(s for s in ((N, 10), (N, 6), (N, 3, 4, 4)) if form.fits(s))
            assert any(line in form.cure(shape) for line in lines)


def test_the_same_is_said_of_rows_that_are_asked_about_and_of_classes():
    model = PrivateFrechetMean("spd", center=np.eye(4), radius=3.0).fit(COVARIANCES)
    with pytest.raises(ValueError, match=re.escape("numpy.moveaxis(X, -1, 0)")):
        model.transform(np.moveaxis(COVARIANCES, 0, -1))
    with pytest.raises(ValueError, match=re.escape("numpy.block")):
        model.transform(COVARIANCES + 0j)
    y = np.arange(N) % 2
    with pytest.raises(ValueError, match=re.escape("numpy.deg2rad(X)")):
        PrivateMinimumDistanceToMean("circle", classes=[0, 1]).fit(np.rad2deg(HOURS), y)
    with pytest.raises(ValueError, match="halves of 4 x 4"):
        PrivateMinimumDistanceToMean("spd", classes=[0, 1]).fit(
            COVARIANCES[:, LOWER[0], LOWER[1]], y
        )


@pytest.mark.parametrize("center", [[180.0], [-400.0], [720.0], [7.0]])
def test_a_public_place_in_another_unit_is_refused(center):
    with pytest.raises(ValueError, match="center are more than one turn"):
        PrivateFrechetMean("circle", center=center, radius=1.0).fit(HOURS)


@pytest.mark.parametrize(
    ("manifold", "center", "line", "rows"),
    [
        ("sphere", [2.0, 0.0, 0.0], "X / numpy.linalg.norm(X, axis=1, keepdims=True)", NORTH),
        (
            "rotations",
            1.2 * np.eye(3),
            "scipy.spatial.transform.Rotation.from_matrix(X).as_matrix()",
            TURNS,
        ),
        ("correlation", 2.0 * np.eye(4), "X / (d[:, :, None] * d[:, None, :])", CORRELATIONS),
        (Stiefel(5, 2), 2.0 * np.eye(5, 2), "numpy.linalg.qr(X)[0]", FRAMES),
        ("spd", np.ones((4, 4)), "it is not positive definite", COVARIANCES),
        ("spd", np.triu(np.ones((4, 4))), "it is not symmetric", COVARIANCES),
    ],
)
def test_a_public_place_that_is_no_point_is_told_what_mends_it(manifold, center, line, rows):
    mean = PrivateFrechetMean(manifold, center=center, radius=1.0)
    with pytest.raises(ValueError, match="center is not a point of") as caught:
        mean.fit(rows)
    assert line in str(caught.value)
    if "it is not" not in line:
        X = np.array([center])
        known = {"numpy": np, "scipy": scipy, "X": X}
        known["d"] = np.sqrt(np.diagonal(X, axis1=1, axis2=2)) if X.ndim == 3 else None
        assert mean.set_params(center=eval(line, known)[0]).fit(rows).radius_ == 1.0
