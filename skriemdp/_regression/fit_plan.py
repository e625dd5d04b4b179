"""Plan of a regression, made from its parameters and public facts."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2

from skriemdp._core.estimator import Plan
from skriemdp._core.manifold_input import (
    check_descent_radius,
    public_array,
    public_point,
    warn_small_search,
)
from skriemdp._core.work import Work, check_limit
from skriemdp._errors import PublicValueError
from skriemdp._location_scale.columns import ColumnRule
from skriemdp._location_scale.row_releases import RowBounds
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._random import check_random_state
from skriemdp._regression.features import FeatureMap, FeatureScaling
from skriemdp._regression.layouts import tangent_labels
from skriemdp._regression.moment_releases import MomentModel
from skriemdp._regression.planning import (
    BASE,
    BASE_SHARE,
    MODEL,
    BasePoint,
    clip_norms,
    frequency_rule,
    length_rule,
    model_rule,
    public_scale,
    query_rule,
)
from skriemdp._regression.prediction_releases import WeightedMean
from skriemdp._regression.wrapped_releases import WrappedModel
from skriemdp._validation import check_count, check_factor, check_option, check_scale
from skriemdp.geometry import GeodesicBall, Hyperboloid
from skriemdp.geometry._base import Geometry
from skriemdp.privacy._calibration import gaussian_mu

MECHANISMS = ("parametric", "sufficient-statistics", "per-query")
UNITS = ("record", "label")
# Curvature radii from the origin to the farthest label.
_FARTHEST = 20.0
# Above it the kernel matrix of the per-query mechanism needs more than a gigabyte.
_LARGEST_KERNEL = 12_000


@dataclass(frozen=True)
class FitPlan:
    """A planned fit.

    Attributes
    ----------
    mu : float
        Gaussian differential privacy parameter of the whole fit.
    scaling : FeatureScaling
    base : BasePoint or None
        None where the base point is public.
    public_base : ndarray or None
    model : WrappedModel, MomentModel or WeightedMean
        With the least budget that the other releases leave; it then gets what is left.
    copies : int
        Number of releases of the model: one, or that of the queries.
    """

    mu: float
    scaling: FeatureScaling
    base: BasePoint | None
    public_base: np.ndarray | None
    model: WrappedModel | MomentModel | WeightedMean
    copies: int


def plan_fit(estimator: Any, facts: dict[str, Any]) -> Plan:
    """The plan of a :class:`skriemdp.PrivateHyperbolicRegressor`; nothing private is seen."""
    n, d, geometry = facts["n"], facts["d"], facts["geometry"]
    grouped = facts.get("grouped", False)
    if grouped and estimator.privacy_unit == "label":
        raise PublicValueError(
            "privacy_unit='label' protects single labels, not people; pass privacy_unit='record', "
            "with which groups protects all rows of a person, features included."
        )
    unit = math.sqrt(-geometry.curvature)
    _check_parameters(estimator, unit)
    mu = gaussian_mu(estimator.epsilon, estimator.delta)
    features, work = _feature_map(estimator, n, d, geometry.dim)
    rule = None if features.limit is None else ColumnRule(features.limit)
    scaling = FeatureScaling(
        isinstance(estimator.feature_scale, str),
        estimator.privacy_unit == "label",
        # The share of Gaussian rows within sqrt(d) standard deviations: a norm that holds nearly
        # all rows is a scale of its own where a few lie far off, and features would hardly differ.
        RowBounds(n, d, mu, max_level=float(chi2.cdf(d, d)), column_rule=rule),
        features,
    )
    left, base, public_base = 1.0 - scaling.share, None, None
    if isinstance(estimator.base_point, str):
        check_option(("private",), base_point=estimator.base_point)
        radius = float(estimator.radius)
        check_descent_radius(geometry, radius, "pass a smaller one, or a public base_point")
        base = BasePoint(geometry.dim, radius * unit, n, math.sqrt(BASE_SHARE) * mu)
        left -= BASE_SHARE
    else:
        public_base = _public_base(estimator, geometry, facts["space"])
    if base is not None or scaling.searches:
        warn_small_search(n, mu, "a public feature_scale and base_point")
    shape = (2 * features.n_frequencies, geometry.dim)
    model, copies = _model(estimator, n, shape, math.sqrt(left) * mu, unit, grouped)
    # A search spends what it needs: the model may have more than it was planned with.
    models = model, dataclasses.replace(model, mu=mu / math.sqrt(copies))
    if base is not None:
        base.check()
    for one in models:
        one.bounded_set.check(one.step_mu)
    budget = GaussianBudget(mu)
    scaling.reserve(budget)
    if base is not None:
        budget.take(BASE_SHARE, BASE, geometry.dim)
    budget.rest(MODEL)
    return Plan(
        event=budget.event,
        settings=FitPlan(mu, scaling, base, public_base, model, copies),
        public={
            "n": n,
            "manifold": str(facts["space"] or f"tangent vectors of {geometry}"),
            "radius": float(estimator.radius),
            "feature_scale": estimator.feature_scale,
            "public_seed": estimator.public_seed,
            "base_point": estimator.base_point,
        }
        | ({"X": "every feature"} if estimator.privacy_unit == "label" else {}),
        unit=estimator.privacy_unit,
        work=work,
        releases=budget.releases,
    )


def _check_parameters(estimator: Any, unit: float) -> None:
    check_option(MECHANISMS, mechanism=estimator.mechanism)
    check_option(UNITS, privacy_unit=estimator.privacy_unit)
    check_scale(radius=estimator.radius)
    check_random_state(estimator.public_seed)
    for name in ("length_scale", "clip_norm", "ridge"):
        if getattr(estimator, name) is not None:
            check_factor(**{name: getattr(estimator, name)})
    lengths: dict[str, Any] = {"radius * sqrt(-curvature)": float(estimator.radius) * unit}
    check_scale(**lengths)
    if float(estimator.radius) * unit > _FARTHEST:
        raise PublicValueError(
            f"radius={estimator.radius!r} is above {_FARTHEST / unit:.4g}, {_FARTHEST:g} curvature "
            "radii, beyond which points of hyperbolic space overflow floating point; pass a "
            "smaller radius, or rescale the labels."
        )
    if estimator.clip_norm is not None:
        lengths = {"clip_norm * sqrt(-curvature)": float(estimator.clip_norm) * unit}
        check_scale(**lengths)


def _model(
    estimator: Any, n: int, shape: tuple[int, int], mu: float, unit: float, grouped: bool
) -> tuple[WrappedModel | MomentModel | WeightedMean, int]:
    """The model for the rest of the budget, and how often it is released."""
    records = estimator.privacy_unit == "record"
    clip = 0.5 if estimator.mechanism == "parametric" else 2.0
    if estimator.clip_norm is not None:
        clip = float(estimator.clip_norm) * unit
    given = None
    if estimator.n_steps is not None:
        check_count(n_steps=estimator.n_steps)
        given = int(estimator.n_steps)
    if estimator.mechanism == "sufficient-statistics":
        ridge = None if estimator.ridge is None else float(estimator.ridge)
        return MomentModel(shape, mu, clip, ridge, records, grouped=grouped), 1
    if estimator.mechanism == "parametric":
        n_steps, step_size, momentum = model_rule(n, mu, given)
        model = WrappedModel(n, shape, mu, n_steps, step_size, clip, momentum, grouped=grouped)
        return model, 1
    check_count(n_queries=estimator.n_queries)
    if not records and n > _LARGEST_KERNEL:
        raise PublicValueError(
            f"n={n} records are too many for kernel ridge weights (at most {_LARGEST_KERNEL}); "
            "use mechanism='parametric', or fit on a subsample."
        )
    check_limit("most_steps", n_queries=estimator.n_queries)
    least = 4.0 * np.finfo(float).eps * n * n
    if not records and estimator.ridge is not None and estimator.ridge < least:
        raise PublicValueError(
            f"ridge={estimator.ridge!r} is below {least:.2g}, where rounding of n={n} kernel rows "
            "could leave no solution; pass a larger ridge."
        )
    mu_query = mu / math.sqrt(estimator.n_queries)
    n_steps = query_rule(n, mu_query) if given is None else given
    ball = GeodesicBall(Hyperboloid(shape[1]), None, float(estimator.radius) * unit)
    return WeightedMean(ball, mu_query, n_steps, clip, records), int(estimator.n_queries)


def _feature_map(estimator: Any, n: int, d: int, dim: int) -> tuple[FeatureMap, Work]:
    """The random features, and the work of a fit, refused before they are drawn."""
    scale = public_scale(estimator.feature_scale, d)
    n_frequencies = (
        frequency_rule(n, estimator.mechanism == "parametric")
        if estimator.n_frequencies is None
        else estimator.n_frequencies
    )
    check_count(n_frequencies=n_frequencies)
    n_frequencies = int(n_frequencies)
    length = length_rule(d) if estimator.length_scale is None else float(estimator.length_scale)
    columns = 2 * n_frequencies
    entries = n * (columns + 4 * dim) + d * n_frequencies + 5 * columns * dim
    if estimator.mechanism == "sufficient-statistics":
        entries += 4 * columns * columns
    if estimator.mechanism == "per-query" and estimator.privacy_unit == "label":
        entries += 3 * n * n
    steps = 1 if estimator.n_steps is None else int(estimator.n_steps)
    steps *= int(estimator.n_queries) if estimator.mechanism == "per-query" else 1
    work = Work(8.0 * entries, steps, f"n_frequencies={n_frequencies}").check()
    known = np.ones(()) if scale is None else scale
    # Scaled features are clipped to ten scales.
    return FeatureMap(d, n_frequencies, length, known, 10.0, estimator.public_seed), work


def _public_base(estimator: Any, geometry: Hyperboloid, labelled: Geometry | None) -> np.ndarray:
    """The public base point on the hyperboloid of curvature -1."""
    if labelled is not None:
        point = public_point(labelled, base_point=estimator.base_point)[None]
    else:
        point = public_array("base_point", estimator.base_point).reshape(1, -1)
        if point.shape[1] != geometry.dim or not np.isfinite(point).all():
            raise PublicValueError(f"base_point must hold {geometry.dim} finite numbers.")
    unit = math.sqrt(-geometry.curvature)
    labels = tangent_labels(point, labelled, geometry)
    labels = clip_norms(labels, float(estimator.radius)) * unit
    space = Hyperboloid(geometry.dim)
    return np.asarray(space.exp_coordinates(space.base_point, labels))[0]
