"""Means and class means of raw data, constructor defaults only: errors against n mu.

    python benchmarks/raw_data.py [--seeds 40] [--quick] [--part means|classes|losses|shift|few]
    python benchmarks/raw_data.py --only airports sphere --data FOLDER

Nobody passes a centre or a radius: ``PrivateFrechetMean(manifold, epsilon=...)`` finds them.  The
first table has distances to the non-private mean over the root-mean-square spread of the data,
root mean square over the seeds and, in brackets, the median; delta = 1e-5, epsilon as the column's
``n mu`` asks.  Beside it stand the public base point, and the simplest private mean that somebody
could write who knew the data: on spheres and frames the normalised noisy mean, elsewhere the mean
of the logarithms at the true mean, clipped to the true 95 % quantile of the distances, plus noise.

The second table has accuracies of class means on held-out fifths.  ``airports.csv`` is read from
the package vega_datasets, or from ``--data`` or ``SKRIEMDP_DATA``; without it those rows are
skipped.  A third part counts the searches that lose the data.  The last one shifts them: every
estimator that finds a place by itself, with its rows and targets at public offsets that nobody
tells it, in spreads.  ``--part few`` counts means of few rows that are more than three spreads off.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import math
import os
import warnings
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from skriemdp import (
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateTangentClassifier,
    PrivateTangentPCA,
    frechet_mean,
)
from skriemdp._mechanisms.bounds import Ball
from skriemdp.datasets import digits_covariances, make_cloud
from skriemdp.geometry import SPD, Grassmann, Hyperboloid, Sphere, Stiefel
from skriemdp.privacy import gaussian_epsilon, gaussian_mu

DELTA = 1e-5


# -- data -----------------------------------------------------------------------------------------


def somewhere(geometry, n, spread, offset=2.0):
    """A function of the seed: a Gaussian cloud at a random place."""

    def make(seed):
        rng = np.random.default_rng(seed)
        if hasattr(geometry, "random_point"):
            center = geometry.random_point(rng)
        else:
            u = rng.normal(size=geometry.dim)
            center = geometry.exp_coordinates(geometry.base_point, u * offset / np.linalg.norm(u))
        steps = rng.normal(size=(n, geometry.dim)) * (spread / math.sqrt(geometry.dim))
        return np.asarray(geometry.exp_coordinates(center, steps))

    return make


def fisher(n, kappa):
    """A function of the seed: von Mises and Fisher's law on S^2, around a random direction."""

    def make(seed):
        rng = np.random.default_rng(seed)
        u = rng.random(n)
        w = 1.0 + np.log(u + (1.0 - u) * math.exp(-2.0 * kappa)) / kappa
        angle, r = 2.0 * math.pi * rng.random(n), np.sqrt(1.0 - w * w)
        points = np.stack([w, r * np.cos(angle), r * np.sin(angle)], axis=1)
        return points @ np.linalg.qr(rng.normal(size=(3, 3)))[0].T

    return make


def airports(folder):
    """Directions of airports, or None where the file is not at hand."""
    places = [Path(folder)] if folder else []
    if (package := importlib.util.find_spec("vega_datasets")) is not None:
        places.append(Path(package.origin).parent / "_data")
    path = next((p / "airports.csv" for p in places if (p / "airports.csv").exists()), None)
    if path is None:
        return None
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    north, east = (np.radians([float(r[name]) for r in rows]) for name in ("latitude", "longitude"))
    return np.stack([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)], 1)


def cells(folder):
    """``(name, geometry, points of a seed, values of n mu)``."""
    X, _ = digits_covariances()
    for metric in ("affine-invariant", "log-euclidean", "bures-wasserstein"):
        for unit in (1.0, 1e-12, 1e6):
            name = f"digits covariances, {metric}, times {unit:g}"
            yield name, SPD(5, metric), lambda seed, unit=unit: unit * X, (58, 110, 160, 482)
    globe = airports(folder)
    if globe is None:
        print("airports: skipped, no airports.csv (install vega_datasets or pass --data).\n")
    else:
        some = globe[np.random.default_rng(0).permutation(len(globe))[:500]]
        yield "airports", Sphere(2), lambda seed: globe, (110, 300, 905)
        yield "airports, 500 of them", Sphere(2), lambda seed: some, (44, 134)
    yield "sphere S^2, rms .3", Sphere(2), somewhere(Sphere(2), 1000, 0.3), (33, 89, 268)
    yield "sphere S^2, rms .05", Sphere(2), somewhere(Sphere(2), 1000, 0.05), (33, 89)
    yield "sphere S^20, rms .3", Sphere(20), somewhere(Sphere(20), 1000, 0.3), (33, 89)
    yield "sphere S^2, wide", Sphere(2), fisher(2000, 1.4), (65, 178, 536)
    frames, spaces = Stiefel(6, 2), Grassmann(8, 2)
    yield "Stiefel(6, 2), rms .3", frames, somewhere(frames, 1500, 0.3), (49, 133)
    yield "Grassmann(8, 2), rms .3", spaces, somewhere(spaces, 1500, 0.3), (49, 133)
    for geometry, spread, offset in ((SPD(2), 0.3, 3.0), (SPD(6), 0.6, 16.0)):
        make = somewhere(geometry, 1000, spread, offset)
        yield f"SPD({geometry.size}), rms {spread:g}", geometry, make, (36, 99, 299)
    yield (
        "hyperbolic plane, rms .5",
        Hyperboloid(2),
        somewhere(Hyperboloid(2), 1000, 0.5),
        (50, 150),
    )


# -- means ----------------------------------------------------------------------------------------


def start(geometry, points):
    """Where the non-private mean begins; the arithmetic mean, brought to the manifold."""
    if isinstance(geometry, Sphere):
        middle = points.mean(axis=0)
        return middle / np.linalg.norm(middle)
    if isinstance(geometry, Stiefel):
        left, _, right = np.linalg.svd(points.mean(axis=0), full_matrices=False)
        return left @ right
    if isinstance(geometry, Grassmann):
        projectors = points @ np.swapaxes(points, -1, -2)
        return np.linalg.eigh(projectors.mean(axis=0))[1][:, -geometry.p :]
    return points[0]


def simplest(geometry, points, target, mu, rng):
    """The simplest private mean of somebody who knows what bounds the data need."""
    n = len(points)
    if isinstance(geometry, Sphere | Stiefel):
        bound = math.sqrt(geometry.shape[-1]) if isinstance(geometry, Stiefel) else 1.0
        noise = 2.0 * bound / (n * mu) * rng.standard_normal(geometry.shape)
        middle = points.mean(axis=0) + noise
        return start(geometry, middle[None])
    seen = np.asarray(geometry.log_coordinates(target, points))
    bound = float(np.quantile(np.linalg.norm(seen, axis=1), 0.95))
    mean = Ball(bound).enforce(seen).mean(axis=0)
    noise = 2.0 * bound / (n * mu) * rng.standard_normal(geometry.dim)
    return np.asarray(geometry.exp_coordinates(target, mean + noise))


def means(seeds, only, folder):
    print("| data | n mu | public base point | simplest, oracle bounds | default |")
    print("|---|---|---|---|---|")
    for name, geometry, make, totals in cells(folder):
        if only and not any(word in name for word in only):
            continue
        first, facts = None, {}
        for total in totals:
            errors: dict[str, list] = {"base": [], "simplest": [], "default": []}
            for seed in seeds:
                points = make(seed)
                if first is None or not np.array_equal(points, first):
                    first = points
                    first_guess = start(geometry, points)
                    # Matrices in tiny units have tiny Bures-Wasserstein distances.
                    tol = 1e-6 * float(np.mean(geometry.dist(first_guess, points)))
                    target = frechet_mean(points, geometry, center=first_guess, tol=tol)
                    distances = np.asarray(geometry.dist(target, points))
                    facts = {"target": target, "spread": math.sqrt(np.mean(distances**2))}
                target, mu = facts["target"], total / len(points)
                epsilon = gaussian_epsilon(mu, DELTA)
                model = PrivateFrechetMean(
                    geometry, epsilon=epsilon, delta=DELTA, random_state=seed
                )
                rng = np.random.default_rng([seed, 1])  # not that of the data
                found = {
                    "base": geometry.base_point,
                    "simplest": simplest(geometry, points, target, mu, rng),
                    "default": model.fit(points).mean_,
                }
                for kind, point in found.items():
                    errors[kind].append(float(geometry.dist(target, point)) / facts["spread"])
            cell = [
                f"{math.sqrt(np.mean(np.square(v))):.3g} ({np.median(v):.2g})"
                for v in errors.values()
            ]
            print(f"| {name} | {total} | {' | '.join(cell)} |", flush=True)
    print()


# -- classes --------------------------------------------------------------------------------------


def simulated(n=1200, size=4, classes=6, seed=0):
    """Sample covariances of 40 samples each, six classes of their own shape."""
    rng = np.random.default_rng(seed)
    factors = np.linalg.cholesky(
        np.stack([np.cov(rng.normal(size=(size, 3 * size))) for _ in range(classes)])
    )
    y = np.arange(n) % classes
    samples = factors[y] @ rng.normal(size=(n, size, 40))
    return samples @ np.swapaxes(samples, -1, -2) / 40, y


def class_sets():
    X, y = digits_covariances()
    yield "digits covariances, ten classes", X, y
    yield "digits covariances, classes 0 to 5", X[y < 6], y[y < 6]
    yield "simulated covariances, six classes", *simulated()


def oracle_ball(X):
    """Centre and radius from the data themselves: what no private fit may know."""
    geometry = SPD(X.shape[1], "log-euclidean")
    center = frechet_mean(X, geometry, center=X[0])
    return center, float(np.quantile(np.asarray(geometry.dist(center, X)), 0.95))


def classes(seeds, only):
    models = {"affine-invariant": "spd", "log-Euclidean": "spd-log-euclidean"}
    names = [*models, "log-Euclidean, oracle ball"]
    print(f"| data | epsilon | one label for all | {' | '.join(names)} | not private |")
    print("|---|---|---|" + "---|" * (len(names) + 1))
    for name, X, y in class_sets():
        if only and not any(word in name for word in only):
            continue
        labels = np.unique(y)
        for epsilon in (0.1, 0.3, 1.0, 3.0):
            scores: dict[str, list] = {kind: [] for kind in ("one", *names, "exact")}
            split = StratifiedShuffleSplit(len(seeds), test_size=0.2, random_state=seeds[0])
            for seed, (train, test) in zip(seeds, split.split(X, y), strict=True):
                scores["one"].append(np.mean(y[test] == labels[0]))
                ball = oracle_ball(X[train])
                for kind, manifold, place, budget in (
                    *((kind, manifold, (), epsilon) for kind, manifold in models.items()),
                    (names[-1], "spd-log-euclidean", ball, epsilon),
                    ("exact", "spd-log-euclidean", (ball[0], 100.0), 1e5),
                ):
                    model = PrivateMinimumDistanceToMean(
                        manifold,
                        *place,
                        classes=labels,
                        epsilon=budget,
                        delta=DELTA,
                        random_state=seed,
                    )
                    model.fit(X[train], y[train])
                    if kind == "exact":  # nearest class means
                        model.decision_ = "geodesic"
                    scores[kind].append(model.score(X[test], y[test]))
            cell = [f"{np.mean(v):.3f} ± {np.std(v):.3f}" for v in scores.values()]
            print(f"| {name} | {epsilon:g} | {' | '.join(cell)} |", flush=True)
    print()


def losses(seeds):
    """How often a search loses the data, at sizes where a ball is hard to find."""
    print("\nfits that end more than a radius of the data away, of", len(seeds))
    for size, spread in ((5, 0.3), (10, 0.1)):
        geometry, rng = SPD(size), np.random.default_rng(11)
        X = make_cloud(geometry, 1000, radius=1.0, offset=0.2, spread=spread, rng=rng)
        target = frechet_mean(X, geometry)
        for epsilon, delta in ((0.1, 1e-3), (1.0, DELTA)):
            fits = (PrivateFrechetMean(geometry, epsilon=epsilon, delta=delta) for _ in seeds)
            errors = np.array([geometry.dist(target, fit.fit(X).mean_) for fit in fits])
            t = 1000 * gaussian_mu(epsilon, delta)
            lost = np.count_nonzero(errors > 1.0)
            print(f"{geometry}, n mu = {t:.0f}: {lost}, median error {np.median(errors):.3f}")


# -- far from the origin --------------------------------------------------------------------------

OFFSETS = (0.0, 10.0, 1e3, 1e5, 1e7)


def shifted(dim, scale=1.0):
    """A cloud, and labels that its first coordinate tells, at an offset in each coordinate."""

    def make(rng, offset, n):
        Z = rng.normal(size=(n, dim)) * scale
        return Z + offset, (Z[:, 0] > 0.0).astype(int), Z[:, :1] + offset

    return make


def _rms(found, X):
    return float(np.linalg.norm(found - X.mean(axis=0))) / math.sqrt(X.shape[1])


def _wrong(model, X, y):
    return 1.0 - model.fit(X, y).score(X, y)


def _missed(model, X, target):
    noisy = target + 0.1 * np.random.default_rng(len(X)).normal(size=target.shape)
    return float(np.mean((model.fit(X, noisy).predict(X) - noisy) ** 2))


def _turned(model, X):
    return 1.0 - abs(float(np.ravel(model.fit(X).components_)[0]))


def doors(dim):
    """``name: error(X, labels, targets)`` of estimators that find a place by themselves."""
    mean, labels = PrivateFrechetMean, {"classes": [0, 1]}
    return {
        "mean": lambda X, y, t: _rms(mean().fit(X).mean_, X),
        "mean, bars": lambda X, y, t: _rms(mean(uncertainty=True).fit(X).mean_, X),
        "median": lambda X, y, t: _rms(mean(statistic="median").fit(X).mean_, X),
        "mean of people": lambda X, y, t: _rms(
            mean().fit(np.repeat(X, 2, axis=0), groups=np.repeat(np.arange(len(X)), 2)).mean_, X
        ),
        "class means": lambda X, y, t: _wrong(PrivateMinimumDistanceToMean(**labels), X, y),
        "log loss": lambda X, y, t: _wrong(PrivateNoisyAdaGrad(**labels), X, y),
        "tangent classifier": lambda X, y, t: _wrong(
            PrivateTangentClassifier("euclidean", **labels), X, y
        ),
        "huber": lambda X, y, t: _missed(PrivateNoisyAdaGrad("huber"), X, t[:, 0]),
        "geodesic": lambda X, y, t: _missed(PrivateGeodesicRegressor("euclidean"), X, t),
        "tangent components": lambda X, y, t: _turned(
            PrivateTangentPCA(n_components=1, manifold="euclidean"),
            X * np.r_[4.0, np.ones(dim - 1)],
        ),
        "components": lambda X, y, t: _turned(
            PrivatePrincipalEigenvector(1), X * np.r_[4.0, np.ones(dim - 1)]
        ),
    }


def shifts(seeds, only):
    """Medians, and in brackets the worst, of the errors of every door at every offset."""
    print("\n| rows | error of | " + " | ".join(f"{offset:g}" for offset in OFFSETS) + " |")
    print("|" + "---|" * (2 + len(OFFSETS)))
    for n, dim in ((750, 3), (2000, 3), (2000, 10)):
        for name, error in doors(dim).items():
            if only and not any(word in name for word in only):
                continue
            row = []
            for offset in OFFSETS:
                data = (shifted(dim)(np.random.default_rng(s), offset, n) for s in seeds)
                errors = [error(*each) for each in data]
                row.append(f"{np.median(errors):.3g} ({max(errors):.2g})")
            print(f"| {n} x {dim} | {name} | {' | '.join(row)} |", flush=True)


def few(seeds):
    """Means of few rows, at an offset from zero in spreads; "lost" are more than three off."""
    mu = gaussian_mu(1.0, DELTA)
    print("\n| columns | offset | n mu | median error | lost |\n|---|---|---|---|---|")
    for dim, offset in ((3, 0.0), (5, 10.0), (3, 30.0), (10, 3.0)):
        for t in (14, 18, 22, 27):
            errors = []
            for seed in seeds:
                rng = np.random.default_rng(seed)
                away = rng.normal(size=dim)
                X = offset * away / np.linalg.norm(away) + rng.normal(size=(round(t / mu), dim))
                errors.append(_rms(PrivateFrechetMean("euclidean").fit(X).mean_, X))
            lost = np.mean(np.array(errors) > 3.0)
            print(
                f"| {dim} | {offset:g} | {t} | {np.median(errors):.3g} | {lost:.2f} |", flush=True
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=1000, help="the first of the seeds")
    parser.add_argument("--quick", action="store_true", help="two seeds, a few rows")
    parser.add_argument("--part", choices=("means", "classes", "losses", "shift", "few"))
    parser.add_argument("--only", nargs="*", default=(), help="rows whose names hold a word")
    parser.add_argument("--data", default=os.environ.get("SKRIEMDP_DATA"))
    options = parser.parse_args()
    seeds = range(options.first, options.first + (2 if options.quick else options.seeds))
    only = options.only
    if options.quick and not only:
        only = ("affine-invariant, times 1e+06", "S^2", "Grassmann", "simulated")
    # Warnings of little data are the point of some rows.
    warnings.simplefilter("ignore", UserWarning)
    if options.part in (None, "means"):
        means(seeds, only, options.data)
    if options.part in (None, "classes"):
        classes(seeds, only)
    if options.part in (None, "losses"):
        losses(seeds)
    if options.part in (None, "shift"):
        shifts(seeds, only)
    if options.part in (None, "few"):
        few(seeds)


if __name__ == "__main__":
    main()
