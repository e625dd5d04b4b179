"""Private matrix completion on the Grassmann manifold."""

from skriemdp.completion.estimator import PrivateMatrixCompletion

__all__ = ["PrivateMatrixCompletion"]
