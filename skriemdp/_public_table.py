"""Mixed tables as numbers, by a public description of their columns and of nothing else."""

from __future__ import annotations

import csv
import datetime
import itertools
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, validate_data

from skriemdp._containers import column, column_names
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._quiet import QuietQueries, quietly
from skriemdp._validation import check_positive, shown

__all__ = ["PublicTable"]

_KINDS = (
    'a range (low, high), a list of categories, or a dict: {"range": (low, high)}, '
    '{"categories": [...]} or {"from": date, "to": date}, each with "fill" and, but for '
    'categories, "unit"'
)
_DAY = 86400.0


class PublicTable(QuietQueries, TransformerMixin, BaseEstimator):
    """Turn a table of numbers, categories and dates into numbers, each row by itself.

    Everything that scikit-learn's encoders, imputers and scalers would learn from the rows is
    stated in a public schema instead, so this step costs no privacy and may stand before every
    private estimator.

    Parameters
    ----------
    schema : dict or description
        A dict with what is public of each column, by name or, for arrays, in the order of the
        columns.  A range or a list of categories alone holds for every column.  A description is
        one of

        * ``(low, high)``: numbers in this range.  Values outside are moved to its ends.
        * a list of categories: one column of zeros and ones for each.
        * ``{"range": (low, high), "unit": u, "fill": x}``: numbers; what comes out is
          ``(value - middle) / u``, by default from -1 to 1, and x stands for a missing value, by
          default the middle of the range.
        * ``{"categories": [...], "fill": c}``: c stands for what is missing or not listed, which
          by default has zeros in all columns.
        * ``{"from": date, "to": date, "unit": days, "fill": date}``: dates, as ISO text or as
          dates, which become numbers of days and are treated as these.
    indicators : bool or list of str, default=True
        Which columns get a further one that is 1 where a value is missing: all numbers and dates,
        none, or those named, categories among them.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the table had names.

    See Also
    --------
    skriemdp.preprocessing.usable_rows : Leave rows out, where their number may be secret.

    Notes
    -----
    *Guarantee*: a row that comes out is a function of that row and of the schema.  `fit` looks at
    the names of the columns and their number only.  A value that is missing, not listed, or
    unreadable (text in a column of numbers) counts as missing and raises nothing, so no error
    depends on a record.

    The schema must be public: take ranges and categories from the form, the code book or published
    statistics, never from ``table.describe()`` or ``unique()``.  :meth:`template` writes an empty
    schema from the header of a file.

    Examples
    --------
    >>> from skriemdp import PublicTable
    >>> patients = PublicTable({
    ...     "age": {"range": (18, 98), "unit": 10},
    ...     "ward": ["north", "south"],
    ...     "since": {"from": "2020-01-01", "to": "2020-12-31", "unit": 30},
    ... })
    >>> rows = {"age": [78, None], "ward": ["south", "?"], "since": ["2020-07-31", "2019-05-05"]}
    >>> patients.fit_transform(rows).round(2)
    array([[ 2.  ,  0.  ,  0.  ,  1.  ,  0.98,  0.  ],
           [ 0.  ,  1.  ,  0.  ,  0.  , -6.08,  0.  ]])
    >>> print(*patients.get_feature_names_out())
    age age_missing ward_north ward_south since since_missing
    >>> round(patients.largest_norm(), 2)
    7.35
    """

    def __init__(
        self,
        schema: Mapping[Any, Any] | Sequence[Any] = (-1.0, 1.0),
        *,
        indicators: bool | Sequence[Any] = True,
    ):
        self.schema = schema
        self.indicators = indicators

    def fit(self, X: Any, y: Any = None) -> PublicTable:
        """Check that the schema describes the columns of `X`; no value of a row is used."""
        self._columns(X, reset=True)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Numbers of shape (n_rows, n_features_out), row by row."""
        columns = self._columns(X, reset=False)
        described = self._described(len(columns))
        parts = [one.numbers(cells) for one, cells in zip(described, columns, strict=True)]
        return np.concatenate(parts, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of what comes out: ``age``, ``age_missing``, ``ward_north``.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns, where the schema has none.
        """
        return np.array(self._names_out(input_features), dtype=object)

    def largest_norm(self) -> float:
        """Return the largest norm that a row can have, for ``feature_norm`` and ``radius``.

        It follows from the schema alone; where that is one description for all columns, their
        number has to be known from `fit`.
        """
        described = self._described(getattr(self, "n_features_in_", None))
        return math.sqrt(sum(one.largest_square for one in described)) * (1.0 + 1e-12)

    @staticmethod
    def template(source: Any, delimiter: str = ",") -> str:
        """Write a schema to be filled in, from the names of the columns alone.

        Parameters
        ----------
        source : path, data frame or list of str
            A file of separated values, of which only the first line is read; or a table or a list,
            of which only the names are used.
        delimiter : str, default=","
            Between the names in the file.

        Returns
        -------
        str
            Python with ``...`` where public knowledge has to go.

        Examples
        --------
        >>> from skriemdp import PublicTable
        >>> print(PublicTable.template(["age", "ward"]))
        schema = {  # (low, high), a list of categories, or {"from": date, "to": date}
            "age": ...,
            "ward": ...,
        }
        """
        if isinstance(source, (str, os.PathLike)):
            with open(source, newline="", encoding="utf-8-sig") as file:
                names: Any = next(csv.reader(file, delimiter=delimiter), [])
        else:
            names = column_names(source)
            names = source if names is None else names
        lines = (f"    {_quoted(name)}: ...,\n" for name in names)
        head = 'schema = {  # (low, high), a list of categories, or {"from": date, "to": date}\n'
        return f"{head}{''.join(lines)}}}"

    # -- the schema ------------------------------------------------------------------------------

    def _described(self, width: int | None) -> list[_Column]:
        """Return the public description of each column, in order; `width` counts unnamed ones."""
        if isinstance(self.schema, Mapping):
            if not self.schema:
                raise PublicValueError("schema is empty; describe each column: " + _KINDS + ".")
            described = [_read(name, given) for name, given in self.schema.items()]
        elif width is None:
            raise PublicValueError(
                "schema describes every column alike, so their number must be known: call fit "
                "first, or describe the columns in a dict."
            )
        else:
            described = [_read("", self.schema)] * width
        return [one.with_indicator(self._marked(one)) for one in described]

    def _marked(self, one: _Column) -> bool:
        if isinstance(self.indicators, (bool, np.bool_)):
            return bool(self.indicators) and not isinstance(one, _Categories)
        named = [self.indicators] if isinstance(self.indicators, str) else list(self.indicators)
        known = list(self.schema) if isinstance(self.schema, Mapping) else []
        unknown = [name for name in named if name not in known]
        if unknown:
            raise PublicValueError(
                f"indicators={shown(self.indicators)} names {shown(unknown)}, which the schema "
                "does not; name its columns, or pass True or False."
            )
        return one.name in named

    def _names_out(self, input_features: Any) -> list[str]:
        if isinstance(self.schema, Mapping):
            names = [str(name) for name in self.schema]
        else:
            known = getattr(self, "feature_names_in_", None)
            width = getattr(self, "n_features_in_", None)
            given = known if input_features is None else input_features
            if given is None:
                given = [f"x{k}" for k in range(width or 0)]
            names = [str(name) for name in given]
            if width is not None and len(names) != width:
                raise PublicValueError(
                    f"input_features should have length equal to number of features ({width}), "
                    f"got {len(names)}."
                )
            if known is not None and list(known) != names:
                raise PublicValueError("input_features is not equal to feature_names_in_.")
        described = self._described(len(names))
        made = [n for name, one in zip(names, described, strict=True) for n in one.names(name)]
        twice = sorted({name for name in made if made.count(name) > 1})
        if twice:
            raise PublicValueError(
                f"schema: two columns that come out would be named {shown(twice[0])}; rename a "
                "column or a category."
            )
        return made

    # -- the table -------------------------------------------------------------------------------

    def _columns(self, X: Any, reset: bool) -> list[np.ndarray]:
        """Columns of a table in the order of the schema."""
        self._names_out(None) if isinstance(self.schema, Mapping) else self._described(1)
        names = column_names(X)
        if names is None:
            return self._columns_of_array(X, reset)
        if isinstance(self.schema, Mapping):
            wanted = list(self.schema)
            self._refuse_others(names, wanted)
            if reset:
                self.n_features_in_ = len(wanted)
                self.feature_names_in_ = np.array(wanted, dtype=object)
        else:
            wanted = names
            if isinstance(X, dict):
                self.n_features_in_ = len(names) if reset else self.n_features_in_
            elif reset or hasattr(self, "n_features_in_"):
                validate_data(self, X, reset=reset, skip_check_array=True)
        columns = [column(X, name) for name in wanted]
        lengths = {len(cells) if cells.ndim == 1 else -1 for cells in columns}
        if len(lengths) > 1 or -1 in lengths:
            raise PublicValueError(
                "the table must have columns of one length, one value in each row."
            )
        if lengths == {0}:
            raise PublicValueError("the table has 0 rows (0 sample(s)); pass one at least.")
        return columns

    def _columns_of_array(self, X: Any, reset: bool) -> list[np.ndarray]:
        if isinstance(X, np.ma.MaskedArray):
            X = column({"X": X}, "X")
        elif isinstance(X, (list, tuple)):
            X = quietly(_cells_of, X)
        checks: dict[str, Any] = {"dtype": None, "ensure_all_finite": False}
        if reset or hasattr(self, "n_features_in_"):
            X = quietly(lambda rows: validate_data(self, rows, reset=reset, **checks), X)
        else:
            X = quietly(lambda rows: check_array(rows, input_name="X", **checks), X)
        if isinstance(self.schema, Mapping) and X.shape[1] != len(self.schema):
            raise PublicValueError(
                f"X has {X.shape[1]} columns without names, and the schema describes "
                f"{len(self.schema)}; pass those, in the order of the schema."
            )
        return list(X.T)

    def _refuse_others(self, names: list[Any], wanted: list[Any]) -> None:
        """Raise for columns that the schema does not know, or that are not there; names only."""
        others = [name for name in names if name not in self.schema]
        missing = [name for name in wanted if name not in names]
        if others:
            raise PublicValueError(
                f"the table has the column {shown(others[0])}, which the schema does not describe; "
                "describe it, or pass only what is described, table[list(schema)]."
            )
        if missing:
            raise PublicValueError(
                f"the table has no column {shown(missing[0])}, which the schema describes; it has "
                f"{shown(names)}."
            )
        if len(set(names)) < len(names):
            raise PublicValueError("two columns of the table have the same name; rename one.")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _quoted(name: Any) -> str:
    text = str(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"' if isinstance(name, str) else repr(name)


# -- one column -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Number:
    """A number in a public range, that of a middle moved to zero.

    Attributes
    ----------
    name : hashable
    low, high, unit, fill : float
    indicator : bool
    dates : bool
        Whether the values are dates, and the numbers days since 1970.
    """

    name: Any
    low: float
    high: float
    unit: float
    fill: float
    indicator: bool = False
    dates: bool = False

    def with_indicator(self, indicator: bool) -> _Number:
        return _Number(self.name, self.low, self.high, self.unit, self.fill, indicator, self.dates)

    def names(self, name: str) -> list[str]:
        return [name, f"{name}_missing"] if self.indicator else [name]

    def numbers(self, cells: np.ndarray) -> np.ndarray:
        values = _days(cells) if self.dates else _floats(cells)
        missing = np.isnan(values)
        kept = np.clip(np.where(missing, self.fill, values), self.low, self.high)
        scaled = (kept - self._middle) / self.unit
        return np.stack([scaled, missing.astype(float)][: 1 + self.indicator], axis=1)

    @property
    def _middle(self) -> float:
        return 0.5 * self.low + 0.5 * self.high

    @property
    def largest_square(self) -> float:
        end = (self.high - self._middle) / self.unit
        missing = (self.fill - self._middle) / self.unit
        return max(end * end, missing * missing + self.indicator)


@dataclass(frozen=True)
class _Categories:
    """One of a public list of values.

    Attributes
    ----------
    name : hashable
    listed : tuple
    fill : int
        The place of the category that stands for all others; -1 for none.
    indicator : bool
    """

    name: Any
    listed: tuple
    fill: int = -1
    indicator: bool = False

    def with_indicator(self, indicator: bool) -> _Categories:
        return _Categories(self.name, self.listed, self.fill, indicator)

    def names(self, name: str) -> list[str]:
        made = [f"{name}_{category}" for category in self.listed]
        return [*made, f"{name}_missing"] if self.indicator else made

    def numbers(self, cells: np.ndarray) -> np.ndarray:
        places = {_text(category): k for k, category in enumerate(self.listed)}

        def place(cell: Any) -> int:
            return places.get(_text(cell), -1)

        found = _each(place, cells, np.intp)
        missing = found < 0
        found = np.where(missing, self.fill, found)
        made = (found[:, None] == np.arange(len(self.listed))).astype(float)
        return np.concatenate([made, missing[:, None].astype(float)][: 1 + self.indicator], axis=1)

    @property
    def largest_square(self) -> float:
        return 1.0 + (self.indicator and self.fill >= 0)


_Column = _Number | _Categories


def _read(name: Any, given: Any) -> _Column:
    """Read the description `given` of the column `name`."""
    where = f"schema[{name!r}]" if name != "" else "schema"
    if isinstance(given, tuple):
        given = {"range": given}
    elif isinstance(given, (list, np.ndarray)):
        given = {"categories": given}
    if not isinstance(given, Mapping):
        raise PublicTypeError(f"{where} must be {_KINDS}; got {shown(given)}.")
    keys = set(given)
    for needed, more, make in (
        ({"range"}, {"unit", "fill"}, _read_number),
        ({"categories"}, {"fill"}, _read_categories),
        ({"from", "to"}, {"unit", "fill"}, _read_dates),
    ):
        if needed <= keys <= needed | more:
            return make(name, where, given)
    raise PublicValueError(
        f"{where} must be {_KINDS}; got the keys {shown(sorted(map(str, keys)))}."
    )


def _read_number(name: Any, where: str, given: Mapping) -> _Number:
    ends = given["range"]
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
        raise PublicValueError(
            f"{where}: a range is a tuple (low, high) of two numbers, got {shown(ends)}; a list of "
            "categories is written with square brackets."
        )
    low, high = (_public_number(end, f"{where}: an end of the range") for end in ends)
    return _ranged(name, where, low, high, given, _public_number)


def _read_dates(name: Any, where: str, given: Mapping) -> _Number:
    low, high = (_public_date(given[end], f"{where}: {end!r}") for end in ("from", "to"))
    return _ranged(name, where, low, high, given, _public_date, dates=True)


def _ranged(
    name: Any, where: str, low: float, high: float, given: Mapping, read: Any, dates: bool = False
) -> _Number:
    if not low < high:
        raise PublicValueError(f"{where}: the range must begin below its end; swap them.")
    middle = 0.5 * low + 0.5 * high
    unit = given.get("unit", high - middle)
    check_positive(**{f"{where}: unit": unit})
    fill = read(given["fill"], f"{where}: fill") if given.get("fill") is not None else middle
    if not low <= fill <= high:
        raise PublicValueError(f"{where}: fill must lie in the range, got {shown(given['fill'])}.")
    return _Number(name, low, high, float(unit), fill, dates=dates)


def _read_categories(name: Any, where: str, given: Mapping) -> _Categories:
    listed = given["categories"]
    if isinstance(listed, (str, Mapping)) or not hasattr(listed, "__len__") or not len(listed):
        raise PublicValueError(
            f"{where}: categories must be a list of values, got {shown(listed)}."
        )
    if any(isinstance(category, (tuple, list, Mapping)) for category in listed):
        raise PublicValueError(
            f"{where} is a list, and so one of categories, but holds descriptions of columns; make "
            "a dict of them, for tables without names too: schema=dict(enumerate(schema))."
        )
    texts = [_text(category) for category in listed]
    if None in texts or len(set(texts)) < len(texts):
        raise PublicValueError(
            f"{where}: categories must be distinct texts, numbers or truth values, none of them "
            f"missing; got {shown(listed)}."
        )
    fill = given.get("fill")
    if fill is not None and _text(fill) not in texts:
        raise PublicValueError(
            f"{where}: fill={shown(fill)} is none of the categories {shown(listed)}."
        )
    place = -1 if fill is None else texts.index(_text(fill))
    return _Categories(name, tuple(listed), place)


def _public_number(value: Any, what: str) -> float:
    number = _float(value)
    if isinstance(value, (bool, str)) or not abs(number) <= 1e60:
        raise PublicValueError(
            f"{what} must be a number between -1e60 and 1e60, got {shown(value)}."
        )
    return number


def _public_date(value: Any, what: str) -> float:
    days = _day(value)
    if math.isnan(days):
        raise PublicValueError(f'{what} must be a date such as "2020-01-31", got {shown(value)}.')
    return days


# -- cells: what cannot be read is missing, and no cell is read by the look of another -------------


def _cells_of(rows: Any) -> Any:
    """A list of rows as an array of their cells, each as it is; what is no table stays a list.

    NumPy would make one type of all cells, so that a text in one row turned numbers of the others
    into texts.
    """
    if not all(isinstance(r, (list, tuple)) or getattr(r, "ndim", 0) == 1 for r in rows):
        return rows
    widths = set(map(len, rows))
    if len(widths) != 1 or all(isinstance(cell, (list, tuple)) for row in rows for cell in row):
        return rows
    shape = len(rows), widths.pop()
    cells = np.fromiter(itertools.chain.from_iterable(rows), object, count=math.prod(shape))
    return cells.reshape(shape)


def _each(read: Any, cells: np.ndarray, dtype: Any) -> np.ndarray:
    """`read` of every cell; equal numbers of a column are read once."""
    places = None
    if cells.dtype.kind in "biuf":
        cells, places = np.unique(cells, return_inverse=True)
    with warnings.catch_warnings():  # a warning would tell of a cell
        warnings.simplefilter("ignore")
        found = np.fromiter(map(read, cells.tolist()), dtype, count=len(cells))
    return found if places is None else found[places.reshape(-1)]


def _floats(cells: np.ndarray) -> np.ndarray:
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    if cells.dtype.kind in "Mm":
        return np.full(len(cells), math.nan)
    return _each(_float, cells, np.float64)


def _float(cell: Any) -> float:
    if isinstance(cell, (bytes, datetime.date)):
        return math.nan
    try:
        return float(cell)
    except Exception:  # noqa: BLE001  whatever a cell holds
        return math.nan


def _days(cells: np.ndarray) -> np.ndarray:
    if cells.dtype.kind == "M":
        seconds = cells.astype("datetime64[s]")
        days = seconds.astype(np.int64) / _DAY
        return np.where(np.isnat(seconds), math.nan, days)
    if cells.dtype.kind in "biufm":
        return np.full(len(cells), math.nan)
    return _each(_day, cells, np.float64)


def _day(cell: Any) -> float:
    """Days since 1970, of ISO text or a date; the time zone of a time is left out."""
    try:
        if isinstance(cell, str):
            cell = datetime.datetime.fromisoformat(cell.strip())
        if isinstance(cell, datetime.datetime):
            cell = cell.replace(tzinfo=None)
        elif not isinstance(cell, (datetime.date, np.datetime64)):
            return math.nan
        seconds = np.datetime64(cell, "s")
        return math.nan if np.isnat(seconds) else float(seconds.astype(np.int64)) / _DAY
    except Exception:  # noqa: BLE001  whatever a cell holds
        return math.nan


def _text(cell: Any) -> str | None:
    """Return the key by which categories are compared: text without outer spaces, whole numbers.

    None for what is missing.  ``1``, ``1.0`` and ``"1"`` are one category, as a table may hold
    either; so are ``True`` and ``"True"``.
    """
    try:
        if isinstance(cell, (bool, np.bool_)):
            return str(bool(cell))
        if isinstance(cell, str):
            return cell.strip() or None
        number = float(cell)
        if math.isnan(number):
            return None
        return str(int(number)) if number.is_integer() else str(number)
    except Exception:  # noqa: BLE001  whatever a cell holds
        return None
