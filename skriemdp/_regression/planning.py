"""Plan of a private regression from public numbers: base point, then model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._descent.gradient_descent import RiemannianGradientDescent
from skriemdp._descent.groups import GroupedProblem
from skriemdp._descent.problem import FrechetProblem
from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.bounded_sets import ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.units import Units
from skriemdp._validation import check_option
from skriemdp.geometry import GeodesicBall, Hyperboloid

if TYPE_CHECKING:
    from skriemdp.privacy._events_basic import GaussianEvent

# Names of the releases.
BASE, MODEL = "base point", "model"
# Share of mu^2 for the base point, and the norm to which its gradients are clipped.
BASE_SHARE = 0.1
_BASE_CLIP = 1.0


def clip_norms(coordinates: np.ndarray, length: float) -> np.ndarray:
    """Rows scaled to norm <= `length`; post-processing of releases, projection of labels."""
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.linalg.norm(coordinates, axis=-1, keepdims=True)
        return np.where(norms > length, coordinates / norms * length, coordinates)


@dataclass(frozen=True)
class BasePoint:
    """Private centre of the labels: DP-RGD for a Huber mean, from the origin, then shrunk to it.

    Parameters
    ----------
    dim : int
        Of hyperbolic space of curvature -1.
    radius : float
        Labels lie within it of the origin.
    n : int
    mu : float

    Notes
    -----
    *Guarantee*: mu-GDP, that of
    :class:`skriemdp._descent.gradient_descent.RiemannianGradientDescent`.  The steps add up to the
    radius, so every point of the ball can be reached.  Where the noise is of the size of what was
    found, the result is moved towards the origin (post-processing): a base
    point of pure noise is worse than a public one.
    """

    dim: int
    radius: float
    n: int
    mu: float

    def check(self) -> None:
        """ValueError where integers would be too coarse."""
        ball(Ball(_BASE_CLIP), self.dim).check(self.mu / math.sqrt(self.solver.n_steps))

    @property
    def solver(self) -> RiemannianGradientDescent:
        """Ten steps, more for a radius beyond ten, of decreasing size."""
        n_steps = max(10, math.ceil(self.radius))
        first = 2.0 * max(self.radius, 3.0) / (n_steps + 1)
        steps = tuple(first * (1.0 - t / n_steps) for t in range(n_steps))
        domain = GeodesicBall(Hyperboloid(self.dim), None, self.radius)
        return RiemannianGradientDescent(
            mu=self.mu, n_steps=n_steps, step_size=steps, clip_norm=_BASE_CLIP, domain=domain
        )

    @property
    def event(self) -> GaussianEvent:
        return self.solver.event

    @property
    def sigma(self) -> float:
        """Noise of one coordinate of the base point if nothing pulled it back to the mean."""
        solver = self.solver
        diameter = 2.0 * min(_BASE_CLIP, self.radius) / self.n
        squares = zip(np.atleast_1d(solver.step_size), solver.noise_multipliers, strict=True)
        return diameter * math.sqrt(math.fsum((eta * m) ** 2 for eta, m in squares))

    def release(self, units: Units, rng: np.random.Generator) -> np.ndarray:
        """The base point, from labels on the hyperboloid."""
        solver: Any = self.solver
        problem: Any = FrechetProblem(solver.domain, units.arrays[0])
        if units.groups is not None:
            problem = GroupedProblem(problem, units.groups)
        geometry, origin = problem.geometry, solver.domain.center
        coordinates = geometry.log_coordinates(origin, solver.solve(problem, origin, rng))
        length = max(float(np.linalg.norm(coordinates)), 1e-300)
        kept = max(0.0, 1.0 - self.dim * (self.sigma / length) ** 2)
        return np.asarray(geometry.exp_coordinates(origin, coordinates * kept))


def public_scale(feature_scale: Any, d: int) -> np.ndarray | None:
    """The public scale of d features; None where it has to be found."""
    if isinstance(feature_scale, str):
        check_option(("private",), feature_scale=feature_scale)
        return None
    try:
        scale = np.asarray(feature_scale, dtype=float)
    except (TypeError, ValueError, OverflowError):
        scale = np.zeros(())
    sane = (scale >= 1e-100) & (scale <= 1e100)
    if scale.shape not in ((), (d,)) or not sane.all():
        raise PublicValueError(
            f"feature_scale must be 'private', a number in [1e-100, 1e100] or {d} of them, one per "
            "feature."
        )
    return scale


def frequency_rule(n: int, parametric: bool) -> int:
    """Frequencies of the random features, two features each.

    Features have norm one however many they are, so gradient noise does not grow with them; the
    noise on second moments does.
    """
    return 128 if parametric else 32 if n < 5000 else 64


def length_rule(d: int) -> float:
    """Width of the kernel for d features of scale one."""
    return 0.5 * math.sqrt(d)


def model_rule(n: int, mu: float, n_steps: int | None) -> tuple[int, float, float]:
    """Steps, step size and momentum of the parametric model, by n mu.

    Little signal: few short steps, so that the iterate stays where the noise cannot carry it.
    Much: long effective steps; momentum takes them without the oscillation of long plain steps.
    """
    strength = n * mu
    if n_steps is None:
        n_steps = int(np.clip(strength / 3.0, 10, 100))
    effective = float(np.clip(0.12 * strength / math.sqrt(n_steps), 1.0, 20.0))
    momentum = 0.8 if effective > 3.0 else 0.0
    return n_steps, effective * (1.0 - momentum), momentum


def query_rule(n: int, mu: float) -> int:
    """Steps of DP-RGD for one query."""
    return int(np.clip(n * mu / 100.0, 1, 10))


def query_ridge(n: int, mu: float) -> float:
    """Ridge of the weights of public features, for a query of this budget.

    A record's noise is as large as the largest weight, so little budget asks for weights that are
    even: the ridge grows with the variance of that noise.  Where the budget is large it is 1, the
    choice without privacy.  Found on smooth and on tree-like labels, n = 300 and 1500, mu from .01
    to 30.
    """
    return 1.0 + min(45_000.0 / max(n * mu * mu, 1e-6), 1e9)
