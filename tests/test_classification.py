"""PrivateMinimumDistanceToMean: one joint release for all classes, and a useful classifier."""

from fractions import Fraction

import numpy as np
import pytest

from skriemdp import PrivateMinimumDistanceToMean
from skriemdp.auditing import audit_scores
from skriemdp.datasets import digits_covariances
from skriemdp.mean.class_releases import drawn_together
from skriemdp.mechanisms import noise
from skriemdp.mechanisms.pure_sums import PureSumsAndCounts
from skriemdp.privacy.calibration import gaussian_mu

CENTER = np.diag([9 / 84, 9 / 84, 1 / 12, 1 / 48, 1 / 48]) + 1e-3 * np.eye(5)


def test_digits_by_their_covariances():
    X, y = digits_covariances()
    model = PrivateMinimumDistanceToMean("spd", CENTER, 2.0, epsilon=100.0, classes=range(10))
    private = model.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:])
    # The non-private classifier (pyRiemann's MDM) reaches .59; chance is .1.
    assert private > 0.5
    assert model.class_counts_.sum() == pytest.approx(1200, abs=5)
    assert model.predict_proba(X[:5]).sum(axis=1) == pytest.approx(np.ones(5))


def test_more_classes_cost_no_more_budget():
    X, y = digits_covariances()
    few = PrivateMinimumDistanceToMean("spd", CENTER, 2.0).fit(X, y > 4)
    many = PrivateMinimumDistanceToMean("spd", CENTER, 2.0).fit(X, y)
    assert few.privacy_spent_.mu == many.privacy_spent_.mu == gaussian_mu(1.0, 1e-5)


def test_empty_class_of_a_public_list_is_a_point_of_the_ball():
    X, y = digits_covariances()
    model = PrivateMinimumDistanceToMean("spd", CENTER, 2.0, classes=range(12)).fit(X, y)
    assert model.means_.shape == (12, 5, 5)
    assert (model.geometry_.dist(CENTER, model.means_) <= 2.0 * (1 + 1e-9)).all()


def test_unknown_label_is_refused(recording_accountant):
    X, y = digits_covariances()
    model = PrivateMinimumDistanceToMean(
        "spd", CENTER, 2.0, classes=range(5), accountant=recording_accountant
    )
    with pytest.raises(ValueError, match="not in classes"):
        model.fit(X, y)
    assert recording_accountant.spends == []


@pytest.mark.slow
@pytest.mark.parametrize("halved", [False, True], ids=["as shipped", "halved noise"])
def test_audit_of_a_record_that_changes_its_class(halved, monkeypatch):
    """1000 fits a side; false alarm below 1e-7."""
    if halved:
        integers = noise._integers
        monkeypatch.setattr(noise, "_integers", lambda *args: integers(*args) // 2)
    X = np.zeros((12, 1))
    y = np.r_[0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    X[0], Z, z = 1.0, X.copy(), y.copy()
    Z[0], z[0] = -1.0, 1
    model = PrivateMinimumDistanceToMean(
        center=[0.0], radius=1.0, classes=[0, 1], epsilon=8.0, delta=1e-3
    )

    def scores(rows, labels):
        out = []
        for _ in range(1000):
            fit = model.fit(rows, labels)
            sums = fit.means_[:, 0] * np.maximum(fit.class_counts_, 1.0)
            # The optimal direction: sums and counts of both classes.
            out.append(-sums[0] - sums[1] - fit.class_counts_[0] + fit.class_counts_[1])
        return np.array(out)

    sides = scores(X, y), scores(Z, z)
    audit = audit_scores(*sides, delta=1e-3, confidence=1 - 1e-8, tuning_share=0.2)
    assert (audit.mu > gaussian_mu(8.0, 1e-3)) == halved


def test_noisy_means_are_drawn_together_by_what_noise_explains():
    rng = np.random.default_rng(0)
    truth = 0.3 * rng.normal(size=(8, 30))
    sizes = np.linspace(50.0, 150.0, 8)
    noise = 20.0 / sizes
    noisy = truth + noise[:, None] * rng.normal(size=truth.shape)
    better = drawn_together(noisy, noise, sizes)
    assert np.sum((better - truth) ** 2) < 0.8 * np.sum((noisy - truth) ** 2)
    weights = sizes / sizes.sum()
    np.testing.assert_allclose(weights @ better, weights @ noisy)


def test_means_that_do_not_stand_out_stay_where_they_are():
    rng = np.random.default_rng(1)
    sizes = np.full(4, 10.0)
    means = rng.normal(size=(4, 50))
    for scale in (1.0, 3.0):
        np.testing.assert_array_equal(drawn_together(means, np.full(4, scale), sizes), means)
    np.testing.assert_allclose(drawn_together(means, np.full(4, 1e-9), sizes), means)
    # One class alone, or means in one place: nothing to draw.
    same = np.ones((2, 3))
    assert np.isfinite(drawn_together(same, np.zeros(2), np.ones(2))).all()
    np.testing.assert_array_equal(drawn_together(means[:1], np.ones(1), np.ones(1)), means[:1])


@pytest.mark.parametrize(("n", "end"), [(20_000, 0.86306302498177), (50_000, 0.6308060671246583)])
def test_class_sums_in_floats_pay_for_what_rounding_adds(n, end, monkeypatch):
    """Shortened by 1e-12 alone, these two sums are farther apart than twice the radius."""
    mechanism, found = PureSumsAndCounts(1, end, 1.0), []
    monkeypatch.setattr(noise, "draw", lambda exact, *_, **__: found.append(exact) or exact)
    rows = np.full((n, 1), 2.0 * end)
    for sign in (1.0, -1.0):
        rows[0] *= sign
        mechanism.release_rows(rows, np.zeros(n, dtype=int), 1, None)
    one, two = (Fraction(float(x.blocks[0][0, 0])) for x in found)
    unit = Fraction(end)
    assert 1.99 * unit < one - two <= 2 * unit
