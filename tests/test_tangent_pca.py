"""Tangent components: against non-private ones, layouts, refusals."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from skriemdp import PrivateTangentPCA, frechet_mean
from skriemdp.geometry import AffineInvariantSPD, Euclidean, Sphere

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def spread_out(geometry, n, seed=0, decay=0.5):
    """Records with variances that fall by `decay`."""
    rng = np.random.default_rng(seed)
    seen = 0.3 * rng.normal(size=(n, geometry.dim)) * decay ** np.arange(geometry.dim)
    return np.asarray(geometry.exp_coordinates(geometry.base_point, seen + 0.1))


@pytest.mark.parametrize("geometry", [Euclidean(4), Sphere(3), AffineInvariantSPD(2)], ids=str)
@pytest.mark.parametrize("settings", [{}, {"radius": 1.2}], ids=str)
def test_without_noise_it_is_pca_of_logarithms(geometry, settings):
    X = spread_out(geometry, 1500)
    if settings:
        settings = settings | {"center": geometry.base_point}
    fit = PrivateTangentPCA(2, geometry, epsilon=4e5, random_state=0, **settings).fit(X)
    mean = frechet_mean(X, geometry)
    assert float(geometry.dist(mean, fit.mean_)) < 2e-3
    plain = PCA().fit(np.asarray(geometry.log_coordinates(fit.mean_, X)))
    np.testing.assert_allclose(fit.explained_variance_, plain.explained_variance_[:2], rtol=0.03)
    np.testing.assert_allclose(fit.spectrum_, plain.explained_variance_, rtol=0.05, atol=1e-4)
    overlaps = np.abs(np.sum(fit.components_ * plain.components_[:2], axis=1))
    assert (overlaps > 0.999).all()
    total = plain.explained_variance_.sum()
    np.testing.assert_allclose(
        fit.explained_variance_ratio_, plain.explained_variance_[:2] / total, rtol=0.03
    )


def test_private_components_capture_most_of_the_variance():
    geometry = Euclidean(6)
    values = np.arange(1.0, 7.0) ** -1.5
    shares = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = 0.3 * rng.normal(size=(500, 6)) * np.sqrt(values / values.sum())
        fit = PrivateTangentPCA(
            2, geometry, center=geometry.base_point, radius=1.0, random_state=seed
        ).fit(X)
        shares.append(np.sum(fit.components_**2 @ values) / values[:2].sum())
    assert np.mean(shares) > 0.85  # random planes capture .43


@pytest.mark.parametrize("whiten", [False, True])
def test_back_and_forth(whiten):
    geometry = AffineInvariantSPD(3)
    X = spread_out(geometry, 800)
    fit = PrivateTangentPCA(
        3,
        geometry,
        center=geometry.base_point,
        radius=2.0,
        whiten=whiten,
        epsilon=1e5,
        random_state=0,
    ).fit(X)
    scores = fit.transform(X)
    assert scores.shape == (800, 3)
    back = fit.inverse_transform(scores)
    assert back.shape == X.shape
    np.testing.assert_allclose(fit.transform(back), scores, atol=1e-7)
    if whiten:
        np.testing.assert_allclose(scores.std(axis=0), 1.0, atol=0.05)
    assert list(fit.get_feature_names_out()) == [f"privatetangentpca{k}" for k in range(3)]
    np.testing.assert_allclose(fit.components_ @ fit.components_.T, np.eye(3), atol=1e-12)
    assert (np.diff(fit.spectrum_) <= 0.0).all() and len(fit.spectrum_) == 6


def test_flat_rows_come_back_flat():
    X = spread_out(AffineInvariantSPD(2), 300)
    fit = PrivateTangentPCA(1, "spd", center=np.eye(2), radius=1.5, random_state=0).fit(
        X.reshape(300, 4)
    )
    assert fit.inverse_transform(fit.transform(X.reshape(300, 4))).shape == (300, 4)


def test_components_of_people():
    rng = np.random.default_rng(0)
    person = rng.integers(300, size=2000)
    X = (rng.normal(size=(300, 2)) * [0.4, 0.05])[person]
    X = X + rng.normal(size=(2000, 2)) * [0.02, 0.3]  # rows spread across, people along
    fit = PrivateTangentPCA(1, epsilon=1e5, random_state=0).fit(X, groups=person)
    assert abs(fit.components_[0, 0]) > 0.95
    assert fit.privacy_spent_.unit == "group"
    assert fit.privacy_spent_.public["arithmetic"] == "exact integers"


@pytest.mark.parametrize("method", ["sample", "transform", "inverse_transform"])
def test_nothing_comes_out_before_a_fit(method):
    with pytest.raises(NotFittedError):
        getattr(PrivateTangentPCA(1), method)(np.ones((1, 1)) if "transform" in method else 1)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"n_components": 4}, "at most 3"),
        ({"n_components": 0}, "n_components"),
        ({"delta": 0.0}, "delta > 0"),
        ({"whiten": "yes"}, "whiten"),
        ({"radius": -1.0}, "radius"),
    ],
    ids=str,
)
def test_refused_uncharged(settings, words, recording_accountant):
    fit = PrivateTangentPCA(accountant=recording_accountant).set_params(**settings)
    with pytest.raises(ValueError, match=words):
        fit.fit(spread_out(Euclidean(3), 50))
    assert recording_accountant.spends == []


def test_ratios_count_no_noise_at_a_small_epsilon():
    # Median of .85 to .94 of the truth, .55 to .6 where noise is counted.
    scale = 0.8 ** np.arange(30.0)
    truth = (scale**2)[:2].sum() / (scale**2).sum()
    found = [
        PrivateTangentPCA(2, epsilon=0.3, random_state=seed)
        .fit(np.random.default_rng(seed).normal(size=(2000, 30)) * scale)
        .explained_variance_ratio_.sum()
        for seed in range(8)
    ]
    assert 0.75 < np.median(found) / truth < 1.1
