"""A linear decision between classes, from released sums, sizes and second moments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skriemdp._location_scale.rows import row_products
from skriemdp._mechanisms.bounds import clip_norms
from skriemdp.geometry import Geometry

# Of the logarithms of the classes' shares.  One covariance for all is too wide for narrow classes
# and for the middle of heavy tails: distances come out too short, and whole shares count too much
# (benchmarks/classification.py --part linear).
_SHARES = 0.5
# A class is taken to have at least this part of its share of equal classes.
_LEAST_SIZE = 0.1
# Least eigenvalue of the covariance within classes, over their mean.
_LEAST_EIGENVALUE = 1e-3


class ClassMoments(NamedTuple):
    """Released moments of n records by class, in coordinates at the centre of a ball.

    All but the radius is in units of it.

    Attributes
    ----------
    n, radius : float
    sums : ndarray of shape (k, dim)
    counts : ndarray of shape (k,)
    second : ndarray of shape (dim, dim)
        ``sum z z'`` of all records, of vectors clipped to the length `longest`.
    sum_sigma, second_sigma : float
        Standard deviation of the noise on every coordinate of a sum, and of that on ``sum z z'``
        along every symmetric matrix of norm one.
    longest : float
    """

    n: float
    radius: float
    sums: np.ndarray
    counts: np.ndarray
    second: np.ndarray
    sum_sigma: float
    second_sigma: float
    longest: float = 1.0


@dataclass(frozen=True, eq=False)
class LinearDecision:
    """Scores of classes that are linear in coordinates at a centre.

    Parameters
    ----------
    geometry : Geometry
    center : ndarray of shape ``point_shape``
    weights : ndarray of shape (k, dim)
    offsets : ndarray of shape (k,)
    found : ClassMoments
        What was released.
    """

    geometry: Geometry
    center: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray
    found: ClassMoments

    @classmethod
    def of(cls, geometry: Geometry, center: np.ndarray, found: ClassMoments) -> LinearDecision:
        """The likeliest of Gaussian classes with one covariance; post-processing.

        Class means are drawn towards their common mean, and the covariance within classes towards
        a round one, both by the part of their squared distance to it that noise explains
        (docs/theory/moments.md, "A second moment beside sums with counts").
        """
        shares, common, means, kept, noise = _class_means(found)
        # What is left of the noise in means adds to the distance of a record from its class.
        within = _within(found, shares, common, means) + kept * noise * np.eye(len(common))
        weights = np.linalg.solve(within, means.T).T
        middles = np.einsum("ij,ij->i", weights, common + 0.5 * means)
        offsets = _SHARES * np.log(shares) - middles
        return cls(geometry, center, weights / found.radius, offsets, found)

    def scores(self, points: np.ndarray) -> np.ndarray:
        """Logarithms of the classes' likelihoods, up to a number of each point, ``(n, k)``."""
        seen = np.asarray(self.geometry.log_coordinates(self.center, points))
        return row_products(seen, self.weights.T) + self.offsets


def _class_means(found: ClassMoments) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
    """Shares of the classes, the common mean, and how far class means are from it.

    Besides: the part of these distances that was kept, and the mean variance of the noise on a
    coordinate of them.
    """
    k, dim = found.sums.shape
    sizes = np.maximum(found.counts, _LEAST_SIZE * found.n / k)
    shares = sizes / sizes.sum()
    common = found.sums.sum(axis=0) / found.n
    means = found.sums / sizes[:, None] - common
    # Of the sum of a class, and of those of all others in the common mean.
    own, others = 1.0 / sizes - 1.0 / found.n, (k - 1.0) / found.n**2
    noise = found.sum_sigma**2 * (own**2 + others)
    seen = float(shares @ np.sum(means**2, axis=1))
    kept = max(0.0, 1.0 - dim * float(shares @ noise) / max(seen, 1e-300))
    return shares, common, kept * means, kept, float(np.mean(noise))


def _within(
    found: ClassMoments, shares: np.ndarray, common: np.ndarray, means: np.ndarray
) -> np.ndarray:
    """Covariance within classes, positive definite."""
    dim, noise = len(common), found.second_sigma / found.n
    centers = clip_norms(common + means, found.longest)
    within = found.second / found.n - (centers.T * shares) @ centers
    # The mean eigenvalue is known up to this noise of its own.
    middle = max(float(np.trace(within)) / dim, noise / math.sqrt(dim))
    apart = within - middle * np.eye(dim)
    explained = noise**2 * dim * (dim + 1) / 2.0
    drawn = min(1.0, explained / max(float(np.sum(apart**2)), 1e-300))
    within = middle * np.eye(dim) + (1.0 - drawn) * apart
    # Noise moves eigenvalues by up to its own largest one; half of that is left where they stand.
    largest = (1.0 - drawn) * noise * math.sqrt(2.0 * dim)
    least = max(0.5 * largest, _LEAST_EIGENVALUE * middle)
    values, vectors = np.linalg.eigh(within)
    return (vectors * np.maximum(values, least)) @ vectors.T
