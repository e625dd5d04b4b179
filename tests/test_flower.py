"""Flower: hostile messages in process, and a deployment on loopback that loses nodes and server."""

import dataclasses
import doctest
import importlib.util
import json
import math
import sqlite3
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import test_cohort_loop
import test_local_agent

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

from flwr.app import (  # noqa: E402
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.serverapp import GaussianPrivacyEvent, Grid, RdpAccountant  # noqa: E402
from flwr.serverapp.exception import PrivacyBudgetExhausted  # noqa: E402
from flwr.serverapp.strategy import (  # noqa: E402
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from skriemdp import PrivacyAccountant, PrivateMinimumDistanceToMean  # noqa: E402
from skriemdp._descent.problem import FrechetProblem  # noqa: E402
from skriemdp._mechanisms.noise import NOISE_SCALE  # noqa: E402
from skriemdp.datasets import make_people  # noqa: E402
from skriemdp.federated import (  # noqa: E402
    Agent,
    AnswerBook,
    Cohort,
    FlowerAccountant,
    Identity,
    LocalSettings,
    LocalUpdate,
    ServerLoop,
    SumsLoop,
    flower,
    learn_from_sums,
    sums_agent,
)
from skriemdp.geometry import SPD, GeodesicBall  # noqa: E402
from skriemdp.ledger._accountant import BudgetError, BudgetExceededError  # noqa: E402
from skriemdp.privacy._events import (  # noqa: E402
    FixedSizeSampledGaussianEvent,
    GaussianEvent,
    PoissonSampledGaussianEvent,
)

DEPLOYMENT = Path(__file__).parents[1] / "examples" / "deployment"
SPACE = SPD(2)
BALL = GeodesicBall(SPACE, None, 1.0)


def make_agent(folder, ceiling=5.0, book=True, ledger=True):
    points = BALL.project(np.stack([np.diag([1.0 + 0.01 * i, 1.0]) for i in range(50)]))
    return Agent(
        "north",
        FrechetProblem(BALL, points),
        LocalSettings("rsgd", 1, 1.0, 1.0, math.inf),
        5.0,
        BALL,
        accountant=PrivacyAccountant(ceiling, path=folder / "ledger" if ledger else None),
        book=AnswerBook(folder / "answers") if book else None,
    )


class Letter:
    """Stands for a Flower message; building a real one needs a running task."""

    def __init__(self, content, sender=7, reply_to="", error=None):
        self.content, self.error = content, error
        self.metadata = type("Metadata", (), {})()
        self.metadata.src_node_id, self.metadata.reply_to_message_id = sender, reply_to

    def has_error(self):
        return self.error is not None


def request(point=None, fit="fit", round=0):
    point = np.eye(2) if point is None else point
    return Letter(
        RecordDict(
            {
                "point": ArrayRecord([point]),
                "release": ConfigRecord({"fit": fit, "round": round}),
            }
        )
    )


def text_of(answer):
    return answer["status"]["text"] if "status" in answer else None


def test_a_client_answers_once_and_says_nothing_else(tmp_path):
    def ask(message):
        return flower._answer(lambda config: make_agent(tmp_path), message, {})

    first = ask(request())
    (point,) = first["point"].to_numpy_ndarrays()
    assert SPACE.belongs(point)
    (again,) = ask(request())["point"].to_numpy_ndarrays()
    np.testing.assert_array_equal(point, again)
    assert text_of(ask(request(2 * np.eye(2)))) == "declined"
    assert text_of(ask(request(-np.eye(2), round=1))) == "failed"
    assert text_of(ask(Letter(RecordDict()))) == "failed"
    assert len(make_agent(tmp_path).accountant.history) == 1
    # Dear requests end in silence, not in an overdraft.
    texts = [text_of(ask(request(round=t))) for t in range(1, 200)]
    assert texts[0] is None and texts[-1] == "declined"
    assert tuple(make_agent(tmp_path).accountant.spent)[0] <= 5.0


def test_class_means_of_three_hospitals_on_loopback(tmp_path):
    """Tasks and sums travel as Flower's messages; the server has no records."""
    X, y, people = make_people(24, 6, 2, rng=np.random.default_rng(0))
    decoder = PrivateMinimumDistanceToMean(
        "spd", center=np.eye(2), radius=0.5, classes=[0, 1], epsilon=1e4
    )
    nodes = {"north": 1, "south": 2, "west": 3}

    def build(name, place):
        own = people % 3 == place
        return sums_agent(
            decoder,
            X[own],
            y[own],
            people[own],
            client=name,
            accountant=PrivacyAccountant(1e5, path=str(tmp_path / name), unit="group"),
            book=AnswerBook(tmp_path / f"{name}.answers"),
        )

    agents = {name: build(name, place) for place, name in enumerate(nodes)}

    class Grid:
        """Nodes in this process."""

        def __init__(self):
            self.replies = []

        def get_node_ids(self):
            return list(nodes.values())

        def push_messages(self, messages):
            for name, message in messages:
                answer = flower._answer(lambda config, name=name: agents[name], message, {})
                self.replies.append(Letter(answer, nodes[name], name))
            return list(nodes)

        def pull_messages(self, ids):
            replies, self.replies = self.replies, []
            return replies

    class Letters(flower.GridTransport):
        def _message(self, task):
            return task.client, request(task.point, task.fit_id, task.round)

    loop = SumsLoop(tuple(nodes), agents["north"].plan.settings.size)
    uploads, refused = loop.run(Letters(Grid(), nodes), None, "spring")
    assert refused == [] and uploads.clients == tuple(nodes)
    # A restarted server asks again; everybody repeats the stored answer and pays nothing.
    deployed = flower.Deployment(loop, nodes, None, "spring", tmp_path / "run.json")
    with mock.patch.object(flower, "GridTransport", Letters):
        again, _ = deployed.run(Grid())
        stored, _ = deployed.run(Grid())
    np.testing.assert_array_equal(uploads.total, again.total)
    np.testing.assert_array_equal(uploads.total, stored.total)
    assert [len(agent.accountant.history) for agent in agents.values()] == [1, 1, 1]
    sizes = dict.fromkeys(nodes, 8)
    made_up = np.stack([np.eye(2), 2.0 * np.eye(2)])
    model = learn_from_sums(decoder, uploads, sizes, made_up, [0, 1], grouped=True)
    central = decoder.fit(X, y, groups=people)
    np.testing.assert_allclose(model.means_, central.means_, atol=1e-2)


def test_secure_sums_travel_over_flower_as_bytes(tmp_path):
    """Nodes hand on bytes to agents in other processes; what another node says is not heard."""
    names = test_cohort_loop.NAMES
    agents = {name: test_cohort_loop.hospital(tmp_path, name) for name in names}
    nodes = {name: 11 + k for k, name in enumerate(names)}
    loop = test_cohort_loop.loop()
    with test_local_agent.Running(agents) as running:

        class Grid:
            def __init__(self):
                self.replies, self.sent = [], 0

            def get_node_ids(self):
                return list(nodes.values())

            def push_messages(self, messages):
                ids = []
                for name, message in messages:
                    answer = flower._relayed(message, {"agent-port": running.ports[name]})
                    self.sent += 1
                    self.replies.append(Letter(answer, nodes[name], str(self.sent)))
                    ids.append(str(self.sent))
                    if name == "west":  # another node answers in its place
                        self.replies[-1].metadata.src_node_id = 99
                return ids

            def pull_messages(self, ids):
                replies, self.replies = self.replies, []
                return replies

        class Letters(flower.GridTransport):
            def _to(self, client, content, group):
                return client, Letter(content)

        deployed = flower.Deployment(loop, nodes, None, "spring", tmp_path / "run.json")
        with mock.patch.object(flower, "GridTransport", Letters):
            uploads, _ = deployed.run(Grid())
            again, _ = deployed.run(Grid())
    assert uploads.clients == names[:3] and len(uploads.attempts) == 1
    np.testing.assert_array_equal(uploads.total, again.total)
    broken = flower._relayed(Letter(RecordDict({})), {"agent-port": 1})
    assert text_of(broken) == "failed"


@pytest.mark.parametrize(
    "parameters", [{"ceiling": math.inf}, {"book": False}, {"ledger": False}], ids=str
)
def test_an_agent_without_limits_declines(tmp_path, parameters):
    answer = flower._answer(lambda config: make_agent(tmp_path, **parameters), request(), {})
    assert text_of(answer) == "declined"
    assert make_agent(tmp_path, **parameters).accountant.history == []


def test_exceptions_never_carry_records_to_the_server(tmp_path):
    def build(config):
        raise ValueError("patient 17 has value 3.14")

    answer = flower._answer(build, request(), {})
    assert list(answer) == ["status"] and text_of(answer) == "failed"


class Inbox:
    """A grid whose nodes answer what they are told to."""

    def __init__(self, replies):
        self.replies, self.pushed, self.pulls = replies, [], 0

    def get_node_ids(self):
        return list(self.replies)

    def push_messages(self, messages):
        self.pushed += messages
        return [f"id{node}" if node != 9 else "" for node in messages]

    def pull_messages(self, ids):
        self.pulls += 1
        return [make(f"id{n}") for n, make in self.replies.items() if make and f"id{n}" in ids]


def reply(node, fit="fit", round=0, point=None, sender=None):
    content = request(point, fit, round).content
    return lambda i: Letter(content, node if sender is None else sender, i)


def test_the_server_takes_valid_answers_and_goes_on(monkeypatch):
    names = dict(enumerate(("good", "forged", "nan", "error", "mute", "lost", "declined", "other")))
    names = {name: node for node, name in names.items()} | {"lost": 9}
    status = RecordDict({"status": ConfigRecord({"text": "declined"})})
    replies = {
        0: reply(0),
        1: reply(1, sender=5),
        2: reply(2, point=np.full((2, 2), np.nan)),
        3: lambda i: Letter(None, 1, i, error=Error(3, "gone")),
        4: None,
        6: lambda i: Letter(status, 6, i),
        7: reply(7, fit="another"),
    }
    grid = Inbox(replies)
    transport = flower.GridTransport(grid, names, timeout=20.0, grace=0.2, poll=0.01)
    monkeypatch.setattr(transport, "_message", lambda task: names[task.client])
    loop = ServerLoop(SPACE, (tuple(names),), dict.fromkeys(names, 50), domain=BALL)
    point, refused = loop.run(transport, np.eye(2), "fit")
    np.testing.assert_allclose(point, np.eye(2), atol=1e-12)
    assert sorted(str(r).split("'")[1] for r in refused) == ["declined", "forged", "nan", "other"]
    assert len(grid.pushed) == len(names)  # nobody is asked twice
    assert grid.pulls < 200  # two are silent, and are not waited for until the timeout


def test_waiting_for_nodes_ends():
    transport = flower.GridTransport(Inbox({0: None}), {"a": 0, "b": 1}, poll=0.01)
    assert transport.wait_for_nodes(0.05) == {"a"}


# -- a budget for Flower's own strategies ---------------------------------------------------------

ROUND = GaussianPrivacyEvent(noise_multiplier=8.0, sample_size=4, population_size=4)


def flower_accountant(path, epsilon=4.0):
    budget = PrivacyAccountant(epsilon, path=path, unit="client")
    return FlowerAccountant(budget, population_size=4)


class Nodes(Grid):
    """Flower's client application on nodes in this process."""

    def __init__(self, app, count=4):
        self.app, self.count, self.sent, self.broken = app, count, 0, False

    def send_and_receive(self, messages, *, timeout=None):
        for message in messages:
            self.sent += 1
            node = message.metadata.dst_node_id
            context = Context(1, node, {}, RecordDict(), {})
            if self.broken and node == 1:
                yield Message(Error(0, "gone"), reply_to=message)
            else:
                yield self.app(message, context)

    def get_node_ids(self):
        return list(range(1, self.count + 1))

    set_run = run = create_message = push_messages = pull_messages = get_nodes = None


@pytest.fixture
def nodes(monkeypatch):
    for name, value in (("_task_id", 1), ("_run_id", 1), ("_node_id", 1)):
        monkeypatch.setattr(TaskIdentity, name, value)
    app = ClientApp()

    @app.train()
    def train(message, context):
        (arrays,) = message.content.array_records.values()
        moved = [array + 1.0 for array in arrays.to_numpy_ndarrays()]
        content = {"arrays": ArrayRecord(moved), "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    return Nodes(app)


def learn(nodes, accountant, rounds):
    """Rounds of Flower's federated averaging, with its own clipping and noise."""
    strategy = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(fraction_evaluate=0.0), 8.0, 1.0, 4, accountant=accountant
    )
    start = ArrayRecord([np.zeros(3)])
    return strategy, lambda: strategy.start(nodes, start, num_rounds=rounds)


def test_rounds_end_before_the_ceiling(tmp_path, nodes):
    """In memory: Flower's strategy, messages and client application; also after a restart."""
    path = tmp_path / "ledger"
    accountant = flower_accountant(path)
    strategy, start = learn(nodes, accountant, 50)
    with pytest.raises(PrivacyBudgetExhausted):
        start()
    rounds = accountant.num_releases
    assert nodes.sent == 4 * rounds > 0
    # The rule of the ledger, for noise of 4 replace-one sensitivities: what it admits, and no more.
    assert rounds == PrivacyAccountant(4.0).remaining(GaussianEvent(4.0))
    spent = strategy.privacy_spent()
    assert spent.epsilon == pytest.approx(GaussianEvent(4.0, rounds).epsilon(1e-5))
    assert 3.5 < spent.epsilon <= 4.0 and spent.num_releases == rounds
    # Flower's accountant would have gone on, with contributions half as large as they are.
    theirs = RdpAccountant(dataclasses.replace(accountant.config))
    theirs.compose(ROUND, rounds)
    assert theirs.get_epsilon(1e-5) < 0.6 * spent.epsilon
    state = json.loads(json.dumps(accountant.state_dict()))
    again = flower_accountant(path)
    again.load_state_dict(state)
    assert again.num_releases == rounds
    with pytest.raises(PrivacyBudgetExhausted):
        learn(nodes, again, 1)[1]()
    assert nodes.sent == 4 * rounds
    entry = accountant.budget.history[0]
    assert entry.params["unit"] == "client" and entry.facts["noise_multiplier"] == 8.0


def test_a_round_is_charged_before_its_messages(tmp_path, nodes):
    accountant = flower_accountant(tmp_path / "ledger")
    charged = []
    seen = nodes.send_and_receive

    def send_and_receive(messages, timeout=None):
        messages = list(messages)
        charged.append(len(PrivacyAccountant(path=tmp_path / "ledger").history))
        return seen(messages)

    nodes.send_and_receive = send_and_receive
    learn(nodes, accountant, 3)[1]()
    assert charged[::2] == [1, 2, 3] and accountant.num_releases == 3


def test_a_failed_round_leaves_its_charge_to_the_next(tmp_path, nodes):
    accountant = flower_accountant(tmp_path / "ledger")
    nodes.broken = True
    result = learn(nodes, accountant, 3)[1]()
    assert not result.arrays
    assert (len(accountant.budget.history), accountant.num_releases) == (1, 0)
    nodes.broken = False
    learn(nodes, accountant, 2)[1]()
    assert (len(accountant.budget.history), accountant.num_releases) == (2, 2)
    # What a process did not live to confirm is spent.
    accountant.would_exceed(ROUND)
    assert flower_accountant(tmp_path / "ledger").num_releases == 3


def test_rounds_in_numbers(tmp_path):
    accountant = flower_accountant(tmp_path / "ledger")
    assert accountant.would_exceed(ROUND, max_epsilon=0.1)
    assert accountant.budget.history == []
    assert not accountant.would_exceed(ROUND, max_epsilon=2.0, count=3)
    accountant.compose(ROUND, 2)
    assert accountant.num_releases == 2
    accountant.compose(ROUND, 2)  # one was charged, one is charged now
    assert accountant.num_releases == 4
    truth = GaussianEvent(4.0, 4)
    assert accountant.get_epsilon(1e-6) == pytest.approx(truth.epsilon(1e-6))
    assert accountant.get_delta(1.0) == pytest.approx(truth.delta(1.0))
    with pytest.raises(BudgetExceededError):
        accountant.compose(ROUND, 1000)
    assert accountant.num_releases == 4
    for sampling, event in (
        ("poisson", PoissonSampledGaussianEvent(0.1, 4.0, 5)),
        ("without-replacement", FixedSizeSampledGaussianEvent(100, 10, 4.0, 5)),
    ):
        sampled = FlowerAccountant(PrivacyAccountant(3.0, unit="client"), 100, sampling)
        sampled.compose(GaussianPrivacyEvent(8.0, 10, 100), 5)
        assert sampled.get_epsilon(1e-5) == event.epsilon(1e-5)


def test_its_example():
    assert doctest.testmod(flower).attempted > 0 == doctest.testmod(flower).failed


def test_what_a_flower_accountant_refuses(tmp_path):
    with pytest.raises(ValueError, match="ceiling"):
        FlowerAccountant(PrivacyAccountant(), 4)
    with pytest.raises(ValueError, match="delta"):
        FlowerAccountant(PrivacyAccountant(1.0, 0.0), 4)
    with pytest.raises(ValueError, match="sampling"):
        FlowerAccountant(PrivacyAccountant(1.0), 4, "shuffled")
    with pytest.raises(TypeError, match="budget"):
        FlowerAccountant("ledger", 4)
    accountant = flower_accountant(tmp_path / "ledger")
    other = GaussianPrivacyEvent(8.0, 4, 5)
    for call in (accountant.compose, accountant.would_exceed):
        with pytest.raises(ValueError, match="population"):
            call(other)
        with pytest.raises((TypeError, ValueError), match="count"):
            call(ROUND, count=0)
    assert accountant.budget.history == []
    people = PrivacyAccountant(1.0, path=tmp_path / "people", unit="group")
    with pytest.raises(BudgetError, match="protects each group"):
        FlowerAccountant(people, 4).would_exceed(ROUND)
    accountant.compose(ROUND)
    state = accountant.state_dict()
    with pytest.raises(BudgetError):
        flower_accountant(tmp_path / "another").load_state_dict(state)
    with pytest.raises(BudgetError, match="data set"):
        accountant.load_state_dict({})


# -- the real thing -------------------------------------------------------------------------------


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Replay:
    """The answers that the nodes stored, of those that the server took."""

    def __init__(self, stored, answered):
        self.stored, self.answered = stored, answered

    def run(self, tasks):
        for task in tasks:
            if task.client in self.answered.get(str(task.round), ()):
                answer = self.stored[task.client][task.round]
                yield task.client, LocalUpdate(task.fit_id, task.round, task.client, answer)


def test_a_deployment_that_fails_leaves_its_logs(tmp_path, monkeypatch):
    """Of a run that stands still: the error names them, and they outlive the run's own files."""
    demo = load("deployment_demo", DEPLOYMENT / "run.py")
    monkeypatch.setattr(demo, "write_certificates", lambda folder: None)
    monkeypatch.setattr(demo.Federation, "register", lambda self: dict.fromkeys(demo.HOSPITALS, 1))
    monkeypatch.setattr(demo.Federation, "start_node", lambda self, name: None)
    monkeypatch.setattr(demo.Federation, "submit", lambda self: None)

    def start_server(self):
        self._start("server", sys.executable, "-c", "print('the server said this')")
        self.processes["server"].wait(60)

    monkeypatch.setattr(demo.Federation, "start_server", start_server)
    arguments = ["run.py", "--logs", str(tmp_path / "logs"), "--timeout", "0.1"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(TimeoutError, match=r"0\.1 s.*logs"):
        demo.main()
    assert (tmp_path / "logs" / "server.txt").read_text() == "the server said this\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_deployment_survives_a_lost_node_and_a_lost_server(tmp_path, monkeypatch):
    """Three nodes, TLS; one node and the server die after round 1; the server comes back."""
    pytest.importorskip("cryptography", reason="writes the certificates of the test")
    demo = load("deployment_demo", DEPLOYMENT / "run.py")
    state = demo.run(tmp_path / "run", kill="south", restart=True, n_rounds=3, timeout=300)
    answered = state["answered"]
    # On a busy machine a live node may miss a round's grace; the dead one misses the last.
    assert len(answered["0"]) >= 2 and set(answered["0"]) <= set(demo.HOSPITALS)
    assert len(answered) == 2 and state["next_round"] == 3
    last = answered[max(answered)]
    assert last and set(last) <= {"north", "east"}

    monkeypatch.syspath_prepend(str(DEPLOYMENT / "app"))
    client = importlib.import_module("hospitals.client")
    stored = {name: {} for name in demo.HOSPITALS}
    for name, book in stored.items():
        rows = sqlite3.connect(tmp_path / "run" / name / "answers.db").execute(
            "SELECT round, answer FROM answers WHERE answer IS NOT NULL"
        )
        book.update((number, np.array(json.loads(answer))) for number, answer in rows)
    loop = ServerLoop(
        SPACE, (demo.HOSPITALS,) * 3, dict.fromkeys(demo.HOSPITALS, 200), domain=client.BALL
    )
    point, _ = loop.run(Replay(stored, answered), client.BALL.center, "demonstration")
    np.testing.assert_allclose(state["point"], point, atol=1e-12)

    for name in demo.HOSPITALS:
        home = tmp_path / "run" / name
        charged = [
            spend.params["round"]
            for spend in PrivacyAccountant(1.0, path=str(home / "privacy.ledger")).history
        ]
        used = [int(t) for t, names in answered.items() if name in names]
        assert len(charged) == len(set(charged))  # nobody releases twice
        assert set(used) <= set(stored[name]) <= set(charged)  # no charge is lost
    assert "hospitals" in sys.modules


def test_hospital_and_server_of_the_example_have_set_the_same(tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    monkeypatch.syspath_prepend(str(DEPLOYMENT / "relay"))
    hospital = load("hospital", DEPLOYMENT / "hospital.py")
    server = importlib.import_module("secure_sums.server")
    keys = {name: Identity.make(tmp_path / name).public for name in ("north", "south")}
    Cohort(keys).write(tmp_path / "cohort.json")
    (tmp_path / "north").rename(tmp_path / "identity.key")
    wait = dict.fromkeys(("round_timeout", "round_grace", "wait_for_nodes"), 1.0)
    facts = {"cohort": str(tmp_path / "cohort.json"), "nodes": {}, "fit_id": "a", "checkpoint": ""}
    (tmp_path / "facts").write_text(json.dumps(facts | wait))
    loop = server.build_deployment({"federation": tmp_path / "facts"}).loop
    agent = hospital.build_agent("north", tmp_path)
    assert agent.member.agreement.differing(loop.agreement.marks) == ""
    agent.accountant.reserve(2, agent.plan.event)  # room for both attempts


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_secure_sum_survives_a_lost_hospital_and_a_lost_server(tmp_path, monkeypatch):
    """Both die between the two messages; Flower carries bytes, and hospitals run themselves."""
    pytest.importorskip("cryptography")
    monkeypatch.syspath_prepend(str(DEPLOYMENT))
    demo = load("secure_sum", DEPLOYMENT / "secure_sum.py")
    folder = tmp_path / "run"
    state = demo.run(folder, kill="south", restart=True, timeout=600)
    uploads, model = demo.learned(folder)
    assert uploads.clients == ("east", "north") and len(uploads.attempts) == 2
    assert [len(attempt["list"]) for attempt in state["attempts"]] == [3, 2]
    assert model.privacy_spent_.epsilon > 1.4 and model.privacy_spent_.public["attempts"] == 2
    charged = {
        name: PrivacyAccountant(path=folder / name / "privacy.ledger").history
        for name in demo.HOSPITALS
    }
    assert charged["south"] == []  # it attended, and was gone before it could add
    for name in uploads.clients:
        assert [entry.params["attempt"] for entry in charged[name]] == [0, 1]
        query = "SELECT list, words FROM attendances ORDER BY attempt"
        with sqlite3.connect(folder / name / "answers.db") as book:
            rows = book.execute(query).fetchall()
        assert len(rows) == 2 and all(listed and words for listed, words in rows)
        for attempt, (_, words) in zip(state["attempts"], rows, strict=True):
            assert attempt["words"][name] == words.hex()  # once, and after a restart the same
    hospital = load("hospital", DEPLOYMENT / "hospital.py")
    agents = [hospital.build_agent(name, folder / name) for name in uploads.clients]
    statistic = agents[0].plan.settings
    exact = sum(np.concatenate(statistic.exact(agent.records)) for agent in agents)
    assert 0 < np.abs(uploads.total - exact).max() < 20 * NOISE_SCALE


SERVER = """
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

from skriemdp import PrivacyAccountant
from skriemdp.federated import FlowerAccountant

app = ServerApp()


@app.main()
def main(grid, context):
    folder = Path(context.run_config["federation"])
    accountant = FlowerAccountant(PrivacyAccountant(path=folder / "clients.ledger"), 3)
    average = FedAvg(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
    strategy = DifferentialPrivacyServerSideFixedClipping(
        average, 8.0, 1.0, 3, accountant=accountant
    )
    try:
        strategy.start(grid, ArrayRecord([np.zeros(3)]), num_rounds=9)
    except PrivacyBudgetExhausted:
        with open(folder / "stopped", "a") as file:
            file.write(f"{accountant.num_releases}\\n")
"""
CLIENT = """
from pathlib import Path

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    with open(Path(context.node_config["state-dir"]) / "asked", "a") as file:
        file.write("once\\n")
    (arrays,) = message.content.array_records.values()
    moved = ArrayRecord([array + 1.0 for array in arrays.to_numpy_ndarrays()])
    content = {"arrays": moved, "metrics": MetricRecord({"num-examples": 1})}
    return Message(RecordDict(content), reply_to=message)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_rounds_on_loopback_end_before_the_ceiling(tmp_path, monkeypatch):
    """Three nodes, TLS, Flower's own strategy in a process of its own, started twice."""
    pytest.importorskip("cryptography", reason="writes the certificates of the test")
    demo = load("deployment_demo", DEPLOYMENT / "run.py")
    app = tmp_path / "app"
    (app / "hospitals").mkdir(parents=True)
    (app / "pyproject.toml").write_text((DEPLOYMENT / "app" / "pyproject.toml").read_text())
    for name, text in (("__init__", '"""Rounds."""'), ("server", SERVER), ("client", CLIENT)):
        (app / "hospitals" / f"{name}.py").write_text(text)
    monkeypatch.setattr(demo, "APP", app)
    # Room for two rounds with noise of 4 replace-one sensitivities.
    budget = PrivacyAccountant(1.5, path=tmp_path / "clients.ledger", unit="client")
    assert budget.remaining(GaussianEvent(4.0)) == 2

    def submit(federation, runs):
        federation._flwr("run", str(app), "loop", "--run-config", f'federation="{tmp_path}"')
        deadline = time.monotonic() + federation.timeout
        stopped = tmp_path / "stopped"
        while not stopped.exists() or len(stopped.read_text().split()) < runs:
            assert time.monotonic() < deadline, "no progress"
            time.sleep(0.2)

    with demo.Federation(tmp_path / "run") as federation:
        federation.start_server()
        federation.register()
        for name in demo.HOSPITALS:
            federation.start_node(name)
        submit(federation, 1)
        submit(federation, 2)
    assert (tmp_path / "stopped").read_text().split() == ["2", "2"]
    for name in demo.HOSPITALS:
        assert (tmp_path / "run" / name / "asked").read_text().split() == ["once"] * 2
    assert [entry.params["unit"] for entry in budget.history] == ["client"] * 2
