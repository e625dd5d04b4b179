"""The one reader of containers: what doors for records make of masks, dates, units, gaps.

NumPy turns all of them into numbers without a word: a masked entry into what lies under the mask, a
date into a count of days or nanoseconds, a length in feet into one in metres.
"""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
from scipy import sparse

from skriemdp._errors import PublicTypeError, PublicValueError

__all__ = [
    "COMPLEX",
    "DATES",
    "MISSING",
    "NO_NUMBER",
    "UNITS",
    "column",
    "column_names",
    "finding",
    "is_lazy",
    "plain",
]

NO_NUMBER = (
    "holds text or other values where numbers are expected: every argument must be a number, or a "
    "string that spells a number; encode the rest, the columns of a table by skriemdp.PublicTable, "
    "and make one array of a column of arrays (numpy.stack)."
)
COMPLEX = (
    "holds complex numbers. Complex data not supported: pass real and imaginary parts as separate "
    "columns, numpy.concatenate([X.real, X.imag], axis=-1)."
)
DATES = (
    "holds dates or time spans, and whether they count days or nanoseconds is not said; make "
    "numbers of them with a public date and a public unit: "
    "(X - numpy.datetime64('2024-01-01')) / numpy.timedelta64(1, 'D'). Labels become text: "
    "y.astype(str)."
)
MISSING = (
    "contains NaN or infinity, or a missing or masked entry; replace such entries by public "
    "numbers. Do not leave such rows out: the number of rows is public, and would tell of one "
    "record."
)
UNITS = (
    "carries a unit of measurement, and numbers alone are read; pass those in the unit of your "
    "public parameters: X.to('m').magnitude, X.to_value('m') or X.in_units('m').value."
)
_ROTATIONS = (
    "holds objects that stand for rotations; pass their matrices: X.as_matrix(), of a list "
    "numpy.stack([x.as_matrix() for x in X])."
)
_FIELDS = (
    "is a structured array, whose fields have no common type; make one table of numbers: "
    "numpy.lib.recfunctions.structured_to_unstructured(X)."
)

# The beginnings of what pandas, polars, pyarrow and NumPy call types of dates and time spans.
_TIMES = re.compile(r"(datetime|timedelta|period|timestamp|date|time|duration)", re.IGNORECASE)
# Names of Python types of that kind, and of missing values, from packages that are not imported.
_SPANS = {"date", "datetime", "time", "timedelta", "Timestamp", "Timedelta", "Period", "NaTType"}
_SPANS |= {"datetime64", "timedelta64"}
_ABSENT = {"NAType", "NoneType", "MaskedConstant"}


def is_lazy(value: Any) -> bool:
    """Whether only shapes and types of `value` are looked at: of dask's arrays."""
    return type(value).__module__.split(".")[0] == "dask"


def plain(value: Any, name: str) -> Any:
    """`value` in a form that NumPy reads as it is meant, with NaN for every missing number.

    All doors for records read through this function.  What it decides depends on types, masks and
    what is missing, never on a number.

    Parameters
    ----------
    value : Any
        Records, labels or a public array: of NumPy (masked or not), SciPy, pandas, polars, pyarrow,
        dask, or lists.
    name : str
        Of the argument.

    Raises
    ------
    ValueError
        For dates and time spans, for numbers with a unit, for structured arrays, and for missing
        entries among what are no numbers; with the cure, and without an entry.
    """
    if type(value) is np.ndarray and value.dtype.kind in "biuf":
        return value
    if value is None or sparse.issparse(value):
        return value
    if is_lazy(value):
        meta = getattr(value, "_meta", None)
        if isinstance(meta, np.ma.MaskedArray):
            raise PublicValueError(
                f"{name} is a dask array of masked arrays; fill it in with a public number, "
                "dask.array.ma.filled(X, 0.0)."
            )
        _refuse_types(value, name)
        return value
    _refuse_types(value, name)
    if isinstance(value, (list, tuple)):
        value = _from_list(value)
    if isinstance(value, np.ma.MaskedArray):
        return _unmasked(value, name)
    if hasattr(value, "isna") and hasattr(value, "astype"):
        return _known_missing(value, name)
    if isinstance(value, np.ndarray):
        _refuse_types(value, name)
        if value.dtype.kind == "O":
            return _numbers_of_objects(value, name)
    return value


def _refuse_types(value: Any, name: str) -> None:
    """Refuse what the types of a container, or of its columns, say."""
    if hasattr(type(value), "as_matrix"):
        raise PublicValueError(f"{name} {_ROTATIONS}")
    held = getattr(value, "data", None) if hasattr(value, "dims") else None  # an xarray's array
    for part in (value, held):
        if part is not None and has_unit(part):
            raise PublicValueError(f"{name} {UNITS}")
    for dtype in _types(value):
        if hasattr(dtype, "units"):
            raise PublicValueError(f"{name} {UNITS}")
        categories = getattr(getattr(dtype, "categories", None), "dtype", None)
        if _TIMES.match(str(dtype)) or _TIMES.match(str(categories)):
            raise PublicValueError(f"{name} {DATES}")
        if getattr(dtype, "names", None) is not None and isinstance(dtype, np.dtype):
            raise PublicValueError(f"{name} {_FIELDS}")


def has_unit(value: Any) -> bool:
    """Whether numbers carry a unit: of pint, astropy or unyt, without importing these."""
    kind = type(value)
    tables = ("pandas", "polars", "pyarrow")
    return kind.__module__.split(".")[0] not in tables and _has_unit_type(kind)


def _types(value: Any) -> Iterator[Any]:
    """The types of the columns of a table, or the one of an array or a column."""
    if type(value).__module__.split(".")[0] == "pyarrow":
        yield from getattr(getattr(value, "schema", None), "types", ())
        yield getattr(value, "type", None)
    elif hasattr(value, "columns") and hasattr(value, "dtypes"):
        yield from value.dtypes
    else:
        yield getattr(value, "dtype", None)


def _from_list(value: list | tuple) -> Any:
    """An array of a list, masked where a part of it is, if its parts make one."""
    kinds = set(map(type, value))
    if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):
        return np.ma.stack([np.ma.asarray(part) for part in value])
    if any(map(_has_unit_type, kinds)):
        array = np.empty(len(value), dtype=object)
        array[:] = value
        return array
    try:
        array = np.asarray(value)
    except ValueError:  # rows of unlike lengths: said by whoever reads it
        return value
    if array.ndim > 1 and array.dtype.kind in "US":
        # A text in one row would make texts of the numbers of all others: each is read as it is.
        return np.array(value, dtype=object)
    return array


def _has_unit_type(kind: type) -> bool:
    # A method `magnitude` is that of something else: the angle of one of SciPy's rotations.
    has_number = hasattr(kind, "magnitude") and not callable(kind.magnitude)
    return has_number or hasattr(kind, "to_value") or hasattr(kind, "in_units")


def _unmasked(value: Any, name: str) -> np.ndarray:
    if not np.ma.is_masked(value):
        return np.asarray(value.data)
    if value.dtype.kind not in "biuf":
        entries = np.array(value.data, dtype=object)
        entries[np.ma.getmaskarray(value)] = None
        return _numbers_of_objects(entries, name)
    return value.astype(np.promote_types(value.dtype, np.float16)).filled(np.nan)


def _known_missing(value: Any, name: str) -> Any:
    """A column or table of pandas whose missing numbers are NaN; missing labels are refused."""
    kinds = [getattr(dtype, "kind", "O") for dtype in _types(value)]
    if all(kind in "biuf" for kind in kinds):
        if all(isinstance(dtype, np.dtype) for dtype in _types(value)):
            return value
        return value.astype(np.float64) if np.asarray(value.isna()).any() else value
    array = np.asarray(value, dtype=object)
    read = _numbers_of_objects(array, name)
    return value if read is array else value.mask(value.isna(), np.nan).astype(np.float64)


def _numbers_of_objects(array: np.ndarray, name: str) -> np.ndarray:
    """Objects of which none is a date or carries a unit, and with NaN for what is missing."""
    kinds = set(map(type, array.ravel().tolist() if array.size else ()))
    names = {each.__name__ for kind in kinds for each in kind.__mro__}
    if names & _SPANS:
        raise PublicValueError(f"{name} {DATES}")
    if any(map(_has_unit_type, kinds)):
        raise PublicValueError(f"{name} {UNITS}")
    if any(hasattr(kind, "as_matrix") for kind in kinds):
        raise PublicValueError(f"{name} {_ROTATIONS}")
    if any(issubclass(kind, (complex, np.complexfloating)) for kind in kinds):
        raise PublicValueError(f"{name} {COMPLEX}")
    if not names & _ABSENT:
        return array
    known = {kind for kind in kinds if kind.__name__ not in _ABSENT}
    if not all(issubclass(kind, (numbers.Real, np.bool_, Decimal)) for kind in known):
        raise PublicValueError(f"{name} {MISSING}")
    absent = np.frompyfunc(lambda entry: type(entry).__name__ in _ABSENT, 1, 1)(array)
    return np.where(absent.astype(bool), np.nan, array).astype(np.float64)


def _any_nan(array: np.ndarray) -> bool:
    """Whether an array of objects holds NaN, the one value that differs from itself."""
    is_nan = np.frompyfunc(lambda entry: isinstance(entry, float) and entry != entry, 1, 1)
    return array.dtype.kind == "O" and bool(np.any(is_nan(array)))


def finding(value: Any, name: str) -> str | None:
    """Describe what is wrong with one argument, from types and missing values, or return None."""
    if value is None or is_lazy(value):
        return None
    if sparse.issparse(value):
        value = getattr(value, "data", None)
    try:
        value = plain(value, name)
    except ValueError as error:
        return str(error)
    try:
        array = np.asarray(value)
    except Exception:
        return f"{name} is no table: its rows differ in length or hold values of different kinds."
    if array.dtype.kind in "OUSTV":
        try:
            array = array.astype(np.float64)
        except Exception:
            return f"{name} {MISSING if _any_nan(array) else NO_NUMBER}"
    if array.dtype.kind == "c":
        return f"{name} {COMPLEX}"
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return f"{name} {MISSING}"
    return None


# -- data frames of any package, column by column ------------------------------------------------


def column_names(table: Any) -> list[Any] | None:
    """Names of the columns of a data frame or a dict of columns; None where there are none.

    pandas, polars, pyarrow and narwhals are known by what they have in common.
    """
    if hasattr(table, "collect_schema") and hasattr(table, "collect"):
        raise PublicTypeError("the table is a lazy frame; call its collect() first.")
    if sparse.issparse(table):  # some of which are dicts
        return None
    if isinstance(table, dict):
        return list(table)
    names = getattr(table, "columns", None)
    # pyarrow's columns are the data.
    return None if names is None else list(getattr(table, "column_names", names))


def column(table: Any, name: Any) -> np.ndarray:
    """One column of cells as they are: None where masked; of a list, whatever it holds."""
    values = table[name]
    if has_unit(values):
        raise PublicValueError(f"the column {name!r} {UNITS}")
    if isinstance(values, np.ma.MaskedArray):
        cells = np.array(values.data, dtype=object)
        cells[np.ma.getmaskarray(values)] = None
        return cells
    if not isinstance(values, (list, tuple)):
        return np.asarray(values)
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return cells
