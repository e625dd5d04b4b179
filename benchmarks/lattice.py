"""Lattice arithmetic against floating point: error, time, and what another accounting would cost.

Run:  OMP_NUM_THREADS=1 python benchmarks/lattice.py [--quick]
"""

import argparse
import math
import time
import warnings

import numpy as np

from skriemdp import PrivacyAccountant, PrivateFrechetMean, frechet_mean
from skriemdp.datasets import make_cloud
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
        ("tangent, lattice", {"mechanism": "tangent", "arithmetic": "lattice"}),
        ("gradient, float", {"mechanism": "gradient"}),
        ("gradient, lattice", {"mechanism": "gradient", "arithmetic": "lattice"}),
        ("adaptive, float", {"mechanism": "adaptive"}),
        ("adaptive, lattice", {"mechanism": "adaptive", "arithmetic": "lattice"}),
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
                means = [model.fit(X).mean_ for _ in range(fits)]
            square = np.mean([float(geometry.dist(target, mean)) ** 2 for mean in means])
            cells.append(f"{square / limit:.3g}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def best_of(repeats, *functions):
    """Best processor time of each function, measured in turns so that load hits all alike."""
    best = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - start)
    return best


def times(repeats, sizes):
    """Whole fits, and draws."""
    print("\n| manifold | n | lattice fit / float fit: tangent | gradient |\n|---|---|---|---|")
    for geometry in (Euclidean(3), SPD(2), SPD(10)):
        for n in sizes:
            X = make_cloud(geometry, n, rng=np.random.default_rng(0))
            cells = []
            for mechanism in ("tangent", "gradient"):
                fits = [
                    PrivateFrechetMean(
                        geometry,
                        mechanism=mechanism,
                        noise="gaussian",
                        arithmetic=arithmetic,
                        accountant=PrivacyAccountant(),
                    )
                    for arithmetic in ("float", "lattice")
                ]
                plain, exact = best_of(repeats, *(lambda f=f, X=X: f.fit(X) for f in fits))
                cells.append(f"{exact / plain:.2f}")
            print(f"| {geometry} | {n:g} | " + " | ".join(cells) + " |", flush=True)
    print("\n| draws at once | one float draw, ns | discrete Gaussian / float |\n|---|---|---|")
    rng = np.random.default_rng(0)
    for count in (3, 100, 10**4, 10**6):
        plain, exact = best_of(
            repeats,
            lambda count=count: rng.standard_normal(count),
            lambda count=count: discrete_gaussian(2**40, rng, count),
        )
        print(f"| {count:g} | {1e9 * plain / count:.0f} | {exact / plain:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer fits, smaller n")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    accounting()
    errors(*((10, 1000) if quick else (60, 3000)))
    times(3 if quick else 7, (1000,) if quick else (1000, 10**4))


if __name__ == "__main__":
    main()
