"""What people own may be transformed by what they own: recentring, person by person."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skriemdp._groups import Groups, read_groups
from skriemdp._quiet import QuietQueries, quietly, read_array, read_records
from skriemdp._random import public_generator
from skriemdp.core.estimator import CarriesLedger, tags_of
from skriemdp.core.manifold_input import CHECKS, as_points, check_membership, point_shape
from skriemdp.descent.carried import check_per_sample
from skriemdp.descent.groups import local_means
from skriemdp.descent.separate_rows import made_up_points
from skriemdp.geometry import as_geometry

__all__ = ["PerGroup", "Recenter"]

# Made-up rows on which a transformer is tried before the data are read.
_TRIED = 4
# What people's rows became, by the digests of transformer and rows; None: nothing is kept.
_KEPT: ContextVar[dict[tuple, np.ndarray | None] | None] = ContextVar("kept", default=None)


@contextlib.contextmanager
def transformed_once() -> Iterator[None]:
    """Within it, `PerGroup` transforms the same rows by the same transformer once.

    For a search, whose fits and scores ask for the same people again and again.  What comes out is
    the same: a fresh clone sees the same rows.
    """
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


class Recenter(TransformerMixin, BaseEstimator):
    """Move points so that their own Fréchet mean comes to lie at the geometry's base point.

    Point x becomes ``exp_c(transport_{m -> c} log_m x)``, m the mean and c the base point; for
    symmetric positive definite matrices with the affine-invariant metric that is
    ``m^(-1/2) x m^(-1/2)``.

    Parameters
    ----------
    manifold : str, Geometry or pymanopt manifold, default="spd"

    Attributes
    ----------
    mean_ : ndarray of shape ``point_shape``
        After ten steps of gradient descent from the first point.
    geometry_ : Geometry

    Notes
    -----
    *Guarantee*: none; the mean is that of the data.  Within :class:`PerGroup` every group is moved
    by its own mean, and then the guarantee of the estimator there holds.  In a plain pipeline it
    breaks the guarantee of what follows: one changed row moves all others.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.preprocessing import Recenter
    >>> X = np.array([[[1.0]], [[4.0]]])
    >>> Recenter().fit_transform(X).ravel()
    array([0.5, 2. ])
    """

    def __init__(self, manifold: str = "spd"):
        self.manifold = manifold

    def fit(self, X: Any, y: Any = None) -> Recenter:
        """Compute the mean of the rows of `X`; `y` is ignored."""
        X = read_records(self, X, **CHECKS)
        self.geometry_ = as_geometry(self.manifold, point_shape=point_shape(X, self.manifold))
        points = as_points(self.geometry_, X)
        check_membership(self.geometry_, points)
        everybody = Groups.from_ids(np.zeros(len(points), dtype=np.intp))
        self.mean_ = local_means(self.geometry_, points, everybody)[0]
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Points of the shape of `X`, moved by the mean."""
        check_is_fitted(self)
        X = read_records(self, X, reset=False, **CHECKS)
        points = as_points(self.geometry_, X)
        check_membership(self.geometry_, points)
        geometry, base = self.geometry_, self.geometry_.base_point
        seen = geometry.transport(self.mean_, base, geometry.log(self.mean_, points))
        moved = np.asarray(geometry.canonical(np.asarray(geometry.exp(base, seen))))
        return moved.reshape(X.shape)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _estimator_has(name: str) -> Any:
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), name)


class PerGroup(CarriesLedger, QuietQueries, MetaEstimatorMixin, BaseEstimator):
    """Transform each group's rows by a transformer of its own, then fit with groups as the unit.

    Parameters
    ----------
    transformer : transformer
        Cloned for every group and fitted on its rows alone, without y; for example
        ``Recenter("spd")`` or a scikit-learn `StandardScaler`.  It must keep the number of rows.
    estimator : estimator
        A private estimator whose `fit` takes `groups`.

    Attributes
    ----------
    estimator_ : estimator
        Fitted on the transformed rows, with `groups`.
    classes_ : ndarray
        Of `estimator_`, where it has any.
    privacy_spent_ : PrivacySpent
        Of `estimator_`; per group.

    Notes
    -----
    *Guarantee*: that of `estimator`, under replacement of all rows of one group.  A group's
    transformed rows are computed from its own rows, so replacing a group changes no other group's.
    The transformed rows never leave this class: given to an estimator that protects rows they would
    break its guarantee, because one changed row moves all rows of its group.  A transformer that
    draws from NumPy's global generator, or remembers in a closure what it saw before, couples
    groups; use none.

    New people are transformed by their own rows too, so `predict` and `score` need `groups`.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import PrivateMinimumDistanceToMean
    >>> from skriemdp.datasets import make_people
    >>> from skriemdp.preprocessing import PerGroup, Recenter
    >>> X, y, groups = make_people(100, 20, 3, rng=np.random.default_rng(0))
    >>> model = PerGroup(
    ...     Recenter("spd"),
    ...     PrivateMinimumDistanceToMean("spd", radius=0.3, classes=[0, 1], epsilon=1.0),
    ... )
    >>> model.fit(X, y, groups=groups).privacy_spent_.unit
    'group'
    """

    __metadata_request__fit = {"groups": True, "clients": True}
    __metadata_request__predict = {"groups": True}
    __metadata_request__predict_proba = {"groups": True}
    __metadata_request__transform = {"groups": True}
    __metadata_request__score = {"groups": True}

    def __init__(self, transformer: Any, estimator: Any):
        self.transformer = transformer
        self.estimator = estimator

    def fit(self, X: Any, y: Any = None, groups: Any = None, clients: Any = None) -> PerGroup:
        """Transform the rows of each group by themselves, and fit.

        Parameters
        ----------
        X : array-like of shape (n, ...)
        y : array-like of shape (n,), optional
        groups : array-like of shape (n,)
            Who owns each row; required.
        clients : array-like of shape (n,), optional
            For a :class:`skriemdp.federated.FederatedEstimator`; nobody may be in two clients,
            which would have to transform their rows together.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Without `groups`, for an `estimator` that does not take them, for a transformer that
            changes the number of rows, or for somebody in two clients.
        """
        if not has_fit_parameter(self.estimator, "groups"):
            raise ValueError(
                f"estimator: fit of {type(self.estimator).__name__} takes no groups, so it would "
                "protect single rows, which their group's transformation does not allow; use an "
                "estimator whose fit has groups=."
            )
        transformed = self._transformed(X, groups)
        self.estimator_ = clone(self.estimator)
        args = () if y is None else (y,)
        ids = {"groups": groups}
        if clients is not None:
            _check_one_client(groups, clients)
            ids["clients"] = clients
        self.estimator_.fit(transformed, *args, **ids)
        if hasattr(self.estimator_, "classes_"):
            self.classes_ = self.estimator_.classes_
        self.privacy_spent_ = self.estimator_.privacy_spent_
        return self

    @available_if(_estimator_has("predict"))
    def predict(self, X: Any, groups: Any = None) -> np.ndarray:
        """Predictions for the rows of `X`, which belong to `groups`."""
        return self._asked("predict", X, groups)

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any, groups: Any = None) -> np.ndarray:
        """Probabilities of the classes for the rows of `X`, which belong to `groups`."""
        return self._asked("predict_proba", X, groups)

    @available_if(_estimator_has("transform"))
    def transform(self, X: Any, groups: Any = None) -> np.ndarray:
        """`X` as `estimator_` transforms it after each group's own transformation."""
        return self._asked("transform", X, groups)

    @available_if(_estimator_has("score"))
    def score(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> float:
        """Score of `estimator_` on the rows of `X`, which belong to `groups`."""
        check_is_fitted(self)
        transformed = self._transformed(X, groups)
        args = () if y is None else (y,)
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.estimator_.score(transformed, *args, **weight))

    def __sklearn_tags__(self) -> Tags:
        return tags_of(super().__sklearn_tags__(), self.estimator)

    def _asked(self, method: str, X: Any, groups: Any) -> np.ndarray:
        check_is_fitted(self)
        return getattr(self.estimator_, method)(self._transformed(X, groups))

    def _transformed(self, X: Any, groups: Any) -> np.ndarray:
        if groups is None:
            raise ValueError(
                "groups says who owns each row and is required; for rows of one person pass "
                "groups=np.zeros(len(X))."
            )
        X = read_array(X, "X", dtype=np.float64, ensure_2d=False, allow_nd=True)
        owned = read_groups(groups, len(X), least=1)
        check_per_sample(self.transformer.fit_transform, owned.count, (X,), "transformer")
        filler = self._tried(X.shape[1:])
        ends = np.append(owned.starts, len(X))
        result = np.empty((len(X), *filler.shape))
        kept = _KEPT.get()
        name = None if kept is None else _digest_of(self.transformer)
        for begin, end in zip(ends[:-1], ends[1:], strict=True):
            rows = owned.order[begin:end]
            own = X[rows]
            if kept is None or name is None:
                found = _of_one(self.transformer, own)
            else:
                key = name, own.shape, hashlib.blake2b(own.tobytes()).digest()
                if key not in kept:
                    kept[key] = _of_one(self.transformer, own)
                found = kept[key]
            fits = found is not None and found.shape == (len(own), *filler.shape)
            result[rows] = found if fits else filler
        return result

    def _tried(self, shape: tuple[int, ...]) -> np.ndarray:
        """A transformed made-up row: what a group counts as that cannot be transformed."""
        manifold = getattr(self.estimator, "manifold", "euclidean")
        manifold = getattr(self.transformer, "manifold", manifold)
        geometry = as_geometry(manifold, point_shape=shape)
        rng = public_generator(0, "made-up rows of a group")
        made_up = np.asarray(made_up_points(geometry, _TRIED, 0.3, rng)).reshape(_TRIED, *shape)
        tried = quietly(lambda: _fit_transform(self.transformer, made_up))
        if tried.shape[:1] != (_TRIED,):
            raise ValueError(
                f"transformer: {type(self.transformer).__name__} made {tried.shape[0]} rows of "
                f"{_TRIED} made-up ones; it must keep the number of rows."
            )
        return tried[0]


def _check_one_client(groups: Any, clients: Any) -> None:
    """Raise where one id of `groups` comes with several of `clients`; both are public."""
    people, places = (read_groups(ids, len(groups), least=1) for ids in (groups, clients))
    where = np.empty(len(groups), dtype=np.intp)
    where[places.order] = places.owners()
    pairs = np.stack([people.owners(), where[people.order]], axis=1)
    if len(np.unique(pairs, axis=0)) > people.count:
        raise ValueError(
            "clients: a person's rows are transformed together, but the ids show somebody in two "
            "clients; give that person an id of its own at each, and state clients_per_person."
        )


def _digest_of(transformer: Any) -> str | None:
    """Equal for transformers with equal parameters; None for one that cannot be pickled."""
    try:
        return str(joblib.hash(transformer))
    except Exception:
        return None


def _of_one(transformer: Any, rows: np.ndarray) -> np.ndarray | None:
    """The rows of one group, transformed; None where that cannot be done."""
    # Whether it can be depends on the group's records, and must not be told.
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _fit_transform(transformer, rows)
    except Exception:
        return None
    return found if np.isfinite(found).all() else None


def _fit_transform(transformer: Any, rows: np.ndarray) -> np.ndarray:
    return np.asarray(clone(transformer).fit_transform(rows), dtype=float)
