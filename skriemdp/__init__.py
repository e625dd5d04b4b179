"""Differentially private statistics on Riemannian manifolds, as scikit-learn estimators.

Public names are loaded on first use, so ``import skriemdp`` itself imports nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module as _import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "PrivateFrechetMean": "skriemdp.mean.estimator",
    "frechet_mean": "skriemdp.mean.estimator",
    "PrivateGridSearchCV": "skriemdp.selection",
    "PrivateNoisyAdaGrad": "skriemdp.linear_model.estimator",
    "PrivateGeodesicRegressor": "skriemdp.regression.geodesic",
    "PrivateHyperbolicRegressor": "skriemdp.regression.estimator",
    "PrivateMatrixCompletion": "skriemdp.completion.estimator",
    "PrivateMinimumDistanceToMean": "skriemdp.mean.classifier",
    "PrivatePrincipalEigenvector": "skriemdp.pca.estimator",
    "PrivateRiemannianERM": "skriemdp.erm.estimator",
    "PrivateTangentPCA": "skriemdp.mean.tangent_pca",
    "PrivacyAccountant": "skriemdp.ledger.accountant",
    "BudgetError": "skriemdp.ledger.accountant",
    "BudgetExceededError": "skriemdp.ledger.accountant",
    "SeededNoiseWarning": "skriemdp._warnings",
    "audit_epsilon": "skriemdp.auditing",
    "config_context": "skriemdp._config",
    "current_accountant": "skriemdp.ledger.current",
    "get_config": "skriemdp._config",
    "mean_test": "skriemdp.inference",
    "privacy_report": "skriemdp.reporting",
    "set_config": "skriemdp._config",
}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Callable[..., Any] | type:
    if name in _HOME:
        return getattr(_import_module(_HOME[name]), name)
    raise AttributeError(f"module 'skriemdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
