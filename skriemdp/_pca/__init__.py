"""Private principal components."""

from skriemdp._pca.estimator import PrivatePrincipalEigenvector

__all__ = ["PrivatePrincipalEigenvector"]
