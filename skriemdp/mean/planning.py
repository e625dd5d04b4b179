"""Which mechanism releases a mean, and how its budget is split: decided once, of public numbers."""

from __future__ import annotations

import dataclasses
import math

from skriemdp._dataclasses import dataclass
from skriemdp.geometry.ball import GeodesicBall, descent_reach
from skriemdp.geometry.base import Geometry
from skriemdp.location_scale.row_releases import COUNT_SHARE
from skriemdp.location_scale.search import LocationScaleSearch
from skriemdp.mean.releases import MeanNoise, pure_law
from skriemdp.mechanisms.budget import COUNT, GaussianBudget, PureBudget, Release
from skriemdp.privacy.calibration import gaussian_mu
from skriemdp.privacy.events import Event, compose
from skriemdp.privacy.laplace import LaplaceEvent, laplace_law

MECHANISMS = ("auto", "tangent", "gradient", "gaussian", "laplace", "k-norm")
NOISES = ("auto", "gaussian", "laplace")
# Output perturbation: one draw from a Riemannian law around the mean.
OUTPUT = ("gaussian", "laplace", "k-norm")
# Mechanisms whose every release is Gaussian.
GAUSSIAN = ("gradient",)

# Names of the last release, and of radii before it.
MEAN, RADII = "mean", "radii"
# Share of a pure epsilon for the released fraction of clipped rows: a convention.
_COUNT_PURE = 0.03
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

# Shares of mu**2 for a smaller ball inside the public one.  The largest one is taken that adds
# about 15 % to the error of data that fill the ball, or up to 45 % where n mu is small: what data
# that fill the ball lose, narrow data gain many times (benchmarks/mean_mechanisms.py --part auto).
_SEEK = (0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3)
_COST, _MOST_COST = 0.15, 0.45
# Extra relative cost of Gaussian releases before Laplace noise, over the share of the mean square
# that Laplace noise saves (benchmarks/laplace_noise.py --stages).
_LAPLACE_COST = 0.03
# No ball is looked for below this n times the mu of the looks: they would find nothing
# (benchmarks/mean_mechanisms.py --part auto).
_LEAST_SEEKING = 14.0
# Two rounds of looks instead of one if the noise of the first is at most this fraction of the
# radius (benchmarks/mean_mechanisms.py --part auto).
_QUIET = 0.5
# Parts of the looks' budget: the clipped fraction, and in each round a mean and a radius
# (benchmarks/mean_mechanisms.py --part auto).
_FRACTION, _ONE_LOOK, _TWO_LOOKS = 0.07, ((0.60, 0.33),), ((0.22, 0.13), (0.33, 0.25))


@dataclass(frozen=True)
class Round:
    """The mu of a rough mean, and that of a radius around it."""

    mean_mu: float
    radius_mu: float


@dataclass(frozen=True)
class MeanPlan:
    """What a fit releases, and what it pays for each release; from public numbers.

    Attributes
    ----------
    mechanism : str
        "tangent", "adaptive", "gradient", or an output perturbation.
    count : float
        Mu of `clipped_fraction_`, or the epsilon of `pure` privacy.
    rounds : tuple of Round
        Of "adaptive": rough means and radii before the mean itself.
    mu : float or None
        Of the mean, when its noise is Gaussian; at least that, after a search.
    law : LaplaceEvent or None
        Of the mean, when its noise is Laplace.
    search : LocationScaleSearch or None
        For a ball.
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
    rounds: tuple[Round, ...] = ()
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

    def steps(self, geometry: Geometry) -> bool:
        """Whether the mean is one step from the centre: where iteration would cost noise, or not
        move it.
        """
        if self.search is None or self.mechanism != "tangent":
            return False
        return geometry.is_flat or (self.search.center is None and not geometry.is_hadamard)

    def search_budget(self) -> GaussianBudget:
        """What the search and the mean after it divide."""
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
        raise ValueError(
            f"noise={noise!r} needs mechanism='auto' or 'tangent'; with mechanism={mechanism!r} "
            "the noise is Gaussian. Pass noise='gaussian' or 'auto'."
        )
    if gaussian and delta == 0.0:
        raise ValueError(
            "delta=0 asks for pure differential privacy, which Gaussian noise cannot give; pass "
            "mechanism='tangent' with noise='laplace' (or 'auto'), or delta > 0."
        )
    if delta == 0.0:
        return _pure_plan(geometry.dim, epsilon)
    if noise == "laplace":
        _check_laplace(geometry.dim, epsilon)
    factor = 1.0 if gaussian else _laplace_factor(geometry.dim, epsilon, delta)
    if noise != "laplace" and factor > _LAPLACE_GAIN:
        gaussian, factor = True, 1.0
    total = gaussian_mu(epsilon, delta)
    target = geometry.dim, epsilon, delta, total
    if mechanism == "gradient" or search is not None:
        plan = _searched_plan(mechanism, *target, search, gaussian or secret_n)
        return dataclasses.replace(plan, secret_n=secret_n)
    share, looks, law = COUNT_SHARE, (), None
    if mechanism == "auto" and ball is not None and ball.radius <= descent_reach(geometry):
        fixed = secret_n and not gaussian
        share, looks = _seeking(geometry.dim, n * total, factor, fixed)
    first = GaussianBudget(total * math.sqrt(share))
    if not gaussian:
        law = _law_after(*target, first.event.mu, math.inf if noise == "laplace" else 1.0)
    plan = _seeking_plan(geometry.dim, total, share, looks, first, law)
    return dataclasses.replace(plan, secret_n=secret_n)


def _searched_plan(
    mechanism: str,
    dim: int,
    epsilon: float,
    delta: float,
    total: float,
    search: LocationScaleSearch | None,
    gaussian: bool,
) -> MeanPlan:
    """One mean, in the ball that a search finds if there is one; its law is fixed before that."""
    law, budget = None, GaussianBudget(total)
    event: Event = budget.event
    if search is not None and not gaussian:
        # What a search leaves is of use to Gaussian noise only: steps towards data far off are not
        # reserved for nothing.
        needed, short = _LAPLACE_GAIN, search.without_further()
        if search.shares.total - short.shares.total > _MUCH:
            needed = _FAR_GAIN
        else:
            short = search
        first = GaussianBudget(total * math.sqrt(COUNT_SHARE + short.shares.total))
        law = _law_after(dim, epsilon, delta, total, first.event.mu, needed)
        if law is not None:
            search, event = short, compose([first.event, law])
    count = budget.take(COUNT_SHARE, COUNT, 1)
    if search is not None:
        search.shares.reserve(budget)
    last = Release(MEAN, budget.left, "gaussian" if law is None else "laplace", dim)
    return MeanPlan(
        mechanism if mechanism == "gradient" else "tangent",
        count,
        event,
        mu=total * math.sqrt(budget.left) if law is None else None,
        law=law,
        search=search,
        releases=(*budget.releases, last),
    )


def _law_after(
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
        raise ValueError(
            f"mechanism={mechanism!r} draws around the mean of a public ball; {cure}"
            "mechanism='auto'."
        )
    if delta == 0.0:
        raise ValueError(
            f"delta=0 is pure privacy, which has no private search for a ball; {cure}delta > 0."
        )
    if noise not in ("auto", "gaussian"):
        raise ValueError(f"noise={noise!r} needs a public ball; {cure}noise='auto'.")


def _seeking(dim: int, n_mu: float, factor: float, fixed: bool) -> tuple[float, tuple]:
    """Share of mu**2 before the mean itself, and how it is divided; none where it finds nothing.

    `factor` is the mean square error of the noise over that of Gaussian noise.  A share that is
    `fixed` is that of many records, whatever n is.
    """
    wanted = (40.0 * max(1.0, math.sqrt(dim / 10.0)) / n_mu) ** 2
    most = min(_share_for(_MOST_COST, factor), 0.3 if dim >= 10 else 0.2)
    share = max(_share_for(_COST, factor), 0.0 if fixed else min(wanted, most))
    share = next(s for s in _SEEK if s >= share * (1.0 - 1e-9))
    if n_mu * math.sqrt(share) < _LEAST_SEEKING:
        return share if fixed else COUNT_SHARE, ()
    first = 2.0 * math.sqrt(dim) / (n_mu * math.sqrt(_TWO_LOOKS[0][0] * share))
    return share, _TWO_LOOKS if first <= _QUIET else _ONE_LOOK


def _share_for(cost: float, factor: float) -> float:
    """The largest of the public shares that adds about `cost` of itself to the mean's noise."""
    odds = cost * factor - _LAPLACE_COST * (1.0 - factor)
    return max(s for s in _SEEK if s * (1.0 + odds) <= odds or s == _SEEK[0])


def _seeking_plan(
    dim: int,
    total: float,
    share: float,
    looks: tuple[tuple[float, float], ...],
    first: GaussianBudget,
    law: LaplaceEvent | None,
) -> MeanPlan:
    """Gaussian releases of `share` of mu**2, together `first`, then the mean."""
    mechanism = "adaptive" if looks else "tangent"
    budget = GaussianBudget(total if law is None else first.event.mu)
    whole = share if law is None else 1.0
    count = budget.take(_FRACTION * whole if looks else whole, COUNT, 1)
    rounds: list[Round] = []
    for mean, radius in looks:
        mean_mu = budget.take(mean * whole, "rough means", dim)
        radius_mu = budget.take(min(radius * whole, budget.left), RADII, 1)
        rounds.append(Round(mean_mu, radius_mu))
    if law is None:
        plan = MeanPlan(mechanism, count, budget.event, tuple(rounds), mu=budget.rest(MEAN, dim))
        return dataclasses.replace(plan, releases=budget.releases)
    planned = budget.before(Release(MEAN, 1.0 - share, "laplace", dim))
    event = compose([first.event, law])
    return MeanPlan(mechanism, count, event, tuple(rounds), law=law, releases=planned)


def _laplace_factor(dim: int, epsilon: float, delta: float) -> float:
    """Mean square of Laplace noise over that of Gaussian noise."""
    if epsilon > _LAPLACE_EPSILON or dim > _LAPLACE_DIM:
        return math.inf
    law = laplace_law(dim, epsilon, delta)
    return law.mean_square_over_sensitivity * gaussian_mu(epsilon, delta) ** 2 / dim


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


def _pure_plan(dim: int, epsilon: float) -> MeanPlan:
    budget = PureBudget(epsilon)
    count = budget.take(_COUNT_PURE, COUNT, 1)
    law = pure_law(dim, budget.rest(MEAN, dim))
    return MeanPlan("tangent", count, budget.event, law=law, releases=budget.releases, pure=True)


def _output_plan(mechanism: str, noise: str, dim: int, epsilon: float, delta: float) -> MeanPlan:
    if noise != "auto":
        raise ValueError(
            f"mechanism={mechanism!r} has a noise law of its own; leave noise='auto', or use "
            "mechanism='tangent'."
        )
    if mechanism == "gaussian" and delta == 0.0:
        raise ValueError(
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
