"""Uses of public rows before a linear model is trained: subspace and solution."""

from __future__ import annotations

import dataclasses
import numbers
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from skriemdp._errors import PublicValueError
from skriemdp._validation import check_count

if TYPE_CHECKING:
    from skriemdp._linear_model.glm import LinearProblem

_RIDGES = 10.0 ** np.arange(-5.0, 0.5)
_FOLDS = 5


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
            raise PublicValueError("subspace as a number of dimensions needs public_X.")
        rows = public_rows.toarray() if issparse(public_rows) else public_rows
        vectors = np.linalg.svd(rows[:, :p], full_matrices=False)[2]
        if subspace > len(vectors):
            raise PublicValueError(
                f"subspace={subspace} exceeds the {len(vectors)} dimensions of public_X."
            )
        basis = vectors[:subspace].T
    else:
        basis = np.asarray(subspace, dtype=float)
        if basis.ndim != 2 or basis.shape[0] != p or not 1 <= basis.shape[1] <= p:
            raise PublicValueError(f"subspace must have shape ({p}, k), got {basis.shape}.")
        if not np.isfinite(basis).all() or np.linalg.matrix_rank(basis) < basis.shape[1]:
            raise PublicValueError("subspace must have finite, linearly independent columns.")
        basis = np.linalg.qr(basis)[0]
    if not intercept:
        return basis
    extended = np.zeros((p + 1, basis.shape[1] + 1))
    extended[:p, :-1] = basis
    extended[p, -1] = 1.0
    return extended


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
