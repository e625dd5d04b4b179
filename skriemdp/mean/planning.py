"""Which mechanism releases a mean, and how its budget is split: the public rule of "auto"."""

from __future__ import annotations

import dataclasses
import math

from skriemdp.geometry.ball import GeodesicBall, descent_reach
from skriemdp.geometry.base import Geometry
from skriemdp.mechanisms.counts import GaussianCount, LaplaceCount
from skriemdp.privacy.calibration import gaussian_mu
from skriemdp.privacy.events import Event, GaussianEvent, PureEvent, compose
from skriemdp.privacy.radial import RadialEvent, best_radial_law, calibrated_radial_law

__all__ = [
    "GAUSSIAN",
    "MECHANISMS",
    "NOISES",
    "MeanBudget",
    "choose_mechanism",
    "descent_or_tangent",
    "lattice_noise",
    "split_budget",
]

MECHANISMS = ("auto", "tangent", "adaptive", "gradient", "gaussian", "laplace", "k-norm")
NOISES = ("auto", "gaussian", "radial", "laplace")
# Output perturbation: one draw from a Riemannian law around the mean.
OUTPUT = ("gaussian", "laplace", "k-norm")
# Mechanisms whose every release is Gaussian, so that a part of mu**2 can pay for a ball.
GAUSSIAN = ("adaptive", "gradient")

# Shares of mu**2 for the released fraction of clipped rows, and for finding the ball.
_COUNT, _RADIUS, _CENTER = 0.01, 0.06, 0.30
# Share of (epsilon, delta) for that fraction when the mean's noise is not Gaussian.
_COUNT_BASIC = 0.03
_MEAN_BASIC = 1.0 - _COUNT_BASIC
# Radial noise must pay for leaving Gaussian composition with this much less mean square error.
_RADIAL_GAIN = 0.9
# Above, e^epsilon leaves the floating-point range in the accounting of radial noise.
_RADIAL_EPSILON = 300.0
# Above, it saves less than 2 % (for delta down to 1e-12) and its law takes long to calibrate.
_RADIAL_DIM = 1000
# One radial shot is kept on curved-up manifolds while n mu is below this times sqrt(d) over
# `ball_curvature`:
# from there on the bias of the mean of logarithms shows (docs/user_guide/mean.md).
_RADIAL_QUIET = 60.0


@dataclasses.dataclass(frozen=True)
class MeanBudget:
    """How (epsilon, delta) is split, from public numbers.

    Attributes
    ----------
    mechanism : str
        "tangent", "adaptive" or "gradient".
    count : GaussianCount or LaplaceCount
        Pays for `clipped_fraction_`.
    mu : float or None
        Of the mean, when its noise is Gaussian.
    search_mu : float or None
        Of the search for a ball.
    law : RadialEvent or None
        Of the mean, when its noise is radial.
    event : Event or None
        All of it; None for output perturbation, whose event depends on the ball too.
    target : tuple of float
        What is left of (epsilon, delta) for a mean whose noise is not Gaussian.
    """

    mechanism: str
    count: GaussianCount | LaplaceCount
    mu: float | None
    search_mu: float | None
    law: RadialEvent | None
    event: Event | None
    target: tuple[float, float] = (0.0, 0.0)


def choose_mechanism(
    geometry: Geometry,
    n: int,
    epsilon,
    delta,
    searched: bool,
    lattice: bool = False,
    ball_curvature: float = 0.0,
    gaussian: bool = False,
) -> str:
    """The public rule of "auto" (docs/user_guide/mean.md, "Which mechanism").

    `ball_curvature` is the curvature times the squared radius of the public ball, if there is one.
    `gaussian` leaves Gaussian noise alone to choose from.
    On a lattice "tangent" releases the mean of the logarithms, whose bias "gradient" removes where
    there is curvature; and there is no radial noise.
    """
    if delta == 0.0:
        return "tangent"
    n_mu = n * gaussian_mu(epsilon, delta)
    if lattice:
        enough = n_mu >= max(50.0, 10.0 * math.sqrt(geometry.dim))
        one_shot = "tangent" if geometry.is_flat else "gradient"
        return one_shot if searched or not enough else "adaptive"
    if searched:
        # The released ball is as small as the data: nothing is left to adapt to.
        return "tangent" if geometry.is_hadamard else "gradient"
    biased = not geometry.is_hadamard and n_mu * ball_curvature > _RADIAL_QUIET * math.sqrt(
        geometry.dim
    )
    if not (gaussian or biased) and _radial_factor(geometry.dim, epsilon, delta) < 0.5:
        # Where radial noise halves the error, the safe choice is one shot.
        return "tangent"
    if geometry.is_hadamard:
        return "tangent" if n_mu < max(50.0, 10.0 * math.sqrt(geometry.dim)) else "adaptive"
    return "adaptive" if n_mu >= 50.0 else "gradient"


def descent_or_tangent(mechanism: str, ball: GeodesicBall) -> str:
    """`mechanism`, or "tangent" where the ball is too wide to leave its centre; both public."""
    wide = ball.radius > descent_reach(ball.geometry)
    return "tangent" if wide and mechanism in GAUSSIAN else mechanism


def lattice_noise(geometry: Geometry, mechanism: str, noise: str) -> str:
    """The only noise that a lattice has; ValueError where something else was asked for."""
    if mechanism in OUTPUT or noise not in ("auto", "gaussian"):
        raise ValueError(
            f"arithmetic='lattice' draws discrete Gaussian noise; with mechanism={mechanism!r} and "
            f"noise={noise!r} there is none. Pass mechanism='tangent', 'adaptive' or 'gradient' "
            "and leave noise='auto', or use arithmetic='float'."
        )
    if not geometry.separate_rows:
        raise ValueError(
            f"arithmetic='lattice' needs logarithms that are computed for each record on its own, "
            f"and those of {geometry} are iterated together; use arithmetic='float'."
        )
    return "gaussian"


def _radial_factor(dim, epsilon, delta) -> float:
    """Mean square of the best radial noise over that of Gaussian noise, for the mean's share.

    The law is the one that a radial mean would use, so it is searched once.
    """
    if epsilon > _RADIAL_EPSILON or dim > _RADIAL_DIM:
        return math.inf
    target = _MEAN_BASIC * epsilon, _MEAN_BASIC * delta
    law = best_radial_law(dim, *target)
    return law.mean_square_over_sensitivity * gaussian_mu(*target) ** 2 / dim


def split_budget(
    geometry: Geometry, mechanism: str, noise: str, epsilon, delta, center_searched, radius_searched
) -> MeanBudget:
    """Calibrate every part of a mean's release to (epsilon, delta) in all.

    Raises
    ------
    ValueError
        For a combination without a guarantee, such as Gaussian noise with delta = 0.
    """
    epsilon, delta = float(epsilon), float(delta)  # shares of a narrow type would be rounded up
    searched = center_searched or radius_searched
    if mechanism in OUTPUT:
        return _output_budget(mechanism, noise, epsilon, delta, searched)
    gaussian = mechanism in GAUSSIAN or searched or noise == "gaussian"
    if gaussian and noise in ("radial", "laplace"):
        what = "a private ball" if searched else f"mechanism={mechanism!r}"
        raise ValueError(
            f"noise={noise!r} needs mechanism='tangent' and a public ball; with {what} the noise "
            "is Gaussian. Pass noise='gaussian' or 'auto'."
        )
    if gaussian and delta == 0.0:
        raise ValueError(
            "delta=0 asks for pure differential privacy, which Gaussian noise cannot give; pass "
            "mechanism='tangent' with noise='laplace' and a public center and radius, or delta > 0."
        )
    if not gaussian and noise == "auto":
        gaussian = delta > 0.0 and _radial_factor(geometry.dim, epsilon, delta) > _RADIAL_GAIN
    if gaussian:
        total = gaussian_mu(epsilon, delta)
        search = _CENTER if center_searched else _RADIUS if radius_searched else 0.0
        count = GaussianCount(1.0 / (total * math.sqrt(_COUNT)))
        return MeanBudget(
            mechanism=mechanism,
            count=count,
            mu=total * math.sqrt(1.0 - _COUNT - search),
            search_mu=total * math.sqrt(search) if search else None,
            law=None,
            event=GaussianEvent(1.0 / total),
        )
    return _radial_budget(geometry.dim, noise, epsilon, delta, mechanism)


def _radial_budget(dim, noise, epsilon, delta, mechanism):
    if delta > 0.0 and epsilon > _RADIAL_EPSILON:
        raise ValueError(
            f"noise={noise!r} with epsilon={epsilon:g} above {_RADIAL_EPSILON:g} is out of range; "
            "pass noise='gaussian', or delta=0."
        )
    if delta > 0.0 and noise == "radial" and dim > _RADIAL_DIM:
        raise ValueError(
            f"noise='radial' saves next to nothing in {dim} dimensions and is offered up to "
            f"{_RADIAL_DIM}; pass noise='gaussian'."
        )
    if noise == "laplace" or delta == 0.0:
        law = calibrated_radial_law(dim, 1.0, _MEAN_BASIC * epsilon, _MEAN_BASIC * delta)
    else:
        law = best_radial_law(dim, _MEAN_BASIC * epsilon, _MEAN_BASIC * delta)
    if delta == 0.0:
        if noise == "radial":
            raise ValueError("delta=0 needs noise='laplace' (or 'auto'), the pure radial law.")
        # Basic composition of pure guarantees, rounded down to stay within epsilon.
        count = LaplaceCount(_COUNT_BASIC * epsilon * (1.0 - 1e-12))
        return MeanBudget(mechanism, count, None, None, law, PureEvent(float(epsilon)))
    count = GaussianCount(1.0 / gaussian_mu(_COUNT_BASIC * epsilon, _COUNT_BASIC * delta))
    event = compose([count.event, law])
    return MeanBudget(mechanism, count, None, None, law, event)


def _output_budget(mechanism, noise, epsilon, delta, searched):
    if searched or noise != "auto":
        raise ValueError(
            f"mechanism={mechanism!r} has a noise law of its own and needs a public center and "
            "radius; leave noise='auto', or use mechanism='tangent'."
        )
    if mechanism == "gaussian" and delta == 0.0:
        raise ValueError(
            "delta=0 asks for pure differential privacy; mechanism='gaussian' needs delta > 0."
        )
    if mechanism == "k-norm" or delta == 0.0:
        # Basic composition of pure guarantees, rounded down to stay within epsilon.
        count = LaplaceCount(_COUNT_BASIC * epsilon * (1.0 - 1e-12))
        event = PureEvent(float(epsilon))
        return MeanBudget(mechanism, count, None, None, None, event, (_MEAN_BASIC * epsilon, 0.0))
    count = GaussianCount(1.0 / gaussian_mu(_COUNT_BASIC * epsilon, _COUNT_BASIC * delta))
    return MeanBudget(
        mechanism, count, None, None, None, None, (_MEAN_BASIC * epsilon, _MEAN_BASIC * delta)
    )
