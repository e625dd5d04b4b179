"""Shaped noise of class means: what it may cost and gain, and what bounds a record."""

import numpy as np
import pytest

from skriemdp import PrivateMinimumDistanceToMean
from skriemdp._mean.noise_shape import NoiseShape, read_shape
from skriemdp.federated import FederatedEstimator

SHAPE = np.diag([1.0, 0.04, 0.04])


def second_moments(rng):
    """Spectra from round to one axis, turned at random."""
    size = int(rng.integers(1, 12))
    values = rng.exponential(size=size) ** rng.uniform(0.2, 30.0)
    turn = np.linalg.qr(rng.standard_normal((size, size)))[0]
    return values, turn, (turn * values) @ turn.T


def test_the_three_bounds_hold_for_any_shape_and_any_truth():
    rng = np.random.default_rng(0)
    most_noise = longest = dearest = 0.0
    for _ in range(3000):
        values, turn, moments = second_moments(rng)
        size, shape = len(values), NoiseShape.of(moments)
        np.testing.assert_allclose(shape.root @ shape.inverse, np.eye(size), atol=1e-9)
        most_noise = max(most_noise, np.trace(shape.root @ shape.root) / size, shape.noise**2)
        longest = max(longest, np.linalg.norm(shape.inverse, 2) ** 2)
        # The truth that costs most lies on the axis where the shape expects least.
        worst = np.outer(turn[:, np.argmin(values)], turn[:, np.argmin(values)])
        for truth in (worst, second_moments(rng)[2]):
            if truth.shape == moments.shape:
                behind = np.trace(shape.inverse @ truth @ shape.inverse) / np.trace(truth)
                dearest = max(dearest, behind * np.trace(shape.root @ shape.root) / size)
    assert most_noise <= 1.0 + 1e-9
    assert longest <= 2.0 + 1e-9
    assert 1.3 < dearest <= np.sqrt(2.0) + 1e-9


def test_the_right_shape_gains_and_its_size_does_not_matter():
    moments = np.diag(1.0 / np.arange(1.0, 22.0) ** 2)
    shape = NoiseShape.of(moments)
    behind = np.trace(shape.inverse @ moments @ shape.inverse) / np.trace(moments)
    gain = 21 / (behind * np.trace(shape.root @ shape.root))
    assert 1.8 < gain < 2.0
    np.testing.assert_allclose(NoiseShape.of(1e30 * moments).root, shape.root)
    np.testing.assert_allclose(NoiseShape.of(np.eye(5)).root, np.eye(5), atol=1e-12)


def test_rows_behind_the_shape_are_the_same_in_any_company():
    rng = np.random.default_rng(1)
    shape = NoiseShape.of(second_moments(rng)[2])
    rows = rng.standard_normal((50, len(shape.root)))
    np.testing.assert_array_equal(shape.enter(rows)[[7, 30]], shape.enter(rows[[7, 30]]))


@pytest.mark.parametrize("federated", [False, True])
def test_noise_comes_out_in_the_shape(federated):
    """Standard deviations along the axes, to five of their own standard errors."""
    n, trials = 200, 150
    y, zeros = np.arange(n) % 2, np.zeros((n, 3))
    model = PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1], shape=SHAPE, epsilon=8.0)
    means, sites = [], np.arange(n) // 2 % 2
    for _ in range(trials):
        if federated:
            fitted = FederatedEstimator(model, 1, local="statistic").fit(zeros, y, clients=sites)
            fitted = fitted.estimator_
        else:
            fitted = model.fit(zeros, y)
        means.append(fitted.means_)
    found = np.std(np.concatenate(means), axis=0)
    shape = NoiseShape.of(SHAPE)
    wanted = fitted.noise_scale_ / shape.noise * np.linalg.norm(shape.root, axis=0)
    np.testing.assert_allclose(found, wanted, rtol=0.2)
    assert shape.noise < 1.0
    assert wanted[0] > 1.3 * wanted[1]


def test_what_is_released_is_what_was_shortened_behind_the_shape():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((300, 3)), np.arange(300) % 2
    model = PrivateMinimumDistanceToMean(radius=0.8, classes=[0, 1], shape=SHAPE, epsilon=1e5)
    shape = NoiseShape.of(SHAPE)
    behind = X @ shape.inverse
    behind *= np.minimum(1.0, 0.8 / np.linalg.norm(behind, axis=1, keepdims=True))
    wanted = np.stack([behind[y == k].mean(axis=0) @ shape.root for k in (0, 1)])
    np.testing.assert_allclose(model.fit(X, y).means_, wanted, atol=5e-3)
    round_model = PrivateMinimumDistanceToMean(radius=0.8, classes=[0, 1], epsilon=1e5)
    same = model.set_params(shape=np.ones(3)).fit(X, y)
    np.testing.assert_allclose(same.means_, round_model.fit(X, y).means_, atol=5e-3)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"shape": np.ones(4)}, r"\(3, 3\).*got shape \(4,\)"),
        ({"shape": np.zeros(3)}, "positive trace"),
        ({"shape": [1.0, np.nan, 1.0]}, "finite"),
        ({"shape": [1.0, -0.1, 1.0]}, "positive semidefinite"),
        ({"shape": [[1, 1, 0], [0, 1, 0], [0, 0, 1]]}, "shape.T"),
        ({"shape": "round"}, "shape"),
        ({"shape": np.ones(3), "radius": "private"}, "public center= and radius="),
        ({"shape": np.ones(2), "manifold": "sphere", "radius": 0.5}, "shape=None"),
    ],
    ids=str,
)
def test_bad_shapes_are_refused(settings, words, recording_accountant):
    X, y = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 2
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    known = {"radius": 1.0, "classes": [0, 1], "accountant": recording_accountant}
    with pytest.raises(ValueError, match=words):
        PrivateMinimumDistanceToMean(**known | settings).fit(X, y)
    assert recording_accountant.spends == []


def test_round_noise_is_the_default():
    assert read_shape(None, 3) is None
    assert PrivateMinimumDistanceToMean().shape is None
