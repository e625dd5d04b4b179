"""Metrics of adaptive gradient steps, from gradients that are already private or from noise."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq


@dataclass(frozen=True, eq=False)
class Metric:
    """A positive definite matrix H by its eigenvalues.

    Attributes
    ----------
    eigenvalues : ndarray broadcastable to ``(k, n_outputs)``
    basis : ndarray of shape (k, k) or None
        Orthonormal eigenvectors in columns; None for the coordinate axes.
    """

    eigenvalues: Any
    basis: Any = None

    def solve(self, vector: np.ndarray) -> np.ndarray:
        """``H^{-1} vector``."""
        return self._back(self._rotate(vector) / self.eigenvalues)

    def project(self, vector: np.ndarray, radius: float) -> np.ndarray:
        """Closest point of the ball of `radius` about 0, in the norm ``sqrt(u' H u)``.

        It is ``(H + s I)^{-1} H vector`` with the least ``s >= 0`` that lies in the ball.
        """
        length = float(np.linalg.norm(vector))
        if length <= radius:
            return vector
        if radius <= 0.0:
            return np.zeros_like(vector)
        rotated = self._rotate(vector)
        values = np.broadcast_to(self.eigenvalues, rotated.shape)

        def excess(log_shift: float) -> float:
            shrunk = rotated * (values / (values + math.exp(log_shift)))
            return float(np.linalg.norm(shrunk)) - radius

        # Shrinking all coordinates as the smallest, or the largest, eigenvalue asks brackets s.
        ratio = length / radius - 1.0
        low = math.log(float(values.min())) + math.log(ratio) - 1e-6
        high = math.log(float(values.max())) + math.log(ratio) + 1e-6
        shift = math.exp(brentq(excess, low, high, xtol=1e-12))
        inside = self._back(rotated * (values / (values + shift)))
        return inside * min(1.0, radius / float(np.linalg.norm(inside)))

    def _rotate(self, vector: np.ndarray) -> np.ndarray:
        return vector if self.basis is None else self.basis.T @ vector

    def _back(self, vector: np.ndarray) -> np.ndarray:
        return vector if self.basis is None else self.basis @ vector


class Preconditioner(abc.ABC):
    """State of one run; ``update`` sees what the step released and gives the metric to use."""

    @abc.abstractmethod
    def update(self, gradient: np.ndarray, noise: float, change: np.ndarray | None) -> Metric:
        """Metric for the step.

        Parameters
        ----------
        gradient : ndarray of shape (k, n_outputs)
            Noisy mean gradient, released.
        noise : float
            Standard deviation of its noise.
        change : ndarray of shape (k, k_previous) or None
            New coordinates of the old basis, when the subspace moved.
        """


class Plain(Preconditioner):
    """The identity: plain gradient descent."""

    def update(self, gradient: np.ndarray, noise: float, change: np.ndarray | None) -> Metric:
        return Metric(np.ones((1, 1)))


class Axes(Preconditioner):
    """A step size per coordinate (Duchi, Hazan and Singer 2011), or one, from noisy gradients.

    The root of the summed squares of the noisy coordinates, or of their mean squares.

    Parameters
    ----------
    warmup : float
        Number of steps of pure noise that come before the first.
    floor : float
        The least eigenvalue.
    alike : bool
        Whether all coordinates have one step size.
    """

    def __init__(self, warmup: float, floor: float, alike: bool):
        self._warmup, self._floor, self._alike = warmup, floor, alike
        self._total: Any = 0.0

    def update(self, gradient: np.ndarray, noise: float, change: np.ndarray | None) -> Metric:
        squares: Any = gradient**2
        if self._alike:
            squares = np.full((1, 1), float(np.vdot(gradient, gradient)) / gradient.size)
        self._total = self._total + squares
        return Metric(np.maximum(_root_of(self._total, self._warmup, noise), self._floor))


class Noised(Preconditioner):
    """Full matrix from noisy gradients, less the known second moment of their noise, floored.

    Post-processing: it costs no budget.  Outputs share the matrix, averaged over them.  `warmup` is
    that of :class:`Axes`.
    """

    def __init__(self, warmup: float):
        self._warmup, self._variance = warmup, 0.0
        self._moment: Any = 0.0
        self._noise: Any = 0.0

    def update(self, gradient: np.ndarray, noise: float, change: np.ndarray | None) -> Metric:
        if change is not None and np.ndim(self._moment):
            self._moment = change @ self._moment @ change.T
            self._noise = change @ self._noise @ change.T
        self._moment = self._moment + gradient @ gradient.T / gradient.shape[1]
        self._noise = self._noise + noise**2 * np.eye(len(gradient))
        self._variance += noise**2
        values, basis = np.linalg.eigh(self._moment - self._noise)
        floor = _root_of(self._variance, self._warmup, noise)
        return Metric(np.maximum(np.sqrt(np.maximum(values, 0.0)), floor)[:, None], basis)


def _root_of(total: float | np.ndarray, warmup: float, noise: float) -> float | np.ndarray:
    """``sqrt(total)``, as if `warmup` steps of pure noise had come before the first.

    Otherwise the first steps, when the sum is short, are as long for noise as for signal.
    """
    return np.sqrt(np.maximum(total + warmup * noise**2, 1e-300))
