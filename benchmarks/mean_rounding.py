"""What rounding does to an iterated mean, over what the guard of the iteration allows for.

One record of twenty changes in its last bits, at centres of growing condition number (SPD matrices)
or distance from the base point (hyperbolic spaces); the records lie near the rim of the ball, in
the direction that makes matters worse, in the opposite one, or in a random one.  Printed is the
largest move of the computed mean, as a distance; that over ``4 eps R``, R =
``geometry.rounding(center, radius)``; and that over ``eps`` times the *sum* of the two growths.
"""

import argparse

import numpy as np

from skriemdp._descent.iterated_mean import iterate_mean
from skriemdp._descent.problem import FrechetProblem
from skriemdp.geometry import SPD, GeodesicBall, Hyperboloid, Poincare
from skriemdp.privacy._mean_iteration import plan_mean_iteration

EPS = np.finfo(float).eps


def moved(geometry, center, radius, direction, rng, n=20):
    ball = GeodesicBall(geometry, center, radius)
    direction = direction / np.linalg.norm(direction)
    far = geometry.exp_coordinates(center, 0.95 * radius * direction)
    spread = 0.05 * radius / np.sqrt(geometry.dim) * rng.normal(size=(n, geometry.dim))
    X = np.asarray(geometry.canonical(geometry.exp_coordinates(far, spread)))
    plan = plan_mean_iteration(radius, n, geometry.curvature_bounds, 0.1 * radius / n)
    if plan is None:
        return 0.0
    means = []
    for k in range(4):
        changed = X.copy()
        changed[0] *= 1.0 + 2.3e-16 * k
        problem = FrechetProblem.from_records(ball, changed)[0]
        means.append(iterate_mean(problem, plan.step_sizes))
    return max(np.linalg.norm(geometry.log_coordinates(means[0], m)) for m in means[1:])


def spd_centre(size, condition, seed):
    """A rotated centre, and a matrix in the direction that makes it worse."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(size, size)))[0] if seed else np.eye(size)
    logs = -np.log(condition) * np.linspace(0.0, 1.0, size)
    worse = logs - np.linspace(0.0, 1.0, size)
    return [(m + m.T) / 2 for m in ((turn * np.exp(v)) @ turn.T for v in (logs, worse))]


def hyperbolic_centre(geometry, distance, seed):
    u = np.random.default_rng(seed).normal(size=geometry.dim)
    u /= np.linalg.norm(u)
    return [geometry.exp_coordinates(geometry.base_point, d * u) for d in (distance, distance + 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    seeds = range(1 if quick else 3)
    print("| space | centre | radius | moved | over 4 eps R | over the sum |")
    print("|---|---|---|---|---|---|")
    for geometry in (SPD(2), SPD(5), Hyperboloid(2), Poincare(2)):
        spd = geometry.point_ndim == 2
        for size in (1e0, 1e4, 1e8) if spd else (0.0, 8.0, 16.0):
            for radius in (1.0, 4.0, 8.0):
                worst = 0.0
                for seed in seeds:
                    if spd:
                        center, worse = spd_centre(geometry.size, size, seed)
                    else:
                        center, worse = hyperbolic_centre(geometry, size, seed)
                    rng = np.random.default_rng(100 + seed)
                    toward = np.asarray(geometry.log_coordinates(center, worse))
                    for direction in (toward, -toward, rng.normal(size=geometry.dim)):
                        worst = max(worst, moved(geometry, center, radius, direction, rng))
                growth = np.exp(np.sqrt(2.0) * radius if spd else radius)
                both = 4.0 * growth + (size if spd else np.exp(size))
                rule = 4.0 * EPS * geometry.rounding(center, radius)
                name = f"condition {size:g}" if spd else f"distance {size:g}"
                print(
                    f"| {geometry} | {name} | {radius:g} | {worst:.1e} | {worst / rule:.2f} |"
                    f" {worst / (EPS * both):.3g} |"
                )


if __name__ == "__main__":
    main()
