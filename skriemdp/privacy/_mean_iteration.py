"""Number of damped steps that compute a Fréchet mean, and the sensitivity of their result.

The proofs are in docs/theory/mean-iteration.md.
"""

from __future__ import annotations

import functools
import math
import sys
from dataclasses import dataclass

import numpy as np

from skriemdp.privacy._sensitivity import frechet_mean_sensitivity, with_tolerance

_MAX_STEPS = 500
# Largest effect of rounding on the computed mean, relative to its sensitivity.
_ROUNDING_SHARE = 1e-3


@dataclass(frozen=True)
class MeanIteration:
    """A public schedule of steps ``x <- exp_x(step * mean log_x)`` from the centre of the ball.

    What it says is about the last iterate, projected on the ball.

    Attributes
    ----------
    step_sizes : tuple of float
    distance_bound : float
        The last iterate is this close to the Fréchet mean, whatever the data.
    sensitivity : float
        Replace-one sensitivity of the last iterate, in geodesic distance.
    """

    step_sizes: tuple[float, ...]
    distance_bound: float
    sensitivity: float


def _zeta(x: float) -> float:
    """x coth x: largest Hessian eigenvalue of half the squared distance, at distance x, K = -1."""
    return 1.0 if x < 1e-9 else x / math.tanh(x)


def _cotangent(x: float) -> float:
    """x cot x: smallest Hessian eigenvalue of half the squared distance, at distance x, K = 1."""
    return 1.0 if x < 1e-9 else x / math.tan(x)


@functools.lru_cache(maxsize=1024)
def plan_mean_iteration(
    radius: float,
    n: int,
    curvature_bounds: tuple[float, float],
    accuracy: float,
    rounding: float = 1.0,
    injectivity: float = 0.0,
) -> MeanIteration | None:
    """Schedule whose last iterate is within `accuracy` of the mean, with a proved sensitivity.

    Parameters
    ----------
    radius : float
        All records lie in a ball of this radius; the iteration starts at its centre.
    n : int
        Number of records.
    curvature_bounds : tuple of float
        Lower and upper bound of the sectional curvature; the lower one must be finite.
    accuracy : float
        Wanted bound of the distance between the last iterate and the mean.
    rounding : float, default=1.0
        ``geometry.rounding(center, radius)``.
    injectivity : float, default=0.0
        ``geometry.injectivity_radius``.  Where the curvature is constant and positive, steps leave
        the ball only as far as records stay within that distance.

    Returns
    -------
    MeanIteration or None
        None where no public contraction rate is known: no lower curvature bound, or a ball of
        varying positive curvature so large that the risk need not be convex on it.  On spheres,
        where the curvature is constant, None only close to a quarter of a great circle, for more
        than 500 steps.  None too where a float cannot hold the iterates of this ball accurately
        enough for so many records (:func:`rounding_is_small`).
    """
    low, high = curvature_bounds
    if not math.isfinite(low) or not math.isfinite(high):
        return None
    if low == 0.0 and high == 0.0:
        # Flat: one step is the mean, exactly.
        return MeanIteration((1.0,), 0.0, frechet_mean_sensitivity(radius, n, 0.0))
    if not rounding_is_small(radius, n, max(rounding, _growth(radius, low, low == high))):
        return None
    # Two computed iterates are each that far from what the proof is about.
    tolerance = _ROUNDING_SHARE * 2.0 * radius / n
    if high <= 0.0:
        return _nonpositive(radius, n, math.sqrt(-low), accuracy, tolerance)
    if low == high:
        return _constant(radius, n, high, accuracy, tolerance, injectivity)
    root_low, root_high = math.sqrt(max(-low, 0.0)), math.sqrt(high)
    return _positive(radius, n, root_low, root_high, accuracy, tolerance)


def rounding_is_small(radius: float, n: int, rounding: float) -> bool:
    """Whether rounding moves a computed mean by a thousandth of what a record may, at most.

    Rounding acts like a hash of all records: a mean that it moves by more than a record may would
    not have the sensitivity that the proof gives it.  A rule that was measured, not proved
    (docs/theory/mean-iteration.md; tests/test_mean_iteration.py holds it).

    Parameters
    ----------
    radius : float
    n : int
    rounding : float
        ``geometry.rounding(center, radius)``: distance, in machine epsilons, by which rounding may
        move a point of the ball.
    """
    return 4.0 * sys.float_info.epsilon * rounding <= _ROUNDING_SHARE * 2.0 * radius / n


def _growth(radius: float, low: float, constant: bool) -> float:
    """Bound the growth of coordinates in a ball about the base point, from the curvature alone.

    Coordinates grow like ``e^x`` in spaces of constant curvature and like ``e^(2 x)`` in others,
    x the distance in units of ``1 / sqrt(-low)``.
    """
    if low >= 0.0:
        return 1.0
    x = math.sqrt(-low) * radius
    return math.exp(min(x if constant else 2.0 * x, 700.0)) / math.sqrt(-low)


def _nonpositive(
    radius: float, n: int, root_k: float, accuracy: float, tolerance: float
) -> MeanIteration | None:
    # |grad F(x_j)| <= gradient, d(x_j, c) <= wander, and d(x_j, x'_j) <= spread for neighbours.
    gradient, wander, spread = radius, 0.0, 0.0
    smallest = 2.0 * radius / n
    # F never exceeds what it is at the centre, so the records are within the radius in the root
    # mean square; from iterates of a neighbour, by that much more.
    average = _zeta(root_k * radius * math.sqrt(1.0 + 9.0 / n))
    steps: list[float] = []
    while len(steps) < _MAX_STEPS:
        reach = min(radius + wander, 2.0 * radius + gradient)
        step = 2.0 / (1.0 + min(_zeta(root_k * (reach + gradient)), average))
        smooth = min(_zeta(root_k * (reach + step * gradient)), average)
        rate = max(abs(1.0 - step), abs(1.0 - step * smooth))
        length = step * (gradient + smooth * spread + smallest)
        lipschitz = rate + math.cosh(root_k * length) - 1.0
        widening = math.sinh(root_k * length) / (root_k * length)
        spread = lipschitz * spread + widening * step * smallest
        steps.append(step)
        wander = min(wander + step * gradient, radius + rate * gradient)
        gradient *= rate
        # F is 1-strongly convex: each iterate is within `gradient` of its own data set's mean.
        spread = min(spread, smallest + 2.0 * gradient)
        # A single step may leave a tenth of the way of the mean.
        short = len(steps) == 1 and rate > 0.1
        if gradient <= accuracy and spread <= 1.01 * smallest and not short:
            sensitivity = with_tolerance(spread * (1.0 + 1e-12), tolerance)
            return MeanIteration(tuple(steps), gradient, sensitivity)
    return None


def _positive(
    radius: float, n: int, root_low: float, root_high: float, accuracy: float, tolerance: float
) -> MeanIteration | None:
    exact = frechet_mean_sensitivity(radius, n, root_high**2)
    gradient, wander = radius, 0.0
    steps: list[float] = []
    while len(steps) < _MAX_STEPS:
        reach = radius + wander
        if root_high * (reach + gradient) >= math.pi / 2.0:
            return None
        convex = _cotangent(root_high * (reach + gradient))
        smooth = _zeta(root_low * (reach + gradient))
        step = 2.0 / (convex + smooth)
        if root_high * (reach + step * gradient) >= math.pi / 2.0:
            return None
        convex = _cotangent(root_high * (reach + step * gradient))
        rate = max(abs(1.0 - step * convex), abs(1.0 - step * smooth))
        if rate >= 1.0:
            return None
        steps.append(step)
        # The mean lies in the ball, and F is `convex`-strongly convex between it and the iterate.
        wander = min(wander + step * gradient, radius + rate * gradient / convex)
        gradient *= rate
        distance = gradient / convex
        if distance <= accuracy and 2.0 * distance <= 0.01 * exact:
            sensitivity = with_tolerance(exact, distance + tolerance) * (1.0 + 1e-12)
            return MeanIteration(tuple(steps), distance, sensitivity)
    return None


def _constant(
    radius: float, n: int, kappa: float, accuracy: float, tolerance: float, injectivity: float
) -> MeanIteration | None:
    """Steps on a space of constant curvature `kappa` > 0, from the centre of the ball."""
    root = math.sqrt(kappa)
    r = root * radius
    if r >= math.pi / 2.0:
        return None
    exact = frechet_mean_sensitivity(radius, n, kappa)
    # Of a unit sphere from here on.  Full steps lower the risk until the gradient is below some
    # limit; they stay in the ball.
    steps, gradient, wander = [], r, 0.0
    limit = 0.5 * math.pi / math.tan(r)
    if gradient > 0.8 * limit:
        gradient, wander = 0.5 * limit, r
        steps = [1.0] * min(math.ceil((r / gradient) ** 2), _MAX_STEPS)
    # Iterates on a unit sphere keep closer to the centre: at a quarter of a circle all bounds end.
    widest = max(min(0.5 * math.pi - 1e-3, root * injectivity - r - 1e-3), r)
    least, wide = _Convexity(r, widest), _Convexity(r, widest)
    while len(steps) < _MAX_STEPS:
        full, long = _full_step(least, gradient, wander), _long_step(wide, gradient, wander)
        # A long step may leave the ball: not for places from where nothing is known of later ones,
        # which go no further than the gradient over its rate in all.
        room = (widest - long[2]) * wide.value
        step, after, wander = long if long[1] < min(full[1], room) else full
        if not after < gradient:
            return None
        gradient = after
        steps.append(step)
        convex = least.at(gradient, max(wander, r))
        if convex <= 0.0:
            continue
        # The mean is that near, and lies in the ball.
        wander = min(wander, r + gradient / convex)
        distance = gradient / convex / root
        near = distance <= accuracy and root * distance < 0.25 * math.pi
        if near and 2.0 * distance <= 0.01 * exact:
            moved = with_tolerance(exact, distance + tolerance) * (1.0 + 1e-12)
            # The last iterate is projected on the ball, which brings it no further from the mean.
            within = with_tolerance(2.0 * radius, tolerance)
            return MeanIteration(tuple(steps), distance, min(moved, within))
    return None


@dataclass
class _Convexity:
    """:func:`least_convexity` of one ball; a number found for similar arguments serves again.

    It falls with both arguments, so what holds for larger ones will do.
    """

    radius: float
    widest: float
    gradient: float = 0.0
    wander: float = 0.0
    value: float = 0.0

    def at(self, gradient: float, wander: float) -> float:
        """A lower bound of ``least_convexity(radius, gradient, wander)``; minus one if unknown."""
        if wander > self.widest:
            return -1.0
        known = 0.25 * self.gradient <= gradient <= self.gradient
        if not (known and 0.0 <= self.wander - wander <= gradient):
            self.gradient, self.wander = gradient, wander
            self.value = least_convexity(self.radius, gradient, wander)
        return self.value


def _full_step(least: _Convexity, gradient: float, wander: float) -> tuple[float, float, float]:
    """A step of size one: it, and bounds of the gradient and of the distance from the centre."""
    r = least.radius
    reach = min(wander + gradient, r) if wander <= r else wander + gradient
    return 1.0, (1.0 - least.at(gradient, reach)) * gradient, reach


def _long_step(least: _Convexity, gradient: float, wander: float) -> tuple[float, float, float]:
    """Step that shrinks the gradient best in the worst case, described as by :func:`_full_step`."""
    r = least.radius
    # A full step from within the ball ends there, and a longer one that far from its end.
    most = r + gradient if wander <= r else math.inf
    convex = least.at(gradient, min(wander + 2.0 * gradient, most))
    step = 2.0 / (1.0 + max(convex, 0.0))
    after = max(1.0 - step * convex, step - 1.0) * gradient
    beyond = r + (step - 1.0) * gradient if wander <= r else math.inf
    return step, after, min(wander + step * gradient, beyond)


@functools.lru_cache(maxsize=4096)
def least_convexity(radius: float, gradient: float, wander: float) -> float:
    """Bound the least Hessian eigenvalue of a risk of points in a ball where its gradient is small.

    Parameters
    ----------
    radius : float
        Of the ball on the unit sphere that holds the points; below ``pi / 2``.
    gradient : float
        Bound of the norm of the gradient of half the mean squared distance, where one is.
    wander : float
        Bound of the distance to the centre of the ball, at most `radius`.

    Returns
    -------
    float
        A lower bound, rounded down; positive for gradients below ``(pi / 2) cot radius``.  Proof:
        docs/theory/mean-iteration.md, "Spheres".
    """
    ends = np.linspace(0.0, wander, 65)
    left, right = ends[:-1], ends[1:]
    ratio, slope = math.cos(radius) / np.cos(left), gradient * np.tan(right)
    # The root of cos t + slope sinc t = ratio, from above; where there is none the root is no more
    # than the largest distance between two points of the ball.
    high = _root_from_above(ratio, slope, np.minimum(radius + right, math.pi))
    return _cotangent(float(high.max())) * (1.0 - 1e-12) - 1e-15


def _root_from_above(ratio: np.ndarray, slope: np.ndarray, most: np.ndarray) -> np.ndarray:
    """An upper bound of the root of ``cos t + slope sinc t = ratio``, at most `most`.

    Newton's method from a right angle, up to which the left side is concave: from beyond a smaller
    root all iterates are beyond it.  Whether the last one is, is looked at; halving replaces it
    where it is not.
    """

    def left(t: np.ndarray) -> np.ndarray:
        return np.cos(t) + slope * (np.sin(t) / t)

    t = np.minimum(most, 0.5 * math.pi)
    for _ in range(12):
        cosine, sine = np.cos(t), np.sin(t)
        sinc = sine / t
        step = (cosine + slope * sinc - ratio) / (sine + slope * (sinc - cosine) / t)
        before, t = t, np.minimum(np.maximum(t + step, 1e-9 * most), most)
        # What is left is of the order of the square of the step.
        if np.abs(t - before).max() <= 3e-7 * most[0]:
            break
    # This far beyond a root its upper bound may be.
    t = np.minimum(t + 1e-11 * most, most)
    if ((t < most) & ~(left(t) <= ratio)).any():
        low, t = 1e-9 * most, most
        for _ in range(36):
            middle = 0.5 * (low + t)
            beyond = left(middle) <= ratio
            low, t = np.where(beyond, low, middle), np.where(beyond, middle, t)
    return t
