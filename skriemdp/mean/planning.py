"""Which mechanism releases a mean, and how its budget is split: decided once, of public numbers."""

from __future__ import annotations

import dataclasses

from skriemdp._dataclasses import dataclass
from skriemdp.geometry.ball import GeodesicBall, descent_reach
from skriemdp.geometry.base import Geometry
from skriemdp.location_scale.row_releases import COUNT_SHARE
from skriemdp.location_scale.search import LocationScaleSearch
from skriemdp.mean.program import COUNT_PURE, MeanProgram, plan_program
from skriemdp.mean.releases import MEAN
from skriemdp.mechanisms.budget import COUNT, GaussianBudget, PureBudget, Release
from skriemdp.privacy.calibration import gaussian_mu
from skriemdp.privacy.events import Event

MECHANISMS = ("auto", "tangent", "gradient", "gaussian", "laplace", "k-norm")
NOISES = ("auto", "gaussian", "laplace")
# Output perturbation: one draw from a Riemannian law around the mean.
OUTPUT = ("gaussian", "laplace", "k-norm")
# Mechanisms whose every release is Gaussian.
GAUSSIAN = ("gradient",)


@dataclass(frozen=True)
class MeanPlan:
    """What a descent or an output perturbation releases, and what it pays; from public numbers.

    Attributes
    ----------
    mechanism : str
        "gradient", or an output perturbation.
    count : float
        Mu of `clipped_fraction_`, or the epsilon of `pure` privacy.
    mu : float or None
        Of a descent; at least that, after a search.
    search : LocationScaleSearch or None
        For a ball.
    event : Event
        All of it, but an output perturbation that is not pure: its event depends on the ball too.
    target : tuple of float
        What is left of (epsilon, delta) for an output perturbation.
    releases : tuple of Release
        What may be released, with its share.
    pure : bool
    """

    mechanism: str
    count: float
    event: Event
    mu: float | None = None
    search: LocationScaleSearch | None = None
    target: tuple[float, float] = (0.0, 0.0)
    releases: tuple[Release, ...] = ()
    pure: bool = False

    def search_budget(self) -> GaussianBudget:
        """What the search and the descent after it divide."""
        assert self.search is not None
        budget = GaussianBudget(self.search.mu, self.releases)
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
    shrink: bool = True,
    secret_n: bool = False,
) -> MeanPlan | MeanProgram:
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
    if mechanism not in GAUSSIAN:
        return plan_program(
            geometry,
            n,
            epsilon,
            delta,
            mechanism=mechanism,
            noise=noise,
            ball=ball,
            search=search,
            shrink=shrink,
            secret_n=secret_n,
        )
    budget = GaussianBudget(gaussian_mu(epsilon, delta))
    count = budget.take(COUNT_SHARE, COUNT, 1)
    if search is not None:
        search.shares.reserve(budget)
    mu = budget.rest(MEAN, geometry.dim)
    plan = MeanPlan(mechanism, count, budget.event, mu=mu, search=search)
    return dataclasses.replace(plan, releases=budget.releases)


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
    rest = 1.0 - COUNT_PURE
    last = Release(MEAN, rest, mechanism, dim)
    if mechanism == "k-norm" or delta == 0.0:
        pure, target = PureBudget(epsilon), (rest * epsilon, 0.0)
        count = pure.take(COUNT_PURE, COUNT, 1)
        planned = (*pure.releases, last)
        return MeanPlan(mechanism, count, pure.event, target=target, releases=planned, pure=True)
    part = GaussianBudget(gaussian_mu(COUNT_PURE * epsilon, COUNT_PURE * delta))
    count, target = part.rest(COUNT, 1), (rest * epsilon, rest * delta)
    return MeanPlan(mechanism, count, part.event, target=target, releases=part.before(last))
