"""A mean and the second moment around it, in one release: what regions and tangent PCA need."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skriemdp._dataclasses import dataclass
from skriemdp.core.estimator import Data, Plan
from skriemdp.core.work import Work, decomposed
from skriemdp.curator.curator import Curator
from skriemdp.curator.openings import Gaussian
from skriemdp.curator.rehearsal import Rehearsal
from skriemdp.curator.sets import Set, lifts
from skriemdp.curator.sets import ball as ball_of
from skriemdp.curator.tables import Memory
from skriemdp.geometry.ball import GeodesicBall, descent_reach
from skriemdp.geometry.base import Geometry
from skriemdp.gives.base import Give
from skriemdp.gives.points import Labelled
from skriemdp.inference import MeanInference
from skriemdp.inference.covariances import hessian_draws
from skriemdp.location_scale.points import Points, warn_direction
from skriemdp.location_scale.search import (
    Found,
    LocationScaleSearch,
    Radii,
    Shares,
    james_stein,
    search,
)
from skriemdp.mean.domains import public_facts
from skriemdp.mean.program import inside_of
from skriemdp.mechanisms.budget import COUNT, Release

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams

# Name of the joint release.
_MOMENTS = "mean and second moment"
# Shares of mu**2 before the joint release in a public ball: the clipped fraction, a rough mean and
# a radius around it (benchmarks/inference.py --part coverage).
_COUNT, _LOOK_MEAN, _LOOK_RADIUS = 0.01, 0.25, 0.10
# No look below these n mu, the second times the root of the dimension: it would find nothing.
_LEAST_LOOK, _LEAST_LOOK_BY_DIM = 50.0, 10.0
# Grid of the radii that a look may return, over that of the public ball: a convention.
_RATIO, _RADII = 1.15, 46
# Of the quantile that becomes a radius: the highest level, and the number of clipped records, over
# mu, that noise excuses.  Tails pay for every record that is clipped (benchmarks/mean_mechanisms.py
# --part auto).
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


class Moments(NamedTuple):
    """Noisy ``sum z z'``, ``sum z`` and number of the records, or of those of each class.

    Beside them the noise along every unit matrix, on every coordinate of a sum, and on a number.
    """

    second: np.ndarray
    first: np.ndarray
    counts: np.ndarray
    second_sigma: float
    first_sigma: float
    count_sigma: float


class Released(NamedTuple):
    """What a fit released, and what it knows of it.

    `clipped` is the share of records outside the last ball, with the noise of that, and `found`
    what a search said.
    """

    center: np.ndarray
    radius: float
    clipped: float
    clipped_noise: float
    moments: Moments
    found: Found | None


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
    looks : bool
        Whether a rough mean and a radius around it are released first, in a public ball.
    n_classes : int, optional
        Then there are moments of each class.
    releases : tuple of Release
        What may be released, with its share.

    Notes
    -----
    *Guarantee*: mu-GDP.  A count moves by one, a rough mean by 2r over n, a radius comes from
    counts; with z the logarithm of a record, shortened to the radius r, and y = 1, what is released
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
    looks: bool = False
    n_classes: int | None = None
    releases: tuple[Release, ...] = ()

    @property
    def count_mu(self) -> float:
        """Mu of the number of records outside the last ball."""
        return self.mu * math.sqrt(_COUNT)

    @property
    def opening(self) -> Gaussian:
        """What it costs."""
        return Gaussian(self.mu)

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
        event = self.opening.event(self.n)
        return Plan(event, self, facts, work=work, releases=self.releases)

    def held(self, radius: float) -> Set:
        """The set of the joint release in a ball."""
        return lifts(radius, self.geometry.dim, self.weight, self.n_classes)

    # -- the program ----------------------------------------------------------------------------

    def run(self, curator: Curator) -> Released:
        """Release it."""
        count, where = curator.keep(_COUNT, COUNT, 1), Points(self.geometry)
        center, radius, found = self._place(curator, where)
        outside = curator.count(where.distance(center), radius, count, COUNT, "clipped fraction")
        clipped = float(outside.value) / self.n, outside.sigma / self.n
        return Released(center, radius, *clipped, self.moments(curator, center, radius), found)

    def release(self, data: Data, streams: NoiseStreams) -> Released:
        """Everything that a fit of these records releases."""
        n = data.facts["n"] if "noise of n" in data.facts else None
        table = Memory(*data.arrays, groups=data.groups)
        released = self.run(Curator(table, self.opening, streams, n, self.releases))
        if released.found is not None:
            warn_direction(released.found)
        return released

    def moments(self, curator: Curator, center: np.ndarray, radius: float) -> Moments:
        """The joint release."""
        k, classes, unit = self.geometry.dim, self.n_classes, self.weight * radius
        seen: Give = Points(self.geometry).seen(center)
        seen = seen if classes is None else Labelled(seen)
        label = "tangent moments" if classes is None else "class moments"
        size = (classes or 1) * (k + 1) ** 2
        noisy, sigma = curator.sum(seen, self.held(radius), None, _MOMENTS, label, dim=size)
        sums = noisy[..., :k, :k], noisy[..., :k, k] / unit, noisy[..., k, k] / unit**2
        return Moments(*sums, sigma, sigma / (math.sqrt(2.0) * unit), sigma / unit**2)

    def _place(self, curator: Curator, where: Points) -> tuple[np.ndarray, float, Found | None]:
        """Centre and radius of the joint release, and what a search found."""
        if self.search is not None:
            found = search(curator, self.search, where)
            wider = self.wider if self.search.radius is None else 1.0
            most = min(widest(self.geometry), self.search.radii.limit)
            return found.center, min(wider * found.radius, most), found
        assert self.ball is not None  # one of the two is given
        if not self.looks:
            return self.ball.center, self.ball.radius, None
        return *self._look(self.ball, curator, where), None

    def _look(
        self, public: GeodesicBall, curator: Curator, where: Points
    ) -> tuple[np.ndarray, float]:
        """A rough mean in the public ball, and a radius around it that holds the data."""
        geometry, label = self.geometry, ("rough mean", 0)
        seen, inside = where.seen(public.center), ball_of(public.radius, self.geometry.dim)
        total, sigma = curator.sum(seen, inside, _LOOK_MEAN, label[0], *label)
        move, left = james_stein(total / self.n, sigma / self.n)
        center = inside_of(public, np.asarray(geometry.exp_coordinates(public.center, move)))
        about = dataclasses.replace(self._radius_in(public), center=center, noise=left)
        radius = self.wider * search(curator, about, where).radius
        return center, min(radius, public.radius)

    def _radius_in(self, public: GeodesicBall) -> LocationScaleSearch:
        """The search for a radius about a rough mean in a public ball."""
        grid = public.radius * _RATIO ** -np.arange(_RADII - 1.0, -1.0, -1.0)
        # The spread of the logarithm of a radius about the public one: what is answered where
        # counts say nothing.
        known = Radii(tuple(grid.tolist()), 0.7 * public.radius, spread=1.2)
        shares = Shares(0.0, 0.0, 0.0, _LOOK_RADIUS, 0)
        asked = self.n, self.geometry.dim, self.mu, shares, known
        how: dict[str, Any] = {"highest": _MOST_WANTED, "beyond": _BEYOND, "label": ("radius", 0)}
        return LocationScaleSearch(*asked, **how)

    # -- what follows from it -------------------------------------------------------------------

    def known(self, released: Released, noise: float = 0.0) -> MeanInference:
        """What is known of the mean.

        Where the number of records was released, with this `noise`, the moments count them again.
        """
        found, n = released.moments, float(self.n)
        if not noise:
            return self._inference(released, n, 0.0)
        weight = found.count_sigma**2 / (noise**2 + found.count_sigma**2)
        n = max(weight * n + (1.0 - weight) * float(found.counts), 1.0)
        return self._inference(released, n, noise * math.sqrt(weight))

    def known_of_classes(
        self, released: Released
    ) -> tuple[tuple[MeanInference | None, ...], np.ndarray]:
        """What is known of each class, and class means.

        Nothing is known of a class whose released number of records is below `LEAST_COUNT`; its
        mean is that of its logarithms.
        """
        found, known = released.moments, list[MeanInference | None]()
        means: list[np.ndarray] = []
        for k, count in enumerate(found.counts.tolist()):
            if count >= LEAST_COUNT:
                one = self._inference(released, count, found.count_sigma, k)
                known, means = [*known, one], [*means, one.mean]
                continue
            rough = found.first[k] / max(count, 1.0)
            rough = rough * min(1.0, released.radius / max(float(np.linalg.norm(rough)), 1e-300))
            known.append(None)
            means.append(np.asarray(self.geometry.exp_coordinates(released.center, rough)))
        return tuple(known), np.stack(means)

    def _inference(self, released: Released, n: float, noise: float, of: Any = ()) -> MeanInference:
        """What is known of n records, a number with this noise; `of` is their class."""
        found = released.moments
        return MeanInference(
            self.geometry,
            released.center,
            released.radius,
            found.first[of] / n,
            found.second[of] / n,
            n,
            found.first_sigma / n,
            found.second_sigma / n,
            noise / n,
        )


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
    """Decide on looks, from public numbers, and rehearse; what cannot run raises here.

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
        raise ValueError(
            f"radius={ball.radius:g} is above {widest(geometry):.4g}, beyond which two "
            f"moments do not say where a mean is to within its error on {geometry}; pass a smaller "
            "radius and a center near the data, or radius='private'."
        )
    least = max(_LEAST_LOOK, _LEAST_LOOK_BY_DIM * math.sqrt(geometry.dim))
    looks = ball is not None and mechanism == "auto" and n * mu >= least and n_classes is None
    plan = JointMean(geometry, n, mu, weight, wider, ball, search, looks, n_classes)
    rehearsal = Rehearsal(n, plan.opening)
    plan.run(rehearsal)
    return dataclasses.replace(plan, releases=rehearsal.releases)
