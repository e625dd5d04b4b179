"""Differentially private statistics on Riemannian manifolds, as scikit-learn estimators.

Public names are loaded on first use, so ``import skriemdp`` itself imports nothing else.
"""

from importlib import import_module as _import_module

__version__ = "0.1.0"

_HOME = {
    "PrivateFrechetMean": "skriemdp.mean",
    "frechet_mean": "skriemdp.mean",
    "PrivateGridSearchCV": "skriemdp.selection",
    "PrivateNoisyAdaGrad": "skriemdp.linear_model",
    "PrivateHyperbolicRegressor": "skriemdp.regression",
    "PrivateMatrixCompletion": "skriemdp.completion",
    "PrivateMinimumDistanceToMean": "skriemdp.classification",
    "PrivatePrincipalEigenvector": "skriemdp.decomposition",
    "PrivateRiemannianERM": "skriemdp.erm",
    "PrivacyAccountant": "skriemdp.privacy.accountant",
    "BudgetError": "skriemdp.privacy.accountant",
    "BudgetExceededError": "skriemdp.privacy.accountant",
    "audit_epsilon": "skriemdp.auditing",
    "current_accountant": "skriemdp.privacy.accountant",
    "privacy_report": "skriemdp.reporting",
}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name):
    if name in _HOME:
        return getattr(_import_module(_HOME[name]), name)
    raise AttributeError(f"module 'skriemdp' has no attribute {name!r}")


def __dir__():
    return __all__
