"""Private minimisation of any empirical risk on any manifold: `PrivateRiemannianERM`."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skriemdp._arrays import ArrayLike, ManifoldLike
from skriemdp._containers import plain
from skriemdp._core.estimator import Data, Plan, PrivateEstimator, Terms
from skriemdp._core.manifold_input import check_membership, descent_domain, read_points
from skriemdp._core.work import Work
from skriemdp._descent.chunked import DaskProblem, dask_digest, is_dask
from skriemdp._descent.gradient_descent import RiemannianGradientDescent
from skriemdp._descent.groups import GroupedProblem
from skriemdp._descent.per_sample import (
    CostProblem,
    HalfSquaredDistance,
    PerSampleGradient,
    check_per_sample,
    make_gradient,
)
from skriemdp._descent.releases import check_run
from skriemdp._descent.stochastic import SAMPLINGS, calibrated_sgd
from skriemdp._descent.trajectory import Moves, rehearse
from skriemdp._descent.variance_reduction import calibrated_svrg
from skriemdp._erm.clipping import ClipNorm, gradient_norms
from skriemdp._errors import PublicAttributeError, PublicTypeError, PublicValueError
from skriemdp._groups import Groups
from skriemdp._mechanisms.budget import GaussianBudget, Release
from skriemdp._quiet import is_users_own, quietly, read_array, read_records
from skriemdp._validation import check_function, check_option, check_scale
from skriemdp._warnings import warn_user
from skriemdp.geometry import as_geometry
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.geometry._base import Geometry
from skriemdp.privacy._calibration import gaussian_mu

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skriemdp._random import NoiseStreams
    from skriemdp.ledger._accountant import PrivacyAccountant

SOLVERS = ("descent", "variance-reduced")

_CHECKS: dict[str, Any] = {"allow_nd": True, "dtype": np.float64, "ensure_all_finite": True}


@dataclass(frozen=True)
class _Settings:
    solver: Any
    start: np.ndarray
    noise_scale: float
    clip: ClipNorm | None


def _followed(callback: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """`callback` that costs no release: one that fails is not called again."""
    if callback is None:
        return None
    failed = False

    def follow(step: int, point: np.ndarray) -> None:
        nonlocal failed
        if failed:
            return
        try:
            callback(step, point)
        except Exception as error:
            if is_users_own(error):
                raise
            failed = True
            warn_user(
                f"callback raised {type(error).__name__} and was not called again; the fit went "
                "on. Its arguments are a number and a point."
            )

    return follow


def _has_cost(estimator: PrivateRiemannianERM) -> bool:
    known = estimator.cost is not None or (
        estimator.gradient is None and estimator.euclidean_gradient is None
    )
    if not known:
        raise PublicAttributeError("score needs cost; this estimator was given a gradient only.")
    return True


class PrivateRiemannianERM(PrivateEstimator):
    """Differentially private minimiser of a mean cost over a Riemannian manifold.

    Releases an approximate minimiser of ``F(w) = (1/n) sum_i cost(w, x_i, y_i)``, by noisy
    Riemannian gradient descent.  Each record's gradient is clipped to `clip_norm`, in the
    Riemannian norm.

    Parameters
    ----------
    manifold : str, Geometry or pymanopt manifold, default="euclidean"
        Where the point lives.  For a name the size is read from the rows of X.
    cost : callable, optional
        ``cost(point, x, y)``: cost of *one record*, written for `backend`; y is None when fit got
        none.  Where points are several arrays (products, FixedRankEmbedded), `point` is their
        tuple.  By default half the squared distance to the row, whose minimiser is the mean.
    backend : {"numpy", "torch", "jax", "autograd"}, default="numpy"
        What differentiates `cost`.  "torch" and "jax" treat the batch at once, "autograd" loops.
        "numpy" differentiates nothing and needs a gradient.
    gradient : callable, optional
        ``gradient(point, X, y)``: Riemannian gradients of a batch, shape ``(b, *point_shape)``; a
        list of one such array for each part where points are several arrays.
    euclidean_gradient : callable, optional
        The same, but partial derivatives in ambient coordinates; made Riemannian here.
    clip_norm : float or "private", default=1.0
        Public Riemannian norm to which each record's gradient is shortened.  "private" takes a
        private quantile of the norms at the public start, for 3 % of ``mu**2``; full batches only.
    batch_size : float, optional
        Expected number of records per step; all of them by default.
    sampling : {"poisson", "fixed-size"}, default="poisson"
        How batches are drawn.  Poisson sampling is accounted exactly and needs less noise.
    solver : {"descent", "variance-reduced"}, default="descent"
        DP-RGD or DP-RSGD; or DP-RSVRG with noisy anchors and clipped differences, ten steps per
        anchor.
    n_steps : int, default=100
        Number of steps, anchors included.
    step_size : float or sequence of float, default=0.1
        Public step sizes; :func:`skriemdp.schedules.schedule` gives those of the theory.
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
        curvature radii) about the start, because no float can hold what a descent computes far out.
    smoothness : float, optional
        For "variance-reduced": differences of gradients are clipped to this times the distance to
        the anchor, where they need no shortening if every record's cost is so smooth; to
        `clip_norm` without it.
    callback : callable, optional
        ``callback(step, point)`` after each step, with a copy of the released iterate.  One that
        fails is not called again, and the fit goes on; to end a fit raise an exception of a class
        of your own.  A private search leaves it out: nobody may follow a run that loses.
    epsilon : float, default=1.0
    delta : float, default=1e-5
        Privacy of the whole fit.
    accountant : PrivacyAccountant, optional
        Where the fit is charged; the active accountant by default.
    random_state : int, optional
        For tests and studies only: the noise can then be reproduced and protects nobody.

    Attributes
    ----------
    point_ : ndarray of shape ``point_shape``
        The private minimiser.
    clip_norm_, clipped_fraction_ : float
        Norm that was used, and a private estimate, for 1 % of ``mu**2``, of the share of gradients
        beyond it at the start; full batches only.
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
    *Guarantee*: (epsilon, delta)-differential privacy under replacement of one record (x_i, y_i),
    or of all records of one group (docs/theory/groups.md); n, their number, is public.
    Row i of a gradient must depend on record i only; that is tried on made-up records, and a
    gradient that mixes them is refused, because it cannot be clipped per record.  So is a function
    that carries the data along in a closure, a global, a list, a dict or an attribute.  What was
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
    >>> from skriemdp import PrivateRiemannianERM
    >>> X = np.random.default_rng(0).normal(size=(2000, 3)) * [1.0, 0.2, 0.2]
    >>> def gradient(point, X, y):
    ...     return -2 * (X @ point)[:, None] * X
    >>> erm = PrivateRiemannianERM("sphere", euclidean_gradient=gradient, start=[0.6, 0.8, 0.0])
    >>> erm.fit(X).point_.shape
    (3,)
    """

    __metadata_request__fit = {"groups": True}

    def __init__(
        self,
        manifold: ManifoldLike = "euclidean",
        cost: Callable[..., Any] | None = None,
        *,
        backend: Literal["numpy", "torch", "jax", "autograd"] = "numpy",
        gradient: Callable[..., Any] | None = None,
        euclidean_gradient: Callable[..., Any] | None = None,
        clip_norm: float | Literal["private"] = 1.0,
        batch_size: float | None = None,
        sampling: Literal["poisson", "fixed-size"] = "poisson",
        solver: Literal["descent", "variance-reduced"] = "descent",
        n_steps: int = 100,
        step_size: float | Sequence[float] = 0.1,
        output: Literal["last", "average", "weighted-average", "random"] = "last",
        retraction: bool = False,
        start: ArrayLike | None = None,
        center: ArrayLike | None = None,
        radius: float | None = None,
        smoothness: float | None = None,
        callback: Callable[..., Any] | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        accountant: PrivacyAccountant | None = None,
        random_state: int | None = None,
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
        self.smoothness = smoothness
        self.callback = callback
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.random_state = random_state

    # -- scikit-learn ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> PrivateRiemannianERM:
        """Release a private minimiser of the mean cost over the rows of X (and y).

        Parameters
        ----------
        X : array-like or dask array of shape (n, ...)
            One record per row.
        y : array-like or dask array of shape (n, ...), optional
            Passed to the cost row by row; ignored by the default cost.
        groups : array-like of shape (n,), optional
            Who owns each row; not for dask arrays.  Then an owner's gradient is the mean of own
            rows' gradients, clipped after averaging.  All rows of one owner and their number are
            protected together; n, and what `batch_size` counts, is the number of owners.

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

    @available_if(_has_cost)
    def score(self, X: np.ndarray, y: np.ndarray | None = None) -> float:
        """Minus the mean cost of the rows of X at `point_` (not private)."""
        check_is_fitted(self)
        X = read_records(self, X, reset=False, **_CHECKS)
        gradient = self._gradient(self.geometry_)
        y = self._labels(X, y, gradient)
        if hasattr(gradient, "cost"):
            return -float(np.mean(gradient.cost(self.point_, X, y)))
        labels = [None] * len(X) if y is None else y
        pairs = zip(X, labels, strict=True)
        cost = cast("Callable[..., Any]", self.cost)
        point = self.geometry_.as_parts(self.point_)
        return -float(np.mean([float(cost(point, x, label)) for x, label in pairs]))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.three_d_array = True
        return tags

    # -- the problem ----------------------------------------------------------------------------

    def _gradient(self, geometry: Geometry) -> PerSampleGradient:
        return make_gradient(
            geometry, self.cost, self.backend, self.gradient, self.euclidean_gradient
        )

    @property
    def _is_mean(self) -> bool:
        return self.cost is None and self.gradient is None and self.euclidean_gradient is None

    def _labels(
        self, X: np.ndarray, y: np.ndarray | None, gradient: PerSampleGradient
    ) -> np.ndarray | None:
        if y is None or self._is_mean:
            return None
        y = read_array(y, "y", ensure_2d=False, **_CHECKS)
        quietly(check_consistent_length, X, y)
        return y

    def _records(self, data: Data) -> tuple:
        """Arrays with one row per record, for federated runs."""
        return data.arrays

    def _adopt_point(self, point: np.ndarray) -> None:
        """Learned attributes from a released point, for federated runs."""
        self.point_ = np.asarray(point)
        self.geometry_ = as_geometry(self.manifold, point_shape=self.point_.shape)

    def _problem(
        self, X: np.ndarray, y: np.ndarray | None = None, groups: Groups | None = None
    ) -> Any:
        """The empirical risk on these validated records; what solvers and federated runs use.

        With `groups`, of people: the means of their own rows' gradients.
        """
        geometry = as_geometry(self.manifold, point_shape=tuple(X.shape[1:]))
        gradient = self._gradient(geometry)
        if is_dask(X):
            if self._is_mean:
                gradient = HalfSquaredDistance(geometry, unchecked=True)
            return DaskProblem(functools.partial(CostProblem, gradient), X, y)
        problem = CostProblem(gradient, X, y)
        return problem if groups is None else GroupedProblem(problem, groups)

    # -- the order of work ----------------------------------------------------------------------

    def _validate(self, X: Any, y: Any = None) -> Data:
        if is_dask(X):
            return self._validate_dask(X, y)
        X = read_points(
            self, X, manifold=self.manifold if self._is_mean else None, ensure_min_samples=2
        )
        geometry = as_geometry(self.manifold, point_shape=X.shape[1:])
        gradient = self._gradient(geometry)
        y = self._labels(X, y, gradient)
        if self._is_mean:
            _check_membership(geometry, X)
        return Data((X, y), {"geometry": geometry, "n": len(X)})

    def _validate_dask(self, X: Any, y: Any) -> Data:
        # The records stay where they are: shapes are checked, values are not.  A record that is not
        # finite has no finite gradient and counts as zero.
        if y is not None and not is_dask(y):
            raise PublicTypeError("X is a dask array; pass y as a dask array with the same chunks.")
        y = None if self._is_mean else y
        X, y = plain(X, "X"), plain(y, "y")
        problem = self._problem(X, y)
        if problem.n < 2:
            raise PublicValueError(f"X must have at least 2 rows, got n={problem.n}.")
        self.n_features_in_ = X.shape[1] if X.ndim > 1 else 1
        return Data((X, y), {"geometry": problem.geometry, "n": problem.n})

    def _with_tried_functions(self, data: Data) -> Data:
        """Refuse functions that carry or mix the records."""
        X, geometry = data.arrays[0], data.facts["geometry"]
        if data.groups is not None and is_dask(X):
            raise PublicValueError("groups needs records in memory; pass X and y as NumPy arrays.")
        for name in ("cost", "gradient", "euclidean_gradient"):
            function = getattr(self, name)
            if function is not None:
                check_per_sample(function, data.facts["n"], data.arrays, name)
        problem = self._problem(*data.arrays)
        rows = problem.empty if is_dask(X) else problem
        rows.dry_run(geometry.base_point)
        return data

    def _plan(self, facts: dict[str, Any], terms: Terms) -> Plan:
        geometry, n = facts["geometry"], facts["n"]
        if isinstance(self.clip_norm, str):
            check_option(("private",), clip_norm=self.clip_norm)
            if self.batch_size is not None:
                raise PublicValueError(
                    "clip_norm='private' asks for all gradients at the start; pass "
                    "batch_size=None, or a public clip_norm."
                )
        else:
            check_scale(clip_norm=self.clip_norm)
        check_option(SOLVERS, solver=self.solver)
        check_option(tuple(SAMPLINGS), sampling=self.sampling)
        if self.callback is not None:
            check_function("callback", self.callback, "step", "point")
        if self.delta == 0:
            raise PublicValueError(
                "delta=0 asks for pure differential privacy, which Gaussian noise cannot give; "
                "pass delta > 0, for instance 1e-5."
            )
        domain, start = self._domain_and_start(geometry)
        moves = Moves(self.n_steps, self.step_size, self.output, self.retraction, domain)
        rehearse(geometry, start, moves, transport=self.solver == "variance-reduced")
        clip, mu = None, gaussian_mu(float(self.epsilon), float(self.delta))
        if self.batch_size is None:
            clip = ClipNorm(n, mu, None if self.clip_norm == "private" else float(self.clip_norm))
        solver, event, noise_scale = self._calibrated(moves, n, geometry.dim, clip)
        check_run(solver.noise_multipliers, geometry.dim)
        planned: tuple[Release, ...] = (Release("gradients", 1.0, "gaussian", geometry.dim),)
        if clip is not None:
            event = (budget := GaussianBudget(mu)).event
            clip.reserve(budget)
            budget.rest("gradients", geometry.dim)
            planned = budget.releases
        public = {
            "n": n,
            "manifold": str(geometry),
            "clip_norm": self.clip_norm,
            "start": start,
            "step_size": cast(tuple[float, ...], moves.step_size)[0]
            if np.ndim(self.step_size) == 0
            else moves.step_size,
            "n_steps": moves.n_steps,
        }
        if self.batch_size is not None:
            public |= {"batch_size": self.batch_size, "sampling": self.sampling}
        if domain is not None:
            public |= {"center": domain.center, "radius": domain.radius}
        work = Work(48.0 * math.prod(geometry.shape), moves.n_steps)
        settings = _Settings(solver, start, noise_scale, clip)
        return Plan(event, settings, public, work=work, releases=planned)

    def _gaussian_choice(self) -> str:
        return "solver='descent', batch_size=None"

    def _domain_and_start(
        self, geometry: Geometry, start: Any = None
    ) -> tuple[GeodesicBall | None, Any]:
        start = self.start if start is None else start
        return descent_domain(geometry, self.center, self.radius, start)

    def _calibrated(
        self, moves: Moves, n: int, dim: int, search: ClipNorm | None
    ) -> tuple[Any, Any, float]:
        """Solver, event and noise of a step; with full batches per unit of the clip norm."""
        if self.solver == "descent" and search is not None:
            solver: Any = RiemannianGradientDescent(
                mu=search.mu * math.sqrt(1.0 - search.share) * (1.0 - 1e-15),
                n_steps=moves.n_steps,
                step_size=moves.step_size,
                output=moves.output,
                retraction=moves.retraction,
                domain=moves.domain,
            )
            return solver, solver.event, solver.noise_multipliers[-1] * 2 / n
        clip, target = cast(float, self.clip_norm), (float(self.epsilon), float(self.delta))
        if search is not None:
            raise PublicValueError("solver='variance-reduced' needs batch_size.")
        sampler: Any = SAMPLINGS[self.sampling](cast(Any, self.batch_size), dim)
        if self.solver == "descent":
            solver = calibrated_sgd(sampler, moves, n, *target, clip_norm=clip)
            scale = solver.noise_multiplier * 2 * solver.clip_norm / sampler.expected_size(n)
            return solver, solver.event(n), scale
        solver = calibrated_svrg(sampler, moves, n, *target, clip, self.smoothness)
        return solver, solver.event(n), solver.anchor_noise_multiplier * 2 * solver.clip_norm / n

    def _noise_context(self, data: Data, plan: Plan) -> bytes:
        if is_dask(data.arrays[0]) and self.random_state is not None:
            light = dataclasses.replace(data, arrays=(np.frombuffer(dask_digest(*data.arrays)),))
            return super()._noise_context(light, plan)
        return super()._noise_context(data, plan)

    def _release(self, data: Data, plan: Plan, streams: NoiseStreams) -> None:
        settings = plan.settings
        problem = self._problem(data.arrays[0], data.arrays[1], data.groups)
        solver, noise_scale = settings.solver, settings.noise_scale
        if settings.clip is not None:
            # The run has noise of its own, whatever is left for it.
            budget = GaussianBudget(settings.clip.mu, plan.releases[:-1])
            norms = gradient_norms(problem, settings.start)
            clip, fraction = settings.clip.release(norms, budget, streams)
            self.clip_norm_, self.clipped_fraction_ = clip, fraction
            solver, noise_scale = dataclasses.replace(solver, clip_norm=clip), noise_scale * clip
        point = solver.solve(problem, settings.start, streams("descent"), _followed(self.callback))
        self.geometry_ = problem.geometry
        self.noise_scale_ = float(noise_scale)
        self.point_ = np.asarray(point)


def _check_membership(geometry: Geometry, X: np.ndarray) -> None:
    rows = X.reshape(len(X), -1)
    if rows.shape[1] != math.prod(geometry.shape):
        raise PublicValueError(
            f"X has rows of shape {X.shape[1:]}, but points of {geometry} have shape "
            f"{geometry.shape}; the default cost is a distance to the rows, other data need a cost."
        )
    check_membership(geometry, geometry.canonical(X.reshape(len(X), *geometry.shape)))
