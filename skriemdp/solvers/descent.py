"""DP-RGD: full-batch private Riemannian gradient descent with public step sizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from skriemdp._validation import check_count, check_option, check_positive
from skriemdp.mechanisms.tangent import TangentGaussian
from skriemdp.privacy.events import GaussianEvent

__all__ = ["RiemannianGradientDescent", "geodesic_average"]

OUTPUTS = ("last", "average", "random")


def geodesic_average(geometry, average, point, count: int):
    """Running geodesic average: move `average` a fraction ``1/count`` towards `point`.

    The averaging rule of Theorem 2 of Han, Mishra, Jawanpuria and Gao (2022).
    """
    return geometry.exp(average, geometry.log(average, point) / count)


@dataclasses.dataclass(frozen=True)
class RiemannianGradientDescent:
    """Settings of full-batch DP-RGD (Han, Mishra, Jawanpuria and Gao 2022, Algorithm 1).

    Step t releases ``(1/n) sum_i clip(grad f_i(w_t)) + noise`` in the tangent space at the released
    iterate ``w_t`` and moves along it.  Noise is Gaussian in the Riemannian metric, relative to the
    exact sensitivity ``min(2 clip_norm, diameter(w_t)) / n``, so the whole run is exactly mu-GDP.

    Parameters
    ----------
    mu : float
        Gaussian differential privacy parameter of the whole run.
    n_steps : int
    step_size : float or sequence of float of length `n_steps`
        Public step sizes.
    shares : sequence of float of length `n_steps`, optional
        Fractions of ``mu**2`` given to the steps; equal by default.
    clip_norm : float, default=inf
        Riemannian norm to which each record's gradient is clipped; ``inf`` relies on the problem's
        `gradient_diameter`.
    output : {"last", "average", "random"}
        Last iterate; running geodesic average of all iterates after the start; or an iterate drawn
        uniformly.
    retraction : bool
        Move by the geometry's retraction instead of the exponential map.
    domain : GeodesicBall, optional
        Iterates are projected on it (post-processing).

    Notes
    -----
    *Guarantee*: mu-GDP under replace-one adjacency, n public; Gaussian composition is exact and
    adaptive (Dong, Roth and Su 2022), projections, averages and random choice are post-processing.
    """

    mu: float
    n_steps: int
    step_size: float | tuple[float, ...]
    shares: tuple[float, ...] | None = None
    clip_norm: float = math.inf
    output: str = "last"
    retraction: bool = False
    domain: object = None

    def __post_init__(self):
        check_positive(mu=self.mu)
        check_count(n_steps=self.n_steps)
        check_positive(allow_inf=True, clip_norm=self.clip_norm)
        check_option(OUTPUTS, output=self.output)
        steps = np.broadcast_to(np.asarray(self.step_size, dtype=float), (self.n_steps,))
        if not (np.isfinite(steps).all() and (steps > 0).all()):
            raise ValueError("step_size must hold positive finite numbers.")
        object.__setattr__(self, "step_size", tuple(steps.tolist()))
        shares = self._checked_shares()
        object.__setattr__(self, "shares", shares)

    def _checked_shares(self) -> tuple[float, ...]:
        if self.shares is None:
            return (1.0 / self.n_steps,) * self.n_steps
        if not isinstance(self.shares, Sequence) or len(self.shares) != self.n_steps:
            raise ValueError(f"shares must hold n_steps={self.n_steps} fractions of mu**2.")
        if min(self.shares) <= 0 or not math.isclose(math.fsum(self.shares), 1.0, rel_tol=1e-9):
            raise ValueError("shares must be positive and sum to 1.")
        return tuple(float(share) for share in self.shares)

    @property
    def event(self) -> GaussianEvent:
        """The whole run: Gaussian releases whose squared mu add up to ``mu**2``."""
        return GaussianEvent(noise_multiplier=1.0 / self.mu)

    def solve(self, problem, start, rng, progress=None):
        """Run on `problem` from the public point `start`; every visited point is private-safe.

        Parameters
        ----------
        problem : Problem
        start : ndarray of shape ``problem.geometry.shape``
        rng : numpy.random.Generator
            Source of the noise of this run.
        progress : callable, optional
            Called as ``progress(step, n_steps)`` after each step; it sees no data.

        Returns
        -------
        ndarray
            The output point.
        """
        geometry, point = problem.geometry, np.asarray(start, dtype=float)
        move = geometry.retraction if self.retraction else geometry.exp
        average = chosen = point
        pick = int(rng.integers(self.n_steps)) if self.output == "random" else -1
        # The shares sum to one only up to rounding; dividing by their sum rounds to the safe side.
        total = max(math.fsum(self.shares), 1.0)
        for t, (step, share) in enumerate(zip(self.step_size, self.shares, strict=True)):
            multiplier = 1.0 / (self.mu * math.sqrt(share / total))
            gradient = self._noisy_gradient(problem, point, multiplier, rng)
            point = move(point, -step * gradient)
            if self.domain is not None:
                point = self.domain.project(point)
            if self.output == "average":
                average = geodesic_average(geometry, average, point, t + 1)
            if t == pick:
                chosen = point
            if progress is not None:
                progress(t + 1, self.n_steps)
        return {"last": point, "average": average, "random": chosen}[self.output]

    def _noisy_gradient(self, problem, point, multiplier, rng):
        diameter = min(2.0 * self.clip_norm, problem.gradient_diameter(point))
        if not math.isfinite(diameter):
            raise ValueError(
                "this problem has no finite gradient_diameter at the current iterate; pass a "
                "finite clip_norm."
            )
        mean = problem.clipped_sum(point, self.clip_norm) / problem.n
        mechanism = TangentGaussian(problem.geometry, diameter / problem.n, multiplier)
        return mechanism.release(point, mean, rng)
