"""Private releases of a Fréchet mean: frozen settings, planned from public numbers only."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._config import get_config
from skriemdp._groups import Groups
from skriemdp.core.arithmetic import adds_integers
from skriemdp.descent.gradient_descent import RiemannianGradientDescent
from skriemdp.descent.groups import local_means
from skriemdp.descent.problem import FrechetProblem, longest_block
from skriemdp.descent.queries import GradientQuery, LogarithmQuery, Query
from skriemdp.descent.releases import FullBatch, exact_mean
from skriemdp.geometry.ball import GeodesicBall
from skriemdp.geometry.base import Geometry
from skriemdp.inference.covariances import coordinate_jacobian
from skriemdp.mean.uncertainty import NoiseLaw
from skriemdp.mechanisms.counts import GaussianCount
from skriemdp.mechanisms.sums import noisy_sum, sum_sigma
from skriemdp.mechanisms.vector import GaussianNoise, LaplaceNoise
from skriemdp.privacy.laplace import LaplaceEvent
from skriemdp.privacy.mean_iteration import MeanIteration, plan_mean_iteration
from skriemdp.privacy.sensitivity import (
    Sensitivity,
    ball_sensitivity,
    computed_sum_sensitivity,
    iterated_mean_sensitivity,
    log_lipschitz,
)

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams
    from skriemdp.privacy.event import Event


__all__ = [
    "DescentMean",
    "LogStep",
    "LogSums",
    "MeanNoise",
    "TangentMean",
    "bias_bounds",
    "default_clip",
    "default_descent",
    "iterate_mean",
    "plan_tangent_mean",
    "pure_law",
]


# Positively curved balls in which the iterated mean costs at most so much more noise have it.
_CHEAP = math.sqrt(2.0)
# In wider ones it must pay against this part of the worst bias of logarithms: what data show.
_SEEN_BIAS = 0.05


def iterate_mean(problem: FrechetProblem, step_sizes: tuple[float, ...]) -> np.ndarray:
    """Non-private: ``x <- exp_x(step * mean log_x)`` from the centre, one step per step size.

    Every step bounds each record's gradient in orthonormal coordinates before it is added.  The
    last iterate is projected on the ball, which holds the mean.
    """
    point = problem.ball.center
    for step in step_sizes:
        move = step * _mean_logarithm(problem, point)
        point = np.asarray(problem.geometry.exp_coordinates(point, move))
    return np.asarray(problem.ball.project(point))


def _mean_logarithm(problem: FrechetProblem, point: np.ndarray) -> np.ndarray:
    """Non-private: the mean of the bounded logarithms at `point`, in coordinates."""
    query = GradientQuery(problem, point)
    known = problem.center_log_sum is not None and np.array_equal(point, problem.ball.center)
    if not known and query.bound.is_bounded:
        center = query.bound.center
        center = np.zeros(query.dim) if center is None else center
        total = problem.geometry.bounded_log_sum(
            point, problem.points, query.bound.radius, -center, problem.squares
        )
        if total is not None:
            return total / problem.n - center
    return -exact_mean(query)


@dataclasses.dataclass(frozen=True)
class MeanNoise:
    """Noise on the mean of a query's vectors: Gaussian, or Laplace.

    Parameters
    ----------
    mu : float or None
        Of Gaussian noise.
    law : LaplaceEvent or None
        Of Laplace noise.
    exact : bool
        Add integers, and discrete Gaussian integers to them.

    Notes
    -----
    *Guarantee*: mu-GDP, or that of `law`: a sum of vectors of the query's ball moves by at most its
    diameter when one record is replaced.
    """

    mu: float | None
    law: LaplaceEvent | None
    exact: bool = False

    def release(self, query: Query, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """Noisy mean *logarithm* (minus the gradient), and its noise per coordinate."""
        sign = -1.0 if isinstance(query, GradientQuery) else 1.0
        if self.law is None:
            assert self.mu is not None
            mean = FullBatch(self.exact).release(query, 1.0 / self.mu, rng)
            return sign * mean, sum_sigma(query, 1.0 / self.mu, self.exact) / query.n
        bound = query.bound
        sensitivity = computed_sum_sensitivity(
            bound.diameter, bound.radius, query.n, query.dim, query.longest_block
        )
        noise = LaplaceNoise(sensitivity, self.law)
        mean = noise.release(query.total(), rng) / query.n
        if bound.center is not None:
            mean = bound.center + mean
        return sign * query.leave(mean), noise.sigma / query.n


@dataclasses.dataclass(frozen=True, eq=False)
class LogStep:
    """One step from a released centre, by the mean of the logarithms of all records.

    For data on a sphere too wide for any ball: the step leads towards the stationary point of the
    mean squared distance that lies nearest, which is the Fréchet mean where the data lie in an open
    half sphere.

    *Guarantee*: that of :class:`MeanNoise`; each logarithm is shortened to the radius, so that
    their sum moves by at most twice that, past the cut locus too.
    """

    geometry: Geometry
    center: np.ndarray
    radius: float
    n: int
    mu: float | None
    law: LaplaceEvent | None

    def noise_law(self, point: np.ndarray) -> NoiseLaw:
        """How long the noise of the released mean `point` can be."""
        bound = computed_sum_sensitivity(
            ball_sensitivity(self.radius),
            self.radius,
            self.n,
            self.geometry.dim,
            longest_block(self.geometry),
        )
        noise = _noise(bound, self.mu, self.law)
        return _law_at(self.geometry, self.center, point, noise, self.n)

    def release(self, points: np.ndarray, streams: NoiseStreams) -> tuple[np.ndarray, float]:
        """The private mean and its noise scale."""
        exact = self.mu is not None and exact_tangents(self.geometry, [1.0 / self.mu])
        query = LogarithmQuery(self.geometry, self.center, self.radius, points)
        noise = MeanNoise(self.mu, self.law, exact)
        move, scale = noise.release(query, streams("tangent mean"))
        move = move * min(1.0, self.radius / max(float(np.linalg.norm(move)), 1e-300))
        return np.asarray(self.geometry.exp_coordinates(self.center, move)), scale


@dataclasses.dataclass(frozen=True)
class TangentMean:
    """One release: normal coordinates at the public centre of the mean, plus noise.

    Parameters
    ----------
    ball : GeodesicBall
        Public; every record has been projected on it.
    n : int
        Number of records.
    schedule : MeanIteration or None
        Steps that compute the mean; None releases the mean of ``log_c x_i`` itself.
    mechanism : GaussianNoise or LaplaceNoise
        Noise on the sum of the logarithms, or on the coordinates of the iterated mean.
    shrink : bool
        James-Stein shrinkage towards the centre by the known noise variance (post-processing).
    exact : bool
        Add the logarithms in integers, with discrete Gaussian noise.

    Notes
    -----
    *Guarantee*: that of `mechanism`, whose sensitivity bounds the change of what is released when
    one record is replaced: the iterate moves by at most `schedule.sensitivity`
    (docs/theory/mean-iteration.md) and ``log_c`` stretches by at most ``s(r)`` on the ball; the
    sum of logarithms moves by at most ``2 r`` on any manifold, because every one of them lies in a
    ball of radius r.  Projection on the ball is post-processing and moves no point of the ball.
    """

    ball: GeodesicBall
    n: int
    schedule: MeanIteration | None
    mechanism: GaussianNoise | LaplaceNoise
    shrink: bool = False
    exact: bool = False

    @property
    def event(self) -> Event:
        return self.mechanism.event

    @property
    def noise_scale(self) -> float:
        """Standard deviation of each orthonormal tangent coordinate, in geodesic distance."""
        return self.mechanism.sigma / (self.n if self.schedule is None else 1)

    def noise_law(self, point: np.ndarray) -> NoiseLaw | None:
        """How long the noise of the released mean `point` can be; None if that was shrunk."""
        if self.shrink:
            return None
        count = self.n if self.schedule is None else 1
        return _law_at(self.ball.geometry, self.ball.center, point, self.mechanism, count)

    def noisy(self, problem: FrechetProblem, rng: np.random.Generator) -> np.ndarray:
        """The released coordinates at the centre."""
        if self.schedule is None:
            return self.noisy_sum(problem, rng) / self.n
        mean = iterate_mean(problem, self.schedule.step_sizes)
        coordinates = np.asarray(self.ball.geometry.log_coordinates(self.ball.center, mean))
        return self.mechanism.release(coordinates, rng)

    def noisy_sum(self, problem: FrechetProblem, rng: np.random.Generator) -> np.ndarray:
        """The sum of the logarithms of at most n records, with its noise."""
        ball = self.ball
        known = problem.center_log_sum if problem.ball is ball else None
        query = LogarithmQuery(ball.geometry, ball.center, ball.radius, problem.points, known)
        if self.exact:
            event: Any = self.mechanism.event
            return noisy_sum(query, event.noise_multiplier, rng, exact=True)
        return self.mechanism.release(query.total(), rng)

    def release(self, problem: FrechetProblem, streams: NoiseStreams) -> tuple[np.ndarray, float]:
        """The private mean and its noise scale."""
        return self.finish(self.noisy(problem, streams("tangent mean"))), self.noise_scale

    def finish(self, noisy: np.ndarray, n_tables: int = 1) -> np.ndarray:
        """Post-processing: shrink, shorten to the ball's radius, map to the manifold.

        `noisy` has the noise of so many releases, of disjoint tables.
        """
        norm = np.maximum(np.linalg.norm(noisy, axis=-1, keepdims=True), 1e-300)
        factor = np.ones_like(norm)
        if self.shrink:
            excess = (self.ball.geometry.dim - 2) * n_tables * self.noise_scale**2
            factor = np.maximum(0.0, 1.0 - max(excess, 0.0) / norm**2)
        factor = np.minimum(factor, self.ball.radius / norm)
        return np.asarray(self.ball.geometry.exp_coordinates(self.ball.center, noisy * factor))


def plan_tangent_mean(
    ball: GeodesicBall,
    n: int,
    mu: float | None = None,
    law: LaplaceEvent | None = None,
    shrink: bool = False,
) -> TangentMean:
    """Calibrate the one-shot release to mu-GDP or to a Laplace law, from public numbers.

    The mean is iterated until its worst-case error is half the noise (the error on real data is far
    smaller).  The mean of the logarithms at the centre is released instead, in exact integers where
    that can be done, under ``config_context(arithmetic="lattice")``, and where no public
    contraction rate is known (no curvature bound, or a large ball on a positively curved manifold),
    where the centre or the size of the ball leaves a float too few digits, and where positive
    curvature would cost more noise than the bias it removes: on spheres the iterated mean is more
    sensitive, by 1.6 in a ball of radius pi / 4 and by 9 at 1.4.
    """
    geometry, radius = ball.geometry, ball.radius
    spread = geometry.dim**0.5 / mu if law is None else law.mean_square_over_sensitivity**0.5
    smallest = 2.0 * radius / n
    schedule = None
    if get_config()["arithmetic"] != "lattice" and not _bias_is_small(ball, smallest * spread):
        schedule = plan_mean_iteration(
            radius,
            n,
            geometry.curvature_bounds,
            0.5 * smallest * spread,
            geometry.rounding(ball.center, radius),
            geometry.injectivity_radius,
        )
    if schedule is not None and schedule.step_sizes == (1.0,):
        # From the centre, one full step ends where the mean of the logarithms says.
        schedule = None
    stretch = 1.0
    if schedule is not None and not geometry.is_hadamard:
        stretch = log_lipschitz(geometry.curvature_bounds[1], radius)
        cost = schedule.sensitivity * stretch / smallest
        seen = math.hypot(1.0, _SEEN_BIAS * bias_bounds(ball)[1] / (smallest * spread))
        if cost > max(_CHEAP, seen):
            schedule = None
    if schedule is None:
        sensitivity = _sum_of_logarithms(ball, n)
    else:
        sensitivity = iterated_mean_sensitivity(schedule.sensitivity, stretch)
    exact = law is None and mu is not None and schedule is None
    exact = exact and exact_tangents(geometry, [1.0 / mu])  # type: ignore[operator]
    return TangentMean(ball, n, schedule, _noise(sensitivity, mu, law), shrink, exact)


def _noise(
    sensitivity: Sensitivity, mu: float | None, law: LaplaceEvent | None
) -> GaussianNoise | LaplaceNoise:
    """Noise of mu-GDP, or of `law`; one of the two is given."""
    if law is not None:
        return LaplaceNoise(sensitivity, law)
    assert mu is not None
    return GaussianNoise(sensitivity, 1.0 / mu)


def pure_law(dim: int, epsilon: float) -> LaplaceEvent:
    """The law of Laplace noise that is `epsilon`-DP, in units of the sensitivity."""
    return LaplaceEvent(dim, 1.0 / epsilon)


def _law_at(
    geometry: Geometry,
    center: np.ndarray,
    point: np.ndarray,
    noise: GaussianNoise | LaplaceNoise,
    count: int,
) -> NoiseLaw:
    """Law of the distance that `noise` over `count`, on coordinates at `center`, moves `point`."""
    step = np.asarray(geometry.log_coordinates(center, point))
    longest = float(np.linalg.norm(coordinate_jacobian(geometry, center, step), 2)) / count
    if isinstance(noise, LaplaceNoise):
        return NoiseLaw(geometry.dim, longest * noise.scale, laplace=True)
    return NoiseLaw(geometry.dim, longest * noise.sigma)


def _sum_of_logarithms(ball: GeodesicBall, n: int) -> Sensitivity:
    """Of the sum of at most n logarithms at the centre of a ball."""
    radius, longest = ball.radius, longest_block(ball.geometry)
    whole = ball_sensitivity(radius)
    return computed_sum_sensitivity(whole, radius, n, ball.geometry.dim, longest)


@dataclasses.dataclass(frozen=True)
class LogSums:
    """The mean of logarithms at a public centre, in two halves: noisy sums, and what they say.

    Parameters
    ----------
    mean : TangentMean
        Without iterations, for the number of records of all tables.
    count : GaussianCount
        Noise for the number of records outside the ball.

    Notes
    -----
    *Guarantee*: that of `mean` and `count` together, for each table by itself.
    """

    mean: TangentMean
    count: GaussianCount

    @classmethod
    def planned(
        cls, ball: GeodesicBall, n: int, mu: float, count: GaussianCount, shrink: bool
    ) -> LogSums:
        """Gaussian noise for `mu`."""
        noise = GaussianNoise(_sum_of_logarithms(ball, n), 1.0 / mu)
        exact = exact_tangents(ball.geometry, [1.0 / mu])
        return cls(TangentMean(ball, n, None, noise, shrink, exact), count)

    @property
    def size(self) -> int:
        """Number of sums."""
        return 1 + self.mean.ball.geometry.dim

    def noisy(
        self, arrays: tuple, groups: Groups | None, streams: Callable[..., np.random.Generator]
    ) -> np.ndarray:
        """Number outside the ball and sum of the logarithms, with noise; one vector."""
        (points,), ball = arrays, self.mean.ball
        if groups is not None:
            points = local_means(ball.geometry, points, groups)
        problem, outside = FrechetProblem.from_records(ball, points)
        noisy = self.count.release(outside, streams("clipped fraction"))
        total = self.mean.noisy_sum(problem, streams("tangent mean"))
        return np.concatenate([[noisy], total])


def exact_tangents(geometry: Geometry, noise_multipliers: list[float] | tuple[float, ...]) -> bool:
    """Whether sums of logarithms with Gaussian noise are added in exact integers."""
    reason = f"logarithms that are computed for each record on its own, unlike those of {geometry}"
    return adds_integers(geometry.separate_rows, geometry.dim, noise_multipliers, reason)


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
    bend = 0.0 if ball.geometry.is_flat else _curvature(ball) * ball.radius**2
    return min(bend / 3.0, 0.5), bend * ball.radius / 5.0


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
    def event(self) -> Event:
        return self.solver.event

    @property
    def exact(self) -> bool:
        """Whether gradients are added in exact integers."""
        return self.solver.exact

    def noise_scale(self, problem: FrechetProblem) -> float:
        """Per-coordinate noise of the last step's move when that step starts at the centre."""
        query = GradientQuery(problem, self.ball.center, self.solver.clip_norm)
        sigma = sum_sigma(query, self.solver.noise_multipliers[-1], self.solver.exact)
        return np.atleast_1d(self.solver.step_size)[-1] * sigma / problem.n

    def release(self, problem: FrechetProblem, streams: NoiseStreams) -> tuple[np.ndarray, float]:
        """The private mean and its noise scale."""
        mean = self.solver.solve(problem, self.start, streams("descent"))
        return mean, self.noise_scale(problem)


def default_clip(ball: GeodesicBall) -> float:
    """No clipping where the ball bounds every gradient difference; else the radius."""
    return math.inf if math.isfinite(ball.geometry.curvature_bounds[1]) else ball.radius


def default_descent(
    ball: GeodesicBall, n: int, mu: float, n_steps: int | None = None
) -> tuple[int, tuple[float, float] | None]:
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
