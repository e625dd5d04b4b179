"""The exponential mechanism for a principal direction: a Bingham law, sampled exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from skriemdp._arrays import Size
from skriemdp._mechanisms import noise
from skriemdp._validation import check_positive
from skriemdp.privacy._events import PureEvent
from skriemdp.privacy._sensitivity import Sensitivity, direction_score_sensitivity

__all__ = ["ExponentialDirection", "sample_bingham"]


def sample_bingham(matrix: ArrayLike, rng: np.random.Generator, size: int = 1) -> np.ndarray:
    """Independent unit vectors with density proportional to ``exp(u' matrix u)``, exactly.

    Rejection from the angular central Gaussian law (Kent, Ganeiber and Mardia 2018): with M the
    largest eigenvalue of `matrix` minus `matrix`, proposals have density proportional to
    ``(u' Omega u)^(-d/2)``, ``Omega = I + 2 M / b``, and are accepted with probability
    ``exp(-t) (1 + 2 t / b)^(d/2)`` over its maximum at ``t = (d - b) / 2``, where ``t = u' M u``.
    The b with ``sum 1 / (b + 2 m_i) = 1`` accepts most.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
        Symmetric.
    rng : numpy.random.Generator
    size : int, default=1

    Returns
    -------
    ndarray of shape (size, d)

    Examples
    --------
    >>> import numpy as np
    >>> u = sample_bingham(np.diag([50.0, 0.0, 0.0]), np.random.default_rng(0), size=1000)
    >>> u.shape, round(float(np.mean(u[:, 0] ** 2)), 2)
    ((1000, 3), 0.98)
    """
    matrix = np.asarray(matrix, dtype=float)
    d = len(matrix)
    values, vectors = np.linalg.eigh(matrix)
    drops = values[-1] - values
    if d == 1:
        return rng.choice([-1.0, 1.0], size=(size, 1))
    # The sum is >= 1 at b = 1, where the zero drop alone gives one, and <= 1 at b = d.
    excess = float(np.sum(1.0 / (1.0 + 2.0 * drops))) - 1.0
    b = 1.0 if excess <= 0 else brentq(lambda b: np.sum(1.0 / (b + 2.0 * drops)) - 1.0, 1.0, d)
    scales = 1.0 / np.sqrt(1.0 + 2.0 * drops / b)
    peak = -(d - b) / 2.0 + 0.5 * d * math.log(d / b)
    accepted, count = [], 0
    while count < size:
        proposals = rng.standard_normal((min(2 * (size - count) + 16, 1 << 16), d)) * scales
        proposals /= np.linalg.norm(proposals, axis=1, keepdims=True)
        heights = proposals**2 @ drops
        log_ratio = -heights + 0.5 * d * np.log1p(2.0 * heights / b) - peak
        proposals = proposals[np.log(rng.random(len(proposals))) < log_ratio]
        accepted.append(proposals)
        count += len(proposals)
    return np.concatenate(accepted)[:size] @ vectors.T


@dataclass(frozen=True)
class ExponentialDirection:
    """A unit vector u with density proportional to ``exp(epsilon u' S u / (2 bound^2))``.

    S is the sum of ``z_i z_i'`` over records of norm at most `bound`.

    Parameters
    ----------
    epsilon : float
    bound : float

    Notes
    -----
    *Guarantee*: pure epsilon-DP under replacement of one record.  Replacing z by y changes the
    exponent ``lambda u' S u`` by ``lambda ((y'u)^2 - (z'u)^2)``, a function of u whose range is at
    most ``2 lambda bound^2``; a density and its normaliser together move by no more than that range
    (bounded range; Dong, Durfee and Rogers 2020), here epsilon.  The law is sampled exactly.

    References
    ----------
    Chaudhuri, Sarwate, Sinha (2013), A near-optimal algorithm for differentially-private principal
    components, JMLR 14.
    """

    epsilon: float
    bound: float

    def __post_init__(self) -> None:
        check_positive(epsilon=self.epsilon, bound=self.bound)

    @property
    def sensitivity(self) -> Sensitivity:
        """Range of the change of all directions' scores."""
        return direction_score_sensitivity(self.bound)

    @property
    def event(self) -> PureEvent:
        """Event of one release."""
        return PureEvent(self.epsilon)

    def release(self, value: Any, rng: np.random.Generator, size: Size = ()) -> Any:
        """A direction for S = `value`; with `size`, that many, each of which costs one `event`."""
        exponent, bound = self.epsilon / self.sensitivity.value * value, self.epsilon
        return noise.draw(
            exponent, 1.0, "bingham", rng, size, sensitivity=bound, sampler=_bingham_draws
        )


def _bingham_draws(
    matrix: np.ndarray, rng: np.random.Generator, size: tuple[int, ...]
) -> np.ndarray:
    return sample_bingham(matrix, rng, math.prod(size)).reshape(*size, -1)
