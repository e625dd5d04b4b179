"""Records read without scikit-learn's check are those that it would hand back as they are."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_X_y

from skriemdp._quiet import quiet, read_records

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
        return ours is theirs
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
        assert ours is theirs
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
unused = ("geometry.hyperbolic", "geometry.stiefel", "geometry.pymanopt_adapter")
unused += ("privacy.foreign", "privacy.events_mixed", "privacy.events_sampled")
print([name for name in unused if "skriemdp." + name in sys.modules])
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_a_missing_package_is_named_and_no_name_that_a_record_made():
    @quiet
    def drawn(table):
        import a_package_that_nobody_has  # noqa: F401

    @quiet
    def looked_up(table):
        __import__(table[0])

    with pytest.raises(ModuleNotFoundError, match="^No module named 'a_package_that_nobody_has'$"):
        drawn(X)
    with pytest.raises(ModuleNotFoundError, match="^table holds text") as caught:
        looked_up(["somebody"])
    assert "somebody" not in str(caught.value)


@pytest.mark.parametrize("column", [list(np.zeros((3, 2, 2))), [[1.0], [2.0, 3.0]]])
def test_a_column_of_arrays_is_told_to_be_stacked(column):
    cells = np.empty(len(column), dtype=object)
    cells[:] = column
    with pytest.raises(ValueError, match="numpy.stack"):
        read_records(BaseEstimator(), cells[:, None], dtype=np.float64)
