"""mu of Riemannian Gaussian noise: exact against Monte Carlo (Algorithm 2 of Jiang et al. 2023).

Run:  python benchmarks/riemannian_mu.py [--runs 10]

Prints three Markdown tables: bias and time of Algorithm 2 beside the exact value (Delta = 1); times
of everything else the library computes about such noise; the hyperbolic floor of mu.  Times are
processor time of one process, the best of several; nothing is cached.  Algorithm 2 comes from
examples/reproductions/jiang2023_mu.py: exact draws and sorted counts, kinder than the published
code.
"""

import argparse
import functools
import gc
import sys
import time
from pathlib import Path

import numpy as np

from skriemdp.geometry import Hyperboloid, Sphere
from skriemdp.riemannian_laws import _profile_hockey as profile_hockey
from skriemdp.riemannian_laws import _profile_mu as profile_mu
from skriemdp.riemannian_laws import _profile_release as profile_release
from skriemdp.riemannian_laws import _profiles as profiles
from skriemdp.riemannian_laws._profile_integrand import RadialPair

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "reproductions"))
from jiang2023_mu import algorithm_2  # noqa: E402


def clear_caches():
    for module in (profile_hockey, profile_mu, profile_release, profiles):
        for function in vars(module).values():
            if isinstance(function, functools._lru_cache_wrapper):
                function.cache_clear()


def timed(function, repeats=5):
    """Result and best processor time in milliseconds, from empty caches."""
    best = np.inf
    for _ in range(repeats):
        clear_caches()
        gc.disable()
        start = time.process_time()
        result = function()
        best = min(best, time.process_time() - start)
        gc.enable()
    return result, 1e3 * best


def against_algorithm_2(runs):
    print("| space | sigma | exact mu | ms | Algorithm 2: mean (bias) | min ... max | ms | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for geometry, name, kind in (
        (Sphere(1), "S^1", 1), (Sphere(2), "S^2", 1), (Sphere(5), "S^5", 1),
        (Hyperboloid(2), "H^2", -1), (Hyperboloid(5), "H^5", -1),
    ):  # fmt: skip
        for sigma in (0.25, 0.5, 1.0, 2.0, 4.0):
            pair = RadialPair("gaussian", kind, geometry.dim, 1.0, sigma)
            mu, ours = timed(lambda pair=pair: profile_mu.mu_estimate(pair))
            rng = np.random.default_rng(1)
            found, theirs = [], np.inf
            for _ in range(runs):
                start = time.process_time()
                found.append(algorithm_2(geometry, 1.0, sigma, rng))
                theirs = min(theirs, 1e3 * (time.process_time() - start))
            mean = np.mean(found)
            print(
                f"| {name} | {sigma} | {mu:.8f} | {ours:.2f} | {mean:.3f} ({mean / mu - 1:+.1%}) "
                f"| {min(found):.4f} ... {max(found):.4f} | {theirs:.0f} | {theirs / ours:.0f} |"
            )


def other_times():
    event = profiles.RiemannianEvent
    print("\n| | " + " | ".join(name for name, *_ in SETTINGS) + " |")
    print("|---" * (len(SETTINGS) + 1) + "|")
    tasks = {
        "mu (computed)": lambda e: e.mu_estimate,
        "certified mu": lambda e: e.gdp_bound,
        "delta at one epsilon": lambda e: e.profile.delta(1.0),
        "epsilon at delta = 1e-8": lambda e: e.profile.epsilon(1e-8),
        "1000 deltas": lambda e: profile_hockey.log_delta(
            e.profile.pair, np.linspace(0.0, e.profile.epsilon(1e-12), 1000)
        ),
        "loss distribution": lambda e: e.privacy_loss_distribution(1e-4),
        "Renyi, order 8": lambda e: e.renyi(8.0),
        "sigma for (1, 1e-5)": lambda e: profiles.calibrated_riemannian_event(
            e.law, e.space, e.dim, e.curvature, e.sensitivity, epsilon=1.0, delta=1e-5
        ),
        "sigma for mu = 1": lambda e: profiles.calibrated_riemannian_event(
            e.law, e.space, e.dim, e.curvature, e.sensitivity, mu=1.0
        ),
    }
    for label, task in tasks.items():
        cells = []
        for _, *arguments in SETTINGS:
            value = event(*arguments)
            cells.append(f"{timed(lambda v=value, t=task: t(v), 3)[1]:.1f}")
        print(f"| {label}, ms | " + " | ".join(cells) + " |")


SETTINGS = [
    ("S^2, sigma .5", "gaussian", "sphere", 2, 1.0, 0.2, 0.5),
    ("S^20, sigma .5", "gaussian", "sphere", 20, 1.0, 0.2, 0.5),
    ("H^2, sigma .5", "gaussian", "hyperbolic", 2, -1.0, 0.2, 0.5),
    ("H^20, sigma .5", "gaussian", "hyperbolic", 20, -1.0, 0.05, 0.5),
    ("S^2, Laplace .3", "laplace", "sphere", 2, 1.0, 0.2, 0.3),
]


def floors():
    distances = (0.01, 0.1, 0.5, 1.0, 2.0)
    print("\n| dim | " + " | ".join(f"{a}" for a in distances) + " |\n|---|---|---|---|---|---|")
    for dim in (2, 3, 5, 10, 50):
        row = " | ".join(f"{profile_mu.mu_floor(dim, a):.5f}" for a in distances)
        print(f"| {dim} | {row} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    against_algorithm_2(options.runs)
    other_times()
    floors()


if __name__ == "__main__":
    main()
