"""PublicTable: every row by itself, by a public schema; accepted wherever privacy is checked."""

import datetime
import importlib
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from skriemdp import PrivateGridSearchCV, PrivateNoisyAdaGrad, PublicTable, privacy_report

SCHEMA = {
    "age": {"range": (18, 98), "unit": 10},
    "ward": ["north", "south", "west"],
    "smoker": {"categories": [True, False], "fill": False},
    "score": (0, 10),
    "since": {"from": "2020-01-01", "to": "2020-12-31", "unit": 30, "fill": "2020-07-01"},
}
ROWS = {
    "age": [18.0, 98.0, 58.0, math.nan, 200.0, -5.0],
    "ward": ["north", "south", " west ", None, "NORTH", ""],
    "smoker": [True, False, None, "True", "?", True],
    "score": [0, 10, 5, 5, 5, 5],
    "since": ["2020-01-01", "2020-12-31", None, "never", "1999-01-01", "2020-07-01T00:00:00+02:00"],
}


@parametrize_with_checks(
    [PublicTable(), PublicTable((0, 5), indicators=False), PublicTable([0, 1])]
)
def test_scikit_learn_compatibility(estimator, check):
    check(estimator)


def test_values_become_numbers():
    made = PublicTable(SCHEMA).fit_transform(ROWS)
    names = list(PublicTable(SCHEMA).get_feature_names_out())
    found = dict(zip(names, made.T, strict=True))
    assert names == [
        *("age", "age_missing", "ward_north", "ward_south", "ward_west"),
        *("smoker_True", "smoker_False", "score", "score_missing", "since", "since_missing"),
    ]
    assert_allclose(found["age"], [-4, 4, 0, 0, 4, -4])
    assert_array_equal(found["age_missing"], [0, 0, 0, 1, 0, 0])
    assert_array_equal(found["ward_north"], [1, 0, 0, 0, 0, 0])
    assert_array_equal(found["ward_west"], [0, 0, 1, 0, 0, 0])
    assert_array_equal(found["smoker_True"], [1, 0, 0, 1, 0, 1])
    assert_array_equal(found["smoker_True"] + found["smoker_False"], 1)
    assert_allclose(found["score"], [-1, 1, 0, 0, 0, 0])
    days = np.array([-182.5, 182.5, -0.5, -0.5, -182.5, -0.5])
    assert_allclose(found["since"], days / 30)
    assert_array_equal(found["since_missing"], [0, 0, 1, 1, 0, 0])


def _frames():
    """The same table in every kind of frame that is installed."""
    columns = {"age": [30.0, None, 97.5], "ward": ["north", None, "south"], "score": [1, 2, 3]}
    days = [datetime.date(2020, 5, 1), None, datetime.date(2020, 6, 1)]
    yield {**columns, "since": days}
    for name in ("pandas", "polars", "pyarrow"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        make = module.table if name == "pyarrow" else module.DataFrame
        yield make({**columns, "since": days})
        if name == "pandas":
            table = module.DataFrame({**columns, "since": module.to_datetime(days)})
            yield table
            yield table.convert_dtypes()
            yield table.astype({"ward": "category", "score": object})


@pytest.mark.parametrize("table", list(_frames()), ids=lambda table: type(table).__module__)
def test_every_kind_of_frame_gives_the_same_numbers(table):
    schema = {k: SCHEMA[k] for k in ("since", "age", "score", "ward")}  # in another order
    model = PublicTable(schema).fit(table)
    made = model.transform(table)
    assert_allclose(made[:, 0] * 30, [-61.5, -0.5, -30.5])
    assert_allclose(made[:, 2] * 10, [-28, 0, 39.5])
    assert_array_equal(made[:, [1, 3]], [[0, 0], [1, 1], [0, 0]])
    assert_array_equal(made[:, -3:], [[1, 0, 0], [0, 0, 0], [0, 1, 0]])
    assert list(model.feature_names_in_) == list(schema) and model.n_features_in_ == 4


HOSTILE = [None, math.nan, math.inf, -math.inf, 1e308, 10**400, "", "x" * 99, b"1", [1], {}]
HOSTILE += [np.datetime64("NaT"), datetime.date(1, 1, 1), object(), 1j, "nan", "1e999", True]


def test_a_row_depends_on_itself_only_and_nothing_raises(rng):
    model = PublicTable(SCHEMA)
    cells = np.empty((300, len(SCHEMA)), dtype=object)
    usual = [40.5, "south", True, 7, "2020-03-04"]
    for row, column in np.ndindex(cells.shape):
        hostile = rng.random() < 0.5
        cells[row, column] = HOSTILE[rng.integers(len(HOSTILE))] if hostile else usual[column]
    whole = model.fit_transform(cells)
    assert np.isfinite(whole).all()
    assert np.linalg.norm(whole, axis=1).max() <= model.largest_norm()
    for row in range(0, 300, 7):
        alone = {name: [cells[row, k]] for k, name in enumerate(SCHEMA)}
        assert_array_equal(model.transform(alone)[0], whole[row])
    assert_array_equal(model.transform(cells[::-1])[::-1], whole)


# Columns of one public schema, and what a last row may hold beside rows that never change.
BESIDE = {
    "floats": ([1, 2], [1.0, 2.0, 1.0]),
    "whole numbers": ([1, 2], [1, 2, 2]),
    "truth values": ([True, False], [True, False, True]),
    "numbers": ((0.0, 4.0), [0.1, 2.0, np.float32(0.1)]),
    "dates": (SCHEMA["since"], [datetime.date(2020, 5, 1), "2020-03-04", None]),
    "moments": (SCHEMA["since"], [np.datetime64("2020-05-01", "ns")] * 3),
}
LAST = [
    "x",
    7,
    2.5,
    None,
    True,
    np.float32(0.1),
    2**70,
    datetime.date(2020, 1, 2),
    [1],
    np.ma.masked,
]


@pytest.mark.parametrize("rows", [list, tuple, np.array], ids=["lists", "tuples", "arrays"])
@pytest.mark.parametrize("kind", BESIDE)
def test_rows_of_a_list_are_read_without_a_look_at_other_rows(kind, rows, recwarn):
    """NumPy makes one type of all cells of a list; who changes its own cell changes no other."""
    described, cells = BESIDE[kind]
    schema = {0: described, 1: ["a", "b"]}
    alone = [PublicTable(schema).fit_transform([[cell, "a"]])[0] for cell in cells]
    for last in LAST:
        objects = {"dtype": object} if rows is np.array else {}
        before = [rows([cell, "a"], **objects) for cell in cells]
        made = PublicTable(schema).fit_transform([*before, [last, None]])
        assert_array_equal(made[:-1], alone)
        made = PublicTable({0: described}).fit_transform([*([cell] for cell in cells), [last]])
        assert_array_equal(made[:-1], np.array(alone)[:, : made.shape[1]])
    assert not recwarn  # one would tell of a cell


@pytest.mark.parametrize("last", [np.ma.masked, np.complex128(1 + 2j), 1j, object()])
@pytest.mark.parametrize("described", [(0, 2), [1, 2], SCHEMA["since"]], ids=str)
def test_no_cell_makes_a_warning(described, last, recwarn):
    for table in ({"a": [1.0, last]}, {"a": np.array([1.0, last], dtype=object)}):
        assert np.isfinite(PublicTable({"a": described}).fit_transform(table)).all()
    assert not recwarn


def test_lists_that_are_no_tables_are_refused():
    for rows in ([[1.0, 2.0], [3.0]], [1.0, 2.0], ["ab", "cd"], [[[1.0]], [[2.0]]], [[], []], []):
        with pytest.raises(ValueError):
            PublicTable({0: (0, 1), 1: (0, 1)}).fit(rows)


@pytest.mark.parametrize("indicators", [True, False, ["ward", "age"]])
def test_the_largest_norm_is_attained(indicators):
    schema = {
        "age": {"range": (0, 4), "unit": 1},
        "ward": {"categories": "a b".split(), "fill": "a"},
    }
    model = PublicTable(schema, indicators=indicators)
    rows = {"age": [0, 4, None, 2, 4], "ward": ["a", "b", None, "c", None]}
    norms = np.linalg.norm(model.fit_transform(rows), axis=1)
    assert norms.max() == pytest.approx(model.largest_norm(), rel=1e-9)


def test_fit_looks_at_no_value():
    class Watched(dict):
        def __getitem__(self, name):
            return np.empty(3, dtype=object)  # of cells that say nothing

    table = Watched(dict.fromkeys(SCHEMA))
    first = PublicTable(SCHEMA).fit(table)
    second = PublicTable(SCHEMA).fit(ROWS)
    assert vars(first).keys() == vars(second).keys()
    assert_array_equal(first.transform(ROWS), second.transform(ROWS))
    assert_array_equal(first.transform(ROWS), PublicTable(SCHEMA).transform(ROWS))
    assert not privacy_report(second).violations and privacy_report(second)


@pytest.mark.parametrize(
    "schema, words",
    [
        ({}, "schema is empty"),
        ({"age": 3}, r"schema\['age'\] must be a range"),
        ({"age": (5, 1)}, "must begin below its end"),
        ({"age": (1, "x")}, "must be a number"),
        ({"age": (1, 2, 3)}, "tuple .low, high."),
        ({"age": {"range": (0, 1), "unit": 0}}, "unit"),
        ({"age": {"range": (0, 1), "fill": 9}}, "fill must lie in the range"),
        ({"age": {"mean": 4}}, "got the keys"),
        ({"age": []}, "must be a list of values"),
        ({"age": [1, "1"]}, "distinct"),
        ({"age": [None, 1]}, "none of them missing"),
        ({"age": {"categories": ["a"], "fill": "b"}}, "none of the categories"),
        ({"age": {"from": "yesterday", "to": "2020-01-01"}}, "must be a date"),
        ({"age": ["missing"], "age_missing": (0, 1)}, "would be named 'age_missing'"),
        ({"age": (0, 1), "zip": (0, 1)}, "has no column 'zip'"),
        ({"zip": (0, 1)}, "has the column 'age', which the schema does not describe"),
    ],
)
def test_what_is_not_in_the_schema_is_refused(schema, words):
    with pytest.raises((ValueError, TypeError), match=words) as error:
        PublicTable(schema).fit({"age": [61234.0, 2.0]})
    assert "61234" not in str(error.value)


@pytest.mark.parametrize(
    "schema",
    [
        [(18, 98), (0, 200)],
        [(18, 98), ["a", "b"]],
        [{"range": (18, 98)}, (0, 200)],
        [["a", "b"], ["c"]],
        [(18, 98)],
    ],
)
def test_a_list_of_descriptions_is_told_to_become_a_dict(schema):
    table = np.array([[50, 7], [20, 8]])[:, : len(schema)]
    with pytest.raises(ValueError, match="make a dict of them") as caught:
        PublicTable(schema).fit(table)
    cure = str(caught.value).split("schema=")[1].rstrip(".")
    assert PublicTable(eval(cure)).fit_transform(table).shape[0] == 2


def test_tables_that_are_none_are_refused():
    for rows, words in (
        (np.zeros((3, 2)), "2 columns without names"),
        ({"age": [1.0], "ward": ["a", "b"]}, "one length"),
        ({"age": [], "ward": []}, "0 rows"),
    ):
        with pytest.raises(ValueError, match=words):
            PublicTable(
                {"age": (0, 1), "ward": ["a"], **({"x": [1]} if len(rows) == 3 else {})}
            ).fit(rows)
    with pytest.raises(ValueError, match="names 'wurd'|names .'wurd'."):
        PublicTable(SCHEMA, indicators=["wurd"]).fit(ROWS)
    with pytest.raises(ValueError, match="call fit first"):
        PublicTable((0, 1)).largest_norm()


def test_a_template_knows_names_only(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text('age;"the ward"\n999;"secret"\n')
    text = PublicTable.template(path, delimiter=";")
    assert '"age": ...' in text and '"the ward": ...' in text and "secret" not in text
    names = {}
    exec(text, names)  # it is Python
    assert list(names["schema"]) == ["age", "the ward"]
    assert PublicTable.template(ROWS) == PublicTable.template(list(SCHEMA))


def _patients(rng, n=600):
    age = rng.uniform(18, 98, n)
    table = {
        "age": np.where(rng.random(n) < 0.1, np.nan, age),
        "ward": rng.choice(["north", "south", "west"], n).astype(object),
    }
    return table, rng.random(n) < 1 / (1 + np.exp(-0.1 * (age - 58)))


def test_report_and_search_accept_it(rng):
    pandas = pytest.importorskip("pandas", reason="a search divides data frames")
    table, ill = _patients(rng)
    frame, schema = pandas.DataFrame(table), {k: SCHEMA[k] for k in table}
    step = PublicTable(schema)
    linear = PrivateNoisyAdaGrad(classes=[False, True], feature_norm=step.largest_norm())
    model = make_pipeline(step, linear).fit(frame, ill)
    report = privacy_report(model)
    assert report and not report.violations, str(report)
    grid = {"privatenoisyadagrad__alpha": [1e-3, 1e-1]}
    search = PrivateGridSearchCV(clone(model), grid).fit(frame, ill)
    assert privacy_report(search) and search.privacy_spent_.epsilon > 0
    assert len(search.predict(frame)) == len(frame)


def test_a_pipeline_predicts_from_mixed_tables(rng):
    table, ill = _patients(rng, 4000)
    schema = {k: SCHEMA[k] for k in table}
    linear = PrivateNoisyAdaGrad(classes=[False, True], epsilon=4.0, random_state=0)
    model = make_pipeline(PublicTable(schema), linear).fit(table, ill)
    assert model.score(table, ill) > 0.7


def test_masked_cells_are_missing_and_units_are_refused():
    model = PublicTable({"age": (0, 10)})
    masked = np.ma.array([[1.0], [9.0]], mask=[[False], [True]])
    for rows in (masked, {"age": masked[:, 0]}):
        assert_array_equal(model.fit_transform(rows), [[-0.8, 0], [0, 1]])

    class Feet(np.ndarray):
        magnitude = None

    with pytest.raises(ValueError, match="column 'age' carries a unit"):
        model.fit({"age": np.ones(3).view(Feet)})


def test_dates_in_arrays_are_read():
    model = PublicTable({"since": SCHEMA["since"]}, indicators=False)
    days = np.array([["2020-01-01"], ["NaT"]], dtype="datetime64[D]")
    made = model.fit_transform(days)
    assert_allclose(made[:, 0] * 30, [-182.5, -0.5])
