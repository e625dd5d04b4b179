"""Private Fréchet means, one or one per class."""

from skriemdp.mean.classifier import PrivateMinimumDistanceToMean
from skriemdp.mean.estimator import (
    PrivateFrechetMean,
    frechet_mean,
)

__all__ = [
    "PrivateFrechetMean",
    "PrivateMinimumDistanceToMean",
    "frechet_mean",
]
