"""Events: how they compose, what they cost; no number is below an independent computation."""

from __future__ import annotations

import functools
import json
import math
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, ndtr

from skriemdp.ledger._accountant import BudgetError, PrivacyAccountant
from skriemdp.privacy import _loss_distributions as loss_distributions
from skriemdp.privacy._calibration import gaussian_delta, gaussian_epsilon
from skriemdp.privacy._event import loss_epsilon
from skriemdp.privacy._events import (
    ApproximateEvent,
    ComposedEvent,
    FixedSizeSampledGaussianEvent,
    GaussianEvent,
    MixtureEvent,
    ParallelEvent,
    PoissonSampledGaussianEvent,
    ProfileEvent,
    PureEvent,
    SeededEvent,
    SelectionEvent,
    SelfComposedEvent,
    ZCDPEvent,
    compose,
    event_from_dict,
)
from skriemdp.privacy._laplace import LaplaceEvent
from skriemdp.privacy._loss_distributions import (
    fixed_size_gaussian_loss,
    gaussian_loss,
    loss_from_profile,
    poisson_gaussian_loss,
)
from skriemdp.privacy._renyi import renyi_delta, renyi_epsilon
from skriemdp.riemannian_laws import RiemannianEvent

DELTA = 1e-5
EVENTS = [
    GaussianEvent(3.0),
    GaussianEvent(20.0, count=7),
    PureEvent(0.3),
    ApproximateEvent(0.2, 1e-7),
    ZCDPEvent(0.02),
    ProfileEvent((0.0, 0.1, 0.4), (0.2, 0.1, 1e-7)),
    PoissonSampledGaussianEvent(0.05, 0.8, count=3),
    PoissonSampledGaussianEvent(1.0, 4.0),
    FixedSizeSampledGaussianEvent(1000, 20, 0.9, count=3),
    ComposedEvent((PureEvent(0.1), GaussianEvent(4.0), FixedSizeSampledGaussianEvent(50, 5, 2.0))),
    SelfComposedEvent(PureEvent(0.05), 6),
    MixtureEvent((0.25, 0.5, 0.25), (ComposedEvent(()), GaussianEvent(2.0), PureEvent(0.4))),
    MixtureEvent((0.9, 0.1), (ComposedEvent(()), PoissonSampledGaussianEvent(0.1, 1.0, 20))),
    ParallelEvent((PureEvent(0.2), GaussianEvent(6.0))),
    ParallelEvent((GaussianEvent(6.0), GaussianEvent(3.0))),
    SelectionEvent(GaussianEvent(8.0), mean=10.0),
    SelectionEvent(GaussianEvent(8.0), mean=10.0, law="poisson"),
    SelectionEvent(PureEvent(0.1), mean=4.0, shape=0.0),
]


def name(event):
    return f"{event.kind}-{getattr(event, 'count', 1)}"


every_event = pytest.mark.parametrize("event", EVENTS, ids=name)


# -- laws of every event --


@every_event
def test_json_round_trip(event):
    assert event_from_dict(json.loads(json.dumps(event.to_dict()))) == event


@every_event
def test_n_at_once_is_n_one_by_one(event, in_dp_accounting):
    at_once = SelfComposedEvent(event, 4)
    interval = 1e-3
    single = in_dp_accounting(event.privacy_loss_distribution(interval))
    chain = single
    for _ in range(3):
        chain = chain.compose(single)
    expected = loss_epsilon(chain, DELTA)
    for other in (
        at_once,
        compose([event] * 4),
        compose([SelfComposedEvent(event, 2), event, event]),
    ):
        found = loss_epsilon(other.privacy_loss_distribution(interval), DELTA)
        if isinstance(event, (ZCDPEvent, GaussianEvent)) or event.mu is not None:
            # Merged before it is put on the grid; for zCDP that is stronger than multiplied pairs.
            assert found <= expected * (1 + 1e-6)
            assert found == pytest.approx(expected, rel=0.12 if event.mu is None else 0.02)
        else:
            assert found == pytest.approx(expected, rel=1e-6)
        assert other.epsilon(DELTA) == pytest.approx(at_once.epsilon(DELTA), rel=2e-4)
        assert other.renyi(3.0) == pytest.approx(4 * event.renyi(3.0), rel=1e-9)


@every_event
def test_epsilon_and_delta_are_inverse_and_monotone(event):
    deltas = [1e-3, 1e-5, 1e-8, 1e-12]
    epsilons = [event.epsilon(delta) for delta in deltas]
    assert all(0.0 <= a <= b for a, b in zip(epsilons, epsilons[1:], strict=False))
    for delta, epsilon in zip(deltas, epsilons, strict=True):
        if math.isfinite(epsilon):
            assert event.delta(epsilon) <= delta * 1.05  # rounding of an inverse, at 1e-10 or so


@every_event
def test_renyi_divergences_never_undercut_the_profile(event):
    # Conversion of a valid Renyi bound gives a valid, looser profile.
    if event.extra_delta:
        return
    for epsilon in (0.1, 0.5, 1.0):
        assert renyi_delta(event.renyi, epsilon) >= event.delta(epsilon) * (1 - 1e-3) - 2e-12


@every_event
def test_renyi_grows_with_the_order_and_ends_at_the_pure_epsilon(event):
    values = [event.renyi(order) for order in (1.1, 2.0, 5.0, 20.0, 100.0, math.inf)]
    slack = 0.01 if event.kind == "selection" else 1e-9  # minimised over a grid of orders
    assert all(a <= b * (1 + slack) for a, b in zip(values, values[1:], strict=False))
    if event.extra_delta == 0.0:
        assert event.epsilon(0.0) == pytest.approx(values[-1], rel=1e-9)


@every_event
def test_gdp_bound_covers_the_profile(event):
    assert event.gdp_bound is None or event.extra_delta == 0.0
    if event.gdp_bound is None:
        assert event.kind in {"approximate", "zcdp", "selection", "profile"}
        return
    for epsilon in (0.0, 0.1, 0.5, 2.0):
        assert event.delta(epsilon) <= gaussian_delta(event.gdp_bound, epsilon) * (1 + 2e-3) + 2e-12


@every_event
def test_loss_distribution_is_a_valid_symmetric_pair(event):
    interval = 1e-3
    loss = event.privacy_loss_distribution(interval)
    assert loss.get_delta_for_epsilon(-60.0) == pytest.approx(1.0, abs=1e-6)
    for epsilon in (0.05, 0.4):
        # H_{1/a}(P, Q) = 1 - 1/a + H_a(Q, P)/a, and the pair is symmetric.
        mirrored = -math.expm1(-epsilon) + math.exp(-epsilon) * loss.get_delta_for_epsilon(epsilon)
        assert loss.get_delta_for_epsilon(-epsilon) == pytest.approx(mirrored, abs=1e-9)


@every_event
def test_a_finer_grid_only_lowers_epsilon(event):
    coarse, fine = (loss_epsilon(event.privacy_loss_distribution(h), DELTA) for h in (4e-3, 1e-3))
    assert fine <= coarse * (1 + 1e-9)
    assert event.epsilon(DELTA) <= fine * (1 + 1e-3)


# -- composition --


def test_gaussian_parts_merge_exactly():
    merged = compose([GaussianEvent(2.0), GaussianEvent(3.0, count=4), GaussianEvent(2.0)])
    mu = math.sqrt(2 / 4 + 4 / 9)
    assert isinstance(merged, GaussianEvent)
    assert mu <= merged.mu <= mu * (1 + 1e-14)
    assert merged.epsilon(DELTA) == gaussian_epsilon(merged.mu, DELTA)


def test_compose_opens_counts_and_keeps_single_events():
    event = PoissonSampledGaussianEvent(0.1, 2.0, 5)
    assert compose([event]) == event
    assert compose([event, event]) == PoissonSampledGaussianEvent(0.1, 2.0, 10)
    nested = SelfComposedEvent(ComposedEvent((PureEvent(0.1), SelfComposedEvent(event, 2))), 3)
    assert compose([nested]) == ComposedEvent(
        (SelfComposedEvent(PureEvent(0.1), 3), PoissonSampledGaussianEvent(0.1, 2.0, 30))
    )
    assert compose([ZCDPEvent(0.1), ZCDPEvent(0.2)]).rho == pytest.approx(0.3)


def test_nothing_costs_nothing():
    nothing = compose([])
    assert nothing.mu == 0.0
    assert nothing.epsilon(0.0) == nothing.delta(0.0) == nothing.renyi(2.0) == 0.0
    assert compose([nothing, PureEvent(0.5)]) == PureEvent(0.5)


def test_pure_releases_add_up_at_delta_zero():
    event = compose([PureEvent(0.1), PureEvent(0.25), PureEvent(0.1)])
    assert event.epsilon(0.0) == pytest.approx(0.45)
    assert event.epsilon(1e-3) < 0.45
    assert PureEvent(0.3).delta(0.3) == 0.0


def test_a_profile_that_ends_is_as_good_as_pure():
    profile = ProfileEvent((0.0, 0.4), (0.2, 0.0))
    assert profile.gdp_bound == PureEvent(0.4).gdp_bound
    assert ProfileEvent((0.0,), (0.0,)).gdp_bound == 0.0


def test_approximate_releases_have_no_epsilon_below_their_delta():
    event = compose([ApproximateEvent(0.1, 1e-6), ApproximateEvent(0.2, 1e-6)])
    assert event.epsilon(1e-6) == math.inf
    assert event.extra_delta == pytest.approx(2e-6)
    assert event.epsilon(2.1e-6) <= 0.3 * (1 + 1e-12)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: GaussianEvent(0.0),
        lambda: GaussianEvent(math.nan),
        lambda: GaussianEvent(1.0, count=0),
        lambda: GaussianEvent(1.0, count=1.5),
        lambda: PureEvent(-1.0),
        lambda: ProfileEvent((), ()),
        lambda: ProfileEvent((0.0, 1.0), (0.5,)),
        lambda: ProfileEvent((0.1,), (0.5,)),
        lambda: ProfileEvent((0.0, 700.0), (0.5, 0.0)),
        lambda: ProfileEvent((0.0, 1.0), (1.0, 1.0)),
        lambda: PureEvent(math.inf),
        lambda: ApproximateEvent(1.0, 1.0),
        lambda: PoissonSampledGaussianEvent(0.0, 1.0),
        lambda: PoissonSampledGaussianEvent(1.1, 1.0),
        lambda: FixedSizeSampledGaussianEvent(10, 11, 1.0),
        lambda: FixedSizeSampledGaussianEvent(10, 1, 0.0),
        lambda: MixtureEvent((0.5, 0.4), (PureEvent(1.0), PureEvent(2.0))),
        lambda: MixtureEvent((1.0,), ()),
        lambda: SelectionEvent(PureEvent(1.0), mean=0.5),
        lambda: SelectionEvent(PureEvent(1.0), mean=5.0, shape=-1.0),
        lambda: SelectionEvent(ApproximateEvent(1.0, 1e-5), mean=5.0),
        lambda: SelectionEvent(PureEvent(1.0), mean=5.0, law="fixed"),
        lambda: event_from_dict({"kind": "unheard-of"}),
        lambda: event_from_dict({"kind": "pure", "sigma": 1.0}),
        lambda: GaussianEvent(1.0).epsilon(1.0),
        lambda: GaussianEvent(1.0).delta(-0.1),
    ],
)
def test_bad_numbers_are_refused(bad):
    with pytest.raises((ValueError, TypeError)):
        bad()


# -- dp_accounting: its conventions, and agreement where it is right --


def dp_accountants():
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
    from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant

    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    return dp_accounting, PLDAccountant, RdpAccountant, relation


def test_guard_how_dp_accounting_reads_gaussian_noise_under_replace_one():
    """Its two accountants disagree; the day this fails, read privacy/_events.py again."""
    dp, pld, rdp, relation = dp_accountants()
    event = dp.GaussianDpEvent(1.0)
    by_loss = pld(neighboring_relation=relation).compose(event).get_epsilon(1e-6)
    by_renyi = rdp(neighboring_relation=relation).compose(event).get_epsilon(1e-6)
    # PLD doubles the sensitivity (noise over replace-one sensitivity 1/2), Renyi does not (1).
    assert by_loss == pytest.approx(GaussianEvent(0.5).epsilon(1e-6), rel=1e-3)
    assert by_loss == pytest.approx(11.00, abs=0.01)
    assert by_renyi == pytest.approx(renyi_epsilon(GaussianEvent(1.0).renyi, 1e-6), rel=0.01)
    assert by_renyi == pytest.approx(5.22, abs=0.01)


def test_guard_dp_accounting_forgets_the_count_of_randomized_responses():
    dp, pld, _, relation = dp_accountants()
    one = dp.RandomizedResponseDpEvent(2 * expit(-0.5), 2)
    at_once = pld(neighboring_relation=relation).compose(one, 20).get_epsilon(1e-6)
    assert at_once == pytest.approx(0.5, abs=0.01)
    ours = SelfComposedEvent(PureEvent(0.5), 20).epsilon(1e-6)
    assert ours == pytest.approx(9.99, abs=0.01)


@pytest.mark.parametrize(("q", "s", "count"), [(0.01, 1.0, 100), (0.2, 0.7, 5), (0.001, 0.5, 300)])
def test_poisson_event_is_dp_accountings_pair_at_twice_the_multiplier(q, s, count):
    dp, pld, _, relation = dp_accountants()
    event = dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(2 * s))
    theirs = pld(neighboring_relation=relation).compose(event, count).get_epsilon(DELTA)
    ours = PoissonSampledGaussianEvent(q, s, count).epsilon(DELTA)
    assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("seed", range(10))
def test_random_mixes_agree_with_dp_accounting(seed):
    dp, pld, _, relation = dp_accountants()
    rng = np.random.default_rng(seed)
    events, accountant = [], pld(neighboring_relation=relation, value_discretization_interval=1e-3)
    for kind in rng.integers(3, size=rng.integers(2, 6)):
        count = int(rng.integers(1, 6))
        if kind == 0:
            nu = float(rng.uniform(2.0, 20.0))
            events.append(GaussianEvent(nu, count))
            accountant.compose(dp.GaussianDpEvent(2 * nu), count)
        elif kind == 1:
            q, s = float(rng.uniform(0.005, 0.3)), float(rng.uniform(0.8, 4.0))
            events.append(PoissonSampledGaussianEvent(q, s, count))
            accountant.compose(dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(2 * s)), count)
        else:
            epsilon = float(rng.integers(1, 400)) * 1e-3
            events.append(SelfComposedEvent(PureEvent(epsilon), count))
            for _ in range(count):
                accountant.compose(dp.RandomizedResponseDpEvent(2 * expit(-epsilon), 2))
    theirs = accountant.get_epsilon(DELTA)
    assert compose(events).epsilon(DELTA) == pytest.approx(theirs, rel=5e-3)


# -- Monte Carlo --


def draw_losses(event, size, rng):
    """Privacy losses of the dominating pair under P, straight from its definition."""
    unit, count = event.unit
    total = np.zeros(size)
    for _ in range(count):
        if isinstance(unit, GaussianEvent):
            total += unit.mu * rng.normal(size=size) + unit.mu**2 / 2
        elif isinstance(unit, PureEvent):
            total += unit.epsilon_0 * np.where(rng.random(size) < expit(unit.epsilon_0), 1, -1)
        elif isinstance(unit, PoissonSampledGaussianEvent):
            q, s = unit.sampling_probability, unit.noise_multiplier
            y = s * rng.normal(size=size) + 0.5 * (rng.random(size) < q)
            up, down = ((sign * y / 2 - 1 / 8) / s**2 for sign in (1, -1))
            total += np.log1p(q * np.expm1(up)) - np.log1p(q * np.expm1(down))
        else:
            # PLD*: with x from q N(1, s^2) + (1-q) N(0, s^2) and l its loss against N(0, s^2), the
            # loss is l when l > 0; it is -l when x comes from N(0, s^2) and l > 0; else 0.
            q, s = unit.fraction, unit.noise_multiplier
            p_up = q * ndtr(0.5 / s) + (1 - q) * ndtr(-0.5 / s)
            p_down = ndtr(-0.5 / s)
            u = rng.random(size)
            up, down = u < p_up, u > 1 - p_down
            loss = np.zeros(size)
            from_one = rng.random(size) < q * ndtr(0.5 / s) / p_up
            mean = np.where(up & from_one, 1.0, 0.0)
            x = stats.truncnorm.rvs((0.5 - mean) / s, np.inf, mean, s, random_state=rng, size=size)
            value = np.log1p(q * np.expm1((x - 0.5) / s**2))
            loss[up], loss[down] = value[up], -value[down]
            total += loss
    return total


MIXES = [
    compose([FixedSizeSampledGaussianEvent(100, 10, 0.8, 6), GaussianEvent(2.0)]),
    compose([FixedSizeSampledGaussianEvent(50, 20, 1.5, 3), SelfComposedEvent(PureEvent(0.2), 5)]),
    compose(
        [FixedSizeSampledGaussianEvent(10, 1, 0.6, 4), PoissonSampledGaussianEvent(0.2, 1.0, 4)]
    ),
]


@pytest.mark.parametrize("event", MIXES, ids=["gaussian", "pure", "poisson"])
def test_mixes_agree_with_monte_carlo(event):
    # Two-sided, 12 comparisons in all at 5.5 standard errors: false alarms below 1e-6.
    size, rng = 200_000, np.random.default_rng(5)
    losses = sum(draw_losses(part, size, rng) for part in event.events)
    for epsilon in (0.2, 0.5, 1.0, 2.0):
        values = np.maximum(-np.expm1(epsilon - losses), 0.0)
        error = values.std() / math.sqrt(size)
        assert abs(event.delta(epsilon) - values.mean()) < 5.5 * error + 2e-4 * values.mean()


# -- rounding of the discrete distributions --


@pytest.mark.parametrize("count", [1, 10, 1000])
@pytest.mark.parametrize("delta", [1e-10, 1e-5])
def test_composed_grids_stay_above_the_exact_gaussian(count, delta):
    # A q=1 "sampled" step is Gaussian; composing its grid must not undercut the closed form.
    from skriemdp.privacy._loss_distributions import gaussian_loss, repeat

    mu = 1.0 / math.sqrt(count)
    interval = 1e-3 / math.sqrt(count)
    loss = repeat(gaussian_loss(mu, interval), count, interval)
    exact = gaussian_epsilon(1.0, delta)
    profile = loss.get_delta_for_epsilon(exact)
    assert profile + 1e-12 >= delta * (1 - 1e-9)
    # Every copy of a loss that is handed on in floats may lack a rounding of its mass.
    assert profile == pytest.approx(delta, rel=2e-3, abs=2e-13 + 8e-16 * count)


@pytest.mark.parametrize("ours", [True, False])
def test_rounding_of_a_million_copies_is_covered(ours):
    # Far below what rounding makes of it, where delta is the smallest that distributions are for.
    count, interval = 10**6, 4e-5
    edge = interval * np.arange(2000) / 1e-3
    if ours:
        masses = loss_distributions._between(edge - 5e-4), loss_distributions._between(edge + 5e-4)
        tail = stats.norm.sf(edge[-1] - 5e-4)
        loss = loss_distributions._connect(*masses, tail, interval, edge[-1], count)
    else:
        loss = loss_distributions.repeat(gaussian_loss(1e-3, interval), count, interval)
    for epsilon in (4.0, 5.0, 6.0, 7.0):
        exact = gaussian_delta(1.0, epsilon)
        allowed = 5e-11 if ours else 3e-10
        assert exact <= loss.get_delta_for_epsilon(epsilon) <= 1.01 * exact + allowed


@pytest.mark.parametrize(("probability", "noise"), [(0.2, 1.0), (0.01, 1.2), (0.5, 20.0)])
@pytest.mark.parametrize("count", [2, 80, 3000])
def test_steps_on_batches_are_composed_as_by_dp_accounting(probability, noise, count):
    interval = 2.0**-10 if noise < 10.0 else 2.0**-13
    for steps in (poisson_gaussian_loss, fixed_size_gaussian_loss):
        ours = steps(probability, noise, interval, count)
        theirs = loss_distributions.repeat(steps(probability, noise, interval), count, interval)
        for epsilon in (0.0, 0.1, 1.0, 5.0):
            delta = theirs.get_delta_for_epsilon(epsilon)
            assert ours.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("count", [2, 7, 50])
def test_a_power_leaves_out_less_than_it_says(count, rng):
    masses = rng.dirichlet(np.full(30, 0.2))
    exact = functools.reduce(np.convolve, [masses] * count)
    first, kept, rounding = loss_distributions._convolved(masses.astype(np.longdouble), count)
    assert exact[:first].sum() + exact[first + kept.size :].sum() <= loss_distributions.TAIL
    assert np.abs(kept - exact[first : first + kept.size]).sum() <= rounding + 2e-13
    np.testing.assert_allclose(kept, exact[first : first + kept.size], atol=2e-13)


def fair_coins(count):
    """Masses of the number of heads about the middle, by their ratios."""
    ends = min(count // 2, 12 * math.isqrt(count))
    k = np.arange(count // 2, count // 2 + ends, dtype=np.longdouble)
    half = np.cumprod((count - k) / (k + 1))
    masses = np.concatenate([half[::-1], np.ones(1, dtype=np.longdouble), half])
    return masses / masses.sum()


@pytest.mark.parametrize("count", [100, 10**6])
def test_rounding_of_powers_is_below_its_bound(count):
    one, all_ = fair_coins(400), fair_coins(400 * count)
    first, found, rounding = loss_distributions._convolved(one, count)
    first += (all_.size - 1) // 2 - count * (one.size - 1) // 2
    error = float(np.abs(found - all_[first : first + found.size]).sum())
    assert error <= rounding + 2e-15
    if np.finfo(np.longdouble).eps < 1e-18:
        assert rounding < 1e-13 + 5e-17 * count


def test_profile_to_loss_distribution_and_back():
    interval = 1e-2
    grid = interval * np.arange(900)
    deltas = np.array([gaussian_delta(0.8, e) for e in grid])
    loss = loss_from_profile(deltas, interval)
    for k in (0, 1, 57, 300):
        assert loss.get_delta_for_epsilon(grid[k]) == pytest.approx(deltas[k], rel=1e-6)
    # A bound that is not convex is replaced by the greatest convex function below it.
    bumpy = deltas * (1 + 0.2 * np.cos(grid * 9))
    bumpy = np.minimum.accumulate(np.maximum(bumpy, deltas))
    smoothed = loss_from_profile(bumpy, interval)
    for k in range(0, 400, 20):
        value = smoothed.get_delta_for_epsilon(grid[k])
        assert deltas[k] * (1 - 1e-9) <= value <= bumpy[k] * (1 + 1e-9)


# -- black-box releases, participation --


@pytest.mark.parametrize(("k", "epsilon_0", "delta_0"), [(3, 0.15, 1e-4), (10, 0.4, 1e-6)])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.7])
def test_black_box_composition_is_the_optimal_one(k, epsilon_0, delta_0, epsilon):
    # Kairouz, Oh and Viswanath (2015), Theorem 3.3.
    j = np.arange(k + 1)
    choose = np.array([math.comb(k, i) for i in j])
    p = choose * np.exp((k - j) * epsilon_0) / (1 + math.exp(epsilon_0)) ** k
    q = choose * np.exp(j * epsilon_0) / (1 + math.exp(epsilon_0)) ** k
    inner = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
    exact = 1 - (1 - delta_0) ** k * (1 - inner)
    found = SelfComposedEvent(ApproximateEvent(epsilon_0, delta_0), k).delta(epsilon)
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 2e-3)


def binomial_participation(local, rounds, rate):
    weights = stats.binom.pmf(np.arange(rounds + 1), rounds, rate)
    weights = tuple(weights / weights.sum())
    events = [ComposedEvent(()), *(compose([local] * k) for k in range(1, rounds + 1))]
    return MixtureEvent(weights, tuple(events))


@pytest.mark.parametrize(
    ("local", "expected"), [(ApproximateEvent(0.15, 1e-4), 0.2705), (None, 0.0917)]
)
def test_participation_reference_values(local, expected):
    # 100 clients, one per round, 50 rounds, at the published delta.
    if local is None:
        from skriemdp.privacy._calibration import gaussian_mu

        local = GaussianEvent(1 / gaussian_mu(0.15, 1e-4))
    event = binomial_participation(local, 50, 0.01)
    assert event.epsilon(1.05e-3) == pytest.approx(expected, rel=6e-3)


def test_renyi_of_a_mixture_at_any_order():
    event = MixtureEvent((1 - 1e-9, 1e-9), (ComposedEvent(()), PureEvent(3.0)))
    assert event.renyi(1e5) == pytest.approx(3.0 + math.log(1e-9) / 1e5, rel=1e-5)
    exact = math.log1p(1e-9 * math.expm1(PureEvent(3.0).renyi(2.0)))
    assert event.renyi(2.0) == pytest.approx(exact, rel=1e-6)


def test_mixture_is_the_mean_of_profiles_and_composes():
    parts = (GaussianEvent(1.0), PoissonSampledGaussianEvent(0.2, 0.7, 5), PureEvent(0.5))
    mixture = MixtureEvent((0.2, 0.5, 0.3), parts)
    for epsilon in (0.0, 0.3, 1.0):
        mean = sum(w * e.delta(epsilon) for w, e in zip(mixture.weights, parts, strict=True))
        assert mixture.delta(epsilon) == pytest.approx(mean, rel=1e-4)
    twice = compose([mixture, mixture])
    assert mixture.epsilon(DELTA) < twice.epsilon(DELTA) < compose(parts * 2).epsilon(DELTA) * 1.5


NOTHING = ComposedEvent(())
SILENT = [
    NOTHING,
    MixtureEvent((1.0,), (NOTHING,)),
    MixtureEvent((0.5, 0.5), (NOTHING, NOTHING)),
    ParallelEvent((NOTHING,)),
    ParallelEvent((NOTHING, MixtureEvent((1.0,), (NOTHING,)))),
]


@pytest.mark.parametrize("some", [[], [GaussianEvent(3.0)], [PureEvent(0.1)], [ZCDPEvent(0.01)]])
@pytest.mark.parametrize("silent", list(product(SILENT, repeat=2)), ids=str)
def test_releases_that_tell_nothing_add_nothing(silent, some):
    total = compose([*silent, *some])
    alone = compose(some)
    assert total.epsilon(1e-5) == alone.epsilon(1e-5) and total.delta(0.1) == alone.delta(0.1)
    accountant = PrivacyAccountant()
    for event in (*silent, *some):
        accountant.spend(event)
    assert accountant.spent.epsilon == pytest.approx(alone.epsilon(1e-5), rel=1e-9)


def test_what_a_mixture_and_a_composition_know():
    one, two = GaussianEvent(1.0), GaussianEvent(2.0)
    same, mixed = MixtureEvent((0.5, 0.5), (one, one)), MixtureEvent((0.5, 0.5), (one, two))
    assert same.mu == 1.0 and mixed.mu is None and mixed.gdp_bound == 1.0
    assert MixtureEvent((0.0, 1.0), (one, two)).mu == 0.5
    assert MixtureEvent((0.5, 0.5), (one, ZCDPEvent(0.1))).gdp_bound is None
    # Known through Renyi divergences alone, as long as the others are Gaussian.
    assert compose([ZCDPEvent(0.1), one]).renyi_only
    assert not compose([ZCDPEvent(0.1), PureEvent(0.5)]).renyi_only
    assert not compose([PureEvent(0.5), one]).renyi_only
    assert compose([PureEvent(0.5), one]).mu is None


@pytest.mark.parametrize("weights", [(0.2, 0.8), (0.5, 0.5), (0.0, 1.0)])
def test_mixtures_of_any_weights_are_means_of_profiles(weights):
    events = (GaussianEvent(1.0), PureEvent(0.4))
    mixture = MixtureEvent(weights, events)
    for epsilon in (0.0, 0.2, 1.0):
        mean = sum(w * e.delta(epsilon) for w, e in zip(weights, events, strict=True))
        loss = mixture.privacy_loss_distribution().get_delta_for_epsilon(epsilon)
        assert mean * (1 - 1e-9) <= mixture.delta(epsilon) <= mean + 1e-4
        assert mean * (1 - 1e-9) <= loss <= mean + 1e-4


def test_delta_never_exceeds_one():
    for event in (
        PoissonSampledGaussianEvent(0.5, 0.05, 3),
        FixedSizeSampledGaussianEvent(4, 2, 0.05, 3),
        ApproximateEvent(5.0, 0.9),
        compose([ApproximateEvent(0.1, 0.6), ApproximateEvent(0.2, 0.7)]),
        ZCDPEvent(500.0),
    ):
        assert 0.5 < event.delta(0.0) <= 1.0


@pytest.mark.parametrize("stored", [{}, {"count": 1}, {"kind": "gaussian", "unknown": 2.0}])
def test_malformed_stored_events_are_refused(stored):
    with pytest.raises(ValueError, match="kind"):
        event_from_dict(stored)


@pytest.mark.parametrize(
    "event",
    [FixedSizeSampledGaussianEvent(50, 5, 2.0), compose([PureEvent(0.1), GaussianEvent(4.0)])],
    ids=str,
)
def test_no_jump_at_the_smallest_delta_of_loss_distributions(event):
    above, at = event.epsilon(1.001e-10), event.epsilon(1e-10)
    assert above <= at <= above * (1 + 1e-3)
    assert at < 0.98 * renyi_epsilon(event.renyi, 1e-10)


@pytest.mark.parametrize("interval", [0.3, 0.01])
def test_loss_distributions_reach_as_far_as_they_say(interval):
    """At most exp(-50) counts as an infinite loss, however the grid falls."""
    for loss in (
        gaussian_loss(0.9, interval),
        poisson_gaussian_loss(0.1, 1.0, interval),
        fixed_size_gaussian_loss(0.1, 1.0, interval),
    ):
        assert 0.0 < loss.get_delta_for_epsilon(math.inf) <= math.exp(-50.0)


@pytest.mark.parametrize("order", [1.01, 3.0, 60.0])
def test_a_mixture_of_equals_is_no_less_than_each(order):
    for event in (GaussianEvent(2.0), ZCDPEvent(0.1), PureEvent(0.4)):
        mixture = MixtureEvent((0.3, 0.7), (event, event))
        assert mixture.renyi(order) >= event.renyi(order)


@pytest.mark.parametrize("epsilon", [1e-14, 1e-8, 1e-4, 0.1, 0.999, 1.001, 8.0])
def test_the_gaussian_bound_of_a_pure_event_is_rounded_up(epsilon):
    with mpmath.workdps(60):
        exact = 2 * mpmath.sqrt(2) * mpmath.erfinv(mpmath.tanh(mpmath.mpf(epsilon) / 2))
        ratio = float(PureEvent(epsilon).gdp_bound / exact - 1)
    assert 0.0 <= ratio < 1e-12


# -- any event at all --


def random_event(rng, depth=2):
    def size(low, high):
        return float(10 ** rng.uniform(low, high))

    def part():
        return random_event(rng, depth - 1)

    kind, count = int(rng.integers(10 if depth else 6)), int(size(0, 5))
    if kind == 0:
        return GaussianEvent(size(-3, 6), count)
    if kind == 1:
        return PureEvent(size(-6, 3))
    if kind == 2:
        return ApproximateEvent(size(-3, 1), size(-12, -0.1))
    if kind == 3:
        return ZCDPEvent(size(-6, 3))
    integers = int(rng.integers(3))
    if kind == 4:
        return PoissonSampledGaussianEvent(min(size(-5, 0.2), 1.0), size(-1, 3), count, integers)
    if kind == 5:
        n = int(size(0.5, 6))
        batch = max(1, int(n * size(-5, 0)))
        return FixedSizeSampledGaussianEvent(n, batch, size(-1, 3), count, integers)
    if kind == 6:
        return compose([part() for _ in range(int(rng.integers(1, 4)))])
    if kind == 7:
        return SelfComposedEvent(part(), count)
    if kind == 8:
        weight = float(rng.beta(0.5, 0.5))
        return MixtureEvent((weight, 1.0 - weight), (part(), part()))
    if rng.random() < 0.5:
        return ParallelEvent((part(), part()))
    run, law = part(), str(rng.choice(["poisson", "negative-binomial"]))
    if run.extra_delta:
        return run
    return SelectionEvent(run, 1 + size(-1, 2), law, float(rng.choice([0.0, 0.5, 1.0])))


@pytest.mark.parametrize(
    "seeds", [range(8), pytest.param(range(8, 48), marks=pytest.mark.slow)], ids=str
)
@pytest.mark.filterwarnings("error")
def test_any_event_answers_at_any_size(seeds):
    for seed in seeds:
        event = random_event(np.random.default_rng(seed))
        deltas = [event.delta(e) for e in (0.0, 1e-300, 1e-3, 0.3, 2.0, 30.0, 700.0, 1e4, 1e300)]
        assert all(0.0 <= b <= a * (1 + 1e-9) <= 2.0 for a, b in pairwise(deltas)), event
        assert deltas[0] <= 1.0
        targets = (0.0, 1e-300, 1e-30, 1e-12, 1e-6, 1e-3, 0.5, 0.999)
        epsilons = [event.epsilon(delta) for delta in targets]
        # Searches over orders of divergences may miss the best one by a little.
        assert all(0.0 <= b <= a * (1 + 1e-3) for a, b in pairwise(epsilons)), event
        for delta, epsilon in zip(targets, epsilons, strict=True):
            if epsilon < math.inf and delta > 1e-200 and not event.renyi_inside:
                assert event.delta(epsilon) <= delta * (1 + 1e-3), event
        with pytest.raises(ValueError, match="epsilon must be a finite number"):
            event.delta(math.inf)


def test_compositions_that_leave_no_finite_loss():
    event = compose([ZCDPEvent(600), PureEvent(1.0)])
    assert ZCDPEvent(600).epsilon(1e-6) <= event.epsilon(1e-6) <= ZCDPEvent(600).epsilon(1e-6) + 1.0
    hopeless = SelfComposedEvent(ApproximateEvent(0.01, 0.01), 40_000)
    assert hopeless.delta(1.0) == 1.0 and hopeless.epsilon(1e-3) == math.inf


def test_products_of_losses_are_convolutions(in_dp_accounting):
    one, two = gaussian_loss(0.5, 1e-2), loss_distributions.privacy_parameters_loss(0.3, 1e-3, 1e-2)
    found = loss_distributions.product(one, two)
    theirs = in_dp_accounting(one).compose(in_dp_accounting(two))
    for epsilon in (0.0, 0.2, 1.0, 3.0, math.inf):
        exact = theirs.get_delta_for_epsilon(epsilon)
        assert exact - 1e-15 <= found.get_delta_for_epsilon(epsilon) <= exact + 1e-12
    cut = loss_distributions.product(one, two, 1e-3)
    assert cut.masses.size < found.masses.size
    for epsilon in (0.0, 0.2, 1.0):
        exact = theirs.get_delta_for_epsilon(epsilon)
        assert exact <= cut.get_delta_for_epsilon(epsilon) <= exact + 2e-3


def test_normal_tails_are_as_accurate_as_the_proof_of_rounding_says():
    for x in np.linspace(0.0, 36.0, 721).tolist():
        with mpmath.workdps(40):
            error = abs(float(mpmath.mpf(float(ndtr(-x))) / mpmath.ncdf(-mpmath.mpf(x)) - 1))
        assert error <= np.finfo(float).eps * (20.0 + x * x)


# -- noise that can be repeated --------------------------------------------------------------------


PLAIN = [GaussianEvent(3.0), PureEvent(0.2), ApproximateEvent(0.1, 1e-6), ZCDPEvent(0.01)]


@pytest.mark.parametrize("other", PLAIN, ids=str)
def test_a_seeded_event_protects_nobody_in_any_company(other):
    seeded = SeededEvent(other)
    together = [
        seeded,
        compose([seeded, other]),
        compose([other, seeded, PureEvent(0.3), GaussianEvent(5.0), seeded]),
        SelfComposedEvent(seeded, 3),
        ParallelEvent((other, seeded)),
        MixtureEvent((1.0,), (seeded,)),
    ]
    for event in together:
        again = event_from_dict(json.loads(json.dumps(event.to_dict())))
        assert again == event
        assert [again.delta(e) for e in (0.0, 1.0, 50.0)] == [1.0] * 3
        assert [again.epsilon(d) for d in (0.0, 1e-9, 0.9)] == [math.inf] * 3
        assert again.mu is None and again.gdp_bound is None
    half = MixtureEvent((0.5, 0.5), (seeded, other))
    assert half.delta(50.0) >= 0.5 and half.epsilon(0.4) == math.inf
    with pytest.raises(ValueError):
        SelectionEvent(seeded, 3.0)


@pytest.mark.parametrize("filter", ["auto", "sum", "renyi", "gdp"])
def test_no_ceiling_admits_a_seeded_event_in_any_wrapping(filter):
    budget = PrivacyAccountant(1e3, filter=filter)
    seeded = SeededEvent(GaussianEvent(9.0))
    for event in (seeded, compose([seeded, PureEvent(0.1)]), SelfComposedEvent(seeded, 2)):
        with pytest.raises((BudgetError, ValueError)):
            budget.spend(event)
    assert len(budget.history) == 0


NARROW = {
    "gaussian": (GaussianEvent, {"noise_multiplier": 3.3}),
    "pure": (PureEvent, {"epsilon_0": 0.1}),
    "approximate": (ApproximateEvent, {"epsilon_0": 0.1, "delta_0": 0.01}),
    "zcdp": (ZCDPEvent, {"rho": 0.1}),
    "poisson": (
        PoissonSampledGaussianEvent,
        {"sampling_probability": 0.1, "noise_multiplier": 3.3, "count": 20},
    ),
    "fixed size": (
        FixedSizeSampledGaussianEvent,
        {"population": 100, "batch_size": 10, "noise_multiplier": 3.3, "count": 20},
    ),
    "laplace": (LaplaceEvent, {"dim": 3, "scale_over_sensitivity": 3.3}),
    "flat": (
        functools.partial(RiemannianEvent, "gaussian", "euclidean"),
        {"dim": 2, "curvature": 0.0, "sensitivity": 0.3, "scale": 1.1},
    ),
    "hyperbolic": (
        functools.partial(RiemannianEvent, "laplace", "hyperbolic"),
        {"dim": 2, "curvature": -0.9, "sensitivity": 0.3, "scale": 0.7},
    ),
}


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, np.int8, np.int64])
@pytest.mark.parametrize("name", NARROW)
def test_events_of_narrow_numbers_say_what_those_numbers_say(name, kind):
    make, fields = NARROW[name]
    whole = issubclass(kind, np.integer)
    given = {k: kind(v) if type(v) is (int if whole else float) else v for k, v in fields.items()}
    own = {
        k: v if type(v) in (int, float) else (int if whole else float)(v) for k, v in given.items()
    }
    one, two = make(**given), make(**own)
    assert one == two and one.to_dict() == two.to_dict()
    assert one.epsilon(0.02) == two.epsilon(0.02) and one.delta(0.2) == two.delta(0.2)
    assert isinstance(one.epsilon(0.02), float)


@pytest.mark.parametrize("order", [10**400, 1.0, math.nan, "2"])
@pytest.mark.parametrize("event", [GaussianEvent(1.0), ZCDPEvent(0.5)], ids=repr)
def test_an_order_of_no_divergence_is_refused(event, order):
    with pytest.raises((ValueError, TypeError), match="order must be a number above 1"):
        event.renyi(order)


@pytest.mark.parametrize(
    "event", [RiemannianEvent("gaussian", "sphere", 2, 1.0, 0.3, 1.0), LaplaceEvent(2, 3.0)]
)
def test_a_mu_that_is_no_number_is_not_known(event):
    assert event.epsilon_with_gaussian(math.nan, 1e-5) is None
    assert event.epsilon_with_gaussian(0.5, 1e-5) > 0.0
