"""The figure of the landing page, docs/landing.svg: how far private means are from the exact one.

    python tools/landing_figure.py

The data and the public ball are those of the first script; 20 seeded fits for each epsilon.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot

from skriemdp import PrivateFrechetMean, frechet_mean
from skriemdp.datasets import digits_covariances
from skriemdp.geometry import SPD

TARGET = Path(__file__).parents[1] / "docs" / "landing.svg"
EPSILONS = (0.1, 0.3, 1.0, 3.0)
REPEATS = 20


def main() -> None:
    """Fit, draw and write."""
    X, _ = digits_covariances()
    center = np.diag([0.11, 0.11, 0.08, 0.02, 0.02])
    geometry, target = SPD(5), frechet_mean(X, "spd")
    found = []
    for epsilon in EPSILONS:
        for seed in range(REPEATS):
            mean = PrivateFrechetMean(
                "spd", center=center, radius=2.0, epsilon=epsilon, random_state=seed
            ).fit(X)
            found.append((epsilon, float(geometry.dist(target, mean.mean_))))
    for epsilon in EPSILONS:
        print(epsilon, round(float(np.median([d for e, d in found if e == epsilon])), 4))

    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "landing"})
    figure, axes = pyplot.subplots(figsize=(6.4, 3.0), layout="constrained")
    axes.loglog(*zip(*found, strict=True), "o", color="#0b5cad", alpha=0.5, markersize=5)
    apart = float(geometry.dist(target, center))
    axes.axhline(apart, color="#a11212", linestyle="--")
    axes.annotate("the public centre, without data", (EPSILONS[0], apart), (0, 4),
                  textcoords="offset points", color="#a11212")  # fmt: skip
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    axes.set_xlabel("epsilon of the fit (delta = 1e-5)")
    axes.set_ylabel("distance to the exact mean")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(TARGET, metadata={"Date": None, "Creator": None})
    print(f"wrote {TARGET}, {TARGET.stat().st_size} bytes; public centre at {apart:.4f}")


if __name__ == "__main__":
    main()
