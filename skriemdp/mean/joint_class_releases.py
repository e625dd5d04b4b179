"""Mean and second moment of every class, in one release: what regions of class means need."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from skriemdp.geometry.ball import GeodesicBall
from skriemdp.geometry.base import Geometry
from skriemdp.inference import MeanInference
from skriemdp.location_scale.search import LocationScaleSearch
from skriemdp.mean.joint_releases import JointMean, Seen, check_width, in_arithmetic
from skriemdp.mean.uncertainty import WIDER
from skriemdp.mechanisms.class_moments import ClassMoments

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams


__all__ = ["LEAST_COUNT", "JointClasses", "ReleasedClasses", "plan_joint_classes"]

# A class of a smaller released number of records has no region.  A larger limit would pick the
# classes whose number came out too large, and regions of those hold their means less often.
LEAST_COUNT = 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class ReleasedClasses:
    """What a fit released, class by class, and the fraction of clipped records with its noise.

    Attributes
    ----------
    inferences : tuple of MeanInference or None
        None for a class whose released number of records is below one.
    means : ndarray of shape (n_classes, *point_shape)
    counts : ndarray of shape (n_classes,)
        At least 0.
    sum_noise : float
        Standard deviation of the noise of every coordinate of a class sum.
    radius, center, clipped, clipped_noise
        Of the last ball.
    """

    inferences: tuple[MeanInference | None, ...]
    means: np.ndarray
    counts: np.ndarray
    sum_noise: float
    center: np.ndarray
    radius: float
    clipped: float
    clipped_noise: float


@dataclasses.dataclass(frozen=True, eq=False)
class JointClasses(JointMean):
    """Means and second moments of the logarithms of all classes, in one Gaussian release.

    Parameters
    ----------
    n_classes : int
    geometry, n, mu, weight, wider, ball, search, looks, exact
        As in :class:`skriemdp.mean.joint_releases.JointMean`; the centre is one for all classes,
        and there is no look.

    Notes
    -----
    *Guarantee*: mu-GDP, label included.  As for one mean; what is released in the end is ``sum w
    w'`` of every class, which together move by ``2 sqrt(2) r^2`` at most, as one of them does
    (docs/theory/moments.md, "Second moments by class").
    """

    n_classes: int = 1

    def class_moments_of(self, radius: float, mu: float) -> ClassMoments:
        """The mechanism of the joint release."""
        dim, classes = self.geometry.dim, self.n_classes
        return ClassMoments(dim, radius, self.n, classes, 1.0 / mu, self.exact)

    @property
    def bytes(self) -> float:
        """Memory of the logarithms and of matrices, besides the records."""
        return super().bytes + 32.0 * self.n_classes * (self.geometry.dim + 1) ** 2

    def release_classes(
        self, points: np.ndarray, labels: np.ndarray, streams: NoiseStreams
    ) -> ReleasedClasses:
        """Everything that a fit releases; `labels` are places in the list of classes."""
        seen = self.seen(points, streams)
        mechanism = self.class_moments_of(seen.radius, seen.mu)
        second, first, counts = mechanism.release(seen.vectors, labels, streams("class moments"))
        inferences = tuple(
            self._inference(seen, mechanism, *block)
            for block in zip(second, first, counts, strict=True)
        )
        means = np.stack(
            [
                self._rough(seen, *block) if known is None else known.mean
                for known, *block in zip(inferences, first, counts, strict=True)
            ]
        )
        return ReleasedClasses(
            inferences,
            means,
            np.maximum(counts, 0.0),
            mechanism.product_sigma,
            seen.center,
            seen.radius,
            seen.clipped,
            seen.clipped_noise,
        )

    def _inference(
        self,
        seen: Seen,
        mechanism: ClassMoments,
        second: np.ndarray,
        first: np.ndarray,
        count: float,
    ) -> MeanInference | None:
        """What is known about one class; None without a released number of records."""
        if not count >= LEAST_COUNT:
            return None
        return MeanInference(
            self.geometry,
            seen.center,
            seen.radius,
            first / count,
            second / count,
            float(count),
            mechanism.product_sigma / float(count),
            mechanism.first_sigma / float(count),
            mechanism.count_sigma / float(count),
        )

    def _rough(self, seen: Seen, first: np.ndarray, count: float) -> np.ndarray:
        """Mean of a class of which nothing else is known: that of its logarithms."""
        mean = first / max(float(count), 1.0)
        mean = mean * min(1.0, seen.radius / max(float(np.linalg.norm(mean)), 1e-300))
        return np.asarray(self.geometry.exp_coordinates(seen.center, mean))


def plan_joint_classes(
    geometry: Geometry,
    n: int,
    n_classes: int,
    mu: float,
    *,
    ball: GeodesicBall | None,
    search: LocationScaleSearch | None,
) -> JointClasses:
    """Decide on the arithmetic, from public numbers; what cannot run raises here.

    Parameters
    ----------
    geometry : Geometry
    n, n_classes : int
    mu : float
        Of the whole fit.
    ball : GeodesicBall or None
        Public.
    search : LocationScaleSearch or None
        For what is private of the ball; exactly one of the two is given.

    Raises
    ------
    ValueError
        Where the ball is too wide, or integers that were asked for would be too coarse.
    """
    check_width(geometry, ball)
    plan = JointClasses(geometry, n, mu, 1.0, WIDER, ball, search, n_classes=n_classes)
    return in_arithmetic(plan, n_classes)
