"""What does the first fit at a new epsilon take, before and after the calibrations are kept?

    python benchmarks/planning.py                        # this source tree
    python benchmarks/planning.py --against OTHER_TREE   # in turns with another one

Processor time of one fit of 300 records in a fresh process, medians over `--repeats` processes.
Modules are loaded beforehand by a fit with Gaussian noise.  "new" computes the calibration, "disk"
reads what an earlier process kept, "again" repeats the fit in the same process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
CASES = (
    "mean SPD(2)",
    "mean S^2",
    "mean H^2",
    "mean R^2",
    "mean SPD(3)",
    "mean SPD(5)",
    'mean SPD(2), mechanism="gaussian"',
    "minimum distance to mean",
    "principal components",
    "AdaGrad",
    "hyperbolic regression",
    "matrix completion",
)


def fits(case, rng):
    """The estimator's class, fixed parameters, and data."""
    import numpy as np
    import scipy.sparse as sp

    import skriemdp
    from skriemdp import geometry as g
    from skriemdp.datasets import make_cloud

    n = 300
    spaces = {
        "SPD(2)": g.SPD(2),
        "S^2": g.Sphere(2),
        "H^2": g.Hyperboloid(2),
        "R^2": g.Euclidean(2),
        "SPD(3)": g.SPD(3),
        "SPD(5)": g.SPD(5),
    }
    if case.startswith("mean"):
        space = spaces[case.split(",")[0].split()[1]]
        extra = {"mechanism": "gaussian", "radius": 1.0} if "gaussian" in case else {}
        return (
            skriemdp.PrivateFrechetMean,
            {"manifold": space, **extra},
            (make_cloud(space, n, rng=rng),),
        )
    X = rng.normal(size=(n, 5))
    X /= np.linalg.norm(X, axis=1).max()
    y = (X[:, 0] > 0.0).astype(int)
    if case == "minimum distance to mean":
        points = make_cloud(spaces["SPD(2)"], n, rng=rng)
        return skriemdp.PrivateMinimumDistanceToMean, {"manifold": spaces["SPD(2)"]}, (points, y)
    if case == "principal components":
        return skriemdp.PrivatePrincipalEigenvector, {}, (X,)
    if case == "AdaGrad":
        return skriemdp.PrivateNoisyAdaGrad, {}, (X, y)
    if case == "hyperbolic regression":
        labels = make_cloud(spaces["H^2"], n, rng=rng)
        return skriemdp.PrivateHyperbolicRegressor, {}, (X, labels)
    ratings = sp.random(n, 50, density=0.2, random_state=0, format="csr")
    ratings.data = rng.integers(1, 6, ratings.nnz).astype(float)
    return skriemdp.PrivateMatrixCompletion, {}, (ratings,)


def child(case, epsilon):
    """Processor milliseconds of the first fit and of a second one."""
    import numpy as np

    warnings.simplefilter("ignore")
    estimator, parameters, data = fits(case, np.random.default_rng(0))
    warm, extra, warm_data = fits("mean SPD(2)", np.random.default_rng(1))
    warm(**extra, epsilon=1.0, noise="gaussian").fit(*warm_data)
    if not case.startswith("mean"):
        estimator(**parameters, epsilon=2.0 * epsilon, delta=2e-5).fit(*data)
    times = []
    for _ in range(2):
        start = time.process_time()
        estimator(**parameters, epsilon=epsilon, delta=1e-5).fit(*data)
        times.append(1e3 * (time.process_time() - start))
    print(json.dumps(times))


def measure(tree, case, epsilon, cache):
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "XDG_CACHE_HOME": cache,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, str(Path(__file__).resolve()), "--child", case]
    command += ["--epsilon", repr(epsilon)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, help="another source tree, measured in turns")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", help="part of the names of the cases")
    parser.add_argument("--quick", action="store_true", help="two cases, one process each")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--epsilon", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.epsilon)
        return
    trees = [HERE] if options.against is None else [options.against.resolve(), HERE]
    cases = [case for case in CASES if options.only is None or options.only in case]
    if options.quick:
        cases, options.repeats = cases[:1] + cases[-1:], 1
    names = ["new", "again", "disk"] if len(trees) == 1 else ["before", "new", "again", "disk"]
    print("processor milliseconds of a fit, n = 300, delta = 1e-5, epsilon about 1")
    print(f"{'':36}" + "".join(f"{name:>9}" for name in names))
    for case in cases:
        rows = []
        for repeat in range(options.repeats):
            epsilon = 0.9 + 0.017 * repeat
            with tempfile.TemporaryDirectory() as cache:
                row = [measure(tree, case, epsilon, cache) for tree in trees]
                disk = measure(HERE, case, epsilon, cache)
            rows.append([*(times[0] for times in row), row[-1][1], disk[0]])
        medians = [statistics.median(column) for column in zip(*rows, strict=True)]
        print(f"{case:36}" + "".join(f"{value:9.1f}" for value in medians), flush=True)


if __name__ == "__main__":
    main()
