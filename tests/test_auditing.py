"""The audit never exceeds a true guarantee, and exposes a halved noise."""

import numpy as np
import pytest

from skriemdp.auditing import audit_epsilon, audit_scores
from skriemdp.privacy.calibration import gaussian_epsilon, gaussian_mu

# Each bound may be wrong with probability 1e-8: far below one false alarm in a million runs.
CONFIDENCE = 1 - 1e-8
MU = gaussian_mu(8.0, 1e-5)


def gaussian_release(scale, seed=0):
    rng = np.random.default_rng(seed)

    def release(data, trials):
        return np.mean(data) + scale * rng.standard_normal((trials, 3))

    return release


ZERO, ONE = np.zeros(10), np.r_[1.0, np.zeros(9)]


def test_true_gaussian_passes():
    # Sensitivity of three equal coordinates: sqrt(3) / 10.
    audit = audit_epsilon(
        gaussian_release(3**0.5 / 10 / MU), ZERO, ONE, trials=2000, confidence=CONFIDENCE
    )
    assert 0.5 * MU < audit.mu <= MU
    assert audit.epsilon <= 8.0
    assert audit.epsilon_gdp == pytest.approx(gaussian_epsilon(audit.mu, 1e-5))


def test_halved_noise_is_caught():
    audit = audit_epsilon(
        gaussian_release(3**0.5 / 20 / MU), ZERO, ONE, trials=2000, confidence=CONFIDENCE
    )
    assert audit.mu > MU


def test_pure_epsilon_bound_catches_a_discrete_leak():
    rng = np.random.default_rng(1)
    truth = rng.random(4000) < 0.9
    lie = rng.random(4000) < 0.1
    audit = audit_scores(truth.astype(float) * 0, lie * 1.0, confidence=CONFIDENCE)
    assert audit.epsilon < np.log(9)
    caught = audit_scores(lie.astype(float), truth.astype(float), confidence=CONFIDENCE)
    assert 1.5 < caught.epsilon <= np.log(9)


def test_statistic_can_be_given():
    audit = audit_epsilon(
        gaussian_release(0.05), ZERO, ONE, trials=400, statistic=lambda out: out[:, 0]
    )
    assert audit.trials == 200


def test_too_few_trials():
    with pytest.raises(ValueError, match="trials"):
        audit_epsilon(gaussian_release(1.0), ZERO, ONE, trials=10)
