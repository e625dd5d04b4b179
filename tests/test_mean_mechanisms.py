"""How a mean's budget is split, and what each mechanism, noise law and private ball promises."""

import math
import warnings

import numpy as np
import pytest

from skriemdp import PrivateFrechetMean, config_context, frechet_mean
from skriemdp.auditing import audit_scores
from skriemdp.datasets import digits_covariances, make_cloud
from skriemdp.geometry import (
    SPD,
    BuresWassersteinSPD,
    Euclidean,
    GeodesicBall,
    Hyperboloid,
    Poincare,
    Sphere,
)
from skriemdp.geometry.ball import center_reach
from skriemdp.mean.planning import choose_mechanism, split_budget
from skriemdp.mean.releases import default_descent
from skriemdp.mean.search import BallSearch, radius_grid, within_reach
from skriemdp.mechanisms.quantile import PrivateQuantile
from skriemdp.privacy.calibration import gaussian_mu
from skriemdp.privacy.events import PureEvent

pytestmark = pytest.mark.filterwarnings("ignore:.*rows lie outside:UserWarning")


def cloud(geometry, n, seed=0, **kwargs):
    return make_cloud(geometry, n, rng=np.random.default_rng(seed), **kwargs)


def mean_square_error(X, geometry, fits=40, **parameters):
    target = frechet_mean(X, geometry)
    errors = [
        float(geometry.dist(target, PrivateFrechetMean(geometry, **parameters).fit(X).mean_)) ** 2
        for _ in range(fits)
    ]
    return float(np.mean(errors))


SPLITS = [
    ("tangent", "gaussian", 1.0, 1e-5, False, False),
    ("tangent", "radial", 1.0, 1e-5, False, False),
    ("tangent", "radial", 0.1, 1e-3, False, False),
    ("tangent", "laplace", 1.0, 1e-5, False, False),
    ("tangent", "laplace", 1.0, 0.0, False, False),
    ("tangent", "auto", 3.0, 1e-6, False, False),
    ("tangent", "auto", 3.0, 0.0, False, False),
    ("adaptive", "auto", 1.0, 1e-5, False, False),
    ("gradient", "gaussian", 1.0, 1e-5, False, True),
    ("tangent", "gaussian", 1.0, 1e-5, True, True),
]


@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_all_parts_together_stay_within_the_target(split):
    mechanism, noise, epsilon, delta, center, radius = split
    budget = split_budget(SPD(2), mechanism, noise, epsilon, delta, center, radius)
    assert budget.event.delta(epsilon) <= delta
    if budget.mu is not None:
        parts = budget.mu**2 + budget.count.event.mu**2 + (budget.search_mu or 0.0) ** 2
        assert parts <= gaussian_mu(epsilon, delta) ** 2 * (1 + 1e-12)
        assert parts >= 0.999 * gaussian_mu(epsilon, delta) ** 2
    if delta == 0.0:
        parts = budget.law.renyi(math.inf) + budget.count.epsilon
        assert 0.999 * epsilon <= parts <= epsilon
        assert budget.event == PureEvent(epsilon)
    # What draws the noise of the mean states what was charged for it.
    mean = PrivateFrechetMean()._mean_release(GeodesicBall(SPD(2), None, 0.5), 1000, budget)
    if budget.mu is not None:
        assert mean.event.mu == pytest.approx(budget.mu, rel=1e-9)
    else:
        assert mean.event == budget.law


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"noise": "radial", "mechanism": "adaptive"}, "mechanism='tangent'"),
        ({"noise": "laplace", "radius": "auto"}, "public ball"),
        ({"delta": 0.0, "mechanism": "gradient"}, "pure"),
        ({"delta": 0.0, "noise": "gaussian"}, "pure"),
        ({"delta": 0.0, "center": "private"}, "pure"),
        ({"delta": 0.0, "noise": "radial"}, "laplace"),
        ({"noise": "uniform"}, "noise"),
        ({"shrink": "lasso"}, "shrink"),
        ({"center": "data"}, "center"),
    ],
    ids=str,
)
def test_combinations_without_a_guarantee_are_refused(parameters, words, recording_accountant):
    model = PrivateFrechetMean("spd", accountant=recording_accountant, **parameters)
    with pytest.raises(ValueError, match=words):
        model.fit(cloud(SPD(2), 50))
    assert recording_accountant.spends == []


def test_pure_privacy():
    model = PrivateFrechetMean("spd", epsilon=1.0, delta=0.0).fit(cloud(SPD(2), 300))
    assert tuple(model.privacy_spent_) == (1.0, 0.0)
    assert model.privacy_spent_.event.delta(1.0) == 0.0
    assert model.mechanism_ == "tangent"


@pytest.mark.parametrize("geometry", [Sphere(2), Hyperboloid(2), SPD(2)], ids=str)
@pytest.mark.parametrize(
    "mechanism, delta", [("gaussian", 1e-3), ("laplace", 0.0), ("laplace", 1e-3), ("k-norm", 0.0)]
)
def test_output_perturbation(geometry, mechanism, delta):
    radius = 0.3
    X = cloud(geometry, 400, radius=radius, offset=0.3, spread=0.3)
    model = PrivateFrechetMean(
        geometry, radius=radius, mechanism=mechanism, epsilon=2.0, delta=delta
    )
    if mechanism == "k-norm" and not geometry.is_hadamard:
        with pytest.raises(ValueError, match="Hadamard"):
            model.fit(X)
        return
    model.fit(X)
    assert model.privacy_spent_.event.delta(2.0) <= delta
    assert model.mechanism_ == mechanism
    # Noise of a few 2r/(n epsilon) in two or three dimensions.
    assert geometry.dist(model.mean_, frechet_mean(X, geometry)) < 40 * 2 * radius / 400 / 2.0


@pytest.mark.parametrize(
    "geometry, n, mechanism, parameters, finding",
    [
        # Laplace noise on 2x2 matrices exists for scales below sqrt(2) only.
        (SPD(2), 10, "laplace", {"epsilon": 0.1}, "no Laplace law"),
        (SPD(2), 2, "k-norm", {"epsilon": 0.05}, "no Laplace law"),
        (SPD(2), 60, "laplace", {"epsilon": 0.05, "radius": 1.5}, "too wide"),
        (Poincare(3), 60, "laplace", {"epsilon": 1.0, "radius": 12.0}, "too wide"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*little more than the public")
def test_laws_that_cannot_be_drawn_are_refused_before_the_charge(
    geometry, n, mechanism, parameters, finding, recording_accountant
):
    X = cloud(geometry, n)
    model = PrivateFrechetMean(
        geometry, mechanism=mechanism, delta=0.0, accountant=recording_accountant, **parameters
    )
    with pytest.raises(ValueError, match=finding):
        model.fit(X)
    assert recording_accountant.spends == []


def test_default_descent_takes_a_second_step_where_its_bias_shows():
    ball = GeodesicBall(Sphere(2), None, 0.5)
    assert default_descent(ball, 100, 0.1) == (1, None)
    assert default_descent(ball, 10**6, 1.0) == (2, (0.1, 0.9))
    assert default_descent(GeodesicBall(Euclidean(2), None, 0.5), 10**6, 1.0) == (1, None)


def test_auto_follows_public_numbers_only():
    assert choose_mechanism(SPD(10), 10**4, 0.1, 1e-3, False) == "adaptive"
    assert choose_mechanism(SPD(10), 100, 0.1, 1e-3, False) == "tangent"
    # Radial noise has a quarter of the Gaussian error in three dimensions at this delta.
    assert choose_mechanism(SPD(2), 10**4, 1.0, 1e-5, False) == "tangent"
    assert choose_mechanism(Sphere(2), 1000, 1.0, 1e-5, False, ball_curvature=0.1) == "tangent"
    # The mean of logarithms has a bias there that no noise hides any more.
    assert choose_mechanism(Sphere(2), 1000, 1.0, 1e-5, False, ball_curvature=1.0) == "adaptive"
    assert choose_mechanism(Sphere(2), 10, 0.1, 1e-3, False) == "gradient"
    assert choose_mechanism(Sphere(2), 1000, 0.1, 1e-3, False) == "adaptive"
    assert choose_mechanism(Hyperboloid(2), 1000, 1.0, 1e-5, True) == "tangent"
    assert choose_mechanism(Sphere(2), 10**6, 1.0, 0.0, False) == "tangent"


def test_radial_noise_beats_gaussian_noise_in_small_dimension():
    X = cloud(SPD(2), 300)
    gaussian = mean_square_error(X, SPD(2), mechanism="tangent", noise="gaussian")
    radial = mean_square_error(X, SPD(2), mechanism="tangent", noise="radial")
    # Expected ratio .30 (exact calibration); 40 fits each.
    assert radial < 0.6 * gaussian


def test_adaptive_beats_one_shot_on_concentrated_data():
    X = cloud(SPD(3), 2000, offset=0.3, spread=0.1)
    one_shot = mean_square_error(X, SPD(3), mechanism="tangent", noise="gaussian")
    adaptive = mean_square_error(X, SPD(3), mechanism="adaptive")
    assert adaptive < 0.3 * one_shot


@pytest.mark.parametrize(
    "geometry", [SPD(3), Sphere(5), Hyperboloid(3), BuresWassersteinSPD(2)], ids=str
)
def test_adaptive_costs_little_on_data_that_fill_the_ball(geometry):
    radius = 0.3
    X = cloud(geometry, 1000, radius=radius, offset=0.1)
    one_shot = mean_square_error(X, geometry, radius=radius, mechanism="tangent", noise="gaussian")
    adaptive = mean_square_error(X, geometry, radius=radius, mechanism="adaptive")
    # Expected 1.1, and 1.6 where a gradient step replaces the repetition; 40 fits each.
    assert adaptive < 3.0 * one_shot


def test_shrinkage_helps_when_noise_fills_the_ball():
    X = cloud(SPD(4), 60, offset=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = mean_square_error(X, SPD(4), epsilon=0.3, mechanism="tangent", noise="gaussian")
        shrunk = mean_square_error(
            X, SPD(4), epsilon=0.3, mechanism="tangent", noise="gaussian", shrink="js"
        )
    assert shrunk < 0.8 * plain


def test_private_ball_on_raw_covariances():
    """Raw descriptors lie 6 to 9 from the identity; nobody has to know."""
    X, _ = digits_covariances()
    center = np.diag([9 / 84, 9 / 84, 1 / 12, 1 / 48, 1 / 48]) + 1e-3 * np.eye(5)
    target = frechet_mean(X, "spd", center=center)

    def error(**parameters):
        fits = [PrivateFrechetMean("spd", epsilon=1.0, **parameters).fit(X) for _ in range(15)]
        return np.mean([float(SPD(5).dist(target, fit.mean_)) ** 2 for fit in fits])

    searched = error(center="private", radius="auto")
    known = error(center=center, radius=1.5, mechanism="tangent", noise="gaussian")
    assert searched < 3.0 * known


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e9])
def test_private_ball_in_any_unit(scale):
    X = scale * cloud(SPD(3), 4000, spread=0.3)
    model = PrivateFrechetMean("spd", center="private", radius="auto", epsilon=3.0).fit(X)
    assert SPD(3).dist(model.mean_, frechet_mean(X, "spd", center=scale * np.eye(3))) < 0.2
    assert model.radius_ < 3.0


def test_a_search_that_drowns_in_noise_still_returns_a_point():
    X = cloud(SPD(3), 20)
    with pytest.warns(UserWarning, match="few for a private ball"):
        model = PrivateFrechetMean("spd", center="private", radius="auto", epsilon=0.05).fit(X)
    assert SPD(3).belongs(model.mean_)


@pytest.mark.parametrize("arithmetic", ["float", "lattice"])
@pytest.mark.parametrize("mechanism", ["auto", "tangent", "adaptive", "gradient"])
@pytest.mark.parametrize("ball", [{"radius": "auto"}, {"center": "private"}], ids=str)
def test_every_gaussian_mechanism_works_in_a_searched_ball(mechanism, ball, arithmetic):
    # "adaptive" raised after the charge: its radius asked for the noise of the search's radius.
    X = 3.0 + 0.1 * np.random.default_rng(0).normal(size=(2000, 2))
    model = PrivateFrechetMean(mechanism=mechanism, epsilon=8.0, center=[3.0, 3.0], random_state=0)
    with config_context(arithmetic=arithmetic):
        model.set_params(**ball).fit(X)
    assert np.linalg.norm(model.mean_ - 3.0) < 0.05
    assert model.privacy_spent_.epsilon == 8.0


def test_search_shares_add_up():
    search = BallSearch(Euclidean(2), 100, 0.5, None, None, np.zeros(2))
    assert search.event.mu == pytest.approx(0.5)
    assert max(radius_grid(Sphere(2))) < Sphere(2).radius_limit


def test_little_information_is_announced_from_public_numbers():
    with pytest.warns(UserWarning, match="little more than the public centre"):
        PrivateFrechetMean("spd", noise="gaussian", epsilon=0.1).fit(cloud(SPD(5), 50))


@pytest.mark.slow
@pytest.mark.parametrize("cheat", [False, True], ids=["as shipped", "quarter of the noise"])
def test_audit_of_the_radius_search(cheat, monkeypatch):
    """One record decides a noisy count; 1000 searches a side, false alarm below 1e-7."""
    if cheat:
        sigma = PrivateQuantile.sigma.fget
        monkeypatch.setattr(PrivateQuantile, "sigma", property(lambda self: sigma(self) / 4))
    geometry, n, mu = Euclidean(1), 9, 2.0
    search = BallSearch(geometry, n, mu, np.zeros(1), None, np.zeros(1))
    radius = radius_grid(geometry)[60]
    values = np.where(np.arange(n) < 6, 0.999, 1.001) * radius
    neighbour = np.where(np.arange(n) < 5, 0.999, 1.001) * radius
    rng = np.random.default_rng(0)

    def scores(data):
        found = [search.release(data[:, None], lambda *label: rng).radius for _ in range(1000)]
        return 1.0 * (np.array(found) > 1.2 * radius)

    audit = audit_scores(scores(values), scores(neighbour), delta=1e-5, confidence=1 - 1e-8)
    assert (audit.mu > mu) == cheat


def test_huge_epsilon_takes_gaussian_noise():
    """Beyond the range of e^epsilon radial noise is not accounted; nothing overflows."""
    budget = split_budget(SPD(2), "tangent", "auto", 1e6, 1e-5, False, False)
    assert budget.law is None and budget.mu > 100.0
    with pytest.raises(ValueError, match="out of range"):
        split_budget(SPD(2), "tangent", "radial", 1e6, 1e-5, False, False)


def test_a_searched_centre_stays_where_coordinates_have_digits():
    geometry = Hyperboloid(2, curvature=-4.0)
    reach = center_reach(geometry)
    assert reach == 8.5
    direction = np.array([0.6, 0.8])
    for distance in (3.0, 8.4, 10.0, 14.0):
        point = geometry.exp_coordinates(geometry.base_point, distance * direction)
        near = within_reach(geometry, point)
        assert geometry.dist(geometry.base_point, near) == pytest.approx(min(distance, reach))
        towards = geometry.log_coordinates(geometry.base_point, near)
        np.testing.assert_allclose(towards / np.linalg.norm(towards), direction, rtol=1e-6)
    far = np.full((40, 1), 10.0) * direction
    model = PrivateFrechetMean(geometry, center="private", radius="auto", epsilon=50.0)
    mean = model.fit(geometry.exp_coordinates(geometry.base_point, far)).mean_
    assert geometry.belongs(mean)
