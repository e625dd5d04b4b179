"""What does the first fit at a new epsilon take, and does `plan` foretell the error of a fit?

    python benchmarks/planning.py                        # this source tree
    python benchmarks/planning.py --against OTHER_TREE   # in turns with another one
    python benchmarks/planning.py --errors               # errors foretold, against errors of fits

Processor time of one fit of 300 records in a fresh process, medians over `--repeats` processes.
Modules are loaded beforehand by a fit with Gaussian noise.  "new" computes the calibration, "disk"
reads what an earlier process kept, "again" repeats the fit in the same process.

Errors are root mean squares over `--fits` fits of one data set, from the same without noise, which
is what "noise" of a plan is about.  Records are Gaussian in tangent coordinates, and the plan is
told their spread.  A setting fails where the two differ by more than a quarter of the measured one.
"""

from __future__ import annotations

import argparse
import json
import math
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


def foretold(name, rng):
    """A plan, and what measures the error of one fit, both at epsilon = 1."""
    import numpy as np

    import skriemdp as s
    from skriemdp import geometry as g

    def cloud(space, n, scale, offset=0.0):
        move = scale * rng.normal(size=(n, space.dim)) + offset
        return np.asarray(space.exp_coordinates(space.base_point, move))

    def spread(space, X):
        middle = s.frechet_mean(X, space)
        return middle, float(np.sqrt(np.mean(np.asarray(space.dist(middle, X)) ** 2)))

    def mean(estimator, X):
        space = estimator.manifold
        middle, size = spread(space, X)
        plan = estimator.plan(len(X), X.shape[1:], spread=size)
        return plan, lambda: float(space.dist(middle, estimator.fit(X).mean_))

    def classes(space, n, k):
        labels = np.arange(n) % k
        move = 0.4 * rng.normal(size=(n, space.dim))
        move[:, 0] += 0.4 * labels
        X = np.asarray(space.exp_coordinates(space.base_point, move))
        estimator = s.PrivateMinimumDistanceToMean(space, classes=list(range(k)))
        plan = estimator.plan(n, X.shape[1:], spread=spread(space, X)[1])
        own = np.stack([s.frechet_mean(X[labels == j], space) for j in range(k)])

        def error():
            return float(np.sqrt(np.mean(space.dist(own, estimator.fit(X, labels).means_) ** 2)))

        return plan, error

    def components(n, deviations, k):
        X = 5.0 + rng.normal(size=(n, len(deviations))) * deviations
        estimator = s.PrivatePrincipalEigenvector(k)
        plan = estimator.plan(n, len(deviations), spread=deviations)
        frame = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:k]

        def error():
            cosines = np.linalg.norm(estimator.fit(X).components_ @ frame.T)
            return float(np.sqrt(max(k - cosines**2, 0.0)))

        return plan, error

    def adagrad(n, p):
        X = 170.0 + 10.0 * rng.normal(size=(n, p))
        y = (X[:, 0] > 170.0).astype(int)
        estimator = s.PrivateNoisyAdaGrad(classes=[0, 1])
        return estimator.plan(n, p), lambda: estimator.fit(X, y).noise_scale_

    mean_of, line, spd = s.PrivateFrechetMean, g.Euclidean, g.SPD
    public = {"center": np.zeros(10), "radius": 40.0}
    start = {"center": np.eye(2), "radius": 1.5, "mechanism": "gradient"}
    # Lambdas, so that one setting is made at a time.
    settings = {
        "mean, R^3": lambda: mean(mean_of(line(3)), cloud(line(3), 1000, 1.0, 3.0)),
        "mean, R^20": lambda: mean(mean_of(line(20)), cloud(line(20), 3000, 1.0, 1.0)),
        "mean, SPD(3)": lambda: mean(mean_of(spd(3)), cloud(spd(3), 2000, 0.3)),
        "mean, S^2": lambda: mean(mean_of(g.Sphere(2)), cloud(g.Sphere(2), 1000, 0.3)),
        "mean, H^2": lambda: mean(mean_of(g.Hyperboloid(2)), cloud(g.Hyperboloid(2), 1000, 0.5)),
        "mean, R^10, public ball": lambda: mean(
            mean_of(line(10), **public), cloud(line(10), 3000, 1.0, 2.0)
        ),
        "mean, SPD(2), steps": lambda: mean(mean_of(spd(2), **start), cloud(spd(2), 1000, 0.3)),
        "class means, SPD(2)": lambda: classes(spd(2), 3000, 3),
        "class means, R^8": lambda: classes(line(8), 3000, 2),
        "components, 1 of 10": lambda: components(5000, np.r_[3.0, 2.0, np.ones(8)], 1),
        "components, 2 of 30": lambda: components(20000, np.r_[4.0, 3.0, np.ones(28)], 2),
        "AdaGrad, a step's noise": lambda: adagrad(2000, 5),
    }
    return settings if name is None else settings[name]()


def errors(fits, quick):
    import numpy as np

    warnings.simplefilter("ignore")
    print("epsilon = 1, delta = 1e-5; root mean square errors from noise")
    print(f"{'':26}{'n':>7}{'foretold':>10}{'measured':>10}{'ratio':>7}{'floor':>9}{'least n':>9}")
    for name in list(foretold(None, None))[: 2 if quick else None]:
        plan, error = foretold(name, np.random.default_rng(0))
        measured = math.sqrt(statistics.fmean(error() ** 2 for _ in range(3 if quick else fits)))
        ratio = plan.error() / measured
        told = f"{plan.error():10.3g}{measured:10.3g}{ratio:7.2f}{plan.error('floor'):9.3g}"
        said = "" if 0.75 <= ratio <= 1.25 else "  fails"
        print(f"{name:26}{plan.n:7d}{told}{plan.smallest_n:9d}{said}", flush=True)


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
    parser.add_argument("--errors", action="store_true", help="errors foretold and measured")
    parser.add_argument("--fits", type=int, default=40, help="of each setting, with --errors")
    options = parser.parse_args()
    if options.child:
        child(options.child, options.epsilon)
        return
    if options.errors or options.quick:
        errors(options.fits, options.quick)
    if options.errors:
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
