"""The two-stage mean: a rough mean, a private radius around it, and a refined mean."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp.geometry.ball import GeodesicBall
from skriemdp.privacy.events import GaussianEvent
from skriemdp.solvers.ball_search import private_radius, radius_level
from skriemdp.solvers.mean_releases import plan_tangent_mean
from skriemdp.solvers.problem import FrechetProblem

__all__ = ["AdaptiveMean"]

# Shares of mu**2: rough mean, radius, refined mean (docs/user_guide/mean.md, table "Shares").
_ROUGH, _RADIUS, _REFINED = 0.25, 0.10, 0.65


@dataclasses.dataclass(frozen=True)
class AdaptiveMean:
    """Mean of data that may fill only a part of the public ball.

    Stage 1 releases a rough mean at the public centre.  Stage 2 releases a radius that holds most
    of the data around it.  Stage 3 releases the mean of the data projected on that smaller ball,
    with noise in proportion to its radius, and averages it with stage 1 by inverse variance.  When
    the released radius is no smaller than the public one, stage 3 repeats stage 1 instead, so data
    that fill the ball cost 1/.9 of the one-shot error, not more.

    Parameters
    ----------
    ball : GeodesicBall
        Public.
    n : int
    mu : float
        Gaussian differential privacy parameter of the whole release.
    lattice : bool, default=False
        Whether every sum and count is exact, with discrete noise; then both means are means of
        logarithms.

    Notes
    -----
    *Guarantee*: mu-GDP; each stage is Gaussian given what was released before (adaptive
    composition; Dong, Roth and Su 2022).
    """

    ball: GeodesicBall
    n: int
    mu: float
    lattice: bool = False

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
        quantile = private_radius(geometry, mu, radius_level(self.n, self.mu), self.lattice)
        distances = np.asarray(geometry.dist(center, problem.points))
        radius = 1.1 * quantile.release(distances, streams("radius"))
        if radius >= 0.9 * ball.radius:
            again = self._plan(ball, _REFINED)
            second = again.noisy(problem, streams("repeated mean"))
            weight = _REFINED / (_ROUGH + _REFINED)
            scale = again.noise_scale * math.sqrt(weight)
            return rough.finish((1.0 - weight) * noisy + weight * second), scale
        small = GeodesicBall(geometry, center, radius)
        refined = self._plan(small, _REFINED)
        # On a lattice the logarithms are shortened instead, one by one.
        inside = problem
        if not self.lattice:
            inside, _ = FrechetProblem.from_records(small, problem.points)
        move = refined.noisy(inside, streams("refined mean"))
        # Stage 1 votes for its own point, the zero vector, with the variance of its noise.
        weight = rough.noise_scale**2 / (rough.noise_scale**2 + refined.noise_scale**2)
        mean = ball.project(refined.finish(weight * move))
        return mean, refined.noise_scale * math.sqrt(weight)

    def _plan(self, ball, share):
        return plan_tangent_mean(ball, self.n, self.mu * math.sqrt(share), lattice=self.lattice)
