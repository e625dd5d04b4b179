"""Output perturbation of the Fréchet mean: draws from Riemannian laws around it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._descent.iterated_mean import iterate_mean
from skriemdp._errors import PublicValueError
from skriemdp._validation import check_fraction
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.geometry._base import Geometry
from skriemdp.privacy._mean_iteration import MeanIteration, plan_mean_iteration, rounding_is_small
from skriemdp.privacy._sensitivity import (
    ball_logarithms_sensitivity,
    ball_sensitivity,
    iterated_mean_sensitivity,
)
from skriemdp.riemannian_laws._output import (
    GradientSum,
    KNormGradientMechanism,
    RiemannianGaussianMechanism,
    RiemannianLaplaceMechanism,
)

if TYPE_CHECKING:
    from skriemdp._descent.problem import FrechetProblem
    from skriemdp._random import NoiseStreams
    from skriemdp.privacy._event import Event


@dataclass(frozen=True)
class DistanceLaw:
    """Distances of draws of a Riemannian law to its centre."""

    law: Any

    def radius(self, level: float) -> float:
        """Distance that a draw keeps within with probability `level`."""
        check_fraction(level=level)
        return float(self.law.distance_quantile(level))


@dataclass(frozen=True)
class OutputMean:
    """A draw from a Riemannian Gaussian or Laplace law around the mean.

    *Guarantee*: that of `mechanism`, whose sensitivity is that of the computed mean
    (docs/theory/mean-iteration.md).
    """

    ball: GeodesicBall
    schedule: MeanIteration
    mechanism: RiemannianGaussianMechanism | RiemannianLaplaceMechanism

    @property
    def event(self) -> Event:
        return self.mechanism.event

    def noise_law(self, point: np.ndarray) -> DistanceLaw:
        """Law of the length of the noise of the released mean."""
        return DistanceLaw(self.mechanism.law)

    def release(self, problem: FrechetProblem, streams: NoiseStreams) -> tuple[np.ndarray, float]:
        """The private mean and its noise scale."""
        mean = iterate_mean(problem, self.schedule.step_sizes)
        noisy = self.mechanism.release(mean, streams("output"))
        mechanism: Any = self.mechanism
        scale = getattr(mechanism, "sigma", None) or mechanism.scale
        return self.ball.project(np.asarray(noisy)), float(scale)


@dataclass(frozen=True)
class KNormMean:
    """A draw with density proportional to ``exp(-|sum_i log_x x_i| / scale)``; exact, no chain.

    On the whole manifold if it is Hadamard, else on the ball.

    *Guarantee*: that of `mechanism`: pure, its sensitivity bounds how far the sum of logarithms
    moves at every x that can be drawn.
    """

    ball: GeodesicBall
    step_sizes: tuple[float, ...]
    mechanism: KNormGradientMechanism

    @property
    def event(self) -> Event:
        return self.mechanism.event

    def release(self, problem: FrechetProblem, streams: NoiseStreams) -> tuple[np.ndarray, float]:
        """The private mean and its noise scale."""
        geometry, ball, points = problem.geometry, self.ball, problem.points
        bounded = self.mechanism.ball is not None
        # In the ball no logarithm is longer than its diameter.
        longest = 2.0 * ball.radius if bounded else math.inf

        def gradient_norm(x: np.ndarray) -> np.ndarray:
            sums = [geometry.clipped_log_sum(point, points, longest) for point in x]
            norms = np.array([float(geometry.norm(p, s)) for p, s in zip(x, sums, strict=True)])
            if bounded:  # there is no density outside
                norms[np.asarray(geometry.dist(ball.center, x)) > ball.radius] = math.inf
            return norms

        # Only the number of proposals depends on how exact this centre is.
        center = iterate_mean(problem, self.step_sizes)
        distances = np.asarray(geometry.dist(center, points)) if bounded else None
        total = GradientSum(gradient_norm, problem.n, center, distances)
        noisy = self.mechanism.release(total, streams("output"))
        return ball.project(np.asarray(noisy)), self.mechanism.scale / problem.n


def plan_output_mean(
    ball: GeodesicBall, n: int, name: str, epsilon: float, delta: float
) -> KNormMean | OutputMean:
    """Calibrate mechanism `name` to (epsilon, delta), from public numbers.

    Raises
    ------
    ValueError
        Where the law or its privacy is not known, or no scale reaches the target.
    """
    geometry, radius = ball.geometry, ball.radius
    check_law(name, geometry)
    rounding = geometry.rounding(ball.center, radius)
    if not rounding_is_small(radius, n, rounding):
        raise PublicValueError(
            f"mechanism={name!r} draws around a mean that is computed in floating point, and in "
            f"this ball (radius={radius:g} around this center, on {geometry}) rounding could move "
            f"the mean of n={n} records by more than a thousandth of what a record may. Use a "
            "smaller radius, a center nearer to the base point, or mechanism='tangent'."
        )
    schedule = _schedule(ball, radius, n, epsilon)
    if name != "k-norm" and schedule is None:
        raise PublicValueError(
            f"mechanism={name!r} needs a mean that is computed to a known accuracy; on {geometry} "
            f"with radius={radius:g} and n={n} no number of steps below 500 is known to reach it. "
            f"Use {_smaller_radius(ball, n, epsilon)}mechanism='tangent'."
        )
    try:
        if name == "k-norm":
            return _k_norm_mean(ball, n, epsilon, schedule)
        assert schedule is not None
        return _around_the_mean(ball, name, schedule, epsilon, delta)
    except ValueError as refusal:  # by the law, which knows no mean
        raise PublicValueError(
            f"mechanism={name!r} with epsilon={epsilon:g}, radius={radius:g} and n={n}: {refusal} "
            "For a mean use mechanism='tangent', more records, or a larger epsilon."
        ) from refusal


def _around_the_mean(
    ball: GeodesicBall, name: str, schedule: MeanIteration, epsilon: float, delta: float
) -> OutputMean:
    geometry = ball.geometry
    kind = RiemannianGaussianMechanism if name == "gaussian" else RiemannianLaplaceMechanism
    if name == "laplace" and geometry.point_ndim == 2:
        delta = 0.0  # on matrices Laplace noise is known by its pure epsilon only
    sensitivity = iterated_mean_sensitivity(schedule.sensitivity, stretch=1.0)
    mechanism = kind.calibrated(geometry, sensitivity, epsilon=epsilon, delta=delta)
    mechanism.law.check_representable()
    return OutputMean(ball, schedule, mechanism)


def check_law(name: str, geometry: Geometry) -> None:
    """ValueError where `name` has no law on `geometry`, with the condition that fails."""
    low, high = geometry.curvature_bounds
    cure = "Use mechanism='tangent', with delta=0 too, or 'gradient' with delta > 0."
    largest = 2 if name == "gaussian" else 10
    space = geometry.symmetric_space
    known = space is not None and (space.name != "spd" or space.size <= largest)
    if name == "k-norm":
        if not (known and geometry.is_hadamard) and not low == high >= 0.0:
            raise PublicValueError(
                "mechanism='k-norm' needs a bound of how far a record moves the sum of logarithms, "
                "and a law that is drawn exactly: flat and hyperbolic spaces, affine-invariant SPD "
                "matrices up to 10 x 10, and balls of constant curvature, such as those of "
                f"spheres; {geometry} is none of them. {cure}"
            )
    elif not known:
        raise PublicValueError(
            f"mechanism={name!r} needs a law with the same normaliser around every point, and "
            "known privacy: spheres, flat and hyperbolic spaces, and affine-invariant SPD matrices "
            f"up to {largest} x {largest} have one; {geometry} is none of them. {cure}"
        )


def _schedule(ball: GeodesicBall, radius: float, n: int, epsilon: float) -> MeanIteration | None:
    geometry = ball.geometry
    accuracy = 0.2 * 2.0 * radius / n / max(epsilon, 1.0) * math.sqrt(geometry.dim)
    rounding = geometry.rounding(ball.center, radius)
    bounds, injectivity = geometry.curvature_bounds, geometry.injectivity_radius
    return plan_mean_iteration(radius, n, bounds, accuracy, rounding, injectivity)


def _smaller_radius(ball: GeodesicBall, n: int, epsilon: float) -> str:
    """The cure that names a radius, where a smaller one has a schedule."""
    for k in range(1, 50):
        radius = float(f"{ball.radius * (1.0 - 0.02 * k):.3g}")
        if _schedule(ball, radius, n, epsilon) is not None:
            return f"radius={radius:g} or "
    return ""


def _k_norm_mean(
    ball: GeodesicBall, n: int, epsilon: float, schedule: MeanIteration | None
) -> KNormMean:
    geometry, support = ball.geometry, None
    sensitivity = ball_sensitivity(ball.radius)
    if not geometry.is_hadamard:
        support = ball
        sensitivity = ball_logarithms_sensitivity(ball.radius, geometry.curvature_bounds[1])
    mechanism = KNormGradientMechanism.calibrated(
        geometry, sensitivity, epsilon=epsilon, ball=support
    )
    mechanism.check_law(n)
    # A convention for manifolds without a proved rate: a hundred full steps.
    return KNormMean(ball, (1.0,) * 100 if schedule is None else schedule.step_sizes, mechanism)
