"""Generalised linear losses: clipped sums of per-record gradients without the gradients.

A record's gradient is ``z_i r_i'``: its row times its residual.  The norm is ``|z_i| |r_i|``, so a
clipped sum costs two products with the data matrix, whatever the number of parameters.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import hstack, issparse
from scipy.special import expit, log_expit, logsumexp, softmax

from skriemdp.mechanisms.integer_products import IntegerFactors
from skriemdp.mechanisms.integers import ExactTotal

__all__ = ["CLASSIFICATION", "LOSSES", "GeneralizedLinearLoss", "LinearProblem", "LinearRows"]

CLASSIFICATION = ("log_loss", "hinge")
LOSSES = (*CLASSIFICATION, "squared_error", "huber")

# Entries of a block of rows: both products of a step read it while it is in the last cache.
_BLOCK = 1 << 19


@dataclasses.dataclass(frozen=True)
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
        """What longer gradients are shortened to by default.

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

    def residuals(self, scores: np.ndarray, targets: np.ndarray, apart: bool = False) -> np.ndarray:
        """Derivative of each record's loss in its scores; both ``(b, n_outputs)``.

        `targets` are 0 or 1 for two classes, class numbers for more (both ``(b,)``), or reals.
        With `apart` a record's is the same, to the last bit, in a batch of any length.
        """
        if self.name == "log_loss":
            if self.n_outputs == 1:
                # NumPy's exponential takes a sixth of the time, but a single number another way.
                found = expit(scores) if apart else _logistic(scores)
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


def _shortened(residuals: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Residuals scaled to lengths of `most`, one number for each; changes them in place.

    An infinite or undefined residual (runaway scores) must not escape the clip: it counts as zero.
    Where squares overflow, who calls has told NumPy to be silent.
    """
    if residuals.shape[1] > 1:
        sizes = np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
        residuals *= np.minimum(1.0, most / np.maximum(sizes, 1e-300))[:, None]
        usable = None if math.isfinite(sizes.sum()) else np.isfinite(sizes)
    else:
        flat = residuals[:, 0]
        usable = None if math.isfinite(flat @ flat) else np.isfinite(flat)
        np.maximum(np.minimum(flat, most, out=flat), -most, out=flat)
    if usable is not None:
        residuals[~usable] = 0.0
    return residuals


def _logistic(scores: np.ndarray) -> np.ndarray:
    """``1 / (1 + exp(-scores))``."""
    found = np.negative(scores)
    with np.errstate(over="ignore"):
        np.exp(found, out=found)
    found += 1.0
    return np.divide(1.0, found, out=found)


class LinearRows:
    """Rows ``z_i = (scale_i x_i, constant)``, never formed: projected on a ball, with an intercept.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
    feature_norm : float
        Public.  Rows are scaled down to this norm, then divided by it.
    intercept : bool
        Whether to append a constant feature.  Its value is that of the largest row's norm, and all
        is scaled so that ``|z_i| <= 1``.
    """

    def __init__(self, X: Any, feature_norm: float = 1.0, intercept: bool = False):
        self._X = X
        self.unit = 1.0 / math.sqrt(2.0) if intercept else 1.0
        self._constant = self.unit if intercept else 0.0
        self._intercept = intercept
        self._factors, lengths = _row_factors(X, feature_norm)
        self._factors = self._factors * self.unit
        self.norms = np.hypot(lengths * self.unit, self._constant)
        self._longest: tuple[float, np.ndarray] = math.nan, self.norms

    @property
    def n(self) -> int:
        return self._X.shape[0]

    @property
    def size(self) -> int:
        """Number of parameters per output."""
        return self._X.shape[1] + self._intercept

    def longest_residuals(self, clip_norm: float) -> np.ndarray:
        """How long a record's residual may be beside its row; the steps of a run share it."""
        known, longest = self._longest
        if known != clip_norm:
            with np.errstate(all="ignore"):
                longest = clip_norm / self.norms
            self._longest = clip_norm, longest
        return longest

    def scores(self, weights: np.ndarray, chosen: np.ndarray | slice) -> np.ndarray:
        """``z_i' weights`` for the records of the slice or index array `chosen`."""
        p = self._X.shape[1]
        out = self._X[chosen] @ weights[:p]
        out *= self._factors[chosen, None]
        if self._intercept:
            out += self._constant * weights[p]
        return out

    def scores_apart(self, weights: np.ndarray, chosen: np.ndarray | slice) -> np.ndarray:
        """:meth:`scores` of gathered records: the same, to the last bit, at any place in a batch.

        Matrix products of a library may round a row otherwise when others stand beside it.
        """
        p, rows = self._X.shape[1], self._X[chosen]
        if issparse(rows):
            products = rows @ weights[:p]  # row by row
        else:
            columns = [np.einsum("ij,j->i", rows, column) for column in weights[:p].T]
            products = np.column_stack(columns)
        out = self._factors[chosen, None] * products
        if self._intercept:
            out += self._constant * weights[p]
        return out

    def add_sum(self, total: np.ndarray, residuals: np.ndarray, chosen: np.ndarray | slice) -> None:
        """Add ``sum_i z_i residuals_i'`` over the records of `chosen` to `total`."""
        p = self._X.shape[1]
        total[:p] += self._X[chosen].T @ (self._factors[chosen, None] * residuals)
        if self._intercept:
            total[p] += self._constant * residuals.sum(axis=0)

    def in_basis(self, basis: np.ndarray, apart: bool = False) -> _Coordinates:
        """The rows' coordinates in the columns of `basis`, themselves rows of unit scale.

        With `apart` each row's are the same, to the last bit, in any company.
        """
        scores = self.scores_apart if apart else self.scores
        return _Coordinates(scores(basis, slice(None)))

    def taken(self, chosen: np.ndarray) -> np.ndarray:
        """The rows of the index array `chosen`, dense, with the constant feature."""
        rows = self._X[chosen]
        if issparse(rows):
            rows = rows.toarray()
        with np.errstate(all="ignore"):
            rows = rows * self._factors[chosen, None]
        if not self._intercept:
            return rows
        return np.column_stack([rows, np.full(len(rows), self._constant)])

    def formed(self) -> Any:
        """The rows themselves, dense or CSR, with the constant feature."""
        factors = self._factors[:, None]
        if issparse(self._X):
            scaled = self._X.multiply(factors)
            if not self._intercept:
                return scaled.tocsr()
            return hstack([scaled, np.full((self.n, 1), self._constant)], format="csr")
        out = np.empty((self.n, self.size))
        with np.errstate(all="ignore"):
            np.multiply(self._X, factors, out=out[:, : self._X.shape[1]])
        if self._intercept:
            out[:, -1] = self._constant
        return out

    def blocks(self) -> list[slice]:
        """Slices of rows that fit in cache; one slice for sparse data."""
        return self._blocks

    @functools.cached_property
    def _blocks(self) -> list[slice]:
        if issparse(self._X):
            return [slice(0, self.n)]
        rows = max(_BLOCK // max(self._X.shape[1], 1), 32)
        return [slice(i, min(i + rows, self.n)) for i in range(0, self.n, rows)]


class _Coordinates(LinearRows):
    """Dense rows used as they are; they come from rows of norm at most 1."""

    def __init__(self, rows: Any):
        self._X, self.unit, self._constant, self._intercept = rows, 1.0, 0.0, False
        self._factors = np.ones(len(rows))
        self.norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        self._longest = math.nan, self.norms


class LatticeRows(LinearRows):
    """Rows rounded to integer left factors, which stand for the rows in every product.

    With `by_columns` columns lie side by side in memory: products with one vector are then a fifth
    faster, and rows slower to gather.
    """

    def __init__(self, rows: LinearRows, lattice: IntegerFactors, by_columns: bool = False):
        self._X, self.lengths = lattice.round_left(rows.formed())
        if by_columns and not issparse(self._X):
            self._X = np.asfortranarray(self._X)
        self.unit, self._constant, self._intercept = rows.unit, 0.0, False
        self._factors = np.full(len(self.lengths), 1.0 / lattice.resolution)
        self._limits = lattice.units, lattice.right, lattice.limits(self.lengths)

    def scores(self, weights: np.ndarray, chosen: np.ndarray | slice) -> np.ndarray:
        return self._X[chosen] @ (weights * self._factors[0])

    def factors(self, chosen: np.ndarray | slice) -> Any:
        """Integer factors of the records of a slice."""
        return self._X[chosen]

    def limits(self, lattice: IntegerFactors) -> np.ndarray:
        """How long the right factors of all records may be."""
        units, right, limits = self._limits
        if (units, right) != (lattice.units, lattice.right):
            raise RuntimeError("the rows were rounded for another lattice.")
        return limits


def _row_factors(X: Any, feature_norm: float) -> tuple[np.ndarray, np.ndarray]:
    """Factors that bring rows into the unit ball, and the norms they then have."""
    with np.errstate(over="ignore"):
        if issparse(X):
            squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        else:
            squares = np.einsum("ij,ij->i", X, X)
    lengths = np.sqrt(squares)
    # A row so long that its square overflows carries no usable direction: it counts as zero.
    usable = np.isfinite(lengths)
    factors = np.where(usable, 1.0 / np.maximum(lengths, feature_norm), 0.0)
    return factors, np.where(usable, lengths, 0.0) * factors


@dataclasses.dataclass(frozen=True, eq=False)
class LinearProblem:
    """Mean generalised linear loss over records; what a private solver asks of it are clipped sums.

    Attributes
    ----------
    rows : LinearRows
    targets : ndarray of shape (n,)
    loss : GeneralizedLinearLoss
    """

    rows: LinearRows
    targets: Any
    loss: GeneralizedLinearLoss

    @property
    def n(self) -> int:
        return self.rows.n

    def clipped_sum(
        self,
        weights: np.ndarray,
        clip_norm: float,
        indices: np.ndarray | None = None,
        basis: np.ndarray | None = None,
    ) -> np.ndarray:
        """``sum_i z_i r_i' min(1, clip_norm / (|z_i| |r_i|))``, shape ``(size, n_outputs)``.

        Parameters
        ----------
        weights : ndarray of shape (size, n_outputs)
        clip_norm : float
        indices : ndarray of int, optional
            Records of a batch; all by default.
        basis : ndarray of shape (size, k), optional
            Gradients are projected on these orthonormal columns before they are clipped; the sum is
            in coordinates, shape ``(k, n_outputs)``.
        """
        rows, n_outputs = self.rows, self.loss.n_outputs
        total = np.zeros((rows.size if basis is None else basis.shape[1], n_outputs))
        # Overflow is dealt with below; a warning about it would speak of records.
        with np.errstate(all="ignore"):
            for chosen in rows.blocks() if indices is None else [indices]:
                residuals = self.loss.residuals(rows.scores(weights, chosen), self.targets[chosen])
                if basis is None:
                    residuals = _shortened(residuals, rows.longest_residuals(clip_norm)[chosen])
                    rows.add_sum(total, residuals, chosen)
                else:
                    inside = rows.scores(basis, chosen)
                    norms = np.sqrt(np.einsum("ij,ij->i", inside, inside))
                    total += inside.T @ _shortened(residuals, clip_norm / norms)
        return total

    def on_lattice(self, lattice: IntegerFactors, batches: bool = True) -> LinearProblem:
        """The same problem for rows rounded once, before the first step.

        Without `batches` all rows are read in every step.
        """
        by_columns = not batches and self.loss.n_outputs == 1
        return dataclasses.replace(self, rows=LatticeRows(self.rows, lattice, by_columns))

    def integer_total(
        self,
        lattice: IntegerFactors,
        weights: np.ndarray,
        clip_norm: float,
        indices: np.ndarray | None = None,
        basis: np.ndarray | None = None,
    ) -> ExactTotal:
        """The sum of :meth:`clipped_sum` in exact integers.

        Parameters
        ----------
        lattice : IntegerFactors
        weights, clip_norm, indices, basis
            As in :meth:`clipped_sum`.  Without a basis the rows are those of :meth:`on_lattice`.
        """
        rows, total = self.rows, lattice.start()
        scores = rows.scores if indices is None else rows.scores_apart
        for chosen in rows.blocks() if indices is None else [indices]:
            with np.errstate(all="ignore"):
                apart = indices is not None
                residuals = self.loss.residuals(
                    scores(weights, chosen), self.targets[chosen], apart
                )
                if basis is None:
                    assert isinstance(rows, LatticeRows)
                    left, limits = rows.factors(chosen), rows.limits(lattice)[chosen]
                else:
                    left, lengths = lattice.round_left(scores(basis, chosen))
                    limits = lattice.limits(lengths)
            lattice.add(total, left, lattice.round_within(residuals, limits, clip_norm))
        return total

    def risk(self, weights: np.ndarray) -> float:
        """Mean loss of all records; not private."""
        scores = self.rows.scores(weights, slice(None))
        return float(self.loss.values(scores, self.targets).mean())

    def minimize(self, ridge: float, max_iter: int = 500) -> np.ndarray:
        """Minimiser of the mean loss plus ``ridge / 2 |weights|^2`` (entrywise); not private."""
        shape = (self.rows.size, self.loss.n_outputs)
        everything = slice(None)

        def cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
            weights = flat.reshape(shape)
            scores = self.rows.scores(weights, everything)
            gradient = np.zeros(shape)
            residuals = self.loss.residuals(scores, self.targets)
            self.rows.add_sum(gradient, residuals / self.n, everything)
            gradient += ridge * weights
            value = self.loss.values(scores, self.targets).mean()
            return value + 0.5 * float(np.sum(ridge * weights**2)), gradient.ravel()

        options = {"maxiter": max_iter, "ftol": 1e-12, "gtol": 1e-8}
        found = minimize(
            cost, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options
        )
        return found.x.reshape(shape)
