"""Queries of a geodesic regression: a plan from public numbers, then its releases."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._arrays import row_squares
from skriemdp._groups import Groups
from skriemdp._location_scale.columns import ColumnRule
from skriemdp._location_scale.points import PointRecords, plan_point_search, warn_direction
from skriemdp._location_scale.row_releases import (
    COUNT_SHARE,
    LEAST_FOR_MODEL,
    TARGET_CLIP,
    RowBounds,
    clipped_fraction,
    constant_shares,
    few_shares,
)
from skriemdp._location_scale.rows import row_products
from skriemdp._location_scale.search import LocationScaleSearch, Shares
from skriemdp._mechanisms.budget import COUNT, GaussianBudget
from skriemdp._mechanisms.lifts import Lifts
from skriemdp._mechanisms.quantile import PrivateQuantile, log_normal_weights
from skriemdp._mechanisms.units import Units
from skriemdp._random import public_generator
from skriemdp._regression.geodesic_fit import Gram, ModelLaw, ReleasedMoments, improved, shrunk
from skriemdp._regression.geodesic_model import GeodesicModel
from skriemdp.geometry._ball import descent_reach
from skriemdp.geometry._base import Geometry
from skriemdp.geometry._tiles import map_tiles, one_by_one

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams

# Names of the releases.
_FIRST_MOMENTS, _MOMENTS, _RESIDUALS = "first moments", "moments", "radius of residuals"
# Share of mu**2 that the searches for features and responses may spend together.
_MOST_SEARCHED = 0.6
# Shares of what is left for a first model, and for the radius of its residuals
# (benchmarks/geodesic_regression.py --part errors).
_FIRST, _RADIUS = 0.25, 0.1
# One release of everything is better below this n mu over the root of the number of slopes
# (benchmarks/geodesic_regression.py --part errors).
_LEAST_FOR_TWO = 40.0
# n mu from which a model of points beats a constant, where a search begins near them; in flat
# space, where it does not, it takes more (benchmarks/regressors.py --part few).
_LEAST_CURVED = 24.0
# n mu over the root of the features from which they are whitened in flat space
# (benchmarks/regressors.py --part white).
_LEAST_WHITE = 1500.0
# Grid of the radii of residuals, over the radius of the responses, and the median and spread of the
# log-normal prior.
_RATIO, _RADII, _MEDIAN, _SPREAD = 1.1, 70, 0.4, 1.2
# The found radius is widened by this factor; highest and lowest level of its quantile
# (benchmarks/geodesic_regression.py --part errors).
_WIDENED, _MOST_LEVEL, _LEAST_LEVEL = 1.2, 0.98, 0.6
# Of scaled features, whose squares must not overflow.
_LARGEST = 1e100
_ADVICE = (
    "have features or responses outside of their bounds and were clipped; choose feature_scale, "
    "center and radius from public knowledge of the data, or pass feature_scale='private' and "
    "radius='private'."
)


@dataclass(frozen=True, eq=False)
class FeaturePlace:
    """Features less a centre, over a scale, clipped to length one.

    Parameters
    ----------
    center, scale : ndarray of shape (n_features,)
    white : ndarray of shape (n_features, n_features), optional
        What features, shortened, are multiplied by, to be shortened once more.
    """

    center: np.ndarray
    scale: np.ndarray
    white: np.ndarray | None = None

    def raw(self, X: np.ndarray) -> np.ndarray:
        """Before they are shortened; entries so large that their squares overflow are cut.

        Of no columns for a constant, which looks at none.
        """
        if not len(self.center):
            return np.zeros((len(X), 0))
        with np.errstate(over="ignore"):
            return np.clip((X - self.center) / self.scale, -_LARGEST, _LARGEST)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        rows = _short(self.raw(X))
        return rows if self.white is None else _short(row_products(rows, self.white))

    def within(self, X: np.ndarray) -> np.ndarray:
        """Return a mask of the rows that are not clipped."""
        rows = self.raw(X)
        inside = np.einsum("ij,ij->i", rows, rows) <= 1.0
        if self.white is None:
            return inside
        return inside & (row_squares(row_products(_short(rows), self.white)) <= 1.0)

    def coefficients(self, law: ModelLaw) -> tuple[np.ndarray, np.ndarray]:
        """Slopes per unit of the features, and their standard errors; ``(n_features, dim)``."""
        slopes, covariance, scale = law.model.slopes, law.covariance(), self.scale[:, None]
        if self.white is None:
            variances = np.einsum("iaia->ia", covariance)[1:]
        else:
            slopes = self.white @ slopes
            inner = covariance[1:, :, 1:, :]
            variances = np.einsum("ji,iaka,jk->ja", self.white, inner, self.white)
        return slopes / scale, np.sqrt(np.maximum(variances, 0.0)) / scale


@dataclass(frozen=True, eq=False)
class GeodesicPlan:
    """A planned fit, from public numbers, and its releases, each given what came before.

    Attributes
    ----------
    geometry : Geometry
    n : int
        Number of records: rows, or groups of them.
    mu : float
        Gaussian differential privacy parameter of the whole fit.
    features : FeaturePlace
        Where they are not searched for.
    bounds : RowBounds or None
        Finds the features.
    point_search : LocationScaleSearch or None
    center, radius : ndarray, float or None
        Of the responses, where they are public.
    averaged : bool
        Whether records are people, who add the average of their rows' moments.

    Notes
    -----
    *Guarantee*: mu-GDP under replacement of one record.  The searches have theorems of their own
    (docs/theory/location-scale.md); counts and the radius of residuals move by one record;
    residuals of the second moments are functions of released numbers and of their own record, and
    are clipped to a released radius (docs/theory/geodesic-regression.md).
    """

    geometry: Geometry
    n: int
    mu: float
    features: FeaturePlace
    bounds: RowBounds | None
    point_search: LocationScaleSearch | None
    center: Any
    radius: float | None
    averaged: bool

    @property
    def constant(self) -> bool:
        """Whether the model is one point, the same for all features, of which none is looked at."""
        return not len(self.features.center)

    @property
    def row(self) -> float:
        """The longest row ``(1, z)``."""
        return 1.0 if self.constant else math.sqrt(2.0)

    @property
    def two(self) -> bool:
        """Whether residuals of a first model are asked for."""
        strength = self.n * self.mu * math.sqrt(1.0 - self.searched)
        slopes = (1 + len(self.features.center)) * self.geometry.dim
        return not self.constant and strength >= _LEAST_FOR_TWO * math.sqrt(slopes)

    @property
    def searched(self) -> float:
        """The most that the searches and the count spend of ``mu**2``."""
        rows = 0.0 if self.bounds is None else self.bounds.share
        return COUNT_SHARE + rows + (self.point_search.shares.total if self.point_search else 0.0)

    @property
    def clipped_noise(self) -> float:
        """Standard deviation of the noise of the clipped share."""
        return GaussianBudget(self.mu).count(COUNT_SHARE).sigma / self.n

    def reserved(self) -> GaussianBudget:
        """A budget of which everything was taken that a fit may release."""
        budget = GaussianBudget(self.mu)
        if self.bounds is not None:
            self.bounds.reserve(budget)
        if self.point_search is not None:
            self.point_search.shares.reserve(budget)
        budget.take(COUNT_SHARE, COUNT, 1)
        rest, dim = budget.remaining, sum(self.moments(1.0, self.mu).sizes)
        if self.two:
            budget.take(_FIRST * rest, _FIRST_MOMENTS, dim**2)
            budget.take(_RADIUS * rest, _RESIDUALS, 1)
        budget.rest(_MOMENTS, dim**2)
        return budget

    def moments(self, norm: float, mu: float) -> Lifts:
        """The release of moments of rows ``(1, z)`` over :attr:`row`, and of residuals."""
        sizes = (1 + len(self.features.center), self.geometry.dim)
        return Lifts(sizes, (1.0, norm), mu, 1.0, self.averaged)

    def residual_quantile(self, radius: float, mu: float) -> PrivateQuantile:
        """The release of a radius that holds most residuals, in a ball of this radius."""
        grid = tuple((2.0 * radius * _RATIO ** np.arange(1.0 - _RADII, 1.0)).tolist())
        prior = log_normal_weights(grid, _MEDIAN * radius, _SPREAD)
        level = float(np.clip(1.0 - 8.0 / (self.n * mu), _LEAST_LEVEL, _MOST_LEVEL))
        return PrivateQuantile(grid, level, mu, prior)

    def release(
        self, records: Units, budget: GaussianBudget, streams: NoiseStreams
    ) -> GeodesicRelease:
        """Everything, from features ``(n_rows, p)`` and responses ``(n_rows, *shape)``."""
        X, points = records.arrays
        shown = representatives(records.groups, len(X))
        features, expected_fraction = self._features(X[shown], budget, streams)
        center, radius, missed = self._ball(points[shown], budget, streams)
        dist = functools.partial(self.geometry.dist, center)
        inside = np.asarray(map_tiles(dist, points[shown])) <= radius
        inside &= features.within(X[shown])
        beyond = int(np.count_nonzero(~inside))
        clipped = clipped_fraction(
            beyond, len(inside), expected_fraction + missed, _ADVICE, budget, streams
        )
        z, rest, limit = features(X), budget.remaining, radius
        model = GeodesicModel(self.geometry, center, np.zeros((z.shape[1], self.geometry.dim)))
        mu = budget.take(_FIRST * rest, _FIRST_MOMENTS) if self.two else budget.rest(_MOMENTS)
        units = Units((z, points), records.groups)
        moments = self._moments(model, units, radius, mu, streams("moments"))
        gram = moments.gram
        law, floored = improved(model, moments, gram, radius)
        if self.two:
            quantile = self.residual_quantile(radius, budget.take(_RADIUS * rest, _RESIDUALS))
            distances = law.model.distances(z[shown], points[shown])
            # A grid value stands for the interval below it.
            found = quantile.release(distances, streams("residual radius")) / math.sqrt(_RATIO)
            limit = min(_WIDENED * found, 2.0 * radius)
            mu, rng = budget.rest(_MOMENTS), streams("residual moments")
            moments = self._moments(law.model, units, limit, mu, rng)
            gram = moments.gram.pooled(gram)
            law, floored = improved(law.model, moments, gram, radius)
        drawn = shrunk(law, gram)
        return GeodesicRelease(law, *drawn, features, center, radius, limit, clipped, floored)

    def _features(
        self, X: np.ndarray, budget: GaussianBudget, streams: Any
    ) -> tuple[FeaturePlace, float]:
        """Release centre and scale of the features; also the expected share of clipped rows."""
        if self.bounds is None:
            return self.features, 0.0
        own: Any = functools.partial(streams, "features")
        place, _ = self.bounds.release(Units((X,)), budget, own)
        norm, white = place.norm, None
        if place.white is not None:
            norm, white = place.white.norm, place.white.matrix / place.norm
        scale = np.full(X.shape[1], norm)
        if place.columns is not None:
            scale *= place.columns.scale
        return FeaturePlace(np.asarray(place.center), scale, white), 1.0 - place.level

    def _ball(
        self, points: np.ndarray, budget: GaussianBudget, streams: Any
    ) -> tuple[np.ndarray, float, float]:
        """Centre and radius of the responses, and the share that is meant to lie outside."""
        search, geometry = self.point_search, self.geometry
        if search is None:
            assert self.radius is not None
            return self.center, self.radius, 0.0
        records = PointRecords(geometry, points)
        own: Any = functools.partial(streams, "responses")
        found = search.release(records, budget, own)
        warn_direction(found)
        return found.center, min(found.radius, descent_reach(geometry)), 1.0 - found.level

    def _moments(
        self, model: GeodesicModel, units: Units, norm: float, mu: float, rng: np.random.Generator
    ) -> ReleasedMoments:
        lifts, seen, (z, points) = self.moments(norm, mu), model.residuals, units.arrays
        if not self.geometry.separate_rows:
            seen = one_by_one(seen)
        rows = np.concatenate([np.ones((len(z), 1)), z], axis=1) / self.row
        lifted = Units((rows, seen(z, points)), units.groups)
        gram, product, second = lifts.release(lifted, rng)
        first_sigma, product_sigma, second_sigma = lifts.sigmas
        row = self.row
        gram = row**2 * gram
        gram[0, 0] = self.n  # public
        return ReleasedMoments(
            self.n,
            Gram(gram, 0.0 if self.constant else row**2 * first_sigma),
            row * product,
            second,
            row * product_sigma,
            second_sigma,
        )

    def check(self) -> None:
        """ValueError where integers of some sum would be too coarse."""
        least = math.sqrt((1.0 - self.searched) * (_FIRST if self.two else 1.0))
        for share in (least, 1.0):  # what the searches leave lies in between
            moments = self.moments(1.0, share * self.mu)
            moments.bounded_set.check(moments.mu)


def least_for_model(geometry: Geometry) -> float:
    """n mu below which a fit that has to find its responses is a constant; public."""
    return LEAST_FOR_MODEL if geometry.is_flat else _LEAST_CURVED


def plan_releases(
    geometry: Geometry,
    n: int,
    mu: float,
    features: FeaturePlace | None,
    feature_center: np.ndarray | None,
    n_features: int,
    center: Any,
    radius: float | None,
    averaged: bool,
) -> GeodesicPlan:
    """Plan the searches for what is None, and the releases after them.

    Parameters
    ----------
    geometry : Geometry
    n : int
    mu : float
    features : FeaturePlace or None
        Public; None searches.
    feature_center : ndarray or None
        Public, where the scale is searched for.
    n_features : int
    center, radius : ndarray, float or None
        Of the responses.
    averaged : bool
    """
    bounds: RowBounds | None = None
    point_search: LocationScaleSearch | None = None
    if center is None or radius is None:
        point_search = plan_point_search(geometry, n, mu, center, radius)
        if center is None and radius is None and n * mu < least_for_model(geometry):
            nothing = FeaturePlace(np.zeros(0), np.ones(0))
            if geometry.is_flat:
                point_search = dataclasses.replace(point_search, shares=constant_shares())
            return GeodesicPlan(geometry, n, mu, nothing, None, point_search, None, None, averaged)
    points = 0.0 if point_search is None else point_search.shares.total
    if features is None:
        bounds = RowBounds(n, n_features, mu, feature_center)
        apart = dataclasses.replace(
            bounds, shares=few_shares(n * mu), column_rule=ColumnRule(TARGET_CLIP)
        )
        if apart.columns is not None and apart.share + points <= _MOST_SEARCHED:
            bounds = apart
        features = FeaturePlace(np.zeros(n_features), np.ones(n_features))
        signal = n * mu / math.sqrt(n_features)
        plain = geometry.is_flat and not averaged and n_features > 1
        if plain and signal >= _LEAST_WHITE and bounds.share + points <= _MOST_SEARCHED:
            bounds = dataclasses.replace(bounds, white=True)
            return GeodesicPlan(
                geometry, n, mu, features, bounds, point_search, center, radius, averaged
            )
    total = points + (0.0 if bounds is None else bounds.share)
    if total > _MOST_SEARCHED:
        part = _MOST_SEARCHED / total
        if bounds is not None and bounds.search is not None:
            bounds = dataclasses.replace(bounds, shares=_cheaper(bounds.search.shares, part))
        if point_search is not None:
            shares = _cheaper(point_search.shares, part)
            point_search = dataclasses.replace(point_search, shares=shares)
    return GeodesicPlan(geometry, n, mu, features, bounds, point_search, center, radius, averaged)


def _short(rows: np.ndarray) -> np.ndarray:
    """Rows clipped to length one."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return rows / np.maximum(lengths, 1.0)[:, None]


def _cheaper(shares: Shares, factor: float) -> Shares:
    """All of them times `factor`."""
    names = ("start", "radius", "move", "final", "far_step", "far_radius")
    return dataclasses.replace(shares, **{name: factor * getattr(shares, name) for name in names})


def representatives(groups: Groups | None, n: int) -> np.ndarray | slice:
    """One row of each group, at a place among its own rows that is drawn without looking."""
    if groups is None:
        return slice(None)
    places = public_generator(0, "one row of each group").random(groups.count)
    last = groups.sizes - 1
    return groups.order[groups.starts + np.minimum((places * groups.sizes).astype(int), last)]


@dataclass(frozen=True, eq=False)
class GeodesicRelease:
    """Result of a fit; functions of noisy answers.

    Attributes
    ----------
    law : ModelLaw
    predictor : GeodesicModel
        That of `law`, its slopes times `signal_share`.
    signal_share : float
    stands_out : bool
        Whether the slopes stand out of their errors.
    features : FeaturePlace
    center : ndarray
    radius : float
    residual_radius : float
    clipped_fraction : float
    floored : bool
        Whether noise hides some combination of the features.
    """

    law: ModelLaw
    predictor: GeodesicModel
    signal_share: float
    stands_out: bool
    features: FeaturePlace
    center: np.ndarray
    radius: float
    residual_radius: float
    clipped_fraction: float
    floored: bool
