"""Faults planted one at a time are refuted by the pairs, every one of them."""

from collections import Counter

import numpy as np
import pytest

from replay import faults
from replay.tape import Pair, Refuted
from skriemdp.descent.releases import PoissonSampler
from skriemdp.mechanisms import noise
from skriemdp.mechanisms.vector import GaussianNoise
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.sensitivity import ball_sensitivity

# No faults: what these return is a radius to which every record is cut, and noise fits that.
ENFORCED = {"log_lipschitz in skriemdp.descent.problem"}


def test_every_draw_of_the_package_is_replayed():
    assert faults.calls_of_draw() == faults.calls_reached()
    assert len(faults.calls_of_draw()) > 10


@pytest.mark.parametrize(
    ("plant", "least"),
    [
        (faults.faults_in_theorems, 25),
        (faults.faults_at_draws, 120),
        (faults.faults_in_charges, 50),
        (faults.faults_in_lines, 30),
    ],
)
def test_every_planted_fault_is_refuted(plant, least):
    planted = list(plant())
    kinds = Counter(fault.kind for fault in planted)
    refuted = Counter(fault.kind for fault in planted if fault.by)
    for kind, count in sorted(kinds.items()):
        print(f"{kind:32}{count:5} planted {refuted[kind]:5} refuted")
    survivors = [fault for fault in planted if not fault.by and fault.place not in ENFORCED]
    assert not survivors
    assert len(planted) >= least


# -- what else a tape refutes ---------------------------------------------------------------------

ONE, OTHER = (np.array([0.0, 1.0]),), (np.array([1.0, 1.0]),)


def release(accountant, x, *, sensitivity=0.5, times=1):
    rng = np.random.default_rng(0)
    accountant.spend(GaussianEvent(1.0))
    for _ in range(times):
        bound = ball_sensitivity(0.5 * sensitivity)
        GaussianNoise(bound, 1.0).release(np.array([x.mean()]), rng)


def data_dependent_scale(accountant, x):
    release(accountant, x, sensitivity=0.5 + x.mean())


def data_dependent_count(accountant, x):
    release(accountant, x, times=1 if x[0] else 2)


def charge_after(accountant, x):
    rng = np.random.default_rng(0)
    noise.draw(x.mean(), 0.5, "gaussian", rng, sensitivity=0.5)
    accountant.spend(GaussianEvent(1.0))


def batch_used_twice(accountant, x):
    sampler, rng = PoissonSampler(1.0), np.random.default_rng(0)
    accountant.spend(sampler.event(2, 1.0, 2))
    chosen = x[sampler.draw(2, rng)]
    for _ in range(2):
        noise.draw(chosen.sum(), 2.0, "gaussian", rng, sensitivity=2.0)


def difference_bound_of_a_sampled_sum(accountant, x):
    """Records in [2, 3]: two differ by one, but a record and its absence by three."""
    sampler, rng = PoissonSampler(1.0), np.random.default_rng(0)
    accountant.spend(sampler.event(2, 1.0))
    noise.draw((x + 2.0)[sampler.draw(2, rng)].sum(), 1.0, "gaussian", rng, sensitivity=1.0)


def uneven_blocks(accountant, x):
    rng = np.random.default_rng(0)
    accountant.spend(GaussianEvent(1.0))
    exact = np.array([x.mean()]), np.array([0.0])
    laws = "gaussian", "gaussian"
    noise.draw(exact, (1.0, 1.0), laws, rng, sensitivity=(1.0, 2.0))


def test_the_plain_release_passes():
    assert Pair("plain", release, ONE, OTHER).run().attained() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "fit",
    [
        data_dependent_scale,
        data_dependent_count,
        charge_after,
        batch_used_twice,
        difference_bound_of_a_sampled_sum,
        uneven_blocks,
    ],
)
def test_the_tape_refutes(fit):
    with pytest.raises(Refuted):
        Pair("a fault", fit, ONE, OTHER).run()
