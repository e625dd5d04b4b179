"""Neighbouring data sets built to move each release as far as its theorem allows."""

from __future__ import annotations

import contextlib
import functools
import math
import tempfile
from unittest import mock

import numpy as np
from conftest import ID_KINDS
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from replay.tape import Pair, Refuted, Tape, check_composition
from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateGridSearchCV,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    PrivateTangentClassifier,
    PrivateTangentPCA,
)
from skriemdp._curator.curator import Curator
from skriemdp._curator.openings import Gaussian, Pure
from skriemdp._curator.sets import ball as ball_set
from skriemdp._curator.tables import Memory
from skriemdp._gives.points import LogAt
from skriemdp._groups import read_ids
from skriemdp._location_scale.points import PointRecords, plan_point_search
from skriemdp._location_scale.row_releases import COUNT_SHARE
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._mechanisms.counts import GaussianCount
from skriemdp._random import NoiseStreams
from skriemdp._selection.estimator import _Prepaid
from skriemdp.datasets import from_frame
from skriemdp.federated import (
    AggregatorLoop,
    FederatedEstimator,
    InProcessTransport,
    sums_agent,
)
from skriemdp.federated import (
    _planning as planning,
)
from skriemdp.federated._agent import Agent
from skriemdp.federated._messages import LocalTask
from skriemdp.federated._round_releases import RoundBudget, UpdateRelease
from skriemdp.federated._training import LocalSettings
from skriemdp.geometry import (
    AffineInvariantSPD,
    BuresWassersteinSPD,
    Circle,
    Correlation,
    Euclidean,
    GeodesicBall,
    Grassmann,
    Hyperboloid,
    LogEuclideanSPD,
    PlanarShapes,
    Poincare,
    Product,
    Rotations,
    Sphere,
    Stiefel,
)
from skriemdp.geometry._base import Geometry
from skriemdp.preprocessing import PerGroup
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import GaussianEvent, SelectionEvent
from skriemdp.privacy._lattice import share_scale

PAIRS: list[Pair] = []


def pair(name, fit, data, other, attains=0.0, **facts):
    """Add a pair; data are tuples of arrays, or one array."""
    data, other = (d if isinstance(d, tuple) else (d,) for d in (data, other))
    PAIRS.append(Pair(name, fit, data, other, attains, **facts))


def fitted(kind, *arguments, **settings):
    """``fit(accountant, *data)`` of an estimator; about the base point."""
    spaces = [value for value in (*arguments, *settings.values()) if isinstance(value, Geometry)]
    if spaces and isinstance(settings.get("radius"), float):
        settings = {"center": spaces[0].base_point} | settings

    def fit(accountant, *data):
        return kind(*arguments, **settings, accountant=accountant).fit(*data)

    return fit


def _lost(geometry, unspent, n=120, epsilon=3.0):
    """A check of the charge of a default mean whose search leaves this share of ``mu**2``."""
    total = gaussian_mu(epsilon, PrivateFrechetMean().delta)
    shares = plan_point_search(geometry, n, total).shares
    before = COUNT_SHARE + shares.total  # and the count of clipped records
    return functools.partial(Tape.check_charge, unspent=unspent(shares) / before)


def changed(X, *values, at=0):
    """Copies of X with other records at one place."""
    copies = [np.array(X, dtype=float) for _ in values]
    for copy, value in zip(copies, values, strict=True):
        copy[at] = value
    return copies


def along(geometry, steps, center=None):
    """Points on one geodesic through the centre, at these signed distances."""
    center = geometry.base_point if center is None else center
    steps = np.asarray(steps, dtype=float)
    coordinates = np.zeros((len(steps), geometry.dim))
    coordinates[:, 0] = steps
    return np.asarray(geometry.exp_coordinates(center, coordinates))


# -- means ----------------------------------------------------------------------------------------

N = 24
GEOMETRIES = {
    "euclidean": (Euclidean(2), 1.0),
    "sphere": (Sphere(2), 0.4),
    "hyperboloid": (Hyperboloid(2), 1.5),
    "poincare": (Poincare(2), 1.5),
    "spd": (AffineInvariantSPD(2), 1.5),
    "log-euclidean": (LogEuclideanSPD(2), 1.5),
    "bures": (BuresWassersteinSPD(2), 0.4),
    "grassmann": (Grassmann(3, 1), 0.3),
    "stiefel": (Stiefel(3, 2), 0.2),
    "correlation": (Correlation(3), 1.5),
    "rotations": (Rotations(), 0.6),
    "shapes": (PlanarShapes(4), 0.3),
}


def opposite(geometry, radius, n=N, rest=0.0, beyond=1.0):
    """One record moves from one end of the ball to the other; the rest stay put."""
    steps = np.full(n, rest)
    steps[0] = radius * beyond
    first = along(geometry, steps)
    steps[0] = -radius
    return first, along(geometry, steps)


def filled(geometry, radius, n=N):
    """As :func:`opposite`, with the other records near the rim of the ball, more at one end."""
    steps = 0.95 * radius * np.where(np.arange(n) % 3, 1.0, -1.0)
    return changed(along(geometry, steps), *along(geometry, [radius, -radius]))


def means():
    for name, (geometry, radius) in GEOMETRIES.items():
        here = {"manifold": geometry, "radius": radius}
        least = 0.8 if name not in ("bures", "stiefel") else 0.4
        for mechanism in ("tangent", "gradient"):
            fit = fitted(PrivateFrechetMean, mechanism=mechanism, noise="gaussian", **here)
            pair(f"mean {mechanism} {name}", fit, *opposite(geometry, radius), attains=least)
        for noise_law in ("gaussian", "laplace"):
            # Enough of a budget to look first; the mean in the small ball, and in the public one.
            fit = fitted(PrivateFrechetMean, noise=noise_law, epsilon=20.0, **here)
            narrow = opposite(geometry, radius)
            pair(f"mean adaptive {noise_law} {name}", fit, *narrow, attains=0.9 * least)
            wide = filled(geometry, radius)
            # Radii are asked of counts that records at both ends of the ball do not change.
            pair(f"mean adaptive {noise_law} wide {name}", fit, *wide, attains=0.55 * least)
    plane, space = Euclidean(2), Hyperboloid(2)
    for law, delta in (("laplace", 1e-5), ("laplace", 0.0)):
        fit = fitted(
            PrivateFrechetMean, space, radius=1.0, mechanism="tangent", noise=law, delta=delta
        )
        pair(f"mean {law} {delta}", fit, *opposite(space, 1.0), attains=0.9)
    # A record leaves the ball: the count of those outside moves as well.
    data = opposite(space, 1.0, rest=0.2, beyond=3.0)
    pair("mean laplace 0.0 outside", fit, *data, attains=0.5)
    for mechanism, delta in (("gaussian", 1e-5), ("laplace", 1e-5), ("laplace", 0.0)):
        fit = fitted(PrivateFrechetMean, space, radius=1.0, mechanism=mechanism, delta=delta)
        data = opposite(space, 1.0)
        pair(f"mean output {mechanism} {delta}", fit, *data, attains=0.9, geometry=space)
    fit = fitted(
        PrivateFrechetMean, AffineInvariantSPD(2), mechanism="laplace", delta=0.0, radius=1.0
    )
    data = opposite(AffineInvariantSPD(2), 1.0, n=80)
    pair("mean output laplace spd", fit, *data, attains=0.9, geometry=AffineInvariantSPD(2))
    fit = fitted(PrivateFrechetMean, space, mechanism="k-norm", delta=0.0, radius=1.0)
    data = opposite(space, 1.0, n=80)
    pair("mean k-norm", fit, *data, attains=0.8, geometry=space)
    globe = Sphere(2)
    for radius in (math.pi / 4, 1.2):
        for mechanism, delta in (("gaussian", 1e-5), ("laplace", 0.0), ("k-norm", 0.0)):
            fit = fitted(PrivateFrechetMean, globe, radius=radius, mechanism=mechanism, delta=delta)
            data = opposite(globe, radius, n=120)
            name = f"mean {mechanism} sphere {radius:.2f}"
            least = 0.5 if mechanism == "k-norm" else 0.05
            pair(name, fit, *data, attains=least, geometry=globe)
    for geometry, name, mechanism in (
        (plane, "euclidean", "tangent"),
        (plane, "euclidean", "gradient"),
        (plane, "euclidean", "auto"),
        (space, "hyperboloid", "gradient"),
    ):
        settings = {"mechanism": mechanism, "epsilon": 20.0, "noise": "gaussian"}
        fit = fitted(PrivateFrechetMean, geometry, radius=1.0, **settings)
        pair(f"mean integers {mechanism} {name}", fit, *opposite(geometry, 1.0), attains=0.7)
        # Noisy answers, and a record beyond the ball.
        data = opposite(geometry, 1.0, rest=0.2, beyond=3.0)
        pair(f"mean integers {mechanism} {name} noisy", fit, *data, quiet=False)
    # One look, for want of more budget.
    box = Euclidean(10)
    fit = fitted(PrivateFrechetMean, box, epsilon=1.0, radius=1.0)
    pair("mean adaptive one look", fit, *opposite(box, 1.0, n=150), attains=0.8)
    for center, radius in (("private", "private"), (None, "private"), ("private", 1.0)):
        for quiet in (True, False):
            found = {"center": center, "radius": radius, "mechanism": "gradient"}
            data = opposite(space, 4.0, rest=0.3, n=40)
            kind = f"mean center {center} radius {radius} quiet {quiet}"
            fit = fitted(PrivateFrechetMean, space, **found)
            pair(kind, fit, *data, quiet=quiet, attains=0.5 if quiet else 0.0)
    # With nothing given: a search, and a mean whose Laplace law is fixed before it.
    for name, (geometry, radius) in GEOMETRIES.items():
        fit = fitted(PrivateFrechetMean, geometry, epsilon=3.0)
        data = opposite(geometry, radius, n=120, rest=0.1 * radius)
        pair(f"mean found {name}", fit, *data, attains=0.9)
    # Of few matrices nothing but the start: a record crosses every unit that is asked about.
    units = np.exp(np.linspace(-1.0, 1.0, 30))[:, None, None] * np.eye(2)
    data = changed(units, 1e-30 * np.eye(2), 1e30 * np.eye(2))
    pair("mean start alone", fitted(PrivateFrechetMean, "spd", center=None), *data, attains=0.1)
    data = along(Sphere(2), np.linspace(-2.6, 2.6, 120))
    fit = fitted(PrivateFrechetMean, Sphere(2), epsilon=3.0)
    neighbours = changed(data, *along(Sphere(2), [2.9, -2.9]))
    pair("mean of wide directions", fit, *neighbours, attains=0.2)
    data = changed(along(space, np.linspace(-1.5, 1.5, 120)), *along(space, [9.0, -9.0]))
    fit = fitted(PrivateFrechetMean, space, epsilon=3.0)
    # What a search does not need is lost to a Laplace mean.
    lost = _lost(space, lambda s: s.move)  # one mean of two
    pair("mean found at once", fit, *data, attains=0.5, charge=lost)
    # One step where the ball that was found is small, an iterated mean where it is not.
    near = {"noise": "gaussian", "epsilon": 3.0}
    for name, there, far in (
        ("hyperboloid", space, 0.4),
        ("hyperboloid wide", space, 2.5),
        ("spd", AffineInvariantSPD(3), 0.4),
        ("product", Product(space, AffineInvariantSPD(2)), 0.4),
    ):
        data = along(there, far * np.where(np.arange(120) % 2, 1.0, -1.0))
        data = changed(data, *along(there, [9.0, -9.0]))
        fit = fitted(PrivateFrechetMean, there, **near, center="private")
        pair(f"mean found curved {name}", fit, *data, attains=0.8)
    # A record crosses the distance that a search asks about: its counts move.
    spread = along(space, np.linspace(0.05, 2.0, 60))
    data = changed(spread, *along(space, [1e-9, 290.0]))
    fit = fitted(PrivateFrechetMean, space, radius="private", mechanism="tangent")
    pair("mean counts of a radius", fit, *data, attains=0.05)
    fit = fitted(PrivateFrechetMean, space, radius=3.0, epsilon=20.0, noise="gaussian")
    pair("mean counts of an adaptive radius", fit, *changed(spread, *along(space, [0, 2.9])))
    fit = fitted(PrivateFrechetMean, space, center="private", radius="private")
    pair("mean counts of a zoom", fit, *changed(spread, *along(space, [1e-9, 290.0])))
    # Means that are iterated, in positive and in negative curvature.
    iterated = {"mechanism": "tangent", "noise": "gaussian", "epsilon": 30.0}
    fit = fitted(PrivateFrechetMean, Sphere(2), radius=0.4, **iterated)
    pair("mean iterated sphere", fit, *opposite(Sphere(2), 0.4, n=60), attains=0.7)
    fit = fitted(PrivateFrechetMean, space, radius=2.0, **iterated)
    pair("mean iterated hyperboloid", fit, *opposite(space, 2.0, n=60), attains=0.8)
    fit = fitted(PrivateFrechetMean, space, radius="private", mechanism="gradient")
    pair("mean exact counts of a radius", fit, *data, attains=0.05)
    # Descent that starts away from the centre, more steps, clipped logarithms.
    start = along(space, [0.9])[0]
    settings = {"mechanism": "gradient", "n_steps": 3, "clip_norm": 0.7, "start": start}
    fit = fitted(PrivateFrechetMean, space, radius=1.0, **settings)
    pair("mean clipped descent", fit, *opposite(space, 1.0), attains=0.4)
    pair("mean clipped descent, noisy", fit, *opposite(space, 1.0, rest=0.5), quiet=False)
    fit = fitted(PrivateFrechetMean, Sphere(2), radius=0.4, mechanism="gradient", n_steps=4)
    pair("mean descent sphere noisy", fit, *opposite(Sphere(2), 0.4, rest=0.1), quiet=False)
    # Extreme norms, repeated records, single precision.
    flat = np.full((N, 2), 0.25)
    fit = fitted(PrivateFrechetMean, "euclidean", mechanism="gradient", radius=1.0)
    for small, large in ((1e-120, -1e200), (1e200, -1e200), (0.0, 1e150)):
        pair(f"mean norms {small} {large}", fit, *changed(flat, [small, 0], [large, 0]))
    data = [d.astype(np.float32) for d in opposite(plane, 1.0)]
    pair("mean single precision", fit, *data, attains=0.8)
    same = np.tile([0.6, 0.8], (N, 1))
    fit = fitted(PrivateFrechetMean, "euclidean", epsilon=20.0, radius=1.0)
    pair("mean of one repeated record", fit, *changed(same, [0.6, 0.8], [-0.6, -0.8]), attains=0.2)
    for name, (geometry, radius) in GEOMETRIES.items():
        if geometry.point_ndim == 2 and name in ("spd", "bures", "log-euclidean"):
            points = np.array(opposite(geometry, radius)[0])
            near, far = np.diag([1e-3, 1.0]), np.diag([1e150, 1e-150])
            fit = fitted(PrivateFrechetMean, geometry, radius=radius, mechanism="gradient")
            pair(f"mean {name} of an extreme matrix", fit, *changed(points, near, far))


def medians():
    """Geometric medians: a record at the far end, at the cut locus, and where the iterate is."""
    kind = functools.partial(fitted, PrivateFrechetMean, statistic="median", epsilon=3.0)
    for name, (geometry, radius) in GEOMETRIES.items():
        if name == "bures":  # no bound of the curvature, no median
            continue
        data = opposite(geometry, radius, n=120, rest=0.1 * radius)
        pair(f"median {name}", kind(geometry), *data, attains=0.6)
    space, globe = Hyperboloid(2), Sphere(2)
    cloud, far = along(space, np.linspace(-1.5, 1.5, 120)), along(space, [290.0, -290.0, 0.0])
    pair("median of a far end", kind(space), *changed(cloud, *far[:2]), attains=0.6)
    pair("median of a far end and the start", kind(space), *changed(cloud, *far[1:]), attains=0.3)
    # The start lies among records that are all alike, and one of them leaves.
    same = np.tile(along(space, [0.4]), (120, 1, 1))[:, 0]
    fit = kind(space, center=same[0])
    pair("median of duplicates", fit, *changed(same, same[0], far[0]), attains=0.3)
    ends = along(globe, [math.pi, -0.5 * math.pi])
    fit = kind(globe, center=globe.base_point)
    data = changed(along(globe, np.linspace(-0.5, 0.5, 120)), *ends)
    pair("median of the cut locus", fit, *data, attains=0.6)
    # Records as far as the smoothing, on opposite sides, move second derivatives most.
    fit = kind(Euclidean(2), center=np.zeros(2), radius=1.0, epsilon=0.5)
    across = np.zeros((120, 2))
    across[:, 1] = np.where(np.arange(120) % 2, 1.0, -1.0)
    pair("median one step", fit, *changed(across, [0.55, 0.0], [-0.55, 0.0]), attains=0.8)
    rows = np.repeat(np.arange(60), 2)
    whole, both = changed(cloud, *far[:2], at=slice(0, 2))

    def owned(accountant, X):
        settings = {"uncertainty": True, "epsilon": 3.0, "accountant": accountant}
        return PrivateFrechetMean(space, statistic="median", **settings).fit(X, groups=rows)

    pair("median of people", owned, whole, both, attains=0.6)


def class_means():
    plane = Euclidean(2)
    y = np.arange(N) % 3
    for name, (geometry, radius) in GEOMETRIES.items():
        one, two = opposite(geometry, radius)
        settings = {"radius": radius, "classes": range(3)}
        fit = fitted(PrivateMinimumDistanceToMean, geometry, **settings)
        pair(f"class means {name}", fit, (one, y), (two, y), attains=0.95)
        other = y.copy()
        other[0] = 1
        fit = fitted(PrivateMinimumDistanceToMean, geometry, **settings)
        pair(f"class means, other label {name}", fit, (one, y), (two, other), attains=0.95)
    one, two = opposite(plane, 1.0)
    fit = fitted(PrivateMinimumDistanceToMean, plane, radius=1.0, classes=range(3), delta=0.0)
    other = np.where(np.arange(N) == 0, 1, y)
    pair("class means pure", fit, (one, y), (two, other), attains=0.95)
    far, away = opposite(plane, 3.0)
    pair("class means pure, cut", fit, (far, y), (away, y), attains=0.95)
    one, two = opposite(plane, 1.0, beyond=1e9)
    fit = fitted(PrivateMinimumDistanceToMean, plane, radius=1.0, classes=range(3))
    pair("class means noisy", fit, (one, y), (two, y), attains=0.95, quiet=False)
    for geometry in (AffineInvariantSPD(2), Sphere(2), Stiefel(3, 2)):
        one, two = opposite(geometry, 0.6, rest=0.2, beyond=2.0)
        for quiet in (True, False):
            name = f"class means in a private ball {geometry} {quiet}"
            fit = fitted(PrivateMinimumDistanceToMean, geometry, classes=range(3), epsilon=20.0)
            pair(name, fit, (one, y), (two, y), quiet=quiet)

    # Enough of a budget for a vote: every way labels a record right, and then none does.  For a
    # second moment beside the sums there are too many classes.
    few = {"classes": range(3), "epsilon": 60.0}
    many = {"classes": range(20)}
    for name, (geometry, radius) in GEOMETRIES.items():
        data, people = _voters(geometry, radius)
        settings = {"radius": radius, "epsilon": 60.0} | many
        fit = fitted(PrivateMinimumDistanceToMean, geometry, **settings)
        pair(f"class means vote {name}", fit, *data, attains=0.985)
        pair(f"class means vote people {name}", fit, *people, attains=0.985)
    data, people = _voters(Hyperboloid(2), 1.5, n=90)
    fit = fitted(PrivateMinimumDistanceToMean, Hyperboloid(2), epsilon=10.0, **many)
    for quiet in (True, False):
        pair(f"class means vote in a private ball {quiet}", fit, *data, quiet=quiet, attains=0.65)
        pair(f"class means vote in a private ball people {quiet}", fit, *people, quiet=quiet)

    # Fewer classes: a record at right angles to what it was moves sums, second moment and vote.
    for name, (geometry, radius) in GEOMETRIES.items():
        fit = fitted(PrivateMinimumDistanceToMean, geometry, radius=radius, **few)
        pair(f"class means linear {name}", fit, *_turned(geometry, radius), attains=0.985)
    data = _turned(plane, 1.0, beyond=50.0)
    fit = fitted(PrivateMinimumDistanceToMean, plane, radius=1.0, **few)
    pair("class means linear noisy", fit, *data, attains=0.985, quiet=False)
    fit = fitted(PrivateMinimumDistanceToMean, Hyperboloid(2), classes=range(3), epsilon=10.0)
    data = _turned(Hyperboloid(2), 1.5, n=90)
    for quiet in (True, False):
        pair(f"class means linear in a private ball {quiet}", fit, *data, quiet=quiet, attains=0.5)

    # A record crosses the distances that a search asks about: its counts move.
    space = Hyperboloid(2)
    data = changed(along(space, np.linspace(0.05, 2.0, 60)), *along(space, [1e-9, 200.0]))
    y = np.arange(60) % 3
    fit = fitted(PrivateMinimumDistanceToMean, space, classes=range(3), epsilon=5.0)
    pair("class means counts of a private ball", fit, *((x, y) for x in data))
    _class_moments(data, y)


def _voters(geometry, radius, n=N):
    """Two classes at the ends of a ball; a record moves to the other end and to a third class.

    The same of people, the first of whom has 40 rows and then a single one.
    """
    y = (np.arange(n) % 5) // 3  # the first class is the largest
    one, two = changed(
        along(geometry, radius * np.where(y, -0.95, 0.95)), *along(geometry, [radius, -radius])
    )
    other = np.where(np.arange(n) == 0, 2, y)
    rows = [np.r_[np.zeros(first, int), np.repeat(np.arange(1, n), 2)] for first in (ROWS, 1)]
    people = (
        (points[ids], labels[ids], ids)
        for points, labels, ids in zip((one, two), (y, other), rows, strict=True)
    )
    return ((one, y), (two, other)), tuple(people)


def _turned(geometry, radius, n=N, beyond=1.0):
    """The same, but for a record that moves to a point at right angles to where it was.

    That point is in the second class, which nothing puts there.
    """
    ((one, y), (two, other)), _ = _voters(geometry, radius, n)
    other[0] = 1
    coordinates = np.zeros((2, geometry.dim))
    coordinates[0, 0] = coordinates[1, 1] = beyond * radius
    one[0], two[0] = geometry.exp_coordinates(geometry.base_point, coordinates)
    return (one, y), (two, other)


def _class_moments(spread, y):
    """Class means with their second moments: a record changes its class, its end, or both."""
    region = functools.partial(
        fitted, PrivateMinimumDistanceToMean, uncertainty=True, classes=range(3)
    )
    of_class = np.arange(N) % 3
    other = np.where(np.arange(N) == 0, 1, of_class)
    for name, (geometry, radius) in GEOMETRIES.items():
        one, two = opposite(geometry, radius)
        fit = region(manifold=geometry, radius=radius)
        slow = name == "stiefel"
        pair(f"class moments {name}", fit, (one, of_class), (two, of_class), 0.9, slow=slow)
        both = (one, of_class), (two, other)
        pair(f"class moments, other label {name}", fit, *both, attains=0.9, slow=slow)
    space = Hyperboloid(2)
    one, two = opposite(space, 1.5, beyond=7.0)
    fit = region(manifold=space, radius=1.5)
    for name, label in (("", of_class), (", other label", other)):
        neighbours = (one, of_class), (two, label)
        pair(f"class moments beyond{name}", fit, *neighbours, attains=0.9)
    pair("class moments noisy", fit, *neighbours, attains=0.9, quiet=False)
    pair("class moments linear", region(radius=1.5, manifold=space, epsilon=60.0), *neighbours)
    far = [(x, np.where(np.arange(60) == 0, k, y)) for k, x in enumerate(spread)]
    pair("class moments in a private ball", region(manifold=space, epsilon=5.0), *far)


# -- people who own several records ---------------------------------------------------------------

ROWS = 40


def owned(points, first, label=None):
    """Rows, labels and ids: person 0 has `first` rows, the others one to three, all mixed.

    Person 0 shows the classes in turn, or `label` alone.
    """
    sizes = 1 + np.arange(len(points)) % 3
    sizes[0] = first
    ids = np.repeat(np.arange(len(points)), sizes)
    y = np.arange(len(ids)) % 3
    if label is not None:
        y[ids == 0] = label
    # Everybody else's classes are their own.
    y[ids > 0] = (np.arange(len(ids)) - first)[ids > 0] % 3
    order = np.random.default_rng(first).permutation(len(ids))
    return points[ids][order], y[order], ids[order]


def exchanged(points, other, label=None):
    """Person 0 has 40 rows like ``points[0]``, or else one row like ``other[0]``."""
    return owned(points, ROWS), owned(other, 1, label)


def without_labels(data):
    return tuple((X, None, ids) for X, _, ids in data)


def people():
    kind = PrivateMinimumDistanceToMean
    for name, (geometry, radius) in GEOMETRIES.items():
        data = exchanged(*opposite(geometry, radius, rest=0.3 * radius), label=1)
        fit = fitted(kind, geometry, radius=radius, classes=range(3))
        pair(f"people class means {name}", fit, *data, attains=0.95)
    one, two = opposite(Euclidean(2), 1.0, rest=0.3, beyond=50.0)
    data = owned(one, ROWS), owned(two, ROWS)
    fit = fitted(kind, "euclidean", radius=1.0, classes=range(3))
    pair("people class means beyond", fit, *data, attains=0.95)
    space = Hyperboloid(2)
    data = exchanged(*opposite(space, 4.0, rest=0.3, n=60), label=1)
    for quiet in (True, False):
        fit = fitted(kind, space, classes=range(3), epsilon=5.0)
        title = f"people class means in a private ball {quiet}"
        pair(title, fit, *data, quiet=quiet, attains=0.5 if quiet else 0.0)
    # Three classes far off, and then one near: the person crosses the radii that are asked about.
    data = changed(along(space, np.linspace(0.05, 2.0, 60)), *along(space, [200.0, 1e-9]))
    data = owned(data[0], ROWS), owned(data[1], 1, 1)
    for center in (None, space.base_point):
        fit = fitted(kind, space, center=center, classes=range(3), epsilon=5.0)
        title = f"people class means counts of a private ball, center {center is not None}"
        pair(title, fit, *data, attains=0.2)
    for name, (geometry, radius) in GEOMETRIES.items():
        data = without_labels(exchanged(*opposite(geometry, radius, rest=0.3 * radius)))
        least = 0.8 if name not in ("bures", "stiefel") else 0.4
        for mechanism in ("tangent", "gradient"):
            settings = {"mechanism": mechanism, "noise": "gaussian", "radius": radius}
            fit = fitted(PrivateFrechetMean, geometry, **settings)
            pair(f"people mean {mechanism} {name}", fit, *data, attains=least)
        data = without_labels(exchanged(*opposite(geometry, radius, n=120, rest=0.1 * radius)))
        fit = fitted(PrivateFrechetMean, geometry, epsilon=3.0)
        pair(f"people mean found {name}", fit, *data, attains=0.85)
        settings = {"radius": min(radius, 1.0), "center": geometry.base_point}
        data = without_labels(exchanged(*opposite(geometry, settings["radius"], rest=0.2)))
        fit = fitted(PrivateFrechetMean, geometry, uncertainty=True, **settings)
        pair(f"people mean with its moment {name}", fit, *data, attains=0.4)
    data = without_labels(exchanged(*opposite(space, 1.0, rest=0.2)))
    fit = fitted(PrivateFrechetMean, space, radius=1.0, delta=0.0)
    pair("people mean pure", fit, *data, attains=0.5)
    fit = fitted(PrivateFrechetMean, space, radius=1.0, epsilon=20.0)
    pair("people mean adaptive", fit, *data, attains=0.7)
    fit = fitted(PrivateTangentPCA, 2, space, radius=1.0)
    pair("people tangent components", fit, *data, attains=0.4)
    pair("people mean adaptive noisy", fit, *data, quiet=False)
    _ids_of_people()
    _risks_of_people()
    _components_of_people()
    _linear_models_of_people()
    _regressions_of_people()
    _searches_of_people()


def _ids_of_people():
    data = without_labels(exchanged(*opposite(Euclidean(2), 1.0, rest=0.2)))
    for kind, named in ID_KINDS.items():

        def fit(accountant, X, y, people, named=named):
            settings = {"mechanism": "tangent", "noise": "gaussian", "radius": 1.0}
            model = PrivateFrechetMean("euclidean", accountant=accountant, **settings)
            return model.fit(X, groups=named(people))

        pair(f"people ids {kind}", fit, *data, attains=0.8)


def persons(points, first, targets=None, at=0):
    """Rows, targets and ids: person `at` has `first` rows, the others one to three, all mixed."""
    sizes = 1 + np.arange(len(points)) % 3
    sizes[at] = first
    ids = np.random.default_rng(first).permutation(np.repeat(np.arange(len(points)), sizes))
    return points[ids], None if targets is None else targets[ids], ids


def replaced(points, *values, targets=(None, None), at=0):
    """Person `at` has 40 rows like the first of `values`, or else one row like the second."""
    one, two = changed(points, *values, at=at)
    return persons(one, ROWS, targets[0], at), persons(two, 1, targets[1], at)


def _stored(data):
    return [(sparse.csr_array(X), y, ids) for X, y, ids in data]


def _components_of_people():
    d, n = 3, 40
    zeros, rng = np.zeros((n, d)), np.random.default_rng(0)
    cloud = rng.normal(size=(n, d)) * [1.0, 0.5, 0.2]
    orthogonal = replaced(zeros, [3.0, 0, 0], [0, 1.0, 0])
    known = {"row_norm": 1.0, "center": "assume"}
    pca = functools.partial(fitted, PrivatePrincipalEigenvector)
    fit = pca(mechanism="covariance", **known)
    pair("people pca covariance", fit, *orthogonal, attains=0.95)
    pair("people pca sparse", fit, *_stored(orthogonal), attains=0.95)
    pair("people pca pure", pca(mechanism="covariance", delta=0.0, **known), *orthogonal)
    # A person whose rows go all ways: pure privacy counts the trace.
    spread = orthogonal[0][0].copy()
    own = orthogonal[0][2] == 0
    spread[own] = 30.0 * np.eye(d)[np.arange(own.sum()) % d]
    around = (spread, None, orthogonal[0][2]), replaced(zeros, [0, 0, 0], [0, 0, 0])[1]
    pair("people pca pure spread", pca(delta=0.0, **known), *around, attains=0.5)
    fit = pca(mechanism="power", n_steps=1, **known)
    for quiet in (True, False):
        pair(f"people pca trace {quiet}", fit, *around, quiet=quiet)
    frame = replaced(zeros, [1.0, 0, 0], [0, 1.0, 0])
    ends = replaced(np.tile([1.0, 0, 0], (n, 1)), [1.0, 0, 0], [0, 1.0, 0])
    for k in (1, 2):
        fit = pca(k, mechanism="refine", **known)
        pair(f"people pca refine {k}", fit, *frame, attains=0.25)
        pair(f"people pca refine {k}, two matrices", fit, *ends, attains=0.95)
        fit = pca(k, mechanism="power", n_steps=2, **known)
        pair(f"people pca power {k}", fit, *frame)
        pair(f"people pca power {k} noisy", fit, *ends, quiet=False)
    # A direction that stands out of little noise, and holds little of the bound: one product.
    ends = replaced(np.tile([0.1, 0, 0], (n, 1)), [1.0, 0, 0], [0, 1.0, 0])
    fit = pca(mechanism="refine", epsilon=100.0, **known)
    pair("people pca refine, one product", fit, *ends, attains=0.4)
    for manifold, k in (("sphere", 1), ("stiefel", 2), ("grassmann", 2), ("ambient", 1)):
        w = _start_frame(d, k)[:, 0]
        across = np.linalg.svd(np.column_stack([w, _start_frame(d, k)]))[0][:, -1]
        data = replaced(zeros, (w + across) / math.sqrt(2), (w - across) / math.sqrt(2))
        settings = {"manifold": manifold, "n_steps": 3}
        fit = pca(k, mechanism="gradient", **settings, **known)
        pair(f"people pca gradient {manifold}", fit, *data, attains=0.2)
    pair("people pca gradient noisy", fit, *data, quiet=False)
    # Differences of pairs of people, and found centres and norms.
    far = replaced(cloud + [50.0, 0, 0], [1e9, 0, 0], [-1e9, 0, 0])
    ends = replaced(cloud, [1e9, 0, 0], [0, 1e9, 0])
    extreme = replaced(cloud, [0, 0, 1e-120], [0, 1e200, 0])
    fit = pca(epsilon=1.5)
    pair("people pca pairs", fit, *ends, attains=0.8)
    pair("people pca pairs noisy", fit, *ends, quiet=False)
    for mechanism in ("covariance", "power", "gradient"):
        fit = pca(mechanism=mechanism)
        pair(f"people pca {mechanism} private centre", fit, *far)
        pair(f"people pca {mechanism} extremes", fit, *extreme, quiet=False)
    pair("people pca pure private centre", pca(delta=0.0), *far)


def _linear_models_of_people():
    n, p = 30, 2
    X, y = np.zeros((n, p)), np.zeros(n)
    X[:, 1] = 0.3
    targets = changed(y, 1.0, -1.0)
    data = replaced(X, [1.0, 0], [1.0, 0], targets=targets)
    known = {"feature_norm": 1.0, "target_range": (-1.0, 1.0)}
    adagrad = functools.partial(fitted, PrivateNoisyAdaGrad, "squared_error", **known)
    for name in ("noised", "norm"):
        fit = adagrad(name, n_steps=4, fit_intercept=False)
        pair(f"people adagrad {name}", fit, *data, attains=0.9)
    fit = adagrad(n_steps=6, batch_size=10)
    pair("people adagrad sampled", fit, *data, attains=0.3)
    pair("people adagrad sampled noisy", fit, *data, quiet=False)
    fit = adagrad(n_steps=3, subspace=_turning_axis)
    pair("people adagrad subspace", fit, *data)
    pair("people adagrad paper", adagrad("paper", n_steps=4), *data, attains=0.5)
    pair("people adagrad paper noisy", adagrad("paper", n_steps=4), *data, quiet=False)
    fit = adagrad(n_steps=3)
    pair("people adagrad sparse", fit, *_stored(data), attains=0.5)
    wild = replaced(X, [1e200, 1e200], [1e-120, 0], targets=(y, 1e200 * targets[0]))
    pair("people adagrad extremes", fit, *wild)
    labels = (np.arange(n) % 3, changed(np.arange(n) % 3, 2.0)[0].astype(int))
    three = replaced(X, [1.0, 0], [5.0, 0], targets=labels)
    fit = fitted(PrivateNoisyAdaGrad, "hinge", feature_norm=1.0, n_steps=3, classes=range(3))
    pair("people adagrad three classes", fit, *three, attains=0.3)
    rng = np.random.default_rng(4)
    n, p = 60, 3
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    targets = signs, changed(signs, -1.0, 1.0)[1]
    far = replaced(5.0 + rng.normal(size=(n, p)), [1e9, 0, 0], [-1e9, 0, 0], targets=targets)
    fit = fitted(PrivateNoisyAdaGrad, "squared_error", target_range=(-1.0, 1.0), n_steps=3)
    pair("people adagrad search", fit, *far, attains=0.2)
    pair("people adagrad search noisy", fit, *far, quiet=False)
    steps = np.outer(np.geomspace(0.01, 100.0, n), [1.0, 0, 0])
    data = replaced(steps, [1e-3, 0, 0], [50.0, 0, 0], targets=(signs, signs))
    pair("people adagrad count", adagrad(), *data)
    units = [1.0, 1e-3, 1e3]
    labels = (np.arange(n) % 2).astype(int)
    data = replaced(units * rng.normal(size=(n, p)), [-1e9] * p, [1e9] * p, targets=(labels,) * 2)
    fit = fitted(PrivateNoisyAdaGrad, n_steps=3, classes=range(2), epsilon=30.0)
    pair("people adagrad columns", fit, *data, attains=0.3)
    targets = [y[:, 0] for y in changed(5.0 + rng.normal(size=(n, 1)), [1e9], [-1e9])]
    data = replaced(rng.normal(size=(n, p)), [0.0] * p, [0.0] * p, targets=targets)
    fit = fitted(PrivateNoisyAdaGrad, "squared_error", feature_norm=1.0, n_steps=3, epsilon=3.0)
    pair("people adagrad targets", fit, *data, attains=0.3)
    pair("people adagrad constant", fitted(PrivateNoisyAdaGrad, "huber"), *data, attains=0.5)


def _regressions_of_people():
    n = 30
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(n, 2)), 0.1 * rng.normal(size=(n, 2))
    ends = changed(y, [5.0, 0], [-5.0, 0])
    labels = replaced(X, [0.0, 0.0], [0.0, 0.0], targets=ends)
    both = replaced(X, [0.0, 0.0], [9.0, -9.0], targets=ends)
    settings = {"n_frequencies": 8, "feature_scale": 1.0}
    regress = functools.partial(fitted, PrivateHyperbolicRegressor, **settings)
    origin = {"base_point": [0.0, 0.0]}
    fit = regress("parametric", n_steps=4, **origin)
    pair("people regression", fit, *labels, attains=0.95)
    pair("people regression all", fit, *both)
    fit = regress("parametric", n_steps=4)
    pair("people regression private base", fit, *labels, attains=0.5)
    pair("people regression private base noisy", fit, *labels, quiet=False)
    fit = regress("sufficient-statistics", **origin)
    pair("people regression moments", fit, *labels, attains=0.8)
    pair("people regression moments all", fit, *both, attains=0.5)
    far = replaced(X, [1e9, 0.0], [-1e9, 1.0], targets=ends)
    fit = regress("parametric", feature_scale="private", n_steps=3)
    pair("people regression found scale", fit, *far, attains=0.1)
    pair("people regression found scale noisy", fit, *far, quiet=False)
    many = np.random.default_rng(6)
    ends = changed(0.1 * many.normal(size=(60, 2)), [5.0, 0], [-5.0, 0])
    far = replaced([1.0, 1e3] * many.normal(size=(60, 2)), [-1e9] * 2, [1e9] * 2, targets=ends)
    fit = regress("parametric", feature_scale="private", n_steps=3, epsilon=30.0)
    pair("people regression columns", fit, *far, attains=0.3)
    absent = replaced(X, [0.0, 0.0], [9e150, 9e150], targets=ends)
    for steps in (1, 3):
        fit = _answers(n_queries=1, n_steps=steps, **origin)
        title = f"people regression queries {steps}"
        pair(title, fit, *labels, attains=0.95)
    pair("people regression queries, absent", fit, *absent)
    wild = replaced(X, [1e200, -1e200], [0.0, 0.0], targets=changed(y, [1e200, 1e-120], [5.0, 0.0]))
    fit = regress("parametric", n_steps=3)
    pair("people regression extremes", fit, *wild, quiet=False)


def _searches_of_people():
    X, grid = 0.2 * np.random.default_rng(3).normal(size=(40, 2)), {"radius": [0.5, 1.0]}
    mean = PrivateFrechetMean(mechanism="tangent", noise="gaussian", radius=1.0)
    scaled = PerGroup(StandardScaler(with_mean=False), mean)
    for at, name in zip(_places(40), ("training", "validation"), strict=True):
        first = [0.0, 0.0] if name == "validation" else [1.0, 0.0]
        data = replaced(X, first, [-1e9, 0.0], at=at)
        facts = {"changed": at, "charge": charge_of_a_search}
        fit = _search(mean, grid, loss_bound=0.5)
        pair(f"people search {name}", fit, *data, attains=0.25, **facts)
        pair(f"people search {name} noisy", fit, *data, quiet=False, **facts)
        fit = _search(scaled, {"estimator__radius": [0.5, 1.0]}, loss_bound=0.5)
        pair(f"people search {name}, transformed", fit, *data, **facts)


def _risks_of_people():
    erm = functools.partial(fitted, PrivateRiemannianERM)
    plane, space = Euclidean(2), Hyperboloid(2)
    for beyond in (1.0, 1e3):
        data = exchanged(*opposite(plane, 1.0, rest=-0.3, beyond=beyond))
        fit = erm("euclidean", n_steps=3, gradient=linear_gradient)
        pair(f"people erm {beyond:g}", fit, *data, attains=0.95)
    for sampling, least in (("poisson", 0.2), ("fixed-size", 0.5)):
        settings = {"gradient": linear_gradient, "n_steps": 6, "batch_size": 6}
        fit = erm("euclidean", sampling=sampling, **settings)
        pair(f"people erm {sampling}", fit, *data, attains=least)
        pair(f"people erm {sampling} noisy", fit, *data, quiet=False)
    fit = erm("euclidean", gradient=linear_gradient, clip_norm="private", n_steps=2)
    pair("people erm found clip", fit, *data, attains=0.8)
    data = exchanged(*opposite(space, 2.0, rest=0.5))
    settings = {"solver": "variance-reduced", "n_steps": 20, "batch_size": 6, "step_size": 0.4}
    for sampling, clip in (("poisson", {"smoothness": 1.0}), ("fixed-size", {"clip_norm": 0.05})):
        fit = erm(space, sampling=sampling, **settings, **clip)
        pair(f"people erm svrg {sampling}", fit, *data)
        pair(f"people erm svrg {sampling} noisy", fit, *data, quiet=False)


# -- searches for centre and scale ----------------------------------------------------------------


def searched(geometry, mu=6.0, **known):
    """``fit(accountant, points)``: a search, and a count that gets what it leaves."""

    def fit(accountant, points):
        accountant.spend(GaussianEvent(1.0 / mu))
        plan = plan_point_search(geometry, len(points), mu, **known)
        records, budget, streams = (
            PointRecords(geometry, points),
            GaussianBudget(mu),
            NoiseStreams(),
        )
        found = plan.release(records, budget, streams)
        (distances,) = records.distances(found.center)
        rest = GaussianCount(1.0 / budget.rest("rest"))
        return rest.release(np.count_nonzero(distances <= found.radius), streams("rest"))

    return fit


def asked(opening, program):
    """``fit(accountant, rows)``: a program over a curator."""

    def fit(accountant, rows):
        accountant.spend(opening.event(len(rows)))
        return program(Curator(Memory(rows), opening, NoiseStreams()))

    return fit


def curators():
    """Operations of the core that only it has; what it shares with fits is in their pairs."""
    rows, few = LogAt(Euclidean(3), np.zeros(3)), np.zeros((N, 3))
    apart = changed(few, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    pair(
        "curator pure",
        asked(Pure(2.0), lambda c: c.matrix("pure", rows, 1.0, None, "m", "m")),
        *apart,
        attains=0.5,
    )
    ends = changed(few, [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0])
    pair(
        "curator sum",
        asked(Gaussian(1.0), lambda c: c.sum(rows, ball_set(1.0, 3), None, "m", "m")),
        *ends,
        attains=0.9,
    )
    bent = GeodesicBall(Hyperboloid(2), None, 0.5)
    pair(
        "curator point",
        asked(Gaussian(1.0), lambda c: c.point(bent, 1e-4, None, "m", "m")),
        *opposite(bent.geometry, bent.radius),
        attains=0.5,
    )
    # All rows but one hold the first axis; that one turns the mean a little.
    turned = changed(np.tile([1.0, 0.0, 0.0], (N, 1)), [0.0, 1.0, 0.0], [0.0, -1.0, 0.0])

    def roots(c):
        run = c.run(1, 0.01, "g", "g", dim=3, moments=0.99)
        run.sum(rows, ball_set(1.0, 3))
        return run.root_moment()

    pair("curator root moments", asked(Gaussian(1.0), roots), *turned, attains=0.9)
    # One of two blocks of coordinates to which half of the rows belong each loses a row.
    wide = LogAt(Euclidean(22), np.zeros(22))
    blocks = np.zeros((2, 12, 22))
    blocks[:, :, :20] = 1.0
    blocks[:, 6:] = 0.0
    blocks[:, 6:, 20:] = 1.0
    blocks[1, 0] = 0.0
    blocks[1, 0, 20:] = [1.0, -1.0]
    blocks /= np.linalg.norm(blocks, axis=2, keepdims=True)

    def leading(c):
        return c.matrix("leading", wide, 1.0, None, "m", "m", rank=2)

    pair("curator leading", asked(Gaussian(1.0), leading), *blocks, attains=0.52)


def tables():
    """A record leaves from below all thresholds of every column to above all of them."""
    rng = np.random.default_rng(6)
    n, p = 60, 4
    units, ends = np.array([1.0, 1e-3, 1e3, 10.0]), [-1e9 * np.ones(4), 1e9 * np.ones(4)]
    clouds = {
        "unlike": 5.0 + units * rng.normal(size=(n, p)),
        "alike": 5.0 + rng.normal(size=(n, p)),
        "atoms": np.where(rng.random((n, p)) < 0.05, units, 0.0) + [0.0, 0.0, 0.0, 1.0],
        "narrow": 5.0 + np.array([1.0, 1e-9, 1.0, 1e4]) * rng.normal(size=(n, p)),
    }
    gaussian = {"noise": "gaussian"}
    for name, X in clouds.items():
        for epsilon in (30.0, 120.0):  # with few and with many records beside the noise
            fit = fitted(PrivateFrechetMean, "euclidean", epsilon=epsilon, **gaussian)
            pair(f"mean table {name} {epsilon:g}", fit, *changed(X, *ends), attains=0.3)
    # A record crosses the norm: the number of clipped rows moves.
    inside = changed(clouds["unlike"], 5.0 * np.ones(p), ends[1])
    pair("mean table count", fit, *inside)
    pair("mean table noisy", fit, *changed(clouds["unlike"], *ends), quiet=False)
    # Laplace noise of the mean is fixed before the search, which may leave some of its share.
    fit = fitted(PrivateFrechetMean, "euclidean", epsilon=30.0)
    data = changed(clouds["unlike"], *ends)
    pair("mean table laplace", fit, *data, charge=_of_a_sampled_search)
    people = replaced(clouds["unlike"], *ends)
    fit = fitted(PrivateFrechetMean, "euclidean", epsilon=30.0, **gaussian)
    pair("people mean table", fit, *people, attains=0.3)
    pair("people mean table noisy", fit, *people, quiet=False)


def opposite_shapes():
    """A square, and its mirror image in the complex plane's other direction: at the cut locus."""
    square = PlanarShapes(4).base_point
    return square, square * [1.0, -1.0]


def searches():
    spaces = {
        "affine": (AffineInvariantSPD(2), 1.0),
        "log-euclidean": (LogEuclideanSPD(2), 1.0),
        "bures": (BuresWassersteinSPD(2), 0.4),
        "sphere": (Sphere(2), 0.6),
        "circle": (Circle(24.0), 2.0),
        "grassmann": (Grassmann(4, 2), 0.4),
        "hyperplanes": (Grassmann(3, 2), 0.4),
        "stiefel": (Stiefel(3, 2), 0.4),
        "hyperboloid": (Hyperboloid(2), 1.5),
        "euclidean": (Euclidean(2), 1.0),
        "correlation": (Correlation(3), 1.0),
        "rotations": (Rotations(), 0.6),
        "shapes": (PlanarShapes(4), 0.3),
        "product": (Product(Sphere(2), AffineInvariantSPD(2), Euclidean(1)), 0.5),
    }
    for name, (geometry, reach) in spaces.items():
        # A cloud that shrinks round by round, and one record at either end of it.
        steps = reach * np.geomspace(0.02, 1.0, 40)
        points = along(geometry, steps)
        data = changed(points, *along(geometry, [2.0 * reach, -2.0 * reach]), at=39)
        for quiet in (True, False):
            # In flat space a search stops where the records lie about its centre.
            least = 0.07 if quiet and geometry.is_hadamard and not geometry.is_flat else 0.0
            settings = {"changed": 39, "quiet": quiet, "attains": least}
            pair(f"search {name} quiet {quiet}", searched(geometry), *data, **settings)
    # Records that lie to one side in all rounds, because each radius is rounded down to the grid.
    aside = along(Euclidean(2), np.full(40, 25317829.903411347))
    data = changed(aside, *along(Euclidean(2), [1e12, -1e12]), at=39)
    pair("search aside", searched(Euclidean(2)), *data, changed=39, attains=0.055)
    # Data farther off than one step may go: further rounds, in few dimensions and in more.
    for name, geometry in (("", Hyperboloid(2)), ("matrices ", AffineInvariantSPD(3))):
        far = along(geometry, np.linspace(7.0, 9.0, 40))
        data = changed(far, *along(geometry, [9.0, -9.0]), at=39)
        for quiet in (True, False):
            title = f"search far off {name}quiet {quiet}"
            pair(title, searched(geometry), *data, changed=39, quiet=quiet)
    # Records as far from each other as a manifold allows, before any centre is known.
    turned = np.eye(4)[:, 2:]
    extremes = {
        "sphere": (Sphere(2), np.eye(3)[0], -np.eye(3)[0]),
        "stiefel": (Stiefel(3, 2), np.eye(3, 2), -np.eye(3, 2)),
        "grassmann": (Grassmann(4, 2), np.eye(4, 2), turned),
        "hyperplanes": (Grassmann(3, 2), np.eye(3)[:, :2], np.eye(3)[:, 1:]),
        "long frames": (Grassmann(4, 2), 3.0 * np.eye(4, 2), 5.0 * turned),
        "rotations": (Rotations(), np.eye(3), np.diag([-1.0, -1.0, 1.0])),
        "shapes": (PlanarShapes(4), *opposite_shapes()),
        "units": (AffineInvariantSPD(2), 1e-30 * np.eye(2), 1e30 * np.eye(2)),
        "units of bures": (BuresWassersteinSPD(2), 1e-30 * np.eye(2), 1e30 * np.eye(2)),
        "not finite": (Euclidean(2), np.full(2, np.nan), np.array([1.0, -1.0])),
    }
    for name, (geometry, one, other) in extremes.items():
        spread = [0.05, -0.05, 0.1, -0.1] * 5
        points = along(geometry, spread)
        least = 0.2 if name in ("sphere", "stiefel", "grassmann", "rotations", "shapes") else 0.0
        data = changed(points, one, other)
        pair(f"search start {name}", searched(geometry, mu=3.0), *data, attains=least)
    # Directions all around: no ball holds them.
    rng = np.random.default_rng(5)
    around = rng.normal(size=(60, 3)) + [0.4, 0, 0]
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    middle = around[1:].mean(axis=0)
    middle /= np.linalg.norm(middle)
    aside = 1e-3 * np.cross(middle, [0.0, 0.0, 1.0])
    data = changed(around, aside - middle, -aside - middle)
    pair("search wide", searched(Sphere(2)), *data, attains=0.004)
    space = Hyperboloid(2)
    data = opposite(space, 2.0, rest=0.3, n=40)
    for known in ({"center": space.base_point}, {"radius": 1.0}):
        fit = searched(space, **known)
        pair(f"search with a public {next(iter(known))}", fit, *data, quiet=False)


# -- principal components -------------------------------------------------------------------------


def components():
    d, n = 3, 40
    zeros = np.zeros((n, d))
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(n, d)) * [1.0, 0.5, 0.2]
    orthogonal = changed(zeros, [3.0, 0, 0], [0, 1.0, 0])  # one of them longer than the bound
    known = {"row_norm": 1.0, "center": "assume"}
    pca = functools.partial(fitted, PrivatePrincipalEigenvector)
    pair("pca covariance pure", pca(mechanism="covariance", delta=0.0, **known), *orthogonal)
    fit = pca(mechanism="covariance", **known)
    pair("pca covariance", fit, *orthogonal, attains=0.95)
    pair(
        "pca covariance sparse",
        pca(mechanism="covariance", **known),
        *map(sparse.csr_array, orthogonal),
        attains=0.95,
    )
    pair(
        "pca covariance stream",
        pca(mechanism="covariance", **known),
        *[[x[:17], x[17:]] for x in orthogonal],
        attains=0.95,
    )
    data = [x.astype(np.float32) for x in orthogonal]
    pair("pca covariance single", pca(mechanism="covariance", **known), *data, attains=0.95)
    for k in (1, 2):
        frame = changed(zeros, [1.0, 0, 0], [0, 1.0, 0])
        fit = pca(k, mechanism="refine", **known)
        pair(f"pca refine {k}", fit, *frame, attains=0.25)
        pair(f"pca power {k}", pca(k, mechanism="power", n_steps=2, **known), *frame)
        for seed in range(2):
            one, two = rng.normal(size=(2, d))
            data = changed(cloud, one / np.linalg.norm(one), two / np.linalg.norm(two))
            for mechanism in ("refine", "power"):
                steps = 2 if mechanism == "power" else None
                settings = {"n_steps": steps, **known}
                fit = pca(k, mechanism=mechanism, **settings)
                pair(f"pca {mechanism} {k} cloud {seed}", fit, *data, quiet=bool(seed))
    # A direction that stands out of little noise, and holds little of the bound: one product.
    ends = changed(np.tile([0.1, 0, 0], (n, 1)), [1.0, 0, 0], [0, 1.0, 0])
    fit = pca(mechanism="refine", epsilon=100.0, **known)
    pair("pca refine, one product", fit, *ends, attains=0.4)
    ends = changed(np.tile([1.0, 0, 0], (n, 1)), [1.0, 0, 0], [0, 1.0, 0])
    fit = pca(mechanism="refine", **known)
    pair("pca refine, two matrices", fit, *ends, attains=0.95)
    for manifold, k in (("sphere", 1), ("stiefel", 2), ("grassmann", 2), ("ambient", 1)):
        fit = pca(k, mechanism="gradient", manifold=manifold, n_steps=3, **known)
        w = _start_frame(d, k)[:, 0]
        across = np.linalg.svd(np.column_stack([w, _start_frame(d, k)]))[0][:, -1]
        data = changed(zeros, (w + across) / math.sqrt(2), (w - across) / math.sqrt(2))
        pair(f"pca gradient {manifold}", fit, *data, attains=0.2)
        pair(f"pca gradient {manifold} noisy", fit, *data, quiet=False)
    # Products z z'w clipped to a small norm, from both sides.
    w = _start_frame(d, 1)[:, 0]
    across = np.linalg.svd(w[:, None])[0][:, -1]
    little = np.tile(1e-4 * across + 1e-5 * w, (n, 1))
    slope = 1e-3
    data = changed(little, across + slope * w, -across + slope * w)
    pair("pca power, shortened products", pca(mechanism="power", n_steps=1, **known), *data)
    # Long products, which are not shortened: one column, and two that take each other's place.
    for k in (1, 2):
        frame = _start_frame(d, k)
        w, across = frame[:, 0], np.linalg.svd(frame)[0][:, -1]
        one = [(w + across) / math.sqrt(2), (w - across) / math.sqrt(2)]
        data = changed(np.tile(w, (n, 1)), *(one if k == 1 else frame.T))
        settings = {"n_steps": 1, "epsilon": 50.0, **known}
        fit = pca(k, mechanism="power", **settings)
        pair(f"pca power {k}, long products", fit, *data, attains=0.8)
    # Products and gradients in integers; the second pair of each keeps the terms unshortened.
    for mechanism, steps in (
        ("refine", {}),
        ("power", {"n_steps": 1}),
        ("gradient", {"n_steps": 2}),
    ):
        for k in (1, 2):
            fit = pca(k, mechanism=mechanism, **steps, **known)
            pair(f"pca {mechanism} {k} orthogonal", fit, *orthogonal)
            ends = np.tile([1.0, 0, 0], (n, 1))
            data = changed(ends, [1.0, 0, 0], [0, 1.0, 0])
            pair(f"pca {mechanism} {k} far", fit, *data)
    # The trace of the clipped rows.
    trace = changed(zeros, [1.0, 0, 0], [0, 0, 0])
    fit = pca(mechanism="power", n_steps=1, **known)
    pair("pca power trace", fit, *trace)
    # Differences of pairs: n mu is 8.8 times the root of d.
    fit = pca(mechanism="covariance", epsilon=1.5)
    ends = changed(cloud, [1e9, 0, 0], [0, 1e9, 0])
    pair("pca pairs", fit, *ends, attains=0.8)
    pair("pca pairs noisy", fit, *ends, quiet=False)
    pair("pca pairs sparse", fit, *map(sparse.csr_array, ends), attains=0.8)
    for mechanism in ("refine", "power", "gradient"):
        pair(f"pca pairs {mechanism}", pca(mechanism=mechanism, epsilon=1.5), *ends)
    # Found centres and norms: far data, opposite rows at the bound, pairs of equal rows.
    far = cloud + [50.0, 0, 0]
    for mechanism in ("covariance", "refine", "power", "gradient"):
        fit = pca(mechanism=mechanism)
        data = changed(far, [1e9, 0, 0], [-1e9, 0, 0])
        pair(f"pca {mechanism} private centre", fit, *data)
        data = changed(cloud, [0, 0, 1e-120], [0, 1e200, 0])
        pair(f"pca {mechanism} extreme norms", fit, *data, quiet=False)
    fit = pca(delta=0.0)
    pair("pca pure private centre", fit, *changed(far, [1e9, 0, 0], [-1e9, 0, 0]))
    pair("pca pure noisy", fit, *changed(far, [1e9, 0, 0], [0, 0, 0]), quiet=False)
    # The effective rank pairs row 0 with row n / 2.
    cosine = np.array(cloud)
    cosine[n // 2] = [0, 0, 2.0]
    data = changed(cosine, [0, 0, 1.0], [0, 1.0, 0])
    pair("pca rank", pca(mechanism="covariance", center="assume"), *data)
    pair("pca rank, pure", pca(center="assume", delta=0.0), *data)
    ends = np.tile([1.0, 0, 0], (n, 1))
    data = changed(ends, [1e8, 0, 0], [-1e8, 0, 0])
    pair("pca mean of clipped rows", pca(mechanism="covariance", row_norm=1.0), *data)
    steps = np.outer(np.geomspace(1e-6, 1e6, n), [1.0, 0, 0])
    data = changed(steps, [1e-300, 0, 0], [1e200, 0, 0], at=3)
    pair("pca counts of norms", pca(mechanism="covariance", center="assume"), *data, changed=3)


def _start_frame(d, k):
    from skriemdp._pca.releases import public_frame

    return public_frame(d, k, 0)


# -- completion -----------------------------------------------------------------------------------


def ratings(rows, d):
    """A table with the given rows; NaN where nothing was rated."""
    table = np.full((len(rows), d), np.nan)
    for row, values in zip(table, rows, strict=True):
        for item, value in values.items():
            row[item] = value
    return table


def completion():
    d, n = 24, 30
    rng = np.random.default_rng(1)
    crowd = np.where(rng.random((n, d)) < 0.5, rng.integers(1, 6, (n, d)), np.nan).astype(float)
    left = {i: 1.0 if i % 2 else 5.0 for i in range(d // 2)}
    right = {i + d // 2: 1.0 if i % 2 else 5.0 for i in range(d // 2)}
    disjoint = changed(crowd, *ratings([left, right], d))
    complete = functools.partial(fitted, PrivateMatrixCompletion)
    strong = {"epsilon": 8.0, "signal_test": "none"}
    few = changed(crowd, *ratings([{0: 5.0}, {0: 1.0}], d))
    nothing = changed(crowd, *ratings([{}, left | right], d))
    flat = changed(crowd, *ratings([{}, dict.fromkeys(range(d), 3.0)], d))
    plain = complete(mechanism="none", epsilon=8.0)
    pair("completion items", plain, *disjoint, attains=0.8)
    pair("completion items noisy", plain, *disjoint, attains=0.8, quiet=False)
    pair("completion one opposite rating", plain, *few, attains=0.05)
    pair("completion nothing rated", plain, *nothing, attains=0.2)
    # Clipped they are equal: nothing but the share of clipped ratings differs, all of a user's.
    beyond = changed(crowd, *ratings([dict.fromkeys(range(d), x) for x in (5.0, 9.0)], d))
    pair("completion clipped", plain, *beyond, attains=0.0099)
    pair("completion all alike", plain, *flat, attains=0.2)
    fit = complete(2, mechanism="covariance", **strong)
    pair("completion covariance", fit, *disjoint, attains=0.8)
    pair("completion covariance noisy", fit, *disjoint, quiet=False)
    fit = complete(2, mechanism="gradient", n_steps=3, **strong)
    pair("completion gradient", fit, *disjoint, attains=0.5)
    pair("completion gradient noisy", fit, *disjoint, quiet=False)
    # A user who rates everything crosses every norm that is asked for.
    pair("completion gradient nothing rated", fit, *nothing)
    fit = complete(2, mechanism="gradient", epsilon=60.0, n_steps=2)
    pair("completion paid signal", fit, *disjoint)
    fit = complete(2, mechanism="stochastic", n_steps=4, **strong)
    pair("completion stochastic", fit, *disjoint)
    # The noise of this epsilon hides items: nothing but a level, from one end to the other.
    ends = changed(crowd, np.full(d, 1.0), np.full(d, 5.0))
    pair("completion level only", complete(epsilon=0.02), *ends, attains=0.8)
    # The same as tables with a rating in each row, of items that somebody else may not know.
    for kind, named in ID_KINDS.items():

        def fit(accountant, users, items, values, named=named):
            table, _ = from_frame(named(users), items, values, catalogue=range(d))
            settings = {"mechanism": "none", "epsilon": 8.0, "accountant": accountant}
            return PrivateMatrixCompletion(**settings).fit(table)

        data = [_rows_of_ratings(*one) for one in zip(disjoint, (0.5, 2**70), strict=True)]
        pair(f"completion ids {kind}", fit, *data, attains=0.5)
    less = functools.partial(Tape.check_charge, unspent=0.01)  # that of a clip norm of descent
    fit = complete(2, epsilon=60.0)
    pair("completion auto", fit, *disjoint, quiet=False, charge=less)
    # Two groups of users who rate items of their own; one goes over to the other side.
    turning = np.zeros((2, 12, 22))
    turning[:, :, :20] = 1.0
    turning[:, 6:] = 0.0
    turning[:, 6:, 20:] = [1.0, -1.0]
    turning[1, 0] = 0.0
    turning[1, 0, 20:] = 1.0
    pair("completion signal", _signal, *map(sparse.csr_array, turning), attains=0.5)
    votes = np.array(crowd)
    some = changed(votes, *ratings([{}, {i: 5.0 if i % 3 else 1.0 for i in range(d)}], d))
    pair("completion votes", complete(2, mechanism="covariance", **strong), *some)
    pair(
        "completion extremes",
        complete(mechanism="none", epsilon=8.0),
        *changed(crowd, np.full(d, 1e200), np.full(d, -1e200)),
    )
    with np.errstate(all="ignore"):
        stored = [sparse.csr_array(np.nan_to_num(x)) for x in disjoint]
    pair("completion sparse", complete(mechanism="none", epsilon=8.0), *stored, attains=0.5)


def _rows_of_ratings(table, strange):
    """Users, items and ratings, in an order of its own; user 0 rates `strange` too."""
    users, items = np.nonzero(np.isfinite(table))
    values = table[users, items]
    order = np.random.default_rng(len(users)).permutation(len(users))
    listed = [*items[order].tolist(), strange]
    return np.append(users[order], 0), listed, np.append(values[order], 3.0)


def _signal(accountant, residuals):
    from skriemdp._completion.releases import CompletionPlan, _measured_signal
    from skriemdp._random import NoiseStreams

    n, d = residuals.shape
    plan = CompletionPlan(mu=1.0, n=n, d=d, rank=2)
    accountant.spend(GaussianEvent(1.0 / plan.mu_of(plan.small["signal"])))
    return _measured_signal(residuals, np.ones(d), plan, 2, 10.0, NoiseStreams(0))


# -- linear models --------------------------------------------------------------------------------


def _turning_axis(step):
    return np.array([[math.cos(0.3 * step)], [math.sin(0.3 * step)]])


def linear_models():
    n, p = 30, 2
    X, y = np.zeros((n, p)), np.zeros(n)
    X[:, 1] = 0.3
    rows = changed(X, [1.0, 0], [1.0, 0])
    targets = changed(y, 1.0, -1.0)
    known = {"feature_norm": 1.0, "target_range": (-1.0, 1.0)}
    adagrad = functools.partial(fitted, PrivateNoisyAdaGrad, **known)
    for name in ("noised", "diagonal", "norm", "paper", "none"):
        for loss in ("squared_error", "huber"):
            fit = adagrad(loss, name, n_steps=4, fit_intercept=False)
            least = {"paper": 0.5, "noised": 0.8}.get(name, 0.8)
            data = (rows[0], targets[0]), (rows[1], targets[1])
            pair(f"adagrad {loss} {name}", fit, *data, attains=least)
    data = (rows[0], targets[0]), (rows[1], targets[1])
    fit = adagrad("squared_error", "noised", n_steps=6, batch_size=10)
    pair("adagrad sampled", fit, *data, attains=0.3)
    pair("adagrad sampled noisy", fit, *data, quiet=False)
    stored = [(sparse.csr_array(a), b) for a, b in data]
    fit = adagrad("squared_error", n_steps=6, batch_size=10)
    pair("adagrad sampled sparse", fit, *stored, attains=0.1)
    fit = adagrad("squared_error", n_steps=6, batch_size=10, subspace=_turning_axis)
    pair("adagrad sampled subspace", fit, *data)
    fit = adagrad("squared_error", "paper", n_steps=5, fit_intercept=False)
    pair("adagrad paper noisy", fit, *data, quiet=False)
    fit = adagrad("squared_error", "noised", n_steps=3, subspace=np.array([[1.0], [0.0]]))
    pair("adagrad subspace", fit, *data, attains=0.5)
    fit = adagrad("squared_error", "noised", n_steps=3, clip_norm=[0.1, 0.5, 0.2])
    pair("adagrad clips", fit, *data, attains=0.5)
    # The pair that attains the theorem on root moments: one record across all others.
    across, ones = np.tile([1.0, 0.0], (n, 1)), np.ones(n, dtype=int)
    across[0] = [0.0, 1.0]
    other = ones.copy()
    other[0] = 0
    settings = {"classes": range(2), "step_size": 1e-3, "n_steps": 4, "fit_intercept": False}
    fit = adagrad("hinge", "paper", **settings)
    pair("adagrad root moments", fit, (across, ones), (across, other), attains=0.9)
    signs = np.where(np.arange(n) % 2, 1, 0)
    flipped = signs.copy()
    flipped[0] = 1
    for loss in ("hinge", "log_loss"):
        for classes in (range(2), range(3)):
            fit = adagrad(loss, "norm", n_steps=3, classes=classes, fit_intercept=False)
            data = (changed(X, [1.0, 0])[0], signs), (changed(X, [5.0, 0])[0], flipped)
            least = 0.5 if loss == "hinge" else 0.1
            pair(f"adagrad {loss} {len(classes)} classes", fit, *data, attains=least)
    data = (changed(X, [1e200, 1e200])[0], y), (changed(X, [1e-120, 0])[0], targets[0] * 1e200)
    pair("adagrad extremes", adagrad("squared_error", n_steps=3), *data)
    stored = [(sparse.csr_array(a), b) for a, b in zip(rows, targets, strict=True)]
    pair("adagrad sparse", adagrad("squared_error", n_steps=3), *stored, attains=0.5)
    _searches_of_linear_models()


def _searches_of_linear_models():
    """Centres and norms that are found: means, counts and what is left for the steps."""
    rng = np.random.default_rng(4)
    n, p = 60, 3
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    flipped = changed(y, -1.0, 1.0)[1]
    X = 5.0 + rng.normal(size=(n, p))
    known = {"target_range": (-1.0, 1.0), "n_steps": 3}
    adagrad = functools.partial(fitted, PrivateNoisyAdaGrad, "squared_error", **known)
    ends = changed(X, [1e9, 0, 0], [-1e9, 0, 0])
    data = (ends[0], y), (ends[1], flipped)
    pair("adagrad search", adagrad(), *data, attains=0.3)
    pair("adagrad search noisy", adagrad(), *data, quiet=False)
    pair("adagrad search, much budget", adagrad(epsilon=30.0), *data, attains=0.3)
    pair("adagrad search paper", adagrad(preconditioner="paper"), *data)
    fit = adagrad(batch_size=20)
    pair("adagrad search sampled", fit, *data, charge=_of_a_sampled_search)
    pair("adagrad search without centre", adagrad(fit_intercept=False), *data)
    stored = [(sparse.csr_array(a), b) for a, b in data]
    pair("adagrad search sparse", adagrad(), *stored)
    known = adagrad(center=[5.0, 5.0, 5.0])
    pair("adagrad search about a centre", known, *data)
    pair("adagrad about a public centre", adagrad(center=[5.0] * 3, feature_norm=2.0), *data)
    fit = adagrad(public_X=5.0 + rng.normal(size=(20, p)))
    pair("adagrad public bounds", fit, *data, attains=0.4)
    # A record crosses the norm: the count of clipped rows moves.
    steps = np.outer(np.geomspace(0.01, 100.0, n), [1.0, 0, 0])
    data = changed(steps, [1e-3, 0, 0], [50.0, 0, 0])
    pair("adagrad count", adagrad(feature_norm=1.0), (data[0], y), (data[1], y))
    same = np.full((n, p), 3.0)
    data = changed(same, [3.0, 3.0, 3.0], [1e200, 0, -1e200])
    pair("adagrad search, equal rows", adagrad(), (data[0], y), (data[1], y), quiet=False)
    _columns_of_linear_models()


def _columns_of_linear_models():
    """A record leaves from below all thresholds of every column to above all of them."""
    rng = np.random.default_rng(5)
    n, p = 60, 4
    units = [1.0, 1e-3, 1e3, 10.0]
    labels = (np.arange(n) % 2).astype(int)
    ends = [-1e9 * np.ones(p), 1e9 * np.ones(p)]
    settings = {"n_steps": 3, "classes": range(2), "epsilon": 30.0}
    fit = fitted(PrivateNoisyAdaGrad, **settings)
    data = [(X, labels) for X in changed(5.0 + units * rng.normal(size=(n, p)), *ends)]
    pair("adagrad columns", fit, *data, attains=0.3)
    pair("adagrad columns noisy", fit, *data, quiet=False)
    # Quantiles in one cell, which is searched further.
    atoms = [(X, labels) for X in changed(np.where(rng.random((n, p)) < 0.05, 1.0, 0.0), *ends)]
    pair("adagrad columns, atoms", fit, *atoms, attains=0.3)
    stored = [(sparse.csr_array(X), y) for X, y in data]
    pair("adagrad columns sparse", fit, *stored)
    fit = fitted(PrivateNoisyAdaGrad, **settings, batch_size=20)
    pair("adagrad columns sampled", fit, *data, charge=_of_a_sampled_search)
    fit = fitted(PrivateNoisyAdaGrad, **settings, fit_intercept=False)
    pair("adagrad columns about zero", fit, *data)
    targets = 1.0 - 2.0 * labels
    values = [(X, targets) for X, _ in data]
    known = {"target_range": (-1.0, 1.0), "n_steps": 3, "epsilon": 30.0}
    fit = fitted(PrivateNoisyAdaGrad, "squared_error", **known)
    pair("adagrad columns, targets", fit, *values, attains=0.3)
    pair("adagrad columns, targets noisy", fit, *values, quiet=False)
    fit = fitted(PrivateNoisyAdaGrad, **settings, fit_intercept=False, batch_size=20)
    pair("adagrad columns sampled, atoms", fit, *atoms, charge=_of_a_sampled_search)
    _ranges_of_targets()
    _white_rows()


def _white_rows():
    """A long row turns by a right angle, and its target goes from one end to the other."""
    rng = np.random.default_rng(11)
    n, p = 60, 3
    X, y = rng.normal(size=(n, p)), rng.uniform(-1.0, 1.0, size=n)
    turned = changed(X, [1e6, 0.0, 0.0], [0.0, 1e6, 0.0])
    data = list(zip(turned, [y[:, 0] for y in changed(y[:, None], [1.0], [-1.0])], strict=True))
    settings = {"target_range": (-1.0, 1.0), "n_steps": 3, "epsilon": 200.0}
    for title, more in (("", {}), (" about zero", {"fit_intercept": False})):
        fit = fitted(PrivateNoisyAdaGrad, "huber", **settings, **more)
        pair(f"adagrad white{title}", fit, *data, attains=0.4)
        pair(f"adagrad white{title} noisy", fit, *data, quiet=False)
    wild = list(zip(changed(X, [1e200, -1e200, 0.0], [1e-200, 0.0, 0.0]), [y, -y], strict=True))
    fit = fitted(PrivateNoisyAdaGrad, "squared_error", **settings)
    pair("adagrad white extremes", fit, (wild[0][0], y), (wild[1][0], y), quiet=False)
    fit = fitted(PrivateGeodesicRegressor, Euclidean(1), epsilon=3000.0)
    data = [(rows, targets[:, None]) for rows, targets in data]
    pair("geodesics white", fit, *data, attains=0.2)
    pair("geodesics white noisy", fit, *data, quiet=False)


def _ranges_of_targets():
    """A target goes from one end of all floats to the other."""
    rng = np.random.default_rng(7)
    n, p = 60, 2
    X, ends = rng.normal(size=(n, p)), [[1e9], [-1e9]]
    y = [targets[:, 0] for targets in changed(5.0 + rng.normal(size=(n, 1)), *ends)]
    # Of so few nothing but their mean is asked, of which both ends are as far apart as may be.
    for loss, options in (("huber", {}), ("squared_error", {"batch_size": 20})):
        fit = fitted(PrivateNoisyAdaGrad, loss, **options)
        pair(f"adagrad constant {loss}", fit, (X, y[0]), (X, y[1]), attains=0.5)
        pair(f"adagrad constant {loss} noisy", fit, (X, y[0]), (X, y[1]), quiet=False)
    # A target crosses the end of the range: the number of clipped ones moves.
    within = y[0].copy()
    within[0] = 5.0
    fit = fitted(PrivateNoisyAdaGrad, "huber")
    pair("adagrad constant count", fit, (X, within), (X, y[0]))
    settings = {"feature_norm": 1.0, "n_steps": 3, "epsilon": 3.0}
    fit = fitted(PrivateNoisyAdaGrad, "squared_error", **settings)
    pair("adagrad targets", fit, (X, y[0]), (X, y[1]), attains=0.3)
    pair("adagrad targets noisy", fit, (X, y[0]), (X, y[1]), quiet=False)
    fit = fitted(PrivateNoisyAdaGrad, "huber", n_steps=3, epsilon=3.0)
    both = changed(X, [1e9, 0.0], [-1e9, 0.0])
    pair("adagrad targets and rows", fit, (both[0], y[0]), (both[1], y[1]))
    fit = fitted(PrivateNoisyAdaGrad, "squared_error", **settings, batch_size=20)
    pair("adagrad targets sampled", fit, (X, y[0]), (X, y[1]), charge=_of_a_sampled_search)


def _of_a_sampled_search(tape, mine):
    """What the search does not need is lost: the noise of sampled steps is planned before it."""
    tape.check_charge(mine, unspent=_unspent(tape))


def _unspent(tape):
    ((_, event),) = tape.charges
    claimed = next(e.mu**2 for e in event.events if isinstance(e, GaussianEvent))
    before = (draw for draw in tape.draws if draw.batch is None and draw.law[0] != "radial")
    used = sum(draw.cost for draw in before)
    if used > claimed * (1.0 + 1e-9):
        raise Refuted(f"the search spends {used!r} of {claimed!r}")
    return 1.0 - used / claimed


# -- empirical risk -------------------------------------------------------------------------------


def tangent_classifiers():
    """Another label turns a record's gradient round; at a found mean everything is found."""
    y = np.arange(N) % 2
    labels = y, changed(y, 1)[0].astype(int)
    for name, (geometry, radius) in GEOMETRIES.items():
        one, two = opposite(geometry, radius)
        settings = {"radius": radius, "classes": range(2)}
        fit = fitted(PrivateTangentClassifier, geometry, **settings)
        pair(f"tangent model {name}", fit, (one, labels[0]), (one, labels[1]), attains=0.6)
        if name in ("spd", "sphere"):
            pair(f"tangent model, both {name}", fit, (one, labels[0]), (two, labels[1]))
        data = exchanged(one, one, label=1)
        fit = fitted(PrivateTangentClassifier, geometry, radius=radius, classes=range(3))
        pair(f"tangent model people {name}", fit, *data)
    y = np.arange(60) % 2
    labels = y, changed(y, 1)[0].astype(int)
    for geometry in (AffineInvariantSPD(2), Sphere(2), Stiefel(3, 2), Euclidean(3)):
        spread = geometry.exp_coordinates(
            geometry.base_point, 0.2 * np.random.default_rng(5).normal(size=(60, geometry.dim))
        )
        one, two = changed(spread, *along(geometry, [0.6, -0.6]))
        fit = fitted(PrivateTangentClassifier, geometry, classes=range(2), epsilon=8.0)
        for quiet in (True, False):
            title = f"tangent model at a mean {geometry} quiet {quiet}"
            pair(title, fit, (one, labels[0]), (two, labels[1]), quiet=quiet)
        people = owned(one, ROWS), owned(two, 1, 1)
        fit = fitted(PrivateTangentClassifier, geometry, classes=range(3), epsilon=8.0)
        pair(f"tangent model at a mean people {geometry}", fit, *people)
    settings = {"center": np.zeros(3), "classes": range(2), "epsilon": 8.0}
    far = changed(np.asarray(spread), [1e9, 0.0, 0.0], [-1e9, 0.0, 0.0])
    data = (far[0], labels[0]), (far[1], labels[1])
    pair("tangent model at a public point", fitted(PrivateTangentClassifier, **settings), *data)


def linear_gradient(point, X, y=None):
    """Of minus the inner product: the record itself, whatever the point."""
    return X


def risks():
    erm = functools.partial(fitted, PrivateRiemannianERM)
    flat = np.zeros((N, 2))
    ends = changed(flat, [1e3, 0], [-1.0, 0])
    gradient = {"gradient": linear_gradient}
    pair("erm descent", erm("euclidean", n_steps=3, **gradient), *ends, attains=0.95)
    _found_clips(erm)
    fit = erm("euclidean", n_steps=3, center=[0.0, 0], radius=2.0, **gradient)
    pair("erm descent in a ball", fit, *ends, attains=0.95)
    for sampling, least in (("poisson", 0.2), ("fixed-size", 0.5)):
        fit = erm("euclidean", n_steps=6, batch_size=6, sampling=sampling, **gradient)
        pair(f"erm {sampling}", fit, *ends, attains=least)
        pair(f"erm {sampling} noisy", fit, *ends, quiet=False)
    # A bound of a narrow type, of which single precision would make too long integers.
    narrow = changed(flat, [1e4, 1e4 / 3.0], [-1e4, -1e4 / 3.0])
    for clip in (np.float32(15.7), np.float32(0.3), np.float16(0.3)):
        fit = erm("euclidean", n_steps=6, batch_size=6, clip_norm=clip, **gradient)
        pair(f"erm sampled, {clip} in {8 * clip.itemsize} bits", fit, *narrow, attains=0.2)
    for size in (1, N - 1):
        fit = erm("euclidean", n_steps=6, batch_size=size, sampling="fixed-size", **gradient)
        pair(f"erm fixed-size of {size}", fit, *ends)
    settings = {"solver": "variance-reduced", "n_steps": 20, "batch_size": 6}
    for sampling, clip, geometry, radius in (
        ("poisson", {"clip_norm": 0.05}, Sphere(2), 1.0),
        ("poisson", {"smoothness": 1.0}, Hyperboloid(2), 2.0),
        ("fixed-size", {"clip_norm": 0.05}, Sphere(2), 1.0),
    ):
        fit = erm(geometry, sampling=sampling, step_size=0.4, **settings, **clip)
        data = opposite(geometry, radius, rest=0.5)
        name = f"erm svrg {sampling} {next(iter(clip))}"
        pair(name, fit, *data)
        pair(f"{name} noisy", fit, *data, quiet=False)
    # Anchors that cancel: gradients whose difference is at the clip, in both directions.
    fit = erm(
        "euclidean",
        gradient=_turning,
        solver="variance-reduced",
        clip_norm=0.5,
        n_steps=10,
        batch_size=6,
    )
    pair("erm svrg, opposite differences", fit, *ends, attains=0.2)
    for name, (geometry, radius) in GEOMETRIES.items():
        if name == "bures":
            continue
        fit = erm(geometry, n_steps=3, clip_norm=0.5 * radius)
        pair(f"erm {name}", fit, *opposite(geometry, radius), attains=0.5)
    space = Hyperboloid(2)
    for distance in (5.0, 16.0):
        start = along(space, [distance])[0]
        data = opposite(space, distance + 1.0, rest=0.1)
        pair(f"erm start at {distance}", erm(space, n_steps=2, start=start), *data)
    runaway = erm(space, n_steps=60, step_size=0.5)
    pair("erm runaway", runaway, *opposite(space, 2.0, n=20), quiet=False)
    spd = AffineInvariantSPD(3)
    pair(
        "erm runaway spd",
        erm(spd, n_steps=60, step_size=0.5),
        *opposite(spd, 2.0, n=20),
        quiet=False,
    )
    skewed = np.stack([np.diag([9e5, 1 / 9e5])] * N)
    skewed[0] = [[9e5, 0.5], [0, 1 / 9e5]]
    straight = skewed.copy()
    straight[0] = [[9e5, 0.0], [0.5, 1 / 9e5]]
    fit = erm("spd", n_steps=1, start=np.diag([9e5, 1 / 9e5]))
    pair("erm asymmetric matrices", fit, skewed, straight)
    pair("erm dask", _dask_fit(n_steps=2), *ends, attains=0.95)
    pair("erm dask sampled", _dask_fit(n_steps=4, batch_size=6), *ends, attains=0.2)
    pair(
        "erm dask svrg",
        _dask_fit(n_steps=10, batch_size=6, solver="variance-reduced", clip_norm=0.3),
        *ends,
    )
    _pymanopt()


def _found_clips(erm):
    """Clip norms from quantiles at the start: counts move, gradients are clipped at a release."""
    spread = np.outer(np.geomspace(1e-3, 1e3, N), [1.0, 0.0])
    fit = erm("euclidean", gradient=linear_gradient, clip_norm="private", n_steps=2)
    data = changed(spread, [1e-9, 0.0], [-1e9, 0.0])
    pair("erm found clip", fit, *data)
    pair("erm found clip noisy", fit, *data, quiet=False)
    ends = changed(np.zeros((N, 2)), [1e3, 0], [-1e3, 0])
    pair("erm found clip of equal records", fit, *ends)
    # Gradients by a product of matrices: rows have bits of their place, and are asked in blocks.
    product = {"gradient": _by_product, "n_steps": 3}
    ends = changed(np.random.default_rng(5).normal(size=(N, 2)), [1e3, 0], [-1e3, 0])
    pair("erm products", erm("euclidean", **product), *ends, attains=0.9)
    pair("erm products sampled", erm("euclidean", batch_size=6, **product), *ends, quiet=False)


def _by_product(point, X, y=None):
    """The record, turned by a product with a matrix."""
    return X @ np.array([[0.6, 0.8], [-0.8, 0.6]])


def _turning(point, X, y=None):
    """Gradients that grow with the distance from zero, along the record."""
    return X * (1.0 + 5.0 * np.linalg.norm(point))


def _dask_fit(**settings):
    def fit(accountant, X):
        import dask.array as da

        erm = PrivateRiemannianERM(
            "euclidean", gradient=linear_gradient, accountant=accountant, **settings
        )
        return erm.fit(da.from_array(X, chunks=(7, 2)))

    return fit


def _pymanopt():
    import pymanopt

    from skriemdp.pymanopt_optimizers import (
        PerSampleProblem,
        PrivateGradientDescent,
        PrivateStochasticGradientDescent,
        PrivateVarianceReducedGradientDescent,
    )

    manifold = pymanopt.manifolds.Sphere(3)

    def run(optimizer, *arguments, gradient=_principal, **settings):
        def fit(accountant, X):
            problem = PerSampleProblem(manifold, None, X, euclidean_gradient=gradient)
            made = optimizer(*arguments, accountant=accountant, verbosity=0, **settings)
            result = made.run(problem, initial_point=np.array([1.0, 0, 0]))
            result.time = None  # of the clock, which no tape replaces
            return result

        return fit

    X = np.zeros((N, 3))
    data = changed(X, [1.0, 1.0, 0], [1.0, -1.0, 0])
    pair("pymanopt descent", run(PrivateGradientDescent, max_iterations=3), *data, attains=0.5)
    fit = run(PrivateStochasticGradientDescent, 6, max_iterations=4)
    pair("pymanopt sampled", fit, *data, attains=0.2)
    settings = {"clip_norm": 0.2, "max_iterations": 10}
    fit = run(PrivateVarianceReducedGradientDescent, 6, **settings)
    pair("pymanopt svrg", fit, *data)
    # Row by row, which admits integers.
    apart = {"gradient": _principal_apart}
    fit = run(PrivateGradientDescent, max_iterations=3, **apart)
    pair("pymanopt descent exact", fit, *data, attains=0.5)
    fit = run(PrivateStochasticGradientDescent, 6, max_iterations=4, **apart)
    pair("pymanopt sampled exact", fit, *data, attains=0.2)
    fit = run(PrivateVarianceReducedGradientDescent, 6, **settings, **apart)
    pair("pymanopt svrg exact", fit, *data)


def _principal(point, X, y=None):
    return -2.0 * (X @ point)[:, None] * X


def _principal_apart(point, X, y=None):
    return -2.0 * np.einsum("ij,j->i", X, point)[:, None] * X


# -- regression -----------------------------------------------------------------------------------


def regression():
    n = 30
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 2))
    y = 0.1 * rng.normal(size=(n, 2))
    X[0] = 0.0
    ends = changed(y, [5.0, 0], [-5.0, 0])
    moved = changed(X, [0.0, 0.0], [9.0, -9.0])
    settings = {"n_frequencies": 8, "feature_scale": 1.0}
    regress = functools.partial(fitted, PrivateHyperbolicRegressor, **settings)
    origin = {"base_point": [0.0, 0.0]}
    for unit in ("record", "label"):
        here = {"privacy_unit": unit}
        labels = (X, ends[0]), (X, ends[1])
        known = {"public": (0,) if unit == "label" else ()}
        fit = regress("parametric", n_steps=4, **here, **origin)
        pair(f"regression parametric {unit}", fit, *labels, attains=0.95, **known)
        fit = regress("parametric", n_steps=4, **here)
        pair(f"regression private base {unit}", fit, *labels, attains=0.5, **known)
        pair(f"regression private base {unit} noisy", fit, *labels, quiet=False, **known)
        fit = regress("sufficient-statistics", **here, **origin)
        pair(f"regression moments {unit}", fit, *labels, attains=0.8, **known)
        for steps in (1, 3):
            fit = _answers(n_queries=1, n_steps=steps, **here, **origin)
            pair(f"regression queries {unit} {steps}", fit, *labels, attains=0.95, **known)
    both = (moved[0], ends[0]), (moved[1], ends[1])
    fit = regress("parametric", n_steps=4, **origin)
    pair("regression parametric, all", fit, *both)
    # Features at right angles, labels at the bound: second moments and products move together.
    fit = regress("sufficient-statistics", **origin)
    pair("regression moments, all", fit, *both, attains=0.5)
    pair("regression moments, private base", regress("sufficient-statistics"), *both)
    far = changed(X, [1e9, 0.0], [-1e9, 1.0])
    searched = {"feature_scale": "private", "n_steps": 3}
    fit = regress("parametric", **searched)
    data = (far[0], ends[0]), (far[1], ends[1])
    pair("regression found scale", fit, *data, attains=0.1)
    pair("regression found scale noisy", fit, *data, quiet=False)
    fit = _answers(n_queries=2, **searched)
    pair("regression queries, found scale", fit, *data)
    many = np.random.default_rng(6)
    here = changed([1.0, 1e3] * many.normal(size=(60, 2)), [-1e9, -1e9], [1e9, 1e9])
    there = changed(0.1 * many.normal(size=(60, 2)), [5.0, 0], [-5.0, 0])
    fit = regress("parametric", **searched, epsilon=30.0)
    data = (here[0], there[0]), (here[1], there[1])
    pair("regression columns", fit, *data, attains=0.3)
    pair("regression columns noisy", fit, *data, quiet=False)
    fit = regress("parametric", privacy_unit="label", **searched)
    data = (X, ends[0]), (X, ends[1])
    pair("regression public moments", fit, *data, attains=0.5, public=(0,))
    absent = (moved[0], ends[0]), (changed(X, [9e150, 9e150])[0], ends[1])
    fit = _answers(n_queries=1, n_steps=2, **origin)
    pair("regression queries, absent", fit, *absent, attains=0.9)
    pair("regression queries, absent, noisy", fit, *absent, quiet=False)
    pair(
        "regression extremes",
        regress("parametric", n_steps=3),
        both[0],
        (changed(X, [1e200, -1e200])[0], changed(y, [1e200, 1e-120])[0]),
        quiet=False,
    )


def _answers(**settings):
    learned = fitted(
        PrivateHyperbolicRegressor,
        "per-query",
        **{"feature_scale": 1.0, "n_frequencies": 8} | settings,
    )

    def fit(accountant, X, y, groups=None):
        model = learned(accountant, X, y, groups)
        asked = np.zeros((model.n_queries, 2))
        asked[:, 0] = np.arange(model.n_queries)
        return model.predict(asked)

    return fit


def along_geodesics():
    kind = PrivateGeodesicRegressor
    n, rng = 40, np.random.default_rng(4)
    X = rng.uniform(-0.5, 0.5, size=(n, 2))
    X[0] = [1.0, 0.0]
    for name, (geometry, radius) in GEOMETRIES.items():
        # Lifts at right angles: features alike and as long as they may be, responses opposite.
        ends = opposite(geometry, radius, n=n, rest=0.2 * radius, beyond=1.0)
        data = tuple((X, y) for y in ends)
        settings = {"center": geometry.base_point, "radius": radius, "feature_scale": 1.0}
        fit, slow = fitted(kind, geometry, **settings), name in ("bures", "stiefel")
        pair(f"geodesics once {name}", fit, *data, attains=0.95, slow=slow)
        # The residuals of both lie outside their radius; counts and grams stay.
        fit = fitted(kind, geometry, epsilon=400.0, **settings)
        pair(f"geodesics twice {name}", fit, *data, attains=0.5 if slow else 0.8, slow=slow)
        owners = without_labels(exchanged(*ends))
        data = tuple((np.tile(X[:1], (len(y), 1)), y, ids) for y, _, ids in owners)
        fit = fitted(kind, geometry, **settings)
        pair(f"geodesics of people {name}", fit, *data, attains=0.9, slow=slow)
    space = Hyperboloid(2)
    far = changed(X, [1e9, 0.0], [-1e9, 1.0])
    ends = opposite(space, 3.0, n=n, rest=0.2)
    data = (far[0], ends[0]), (far[1], ends[1])
    for epsilon in (1.0, 3.0, 30.0):  # of the first a constant, which looks at no features
        fit = fitted(kind, space, epsilon=epsilon)
        pair(f"geodesics found {epsilon:g}", fit, *data, attains=0.1)
        pair(f"geodesics found {epsilon:g} noisy", fit, *data, quiet=False)
    far = changed([1.0, 1e3] * X, [-1e9, -1e9], [1e9, 1e9])
    data = (far[0], ends[0]), (far[1], ends[1])
    fit = fitted(kind, space, epsilon=30.0)
    pair("geodesics columns", fit, *data, attains=0.3)
    pair("geodesics columns noisy", fit, *data, quiet=False)
    # A record crosses the distances that the searches and the radius of residuals ask about.
    spread = along(space, np.linspace(0.05, 2.0, n))
    counted = (
        (changed(X, [1e-3, 0.0])[0], changed(spread, *along(space, [1e-9]))[0]),
        (changed(X, [300.0, 0.0])[0], changed(spread, *along(space, [290.0]))[0]),
    )
    pair("geodesics counts", fitted(kind, space, epsilon=30.0), *counted)
    settings = {"radius": 3.0, "feature_scale": 1.0, "epsilon": 400.0}
    counted = tuple((X, changed(spread, *along(space, [end]))[0]) for end in (1e-9, 2.9))
    pair("geodesics counts of residuals", fitted(kind, space, **settings), *counted)
    plane = Euclidean(2)
    flat = [(X, y) for y in changed(rng.normal(size=(n, 2)), [1e6, 0.0], [-1e6, 0.0])]
    pair("geodesics constant", fitted(kind, plane), *flat, attains=0.5)
    pair("geodesics constant noisy", fitted(kind, plane), *flat, quiet=False)
    owners = without_labels(exchanged(*[y for _, y in flat]))
    flat = [(np.tile(X[:1], (len(y), 1)), y, ids) for y, _, ids in owners]
    pair("geodesics constant of people", fitted(kind, plane), *flat, attains=0.4)
    huge = (changed(X, [1e200, -1e200])[0], changed(ends[0][:, 1:], [1e200, 1e-120])[0])
    fit = fitted(kind, plane, radius=1.0, feature_scale=1.0, epsilon=400.0)
    pair("geodesics extremes", fit, (X, ends[0][:, 1:]), huge, quiet=False)


# -- search ---------------------------------------------------------------------------------------


def charge_of_a_search(tape, mine):
    """One charge for the whole; each run's fit and score cost no more than the run that it names.

    A record trains or scores, so a run costs the larger of the two.
    """
    (place, event), *fits = tape.charges
    if place or not fits or not isinstance(event, SelectionEvent):
        raise Refuted("the search was not charged, as a search, before its first release.")
    for place, run in fits:
        after = tape.draws[place:]
        end = next(i for i, draw in enumerate(after) if draw.label == ("search",))
        check_composition(after[:end], run)
        parts = getattr(event.event, "events", (event.event,))
        score = next(e for e in reversed(parts))
        check_composition(after[end : end + 1], score)
        if run not in parts and run.mu > event.event.mu * (1 + 1e-12):
            raise Refuted("a run costs more than the search was charged for.")


def search():
    X = np.zeros((40, 2))
    rng = np.random.default_rng(3)
    X[:] = 0.2 * rng.normal(size=X.shape)
    grid = {"radius": [0.5, 1.0]}
    for law in ("gaussian", "laplace"):
        estimator = PrivateFrechetMean(mechanism="tangent", noise=law, radius=1.0)
        fit = _search(estimator, grid, loss_bound=0.5)
        train, test = _places(40)
        for at, name in ((train, "training"), (test, "validation")):
            data = changed(X, [0.0, 0] if name == "validation" else [1.0, 0], [-1e9, 0], at=at)
            least = 0.25
            facts = {"changed": at, "charge": charge_of_a_search}
            title = f"search {law} {name} record"
            pair(title, fit, *data, attains=least, **facts)
            pair(f"{title} noisy", fit, *data, quiet=False, **facts)


def _search(estimator, grid, **settings):
    def fit(accountant, *data):
        original = _Prepaid.spend

        def spend(prepaid, event, **details):
            original(prepaid, event, **details)
            accountant.spend(event)

        patched = mock.patch.object(_Prepaid, "spend", spend)
        with patched:
            model = PrivateGridSearchCV(estimator, grid, accountant=accountant, **settings)
            return model.fit(*data)

    return fit


def _places(n):
    """A training and a validation position of the public split."""
    marks = np.arange(n, dtype=float)[:, None]
    (train, _), (test, _) = PrivateGridSearchCV(None, {})._split(marks, None)
    return int(train[0, 0]), int(test[0, 0])


# -- federations ----------------------------------------------------------------------------------


def updates_of_clients():
    """All records of a client change: its update goes from one end of the ball to the other."""

    def sent(accountant, numbers):
        rounds = RoundBudget.__new__(RoundBudget)  # a purse is no ledger
        rounds.budget, rounds.label = accountant, "round"
        return rounds.send(UpdateRelease(2.0, 1.5), numbers[0])

    ends = np.array([[2.0, 0.0, 0.0]]), np.array([[-2.0, 0.0, 0.0]])
    pair("client update", sent, *ends, attains=0.99)
    far = np.array([[3e8, 4e8, 0.0]]), np.array([[-3e9, -4e9, 0.0]])
    for quiet in (True, False):
        pair(f"client update beyond, quiet {quiet}", sent, *far, quiet=quiet, attains=0.99)
    broken = np.array([[np.nan, 1.0, 1.0]]), np.array([[3e200, 2.0, 0.0]])
    pair("client update not finite", sent, *broken)


def federations():
    clients = np.repeat([0, 1, 2], 8)
    space, plane = Hyperboloid(2), Euclidean(2)

    def of_client(draw):
        return draw.label[:1] != ("local",) or draw.label[1] in ("0", repr("0"))

    for geometry, name in ((plane, "euclidean"), (space, "hyperboloid"), (Sphere(2), "sphere")):
        radius = 0.4 if name == "sphere" else 1.0
        one, two = opposite(geometry, radius)
        ways = [("rsgd", 1.0)]
        if name == "hyperboloid":
            ways += [("rsgd", 0.5), ("rsvrg", 0.5)]
        for local, fraction in ways:
            estimator = PrivateFrechetMean(geometry, center=geometry.base_point, radius=radius)
            fit = _federated(estimator, 2, 3, local=local, batch_fraction=fraction, local_steps=2)
            data = (one, clients), (two, clients)
            least = 0.9 if fraction == 1.0 and name != "sphere" else 0.0
            title = f"federated {local} {fraction} {name}"
            pair(title, fit, *data, attains=least, mine=of_client)
            pair(f"{title} noisy", fit, *data, quiet=False, mine=of_client)
    estimator = PrivateRiemannianERM("euclidean", gradient=linear_gradient, start=[0.0, 0.0])
    one, two = opposite(plane, 1.0, beyond=1e6)
    fit = _federated(estimator, 3, 3, local_steps=2)
    pair("federated erm", fit, (one, clients), (two, clients), attains=0.9, mine=of_client)
    # Gradients whose difference is at the clip, in both directions.
    estimator = PrivateRiemannianERM("euclidean", gradient=_turning, start=[0.0, 0.0])
    data = [(x, clients) for x in changed(np.zeros((N, 2)), [1e3, 0], [-1.0, 0])]
    settings = {"local": "rsvrg", "batch_fraction": 0.5, "local_steps": 3, "clip_norm": 0.5}
    fit = _federated(estimator, 3, 3, **settings)
    pair("federated rsvrg, opposite differences", fit, *data, attains=0.8, mine=of_client)
    # A whole client turns round.
    steps = np.zeros(N)
    ends = []
    for sign in (1.0, -1.0):
        steps[:8] = sign
        ends.append((along(plane, steps), clients))
    estimator = PrivateFrechetMean(plane, radius=1.0)
    fit = _federated(estimator, 3, 2, unit="client", update_clip=0.5)
    pair("federated client", fit, *ends, attains=0.5, charge=charge_of_clients)
    # What a client does with own records need not be bounded, nor apart from those beside them.
    sums = PrivatePrincipalEigenvector(row_norm=1.0, center="assume")
    data = [(x, clients) for x in changed(along(plane, steps), [7.0, 1.0], [-1.0, 9.0])]
    fit = _federated(sums, 3, 2, unit="client", update_clip=0.1, clip_norm=0.5)
    pair("federated client components", fit, *data, charge=charge_of_clients)
    estimator = PrivateFrechetMean(plane, radius=1.0)
    fit = _federated(estimator, 3, 2, participation="uniform")
    data = [(x, clients) for x in opposite(plane, 1.0)]
    facts = {"mine": of_client, "charge": charge_of_rounds}
    pair("federated uniform", fit, *data, attains=0.9, **facts)
    # The round that was under way when it died is not asked again, though it was paid for.
    lost = functools.partial(Tape.check_charge, unspent=0.25)
    facts = {"mine": of_client, "charge": lost, "attains": 0.7}
    pair("federated resumed", _interrupted(estimator, 4, 3), *data, **facts)
    # A server asks from far away.
    for distance in (2.0, 6.0):
        data = opposite(space, 1.0)
        turn = np.array([[1, 0, 0], [0, 0.8, -0.6], [0, 0.6, 0.8]])
        data = [d @ turn for d in data]  # aslant to the way to the server
        fit = _agent(space, distance)
        pair(f"agent asked at {distance}", fit, *data, mine=of_client)


def _by_clients(data, wanders=False):
    """Rows, labels, clients and people: person 0 is at client 0, or at clients 0 and 1."""
    X, y, ids = data
    clients = ids % 3
    own = np.flatnonzero(ids == 0)
    if wanders:
        clients[own[1::2]] = 1
    return X, y, clients, ids


def _check_shares(tape, mine, unspent=0.0, colluding=1):
    """A check of the charge where noise comes in shares, of which a colluder knows its own."""
    clients = {draw.label[1] for draw in tape.draws}
    for draw in tape.draws:
        if (len(clients) - colluding) * share_scale(draw.shares) ** 2 <= noise.NOISE_SCALE**2:
            raise Refuted("the shares that nobody knows are too little noise.")
    tape.check_charge(mine, unspent)


def _coordinated(estimator, times=1):
    """Agents that trust a coordinator with exact sums, and what it has with its one noise."""

    def fit(accountant, X, y, clients, groups=None):
        accountant.history, sizes, agents = [], {}, {}
        for client in np.unique(clients).tolist():
            own = [None if a is None else a[clients == client] for a in (X, y, groups)]
            sizes[client] = len(own[0] if groups is None else set(own[2].tolist()))
            ledger = PrivacyAccountant(unit="record" if groups is None else "group")
            agents[client] = sums_agent(
                estimator,
                *own,
                client=client,
                accountant=ledger,
                book=None,
                clients_per_person=times,
                trust="aggregator",
            )
        public = [estimator.center] * 2, None if y is None else [0, 1]
        settings = {"grouped": groups is not None, "clients_per_person": times}
        loop = AggregatorLoop(estimator, sizes, *public, accountant=accountant, **settings)
        return loop.run(InProcessTransport(agents), None, "a fit")

    return fit


def sums_of_clients():
    def of_client(draw):
        return draw.label[1] == "0"

    def of_two(draw):
        return draw.label[1] in "01"

    def anybody(draw):
        return True

    round_of = functools.partial(_federated, n_rounds=1, local="statistic")
    plane, space = Euclidean(2), Hyperboloid(2)
    clients = np.repeat([0, 1, 2], 8)
    y = np.arange(N) % 3
    for geometry, radius in ((plane, 1.0), (Sphere(2), 0.4), (space, 1.5)):
        one, two = opposite(geometry, radius, beyond=2.0)
        means = PrivateMinimumDistanceToMean(
            geometry, center=geometry.base_point, radius=radius, classes=range(3)
        )
        fit = round_of(means)
        title = f"federated class sums {geometry}"
        facts = {"attains": 0.95, "mine": of_client}
        pair(title, fit, (one, y, clients), (two, y, clients), **facts)
        # A person with 40 rows becomes one with a single row and another label.
        data = exchanged(*opposite(geometry, radius, rest=0.3 * radius), label=1)
        pair(f"{title} people", fit, *map(_by_clients, data), **facts)
        # Somebody with records at two clients: both releases move.
        data = [owned(x, ROWS) for x in opposite(geometry, radius, rest=0.3 * radius)]
        data = [_by_clients(d, wanders=True) for d in data]
        title = f"federated class sums {geometry} of two"
        pair(title, round_of(means), *data, attains=0.95, mine=of_two)
        mean = PrivateFrechetMean(geometry, center=geometry.base_point, radius=radius)
        fit, title = round_of(mean), f"federated log sums {geometry}"
        data = (one, None, clients), (two, None, clients)
        pair(title, fit, *data, **facts)
        pair(f"{title} noisy", fit, *data, quiet=False, mine=of_client)
        # One noise for all clients: of shares, a client's own is as good as all of it.
        for trust, mine, charge in (
            ("cohort", of_client, _check_shares),
            ("aggregator", anybody, Tape.check_charge),
        ):
            facts = {"attains": 0.95, "mine": mine, "charge": charge}
            one_noise = functools.partial(round_of, trust=trust)
            title = f"federated class sums {geometry} {trust}"
            pair(title, one_noise(means), (one, y, clients), (two, y, clients), **facts)
            pair(
                f"federated log sums {geometry} {trust}",
                one_noise(mean),
                (one, None, clients),
                (two, None, clients),
                **facts,
            )
            data = exchanged(*opposite(geometry, radius, rest=0.3 * radius), label=1)
            pair(f"{title} people", one_noise(means), *map(_by_clients, data), **facts)
        data = [owned(x, ROWS) for x in opposite(geometry, radius, rest=0.3 * radius)]
        data = [_by_clients(d, wanders=True) for d in data]
        title = f"federated class sums {geometry} aggregator of two"
        fit = round_of(means, trust="aggregator")
        pair(title, fit, *data, attains=0.95)
        # A coordinator between machines, with a ledger of its own.
        title = f"federated sums {geometry} coordinator"
        pair(title, _coordinated(mean), (one, None, clients), (two, None, clients), attains=0.95)
        pair(f"{title} of two", _coordinated(means, 2), *data, attains=0.95)
        # Of two clients each moves by half, which adds up: to the sum of what two releases tell.
        half = functools.partial(_check_shares, unspent=0.5)
        title = f"federated class sums {geometry} cohort of two"
        fit = round_of(means, trust="cohort")
        pair(title, fit, *data, attains=0.95, mine=of_two, charge=half)
        facts = {"attains": 0.95, "mine": of_client}
        rows = without_labels(exchanged(*opposite(geometry, radius, rest=0.3 * radius)))
        data = [_by_clients(d) for d in rows]
        for title, fit in (("log sums", round_of(mean)), ("rsgd", _federated(mean, 2, 3))):
            title = f"federated {title} {geometry} people"
            pair(title, fit, *data, attains=0.5, mine=of_client)
    ends = [(x, None, clients) for x in opposite(plane, 1.0, beyond=2.0)]
    for kind, named in ID_KINDS.items():
        names, places = read_ids(named(clients), N, "clients")

        def fit(accountant, X, y, clients, named=named):
            log_sums = round_of(PrivateFrechetMean(plane, radius=1.0))
            return log_sums(accountant, X, y, named(clients))

        first = repr(names.tolist()[places[0]])

        def mine(draw, first=first):
            return draw.label[1] == first

        pair(f"federated ids {kind}", fit, *ends, attains=0.95, mine=mine)
    erm = PrivateRiemannianERM("euclidean", gradient=linear_gradient, start=[0.0, 0.0])
    rows = without_labels(exchanged(*opposite(plane, 1.0, rest=-0.3, beyond=1e3)))
    data = [_by_clients(d) for d in rows]
    fit = _federated(erm, 3, 3, local_steps=2)
    pair("federated erm people", fit, *data, attains=0.9, mine=of_client)
    data = [_by_clients(owned(x, ROWS), wanders=True) for x in opposite(plane, 1.0, beyond=1e3)]
    data = [(X, None, clients, ids) for X, _, clients, ids in data]
    pair("federated erm people of two", fit, *data, attains=0.9, mine=of_two)
    orthogonal = changed(np.zeros((N, 3)), [3.0, 0, 0], [0, 1.0, 0])
    components = PrivatePrincipalEigenvector(row_norm=1.0, center="assume")
    rng = np.random.default_rng(2)
    X, labels = rng.normal(size=(N, 2)), 0.1 * rng.normal(size=(N, 2))
    X[0] = 0.0
    labels = changed(labels, [5.0, 0], [-5.0, 0])
    moments = PrivateHyperbolicRegressor(
        "sufficient-statistics", feature_scale=1.0, base_point=[0.0, 0.0], n_frequencies=8
    )
    fit = round_of(components)
    data = [(x, None, clients) for x in orthogonal]
    title = "federated second moments"
    pair(title, fit, *data, attains=0.95, mine=of_client)
    data = [(X, one, clients) for one in labels]
    fit = round_of(moments)
    pair("federated moments", fit, *data, attains=0.8, mine=of_client)
    # A feature that is cut moves the count.
    data = [(x, labels[0], clients) for x in changed(X, [1e3, 0.0], [0.0, 0.0])]
    pair("federated moments cut", fit, *data, mine=of_client)
    # A person with 40 rows becomes one with a single row, at the same client.
    people = replaced(np.zeros((N, 3)), [3.0, 0, 0], [0, 1.0, 0])
    title = "federated second moments people"
    fit = round_of(components)
    pair(title, fit, *map(_by_clients, people), attains=0.95, mine=of_client)
    fit = round_of(moments)
    people = replaced(X, [0.0, 0.0], [0.0, 0.0], targets=labels)
    title = "federated moments people"
    pair(title, fit, *map(_by_clients, people), attains=0.8, mine=of_client)
    # All rows of many directions, or of one with a feature that is cut.
    rows, _, ids = people[0]
    spread = rows.copy()
    spread[ids == 0] = 30.0 * np.random.default_rng(5).normal(size=(ROWS, 2))
    everything = (spread, people[0][1], ids), people[1]
    data = map(_by_clients, everything)
    pair("federated moments cut people", fit, *data, mine=of_client)
    data = [_by_clients(owned(x, ROWS), wanders=True) for x in orthogonal]
    data = [(X, None, clients, ids) for X, _, clients, ids in data]
    title = "federated second moments of two"
    pair(title, round_of(components), *data, attains=0.95, mine=of_two)


def charge_of_clients(tape, mine):
    """A cohort of fixed size, drawn in secret: one release of the mean update in every round."""
    if len(tape.charges) != 1:
        raise Refuted(f"charged {len(tape.charges)} times.")
    ((place, event),) = tape.charges
    if place or len(tape.draws) != event.count:
        raise Refuted("releases and rounds differ in number.")
    for draw in tape.draws:
        if not math.isclose(draw.scale[0] / draw.bound[0], event.noise_multiplier, rel_tol=1e-9):
            raise Refuted(f"{draw.title}: noise of another multiplier than charged.")
        if draw.law == ("discrete-gaussian",) and event.integers != np.size(draw.exact[0]):
            raise Refuted(f"{draw.title}: {event.integers} integers were charged.")


def charge_of_rounds(tape, mine):
    """A client trains in a random number of rounds; given that number, its releases compose."""
    if len(tape.charges) != 1:
        raise Refuted(f"charged {len(tape.charges)} times.")
    ((place, event),) = tape.charges
    draws = [draw for draw in tape.draws if mine(draw)]
    if place:
        raise Refuted("released before the charge.")
    check_composition(draws, event.events[len({draw.label for draw in draws})])


def _federated(estimator, *arguments, room=math.inf, **settings):
    def fit(accountant, X, *more):
        y, clients, groups = {1: (None, *more, None), 2: (*more, None), 3: more}[len(more)]
        model = FederatedEstimator(
            estimator, *arguments, accountant=accountant, random_state=0, **settings
        )
        with mock.patch.object(planning, "_ROOM", room):  # all rounds, however much their noise
            return model.fit(X, y, clients=clients, groups=groups)

    return fit


def _interrupted(estimator, *arguments):
    """A run that dies between two rounds and is started again from its checkpoint."""

    def fit(accountant, X, clients):
        draw, died = noise.draw, []

        def dies(exact, scale, law, rng, *arguments, **facts):
            if draw.__self__.label(rng)[-1] == 2 and not died:  # the third round
                died.append(1)
                raise KeyboardInterrupt
            return draw(exact, scale, law, rng, *arguments, **facts)

        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            settings = {"checkpoint": "run", "fit_id": "a run"}
            again = _federated(estimator, *arguments, **settings)
            with contextlib.suppress(KeyboardInterrupt), mock.patch.object(noise, "draw", dies):
                again(accountant, X, clients)
            return again(accountant, X, clients)

    return fit


def _agent(geometry, distance):
    def fit(accountant, X):
        problem = PrivateFrechetMean(geometry, center=geometry.base_point, radius=1.0)._problem(X)
        settings = LocalSettings("rsgd", 1, 0.5, 1.0, math.inf)
        domain = GeodesicBall(geometry, None, 8.0)
        agent = Agent("0", problem, settings, 2.0, domain, accountant=accountant, random_state=0)
        point = along(geometry, [distance])[0]
        return agent.handle(LocalTask("a fit", 0, "0", point))

    return fit


def joint_means():
    """Means with their second moment, and tangent components."""
    region = functools.partial(fitted, PrivateFrechetMean, uncertainty=True)
    for name, (geometry, radius) in GEOMETRIES.items():
        # Opposite records have lifts at right angles.
        ends = opposite(geometry, radius)
        least = 0.8 if name not in ("bures", "stiefel") else 0.4
        here = {"manifold": geometry, "radius": radius}
        fit = region(mechanism="tangent", **here)
        pair(f"mean joint tangent moments {name}", fit, *ends, attains=least)
        fit = region(epsilon=20.0, **here)
        pair(f"mean joint adaptive {name}", fit, *ends, attains=0.4 * least)
    space = Hyperboloid(2)
    ends = opposite(space, 1.5)
    data = along(space, np.linspace(-1.5, 1.5, 120))
    neighbours = changed(data, *along(space, [9.0, -9.0]))
    pair("mean joint found", region(space, epsilon=3.0), *neighbours, attains=0.3)
    fit = fitted(PrivateTangentPCA, 2, space, epsilon=3.0)
    pair("tangent components found", fit, *neighbours, attains=0.3)
    fit = fitted(PrivateTangentPCA, 2, space, radius=1.5)
    # Lifts at right angles: a is a half.
    angle = math.acos(-0.25)
    seen = 1.5 * np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
    across = changed(ends[0], *np.asarray(space.exp_coordinates(space.base_point, seen)))
    pair("tangent components moments", fit, *across, attains=0.8)
    # A record crosses the distances that are asked about: counts move.
    spread = along(space, np.linspace(0.05, 2.0, 60))
    counted = changed(spread, *along(space, [1e-9, 290.0]))
    pair("mean joint counts", region(space), *counted)
    pair("tangent components counts", fitted(PrivateTangentPCA, 2, space), *counted)
    counted = changed(spread, *along(space, [0.0, 2.9]))
    pair("mean joint counts of a look", region(space, radius=3.0, epsilon=20.0), *counted)
    fit = fitted(PrivateTangentPCA, 2, space, radius=2.5)
    pair("tangent components cut", fit, *counted)
    rows = np.repeat(np.arange(N // 2), 2)
    both = np.array(ends[1])
    both[:2] = ends[1][0]
    whole = np.array(ends[0])
    whole[:2] = ends[0][0]

    def owned(accountant, X):
        estimator = PrivateFrechetMean(
            space, uncertainty=True, radius=1.5, mechanism="tangent", accountant=accountant
        )
        return estimator.fit(X, groups=rows)

    pair("mean joint people", owned, whole, both, attains=0.8)


# -- either side of a threshold -------------------------------------------------------------------

# Plans, laws and messages decide by public numbers; most pairs have few records and few steps.
MANY, LONG = 50_000, 200


def many_records():
    """Releases of many records have their noise, however little it is beside them."""
    plane, y = Euclidean(2), np.arange(MANY) % 3
    ends = changed(np.zeros((MANY, 2)), [3.0, 0], [-1.0, 0])
    strong = {"epsilon": 3.0}
    for mechanism in ("tangent", "gradient"):
        fit = fitted(PrivateFrechetMean, plane, radius=1.0, mechanism=mechanism, **strong)
        pair(f"mean {mechanism} of many", fit, *ends)
    fit = fitted(PrivateFrechetMean, plane, statistic="median", radius=1.0, **strong)
    pair("median of many", fit, *ends)
    fit = fitted(PrivateMinimumDistanceToMean, plane, radius=1.0, classes=range(3), **strong)
    pair("class means of many", fit, *((X, y) for X in ends))
    fit = fitted(PrivatePrincipalEigenvector, 1, row_norm=1.0, center="assume", **strong)
    pair("pca of many", fit, *ends)
    fit = fitted(PrivatePrincipalEigenvector, 1, **strong)
    rng = np.random.default_rng(0)
    pair("pca of many, found", fit, *changed(rng.normal(size=(MANY, 2)), [1e9, 0], [-1e9, 0]))
    fit = fitted(PrivateRiemannianERM, gradient=linear_gradient, clip_norm=1.0, n_steps=3, **strong)
    pair("erm of many", fit, *ends)
    known = {"feature_norm": 1.0, "target_range": (-1.0, 1.0), "loss": "squared_error"}
    targets = changed(np.zeros(MANY), 1.0, -1.0)
    fit = fitted(PrivateNoisyAdaGrad, n_steps=3, **known, **strong)
    pair("adagrad of many", fit, *zip(ends, targets, strict=True))
    fit = fitted(PrivateNoisyAdaGrad, n_steps=3, batch_size=500, **known, **strong)
    pair("adagrad of many sampled", fit, *zip(ends, targets, strict=True))
    fit = fitted(PrivateHyperbolicRegressor, "parametric", n_steps=3, **strong)
    labels = changed(np.zeros((MANY, 2)), [1.0, 0], [-1.0, 0])
    pair("regression of many", fit, *zip(ends, labels, strict=True))
    _, test = _places(400)
    X = 0.2 * rng.normal(size=(400, 2))
    for law in ("gaussian", "laplace"):
        estimator = PrivateFrechetMean(mechanism="tangent", noise=law, radius=1.0)
        fit = _search(estimator, {"radius": [0.5, 1.0]}, loss_bound=0.5)
        facts = {"changed": test, "charge": charge_of_a_search}
        pair(f"search {law} of many", fit, *changed(X, [0, 0], [-1e9, 0], at=test), **facts)


def many_steps():
    ends = changed(np.zeros((N, 2)), [1e3, 0], [-1.0, 0])
    erm = functools.partial(fitted, PrivateRiemannianERM, gradient=linear_gradient, n_steps=LONG)
    pair("erm of many steps", erm(clip_norm=1.0), *ends, attains=0.2)
    pair("erm of many steps sampled", erm(clip_norm=1.0, batch_size=6), *ends)
    known = {"feature_norm": 1.0, "target_range": (-1.0, 1.0), "loss": "squared_error"}
    data = zip(ends, changed(np.zeros(N), 1.0, -1.0), strict=True)
    pair("adagrad of many steps", fitted(PrivateNoisyAdaGrad, n_steps=LONG, **known), *data)


def clipped():
    """All records are clipped but one, or half of them and one more: messages know no more."""
    for share, count in (("all", N), ("half", N // 2)):
        X = np.zeros((N, 2))
        X[:count, 0] = 50.0
        rows = changed(X, [50.0, 0], [0.0, 0])
        labels = changed(np.zeros((N, 1)), [0.5], [-0.5])
        y = np.arange(N) % 2
        strong = {"epsilon": 20.0}
        models = {
            "mean": fitted(PrivateFrechetMean, Euclidean(2), radius=1.0, **strong),
            "pca": fitted(PrivatePrincipalEigenvector, 1, row_norm=1.0, center="assume", **strong),
            "erm": fitted(
                PrivateRiemannianERM, gradient=linear_gradient, clip_norm=1.0, n_steps=2, **strong
            ),
        }
        for name, fit in models.items():
            pair(f"{name} {share} clipped", fit, *rows)
        fit = fitted(
            PrivateMinimumDistanceToMean, Euclidean(2), radius=1.0, classes=range(2), **strong
        )
        pair(f"class means {share} clipped", fit, *((one, y) for one in rows))
        fit = fitted(
            PrivateHyperbolicRegressor, "parametric", feature_scale=1.0, base_point=[0.0],
            n_steps=2, **strong,
        )  # fmt: skip
        pair(f"regression {share} clipped", fit, *zip(rows, labels, strict=True))
        fit = fitted(
            PrivateGeodesicRegressor, Euclidean(2), radius=1.0, center=np.zeros(2),
            feature_scale=1.0, feature_center=[0.0], **strong,
        )  # fmt: skip
        pair(f"geodesic {share} clipped", fit, *((np.zeros((N, 1)), one) for one in rows))


def kinds_of_labels():
    """Neighbours whose labels lie in arrays of unlike types: the longest one that occurs tells."""
    X, names = np.zeros((N, 2)), ["a", "b", "a label that is long"]
    short = np.array(names[:2] * (N // 2))
    long = short.astype(object)
    long[0] = names[2]
    long = long.astype(str)
    whole, part = np.arange(N) % 2, (np.arange(N) % 2).astype(float)
    part[0] = 2.0
    kinds = {
        "text": (names, short, long),
        "numbers": ([0.0, 1.0, 2.0], whole, part),
        "short integers": ([0, 1, 300], whole.astype(np.int8), np.where(np.arange(N), whole, 300)),
        "objects": (names, short, long.astype(object)),
    }
    for kind, (classes, one, other) in kinds.items():
        settings = {"classes": classes, "epsilon": 3.0}
        for name, fit in (
            ("adagrad", fitted(PrivateNoisyAdaGrad, feature_norm=1.0, n_steps=2, **settings)),
            (
                "class means",
                fitted(PrivateMinimumDistanceToMean, Euclidean(2), radius=1.0, **settings),
            ),
        ):
            pair(f"{name} labels of {kind}", fit, (X, one), (X, other))


for _family in (
    means,
    tables,
    medians,
    joint_means,
    class_means,
    people,
    components,
    completion,
    linear_models,
    tangent_classifiers,
    risks,
    regression,
    searches,
    curators,
    along_geodesics,
    search,
    updates_of_clients,
    federations,
    sums_of_clients,
    many_records,
    many_steps,
    clipped,
    kinds_of_labels,
):
    _family()
