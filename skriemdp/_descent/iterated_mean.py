"""The mean of points of a ball by damped steps from its centre: exact, for noise that follows."""

from __future__ import annotations

import numpy as np

from skriemdp._descent.problem import FrechetProblem
from skriemdp._descent.queries import GradientQuery
from skriemdp._descent.releases import exact_mean
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.privacy._mean_iteration import MeanIteration, plan_mean_iteration
from skriemdp.privacy._sensitivity import log_lipschitz


def plan_iteration(ball: GeodesicBall, n: int, accuracy: float) -> MeanIteration | None:
    """The schedule for n points of `ball`, from public numbers; None where nothing is proved."""
    geometry, radius = ball.geometry, ball.radius
    return plan_mean_iteration(
        radius,
        n,
        geometry.curvature_bounds,
        accuracy,
        geometry.rounding(ball.center, radius),
        geometry.injectivity_radius,
    )


def stretch_of(ball: GeodesicBall) -> float:
    """Bound the Lipschitz constant on `ball` of the logarithm at its centre."""
    if ball.geometry.is_hadamard:
        return 1.0
    return log_lipschitz(ball.geometry.curvature_bounds[1], ball.radius)


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
    if problem.center_log_sum is not None and np.array_equal(point, problem.ball.center):
        return np.asarray(problem.center_log_sum) / problem.n
    if query.bound.is_bounded:
        center = query.bound.center
        center = np.zeros(query.dim) if center is None else center
        total = problem.geometry.bounded_log_sum(
            point, problem.points, query.bound.radius, -center, problem.squares
        )
        if total is not None:
            return total / problem.n - center
    return -exact_mean(query)
