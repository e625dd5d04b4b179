"""The two-stage mean: a rough mean, a private radius around it, and a refined mean."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp._config import get_config
from skriemdp.descent.problem import FrechetProblem
from skriemdp.descent.queries import GradientQuery
from skriemdp.descent.sampling import FullBatch
from skriemdp.geometry.ball import GeodesicBall
from skriemdp.mean.releases import (
    bias_bounds,
    default_clip,
    exact_tangents,
    plan_tangent_mean,
)
from skriemdp.mean.search import private_radius, radius_level
from skriemdp.mechanisms.sums import sum_sigma
from skriemdp.privacy.events import GaussianEvent

__all__ = ["AdaptiveMean"]

# Shares of mu**2: rough mean, radius, refined mean (docs/user_guide/mean.md, table "Shares").
_ROUGH, _RADIUS, _REFINED = 0.25, 0.10, 0.65
# Of the last of these: to gradient steps that take away the bias of the rough mean.
_STEPS = ((1.0,), (0.15, 0.85), (0.08, 0.15, 0.77))
# Clouds that fill a ball off its centre show about these fractions of the worst case.
_USUAL_CONTRACTION, _USUAL_BIAS = 0.4, 0.2


@dataclasses.dataclass(frozen=True)
class AdaptiveMean:
    """Mean of data that may fill only a part of the public ball.

    Stage 1 releases a rough mean at the public centre.  Stage 2 releases a radius that holds most
    of the data around it.  Stage 3 releases the mean of the data projected on that smaller ball,
    with noise in proportion to its radius, and averages it with stage 1 by inverse variance.  When
    the released radius is no smaller than the public one, stage 3 repeats stage 1 instead, so data
    that fill the ball cost 1/.9 of the one-shot error, not more.  Where stage 1 releases the mean
    of the logarithms, repeating it would repeat its curvature bias; stage 3 then takes one to three
    gradient steps from its result.

    Parameters
    ----------
    ball : GeodesicBall
        Public.
    n : int
    mu : float
        Gaussian differential privacy parameter of the whole release.

    Notes
    -----
    *Guarantee*: mu-GDP; each stage is Gaussian given what was released before (adaptive
    composition; Dong, Roth and Su 2022).
    """

    ball: GeodesicBall
    n: int
    mu: float

    @property
    def exact(self) -> bool:
        """Whether every stage adds exact integers: where all means are means of logarithms."""
        only_logarithms = self.ball.geometry.is_flat or get_config()["arithmetic"] == "lattice"
        return only_logarithms and self._plan(self.ball, _REFINED).exact

    @property
    def event(self) -> GaussianEvent:
        return GaussianEvent(1.0 / self.mu)

    def release(self, problem, streams):
        """The private mean, and the noise per coordinate of what was averaged."""
        geometry, ball = self.ball.geometry, self.ball
        rough = self._plan(ball, _ROUGH)
        noisy = rough.noisy(problem, streams("rough mean"))
        center = rough.finish(noisy)
        mu = self.mu * math.sqrt(_RADIUS)
        quantile = private_radius(geometry, mu, radius_level(self.n, self.mu))
        distances = np.asarray(geometry.dist(center, problem.points))
        radius = 1.1 * quantile.release(distances, streams("radius"))
        if radius >= 0.9 * ball.radius:
            if rough.error_scale > rough.noise_scale:
                return self._descend(problem, rough, center, streams("repeated mean"))
            again = self._plan(ball, _REFINED)
            second = again.noisy(problem, streams("repeated mean"))
            weight = _REFINED / (_ROUGH + _REFINED)
            scale = again.noise_scale * math.sqrt(weight)
            return rough.finish((1.0 - weight) * noisy + weight * second), scale
        small = GeodesicBall(geometry, center, radius)
        refined = self._plan(small, _REFINED)
        # Logarithms at the centre are shortened one by one; an iteration needs projected records.
        inside = problem
        if refined.schedule is not None:
            inside, _ = FrechetProblem.from_records(small, problem.points)
        move = refined.noisy(inside, streams("refined mean"))
        weight = _weight(rough, refined.noise_scale)
        mean = ball.project(refined.finish(weight * move))
        return mean, refined.noise_scale * math.sqrt(weight)

    def _descend(self, problem, rough, center, rng):
        """Gradient steps from the rough mean, as many as a public rule finds useful."""
        geometry, ball = self.ball.geometry, self.ball
        exact = exact_tangents(geometry, [1.0 / (self.mu * math.sqrt(_REFINED))])
        batch = FullBatch(exact)
        mu = self.mu * math.sqrt(_REFINED)
        contraction, bias = bias_bounds(ball)
        noise = 2.0 * ball.radius / self.n / mu * math.sqrt(geometry.dim)
        contraction, bias = contraction * _USUAL_CONTRACTION, bias * _USUAL_BIAS
        shares = next((s for s in _STEPS if contraction ** len(s) * bias <= noise), _STEPS[-1])
        for share in shares:
            noise_multiplier = 1.0 / (mu * math.sqrt(share))
            query = GradientQuery(problem, center, default_clip(ball))
            scale = sum_sigma(query, noise_multiplier, exact) / self.n
            weight = _weight(rough, scale) if len(shares) == 1 else 1.0
            move = -weight * np.asarray(batch.release(query, noise_multiplier, rng))
            center = ball.project(np.asarray(geometry.exp_coordinates(center, move)))
        return center, scale * math.sqrt(weight)

    def _plan(self, ball, share):
        return plan_tangent_mean(ball, self.n, self.mu * math.sqrt(share))


def _weight(rough, scale: float) -> float:
    """Of stage 3, whose noise is `scale`: stage 1 votes for its own point, the zero vector."""
    square = rough.error_scale**2
    return square / (square + scale**2)
