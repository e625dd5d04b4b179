"""Error of private means over the limit d (Delta / mu)^2, on many manifolds: a Markdown table.

Run:  python benchmarks/mean_utility.py [--draws 4000] [--n 1000]

Data are tangent-uniform in the ball with the mean within .2 r of the centre; the rows "off-centre"
put it at .6 r.  `E d^2` is the mean squared distance to the non-private mean of the same data.
"""

import argparse
import math

import numpy as np

from skriemdp import frechet_mean
from skriemdp._descent.gradient_descent import RiemannianGradientDescent
from skriemdp._descent.problem import FrechetProblem
from skriemdp._mean.releases import MeanNoise, plan_tangent_mean
from skriemdp.datasets import make_cloud
from skriemdp.geometry import SPD, GeodesicBall, Hyperboloid, Sphere
from skriemdp.privacy import gaussian_mu

BUDGETS = ((0.1, 1e-3), (1.0, 1e-5))
SPACES = (
    ("SPD(2)", SPD(2), 1.0),
    ("SPD(5)", SPD(5), 1.0),
    ("H^2", Hyperboloid(2), 1.0),
    ("H^10", Hyperboloid(10), 1.0),
    ("S^2", Sphere(2), math.pi / 8),
    ("S^20", Sphere(20), math.pi / 8),
    ("SPD(3), log-Euclidean", SPD(3, metric="log-euclidean"), 1.0),
)


def tangent_outputs(ball, points, mu, draws, rng):
    """`draws` one-shot releases."""
    plan, problem = (
        plan_tangent_mean(ball, len(points), MeanNoise(mu, None)),
        FrechetProblem(ball, points),
    )
    return np.stack([plan.finish(plan.noisy(problem, rng)) for _ in range(draws)])


def descent_outputs(ball, points, mu, shares, draws, rng):
    """`draws` runs of DP-RGD from the centre with full steps."""
    problem = FrechetProblem(ball, points)
    solver = RiemannianGradientDescent(
        mu=mu, n_steps=len(shares), step_size=1.0, shares=shares, domain=ball
    )
    return np.stack([solver.solve(problem, ball.center, rng) for _ in range(draws)])


def row(name, geometry, radius, n, draws, budget, offset, seed=0):
    rng = np.random.default_rng(seed)
    ball = GeodesicBall(geometry, geometry.base_point, radius)
    points = make_cloud(geometry, n, radius=radius, offset=offset, rng=rng)
    target = frechet_mean(points, geometry)
    mu = gaussian_mu(*budget)
    limit = geometry.dim * (2 * radius / n / mu) ** 2

    def ratio(outputs):
        return float(np.mean(geometry.dist(target, outputs) ** 2)) / limit

    few = max(40, draws // 2)
    where = float(geometry.dist(ball.center, target)) / radius
    return (
        f"| {name} | {budget} | {where:.2f} | {where**2 * radius**2 / limit:.3g} "
        f"| {ratio(tangent_outputs(ball, points, mu, few, rng)):.3f} "
        f"| {ratio(descent_outputs(ball, points, mu, (1.0,), few, rng)):.3f} "
        f"| {ratio(descent_outputs(ball, points, mu, (0.1, 0.9), few, rng)):.3f} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--n", type=int, default=1000)
    options = parser.parse_args()
    print(f"n = {options.n}; E d^2 / limit (non-private: 0)\n")
    print(
        "| manifold | (epsilon, delta) | mean at (of r) | public centre, no data | tangent "
        "| gradient T=1 | gradient T=2 |\n|---|---|---|---|---|---|---|"
    )
    for offset in (0.1, 0.6):
        for name, geometry, radius in SPACES:
            for budget in BUDGETS:
                label = name if offset < 0.2 else f"{name}, off-centre"
                print(row(label, geometry, radius, options.n, options.draws, budget, offset))


if __name__ == "__main__":
    main()
