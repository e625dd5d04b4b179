"""Public decisions before a linear model is trained: steps, step sizes, the public solution."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

__all__ = ["FULL_MATRIX_LIMIT", "default_steps", "public_minimizer"]

# Largest matrix that is decomposed in every step.
FULL_MATRIX_LIMIT = 100

_RIDGES = 10.0 ** np.arange(-5.0, 0.5)
_FOLDS = 5


def default_steps(preconditioner, n, size, mu, loss):
    """Number of steps and step size: a rule of public numbers (docs/user_guide/adagrad.md).

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
    """
    signal = n * mu / math.sqrt(size)
    n_steps = 80
    if preconditioner == "public":
        return n_steps, 0.5
    if preconditioner == "none":
        return n_steps, 10.0
    if preconditioner == "paper":
        return n_steps, 10.0
    step_size = 1.0 if signal < 20 else 3.0 if signal < 1500 else 10.0
    return n_steps, step_size


def public_minimizer(problem, penalty):
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
    Z = problem.rows.scores(np.eye(problem.rows.size), slice(None))
    whole = dataclasses.replace(problem, rows=problem.rows.in_basis(np.eye(problem.rows.size)))
    risks = []
    for ridge in _RIDGES:
        risk = 0.0
        for fold in range(_FOLDS):
            train = _part(whole, Z, folds != fold).minimize(np.maximum(penalty, ridge), 200)
            risk += _part(whole, Z, folds == fold).risk(train)
        risks.append(risk)
    return problem.minimize(np.maximum(penalty, _RIDGES[int(np.argmin(risks))]))


def _part(problem, Z, mask):
    rows = type(problem.rows)(Z[mask])
    return dataclasses.replace(problem, rows=rows, targets=problem.targets[mask])
