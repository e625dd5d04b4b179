"""A client's agent in a process of its own, which answers bytes on a socket of its machine.

Whatever code an engine runs beside it, the server's for instance, then sees what the network sees.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time
from typing import Any

from skriemdp._errors import PublicTimeoutError, PublicValueError
from skriemdp._validation import check_count, check_instance, shown
from skriemdp.federated._agent import check_deployed
from skriemdp.federated._attendance import reply
from skriemdp.federated._masks import number, whole

_HOST = "127.0.0.1"
# Seconds in which a whole message has to arrive, and as many in which its answer has to be taken.
_SECONDS = 10.0
# Connections that may be open together; one more ends the oldest whose message is incomplete.
_MOST_OPEN = 16


class LocalAgent(socketserver.ThreadingTCPServer):
    """Answers messages of secure sums on the loopback interface, until its process ends.

    Messages are received side by side, so a slow or silent peer delays nobody, and answered one
    after the other.

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
    request_queue_size = 4 * _MOST_OPEN

    def __init__(self, agent: Any, port: int = 0):
        if getattr(agent, "member", None) is None:
            raise PublicValueError(
                "this agent is of no cohort; make it with cohort= and identity=."
            )
        check_deployed(agent.accountant)
        check_count(minimum=0, port=port)
        if port > 65535:
            raise PublicValueError(f"port must be at most 65535, or 0 for any, got {shown(port)}.")
        self.agent = agent
        self._turn, self._lock = threading.Lock(), threading.Lock()
        # Connections whose messages are incomplete, the oldest first, and the number of all.
        self._incomplete: dict[socket.socket, None] = {}
        self._room = threading.Semaphore(_MOST_OPEN)
        super().__init__((_HOST, int(port)), _Answer)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Receive and answer in a thread of its own; the oldest incomplete message makes room."""
        while not self._room.acquire(blocking=False):
            self._end_oldest()
            if self._room.acquire(timeout=1.0):
                break
        with self._lock:
            self._incomplete[request] = None
        super().process_request(request, client_address)

    def _end_oldest(self) -> None:
        with self._lock:
            oldest = next(iter(self._incomplete), None)
            self._incomplete.pop(oldest, None)  # type: ignore[arg-type]  # None is in no list
        if oldest is not None:
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, answered or not."""
        with self._lock:
            self._incomplete.pop(request, None)
        super().shutdown_request(request)
        self._room.release()

    def server_close(self) -> None:
        """Stop; incomplete messages end, and answers that were begun are finished."""
        while self._incomplete:
            self._end_oldest()
        super().server_close()

    def answer(self, request: socket.socket) -> None:
        """Receive one message and answer it."""
        check_instance(socket.socket, "it is what a client connected with", request=request)
        message = _received(request, time.monotonic() + _SECONDS)
        with self._lock:
            self._incomplete.pop(request, None)
        with self._turn:
            answer = reply(self.agent, message)
        request.settimeout(_SECONDS)
        request.sendall(number(len(answer)) + answer)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that failed is closed, and nothing is said."""


class _Answer(socketserver.BaseRequestHandler):
    """One message and its answer."""

    server: LocalAgent

    def handle(self) -> None:
        self.server.answer(self.request)


def ask(port: int, message: bytes, seconds: float = 60.0) -> bytes:
    """Send a message to the agent on this port of this machine, and return its answer.

    Raises
    ------
    OSError
        Nobody answers in time.
    ValueError
        The answer does not come from an agent.
    """
    deadline = time.monotonic() + seconds
    with socket.create_connection((_HOST, port), timeout=seconds) as connection:
        connection.sendall(number(len(message)) + message)
        return _received(connection, deadline, most=2**40)


# The longest message by default is a list of ten thousand clients.
def _received(connection: socket.socket, deadline: float, most: int = 2**23) -> bytes:
    """A whole message, complete before the deadline."""
    length = whole(_bytes(connection, 8, deadline))
    if length > most:
        raise PublicValueError("the message is too long.")
    return _bytes(connection, length, deadline)


def _bytes(connection: socket.socket, length: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < length:
        left = deadline - time.monotonic()
        if left <= 0.0:
            raise PublicTimeoutError("the message was not complete in time.")
        connection.settimeout(left)
        more = connection.recv(min(length - len(data), 2**16))
        if not more:
            raise PublicValueError("the connection ended in the middle of a message.")
        data += more
    return bytes(data)
