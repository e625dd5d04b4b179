"""Released iterates: how a solver moves and what it returns; all of it post-processing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._errors import PublicValueError
from skriemdp._progress import tell
from skriemdp._validation import check_count, check_option, check_positive, plain_numbers

if TYPE_CHECKING:
    from skriemdp.geometry._base import Geometry

OUTPUTS = ("last", "average", "weighted-average", "random")


def geodesic_average(
    geometry: Geometry, average: np.ndarray, point: np.ndarray, weight: float
) -> np.ndarray:
    """Move `average` the fraction `weight` along the geodesic to `point`.

    With weights ``1/t`` this is the averaging of Theorem 2, with ``2/(t + 1)`` that of Theorem 3 of
    Han, Mishra, Jawanpuria and Gao (2022).
    """
    return geometry.exp(average, weight * geometry.log(average, point))


@dataclass(frozen=True)
class Moves:
    """Public rule of a solver's moves along its noisy gradients.

    Parameters
    ----------
    n_steps : int
    step_size : float or sequence of float of length `n_steps`
        Public step sizes.  A step size found by a line search on the records is not public.
    output : {"last", "average", "weighted-average", "random"}
        Last iterate; geodesic average of all iterates after the start, with equal weights (Theorem
        2 of Han et al. 2022) or with weights 1, 2, ..., T (Theorem 3); or an iterate drawn
        uniformly (Theorem 5).
    retraction : bool
        Move by the geometry's retraction instead of the exponential map.
    domain : GeodesicBall, optional
        Iterates are projected on it.
    """

    n_steps: int
    step_size: float | Sequence[float] = 1.0
    output: str = "last"
    retraction: bool = False
    domain: Any = None

    def __post_init__(self) -> None:
        plain_numbers(self)
        check_count(n_steps=self.n_steps)
        check_option(OUTPUTS, output=self.output)
        check_option((False, True), retraction=self.retraction)
        object.__setattr__(self, "step_size", _step_sizes(self.step_size, self.n_steps))


def _step_sizes(step_size: float | Sequence[float], n_steps: int) -> tuple[float, ...]:
    if not isinstance(step_size, (Sequence, np.ndarray)):
        check_positive(step_size=step_size)
        return (float(step_size),) * n_steps
    steps = np.asarray(step_size, dtype=float)
    if steps.shape != (n_steps,):
        raise PublicValueError(
            f"step_size must be one number or n_steps={n_steps} numbers, got shape {steps.shape}."
        )
    if not (np.isfinite(steps).all() and (steps > 0).all()):
        raise PublicValueError("step_size must hold positive finite numbers.")
    return tuple(steps.tolist())


class Trajectory:
    """The iterates of one run of `Moves`; sees released directions only, never a record.

    Parameters
    ----------
    geometry : Geometry
    start : ndarray of shape ``geometry.shape``
    moves : Moves
    rng : numpy.random.Generator
        Chooses the iterate for ``output="random"``.
    callback : callable, optional
        Called as ``callback(step, point)`` with a copy of each released iterate.
    """

    def __init__(
        self,
        geometry: Geometry,
        start: np.ndarray,
        moves: Moves,
        rng: Any,
        callback: Callable[..., Any] | None = None,
    ):
        self.geometry, self.moves = geometry, moves
        self.point = np.asarray(start, dtype=float)
        self._count, self._said = 0, time.monotonic()
        self._chosen = self.point
        self._pick = int(rng.integers(moves.n_steps)) if moves.output == "random" else -1
        self._callback = callback

    def advance(self, direction: np.ndarray) -> None:
        """One step against a released direction, in coordinates at the current point."""
        moves, t = self.moves, self._count
        step_sizes: Any = moves.step_size  # a tuple by now
        move, geometry = -step_sizes[t] * direction, self.geometry
        if moves.retraction:
            tangent = geometry.tangent_from_coordinates(self.point, move)
            point = geometry.retraction(self.point, tangent)
        else:
            point = np.asarray(geometry.exp_coordinates(self.point, move))
        if moves.domain is not None:
            point = moves.domain.project(point)
        self.point = point
        if moves.output == "average":
            self._chosen = geodesic_average(self.geometry, self._chosen, point, 1 / (t + 1))
        elif moves.output == "weighted-average":
            self._chosen = geodesic_average(self.geometry, self._chosen, point, 2 / (t + 2))
        elif moves.output == "last" or t == self._pick:
            self._chosen = point
        self._count += 1
        self._said = tell("descent", self._count, moves.n_steps, self._said)
        if self._callback is not None:
            self._callback(self._count, np.array(point))

    @property
    def result(self) -> np.ndarray:
        """The point that `output` names."""
        return self._chosen


def rehearse(geometry: Geometry, start: np.ndarray, moves: Moves, transport: bool = False) -> None:
    """Do once, without records, what a run will ask of the geometry; so that it fails for free.

    Manifolds of a user may lack a logarithm (needed for averages) or a transport (for variance
    reduction); better to hear of it before the budget is charged.
    """
    Trajectory(geometry, start, moves, np.random.default_rng(0)).advance(np.zeros(geometry.dim))
    if transport:
        geometry.transport(start, start, np.zeros(geometry.shape))
        geometry.dist(start, start)
