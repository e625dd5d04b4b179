"""Errors that show no record: what foreign code says about records is never passed on.

The words of NumPy, SciPy or scikit-learn may quote an entry of X.  They are replaced by what the
same code says about a stand-in of the same shape that holds zeros, or by a fixed sentence.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_X_y, validate_data

from skriemdp._containers import NO_NUMBER, finding, is_lazy, plain
from skriemdp._documented import Documented
from skriemdp._errors import Public, PublicTypeError, PublicValueError
from skriemdp._process import refuse_forks, this_process
from skriemdp._warnings import after_a_charge

R = TypeVar("R")
E = TypeVar("E", bound=BaseException)

# Packages that some methods need; that one of them is missing may be said.
_OPTIONAL = frozenset(
    "autograd cryptography dask distributed dp_accounting flwr jax matplotlib moabb nvflare opendp "
    "pandas polars pyarrow pyriemann torch".split()
)
# What an error of these classes says of an argument.
_OF_ARGUMENTS: dict[type, type] = dict.fromkeys(
    (LookupError, IndexError, ArithmeticError, NotImplementedError, Exception), PublicValueError
) | {AttributeError: PublicTypeError}
_LIBRARIES = ("builtins", "numpy", "scipy", "sklearn", "pandas", "joblib", "skriemdp")


# -- which errors may pass ------------------------------------------------------------------------


def _public(error: Exception) -> Exception | None:
    """The error as it may pass, or None where its words may tell of a record.

    Those of this package's own classes may, and what was raised :func:`about_public_input`.  Of a
    missing optional package its name is told, which is on a public list.
    """
    if isinstance(error, (Public, NotFittedError)) or getattr(error, "_skriemdp_public", False):
        return error
    package = (getattr(error, "name", None) or "").partition(".")[0]
    if isinstance(error, ImportError) and package in _OPTIONAL:
        return ModuleNotFoundError(f"No module named {package!r}", name=package)
    return None


@contextlib.contextmanager
def about_public_input() -> Iterator[None]:
    """Mark a block in which nothing sees a record: errors of a user's function may pass."""
    try:
        yield
    except Exception as error:
        with contextlib.suppress(AttributeError):
            error._skriemdp_public = True  # type: ignore[attr-defined]  # our own mark
        raise


def is_users_own(error: BaseException) -> bool:
    """Whether a user defined this type of error, to raise it deliberately."""
    return type(error).__module__.split(".")[0] not in _LIBRARIES


def _alone(error: E) -> E:
    """`error` without the errors before it, which may quote records."""
    error.__cause__ = error.__context__ = None
    return error


def _same_type(error: Exception, text: str) -> Exception:
    """A public error with this text: of an argument's type or value, else of the same type.

    That something has no such attribute, entry or quotient is said of what was passed.
    """
    known = {public.__bases__[1]: public for public in Public.__subclasses__()} | _OF_ARGUMENTS
    for kind in type(error).__mro__:
        if issubclass(kind, Warning) and kind.__module__ == "builtins":  # made one by a filter
            warning: Any = kind(text)
            warning._skriemdp_public = True
            return warning
    return next(known[kind] for kind in type(error).__mro__ if kind in known)(text)


# -- stand-ins ------------------------------------------------------------------------------------


def _zero(kind: str) -> np.ndarray:
    types = {**dict.fromkeys("biuf", "f8"), "c": "c16", "m": "m8[s]", "M": "M8[s]"}
    return np.zeros((), types.get(kind, "O"))


def stand_in(value: Any) -> Any:
    """Zeros in the class, shape, format and with the column names of `value`; ~no memory.

    Of the dtype only the kind is kept: widths of strings and categories come from entries.
    """
    if value is None:
        return None
    if sparse.issparse(value):
        return type(value)(value.shape, dtype=np.float64)
    if is_lazy(value):
        return value
    if hasattr(value, "iloc"):
        whole = hasattr(value, "columns")
        kinds = [getattr(d, "kind", "O") for d in (value.dtypes if whole else [value.dtype])]
        kind = "f" if all(k in "biuf" for k in kinds) else "O"
        zeros = np.broadcast_to(_zero(kind), value.shape)
        names: dict[str, Any] = {"columns": value.columns} if whole else {"name": value.name}
        return type(value)(zeros, **names)
    array = np.asarray(value)
    return np.broadcast_to(_zero(array.dtype.kind), array.shape)


def _lines(text: str) -> str:
    """`text` without the zeros of the stand-in that it prints."""
    text = re.sub(r"array=\[[^\]]*\]\.?|array=\S*", "", text)
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("["))
    return "\n".join(line for line in lines if line).strip()


def _place(error: Exception) -> tuple[str, int | None]:
    """The file and line that raised an error."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.filename, last.lineno


def _said_of_zeros(error: Exception, call: Callable[..., Any], values: Sequence[Any]) -> str | None:
    """Return the words of `call` about stand-ins, if it fails at the same place as `error` did."""
    try:
        zeros = [stand_in(value) for value in values]
    except Exception:
        return None
    try:
        with np.errstate(all="ignore"):
            call(*zeros)
    except Exception as other:
        if type(other) is not type(error) or _place(other) != _place(error):
            return None
        text = _lines(str(other))
        return text if "dtype(" not in text else None
    return None


# -- fixed sentences ------------------------------------------------------------------------------


def _sentence(error: Exception, values: Sequence[Any], names: Sequence[str], labels: bool) -> str:
    for name, value in zip(names, values, strict=False):
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            found = finding(value, name)
            if labels and name == "y" and found == f"{name} {NO_NUMBER}":
                continue  # labels may be text
            if found is not None:
                return found
    which = " or ".join(dict.fromkeys(names[: len(values)])) or "the input"
    return (
        f"{which} could not be read ({type(error).__name__}): some entries are of a kind that is "
        "not expected here. What exactly was found is not shown, because it may quote a record."
    )


# -- checks that show nothing ---------------------------------------------------------------------


def quietly(
    call: Callable[..., R], *values: Any, names: Sequence[str] = ("X", "y"), labels: bool = False
) -> R:
    """``call(*values)``, whose errors show no entry of `values`.

    Parameters
    ----------
    call : callable
        A check without lasting effects: it is repeated on stand-ins after an error.
    *values
        Records, or None.
    names : sequence of str
        What to call them.
    labels : bool, default=False
        Whether y may be text.
    """
    failure: Any = None
    # Whatever call does with a broken sparse matrix in C could end the process.
    values = tuple(
        checked_format(value, name) if sparse.issparse(value) else value
        for value, name in zip(values, [*names, *["X"] * len(values)], strict=False)
    )
    try:
        return call(*values)
    except Exception as error:
        failure = error
    # Outside the handler, so that no error has another one as its context.
    public = _public(failure)
    if public is not None:
        raise _alone(public)
    complex_ = any(getattr(getattr(v, "dtype", None), "kind", "") == "c" for v in values)
    text = None if complex_ else _said_of_zeros(failure, call, values)
    if not text:
        text = _sentence(failure, values, names, labels)
    elif text.startswith("Expected 2D array"):
        text = f"{names[0]}: {text}"
    raise _same_type(failure, text)


def read_records(estimator: Any, X: Any, *y: Any, labels: bool = False, **checks: Any) -> Any:
    """scikit-learn's `validate_data` without quotations; a sparse matrix is checked whole.

    A sparse X comes back in canonical form: entries stored twice are added.
    """

    def readable(X: Any, *y: Any) -> Any:
        answers = [plain(part, "y") for part in y]
        if checks.get("y_numeric"):  # before scikit-learn looks for NaN, which text may spell
            answers = [_floats(part) for part in answers]
        return _validated(estimator, plain(X, "X"), *answers, **checks)

    read = quietly(readable, X, *y, labels=labels)
    return (quietly(_canonical, read[0]), read[1]) if y else quietly(_canonical, read)


def _floats(y: Any) -> Any:
    """Answers that are objects or text, as floats."""
    objects = isinstance(y, np.ndarray) and y.dtype.kind in "OUS"
    return y.astype(np.float64) if objects else y


def _validated(estimator: Any, X: Any, *y: Any, **checks: Any) -> Any:
    """`validate_data`; of an array, which names no columns, without its look for tables.

    The first such look in a process asks every installed package.
    """
    if type(X) is not np.ndarray or any(part is None for part in y) or "reset" in checks:
        return validate_data(estimator, X, *y, **checks)
    if _finite_numbers(X, y, **checks):
        result: Any = (X, *y) if y else X
    else:
        check: Callable[..., Any] = check_X_y if y else check_array
        named = {} if y else {"input_name": "X"}
        result = check(X, *y, estimator=estimator, **named, **checks)
    vars(estimator).pop("feature_names_in_", None)
    estimator.n_features_in_ = X.shape[1]
    return result


def _finite_numbers(
    X: np.ndarray,
    y: tuple,
    *,
    dtype: Any = np.float64,
    allow_nd: bool = False,
    ensure_min_samples: int = 1,
    ensure_all_finite: Any = True,
    accept_sparse: Any = None,
    multi_output: bool = False,
    y_numeric: bool = False,
) -> bool:
    """Whether scikit-learn would hand X and y back as they are: numbers, finite, of these shapes.

    Its own check, too, asks every installed package for tables, so it is left to say what is wrong.
    """
    wanted = dtype if isinstance(dtype, tuple) else (dtype,)
    dense = X.ndim == 2 or (allow_nd and X.ndim > 2)
    if X.dtype not in wanted or not dense or not X.size or len(X) < ensure_min_samples:
        return False
    for part in y:
        columns = part.ndim if type(part) is np.ndarray and part.dtype.kind in "biuf" else 0
        fits = columns == 1 or (multi_output and columns == 2)
        if not fits or len(part) != len(X) or not part.flags.c_contiguous or not part.size:
            return False
    if ensure_all_finite is False and not y:
        return True
    with np.errstate(all="ignore"):  # a sum that overflows is not finite: decided there
        return all(bool(np.isfinite(np.sum(part))) for part in (X, *y))


def read_array(value: Any, name: str, *, labels: bool = False, **checks: Any) -> Any:
    """scikit-learn's `check_array` without quotations."""

    def readable(value: Any) -> Any:
        return check_array(plain(value, name), input_name=name, **checks)

    return quietly(readable, value, names=(name,), labels=labels)


def read_numbers(value: Any, name: str, **checks: Any) -> np.ndarray:
    """Floats of any shape, of a function that takes records; text, complex and NaN are refused."""
    shape = {"ensure_2d": False, "allow_nd": True, "ensure_min_samples": 0}
    return read_array(
        value, name, dtype=np.float64, **{**shape, "ensure_min_features": 0, **checks}
    )


def read_weights(sample_weight: ArrayLike | None, n: int) -> np.ndarray:
    """Weights of the `n` rows of a score: finite, none negative, one positive; ones for None."""
    if sample_weight is None:
        return np.ones(n)
    weights = read_array(sample_weight, "sample_weight", dtype=np.float64, ensure_2d=False)
    if weights.shape != (n,):
        raise PublicValueError(f"sample_weight must have shape ({n},), got {weights.shape}.")
    total = weights.sum()
    if not (weights >= 0).all() or not 0 < total < np.inf:
        raise PublicValueError("sample_weight must be non-negative, with a positive finite sum.")
    return weights


def checked_format(X: Any, name: str = "X") -> Any:
    """A shallow copy of a sparse matrix whose indices fit its shape; others crash C code."""
    X = X.tocoo() if X.format == "dok" else copy.copy(X)
    fits = False
    with contextlib.suppress(Exception):
        fits = _fits(X)
    if not fits:
        raise PublicValueError(
            f"{name} is a broken sparse matrix: its index arrays do not fit its shape or each "
            "other; build it anew from rows, columns and values."
        )
    return X


def _fits(X: Any) -> bool:
    """Whether the index arrays of a sparse matrix fit; some errors say that they do not."""
    if X.format == "coo":
        return all(
            len(at) == len(X.data) and (not len(at) or 0 <= at.min() <= at.max() < size)
            for at, size in zip(X.coords, X.shape, strict=True)
        )
    if hasattr(X, "check_format"):
        if 0 in map(np.ndim, (X.indptr, X.indices, X.data)):
            return False
        # SciPy looks no further where the last pointer says that nothing is stored.
        if (np.diff(X.indptr) < 0).any() or X.indptr[0] != 0 or X.indptr[-1] > len(X.indices):
            return False
        X.check_format(full_check=True)
    return True


def _canonical(X: Any) -> Any:
    """`X` with sorted indices and no entry stored twice, if it is a sparse matrix by rows."""
    if not sparse.issparse(X) or X.format not in ("csr", "csc"):
        return X
    X = checked_format(X)
    # Flags that X carries may be stale; these arrays have none yet.
    X = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


class Charged:
    """Context of a release that was paid for; its errors show no record and name the entry.

    No warning ends it (:class:`skriemdp._warnings.Words`).  In a process that was forked in the
    middle of it, it fails: what was charged once is released once.
    ``with charged: release()``, then ``charged.raise_failure()``, which raises what went wrong:
    outside the handler, so that no error has another one as its context.
    """

    def __init__(self, entry: Any, seen_by_callback: bool = False):
        what = "this fit" if entry is None else f"entry {entry.number}"
        released = "nothing but what the callback saw" if seen_by_callback else "nothing"
        self._note = f"{what} was charged before this error; {released} was released"
        self._failure: Any = None
        self._process = this_process()
        self._unended = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._unended.enter_context(after_a_charge())
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        self._unended.close()
        if isinstance(error, Exception):
            self._failure = error
        elif error is not None:  # an interrupt hides nothing
            error.add_note(self._note)
        return self._failure is not None

    def raise_failure(self) -> None:
        """Raise the error of the release, if there was one."""
        refuse_forks(self._process, "a fit", "release again what was charged once")
        failure, self._failure = self._failure, None
        if failure is None:
            return
        users_own = is_users_own(failure)
        public = _public(failure)
        if public is not None:
            failure = public
        elif not users_own:
            failure = _same_type(
                failure,
                f"the release failed ({type(failure).__name__}). What exactly happened is not "
                "shown, because it may quote a record; to see, call a function or a manifold of "
                "yours by itself, on made-up records.",
            )
        failure.add_note(self._note)
        raise _alone(failure)


class QuietQueries(Documented):
    """Base of estimators whose public methods show no record in an error or a warning of NumPy.

    Subclasses need nothing: `predict`, `transform`, `score` and all other public methods but those
    that start with fit, get or set are wrapped by :func:`quiet` when a class is made.
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        for name, member in list(vars(cls).items()):
            if name.startswith(("_", "fit", "get", "set")):
                continue
            if inspect.isfunction(member):
                setattr(cls, name, quiet(member))
            elif isinstance(member, (classmethod, staticmethod)):
                setattr(cls, name, type(member)(quiet(member.__func__)))
            elif isinstance(member, type(_CONDITIONAL)) and inspect.isfunction(member.fn):
                member.fn = quiet(member.fn)
        owner = next((base for base in cls.__mro__ if "score" in vars(base)), None)
        if owner is not None and not issubclass(owner, QuietQueries):  # one of scikit-learn's
            cls.score = quiet(_of_plain_rows(vars(owner)["score"]))  # type: ignore[attr-defined]


def _of_plain_rows(score: Callable[..., R]) -> Callable[..., R]:
    """scikit-learn's `score`, of labels and weights in which nothing is masked or missing."""

    @functools.wraps(score)
    def checked(self: Any, X: Any, y: Any, sample_weight: Any = None) -> R:
        y = quietly(lambda y: plain(y, "y"), y, names=("y",), labels=True)
        if sample_weight is not None:
            count = X.shape[0] if hasattr(X, "shape") else len(X)
            sample_weight = read_weights(sample_weight, count)
        return score(self, X, y, sample_weight)

    return checked


# What `available_if` makes of a method, to know it by.
_CONDITIONAL = available_if(lambda owner: True)(lambda owner: None)


def _suits(function: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """Whether a call has the arguments that the signature asks for."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def quiet(function: Callable[..., R]) -> Callable[..., R]:
    """`function`, or a method, whose errors and NumPy warnings show no entry of its arguments."""
    if hasattr(function, "_quiet"):
        return function

    @functools.wraps(function)
    def query(*args: Any, **kwargs: Any) -> R:
        failure: Any = None
        try:
            args = tuple(checked_format(a) if sparse.issparse(a) else a for a in args)
            kwargs = {k: checked_format(a) if sparse.issparse(a) else a for k, a in kwargs.items()}
            with np.errstate(all="ignore"):
                return function(*args, **kwargs)
        except Exception as error:
            failure = error
        # Of arguments that do not fit Python says their number and names.
        public = _public(failure) if _suits(function, args, kwargs) else failure
        if public is not None:
            raise _alone(public)
        names = list(inspect.signature(function).parameters)
        given = [*zip(names, args, strict=False), *kwargs.items()]
        # Neither estimators nor functions hold records themselves.
        given = [(n, a) for n, a in given if not (callable(a) or hasattr(a, "get_params"))]
        given = [(n, a) for n, a in given if n not in ("self", "cls")]
        text = _sentence(failure, [a for _, a in given], [name for name, _ in given], labels=True)
        raise _same_type(failure, text)

    query._quiet = True  # type: ignore[attr-defined]  # our own mark
    return query
