"""DP-RSVRG as published by Huang et al. (2025), for comparison; the package has a sound form."""

import dataclasses
import math

from scipy.optimize import minimize_scalar

from skriemdp._descent.queries import GradientQuery
from skriemdp._descent.releases import exact_mean
from skriemdp._descent.trajectory import Moves, Trajectory
from skriemdp._descent.variance_reduction import transported
from skriemdp._validation import check_count, check_fraction, check_positive
from skriemdp.privacy import FixedSizeSampledGaussianEvent, GaussianEvent, compose


@dataclasses.dataclass(frozen=True)
class PublishedRSVRG:
    """DP-RSVRG exactly as published (Huang et al. 2025, Algorithm 3), with a correct accountant.

    Each inner step draws one record l and releases ``clip1(grad f_l(x)) - T(clip1(grad f_l(x~)) -
    g) + noise``, where g is the *un-noised* mean of ``clip0(grad f_i(x~))``.  The published noise,
    of variance ``m K log(1/delta) tau^2 / (N epsilon)^2``, shrinks with N although one record can
    move a step by ``4 clip1`` however large N is; it gives no (epsilon, delta) near the stated one.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise of every tangent coordinate.
    inner_clip, anchor_clip : float
        ``tau_1`` and ``tau_0`` of the paper.
    n_epochs, epoch_length : int
        K and m of the paper.
    moves : Moves
        Of ``n_epochs * epoch_length`` steps.
    split : float, default=0.5
        Share of the variance that protects the inner record in the accounting; the rest protects
        the anchor.  Fixed in advance; :func:`split_noise` finds a good one.

    Notes
    -----
    *Guarantee*: that of ``event(n)``, replace-one adjacency, n public.  Write the noise as the sum
    of two independent parts; the step is then a function of two releases: the inner difference of a
    uniformly drawn record, sensitivity ``4 inner_clip``, and the anchor, sensitivity ``2
    anchor_clip / n``.  `skriemdp._descent.variance_reduction.RiemannianSVRG` needs far less noise.
    """

    sigma: float
    inner_clip: float
    anchor_clip: float
    n_epochs: int
    epoch_length: int
    moves: Moves
    split: float = 0.5

    def __post_init__(self):
        check_positive(sigma=self.sigma, inner_clip=self.inner_clip, anchor_clip=self.anchor_clip)
        check_count(n_epochs=self.n_epochs, epoch_length=self.epoch_length)
        check_fraction(split=self.split)
        if self.moves.n_steps != self.n_epochs * self.epoch_length:
            raise ValueError("moves.n_steps must be n_epochs * epoch_length.")

    def event(self, n: int):
        """What a run on n records costs."""
        inner = self.sigma * math.sqrt(self.split) / (4.0 * self.inner_clip)
        anchor = self.sigma * math.sqrt(1.0 - self.split) * n / (2.0 * self.anchor_clip)
        count = self.moves.n_steps
        return compose(
            [
                FixedSizeSampledGaussianEvent(
                    population=n, batch_size=1, noise_multiplier=inner, count=count
                ),
                GaussianEvent(noise_multiplier=anchor, count=count),
            ]
        )

    def solve(self, problem, start, rng, callback=None):
        """Run on `problem` from `start`; arguments as in `RiemannianGradientDescent.solve`."""
        geometry, n = problem.geometry, problem.n
        path = Trajectory(geometry, start, self.moves, rng, callback)
        for _ in range(self.n_epochs):
            anchor = path.point
            mean = exact_mean(GradientQuery(problem, anchor, self.anchor_clip))
            for _ in range(self.epoch_length):
                point, chosen = path.point, rng.integers(n, size=1)
                queries = [GradientQuery(problem, x, self.inner_clip) for x in (point, anchor)]
                here, there = (exact_mean(query, chosen) for query in queries)
                value = here - transported(geometry, anchor, point, there - mean)
                path.advance(value + self.sigma * rng.standard_normal(value.shape))
        return path.result


def split_noise(solver: PublishedRSVRG, n: int, delta: float) -> PublishedRSVRG:
    """The same solver with the split of its noise that accounts for it best."""

    def epsilon(logit):
        share = 1.0 / (1.0 + math.exp(-logit))
        return dataclasses.replace(solver, split=share).event(n).epsilon(delta)

    found = minimize_scalar(epsilon, bounds=(-3.0, 12.0), method="bounded", options={"xatol": 0.05})
    return dataclasses.replace(solver, split=1.0 / (1.0 + math.exp(-found.x)))
