"""The one ledger of a fit, wherever in the model it is named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skriemdp._walk import is_container, is_estimator, walk
from skriemdp.ledger._current import chosen_accountant
from skriemdp.ledger._errors import BudgetError

# Where an estimator that was pickled keeps the address of the ledger that was active.
_TOKEN = "_ledger_token"


def ledger_of(estimator: Any) -> Any:
    """The accountant that a fit of `estimator` charges.

    The one that the estimator names, or an estimator within, a grid of values, to any depth; where
    none is named, the active one.

    Raises
    ------
    BudgetError
        For two that differ: a charge to either would leave the ceiling of the other behind.
    TypeError
        For something else in place of an accountant.
    """
    place, accountant = "", None
    for found, named in _named(estimator):
        if accountant is not None and not (named is accountant or named == accountant):
            raise BudgetError(
                f"one fit names two ledgers: {place} is {accountant!r}, and {found} is {named!r}; "
                "nothing was charged. Name one of them, once."
            )
        place, accountant = found, named
    tokens = (vars(part).get(_TOKEN) for part in _estimators(estimator))
    return chosen_accountant(accountant, next(filter(None, tokens), None))


def _searched(value: Any) -> bool:
    return is_estimator(value) or is_container(value)


def _named(estimator: Any) -> Iterator[tuple[str, Any]]:
    """Places and values of all accountants that are named."""
    for path, value in walk(estimator, into=_searched):
        if is_estimator(value):
            named = getattr(value, "accountant", None)
            if named is not None:
                yield f"{path}.accountant".removeprefix("."), named
        elif _is_ledger(value) and _TOKEN not in path:
            yield path, value


def _is_ledger(value: Any) -> bool:
    return not isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in ("spend", "composes")
    )


def _estimators(estimator: Any) -> Iterator[Any]:
    return (part for _, part in walk(estimator, into=_searched) if is_estimator(part))
