"""Sampled Gaussian steps: reference values, direct integration, Renyi divergences."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logsumexp

from skriemdp.privacy import _loss_distributions as loss_distributions
from skriemdp.privacy._calibration import gaussian_delta, gaussian_epsilon
from skriemdp.privacy._event import automatic_interval, distance_delta
from skriemdp.privacy._events import (
    ComposedEvent,
    FixedSizeSampledGaussianEvent,
    GaussianEvent,
    MixtureEvent,
    PoissonSampledGaussianEvent,
    PureEvent,
    SelfComposedEvent,
    ZCDPEvent,
    compose,
)
from skriemdp.privacy._renyi import randomized_response_renyi, renyi_delta, renyi_epsilon

DELTA = 1e-5


@pytest.mark.parametrize(
    ("q", "s", "count", "delta", "fixed", "poisson"),
    [
        (0.01, 1.0, 1000, 1e-5, 2.199, 1.205),
        (0.01, 2.0, 1000, 1e-5, 0.719, 0.561),
        (0.001, 0.5, 1000, 1e-6, 4.284, 0.271),
        (0.05, 2.0, 200, 1e-5, 1.736, 1.356),
        (0.1, 3.0, 100, 1e-5, 1.480, 1.270),
        (0.5, 5.0, 50, 1e-5, 3.097, 2.939),
    ],
)
def test_reference_values_of_sampling(q, s, count, delta, fixed, poisson):
    wor = FixedSizeSampledGaussianEvent(10_000, round(q * 10_000), s, count)
    assert wor.epsilon(delta) == pytest.approx(fixed, abs=6e-4)
    assert PoissonSampledGaussianEvent(q, s, count).epsilon(delta) == pytest.approx(
        poisson, abs=6e-4
    )


def test_reference_values_of_variance_reduction_and_cohorts():
    anchors = GaussianEvent(5.0, count=3)
    fixed = compose([anchors, FixedSizeSampledGaussianEvent(1200, 60, 2.0, count=60)])
    poisson = compose([anchors, PoissonSampledGaussianEvent(0.05, 2.0, count=60)])
    assert fixed.epsilon(1e-5) == pytest.approx(1.653, abs=1e-3)
    assert poisson.epsilon(1e-5) == pytest.approx(1.541, abs=1e-3)
    cohorts = FixedSizeSampledGaussianEvent(100, 5, 1.0, count=50)
    assert cohorts.epsilon(1e-3) == pytest.approx(1.736, abs=1e-3)


def hockey_stick(density_p, density_q, epsilon, low, high):
    y = np.linspace(low, high, 400_001)
    excess = np.maximum(density_p(y) - math.exp(epsilon) * density_q(y), 0.0)
    return np.trapezoid(excess, y)


def normal(y, mean, s):
    return np.exp(-0.5 * ((y - mean) / s) ** 2) / (s * math.sqrt(2 * math.pi))


@pytest.mark.parametrize(("q", "s"), [(0.1, 0.5), (0.01, 1.0), (0.5, 2.0)])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5, 2.0])
def test_single_steps_against_direct_integration(q, s, epsilon):
    low, high = -12 * s - 1, 12 * s + 2
    poisson = hockey_stick(
        lambda y: q * normal(y, 0.5, s) + (1 - q) * normal(y, 0.0, s),
        lambda y: q * normal(y, -0.5, s) + (1 - q) * normal(y, 0.0, s),
        epsilon,
        low,
        high,
    )
    fixed = hockey_stick(
        lambda y: q * normal(y, 1.0, s) + (1 - q) * normal(y, 0.0, s),
        lambda y: normal(y, 0.0, s),
        epsilon,
        low,
        high,
    )
    events = (
        PoissonSampledGaussianEvent(q, s),
        FixedSizeSampledGaussianEvent(1000, round(1000 * q), s),
    )
    for event, exact in zip(events, (poisson, fixed), strict=True):
        assert event.delta(epsilon) >= exact * (1 - 1e-9) - 1e-13
        assert event.delta(epsilon) == pytest.approx(exact, rel=2e-4, abs=5e-12)


def test_fixed_size_event_dominates_real_batches_at_every_order():
    # All batches of 2 out of 5 records on a line: both neighbours' output laws are mixtures.
    from itertools import combinations

    rng, s = np.random.default_rng(0), 0.7
    bound = FixedSizeSampledGaussianEvent(5, 2, s).privacy_loss_distribution(1e-3)
    y = np.linspace(-7.0, 7.0, 20_001)
    worst = 0.0
    for trial in range(24):
        records = rng.uniform(-0.5, 0.5, size=5) if trial else np.full(5, -0.5)
        other = records.copy()
        records[0], other[0] = (0.5, -0.5) if trial % 2 == 0 else rng.uniform(-0.5, 0.5, size=2)
        first, second = (
            np.mean([normal(y, x[list(b)].sum(), s) for b in combinations(range(5), 2)], axis=0)
            for x in (records, other)
        )
        for epsilon in (-1.0, -0.2, 0.0, 0.3, 1.0):
            for p, q in ((first, second), (second, first)):
                exact = np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), y)
                limit = bound.get_delta_for_epsilon(epsilon)
                assert exact <= limit + 2e-7  # the trapezoidal rule at a kink
                worst = max(worst, exact / limit) if epsilon > 0 else worst
    assert worst > 0.999  # attained when all other records sit at one end


def test_a_pairwise_bound_does_not_license_the_poisson_event():
    # Two records at distance one sd, both far from 0: it shows in which steps the record takes
    # part, and each of those is a full Gaussian release.
    q, count = 0.01, 1000
    weights = stats.binom.pmf(np.arange(60), count, q)
    presence = [ComposedEvent(()), *(GaussianEvent(1.0, k) for k in range(1, 60))]
    truth = MixtureEvent(tuple(weights / weights.sum()), tuple(presence))
    assert truth.epsilon(DELTA) == pytest.approx(23.4, abs=0.05)
    assert PoissonSampledGaussianEvent(q, 1.0, count).epsilon(DELTA) < 1.21


# -- Renyi divergences --


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize(("q", "s"), [(0.01, 1.0), (0.3, 0.5), (0.002, 4.0)])
@pytest.mark.parametrize("order", [1.05, 1.5, 2.0, 7.3, 30.0])
def test_renyi_of_sampled_steps_against_direct_integration(q, s, order):
    y = np.linspace(-14 * s - 1, order + 14 * s + 1, 1_000_001)
    log_step = math.log(y[1] - y[0])
    log_zero = -0.5 * (y / s) ** 2 - math.log(s * math.sqrt(2 * math.pi)) + log_step

    def divergence(plus, minus):
        logs = np.concatenate(plus + minus)
        signs = np.repeat([1.0, -1.0], [y.size * len(plus), y.size * len(minus)])
        return np.logaddexp(0.0, logsumexp(logs, b=signs)) / (order - 1)

    up, down = (np.log1p(q * np.expm1((sign * y / 2 - 1 / 8) / s**2)) for sign in (1, -1))
    poisson = divergence([order * up + (1 - order) * down + log_zero], [down + log_zero])
    # PLD*: losses l > 0 of q N(1) + (1-q) N(0) against N(0), and their mirror images.
    up = np.where(y > 0.5, np.log1p(q * np.expm1((y - 0.5) / s**2)), 0.0)
    logs = [k * up + log_zero for k in (order, 1 - order, 1, 0)]
    fixed = divergence(logs[:2], logs[2:])
    wor = FixedSizeSampledGaussianEvent(1000, round(1000 * q), s)
    events = PoissonSampledGaussianEvent(q, s), wor
    for event, exact in zip(events, (poisson, fixed), strict=True):
        assert event.renyi(order) == pytest.approx(exact, rel=1e-5, abs=1e-12)
        assert event.renyi(order) >= exact * (1 - 1e-6) - 1e-12
        assert event.renyi(order) <= order / (2 * s * s) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1e-7, 1e-3, 0.3, 2.0, 30.0, 600.0])
@pytest.mark.parametrize("order", [1.01, 2.0, 16.0, 1e4])
def test_renyi_of_randomized_response(epsilon, order):
    import mpmath

    with mpmath.workdps(80):
        e, a = mpmath.mpf(epsilon), mpmath.mpf(order)
        moment = (mpmath.exp(a * e) + mpmath.exp((1 - a) * e)) / (1 + mpmath.exp(e))
        exact = mpmath.log(moment) / (a - 1)
    found = randomized_response_renyi(epsilon, order)
    assert exact <= found <= exact * (1 + mpmath.mpf(2e-3)) + 1e-300


@pytest.mark.parametrize("mu", [0.1, 1.0])
def test_renyi_conversion_is_the_published_one(mu):
    # Canonne, Kamath and Steinke (2020): minimise over a fine grid of orders.
    rho = mu**2 / 2
    orders = 1 + np.geomspace(1e-3, 1e5, 20_001)
    log_delta = math.log(DELTA)
    epsilon = orders * rho + np.log1p(-1 / orders) - (log_delta + np.log(orders)) / (orders - 1)
    assert ZCDPEvent(rho).epsilon(DELTA) == pytest.approx(epsilon.min(), rel=1e-5)
    assert ZCDPEvent(rho).epsilon(DELTA) > GaussianEvent(1 / mu).epsilon(DELTA)


@pytest.mark.parametrize("delta", [1e-11, 1e-15, 1e-30])
def test_tiny_deltas_use_renyi_divergences(delta):
    event = PoissonSampledGaussianEvent(0.01, 1.0, 100)
    assert event.epsilon(delta) == pytest.approx(renyi_epsilon(event.renyi, delta), rel=1e-9)
    assert event.epsilon(delta) > event.epsilon(1e-9)


# -- many steps: exact values from contour integrals --


def observations(event, largest_order):
    """Losses and laws (of P, and of P at the mirrored loss) of a step on nodes of quadrature."""
    s = event.noise_multiplier
    if isinstance(event, PoissonSampledGaussianEvent):
        q = event.sampling_probability
        y = np.arange(-1 - 13 * s, 1 + 0.5 * largest_order + 13 * s, min(s, s * s) / 10)
        up, down = (np.log1p(q * np.expm1((sign * y / 2 - 1 / 8) / s**2)) for sign in (1, -1))
        p = q * normal(y, 0.5, s) + (1 - q) * normal(y, 0.0, s)
        return up - down, p * (y[1] - y[0]), np.zeros(y.size)
    q, width = event.fraction, min(s, s * s) / 2
    nodes, weights = np.polynomial.legendre.leggauss(16)
    left = 0.5 + width * np.arange(math.ceil((largest_order + 13 * s + 1) / width))
    x = (left[:, None] + 0.5 * width * (1 + nodes)).ravel()
    weights = np.tile(0.5 * width * weights, left.size)
    rest = normal(x, 0.0, s) * weights
    loss = np.log1p(q * np.expm1((x - 0.5) / s**2))
    return loss, q * normal(x, 1.0, s) * weights + (1 - q) * rest, rest


def exact_delta(event, order, epsilon=None, sizes=(100, 250, 600)):
    """Epsilon (at the saddle point `order`), and the pair's delta there; None where it takes long.

    ``(1 - e^(epsilon - l))_+`` is the integral of ``e^(z (l - epsilon)) / (z (z + 1)) / (2 pi i)``
    over ``Re z = order``, so no number cancels another, nor is there a grid of losses.
    """
    unit, count = event.unit
    loss, p, mirrored = observations(unit, order + 1.0)
    far = np.abs(loss) * (order + 1.0) < 600.0
    loss, p, mirrored = loss[far], p[far], mirrored[far]

    def excess(z):  # E e^(z l) - 1
        return np.expm1(np.multiply.outer(z, loss)) @ p + (
            np.expm1(np.multiply.outer(z, -loss)) @ mirrored
        )

    tilted = p * np.exp(order * loss), mirrored * np.exp(-order * loss)
    total = 1.0 + excess(order)
    mean = float(loss @ (tilted[0] - tilted[1])) / total
    epsilon = count * mean if epsilon is None else epsilon
    deviation = math.sqrt(count * (float(loss**2 @ (tilted[0] + tilted[1])) / total - mean**2))
    if not 0.0 <= epsilon < 100.0:
        return None
    step = 2 * math.pi / max(70.0 / order, 14 * deviation + 3 * float(loss[p > 1e-18].max()))

    def decay(size):
        return count * math.log(abs(1.0 + excess(order + 1j * size * step)) / total)

    size = next((size for size in sizes if decay(size) < -36.0), None)
    if size is None:
        return None
    z = order + 1j * step * np.arange(size)
    integrand = np.exp(count * np.log1p(excess(z)) - z * epsilon) / (z * (z + 1.0))
    return epsilon, step / math.pi * float(integrand.real.sum() - 0.5 * integrand.real[0])


def many_steps(rng, fixed):
    """An event of up to 10^6 steps, an epsilon, and its exact delta there."""
    while True:
        s, count = 10 ** rng.uniform(-0.4, 1.0), int(10 ** rng.uniform(2.0, 6.0))
        if fixed:
            population = int(10 ** rng.uniform(1.0, 6.0))
            batch = max(1, int(population * 10 ** rng.uniform(-4.5, -0.3)))
            event = FixedSizeSampledGaussianEvent(population, batch, s, count)
        else:
            event = PoissonSampledGaussianEvent(10 ** rng.uniform(-4.5, -0.3), s, count)
        found = exact_delta(event, 10 ** rng.uniform(-1.0, 1.3))
        if found is not None and found[1] > 1e-30:
            return event, *found


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(k, marks=pytest.mark.slow) for k in range(10, 60))]
)
def test_many_steps_never_report_less_than_the_exact_delta(seed, fixed):
    event, epsilon, exact = many_steps(np.random.default_rng(seed), fixed)
    found = event.delta(epsilon)
    assert found >= exact * (1 - 1e-9)
    assert found <= max(1.1 * exact, 2e-16 * event.count + 2e-12, renyi_delta(event.renyi, epsilon))
    loss = event.privacy_loss_distribution(automatic_interval(event))
    assert loss.get_delta_for_epsilon(epsilon) >= exact * (1 - 1e-9)
    assert np.all(loss.masses >= 0.0)


@pytest.mark.parametrize(
    ("event", "epsilon", "order"),
    [
        (PoissonSampledGaussianEvent(4.2298e-05, 0.48214, 10**6), 0.628, 14.0),
        (FixedSizeSampledGaussianEvent(10**7, 212, 0.5533232430580767, 10**6), 3.0, 4.8),
    ],
    ids=["poisson", "fixed"],
)
def test_a_million_steps_where_rounding_was_larger_than_delta(event, epsilon, order):
    _, exact = exact_delta(event, order, epsilon, (5000,))
    assert exact < 2e-10
    assert exact <= event.delta(epsilon) <= exact + 1e-16 * event.count


def test_the_automatic_grid_is_fine_where_losses_reach_far():
    event = PoissonSampledGaussianEvent(4.2298e-05, 0.48214, 10**6)
    epsilon, exact = exact_delta(event, 14.0)
    assert epsilon <= event.epsilon(float(exact)) <= epsilon * (1 + 2e-3)


@pytest.mark.parametrize("count", [10**5, 10**6])
def test_many_randomized_responses_are_a_binomial(count):
    # The number of true answers tells all: sums of binomials in 30 digits of their logarithms.
    one = 2.0**-11 if count < 10**6 else 2.0**-12
    event = SelfComposedEvent(PureEvent(one), count)
    j = np.arange(count + 1.0)
    log_p = stats.binom.logpmf(j, count, expit(one))
    loss = one * (2 * j - count)
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        exact = float(np.exp(log_p[loss > epsilon]) @ -np.expm1(epsilon - loss[loss > epsilon]))
        found = event.privacy_loss_distribution(one).get_delta_for_epsilon(epsilon)
        assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-8) + 4e-16 * count
        assert event.delta(epsilon) >= exact * (1 - 1e-9)


@pytest.mark.parametrize("weights", [(0, 1, 98, 1, 0), (30, 5, 1, 0, 64), (1, 0, 0, 0, 0)])
def test_powers_against_fractions(weights):
    masses = [Fraction(weight, sum(weights)) for weight in weights]
    exact = [Fraction(1)]
    for _ in range(60):
        sums = [Fraction(0)] * (len(exact) + len(masses) - 1)
        for (i, a), (j, b) in product(enumerate(exact), enumerate(masses)):
            sums[i + j] += a * b
        exact = sums
    long = np.array(weights, dtype=np.longdouble) / sum(weights)
    first, found, rounding = loss_distributions._convolved(long, 60)
    inside = np.array([float(x) for x in exact[first : first + found.size]])
    assert np.abs(found - inside).sum() <= rounding + loss_distributions.TAIL + 1e-15
    assert rounding < 1e-12


@pytest.mark.parametrize("count", [10**5, 10**6])
@pytest.mark.parametrize(("q", "s"), [(1e-3, 2.0), (2e-4, 0.8)])
def test_many_steps_agree_with_dp_accounting(q, s, count):
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution

    theirs = privacy_loss_distribution.from_gaussian_mechanism(
        2 * s,
        sampling_prob=q,
        value_discretization_interval=2e-5,
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE,
    ).self_compose(count)
    event = PoissonSampledGaussianEvent(q, s, count)
    for epsilon in (0.1, 0.5, 1.0):
        reference = theirs.get_delta_for_epsilon(epsilon)
        # Theirs grows with finer grids, on which its masses lose digits.
        assert event.delta(epsilon) == pytest.approx(reference, rel=2e-2, abs=3e-16 * count)


@pytest.mark.parametrize(
    "event",
    [PoissonSampledGaussianEvent(0.9, 1.0, 40), FixedSizeSampledGaussianEvent(10, 9, 0.02, 30)],
    ids=["poisson", "fixed"],
)
def test_sampling_never_costs_more_than_full_batches(event):
    for delta in (1e-2, 1e-6, 1e-9, 1e-11, 1e-40):
        assert event.epsilon(delta) <= gaussian_epsilon(event.gdp_bound, delta)
    for epsilon in (0.0, 1.0, 30.0, 2000.0):
        assert event.delta(epsilon) <= gaussian_delta(event.gdp_bound, epsilon)


def test_delta_of_sampled_integers_falls_with_epsilon():
    event = PoissonSampledGaussianEvent(0.01, 2.0, 1000, integers=3)
    epsilons = np.append(np.linspace(0.0, 60.0, 61), [700.0, 1e4, 1e300])
    deltas = [event.delta(epsilon) for epsilon in epsilons]
    assert all(b <= a * (1 + 1e-6) for a, b in zip(deltas, deltas[1:], strict=False))
    # What a distance adds is found by logarithms: e^epsilon alone would overflow.
    assert distance_delta(event, 1e300) == 1.0
    assert distance_delta(event, 1.0) == pytest.approx((1 + math.e) * event.tv)
