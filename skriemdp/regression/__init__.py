"""Regression with manifold-valued responses."""

from skriemdp.regression.estimator import PrivateHyperbolicRegressor

__all__ = ["PrivateHyperbolicRegressor"]
