"""Private Fréchet means, one or one per class."""

from skriemdp.mean.classifier import PrivateMinimumDistanceToMean
from skriemdp.mean.estimator import (
    PrivateFrechetMean,
    frechet_mean,
)
from skriemdp.mean.tangent_pca import PrivateTangentPCA

__all__ = [
    "PrivateFrechetMean",
    "PrivateMinimumDistanceToMean",
    "PrivateTangentPCA",
    "frechet_mean",
]
