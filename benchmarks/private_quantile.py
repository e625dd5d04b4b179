"""Private quantiles as clipping norms: cost of the released norm over that of the exact quantile.

Run:  OMP_NUM_THREADS=1 python benchmarks/private_quantile.py

Two tasks.  "rows": clip rows for a second moment, lognormal norms, eight decades of grid; cost
``kappa mean((|z|^2 - R^2)_+) + sqrt(d) R^2 / (n mu)``.  "radius": the ball of a private mean, norms
of Gaussian vectors; cost ``(clipping bias)^2 / 4 + d (2 R / (n mu))^2``, wide and narrow grids.
All mechanisms spend the same mu; "public" returns the geometric middle of the grid without data,
"exact" the quantile without noise (1 by definition).
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from scipy.special import logit, ndtr

from skriemdp._mechanisms.quantile import PrivateQuantile, log_grid


def binary_search(excess, mu, rng, runs):
    """ceil(log2 m) counts, equal noise."""
    count = math.ceil(math.log2(len(excess)))
    low, high = np.zeros(runs, dtype=int), np.full(runs, len(excess) - 1)
    for _ in range(count):
        middle = (low + high) // 2
        above = excess[middle] + math.sqrt(count) / mu * rng.standard_normal(runs) >= 0.0
        high, low = (
            np.where(above, middle, high),
            np.where(above, low, np.minimum(middle + 1, high)),
        )
    return high


def exponential(excess, mu, rng, runs):
    """Exponential mechanism on minus the rank error; the largest epsilon that is mu-GDP.

    A mechanism whose loss has range epsilon is dominated by two-point pairs and therefore
    ``2 Phi^-1(1 / (1 + e^(-epsilon/2)))``-GDP: more generous than pure privacy.
    """
    epsilon = 2.0 * logit(ndtr(0.5 * mu))
    scores = -0.5 * epsilon * np.abs(excess)
    return np.argmax(scores + rng.gumbel(size=(runs, len(excess))), axis=1)


def bisection(counts, wanted, n, mu, rng, runs):
    """What the library does."""
    mechanism = PrivateQuantile(tuple(range(1, len(counts) + 1)), wanted / n, mu)
    return mechanism.release_counts(counts, n, rng, runs).astype(int) - 1


def public(excess, mu, rng, runs):
    return np.full(runs, len(excess) // 2)


METHODS = {
    "public": public,
    "binary search": binary_search,
    "exponential mechanism": exponential,
    "bisection (ours)": bisection,
}


def tasks(rng):
    for d, spread, scale in ((14, 1.0, 30.0), (36, 0.4, 0.02), (64, 0.2, 3.0)):
        for n, mu in ((50_000, 0.01), (5000, 0.1), (2000, 0.3), (500, 1.0)):
            norms = scale * np.exp(spread * rng.standard_normal(n))
            level = float(np.clip(1.0 - math.sqrt(d) / (0.03 * n * mu), 0.5, 0.99))

            def cost(R, norms=norms, d=d, n=n, mu=mu):
                clipped = np.maximum(norms**2 - R * R, 0.0).mean()
                return 0.03 * clipped + math.sqrt(d) * R * R / (n * mu)

            yield "rows", norms, log_grid(1e-4, 1e4, 1.1), level, mu * math.sqrt(0.05), cost
    grids = {"narrow": log_grid(2.0 * 1.15**-39, 2.0, 1.15), "wide": log_grid(2e-5, 1e3, 1.15)}
    for name, grid in grids.items():
        for d in (3, 10, 55):
            for share in (0.03, 0.1, 0.3, 0.6):
                for budget in (17, 57, 172, 800):
                    n = 1000
                    mu = budget / n
                    norms = np.linalg.norm(rng.standard_normal((n, d)), axis=1) / math.sqrt(d)
                    norms = np.minimum(share * norms, 1.5)
                    level = float(np.clip(1.0 - 12.0 / budget, 0.6, 0.995))

                    def cost(R, norms=norms, d=d, budget=budget):
                        bias = np.maximum(norms - R, 0.0).mean()
                        return 0.25 * bias**2 + d * (2.0 * R / budget) ** 2

                    yield f"radius {name}, n mu={budget}", norms, grid, level, 0.1**0.5 * mu, cost


def main(runs):
    rng = np.random.default_rng(0)
    table: dict[str, dict[str, list]] = {}
    for title, norms, grid, level, mu, cost in tasks(rng):
        counts = np.searchsorted(np.sort(norms), grid, side="right")
        n = len(norms)
        excess = counts - level * n
        costs = np.array([cost(R) for R in grid])
        exact = costs[min(int(np.argmax(excess >= 0.0)), len(grid) - 1)]
        for name, method in METHODS.items():
            asked = (counts, level * n, n) if method is bisection else (excess,)
            ratio = costs[method(*asked, mu, rng, runs)] / exact
            summary = np.log([np.exp(np.log(ratio).mean()), ratio.mean(), np.quantile(ratio, 0.95)])
            table.setdefault(title, {}).setdefault(name, []).append(summary)
    print("cost over that of the exact quantile: geometric mean / mean / 95 % quantile")
    print("(each averaged geometrically over the settings of the row)")
    print("| task | " + " | ".join(METHODS) + " |")
    print("|---|" + "---|" * len(METHODS))
    for title, row in table.items():
        cells = []
        for name in METHODS:
            a, b, c = np.exp(np.mean(row[name], axis=0))
            cells.append(f"{a:.3g} / {b:.3g} / {c:.3g}")
        print(f"| {title} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    main(parser.parse_args().runs)
