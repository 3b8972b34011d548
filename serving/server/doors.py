"""The address of a server, and its answers until TensorFlow is imported.

Needs nothing that takes time to import, since a server listens at once.
"""

import contextlib
import json
import os
import re
import select
import signal
import socket
import threading
import time
from http import HTTPStatus

from contract import errors

BACKLOG = 1024  # connections that wait to be accepted
LIVE_PATH, READY_PATH = "/health/live", "/health/ready"
NOT_READY, RETRY_SECONDS = "the server is {}; try again later", "5"
_PATH = re.compile(r"\w+ ([^ ?]*)")
_CLIENT_SECONDS = 0.5
_PAUSE_SECONDS = 0.05


def end_at_sigterm() -> None:
    """Ends the process at SIGTERM, until a server takes the signal.

    Process 1, as of a container, ignores it where nothing is set.
    """
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        InputError: the address is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small packets at once where the protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise errors.InputError(
            f"--host={host} --port={port}: cannot listen there ({error}); name "
            "another port, or 0 for one that is free"
        ) from error
    return listener


def address(listener: socket.socket) -> str:
    """Where a server is, such as http://127.0.0.1:8501."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def response(status: HTTPStatus, value: object, field: str = "") -> bytes:
    """An answer of JSON, after which the connection is closed."""
    body = json.dumps(value)
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json"
    head += f"\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{field}"
    return f"{head}\r\n{body}".encode()


_LOADING = {
    LIVE_PATH: response(HTTPStatus.OK, {"status": "live"}),
    READY_PATH: response(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "loading"}),
}
_REFUSAL = response(
    HTTPStatus.SERVICE_UNAVAILABLE,
    {"error": NOT_READY.format("loading")},
    f"Retry-After: {RETRY_SECONDS}\r\n",
)


class Door:
    """A socket that listens; a thread answers there that the server is loading.

    /health/live is answered with 200, all else with 503, one request after the other.
    A client that is slow gets no answer. Errors are those of `listen`.
    """

    def __init__(self, host: str, port: int):
        self.listener, self._is_open = listen(host, port), True
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def hand_over(self) -> socket.socket:
        """The socket, where this accepts no more; what it accepted is answered."""
        self._is_open = False
        self._thread.join()
        return self.listener

    def _answer(self):
        while self._is_open:
            if select.select([self.listener], [], [], _PAUSE_SECONDS)[0]:
                with contextlib.suppress(OSError):  # the client is slow, or gone
                    _refuse(self.listener.accept()[0])


def _refuse(client):
    end = time.monotonic() + _CLIENT_SECONDS
    with client:
        client.settimeout(_CLIENT_SECONDS)
        path = _PATH.match(client.recv(1 << 16).decode("latin-1"))
        client.sendall(_LOADING.get(path[1], _REFUSAL) if path else _REFUSAL)
        client.shutdown(socket.SHUT_WR)
        while time.monotonic() < end and client.recv(1 << 16):
            pass  # else its sender may not read the answer
