"""Region covariances: records stay records, features keep their range, filters find their waves."""

import importlib
import math

import numpy as np
import pytest

from skriemdp import PrivateFrechetMean, frechet_mean
from skriemdp.datasets import (
    digits_covariances,
    embed_taxonomy,
    make_cloud,
    region_covariance,
)
from skriemdp.geometry import SPD, Sphere

RNG = np.random.default_rng(0)
IMAGES = RNG.random((6, 12, 10))
ALL = ("position", "intensity", "gradient", "curvature", "gabor")


def waves(wave_number, angle, size=32):
    rows, columns = np.mgrid[:size, :size]
    return 0.5 + 0.5 * np.cos(wave_number * (rows * np.sin(angle) + columns * np.cos(angle)))


@pytest.mark.parametrize(
    "images, features, d, settings",
    [
        (IMAGES, ("position", "intensity", "gradient"), 5, {}),
        (IMAGES, "gabor", 40, {}),
        (IMAGES, ("position", "intensity", "gabor"), 43, {}),
        (IMAGES, "gabor", 6, {"n_orientations": 6, "n_scales": 1}),
        (RNG.random((4, 9, 8, 3)), ALL[:4], 9, {"channel_axis": -1}),
        (RNG.random((4, 3, 9, 8)), ALL[:4], 9, {"channel_axis": 1}),
        (RNG.random((3, 5, 9, 8)), ALL[:4], 10, {}),
        (RNG.random((3, 5, 9, 8)), ("gradient", "gabor"), 11, {"n_scales": 1}),
    ],
    ids=["default", "gabor", "43", "six", "colours", "colours first", "clips", "clips, gabor"],
)
def test_shapes_and_the_public_ball(images, features, d, settings):
    for regularization in (1e-3, 1e-1):
        X = region_covariance(images, features, regularization=regularization, **settings)
        assert X.shape == (len(images), d, d)
        r = regularization
        center = math.sqrt(r * (r + d / 4)) * np.eye(d)
        radius = math.sqrt(d) / 2 * math.log1p(d / (4 * r))
        for metric in ("affine-invariant", "log-euclidean"):
            assert SPD(d, metric).dist(center, X).max() <= radius


def test_the_public_ball_is_no_larger_than_it_must_be_in_one_dimension():
    half = np.zeros((1, 4, 4))
    half[:, :, 2:] = 1.0  # variance 1/4, the largest
    X = region_covariance(half, "intensity", regularization=1e-2)
    assert X[0, 0, 0] == pytest.approx(0.25 + 1e-2)


@pytest.mark.parametrize("features", [*ALL, ALL], ids=str)
def test_one_image_changes_one_descriptor(features, monkeypatch):
    X = region_covariance(IMAGES, features)
    changed = IMAGES.copy()
    changed[2] = 0.5
    Y = region_covariance(changed, features)
    rest = np.arange(len(IMAGES)) != 2
    np.testing.assert_array_equal(X[rest], Y[rest])
    if features != "position":
        assert np.abs(X[2] - Y[2]).max() > 1e-4
    # Nor does it matter how many images are worked on at a time.
    monkeypatch.setattr("skriemdp.datasets._sets._BLOCK", 1)
    np.testing.assert_allclose(region_covariance(IMAGES, features), X, rtol=1e-12, atol=1e-15)


def test_covariance_of_known_features():
    X = region_covariance(IMAGES, ("intensity", "gradient", "curvature"), regularization=1e-9)
    image = IMAGES[0]
    second = np.diff(np.pad(image, ((1, 1), (0, 0)), mode="edge"), n=2, axis=0)
    pixels = [image, *np.abs(np.gradient(image)), np.abs(second) / 2]
    expected = np.cov([p.ravel() for p in pixels], bias=True)
    np.testing.assert_allclose(X[0, :4, :4], expected, atol=2e-9)


def magnitudes(image, **settings):
    datasets = importlib.import_module("skriemdp.datasets._sets")
    filters = datasets._gabor_filters(image.shape, *settings.values())
    return np.moveaxis(datasets._gabor_magnitudes(image[None], filters)[0], 0, -1)


def test_gabor_responses_stay_in_the_unit_interval_and_reach_far():
    for image in (RNG.integers(2, size=(20, 24)).astype(float), waves(np.pi / 2, 0.0) > 0.5):
        response = magnitudes(np.asarray(image, dtype=float), o=8, s=5)
        assert response.shape == (*image.shape, 40)
        assert 0.0 <= response.min() and response.max() <= 1.0
    assert response.max() > 0.5
    assert magnitudes(np.full((16, 16), 0.7), o=8, s=5).max() < 1e-12  # mean 0


@pytest.mark.parametrize("scale", [0, 2])
@pytest.mark.parametrize("orientation", [0, 2, 4])
def test_a_wave_is_answered_by_its_own_filter(scale, orientation):
    image = waves(np.pi / 2 * 2 ** (-scale / 2), np.pi * orientation / 8, size=48)
    strength = magnitudes(image, o=8, s=5)[12:-12, 12:-12].mean(axis=(0, 1)).reshape(5, 8)
    assert np.unravel_index(strength.argmax(), strength.shape) == (scale, orientation)


def test_gabor_response_is_the_convolution():
    image = IMAGES[0]
    response = magnitudes(image, o=3, s=2)
    # By hand, at one pixel, for the filter of the second scale and the third orientation.
    rows, columns = np.mgrid[-12:12, -10:10]
    wave, angle = np.pi / 2 / math.sqrt(2), 2 * np.pi / 3
    window = np.exp(-(rows**2 + columns**2) / (2 * (2 * np.pi / wave) ** 2))
    carrier = np.exp(1j * wave * (rows * np.sin(angle) + columns * np.cos(angle)))
    kernel = window * (carrier - (window * carrier).sum() / window.sum())
    kernel /= np.abs(kernel).sum() / 2
    mirrored = np.pad(image, ((12, 12), (10, 10)), mode="symmetric")
    i, j = 7, 3
    patch = mirrored[i + 12 - rows, j + 10 - columns]
    assert response[i, j, 5] == pytest.approx(abs((kernel * patch).sum()), rel=1e-10)


@pytest.mark.parametrize(
    "images, settings, words",
    [
        (IMAGES[0], {}, "shape"),
        (IMAGES[..., None], {}, "at least 2 pixels"),
        (IMAGES, {"channel_axis": 7}, "channel_axis"),
        (255 * IMAGES, {}, r"\[0, 1\]"),
        (np.full((2, 4, 4), np.nan), {}, "NaN"),
        (IMAGES, {"features": ()}, "at least one"),
        (IMAGES, {"features": "hog"}, "features"),
        (IMAGES, {"n_scales": 0}, "n_scales"),
        (IMAGES, {"regularization": 0.0}, "regularization"),
    ],
)
def test_bad_input_is_named(images, settings, words):
    with pytest.raises(ValueError, match=words):
        region_covariance(images, **settings)


def test_a_private_mean_of_gabor_covariances_of_digits():
    from sklearn.datasets import load_digits

    images = load_digits().images / 16.0
    X = region_covariance(images, "gabor", n_orientations=4, n_scales=1, regularization=1e-2)
    r, d = 1e-2, 4
    center = math.sqrt(r * (r + d / 4)) * np.eye(d)
    radius = math.sqrt(d) / 2 * math.log1p(d / (4 * r))
    model = PrivateFrechetMean("spd", center, radius, epsilon=10.0).fit(X)
    target = frechet_mean(X, "spd", center=center)
    assert SPD(d).dist(target, model.mean_) < 0.1 * SPD(d).dist(target, center)


def test_digits_are_what_they_were():
    X, y = digits_covariances()
    assert X.shape == (1797, 5, 5) and y.shape == (1797,)
    assert X[0, 2, 2] == pytest.approx(0.105946, abs=1e-6)


@pytest.mark.parametrize("geometry", [SPD(3), Sphere(4)], ids=str)
def test_clouds_lie_in_their_ball(geometry):
    X = make_cloud(geometry, 200, radius=0.4, offset=0.5, spread=0.3, rng=np.random.default_rng(1))
    assert geometry.dist(geometry.base_point, X).max() <= 0.4 * (1 + 1e-9)


TREE = np.array([(child, (child - 1) // 3) for child in range(1, 40)])
LOOPS = {
    "of two": np.r_[TREE[1:], [[1, 4]]],
    "of three": np.r_[TREE, [[0, 10]]],
    "long": np.r_[TREE, [[0, 39]]],
    "apart": np.r_[TREE, [[40, 41], [41, 40]]],
    "two of them": np.r_[TREE, [[1, 4], [2, 7]]],
    "in a closure": np.r_[TREE, [[4, 0], [0, 4]]],
}


@pytest.mark.parametrize("case", LOOPS)
def test_a_hierarchy_with_a_loop_is_refused(case):
    with pytest.raises(ValueError, match="leave out an edge of each loop"):
        embed_taxonomy(LOOPS[case], n_epochs=1)
    below = LOOPS[case][:, 0] > LOOPS[case][:, 1]  # the advice: no edge of a loop is left
    assert np.isfinite(embed_taxonomy(LOOPS[case][below], n_epochs=1)).all()


def test_a_root_that_is_its_own_parent_and_two_parents_are_no_loop():
    plain = embed_taxonomy(TREE, n_epochs=2)
    np.testing.assert_array_equal(embed_taxonomy(np.r_[TREE, [[0, 0]]], n_epochs=2), plain)
    assert len(embed_taxonomy(np.r_[TREE, [[4, 2]], [[4, 0]]], n_epochs=1)) == 40
    with pytest.raises(ValueError, match="join different nodes"):
        embed_taxonomy(np.array([[0, 0]]))
