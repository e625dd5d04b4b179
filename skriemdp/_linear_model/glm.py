"""Generalised linear losses: a record's gradient is ``z_i r_i'``, its row times its residual.

So a clipped sum costs two products with the data matrix, whatever the number of parameters, and no
gradient is formed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import hstack, issparse
from scipy.special import expit, log_expit, logsumexp, softmax

from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._groups import Groups
from skriemdp._location_scale.rows import row_products
from skriemdp._mechanisms.bounded_sets import RoundedRows
from skriemdp._validation import shown

CLASSIFICATION = ("log_loss", "hinge")
LOSSES = (*CLASSIFICATION, "squared_error", "huber")


@dataclass(frozen=True)
class GeneralizedLinearLoss:
    """A convex loss of a record's linear scores.

    Parameters
    ----------
    name : {"log_loss", "hinge", "squared_error", "huber"}
    n_outputs : int, default=1
        Scores per record: 1 for two classes and for regression, else the number of classes (softmax
        for "log_loss", Crammer and Singer 2001 for "hinge").
    threshold : float, default=0.5
        Where "huber" turns from quadratic to linear.
    """

    name: str
    n_outputs: int = 1
    threshold: float = 0.5

    @property
    def residual_bound(self) -> float:
        """Largest norm of a residual, whatever the record.

        Binary residuals lie in [-1, 1].  For more classes ``|p - e_y|^2 = (1 - p_y)^2 + sum of the
        other p_j^2 <= 2 (1 - p_y)^2 <= 2``, likewise for the hinge's ``e_j - e_y``.
        """
        if self.name == "squared_error":
            return math.inf
        if self.name == "huber":
            return self.threshold
        return 1.0 if self.n_outputs == 1 else math.sqrt(2.0)

    @property
    def clip_norm(self) -> float:
        """Default bound to which gradients are clipped.

        That of "log_loss" is a residual's norm where all scores are zero: ``1/2``, and
        ``sqrt(1 - 1/k)`` for k classes.  Longer ones belong to records on the wrong side.
        """
        if self.name == "log_loss":
            return 0.5 if self.n_outputs == 1 else math.sqrt(1.0 - 1.0 / self.n_outputs)
        return 1.0 if math.isinf(self.residual_bound) else self.residual_bound

    @property
    def curvature(self) -> float:
        """Bound of the second derivative along a score (1 for the hinge, which has none)."""
        if self.name == "log_loss":
            return 0.25 if self.n_outputs == 1 else 0.5
        return 1.0

    def residuals(
        self, scores: np.ndarray, targets: np.ndarray, batch_invariant: bool = False
    ) -> np.ndarray:
        """Derivative of each record's loss in its scores; both ``(b, n_outputs)``.

        `targets` are 0 or 1 for two classes, class numbers for more (both ``(b,)``), or reals.
        With `batch_invariant` a record's is the same, bitwise, in a batch of any length.
        """
        if self.name == "log_loss":
            if self.n_outputs == 1:
                # NumPy's exponential takes a sixth of the time, but a single number another way.
                found = expit(scores) if batch_invariant else _logistic(scores)
                found -= targets[:, None]
                return found
            scores = softmax(scores, axis=1)
            scores[np.arange(len(scores)), targets.astype(np.intp)] -= 1.0
            return scores
        if self.name == "hinge":
            if self.n_outputs == 1:
                sign = 2.0 * targets[:, None] - 1.0
                return np.where(sign * scores < 1.0, -sign, 0.0)
            rows, margins, rival = self._rivals(scores, targets)
            residuals = np.zeros_like(scores)
            active = margins < 1.0
            residuals[rows[active], rival[active]] = 1.0
            residuals[rows[active], targets.astype(np.intp)[active]] = -1.0
            return residuals
        difference = scores - targets[:, None]
        if self.name == "huber":
            difference = np.clip(difference, -self.threshold, self.threshold)
        return difference

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Loss of each record, shape ``(b,)``."""
        if self.name == "log_loss":
            if self.n_outputs == 1:
                return -log_expit((2.0 * targets - 1.0) * scores[:, 0])
            own = scores[np.arange(len(scores)), targets.astype(np.intp)]
            return logsumexp(scores, axis=1) - own
        if self.name == "hinge":
            if self.n_outputs == 1:
                return np.maximum(0.0, 1.0 - (2.0 * targets - 1.0) * scores[:, 0])
            return np.maximum(0.0, 1.0 - self._rivals(scores, targets)[1])
        size = np.abs(scores[:, 0] - targets)
        if self.name == "squared_error":
            return 0.5 * size**2
        core = np.minimum(size, self.threshold)
        return core * (size - 0.5 * core)

    def _rivals(
        self, scores: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row numbers, margins over the best other class, and that class."""
        rows, own = np.arange(len(scores)), targets.astype(np.intp)
        others = scores.copy()
        others[rows, own] = -np.inf
        rival = others.argmax(axis=1)
        return rows, scores[rows, own] - others[rows, rival], rival


def _logistic(scores: np.ndarray) -> np.ndarray:
    """``1 / (1 + exp(-scores))``."""
    found = np.negative(scores)
    with np.errstate(over="ignore"):
        np.exp(found, out=found)
    found += 1.0
    return np.divide(1.0, found, out=found)


def row_unit(intercept: bool) -> float:
    """Return the norm that rows are scaled to, so that with the intercept it is at most 1."""
    return 1.0 / math.sqrt(2.0) if intercept else 1.0


def unit_rows(X: Any, feature_norm: float = 1.0, intercept: bool = False) -> Any:
    """Rows ``z_i = (scale_i x_i, constant)`` of norm 1 at most, dense or CSR.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
    feature_norm : float
        Public.  Rows are scaled down to this norm, then divided by it.
    intercept : bool
        Whether to append a constant feature.  Its value is that of the largest row's norm.
    """
    unit = row_unit(intercept)
    with np.errstate(all="ignore"):
        if issparse(X):
            squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        else:
            squares = np.einsum("ij,ij->i", X, X)
        # A row so long that its square overflows carries no usable direction: it counts as zero.
        factors = unit / np.maximum(np.sqrt(squares), feature_norm)
        if issparse(X):
            scaled = X.multiply(factors[:, None]).tocsr()
        else:
            scaled = np.empty((X.shape[0], X.shape[1] + intercept))
            np.multiply(X, factors[:, None], out=scaled[:, : X.shape[1]])
    if not intercept:
        return scaled
    if issparse(X):
        return hstack([scaled, np.full((X.shape[0], 1), unit)], format="csr")
    scaled[:, -1] = unit
    return scaled


def products(rows: Any, weights: np.ndarray, batch_invariant: bool = False) -> np.ndarray:
    """``rows @ weights``; with `batch_invariant` each row's bitwise the same in any batch.

    Matrix products of a library may round a row otherwise at another place among others.
    """
    if batch_invariant and not issparse(rows):  # which are multiplied row by row
        return row_products(rows, weights)
    return rows @ weights


def target_interval(target_range: Any) -> tuple[float, float]:
    """The public bounds of a regressor's targets, checked."""
    try:
        low, high = (float(v) for v in target_range)
    except (TypeError, ValueError, OverflowError):
        raise PublicTypeError(
            f"target_range must be a pair of numbers, got {shown(target_range)}."
        ) from None
    if not (abs(low) <= 1e100 and abs(high) <= 1e100 and high - low >= 1e-100):
        raise PublicValueError(
            f"target_range must be increasing numbers up to 1e100, got {(low, high)!r}."
        )
    return low, high


def scaled_targets(y: np.ndarray, low: float, high: float) -> np.ndarray:
    """Targets clipped to an interval and scaled to [-1, 1]."""
    y = np.clip(y, low, high)
    return (y - 0.5 * (low + high)) / (0.5 * (high - low))


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """Mean generalised linear loss over records.

    Attributes
    ----------
    rows : ndarray, CSR matrix or SeenRows, of shape (n_rows, size)
        Of norm about 1 at most, as of :func:`unit_rows`.
    targets : ndarray of shape (n_rows,)
    loss : GeneralizedLinearLoss
    groups : Groups, optional
        Of people, whose gradients are the means of their own rows' gradients.
    """

    rows: Any
    targets: Any
    loss: GeneralizedLinearLoss
    groups: Groups | None = None

    @property
    def n(self) -> int:
        """Number of records."""
        return self.rows.shape[0] if self.groups is None else self.groups.count

    def in_basis(self, basis: np.ndarray | None) -> LinearProblem:
        """The same problem for the rows' coordinates in the columns of `basis`."""
        if basis is None:
            return self
        batch_invariant = self.groups is not None
        return dataclasses.replace(self, rows=products(self.rows, basis, batch_invariant))

    def gradients(
        self, weights: np.ndarray, basis: np.ndarray | None = None, batch_invariant: bool = False
    ) -> Callable[..., Any]:
        """Return a function from rows and targets to gradients' factors ``(z, r)``; people's, flat.

        Parameters
        ----------
        weights : ndarray of shape (size, n_outputs)
        basis : ndarray of shape (size, k), optional
            Gradients are projected on these orthonormal columns.
        batch_invariant : bool
            Whether a row is the same, bitwise, at any place; where all rows are read in
            every step, every row has its own.
        """
        batch_invariant = batch_invariant or self.groups is not None

        def give(rows: Any, targets: np.ndarray) -> Any:
            z = rows.rows if isinstance(rows, RoundedRows) else rows
            residuals = self.loss.residuals(
                products(z, weights, batch_invariant), targets, batch_invariant
            )
            left: Any = rows if basis is None else products(z, basis, batch_invariant)
            if self.groups is None:
                return left, residuals
            left = np.asarray(left.toarray() if issparse(left) else left)
            return (left[:, :, None] * residuals[:, None, :]).reshape(len(left), -1)

        return give

    def risk(self, weights: np.ndarray) -> float:
        """Mean loss of all rows; not private."""
        return float(self.loss.values(self.rows @ weights, self.targets).mean())

    def minimize(self, ridge: Any, max_iter: int = 500) -> np.ndarray:
        """Minimiser of the mean loss plus ``ridge / 2 |weights|^2`` (entrywise); not private."""
        shape = (self.rows.shape[1], self.loss.n_outputs)

        def cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
            weights = flat.reshape(shape)
            scores = self.rows @ weights
            residuals = self.loss.residuals(scores, self.targets)
            gradient = self.rows.T @ (residuals / self.n) + ridge * weights
            value = self.loss.values(scores, self.targets).mean()
            return value + 0.5 * float(np.sum(ridge * weights**2)), gradient.ravel()

        options = {"maxiter": max_iter, "ftol": 1e-12, "gtol": 1e-8}
        found = minimize(
            cost, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options
        )
        return found.x.reshape(shape)
