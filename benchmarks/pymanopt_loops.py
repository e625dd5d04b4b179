"""Batched kernels against a loop over pymanopt's methods, and the cost of Stiefel logarithms.

    OMP_NUM_THREADS=1 python benchmarks/pymanopt_loops.py
    OMP_NUM_THREADS=1 python benchmarks/pymanopt_loops.py --gradients

The second compares the gradients of a cost that autograd differentiates with batched ones.
Both sides run in one process on the same points; process time, best of several.
"""

import argparse
import time

import autograd.numpy as anp
import numpy as np
import pymanopt.manifolds as pm

from skriemdp.geometry import Stiefel, as_geometry
from skriemdp.pymanopt_optimizers import PerSampleProblem

PAIRS = [pm.Sphere(6), pm.SymmetricPositiveDefinite(5), pm.Grassmann(10, 3), pm.PoincareBall(5)]
PAIRS.append(pm.Stiefel(10, 3))
LOOPED = 500


def best(function, *arguments, repeat=5):
    times = []
    for _ in range(repeat):
        start = time.process_time()
        function(*arguments)
        times.append(time.process_time() - start)
    return min(times)


def looped(method, x, others):
    return [method(x, other) for other in others]


def cloud(geometry, n, distance):
    c = np.random.default_rng(0).normal(size=(n, geometry.dim))
    c *= distance / np.linalg.norm(c, axis=1, keepdims=True)
    x = geometry.base_point
    v = geometry.tangent_from_coordinates(x, c)
    return x, v, geometry.exp(x, v)


def against_loops(manifold, sizes=(1000, 10000)):
    geometry = as_geometry(manifold)
    for n in sizes:
        x, v, y = cloud(geometry, n, 0.7)
        row = [str(geometry), f"{n:,}"]
        for name, other in (("exp", v), ("log", y)):
            method, loop = getattr(geometry, name), getattr(manifold, name)
            ours = best(method, x, other) / n
            row.append(f"{1e6 * ours:.2f}")
            try:
                theirs = best(looped, loop, x, other[:LOOPED], repeat=3) / LOOPED
                row.append(f"{theirs / ours:.0f}")
            except NotImplementedError:
                row.append("none")
        print("| " + " | ".join(row) + " |")


def stiefel_logarithms():
    for n, p in ((10, 3), (20, 5), (30, 10)):
        geometry = Stiefel(n, p)
        row = [str(geometry)]
        for distance in (0.5, 1.4, 2.4):
            x, v, y = cloud(geometry, 300, distance)
            seconds = best(geometry.log, x, y, repeat=3) / 300
            error = np.max(geometry.norm(x, geometry.log(x, y) - v))
            row.append(f"{1e6 * seconds:.0f} us, {error:.0e}")
        print("| " + " | ".join(row) + " |")


def component_cost(point, x, y):
    """Minus the squared projection of a record: its minimiser is the first component."""
    return -(anp.sum(point * x) ** 2)


def component_gradient(point, X, y):
    return -2.0 * (X @ point)[:, None] * X


def gradients():
    print("| records | batched, ms | autograd / batched |\n|---|---|---|")
    for n, d in ((1000, 10), (10000, 10), (1000, 100)):
        X = np.random.default_rng(0).normal(size=(n, d))
        batched = PerSampleProblem(pm.Sphere(d), None, X, euclidean_gradient=component_gradient)
        automatic = PerSampleProblem(pm.Sphere(d), component_cost, X)
        point = batched.geometry.base_point
        fast, slow = (
            best(problem.problem.gradients, point, repeat=3) for problem in (batched, automatic)
        )
        print(f"| {n:,} x {d} | {1e3 * fast:.2f} | {slow / fast:.0f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gradients", action="store_true", help="only those")
    if parser.parse_args().gradients:
        gradients()
        raise SystemExit
    print("| geometry | n | exp, us | pymanopt's loop / ours | log, us | pymanopt's loop / ours |")
    print("|---|---|---|---|---|---|")
    for manifold in PAIRS:
        against_loops(manifold)
    print("\n| logarithm at distance | 0.5 | 1.4 | 2.4 |\n|---|---|---|---|")
    stiefel_logarithms()
