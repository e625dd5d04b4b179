"""Private search over the parameters of private estimators."""

from skriemdp._selection.estimator import PrivateGridSearchCV

__all__ = ["PrivateGridSearchCV"]
