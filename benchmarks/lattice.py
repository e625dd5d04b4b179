"""Exact integers: what another accounting would cost, errors of means, the law of draws, speed.

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
    frechet_mean,
)
from skriemdp._mechanisms.bounded_sets import ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.discrete_gaussian import discrete_gaussian
from skriemdp._mechanisms.noise import NOISE_SCALE
from skriemdp._random import NoiseStreams
from skriemdp.datasets import make_cloud
from skriemdp.geometry import SPD, Euclidean, Hyperboloid, Sphere
from skriemdp.privacy import ZCDPEvent, gaussian_mu
from skriemdp.privacy._lattice import lattice_step


def accounting():
    """The same release by its GDP bound and by zero-concentrated privacy."""
    print(
        "| (epsilon, delta) | mu | epsilon by zCDP | noise by zCDP / noise | step(s) s - 1 "
        "| sigma / float's - 1, d = 55 |\n|---|---|---|---|---|---|"
    )
    for epsilon, delta in ((0.1, 1e-3), (0.1, 1e-6), (1.0, 1e-5), (1.0, 1e-8), (8.0, 1e-5)):
        mu = gaussian_mu(epsilon, delta)
        bounded_set = ball(Ball(1.0), 55)
        sigma = bounded_set.sigma(bounded_set.check(mu))
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
        ("tangent, iterated in floats", {"mechanism": "tangent", "noise": "gaussian"}),
        ("gradient, exact integers", {"mechanism": "gradient"}),
        ("auto", {"noise": "gaussian"}),
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
                    geometry,
                    center=geometry.base_point,
                    radius=1.0,
                    accountant=PrivacyAccountant(),
                    **parameters,
                )
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


def times(repeats):
    """Of draws."""
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
    times(3 if quick else 7)


if __name__ == "__main__":
    main()
