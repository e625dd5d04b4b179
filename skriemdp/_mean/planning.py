"""Plan of a mean: its mechanism and the split of its budget, from public numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skriemdp._errors import PublicValueError
from skriemdp._location_scale.row_releases import COUNT_SHARE
from skriemdp._location_scale.search import LocationScaleSearch, RadiusGrid, Shares
from skriemdp._location_scale.start_releases import PublicStart
from skriemdp._mean.releases import MeanNoise, pure_law
from skriemdp._mechanisms.budget import COUNT, GaussianBudget, PureBudget, Release
from skriemdp.geometry._ball import GeodesicBall, descent_reach
from skriemdp.geometry._base import Geometry
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import Event, compose
from skriemdp.privacy._laplace import LaplaceEvent, laplace_law

MECHANISMS = ("auto", "tangent", "gradient", "gaussian", "laplace", "k-norm")
NOISES = ("auto", "gaussian", "laplace")
# Output perturbation: one draw from a Riemannian law around the mean.
OUTPUT = ("gaussian", "laplace", "k-norm")
# Mechanisms whose every release is Gaussian.
GAUSSIAN = ("gradient",)

# Name of the last release.
MEAN = "mean"
# Share of a pure epsilon for the released fraction of clipped rows: a convention.
_COUNT_PURE = 0.03
# Laplace noise is drawn where its mean square is at most this part of Gaussian noise's: it composes
# worse with the fits that follow (benchmarks/laplace_noise.py --stages).
LAPLACE_GAIN = 0.9
# The part required where Laplace noise rules out the further steps of a search, if their share of
# mu**2 exceeds _MUCH (benchmarks/raw_data.py --part means).
_FAR_GAIN, _MUCH = 0.84, 0.12
# And where it rules out most rounds towards far data in flat and compact spaces.
_NEAR_GAIN = 0.6
# Above, e^epsilon leaves the floating-point range in the accounting of Laplace noise.
_LAPLACE_EPSILON = 300.0
# Above, it saves less than 2 % (for delta down to 1e-12).
_LAPLACE_DIM = 1000

# A search in a public ball may cost data that fill it so much of mu**2, at least and at most, and
# (40 / n mu)**2 in between; below this n mu it would find nothing
# (benchmarks/mean_mechanisms.py --part auto).
_LEAST, _MOST, _NEED, _LEAST_SEEKING = 0.04, 0.15, 40.0, 31.0
# Two rounds from this n mu on, and the part of a round that is for its radius.
_TWO_ROUNDS, _FOR_RADIUS = 60.0, 0.3
# In negative curvature the mean is one step where the squared radius of the found ball, in squared
# curvature radii, is at most _BENT, or less where the noise, over the radius, is below _FINE: the
# bias of one step would show beside it (benchmarks/mean_mechanisms.py --part step).  In more than
# _FORMED dimensions the curvature form takes long.
_BENT, _FINE, _FORMED = 1.0, 2e-3, 500
# Grid of the radii that it may return, over that of the public ball: a convention.
_RATIO, _RADII = 1.15, 46


@dataclass(frozen=True)
class MeanPlan:
    """Releases of a fit and the share of each, from public numbers.

    Attributes
    ----------
    mechanism : str
        "tangent", "adaptive", "gradient", or an output perturbation.
    count : float
        Mu of `clipped_fraction_`, or the epsilon of `pure` privacy.
    mu : float or None
        Of the mean, when its noise is Gaussian; at least that, after a search.
    law : LaplaceEvent or None
        Of the mean, when its noise is Laplace.
    search : LocationScaleSearch or None
        For a ball; of "adaptive", for a smaller one inside the public ball.
    event : Event
        All of it, but an output perturbation that is not pure: its event depends on the ball too.
    target : tuple of float
        What is left of (epsilon, delta) for an output perturbation.
    releases : tuple of Release
        What may be released, with its share.
    secret_n : bool
        Whether n was released: the mean is then not iterated, in floating point.
    pure : bool
    """

    mechanism: str
    count: float
    event: Event
    mu: float | None = None
    law: LaplaceEvent | None = None
    search: LocationScaleSearch | None = None
    target: tuple[float, float] = (0.0, 0.0)
    releases: tuple[Release, ...] = ()
    secret_n: bool = False
    pure: bool = False

    @property
    def noise(self) -> MeanNoise:
        """Noise of the mean."""
        return MeanNoise(self.mu, self.law, self.secret_n)

    def steps(self, geometry: Geometry, radius: float = math.inf) -> bool:
        """Whether the mean is one step from the centre of a found ball of this radius.

        So it is where iteration would cost noise, or hardly move it.  By default: whatever the
        radius.
        """
        if self.search is None or self.mechanism not in ("tangent", "adaptive"):
            return False
        if geometry.is_flat or self.search.center is not None:
            return geometry.is_flat
        noise = 2.0 * self.noise.spread(geometry.dim) / self.search.n
        bent = -geometry.curvature_bounds[0] * radius**2
        near = bent <= _BENT * min(1.0, noise / _FINE) and geometry.dim <= _FORMED
        return near or not geometry.is_hadamard

    def search_budget(self) -> GaussianBudget:
        """Return the budget that the search and the mean after it share."""
        assert self.search is not None
        # Laplace noise has an event of its own.
        planned = self.releases if self.law is None else self.releases[:-1]
        budget = GaussianBudget(self.search.mu, planned)
        budget.take(COUNT_SHARE, COUNT, 1)
        return budget


def descent_or_tangent(mechanism: str, ball: GeodesicBall) -> str:
    """`mechanism`, or "tangent" where the ball is too wide to leave its centre; both public."""
    wide = ball.radius > descent_reach(ball.geometry)
    return "tangent" if wide and mechanism in GAUSSIAN else mechanism


def plan_mean(
    geometry: Geometry,
    n: int,
    epsilon: float,
    delta: float,
    *,
    mechanism: str = "auto",
    noise: str = "auto",
    ball: GeodesicBall | None = None,
    search: LocationScaleSearch | None = None,
    secret_n: bool = False,
) -> MeanPlan:
    """Decide on the mechanism and calibrate every part of it to (epsilon, delta) in all.

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
    secret_n : bool, default=False
        Whether n was released: what the fit costs does not depend on it then.

    Raises
    ------
    ValueError
        For a combination without a guarantee, such as Gaussian noise with delta = 0.
    """
    epsilon, delta = float(epsilon), float(delta)  # shares of a narrow type would be rounded up
    if mechanism in OUTPUT:
        return _output_plan(mechanism, noise, geometry.dim, epsilon, delta)
    gaussian = mechanism in GAUSSIAN or noise == "gaussian"
    if gaussian and noise == "laplace":
        raise PublicValueError(
            f"noise={noise!r} needs mechanism='auto' or 'tangent'; with mechanism={mechanism!r} "
            "the noise is Gaussian. Pass noise='gaussian' or 'auto'."
        )
    if gaussian and delta == 0.0:
        raise PublicValueError(
            "delta=0 asks for pure differential privacy, which Gaussian noise cannot give; pass "
            "mechanism='tangent' with noise='laplace' (or 'auto'), or delta > 0."
        )
    if delta == 0.0:
        return _pure_plan(geometry.dim, epsilon)
    mu = gaussian_mu(epsilon, delta)
    laplace = not gaussian and with_laplace(noise, geometry.dim, epsilon, delta)
    laplace = laplace and not (secret_n and search is not None)
    short, needed = search, math.inf if noise == "laplace" else 1.0
    if search is not None:
        # What a search leaves is of use to Gaussian noise only: steps towards data far off are not
        # reserved for nothing.
        short, needed = search.near(), _FAR_GAIN
        if search.shares.total - short.shares.total <= _MUCH:
            short, needed = search, LAPLACE_GAIN
        elif search.shares.until_near:
            needed = _NEAR_GAIN
    before = COUNT_SHARE + (0.0 if short is None else short.shares.total)
    if ball is not None and mechanism == "auto" and ball.radius <= descent_reach(geometry):
        search, before = _inside(ball, n, mu, fixed=secret_n and laplace)
        short = search
        mechanism = "tangent" if search is None else "adaptive"
    elif mechanism == "auto":
        mechanism = "tangent"
    law, budget = None, GaussianBudget(mu)
    event: Event = budget.event
    if laplace:
        first = GaussianBudget(mu * math.sqrt(before))
        law = law_after(geometry.dim, epsilon, delta, mu, first.event.mu, needed)
        if law is not None:
            search, event = short, compose([first.event, law])
    count = budget.take(COUNT_SHARE, COUNT, 1)
    if search is not None:
        search.shares.reserve(budget)
    last = Release(MEAN, budget.remaining, "gaussian" if law is None else "laplace", geometry.dim)
    return MeanPlan(
        mechanism,
        count,
        event,
        mu=mu * math.sqrt(budget.remaining) if law is None else None,
        law=law,
        search=search,
        releases=(*budget.releases, last),
        secret_n=secret_n,
    )


def law_after(
    dim: int, epsilon: float, delta: float, total: float, first: float, needed: float
) -> LaplaceEvent | None:
    """Laplace noise behind the mu `first`; None for more than `needed` of the Gaussian square."""
    law = laplace_law(dim, epsilon, delta, first)
    gaussian = dim / (total**2 - first**2)
    return law if law.mean_square_over_sensitivity <= needed * gaussian else None


def check_searchable(mechanism: str, noise: str, delta: float) -> None:
    """Refuse what needs a public ball where none is given."""
    cure = "pass a public center= and radius=, or "
    if mechanism in OUTPUT:
        raise PublicValueError(
            f"mechanism={mechanism!r} draws around the mean of a public ball; {cure}"
            "mechanism='auto'."
        )
    if delta == 0.0:
        raise PublicValueError(
            f"delta=0 is pure privacy, which has no private search for a ball; {cure}delta > 0."
        )
    if noise not in ("auto", "gaussian"):
        raise PublicValueError(f"noise={noise!r} needs a public ball; {cure}noise='auto'.")


def grid_inside(ball: GeodesicBall) -> tuple[float, ...]:
    """Radii that a search inside a public ball may answer."""
    return tuple((ball.radius * _RATIO ** -np.arange(_RADII - 1.0, -1.0, -1.0)).tolist())


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
    most = COUNT_SHARE + shares.total
    if n * mu < _LEAST_SEEKING:
        return None, most if fixed else COUNT_SHARE
    radii = RadiusGrid(grid_inside(ball), ball.radius, limit=ball.radius, spread=1.2)
    start = PublicStart(geometry, n, 0.0, ball.center)
    asked = n, dim, mu, shares, radii
    return LocationScaleSearch(*asked, rule=start, expected_clipped=3.0, max_level=0.999), most


def with_laplace(noise: str, dim: int, epsilon: float, delta: float) -> bool:
    """Whether Laplace noise is asked for, or saves enough to be looked at."""
    if noise == "laplace":
        _check_laplace(dim, epsilon)
        return True
    if epsilon > _LAPLACE_EPSILON or dim > _LAPLACE_DIM:
        return False
    square = laplace_law(dim, epsilon, delta).mean_square_over_sensitivity
    return square * gaussian_mu(epsilon, delta) ** 2 / dim <= LAPLACE_GAIN


def _check_laplace(dim: int, epsilon: float) -> None:
    if epsilon > _LAPLACE_EPSILON:
        raise PublicValueError(
            f"noise='laplace' with epsilon={epsilon:g} above {_LAPLACE_EPSILON:g} is out of range; "
            "pass noise='gaussian', or delta=0."
        )
    if dim > _LAPLACE_DIM:
        raise PublicValueError(
            f"noise='laplace' saves next to nothing in {dim} dimensions and is offered up to "
            f"{_LAPLACE_DIM}; pass noise='gaussian'."
        )


def _pure_plan(dim: int, epsilon: float) -> MeanPlan:
    budget = PureBudget(epsilon)
    count = budget.take(_COUNT_PURE, COUNT, 1)
    law = pure_law(dim, budget.rest(MEAN, dim))
    return MeanPlan("tangent", count, budget.event, law=law, releases=budget.releases, pure=True)


def _output_plan(mechanism: str, noise: str, dim: int, epsilon: float, delta: float) -> MeanPlan:
    if noise != "auto":
        raise PublicValueError(
            f"mechanism={mechanism!r} has a noise law of its own; leave noise='auto', or use "
            "mechanism='tangent'."
        )
    if mechanism == "gaussian" and delta == 0.0:
        raise PublicValueError(
            "delta=0 asks for pure differential privacy; mechanism='gaussian' needs delta > 0. "
            "Pass one, or mechanism='tangent', whose noise can be pure."
        )
    rest = 1.0 - _COUNT_PURE
    last = Release(MEAN, rest, mechanism, dim)
    if mechanism == "k-norm" or delta == 0.0:
        pure, target = PureBudget(epsilon), (rest * epsilon, 0.0)
        count = pure.take(_COUNT_PURE, COUNT, 1)
        planned = (*pure.releases, last)
        return MeanPlan(mechanism, count, pure.event, target=target, releases=planned, pure=True)
    part = GaussianBudget(gaussian_mu(_COUNT_PURE * epsilon, _COUNT_PURE * delta))
    count, target = part.rest(COUNT, 1), (rest * epsilon, rest * delta)
    return MeanPlan(mechanism, count, part.event, target=target, releases=part.before(last))
