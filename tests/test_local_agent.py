"""An agent in a process of its own: bytes in and out on the loopback interface, nothing else."""

import contextlib
import dataclasses
import os
import signal
import socket
import threading
import time

import numpy as np
import pytest
from test_cohort_loop import MADE_UP, MEAN, NAMES, ROWS, hospital, loop

from skriemdp import PrivacyAccountant
from skriemdp.federated import AnswerBook, LocalAgent, learn_from_sums, sums_agent
from skriemdp.federated import _local_agent as local_agent
from skriemdp.federated._attendance import Attempt, answered, request
from skriemdp.federated._local_agent import ask
from skriemdp.federated._masks import number, packed

pytest.importorskip("cryptography")


class Running:
    """Agents that answer in processes of their own; `relay` asks over their sockets."""

    def __init__(self, agents):
        self.ports, self.processes = {}, {}
        for name, agent in agents.items():
            server = LocalAgent(agent)
            self.ports[name] = server.server_address[1]
            child = os.fork()
            if child == 0:
                try:
                    server.serve_forever()
                finally:
                    os._exit(1)
            server.server_close()
            self.processes[name] = child

    def kill(self, name):
        os.kill(self.processes[name], signal.SIGKILL)
        os.waitpid(self.processes.pop(name), 0)

    def relay(self, messages):
        for name, data in messages.items():
            try:
                yield name, ask(self.ports[name], data, seconds=20.0)
            except OSError:
                continue

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for name in list(self.processes):
            self.kill(name)


def test_hospitals_in_processes_of_their_own(tmp_path):
    with Running({name: hospital(tmp_path, name) for name in NAMES}) as running:
        uploads, refused = loop().run(running, None, "spring")
    assert (
        refused == [] and uploads.clients == NAMES and uploads.size == sum(map(len, ROWS.values()))
    )
    model = learn_from_sums(MEAN, uploads, None, MADE_UP)
    assert model.privacy_spent_.guarantee == "computational"
    for name in NAMES:
        assert len(PrivacyAccountant(path=tmp_path / f"{name}.ledger").history) == 1


def test_a_hospital_that_dies_between_the_messages(tmp_path):
    """The first attempt is void, and paid for by the others; the second has one client less."""
    with Running({name: hospital(tmp_path, name) for name in NAMES}) as running:
        calls, relay = [], running.relay

        def dying(messages):
            calls.append(messages)
            if len(calls) == 2:
                running.kill("south")
            return relay(messages)

        running.relay = dying
        uploads, _ = loop().run(running, None, "spring")
    assert uploads.clients == ("east", "north", "west") and len(uploads.attempts) == 2
    charges = [len(PrivacyAccountant(path=tmp_path / f"{name}.ledger").history) for name in NAMES]
    assert charges == [2, 2, 0, 2]


@pytest.fixture
def running(tmp_path):
    with LocalAgent(hospital(tmp_path, "east")) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_only_this_machine_is_answered(running):
    assert running.server_address[0] == "127.0.0.1"


def test_an_agent_survives_what_it_is_sent(running, monkeypatch):
    monkeypatch.setattr("skriemdp.federated._local_agent._SECONDS", 0.2)
    port = running.server_address[1]
    for data in (b"", number(5) + b"ab", number(2**40), number(0) + b"more", b"\xff" * 8):
        with socket.create_connection(("127.0.0.1", port), timeout=10.0) as connection:
            connection.sendall(data)
    assert ask(port, b"junk") == packed(b"failed")
    attended = answered(ask(port, request("attend", Attempt("a", 0, 0))))
    assert attended.name == "east"
    assert len(running.agent.accountant.history) == 0


ATTEND = request("attend", Attempt("a", 0, 0))


def trickle(connection, data, every=0.02):
    """Send one byte after the other, until the connection is closed."""
    for k in range(len(data)):
        try:
            connection.sendall(data[k : k + 1])
        except OSError:
            return
        time.sleep(every)


SLOW = {
    "length byte by byte": number(len(ATTEND)) + ATTEND,
    "message byte by byte": ATTEND * 20,
    "nothing at all": b"",
    "half a length": number(7)[:4],
    "half a message": number(100) + b"half",
    "a huge length": number(2**62) + b"x" * 64,
    "the longest length, and little": number(2**23) + b"x" * 64,
}


@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW)
def test_a_slow_peer_delays_nobody_and_is_ended(running, monkeypatch, sent):
    monkeypatch.setattr("skriemdp.federated._local_agent._SECONDS", 0.4)
    port = running.server_address[1]
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as slow:
        thread = threading.Thread(target=trickle, args=(slow, sent))
        thread.start()
        begun = time.monotonic()
        assert answered(ask(port, ATTEND, seconds=5.0)).name == "east"
        answer = slow.recv(100)  # closed by the agent: a whole message has one deadline
        assert time.monotonic() - begun < 5.0
        assert answer == b"" or sent.startswith(number(len(ATTEND)))
        thread.join()
    assert len(running.agent.accountant.history) == 0


def test_a_flood_of_silent_peers_keeps_nobody_out(running):
    port = running.server_address[1]
    with contextlib.ExitStack() as peers:
        silent = [
            peers.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10.0))
            for _ in range(3 * local_agent._MOST_OPEN)
        ]
        assert answered(ask(port, ATTEND, seconds=5.0)).name == "east"
        for peer in silent[: local_agent._MOST_OPEN]:
            with contextlib.suppress(ConnectionResetError):
                assert peer.recv(1) == b""  # the oldest were ended
        assert threading.active_count() < 2 * local_agent._MOST_OPEN


def test_many_ask_together_and_all_are_answered(running):
    port, answers = running.server_address[1], []

    def attend():
        answers.append(answered(ask(port, ATTEND, seconds=10.0)).name)

    threads = [threading.Thread(target=attend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["east"] * 8


def test_answers_that_break_off_are_no_answers():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def half():
            for _ in range(2):
                connection, _ = server.accept()
                with connection:
                    connection.recv(100)
                    connection.sendall(number(100) + b"half")

        thread = threading.Thread(target=half)
        thread.start()
        for _ in range(2):
            with pytest.raises(ValueError, match="middle of a message"):
                ask(port, b"hello")
        thread.join()
    with pytest.raises(OSError):
        ask(port, b"hello", seconds=1.0)


def test_agents_without_limits_are_not_run(tmp_path):
    with pytest.raises(ValueError, match="with a ceiling"):
        LocalAgent(hospital(tmp_path, "east", epsilon=np.inf))
    forgetful = dataclasses.replace(
        hospital(tmp_path, "north"), accountant=PrivacyAccountant(epsilon=9.0)
    )
    with pytest.raises(ValueError, match="in a file"):
        LocalAgent(forgetful)
    plain = sums_agent(
        MEAN,
        ROWS["east"],
        client="east",
        accountant=PrivacyAccountant(epsilon=9.0),
        book=AnswerBook(tmp_path / "plain"),
    )
    with pytest.raises(ValueError, match="of no cohort"):
        LocalAgent(plain)
