"""Rates of Table 1 of Han, Mishra, Jawanpuria and Gao (2022), seen: one problem per function class.

Run ``python benchmarks/table1_slopes.py [figure.png]``.  Each problem is a fixed risk on 25
records, repeated, so that only n changes; DP-RGD runs with the steps, step sizes and output of
`skriemdp.schedules.schedule`.  Printed are log-log slopes of the excess risk (of the
squared gradient norm for "nonconvex") against n and d: in Table 1, of our bound, and measured.
"""

from __future__ import annotations

import dataclasses
import os
import sys

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

from skriemdp._descent.gradient_descent import RiemannianGradientDescent, descend  # noqa: E402
from skriemdp._descent.per_sample import (  # noqa: E402
    CostProblem,
    EuclideanGradient,
    HalfSquaredDistance,
    RiemannianGradient,
)
from skriemdp._descent.problem import Problem  # noqa: E402
from skriemdp._descent.queries import GradientQuery  # noqa: E402
from skriemdp._descent.releases import exact_mean  # noqa: E402
from skriemdp._descent.trajectory import Moves  # noqa: E402
from skriemdp._mechanisms.bounds import Ball  # noqa: E402
from skriemdp.geometry import Euclidean, GeodesicBall, Hyperboloid, Sphere  # noqa: E402
from skriemdp.schedules import FunctionClass, curvature_constant, schedule  # noqa: E402

RECORDS = 25
MU = 0.1
SIZES = (4, 8, 16, 32)  # repetitions of the records
DIMENSIONS = (2, 4, 8, 16, 32)
RUNS = 10


class Repeated(Problem):
    """`problem` with every record repeated; how far one record moves the sum is given."""

    def __init__(self, problem, times, diameter):
        self.problem, self.times, self.diameter = problem, times, diameter
        self.geometry, self.n = problem.geometry, problem.n * times

    def gradients(self, point, indices=None):
        raise NotImplementedError

    def gradient_ball(self, point):
        return Ball(0.5 * self.diameter)

    def adder(self, indices, *points):
        def add(units, give, held, steps):
            # About the centre of a ball that nobody needs to know: it falls out of differences.
            total = self.times * self.problem.stacked(*points).sum(axis=0)
            return np.rint(total / held.spacing(steps)).astype(np.int64)

        return add


@dataclasses.dataclass
class Case:
    """A risk, its class, and how to measure a released point."""

    problem: CostProblem
    kind: FunctionClass
    domain: GeodesicBall | None
    start: np.ndarray
    measure: callable


def spread(dim, radius, seed=0):
    """Points of a ball of R^dim with the same second moments, and mean not zero."""
    coordinates = np.random.default_rng(seed).standard_normal((RECORDS, dim))
    coordinates[:, 0] += 0.5
    return radius * coordinates / np.linalg.norm(coordinates, axis=1).max()


def excess(problem, risk, domain, start, step=0.5, steps=400):
    moves = Moves(steps, tuple(step / (1 + t / 20) for t in range(steps)), domain=domain)
    best = min(risk(descend(problem, start, moves, 1e3)), risk(start))
    return lambda point: max(risk(point) - best, 1e-16)


def median_case(dim, n):
    """Convex: geometric median on the hyperboloid; every gradient has norm one."""
    space = Hyperboloid(dim)
    ball = GeodesicBall(space, None, 1.0)
    X = space.exp_coordinates(ball.center, spread(dim, 1.0))

    def gradient(point, X, y):
        logarithms = space.log(point, X)
        return -logarithms / space.norm(point, logarithms)[:, None]

    problem = CostProblem(RiemannianGradient(space, gradient), X)
    kind = FunctionClass("convex", dim, lipschitz=1.0, diameter=2.0, lowest_curvature=-1.0)
    measure = excess(problem, lambda w: float(np.mean(space.dist(w, X))), ball, ball.center)
    return Case(problem, kind, ball, ball.center, measure)


def hard_case(dim, n):
    """Convex, hardest: linear costs on a flat ball, their mean as small as the noise hides."""
    space = Euclidean(dim)
    ball = GeodesicBall(space, None, 1.0)
    drift = np.sqrt(dim) / (n * MU)
    X = np.zeros((RECORDS, dim))
    X[:, 0] = np.where(np.arange(RECORDS) % 2, -1.0, 1.0)
    X[:, 0] += drift - X[:, 0].mean()
    problem = CostProblem(RiemannianGradient(space, lambda point, X, y: -X), X)
    kind = FunctionClass("convex", dim, lipschitz=1.0, diameter=2.0)
    return Case(problem, kind, ball, ball.center, lambda w: drift * (1.0 - w[0]))


def mean_case(dim, n):
    """Strongly convex: Fréchet mean on the hyperboloid."""
    space = Hyperboloid(dim)
    ball = GeodesicBall(space, None, 1.0)
    X = space.exp_coordinates(ball.center, spread(dim, 1.0))
    problem = CostProblem(HalfSquaredDistance(space), X)
    kind = FunctionClass(
        "strongly-convex",
        dim,
        lipschitz=2.0,
        gradient_diameter=2.0,
        strong_convexity=1.0,
        diameter=2.0,
        lowest_curvature=-1.0,
    )
    target = descend(problem, ball.center, Moves(200, 0.5), 1e3)
    risk = lambda w: 0.5 * float(np.mean(space.dist(w, X) ** 2))  # noqa: E731
    return Case(problem, kind, ball, ball.center, lambda w: risk(w) - risk(target))


def direction_case(dim, n):
    """Polyak-Lojasiewicz near the optimum: leading eigenvector on the sphere."""
    space = Sphere(dim)
    X = np.zeros((RECORDS, dim + 1))
    X[:15, 0] = 1.0
    X[np.arange(15, RECORDS), 1 + np.arange(RECORDS - 15) % dim] = 0.5
    second = X.T @ X / RECORDS
    eigenvalues, vectors = np.linalg.eigh(second)
    gap = eigenvalues[-1] - eigenvalues[-2]
    problem = CostProblem(EuclideanGradient(space, lambda w, X, y: -2 * (X @ w)[:, None] * X), X)
    first = vectors[:, -1]
    start = space.exp(first, 0.5 * vectors[:, -2])
    kind = FunctionClass(
        "pl",
        dim,
        lipschitz=1.0,
        gradient_diameter=2.0,
        smoothness=2.0 * (eigenvalues[-1] - min(eigenvalues[0], 0.0)),
        pl_constant=1.0 / (4.0 * gap * np.cos(0.6) ** 2),
        initial_gap=gap * np.sin(0.5) ** 2,
    )
    top = eigenvalues[-1]
    return Case(problem, kind, None, start, lambda w: max(top - float(w @ second @ w), 1e-16))


def welsch_case(dim, n):
    """Nonconvex: Welsch's redescending mean on the hyperboloid, ``1 - exp(-d^2 / 2)``."""
    space = Hyperboloid(dim)
    X = space.exp_coordinates(space.base_point, spread(dim, 1.5))

    def gradient(point, X, y):
        logarithms = space.log(point, X)
        weights = np.exp(-0.5 * space.norm(point, logarithms) ** 2)
        return -weights[:, None] * logarithms

    problem = CostProblem(RiemannianGradient(space, gradient), X)
    kind = FunctionClass(
        "nonconvex",
        dim,
        lipschitz=float(np.exp(-0.5)),
        smoothness=curvature_constant(-1.0, 1.0),
        initial_gap=0.5,
    )
    start = space.exp_coordinates(space.base_point, np.eye(dim)[0])

    def measure(w):
        gradient = exact_mean(GradientQuery(problem, w, 1e3))
        return float(gradient @ gradient)

    return Case(problem, kind, None, start, measure)


CASES = {
    "convex (median)": (median_case, -1.0, 0.5, 1),
    "convex (hard)": (hard_case, -1.0, 0.5, 1),
    "strongly convex": (mean_case, -2.0, 1.0, 1),
    # Few steps suffice here, and the start matters until n is large.
    "PL (eigenvector)": (direction_case, -2.0, 1.0, 32),
    "nonconvex (Welsch)": (welsch_case, -1.0, 0.5, 1),
}


def run(build, dim, times):
    """Promised bound and measured mean over runs."""
    n = RECORDS * times
    case = build(dim, n)
    plan = schedule(case.kind, n, MU, max_steps=20_000)
    diameter = case.kind.gradient_diameter or 2.0 * case.kind.lipschitz
    solver = RiemannianGradientDescent(
        mu=MU,
        n_steps=plan.n_steps,
        step_size=plan.step_size,
        output=plan.output,
        domain=case.domain,
    )
    problem = Repeated(case.problem, times, diameter)
    values = [
        case.measure(solver.solve(problem, case.start, np.random.default_rng(seed)))
        for seed in range(RUNS)
    ]
    return plan.utility_bound, float(np.mean(values)), plan.n_steps


def slope(x, y):
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def main(figure=None):
    print(f"{'problem':20s} {'in n: Table 1, bound, measured':>32s} {'in d':>28s}   bound/measured")
    results = {}
    for name, (build, rate_n, rate_d, more) in CASES.items():
        sizes = np.array(SIZES) * more
        in_n = [run(build, 4, times) for times in sizes]
        in_d = [run(build, dim, sizes[-1]) for dim in DIMENSIONS]
        n, d = sizes * RECORDS, np.array(DIMENSIONS)
        results[name] = n, in_n, in_d
        cells = []
        for x, rows, rate in ((n, in_n, rate_n), (d, in_d, rate_d)):
            bounds, values, _ = zip(*rows, strict=True)
            cells.append(f"{rate:5.1f} {slope(x, bounds):7.2f} {slope(x, values):7.2f}")
        looseness = in_n[-1][0] / in_n[-1][1]
        print(f"{name:20s} {cells[0]:>32s} {cells[1]:>28s} {looseness:10.1f}", flush=True)
    if figure is not None:
        draw(results, figure)


def draw(results, figure):
    import matplotlib.pyplot as plt

    panels, axes = plt.subplots(2, len(results), figsize=(3 * len(results), 5.5))
    for column, (name, (n, in_n, in_d)) in zip(axes.T, results.items(), strict=True):
        for axis, x, rows, label in (
            (column[0], n, in_n, "n"),
            (column[1], DIMENSIONS, in_d, "d"),
        ):
            bounds, values, _ = zip(*rows, strict=True)
            axis.loglog(x, bounds, "--", color="0.5", label="bound")
            axis.loglog(x, values, "o-", label="measured")
            axis.set_xlabel(label)
        column[0].set_title(name, fontsize=9)
    axes[0, 0].legend()
    panels.tight_layout()
    panels.savefig(figure, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
