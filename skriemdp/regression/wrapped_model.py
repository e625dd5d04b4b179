"""The wrapped model ``exp_b(W phi(x))``: unit features, geodesic Huber loss, DP descent."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp._random import public_generator
from skriemdp._validation import check_count, check_positive
from skriemdp.mechanisms.covariance import JointMoments
from skriemdp.mechanisms.vector import GaussianNoise
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.sensitivity import (
    ball_sensitivity,
    computed_sum_sensitivity,
    mean_sensitivity,
)

__all__ = [
    "FeatureMap",
    "MomentModel",
    "WrappedModel",
    "geodesic_gradients",
]

# Covers the rounding of feature norms and of clipped gradients.
_UP = 1.0 + 1e-12
# Rows whose features and gradients are worked on at once; a few megabytes.
_TILE = 4096


@dataclasses.dataclass(frozen=True, eq=False)
class FeatureMap:
    """Random Fourier features of norm one, drawn without data.

    ``phi(x) = (cos w_j'x, sin w_j'x)_j / sqrt(n_frequencies)`` with ``w_j ~ N(0, I /
    length_scale^2)``: the inner product of two of them estimates the Gaussian kernel (Rahimi and
    Recht 2007), and ``|phi(x)| = 1`` whatever x is, so features need no bound for privacy.

    Parameters
    ----------
    n_inputs : int
    n_frequencies : int
    length_scale : float
        In units of `scale`.
    scale : float or array of shape (n_inputs,)
        Public scale of the inputs, which are divided by it.
    limit : float
        Scaled inputs are clipped to ``[-limit, limit]``.
    seed : int
        Public seed of the frequencies.
    """

    n_inputs: int
    n_frequencies: int
    length_scale: float
    scale: float | np.ndarray
    limit: float
    seed: int
    frequencies: np.ndarray = dataclasses.field(init=False, repr=False)

    def __post_init__(self):
        check_count(n_inputs=self.n_inputs, n_frequencies=self.n_frequencies)
        check_positive(length_scale=self.length_scale)
        rng = public_generator(self.seed, "random Fourier features")
        frequencies = rng.standard_normal((self.n_frequencies, self.n_inputs)).T / self.length_scale
        object.__setattr__(self, "frequencies", frequencies)

    def scaled(self, X):
        """Inputs over their scale, clipped."""
        with np.errstate(over="ignore"):
            return np.clip(X / self.scale, -self.limit, self.limit)

    def __call__(self, X):
        """Features of shape ``(n, 2 n_frequencies)``."""
        half = self.n_frequencies
        features = np.empty((len(X), 2 * half))
        for begin in range(0, len(X), _TILE):
            rows = slice(begin, begin + _TILE)
            angles = self.scaled(X[rows]) @ self.frequencies
            np.cos(angles, out=features[rows, :half])
            np.sin(angles, out=features[rows, half:])
        features *= 1.0 / math.sqrt(half)
        return features


def geodesic_gradients(z, directions, lengths):
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


def _clip_columns(gradients, clip_norm):
    """Columns scaled to norm <= `clip_norm`, in place; those that are not finite become zero."""
    norms = np.sqrt(np.einsum("ij,ij->j", gradients, gradients))
    scale = clip_norm / np.maximum(norms, clip_norm)
    usable = np.isfinite(norms)
    if not usable.all():
        scale = np.where(usable, scale, 0.0)
        gradients[:, ~usable] = 0.0
    gradients *= scale
    return gradients


@dataclasses.dataclass(frozen=True)
class WrappedModel:
    """DP gradient descent for the weights W of ``exp_b(W' phi(x))`` at curvature -1.

    Parameters
    ----------
    n : int
    mu : float
        Gaussian differential privacy parameter of the whole run.
    n_steps : int
    step_size : float
    clip_norm : float
        Norm to which the gradient of half the squared distance in ``W' phi(x_i)`` is clipped: the
        loss is a Huber loss on the manifold.
    momentum : float
        Heavy-ball momentum; of released gradients only.

    Notes
    -----
    *Guarantee*: mu-GDP under replacement of one record, n public.  A record adds ``phi_i g_i'`` to
    the gradient, of Frobenius norm ``|phi_i| |g_i| <= clip_norm``, so the mean changes by at most
    ``2 clip_norm / n``; the bound is the same when only the label is replaced, ``|g_i - g_i'| <= 2
    clip_norm``.  Every step adds Gaussian noise of standard deviation ``2 clip_norm sqrt(n_steps) /
    (n mu)`` to every entry.  Averaging iterates and momentum are post-processing.
    """

    n: int
    mu: float
    n_steps: int
    step_size: float
    clip_norm: float
    momentum: float = 0.0

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
        return self._noise.sigma

    @property
    def _noise(self):
        total = computed_sum_sensitivity(
            ball_sensitivity(self.clip_norm), self.clip_norm, self.n, 1, _TILE
        )
        return GaussianNoise(mean_sensitivity(total, self.n), self.noise_multiplier)

    def mean_gradient(self, weights, features, directions, lengths):
        """Clipped mean gradient ``(n_features, dim)``; tile by tile, two products each."""
        total = np.zeros(weights.shape[::-1])
        with np.errstate(all="ignore"):
            for begin in range(0, len(features), _TILE):
                rows = slice(begin, begin + _TILE)
                z = weights.T @ features[rows].T
                gradients = geodesic_gradients(z, directions[:, rows], lengths[rows])
                total += _clip_columns(gradients, self.clip_norm) @ features[rows]
        return total.T / self.n

    def release(self, features, labels, rng, progress=None):
        """Private weights ``(n_features, dim)``.

        Parameters
        ----------
        features : ndarray of shape (n, n_features)
            Rows of norm at most one.
        labels : ndarray of shape (n, dim)
            Normal coordinates of the labels at the base point, public or already released.
        rng : numpy.random.Generator
        progress : callable, optional
            ``progress(step, n_steps)`` after each step.
        """
        lengths = np.linalg.norm(labels, axis=1)
        directions = np.ascontiguousarray((labels / np.maximum(lengths, 1e-150)[:, None]).T)
        weights = np.zeros((features.shape[1], labels.shape[1]))
        velocity, average = np.zeros_like(weights), np.zeros_like(weights)
        first, mechanism = self.n_steps // 2, self._noise
        for step in range(self.n_steps):
            gradient = self.mean_gradient(weights, features, directions, lengths)
            gradient = mechanism.release(gradient, rng)
            velocity = self.momentum * velocity - self.step_size * gradient
            weights = weights + velocity
            if step >= first:
                average += weights / (self.n_steps - first)
            if progress is not None:
                progress(step + 1, self.n_steps)
        return average


@dataclasses.dataclass(frozen=True)
class MomentModel:
    """Ridge regression of clipped tangent labels on features, from noisy moments.

    Parameters
    ----------
    mu : float
    clip_norm : float
        Length to which labels are clipped in the tangent space at the base point.
    ridge : float or None
        Added to the second moments (sums, not means); half the size of their noise by default.
    features_private : bool
        Whether features are protected too.  If not, the second moments are used as they are and
        only the products with the labels get noise.

    Notes
    -----
    *Guarantee*: exactly mu-GDP.  Records: one joint release of ``(sum phi phi', sum phi v')``,
    :class:`skriemdp.mechanisms.covariance.JointMoments`.  Labels: ``sum phi_i v_i'`` changes by
    ``|phi_i| |v_i - v_i'| <= 2 clip_norm``.
    """

    mu: float
    clip_norm: float
    ridge: float | None
    features_private: bool

    @property
    def event(self) -> GaussianEvent:
        """What the release costs."""
        return GaussianEvent(1.0 / self.mu)

    @property
    def moments(self) -> JointMoments:
        """The joint mechanism of private features."""
        return JointMoments(_UP, self.clip_norm * _UP, 1.0 / self.mu)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each entry of ``sum phi v'``."""
        if self.features_private:
            return self.moments.product_sigma
        return self._label_noise.sigma

    @property
    def _label_noise(self):
        return GaussianNoise(ball_sensitivity(self.clip_norm * _UP), 1.0 / self.mu)

    def release(self, features, labels, rng, progress=None):
        """Private weights ``(n_features, dim)``; arguments as in :meth:`WrappedModel.release`."""
        labels = _clip_columns(labels.T.copy(), self.clip_norm).T
        moment, product = features.T @ features, features.T @ labels
        if self.features_private:
            moment, product = self.moments.release(moment, product, rng)
        else:
            product = self._label_noise.release(product, rng)
        ridge = self.ridge
        if ridge is None:
            ridge = 0.5 * self.sigma / self.clip_norm * math.sqrt(2.0 * len(moment))
        values, vectors = np.linalg.eigh(moment)
        values = np.maximum(values, 0.0) + ridge
        return vectors @ ((vectors.T @ product) / values[:, None])
