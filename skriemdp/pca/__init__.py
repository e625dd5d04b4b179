"""Private principal components."""

from skriemdp.pca.estimator import PrivatePrincipalEigenvector

__all__ = ["PrivatePrincipalEigenvector"]
