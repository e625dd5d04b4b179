"""Private releases of a Fréchet mean, one frozen settings object per mechanism; planned from public numbers only."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp.geometry.ball import GeodesicBall
from skriemdp.mechanisms.tangent import TangentGaussian
from skriemdp.privacy.mean_iteration import MeanIteration, plan_mean_iteration
from skriemdp.privacy.sensitivity import log_lipschitz
from skriemdp.solvers.descent import RiemannianGradientDescent
from skriemdp.solvers.problem import FrechetProblem

__all__ = ["DescentMean", "TangentMean", "iterate_mean", "plan_tangent_mean"]


def iterate_mean(problem: FrechetProblem, step_sizes) -> np.ndarray:
    """Non-private: ``x <- exp_x(step * mean log_x)`` from the centre, one step per step size."""
    point = problem.ball.center
    for step in step_sizes:
        gradient = problem.clipped_sum(point) / problem.n
        point = problem.geometry.exp(point, -step * gradient)
    return point


@dataclasses.dataclass(frozen=True)
class TangentMean:
    """One release: ``log_c`` of the mean at the public centre c, plus noise in its tangent space.

    Parameters
    ----------
    ball : GeodesicBall
        Public; every record has been projected on it.
    schedule : MeanIteration or None
        Steps that compute the mean; None releases the mean of ``log_c x_i`` itself.
    mechanism : TangentGaussian
        Noise in the tangent space at the centre.

    Notes
    -----
    *Guarantee*: that of `mechanism`, whose sensitivity bounds the change of the released tangent
    vector when one record is replaced: the iterate moves by at most (docs/theory/mean-iteration.md)
    `schedule.sensitivity`, and ``log_c`` stretches by at most ``s(r)`` on the ball; the tangent mean
    moves by ``2 r / n`` on any manifold, because every ``log_c x_i`` lies in a ball of radius r.
    Projection on the ball is post-processing and moves no point of the ball.
    """

    ball: GeodesicBall
    schedule: MeanIteration | None
    mechanism: TangentGaussian

    @property
    def event(self):
        return self.mechanism.event

    @property
    def noise_scale(self) -> float:
        """Standard deviation of each orthonormal tangent coordinate, in geodesic distance."""
        return self.mechanism.sigma

    def statistic(self, problem):
        """The exact tangent vector at the centre that noise will be added to."""
        center = self.ball.center
        if self.schedule is None or self.schedule.step_sizes == (1.0,):
            # From the centre, one full step ends where its tangent vector says.
            return -problem.clipped_sum(center) / problem.n
        mean = iterate_mean(problem, self.schedule.step_sizes)
        return self.ball.geometry.log(center, self.ball.project(mean))

    def release(self, problem, streams):
        noisy = self.mechanism.release(
            self.ball.center, self.statistic(problem), streams("tangent mean")
        )
        return self.finish(noisy)

    def finish(self, noisy):
        """Post-processing: shorten the vector to the ball's radius and map it to the manifold."""
        geometry, center = self.ball.geometry, self.ball.center
        norm = np.expand_dims(geometry.norm(center, noisy), tuple(range(-geometry.point_ndim, 0)))
        shortened = noisy * np.minimum(1.0, self.ball.radius / np.maximum(norm, 1e-300))
        return geometry.exp(center, shortened)


def plan_tangent_mean(ball: GeodesicBall, n: int, mu: float) -> TangentMean:
    """Calibrate the one-shot release to mu-GDP, from public numbers.

    The mean is iterated until its worst-case error is half the noise (the error on real data is far
    smaller); where no public
    contraction rate is known (no curvature bound, or a large ball on a positively curved manifold)
    the mean of the logarithms at the centre is released instead.
    """
    geometry, radius = ball.geometry, ball.radius
    smallest = 2.0 * radius / n
    accuracy = 0.5 * smallest / mu * math.sqrt(geometry.dim)
    schedule = plan_mean_iteration(radius, n, geometry.curvature_bounds, accuracy)
    sensitivity = smallest
    if schedule is not None and schedule.step_sizes != (1.0,):
        stretch = 1.0
        if not geometry.is_hadamard:
            stretch = log_lipschitz(geometry.curvature_bounds[1], radius)
        sensitivity = schedule.sensitivity * stretch
    return TangentMean(ball, schedule, TangentGaussian(geometry, sensitivity, 1.0 / mu))


@dataclasses.dataclass(frozen=True)
class DescentMean:
    """DP-RGD on the Fréchet problem, from a public start.

    *Guarantee*: that of `solver` (mu-GDP); clip-free unless `solver.clip_norm` is finite.
    """

    ball: GeodesicBall
    solver: RiemannianGradientDescent
    start: np.ndarray

    @property
    def event(self):
        return self.solver.event

    def noise_scale(self, n: int) -> float:
        """Per-coordinate noise of the last step's move when that step starts at the centre."""
        problem = FrechetProblem(self.ball, np.empty((n, *self.ball.geometry.shape)))
        diameter = min(2.0 * self.solver.clip_norm, problem.gradient_diameter(self.ball.center))
        mu = self.solver.mu * math.sqrt(self.solver.shares[-1])
        return self.solver.step_size[-1] * diameter / n / mu

    def release(self, problem, streams, progress=None):
        return self.solver.solve(problem, self.start, streams("descent"), progress)


def default_descent(ball: GeodesicBall, n: int, mu: float, n_steps=None):
    """Number of steps and shares of mu**2 of the default DP-RGD, from public numbers.

    One full step when its curvature bias is below the noise, else a rough step with a tenth of the
    budget and a precise one; more steps or equal shares only add noise
    (docs/user_guide/mean.md, table "Steps").
    """
    low, high = ball.geometry.curvature_bounds
    finite = [abs(k) for k in (low, high) if math.isfinite(k)]
    kappa = max(finite) if len(finite) == 2 else 1.0 / max(ball.radius, 1e-300) ** 2
    if n_steps is None:
        quiet = kappa == 0 or n * mu <= 10 * math.sqrt(ball.geometry.dim) / (kappa * ball.radius**2)
        n_steps = 1 if quiet else 2
    if n_steps == 2:
        return 2, (0.1, 0.9)
    return n_steps, None
