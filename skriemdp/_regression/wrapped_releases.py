"""The wrapped model ``exp_b(W phi(x))``: geodesic Huber loss, DP descent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._descent.releases import Evidence
from skriemdp._errors import PublicValueError
from skriemdp._location_scale.rows import row_products
from skriemdp._mechanisms.bounded_sets import Outer, RoundedRows, VectorSet, ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.noise import expect_integers
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._progress import counted


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
    times ``(sinh(r - s) + q sinh(s) (cosh r - sinh(r)/r)) u - sinh(s) (sinh(r)/r) (e - u)``:
    sums of terms of one sign, accurate at any distance.
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


@dataclass(frozen=True)
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
    grouped : bool, default=False
        Whether records are people who own several rows: a person adds the mean of own rows' ``phi
        g'``, clip_norms to `clip_norm` after averaging.

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
    grouped: bool = False

    @property
    def step_mu(self) -> float:
        """Mu of one step."""
        return self.mu / math.sqrt(self.n_steps)

    @property
    def bounded_set(self) -> Outer | VectorSet:
        """The set of what a record adds."""
        if self.grouped:
            return ball(Ball(self.clip_norm), math.prod(self.shape))
        return self._products

    @property
    def _products(self) -> Outer:
        return Outer(self.clip_norm, *self.shape)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each entry of the mean gradient."""
        return self.bounded_set.sigma(self._steps) / self.n

    @property
    def _steps(self) -> int:
        return self.bounded_set.check(self.step_mu)

    def prepared(self, units: Units) -> Units:
        """Convert the units of :meth:`release` to those of :meth:`gradient`."""
        (features, labels), groups = units.arrays, units.groups
        lengths = np.linalg.norm(labels, axis=1)
        directions = labels / np.maximum(lengths, 1e-150)[:, None]
        if groups is None:
            rounded = self._products.rounded(features, self._steps)
            return Units((rounded, directions, lengths))
        people = []  # in tiles of people with as many rows, of which some count for nothing
        for chosen, rows, inside in groups.blocks(4096):
            shares = np.where(inside, 1.0 / groups.sizes[chosen, None], 0.0)
            people.append((features[rows], directions[rows], lengths[rows], shares))
        return Units((people,))

    def gradient(self, weights: np.ndarray, units: Units, rng: np.random.Generator) -> np.ndarray:
        """Noisy mean of clipped gradients."""
        noisy = private_sum(units, self.gives(weights), self.bounded_set, self.step_mu, rng)
        return noisy.value.reshape(self.shape) / self.n

    def gives(self, weights: np.ndarray) -> Callable[..., Any]:
        """Return a function to gradients of records: factors of products, or people's means."""

        def products(
            rows: RoundedRows, directions: np.ndarray, lengths: np.ndarray
        ) -> tuple[RoundedRows, np.ndarray]:
            # Scores of the rounded features: any function of a record may be asked.
            z = row_products(rows.rows, weights / self._products.resolution(self._steps))
            return rows, geodesic_gradients(z.T.copy(), directions.T.copy(), lengths).T

        def means(
            features: np.ndarray, directions: np.ndarray, lengths: np.ndarray, shares: np.ndarray
        ) -> np.ndarray:
            z = np.matmul(features, weights).reshape(-1, self.shape[1])
            flat = directions.reshape(z.shape)
            found = geodesic_gradients(z.T.copy(), flat.T.copy(), lengths.ravel()).T
            found = found.reshape(directions.shape) * shares[:, :, None]
            found = np.where(np.isfinite(found) & (shares > 0.0)[:, :, None], found, 0.0)
            return np.matmul(features.transpose(0, 2, 1), found).reshape(len(features), -1)

        return means if self.grouped else products

    def release(self, units: Units, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """Private weights ``(n_features, dim)``, and what its gradients show beyond their noise.

        Parameters
        ----------
        units : Units
            Features ``(n, n_features)``, rows of norm at most one, and normal coordinates ``(n,
            dim)`` of the labels at the base point, which is public or already released.
        rng : numpy.random.Generator
        """
        if (units.groups is not None) != self.grouped:
            raise PublicValueError(
                "grouped=True needs units with groups, and nothing else takes them."
            )
        units, weights = self.prepared(units), np.zeros(self.shape)
        velocity, average = np.zeros_like(weights), np.zeros_like(weights)
        first, sigma, evidence = self.n_steps // 2, self.sigma, Evidence()
        expect_integers(rng, self.n_steps * weights.size)
        for step in counted("regression", self.n_steps):
            gradient = self.gradient(weights, units, rng)
            evidence.see(gradient / sigma, gradient.size)
            velocity = self.momentum * velocity - self.step_size * gradient
            weights = weights + velocity
            if step >= first:
                average += weights / (self.n_steps - first)
        return average, evidence.most
