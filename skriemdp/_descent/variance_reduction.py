"""DP-RSVRG: variance-reduced private Riemannian descent, in a sound form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skriemdp._descent.problem import Problem
from skriemdp._descent.queries import DifferenceQuery, GradientQuery
from skriemdp._descent.releases import FixedSizeSampler, FullBatch, PoissonSampler
from skriemdp._descent.stochastic import NOISE_BRACKET
from skriemdp._descent.trajectory import Moves, Trajectory
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._mechanisms.budget import Steps
from skriemdp._mechanisms.noise import expect_integers
from skriemdp._validation import check_count, check_positive, check_scale, plain_numbers
from skriemdp.geometry._base import Geometry
from skriemdp.privacy._calibration import calibrate
from skriemdp.privacy._event import Event
from skriemdp.privacy._events import compose

# Steps of an epoch besides the anchor's, and the anchors' noise multiplier over that of the
# differences; public, fixed in advance.
_EPOCH_LENGTH, _ANCHOR_RATIO = 9, 2.5


@dataclass(frozen=True)
class RiemannianSVRG:
    """DP-RSVRG with a noisy anchor and clipped differences.

    Each epoch releases the full gradient at its first point, the anchor, once.  Every later step
    releases, from a random batch, the mean of *differences* between each record's gradient here and
    its transported gradient at the anchor, and moves along transported anchor plus difference.
    Differences are small near the anchor, so their clip norm and hence their noise may be small.

    Parameters
    ----------
    sampler : PoissonSampler or FixedSizeSampler
        Batches of the differences.
    anchor_noise_multiplier, noise_multiplier : float
        Noise over replace-one sensitivity of the anchors and of the batches.
    n_epochs : int
    epoch_length : int
        Number of difference steps per epoch.
    moves : Moves
        Of ``n_epochs * (1 + epoch_length)`` steps.
    clip_norm : float, default=inf
        Clip norm of the anchors' gradients; ``inf`` relies on the problem's gradient_ball.
    difference_clip : float, optional
        Clip norm of the differences, a constant.
    smoothness : float, optional
        Instead of a constant, differences are clipped to ``smoothness * dist(point, anchor)``: no
        bias at all if every record's cost is geodesically `smoothness`-smooth.  Exactly one of the
        two must be given.

    Notes
    -----
    *Guarantee*: that of ``event(n)``, ``n_epochs`` Gaussian releases composed with ``n_epochs *
    epoch_length`` sampled ones, replace-one adjacency, n public.  A clipped difference has norm at
    most c, so two differ by at most 2 c.  Both clip norms are functions of released points
    (docs/theory/optimisation.md, section 3).

    The first step of an epoch, where all differences vanish, uses the anchor alone and asks the
    records nothing more.
    """

    sampler: PoissonSampler | FixedSizeSampler
    anchor_noise_multiplier: float
    noise_multiplier: float
    n_epochs: int
    epoch_length: int
    moves: Moves
    clip_norm: float = math.inf
    difference_clip: float | None = None
    smoothness: float | None = None

    def __post_init__(self) -> None:
        if type(self.sampler) not in (PoissonSampler, FixedSizeSampler):
            raise PublicTypeError(
                "sampler must be a PoissonSampler or FixedSizeSampler, got "
                f"{type(self.sampler).__name__}; with the full batch there is no variance to "
                "reduce, use RiemannianGradientDescent."
            )
        plain_numbers(self)
        check_positive(
            anchor_noise_multiplier=self.anchor_noise_multiplier,
            noise_multiplier=self.noise_multiplier,
        )
        check_count(n_epochs=self.n_epochs, epoch_length=self.epoch_length)
        check_scale(allow_inf=True, clip_norm=self.clip_norm)
        if (self.difference_clip is None) == (self.smoothness is None):
            raise PublicValueError("pass exactly one of difference_clip and smoothness.")
        if self.difference_clip is not None:
            check_positive(difference_clip=self.difference_clip)
        else:
            check_positive(smoothness=self.smoothness)
        steps = self.n_epochs * (1 + self.epoch_length)
        if self.moves.n_steps != steps:
            raise PublicValueError(
                f"moves.n_steps={self.moves.n_steps}, but n_epochs * (1 + epoch_length) = {steps}."
            )

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """Noise multipliers that occur."""
        return (self.anchor_noise_multiplier, self.noise_multiplier)

    def event(self, n: int) -> Event:
        """Event of a run on n records."""
        anchors, steps = self._paid
        return compose(
            [
                FullBatch().event(n, self.anchor_noise_multiplier, anchors.remaining),
                self.sampler.event(n, self.noise_multiplier, steps.remaining),
            ]
        )

    @property
    def _paid(self) -> tuple[Steps, Steps]:
        """The anchors of a run, and its sampled steps."""
        return Steps(self.n_epochs), Steps(self.n_epochs * self.epoch_length)

    def solve(
        self,
        problem: Problem,
        start: np.ndarray,
        rng: np.random.Generator,
        callback: Callable | None = None,
    ) -> np.ndarray:
        """Run on `problem` from `start`; arguments as in `RiemannianGradientDescent.solve`."""
        geometry = problem.geometry
        whole = FullBatch()
        expect_integers(rng, self.moves.n_steps * geometry.dim)
        path, (anchors, steps) = Trajectory(geometry, start, self.moves, rng, callback), self._paid
        for _ in range(self.n_epochs):
            anchor = path.point
            query = GradientQuery(problem, anchor, self.clip_norm)
            gradient = whole.noisy_mean(query, self.anchor_noise_multiplier, anchors, rng)
            path.advance(gradient)
            for _ in range(self.epoch_length):
                point = path.point
                direction = transported(geometry, anchor, point, gradient)
                clip = self._difference_clip(geometry, anchor, point)
                if clip > 0:
                    difference = DifferenceQuery(problem, point, anchor, clip)
                    asked = difference, self.noise_multiplier, steps, rng
                    direction = direction + self.sampler.noisy_mean(*asked)
                path.advance(direction)
        return path.result

    def _difference_clip(self, geometry: Geometry, anchor: np.ndarray, point: np.ndarray) -> float:
        if self.difference_clip is not None:
            return self.difference_clip
        assert self.smoothness is not None
        return self.smoothness * float(geometry.dist(anchor, point))


def transported(
    geometry: Geometry, anchor: np.ndarray, point: np.ndarray, coordinates: np.ndarray
) -> np.ndarray:
    """Coordinates at `point` of a released tangent vector at `anchor`, transported there."""
    tangent = geometry.tangent_from_coordinates(anchor, coordinates)
    moved = geometry.transport(anchor, point, tangent)
    return np.asarray(geometry.coordinates_from_tangent(point, moved))


def whole_epochs(**n_steps: int) -> int:
    """Epochs of so many steps; ValueError, by the name of the parameter, unless they are whole."""
    ((name, steps),) = n_steps.items()
    epochs, rest = divmod(steps, 1 + _EPOCH_LENGTH)
    if rest:
        raise PublicValueError(
            f"{name}={steps} must be a multiple of {1 + _EPOCH_LENGTH}: whole epochs of one anchor "
            f"and {_EPOCH_LENGTH} steps."
        )
    return epochs


def calibrated_svrg(
    sampler: PoissonSampler | FixedSizeSampler,
    moves: Moves,
    n: int,
    epsilon: float,
    delta: float,
    clip_norm: float,
    smoothness: float | None = None,
) -> RiemannianSVRG:
    """DP-RSVRG in epochs of ten steps whose whole run on n records is (epsilon, delta)-private.

    Differences are clipped to `clip_norm` where there is no `smoothness`.

    Parameters
    ----------
    sampler, moves, clip_norm, smoothness
        As in :class:`RiemannianSVRG`.
    n : int
    epsilon, delta : float

    Returns
    -------
    RiemannianSVRG
    """
    epochs = whole_epochs(n_steps=moves.n_steps)

    def solver(multiplier: float) -> RiemannianSVRG:
        return RiemannianSVRG(
            sampler,
            _ANCHOR_RATIO * multiplier,
            multiplier,
            epochs,
            _EPOCH_LENGTH,
            moves,
            clip_norm,
            difference_clip=clip_norm if smoothness is None else None,
            smoothness=smoothness,
        )

    return solver(calibrate(lambda s: solver(s).event(n), epsilon, delta, NOISE_BRACKET))
