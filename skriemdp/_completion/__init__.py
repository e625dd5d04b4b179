"""Private matrix completion on the Grassmann manifold."""

from skriemdp._completion.estimator import PrivateMatrixCompletion

__all__ = ["PrivateMatrixCompletion"]
