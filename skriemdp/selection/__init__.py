"""Private search over the parameters of private estimators."""

from skriemdp.selection.estimator import PrivateGridSearchCV

__all__ = ["PrivateGridSearchCV"]
