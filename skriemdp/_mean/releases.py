"""Private releases of a Fréchet mean: frozen settings, planned from public numbers only."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

from skriemdp._descent.gradient_descent import RiemannianGradientDescent
from skriemdp._descent.iterated_mean import iterate_mean, plan_iteration, stretch_of
from skriemdp._descent.problem import FrechetProblem
from skriemdp._descent.queries import GradientQuery
from skriemdp._location_scale.points import PointRecords
from skriemdp._location_scale.search import START, BallEstimate, LocationScaleSearch, james_stein
from skriemdp._mean.uncertainty import NoiseLaw
from skriemdp._mechanisms import bounded_sets
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import GaussianBudget, Release
from skriemdp._mechanisms.counts import GaussianCount
from skriemdp._mechanisms.sum import (
    Part,
    integer_total,
    noised,
    part_of,
    plain_sensitivity,
    plain_sum,
    private_sum,
)
from skriemdp._mechanisms.units import Units
from skriemdp._mechanisms.vector import GaussianNoise, LaplaceNoise
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.geometry._base import Geometry
from skriemdp.inference._covariances import largest_stretch
from skriemdp.privacy._events import compose
from skriemdp.privacy._laplace import LaplaceEvent
from skriemdp.privacy._mean_iteration import MeanIteration
from skriemdp.privacy._sensitivity import Sensitivity, iterated_mean_sensitivity

if TYPE_CHECKING:
    from skriemdp._location_scale.start_releases import StartRule
    from skriemdp._random import NoiseStreams
    from skriemdp.privacy._event import Event

# Wider balls: iterate if it costs less than this part of the worst-case bias of the mean of
# logarithms, about what data show (benchmarks/mean_mechanisms.py --part auto).
_SEEN_BIAS = 0.05
# Below this n mu a search for a ball of matrices is lost more often than not
# (benchmarks/wide_means.py --only matrices).
LEAST_MATRICES = 18.0
# Below it a mean of rows is noise, whatever is spent (benchmarks/raw_data.py --part few).
LEAST_ROWS = 18.0
# Rows that a table in memory may have at most: a column of them takes half a terabyte.
_MOST = 2.0**36


def projected_records(problem: FrechetProblem, n: int) -> PointRecords:
    """The projected points of a problem, planned to be n, with what is known of them."""
    records = PointRecords(problem.geometry, problem.points, n)
    if problem.center_rows is not None:
        records.cache_coordinates(problem.ball.center, problem.center_rows)
    return records


@dataclass(frozen=True)
class MeanNoise:
    """Noise on the mean of vectors in a ball, one for each record: Gaussian, or Laplace.

    Parameters
    ----------
    mu : float or None
        Of Gaussian noise.
    law : LaplaceEvent or None
        Of Laplace noise.
    secret_n : bool
        Whether n was released, so that the rounding of a total is that of the longest table.

    Notes
    -----
    *Guarantee*: mu-GDP for the program as it runs; or that of `law`, whose noise is a float, on an
    exact total.  A record that is added or removed moves a sum half as far as one that is replaced.
    """

    mu: float | None
    law: LaplaceEvent | None
    secret_n: bool = False

    def spread(self, dim: int) -> float:
        """Root mean square of the length of the noise, over the sensitivity."""
        if self.law is not None:
            return math.sqrt(self.law.mean_square_over_sensitivity)
        assert self.mu is not None  # one of the two is given
        return math.sqrt(dim) / self.mu

    def check(self, dim: int) -> None:
        """ValueError where integers would be too coarse; before the charge."""
        if self.law is None:
            assert self.mu is not None
            bounded_sets.ball(Ball(1.0), dim).check(self.mu)

    def noisy_mean(
        self,
        units: Units,
        give: Callable[..., np.ndarray],
        bound: Ball,
        dim: int,
        n: int,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, float]:
        """Noisy mean of what n records give, and its noise per coordinate."""
        vectors = bounded_sets.ball(bound, dim)
        if self.law is None:
            assert self.mu is not None
            total, sigma = private_sum(units, give, vectors, self.mu, rng)
        else:
            exact, sensitivity = plain_sum(units, give, vectors, _MOST if self.secret_n else n)
            noise = LaplaceNoise(sensitivity, self.law)
            total, sigma = noise.release(exact, rng), noise.sigma
        return total / n if bound.center is None else bound.center + total / n, sigma / n

    def sigma(self, radius: float, dim: int, n: int) -> float:
        """The noise per coordinate of a mean of vectors in a ball of this radius."""
        vectors = bounded_sets.ball(Ball(radius), dim)
        if self.law is None:
            assert self.mu is not None
            return vectors.sigma(vectors.check(self.mu)) / n
        most = _MOST if self.secret_n else n
        return LaplaceNoise(plain_sensitivity(vectors, most), self.law).sigma / n

    def on(self, sensitivity: Sensitivity) -> GaussianNoise | LaplaceNoise:
        """Make the same noise, as a float, for a vector with this sensitivity."""
        if self.law is not None:
            return LaplaceNoise(sensitivity, self.law)
        assert self.mu is not None
        return GaussianNoise(sensitivity, 1.0 / self.mu)

    def law_at(
        self, geometry: Geometry, center: np.ndarray, point: np.ndarray, sigma: float
    ) -> NoiseLaw:
        """Law of the distance that such noise on coordinates at `center` moves `point`.

        `sigma` is that of each coordinate.
        """
        longest = largest_stretch(geometry, center, point) * sigma
        if self.law is None:
            return NoiseLaw(geometry.dim, longest)
        # The scale of the law over the standard deviation of a coordinate.
        over = math.sqrt(geometry.dim) * self.law.scale_over_sensitivity / self.spread(geometry.dim)
        return NoiseLaw(geometry.dim, longest * over, laplace=True)


def sphere_hessian(length: float, dim: int) -> float:
    """Mean second derivative of half the squared distance to points of a unit sphere.

    Along the way to a point at distance r it is one, across it ``r cot r``; the points' mean vector
    has the length of the cosine of r, on average.  Kept in [.2, 1].

    Parameters
    ----------
    length : float
        Of the mean of the points as unit vectors.
    dim : int
        Of the sphere.
    """
    r = math.acos(min(max(length, -1.0), 1.0))
    across = r / math.tan(r) if r > 1e-9 else 1.0
    # Noise in a small one would make the step too long.
    return min(max((1.0 + (dim - 1) * across) / dim, 0.2), 1.0)


def cloud_hessian(geometry: Geometry, found: BallEstimate) -> float:
    """Mean second derivative of half the squared distance to records of a found ball.

    They are taken for a round Gaussian cloud of which the ball holds the share that the search
    asked for; the mean is over directions, to first order in curvature.
    """
    if geometry.is_flat:
        return 1.0
    variance = found.radius**2 / float(chdtri(geometry.dim, max(1.0 - found.level, 1e-4)))
    form = np.asarray(geometry.curvature_form(found.center, np.eye(geometry.dim)))
    return 1.0 - variance * float(np.trace(form)) / (3.0 * geometry.dim)


@dataclass(frozen=True, eq=False)
class LogStep:
    """One step from a released centre, by the mean of the logarithms of all records.

    Newton's step for the mean squared distance, with `hessian` for its mean second derivative: it
    leads towards the stationary point that lies nearest, which is the Fréchet mean where the data
    lie in an open half sphere.

    *Guarantee*: that of :class:`MeanNoise`; each logarithm is clipped to the radius, so that
    their sum moves by at most twice that, past the cut locus too.  What follows is post-processing.
    """

    geometry: Geometry
    center: np.ndarray
    radius: float
    n: int
    noise: MeanNoise
    hessian: float = 1.0
    shrink: bool = False

    def noise_law(self, point: np.ndarray) -> NoiseLaw | None:
        """Law of the length of the noise of the released mean `point`; None if that was shrunk."""
        if self.shrink:
            return None
        sigma = self.noise.sigma(self.radius, self.geometry.dim, self.n) / self.hessian
        return self.noise.law_at(self.geometry, self.center, point, sigma)

    @classmethod
    def after(
        cls, geometry: Geometry, found: BallEstimate, n: int, noise: MeanNoise, shrink: bool
    ) -> LogStep:
        """The step from the centre that a search found."""
        if geometry.is_hadamard:
            hessian = cloud_hessian(geometry, found)
        else:
            hessian = 1.0 if found.length is None else sphere_hessian(found.length, geometry.dim)
        return cls(geometry, found.center, found.radius, n, noise, hessian, shrink)

    def release(self, records: PointRecords, streams: NoiseStreams) -> tuple[np.ndarray, float]:
        """The private mean and its noise scale."""
        move, scale = self.noise.noisy_mean(
            *records.logarithms(self.center),
            Ball(self.radius),
            self.geometry.dim,
            self.n,
            streams("tangent mean"),
        )
        if self.shrink:
            move, _ = james_stein(move, scale)
        move = move / self.hessian
        move = move * min(1.0, self.radius / max(float(np.linalg.norm(move)), 1e-300))
        point = np.asarray(self.geometry.exp_coordinates(self.center, move))
        return point, scale / self.hessian


def inside(ball: GeodesicBall, point: np.ndarray) -> np.ndarray:
    """`point` projected on `ball`; its centre where a step was so long that it left the floats."""
    if not np.isfinite(point).all() or not bool(ball.geometry.belongs(point)):
        return ball.center
    return np.asarray(ball.project(point))


def estimated_ball(geometry: Geometry, found: BallEstimate) -> GeodesicBall:
    """The ball of a search, no wider than balls may be."""
    limit = geometry.radius_limit
    # Radii that were found stay below the limit of the geometry, by a convention.
    radius = found.radius if found.radius < limit else 0.999 * limit
    return GeodesicBall(geometry, found.center, radius)


@dataclass(frozen=True, eq=False)
class StartAlone:
    """The start of a search, with the whole budget: a multiple of the identity; or the base point.

    *Guarantee*: mu-GDP, that of the start (docs/theory/location-scale.md, "Starts").  Where `rule`
    is None nothing is asked of the records, and nothing is charged.
    """

    geometry: Geometry
    rule: StartRule | None
    mu: float

    @classmethod
    def of(
        cls, geometry: Geometry, search: LocationScaleSearch, n: int | None = None
    ) -> StartAlone | None:
        """Return the release that replaces this search and its mean; None where those pay.

        By default n is that of the search.
        """
        n = search.n if n is None else n
        known = search.center is not None or search.radius is not None
        enough = n * search.mu >= LEAST_MATRICES
        if known or enough or search.rule is None or geometry.scaling is None:
            return None
        return cls(geometry, dataclasses.replace(search.rule, share=1.0), search.mu)

    @classmethod
    def unasked(cls, geometry: Geometry, search: LocationScaleSearch) -> StartAlone | None:
        """The origin of R^d, from so few records that a mean would be noise; else None."""
        known = search.center is not None or search.radius is not None
        if known or not geometry.is_flat or search.rule is not None:
            return None
        return cls(geometry, None, 0.0) if search.n * search.mu < LEAST_ROWS else None

    @property
    def budget(self) -> GaussianBudget | None:
        """All of the budget, taken for the one release; None where nothing is asked."""
        if self.rule is None:
            return None
        budget = GaussianBudget(self.mu)
        budget.rest(START, 1)
        return budget

    @property
    def event(self) -> Event:
        """Return the event of the release."""
        return compose([]) if self.budget is None else self.budget.event

    @property
    def releases(self) -> tuple[Release, ...]:
        """Return the planned releases."""
        return () if self.budget is None else self.budget.releases

    def release(self, records: PointRecords, streams: NoiseStreams) -> np.ndarray:
        """The point."""
        if self.rule is None:
            return self.geometry.base_point
        found = self.rule.release(records, GaussianBudget(self.mu, self.releases), streams)
        return np.asarray(found.center)


@dataclass(frozen=True)
class TangentMean:
    """One release: normal coordinates at the public centre of the mean, plus noise.

    Parameters
    ----------
    ball : GeodesicBall
        Public; every record has been projected on it.
    n : int
        Number of records.
    noise : MeanNoise
        On the mean of the logarithms, or on the coordinates of the iterated mean.
    schedule : MeanIteration or None
        Steps that compute the mean; None releases the mean of ``log_c x_i`` itself.
    mechanism : GaussianNoise or LaplaceNoise, optional
        Noise on the coordinates of the iterated mean.
    shrink : bool
        James-Stein shrinkage towards the centre by the known noise variance (post-processing).

    Notes
    -----
    *Guarantee*: that of `noise`.  The iterate moves by at most `schedule.sensitivity`
    (docs/theory/mean-iteration.md) and ``log_c`` stretches by at most ``s(r)`` on the ball; it is
    computed, and gets its noise, in floating point.  The sum of logarithms moves by at most ``2 r``
    on any manifold, because every one of them lies in a ball of radius r.  Projection on the ball
    is post-processing and moves no point of the ball.
    """

    ball: GeodesicBall
    n: int
    noise: MeanNoise
    schedule: MeanIteration | None = None
    mechanism: GaussianNoise | LaplaceNoise | None = None
    shrink: bool = False

    @property
    def noise_scale(self) -> float:
        """Standard deviation of each orthonormal tangent coordinate, in geodesic distance."""
        if self.mechanism is not None:
            return self.mechanism.sigma
        return self.noise.sigma(self.ball.radius, self.ball.geometry.dim, self.n)

    def noise_law(self, point: np.ndarray) -> NoiseLaw | None:
        """Law of the length of the noise of the released mean `point`; None if that was shrunk."""
        if self.shrink:
            return None
        ball = self.ball
        return self.noise.law_at(ball.geometry, ball.center, point, self.noise_scale)

    def noisy(self, problem: FrechetProblem, rng: np.random.Generator) -> np.ndarray:
        """The released coordinates at the centre."""
        geometry, center = self.ball.geometry, self.ball.center
        if self.schedule is None or self.mechanism is None:
            records, bound = projected_records(problem, self.n), Ball(self.ball.radius)
            seen = records.logarithms(center)
            return self.noise.noisy_mean(*seen, bound, geometry.dim, self.n, rng)[0]
        mean = iterate_mean(problem, self.schedule.step_sizes)
        return self.mechanism.release(np.asarray(geometry.log_coordinates(center, mean)), rng)

    def release(self, problem: FrechetProblem, streams: NoiseStreams) -> tuple[np.ndarray, float]:
        """The private mean and its noise scale."""
        return self.finish(self.noisy(problem, streams("tangent mean"))), self.noise_scale

    def finish(self, noisy: np.ndarray, n_tables: float = 1) -> np.ndarray:
        """Post-processing: shrink, shorten to the ball's radius, map to the manifold.

        `noisy` has noise of the variance of so many releases.
        """
        norm = np.maximum(np.linalg.norm(noisy, axis=-1, keepdims=True), 1e-300)
        factor = np.ones_like(norm)
        if self.shrink:
            excess = (self.ball.geometry.dim - 2) * n_tables * self.noise_scale**2
            factor = np.maximum(0.0, 1.0 - max(excess, 0.0) / np.maximum(norm**2, 1e-300))
        factor = np.minimum(factor, self.ball.radius / norm)
        return np.asarray(self.ball.geometry.exp_coordinates(self.ball.center, noisy * factor))


def plan_tangent_mean(
    ball: GeodesicBall, n: int, noise: MeanNoise, shrink: bool = False
) -> TangentMean:
    """Choose what the one-shot release of a mean is of, from public numbers.

    The mean is iterated until its worst-case error is half the noise (the error on real data is far
    smaller).  The mean of the logarithms at the centre is released instead where n is secret, and
    where no public contraction rate is known (no curvature bound, or a large ball on a positively
    curved manifold), where the centre or the size of the ball leaves a float too few digits, and
    where positive curvature would cost more noise than the bias it removes: on spheres the iterated
    mean is more sensitive, by 1.6 in a ball of radius pi / 4 and by 9 at 1.4.
    """
    geometry, radius = ball.geometry, ball.radius
    spread = noise.spread(geometry.dim)
    smallest = 2.0 * radius / n
    schedule = None
    # In flat space the first step from the centre ends at the mean.
    once = noise.secret_n or geometry.is_flat
    hidden = not geometry.is_hadamard and smallest * spread >= bias_bounds(ball)[1]
    if not once and not hidden:
        schedule = plan_iteration(ball, n, 0.5 * smallest * spread)
    if schedule is not None and schedule.step_sizes == (1.0,):
        # From the centre, one full step ends where the mean of the logarithms says.
        schedule = None
    if schedule is not None and not geometry.is_hadamard:
        cost = schedule.sensitivity * stretch_of(ball) / smallest
        seen = math.hypot(1.0, _SEEN_BIAS * bias_bounds(ball)[1] / (smallest * spread))
        # In positively curved balls means are iterated if that is cheap, because iterating has no
        # bias.
        if cost > max(math.sqrt(2.0), seen):
            schedule = None
    if schedule is None:
        noise.check(geometry.dim)
        return TangentMean(ball, n, noise, shrink=shrink)
    mechanism = noise.on(iterated_mean_sensitivity(schedule.sensitivity, stretch_of(ball)))
    return TangentMean(ball, n, noise, schedule, mechanism, shrink)


def pure_law(dim: int, epsilon: float) -> LaplaceEvent:
    """The law of Laplace noise that is `epsilon`-DP, in units of the sensitivity."""
    return LaplaceEvent(dim, 1.0 / epsilon)


@dataclass(frozen=True)
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
    def planned(cls, ball: GeodesicBall, n: int, mu: float, count: float, shrink: bool) -> LogSums:
        """Gaussian noise for `mu`, and a count for that mu."""
        noise = MeanNoise(mu, None)
        noise.check(ball.geometry.dim)
        return cls(TangentMean(ball, n, noise, shrink=shrink), GaussianCount(1.0 / count))

    @property
    def size(self) -> int:
        """Number of sums."""
        return 1 + self.mean.ball.geometry.dim

    @property
    def _bounded_set(self) -> bounded_sets.VectorSet:
        """The set of what a record adds."""
        return bounded_sets.ball(Ball(self.mean.ball.radius), self.mean.ball.geometry.dim)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Number outside the ball, and sum of the logarithms."""
        mu = self.mean.noise.mu
        assert mu is not None  # as planned
        return self.count.part("clipped fraction"), part_of("tangent mean", self._bounded_set, mu)

    def exact(self, records: Units) -> list[np.ndarray]:
        """Integers of the number outside the ball and of the sum of logarithms, before noise."""
        ball = self.mean.ball
        points = PointRecords(ball.geometry, records.arrays[0], groups=records.groups)
        outside = points.outside(ball.center, ball.radius)
        seen = points.logarithms(ball.center)
        return [
            self.count.exact(outside),
            integer_total(*seen, self._bounded_set, self.parts[1].steps),
        ]

    def decoded(self, noisy: np.ndarray) -> np.ndarray:
        """Number and sum, of noisy integers."""
        vectors = self._bounded_set.value(noisy[1:], self.parts[1].steps)
        return np.concatenate([self.count.value(noisy[:1]), vectors])

    def noisy(self, records: Units, streams: Callable[..., np.random.Generator]) -> np.ndarray:
        """Number outside the ball and sum of the logarithms, with noise; one vector."""
        return self.decoded(noised(self.parts, self.exact(records), streams))


def bias_bounds(ball: GeodesicBall) -> tuple[float, float]:
    """Contraction of an error by a full gradient step, and bias of the mean of logarithms.

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


@dataclass(frozen=True)
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

    def noise_scale(self, problem: FrechetProblem) -> float:
        """Per-coordinate noise of the last step's move when that step starts at the centre."""
        query = GradientQuery(problem, self.ball.center, self.solver.clip_norm)
        assert self.solver.shares is not None  # set by the solver
        noise = MeanNoise(self.solver.mu * math.sqrt(self.solver.shares[-1]), None)
        sigma = noise.sigma(query.bound.radius, query.dim, problem.n)
        return np.atleast_1d(self.solver.step_size)[-1] * sigma

    def release(self, problem: FrechetProblem, streams: NoiseStreams) -> tuple[np.ndarray, float]:
        """The private mean and its noise scale."""
        mean = self.solver.solve(problem, self.start, streams("descent"))
        return mean, self.noise_scale(problem)


def default_clip(ball: GeodesicBall) -> float:
    """Return inf (no clipping) where the ball bounds gradient differences, else the radius."""
    return math.inf if math.isfinite(ball.geometry.curvature_bounds[1]) else ball.radius


def default_descent(
    ball: GeodesicBall, n: int, mu: float, n_steps: int | None = None
) -> tuple[int, tuple[float, float] | None]:
    """Number of steps and shares of mu**2 of the default DP-RGD, from public numbers.

    One full step when its curvature bias is below the noise, else a rough step with a tenth of the
    budget and a precise one; more steps or equal shares only add noise
    (``python benchmarks/mean_utility.py``).
    """
    kappa = _curvature(ball)
    if n_steps is None:
        quiet = kappa == 0 or n * mu <= 10 * math.sqrt(ball.geometry.dim) / (kappa * ball.radius**2)
        n_steps = 1 if quiet else 2
    if n_steps == 2:
        return 2, (0.1, 0.9)
    return n_steps, None
