"""Synthetic records and pyRiemann's objects of released means: exact to the released numbers."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from skriemdp import (
    PrivateFrechetMean,
    PrivateMinimumDistanceToMean,
    PrivateTangentPCA,
    frechet_mean,
)
from skriemdp._mean.exports import synthetic_points
from skriemdp.datasets import digits_covariances
from skriemdp.geometry import AffineInvariantSPD, Hyperboloid, Sphere

pytestmark = pytest.mark.filterwarnings("ignore:random_state")
DRAWS = 20_000


@pytest.mark.parametrize("geometry", [AffineInvariantSPD(2), Hyperboloid(2), Sphere(2)], ids=str)
def test_moments_of_draws_are_those_given(geometry):
    """Six standard errors: a false alarm in 1e7 runs of another seed."""
    root = np.array([[0.3, 0.0, 0.0], [0.1, 0.2, 0.0], [0.0, 0.05, 0.1]])[: geometry.dim, :3]
    covariance = root[:, : geometry.dim] @ root[:, : geometry.dim].T
    mean = geometry.exp_coordinates(geometry.base_point, np.full(geometry.dim, 0.2))
    draws = synthetic_points(geometry, mean, covariance, DRAWS, 3)
    error = geometry.log_coordinates(mean, frechet_mean(draws, geometry))
    assert (np.abs(error) < 6.0 * np.sqrt(np.diag(covariance) / DRAWS)).all()
    seen = np.asarray(geometry.log_coordinates(mean, draws))
    largest = np.abs(covariance).max()
    np.testing.assert_allclose(
        seen.T @ seen / DRAWS, covariance, atol=6 * largest * DRAWS**-0.5 * 2
    )


def test_each_estimator_draws_from_what_it_released():
    X, y = digits_covariances()
    private = {"epsilon": 3.0, "random_state": 0}
    mean = PrivateFrechetMean("spd", uncertainty=True, **private).fit(X)
    pca = PrivateTangentPCA(2, "spd", **private).fit(X)
    for model, variances in ((mean, mean.tangent_covariance_), (pca, np.diag(pca.spectrum_))):
        draws = model.sample(4000, random_state=1)
        assert draws.shape == (4000, 5, 5)
        spread = np.mean(model.geometry_.dist(model.mean_, draws) ** 2)
        assert spread == pytest.approx(np.trace(variances), rel=0.15)
        np.testing.assert_array_equal(draws, model.sample(4000, random_state=1))
        assert not np.array_equal(draws, model.sample(4000))
    seen = pca.transform(pca.sample(4000, random_state=1))
    np.testing.assert_allclose(seen.var(axis=0), pca.explained_variance_, rtol=0.2)
    flat = PrivateFrechetMean(uncertainty=True, **private).fit(X.reshape(len(X), -1)[:, :3])
    assert flat.sample(2).shape == (2, 3)


def test_class_means_draw_classes_in_their_released_shares():
    X, y = digits_covariances()
    model = PrivateMinimumDistanceToMean(
        "spd", classes=range(11), uncertainty=True, epsilon=3.0, random_state=0
    ).fit(X, y)
    draws, labels = model.sample(5000, random_state=2)
    assert draws.shape == (5000, 5, 5)
    counts = np.where([k is not None for k in model.inference_], model.class_counts_, 0.0)
    shares = np.bincount(labels, minlength=11) / 5000
    np.testing.assert_allclose(shares, counts / counts.sum(), atol=0.03)
    own = draws[labels == 3]
    near = frechet_mean(own, "spd")
    spread = model.tangent_covariances_[3]
    assert model.geometry_.dist(near, model.means_[3]) < 6 * np.sqrt(np.trace(spread) / len(own))


@pytest.mark.parametrize("manifold", ["spd", "spd-log-euclidean"])
def test_pyriemann_goes_on_with_what_was_released(manifold):
    X, y = digits_covariances()
    private = {"epsilon": 3.0, "random_state": 0}
    means = PrivateMinimumDistanceToMean(manifold, classes=range(10), **private).fit(X, y)
    there = means.to_pyriemann()
    np.testing.assert_allclose(there.covmeans_, means.means_, rtol=1e-6)
    if getattr(means, "decision_", "geodesic") == "geodesic":
        assert np.mean(there.predict(X[:300]) == means.predict(X[:300])) > 0.995
    mean = PrivateFrechetMean(manifold, **private).fit(X)
    space = mean.to_pyriemann()
    np.testing.assert_allclose(space.reference_, mean.mean_, rtol=1e-6)
    if manifold == "spd":  # of the other one pyRiemann does not scale vectors by the metric
        ours = np.linalg.norm(mean.transform(X[:20]), axis=1)
        theirs = np.linalg.norm(space.transform(X[:20]), axis=1)
        np.testing.assert_allclose(theirs, ours, rtol=1e-6)


def test_what_was_not_released_cannot_be_drawn_or_handed_on():
    X = np.random.default_rng(0).normal(size=(300, 2))
    y = np.arange(300) % 2
    with pytest.raises(NotFittedError):
        PrivateFrechetMean().sample()
    for settings in ({}, {"uncertainty": True, "statistic": "median"}):
        model = PrivateFrechetMean(**settings, random_state=0).fit(X)
        with pytest.raises(AttributeError, match="uncertainty=True"):
            model.sample(3)
        with pytest.raises(ValueError, match="pyRiemann has no points"):
            model.to_pyriemann()
    means = PrivateMinimumDistanceToMean(classes=[0, 1], random_state=0).fit(X, y)
    with pytest.raises(AttributeError, match="uncertainty=True"):
        means.sample(3)
    with pytest.raises(ValueError, match="pyRiemann has no points"):
        means.to_pyriemann()
    pca = PrivateTangentPCA(random_state=0).fit(X)
    with pytest.raises(ValueError, match="n must"):
        pca.sample(0)
    with pytest.raises(TypeError, match="random_state"):
        pca.sample(2, random_state=1.5)
