"""Report on a model: the parts that learned from data, or mix records, without a guarantee."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from skriemdp._descent.steps import (
    check_steps,
    chosen_by_records,
    composite,
    cure_of,
    known_free,
    learned_attributes,
    parameters_of,
    parts_of,
)
from skriemdp._errors import PublicTypeError
from skriemdp._known_classes import combiner
from skriemdp._walk import is_estimator, walk
from skriemdp.geometry import as_geometry

__all__ = ["PrivacyReport", "Step", "privacy_report"]

PRIVATE = "private"
SEEDED = "seeded: protects nobody"
NOT_PRIVATE = "NOT PRIVATE: learned from the data"
STATELESS = "learned nothing"
COMBINES = "combines"
LABELS = "NOT PRIVATE: keeps which labels occurred"
NOT_FITTED = "not fitted"
MIXES = "NOT PRIVATE: a row that comes out depends on other rows"
VIOLATIONS = (NOT_PRIVATE, LABELS, MIXES, SEEDED)
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
        Private, combines private fits, learned nothing, not fitted, not checked, or not private.
    epsilon, delta : float or None
        Of a private step's own fit.
    entries : tuple of int
        Where it was charged, or the private fits that it combines: entries of their ledgers.
    note : str
        What was learned, or how many fits are combined.
    unit : str
        Whom a private step's own fit protects.
    """

    path: str
    name: str
    status: str
    epsilon: float | None = None
    delta: float | None = None
    entries: tuple[int, ...] = ()
    note: str = ""
    unit: str = ""

    def __str__(self) -> str:
        place = self.path or "(the model)"
        said = []
        if self.epsilon:
            whom = f" per {self.unit}" if self.unit else ""
            said.append(f"epsilon={self.epsilon:g}, delta={self.delta:g}{whom}")
        if self.note:
            said.append(self.note)
        if self.entries and self.epsilon is None:
            word = "entry" if len(self.entries) == 1 else "entries"
            said.append(f"{word} {', '.join(map(str, self.entries))}")
        more = f" ({'; '.join(said)})" if said else ""
        return f"{place}: {self.name}: {self.status}{more}"


@dataclass(frozen=True)
class PrivacyReport:
    """Report of :func:`privacy_report`; true when all that is fitted is known to be private.

    Attributes
    ----------
    steps : tuple of Step
        In the order of the model.
    """

    steps: tuple

    @property
    def violations(self) -> tuple:
        """Steps that learned from the data, or mix records, without a guarantee."""
        return tuple(step for step in self.steps if step.status in VIOLATIONS)

    def __bool__(self) -> bool:
        found = {step.status for step in self.steps}
        return (
            bool(found & {PRIVATE, STATELESS}) and NOT_CHECKED not in found and not self.violations
        )

    def __str__(self) -> str:
        count, unknown = len(self.violations), [s for s in self.steps if s.status == NOT_CHECKED]
        verdict = (
            "Every fitted step is private or learned nothing, as far as classes, parameters and "
            "made-up tables show. Not seen: what parameters were computed from, and whether rows "
            "were repeated before a fit."
        )
        if count:
            verdict = f"{count} of {len(self.steps)} steps void the guarantee of the whole."
        elif unknown:
            verdict = (
                f"{len(unknown)} of {len(self.steps)} steps could not be checked; the guarantee of "
                "the whole holds only if each record that comes out of them depends on one."
            )
        units = sorted({step.unit for step in self.steps if step.unit})
        if len(units) > 1:
            verdict += (
                f" Steps protect different units, {' and '.join(units)}, and the whole no more "
                "than the least of them: pass groups= to every step."
            )
        return "\n".join([verdict, *(f"  {step}" for step in self.steps)])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def privacy_report(estimator: Any) -> PrivacyReport:
    """Name every step that learned from data without ``privacy_spent_``, or mixes records.

    Walks all that the model holds, to any depth: steps, searches and other meta-estimators, frozen
    models, and what functions bring along.  One step that is not private voids the whole: a scaler
    in front hands its exact means to everything after it, a plain model behind trains on the
    records themselves, and behind a step that learns nothing but mixes rows (``X - X.mean(0)``) or
    repeats them one record moves more than its bound.

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
    *Learned nothing* has to be shown: by class and parameters (``OneHotEncoder(categories=...)``),
    or by fits to unlike made-up tables that leave equal states.  Models that combine private fits
    (``MultiOutputRegressor``, ``RFE``) are named with the entries of these fits in the ledger;
    those that also keep which labels occurred (``VotingClassifier``) are violations.

    The report looks at what the model contains; a plain search whose winner is private has still
    looked at raw scores, so it is reported itself.  What all fits cost together is the accountant's
    business (``accountant.summary()``).  A step that learned only from public data cannot be told
    apart and is reported.  What parameters were computed from cannot be seen, nor whether rows were
    repeated before a fit: ``fit(X[i], y[i], groups=i)`` keeps them together.  Steps that learned
    nothing are tried on made-up tables: apart, together, reordered, shortened, beside repeated and
    far larger rows.  That is no proof: mixing of less than 1e-8 of a column's size, in tables of
    another size or of rows with a rare property is not seen, nor is what a function remembers from
    an earlier call.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer, StandardScaler
    >>> from skriemdp import privacy_report
    >>> model = make_pipeline(StandardScaler(), Normalizer()).fit(np.eye(3))
    >>> print(privacy_report(model))
    1 of 2 steps void the guarantee of the whole.
      standardscaler: StandardScaler: NOT PRIVATE: learned from the data
      normalizer: Normalizer: learned nothing
    """
    if not is_estimator(estimator):
        raise PublicTypeError(f"expected a scikit-learn estimator, got {type(estimator).__name__}.")
    return PrivacyReport(tuple(_walk(estimator, "", set())))


def _walk(estimator: Any, path: str, seen: set[int]) -> Iterator[Step]:
    """Findings about an estimator and all that it holds, each once."""
    seen.add(id(estimator))
    kind = composite(estimator)
    if kind:
        yield from _of_composite(estimator, path, seen)
        return
    if "privacy_spent_" in vars(estimator):
        yield _private(estimator, path)
    else:
        yield Step(path, type(estimator).__name__, *_learned_itself(estimator))
    yield from _of_contents(estimator, path, seen)


def _of_contents(estimator: Any, path: str, seen: set[int]) -> Iterator[Step]:
    """Findings about what an estimator holds and was fitted, or transforms."""
    known = _combiner(estimator)
    for name, part in _contents(estimator):
        # A LabelEncoder, whose labels are told with the estimator itself.
        told = known is not None and known.labels and type(part).__name__.startswith("Label")
        used = name.endswith("_") and hasattr(part, "transform")
        if id(part) not in seen and not told and (used or _anything_fitted(part)):
            yield from _walk(part, _joined(path, name), seen)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name and not name.startswith("[") else path + name


def _private(estimator: Any, path: str) -> Step:
    spent = estimator.privacy_spent_
    status = SEEDED if getattr(spent, "seeded", False) else PRIVATE
    entry = getattr(spent, "entry", None)
    entries = () if entry is None else (entry.number,)
    epsilon, delta = spent
    unit = getattr(spent, "unit", "")
    return Step(path, type(estimator).__name__, status, epsilon, delta, entries, unit=unit)


def _of_composite(estimator: Any, path: str, seen: set[int]) -> Iterator[Step]:
    parts = parts_of(estimator)
    if composite(estimator) == "ColumnTransformer" and hasattr(estimator, "transformers_"):
        if chosen := chosen_by_records(estimator):
            yield Step(path, type(estimator).__name__, NOT_PRIVATE, note=chosen)
    pipeline = composite(estimator) == "Pipeline"
    found = dict(_tried_steps(parts)) if pipeline else {}
    for name, part in parts:
        place = _joined(path, name)
        if name in found:
            seen.add(id(part))
            yield Step(place, type(part).__name__, *found[name])
            yield from _of_contents(part, place, seen)
        elif id(part) not in seen:
            yield from _walk(part, place, seen)


def _contents(estimator: Any) -> Iterator[tuple[str, Any]]:
    """The nearest estimators that one holds: in parameters, fitted parts, and callables.

    What a private fit learned is covered by its statement, so of that its parameters alone.
    """
    names = vars(estimator)
    if "privacy_spent_" in names:
        fitted = names.get("_learned", ())
        names = {k: v for k, v in names.items() if not k.endswith("_") and k not in fitted}
    for name, value in names.items():
        for path, part in walk(value, into=_near):
            if is_estimator(part):
                yield _joined(name, path), part


def _anything_fitted(estimator: Any) -> bool:
    """Whether an estimator, or one that it holds, was fitted."""
    parts = (part for _, part in walk(estimator) if is_estimator(part))
    return any("privacy_spent_" in vars(part) or learned_attributes(part) for part in parts)


def _learned_itself(estimator: Any) -> tuple[Any, ...]:
    """Describe what an estimator learned besides the fits within it; no composites.

    Returns
    -------
    status, epsilon, delta, entries, note
        As of a :class:`Step`.
    """
    known = _combiner(estimator)
    if known is None:
        return _tried([estimator], None)[0]
    fits = [
        part.privacy_spent_
        for _, part in walk(estimator, into=lambda part: _near(part) or part is estimator)
        if is_estimator(part) and "privacy_spent_" in vars(part)
    ]
    charged = (getattr(spent, "entry", None) for spent in fits)
    entries = tuple(sorted(entry.number for entry in charged if entry is not None))
    if known.labels:
        return LABELS, None, None, entries, _labels(estimator)
    if not fits:
        return (STATELESS,)
    plural = "" if len(fits) == 1 else "s"
    return f"{COMBINES} {len(fits)} private fit{plural}", None, None, entries


def _combiner(estimator: Any) -> Any:
    kind = type(estimator)
    if composite(estimator) or not _anything_fitted(estimator):
        return None
    return combiner(kind.__name__, kind.__module__, parameters_of(estimator), vars(estimator))


def _near(part: Any) -> bool:
    return not is_estimator(part)


def _labels(estimator: Any) -> str:
    found = np.asarray(getattr(estimator, "classes_", ()))
    return f"classes_ holds {len(found)} labels" if found.ndim == 1 else ""


def _tried_steps(steps: list[tuple[str, Any]]) -> Iterator[tuple[str, tuple[Any, ...]]]:
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
    if composite(step) or known_free(step) or _combiner(step) is not None:
        return False
    return hasattr(step, "transform") and _status(step) in (STATELESS, NOT_FITTED)


def _tried(steps: list[Any], behind: Any) -> list[tuple[Any, ...]]:
    """Findings of steps that follow each other, with what comes after the last, where it is known.

    The tables are tried that have the shape of what went in, as far as the steps remember it, and
    come out with as many columns as what comes after was fitted on.
    """
    found = [_status(step) for step in steps]
    if len(steps) == 1 and found[0] == NOT_PRIVATE:
        return [_shown_free(steps[0])]
    fitted = behind is not None and _status(behind) not in (NOT_FITTED, STATELESS)
    if not fitted and NOT_FITTED in found or not set(found) <= {STATELESS, NOT_FITTED}:
        return [(status,) for status in found]
    if len(steps) == 1 and known_free(steps[0]):
        return [(STATELESS,)]
    width = getattr(behind, "n_features_in_", None) if fitted else None
    for like in _layouts(steps, behind, width) if steps else []:
        checks = check_steps(steps, like, width=width)
        if any(check.tried for check in checks):
            return [_finding(*pair) for pair in zip(checks, steps, strict=True)]
    return [(NOT_CHECKED,)] * len(steps)


def _shown_free(step: Any) -> tuple[Any, ...]:
    """Whether what a fitted step holds is shown to tell nothing of the records."""
    if known_free(step):
        return (STATELESS,)
    for like in _layouts([step], None, None) if hasattr(step, "transform") else ():
        (check,) = check_steps([step], like, fitted=True)
        if check.tried:
            return _finding(check, step)
    return (NOT_PRIVATE, None, None, (), _cure(step))


def _finding(check: Any, step: Any) -> tuple[Any, ...]:
    if check.fine:
        return (STATELESS,)
    if check.learns:
        held = check.learns if check.learns.startswith("it holds") else ""
        return (NOT_PRIVATE, None, None, (), held or _cure(step))
    return (MIXES if check.tried and check.repeats else NOT_CHECKED,)


def _cure(step: Any) -> str:
    """Name the parameters with which a step of a known class would learn nothing."""
    cure = cure_of(step)
    return f"with {cure} it would learn nothing" if cure else ""


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


def _status(estimator: Any) -> str:
    """Judge a step by its attributes, without a trial."""
    if "privacy_spent_" in vars(estimator):
        return PRIVATE
    if learned_attributes(estimator):
        return NOT_PRIVATE
    if isinstance(estimator, BaseEstimator) and not get_tags(estimator).requires_fit:
        return STATELESS
    return STATELESS if "n_features_in_" in vars(estimator) else NOT_FITTED
