"""Public decisions before a linear model is trained: steps, step sizes, the public solution."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from skriemdp._validation import check_count, check_positive

if TYPE_CHECKING:
    from skriemdp.linear_model.glm import GeneralizedLinearLoss, LinearProblem


__all__ = [
    "FULL_MATRIX_LIMIT",
    "default_clip",
    "default_steps",
    "envelope",
    "noise_is_small",
    "orthonormal_basis",
    "public_curvature",
    "public_minimizer",
]

# Largest matrix that is decomposed in every step.
FULL_MATRIX_LIMIT = 100

_STEPS = 80
# From this n mu over the root of the parameters on, noise costs less than what few short steps
# leave, and than the bias of gradients that are cut short (docs/benchmarks.md): there
# "diagonal" takes longer steps, and more of them the less noise there is, and gradients of
# "log_loss" may have this share of the loss's own bound.
_LITTLE_NOISE = 800.0
_LONG_STEP, _LONG_RUNS = 7.0, ((2000.0, 240), (_LITTLE_NOISE, 160))
_WIDE_CLIP = 0.75
# Of "noised" from where on noise does not shorten its longest step, and the first of its steps.
_MANY_STEPS = 120
_FIRST_STEP = 1.8
_RIDGES = 10.0 ** np.arange(-5.0, 0.5)
_FOLDS = 5


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


def default_clip(loss: GeneralizedLinearLoss, preconditioner: str, little_noise: bool) -> float:
    """The bound of a row's gradient that is not given.

    Shorter gradients need less noise, and leave a bias that no budget removes: coefficients too
    large.  Runs that end early leave them too small, so the bound is wider for "diagonal" only,
    which goes on for longer there (docs/theory/adagrad.md, section 4).
    """
    if loss.name == "log_loss" and preconditioner == "diagonal" and little_noise:
        return _WIDE_CLIP * loss.residual_bound
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
    """Steps, step size and first step size: a rule of public numbers (docs/benchmarks.md).

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
        step_size = {"public": 0.5, "none": 10.0, "paper": 10.0}[preconditioner]
        if preconditioner == "public":
            return _STEPS, step_size, None  # its metric holds the curvature already
    if public_start:
        step_size *= min(1.0, 0.25 * max(1.0, math.sqrt(signal / 200.0)))
    # Coefficients shrink as the loss curves more: a quarter is the logistic loss's curvature.
    unit = min(1.0, 0.25 / loss.curvature)
    if preconditioner == "noised":
        n_steps = _STEPS if signal < 60.0 else _MANY_STEPS
        return n_steps, step_size * unit, min(step_size, _FIRST_STEP) * unit
    n_steps = _STEPS
    if preconditioner == "diagonal" and little_noise:
        n_steps = next(steps for least, steps in _LONG_RUNS if signal >= least)
    return n_steps, step_size * unit, None


def envelope(
    clip_norm: Callable[..., Any] | list[float] | None,
    n_steps: int,
    bound: float,
    usual: float,
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
            raise ValueError(f"clip_norm has {len(norms)} values for n_steps={n_steps}.")
    else:
        norms = [clip_norm] * n_steps
    for norm in norms:
        check_positive(clip_norm=norm)
    return np.minimum(np.asarray(norms, dtype=float), bound)


def orthonormal_basis(
    subspace: int | np.ndarray, p: int, intercept: bool, public_rows: Any = None
) -> np.ndarray:
    """Orthonormal basis of a public subspace, shape (p + intercept, k + intercept).

    Parameters
    ----------
    subspace : array-like of shape (p, k), or int
        Spanning columns, or the number of leading right singular vectors of `public_rows`.
    p : int
    intercept : bool
        Whether to add an axis for the intercept.
    public_rows : ndarray or CSR matrix, optional
    """
    if isinstance(subspace, numbers.Integral) and not isinstance(subspace, bool):
        check_count(subspace=subspace)
        if public_rows is None:
            raise ValueError("subspace as a number of dimensions needs public_X.")
        rows = public_rows.toarray() if issparse(public_rows) else public_rows
        vectors = np.linalg.svd(rows[:, :p], full_matrices=False)[2]
        if subspace > len(vectors):
            raise ValueError(
                f"subspace={subspace} exceeds the {len(vectors)} dimensions of public_X."
            )
        basis = vectors[:subspace].T
    else:
        basis = np.asarray(subspace, dtype=float)
        if basis.ndim != 2 or basis.shape[0] != p or not 1 <= basis.shape[1] <= p:
            raise ValueError(f"subspace must have shape ({p}, k), got {basis.shape}.")
        if not np.isfinite(basis).all() or np.linalg.matrix_rank(basis) < basis.shape[1]:
            raise ValueError("subspace must have finite, linearly independent columns.")
        basis = np.linalg.qr(basis)[0]
    if not intercept:
        return basis
    extended = np.zeros((p + 1, basis.shape[1] + 1))
    extended[:p, :-1] = basis
    extended[p, -1] = 1.0
    return extended


def public_curvature(problem: LinearProblem, basis: np.ndarray | None, penalty: Any) -> np.ndarray:
    """Bound of the Hessian on public rows: ``curvature Z'Z / m``, in `basis`, plus the ridge."""
    Z = problem.in_basis(basis).rows
    moment = Z.T @ Z
    moment = moment.toarray() if issparse(moment) else moment
    return problem.loss.curvature * moment / problem.n + np.diag(penalty[:, 0])


def public_minimizer(problem: LinearProblem, penalty: Any) -> np.ndarray:
    """Minimiser on public rows; the ridge is chosen by cross-validation among them.

    Parameters
    ----------
    problem : LinearProblem
    penalty : ndarray of shape (size, 1)
        Ridge that the user asked for; never less.

    Returns
    -------
    ndarray of shape (size, n_outputs)
    """
    n = problem.n
    if n < 2 * _FOLDS:
        return problem.minimize(np.maximum(penalty, _RIDGES[-2]))
    folds = np.arange(n) % _FOLDS
    risks = []
    for ridge in _RIDGES:
        risk = 0.0
        for fold in range(_FOLDS):
            train = _part(problem, folds != fold).minimize(np.maximum(penalty, ridge), 200)
            risk += _part(problem, folds == fold).risk(train)
        risks.append(risk)
    return problem.minimize(np.maximum(penalty, _RIDGES[int(np.argmin(risks))]))


def _part(problem: LinearProblem, mask: np.ndarray) -> LinearProblem:
    chosen = np.flatnonzero(mask)
    return dataclasses.replace(problem, rows=problem.rows[chosen], targets=problem.targets[chosen])
