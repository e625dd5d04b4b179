"""Regressors of few records, beside the models that a constant stands for.

    python benchmarks/regressors.py [--part few] [--fits 40] [--first 70000]

`few`: targets that lie some spreads from zero, with and without slopes, and points on a sphere and
of a cone of matrices.  Share of the fits whose mean squared error on new records is above 1.5 times
that of the best constant, and the median of the ratio: of the model, and of the constant that
stands in its place.  It exits with an error where the constant fails more often.  Seeds that chose
no constant.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from scipy.optimize import brentq

from skriemdp import PrivateGeodesicRegressor, PrivateNoisyAdaGrad, frechet_mean
from skriemdp.geometry import SPD, Sphere
from skriemdp.linear_model import fit_plan
from skriemdp.privacy.calibration import gaussian_mu
from skriemdp.regression import geodesic_releases

DELTA = 1e-5
N = 200

Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def epsilon_of(mu: float) -> float:
    """The epsilon of a fit with this mu."""
    return float(brentq(lambda epsilon: gaussian_mu(epsilon, DELTA) - mu, 1e-4, 50.0))


def numbers(offset: float, slope: float) -> Draw:
    """Targets of spread about one so far from zero."""

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, 3))
        return X, offset + slope * X[:, 0] + (0.5 if slope else 1.0) * rng.normal(size=n)

    return draw


def points(geometry: Any, slope: float) -> Draw:
    """Points about one that is 1 from the base point."""
    center = geometry.exp_coordinates(geometry.base_point, np.eye(geometry.dim)[0])

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, 2))
        moves = 0.15 * rng.normal(size=(n, geometry.dim))
        moves[:, 0] += slope * X[:, 0]
        return X, np.asarray(geometry.exp_coordinates(center, moves))

    return draw


def _error(model: Any, truth: tuple[np.ndarray, np.ndarray], geometry: Any) -> float:
    """Mean squared error over that of the best constant."""
    X, y = truth
    if geometry is None:
        return float(np.mean((model.predict(X) - y) ** 2) / y.var())
    best = geometry.dist(frechet_mean(y, geometry), y)
    return float(np.mean(geometry.dist(model.predict(X), y) ** 2) / np.mean(best**2))


def few(fits: int, first: int) -> bool:
    """The constant of few records beside the model; whether it fails no more often."""
    adagrad = lambda **known: PrivateNoisyAdaGrad("huber", **known)  # noqa: E731
    cases: list[tuple[str, Any, Draw, Any, tuple[float, ...]]] = []
    for offset in (0.0, 20.0, 1000.0):
        for slope in (0.0, 1.0):
            name = f"{offset:g} off, {'slopes' if slope else 'noise'}"
            cases.append((name, adagrad, numbers(offset, slope), None, (14, 22, 30, 35)))
    for geometry in (Sphere(2), SPD(2)):
        kind = lambda space=geometry, **known: PrivateGeodesicRegressor(space, **known)  # noqa: E731
        cases.append((str(geometry), kind, points(geometry, 0.3), geometry, (14, 22)))
    good = True
    for name, kind, draw, geometry, signals in cases:
        row = []
        for signal in signals:
            ratios: dict[bool, list[float]] = {True: [], False: []}
            for seed in range(first, first + fits):
                rng = np.random.default_rng(seed)
                data, truth = draw(rng, N), draw(rng, 1000)
                for constant, found in ratios.items():
                    gates = (
                        mock.patch.object(fit_plan, "LEAST_FOR_MODEL", 36.0 * constant),
                        mock.patch.object(geodesic_releases, "LEAST_FOR_MODEL", 36.0 * constant),
                        mock.patch.object(geodesic_releases, "_LEAST_CURVED", 24.0 * constant),
                    )
                    with gates[0], gates[1], gates[2]:
                        model = kind(epsilon=epsilon_of(signal / N), delta=DELTA, random_state=seed)
                        found.append(_error(model.fit(*data), truth, geometry))
            shares = {kind: float(np.mean(np.array(found) > 1.5)) for kind, found in ratios.items()}
            middles = {kind: float(np.median(found)) for kind, found in ratios.items()}
            row.append(
                f"{signal}: {shares[False]:.2f} -> {shares[True]:.2f} "
                f"({middles[False]:.3g} -> {middles[True]:.3g})"
            )
            # Two standard errors of the difference of two shares.
            good &= shares[True] <= shares[False] + 1.0 / np.sqrt(fits)
        print(f"{name:28}" + "   ".join(row), flush=True)
    return good


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("few",), default="few")
    parser.add_argument("--fits", type=int, default=40)
    parser.add_argument("--first", type=int, default=70_000)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    fits = 2 if arguments.quick else arguments.fits
    if not few(fits, arguments.first) and not arguments.quick:
        sys.exit("a constant fails more often than the model that it stands for")


if __name__ == "__main__":
    main()
