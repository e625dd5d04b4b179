"""Private hyperbolic regression: error on held-out points, speed; Markdown tables.

Run:  python benchmarks/hyperbolic_regression.py --data FOLDER [--quick] [--figure FILE]
      python benchmarks/hyperbolic_regression.py --speed | --warned

FOLDER (or the environment variable SKRIEMDP_DATA) holds ``hyperbolic_*.npz`` with features X,
labels Y (Lorentz coordinates) and the radius; without it the table of a synthetic tree is printed.
A tenth of the nodes is held out: split s is the first tenth of
``numpy.random.default_rng(700 + s).permutation(n)``.  Numbers are mean hyperbolic distances.
"""

import argparse
import math
import os
import time
import warnings
from pathlib import Path

import numpy as np

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateHyperbolicRegressor,
    frechet_mean,
)
from skriemdp._mechanisms.units import Units
from skriemdp._regression.features import FeatureMap
from skriemdp._regression.wrapped_releases import WrappedModel
from skriemdp.datasets import make_tree
from skriemdp.geometry import GeodesicBall, Hyperboloid

DELTA = 1e-5
SPACE = Hyperboloid(2)
# Wider balls need a public base point: away from their centre digits are lost.
WIDEST = 10.0
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
# name, kernel width in units of the feature scale, splits
SETS = (
    ("M1", 0.5, 3),
    ("M2", 0.5, 3),
    ("M3", 0.5, 3),
    ("tree_smooth_2000", 1.0, 3),
    ("tree_smooth_20000", 1.5, 1),
)


def load(folder, name):
    """Features in public units, labels, public radius."""
    file = np.load(Path(folder) / f"hyperbolic_{name}.npz")
    X = np.asarray(file["X"], dtype=float)
    if name.startswith("M"):
        # Eigenmaps of a public graph; their spread is taken as public, as in the literature.
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, file["Y"], float(file["radius"])


def split_of(n, split):
    order = np.random.default_rng(700 + split).permutation(n)
    return order[n // 10 :], order[: n // 10]


def error(predicted, labels):
    return float(np.mean(SPACE.dist(predicted, labels)))


def non_private(X, y, held_out, length, radius):
    """The parametric model without noise, base point at the non-private mean."""
    features = FeatureMap(X.shape[1], 128, length, 1.0, 10.0, 0)
    ball = GeodesicBall(SPACE, None, radius)
    base = frechet_mean(ball.project(y), SPACE)
    labels = SPACE.log_coordinates(base, ball.project(y))
    model = WrappedModel(len(X), (256, SPACE.dim), 1e4, 100, 4.0, 0.5, 0.8)
    weights, _ = model.release(Units((features(X), labels)), np.random.default_rng(0))
    return ball.project(SPACE.exp_coordinates(base, features(held_out) @ weights))


def sweep(X, y, splits, repeats, fit_predict, limit=None):
    """Mean error over splits and repeats for every epsilon."""
    row = []
    for epsilon in EPSILONS:
        errors = []
        for split in range(splits):
            train, test = split_of(len(X), split)
            test = test[:limit]
            for _ in range(repeats):
                predicted = fit_predict(X[train], y[train], X[test], epsilon)
                errors.append(error(predicted, y[test]))
        row.append(np.mean(errors))
    return row


def regressor(radius, length, **parameters):
    if radius > WIDEST:
        parameters.setdefault("base_point", SPACE.base_point)

    def fit_predict(X, y, held_out, epsilon):
        model = PrivateHyperbolicRegressor(
            manifold="hyperboloid",
            radius=radius,
            length_scale=length,
            epsilon=epsilon,
            delta=DELTA,
            **parameters,
        )
        return model.fit(X, y).predict(held_out)

    return fit_predict


def private_mean(radius):
    def fit_predict(X, y, held_out, epsilon):
        mean = PrivateFrechetMean(SPACE, radius=radius, epsilon=epsilon, delta=DELTA).fit(y)
        return mean.predict(y[: len(held_out)])

    return fit_predict


def public_centre(X, y, held_out, epsilon):
    return np.broadcast_to(SPACE.base_point, (len(held_out), 3))


def print_row(name, values):
    print(f"| {name} | " + " | ".join(f"{value:.2f}" for value in values) + " |", flush=True)


def table(name, X, y, radius, length, splits, repeats):
    print(f"\n### {name} (n = {len(X)})\n")
    print("| method | " + " | ".join(f"{epsilon:g}" for epsilon in EPSILONS) + " |")
    print("|---" * (len(EPSILONS) + 1) + "|")
    print_row("public centre, no data", sweep(X, y, splits, 1, public_centre))
    print_row("private mean", sweep(X, y, splits, repeats, private_mean(radius)))
    for label, parameters in (
        ("**parametric**", {}),
        ("parametric, public base point", {"base_point": SPACE.base_point}),
        ("sufficient statistics", {"mechanism": "sufficient-statistics"}),
    ):
        row = sweep(X, y, splits, repeats, regressor(radius, length, **parameters))
        print_row(label, row)
    query_rows(X, y, radius, length, splits)
    row = []
    for split in range(splits):
        train, test = split_of(len(X), split)
        predicted = non_private(X[train], y[train], X[test], length, radius)
        row.append(error(predicted, y[test]))
    print_row("parametric, not private", [np.mean(row)] * len(EPSILONS))


def query_rows(X, y, radius, length, splits):
    """Rows of "per-query"; errors are those of 25 held-out rows, noise that of all queries."""
    if len(X) > 5000:
        return
    for unit in ("record", "label"):
        for count in (1, len(X) // 10):
            parameters = {"mechanism": "per-query", "privacy_unit": unit, "n_queries": count}
            rows = []
            for width in (length, 0.2 * length):
                choose = one_query_each if count == 1 else regressor
                predict = choose(radius, width, **parameters)
                rows.append(sweep(X, y, splits, 1, predict, 25))
            # In each cell the better width on the test set: the comparison favours this method.
            print_row(f"per query, {unit}, budget for {count}", np.min(rows, axis=0))


def one_query_each(radius, length, **parameters):
    """Every held-out row gets a whole budget of its own: what one query costs."""

    def fit_predict(X, y, held_out, epsilon):
        one = regressor(radius, length, **parameters)
        return np.concatenate([one(X, y, row[None], epsilon) for row in held_out])

    return fit_predict


def best_of(function, repeats=3):
    """Least processor time of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def speed(sizes=(5000, 20000), n_frequencies=128, n_steps=100):
    """Fits against the bare products of their steps, in one process."""
    print("\n### Speed (p = 256 features, 100 steps; processor seconds)\n")
    print("| n | fit | of it descent | bare products | fit / products |")
    print("|---|---|---|---|---|")
    for n in sizes:
        X, y = make_tree(n)
        rng = np.random.default_rng(0)
        features = FeatureMap(X.shape[1], n_frequencies, 1.0, 1.0, 10.0, 0)(X)
        labels = np.asarray(SPACE.log_coordinates(SPACE.base_point, y))
        solver = WrappedModel(n, (2 * n_frequencies, 2), 1.0, n_steps, 1.0, 0.5, 0.8)
        weights, gradients = rng.normal(size=(2 * n_frequencies, 2)), rng.normal(size=(2, n))
        model = PrivateHyperbolicRegressor(
            manifold="hyperboloid", n_steps=n_steps, n_frequencies=n_frequencies
        )

        def products(features=features, weights=weights, gradients=gradients):
            for _ in range(n_steps):
                features @ weights
                gradients @ features

        fit = best_of(lambda model=model, X=X, y=y: model.fit(X, y))
        units = Units((features, labels))
        descent = best_of(
            lambda solver=solver, units=units: solver.release(units, np.random.default_rng(0))
        )
        bare = best_of(products)
        print(f"| {n} | {fit:.2f} | {descent:.2f} | {bare:.2f} | {fit / bare:.2f} |", flush=True)
    million = np.random.default_rng(0).normal(size=(1_000_000, X.shape[1]))
    seconds = best_of(lambda: model.predict(million), 1)
    print(f"\nA million predictions from one fit: {seconds:.1f} s, no charge.")


def warned(fits=20):
    """Fits whose labels never stood out of their noise, by what there is to learn of them."""
    print("| method | n, epsilon | size of the slopes | R^2 of what they say | fits that warn |")
    print("|---|---|---|---|---|")
    for method in ("parametric", "sufficient-statistics"):
        for n, epsilon in ((300, 0.3), (1000, 1.0), (3000, 1.0)):
            for slope in (0.0, 0.3, 1.0):
                told, gains = 0, []
                for seed in range(fits):
                    rng = np.random.default_rng((seed, n))
                    X = rng.standard_normal((n + 500, 3))
                    means = np.tanh(slope * X[:, :2])
                    y = means[:n] + 0.3 * rng.standard_normal((n, 2))
                    with warnings.catch_warnings(record=True) as seen:
                        warnings.simplefilter("always", UserWarning)
                        model = PrivateHyperbolicRegressor(method, radius=2.0, epsilon=epsilon)
                        model.fit(X[:n], y)
                    told += any("never stood out" in str(one.message) for one in seen)
                    lost = np.sum((model.predict(X[n:]) - means[n:]) ** 2)
                    gains.append(1.0 - lost / max(np.sum(means[n:] ** 2), 1e-300))
                gain = f"{np.median(gains):.2f}" if slope else ""
                row = (method, f"{n}, {epsilon:g}", f"{slope:g}", gain, f"{told} of {fits}")
                print("| " + " | ".join(row) + " |", flush=True)


def figure(folder, path, names=("horse.n.01", "primate.n.02"), repeats=40):
    """Named nodes of the mammals, predicted by a model that never saw them."""
    import matplotlib.pyplot as plt

    from skriemdp.plotting import PoincareDiskDisplay

    X, y, radius = load(folder, "M1")
    file = np.load(Path(folder) / "hyperbolic_M1.npz")
    held_out = [list(file["names"]).index(name) for name in names]
    train = np.setdiff1d(np.arange(len(X)), held_out)
    axes = plt.subplots(1, 3, figsize=(13, 4.5))[1]
    for epsilon, ax in zip((0.1, 1.0, 10.0), axes, strict=True):
        fit = regressor(radius, 0.5)
        clouds = [fit(X[train], y[train], X[held_out], epsilon) for _ in range(repeats)]
        clouds = np.swapaxes(clouds, 0, 1)
        display = PoincareDiskDisplay(
            y[held_out], clouds, background=y, edges=file["edges"], names=names
        )
        display.plot(ax).ax_.set_title(f"epsilon = {epsilon:g}, delta = 1e-5")
        for name, cloud, point in zip(names, clouds, y[held_out], strict=True):
            print(f"epsilon={epsilon:g} {name}: mean distance {error(cloud, point):.2f}")
    axes[0].figure.tight_layout()
    axes[0].figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("SKRIEMDP_DATA"))
    parser.add_argument("--sets", nargs="*", help="names of the sets; all by default")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one split, one repeat, small sets")
    parser.add_argument("--queries", action="store_true", help="only the rows of single queries")
    parser.add_argument("--speed", action="store_true", help="only the speed table")
    parser.add_argument("--warned", action="store_true", help="only how often fits warn")
    parser.add_argument("--figure", help="only the figure of two mammals, to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.speed:
        return speed()
    if options.warned:
        with PrivacyAccountant(epsilon=math.inf):
            return warned()
    if options.figure:
        return figure(options.data, options.figure)
    repeats = 1 if options.quick else options.repeats
    if options.data is None:
        print("no --data and no SKRIEMDP_DATA: the synthetic tree only.")
        X, y = make_tree(2000)
        table("synthetic tree", X, y, 6.0, 1.0, 1, repeats)
    else:
        for name, length, splits in SETS:
            if options.sets and name not in options.sets:
                continue
            if options.quick and "20000" in name:
                continue
            X, y, radius = load(options.data, name)
            if options.queries:
                print(f"\n### {name} (n = {len(X)})\n")
                query_rows(X, y, radius, length, 1 if options.quick else splits)
                continue
            table(name, X, y, radius, length, 1 if options.quick else splits, repeats)
    if options.quick:
        speed(sizes=(2000,))


if __name__ == "__main__":
    main()
