"""Covariances of recorded signals in their own units: class means with constructor defaults.

    python benchmarks/raw_signals.py [--seeds 20] [--data FOLDER ...]

JapaneseVowels (640 utterances, 12 channels, 7 to 29 samples, nine speakers) and BasicMotions (80
recordings, 6 channels, four motions) come with the package aeon, windows of `fmri_timeseries.csv`
(31 regions) with nitime; a folder that holds one of the packages may be given instead of installing
it, and what is not there is skipped.  Every recording becomes one covariance matrix.  Where some
are singular the message of the library is printed, and each is shrunk by itself,
``shrunk_covariance(X, 0.01)``, which costs no privacy.  A fifth is held out; delta = 1e-5.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from pathlib import Path

import numpy as np
from sklearn.covariance import shrunk_covariance
from sklearn.model_selection import StratifiedShuffleSplit

from skriemdp import PrivateFrechetMean, PrivateMinimumDistanceToMean, frechet_mean
from skriemdp.privacy import gaussian_mu

DELTA = 1e-5
EPSILONS = (0.3, 1.0, 3.0, 10.0)


def package(name: str, folders: list[Path]) -> Path | None:
    """Where a package lies: in one of the folders, or installed."""
    for folder in folders:
        if (folder / name).is_dir():
            return folder / name
    found = importlib.util.find_spec(name)
    return None if found is None or found.origin is None else Path(found.origin).parent


def recordings(path: Path) -> tuple[list[np.ndarray], list[str]]:
    """Signals, channels by samples, and labels of a `.ts` file."""
    signals, labels = [], []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(("#", "@")) or ":" not in line:
            continue
        *channels, label = line.split(":")
        signals.append(np.array([[float(v) for v in c.split(",")] for c in channels]))
        labels.append(label.strip())
    return signals, labels


def class_sets(folders: list[Path]):
    """``(name, covariances, labels)``."""
    root = package("aeon", folders)
    if root is None:
        print("JapaneseVowels and BasicMotions: skipped, no package aeon.\n")
        return
    for name in ("JapaneseVowels", "BasicMotions"):
        signals: list[np.ndarray] = []
        labels: list[str] = []
        for part in ("TRAIN", "TEST"):
            more = recordings(root / "datasets" / "data" / name / f"{name}_{part}.ts")
            signals, labels = signals + more[0], labels + more[1]
        yield name, np.stack([np.cov(s) for s in signals]), np.array(labels)


def usable(name: str, X: np.ndarray) -> np.ndarray:
    """The matrices, shrunk where the library refuses them; prints what it says."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            PrivateFrechetMean("spd").fit(X)
    except ValueError as error:
        print(f"{name}: {error}\n")
        X = shrunk_covariance(X, 0.01)
    return X


def classes(seeds: int, folders: list[Path]) -> None:
    """Accuracy of class means."""
    table = ["| data | n, size, classes | epsilon | n mu | affine-invariant | log-Euclidean "]
    table[0] += "| one label for all | not private |"
    table.append("|---" * 8 + "|")
    for name, X, y in class_sets(folders):
        X, labels = usable(name, X), np.unique(y)
        clean = []
        for epsilon in EPSILONS:
            scores: dict[str, list[float]] = {"spd": [], "spd-log-euclidean": []}
            splits = StratifiedShuffleSplit(seeds, test_size=0.2, random_state=3).split(X, y)
            for seed, (train, test) in enumerate(splits):
                for manifold, values in scores.items():
                    model = PrivateMinimumDistanceToMean(
                        manifold, classes=labels, epsilon=epsilon, delta=DELTA, random_state=seed
                    )
                    values.append(model.fit(X[train], y[train]).score(X[test], y[test]))
                if len(clean) < seeds:
                    center = frechet_mean(X[train], "spd", center=X[train][0])
                    exact = PrivateMinimumDistanceToMean(
                        "spd", center, 100.0, classes=labels, epsilon=1e5, delta=DELTA
                    )
                    clean.append(exact.fit(X[train], y[train]).score(X[test], y[test]))
            cells = [f"{np.mean(v):.2f}" for v in scores.values()]
            size = f"{len(X)}, {X.shape[1]}, {len(labels)}"
            total = 0.8 * len(X) * gaussian_mu(epsilon, DELTA)
            table.append(
                f"| {name} | {size} | {epsilon:g} | {total:.0f} | {' | '.join(cells)} "
                f"| {1.0 / len(labels):.2f} | {np.mean(clean):.2f} |"
            )
    print("\n".join(table))


def windows(folders: list[Path]) -> None:
    """The mean of a few covariances of brain regions: too few records, and no crash."""
    root = package("nitime", folders)
    if root is None:
        print("\nfmri_timeseries: skipped, no package nitime.")
        return
    series = np.genfromtxt(root / "data" / "fmri_timeseries.csv", delimiter=",", skip_header=1)
    for size, length in ((4, 10), (10, 25)):
        parts = len(series) // length
        cut = series[: parts * length, :size].reshape(parts, length, size)
        X = usable("fmri_timeseries", np.stack([np.cov(w.T) for w in cut]))
        for epsilon in (1.0, 10.0):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                model = PrivateFrechetMean("spd", epsilon=epsilon, delta=DELTA, random_state=0)
                mean = model.fit(X).mean_
            finite = "finite" if np.isfinite(mean).all() else "not finite"
            print(f"\nfmri_timeseries, {parts} windows, {size} regions, epsilon {epsilon:g}:")
            print(f"mean {finite}; " + " ".join(str(w.message) for w in said))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classes(options.seeds, options.data)
    windows(options.data)


if __name__ == "__main__":
    main()
