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
NOT_READY, RETRY_SECONDS = "the server is {}; try again later", "5"
_PATH = re.compile(r"\w+ ([^ ?]*)")
_HEAD_END = b"\r\n\r\n"


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

    /health/live is answered with 200, all else with 503. A request has to be there in
    `seconds`; of more than `most` connections the newest are closed. Errors are those
    of `listen`.
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
    while await reader.read(1 << 16):  # else its sender may not read the answer
        pass
