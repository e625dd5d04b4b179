"""`PrivateGeodesicRegressor`: responses on a manifold along geodesics, with bars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skriemdp._arrays import ArrayLike, ManifoldLike
from skriemdp._containers import plain
from skriemdp._core.estimator import Data, Plan, Terms
from skriemdp._core.manifold_input import (
    as_points,
    check_descent_radius,
    check_membership,
    check_reach,
    checked_points,
    public_array,
    public_ball,
    public_point,
    refuse_foreign,
    warn_constant,
    warn_small_search,
)
from skriemdp._core.work import Work
from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._quiet import quietly, read_records
from skriemdp._regression.geodesic_releases import (
    FeaturePlace,
    GeodesicPlan,
    least_for_model,
    plan_releases,
)
from skriemdp._regression.planning import public_scale
from skriemdp._regression.scores import ManifoldRegressor
from skriemdp._validation import check_fraction, check_scale
from skriemdp._warnings import warn_user
from skriemdp.geometry._ball import check_bounded
from skriemdp.geometry._base import Geometry
from skriemdp.inference._regions import ConfidenceRegion, share_outside
from skriemdp.privacy._calibration import gaussian_mu

if TYPE_CHECKING:
    from skriemdp.ledger._accountant import PrivacyAccountant


class PrivateGeodesicRegressor(ManifoldRegressor):
    """Regression of points on a manifold on Euclidean features, private, with error bars.

    The model is ``y = exp_p(sum_j x_j w_j)`` with noise: one geodesic through the base point p for
    each feature.  On Euclidean space it is linear regression.  Two releases of second moments, of
    features and responses and then of features and residuals, give p, the w_j and the law of their
    error, sampling and privacy noise together.

    Parameters
    ----------
    manifold : str, Geometry or pymanopt manifold, default="euclidean"
        Of the responses; as in :class:`skriemdp.PrivateFrechetMean`.
    center : array-like of shape ``point_shape`` or "private", optional
        Public centre of the ball that bounds the responses.  None means "private" with
        ``radius="private"``, and the geometry's base point with a number, which
        matrices of "spd" do not have.
    radius : float or "private", default="private"
        Public radius of that ball, in geodesic distance.  Responses outside are moved to its rim,
        silently.  "private" finds it privately.
    feature_center : array-like of shape (n_features,), optional
        Public; it is subtracted from the features.  None: found privately if `feature_scale` is
        "private", zero otherwise.
    feature_scale : "private", float or array-like of shape (n_features,), default="private"
        What centred features are divided by; rows of X longer than one are then clipped to it,
        silently.  "private" finds one number for all features privately, or one for each where
        their units differ and ``n mu >= 64 sqrt(n_features)``; with fewer records pass public ones.
        Noise is the same for all features after the division.  In flat space, with ``n mu >= 1500
        sqrt(n_features)`` and without groups, features that were found are whitened as well.
    epsilon, delta : float, default=1.0, 1e-5
        Privacy of the whole fit; delta must be positive.
    accountant, random_state
        As in :class:`skriemdp.PrivateFrechetMean`.

    Attributes
    ----------
    base_point_ : ndarray of shape ``point_shape``
        The prediction at `feature_center_`.
    coef_ : ndarray of shape (n_features, dim)
        The w_j, per unit of X, in orthonormal coordinates at the base point.
    coef_standard_error_ : ndarray of shape (n_features, dim)
        Of `coef_`: sampling and privacy noise.
    residual_covariance_ : ndarray of shape (dim, dim)
        Private covariance of the responses about the model, in coordinates at the base point.
    residual_radius_ : float
        To which residuals were shortened in the last release.
    center_, radius_ : ndarray of shape ``point_shape``, float
        The ball that was used for the responses.
    feature_center_, feature_scale_ : ndarray of shape (n_features,)
    clipped_fraction_ : float
        Private estimate of the share of records with features or a response outside the bounds,
        for 1 % of ``mu**2``.
    kept_ : float
        By which `predict` multiplies the slopes: less than one where a part of what they say is
        their own error.  `coef_`, `base_point_` and the regions are before that.
    is_constant_ : bool
        Whether `predict` says the same for all features, a mean of the responses.  So does a fit
        that has to find their ball where ``n mu < 36`` (24 on curved spaces), n, epsilon and delta
        public: it then asks nothing about the features, `coef_` is zero with infinite errors, and
        regions are those of the mean.
    n_releases_ : int
        1 where a public rule of n, epsilon, delta and the sizes says that residuals of a first
        model are not worth their price; else 2.
    geometry_ : Geometry
    n_features_in_ : int
    privacy_spent_ : PrivacySpent

    Notes
    -----
    *Guarantee*: (epsilon, delta)-differential privacy under replacement of one record (x, y), or of
    all records of one group, n public; Gaussian, ``privacy_spent_.mu`` is set.  Predictions and
    regions are post-processing.  `score` depends on the rows it is given and is not private.
    Proofs: docs/theory/geodesic-regression.md.

    *What the bars cover*: the model, if residuals have mean zero and one covariance whatever the
    features are, and few records are clipped.  With groups they are wide enough, and too wide where
    the rows of a group are independent.

    References
    ----------
    Fletcher (2013), Geodesic regression and the theory of least squares on Riemannian manifolds.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import PrivateGeodesicRegressor
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(20.0, 80.0, size=(4000, 1))
    >>> y = 1.0 + 0.05 * age[:, 0] + 0.2 * rng.normal(size=4000)
    >>> model = PrivateGeodesicRegressor().fit(age, y)
    >>> bool(abs(model.coef_[0, 0] - 0.05) < 7 * model.coef_standard_error_[0, 0])
    True
    >>> region = model.confidence_region([50.0], 1 - 1e-9)
    >>> bool(region.contains(np.array([[3.5]]))[0])
    True
    """

    def __init__(
        self,
        manifold: ManifoldLike = "euclidean",
        *,
        center: ArrayLike | None = None,
        radius: float | Literal["private"] = "private",
        feature_center: ArrayLike | None = None,
        feature_scale: ArrayLike = "private",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        accountant: PrivacyAccountant | None = None,
        random_state: int | None = None,
    ):
        self.manifold = manifold
        self.center = center
        self.radius = radius
        self.feature_center = feature_center
        self.feature_scale = feature_scale
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state

    # -- scikit-learn ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, groups: Any = None) -> PrivateGeodesicRegressor:
        """Release a private model of y given X.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n, *point_shape), (n, n_entries) or (n,)
            Points, their entries in a row each, or real numbers.
        groups : array-like of shape (n,), optional
            Who owns each row.  Then everybody adds the average over own rows; all rows of one owner
            and their number are protected together, and n is the number of owners, which is public.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For bad parameters or input, before anything is charged or released.
        BudgetExceededError
            If the accountant's ceiling would be exceeded; nothing is released.
        """
        return self._fit(X, y, groups)

    def predict(self, X: Any) -> np.ndarray:
        """Points on the model, one for each row of X, in the layout of the fitted y.

        Features are shortened as in the fit: beyond `feature_scale_` predictions stay at the rim.
        """
        check_is_fitted(self)
        return self._layout(self._predictor.points(self._features(X)))

    def _compared(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y, _ = self._read(X, y, reset=False)
        points = as_points(self.geometry_, y, "y")
        check_membership(self.geometry_, points, "y")
        return points, self._predictor.points(self._place(X))

    def confidence_region(self, X: Any, level: float = 0.95) -> Any:
        """Regions that hold the model's points at given features with probability `level` each.

        Parameters
        ----------
        X : array-like of shape (n_features,) or (m, n_features)
        level : float, default=0.95

        Returns
        -------
        ConfidenceRegion, or list of m of them
            About the mean response given the features, not about a new response.  They cost no
            budget.  Regions at several features hold together less often than each alone.
        """
        check_is_fitted(self)
        check_fraction(level=level)
        single = np.ndim(X) == 1
        z = self._features(np.asarray(plain(X, "X"))[None] if single else X)
        subject = "the point of the model at these features"
        if self.is_constant_:
            subject = "the mean of the responses"
        points, covariances = self._law.covariances(z)
        thresholds = self._law.thresholds(z, level)
        regions = [
            ConfidenceRegion(
                self.geometry_,
                point,
                covariance,
                float(threshold),
                level,
                subject=f"{subject}, of a population whose responses outside the ball of radius "
                f"{self.radius_:.3g} that was used are moved onto its edge,",
                privacy=self.privacy_spent_,
                outside=share_outside(self.clipped_fraction_, self._clipped_noise, level),
                remark="Those with features that were shortened are among them.",
            )
            for point, covariance, threshold in zip(points, covariances, thresholds, strict=True)
        ]
        return regions[0] if single else regions

    # -- the order of work ----------------------------------------------------------------------

    def _read(self, X: Any, y: Any, **checks: Any) -> tuple[np.ndarray, np.ndarray, int]:
        """Features, responses with one row each, and how many axes these had."""
        quietly(lambda y: refuse_foreign(self.manifold, y, "y"), y, names=("y",))
        y = quietly(lambda y: plain(y, "y"), y, names=("y",))
        several = isinstance(y, np.ndarray) and y.ndim > 2
        rows = y.reshape(len(y), math.prod(y.shape[1:])) if several else y
        X, rows = read_records(
            self, X, rows, multi_output=True, y_numeric=True, dtype=np.float64, **checks
        )
        rows = np.asarray(rows, dtype=float)
        if several:
            return X, rows.reshape(y.shape), y.ndim
        return X, rows[:, None] if rows.ndim == 1 else rows, rows.ndim

    def _validate(self, X: Any, y: Any = None) -> Data:
        X, y, axes = self._read(X, y, ensure_min_samples=2)
        geometry, points = checked_points(y, self.manifold, "y")
        check_bounded(geometry)
        facts = {"geometry": geometry, "n": len(X), "d": X.shape[1], "axes": axes}
        return Data((X, points), facts)

    def _plan(self, facts: dict[str, Any], terms: Terms) -> Plan[GeodesicPlan]:
        geometry, n, d = facts["geometry"], facts["n"], facts["d"]
        if self.delta == 0:
            raise PublicValueError(
                "delta=0 asks for pure differential privacy, and second moments get Gaussian "
                "noise; pass a delta > 0."
            )
        mu = gaussian_mu(self.epsilon, self.delta)
        features, middle = self._public_features(d)
        center, radius = self._public_ball(geometry)
        averaged = bool(facts.get("grouped", False))
        plan = plan_releases(
            geometry, n, mu, features, middle, d, center, radius, averaged=averaged
        )
        if plan.constant:
            warn_constant(n * mu, least_for_model(geometry), "center and radius")
        elif plan.point_search is not None or plan.bounds is not None:
            warn_small_search(n, mu)
        size = 1 + d + geometry.dim
        plan.check()
        entries = (
            n * (2.0 * size + 4.0 * math.prod(geometry.shape)) + 4.0 * ((1 + d) * geometry.dim) ** 2
        )
        public = {"n": n, "manifold": str(geometry), "feature_scale": self.feature_scale}
        known = {"center": center, "radius": radius, "feature_center": middle}
        public |= {name: value for name, value in known.items() if value is not None}
        budget = plan.reserved()
        return Plan(
            event=budget.event,
            settings=plan,
            public=public,
            work=Work(8.0 * entries, cause="the numbers of features and dimensions"),
            releases=budget.releases,
        )

    def _public_features(self, d: int) -> tuple[FeaturePlace | None, np.ndarray | None]:
        """Centre and scale of the features, None where they have to be found."""
        center = None
        if self.feature_center is not None:
            center = public_array("feature_center", self.feature_center)
            if center.shape != (d,) or not (np.abs(center) <= 1e60).all():
                raise PublicValueError(
                    f"feature_center must hold {d} finite numbers up to 1e60, one per feature."
                )
        scale = public_scale(self.feature_scale, d)
        if scale is None:
            return None, center
        middle = np.zeros(d) if center is None else center
        return FeaturePlace(middle, np.broadcast_to(scale, (d,)).copy()), center

    def _public_ball(self, geometry: Geometry) -> tuple[np.ndarray | None, float | None]:
        """Centre and radius of the responses, None where they have to be found."""
        free_radius = isinstance(self.radius, str) and self.radius == "private"
        asked = isinstance(self.center, str) and self.center == "private"
        free_center = asked or (free_radius and self.center is None)
        center, radius = None, None
        if not free_radius:
            check_scale(radius=self.radius)
            radius = float(self.radius)
            check_descent_radius(geometry, radius)
            public_ball(geometry, geometry.base_point, radius)  # refuses what no ball can be
        if not free_center:
            if self.center is None:
                center = public_ball(geometry, None, radius or 1.0).center
            else:
                center = public_point(geometry, center=self.center)
                check_reach(geometry, center=center)
        return center, radius

    def _release(self, data: Data, plan: Plan[GeodesicPlan], streams: Any) -> None:
        settings = plan.settings
        budget = GaussianBudget(settings.mu, plan.releases)
        found = settings.release(data.units, budget, streams)
        law, model = found.law, found.law.model
        self.geometry_, self._axes = settings.geometry, data.facts["axes"]
        self._law, self._place, self._predictor = law, found.features, found.predictor
        self.base_point_, self.is_constant_ = model.base, settings.constant
        shape = data.facts["d"], settings.geometry.dim
        place = found.features
        if settings.constant:
            place = FeaturePlace(np.zeros(shape[0]), np.ones(shape[0]))
            self.coef_, self.coef_standard_error_ = np.zeros(shape), np.full(shape, math.inf)
        else:
            self.coef_, self.coef_standard_error_ = place.coefficients(law)
        self.residual_covariance_ = law.spread
        self.residual_radius_ = found.residual_radius
        self.center_, self.radius_ = found.center, found.radius
        self.feature_center_, self.feature_scale_ = place.center, place.scale
        self.clipped_fraction_ = found.clipped_fraction
        self._clipped_noise = settings.clipped_noise
        self.n_releases_, self.kept_ = (2 if settings.two else 1), found.signal_share
        if found.floored:
            warn_user(
                "noise hides how the features vary in some direction: slopes are pulled to zero "
                "there, by more than their bars tell. Use more records, a larger epsilon or fewer "
                "features, or pass a feature_scale for each feature where their units differ."
            )
        if not found.stands_out:
            warn_user(
                "no slope stands out of its error: predictions are hardly better than one point, "
                "the same for all features. Use more records, a larger epsilon or fewer features."
            )

    # -- helpers of the fitted estimator --------------------------------------------------------

    def _features(self, X: Any) -> np.ndarray:
        return self._place(read_records(self, X, reset=False, dtype=np.float64))

    def _layout(self, points: np.ndarray) -> np.ndarray:
        if self._axes == 1:
            return points.reshape(len(points))
        return points.reshape(len(points), -1) if self._axes == 2 else points
