"""The release of Noisy AdaGrad's matrices, as published; its gradients are sums of batches."""

from __future__ import annotations

from skriemdp._dataclasses import dataclass
from skriemdp._validation import check_positive
from skriemdp.mechanisms.covariance import SymmetricGaussian
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.sensitivity import gradient_root_sensitivity

__all__ = ["RootMoments"]


@dataclass(frozen=True)
class RootMoments:
    """``G_t = (sum_s g_s g_s')^{1/2}`` of the exact mean gradients, with noise, in every step.

    Parameters
    ----------
    noise_multiplier : float
        Noise of a matrix over its sensitivity.

    Notes
    -----
    *Guarantee*: ``event(n_steps)``, given the iterates (docs/theory/adagrad.md).
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        check_positive(noise_multiplier=self.noise_multiplier)

    def event(self, n_steps: int) -> GaussianEvent:
        """What the matrices of so many steps cost."""
        return GaussianEvent(self.noise_multiplier, count=n_steps)

    def mechanism(self, size: int, n: int, bounds: list[float]) -> SymmetricGaussian:
        """The release of one matrix, for gradients of n records within these bounds so far."""
        return SymmetricGaussian(
            size,
            sensitivity=gradient_root_sensitivity(n, bounds),
            noise_multiplier=self.noise_multiplier,
        )
