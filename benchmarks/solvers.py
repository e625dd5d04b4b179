"""What privacy costs in time: solver steps against bare gradients, automatic against written ones.

Run one table with ``python benchmarks/solvers.py full-batch`` (or sgd, automatic, growth, dask,
block-size); without an argument all of them.  Every number is a ratio within one process of medians
of alternating measurements, so a busy machine disturbs both sides alike.
"""

from __future__ import annotations

import functools
import os
import sys
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

from skriemdp._descent import per_sample  # noqa: E402
from skriemdp._descent.chunked import DaskProblem  # noqa: E402
from skriemdp._descent.gradient_descent import RiemannianGradientDescent  # noqa: E402
from skriemdp._descent.per_sample import CostProblem, EuclideanGradient, make_gradient  # noqa: E402
from skriemdp._descent.problem import FrechetProblem  # noqa: E402
from skriemdp._descent.queries import GradientQuery  # noqa: E402
from skriemdp._descent.releases import FixedSizeSampler, PoissonSampler  # noqa: E402
from skriemdp._descent.stochastic import RiemannianSGD  # noqa: E402
from skriemdp._descent.trajectory import Moves  # noqa: E402
from skriemdp.geometry import SPD, GeodesicBall, Grassmann, Hyperboloid, Sphere, Stiefel  # noqa: E402


def race(*functions, repetitions=15, least=0.02, clock=time.process_time):
    """Seconds per call of each function, medians of alternating measurements."""
    counts = []
    for function in functions:
        function()
        start = clock()
        function()
        counts.append(max(1, round(least / max(clock() - start, 1e-6))))
    seconds = np.zeros((repetitions, len(functions)))
    for row in seconds:
        for k, (function, count) in enumerate(zip(functions, counts, strict=True)):
            start = clock()
            for _ in range(count):
                function()
            row[k] = (clock() - start) / count
    return np.median(seconds, axis=0)


def frechet(geometry, n, radius=0.5):
    rng = np.random.default_rng(0)
    ball = GeodesicBall(geometry, None, radius)
    coordinates = rng.uniform(-1, 1, size=(n, geometry.dim)) * radius / np.sqrt(geometry.dim)
    points = geometry.exp_coordinates(geometry.base_point, coordinates)
    return FrechetProblem(ball, points), points[0]


def pca_gradient(point, X, y):
    return -2 * (X @ point)[:, None] * X


def subspace_gradient(point, X, y):
    return -2 * X[:, :, None] * (X @ point)[:, None, :]


def explicit(geometry, n, gradient):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, geometry.shape[0]))
    return CostProblem(EuclideanGradient(geometry, gradient), X), geometry.base_point


PROBLEMS = {
    "mean, SPD(2)": lambda n: frechet(SPD(2), n),
    "mean, SPD(10)": lambda n: frechet(SPD(10), n),
    "mean, Hyperboloid(10)": lambda n: frechet(Hyperboloid(10), n),
    "direction, Sphere(49)": lambda n: explicit(Sphere(49), n, pca_gradient),
    "subspace, Grassmann(50, 5)": lambda n: explicit(Grassmann(50, 5), n, subspace_gradient),
    "frame, Stiefel(20, 3)": lambda n: explicit(Stiefel(20, 3), n, subspace_gradient),
}


def bare_mean(problem, point, indices=None):
    """Mean Riemannian gradient, nothing clipped, in the same blocks."""
    if isinstance(problem, FrechetProblem):
        total = sum(rows.sum(axis=0) for rows in problem.vectors(indices, point))
        return problem.geometry.tangent_from_coordinates(point, total / problem.n)
    total = np.zeros(problem.geometry.shape)
    for piece in problem.pieces(indices):
        total += problem.gradients(point, piece).sum(axis=0)
    return total / problem.n


def step_of(solver, problem, point):
    rng = np.random.default_rng(0)
    return lambda: solver.solve(problem, point, rng)


def full_batch(sizes=(10_000, 100_000)):
    print("\nFull-batch private step over the non-private mean gradient, and over its step")
    for name, build in PROBLEMS.items():
        cells = []
        for n in sizes:
            if n > sizes[0] and name in ("mean, SPD(10)", "subspace, Grassmann(50, 5)"):
                continue  # seconds per call, and the ratio is already near its limit
            problem, point = build(n)
            solver = RiemannianGradientDescent(mu=1.0, n_steps=1, step_size=0.1, clip_norm=1.0)
            gradient = functools.partial(bare_mean, problem, point)
            bare, plain, private = race(
                gradient,
                functools.partial(bare_step, problem, point),
                step_of(solver, problem, point),
            )
            cells.append(f"{private / bare:5.2f} {private / plain:5.2f}")
        print(f"  {name:28s} " + "   ".join(cells))
    print("  columns: gradient and step at n = " + ", ".join(f"{n:.0e}" for n in sizes))


def bare_step(problem, point):
    return problem.geometry.exp(point, -0.1 * bare_mean(problem, point))


def sgd(n=100_000, batches=(256, 1024, 4096)):
    print(f"\nDP-RSGD step over the bare gradient of its batch, n={n}")
    for name, build in PROBLEMS.items():
        problem, point = build(n)
        cells = []
        for size in batches:
            for kind in (PoissonSampler, FixedSizeSampler):
                sampler = kind(size, problem.geometry.dim)
                solver = RiemannianSGD(sampler, 1.0, Moves(1, 0.1), clip_norm=1.0)
                chosen = sampler.draw(n, np.random.default_rng(0))
                bare, step = race(
                    functools.partial(bare_mean, problem, point, chosen),
                    step_of(solver, problem, point),
                )
                cells.append(f"{step / bare:5.2f}")
        print(f"  {name:28s} " + " ".join(cells))
    print(
        "  columns: " + ", ".join(f"{kind} {b}" for b in batches for kind in ("Poisson", "fixed"))
    )


def torch_pca(point, x, y):
    return -((point * x).sum() ** 2)


def torch_least_squares(point, x, y):
    return 0.5 * ((point * x).sum() - y) ** 2


def least_squares_gradient(point, X, y):
    return (X @ point - y)[:, None] * X


def automatic(n=10_000):
    for dim in (20, 100):
        automatic_at(n, dim)


def automatic_at(n, dim):
    print(f"\nAutomatic over hand-written clipped gradient sum, n={n}, d={dim}")
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, dim)), rng.standard_normal(n)
    geometry, point = Sphere(dim - 1), np.full(dim, dim**-0.5)
    tasks = {
        "direction": (torch_pca, pca_gradient, None),
        "least squares": (torch_least_squares, least_squares_gradient, y),
    }
    for name, (cost, gradient, labels) in tasks.items():
        written = CostProblem(EuclideanGradient(geometry, gradient), X, labels)
        problems = [written]
        for backend in ("torch", "jax"):
            problems.append(CostProblem(make_gradient(geometry, cost, backend), X, labels))
        seconds = race(
            *(
                lambda problem=problem: GradientQuery(problem, point, 1.0).exact()
                for problem in problems
            ),
        )
        ratios = "  ".join(
            f"{backend} {s / seconds[0]:.2f}"
            for backend, s in zip(("torch", "jax"), seconds[1:], strict=True)
        )
        print(f"  {name:16s} {ratios}   ({1e3 * seconds[0]:.2f} ms written)")


def block_size(n=20_000, dim=20):
    print(f"\nMicroseconds per record of automatic gradients by block size, n={n}, d={dim}")
    X = np.random.default_rng(0).standard_normal((n, dim))
    geometry, point = Sphere(dim - 1), np.full(dim, dim**-0.5)
    original = dict(per_sample._BLOCK_BYTES)
    for backend in ("torch", "jax"):
        cells = []
        for exponent in range(15, 24):
            per_sample._BLOCK_BYTES[backend] = 2**exponent
            problem = CostProblem(make_gradient(geometry, torch_pca, backend), X)
            (seconds,) = race(
                lambda problem=problem: GradientQuery(problem, point, 1.0).exact(), repetitions=7
            )
            cells.append(f"{1e6 * seconds / n:6.3f}")
        per_sample._BLOCK_BYTES.update(original)
        print(f"  {backend:8s} " + " ".join(cells))
    print("  blocks of 32 KiB, 64 KiB, ..., 8 MiB")


def slope(sizes, seconds):
    return np.polyfit(np.log(sizes), np.log(seconds), 1)[0]


def growth():
    print("\nGrowth exponents (1 = linear)")
    sizes = (20_000, 80_000, 320_000)
    for name in ("mean, SPD(2)", "direction, Sphere(49)"):
        full, fixed = [], []
        for n in sizes:
            problem, point = PROBLEMS[name](n)
            solver = RiemannianGradientDescent(mu=1.0, n_steps=1, step_size=0.1, clip_norm=1.0)
            full += [race(step_of(solver, problem, point), repetitions=5)[0]]
            solver = RiemannianSGD(
                PoissonSampler(1000, problem.geometry.dim), 1.0, Moves(1, 0.1), clip_norm=1.0
            )
            fixed += [race(step_of(solver, problem, point), repetitions=5)[0]]
        batch = []
        for size in (2000, 8000, 32_000):
            solver = RiemannianSGD(
                PoissonSampler(size, problem.geometry.dim), 1.0, Moves(1, 0.1), clip_norm=1.0
            )
            batch += [race(step_of(solver, problem, point), repetitions=5)[0]]
        print(
            f"  {name:28s} full batch in n {slope(sizes, full):.2f}, "
            f"DP-RSGD in batch {slope((2000, 8000, 32_000), batch):.2f}, "
            f"DP-RSGD in n at batch 1000 {slope(sizes, fixed):.2f}"
        )


def cloud_block(block_id, rows, size):
    geometry = SPD(size)
    rng = np.random.default_rng(block_id)
    coordinates = rng.uniform(-1, 1, size=(rows, geometry.dim)) * 0.5 / np.sqrt(geometry.dim)
    return geometry.exp_coordinates(geometry.base_point, coordinates)


def half_alone(size, rows, blocks, steps):
    """Seconds, by the clock and of the processor, of the steps for these blocks in this process."""
    ball = GeodesicBall(SPD(size), None, 1.0)
    solver = RiemannianGradientDescent(mu=1.0, n_steps=steps, step_size=0.5)
    problem = FrechetProblem(ball, np.concatenate([cloud_block(k, rows, size) for k in blocks]))
    GradientQuery(problem, ball.center, 1.0).exact()
    start, cpu = time.perf_counter(), time.process_time()
    solver.solve(problem, ball.center, np.random.default_rng(0))
    return time.perf_counter() - start, time.process_time() - cpu


def dask_table(steps=6, blocks=8):
    import concurrent.futures

    import dask
    import dask.array as da
    import distributed

    print("\ndask, 2 workers of 1 thread, over one process (wall clock; CPU in brackets)")
    for size, n in ((2, 10_000_000), (10, 200_000)):
        rows, ball = n // blocks, GeodesicBall(SPD(size), None, 1.0)
        solver = RiemannianGradientDescent(mu=1.0, n_steps=steps, step_size=0.5)
        X = np.concatenate([cloud_block(k, rows, size) for k in range(blocks)])
        problem = FrechetProblem(ball, X)
        GradientQuery(problem, ball.center, 1.0).exact()
        start, cpu = time.perf_counter(), time.process_time()
        alone = solver.solve(problem, ball.center, np.random.default_rng(0))
        seconds, cpu_alone = time.perf_counter() - start, time.process_time() - cpu
        del X, problem
        with concurrent.futures.ProcessPoolExecutor(2) as pool:
            halves = np.array_split(np.arange(blocks), 2)
            several = [[value] * 2 for value in (size, rows)]
            found = list(pool.map(half_alone, *several, halves, [steps] * 2))
        ideal, cpu_ideal = max(f[0] for f in found), sum(f[1] for f in found)
        with (
            distributed.LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            parts = [
                da.from_delayed(dask.delayed(cloud_block)(k, rows, size), (rows, size, size), float)
                for k in range(blocks)
            ]
            stored = da.concatenate(parts).persist()
            distributed.wait(stored)
            client.rebalance(stored)
            problem = DaskProblem(functools.partial(FrechetProblem, ball), stored)
            GradientQuery(problem, ball.center, 1.0).exact()  # workers import the package
            before = sum(client.run(time.process_time).values())
            start, cpu = time.perf_counter(), time.process_time()
            together = solver.solve(problem, ball.center, np.random.default_rng(0))
            chunked = time.perf_counter() - start
            cpu_chunked = sum(client.run(time.process_time).values()) - before
            cpu_chunked += time.process_time() - cpu
        gap = float(np.abs(together - alone).max())
        print(
            f"  {n:.0e} of {size} x {size}: {chunked / seconds:.2f} "
            f"({cpu_chunked / cpu_alone:.2f}); two processes without dask, half of the "
            f"data each: {ideal / seconds:.2f} "
            f"({cpu_ideal / cpu_alone:.2f}); {seconds / steps:.3f} s a step alone; "
            f"largest difference {gap:.0e}"
        )


TABLES = {
    "full-batch": full_batch,
    "sgd": sgd,
    "automatic": automatic,
    "growth": growth,
    "block-size": block_size,
    "dask": dask_table,
}


if __name__ == "__main__":
    for table in sys.argv[1:] or TABLES:
        TABLES[table]()
