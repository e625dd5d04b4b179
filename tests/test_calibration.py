"""Gaussian calibration against many digits and dp_accounting; calibration of event families."""

from __future__ import annotations

import dataclasses
import itertools
import math

import mpmath
import pytest

from skriemdp.privacy._calibration import (
    calibrate,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    log_gaussian_delta,
)
from skriemdp.privacy._events import (
    ApproximateEvent,
    FixedSizeSampledGaussianEvent,
    GaussianEvent,
    PoissonSampledGaussianEvent,
    PureEvent,
    compose,
)

MUS = [1e-8, 1e-4, 1e-2, 0.1, 0.2499, 0.25, 0.2501, 0.5, 1.0, 2.0, 5.0, 30.0, 140.0, 200.0]
EPSILONS = [0.0, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 3.0, 10.0, 100.0, 1e3, 1e4]


def reference_delta(mu, epsilon):
    """Phi(-a) - e^epsilon Phi(-b) in 120 digits."""
    with mpmath.workdps(120):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        root = mpmath.sqrt(2)
        return (mpmath.erfc(a / root) - mpmath.exp(epsilon) * mpmath.erfc(b / root)) / 2


def grid():
    for mu, epsilon in itertools.product(MUS, EPSILONS):
        if epsilon / mu - mu / 2 < 37.0:  # delta above 1e-300
            yield mu, epsilon


def test_profile_agrees_with_many_digits_and_is_never_below():
    for mu, epsilon in grid():
        exact = reference_delta(mu, epsilon)
        assert abs(mpmath.log(exact) - log_gaussian_delta(mu, epsilon)) < 1e-11, (mu, epsilon)
        found = gaussian_delta(mu, epsilon)
        assert exact <= found <= exact * (1 + 2e-10), (mu, epsilon)


@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-20, 1e-10, 1e-5, 1e-3, 0.1, 0.9])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e4])
def test_mu_is_private_and_nearly_the_largest(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert reference_delta(mu, epsilon) <= mpmath.mpf(delta)
    assert reference_delta(mu * (1 + 1e-8), epsilon) > mpmath.mpf(delta)


@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-20, 1e-10, 1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("mu", [1e-6, 1e-2, 0.1, 1.0, 10.0, 100.0])
def test_epsilon_is_private_and_nearly_the_smallest(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert reference_delta(mu, epsilon) <= mpmath.mpf(delta)
    if epsilon > 0:
        assert reference_delta(mu, epsilon * (1 - 1e-8)) > mpmath.mpf(delta)


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 1e-2])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_agrees_with_dp_accounting(epsilon, delta):
    dp_accounting = pytest.importorskip("dp_accounting")
    sigma = dp_accounting.get_sigma_gaussian(epsilon, delta, 1e-9)
    assert gaussian_mu(epsilon, delta) == pytest.approx(1 / sigma, rel=1e-6)
    found = dp_accounting.get_epsilon_gaussian(1 / gaussian_mu(epsilon, delta), delta, 1e-9)
    assert found <= epsilon * (1 + 1e-7)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 7.3])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_there_and_back_never_grows(epsilon, delta):
    assert gaussian_epsilon(gaussian_mu(epsilon, delta), delta) <= epsilon
    assert gaussian_delta(gaussian_mu(epsilon, delta), epsilon) <= delta


def test_delta_zero_is_refused_by_name():
    with pytest.raises(ValueError, match="delta"):
        gaussian_mu(1.0, 0.0)
    with pytest.raises(ValueError, match="delta"):
        gaussian_epsilon(1.0, 0.0)
    with pytest.raises(ValueError, match="epsilon"):
        gaussian_mu(-1.0, 1e-5)
    with pytest.raises(ValueError, match="mu"):
        gaussian_delta(0.0, 1.0)
    assert GaussianEvent(1.0).epsilon(0.0) == math.inf


@pytest.mark.parametrize(
    ("epsilon", "delta", "true_delta", "true_epsilon"),
    [
        (0.1, 1e-3, 3.53e-3, 0.1416),
        (0.15, 1e-4, 3.00e-3, 0.2724),
        (0.5, 1e-5, 6.92e-3, 1.110),
        (1.0, 1e-5, 1.73e-2, 2.397),
        (2.0, 1e-6, 3.22e-2, 5.313),
        (8.0, 1e-3, 0.939, 36.5),
    ],
)
def test_published_descent_noise_spends_more_than_it_says(epsilon, delta, true_delta, true_epsilon):
    # Han et al. (2022), Theorem 1 with c = 1: sigma^2 = T log(1/delta) L^2 / (n^2 epsilon^2) per
    # step, for a mean gradient that one record moves by 2 L / n.
    steps, n, bound = 100, 500, 1.0
    sigma = math.sqrt(steps * math.log(1 / delta)) * bound / (n * epsilon)
    event = GaussianEvent(sigma / (2 * bound / n), count=steps)
    assert event.mu == pytest.approx(2 * epsilon / math.sqrt(math.log(1 / delta)))
    assert event.epsilon(delta) == pytest.approx(true_epsilon, rel=2e-3)
    assert event.delta(epsilon) == pytest.approx(true_delta, rel=3e-3)
    assert event.epsilon(delta) > epsilon


FAMILIES = {
    "gaussian": lambda s: GaussianEvent(s, count=7),
    "poisson": lambda s: PoissonSampledGaussianEvent(0.02, s, count=200),
    "fixed size": lambda s: FixedSizeSampledGaussianEvent(1000, 20, s, count=200),
    "mixed": lambda s: compose([GaussianEvent(10 * s), PoissonSampledGaussianEvent(0.1, s, 10)]),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-6), (4.0, 1e-5)])
def test_calibration_lands_on_the_private_side(name, epsilon, delta):
    family = FAMILIES[name]
    noise = calibrate(family, epsilon, delta, (0.05, 1e4))
    assert family(noise).delta(epsilon) <= delta
    assert family(noise * (1 - 1e-3)).delta(epsilon) > delta


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("bracket", [(0.05, 1e4), (1e-3, 300.0), (0.7, 60.0)])
def test_calibration_ends_close_to_the_target(name, bracket):
    noise = calibrate(FAMILIES[name], 1.0, 1e-5, bracket)
    assert 1.0 - 1e-5 <= FAMILIES[name](noise).epsilon(1e-5) <= 1.0


def test_calibration_where_epsilon_jumps():
    # Fewer copies from a noise of 3 on: no noise has an epsilon near the target.
    def family(noise):
        return GaussianEvent(noise, count=4 if noise < 3.0 else 1)

    target = family(3.0).epsilon(1e-5) * 1.3
    noise = calibrate(family, target, 1e-5, (0.05, 1e4))
    assert 3.0 <= noise <= 3.0 * (1.0 + 2e-6)
    assert family(noise).epsilon(1e-5) <= target


@pytest.mark.parametrize("fixed", [1.0001, 1.05, 1.5])
def test_calibration_where_noise_hardly_matters(fixed):
    # The other release costs nearly all: epsilon is flat far from the answer, and steep before it.
    first = GaussianEvent(fixed / gaussian_mu(1.0, 1e-5))
    asked = []

    def family(noise):
        asked.append(noise)
        return compose([first, PoissonSampledGaussianEvent(0.1, noise, 30)])

    noise = calibrate(family, 1.0, 1e-5, (0.05, 1e6))
    assert 1.0 - 1e-5 <= family(noise).epsilon(1e-5) <= 1.0
    assert len(set(asked)) < 20


def test_calibration_of_a_gaussian_is_the_closed_form():
    noise = calibrate(GaussianEvent, 1.0, 1e-5, (1e-3, 1e3))
    assert noise == pytest.approx(1 / gaussian_mu(1.0, 1e-5), rel=1e-5)


def test_calibration_to_pure_privacy():
    noise = calibrate(lambda b: PureEvent(1.0 / b), 0.25, 0.0, (1e-3, 1e3))
    assert PureEvent(1.0 / noise).epsilon(0.0) <= 0.25
    assert noise == pytest.approx(4.0, rel=1e-4)


def test_calibration_remembers_but_never_confuses_families():
    bracket = (1.0, 16.0)
    calls = []

    def straight(noise):
        calls.append(noise)
        return GaussianEvent(noise)

    def bent(noise):  # agrees with `straight` at both ends of the bracket
        return GaussianEvent(noise + 0.3 * math.sin(math.pi * (noise - 1.0) / 15.0))

    first = calibrate(straight, 1.0, 1e-5, bracket)
    calls.clear()
    assert calibrate(straight, 1.0, 1e-5, bracket) == first
    assert len(calls) <= 3
    other = calibrate(bent, 1.0, 1e-5, bracket)
    assert bent(other).delta(1.0) <= 1e-5
    assert other < first


def test_calibration_names_an_impossible_target():
    with pytest.raises(ValueError, match="no noise up to 2"):
        calibrate(GaussianEvent, 0.1, 1e-9, (1.0, 2.0))
    with pytest.raises(ValueError, match="bracket must be increasing"):
        calibrate(GaussianEvent, 1.0, 1e-5, (2.0, 1.0))
    leaky = ApproximateEvent(0.1, 1e-4)
    with pytest.raises(ValueError, match="no noise"):
        calibrate(lambda s: compose([leaky, GaussianEvent(s)]), 1.0, 1e-5, (1.0, 9.0))
    assert calibrate(GaussianEvent, 50.0, 1e-3, (5.0, 10.0)) == 5.0


def test_importing_calibration_does_not_load_dp_accounting():
    import subprocess
    import sys

    code = (
        "import sys, skriemdp.privacy._calibration, skriemdp.privacy._events as e;"
        "e.GaussianEvent(2.0).epsilon(1e-5);"
        "assert not any(m.startswith('dp_accounting') for m in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("bracket", [(0.0, 1.0), (1.0, 1.0), (1.0, math.inf), (2.0, 1.0)])
def test_brackets_of_noise_are_finite_and_increasing(bracket):
    with pytest.raises(ValueError, match="bracket"):
        calibrate(GaussianEvent, 1.0, 1e-5, bracket)


@dataclasses.dataclass(frozen=True)
class Scripted:
    """Answers for a made-up mechanism; remembers which noises were asked."""

    noise: float
    needed: float  # noise from which on it says that it is private at epsilon 1
    refuses: bool = False  # whether delta never agrees with epsilon
    asked = []  # noqa: RUF012

    def epsilon(self, delta):
        self.asked.append(self.noise)
        return self.needed / self.noise

    def delta(self, epsilon):
        self.asked.append(self.noise)
        assert len(self.asked) < 1000, "calibration does not end"
        return 1.0 if self.refuses or self.noise < self.needed else 0.0


@pytest.mark.parametrize("needed", [0.3, 1.0, 20.0])
def test_calibration_starts_in_the_middle_and_spares_extreme_noises(needed):
    Scripted.asked.clear()
    noise = calibrate(lambda noise: Scripted(noise, needed), 1.0, 1e-5, (1e-6, 1e6))
    assert needed <= noise <= needed * (1 + 1e-3)
    assert 0.01 < min(Scripted.asked) <= max(Scripted.asked) < 100.0


def test_calibration_that_cannot_end_says_so():
    Scripted.asked.clear()
    with pytest.raises(ArithmeticError, match="converge"):
        calibrate(lambda noise: Scripted(noise, 2.0, refuses=True), 1.0, 1e-5, (1e-6, 1e6))


@pytest.mark.parametrize("mu", [1.4e154, 1e200, 1e308])
def test_an_epsilon_that_no_float_holds_is_infinite(mu):
    assert gaussian_epsilon(mu, 1e-5) == math.inf
    assert 0.5 * 1e149**2 < gaussian_epsilon(1e149, 1e-5) < math.inf
