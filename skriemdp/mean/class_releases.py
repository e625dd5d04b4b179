"""Sums of a ball's tangent vectors by class, with noise; and the class means that they give."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from skriemdp._groups import Groups
from skriemdp.geometry import Geometry
from skriemdp.geometry._tiles import map_tiles
from skriemdp.mean.noise_shape import NoiseShape
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.budget import GaussianBudget, PureBudget
from skriemdp.mechanisms.counts import GaussianCount, LaplaceCount, SumsAndCounts
from skriemdp.mechanisms.pure_sums import PureSumsAndCounts
from skriemdp.privacy.sensitivity import ball_sensitivity, computed_sum_sensitivity

__all__ = ["ClassSums", "drawn_together"]

# Of the squared distances between class means: the least part that noise must leave unexplained,
# and by how many of its standard deviations they must exceed it.
_LEAST_KEPT, _STANDS_OUT = 0.25, 3.0


@dataclasses.dataclass(frozen=True, eq=False)
class _Rows:
    """What is added to the sums of the classes: vectors at the centre, of which class, of whom."""

    vectors: np.ndarray
    labels: np.ndarray
    owners: np.ndarray
    weights: np.ndarray | None = None

    def count_outside(self, radius: float) -> int:
        """Number of owners with a vector longer than `radius`."""
        outside = ~(np.linalg.norm(self.vectors, axis=1) <= radius)
        return len(np.unique(self.owners[outside]))


def _by_person(
    groups: Groups, coordinates: np.ndarray, labels: np.ndarray, n_classes: int
) -> _Rows:
    """What people contribute: means of own `coordinates` by class.

    A person who shows K classes has weight ``1 / sqrt(K)`` in each (docs/theory/groups.md,
    proposition 3).
    """
    owners = np.empty(len(labels), dtype=np.intp)
    owners[groups.order] = groups.owners()
    keys = owners * n_classes + labels
    pairs = Groups.from_ids(keys)
    shown = keys[pairs.order[pairs.starts]]
    owners, labels = shown // n_classes, shown % n_classes
    classes = np.bincount(owners, minlength=groups.count)
    # Squares of the weights must not add up to more than one by rounding.
    weights = (1.0 - 2.0**-50) / np.sqrt(classes[owners])
    return _Rows(pairs.means(coordinates[pairs.order]), labels, owners, weights)


def drawn_together(means: np.ndarray, noise: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Noisy means moved towards their common mean, all by one factor; post-processing.

    The factor is the part of their squared distances to it, weighted by the squared sizes, that
    noise does not explain (James and Stein 1961).  Where that is small nothing moves: which means
    differ is then a guess, and means in one place tell no classes apart.

    Parameters
    ----------
    means : ndarray of shape (k, dim)
    noise : ndarray of shape (k,)
        Standard deviation of every coordinate of a mean.
    sizes : ndarray of shape (k,)
        Weights of the common mean.
    """
    weights = sizes / sizes.sum()
    common = weights @ means
    apart = means - common
    # Weighted, so that the noise of a class that nobody belongs to does not drown the others.
    explained = means.shape[1] * float((weights * noise) ** 2 @ (1.0 - weights))
    seen = float(weights**2 @ np.sum(apart**2, axis=1))
    keep = 1.0 - explained / max(seen, 1e-300)
    most = 1.0 + _STANDS_OUT * math.sqrt(2.0 / means.size)
    return common + keep * apart if keep >= max(_LEAST_KEPT, 1.0 - 1.0 / most) else means


@dataclasses.dataclass(frozen=True, eq=False)
class ClassSums:
    """Class means in a ball, in two halves: noisy sums over a table, and what they say.

    Noisy sums over disjoint tables add up to noisy sums over all of them, so the tables may lie in
    different places.

    Parameters
    ----------
    geometry : Geometry
    center : ndarray of shape ``point_shape``
        Public, or released.
    radius : float
        Longer vectors are shortened to it; public, or released.
    n_classes : int
    count : GaussianCount or LaplaceCount
        Noise for the number of records outside the ball.
    mechanism : SumsAndCounts or PureSumsAndCounts
        Noise for the sums and sizes of all classes.
    exact : bool
        Add integers, and discrete Gaussian integers to them.
    grouped : bool
        Whether records are people with several rows.
    shape : NoiseShape or None
        Behind which vectors are shortened and get their noise; None for round noise.

    Notes
    -----
    *Guarantee*: that of `count` and `mechanism` together, for each table by itself.
    """

    geometry: Geometry
    center: np.ndarray
    radius: float
    n_classes: int
    count: GaussianCount | LaplaceCount
    mechanism: SumsAndCounts | PureSumsAndCounts
    exact: bool
    grouped: bool
    shape: NoiseShape | None = None

    @classmethod
    def planned(
        cls,
        geometry: Geometry,
        center: np.ndarray,
        radius: float,
        n_classes: int,
        count: GaussianCount | LaplaceCount,
        budget: GaussianBudget | PureBudget,
        exact: bool,
        grouped: bool,
        shape: NoiseShape | None = None,
    ) -> ClassSums:
        """Noise for what is left of the budget."""
        mechanism: SumsAndCounts | PureSumsAndCounts
        if isinstance(budget, PureBudget):
            mechanism = PureSumsAndCounts(geometry.dim, radius, budget.rest())
        else:
            mechanism = SumsAndCounts(radius, 1.0 / budget.rest())
        return cls(geometry, center, radius, n_classes, count, mechanism, exact, grouped, shape)

    @property
    def size(self) -> int:
        """Number of sums."""
        return 1 + self.n_classes * (self.geometry.dim + 1)

    def noisy(
        self, arrays: tuple, groups: Groups | None, streams: Callable[..., np.random.Generator]
    ) -> np.ndarray:
        """Number outside the ball, sums and sizes of all classes, with noise; one vector.

        Parameters
        ----------
        arrays : tuple of ndarray
            Points and the places of their labels in the class list.
        groups : Groups or None
            Whose they are.
        streams : callable
            ``streams("label")`` is the generator of a release.
        """
        points, labels = arrays
        coordinates = np.asarray(
            map_tiles(lambda block: self.geometry.log_coordinates(self.center, block), points)
        )
        if self.shape is not None:
            coordinates = self.shape.enter(coordinates)
        rows = _Rows(coordinates, labels, np.arange(len(labels)))
        if groups is not None:
            rows = _by_person(groups, coordinates, labels, self.n_classes)
        outside = self.count.release(rows.count_outside(self.radius), streams("clipped fraction"))
        n = len(labels) if groups is None else groups.count
        sums, counts = self._noisy_classes(rows, n, streams("class means"))
        return np.concatenate([[outside], sums.ravel(), counts])

    def _noisy_classes(
        self, rows: _Rows, n: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Class-wise sums of the vectors, each shortened to the radius, and their numbers.

        Of floats the vectors are shorter by what rounding adds (docs/theory/floats.md).
        """
        vectors, labels, weights = rows.vectors, rows.labels, rows.weights
        if self.exact:
            assert isinstance(self.mechanism, SumsAndCounts)
            return self.mechanism.release_rows(vectors, labels, self.n_classes, rng, weights)
        sums = np.zeros((self.n_classes, self.geometry.dim))
        exact, largest = (
            ball_sensitivity(1.0),
            math.sqrt(8.0 * (self.n_classes if self.grouped else 1)),
        )
        computed = computed_sum_sensitivity(exact, largest, n, self.size)
        shortened = Ball(self.radius * exact.value / computed.value).enforce(vectors)
        np.add.at(sums, labels, shortened if weights is None else weights[:, None] * shortened)
        counts = np.bincount(labels, weights, minlength=self.n_classes).astype(float)
        return self.mechanism.release(sums, counts, rng)

    def finish(self, noisy: np.ndarray, n_tables: int = 1) -> tuple[float, np.ndarray, np.ndarray]:
        """Number outside the ball, class means ``(n_classes, *shape)``, and class sizes.

        `n_tables` is the number of tables whose noise is in the sums.
        """
        k, dim = self.n_classes, self.geometry.dim
        sums, counts = noisy[1 : 1 + k * dim].reshape(k, dim), noisy[1 + k * dim :]
        sizes = np.maximum(counts, 1.0)
        noise = math.sqrt(n_tables) * self.mechanism.sum_sigma / sizes
        means = drawn_together(sums / sizes[:, None], noise, sizes)
        norms = np.linalg.norm(means, axis=1, keepdims=True)
        means *= np.minimum(1.0, self.radius / np.maximum(norms, 1e-300))
        if self.shape is not None:
            means = self.shape.leave(means)
        points = np.asarray(self.geometry.exp_coordinates(self.center, means))
        return float(noisy[0]), points, np.maximum(counts, 0.0)

    def noise_scale(self, n: int, n_tables: int = 1) -> float:
        """Noise per tangent coordinate of a class of ``n / n_classes`` records.

        Parameters
        ----------
        n : int
            Number of records, or of people, who are taken to show all classes.
        n_tables : int
            Number of tables whose noise is in the sums.
        """
        shown = math.sqrt(self.n_classes) if self.grouped else self.n_classes
        shape = 1.0 if self.shape is None else self.shape.noise
        return math.sqrt(n_tables) * self.mechanism.sum_sigma * shape * shown / n
