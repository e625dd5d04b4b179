"""The mean of data that may fill a part of the ball only: look where they are, then ask there."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._dataclasses import dataclass
from skriemdp.descent.problem import FrechetProblem
from skriemdp.geometry.ball import GeodesicBall
from skriemdp.location_scale.search import LocationScaleSearch, Radii, Shares
from skriemdp.mean.planning import RADII, MeanPlan
from skriemdp.mean.releases import MeanNoise, bias_bounds, plan_tangent_mean
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.budget import GaussianBudget

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams
    from skriemdp.location_scale.points import PointRecords
    from skriemdp.mechanisms.units import Units

# Grid of the radii that a look may return, over that of the public ball: a convention.
_RATIO, _RADII = 1.15, 46
# A look, and the final mean, move to a smaller ball only if it has at most this part of the present
# radius: less shrinking is not worth what clipping costs.
_NARROW_LOOK, _NARROW = 0.7, 0.85
# Of the quantile that becomes a radius: the highest level, and the number of clipped records, over
# mu, that noise excuses.  Tails pay for every record that is clipped (benchmarks/mean_mechanisms.py
# --part auto).
_MOST_WANTED, _BEYOND = 0.999, 3.0


def plan_radius(
    ball: GeodesicBall, n: int, mu: float, share: float, median: float
) -> LocationScaleSearch:
    """The search for a radius about a released point in a public ball, from public numbers.

    `mu` is about that of the whole fit, `share` the part of its square that is spent, and `median`
    what the radius is expected to be before anything is seen.
    """
    grid = ball.radius * _RATIO ** -np.arange(_RADII - 1.0, -1.0, -1.0)
    # The spread of the logarithm of a radius about the public one: what is answered where counts
    # say nothing.
    known = Radii(tuple(grid.tolist()), median, spread=1.2)
    asked = n, ball.geometry.dim, mu, Shares(0.0, 0.0, 0.0, share, 0), known
    return LocationScaleSearch(*asked, highest=_MOST_WANTED, beyond=_BEYOND)


def radius_about(
    center: np.ndarray,
    noise: float,
    planned: LocationScaleSearch,
    distances: np.ndarray,
    budget: GaussianBudget,
    rng: np.random.Generator,
) -> float:
    """The radius that a planned search finds by the distances to a released centre."""
    search = dataclasses.replace(planned, center=center, noise=noise)
    records = types.SimpleNamespace(n=len(distances), distances=lambda center: [distances])
    asked: Any = records, budget, lambda *label: rng
    return search.release(*asked).radius


def inside(ball: GeodesicBall, point: np.ndarray) -> np.ndarray:
    """`point` projected on `ball`; its centre where a step was so long that it left the floats."""
    if not np.isfinite(point).all() or not bool(ball.geometry.belongs(point)):
        return ball.center
    return np.asarray(ball.project(point))


@dataclass(frozen=True)
class AdaptiveMean:
    """Mean of data that may fill only a part of the public ball.

    One or two looks release a rough mean and a radius around it that holds most of the data.  The
    mean itself is then asked for in the ball that they found, with noise in proportion to its
    radius; in the public ball, if that is hardly larger.  All rough means vote for the result, by
    inverse variance.

    Parameters
    ----------
    ball : GeodesicBall
        Public.
    n : int
    plan : MeanPlan
        With one or two rounds.
    shrink : bool
        James-Stein shrinkage of the result towards the public centre.

    Notes
    -----
    *Guarantee*: that of ``plan.event``.  The looks are Gaussian, each given what was released
    before, and add up to a part of mu**2 that is fixed in advance; so is the law of the last
    release, which is Gaussian too or Laplace (docs/theory/laplace-noise.md, "Behind Gaussian
    releases").
    """

    ball: GeodesicBall
    n: int
    plan: MeanPlan
    shrink: bool = True

    def check(self) -> None:
        """ValueError where integers would be too coarse; before the charge."""
        for noise in (
            *(MeanNoise(each.mean_mu, None) for each in self.plan.rounds),
            self.plan.noise,
        ):
            noise.check(self.ball.geometry.dim)

    @functools.cached_property
    def radii(self) -> tuple[LocationScaleSearch, ...]:
        """The searches for a radius, one for each look."""
        rounds, mu = self.plan.rounds, self._mu
        median = self.ball.radius * (1.0 if len(rounds) > 1 else 0.7)
        return tuple(
            dataclasses.replace(
                plan_radius(self.ball, self.n, mu, (each.radius_mu / mu) ** 2, median), name=RADII
            )
            for each in rounds
        )

    @property
    def _mu(self) -> float:
        """About the mu of the whole fit, for rules of thumb."""
        looks = sum(r.mean_mu**2 + r.radius_mu**2 for r in self.plan.rounds)
        dim = self.ball.geometry.dim
        return math.sqrt(looks + dim / self.plan.noise.spread(dim) ** 2)

    def release(self, records: PointRecords, streams: NoiseStreams) -> tuple[np.ndarray, float]:
        """The private mean, and the noise per coordinate of what was averaged."""
        geometry, ball = self.ball.geometry, self.ball
        point, error = ball.center, math.inf  # the mean so far, and its error per coordinate
        center, radius, center_noise = ball.center, math.inf, 0.0
        at_center = records.coordinates(center)
        for look, (each, radii) in enumerate(zip(self.plan.rounds, self.radii, strict=True)):
            seen = _seen(records, ball, center, radius, _NARROW_LOOK)
            rng = streams("rough mean", look)
            noise = MeanNoise(each.mean_mu, None)
            found, scale = noise.noisy_mean(*seen, geometry.dim, self.n, rng)
            if look == 0:
                scale = math.hypot(scale, _usual_bias(ball))
            point, error = self._vote(center, point, error, found, scale)
            center, center_noise = self._shrunken(point, error)
            # Logarithms are kept unless the last radius says that they are not asked for again.
            kept = not look or radius < _NARROW * ball.radius
            distances = next(records.distances(center)) if kept else records.lengths(center)
            budget, rng = radii.own_budget(), streams("radius", look)
            radius = radius_about(center, center_noise, radii, distances, budget, rng)
        if radius >= _NARROW * ball.radius and at_center is not None:
            records.know(ball.center, at_center)  # asked for again
        found, scale, base = self._last(records, center, radius, streams("mean"))
        point, error = self._vote(base, point, error, found, scale)
        return (self._shrunken(point, error)[0] if self.shrink else point), error

    def _last(
        self, records: PointRecords, center: np.ndarray, radius: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float, np.ndarray]:
        """The mean's noisy coordinates, their noise, and where they are coordinates."""
        geometry, ball = self.ball.geometry, self.ball
        if radius < _NARROW * ball.radius:
            ball = GeodesicBall(geometry, center, radius)
        mean = plan_tangent_mean(ball, self.n, self.plan.noise)
        if mean.schedule is None:
            seen = _seen(records, self.ball, center, radius, _NARROW)
            return *self.plan.noise.noisy_mean(*seen, geometry.dim, self.n, rng), center
        return mean.noisy(records.inside(ball)[0], rng), mean.noise_scale, ball.center

    def _vote(
        self, base: np.ndarray, point: np.ndarray, error: float, found: np.ndarray, scale: float
    ) -> tuple[np.ndarray, float]:
        """`point` and what was `found` from `base`, averaged by inverse variance."""
        geometry = self.ball.geometry
        if error < math.inf:
            weight = error**2 / (error**2 + scale**2)
            before = np.asarray(geometry.log_coordinates(base, point))
            found = (1.0 - weight) * before + weight * found
            scale *= math.sqrt(weight)
        return inside(self.ball, np.asarray(geometry.exp_coordinates(base, found))), scale

    def _shrunken(self, point: np.ndarray, error: float) -> tuple[np.ndarray, float]:
        """James-Stein towards the public centre, and the noise that is left of `error`."""
        geometry, ball = self.ball.geometry, self.ball
        seen = np.asarray(geometry.log_coordinates(ball.center, point))
        excess = max(geometry.dim - 2, 0) * error**2
        factor = max(0.0, 1.0 - excess / max(float(seen @ seen), 1e-300))
        if factor == 1.0:
            return point, error
        return np.asarray(geometry.exp_coordinates(ball.center, factor * seen)), factor * error


def _seen(
    records: PointRecords, ball: GeodesicBall, center: np.ndarray, radius: float, narrow: float
) -> tuple[Units, Callable[..., np.ndarray], Ball]:
    """Logarithms at `center`, and a ball that they are moved into.

    Of `radius` if that is narrow, else one that holds those of the public `ball`.
    """
    if radius < narrow * ball.radius:
        bound = Ball(radius)
    elif np.array_equal(center, ball.center):
        bound = Ball(ball.radius)
    else:
        away = FrechetProblem(ball, records.points[:0]).gradient_ball(center)  # of minus logarithms
        bound = Ball(away.radius, None if away.center is None else -away.center)
        # Logarithms away from the public centre may be longer than the public radius, by a tenth.
        if bound.radius > 1.1 * ball.radius:
            # Positive curvature, or none that is known, lets logarithms off the centre be long.
            bound = Ball(min(radius, ball.radius))
    return *records.logarithms(center), bound


def _usual_bias(ball: GeodesicBall) -> float:
    """Usual bias of the mean of logarithms at the public centre, per coordinate."""
    if ball.geometry.is_flat:
        return 0.0
    # A fifth of the worst case is about the bias of clouds which fill a ball off its centre.
    return 0.2 * bias_bounds(ball)[1] / math.sqrt(ball.geometry.dim)
