"""A mean and the second moment around it, in one release: what regions and tangent PCA need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skriemdp._core.estimator import Plan
from skriemdp._core.work import Work, decomposed
from skriemdp._errors import PublicValueError
from skriemdp._location_scale.points import PointRecords, warn_direction
from skriemdp._location_scale.search import (
    RADIUS,
    LocationScaleSearch,
    RadiusGrid,
    Shares,
    james_stein,
)
from skriemdp._mean.domains import public_facts
from skriemdp._mean.linear_decision import ClassMoments
from skriemdp._mean.planning import grid_inside
from skriemdp._mean.releases import inside
from skriemdp._mechanisms.bounded_sets import ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import COUNT, GaussianBudget, Release
from skriemdp._mechanisms.counts import noisy_fraction
from skriemdp._mechanisms.lifts import Lifts
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units
from skriemdp.geometry._ball import GeodesicBall, descent_reach
from skriemdp.geometry._base import Geometry
from skriemdp.inference import MeanInference
from skriemdp.inference._covariances import hessian_draws

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams

# Name of the joint release.
_MOMENTS = "mean and second moment"
# Shares of mu**2 before the joint release in a public ball: the clipped fraction, a rough mean and
# a radius around it (benchmarks/inference.py --part coverage).
_COUNT, _LOOK_MEAN, _LOOK_RADIUS = 0.01, 0.25, 0.10
# No look below these n mu, the second times the root of the dimension: it would find nothing.
_LEAST_LOOK, _LEAST_LOOK_BY_DIM = 50.0, 10.0
# Of the radius about a rough mean: the highest level, and the number of clipped records, over mu,
# that noise excuses.  Tails pay for every record that is clipped (benchmarks/inference.py --part
# coverage).
_MOST_WANTED, _BEYOND = 0.999, 3.0
# Largest relative noise of a released number of records: above, nothing says where the mean is.
LARGEST_COUNT_NOISE = 0.25
# A class of a smaller released number of records has no region.  A larger limit would pick the
# classes whose number came out too large, and regions of those hold their means less often.
LEAST_COUNT = 1.0


def widest(geometry: Geometry) -> float:
    """Radius up to which two moments say where a mean is, to well within its error."""
    kappa = geometry.curvature_bounds[1]
    if kappa <= 0.0:
        return descent_reach(geometry)
    limit = 0.999 * geometry.radius_limit
    # Where curvature is positive, in curvature radii: the largest ball for whose means the
    # expansion of squared distances in curvature was measured.
    return min(limit, 1.3 / math.sqrt(kappa) if math.isfinite(kappa) else limit)


@dataclass(frozen=True, eq=False)
class TangentSample:
    """Records as they are seen from the last centre: not released, unlike the numbers around."""

    center: np.ndarray
    radius: float
    vectors: np.ndarray
    clipped: float
    clipped_noise: float
    mu: float


class Moments(NamedTuple):
    """Noisy sums of ``z z'`` and z over the records' tangent vectors z, and their number.

    They are of all records or of each class.  The sigmas are standard deviations of the noise along
    every unit matrix, on every coordinate of a sum, and on a number.
    """

    second: np.ndarray
    first: np.ndarray
    counts: np.ndarray
    second_sigma: float
    first_sigma: float
    count_sigma: float


@dataclass(frozen=True, eq=False)
class JointMean:
    """Mean and second moment of the logarithms at a centre, in one Gaussian release.

    The centre is public, a rough mean, or that of a search; planned from public numbers only.  Or
    those of all classes at one centre, without a look.

    Parameters
    ----------
    geometry : Geometry
    n : int
    mu : float
        Of the whole fit.
    weight : float
        a, of the lifts ``(z, a r)``: with 1 the second moment costs the mean nothing.
    wider : float
        Factor on private radii: a ball that cuts the data moves the mean that is covered.
    ball : GeodesicBall or None
        Public.
    search : LocationScaleSearch or None
        For what is private of the ball; exactly one of the two is given.
    refines_ball : bool
        Whether a rough mean and a radius around it are released first, in a public ball.
    n_classes : int, optional
        Then there are moments of each class.

    Notes
    -----
    *Guarantee*: mu-GDP.  A count moves by one, a rough mean by 2r over n, a radius comes from
    counts; with z the logarithm of a record, clipped to the radius r, and y = 1, what is released
    in the end is ``sum w w'`` of the lifts ``w = (z, a r)``, which moves by at most
    ``sqrt(2) r^2 (1 + a^2)`` (docs/theory/moments.md).  Every release is asked with what earlier
    ones answered and their ``mu_t^2`` add up to ``mu^2``.  The sums of all classes, label included,
    move together as one of them does (docs/theory/moments.md, "Second moments by class").
    """

    geometry: Geometry
    n: int
    mu: float
    weight: float
    wider: float
    ball: GeodesicBall | None = None
    search: LocationScaleSearch | None = None
    refines_ball: bool = False
    n_classes: int | None = None

    @property
    def count_mu(self) -> float:
        """Mu of the number of records outside the last ball."""
        return self.mu * math.sqrt(_COUNT)

    @property
    def releases(self) -> tuple[Release, ...]:
        """Names of what may be released, with shares."""
        budget, dim = GaussianBudget(self.mu), self.geometry.dim
        budget.take(_COUNT, COUNT, 1)
        if self.search is not None:
            self.search.shares.reserve(budget)
        elif self.refines_ball:
            budget.take(_LOOK_MEAN, "rough mean", dim)
            budget.take(_LOOK_RADIUS, RADIUS, 1)
        budget.rest(_MOMENTS, (self.n_classes or 1) * (dim + 1) ** 2)
        return budget.releases

    @property
    def joint_mu(self) -> float:
        """Mu of the joint release; at least that, after a search."""
        return self.mu * math.sqrt(self.releases[-1].share)

    def plan(self, **public: Any) -> Plan[JointMean]:
        """Plan of a fit which releases nothing else; `public` are facts besides ball and number."""
        dim, classes = self.geometry.dim, self.n_classes or 0
        matrices = (8.0 + 4.0 * classes) * (dim + 1) ** 2 + 2.0 * min(dim, 256) ** 3
        moments = f"moments of {classes} classes" if classes else f"moment of {dim} coordinates"
        work = Work.of_points(self.geometry, self.n).plus(
            8.0 * (2.0 * self.n * dim + matrices),
            f"the second {moments}",
            4.0 * self.n * dim**2 + (hessian_draws(dim) + 4) * decomposed(dim),
        )
        facts = public_facts(self.geometry, self.n, self.ball, self.search) | public
        event, releases = GaussianBudget(self.mu).event, self.releases
        return Plan(event, self, facts, work=work, releases=releases)

    def lifts(self, radius: float, mu: float) -> Lifts:
        """The joint release in a ball; the vector beside a logarithm is the number 1."""
        sizes, norms = (self.geometry.dim, 1), (radius, 1.0)
        return Lifts(sizes, norms, mu, self.weight, classes=self.n_classes)

    def check(self) -> None:
        """ValueError where a budget is too small for any noise, or integers would be too coarse."""
        _ = self.releases
        # A search spends what it needs, and less noise needs more bits.
        for mu in (self.joint_mu, self.mu):
            self.lifts(1.0, mu).bounded_set.check(mu)
        if self.refines_ball:
            ball(Ball(1.0), self.geometry.dim).check(self.mu * math.sqrt(_LOOK_MEAN))

    def release(
        self, records: PointRecords, streams: NoiseStreams
    ) -> tuple[MeanInference, TangentSample]:
        """Release the moments; return the inference from them and the private tangent vectors.

        Where the number of `records` was released, the moments count them once more.
        """
        tangent_sample, noise = self.tangent_sample(records, streams), records.noise
        found, n = self.moments(tangent_sample, streams("tangent moments")), float(self.n)
        if noise:
            weight = found.count_sigma**2 / (noise**2 + found.count_sigma**2)
            n = max(weight * n + (1.0 - weight) * float(found.counts), 1.0)
            noise *= math.sqrt(weight)
        return self._inference(tangent_sample, found, n if noise else self.n, noise), tangent_sample

    def release_classes(
        self, records: PointRecords, labels: np.ndarray, streams: NoiseStreams
    ) -> tuple[tuple[MeanInference | None, ...], np.ndarray, Moments, TangentSample]:
        """Release all classes; return their inferences, class means, moments and tangent sample.

        `labels` are places in the list of classes.  Nothing is known of a class whose released
        number of records is below `LEAST_COUNT`; its mean is that of its logarithms.
        """
        tangent_sample = self.tangent_sample(records, streams)
        found = self.moments(tangent_sample, streams("class moments"), labels)
        known: list[MeanInference | None] = []
        means: list[np.ndarray] = []
        for k, count in enumerate(found.counts.tolist()):
            if count >= LEAST_COUNT:
                one = self._inference(tangent_sample, found, count, found.count_sigma, k)
                known, means = [*known, one], [*means, one.mean]
                continue
            rough = found.first[k] / max(count, 1.0)
            rough = rough * min(
                1.0, tangent_sample.radius / max(float(np.linalg.norm(rough)), 1e-300)
            )
            known.append(None)
            means.append(np.asarray(self.geometry.exp_coordinates(tangent_sample.center, rough)))
        return tuple(known), np.stack(means), found, tangent_sample

    def _inference(
        self, tangent_sample: TangentSample, found: Moments, n: float, noise: float, of: Any = ()
    ) -> MeanInference:
        """Inference for the mean of n records, a number with this noise; `of` is their class."""
        return MeanInference(
            self.geometry,
            tangent_sample.center,
            tangent_sample.radius,
            found.first[of] / n,
            found.second[of] / n,
            n,
            found.first_sigma / n,
            found.second_sigma / n,
            noise / n,
        )

    def moments(
        self,
        tangent_sample: TangentSample,
        rng: np.random.Generator,
        labels: np.ndarray | None = None,
    ) -> Moments:
        """The joint release."""
        lifts, ones = (
            self.lifts(tangent_sample.radius, tangent_sample.mu),
            np.ones((len(tangent_sample.vectors), 1)),
        )
        units = Units((tangent_sample.vectors, ones, *(() if labels is None else (labels,))))
        second, first, counts = lifts.release(units, rng)
        return Moments(second, first[..., 0], counts[..., 0, 0], *lifts.sigmas)

    def pooled(self, found: Moments, radius: float) -> ClassMoments:
        """Moments of classes, the second ones added up."""
        second, noise = found.second.sum(axis=0), math.sqrt(len(found.counts)) * found.second_sigma
        first, sums = found.first / radius, found.first_sigma / radius
        square = radius**2
        return ClassMoments(
            self.n, radius, first, found.counts, second / square, sums, noise / square
        )

    def tangent_sample(self, records: PointRecords, streams: NoiseStreams) -> TangentSample:
        """The last ball, and the records as they are seen from its centre."""
        budget = GaussianBudget(self.mu, self.releases)
        count_mu = budget.take(_COUNT, COUNT, 1)
        center, radius = self._place(records, budget, streams)
        vectors = records.vectors(center)
        outside = int(np.count_nonzero(~(np.linalg.norm(vectors, axis=1) <= radius)))
        noisy = noisy_fraction(outside, self.n, count_mu, False, streams("clipped fraction"))
        return TangentSample(center, radius, vectors, *noisy, budget.rest(_MOMENTS))

    def _place(
        self, records: PointRecords, budget: GaussianBudget, streams: NoiseStreams
    ) -> tuple[np.ndarray, float]:
        """Centre and radius of the joint release."""
        if self.search is not None:
            found = self.search.release(records, budget, streams)
            warn_direction(found)
            wider = self.wider if self.search.radius is None else 1.0
            most = min(widest(self.geometry), self.search.radii.limit)
            return found.center, min(wider * found.radius, most)
        assert self.ball is not None  # one of the two is given
        if not self.refines_ball:
            return self.ball.center, self.ball.radius
        return self._refine_ball(self.ball, records, budget, streams)

    def _refine_ball(
        self,
        public: GeodesicBall,
        records: PointRecords,
        budget: GaussianBudget,
        streams: NoiseStreams,
    ) -> tuple[np.ndarray, float]:
        """A rough mean in the public ball, and a radius around it that holds the data."""
        geometry = self.geometry
        bounded_set, mu = (
            ball(Ball(public.radius), geometry.dim),
            budget.take(_LOOK_MEAN, "rough mean"),
        )
        tangent_sample = records.logarithms(public.center)
        found, scale = private_sum(*tangent_sample, bounded_set, mu, streams("rough mean", 0))
        move, left = james_stein(found / self.n, scale / self.n)
        center = inside(public, np.asarray(geometry.exp_coordinates(public.center, move)))
        # The spread of the logarithm of a radius about the public one: what is answered where
        # counts say nothing.
        known = RadiusGrid(grid_inside(public), 0.7 * public.radius, spread=1.2)
        shares = Shares(0.0, 0.0, 0.0, _LOOK_RADIUS, 0)
        about = LocationScaleSearch(
            *(self.n, geometry.dim, self.mu, shares, known),
            center=center,
            noise=left,
            max_level=_MOST_WANTED,
            expected_clipped=_BEYOND,
        )
        radius = about.release(records, budget, streams).radius
        return center, min(self.wider * radius, public.radius)


def plan_joint_mean(
    geometry: Geometry,
    n: int,
    mu: float,
    weight: float,
    wider: float,
    *,
    mechanism: str = "auto",
    ball: GeodesicBall | None = None,
    search: LocationScaleSearch | None = None,
    n_classes: int | None = None,
) -> JointMean:
    """Decide on looks, from public numbers; what cannot run raises here.

    Parameters
    ----------
    geometry, n, mu, weight, wider, ball, search, n_classes
        See :class:`JointMean`.
    mechanism : {"auto", "tangent"}, default="auto"
        "tangent" takes no look in a public ball.

    Raises
    ------
    ValueError
        Where the ball is too wide, or integers would be too coarse.
    """
    if ball is not None and ball.radius > widest(geometry):
        raise PublicValueError(
            f"radius={ball.radius:g} is above {widest(geometry):.4g}, beyond which two "
            f"moments do not say where a mean is to within its error on {geometry}; pass a smaller "
            "radius and a center near the data, or radius='private'."
        )
    least = max(_LEAST_LOOK, _LEAST_LOOK_BY_DIM * math.sqrt(geometry.dim))
    refines_ball = (
        ball is not None and mechanism == "auto" and n * mu >= least and n_classes is None
    )
    plan = JointMean(geometry, n, mu, weight, wider, ball, search, refines_ball, n_classes)
    plan.check()
    return plan
