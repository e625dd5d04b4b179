"""The audit never exceeds a true guarantee, and exposes a halved noise."""

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

import skriemdp
from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateGridSearchCV,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    PrivateTangentClassifier,
    PrivateTangentPCA,
    PublicTable,
)
from skriemdp._core.estimator import Data
from skriemdp._descent.releases import PoissonSampler
from skriemdp._mean import class_releases
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.discrete_gaussian import discrete_gaussian
from skriemdp._mechanisms.noise import NOISE_SCALE
from skriemdp._mechanisms.sum import ExactTotal
from skriemdp.auditing import (
    audit_epsilon,
    audit_estimator,
    audit_scores,
    worst_case_neighbours,
)
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import GeodesicBall, Poincare
from skriemdp.privacy._calibration import gaussian_epsilon, gaussian_mu

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


@pytest.mark.parametrize(
    "law, shift", [("normal", 0.27), pytest.param("laplace", 1.0, marks=pytest.mark.slow)]
)
def test_no_unlucky_threshold_wastes_an_audit(law, shift):
    """The worst of many audits is near half the truth: few far runs do not choose the threshold."""
    rng = np.random.default_rng(5)
    draw = getattr(rng, law)
    audits = [
        audit_scores(
            draw(0.0, 1.0, 20_000),
            draw(shift, 1.0, 20_000),
            delta=0.0,
            confidence=0.9999,
            tuning_share=0.1,
        )
        for _ in range(20)
    ]
    found = [audit.mu if law == "normal" else audit.epsilon for audit in audits]
    assert 0.45 * shift < min(found) and max(found) <= shift


def test_statistic_can_be_given():
    audit = audit_epsilon(
        gaussian_release(0.05), ZERO, ONE, trials=400, statistic=lambda out: out[:, 0]
    )
    assert audit.trials == 200


def test_too_few_trials():
    with pytest.raises(ValueError, match="trials"):
        audit_epsilon(gaussian_release(1.0), ZERO, ONE, trials=39)
    with pytest.raises(ValueError, match="trials must be an integer >= 50"):
        audit_estimator(ESTIMATORS[0], trials=49)
    for counts in ((19, 20), (20, 19)):
        with pytest.raises(ValueError, match="trials"):
            audit_scores(*map(np.arange, counts), delta=0.0)
    assert audit_scores(np.arange(20), np.arange(20), delta=0.0).trials == 10


# -- whole estimators ------------------------------------------------------------------------------

ESTIMATORS = [
    PrivateFrechetMean("spd", center=np.eye(2), radius=1.0),
    PrivateFrechetMean("sphere", radius=0.5, center=[0.0, 1.0, 0.0]),
    PrivateFrechetMean("poincare", radius="private", center="private"),
    PrivateFrechetMean("hyperboloid", mechanism="laplace", delta=0, radius=1.0),
    PrivateFrechetMean("sphere", mechanism="laplace", delta=0, radius=1.2),
    PrivateFrechetMean("sphere", mechanism="k-norm", delta=0, radius=1.2),
    PrivateFrechetMean("spd", center=np.eye(2), radius=1.0, uncertainty=True),
    PrivateFrechetMean("hyperboloid", statistic="median"),
    PrivateTangentPCA(1, "poincare", radius=1.0),
    PrivateMinimumDistanceToMean("spd", classes=["a", "b", "c"]),
    PrivateMinimumDistanceToMean("spd", center=np.eye(2), radius=1.0, classes=["a", "b", "c"]),
    PrivateMinimumDistanceToMean(
        "spd", center=np.eye(2), radius=1.0, classes=["a", "b"], uncertainty=True
    ),
    PrivatePrincipalEigenvector(2),
    PrivatePrincipalEigenvector(row_norm=2.0, mechanism="gradient", n_steps=2),
    PrivatePrincipalEigenvector(delta=0),
    PrivateMinimumDistanceToMean(radius=1.0, delta=0),
    PrivateTangentClassifier("spd", center=np.eye(2), radius=1.0, classes=["a", "b", "c"]),
    PrivateTangentClassifier("sphere", classes=[0, 1]),
    PrivateHyperbolicRegressor(n_frequencies=4),
    PrivateHyperbolicRegressor(n_frequencies=4, manifold="hyperboloid"),
    PrivateHyperbolicRegressor(n_frequencies=4, manifold=Poincare(2, curvature=-0.5)),
    PrivateHyperbolicRegressor("per-query", n_queries=2),
    PrivateGeodesicRegressor(),
    PrivateGeodesicRegressor("sphere", radius=0.5, feature_scale=2.0),
    PrivateMatrixCompletion(),
    PrivateNoisyAdaGrad(n_steps=2),
    PrivateNoisyAdaGrad("huber", n_steps=2),
    PrivateRiemannianERM("sphere", n_steps=2),
    FederatedEstimator(PrivateFrechetMean(radius=1.0), 1, 2),
    FederatedEstimator(
        PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1], epsilon=500.0),
        1,
        local="statistic",
    ),
    FederatedEstimator(PrivateRiemannianERM("spd"), 1, 1, unit="client"),
    PrivateGridSearchCV(
        PrivateFrechetMean(mechanism="gradient", radius=1.0), {"radius": [1.0, 2.0]}
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_worst_cases_differ_in_one_record_and_can_be_scored(estimator, recording_accountant):
    pair = worst_case_neighbours(estimator, n=24)
    differing = np.zeros(len(pair.data[0]), dtype=bool)
    for left, right in zip(pair.data, pair.neighbour, strict=True):
        if left is not None:
            assert left.shape == right.shape
            differing |= (left != right).reshape(len(left), -1).any(axis=1)
    whole_client = getattr(estimator, "unit", "record") == "client"
    assert differing.sum() == (24 if whole_client else 1)
    model = clone(estimator).set_params(accountant=recording_accountant)
    for data in (pair.data, pair.neighbour):
        assert np.isfinite(pair.score(model.fit(*data)))


def test_every_estimator_has_a_worst_case():
    for name in skriemdp.__all__:
        public = getattr(skriemdp, name)
        # A public table releases nothing.
        if isinstance(public, type) and hasattr(public, "fit") and public is not PublicTable:
            assert worst_case_neighbours.dispatch(public) is not worst_case_neighbours.dispatch(
                object
            ), name
    for unknown in (StandardScaler(), PrivateRiemannianERM(gradient=lambda w, X, y: X)):
        with pytest.raises(TypeError, match="no worst case"):
            worst_case_neighbours(unknown)


def test_seeded_fits_are_not_audited():
    for estimator in (
        PrivateFrechetMean(random_state=0, radius=1.0),
        FederatedEstimator(PrivateFrechetMean(random_state=0, radius=1.0)),
    ):
        with pytest.raises(ValueError, match="random_state must be None"):
            audit_estimator(estimator)


def test_audits_charge_no_ledger_and_show_progress(capsys):
    model = PrivateFrechetMean(mechanism="tangent", noise="gaussian", epsilon=8.0, radius=1.0)
    with PrivacyAccountant(epsilon=0.1) as accountant:
        audit = audit_estimator(model, trials=60, n_jobs=1, verbose=1)
    assert accountant.history == []
    assert "fit 120/120" in capsys.readouterr().err
    assert (audit.estimator, audit.event) == ("PrivateFrechetMean", "GaussianEvent")
    assert (audit.stated, audit.delta, audit.trials) == (8.0, 1e-5, 60)
    found = dataclasses.replace(audit, audited=2.0)
    assert (found.factor, found.refuted) == (4.0, False)
    assert dataclasses.replace(audit, audited=8.1).refuted
    assert dataclasses.replace(audit, audited=0.0).factor == np.inf
    assert not hasattr(model, "mean_")


# -- audits that must fail: each fault is caught, and nothing is found without it -----------------


def halved_noise(monkeypatch):
    integers = noise._integers
    monkeypatch.setattr(noise, "_integers", lambda *args: integers(*args) // 2)


def doubled_sensitivity(monkeypatch):
    """Each record counts twice in the sum that is released."""
    value = ExactTotal.value
    monkeypatch.setattr(ExactTotal, "value", lambda self: 2 * value(self))


def forgotten_projection(monkeypatch):
    def project(self, points, known=None):
        return points, 0, self.geometry.log_coordinates(self.center, points).sum(axis=0)

    monkeypatch.setattr(GeodesicBall, "project_with_log_sum", project)
    monkeypatch.setattr(Ball, "enforce", lambda self, rows, unit=1.0: rows / unit)


def shared_draw(monkeypatch):
    """All classes get the same noise."""

    def shared(parts, totals, streams):
        noises = [discrete_gaussian(NOISE_SCALE, streams(part.label)) for part in parts]
        return np.concatenate([t + n for t, n in zip(totals, noises, strict=True)])

    monkeypatch.setattr(class_releases, "noised", shared)


def wrong_sampler(monkeypatch):
    """All records in every batch, at the cost of a few."""
    monkeypatch.setattr(PoissonSampler, "draw", lambda self, n, rng: np.arange(n))


ONE_SHOT = PrivateFrechetMean(mechanism="tangent", noise="gaussian", epsilon=8.0, radius=1.0)
CLASSES = PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1], epsilon=8.0)
SAMPLED = PrivateRiemannianERM(n_steps=1, batch_size=10, step_size=1.0, epsilon=1.0, delta=1e-2)
FAULTS = [
    (None, ONE_SHOT, 700),
    (halved_noise, ONE_SHOT, 700),
    (doubled_sensitivity, ONE_SHOT, 700),
    (forgotten_projection, ONE_SHOT, 700),
    (None, CLASSES, 150),
    (shared_draw, CLASSES, 150),
    (None, SAMPLED, 600),
    (wrong_sampler, SAMPLED, 600),
]


@pytest.mark.slow
def test_fits_of_an_audit_may_run_in_other_processes():
    model = PrivateFrechetMean(radius=1.0, noise="gaussian", mechanism="tangent", epsilon=4.0)
    audit = audit_estimator(model, trials=60, n_jobs=2, confidence=1 - 1e-8)
    assert audit.stated == 4.0 and not audit.refuted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "estimator", "trials"),
    FAULTS,
    ids=[fault.__name__ if fault else "as shipped" for fault, *_ in FAULTS],
)
def test_audits_catch_faults(fault, estimator, trials, monkeypatch):
    """False alarms below 1e-8 each (the confidence of the bound)."""
    if fault is not None:
        fault(monkeypatch)
    pair = worst_case_neighbours(estimator)
    if estimator is CLASSES:
        # Answers that share their noise are told apart by their difference.
        counts = lambda model: model.class_counts_[1] - model.class_counts_[0]  # noqa: E731
        pair = dataclasses.replace(pair, score=counts)
    audit = audit_estimator(estimator, pair, trials=trials, confidence=CONFIDENCE)
    assert audit.refuted == (fault is not None)


# -- people with 40 rows each: one of them turns into another --------------------------------------

OWNERS = {
    "components": (
        PrivatePrincipalEigenvector(2, 1.0, "covariance", center="assume", epsilon=1.0),
        150,
    ),
    "linear": (
        PrivateNoisyAdaGrad(
            classes=[0, 1], feature_norm=1.0, n_steps=1, fit_intercept=False, epsilon=1.0
        ),
        150,
    ),
    "regression": (
        PrivateHyperbolicRegressor(
            base_point=[0.0, 0.0], feature_scale=1.0, n_frequencies=4, n_steps=1, epsilon=1.0
        ),
        150,
    ),
    "means": (clone(ONE_SHOT).set_params(epsilon=1.0), 150),
}
# The same at one client, which releases its sums.
OWNERS |= {
    f"{name} at a client": (FederatedEstimator(estimator, 1, local="statistic"), trials)
    for name, (estimator, trials) in {
        "components": OWNERS["components"],
        "moments": (
            PrivateHyperbolicRegressor(
                "sufficient-statistics",
                base_point=[0.0, 0.0],
                feature_scale=1.0,
                n_frequencies=2,
                epsilon=1.0,
            ),
            150,
        ),
    }.items()
}


def dropped_groups(monkeypatch):
    """Divided by the number of rows: each of them is a record."""
    monkeypatch.setattr(Data, "by_group", lambda self, groups: self)


def owned_by_people(neighbours, rows=40):
    """Everybody has `rows` rows like the record."""

    def side(data):
        X, y, *clients = (*data, None)[: max(2, len(data))]
        ids = np.repeat(np.arange(len(X)), rows)
        clients = [None if c is None else np.asarray(c)[ids] for c in clients]
        return X[ids], None if y is None else np.asarray(y)[ids], *clients, ids

    data, other = side(neighbours.data), side(neighbours.neighbour)
    return dataclasses.replace(neighbours, data=data, neighbour=other)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [None, dropped_groups], ids=["as shipped", "dropped groups"])
@pytest.mark.parametrize("name", OWNERS)
def test_audits_of_people_with_many_rows(name, fault, monkeypatch):
    """False alarms below 1e-8 each (the confidence of the bound)."""
    if fault is not None:
        fault(monkeypatch)
    estimator, trials = OWNERS[name]
    pair = owned_by_people(worst_case_neighbours(estimator, 30))
    audit = audit_estimator(estimator, pair, trials=trials, confidence=CONFIDENCE)
    assert audit.refuted == (fault is not None)
