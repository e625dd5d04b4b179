"""Differentially private statistics on Riemannian manifolds, as scikit-learn estimators.

Public names are loaded on first use, so ``import skriemdp`` itself imports nothing else.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "PrivacyReport": "skriemdp._reporting",
    "ChargedEntry": "skriemdp._core.spent",
    "PrivacySpent": "skriemdp._core.spent",
    "ExpectedError": "skriemdp._core.forecast",
    "Forecast": "skriemdp._core.forecast",
    "PrivateFrechetMean": "skriemdp._mean.estimator",
    "frechet_mean": "skriemdp._mean.estimator",
    "PrivateGridSearchCV": "skriemdp._selection",
    "PrivateNoisyAdaGrad": "skriemdp._linear_model.estimator",
    "PrivateGeodesicRegressor": "skriemdp._regression.geodesic",
    "PrivateHyperbolicRegressor": "skriemdp._regression.estimator",
    "PrivateMatrixCompletion": "skriemdp._completion.estimator",
    "PrivateMinimumDistanceToMean": "skriemdp._mean.classifier",
    "PrivatePrincipalEigenvector": "skriemdp._pca.estimator",
    "PrivateRiemannianERM": "skriemdp._erm.estimator",
    "PrivateTangentClassifier": "skriemdp._tangent.estimator",
    "PrivateTangentPCA": "skriemdp._mean.tangent_pca",
    "PrivacyAccountant": "skriemdp.ledger._accountant",
    "BudgetError": "skriemdp.ledger._accountant",
    "BudgetExceededError": "skriemdp.ledger._accountant",
    "PublicTable": "skriemdp._public_table",
    "SeededNoiseWarning": "skriemdp._warnings",
    "audit_epsilon": "skriemdp.auditing",
    "config_context": "skriemdp._config",
    "current_accountant": "skriemdp.ledger._current",
    "get_config": "skriemdp._config",
    "mean_test": "skriemdp.inference",
    "privacy_report": "skriemdp._reporting",
    "set_config": "skriemdp._config",
}

__all__ = sorted([*_HOME, "__version__"])

if TYPE_CHECKING:  # so that type checkers and editors know what the names of `_HOME` are
    from skriemdp._completion.estimator import PrivateMatrixCompletion as PrivateMatrixCompletion
    from skriemdp._config import config_context as config_context
    from skriemdp._config import get_config as get_config
    from skriemdp._config import set_config as set_config
    from skriemdp._core.forecast import ExpectedError as ExpectedError
    from skriemdp._core.forecast import Forecast as Forecast
    from skriemdp._core.spent import ChargedEntry as ChargedEntry
    from skriemdp._core.spent import PrivacySpent as PrivacySpent
    from skriemdp._erm.estimator import PrivateRiemannianERM as PrivateRiemannianERM
    from skriemdp._linear_model.estimator import PrivateNoisyAdaGrad as PrivateNoisyAdaGrad
    from skriemdp._mean.classifier import (
        PrivateMinimumDistanceToMean as PrivateMinimumDistanceToMean,
    )
    from skriemdp._mean.estimator import PrivateFrechetMean as PrivateFrechetMean
    from skriemdp._mean.estimator import frechet_mean as frechet_mean
    from skriemdp._mean.tangent_pca import PrivateTangentPCA as PrivateTangentPCA
    from skriemdp._pca.estimator import PrivatePrincipalEigenvector as PrivatePrincipalEigenvector
    from skriemdp._public_table import PublicTable as PublicTable
    from skriemdp._regression.estimator import (
        PrivateHyperbolicRegressor as PrivateHyperbolicRegressor,
    )
    from skriemdp._regression.geodesic import PrivateGeodesicRegressor as PrivateGeodesicRegressor
    from skriemdp._reporting import PrivacyReport as PrivacyReport
    from skriemdp._reporting import privacy_report as privacy_report
    from skriemdp._selection import PrivateGridSearchCV as PrivateGridSearchCV
    from skriemdp._tangent.estimator import PrivateTangentClassifier as PrivateTangentClassifier
    from skriemdp._warnings import SeededNoiseWarning as SeededNoiseWarning
    from skriemdp.auditing import audit_epsilon as audit_epsilon
    from skriemdp.inference import mean_test as mean_test
    from skriemdp.ledger._accountant import BudgetError as BudgetError
    from skriemdp.ledger._accountant import BudgetExceededError as BudgetExceededError
    from skriemdp.ledger._accountant import PrivacyAccountant as PrivacyAccountant
    from skriemdp.ledger._current import current_accountant as current_accountant


if not TYPE_CHECKING:  # a checker that sees it takes every name for known

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            return getattr(_import_module(_HOME[name]), name)
        raise AttributeError(f"module 'skriemdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
