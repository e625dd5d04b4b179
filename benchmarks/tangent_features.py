"""Classifiers of matrices: class means, linear models on tangent features, synthetic records.

    python benchmarks/tangent_features.py              # minutes
    python benchmarks/tangent_features.py --quick

Accuracy on held-out real records, mean (standard error).  "class means":
``PrivateMinimumDistanceToMean``.  "tangent": ``PrivateTangentClassifier``.  "chained": a private
mean and a private linear model, by hand, at the same two shares of ``mu**2`` (nobody is promised
the total: only to see that one fit loses nothing).  "by epsilon": the same with a quarter of
epsilon and halves of delta, as simple addition of both allows.  "synthetic": logistic regression of
as many draws of ``sample`` as there are records, of class means with ``uncertainty=True``.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skriemdp import (
    PrivateFrechetMean,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivateTangentClassifier,
)
from skriemdp._core.estimator import Terms
from skriemdp._tangent.releases import MEAN_SHARE, shares_of_epsilon
from skriemdp.datasets import digits_covariances
from skriemdp.geometry import Sphere

# Of epsilon, for the mean, where epsilons are added.
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


def directions(n, rng, dim=9):
    """Two classes on a sphere whose scatter is uneven: wide where nothing tells them apart."""
    y = rng.integers(0, 2, size=n)
    spread = np.geomspace(0.6, 0.08, dim)
    coordinates = spread * rng.normal(size=(n, dim))
    coordinates[:, dim // 2 :] += 0.12 * (2.0 * y - 1.0)[:, None] * rng.choice([-1, 1], size=1)
    sphere = Sphere(dim)
    return np.asarray(sphere.exp_coordinates(sphere.base_point, coordinates)), y


def chained(manifold, at_mean, at_model, classes, **settings):
    mean = PrivateFrechetMean(manifold, noise="gaussian", epsilon=at_mean, **settings)
    linear = PrivateNoisyAdaGrad(epsilon=at_model, classes=classes, **settings)
    return make_pipeline(mean, linear)


def linear():
    return LogisticRegression(max_iter=2000)


def accuracies(manifold, X, y, epsilon, seed):
    """Of each way, on a quarter of the records that is held out."""
    parts = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    X, Z, y, z = parts
    classes = np.unique(y)
    plain = PrivateFrechetMean(manifold, epsilon=100.0, random_state=seed).fit(X)  # nearly exact
    yield "linear, no privacy", linear().fit(plain.transform(X), y).score(plain.transform(Z), z)
    private = {"classes": classes, "epsilon": epsilon, "random_state": seed}
    means = PrivateMinimumDistanceToMean(manifold, **private)
    yield "class means", means.fit(X, y).score(Z, z)
    tangent = PrivateTangentClassifier(manifold, **private)
    yield "tangent", tangent.fit(X, y).score(Z, z)
    shares = shares_of_epsilon(Terms(epsilon, 1e-5), MEAN_SHARE)
    by_hand = chained(manifold, *shares, classes, random_state=seed)
    yield "chained", by_hand.fit(X, y).score(Z, z)
    added = chained(
        manifold, SHARE * epsilon, (1 - SHARE) * epsilon, classes, delta=5e-6, random_state=seed
    )
    yield "by epsilon", added.fit(X, y).score(Z, z)
    means = PrivateMinimumDistanceToMean(manifold, uncertainty=True, **private).fit(X, y)
    made, labels = means.sample(len(X), random_state=seed)
    seen = PrivateFrechetMean(manifold, epsilon=100.0, random_state=seed).fit(made)  # of draws
    yield "synthetic", linear().fit(seen.transform(made), labels).score(seen.transform(Z), z)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=10)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # seeds: nobody is protected here
    runs = 1 if args.quick else args.runs
    draws = np.random.default_rng
    sets = {
        "digits, SPD(5), n = 1347": ("spd", lambda seed: digits_covariances()),
        "made-up trials, SPD(6), n = 3000": ("spd", lambda seed: trials(4000, draws(seed))),
        "directions, S^9, n = 1500": ("sphere", lambda seed: directions(2000, draws(seed))),
    }
    for name, (manifold, draw) in sets.items():
        for epsilon in (0.5, 1.0, 3.0, 10.0):
            found = {}
            for seed in range(runs):
                for way, score in accuracies(manifold, *draw(seed), epsilon, seed):
                    found.setdefault(way, []).append(score)
            told = ", ".join(
                f"{way} {np.mean(s):.3f} ({np.std(s) / np.sqrt(len(s)):.3f})"
                for way, s in found.items()
            )
            print(f"{name}, epsilon {epsilon:g}: {told}", flush=True)


if __name__ == "__main__":
    main()
