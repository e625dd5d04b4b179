"""People who own several rows, in two public data sets: exercises with a watch, wages by the year.

    OMP_NUM_THREADS=1 python benchmarks/people_data.py --data FOLDER [--quick] [--part watch|wages]

"watch": seven exercises of the shoulder, by 10 people, recorded by a watch with three accelerations
and three rates of turn (``watch_dataset.npy`` of the package seglearn).  Covariances of windows of
200 samples are decoded by class means, each person by a decoder of the nine others; accuracy, mean
(standard deviation) over 5 fits of each (1 with ``--quick``).

"wages": 545 men in 8 years each (``wage_panel.csv.bz2`` of the package linearmodels); seven columns
brought to public ranges.  Mean square distance of the private mean to the mean of the table, and
relative excess risk of two components, at epsilon = 1, delta = 1e-5 for a whole person; each way
with the public bound that is best for it among the same nine.  The noise of the mean enters as its
variance; the risk is a mean over 40 draws of noise (10 with ``--quick``).  "rows" have mu over 8,
the number of a person's rows.

Files are looked for below ``--data`` or ``SKRIEMDP_DATA``, and in the two packages where they are
installed; a part whose file is not there is skipped.  For example:

    pip install --no-deps --target FOLDER seglearn linearmodels
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import io
import os
import warnings
from bz2 import BZ2File
from pathlib import Path

import numpy as np
from people import DELTA, averaged, noise_of, recentred, shortened, weaker

from skriemdp import PrivateMinimumDistanceToMean, PrivatePrincipalEigenvector

WINDOW, EPSILONS = 200, (3.0, 10.0, 30.0)
# Public ranges of the wage panel's columns: what anybody would write down before seeing it.
RANGES = {
    "exper": (0.0, 20.0),
    "hours": (0.0, 4000.0),
    "educ": (4.0, 20.0),
    "lwage": (0.0, 3.5),
    "married": (0.0, 1.0),
    "union": (0.0, 1.0),
    "occupation": (1.0, 9.0),
}
BOUNDS = np.geomspace(0.3, 3.0, 9)


def found(name, package, folder):
    """Path of a data file, or None."""
    places = [Path(folder)] if folder else []
    if (spec := importlib.util.find_spec(package)) is not None:
        places.append(Path(spec.origin).parent)
    return next((path for place in places for path in sorted(place.rglob(name))), None)


# -- a watch --------------------------------------------------------------------------------------


def windows(path):
    """Covariances of windows, exercises and people."""
    # The array is an object: it is read as trustingly as the package itself would be imported.
    data = np.load(path, allow_pickle=True).item()
    X, y, people = [], [], []
    for series, label, person in zip(data["X"], data["y"], data["subject"], strict=True):
        for begin in range(0, len(series) - WINDOW + 1, WINDOW):
            X.append(np.cov(series[begin : begin + WINDOW], rowvar=False))
            y.append(label)
            people.append(person)
    X = np.stack(X)
    return X + 1e-6 * np.eye(X.shape[1]), np.array(y), np.array(people)


def class_means(radius, epsilon):
    known = {"radius": radius, "classes": range(7), "epsilon": epsilon, "delta": DELTA}
    return PrivateMinimumDistanceToMean("spd", **known)


def watch(path, quick):
    X, y, people = windows(path)
    moved, fits = recentred(X, people), 1 if quick else 5
    most = int(np.unique(people, return_counts=True)[1].max())
    names = np.unique(people)
    ways = {
        "a window, as recorded": (X, 4.0, False, 1),
        f"a person: windows at mu / {most}": (X, 4.0, False, most),
        "a person, as recorded": (X, 4.0, True, 1),
        "a person, recentred, radius 1": (moved, 1.0, True, 1),
        "a person, recentred, radius 0.3": (moved, 0.3, True, 1),
    }
    print(f"{len(X)} windows of {WINDOW} samples, {len(names)} people, 7 exercises, {fits} fits\n")
    titles = [f"epsilon = {e:g}" for e in EPSILONS] + ["not private"]
    print("| protects | " + " | ".join(titles) + " |\n" + "|---" * (1 + len(titles)) + "|")
    for name, (rows, radius, grouped, times) in ways.items():
        cells = []
        for epsilon in (*EPSILONS, None):
            if epsilon is None:  # nothing is shortened, and the noise is nothing
                model, repeats = class_means(30.0, 1e7), 1
            else:
                share = epsilon if times == 1 else weaker(times, epsilon)
                model, repeats = class_means(radius, share), fits
            scores = []
            for _ in range(repeats):
                hits = np.zeros(len(X), dtype=bool)
                for person in names:
                    new = people == person
                    ids = {"groups": people[~new]} if grouped else {}
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # about clipped rows, and noise
                        model.fit(rows[~new], y[~new], **ids)
                    hits[new] = model.predict(rows[new]) == y[new]
                scores.append(hits.mean())
            sd = f" ({np.std(scores):.3f})" if len(scores) > 1 else ""
            cells.append(f"{np.mean(scores):.3f}{sd}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


# -- wages ----------------------------------------------------------------------------------------


def panel(path):
    """Rows in public ranges, between -1 and 1, and people."""
    with BZ2File(path) as file:
        rows = list(csv.DictReader(io.TextIOWrapper(file, "utf-8")))
    columns = [
        2.0 * (np.array([float(row[name]) for row in rows]) - low) / (high - low) - 1.0
        for name, (low, high) in RANGES.items()
    ]
    return np.stack(columns, axis=1), np.array([int(row["nr"]) for row in rows])


def wages(path, quick):
    X, people = panel(path)
    draws, k = (10 if quick else 40), 2
    names, owners = np.unique(people, return_inverse=True)
    share = weaker(len(X) // len(names))
    truth, moment = X.mean(axis=0), X.T @ X / len(X)
    best = np.linalg.eigvalsh(moment)[-k:].sum()
    order = np.argsort(owners, kind="stable")
    rows = X[order], averaged(X[order], owners[order])
    errors = np.zeros((2, 2, len(BOUNDS)))
    known = {"center": "assume", "delta": DELTA}
    for place, bound in enumerate(BOUNDS):
        for way, (epsilon, ids, own) in enumerate(((1.0, people, rows[1]), (share, None, rows[0]))):
            clipped = shortened(own, bound).mean(axis=0)
            noise = noise_of(bound, epsilon, ids is not None, *own.shape)
            errors[0, way, place] = np.sum((clipped - truth) ** 2) + noise
            pca = PrivatePrincipalEigenvector(k, bound, "covariance", epsilon=epsilon, **known)
            for _ in range(draws):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # about clipped rows, and noise
                    W = pca.fit(X, groups=ids).components_
                errors[1, way, place] += (1.0 - np.trace(W @ moment @ W.T) / best) / draws
    print(f"{len(names)} people x 8 years, {X.shape[1]} columns, epsilon = 1, ", end="")
    print(f"best of {len(BOUNDS)} bounds, {draws} draws\n")
    print("| | `groups=` | rows, at mu / 8 | ratio |\n|---|---|---|---|")
    for name, (ours, other) in zip(("mean", "two components"), errors.min(axis=2), strict=True):
        print(f"| {name} | {ours:.5f} | {other:.5f} | {other / ours:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", default=os.environ.get("SKRIEMDP_DATA"))
    parser.add_argument("--part", choices=("watch", "wages"))
    arguments = parser.parse_args()
    parts = {
        "watch": (watch, "watch_dataset.npy", "seglearn"),
        "wages": (wages, "wage_panel.csv.bz2", "linearmodels"),
    }
    for part, (run, name, package) in parts.items():
        if arguments.part not in (None, part):
            continue
        path = found(name, package, arguments.data)
        if path is None:
            print(f"{part}: skipped, no {name} (install {package} or pass --data FOLDER).\n")
            continue
        run(path, arguments.quick)
        print()


if __name__ == "__main__":
    main()
