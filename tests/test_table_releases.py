"""Means of tables whose columns come in unlike units."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from skriemdp import PrivateFrechetMean
from skriemdp._location_scale.columns import price
from skriemdp._mean.table_releases import plan_table_mean
from skriemdp.geometry import Euclidean
from skriemdp.privacy._calibration import gaussian_mu

UNITS = np.array([1.0, 1e-2, 1e3, 50.0, 1e6])
MU = gaussian_mu(1.0, 1e-5)


def table(n=4000, seed=0):
    return UNITS * (3.0 + np.random.default_rng(seed).normal(size=(n, 5)))


def errors(model, X, **how):
    return (model.fit(X, **how).mean_ - X.mean(axis=0)) / X.std(axis=0)


@pytest.mark.parametrize("noise", ["auto", "gaussian"])
def test_every_column_has_its_scale(noise):
    """Seeded noise: nothing is left to chance."""
    X = table()
    model = PrivateFrechetMean("euclidean", noise=noise, random_state=0)
    assert np.abs(errors(model, X)).max() < 0.05
    assert np.all(np.abs(np.log(model.scale_ / X.std(axis=0))) < 1.0)
    assert model.noise_scale_.shape == (5,) and np.all(model.noise_scale_ < 0.05 * X.std(axis=0))
    assert model.radius_ < 20.0 and 0.0 <= model.clipped_fraction_ < 0.2


def test_the_noise_has_the_scale_that_is_stated():
    """Seeded noise: nothing is left to chance; 300 ratios are 1 in root mean square."""
    X, ratios = table(1500), []
    for seed in range(60):
        model = PrivateFrechetMean("euclidean", noise="gaussian", shrink=None, random_state=seed)
        ratios.append((model.fit(X).mean_ - X.mean(axis=0)) / model.noise_scale_)
    # Clipped tails add a little.
    assert 0.8 < np.sqrt(np.mean(np.square(ratios))) < 1.35


def test_people_and_their_rows():
    X = np.repeat(table(2000), 3, axis=0)
    model = PrivateFrechetMean("euclidean", random_state=0)
    assert np.abs(errors(model, X, groups=np.repeat(np.arange(2000), 3))).max() < 0.1


def test_columns_that_are_alike_share_a_scale():
    X = np.random.default_rng(1).normal(size=(3000, 4)) + 7.0
    model = PrivateFrechetMean("euclidean", random_state=0).fit(X)
    assert np.array_equal(model.scale_, np.ones(4)) and np.ndim(model.noise_scale_) == 0
    assert np.abs(model.mean_ - X.mean(axis=0)).max() < 0.02


def test_columns_of_one_value_are_named_and_cost_the_others_nothing():
    X = table()
    X[:, 2] = np.where(np.random.default_rng(2).random(len(X)) < 0.02, 1e3, 5.0)
    # Once in some twenty fits the scale of the few other values is found, and nothing to be told.
    model = PrivateFrechetMean("euclidean", random_state=1)
    with pytest.warns(UserWarning, match=r"columns \[2\] hold one value in most rows"):
        off = errors(model, X)
    assert np.abs(np.delete(off, 2)).max() < 0.05 and abs(off[2]) < 0.5


@pytest.mark.parametrize("seed", range(6))
def test_columns_narrower_than_any_grid_are_named(seed):
    X, model = table(), PrivateFrechetMean("euclidean", random_state=seed)
    X[:, 0] *= 1e-9
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        off = np.abs(errors(model, X))
    assert off[1:].max() < 0.1
    assert off[0] < 0.1 or any("hold one value" in str(each.message) for each in told)


def test_few_rows_keep_one_scale():
    dim, n = 5, int(63.0 * np.sqrt(5.0) / MU)
    assert plan_table_mean(Euclidean(dim), n, 1.0, 1e-5, "auto", True) is None
    assert plan_table_mean(Euclidean(1), 10**6, 1.0, 1e-5, "auto", True) is None
    assert plan_table_mean(Euclidean(dim), 2 * n, 1.0, 1e-5, "auto", True) is not None
    model = PrivateFrechetMean("euclidean", random_state=0).fit(table(n))
    assert not hasattr(model, "scale_")


@pytest.mark.parametrize("n", [1500, 4000, 10**5])
@pytest.mark.parametrize("noise", ["auto", "gaussian"])
def test_shares_add_up_to_what_is_charged(n, noise):
    plan = plan_table_mean(Euclidean(3), n, 1.0, 1e-5, noise, True)
    shares = [each.share for each in plan.releases]
    assert sum(shares) == pytest.approx(1.0, abs=1e-12) and min(shares) > 0.0
    assert plan.event.delta(1.0) <= 1e-5


def test_the_price_of_one_norm():
    assert price(np.ones(7)) == 1.0 and price(np.array([])) == 1.0
    assert price(np.array([1.0, 1e3])) == pytest.approx(500.0, rel=1e-2)
