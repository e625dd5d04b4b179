"""Federated runs: excess risk by rounds and by design, overhead of the engines, a thousand clients.

    python benchmarks/federated.py --only risk        # the published problems at true privacy
    python benchmarks/federated.py --only slopes      # error against clients, rounds, local steps
    python benchmarks/federated.py --only rounds      # does a run end farther off than its start?
    python benchmarks/federated.py --only engines     # time per round
    python benchmarks/federated.py --only flower      # the same between processes; needs Flower
    python benchmarks/federated.py --only thousand    # 1000 clients
    python benchmarks/federated.py --only noise       # one noise for all clients: the error
    python benchmarks/federated.py --only secure      # secure sums: time and bytes of a client

Every run is (epsilon, delta)-private in total, for every record.  Risks are of the pooled records,
above the pooled minimiser; "start" is the public start, "one step" a single private round of all
clients.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import secrets
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from sklearn.datasets import load_digits

from skriemdp import PrivateFrechetMean, PrivatePrincipalEigenvector, frechet_mean
from skriemdp.federated import Cohort, FederatedEstimator, Identity
from skriemdp.federated import _together as together
from skriemdp.federated._agreement import Agreement
from skriemdp.federated._attendance import Attempt, AttendanceBook, Member, bytes_of, request
from skriemdp.federated._masks import packed
from skriemdp.geometry import SPD, Hyperboloid, Sphere
from skriemdp.privacy import gaussian_mu

DEPLOYMENT = Path(__file__).parents[1] / "examples" / "deployment" / "run.py"
REPEATS = 3
EPSILON, DELTA = 1.0, 1e-5


# -- problems -------------------------------------------------------------------------------------


def eigenvector(rows, row_norm):
    """PCA estimator, its records, and the excess of ``-w' C w`` over its least value."""
    moment = rows.T @ rows / len(rows)
    best = np.linalg.eigvalsh(moment)[-1]
    model = PrivatePrincipalEigenvector(
        row_norm=row_norm, center="assume", epsilon=EPSILON, delta=DELTA
    )
    return model, rows, lambda w: float(best - w @ moment @ w) / best, 1.0 / (2.0 * row_norm**2)


def synthetic_rows(rng, n=20_000, d=20, gap=0.1):
    scales = np.r_[1.0, 1.0 - gap * np.arange(1.1, 1.5, 0.1), np.abs(rng.normal(size=d)) / d][:d]
    rows = rng.normal(size=(n, d)) * scales
    rows @= np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1) / 2.0)[:, None]


def digit_rows():
    images = load_digits().data / 16.0
    rows = images - 0.3  # a public guess of the mean grey value
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1) / 4.0)[:, None]


def spd_mean(points, radius):
    """Mean estimator, its records, and half the squared distance to the pooled mean."""
    space = SPD(points.shape[-1])
    center = frechet_mean(points, space)
    model = PrivateFrechetMean("spd", radius=radius, epsilon=EPSILON, delta=DELTA)
    return model, points, lambda x: 0.5 * float(space.dist(x, center)) ** 2, 1.0


def wishart(rng, n=4000, size=2, freedom=10):
    factor = rng.normal(size=(n, size, freedom))
    return factor @ factor.transpose(0, 2, 1) / freedom


def digit_covariances():
    """Region covariances of digits: position, grey value and its derivatives, 5 x 5."""
    images = load_digits().images / 16.0
    row, column = np.mgrid[0:8, 0:8] / 7.0
    down, right = np.gradient(images, axis=(1, 2))
    places = [np.broadcast_to(grid, images.shape) for grid in (row, column)]
    features = np.stack([*places, images, down, right], axis=1).reshape(len(images), 5, -1)
    features = features - features.mean(axis=2, keepdims=True)
    matrices = features @ features.transpose(0, 2, 1) / features.shape[2]
    # A public ridge and a public unit: grey values vary by about 0.3.
    return (matrices + 1e-3 * np.eye(5)) / 0.1


def problems():
    rng = np.random.default_rng(0)
    return {
        "eigenvector, synthetic (20 000 x 20), N = 20": (
            *eigenvector(synthetic_rows(rng), 2.0),
            20,
        ),
        "eigenvector, digits (1 797 x 64), N = 10": (*eigenvector(digit_rows(), 4.0), 10),
        "mean of 2x2 Wishart (4 000), N = 20": (*spd_mean(wishart(rng), 2.0), 20),
        "mean of 2x2 Wishart (4 000), N = 50": (*spd_mean(wishart(rng), 2.0), 50),
        "mean of 5x5 digit covariances (1 797), N = 10": (*spd_mean(digit_covariances(), 3.0), 10),
    }


# -- risk by rounds -------------------------------------------------------------------------------


def excess(model, records, risk, n_clients, seed, rounds, per_round, **settings):
    clients = np.random.default_rng(seed).permutation(len(records)) % n_clients
    run = FederatedEstimator(model, rounds, per_round, random_state=seed, **settings)
    return risk(run.fit(records, clients=clients).point_)


def risk_table():
    print("| problem | method | T = 5 | 10 | 20 | 40 | start | one round of all |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (model, records, risk, step, n_clients) in problems().items():
        probe = FederatedEstimator(model, 1, n_clients, step_size=1e-12, random_state=0)
        start = risk(probe.fit(records, clients=np.arange(len(records)) % n_clients).point_)
        one = np.median(
            [
                excess(model, records, risk, n_clients, s, 1, n_clients, step_size=step)
                for s in range(REPEATS)
            ]
        )
        designs = {
            "rsgd": {"step_size": step, "local_steps": 1},
            "rsgd, K = 3": {"step_size": step, "local_steps": 3},
            "rsvrg, m = 4": {
                "step_size": step,
                "local": "rsvrg",
                "local_steps": 3,
                "batch_fraction": 0.9,
                # 2 row_norm^2 for eigenvectors; known for means.
                "smoothness": None if isinstance(model, PrivateFrechetMean) else 1.0 / step,
            },
        }
        for label, settings in designs.items():
            cells = []
            for rounds in (5, 10, 20, 40):
                values = [
                    excess(model, records, risk, n_clients, s, rounds, n_clients // 2, **settings)
                    for s in range(REPEATS)
                ]
                cells.append(f"{np.median(values):.2e}")
            row = " | ".join(cells)
            print(f"| {name} | {label} | {row} | {start:.2e} | {one:.2e} |", flush=True)


# -- slopes ---------------------------------------------------------------------------------------


def slope(x, y):
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def slopes():
    """Noise alone: all records equal, so the excess risk is that of the noise."""
    space = SPD(2)
    print("| grows | values | mean excess risk | slope | theory |")
    print("|---|---|---|---|---|")

    def measure(n_clients, per_round, rounds, local_steps, step):
        # 100 records a client; the start is the minimiser, so only noise is left.
        points = np.broadcast_to(np.eye(2), (100 * n_clients, 2, 2)).copy()
        model = PrivateFrechetMean(
            "spd", center=np.eye(2), radius=1.0, epsilon=EPSILON, delta=DELTA
        )
        values = [
            excess(
                model,
                points,
                lambda x: 0.5 * float(space.dist(x, np.eye(2))) ** 2,
                n_clients,
                seed,
                rounds,
                per_round,
                step_size=step,
                local_steps=local_steps,
            )
            for seed in range(20)
        ]
        return float(np.mean(values))

    cases = {
        "clients per round s (each trains T s / N times)": (
            [4, 8, 16, 32],
            lambda s: (32, s, 8, 1, 0.5),
            "0 (T s/N releases, averaged over s)",
        ),
        "all clients N = s": ([4, 8, 16, 32], lambda n: (n, n, 4, 1, 0.5), "-1"),
        "rounds T, all clients": ([4, 8, 16, 32], lambda t: (8, 8, t, 1, 0.5), "1"),
        "rounds T, N = 8 T, s = 8 (nobody composes)": (
            [2, 4, 8, 16],
            lambda t: (8 * t, 8, t, 1, 0.5),
            "0 once stationary",
        ),
        "local steps K, step 0.5 / K": (
            [1, 2, 4, 8],
            lambda k: (8, 8, 8, k, 0.5 / k),
            "0 (K releases, K steps of 1/K)",
        ),
    }
    for name, (values, design, theory) in cases.items():
        risks = [measure(*design(value)) for value in values]
        shown = ", ".join(f"{risk:.1e}" for risk in risks)
        print(
            f"| {name} | {values} | {shown} | {slope(values, risks):+.2f} | {theory} |", flush=True
        )


# -- engines --------------------------------------------------------------------------------------


def engines():
    rng = np.random.default_rng(0)
    points = wishart(rng, 2000)
    clients = np.arange(2000) % 20
    model = PrivateFrechetMean("spd", center=np.eye(2), radius=2.0)
    print("| engine | ms per round, 20 clients of 100 records |")
    print("|---|---|")
    cases = (
        ("in-process, together", None, 256),
        ("in-process, one by one", None, 0),
        ("joblib", 2, 256),
    )
    for name, n_jobs, together.FEW_RECORDS in cases:
        times = []
        for rounds in (5, 45):
            run = FederatedEstimator(model, rounds, 20, n_jobs=n_jobs)
            run.fit(points, clients=clients)  # workers start, calibration is remembered
            best = np.inf
            for _ in range(3):
                begin = time.perf_counter()
                run.fit(points, clients=clients)
                best = min(best, time.perf_counter() - begin)
            times.append(best)
        print(f"| {name} | {1e3 * (times[1] - times[0]) / 40:.1f} |", flush=True)


def flower(n_rounds=6):
    """Three nodes and a server on loopback, TLS, as in examples/deployment."""
    if importlib.util.find_spec("flwr") is None:
        print("skipped: the extra 'flower' is not installed")
        return
    spec = importlib.util.spec_from_file_location("deployment", DEPLOYMENT)
    deployment = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(deployment)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        with deployment.Federation(f"{folder}/run", n_rounds=n_rounds, epsilon=10.0) as federation:
            federation.start_server()
            federation.describe(federation.register())
            for name in deployment.HOSPITALS:
                federation.start_node(name)
            federation.submit()
            federation.wait_for(1)
            first = time.perf_counter()
            federation.wait_for(n_rounds)
            last = time.perf_counter()
    print("| engine | until the first answers, s | s per round, 3 nodes |")
    print("|---|---|---|")
    print(f"| Flower | {first - begin:.1f} | {(last - first) / (n_rounds - 1):.1f} |")


def thousand():
    rng = np.random.default_rng(0)
    points = wishart(rng, 20_000)
    ragged = rng.integers(0, 1000, len(points))
    even = np.arange(len(points)) % 1000
    settings = (
        ("100 rounds of 50", even, 100, 50, {}),
        ("100 rounds of 1000", even, 100, 1000, {}),
        ("100 rounds of 1000, 2 to 40 records", ragged, 100, 1000, {}),
        ("10 rounds of 1000, 3 steps", even, 10, 1000, {"local_steps": 3, "step_size": 0.3}),
        ("10 rounds of 1000, whole clients", even, 10, 1000, {"unit": "client"}),
    )
    print("| 1000 clients of 20 records | CPU s | wall s | local trainings per CPU s |")
    print("|---|---|---|---|")
    for name, clients, n_rounds, per_round, more in settings:
        model = PrivateFrechetMean("spd", center=np.eye(2), radius=2.0)
        run = FederatedEstimator(model, n_rounds, per_round, **more)
        begin, cpu = time.perf_counter(), time.process_time()
        run.fit(points, clients=clients)
        wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
        print(f"| {name} | {cpu:.1f} | {wall:.1f} | {n_rounds * per_round / cpu:.0f} |", flush=True)


# -- one noise for all clients --------------------------------------------------------------------


def one_noise(fits=100, dim=50):
    """A mean of equal records, so that the error is that of the noise."""
    rows = np.full((20_000, dim), 0.1)  # too far out to be shrunk
    mean = PrivateFrechetMean(radius=1.0, center=np.zeros(dim), epsilon=EPSILON, delta=DELTA)

    def error(trust, n_clients):
        model = FederatedEstimator(mean, 1, local="statistic", trust=trust)
        clients = np.arange(len(rows)) % n_clients
        found = [model.fit(rows, clients=clients).estimator_.mean_ for _ in range(fits)]
        return float(np.mean(np.square(np.subtract(found, 0.1))))

    central = error("aggregator", 1)
    spread = 2.0 / np.sqrt(fits * dim)  # of a ratio of two such means, in units of the ratio
    print(f"{fits} fits in {dim} dimensions; standard error of a ratio: {100 * spread:.1f} %\n")
    print("| clients N | trust='cohort', one may collude | N / (N - 1) | 'nobody' | 'aggregator' |")
    print("|---|---|---|---|---|")
    for n_clients in (2, 3, 5, 20, 100):
        ratios = [error(t, n_clients) / central for t in ("cohort", "nobody", "aggregator")]
        theory = n_clients / (n_clients - 1)
        shown = f"{ratios[0]:.2f} | {theory:.2f} | {ratios[1]:.1f} | {ratios[2]:.2f}"
        print(f"| {n_clients} | {shown} |", flush=True)


def _zeros(length, honest):
    return np.zeros(length, np.int64)


def _nothing(listed):
    """Stands for the charge."""


def secure():
    """What one client of a secure sum computes and sends, beside its own statistic."""
    print("| clients | integers k | ms of CPU per pair | ms in all | bytes up less 8 k | down |")
    print("|---|---|---|---|---|---|")
    asked = Attempt("a fit", 0, 0)
    for count in (5, 20, 100):
        names = [f"hospital-{k:03d}" for k in range(count)]
        identities = {name: Identity(secrets.token_bytes(32)) for name in names}
        cohort = Cohort({name: identity.public for name, identity in identities.items()})
        for length in (28, 253, 3000):
            agreement = Agreement({f"setting {k}": k for k in range(20)}, length, 2**40)
            with tempfile.TemporaryDirectory() as folder:
                members = [
                    Member(name, one, cohort, agreement, AttendanceBook(f"{folder}/{name}"), 100)
                    for name, one in identities.items()
                ]
                entries = [member.attend(asked, bool) for member in members]
                up = len(packed(b"attendance", entries[0].pack()))
                entries = [entry._replace(marks=b"") for entry in entries]
                begin = time.process_time()
                sums = functools.partial(_zeros, length)
                words = members[0].add(asked, entries, bool, _nothing, sums)
                spent = 1e3 * (time.process_time() - begin)
            up += len(packed(b"words", bytes_of(words))) - 8 * length
            down = len(request("attend", asked)) + len(request("add", asked, entries))
            each = f"{spent / (count - 1):.2f} | {spent:.1f} | {up} | {down}"
            print(f"| {count} | {length} | {each} |", flush=True)


# -- rounds that noise allows ---------------------------------------------------------------------


def most_rounds(first=80_000, fits=12):
    """Distance to the mean over that of the start, half a ball; an error where it is above 1.05."""
    print("| n mu | space | clients | rounds asked | made | median | 9 of 10 below |")
    print("|---|---|---|---|---|---|---|")
    spaces = (Sphere(2), Hyperboloid(3), SPD(3))
    worst = 0.0
    for signal in (50, 500, 5000):
        for space, count, trained in zip(spaces, (4, 10, 5), (4, 3, 1), strict=True):
            n = 500 if signal < 5000 else 2000
            mu = signal / n
            epsilon = float(brentq(lambda e, mu=mu: gaussian_mu(e, DELTA) - mu, 1e-3, 60.0))
            for rounds in (1, 20, 100):
                ratios = []
                for seed in range(first, first + fits):
                    rng = np.random.default_rng(seed)
                    middle = np.r_[0.5, np.zeros(space.dim - 1)]
                    moves = middle + 0.15 * rng.normal(size=(n, space.dim)) / np.sqrt(space.dim)
                    X = np.asarray(space.exp_coordinates(space.base_point, moves))
                    mean = PrivateFrechetMean(
                        space, center=space.base_point, radius=1.0, epsilon=epsilon, delta=DELTA
                    )
                    model = FederatedEstimator(mean, rounds, trained, random_state=seed)
                    model.fit(X, clients=np.arange(n) % count)
                    goal = frechet_mean(X, space)
                    ratios.append(
                        space.dist(model.point_, goal) / space.dist(space.base_point, goal)
                    )
                middle, high = np.median(ratios), np.quantile(ratios, 0.9)
                worst = max(worst, middle)
                print(
                    f"| {signal} | {space} | {trained} of {count} | {rounds} | {model.n_rounds_} "
                    f"| {middle:.2f} | {high:.2f} |",
                    flush=True,
                )
    if worst > 1.05:
        sys.exit(f"a run ends {worst:.2f} times as far from the mean as its start")


def main():
    parts = {
        "risk": risk_table,
        "slopes": slopes,
        "rounds": most_rounds,
        "engines": engines,
        "flower": flower,
        "thousand": thousand,
        "noise": one_noise,
        "secure": secure,
    }
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=tuple(parts))
    chosen = parser.parse_args().only
    warnings.simplefilter("ignore")
    for name, part in parts.items():
        if chosen in (None, name):
            print(f"\n## {name}\n")
            part()


if __name__ == "__main__":
    main()
