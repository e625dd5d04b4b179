"""Metrics of adaptive gradient steps, from gradients that are already private or from noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq

from skriemdp._dataclasses import dataclass
from skriemdp.linear_model.releases import RootMoments

__all__ = ["Metric", "Preconditioner", "make_preconditioner"]


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


class Preconditioner:
    """State of one run; ``update`` sees what the step released and gives the metric to use."""

    def update(
        self, gradient: np.ndarray, noise: float, change: np.ndarray | None, exact: Any
    ) -> Metric:
        """Metric for the step.

        Parameters
        ----------
        gradient : ndarray of shape (k, n_outputs)
            Noisy mean gradient, released.
        noise : float
            Standard deviation of its noise.
        change : ndarray of shape (k, k_previous) or None
            New coordinates of the old basis, when the subspace moved.
        exact : ndarray
            The mean gradient without noise, in full coordinates; for mechanisms only.
        """
        raise NotImplementedError


class _Constant(Preconditioner):
    """Plain gradient descent."""

    def update(
        self, gradient: np.ndarray, noise: float, change: np.ndarray | None, exact: Any
    ) -> Metric:
        return Metric(np.ones((1, 1)))


class _Norm(Preconditioner):
    """One step size: the root of the summed mean squares of the noisy coordinates."""

    def __init__(self, warmup: float, floor: float):
        self._warmup, self._floor, self._total = warmup, floor, 0.0

    def update(
        self, gradient: np.ndarray, noise: float, change: np.ndarray | None, exact: Any
    ) -> Metric:
        self._total += float(np.vdot(gradient, gradient)) / gradient.size
        root = math.sqrt(max(self._total + self._warmup * noise**2, 1e-300))
        return Metric(np.array([[max(root, self._floor)]]))


class _Diagonal(Preconditioner):
    """A step size per coordinate (Duchi, Hazan and Singer 2011) from noisy gradients."""

    _total: Any

    def __init__(self, warmup: float, floor: float):
        self._warmup, self._floor, self._total = warmup, floor, 0.0

    def update(
        self, gradient: np.ndarray, noise: float, change: np.ndarray | None, exact: Any
    ) -> Metric:
        self._total = self._total + gradient**2
        return Metric(np.maximum(_root_of(self._total, self._warmup, noise), self._floor))


class _Noised(Preconditioner):
    """Full matrix from noisy gradients, less the known second moment of their noise, floored.

    Post-processing: it costs no budget.  Outputs share the matrix, averaged over them.
    """

    _moment: Any
    _noise: Any

    def __init__(self, warmup: float):
        self._warmup = warmup
        self._moment = self._noise = 0.0
        self._variance = 0.0

    def update(
        self, gradient: np.ndarray, noise: float, change: np.ndarray | None, exact: Any
    ) -> Metric:
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


class _Public(Preconditioner):
    """Curvature of public rows, plus a multiple of the identity of the size of the noise."""

    _values: Any
    _basis: Any

    def __init__(self, curvature: np.ndarray):
        self._curvature = curvature
        self._values = self._basis = None

    def update(
        self, gradient: np.ndarray, noise: float, change: np.ndarray | None, exact: Any
    ) -> Metric:
        if self._values is None:
            self._values, self._basis = np.linalg.eigh(self._curvature)
        values = np.maximum(self._values, 0.0)[:, None] + 0.5 * noise + 1e-4
        return Metric(values, self._basis)


class _Paper(Preconditioner):
    """Algorithm 1 of Kairouz et al. (2021), with the right sensitivity, symmetric and floored.

    ``G_t = (sum_s g_s g_s')^{1/2}`` of the exact gradients is released with symmetric Gaussian
    noise in every step.  The floor is half the edge of the noise's spectrum.
    """

    _gradients: Any
    _bounds: Any

    def __init__(self, noise_multiplier: float, n: int, rng: np.random.Generator):
        self._moments, self._n, self._rng = RootMoments(noise_multiplier), n, rng
        self._gradients, self._bounds = [], []

    def observe(self, bound: float) -> None:
        """Public bound of the records' gradients in the coming step."""
        self._bounds.append(float(bound))

    def update(
        self,
        gradient: np.ndarray,
        noise: float,
        change: np.ndarray | None,
        exact: Any,
    ) -> Metric:
        exact, basis = exact
        self._gradients.append(exact)
        stacked = np.concatenate(self._gradients, axis=1)  # the gradients in columns
        size = len(gradient)
        mechanism = self._moments.mechanism(size, self._n, self._bounds)
        noisy = mechanism.release(_root(stacked, basis), self._rng)
        values, vectors = np.linalg.eigh(noisy)
        floor = mechanism.sigma / math.sqrt(2.0) * math.sqrt(size)
        return Metric(np.maximum(values, floor)[:, None], vectors)


def _root(columns: np.ndarray, basis: np.ndarray | None = None) -> np.ndarray:
    """``(A A')^{1/2}`` for the columns A, in coordinates of `basis`."""
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    if basis is not None:
        left = basis.T @ left
    return (left * singular) @ left.T


def make_preconditioner(
    name: str,
    *,
    warmup: float = 0.0,
    floor: float = 0.0,
    curvature: Any = None,
    noise_multiplier: float | None = None,
    n: int | None = None,
    rng: np.random.Generator | None = None,
) -> Preconditioner:
    """State of a run for the preconditioner `name`; the other keywords are what it may need.

    `warmup` is a number of steps of pure noise that come before the first, `floor` the least
    eigenvalue of "norm" and "diagonal".
    """
    if name == "none":
        return _Constant()
    if name == "public":
        return _Public(curvature)
    if name == "paper":
        assert noise_multiplier is not None and n is not None and rng is not None
        return _Paper(noise_multiplier, n, rng)
    if name == "noised":
        return _Noised(warmup)
    return {"diagonal": _Diagonal, "norm": _Norm}[name](warmup, floor)
