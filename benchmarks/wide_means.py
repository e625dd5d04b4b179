"""Error of private means on compact manifolds and on few matrices, nothing public but n.

Run:  python benchmarks/wide_means.py --fits 100
      python benchmarks/wide_means.py --fits 100 --only "S2 " "matrices"

Each fit draws new records around a random point, tangent Gaussian with the given root mean square
distance ("uneven": axes from 1 to .1; "skew": the first axis mostly exponential), epsilon 1 and
delta 1/(10 n).  Errors are distances to the Fréchet mean of the same records.  Compare two trees
with the same --first: their records and seeds are equal.
"""

import argparse
import math
import warnings

import numpy as np

from skriemdp import PrivateFrechetMean, frechet_mean
from skriemdp.geometry import SPD, Circle, Grassmann, Sphere
from skriemdp.privacy import gaussian_mu

SPHERES = ((49, 1.3, ""), (49, 0.6, ""), (20, 0.8, "uneven"), (20, 0.3, "skew"))
SPHERES += ((9, 1.2, "uneven"), (5, 1.15, "skew"), (2, 0.8, "skew"), (2, 0.3, ""))
SUBSPACES = ((8, 2, 1.24, ""), (8, 2, 1.2, "uneven"), (6, 2, 1.1, ""), (10, 3, 1.3, ""))
SUBSPACES += ((8, 2, 0.7, ""), (8, 2, 0.3, ""))
MATRICES = ((3, 0.3), (3, 1.0), (5, 0.6), (2, 1.0))


def cells():
    """Name, geometry, spread, law and n mu."""
    for t in (156, 456, 1400):
        for d, spread, law in SPHERES:
            yield f"S{d} {spread:g} {law}", Sphere(d), spread, law, t
        for spread, law in ((0.3, ""), (0.8, ""), (1.2, "skew")):
            yield f"circle {spread:g} {law}", Circle(2.0 * math.pi), spread, law, t
    for t in (104, 266, 456):
        for m, p, spread, law in SUBSPACES:
            yield f"Gr({m},{p}) {spread:g} {law}", Grassmann(m, p), spread, law, t
    for t in (11, 14, 17, 20, 25):
        for size, spread in MATRICES:
            yield f"matrices {size} {spread:g}", SPD(size), spread, "", t


def records(geometry, n, spread, law, rng):
    """Points around a random one, which lies .7 from the base point, or `spread` for matrices."""
    d = geometry.dim
    z = rng.standard_normal((n, d))
    if law == "uneven":
        axes = np.geomspace(1.0, 0.1, d)
        z *= axes * math.sqrt(d / np.sum(axes**2))
    if law == "skew":
        z[:, 0] = 0.5 * z[:, 0] + math.sqrt(0.75) * (rng.exponential(size=n) - 1.0)
    away = rng.standard_normal(d)
    away *= (spread if geometry.is_hadamard else 0.7) / np.linalg.norm(away)
    center = geometry.exp_coordinates(geometry.base_point, away)
    return np.asarray(geometry.exp_coordinates(center, z * spread / math.sqrt(d)))


def size_of(t):
    """Number of records with n mu about t at (1, 1/(10 n))."""
    n = 4.0 * t
    for _ in range(50):
        n = t / gaussian_mu(1.0, 0.1 / n)
    return round(n)


def error(geometry, n, spread, law, seed):
    X = records(geometry, n, spread, law, np.random.default_rng([seed, n]))
    model = PrivateFrechetMean(geometry, center="private", delta=0.1 / n, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    return float(geometry.dist(frechet_mean(X, geometry), model.mean_))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--only", nargs="*", default=(), help="cells whose names hold a word")
    parser.add_argument("--quick", action="store_true", help="three fits of each cell")
    options = parser.parse_args()
    fits = 3 if options.quick else options.fits
    print("| cell | n mu | root mean square | median | 90 % |\n|---|---|---|---|---|")
    for name, geometry, spread, law, t in cells():
        if options.only and not any(word in name for word in options.only):
            continue
        seeds = range(options.first, options.first + fits)
        errors = np.array([error(geometry, size_of(t), spread, law, seed) for seed in seeds])
        rms, (middle, high) = np.sqrt(np.mean(errors**2)), np.quantile(errors, [0.5, 0.9])
        print(f"| {name} | {t} | {rms:.4f} | {middle:.4f} | {high:.4f} |", flush=True)


if __name__ == "__main__":
    main()
