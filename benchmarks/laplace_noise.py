"""Laplace against Gaussian noise at equal (epsilon, delta): mean squares, behind releases, time.

Run:  OMP_NUM_THREADS=1 python benchmarks/laplace_noise.py [--composition | --stages]
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from skriemdp.privacy import LaplaceEvent, gaussian_mu, laplace_law
from skriemdp.privacy._loss_distributions import repeat

DIMS = (1, 2, 3, 6, 10, 15, 21, 55)
TARGETS = ((0.1, 1e-3), (1.0, 1e-5), (1.0, 1e-3))
SHARES = (0.0, 0.01, 0.03, 0.1, 0.3)


def ratio(dim, epsilon, delta, share=0.0):
    """E|v|^2 of Laplace noise behind a share of mu^2, over Gaussian noise with all of mu^2."""
    total = gaussian_mu(epsilon, delta) if delta else math.nan
    mu = total * math.sqrt(share) if share else 0.0
    law = laplace_law(dim, epsilon, delta, mu)
    return law.mean_square_over_sensitivity / (dim / total**2 if delta else 1.0)


def mean_squares():
    print("E|v|^2 relative to Gaussian noise at the same (epsilon, delta)")
    print("| (epsilon, delta) | " + " | ".join(f"d={d}" for d in DIMS) + " |")
    print("|---|" + "---|" * len(DIMS))
    for epsilon, delta in TARGETS:
        cells = " | ".join(f"{ratio(dim, epsilon, delta):.3f}" for dim in DIMS)
        print(f"| ({epsilon:g}, {delta:g}) | {cells} |")
    for epsilon, delta in TARGETS[:2]:
        base = gaussian_mu(epsilon, delta) ** 2
        cells = " | ".join(f"{ratio(dim, epsilon, 0.0) * base / dim:.3g}" for dim in DIMS)
        print(f"| pure ({epsilon:g}, 0), against Gaussian ({epsilon:g}, {delta:g}) | {cells} |")


def stages():
    print("E|v|^2 behind Gaussian releases of a share s of mu^2, over one Gaussian release")
    print("| (epsilon, delta), d | " + " | ".join(f"s = {s:g}" for s in SHARES) + " |")
    print("|---|" + "---|" * len(SHARES))
    for epsilon, delta in ((1.0, 1e-5), (0.3, 1e-5), (0.1, 1e-3), (1.0, 1e-3)):
        for dim in (1, 2, 3, 6, 15, 55):
            cells = " | ".join(f"{ratio(dim, epsilon, delta, share):.3g}" for share in SHARES)
            print(f"| ({epsilon:g}, {delta:g}), {dim} | {cells} |")


def monte_carlo(draws=2_000_000):
    """The positive part of 1 - e^(epsilon - loss) over draws of the law."""
    print("\nprofile against Monte Carlo (z = deviation in standard errors)")
    rng = np.random.default_rng(0)
    for dim in (2, 3, 10):
        law = laplace_law(dim, 1.0, 1e-3)
        radius = rng.standard_gamma(dim, size=draws)
        along = rng.standard_normal((draws, dim))
        along = along[:, 0] / np.linalg.norm(along, axis=1)
        a = law.shift
        loss = np.sqrt(radius**2 - 2.0 * radius * along * a + a * a) - radius
        for epsilon in (0.0, 0.5, 0.8):
            excess = np.maximum(-np.expm1(epsilon - loss), 0.0)
            z = (excess.mean() - law.delta(epsilon)) / excess.std() * math.sqrt(draws)
            print(f"  d={dim:<3} epsilon={epsilon}: delta={law.delta(epsilon):.6g} z={z:+.2f}")


def timing():
    print("\nprocessor milliseconds per calibration: alone, and behind Gaussian releases")
    for dim in (2, 10, 55, 1000):
        found = []
        for share in (0.0, 0.1):
            start = time.process_time()
            for k in range(20):
                ratio(dim, 0.5 + 0.01 * k, 1e-5, share)
            found.append((time.process_time() - start) / 20 * 1e3)
        print(f"  d={dim}: {found[0]:.1f}, {found[1]:.1f}")


def composed_scale(dim, count, epsilon, delta):
    """Smallest scale at which `count` releases together are (epsilon, delta)-DP."""
    low = laplace_law(dim, epsilon, delta).scale_over_sensitivity
    high = count * low
    while high / low > 1.002:
        middle = math.sqrt(low * high)
        loss = LaplaceEvent(dim, middle).privacy_loss_distribution(1e-3)
        loss = repeat(loss, count, 1e-3)
        if loss.get_delta_for_epsilon(epsilon) > delta:
            low = middle
        else:
            high = middle
    return high


def composition():
    print("E|v|^2 of each of T equal releases relative to Gaussian noise, same total, d = 3")
    for epsilon, delta in TARGETS[:2]:
        for count in (1, 2, 3, 5, 10):
            law = LaplaceEvent(3, composed_scale(3, count, epsilon, delta))
            base = count * 3 / gaussian_mu(epsilon, delta) ** 2
            found = law.mean_square_over_sensitivity / base
            print(f"  ({epsilon:g}, {delta:g}) T={count:<2} {found:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--composition", action="store_true")
    parser.add_argument("--stages", action="store_true")
    arguments = parser.parse_args()
    if arguments.stages:
        stages()
        raise SystemExit
    mean_squares()
    monte_carlo()
    timing()
    if arguments.composition:
        composition()
