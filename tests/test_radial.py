"""Radial noise: profile against closed forms and other quadratures; calibration; composition."""

import json
import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc, gammaln

from skriemdp.privacy import radial_profile
from skriemdp.privacy._quadrature import integrate
from skriemdp.privacy.calibration import gaussian_delta, gaussian_epsilon, gaussian_mu
from skriemdp.privacy.events import compose, event_from_dict
from skriemdp.privacy.radial import (
    EXPONENTS,
    RadialEvent,
    best_radial_law,
    calibrated_radial_law,
)
from skriemdp.privacy.radial_profile import _cap, _log_cap, log_renyi_tail, radial_delta
from skriemdp.privacy.radial_search import guessed_shifts

# -- the profile ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 2, 3, 7, 21, 55, 200, 2000])
@pytest.mark.parametrize("mu", [0.01, 0.05746, 0.268, 1.0, 5.0])
def test_exponent_two_is_gaussian(dim, mu):
    shift = mu / math.sqrt(2.0)
    epsilons = np.array([0.0, 0.01, 0.1, 0.5, 1.0, 3.0, shift**2 * 0.999, shift**2, 12.0])
    exact = np.array([gaussian_delta(mu, e) for e in epsilons])
    kept = exact > 1e-240
    ours = radial_delta(dim, 2.0, shift, epsilons)
    np.testing.assert_allclose(ours[kept], exact[kept], rtol=1e-9)
    assert (ours[kept] >= exact[kept] * (1 - 2e-10)).all()  # `exact` is rounded up by 1e-10


@pytest.mark.parametrize("shift", [1e-4, 0.1, 1.0, 8.0])
def test_exponent_one_in_one_dimension_is_laplace(shift):
    epsilons = shift * np.array([0.0, 0.2, 0.7, 0.999, 1.0, 1.5])
    exact = -np.expm1(np.minimum(epsilons - shift, 0.0) / 2.0)
    ours = radial_delta(1, 1.0, shift, epsilons)
    np.testing.assert_allclose(ours, exact, rtol=1e-10, atol=4e-13)
    assert (ours >= exact).all()
    assert (ours[-2:] == 0.0).all()


@pytest.mark.parametrize("p", [1.0, 1.2, 1.5, 1.9])
@pytest.mark.parametrize("shift", [0.03, 0.7, 4.0])
def test_one_dimension_has_a_closed_form(p, shift):
    def cdf(x):
        return 0.5 * (1.0 + math.copysign(gammainc(1.0 / p, abs(x) ** p), x))

    for epsilon in (0.0, 0.1 * shift, 0.6 * shift, 0.95 * shift):
        # The loss |x - shift|^p - |x|^p decreases in x: the worst set is a half-line.
        edge = brentq(
            lambda x, e=epsilon: abs(x - shift) ** p - abs(x) ** p - e, -60.0, shift, xtol=1e-15
        )
        exact = cdf(edge) - math.exp(epsilon) * cdf(edge - shift)
        (ours,) = radial_delta(1, p, shift, [epsilon])
        assert ours == pytest.approx(exact, rel=1e-7, abs=2e-14)


def panels(edges, nodes=20):
    x, w = np.polynomial.legendre.leggauss(nodes)
    low, high = np.asarray(edges[:-1]), np.asarray(edges[1:])
    half = 0.5 * (high - low)[..., None]
    return (low[..., None] + half * (x + 1.0)).ravel(), (half * w).ravel()


def direct_delta(dim, p, shift, epsilon):
    """Positive part of f(x) - e^epsilon f(x - shift e), in coordinates along e and across it."""
    graded = np.concatenate([[0.0], np.geomspace(1e-9, 60.0 ** (1.0 / p) + 3.0, 40)])
    across, across_weight = panels(graded)
    total = 0.0
    for rho, weight in zip(across, across_weight, strict=True):

        def loss(s, rho=rho):
            return np.hypot(s - shift, rho) ** p - np.hypot(s, rho) ** p

        far = 60.0 ** (1.0 / p) + shift + 3.0
        if loss(-far) <= epsilon:
            continue
        edge = (
            brentq(lambda s: loss(s) - epsilon, -far, far, xtol=1e-14)
            if loss(far) < epsilon
            else far
        )
        grid = np.concatenate([-graded[::-1], graded, shift - graded, shift + graded])
        points = np.unique(np.clip(np.append(grid, edge), -far, edge))
        s, w = panels(points, 12)
        here = np.exp(-(np.hypot(s, rho) ** p))
        there = np.exp(epsilon - np.hypot(s - shift, rho) ** p)
        total += weight * rho ** (dim - 2) * float(w @ (here - there))
    # Across e: the sphere S^(dim-2).  The normaliser: S^(dim-1) times Gamma(dim/p)/p.
    log_constant = (
        math.log(2.0)
        + 0.5 * (dim - 1) * math.log(math.pi)
        - gammaln(0.5 * (dim - 1))
        - (math.log(2.0) + 0.5 * dim * math.log(math.pi) - gammaln(0.5 * dim))
        - (gammaln(dim / p) - math.log(p))
    )
    return total * math.exp(log_constant)


@pytest.mark.parametrize(
    ("dim", "p", "shift", "epsilon"),
    [
        (2, 1.0, 1.0, 0.3),
        (2, 1.2, 0.2, 0.1),
        (3, 1.6, 2.0, 1.0),
        (6, 1.4, 0.5, 0.0),
        (12, 1.0, 1.5, 1.0),
    ],
)
def test_direct_integration_over_the_set(dim, p, shift, epsilon):
    (ours,) = radial_delta(dim, p, shift, [epsilon])
    assert ours == pytest.approx(direct_delta(dim, p, shift, epsilon), rel=2e-9)


def reference_delta(dim, p, shift, epsilon):
    """The one-dimensional formula in 40 digits (docs/theory/radial-noise.md)."""
    with mpmath.workdps(40):
        p, a, e = mpmath.mpf(p), mpmath.mpf(shift), mpmath.mpf(epsilon)
        n = dim - 1
        half = mpmath.mpf(n) / 2

        def larger(r):
            return (r**p + e) ** (1 / p)

        near = e < a**p
        edge = (lambda r: r + larger(r) - a) if near else (lambda r: larger(r) - r - a)
        low, high = mpmath.mpf(10) ** -30, a
        while edge(high) * edge(low) > 0:
            high *= 2
        start = mpmath.findroot(edge, (low, high), solver="anderson", tol=1e-60, maxsteps=500)

        def cap(u):
            u = min(max(u, mpmath.mpf(0)), mpmath.mpf(1))
            return mpmath.betainc(half, half, 0, u, regularized=True)

        def integrand(r):
            R = larger(r)
            u = (r + a + R) * (r + a - R) / (4 * r * a)
            v = (R + r - a) * (r + a - R) / (4 * R * a)
            weight = mpmath.exp(-(r**p)) * p / mpmath.gamma(dim / p)
            return weight * (r**n * cap(u) - (r / R) ** (p - 1) * R**n * cap(v))

        width = 1 + start
        edges = [start + width * x for x in [0, *np.geomspace(1e-3, 80, 30).tolist()]]
        pieces = [
            mpmath.quad(integrand, [lo, hi]) for lo, hi in zip(edges[:-1], edges[1:], strict=True)
        ]
        inner = mpmath.gammainc(dim / p, 0, start**p, regularized=True) if near else 0
        return inner + mpmath.fsum(pieces)


@pytest.mark.parametrize(
    ("dim", "p", "shift", "epsilon"),
    [
        (2, 1.2, 0.05, 0.1),
        (4, 1.4, 0.01, 0.02),
        (3, 1.6, 3.0, 9.0),
        (30, 1.2, 0.6, 1.2),
        (60, 1.6, 0.5, 4.0),
    ],
)
def test_never_below_many_digits_and_close(dim, p, shift, epsilon):
    exact = reference_delta(dim, p, shift, epsilon)
    (ours,) = radial_delta(dim, p, shift, [epsilon])
    excess = float((mpmath.mpf(float(ours)) - exact) / exact)
    assert 0.0 <= excess < 1e-9


def test_profile_increases_with_the_shift():
    shifts = np.geomspace(1e-3, 5.0, 60)
    for dim, p in [(1, 1.0), (2, 1.2), (5, 1.7), (40, 1.0)]:
        for epsilon in (0.0, 0.05, 0.5):
            deltas = [float(radial_delta(dim, p, s, [epsilon])[0]) for s in shifts]
            assert (np.diff(deltas) >= -1e-12 * np.asarray(deltas[1:])).all()


# -- the event -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 3, 21])
@pytest.mark.parametrize("p", EXPONENTS)
def test_calibration_is_tight_and_on_the_private_side(dim, p):
    epsilon, delta = 0.7, 1e-5
    law = calibrated_radial_law(dim, p, epsilon, delta)
    assert law.delta(epsilon) <= delta
    slightly_less = RadialEvent(dim, p, law.scale_over_sensitivity * (1.0 - 1e-6))
    assert slightly_less.delta(epsilon) > delta
    assert law.epsilon(delta) == pytest.approx(epsilon, rel=1e-9)
    assert law.delta(law.epsilon(1e-3)) <= 1e-3


# E|v|^2 over that of Gaussian noise at the same (epsilon, delta): the table of
# docs/theory/radial-noise.md, all of it by benchmarks/radial_noise.py.
@pytest.mark.parametrize(
    ("dim", "epsilon", "delta", "ratio", "exponent"),
    [
        (2, 0.1, 1e-3, 0.735, 1.2),
        (10, 0.1, 1e-3, 0.944, 1.4),
        (3, 1.0, 1e-5, 0.284, 1.0),
        (55, 1.0, 1e-5, 0.906, 1.0),
        (6, 1.0, 1e-3, 0.715, 1.2),
    ],
)
def test_best_law_beats_gaussian_noise(dim, epsilon, delta, ratio, exponent):
    law = best_radial_law(dim, epsilon, delta)
    gaussian = dim / gaussian_mu(epsilon, delta) ** 2
    assert law.mean_square_over_sensitivity / gaussian == pytest.approx(ratio, abs=6e-4)
    assert law.exponent == exponent


def test_pure_privacy():
    for epsilon in (0.1, 1.0, 3.0, 1.0 / 3.0):
        law = best_radial_law(5, epsilon, 0.0)
        assert law.exponent == 1.0
        assert law.epsilon(0.0) <= epsilon < law.epsilon(0.0) * (1 + 1e-12)
        assert law.delta(epsilon) == 0.0 < law.delta(0.99 * epsilon)
        assert law.renyi(math.inf) <= epsilon
    with pytest.raises(ValueError, match="delta=0 needs exponent 1"):
        calibrated_radial_law(5, 1.4, 1.0, 0.0)


def test_renyi_of_laplace_noise():
    law = RadialEvent(1, 1.0, 1.0 / 0.8)
    a = law.shift
    for order in (1.001, 1.5, 4.0, 30.0, 800.0):
        exact = np.logaddexp(
            math.log(order / (2 * order - 1)) + (order - 1) * a,
            math.log((order - 1) / (2 * order - 1)) - order * a,
        ) / (order - 1)
        assert exact <= law.renyi(order) <= exact * (1 + 1e-4)


@pytest.mark.parametrize(("dim", "mu"), [(2, 0.05), (10, 0.5), (55, 2.0)])
def test_renyi_next_to_gaussian_noise(dim, mu):
    # The exponent is close enough to 2 to compare, and goes through the general code.
    law = RadialEvent(dim, 2.0 - 1e-9, math.sqrt(2.0) / mu)
    for order in (1.01, 2.0, 5.0, 1.0 + 4.8 / mu):
        assert law.renyi(order) == pytest.approx(0.5 * order * mu**2, rel=2e-4)
        assert law.renyi(order) >= 0.5 * order * mu**2 * (1 - 1e-6)
    order = 100.0 / mu  # dominated by the tail bound
    assert 1.0 <= law.renyi(order) / (0.5 * order * mu**2) < 1.6


def test_renyi_tail_bounds_the_integral_beyond():
    dim, p, shift, order, start = 3, 1.5, 0.8, 6.0, 1.0
    epsilons = np.linspace(start, 9.0, 8001)
    weights = np.exp((order - 1.0) * epsilons) * radial_delta(dim, p, shift, epsilons)
    below = float(np.sum(0.5 * (weights[1:] + weights[:-1])) * (epsilons[1] - epsilons[0]))
    bound = math.exp(log_renyi_tail(dim, p, shift, order, start))
    assert below <= bound < 1e3 * below


@pytest.mark.parametrize(("dim", "p"), [(2, 1.0), (2, 1.2), (6, 1.6), (3, 2.0)])
def test_loss_distribution_dominates_closely(dim, p):
    law = calibrated_radial_law(dim, p, 1.0, 1e-5)
    loss = law.privacy_loss_distribution(1e-3)
    for epsilon in (0.0, 0.2, 0.6, 0.9):
        exact = law.delta(epsilon)
        assert exact * (1 - 1e-9) <= loss.get_delta_for_epsilon(epsilon) <= exact * (1 + 2e-3)


def test_composition_next_to_gaussian_noise():
    mu = 0.2
    law = RadialEvent(4, 2.0 - 1e-9, math.sqrt(2.0) / mu)
    ten = law.privacy_loss_distribution(1e-3).self_compose(10)
    exact = gaussian_epsilon(mu * math.sqrt(10.0), 1e-5)
    assert exact * (1 - 1e-6) <= ten.get_epsilon_for_delta(1e-5) <= exact * (1 + 2e-3)


def test_gaussian_law_composes_exactly():
    law = RadialEvent(4, 2.0, math.sqrt(2.0) / 0.3)
    assert law.mu == pytest.approx(0.3, rel=1e-15)
    assert compose([law, law]).mu == pytest.approx(0.3 * math.sqrt(2.0), rel=1e-12)


def test_pure_law_has_a_gaussian_bound_and_the_others_none():
    assert RadialEvent(3, 1.4, 2.0).gdp_bound is None
    bound = RadialEvent(3, 1.0, 0.5).gdp_bound
    law = RadialEvent(3, 1.0, 0.5)
    for epsilon in np.linspace(0.0, 2.0, 9):
        assert law.delta(epsilon) <= gaussian_delta(bound, epsilon)


def test_events_go_through_json():
    law = calibrated_radial_law(3, 1.2, 0.5, 1e-4)
    assert event_from_dict(json.loads(json.dumps(law.to_dict()))) == law


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1.0, 1.0), "dim"),
        ((2, 0.9, 1.0), "exponent"),
        ((2, 2.1, 1.0), "exponent"),
        ((2, 1.0, 0.0), "scale"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        RadialEvent(*arguments)


@pytest.mark.parametrize("dim", [1, 30])
def test_exponent_two_answers_like_a_gaussian(dim):
    mu = 0.7
    law = RadialEvent(dim, 2.0, math.sqrt(2.0) / mu)
    assert law.mu == pytest.approx(mu) == pytest.approx(law.gdp_bound)
    for order in (1.5, 4.0, 60.0):
        assert 0 <= law.renyi(order) / (0.5 * order * mu**2) - 1 < 1e-10
    assert law.epsilon(1e-5) == pytest.approx(gaussian_epsilon(mu, 1e-5))
    assert law.epsilon(0.0) == math.inf


@pytest.mark.parametrize("field", ["dim", "exponent", "scale_over_sensitivity"])
@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf])
def test_radial_laws_refuse_bad_numbers(field, bad):
    good = {"dim": 2, "exponent": 1.5, "scale_over_sensitivity": 3.0}
    with pytest.raises((ValueError, TypeError), match=field):
        RadialEvent(**good | {field: bad})


@pytest.mark.parametrize("p", [1.2, 1.6])
def test_renyi_divergence_against_integration(p):
    """One dimension, where the divergence is one integral; upper bound, and close."""
    shift, order = 1.3, 6.0
    x = np.linspace(-40.0, 40.0, 400_001)
    density = np.abs(x) ** p
    exponent = -order * density + (order - 1.0) * np.abs(x - shift) ** p
    top = exponent.max()
    ratio = math.exp(top) * np.exp(exponent - top).sum() / np.exp(-density).sum()
    exact = math.log(ratio) / (order - 1.0)
    assert exact <= RadialEvent(1, p, 1.0 / shift).renyi(order) <= exact * (1 + 1e-3)


def log_trapezoid(logs, x):
    top = logs.max()
    return top + math.log(np.trapezoid(np.exp(logs - top), x))


@pytest.mark.parametrize(("order", "start"), [(40.0, 1.0), (187.0, 0.1), (180.0, 45.0)])
def test_renyi_tail_of_high_orders_is_a_close_bound(order, start):
    """In three dimensions with p = 3/2 the law's tail is ``(1 + z) exp(-z)``, ``z = r**p``."""
    p, shift = 1.5, 1.0
    r = np.linspace(start, 500.0, 200_001)
    loss = r**p * np.expm1(p * np.log1p(shift / r))
    exact = log_trapezoid((order - 1.0) * loss + np.log1p(r**p) - r**p, loss)
    assert exact <= log_renyi_tail(3, p, shift, order, loss[0]) <= exact + 1.5


def test_renyi_tail_far_out_in_high_dimension_is_a_bound():
    """Where tail probabilities are too small for the incomplete gamma function's logarithm."""
    dim, p, shift, order = 5000, 1.5, 0.05, 1.1
    r = np.linspace(325.0, 327.0, 20_001)
    loss = r**p * np.expm1(p * np.log1p(shift / r))
    tail = np.log(gammaincc(dim / p, r**p))
    assert -700.0 < tail[-1] < tail[0] < -600.0
    below = log_trapezoid((order - 1.0) * loss + tail, loss)
    assert below <= log_renyi_tail(dim, p, shift, order, loss[0]) <= below + 1.0


def test_caps_of_two_points_hold_none_one_or_both():
    heights = np.array([0.0, 0.3, 1.0])
    share = _cap(heights, 0)
    np.testing.assert_array_equal(share, [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(np.exp(_log_cap(heights, 0)), share)


@pytest.mark.parametrize("low, high", [(-3.0, 3.0), (1.0, 2.0), (-40.0, 40.0), (5.0, 5.5)])
def test_a_guess_of_where_an_integrand_matters_is_never_trusted(low, high):
    centers = np.array([0.0, 1.5, -20.0])

    def evaluate(index, t):
        return -0.5 * (t - centers[index, None]) ** 2, np.ones((1, *t.shape))

    guess = np.full(3, low), np.full(3, high)
    factor, sums = integrate(evaluate, 3, (-60.0, 60.0), None, guess)
    np.testing.assert_allclose(np.exp(factor) * sums[0], math.sqrt(2.0 * math.pi), rtol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 3, 21, 300])
def test_profiles_do_not_depend_on_the_guess(dim, monkeypatch):
    epsilons, exponents = np.tile([0.0, 0.3, 2.0, 9.0], 3), np.repeat([1.0, 1.4, 2.0], 4)
    for shift in (0.01, 0.7, 6.0):
        guessed = radial_delta(dim, exponents, shift, epsilons)
        with monkeypatch.context() as patch:
            patch.setattr(radial_profile, "_ends", lambda *_: None)
            searched = radial_delta(dim, exponents, shift, epsilons)
        seen = searched > 1e-250
        np.testing.assert_allclose(guessed[seen], searched[seen], rtol=1e-8)
        np.testing.assert_allclose(
            guessed[seen & (searched > 1e-20)], searched[seen & (searched > 1e-20)], rtol=1e-10
        )


@pytest.mark.parametrize("n", [*range(1, 14), 14, 40])
def test_caps_against_many_digits(n, rng):
    heights = np.concatenate([10.0 ** rng.uniform(-12.0, -0.3, 25), rng.random(25), [0.25, 0.5]])
    with mpmath.workdps(40):
        half = mpmath.mpf(n) / 2
        exact = [mpmath.betainc(half, half, 0, mpmath.mpf(u), regularized=True) for u in heights]
        errors = [abs(c / e - 1) for c, e in zip(_cap(heights, n).tolist(), exact, strict=True)]
    assert max(errors) < 1e-14
    np.testing.assert_array_equal(_cap(np.array([0.0, 1.0]), n), [0.0, 1.0])


@pytest.mark.parametrize("dim", [1, 2, 3, 6, 15, 60])
@pytest.mark.parametrize("target", [(0.05, 1e-8), (0.5, 1e-3), (1.0, 1e-5), (5.0, 1e-8)])
def test_first_guesses_are_close(dim, target):
    p = np.array(EXPONENTS[:-1])
    guess = guessed_shifts(dim, p, gaussian_mu(*target), *target)
    found = np.array([calibrated_radial_law(dim, q, *target).shift for q in p])
    np.testing.assert_allclose(guess[1:], found[1:], rtol=0.2)
    excess = (guess[0] - target[0]) / (found[0] - target[0])
    assert 0.3 < excess < 1.001


@pytest.mark.parametrize("dim", [40, 300, 1000])
def test_first_guesses_where_the_corner_leaves_the_floats(dim):
    guess = guessed_shifts(dim, np.array([1.0, 1.5]), gaussian_mu(1e-3, 1e-9), 1e-3, 1e-9)
    assert (guess > 0.0).all() and np.isfinite(guess).all()
    law = calibrated_radial_law(dim, 1.0, 1e-3, 1e-9)
    assert (
        law.delta(1e-3)
        <= 1e-9
        < RadialEvent(dim, 1.0, law.scale_over_sensitivity * 0.999).delta(1e-3)
    )
