"""
==========================================
One afternoon with the package, end to end
==========================================

Five private estimators in scikit-learn pipelines and grid searches, under one budget; a manifold
from pymanopt; three statistics that share a budget equally; and attacks.  All data are made up, and
nothing is seeded: a seeded fit protects nobody.  Every line of the script is asserted, so it also
serves as a check of an installation.
"""

import numpy as np
import pymanopt.manifolds
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
)
from skriemdp.auditing import audit_estimator
from skriemdp.geometry import Hyperboloid

EPSILONS = [0.5, 1.0]
FOLDS = 2
rng = np.random.default_rng(0)

# %%
# Made-up records
# ---------------
# Directions on a sphere, correlated rows, labelled rows, points of the hyperbolic plane that depend
# on a number, and ratings with gaps.

pole = np.array([0.0, 0.0, 1.0])
directions = rng.normal(size=(400, 3)) * 0.1 + pole
directions /= np.linalg.norm(directions, axis=1, keepdims=True)
rows = rng.normal(size=(3000, 4)) * [1.0, 0.2, 0.2, 0.2]
features, labels = make_classification(400, 4, random_state=0)
plane = Hyperboloid(2)
inputs = rng.uniform(-1.0, 1.0, size=(400, 1))
outputs = plane.exp_coordinates(plane.base_point, np.hstack([inputs, 0.1 * inputs**2]))
ratings = np.clip(rng.integers(1, 6, size=(400, 12)), 1, 5).astype(float)
ratings[rng.random(ratings.shape) < 0.5] = np.nan

# %%
# Five estimators, one budget
# ---------------------------
# Every estimator stands at the end of a pipeline whose first step learns nothing, and a search
# over epsilon refits it on every fold.  All fits charge the active accountant.  (Scores of a plain
# GridSearchCV are not private: fit, do not publish them, or use PrivateGridSearchCV.)

tasks = {
    "mean": (
        PrivateFrechetMean(pymanopt.manifolds.Sphere(3), center=pole, radius=1.0),
        directions,
        None,
    ),
    "direction": (PrivatePrincipalEigenvector(row_norm=4.0), rows, None),
    "regression": (PrivateHyperbolicRegressor(manifold="hyperboloid", radius=2.0), inputs, outputs),
    "completion": (PrivateMatrixCompletion(rank=1), ratings, None),
    "classifier": (PrivateNoisyAdaGrad(classes=[0, 1]), features, labels),
}


def search(estimator, X, y):
    """A grid search over epsilon of a pipeline that ends in `estimator`."""
    pipeline = make_pipeline(FunctionTransformer(), estimator)
    grid = {f"{type(estimator).__name__.lower()}__epsilon": EPSILONS}
    return GridSearchCV(pipeline, grid, cv=KFold(FOLDS), error_score="raise").fit(X, y)


def five_estimators():
    """The five searches under one accountant; returns it and the fitted estimators."""
    fitted = {}
    with PrivacyAccountant(epsilon=100.0, delta=1e-3) as budget:
        for name, (estimator, X, y) in tasks.items():
            before = len(budget.history)
            model = fitted[name] = search(estimator, X, y).best_estimator_[-1]
            # Two candidates on every fold, and the winner on all records: each fit is charged.
            assert len(budget.history) - before == len(EPSILONS) * FOLDS + 1
            epsilon, delta = model.privacy_spent_
            assert (epsilon, delta) == (model.epsilon, model.delta)
            assert model.privacy_spent_.event.delta(epsilon) <= delta
            assert model.privacy_spent_.guarantee == "exact"
    assert 0.0 < budget.spent.epsilon <= 100.0
    return budget, fitted


# %%
# Three statistics under one budget
# ---------------------------------
# ``split(3)`` divides a budget; a part pays for one statistic, and all of them together keep the
# whole.


def three_statistics():
    """A private mean, direction and classifier at a third of epsilon = 1 each; their budget."""
    budget = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    first, second, third = (part.whole() for part in budget.split(3))
    estimators = (
        (PrivateFrechetMean("sphere", center=pole, radius=1.0, **first), directions, None),
        (PrivatePrincipalEigenvector(row_norm=4.0, **second), rows, None),
        (PrivateNoisyAdaGrad(classes=[0, 1], **third), features, labels),
    )
    spent = [estimator.fit(X, y).privacy_spent_ for estimator, X, y in estimators]
    assert sum(epsilon for epsilon, _ in spent) <= 1.0
    assert sum(delta for _, delta in spent) <= 1e-5
    return budget, spent


# %%
# Attacks
# -------
# ``audit_estimator`` fits an estimator many times on two made-up data sets that differ in one
# record, as far as its public parameters let them, and learns to tell the results apart.


def attacks():
    """Short attacks on estimators; none finds more than the epsilon that is stated."""
    classes = PrivateMinimumDistanceToMean(classes=[0, 1], radius=1.0, delta=0.0)
    pure = PrivatePrincipalEigenvector(row_norm=4.0, delta=0.0)
    line = PrivateGeodesicRegressor("sphere", radius=0.5, feature_scale=1.0)
    estimators = *(task[0] for task in tasks.values()), classes, pure, line
    for estimator in estimators:
        # A false alarm in fewer than one of a million runs.
        audit = audit_estimator(estimator, trials=50, confidence=1 - 1e-6)
        assert not audit.refuted
    return len(estimators)


def main():
    budget, fitted = five_estimators()
    print(budget)
    for name, model in fitted.items():
        print(f"{name:12}{model.privacy_spent_}")
    assert fitted["mean"].mean_.shape == (3,)
    assert abs(np.linalg.norm(fitted["mean"].mean_) - 1.0) < 1e-6
    budget, spent = three_statistics()
    print(budget, *spent, sep="\n")
    print(f"{attacks()} attacks, none of which refutes an epsilon")


if __name__ == "__main__":
    main()
