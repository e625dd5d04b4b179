"""The private Fréchet mean or median `PrivateFrechetMean`, and the mean that it protects."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skriemdp._arrays import ArrayLike, ManifoldLike
from skriemdp._core.arithmetic import INTEGERS, ITERATED, LAW, PLAIN
from skriemdp._core.estimator import Data, Plan, Terms
from skriemdp._core.forecast import Expected
from skriemdp._core.manifold_input import (
    as_points,
    ball_cure,
    checked_points,
    clipped_share,
    geometry_of,
    public_ball,
    public_point,
    refuse_foreign,
)
from skriemdp._core.parameters import RequiresParameter
from skriemdp._core.work import Work
from skriemdp._descent.gradient_descent import RiemannianGradientDescent
from skriemdp._descent.problem import Problem
from skriemdp._errors import PublicAttributeError, PublicValueError
from skriemdp._groups import Groups
from skriemdp._location_scale.points import PointRecords, warn_direction
from skriemdp._mean.domains import (
    PointEstimator,
    is_table,
    public_domain,
    public_facts,
    search_domain,
)
from skriemdp._mean.expected import expected_joint_mean, expected_mean, expected_table_mean
from skriemdp._mean.exports import pyriemann_metric, synthetic_points
from skriemdp._mean.joint_releases import (
    LARGEST_COUNT_NOISE,
    JointMean,
    TangentSample,
    plan_joint_mean,
)
from skriemdp._mean.median_releases import GeometricMedian, check_median, plan_median
from skriemdp._mean.planning import (
    MEAN,
    MECHANISMS,
    NOISES,
    OUTPUT,
    MeanPlan,
    check_searchable,
    descent_or_tangent,
    plan_mean,
)
from skriemdp._mean.releases import (
    LEAST_MATRICES,
    LEAST_ROWS,
    DescentMean,
    LogStep,
    LogSums,
    MeanNoise,
    StartAlone,
    default_clip,
    default_descent,
    estimated_ball,
    inside,
    plan_tangent_mean,
    projected_records,
)
from skriemdp._mean.table_releases import Released, TableMean, are_unlike, plan_table_mean
from skriemdp._mean.uncertainty import WIDER, NoiseLaw, check_uncertainty, standard_error, warn_cut
from skriemdp._mechanisms.counts import noisy_fraction
from skriemdp._mechanisms.units import Units
from skriemdp._quiet import quiet, read_array, read_numbers
from skriemdp._validation import check_count, check_option, check_positive, shown
from skriemdp._warnings import warn_user
from skriemdp.geometry import GeodesicBall, as_geometry
from skriemdp.geometry._ball import descent_reach
from skriemdp.geometry._base import Geometry
from skriemdp.inference._medians import MedianInference
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import compose

if TYPE_CHECKING:
    from skriemdp._location_scale.search import LocationScaleSearch
    from skriemdp._random import NoiseStreams
    from skriemdp.inference import ConfidenceRegion, MeanInference
    from skriemdp.ledger._accountant import PrivacyAccountant


# Noise of all columns, over the radius, above which narrow columns are named: about that of the
# fewest records whose columns get scales of their own.
_COARSE = 0.01
# Radius, over that of the widest ball with one mean, above which one step may end far from a mean.
_WIDE = 1.6


@quiet
def frechet_mean(
    X: np.ndarray,
    manifold: Geometry | str = "euclidean",
    *,
    center: np.ndarray | None = None,
    tol: float = 1e-10,
    max_iter: int = 200,
) -> np.ndarray:
    """Fréchet mean of points on a manifold: the non-private function that the estimator protects.

    Parameters
    ----------
    X : array-like of shape (n, *point_shape) or (n, n_features)
        Points; flat rows are reshaped to the manifold's points.
    manifold : str, Geometry or pymanopt manifold, default="euclidean"
    center : array-like, optional
        Start; the geometry's base point by default.
    tol : float, default=1e-10
        Stop when the gradient of half the mean squared distance is at most `tol`.
    max_iter : int, default=200

    Returns
    -------
    ndarray of shape ``point_shape``

    Raises
    ------
    ValueError
        For rows that are no points of `manifold`.

    Warns
    -----
    UserWarning
        If the tolerance is not reached; the best point is returned.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import frechet_mean
    >>> frechet_mean(np.array([[[1.0]], [[4.0]]]), "spd")
    array([[2.]])
    """
    check_positive(tol=tol)
    check_count(max_iter=max_iter)
    refuse_foreign(manifold, X)
    X = read_numbers(X, "X", ensure_2d=True, ensure_min_samples=1)
    geometry, points = checked_points(X, manifold)
    point = geometry.base_point if center is None else public_point(geometry, center=center)
    step, last, best, least = 1.0, None, point, math.inf
    for _ in range(max_iter):
        velocity = np.asarray(geometry.clipped_log_sum(point, points)) / len(points)
        size = float(geometry.norm(point, velocity))
        if size <= tol:
            return point
        if size < least:
            best, least = point, size
        if last is not None:
            # A step that is right for the second derivative along the last one (Barzilai, Borwein).
            before, gone, square = last
            carried = geometry.transport(before, point, gone)
            fallen = square - float(geometry.inner_product(point, carried, velocity))
            if fallen > 0.0:
                step = min(max(step * square / fallen, 1.0 / 64.0), 2.0)
        last = point, velocity, size * size
        point = geometry.exp(point, step * velocity)
    warn_user(
        f"the mean did not reach tol={tol:g} in max_iter={max_iter} steps; the best point is "
        f"returned, with a gradient of norm {least:.3g}. Matrices of a condition above 1e9 have no "
        f"digits for less; pass tol={2.0 * least:.1e}, or shrink each matrix by itself."
    )
    return np.asarray(best)


def _arithmetic(geometry: Geometry, plan: MeanPlan, mean: Any) -> str:
    """Name the arithmetic of the sum and its noise, from public numbers."""
    if plan.mechanism in OUTPUT:
        return LAW
    # In a ball that is found the mean may be iterated, unless that changes nothing.
    found = plan.search is not None and plan.mechanism in ("tangent", "adaptive")
    found = found and not (geometry.is_flat or plan.steps(geometry))
    if (found and not plan.secret_n) or getattr(mean, "schedule", None) is not None:
        return ITERATED
    return INTEGERS if plan.law is None else PLAIN


class PrivateFrechetMean(TransformerMixin, PointEstimator):
    """Differentially private Fréchet mean, or geometric median, of points on a manifold.

    Parameters
    ----------
    manifold : str, Geometry or pymanopt manifold, default="euclidean"
        A name ("euclidean", "sphere", "hyperboloid", "poincare", "spd", "spd-log-euclidean",
        "spd-bures-wasserstein", "grassmann", "stiefel"; the size is read from X), a geometry of
        :mod:`skriemdp.geometry`, or a pymanopt manifold.
    center : array-like of shape ``point_shape`` or "private", optional
        Public centre of the ball that bounds the data.  It must not be computed from the data.
        "private" spends a part of the budget on finding one.  None means "private" with
        ``radius="private"``, and the geometry's base point (zero, root, pole) with a number;
        matrices of "spd" have a unit of measurement and no such point, so they need a centre then.
    radius : float or "private", default="private"
        Public radius of that ball, in geodesic distance.  Rows outside are projected on the ball,
        silently; `clipped_fraction_` tells how many, privately.  "private" spends a part of the
        budget on a private quantile of the distances.
    mechanism : str, default="auto"
        "auto": in a public ball, rough means and private radii around them find out where in it the
        data are, then the mean is asked for there; one release where n, epsilon and delta, by a
        public rule, are too small to find anything, and in a private ball
        (docs/user_guide/mean.md).  "tangent": one release, noise on the mean in the tangent space
        at `center`.  "gradient": DP-RGD, noise on the gradient of every step.  "gaussian",
        "laplace", "k-norm": the output perturbations of Jiang et al., Reimherr et al. and Soto et
        al., exactly accounted and exactly drawn, where their laws exist; they and ``delta=0`` need
        a public ball.  Balls wider than 10 curvature radii are served by one release only.
    noise : {"auto", "gaussian", "laplace"}, default="auto"
        Noise of the mean itself, with "auto" and "tangent".  "laplace" has density
        ``exp(-|v| / s)``, calibrated to (epsilon, delta); its error is a fraction of Gaussian
        noise in small dimension, and with ``delta=0`` it is purely private.  "auto": Laplace if it
        saves 10 % of the mean square error, else Gaussian.
    shrink : {"auto", None}, default="auto"
        "auto": James-Stein shrinkage towards the centre of the ball in which the mean is asked
        for, with "auto" and "tangent"; helps when the noise is of the size of the ball.
    uncertainty : bool, default=False
        Release the second moment of the records around the mean with the mean, so that
        `confidence_region` and `covariance_` tell how far it may lie from that of the population
        (docs/user_guide/uncertainty.md).  At equal epsilon the mean's own noise is that of
        ``mechanism="tangent", noise="gaussian"``: the second moment is free.  All noise is
        Gaussian, nothing is shrunk, a private radius is a little wider; mechanisms "auto" and
        "tangent" only.
    statistic : {"mean", "median"}, default="mean"
        "median": the geometric median, the point of least mean distance, which records far away
        hardly move (docs/user_guide/median.md).  No record is projected: `radius` is how far from
        the start the median is looked for, `center` the start.  Gaussian noise,
        ``mechanism="auto"``, any manifold whose curvature has an upper bound.
    n_steps : int, optional
        Steps of "gradient"; 1 or 2 by a public rule when not given.  Of two the first gets a tenth
        of the budget (of ``mu**2``), of more all get the same.
    step_size : float or sequence of float, default=1.0
        Public step sizes of "gradient".
    clip_norm : float, optional
        Riemannian norm to which "gradient" clips each record's gradient.  By default nothing is
        clipped and the sensitivity comes from the ball; where curvature has no upper bound
        (Bures-Wasserstein) the default is the radius.
    start : array-like of shape ``point_shape``, optional
        Public start of "gradient"; the centre by default.
    epsilon, delta : float, default=1.0, 1e-5
        Privacy of the whole fit.
    accountant : PrivacyAccountant, optional
        Ledger that the fit is charged to; the active one by default.
    random_state : int, optional
        None for private noise from the operating system.  An int makes the noise reproducible, for
        tests and studies; nobody is protected then.

    Attributes
    ----------
    mean_ : ndarray of shape ``point_shape``
        The private mean; it lies in the ball.  The median, with ``statistic="median"``.
    noise_scale_ : float or ndarray of shape (d,)
        Standard deviation of the noise per orthonormal tangent coordinate, in geodesic distance (of
        the last step for "gradient"); of every column, where columns have scales of their own.
    clipped_fraction_ : float
        Private estimate of the fraction of rows outside the ball, in [0, 1]; of the owners' means,
        with `groups`.
    scale_ : ndarray of shape (d,)
        Of the columns of a table without a public center or radius, from n mu = 64 sqrt(d) on:
        what their numbers less `center_` were divided by.  Ones where the columns are alike.
    center_, radius_ : ndarray of shape ``point_shape``, float
        The ball that was used: public, or released.  Where columns have scales, `radius_` is the
        norm of the scaled rows.  Of a median, where its descent started, and
        the released median distance to that.
    mechanism_ : str
        The mechanism that was used: "tangent" or "adaptive" (rough means first) where "auto"
        decided; "tangent" where a private ball came out wider than 10 curvature radii.  On compact
        manifolds a found `radius_` may be wider than any ball that has a mean of its own: `mean_`
        is then near a stationary point of the mean squared distance, which is the mean if all
        records of a sphere lie in an open half sphere.  "start" for matrices below n mu = 18
        without a public ball: `mean_` is then a multiple of the identity, `radius_` infinite and
        `noise_scale_` not a number.  "median" for a median.
    privacy_spent_ : PrivacySpent
        Unpacks as ``epsilon, delta``.
    covariance_ : ndarray of shape (dim, dim)
        With ``uncertainty=True``: of the error of `mean_`, sampling and noise together, in
        orthonormal coordinates at `mean_`.
    standard_error_ : ndarray of shape (dim,)
        Roots of its diagonal.
    tangent_covariance_ : ndarray of shape (dim, dim)
        With ``uncertainty=True``: of the records, in coordinates at `mean_`.  Not of a median.
    frechet_variance_ : float
        Its trace, about the mean squared distance of the records to `mean_`.
    inference_ : skriemdp.inference.MeanInference or MedianInference
        With ``uncertainty=True``: the released numbers, for :func:`skriemdp.mean_test`.
    geometry_ : Geometry
    n_features_in_ : int
    feature_names_in_ : ndarray
        When X had feature names.

    Notes
    -----
    *Guarantee*: (epsilon, delta)-differential privacy under replacement of one record, or of all
    records of one group (docs/theory/groups.md); n, their number, is public; exact;
    under addition and removal of one record too, n secret, where the accountant's unit is "record,
    present or not" (docs/theory/presence.md);
    ``privacy_spent_.mu`` is set when all noise is Gaussian.  `transform`, `predict` and `score` of
    a row depend on that row and are not private.  Theorems: docs/theory/sensitivity.md.

    With `GridSearchCV` over epsilon the raw scores of the search are not private, and the largest
    epsilon wins; plot the curve instead (docs/sharp-edges-scikit-learn.md).

    References
    ----------
    Han, Mishra, Jawanpuria, Gao (2022), arXiv:2205.09494, Algorithm 1 (mechanism "gradient").
    Reimherr, Bharath, Soto (2021), arXiv:2111.02516 (mechanism "laplace").
    Soto, Bharath, Reimherr, Slavkovic (2022) (mechanism "k-norm").
    Jiang, Chang, Liu, Ding, Kong, Jiang (2023) (mechanism "gaussian").

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import PrivateFrechetMean
    >>> X = np.random.default_rng(0).normal(size=(1000, 3)) * 0.2
    >>> mean = PrivateFrechetMean(epsilon=1.0).fit(X)
    >>> mean.mean_.shape
    (3,)
    >>> epsilon, delta = mean.privacy_spent_
    >>> epsilon, delta
    (1.0, 1e-05)
    """

    __metadata_request__fit = {"groups": True}
    inference_: Any = RequiresParameter("uncertainty=True")
    covariance_: Any = RequiresParameter("uncertainty=True")
    standard_error_: Any = RequiresParameter("uncertainty=True")
    tangent_covariance_: Any = RequiresParameter("uncertainty=True and statistic='mean'")
    frechet_variance_: Any = RequiresParameter("uncertainty=True and statistic='mean'")

    def __init__(
        self,
        manifold: ManifoldLike = "euclidean",
        center: ArrayLike | None = None,
        radius: float | Literal["private"] = "private",
        mechanism: Literal["auto", "tangent", "gradient", "gaussian", "laplace", "k-norm"] = "auto",
        *,
        noise: Literal["auto", "gaussian", "laplace"] = "auto",
        shrink: Literal["auto"] | None = "auto",
        uncertainty: bool = False,
        statistic: Literal["mean", "median"] = "mean",
        n_steps: int | None = None,
        step_size: float | Sequence[float] = 1.0,
        clip_norm: float | None = None,
        start: ArrayLike | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        accountant: PrivacyAccountant | None = None,
        random_state: int | None = None,
    ):
        self.manifold = manifold
        self.center = center
        self.radius = radius
        self.mechanism = mechanism
        self.noise = noise
        self.shrink = shrink
        self.uncertainty = uncertainty
        self.statistic = statistic
        self.n_steps = n_steps
        self.step_size = step_size
        self.clip_norm = clip_norm
        self.start = start
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state

    # -- scikit-learn ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> PrivateFrechetMean:
        """Release a private mean, or median, of the rows of X.

        Parameters
        ----------
        X : array-like of shape (n, *point_shape) or (n, n_features)
        y : None
            Ignored.
        groups : array-like of shape (n,), optional
            Who owns each row.  Then everybody counts as one vector, the mean of the logarithms of
            own rows; all rows of one owner and their number are protected together, and n is the
            number of owners, which is public.  For a median everybody gives the mean direction to
            own rows.

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

    def transform(self, X: Any) -> np.ndarray:
        """Orthonormal tangent coordinates at the private mean, shape ``(n, geometry_.dim)``."""
        check_is_fitted(self)
        return self.geometry_.log_coordinates(self.mean_, self._points(X))

    def inverse_transform(self, X: np.ndarray) -> np.ndarray:
        """Points from tangent coordinates ``(n, dim)``; in the layout of the fitted X."""
        check_is_fitted(self)
        X = read_array(X, "X", dtype=np.float64, ensure_2d=False)
        if X.ndim != 2 or X.shape[1] != self.geometry_.dim:
            raise PublicValueError(f"X must have shape (n, {self.geometry_.dim}), got {X.shape}.")
        return self._layout(self.geometry_.exp_coordinates(self.mean_, X))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The private mean, once per row of X; a manifold-valued constant prediction."""
        points = self._points(X)
        return self._layout(np.broadcast_to(self.mean_, points.shape).copy())

    def score(self, X: np.ndarray, y: np.ndarray | None = None) -> float:
        """Minus the mean squared distance of the rows of X to the private mean (not private)."""
        points = self._points(X)
        return -float(np.mean(self.geometry_.dist(self.mean_, points) ** 2))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the tangent coordinates: ``tangent0``, ``tangent1``, ..."""
        check_is_fitted(self)
        return np.asarray([f"tangent{i}" for i in range(self.geometry_.dim)], dtype=object)

    def confidence_region(self, level: float = 0.95) -> ConfidenceRegion:
        """Region that holds the mean of the population with probability `level`.

        It covers the Fréchet mean of the law of the records projected on the ball `center_`,
        `radius_`; records must be independent (docs/user_guide/uncertainty.md).  ``str`` of it says
        so, and how many records at most were moved by that.  Post-processing: nothing more is
        spent.

        Parameters
        ----------
        level : float, default=0.95

        Returns
        -------
        skriemdp.inference.ConfidenceRegion

        Raises
        ------
        AttributeError
            Unless the fit was made with ``uncertainty=True``.
        ValueError
            Where the number of records was released, and is hardly more than its noise.
        """
        check_is_fitted(self)
        if isinstance(self.inference_, MedianInference):
            return self.inference_.region(level, self.privacy_spent_)
        if self.inference_.count_noise > LARGEST_COUNT_NOISE:
            raise PublicValueError(
                "the released number of records is less than four standard deviations of its "
                "noise, so nothing says where the mean is; use more records or a larger epsilon."
            )
        clipped = self.clipped_fraction_, self._clipped_noise
        return self.inference_.region(level, self.privacy_spent_, clipped=clipped)

    def sample(self, n: int = 1, random_state: int | None = None) -> np.ndarray:
        """Synthetic records: a wrapped Gaussian with the released mean and covariance.

        They show these two moments and nothing else of the records: no tails, clusters or outliers,
        and in curved spaces no higher terms.  Post-processing: nothing more is spent, for any `n`.

        Parameters
        ----------
        n : int, default=1
        random_state : int, optional
            Public; the draws are no noise that protects anybody.

        Returns
        -------
        ndarray of shape (n, *point_shape), or (n, n_features) where X was flat

        Raises
        ------
        AttributeError
            Unless a mean was fitted with ``uncertainty=True``.
        """
        check_is_fitted(self)
        moments = (self.mean_, self.tangent_covariance_)
        return self._layout(synthetic_points(self.geometry_, *moments, n, random_state))

    def to_pyriemann(self) -> Any:
        """pyRiemann's ``TangentSpace`` at the private mean, fitted, for matrices.

        Returns
        -------
        pyriemann.tangentspace.TangentSpace

        Raises
        ------
        ValueError
            For manifolds that pyRiemann does not have.
        """
        check_is_fitted(self)
        metric = pyriemann_metric(self.geometry_)
        from pyriemann.tangentspace import TangentSpace

        return TangentSpace(metric=metric).fit(self.mean_[None])

    def noise_radius(self, level: float = 0.95) -> float:
        """Bound the distance by which noise moves the mean; this is no confidence interval.

        With probability `level` at least `mean_` lies within this geodesic distance of the mean of
        the projected records that would have been released without noise.

        Parameters
        ----------
        level : float, default=0.95

        Returns
        -------
        float

        Raises
        ------
        AttributeError
            Where `mean_` is not one release plus noise of a known law: several were averaged,
            iterated or shrunk.
        """
        check_is_fitted(self)
        law = getattr(self, "_noise_law", None)
        if law is None:
            raise PublicAttributeError(
                "noise_radius needs a mean that is one release plus noise of a known law, and this "
                "one was averaged over releases, iterated, or shrunk; fit with uncertainty=True, "
                "or with mechanism='tangent' and shrink=None."
            )
        return law.radius(level)

    # -- the order of work ----------------------------------------------------------------------

    @property
    def _share_after_presence(self) -> float:
        return 0.42 if self.uncertainty else 0.5

    def _needs_public_n(self, groups: Any) -> str:
        others = "unit='record', under which it is public."
        if self.statistic == "median":
            return f"statistic='median' needs it: pass 'mean', or make an accountant with {others}"
        if self.mechanism not in ("auto", "tangent"):
            return (
                f"mechanism={shown(self.mechanism)} needs it: pass mechanism='auto' or 'tangent', "
                f"or make an accountant with {others}"
            )
        return super()._needs_public_n(groups)

    def _plan(self, facts: dict[str, Any], terms: Terms) -> Plan:
        geometry, n = facts["geometry"], facts["n"]
        check_option(MECHANISMS, mechanism=self.mechanism)
        check_option(NOISES, noise=self.noise)
        check_option(("auto", None), shrink=self.shrink)
        check_option((False, True), uncertainty=self.uncertainty)
        check_option(("mean", "median"), statistic=self.statistic)
        if self.statistic == "median":
            return self._median_plan(geometry, n)
        if self.uncertainty:
            check_uncertainty(self.mechanism, self.noise, self.delta)
        # Among fits that are added up, Gaussian ones cost least.
        gaussian = terms.composes and self.noise == "auto"
        ball, search = public_domain(geometry, self.center, self.radius), None
        if ball is None:
            if not self.uncertainty:
                check_searchable(self.mechanism, self.noise, self.delta)
            mu = gaussian_mu(self.epsilon, self.delta)
            search = search_domain(geometry, n, mu, self.center, self.radius, terms.secret_n)
        if search is not None and self.mechanism in ("auto", "tangent"):
            start = StartAlone.of(geometry, search)
            if start is None and not (self.uncertainty or terms.secret_n):
                start = StartAlone.unasked(geometry, search)
            if terms.secret_n and self.uncertainty and StartAlone.of(geometry, search, 0):
                raise PublicValueError(
                    "uncertainty=True needs a public center or radius where the number of "
                    "matrices is secret: of few, nothing but a multiple of the identity would be "
                    "released. Pass one, or uncertainty=False."
                )
            if start is not None:
                return self._start_plan(start, n)
        if self.uncertainty:
            return self._joint_plan(geometry, n, ball, search)
        mechanism, noise = self.mechanism, self.noise
        if ball is not None and descent_or_tangent(mechanism, ball) != mechanism:
            raise PublicValueError(
                f"radius={ball.radius:g} is above {descent_reach(geometry):.4g}, where sums of "
                f"logarithms away from the center lose their digits on {geometry}; pass a "
                f"smaller radius, or mechanism='tangent' instead of {mechanism!r}."
            )
        if mechanism in OUTPUT:
            from skriemdp._mean.output_releases import check_law

            check_law(mechanism, geometry)
        elif gaussian:
            noise = "gaussian"
        choices: dict[str, Any] = {
            "mechanism": mechanism,
            "noise": noise,
            "ball": ball,
            "search": search,
        }
        choices["secret_n"] = terms.secret_n
        table = None
        if search is not None and mechanism != "gradient" and not terms.secret_n:
            if is_table(geometry) and search.center is None and search.radius is None:
                target = float(self.epsilon), float(self.delta)
                table = plan_table_mean(geometry, n, *target, noise, self.shrink == "auto")
        if table is not None:
            words = INTEGERS if table.law is None else PLAIN
            return Plan(
                table.event,
                table,
                public_facts(geometry, n, None, search),
                work=Work.of_points(geometry, n, 1),
                arithmetic=words,
                releases=table.releases,
            )
        chosen = plan_mean(geometry, n, self.epsilon, self.delta, **choices)
        public = public_facts(geometry, n, ball, search)
        event, mean = chosen.event, None
        if ball is not None:
            known = chosen.mu is not None or chosen.law is not None
            self._warn_little_information(ball, n, chosen.noise if known else None)
            mean = self._mean_release(ball, n, chosen)  # a bad parameter must raise here
            event = compose([event, mean.event]) if chosen.target[1] > 0.0 else event
        elif chosen.mechanism == "gradient":
            probe = GeodesicBall(geometry, None, 0.5 * min(1.0, geometry.radius_limit))
            self._mean_release(probe, n, chosen)
        if chosen.search is not None and chosen.law is None:
            for one in (chosen.mu, chosen.search.mu):  # what the search leaves lies in between
                MeanNoise(one, None).check(geometry.dim)
        steps = 1 if self.n_steps is None else self.n_steps
        # Projected records and their coordinates.
        work = Work.of_points(geometry, n, steps)
        words, planned = _arithmetic(geometry, chosen, mean), chosen.releases
        settings = ball, chosen, mean
        return Plan(event, settings, public, work=work, arithmetic=words, releases=planned)

    def _start_plan(self, start: StartAlone, n: int) -> Plan:
        """The plan of a mean of matrices from so few records that a search finds nothing."""
        work, mu = Work.of_points(start.geometry, n), gaussian_mu(self.epsilon, self.delta)
        public = {"n": n, "manifold": str(start.geometry)}
        cure = "Use more records or a larger epsilon, or pass a public center and radius."
        if start.rule is None:
            warn_user(
                f"n mu = {n * mu:.3g} is below {LEAST_ROWS:g}, where a mean of rows is noise: the "
                "result is the origin, nothing is asked of the rows, and nothing is charged. "
                f"{cure}"
            )
            return Plan(start.event, start, public, work=work, releases=start.releases)
        few = f"n mu = {n * mu:.3g} is below {LEAST_MATRICES:g}"
        if self.uncertainty:
            raise PublicValueError(
                f"{few}, where nothing but a multiple of the identity is released of matrices "
                f"without a public ball, and uncertainty=True asks for more. {cure}"
            )
        warn_user(
            f"{few}: the mean is a multiple of the identity, at a private median of the "
            "determinants, and the shape of the matrices is not asked for; where they have "
            f"another median than mean, it misses that too. {cure}"
        )
        return Plan(start.event, start, public, work=work, releases=start.releases)

    def _median_plan(self, geometry: Geometry, n: int) -> Plan:
        check_median(self.mechanism, self.noise, self.delta, geometry)
        mu = gaussian_mu(float(self.epsilon), float(self.delta))
        median = plan_median(geometry, n, mu, self.center, self.radius)
        start = StartAlone.of(geometry, median.search)
        if start is not None:
            return self._start_plan(start, n)
        work = Work(16.0 * n * math.prod(geometry.shape)).plus(
            median.bytes, f"the second derivatives in {geometry.dim} coordinates"
        )
        public = public_facts(geometry, n, None, median.search)
        if not isinstance(self.radius, str):
            public["radius"] = float(self.radius)
        return Plan(median.event, median, public, work=work, releases=median.releases)

    def _joint_plan(
        self,
        geometry: Geometry,
        n: int,
        ball: GeodesicBall | None,
        search: LocationScaleSearch | None,
    ) -> Plan:
        """The plan of a mean with its second moment."""
        mu = gaussian_mu(float(self.epsilon), float(self.delta))
        joint = plan_joint_mean(
            geometry, n, mu, 1.0, WIDER, mechanism=self.mechanism, ball=ball, search=search
        )
        if ball is not None:
            self._warn_little_information(ball, n, MeanNoise(joint.joint_mu, None))
        return joint.plan()

    def _expected(self, plan: Plan, facts: Any, spread: Any) -> Expected:
        if isinstance(plan.settings, StartAlone):
            if plan.settings.rule is None:
                return Expected("the origin: nothing is asked of the rows")
            return Expected("a multiple of the identity: no shape is released")
        if isinstance(plan.settings, GeometricMedian):
            return Expected("median")
        if isinstance(plan.settings, TableMean):
            return expected_table_mean(plan.settings, spread)
        if not isinstance(plan.settings, tuple):
            return expected_joint_mean(plan.settings, spread)
        (ball, chosen, release), geometry = plan.settings, facts["geometry"]
        target, shrink = (float(self.epsilon), float(self.delta)), self.shrink == "auto"
        return expected_mean(geometry, ball, chosen, release, facts["n"], target, spread, shrink)

    def _gaussian_choice(self) -> str:
        own_law = self.mechanism in OUTPUT
        return "mechanism='tangent', noise='gaussian'" if own_law else "noise='gaussian'"

    def _mean_release(self, ball: GeodesicBall, n: int, budget: Any) -> Any:
        mechanism = descent_or_tangent(budget.mechanism, ball)
        if mechanism in ("tangent", "adaptive"):
            return plan_tangent_mean(ball, n, budget.noise, self.shrink == "auto")
        if mechanism in OUTPUT:
            from skriemdp._mean.output_releases import plan_output_mean

            return plan_output_mean(ball, n, mechanism, *budget.target)
        if self.n_steps is not None:
            check_count(n_steps=self.n_steps)
        n_steps, shares = default_descent(ball, n, budget.mu, self.n_steps)
        solver = RiemannianGradientDescent(
            mu=budget.mu,
            n_steps=n_steps,
            step_size=self.step_size,
            shares=shares,
            clip_norm=default_clip(ball) if self.clip_norm is None else self.clip_norm,
            domain=ball,
        )
        for share in solver.shares or ():  # the solver has set them
            MeanNoise(solver.mu * math.sqrt(share), None).check(ball.geometry.dim)
        start = ball.center
        if self.start is not None:
            start = ball.project(public_point(ball.geometry, start=self.start))
        return DescentMean(ball, solver, start)

    def _warn_little_information(self, ball: GeodesicBall, n: int, law: MeanNoise | None) -> None:
        """Warn when the noise is of the size of the ball: from public numbers only."""
        dim = ball.geometry.dim
        spread = dim / self.epsilon if law is None else law.spread(dim)
        noise = 2.0 * ball.radius / n * spread
        if noise > 0.5 * ball.radius:
            warn_user(
                f"with n={n} records and epsilon={self.epsilon}, delta={self.delta} the noise is "
                f"about {noise / ball.radius:.1f} times the radius: the result says little more "
                "than the public centre. Use more records or a larger epsilon."
            )

    def _release(self, data: Data, plan: Plan, streams: NoiseStreams) -> None:
        fit, (rows,), facts = plan.settings, data.arrays, data.facts
        geometry = self.geometry_ = facts["geometry"]
        self._flat = facts["flat"]
        noise = facts.get("noise of n", 0.0)
        if isinstance(fit, TableMean):
            self._learn_table(fit.release(Units((rows,), data.groups), streams))
            return
        records = PointRecords(geometry, rows, facts["n"], noise, data.groups)
        if isinstance(fit, GeometricMedian):
            self._learn_median(*fit.release(records, streams))
        elif isinstance(fit, StartAlone):
            self.mean_ = self.center_ = fit.release(records, streams)
            self.mechanism_, self.radius_, self.noise_scale_ = "start", math.inf, math.nan
            self.clipped_fraction_ = 0.0
        elif isinstance(fit, tuple):
            ball, chosen, mechanism = fit
            self._release_mean(records, ball, chosen, mechanism, streams)
        else:
            self._learn_joint(fit, *fit.release(records, streams))

    def _learn_table(self, known: Released) -> None:
        """A mean whose columns were found one by one."""
        place = known.place
        self.mean_, self.center_, self.radius_ = known.mean, place.center, place.norm
        self.mechanism_, self.scale_ = "tangent", known.scale
        sigma: Any = known.sigma * known.scale if known.unlike else known.sigma
        self.noise_scale_ = sigma
        outside = known.outside, known.outside_noise, 1.0 - place.level
        cure = ball_cure(self.center, self.radius, False)
        self.clipped_fraction_ = clipped_share(*outside, self.radius_, cure)
        assert place.columns is not None  # as planned
        hidden = np.flatnonzero(place.columns.atoms).tolist()
        if known.unlike and hidden:
            warn_user(
                f"columns {shown(hidden)} hold one value in most rows (a private estimate): what "
                "lies far from it is clipped, and their mean may be off by up to a standard "
                "deviation. Release them by themselves with a public center and radius, or use "
                "more records or a larger epsilon."
            )

    def _learn_joint(self, joint: JointMean, inference: MeanInference, seen: TangentSample) -> None:
        """A mean with its second moment."""
        self.inference_ = inference
        self.mean_ = inference.mean
        self.center_, self.radius_ = inference.center, inference.radius
        self.mechanism_ = "adaptive" if joint.refines_ball else "tangent"
        self.noise_scale_ = inference.first_noise
        self.covariance_ = inference.covariance
        self.standard_error_ = standard_error(self.covariance_)
        self.tangent_covariance_ = inference.tangent_covariance
        self.frechet_variance_ = float(np.trace(self.tangent_covariance_))
        self._noise_law = NoiseLaw.of_inference(inference)
        self.clipped_fraction_ = float(np.clip(seen.clipped, 0.0, 1.0))
        self._clipped_noise = seen.clipped_noise
        warn_cut(seen.clipped, seen.clipped_noise, self.radius_, self.center, self.radius)
        if joint.search is not None:
            self._warn_of_wide_noise()

    def _learn_median(self, center: np.ndarray, radius: float, known: MedianInference) -> None:
        """A median, and what is known of it."""
        self.center_, self.radius_, self.mean_ = center, radius, known.mean
        self.mechanism_, self.clipped_fraction_ = "median", 0.0
        inverse = known.first_noise * known.score_to_mean
        self.noise_scale_ = float(np.linalg.norm(inverse)) / math.sqrt(self.geometry_.dim)
        if self.uncertainty:
            self.inference_, self.covariance_ = known, known.covariance
            self.standard_error_ = standard_error(self.covariance_)

    def _release_mean(
        self,
        records: PointRecords,
        ball: GeodesicBall | None,
        chosen: MeanPlan,
        mechanism: Any,
        streams: NoiseStreams,
    ) -> None:
        """A mean by itself; in a public ball by the planned `mechanism`."""
        geometry, n, public, clipped = records.geometry, records.planned, ball, 0.0
        outside: int | None = None
        if public is not None:
            problem, outside = records.inside(public)
            if chosen.search is not None and records.groups is None:
                records = projected_records(problem, n)
        if chosen.search is not None:
            budget = chosen.search_budget()
            found = chosen.search.release(records, budget, streams)
            if chosen.law is None:
                chosen = dataclasses.replace(chosen, mu=budget.rest(MEAN, geometry.dim))
            if public is None:
                warn_direction(found)
                clipped = 1.0 - found.level
            ball = estimated_ball(geometry, found)
            if chosen.steps(geometry, found.radius):
                ball = None
                mechanism = LogStep.after(geometry, found, n, chosen.noise, self.shrink == "auto")
            else:
                mechanism = self._mean_release(ball, n, chosen)
        given: Any = records
        self.mechanism_ = "tangent"
        if ball is None:
            self.center_, self.radius_ = mechanism.center, mechanism.radius
            beyond = records.outside(self.center_, self.radius_)
        else:
            if ball is not public:
                problem, beyond = records.inside(ball)
            given = problem
            if isinstance(mechanism, DescentMean) and records.groups is not None:
                given = records.gradients(ball)
            self.mechanism_ = descent_or_tangent(chosen.mechanism, ball)
            self.center_, self.radius_ = ball.center, ball.radius
        rng = streams("clipped fraction")
        outside = beyond if outside is None else outside
        noisy = noisy_fraction(outside, n, chosen.count, chosen.pure, rng)
        mean, self.noise_scale_ = mechanism.release(given, streams)
        self.mean_ = np.asarray(mean)
        law = getattr(mechanism, "noise_law", None)
        if public is not None and chosen.search is not None:
            # A smaller ball inside the public one: what leaves that is moved back.
            self.mean_, law = inside(public, self.mean_), None
            self.mechanism_ = chosen.mechanism
            self.center_, self.radius_ = public.center, public.radius
        if law is not None:
            self._noise_law = law(self.mean_)
        searchable = (
            not chosen.pure
            and self.mechanism not in OUTPUT
            and self.noise in ("auto", "gaussian")
            and (not chosen.secret_n or geometry.separate_rows)
        )
        cure = ball_cure(self.center, self.radius, searchable)
        told = *noisy, clipped, self.radius_, cure, chosen.pure
        self.clipped_fraction_ = clipped_share(*told)
        if public is None:
            self._warn_of_wide_noise()

    def _warn_of_wide_noise(self) -> None:
        """Warn, from released numbers, of noise that hides the mean, and of rows without one."""
        geometry = self.geometry_
        noise = math.sqrt(geometry.dim) * self.noise_scale_
        table = self.center is None and isinstance(self.radius, str) and is_table(geometry)
        if noise > 0.5 * self.radius_:
            warn_user(
                f"the noise of the mean is about {noise / self.radius_:.1f} times the radius of "
                "the private ball: the result is the center of that ball, not the data. Use more "
                "records, a larger epsilon, or a public center and radius."
            )
        elif table and geometry.dim > 1 and noise > _COARSE * self.radius_:
            warn_user(
                f"the noise of every column is {self.noise_scale_:.3g} (a private estimate): so "
                "few records show no scale of each column, and of a column that spreads less only "
                "noise is left. If columns come in unlike units, divide them by public numbers of "
                "their size, or use more records or a larger epsilon."
            )
        elif table and self.uncertainty and are_unlike(self.tangent_covariance_):
            warn_user(
                "columns spread unlike each other (a private estimate), and error bars come with "
                f"one scale for all: the noise of every column is {self.noise_scale_:.3g}. Divide "
                "columns by public numbers of their size, or pass uncertainty=False, which finds "
                "a scale for each."
            )
        elif self.radius_ > _WIDE * geometry.radius_limit:
            warn_user(
                f"the rows lie as far as {self.radius_:.3g} (a private estimate) from their center "
                f"on {geometry}, where a Fréchet mean is sure to be unique within "
                f"{geometry.radius_limit:.3g}: the result may be off by much more than its noise. "
                "Pass a public center and radius, so that rows beyond are projected on that ball."
            )

    def _problem(self, X: np.ndarray, y: Any = None, groups: Groups | None = None) -> Problem:
        """The Fréchet problem of rows, or people, in the public ball; for federated runs."""
        geometry = geometry_of(X, self.manifold)
        records = PointRecords(geometry, as_points(geometry, X), groups=groups)
        return records.gradients(self._clients_ball(geometry))

    def _clients_ball(self, geometry: Geometry) -> GeodesicBall:
        if self.statistic != "mean":
            raise PublicValueError(
                f"clients release sums for a mean; leave statistic='mean' instead of "
                f"{shown(self.statistic)}, or fit the pooled records."
            )
        if self.uncertainty:
            raise PublicValueError(
                "clients release no second moments: pass uncertainty=False, or fit the pooled "
                "records."
            )
        ball = public_domain(geometry, self.center, self.radius)
        if ball is None:
            raise PublicValueError(
                "clients search for no private ball: pass a public center= and radius=, the ball "
                f"that bounds the data; got center={shown(self.center)}, "
                f"radius={shown(self.radius)}."
            )
        return ball

    def _additive_plan(self, facts: dict[str, Any], terms: Terms) -> Plan[LogSums]:
        """The sums that clients release: of logarithms at the public centre."""
        geometry, n = facts["geometry"], facts["n"]
        for name, options in (("mechanism", ("auto", "tangent")), ("noise", ("auto", "gaussian"))):
            if getattr(self, name) not in options:
                raise PublicValueError(
                    f"sums of clients are logarithms with Gaussian noise; pass {name}="
                    f"{options[1]!r} instead of {getattr(self, name)!r}."
                )
        check_option(("auto", None), shrink=self.shrink)
        ball = self._clients_ball(geometry)
        chosen = plan_mean(
            geometry, n, self.epsilon, self.delta, mechanism="tangent", noise="gaussian", ball=ball
        )
        assert chosen.mu is not None
        sums = LogSums.planned(ball, n, chosen.mu, chosen.count, self.shrink == "auto")
        public = {"n": n, "manifold": str(geometry), "center": ball.center, "radius": ball.radius}
        work = Work.of_points(geometry, n)
        planned = chosen.releases
        return Plan(chosen.event, sums, public, work=work, releases=planned)

    def _learn(
        self, statistic: LogSums, noisy: np.ndarray, facts: dict[str, Any], n_tables: float = 1
    ) -> None:
        """Set the learned attributes from noisy sums over tables of n records in all."""
        n, mean = facts["n"], statistic.mean
        self.mean_ = mean.finish(noisy[1:] / n, n_tables)
        self.noise_scale_ = math.sqrt(n_tables) * mean.noise_scale
        self.geometry_, self._flat = facts["geometry"], facts["flat"]
        self.mechanism_ = "tangent"
        self.center_, self.radius_ = mean.ball.center, mean.ball.radius
        sigma = math.sqrt(n_tables) * statistic.count.sigma / n
        cure = ball_cure(self.center, self.radius, False)  # clients search for nothing
        self.clipped_fraction_ = clipped_share(noisy[0] / n, sigma, 0.0, self.radius_, cure)

    def _records(self, data: Data) -> tuple:
        """Arrays with one row per record, for federated runs."""
        return data.arrays

    def _domain_and_start(self, geometry: Geometry, start: Any = None) -> tuple[GeodesicBall, None]:
        """The public ball, in which iterates stay; they start at its centre."""
        return public_ball(geometry, self.center, cast(float, self.radius)), None

    def _adopt_point(self, point: np.ndarray) -> None:
        """Learned attributes from a released point, for federated runs."""
        self.geometry_ = as_geometry(self.manifold, point_shape=np.shape(point))
        self.mean_, self._flat = np.asarray(point), False
        self.n_features_in_ = self.mean_.shape[0] if self.mean_.ndim else 1
