"""Regression with manifold-valued responses."""

from skriemdp._regression.estimator import PrivateHyperbolicRegressor

__all__ = ["PrivateHyperbolicRegressor"]
