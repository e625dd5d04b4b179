"""Local computations of a user on their own row: bias, factors, log evidence of each ridge."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from skriemdp._completion.item_releases import BIAS_PENALTY, RESIDUAL_VARIANCE
from skriemdp._completion.problem import LocalFit, outer_products, row_blocks


def _design(subspace: np.ndarray) -> np.ndarray:
    return np.hstack([np.ones((len(subspace), 1)), subspace])


def _penalties(subspace: np.ndarray, ridge: float) -> np.ndarray:
    return np.concatenate([[BIAS_PENALTY], np.full(subspace.shape[1], ridge)])


def local_coordinates(matrix: sparse.csr_array, subspace: np.ndarray, ridge: float) -> np.ndarray:
    """Bias and factors of every row of `matrix` (item effects removed), shape ``(n, 1 + r)``.

    One ridge regression per row on a column of ones and the columns of `subspace`; an infinite
    ridge leaves the factors at zero.
    """
    n, (d, rank) = matrix.shape[0], subspace.shape
    if math.isinf(ridge) or rank == 0:
        subspace = np.zeros((d, 0))
    design, penalties = _design(subspace), _penalties(subspace, ridge)
    outer = outer_products(design)
    result = np.zeros((n, 1 + rank))
    begin = 0
    for block in row_blocks(matrix):
        factors = LocalFit(block, design, outer, penalties).factors
        result[begin : begin + len(factors), : factors.shape[1]] = factors
        begin += len(factors)
    return result


def log_evidence(
    matrix: sparse.csr_array, subspace: np.ndarray, ridges: Sequence[float]
) -> np.ndarray:
    """Log marginal likelihood of each row under each ridge, shape ``(n, len(ridges))``.

    Rows are ``1 bias + W v + noise`` with Gaussian bias and v, whose variances are the noise
    variance over the penalties, and an inverse-gamma prior of the noise variance.  The first column
    of ones and an infinite ridge mean a bias alone.
    """
    finite = [ridge for ridge in ridges if math.isfinite(ridge)]
    pieces = []
    for block in row_blocks(matrix):
        columns: dict[float, np.ndarray] = {}
        for basis, group in ((subspace, finite), (subspace[:, :0], [math.inf])):
            design, fit = _design(basis), None
            for ridge in group:
                penalties = _penalties(basis, ridge)
                if fit is None:
                    fit = LocalFit(block, design, outer_products(design), penalties)
                else:
                    fit.refit(penalties)
                columns[ridge] = _evidence(fit, penalties)
        pieces.append(np.stack([columns[ridge] for ridge in ridges], axis=1))
    return np.concatenate(pieces)


def _evidence(fit: LocalFit, penalties: np.ndarray) -> np.ndarray:
    # Weight of the public guess of the residual variance, in halves of an observation.
    shape = 2.0
    explained = np.einsum("ir,ir->i", fit.factors, fit.moments)
    rest = np.maximum(fit.squares - explained, 0.0)
    log_volume = np.linalg.slogdet(fit.regularized)[1] - np.log(penalties).sum()
    log_scale = np.log(shape * RESIDUAL_VARIANCE + 0.5 * rest)
    return -0.5 * log_volume - (0.5 * fit.counts + shape) * log_scale
