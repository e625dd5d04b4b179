"""Private minimisation of any empirical risk on any manifold."""

from skriemdp._erm.estimator import PrivateRiemannianERM

__all__ = ["PrivateRiemannianERM"]
