"""Checks of pipeline steps: whether they learned nothing, and treat each record by itself.

*Learned nothing* has to be shown: by class and parameters, or by fits to unlike made-up tables that
leave equal states, of a step that holds nothing that was fitted before.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin, clone

from skriemdp._descent.separate_rows import RowCheck, as_numbers, check_rows, made_up_tables
from skriemdp._errors import PublicValueError
from skriemdp._known_classes import PUBLIC_FITTED, Free, free_of_records, learned
from skriemdp._random import public_generator
from skriemdp._walk import is_estimator, walk

# Tables of steps, which may take a while for a record: their rows, those of further kinds once one
# was accepted, the least, the numbers in a table, and the columns of sparse ones that hold any.
_STEP_ROWS, _FEW_ROWS, _LEAST_ROWS = 256, 32, 8


# -- by class and parameters -----------------------------------------------------------------------


def parameters_of(estimator: Any) -> Mapping[str, Any]:
    """Parameters of an estimator; of what is none, its attributes."""
    if hasattr(estimator, "get_params"):
        return estimator.get_params(deep=False)
    return getattr(estimator, "__dict__", {})


def learned_attributes(step: Any) -> bool:
    """Whether a fitted step has attributes that hold more than shapes and names of its input."""
    return bool(learned(getattr(step, "__dict__", {})))


def composite(estimator: Any) -> str:
    """Name of the composite that an estimator is: "Pipeline", "FeatureUnion", ...; else empty.

    Nothing is one before its module has been loaded.
    """
    for module, names in (
        ("sklearn.pipeline", ("Pipeline", "FeatureUnion")),
        ("sklearn.compose", ("ColumnTransformer",)),
    ):
        for name in names if module in sys.modules else ():
            if isinstance(estimator, getattr(sys.modules[module], name)):
                return name
    return ""


def parts_of(estimator: Any) -> list[tuple[str, Any]]:
    """Names and steps of a composite that do something."""
    kind = composite(estimator)
    if kind == "Pipeline":
        parts = list(estimator.steps)
    elif kind == "FeatureUnion":
        parts = list(estimator.transformer_list)
    else:
        fitted = getattr(estimator, "transformers_", None)
        unfitted = [*estimator.transformers, ("remainder", estimator.remainder, None)]
        parts = [(name, part) for name, part, _ in fitted or unfitted]
    return [(name, part) for name, part in parts if part is not None and not _is_word(part)]


def _is_word(part: Any) -> bool:
    return isinstance(part, str) and part in ("drop", "passthrough")


def known_class(step: Any) -> Free | None:
    """Return the listed facts about a step's class, or None; derived classes are not listed."""
    return free_of_records(type(step).__name__, type(step).__module__)


def known_free(step: Any) -> bool:
    """Whether class and parameters show that a step learns nothing and keeps rows apart."""
    if kind := composite(step):
        fine = all(known_free(part) for _, part in parts_of(step))
        return fine and (kind != "ColumnTransformer" or not chosen_by_records(step))
    known = known_class(step)
    return known is not None and known.holds(parameters_of(step)) and not fitted_inside(step)


def exact_by_class(step: Any) -> bool:
    """Whether a step of a known class gives a row the same bits in any batch."""
    if composite(step):
        return all(exact_by_class(part) for _, part in parts_of(step))
    known = known_class(step)
    return known is not None and known.exact


def cure_of(step: Any) -> str:
    """Parameters with which a step of a known class would learn nothing."""
    known = known_class(step)
    return "" if known is None else known.cure


def chosen_by_records(columns: Any) -> str:
    """Describe what a ColumnTransformer decides by looking at records; empty if nothing."""
    for name, _, chosen in columns.transformers:
        # scikit-learn's own selector looks at names and dtypes.
        if callable(chosen) and type(chosen).__name__ != "make_column_selector":
            return (
                f"the columns of {name!r} are chosen by a function, which may look at the records"
            )
    if columns.sparse_threshold and not _of_public_density(columns):
        return "whether a sparse table comes out depends on the records; pass sparse_threshold=0"
    return ""


def _of_public_density(columns: Any) -> bool:
    """Whether the share of entries that are stored is public, or surely above the threshold.

    Parts of unknown classes are taken for dense.
    """
    least = entries = 0.0
    exact = True
    for _, part, chosen in [*columns.transformers, ("", columns.remainder, None)]:
        width = len(chosen) if isinstance(chosen, (list, tuple)) else int(chosen is not None)
        given = parameters_of(part)
        sparse_ones = [leaf for leaf in leaves(part) if parameters_of(leaf).get("sparse_output")]
        if not sparse_ones:
            filled = 0 if part == "drop" else width
            least, entries = least + filled, entries + filled
        elif type(part).__name__ == "OneHotEncoder" and known_free(part):
            unknown = given["handle_unknown"] != "error" or given["drop"] is not None
            exact &= not unknown
            least += 0 if unknown else width
            entries += sum(map(len, given["categories"]))
        else:
            return False
    return exact or least >= columns.sparse_threshold * entries


def leaves(step: Any) -> Iterator[Any]:
    """The steps within a composite, or the step itself."""
    if not composite(step):
        yield step
    for _, part in parts_of(step) if composite(step) else ():
        yield from leaves(part)


# -- what a step holds -----------------------------------------------------------------------------


def fitted_inside(step: Any) -> str:
    """The first estimator that was fitted before without privacy, among the parameters of a step.

    Or among what callables hold: closures, defaults, globals that they name.
    """
    for name, value in parameters_of(step).items():
        if found := fitted_in(value, name):
            return found
    return ""


def fitted_in(value: Any, name: str) -> str:
    """The first such estimator in a value of this name; empty where there is none."""
    for path, part in walk(value):
        if is_estimator(part) and learned_attributes(part) and not _is_private(part):
            place = path if path.startswith("[") or not path else f".{path}"
            return f"a fitted {type(part).__name__} ({name}{place})"
    return ""


def _is_private(part: Any) -> bool:
    """Whether a fit was charged, with noise that protects."""
    spent = vars(part).get("privacy_spent_")
    return spent is not None and not getattr(spent, "seeded", False)


def _charges(step: Any) -> bool:
    """Whether a fit of the step could be charged: copies of fitted models left their ledger."""
    parts = (part for _, part in walk(step) if is_estimator(part) and hasattr(part, "accountant"))
    return any("privacy_spent_" not in vars(part) for part in parts)


# -- on made-up tables -----------------------------------------------------------------------------


def check_steps(
    steps: Sequence[Any],
    like: Any,
    *,
    labels: bool = True,
    width: int | None = None,
    fitted: bool = False,
) -> list[RowCheck]:
    """Try the steps of a pipeline that stand before a private one, on made-up tables.

    A step whose row i depends on other rows, or that repeats or leaves out rows, voids the bound on
    what one record does behind it, though it learns nothing.  Steps are cloned, and tried as a
    whole: what matters is what comes out at the end.

    Parameters
    ----------
    steps : sequence of transformers
    like : array-like of shape (n, ...)
        Whose shape of rows, dtype, columns and sparseness the tables have; no number of it is used.
    labels : bool, default=True
        Whether steps are given labels.
    width : int, optional
        How many columns come out; tables of which others come out count as refused, and where all
        are, nothing is said of single steps.
    fitted : bool, default=False
        Whether the steps were fitted: what they learned must be what they learn from made-up
        tables.

    Returns
    -------
    list of RowCheck
        Of the steps up to each.  What follows the first that is not fine has not been tried.

    Notes
    -----
    No proof: what is not seen is a function that mixes less than 1e-8 of the size of a column (in
    single precision 1e-5), or only rows with a property that no made-up row has, or only in tables
    of another size, or that remembers what it saw before; and a step that learns from such rows
    only.
    """
    whole = _check_chain(steps, like, labels, width, fitted)
    if whole.fine or (width is not None and not whole.tried):
        return [whole] * len(steps)
    checks = [
        _check_chain(steps[: k + 1], like, labels, None, fitted) for k in range(len(steps) - 1)
    ]
    checks.append(whole)
    bad = next(k for k, check in enumerate(checks) if not check.fine)
    return checks[: bad + 1] + [RowCheck(False, True, False)] * (len(steps) - bad - 1)


def _check_chain(
    steps: Sequence[Any], like: Any, labels: bool, width: int | None, fitted: bool
) -> RowCheck:
    for step in steps:
        held = "a private estimator" if _charges(step) else fitted_inside(step)
        if held:
            return RowCheck(True, False, False, learns=f"it holds {held}")

    def made_by(table: np.ndarray, y: np.ndarray | None) -> tuple[list[Any], Any]:
        fits = [_seeded(clone(step)) for step in steps]
        made = laid_out(table)
        for step in fits:
            whole = getattr(step, "fit_transform", None)
            made = step.fit(made, y).transform(made) if whole is None else whole(made, y)
        return fits, made

    def ask(table: np.ndarray, y: np.ndarray | None) -> np.ndarray:
        fits, made = made_by(table, y)
        if width is not None and made.shape[1] != width:
            raise PublicValueError("not the columns that came out")
        # Where fitting and transforming at once is no method of its own, it asks for the same.
        usual = TransformerMixin.fit_transform
        own = any(getattr(type(step), "fit_transform", None) is not usual for step in steps)
        if made.shape[0] != len(table) or not own:
            return made
        again = laid_out(table)
        for step in fits:
            again = step.transform(again)
        return np.concatenate(
            [np.reshape(as_numbers(a), (a.shape[0], -1)) for a in (made, again)], axis=1
        )

    laid_out, shape, dtype = _layout(like)
    most = max(min(_STEP_ROWS, 2**18 // max(math.prod(shape), 1)), _LEAST_ROWS)
    targets: list[Any] = [np.arange(most) % 2.0, np.ones(most)] if labels else [None, None]
    states: list[list[Any]] = []
    for pair in _unlike_tables(shape, dtype, most):
        for table, y in zip(pair, targets, strict=True):
            with (
                contextlib.suppress(Exception),  # made-up tables may be outside its domain
                np.errstate(all="ignore"),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("ignore")
                states.append(made_by(table, y)[0])
            if len(states) > 1 and not all(map(_same_state, states[0], states[-1])):
                return RowCheck(True, False, False, learns=_UNLIKE)
    if fitted and states and not all(map(_as_learned, steps, states[0])):
        return RowCheck(True, False, False, learns="made-up tables leave another state")
    tried, identical, error = False, True, ""
    for pair in made_up_tables(shape, dtype, most, public_generator(0, _TABLES)):
        n = min(_FEW_ROWS, most) if tried else most
        sides = [(t[:n], y if y is None else y[:n]) for t, y in zip(pair, targets, strict=True)]
        check = check_rows(ask, [(sides[0], sides[1])])
        if check.tried and not check.fine:
            return check
        tried, error = tried or check.tried, error or check.error
        identical &= check.identical or not check.tried
    tried &= len(states) > 1
    return RowCheck(tried, True, tried and identical, error=error)


_TABLES = "made-up tables of a step"
_UNLIKE = "it keeps another state of another table"


def _unlike_tables(
    shape: tuple[int, ...], dtype: np.dtype, n: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of tables from which a step that learns would learn something else."""
    rng = public_generator(0, _TABLES)
    yield from made_up_tables(shape, dtype, n, rng)
    if dtype.kind == "f":
        empty = rng.standard_normal((n, *shape))
        empty[:, :1] = np.nan  # a column without an entry
        yield empty, np.zeros((n, *shape))


def _seeded(step: Any) -> Any:
    """A step whose random numbers are the same in each fit, and so tell nothing about records."""
    free = {"random_state", "public_seed"}
    names = [name for name, value in _all_parameters(step).items() if value is None]
    seeds = {name: 0 for name in names if name.split("__")[-1] in free}
    return step.set_params(**seeds) if seeds else step


def _all_parameters(step: Any) -> dict[str, Any]:
    return step.get_params() if hasattr(step, "get_params") else {}


def _as_learned(step: Any, trial: Any) -> bool:
    """Whether what a step learned is what it learned from a made-up table."""
    if _all_parameters(step).get("random_state", 0) is None:
        return True  # its random numbers were others
    there, names = vars(trial), learned(vars(step))
    return all(name in there and _same(vars(step)[name], there[name], set()) for name in names)


# -- states ----------------------------------------------------------------------------------------


def _same_state(one: Any, other: Any) -> bool:
    """Whether two fits left equal states, to any depth."""
    return _same(one, other, set())


def _same(one: Any, other: Any, open_pairs: set[tuple[int, int]]) -> bool:
    """Whether two values are equal, to any depth; unknown kinds are unequal unless they say so."""
    pair = id(one), id(other)
    if one is other or pair in open_pairs:
        return True
    if type(one) is not type(other):
        return False
    open_pairs.add(pair)
    try:
        return _same_parts(one, other, functools.partial(_same, open_pairs=open_pairs))
    finally:
        open_pairs.discard(pair)


def _same_parts(one: Any, other: Any, same: Callable[[Any, Any], bool]) -> bool:
    """:func:`_same` of two values of one type, which asks `same` about what they hold."""
    if isinstance(one, np.ndarray) and one.dtype.kind != "O":
        equal_nan = one.dtype.kind in "fcmM"
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=equal_nan)
    if isinstance(one, (np.ndarray, list, tuple)):
        alike = np.shape(one) == np.shape(other) if isinstance(one, np.ndarray) else True
        ones, others = (v.ravel() if isinstance(v, np.ndarray) else v for v in (one, other))
        return alike and len(ones) == len(others) and all(map(same, ones, others))
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    if sparse.issparse(one):
        return one.shape == other.shape and all(
            np.array_equal(a, b) for a, b in zip(sparse.find(one), sparse.find(other), strict=True)
        )
    if hasattr(one, "equals"):  # frames
        return bool(one.equals(other))
    if isinstance(one, (np.random.RandomState, np.random.Generator)):
        return True
    if isinstance(one, types.MethodType):
        return one.__func__ is other.__func__ and same(one.__self__, other.__self__)
    if isinstance(one, functools.partial):
        return same((one.func, one.args, one.keywords), (other.func, other.args, other.keywords))
    if isinstance(one, (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)):
        return False  # not the one object
    state = getattr(one, "__dict__", None)
    if state is not None and not isinstance(one, (str, bytes, float, int, complex, np.generic)):
        public = PUBLIC_FITTED if is_estimator(one) else frozenset()
        ours, theirs = ({k: v for k, v in vars(v).items() if k not in public} for v in (one, other))
        return same(ours, theirs)
    with contextlib.suppress(Exception):
        return bool(one == other or (one != one and other != other))
    return False


# -- layouts ---------------------------------------------------------------------------------------


def _layout(like: Any) -> tuple[Callable[[np.ndarray], Any], tuple[int, ...], np.dtype]:
    """Return the layout of a given table, as a function, and the shape and dtype of its rows."""
    if sparse.issparse(like):
        width = min(like.shape[1], 1000)

        def spread(table: np.ndarray) -> Any:
            rows, columns = np.nonzero(~(table <= 0))
            places = (rows, columns * (like.shape[1] // width))
            shape = (len(table), like.shape[1])
            return type(like)(sparse.coo_array((table[rows, columns], places), shape=shape))

        return spread, (width,), like.dtype
    if hasattr(like, "iloc"):
        names = {"columns": like.columns} if hasattr(like, "columns") else {}
        kinds = like.dtypes if names else [like.dtype]
        plain = all(isinstance(kind, np.dtype) for kind in kinds)
        dtype = np.result_type(*kinds) if plain and len(kinds) else np.dtype(object)
        return lambda table: type(like)(table, **names), like.shape[1:], dtype
    if not hasattr(like, "dtype"):
        like = np.asarray(like)
    return lambda table: table, like.shape[1:], np.dtype(like.dtype)
