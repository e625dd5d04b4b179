"""The wrapped model ``exp_b(W phi(x))``: geodesic Huber loss, DP descent."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator

import numpy as np

from skriemdp._groups import Groups
from skriemdp._progress import counted
from skriemdp.location_scale.rows import RowSum
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.integer_products import IntegerFactors
from skriemdp.mechanisms.integers import IntegerBall
from skriemdp.mechanisms.noise import expect_integers
from skriemdp.mechanisms.sums import noisy_sum, sum_sigma
from skriemdp.mechanisms.vector import GaussianNoise
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.sensitivity import (
    ball_sensitivity,
    computed_sum_sensitivity,
    mean_sensitivity,
)

__all__ = [
    "WrappedModel",
    "clip_columns",
    "geodesic_gradients",
]

# Rows whose features and gradients are worked on at once; a few megabytes.
_TILE = 4096
# Rows of integers that stay in cache for both products.
_CACHED = 512


def geodesic_gradients(z: np.ndarray, directions: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Gradients of half the squared distance from ``exp_o(z_i)`` to the labels, in ``z_i``.

    In hyperbolic space of curvature -1, in normal coordinates at the base point o.

    Parameters
    ----------
    z : ndarray of shape (dim, n)
    directions, lengths : ndarray of shape (dim, n), (n,)
        Unit vectors and lengths of the labels' normal coordinates; a zero length has direction
        zero.

    Returns
    -------
    ndarray of shape (dim, n)

    Notes
    -----
    With ``r = |z|, u = z / r, s = lengths, e = directions, q = 1 - u'e = |u - e|^2 / 2``:
    ``sinh^2(d/2) = sinh^2((r - s)/2) + sinh(r) sinh(s) q / 2`` and the gradient is ``d / sinh d``
    times ``(sinh(r - s) + q sinh(s) (cosh r - sinh(r)/r)) u - sinh(s) (sinh(r)/r) (e - u)``
    (docs/theory/regression.md): sums of terms of one sign, accurate at any distance.
    """
    r = np.sqrt(np.einsum("ij,ij->j", z, z))
    u = z / np.maximum(r, 1e-150)
    across = directions - u
    q = 0.5 * np.einsum("ij,ij->j", across, across)
    grown = np.exp(r)
    shrunk = 1.0 / grown
    sinh_r, cosh_r = 0.5 * (grown - shrunk), 0.5 * (grown + shrunk)
    ratio_r = np.where(r > 1e-5, sinh_r / np.maximum(r, 1e-5), 1.0 + r * r / 6.0)
    sinh_s = np.sinh(lengths)
    half_gap = np.sinh(0.5 * (r - lengths))
    x = np.sqrt(half_gap * half_gap + 0.5 * sinh_r * sinh_s * q)
    y = np.sqrt(1.0 + x * x)
    x = np.maximum(x, 1e-150)
    factor = np.arcsinh(x) / (x * y)
    radial = 2.0 * half_gap * np.sqrt(1.0 + half_gap * half_gap)
    radial += q * sinh_s * (cosh_r - ratio_r)
    return (factor * radial) * u - (factor * ratio_r * sinh_s) * across


def clip_columns(gradients: np.ndarray, clip_norm: float) -> np.ndarray:
    """Columns scaled to norm <= `clip_norm`, in place; those that are not finite become zero."""
    norms = np.sqrt(np.einsum("ij,ij->j", gradients, gradients))
    scale = clip_norm / np.maximum(norms, clip_norm)
    usable = np.isfinite(norms)
    if not usable.all():
        scale = np.where(usable, scale, 0.0)
        gradients[:, ~usable] = 0.0
    gradients *= scale
    return gradients


@dataclasses.dataclass(frozen=True, eq=False)
class _People:
    """Rows of some people, in one slot for each, with as many rows; some count for nothing.

    Attributes
    ----------
    features : ndarray of shape (b, size, n_features)
    directions : ndarray of shape (dim, b * size)
    lengths, shares : ndarray of shape (b * size,)
        `shares` is one over the number of a person's rows, or zero.
    """

    features: np.ndarray
    directions: np.ndarray
    lengths: np.ndarray
    shares: np.ndarray


def _people(
    features: np.ndarray, directions: np.ndarray, lengths: np.ndarray, groups: Groups
) -> list[_People]:
    found, sizes = [], groups.sizes
    for chosen, rows, inside in groups.blocks(_TILE):
        places = rows.ravel()
        shares = np.where(inside, 1.0 / sizes[chosen, None], 0.0).ravel()
        own = np.ascontiguousarray(directions[:, places])
        found.append(_People(features[rows], own, lengths[places], shares))
    return found


@dataclasses.dataclass(frozen=True)
class WrappedModel:
    """DP gradient descent for the weights W of ``exp_b(W' phi(x))`` at curvature -1.

    Parameters
    ----------
    n : int
    shape : tuple of int
        Of W: numbers of features and of dimensions.
    mu : float
        Gaussian differential privacy parameter of the whole run.
    n_steps : int
    step_size : float
    clip_norm : float
        Norm to which the gradient of half the squared distance in ``W' phi(x_i)`` is clipped: the
        loss is a Huber loss on the manifold.
    momentum : float
        Heavy-ball momentum; of released gradients only.
    exact : bool, default=False
        Add integers, and discrete Gaussian integers to them (docs/theory/lattice.md).
    grouped : bool, default=False
        Whether records are people who own several rows: a person adds the mean of own rows' ``phi
        g'``, shortened to `clip_norm` after averaging.

    Notes
    -----
    *Guarantee*: mu-GDP under replacement of one record, n public.  A record adds ``phi_i g_i'`` to
    the gradient, of Frobenius norm ``|phi_i| |g_i| <= clip_norm``, so the mean changes by at most
    ``2 clip_norm / n``; the bound is the same when only the label is replaced, ``|g_i - g_i'| <= 2
    clip_norm``.  Every step adds Gaussian noise of standard deviation ``2 clip_norm sqrt(n_steps) /
    (n mu)`` to every entry.  Averaging iterates and momentum are post-processing.
    """

    n: int
    shape: tuple[int, int]
    mu: float
    n_steps: int
    step_size: float
    clip_norm: float
    momentum: float = 0.0
    exact: bool = False
    grouped: bool = False

    @property
    def event(self) -> GaussianEvent:
        """What the whole run costs."""
        return GaussianEvent(self.noise_multiplier, count=self.n_steps)

    @property
    def noise_multiplier(self) -> float:
        """Noise of one step over its sensitivity."""
        return math.sqrt(self.n_steps) / self.mu

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each entry of the mean gradient."""
        if self.grouped:
            return (
                sum_sigma(self._query(lambda: iter(())), self.noise_multiplier, self.exact) / self.n
            )
        if self.exact:
            return self._factors.sigma(self.clip_norm) / self.n
        return self._noise.sigma

    @property
    def _noise(self) -> GaussianNoise:
        total = computed_sum_sensitivity(
            ball_sensitivity(self.clip_norm), self.clip_norm, self.n, 1, _TILE
        )
        return GaussianNoise(mean_sensitivity(total, self.n), self.noise_multiplier)

    @functools.cached_property
    def lattice(self) -> IntegerFactors | IntegerBall:
        """The integers of a record's gradient; ValueError where they would be too coarse."""
        if self.grouped:
            return IntegerBall(Ball(self.clip_norm), math.prod(self.shape), self.noise_multiplier)
        return self._factors

    @property
    def _factors(self) -> IntegerFactors:
        return IntegerFactors(*self.shape, self.noise_multiplier)

    def _query(self, tiles: Callable[[], Iterator[np.ndarray]]) -> RowSum:
        """The sum of people's gradients, each one row of `tiles`."""
        return RowSum(self.n, math.prod(self.shape), Ball(self.clip_norm), tiles)

    def people_gradients(self, weights: np.ndarray, blocks: list[_People]) -> Iterator[np.ndarray]:
        """Mean gradients of people, not yet shortened, one row each, block by block."""
        for own in blocks:
            with np.errstate(all="ignore"):
                z = np.matmul(own.features, weights).reshape(-1, self.shape[1])
                gradients = geodesic_gradients(
                    np.ascontiguousarray(z.T), own.directions, own.lengths
                )
                usable = np.isfinite(gradients).all(axis=0) & (own.shares > 0.0)
                gradients = np.where(usable, gradients * own.shares, 0.0).T
            right = gradients.reshape(*own.features.shape[:2], -1)
            means = np.matmul(own.features.transpose(0, 2, 1), right)
            yield means.reshape(len(means), -1)

    def _exact_gradient(
        self,
        weights: np.ndarray,
        rows: tuple[IntegerFactors, np.ndarray, np.ndarray],
        directions: np.ndarray,
        lengths: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Noisy clipped mean gradient, from integer features and their lengths."""
        lattice, features, sizes = rows
        total, inner = lattice.start(), weights.T / lattice.resolution
        for begin in range(0, len(features), _CACHED):
            tile = slice(begin, begin + _CACHED)
            with np.errstate(all="ignore"):
                z = inner @ features[tile].T
                gradients = geodesic_gradients(z, directions[:, tile], lengths[tile]).T
            right = lattice.round_right(gradients, sizes[tile], self.clip_norm)
            lattice.add(total, features[tile], right)
        return lattice.release(total, self.clip_norm, rng) / self.n

    def mean_gradient(
        self, weights: np.ndarray, features: np.ndarray, directions: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        """Clipped mean gradient ``(n_features, dim)``; tile by tile, two products each."""
        total = np.zeros(weights.shape[::-1])
        with np.errstate(all="ignore"):
            for begin in range(0, len(features), _TILE):
                rows = slice(begin, begin + _TILE)
                z = weights.T @ features[rows].T
                gradients = geodesic_gradients(z, directions[:, rows], lengths[rows])
                total += clip_columns(gradients, self.clip_norm) @ features[rows]
        return total.T / self.n

    def release(
        self,
        features: np.ndarray,
        labels: np.ndarray,
        rng: np.random.Generator,
        groups: Groups | None = None,
    ) -> np.ndarray:
        """Private weights ``(n_features, dim)``.

        Parameters
        ----------
        features : ndarray of shape (n, n_features)
            Rows of norm at most one.
        labels : ndarray of shape (n, dim)
            Normal coordinates of the labels at the base point, public or already released.
        rng : numpy.random.Generator
        groups : Groups, optional
            Of the rows, where people are the records.
        """
        if (groups is not None) != self.grouped:
            raise ValueError("groups belongs to grouped=True, which needs it.")
        lengths = np.linalg.norm(labels, axis=1)
        directions = np.ascontiguousarray((labels / np.maximum(lengths, 1e-150)[:, None]).T)
        weights = np.zeros(self.shape)
        velocity, average = np.zeros_like(weights), np.zeros_like(weights)
        first, mechanism = self.n_steps // 2, self._noise
        people = [] if groups is None else _people(features, directions, lengths, groups)
        if self.exact:
            if groups is None:
                rows = (self._factors, *self._factors.round_left(features))
            expect_integers(rng, self.n_steps * weights.size)
        for step in counted("regression", self.n_steps):
            if groups is not None:
                now = functools.partial(self.people_gradients, weights, people)
                gradient = noisy_sum(
                    self._query(now), self.noise_multiplier, rng, exact=self.exact
                ).reshape(self.shape)
                gradient = gradient / self.n
            elif self.exact:
                gradient = self._exact_gradient(weights, rows, directions, lengths, rng)
            else:
                gradient = self.mean_gradient(weights, features, directions, lengths)
                gradient = mechanism.release(gradient, rng)
            velocity = self.momentum * velocity - self.step_size * gradient
            weights = weights + velocity
            if step >= first:
                average += weights / (self.n_steps - first)
        return average
