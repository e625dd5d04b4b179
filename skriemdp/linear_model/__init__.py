"""Private linear models by noisy adaptive gradient steps."""

from skriemdp.linear_model.estimator import PrivateNoisyAdaGrad

__all__ = ["PrivateNoisyAdaGrad"]
