"""Error of the same default fits in two versions of the package: Markdown tables.

Run:  git worktree add ../before COMMIT
      python benchmarks/versions.py ../before --fits 400 [--only means components]

Each cell has `--fits` fits on the same records, drawn here, over several data sets.  "now / before"
is the ratio of the root mean squares; "at least" is its lower 95 % bound by a bootstrap over fits,
data set by data set.  Of twenty equal cells one has a bound above 1.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()
DATA_SETS = 4
# Manifold, its arguments, root mean square distance of the records from their centre.
MEANS = (
    ("Euclidean", (1,), 1.0), ("Euclidean", (3,), 1.0), ("Euclidean", (20,), 1.0),
    ("Euclidean", (100,), 1.0), ("Sphere", (2,), 0.3), ("Sphere", (2,), 0.8),
    ("Sphere", (5,), 1.1), ("Sphere", (20,), 0.3), ("Sphere", (20,), 0.8), ("Circle", (), 0.5),
    ("Hyperboloid", (2,), 0.3), ("Hyperboloid", (2,), 1.5), ("Hyperboloid", (10,), 1.0),
    ("SPD", (2,), 0.3), ("SPD", (2,), 1.0), ("SPD", (3,), 0.6), ("SPD", (6,), 0.6),
    ("LogEuclideanSPD", (3,), 0.6), ("Grassmann", (5, 2), 0.5), ("Stiefel", (5, 2), 0.5),
)  # fmt: skip


def tangent(rng, n, dim, spread):
    return rng.standard_normal((n, dim)) * spread / math.sqrt(dim)


def mean_records(geometry, n, spread, rng):
    """Tangent Gaussian records around a random point .5 from the base point."""
    away = rng.standard_normal(geometry.dim)
    center = geometry.exp_coordinates(geometry.base_point, 0.5 * away / np.linalg.norm(away))
    return np.asarray(geometry.exp_coordinates(center, tangent(rng, n, geometry.dim, spread)))


def build(name, arguments):
    import skriemdp.geometry

    return getattr(skriemdp.geometry, name)(*((2.0 * math.pi,) if name == "Circle" else arguments))


def means(public):
    """Fits of the default mean; `public` gives it the ball of 2.5 spreads around the base point."""
    from skriemdp import PrivateFrechetMean, frechet_mean

    for name, arguments, spread in MEANS:
        geometry = build(name, arguments)
        radius = 0.5 + 2.5 * spread
        if public and geometry.injectivity_radius < 4.0 * radius:
            continue
        settings = (
            {"center": geometry.base_point, "radius": radius} if public else {"center": "private"}
        )
        for n in (300, 3000):
            rng = np.random.default_rng([n, geometry.dim])
            sets = [mean_records(geometry, n, spread, rng) for _ in range(DATA_SETS)]
            targets = [frechet_mean(X, geometry) for X in sets]

            def error(k, seed, geometry=geometry, settings=settings, sets=sets, targets=targets):
                model = PrivateFrechetMean(geometry, random_state=seed, **settings).fit(sets[k])
                return float(geometry.dist(targets[k], model.mean_))

            label = f"{name}{arguments if arguments else ''} {spread:g}, n = {n}"
            yield label.replace(",)", ")"), error


def spiked(n, d, rng):
    return rng.normal(size=(n, d)) * np.sqrt(np.r_[5.0, 2.5, np.ones(d - 2)])


def components(center):
    """Lost share of the variance of the first component, of tables and of simulated records."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

    from skriemdp import PrivatePrincipalEigenvector

    tables = {}
    for load in (load_iris, load_wine, load_breast_cancer, load_digits):
        X = load().data
        tables[load.__name__[5:]] = [(X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)]
    for n, d in ((300, 5), (3000, 5), (3000, 20), (20000, 50)):
        rng = np.random.default_rng([n, d])
        tables[f"spiked {n} x {d}"] = [spiked(n, d, rng) for _ in range(DATA_SETS)]
    for name, sets in tables.items():
        for epsilon in (0.3, 1.0, 3.0):

            def error(k, seed, sets=sets, epsilon=epsilon):
                X = sets[k % len(sets)]
                model = PrivatePrincipalEigenvector(
                    center=center, epsilon=epsilon, random_state=seed
                ).fit(X)
                if center == "private":
                    X = X - X.mean(axis=0)
                moment, w = X.T @ X / len(X), np.ravel(model.components_[0])
                top = np.linalg.eigvalsh(moment)[-1]
                return math.sqrt(max(0.0, (top - w @ moment @ w) / top))

            yield f"{name}, epsilon {epsilon:g}", error


def linear():
    """Share of wrong labels of the default classifier above its floor, on simulated records."""
    from skriemdp import PrivateNoisyAdaGrad

    for n, d in ((1000, 5), (10000, 5), (10000, 20)):
        rng = np.random.default_rng([n, d])
        w = rng.standard_normal(d) / math.sqrt(d)
        sets = []
        for _ in range(DATA_SETS):
            X = rng.standard_normal((n, d))
            sets.append((X, np.where(X @ w + 0.3 * rng.standard_normal(n) > 0, 1, 0)))

        def error(k, seed, sets=sets):
            X, y = sets[k]
            model = PrivateNoisyAdaGrad(random_state=seed, classes=(0, 1)).fit(X, y)
            return math.sqrt(1.0 - model.score(X, y))

        yield f"{n} x {d}", error


TABLES = {
    "means, nothing public": lambda: means(public=False),
    "means in a public ball": lambda: means(public=True),
    "components": lambda: components("private"),
    "linear classifiers (share of wrong labels)": linear,
}


def fit_all(tables, fits):
    """Errors by table and cell, a row for each data set, of the version that is imported."""
    found = {}
    for table in tables:
        for cell, error in TABLES[table]():
            found[f"{table}|{cell}"] = [
                [error(k, 1000 * k + seed) for seed in range(fits // DATA_SETS)]
                for k in range(DATA_SETS)
            ]
            print(".", end="", file=sys.stderr, flush=True)
    return found


def rms(errors, rng=None):
    """Root mean square; with `rng` of 4000 resamples, data set by data set."""
    squares = np.asarray(errors) ** 2
    if rng is None:
        return math.sqrt(squares.mean())
    drawn = rng.integers(squares.shape[1], size=(4000, *squares.shape))
    return np.sqrt(np.take_along_axis(squares[None], drawn, axis=2).mean(axis=(1, 2)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", nargs="?", type=Path, help="the tree of the other version")
    parser.add_argument("--fits", type=int, default=400)
    parser.add_argument("--only", nargs="*", default=(), help="tables whose name holds a word")
    parser.add_argument("--quick", action="store_true", help="eight fits of each cell")
    parser.add_argument("--results", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    fits = 8 if options.quick else options.fits
    tables = [t for t in TABLES if not options.only or any(word in t for word in options.only)]
    if options.results is not None:
        warnings.simplefilter("ignore")
        options.results.write_text(json.dumps(fit_all(tables, fits)))
        return
    trees = [HERE.parents[1] if options.before is None else options.before, HERE.parents[1]]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{k}.json" for k in range(2)]
        runs = [
            subprocess.Popen(
                [sys.executable, HERE, "--results", file, "--fits", str(fits), "--only", *tables],
                env={**os.environ, "PYTHONPATH": str(tree.resolve())},
            )
            for tree, file in zip(trees, files, strict=True)
        ]
        if any([run.wait() for run in runs]):
            sys.exit("a version could not fit every cell")
        before, now = (json.loads(file.read_text()) for file in files)
    rng = np.random.default_rng(0)
    for table in tables:
        print(f"\n{table}\n\n| cell | before | now | now / before | at least |")
        print("|---|---|---|---|---|")
        logs = []
        for key in (key for key in before if key.startswith(f"{table}|")):
            old, new = rms(before[key]), rms(now[key])
            bound = np.quantile(rms(now[key], rng) / rms(before[key], rng), 0.05)
            logs.append(math.log(new / old))
            cell = key.split("|")[1]
            print(f"| {cell} | {old:.3g} | {new:.3g} | {new / old:.2f} | {bound:.2f} |")
        print(f"| geometric mean | | | {math.exp(np.mean(logs)):.3f} | |")


if __name__ == "__main__":
    main()
