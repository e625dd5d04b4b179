"""Raw tables with constructor defaults: linear classifiers and hyperbolic regression.

    python benchmarks/raw_tables.py [--seeds 40] [--data FOLDER] [--only NAME]
    python benchmarks/raw_tables.py --columns [--seeds 12] [--only NAME]
    python benchmarks/raw_tables.py --means [--seeds 12] [--only NAME]

Every number is a mean over splits (30 % held out, 10 % of the mammals) and fresh noise; delta =
1e-5. Beside the linear model: private class means, constructor defaults too; the most frequent
class; noisy class means of somebody who knows the centre and the 95 % norm of the rows, and of
somebody who knows the scale of every column as well; a model without privacy on standardised
features. The mammals need a folder with `hyperbolic_M1.npz`; without it they are skipped; beside
them stands the noisy mean of all targets, in a ball that is known.

With `--columns`: linear classifiers on tables whose columns are alike, unlike, skewed, far from
zero or rarely anything but 0, drawn from seeds that chose no constant.  Beside the default: the
same model with one norm for all columns; the public start, which is one label; private class means;
a model without privacy on standardised features.  It exits with an error where the default misses
what it must reach.  Then linear regressors on the same kinds of columns: the variance of targets
that they leave unexplained.

With `--means`: means of tables, errors in the standard deviation of each column, root mean square
over the columns, and in the norm of all; medians and worst over seeds that chose no constant.
Beside them: one release by somebody who knows mean and standard deviation of every column.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
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
from skriemdp._location_scale.columns import ColumnSearch
from skriemdp.geometry import Hyperboloid
from skriemdp.privacy import gaussian_mu

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


# -- columns in unlike units ----------------------------------------------------------------------

SIZE, MANY, NEW = 3000, 15_000, 1000
UNLIKE_SEED = 72_000


def _simulated(make: Callable, d: int, size: int = SIZE) -> Callable[[int], tuple]:
    def load(seed: int) -> tuple:
        rng = np.random.default_rng([UNLIKE_SEED, seed])
        Z, X = make(rng, (size + NEW, d))
        weights = rng.normal(size=d)
        scores = 2.3 * Z @ (weights / np.linalg.norm(weights))
        y = (rng.random(len(Z)) < 1.0 / (1.0 + np.exp(-scores))).astype(int)
        return X[:size], y[:size], X[size:], y[size:]

    return load


def _opened(loader: Callable) -> Callable[[int], tuple]:
    def load(seed: int) -> tuple:
        X, y = loader(return_X_y=True)
        fit, held = split(len(X), UNLIKE_SEED + seed, 0.25)
        return X[fit], y[fit], X[held], y[held]

    return load


def _scaled(scales: Callable, shift: Callable = lambda rng, d: 0.0) -> Callable:
    def make(rng: np.random.Generator, shape: tuple) -> tuple:
        Z = rng.normal(size=shape)
        return Z, Z * scales(rng, shape[1]) + shift(rng, shape[1])

    return make


def _cauchy(rng: np.random.Generator, shape: tuple) -> tuple:
    X = rng.standard_cauchy(shape)
    return 1.5 * np.tanh(X), X


def _lognormal(rng: np.random.Generator, shape: tuple) -> tuple:
    Z = rng.normal(size=shape)
    return Z, np.exp(1.5 * Z) * 10.0 ** rng.normal(size=shape[1])


def _dates(rng: np.random.Generator, shape: tuple) -> tuple:
    """Years, amounts, ages and yes or no."""
    n, d = shape
    Z = rng.standard_t(4, size=shape) / np.sqrt(2.0)
    X = Z * np.resize([12.0, 3e4, 15.0, 1.0], d) + np.resize([1990.0, 5e4, 45.0, 0.0], d)
    X[:, 3::4] = Z[:, 3::4] > 0.3
    return Z, X


def _rare(rng: np.random.Generator, shape: tuple) -> tuple:
    shown = rng.random(shape) < 0.2
    return 2.5 * (shown - 0.2), shown * rng.exponential(size=shape) * 10.0 ** rng.normal(
        size=shape[1]
    )


def _truths(rng: np.random.Generator, shape: tuple) -> tuple:
    X = (rng.random(shape) < 0.08).astype(float)
    return (X - 0.08) / 0.27, X


def _counts(rng: np.random.Generator, shape: tuple) -> tuple:
    Z = rng.normal(size=shape)
    return Z, rng.poisson(np.exp(Z - 1.0) * np.resize([1.0, 3.0, 30.0], shape[1]))


def _one(rng: np.random.Generator, d: int) -> float:
    return 1.0


# A table, how it is loaded, and what must be reached at epsilon 1 and 3: an accuracy, or how far
# below the model with one norm for all columns it may be, as a negative number.
COLUMNS: dict[str, tuple[Callable[[int], tuple], dict[float, float]]] = {
    "alike": (_simulated(_scaled(_one), 20), {1.0: -0.02, 3.0: -0.02}),
    "alike, 1 : 6": (
        _simulated(_scaled(lambda rng, d: np.linspace(1.0, 6.0, d)), 20),
        {1.0: -0.02, 3.0: -0.02},
    ),
    "three scales": (
        _simulated(_scaled(lambda rng, d: np.resize([1.0, 1e2, 1e4], d)), 10),
        {1.0: 0.75, 3.0: 0.77},
    ),
    "Cauchy": (_simulated(_cauchy, 10), {1.0: 0.66, 3.0: 0.67}),
    "offset 1e9": (
        _simulated(_scaled(_one, lambda rng, d: np.resize([1e9, 0.0], d)), 10),
        {1.0: 0.60, 3.0: 0.72},
    ),
    "raw": (
        _simulated(
            _scaled(
                lambda rng, d: 10.0 ** (1.3 * rng.normal(size=d)),
                lambda rng, d: 30.0 * rng.normal(size=d),
            ),
            20,
        ),
        {1.0: 0.69, 3.0: 0.75},
    ),
    "years, amounts, ages": (_simulated(_dates, 12), {1.0: -0.03, 3.0: -0.03}),
    "lognormal": (_simulated(_lognormal, 20), {1.0: -0.03, 3.0: -0.03}),
    "four fifths zero": (_simulated(_rare, 20), {1.0: -0.03, 3.0: -0.03}),
    "counts": (_simulated(_counts, 12), {1.0: -0.03, 3.0: -0.03}),
    "two columns, 1 : 1e4": (
        _simulated(_scaled(lambda rng, d: np.array([1.0, 1e4])), 2),
        {1.0: -0.03, 3.0: -0.03},
    ),
    "one column in a thousandth": (
        _simulated(_scaled(lambda rng, d: np.append(np.ones(d - 1), 1e3)), 10, MANY),
        {1.0: 0.77, 3.0: 0.77},
    ),
    "half of the columns in hundredths": (
        _simulated(_scaled(lambda rng, d: np.resize([1.0, 1e2], d)), 10, MANY),
        {1.0: 0.77, 3.0: 0.77},
    ),
    "any of four decades": (
        _simulated(
            _scaled(
                lambda rng, d: 10.0 ** rng.uniform(-2.0, 2.0, d),
                lambda rng, d: 30.0 * rng.normal(size=d),
            ),
            5,
            MANY,
        ),
        {1.0: 0.77, 3.0: 0.77},
    ),
    "alike, 1 : 6, many rows": (
        _simulated(_scaled(lambda rng, d: np.linspace(1.0, 6.0, d)), 20, MANY),
        {1.0: -0.01, 3.0: -0.01},
    ),
    "rare truths": (_simulated(_truths, 20), {1.0: -0.03, 3.0: -0.03}),
    "breast cancer": (_opened(load_breast_cancer), {1.0: -0.03, 3.0: -0.03}),
    # Few records: its columns are asked at this delta and epsilon 3 only.
    "breast cancer, delta 2.5e-4": (_opened(load_breast_cancer), {1.0: -0.03, 3.0: 0.90}),
    "wine": (_opened(load_wine), {1.0: -0.03, 3.0: -0.03}),
    "digits": (_opened(load_digits), {1.0: -0.03, 3.0: -0.02}),
}


def _columns_of(name: str, epsilon: float, seed: int) -> tuple[float, ...]:
    """Accuracies: default, one norm, public start, class means, not private."""
    X, y, new, labels = COLUMNS[name][0](seed)
    classes, delta = np.unique(y), 2.5e-4 if "delta" in name else DELTA
    settings = {"classes": classes, "epsilon": epsilon, "delta": delta}
    with mock.patch.object(ColumnSearch, "is_seen", return_value=False):
        one = PrivateNoisyAdaGrad(**settings).fit(X, y)
    model = PrivateNoisyAdaGrad(**settings).fit(X, y)
    means = PrivateMinimumDistanceToMean("euclidean", **settings).fit(X, y)
    clean = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y)
    fitted = [fit.score(new, labels) for fit in (model, one, means, clean)]
    return fitted[0], fitted[1], float(np.mean(labels == classes[0])), fitted[2], fitted[3]


def columns(seeds: int, only: str) -> bool:
    """Whether linear classifiers reach what they must on every table."""
    print(
        "| table | epsilon | default (s.e. of its gain) | one norm for all columns | must reach "
        "| public start, no data | class means | not private |"
    )
    print("|---|---|---|---|---|---|---|---|")
    good = True
    for name, (_, asked) in COLUMNS.items():
        if only not in name:
            continue
        for epsilon, least in asked.items():
            found = np.array([_columns_of(name, epsilon, seed) for seed in range(seeds)])
            mean, gain = found.mean(axis=0), found[:, 0] - found[:, 1]
            needed = least if least > 0.0 else mean[1] + least
            reached = bool(mean[0] >= needed)
            good = good and reached
            print(
                f"| {name} | {epsilon:g} | {mean[0]:.3f} ({gain.std() / np.sqrt(seeds):.3f}) "
                f"| {mean[1]:.3f} | {needed:.3f}{'' if reached else ' **missed**'} "
                f"| {mean[2]:.3f} | {mean[3]:.3f} | {mean[4]:.3f} |",
                flush=True,
            )
    return good


# Columns of a regressor, and the most that it may leave unexplained of what can be explained.
TARGETS: dict[str, tuple[Callable, int, int, float]] = {
    "alike": (_scaled(_one), 10, SIZE, 0.16),
    "one column in a thousandth": (
        _scaled(lambda rng, d: np.append(np.ones(d - 1), 1e3)),
        10,
        MANY,
        0.03,
    ),
    "half of the columns in hundredths": (
        _scaled(lambda rng, d: np.resize([1.0, 1e2], d)),
        10,
        MANY,
        0.03,
    ),
    "any of four decades": (
        _scaled(lambda rng, d: 10.0 ** rng.uniform(-2.0, 2.0, d)),
        6,
        SIZE,
        0.2,
    ),
    "lognormal": (_lognormal, 8, MANY, 0.45),
    "counts": (_counts, 8, MANY, 0.1),
    "years, amounts, ages": (_dates, 8, MANY, 0.1),
}


def targets(seeds: int, only: str) -> bool:
    """Whether linear regressors leave no more than they may on every table."""
    print(
        "\n| targets | rows | default (s.e.) | range of targets known | one norm for all columns "
        "| may leave | constant, no data |\n|---|---|---|---|---|---|---|"
    )
    good = True
    for name, (make, d, size, most) in TARGETS.items():
        if only not in name:
            continue
        found = []
        for seed in range(seeds):
            rng = np.random.default_rng([UNLIKE_SEED, seed])
            _, X = make(rng, (size, d))
            Z = StandardScaler().fit_transform(X)
            weights = rng.normal(size=d)
            signal = Z @ (weights / np.linalg.norm(weights))
            y = signal + 0.5 * rng.normal(size=size)
            settings = {"target_range": (-5.0, 5.0)}
            model = PrivateNoisyAdaGrad("squared_error").fit(X, y)
            told = PrivateNoisyAdaGrad("squared_error", **settings).fit(X, y)
            with mock.patch.object(ColumnSearch, "is_seen", return_value=False):
                one = PrivateNoisyAdaGrad("squared_error", **settings).fit(X, y)
            rows = np.column_stack([Z, np.ones(size)])
            best = rows @ np.linalg.lstsq(rows, y, rcond=None)[0]
            explained = np.mean((best - y.mean()) ** 2)
            guesses = (model.predict(X), told.predict(X), one.predict(X), np.zeros(size))
            found.append([np.mean((guess - best) ** 2) / explained for guess in guesses])
        mean, reached = np.mean(found, axis=0), bool(np.mean(found, axis=0)[0] <= most)
        good = good and reached
        print(
            f"| {name} | {size} | {mean[0]:.3f} ({np.std(found, axis=0)[0] / np.sqrt(seeds):.3f}) "
            f"| {mean[1]:.3f} | {mean[2]:.3f} | {most}{'' if reached else ' **missed**'} "
            f"| {mean[3]:.2f} |",
            flush=True,
        )
    return good


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
            model = PrivateHyperbolicRegressor(manifold="hyperboloid", epsilon=epsilon)
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


# -- means of tables ------------------------------------------------------------------------------


def _houses(rng: np.random.Generator, n: int) -> np.ndarray:
    """Prices, rooms, areas, years, places and prices per month, as they come."""
    return np.stack(
        [
            np.exp(rng.normal(12.5, 0.6, n)),
            rng.integers(1, 9, n),
            np.exp(rng.normal(4.6, 0.4, n)),
            rng.integers(1900, 2020, n),
            rng.uniform(47.0, 49.0, n),
            rng.uniform(7.0, 10.0, n),
            rng.random(n) < 0.3,
            np.exp(rng.normal(8.0, 1.0, n)),
        ],
        axis=1,
    ).astype(float)


def _half_zeros(rng: np.random.Generator, n: int) -> np.ndarray:
    X = rng.standard_t(3, (n, 8)) * np.geomspace(1e-2, 1e4, 8)
    X[:, ::2] *= rng.random((n, 4)) < 0.5
    return X


def _drawn(loader: Callable) -> Callable[[np.random.Generator, int], np.ndarray]:
    """Rows of an open data set, drawn with replacement; columns of one value are left out."""
    X = loader().data
    X = X[:, X.std(axis=0) > 0.0]
    return lambda rng, n: X[rng.integers(0, len(X), n)]


def means(seeds: int, only: str) -> None:
    """Errors of means by column."""
    loads = {
        "wine": _drawn(load_wine),
        "breast cancer": _drawn(load_breast_cancer),
        "digits": _drawn(load_digits),
        "diabetes": _drawn(lambda: load_diabetes(scaled=False)),
        "houses": _houses,
        "half zeros": _half_zeros,
        "alike, 3": lambda rng, n: rng.normal(size=(n, 3)),
        "alike, 10": lambda rng, n: rng.normal(size=(n, 10)),
        "one factor": lambda rng, n: rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=(n, 8)),
    }
    mu = gaussian_mu(1.0, 1e-5)
    print("| table | s | per column (worst) | in the norm | who knows the columns |")
    print("|---|---|---|---|---|")
    for name, make in loads.items():
        d = make(np.random.default_rng(0), 2).shape[1]
        for s in (64, 96, 128, 300) if only in name else ():
            n, errors = math.ceil(s * math.sqrt(d) / mu), []
            for seed in range(900, 900 + seeds):
                rng = np.random.default_rng(seed)
                X = make(rng, n)
                spread = np.maximum(X.std(axis=0), 1e-3 * X.std(axis=0).max() * (name == "digits"))
                off = PrivateFrechetMean("euclidean").fit(X).mean_ - X.mean(axis=0)
                longest = np.quantile(np.linalg.norm((X - X.mean(axis=0)) / spread, axis=1), 0.98)
                column = np.sqrt(np.mean((off / spread) ** 2))
                norm = np.linalg.norm(off) / np.linalg.norm(spread)
                errors.append((column, norm, 2.0 * longest / (n * mu)))
            column, norm, known = np.median(errors, axis=0)
            worst = max(errors)[0]
            cells = f"{column:.3g} ({worst:.2g}) | {norm:.3g} | {known:.2g}"
            print(f"| {name} | {s} | {cells} |", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--columns", action="store_true", help="columns in unlike units")
    parser.add_argument("--means", action="store_true", help="means of tables")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.columns:
        asked = arguments.seeds or 12, arguments.only
        sys.exit(not all([columns(*asked), targets(*asked)]))
    if arguments.means:
        means(arguments.seeds or 12, arguments.only)
        return
    arguments.seeds = arguments.seeds or 40
    if arguments.only != "mammals":
        tables(arguments.seeds, arguments.only)
    if arguments.only in ("", "mammals"):
        mammals(arguments.seeds, arguments.data)


if __name__ == "__main__":
    main()
