"""Which steps of a pipeline learned from the data, or mix records, without a privacy guarantee."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from skriemdp._dataclasses import dataclass
from skriemdp.descent.separate_rows import check_steps, learned_attributes
from skriemdp.geometry import as_geometry

__all__ = ["PrivacyReport", "Step", "privacy_report"]

PRIVATE = "private"
SEEDED = "seeded: protects nobody"
NOT_PRIVATE = "NOT PRIVATE: learned from the data"
STATELESS = "learned nothing"
NOT_FITTED = "not fitted"
MIXES = "NOT PRIVATE: a row that comes out depends on other rows"
NOT_CHECKED = "not checked: nobody knows whether it keeps records apart"


@dataclass(frozen=True)
class Step:
    """One estimator inside the model.

    Attributes
    ----------
    path : str
        Where it is: names of steps joined by dots, ``""`` for the model itself.
    name : str
        Its class.
    status : str
        Private, learned nothing, not fitted, not checked, or not private.
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


@dataclass(frozen=True)
class PrivacyReport:
    """What :func:`privacy_report` found; true when all that is fitted is known to be private.

    Attributes
    ----------
    steps : tuple of Step
        In the order of the model.
    """

    steps: tuple

    @property
    def violations(self) -> tuple:
        """Steps that learned from the data, or mix records, without a guarantee."""
        return tuple(step for step in self.steps if step.status in (NOT_PRIVATE, MIXES, SEEDED))

    def __bool__(self) -> bool:
        found = {step.status for step in self.steps}
        return (
            bool(found & {PRIVATE, STATELESS}) and NOT_CHECKED not in found and not self.violations
        )

    def __str__(self) -> str:
        count, unknown = len(self.violations), [s for s in self.steps if s.status == NOT_CHECKED]
        verdict = "Every fitted step is private or learned nothing."
        if count:
            verdict = f"{count} of {len(self.steps)} steps void the guarantee of the whole."
        elif unknown:
            verdict = (
                f"{len(unknown)} of {len(self.steps)} steps could not be checked; the guarantee of "
                "the whole holds only if each record that comes out of them depends on one."
            )
        return "\n".join([verdict, *(f"  {step}" for step in self.steps)])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def privacy_report(estimator: Any) -> PrivacyReport:
    """Name every step that learned from data without ``privacy_spent_``, or mixes records.

    Walks Pipeline, ColumnTransformer, FeatureUnion, searches and other meta-estimators.  One step
    that is not private voids the whole: a scaler in front hands its exact means to everything
    after it, a plain model behind trains on the records themselves, and behind a step that learns
    nothing but mixes rows (``X - X.mean(0)``) or repeats them one record moves more than its bound.

    Parameters
    ----------
    estimator : estimator
        Usually fitted.

    Returns
    -------
    PrivacyReport
        Prints as a list; ``bool(report)`` is True when something is fitted, and nothing that is
        fitted is a violation or could not be checked.

    Raises
    ------
    TypeError
        When `estimator` is not a scikit-learn estimator.

    Notes
    -----
    The report looks at what the model contains; a plain search whose winner is private has still
    looked at raw scores, so it is reported itself.  What all fits cost together is the accountant's
    business (``accountant.summary()``).  A step that learned only from public data cannot be told
    apart and is reported.  Steps that learned nothing are tried on made-up tables: apart, together,
    reordered, shortened, beside repeated and far larger rows.  That is no proof: mixing of less
    than 1e-8 of a column's size, in tables of another size or of rows with a rare property is not
    seen, nor is what a function remembers from an earlier call.

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
    name = type(estimator).__name__
    if hasattr(estimator, "privacy_spent_"):
        spent = estimator.privacy_spent_
        epsilon, delta = spent
        status = SEEDED if getattr(spent, "seeded", False) else PRIVATE
        yield Step(path, name, status, epsilon, delta)
        return
    children = [(name, child) for name, child in _children(estimator) if _is_estimator(child)]
    if not isinstance(estimator, (Pipeline, FeatureUnion, ColumnTransformer)):
        yield Step(path, name, _tried([estimator], None)[0])
    found: dict[str, str] = {}
    if isinstance(estimator, Pipeline):
        found = dict(_tried_steps(children))
    for name, child in children:
        place = f"{path}.{name}" if path else name
        if name in found:
            yield Step(place, type(child).__name__, found[name])
        else:
            yield from _walk(child, place)


def _tried_steps(steps: list[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """Names and findings of a pipeline's steps that may have learned nothing."""
    waiting: list[tuple[str, Any]] = []
    for name, step in [*steps, ("", None)]:
        if step is not None and _holds_nothing(step):
            waiting.append((name, step))
            continue
        found = _tried([before for _, before in waiting], step)
        yield from zip((name for name, _ in waiting), found, strict=True)
        waiting = []


def _holds_nothing(step: Any) -> bool:
    """Whether a step is no composite, no private estimator, and nothing that it learned is seen."""
    if isinstance(step, (Pipeline, FeatureUnion, ColumnTransformer)):
        return False
    return hasattr(step, "transform") and _status(step) in (STATELESS, NOT_FITTED)


def _tried(steps: list[Any], behind: Any) -> list[str]:
    """Findings of steps that follow each other, with what comes after the last, where it is known.

    The tables are tried that have the shape of what went in, as far as the steps remember it, and
    come out with as many columns as what comes after was fitted on.
    """
    found = [_status(step) for step in steps]
    fitted = behind is not None and _status(behind) not in (NOT_FITTED, STATELESS)
    if not fitted and NOT_FITTED in found or not set(found) <= {STATELESS, NOT_FITTED}:
        return found
    width = getattr(behind, "n_features_in_", None) if fitted else None
    for like in _layouts(steps, behind, width) if steps else []:
        checks = check_steps(steps, like, width=width)
        if any(check.tried for check in checks):
            return [_finding(check) for check in checks]
    return [NOT_CHECKED] * len(steps)


def _finding(check: Any) -> str:
    if check.fine:
        return STATELESS
    return MIXES if check.tried and check.repeats else NOT_CHECKED


def _layouts(steps: list[Any], behind: Any, width: int | None) -> Iterator[Any]:
    """Empty tables as the first step may have seen them, the likeliest first."""
    names = getattr(steps[0], "feature_names_in_", None)
    if names is not None:
        import pandas as pd

        for dtype in (float, object):
            yield pd.DataFrame(np.empty((0, len(names)), dtype), columns=names)
    columns = getattr(steps[0], "n_features_in_", width)
    if columns is not None:
        shapes: list[tuple[int, ...]] = [(columns,), (columns, columns), (columns, 4 * columns)]
        if behind is not None and _takes_matrices(behind, columns):
            shapes = [*shapes[1:], shapes[0]]
        yield from (np.empty((0, *shape)) for shape in shapes)
    yield np.empty(0, dtype=str)


def _takes_matrices(estimator: Any, size: int) -> bool:
    """Whether the rows that a private estimator takes are matrices of that many rows."""
    while hasattr(estimator, "estimator"):
        estimator = estimator.estimator
    try:
        return as_geometry(estimator.manifold, point_shape=(size, size)).shape == (size, size)
    except Exception:  # noqa: BLE001  no manifold, or of vectors
        return False


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
    """What the attributes show: no trial."""
    if hasattr(estimator, "privacy_spent_"):
        return PRIVATE
    if isinstance(estimator, BaseEstimator) and not get_tags(estimator).requires_fit:
        return STATELESS
    if learned_attributes(estimator):
        return NOT_PRIVATE
    return STATELESS if "n_features_in_" in vars(estimator) else NOT_FITTED
