"""What displays draw is what was released."""

import types

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skriemdp import PrivateFrechetMean
from skriemdp.geometry import Euclidean, Hyperboloid, Poincare, Sphere
from skriemdp.inference import ConfidenceRegion
from skriemdp.plotting import NoiseBallDisplay

pytest.importorskip("matplotlib")


def labelled(ax):
    return {line.get_label(): line for line in ax.get_lines()}


@pytest.mark.parametrize("space", [Sphere(2), Hyperboloid(2), Poincare(2)], ids=str)
def test_a_confidence_region_is_drawn_where_there_is_one(space):
    center, covariance = space.base_point, np.diag([0.04, 0.01])

    def confidence_region(level):
        return ConfidenceRegion(space, center, covariance, -2.0 * np.log1p(-level), level)

    fitted = types.SimpleNamespace(
        geometry_=space, mean_=center, noise_scale_=0.1, center_=center, radius_=1.0
    )
    plain = labelled(NoiseBallDisplay.from_estimator(fitted).ax_)
    assert {"noise, 50%", "noise, 90%", "public ball"} <= set(plain)
    fitted.inference_, fitted.confidence_region = object(), confidence_region
    display = NoiseBallDisplay.from_estimator(fitted)
    lines = labelled(display.ax_)
    assert {"confidence, 50%", "confidence, 90%", "public ball"} <= set(lines)
    assert not [name for name in lines if name.startswith("noise")]
    drawn = lines["confidence, 90%"].get_data_3d() if space == Sphere(2) else None
    if drawn is not None:
        assert confidence_region(0.9001).contains(np.stack(drawn, axis=-1)).all()
        assert not confidence_region(0.8999).contains(np.stack(drawn, axis=-1)).any()


def test_only_surfaces_are_drawn():
    display = NoiseBallDisplay(Euclidean(2), np.zeros(2), 0.1)
    with pytest.raises(ValueError, match="two-dimensional"):
        display.plot()


def test_circles_of_noise_have_their_radius():
    """The Rayleigh quantile, about the released mean."""
    X = np.random.default_rng(0).normal(size=(500, 3)) * 0.1 + [1.0, 0.0, 0.0]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    model = PrivateFrechetMean("sphere", radius=1.0, center=[1.0, 0, 0], random_state=0).fit(X)
    ax = NoiseBallDisplay.from_estimator(model).ax_
    circle = np.stack(labelled(ax)["noise, 90%"].get_data_3d(), axis=-1)
    distances = Sphere(2).dist(model.mean_, circle)
    assert_allclose(distances, model.noise_scale_ * np.sqrt(-2.0 * np.log(0.1)))
