"""Parameters that mean the same in all estimators, checked in one place before anything else."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target

from skriemdp._config import get_config
from skriemdp._random import check_public_seed
from skriemdp._validation import check_count, check_factor, check_scale
from skriemdp.core.work import check_limit

__all__ = ["check_parameters", "label_list"]

_BOUNDS = ("clip_norm", "max_norm")
_FACTORS = ("length_scale", "ridge", "step_size", "smoothness", "typical_count", "batch_size")
_COUNTS = ("n_steps", "n_queries")


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
    _check_class_list(parameters.get("classes"))


def _check_class_list(classes: Any) -> None:
    if classes is None:
        return
    try:
        size = len(classes)
    except (TypeError, OverflowError):
        size = -1
    if size < 0 or isinstance(classes, (str, bytes, dict)):
        raise TypeError(
            f"classes must be a list of labels that has a length, got {type(classes).__name__}."
        )
    check_limit("most_classes", **{"len(classes)": size})


def label_list(classes: Any, y: Any) -> np.ndarray:
    """The distinct labels of the public list `classes`, or of `y` without one; sorted.

    The labels in y then count as public.  Raises ValueError for labels of no use.
    """
    if classes is None:
        kind = type_of_target(y, input_name="y")
        if kind not in ("binary", "multiclass"):
            raise ValueError(
                f"Unknown label type: {kind}. y must hold class labels, integers or strings; for "
                "numbers take an estimator or a loss for regression."
            )
        labels, where = np.unique(y), "y"
    else:
        # A set or a range has no order of its own or no array form; a list has both.
        try:
            labels, where = np.unique(np.asarray(list(classes))), "classes"
        except (TypeError, ValueError):
            raise TypeError("classes must hold labels of one kind that can be sorted.") from None
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise ValueError(f"{where} must hold labels, not NaN or infinity.")
    most = get_config()["most_classes"]
    if len(labels) > most:
        raise ValueError(
            f"{where} has more than {most:g} labels; a classifier needs fewer. Raise the limit "
            "with skriemdp.config_context(most_classes=...), or predict a number, not a class."
        )
    return labels
