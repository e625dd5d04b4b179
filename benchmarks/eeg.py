"""Decoders of real brain signals: accuracy against epsilon, for trials and for people.

    python benchmarks/eeg.py --source FOLDER          # once; later without: ten minutes
    python benchmarks/eeg.py --quick
    python benchmarks/eeg.py --figure docs/eeg.svg

Sixteen people, 924 trials of a second, eight channels (`skriemdp.datasets.fetch_eeg`): who is in
treatment for alcoholism?  "trials": a quarter of the trials is held out, of the same people; a
trial is the unit of privacy.  "people": people made up after the law of the recorded ones, in
tangent coordinates: class means, covariances of people about them (of so few people, drawn half way
to its diagonal) and of trials about people; a person with all trials is the unit, and 200 other
people are asked about.  Without the recordings it says so and does nothing.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score, train_test_split

from skriemdp import PrivateMinimumDistanceToMean, PrivateTangentClassifier, frechet_mean
from skriemdp.datasets import fetch_eeg
from skriemdp.geometry import AffineInvariantSPD

CHANNELS = ("F3", "F4", "C3", "C4", "P3", "P4", "O1", "O2")
EPSILONS = (0.3, 1.0, 3.0, 10.0)
KINDS = {"class means": PrivateMinimumDistanceToMean, "tangent": PrivateTangentClassifier}
SPACE = AffineInvariantSPD(len(CHANNELS))


def covariances(eeg, channels=CHANNELS):
    """One for each trial, shrunk by one hundredth: some have a silent channel."""
    signals = eeg.signals[:, [eeg.channels.index(name) for name in channels]]
    signals = signals - signals.mean(axis=2, keepdims=True)
    found = np.einsum("nis,njs->nij", signals, signals) / signals.shape[2]
    sizes = np.trace(found, axis1=1, axis2=2) / len(channels)
    return 0.99 * found + 0.01 * sizes[:, None, None] * np.eye(len(channels))


def private(kind, epsilon, seed):
    return KINDS[kind]("spd", classes=[0, 1], epsilon=epsilon, random_state=seed)


def coordinates(X):
    return SPACE.log_coordinates(frechet_mean(X, SPACE, center=100.0 * np.eye(len(CHANNELS))), X)


def of_trials(X, y, runs):
    """{way: {epsilon: accuracies}}; None for the epsilon of what is not private."""
    found = {name: {e: [] for e in EPSILONS} for name in KINDS} | {"no privacy": {None: []}}
    for seed in range(runs):
        rows = train_test_split(np.arange(len(X)), test_size=0.25, random_state=seed)
        (old, new), seen = rows, coordinates(X[rows[0]])
        mean = frechet_mean(X[old], SPACE, center=100.0 * np.eye(len(CHANNELS)))
        exact = LogisticRegression(max_iter=5000).fit(seen, y[old])
        score = exact.score(SPACE.log_coordinates(mean, X[new]), y[new])
        found["no privacy"][None].append(score)
        for name in KINDS:
            for epsilon in EPSILONS:
                model = private(name, epsilon, seed).fit(X[old], y[old])
                found[name][epsilon].append(model.score(X[new], y[new]))
    return found


def law_of_people(X, y, person):
    """Class means, and roots of the covariances of people and of trials, in coordinates."""
    seen = coordinates(X)
    ids = np.unique(person)
    own = np.stack([seen[person == one].mean(axis=0) for one in ids])
    label = np.array([y[person == one][0] for one in ids])
    means = np.stack([own[label == k].mean(axis=0) for k in (0, 1)])
    trials = seen - own[np.searchsorted(ids, person)]
    within = trials.T @ trials / (len(seen) - len(ids))
    between = (own - means[label]).T @ (own - means[label]) / (len(ids) - 2)
    between -= within * len(ids) / len(seen)  # of the means of so many trials
    between = 0.5 * between + 0.5 * np.diag(np.diag(between))
    roots = []
    for matrix in (between, within):
        values, vectors = np.linalg.eigh(matrix)
        roots.append(vectors * np.sqrt(np.maximum(values, 0.0)))
    return means, *roots


def made_up(law, n_people, n_trials, rng):
    means, between, within = law
    dim = len(between)
    label = rng.permutation(np.arange(n_people) % 2)
    own = means[label] + rng.normal(size=(n_people, dim)) @ between.T
    trials = own[:, None] + rng.normal(size=(n_people, n_trials, dim)) @ within.T
    person = np.repeat(np.arange(n_people), n_trials)
    points = SPACE.exp_coordinates(SPACE.base_point, trials.reshape(-1, dim))
    return points, label[person], person


def of_people(law, sizes, epsilons, runs, n_trials=20):
    """{(way, people, epsilon): accuracies} on 200 new people."""
    found: dict = {}
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        Z, z, _ = made_up(law, 200, n_trials, rng)
        asked = SPACE.log_coordinates(SPACE.base_point, Z)
        for n_people in sizes:
            X, y, person = made_up(law, n_people, n_trials, rng)
            seen = SPACE.log_coordinates(SPACE.base_point, X)
            exact = LogisticRegression(max_iter=5000).fit(seen, y).score(asked, z)
            found.setdefault(("no privacy", n_people, None), []).append(exact)
            for name in KINDS:
                for epsilon in epsilons:
                    model = private(name, epsilon, seed).fit(X, y, groups=person)
                    found.setdefault((name, n_people, epsilon), []).append(model.score(Z, z))
    return found


def told(scores):
    return f"{np.mean(scores):.3f} ({np.std(scores, ddof=1) / np.sqrt(len(scores)):.3f})"


def draw(trials, people, sizes, file):
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "eeg"
    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    colors = {"tangent": "#228833", "class means": "#aa3377"}
    for name, color in colors.items():
        scores = [trials[name][e] for e in EPSILONS]
        errors = [np.std(s, ddof=1) / np.sqrt(len(s)) for s in scores]
        means = [np.mean(s) for s in scores]
        left.errorbar(EPSILONS, means, errors, fmt="o-", color=color, label=name)
        for epsilon, style in ((1.0, "o--"), (3.0, "o-")):
            means = [np.mean(people[name, n, epsilon]) for n in sizes]
            label = f"{name}, epsilon = {epsilon:g}"
            right.plot(sizes, means, style, color=color, ms=4, label=label)
    left.axhline(np.mean(trials["no privacy"][None]), color="0.3", ls="--", label="no privacy")
    means = [np.mean(people["no privacy", n, None]) for n in sizes]
    right.plot(sizes, means, color="0.3", ls="--", label="no privacy")
    left.set(xscale="log", xlabel="epsilon of a trial", ylabel="accuracy on other trials")
    right.set(xscale="log", xlabel="made-up people", ylabel="accuracy on new people")
    left.legend()
    right.legend(fontsize=8)
    fig.savefig(file, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", help="folder or archive of the CSV files")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--figure")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # seeds: nobody is protected here
    try:
        eeg = fetch_eeg(args.source)
    except FileNotFoundError as reason:
        print(f"skipped: {reason}")
        return
    X, y = covariances(eeg), eeg.target
    runs = 2 if args.quick else args.runs
    trials = of_trials(X, y, runs)
    for name, by_epsilon in trials.items():
        for epsilon, scores in by_epsilon.items():
            at = "" if epsilon is None else f", epsilon {epsilon:g}"
            print(f"trials, {name}{at}: {told(scores)}", flush=True)
    by_person = cross_val_score(
        LogisticRegression(max_iter=5000),
        coordinates(X),
        y,
        groups=eeg.person,
        cv=LeaveOneGroupOut(),
    )
    print(f"people, recorded, each left out in turn, no privacy: {told(by_person)}", flush=True)
    law = law_of_people(X, y, eeg.person)
    sizes = (16, 100) if args.quick else (16, 50, 100, 200, 400, 1000)
    people = of_people(law, sizes, (1.0, 3.0), 2 if args.quick else max(2, runs // 5))
    for (name, n_people, epsilon), scores in people.items():
        at = "" if epsilon is None else f", epsilon {epsilon:g}"
        print(f"people, {n_people} made up, {name}{at}: {told(scores)}", flush=True)
    if args.figure:
        draw(trials, people, sizes, args.figure)


if __name__ == "__main__":
    main()
