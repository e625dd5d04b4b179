"""Ridge regression of tangent labels on features, from second moments released once."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np

from skriemdp._groups import Groups
from skriemdp.mechanisms.bounds import shortened
from skriemdp.mechanisms.integer_products import IntegerFactors
from skriemdp.mechanisms.lifted_moments import LiftedMoments
from skriemdp.mechanisms.vector import GaussianNoise
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.sensitivity import ball_sensitivity, computed_sum_sensitivity

__all__ = ["MomentModel"]

_TILE = 4096


@dataclasses.dataclass(frozen=True)
class MomentModel:
    """Ridge regression of clipped tangent labels on features, from noisy moments.

    Parameters
    ----------
    n : int
    shape : tuple of int
        Numbers of features, which have norm one, and of dimensions of the labels.
    mu : float
    clip_norm : float
        Length to which labels are clipped in the tangent space at the base point.
    ridge : float or None
        Added to the second moments (sums, not means); half the size of their noise by default.
    features_private : bool
        Whether features are protected too.  If not, the second moments are used as they are and
        only the products with the labels get noise.
    exact : bool, default=False
        Add integers, and discrete Gaussian integers to them (docs/theory/lattice.md).
    grouped : bool, default=False
        Whether records are people who own several rows; their features are private.

    Notes
    -----
    *Guarantee*: exactly mu-GDP.  Records: one release of the second moments of features and labels
    together, :class:`skriemdp.mechanisms.lifted_moments.LiftedMoments`.  Labels: ``sum phi_i v_i'``
    changes by ``|phi_i| |v_i - v_i'| <= 2 clip_norm``.
    """

    n: int
    shape: tuple[int, int]
    mu: float
    clip_norm: float
    ridge: float | None
    features_private: bool
    exact: bool = False
    grouped: bool = False

    @property
    def event(self) -> GaussianEvent:
        """What the release costs."""
        return GaussianEvent(1.0 / self.mu)

    @functools.cached_property
    def moments(self) -> LiftedMoments:
        """The release of private features and labels."""
        norms = (1.0, self.clip_norm)
        settings = {"exact": self.exact, "grouped": self.grouped}
        return LiftedMoments(self.shape, norms, self.n, 1.0 / self.mu, **settings)

    @functools.cached_property
    def lattice(self) -> object:
        """The integers of a record; ValueError where they would be too coarse."""
        if self.features_private:
            return self.moments.lattice
        return self._factors

    @property
    def _factors(self) -> IntegerFactors:
        return IntegerFactors(*self.shape, 1.0 / self.mu)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each entry of ``sum phi v'``."""
        if self.features_private:
            return self.moments.product_sigma
        if self.exact:
            return self._factors.sigma(self.clip_norm)
        return self._label_noise.sigma

    @property
    def _label_noise(self) -> GaussianNoise:
        total = ball_sensitivity(self.clip_norm)
        bound = computed_sum_sensitivity(total, self.clip_norm, self.n, sum(self.shape))
        return GaussianNoise(bound, 1.0 / self.mu)

    def release(
        self,
        features: np.ndarray,
        labels: np.ndarray,
        rng: np.random.Generator,
        progress: Callable[..., None] | None = None,
        groups: Groups | None = None,
    ) -> np.ndarray:
        """Private weights ``(n_features, dim)``; arguments as in :meth:`WrappedModel.release`."""
        if self.features_private:
            moment, product, _ = self.moments.release(features, labels, rng, groups)
        else:
            moment, product = features.T @ features, self._products(features, labels, rng)
        ridge = self.ridge
        if ridge is None:
            ridge = 0.5 * self.sigma / self.clip_norm * math.sqrt(2.0 * len(moment))
        values, vectors = np.linalg.eigh(moment)
        values = np.maximum(values, 0.0) + ridge
        return vectors @ ((vectors.T @ product) / values[:, None])

    def _products(
        self, features: np.ndarray, labels: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Noisy ``sum phi v'`` for public features."""
        if not self.exact:
            product = features.T @ shortened(labels, self.clip_norm)
            return self._label_noise.release(product, rng)
        lattice = self._factors
        total = lattice.start()
        for begin in range(0, len(features), _TILE):
            rows = slice(begin, begin + _TILE)
            left, lengths = lattice.round_left(features[rows])
            lattice.add(total, left, lattice.round_right(labels[rows], lengths, self.clip_norm))
        return lattice.release(total, self.clip_norm, rng)
