"""Records and pipelines of a search: who trains, who scores, and which step is the private one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.utils import get_tags, indexable

from skriemdp._core.estimator import Data, PrivateEstimator, validated
from skriemdp._descent.separate_rows import refuse_mixing
from skriemdp._descent.steps import (
    check_steps,
    chosen_by_records,
    composite,
    cure_of,
    exact_by_class,
    fitted_inside,
    known_free,
    leaves,
    parts_of,
)
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._quiet import quietly
from skriemdp._random import public_generator
from skriemdp._validation import shown
from skriemdp.preprocessing import PerGroup

if TYPE_CHECKING:
    from skriemdp.privacy._event import Event

# scikit-learn's modules of grids, splits and pipelines take longer to load than a search to run,
# so none of them is loaded here.


def candidates_of(param_grid: Any, check: Callable[[int], None]) -> list[dict[str, Any]]:
    """All choices of one value for each parameter, of a dict of lists or of several such dicts.

    `check` is asked about their number before they are listed.
    """
    grids = [param_grid] if isinstance(param_grid, Mapping) else param_grid
    if not isinstance(grids, Sequence) or not all(isinstance(grid, Mapping) for grid in grids):
        raise PublicTypeError(
            f"param_grid must be a dict or a list of dicts, got {shown(param_grid)}."
        )
    for name, values in (item for grid in grids for item in grid.items()):
        listed = isinstance(values, Sequence) and not isinstance(values, str)
        if not listed and not (isinstance(values, np.ndarray) and values.ndim == 1):
            raise PublicTypeError(
                f"param_grid: {name!r} must be a list or a one-dimensional array of values, got "
                f"{shown(values)}; write one value as a list of one."
            )
        if not len(values):
            raise PublicValueError(f"param_grid: {name!r} has no values.")
    check(sum(math.prod(map(len, grid.values())) for grid in grids))
    return [
        dict(zip(sorted(grid), values, strict=True))
        for grid in grids
        for values in itertools.product(*(grid[name] for name in sorted(grid)))
    ]


def split(arrays: Sequence[Any], share: float, public_seed: int) -> list[Any]:
    """Two parts of every array, the second with this share of the rows; a random division."""
    arrays = indexable(*arrays)
    n = length(arrays[0])
    scored = math.ceil(share * n)
    if scored >= n:
        raise PublicValueError(
            "a search needs two records at least, one to train and one to score; got "
            f"n_samples={n}."
        )
    rng = public_generator(public_seed, "validation split")
    order = rng.permutation(n)
    parts = order[scored:], order[:scored]
    return [_at(array, rows) for array in arrays for rows in parts]


def _at(array: Any, rows: np.ndarray) -> Any:
    """The chosen `rows` of an array, a sparse matrix, a data frame or a list."""
    if hasattr(array, "iloc"):
        return array.iloc[rows]
    return array[rows] if hasattr(array, "shape") else [array[row] for row in rows]


def is_pipeline(estimator: Any) -> bool:
    """Whether this is scikit-learn's pipeline."""
    return composite(estimator) == "Pipeline"


class Uncharged:
    """Accountant of fits on made-up or public records, which cost nothing; of a ledger's `unit`."""

    def __init__(self, unit: Any = None) -> None:
        self.unit = unit

    def __sklearn_clone__(self) -> Self:
        return self

    def composes(self, epsilon: float, delta: float) -> bool:
        return False

    def spend(self, event: Event, **details: Any) -> None:
        return None


@dataclass(frozen=True)
class Part:
    """Records of a search: rows, or people with their rows.

    Attributes
    ----------
    X, y : array-like
    people : ndarray of int or None
        Who owns each row, by the place of the id among all that are sorted.
    """

    X: Any
    y: Any = None
    people: Any = None

    @property
    def n(self) -> int:
        """Number of records."""
        return length(self.X) if self.people is None else len(np.unique(self.people))

    def rows(self, chosen: np.ndarray) -> Part:
        """The rows `chosen`."""
        X, y = (None if a is None else _at(a, chosen) for a in (self.X, self.y))
        return Part(X, y, None if self.people is None else self.people[chosen])


def as_given(records: Any, x_shape: tuple[int, ...], y: Any, step: Any) -> Any:
    """Made-up records in the layout of the given ones, labels from the public list of classes."""
    X, labels = records
    if labels is not None and getattr(step, "classes", None) is not None:
        labels = np.asarray(step.classes)[labels.astype(int)]
    elif labels is not None and np.asarray(y).dtype.kind in "OUS":
        labels = labels.astype(int).astype(str)
    return X.reshape(len(X), *x_shape), labels


def refuse_streams(step: PrivateEstimator, X: Any) -> None:
    """A list of tables is a stream of records; a search has to split records, not tables."""
    listed = isinstance(X, (list, tuple)) and len(X) > 0 and len(np.shape(X[0])) == 2
    if listed and not get_tags(step).input_tags.three_d_array and not hasattr(step, "cost"):
        raise PublicTypeError(
            "X is a list of tables, which a search cannot split into records; pass one table, for "
            "instance numpy.concatenate(X)."
        )


def quiet(step: PrivateEstimator) -> dict[str, Any]:
    """Parameters that disable a user's callbacks, so that losing runs stay hidden."""
    return {"callback": None} if "callback" in step.get_params(deep=False) else {}


def private_step(estimator: PrivateEstimator) -> PrivateEstimator:
    """The private estimator at the end."""
    step = last_step(estimator)
    if isinstance(step, PerGroup):
        step = step.estimator
    if not isinstance(step, PrivateEstimator):
        raise PublicTypeError(
            f"estimator must be a private estimator of skriemdp, or a pipeline that ends with one; "
            f"got {type(step).__name__}."
        )
    return step


def check_before(estimator: Any, X: Any, y: Any) -> bool:
    """Raise unless the steps before the private one learn nothing and treat records apart.

    Known classes are taken at their parameters, and what stands beside or between them is tried on
    made-up tables; True when no bit of a row changed there with other rows.
    """
    last = last_step(estimator)
    if isinstance(last, PerGroup) and (held := fitted_inside(last.transformer)):
        raise learning("PerGroup's transformer", f"it holds {held}")
    return not is_pipeline(estimator) or _check_steps(estimator.steps[:-1], X, y)


def _check_steps(steps: Sequence[tuple[str, Any]], X: Any, y: Any, within: str = "") -> bool:
    """:func:`check_before` for named steps that follow each other."""
    before: list[Any] = []
    waiting: list[tuple[str, Any]] = []
    exact = True
    for name, step in [*_flat(steps, within), ("", None)]:
        mixed = step is not None and any(map(known_free, leaves(step)))
        if step is not None and not mixed and not _chosen_within(step):
            waiting.append((name, step))
            continue
        if waiting:
            exact &= _try_together(waiting, _passed(before, X, y), labels=y is not None)
            before += [tried for _, tried in waiting]
            waiting = []
        if step is not None:
            if hasattr(X, "tocsr") and getattr(step, "sparse_threshold", None):
                why = "whether a sparse table comes out depends on the records"
                raise learning(f"step {name!r}", why, "sparse_threshold=0")
            if not known_free(step):
                exact &= _check_parts(name, step, _passed(before, X, y), y)
            else:
                exact &= exact_by_class(step)
            before.append(step)
    return exact


def _flat(steps: Sequence[tuple[str, Any]], within: str) -> Iterator[tuple[str, Any]]:
    """Steps that do something, those of pipelines one by one."""
    for name, step in steps:
        place = f"{within}.{name}" if within else name
        if is_pipeline(step):
            yield from _flat(step.steps, place)
        elif step not in (None, "passthrough", "drop"):
            yield place, step


def _chosen_within(step: Any) -> str:
    """Describe what a ColumnTransformer decides by looking at records; empty if nothing."""
    return chosen_by_records(step) if composite(step) == "ColumnTransformer" else ""


def _check_parts(name: str, step: Any, X: Any, y: Any) -> bool:
    """:func:`check_before` for the parts of a composite, each on its own columns."""
    if chosen := _chosen_within(step):
        raise learning(f"step {name!r}", chosen)
    if composite(step) == "FeatureUnion":
        given = [(*part, None) for part in parts_of(step)]
    else:
        given = [*step.transformers, ("remainder", step.remainder, None)]
    return all(
        [
            _check_steps([(part, inner)], X if chosen is None else _columns(X, chosen), y, name)
            for part, inner, chosen in given
        ]
    )


def _columns(X: Any, chosen: Any) -> Any:
    """Columns of a table as a ColumnTransformer takes them."""
    chosen = chosen(X) if callable(chosen) else chosen
    if not hasattr(X, "iloc"):
        return (X if hasattr(X, "shape") else np.asarray(X))[:, chosen]
    first = chosen.start if isinstance(chosen, slice) else np.atleast_1d(chosen)[:1].tolist()
    named = isinstance(first, str) or (isinstance(first, list) and isinstance(first[0], str))
    return X.loc[:, chosen] if named else X.iloc[:, chosen]


def _passed(steps: Sequence[Any], X: Any, y: Any) -> Any:
    """Apply steps that are known to learn nothing to X, for its shape and dtype."""

    def passed(X: Any, y: Any) -> Any:
        for step in steps:
            X = clone(step).fit_transform(X, y)
        return X

    return quietly(passed, X, y, labels=True) if steps else X


def _try_together(steps: Sequence[tuple[str, Any]], X: Any, labels: bool) -> bool:
    """Try steps of which nothing is known on made-up tables like X."""
    checks = check_steps([step for _, step in steps], X, labels=labels)
    for (name, step), check in zip(steps, checks, strict=True):
        if check.fine:
            continue
        if check.learns or (check.tried and get_tags(step).requires_fit):
            raise learning(f"step {name!r}", check.learns, cure_of(step))
        if not check.tried:
            raise PublicValueError(
                f"step {name!r} {check.refusal} on every made-up table of the shape of X, so "
                "nobody has checked that row i of what comes out depends on row i only. If it "
                "does, transform X by it first, and search over the rest."
            )
        refuse_mixing(check, f"step {name!r}")
    return all(check.identical for check in checks)


def learning(what: str, why: str, cure: str = "") -> TypeError:
    """The refusal of what a search cannot charge."""
    cure = f"; pass {cure}" if cure else ""
    return PublicTypeError(
        f"{what} learns from the records without privacy{f' ({why})' if why else ''}{cure}. A "
        "search can charge only pipelines of steps that learn nothing and one private estimator "
        "at the end; scale by public constants in a FunctionTransformer."
    )


def last_step(estimator: Any) -> Any:
    """The private estimator, or `PerGroup` around it."""
    return estimator.steps[-1][1] if is_pipeline(estimator) else estimator


def fitted(model: Any) -> Any:
    """The private estimator that was fitted in `model`."""
    last = last_step(model)
    return last.estimator_ if isinstance(last, PerGroup) else last


def before_last(model: Any, X: Any) -> tuple[Any, Any]:
    """The last step of a model, and what the stateless steps before it make of X."""
    if is_pipeline(model) and len(model.steps) > 1:
        X = model[:-1].transform(X)
    return last_step(model), X


def seen(model: Any, X: Any, people: Any) -> tuple[Any, Any]:
    """Return the predictor and its rows: within `PerGroup`, each person's transformed rows."""
    if not isinstance(last_step(model), PerGroup):
        return model, X
    last, X = before_last(model, X)
    return last.estimator_, last._transformed(X, people)


def fit_arguments(model: Any, people: Any) -> dict[str, Any]:
    """Groups as `fit` of a model or a pipeline wants them."""
    if people is None:
        return {}
    if is_pipeline(model) and not get_config()["enable_metadata_routing"]:
        return {f"{model.steps[-1][0]}__groups": people}
    return {"groups": people}


def validated_step(model: Any, step: PrivateEstimator, part: Part) -> Data:
    """Validated input of the private step."""

    def before(X: Any, y: Any) -> tuple[Any, Any]:
        if is_pipeline(model) and len(model.steps) > 1:
            n = length(X)
            X = model[:-1].fit_transform(X, y)
            if length(X) != n:
                raise PublicValueError(
                    "estimator: the steps before the private one must give one row for each record."
                )
        last = last_step(model)
        return (last._transformed(X, part.people) if isinstance(last, PerGroup) else X), y

    X, y = quietly(before, part.X, part.y, labels=True)
    return validated(step, X, y, part.people)


def length(X: np.ndarray) -> int:
    if not getattr(X, "shape", (0,)):
        raise PublicValueError("X holds one number; pass a table with a row for each record.")
    return X.shape[0] if hasattr(X, "shape") else len(X)


def as_array(value: np.ndarray | None) -> np.ndarray | None:
    if value is None or hasattr(value, "tocsr"):
        return value
    value = np.asarray(value)
    return value.ravel() if value.ndim == 2 and value.shape[1] == 1 else value
