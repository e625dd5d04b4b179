"""Radial against Gaussian noise at equal (epsilon, delta): mean squares, accuracy, time.

Run:  OMP_NUM_THREADS=1 python benchmarks/radial_noise.py [--composition | --stages]
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from skriemdp.privacy.calibration import gaussian_delta, gaussian_mu
from skriemdp.privacy.radial import (
    EXPONENTS,
    RadialEvent,
    best_radial_law,
    best_radial_law_after,
    calibrated_radial_law,
)
from skriemdp.privacy.radial_profile import radial_delta

DIMS = (2, 3, 6, 10, 15, 21, 55)
TARGETS = ((0.1, 1e-3), (1.0, 1e-5), (1.0, 1e-3))


def gaussian_mean_square(dim, epsilon, delta):
    return dim / gaussian_mu(epsilon, delta) ** 2


def mean_squares():
    print(
        "E|v|^2 relative to Gaussian noise at the same (epsilon, delta) (best exponent in brackets)"
    )
    print("| (epsilon, delta) | law | " + " | ".join(f"d={d}" for d in DIMS) + " |")
    print("|---|---|" + "---|" * len(DIMS))
    for epsilon, delta in TARGETS:
        best, pure = [], []
        for dim in DIMS:
            base = gaussian_mean_square(dim, epsilon, delta)
            law = best_radial_law(dim, epsilon, delta)
            best.append(f"{law.mean_square_over_sensitivity / base:.3f} ({law.exponent:g})")
            laplace = best_radial_law(dim, epsilon, 0.0)
            pure.append(f"{laplace.mean_square_over_sensitivity / base:.3g}")
        print(f"| ({epsilon:g}, {delta:g}) | best radial | " + " | ".join(best) + " |")
        print(f"| ({epsilon:g}, 0) | pure, exponent 1 | " + " | ".join(pure) + " |")


def stages(shares=(0.02, 0.05, 0.1, 0.2)):
    print(
        "E|v|^2 of the radial law after stages of these shares of mu^2, over one Gaussian release"
    )
    print("| (epsilon, delta), d | s = 0 | " + " | ".join(f"{s:g}" for s in shares) + " |")
    print("|---|---|" + "---|" * len(shares))
    for (epsilon, delta), dims in (((1.0, 1e-5), (2, 3, 6, 15, 55)), ((0.1, 1e-3), (3, 15))):
        total = gaussian_mu(epsilon, delta)
        for dim in dims:
            laws = [best_radial_law(dim, epsilon, delta)]
            for share in shares:
                laws.append(best_radial_law_after(dim, total * share**0.5, epsilon, delta))
            base = gaussian_mean_square(dim, epsilon, delta)
            cells = " | ".join(f"{law.mean_square_over_sensitivity / base:.3g}" for law in laws)
            print(f"| ({epsilon:g}, {delta:g}), {dim} | {cells} |")


def monte_carlo(draws=2_000_000):
    """The positive part of 1 - e^(epsilon - loss) over draws of the law."""
    print("\nprofile against Monte Carlo (z = deviation in standard errors)")
    rng = np.random.default_rng(0)
    for dim, p in ((2, 1.0), (3, 1.2), (10, 1.6)):
        law = calibrated_radial_law(dim, p, 1.0, 1e-3)
        radius = rng.standard_gamma(dim / p, size=draws) ** (1.0 / p)
        along = rng.standard_normal((draws, dim))
        along = along[:, 0] / np.linalg.norm(along, axis=1)
        a = law.shift
        loss = (radius**2 - 2.0 * radius * along * a + a * a) ** (p / 2.0) - radius**p
        for epsilon in (0.0, 0.5, 0.8):
            excess = np.maximum(-np.expm1(epsilon - loss), 0.0)
            z = (excess.mean() - law.delta(epsilon)) / excess.std() * math.sqrt(draws)
            print(
                f"  d={dim:<3} p={p:<4} epsilon={epsilon}: "
                f"delta={law.delta(epsilon):.6g} z={z:+.2f}"
            )


def accuracy():
    worst = 0.0
    for dim in (1, 2, 3, 7, 21, 55, 200, 1000):
        for mu in (0.05, 0.2, 1.0, 5.0):
            epsilons = np.array([0.0, 0.1, 0.5, 1.0, 3.0])
            ours = radial_delta(dim, 2.0, mu / math.sqrt(2.0), epsilons)
            exact = np.array([gaussian_delta(mu, e) for e in epsilons])
            kept = exact > 1e-240
            worst = max(worst, float(np.abs(ours[kept] / exact[kept] - 1.0).max()))
    print(f"\nexponent 2 against the closed form: worst relative difference {worst:.1e}")


def timing():
    print("\nprocessor seconds per calibration of the best of", len(EXPONENTS), "exponents")
    for dim in (2, 10, 55, 1000):
        start = time.process_time()
        for k in range(5):
            best_radial_law(dim, 0.5 + 0.01 * k, 1e-5)
        print(f"  d={dim}: {(time.process_time() - start) / 5:.3f}")


def composed_scale(dim, p, count, epsilon, delta):
    """Smallest scale at which `count` releases together are (epsilon, delta)-DP."""
    low = calibrated_radial_law(dim, p, epsilon, delta).scale_over_sensitivity
    high = count * low
    while high / low > 1.002:
        middle = math.sqrt(low * high)
        loss = RadialEvent(dim, p, middle).privacy_loss_distribution(1e-3).self_compose(count)
        if loss.get_delta_for_epsilon(epsilon) > delta:
            low = middle
        else:
            high = middle
    return high


def composition():
    print("\nE|v|^2 of each of T equal releases relative to Gaussian noise, same total, d=3")
    for epsilon, delta in TARGETS[:2]:
        for count in (1, 2, 3, 5, 10):
            row = []
            for p in (1.0, 1.2, 1.4, 1.6):
                law = RadialEvent(3, p, composed_scale(3, p, count, epsilon, delta))
                base = count * gaussian_mean_square(3, epsilon, delta)
                row.append(f"p={p:g}: {law.mean_square_over_sensitivity / base:.3f}")
            print(f"  ({epsilon:g}, {delta:g}) T={count:<2}  " + "  ".join(row))


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
    accuracy()
    timing()
    if arguments.composition:
        composition()
