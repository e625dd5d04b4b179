"""Time and memory of private means against batched eigh and pyRiemann, in one process.

Run:  OMP_NUM_THREADS=1 python benchmarks/mean_speed.py [--full]

Every time is the best of several, in processor seconds of this process.
"""

import argparse
import time
import tracemalloc

import numpy as np
from pyriemann.geometry.mean import mean_riemann

from skriemdp import PrivacyAccountant, PrivateFrechetMean
from skriemdp._descent.gradient_descent import RiemannianGradientDescent
from skriemdp._descent.problem import FrechetProblem
from skriemdp.datasets import make_cloud
from skriemdp.geometry import SPD, GeodesicBall


def best_of(repeats, *functions):
    """Best processor time of each function, measured in turns so that load hits all alike."""
    best = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - start)
    return best


def row(size, n, repeats):
    geometry = SPD(size)
    X = make_cloud(geometry, n, rng=np.random.default_rng(0))
    ball = GeodesicBall(geometry, geometry.base_point, 1.0)
    problem = FrechetProblem(ball, X)
    step = RiemannianGradientDescent(mu=1.0, n_steps=1, step_size=1.0)
    rng = np.random.default_rng(1)
    fit = PrivateFrechetMean(
        "spd",
        mechanism="tangent",
        noise="gaussian",
        accountant=PrivacyAccountant(),
        center=np.eye(size),
        radius=1.0,
    )
    eigh, gradient, private, theirs = best_of(
        repeats,
        lambda: np.linalg.eigh(X),
        lambda: step.solve(problem, ball.center, rng),
        lambda: fit.fit(X),
        lambda: mean_riemann(X),
    )
    tracemalloc.start()
    fit.fit(X)
    copies = tracemalloc.get_traced_memory()[1] / X.nbytes
    tracemalloc.stop()
    return (
        f"| SPD({size}) | {n:g} | {1e3 * eigh:.2f} | {gradient / eigh:.2f} | "
        f"{private / eigh:.2f} | {theirs / eigh:.2f} | {private / theirs:.2f} | {copies:.2f} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="also n = 1e5 and 1e6 (minutes)")
    full = parser.parse_args().full
    print(
        "| manifold | n | batched eigh, ms | one private step / eigh | whole fit / eigh "
        "| pyRiemann mean / eigh | whole fit / pyRiemann | extra memory / X |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    for size, n, repeats in ((2, 1000, 9), (2, 10**4, 9), (10, 1000, 9), (10, 10**4, 5)):
        print(row(size, n, repeats), flush=True)
    if full:
        for size, n, repeats in ((2, 10**5, 3), (2, 10**6, 1), (10, 10**5, 1)):
            print(row(size, n, repeats), flush=True)


if __name__ == "__main__":
    main()
