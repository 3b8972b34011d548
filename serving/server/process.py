"""Runs a server in this process: its socket, its connections, its end."""

import asyncio
import math
import os
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple

import h11
import uvicorn
from uvicorn.protocols.http import h11_impl

from serving.server import app, doors, limits

_KEEP_ALIVE_SECONDS = 75
_MAX_HEAD_BYTES = 1 << 15
_IDLE_SECONDS = 0.2  # that threads have to end
_LINGER_SECONDS = 0.3  # of a stop, in which clients read that it stops
_HALF_CLOSED_SECONDS = 1.0  # of a request, in which the end of sending is no leaving


class Outcome(NamedTuple):
    """How a server ended; `is_idle` where no thread of it computes any more."""

    num_unanswered: int
    is_idle: bool


def run(
    application: app.App, listener: socket.socket, load: Callable[[], object]
) -> Outcome:
    """Answers until Ctrl-C or SIGTERM, and then what was accepted.

    Args:
        load: called in a thread while the server answers that it loads. Its error ends
            the server, and is raised.
    """
    server, failures = _Server(application), list[BaseException]()

    def prepare():
        try:
            load()
            if application.service.state == "loading":
                application.service.state = "ready"
        except BaseException as error:
            failures.append(error)
            server.should_exit = True

    thread = threading.Thread(target=prepare, daemon=True)
    thread.start()
    server.run([listener])
    if failures:
        raise failures[0]
    is_idle = application.service.batcher.close(_IDLE_SECONDS)
    is_idle = is_idle and not thread.is_alive()
    return Outcome(application.service.num_unanswered, is_idle)


class _Server(uvicorn.Server):
    """Stops in two steps: first no new request, then no connection."""

    def __init__(self, application: app.App):
        bounds = application.service.limits
        super().__init__(
            uvicorn.Config(
                application,
                http=_protocol(bounds),
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                server_header=False,
                proxy_headers=False,
                backlog=doors.BACKLOG,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=math.ceil(bounds.drain_seconds) + 1,
                h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
            )
        )
        self._service = application.service

    def handle_exit(self, sig: int, frame: Any) -> None:
        if self._service.state == "draining":
            os._exit(128 + sig)
        self._service.state = "draining"

    async def on_tick(self, counter: int) -> bool:
        """Called every tenth of a second."""
        for connection in [*self.server_state.connections]:
            connection.end_late()  # type: ignore[union-attr]  # a Protocol of below
        if self._service.state == "draining" and not self.should_exit:
            if self.server_state.connections:
                await asyncio.sleep(_LINGER_SECONDS)
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        loop, seconds = asyncio.get_running_loop(), self._service.limits.drain_seconds
        loop.call_later(seconds, self._service.give_up)
        await asyncio.sleep(0)  # accepts the connections that wait
        await super().shutdown(sockets)


def _protocol(bounds: limits.Limits) -> type[asyncio.Protocol]:
    """The protocol of a connection, with the deadlines that uvicorn lacks."""
    request_seconds = (
        bounds.header_seconds + bounds.body_seconds + bounds.request_seconds
    )

    class Protocol(h11_impl.H11Protocol):
        _step: object = None  # the request under way, and whether its head is
        _since = 0.0  # when the step began
        _is_half_closed = False  # by a client that may still read

        def connection_made(self, transport):
            super().connection_made(transport)
            self.end_late()
            if len(self.connections) > bounds.max_connections:
                text = f"{bounds.max_connections} connections are open; try again later"
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, text)

        def end_late(self):
            """Ends a connection whose head, or request and answer, takes too long.

            A request ends when its body was read and its answer taken.
            """
            is_idle = self.conn.their_state is h11.IDLE
            is_head = self.cycle is None or (is_idle and self.conn.trailing_data[0])
            seconds = bounds.header_seconds if is_head else request_seconds
            if is_idle and not is_head and not self.transport.get_write_buffer_size():
                seconds = math.inf  # uvicorn ends what is kept alive
            step, now = (self.cycle, bool(is_head), seconds), self.loop.time()
            if step != self._step:
                self._step, self._since = step, now
            elif now - self._since > seconds:
                if not is_head or self.transport.is_closing():
                    self.transport.abort()
                else:
                    text = f"no request arrived in {bounds.header_seconds:g} s"
                    self._refuse(HTTPStatus.REQUEST_TIMEOUT, text)

        def eof_received(self):
            """Keeps a connection whose client has sent its request and ends writing.

            Who leaves does the same, but seldom so soon.
            """
            self.end_late()
            is_soon = self.loop.time() - self._since < _HALF_CLOSED_SECONDS
            self._is_half_closed = bool(
                self.cycle
                and not self.cycle.response_complete
                and not self.cycle.more_body
                and is_soon
            )
            return self._is_half_closed

        def on_response_complete(self):
            super().on_response_complete()
            if self._is_half_closed and self.cycle.response_complete:
                self.transport.close()

        def shutdown(self):
            if self.cycle is None or self.cycle.response_complete:
                self.loop.call_later(_LINGER_SECONDS, self._close)
            else:
                super().shutdown()

        def _close(self):
            if not self.transport.is_closing():
                super().shutdown()

        def send_400_response(self, msg):
            self._refuse(HTTPStatus.BAD_REQUEST, "Bad request: not HTTP")

        def _refuse(self, status, text):
            """Sends an error, past the parser of requests, and closes."""
            self.transport.write(doors.response(status, {"error": text}))
            self.transport.close()

    return Protocol
