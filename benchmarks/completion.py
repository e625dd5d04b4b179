"""Private matrix completion: held-out error against the published families, speed and memory.

    python benchmarks/completion.py utility --data DIR [--quick]
    python benchmarks/completion.py settings --data DIR [--quick]
    python benchmarks/completion.py nothing --data DIR
    python benchmarks/completion.py speed
    python benchmarks/completion.py scale [--users 100000]
    python benchmarks/completion.py movielens --data DIR

``DIR`` (or SKRIEMDP_DATA) holds ``generators.py`` (families ml, weak, strong, n30000) or the
MovieLens files; digits need nothing.
"""

import argparse
import importlib.util
import os
import pathlib
import resource
import time
import warnings

for _name in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from scipy import sparse  # noqa: E402

from skriemdp import PrivateMatrixCompletion  # noqa: E402
from skriemdp._completion.local_factors import local_coordinates  # noqa: E402
from skriemdp._completion.problem import CompletionProblem  # noqa: E402
from skriemdp._completion.signal_releases import SIGNAL_ITEMS, SignalTest  # noqa: E402
from skriemdp._descent.trajectory import Moves, Trajectory  # noqa: E402
from skriemdp._mechanisms.bounded_sets import Outer  # noqa: E402
from skriemdp._mechanisms.sum import private_sum  # noqa: E402
from skriemdp._mechanisms.units import Units  # noqa: E402

EPSILONS = (0.3, 1.0, 3.0, 10.0)
FAMILIES = {
    "ml": {"n": 6000, "d": 3700, "r": 5, "observed": 0.04},
    "weak": {"n": 6000, "d": 500},
    "strong": {"n": 6000, "d": 500, "low_rank": 0.9, "noise": 0.4},
    "n30000": {"n": 30000, "d": 500},
}
# Best row of the study of design, by family and epsilon (its seeds; equal true privacy).
REFERENCE = {
    "ml": (0.924, 0.893, 0.855, 0.812),
    "weak": (0.910, 0.869, 0.839, 0.827),
    "strong": (0.968, 0.924, 0.812, 0.730),
    "n30000": (0.864, 0.845, 0.835, 0.820),
    "digits": (0.294, 0.248, 0.222, 0.214),
}
RANK = {"digits": 8}


def _generators(data):
    folder = pathlib.Path(data or os.environ.get("SKRIEMDP_DATA", "."))
    path = folder / "generators.py"
    if not path.exists():
        raise SystemExit(f"skipped: no generators.py in {folder}; pass --data or SKRIEMDP_DATA.")
    spec = importlib.util.spec_from_file_location("generators", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def family(name, data, seed=0):
    """(training ratings, test ratings, bounds), both CSR."""
    if name == "digits":
        from sklearn.datasets import load_digits

        values = load_digits().data / 16.0
        train = np.random.default_rng(seed).random(values.shape) < 0.5
        return _csr(values, train), _csr(values, ~train), (0.0, 1.0)
    values, mask = _generators(data).ratings(seed=seed, **FAMILIES[name])
    users, items = np.nonzero(mask)
    test = np.random.default_rng(seed + 1).random(len(users)) < 0.1
    train = mask.copy()
    train[users[test], items[test]] = False
    return _csr(values, train), _csr(values, mask & ~train), (1.0, 5.0)


def _csr(values, mask):
    users, items = np.nonzero(mask)
    return sparse.csr_array((values[users, items].astype(float), (users, items)), shape=mask.shape)


def _error(train, test, bounds, repeats, **settings):
    errors, model = [], None
    for repeat in range(repeats):
        model = PrivateMatrixCompletion(
            bounds=bounds, random_state=repeat, public_seed=repeat, **settings
        )
        errors.append(-model.fit(train).score(train, test))
    return float(np.mean(errors)), float(np.std(errors) / np.sqrt(len(errors))), model


def sharing_nothing(train, test, bounds):
    """Error of users who complete their rows from their own mean about the middle of the range."""
    model = PrivateMatrixCompletion(bounds=bounds)
    model.bounds_, model.level_ = bounds, (bounds[0] + bounds[1]) / 2
    model.item_effects_ = np.zeros(train.shape[1])
    model.components_, model.ridge_ = np.zeros((0, train.shape[1])), np.inf
    model.n_features_in_ = train.shape[1]
    return -model.score(train, test)


def non_private(train, test, bounds, rank):
    """Item means with user bias, and descent on the same problem, without noise: error of each."""
    half = (bounds[1] - bounds[0]) / 2
    level = train.data.mean()
    counts = np.bincount(train.indices, minlength=train.shape[1])
    rows = np.repeat(np.arange(train.shape[0]), np.diff(train.indptr))
    means = np.bincount(rows, weights=train.data, minlength=train.shape[0])
    means = (means + 4 * level) / (np.diff(train.indptr) + 4)
    effects = np.bincount(train.indices, weights=train.data - means[rows], minlength=len(counts))
    model = PrivateMatrixCompletion(bounds=bounds)
    model.bounds_, model.level_, model.item_effects_ = bounds, level, effects / (counts + 3)
    model.components_, model.ridge_ = np.zeros((0, train.shape[1])), np.inf
    model.n_features_in_ = train.shape[1]
    start = -model.score(train, test)
    values = (train.data - model.level_ - model.item_effects_[train.indices]) / half
    deviations = sparse.csr_array((values, train.indices, train.indptr), shape=train.shape)
    biases = local_coordinates(deviations, np.zeros((train.shape[1], 0)), np.inf)[:, 0]
    deviations.data = deviations.data - biases[rows]
    problem = CompletionProblem(deviations, rank, 10.0 * rank / train.shape[1])
    point = problem.geometry.random_point(np.random.default_rng(0))
    clip = 0.35 * float(np.median(problem.norms(point)))
    steps = tuple(32.0 / clip * (1 - np.arange(80) / 80))
    path = Trajectory(problem.geometry, point, Moves(80, steps, retraction=True), None)
    for _ in range(80):
        path.advance(_gradient(problem, path.point, clip))
    model.components_ = path.result.T
    best = np.inf
    for factor in 2.0 ** np.arange(0, 8):
        model.ridge_ = factor * rank / train.shape[1]
        best = min(best, -model.score(train, test))
    return start, best


def _gradient(problem, point, clip):
    """Mean of clipped gradients, with next to no noise."""
    bounded_set = Outer(clip, *problem.geometry.shape)
    units, give = problem.units(), problem.products(point)
    total = private_sum(units, give, bounded_set, 1000.0, np.random.default_rng(0)).value
    return problem.leave(point, total / problem.matrix.shape[0])


def utility(args):
    """Error of every policy, the regret of the default, and the published best row."""
    names = args.family or (["digits", "strong"] if args.quick else [*REFERENCE])
    print("family   eps  | items only  rank given, forced  rank given  default | best row | chosen")
    for name in names:
        train, test, bounds = family(name, args.data)
        rank = RANK.get(name, 5)
        plain, low = non_private(train, test, bounds, rank)
        print(
            f"{name}: nothing shared {sharing_nothing(train, test, bounds):.3f}; "
            f"non-private items + bias {plain:.3f}, low rank {low:.3f}; "
            f"global mean {np.sqrt(np.mean((test.data - train.data.mean()) ** 2)):.3f}"
        )
        for epsilon, best in zip(EPSILONS, REFERENCE[name], strict=True):
            if args.epsilon and epsilon not in args.epsilon:
                continue
            repeats, cells, model = args.repeats, [], None
            for settings in (
                {"rank": 0},
                {"rank": rank, "signal_test": "none"},
                {"rank": rank},
                {},
            ):
                mean, error, model = _error(
                    train, test, bounds, repeats, epsilon=epsilon, **settings
                )
                cells.append((mean, error))
            regret = cells[-1][0] - min(cells[0][0], cells[1][0])
            row = "  ".join(f"{m:.4f}+-{e:.4f}" for m, e in cells)
            print(
                f"{name:8s} {epsilon:4g} | {row} | {best:.3f} | {model.mechanism_}, "
                f"signal {model.signal_ or 0:.2f}, regret {regret:+.4f}",
                flush=True,
            )


def nothing(args):
    """Where items are noise: the default against users' own means about the middle of the range."""
    cells = {"small": {"n": 1000, "d": 500}, "sparse": {"n": 1000, "d": 3000, "observed": 0.01}}
    for name, shape in cells.items():
        for epsilon in (0.03, 0.1, 0.3, 1.0):
            gains, released = [], 0
            for seed in range(max(args.repeats, 8)):
                values, mask = _generators(args.data).ratings(seed=100 + seed, **shape)
                test = np.random.default_rng(seed + 1).random(mask.shape) < 0.1
                train, rest = _csr(values, mask & ~test), _csr(values, mask & test)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = PrivateMatrixCompletion(epsilon=epsilon, random_state=seed).fit(train)
                released += "level only" not in model.subspace_reason_
                ours = model.score(train, rest)
                model.level_, model.item_effects_ = 3.0, np.zeros(train.shape[1])
                model.components_, model.ridge_ = np.zeros((0, train.shape[1])), np.inf
                gains.append(ours - model.score(train, rest))
            error = np.std(gains) / np.sqrt(len(gains))
            print(
                f"{name:8s} eps={epsilon:<5g} gain over sharing nothing {np.mean(gains):+.4f}"
                f"+-{error:.4f}, items released in {released} of {len(gains)} fits",
                flush=True,
            )


def settings(args):
    """How the error moves with each public setting around its rule."""
    grid = (
        [("strong", 1.0), ("strong", 3.0)]
        if args.quick
        else [("strong", 1.0), ("strong", 3.0), ("ml", 10.0), ("n30000", 3.0)]
    )
    variants = [{}] + [{"n_steps": t} for t in (10, 20, 40, 80)]
    variants += [{"rank": r} for r in (2, 3, 8)]
    for name, epsilon in grid:
        train, test, bounds = family(name, args.data)
        for variant in variants:
            chosen = {"rank": 5, "signal_test": "none", **variant}
            mean, error, _ = _error(train, test, bounds, args.repeats, epsilon=epsilon, **chosen)
            print(f"{name:8s} {epsilon:4g} {variant!s:24s} {mean:.4f}+-{error:.4f}", flush=True)


def _random_ratings(n, d, nnz, seed=0):
    rng = np.random.default_rng(seed)
    counts = np.minimum(rng.poisson(nnz / n, size=n) + 1, d)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    columns = (rng.random(indptr[-1]) ** 2 * d).astype(np.int32)
    matrix = sparse.csr_array(
        (rng.integers(1, 6, indptr[-1]).astype(float), columns, indptr), shape=(n, d)
    )
    matrix.sum_duplicates()
    matrix.data = np.minimum(matrix.data, 5.0)
    return matrix


def _best(function, repeats=7):
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return min(times)


def _gathered_least_squares(matrix, point, ridge):
    """Per-user ridge regressions as usually vectorised: one gathered block of rows per user."""
    result = np.empty((matrix.shape[0], point.shape[1]))
    identity = ridge * np.eye(point.shape[1])
    for user in range(matrix.shape[0]):
        part = slice(matrix.indptr[user], matrix.indptr[user + 1])
        rows = point[matrix.indices[part]]
        result[user] = np.linalg.solve(rows.T @ rows + identity, rows.T @ matrix.data[part])
    return result


def speed(args):
    """One step against the bare regressions, and a whole fit, at the size of MovieLens 1M."""
    for n, d, nnz, rank in (
        (6000, 3700, 890_000, 5),
        (12000, 3700, 1_780_000, 5),
        (6000, 3700, 890_000, 10),
    ):
        matrix = _random_ratings(n, d, nnz)
        matrix.data = (matrix.data - 3.0) / 2.0
        problem = CompletionProblem(matrix, rank, 0.05)
        point = problem.geometry.random_point(np.random.default_rng(0))
        step = _best(lambda p=problem, w=point: _gradient(p, w, 1.0))
        ours = _best(lambda p=problem, w=point: p.factors(w))
        loop = _best(lambda m=matrix, w=point: _gathered_least_squares(m, w, 0.05), 2)
        print(
            f"n={n} d={d} nnz={matrix.nnz} r={rank}: step {1e3 * step:.1f} ms, regressions "
            f"{1e3 * ours:.1f} ms ({step / ours:.2f} x), per-user loop {1e3 * loop:.0f} ms "
            f"({step / loop:.2f} x)"
        )
    for n, d, nnz in ((6000, 3700, 890_000), (30_000, 500, 600_000), (1000, 100, 20_000)):
        matrix = _random_ratings(n, d, nnz)
        for options in ({"rank": 0}, {}, {"rank": 5, "signal_test": "none"}):
            model = PrivateMatrixCompletion(epsilon=10.0, delta=1e-6, **options)
            seconds = _best(lambda m=model, x=matrix: m.fit(x), 3)
            print(
                f"whole fit {n} x {d}, {matrix.nnz} ratings, {options}: {seconds:.3f} s", flush=True
            )
    residuals = _random_ratings(6000, 3700, 1_050_000)
    residuals.data -= 3.0
    test = SignalTest(5, 6000, 1.0)
    once = _best(lambda: test.value(Units((residuals[:, np.arange(SIGNAL_ITEMS)],))), 3)
    x = np.random.default_rng(0).standard_normal(3700)
    product = _best(lambda: residuals.T @ (residuals @ x))
    print(
        f"signal at {residuals.nnz} ratings: {1e3 * once:.0f} ms, as {once / product:.0f} products "
        "of the moment and a vector"
    )


def scale(args):
    """Time and memory of a whole fit as the number of users grows."""
    for n in (args.users // 4, args.users // 2, args.users):
        matrix = _random_ratings(n, 10_000, 100 * n)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        begin = time.process_time()
        model = PrivateMatrixCompletion(5, epsilon=10.0, delta=1e-6, signal_test="none").fit(matrix)
        seconds = time.process_time() - begin
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        size = (matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes) / 2**20
        print(
            f"users={n} items=10000 ratings={matrix.nnz}: {seconds:.1f} s, "
            f"{1e9 * seconds / matrix.nnz:.0f} ns per rating, data {size:.0f} MB, "
            f"peak memory {before:.0f} -> {after:.0f} MB, {model.mechanism_}",
            flush=True,
        )


def movielens(args):
    """Item effects, DP-RGD and the published DP-RSGD on MovieLens, at true privacy."""
    from skriemdp.datasets import load_movielens

    for size in ("100k", "1m"):
        try:
            X, _, _ = load_movielens(size=size, data_home=args.data)
        except FileNotFoundError as error:
            print(f"skipped {size}: {error}")
            continue
        test = np.random.default_rng(0).random(X.nnz) < 0.1
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        parts = [
            sparse.csr_array((X.data[k], (rows[k], X.indices[k])), shape=X.shape)
            for k in (~test, test)
        ]
        for epsilon in EPSILONS:
            for options in (
                {"rank": 0},
                {},
                {"rank": 5, "mechanism": "stochastic", "signal_test": "none", "n_steps": 1000},
            ):
                mean, error, _ = _error(
                    *parts, (1.0, 5.0), args.repeats, epsilon=epsilon, **options
                )
                print(f"{size} eps={epsilon:g} {options}: {mean:.4f}+-{error:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = {f.__name__: f for f in (utility, settings, nothing, speed, scale, movielens)}
    parser.add_argument("command", choices=commands)
    parser.add_argument("--data", help="folder of generators.py or of the MovieLens files")
    parser.add_argument("--family", action="append", choices=[*REFERENCE])
    parser.add_argument("--epsilon", type=float, action="append", choices=EPSILONS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    commands[args.command](args)


if __name__ == "__main__":
    main()
