"""Plan of a linear model's fit, made from its parameters and public facts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from skriemdp._core.arithmetic import INTEGERS, MATRIX
from skriemdp._core.estimator import Plan
from skriemdp._core.manifold_input import public_array, warn_constant, warn_small_model
from skriemdp._core.parameters import read_labels
from skriemdp._core.work import Work
from skriemdp._descent.releases import FullBatch, PoissonSampler
from skriemdp._errors import PublicValueError
from skriemdp._linear_model.adagrad import NoisyAdaGrad
from skriemdp._linear_model.glm import (
    GeneralizedLinearLoss,
    LinearProblem,
    row_unit,
    scaled_targets,
    target_interval,
    unit_rows,
)
from skriemdp._linear_model.releases import ScaledMean
from skriemdp._location_scale.columns import ColumnRule
from skriemdp._location_scale.row_releases import (
    COUNT_SHARE,
    LABEL_CLIP,
    LEAST_FOR_MODEL,
    TARGET_CLIP,
    RowBounds,
    constant_shares,
    few_shares,
)
from skriemdp._mechanisms.budget import COUNT, GaussianBudget
from skriemdp._quiet import read_array
from skriemdp._validation import (
    check_count,
    check_fraction,
    check_nonnegative,
    check_option,
    check_positive,
    check_scale,
)
from skriemdp.geometry import Euclidean, as_geometry
from skriemdp.privacy._calibration import calibrate, gaussian_mu
from skriemdp.privacy._events import Event, compose

PRECONDITIONERS = ("auto", "noised", "diagonal", "norm", "paper", "none")
# Preconditioners that decompose a matrix in every step, and the largest matrix: time.
_FULL, _LARGEST_MATRIX = ("noised", "paper"), 100
# Names of the releases after the search.
GRADIENTS, CONSTANT = "gradients", "mean target"
# n mu over the root of the columns from which rows of regressors are whitened, and the most
# columns, whose moment is decomposed (benchmarks/regressors.py --part white).
_LEAST_WHITE, _WIDEST_WHITE = 400.0, 1000
# Steps unless signal or preconditioner ask for more.
_STEPS = 80
# From this n mu over the root of the parameters on, noise costs less than what few short steps
# leave, and than the bias of gradients that are cut short (benchmarks/adagrad.py): there
# "diagonal" takes longer steps, and more of them the less noise there is, and gradients of
# "log_loss" may have this share of the loss's own bound.
_LITTLE_NOISE = 500.0
_LONG_STEP, _LONG_RUNS = 7.0, ((2000.0, 240), (_LITTLE_NOISE, 160))
# Largest ridge; what is larger leaves no coefficients, and must not overflow.
_LARGEST_RIDGE = 1e100


@dataclass(frozen=True, eq=False)
class FitPlan:
    """A planned fit.

    Attributes
    ----------
    bounds : RowBounds
        Finds, or knows, where the rows are.
    targets : RowBounds or None
        Finds, or knows, where a regressor's targets are.
    solver : NoisyAdaGrad
        For full batches with the least budget that the bounds leave; it then gets what is left.
    sampled : bool
        Whether batches are sampled; the noise of `solver` is then final.
    loss : GeneralizedLinearLoss
    start : ndarray of shape (size, n_outputs)
        Public.
    basis : ndarray of shape (p + intercept, k) or None
        Of a fixed public subspace.
    public_weights : ndarray of shape (size, n_outputs) or None
        Fitted to the public rows.
    """

    bounds: RowBounds
    targets: RowBounds | None
    solver: NoisyAdaGrad
    sampled: bool
    loss: GeneralizedLinearLoss
    start: np.ndarray
    basis: np.ndarray | None
    public_weights: np.ndarray | None

    @property
    def usual_mu(self) -> float:
        """Mu that remains for the model if the rows lie near enough for no far steps."""
        left = self.bounds.usual_mu**2 - _share(self.targets) * self.bounds.mu**2
        return math.sqrt(left)


@dataclass(frozen=True, eq=False)
class ConstantPlan:
    """A planned mean of the targets in place of a model; nothing is asked of the rows.

    Attributes
    ----------
    targets : RowBounds
        Finds where the targets are.
    mean : ScaledMean
    preconditioner : str
        Of the model that there is not.
    """

    targets: RowBounds
    mean: ScaledMean
    preconditioner: str

    @property
    def usual_mu(self) -> float:
        """Mu that remains for the mean."""
        return self.targets.mu * math.sqrt(1.0 - self.targets.share - COUNT_SHARE)


class _Directions(NamedTuple):
    """Public directions in which a model moves.

    Attributes
    ----------
    basis : ndarray of shape (p + intercept, k) or None
        Those of the whole run.
    at : callable or None
        Basis of each step, where it moves.
    width, size : int
        Numbers of coordinates of a gradient, and of the weights, for each output.
    """

    basis: np.ndarray | None
    at: Callable | None
    width: int
    size: int


def plan_fit(model: Any, facts: dict[str, Any]) -> Plan:
    """The plan of :class:`skriemdp.PrivateNoisyAdaGrad` `model`; nothing private is seen."""
    n, p, classes = facts["n"], facts["p"], facts["classes"]
    grouped = facts.get("grouped", False)
    _check_parameters(model, n)
    _check_manifold(model.manifold, p)
    n_outputs = 1 if classes is None or len(classes) == 2 else len(classes)
    # "huber" turns linear at half of half the width of `target_range`.
    loss = GeneralizedLinearLoss(model.loss, n_outputs, 0.5)
    work = _work(model, n, p, n_outputs)
    mu, intercept = gaussian_mu(model.epsilon, model.delta), bool(model.fit_intercept)
    public_X = _public_rows(model, p, facts["sparse"])
    interval = _interval(model, classes)
    targets = None if classes is not None else _target_bounds(n, mu, interval)
    few = targets is not None and targets.search is not None and n * mu < LEAST_FOR_MODEL
    plain = not (facts["sparse"] or grouped or public_X is not None or model.batch_size)
    bounds = _row_bounds(model, facts, mu, public_X, plain)
    center, norm = bounds.center, bounds.norm
    # Rows that a run does not round are kept as it sees them.
    if (grouped or model.subspace is not None) and not facts["sparse"]:
        work = work.plus(16.0 * n * p, "the centred and scaled copies of X")
    searched = bounds.share + _share(targets) + COUNT_SHARE
    rest = mu * math.sqrt(1.0 - searched)
    public = None
    if public_X is not None:
        assert center is not None and norm is not None  # from the public rows, where not given
        rows = unit_rows(public_X - center if center.any() else public_X, norm, intercept)
        public = LinearProblem(rows, _public_targets(model, public_X, classes, interval), loss)
    ways = _directions(model, p, public)
    warm = model.public_y is not None
    if few:
        warn_constant(n * mu, LEAST_FOR_MODEL, "target_range")
    elif not warm:
        warn_small_model(n, n * rest / math.sqrt(ways.width * n_outputs))
    penalty = None
    if norm is not None:
        penalty = ridge_penalty(model.alpha, norm, row_unit(intercept), ways.size, intercept)
        _check_ridge(model.alpha, float(penalty[0, 0]))
    solver = _solver(model, n, rest, loss, ways, grouped)
    if few:
        public_facts = _public_facts(model, facts, None, None, None)
        return _constant_plan(n, mu, solver.preconditioner, public_facts, work)
    sampled = type(solver.sampler) is PoissonSampler
    budget = GaussianBudget(mu)
    bounds.reserve(budget)
    if targets is not None:
        targets.reserve(budget)
    budget.take(COUNT_SHARE, COUNT, 1)
    budget.rest(GRADIENTS, ways.width * n_outputs)
    first = GaussianBudget(mu * math.sqrt(searched))
    solver = _sampled(solver, model, first.event, n) if sampled else solver.with_mu(rest)
    if not (ways.at is not None or grouped) and (ways.basis is not None or not facts["sparse"]):
        # A sparse copy is as large as X, and the size of X is not public.
        projected = 0.0 if ways.basis is None else 2.0 * n * ways.width
        copies = 8.0 * (n * (p + 1.0) + projected)
        work = work.plus(copies, "the rounded copy of X, in exact integers")
    # A search spends what it needs, and less noise needs more bits.
    for run in (solver, solver if sampled else solver.with_mu(bounds.mu)):
        run.check((ways.width, n_outputs))
    start, weights = np.zeros((ways.size, n_outputs)), None
    if public is not None and public.targets is not None:
        from skriemdp._linear_model.public_rows import public_minimizer

        start = weights = public_minimizer(public.in_basis(ways.basis), penalty)
    if solver.max_norm is not None:
        start = start * min(1.0, solver.max_norm / max(float(np.linalg.norm(start)), 1e-300))
    return Plan(
        event=compose([first.event, solver.event(n)]) if sampled else budget.event,
        settings=FitPlan(bounds, targets, solver, sampled, loss, start, ways.basis, weights),
        public=_public_facts(model, facts, center, norm, interval),
        work=work,
        arithmetic=MATRIX if solver.preconditioner == "paper" else INTEGERS,
        releases=budget.releases,
    )


def _row_bounds(
    model: Any, facts: dict[str, Any], mu: float, public_X: Any, plain: bool
) -> RowBounds:
    """Search for where the rows are, or what is known of it; it may whiten `plain` ones."""
    n, p = facts["n"], facts["p"]
    center, norm = _bounds(model, p, facts["sparse"], public_X)
    rule = None
    # Public directions are those of rows as they are; scales of many columns fill a sparse table.
    if model.subspace is None and not (facts["sparse"] and p > 512):
        rule = ColumnRule(TARGET_CLIP if facts["classes"] is None else LABEL_CLIP)
    bounds = RowBounds(n, p, mu, center, norm, column_rule=rule)
    if facts["classes"] is None and plain and _whitens(model, p, n * mu):
        return dataclasses.replace(bounds, white=True)
    return bounds


def _directions(model: Any, p: int, public: LinearProblem | None) -> _Directions:
    """The directions that `subspace` names; all of them without one."""
    intercept = bool(model.fit_intercept)
    size = p + intercept
    if model.subspace is None:
        return _Directions(None, None, size, size)
    if callable(model.subspace):
        width = _basis(model.subspace(1), p, intercept).shape[1]
        return _Directions(None, model.subspace, width, size)
    basis = _basis(model.subspace, p, intercept, None if public is None else public.rows)
    return _Directions(basis, None, basis.shape[1], basis.shape[1])


def _solver(
    model: Any,
    n: int,
    rest: float,
    loss: GeneralizedLinearLoss,
    ways: _Directions,
    grouped: bool,
) -> NoisyAdaGrad:
    """The run whose noise is yet to be set; `rest` is the least mu that is left for it."""
    width, warm = ways.width, model.public_y is not None
    sampled = model.batch_size is not None and model.batch_size < n
    # Batches have more noise than their mu says, people's gradients are short, and long steps leave
    # a public start: the rule was tried on none of them.
    little_noise = noise_is_small(n, width, rest) and not (sampled or grouped or warm)
    name = model.preconditioner
    if name == "auto":
        cheap = "diagonal" if little_noise else "norm"
        name = cheap if model.subspace is None else "noised"
    _check_preconditioner(name, width, ways.at is not None)
    n_steps, step_size, first_step_size = default_steps(
        name, n, width, rest, loss, warm, little_noise
    )
    if model.batch_size is not None:
        # The steps of sampled runs come from public sizes alone, so that a smaller epsilon
        # never buys more of them and never costs a ledger more.
        n_steps, _, _ = default_steps(name, n, width, 1.0, loss, warm)
    n_steps = n_steps if model.n_steps is None else int(model.n_steps)
    if model.step_size is not None:
        step_size, first_step_size = float(model.step_size), None
    intercept, bases = bool(model.fit_intercept), None
    if ways.at is not None:
        p = ways.size - intercept
        bases = [_basis(ways.at(step), p, intercept) for step in range(1, n_steps + 1)]
    usual_clip, unit = default_clip(loss, name, little_noise, grouped), row_unit(intercept)
    sampler: Any = FullBatch()
    if sampled:
        sampler = PoissonSampler(float(model.batch_size), width * loss.n_outputs)
    return NoisyAdaGrad(
        sampler=sampler,
        n_steps=n_steps,
        noise_multiplier=1.0,
        moment_multiplier=1.0 if name == "paper" else None,
        step_size=step_size,
        first_step_size=first_step_size,
        clip_norms=envelope(model.clip_norm, n_steps, loss.residual_bound, usual_clip),
        preconditioner=name,
        max_norm=None if model.max_norm is None else float(model.max_norm) / unit,
        basis_at=None if bases is None else (lambda step: bases[step - 1]),
        grouped=grouped,
    )


def _constant_plan(
    n: int, mu: float, preconditioner: str, public: dict[str, Any], work: Work
) -> Plan:
    """The plan of the mean of targets whose range is found, with all of the budget."""
    targets, mean = RowBounds(n, 1, mu, shares=constant_shares()), ScaledMean(n)
    budget = GaussianBudget(mu)
    targets.reserve(budget)
    budget.take(COUNT_SHARE, COUNT, 1)
    least = budget.rest(CONSTANT, 1)
    for one in (least, mu):  # what the search leaves lies in between
        mean.bounded_set.check(one)
    return Plan(
        event=budget.event,
        settings=ConstantPlan(targets, mean, preconditioner),
        public=public,
        work=work,
        arithmetic=INTEGERS,
        releases=budget.releases,
    )


def _whitens(model: Any, p: int, signal: float) -> bool:
    """Whether a regressor's rows are whitened; a ridge and a ball are of the rows as they are."""
    plain = model.alpha == 0 and model.max_norm is None and model.subspace is None
    usual = model.preconditioner in ("auto", "norm", "diagonal")
    seen = 1 < p <= _WIDEST_WHITE and signal >= _LEAST_WHITE * math.sqrt(p)
    return plain and usual and seen and model.feature_norm == "private"


def _basis(*requested: Any) -> np.ndarray:
    from skriemdp._linear_model.public_rows import orthonormal_basis

    return orthonormal_basis(*requested)


def _signal(n: int, size: int, mu: float) -> float:
    """The largest signal in units of a run's noise, for a gradient of this many coordinates."""
    return n * mu / math.sqrt(size)


def noise_is_small(n: int, size: int, mu: float) -> bool:
    """Whether a run's noise is small beside what its other errors may be: public numbers only.

    Parameters
    ----------
    n : int
        Number of records.
    size : int
        Number of parameters per output.
    mu : float
        Gaussian differential privacy parameter of the whole run.
    """
    return _signal(n, size, mu) >= _LITTLE_NOISE


def default_clip(
    loss: GeneralizedLinearLoss, preconditioner: str, little_noise: bool, grouped: bool
) -> float:
    """The bound of a row's gradient that is not given, or of a person's mean gradient.

    Shorter gradients need less noise, and leave a bias that no budget removes: coefficients too
    large.  Runs that end early leave them too small, so the bound is wider for "diagonal" only,
    which goes on for longer there (docs/theory/adagrad.md, section 4).
    """
    if grouped:
        # Averages are short, because rows that are fitted well pull in opposite directions
        # (docs/benchmarks.md).
        return 0.125 * (1.0 if math.isinf(loss.residual_bound) else loss.residual_bound)
    if loss.name == "log_loss" and preconditioner == "diagonal" and little_noise:
        return 0.75 * loss.residual_bound
    return loss.clip_norm


def default_steps(
    preconditioner: str,
    n: int,
    size: int,
    mu: float,
    loss: GeneralizedLinearLoss,
    public_start: bool = False,
    little_noise: bool = False,
) -> tuple[int, float, float | None]:
    """Steps, step size and first step size: a rule of public numbers (benchmarks/adagrad.py).

    Parameters
    ----------
    preconditioner : str
    n : int
        Number of records.
    size : int
        Number of parameters per output.
    mu : float
        Gaussian differential privacy parameter of the whole run.
    loss : GeneralizedLinearLoss
    public_start : bool, default=False
        Whether the run starts from a public solution, which long steps in noise would only leave.
    little_noise : bool, default=False
        Whether "diagonal" may go far, as :func:`noise_is_small` says.

    Returns
    -------
    n_steps : int
    step_size : float
        The longest, where there is a first one.
    first_step_size : float or None
        Of "noised", whose steps grow with the distance that its gradients are seen to cover.
    """
    signal = _signal(n, size, mu)
    if preconditioner == "noised":
        step_size = 7.0 * min(1.0, math.sqrt(signal / 60.0))
    elif preconditioner == "diagonal" and little_noise:
        step_size = _LONG_STEP
    elif preconditioner in ("norm", "diagonal"):
        step_size = 3.0 * min(1.0, math.sqrt(signal / 10.0))
    else:
        step_size = 10.0
    if public_start:
        step_size *= min(1.0, 0.25 * max(1.0, math.sqrt(signal / 200.0)))
    # Coefficients shrink as the loss curves more: a quarter is the logistic loss's curvature.
    unit = min(1.0, 0.25 / loss.curvature)
    if preconditioner == "noised":
        # Most steps, and the largest first one: benchmarks/adagrad.py.
        n_steps = _STEPS if signal < 60.0 else 120
        return n_steps, step_size * unit, min(step_size, 1.8) * unit
    n_steps = _STEPS
    if preconditioner == "diagonal" and little_noise:
        n_steps = next(steps for least, steps in _LONG_RUNS if signal >= least)
    return n_steps, step_size * unit, None


def envelope(
    clip_norm: Callable[..., Any] | list[float] | None, n_steps: int, bound: float, usual: float
) -> np.ndarray:
    """Clip norms of the steps, shape ``(n_steps,)``: None, a number, a sequence or a function.

    None is `usual`.  Never above `bound`, the loss's own bound of a record's gradient: noise for
    more would be waste.
    """
    if callable(clip_norm):
        norms = [clip_norm(step) for step in range(1, n_steps + 1)]
    elif clip_norm is None:
        norms = [usual] * n_steps
    elif np.ndim(clip_norm):
        norms = list(clip_norm)
        if len(norms) != n_steps:
            raise PublicValueError(f"clip_norm has {len(norms)} values for n_steps={n_steps}.")
    else:
        norms = [clip_norm] * n_steps
    for norm in norms:
        check_positive(clip_norm=norm)
    return np.minimum(np.asarray(norms, dtype=float), bound)


def ridge_penalty(alpha: float, norm: Any, unit: float, size: int, intercept: bool) -> np.ndarray:
    """Ridge per weight of scaled rows, shape ``(size, 1)``; the intercept, the last, pays none.

    `norm` is what rows are divided by, one number or one for each weight but the intercept.
    """
    penalty = np.zeros((size, 1))
    with np.errstate(over="ignore"):
        ridge = np.minimum(float(alpha) * np.square(unit / norm), _LARGEST_RIDGE)
    penalty[: size - intercept, 0] = ridge
    return penalty


def _check_ridge(alpha: float, ridge: float) -> None:
    if ridge >= _LARGEST_RIDGE:
        raise PublicValueError(
            f"alpha={alpha!r} is {ridge:.3g} or more for rows of norm one; pass a smaller alpha."
        )


def _share(targets: RowBounds | None) -> float:
    return 0.0 if targets is None else targets.share


def _interval(model: Any, classes: np.ndarray | None) -> tuple[float, float] | None:
    """The public bounds of a regressor's targets; None where they are found, or are labels."""
    if classes is not None:
        return None
    if not isinstance(model.target_range, str):
        return target_interval(model.target_range)
    check_option(("private",), target_range=model.target_range)
    if model.public_y is None:
        return None
    reading: Any = {"ensure_2d": False, "dtype": np.float64, "ensure_min_samples": 0}
    values = read_array(model.public_y, "public_y", **reading)
    low, high = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
    if not low < high:
        raise PublicValueError(
            "public_y needs two values at least to tell a range; pass target_range=(low, high)."
        )
    # Others may lie half as far again beyond the public ones.
    return target_interval((1.5 * low - 0.5 * high, 1.5 * high - 0.5 * low))


def _target_bounds(n: int, mu: float, interval: tuple[float, float] | None) -> RowBounds:
    """Return the search for centre and scale of the targets, as rows of one number."""
    if interval is None:
        return RowBounds(n, 1, mu, shares=few_shares(n * mu))
    low, high = interval
    return RowBounds(n, 1, mu, np.array([0.5 * (low + high)]), 0.5 * (high - low))


def _sampled(solver: NoisyAdaGrad, model: Any, first: Event, n: int) -> NoisyAdaGrad:
    """The solver with the noise that keeps the target together with the searches and the count."""
    from skriemdp._descent.stochastic import NOISE_BRACKET

    def event(noise: float) -> Event:
        run = dataclasses.replace(solver, noise_multiplier=noise)
        return compose([first, run.event(n)])

    noise = calibrate(event, model.epsilon, model.delta, NOISE_BRACKET)
    return dataclasses.replace(solver, noise_multiplier=noise)


def _work(model: Any, n: int, p: int, n_outputs: int) -> Work:
    """Memory and steps; refused already here, because public rows are worked on in planning."""
    steps = 1 if model.n_steps is None else int(model.n_steps)
    entries, cause = 6.0 * p * n_outputs + 3.0 * n * n_outputs, "the number of classes"
    if model.public_X is not None:
        entries += 3.0 * p * p
        cause = f"the {p} x {p} matrices of public_X"
    if callable(model.subspace):
        shape = np.shape(model.subspace(1))
        entries += steps * float(math.prod(shape))
        cause = "a basis per step of a callable subspace"
    return Work(
        8.0 * entries,
        steps,
        cause,
        6.0 * n * p * n_outputs * (100 if model.n_steps is None else steps),
    ).check()


def _public_facts(
    model: Any,
    facts: dict[str, Any],
    center: np.ndarray | None,
    norm: float | None,
    interval: tuple[float, float] | None,
) -> dict[str, Any]:
    public: dict[str, Any] = {"n": facts["n"]}
    if norm is not None:
        public["feature_norm"] = norm
    if center is not None and center.any():
        public["center"] = center
    if interval is not None:
        public["target_range"] = interval
    if facts["classes"] is not None:
        public["classes"] = facts["classes"]
    if model.subspace is not None:
        public["subspace"] = "given"
    if model.public_X is not None:
        public["public_X"] = "given"
    return public


def _check_parameters(model: Any, n: int) -> None:
    check_fraction(delta=model.delta)
    check_option(PRECONDITIONERS, preconditioner=model.preconditioner)
    if isinstance(model.feature_norm, str):
        check_option(("private",), feature_norm=model.feature_norm)
    else:
        check_scale(feature_norm=model.feature_norm)
    check_nonnegative(alpha=model.alpha)
    for name in ("max_norm", "step_size", "batch_size"):
        if getattr(model, name) is not None:
            check_positive(**{name: getattr(model, name)})
    if model.n_steps is not None:
        check_count(n_steps=model.n_steps)
    if model.batch_size is not None and model.batch_size > n:
        raise PublicValueError(f"batch_size={model.batch_size} exceeds the number of rows n={n}.")


def _check_manifold(manifold: Any, p: int) -> None:
    """ValueError unless coefficients of p features are points of `manifold`."""
    if manifold is None:
        return
    geometry = as_geometry(manifold, point_shape=(p,))
    if not geometry.is_flat:
        raise PublicValueError(
            f"manifold={geometry} is not flat: AdaGrad divides by what gradients at different "
            "points add up to, in one set of axes for all of them, which a curved space has not. "
            f"Pass Euclidean({p}), or minimise a cost on that manifold by PrivateRiemannianERM."
        )
    if geometry != Euclidean(p):
        raise PublicValueError(
            f"manifold={geometry} does not hold the coefficients of {p} features; pass "
            f"Euclidean({p}), for each class the same."
        )


def _check_preconditioner(name: str, width: int, moving: bool) -> None:
    if name in _FULL and width > _LARGEST_MATRIX:
        raise PublicValueError(
            f"preconditioner={name!r} works with a matrix of size {width}, more than "
            f"{_LARGEST_MATRIX}; pass a public subspace, or preconditioner='diagonal'."
        )
    if name == "diagonal" and moving:
        raise PublicValueError(
            "preconditioner='diagonal' belongs to fixed axes; with a callable subspace use "
            "'noised', 'norm', 'paper' or 'none'."
        )


# -- centre, norm and public rows -----------------------------------------------------------------


def _bounds(
    model: Any, p: int, sparse: bool, public_X: Any
) -> tuple[np.ndarray | None, float | None]:
    """Public centre and norm; None for what is found privately."""
    auto, center = model.feature_norm == "private", None
    if model.center is not None:
        center = public_array("center", model.center)
        if center.shape != (p,) or not (np.abs(center) <= 1e60).all():
            raise PublicValueError(
                f"center must hold {p} finite numbers up to 1e60, one per feature."
            )
        if center.any() and not model.fit_intercept:
            raise PublicValueError(
                "center= moves the origin, through which a model without an intercept must pass; "
                "pass fit_intercept=True or center=None."
            )
        if center.any() and sparse:
            raise PublicValueError(
                "center= would fill the sparse X; pass X.toarray() or center=None."
            )
    elif not auto or sparse or not model.fit_intercept:
        center = np.zeros(p)
    elif public_X is not None:
        center = public_X.mean(axis=0)
    if not auto:
        return center, float(model.feature_norm)
    if public_X is None:
        return center, None
    assert center is not None
    rows = public_X - center if center.any() else public_X
    squares = (
        rows.multiply(rows).sum(axis=1) if issparse(rows) else np.einsum("ij,ij->i", rows, rows)
    )
    lengths = np.sqrt(np.asarray(squares, dtype=float).ravel())
    # By convention, this quantile of the norms of public rows bounds all rows.
    return center, float(np.clip(np.quantile(lengths, 0.95), 1e-60, 1e60))


def _public_rows(model: Any, p: int, sparse: bool) -> Any:
    if model.public_X is None:
        if model.public_y is not None:
            raise PublicValueError("public_y was given without public_X.")
        return None
    X = read_array(model.public_X, "public_X", accept_sparse="csr", dtype=np.float64)
    if X.shape[1] != p:
        raise PublicValueError(f"public_X has {X.shape[1]} columns, X has {p}.")
    return X.toarray() if issparse(X) and not sparse else X


def _public_targets(
    model: Any,
    public_X: Any,
    classes: np.ndarray | None,
    interval: tuple[float, float] | None,
) -> np.ndarray | None:
    if model.public_y is None:
        return None
    y = np.asarray(model.public_y)
    if y.shape != (public_X.shape[0],):
        raise PublicValueError(f"public_y has shape {y.shape}, expected {(public_X.shape[0],)}.")
    if interval is None:
        _, places = read_labels(classes if model.classes is None else model.classes, y, "public_y")
        return places.astype(float)
    return scaled_targets(np.asarray(y, dtype=float), *interval)
