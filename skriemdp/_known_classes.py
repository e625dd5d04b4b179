"""Facts about scikit-learn's estimators by class and parameters, for objects and for files.

A class is listed where its code was read: whether what it learns is a function of its parameters
and of the number and names of columns, each row transformed on its own; or whether it learns
nothing but fits of the estimators within, and what follows from these.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Parameters = Mapping[str, Any]

# Fitted attributes that hold shapes and names of the input, which are public.
PUBLIC_FITTED = frozenset(
    {"n_features_in_", "feature_names_in_", "n_samples_seen_", "n_output_features_"}
)


def learned(attributes: Iterable[str]) -> list[str]:
    """Names of fitted attributes that hold more than shapes and names of columns."""
    return [
        name
        for name in attributes
        if name.endswith("_") and not name.startswith("_") and name not in PUBLIC_FITTED
    ]


@dataclass(frozen=True)
class Free:
    """A class whose fits tell nothing of the records, where its parameters are right.

    Attributes
    ----------
    holds : callable
        Whether the parameters are right.
    cure : str
        Parameters that are.
    exact : bool
        Whether no bit of a row depends on the other rows that are transformed with it.
    """

    holds: Callable[[Parameters], bool]
    cure: str = ""
    exact: bool = True


def _given(value: Any) -> bool:
    return value is not None and not isinstance(value, str)


def _given_categories(parameters: Parameters) -> bool:
    counted = (parameters.get(name) for name in ("min_frequency", "max_categories"))
    return _given(parameters.get("categories")) and all(value is None for value in counted)


_CATEGORIES = "categories=[...], one public list for each column, and no min_frequency"
_FREE = {
    "OneHotEncoder": Free(_given_categories, _CATEGORIES),
    "OrdinalEncoder": Free(_given_categories, _CATEGORIES),
    # Without keep_empty_features it learns which columns are empty, and drops them.
    "SimpleImputer": Free(
        lambda given: (
            given.get("strategy") == "constant"
            and given.get("keep_empty_features") is True
            and not given.get("add_indicator")
        ),
        'strategy="constant", keep_empty_features=True, and MissingIndicator(features="all") '
        "beside it where gaps matter",
    ),
    "MissingIndicator": Free(lambda given: given.get("features") == "all", 'features="all"'),
    "SplineTransformer": Free(lambda given: _given(given.get("knots")), "knots=, a public array"),
    "RBFSampler": Free(
        lambda given: isinstance(given.get("gamma"), numbers.Real), "gamma=, a number", exact=False
    ),
    "GaussianRandomProjection": Free(lambda given: True, exact=False),
    "SparseRandomProjection": Free(lambda given: True, exact=False),
    "FunctionTransformer": Free(lambda given: given.get("func") is None),
    "FrozenEstimator": Free(lambda given: False),
}


_PUBLIC_TABLE = Free(lambda given: True)  # ours: its schema is public


def free_of_records(name: str, module: str) -> Free | None:
    """Return what is listed for a class whose fits may reveal nothing about records, or None."""
    if module == "skriemdp._public_table":
        return _PUBLIC_TABLE if name == "PublicTable" else None
    return _FREE.get(name) if module.split(".")[0] == "sklearn" else None


@dataclass(frozen=True)
class Combiner:
    """A class that learns fits of the estimators within, and what follows from them.

    Attributes
    ----------
    learns : frozenset of str
        Its fitted attributes.
    labels : bool
        Whether these tell which labels occurred in y.
    holds : callable
        Whether that is so for its parameters.
    """

    learns: frozenset[str]
    labels: bool = False
    holds: Callable[[Parameters], bool] = lambda given: True


def _plain_folds(parameters: Parameters) -> bool:
    """Whether folds are fixed without looking at labels."""
    folds = parameters.get("cv")
    return folds is None or type(folds).__name__ == "KFold"


def _folds_of_numbers(parameters: Parameters) -> bool:
    return _plain_folds(parameters) or isinstance(parameters.get("cv"), numbers.Integral)


_VOTING = frozenset({"estimators_", "named_estimators_"})
_CHAIN = frozenset({"estimators_", "order_"})
_COMBINERS = {
    "MultiOutputRegressor": Combiner(frozenset({"estimators_"})),
    "MultiOutputClassifier": Combiner(frozenset({"estimators_", "classes_"})),
    "RegressorChain": Combiner(_CHAIN, holds=_folds_of_numbers),
    "ClassifierChain": Combiner(_CHAIN | {"classes_", "chain_method_"}, holds=_plain_folds),
    "VotingRegressor": Combiner(_VOTING),
    "RFE": Combiner(frozenset({"estimator_", "n_features_", "support_", "ranking_"})),
    "SelectFromModel": Combiner(frozenset({"estimator_", "threshold_", "max_features_"})),
    "TransformedTargetRegressor": Combiner(frozenset({"regressor_", "transformer_"})),
    "FrozenEstimator": Combiner(frozenset()),
    "VotingClassifier": Combiner(_VOTING | {"le_", "classes_"}, labels=True),
    "OneVsRestClassifier": Combiner(
        frozenset({"estimators_", "label_binarizer_", "classes_"}), labels=True
    ),
    "OutputCodeClassifier": Combiner(
        frozenset({"estimators_", "classes_", "code_book_"}), labels=True
    ),
}


def combiner(name: str, module: str, parameters: Parameters, state: Iterable[str]) -> Any:
    """The :class:`Combiner` that an estimator is; None where it is none, or learned more."""
    found = _COMBINERS.get(name) if module.split(".")[0] == "sklearn" else None
    known = (
        found is not None and found.holds(parameters) and found.learns.issuperset(learned(state))
    )
    return found if known else None
