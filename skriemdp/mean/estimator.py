"""The private Fréchet mean `PrivateFrechetMean`, and the `frechet_mean` that it protects."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skriemdp._config import get_config
from skriemdp._quiet import read_array, read_records
from skriemdp._validation import check_count, check_option, check_positive, check_scale
from skriemdp._warnings import warn_user
from skriemdp.core.estimator import Data, Plan, PrivateEstimator
from skriemdp.core.manifold_input import (
    CHECKS,
    as_points,
    check_membership,
    point_shape,
    public_ball,
    public_point,
    warn_large_delta,
    warn_small_search,
)
from skriemdp.core.work import Work
from skriemdp.descent.gradient_descent import RiemannianGradientDescent
from skriemdp.descent.problem import FrechetProblem
from skriemdp.descent.progress import ProgressBar
from skriemdp.geometry import GeodesicBall, as_geometry
from skriemdp.geometry.ball import descent_reach
from skriemdp.mean.adaptive import AdaptiveMean
from skriemdp.mean.output import OUTPUT_MECHANISMS, plan_output_mean
from skriemdp.mean.planning import (
    MECHANISMS,
    NOISES,
    choose_mechanism,
    descent_or_tangent,
    lattice_noise,
    split_budget,
)
from skriemdp.mean.releases import (
    DescentMean,
    ball_curvature,
    default_clip,
    default_descent,
    exact_tangents,
    plan_tangent_mean,
)
from skriemdp.mean.search import BallSearch
from skriemdp.privacy.events import compose

__all__ = ["PrivateFrechetMean", "frechet_mean"]


def frechet_mean(X, manifold="euclidean", *, center=None, tol=1e-10, max_iter=200):
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
    RuntimeError
        If the tolerance is not reached.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import frechet_mean
    >>> frechet_mean(np.array([[[1.0]], [[4.0]]]), "spd")
    array([[2.]])
    """
    check_positive(tol=tol)
    check_count(max_iter=max_iter)
    X = np.asarray(X, dtype=float)
    geometry = as_geometry(manifold, point_shape=point_shape(X, manifold))
    points = as_points(geometry, X)
    point = geometry.base_point if center is None else np.asarray(center, dtype=float)
    step, previous = 1.0, math.inf
    for _ in range(max_iter):
        velocity = np.asarray(geometry.clipped_log_sum(point, points)) / len(points)
        size = float(geometry.norm(point, velocity))
        if size <= tol:
            return point
        if size > 0.7 * previous:
            # Strong negative curvature overshoots with full steps; halving restores contraction.
            step = max(step / 2.0, 1.0 / 64.0)
        previous = size
        point = geometry.exp(point, step * velocity)
    raise RuntimeError(f"the mean did not reach tol={tol} in max_iter={max_iter} steps.")


def _is_exact(mechanism, geometry, budget, search, mean) -> bool:
    """Whether everything that a fit releases is of integers, from public numbers."""
    if budget.mu is None or not (search is None or search.exact):
        return False  # the noise is not Gaussian, or a searched centre is computed in floats
    if mechanism == "gradient" or search is None:
        return mean is not None and mean.exact
    # In a searched ball the mean may be iterated, unless that changes nothing.
    only_logarithms = geometry.is_flat or get_config()["arithmetic"] == "lattice"
    return only_logarithms and exact_tangents(geometry, [1.0 / budget.mu])


class PrivateFrechetMean(TransformerMixin, PrivateEstimator):
    """Differentially private Fréchet mean of points on a Riemannian manifold.

    Parameters
    ----------
    manifold : str, Geometry or pymanopt manifold, default="euclidean"
        A name ("euclidean", "sphere", "hyperboloid", "poincare", "spd", "spd-log-euclidean",
        "spd-bures-wasserstein", "grassmann", "stiefel"; the size is read from X), a geometry of
        :mod:`skriemdp.geometry`, or a pymanopt manifold.
    center : array-like of shape ``point_shape`` or "private", optional
        Public centre of the ball that bounds the data; the geometry's base point by default
        (zero, identity, pole).  It must not be computed from the data.  "private" spends 30 % of
        ``mu**2`` on finding one.
    radius : float or "auto", default=1.0
        Public radius of that ball, in geodesic distance.  Rows outside are projected on the ball,
        silently; `clipped_fraction_` tells how many, privately.  "auto" spends 6 % of ``mu**2`` on
        a private quantile of the distances (nothing beyond the 30 % of a private centre).
    mechanism : str, default="auto"
        "tangent": one release, noise on the mean in the tangent space at `center`.  "adaptive":
        rough mean, private radius around it, refined mean; much better when the data fill a part of
        the ball only.  "gradient": DP-RGD, noise on the gradient of every step.  "gaussian",
        "laplace", "k-norm": the output perturbations of Jiang et al., Reimherr et al. and Soto et
        al., exactly accounted and exactly drawn, where their laws exist.  "auto": a public rule of
        n, epsilon, delta, the manifold and the ball (docs/user_guide/mean.md).  Balls wider than 10
        curvature radii are served by "tangent" and the output perturbations only.
    noise : {"auto", "gaussian", "radial", "laplace"}, default="auto"
        Noise of "tangent".  "radial" has density ``exp(-(|v|/b)^p)`` with the best exponent p; its
        error is a fraction of Gaussian noise in small dimension.  "laplace" is p = 1, pure for
        ``delta=0``.  "auto": radial if it saves 10 % of the mean square error, else Gaussian.
    shrink : {None, "js"}, default=None
        "js": James-Stein shrinkage of "tangent" towards the centre; helps when the noise is of the
        size of the ball.
    n_steps : int, optional
        Steps of "gradient"; 1 or 2 by a public rule when not given.
    step_size : float or sequence of float, default=1.0
        Public step sizes of "gradient".
    shares : sequence of float, optional
        Fractions of the budget (of ``mu**2``) for the steps of "gradient".
    clip_norm : float, optional
        Riemannian norm to which "gradient" clips each record's gradient.  By default nothing is
        clipped and the sensitivity comes from the ball; where curvature has no upper bound
        (Bures-Wasserstein) the default is the radius.
    output : {"last", "average", "random"}, default="last"
        What "gradient" returns: last iterate, geodesic average, or a random iterate.
    retraction : bool, default=False
        Whether "gradient" moves by the retraction instead of the exponential map.
    start : array-like of shape ``point_shape``, optional
        Public start of "gradient"; the centre by default.
    epsilon, delta : float, default=1.0, 1e-5
        Privacy of the whole fit.
    accountant : PrivacyAccountant, optional
        Ledger that the fit is charged to; the active one by default.
    random_state : int, optional
        None for private noise from the operating system.  An int makes the noise reproducible, for
        tests and studies; nobody is protected then.
    verbose : int, default=0
        1 shows the progress of "gradient".

    Attributes
    ----------
    mean_ : ndarray of shape ``point_shape``
        The private mean; it lies in the public ball.
    noise_scale_ : float
        Standard deviation of the noise per orthonormal tangent coordinate, in geodesic distance (of
        the last step for "gradient").
    clipped_fraction_ : float
        Private estimate of the fraction of rows outside the ball, in [0, 1].
    center_, radius_ : ndarray of shape ``point_shape``, float
        The ball that was used: public, or released.
    mechanism_ : str
        The mechanism that was used: what "auto" chose, and "tangent" where a private ball came out
        wider than 10 curvature radii.
    privacy_spent_ : PrivacySpent
        Unpacks as ``epsilon, delta``.
    geometry_ : Geometry
    n_features_in_ : int
    feature_names_in_ : ndarray
        When X had feature names.

    Notes
    -----
    *Guarantee*: (epsilon, delta)-differential privacy under replacement of one record, n public,
    exact; ``privacy_spent_.mu`` is set when all noise is Gaussian.  `transform`, `predict` and
    `score` of a row depend on that row and are not private.  Theorems: docs/theory/sensitivity.md.

    With `GridSearchCV` over epsilon the raw scores of the search are not private, and the largest
    epsilon wins; plot the curve instead (docs/sharp-edges.md).

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

    def __init__(
        self,
        manifold="euclidean",
        center=None,
        radius=1.0,
        mechanism="auto",
        *,
        noise="auto",
        shrink=None,
        n_steps=None,
        step_size=1.0,
        shares=None,
        clip_norm=None,
        output="last",
        retraction=False,
        start=None,
        epsilon=1.0,
        delta=1e-5,
        accountant=None,
        random_state=None,
        verbose=0,
    ):
        self.manifold = manifold
        self.center = center
        self.radius = radius
        self.mechanism = mechanism
        self.noise = noise
        self.shrink = shrink
        self.n_steps = n_steps
        self.step_size = step_size
        self.shares = shares
        self.clip_norm = clip_norm
        self.output = output
        self.retraction = retraction
        self.start = start
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    # -- scikit-learn ---------------------------------------------------------------------------

    def fit(self, X, y=None):
        """Release a private mean of the rows of X.

        Parameters
        ----------
        X : array-like of shape (n, *point_shape) or (n, n_features)
        y : None
            Ignored.

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
        return self._fit(X, y)

    def transform(self, X):
        """Orthonormal tangent coordinates at the private mean, shape ``(n, geometry_.dim)``."""
        return self.geometry_.log_coordinates(self.mean_, self._points(X))

    def inverse_transform(self, X):
        """Points from tangent coordinates ``(n, dim)``; in the layout of the fitted X."""
        check_is_fitted(self)
        X = read_array(X, "X", dtype=np.float64, ensure_2d=False)
        if X.ndim != 2 or X.shape[1] != self.geometry_.dim:
            raise ValueError(f"X must have shape (n, {self.geometry_.dim}), got {X.shape}.")
        return self._layout(self.geometry_.exp_coordinates(self.mean_, X))

    def predict(self, X):
        """The private mean, once per row of X; a manifold-valued constant prediction."""
        points = self._points(X)
        return self._layout(np.broadcast_to(self.mean_, points.shape).copy())

    def score(self, X, y=None):
        """Minus the mean squared distance of the rows of X to the private mean (not private)."""
        points = self._points(X)
        return -float(np.mean(self.geometry_.dist(self.mean_, points) ** 2))

    def get_feature_names_out(self, input_features=None):
        """Names of the tangent coordinates: ``tangent0``, ``tangent1``, ..."""
        check_is_fitted(self)
        return np.asarray([f"tangent{i}" for i in range(self.geometry_.dim)], dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    # -- the order of work ----------------------------------------------------------------------

    def _validate(self, X, y=None):
        X = read_records(self, X, ensure_min_samples=2, **CHECKS)
        geometry = as_geometry(self.manifold, point_shape=point_shape(X, self.manifold))
        points = as_points(geometry, X)
        check_membership(geometry, points)
        return Data((points,), {"geometry": geometry, "n": len(points), "flat": X.ndim == 2})

    def _plan(self, facts, terms):
        geometry, n = facts["geometry"], facts["n"]
        check_option(MECHANISMS, mechanism=self.mechanism)
        check_option(NOISES, noise=self.noise)
        check_option((None, "js"), shrink=self.shrink)
        lattice = get_config()["arithmetic"] == "lattice"
        # Among fits that are added up, Gaussian ones cost least.
        gaussian = terms.composes and self.noise == "auto"
        warn_large_delta(self.delta, n)
        free_center = isinstance(self.center, str) and self.center == "private"
        free_radius = isinstance(self.radius, str) and self.radius == "auto"
        searched = free_center or free_radius
        ball = None if searched else public_ball(geometry, self.center, self.radius)
        mechanism = self.mechanism
        if mechanism == "auto":
            mechanism = choose_mechanism(
                geometry,
                n,
                self.epsilon,
                self.delta,
                searched,
                lattice,
                ball_curvature=0.0 if ball is None else ball_curvature(ball),
                gaussian=gaussian,
            )
        if ball is not None and descent_or_tangent(mechanism, ball) != mechanism:
            if self.mechanism != "auto":
                raise ValueError(
                    f"radius={ball.radius:g} is above {descent_reach(geometry):.4g}, where sums of "
                    f"logarithms away from the center lose their digits on {geometry}; pass a "
                    f"smaller radius, or mechanism='tangent' instead of {mechanism!r}."
                )
            mechanism = "tangent"
        noise = lattice_noise(geometry, mechanism, self.noise) if lattice else self.noise
        if gaussian and mechanism not in OUTPUT_MECHANISMS:
            noise = "gaussian"
        budget = split_budget(
            geometry, mechanism, noise, self.epsilon, self.delta, free_center, free_radius
        )
        public = {"n": n, "manifold": str(geometry)}
        if searched:
            warn_small_search(n, budget.search_mu)
            search = self._search(geometry, n, budget, free_center, free_radius)
            center, radius = search.center, search.radius
        else:
            search, center, radius = None, ball.center, ball.radius
            self._warn_little_information(ball, n, budget)
        if center is not None:
            public["center"] = center
        if radius is not None:
            public["radius"] = radius
        release = functools.partial(self._mean_release, n=n, budget=budget)
        event, mean = budget.event, None
        if ball is not None:
            mean = release(ball)  # a bad parameter must raise before the charge
            event = compose([budget.count.event, mean.event]) if event is None else event
        elif mechanism == "gradient":
            mean = release(GeodesicBall(geometry, None, 0.5 * min(1.0, geometry.radius_limit)))
        steps = 1 if self.n_steps is None else self.n_steps
        # Projected records and their coordinates.
        work = Work(16.0 * n * math.prod(geometry.shape), steps)
        exact = _is_exact(mechanism, geometry, budget, search, mean)
        return Plan(event, (ball, search, budget, release), public, work=work, exact=exact)

    def _gaussian_choice(self):
        own_law = self.mechanism in OUTPUT_MECHANISMS
        return "mechanism='tangent', noise='gaussian'" if own_law else "noise='gaussian'"

    def _search(self, geometry, n, budget, free_center, free_radius):
        if not free_radius:
            check_scale(radius=self.radius)
        start = geometry.base_point
        center = None
        if not free_center:
            center = start if self.center is None else public_point(geometry, center=self.center)
        radius = None if free_radius else float(self.radius)
        return BallSearch(geometry, n, budget.search_mu, center, radius, start)

    def _mean_release(self, ball, n, budget):
        mechanism = descent_or_tangent(budget.mechanism, ball)
        if mechanism == "adaptive":
            return AdaptiveMean(ball, n, budget.mu)
        if mechanism == "tangent":
            return plan_tangent_mean(ball, n, budget.mu, budget.law, self.shrink == "js")
        if mechanism in OUTPUT_MECHANISMS:
            return plan_output_mean(ball, n, mechanism, *budget.target)
        if self.n_steps is not None:
            check_count(n_steps=self.n_steps)
        n_steps, shares = default_descent(ball, n, budget.mu, self.n_steps)
        solver = RiemannianGradientDescent(
            mu=budget.mu,
            n_steps=n_steps,
            step_size=self.step_size,
            shares=shares if self.shares is None else tuple(self.shares),
            clip_norm=default_clip(ball) if self.clip_norm is None else self.clip_norm,
            output=self.output,
            retraction=self.retraction,
            domain=ball,
        )
        exact = exact_tangents(ball.geometry, solver.noise_multipliers)
        solver = dataclasses.replace(solver, exact=exact)
        start = ball.center
        if self.start is not None:
            start = ball.project(public_point(ball.geometry, start=self.start))
        return DescentMean(ball, solver, start)

    def _warn_little_information(self, ball, n, budget):
        """Warn when the noise is of the size of the ball: from public numbers only."""
        if budget.mu is not None:
            spread = ball.geometry.dim**0.5 / budget.mu
        elif budget.law is not None:
            spread = budget.law.mean_square_over_sensitivity**0.5
        else:
            spread = ball.geometry.dim / self.epsilon
        noise = 2.0 * ball.radius / n * spread
        if noise > 0.5 * ball.radius:
            warn_user(
                f"with n={n} records and epsilon={self.epsilon}, delta={self.delta} the noise is "
                f"about {noise / ball.radius:.1f} times the radius: the result says little more "
                "than the public centre. Use more records, a larger epsilon, a smaller ball, or "
                "shrink='js'."
            )

    def _release(self, data, plan, streams):
        (points,), (ball, search, budget, release) = data.arrays, plan.settings
        n = len(points)
        if ball is None:
            ball = search.release(points, streams)
        mechanism = release(ball)
        problem, outside = FrechetProblem.from_records(ball, points)
        noisy = budget.count.release(outside, streams("clipped fraction")) / n
        arguments = {}
        self.mechanism_ = descent_or_tangent(budget.mechanism, ball)
        if self.verbose and self.mechanism_ == "gradient":
            name = type(self).__name__
            arguments["progress"] = ProgressBar(name, self.epsilon, self.delta)
        mean, self.noise_scale_ = mechanism.release(problem, streams, **arguments)
        self.mean_ = np.asarray(mean)
        self.geometry_, self.center_, self.radius_ = ball.geometry, ball.center, ball.radius
        self._flat = data.facts["flat"]
        self.clipped_fraction_ = float(np.clip(noisy, 0.0, 1.0))
        if search is None and noisy - 4.0 * budget.count.sigma / n > 0.2:
            warn_user(
                f"about {self.clipped_fraction_:.0%} of the rows lie outside the ball of radius "
                f"{ball.radius:g} (a private estimate) and were projected on it; choose center and "
                "radius from public knowledge of the data's range, or pass center='private' and "
                "radius='auto'."
            )

    def _problem(self, X, y=None):
        """The Fréchet problem of rows projected on the public ball; for federated runs."""
        geometry = as_geometry(self.manifold, point_shape=point_shape(X, self.manifold))
        ball = public_ball(geometry, self.center, self.radius)
        return FrechetProblem.from_records(ball, as_points(geometry, X))[0]

    def _adopt_point(self, point):
        """Learned attributes from a released point, for federated runs."""
        self.geometry_ = as_geometry(self.manifold, point_shape=np.shape(point))
        self.mean_, self._flat = np.asarray(point), False
        self.n_features_in_ = self.mean_.shape[0] if self.mean_.ndim else 1

    # -- helpers of the fitted estimator --------------------------------------------------------

    def _points(self, X):
        check_is_fitted(self)
        X = read_records(self, X, reset=False, **CHECKS)
        points = as_points(self.geometry_, X)
        check_membership(self.geometry_, points)
        return points

    def _layout(self, points):
        return points.reshape(len(points), -1) if self._flat else points
