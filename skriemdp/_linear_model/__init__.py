"""Private linear models by noisy adaptive gradient steps."""

from skriemdp._linear_model.estimator import PrivateNoisyAdaGrad

__all__ = ["PrivateNoisyAdaGrad"]
