"""Private medians and means of contaminated records, and coverage of the median's bars.

python benchmarks/median.py --part error       # distance to the clean centre, and bars
python benchmarks/median.py --part coverage    # how often 95 % regions hold the median
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from skriemdp import PrivateFrechetMean, frechet_mean
from skriemdp.datasets import digits_covariances
from skriemdp.geometry import AffineInvariantSPD, Euclidean, Hyperboloid, Sphere

# Spread of the clean records, and how far the others lie, in a cloud on one side.
SPACES = {
    "SPD(3)": (AffineInvariantSPD(3), 0.33, 6.0),
    "S^2": (Sphere(2), 0.4, 2.0),
    "H^2": (Hyperboloid(2), 0.6, 5.0),
}
SHARES = (0.0, 0.02, 0.07, 0.2, 0.4)


def median(geometry, points, start, steps=300):
    """The geometric median, without privacy: Weiszfeld's algorithm."""
    for _ in range(steps):
        seen = np.asarray(geometry.log_coordinates(start, points))
        weights = 1.0 / np.maximum(np.linalg.norm(seen, axis=1), 1e-9)
        move = weights @ seen / weights.sum()
        start = np.asarray(geometry.exp_coordinates(start, move))
        if np.linalg.norm(move) < 1e-9:
            break
    return start


def contaminated(geometry, points, center, share, far, rng):
    """`points`, of which a share lies in a cloud at the distance `far` from `center`."""
    points, count = np.array(points), round(share * len(points))
    seen = 0.1 * rng.normal(size=(count, geometry.dim))
    seen[:, 0] += far
    points[:count] = geometry.exp_coordinates(center, seen)
    return points


def cloud(geometry, spread, n, rng):
    """Gaussian points about the base point."""
    seen = spread * rng.normal(size=(n, geometry.dim))
    return np.asarray(geometry.exp_coordinates(geometry.base_point, seen))


def data_sets(n):
    """Name to geometry, how far away the others lie, and ``draw(rng) -> points, clean centre``."""
    for name, (geometry, spread, far) in SPACES.items():

        def draw(rng, geometry=geometry, spread=spread):
            return cloud(geometry, spread, n, rng), geometry.base_point

        yield name, geometry, far, draw
    X, _ = digits_covariances()
    geometry = AffineInvariantSPD(5)
    center = frechet_mean(X, geometry)

    def digits(rng):
        return rng.permutation(X), center

    yield "digits, SPD(5), n = 1797", geometry, 8.0, digits


def errors(n, runs):
    print("root mean square distance to the mean of the clean records; epsilon = 1, delta = 1e-5")
    for name, geometry, far, draw in data_sets(n):
        for share in SHARES:
            found = []
            for run in range(runs):
                rng = np.random.default_rng(run)
                points, center = draw(rng)
                X = contaminated(geometry, points, center, share, far, rng)
                row = [median(geometry, X, center)]
                for statistic in ("mean", "median"):
                    model = PrivateFrechetMean(geometry, statistic=statistic, random_state=run)
                    row.append(model.fit(X).mean_)
                found.append([*geometry.dist(np.stack(row), center), geometry.dist(row[0], row[2])])
            plain, mean, private, gap = np.sqrt(np.mean(np.square(found), axis=0))
            print(
                f"{name:26}{share:5.0%} outside: mean {mean:.3f}, median {private:.3f}, median "
                f"without privacy {plain:.3f}; the two medians are {gap:.3f} apart"
            )


def covered(name, geometry, draw, truth, n, epsilon, runs):
    held = []
    for run in range(runs):
        settings = {"uncertainty": True, "epsilon": epsilon, "random_state": run}
        model = PrivateFrechetMean(geometry, statistic="median", **settings)
        model.fit(draw(np.random.default_rng(run)))
        held.append(model.confidence_region().contains(truth))
    print(f"{name:34} n = {n:5}, epsilon = {epsilon}: {np.mean(held):.3f}")
    return float(np.mean(held))


def coverage(n, runs):
    found = []
    for name, (geometry, spread, far) in SPACES.items():
        for share in (0.0, 0.07):

            def draw(rng, geometry=geometry, spread=spread, far=far, share=share):
                points = cloud(geometry, spread, n, rng)
                return contaminated(geometry, points, geometry.base_point, share, far, rng)

            many = np.random.default_rng(1)
            points = cloud(geometry, spread, 200_000, many)
            points = contaminated(geometry, points, geometry.base_point, share, far, many)
            truth = (
                median(geometry, points, geometry.base_point, 60) if share else geometry.base_point
            )
            found.append(covered(f"{name}, {share:.0%}", geometry, draw, truth, n, 1.0, runs))
    for name, scales in (("R^1", [1.0]), ("R^6, scales 1 to .02", [1, 0.5, 0.2, 0.1, 0.05, 0.02])):
        space = Euclidean(len(scales))

        def rows(rng, scales=scales):
            return rng.normal(size=(n, len(scales))) * scales

        found.append(covered(name, space, rows, space.base_point, n, 1.0, runs))
    print(
        f"mean {np.mean(found):.3f}, least {min(found):.3f}; standard error {0.22 / runs**0.5:.3f}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("error", "coverage"))
    parser.add_argument("--runs", type=int, default=None)
    parser.add_argument("--n", type=int, default=None)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # seeds, labels: not what is measured
    few = 2 if args.quick else None
    if args.part in (None, "error"):
        errors(args.n or 5000, few or args.runs or 10)
    if args.part in (None, "coverage"):
        coverage(args.n or 2000, few or args.runs or 200)


if __name__ == "__main__":
    main()
