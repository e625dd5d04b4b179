"""Classifiers of matrices: class means, linear models on tangent features, synthetic records.

    python benchmarks/tangent_features.py              # minutes
    python benchmarks/tangent_features.py --quick

Accuracy on held-out real records.  "class means": ``PrivateMinimumDistanceToMean``.  "recipe": a
quarter of epsilon for a private mean, the rest for a private linear model on the coordinates there.
"synthetic": logistic regression of as many draws of ``sample`` as there are records, of class means
with ``uncertainty=True``.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skriemdp import PrivateFrechetMean, PrivateMinimumDistanceToMean, PrivateNoisyAdaGrad
from skriemdp.datasets import digits_covariances

# Of a recipe's epsilon, for its mean.
SHARE = 0.25


def trials(n, rng, channels=6, samples=128):
    """Covariances of trials: mixed sources, of which two tell the class by their powers.

    All of them vary from trial to trial, two much more, and so does the gain of a trial.
    """
    mixing = rng.normal(size=(channels, channels))
    y = rng.integers(0, 2, size=n)
    spread = np.array([0.4, 0.4, 0.4, 0.4, 1.5, 1.5])[:channels]
    powers = spread * rng.normal(size=(n, channels)) + 0.8 * rng.normal(size=(n, 1))
    powers[:, 0] += 0.6 * y
    powers[:, 1] -= 0.6 * y
    signals = rng.normal(size=(n, samples, channels)) * np.exp(0.5 * powers)[:, None, :]
    signals = signals @ mixing.T
    return np.einsum("nsi,nsj->nij", signals, signals) / samples, y


def recipe(epsilon, classes, seed):
    half = {"delta": 5e-6, "random_state": seed}
    mean = PrivateFrechetMean("spd", epsilon=SHARE * epsilon, **half)
    linear = PrivateNoisyAdaGrad(epsilon=(1.0 - SHARE) * epsilon, classes=classes, **half)
    return make_pipeline(mean, linear)


def linear():
    return LogisticRegression(max_iter=2000)


def accuracies(X, y, epsilon, seed):
    """Of each way, on a quarter of the records that is held out."""
    parts = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    X, Z, y, z = parts
    classes = np.unique(y)
    plain = PrivateFrechetMean("spd", epsilon=100.0, random_state=seed).fit(X)  # nearly exact
    yield "linear, no privacy", linear().fit(plain.transform(X), y).score(plain.transform(Z), z)
    private = {"classes": classes, "epsilon": epsilon, "random_state": seed}
    yield "class means", PrivateMinimumDistanceToMean("spd", **private).fit(X, y).score(Z, z)
    yield "recipe", recipe(epsilon, classes, seed).fit(X, y).score(Z, z)
    means = PrivateMinimumDistanceToMean("spd", uncertainty=True, **private).fit(X, y)
    made, labels = means.sample(len(X), random_state=seed)
    seen = PrivateFrechetMean("spd", epsilon=100.0, random_state=seed).fit(made)  # of draws
    yield "synthetic", linear().fit(seen.transform(made), labels).score(seen.transform(Z), z)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=10)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # seeds: nobody is protected here
    runs = 1 if args.quick else args.runs
    sets = {
        "digits, SPD(5), n = 1347": lambda seed: digits_covariances(),
        "made-up trials, SPD(6), n = 3000": lambda seed: trials(4000, np.random.default_rng(seed)),
    }
    for name, draw in sets.items():
        for epsilon in (1.0, 3.0):
            found = {}
            for seed in range(runs):
                for way, score in accuracies(*draw(seed), epsilon, seed):
                    found.setdefault(way, []).append(score)
            told = ", ".join(f"{way} {np.mean(scores):.3f}" for way, scores in found.items())
            print(f"{name}, epsilon {epsilon:g}: {told}", flush=True)


if __name__ == "__main__":
    main()
