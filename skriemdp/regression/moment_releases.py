"""Ridge regression of tangent labels on features, from second moments released once."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np

from skriemdp._groups import Groups
from skriemdp.geometry import Hyperboloid
from skriemdp.mechanisms.bounds import shortened
from skriemdp.mechanisms.budget import GaussianBudget
from skriemdp.mechanisms.counts import GaussianCount
from skriemdp.mechanisms.integer_products import IntegerFactors
from skriemdp.mechanisms.lifted_moments import LiftedMoments
from skriemdp.mechanisms.vector import GaussianNoise
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.sensitivity import ball_sensitivity, computed_sum_sensitivity
from skriemdp.regression.features import FeatureMap

__all__ = ["MomentModel", "MomentSums"]

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
        return GaussianBudget(self.mu).event

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
        groups: Groups | None = None,
    ) -> np.ndarray:
        """Private weights ``(n_features, dim)``; arguments as in :meth:`WrappedModel.release`."""
        return self.weights(*self.moments_and_products(features, labels, rng, groups))

    def moments_and_products(
        self,
        features: np.ndarray,
        labels: np.ndarray,
        rng: np.random.Generator,
        groups: Groups | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """``sum phi phi'`` and ``sum phi v'`` of at most n records, with noise where private."""
        if self.features_private:
            return self.moments.release(features, labels, rng, groups)[:2]
        return features.T @ features, self._products(features, labels, rng)

    def weights(self, moment: np.ndarray, product: np.ndarray, n_tables: int = 1) -> np.ndarray:
        """What the moments say; they have the noise of so many releases, of disjoint tables."""
        ridge = self.ridge
        if ridge is None:
            sigma = math.sqrt(n_tables) * self.sigma
            ridge = 0.5 * sigma / self.clip_norm * math.sqrt(2.0 * len(moment))
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


@dataclasses.dataclass(frozen=True, eq=False)
class MomentSums:
    """The release of :class:`MomentModel` in two halves: noisy sums, and what they say.

    Parameters
    ----------
    model : MomentModel
        Of private features, for the number of records of all tables.
    count : GaussianCount
        Noise for the number of records, or people, whose features are cut.
    features : FeatureMap
        With a public centre and scale.
    points : callable
        From labels to points of the hyperboloid.
    base : ndarray
        Public base point.

    Notes
    -----
    *Guarantee*: that of `model` and `count` together, for each table by itself.
    """

    model: MomentModel
    count: GaussianCount
    features: FeatureMap
    points: Callable[[np.ndarray], np.ndarray]
    base: np.ndarray

    @property
    def size(self) -> int:
        """Number of sums."""
        features, dim = self.model.shape
        return 1 + features * (features + dim)

    def noisy(
        self, arrays: tuple, groups: Groups | None, streams: Callable[..., np.random.Generator]
    ) -> np.ndarray:
        """Number of records that are cut, and the moments, with noise; one vector."""
        X, labels = arrays
        outside = self.count.release(self.features.beyond(X, groups), streams("clipped fraction"))
        space = Hyperboloid(self.model.shape[1])
        coordinates = np.asarray(space.log_coordinates(self.base, self.points(labels)))
        seen, rng = self.features(X, apart=groups is not None), streams("model")
        parts = self.model.moments_and_products(seen, coordinates, rng, groups)
        return np.concatenate([[outside], *(part.ravel() for part in parts)])

    def weights(self, noisy: np.ndarray, n_tables: int) -> np.ndarray:
        """The model's weights from noisy sums over so many tables."""
        features, dim = self.model.shape
        end = 1 + features**2
        moment = noisy[1:end].reshape(features, features)
        return self.model.weights(moment, noisy[end:].reshape(features, dim), n_tables)
