"""A child that bears its parent's number is another process, to everyone who asks."""

import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import skriemdp
from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGridSearchCV,
    PrivateHyperbolicRegressor,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
)
from skriemdp._descent.releases import PoissonSampler
from skriemdp._mechanisms import noise
from skriemdp._process import this_process
from skriemdp._random import NoiseStreams
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import Hyperboloid
from skriemdp.ledger import _current as current
from skriemdp.ledger import _storage as storage
from skriemdp.privacy._lattice import NOISE_SCALE

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


@pytest.fixture(autouse=True, params=["own number", "its parent's number"])
def numbers(request, monkeypatch):
    """Of children: their own, or that of their parent, as where a container's first one forks."""
    if request.param != "own number":
        monkeypatch.setattr(os, "getpid", lambda: 1)


def in_a_child(ask):
    """What `ask` returns in a forked process, or how it fails."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = ask()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(sender, pickle.dumps(answer))
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as answers:
        answer = pickle.load(answers)
    os.waitpid(child, 0)
    return answer


def test_no_process_is_one_that_it_descends_from():
    mine = this_process()
    child, grandchild = in_a_child(lambda: (this_process(), in_a_child(this_process)))
    assert len({mine, child, grandchild}) == 3
    assert this_process() == mine


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: noise.draw(
            np.zeros(3, dtype=object), NOISE_SCALE, "discrete-gaussian", rng, sensitivity=1.0
        ).tolist(),
        lambda rng: noise.draw(0.0, 1.0, "gaussian", rng, sensitivity=1.0),
        lambda rng: PoissonSampler(5).draw(100, rng).tolist(),
        lambda rng: rng.random(),
        lambda rng: rng.bit_generator.state,
    ],
    ids=["integers ahead", "a float", "batches ahead", "any method", "the bits"],
)
def test_a_generator_draws_in_its_process_only(draw):
    rng = NoiseStreams()("gradients")
    draw(rng)
    for ask in (draw, lambda rng: in_a_child(lambda: draw(rng))):
        assert "carried into a forked process" in in_a_child(lambda ask=ask: ask(rng))
    draw(rng)


@pytest.mark.parametrize("used", [True, False], ids=["used", "new"])
@pytest.mark.parametrize("seed", [None, 0], ids=["system", "seeded"])
def test_streams_give_noise_in_the_process_of_their_fit_only(used, seed):
    streams = NoiseStreams(seed)
    if used:
        streams("first").random()
    for ask in (lambda: streams("next").random(), lambda: streams.repeatable("next")("a").random()):
        assert "carried into a forked process" in in_a_child(ask)
        assert "carried into a forked process" in in_a_child(lambda ask=ask: in_a_child(ask))
    assert 0.0 <= streams("next").random() < 1.0


class Forking:
    """Forks once after a charge, in the middle of a fit; both processes go on."""

    def __init__(self, monkeypatch):
        self.armed, self.child, spend = False, None, PrivacyAccountant.spend

        def charged(accountant, *args, **kwargs):
            self.armed = True
            return spend(accountant, *args, **kwargs)

        monkeypatch.setattr(PrivacyAccountant, "spend", charged)

    def __call__(self, *_):
        if self.armed:
            self.armed, self.child = False, os.fork()


class Manifold(Hyperboloid):
    """A manifold of a user, whose exponential map starts a process."""

    fork = staticmethod(lambda: None)

    def exp_coordinates(self, *args):
        type(self).fork()
        return super().exp_coordinates(*args)


POINTS = np.random.default_rng(0).normal(size=(60, 2))


def _rows(fork):
    class Rows:
        def __iter__(self):
            yield POINTS[:30]
            fork()
            yield POINTS[30:]

    return Rows()


def _gradient(fork):
    def gradient(point, X, y=None):
        fork()
        return X

    return gradient


def _loss(fork):
    def loss(model, X, y):
        fork()
        return np.linalg.norm(X - model.mean_, axis=1)

    return loss


def _on_a_manifold(fork):
    Manifold.fork = staticmethod(fork)
    space = Manifold(2)
    return PrivateFrechetMean(space).fit(
        np.asarray(space.exp_coordinates(space.base_point, POINTS))
    )


FITS = {
    "manifold": _on_a_manifold,
    "gradient": lambda fork: PrivateRiemannianERM(gradient=_gradient(fork), n_steps=2).fit(POINTS),
    "callback": lambda fork: PrivateRiemannianERM(
        gradient=_gradient(lambda: None), n_steps=2, callback=lambda step, point: fork()
    ).fit(POINTS),
    "last callback": lambda fork: PrivateRiemannianERM(
        gradient=_gradient(lambda: None), n_steps=1, callback=lambda step, point: fork()
    ).fit(POINTS),
    "stream": lambda fork: PrivatePrincipalEigenvector().fit(_rows(fork)),
    "loss": lambda fork: PrivateGridSearchCV(
        PrivateFrechetMean(radius=1.0), {"radius": [0.5, 1.0]}, loss=_loss(fork)
    ).fit(POINTS),
    "federation": lambda fork: FederatedEstimator(
        PrivateRiemannianERM(gradient=_gradient(fork)), 2
    ).fit(POINTS, clients=np.arange(60) % 3),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FITS)
def test_what_is_charged_once_is_released_in_one_process(name, monkeypatch):
    """A function of a user forks between the charge and the noise, or after all noise."""
    fork, (receiver, sender) = Forking(monkeypatch), os.pipe()
    with PrivacyAccountant() as accountant:
        try:
            outcome = type(FITS[name](fork)).__name__
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
        if fork.child == 0:
            os.write(sender, outcome.encode())
            os._exit(0)
        assert fork.child and os.waitpid(fork.child, 0) and len(accountant.history) == 1
    assert "carried into a forked process" in os.read(receiver, 10_000).decode()
    assert outcome.startswith(("Private", "Federated"))


def test_a_server_of_queries_answers_in_its_process_only():
    X, y = np.linspace(0.0, 1.0, 40)[:, None], np.zeros((40, 2))
    model = PrivateHyperbolicRegressor("per-query", n_queries=2).fit(X, y)
    server = model._server
    assert server.can_answer and not in_a_child(lambda: server.can_answer)
    assert "Error" in in_a_child(lambda: model.predict(X[:1]))
    assert server.n_answered == 0
    assert model.predict(X[:1]).shape == (1, 2)


def test_a_token_of_the_parent_names_its_ledger():
    with PrivacyAccountant() as parent:
        token = current.active_accountant_token()
        assert current._sent(token) is None
        assert in_a_child(lambda: current._sent(token) == parent)


def test_a_block_of_the_child_is_within_those_of_its_parent():
    def own():
        with PrivacyAccountant() as mine:
            return current.find() is mine, current.find(inherited=True) is parent

    with PrivacyAccountant() as parent:
        assert current.find() is parent and current.find(inherited=True) is None
        assert in_a_child(lambda: current.find()) is None
        assert in_a_child(own) == (True, True)


def test_a_child_keeps_ledgers_of_its_own_and_removes_no_others():
    mine = PrivacyAccountant().path

    def own():
        was_mine = storage.is_own(mine)
        storage._remove()
        theirs = PrivacyAccountant().path
        found = was_mine or storage.is_own(mine), storage.is_own(theirs), os.path.dirname(theirs)
        storage._remove()
        return found

    was_mine, was_theirs, folder = in_a_child(own)
    assert storage.is_own(mine) and os.path.exists(mine)
    assert (was_mine, was_theirs) == (False, True) and folder != os.path.dirname(mine)
    assert not os.path.exists(folder)


def test_nobody_asks_for_the_number_alone():
    folder = Path(skriemdp.__file__).parent
    asking = {p.name for p in folder.rglob("*.py") if re.search(r"\bgetp?pid\b", p.read_text())}
    assert asking == {"_process.py"}
