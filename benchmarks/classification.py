"""Private nearest class mean on covariances of digits: accuracy against epsilon, beside pyRiemann.

    OMP_NUM_THREADS=1 python benchmarks/classification.py [--quick]
    OMP_NUM_THREADS=1 python benchmarks/classification.py --part decision [--quick] [--seed 0]
    OMP_NUM_THREADS=1 python benchmarks/classification.py --part linear [--quick] [--seed 0]

Held-out accuracy, mean and standard deviation over 10 random halves (3 with ``--quick``) of the
1797 digits, each a 5 x 5 region covariance.  Centre and radius come from the known ranges of the
features, as in ``examples/demo_private_mean.py``; every method sees the same halves.  The first row
is what a reader reaches who labels everything alike; `no noise` is our estimator at epsilon = 1e5.
The last column is processor time of a fit over that of pyRiemann's, best of three, in turns.

``--part decision`` simulates classes on spheres, hyperbolic spaces and matrices, and fits with
constructor defaults (25 fits a cell, 4 with ``--quick``): accuracy on 2000 new records by what the
vote decided, by geodesic distances and in the tangent space with the same releases, and of the most
frequent class; how often each decision was made; and how often a fit warned.

``--part linear`` compares the default with what it was without a second moment of all classes, at
the same epsilon and seeds, on tables: 3000 records, those of scikit-learn's sets drawn with
replacement from seven tenths of the rows, and accuracy on other rows; 10 draws a cell, 3 with
``--quick``.  Cells lie at once, twice and six times the least ``n mu / sqrt(dim)`` from where on
that moment is asked.  The columns of made-up tables share three factors, but for those of "round".
The last column is the gain with ``uncertainty=True``.
"""

import argparse
import collections
import time
import warnings
from unittest import mock

import numpy as np
from pyriemann.classification import MDM
from scipy.optimize import brentq
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import ShuffleSplit

from skriemdp import PrivateMinimumDistanceToMean
from skriemdp._mean import class_releases
from skriemdp.datasets import digits_covariances
from skriemdp.geometry import SPD, Euclidean, Hyperboloid, Sphere
from skriemdp.privacy import gaussian_mu

CENTER = np.diag([9 / 84, 9 / 84, 1 / 12, 1 / 48, 1 / 48]) + 1e-3 * np.eye(5)
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTA = 1e-5


def private(epsilon, manifold="spd"):
    return PrivateMinimumDistanceToMean(
        manifold, CENTER, 2.0, classes=range(10), epsilon=epsilon, delta=1e-5
    )


def fit_time(model, X, y):
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


def around(geometry, centers, spreads, y, rng):
    """Points about the centres of their classes, which are coordinates at the base point."""
    middles = np.asarray(geometry.exp_coordinates(geometry.base_point, np.asarray(centers)))
    steps = rng.normal(size=(len(y), geometry.dim)) * np.asarray(spreads)[y][:, None]
    return np.asarray(geometry.exp_coordinates(middles[y], steps / np.sqrt(geometry.dim)))


def drawn(shares, n, rng):
    return rng.choice(len(shares), size=n, p=np.asarray(shares) / np.sum(shares))


def one_wide(dim, share, spread, rng, n):
    """A class of most records spread widely about the pole, and three narrow ones beside it."""
    y = drawn([share, *[(1.0 - share) / 3] * 3], n, rng)
    centers = np.zeros((4, dim))
    centers[1:, :3] = 1.1 * np.eye(3)
    return around(Sphere(dim), centers, [spread, *[min(spread, 0.5)] * 3], y, rng), y


def clusters(geometry, radius, k, spread, rng, n):
    """Classes in balls about points at one distance from the base point."""
    y = drawn(1.0 + 0.1 * np.arange(k), n, rng)
    angles = 2.0 * np.pi * np.arange(k) / k
    centers = np.zeros((k, geometry.dim))
    centers[:, 0], centers[:, 1] = radius * np.cos(angles), radius * np.sin(angles)
    return around(geometry, centers, np.full(k, spread), y, rng), y


def sectors(k, rng, n):
    """Classes are sectors of the hyperbolic plane, as branches of a tree are."""
    y = drawn(1.0 + 0.3 * np.arange(k), n, rng)
    angles = 2.0 * np.pi * (y + rng.uniform(-0.2, 1.2, n)) / k
    steps = np.stack([np.cos(angles), np.sin(angles)], axis=1) * rng.uniform(0.1, 4.0, n)[:, None]
    space = Hyperboloid(2)
    return np.asarray(space.exp_coordinates(space.base_point, steps)), y


def no_classes(rng, n):
    """Labels that have nothing to do with the points; four fifths are one label."""
    return rng.normal(size=(n, 5)), drawn([0.8, 0.1, 0.1], n, rng)


# Manifold and draw; 3000 records to learn from.
SETS = {
    "S^49, a wide class with 70 %": (Sphere(49), lambda *a: one_wide(49, 0.7, 1.3, *a)),
    "S^15, a wide class with 50 %": (Sphere(15), lambda *a: one_wide(15, 0.5, 1.2, *a)),
    "S^9, four classes": (Sphere(9), lambda *a: one_wide(9, 0.25, 0.8, *a)),
    "H^2, balls 3.5 from the centre": (
        Hyperboloid(2),
        lambda *a: clusters(Hyperboloid(2), 3.5, 6, 4.0, *a),
    ),
    "H^4, balls 2.5 from the centre": (
        Hyperboloid(4),
        lambda *a: clusters(Hyperboloid(4), 2.5, 5, 4.0, *a),
    ),
    "H^2, sectors": (Hyperboloid(2), lambda *a: sectors(4, *a)),
    "SPD(3), classes 2 from the centre": (SPD(3), lambda *a: clusters(SPD(3), 2.0, 4, 3.5, *a)),
    "R^5, labels without a meaning, 80 % one": (Euclidean(5), no_classes),
}


def decision(fits, seed):
    print("| data | epsilon | vote | geodesic | tangent | one label | decided | warned |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (space, draw) in SETS.items():
        for epsilon in (0.3, 1.0, 3.0):
            found, ways, warned = [], collections.Counter(), 0
            for fit in range(fits):
                rng = np.random.default_rng([seed, fit])
                X, y = draw(rng, 5000)
                model = PrivateMinimumDistanceToMean(
                    space, classes=range(y.max() + 1), epsilon=epsilon, random_state=fit
                )
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    model.fit(X[:3000], y[:3000])
                warned += any("private estimate" in str(w.message) for w in told)
                new, labels = X[3000:], y[3000:]
                answers = [model.predict(new)]
                for way in ("geodesic", "tangent"):
                    model.decision_, kept = way, getattr(model, "decision_", "geodesic")
                    answers.append(model.predict(new))
                    model.decision_ = kept
                ways[kept] += 1
                most = np.bincount(y[:3000]).argmax()
                found.append([np.mean(a == labels) for a in [*answers, np.full(2000, most)]])
            cells = " | ".join(f"{value:.3f}" for value in np.mean(found, axis=0))
            told = ", ".join(f"{way} {count}" for way, count in ways.most_common())
            print(f"| {name} | {epsilon:g} | {cells} | {told} | {warned} |", flush=True)


# -- linear decisions of tables -------------------------------------------------------------------


def drawn_table(dim, shares, gap, factors=3, own=False, clusters=1, law="normal"):
    """A draw of classes whose columns share factors, all of them the same or each its own.

    Centres of classes, or of clusters, are `gap` standard deviations off in every column.
    """

    def draw(rng, n):
        k = len(shares)
        y = drawn(shares, n, rng)
        loads = rng.normal(size=(k if own else 1, factors, dim))
        centers = gap * rng.normal(size=(k, clusters, dim))
        noise = (
            (lambda size: rng.normal(size=size))
            if law == "normal"
            else (lambda size: rng.standard_t(2.5, size=size))
        )
        common = np.einsum("ij,ijk->ik", noise((n, factors)), loads[y if own else np.zeros_like(y)])
        X = common + noise((n, dim)) + centers[y, rng.integers(clusters, size=n)]
        return X, y

    return draw


def opened(load):
    """Rows of a set of scikit-learn."""

    def draw(rng, n):
        X, y = load(return_X_y=True)
        order = rng.permutation(len(X))
        held, kept = np.split(order, [3 * len(X) // 10])
        rows = np.r_[rng.choice(kept, 3000), held]
        return X[rows], y[rows]

    return draw


TABLES = {
    "round": drawn_table(10, [1, 1, 1], 0.5, factors=0),
    "correlated": drawn_table(10, [1, 1, 1], 0.5),
    "unlike covariances": drawn_table(10, [1, 1, 1, 1], 0.7, own=True),
    "6 % positives": drawn_table(10, [0.94, 0.06], 0.5),
    "30 classes": drawn_table(10, np.ones(30), 0.9),
    "two clusters a class": drawn_table(10, [1, 1], 0.7, clusters=2),
    "heavy tails": drawn_table(10, [2, 1, 1], 0.7, law="t"),
    "wine": opened(load_wine),
    "breast cancer": opened(load_breast_cancer),
    "digits": opened(load_digits),
    "iris": opened(load_iris),
}


def linear(draws, seed):
    print("| table | epsilon | n mu / sqrt(dim) | without | gain (s.e.) | decided | uncertainty |")
    print("|---|---|---|---|---|---|---|")
    gains, others = [], []
    for name, draw in TABLES.items():
        for times in (1.0, 2.0, 6.0):
            found, ways = [], collections.Counter()
            for number in range(draws):
                rng = np.random.default_rng([seed, number])
                X, y = draw(rng, 5000)
                k, dim = y.max() + 1, X.shape[1]
                # A little more, so that rounding does not put the cell below.
                s = 1.001 * times * least_linear(k)
                epsilon = epsilon_of(s * np.sqrt(dim) / 3000)
                settings = {"classes": range(k), "epsilon": epsilon, "random_state": number}
                model = PrivateMinimumDistanceToMean(**settings).fit(X[:3000], y[:3000])
                with mock.patch.object(class_releases, "_LEAST_LINEAR", np.inf):
                    without = clone(model).fit(X[:3000], y[:3000])
                ways[model.decision_] += 1
                scores = [fit.score(X[3000:], y[3000:]) for fit in (without, model)]
                sure = clone(model).set_params(uncertainty=True).fit(X[:3000], y[:3000])
                for way in ("geodesic", "linear"):
                    sure.decision_ = way
                    scores.append(sure.score(X[3000:], y[3000:]))
                found.append(scores)
            before, _, *_ = np.mean(found, axis=0)
            gain, other = (np.diff(np.array(found)[:, at : at + 2])[:, 0] for at in (0, 2))
            gains, others = [*gains, gain.mean()], [*others, other.mean()]
            told = ", ".join(f"{way} {count}" for way, count in ways.most_common())
            error = gain.std() / np.sqrt(draws)
            print(
                f"| {name} | {epsilon:.2f} | {s:.0f} | {before:.3f} | {gain.mean():+.3f} "
                f"({error:.3f}) | {told} | {other.mean():+.3f} |",
                flush=True,
            )
    print(
        f"\nmean gain {np.mean(gains):+.3f}, worst cell {min(gains):+.3f}; with uncertainty "
        f"{np.mean(others):+.3f}, worst {min(others):+.3f}"
    )


def epsilon_of(mu):
    """The epsilon of this mu at `DELTA`."""
    return brentq(lambda epsilon: gaussian_mu(epsilon, DELTA) - mu, 1e-3, 200.0)


def least_linear(n_classes):
    """``n mu / sqrt(dim)`` from where on a second moment of all classes is asked."""
    return max(class_releases._LEAST_LINEAR, class_releases._LINEAR_BY_CLASSES * n_classes)


def main():
    warnings.simplefilter("ignore")  # seeds: nobody is protected here
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", choices=("digits", "decision", "linear"), default="digits")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.part == "decision":
        decision(4 if options.quick else 25, options.seed)
        return
    if options.part == "linear":
        linear(3 if options.quick else 10, options.seed)
        return
    repeats = 3 if options.quick else 10
    X, y = digits_covariances()
    models = {"pyRiemann MDM, not private": MDM(), "ours, no noise": private(1e5)}
    for epsilon in reversed(EPSILONS):
        models[f"ours, epsilon = {epsilon:g}"] = private(epsilon)
    models["ours, epsilon = 1, log-Euclidean"] = private(1.0, "spd-log-euclidean")
    scores = {"one label for all, no data": []} | {name: [] for name in models}
    for train, test in ShuffleSplit(repeats, test_size=0.5, random_state=0).split(X):
        # A label known to be as frequent as any other: 3 stands for all ten.
        scores["one label for all, no data"].append(np.mean(y[test] == 3))
        for name, model in models.items():
            scores[name].append(clone(model).fit(X[train], y[train]).score(X[test], y[test]))
    best = dict.fromkeys(models, np.inf)
    for _ in range(3):
        for name, model in models.items():
            best[name] = min(best[name], fit_time(clone(model), X[train], y[train]))
    print(f"n = {len(train)}, delta = 1e-5, {repeats} splits\n")
    print("| model | accuracy | sd | fit / pyRiemann |\n|---|---|---|---|")
    for name, values in scores.items():
        ratio = best[name] / best["pyRiemann MDM, not private"] if name in best else None
        cell = "" if ratio is None else f"{ratio:.2f}"
        print(f"| {name} | {np.mean(values):.3f} | {np.std(values):.3f} | {cell} |")


if __name__ == "__main__":
    main()
