"""Private minimisation of any empirical risk on any manifold: `PrivateRiemannianERM`."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
)

from skriemdp._quiet import quietly, read_array, read_records
from skriemdp._validation import check_count, check_option, check_scale
from skriemdp._warnings import warn_user
from skriemdp.core.arithmetic import adds_integers
from skriemdp.core.estimator import Data, Plan, PrivateEstimator
from skriemdp.core.manifold_input import check_membership, descent_domain
from skriemdp.core.work import Work
from skriemdp.descent.chunked import DaskProblem, dask_digest, is_dask
from skriemdp.descent.gradient_descent import RiemannianGradientDescent
from skriemdp.descent.per_sample import (
    CostProblem,
    HalfSquaredDistance,
    check_per_sample,
    make_gradient,
)
from skriemdp.descent.progress import ProgressBar
from skriemdp.descent.sampling import FixedSizeSampler, PoissonSampler
from skriemdp.descent.stochastic import calibrated_sgd
from skriemdp.descent.trajectory import Walk, rehearse
from skriemdp.descent.variance_reduction import calibrated_svrg
from skriemdp.geometry import as_geometry
from skriemdp.privacy.calibration import gaussian_mu

__all__ = ["PrivateRiemannianERM"]

SAMPLINGS = {"poisson": PoissonSampler, "fixed-size": FixedSizeSampler}
SOLVERS = ("descent", "variance-reduced")

_CHECKS = {"allow_nd": True, "dtype": np.float64, "ensure_all_finite": True}


@dataclasses.dataclass(frozen=True)
class _Settings:
    solver: Any
    start: np.ndarray
    noise_scale: float


def _has_cost(estimator):
    known = estimator.cost is not None or (
        estimator.gradient is None and estimator.euclidean_gradient is None
    )
    if not known:
        raise AttributeError("score needs cost; this estimator was given a gradient only.")
    return True


class PrivateRiemannianERM(PrivateEstimator):
    """Differentially private minimiser of a mean cost over a Riemannian manifold.

    Releases an approximate minimiser of ``F(w) = (1/n) sum_i cost(w, x_i, y_i)``, by noisy
    Riemannian gradient descent.  Each record's gradient is shortened to `clip_norm`, in the
    Riemannian norm.

    Parameters
    ----------
    manifold : str, Geometry or pymanopt manifold, default="euclidean"
        Where the point lives.  For a name the size is read from the rows of X.
    cost : callable, optional
        ``cost(point, x, y)``: cost of *one record*, written for `backend`; y is None when fit got
        none.  By default half the squared distance to the row, whose minimiser is the mean.
    backend : {"numpy", "torch", "jax", "autograd"}, default="numpy"
        What differentiates `cost`.  "torch" and "jax" treat the batch at once, "autograd" loops.
        "numpy" differentiates nothing and needs a gradient.
    gradient : callable, optional
        ``gradient(point, X, y)``: Riemannian gradients of a batch, shape ``(b, *point_shape)``.
    euclidean_gradient : callable, optional
        The same, but partial derivatives in ambient coordinates; made Riemannian here.
    clip_norm : float, default=1.0
        Public Riemannian norm to which each record's gradient is shortened.
    batch_size : float, optional
        Expected number of records per step; all of them by default.
    sampling : {"poisson", "fixed-size"}, default="poisson"
        How batches are drawn.  Poisson sampling is accounted exactly and needs less noise.
    solver : {"descent", "variance-reduced"}, default="descent"
        DP-RGD or DP-RSGD; or DP-RSVRG with noisy anchors and clipped differences.
    n_steps : int, default=100
        Number of steps, anchors included.
    step_size : float or sequence of float, default=0.1
        Public step sizes; :func:`skriemdp.descent.schedules.schedule` gives those of the theory.
    output : {"last", "average", "weighted-average", "random"}, default="last"
        Which point of the run is released.
    retraction : bool, default=False
        Whether to move by the retraction instead of the exponential map.
    start : array-like of shape ``point_shape``, optional
        Public start; `center` or the geometry's base point by default.
    center : array-like of shape ``point_shape``, optional
    radius : float, optional
        Public ball about `center` to which iterates are projected.  By default there is none; on
        negatively curved manifolds it is then the ball of radius ``descent_reach(geometry)`` (10
        curvature radii) about the start, because no float can hold what a walk computes far out.
    epoch_length : int, default=9
        Steps per epoch of "variance-reduced", besides the anchor's.
    difference_clip, smoothness : float, optional
        For "variance-reduced", exactly one: constant clip norm of the gradient differences, or a
        constant times the distance to the anchor.
    callback : callable, optional
        ``callback(step, point)`` after each step, with a copy of the released iterate.
    epsilon : float, default=1.0
    delta : float, default=1e-5
        Privacy of the whole fit.
    accountant : PrivacyAccountant, optional
        Where the fit is charged; the active accountant by default.
    random_state : int, optional
        For tests and studies only: the noise can then be reproduced and protects nobody.
    verbose : int, default=0
        1 shows a progress bar: steps and budget, never a loss.

    Attributes
    ----------
    point_ : ndarray of shape ``point_shape``
        The private minimiser.
    noise_scale_ : float
        Standard deviation of each tangent coordinate of a step's noisy mean gradient (of the last
        step's anchor for "variance-reduced").
    privacy_spent_ : PrivacySpent
        Unpacks as ``epsilon, delta``.
    geometry_ : Geometry
    n_features_in_ : int
    feature_names_in_ : ndarray
        When X had feature names.

    Notes
    -----
    *Guarantee*: (epsilon, delta)-differential privacy under replacement of one record (x_i, y_i), n
    public.  Row i of a gradient must depend on record i only; that is tried on made-up records, and
    a gradient that mixes them is refused, because it cannot be clipped per record.  So is a
    function that carries the data along in a closure, a global, a list, a dict or an attribute.
    What was
    *computed* from the data beforehand cannot be seen: ``center = X.mean(axis=0)``, used inside,
    voids the guarantee; whatever a function uses besides its arguments must be public.
    Everything a user function does with a record besides returning a gradient (printing, raising)
    is outside the guarantee.  A record whose gradient is not finite counts as zero.  Theorems:
    docs/theory/optimisation.md.

    X may be a memory map or a dask array; then only blocks are in memory at a time and the noise is
    drawn once per step by the caller.

    References
    ----------
    Han, Mishra, Jawanpuria, Gao (2022), arXiv:2205.09494, Algorithm 1.
    Huang et al. (2025), Algorithm 3 ("variance-reduced", corrected).

    Examples
    --------
    A private direction of largest variance, from an explicit gradient on the sphere:

    >>> import numpy as np
    >>> from skriemdp.erm.estimator import PrivateRiemannianERM
    >>> X = np.random.default_rng(0).normal(size=(2000, 3)) * [1.0, 0.2, 0.2]
    >>> def gradient(point, X, y):
    ...     return -2 * (X @ point)[:, None] * X
    >>> erm = PrivateRiemannianERM("sphere", euclidean_gradient=gradient, start=[0.6, 0.8, 0.0])
    >>> erm.fit(X).point_.shape
    (3,)
    """

    def __init__(
        self,
        manifold="euclidean",
        cost=None,
        *,
        backend="numpy",
        gradient=None,
        euclidean_gradient=None,
        clip_norm=1.0,
        batch_size=None,
        sampling="poisson",
        solver="descent",
        n_steps=100,
        step_size=0.1,
        output="last",
        retraction=False,
        start=None,
        center=None,
        radius=None,
        epoch_length=9,
        difference_clip=None,
        smoothness=None,
        callback=None,
        epsilon=1.0,
        delta=1e-5,
        accountant=None,
        random_state=None,
        verbose=0,
    ):
        self.manifold = manifold
        self.cost = cost
        self.backend = backend
        self.gradient = gradient
        self.euclidean_gradient = euclidean_gradient
        self.clip_norm = clip_norm
        self.batch_size = batch_size
        self.sampling = sampling
        self.solver = solver
        self.n_steps = n_steps
        self.step_size = step_size
        self.output = output
        self.retraction = retraction
        self.start = start
        self.center = center
        self.radius = radius
        self.epoch_length = epoch_length
        self.difference_clip = difference_clip
        self.smoothness = smoothness
        self.callback = callback
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    # -- scikit-learn ---------------------------------------------------------------------------

    def fit(self, X, y=None):
        """Release a private minimiser of the mean cost over the rows of X (and y).

        Parameters
        ----------
        X : array-like or dask array of shape (n, ...)
            One record per row.
        y : array-like or dask array of shape (n, ...), optional
            Passed to the cost row by row; ignored by the default cost.

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

    @available_if(_has_cost)
    def score(self, X, y=None):
        """Minus the mean cost of the rows of X at `point_` (not private)."""
        check_is_fitted(self)
        X = read_records(self, X, reset=False, **_CHECKS)
        gradient = self._gradient(self.geometry_)
        y = self._labels(X, y, gradient)
        if hasattr(gradient, "cost"):
            return -float(np.mean(gradient.cost(self.point_, X, y)))
        labels = [None] * len(X) if y is None else y
        pairs = zip(X, labels, strict=True)
        return -float(np.mean([float(self.cost(self.point_, x, label)) for x, label in pairs]))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.three_d_array = True
        return tags

    # -- the problem ----------------------------------------------------------------------------

    def _gradient(self, geometry):
        return make_gradient(
            geometry, self.cost, self.backend, self.gradient, self.euclidean_gradient
        )

    @property
    def _is_mean(self):
        return self.cost is None and self.gradient is None and self.euclidean_gradient is None

    def _labels(self, X, y, gradient):
        if y is None or self._is_mean:
            return None
        y = read_array(y, "y", ensure_2d=False, **_CHECKS)
        quietly(check_consistent_length, X, y)
        return y

    def _adopt_point(self, point):
        """Learned attributes from a released point, for federated runs."""
        self.point_ = np.asarray(point)
        self.geometry_ = as_geometry(self.manifold, point_shape=self.point_.shape)

    def _problem(self, X, y=None):
        """The empirical risk on these validated records; what solvers and federated runs use."""
        geometry = as_geometry(self.manifold, point_shape=tuple(X.shape[1:]))
        gradient = self._gradient(geometry)
        if is_dask(X):
            if self._is_mean:
                gradient = HalfSquaredDistance(geometry, unchecked=True)
            return DaskProblem(functools.partial(CostProblem, gradient), X, y)
        return CostProblem(gradient, X, y)

    # -- the order of work ----------------------------------------------------------------------

    def _validate(self, X, y=None):
        if is_dask(X):
            return self._validate_dask(X, y)
        X = read_records(self, X, ensure_min_samples=2, **_CHECKS)
        geometry = as_geometry(self.manifold, point_shape=X.shape[1:])
        gradient = self._gradient(geometry)
        y = self._labels(X, y, gradient)
        self._check_functions(len(X), (X, y))
        if self._is_mean:
            _check_membership(geometry, X)
        problem = CostProblem(gradient, X, y)
        problem.dry_run(geometry.base_point)
        separate = problem.row_check.identical
        return Data((X, y), {"geometry": geometry, "n": len(X), "separate": separate})

    def _validate_dask(self, X, y):
        # The records stay where they are: shapes are checked, values are not.  A record that is not
        # finite has no finite gradient and counts as zero.
        if y is not None and not is_dask(y):
            raise TypeError("X is a dask array; pass y as a dask array with the same chunks.")
        y = None if self._is_mean else y
        problem = self._problem(X, y)
        if problem.n < 2:
            raise ValueError(f"X must have at least 2 rows, got n={problem.n}.")
        self.n_features_in_ = X.shape[1] if X.ndim > 1 else 1
        self._check_functions(problem.n, (X, y))
        problem.empty.dry_run(problem.geometry.base_point)
        return Data((X, y), {"geometry": problem.geometry, "n": problem.n, "separate": False})

    def _check_functions(self, n, arrays):
        for name in ("cost", "gradient", "euclidean_gradient"):
            function = getattr(self, name)
            if function is not None:
                check_per_sample(function, n, arrays, name)

    def _plan(self, facts, terms):
        geometry, n = facts["geometry"], facts["n"]
        check_scale(clip_norm=self.clip_norm)
        check_option(SOLVERS, solver=self.solver)
        check_option(tuple(SAMPLINGS), sampling=self.sampling)
        if self.callback is not None and not callable(self.callback):
            raise TypeError("callback must be a function (step, point) or None.")
        if self.delta == 0:
            raise ValueError(
                "delta=0 asks for pure differential privacy, which Gaussian noise cannot give; "
                "pass delta > 0, for instance 1e-5."
            )
        if self.delta >= 1.0 / n:
            warn_user(
                f"delta={self.delta} is at least 1/n={1.0 / n:.3g}: releasing a random record "
                "would be allowed; use a smaller delta."
            )
        domain, start = self._domain_and_start(geometry)
        walk = Walk(self.n_steps, self.step_size, self.output, self.retraction, domain)
        rehearse(geometry, start, walk, transport=self.solver == "variance-reduced")
        solver, event, noise_scale = self._calibrated(walk, n)
        whole = isinstance(solver, RiemannianGradientDescent)
        exact = adds_integers(
            whole and facts["separate"],
            geometry.dim,
            solver.noise_multipliers if whole else (),
            "full batches in memory, and gradients that are the same, to the last bit, in any "
            "company of records",
        )
        if exact:
            solver = dataclasses.replace(solver, exact=True)
        public = {
            "n": n,
            "manifold": str(geometry),
            "clip_norm": self.clip_norm,
            "start": start,
            "step_size": walk.step_size[0] if np.ndim(self.step_size) == 0 else walk.step_size,
            "n_steps": walk.n_steps,
        }
        if self.batch_size is not None:
            public |= {"batch_size": self.batch_size, "sampling": self.sampling}
        if domain is not None:
            public |= {"center": domain.center, "radius": domain.radius}
        work = Work(48.0 * math.prod(geometry.shape), walk.n_steps)
        return Plan(event, _Settings(solver, start, noise_scale), public, work=work, exact=exact)

    def _gaussian_choice(self):
        return "solver='descent', batch_size=None"

    def _domain_and_start(self, geometry, start=None):
        start = self.start if start is None else start
        return descent_domain(geometry, self.center, self.radius, start)

    def _calibrated(self, walk, n):
        clip, target = float(self.clip_norm), (float(self.epsilon), float(self.delta))
        if self.solver == "descent" and self.batch_size is None:
            solver = RiemannianGradientDescent(
                mu=gaussian_mu(*target),
                n_steps=walk.n_steps,
                step_size=walk.step_size,
                clip_norm=clip,
                output=walk.output,
                retraction=walk.retraction,
                domain=walk.domain,
            )
            return solver, solver.event, solver.noise_multipliers[-1] * 2 * clip / n
        if self.batch_size is None:
            raise ValueError("solver='variance-reduced' needs batch_size.")
        sampler = SAMPLINGS[self.sampling](self.batch_size)
        if self.solver == "descent":
            solver = calibrated_sgd(sampler, walk, n, *target, clip_norm=clip)
            scale = solver.noise_multiplier * 2 * clip / sampler.expected_size(n)
            return solver, solver.event(n), scale
        check_count(epoch_length=self.epoch_length)
        if walk.n_steps % (1 + self.epoch_length):
            raise ValueError(
                f"n_steps={walk.n_steps} must be a multiple of 1 + epoch_length="
                f"{1 + self.epoch_length}: whole epochs of one anchor and epoch_length steps."
            )
        solver = calibrated_svrg(
            sampler,
            walk.n_steps // (1 + self.epoch_length),
            self.epoch_length,
            walk,
            n,
            *target,
            clip_norm=clip,
            difference_clip=self.difference_clip,
            smoothness=self.smoothness,
        )
        return solver, solver.event(n), solver.anchor_noise_multiplier * 2 * clip / n

    def _noise_context(self, data, plan):
        if is_dask(data.arrays[0]) and self.random_state is not None:
            light = dataclasses.replace(data, arrays=(np.frombuffer(dask_digest(*data.arrays)),))
            return super()._noise_context(light, plan)
        return super()._noise_context(data, plan)

    def _release(self, data, plan, streams):
        settings = plan.settings
        problem = self._problem(*data.arrays)
        progress = None
        if self.verbose:
            progress = ProgressBar(type(self).__name__, self.epsilon, self.delta)
        point = settings.solver.solve(
            problem, settings.start, streams("descent"), progress, self.callback
        )
        self.geometry_ = problem.geometry
        self.noise_scale_ = float(settings.noise_scale)
        self.point_ = np.asarray(point)


def _check_membership(geometry, X):
    rows = X.reshape(len(X), -1)
    if rows.shape[1] != math.prod(geometry.shape):
        raise ValueError(
            f"X has rows of shape {X.shape[1:]}, but points of {geometry} have shape "
            f"{geometry.shape}; the default cost is a distance to the rows, other data need a cost."
        )
    check_membership(geometry, geometry.canonical(X.reshape(len(X), *geometry.shape)))
