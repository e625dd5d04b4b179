"""Mean and second moment of every class, in one release: what regions of class means need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skriemdp._dataclasses import dataclass
from skriemdp.geometry.ball import GeodesicBall
from skriemdp.geometry.base import Geometry
from skriemdp.inference import MeanInference
from skriemdp.location_scale.search import LocationScaleSearch
from skriemdp.mean.joint_releases import JointMean, Moments, Seen, check_width, checked
from skriemdp.mean.uncertainty import WIDER

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams


__all__ = ["LEAST_COUNT", "JointClasses", "ReleasedClasses", "plan_joint_classes"]

# A class of a smaller released number of records has no region.  A larger limit would pick the
# classes whose number came out too large, and regions of those hold their means less often.
LEAST_COUNT = 1.0


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
class JointClasses(JointMean):
    """Means and second moments of the logarithms of all classes, in one Gaussian release.

    Parameters
    ----------
    geometry, n, mu, weight, wider, ball, search, looks, n_classes
        As in :class:`skriemdp.mean.joint_releases.JointMean`; the centre is one for all classes,
        and there is no look.

    Notes
    -----
    *Guarantee*: mu-GDP, label included.  As for one mean; what is released in the end is ``sum w
    w'`` of every class, which together move by ``2 sqrt(2) r^2`` at most, as one of them does
    (docs/theory/moments.md, "Second moments by class").
    """

    n_classes: int = 1

    @property
    def bytes(self) -> float:
        """Memory of the logarithms and of matrices, besides the records."""
        return super().bytes + 32.0 * self.n_classes * (self.geometry.dim + 1) ** 2

    def release_classes(
        self, points: np.ndarray, labels: np.ndarray, streams: NoiseStreams
    ) -> ReleasedClasses:
        """Everything that a fit releases; `labels` are places in the list of classes."""
        seen = self.seen(points, streams)
        found = self.moments(seen, streams("class moments"), labels)
        inferences = tuple(self._inference(seen, found, k) for k in range(self.n_classes))
        means = np.stack(
            [
                self._rough(seen, found, k) if known is None else known.mean
                for k, known in enumerate(inferences)
            ]
        )
        return ReleasedClasses(
            inferences,
            means,
            np.maximum(found.counts, 0.0),
            found.first_sigma,
            seen.center,
            seen.radius,
            seen.clipped,
            seen.clipped_noise,
        )

    def _inference(self, seen: Seen, found: Moments, k: int) -> MeanInference | None:
        """What is known about one class; None without a released number of records."""
        count = float(found.counts[k])
        if not count >= LEAST_COUNT:
            return None
        return MeanInference(
            self.geometry,
            seen.center,
            seen.radius,
            found.first[k] / count,
            found.second[k] / count,
            count,
            found.first_sigma / count,
            found.second_sigma / count,
            found.count_sigma / count,
        )

    def _rough(self, seen: Seen, found: Moments, k: int) -> np.ndarray:
        """Mean of a class of which nothing else is known: that of its logarithms."""
        mean = found.first[k] / max(float(found.counts[k]), 1.0)
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
    """The plan of a joint release, from public numbers; what cannot run raises here.

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
        Where the ball is too wide, or integers would be too coarse.
    """
    check_width(geometry, ball)
    return checked(JointClasses(geometry, n, mu, 1.0, WIDER, ball, search, n_classes=n_classes))
