"""Structured prediction as a federated problem: the weighted mean of labels that answers a query.

A prediction at a query x is the point that minimises ``sum_i a_i d(w, y_i)^2 / 2`` over training
pairs (x_i, y_i), with labels on a manifold.  The gradients here make `PrivateRiemannianERM` find
it, in one place or in a federation; every query is a release of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._errors import PublicValueError
from skriemdp._groups import read_ids
from skriemdp._quiet import quiet, read_numbers
from skriemdp._regression.prediction_releases import KernelRidgeWeights, gaussian_kernel
from skriemdp._validation import check_positive
from skriemdp.geometry._base import Geometry


@dataclass(frozen=True)
class KernelQuery:
    """Gradients of ``k(query, x_i) d(w, y_i)^2 / 2``: the kernel mean of the labels at a query.

    Parameters
    ----------
    geometry : Geometry
        Where the labels live.
    query : sequence of float of length n_features
        Public.
    length_scale : float
        Of the kernel ``k(x, x') = exp(-|x - x'|^2 / (2 length_scale^2))``; public.

    Notes
    -----
    *Guarantee*, in a private estimator that clips every record's gradient: that of the estimator,
    for pairs (x_i, y_i).  A weight depends on its own record only, and its sum over the records is
    never used, so the step size must make up for the mean weight (docs/theory/federated.md, section
    8).

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import PrivateRiemannianERM
    >>> from skriemdp.federated import FederatedEstimator, KernelQuery
    >>> from skriemdp.geometry import Hyperboloid
    >>> from skriemdp.datasets import make_tree
    >>> X, y = make_tree(600)
    >>> space = Hyperboloid(2)
    >>> erm = PrivateRiemannianERM(space, gradient=KernelQuery(space, X[5], 0.3), clip_norm=2.0)
    >>> model = FederatedEstimator(erm, 4, 6, step_size=2.0).fit(X, y, clients=np.arange(600) % 6)
    >>> model.point_.shape, model.privacy_spent_.epsilon
    ((3,), 1.0)
    """

    geometry: Geometry
    query: tuple[float, ...]
    length_scale: float

    def __post_init__(self) -> None:
        check_positive(length_scale=self.length_scale)
        object.__setattr__(self, "query", tuple(_query(self.query).tolist()))

    def __call__(self, point: np.ndarray, X: Any, y: Any) -> Any:
        if X.ndim != 2 or X.shape[1] != len(self.query):
            raise PublicValueError(
                f"X must have one column per entry of the query, {len(self.query)}; got shape "
                f"{X.shape}."
            )
        weights = gaussian_kernel(X, np.array([self.query]), self.length_scale)[:, 0]
        return _weighted(self.geometry, point, weights, y)


@dataclass(frozen=True)
class LabelQuery:
    """Gradients of ``a_i d(w, y_i)^2 / 2`` with weights from the only column of X.

    Parameters
    ----------
    geometry : Geometry
        Where the labels live.

    Notes
    -----
    *Guarantee*, in a private estimator that clips every record's gradient: that of the estimator,
    for pairs (a_i, y_i).  Weights that were computed from all features, such as
    :func:`ridge_weights`, carry the features of others: the guarantee is then for **labels only**,
    all features public (docs/theory/federated.md, section 8).
    """

    geometry: Geometry

    def __call__(self, point: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        if X.ndim != 2 or X.shape[1] != 1:
            raise PublicValueError(f"X must be the weights, one column; got shape {X.shape}.")
        return _weighted(self.geometry, point, X[:, 0], y)


@quiet
def ridge_weights(
    X: np.ndarray,
    query: np.ndarray,
    length_scale: float,
    ridge: float,
    clients: np.ndarray | None = None,
) -> np.ndarray:
    """Weights ``(K + ridge I)^-1 k(query)`` of kernel ridge regression, of each client by itself.

    Functions of the features alone: public only if all features are.

    Parameters
    ----------
    X : array-like of shape (n, n_features)
    query : sequence of float of length n_features
    length_scale, ridge : float
    clients : array-like of shape (n,), optional
        Clients, who see their own features only; everyone in one group by default.

    Returns
    -------
    ndarray of shape (n, 1)
        What :class:`LabelQuery` takes as X.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.federated import ridge_weights
    >>> X = np.linspace(0.0, 1.0, 6)[:, None]
    >>> weights = ridge_weights(X, [0.2], 0.3, 1.0, clients=[0, 0, 0, 1, 1, 1])
    >>> weights.shape, int(np.argmax(weights))
    ((6, 1), 1)
    """
    check_positive(length_scale=length_scale, ridge=ridge)
    X, query = read_numbers(X, "X"), _query(query)
    if X.ndim != 2 or X.shape[1] != len(query):
        raise PublicValueError(
            f"X must have shape (n, {len(query)}), as the query has; got {X.shape}."
        )
    places = np.zeros(len(X), dtype=int)
    if clients is not None:
        places = read_ids(clients, len(X), "clients")[1]
    weights = np.empty((len(X), 1))
    for client in range(places.max(initial=-1) + 1):
        own = places == client
        weights[own, 0] = KernelRidgeWeights(X[own], length_scale, ridge)(query)[0]
    return weights


def _query(query: Any) -> np.ndarray:
    query = read_numbers(query, "query", ensure_all_finite=False)
    if query.ndim != 1 or not np.isfinite(query).all():
        raise PublicValueError(
            f"query must be one row of finite features, got shape {query.shape}."
        )
    return query


def _weighted(
    geometry: Geometry, point: np.ndarray, weights: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    if labels is None or labels.shape[1:] != geometry.shape:
        found = "none" if labels is None else f"shape {labels.shape}"
        raise PublicValueError(f"y must hold points of {geometry}, one per row of X; got {found}.")
    return weights.reshape(-1, *(1,) * geometry.point_ndim) * -geometry.log(point, labels)
