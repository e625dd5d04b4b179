"""The private solvers as pymanopt optimizers, for problems with per-sample costs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from pymanopt.optimizers.optimizer import Optimizer, OptimizerResult

from skriemdp._core.arithmetic import INTEGERS
from skriemdp._core.charge import charge
from skriemdp._core.manifold_input import descent_domain, public_array
from skriemdp._core.parameters import check_target
from skriemdp._core.spent import PrivacySpent
from skriemdp._descent.gradient_descent import RiemannianGradientDescent
from skriemdp._descent.per_sample import CostProblem, check_per_sample, make_gradient
from skriemdp._descent.progress import ProgressBar
from skriemdp._descent.releases import check_run
from skriemdp._descent.stochastic import SAMPLINGS, RiemannianSGD, calibrated_sgd
from skriemdp._descent.trajectory import Moves, rehearse
from skriemdp._descent.variance_reduction import RiemannianSVRG, calibrated_svrg, whole_epochs
from skriemdp._errors import PublicNotImplementedError, PublicTypeError, PublicValueError
from skriemdp._mechanisms.budget import Release
from skriemdp._quiet import Charged, quiet
from skriemdp._random import NoiseStreams, check_random_state, data_digest
from skriemdp._validation import check_option, check_scale
from skriemdp.geometry import as_geometry
from skriemdp.ledger._accountant import PrivacyAccountant
from skriemdp.ledger._current import chosen_accountant
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import as_drawn

if TYPE_CHECKING:
    from skriemdp.geometry._base import Geometry


__all__ = [
    "PerSampleProblem",
    "PrivateGradientDescent",
    "PrivateOptimizerResult",
    "PrivateStochasticGradientDescent",
    "PrivateVarianceReducedGradientDescent",
]

Solver = RiemannianGradientDescent | RiemannianSGD | RiemannianSVRG


class PerSampleProblem:
    """A pymanopt problem whose cost is a mean over records: what a private optimizer needs.

    A :class:`pymanopt.Problem` holds one cost of the point, in which the records are already
    summed; it has no per-record gradients to clip, so no guarantee can be given for it.

    Parameters
    ----------
    manifold : pymanopt manifold, Geometry or str
    cost : callable or None
        ``cost(point, x, y)`` of one record (y is None without labels); None with a gradient.
    data : array of shape (n, ...) or pair of arrays (X, y)
        Records along the first axis.
    backend : {"autograd", "torch", "jax", "numpy"}, default="autograd"
        What differentiates `cost`; ignored with a gradient.
    gradient, euclidean_gradient : callable, optional
        ``gradient(point, X, y) -> (b, *point_shape)``, Riemannian or partial derivatives.

    Notes
    -----
    An automatic cost is differentiated record by record, which takes hundreds of times as long as
    a `gradient` of all records at once (``python benchmarks/solvers.py automatic``).

    A gradient whose row i depends on other records than record i is refused, as in
    :class:`skriemdp.PrivateRiemannianERM`; what was computed from the data beforehand, such as
    their mean, cannot be seen in a function and must not be used there.

    Points of products and of manifolds that store several arrays reach functions as the tuple of
    these, and results come back as such a tuple.

    Examples
    --------
    >>> import numpy as np
    >>> from pymanopt.manifolds import Sphere
    >>> from skriemdp.pymanopt_optimizers import PerSampleProblem, PrivateGradientDescent
    >>> X = np.random.default_rng(0).normal(size=(1000, 3)) * [1.0, 0.1, 0.1]
    >>> def gradient(point, X, y):
    ...     return -2 * (X @ point)[:, None] * X
    >>> problem = PerSampleProblem(Sphere(3), None, X, euclidean_gradient=gradient)
    >>> optimizer = PrivateGradientDescent(epsilon=1.0, delta=1e-5, verbosity=0)
    >>> result = optimizer.run(problem, initial_point=np.array([0.6, 0.8, 0.0]))
    >>> result.point.shape, tuple(result.privacy_spent)
    ((3,), (1.0, 1e-05))
    """

    @quiet
    def __init__(
        self,
        manifold: Any,
        cost: Callable[..., Any],
        data: ArrayLike,
        *,
        backend: str = "autograd",
        gradient: Callable[..., Any] | None = None,
        euclidean_gradient: Callable[..., Any] | None = None,
    ):
        X, y = data if isinstance(data, tuple) else (data, None)
        X = _records("data", X)
        y = None if y is None else _records("y", y)
        if y is not None and len(y) != len(X):
            raise PublicValueError(f"data has {len(X)} records but {len(y)} labels.")
        self.manifold = manifold
        shape = X.shape[1:] if isinstance(manifold, str) else None
        self.geometry = as_geometry(manifold, point_shape=shape)
        explicit = gradient is not None or euclidean_gradient is not None
        per_sample = make_gradient(
            self.geometry, cost, "numpy" if explicit else backend, gradient, euclidean_gradient
        )
        functions = {"cost": cost, "gradient": gradient, "euclidean_gradient": euclidean_gradient}
        for name, function in functions.items():
            if function is not None:
                check_per_sample(function, len(X), (X, y), name)
        self.problem = CostProblem(per_sample, X, y)
        self.problem.dry_run(self.geometry.base_point)


def _records(name: str, array: Any) -> Any:
    array = np.asarray(array)
    if array.dtype.kind not in "fiub" or array.ndim < 1 or len(array) < 2:
        raise PublicValueError(
            f"{name} must be a numeric array with at least two records along its first axis, got "
            f"dtype {array.dtype} and shape {array.shape}."
        )
    array = array if array.dtype == np.float64 else array.astype(np.float64)
    if not np.isfinite(array).all():
        raise PublicValueError(
            f"{name} must be finite; replace missing values by public numbers, record by record."
        )
    return array


@dataclass
class PrivateOptimizerResult(OptimizerResult):
    """pymanopt's result, plus the privacy statement.

    ``cost`` is NaN and ``gradient_norm`` None: both are queries about the records that nobody paid
    for.

    Attributes
    ----------
    privacy_spent : PrivacySpent
        Unpacks as ``epsilon, delta``.
    """

    privacy_spent: Any = None


class _PrivateOptimizer(Optimizer):
    """Base of the private optimizers: check, calibrate, charge, run, report."""

    _needs_transport = False

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        clip_norm: float = 1.0,
        step_size: float = 0.1,
        max_iterations: int = 100,
        output: str = "last",
        retraction: bool = False,
        accountant: PrivacyAccountant | None = None,
        random_state: int | None = None,
        verbosity: int = 1,
    ):
        check_target(epsilon, delta)
        if delta == 0:
            raise PublicValueError(
                "Gaussian noise cannot give delta=0; pass delta > 0, such as 1e-5."
            )
        check_scale(clip_norm=clip_norm)
        check_random_state(random_state)
        super().__init__(max_time=math.inf, max_iterations=max_iterations, verbosity=verbosity)
        self._epsilon, self._delta = float(epsilon), float(delta)
        self._clip_norm = float(clip_norm)
        self._moves = Moves(max_iterations, step_size, output, retraction)
        self._accountant, self._random_state = accountant, random_state

    def _solver(self, moves: Moves, n: int, dim: int) -> Solver:
        raise PublicNotImplementedError

    @quiet
    def run(
        self, problem: PerSampleProblem, *, initial_point: Any = None
    ) -> PrivateOptimizerResult:
        """Minimise privately; the whole run is charged before a record is read.

        Parameters
        ----------
        problem : PerSampleProblem
        initial_point : array, optional
            Public; the geometry's base point by default.  On negatively curved manifolds the run
            stays within 10 curvature radii of it, and it must lie within 17 of the base point.

        Returns
        -------
        PrivateOptimizerResult

        Raises
        ------
        TypeError
            For a plain pymanopt problem.
        BudgetExceededError
            If the accountant's ceiling would be exceeded; nothing is released.
        """
        if not isinstance(problem, PerSampleProblem):
            raise PublicTypeError(
                f"{type(self).__name__} needs a PerSampleProblem(manifold, cost, data), got "
                f"{type(problem).__name__}: in a plain pymanopt problem the records are already "
                "summed in one cost, so no record's gradient can be clipped and no privacy "
                "guarantee is possible."
            )
        geometry, n = problem.geometry, problem.problem.n
        domain, start = descent_domain(geometry, None, None, _start(geometry, initial_point))
        moves = dataclasses.replace(self._moves, domain=domain)
        rehearse(geometry, start, moves, self._needs_transport)
        solver = self._solver(moves, n, geometry.dim)
        event = solver.event if isinstance(solver, RiemannianGradientDescent) else solver.event(n)
        check_run(solver.noise_multipliers, geometry.dim)
        public = {
            "n": n,
            "manifold": str(geometry),
            "clip_norm": self._clip_norm,
            "arithmetic": INTEGERS,
            "releases": (Release("gradients", 1.0, "gaussian", geometry.dim),),
        }
        entry = charge(
            chosen_accountant(self._accountant),
            event,
            self,
            random_state=self._random_state,
            params={"unit": "record"},
            facts=public,
            at=(self._epsilon, self._delta),
        )
        target = self._epsilon, self._delta
        spent = PrivacySpent(
            *target, as_drawn(event, self._random_state), public=public, entry=entry
        )
        context = b""
        if self._random_state is not None:
            head = [type(self).__name__, json.dumps(event.to_dict(), sort_keys=True)]
            context = repr(head).encode() + data_digest(problem.problem.X, problem.problem.y)
        streams = NoiseStreams(self._random_state, context)
        shown = None
        if self._verbosity >= 1:
            name = type(self).__name__
            shown = ProgressBar(name, self._epsilon, self._delta, solver.moves.n_steps)
        started = time.time()
        # A warning of overflow would tell of some record.
        with (charged := Charged(entry)), np.errstate(all="ignore"):
            point = solver.solve(problem.problem, start, streams("descent"), shown)
        charged.raise_failure()
        self._initialize_log(optimizer_parameters={"clip_norm": self._clip_norm})
        return PrivateOptimizerResult(
            point=geometry.as_parts(np.asarray(point)),
            cost=math.nan,
            iterations=self._moves.n_steps,
            stopping_criterion="Terminated - all planned private steps done.",
            time=time.time() - started,
            log=self._log,
            privacy_spent=spent,
        )


class PrivateGradientDescent(_PrivateOptimizer):
    """DP-RGD as a pymanopt optimizer: full-batch noisy gradient descent.

    Parameters
    ----------
    epsilon, delta : float, default=1.0, 1e-5
        Privacy of a whole run, replace-one adjacency, n public.
    clip_norm : float, default=1.0
        Public Riemannian norm to which each record's gradient is shortened.
    step_size : float or sequence of float, default=0.1
        Public; there is no line search, because it would query the records.
    max_iterations : int, default=100
        Number of steps; all of them are done, there is no data-dependent stopping.
    output, retraction
        As in :class:`skriemdp._descent.trajectory.Moves`.
    accountant : PrivacyAccountant, optional
        Where runs are charged; the active accountant by default.
    random_state : int, optional
        For tests and studies only; the noise is then reproducible and protects nobody.
    verbosity : int, default=1
        1 or more shows a progress bar, 0 nothing; a cost is never shown.
    """

    def _solver(self, moves: Moves, n: int, dim: int) -> Solver:
        return RiemannianGradientDescent(
            mu=gaussian_mu(self._epsilon, self._delta),
            n_steps=moves.n_steps,
            step_size=moves.step_size,
            clip_norm=self._clip_norm,
            output=moves.output,
            retraction=moves.retraction,
            domain=moves.domain,
        )


class PrivateStochasticGradientDescent(_PrivateOptimizer):
    """DP-RSGD as a pymanopt optimizer: noisy gradient descent on random batches.

    Parameters
    ----------
    batch_size : float
        Expected number of records per step.
    epsilon, delta, clip_norm, step_size, max_iterations, output, retraction, accountant, \
random_state, verbosity
        As in :class:`PrivateGradientDescent`.
    sampling : {"poisson", "fixed-size"}, default="poisson"
    """

    def __init__(
        self,
        batch_size: int,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        sampling: str = "poisson",
        **settings: Any,
    ):
        super().__init__(epsilon, delta, **settings)
        check_option(tuple(SAMPLINGS), sampling=sampling)
        self._sampler = functools.partial(SAMPLINGS[sampling], batch_size)
        self._sampler()  # refuses sizes

    def _solver(self, moves: Moves, n: int, dim: int) -> Solver:
        target = self._epsilon, self._delta, self._clip_norm
        return calibrated_sgd(self._sampler(dim), moves, n, *target)


class PrivateVarianceReducedGradientDescent(PrivateStochasticGradientDescent):
    """DP-RSVRG as a pymanopt optimizer: noisy anchors and clipped gradient differences.

    Parameters
    ----------
    batch_size : float
    smoothness : float, optional
        Differences are clipped to this times the distance to the anchor; to `clip_norm` without
        it.
    epsilon, delta, clip_norm, step_size, max_iterations, output, retraction, accountant, \
random_state, verbosity
        As in :class:`PrivateGradientDescent`.
    sampling : {"poisson", "fixed-size"}, default="poisson"
    """

    _needs_transport = True

    def __init__(
        self,
        batch_size: int,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        smoothness: float | None = None,
        **settings: Any,
    ):
        super().__init__(batch_size, epsilon, delta, **settings)
        whole_epochs(max_iterations=self._moves.n_steps)
        self._smoothness = smoothness

    def _solver(self, moves: Moves, n: int, dim: int) -> Solver:
        target = self._epsilon, self._delta, self._clip_norm
        return calibrated_svrg(self._sampler(dim), moves, n, *target, self._smoothness)


def _start(geometry: Geometry, initial_point: Any) -> Any:
    if initial_point is None:
        return geometry.base_point
    if isinstance(initial_point, (list, tuple)):
        with contextlib.suppress(TypeError, ValueError):
            initial_point = geometry.from_parts(initial_point)
    point = public_array("initial_point", initial_point)
    if point.shape != geometry.shape or not bool(np.all(geometry.belongs(point))):
        raise PublicValueError(
            f"initial_point is not a point of {geometry}, shape {geometry.shape}."
        )
    return point
