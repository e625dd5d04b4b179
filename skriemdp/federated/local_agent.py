"""A client's agent in a process of its own, which answers bytes on a socket of its machine.

Whatever code an engine runs beside it, the server's for instance, then sees what the network sees.
"""

from __future__ import annotations

import socket
import socketserver
from typing import Any

from skriemdp.federated.agent import check_deployed
from skriemdp.federated.attendance import reply
from skriemdp.federated.masks import number, whole

_HOST = "127.0.0.1"
# How long a connection may be silent; others wait meanwhile.
_SECONDS = 10.0


class LocalAgent(socketserver.TCPServer):
    """Answers messages of secure sums on the loopback interface, until its process ends.

    Run it as a user of its own, who alone can read records, ledger, book and identity, with this
    package installed by the client's own people::

        with LocalAgent(agent, 8765) as running:
            running.serve_forever()

    Parameters
    ----------
    agent : SumsAgent
        Of a cohort, with a ledger that has a ceiling and a file.
    port : int, default=0
        Of the loopback interface; 0 for any that is free (`server_address`).

    Raises
    ------
    ValueError
        For another agent: anybody on this machine may ask it, so a ceiling that outlives this
        process must limit them.
    """

    allow_reuse_address = True

    def __init__(self, agent: Any, port: int = 0):
        if getattr(agent, "member", None) is None:
            raise ValueError("this agent is of no cohort; make it with cohort= and identity=.")
        check_deployed(agent.accountant)
        self.agent = agent
        super().__init__((_HOST, int(port)), _Answer)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that failed is closed, and nothing is said."""


class _Answer(socketserver.BaseRequestHandler):
    """One message and its answer."""

    server: LocalAgent

    def handle(self) -> None:
        self.request.settimeout(_SECONDS)
        answer = reply(self.server.agent, _received(self.request))
        self.request.sendall(number(len(answer)) + answer)


def ask(port: int, message: bytes, seconds: float = 60.0) -> bytes:
    """The answer of the agent on this port of the own machine.

    Raises
    ------
    OSError
        Nobody answers in time.
    ValueError
        What answers is no agent.
    """
    with socket.create_connection((_HOST, port), timeout=seconds) as connection:
        connection.sendall(number(len(message)) + message)
        return _received(connection, most=2**40)


# The longest message by default is a list of ten thousand clients.
def _received(connection: socket.socket, most: int = 2**23) -> bytes:
    with connection.makefile("rb") as stream:
        length = whole(stream.read(8))
        if length > most:
            raise ValueError("the message is too long.")
        data = stream.read(length)
    if len(data) < length:
        raise ValueError("the connection ended in the middle of a message.")
    return data
