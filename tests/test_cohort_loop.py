"""Secure sums from end to end: agents with ledgers, a server that lasts, what all of it states."""

import itertools
import math
import os
import signal
import sqlite3
import sys
import warnings

import numpy as np
import pytest
from scipy.stats import f as f_law
from sklearn.base import clone

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateHyperbolicRegressor,
    PrivateMinimumDistanceToMean,
    PrivatePrincipalEigenvector,
)
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.noise import NOISE_SCALE
from skriemdp._mechanisms.sum import noised
from skriemdp._mechanisms.units import Units
from skriemdp._random import NoiseStreams
from skriemdp.auditing import audit_scores
from skriemdp.federated import (
    AnswerBook,
    Checkpoint,
    Cohort,
    CohortLoop,
    FederatedEstimator,
    Identity,
    InProcessTransport,
    LocalTask,
    SumsLoop,
    learn_from_sums,
    reply,
    sums_agent,
    sums_agreement,
)
from skriemdp.federated import _agent as agents_module
from skriemdp.federated import (
    _attendance as attendance,
)
from skriemdp.federated import (
    _masks as masks,
)
from skriemdp.federated._attendance import Attempt, answered, request
from skriemdp.federated._shares import Shares
from skriemdp.federated._sums import planned_sums
from skriemdp.geometry import Grassmann, Stiefel
from skriemdp.ledger._accountant import BudgetError, BudgetExceededError
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import GaussianEvent, event_from_dict
from skriemdp.privacy._lattice import share_scale

pytest.importorskip("cryptography")

RNG = np.random.default_rng(0)
NAMES = ("east", "north", "south", "west")
IDENTITIES = {name: Identity(bytes([k]) * 32) for k, name in enumerate(NAMES)}
COHORT = Cohort({name: identity.public for name, identity in IDENTITIES.items()})
SIZES = {"east": 40, "north": 60, "south": 30, "west": 70}
ROWS = {name: RNG.normal(size=(size, 3)) * [1.0, 0.6, 0.3] for name, size in SIZES.items()}
LABELS = {name: np.arange(size) % 2 for name, size in SIZES.items()}
MEAN = PrivateFrechetMean(radius=1.0)
MEANS = PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1])
MADE_UP = np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]])


def hospital(folder, name, estimator=MEAN, epsilon=100.0, cohort=COHORT, **settings):
    return sums_agent(
        estimator,
        ROWS[name],
        LABELS[name] if estimator is not MEAN else None,
        client=name,
        accountant=PrivacyAccountant(epsilon=epsilon, path=folder / f"{name}.ledger"),
        book=AnswerBook(folder / f"{name}.book"),
        cohort=cohort,
        identity=IDENTITIES[name],
        **settings,
    )


def loop(estimator=MEAN, cohort=COHORT, **settings):
    y = None if estimator is MEAN else [0, 1]
    return CohortLoop(cohort, sums_agreement(estimator, MADE_UP, y, **settings))


class Relay:
    """Brings messages to agents; `lost` says which answers do not arrive, of the n-th call."""

    def __init__(self, agents, lost=lambda call, name: False):
        self.agents, self.lost, self.calls = agents, lost, []

    def relay(self, messages):
        self.calls.append(dict(messages))
        for name, data in messages.items():
            if name in self.agents:
                answer = reply(self.agents[name], data)
                if not self.lost(len(self.calls), name):
                    yield name, answer


class By:
    """A transport that does what a function does."""

    def __init__(self, relay):
        self.relay = relay


@pytest.fixture
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


# -- four hospitals --------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [MEAN, MEANS], ids=["mean", "class means"])
def test_four_hospitals_learn_what_their_pooled_records_say(tmp_path, estimator, quietly):
    loud = clone(estimator).set_params(epsilon=1e4) if estimator is MEANS else MEAN
    agents = {name: hospital(tmp_path, name, loud, epsilon=1e6) for name in NAMES}
    relay = Relay(agents)
    uploads, refused = loop(loud).run(relay, None, "spring")
    assert refused == [] and uploads.clients == NAMES and uploads.size == 200
    assert uploads.attempts == (Shares(4, 1),) and len(relay.calls) == 2
    y = None if loud is MEAN else [0, 1]
    model = learn_from_sums(loud, uploads, None, MADE_UP, y)
    central = clone(loud).set_params(
        **({"mechanism": "tangent", "noise": "gaussian"} if y is None else {})
    )
    central.fit(np.concatenate(list(ROWS.values())), np.concatenate(list(LABELS.values())))
    learned = (model.mean_, central.mean_) if y is None else (model.means_, central.means_)
    np.testing.assert_allclose(*learned, atol=0.3 if y is None else 1e-2)
    spent = model.privacy_spent_
    assert tuple(spent) == (float(loud.epsilon), 1e-5) and spent.guarantee == "computational"
    assert spent.public["honest"] == 3 and spent.public["clients"] == list(NAMES)
    assert "one client of these 4" in spent.public["holds"]
    for name, agent in agents.items():
        (entry,) = agent.accountant.history
        assert entry.params["fit"] == "spring" and entry.params["attempt"] == 0
        assert entry.params["client"] == name and entry.params["honest"] == 3
        assert entry.params["guarantee"] == "computational" and entry.facts["colluding"] == 1
        assert event_from_dict(entry.event).mu == pytest.approx(spent.mu, rel=1e-12)
        alone = GaussianEvent(1.0 / (spent.mu * math.sqrt(3.0))).epsilon(1e-5)
        assert entry.params["epsilon_alone"] == pytest.approx(alone, rel=1e-9)
        assert spent.epsilon_alone == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize("estimator", [MEAN, MEANS], ids=["mean", "class means"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_masked_and_unmasked_totals_are_equal(tmp_path, monkeypatch, estimator, count):
    """Bit for bit, for the same shares of the noise; one honest client among two as well."""
    names = NAMES[:count]
    cohort = Cohort({name: IDENTITIES[name].public for name in names})
    shares, draw = [], noise.draw

    def noting(exact, *arguments, **settings):
        noisy = draw(exact, *arguments, **settings)
        shares.append((settings["shares"], noisy))
        return noisy

    monkeypatch.setattr(noise, "draw", noting)
    agents = {name: hospital(tmp_path, name, estimator, cohort=cohort) for name in names}
    uploads, _ = loop(estimator, cohort).run(Relay(agents), None, "spring")
    assert {number for number, _ in shares} == {count - 1}
    parts = [noisy for _, noisy in shares]
    wanted = sum(np.concatenate(parts[k : k + 2]) for k in range(0, len(parts), 2))
    assert wanted.dtype == np.int64 and len(parts) == 2 * count
    np.testing.assert_array_equal(uploads.total, wanted)


@pytest.mark.parametrize("estimator", [MEAN, MEANS], ids=["mean", "class means"])
def test_messages_of_agents_are_short(tmp_path, estimator):
    agents = {name: hospital(tmp_path, name, estimator) for name in NAMES}
    up = [reply(agent, request("attend", Attempt("a", 0, 0))) for agent in agents.values()]
    entries = [answered(data) for data in up]
    words = [reply(a, request("add", Attempt("a", 0, 0), entries)) for a in agents.values()]
    length = next(iter(agents.values())).member.agreement.length
    assert max(map(len, up)) + max(map(len, words)) <= 8 * length + 250


def test_a_ledger_adds_up_what_holds_if_all_others_collude(tmp_path):
    agents = {name: hospital(tmp_path, name) for name in NAMES}
    loop().run(Relay(agents), None, "spring")
    loop().run(Relay({name: agents[name] for name in NAMES[:2]}), None, "summer")
    ledger = agents["east"].accountant
    ledger.spend(GaussianEvent(10.0), label="else")
    mu = gaussian_mu(1.0, 1e-5)
    for total, squares in ((ledger.spent, 2 * mu**2), (ledger.spent_alone, 4 * mu**2)):
        wanted = GaussianEvent(1.0 / math.sqrt(squares + 0.01)).epsilon(1e-5)
        assert total.epsilon == pytest.approx(wanted, rel=1e-5) and total.n_entries == 3
    assert "(computational; alone epsilon=1.8" in ledger.summary()
    assert PrivacyAccountant().spent_alone.epsilon == 0.0


# -- who is lost, and when -------------------------------------------------------------------------


def test_who_does_not_attend_costs_nothing(tmp_path):
    agents = {name: hospital(tmp_path, name) for name in NAMES[:3]}
    agents["south"].accountant.spend(GaussianEvent(0.0947), label="else")  # no room is left
    uploads, refused = loop().run(Relay(agents), None, "spring")
    assert uploads.clients == ("east", "north") and uploads.shares == Shares(2, 1)
    assert [str(r) for r in refused] == ["client 'south' declined."]
    assert len(agents["south"].accountant.history) == 1


@pytest.mark.parametrize(
    "change, words",
    [({"key": bytes(32)}, "key of small order"), ({"size": 2**61}, "62 bits")],
    ids=["small order", "too many records"],
)
def test_a_client_that_nobody_can_add_to_costs_no_attempt(tmp_path, change, words):
    """Its attendance is signed and in order; with it on the list all others would refuse."""
    agents = {name: hospital(tmp_path, name) for name in NAMES}
    agreement, asked = loop().agreement, Attempt("spring", 0, 0)

    def relay(messages):
        for name, data in Relay(agents).relay(messages):
            if name == "west" and (entry := answered(data)) is not None:
                entry = entry._replace(**change)
                message = entry.message(asked.digest(COHORT, agreement))
                entry = entry._replace(signature=IDENTITIES["west"].sign(message))
                data = masks.packed(b"attendance", entry.pack())
            yield name, data

    path = Checkpoint(tmp_path / "server")
    if "size" in change:
        with pytest.raises(ValueError, match=words):
            loop().run(By(relay), None, "spring", path)
        uploads, _ = loop().run(Relay(agents), None, "spring", path)
        assert uploads.clients == NAMES
    else:
        uploads, refused = loop().run(By(relay), None, "spring", path)
        assert uploads.clients == NAMES[:3] and words in str(refused[0])
    assert len(uploads.attempts) == 1


def test_totals_of_any_type_are_added(tmp_path, monkeypatch):
    """How many classes people show, which is private, decides when sums become Python integers."""
    monkeypatch.setattr("skriemdp._mechanisms.sum._LONGEST", 1)
    agents = {name: hospital(tmp_path, name, MEANS) for name in NAMES}
    exact = agents["east"].plan.settings.exact(agents["east"].records)
    assert np.dtype(object) in {part.dtype for part in exact}
    uploads, refused = loop(MEANS).run(Relay(agents), None, "spring")
    assert refused == [] and uploads.total.dtype == np.int64


def test_a_lost_attempt_is_charged_and_stated(tmp_path):
    agents = {name: hospital(tmp_path, name) for name in NAMES}

    def lost(call, name):
        return call == 2 and name == "west" or call > 2 and name == "west"

    relay = Relay(agents, lost)
    uploads, _ = loop().run(relay, None, "spring")
    assert uploads.attempts == (Shares(4, 1), Shares(3, 1)) and uploads.clients == NAMES[:3]
    assert [len(agents[name].accountant.history) for name in NAMES] == [2, 2, 2, 1]
    model = learn_from_sums(MEAN, uploads, None, MADE_UP)
    both = GaussianEvent(1.0 / (gaussian_mu(1.0, 1e-5) * math.sqrt(2.0))).epsilon(1e-5)
    assert (
        model.privacy_spent_.epsilon
        == pytest.approx(both, rel=1e-3)
        == pytest.approx(1.465, abs=1e-3)
    )
    assert model.privacy_spent_.public["attempts"] == 2
    # Alone costs three times mu squared in the first attempt, and twice in the second.
    alone = GaussianEvent(1.0 / (gaussian_mu(1.0, 1e-5) * math.sqrt(3.0 + 2.0))).epsilon(1e-5)
    assert model.privacy_spent_.epsilon_alone == pytest.approx(alone, rel=1e-3)


def test_attempts_end(tmp_path):
    agents = {name: hospital(tmp_path, name) for name in NAMES}
    with pytest.raises(RuntimeError, match="west attended and did not add"):
        loop().run(
            Relay(agents, lambda call, name: call % 2 == 0 and name == "west"), None, "spring"
        )
    assert [len(agent.accountant.history) for agent in agents.values()] == [2] * 4
    with pytest.raises(RuntimeError, match="0 clients attended"):
        loop().run(Relay({}), None, "summer")


def test_a_restarted_server_shows_the_same_list(tmp_path):
    agents = {name: hospital(tmp_path, name) for name in NAMES}
    path = Checkpoint(tmp_path / "server")

    class Stopped(Exception):
        pass

    seen = []

    def stopping(messages):
        seen.append(messages)
        for place, answer in enumerate(Relay(agents).relay(messages)):
            if len(seen) == 2 and place == 2:
                raise Stopped
            yield answer

    with pytest.raises(Stopped):
        loop().run(By(stopping), None, "spring", path)
    relay = Relay(agents)
    uploads, _ = loop().run(relay, None, "spring", path)
    assert uploads.clients == NAMES and len(uploads.attempts) == 1
    # Two had been kept; the third, whose answer was lost, repeats its stored words.
    assert [set(messages) for messages in relay.calls] == [{"south", "west"}]
    assert [len(agent.accountant.history) for agent in agents.values()] == [1] * 4
    again, _ = loop().run(Relay({}), None, "spring", path)
    np.testing.assert_array_equal(again.total, uploads.total)


def test_after_garbage_nobody_is_asked_again(tmp_path):
    agents = {name: hospital(tmp_path, name) for name in NAMES}
    calls = []

    def spoiling(messages):
        calls.append(messages)
        for name, data in Relay(agents).relay(messages):
            if len(calls) == 2 and name == "west":
                data = data[:-8] + bytes(8)
            yield name, data

    with pytest.raises(RuntimeError, match="nobody can tell which"):
        loop().run(By(spoiling), None, "spring")
    assert len(calls) == 2 and [len(a.accountant.history) for a in agents.values()] == [1] * 4


def test_operators_hear_what_is_set_otherwise(tmp_path):
    agents = {name: hospital(tmp_path, name) for name in NAMES[:3]}
    wide = clone(MEAN).set_params(radius=2.0)
    agents["south"] = sums_agent(
        wide,
        ROWS["south"],
        client="south",
        accountant=PrivacyAccountant(epsilon=9.0),
        book=AnswerBook(tmp_path / "other.book"),
        cohort=COHORT,
        identity=IDENTITIES["south"],
    )
    hostile = {"north": lambda data: b"junk", "west": lambda data: reply(agents["east"], data)}

    def relay(messages):
        for name, data in messages.items():
            if name in hostile:
                yield name, hostile[name](data)
            else:
                yield name, reply(agents[name], data)
        yield "stranger", b""

    with pytest.raises(RuntimeError, match="1 clients attended"):
        loop().run(By(relay), None, "spring")
    refused = []
    attempt = Attempt("autumn", 0, 0)
    with pytest.raises(RuntimeError):
        loop()._attended(By(relay), attempt, refused)
    found = "\n".join(map(str, refused))
    assert "'south' has other settings than the server: " in found
    assert "'north' failed, or sent something unreadable" in found
    assert "'west' attended under another name" in found and "'stranger'" in found


# -- agents ----------------------------------------------------------------------------------------


def test_books_and_ledgers_watch_each_other(tmp_path):
    agents = {name: hospital(tmp_path, name) for name in NAMES}
    asked, east = Attempt("spring", 0, 0), agents["east"]
    entries = [agents[name].attend(asked) for name in NAMES]
    with sqlite3.connect(east.book.path) as connection:
        stored = connection.execute("SELECT * FROM attendances").fetchall()
    east.add(asked, entries)
    with sqlite3.connect(east.book.path) as connection:  # an old copy comes back
        connection.execute("DELETE FROM attendances")
        connection.executemany(f"INSERT INTO attendances VALUES ({'?,' * 9}?)", stored)
    with pytest.raises(BudgetError, match="ledger holds this attempt"):
        east.add(asked, entries)
    assert len(east.accountant.history) == 1


def killed_at(place, agent, data):
    """Answer in a process that is killed at its `place`-th new line; whether it came so far."""
    seen, files = set(), (agents_module.__file__, attendance.__file__)

    def trace(frame, event, argument):
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
            if len(seen) > place:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    child = os.fork()
    if child == 0:
        try:
            sys.settrace(trace)
            reply(agent, data)
        finally:
            os._exit(1)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_an_agent_that_is_killed_at_any_line(tmp_path, step):
    """Never two uploads of one attempt, and never one without a charge."""
    cohort = Cohort({name: IDENTITIES[name].public for name in NAMES[:2]})
    east, north = (hospital(tmp_path, name, epsilon=1e4, cohort=cohort) for name in NAMES[:2])
    declined, found, charges = masks.packed(b"declined"), set(), 0
    for place in itertools.count(0, step):
        asked = Attempt(f"killed at {place}", 0, 0)
        data = request("add", asked, [east.attend(asked), north.attend(asked)])
        if not killed_at(place, east, data):
            break
        charged = len(east.accountant.history) - charges
        said = {reply(east, data) for _ in range(3)}
        charges += charged or said != {declined}
        assert len(said) == 1 and len(east.accountant.history) == charges
        found.add((charged, said != {declined}))
    # Nothing had happened; the charge was made and the words are not repeated; they were stored.
    outcomes = {(0, True), (1, False), (1, True)}
    assert place > 50 and {(0, True), (1, False)} <= found <= outcomes
    assert step > 1 or found == outcomes


def test_a_client_without_room_declines_before_it_attends(tmp_path):
    agent = hospital(tmp_path, "east", epsilon=0.5)
    with pytest.raises(BudgetExceededError):
        agent.attend(Attempt("spring", 0, 0))
    assert reply(agent, request("attend", Attempt("spring", 0, 0))).endswith(b"declined")


def test_members_answer_nothing_else(tmp_path):
    agent = hospital(tmp_path, "east")
    size = agent.plan.settings.size
    with pytest.raises(ValueError, match="ask it to attend"):
        agent.handle(LocalTask("spring", 0, "east", np.zeros(size)))
    plain = sums_agent(
        MEAN,
        ROWS["east"],
        client="east",
        accountant=PrivacyAccountant(epsilon=9.0),
        book=AnswerBook(tmp_path / "plain"),
    )
    with pytest.raises(ValueError, match="of no cohort"):
        plain.attend(Attempt("spring", 0, 0))
    uploads, _ = SumsLoop(("east",), size).run(InProcessTransport({"east": plain}), None, "a")
    assert uploads.shares is None


def test_cohort_and_identity_belong_together(tmp_path):
    for pair in ({"cohort": COHORT}, {"identity": IDENTITIES["east"]}):
        with pytest.raises(ValueError, match="belong together"):
            sums_agent(
                MEAN,
                ROWS["east"],
                client="east",
                accountant=PrivacyAccountant(epsilon=9.0),
                book=AnswerBook(tmp_path / "book"),
                **pair,
            )
    with pytest.raises(ValueError, match="does not hold client"):
        hospital(tmp_path, "east", cohort=Cohort({"a": bytes(32), "b": b"1" * 32}))


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("estimator", [MEAN, MEANS], ids=["mean", "class means"])
def test_plans_do_not_depend_on_a_clients_own_number_of_records(tmp_path, estimator, groups):
    """Server and clients of 6 to 3000 records agree on every integer."""
    wanted = None
    for place, n in enumerate((6, 60, 3000)):
        X = RNG.normal(size=(n, 3))
        y = None if estimator is MEAN else np.arange(n) % 2
        agent = sums_agent(
            estimator,
            X,
            y,
            np.arange(n) // 2 if groups else None,
            client="east",
            accountant=PrivacyAccountant(epsilon=9.0),
            book=AnswerBook(tmp_path / str(place)),
            cohort=COHORT,
            identity=IDENTITIES["east"],
        )
        found = agent.member.agreement
        wanted = wanted or loop(estimator, grouped=groups).agreement
        assert found.digest == wanted.digest and found.differing(wanted.marks) == ""


@pytest.mark.parametrize("geometry", [Grassmann(4, 2), Stiefel(4, 2)], ids=str)
def test_coordinates_that_rounding_decides_are_refused(geometry):
    """A singular value decomposition of a singular block has several right answers."""
    for columns in ([2, 3], [0, 3]):
        mean = PrivateFrechetMean(geometry, center=np.eye(4)[:, columns], radius=0.3)
        with pytest.raises(ValueError, match="upper square block"):
            sums_agreement(mean, np.stack([np.eye(4, 2)] * 2))
    mean = PrivateFrechetMean(geometry, center=np.eye(4, 2), radius=0.3)
    assert sums_agreement(mean, np.stack([np.eye(4, 2)] * 2)).length > 4


def test_frequencies_of_clients_are_a_number(tmp_path):
    settings = {"feature_scale": 1.0, "base_point": [0.0, 0.0], "ridge": 1.0}
    moments = PrivateHyperbolicRegressor("sufficient-statistics", **settings)
    y = 0.1 * RNG.normal(size=(60, 2))

    def agent(estimator):
        return sums_agent(
            estimator,
            ROWS["north"],
            y,
            client="north",
            accountant=PrivacyAccountant(epsilon=9.0),
            book=AnswerBook(tmp_path / "book"),
        )

    with pytest.raises(ValueError, match="n_frequencies=<number>"):
        agent(moments)
    assert agent(clone(moments).set_params(n_frequencies=4)).plan.settings.size == 1 + 8 * (8 + 2)


# -- in simulation ---------------------------------------------------------------------------------

X = np.concatenate(list(ROWS.values()))
Y = np.concatenate(list(LABELS.values()))
CLIENTS = np.repeat(NAMES, list(SIZES.values()))


def simulated(estimator, trust, **settings):
    return FederatedEstimator(estimator, 1, local="statistic", trust=trust, **settings)


@pytest.mark.parametrize("estimator", [MEAN, MEANS], ids=["mean", "class means"])
@pytest.mark.parametrize("colluding", [1, 2, 3])
def test_the_noise_is_the_central_one_over_the_honest_share(estimator, colluding):
    central = simulated(estimator, "aggregator").fit(X, Y, clients=CLIENTS)
    model = simulated(estimator, "cohort", colluding=colluding).fit(X, Y, clients=CLIENTS)
    wanted = central.estimator_.noise_scale_ * math.sqrt(4 / (4 - colluding))
    assert model.estimator_.noise_scale_ == pytest.approx(wanted, rel=1e-8)
    variance = 4 * share_scale(4 - colluding) ** 2 / NOISE_SCALE**2
    assert Shares(4, colluding).variance == pytest.approx(variance, rel=1e-15)
    local = simulated(estimator, "nobody").fit(X, Y, clients=CLIENTS)
    assert local.estimator_.noise_scale_ == pytest.approx(2.0 * central.estimator_.noise_scale_)
    assert local.privacy_spent_.guarantee == central.privacy_spent_.guarantee == "exact"
    assert model.privacy_spent_.guarantee == "computational"
    assert {m.privacy_spent_.epsilon for m in (central, model, local)} == {1.0}
    assert central.privacy_spent_.epsilon_alone is None
    alone = model.privacy_spent_.epsilon_alone
    assert model.privacy_spent_.to_dict()["epsilon_alone"] == alone >= 1
    assert f"epsilon_alone={alone:.4g}" in repr(model.privacy_spent_)


def test_an_aggregator_has_the_noise_of_the_pooled_records():
    model = simulated(MEAN, "aggregator").fit(X, clients=CLIENTS)
    central = clone(MEAN).set_params(mechanism="tangent", noise="gaussian").fit(X)
    assert model.estimator_.noise_scale_ == pytest.approx(central.noise_scale_, rel=1e-12)
    assert model.privacy_spent_.mu == pytest.approx(central.privacy_spent_.mu, rel=1e-12)
    assert model.privacy_spent_.public["trust"] == "aggregator"


def test_seeded_simulations_differ_by_all_that_shares_depend_on():
    def mean(**settings):
        settings = {"trust": "cohort"} | settings
        model = FederatedEstimator(MEAN, 1, local="statistic", random_state=1, **settings)
        return model.fit(X, clients=CLIENTS).estimator_.mean_

    np.testing.assert_array_equal(mean(), mean())
    np.testing.assert_array_equal(mean(fit_id="a"), mean(fit_id="b"))
    found = [mean(), mean(colluding=2), mean(colluding=3), mean(trust="aggregator")]
    ratios = [(value - found[0]) / found[0] for value in found[1:]]
    assert all(np.abs(ratio).min() > 1e-6 for ratio in ratios)
    model = simulated(MEAN, "cohort", random_state=1).fit(X, clients=CLIENTS)
    assert model.privacy_spent_.epsilon == math.inf == model.privacy_spent_.epsilon_alone


def lattice_of_two(times):
    """How far apart the integers of one person's rows at one of two clients may be, over D."""
    terms, facts = MEAN._terms(PrivacyAccountant()), _facts(MEAN)
    one = planned_sums(MEAN, facts, terms, 1, together=True)
    two = planned_sums(MEAN, facts, terms, times, together=True)
    steps = [plan.settings.parts[1].steps for plan in (one, two)]
    return steps[1] / steps[0], two.event.mu / one.event.mu


def _facts(estimator):
    from skriemdp._core.estimator import validated

    return validated(clone(estimator), X, None, None).facts


def test_people_in_several_clients_have_coarser_integers_and_an_event_that_adds_up(monkeypatch):
    lattice, event = lattice_of_two(2)
    assert lattice == pytest.approx(1 / 2, rel=1e-6)
    assert event == pytest.approx(1 / math.sqrt(2), rel=1e-6)
    # The lattice of the root, which is right where each client has its own noise, is too fine.
    from skriemdp.federated import _sums as sums

    real = sums._planned
    monkeypatch.setattr(
        sums, "_planned", lambda e, f, t, k: real(e, f, t, round(math.sqrt(k)) if k > 2 else k)
    )
    assert lattice_of_two(2)[0] > 0.7


def test_people_in_two_clients_of_whom_one_is_absent(tmp_path):
    """Every list costs each of its clients what two of them were calibrated for, and no less."""
    agents = {name: hospital(tmp_path, name, clients_per_person=2) for name in NAMES[:3]}
    uploads, _ = loop(clients_per_person=2).run(Relay(agents), None, "spring")
    model = learn_from_sums(MEAN, uploads, None, MADE_UP, clients_per_person=2)
    mu, share = gaussian_mu(1.0, 1e-5), Shares(3, 1)
    for agent in agents.values():
        (entry,) = agent.accountant.history
        assert event_from_dict(entry.event).mu == pytest.approx(mu / math.sqrt(2.0), rel=1e-6)
    spent = model.privacy_spent_
    assert spent.epsilon == 1.0 and spent.mu == pytest.approx(mu, rel=1e-6)
    # Integers are twice as coarse, for shifts that add up; the share is as large as ever.
    one = simulated(MEAN, "aggregator").fit(X, clients=CLIENTS).estimator_.noise_scale_
    wanted = 2.0 * one * math.sqrt(share.variance) * len(X) / uploads.size
    assert model.noise_scale_ == pytest.approx(wanted, rel=1e-6)


@pytest.mark.slow
def test_the_error_is_the_central_one_over_the_honest_share():
    """Of 100 fits with four clients, two of whom collude; false alarm: 1e-6."""
    rows, degrees = np.full((20_000, 50), 0.1), 100 * 50  # too far out to be shrunk
    clients = np.arange(20_000) % 4
    mean = PrivateFrechetMean(radius=1.0, center=np.zeros(50))

    def squares(trust, **settings):
        model = simulated(mean, trust, **settings)
        fits = [model.fit(rows, clients=clients).estimator_.mean_ for _ in range(100)]
        return float(np.sum(np.square(np.subtract(fits, 0.1))))

    central = squares("aggregator")
    for trust, settings, wanted in (("cohort", {"colluding": 2}, 2.0), ("nobody", {}, 4.0)):
        ratio = squares(trust, **settings) / central / wanted
        most = f_law.isf(2.5e-7, degrees, degrees)
        assert 1.0 / most < ratio < most


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"trust": "server"}, "trust='server'"),
        ({"trust": "cohort", "colluding": 0}, "colluding"),
        ({"trust": "cohort", "colluding": 4}, "leaves nobody"),
        ({"trust": "aggregator", "colluding": 2}, "for trust='cohort'"),
        ({"trust": None, "colluding": 2}, "for trust='cohort'"),
        ({"trust": "cohort", "local": "rsgd"}, "local='statistic'"),
        ({"trust": "aggregator", "local": "rsvrg", "batch_fraction": 0.5}, "local='statistic'"),
        ({"trust": "nobody", "local": "rsgd", "unit": "client"}, "trust='aggregator'"),
        ({"trust": "cohort", "local": "rsgd", "unit": "client"}, "trust='aggregator'"),
    ],
)
def test_combinations_without_a_guarantee_are_refused(settings, words):
    with PrivacyAccountant(epsilon=9.0) as ledger:
        model = FederatedEstimator(MEAN, 1, **({"local": "statistic"} | settings))
        with pytest.raises((ValueError, TypeError), match=words):
            model.fit(X, clients=CLIENTS)
    assert len(ledger.history) == 0


@pytest.mark.parametrize("trust", ["cohort", "aggregator"])
@pytest.mark.parametrize(
    "estimator",
    [
        PrivatePrincipalEigenvector(2, 2.0, center="assume"),
        PrivateMinimumDistanceToMean(radius=1.0, classes=[0, 1], delta=0.0),
    ],
    ids=["components", "pure"],
)
def test_sums_that_are_no_integers_yet_are_refused(estimator, trust):
    with PrivacyAccountant(epsilon=9.0, delta=1e-5) as ledger:
        with pytest.raises(ValueError, match="pass trust='nobody'"):
            simulated(estimator, trust).fit(X, Y, clients=CLIENTS)
    assert len(ledger.history) == 0


def test_the_charge_of_an_agent_is_what_its_shares_hide():
    assert agents_module._SECURE_SUM == "secure sum"
    for clients, colluding in ((2, 1), (20, 1), (20, 10)):
        shares = Shares(clients, colluding)
        alone = shares.alone(GaussianEvent(4.0))
        assert alone.mu == pytest.approx(math.sqrt(clients - colluding) / 4.0, rel=1e-12)
    for number, wanted in ((2, 1.0), (5, 2.16), (10, 3.41), (20, 5.25), (100, 14.3)):
        event = GaussianEvent(1.0 / gaussian_mu(1.0, 1e-5))
        assert Shares(number, 1).epsilon_alone(event, 1e-5) == pytest.approx(wanted, rel=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("ignored, caught", [(0, False), (1, True)])
def test_audit_of_a_sum_by_the_server_and_a_client(ignored, caught):
    """What two of three clients add, the third's share subtracted; false alarm: 1e-6.

    Shares that count the third as one whose noise is not known are caught.
    """
    mean = clone(MEAN).set_params(epsilon=3.0, delta=1e-3)
    plan = planned_sums(mean, _facts(mean), mean._terms(PrivacyAccountant()), together=True)
    statistic, trials = plan.settings, 40_000
    part = statistic.parts[1]
    totals = [statistic.exact(Units((np.array([[sign, 0.0, 0.0]]),)))[1] for sign in (1.0, -1.0)]
    assert abs(int(totals[0][0]) - int(totals[1][0])) == pytest.approx(part.steps, rel=1e-6)
    scores = []
    for total in totals:
        exact = np.tile(total, trials)
        both = exact, 0 * exact
        shares = [noised((part,), (own,), NoiseStreams(), 2 + ignored) for own in both]
        scores.append(np.sum(shares, axis=0).reshape(trials, -1)[:, 0] / NOISE_SCALE)
    audit = audit_scores(scores[1], scores[0], delta=1e-3, confidence=1.0 - 1e-6)
    assert (audit.mu > statistic.mean.noise.mu) == caught
