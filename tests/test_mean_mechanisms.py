"""How a mean's budget is split, and what each mechanism, noise law and private ball promises."""

import itertools
import math
import re
import warnings
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skriemdp import PrivacyAccountant, PrivateFrechetMean, frechet_mean
from skriemdp._core.arithmetic import INTEGERS, ITERATED, LAW, PLAIN
from skriemdp._location_scale.points import PointRecords, plan_point_search, within_reach
from skriemdp._location_scale.search import BallEstimate
from skriemdp._mean import releases
from skriemdp._mean.expected import radius_at_level
from skriemdp._mean.planning import plan_mean
from skriemdp._mean.releases import LogStep, cloud_hessian, default_descent, sphere_hessian
from skriemdp._random import NoiseStreams
from skriemdp.datasets import digits_covariances, make_cloud
from skriemdp.geometry import (
    SPD,
    BuresWassersteinSPD,
    Circle,
    Euclidean,
    GeodesicBall,
    Grassmann,
    Hyperboloid,
    Poincare,
    Product,
    Sphere,
    Stiefel,
)
from skriemdp.geometry._ball import center_reach
from skriemdp.inference._covariances import mean_hessian
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import GaussianEvent, PureEvent

pytestmark = pytest.mark.filterwarnings("ignore:.*rows lie outside:UserWarning")


def cloud(geometry, n, seed=0, **kwargs):
    return make_cloud(geometry, n, rng=np.random.default_rng(seed), **kwargs)


def mean_square_error(X, geometry, fits=40, radius=1.0, **parameters):
    parameters = {"center": geometry.base_point, "radius": radius} | parameters
    target = frechet_mean(X, geometry)
    errors = [
        float(geometry.dist(target, PrivateFrechetMean(geometry, **parameters).fit(X).mean_)) ** 2
        for _ in range(fits)
    ]
    return float(np.mean(errors))


SPLITS = [
    ("tangent", "gaussian", 1.0, 1e-5, {}),
    ("tangent", "laplace", 1.0, 1e-5, {}),
    ("tangent", "laplace", 0.1, 1e-3, {}),
    ("tangent", "laplace", 1.0, 0.0, {}),
    ("tangent", "auto", 3.0, 1e-6, {}),
    ("tangent", "auto", 3.0, 0.0, {}),
    ("auto", "gaussian", 1.0, 1e-5, {}),
    ("auto", "laplace", 0.7, 1e-7, {}),
    ("auto", "auto", 0.1, 1e-3, {}),
    ("gradient", "gaussian", 1.0, 1e-5, {"center": np.eye(2)}),
    ("tangent", "gaussian", 1.0, 1e-5, {"center": None}),
    ("auto", "auto", 1.0, 1e-5, {"center": None, "radius": None}),
    ("auto", "auto", 0.1, 1e-3, {"radius": 2.0}),
]


@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_all_parts_together_stay_within_the_target(split):
    mechanism, noise, epsilon, delta, searched = split
    geometry, n = SPD(2), 2000
    ball = None if searched else GeodesicBall(geometry, None, 0.5)
    mu = gaussian_mu(epsilon, delta) if delta > 0.0 else None
    search = plan_point_search(geometry, n, mu, **searched) if searched else None
    choices = {"mechanism": mechanism, "noise": noise, "ball": ball, "search": search}
    plan = plan_mean(geometry, n, epsilon, delta, **choices)
    assert plan.event.delta(epsilon) <= delta
    parts = (plan.mu or 0.0) ** 2 + (0.0 if plan.search is None else plan.search.mu_search**2)
    looks = mechanism == "auto" and not searched
    assert (plan.mechanism == "adaptive") == (looks and delta > 0.0)
    assert (plan.search is None) == (not searched and not (looks and delta > 0.0))
    assert math.fsum(each.share for each in plan.releases) == pytest.approx(1.0, abs=1e-12)
    if delta == 0.0:
        parts = plan.law.renyi(math.inf) + plan.count
        assert 0.999 * epsilon <= parts <= epsilon
        assert plan.event == PureEvent(epsilon)
    else:
        whole = gaussian_mu(epsilon, delta) if plan.law is None else plan.event.events[0].mu
        parts += plan.count**2
        assert 0.999 * whole**2 <= parts <= whole**2 * (1 + 1e-12)
    if plan.law is not None and delta > 0.0:
        assert plan.event.events[1] == plan.law
        # Not much is left on the table.
        assert plan.event.delta(epsilon) >= 0.98 * delta
    # What draws the noise of the mean states what was charged for it.
    mean = PrivateFrechetMean(radius=1.0)._mean_release(GeodesicBall(geometry, None, 0.5), n, plan)
    if mechanism == "gradient":
        assert mean.event.mu == pytest.approx(plan.mu, rel=1e-9)
    else:
        assert (mean.noise.mu, mean.noise.law) == (plan.mu, plan.law)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 10**4),
    st.floats(1.0, 8.0),
    st.floats(-4.0, 6.0),
    st.floats(-12.0, -2.0),
)
def test_shares_never_add_up_to_more_than_all(dim, log_n, log_epsilon, log_delta):
    n, epsilon, delta = int(10**log_n), 10**log_epsilon, 10**log_delta
    geometry = Euclidean(dim)
    try:
        plan = plan_mean(
            geometry, n, epsilon, delta, noise="gaussian", ball=GeodesicBall(geometry, None, 1.0)
        )
    except ValueError as refused:
        assert "integers" in str(refused)
        return
    parts = [plan.mu, plan.count, *([plan.search.mu_search] if plan.search else [])]
    assert math.fsum(part**2 for part in parts) <= plan.event.mu**2 * (1.0 + 1e-12)
    shares = [each.share for each in plan.releases]
    assert math.fsum(shares) <= 1.0 + 1e-12 and min(shares) > 0.0


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"noise": "laplace", "mechanism": "gradient"}, "mechanism='auto' or 'tangent'"),
        ({"mechanism": "adaptive"}, "mechanism"),
        ({"noise": "laplace", "center": "private"}, "public center= and radius="),
        ({"mechanism": "k-norm", "radius": "private"}, "public center= and radius="),
        ({"delta": 0.0, "radius": "private"}, "public center= and radius="),
        ({"delta": 0.0, "mechanism": "gradient"}, "pure"),
        ({"delta": 0.0, "noise": "gaussian"}, "pure"),
        ({"delta": 0.0, "mechanism": "gaussian"}, "needs delta > 0"),
        ({"delta": 0.0, "center": "private"}, "pure"),
        ({"noise": "radial"}, "'laplace'"),
        ({"shrink": "js"}, "shrink"),
        ({"center": "data"}, "center"),
    ],
    ids=str,
)
def test_combinations_without_a_guarantee_are_refused(parameters, words, recording_accountant):
    model = PrivateFrechetMean(
        "spd", accountant=recording_accountant, **{"center": np.eye(2), "radius": 1.0} | parameters
    )
    with pytest.raises(ValueError, match=words):
        model.fit(cloud(SPD(2), 50))
    assert recording_accountant.spends == []


def test_pure_privacy():
    model = PrivateFrechetMean("spd", epsilon=1.0, delta=0.0, center=np.eye(2), radius=1.0).fit(
        cloud(SPD(2), 300)
    )
    assert tuple(model.privacy_spent_) == (1.0, 0.0)
    assert model.privacy_spent_.event.delta(1.0) == 0.0
    assert model.mechanism_ == "tangent"


@pytest.mark.parametrize(
    "geometry, radius",
    [
        (Sphere(2), 0.3),
        (Sphere(2), math.pi / 4),
        (Sphere(2), 1.2),
        (Sphere(20), math.pi / 4),
        (Sphere(1), 1.2),
        (Hyperboloid(2), 0.3),
        (SPD(2), 0.3),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "mechanism, delta", [("gaussian", 1e-3), ("laplace", 0.0), ("laplace", 1e-3), ("k-norm", 0.0)]
)
def test_output_perturbation(geometry, radius, mechanism, delta):
    X = cloud(geometry, 400, radius=radius, offset=0.3, spread=0.3)
    model = PrivateFrechetMean(
        geometry,
        center=geometry.base_point,
        radius=radius,
        mechanism=mechanism,
        epsilon=2.0,
        delta=delta,
    )
    model.fit(X)
    assert model.privacy_spent_.event.delta(2.0) <= delta
    assert model.mechanism_ == mechanism
    # Noise of a few 2r/(n epsilon), more on wide spheres, for each dimension.
    most = max(40, 15 * geometry.dim) * 2 * radius / 400 / 2.0
    assert geometry.dist(model.mean_, frechet_mean(X, geometry)) < most


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
        geometry,
        mechanism=mechanism,
        delta=0.0,
        accountant=recording_accountant,
        **{"center": geometry.base_point, "radius": 1.0} | parameters,
    )
    with pytest.raises(ValueError, match=finding):
        model.fit(X)
    assert recording_accountant.spends == []


def test_k_norm_on_lines_through_the_origin():
    """Grassmann(n, 1) has the balls of a sphere, up to half the injectivity radius."""
    geometry = Grassmann(3, 1)
    X = cloud(geometry, 400, radius=0.7, offset=0.3, spread=0.3)
    model = PrivateFrechetMean(
        geometry, center=geometry.base_point, radius=0.7, mechanism="k-norm", delta=0.0
    ).fit(X)
    assert geometry.dist(model.mean_, frechet_mean(X, geometry)) < 0.2


@pytest.mark.parametrize(
    "geometry, n, radius, mechanism, finding, cure",
    [
        (Grassmann(5, 2), 400, 0.3, "k-norm", "constant curvature", {"mechanism": "tangent"}),
        (Grassmann(5, 2), 400, 0.3, "laplace", "same normaliser", {"mechanism": "tangent"}),
        (Grassmann(3, 1), 400, 0.3, "gaussian", "same normaliser", {"mechanism": "gradient"}),
        (BuresWassersteinSPD(2), 400, 0.3, "k-norm", "constant", {"mechanism": "tangent"}),
        (BuresWassersteinSPD(2), 400, 0.3, "laplace", "normaliser", {"mechanism": "tangent"}),
        (BuresWassersteinSPD(2), 400, 0.3, "gaussian", "normaliser", {"mechanism": "gradient"}),
        (SPD(3), 400, 1.0, "gaussian", "2 x 2", {"mechanism": "gradient"}),
        (SPD(11), 400, 1.0, "k-norm", "10 x 10", {"mechanism": "tangent"}),
        (Sphere(2), 400, 1.55, "laplace", "number of steps", {"mechanism": "tangent"}),
        (Sphere(2), 400, 1.55, "laplace", "radius=", {"radius": None}),
        (Sphere(2), 400, 1.55, "gaussian", "radius=", {"radius": None}),
        (Sphere(20), 1000, 1.45, "k-norm", "proposals", {"mechanism": "tangent"}),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_refusals_of_output_perturbations_name_a_cure_that_works(
    geometry, n, radius, mechanism, finding, cure, recording_accountant
):
    X = cloud(geometry, n, radius=0.9 * radius)
    delta = 1e-5 if mechanism == "gaussian" else 0.0
    parameters = {"center": geometry.base_point, "radius": radius}
    parameters |= {"mechanism": mechanism, "delta": delta}
    model = PrivateFrechetMean(geometry, accountant=recording_accountant, **parameters)
    with pytest.raises(ValueError, match=finding) as refusal:
        model.fit(X)
    assert recording_accountant.spends == []
    if "radius" in cure:
        cure = {"radius": float(re.search(r"radius=([\d.]+) or", str(refusal.value))[1])}
        assert cure["radius"] > 1.4
    else:
        assert cure["mechanism"] in str(refusal.value)
    model.set_params(**cure).fit(X)
    assert len(recording_accountant.spends) == 1


MECHANISMS = ("tangent", "gradient", "laplace", "gaussian", "k-norm")


def cures(text, mechanism):
    """The changes of parameters that a refusal names."""
    for name in set(re.findall(r"mechanism='([a-z-]+)'", text)) - {mechanism}:
        yield {"mechanism": name, "noise": "laplace" if "noise='laplace'" in text else "auto"}
    if "'gradient' with delta > 0" in text:
        yield {"mechanism": "gradient", "delta": 1e-5}
    elif "delta > 0" in text:
        yield {"delta": 1e-5}
    if named := re.search(r"radius=([\d.]+) or", text):
        yield {"radius": float(named[1])}
    if limit := re.search(r"is (?:above|not below) ([\d.]+),.* a smaller (?:radius|one)", text):
        yield {"radius": 0.9 * float(limit[1])}


def refusal(model, X):
    """What a fit is refused with before its charge; None if it runs."""
    try:
        model.fit(X)
    except ValueError as refused:
        return str(refused)
    except RuntimeError:  # by the accountant: all was planned, and nothing is released
        return None
    return None


def cured(model, X, text, steps=3):
    """Whether a cure in this refusal leads to a fit; a wide radius may call for a second one."""
    for cure in cures(text, model.mechanism):
        better = clone(model).set_params(**cure)
        further = refusal(better, X)
        if further is None:
            continue
        # A cure by another mechanism works at once, unless no mechanism takes that radius.
        if "mechanism" in cure and "radius=" not in further or further == text or steps == 1:
            return False
        if not cured(better, X, further, steps - 1):
            return False
    return True


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize(
    "geometry",
    [
        Euclidean(2),
        Sphere(1),
        Sphere(2),
        Sphere(20),
        Hyperboloid(2),
        Poincare(3),
        SPD(2),
        SPD(3),
        SPD(11),
        BuresWassersteinSPD(2),
        Grassmann(5, 2),
        Grassmann(3, 1),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_every_refusal_of_a_mechanism_names_cures_that_work(geometry, recording_accountant):
    """Every mechanism at narrow and wide radii, pure or not, with much and little budget."""
    X, refused = cloud(geometry, 60, radius=0.2), 0
    grid = itertools.product(MECHANISMS, (0.3, 1.45, 12.0), (0.0, 1e-5), (1.0, 0.05))
    for mechanism, radius, delta, epsilon in grid:
        model = PrivateFrechetMean(
            geometry,
            center=geometry.base_point,
            mechanism=mechanism,
            radius=radius,
            delta=delta,
            epsilon=epsilon,
            accountant=recording_accountant,
        )
        recording_accountant.refuse = True
        text = refusal(model, X)
        recording_accountant.refuse = False
        if text is not None:
            refused += 1
            assert list(cures(text, mechanism)), text
            assert cured(model, X, text), (str(model), text)
    assert refused >= 6 and len(recording_accountant.spends) >= refused


def test_default_descent_takes_a_second_step_where_its_bias_shows():
    ball = GeodesicBall(Sphere(2), None, 0.5)
    assert default_descent(ball, 100, 0.1) == (1, None)
    assert default_descent(ball, 10**6, 1.0) == (2, (0.1, 0.9))
    assert default_descent(GeodesicBall(Euclidean(2), None, 0.5), 10**6, 1.0) == (1, None)


def test_auto_follows_public_numbers_only():
    def planned(geometry, n, epsilon=1.0, delta=1e-5, radius=0.5, **parameters):
        ball = GeodesicBall(geometry, None, radius)
        return plan_mean(geometry, n, epsilon, delta, ball=ball, **parameters)

    # Nothing can be found with so few records; then once, then twice.
    searches = [planned(SPD(10), n, 0.1, 1e-3).search for n in (300, 1000, 10**5)]
    assert [0 if each is None else each.shares.rounds for each in searches] == [0, 1, 2]
    assert planned(SPD(10), 300, 0.1, 1e-3).mechanism == "tangent"
    # Laplace noise has a quarter of the Gaussian error in three dimensions at this delta.
    assert planned(SPD(2), 1000).law is not None
    assert planned(SPD(10), 1000, 0.1, 1e-3).mu is not None
    assert planned(SPD(2), 1000, noise="gaussian").mu is not None
    # A ball that is too wide is not left.
    assert planned(SPD(2), 10**5, radius=20.0).mechanism == "tangent"
    assert planned(SPD(2), 10**5, delta=0.0).mechanism == "tangent"
    search = plan_point_search(Hyperboloid(2), 1000, gaussian_mu(1.0, 1e-5))
    assert plan_mean(Hyperboloid(2), 1000, 1.0, 1e-5, search=search).mechanism == "tangent"


def test_laplace_noise_beats_gaussian_noise_in_small_dimension():
    X = cloud(SPD(2), 300)
    gaussian = mean_square_error(X, SPD(2), mechanism="tangent", noise="gaussian", shrink=None)
    laplace = mean_square_error(X, SPD(2), mechanism="tangent", noise="laplace")
    # Expected ratio .30 (exact calibration); 40 fits each.
    assert laplace < 0.6 * gaussian


def test_adaptive_beats_one_shot_on_concentrated_data():
    X = cloud(SPD(3), 2000, offset=0.3, spread=0.1)
    one_shot = mean_square_error(X, SPD(3), mechanism="tangent", noise="gaussian")
    adaptive = mean_square_error(X, SPD(3))
    # Expected .02; 40 fits each.
    assert adaptive < 0.1 * one_shot


@pytest.mark.parametrize(
    "geometry", [SPD(3), Sphere(5), Hyperboloid(3), BuresWassersteinSPD(2)], ids=str
)
def test_adaptive_costs_little_on_data_that_fill_the_ball(geometry):
    radius = 0.3
    X = cloud(geometry, 1000, radius=radius, offset=0.1)
    one_shot = mean_square_error(X, geometry, radius=radius, mechanism="tangent")
    adaptive = mean_square_error(X, geometry, radius=radius)
    # Expected 1.0 to 1.2; 40 fits each.
    assert adaptive < 3.0 * one_shot


@pytest.mark.slow
def test_a_rough_mean_that_shrank_to_the_centre_vetoes_nothing():
    """With the shrunken noise as its weight one fit in thirty ends at the centre, .3 away."""
    geometry, errors = SPD(2), []
    for seed in range(10):
        X = cloud(geometry, 1000, seed, offset=0.3, spread=0.1)
        target = frechet_mean(X, geometry)
        for _ in range(20):
            mean = (
                PrivateFrechetMean(
                    geometry, center=geometry.base_point, epsilon=0.1, delta=1e-3, radius=1.0
                )
                .fit(X)
                .mean_
            )
            errors.append(float(geometry.dist(target, mean)))
    # The root of the mean square is .015, and it is Gaussian or has a tail like exp(-x/.006).
    assert max(errors) < 0.15


def test_neighbours_have_one_plan_and_one_charge(recording_accountant):
    """A record at the far end, or beyond, moves no public number."""
    X = cloud(SPD(2), 300, offset=0.3, spread=0.1)
    Y = X.copy()
    Y[0] = np.diag([1e6, 1e-6])
    public = []
    for data in (X, Y):
        model = PrivateFrechetMean(
            "spd", accountant=recording_accountant, random_state=0, center=np.eye(2), radius=1.0
        )
        model.fit(data)
        public.append((model.mechanism_, str(model.privacy_spent_.public)))
    assert public[0] == public[1]
    assert recording_accountant.spends[0] == recording_accountant.spends[1]


def test_looks_that_drown_in_noise_still_return_a_point_of_the_ball():
    """The last point of a look may be anything; what is released lies in the public ball."""
    for geometry in (SPD(2), Sphere(2), Hyperboloid(2), BuresWassersteinSPD(2)):
        X = cloud(geometry, 40, radius=0.3, offset=0.9, spread=0.02)
        for seed in range(10):
            few = {"noise": "gaussian", "epsilon": 8.0, "random_state": seed}
            model = PrivateFrechetMean(geometry, center=geometry.base_point, radius=0.3, **few).fit(
                X
            )
            assert model.mechanism_ == "adaptive"
            assert geometry.dist(geometry.base_point, model.mean_) <= 0.3 * (1 + 1e-9)


def test_shrinkage_helps_when_noise_fills_the_ball():
    X = cloud(SPD(4), 60, offset=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = mean_square_error(X, SPD(4), epsilon=0.3, noise="gaussian", shrink=None)
        shrunk = mean_square_error(X, SPD(4), epsilon=0.3, noise="gaussian")
    assert shrunk < 0.8 * plain


def test_private_ball_on_raw_covariances():
    """Raw descriptors lie 6 to 9 from the identity; nobody has to know."""
    X, _ = digits_covariances()
    center = np.diag([9 / 84, 9 / 84, 1 / 12, 1 / 48, 1 / 48]) + 1e-3 * np.eye(5)
    target = frechet_mean(X, "spd", center=center)

    def error(**parameters):
        fits = [PrivateFrechetMean("spd", epsilon=1.0, **parameters).fit(X) for _ in range(15)]
        return np.mean([float(SPD(5).dist(target, fit.mean_)) ** 2 for fit in fits])

    searched = error(center="private", radius="private")
    known = error(center=center, radius=1.5, mechanism="tangent", noise="gaussian")
    assert searched < 3.0 * known


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e9])
def test_private_ball_in_any_unit(scale):
    X = scale * cloud(SPD(3), 4000, spread=0.3)
    model = PrivateFrechetMean("spd", center="private", radius="private", epsilon=3.0).fit(X)
    assert SPD(3).dist(model.mean_, frechet_mean(X, "spd", center=scale * np.eye(3))) < 0.2
    assert model.radius_ < 3.0


@pytest.mark.parametrize(
    ("geometry", "center"),
    [(SPD(3), "private"), (SPD(3), np.eye(3)), (Hyperboloid(3), "private")],
    ids=["start alone", "radius", "centre and radius"],
)
def test_a_search_that_drowns_in_noise_still_returns_a_point(geometry, center):
    """With n mu = .001 the answers are noise: any unit, centre and radius that a search can say."""
    X = cloud(geometry, 3)
    model = PrivateFrechetMean(geometry, center, "private", epsilon=0.0003)
    for _ in range(20):
        with pytest.warns(UserWarning, match="few for a private ball"):
            model.fit(X)
        assert geometry.belongs(model.mean_)


@pytest.mark.parametrize("mechanism", ["auto", "tangent", "gradient"])
@pytest.mark.parametrize("ball", [{"radius": "private"}, {"center": "private"}], ids=str)
def test_every_gaussian_mechanism_works_in_a_searched_ball(mechanism, ball):
    X = 3.0 + 0.1 * np.random.default_rng(0).normal(size=(2000, 2))
    model = PrivateFrechetMean(
        mechanism=mechanism, epsilon=8.0, center=[3.0, 3.0], random_state=0, radius=1.0
    )
    model.set_params(**ball).fit(X)
    assert np.linalg.norm(model.mean_ - 3.0) < 0.05
    assert model.privacy_spent_.planned_epsilon == 8.0


def test_little_information_is_announced_from_public_numbers():
    with pytest.warns(UserWarning, match="little more than the public centre"):
        PrivateFrechetMean("spd", noise="gaussian", epsilon=0.1, center=np.eye(5), radius=1.0).fit(
            cloud(SPD(5), 50)
        )


def test_huge_epsilon_takes_gaussian_noise():
    """Beyond the range of e^epsilon Laplace noise is not accounted; nothing overflows."""
    plan = plan_mean(SPD(2), 100, 1e6, 1e-5, mechanism="tangent")
    assert plan.law is None and plan.mu > 100.0
    with pytest.raises(ValueError, match="out of range"):
        plan_mean(SPD(2), 100, 1e6, 1e-5, mechanism="tangent", noise="laplace")


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
    model = PrivateFrechetMean(geometry, center="private", radius="private", epsilon=50.0)
    mean = model.fit(geometry.exp_coordinates(geometry.base_point, far)).mean_
    assert geometry.belongs(mean)


@pytest.mark.parametrize(
    ("geometry", "settings", "words"),
    [
        (Euclidean(3), {}, PLAIN),
        (Euclidean(3), {"radius": 1.0, "delta": 0.0}, PLAIN),
        (Euclidean(3), {"noise": "gaussian"}, INTEGERS),
        (Euclidean(3), {"radius": 1.0, "noise": "gaussian"}, INTEGERS),
        (Hyperboloid(2), {"mechanism": "gradient"}, INTEGERS),
        (Hyperboloid(2), {"radius": 1.0, "uncertainty": True}, INTEGERS),
        (Hyperboloid(2), {}, ITERATED),
        (Hyperboloid(2), {"radius": 1.0, "mechanism": "tangent"}, ITERATED),
        (Hyperboloid(2), {"radius": 1.0, "mechanism": "laplace"}, LAW),
    ],
)
def test_the_arithmetic_is_stated_whatever_the_number_of_records(geometry, settings, words):
    for n in (100, 20_000):
        steps = 0.3 * np.random.default_rng(n).normal(size=(n, geometry.dim))
        X = np.asarray(geometry.exp_coordinates(geometry.base_point, steps))
        mean = PrivateFrechetMean(geometry, random_state=0, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mean.fit(X)
        assert mean.privacy_spent_.public["arithmetic"] == words


# -- one step after a search in positive curvature -------------------------------------------------


@pytest.mark.parametrize("dim", [1, 2, 9])
@pytest.mark.parametrize("distance", [0.0, 0.4, 1.2])
def test_the_hessian_of_a_ring_on_a_sphere(dim, distance):
    """Points all around at one distance: the second derivative of half their squared distance."""
    geometry = Sphere(dim)
    center, rng = geometry.base_point, np.random.default_rng(dim)
    around = rng.standard_normal((500, dim))
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    ring = np.asarray(
        geometry.exp_coordinates(center, distance * np.concatenate([around, -around]))
    )
    step = 1e-3

    def risk(vector):
        moved = geometry.exp_coordinates(center, vector)
        return 0.5 * float(np.mean(np.asarray(geometry.dist(moved, ring)) ** 2))

    bends = [
        (risk(step * e) + risk(-step * e) - 2.0 * risk(0.0 * e)) / step**2 for e in np.eye(dim)
    ]
    length = float(np.linalg.norm(ring.mean(axis=0)))
    assert sphere_hessian(length, dim) == pytest.approx(np.mean(bends), abs=1e-2)


def test_the_hessian_is_kept_in_its_bounds():
    assert sphere_hessian(-0.5, 9) == sphere_hessian(0.0, 50) == 0.2
    assert sphere_hessian(2.0, 9) == sphere_hessian(1.0, 9) == sphere_hessian(0.1, 1) == 1.0


@pytest.mark.parametrize(
    "geometry",
    [Sphere(3), Circle(2.0), Grassmann(5, 2), Stiefel(3, 2), BuresWassersteinSPD(2)],
    ids=str,
)
def test_nothing_is_iterated_after_a_search_in_positive_curvature(geometry):
    rng = np.random.default_rng(0)
    steps = 0.1 * rng.standard_normal((2000, geometry.dim))
    X = np.asarray(geometry.exp_coordinates(geometry.base_point, steps))
    model = PrivateFrechetMean(geometry, center="private", epsilon=3.0, random_state=0)
    with mock.patch.object(releases, "iterate_mean", side_effect=AssertionError):
        model.fit(X)
    assert "iterated" not in model.privacy_spent_.public["arithmetic"]
    assert model.mechanism_ == "tangent" and 0.0 <= model.clipped_fraction_ < 0.2
    assert float(geometry.dist(model.mean_, geometry.base_point)) < 0.1


def test_the_last_step_is_divided_by_the_hessian_and_no_longer_than_the_radius():
    geometry, n = Sphere(4), 400
    steps = np.zeros((n, 4))
    steps[:, 0] = 0.3
    X = np.asarray(geometry.exp_coordinates(geometry.base_point, steps))
    noise = releases.MeanNoise(1e3, None)
    for hessian, reached in ((1.0, 0.3), (0.6, 0.5), (0.2, 0.9)):
        step = LogStep(geometry, geometry.base_point, 0.9, n, noise, hessian)
        mean, scale = step.release(PointRecords(geometry, X), NoiseStreams(0))
        assert float(geometry.dist(mean, geometry.base_point)) == pytest.approx(reached, abs=1e-3)
        assert scale == pytest.approx(noise.sigma(0.9, 4, n) / hessian)


# -- one step after a search in negative curvature -------------------------------------------------

CURVED = [Hyperboloid(3), Poincare(2), SPD(3), Product(Hyperboloid(2), SPD(2))]


@pytest.mark.parametrize("geometry", CURVED, ids=str)
@pytest.mark.parametrize("noise", ["auto", "gaussian"])
def test_a_mean_is_iterated_in_wide_balls_only(geometry, noise):
    for spread, iterated in ((0.2, False), (2.0, True)):
        model = PrivateFrechetMean(
            geometry, center="private", noise=noise, epsilon=2.0, random_state=0
        )
        with mock.patch.object(releases, "iterate_mean", wraps=releases.iterate_mean) as steps:
            model.fit(cloud(geometry, 600, radius=4.0 * spread, spread=0.25))
        assert steps.called == iterated
        assert model.privacy_spent_.public["arithmetic"] == ITERATED
        assert model.mechanism_ == "tangent"
        assert float(geometry.dist(model.mean_, geometry.base_point)) < 0.5 * spread


def test_whether_a_mean_is_one_step_follows_from_radius_curvature_and_noise():
    def widest(geometry, n, **given):
        mu = gaussian_mu(1.0, 1e-5)
        search = plan_point_search(geometry, n, mu, **given)
        plan = plan_mean(geometry, n, 1.0, 1e-5, search=search)
        radii = np.geomspace(1e-4, 1e4, 400)
        held = [plan.steps(geometry, radius) for radius in radii]
        assert held == sorted(held, reverse=True) and not plan.steps(geometry)
        return max(radii[held], default=0.0)

    assert widest(Hyperboloid(5), 500) == pytest.approx(1.0, rel=0.05)
    assert widest(Hyperboloid(5, curvature=-4.0), 500) == pytest.approx(0.5, rel=0.05)
    assert widest(SPD(3), 500) == pytest.approx(math.sqrt(2.0), rel=0.05)
    few, many = widest(SPD(3), 100_000), widest(SPD(3), 400_000)
    assert few == pytest.approx(2.0 * many, rel=0.1) and few < 1.0
    assert widest(SPD(3), 500, center=np.eye(3)) == widest(SPD(40), 500) == 0.0


@pytest.mark.parametrize("geometry", [*CURVED, Hyperboloid(20)], ids=str)
@pytest.mark.parametrize("level", [0.6, 0.95])
def test_the_hessian_of_a_cloud_in_negative_curvature(geometry, level):
    spread = 0.3
    radius = radius_at_level(spread, level, geometry.dim)
    found = BallEstimate(geometry.base_point, radius=radius, level=level)
    covariance = spread**2 / geometry.dim * np.eye(geometry.dim)
    exact = mean_hessian(geometry, geometry.base_point, covariance, math.inf)
    mean = float(np.trace(exact)) / geometry.dim
    assert cloud_hessian(geometry, found) - 1.0 == pytest.approx(mean - 1.0, rel=0.05)


# -- matrices, and few of them --------------------------------------------------------------------


def few_matrices(n=50):
    steps = 0.3 * np.random.default_rng(0).standard_normal((n, 6))
    return 7.0 * np.asarray(SPD(3).exp_coordinates(np.eye(3), steps))


def test_from_few_matrices_only_a_start_is_released():
    accountant = PrivacyAccountant(1.0, 1e-5)
    model = PrivateFrechetMean("spd", epsilon=1.0, accountant=accountant)
    with pytest.warns(UserWarning, match=r"n mu = 13.* is below 18: the mean is a multiple"):
        model.fit(few_matrices())
    assert model.mechanism_ == "start" and model.radius_ == math.inf
    assert math.isnan(model.noise_scale_) and model.clipped_fraction_ == 0.0
    assert_allclose(model.mean_, model.mean_[0, 0] * np.eye(3))
    assert_array_equal(model.mean_, model.center_)
    assert float(SPD(3).dist(model.mean_, 7.0 * np.eye(3))) < 2.0
    assert model.privacy_spent_.epsilon == 1.0 and len(accountant.history) == 1
    with pytest.raises(AttributeError, match="noise_radius"):
        model.noise_radius()


@pytest.mark.parametrize(
    ("n", "known"),
    [(100, {}), (50, {"center": np.eye(3)}), (50, {"radius": 2.0, "center": "private"})],
)
def test_more_matrices_or_a_public_part_are_searched(n, known):
    model = PrivateFrechetMean("spd", random_state=0, **known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(few_matrices(n))
    assert model.mechanism_ == "tangent" and math.isfinite(model.radius_)


def test_regions_of_few_matrices_are_refused_before_the_charge():
    accountant = PrivacyAccountant(1.0, 1e-5)
    model = PrivateFrechetMean("spd", uncertainty=True, accountant=accountant)
    with (
        pytest.warns(UserWarning, match="few for a private ball"),
        pytest.raises(ValueError, match="uncertainty=True asks for more. Use more records"),
    ):
        model.fit(few_matrices())
    assert not accountant.history


def test_a_start_uses_all_of_the_budget():
    """At the same data its median is as precise as one of mu itself."""
    X = few_matrices(56)
    search = plan_point_search(SPD(3), 56, 0.3)
    start = releases.StartAlone.of(SPD(3), search)
    assert start.event == GaussianEvent(1.0 / 0.3)
    records = PointRecords(SPD(3), X)
    found = [start.release(records, NoiseStreams(seed))[0, 0] for seed in range(40)]
    logs = [math.log(entry / 7.0) for entry in found]
    assert np.median(np.abs(logs)) < 0.5
