"""The default mean: its public rules, and the program that asks a curator for it.

A search says where the records are, a count how many lie outside, and the last release is the mean
of the logarithms there, or the iterated mean.  A public ball is where the same search begins.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from skriemdp._dataclasses import dataclass
from skriemdp.core.arithmetic import INTEGERS, ITERATED, PLAIN
from skriemdp.curator.curator import Curator
from skriemdp.curator.openings import Gaussian, Pure
from skriemdp.curator.rehearsal import Rehearsal
from skriemdp.geometry.ball import GeodesicBall, descent_reach
from skriemdp.geometry.base import Geometry
from skriemdp.location_scale.points import Points
from skriemdp.location_scale.row_releases import COUNT_SHARE
from skriemdp.location_scale.search import Found, LocationScaleSearch, Radii, Shares, search
from skriemdp.location_scale.start_releases import PublicStart
from skriemdp.mean.releases import LogStep, MeanNoise, plan_tangent_mean, pure_law
from skriemdp.mean.uncertainty import NoiseLaw
from skriemdp.mechanisms.budget import COUNT, Release
from skriemdp.privacy.calibration import gaussian_mu
from skriemdp.privacy.event import Event
from skriemdp.privacy.laplace import LaplaceEvent, laplace_law

# Share of a pure epsilon for the released fraction of clipped rows: a convention.
COUNT_PURE = 0.03
# Laplace noise is drawn where its mean square is at most this part of Gaussian noise's: it composes
# worse with the fits that follow (benchmarks/laplace_noise.py --stages).
_LAPLACE_GAIN = 0.9
# The part required where Laplace noise rules out the further steps of a search, if their share of
# mu**2 exceeds _MUCH (benchmarks/raw_data.py --part means).
_FAR_GAIN, _MUCH = 0.84, 0.12
# Above, e^epsilon leaves the floating-point range in the accounting of Laplace noise.
_LAPLACE_EPSILON = 300.0
# Above, it saves less than 2 % (for delta down to 1e-12).
_LAPLACE_DIM = 1000
# In a public ball a search may cost data that fill it so much of mu**2, at least and at most, and
# (40 / n mu)**2 in between; below this n times its mu it would find nothing
# (benchmarks/mean_mechanisms.py --part auto).
_LEAST, _MOST, _NEED, _LEAST_SEEKING = 0.06, 0.2, 40.0, 14.0
# Two rounds from this n mu on, and the part of a round that is for its radius.
_TWO_ROUNDS, _FOR_RADIUS = 60.0, 0.3
# Grid of the radii that it may return, over that of the public ball: a convention.
_RATIO, _RADII = 1.15, 46


class Released(NamedTuple):
    """What a fit released, and what it knows of it."""

    mean: np.ndarray
    center: np.ndarray
    radius: float
    noise_scale: float
    law: NoiseLaw | None
    outside: float
    outside_noise: float
    found: Found | None


@dataclass(frozen=True, eq=False)
class MeanProgram:
    """A mean by itself, in a ball that is public or found; all numbers are public.

    Attributes
    ----------
    geometry : Geometry
    n : int
    opening : Gaussian or Pure
        What it costs.
    ball : GeodesicBall or None
        Public.
    search : LocationScaleSearch or None
        For a ball, or for a smaller one inside the public one.
    shrink : bool
        James-Stein shrinkage of the mean towards the centre (post-processing).
    secret_n : bool
        Whether n was released: the mean is then not iterated, in floating point.
    releases : tuple of Release
        What may be released, with its share.

    Notes
    -----
    *Guarantee*: that of the opening (docs/theory/curator.md).
    """

    geometry: Geometry
    n: int
    opening: Gaussian | Pure
    ball: GeodesicBall | None = None
    search: LocationScaleSearch | None = None
    shrink: bool = True
    secret_n: bool = False
    releases: tuple[Release, ...] = ()

    # -- what is public -------------------------------------------------------------------------

    @property
    def event(self) -> Event:
        """All of it."""
        return self.opening.event(self.n)

    @property
    def mechanism(self) -> str:
        """Its name for users."""
        return "tangent" if self.ball is None or self.search is None else "adaptive"

    @property
    def planned(self) -> tuple[Release, ...]:
        """What its budget pays for; a law has an event of its own."""
        return self.releases[:-1] if self.opening.law is not None else self.releases

    @property
    def pure(self) -> bool:
        """Whether its privacy is pure."""
        return isinstance(self.opening, Pure)

    @property
    def law(self) -> LaplaceEvent | None:
        """Laplace noise of the mean, if that is what it has."""
        return self.noise(self.releases[-1].share).law

    def noise(self, left: float) -> MeanNoise:
        """Noise of the mean, for what is left of the budget."""
        opening = self.opening
        if isinstance(opening, Pure):
            law = pure_law(self.geometry.dim, opening.epsilon * left * (1.0 - 1e-12))
            return MeanNoise(None, law, self.secret_n)
        if opening.law is not None:
            return MeanNoise(None, opening.law, self.secret_n)
        return MeanNoise(opening.mu * math.sqrt(left), None, self.secret_n)

    @property
    def _one_step(self) -> bool:
        """Whether the mean is one step from the centre that is found: where iteration would cost
        noise, or not move it.
        """
        if self.search is None:
            return False
        geometry = self.geometry
        return geometry.is_flat or (self.search.center is None and not geometry.is_hadamard)

    @property
    def arithmetic(self) -> str:
        """What adds the records and their noise, in words."""
        iterated = not (self._one_step or self.secret_n or self.geometry.is_flat)
        if self.search is None:
            assert self.ball is not None  # public or searched for
            noise = self.noise(self.releases[-1].share)
            iterated = plan_tangent_mean(self.ball, self.n, noise).accuracy is not None
        if iterated:
            return ITERATED
        return INTEGERS if self.law is None else PLAIN

    # -- the program ----------------------------------------------------------------------------

    def run(self, curator: Curator) -> Released:
        """Release it."""
        where, records, found, outside = Points(self.geometry), curator, None, None
        count = curator.keep(COUNT_PURE if self.pure else COUNT_SHARE, COUNT, 1)

        def beyond(center: np.ndarray, radius: float) -> Any:
            return curator.count(where.distance(center), radius, count, COUNT, "clipped fraction")

        if self.search is not None:
            if self.ball is not None:
                outside = beyond(self.ball.center, self.ball.radius)
                records = curator.within(self.ball)
            found = search(records, self.search, where)
        step = self._step(found, self.noise(curator.left))
        outside = beyond(step.center, step.radius) if outside is None else outside
        mean, center, radius = step.release(records), step.center, step.radius
        if self.ball is not None:
            mean, center, radius = inside_of(self.ball, mean), self.ball.center, self.ball.radius
        count_noise = outside.sigma / self.n
        law = step.noise_law(mean) if records is curator else None
        told = step.noise_scale, law, float(outside.value) / self.n, count_noise, found
        return Released(mean, center, radius, *told)

    def _step(self, found: Found | None, noise: MeanNoise) -> Any:
        """The last release: what it is of."""
        if found is None:
            assert self.ball is not None  # public or searched for
            return plan_tangent_mean(self.ball, self.n, noise, self.shrink)
        if self._one_step:
            return LogStep.after(self.geometry, found, self.n, noise, self.shrink)
        return plan_tangent_mean(found_ball(self.geometry, found), self.n, noise, self.shrink)


def inside_of(ball: GeodesicBall, point: np.ndarray) -> np.ndarray:
    """`point` projected on `ball`; its centre where a step was so long that it left the floats."""
    if not np.isfinite(point).all() or not bool(ball.geometry.belongs(point)):
        return ball.center
    return np.asarray(ball.project(point))


def found_ball(geometry: Geometry, found: Found) -> GeodesicBall:
    """The ball of a search, no wider than balls may be."""
    limit = geometry.radius_limit
    # Radii that were found stay below the limit of the geometry, by a convention.
    radius = found.radius if found.radius < limit else 0.999 * limit
    return GeodesicBall(geometry, found.center, radius)


# -- its plan, from public numbers -----------------------------------------------------------------


def plan_program(
    geometry: Geometry,
    n: int,
    epsilon: float,
    delta: float,
    *,
    mechanism: str = "auto",
    noise: str = "auto",
    ball: GeodesicBall | None = None,
    search: LocationScaleSearch | None = None,
    shrink: bool = True,
    secret_n: bool = False,
) -> MeanProgram:
    """Choose the law of the noise and the search, and rehearse.

    Parameters
    ----------
    geometry : Geometry
    n : int
        Number of records.
    epsilon, delta : float
    mechanism, noise : str
        As for :class:`skriemdp.PrivateFrechetMean`.
    ball : GeodesicBall, optional
        The public one.
    search : LocationScaleSearch, optional
        For a private one.
    shrink : bool
    secret_n : bool, default=False
        Whether n was released: what the fit costs does not depend on it then.

    Raises
    ------
    ValueError
        Where integers would be too coarse, or a law out of range.
    """
    if delta == 0.0:
        return rehearsed(MeanProgram(geometry, n, Pure(epsilon), ball, None, shrink, secret_n))
    mu, laplace = gaussian_mu(epsilon, delta), _with_laplace(noise, geometry.dim, epsilon, delta)
    wide = ball is not None and ball.radius > descent_reach(geometry)
    laplace = laplace and not (secret_n and search is not None)
    short, needed = search, math.inf if noise == "laplace" else 1.0
    if search is not None:
        # What a search leaves is of use to Gaussian noise only: steps towards data far off are not
        # reserved for nothing.
        short, needed = search.without_further(), _FAR_GAIN
        if search.shares.total - short.shares.total <= _MUCH:
            short, needed = search, _LAPLACE_GAIN
    cap = COUNT_SHARE + (0.0 if short is None else short.shares.total)
    if ball is not None and mechanism == "auto" and not wide:
        search, cap = _inside(ball, n, mu, fixed=secret_n and laplace)
        short = search
    law = _law_after(geometry.dim, epsilon, delta, mu, cap, needed) if laplace else None
    opening = Gaussian(mu) if law is None else Gaussian(mu, cap, law)
    search = search if law is None else short
    return rehearsed(MeanProgram(geometry, n, opening, ball, search, shrink, secret_n))


def rehearsed(program: MeanProgram) -> MeanProgram:
    """The program with what it takes."""
    rehearsal = Rehearsal(program.n, program.opening, program.secret_n)
    program.run(rehearsal)
    return dataclasses.replace(program, releases=rehearsal.releases)


def _inside(
    ball: GeodesicBall, n: int, mu: float, fixed: bool
) -> tuple[LocationScaleSearch | None, float]:
    """The search inside a public ball, or None where it would find nothing; and what may be spent.

    Shares that are `fixed` are those of many records, whatever n is.
    """
    geometry = ball.geometry
    dim = geometry.dim
    wanted = (_NEED * max(1.0, math.sqrt(dim / 10.0)) / (math.inf if fixed else n * mu)) ** 2
    rounds = 2 if fixed or n * mu >= _TWO_ROUNDS else 1
    each = min(max(wanted, _LEAST), _MOST) / (rounds + 1)
    shares = Shares(0.0, _FOR_RADIUS * each, (1.0 - _FOR_RADIUS) * each, each, rounds)
    cap = COUNT_SHARE + shares.total
    if n * mu * math.sqrt(_MOST) < _LEAST_SEEKING:
        return None, cap if fixed else COUNT_SHARE
    grid = ball.radius * _RATIO ** -np.arange(_RADII - 1.0, -1.0, -1.0)
    radii = Radii(tuple(grid.tolist()), ball.radius, limit=ball.radius, spread=1.2)
    start = PublicStart(geometry, n, 0.0, ball.center)
    asked = n, dim, mu, shares, radii
    return LocationScaleSearch(*asked, rule=start, beyond=3.0, highest=0.999), cap


def _with_laplace(noise: str, dim: int, epsilon: float, delta: float) -> bool:
    """Whether Laplace noise is asked for, or saves enough to be looked at."""
    if noise == "laplace":
        _check_laplace(dim, epsilon)
        return True
    if noise == "gaussian" or epsilon > _LAPLACE_EPSILON or dim > _LAPLACE_DIM:
        return False
    square = laplace_law(dim, epsilon, delta).mean_square_over_sensitivity
    return square * gaussian_mu(epsilon, delta) ** 2 / dim <= _LAPLACE_GAIN


def _law_after(
    dim: int, epsilon: float, delta: float, mu: float, cap: float, needed: float
) -> LaplaceEvent | None:
    """Laplace noise behind so much of mu**2; None for more than `needed` of the Gaussian square."""
    first = 1.0 / (1.0 / (mu * math.sqrt(cap)))  # as its event says it
    law = laplace_law(dim, epsilon, delta, first)
    gaussian = dim / (mu**2 - first**2)
    return law if law.mean_square_over_sensitivity <= needed * gaussian else None


def _check_laplace(dim: int, epsilon: float) -> None:
    if epsilon > _LAPLACE_EPSILON:
        raise ValueError(
            f"noise='laplace' with epsilon={epsilon:g} above {_LAPLACE_EPSILON:g} is out of range; "
            "pass noise='gaussian', or delta=0."
        )
    if dim > _LAPLACE_DIM:
        raise ValueError(
            f"noise='laplace' saves next to nothing in {dim} dimensions and is offered up to "
            f"{_LAPLACE_DIM}; pass noise='gaussian'."
        )
