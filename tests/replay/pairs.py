"""Neighbouring data sets built to move each release as far as its theorem allows."""

from __future__ import annotations

import contextlib
import functools
import math
import tempfile
from unittest import mock

import numpy as np
from scipy import sparse

from replay.tape import Pair, Refuted, Tape, check_composition
from skriemdp import (
    PrivateFrechetMean,
    PrivateGridSearchCV,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    config_context,
    selection,
)
from skriemdp.federated import FederatedEstimator
from skriemdp.federated.agent import Agent
from skriemdp.federated.messages import LocalTask
from skriemdp.federated.training import LocalSettings
from skriemdp.geometry import (
    AffineInvariantSPD,
    BuresWassersteinSPD,
    Euclidean,
    GeodesicBall,
    Grassmann,
    Hyperboloid,
    LogEuclideanSPD,
    Poincare,
    Sphere,
    Stiefel,
)
from skriemdp.mechanisms import noise
from skriemdp.privacy.events import GaussianEvent, SelectionEvent

PAIRS: list[Pair] = []


def pair(name, fit, data, other, attains=0.0, **facts):
    """Add a pair; data are tuples of arrays, or one array."""
    data, other = (d if isinstance(d, tuple) else (d,) for d in (data, other))
    PAIRS.append(Pair(name, fit, data, other, attains, **facts))


def fitted(kind, *arguments, arithmetic="auto", **settings):
    """``fit(accountant, *data)`` of an estimator, in this arithmetic."""

    def fit(accountant, *data):
        with config_context(arithmetic=arithmetic):
            return kind(*arguments, **settings, accountant=accountant).fit(*data)

    return fit


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
}


def opposite(geometry, radius, n=N, rest=0.0, beyond=1.0):
    """One record moves from one end of the ball to the other; the rest stay put."""
    steps = np.full(n, rest)
    steps[0] = radius * beyond
    first = along(geometry, steps)
    steps[0] = -radius
    return first, along(geometry, steps)


def means():
    for name, (geometry, radius) in GEOMETRIES.items():
        here = {"manifold": geometry, "radius": radius, "arithmetic": "float"}
        for mechanism in ("tangent", "gradient", "adaptive"):
            least = {"tangent": 0.8, "gradient": 0.8, "adaptive": 0.7}[mechanism]
            pair(
                f"mean {mechanism} {name}",
                fitted(PrivateFrechetMean, mechanism=mechanism, noise="gaussian", **here)
                if mechanism == "tangent"
                else fitted(PrivateFrechetMean, mechanism=mechanism, **here),
                *opposite(geometry, radius),
                attains=least if name not in ("bures", "stiefel") else 0.4,
            )
    plane, space = Euclidean(2), Hyperboloid(2)
    for law, delta in (("radial", 1e-5), ("laplace", 1e-5), ("laplace", 0.0)):
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
    fit = fitted(PrivateFrechetMean, AffineInvariantSPD(2), mechanism="laplace", delta=0.0)
    data = opposite(AffineInvariantSPD(2), 1.0, n=80)
    pair("mean output laplace spd", fit, *data, attains=0.9, geometry=AffineInvariantSPD(2))
    fit = fitted(PrivateFrechetMean, space, mechanism="k-norm", delta=0.0)
    data = opposite(space, 1.0, n=80)
    pair("mean k-norm", fit, *data, attains=0.8, geometry=space)
    for geometry, name in ((plane, "euclidean"), (space, "hyperboloid")):
        for mechanism in ("tangent", "gradient", "adaptive"):
            fit = fitted(PrivateFrechetMean, geometry, mechanism=mechanism, arithmetic="lattice")
            pair(f"mean lattice {mechanism} {name}", fit, *opposite(geometry, 1.0), attains=0.7)
            # Noisy answers, and a record beyond the ball.
            data = opposite(geometry, 1.0, rest=0.2, beyond=3.0)
            pair(f"mean lattice {mechanism} {name} noisy", fit, *data, quiet=False)
    for arithmetic in ("float", "lattice"):
        for center, radius in (("private", "auto"), (None, "auto"), ("private", 1.0)):
            for quiet in (True, False):
                fit = fitted(
                    PrivateFrechetMean,
                    space,
                    center=center,
                    radius=radius,
                    arithmetic=arithmetic,
                    mechanism="gradient",
                )
                kind = f"mean {arithmetic} center {center} radius {radius} quiet {quiet}"
                data = opposite(space, 4.0, rest=0.3, n=40)
                pair(kind, fit, *data, quiet=quiet, attains=0.5 if quiet else 0.0)
    # A record crosses the distance that a search asks about: its counts move.
    spread = along(space, np.linspace(0.05, 2.0, 60))
    data = changed(spread, *along(space, [1e-9, 290.0]))
    fit = fitted(PrivateFrechetMean, space, radius="auto", mechanism="tangent")
    pair("mean counts of a radius", fit, *data, attains=0.05)
    fit = fitted(PrivateFrechetMean, space, radius=3.0, mechanism="adaptive")
    pair("mean counts of an adaptive radius", fit, *changed(spread, *along(space, [0, 2.9])))
    fit = fitted(PrivateFrechetMean, space, center="private", radius="auto")
    pair("mean counts of a zoom", fit, *changed(spread, *along(space, [1e-9, 290.0])))
    # Means that are iterated, in positive and in negative curvature.
    iterated = {"mechanism": "tangent", "noise": "gaussian", "epsilon": 30.0}
    fit = fitted(PrivateFrechetMean, Sphere(2), radius=0.4, **iterated)
    pair("mean iterated sphere", fit, *opposite(Sphere(2), 0.4, n=60), attains=0.7)
    fit = fitted(PrivateFrechetMean, space, radius=2.0, **iterated)
    pair("mean iterated hyperboloid", fit, *opposite(space, 2.0, n=60), attains=0.8)
    fit = fitted(PrivateFrechetMean, space, radius="auto", arithmetic="lattice")
    pair("mean exact counts of a radius", fit, *data, attains=0.05)
    # Descent that starts away from the centre, more steps, retractions, clipped logarithms.
    start = along(space, [0.9])[0]
    settings = {"mechanism": "gradient", "n_steps": 3, "clip_norm": 0.7, "start": start}
    fit = fitted(PrivateFrechetMean, space, output="average", retraction=True, **settings)
    pair("mean clipped descent", fit, *opposite(space, 1.0), attains=0.4)
    pair("mean clipped descent, noisy", fit, *opposite(space, 1.0, rest=0.5), quiet=False)
    fit = fitted(PrivateFrechetMean, Sphere(2), radius=0.4, mechanism="gradient", n_steps=4)
    pair("mean descent sphere noisy", fit, *opposite(Sphere(2), 0.4, rest=0.1), quiet=False)
    # Extreme norms, repeated records, single precision.
    flat = np.full((N, 2), 0.25)
    fit = fitted(PrivateFrechetMean, "euclidean", mechanism="gradient")
    for small, large in ((1e-120, -1e200), (1e200, -1e200), (0.0, 1e150)):
        pair(f"mean norms {small} {large}", fit, *changed(flat, [small, 0], [large, 0]))
    data = [d.astype(np.float32) for d in opposite(plane, 1.0)]
    pair("mean single precision", fit, *data, attains=0.8)
    same = np.tile([0.6, 0.8], (N, 1))
    fit = fitted(PrivateFrechetMean, "euclidean", mechanism="adaptive")
    pair("mean of one repeated record", fit, *changed(same, [0.6, 0.8], [-0.6, -0.8]), attains=0.5)
    for name, (geometry, radius) in GEOMETRIES.items():
        if geometry.point_ndim == 2 and name in ("spd", "bures", "log-euclidean"):
            points = np.array(opposite(geometry, radius)[0])
            near, far = np.diag([1e-3, 1.0]), np.diag([1e150, 1e-150])
            fit = fitted(PrivateFrechetMean, geometry, radius=radius, mechanism="gradient")
            pair(f"mean {name} of an extreme matrix", fit, *changed(points, near, far))


def class_means():
    plane = Euclidean(2)
    y = np.arange(N) % 3
    for name, (geometry, radius) in GEOMETRIES.items():
        one, two = opposite(geometry, radius)
        settings = {"radius": radius, "classes": range(3)}
        fit = fitted(PrivateMinimumDistanceToMean, geometry, arithmetic="float", **settings)
        pair(f"class means {name}", fit, (one, y), (two, y), attains=0.95)
        other = y.copy()
        other[0] = 1
        fit = fitted(PrivateMinimumDistanceToMean, geometry, **settings)
        pair(f"class means, other label {name}", fit, (one, y), (two, other), attains=0.95)
    one, two = opposite(plane, 1.0)
    fit = fitted(PrivateMinimumDistanceToMean, plane, classes=range(3), delta=0.0)
    other = np.where(np.arange(N) == 0, 1, y)
    pair("class means pure", fit, (one, y), (two, other), attains=0.95)
    one, two = opposite(plane, 1.0, beyond=1e9)
    fit = fitted(PrivateMinimumDistanceToMean, plane, classes=range(3))
    pair("class means noisy", fit, (one, y), (two, y), attains=0.95, quiet=False)


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
    pair("pca covariance", pca(mechanism="covariance", **known), *orthogonal, attains=0.95)
    fit = pca(mechanism="covariance", arithmetic="lattice", **known)
    pair("pca covariance exact", fit, *orthogonal, attains=0.95)
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
        pair(f"pca refine {k}", pca(k, mechanism="refine", **known), *frame, attains=0.25)
        pair(f"pca power {k}", pca(k, mechanism="power", n_steps=2, **known), *frame)
        fit = pca(k, mechanism="exponential", delta=0.0, **known)
        pair(f"pca exponential {k}", fit, *frame, attains=0.5)
        for seed in range(2):
            one, two = rng.normal(size=(2, d))
            data = changed(cloud, one / np.linalg.norm(one), two / np.linalg.norm(two))
            for mechanism in ("refine", "power"):
                steps = 2 if mechanism == "power" else None
                fit = pca(k, mechanism=mechanism, n_steps=steps, **known)
                pair(f"pca {mechanism} {k} cloud {seed}", fit, *data, quiet=bool(seed))
    for manifold, k in (("sphere", 1), ("stiefel", 2), ("grassmann", 2), ("ambient", 1)):
        fit = pca(k, mechanism="gradient", manifold=manifold, n_steps=3, **known)
        w = _start_frame(d, k)[:, 0]
        across = np.linalg.svd(np.column_stack([w, _start_frame(d, k)]))[0][:, -1]
        data = changed(zeros, (w + across) / math.sqrt(2), (w - across) / math.sqrt(2))
        pair(f"pca gradient {manifold}", fit, *data, attains=0.2)
        pair(f"pca gradient {manifold} noisy", fit, *data, quiet=False)
    # Products z z'w shortened to a small norm, from both sides.
    w = _start_frame(d, 1)[:, 0]
    across = np.linalg.svd(w[:, None])[0][:, -1]
    little = np.tile(1e-4 * across + 1e-5 * w, (n, 1))
    slope = 1e-3
    data = changed(little, across + slope * w, -across + slope * w)
    pair("pca power, shortened products", pca(mechanism="power", n_steps=1, **known), *data)
    # Found centres and norms: far data, opposite rows at the bound, pairs of equal rows.
    far = cloud + [50.0, 0, 0]
    for mechanism in ("covariance", "refine", "power", "gradient"):
        fit = pca(mechanism=mechanism)
        data = changed(far, [1e9, 0, 0], [-1e9, 0, 0])
        pair(f"pca {mechanism} private centre", fit, *data)
        data = changed(cloud, [0, 0, 1e-120], [0, 1e200, 0])
        pair(f"pca {mechanism} extreme norms", fit, *data, quiet=False)
    fit = pca(mechanism="exponential", delta=0.0)
    pair("pca exponential private centre", fit, *changed(far, [1e9, 0, 0], [-1e9, 0, 0]))
    pair("pca exponential noisy", fit, *changed(far, [1e9, 0, 0], [0, 0, 0]), quiet=False)
    # The effective rank pairs row 0 with row n / 2.
    cosine = np.array(cloud)
    cosine[n // 2] = [0, 0, 2.0]
    data = changed(cosine, [0, 0, 1.0], [0, 1.0, 0])
    pair("pca rank", pca(mechanism="covariance", center="assume"), *data)
    pair("pca rank, pure", pca(mechanism="exponential", center="assume", delta=0.0), *data)
    ends = np.tile([1.0, 0, 0], (n, 1))
    data = changed(ends, [1e8, 0, 0], [-1e8, 0, 0])
    pair("pca mean of clipped rows", pca(mechanism="covariance", row_norm=1.0), *data)
    steps = np.outer(np.geomspace(1e-6, 1e6, n), [1.0, 0, 0])
    data = changed(steps, [1e-300, 0, 0], [1e200, 0, 0], at=3)
    pair("pca counts of norms", pca(mechanism="covariance", center="assume"), *data, changed=3)


def _start_frame(d, k):
    from skriemdp.pca.releases import _public_frame

    return _public_frame(d, k, 0)


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
    pair("completion items", complete(method="none"), *disjoint, attains=0.8)
    pair("completion items noisy", complete(method="none"), *disjoint, attains=0.8, quiet=False)
    few = changed(crowd, *ratings([{0: 5.0}, {0: 1.0}], d))
    pair("completion one opposite rating", complete(method="none"), *few, attains=0.05)
    nothing = changed(crowd, *ratings([{}, left | right], d))
    pair("completion nothing rated", complete(method="none"), *nothing, attains=0.2)
    flat = changed(crowd, *ratings([{}, dict.fromkeys(range(d), 3.0)], d))
    pair("completion all alike", complete(method="none"), *flat, attains=0.2)
    fit = complete(2, method="covariance", **strong)
    pair("completion covariance", fit, *disjoint, attains=0.8)
    pair("completion covariance noisy", fit, *disjoint, quiet=False)
    for step in (0.5, 4.0):
        fit = complete(2, method="gradient", n_steps=3, step_size=step, **strong)
        pair(f"completion gradient {step}", fit, *disjoint, attains=0.5)
        pair(f"completion gradient {step} noisy", fit, *disjoint, quiet=False)
    clipped = {"clip_norm": 1e-3, "n_steps": 2, "method": "gradient", "ridge": 1e-3}
    pair("completion gradient, small clip", complete(2, **clipped, **strong), *disjoint)
    fit = complete(2, method="stochastic", batch_size=8, n_steps=4, **strong)
    pair("completion stochastic", fit, *disjoint)
    fit = complete(2, method="gradient", epsilon=60.0, n_steps=2)
    pair("completion paid signal", fit, *disjoint)
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
    pair("completion votes", complete(2, method="covariance", **strong), *some)
    pair(
        "completion extremes",
        complete(method="none"),
        *changed(crowd, np.full(d, 1e200), np.full(d, -1e200)),
    )
    with np.errstate(all="ignore"):
        stored = [sparse.csr_array(np.nan_to_num(x)) for x in disjoint]
    pair("completion sparse", complete(method="none"), *stored, attains=0.5)


def _signal(accountant, residuals):
    from skriemdp._random import NoiseStreams
    from skriemdp.completion.releases import CompletionPlan, _measured_signal

    n, d = residuals.shape
    plan = CompletionPlan(mu=1.0, n=n, d=d, rank=2)
    accountant.spend(GaussianEvent(1.0 / plan.mu_of(plan.small["signal"])))
    return _measured_signal(residuals, plan, 2, 10.0, NoiseStreams(0))


# -- linear models --------------------------------------------------------------------------------


def linear_models():
    n, p = 30, 2
    X, y = np.zeros((n, p)), np.zeros(n)
    X[:, 1] = 0.3
    rows = changed(X, [1.0, 0], [1.0, 0])
    targets = changed(y, 1.0, -1.0)
    adagrad = functools.partial(fitted, PrivateNoisyAdaGrad)
    public = np.eye(p)
    for name in ("noised", "diagonal", "norm", "paper", "public", "none"):
        more = {"public_X": public} if name == "public" else {}
        for loss in ("squared_error", "huber"):
            fit = adagrad(loss, name, n_steps=4, fit_intercept=False, **more)
            least = {"paper": 0.5, "noised": 0.8}.get(name, 0.8)
            data = (rows[0], targets[0]), (rows[1], targets[1])
            pair(f"adagrad {loss} {name}", fit, *data, attains=least)
    data = (rows[0], targets[0]), (rows[1], targets[1])
    fit = adagrad("squared_error", "noised", n_steps=6, batch_size=10)
    pair("adagrad sampled", fit, *data, attains=0.3)
    pair("adagrad sampled noisy", fit, *data, quiet=False)
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


# -- empirical risk -------------------------------------------------------------------------------


def linear_gradient(point, X, y=None):
    """Of minus the inner product: the record itself, whatever the point."""
    return X


def risks():
    erm = functools.partial(fitted, PrivateRiemannianERM)
    flat = np.zeros((N, 2))
    ends = changed(flat, [1e3, 0], [-1.0, 0])
    gradient = {"gradient": linear_gradient}
    pair("erm descent", erm("euclidean", n_steps=3, **gradient), *ends, attains=0.95)
    fit = erm("euclidean", n_steps=3, center=[0.0, 0], radius=2.0, **gradient)
    pair("erm descent in a ball", fit, *ends, attains=0.95)
    for sampling, least in (("poisson", 0.2), ("fixed-size", 0.5)):
        fit = erm("euclidean", n_steps=6, batch_size=6, sampling=sampling, **gradient)
        pair(f"erm {sampling}", fit, *ends, attains=least)
        pair(f"erm {sampling} noisy", fit, *ends, quiet=False)
    settings = {"solver": "variance-reduced", "epoch_length": 3, "n_steps": 8, "batch_size": 6}
    for sampling, clip, geometry, radius in (
        ("poisson", {"difference_clip": 0.05}, Sphere(2), 1.0),
        ("poisson", {"smoothness": 1.0}, Hyperboloid(2), 2.0),
        ("fixed-size", {"difference_clip": 0.05}, Sphere(2), 1.0),
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
        difference_clip=0.5,
        epoch_length=2,
        n_steps=6,
        batch_size=6,
    )
    pair("erm svrg, opposite differences", fit, *ends, attains=0.2)
    for name, (geometry, radius) in GEOMETRIES.items():
        if name == "bures":
            continue
        fit = erm(geometry, n_steps=3, clip_norm=0.5 * radius, arithmetic="float")
        pair(f"erm {name}", fit, *opposite(geometry, radius), attains=0.5)
    space = Hyperboloid(2)
    for distance in (5.0, 16.0):
        start = along(space, [distance])[0]
        data = opposite(space, distance + 1.0, rest=0.1)
        for arithmetic in ("float", "auto"):
            fit = erm(space, n_steps=2, start=start, arithmetic=arithmetic)
            pair(f"erm start at {distance} {arithmetic}", fit, *data)
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
        _dask_fit(
            n_steps=6, batch_size=6, solver="variance-reduced", epoch_length=2, difference_clip=0.3
        ),
        *ends,
    )
    _pymanopt()


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

    def run(optimizer, *arguments, **settings):
        def fit(accountant, X):
            problem = PerSampleProblem(manifold, None, X, euclidean_gradient=_principal)
            made = optimizer(*arguments, accountant=accountant, verbosity=0, **settings)
            return made.run(problem, initial_point=np.array([1.0, 0, 0]))

        return fit

    X = np.zeros((N, 3))
    data = changed(X, [1.0, 1.0, 0], [1.0, -1.0, 0])
    pair("pymanopt descent", run(PrivateGradientDescent, max_iterations=3), *data, attains=0.5)
    fit = run(PrivateStochasticGradientDescent, 6, max_iterations=4)
    pair("pymanopt sampled", fit, *data, attains=0.2)
    settings = {"epoch_length": 2, "difference_clip": 0.2, "max_iterations": 6}
    fit = run(PrivateVarianceReducedGradientDescent, 6, **settings)
    pair("pymanopt svrg", fit, *data)


def _principal(point, X, y=None):
    return -2.0 * (X @ point)[:, None] * X


# -- regression -----------------------------------------------------------------------------------


def regression():
    n = 30
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 2))
    y = 0.1 * rng.normal(size=(n, 2))
    X[0] = 0.0
    ends = changed(y, [5.0, 0], [-5.0, 0])
    moved = changed(X, [0.0, 0.0], [9.0, -9.0])
    regress = functools.partial(fitted, PrivateHyperbolicRegressor, n_frequencies=8)
    origin = {"base_point": [0.0, 0.0]}
    for unit in ("record", "label"):
        here = {"privacy_unit": unit}
        labels = (X, ends[0]), (X, ends[1])
        fit = regress("parametric", n_steps=4, arithmetic="float", **here, **origin)
        pair(f"regression parametric {unit}", fit, *labels, attains=0.95)
        fit = regress("parametric", n_steps=4, arithmetic="lattice", **here, **origin)
        pair(f"regression exact {unit}", fit, *labels, attains=0.95)
        fit = regress("parametric", n_steps=4, **here)
        pair(f"regression private base {unit}", fit, *labels, attains=0.5)
        pair(f"regression private base {unit} noisy", fit, *labels, quiet=False)
        fit = regress("sufficient-statistics", **here, **origin)
        pair(f"regression moments {unit}", fit, *labels, attains=0.5)
        for steps in (1, 3):
            fit = _answers(n_queries=1, n_steps=steps, privacy_unit=unit, **origin)
            pair(f"regression queries {unit} {steps}", fit, *labels, attains=0.95)
    both = (moved[0], ends[0]), (moved[1], ends[1])
    for arithmetic in ("float", "lattice"):
        fit = regress("parametric", n_steps=4, arithmetic=arithmetic, **origin)
        pair(f"regression parametric, all, {arithmetic}", fit, *both)
    # Features at right angles, labels at the bound: second moments and products move together.
    pair("regression moments, all", regress("sufficient-statistics", **origin), *both, attains=0.5)
    absent = (moved[0], ends[0]), (changed(X, [9e150, 9e150])[0], ends[1])
    pair("regression queries, absent", _answers(n_queries=1, n_steps=2, **origin), *absent)
    pair(
        "regression extremes",
        regress("parametric", n_steps=3, arithmetic="float"),
        both[0],
        (changed(X, [1e200, -1e200])[0], changed(y, [1e200, 1e-120])[0]),
        quiet=False,
    )


def _answers(**settings):
    def fit(accountant, X, y):
        model = PrivateHyperbolicRegressor(
            "per-query", n_frequencies=8, accountant=accountant, **settings
        ).fit(X, y)
        asked = np.zeros((model.n_queries, 2))
        asked[:, 0] = np.arange(model.n_queries)
        return model.predict(asked)

    return fit


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
    for law in ("gaussian", "radial"):
        estimator = PrivateFrechetMean(mechanism="tangent", noise=law)
        fit = _search(estimator, grid, loss_bound=0.5)
        train, test = _places(40)
        for at, name in ((train, "training"), (test, "validation")):
            data = changed(X, [0.0, 0] if name == "validation" else [1.0, 0], [-1e9, 0], at=at)
            least = 0.25
            facts = {"changed": at, "charge": charge_of_a_search}
            pair(f"search {law} {name} record", fit, *data, attains=least, **facts)
            pair(f"search {law} {name} record noisy", fit, *data, quiet=False, **facts)


def _search(estimator, grid, **settings):
    def fit(accountant, X):
        original = selection._Prepaid.spend

        def spend(prepaid, event, **details):
            original(prepaid, event, **details)
            accountant.spend(event)

        with mock.patch.object(selection._Prepaid, "spend", spend):
            model = PrivateGridSearchCV(estimator, grid, accountant=accountant, **settings)
            return model.fit(X)

    return fit


def _places(n):
    """A training and a validation position of the public split."""
    marks = np.arange(n, dtype=float)[:, None]
    (train, _), (test, _) = PrivateGridSearchCV(None, {})._split(marks, None)
    return int(train[0, 0]), int(test[0, 0])


# -- federations ----------------------------------------------------------------------------------


def federations():
    groups = np.repeat([0, 1, 2], 8)
    space, plane = Hyperboloid(2), Euclidean(2)

    def of_client(draw):
        return draw.label[:1] != ("local",) or draw.label[1] == "0"

    for geometry, name in ((plane, "euclidean"), (space, "hyperboloid"), (Sphere(2), "sphere")):
        radius = 0.4 if name == "sphere" else 1.0
        one, two = opposite(geometry, radius)
        ways = [("rsgd", 1.0)]
        if name == "hyperboloid":
            ways += [("rsgd", 0.5), ("rsvrg", 0.5)]
        for local, fraction in ways:
            estimator = PrivateFrechetMean(geometry, radius=radius)
            fit = _federated(estimator, 2, 3, local=local, batch_fraction=fraction, local_steps=2)
            data = (one, groups), (two, groups)
            least = 0.9 if fraction == 1.0 and name != "sphere" else 0.0
            title = f"federated {local} {fraction} {name}"
            pair(title, fit, *data, attains=least, mine=of_client)
            pair(f"{title} noisy", fit, *data, quiet=False, mine=of_client)
    estimator = PrivateRiemannianERM("euclidean", gradient=linear_gradient, start=[0.0, 0.0])
    one, two = opposite(plane, 1.0, beyond=1e6)
    fit = _federated(estimator, 3, 3, local_steps=2)
    pair("federated erm", fit, (one, groups), (two, groups), attains=0.9, mine=of_client)
    # A whole client turns round.
    steps = np.zeros(N)
    ends = []
    for sign in (1.0, -1.0):
        steps[:8] = sign
        ends.append((along(plane, steps), groups))
    estimator = PrivateFrechetMean(plane)
    fit = _federated(estimator, 3, 2, unit="client", update_clip=0.5)
    pair("federated client", fit, *ends, attains=0.5, charge=charge_of_clients)
    estimator = PrivateFrechetMean(plane)
    fit = _federated(estimator, 3, 2, participation="uniform")
    data = [(x, groups) for x in opposite(plane, 1.0)]
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


def charge_of_clients(tape, mine):
    """A cohort of fixed size, drawn in secret: one release of the mean update in every round."""
    if len(tape.charges) != 1:
        raise Refuted(f"charged {len(tape.charges)} times.")
    ((place, event),) = tape.charges
    if place or len(tape.draws) != event.count:
        raise Refuted("releases and rounds differ in number.")
    for draw in tape.draws:
        if not math.isclose(draw.scale[0] / draw.bound[0], event.noise_multiplier, rel_tol=1e-9):
            raise Refuted(f"{draw.site}: noise of another multiplier than charged.")


def charge_of_rounds(tape, mine):
    """A client trains in a random number of rounds; given that number, its releases compose."""
    if len(tape.charges) != 1:
        raise Refuted(f"charged {len(tape.charges)} times.")
    ((place, event),) = tape.charges
    draws = [draw for draw in tape.draws if mine(draw)]
    if place:
        raise Refuted("released before the charge.")
    check_composition(draws, event.events[len({draw.label for draw in draws})])


def _federated(estimator, *arguments, **settings):
    def fit(accountant, X, groups):
        model = FederatedEstimator(
            estimator, *arguments, accountant=accountant, random_state=0, **settings
        )
        return model.fit(X, groups=groups)

    return fit


def _interrupted(estimator, *arguments):
    """A run that dies between two rounds and is started again from its checkpoint."""

    def fit(accountant, X, groups):
        draw, died = noise.draw, []

        def dies(exact, scale, law, rng, *arguments, **facts):
            if draw.__self__.label(rng)[-1] == 2 and not died:  # the third round
                died.append(1)
                raise KeyboardInterrupt
            return draw(exact, scale, law, rng, *arguments, **facts)

        with tempfile.TemporaryDirectory() as folder:
            settings = {"checkpoint": f"{folder}/run", "fit_id": "a run"}
            again = _federated(estimator, *arguments, **settings)
            with contextlib.suppress(KeyboardInterrupt), mock.patch.object(noise, "draw", dies):
                again(accountant, X, groups)
            return again(accountant, X, groups)

    return fit


def _agent(geometry, distance):
    def fit(accountant, X):
        problem = PrivateFrechetMean(geometry, radius=1.0)._problem(X)
        settings = LocalSettings("rsgd", 1, 1, 0.5, 1.0, math.inf)
        domain = GeodesicBall(geometry, None, 8.0)
        agent = Agent("0", problem, settings, 2.0, domain, accountant=accountant, random_state=0)
        point = along(geometry, [distance])[0]
        return agent.handle(LocalTask("a fit", 0, "0", point))

    return fit


for _family in (
    means,
    class_means,
    components,
    completion,
    linear_models,
    risks,
    regression,
    search,
    federations,
):
    _family()
