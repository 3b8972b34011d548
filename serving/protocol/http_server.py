"""TensorFlow Serving's REST API over HTTP, for places without its binary.

One process, a thread for each connection; as many requests are answered at a time as
there are cores, which is faster than one by one.
"""

import http.server
import signal
import socket
import socketserver
import sys
import threading
from http import HTTPStatus

import joblib
from absl import logging

from contract import errors
from serving.protocol import rest, servables

MAX_BODY_BYTES = 32 * 2**20
_MAX_DRAINED_BYTES = 2**28  # of a body that is too large, so that its sender reads why
TIMEOUT_SECONDS = 30  # of a client that does not go on with its request


class _Handler(http.server.BaseHTTPRequestHandler):
    server: "Server"
    server_version, sys_version = "bert", ""
    default_request_version = "HTTP/1.0"  # the one before has no head
    protocol_version = "HTTP/1.1"  # connections stay open between requests
    timeout = TIMEOUT_SECONDS
    wbufsize = -1  # head and body in one packet
    disable_nagle_algorithm = True

    def do_GET(self):
        self._send(*self.server.answer("GET", self.path))

    def do_POST(self):
        if (body := self._body()) is not None:
            self._send(*self.server.answer("POST", self.path, body))

    def _body(self):
        """The body, or None where an error was sent instead."""
        encoding = self.headers.get("Content-Encoding", "identity")
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers:
            length = ""
        if encoding != "identity":
            text = f"Content-Encoding is {encoding}; send the JSON as it is"
            return self.send_error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text)
        if not (length.isascii() and length.isdigit()):
            text = "give the size of the body in bytes as Content-Length"
            return self.send_error(HTTPStatus.LENGTH_REQUIRED, text)
        if len(length) > 18 or int(length) > MAX_BODY_BYTES:
            self._drain(int(length[:18]))
            text = f"a body of {length} bytes, the limit is {MAX_BODY_BYTES}; send less"
            return self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
        try:
            body = self.rfile.read(int(length))
        except TimeoutError:
            text = f"{length} bytes did not arrive in {TIMEOUT_SECONDS} s"
            return self.send_error(HTTPStatus.REQUEST_TIMEOUT, text)
        if len(body) < int(length):  # the client is gone
            self.close_connection = True
            return None
        return body

    def _drain(self, size):
        left = size if size <= _MAX_DRAINED_BYTES else 0
        while left and (read := len(self.rfile.read(min(left, 2**20)))):
            left -= read

    def handle_expect_100(self):
        """Lets the client send its body at once, past the buffer."""
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def send_error(self, code, message=None, explain=None):
        """In the form of the protocol, not as HTML; ends the connection."""
        self.close_connection = True
        self._send(code, rest.error_text(message or HTTPStatus(code).phrase))

    def _send(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Listens from its creation on; port 0 takes a port that is free.

    Attributes:
        model: answers requests; each keeps the model with which it began.

    Raises:
        InputError: the address is not available.
    """

    request_queue_size = 1024  # connections that wait to be accepted

    def __init__(self, model: servables.Model, host: str, port: int):
        self.model = model
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # More at once would wait for one another, each with its memory.
        self._turn = threading.BoundedSemaphore(joblib.cpu_count())
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise errors.InputError(
                f"--host={host} --port={port}: cannot listen there ({error}); name "
                "another port, or 0 for one that is free"
            ) from error

    def server_bind(self):
        """Binds without a look-up of the host's name, which can take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), 0

    @property
    def address(self) -> str:
        """Where the model is, such as http://127.0.0.1:8501/v1/models/name."""
        host, port = str(self.server_address[0]), self.server_address[1]
        place = f"[{host}]" if self.address_family == socket.AF_INET6 else host
        return f"http://{place}:{port}/v1/models/{self.model.name}"

    def answer(self, method: str, path: str, body: bytes = b"") -> tuple[int, str]:
        """Status and JSON text; an unexpected exception is logged, with status 500."""
        try:
            with self._turn:
                return rest.answer(self.model, method, path, body)
        except Exception:
            logging.exception("%s %s", method, path)
            text = rest.error_text("internal error; the server has logged it")
            return HTTPStatus.INTERNAL_SERVER_ERROR, text

    def handle_error(self, request, client_address):
        """Prints no traceback of clients that are gone."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def run(server: Server) -> None:
    """Answers until Ctrl-C or SIGTERM."""

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        server.server_close()
