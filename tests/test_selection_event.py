"""Private selection: the charged event against the exact law of the winner."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, ndtr

from skriemdp.privacy._events import GaussianEvent, PureEvent, SelectionEvent

DELTA = 1e-5


def winner_law(law, generating):
    """Law of the best outcome when outcomes are listed from worst to best."""
    below = np.concatenate([[0.0], np.cumsum(law)])
    return np.diff(generating(below))


def generating_function(event):
    if event.law == "poisson":
        return lambda x: np.exp(event.mean * (x - 1))
    gamma, eta = event.gamma, event.shape
    if eta == 0:
        return lambda x: np.log1p(-(1 - gamma) * x) / math.log(gamma)
    return lambda x: ((1 - (1 - gamma) * x) ** -eta - 1) / (gamma**-eta - 1)


SELECTIONS = [
    {"mean": 10.0, "shape": 1.0},
    {"mean": 6.0, "shape": 0.0},
    {"mean": 8.0, "shape": 0.5},
    {"mean": 5.0, "shape": -0.4},
    {"mean": 12.0, "law": "poisson"},
    {"mean": 0.7, "law": "poisson"},
]


@pytest.mark.parametrize("settings", SELECTIONS, ids=str)
@pytest.mark.parametrize("base", ["gaussian", "pure"])
def test_selection_event_covers_the_exact_law_of_the_winner(settings, base):
    """A run's score is the noisy statistic itself: the winner is its maximum over K runs."""
    if base == "gaussian":
        run = GaussianEvent(2.0)
        grid = np.linspace(-6.0, 7.0, 4001)
        laws = [np.diff(ndtr(np.append(np.append(-np.inf, grid), np.inf) - m)) for m in (0.0, 0.5)]
    else:
        run = PureEvent(0.4)
        high = expit(0.4)
        laws = [np.array([1 - high, high]), np.array([high, 1 - high])]
    event = SelectionEvent(run, **settings)
    generating = generating_function(event)
    winners = [winner_law(law, generating) for law in laws]
    if event.law == "poisson":
        winners = [np.append(w, math.exp(-event.mean)) for w in winners]
    for w in winners:
        assert w.sum() == pytest.approx(1.0)
    for first, second in (winners, winners[::-1]):
        first, second = np.maximum(first, 0), np.maximum(second, 0)
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            exact = np.maximum(first - math.exp(epsilon) * second, 0.0).sum()
            assert exact <= event.delta(epsilon) + 1e-12
        kept = (first > 1e-280) & (second > 1e-280)
        for order in (1.5, 3.0, 10.0):
            log_terms = order * np.log(first[kept]) + (1 - order) * np.log(second[kept])
            divergence = np.logaddexp.reduce(log_terms) / (order - 1)
            assert divergence <= event.renyi(order) + 1e-9


@pytest.mark.parametrize("settings", SELECTIONS, ids=str)
def test_selection_draws_the_number_of_runs_it_accounts_for(settings):
    # Kolmogorov-Smirnov for discrete laws is conservative: false alarms below 1e-7 each.
    event = SelectionEvent(GaussianEvent(3.0), **settings)
    size, rng = 20_000, np.random.default_rng(3)
    draws = np.array([event.draw_count(rng) for _ in range(size)])
    generating = generating_function(event)
    # Coefficients of the generating function by its values on a circle.
    count, radius = 4096, 0.999
    circle = radius * np.exp(2j * math.pi * np.arange(count) / count)
    law = np.real(np.fft.fft(generating(circle)) / count) / radius ** np.arange(count)
    assert event.mean == pytest.approx((law * np.arange(count)).sum(), rel=1e-2)
    empirical = np.cumsum(np.bincount(draws, minlength=count)[:count]) / size
    bound = math.sqrt(math.log(2 / 1e-8) / (2 * size))  # Dvoretzky, Kiefer, Wolfowitz, Massart
    assert np.abs(empirical - np.cumsum(law)).max() < bound


@pytest.mark.parametrize(("mean", "shape"), [(10.0, 1.0), (30.0, 0.0), (4.0, 2.0)])
def test_selection_agrees_with_dp_accounting(mean, shape):
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant

    orders = 1 + np.geomspace(0.02, 1e4, 400)
    relation = dp.NeighboringRelation.REPLACE_ONE
    accountant = RdpAccountant(orders=orders, neighboring_relation=relation)
    # The Renyi accountant reads noise over the replace-one sensitivity.
    accountant.compose(dp.dp_event.RepeatAndSelectDpEvent(dp.GaussianDpEvent(10.0), mean, shape))
    ours = SelectionEvent(GaussianEvent(10.0), mean=mean, shape=shape).epsilon(DELTA)
    assert ours == pytest.approx(accountant.get_epsilon(DELTA), rel=5e-3)


def test_selection_of_pure_runs():
    geometric = SelectionEvent(PureEvent(0.2), mean=50.0)
    assert geometric.epsilon(0.0) == pytest.approx(0.6)
    logarithmic = SelectionEvent(PureEvent(0.2), mean=50.0, shape=0.0)
    assert logarithmic.epsilon(0.0) == pytest.approx(0.4)
    assert SelectionEvent(GaussianEvent(5.0), mean=50.0).epsilon(0.0) == math.inf
    total_variation = math.expm1(0.2) / (math.exp(0.2) + 1)
    poisson = SelectionEvent(PureEvent(0.2), mean=5.0, law="poisson")
    assert poisson.epsilon(0.0) == pytest.approx(0.2 + 5.0 * total_variation)
