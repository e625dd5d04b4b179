"""Forecasts of a fit's cost and accuracy from public numbers; nothing is read or charged."""

from __future__ import annotations

import copy
import dataclasses
import html
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from skriemdp._config import check_bytes
from skriemdp._core.spent import shown_value, table
from skriemdp._core.work import check_limit
from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.budget import Release
from skriemdp._validation import check_count, check_positive
from skriemdp.ledger._units import PRESENT
from skriemdp.privacy._event import plain

if TYPE_CHECKING:
    from skriemdp._core.estimator import Plan

# Largest number of records tried in a search for the smallest sufficient one, and its relative
# precision.
_MOST_N, _FINE = 2**40, 1.02


class ExpectedError(NamedTuple):
    """A part of the error of a fit.

    Attributes
    ----------
    name : str
        "noise": all that privacy adds; "floor": what one release with the whole budget in a ball
        that fits the data would add; "sampling": of the records themselves.
    value : float
        Root mean square.
    unit : str
        In which, or of what.
    """

    name: str
    value: float
    unit: str


class Expected(NamedTuple):
    """The accuracy that an estimator expects, from public numbers, before a fit.

    Attributes
    ----------
    mechanism : str
    errors : tuple of ExpectedError
    ratio : float
        Of the noise to the largest at which the result is worth having; NaN where that is unknown.
    worth : str
        What "worth having" means.
    assumed : str
        What the errors assume of the data.
    """

    mechanism: str
    errors: tuple[ExpectedError, ...] = ()
    ratio: float = math.nan
    worth: str = ""
    assumed: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Forecast:
    """A fit as it is planned for n records: its privacy, its noise, and what it needs.

    Prints as text; `to_dict` gives the same as plain data.

    Attributes
    ----------
    estimator : str
    n : int
        Number of records; of groups, where these are protected.
    shape : tuple of int
        Of a row of X.
    epsilon, delta : float
        What a fit would be charged.
    mu : float or None
        Where all noise is Gaussian.
    unit : str
        Whose data are protected.
    mechanism : str
        The one that the fit would use.
    arithmetic : str
        What is added and drawn.
    releases : tuple of Release
        By name, each with its share of the budget.
    public : dict
        What has to be public, by name.
    errors : tuple of ExpectedError
    assumed : str
        What the errors assume of the data.
    smallest_n : int or None
        From how many records on the result is worth having; None where that is unknown.
    worth : str
        What "worth having" means.
    bytes, steps : float
        Memory besides X, and steps.
    warnings : tuple of str
        That the fit would give, from the same public numbers.
    """

    estimator: str
    n: int
    shape: tuple[int, ...]
    epsilon: float
    delta: float
    mu: float | None
    unit: str
    mechanism: str
    arithmetic: str
    releases: tuple[Release, ...]
    public: dict[str, Any]
    errors: tuple[ExpectedError, ...]
    assumed: str
    smallest_n: int | None
    worth: str
    bytes: float
    steps: float
    warnings: tuple[str, ...]

    def error(self, name: str = "noise") -> float:
        """The expected error of this name; NaN where theory has none."""
        return next((each.value for each in self.errors if each.name == name), math.nan)

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form, ready for ``json.dumps``."""
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        fields["public"] = {name: plain(value) for name, value in self.public.items()}
        for name in ("errors", "releases"):
            fields[name] = [each._asdict() for each in fields[name]]
        return fields | {"shape": list(self.shape), "warnings": list(self.warnings)}

    def _rows(self) -> list[tuple[str, str]]:
        mu = "" if self.mu is None else f" (mu = {self.mu:.3g})"
        spent = f"epsilon = {self.epsilon:g}, delta = {self.delta:g}{mu} per {self.unit}"
        rows = [("privacy", spent), ("mechanism", f"{self.mechanism}; {self.arithmetic}")]
        rows += [(each.name, f"{each.value:.3g} {each.unit}") for each in self.errors]
        if self.assumed:
            rows.append(("assumed", self.assumed))
        if self.worth:
            found = "none" if self.smallest_n is None else f"{self.smallest_n}"
            rows.append(("smallest n", f"{found}: {self.worth}"))
        shares = ", ".join(f"{each.name} {100.0 * each.share:.3g} %" for each in self.releases)
        facts = ", ".join(f"{name}={shown_value(value)}" for name, value in self.public.items())
        work = f"{self.bytes / 2**20:.3g} MiB besides X"
        rows += [("releases", shares), ("public", facts), ("memory", work)]
        return rows + [("warning", said) for said in self.warnings]

    @property
    def _title(self) -> str:
        return (
            f"{self.estimator}: plan for n = {self.n} and rows of shape {self.shape}; nothing is "
            "charged"
        )

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join([self._title, *(f"  {name:{width}}  {value}" for name, value in rows)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title = html.escape(self._title)
        return f"<div class='skriemdp-forecast'><p>{title}</p>{table(self._rows())}</div>"


def per_group(plan: Plan) -> Plan:
    """Relabel a plan of records as one of groups: their number takes the place of n."""
    public = {"n_groups" if name == "n" else name: value for name, value in plan.public.items()}
    return dataclasses.replace(plan, unit="group", public=public)


def forecast(
    estimator: Any, n: int, shape: Any, y_shape: Any, n_classes: int, grouped: bool, spread: Any
) -> Forecast:
    """The answer of :meth:`skriemdp._core.estimator.PrivateEstimator.plan`."""
    check_count(minimum=2, n=n)
    check_count(n_classes=n_classes)
    check_limit("most_classes", n_classes=n_classes)
    shape, y_shape = _sizes("shape", shape), _sizes("y_shape", y_shape)
    # A plan makes up a few rows, and a fit holds some copies of each.
    size = 64.0 * (math.prod(shape) + math.prod(y_shape)) * max(2, n_classes)
    check_bytes(size, "a few rows", " because of their shape")
    spread = None if spread is None else np.asarray(spread, dtype=float)
    if spread is not None and spread.ndim == 0:
        check_positive(spread=float(spread))
    blank = copy.copy(estimator)  # a fit of nothing sets attributes
    accountant = estimator._accountant()
    terms = estimator._terms(accountant)
    if getattr(accountant, "unit", None) == PRESENT:
        refusal = estimator._needs_public_n(() if grouped else None)
        if refusal:
            raise PublicValueError(
                f"the accountant keeps the number of records secret, and {refusal}"
            )
        terms = dataclasses.replace(terms, secret_n=True)
    # Some spaces have such points, too.
    hint = f"shape={shape} begins with n: is it that of one row, X.shape[1:]?"
    hints = [hint] if len(shape) > 1 and shape[0] == n else []
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        try:
            data = blank._validate(*_stand_ins(estimator, shape, y_shape, n_classes))
        except PublicValueError as error:
            raise PublicValueError(" ".join([str(error), *hints])) from None
    facts = data.facts | ({"grouped": True} if grouped else {})

    def planned(count: int) -> tuple[Plan, Expected, list[str]]:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            plan = blank._planned(facts | {"n": count}, terms)
            plan = per_group(plan) if grouped else plan
            expected = blank._expected(plan, facts | {"n": count}, spread)
        return plan, expected, [str(each.message) for each in said]

    plan, expected, said = planned(int(n))
    plan.work.check()
    return Forecast(
        type(estimator).__name__,
        int(n),
        shape,
        float(estimator.epsilon),
        float(estimator.delta),
        plan.event.mu,
        PRESENT if terms.secret_n else plan.unit,
        expected.mechanism,
        plan.arithmetic,
        plan.releases,
        plan.public,
        expected.errors,
        expected.assumed,
        None if math.isnan(expected.ratio) else _smallest(lambda m: planned(m)[1].ratio),
        expected.worth,
        plan.work.bytes,
        plan.work.steps,
        (*hints, *said),
    )


def _sizes(name: str, shape: Any) -> tuple[int, ...]:
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    for size in sizes:
        check_count(**{name: size})
    return tuple(int(size) for size in sizes)


def _stand_ins(
    estimator: Any, shape: tuple[int, ...], y_shape: tuple[int, ...], n_classes: int
) -> tuple[Any, Any]:
    """Made-up records that an estimator takes, as few as it takes."""
    labels: list[Any] = list(range(n_classes))
    if getattr(estimator, "classes", None) is not None:
        labels = list(estimator.classes)
    rows = max(2, len(labels))
    point, answer = estimator._stand_in(shape, y_shape)
    y = np.stack([answer] * rows)
    if is_classifier(estimator):
        y = np.resize(np.asarray(labels), rows)
    return np.stack([point] * rows), y


def _smallest(ratio: Callable[[int], float]) -> int | None:
    """The least number of records from which `ratio` stays at most one, to two per cent."""

    def enough(n: int) -> bool:
        try:
            return ratio(n) <= 1.0
        except ValueError:  # refused with so few
            return False

    high = 2
    while not enough(high):
        high *= 2
        if high > _MOST_N:
            return None
    low = high / 2.0
    while high > _FINE * low and high - low > 1.0:
        middle = round(math.sqrt(low * high))
        if enough(middle):
            high = middle
        else:
            low = middle
    return high
