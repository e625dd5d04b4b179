"""Scales of columns: found where they are unlike, refused where they are alike."""

import math

import numpy as np
import pytest
from scipy import sparse

from skriemdp import PrivateNoisyAdaGrad
from skriemdp._groups import Groups
from skriemdp._location_scale import columns
from skriemdp._location_scale.columns import ColumnRule, ColumnSearch
from skriemdp._location_scale.row_releases import COUNT_SHARE, RowBallEstimate, RowBounds
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._mechanisms.units import Units
from skriemdp._random import NoiseStreams

UNITS = np.array([1.0, 1e-2, 1e3, 30.0, 1.0, 1e-2, 1e3, 30.0])
N, D = 4000, len(UNITS)


def search(X, mu=2.0, seed=0, groups=None, center=None, norm=None, **more):
    n = len(X) if groups is None else groups.count
    center = np.zeros(X.shape[1]) if center is None else center
    norm = float(np.median(np.linalg.norm(X - center, axis=1))) if norm is None else norm
    budget = GaussianBudget(mu)
    plan = ColumnSearch(n, X.shape[1], mu, ColumnRule(4.0), center=center, norm=norm, **more)
    found = plan.release(Units((X,), groups), budget, NoiseStreams(seed))
    return found, 1.0 - budget.remaining


def normal(seed=0, units=UNITS, n=N):
    return units * np.random.default_rng(seed).normal(size=(n, len(units)))


def test_unlike_columns_get_their_own_places_and_scales():
    shift = 5.0 * UNITS * np.resize([1.0, -1.0], D)
    found, spent = search(normal() + shift)
    assert found.unlike
    # Half the distance of the fifths of a normal law is .84 of its standard deviation.
    assert (0.3 < found.scale / UNITS).all() and (found.scale / UNITS < 2.5).all()
    np.testing.assert_allclose((found.center - shift) / UNITS, 0.0, atol=1.5)
    np.testing.assert_allclose(found.limit, 4.0 * found.scale)
    assert spent <= ColumnRule(4.0).total + 1e-12


def test_alike_columns_keep_one_scale_and_are_clipped():
    found, _ = search(normal(units=np.ones(D)))
    assert not found.unlike
    assert (found.scale == 1.0).all()
    assert (2.0 < found.limit).all() and (found.limit < 8.0).all()


def test_constant_and_rare_columns_are_atoms():
    X = normal()
    X[:, 0], X[:, 3] = 7.0, np.random.default_rng(1).random(N) < 0.05
    found, spent = search(X)
    place = RowBallEstimate(found.center, 1.0, 1.0, found)
    rows = place.offsets(X)
    assert np.ptp(rows[:, 0]) == 0.0
    one, zero = rows[X[:, 3] == 1.0, 3], rows[X[:, 3] == 0.0, 3]
    assert np.ptp(one) == np.ptp(zero) == 0.0
    assert one[0] == 2.0 and abs(zero[0]) <= 0.5
    assert spent == pytest.approx(ColumnRule(4.0).total)


def test_without_atoms_a_part_of_the_budget_is_left():
    _, spent = search(normal(units=np.array([1.0, 2.0])), mu=20.0)
    assert spent == pytest.approx((1.0 - columns._INSIDE) * columns._SHARE)


def test_one_wide_column_does_not_make_others_unlike_unless_it_is_certain():
    ones, are_unlike = np.ones(10), columns._are_unlike
    assert not are_unlike(np.append(ones, 50.0), False) and are_unlike(np.append(ones, 50.0), True)
    for certain in (True, False):
        assert not are_unlike(np.array([3.0]), certain) and not are_unlike(np.array([]), certain)
        assert are_unlike(np.resize([1.0, 1e2, 1e4], 10), certain)
        assert are_unlike(np.array([1.0, 1e4]), certain)
        assert not are_unlike(np.array([1.0, 2.0]), certain)
        assert not are_unlike(np.linspace(1.0, 6.0, 20), certain)


def test_one_narrow_column_of_ten_is_enough_where_it_is_certain():
    assert columns._are_unlike(np.append(np.ones(9), 1e-3), True)
    assert columns._are_unlike(np.append(np.ones(7), 10.0), True)
    assert not columns._are_unlike(np.append(np.ones(9), 0.3), True)


def test_half_of_the_columns_in_another_unit_are_seen_among_many_records():
    units = np.resize([1.0, 100.0], D)
    found, _ = search(normal(units=units), mu=20.0)
    assert found.unlike and np.abs(np.log(found.scale / units)).max() < 0.3


@pytest.mark.parametrize("stored", [sparse.csr_array, sparse.csr_matrix])
def test_a_fixed_center_keeps_zeros(stored):
    X = normal() * (np.random.default_rng(1).random((N, D)) < 0.6)
    found, _ = search(X, fixed=True, norm=3e3)
    assert found.unlike and not found.center.any()
    place = RowBallEstimate(found.center, 1.0, 1.0, found)
    rows = place.offsets(stored(X))
    assert sparse.issparse(rows) and rows.nnz == np.count_nonzero(X)
    np.testing.assert_array_equal(rows.toarray(), place.offsets(X))
    other, _ = search(X, fixed=True, norm=3e3)
    np.testing.assert_array_equal(other.scale, found.scale)


def test_sparse_and_dense_tables_answer_alike():
    X = normal() * (np.random.default_rng(1).random((N, D)) < 0.6)
    dense, _ = search(X, fixed=True, norm=3e3)
    budget = GaussianBudget(2.0)
    plan = ColumnSearch(N, D, 2.0, ColumnRule(4.0), fixed=True, center=np.zeros(D), norm=3e3)
    stored = plan.release(Units((sparse.csr_array(X),)), budget, NoiseStreams(0))
    for name in ("center", "limit", "scale"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(dense, name))


@pytest.mark.parametrize("copies", [1, 3])
def test_people_of_equal_rows_answer_as_their_rows_would(copies):
    X = normal(n=500)
    rows = np.repeat(X, copies, axis=0)
    groups = Groups.from_ids(np.repeat(np.arange(len(X)), copies))
    alone, _ = search(X, norm=3e3)
    together, _ = search(rows, groups=groups, norm=3e3)
    for name in ("center", "limit", "scale"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(together, name))


def test_what_is_asked_is_a_rule_of_public_numbers():
    assert not ColumnSearch.is_seen(10**9, 1, 1.0)
    assert ColumnSearch.is_seen(640, 100, 1.0) and not ColumnSearch.is_seen(639, 100, 1.0)
    asked = {"column_rule": ColumnRule(4.0)}
    assert RowBounds(5000, 4, 1.0, **asked).columns is not None
    assert RowBounds(5000, 4, 1.0).columns is None
    assert RowBounds(5000, 4, 1.0, norm=1.0, **asked).columns is None
    assert RowBounds(5000, 4, 1.0, np.zeros(4), **asked).columns.fixed


@pytest.mark.parametrize("t", [1.0, 30.0, 91.0, 100.0, 300.0, 1e4, 1e5])
@pytest.mark.parametrize("d", [1, 2, 64])
def test_the_longest_path_leaves_enough_for_the_model(t, d):
    for center in (None, np.zeros(d)):
        share = RowBounds(1000, d, t / 1000, center, column_rule=ColumnRule(4.0)).share
        assert share + COUNT_SHARE <= (0.57 if t >= 64.0 * math.sqrt(2.0) else 0.67)


def test_a_place_far_from_zero_divides_no_less_than_floats_can_tell():
    X = np.full((N, 2), 1e12)
    found, _ = search(X, center=np.full(2, 1e12), norm=1e-6)
    assert (found.scale > 0.0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_one_record(bad):
    X = normal()
    one, _ = search(X, norm=3e3)
    X[0] = bad
    two, _ = search(X, norm=3e3)
    np.testing.assert_allclose(two.scale, one.scale, rtol=0.6)


# -- linear models ------------------------------------------------------------------------------


def table(seed, n=3000, shift=0.0, units=UNITS):
    rng = np.random.default_rng([11, seed])
    Z = rng.normal(size=(n, len(units)))
    y = (Z.sum(axis=1) + rng.logistic(size=n) > 0).astype(int)
    return shift + units * Z, y


def fitted(X, y, **more):
    settings = {"classes": [0, 1], "epsilon": 3.0, "random_state": 0} | more
    with pytest.warns(match="random_state"):
        return PrivateNoisyAdaGrad(**settings).fit(X, y)


def test_a_linear_classifier_serves_unlike_columns():
    X, y = table(0)
    new, labels = table(1)
    model = fitted(X, y)
    assert model.score(new, labels) > 0.8
    assert fitted(X, y, feature_norm=3e3).score(new, labels) < 0.76
    np.testing.assert_allclose(model.feature_scale_ / UNITS, 0.84, rtol=0.5)
    linear = new @ model.coef_[0] + model.intercept_[0]
    inside = (np.abs(new - model.center_) <= model.feature_limit_).all(axis=1)
    assert inside.mean() > 0.9
    np.testing.assert_allclose(model.decision_function(new)[inside], linear[inside], atol=1e-9)


def test_a_linear_regressor_serves_unlike_columns():
    X, _ = table(0, n=6000)
    y = (X / UNITS).sum(axis=1)
    settings = {"loss": "squared_error", "classes": None, "target_range": (-12.0, 12.0)}
    model = fitted(X, y, **settings)
    assert model.score(X, y) > 0.9
    # What is cut off costs targets more than labels.
    assert np.median(model.feature_limit_ / model.feature_scale_) == pytest.approx(20.0)
    assert fitted(X, y, feature_norm=3e3, **settings).score(X, y) < 0.8


def test_a_table_far_from_zero_keeps_its_digits():
    X, y = table(0, shift=1e9)
    model = fitted(X, y)
    scores = model.decision_function(X)
    assert model.score(X, y) > 0.7
    other = X.copy()
    other[:, 1] += 1e-4 * UNITS[1]
    assert np.abs(model.decision_function(other) - scores).max() < 0.1


def test_alike_columns_are_not_scaled():
    X, y = table(0, units=np.ones(D))
    model = fitted(X, y)
    assert (model.feature_scale_ == 1.0).all() and np.isfinite(model.feature_limit_).all()


@pytest.mark.parametrize(
    "more",
    [
        {"feature_norm": 5.0},
        {"subspace": np.eye(D)[:, :3]},
        {"public_X": np.random.default_rng(0).normal(size=(40, D))},
        {"epsilon": 0.01},
    ],
    ids=lambda more: next(iter(more)),
)
def test_columns_are_not_asked(more):
    X, y = table(0)
    model = fitted(X, y, **more)
    assert (model.feature_scale_ == 1.0).all() and np.isinf(model.feature_limit_).all()


def test_the_ridge_of_a_weight_is_that_of_its_coefficient():
    """In raw units: a large `alpha` takes coefficients of small units away last of all."""
    X, y = table(0)
    free, bound = fitted(X, y), fitted(X, y, alpha=1e-2)
    kept = np.abs(bound.coef_[0] / free.coef_[0])
    assert kept[UNITS == 1e-2].max() < 0.1 and kept[UNITS == 1e3].min() > 0.1


def test_nothing_is_spent_where_integers_are_too_coarse():
    with pytest.raises(ValueError, match="fewer integers than rounding needs"):
        ColumnSearch(10**9, 10**6, 2e-7, ColumnRule(4.0))
