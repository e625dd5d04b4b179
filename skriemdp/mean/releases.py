"""Private releases of a Fréchet mean: frozen settings, planned from public numbers only."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp.descent.gradient_descent import RiemannianGradientDescent
from skriemdp.descent.problem import FrechetProblem
from skriemdp.geometry.ball import GeodesicBall
from skriemdp.mechanisms.lattice import LatticeSum, lattice_log_mean
from skriemdp.mechanisms.tangent import TangentGaussian, TangentRadial
from skriemdp.privacy.mean_iteration import MeanIteration, plan_mean_iteration
from skriemdp.privacy.radial import RadialEvent
from skriemdp.privacy.sensitivity import log_lipschitz

__all__ = [
    "DescentMean",
    "LatticeTangentMean",
    "TangentMean",
    "bending",
    "bias_bounds",
    "default_clip",
    "default_descent",
    "iterate_mean",
    "plan_tangent_mean",
]


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
    mechanism : TangentGaussian or TangentRadial
        Noise in the tangent space at the centre.
    shrink : bool
        James-Stein shrinkage towards the centre by the known noise variance (post-processing).

    Notes
    -----
    *Guarantee*: that of `mechanism`, whose sensitivity bounds the change of the released tangent
    vector when one record is replaced: the iterate moves by at most `schedule.sensitivity`
    (docs/theory/mean-iteration.md) and ``log_c`` stretches by at most ``s(r)`` on the ball; the
    tangent mean moves by at most ``2 r / n`` on any manifold, because every ``log_c x_i`` lies in a
    ball of radius r.  Projection on the ball is post-processing and moves no point of the ball.
    """

    ball: GeodesicBall
    schedule: MeanIteration | None
    mechanism: TangentGaussian | TangentRadial
    shrink: bool = False

    @property
    def event(self):
        return self.mechanism.event

    @property
    def noise_scale(self) -> float:
        """Standard deviation of each orthonormal tangent coordinate, in geodesic distance."""
        return self.mechanism.sigma

    @property
    def error_scale(self) -> float:
        """As `noise_scale`, and the largest bias of the mean of logarithms if that is released."""
        if self.schedule is not None:
            return self.noise_scale
        bias = bias_bounds(self.ball)[1] / math.sqrt(self.ball.geometry.dim)
        return math.hypot(self.noise_scale, bias)

    def statistic(self, problem):
        """The exact tangent vector at the centre that noise will be added to."""
        center = self.ball.center
        if self.schedule is None or self.schedule.step_sizes == (1.0,):
            # From the centre, one full step ends where its tangent vector says.
            return -problem.clipped_sum(center) / problem.n
        mean = iterate_mean(problem, self.schedule.step_sizes)
        return self.ball.geometry.log(center, self.ball.project(mean))

    def noisy(self, problem, rng):
        """The released tangent vector at the centre."""
        return self.mechanism.release(self.ball.center, self.statistic(problem), rng)

    def release(self, problem, streams):
        """The private mean and its noise scale."""
        return self.finish(self.noisy(problem, streams("tangent mean"))), self.noise_scale

    def finish(self, noisy):
        """Post-processing: shrink, shorten to the ball's radius, map to the manifold."""
        geometry, center = self.ball.geometry, self.ball.center
        norm = np.expand_dims(geometry.norm(center, noisy), tuple(range(-geometry.point_ndim, 0)))
        norm = np.maximum(norm, 1e-300)
        factor = np.ones_like(norm)
        if self.shrink:
            excess = (geometry.dim - 2) * self.noise_scale**2
            factor = np.maximum(0.0, 1.0 - max(excess, 0.0) / norm**2)
        factor = np.minimum(factor, self.ball.radius / norm)
        return geometry.exp(center, noisy * factor)


class LatticeTangentMean(TangentMean):
    """The mean of the logarithms at the centre, summed in integers with discrete Gaussian noise.

    *Guarantee*: that of `mechanism`, in exact arithmetic (docs/theory/lattice.md).
    """

    def noisy(self, problem, rng):
        ball, noise_multiplier = self.ball, self.mechanism.noise_multiplier
        return lattice_log_mean(
            ball.geometry, ball.center, problem.points, ball.radius, noise_multiplier, rng
        )


def plan_tangent_mean(
    ball: GeodesicBall,
    n: int,
    mu: float | None = None,
    law: RadialEvent | None = None,
    shrink=False,
    lattice=False,
) -> TangentMean:
    """Calibrate the one-shot release to mu-GDP or to a radial law, from public numbers.

    With `lattice` the mean of the logarithms is released, in exact arithmetic.

    The mean is iterated until its worst-case error is half the noise (the error on real data is far
    smaller).  The mean of the logarithms at the centre is released instead where no public
    contraction rate is known (no curvature bound, or a large ball on a positively curved manifold),
    where the centre or the size of the ball leaves a float too few digits, and where positive
    curvature would cost more noise than the bias it removes.
    """
    geometry, radius = ball.geometry, ball.radius
    smallest = 2.0 * radius / n
    if lattice:
        if mu is None:
            raise TypeError("noise on a lattice is Gaussian and needs mu.")
        LatticeSum(geometry.dim, radius, 1.0 / mu)  # what it refuses is refused here
        return LatticeTangentMean(ball, None, TangentGaussian(geometry, smallest, 1.0 / mu), shrink)
    spread = geometry.dim**0.5 / mu if law is None else law.mean_square_over_sensitivity**0.5
    schedule, sensitivity = None, smallest
    if not _bias_is_small(ball, smallest * spread):
        schedule = plan_mean_iteration(
            radius,
            n,
            geometry.curvature_bounds,
            0.5 * smallest * spread,
            geometry.rounding(ball.center, radius),
        )
    if schedule is not None and schedule.step_sizes != (1.0,):
        stretch = 1.0
        if not geometry.is_hadamard:
            stretch = log_lipschitz(geometry.curvature_bounds[1], radius)
        sensitivity = schedule.sensitivity * stretch
    mechanism: TangentGaussian | TangentRadial
    if law is not None:
        mechanism = TangentRadial(geometry, sensitivity, law)
    else:
        assert mu is not None  # one of the two is given
        mechanism = TangentGaussian(geometry, sensitivity, 1.0 / mu)
    return TangentMean(ball, schedule, mechanism, shrink)


def _bias_is_small(ball: GeodesicBall, noise: float) -> bool:
    """Whether noise hides the curvature bias of the mean of logarithms, on a curved-up manifold."""
    if ball.geometry.is_hadamard:
        return False
    return noise >= bias_bounds(ball)[1]


def bias_bounds(ball: GeodesicBall) -> tuple[float, float]:
    """How a full gradient step shrinks an error, and the bias of the mean of logarithms.

    About ``kappa r^2 / 3`` (at most a half), and ``kappa r^3 / 5`` when the mean is far from the
    centre; public rules of thumb, which decide on budgets and promise nothing.
    """
    bend = bending(ball)
    return min(bend / 3.0, 0.5), bend * ball.radius / 5.0


def bending(ball: GeodesicBall) -> float:
    """Curvature times squared radius: how far the ball is from a flat one; public."""
    return 0.0 if ball.geometry.is_flat else _curvature(ball) * ball.radius**2


def _curvature(ball: GeodesicBall) -> float:
    low, high = ball.geometry.curvature_bounds
    if math.isfinite(low) and math.isfinite(high):
        return max(abs(low), abs(high))
    return 1.0 / ball.radius**2


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

    def noise_scale(self, problem) -> float:
        """Per-coordinate noise of the last step's move when that step starts at the centre."""
        diameter = min(2.0 * self.solver.clip_norm, problem.gradient_diameter(self.ball.center))
        multiplier = self.solver.noise_multipliers[-1]
        return np.atleast_1d(self.solver.step_size)[-1] * diameter / problem.n * multiplier

    def release(self, problem, streams, progress=None):
        """The private mean and its noise scale."""
        mean = self.solver.solve(problem, self.start, streams("descent"), progress)
        return mean, self.noise_scale(problem)


def default_clip(ball: GeodesicBall) -> float:
    """No clipping where the ball bounds every gradient difference; else the radius."""
    return math.inf if math.isfinite(ball.geometry.curvature_bounds[1]) else ball.radius


def default_descent(ball: GeodesicBall, n: int, mu: float, n_steps=None):
    """Number of steps and shares of mu**2 of the default DP-RGD, from public numbers.

    One full step when its curvature bias is below the noise, else a rough step with a tenth of the
    budget and a precise one; more steps or equal shares only add noise
    (docs/user_guide/mean.md, table "Steps").
    """
    kappa = _curvature(ball)
    if n_steps is None:
        quiet = kappa == 0 or n * mu <= 10 * math.sqrt(ball.geometry.dim) / (kappa * ball.radius**2)
        n_steps = 1 if quiet else 2
    if n_steps == 2:
        return 2, (0.1, 0.9)
    return n_steps, None
