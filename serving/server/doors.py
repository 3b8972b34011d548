"""The address of a server, and its answers until TensorFlow is imported.

Needs nothing that takes time to import, since a server listens at once.
"""

import asyncio
import contextlib
import json
import re
import socket
import threading
from http import HTTPStatus

from contract import errors

BACKLOG = 1024  # connections that wait to be accepted
LIVE_PATH, READY_PATH = "/health/live", "/health/ready"
RETRY_SECONDS = "5"
_PATH = re.compile(r"\w+ ([^ ?]*)")
_HEAD_END = b"\r\n\r\n"
_READ_BYTES = 1 << 16


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


def not_ready(state: str) -> str:
    """The error of requests to a server that is not ready."""
    return f"the server is {state}; try again later"


def response(status: HTTPStatus, value: object, *fields: str) -> bytes:
    """An answer of JSON, after which the connection is closed."""
    body = json.dumps(value).encode()
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *fields,
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


_BUSY = HTTPStatus.SERVICE_UNAVAILABLE
_LOADING = {
    LIVE_PATH: response(HTTPStatus.OK, {"status": "live"}),
    READY_PATH: response(_BUSY, {"status": "loading"}),
}
_REFUSAL = response(
    _BUSY, {"error": not_ready("loading")}, f"Retry-After: {RETRY_SECONDS}"
)


class Door:
    """A socket that listens; a thread answers there that the server is loading.

    /health/live is answered with 200, all else with 503.

    Args:
        seconds: until a request has to be there.
        most: connections that may be open; more are closed.

    Raises:
        InputError: as of `listen`.
    """

    def __init__(self, host: str, port: int, seconds: float, most: int):
        self.listener = listen(host, port)
        self._seconds, self._free = seconds, asyncio.Semaphore(most)
        self._loop = asyncio.new_event_loop()
        begun = asyncio.start_server(self._answer, sock=self.listener.dup())
        self._server = self._loop.run_until_complete(begun)
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def hand_over(self) -> socket.socket:
        """The socket, where this accepts no more; what it accepted is answered."""
        self._loop.call_soon_threadsafe(self._server.close)
        return self.listener

    async def _answer(self, reader, writer):
        late = (OSError, EOFError, asyncio.LimitOverrunError, asyncio.TimeoutError)
        with contextlib.closing(writer), contextlib.suppress(*late):
            if not self._free.locked():
                async with self._free:
                    await asyncio.wait_for(_refuse(reader, writer), self._seconds)


async def _refuse(reader, writer):
    request = await reader.readuntil(_HEAD_END)
    path = _PATH.match(request.decode("latin-1"))
    answer = _LOADING.get(path[1], _REFUSAL) if path else _REFUSAL
    if request.startswith(b"HEAD "):
        answer = answer[: answer.index(_HEAD_END) + len(_HEAD_END)]
    writer.write(answer)
    writer.write_eof()
    while await reader.read(_READ_BYTES):  # else its sender may not read the answer
        pass
