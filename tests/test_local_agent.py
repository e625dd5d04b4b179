"""An agent in a process of its own: bytes in and out on the loopback interface, nothing else."""

import dataclasses
import os
import signal
import socket
import threading

import numpy as np
import pytest
from test_cohort_loop import MADE_UP, MEAN, NAMES, ROWS, hospital, loop

from skriemdp import PrivacyAccountant
from skriemdp.federated import AnswerBook, LocalAgent, learn_from_sums, sums_agent
from skriemdp.federated.attendance import Attempt, answered, request
from skriemdp.federated.local_agent import ask
from skriemdp.federated.masks import number, packed

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
    monkeypatch.setattr("skriemdp.federated.local_agent._SECONDS", 0.2)
    port = running.server_address[1]
    for data in (b"", number(5) + b"ab", number(2**40), number(0) + b"more", b"\xff" * 8):
        with socket.create_connection(("127.0.0.1", port), timeout=10.0) as connection:
            connection.sendall(data)
    assert ask(port, b"junk") == packed(b"failed")
    attended = answered(ask(port, request("attend", Attempt("a", 0, 0))))
    assert attended.name == "east"
    assert len(running.agent.accountant.history) == 0


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
