"""Differentially private statistics on Riemannian manifolds, as scikit-learn estimators.

Public names are loaded on first use, so ``import skriemdp`` itself imports nothing else.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

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
    "PrivateTangentClassifier": "skriemdp.tangent.estimator",
    "PrivateTangentPCA": "skriemdp.mean.tangent_pca",
    "PrivacyAccountant": "skriemdp.ledger.accountant",
    "BudgetError": "skriemdp.ledger.accountant",
    "BudgetExceededError": "skriemdp.ledger.accountant",
    "PublicTable": "skriemdp.public_table",
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

if TYPE_CHECKING:  # so that type checkers and editors know what the names of `_HOME` are
    from skriemdp._config import config_context as config_context
    from skriemdp._config import get_config as get_config
    from skriemdp._config import set_config as set_config
    from skriemdp._warnings import SeededNoiseWarning as SeededNoiseWarning
    from skriemdp.auditing import audit_epsilon as audit_epsilon
    from skriemdp.completion.estimator import PrivateMatrixCompletion as PrivateMatrixCompletion
    from skriemdp.erm.estimator import PrivateRiemannianERM as PrivateRiemannianERM
    from skriemdp.inference import mean_test as mean_test
    from skriemdp.ledger.accountant import BudgetError as BudgetError
    from skriemdp.ledger.accountant import BudgetExceededError as BudgetExceededError
    from skriemdp.ledger.accountant import PrivacyAccountant as PrivacyAccountant
    from skriemdp.ledger.current import current_accountant as current_accountant
    from skriemdp.linear_model.estimator import PrivateNoisyAdaGrad as PrivateNoisyAdaGrad
    from skriemdp.mean.classifier import (
        PrivateMinimumDistanceToMean as PrivateMinimumDistanceToMean,
    )
    from skriemdp.mean.estimator import PrivateFrechetMean as PrivateFrechetMean
    from skriemdp.mean.estimator import frechet_mean as frechet_mean
    from skriemdp.mean.tangent_pca import PrivateTangentPCA as PrivateTangentPCA
    from skriemdp.pca.estimator import PrivatePrincipalEigenvector as PrivatePrincipalEigenvector
    from skriemdp.public_table import PublicTable as PublicTable
    from skriemdp.regression.estimator import (
        PrivateHyperbolicRegressor as PrivateHyperbolicRegressor,
    )
    from skriemdp.regression.geodesic import PrivateGeodesicRegressor as PrivateGeodesicRegressor
    from skriemdp.reporting import privacy_report as privacy_report
    from skriemdp.selection import PrivateGridSearchCV as PrivateGridSearchCV
    from skriemdp.tangent.estimator import PrivateTangentClassifier as PrivateTangentClassifier


if not TYPE_CHECKING:  # a checker that sees it takes every name for known

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            return getattr(_import_module(_HOME[name]), name)
        raise AttributeError(f"module 'skriemdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
