"""Output perturbation of the Fréchet mean: draws from Riemannian laws around it."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._validation import check_fraction
from skriemdp.geometry.ball import GeodesicBall
from skriemdp.mean.releases import iterate_mean
from skriemdp.privacy.mean_iteration import (
    MeanIteration,
    plan_mean_iteration,
    rounding_is_small,
)
from skriemdp.privacy.sensitivity import ball_sensitivity, iterated_mean_sensitivity
from skriemdp.riemannian_laws.output import (
    KNormGradientMechanism,
    RiemannianGaussianMechanism,
    RiemannianLaplaceMechanism,
)

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams
    from skriemdp.descent.problem import FrechetProblem
    from skriemdp.privacy.event import Event


__all__ = ["OUTPUT_MECHANISMS", "KNormMean", "OutputMean", "plan_output_mean"]

OUTPUT_MECHANISMS = ("gaussian", "laplace", "k-norm")


@dataclasses.dataclass(frozen=True)
class DistanceLaw:
    """Distances of draws of a Riemannian law to its centre."""

    law: Any

    def radius(self, level: float) -> float:
        """With probability `level` a draw is no farther."""
        check_fraction(level=level)
        return float(self.law.distance_quantile(level))


@dataclasses.dataclass(frozen=True)
class OutputMean:
    """A draw from a Riemannian Gaussian or Laplace law around the mean.

    *Guarantee*: that of `mechanism`, whose sensitivity is that of the computed mean
    (docs/theory/mean-iteration.md).
    """

    ball: GeodesicBall
    schedule: MeanIteration
    mechanism: RiemannianGaussianMechanism | RiemannianLaplaceMechanism

    exact = False

    @property
    def event(self) -> Event:
        return self.mechanism.event

    def noise_law(self, point: np.ndarray) -> DistanceLaw:
        """How long the noise of the released mean can be."""
        return DistanceLaw(self.mechanism.law)

    def release(self, problem: FrechetProblem, streams: NoiseStreams) -> tuple[np.ndarray, float]:
        """The private mean and its noise scale."""
        mean = self.ball.project(iterate_mean(problem, self.schedule.step_sizes))
        noisy = self.mechanism.release(mean, streams("output"))
        mechanism: Any = self.mechanism
        scale = getattr(mechanism, "sigma", None) or mechanism.scale
        return self.ball.project(np.asarray(noisy)), float(scale)


@dataclasses.dataclass(frozen=True)
class KNormMean:
    """A draw with density proportional to ``exp(-|sum_i log_x x_i| / scale)``; exact, no chain.

    *Guarantee*: that of `mechanism`: pure, the sum of logarithms moves by at most 2r at every x.
    """

    ball: GeodesicBall
    schedule: MeanIteration
    mechanism: KNormGradientMechanism

    exact = False

    @property
    def event(self) -> Event:
        return self.mechanism.event

    def release(self, problem: FrechetProblem, streams: NoiseStreams) -> tuple[np.ndarray, float]:
        """The private mean and its noise scale."""
        geometry, points = problem.geometry, problem.points

        def gradient_norm(x: np.ndarray) -> np.ndarray:
            sums = [geometry.clipped_log_sum(point, points) for point in x]
            return np.array([float(geometry.norm(p, s)) for p, s in zip(x, sums, strict=True)])

        # Only the number of proposals depends on how exact this centre is.
        center = iterate_mean(problem, self.schedule.step_sizes)
        noisy = self.mechanism.release(gradient_norm, problem.n, center, streams("output"))
        return self.ball.project(np.asarray(noisy)), self.mechanism.scale / problem.n


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
    accuracy = 0.2 * 2.0 * radius / n / max(epsilon, 1.0) * math.sqrt(geometry.dim)
    rounding = geometry.rounding(ball.center, radius)
    if not rounding_is_small(radius, n, rounding):
        raise ValueError(
            f"mechanism={name!r} draws around a mean that is computed in floating point, and in "
            f"this ball (radius={radius:g} around this center, on {geometry}) rounding could move "
            f"the mean of n={n} records by more than a thousandth of what a record may. Use a "
            "smaller radius, a center nearer to the base point, or mechanism='tangent'."
        )
    schedule = plan_mean_iteration(radius, n, geometry.curvature_bounds, accuracy, rounding)
    if schedule is None:
        raise ValueError(
            f"mechanism={name!r} needs a mean that is computed to a known accuracy; on {geometry} "
            f"with radius={radius:g} no rate is known. Use a smaller radius or "
            "mechanism='tangent'."
        )
    if name == "k-norm":
        gradient = KNormGradientMechanism.calibrated(
            geometry, ball_sensitivity(radius), epsilon=epsilon
        )
        gradient.check_law(n)
        return KNormMean(ball, schedule, gradient)
    kind = RiemannianGaussianMechanism if name == "gaussian" else RiemannianLaplaceMechanism
    if name == "laplace" and geometry.point_ndim == 2:
        delta = 0.0  # on matrices Laplace noise is known by its pure epsilon only
    sensitivity = iterated_mean_sensitivity(schedule.sensitivity, stretch=1.0)
    mechanism = kind.calibrated(geometry, sensitivity, epsilon=epsilon, delta=delta)
    mechanism.law.check_representable()
    return OutputMean(ball, schedule, mechanism)
