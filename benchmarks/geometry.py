"""Time and memory of the geometry kernels, as ratios to what NumPy takes for a bare part of them.

Run:  OMP_NUM_THREADS=1 python benchmarks/geometry.py [--full] [--device cuda] [--only sums]

Every time is the median of several, in processor seconds of this process; competitors take turns.
To compare two versions, run the script with the PYTHONPATH of each: the yardsticks are NumPy's.
With ``--device`` the second table runs on torch arrays there (wall time, synchronised).
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

import numpy as np

from skriemdp._descent.problem import FrechetProblem
from skriemdp._descent.queries import GradientQuery
from skriemdp._descent.releases import FixedSizeSampler
from skriemdp._descent.stochastic import RiemannianSGD
from skriemdp._descent.trajectory import Moves
from skriemdp.geometry import (
    AffineInvariantSPD,
    BuresWassersteinSPD,
    Euclidean,
    GeodesicBall,
    Hyperboloid,
    LogEuclideanSPD,
    Sphere,
)


def medians(repeats, functions):
    """Seconds per call of each function, measured in turns so that load hits all alike."""
    seconds = np.zeros((repeats, len(functions)))
    for function in functions:
        function()
    for row in seconds:
        for index, function in enumerate(functions):
            start = time.process_time()
            function()
            row[index] = time.process_time() - start
    return np.median(seconds, axis=0)


def cloud(geometry, n, rng):
    coordinates = 0.3 * rng.normal(size=(n, geometry.dim)) / geometry.dim**0.5
    return geometry.exp_coordinates(geometry.base_point, coordinates)


def peak(function):
    tracemalloc.start()
    function()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def matrices(full):
    print("\nSPD matrices: time over `numpy.linalg.eigh` of the same records\n")
    print(
        "| size | n | eigh, ms | affine-invariant: clipped sum | log | dist |"
        " log-Euclidean: clipped sum | log | Bures-Wasserstein: clipped sum | log |"
        " copies of X: clipped sum | log |"
    )
    print("|" + "---|" * 12)
    sizes = [(2, 1_000), (2, 10_000), (2, 100_000), (3, 10_000), (5, 10_000)]
    sizes += [(10, 1_000), (10, 10_000)]
    if full:
        sizes += [(2, 1_000_000), (10, 100_000)]
    for size, n in sorted(sizes):
        rng = np.random.default_rng(0)
        affine = AffineInvariantSPD(size)
        x, w = cloud(affine, n, rng), cloud(affine, 1, rng)[0]
        flat, bures = LogEuclideanSPD(size), BuresWassersteinSPD(size)
        repeats = 15 if n * size**3 <= 2_000_000 else 3
        eigh, *times = medians(
            repeats,
            [
                lambda x=x: np.linalg.eigh(x),
                lambda g=affine, x=x, w=w: g.clipped_log_sum(w, x, 0.3),
                lambda g=affine, x=x, w=w: g.log(w, x),
                lambda g=affine, x=x, w=w: g.dist(w, x),
                lambda g=flat, x=x, w=w: g.clipped_log_sum(w, x, 0.3),
                lambda g=flat, x=x, w=w: g.log(w, x),
                lambda g=bures, x=x, w=w: g.clipped_log_sum(w, x, 0.3),
                lambda g=bures, x=x, w=w: g.log(w, x),
            ],
        )
        # The records themselves count as one copy.
        copies = [
            1 + peak(lambda q=query, x=x, w=w: q(w, x)) / x.nbytes
            for query in (affine.clipped_log_sum, affine.log)
        ]
        cells = [f"{t / eigh:.2f}" for t in times] + [f"{c:.2f}" for c in copies]
        print(f"| {size} | {n:,} | {1e3 * eigh:.2f} | " + " | ".join(cells) + " |", flush=True)


def vectors(full):
    print("\nVectors: nanoseconds per record and coordinate of the clipped sum\n")
    counts = [1_000, 10_000, 100_000] + ([1_000_000] if full else [])
    print("| geometry | " + " | ".join(f"n = {n:,}" for n in counts) + " |")
    print("|" + "---|" * (len(counts) + 1))
    for geometry in (
        Euclidean(10),
        Sphere(2),
        Sphere(20),
        Hyperboloid(2),
        Hyperboloid(10),
    ):
        cells = []
        for n in counts:
            x = cloud(geometry, n, np.random.default_rng(0))
            (seconds,) = medians(
                15 if n <= 10_000 else 5,
                [lambda g=geometry, x=x: g.clipped_log_sum(g.base_point, x, 0.3)],
            )
            cells.append(f"{1e9 * seconds / x.size:.1f}")
        print(f"| `{geometry}` | " + " | ".join(cells) + " |", flush=True)


def two_products(point, records):
    """A clipped sum of differences: what a sum of logarithms takes if space were flat."""
    total = 0.0
    for begin in range(0, len(records), 4096):
        difference = records[begin : begin + 4096] - point
        squares = np.einsum("ij,ij->i", difference, difference)
        total = total + (0.3 / np.sqrt(np.maximum(squares, 0.09))) @ difference
    return total


def sums(full):
    print("\nSums of logarithms: time over differences, one weight each, and one weighted sum\n")
    print("| geometry | n | coordinates of logarithms | clipped sum | gradient sum of a mean |")
    print("|---|---|---|---|---|")
    for geometry in (Sphere(2), Sphere(5), Sphere(20), Hyperboloid(2), Hyperboloid(5)):
        for n in (100, 100_000):
            rng = np.random.default_rng(0)
            x, w = cloud(geometry, n, rng), cloud(geometry, 1, rng)[0]
            problem = FrechetProblem(GeodesicBall(geometry, None, 1.0), x)
            repeats = 301 if n < 1000 else 15
            flat, *times = medians(
                repeats,
                [
                    lambda x=x, w=w: two_products(w, x),
                    lambda g=geometry, x=x, w=w: g.log_coordinates(w, x),
                    lambda g=geometry, x=x, w=w: g.clipped_log_sum(w, x, 0.3),
                    lambda p=problem, w=w: GradientQuery(p, w).exact(),
                ],
            )
            cells = " | ".join(f"{t / flat:.2f}" for t in times)
            print(f"| `{geometry}` | {n:,} | {cells} |", flush=True)


def steps(full):
    print("\nOne step of DP-RSGD on 100 SPD(2) records: time over `numpy.linalg.eigh` of them\n")
    print("| step | gradient sum | coordinates of logarithms | exponential of the step |")
    print("|---|---|---|---|")
    geometry, rng = AffineInvariantSPD(2), np.random.default_rng(0)
    x, w = cloud(geometry, 1000, rng), cloud(geometry, 1, rng)[0]
    problem = FrechetProblem(GeodesicBall(geometry, None, 1.0), x)
    batch, move = np.arange(100), 0.1 * rng.normal(size=3)
    solver = RiemannianSGD(FixedSizeSampler(100, geometry.dim), 1.0, Moves(1, 0.1), clip_norm=1.0)
    eigh, *times = medians(
        301,
        [
            lambda: np.linalg.eigh(x[:100]),
            lambda: solver.solve(problem, w, rng),
            lambda: GradientQuery(problem, w).exact(batch),
            lambda: geometry.log_coordinates(w, x[:100]),
            lambda: geometry.exp_coordinates(w, move),
        ],
    )
    print("| " + " | ".join(f"{t / eigh:.1f}" for t in times) + " |", flush=True)


def torch_table(name):
    import torch

    print(f"\nTorch on {name}: milliseconds of wall time, {torch.__version__}\n")
    print("| geometry | n | eigh | clipped sum | log | worst relative difference to NumPy |")
    print("|" + "---|" * 6)
    for geometry, n in (
        (AffineInvariantSPD(2), 1_000_000),
        (AffineInvariantSPD(10), 100_000),
        (LogEuclideanSPD(10), 100_000),
        (BuresWassersteinSPD(10), 100_000),
        (Sphere(20), 1_000_000),
        (Hyperboloid(10), 1_000_000),
    ):
        rng = np.random.default_rng(0)
        x, w = cloud(geometry, n, rng), cloud(geometry, 1, rng)[0]
        X, W = (torch.asarray(a, device=name) for a in (x, w))

        def timed(function):
            best = float("inf")
            for _ in range(3):
                start = time.perf_counter()
                result = function()
                if name.startswith("cuda"):
                    torch.cuda.synchronize()
                best = min(best, time.perf_counter() - start)
            return 1e3 * best, result

        eigh = "" if x.ndim == 2 else f"{timed(lambda X=X: torch.linalg.eigh(X))[0]:.1f}"
        total, theirs = timed(lambda g=geometry, X=X, W=W: g.clipped_log_sum(W, X, 0.3))
        log, _ = timed(lambda g=geometry, X=X, W=W: g.log(W, X))
        ours = geometry.clipped_log_sum(w, x, 0.3)
        gap = np.abs(theirs.cpu().numpy() - ours).max() / np.abs(ours).max()
        print(
            f"| `{geometry}` | {n:,} | {eigh} | {total:.1f} | {log:.1f} | {gap:.1e} |", flush=True
        )


TABLES = {"matrices": matrices, "vectors": vectors, "sums": sums, "steps": steps}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="also n = 1e6 (about two minutes)")
    parser.add_argument("--device", help="a torch device for the torch table, such as cuda")
    parser.add_argument("--only", choices=TABLES, help="one table")
    options = parser.parse_args()
    for name, table in TABLES.items():
        if options.only in (None, name):
            table(options.full)
    if options.device:
        torch_table(options.device)


if __name__ == "__main__":
    main()
