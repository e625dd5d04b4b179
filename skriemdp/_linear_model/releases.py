"""Releases of a linear model beside gradients, which are sums of batches: a constant in place of
a model, and Noisy AdaGrad's matrices as published."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skriemdp._linear_model.preconditioners import Metric, Preconditioner
from skriemdp._mechanisms.bounded_sets import VectorSet, ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.covariance import SymmetricGaussian
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._validation import check_positive
from skriemdp.privacy._events import GaussianEvent
from skriemdp.privacy._sensitivity import gradient_root_sensitivity


@dataclass(frozen=True)
class ScaledMean:
    """The mean of numbers in [-1, 1], of n records: what is left of a model of very few.

    Notes
    -----
    *Guarantee*: mu-GDP, as a sum of numbers in an interval of length 2.
    """

    n: int

    @property
    def bounded_set(self) -> VectorSet:
        """The interval."""
        return ball(Ball(1.0), 1)

    def sigma(self, mu: float) -> float:
        """Standard deviation of the mean's noise."""
        return self.bounded_set.sigma(self.bounded_set.check(mu)) / self.n

    def release(self, numbers: Units, mu: float, rng: np.random.Generator) -> float:
        """The mean, moved into [-1, 1]."""
        noisy = private_sum(numbers, lambda rows: rows[:, None], self.bounded_set, mu, rng)
        return float(np.clip(noisy.value[0] / self.n, -1.0, 1.0))


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
        """Event of the matrices of so many steps."""
        return GaussianEvent(self.noise_multiplier, count=n_steps)

    def mechanism(self, size: int, n: int, bounds: list[float]) -> SymmetricGaussian:
        """The release of one matrix, for gradients of n records within these bounds so far."""
        return SymmetricGaussian(
            size,
            sensitivity=gradient_root_sensitivity(n, bounds),
            noise_multiplier=self.noise_multiplier,
        )


class Paper(Preconditioner):
    """Algorithm 1 of Kairouz et al. (2021), with the right sensitivity, symmetric and floored.

    The floor is half the edge of the noise's spectrum.
    """

    def __init__(self, noise_multiplier: float, n: int, rng: np.random.Generator):
        self._moments, self._n, self._rng = RootMoments(noise_multiplier), n, rng
        self._gradients: list[np.ndarray] = []
        self._bounds: list[float] = []
        self._basis: np.ndarray | None = None

    def observe(self, bound: float, mean: np.ndarray, basis: np.ndarray | None) -> None:
        """Store the inputs of the coming step's matrix.

        Parameters
        ----------
        bound : float
            Public bound of the records' gradients in the step.
        mean : ndarray
            The mean gradient without noise, in full coordinates; not private.
        basis : ndarray or None
            Columns in whose coordinates the matrix is released.
        """
        self._gradients.append(mean)
        self._bounds.append(float(bound))
        self._basis = basis

    def update(self, gradient: np.ndarray, noise: float, change: np.ndarray | None) -> Metric:
        size = len(gradient)
        mechanism = self._moments.mechanism(size, self._n, self._bounds)
        # The gradients in columns.
        exact = root(np.concatenate(self._gradients, axis=1), self._basis)
        values, vectors = np.linalg.eigh(mechanism.release(exact, self._rng))
        floor = mechanism.sigma / math.sqrt(2.0) * math.sqrt(size)
        return Metric(np.maximum(values, floor)[:, None], vectors)


def root(columns: np.ndarray, basis: np.ndarray | None = None) -> np.ndarray:
    """``(A A')^{1/2}`` for the columns A, in coordinates of `basis`."""
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    if basis is not None:
        left = basis.T @ left
    return (left * singular) @ left.T
