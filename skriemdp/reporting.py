"""Which fitted steps of a pipeline learned from the data without a privacy guarantee."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterator
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

__all__ = ["PrivacyReport", "Step", "privacy_report"]

PRIVATE = "private"
SEEDED = "seeded: protects nobody"
NOT_PRIVATE = "NOT PRIVATE: learned from the data"
STATELESS = "learned nothing"
NOT_FITTED = "not fitted"

# Fitted attributes that hold shapes and names of the input, which are public.
_PUBLIC_FITTED = frozenset({"n_features_in_", "feature_names_in_", "n_samples_seen_"})


@dataclasses.dataclass(frozen=True)
class Step:
    """One estimator inside the model.

    Attributes
    ----------
    path : str
        Where it is: names of steps joined by dots, ``""`` for the model itself.
    name : str
        Its class.
    status : str
        Private, learned nothing, not fitted, or not private.
    epsilon, delta : float or None
        Of a private step's own fit.
    """

    path: str
    name: str
    status: str
    epsilon: float | None = None
    delta: float | None = None

    def __str__(self) -> str:
        place = self.path or "(the model)"
        spent = f" (epsilon={self.epsilon:g}, delta={self.delta:g})" if self.epsilon else ""
        return f"{place}: {self.name}: {self.status}{spent}"


@dataclasses.dataclass(frozen=True)
class PrivacyReport:
    """What :func:`privacy_report` found; true when no step breaks the guarantee.

    Attributes
    ----------
    steps : tuple of Step
        In the order of the model.
    """

    steps: tuple

    @property
    def violations(self) -> tuple:
        """Steps that learned from the data without a guarantee."""
        return tuple(step for step in self.steps if step.status in (NOT_PRIVATE, SEEDED))

    def __bool__(self) -> bool:
        fitted = any(step.status in (PRIVATE, STATELESS) for step in self.steps)
        return fitted and not self.violations

    def __str__(self) -> str:
        count = len(self.violations)
        verdict = "Every fitted step is private or learned nothing."
        if count:
            verdict = f"{count} of {len(self.steps)} steps void the guarantee of the whole."
        return "\n".join([verdict, *(f"  {step}" for step in self.steps)])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def privacy_report(estimator: Any) -> PrivacyReport:
    """Name every fitted step that learned from data without ``privacy_spent_``.

    Walks Pipeline, ColumnTransformer, FeatureUnion, searches and other meta-estimators.  One step
    that is not private voids the whole: a scaler in front hands its exact means to everything
    after it, a plain model behind trains on the records themselves.

    Parameters
    ----------
    estimator : estimator
        Usually fitted.

    Returns
    -------
    PrivacyReport
        Prints as a list; ``bool(report)`` is True when the fitted model holds no violation.

    Raises
    ------
    TypeError
        When `estimator` is not a scikit-learn estimator.

    Notes
    -----
    The report looks at what the model contains; a plain search whose winner is private has still
    looked at raw scores, so it is reported itself.  What all fits cost together is the accountant's
    business (``accountant.summary()``).  A step that learned only from public data cannot be told
    apart and is reported.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer, StandardScaler
    >>> from skriemdp.reporting import privacy_report
    >>> model = make_pipeline(StandardScaler(), Normalizer()).fit(np.eye(3))
    >>> print(privacy_report(model))
    1 of 2 steps void the guarantee of the whole.
      standardscaler: StandardScaler: NOT PRIVATE: learned from the data
      normalizer: Normalizer: learned nothing
    """
    if not _is_estimator(estimator):
        raise TypeError(f"expected a scikit-learn estimator, got {type(estimator).__name__}.")
    return PrivacyReport(tuple(_walk(estimator, "")))


def _is_estimator(value: Any) -> bool:
    return hasattr(value, "fit") and hasattr(value, "get_params") and not isinstance(value, type)


def _walk(estimator: Any, path: str) -> Iterator[Step]:
    if hasattr(estimator, "privacy_spent_"):
        spent = estimator.privacy_spent_
        epsilon, delta = spent
        status = SEEDED if getattr(spent, "seeded", False) else PRIVATE
        yield Step(path, type(estimator).__name__, status, epsilon, delta)
        return
    children = list(_children(estimator))
    if not isinstance(estimator, (Pipeline, FeatureUnion, ColumnTransformer)):
        yield Step(path, type(estimator).__name__, _status(estimator))
    for name, child in children:
        if _is_estimator(child):
            yield from _walk(child, f"{path}.{name}" if path else name)


def _children(estimator: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(estimator, Pipeline):
        yield from estimator.steps
    elif isinstance(estimator, FeatureUnion):
        yield from estimator.transformer_list
    elif isinstance(estimator, ColumnTransformer):
        fitted = getattr(estimator, "transformers_", estimator.transformers)
        yield from ((name, child) for name, child, _ in fitted)
    else:
        for name, value in vars(estimator).items():
            if name.endswith("_") and _is_estimator(value):
                yield name, value
            elif name.endswith("_") and isinstance(value, (list, tuple)):
                yield from ((f"{name}[{place}]", child) for place, child in enumerate(value))


def _status(estimator: Any) -> str:
    learned = {
        name
        for name in vars(estimator)
        if name.endswith("_") and not name.startswith("_") and name not in _PUBLIC_FITTED
    }
    if not isinstance(estimator, BaseEstimator) or get_tags(estimator).requires_fit:
        if learned:
            return NOT_PRIVATE
        has_shape = any(name in vars(estimator) for name in _PUBLIC_FITTED)
        return STATELESS if has_shape else NOT_FITTED
    return STATELESS
