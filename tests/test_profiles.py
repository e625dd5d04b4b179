"""Privacy of Riemannian noise: against high precision, closed forms, and what must not pass."""

import importlib.util
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr, ndtr, ndtri_exp

from skriemdp.privacy._calibration import gaussian_epsilon, log_gaussian_delta
from skriemdp.privacy._events import GaussianEvent, compose, event_from_dict
from skriemdp.riemannian_laws._profile_hockey import (
    _cap_mass,
    _log_delta_nested,
    log_complement,
    log_delta,
    log_delta_direct,
    log_second_share,
)
from skriemdp.riemannian_laws._profile_integrand import RadialPair
from skriemdp.riemannian_laws._profile_mu import (
    _gaussian_logs,
    _mu_of_profile,
    certified_mu,
    delta_floor,
    is_gdp,
    mu_at_zero,
    mu_estimate,
    mu_floor,
    tail_line,
)
from skriemdp.riemannian_laws._profile_release import RadialRelease
from skriemdp.riemannian_laws._profile_spd import MatrixRelease
from skriemdp.riemannian_laws._profiles import (
    InfeasibleTarget,
    RiemannianEvent,
    calibrated_riemannian_event,
)
from skriemdp.riemannian_laws._quadrature import QuadratureError, integrate

ROOT = Path(__file__).parents[1]
CASES = json.loads((ROOT / "tests/data/riemannian_profiles.json").read_text())


def pair_of(case):
    return RadialPair(*(case[k] for k in ("law", "kind", "dim", "distance", "scale")))


def name_of(case):
    return "-".join(str(case[k]) for k in ("law", "kind", "dim", "distance", "scale", "epsilon"))


# ---- accuracy --------------------------------------------------------------------------------


def test_the_hard_cases_are_hard():
    logs = np.array([float(case["log_delta"]) for case in CASES])
    assert len(CASES) >= 100
    assert logs.min() < math.log(1e-250) and max(case["dim"] for case in CASES) == 200


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_log_delta_against_high_precision(case):
    pair, epsilon = pair_of(case), case["epsilon"]
    exact = float(case["log_delta"])
    assert abs(log_delta(pair, epsilon)[0] - exact) <= 1e-9
    upper = RadialRelease(pair).log_delta_upper([epsilon])[0]
    assert exact <= upper <= exact + 1e-7
    quick = RadialRelease(pair)._quick_log_delta_upper([epsilon])[0]
    assert exact <= quick <= exact + 1e-7


@pytest.mark.parametrize("case", [c for c in CASES if float(c["log_delta"]) > -20], ids=name_of)
def test_log_complement_against_high_precision(case):
    exact = float(case["log_complement"])
    assert_allclose(log_complement(pair_of(case), case["epsilon"])[0], exact, atol=1e-13, rtol=1e-8)


@pytest.mark.parametrize("case", [c for c in CASES if c["epsilon"] == 0.0], ids=name_of)
def test_mu_at_zero_against_high_precision(case):
    exact = -2.0 * float(ndtri_exp(float(case["log_complement"]) - math.log(2.0)))
    assert_allclose(mu_at_zero(pair_of(case)), exact, rtol=1e-9, atol=1e-9 * 1e-3)


def _script(path):
    folder = str((ROOT / path).parent)
    if folder not in sys.path:  # scripts import their neighbours
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("index", [0, pytest.param(30, marks=pytest.mark.slow)])
def test_the_stored_reference_can_be_computed_again(index):
    mpmath = pytest.importorskip("mpmath")
    case = CASES[index]
    arguments = (case[k] for k in ("law", "kind", "dim", "distance", "scale"))
    pair = _script("benchmarks/reference_profiles.py").Pair(*arguments, 40)
    log_value, _ = pair.log_delta(case["epsilon"])
    assert abs(float(log_value - mpmath.mpf(case["log_delta"]))) < 1e-15


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 7, 20, 200])
@pytest.mark.parametrize("distance", [1e-4, 0.1, 1.0, 5.0])
def test_flat_gaussian_is_the_gaussian_profile(dim, distance):
    epsilon = distance * np.array([0.0, 1e-3, 1.0, 10.0, 30.0, 95.0]) + 0.5 * distance**2
    expected = [log_gaussian_delta(distance, e) for e in epsilon]
    value = log_delta(RadialPair("gaussian", 0, dim, distance, 1.0), epsilon)
    assert min(expected) < -4000
    assert_allclose(value, expected, rtol=1e-13, atol=2e-11)


def _circle_log_delta(distance, sigma, epsilon):
    """Closed form on the circle: truncated normal pieces, each difference on its tail side."""
    far = 2.0 * math.pi - distance
    low, high = (x / sigma for x in (distance / 2, far / 2))
    shift = sigma * epsilon / distance, sigma * epsilon / far
    total = ndtr(math.pi / sigma) - ndtr(-math.pi / sigma)

    # {loss >= epsilon}, seen from the first centre at 0, the second at `distance`: the arc from
    # u = distance/2 - sigma**2 epsilon / distance backwards to -far/2 + sigma**2 epsilon / far.
    def piece(a, b):
        if a > 0:
            a, b = -b, -a
        return float(np.exp(log_ndtr(b)) - np.exp(log_ndtr(a))) if a < b else 0.0

    first = piece(-high + shift[1], low - shift[0])
    # Seen from the second centre: from there backwards to the antipode, and on from behind it.
    edge = -math.pi / sigma
    second = piece(edge, -low - shift[0]) + piece(edge, -high - shift[1])
    return math.log((first - math.exp(epsilon) * second) / total)


@pytest.mark.parametrize(
    "distance, sigma, epsilon",
    [(1.0, 1.0, 0.5), (1.0, 1.0, 2.0), (0.3, 2.0, 0.05), (2.0, 0.5, 3.0), (0.1, 0.2, 1.0)],
)
def test_circle_closed_form(distance, sigma, epsilon):
    value = log_delta(RadialPair("gaussian", 1, 1, distance, sigma), epsilon)[0]
    assert_allclose(value, _circle_log_delta(distance, sigma, epsilon), rtol=1e-11)


@pytest.mark.parametrize("distance", [1e-3, 0.5, 4.0])
def test_line_laplace_closed_form(distance):
    epsilon = distance * np.array([0.0, 0.3, 0.99, 0.999999])
    expected = np.log(-np.expm1(0.5 * (epsilon - distance)))
    assert_allclose(
        log_delta(RadialPair("laplace", 0, 1, distance, 1.0), epsilon), expected, atol=1e-9
    )


@pytest.mark.parametrize(
    "pair, epsilon",
    [
        (RadialPair("gaussian", 1, 3, 0.5, 0.7), [0.1, 1.0]),
        (RadialPair("gaussian", -1, 4, 1.0, 0.7), [0.1, 6.0]),
        (RadialPair("laplace", -1, 3, 1.0, 0.3), [0.1, 2.0]),
        (RadialPair("gaussian", -1, 10, 2.0, 3.0), [0.1, 3.0]),  # noise as wide as the space
    ],
)
def test_nested_form_agrees_with_the_direct_one(pair, epsilon):
    epsilon = np.array(epsilon)
    direct, cancellation = log_delta_direct(pair, epsilon)
    assert (cancellation < 1e3).all()
    assert_allclose(
        _log_delta_nested(pair, epsilon, pair.epsilon_max - epsilon), direct, atol=1e-11
    )


FAMILIES = [
    ("gaussian", 1, 2, 0.7),
    ("gaussian", 1, 5, 2.0),
    ("gaussian", -1, 2, 0.7),
    ("gaussian", -1, 6, 2.0),
    ("laplace", 1, 3, 0.4),
    ("laplace", -1, 3, 0.4),
    ("laplace", 0, 2, 1.0),
]


@pytest.mark.parametrize("law, kind, dim, scale", FAMILIES)
def test_tail_share_is_minus_the_slope(law, kind, dim, scale):
    pair, epsilon, h = RadialPair(law, kind, dim, 1.0, scale), 0.4, 1e-4
    left, right = np.exp(log_delta(pair, [epsilon - h, epsilon + h]))
    share = math.exp(log_second_share(pair, epsilon)[0])
    assert_allclose((left - right) / (2 * h), share, rtol=1e-6)


@pytest.mark.parametrize("law, kind, dim, scale", FAMILIES)
def test_delta_grows_with_distance_and_is_convex(law, kind, dim, scale):
    epsilon = np.linspace(0.0, 2.0, 21)
    distances = [0.1, 0.5, 1.0, 2.0, 3.0] + ([math.pi] if kind > 0 else [6.0])
    deltas = np.array(
        [np.exp(log_delta(RadialPair(law, kind, dim, a, scale), epsilon)) for a in distances]
    )
    assert (np.diff(deltas, axis=0) >= -1e-13).all()
    slope = np.diff(deltas, axis=1) / np.diff(np.exp(epsilon))
    assert (np.diff(slope, axis=1) >= -1e-12).all()


# ---- mu --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, dim, sigma, expected",
    [
        (1, 1, 1.0, 0.98316921), (1, 1, 4.0, 0.10024998), (1, 2, 0.25, 3.95571301),
        (1, 2, 4.0, 0.07034128), (1, 5, 1.0, 0.59747174), (-1, 2, 1.0, 1.16122386),
        (-1, 2, 4.0, 0.78643012), (-1, 5, 0.25, 4.16319373), (-1, 5, 4.0, 1.84538549),
    ],
)  # fmt: skip
def test_mu_table(kind, dim, sigma, expected):
    assert_allclose(mu_estimate(RadialPair("gaussian", kind, dim, 1.0, sigma)), expected, atol=6e-9)


def test_supremum_leaves_zero_on_far_apart_hyperbolic_centres():
    pair = RadialPair("gaussian", -1, 3, 8.0, 1.0)
    assert mu_estimate(pair) > 1.015 * mu_at_zero(pair)
    (case,) = [c for c in CASES if pair_of(c) == pair and c["epsilon"] == 20.0]
    # The high-precision delta at epsilon = 20 alone shows more than mu at zero.
    delta, complement = _gaussian_logs(1.006 * mu_at_zero(pair), 20.0)
    assert complement > float(case["log_complement"])
    delta, complement = _gaussian_logs(mu_estimate(pair), 20.0)
    assert complement <= float(case["log_complement"])


def test_the_published_algorithms_and_figure():
    paper = _script("examples/reproductions/jiang2023_mu.py")
    circle, rng = paper.Sphere(1), np.random.default_rng(0)
    for sigma, published in ((0.5, 1.999), (1.0, 0.982), (4.0, 0.0996)):
        # The published values are the lower ends of a bisection to 1e-3, rounded.
        mu = paper.algorithm_1(1.0, sigma)
        assert -1e-4 < mu - published < 1.6e-3
        assert_allclose(mu, paper.exact_mu(circle, 1.0, sigma), rtol=1e-3)
    # Monte Carlo is biased upwards where mu is large: 2.17 to 2.18 published, 2.00 true.
    found = paper.algorithm_2(circle, 1.0, 0.5, rng, m=20, clipped=True)
    assert 2.05 < found < 2.35
    distance, rows = paper.third_panel()
    assert_allclose(distance, 0.12146, atol=5e-6)
    k, mu, gauss, laplace, true_mu, equal = rows[2]
    expected = (4, 0.998, 0.152, 0.295, 0.62, 0.179)
    assert_allclose((k, mu, gauss, laplace, true_mu, equal), expected, atol=6e-3)


CERTIFIED = [
    RadialPair("gaussian", 1, 2, 1.0, 1.0),
    RadialPair("gaussian", 1, 2, 0.01, 0.01),  # as good as flat
    RadialPair("gaussian", 1, 20, 0.1, 0.3),
    RadialPair("gaussian", -1, 2, 1.0, 1.0),
    RadialPair("gaussian", -1, 2, 0.3, 0.05),
    RadialPair("gaussian", -1, 3, 8.0, 1.0),
    RadialPair("gaussian", -1, 50, 1.0, 3.0),
    RadialPair("laplace", 1, 2, 0.1, 0.3),
    RadialPair("laplace", -1, 3, 0.3, 0.2),
    RadialPair("laplace", 0, 3, 1.0, 1.0),
]


@pytest.mark.parametrize("pair", CERTIFIED, ids=str)
def test_certified_mu(pair):
    mu, estimate = certified_mu(pair), mu_estimate(pair)
    assert estimate <= mu <= 1.0011 * estimate
    epsilon = np.linspace(0.0, min(pair.epsilon_max * 0.999, mu * (mu + 20.0)), 57)
    assert (log_delta(pair, epsilon) <= _gaussian_logs(mu, epsilon)[0] + 1e-9).all()
    assert not is_gdp(pair, estimate * (1.0 - 1e-4))


def test_flat_formula_is_refused_on_hyperbolic_space():
    pair = RadialPair("gaussian", -1, 5, 0.3, 1.0)
    assert not is_gdp(pair, pair.distance / pair.scale)
    assert_allclose(mu_estimate(pair), 0.5654, atol=5e-5)


@pytest.mark.parametrize(
    "pair",
    [
        RadialPair("gaussian", 1, 2, 0.5, 0.1),
        RadialPair("gaussian", 1, 7, 1.0, 0.3),
        RadialPair("gaussian", 0, 4, 1.0, 1.0),
        RadialPair("gaussian", -1, 2, 1.0, 0.3),
        RadialPair("gaussian", -1, 10, 3.0, 2.0),
    ],
    ids=str,
)
def test_tail_bounds_are_bounds(pair):
    release = RadialRelease(pair)
    epsilon = np.linspace(0.0, min(2.0 * release.reach, 0.99 * pair.epsilon_max), 60)
    assert (release._tail_bound(epsilon) + 1e-10 >= log_delta(pair, epsilon)).all()
    assert release.log_delta_upper([release.reach])[0] <= math.log(1e-21)


def test_floors():
    assert_allclose(mu_floor(5, 1.0), 1.84538549, atol=1e-8)
    assert_allclose(mu_floor(2, 0.1), 0.07978, atol=5e-6)
    assert_allclose(delta_floor(2, 1.0, 0.3), 0.20049946, atol=1e-8)
    assert delta_floor(2, 1.0, 1.0) == 0.0
    wide = RadialPair("gaussian", -1, 2, 1.0, 40.0)
    assert_allclose(mu_at_zero(wide), mu_floor(2, 1.0), atol=1e-9)
    assert_allclose(np.exp(log_delta(wide, 0.3)[0]), delta_floor(2, 1.0, 0.3), rtol=2e-4)
    laplace = RadialPair("laplace", -1, 3, 1.0, 0.4999)
    assert_allclose(mu_at_zero(laplace), mu_floor(3, 1.0), rtol=2e-3)


# ---- events ----------------------------------------------------------------------------------

EVENTS = [
    RiemannianEvent("gaussian", "sphere", 2, 1.0, 0.3, 1.0),
    RiemannianEvent("gaussian", "sphere", 1, 0.25, 0.3, 1.0),
    RiemannianEvent("gaussian", "hyperbolic", 2, -1.0, 0.3, 1.0),
    RiemannianEvent("laplace", "hyperbolic", 3, -0.5, 0.3, 0.4),
    RiemannianEvent("laplace", "sphere", 2, 1.0, 1.0, 0.5),
    RiemannianEvent("laplace", "euclidean", 2, 0.0, 1.0, 2.0),
]


@pytest.mark.parametrize("dim", [0, 2.5, True])
def test_a_dimension_is_a_count(dim):
    with pytest.raises((ValueError, TypeError), match="dim"):
        RiemannianEvent("gaussian", "sphere", dim, 1.0, 0.3, 1.0)


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_event_laws(event):
    assert event_from_dict(json.loads(json.dumps(event.to_dict()))) == event
    assert hash(event) is not None
    for delta in (1e-3, 1e-8):
        epsilon = event.epsilon(delta)
        assert event.delta(epsilon) <= delta
        assert event.delta(0.999 * epsilon) > delta
    assert event.delta(0.2) >= math.exp(log_delta(event.profile.pair, 0.2)[0])
    loss = event.privacy_loss_distribution(1e-3)
    for epsilon in (0.1, 0.45, 0.5 * event.epsilon(1e-8)):
        exact = math.exp(log_delta(event.profile.pair, epsilon)[0])
        assert exact <= loss.get_delta_for_epsilon(epsilon) * (1 + 1e-9) <= 1.01 * exact + 1e-12
    epsilons = [-0.3, 0.1, 0.45]
    alone = [loss.get_delta_for_epsilon(epsilon) for epsilon in epsilons]
    assert_allclose(loss.get_delta_for_epsilon(epsilons), alone, atol=1e-14)
    bound = event.gdp_bound
    assert event.delta(0.3) <= math.exp(log_gaussian_delta(bound, 0.3)) * (1 + 1e-9)


def test_curvature_is_a_unit_of_length():
    event = RiemannianEvent("gaussian", "hyperbolic", 3, -4.0, 0.3, 0.5)
    unit = RiemannianEvent("gaussian", "hyperbolic", 3, -1.0, 0.6, 1.0)
    assert_allclose(event.delta(0.5), unit.delta(0.5), rtol=1e-12)
    flat = RiemannianEvent("gaussian", "hyperbolic", 1, -4.0, 0.3, 0.5)
    assert flat.mu == 0.6


@pytest.mark.parametrize(
    "event, delta, expected",
    [
        (EVENTS[0], 1e-5, 3.28558), (EVENTS[0], 1e-8, 4.32875), (EVENTS[2], 1e-5, 4.87142),
        (RiemannianEvent("gaussian", "euclidean", 3, 0.0, 0.3, 1.0), 1e-5, 4.11864),
    ],
)  # fmt: skip
def test_ten_releases(event, delta, expected):
    assert_allclose(compose([event] * 10).epsilon(delta), expected, rtol=1e-4)


def test_flat_composition_is_gaussian(in_dp_accounting):
    event = EVENTS[2]
    mixed = compose([event, GaussianEvent(4.0)]).epsilon(1e-6)
    assert event.epsilon(1e-6) < mixed
    flat = RiemannianEvent("gaussian", "euclidean", 3, 0.0, 1.0, 2.0)
    loss = in_dp_accounting(flat.privacy_loss_distribution(1e-3)).self_compose(10)
    exact = gaussian_epsilon(math.sqrt(10) / 2.0, 1e-6)
    assert exact - 1e-9 <= loss.get_epsilon_for_delta(1e-6) <= exact * (1 + 1e-4)


def test_line_laplace_against_dp_accounting(in_dp_accounting):
    theirs = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    event = RiemannianEvent("laplace", "euclidean", 1, 0.0, 1.0, 2.0)
    loss = in_dp_accounting(event.privacy_loss_distribution(1e-3))
    other = theirs.from_laplace_mechanism(2.0, value_discretization_interval=1e-4)
    for count in (1, 8):
        ours = loss.self_compose(count).get_delta_for_epsilon(0.3 * count)
        exact = other.self_compose(count).get_delta_for_epsilon(0.3 * count)
        assert_allclose(ours, exact, rtol=2e-3)


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_loss_distributions_agree_with_those_of_dp_accounting(event, interval=1e-2):
    """Chords between the same points of the profile, ours rounded up."""
    made = pytest.importorskip("dp_accounting.pld.pld_pmf").create_pmf_pessimistic_connect_dots
    loss = event.privacy_loss_distribution(interval)
    places = np.flatnonzero(loss.masses[-loss.lower :] > 0.0)
    places = np.unique(np.append(0, places))
    deltas = np.array([event.delta(place * interval) for place in places])
    mirrored = -np.expm1(-places[1:] * interval) + np.exp(-places[1:] * interval) * deltas[1:]
    theirs = made(
        interval,
        np.concatenate([-places[:0:-1], places]),
        np.concatenate([np.minimum(mirrored[::-1], 1.0), np.minimum.accumulate(deltas)]),
    )
    for epsilon in np.linspace(0.0, places[-1] * interval, 23):
        ours, other = loss.get_delta_for_epsilon(epsilon), theirs.get_delta_for_epsilon(epsilon)
        assert event.delta(epsilon) * (1 - 1e-9) - 1e-15 <= ours
        assert ours == pytest.approx(other, rel=1e-4, abs=1e-14)


def _renyi_by_quadrature(pair, alpha):
    """``log E_P exp((alpha - 1) L) / (alpha - 1)`` in polar coordinates around the first centre."""
    S, C = {1: (np.sin, np.cos), -1: (np.sinh, np.cosh)}[pair.kind]
    a, s, n = pair.distance, pair.scale, pair.dim - 1
    top = math.pi if pair.kind > 0 else n * s * s + (alpha * a / s + 14.0) * s
    x, w = np.polynomial.legendre.leggauss(600)
    y, v = np.polynomial.legendre.leggauss(240)
    r, w = 0.5 * top * (x + 1.0)[:, None], 0.5 * top * w[:, None]
    phi, v = 0.5 * math.pi * (y + 1.0)[None], 0.5 * math.pi * v[None]
    cosine = C(r) * C(a) + pair.kind * S(r) * S(a) * np.cos(phi)
    d2 = np.arccos(np.clip(cosine, -1, 1)) if pair.kind > 0 else np.arccosh(np.maximum(cosine, 1))
    potential = (lambda t: t / s) if pair.law == "laplace" else (lambda t: 0.5 * (t / s) ** 2)
    log_weight = n * np.log(S(r)) + (n - 1) * np.log(np.sin(phi)) - potential(r)
    tilted = log_weight + (alpha - 1.0) * (potential(d2) - potential(r))
    shift = tilted.max()
    moment = np.log((w * v * np.exp(tilted - shift)).sum()) + shift
    return (moment - np.log((w * v * np.exp(log_weight)).sum())) / (alpha - 1.0)


@pytest.mark.parametrize("alpha", [1.5, 8.0, 32.0])
@pytest.mark.parametrize(
    "pair",
    [
        RadialPair("gaussian", 1, 2, 0.3, 1.0),
        RadialPair("gaussian", -1, 2, 0.3, 1.0),
        RadialPair("gaussian", -1, 3, 2.0, 0.8),
        RadialPair("laplace", 1, 3, 1.0, 0.4),
    ],
    ids=str,
)
def test_renyi_bounds_the_divergence_tightly(pair, alpha):
    exact = _renyi_by_quadrature(pair, alpha)
    assert exact * (1 - 1e-7) <= RadialRelease(pair).renyi(alpha) <= 1.002 * exact


def test_renyi_of_infinite_order_is_the_pure_epsilon():
    assert EVENTS[4].renyi(math.inf) == pytest.approx(2.0)
    assert EVENTS[2].renyi(math.inf) == math.inf
    assert EVENTS[0].renyi(math.inf) == pytest.approx(0.3 * (2 * math.pi - 0.3) / 2)


# ---- two by two matrices ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "distance, sigma, epsilon", [(0.5, 1.0, 0.5), (1.0, 0.6, 4.0), (0.5, 2.4, 1.0)]
)
def test_matrix_bound_covers_every_direction(distance, sigma, epsilon):
    bound = MatrixRelease(distance, sigma).delta(epsilon)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    exact = []
    for theta in np.linspace(0.02, math.pi / 2, 7):
        root = math.sqrt(0.5)
        plane = RadialPair("gaussian", -1, 2, distance * math.sin(theta) * root, sigma * root)
        mu = distance * math.cos(theta) / sigma
        level = epsilon - (0.5 * mu * mu + mu * nodes)
        size = np.abs(level)
        value = np.exp(log_delta(plane, size))
        value = np.where(level >= 0, value, 1.0 - np.exp(-size) * (1.0 - value))
        exact.append(weights @ value)
    assert max(exact) <= bound <= 1.07 * max(exact)
    assert np.argmax(exact) == len(exact) - 1  # all of the move in the plane
    flat = math.exp(log_gaussian_delta(distance / sigma, epsilon))
    assert bound > flat


def test_matrix_event():
    event = RiemannianEvent("gaussian", "spd", 3, -0.5, 0.5, 1.0)
    epsilon = event.epsilon(1e-5)
    assert event.delta(epsilon) <= 1e-5
    assert epsilon > gaussian_epsilon(0.5, 1e-5)
    assert event.delta(1.0) <= math.exp(log_gaussian_delta(event.gdp_bound, 1.0))
    loss = event.privacy_loss_distribution(1e-3)
    # Two proved bounds of all directions, each close to the direction that is worst.
    plane = math.exp(log_delta(event.profile.worst_pair, np.array([1.0]))[0])
    assert plane <= loss.get_delta_for_epsilon(1.0) <= 1.02 * plane
    assert plane <= event.delta(1.0) <= 1.02 * plane
    assert event.renyi(2.0) >= 0.25


# ---- calibration -----------------------------------------------------------------------------

TARGETS = [
    ("gaussian", "sphere", 2, 1.0),
    ("gaussian", "sphere", 1, 0.04),
    ("gaussian", "hyperbolic", 2, -1.0),
    ("gaussian", "hyperbolic", 5, -2.0),
    ("gaussian", "euclidean", 3, 0.0),
    ("laplace", "sphere", 2, 1.0),
    ("laplace", "hyperbolic", 3, -1.0),
]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_calibration_to_epsilon_and_delta(target):
    event = calibrated_riemannian_event(*target, 0.1, epsilon=1.0, delta=1e-5)
    assert event.delta(1.0) <= 1e-5
    narrower = RiemannianEvent(*target, 0.1, event.scale * (1.0 - 1e-6))
    assert narrower.delta(1.0) > 1e-5


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_calibration_to_mu(target):
    event = calibrated_riemannian_event(*target, 0.1, mu=1.0)
    assert 0.998 <= event.gdp_bound <= 1.0 + 1e-12


def test_pure_calibration():
    event = calibrated_riemannian_event("laplace", "sphere", 2, 1.0, 0.1, epsilon=0.7, delta=0.0)
    assert event.epsilon(0.0) <= 0.7 and event.scale == pytest.approx(0.1 / 0.7)
    event = calibrated_riemannian_event("gaussian", "sphere", 2, 1.0, 0.1, epsilon=0.7, delta=0.0)
    assert event.epsilon(0.0) <= 0.7 and event.delta(0.7) == 0.0
    with pytest.raises(ValueError, match="delta=0 needs the Laplace law"):
        calibrated_riemannian_event("gaussian", "hyperbolic", 2, -1.0, 0.1, epsilon=1, delta=0)


@pytest.mark.parametrize(
    "law, keywords, floor",
    [
        ("gaussian", {"mu": 1.0}, 1.84538549),
        ("laplace", {"mu": 1.8}, 1.84538549),
        ("gaussian", {"epsilon": 1.0, "delta": 0.1}, None),
        ("laplace", {"epsilon": 3.9, "delta": 0.0}, 4.0),
    ],
)
def test_targets_below_the_floor_are_refused(law, keywords, floor):
    with pytest.raises(InfeasibleTarget, match="cannot be reached") as error:
        calibrated_riemannian_event(law, "hyperbolic", 5, -1.0, 1.0, **keywords)
    expected = delta_floor(5, 1.0, 1.0) if floor is None else floor
    assert_allclose(error.value.floor, expected, rtol=1e-6)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("laplace", "hyperbolic", 3, -1.0, 0.1, 0.5), r"1 / scale must exceed .* = 2"),
        (("gaussian", "sphere", 2, 1.0, 3.2, 0.5), "largest distance"),
        (("gaussian", "sphere", 2, -1.0, 0.1, 0.5), "must be positive"),
        (("gaussian", "hyperbolic", 2, 1.0, 0.1, 0.5), "must be negative"),
        (("gaussian", "euclidean", 2, 1.0, 0.1, 0.5), "must be 0"),
        (("gaussian", "spd", 6, -0.5, 0.1, 0.5), "tangent space"),
        (("laplace", "spd", 3, -0.5, 0.1, 0.5), "PureEvent"),
        (("cauchy", "sphere", 2, 1.0, 0.1, 0.5), "law="),
        (("gaussian", "sphere", 0, 1.0, 0.1, 0.5), "dim"),
        (("gaussian", "sphere", 2, 1.0, 0.0, 0.5), "sensitivity"),
    ],
)
def test_bad_events_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        RiemannianEvent(*arguments)


def test_half_the_noise_is_not_enough():
    """Mutation: every check above that guards a calibration notices noise halved."""
    for target in TARGETS:
        event = calibrated_riemannian_event(*target, 0.1, epsilon=1.0, delta=1e-5)
        halved = RiemannianEvent(*target, 0.1, 0.5 * event.scale)
        assert halved.delta(1.0) > 100 * 1e-5


@pytest.mark.parametrize("sensitivity", [0.2, 1.0, 3.0])
def test_flat_gaussian_noise_answers_like_a_gaussian(sensitivity):
    scale = 1.7
    event = RiemannianEvent("gaussian", "euclidean", 3, 0.0, sensitivity, scale)
    mu = sensitivity / scale
    assert event.mu == pytest.approx(mu, rel=1e-12)
    assert event.epsilon(1e-5) == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-9)
    for order in (1.5, 8.0, 200.0):
        assert 0 <= event.renyi(order) / (0.5 * order * mu**2) - 1 < 1e-9


@pytest.mark.parametrize("name", ["sensitivity", "scale"])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_riemannian_events_refuse_bad_numbers(name, bad):
    good = {"sensitivity": 0.2, "scale": 0.5}
    with pytest.raises(ValueError, match=name):
        RiemannianEvent("gaussian", "sphere", 2, 1.0, **good | {name: bad})


@pytest.mark.parametrize("alpha", [1.5, 4.0, 20.0])
@pytest.mark.parametrize("pair", [(2, 0.3, 1.0), (5, 1.0, 0.4)])
def test_the_tail_of_renyi_divergences_bounds_what_it_leaves_out(pair, alpha):
    pair = RadialPair("gaussian", -1, *pair)
    top, log_tail = RadialRelease(pair)._tail(alpha)
    m, shift, log_constant = tail_line(pair)
    # Beyond `top`, delta(e) <= C Phi(-(e / m - shift)).
    e = top + m * np.linspace(0.0, 30.0, 200_001)
    logs = (alpha - 1.0) * e + log_constant + log_ndtr(-(e / m - shift))
    logs += np.log1p(np.exp((1.0 - 2.0 * alpha) * e))
    exact = logs.max() + math.log(np.exp(logs - logs.max()).sum() * (e[1] - e[0]))
    assert exact <= log_tail <= exact + 6.0
    assert log_tail < -40.0
    # The hyperbolic profile itself lies below that line.
    start = m * shift
    for epsilon in start + m * np.array([0.5, 2.0, 4.0]):
        bound = log_constant + log_ndtr(-(epsilon / m - shift))
        assert log_delta(pair, np.array([epsilon]))[0] <= bound + 1e-9
        release = RadialRelease(pair)
        found = release._tail_bound(np.array([epsilon]))[0]
        assert log_delta(pair, np.array([epsilon]))[0] - 1e-9 <= found <= bound + 1e-9


@pytest.mark.parametrize("distance, scale", [(1.3, 2.0), (6.0, 1.0)])
def test_flat_gaussian_pairs_have_one_mu_at_every_epsilon(distance, scale):
    pair, mu = RadialPair("gaussian", 0, 3, distance, scale), distance / scale
    epsilon = np.array([0.0, 0.1, 1.0, 3.0, 8.0, 20.0])
    assert_allclose(_mu_of_profile(pair, epsilon), mu, rtol=1e-9)
    release = RadialRelease(pair)
    for order in (1.5, 3.0, 90.0):
        assert 0 <= release.renyi(order) / (0.5 * order * mu**2) - 1 < 1e-11
    # What is put on top is the margin of 1e-10, and no more than another 1e-11.
    above = release.log_delta_upper(epsilon) - [log_gaussian_delta(mu, e) for e in epsilon]
    assert (above > 0.9e-10).all() and (above < 1.1e-10).all()


@pytest.mark.parametrize(
    "pair",
    [
        RadialPair("laplace", 1, 3, 1.0, 0.4),
        RadialPair("laplace", -1, 3, 1.0, 0.4),
        RadialPair("gaussian", 1, 3, 1.0, 0.4),
    ],
    ids=str,
)
def test_deltas_lost_to_rounding_are_rounded_up_among_others(pair):
    """At the largest loss, as floats have it, the quadrature sees nothing; the answer is not 0."""
    epsilon = pair.epsilon_max * np.array([0.5, 1.0, 1.0 + 1e-13])
    for upper in (RadialRelease(pair).log_delta_upper, RadialRelease(pair)._quick_log_delta_upper):
        together = upper(epsilon)
        assert together[0] > together[1] > together[2] == -np.inf
        assert_allclose(together, [upper(np.array([e]))[0] for e in epsilon], rtol=1e-12)


def test_masses_around_the_antipode_do_not_depend_on_their_neighbours():
    pair, rest = RadialPair("gaussian", 1, 3, 1.0, 0.001), np.array([1e-3, 0.5, 3.0])
    together = _cap_mass(pair, rest)
    assert (together[:2] == -np.inf).all() and -2e4 < together[2] < -1e4
    assert_allclose(together, [_cap_mass(pair, rest[k : k + 1])[0] for k in range(3)], rtol=1e-12)


def test_a_narrow_peak_far_from_the_first_one_is_found():
    """Its height is e^5 that of the broad one; nodes of grid and search are 14 widths away."""
    place, width = 7.323868930940326, 0.02

    def evaluate(_, t):
        narrow = 5.0 - 0.5 * ((t - place) / width) ** 2
        return np.logaddexp(-0.5 * t * t, narrow), np.ones((1, *t.shape))

    factor, total = integrate(evaluate, 1, (-30.0, 30.0))
    exact = math.sqrt(2.0 * math.pi) * (1.0 + math.exp(5.0) * width)
    assert_allclose(np.exp(factor) * total, [[exact]], rtol=1e-9)


def test_a_needle_that_the_search_for_peaks_missed_is_refused():
    """It sits where only the first nodes of the rule meet it, exp(30) above all that was seen."""
    met = []

    def evaluate(_, t):
        log_scale = -0.5 * t * t
        if t.shape[1] == 97:  # the first nodes, 96 intervals
            log_scale[:, 5] = 30.0
            met.append(t[0, 5])
        return log_scale, np.ones((1, *t.shape))

    with pytest.raises(QuadratureError, match="missed"):
        integrate(evaluate, 1, (-30.0, 30.0))
    assert len(met) == 1
