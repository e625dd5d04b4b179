"""Ridge regression of tangent labels on features, from second moments released once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._descent.releases import Evidence
from skriemdp._location_scale.row_releases import COUNT_SHARE
from skriemdp._mechanisms.bounded_sets import Moment, Outer
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._mechanisms.counts import GaussianCount
from skriemdp._mechanisms.lifts import Lifts
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._regression.features import FeatureMap
from skriemdp._regression.planning import MODEL
from skriemdp.geometry import Hyperboloid


@dataclass(frozen=True)
class MomentModel:
    """Ridge regression of clipped tangent labels on features, from noisy moments.

    Parameters
    ----------
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
    grouped : bool, default=False
        Whether records are people who own several rows; their features are private.

    Notes
    -----
    *Guarantee*: mu-GDP.  Records: one release of the second moments of features and labels
    together, :class:`skriemdp._mechanisms.lifts.Lifts`.  Labels: ``sum phi_i v_i'`` changes by
    ``|phi_i| |v_i - v_i'| <= 2 clip_norm``.
    """

    shape: tuple[int, int]
    mu: float
    clip_norm: float
    ridge: float | None
    features_private: bool
    grouped: bool = False

    @property
    def _lifts(self) -> Lifts:
        return Lifts(self.shape, (1.0, self.clip_norm), self.mu, people=self.grouped)

    @property
    def bounded_set(self) -> Moment | Outer:
        """The set of what a record adds."""
        return (
            self._lifts.bounded_set if self.features_private else Outer(self.clip_norm, *self.shape)
        )

    @property
    def step_mu(self) -> float:
        """Mu of the only release."""
        return self.mu

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each entry of ``sum phi v'``."""
        if self.features_private:
            return self._lifts.sigmas[1]
        return self.bounded_set.sigma(self.bounded_set.check(self.mu))

    def release(self, units: Units, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """Release as :meth:`WrappedModel.release` does."""
        moment, product = self.moments_and_products(units, rng)
        evidence = Evidence()
        evidence.see(product / self.sigma, product.size)
        return self.weights(moment, product), evidence.most

    def moments_and_products(
        self, units: Units, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """``sum phi phi'`` and ``sum phi v'`` of features and labels, with noise where private."""
        if self.features_private:
            return self._lifts.release(units, rng)[:2]
        products = private_sum(units, lambda *rows: rows, self.bounded_set, self.mu, rng)
        features, _ = units.arrays
        return features.T @ features, products.value

    def weights(self, moment: np.ndarray, product: np.ndarray, n_tables: int = 1) -> np.ndarray:
        """Solve for the weights; moments have the noise of so many releases, of disjoint tables."""
        ridge = self.ridge
        if ridge is None:
            sigma = math.sqrt(n_tables) * self.sigma
            ridge = 0.5 * sigma / self.clip_norm * math.sqrt(2.0 * len(moment))
        values, vectors = np.linalg.eigh(moment)
        values = np.maximum(values, 0.0) + ridge
        return vectors @ ((vectors.T @ product) / values[:, None])


@dataclass(frozen=True, eq=False)
class MomentSums:
    """The release of :class:`MomentModel` in two halves: noisy sums, and what they say.

    Parameters
    ----------
    model : MomentModel
        Of private features.
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

    @classmethod
    def planned(cls, model: MomentModel, budget: GaussianBudget, *known: Any) -> MomentSums:
        """Plan a count of records and the model with all of a budget."""
        count = budget.count(COUNT_SHARE)
        return cls(dataclasses.replace(model, mu=budget.rest(MODEL)), count, *known)

    @property
    def size(self) -> int:
        """Number of sums."""
        features, dim = self.model.shape
        return 1 + features * (features + dim)

    def noisy(self, records: Units, streams: Callable[..., np.random.Generator]) -> np.ndarray:
        """Number of records that are cut, and the moments, with noise; one vector."""
        (X, labels), groups = records.arrays, records.groups
        beyond = self.features.count_clipped(Units((X,), groups))
        outside = self.count.release(beyond, streams("clipped fraction"))
        space = Hyperboloid(self.model.shape[1])
        coordinates = np.asarray(space.log_coordinates(self.base, self.points(labels)))
        units = Units((self.features(X), coordinates), groups)
        parts = self.model.moments_and_products(units, streams("model"))
        return np.concatenate([[outside], *(part.ravel() for part in parts)])

    def weights(self, noisy: np.ndarray, n_tables: int) -> np.ndarray:
        """The model's weights from noisy sums over so many tables."""
        features, dim = self.model.shape
        end = 1 + features**2
        moment = noisy[1:end].reshape(features, features)
        return self.model.weights(moment, noisy[end:].reshape(features, dim), n_tables)
