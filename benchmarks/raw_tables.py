"""Raw tables with constructor defaults: linear classifiers and hyperbolic regression.

    python benchmarks/raw_tables.py [--seeds 40] [--data FOLDER] [--only NAME]

Every number is a mean over splits (30 % held out, 10 % of the mammals) and fresh noise; delta =
1e-5. Beside the linear model: private class means, constructor defaults too; the most frequent
class; noisy class means of somebody who knows the centre and the 95 % norm of the rows, and of
somebody who knows the scale of every column as well; a model without privacy on standardised
features. The mammals need a folder with `hyperbolic_M1.npz`; without it they are skipped; beside
them stands the noisy mean of all targets, in a ball that is known.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skriemdp import (
    PrivateFrechetMean,
    PrivateHyperbolicRegressor,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    frechet_mean,
)
from skriemdp.geometry import Hyperboloid
from skriemdp.privacy.calibration import gaussian_mu

DELTA = 1e-5
FIRST_SEED = 40_000


def _logarithms(return_X_y: bool) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=return_X_y)
    return np.log1p(X), y


TABLES: dict[str, tuple[Callable, dict[float, float]]] = {
    "breast cancer": (load_breast_cancer, {0.3: 0.78, 1.0: 0.89, 3.0: 0.91}),
    "breast cancer, logarithms": (_logarithms, {1.0: 0.89, 3.0: 0.90}),
    "wine": (load_wine, {1.0: 0.60, 3.0: 0.67}),
    "digits": (load_digits, {1.0: 0.55, 3.0: 0.79, 10.0: 0.89}),
}
MAMMALS = {0.3: 1.72, 1.0: 1.60, 3.0: 1.50}


def split(n: int, seed: int, held: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to predict."""
    return next(ShuffleSplit(1, test_size=held, random_state=FIRST_SEED + seed).split(np.zeros(n)))


def noisy_means(
    X: np.ndarray, y: np.ndarray, new: np.ndarray, epsilon: float, columns: bool, seed: int
) -> np.ndarray:
    """Labels of `new` by the nearest of noisy class means, in bounds taken from the data."""
    rng = np.random.default_rng(seed)
    scaler = StandardScaler(with_std=columns).fit(X)
    rows, classes = scaler.transform(X), np.unique(y)
    norms = np.linalg.norm(rows, axis=1)
    bound = float(np.quantile(norms, 0.95))
    rows *= np.minimum(1.0, bound / norms)[:, None]
    # One record changes a sum of (row / bound, 1) of one or two classes by at most 2.
    noise = 2.0 / gaussian_mu(epsilon, DELTA)
    sums = np.stack([rows[y == label].sum(axis=0) for label in classes]) / bound
    counts = np.array([np.count_nonzero(y == label) for label in classes], dtype=float)
    sums += noise * rng.standard_normal(sums.shape)
    counts += noise * rng.standard_normal(counts.shape)
    means = bound * sums / np.maximum(counts, 1.0)[:, None]
    far = np.linalg.norm(scaler.transform(new)[:, None] - means, axis=2)
    return classes[far.argmin(axis=1)]


def accuracies(X: np.ndarray, y: np.ndarray, epsilon: float, seeds: int) -> np.ndarray:
    """Columns: linear, class means, most frequent class, noisy class means (2), not private."""
    rows = []
    for seed in range(seeds):
        fit, held = split(len(X), seed)
        model = PrivateNoisyAdaGrad(classes=np.unique(y), epsilon=epsilon).fit(X[fit], y[fit])
        values, counts = np.unique(y[fit], return_counts=True)
        clean = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        most = np.mean(y[held] == values[counts.argmax()])
        best = clean.fit(X[fit], y[fit]).score(X[held], y[held]) if seed < 5 else np.nan
        simple = (
            np.mean(noisy_means(X[fit], y[fit], X[held], epsilon, columns, seed) == y[held])
            for columns in (False, True)
        )
        means = PrivateMinimumDistanceToMean(
            "euclidean", classes=np.unique(y), epsilon=epsilon, delta=DELTA
        )
        means = means.fit(X[fit], y[fit]).score(X[held], y[held])
        rows.append((model.score(X[held], y[held]), means, most, *simple, best))
    return np.array(rows)


def tables(seeds: int, only: str) -> None:
    """Accuracy of linear classifiers."""
    print(
        "| table | epsilon | linear (s.e.) | target | class means | most frequent class "
        "| noisy class means, centre and norm known | and scales of columns | not private |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, (load, asked) in TABLES.items():
        if only not in name:
            continue
        X, y = load(return_X_y=True)
        for epsilon, least in asked.items():
            found = accuracies(X, y, epsilon, seeds)
            error = found[:, 0].std() / np.sqrt(seeds)
            mean = np.nanmean(found, axis=0)
            print(
                f"| {name} | {epsilon:g} | {mean[0]:.3f} ({error:.3f}) | {least:g} | {mean[1]:.3f} "
                f"| {mean[2]:.3f} | {mean[3]:.3f} | {mean[4]:.3f} | {mean[5]:.3f} |",
                flush=True,
            )


def mammals(seeds: int, data: Path) -> None:
    """Mean distance of hyperbolic regression to held-out nodes, features as they are."""
    path = data / "hyperbolic_M1.npz"
    if not path.exists():
        print(f"mammals: skipped, no {path.name} in {data}")
        return
    stored = np.load(path)
    X, y, space = stored["X"], stored["Y"], Hyperboloid(stored["Y"].shape[1] - 1)
    print("\n| mammals, epsilon | mean distance (s.e.) | target | noisy mean, ball known |")
    print("|---|---|---|---|")
    for epsilon, most in MAMMALS.items():
        errors, constant = [], []
        for seed in range(seeds):
            fit, held = split(len(X), seed, 0.1)
            model = PrivateHyperbolicRegressor(coordinates="lorentz", epsilon=epsilon)
            predicted = model.fit(X[fit], y[fit]).predict(X[held])
            errors.append(np.mean(space.dist(predicted, y[held])))
            ball = frechet_mean(y[fit], space, tol=1e-6)
            radius = float(np.quantile(space.dist(ball, y[fit]), 0.95))
            mean = PrivateFrechetMean(space, center=ball, radius=radius, epsilon=epsilon)
            constant.append(np.mean(space.dist(mean.fit(y[fit]).mean_, y[held])))
        error = np.std(errors) / np.sqrt(seeds)
        print(
            f"| {epsilon:g} | {np.mean(errors):.3f} ({error:.3f}) | {most:g} "
            f"| {np.mean(constant):.3f} |",
            flush=True,
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.only != "mammals":
        tables(arguments.seeds, arguments.only)
    if arguments.only in ("", "mammals"):
        mammals(arguments.seeds, arguments.data)


if __name__ == "__main__":
    main()
