"""Forecast of the error that noise adds to principal components, from public numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import chdtri, gammainc

from skriemdp._core.forecast import Expected, ExpectedError
from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.bounded_sets import Moment
from skriemdp._pca.search_releases import BoundsSearch, clip_level

# Components that noise turns by more than this sine tell little, and so does a matrix whose noise
# alone has eigenvalues above this part of the total variance.
_WORTH = 0.25


def expected_components(
    bounds: BoundsSearch,
    mechanism: str,
    k: int,
    mu: float,
    before: float,
    grouped: bool,
    spread: Any,
) -> Expected:
    """Expected error of the eigenvectors of a noisy second moment.

    Parameters
    ----------
    bounds : BoundsSearch
    mechanism : str
    k : int
    mu : float
        Of the fit.
    before : float
        Share of mu**2 of other releases than the search and the matrix.
    grouped : bool
    spread : ndarray of shape (d,), float or None
        Standard deviations along the principal axes; a number is the root of their total variance.
    """
    n, d = bounds.n, bounds.d
    told = spread is not None and np.ndim(spread) == 1
    if told and (len(spread) != d or not (np.asarray(spread) >= 0.0).all()):
        raise PublicValueError(f"spread must hold {d} standard deviations, one for each axis.")
    variances = np.sort(np.square(spread))[::-1] if told else np.full(d, 1.0 / d)
    # By convention, where nothing is said of the data.
    total, rank = float(variances.sum()), min(10.0, d)
    if told:
        rank = total**2 / float(variances @ variances)
    elif spread is not None:
        total = float(spread) ** 2
    if bounds.pair_seed is not None:  # differences of two records, half as many
        n, total, variances = n // 2, 2.0 * total, 2.0 * variances
    square = total * float(chdtri(rank, 1.0 - clip_level(d, bounds.n * mu, rank))) / rank
    if bounds.row_norm is not None:
        square = bounds.row_norm**2
    # Of rows clipped to the norm, as if their squared lengths were chi-squared.
    over = 0.5 * rank * square / total
    kept = gammainc(0.5 * rank + 1.0, over) + square / total * (1.0 - gammainc(0.5 * rank, over))
    bounded_set = Moment(math.sqrt(square), d, grouped)
    left = mu * math.sqrt(1.0 - before - bounds.usual_share)
    noise, floor = (
        bounded_set.sigma(bounded_set.check(one)) / math.sqrt(2.0) / n for one in (left, mu)
    )
    name = f"{mechanism}: eigenvectors of a matrix with gaussian noise"
    if not told:
        edge = 2.0 * math.sqrt(d) * np.array([noise, floor]) / total
        unit = "x the total variance (largest eigenvalue that noise alone has)"
        errors = ExpectedError("noise", edge[0], unit), ExpectedError("floor", edge[1], unit)
        worth = f"noise alone then has no eigenvalue above {_WORTH:g} of the total variance"
        return Expected(name, errors, edge[0] / _WORTH, worth, f"an effective rank of {rank:.3g}")
    gaps = np.square(variances[:k, None] - variances[None, k:])
    products = variances[:k, None] * variances[None, k:]
    unit = "(sine of the angle)" if k == 1 else "(root of the summed squared sines of all angles)"
    parts = {
        "noise": (noise / kept) ** 2 * np.ones_like(gaps),
        "floor": (floor / kept) ** 2 * np.ones_like(gaps),
        "sampling": products / n,
    }
    sines = {
        which: math.sqrt(float(np.sum(part / np.maximum(gaps + part, 1e-300))))
        for which, part in parts.items()
    }
    sines["search"] = sines["noise"] - sines["floor"]
    found = tuple(
        ExpectedError(which, sines[which], unit)
        for which in ("noise", "floor", "search", "sampling")
    )
    return Expected(
        name,
        found,
        sines["noise"] / (_WORTH * math.sqrt(k)),
        f"noise then turns a component by a sine of at most {_WORTH:g}",
        "records are Gaussian with the standard deviations that spread says, at a few of them "
        "from the origin",
    )
