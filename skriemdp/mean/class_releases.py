"""Sums of a ball's tangent vectors by class, with noise; and the class means that they give."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np

from skriemdp._groups import Groups
from skriemdp.geometry import Geometry
from skriemdp.mean.domains import logarithms
from skriemdp.mean.noise_shape import NoiseShape
from skriemdp.mechanisms.counts import GaussianCount, LaplaceCount
from skriemdp.mechanisms.held import VectorSet, labelled
from skriemdp.mechanisms.pure_sums import PureSumsAndCounts
from skriemdp.mechanisms.sum import private_sum
from skriemdp.mechanisms.units import Units

__all__ = ["ClassSums", "drawn_together"]

# Of the squared distances between class means: the least part that noise must leave unexplained,
# and by how many of its standard deviations they must exceed it.
_LEAST_KEPT, _STANDS_OUT = 0.25, 3.0


def _count_outside(units: Units, dim: int, radius: float) -> int:
    """Number of records with a vector longer than `radius`, in whatever class."""
    found = 0
    for vectors, _, *classes in units.tiles(_given, dim, "classes"):
        outside = ~(np.linalg.norm(vectors, axis=1) <= radius)
        if classes:
            people = np.repeat(np.arange(len(classes[0])), classes[0])
            found += len(np.unique(people[outside]))
        else:
            found += int(np.count_nonzero(outside))
    return found


def _given(*rows: np.ndarray) -> tuple[np.ndarray, ...]:
    return rows


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
    rest : float
        What the sums and sizes of all classes cost: mu, or the epsilon of `pure` privacy.
    pure : bool
    grouped : bool
        Whether records are people with several rows: each gives one vector for each class shown,
        the mean of own rows, with weight ``1 / sqrt(classes)`` (docs/theory/groups.md).
    shape : NoiseShape or None
        Behind which vectors are shortened and get their noise; None for round noise.

    Notes
    -----
    *Guarantee*: that of `count`, and `rest`-GDP or pure `rest`-DP, for each table by itself.
    """

    geometry: Geometry
    center: np.ndarray
    radius: float
    n_classes: int
    count: GaussianCount | LaplaceCount
    rest: float
    pure: bool
    grouped: bool
    shape: NoiseShape | None = None

    @functools.cached_property
    def held(self) -> VectorSet:
        """The set of what a record adds."""
        return labelled(self.radius, self.geometry.dim, self.n_classes)

    @functools.cached_property
    def mechanism(self) -> PureSumsAndCounts:
        """Noise of pure privacy."""
        return PureSumsAndCounts(self.geometry.dim, self.radius, self.rest)

    @property
    def sum_sigma(self) -> float:
        """Standard deviation of the noise on every coordinate of a sum."""
        if self.pure:
            return self.mechanism.sum_sigma
        return self.radius * self.held.sigma(self.held.check(self.rest))

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
        vectors = logarithms(self.geometry, self.center, points)
        if self.shape is not None:
            vectors = self.shape.enter(vectors)
        units = Units((vectors, labels), groups)
        outside = _count_outside(units, self.geometry.dim, self.radius)
        released = self.count.release(outside, streams("clipped fraction"))
        rng = streams("class means")
        if self.pure:
            sums, counts = self.mechanism.release_rows(vectors, labels, self.n_classes, rng)
        else:
            noisy = private_sum(units, _given, self.held, self.rest, rng).value
            sums, counts = noisy[:, :-1] * self.radius, noisy[:, -1]
        return np.concatenate([[released], sums.ravel(), counts])

    def finish(self, noisy: np.ndarray, n_tables: int = 1) -> tuple[float, np.ndarray, np.ndarray]:
        """Number outside the ball, class means ``(n_classes, *shape)``, and class sizes.

        `n_tables` is the number of tables whose noise is in the sums.
        """
        k, dim = self.n_classes, self.geometry.dim
        sums, counts = noisy[1 : 1 + k * dim].reshape(k, dim), noisy[1 + k * dim :]
        sizes = np.maximum(counts, 1.0)
        noise = math.sqrt(n_tables) * self.sum_sigma / sizes
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
        return math.sqrt(n_tables) * self.sum_sigma * shape * shown / n
