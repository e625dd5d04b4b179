"""PriRFed: what a run costs each client, hostile uploads, crashes, central descent as limit."""

import contextlib
import importlib
import math
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import chi2
from sklearn.model_selection import cross_val_score

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivatePrincipalEigenvector,
    frechet_mean,
    schedules,
)
from skriemdp._descent.problem import FrechetProblem
from skriemdp._descent.queries import GradientQuery
from skriemdp._descent.releases import exact_mean
from skriemdp._erm import PrivateRiemannianERM
from skriemdp.datasets import make_cloud, make_tree
from skriemdp.federated import (
    Agent,
    AnswerBook,
    Checkpoint,
    FederatedEstimator,
    InProcessTransport,
    KernelQuery,
    LabelQuery,
    LocalSettings,
    LocalTask,
    LocalUpdate,
    Participation,
    ridge_weights,
)
from skriemdp.federated import (
    _theory as theory,
)
from skriemdp.federated import (
    _together as together,
)
from skriemdp.federated._loop import ServerLoop, tangent_mean
from skriemdp.federated._messages import checked_updates
from skriemdp.federated._theory import published_table_bound
from skriemdp.federated._together import run_trusted
from skriemdp.federated._training import local_event
from skriemdp.geometry import SPD, GeodesicBall, Hyperboloid, Sphere, as_geometry
from skriemdp.ledger._accountant import BudgetError, BudgetExceededError
from skriemdp.privacy._calibration import gaussian_delta, gaussian_mu
from skriemdp.privacy._events import GaussianEvent

SPACE = SPD(2)
X = make_cloud(SPACE, 400, offset=0.4, spread=0.3, rng=np.random.default_rng(0))
HOSPITALS = np.arange(400) % 8
MEAN = PrivateFrechetMean("spd", epsilon=2.0, center=np.eye(2), radius=1.0)
FULL = LocalSettings("rsgd", 1, 1.0, 1.0, math.inf)


def mean_gradient(problem, point):
    """Without noise, as a tangent vector."""
    mean = exact_mean(GradientQuery(problem, point))
    return problem.geometry.tangent_from_coordinates(point, mean)


# -- participation and its price ------------------------------------------------------------------


@pytest.mark.parametrize("n, s, t", [(8, 3, 10), (5, 5, 4), (7, 1, 20)])
def test_clients_take_turns(n, s, t):
    rows = Participation(n, t, s).draw(np.random.default_rng(0))
    assert rows.shape == (t, s) and all(len(set(row)) == s for row in rows.tolist())
    counts = np.bincount(rows.ravel(), minlength=n)
    assert counts.max() == Participation(n, t, s).most_rounds
    assert counts.max() - counts.min() <= 1


def test_uniform_participation_averages_over_its_coins():
    part, mu = Participation(10, 6, 2, "uniform"), 0.4
    event = part.record_event(GaussianEvent(1 / mu))
    weights = [math.comb(6, k) * 0.2**k * 0.8 ** (6 - k) for k in range(7)]
    for epsilon in (0.1, 0.5, 1.5):
        exact = sum(
            w * gaussian_delta(math.sqrt(k) * mu, epsilon) for k, w in enumerate(weights) if k > 0
        )
        assert exact <= event.delta(epsilon) <= exact * (1 + 1e-4)


def test_sampling_clients_amplifies_nothing_for_a_record():
    """One round, one of a hundred clients: delta shrinks, epsilon at tiny delta does not."""
    event = Participation(100, 1, 1, "uniform").record_event(GaussianEvent(1.0))
    assert event.epsilon(1e-9) > 0.75 * GaussianEvent(1.0).epsilon(1e-9)


@pytest.mark.parametrize(
    "n, s, t, stated, honest",
    [
        (100, 1, 50, (0.0426, 1.05e-3), 0.0917),
        (100, 1, 500, (0.1357, 1.50e-3), 0.2719),
        (100, 5, 50, (1.58, 2.25e-3), 0.1636),
        (300, 10, 500, (15.5, 1.77e-2), 0.2687),
    ],
)
def test_published_table_beside_the_truth(n, s, t, stated, honest):
    epsilon, delta = published_table_bound(n, s, t, 0.15, 1e-4, 1e-3)
    assert (epsilon, delta) == pytest.approx(stated, rel=5e-3)
    local = GaussianEvent(1.0 / gaussian_mu(0.15, 1e-4))
    assert Participation(n, t, s, "uniform").record_event(local).epsilon(delta) == pytest.approx(
        honest, rel=5e-3
    )


def test_whole_clients_need_hidden_cohorts():
    assert Participation(100, 50, 5, "uniform").client_event(1.0).epsilon(1e-3) == pytest.approx(
        1.736, abs=2e-3
    )
    with pytest.raises(ValueError, match="uniform"):
        Participation(100, 50, 5).client_event(1.0)


# -- the estimator --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"participation": "uniform"},
        {"local_steps": 2, "batch_fraction": 0.2, "step_size": 0.5},
        {"local": "rsvrg", "batch_fraction": 0.2, "step_size": 0.3},
        {"unit": "client", "update_clip": 0.05},
        {"output": "random", "aggregation": "frechet"},
    ],
    ids=str,
)
def test_every_setting_states_its_total(parameters, recording_accountant):
    model = FederatedEstimator(MEAN, 6, 3, accountant=recording_accountant, **parameters)
    model.fit(X, clients=HOSPITALS)
    (event,) = recording_accountant.spends
    assert event == model.privacy_spent_.event
    assert tuple(model.privacy_spent_) == (2.0, 1e-5)
    assert 0.9e-5 < event.delta(2.0) <= 1e-5
    assert SPACE.belongs(model.point_)
    worst = getattr(model, "privacy_spent_by_client_", {"": model.privacy_spent_}).values()
    assert max(spent.epsilon for spent in worst) <= 2.0


def test_a_large_budget_finds_the_mean():
    model = FederatedEstimator(
        PrivateFrechetMean("spd", epsilon=300.0, center=np.eye(2), radius=1.0), 12, 8
    )
    # Ten times as many records as elsewhere: next to no noise.
    model.fit(np.tile(X, (10, 1, 1)), clients=np.tile(HOSPITALS, 10))
    assert SPACE.dist(model.point_, frechet_mean(X, SPACE)) < 0.02
    assert model.score(X) == pytest.approx(-np.mean(SPACE.dist(model.point_, X) ** 2))


def test_engines_agree_bit_for_bit():
    points = [
        FederatedEstimator(
            MEAN, 4, 3, n_jobs=n_jobs, random_state=5, batch_fraction=0.5, clip_norm=1.0
        )
        .fit(X, clients=HOSPITALS)
        .point_
        for n_jobs in (None, 2)
    ]
    np.testing.assert_array_equal(*points)


SPHERE_POINTS = make_cloud(Sphere(2), 400, offset=0.2, spread=0.2, rng=np.random.default_rng(1))


@pytest.mark.parametrize(
    "inner, records",
    [
        (MEAN, X),
        (PrivateFrechetMean("sphere", radius=0.7), SPHERE_POINTS),
        (PrivatePrincipalEigenvector(1, 1.0, center="assume"), X.reshape(400, 4)),
        (PrivateRiemannianERM("euclidean", clip_norm=0.5), X.reshape(400, 4)),
    ],
    ids=["SPD mean", "sphere mean", "PCA", "ERM"],
)
@pytest.mark.parametrize(
    "parameters",
    [{}, {"local_steps": 3, "step_size": 0.4}, {"unit": "client", "local_steps": 2}],
    ids=str,
)
def test_small_clients_are_trained_together(inner, records, parameters, monkeypatch):
    """Same numbers as one after another, for clients of different sizes, cut in any blocks."""
    clients = np.sort(np.random.default_rng(0).integers(0, 12, 400))
    model = FederatedEstimator(inner, 4, 5, random_state=5, **parameters)
    monkeypatch.setattr(together, "_BLOCK_BYTES", 3000)
    point = model.fit(records, clients=clients).point_
    monkeypatch.setattr(together, "FEW_RECORDS", 0)
    alone = model.fit(records, clients=clients).point_
    np.testing.assert_allclose(point, alone, rtol=0, atol=1e-13)


def test_clients_that_are_trained_together_are_cut_into_blocks(monkeypatch):
    monkeypatch.setattr(together, "_BLOCK_BYTES", 240)  # ten rows of three numbers
    rows = {client: (4 * client, 4 * client + 4) for client in range(7)}
    pool = SimpleNamespace(problem=SimpleNamespace(geometry=Sphere(2)), _rows=rows)
    parts = list(together.PooledRecords._parts(pool, range(7)))
    assert parts == [slice(0, 3), slice(3, 6), slice(6, 7)]


@pytest.mark.parametrize("parameters", [{}, {"unit": "client"}], ids=str)
def test_rows_that_round_by_their_company_are_asked_for_alone(parameters):
    """A client's numbers are the same bits whatever the others have."""

    class Together(Sphere):  # a geometry of a user, that says nothing of its rows
        separate_rows = False

        def log_coordinates(self, point, other):
            asked.append(np.ndim(other) == 2 and len(other))
            return super().log_coordinates(point, other)

    X = make_cloud(Sphere(2), 40, offset=0.1, spread=0.1, rng=np.random.default_rng(0))
    asked = []
    space = as_geometry(Together(2))  # tried at public points
    mean = PrivateFrechetMean(space, center=Sphere(2).base_point, radius=0.4)
    model = FederatedEstimator(mean, 2, 3, local_steps=2, random_state=0, **parameters)
    asked.clear()
    model.fit(X, clients=np.arange(40) % 4)
    assert set(asked) <= {False, 1, 3}  # three at once: the answers of a round, at the server
    assert model.privacy_spent_.public["arithmetic"] == "exact integers"


def test_an_agent_of_coarse_integers_or_an_unknown_unit_is_refused():
    problem = PrivateFrechetMean("spd", center=np.eye(2), radius=1.0)._problem(X)
    with pytest.raises(ValueError, match="out of the range of exact integers"):
        Agent("0", problem, FULL, 1e12, GeodesicBall(SPACE, np.eye(2), 1.0))
    with pytest.raises(ValueError, match="unit"):
        Agent("0", problem, FULL, 2.0, GeodesicBall(SPACE, np.eye(2), 1.0), unit="client")


def test_a_record_without_a_gradient_spoils_no_client():
    def gradient(point, X, y):
        return np.where(X > 5.0, np.nan, point - X)

    rows = X.reshape(400, 4).copy()
    rows[7] = 9.0
    erm = PrivateRiemannianERM("euclidean", gradient=gradient, clip_norm=1.0, epsilon=500.0)
    point = FederatedEstimator(erm, 1, 8, step_size=0.5).fit(rows, clients=HOSPITALS).point_
    clipped = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]
    clipped[7] = 0.0
    np.testing.assert_allclose(point, 0.5 * clipped.mean(axis=0), atol=0.01)


def test_clients_and_rounds_never_share_noise():
    """Identical clients with one seed must send different answers."""
    ball = GeodesicBall(SPACE, None, 1.0)
    agents = [Agent(c, FrechetProblem(ball, X), FULL, 2.0, ball, random_state=1) for c in "ab"]
    answers = [
        agent.handle(LocalTask("fit", t, agent.client, np.eye(2))).point
        for agent in agents
        for t in (0, 1)
    ]
    assert len({answer.tobytes() for answer in answers}) == 4


def test_federated_equals_central(monkeypatch):
    """All clients, one full local step: DP-RGD whose noise is the mean of the clients' noises."""
    ball = GeodesicBall(SPACE, None, 1.0)
    problems = {c: FrechetProblem(ball, X[HOSPITALS == c]) for c in range(8)}
    agents = {c: Agent(c, p, FULL, 3.0, ball, random_state=2) for c, p in problems.items()}
    loop = ServerLoop(SPACE, ((*range(8),),), {c: p.n for c, p in problems.items()})
    point, refused = loop.run(InProcessTransport(agents), np.eye(2), "fit")
    assert refused == []
    center = np.eye(2)
    moves = [
        SPACE.log(center, agents[c].handle(LocalTask("fit", 0, c, center)).point) for c in range(8)
    ]
    exact = -mean_gradient(FrechetProblem(ball, X), center)
    noise = np.mean(moves, axis=0) - exact
    np.testing.assert_allclose(point, SPACE.exp(center, exact + noise), atol=1e-12)
    # Noise of eight clients with 50 records each, averaged: sensitivity 2/50, over sqrt(8).
    expected = 3.0 * 2 / 50 / math.sqrt(8)
    coordinates = SPACE.coordinates_from_tangent(center, noise)
    assert np.linalg.norm(coordinates) < 6 * expected


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"clients": None}, "clients"),
        ({"clients": np.r_[np.zeros(399), 1]}, "2 records"),
        ({"clients_per_round": 9}, "clients_per_round"),
        ({"local": "adam"}, "local"),
        ({"local": "rsvrg"}, "batch_fraction"),
        ({"batch_fraction": 0.0}, "batch_fraction"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"unit": "planet"}, "unit"),
        ({"clients": np.zeros((400, 1))}, "one id for each row"),
        ({"start": -np.eye(2)}, "start"),
        ({"start": np.eye(3)}, "start"),
        ({"checkpoint": "run.json"}, "fit_id"),
        ({"checkpoint": "run.json", "fit_id": "a", "unit": "client"}, "hides who trains"),
        ({"unit": "client", "local": "rsvrg", "batch_fraction": 0.5}, "local noise"),
        ({"step_size": [1.0, 1.0]}, "step_size"),
    ],
    ids=str,
)
def test_bad_settings_charge_nothing(parameters, words, recording_accountant):
    parameters = dict(parameters)
    clients = parameters.pop("clients", HOSPITALS)
    model = FederatedEstimator(
        MEAN, 4, **{"clients_per_round": 2, "accountant": recording_accountant, **parameters}
    )
    with pytest.raises(ValueError, match=words):
        model.fit(X, clients=clients)
    assert recording_accountant.spends == []


def test_the_inner_estimators_budget_is_checked(recording_accountant):
    with pytest.raises(ValueError, match="delta"):
        inner = PrivateFrechetMean("spd", delta=0.0, center=np.eye(2), radius=1.0)
        FederatedEstimator(inner, 2, 2, accountant=recording_accountant).fit(X, clients=HOSPITALS)
    assert recording_accountant.spends == []


def test_the_inner_estimators_ledger_is_charged(recording_accountant):
    inner = PrivateFrechetMean("spd", accountant=recording_accountant, center=np.eye(2), radius=1.0)
    model = FederatedEstimator(inner, 2, 2).fit(X, clients=HOSPITALS)
    assert len(recording_accountant.spends) == 1
    assert model.estimator is inner and not hasattr(inner, "n_features_in_")


def test_worker_processes_charge_the_callers_ledger(tmp_path):
    with PrivacyAccountant(math.inf, path=str(tmp_path / "ledger")) as ledger:
        cross_val_score(
            FederatedEstimator(MEAN, 2, 2), X, cv=2, n_jobs=2, params={"clients": HOSPITALS}
        )
        assert len(ledger.history) == 2


@pytest.mark.parametrize(
    "inner, local",
    [
        (PrivatePrincipalEigenvector(2, 1.0, center="assume", epsilon=200.0), "rsgd"),
        (PrivatePrincipalEigenvector(1, 1.0, center="assume", epsilon=200.0), "rsvrg"),
        (PrivateRiemannianERM("euclidean", clip_norm=3.0, epsilon=200.0), "rsgd"),
    ],
    ids=["PCA", "PCA variance-reduced", "ERM"],
)
def test_estimators_with_a_problem_are_federated(inner, local):
    rows = np.random.default_rng(1).normal(size=(800, 4)) * [0.5, 0.3, 0.05, 0.05]
    share, length = (0.5, 3) if local == "rsvrg" else (1.0, 2)
    model = FederatedEstimator(
        inner, 20, 4, local=local, local_steps=length, batch_fraction=share, step_size=0.7
    )
    model.fit(rows, clients=np.arange(800) % 4)
    assert tuple(model.privacy_spent_) == (200.0, 1e-5)
    if isinstance(inner, PrivateRiemannianERM):
        assert np.linalg.norm(model.point_ - rows.mean(axis=0)) < 0.05
        assert model.score(rows) > -0.5 * np.mean(np.sum(rows**2, axis=1)) - 0.01
        return
    k = inner.n_components
    values = np.linalg.eigvalsh(rows.T @ rows)[::-1]
    best = values[:k].sum() / values.sum()
    assert model.transform(rows).shape == (800, k)
    assert model.predict(rows).shape == rows.shape
    assert best - 0.05 < model.score(rows) <= best + 1e-12


@pytest.mark.parametrize(
    "change, words",
    [
        ({"row_norm": "private"}, "row_norm"),
        ({"center": "private"}, "center"),
    ],
)
def test_pca_without_public_bounds_is_refused(change, words, recording_accountant):
    inner = PrivatePrincipalEigenvector(**{"row_norm": 1.0, "center": "assume", **change})
    model = FederatedEstimator(inner, 2, 2, accountant=recording_accountant)
    with pytest.raises(ValueError, match=words):
        model.fit(X.reshape(400, 4), clients=HOSPITALS)
    assert recording_accountant.spends == []


# -- structured prediction ------------------------------------------------------------------------

PLANE = Hyperboloid(2)
FEATURES, LABELS = make_tree(600, public_seed=3)
CLIENTS = np.arange(600) % 6


def residual(point, weights):
    """Norm of the gradient of the weighted mean, over the sum of the weights."""
    total = weights @ PLANE.log_coordinates(point, LABELS)
    return float(np.linalg.norm(total) / np.abs(weights).sum())


@pytest.mark.mostly_slow(2)
@pytest.mark.parametrize("local", ["rsgd", "rsvrg"])
def test_a_query_over_private_pairs_is_federated(local):
    query = FEATURES[40]
    erm = PrivateRiemannianERM(
        PLANE, gradient=KernelQuery(PLANE, query, 0.4), clip_norm=3.0, epsilon=3000.0
    )
    weights = np.exp(-np.sum((FEATURES - query) ** 2, axis=1) / (2 * 0.4**2))
    step = 0.7 / weights.mean()
    share, more = (0.9, {"smoothness": 4.0}) if local == "rsvrg" else (1.0, {"local_steps": 2})
    model = FederatedEstimator(
        erm, 10, 6, local=local, batch_fraction=share, step_size=step, **more
    ).fit(FEATURES, LABELS, clients=CLIENTS)
    # In batches integers take a part of delta, which is next to nothing at this epsilon: residuals
    # are 0.1 in the middle, .01 without batches, like lengths of Gaussian vectors; false alarms
    # below 1e-6.
    assert residual(PLANE.base_point, weights) > 3.0
    assert residual(model.point_, weights) < (0.6 if local == "rsvrg" else 0.15)


def test_a_query_over_private_labels_is_federated():
    weights = ridge_weights(FEATURES, FEATURES[40], 0.4, 5.0, CLIENTS)
    client = CLIENTS == 2
    kernel = np.exp(-cdist(FEATURES[client], FEATURES[client], "sqeuclidean") / (2 * 0.4**2))
    at_query = np.exp(-cdist(FEATURES[client], FEATURES[40:41], "sqeuclidean") / (2 * 0.4**2))
    expected = np.linalg.solve(kernel + 5.0 * np.eye(client.sum()), at_query)
    np.testing.assert_allclose(weights[client], expected, atol=1e-12)
    # Clipping at the largest public weight times 3 shortens few gradients.
    erm = PrivateRiemannianERM(
        PLANE,
        gradient=LabelQuery(PLANE),
        clip_norm=3.0 * float(np.abs(weights).max()),
        epsilon=3000.0,
    )
    model = FederatedEstimator(erm, 20, 6, step_size=0.7 / np.abs(weights).mean())
    model.fit(weights, LABELS, clients=CLIENTS)
    assert residual(model.point_, weights[:, 0]) < 0.05


@pytest.mark.parametrize(
    "gradient, records, labels, words",
    [
        (KernelQuery(PLANE, [0.0, 0.0], 1.0), FEATURES, LABELS, "one column per entry"),
        (KernelQuery(PLANE, FEATURES[0], 1.0), FEATURES, None, "points of"),
        (KernelQuery(PLANE, FEATURES[0], 1.0), FEATURES, LABELS[:, :2], "points of"),
        (LabelQuery(PLANE), FEATURES, LABELS, "weights"),
    ],
)
def test_bad_queries_charge_nothing(gradient, records, labels, words, recording_accountant):
    erm = PrivateRiemannianERM(PLANE, gradient=gradient, accountant=recording_accountant)
    with pytest.raises(ValueError, match=words):
        FederatedEstimator(erm, 2, 2).fit(records, labels, clients=CLIENTS)
    assert recording_accountant.spends == []


def test_bad_parameters_of_queries():
    with pytest.raises(ValueError, match="finite"):
        KernelQuery(PLANE, [np.nan], 1.0)
    with pytest.raises(ValueError, match="length_scale"):
        KernelQuery(PLANE, [0.0], 0.0)
    with pytest.raises(ValueError, match="query"):
        ridge_weights(FEATURES, [0.0], 1.0, 1.0)
    with pytest.raises(ValueError, match="clients"):
        ridge_weights(FEATURES, FEATURES[0], 1.0, 1.0, clients=[1, 2])


class Interrupted(Exception):
    pass


def test_an_interrupted_fit_resumes_without_a_second_charge(
    tmp_path, recording_accountant, monkeypatch
):
    def model(**changes):
        settings = {"checkpoint": tmp_path / "run.json", "fit_id": "trial", "random_state": 4}
        return FederatedEstimator(
            MEAN, 6, 3, accountant=recording_accountant, **{**settings, **changes}
        )

    def fit(**changes):
        return model(**changes).fit(X, clients=HOSPITALS)

    whole = fit(checkpoint=None)
    asked = []
    with monkeypatch.context() as patch:
        answers = InProcessTransport.run

        def dies(transport, tasks):
            asked.extend(task.round for task in tasks)
            if tasks[0].round == 3:
                raise Interrupted
            return answers(transport, tasks)

        patch.setattr(InProcessTransport, "run", dies)
        with pytest.raises(Interrupted):
            fit()
        assert len(recording_accountant.spends) == 2
        with pytest.raises(ValueError, match="other settings"):
            fit(step_size=0.5)
        patch.setattr(
            InProcessTransport,
            "run",
            lambda engine, tasks: asked.extend(t.round for t in tasks) or answers(engine, tasks),
        )
        resumed = fit()
        assert asked == np.repeat(range(6), 3).tolist()
        again = fit()  # a finished run is returned, not repeated
        assert len(asked) == 18
    assert len(recording_accountant.spends) == 2
    np.testing.assert_array_equal(resumed.point_, again.point_)
    assert not np.array_equal(whole.point_, resumed.point_)  # round 3 is lost
    with (
        Checkpoint(tmp_path / "run.json").locked(),
        pytest.raises(RuntimeError, match="another run"),
    ):
        fit()


def test_a_checkpoint_is_waited_for_until_the_run_before_has_ended(tmp_path):
    checkpoint, over = Checkpoint(tmp_path / "run.json"), threading.Event()

    def run():
        with checkpoint.locked():
            begun.set()
            over.wait(60)

    begun, before = threading.Event(), threading.Thread(target=run)
    before.start()
    assert begun.wait(60)
    threading.Timer(0.3, over.set).start()
    with checkpoint.locked(wait=60.0):
        assert over.is_set()
    before.join()


def test_estimators_without_a_problem_are_refused():
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(TypeError, match="problem on a manifold"):
        FederatedEstimator(LogisticRegression(), 4, 2).fit(X, clients=HOSPITALS)


# -- the server against hostile clients -----------------------------------------------------------


def update(client="a", point=None, fit="fit", round=3):
    return LocalUpdate(fit, round, client, np.eye(2) if point is None else point)


HOSTILE = {
    "NaN": update(point=np.full((2, 2), np.nan)),
    "huge": update(point=np.diag([np.inf, 1.0])),
    "huge but finite": update(point=np.diag([1e300, 1e-300])),
    "unreadable": update(client=np.zeros(3)),
    "off the manifold": update(point=np.diag([-1.0, 1.0])),
    "wrong shape": update(point=np.eye(3)),
    "not an array": update(point=[[1.0, 0.0], [0.0, 1.0]]),
    "objects": update(point=np.array([[None, None], [None, None]])),
    "another round": update(round=2),
    "another fit": update(fit="other"),
    "forged id": update(client="b"),
    "no update": "hello",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_uploads_are_refused_and_the_round_goes_on(name):
    tasks = [LocalTask("fit", 3, c, np.eye(2)) for c in "abc"]
    answers = [("a", HOSTILE[name]), ("c", update("c")), ("z", update("z")), ("c", update("c"))]
    accepted, refused = checked_updates(SPACE, tasks, answers, GeodesicBall(SPACE, None, 1.0))
    assert [answer.client for answer in accepted] == ["c"]
    assert len(refused) == 3
    assert all(np.isfinite(answer.point).all() for answer in accepted)
    assert not any("nan" in str(r).lower() or "inf" in str(r) for r in refused)


def test_order_of_arrival_does_not_matter():
    tasks = [LocalTask("fit", 3, c, np.eye(2)) for c in "abc"]
    answers = [(c, update(c)) for c in "cab"]
    accepted, _ = checked_updates(SPACE, tasks, answers)
    assert [answer.client for answer in accepted] == ["a", "b", "c"]


def test_tangent_mean_of_equal_points_stays():
    point = X[0]
    np.testing.assert_allclose(
        tangent_mean(SPACE, np.eye(2), [point, point], [1, 3]), point, atol=1e-12
    )


class Flaky:
    """A transport that loses the second client and dies in one round."""

    def __init__(self, agents, dies_in=None):
        self.agents, self.dies_in, self.asked = agents, dies_in, []

    def run(self, tasks):
        for position, task in enumerate(tasks):
            self.asked.append((task.client, task.round))
            if position == 1:
                continue
            if task.round == self.dies_in:
                raise ConnectionError
            yield task.client, self.agents[task.client].handle(task)


def agents_with_ledgers(folder, ceiling=math.inf):
    ball = GeodesicBall(SPACE, None, 1.0)
    agents = {}
    for c in range(4):
        agents[c] = Agent(
            c,
            FrechetProblem(ball, X[HOSPITALS == c]),
            FULL,
            5.0,
            ball,
            accountant=PrivacyAccountant(ceiling, path=str(folder / f"{c}.ledger")),
            book=AnswerBook(folder / f"{c}.answers"),
            random_state=3 if math.isinf(ceiling) else None,
        )
    return agents


def test_a_run_that_one_budget_paid_for_is_not_resumed_under_another(tmp_path):
    """Else a checkpoint would be a way round the ceiling of a second ledger."""

    def fit(accountant):
        settings = {"checkpoint": tmp_path / "run.json", "fit_id": "trial"}
        return FederatedEstimator(MEAN, 4, 3, accountant=accountant, **settings).fit(
            X, clients=HOSPITALS
        )

    paid = PrivacyAccountant(epsilon=20.0, path=tmp_path / "paid.ledger")
    other = PrivacyAccountant(epsilon=20.0, path=tmp_path / "other.ledger")
    point = fit(paid).point_
    with pytest.raises(ValueError, match="another budget"):
        fit(other)
    assert len(other.history) == 0
    np.testing.assert_array_equal(
        fit(PrivacyAccountant(path=tmp_path / "paid.ledger")).point_, point
    )
    assert len(paid.history) == 1


def test_a_restarted_server_resumes_and_nobody_releases_twice(tmp_path):
    agents = agents_with_ledgers(tmp_path)
    schedule = tuple(map(tuple, Participation(4, 6, 2).draw(np.random.default_rng(0)).tolist()))
    loop = ServerLoop(SPACE, schedule, dict.fromkeys(range(4), 50))
    checkpoint = Checkpoint(tmp_path / "server.json")
    with pytest.raises(ConnectionError):
        loop.run(Flaky(agents, dies_in=2), np.eye(2), "fit", checkpoint)
    transport = Flaky(agents)
    point, _ = loop.run(transport, np.eye(2), "fit", checkpoint)
    assert min(t for _, t in transport.asked) == 3
    assert SPACE.belongs(point)
    charges = [len(agent.accountant.history) for agent in agents.values()]
    assert sum(charges) == 5  # six rounds, the second client lost, one round interrupted


def test_a_repeated_message_is_answered_from_memory(tmp_path):
    agent = agents_with_ledgers(tmp_path)[0]
    task = LocalTask("fit", 0, 0, np.eye(2))
    first = agent.handle(task)
    again = agents_with_ledgers(tmp_path)[0].handle(task)
    np.testing.assert_array_equal(first.point, again.point)
    assert len(agent.accountant.history) == 1
    with pytest.raises(BudgetError, match="another point"):
        agent.handle(LocalTask("fit", 0, 0, 2 * np.eye(2)))


def test_a_message_for_another_client_is_refused_and_costs_nothing(tmp_path):
    agent = agents_with_ledgers(tmp_path)[0]
    with pytest.raises(ValueError, match="another client"):
        agent.handle(LocalTask("fit", 0, 1, np.eye(2)))
    assert len(agent.accountant.history) == 0


def test_a_crash_between_charge_and_answer_is_not_repeated(tmp_path):
    agent = agents_with_ledgers(tmp_path)[0]
    task = LocalTask("fit", 0, 0, np.eye(2))
    assert agent.book.begin(task, lambda: None) is None
    with pytest.raises(BudgetError, match="never finished"):
        agent.handle(task)


def test_a_client_keeps_its_own_ceiling(tmp_path):
    agent = agents_with_ledgers(tmp_path, ceiling=1.0)[0]
    with pytest.raises(BudgetExceededError):
        for t in range(100):
            agent.handle(LocalTask("fit", t, 0, np.eye(2)))
    charged = len(agent.accountant.history)
    assert 1 <= charged < 100
    # Its silence does not stop a round.
    loop = ServerLoop(SPACE, ((0,),), {0: 50})
    point, refused = loop.run(InProcessTransport({0: agent}), np.eye(2), "another")
    assert [str(refusal) for refusal in refused] == ["client 0 declined."]
    np.testing.assert_array_equal(point, np.eye(2))
    assert len(agent.accountant.history) == charged


def test_the_servers_point_is_checked(tmp_path):
    agent = agents_with_ledgers(tmp_path)[0]
    with pytest.raises(ValueError, match="server's point"):
        agent.handle(LocalTask("fit", 0, 0, -np.eye(2)))
    assert agent.accountant.history == []


def test_local_event_is_that_of_the_solver():
    settings = LocalSettings("rsgd", 3, 0.5, 0.1, 1.0)
    event = local_event(settings, 2.0, 7)
    assert event.integers == 7
    assert event.sampling_probability == pytest.approx(0.1)
    assert (event.noise_multiplier, event.count) == (2.0, 3)


@pytest.fixture(scope="module")
def reproduction():
    with reproductions():
        yield importlib.import_module("huang2025_prirfed")


@pytest.fixture(scope="module")
def printed():
    """The bounds of the paper's theorems."""
    with reproductions():
        yield importlib.import_module("huang2025_theory")


@contextlib.contextmanager
def reproductions():
    folder = Path(__file__).parents[1] / "examples" / "reproductions"
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    yield
    sys.path[:] = before


# -- published step sizes -------------------------------------------------------------------------


def test_constants_of_the_theory():
    ball = GeodesicBall(Hyperboloid(2, curvature=-4.0), None, 0.75)
    assert theory.ball_constant(ball) == pytest.approx(3.0 / math.tanh(3.0))
    run = {"local": "rsgd", "local_steps": 1, "n_clients": 5, "half_squared_distance": True}
    assert theory.theory_settings(Sphere(2), None, **run) == (1.0, 1)
    step, _ = theory.theory_settings(ball.geometry, ball, **run)
    assert step == pytest.approx(math.tanh(3.0) / 3.0)


def test_theory_sets_the_steps():
    ball, run = GeodesicBall(SPACE, None, 2.0), {"local": "rsvrg", "n_clients": 8}
    step_size, local_steps = theory.theory_settings(
        SPACE, ball, local_steps=1, half_squared_distance=True, **run
    )
    model = FederatedEstimator(
        MEAN, 2, 2, local="rsvrg", step_size=step_size, local_steps=local_steps, batch_fraction=0.1
    )
    assert tuple(model.fit(X, clients=HOSPITALS).privacy_spent_) == (2.0, 1e-5)
    with pytest.raises(ValueError, match="smoothness"):
        theory.theory_settings(SPACE, ball, local_steps=1, **run)
    with pytest.raises(ValueError, match="domain"):
        theory.theory_settings(SPACE, None, local_steps=1, **run)


def test_bounds_hold_on_a_euclidean_mean(printed):
    """Theorems 5.1 and 5.3 on a quadratic, where both sides are known exactly."""
    dim, variance, steps, start = 3, 0.04, 25, 2.0
    alpha = 0.5
    # |x_t|^2 in expectation: contraction plus noise.
    square = start**2
    norms = [square]
    for _ in range(steps):
        square = (1 - alpha) ** 2 * square + alpha**2 * dim * variance
        norms.append(square)
    bound = printed.gradient_bound(0.5 * start**2, steps, alpha, 1.0, dim, variance)
    assert min(norms[:-1]) <= bound
    gap = printed.convex_gap_bound(start, steps, alpha, 1.0, 1.0, dim, variance)
    assert 0.5 * norms[-1] <= gap


def stationary_local_points(n_steps, step):
    """E x^2 over the local points of clients that pull to +1 and -1, one per round, in the limit.

    ``x <- (1 - b) x + b c`` per round, with b the pull of K steps and c a fair coin.
    """
    pull = 1.0 - (1.0 - step) ** n_steps
    server = pull / (2.0 - pull)
    left = (1.0 - step) ** np.arange(n_steps)
    return float(np.mean(left**2 * server + (1.0 - left) ** 2)), server


def test_published_bounds_of_several_steps_need_equal_clients(printed):
    """Costs (x -+ 1)^2 / 2 of two clients, no noise: gradients at most 2, both smooth with 1."""
    forever = 10**9
    n_steps = 100
    step = 0.5 * schedules.several_steps_limit(n_steps)
    local, server = stationary_local_points(n_steps, step)
    shared = (0.5, forever, n_steps, step, 1.0, 2.0, 1, 0.0)
    assert local > 2 * printed.published_several_steps_bound(*shared)
    assert server < printed.several_steps_bound(*shared)
    # Full gradients in place of variance-reduced ones, with Theorem 5.6's steps.
    m, step = schedules.svrg_settings(2, 1.0, 1.0)
    local, server = stationary_local_points(2 * m, step)
    assert printed.published_svrg_bound(0.5, forever, 2, 2, 1.0, 1, 0.0) < 1e-6 < 0.3 < local
    assert server < printed.several_steps_bound(0.5, forever, 2 * m, step, 1.0, 2.0, 1, 0.0)


@pytest.mark.parametrize("n", [2, 10, 1000])
def test_the_published_variance_reduced_bound_counts_noise_for_too_little(n, printed):
    """One risk x^2 / 2 for all clients and records, so every variance-reduced gradient is exact."""
    m, step = schedules.svrg_settings(n, 1.0, 1.0)
    stationary = step / (2.0 - step)  # x <- (1 - step) x - step * noise of variance 1
    assert stationary > 2.5 * printed.published_svrg_bound(0.5, 10**12, 2, n, 1.0, 1, 1.0)
    assert stationary < printed.several_steps_bound(
        0.5, 10**12, 2 * m, step, 1.0, 1.0, 1, 1.0, reduced=True
    )


def test_bound_of_partial_participation_is_attained(printed):
    """Theorem 5.4 on quadratics, where the recursion is an equality; without the paper's d."""
    dim, noise, n, s, step, rounds = 3, 0.04, 10, 4, 0.3, 12
    centers = np.random.default_rng(0).normal(size=(n, dim))
    centers -= centers.mean(axis=0)
    spread = float(np.mean(np.sum(centers**2, axis=1)))
    # |x|^2 -> (1 - a)^2 |x|^2 + a^2 (noise + variance of a mean of s of n centres).
    square = 4.0
    for _ in range(rounds):
        sampled = spread * (n - s) / (s * (n - 1))
        square = (1 - step) ** 2 * square + step**2 * (dim * noise / s + sampled)
    bound = printed.rpl_gap_bound(2.0, rounds, step, 1.0, 1.0, dim, noise, n, s, spread)
    assert 0.5 * square == pytest.approx(bound, rel=1e-12)


def test_bounds_of_several_steps_without_drift(printed):
    """Equal clients: both bounds hold for noisy quadratics."""
    dim, noise, steps, step, rounds = 2, 0.02, 4, 0.05, 30
    square, seen = 1.0, []
    for _ in range(rounds * steps):
        seen.append(square)
        square = (1 - step) ** 2 * square + step**2 * dim * noise
    shared = (0.5, rounds, steps, step, 1.0, 1.2, dim, noise)
    assert np.mean(seen) <= printed.published_several_steps_bound(*shared)
    assert np.mean(seen[::steps]) <= printed.several_steps_bound(*shared)
    with pytest.raises(ValueError, match="limit"):
        printed.published_several_steps_bound(0.5, rounds, steps, 0.9, 1.0, 1.2, dim, noise)


# -- the reproduction -----------------------------------------------------------------------------


def test_published_noise_is_the_printed_formula(reproduction):
    rng = np.random.default_rng(0)
    case = reproduction.spd_mean("mean", reproduction.wishart(rng, 200), 4, 0.5, rng, 0.05)
    assert case.n == 50 and case.risk(case.start) > 0
    variance = 3 * math.log(1e4) / (50 * 0.15) ** 2  # K log(1/delta) tau^2 / (N_i epsilon)^2
    solver = reproduction.published_plain(case)
    # Costs are half the paper's, so are gradients and tau = 1: the standard deviation is halved.
    assert solver.noise_multiplier * 1.0 / 50 == pytest.approx(0.5 * math.sqrt(variance))
    sigma = reproduction.published_reduced(case).sigma
    assert sigma == pytest.approx(0.5 * math.sqrt(10 * variance))
    target = (0.5, 1e-3)
    for make in (reproduction.plain, reproduction.reduced):
        ours = reproduction.calibrated(case, make, 6, target)
        event = reproduction.total_event(case, ours, 6)
        assert 0.9e-3 < event.delta(0.5) <= 1e-3 * (1 + 1e-9)
    risks = reproduction.trajectory(case, reproduction.plain(case, 2e-3), 6, 0, {1, 6})
    assert risks[1] < 0.7 * case.risk(case.start)


def test_images_by_path_become_records(reproduction):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (30, 28, 28, 3)).astype(np.uint8)
    covariances = reproduction.colour_covariances(images)
    assert covariances.shape == (30, 9, 9) and SPD(9).belongs(covariances).all()
    case = reproduction.eigenvector("pixels", images[..., 0].reshape(30, -1) / 255.0, 3, 10.0, rng)
    assert case.start.shape == (784,) and case.risk(case.start) > 0


# -- the noise that is charged is the noise that is added -----------------------------------------


def explains(coordinates, scale):
    """Whether independent Gaussians of this scale are plausible; false alarms 1e-6."""
    total = np.sum((coordinates / scale) ** 2)
    low, high = chi2.ppf([5e-7, 1 - 5e-7], coordinates.size)
    return low < total < high


def test_uploads_carry_the_charged_noise():
    ball, multiplier, start = GeodesicBall(SPACE, None, 1.0), 4.0, np.diag([1.2, 0.9])
    problem = FrechetProblem.from_records(ball, X[:50])[0]
    agents = [Agent("a", problem, FULL, multiplier, ball, random_state=seed) for seed in range(300)]
    assert local_event(FULL, multiplier, 2) == GaussianEvent(multiplier)
    exact = -mean_gradient(problem, start)
    moves = [SPACE.log(start, a.handle(LocalTask("fit", 0, "a", start)).point) for a in agents]
    noise = SPACE.coordinates_from_tangent(start, np.stack(moves) - exact)
    # Records of one ball move the mean of 50 logarithms by 2/50 at most.
    assert explains(noise, multiplier * 2.0 / 50)
    assert not explains(noise / 2, multiplier * 2.0 / 50)


def test_the_trusted_aggregator_adds_the_charged_noise():
    clip, cohort, nu, start = 0.3, 2, 1.5, np.diag([1.2, 0.9])
    ball = GeodesicBall(SPACE, None, 1.0)
    problems = {c: FrechetProblem.from_records(ball, X[c::4])[0] for c in range(4)}
    loop = ServerLoop(SPACE, ((0, 1),), dict.fromkeys(range(4), 100))
    rng = np.random.default_rng(0)
    ends = [run_trusted(loop, problems, FULL, nu, clip, start, rng) for _ in range(300)]
    moves = [-mean_gradient(problems[c], start) for c in (0, 1)]
    short = [m * min(1.0, clip / float(SPACE.norm(start, m))) for m in moves]
    noise = SPACE.coordinates_from_tangent(
        start, SPACE.log(start, np.stack(ends)) - np.mean(short, axis=0)
    )
    assert explains(noise, nu * 2.0 * clip / cohort)
    assert not explains(noise / 2, nu * 2.0 * clip / cohort)


def test_differences_clipped_by_distance_have_no_bias():
    model = FederatedEstimator(
        PrivateFrechetMean("spd", epsilon=30.0, center=np.eye(2), radius=1.0),
        12,
        8,
        local="rsvrg",
        local_steps=4,
        batch_fraction=0.5,
        step_size=0.5,
    )
    # Ten times as many records as elsewhere: next to no noise.
    model.fit(np.tile(X, (10, 1, 1)), clients=np.tile(HOSPITALS, 10))
    assert SPACE.dist(model.point_, frechet_mean(X, SPACE)) < 0.02


# -- rounds that noise allows ---------------------------------------------------------------------


def rounds_of(asked, n=400, clients=4, radius=1.0, epsilon=1.0, accountant=None, **settings):
    rows = 0.1 * np.random.default_rng(0).normal(size=(n, 3))
    if isinstance(settings.get("step_size"), range):  # steps that become shorter
        settings = settings | {"step_size": [1.0 / k for k in settings["step_size"]]}
    mean = PrivateFrechetMean(radius=radius, epsilon=epsilon)
    model = FederatedEstimator(mean, asked, clients, accountant=accountant, **settings)
    return model.fit(rows, clients=np.arange(n) % clients)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"local_steps": 3},
        {"step_size": 0.3},
        {"step_size": range(1, 5001)},
        {"batch_fraction": 0.5, "participation": "uniform"},
        {"local": "rsvrg", "batch_fraction": 0.5, "step_size": 0.3},
        {"unit": "client", "update_clip": 0.05, "epsilon": 4.0},
        {"output": "random"},
    ],
    ids=str,
)
def test_more_rounds_than_noise_allows_are_not_made(settings, recording_accountant):
    with pytest.warns(UserWarning, match="n_rounds=5000 would add up to more noise"):
        most = rounds_of(5000, accountant=recording_accountant, **settings)
    (event,) = recording_accountant.spends
    assert 1 <= most.n_rounds_ < 5000 and most.privacy_spent_.public["n_rounds"] == most.n_rounds_
    assert event == most.privacy_spent_.event
    assert event.delta(most.estimator.epsilon) <= 1e-5
    if "step_size" not in settings or np.ndim(settings["step_size"]) == 0:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert rounds_of(most.n_rounds_, **settings).n_rounds_ == most.n_rounds_


def test_rounds_grow_with_the_square_of_the_records_over_the_dimension():
    made = [rounds_of(10_000, n=n).n_rounds_ for n in (400, 800, 1600)]
    assert made == sorted(made)
    np.testing.assert_allclose(np.array(made) / made[0], [1.0, 4.0, 16.0], rtol=0.15)
    # (t / 4)^2 / dim of each client's own t, the root of their number smaller, and .9^2 of that.
    t = 1600 * gaussian_mu(1.0, 1e-5) / 4**0.5
    assert made[-1] == pytest.approx(0.81 * (t / 4) ** 2 / 3, rel=0.1)


def test_where_one_round_is_too_many_the_start_is_the_result_and_costs_nothing():
    budget = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    with pytest.warns(UserWarning, match="no client is asked anything"):
        model = rounds_of(20, n=24, accountant=budget)
    assert model.n_rounds_ == 0 and not model.point_.any()
    assert tuple(model.privacy_spent_) == (0.0, 0.0)
    assert len(budget.history) == 1 and budget.spent.epsilon == 0.0
    assert model.privacy_spent_.releases == ()
    assert set(model.privacy_spent_by_client_) == {0, 1, 2, 3}


def test_a_ball_that_nobody_named_allows_all_rounds():
    erm = PrivateRiemannianERM(epsilon=0.3, clip_norm=1.0)
    rows = np.random.default_rng(0).normal(size=(40, 2))
    model = FederatedEstimator(erm, 30, 2, step_size=1e-3).fit(rows, clients=np.arange(40) % 2)
    assert model.n_rounds_ == 30
