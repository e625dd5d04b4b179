"""Laplace noise: profile against 60 digits and other formulas; calibration; composition."""

import json
import math

import mpmath
import numpy as np
import pytest

from skriemdp.privacy import _laplace as laplace
from skriemdp.privacy._calibration import gaussian_delta, gaussian_mu
from skriemdp.privacy._events import GaussianEvent, PureEvent, compose, event_from_dict
from skriemdp.privacy._laplace import LaplaceEvent, laplace_law

# -- the profile ---------------------------------------------------------------------------------


def caps_delta(dim, scale, epsilon):
    """Delta from the caps that the set of large loss cuts from spheres around both centres.

    No foci: shares of spheres are incomplete beta functions, and radii are integrated over.
    """
    a, e, n = 1 / mpmath.mpf(scale), mpmath.mpf(epsilon), dim - 1
    if e >= a:
        return mpmath.mpf(0)

    def share(u):
        if n == 0:
            return mpmath.mpf(1) / 2
        return mpmath.betainc(mpmath.mpf(n) / 2, mpmath.mpf(n) / 2, 0, u, regularized=True)

    def outside(r):
        far, width = r + e, a - e
        u, v = (r + a + far) * width / (4 * r * a), (far + r - a) * width / (4 * far * a)
        return mpmath.exp(-r) * (r**n * share(min(u, 1)) - far**n * share(max(v, 0)))

    start = (a - e) / 2
    ends = [start + x for x in (0, 0.01, 0.1, 1, 3, 8, 20, 50, 150)]
    inside = mpmath.gammainc(dim, 0, start, regularized=True)
    return inside + mpmath.quad(outside, ends) / mpmath.gamma(dim)


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize("dim", [1, 2, 3, 6, 11])
@pytest.mark.parametrize(("scale", "part"), [(0.2, 0.3), (1.0, 0.0), (1.0, 0.95), (8.0, 0.6)])
def test_theorem_against_caps_of_spheres(dim, scale, part):
    epsilon = part / scale
    with mpmath.workdps(30):
        exact = float(caps_delta(dim, scale, epsilon))
    assert LaplaceEvent(dim, scale).delta(epsilon) == pytest.approx(exact, rel=1e-9)


def many_digits(dim, scale, mu, epsilon):
    """The same integral in 60 digits, over eta, with Bessel functions; and its total mass."""
    s, mu, epsilon = mpmath.mpf(scale), mpmath.mpf(mu), mpmath.mpf(epsilon)
    z, v = 1 / (2 * s), mpmath.mpf(dim) / 2 - 1
    excess = (dim - 1) / z * mpmath.besselk(v + 1, z) / mpmath.besselk(v, z)

    def weight(angle):
        sine = mpmath.sin(angle)
        return sine ** (dim - 2) * mpmath.exp(z * mpmath.cos(angle)) * (excess + sine**2)

    def gaussian(level):
        if mu == 0:
            return max(1 - mpmath.exp(level), mpmath.mpf(0))
        here, there = (mpmath.ncdf(-level / mu + x * mu / 2) for x in (1, -1))
        return here - mpmath.exp(level) * there

    def expected(angle):
        return weight(angle) * gaussian(epsilon - mpmath.cos(angle) / s)

    # Around the middle of the density and of the Gaussian's step.
    kinks = [(epsilon + k * mu) * s for k in (-8, -2, 0, 2, 8, 20)] if mu else [epsilon * s]
    edges = {mpmath.acos(x) for x in kinks if abs(x) < 1}
    edges |= {mpmath.pi * k / 16 for k in range(17)}
    edges |= {mpmath.pi / 2 + k / mpmath.sqrt(dim) for k in range(-9, 10)}
    edges = sorted(x for x in edges if 0 <= x <= mpmath.pi)
    mass, value = mpmath.quad(weight, edges), mpmath.quad(expected, edges)
    if dim > 1:
        return value / mass
    # The continuous part between two atoms.
    ends = gaussian(epsilon - 1 / s) + mpmath.exp(-1 / s) * gaussian(epsilon + 1 / s)
    return ends / 2 + value * z * mpmath.exp(-z) / 2


# Dimension, scale, mu and epsilon, and `many_digits` of them, to 25 digits; from 1.2 / scale on far
# out, beyond every loss of the law alone.
DIGITS = {
    (1, 1.0, 0.3, 1.0): "0.06521117006489946206841993",
    (2, 1.0, 0.05, 0.97): "0.004233927965272327894737628",
    (3, 1.05, 0.1, 1.0): "0.0008755784848449888296012781",
    (3, 3.0, 1e-4, 0.3): "0.000956923451046651037453535",
    (6, 0.01, 2.0, 99.0): "0.1714283599847995995766833",
    (50, 0.5, 0.027, 1.0): "0.000009180927105231890455689031",
    (300, 10.0, 0.01, 0.03): "0.00001721651278092546670604686",
    (1000, 0.12, 0.08, 1.0): "0.00001488869305862273308892061",
    (1000, 0.2, 1e-3, 0.9): "1.944767411913325890150661e-10",
    (6, 1.0, 0.1, 2.5): "9.013402115723114019307194e-58",
    (3, 1.0, 0.02, 1.4): "2.491788876452596983265504e-95",
    (50, 1.0, 0.0, 0.5): "0.000003209951176028108968435072",
    (1000, 0.1, 0.0, 1.0): "0.0001067110951472609579299692",
    (2, 20.0, 0.0, 0.0): "0.01590780448839452959640677",
}


@pytest.mark.parametrize(("dim", "scale", "mu", "epsilon"), DIGITS)
def test_profile_against_many_digits(dim, scale, mu, epsilon):
    exact = mpmath.mpf(DIGITS[dim, scale, mu, epsilon])
    event = LaplaceEvent(dim, scale)
    ours = event.delta_with_gaussian(mu, epsilon) if mu else event.delta(epsilon)
    assert exact <= ours <= exact * (1 + 1e-8)


@pytest.mark.parametrize(
    "case",
    [
        (1, 1.0, 0.3, 1.0),
        (2, 20.0, 0.0, 0.0),
        pytest.param((3, 1.0, 0.02, 1.4), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_digits_are_those_of_the_integral(case):
    """Of each kind the quickest; the others were found by the same function."""
    epsilon, scale = case[3], case[1]
    with mpmath.workdps(120 if epsilon > 1.2 / scale else 60):  # far out the two tails cancel
        assert abs(many_digits(*case) / mpmath.mpf(DIGITS[case]) - 1) < 1e-24


@pytest.mark.parametrize("dim", [1, 2, 3, 20, 140, 1000])
@pytest.mark.parametrize("scale", [0.003, 0.3, 3.0, 1e4])
def test_losses_have_mass_one(dim, scale):
    """Normaliser and ratio of Bessel functions, where these leave the floats too."""

    def log_f(row, theta):
        return laplace._log_density(dim, scale, theta)

    (log,), _ = laplace._log_integrals(log_f, laplace._equal_panels(0.0, math.pi), 1)
    atoms = 0.5 * (1.0 + math.exp(-1.0 / scale)) if dim == 1 else 0.0
    assert math.exp(log) + atoms == pytest.approx(1.0, abs=3e-11)


@pytest.mark.parametrize("dim", [1, 2, 6, 200])
def test_little_gaussian_noise_before_it_hardly_matters(dim):
    event = LaplaceEvent(dim, 1.0)
    alone = np.array([event.delta(e) for e in (0.0, 0.4, 0.8)])
    for mu in (1e-3, 1e-6, 1e-9, 1e-30):
        both = [event.delta_with_gaussian(mu, e) for e in (0.0, 0.4, 0.8)]
        np.testing.assert_allclose(both, alone, rtol=100.0 * mu**2 * dim**2 + 1e-4 * mu + 1e-8)
        assert 0.0 < event.delta_with_gaussian(mu, 1.0) < 1.0


def test_only_a_pure_law_has_no_delta():
    event = LaplaceEvent(3, 0.5)
    assert event.delta(2.0) == 0.0 < event.delta(math.nextafter(2.0, 0.0))
    assert 0.0 < event.delta_with_gaussian(0.01, 60.0) <= 1e-299  # the truth underflows
    assert LaplaceEvent(1000, 1e-2).delta(99.999) > 0.0
    for scale in (0.3, 1.0 / 3.0, 0.7, 1e-3):  # the pure epsilon is rounded up
        assert mpmath.mpf(LaplaceEvent(2, scale).shift) * mpmath.mpf(scale) >= 1


@pytest.mark.parametrize("mu", [0.0, 0.03, 0.5])
def test_profile_increases_with_the_shift(mu):
    for dim in (1, 2, 5, 40):
        events = [LaplaceEvent(dim, scale) for scale in np.geomspace(3.0, 0.1, 40)]
        for epsilon in (0.0, 0.3, 1.0):
            found = [
                event.delta_with_gaussian(mu, epsilon) if mu else event.delta(epsilon)
                for event in events
            ]
            assert (np.diff(found) >= -1e-9 * np.array(found[1:])).all()


def test_no_place_of_the_panels_matters():
    law = laplace_law(3, 1.0, 1e-5, 0.1)
    scale = law.scale_over_sensitivity
    exact, last = laplace._log_delta_behind(3, scale, 0.1, 1.0)
    ends = np.array([0.0, 0.001, 1.7, math.pi])
    for edges in (ends, ends[[0, 3]], np.linspace(0.0, math.pi, 1000)):
        panels = np.zeros(edges.size - 1, dtype=int), edges[:-1], edges[1:]
        assert laplace._log_delta_behind(3, scale, 0.1, 1.0, panels)[0] == pytest.approx(
            exact, abs=1e-9
        )
    assert laplace._log_delta_behind(3, scale, 0.1, 1.0, last)[0] == pytest.approx(exact, abs=1e-9)


# -- the event -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 3, 21, 1000])
@pytest.mark.parametrize("target", [(0.7, 1e-5), (0.1, 1e-3), (3.0, 1e-12), (100.0, 1e-8)])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3])
def test_calibration_is_tight_and_on_the_private_side(dim, target, share):
    epsilon, delta = target
    mu = gaussian_mu(epsilon, delta) * math.sqrt(share)
    law = laplace_law(dim, epsilon, delta, mu)
    narrower = LaplaceEvent(dim, law.scale_over_sensitivity * (1.0 - 1e-6))
    if mu:
        law, narrower = (compose([GaussianEvent(1.0 / mu), each]) for each in (law, narrower))
    assert law.delta(epsilon) <= delta < narrower.delta(epsilon)
    assert law.epsilon(delta) == pytest.approx(epsilon, rel=1e-7)
    assert law.delta(law.epsilon(1e-3)) <= 1e-3


def test_nothing_left_after_gaussian_releases():
    with pytest.raises(ValueError, match="pass a smaller mu"):
        laplace_law(3, 1.0, 1e-5, gaussian_mu(1.0, 1e-5))
    with pytest.raises(ValueError, match="pass a smaller mu"):
        laplace_law(3, 1.0, 0.0, 0.1)


# E|v|^2 over that of Gaussian noise at the same (epsilon, delta), after releases of a share of
# mu^2: what benchmarks/laplace_noise.py prints.
@pytest.mark.parametrize(
    ("dim", "epsilon", "delta", "share", "ratio"),
    [
        (2, 0.1, 1e-3, 0.0, 0.813),
        (3, 1.0, 1e-5, 0.0, 0.284),
        (55, 1.0, 1e-5, 0.0, 0.906),
        (6, 1.0, 1e-3, 0.0, 0.726),
        (2, 1.0, 1e-5, 0.02, 0.258),
        (3, 1.0, 1e-5, 0.1, 0.437),
        (15, 1.0, 1e-5, 0.1, 0.828),
    ],
)
def test_less_noise_than_gaussian(dim, epsilon, delta, share, ratio):
    total = gaussian_mu(epsilon, delta)
    law = laplace_law(dim, epsilon, delta, total * math.sqrt(share))
    assert law.mean_square_over_sensitivity * total**2 / dim == pytest.approx(ratio, abs=1e-3)


def test_pure_privacy():
    for epsilon in (0.1, 1.0, 3.0, 1.0 / 3.0):
        law = laplace_law(5, epsilon, 0.0)
        assert law.epsilon(0.0) <= epsilon < law.epsilon(0.0) * (1 + 1e-12)
        assert law.delta(epsilon) == 0.0 < law.delta(0.99 * epsilon)
        assert law.renyi(math.inf) <= epsilon


def test_renyi_of_laplace_noise():
    law = LaplaceEvent(1, 1.0 / 0.8)
    a = law.shift
    for order in (1.0 + 1e-9, 1.001, 1.5, 4.0, 30.0, 800.0):
        exact = np.logaddexp(
            math.log(order / (2 * order - 1)) + (order - 1) * a,
            math.log((order - 1) / (2 * order - 1)) - order * a,
        ) / (order - 1)
        # At orders next to 1 the formula itself loses its digits.
        assert (
            exact - 1e-15 / (order - 1)
            <= law.renyi(order)
            <= exact * (1 + 1e-6) + 1e-15 / (order - 1)
        )


@pytest.mark.parametrize("dim", [1, 2, 20, 1000])
@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
def test_renyi_divergence_from_the_profile(dim, scale):
    """As an integral of hockey sticks: x^order = 1 + order (x - 1) + a sum of positive parts."""
    event = LaplaceEvent(dim, scale)
    x, w = np.polynomial.legendre.leggauss(400)
    u = 0.5 * (x + 1.0)
    t = event.shift * (1.0 - u * u)  # towards the end the profile is a power of the distance
    deltas = laplace._deltas(dim, scale, t)
    for order in (1.01, 2.0, 20.0, 80.0):
        weight = np.exp((order - 1.0) * (t - event.shift)) + np.exp(
            -order * t - (order - 1.0) * event.shift
        )
        integral = float(np.sum(w * event.shift * u * weight * deltas))
        log = math.log(order * (order - 1.0) * integral) + (order - 1.0) * event.shift
        assert event.renyi(order) == pytest.approx(np.logaddexp(0.0, log) / (order - 1), rel=1e-6)


@pytest.mark.parametrize("dim", [1, 2, 6, 100])
def test_loss_distribution_dominates_closely(dim):
    law = laplace_law(dim, 1.0, 1e-5)
    loss = law.privacy_loss_distribution(1e-3)
    for epsilon in (0.0, 0.2, 0.6, 0.9):
        exact = law.delta(epsilon)
        assert exact * (1 - 1e-9) <= loss.get_delta_for_epsilon(epsilon) <= exact * (1 + 2e-3)


@pytest.mark.parametrize("mu", [0.08, 0.5])
def test_composed_profile_against_the_loss_distribution(mu):
    event = compose([GaussianEvent(1.0 / mu), LaplaceEvent(3, 1.2)])
    loss = event.privacy_loss_distribution(1e-4)
    for epsilon in (0.2, 0.8, 1.0, 1.2):
        assert event.delta(epsilon) == pytest.approx(
            loss.get_delta_for_epsilon(epsilon), rel=2e-3, abs=1e-12
        )


def test_a_gaussian_bound():
    law = LaplaceEvent(3, 0.5)
    assert law.gdp_bound == PureEvent(2.0).gdp_bound and law.mu is None
    for epsilon in np.linspace(0.0, 2.0, 9):
        assert law.delta(epsilon) <= gaussian_delta(law.gdp_bound, epsilon)


def test_events_go_through_json():
    law = laplace_law(3, 0.5, 1e-4)
    assert event_from_dict(json.loads(json.dumps(law.to_dict()))) == law
    old = {"kind": "radial", "dim": 3, "exponent": 1.2, "scale_over_sensitivity": 2.0}
    with pytest.raises(ValueError, match="not a known kind of event"):
        event_from_dict({"kind": "composed", "events": [law.to_dict(), old]})


@pytest.mark.parametrize("field", ["dim", "scale_over_sensitivity"])
@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf])
def test_bad_numbers_are_refused(field, bad):
    good = {"dim": 2, "scale_over_sensitivity": 3.0}
    with pytest.raises((ValueError, TypeError), match=field):
        LaplaceEvent(**good | {field: bad})
