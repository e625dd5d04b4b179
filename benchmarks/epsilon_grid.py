"""A plain GridSearchCV over epsilon: which epsilon wins, and what finding that out cost.

python benchmarks/epsilon_grid.py
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold

from skriemdp import PrivacyAccountant, PrivateFrechetMean

EPSILONS = [0.25, 0.5, 1.0, 2.0, 4.0]
REPEATS = 40


def main():
    rng = np.random.default_rng(0)
    winners, scores = Counter(), []
    for _ in range(REPEATS):
        X = rng.normal(scale=0.3, size=(200, 5))
        with PrivacyAccountant() as accountant:
            search = GridSearchCV(
                PrivateFrechetMean("euclidean", radius=1.0),
                {"epsilon": EPSILONS},
                cv=KFold(5),
                error_score="raise",
            ).fit(X)
        winners[search.best_params_["epsilon"]] += 1
        scores.append(search.cv_results_["mean_test_score"])
    spent = accountant.spent
    print(f"{REPEATS} searches, 200 records in 5 dimensions, {spent.n_entries} fits each:")
    print(f"one search cost epsilon={spent.epsilon:.2f} (delta={spent.delta:g})")
    print("| epsilon | mean squared distance on held-out rows | times chosen |")
    print("|---|---|---|")
    for epsilon, score in zip(EPSILONS, np.mean(scores, axis=0), strict=True):
        print(f"| {epsilon:g} | {-score:.4f} | {winners[epsilon]} |")


if __name__ == "__main__":
    main()
