"""Time of fits and steps over that of the same arithmetic without privacy: one table.

    python benchmarks/limits.py                        # this source tree
    python benchmarks/limits.py --against OTHER_TREE   # "before" is that one, in turns
    python benchmarks/limits.py --only PCA --repeats 9

Each cell is measured in its own process, with one thread: processor time of the private side over
that of its yardstick, the median over measurements that alternate, so that load hits both alike.
Cells of "ms" are processor milliseconds with no calibration kept. A first fit counts the imports of
the package, bytecode cached, and is the median over processes.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

HERE = Path(__file__).resolve().parents[1]


def ratio(private, bare, repeats):
    """Median of processor times of `private` over those of `bare`, measured in turns."""
    counts = []
    for function in (private, bare):
        function()
        start = time.process_time()
        function()
        taken = max(time.process_time() - start, 1e-6)
        counts.append(max(1, round(0.02 / taken)))
    found = []
    for _ in range(repeats):
        seconds = []
        for function, count in zip((private, bare), counts, strict=True):
            start = time.process_time()
            for _ in range(count):
                function()
            seconds.append((time.process_time() - start) / count)
        found.append(seconds[0] / seconds[1])
    return statistics.median(found)


def cloud(name, n):
    """Geometry and records; the ball has radius 1, or 1/2, and .01 if the name ends in "tight"."""
    from skriemdp import geometry as g
    from skriemdp.datasets import make_cloud

    kind, size, *tight = name.split()
    kinds = {"SPD": g.SPD, "sphere": g.Sphere, "hyperboloid": g.Hyperboloid}
    kinds |= {"log-Euclidean": g.LogEuclideanSPD, "Stiefel": g.Stiefel, "Grassmann": g.Grassmann}
    geometry = kinds[kind](*map(int, size.split("x")))
    radius = 0.01 if tight else 0.5 if kind in ("sphere", "Stiefel", "Grassmann") else 1.0
    return geometry, make_cloud(geometry, n, radius=radius, rng=np.random.default_rng(0)), radius


def default_mean(geometry, **settings):
    from skriemdp import PrivacyAccountant, PrivateFrechetMean

    return PrivateFrechetMean(geometry, accountant=PrivacyAccountant(), **settings)


def over_pyriemann(name, n, repeats):
    from pyriemann.geometry.mean import mean_riemann

    geometry, X, _ = cloud(name, n)
    model = default_mean(geometry)
    return ratio(lambda: model.fit(X), lambda: mean_riemann(X), repeats)


def over_logeuclid(name, n, repeats):
    from pyriemann.geometry.mean import mean_logeuclid

    geometry, X, _ = cloud(name, n)
    model = default_mean(geometry)
    return ratio(lambda: model.fit(X), lambda: mean_logeuclid(X), repeats)


def over_svd(name, n, repeats):
    geometry, X, _ = cloud(name, n)
    model = default_mean(geometry)
    return ratio(lambda: model.fit(X), lambda: np.linalg.svd(X, full_matrices=False), repeats)


def public_over_searched(name, n, repeats):
    """A mean in the ball that is known over one in a ball that is searched."""
    geometry, X, radius = cloud(name, n)
    known = default_mean(geometry, center=geometry.base_point, radius=radius)
    searched = default_mean(geometry)
    return ratio(lambda: known.fit(X), lambda: searched.fit(X), repeats)


def exact_over_private(name, n, repeats):
    from skriemdp import frechet_mean

    geometry, X, _ = cloud(name, n)
    model = default_mean(geometry)
    return ratio(lambda: frechet_mean(X, geometry), lambda: model.fit(X), repeats)


def small_fit(case, repeats):
    """Milliseconds of a default mean of 100 records: its least of many; "own" makes a ledger."""
    from skriemdp import PrivacyAccountant

    name, ledger = case
    geometry, X, _ = cloud(name, 100)
    model = default_mean(geometry)
    found = []
    for _ in range(50 * repeats):
        start = time.process_time()
        if ledger == "own":
            model.accountant = PrivacyAccountant()
        model.fit(X)
        found.append(1e3 * (time.process_time() - start))
    return min(found)


def plain_mean(X, signature, tol=1e-8, most=50):
    """Gradient descent to the mean of a sphere (+1) or hyperboloid (-1), in plain NumPy."""
    form = np.ones(X.shape[1])
    if signature < 0:
        form[0] = -1.0
    point = X[0]
    for _ in range(most):
        product = X @ (form * point)
        if signature > 0:
            distance = np.arccos(np.clip(product, -1.0, 1.0))
            factor = distance / np.sqrt(np.maximum(1.0 - product**2, 1e-300))
            moved = factor @ X - (factor @ product) * point
        else:
            distance = np.arccosh(np.maximum(-product, 1.0))
            factor = distance / np.sqrt(np.maximum(product**2 - 1.0, 1e-300))
            moved = factor @ X + (factor @ product) * point
        moved = moved / len(X)
        size = np.sqrt(max(float((form * moved) @ moved), 0.0))
        if size <= tol:
            break
        cosine, sine = (np.cos, np.sin) if signature > 0 else (np.cosh, np.sinh)
        point = cosine(size) * point + sine(size) / size * moved
    return point


def over_descent(name, n, repeats):
    geometry, X, _ = cloud(name, n)
    model, sign = default_mean(geometry), 1 if name.startswith("sphere") else -1
    return ratio(lambda: model.fit(X), lambda: plain_mean(X, sign), repeats)


def step_over_eigh(name, n, repeats):
    from skriemdp._descent.gradient_descent import RiemannianGradientDescent
    from skriemdp._descent.problem import FrechetProblem
    from skriemdp.geometry import GeodesicBall

    geometry, X, radius = cloud(name, n)
    ball = GeodesicBall(geometry, None, radius)
    problem, rng = FrechetProblem(ball, X), np.random.default_rng(1)
    solver = RiemannianGradientDescent(mu=1.0, n_steps=1, step_size=1.0)
    return ratio(
        lambda: solver.solve(problem, ball.center, rng), lambda: np.linalg.eigh(X), repeats
    )


def sum_over_log(name, n, repeats):
    """A sum of logarithms over the distances of the same records, in plain NumPy."""
    geometry, X, _ = cloud(name, n)
    point = geometry.base_point
    form = np.ones(X.shape[1])
    form[0] = -1.0 if name.startswith("hyper") else 1.0
    return ratio(
        lambda: geometry.clipped_log_sum(point, X),
        lambda: np.arccosh(np.maximum(np.abs(X @ (form * point)), 1.0)) @ X,
        repeats,
    )


def pca(n, d, repeats):
    from sklearn.decomposition import PCA

    from skriemdp import PrivacyAccountant, PrivatePrincipalEigenvector

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * np.arange(1.0, d + 1.0) ** -0.5 + 0.3
    ours = PrivatePrincipalEigenvector(accountant=PrivacyAccountant())
    theirs = PCA(n_components=1)
    return ratio(lambda: ours.fit(X), lambda: theirs.fit(X), repeats)


def stochastic_step(name, n, repeats):
    from skriemdp._descent.problem import FrechetProblem
    from skriemdp._descent.releases import PoissonSampler
    from skriemdp._descent.stochastic import RiemannianSGD
    from skriemdp._descent.trajectory import Moves
    from skriemdp._random import NoiseStreams
    from skriemdp.geometry import GeodesicBall

    geometry, X, radius = cloud(name, n)
    problem = FrechetProblem(GeodesicBall(geometry, None, radius), X)
    rng, steps = NoiseStreams(0)("noise"), 20
    sampler = PoissonSampler(100, geometry.dim)
    solver = RiemannianSGD(sampler, 1.0, Moves(steps, 0.1), clip_norm=1.0)
    chosen, point = sampler.draw(n, rng), X[0]

    def bare():
        for _ in range(steps):
            problem.gradient_coordinates(point, chosen).sum(axis=0)

    return ratio(lambda: solver.solve(problem, point, rng), bare, repeats)


def adagrad_step(n, d, repeats):
    from skriemdp import PrivacyAccountant, PrivateNoisyAdaGrad

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    y = (X[:, 0] + 0.1 * rng.standard_normal(n) > 0.0).astype(int)
    settings = {"feature_norm": 2.0, "accountant": PrivacyAccountant()}
    few = PrivateNoisyAdaGrad(n_steps=20, **settings)
    many = PrivateNoisyAdaGrad(n_steps=220, **settings)
    for model in (few, many):
        model.fit(X, y)
    signs, w = 2.0 * y - 1.0, np.full(d, 0.1)

    def bare():
        for _ in range(200):
            margin = signs * (X @ w)
            X.T @ (-signs / (1.0 + np.exp(margin)))

    def more():
        start = time.process_time()
        few.fit(X, y)
        first = time.process_time() - start
        start = time.process_time()
        many.fit(X, y)
        return time.process_time() - start - first

    found = []
    for _ in range(repeats):
        start = time.process_time()
        bare()
        found.append((time.process_time() - start, more()))
    return statistics.median(step / plain for plain, step in found)


def adagrad_fit(n, d, repeats):
    """A default fit over as many bare gradients."""
    from skriemdp import PrivacyAccountant, PrivateNoisyAdaGrad

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    y = (X[:, 0] + 0.1 * rng.standard_normal(n) > 0.0).astype(int)
    model = PrivateNoisyAdaGrad(classes=(0, 1), accountant=PrivacyAccountant()).fit(X, y)
    signs, w = 2.0 * y - 1.0, np.full(d, 0.1)

    def bare():
        for _ in range(model.n_iter_):
            margin = signs * (X @ w)
            X.T @ (-signs / (1.0 + np.exp(margin)))

    return ratio(lambda: model.fit(X, y), bare, repeats)


def over_logistic(n, d, repeats):
    from sklearn.linear_model import LogisticRegression

    from skriemdp import PrivacyAccountant, PrivateNoisyAdaGrad

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    y = (X[:, 0] + 0.1 * rng.standard_normal(n) > 0.0).astype(int)
    ours = PrivateNoisyAdaGrad(classes=(0, 1), accountant=PrivacyAccountant())
    theirs = LogisticRegression()
    return ratio(lambda: ours.fit(X, y), lambda: theirs.fit(X, y), repeats)


def made(kind, n):
    """A default model of this kind, and what it is fitted with."""
    import skriemdp

    rng, budget = np.random.default_rng(0), {"accountant": skriemdp.PrivacyAccountant()}
    if kind.startswith(("SPD", "sphere", "hyperboloid")):
        geometry, X, _ = cloud(kind.removesuffix(" people"), n)
        groups = {"groups": np.arange(n) // 4} if kind.endswith("people") else {}
        return default_mean(geometry), {"X": X, **groups}
    X = rng.standard_normal((n, 20))
    if kind == "components":
        return skriemdp.PrivatePrincipalEigenvector(**budget), {"X": X}
    if kind == "AdaGrad":
        y = (X[:, 0] > 0.0).astype(int)
        return skriemdp.PrivateNoisyAdaGrad(n_steps=2, classes=(0, 1), **budget), {"X": X, "y": y}
    count = int(kind.split()[0])
    model = skriemdp.PrivateMinimumDistanceToMean(classes=range(count), **budget)
    return model, {"X": X, "y": np.arange(n) % count}


def memory(kind, n, _):
    """Most memory beyond X that a fit holds, over that of X."""
    import tracemalloc

    model, data = made(kind, n)
    model.fit(**{name: rows[:1000] for name, rows in data.items()})
    tracemalloc.start()
    model.fit(**data)
    return tracemalloc.get_traced_memory()[1] / data["X"].nbytes


def over_neighbour(kind, other, n, repeats):
    """A fit of one kind over the fit of its neighbour on as many rows."""
    (one, rows), (two, others) = made(kind, n), made(other, n)
    return ratio(lambda: one.fit(**rows), lambda: two.fit(**others), repeats)


def centroids(n, repeats):
    """The same of scikit-learn's class means: a fit and the predictions of its rows."""
    from sklearn.neighbors import NearestCentroid

    X = np.random.default_rng(0).standard_normal((n, 20))
    many, two = np.arange(n) % 200, np.arange(n) % 2
    return ratio(
        lambda: NearestCentroid().fit(X, many).predict(X),
        lambda: NearestCentroid().fit(X, two).predict(X),
        repeats,
    )


def completion(subspace, repeats):
    """A fit of a million ratings over the product of their second moment with five columns."""
    import scipy.sparse as sp

    from skriemdp import PrivacyAccountant, PrivateMatrixCompletion

    n, d, rng = 6000, 3700, np.random.default_rng(0)
    popularity = (np.arange(d) + 1.0) ** -0.7
    items = rng.choice(d, size=1_130_000, p=popularity / popularity.sum())
    ones = np.ones(len(items))
    M = sp.csr_array((ones, (rng.integers(n, size=len(items)), items)), shape=(n, d))
    M.sum_duplicates()
    M.data = rng.integers(1, 6, M.nnz).astype(float)
    if subspace:
        users = np.repeat(np.arange(n), np.diff(M.indptr))
        left, right = 0.5 * rng.standard_normal((n, 5)), 0.5 * rng.standard_normal((d, 5))
        liked = np.einsum("ij,ij->i", left[users], right[M.indices])
        noise = 0.5 * rng.standard_normal(M.nnz)
        M.data = np.clip(np.rint(3.0 + liked + noise), 1.0, 5.0)
    columns = np.linalg.qr(rng.standard_normal((d, 5)))[0]
    epsilon = 4.0 if subspace else 1.0
    model = PrivateMatrixCompletion(epsilon=epsilon, accountant=PrivacyAccountant())
    return ratio(lambda: model.fit(M), lambda: M.T @ (M @ columns), repeats)


FIRST = {
    "mean S^2": ("PrivateFrechetMean", {"manifold": "sphere"}),
    "mean SPD(2)": ("PrivateFrechetMean", {"manifold": "spd"}),
    "mean R^3": ("PrivateFrechetMean", {}),
    "mean SPD(3)": ("PrivateFrechetMean", {"manifold": "spd"}),
    "class means": ("PrivateMinimumDistanceToMean", {"manifold": "spd"}),
    "components": ("PrivatePrincipalEigenvector", {}),
    "AdaGrad": ("PrivateNoisyAdaGrad", {}),
    "hyperbolic regression": ("PrivateHyperbolicRegressor", {"manifold": "hyperboloid"}),
    "completion": ("PrivateMatrixCompletion", {}),
    "own cost, descent": ("PrivateRiemannianERM", {"manifold": "sphere"}),
    "own cost, batches": ("PrivateRiemannianERM", {"manifold": "sphere", "batch_size": 30}),
    "error bars, S^2": ("PrivateFrechetMean", {"manifold": "sphere", "uncertainty": True}),
    "tangent components": ("PrivateTangentPCA", {"manifold": "sphere"}),
    "geodesic regression, R^3": ("PrivateGeodesicRegressor", {}),
    "geodesic regression, S^2": ("PrivateGeodesicRegressor", {"manifold": "sphere"}),
    "components, pure": ("PrivatePrincipalEigenvector", {"delta": 0.0}),
    "AdaGrad, batches": ("PrivateNoisyAdaGrad", {"batch_size": 50}),
    "search of two": ("PrivateGridSearchCV", {"param_grid": {"step_size": [0.1, 1.0]}}),
}


def made_points(space, rng):
    """300 points, without a module of ours."""
    moves = 0.3 * rng.standard_normal((300, 3))
    if space.startswith("SPD"):
        size = int(space[4])
        half = 0.2 * rng.standard_normal((300, size, size))
        values, vectors = np.linalg.eigh(half + half.swapaxes(1, 2))
        return (vectors * np.exp(values)[:, None, :]) @ vectors.swapaxes(1, 2)
    if space == "S^2":
        moves[:, 2] = 1.0
        return moves / np.linalg.norm(moves, axis=1, keepdims=True)
    if space == "H^2":
        moves[:, 0] = np.sqrt(1.0 + (moves[:, 1:] ** 2).sum(axis=1))
    return moves


def first_fit(case, _):
    """Milliseconds of a first fit of 300 records, from the import of the package on.

    NumPy, SciPy's sparse matrices and scikit-learn's base have been imported.
    """
    import scipy.sparse as sp
    import sklearn.base
    import sklearn.utils.validation  # noqa: F401

    name, settings = FIRST[case]
    rng = np.random.default_rng(0)
    X = 0.3 * rng.standard_normal((300, 5))
    y = (X[:, 0] > 0.0).astype(int)
    space = case.split()[-1]
    if space not in ("S^2", "R^3", "SPD(2)", "SPD(3)"):
        space = "SPD(2)" if case == "class means" else "S^2"
    data: tuple = (X, y)
    if name in ("PrivateFrechetMean", "PrivateTangentPCA", "PrivateRiemannianERM"):
        data = (made_points(space, rng),)
    elif name == "PrivateGeodesicRegressor":
        data = (X, made_points(space, rng))
    elif name == "PrivateMinimumDistanceToMean":
        data = (made_points(space, rng), y)
    elif name == "PrivateHyperbolicRegressor":
        data = (X, made_points("H^2", rng))
    elif name == "PrivateMatrixCompletion":
        ratings = sp.random(300, 50, density=0.2, random_state=0, format="csr")
        ratings.data = rng.integers(1, 6, ratings.nnz).astype(float)
        data = (ratings,)
    elif name == "PrivatePrincipalEigenvector":
        data = (X,)
    start = time.process_time()
    import skriemdp

    settings = {**settings, "accountant": skriemdp.PrivacyAccountant()}
    if name == "PrivateGridSearchCV":
        settings["estimator"] = skriemdp.PrivateNoisyAdaGrad(classes=(0, 1))
    getattr(skriemdp, name)(**settings).fit(*data)
    return 1e3 * (time.process_time() - start)


def new_epsilon(case, _):
    """Milliseconds of a default mean at an epsilon that no calibration is kept for."""
    import skriemdp
    from skriemdp import geometry as g
    from skriemdp.datasets import make_cloud

    spaces = {"S^2": g.Sphere(2), "SPD(2)": g.SPD(2), "H^3": g.Hyperboloid(3)}
    X = make_cloud(spaces[case], 300, radius=0.5, rng=np.random.default_rng(0))
    found = []
    for epsilon in (1.3, 0.7):
        model = skriemdp.PrivateFrechetMean(
            spaces[case], epsilon=epsilon, accountant=skriemdp.PrivacyAccountant()
        )
        start = time.process_time()
        model.fit(X)
        found.append(1e3 * (time.process_time() - start))
    return found[-1]


def new_number(case, _):
    """Milliseconds of a mean with Riemannian Gaussian noise, for a number of records never seen."""
    import skriemdp
    from skriemdp.datasets import make_cloud

    found = []
    for n in (300, 341):
        geometry, _, _ = cloud(case, 2)
        X = make_cloud(geometry, n, radius=0.5, rng=np.random.default_rng(0))
        model = skriemdp.PrivateFrechetMean(
            geometry,
            center=geometry.base_point,
            radius=1.0,
            mechanism="gaussian",
            accountant=skriemdp.PrivacyAccountant(),
        )
        start = time.process_time()
        model.fit(X)
        found.append(1e3 * (time.process_time() - start))
    return found[-1]


LOGS = ("log-Euclidean 10", 10**4), ("log-Euclidean 22", 2000)
CASES = {
    "default mean / pyRiemann, SPD(2), n = 100": (2.0, over_pyriemann, "SPD 2", 100),
    "default mean / pyRiemann, SPD(2), n = 1e3": (1.2, over_pyriemann, "SPD 2", 10**3),
    "default mean / pyRiemann, SPD(2), n = 1e4": (0.35, over_pyriemann, "SPD 2", 10**4),
    "default mean / pyRiemann, SPD(10), n = 1e4": (1.0, over_pyriemann, "SPD 10", 10**4),
    "default mean / pyRiemann, SPD(22), n = 1e3": (0.5, over_pyriemann, "SPD 22", 10**3),
    "default mean / mean_logeuclid, SPD(10), n = 1e4": (1.2, over_logeuclid, *LOGS[0]),
    "default mean / mean_logeuclid, SPD(22), n = 2e3": (1.2, over_logeuclid, *LOGS[1]),
    "default mean / batched SVD, Stiefel(5, 2), n = 1e4": (60.0, over_svd, "Stiefel 5x2", 10**4),
    "default mean / batched SVD, Stiefel(20, 3), n = 1e4": (80.0, over_svd, "Stiefel 20x3", 10**4),
    "default mean / batched SVD, Grassmann(10, 3)": (10.0, over_svd, "Grassmann 10x3", 10**4),
    "public ball / searched, SPD(10), n = 1e4": (0.8, public_over_searched, "SPD 10", 10**4),
    "frechet_mean / default mean, H^20, n = 1e5": (
        1.0,
        exact_over_private,
        "hyperboloid 20",
        10**5,
    ),
    "small mean, SPD(2), ms": (3.0, small_fit, ("SPD 2", "shared")),
    "small mean, SPD(2), a ledger of its own, ms": (3.0, small_fit, ("SPD 2", "own")),
    "small mean, S^2, ms": (3.0, small_fit, ("sphere 2", "shared")),
    "private step / eigh, SPD(3), n = 1e4": (1.15, step_over_eigh, "SPD 3", 10**4),
    "private step / eigh, SPD(5), n = 1e4": (1.15, step_over_eigh, "SPD 5", 10**4),
    "private step / eigh, SPD(10), n = 1e4": (1.15, step_over_eigh, "SPD 10", 10**4),
    "private step / eigh, SPD(64), n = 200": (1.15, step_over_eigh, "SPD 64", 200),
    "default mean / NumPy descent, S^20, n = 1e5": (1.0, over_descent, "sphere 20", 10**5),
    "default mean / NumPy descent, H^20, n = 1e5": (3.0, over_descent, "hyperboloid 20", 10**5),
    "default mean / NumPy descent, S^2, n = 1e3": (12.0, over_descent, "sphere 2", 10**3),
    "default mean / NumPy descent, H^2, n = 1e3": (12.0, over_descent, "hyperboloid 2", 10**3),
    "default mean / NumPy descent, S^20, n = 1e3": (12.0, over_descent, "sphere 20", 10**3),
    "sum of logarithms / NumPy, H^20, n = 100": (None, sum_over_log, "hyperboloid 20", 100),
    "PCA / scikit-learn, 100 x 14": (5.0, pca, 100, 14),
    "PCA / scikit-learn, 1000 x 14": (5.0, pca, 1000, 14),
    "PCA / scikit-learn, 49990 x 14": (1.8, pca, 49_990, 14),
    "PCA / scikit-learn, 1e5 x 50": (1.4, pca, 10**5, 50),
    "PCA / scikit-learn, 1e6 x 20": (1.3, pca, 10**6, 20),
    "DP-RSGD step / bare sum, SPD(2), batch 100": (4.0, stochastic_step, "SPD 2", 10**4),
    "DP-RSGD step / bare sum, SPD(10), batch 100": (2.0, stochastic_step, "SPD 10", 10**4),
    "DP-RSGD step / bare sum, S^2, batch 100": (2.0, stochastic_step, "sphere 2", 10**4),
    "AdaGrad step / bare gradient, 1e4 x 50": (1.5, adagrad_step, 10**4, 50),
    "AdaGrad fit / bare gradients, 1e4 x 50": (1.6, adagrad_fit, 10**4, 50),
    "AdaGrad / LogisticRegression, 1e5 x 50": (4.0, over_logistic, 10**5, 50),
    "AdaGrad memory beyond X / X, 1e6 x 20": (1.0, memory, "AdaGrad", 10**6),
    **{
        f"memory beyond X / X, {kind}, n = {n:.0e}": (None, memory, kind, n)
        for kind in ("SPD 3", "SPD 3 people", "sphere 2", "components", "AdaGrad", "200 classes")
        for n in (10**5, 2 * 10**5, 4 * 10**5)
    },
    "completion / product, no subspace": (60.0, completion, False),
    "completion / product, rank 5": (None, completion, True),
    **{
        f"first fit, {case}, ms": (120.0 if "batches" in case else 80.0, first_fit, case)
        for case in FIRST
    },
    **{f"new epsilon, {c}, ms": (60.0, new_epsilon, c) for c in ("S^2", "SPD(2)", "H^3")},
    'mechanism="gaussian", new n, SPD(2), ms': (500.0, new_number, "SPD 2"),
    **{
        f"growth, {case}, n = 1e{k}": (None, function, *before, 10**k, *after)
        for case, function, before, after, last in (
            ("default mean / pyRiemann, SPD(2)", over_pyriemann, ("SPD 2",), (), 6),
            (
                "default mean / pyRiemann, SPD(2) within .01",
                over_pyriemann,
                ("SPD 2 tight",),
                (),
                5,
            ),
            ("default mean / pyRiemann, SPD(3)", over_pyriemann, ("SPD 3",), (), 5),
            ("default mean / pyRiemann, SPD(5)", over_pyriemann, ("SPD 5",), (), 5),
            ("people of 4 rows / rows, SPD(3)", over_neighbour, ("SPD 3 people", "SPD 3"), (), 5),
            ("200 classes / 2, d = 20", over_neighbour, ("200 classes", "2 classes"), (), 5),
            ("NearestCentroid of 200 classes / 2, d = 20", centroids, (), (), 5),
            ("PCA / scikit-learn, d = 20", pca, (), (20,), 6),
            ("AdaGrad fit / bare gradients, d = 20", adagrad_fit, (), (20,), 6),
        )
        for k in range(2, last + 1)
    },
}
# So slow that fewer measurements must do.
HEAVY = ("1e6", "SPD(10), n", "SPD(22)", "n = 1e5", "completion /")


def child(case, repeats):
    warnings.simplefilter("ignore")
    _, function, *arguments = CASES[case]
    print(json.dumps(function(*arguments, repeats)))


def measured(tree, case, repeats):
    if any(word in case for word in HEAVY):
        repeats = max(3, repeats // 3)
    command = [sys.executable, str(Path(__file__).resolve()), "--child", case]
    command += ["--repeats", str(repeats)]
    found = []
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        # The first process writes the bytecode.
        for _ in range(1 + repeats if CASES[case][1] is first_fit else 1):
            with tempfile.TemporaryDirectory() as cache:
                environment["XDG_CACHE_HOME"] = cache
                done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode and tree == HERE:
                raise RuntimeError(f"{case}: {done.stderr}")
            if done.returncode:  # an older tree may not know what a row needs
                print(f"{case}, {tree}: {done.stderr.strip()[-300:]}", file=sys.stderr)
                return math.nan
            found.append(json.loads(done.stdout.strip().splitlines()[-1]))
    return statistics.median(found[1:] or found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, help="another source tree: before")
    parser.add_argument("--only", nargs="+", help="rows with one of these words")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="small rows, three measurements")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.repeats)
        return
    cases = [c for c in CASES if not options.only or any(w in c for w in options.only)]
    if options.quick:
        options.repeats = 3
        cases = [c for c in cases if not any(word in c for word in HEAVY)]
    trees = [HERE] if options.against is None else [options.against.resolve(), HERE]
    timed = functools.partial(measured, repeats=options.repeats)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    print("| | limit |" + (" before |" if len(trees) == 2 else "") + " now |")
    print("|---|---|" + "---|" * len(trees))
    for case in cases:
        limit = CASES[case][0]
        cells = " | ".join(f"{timed(tree, case):.3g}" for tree in trees)
        print(f"| {case} | {'' if limit is None else f'{limit:g}'} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
