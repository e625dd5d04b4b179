"""Every door for records reads every container alike, or refuses it with a cure that works."""

import datetime
import functools
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.transform import Rotation

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateGridSearchCV,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    PrivateTangentPCA,
    PublicTable,
    frechet_mean,
)
from skriemdp._containers import plain
from skriemdp._quiet import read_numbers
from skriemdp.datasets import from_frame
from skriemdp.geometry import GeodesicBall, Hyperboloid, from_compositions, from_lat_lon
from skriemdp.preprocessing import Recenter

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
# Multiples of 1/8, which every container holds exactly.
X = np.round(8.0 * RNG.normal(size=(120, 2)).clip(-3, 3)) / 8.0
Y = (X[:, 0] > 0).astype(int)
PLACE = {"center": [0.0, 0.0], "radius": 4.0}
SEED = {"random_state": 0}


def frame(values):
    return pd.DataFrame(values, columns=["a", "b"]) if values.ndim > 1 else pd.Series(values)


def missing(values, entry=np.nan):
    values = values.astype(object if entry is not np.nan else float)
    values.reshape(-1)[1] = entry
    return values


def masked(values, at):
    mask = np.zeros(values.shape, dtype=bool)
    mask.reshape(-1)[at] = True
    return np.ma.masked_array(np.where(mask, 1e6, values), mask)


def days(values, unit="D"):
    return np.datetime64("2024-01-01", unit) + (8 * values).astype(int).astype(f"m8[{unit}]")


class Quantity:
    """Numbers with a unit, as pint has them."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def to(self, unit):
        return self

    @property
    def magnitude(self):
        return self.values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)

    def __len__(self):
        return len(self.values)


class Measured(np.ndarray):
    """Numbers with a unit, as astropy has them."""

    def to_value(self, unit):
        return np.asarray(self)


MISSING, DATES, UNITS, NUMBERS = "missing or masked entry", "dates or time spans", "unit", "text"
# name -> (container, part of the refusal, or None where it is read)
CONTAINERS = {
    "nothing masked": (lambda v: np.ma.masked_array(v, False), None),
    "list": (lambda v: v.tolist(), None),
    "tuple": (lambda v: tuple(v.tolist()), None),
    "object": (lambda v: v.astype(object), None),
    "decimals": (lambda v: np.vectorize(Decimal, otypes=[object])(v), None),
    "numbers as text": (lambda v: v.astype(str).astype(object), None),
    "single precision": (lambda v: v.astype(np.float32), None),
    "by columns": (np.asfortranarray, None),
    "frame": (frame, None),
    "nullable": (lambda v: frame(v).astype("Float64"), None),
    "masked": (lambda v: masked(v, 1), MISSING),
    "masked single precision": (lambda v: masked(v.astype(np.float32), 1), MISSING),
    "masked integers": (lambda v: masked((8 * v).astype(int), 1), MISSING),
    "masked rows": (lambda v: [masked(np.atleast_1d(row), [0]) for row in v], MISSING),
    "masked objects": (lambda v: masked(v, 1).astype(object), MISSING),
    "NaN": (missing, MISSING),
    "None": (lambda v: missing(v, None), MISSING),
    "NA": (lambda v: missing(v, pd.NA), MISSING),
    "nullable with NA": (lambda v: frame(missing(v)).astype("Float64"), MISSING),
    "nullable integers with NA": (lambda v: frame(missing(np.round(v))).astype("Int64"), MISSING),
    "nullable and objects with NA": (lambda v: frame(missing(v, pd.NA)), MISSING),
    "infinite": (lambda v: missing(v) * 0 + np.where(v > 0, np.inf, v), MISSING),
    "days": (days, DATES),
    "nanoseconds": (lambda v: days(v, "ns"), DATES),
    "missing date": (lambda v: np.where(v == v.flat[1], np.datetime64("NaT"), days(v)), DATES),
    "time spans": (lambda v: (8 * v).astype(int).astype("m8[s]"), DATES),
    "dates in objects": (lambda v: days(v).astype(object), DATES),
    "NumPy's dates in objects": (lambda v: missing(v, np.datetime64("2024-01-01")), DATES),
    "a date of Python": (lambda v: missing(v, datetime.date(2024, 1, 1)), DATES),
    "a time span among numbers": (lambda v: missing(v, np.timedelta64(5, "s")), DATES),
    "list of dates": (lambda v: days(v).tolist(), DATES),
    "frame of dates": (lambda v: frame(days(v, "us")), DATES),
    "frame of dates with a zone": (
        lambda v: frame(days(v, "us")).apply(lambda c: pd.to_datetime(c, utc=True)),
        DATES,
    ),
    "frame with NaT": (lambda v: frame(days(v, "us")).mask(v > 1), DATES),
    "quantity": (Quantity, UNITS),
    "measured": (lambda v: v.view(Measured), UNITS),
    "text": (lambda v: missing(v, "secret"), NUMBERS),
    "complex": (lambda v: v + 1j, "complex"),
    "complex objects": (lambda v: missing(v, 1 + 2j), "complex"),
}
# Where a missing number means that nobody rated.
NAN_IS_READ = {"fit a recommender", "ratings of a table"}


def fitted():
    return PrivateFrechetMean(**PLACE, **SEED).fit(X)


def classes():
    return PrivateMinimumDistanceToMean(classes=[0, 1], **PLACE, **SEED)


def adagrad(**more):
    return PrivateNoisyAdaGrad(feature_norm=4.0, **SEED, **more)


COLUMN, POINTS = X[:, 0], np.stack([np.sqrt(1 + (X**2).sum(1)), *X.T], axis=1)
# What takes records, or public numbers, made by `c`, and gives numbers that depend on them.
DOORS = {
    "fit a mean": lambda c: PrivateFrechetMean(**PLACE, **SEED).fit(c(X)).mean_,
    "transform": lambda c: fitted().transform(c(X)),
    "a mean of no privacy": lambda c: frechet_mean(c(X)),
    "fit classes": lambda c: classes().fit(c(X), Y).means_,
    "predict classes": lambda c: classes().fit(X, Y).predict(c(X)),
    "fit a linear model": lambda c: adagrad(classes=[0, 1]).fit(c(X), Y).coef_,
    "ask a linear model": lambda c: adagrad(classes=[0, 1]).fit(X, Y).decision_function(c(X)),
    "answers of a line": lambda c: adagrad(loss="squared_error").fit(X, c(COLUMN)).coef_,
    "weights of a score": lambda c: classes().fit(X, Y).score(X, Y, c(np.abs(COLUMN) + 1)),
    "fit components": lambda c: (
        PrivatePrincipalEigenvector(1, row_norm=4.0, **SEED).fit(c(X)).components_
    ),
    "fit tangent components": lambda c: PrivateTangentPCA(1, **PLACE, **SEED).fit(c(X)).mean_,
    "fit a cost": lambda c: PrivateRiemannianERM(n_steps=3, **SEED).fit(c(X)).point_,
    "features of a curve": lambda c: PrivateGeodesicRegressor(**SEED).fit(c(X), X).coef_,
    "answers of a curve": lambda c: PrivateGeodesicRegressor(**SEED).fit(X, c(X)).coef_,
    "features of a tree": lambda c: (
        PrivateHyperbolicRegressor(manifold="hyperboloid", **SEED).fit(c(X), POINTS).predict(X)
    ),
    "fit a recommender": lambda c: PrivateMatrixCompletion(bounds=(-4, 4), **SEED).fit(c(X)).level_,
    "ratings of a table": lambda c: from_frame(np.arange(120), Y, c(COLUMN), catalogue=[0, 1])[
        0
    ].toarray(),
    "a search": lambda c: (
        PrivateGridSearchCV(
            PrivateNoisyAdaGrad(classes=[0, 1], feature_norm=4.0), {"alpha": [0.1, 1.0]}, **SEED
        )
        .fit(c(X), Y)
        .best_index_
    ),
    "recentre": lambda c: Recenter("euclidean").fit_transform(c(X)),
    "latitudes": lambda c: from_lat_lon(c(X), X),
    "longitudes": lambda c: from_lat_lon(X, c(X)),
    "compositions": lambda c: from_compositions(c(np.abs(X) + 1)),
    "a public centre": lambda c: (
        PrivateFrechetMean(center=c(X[0]), radius=4.0, **SEED).fit(X).mean_
    ),
}
ONE_AXIS = {"answers of a line", "weights of a score", "ratings of a table", "a public centre"}


def outcome(call):
    """What a call gives, what it says, and what it charged."""
    with PrivacyAccountant() as budget:
        try:
            return np.asarray(call()), "", len(budget.history)
        except (ValueError, TypeError) as error:
            return None, str(error), len(budget.history)


@functools.cache
def of_an_array(door):
    found, said, _ = outcome(lambda: DOORS[door](lambda values: values.copy()))
    assert not said
    return found


@pytest.mark.mostly_slow(2)
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("door", DOORS)
def test_a_door_reads_what_is_meant_or_refuses(door, container):
    make, refusal = CONTAINERS[container]
    if container == "masked rows" and door in ONE_AXIS:
        pytest.skip("rows of one number are another shape")
    expected = of_an_array(door)
    found, said, charged = outcome(lambda: DOORS[door](make))
    if refusal is None or (refusal is MISSING and door in NAN_IS_READ and container != "infinite"):
        assert not said
        if refusal is None and container != "single precision" and door != "a search":
            assert np.array_equal(found, expected)
        return
    assert found is None and refusal in said, said
    assert not charged or door.startswith(("transform", "predict", "ask", "weights"))
    assert "secret" not in said and not re.search(r"1e6|1000000|1e\+06", said)


# What messages name as cures, as Python that is run on the container that was refused.
CURES = {
    "dates": (
        lambda: days(X),
        "(X - numpy.datetime64('2024-01-01')) / numpy.timedelta64(1, 'D')",
    ),
    "frame of dates": (
        lambda: frame(days(X, "us")),
        "(X - numpy.datetime64('2024-01-01')) / numpy.timedelta64(1, 'D')",
    ),
    "complex": (lambda: X + 1j, "numpy.concatenate([X.real, X.imag], axis=-1)"),
    "quantity": (lambda: Quantity(X), "X.to('m').magnitude"),
    "measured": (lambda: X.view(Measured), "X.to_value('m')"),
    "structured": (
        lambda: np.rec.fromarrays(X.T, names="a,b"),
        "numpy.lib.recfunctions.structured_to_unstructured(X)",
    ),
    "a column of arrays": (lambda: frame(pd.Series(list(X)).to_numpy()), "numpy.stack"),
}


TURNS = Rotation.from_rotvec(0.2 * RNG.normal(size=(120, 3)))


@pytest.mark.parametrize(
    ("make", "cure"),
    [
        (lambda: TURNS, "X.as_matrix()"),
        (lambda: list(TURNS), "numpy.stack([x.as_matrix() for x in X])"),
        (lambda: tuple(TURNS), "numpy.stack([x.as_matrix() for x in X])"),
        (lambda: np.array(list(TURNS), dtype=object), "numpy.stack([x.as_matrix() for x in X])"),
        (lambda: pd.Series(list(TURNS)), "numpy.stack([x.as_matrix() for x in X])"),
    ],
)
def test_objects_that_are_rotations_have_matrices_and_no_unit(make, cure):
    mean = PrivateFrechetMean("rotations", center=np.eye(3), radius=1.0, **SEED)
    found, said, charged = outcome(lambda: mean.fit(make()).mean_)
    assert found is None and cure in said and "unit" not in said and not charged
    cured = eval(cure, {"numpy": np, "X": make()})
    assert mean.fit(cured).mean_.shape == (3, 3)


def test_a_column_with_a_unit_is_refused():
    table = {"height": Quantity(np.linspace(1.5, 2.0, 8))}
    with pytest.raises(ValueError, match="column 'height' carries a unit of measurement"):
        PublicTable({"height": {"range": (1.0, 2.5)}}).fit_transform(table)


@pytest.mark.parametrize("case", CURES)
def test_a_cure_is_code_that_cures(case):
    import numpy.lib.recfunctions  # noqa: F401  # as whoever follows the advice does

    make, cure = CURES[case]
    _, said, charged = outcome(lambda: PrivateFrechetMean().fit(make()))
    assert cure in said and not charged
    code = cure if "(" in cure else f"{cure}(X)"
    cured = eval(code, {"numpy": np, "X": make()})
    found, said, charged = outcome(lambda: PrivateFrechetMean().fit(cured).mean_)
    assert charged == 1 and np.isfinite(found).all()


def test_labels_that_are_dates_are_told_to_become_text():
    y = np.where(Y > 0, np.datetime64("2024-01-01"), np.datetime64("2024-01-02"))
    _, said, charged = outcome(lambda: classes().fit(X, y))
    assert "y.astype(str)" in said and not charged
    listed = ["2024-01-01", "2024-01-02"]
    model = PrivateMinimumDistanceToMean(classes=listed, **PLACE).fit(X, y.astype(str))
    assert model.classes_.tolist() == listed and set(model.predict(X)) <= set(listed)


@pytest.mark.parametrize(
    "y",
    [
        np.ma.masked_array(Y, Y * X[:, 1] > 1),
        pd.Series(Y > 0).astype("boolean").mask(X[:, 1] > 1),
        pd.Series(Y).astype("Int64").mask(X[:, 1] > 1),
        pd.Series(np.where(Y > 0, "a", "b")).mask(X[:, 1] > 1),
        np.where(X[:, 1] > 1, None, Y),
        np.where(X[:, 1] > 1, None, np.where(Y > 0, "a", "b")),
    ],
    ids=["masked", "boolean", "Int64", "text", "None", "None and text"],
)
def test_a_missing_label_is_a_missing_value(y):
    listed = ["a", "b"] if {type(label) for label in y} & {str} else [0, 1]
    for model in (PrivateNoisyAdaGrad(classes=listed), classes().set_params(classes=listed)):
        _, said, charged = outcome(lambda model=model: model.fit(X, y))
        assert ("missing" in said or "NaN" in said) and not charged


@pytest.mark.parametrize("container", ["masked", "masked integers", "missing date", "quantity"])
def test_truth_and_weights_of_scores_and_geometries_are_doors(container):
    make, refusal = CONTAINERS[container]
    model, line = classes().fit(X, Y), adagrad(classes=[0, 1]).fit(X, Y)
    for score in (model.score, line.score):
        _, said, _ = outcome(lambda score=score: score(X, make(Y.astype(float))))
        assert refusal in said
    if "masked" in container:
        plane, pole = Hyperboloid(1), np.array([1.0, 0.0])
        for call in (GeodesicBall(plane, pole, 1.0).project, lambda rows: plane.log(pole, rows)):
            _, said, _ = outcome(lambda call=call: call(make(POINTS[:, :2])))
            assert "filled" in said


def test_a_mask_in_chunks_and_dates_in_chunks_are_refused():
    dask = pytest.importorskip("dask.array")
    model = PrivateRiemannianERM(n_steps=3)
    for make, refusal in (
        (lambda: dask.from_array(masked(X, 1), chunks=(60, 2)), "dask.array.ma.filled(X, 0.0)"),
        (lambda: dask.from_array(days(X), chunks=(60, 2)), DATES),
    ):
        _, said, charged = outcome(lambda make=make: model.fit(make()))
        assert refusal in said and not charged
    filled = dask.ma.filled(dask.from_array(masked(X, 1), chunks=(60, 2)), 0.0)
    assert np.isfinite(model.fit(filled).point_).all()


@pytest.mark.parametrize("package", ["pyarrow", "polars"])
def test_tables_of_others_are_read_alike(package):
    module = pytest.importorskip(package)
    table = module.table if package == "pyarrow" else module.DataFrame
    expected = PrivateFrechetMean(**PLACE, **SEED).fit(X).mean_
    columns = {"a": X[:, 0].tolist(), "b": X[:, 1].tolist()}
    assert np.array_equal(PrivateFrechetMean(**PLACE, **SEED).fit(table(columns)).mean_, expected)
    when = days(X[:, 0], "us").tolist()
    for more, refusal in (
        ({"b": [None, *columns["b"][1:]]}, MISSING),
        ({"b": when}, DATES),
        ({"a": when, "b": [None, *when[1:]]}, DATES),
        ({"b": [day.date() for day in when]}, DATES),
        ({"b": ["secret"] * len(X)}, NUMBERS),
    ):
        _, said, charged = outcome(
            lambda more=more: PrivateFrechetMean().fit(table(columns | more))
        )
        assert refusal in said and "secret" not in said and not charged


def test_the_reader_keeps_what_is_readable():
    for value in (X, sparse.csr_array(X), frame(X), None, "text", 3.0, [[1.0], [2.0, 3.0]]):
        assert plain(value, "X") is value


@pytest.mark.parametrize("last", ["1.0", 1.0, True, 2**70, np.float64(0.3), np.str_("2")])
@pytest.mark.parametrize("first", [np.float32(0.1), np.float16(0.1), 2**53 + 1, "0.1", True])
def test_a_list_is_read_without_a_look_at_the_types_of_other_rows(first, last):
    """NumPy would write a short float beside a text with few digits: one record, all others."""
    alone = read_numbers([[first, 1]], "X", ensure_all_finite=False)
    for place, rows in (
        (0, [[first, 1], [last, 2]]),
        (0, ([first, 1], [1, last])),
        (1, [[last, 0], (first, 1)]),
    ):
        read = read_numbers(rows, "X", ensure_all_finite=False)
        assert np.array_equal(read[place], alone[0])
