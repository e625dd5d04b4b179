"""The geometries under test and random points on them; one that joins the list meets every law."""

from __future__ import annotations

import collections
import contextlib
import datetime
import io
import logging
import math
import os
import shutil
import tempfile
import types
import uuid
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from skriemdp.geometry import (
    AffineInvariantSPD,
    BuresWassersteinSPD,
    Circle,
    Correlation,
    Euclidean,
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
)

# A ledger that no test names lies in memory where a file system does: a disk takes ten milliseconds
# for each charge.  What a test names, below `tmp_path`, stays on the disk.
_MEMORY = "/dev/shm"
if os.access(_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_MEMORY).free > 2**26:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    tempfile.tempdir = _MEMORY


@pytest.hookimpl(tryfirst=True)  # before those that are slow are left out
def pytest_collection_modifyitems(items):
    seen = collections.Counter()
    for item in items:
        marker = item.get_closest_marker("mostly_slow")
        if marker is not None:
            if seen[item.function] % marker.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[item.function] += 1


def _mixed(k, row):
    """Of four types; that of numbers is another one in every row of a person."""
    number = (int(k), float(k), np.int64(k), Fraction(int(k)), np.longdouble(k), Decimal(int(k)))
    return (number[row % 6], f"person {k}", ("person", number[row % 6]), frozenset({k}))[k % 4]


def _day(k):
    return datetime.datetime(1950, 1, 1) + datetime.timedelta(days=int(k))


def _structured(people):
    records = np.empty(
        len(people), dtype=[("site", "U3"), ("at", [("k", float), ("day", "M8[D]")])]
    )
    records["site"] = [f"s{k % 3}" for k in people]
    records["at"]["k"], records["at"]["day"] = people / 8, np.datetime64("1950") + people
    return records


# A column of ids of people 0, 1, ..., with new objects in every row.
ID_KINDS = {
    "integers": lambda people: people + 2**60,
    "fractions": lambda people: (people - 5) / 8,
    "complex": lambda people: (people // 3) + 1j * (people % 3),
    "text": lambda people: np.array([f"person {k}" for k in people]),
    "bytes": lambda people: [b"p" + bytes(int(k)) for k in people],  # zeros at the end
    "dates": lambda people: np.datetime64("1950-01-01T00", "ns") + people.astype("m8[h]"),
    "tuples": lambda people: [(f"site {k % 3}", float(k), _day(k)) for k in people],
    "nested": lambda people: [((int(k), ("a", (float(k),))), _day(k).date()) for k in people],
    "frozensets": lambda people: [
        frozenset([k // 6, f"s{k % 6}"] if i % 2 else [f"s{k % 6}", k // 6])
        for i, k in enumerate(people.tolist())
    ],
    "structured": _structured,
    "mixed": lambda people: [_mixed(k, row) for row, k in enumerate(people.tolist())],
    "uuids": lambda people: [uuid.UUID(int=3**70 * int(k)) for k in people],
}

GEOMETRIES = [
    Euclidean(3),
    Euclidean(2, 2),
    Sphere(1),
    Sphere(2),
    Sphere(6, radius=2.0),
    Hyperboloid(1),
    Hyperboloid(2),
    Hyperboloid(5, curvature=-0.5),
    AffineInvariantSPD(1),
    AffineInvariantSPD(2),
    AffineInvariantSPD(4),
    LogEuclideanSPD(1),
    LogEuclideanSPD(2),
    LogEuclideanSPD(4),
    BuresWassersteinSPD(1),
    BuresWassersteinSPD(2),
    BuresWassersteinSPD(3),
    Poincare(1),
    Poincare(2),
    Poincare(4, curvature=-0.5),
    Circle(2 * math.pi),
    Circle(24.0),
    Grassmann(2, 1),
    Grassmann(4, 1),
    Grassmann(5, 2),
    Grassmann(4, 3),
    Stiefel(3, 1),
    Stiefel(3, 2),
    Stiefel(5, 2),
    Correlation(2),
    Correlation(4),
    Rotations(),
    Rotations(2.0),
    PlanarShapes(3),
    PlanarShapes(6),
    Product(Circle(1.0), Sphere(2), AffineInvariantSPD(2)),
    Product(Hyperboloid(2), Grassmann(3, 1)),
    Product(AffineInvariantSPD(2), AffineInvariantSPD(2), stacked=True),
]

# Geometries whose operations stop at an accuracy of their own: (geometry class, operation) -> atol.
ACCURACY = {
    (BuresWassersteinSPD, "transport"): 1e-6,
    (PymanoptGeometry, "log"): 1e-6,  # pymanopt takes arccosines of numbers near one
}

_OPERATIONS = (
    "dist",
    "log",
    "exp",
    "inner_product",
    "norm",
    "projection",
    "euclidean_to_riemannian_gradient",
)
# The same manifold in pymanopt: module, class, arguments, and the operations that mean the same
# there (its transports are projections or do nothing, not parallel transport).
PYMANOPT_TWINS = {
    Euclidean(3): ("pymanopt.manifolds", "Euclidean", (3,), (*_OPERATIONS, "transport")),
    Sphere(4): ("pymanopt.manifolds", "Sphere", (5,), _OPERATIONS),
    AffineInvariantSPD(3): ("pymanopt.manifolds", "SymmetricPositiveDefinite", (3,), _OPERATIONS),
    # Whose tangent vectors there are skew matrices.
    Rotations(math.sqrt(2.0)): ("pymanopt.manifolds", "SpecialOrthogonalGroup", (3,), ("dist",)),
}


def accuracy(geometry, operation, default=1e-8):
    return ACCURACY.get((type(geometry), operation), default)


def reach(geometry):
    """Radius around the base point within which pairs of points have unique short geodesics."""
    if geometry.is_hadamard:
        return 2.0
    if geometry.injectivity_radius > 0:
        return 0.4 * min(geometry.injectivity_radius, 10.0)
    return 0.4  # not complete, but exp is a bijection on the unit ball at the base point


def points_from(geometry, coordinates):
    """Points within `reach` of the base point, from arrays of numbers in [-1, 1], (..., dim)."""
    scale = reach(geometry) / math.sqrt(geometry.dim)
    return geometry.exp_coordinates(geometry.base_point, coordinates * scale)


def same_point(geometry, x):
    """An array that is a continuous function of the point, however it is represented."""
    if isinstance(geometry, Grassmann):
        return x @ np.swapaxes(x, -1, -2)
    if isinstance(geometry, PlanarShapes):
        turned = np.stack([-x[..., 1], x[..., 0]], axis=-1)
        flat = np.stack([x, turned], axis=-1).reshape(*x.shape[:-2], -1, 2)
        return flat @ np.swapaxes(flat, -1, -2)
    if isinstance(geometry, Circle):
        return geometry.length * np.exp(2j * math.pi / geometry.length * x)
    if isinstance(geometry, Product):
        parts = zip(geometry.factors, geometry.split(x), strict=True)
        return np.concatenate([same_point(factor, part).ravel() for factor, part in parts])
    return x


def random_points(geometry, rng, *batch):
    return points_from(geometry, rng.uniform(-1, 1, size=(*batch, geometry.dim)))


def random_tangents(geometry, rng, point, length=1.0):
    """One tangent vector at each of `point`, of norm at most `length`."""
    batch = point.shape[: point.ndim - geometry.point_ndim]
    coordinates = rng.uniform(-1, 1, size=(*batch, geometry.dim)) / math.sqrt(geometry.dim)
    return geometry.tangent_from_coordinates(point, length * coordinates)


@pytest.fixture(params=GEOMETRIES, ids=str)
def geometry(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(20240607)


class RecordingAccountant:
    """Stands in for an accountant: remembers what it was charged, or refuses everything."""

    def __init__(self):
        self.spends = []
        self.refuse = False

    def __sklearn_clone__(self):
        return self

    def composes(self, epsilon, delta):
        return False

    def spend(self, event, **details):
        if self.refuse:
            raise RuntimeError("refused")
        self.spends.append(event)
        return types.SimpleNamespace(entry=len(self.spends), digest="", dataset="")


@pytest.fixture
def recording_accountant():
    return RecordingAccountant()


def shown_by(call):
    """The texts that a call makes anywhere, and the error that ended it.

    Warnings and what is printed or logged; of the error, and of those that it came from, whatever
    a traceback would print or a program could ask for.
    """
    streams, texts, error = io.StringIO(), [], None
    handler = logging.StreamHandler(streams)
    logging.getLogger().addHandler(handler)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(streams),
            contextlib.redirect_stderr(streams),
        ):
            warnings.simplefilter("always")
            try:
                call()
            except Exception as problem:
                error = problem
    finally:
        logging.getLogger().removeHandler(handler)
    texts += [str(warning.message) for warning in caught] + [streams.getvalue()]
    seen, waiting = [], [error]
    while waiting:
        link = waiting.pop()
        if link is None or any(link is other for other in seen):
            continue
        seen.append(link)
        waiting += [link.__cause__, link.__context__, *getattr(link, "exceptions", ())]
        texts += [str(link), repr(link), *map(str, vars(link).values())]
        texts += [str(getattr(link, name, "")) for name in ("args", "name", "path", "filename")]
    return [text for text in texts if text], error


def weaker_scale(scale, times):
    """Scales of noise times a number; those of exact integers stay multiples of 64."""
    if isinstance(scale, tuple):
        return tuple(weaker_scale(part, times) for part in scale)
    return 64 * round(times * scale / 64) if isinstance(scale, int) else times * scale


@pytest.fixture
def in_dp_accounting():
    """Our loss distributions as dp_accounting has them, to be composed with its own."""
    own = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    from dp_accounting.pld.pld_pmf import DensePLDPmf

    def converted(loss):
        pmf = DensePLDPmf(loss.interval, int(loss.lower), loss.masses, float(loss.infinity), True)
        return own.PrivacyLossDistribution(pmf)

    return converted
