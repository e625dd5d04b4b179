"""Requirements of `uncertainty=True`, and quantiles of the noise of a mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import chdtri, gammaincinv

from skriemdp._core.manifold_input import ball_cure
from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.counts import RARELY
from skriemdp._validation import check_fraction
from skriemdp._warnings import warn_user

if TYPE_CHECKING:
    from skriemdp.inference import MeanInference

# Private radii, over what the search or the look found: regions of balls that cut skewed data miss
# the mean of the data themselves (benchmarks/inference.py, "--part widening").
WIDER = 1.3
# More than this fraction of clipped records moves what a region covers by a part of its size.  Less
# warns by chance in one of 1e6 fits, so of 1000 records at epsilon = 1 a fifth must lie outside.
_CUT = 0.02


def check_uncertainty(mechanism: Any, noise: Any, delta: float) -> None:
    """Refuse what has no joint Gaussian release; all of it public."""
    because = "uncertainty=True releases the mean and a second moment in one Gaussian release; "
    if mechanism not in ("auto", "tangent"):
        extra = "; its two default steps are the same idea" if mechanism == "gradient" else ""
        raise PublicValueError(
            f"mechanism={mechanism!r} has no region: {because}pass mechanism='auto'{extra}."
        )
    if noise not in ("auto", "gaussian"):
        raise PublicValueError(f"noise={noise!r} has no region: {because}pass noise='auto'.")
    if delta == 0.0:
        raise PublicValueError(f"delta=0 has no region: {because}pass delta > 0.")


def warn_cut(clipped: float, noise: float, found: float, center: Any, radius: Any) -> None:
    """Warn, from released numbers, when the ball cuts the data and so moves what is covered.

    `found` is the radius that was used; `center` and `radius` are parameters.
    """
    if clipped - RARELY * noise > _CUT:
        warn_user(
            f"about {min(clipped, 1.0):.1%} of the records lie outside the ball of radius "
            f"{found:g} (a private estimate): the region covers the mean of the records projected "
            "on that ball, which skewed data can move away from their own mean; "
            f"{ball_cure(center, radius, True)}"
        )


def standard_error(covariance: np.ndarray) -> np.ndarray:
    """Roots of the diagonal, shape (dim,)."""
    return np.sqrt(np.maximum(np.diag(covariance), 0.0))


@dataclass(frozen=True)
class NoiseLaw:
    """Law of the length of the noise of a released mean, in geodesic distance.

    Parameters
    ----------
    dim : int
    scale : float
        Standard deviation of a Gaussian along its longest axis, or s of the density
        ``exp(-|v| / s)``.
    laplace : bool, default=False
        Which of the two.

    Examples
    --------
    >>> round(NoiseLaw(2, 0.1).radius(0.95), 4)
    0.2448
    """

    dim: int
    scale: float
    laplace: bool = False

    @classmethod
    def of_inference(cls, inference: MeanInference) -> NoiseLaw:
        """Noise of a mean that was released with its second moment, whose noise turns it too."""
        dim = len(inference.first)
        to_mean = inference.score_to_mean
        noise = to_mean @ inference.score_covariance(np.zeros((dim, dim))) @ to_mean.T
        return cls(dim, math.sqrt(float(np.linalg.eigvalsh(noise)[-1])))

    def radius(self, level: float) -> float:
        """Length that the noise keeps within with probability `level` at least."""
        check_fraction(level=level)
        if self.laplace:
            return self.scale * float(gammaincinv(self.dim, level))
        return self.scale * math.sqrt(float(chdtri(self.dim, 1.0 - level)))
