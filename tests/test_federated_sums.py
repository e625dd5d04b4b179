"""One round of sums: noise of every client, people in several of them, a server without records."""

import json
import math
import types

import numpy as np
import pytest
import sklearn
from conftest import weaker_scale
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateHyperbolicRegressor,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
)
from skriemdp._groups import read_groups
from skriemdp._mechanisms import noise
from skriemdp.auditing import audit_estimator
from skriemdp.datasets import make_people
from skriemdp.federated import (
    Agent,
    AggregatorLoop,
    AnswerBook,
    Checkpoint,
    FederatedEstimator,
    InProcessTransport,
    LocalAgent,
    LocalSettings,
    LocalTask,
    LocalUpdate,
    RefusedUpdate,
    SumsLoop,
    learn_from_sums,
    sums_agent,
)
from skriemdp.federated import (
    _together as together,
)
from skriemdp.federated._sums import share
from skriemdp.ledger._accountant import BudgetError
from skriemdp.ledger._statements import plain_facts
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import event_from_dict

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(240, 3)) * [1.0, 0.6, 0.3]
LABELS = np.arange(240) % 2
FOUR = np.arange(240) // 2 % 4
MEANS = PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1])
MEAN = PrivateFrechetMean(radius=1.0)
COMPONENTS = PrivatePrincipalEigenvector(2, 2.0, center="assume")
REGRESSION = PrivateHyperbolicRegressor(
    "sufficient-statistics", feature_scale=1.0, base_point=[0.0, 0.0], n_frequencies=4, ridge=1.0
)
ESTIMATORS = {
    "class means": (MEANS, LABELS),
    "mean": (MEAN, None),
    "components": (COMPONENTS, None),
    "regression": (REGRESSION, 0.3 * ROWS[:, :2]),
}
RELEASED = {
    "class means": lambda model: model.means_,
    "mean": lambda model: model.mean_,
    "components": lambda model: model.components_,
    "regression": lambda model: model.coef_,
}
X, Y, PEOPLE = make_people(24, 6, 2, rng=np.random.default_rng(0))
HOSPITALS = PEOPLE % 3
DECODER = PrivateMinimumDistanceToMean("spd", center=np.eye(2), radius=0.5, classes=[0, 1])


def in_one_round(estimator, **settings):
    return FederatedEstimator(estimator, 1, local="statistic", **settings)


def alone(estimator):
    """The estimator with the release that clients can do a part of."""
    central = {
        PrivateFrechetMean: {"mechanism": "tangent", "noise": "gaussian"},
        PrivatePrincipalEigenvector: {"mechanism": "covariance"},
    }
    return clone(estimator).set_params(**central.get(type(estimator), {}))


# -- what clients add up ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ESTIMATORS)
def test_noise_of_the_sums_is_that_of_every_client(name):
    estimator, y = ESTIMATORS[name]
    central = alone(estimator).fit(ROWS, y)
    for n_clients in (1, 4):
        model = in_one_round(estimator).fit(ROWS, y, clients=FOUR % n_clients)
        wanted = math.sqrt(n_clients) * central.noise_scale_
        assert model.estimator_.noise_scale_ == pytest.approx(wanted, rel=1e-9)
        assert model.privacy_spent_.mu == pytest.approx(central.privacy_spent_.mu, rel=1e-12)
        arithmetic_of = central.privacy_spent_.public["arithmetic"]
        assert model.privacy_spent_.public["arithmetic"] == arithmetic_of


@pytest.mark.parametrize("name", ESTIMATORS)
def test_without_noise_clients_find_what_one_table_shows(name):
    estimator, y = ESTIMATORS[name]
    loud = clone(estimator).set_params(epsilon=4e5)
    with np.errstate(all="ignore"):
        central = alone(loud).fit(ROWS, y)
    model = in_one_round(loud).fit(ROWS, y, clients=FOUR)
    wanted = RELEASED[name](central)
    np.testing.assert_allclose(RELEASED[name](model.estimator_), wanted, atol=0.02)
    assert model.estimator_.clipped_fraction_ == pytest.approx(central.clipped_fraction_, abs=1e-3)
    assert model.n_features_in_ == 3


def test_the_noise_that_comes_out_is_the_stated_one():
    """False alarm: 1e-6."""
    apart = PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1], epsilon=4.0)
    zeros, trials = np.zeros((240, 3)), 60
    model = in_one_round(apart)
    means = np.stack(
        [model.fit(zeros, LABELS, clients=FOUR).estimator_.means_ for _ in range(trials)]
    )
    # Divided by noisy sizes of 120, known to 4 %; three standard deviations of that are allowed.
    squares = np.sum(means**2) / model.estimator_.noise_scale_**2
    low, high = chi2.ppf([5e-7, 1.0 - 5e-7], means.size)
    assert 0.85 * low < squares < 1.15 * high


def test_clients_answer_with_noise_of_their_own():
    model = in_one_round(MEANS, random_state=3)
    first = model.fit(ROWS, LABELS, clients=FOUR).estimator_.means_
    again = model.fit(ROWS, LABELS, clients=FOUR).estimator_.means_
    np.testing.assert_array_equal(first, again)
    assert model.privacy_spent_.guarantee == "none (seeded)"
    names, zeros = ("a", "b", "c"), (np.zeros((4, 3)), np.zeros(4, dtype=int))
    answers = [
        sums_agent(MEANS, *zeros, client=name, accountant=PrivacyAccountant(9.0), book=None)
        .handle(LocalTask("a", 0, name, np.zeros(9)))
        .point
        for name in names
    ]
    assert len({tuple(answer) for answer in answers}) == 3


# -- people -----------------------------------------------------------------------------------


def owned_rows(name, *rows):
    """Rows, targets, clients and people of the table `name`: 120 people at four clients."""
    y = ESTIMATORS[name][1]
    rows = np.concatenate([np.arange(240), np.arange(120), *rows])
    people = rows // 2
    return ROWS[rows], None if y is None else y[rows], people % 4, people


@pytest.mark.parametrize("name", ESTIMATORS)
def test_noise_of_people_is_that_of_every_client(name):
    estimator, facts = ESTIMATORS[name][0], []
    X, y, _, people = owned_rows(name)
    central = alone(estimator).fit(X, y, groups=people)
    for more in ((), ([14, 15, 15],)):  # somebody with more rows
        model = in_one_round(estimator).fit(*owned_rows(name, *more))
        wanted = 2.0 * central.noise_scale_
        assert model.estimator_.noise_scale_ == pytest.approx(wanted, rel=1e-9)
        spent = model.privacy_spent_
        assert spent.unit == "group" and spent.public["n_groups"] == 120
        assert spent.public["arithmetic"] == central.privacy_spent_.public["arithmetic"]
        facts.append((model.estimator_.noise_scale_, str(spent.to_dict() | {"entry": None})))
    assert facts[0] == facts[1]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_without_noise_people_at_clients_are_those_of_one_table(name):
    loud = clone(ESTIMATORS[name][0]).set_params(epsilon=4e5)
    X, y, clients, people = owned_rows(name)
    central = alone(loud).fit(X, y, groups=people)
    found = in_one_round(loud).fit(X, y, clients, people).estimator_
    np.testing.assert_allclose(RELEASED[name](found), RELEASED[name](central), atol=0.02)
    assert found.clipped_fraction_ == pytest.approx(central.clipped_fraction_, abs=1e-3)


def test_a_person_in_two_clients_pays_both():
    wandering = HOSPITALS.copy()
    wandering[np.flatnonzero(PEOPLE == 0)[:2]] = 1
    still = in_one_round(DECODER).fit(X, Y, clients=HOSPITALS, groups=PEOPLE)
    model = in_one_round(DECODER).fit(X, Y, clients=wandering, groups=PEOPLE)
    total, own = model.privacy_spent_, model.privacy_spent_by_client_[0]
    assert total.mu == pytest.approx(math.sqrt(2.0) * own.mu, rel=1e-12)
    assert total.unit == own.unit == "group"
    assert tuple(total) == (1.0, 1e-5) and total.event.delta(1.0) <= 1e-5
    assert own.epsilon < 0.75 and own.event.delta(own.epsilon) <= 1e-5
    assert total.mu == pytest.approx(still.privacy_spent_.mu, rel=1e-6)
    # 24 people, one of whom counts twice.
    wanted = math.sqrt(2.0) * still.estimator_.noise_scale_ * 24 / 25
    assert model.estimator_.noise_scale_ == pytest.approx(wanted, rel=1e-6)
    declared = in_one_round(DECODER, clients_per_person=2)
    declared.fit(X, Y, clients=HOSPITALS, groups=PEOPLE)
    assert declared.privacy_spent_by_client_[0].mu == pytest.approx(own.mu, rel=1e-12)


@pytest.mark.parametrize("epsilon, delta, times", [(1.0, 1e-5, 2), (0.1, 1e-6, 5), (8.0, 1e-9, 3)])
def test_shares_add_up_to_the_whole_and_no_more(epsilon, delta, times):
    mu = gaussian_mu(share(epsilon, delta, times), delta)
    whole = gaussian_mu(epsilon, delta)
    assert whole * (1.0 - 1e-6) <= math.sqrt(times) * mu <= whole
    assert share(epsilon, delta, 1) == epsilon


def test_a_share_that_no_epsilon_describes_is_refused(recording_accountant):
    wandering = np.where(np.arange(len(PEOPLE)) % 2, HOSPITALS, (HOSPITALS + 1) % 3)
    tiny = clone(DECODER).set_params(epsilon=1e-4, delta=0.2, accountant=recording_accountant)
    with pytest.raises(ValueError, match="larger epsilon or a smaller delta"):
        in_one_round(tiny).fit(X, Y, clients=wandering, groups=PEOPLE)
    assert recording_accountant.spends == []


@pytest.mark.parametrize(
    "model",
    [
        in_one_round(DECODER),
        in_one_round(PrivateFrechetMean("spd", center=np.eye(2), radius=0.5)),
        FederatedEstimator(PrivateFrechetMean("spd", center=np.eye(2), radius=0.5), 2, 3),
        FederatedEstimator(PrivateRiemannianERM("spd", clip_norm=1.0, radius=2.0), 2, 3),
        FederatedEstimator(
            PrivateRiemannianERM("spd", clip_norm=1.0, radius=2.0), 3, 2, batch_fraction=0.5
        ),
    ],
    ids=str,
)
def test_numbers_of_rows_reach_nothing_public(model, recording_accountant):
    more = np.r_[np.arange(len(X)), np.flatnonzero(PEOPLE == 5)]
    facts = []
    for rows in (np.arange(len(X)), more):
        fitted = clone(model).set_params(accountant=recording_accountant)
        fitted.fit(X[rows], Y[rows], clients=HOSPITALS[rows], groups=PEOPLE[rows])
        spent = fitted.privacy_spent_
        assert spent.unit == "group"
        public = {name: np.asarray(value).tolist() for name, value in spent.public.items()}
        scale = getattr(fitted.estimator_, "noise_scale_", None)
        by_client = {c: s.to_dict() for c, s in fitted.privacy_spent_by_client_.items()}
        facts.append((public, scale, len(by_client)))
    assert facts[0] == facts[1]
    assert recording_accountant.spends[0] == recording_accountant.spends[1]


@pytest.mark.parametrize(
    "inner",
    [
        PrivateFrechetMean("spd", center=np.eye(2), radius=0.5),
        PrivateRiemannianERM("spd", clip_norm=1.0, radius=2.0),
    ],
    ids=str,
)
def test_people_are_trained_together_as_one_by_one(inner, monkeypatch):
    model = FederatedEstimator(inner, 2, 3, local_steps=2, random_state=5)
    point = model.fit(X, clients=HOSPITALS, groups=PEOPLE).point_
    monkeypatch.setattr(together, "FEW_RECORDS", 0)
    alone = model.fit(X, clients=HOSPITALS, groups=PEOPLE).point_
    np.testing.assert_allclose(point, alone, rtol=0, atol=1e-9)


def test_people_in_two_clients_pay_every_round():
    inner = PrivateFrechetMean("spd", center=np.eye(2), radius=0.5)
    wandering = HOSPITALS.copy()
    wandering[np.flatnonzero(PEOPLE == 0)[:2]] = 1
    model = FederatedEstimator(inner, 2, 3).fit(X, clients=wandering, groups=PEOPLE)
    own = model.privacy_spent_by_client_[0]
    assert model.privacy_spent_.event.mu == pytest.approx(math.sqrt(2.0) * own.event.mu)
    assert model.privacy_spent_.event.delta(1.0) <= 1e-5
    uniform = FederatedEstimator(inner, 4, 2, participation="uniform")
    with pytest.raises(ValueError, match="participation='schedule'"):
        uniform.fit(X, clients=wandering, groups=PEOPLE)


def test_weights_of_clients_are_numbers_of_people():
    """A hospital whose people have many rows counts as much as one whose people have few."""
    rows = np.r_[np.zeros((10, 1)), np.ones((10, 1))]  # two hospitals of ten people
    ids = np.arange(20)
    times = np.where(ids < 10, 1, 30)
    every = np.repeat(ids, times)
    model = FederatedEstimator(PrivateFrechetMean(radius=2.0, epsilon=1e4), 1, 2)
    model.fit(rows[every], clients=every // 10, groups=every)
    # By rows it would be 30/31; the noise has a standard deviation of about .02.
    assert model.point_[0] == pytest.approx(0.5, abs=0.2)


# -- the budget of people ---------------------------------------------------------------------


def test_a_budget_of_people_pays_for_groups_and_for_declared_clients():
    budget = PrivacyAccountant(epsilon=10.0, unit="group")
    rows = {"clients": HOSPITALS}
    people = {"clients": HOSPITALS, "groups": PEOPLE}
    refused = [
        (in_one_round(DECODER), rows, "pass groups= to fit"),
        (FederatedEstimator(MEAN, 1, 3), rows, "pass groups= to fit"),
        (FederatedEstimator(MEAN, 1, 3, unit="client"), rows, "clients_per_person=1"),
        (
            FederatedEstimator(MEAN, 1, 3, unit="client", clients_per_person=2),
            rows,
            "clients_per_person=1",
        ),
    ]
    admitted = [
        (in_one_round(DECODER), people),
        (FederatedEstimator(MEAN, 1, 3), people),
        (FederatedEstimator(MEAN, 1, 3, unit="client", clients_per_person=1), rows),
    ]
    flat = X.reshape(len(X), -1)
    for model, ids, words in refused:
        table = X if model.estimator is DECODER else flat
        with pytest.raises(BudgetError, match=words):
            model.set_params(accountant=budget).fit(table, Y, **ids)
    assert len(budget.history) == 0
    for model, ids in admitted:
        table = X if model.estimator is DECODER else flat
        model.set_params(accountant=budget).fit(table, Y, **ids)
    assert [entry.params["unit"] for entry in budget.history] == ["group", "group", "client"]


def test_ids_that_contradict_the_declaration_are_refused(recording_accountant):
    wandering = np.where(np.arange(len(PEOPLE)) % 2, HOSPITALS, (HOSPITALS + 1) % 3)
    model = in_one_round(DECODER, clients_per_person=1, accountant=recording_accountant)
    with pytest.raises(ValueError, match="pass clients_per_person=2"):
        model.fit(X, Y, clients=wandering, groups=PEOPLE)
    assert recording_accountant.spends == []


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, words",
    [
        (FederatedEstimator(DECODER, local="statistic"), "n_rounds=1"),
        (in_one_round(DECODER, unit="client"), "unit='record'"),
        (in_one_round(DECODER, n_jobs=2), "n_jobs=None"),
        (in_one_round(DECODER, checkpoint="run", fit_id="a"), "checkpoint=None"),
        (in_one_round(DECODER, clients_per_person=0), "clients_per_person"),
        (
            in_one_round(PrivateMinimumDistanceToMean("spd", center=np.eye(2), radius=1.0)),
            "classes=",
        ),
        (in_one_round(PrivateMinimumDistanceToMean("spd", classes=[0, 1])), "public center="),
        (in_one_round(PrivateFrechetMean("spd")), "public center="),
        (
            in_one_round(PrivateFrechetMean("spd", center=np.eye(2), radius=1.0, noise="laplace")),
            "noise='gaussian'",
        ),
        (
            in_one_round(
                PrivateFrechetMean("spd", center=np.eye(2), radius=1.0, mechanism="gradient")
            ),
            "mechanism='tangent'",
        ),
        (in_one_round(PrivateFrechetMean("spd", center=np.eye(2), radius=1.0, delta=0.0)), "delta"),
    ],
    ids=str,
)
def test_what_clients_cannot_add_up_is_refused(model, words, recording_accountant):
    model = clone(model).set_params(accountant=recording_accountant)
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y, clients=HOSPITALS)
    assert recording_accountant.spends == []


@pytest.mark.parametrize(
    "inner, y, words",
    [
        (PrivatePrincipalEigenvector(1, 2.0), None, "center='assume'"),
        (PrivatePrincipalEigenvector(center="assume"), None, "row_norm=<number>"),
        (clone(COMPONENTS).set_params(mechanism="power"), None, "mechanism='covariance'"),
        (clone(COMPONENTS).set_params(delta=0.0), None, "delta > 0"),
        (PrivateHyperbolicRegressor(), ROWS[:, :2], "sufficient-statistics"),
        (PrivateHyperbolicRegressor("sufficient-statistics"), ROWS[:, :2], "base_point"),
    ],
    ids=str,
)
def test_private_searches_are_refused(inner, y, words, recording_accountant):
    model = in_one_round(inner, accountant=recording_accountant)
    with pytest.raises(ValueError, match=words):
        model.fit(ROWS, y, clients=FOUR)
    assert recording_accountant.spends == []


def test_estimators_without_sums_or_groups_are_refused(recording_accountant):
    settings = {"accountant": recording_accountant}
    with pytest.raises(TypeError, match="learns from sums"):
        in_one_round(PrivateNoisyAdaGrad(), **settings).fit(ROWS, LABELS, clients=FOUR)
    with pytest.raises(TypeError, match="protects rows, not groups.*local='statistic'"):
        trained = FederatedEstimator(COMPONENTS, 1, 4, **settings)
        trained.fit(ROWS, clients=FOUR, groups=np.arange(240))
    labels = clone(REGRESSION).set_params(privacy_unit="label")
    with pytest.raises(ValueError, match="privacy_unit='record'"):
        in_one_round(labels, **settings).fit(
            ROWS, 0.3 * ROWS[:, :2], clients=FOUR, groups=np.arange(240)
        )
    with pytest.raises(ValueError, match="2 people"):
        model = in_one_round(DECODER, **settings)
        model.fit(X, Y, clients=(PEOPLE == 0).astype(int), groups=PEOPLE)
    assert recording_accountant.spends == []


def test_a_person_is_in_no_more_clients_than_there_are(recording_accountant):
    settings = {"clients_per_person": 10**9, "accountant": recording_accountant}
    message = "there are 3 clients; pass clients_per_person=3"
    with pytest.raises(ValueError, match=message):
        in_one_round(DECODER, **settings).fit(X, Y, clients=HOSPITALS)
    with pytest.raises(ValueError, match=message):
        FederatedEstimator(MEAN, 1, 2, **settings).fit(ROWS, clients=np.arange(240) % 3)
    assert recording_accountant.spends == []


def test_old_calls_are_told_the_new_name(recording_accountant):
    model = FederatedEstimator(MEAN, 1, 2, accountant=recording_accountant)
    with pytest.raises(ValueError, match="clients is required.*clients=ids.*inside clients"):
        model.fit(ROWS, groups=FOUR)
    assert recording_accountant.spends == []


def test_routing_hands_out_clients_and_people():
    ids = {"clients": PEOPLE % 2, "groups": PEOPLE}
    model = in_one_round(DECODER)
    folds = GroupKFold(2, shuffle=True, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        scores = cross_val_score(model, X, Y, cv=folds, params=ids, error_score="raise")
    assert len(scores) == 2 and np.isfinite(scores).all()
    assert sklearn.base.is_classifier(model)


# -- between machines -------------------------------------------------------------------------


def hospital(folder, name, place, ceiling=3.0, estimator=DECODER, **settings):
    own = HOSPITALS == place
    return sums_agent(
        estimator,
        X[own],
        Y[own],
        PEOPLE[own],
        client=name,
        accountant=PrivacyAccountant(ceiling, path=str(folder / f"{name}.ledger"), unit="group"),
        book=AnswerBook(folder / f"{name}.answers"),
        **settings,
    )


def test_a_server_without_records_learns_what_hospitals_add_up(tmp_path, monkeypatch):
    # Hospitals do not ask their records how class means should decide; alone it would take a share.
    monkeypatch.setattr("skriemdp._mean.class_releases._LEAST_VOTE", math.inf)
    loud = clone(DECODER).set_params(epsilon=1e4)
    names = ("north", "south", "west")
    agents = {name: hospital(tmp_path, name, place, 1e6, loud) for place, name in enumerate(names)}
    loop = SumsLoop(names, agents["north"].plan.settings.size)
    uploads, refused = loop.run(InProcessTransport(agents), None, "spring")
    again, _ = loop.run(InProcessTransport(agents), None, "spring")
    assert refused == [] and uploads.clients == names
    np.testing.assert_array_equal(uploads.total, again.total)  # stored answers, paid for once
    for agent in agents.values():
        (entry,) = agent.accountant.history
        assert entry.params["unit"] == "group"
        assert entry.facts == plain_facts(agent.plan.stated) and entry.facts["releases"]
    sizes = {name: len(set(PEOPLE[HOSPITALS == k])) for k, name in enumerate(names)}
    made_up = np.stack([np.eye(2), 2 * np.eye(2)])
    model = learn_from_sums(loud, uploads, sizes, made_up, [0, 1], grouped=True)
    central = clone(loud).fit(X, Y, groups=PEOPLE)
    np.testing.assert_allclose(model.means_, central.means_, atol=1e-2)
    assert model.noise_scale_ == pytest.approx(math.sqrt(3) * central.noise_scale_, rel=1e-9)
    assert model.privacy_spent_.unit == "group"
    assert model.privacy_spent_.mu == pytest.approx(central.privacy_spent_.mu)
    assert (model.predict(X) == central.predict(X)).mean() > 0.9


def test_a_client_pays_its_share_and_keeps_to_its_ceiling(tmp_path):
    agent = hospital(tmp_path, "north", 0, ceiling=1.0, clients_per_person=2)
    size = agent.plan.settings.size
    assert agent.event(None).mu == pytest.approx(gaussian_mu(1.0, 1e-5) / math.sqrt(2), rel=1e-6)
    agent.handle(LocalTask("a", 0, "north", np.zeros(size)))
    with pytest.raises(ValueError, match="as many zeros"):
        agent.handle(LocalTask("b", 0, "north", np.eye(size)[0]))  # one that is not zero
    with pytest.raises(ValueError, match="as many zeros"):
        agent.handle(LocalTask("b", 0, "north", np.zeros(size + 1)))
    with pytest.raises(BudgetError):
        for round in range(1, 4):
            agent.handle(LocalTask("a", round, "north", np.zeros(size)))


def test_a_finished_round_is_read_from_its_checkpoint(tmp_path):
    class Constant:
        def run(self, tasks):
            return [(t.client, LocalUpdate(t.fit_id, 0, t.client, np.ones(3))) for t in tasks]

    checkpoint = Checkpoint(str(tmp_path / "run.json"))
    uploads, _ = SumsLoop(("a", "b"), 3).run(Constant(), None, "spring", checkpoint)
    stored, refused = SumsLoop(("a", "b"), 3).run(None, None, "spring", checkpoint)
    assert stored.clients == uploads.clients == ("a", "b") and refused == []
    np.testing.assert_array_equal(stored.total, [2.0, 2.0, 2.0])
    with pytest.raises(ValueError, match="other sums"):
        SumsLoop(("a", "b"), 4).run(None, None, "spring", checkpoint)


def test_hostile_uploads_are_left_out():
    size, names = 5, ("a", "b", "c", "d")

    class Hostile:
        def run(self, tasks):
            points = [np.ones(size), np.full(size, np.nan), np.ones(size + 1), "sums"]
            for task, point in zip(tasks, points, strict=True):
                yield task.client, LocalUpdate(task.fit_id, task.round, task.client, point)

    uploads, refused = SumsLoop(names, size).run(Hostile(), None, "a fit")
    assert uploads.clients == ("a",) and len(refused) == 3
    np.testing.assert_array_equal(uploads.total, np.ones(size))
    with pytest.raises(RuntimeError, match="1 of 4 clients"):
        SumsLoop(names, size, min_updates=2).run(Hostile(), None, "a fit")


# -- a coordinator that is trusted with exact sums ------------------------------------------------

PLACES = {"north": 0, "south": 1, "west": 2}
SIZES = {name: len(set(PEOPLE[HOSPITALS == k])) for name, k in PLACES.items()}
MADE_UP = np.stack([np.eye(2), 2 * np.eye(2)]), [0, 1]


def trusting(folder, estimator=DECODER, ceiling=3.0, **settings):
    settings = {"trust": "aggregator"} | settings
    return {
        name: hospital(folder, name, place, ceiling, estimator, **settings)
        for name, place in PLACES.items()
    }


def coordinator(folder, estimator=DECODER, ceiling=3.0, **settings):
    ledger = PrivacyAccountant(ceiling, path=folder / "coordinator.ledger", unit="group")
    settings = {"grouped": True, "accountant": ledger} | settings
    return AggregatorLoop(estimator, SIZES, *MADE_UP, **settings)


@pytest.mark.parametrize("times", [1, 2])
def test_a_trusted_coordinator_adds_one_noise_to_exact_sums(tmp_path, monkeypatch, times):
    """What is drawn for is the sum over pooled records, with the noise of a simulation."""
    drawn, draw = [], noise.draw

    def noting(exact, *arguments, **settings):
        drawn.append((exact.copy(), settings.get("shares")))
        return draw(exact, *arguments, **settings)

    monkeypatch.setattr(noise, "draw", noting)
    agents = trusting(tmp_path, clients_per_person=times)
    loop = coordinator(tmp_path, clients_per_person=times)
    uploads, refused = loop.run(InProcessTransport(agents), None, "spring")
    assert refused == [] and uploads.clients == tuple(PLACES) and uploads.attempts == ()
    statistic = agents["north"].plan.settings
    pooled = [statistic.exact(agent.records) for agent in agents.values()]
    for (exact, shares), *parts in zip(drawn, *pooled, strict=True):
        np.testing.assert_array_equal(exact, sum(parts))
        assert shares is None
    model = learn_from_sums(
        DECODER, uploads, None, *MADE_UP, grouped=True, clients_per_person=times
    )
    drawn.clear()
    central = in_one_round(DECODER, trust="aggregator", clients_per_person=times)
    central.fit(X, Y, clients=HOSPITALS, groups=PEOPLE)
    assert all(shares is None for _, shares in drawn) and len(drawn) == len(pooled[0])
    assert model.noise_scale_ == pytest.approx(central.estimator_.noise_scale_, rel=1e-12)
    spent = model.privacy_spent_
    assert (spent.epsilon, spent.mu) == (1.0, pytest.approx(central.privacy_spent_.mu))
    assert spent.guarantee == "exact" and spent.public["trust"] == "aggregator"
    assert "everybody but the coordinator" in spent.public["holds"]
    (entry,) = loop.accountant.history
    assert event_from_dict(entry.event).mu == pytest.approx(spent.mu, rel=1e-12)
    assert entry.params["unit"] == "group" and entry.facts["holds"] == spent.public["holds"]
    for agent in agents.values():
        (entry,) = agent.accountant.history
        assert event_from_dict(entry.event).mu == pytest.approx(spent.mu / times**0.5, rel=1e-6)
        assert entry.facts["trust"] == "aggregator"


def test_a_coordinator_draws_one_noise_for_one_run(tmp_path):
    """Nothing exact is stored; a restart reads the sums with the noise, or is refused."""
    agents, loop = trusting(tmp_path), coordinator(tmp_path)
    checkpoint = Checkpoint(tmp_path / "run.json")
    uploads, _ = loop.run(InProcessTransport(agents), None, "spring", checkpoint)
    exact = sum(
        np.concatenate(agent.plan.settings.exact(agent.records)) for agent in agents.values()
    )
    stored = json.loads((tmp_path / "run.json").read_text())
    assert stored["total"] == uploads.total.tolist() and (uploads.total != exact).all()
    again, refused = loop.run(None, None, "spring", checkpoint)
    np.testing.assert_array_equal(again.total, uploads.total)
    assert again.total.dtype == np.int64 and again.size == uploads.size == sum(SIZES.values())
    with pytest.raises(BudgetError, match="not repeated"):
        coordinator(tmp_path).run(InProcessTransport(agents), None, "spring")
    other = coordinator(tmp_path, clone(DECODER).set_params(epsilon=2.0))
    with pytest.raises(ValueError, match="other sums"):
        other.run(None, None, "spring", checkpoint)
    ledgers = [loop.accountant, *(agent.accountant for agent in agents.values())]
    assert [len(ledger.history) for ledger in ledgers] == [1] * 4


def test_exact_sums_leave_for_a_coordinator_with_the_same_settings_alone(tmp_path):
    agents = trusting(tmp_path)
    north = agents["north"]
    questions = [
        np.zeros(north.plan.settings.size),
        np.zeros(north.agreement.length),
        coordinator(tmp_path, clone(DECODER).set_params(radius=0.6)).agreement.question,
        coordinator(tmp_path, grouped=False).agreement.question,
        coordinator(tmp_path, clients_per_person=2).agreement.question,
    ]
    for question in questions:
        with pytest.raises(ValueError, match="other sums"):
            north.handle(LocalTask("spring", 0, "north", question))
    with pytest.raises(ValueError, match="of no cohort"):  # which anybody on the machine may ask
        LocalAgent(north)
    plain = hospital(tmp_path, "south", 1)
    with pytest.raises(ValueError, match="as many zeros"):
        plain.handle(LocalTask("spring", 0, "south", north.agreement.question))
    assert len(north.accountant.history) == len(plain.accountant.history) == 0
    for settings in ({"trust": "cohort"}, {"trust": "server"}):
        with pytest.raises(ValueError, match="trust='cohort'|trust='server'"):
            trusting(tmp_path, **settings)


def test_uploads_that_no_records_give_are_left_out(tmp_path):
    agents, loop = trusting(tmp_path), coordinator(tmp_path, min_updates=2)
    most = SIZES["south"] * loop.agreement.largest

    def answers(bad):
        def run(tasks):
            for task in tasks:
                sums = agents[task.client].handle(task).point
                if task.client == "south":
                    sums = bad(sums)
                yield task.client, LocalUpdate(task.fit_id, task.round, task.client, sums)

        return types.SimpleNamespace(run=run)

    hostile = (
        lambda sums: sums.astype(float),
        lambda sums: sums.astype(np.uint64),
        lambda sums: sums[:-1],
        lambda sums: np.full_like(sums, most + 1),
        lambda sums: np.full_like(sums, np.iinfo(np.int64).min),
        lambda sums: "sums",
    )
    for k, bad in enumerate(hostile[:2]):
        uploads, refused = loop.run(answers(bad), None, f"run {k}")
        assert uploads.clients == ("north", "west") and len(refused) == 1
        assert uploads.size == SIZES["north"] + SIZES["west"]
    for bad in hostile:
        with pytest.raises(RefusedUpdate, match="integers|cannot have"):
            loop._read("south", bad(np.zeros(loop.agreement.length, np.int64)))
    few = coordinator(tmp_path, min_updates=3)
    with pytest.raises(RuntimeError, match="2 of 3 clients"):
        few.run(answers(hostile[0]), None, "run 0b")
    assert len(loop.accountant.history) == 2


def test_a_coordinator_without_room_draws_nothing(tmp_path, monkeypatch):
    loop = coordinator(tmp_path, ceiling=0.5)
    monkeypatch.setattr(noise, "draw", None)
    with pytest.raises(BudgetError):
        loop.run(InProcessTransport(trusting(tmp_path)), None, "spring")
    assert len(loop.accountant.history) == 0


def test_agents_of_people_charge_for_people(tmp_path):
    mean = PrivateFrechetMean("spd", center=np.eye(2), radius=0.5)
    erm = PrivateRiemannianERM("spd", clip_norm=1.0, radius=2.0)
    groups = read_groups(PEOPLE, len(PEOPLE))
    settings = LocalSettings("rsgd", 1, 1.0, 1.0, 1.0)
    domain, _ = mean._domain_and_start(mean._problem(X).geometry)
    budget = PrivacyAccountant(epsilon=1.0, unit="group")
    people = [(erm._problem(X, None, groups), "record"), (mean._problem(X, None, groups), "group")]
    for round, (problem, unit) in enumerate(people):
        agent = Agent("a", problem, settings, 50.0, domain, budget, unit=unit)
        assert agent.problem.n == 24
        agent.handle(LocalTask("a fit", round, "a", np.eye(2)))
    rows = Agent("a", mean._problem(X), settings, 50.0, domain, budget)
    with pytest.raises(BudgetError, match="each group"):
        rows.handle(LocalTask("a fit", 3, "a", np.eye(2)))
    assert len(budget.history) == 2
    for entry in budget.history:
        facts = {name: entry.facts[name] for name in ("n_groups", "manifold", "radius")}
        assert facts == {"n_groups": 24, "manifold": str(domain.geometry), "radius": 0.5}
        assert entry.facts["releases"] == [["gradients", 1.0, "gaussian", 3]]


# -- audits -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("times, caught", [(1.0, False), (0.4, True)])
def test_audit_of_federated_class_means(times, caught, monkeypatch):
    """False alarm: 1e-6."""
    draw = noise.draw
    if times != 1.0:
        monkeypatch.setattr(
            noise,
            "draw",
            lambda exact, scale, *rest, **facts: _weaker(draw, times, exact, scale, rest, facts),
        )
    loud = PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1], epsilon=2.0, delta=0.05)
    model = in_one_round(loud)  # of one client
    audit = audit_estimator(model, trials=400, confidence=1.0 - 1e-6)
    assert audit.refuted == caught


def _weaker(draw, times, exact, scale, rest, facts):
    return draw(exact, weaker_scale(scale, times), *rest, **facts)
