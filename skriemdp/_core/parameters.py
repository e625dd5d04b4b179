"""Parameters that mean the same in all estimators, checked in one place before anything else."""

from __future__ import annotations

import inspect
import numbers
from typing import Any

import numpy as np

from skriemdp._config import get_config
from skriemdp._core.work import check_limit
from skriemdp._errors import PublicAttributeError, PublicTypeError, PublicValueError
from skriemdp._random import check_public_seed
from skriemdp._validation import check_count, check_factor, check_privacy, check_scale, shown
from skriemdp._warnings import warn_user

_BOUNDS = ("clip_norm", "max_norm")
_FACTORS = ("length_scale", "ridge", "step_size", "smoothness", "typical_count", "batch_size")
_COUNTS = ("n_steps", "n_queries")
# Bounds that some estimators search for.
_SEARCHED = ("radius", "feature_norm", "row_norm", "target_range")


# Epsilon from which fits warn: a release may change the odds of a guess about a record by a factor
# exp(10) = 22026, from even odds to near certainty.
_LARGE_EPSILON = 10.0


class RequiresParameter:
    """Stands in a class for a learned attribute that a fit sets with certain parameters only."""

    def __init__(self, parameters: str):
        self._parameters = parameters

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, estimator: Any, owner: type) -> Any:
        if estimator is None:
            return self
        raise PublicAttributeError(
            f"{owner.__name__} learns {self._name} with {self._parameters}; pass that and fit "
            "again, which costs a budget of its own."
        )


def warn_large_epsilon(epsilon: float) -> None:
    """Warn, from a public number, when a release may give a record away."""
    if epsilon > _LARGE_EPSILON:
        factor = f"exp({epsilon:.3g})"
        warn_user(
            f"epsilon={epsilon:g} protects next to nobody: the release may multiply the odds of a "
            f"guess about one person by {factor}, beyond 22000; use an epsilon of at most "
            f"{_LARGE_EPSILON:g}, better about 1."
        )


def check_target(epsilon: Any, delta: Any) -> None:
    """Raise unless (epsilon, delta) is a target that a fit can have; warn where it says little."""
    check_privacy(epsilon, delta)
    warn_large_epsilon(float(epsilon))


def check_parameters(estimator: Any) -> None:
    """Raise unless the counts, seeds, lengths and class list of an estimator are of a sane size."""
    parameters = vars(estimator)
    if "public_seed" in parameters:
        check_public_seed(parameters["public_seed"])
    for check, names in ((check_scale, _BOUNDS), (check_factor, _FACTORS)):
        for name in names:
            value = parameters.get(name)
            if isinstance(value, numbers.Number):  # others may be sequences, functions or "auto"
                check(**{name: value})  # type: ignore[arg-type]
    for name in _COUNTS:
        value = parameters.get(name)
        if value is not None:
            check_count(**{name: value})
            check_limit("most_steps", **{name: value})
    for name in _SEARCHED:
        value = parameters.get(name, "private")
        if value is None or (isinstance(value, str) and value != "private"):
            _refuse_searched(estimator, name, value)
    _check_class_list(parameters.get("classes"))


def _refuse_searched(estimator: Any, name: str, value: Any) -> None:
    if inspect.signature(type(estimator)).parameters[name].default == "private":
        kind = PublicTypeError if value is None else PublicValueError
        what = "a pair of public numbers" if name == "target_range" else "a public number"
        raise kind(
            f"{name} must be {what}, or 'private', which finds it with a part of the budget; got "
            f"{shown(value)}."
        )


def _check_class_list(classes: Any) -> None:
    if classes is None:
        return
    try:
        size = len(classes)
    except (TypeError, OverflowError):
        size = -1
    if size < 0 or isinstance(classes, (str, bytes, dict)):
        raise PublicTypeError(
            f"classes must be a list of labels that has a length, got {type(classes).__name__}."
        )
    check_limit("most_classes", **{"len(classes)": size})


def _kind_of_labels(y: Any) -> str:
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biu":
        return "multiclass"  # whole numbers are labels; scikit-learn would look for tables first
    from sklearn.utils.multiclass import type_of_target

    return str(type_of_target(y, input_name="y"))


def label_list(classes: Any, y: Any) -> np.ndarray:
    """The distinct labels of the public list `classes`, or of `y` without one; sorted.

    The labels in y then count as public.  Raises ValueError for labels of no use.
    """
    if classes is None:
        kind = _kind_of_labels(y)
        if kind not in ("binary", "multiclass"):
            raise PublicValueError(
                f"Unknown label type: {kind}. y must hold class labels, integers or strings; for "
                "numbers take an estimator or a loss for regression."
            )
        labels, where = np.unique(y), "y"
    else:
        # A set or a range has no order of its own or no array form; a list has both.
        given = list(classes)
        if 0 < sum(isinstance(label, str) for label in given) < len(given):
            raise PublicValueError(
                "classes mixes text and numbers; make text of all, in y as well: "
                "numpy.array(y, dtype=object).astype(str)."
            )
        try:
            labels, where = np.unique(np.asarray(given)), "classes"
        except (TypeError, ValueError):
            raise PublicTypeError(
                "classes must hold labels of one kind that can be sorted."
            ) from None
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise PublicValueError(f"{where} must hold labels, not NaN or infinity.")
    most = get_config()["most_classes"]
    if len(labels) > most:
        raise PublicValueError(
            f"{where} has more than {most:g} labels; a classifier needs fewer. Raise the limit "
            "with skriemdp.config_context(most_classes=...), or predict a number, not a class."
        )
    return labels


def _are_text(labels: np.ndarray) -> bool:
    return bool(labels.size) and all(isinstance(label, str) for label in labels.tolist())


def read_labels(classes: Any, y: Any, name: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """The labels of a classifier, and the place of each entry of `y` among them.

    A sorted list of k texts is also the list of the numbers 0 to k - 1 where y holds integers: many
    of scikit-learn's tools hand these over for text, and expect them back.
    """
    labels, y = label_list(classes, y), np.asarray(y)
    if classes is not None and y.dtype.kind in "iu" and _are_text(labels):
        in_order = list(classes) == labels.tolist()
        labels = np.arange(len(labels))
        if not in_order or not np.isin(y, labels).all():
            numbers = labels.tolist() if len(labels) <= 5 else f"range({len(labels)})"
            raise PublicValueError(
                f"{name} holds integers and classes text, which stands for 0, 1, ... only in "
                "sorted order. Where a tool of scikit-learn numbers the labels, pass the numbers "
                f"that it hands over: classes={numbers}; OutputCodeClassifier hands over [-1, 1]."
            )
    if labels.dtype.kind in "biuf" and y.dtype.kind in "OUST" and _are_text(y):
        raise PublicValueError(
            f"{name} holds text and classes numbers; list the texts that can occur in {name}."
        )
    if not np.isin(y, labels).all():
        raise PublicValueError(
            f"{name} has labels that are not in classes; list every possible label."
        )
    return labels, np.searchsorted(labels, y)


def warn_large_delta(delta: float, n: int) -> None:
    """Warn, from public numbers, when delta would allow releasing a random record."""
    if delta >= 1.0 / n:
        warn_user(
            f"delta={delta} is at least 1/n={1.0 / n:.3g}: releasing a random record would be "
            "allowed; use a smaller delta."
        )
