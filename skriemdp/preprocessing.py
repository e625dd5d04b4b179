"""Transformations of each record, or each person's rows, alone: recentring, leaving rows out."""

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
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skriemdp._arrays import ManifoldLike
from skriemdp._core.estimator import CarriesLedger, tags_of
from skriemdp._core.manifold_input import (
    as_points,
    asymmetric,
    check_membership,
    checked_points,
    geometry_of,
    read_points,
)
from skriemdp._descent.carried import check_per_sample
from skriemdp._descent.separate_rows import made_up_points
from skriemdp._errors import PublicNotImplementedError, PublicTypeError, PublicValueError
from skriemdp._groups import Groups, check_order, read_groups
from skriemdp._quiet import QuietQueries, quiet, quietly, read_array, read_numbers
from skriemdp._random import public_generator
from skriemdp._validation import check_instance, shown
from skriemdp._warnings import warn_user
from skriemdp.geometry import Geometry, as_geometry
from skriemdp.geometry._base import check_geometry
from skriemdp.geometry._tiles import map_tiles, one_by_one

__all__ = ["PerGroup", "Recenter", "own_means", "usable_rows"]

# Made-up rows on which a transformer is tried before the data are read.
_TRIED = 4
# People whose rows are moved together: enough to save calls, few enough for the memory.
_TOGETHER = 64
# What people's rows became, by the digests of transformer and rows; None: nothing is kept.
_KEPT: ContextVar[dict[tuple, np.ndarray | None] | None] = ContextVar("kept", default=None)


@contextlib.contextmanager
def transformed_once() -> Iterator[None]:
    """Mark a block in which `PerGroup` transforms the same rows by the same transformer once.

    For a search, whose fits and scores ask for the same people again and again.  What comes out is
    the same: a fresh clone sees the same rows.
    """
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


class Recenter(QuietQueries, TransformerMixin, BaseEstimator):
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

    def __init__(self, manifold: ManifoldLike = "spd"):
        self.manifold = manifold

    def fit(self, X: Any, y: Any = None) -> Recenter:
        """Compute the mean of the rows of `X`; `y` is ignored."""
        X = read_points(self, X, manifold=self.manifold)
        self.geometry_, points = checked_points(X, self.manifold)
        everybody = Groups.from_ids(np.zeros(len(points), dtype=np.intp))
        self.mean_ = own_means(self.geometry_, points, everybody)[0]
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Points of the shape of `X`, moved by the mean."""
        check_is_fitted(self)
        X = read_points(self, X, manifold=self.geometry_, reset=False)
        points = as_points(self.geometry_, X)
        check_membership(self.geometry_, points)
        return _moved(self.geometry_, self.mean_, points).reshape(X.shape)

    def _of_each(self, X: np.ndarray, owned: Groups) -> list[np.ndarray | None]:
        """Apply `fit_transform` to each group's rows; None for rows that are no points.

        Groups are computed together, which is faster; the numbers of each are made of its own rows
        alone, bitwise (docs/theory/groups.md).
        """
        geometry = geometry_of(X, self.manifold)
        if not geometry.separate_rows:
            return [_of_one(self, X[rows]) for rows in owned.rows()]
        points = X.reshape(len(X), *geometry.shape)
        usable = np.isfinite(X).reshape(len(X), -1).all(axis=1)
        usable &= ~asymmetric(geometry, points)
        points = np.where(
            usable.reshape(-1, *(1,) * len(geometry.shape)), points, geometry.base_point
        )
        points = np.asarray(geometry.canonical(points))
        usable &= np.asarray(map_tiles(geometry.belongs, points))
        points[~usable] = geometry.base_point
        moved = np.empty_like(points)
        # Who is computed together depends on the number of groups alone.
        for part in np.array_split(np.arange(owned.count), -(-owned.count // _TOGETHER)):
            try:
                order, found = _moved_together(geometry, points, owned, part)
                moved[order] = found
            except np.linalg.LinAlgError:  # of somebody's rows: nobody else's may change for it
                for k in part:
                    own = owned.select(np.array([k])).order
                    try:
                        order, found = _moved_together(geometry, points, owned, np.array([k]))
                        moved[order] = found
                    except np.linalg.LinAlgError:
                        moved[own] = np.nan
        usable &= np.isfinite(moved).reshape(len(X), -1).all(axis=1)
        moved = moved.reshape(X.shape)
        return [moved[rows] if usable[rows].all() else None for rows in owned.rows()]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def own_means(geometry: Geometry, points: Any, groups: Groups) -> np.ndarray:
    """Fréchet mean of each group's own points, shape ``(n_groups, *shape)``.

    Ten steps of gradient descent from the group's first point, with step lengths of its own; no
    group's number of steps or result depends on another's rows.  A step that leaves the manifold
    is not taken.

    Where the logarithms of a geometry are iterated together until all have converged, a group's
    mean would tell of the others': there the groups are computed one at a time.
    """
    check_geometry(geometry)
    cure = "PerGroup(Recenter(manifold), estimator).fit(X, groups=ids) makes it of ids"
    check_instance(Groups, cure, groups=groups)
    shape = np.shape(points)
    if shape[1:] != geometry.shape or shape[0] <= groups.order.max():
        raise PublicValueError(f"points must be rows of {geometry}, one for each row of groups.")
    if not geometry.separate_rows and groups.count > 1:
        each = (groups.select(np.array([k])) for k in range(groups.count))
        return np.concatenate([own_means(geometry, points, group) for group in each])
    points = np.asarray(points)[groups.order]
    owners = groups.owners()
    first = points[groups.starts]
    current, axes = first, (1,) * (first.ndim - 1)
    steps, previous = np.ones(groups.count), np.full(groups.count, np.inf)
    with np.errstate(all="ignore"):
        # Steps of a group's mean: after ten, rows within .4 of each other are 1e-11 from converged
        # (tests/test_groups.py).  A fixed number, so that running time says nothing about a
        # person's rows.
        for _ in range(10):
            base = current[owners] if groups.count > 1 else current[0]
            velocity = groups.means(geometry.log(base, points))
            sizes = np.asarray(geometry.norm(current, velocity))
            # Strong negative curvature overshoots with full steps; halving restores contraction.
            steps = np.where(sizes > 0.7 * previous, np.maximum(steps / 2.0, 1.0 / 64.0), steps)
            previous = sizes
            moved = np.asarray(geometry.exp(current, steps.reshape(-1, *axes) * velocity))
            inside = np.asarray(geometry.belongs(moved)).reshape(-1, *axes)
            current = np.where(inside, moved, current)
    return current


def _moved_together(
    geometry: Geometry, points: np.ndarray, owned: Groups, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Places of the rows of the groups `chosen`, and those rows, each group's recentred."""
    # One group alone would be computed another way, and its last bits differ: it is taken twice.
    some = owned.select(chosen if len(chosen) > 1 else np.repeat(chosen, 2))
    means = own_means(geometry, points, some)
    return some.order, _moved(geometry, means[some.owners()], points[some.order])


def _moved(geometry: Geometry, mean: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points moved by what takes `mean`, or the mean of each, to the base point."""
    base = geometry.base_point
    seen = geometry.transport(mean, base, geometry.log(mean, points))
    return np.asarray(geometry.canonical(np.asarray(geometry.exp(base, seen))))


def asks(name: str) -> Any:
    """Make a method available where the answering estimator has one of this name."""
    return available_if(lambda self: hasattr(self._answering, name))


class AsksForRows(CarriesLedger, QuietQueries, MetaEstimatorMixin, BaseEstimator):
    """A meta-estimator that answers for rows, which may belong to `groups`, by what it fitted."""

    estimator: Any

    __metadata_request__fit = {"groups": True}
    __metadata_request__predict = {"groups": True}
    __metadata_request__predict_proba = {"groups": True}
    __metadata_request__transform = {"groups": True}
    __metadata_request__score = {"groups": True}

    @property
    def _answering(self) -> Any:
        """The fitted estimator; before a fit, the one that will be fitted."""
        raise PublicNotImplementedError

    def _queried(self, X: Any, groups: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Return the fitted estimator, and the rows and keywords of its call."""
        raise PublicNotImplementedError

    def _answer(self, method: str, X: Any, groups: Any) -> np.ndarray:
        check_is_fitted(self)
        model, rows, keywords = self._queried(X, groups)
        return getattr(model, method)(rows, **keywords)

    @asks("predict")
    def predict(self, X: Any, groups: Any = None) -> np.ndarray:
        """Predictions for the rows of `X`, which belong to `groups`."""
        return self._answer("predict", X, groups)

    @asks("predict_proba")
    def predict_proba(self, X: Any, groups: Any = None) -> np.ndarray:
        """Probabilities of the classes for the rows of `X`, which belong to `groups`."""
        return self._answer("predict_proba", X, groups)

    @asks("transform")
    def transform(self, X: Any, groups: Any = None) -> np.ndarray:
        """`X`, whose rows belong to `groups`, as what was fitted transforms it."""
        return self._answer("transform", X, groups)

    @asks("score")
    def score(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> float:
        """Score on the rows of `X`, which belong to `groups`; not private for them.

        `sample_weight` is passed on when it is given.
        """
        check_is_fitted(self)
        model, rows, keywords = self._queried(X, groups)
        if sample_weight is not None:
            keywords["sample_weight"] = sample_weight
        return float(model.score(rows, y, **keywords))

    @property
    def n_features_in_(self) -> int:
        """Number of features of what was fitted."""
        check_is_fitted(self)
        return int(self._answering.n_features_in_)

    @property
    def classes_(self) -> np.ndarray:
        """Labels of a classifier."""
        check_is_fitted(self)
        return self._answering.classes_

    def __sklearn_tags__(self) -> Tags:
        return tags_of(super().__sklearn_tags__(), self.estimator)


class PerGroup(AsksForRows):
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
        Fitted on the transformed rows, with `groups`.  After :class:`Recenter` on the same
        manifold, where `center` is None and a radius is looked for, its `center` is the base point:
        everybody's rows were moved there.
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

    New people are transformed by their own rows too: `predict` and `score` without `groups` take
    all rows for one person's, and warn.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp import PrivateMinimumDistanceToMean
    >>> from skriemdp.datasets import make_people
    >>> from skriemdp.preprocessing import PerGroup, Recenter
    >>> X, y, groups = make_people(100, 20, 3, rng=np.random.default_rng(0))
    >>> model = PerGroup(
    ...     Recenter("spd"),
    ...     PrivateMinimumDistanceToMean("spd", center=np.eye(3), radius=0.3, classes=[0, 1]),
    ... )
    >>> model.fit(X, y, groups=groups).privacy_spent_.unit
    'group'
    """

    __metadata_request__fit = {"groups": True, "clients": True}

    def __init__(self, transformer: BaseEstimator, estimator: BaseEstimator):
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
            raise PublicValueError(
                f"estimator: fit of {type(self.estimator).__name__} takes no groups, so it would "
                "protect single rows, which their group's transformation does not allow; use an "
                "estimator whose fit has groups=."
            )
        if isinstance(self.transformer, type) or not hasattr(self.transformer, "fit_transform"):
            raise PublicTypeError(
                "transformer must have a method fit_transform, such as Recenter('spd'), got "
                f"{shown(self.transformer)}."
            )
        transformed = self._transformed(X, groups)
        self.estimator_ = self._informed(transformed)
        ids = {"groups": groups}
        if clients is not None:
            _check_one_client(groups, clients)
            ids["clients"] = clients
        self.estimator_.fit(transformed, y, **ids)
        self.privacy_spent_ = self.estimator_.privacy_spent_
        return self

    @property
    def _answering(self) -> Any:
        return getattr(self, "estimator_", self.estimator)

    @asks("transform")
    def fit_transform(
        self, X: Any, y: Any = None, groups: Any = None, clients: Any = None
    ) -> np.ndarray:
        """Fit, then :meth:`transform` the same rows."""
        return self.fit(X, y, groups, clients).transform(X, groups)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def _queried(self, X: Any, groups: Any) -> tuple[Any, Any, dict[str, Any]]:
        check_order(groups, X)
        X = _table(X)
        if groups is None:
            warn_user(
                "without groups all rows count as one person's and are transformed together; pass "
                "groups=, who owns each row, or np.zeros(len(X)) where that is one person."
            )
            groups = np.zeros(len(X))
        alone = read_groups(groups, len(X), least=1).sizes == 1
        if type(self.transformer) is Recenter and alone.any():
            warn_user(
                "somebody has a single row: recentred by itself it is the base point, and what "
                "is said of it is a guess. Pass several rows of each person together."
            )
        return self.estimator_, self._transformed(X, groups), {}

    def _transformed(self, X: Any, groups: Any) -> np.ndarray:
        if groups is None:
            raise PublicValueError(
                "groups says who owns each row and is required: fit(X, y, groups=person). In "
                "searches and cross-validation enable metadata routing, without which scikit-learn "
                "keeps groups from fit."
            )
        check_order(groups, X)
        X = _table(X)
        if type(self.transformer) is Recenter:
            # As an estimator alone would: whoever has no point would be filled in, silently.
            checked_points(X, self.transformer.manifold)
        owned = read_groups(groups, len(X), least=1)
        check_per_sample(self.transformer.fit_transform, owned.count, (X,), "transformer")
        filler = self._tried(X.shape[1:])
        result = np.empty((len(X), *filler.shape))
        for rows, found in zip(owned.rows(), _kept(self.transformer, X, owned), strict=True):
            fits = found is not None and found.shape == (len(rows), *filler.shape)
            result[rows] = found if fits else filler
        return result

    def _informed(self, rows: np.ndarray) -> Any:
        """A clone of `estimator` that knows where everybody's `rows` were moved to: it is public.

        As it is where a center is given, or none is looked for.
        """
        estimator = clone(self.estimator)
        given = estimator.get_params(deep=False)
        if type(self.transformer) is not Recenter or given.get("manifold") is None:
            return estimator
        searched = given.get("center", 0.0) is None and isinstance(given.get("radius"), str)
        if searched and get_tags(estimator).input_tags.three_d_array:
            there, here = (
                geometry_of(rows, kind) for kind in (self.transformer.manifold, estimator.manifold)
            )
            if there == here:
                estimator.set_params(center=here.base_point)
        return estimator

    def _tried(self, shape: tuple[int, ...]) -> np.ndarray:
        """A transformed made-up row: what a group counts as that cannot be transformed."""
        manifold = getattr(self.transformer, "manifold", _manifold_of_rows(self.estimator))
        geometry = as_geometry(manifold, point_shape=shape)
        rng = public_generator(0, "made-up rows of a group")
        made_up = np.asarray(made_up_points(geometry, _TRIED, 0.3, rng)).reshape(_TRIED, *shape)
        tried = quietly(lambda: _fit_transform(self.transformer, made_up))
        if tried.shape[:1] != (_TRIED,):
            raise PublicValueError(
                f"transformer: {type(self.transformer).__name__} made {tried.shape[0]} rows of "
                f"{_TRIED} made-up ones; it must keep the number of rows."
            )
        return tried[0]


def _table(X: Any) -> np.ndarray:
    X = read_array(X, "X", dtype=np.float64, ensure_2d=False, allow_nd=True)
    if X.ndim < 2:
        raise PublicValueError(
            "X has one dimension; rows are asked for. Reshape your data with X.reshape(-1, 1) "
            "if each number is a row, or X.reshape(1, -1) if together they are one."
        )
    return X


def _manifold_of_rows(estimator: Any) -> Any:
    """Return the manifold of the rows on which `estimator` is fitted."""
    while hasattr(estimator, "estimator"):
        estimator = estimator.estimator
    # A `manifold` of something else, of a frame or of targets, comes with rows of numbers.
    of_points = get_tags(estimator).input_tags.three_d_array
    return estimator.manifold if of_points and hasattr(estimator, "manifold") else "euclidean"


def _check_one_client(groups: Any, clients: Any) -> None:
    """Raise where one id of `groups` comes with several of `clients`; both are public."""
    people = read_groups(groups, len(groups), least=1)
    places = read_groups(clients, len(groups), "clients", least=1)
    where = np.empty(len(groups), dtype=np.intp)
    where[places.order] = places.owners()
    pairs = np.stack([people.owners(), where[people.order]], axis=1)
    if len(np.unique(pairs, axis=0)) > people.count:
        raise PublicValueError(
            "clients: a person's rows are transformed together, but the ids show somebody in two "
            "clients; give that person an id of its own at each, and state clients_per_person."
        )


def _kept(transformer: Any, X: np.ndarray, owned: Groups) -> list[np.ndarray | None]:
    """Transform as :func:`_of_each`, once for the same rows in :func:`transformed_once`."""
    kept, name = _KEPT.get(), ""
    if kept is not None:
        # A transformer that cannot be pickled cannot be told from others.
        with contextlib.suppress(Exception):
            name = str(joblib.hash(transformer))
    if kept is None or not name:
        return _of_each(transformer, X, owned)
    shape = str(X.shape[1:])
    keys = [
        (name, shape, len(rows), hashlib.blake2b(X[rows].tobytes()).digest())
        for rows in owned.rows()
    ]
    missing = np.array([k for k, key in enumerate(keys) if key not in kept], dtype=np.intp)
    if len(missing):
        made = _of_each(transformer, X, owned.select(missing))
        kept.update(zip([keys[k] for k in missing], made, strict=True))
    return [kept[key] for key in keys]


def _of_each(transformer: Any, X: np.ndarray, owned: Groups) -> list[np.ndarray | None]:
    """Each group's rows, transformed by themselves; None where that cannot be done."""
    if type(transformer) is Recenter:
        with np.errstate(all="ignore"):
            return transformer._of_each(X, owned)
    return [_of_one(transformer, X[rows]) for rows in owned.rows()]


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


@quiet
def usable_rows(
    X: Any, y: Any = None, groups: Any = None, *, manifold: Any = "euclidean", classes: Any = None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """The rows that a fit can read: finite, on the manifold, with a label and an owner.

    Parameters
    ----------
    X : array-like of shape (n, *point_shape) or (n, n_features)
        Numbers; NaN where one is missing.
    y : array-like of shape (n,), optional
        Labels; None or NaN where one is missing.
    groups : array-like of shape (n,), optional
        Who owns each row; None or NaN where nobody is known.
    manifold : str, Geometry or pymanopt manifold, default="euclidean"
    classes : sequence, optional
        The public list of labels; rows of others are left out.

    Returns
    -------
    X, y, groups : ndarray or None
        Without those rows, in the same order.

    Raises
    ------
    ValueError
        For a table that holds something else than numbers, or columns of unlike lengths.

    Notes
    -----
    *Guarantee*: whether a row is left out depends on that row alone.  A row left out is a record
    that is absent, so this costs nothing under a ledger whose unit is "record, present or not"
    (docs/theory/presence.md).  Under other units the number of rows is public: there, fill in
    public numbers instead.

    Examples
    --------
    >>> from skriemdp.preprocessing import usable_rows
    >>> X, y, _ = usable_rows([[1.0], [float("nan")], [3.0]], ["a", "b", None])
    >>> X, y
    (array([[1.]]), array(['a'], dtype=object))
    """
    X = read_numbers(X, "X", ensure_2d=True, ensure_all_finite=False)
    geometry = geometry_of(X, manifold)
    usable = np.isfinite(X).all(axis=tuple(range(1, X.ndim)))
    # Rows of zeros stand for those that are left out already, so that all others may be reshaped.
    shown = np.where(usable.reshape(-1, *(1 for _ in X.shape[1:])), X, 0.0)

    def symmetric(block: np.ndarray) -> np.ndarray:
        return ~asymmetric(geometry, block.reshape(len(block), *geometry.shape))

    def belongs(block: np.ndarray) -> np.ndarray:
        return np.asarray(geometry.belongs(as_points(geometry, block)))

    for rule in (symmetric, belongs):
        rule = rule if geometry.separate_rows else one_by_one(rule)
        usable[usable] = np.asarray(map_tiles(rule, shown[usable]), dtype=bool)
    columns = [None if column is None else _column(column, len(X)) for column in (y, groups)]
    for column in columns:
        if column is not None:
            usable &= np.array([one is not None and one == one for one in column], dtype=bool)
    if columns[0] is not None and classes is not None:
        known = set(classes)
        usable &= np.array([one in known for one in columns[0]], dtype=bool)
    kept = [None if column is None else column[usable] for column in columns]
    return X[usable], kept[0], kept[1]


def _column(values: Any, n: int) -> np.ndarray:
    """`values` as an array with an entry for each of n rows; of a list, whatever it holds."""
    if np.ma.isMaskedArray(values):
        values = values.tolist()  # with None for what is masked
    if isinstance(values, list | tuple):
        column = np.empty(len(values), dtype=object)
        column[:] = values
    else:
        column = np.asarray(values)
    if column.shape != (n,):
        raise PublicValueError("y and groups must be columns with one entry for each row of X.")
    return column
