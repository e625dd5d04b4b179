"""Manifold-valued prediction one query at a time: a weighted Fréchet mean found by DP-RGD."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from skriemdp._errors import PublicRuntimeError
from skriemdp._mechanisms.bounded_sets import WEIGHT_UNIT, VectorSet, weighted
from skriemdp._mechanisms.noise import expect_integers
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._process import Alone, this_process

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams


def gaussian_kernel(X: np.ndarray, Y: np.ndarray, length_scale: float) -> np.ndarray:
    """``exp(-|x - y|^2 / (2 length_scale^2))``, shape ``(len(X), len(Y))``."""
    squares = np.sum(X * X, axis=1)[:, None] + np.sum(Y * Y, axis=1)[None, :] - 2.0 * X @ Y.T
    return np.exp(np.maximum(squares, 0.0) * (-0.5 / length_scale**2))


def signal_share(total: np.ndarray, sigma: float) -> float:
    """Part of the square of a noisy vector that its noise does not explain; post-processing."""
    return max(0.0, 1.0 - len(total) * sigma**2 / max(float(total @ total), 1e-300))


class KernelRidgeWeights:
    """Weights ``(K + ridge I)^-1 k(x)`` of kernel ridge regression: features are public.

    Every weight depends on every feature, so only labels can be protected.
    """

    def __init__(self, X: np.ndarray, length_scale: float, ridge: float):
        self._X, self._length_scale = X, length_scale
        kernel = gaussian_kernel(X, X, length_scale)
        kernel[np.diag_indices_from(kernel)] += ridge
        self._factor = cho_factor(kernel, lower=True, overwrite_a=True, check_finite=False)

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """Weights ``(n,)`` for one query, and the largest absolute one: a public number."""
        kernel = gaussian_kernel(self._X, x[None, :], self._length_scale)[:, 0]
        weights = cho_solve(self._factor, kernel, check_finite=False)
        return weights, float(np.max(np.abs(weights)))


class KernelWeights:
    """Weights ``k(x, x_i)`` in [0, 1]: each depends on its own record, so records are protected."""

    def __init__(self, X: np.ndarray, length_scale: float):
        self._X, self._length_scale = X, length_scale

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """Weights ``(n,)`` for one query, and their public bound 1."""
        with np.errstate(all="ignore"):
            offsets = self._X - x
            # Each row by itself: a weight is bitwise the same in any batch.
            squares = np.einsum("ij,ij->i", offsets, offsets)
            weights = np.exp(squares * (-0.5 / self._length_scale**2))
        return weights, 1.0


@dataclass(frozen=True)
class WeightedMean:
    """DP-RGD for the minimiser of ``sum_i a_i d^2(w, y_i) / 2``, one query's prediction.

    Parameters
    ----------
    ball : GeodesicBall
        On a Hadamard manifold; labels and iterates lie in it.
    mu : float
        Gaussian differential privacy parameter of one query.
    n_steps : int
    clip_norm : float
        Norm to which each label's logarithm is clipped, at most twice the ball's radius.
    density_private : bool
        Whether ``sum_i a_i`` is private (weights in [0, 1] of records) or public.
    start : ndarray of shape ``shape``, optional
        Public or already released.
    largest : float, default=1.0
        Public bound of all ``|a_i|``.

    Notes
    -----
    *Guarantee*: mu-GDP per query.  Public weights, one label replaced: the gradient moves by
    ``|a_i| |u - u'| <= 2 C max|a|`` with ``|u| <= C``.  Weights ``k(x, x_i)`` in [0, 1], one record
    replaced: ``(sqrt(3) C sum a_i, sum a_i u_i)`` moves by at most 2 C.  The squared distance of
    contributions ``(c a, a u)`` and ``(c b, b v)`` is convex in each of a, b: a corner attains the
    maximum, ``c^2 + C^2`` (one weight zero) or ``4 C^2`` (both one); for ``c = sqrt(3) C`` they
    agree, so the density is free.  Means over a person's own rows are no further apart.  Steps
    compose.
    """

    ball: Any
    mu: float
    n_steps: int
    clip_norm: float
    density_private: bool
    start: Any = None
    largest: float = 1.0

    @property
    def step_mu(self) -> float:
        """Mu of one step."""
        return self.mu / math.sqrt(self.n_steps)

    @property
    def bounded_set(self) -> VectorSet:
        """The set of weighted vectors, over the largest weight; the density comes with it."""
        return weighted(self.clip_norm, self.ball.geometry.dim, self.density_private)

    @property
    def sigma(self) -> float:
        """Noise on a gradient per unit of the largest weight."""
        return self.clip_norm * self.bounded_set.sigma(self.bounded_set.check(self.step_mu))

    def release(self, units: Units, rng: np.random.Generator) -> np.ndarray:
        """A private point near the weighted mean of labels.

        Parameters
        ----------
        units : Units
            Labels ``(n, *shape)`` and their weights ``(n,)``; what a person gives is the mean over
            own rows.
        rng : numpy.random.Generator
        """
        geometry, point, bounded_set, mu = (
            self.ball.geometry,
            self.start,
            self.bounded_set,
            self.step_mu,
        )
        dim, largest = geometry.dim, self.largest
        expect_integers(rng, self.n_steps * (dim + 1))
        sigma = self.sigma * largest
        if self.density_private:
            # The same sum is asked in every step; the average of the answers costs as much.
            noisy = private_sum(
                units,
                lambda rows, a: (np.zeros((len(a), dim)), a / largest),
                bounded_set,
                mu,
                rng,
                part=slice(dim, None),
                averaged=self.n_steps,
            )
            size = largest * float(noisy.value[0]) / WEIGHT_UNIT
        else:
            size = float(np.sum(np.abs(units.arrays[1])))
        size = max(size, sigma / self.clip_norm / math.sqrt(self.n_steps))
        for step in range(self.n_steps):

            def give(rows: np.ndarray, a: np.ndarray, at: np.ndarray = point) -> tuple:
                a = a / largest
                return a[:, None] * np.asarray(geometry.log_coordinates(at, rows)), a

            noisy = private_sum(units, give, bounded_set, mu, rng, part=slice(dim))
            total = largest * self.clip_norm * noisy.value
            move = signal_share(total, sigma) * total / size / math.sqrt(step + 1.0)
            move *= min(1.0, self.ball.radius / max(float(np.linalg.norm(move)), 1e-300))
            point = self.ball.project(np.asarray(geometry.exp_coordinates(point, move))[None])[0]
        return point


class QueryServer:
    """Holds records and answers a declared number of queries, each by one private release.

    Repeated queries get the stored answer and cost nothing.  An answer that was interrupted can be
    asked for again: it has the same noise, so it is the same release.  The records stay in the
    process that fitted: a pickle or copy carries the answers given so far, no records, and answers
    nothing new, since two copies with one counter each would spend the budget twice.

    Parameters
    ----------
    release : WeightedMean
    weights : KernelRidgeWeights or KernelWeights
    labels : Units
        Of shape ``(n, *shape)``, and whose they are.
    n_queries : int
    streams : NoiseStreams
    """

    def __init__(
        self,
        release: WeightedMean,
        weights: KernelWeights | KernelRidgeWeights,
        labels: Units,
        n_queries: int,
        streams: NoiseStreams,
    ):
        self.release, self.n_queries = release, n_queries
        self._answers: dict[Any, Any] = {}
        streams = streams.repeatable("queries")
        alone = Alone(PublicRuntimeError("an answer was asked for in the middle of another one."))
        self._private = (weights, labels, streams, alone, this_process())

    @property
    def n_answered(self) -> int:
        """Distinct queries answered so far."""
        return len(self._answers)

    @property
    def can_answer(self) -> bool:
        """Whether this object holds the records (it is the fitted original, in its process)."""
        return self._private is not None and self._private[-1] == this_process()

    def answer(self, queries: np.ndarray) -> np.ndarray | None:
        """Points ``(m, *shape)`` for scaled queries ``(m, d)``; None if the budget is too small.

        Nothing is released unless all of `queries` can be answered.
        """
        queries = np.ascontiguousarray(queries, dtype=float) + 0.0  # one zero, not two
        keys = [hashlib.blake2b(row.tobytes(), digest_size=32).digest() for row in queries]
        if not self.can_answer:
            known = all(key in self._answers for key in keys)
            return np.stack([self._answers[key] for key in keys]) if known else None
        weights, labels, streams, alone, _ = self._private
        with alone:
            new = dict(zip(keys, queries, strict=True))
            new = {key: row for key, row in new.items() if key not in self._answers}
            if len(new) + self.n_answered > self.n_queries:
                return None
            for key, row in new.items():
                values, largest = weights(row)
                # The stream is named by the query, so seeded answers do not depend on the order.
                rng = streams("query", key)
                asked = dataclasses.replace(self.release, largest=largest)
                units = Units((*labels.arrays, values), labels.groups)
                self._answers[key] = asked.release(units, rng)
            return np.stack([self._answers[key] for key in keys])

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_private": None}
