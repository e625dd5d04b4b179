"""What fits say of their arithmetic, and whether low bits of what they release tell anything.

Run:  OMP_NUM_THREADS=1 python benchmarks/arithmetic.py [--n 300] [--fits 4] [--only WORD]
"""

import argparse
import math
import warnings
from unittest import mock

import numpy as np
from scipy import sparse

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
    PrivateTangentPCA,
)
from skriemdp._mechanisms import noise
from skriemdp.datasets import make_cloud
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import SPD, Euclidean, Hyperboloid, Sphere


def cases(n):
    """Name, model, data, and what a fit releases, as a vector."""
    rng = np.random.default_rng(0)

    def cloud(geometry, radius=0.5):
        return make_cloud(geometry, n, radius=radius, rng=np.random.default_rng(0))

    def attribute(name):
        return lambda model: np.ravel(getattr(model, name))

    def of_inner(model):
        return np.ravel(model.estimator_.mean_)

    def projector(model):
        return np.ravel(model.components_.T @ model.components_)

    matrices, sphere = cloud(SPD(5)), cloud(Sphere(20))
    X = rng.normal(size=(n, 30)) * np.linspace(2.0, 0.5, 30) + 3.0
    labels = np.arange(n) % 3
    mean = PrivateFrechetMean(
        "spd", center=np.eye(5), radius=1.0, noise="gaussian", mechanism="tangent"
    )
    of_mean = attribute("mean_")
    yield "mean, logarithms", mean, (matrices,), of_mean
    model = PrivateFrechetMean(
        "spd", center=np.eye(5), radius=1.0, noise="gaussian", mechanism="gradient"
    )
    yield "mean, gradients", model, (matrices,), of_mean
    yield "mean, flat, Gaussian noise", PrivateFrechetMean(noise="gaussian"), (X,), of_mean
    yield (
        "mean, default (Laplace noise)",
        PrivateFrechetMean("spd", center=np.eye(5), radius=1.0),
        (matrices,),
        of_mean,
    )
    model = PrivateFrechetMean("spd", center=np.eye(5), radius=1.0, noise="gaussian")
    yield "mean, iterated", model, (matrices,), of_mean
    space = Hyperboloid(2)
    for law in ("gaussian", "laplace", "k-norm"):
        model = PrivateFrechetMean(space, radius=0.5, mechanism=law)
        yield f"mean, {law} law on the manifold", model, (cloud(space),), of_mean
    model = PrivateMinimumDistanceToMean("spd", center=np.eye(5), radius=1.0, classes=range(3))
    yield "class means", model, (matrices, labels), attribute("means_")
    for mechanism in ("covariance", "refine", "power", "gradient"):
        model = PrivatePrincipalEigenvector(3, mechanism=mechanism)
        yield f"principal components, {mechanism}", model, (X,), projector
    model = PrivateTangentPCA(2, "spd", center=np.eye(5), radius=1.0)
    yield "tangent components", model, (matrices,), projector
    rows, truth = rng.normal(size=(n, 20)) / math.sqrt(20), rng.normal(size=20)
    y = (rows @ truth + 0.3 * rng.normal(size=n) > 0).astype(int)
    of_coef = attribute("coef_")
    linear = PrivateNoisyAdaGrad(classes=[0, 1])
    yield "linear model", linear, (rows, y), of_coef
    sampled = PrivateNoisyAdaGrad(classes=[0, 1], batch_size=0.2 * n)
    yield "linear model, batches", sampled, (rows, y), of_coef
    paper = PrivateNoisyAdaGrad("hinge", "paper", classes=[0, 1])
    yield "linear model, preconditioner paper", paper, (rows, y), of_coef
    curved = rng.normal(size=(n, 3))
    plane = np.column_stack([np.sin(curved[:, 0]), np.cos(curved[:, 1])])
    settings = {"radius": 3.0, "epsilon": 4.0}
    for mechanism in ("parametric", "sufficient-statistics"):
        model = PrivateHyperbolicRegressor(mechanism, **settings)
        yield f"hyperbolic regression, {mechanism}", model, (curved, plane), of_coef
    model = PrivateHyperbolicRegressor("per-query", n_queries=5, **settings)

    def answers(model):
        return np.ravel(model.predict(curved[:5]))

    yield "hyperbolic regression, per-query", model, (curved, plane), answers
    model = PrivateGeodesicRegressor("spd", center=np.eye(5), radius=1.0)
    small = rng.uniform(-0.5, 0.5, size=(n, 2))
    yield "geodesic regression", model, (small, matrices), of_coef
    risk = {"n_steps": 50}
    batch = risk | {"batch_size": 100}
    solvers = {
        "all records": risk,
        "Poisson batches": batch,
        "fixed batches": batch | {"sampling": "fixed-size"},
        "variance reduction": batch | {"solver": "variance-reduced", "smoothness": 1.0},
    }
    for name, chosen in solvers.items():
        model = PrivateRiemannianERM(Sphere(20), **chosen)
        yield f"risk minimisation, {name}", model, (sphere,), attribute("point_")
    ratings = sparse.random(n, 200, 0.1, format="csr", random_state=0)
    ratings.data = rng.integers(1, 6, size=ratings.nnz).astype(float)
    for mechanism in ("gradient", "covariance", "stochastic"):
        model = PrivateMatrixCompletion(5, mechanism=mechanism, epsilon=10.0, signal_test="none")
        yield f"completion, {mechanism}", model, (ratings,), projector
    clients = np.arange(n) % 6
    inner = PrivateFrechetMean(Sphere(20), radius=0.6)
    for name, model in {
        "steps": FederatedEstimator(inner, 5, 3),
        "variance reduction": FederatedEstimator(inner, 5, 3, local="rsvrg", batch_fraction=0.2),
        "sums": FederatedEstimator(inner, n_rounds=1, local="statistic"),
    }.items():
        yield f"federated mean, {name}", model, (sphere, None, clients), of_inner
    whole = FederatedEstimator(inner, 5, 20, unit="client", update_clip=0.5)
    yield "federated mean, whole clients", whole, (sphere, None, np.arange(n) % 60), of_inner
    grid = {"radius": [0.5, 1.0]}
    of_best = attribute("best_score_")
    for law in ("gaussian", "auto"):
        model = PrivateFrechetMean(radius=1.0, noise=law)
        search = PrivateGridSearchCV(model, grid, loss_bound=50.0)
        yield f"search, {law} means", search, (0.3 * X[:, :5] - 0.9,), of_best


def fitted(model, data):
    return model.set_params(accountant=PrivacyAccountant()).fit(*data)


def what_it_says(model):
    return model.privacy_spent_.public["arithmetic"]


# -- the low bits ---------------------------------------------------------------------------------


def certain(draws):
    """Share of the released numbers that no neighbour's value could have given.

    Another value v of a release is certain not to be the true one where the released float is no
    multiple of half the unit in the last place of v: ``v + z`` always is one.  The other value
    tried is the exact one, moved by the sensitivity.  Integers exclude nothing by this.
    """
    excluded = total = 0
    for law, exact, noisy, sensitivity in draws:
        if law == "discrete-gaussian":
            total += np.size(noisy)
            continue
        other = np.ravel(np.asarray(exact, dtype=float)) + sensitivity
        values = np.ravel(np.asarray(noisy, dtype=float))
        unit = 0.5 * np.spacing(np.abs(other))
        excluded += int(np.count_nonzero(np.fmod(values, unit)))
        total += values.size
    return excluded / max(total, 1), total


def attacked(model, data, released, runs):
    """Rate of certain outputs over some fits, and what the fits say of themselves."""
    draws, original = [], noise.draw

    def watched(exact, scale, law, rng, *more, **settings):
        noisy = original(exact, scale, law, rng, *more, **settings)
        several = isinstance(exact, tuple)
        blocks = zip(exact, law, noisy, settings["sensitivity"], strict=True) if several else None
        for block, kind, answer, bound in blocks or [(exact, law, noisy, settings["sensitivity"])]:
            if isinstance(block, (int, float, np.ndarray)) and np.shape(block) == np.shape(answer):
                if not settings.get("averaged"):
                    draws.append((kind, block, answer, float(bound)))
        return noisy

    with mock.patch.object(noise, "draw", watched):
        for _ in range(runs):
            done = fitted(model, data)
            released(done)
    return *certain(draws), what_it_says(done)


def attack(n, fits, only):
    print("| fit | it says | numbers | certain outputs |\n|---|---|---|---|")
    for name, model, data, released in cases(n):
        if only not in name:
            continue
        rate, total, said = attacked(model, data, released, fits)
        print(f"| {name} | {said} | {total} | {rate:.4f} |", flush=True)
    # A law on a manifold draws a point, which no grid rounds: on the line, the edge of `0 + z`.
    line = np.zeros((50, 1))
    for law in ("gaussian", "laplace", "k-norm"):
        name = f"mean, {law} law on the line"
        if only not in name:
            continue
        found = []
        for _ in range(200):
            model = PrivateFrechetMean(Euclidean(1), radius=1.0, mechanism=law)
            found.append(float(fitted(model, (line,)).mean_[0]))
        unit = 0.5 * np.spacing(2.0 / 50)
        rate = np.count_nonzero(np.fmod(found, unit)) / len(found)
        print(f"| {name} | {what_it_says(model)} | {len(found)} | {rate:.4f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=4)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--only", default="", help="fits whose name has this word")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    attack(arguments.n, arguments.fits, arguments.only)


if __name__ == "__main__":
    main()
