"""Lattice arithmetic against floating point: error, time, and what another accounting would cost.

Run:  OMP_NUM_THREADS=1 python benchmarks/lattice.py [--quick]
      OMP_NUM_THREADS=1 python benchmarks/lattice.py --draws 1e9      the law of the sampler
      OMP_NUM_THREADS=1 python benchmarks/lattice.py --samplers       its speed, beside others'
"""

import argparse
import math
import time
import warnings

import numpy as np
from scipy.stats import chi2, norm

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateHyperbolicRegressor,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    config_context,
    frechet_mean,
)
from skriemdp._random import NoiseStreams
from skriemdp.datasets import make_cloud
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import SPD, Euclidean, Hyperboloid, Sphere
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.discrete_gaussian import discrete_gaussian
from skriemdp.mechanisms.integers import IntegerBall
from skriemdp.mechanisms.noise import NOISE_SCALE
from skriemdp.privacy.calibration import gaussian_mu
from skriemdp.privacy.events import ZCDPEvent
from skriemdp.privacy.lattice import lattice_step


def accounting():
    """The same release by its GDP bound and by zero-concentrated privacy."""
    print(
        "| (epsilon, delta) | mu | epsilon by zCDP | noise by zCDP / noise | step(s) s - 1 "
        "| sigma / float's - 1, d = 55 |\n|---|---|---|---|---|---|"
    )
    for epsilon, delta in ((0.1, 1e-3), (0.1, 1e-6), (1.0, 1e-5), (1.0, 1e-8), (8.0, 1e-5)):
        mu = gaussian_mu(epsilon, delta)
        sigma = NOISE_SCALE * IntegerBall(Ball(1.0), 55, 1.0 / mu).spacing
        low, high = 1e-9 * mu * mu, mu * mu
        for _ in range(60):
            rho = math.sqrt(low * high)
            low, high = (rho, high) if ZCDPEvent(rho).epsilon(delta) <= epsilon else (low, rho)
        print(
            f"| ({epsilon:g}, {delta:g}) | {mu:.4f} | {ZCDPEvent(mu * mu / 2).epsilon(delta):.4f} "
            f"| {mu / math.sqrt(2.0 * low):.3f} "
            f"| {lattice_step(NOISE_SCALE) * NOISE_SCALE - 1:.0e} | {sigma * mu / 2.0 - 1:.0e} |"
        )


def errors(fits, n):
    """Mean squared distance to the Frechet mean over the flat limit ``d (2 r / (n mu))^2``."""
    geometries = SPD(5), Hyperboloid(2), Sphere(20), Euclidean(3)
    ways = (
        ("public centre, no data", None),
        ("tangent, float", {"mechanism": "tangent", "noise": "gaussian"}),
        ("tangent, lattice", {"mechanism": "tangent"}),
        ("gradient, float", {"mechanism": "gradient"}),
        ("gradient, lattice", {"mechanism": "gradient"}),
        ("auto, float", {"noise": "gaussian"}),
        ("auto, lattice", {"noise": "gaussian"}),
        ("non-private", 0),
    )
    print(
        f"\nn = {n}, epsilon = 1, delta = 1e-5, radius 1, {fits} fits\n\n| | "
        + " | ".join(map(str, geometries))
        + " |\n|---|"
        + "---|" * len(geometries)
    )
    for name, parameters in ways:
        cells = []
        for geometry in geometries:
            rng = np.random.default_rng(0)
            X = make_cloud(geometry, n, radius=1.0, offset=0.5, spread=0.3, rng=rng)
            target = frechet_mean(X, geometry)
            limit = geometry.dim * (2.0 / (n * gaussian_mu(1.0, 1e-5))) ** 2
            if parameters == 0:
                cells.append("0")
                continue
            if parameters is None:
                means = [geometry.base_point]
            else:
                model = PrivateFrechetMean(
                    geometry, radius=1.0, accountant=PrivacyAccountant(), **parameters
                )
                with config_context(arithmetic=name.split(", ")[1]):
                    means = [model.fit(X).mean_ for _ in range(fits)]
            square = np.mean([float(geometry.dist(target, mean)) ** 2 for mean in means])
            cells.append(f"{square / limit:.3g}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def medians(repeats, *functions):
    """Median processor time of each function, measured in turns so that load hits all alike."""
    times = [[] for _ in functions]
    for _ in range(repeats):
        for taken, function in zip(times, functions, strict=True):
            start = time.process_time()
            function()
            taken.append(time.process_time() - start)
    return [float(np.median(taken)) for taken in times]


def fit_in(arithmetic, model, *data):
    """The fitted model."""
    with config_context(arithmetic=arithmetic):
        return model.set_params(accountant=PrivacyAccountant()).fit(*data)


def whole_fits(repeats, large):
    """Estimators beside the means: times and scores in floats and in integers."""
    print(
        "\n| fit | n | entries | exact time / float time | score, float | exact | default |"
        "\n|---|---|---|---|---|---|---|"
    )
    rng = np.random.default_rng(0)
    cases = []
    for n, d in ((1000, 5), (1000, 30), (10**4, 30), (10**4, 100)):
        X = rng.normal(size=(n, d)) * np.linspace(2.0, 0.5, d) + 3.0
        for mechanism in ("covariance", "refine", "power", "gradient"):
            model = PrivatePrincipalEigenvector(3, mechanism=mechanism)
            entries = d * d if mechanism in ("covariance", "refine") else 3 * d
            cases.append((f"principal components, {mechanism}", n, entries, model, (X,)))
    for n, p in ((1000, 20), (1000, 100), (2000, 99), (10**4, 20), (10**4, 100), (6100, 300)):
        X, truth = rng.normal(size=(n, p)) / math.sqrt(p), rng.normal(size=p)
        y = (X @ truth + 0.3 * rng.normal(size=n) > 0).astype(int)
        model = PrivateNoisyAdaGrad(classes=[0, 1])
        cases.append(("linear model", n, p + 1, model, (X, y)))
    for n in (1000, 3000, 11000):
        X = rng.normal(size=(n, 3))
        y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 1])]) + 0.1 * rng.normal(size=(n, 2))
        model = PrivateHyperbolicRegressor(coordinates="tangent", radius=3.0, epsilon=4.0)
        cases.append(("wrapped model", n, 512, model, (X, y)))
    for name, n, entries, model, data in cases:
        if n > large:
            continue
        scores = {"float": [], "lattice": []}

        def run(arithmetic, model=model, data=data, scores=scores):
            scores[arithmetic].append(fit_in(arithmetic, model, *data).score(*data))

        # Scoring costs the same in both, and little.
        plain, exact = medians(repeats, lambda: run("float"), lambda: run("lattice"))
        default = fit_in("auto", model, *data).privacy_spent_.public["arithmetic"]
        print(
            f"| {name} | {n} | {entries} | {exact / plain:.2f} | {np.mean(scores['float']):.3f} "
            f"| {np.mean(scores['lattice']):.3f} | {default} |",
            flush=True,
        )


def sampled_fits(repeats, large):
    """Random batches, variance reduction, clients: times in floats and in integers."""
    print("\n| fit | n | exact time / float time | default |\n|---|---|---|---|")
    batch = {"batch_size": 100}
    reduced = batch | {"solver": "variance-reduced", "smoothness": 1.0}
    solvers = {
        "all records": {},
        "Poisson batches of 100": batch,
        "fixed batches of 100": batch | {"sampling": "fixed-size"},
        "variance reduction": reduced,
    }
    federations = {
        "6 clients": (6, {}),
        "6 clients, batches": (6, {"batch_fraction": 0.2, "local_steps": 5}),
        "6 clients, variance reduction": (6, {"batch_fraction": 0.2, "local": "rsvrg"}),
        "small clients": (None, {}),
        "whole clients": (60, {"unit": "client", "update_clip": 0.5}),
    }
    for n in (1000, 6000):
        cases = []
        if n > large:
            continue
        for geometry in (Sphere(2), SPD(3)):
            X = make_cloud(geometry, n, radius=0.5, rng=np.random.default_rng(0))
            for name, settings in solvers.items():
                model = PrivateRiemannianERM(geometry, **settings)
                cases.append((f"ERM, {geometry}, {name}", model, (X,)))
            for name, (clients, settings) in federations.items():
                clients = n // 10 if clients is None else clients
                mean = PrivateFrechetMean(geometry, radius=0.5)
                model = FederatedEstimator(mean, 5, clients // 2, **settings)
                data = (X, None, np.arange(n) % clients)
                cases.append((f"federated, {geometry}, {name}", model, data))
        rng = np.random.default_rng(0)
        for p in (5, 20):
            X, truth = rng.normal(size=(n, p)) / math.sqrt(p), rng.normal(size=p)
            y = (X @ truth > 0).astype(int)
            model = PrivateNoisyAdaGrad(classes=[0, 1], batch_size=0.2 * n)
            cases.append((f"linear model, p = {p}, batches of n / 5", model, (X, y)))
        for name, model, data in cases:
            default = fit_in("auto", model, *data).privacy_spent_.public["arithmetic"]
            plain, exact = medians(
                repeats,
                lambda m=model, d=data: fit_in("float", m, *d),
                lambda m=model, d=data: fit_in("lattice", m, *d),
            )
            print(f"| {name} | {n} | {exact / plain:.2f} | {default} |", flush=True)


# The test of the law: cells of 1/64 of the scale up to 4.5 scales, times the last four bits.
REACH, LOW_BITS = 288, 16


def law_of_draws(wanted, seconds, chunk=2**20):
    """Pearson's statistic of so many draws, or of what fits into the seconds; with progress.

    The null law of its table: cells by the normal distribution function, which differs by less
    than 1e-10 of each, and all residues alike.  A second statistic is the correlation of
    neighbouring draws.  Each raises a false alarm once in 1e7 runs.
    """
    rng = NoiseStreams()("law of the sampler")
    table = np.zeros((2 * REACH + 2) * LOW_BITS, dtype=np.int64)
    products, count, blocks, started = 0.0, 0, set(), time.time()
    while count < wanted and time.time() - started < seconds:
        x = discrete_gaussian(NOISE_SCALE, rng, chunk)
        cell = np.clip(x >> (NOISE_SCALE.bit_length() - 7), -REACH - 1, REACH) + REACH + 1
        table += np.bincount(LOW_BITS * cell + x % LOW_BITS, minlength=table.size)
        unit = x / NOISE_SCALE
        products += float(unit[1:] @ unit[:-1])
        count += chunk
        blocks.add(x[:4].tobytes())
        if len(blocks) % 64 == 0:
            print(f"  {count:.3g} draws in {time.time() - started:.0f} s", flush=True)
    assert len(blocks) == count // chunk, "a block of noise was repeated"
    edges = np.concatenate([[-np.inf], np.arange(-REACH, REACH + 1) / 64.0, [np.inf]])
    half = norm.cdf(-np.abs(edges))
    shares = np.where(edges[1:] <= 0.0, half[1:] - half[:-1], half[:-1] - half[1:])
    expected = count * np.repeat(shares, LOW_BITS) / LOW_BITS
    statistic = float(((table - expected) ** 2 / expected).sum())
    degrees, correlation = table.size - 1, products / math.sqrt(count - len(blocks))
    alarm = float(chi2.isf(1e-7, degrees))
    print(
        f"\n{count:.4g} draws: Pearson's statistic of {table.size} cells {statistic:.0f} "
        f"(expected {degrees}, alarm above {alarm:.0f}); correlation of neighbours "
        f"{correlation:.2f} standard deviations (alarm beyond 5.33)"
    )
    assert statistic <= alarm and abs(correlation) <= 5.33
    # What would have raised the alarm: a scale that is wrong by this much.
    least = math.sqrt((alarm - degrees) / (2.0 * count))
    print(f"a scale that is wrong by a relative {least:.1e} is seen by this statistic")


def samplers():
    """Time per draw of this sampler, OpenDP's and NumPy's floats, in one process."""
    print("\n| draws at once | ours, ns per draw | OpenDP, ns per draw | NumPy float, ns |")
    print("|---|---|---|---|")
    rng = NoiseStreams()("speed")
    try:
        import opendp.prelude as dp
    except ImportError:
        dp = None
        print("(pip install opendp in an environment of its own for its column)")
    else:
        dp.enable_features("contrib")
    for count in (1, 100, 10**4, 10**5):
        theirs = float("nan")
        ways = [
            lambda count=count: discrete_gaussian(NOISE_SCALE, rng, count),
            lambda count=count: rng.standard_normal(count),
        ]
        if dp is not None:
            space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
            theirs_of = dp.m.make_gaussian(*space, scale=float(NOISE_SCALE))
            zeros = [0] * count
            ways.append(lambda f=theirs_of, zeros=zeros: f(zeros))
        repeats = 5 if count > 1000 else 51
        ours, plain, *rest = (1e9 * t / count for t in medians(repeats, *ways))
        theirs = rest[0] if rest else theirs
        print(f"| {count:g} | {ours:.0f} | {theirs:.0f} | {plain:.0f} |", flush=True)


def times(repeats, sizes):
    """Whole fits, and draws."""
    print("\n| manifold | n | lattice fit / float fit: tangent | gradient |\n|---|---|---|---|")
    for geometry in (Euclidean(3), SPD(2), SPD(10)):
        for n in sizes:
            X = make_cloud(geometry, n, rng=np.random.default_rng(0))
            cells = []
            for mechanism in ("tangent", "gradient"):
                fits = [
                    PrivateFrechetMean(geometry, mechanism=mechanism, noise="gaussian", radius=1.0)
                    for _ in range(2)
                ]
                plain, exact = medians(
                    repeats,
                    lambda f=fits[0], X=X: fit_in("float", f, X),
                    lambda f=fits[1], X=X: fit_in("lattice", f, X),
                )
                cells.append(f"{exact / plain:.2f}")
            print(f"| {geometry} | {n:g} | " + " | ".join(cells) + " |", flush=True)
    print("\n| draws at once | one float draw, ns | discrete Gaussian / float |\n|---|---|---|")
    rng = np.random.default_rng(0)
    for count in (3, 100, 10**4, 10**6):
        plain, exact = medians(
            repeats,
            lambda count=count: rng.standard_normal(count),
            lambda count=count: discrete_gaussian(2**40, rng, count),
        )
        print(f"| {count:g} | {1e9 * plain / count:.0f} | {exact / plain:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer fits, smaller n")
    parser.add_argument("--draws", type=float, help="only test the law of so many draws")
    parser.add_argument("--seconds", type=float, default=math.inf, help="at most, for --draws")
    parser.add_argument("--samplers", action="store_true", help="only the speed of samplers")
    arguments = parser.parse_args()
    if arguments.draws:
        return law_of_draws(arguments.draws, arguments.seconds)
    if arguments.samplers:
        return samplers()
    quick = arguments.quick
    warnings.simplefilter("ignore")
    accounting()
    errors(*((10, 1000) if quick else (60, 3000)))
    times(3 if quick else 7, (1000,) if quick else (1000, 10**4))
    sampled_fits(3 if quick else 7, 2000 if quick else 10**5)
    whole_fits(3 if quick else 7, 2000 if quick else 10**5)


if __name__ == "__main__":
    main()
