"""Forecast of the error that noise adds to a mean, from public numbers."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from scipy.special import chdtri

from skriemdp._core.forecast import Expected, ExpectedError
from skriemdp._location_scale.search import LocationScaleSearch
from skriemdp._mean.joint_releases import JointMean
from skriemdp._mean.planning import MeanPlan
from skriemdp._mean.releases import DescentMean, MeanNoise, TangentMean, pure_law
from skriemdp._mean.table_releases import TableMean
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.geometry._base import Geometry
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._laplace import laplace_law

# A result is worth having if its noise is at most this part of the records' spread: a convention of
# `plan`.
_WORTH = 0.25


def stated_spread(ball: GeodesicBall | None, spread: Any) -> tuple[float, str, str]:
    """The spread that errors are told for, their unit, and what that assumes."""
    round_cloud = "records spread like a round Gaussian about their mean"
    if spread is not None:
        return (
            float(spread),
            "",
            f"{round_cloud}, {float(spread):g} from it in the root mean square",
        )
    if ball is None:
        return 1.0, "x the spread", f"{round_cloud}; spread is the root mean square distance"
    return ball.radius, "", "records may fill the public ball; pass spread= if they do not"


def radius_at_level(spread: float, level: float, dim: int) -> float:
    """Radius of the ball about the mean that holds the share `level` of a round Gaussian cloud."""
    return spread * math.sqrt(float(chdtri(dim, 1.0 - level)) / dim)


def mu_after_search(search: LocationScaleSearch, *before: float | None) -> float:
    """The mu that is left where data lie near enough for no further steps.

    `before` are the mu of other releases.
    """
    share = sum((0.0 if mu is None else mu / search.mu) ** 2 for mu in before)
    return search.mu * math.sqrt(1.0 - share - search.near().shares.total)


def expected_error(
    mechanism: str, noise: float, floor: float, n: int, stated: tuple[float, str, str]
) -> Expected:
    """Errors of a mean of n records with this `noise`, and with the noise of the whole budget."""
    spread, unit, assumed = stated
    errors = (
        ExpectedError("noise", noise, unit),
        ExpectedError("floor", min(noise, floor), unit),
        ExpectedError("search", max(noise - floor, 0.0), unit),
        ExpectedError("sampling", spread / math.sqrt(n), unit),
    )
    worth = f"noise is then at most {_WORTH:g} of the records' spread"
    return Expected(mechanism, errors, noise / (_WORTH * spread), worth, assumed)


def expected_mean(
    geometry: Geometry,
    ball: GeodesicBall | None,
    chosen: MeanPlan,
    release: Any,
    n: int,
    target: tuple[float, float],
    spread: Any,
    shrink: bool,
) -> Expected:
    """Expected error of a planned mean, with (epsilon, delta) for `target`.

    `release` is what a public ball will be asked by.
    """
    dim, stated = geometry.dim, stated_spread(ball, spread)
    law = "gaussian" if chosen.law is None else "laplace"
    whole = (
        MeanNoise(gaussian_mu(*target), None) if chosen.law is None else _whole_law(dim, *target)
    )
    name = f"{chosen.mechanism} in a {'private' if ball is None else 'public'} ball, {law} noise"
    search = chosen.search
    if search is not None:
        radius = search.radius or radius_at_level(stated[0], search.level, dim)
        radius = min(radius, math.inf if ball is None else ball.radius)
        if chosen.law is None:
            left = mu_after_search(search, chosen.count)
            chosen = dataclasses.replace(chosen, mu=left)
        scale = chosen.noise.sigma(radius, dim, n)
        if shrink and search.center is None and dim > 2:
            scale *= _shrunken(search, scale, radius, dim, n)
        floor = whole.sigma(radius, dim, n)
        return expected_error(name, math.sqrt(dim) * scale, math.sqrt(dim) * floor, n, stated)
    assert ball is not None  # public or searched for
    if isinstance(release, TangentMean):
        scale, radius = release.noise_scale, ball.radius
    elif isinstance(release, DescentMean):
        assert release.solver.shares is not None  # set by the solver
        last = MeanNoise(release.solver.mu * math.sqrt(release.solver.shares[-1]), None)
        scale, radius = last.sigma(ball.radius, dim, n), ball.radius
    else:
        return Expected(f"{chosen.mechanism} in a public ball")
    floor = whole.sigma(radius, dim, n)
    return expected_error(name, math.sqrt(dim) * scale, math.sqrt(dim) * floor, n, stated)


def _whole_law(dim: int, epsilon: float, delta: float) -> MeanNoise:
    """Laplace noise with all of a budget."""
    return MeanNoise(None, laplace_law(dim, epsilon, delta) if delta else pure_law(dim, epsilon))


def _shrunken(search: LocationScaleSearch, scale: float, radius: float, dim: int, n: int) -> float:
    """Factor by which James-Stein shrinkage towards the last rough mean reduces noise."""
    rough = MeanNoise(search.mu * math.sqrt(search.shares.move), None).sigma(radius, dim, n)
    return math.sqrt(1.0 - (dim - 2) / dim * scale**2 / (scale**2 + rough**2))


def expected_table_mean(table: TableMean, spread: Any) -> Expected:
    """Expected error of a mean of columns in scales of their own, if they are alike."""
    dim, n, stated = table.geometry.dim, table.n, stated_spread(None, spread)
    assert table.bounds.search is not None  # nothing is public
    radius = radius_at_level(stated[0], table.bounds.search.level, dim)
    noise = table.noise(table.bounds.usual_mu)
    law = "gaussian" if table.law is None else "laplace"
    whole = MeanNoise(table.mu, None)
    size, floor = (math.sqrt(dim) * one.sigma(radius, dim, n) for one in (noise, whole))
    return expected_error(f"tangent in a private ball, {law} noise", size, floor, n, stated)


def expected_joint_mean(joint: JointMean, spread: Any) -> Expected:
    """Expected error of a mean that is released with its second moment."""
    dim, n, stated = joint.geometry.dim, joint.n, stated_spread(joint.ball, spread)
    mu, radius = joint.joint_mu, 0.0 if joint.ball is None else joint.ball.radius
    if joint.search is not None:
        mu = mu_after_search(joint.search, joint.count_mu)
        bounded_set = joint.wider * radius_at_level(stated[0], joint.search.level, dim)
        radius = joint.search.radius or bounded_set
    elif joint.refines_ball:
        radius = min(radius, joint.wider * radius_at_level(stated[0], 0.999, dim))
    vectors = joint.lifts(radius, joint.mu).bounded_set
    over = math.sqrt(dim / 2.0) / (joint.weight * radius * n)
    noise, floor = (over * vectors.sigma(vectors.check(one)) for one in (mu, joint.mu))
    name = "mean and second moment together, gaussian noise"
    return expected_error(name, noise, floor, n, stated)
