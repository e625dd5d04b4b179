"""The core of the doors to other federations: one ledger, one rule, exact noise on one update."""

import math

import numpy as np
import pytest

from skriemdp import BudgetExceededError, PrivacyAccountant
from skriemdp._mechanisms import noise
from skriemdp._random import NoiseStreams
from skriemdp.federated._round_releases import RoundBudget, UpdateRelease
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import GaussianEvent

UPDATE = UpdateRelease(1.0, gaussian_mu(1.0, 1e-5))


def rounds(path=None, ceiling=3.0):
    budget = PrivacyAccountant(ceiling, path=path, unit="client")
    return RoundBudget(budget, "round", "the host")


def until_refused(send):
    """How many rounds there is room for."""
    for sent in range(1000):
        try:
            send()
        except BudgetExceededError:
            return sent
    raise AssertionError("nothing was refused")


def test_an_update_is_charged_before_any_noise_and_refused_without(tmp_path, monkeypatch):
    door, draws = rounds(tmp_path / "site.ledger"), []
    drawn = noise.draw

    def watched(*arguments, **facts):
        draws.append(len(door.budget.history))
        return drawn(*arguments, **facts)

    monkeypatch.setattr(noise, "draw", watched)
    sent = until_refused(lambda: door.send(UPDATE, np.ones(5)))
    assert draws == list(range(1, sent + 1)) and sent == len(door.budget.history) > 3
    assert 2.5 < door.budget.spent.epsilon <= 3.0
    (entry, *_) = door.budget.history
    assert entry.params == {"unit": "client", "rounds": 1} and entry.label == "round"
    again = rounds(tmp_path / "site.ledger")  # after a restart too
    with pytest.raises(BudgetExceededError):
        again.send(UPDATE, np.ones(5))
    assert len(draws) == sent


def test_one_ledger_of_two_doors_is_refused_at_the_same_number(tmp_path):
    pytest.importorskip("flwr", reason="the extra 'flower' is not installed")
    from flwr.serverapp import GaussianPrivacyEvent

    from skriemdp.federated import FlowerAccountant

    # A replaced client moves a sum twice as far as Flower's multiplier says.
    flowers = GaussianPrivacyEvent(2.0 / UPDATE.mu, sample_size=4, population_size=4)

    def by_flower(path):
        accountant = FlowerAccountant(PrivacyAccountant(3.0, path=path, unit="client"), 4)

        def send():
            if accountant.would_exceed(flowers):
                raise BudgetExceededError("no room")
            accountant.compose(flowers)

        return send

    def by_update(path):
        door = rounds(path)
        return lambda: door.send(UPDATE, np.ones(3))

    counts = {}
    for name, makers in (("flower", [by_flower]), ("update", [by_update]), ("both", None)):
        path = tmp_path / name
        doors = [make(path) for make in makers or (by_flower, by_update)]
        turns = iter(range(1000))
        counts[name] = until_refused(
            lambda doors=doors, turns=turns: doors[next(turns) % len(doors)]()
        )
    assert counts["flower"] == counts["update"] == counts["both"] > 3


def test_noise_is_that_of_the_event():
    """Standard deviation within 5 standard errors: false alarms below 1e-6."""
    draws = np.stack([UPDATE.release(np.zeros(2000), NoiseStreams()) for _ in range(5)])
    claimed = 2.0 / UPDATE.mu
    assert abs(draws.std() / claimed - 1.0) < 5.0 / math.sqrt(2.0 * draws.size)
    assert UPDATE.event() == GaussianEvent(1.0 / UPDATE.mu)
    short = UpdateRelease(3.0, 300.0)  # hardly any noise: what is clipped shows
    for given, kept in (([3.0, 4.0], [1.8, 2.4]), ([0.3, 0.4], [0.3, 0.4]), ([np.nan, 1], [0, 0])):
        found = short.release(np.array(given), NoiseStreams())
        assert np.abs(found - kept).max() < 0.15


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RoundBudget("ledger", "round", "the host"), "PrivacyAccountant"),
        (lambda: RoundBudget(PrivacyAccountant(), "round", "the host"), "the host asks"),
        (lambda: RoundBudget(PrivacyAccountant(1.0, 0.0), "round", "the host"), "delta > 0"),
        (lambda: UpdateRelease(0.0, 1.0), "clip_norm"),
        (lambda: UpdateRelease(1.0, 0.0), "mu"),
        (lambda: rounds().send(UpdateRelease(1.0, 1e-12), np.ones(3)), "integers|small"),
    ],
)
def test_refusals(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, np.int8])
def test_updates_of_narrow_numbers_have_the_noise_of_those_numbers(kind):
    one = UpdateRelease(kind(3.3), kind(1.7))
    two = UpdateRelease(float(kind(3.3)), float(kind(1.7)))
    assert one.event() == two.event() and one.mu == two.mu
    first, second = (each.bounded_set(5) for each in (one, two))
    assert first.check(one.mu) == second.check(two.mu) and first.bound == second.bound
