"""No message quotes a record: what the package raises is its own, what others raise is replaced."""

import ast
import builtins
import contextlib
import datetime
import fractions
import importlib
import inspect
import ipaddress
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
from conftest import shown_by
from scipy import optimize, sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_X_y

import skriemdp
from skriemdp import (
    PrivateFrechetMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    _errors,
)
from skriemdp._errors import Public
from skriemdp._quiet import Charged, about_public_input, quiet, quietly, read_records, stand_in

PACKAGE = Path(skriemdp.__file__).parent
# Entries start with these digits, whatever is added to them.
SECRET, ENTRY = "314159", 31415900
OWN = [value for value in vars(_errors).values() if isinstance(value, type) and value is not Public]
BUILTIN = {cls.__bases__[1].__name__ for cls in OWN}


def raised(tree):
    """Names of built-in errors that a module makes or derives from; it may catch them."""
    for node in ast.walk(tree):
        made = node.func if isinstance(node, ast.Call) else getattr(node, "exc", None)
        for name in [made, *(node.bases if isinstance(node, ast.ClassDef) else [])]:
            if isinstance(name, ast.Name) and name.id in BUILTIN:
                yield name.id


def test_what_the_package_raises_is_of_its_own_classes():
    found = {
        str(path.relative_to(PACKAGE)): list(raised(ast.parse(path.read_text(encoding="utf-8"))))
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py" and path != PACKAGE / "_errors.py"
    }
    assert len(found) > 100 and {path: names for path, names in found.items() if names} == {}


def test_a_built_in_error_is_noticed():
    planted = "raise ValueError('a')", "raise TypeError", "class A(RuntimeError): pass"
    planted += ("return_ = KeyError\nreturned = OSError('b')",)
    assert all(list(raised(ast.parse(text))) for text in planted)
    assert not list(raised(ast.parse("try: f()\nexcept ValueError: raise")))


def test_nothing_looks_at_bytecode():
    """Only the search for records that a user's function carries asks which globals it names."""
    for path in set(PACKAGE.rglob("*.py")) - {PACKAGE / "_walk.py"}:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        assert not names & {"co_code", "__code__", "tb_lasti", "f_lasti", "co_consts", "co_names"}
        imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
        modules = {a.name for n in imports for a in n.names}
        assert "dis" not in modules and "CodeType" not in modules


@pytest.mark.parametrize("cls", OWN, ids=lambda c: c.__name__)
def test_errors_are_caught_by_their_built_in_names_and_travel(cls):
    kind = getattr(builtins, cls.__bases__[1].__name__)
    assert issubclass(cls, kind)
    again = pickle.loads(pickle.dumps(cls("words")))
    assert type(again) is cls and str(again) == "words"
    assert type(cls.__new__(cls, "words")) is cls  # as tblib does for workers of dask


def of(rows):
    """An entry of the records, as text; another one where these are stand-ins."""
    return str(int(np.asarray(rows).flat[0]))


class Odd:
    """An entry that says what it is whenever it is used."""

    def __init__(self, rows):
        self.text = of(rows)

    def __float__(self):
        raise ValueError(self.text)


def _chained(rows):
    try:
        {}[of(rows)]
    except KeyError as error:
        raise RuntimeError("see above") from error


def _in_a_context(rows):
    try:
        int(f"x{of(rows)}")
    except ValueError:
        return 1 / 0


def _grouped(rows):
    raise ExceptionGroup(of(rows), [ValueError(of(rows))])


def _noted(rows):
    error = ValueError("nothing")
    error.add_note(of(rows))
    raise error


def _imported(rows):
    raise ImportError(of(rows), name=of(rows))


def _named_like_a_package(rows):
    raise ImportError(f"cannot import {of(rows)}", name="pandas", path=of(rows))


# Errors of other code on lines of ours, of libraries below them, and of users' functions.
FOREIGN = {
    "float of text": lambda rows: float(f"x{of(rows)}"),
    "int of text": lambda rows: int(f"x{of(rows)}"),
    "a key": lambda rows: {}[of(rows)],
    "an attribute": lambda rows: getattr(rows, f"a{of(rows)}"),
    "an address": lambda rows: ipaddress.ip_address(f"x{of(rows)}"),
    "a date": lambda rows: datetime.date.fromisoformat(f"x{of(rows)}"),
    "a fraction": lambda rows: fractions.Fraction(f"x{of(rows)}"),
    "json": lambda rows: json.JSONDecoder(object_hook=lambda d: d[of(rows)]).decode('{"a": 1}'),
    "numpy shape": lambda rows: np.zeros(3).reshape(int(of(rows)) + 4),
    "numpy text": lambda rows: np.asarray([f"x{of(rows)}"]).astype(float),
    "numpy index": lambda rows: np.zeros(3)[int(of(rows)) + 3],
    "numpy date": lambda rows: np.datetime64(f"x{of(rows)}"),
    "scipy sparse": lambda rows: sparse.csr_matrix((2, 2))[int(of(rows)) + 2, 0],
    "scipy root": lambda rows: optimize.brentq(lambda x: float(f"x{of(rows)}"), 0, 1),
    "pandas key": lambda rows: pandas.DataFrame({"a": [1]})[of(rows)],
    "pandas text": lambda rows: pandas.to_numeric(pandas.Series([f"x{of(rows)}"])),
    "pandas label": lambda rows: pandas.Series([1]).loc[int(of(rows)) + 1],
    "an odd entry": lambda rows: np.asarray([Odd(rows)], dtype=float),
    "chained": _chained,
    "in a context": _in_a_context,
    "grouped": _grouped,
    "noted": _noted,
    "an import": _imported,
    "an import that names a package": _named_like_a_package,
    "a module by a record": lambda rows: importlib.import_module(f"x{of(rows)}"),
}


def said(call):
    """All that an error shows."""
    texts, error = shown_by(call)
    assert error is not None
    return "\n".join(texts)


ROWS = np.full((4, 2), float(ENTRY))


@pytest.mark.parametrize("case", FOREIGN)
def test_foreign_words_are_replaced(case):
    """In checks, in queries, in a check within a query, and after a charge."""
    assert SECRET not in said(lambda: quietly(FOREIGN[case], ROWS))
    assert SECRET not in said(lambda: quiet(lambda rows: FOREIGN[case](rows))(ROWS))
    assert SECRET not in said(lambda: quiet(lambda rows: quietly(FOREIGN[case], rows))(ROWS))
    charged = Charged(None)

    def release():
        with charged:
            FOREIGN[case](ROWS)
        charged.raise_failure()

    words = said(release)
    assert SECRET not in words and "was charged before this error" in words


def test_each_case_would_quote_a_record():
    """Without the package the same calls do: the list has no idle case."""
    idle = [case for case in FOREIGN if SECRET not in said(lambda c=case: FOREIGN[c](ROWS))]
    assert not idle


@pytest.mark.parametrize("cls", OWN, ids=lambda c: c.__name__)
def test_the_packages_own_words_pass(cls):
    def refuse(rows):
        raise cls("radius must be positive")

    with pytest.raises(cls, match="^radius must be positive$"):
        quietly(refuse, ROWS)
    with pytest.raises(cls, match="^radius must be positive$"):
        quiet(refuse)(ROWS)


def test_words_about_public_input_pass():
    def refuse(rows):
        with about_public_input():
            float("word")

    with pytest.raises(ValueError, match="'word'"):
        quietly(refuse, ROWS)


def test_a_missing_optional_package_is_named_and_others_are_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyriemann", None)

    def optional(rows):
        import pyriemann  # noqa: F401

    with pytest.raises(ModuleNotFoundError, match="^No module named 'pyriemann'$"):
        quiet(optional)(ROWS)


def test_arguments_that_do_not_fit_are_named():
    with pytest.raises(TypeError, match="colour"):
        PrivateFrechetMean(random_state=0).fit(np.zeros((9, 2))).transform(ROWS, colour=1)


def test_a_cost_that_quotes_is_not_passed_on():
    def cost(point, row):
        raise KeyError(f"{row[0]}")

    model = PrivateRiemannianERM(cost, "euclidean", epsilon=1.0, random_state=0)
    assert SECRET not in said(lambda: model.fit(ROWS))


# -- what is said of shapes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0).reshape(2, 3),
        np.array([["secret", "b"]]),
        np.array([[1 + 2j]]),
        np.array(["2024-01-01"], dtype="M8[D]"),
        np.array([[1, "secret"]], dtype=object),
        pandas.DataFrame({"age": [41.5, 3.0], "name": ["secret", "b"]}),
        pandas.Series([41.5], name="age"),
        sparse.csr_matrix([[41.5, 0.0]]),
        sparse.coo_array([[41.5, 0.0]]),
        [[41.5, 2.0]],
        "secret",
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_stand_in_has_the_shape_and_nothing_else(value):
    zeros = stand_in(value)
    assert np.shape(zeros) == np.shape(value)
    assert "41.5" not in repr(zeros) and "secret" not in repr(zeros)
    if hasattr(value, "columns"):
        assert list(zeros.columns) == ["age", "name"]
    if sparse.issparse(value):
        assert type(zeros) is type(value) and zeros.nnz == 0


def test_what_is_said_of_the_shape_survives():
    with pytest.raises(ValueError, match=r"Expected 2D array, got 1D array") as caught:
        PrivateFrechetMean(radius=1.0).fit(np.full(7, 41.5))
    assert "Reshape your data" in str(caught.value) and "array=" not in str(caught.value)
    model = PrivateFrechetMean(radius=1.0).fit(X)
    with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 3"):
        model.transform(X[:, :2])


@pytest.mark.parametrize(
    "entry, words",
    [
        ("carla@example.org", "holds text"),
        ({"carla": 41.5}, "holds text"),
        (np.nan, "contains NaN or infinity"),
        (np.inf, "contains NaN or infinity"),
    ],
    ids=str,
)
def test_an_odd_entry_is_not_quoted(entry, words, recording_accountant):
    odd = X.astype(object)
    odd[3, 0] = entry
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        PrivateFrechetMean(accountant=recording_accountant, radius=1.0).fit(odd)
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert "carla" not in str(caught.value) and not recording_accountant.spends
    if words.endswith("infinity"):  # n is public: it must not follow from what is missing
        assert "by public numbers. Do not leave such rows out" in str(caught.value)


def test_no_message_recommends_to_leave_records_out():
    advice = re.compile(r"(?i)leave such (rows|records) out, or|remove (what is|missing|or impute)")
    for path in PACKAGE.rglob("*.py"):
        assert not advice.search(re.sub(r'"\s*f?"', "", path.read_text())), path


@pytest.mark.parametrize(
    "matrices, words",
    [
        (np.array([[2.0, 1.0], [0.5, 2.0]]), "not symmetric"),
        (np.array([[1.0, 1.0], [1.0, 1.0]]), "not positive definite"),
        (np.ones(3), r"points of 'spd' have shape"),
    ],
    ids=["skew", "singular", "size"],
)
def test_bad_covariances_get_three_sentences_and_no_counts(matrices, words):
    good = np.tile(np.eye(2), (20, 1, 1))
    bad = np.tile(matrices, (20,) + (1,) * matrices.ndim)
    if matrices.ndim == 2:
        bad[:15] = good[:15]
    with pytest.raises(ValueError, match=words) as caught:
        PrivateFrechetMean("spd", center=np.eye(2), radius=1.0).fit(bad)
    assert not re.search(r"\b(5|15|20)\b", str(caught.value))


def test_public_methods_keep_their_signatures():
    assert list(inspect.signature(PrivateNoisyAdaGrad.score).parameters) == [
        "self",
        "X",
        "y",
        "sample_weight",
    ]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        PrivateFrechetMean(radius=1.0).fit(X).predict()


# -- after the charge ------------------------------------------------------------------------------


def test_an_error_after_the_charge_names_the_entry(recording_accountant, monkeypatch):
    def broken(self, data, plan, streams):
        raise ValueError(f"bad {data.arrays[0][0, 0]}")

    monkeypatch.setattr(PrivateFrechetMean, "_release", broken)
    with pytest.raises(ValueError) as caught:
        PrivateFrechetMean(accountant=recording_accountant, radius=1.0).fit(X)
    assert caught.value.__notes__ == ["entry 1 was charged before this error; nothing was released"]
    assert str(X[0, 0]) not in str(caught.value) and len(recording_accountant.spends) == 1


def test_an_interrupt_passes_with_a_note(recording_accountant):
    def stop(step, point):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        PrivateRiemannianERM(callback=stop, accountant=recording_accountant, n_steps=3).fit(X)
    assert "entry 1" in caught.value.__notes__[0] and "callback" in caught.value.__notes__[0]


def test_a_users_own_exception_passes_with_a_note(recording_accountant):
    class Enough(Exception):
        pass

    def stop(step, point):
        raise Enough("at once")

    with pytest.raises(Enough, match="at once") as caught:
        PrivateRiemannianERM(callback=stop, accountant=recording_accountant, n_steps=3).fit(X)
    assert "entry 1" in caught.value.__notes__[0]


# -- what scikit-learn would hand back as it is is read without its check -------------------------

X = np.random.default_rng(0).normal(size=(6, 3))
Y = np.array([0, 1, 0, 1, 1, 0])


def changed(value, place, entry):
    value = value.copy()
    value[place] = entry
    return value


TABLES = {
    "floats": (X, {}),
    "by columns": (np.asfortranarray(X), {}),
    "a view": (X[::2], {}),
    "single precision": (X.astype(np.float32), {}),
    "other byte order": (X.astype(">f8"), {}),
    "integers": (np.arange(6).reshape(3, 2), {}),
    "objects": (X.astype(object), {}),
    "matrices": (X.reshape(2, 3, 3), {"allow_nd": True}),
    "matrices where none are taken": (X.reshape(2, 3, 3), {}),
    "one axis": (X[0], {}),
    "no row": (X[:0], {}),
    "no column": (X[:, :0], {}),
    "too few": (X[:1], {"ensure_min_samples": 2}),
    "not a number": (changed(X, (2, 1), np.nan), {}),
    "infinite": (changed(X, (2, 1), -np.inf), {}),
    "a sum beyond floats": (np.full((4, 2), 1e308), {}),
    "nothing masked": (np.ma.masked_array(X, False), {}),
}
LABELS = {
    "classes": (Y, {}),
    "numbers": (X[:, 0].copy(), {"y_numeric": True}),
    "a column": (X[:, 0], {"y_numeric": True}),
    "several": (X[:, :2].copy(), {"multi_output": True}),
    "several where one is taken": (X[:, :2].copy(), {}),
    "too short": (Y[:3], {}),
    "words": (np.array(list("ababba")), {}),
    "a missing number": (changed(X[:, 0], 3, np.nan), {}),
}


def outcome(call):
    try:
        return call()
    except (ValueError, TypeError) as error:
        return type(error)


def same(ours, theirs):
    if isinstance(theirs, type):
        return issubclass(ours, theirs)
    return ours.dtype == theirs.dtype and np.array_equal(ours, theirs)


@pytest.mark.parametrize("case", TABLES)
@pytest.mark.parametrize("dtype", [np.float64, (np.float64, np.float32)], ids=str)
def test_a_table_is_read_as_scikit_learn_reads_it(case, dtype):
    table, checks = TABLES[case]
    ours = outcome(lambda: read_records(BaseEstimator(), table, dtype=dtype, **checks))
    expected = list(dtype) if isinstance(dtype, tuple) else dtype
    assert same(ours, outcome(lambda: check_array(table, dtype=expected, **checks)))


@pytest.mark.parametrize("case", LABELS)
def test_labels_are_read_as_scikit_learn_reads_them(case):
    y, checks = LABELS[case]
    ours = outcome(
        lambda: read_records(BaseEstimator(), X, y, labels=True, dtype=np.float64, **checks)
    )
    theirs = outcome(lambda: check_X_y(X, y, dtype=np.float64, **checks))
    if isinstance(theirs, type):
        assert issubclass(ours, theirs)
    else:
        assert same(ours[0], theirs[0]) and same(ours[1], theirs[1])


def test_a_fit_asks_no_installed_package_and_loads_no_other_geometry():
    code = """
import importlib.metadata, sys
import numpy as np, sklearn.base, skriemdp
def asked(*args, **kwargs): raise AssertionError("installed packages were asked")
importlib.metadata.entry_points = asked
X = np.random.default_rng(0).normal(size=(300, 3))
skriemdp.PrivateNoisyAdaGrad().fit(X, (X[:, 0] > 0).astype(int))
skriemdp.PrivatePrincipalEigenvector().fit(X)
unused = ("geometry._hyperbolic", "geometry._stiefel", "geometry._pymanopt_adapter")
unused += ("privacy._foreign", "privacy._events_mixed", "privacy._events_sampled")
print([name for name in unused if "skriemdp." + name in sys.modules])
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("column", [list(np.zeros((3, 2, 2))), [[1.0], [2.0, 3.0]]])
def test_a_column_of_arrays_is_told_to_be_stacked(column):
    cells = np.empty(len(column), dtype=object)
    cells[:] = column
    with pytest.raises(ValueError, match="numpy.stack"):
        read_records(BaseEstimator(), cells[:, None], dtype=np.float64)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
def test_a_broken_sparse_matrix_is_refused_by_queries_too(form):
    model = PrivateNoisyAdaGrad().fit(X, Y)
    matrix = sparse.csr_array(X).asformat(form)
    (matrix.col if form == "coo" else matrix.indices)[0] = 10**7
    for query in (model.predict, model.decision_function, lambda rows: model.score(rows, Y)):
        with pytest.raises(ValueError, match="broken sparse"):
            query(matrix)


def test_entries_stored_twice_are_added_before_they_are_bounded():
    twice = sparse.csr_array((np.full(120, 0.1), np.repeat(0, 120), np.arange(0, 121, 2)))
    twice.has_canonical_format = True  # a flag that lies
    table = read_records(PrivatePrincipalEigenvector(), twice, accept_sparse="csr")
    assert table.nnz == 60 and (table.data == 0.2).all() and twice.nnz == 120


def named_in_messages(text):
    """Dotted names of this package in the sentences of a module; docstrings are no messages."""
    tree = ast.parse(text)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            if " " in node.value.strip():
                yield from re.findall(r"\bskriemdp(?:\.\w+)+", node.value)


def test_messages_recommend_public_names_that_exist():
    planted = 'raise E("use skriemdp._mean.f, or skriemdp.nothing")'
    assert list(named_in_messages(planted)) == ["skriemdp._mean.f", "skriemdp.nothing"]
    found = {
        n
        for path in Path(skriemdp.__file__).parent.rglob("*.py")
        for n in named_in_messages(path.read_text())
    }
    assert len(found) > 10
    for name in found:
        parts = name.split(".")
        assert not any(part.startswith("_") for part in parts), name
        value = skriemdp
        for k, part in enumerate(parts[1:], start=2):
            with contextlib.suppress(ImportError):
                importlib.import_module(".".join(parts[:k]))
            value = getattr(value, part)
