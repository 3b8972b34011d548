"""The addresses of a server, and what every request has in common."""

import contextlib
import hmac
import ipaddress
import json
import os
import re
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging
from starlette import exceptions, requests, responses
from starlette.middleware import cors

from contract import errors
from serving.protocol import rest
from serving.server import doors, metrics, openapi, page, service

CLASSIFY, SEARCH = "/v1/classify", "/v1/search"
# A request and its body to the response.
Answer = Callable[[requests.Request, bytes], Awaitable[responses.Response]]
JSON = openapi.JSON
# Of a body; curl sends the second unless another is named.
_CONTENT_TYPES = ("", JSON, "application/x-www-form-urlencoded")
_HOST = re.compile(r":\d*$", re.ASCII)
_REQUEST_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_HEALTH_PATHS = (doors.LIVE_PATH, doors.READY_PATH)
_OPEN_PATHS = ("/", "/openapi.json", *_HEALTH_PATHS)  # without the key
_PROBED_PATHS = ("/metrics", *_HEALTH_PATHS)  # not logged
# Summary and type of the answer of each GET.
_PAGES = {
    "/": ("A page to try the server", "text/html"),
    "/openapi.json": ("This description", JSON),
    "/health/live": ("Whether the process answers", JSON),
    "/health/ready": ("Whether predictions are answered", JSON),
    "/metrics": ("Numbers for Prometheus", metrics.CONTENT_TYPE),
}
_PREDICT = re.compile("/v1/models/.*:[a-z]+", re.IGNORECASE)


class Access(NamedTuple):
    """The names, sites and keys with which requests are answered.

    Attributes:
        hosts: names in the header Host, besides localhost and addresses by number;
            "*" stands for all.
        origins: sites whose pages may send requests.
        key: of `Authorization: Bearer KEY`; "" for none.
        metrics_key: opens /metrics alone, as `key` does; "" for none.
    """

    hosts: Collection[str] = ()
    origins: Collection[str] = ()
    key: str = ""
    metrics_key: str = ""


class Route(NamedTuple):
    """The answer to POSTs to a path, and the JSON Schemas of both bodies.

    The schema of a request is None where the model in service has no answer.
    """

    answer: Answer
    summary: str
    request: Callable[[], openapi.Schema | None]
    response: openapi.Schema


class App:
    """An ASGI application: guards, answers, counts and logs requests.

    Args:
        answers: {path: Route} of POSTs, besides those of TensorFlow Serving's API.
        log: "lines", "json" or "none".

    Attributes:
        paths: those of its answers besides TensorFlow Serving's API.
    """

    def __init__(
        self,
        server: service.Service,
        answers: Mapping[str, Route],
        access: Access,
        log: str = "none",
    ):
        self.service, self._access, self._log = server, access, log
        self._posts = answers
        classify, search = (p if p in answers else "" for p in (CLASSIFY, SEARCH))
        self._gets: Mapping[str, Callable[[], responses.Response]] = {
            "/": lambda: page.response(server.model, classify, search),
            "/openapi.json": lambda: _json(self.describe()),
            "/health/live": lambda: _json({"status": "live"}),
            "/health/ready": self._ready,
            "/metrics": lambda: responses.Response(
                server.metrics.text(), media_type=metrics.CONTENT_TYPE
            ),
        }
        self.paths = (*self._gets, *answers)
        self._call: Any = self._observe
        if access.origins:
            self._call = cors.CORSMiddleware(
                self._observe, [*access.origins], ["*"], ["*"]
            )

    def describe(self) -> openapi.Schema:
        """The paths that are answered, as a document of OpenAPI."""
        model, paths = self.service.model, dict[str, Any]()
        for path in self._gets:
            paths[path] = openapi.get(*_PAGES[path])
        for path, route in self._posts.items():
            if request := route.request():
                paths[path] = openapi.post(route.summary, request, route.response)
        if model:
            paths |= openapi.of_model(model)
        name = model.name if model else "search"
        return openapi.document(name, paths, bool(self._access.key))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._call(scope, receive, send)

    async def _observe(self, scope, receive, send):
        request, began = requests.Request(scope, receive), time.perf_counter()
        request_id = request.headers.get("x-request-id", "")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = uuid.uuid4().hex[:16]
        response = await self._respond(request)
        work = getattr(request.state, "work", None)
        took = time.perf_counter() - began
        status = response.status_code if response else 499
        if response:
            response.headers["X-Request-Id"] = request_id
            response.headers["Server-Timing"] = _timing(took, work)
            if self.service.state == "draining":
                response.headers["Connection"] = "close"
            await response(scope, receive, send)
        self.service.metrics.count_request(self._kind(request), status, took)
        if self._log != "none" and request.scope["path"] not in _PROBED_PATHS:
            self._write_log(request, request_id, status, took, work)

    async def _respond(self, request):
        """The response, of an error as well; None where the client is gone."""
        refusal = None
        try:
            self._guard(request)
            self.service.check_head(request)
        except exceptions.HTTPException as error:
            refusal = error
        try:
            async with self.service.body(request, refusal) as body:
                return await self._answer(request, body)
        except service.Gone:
            return None
        except exceptions.HTTPException as error:
            text = rest.error_text(error.detail)
            return _text(text, error.status_code, error.headers)
        except (tf.errors.OpError, RecursionError, errors.InputError) as error:
            return _text(*reversed(rest.explain(error)))
        except Exception:
            logging.exception("%s %s", request.method, request.scope["path"])
            text = rest.error_text("internal error; the server has logged it")
            return _text(text, HTTPStatus.INTERNAL_SERVER_ERROR)

    async def _answer(self, request, body):
        method, path = request.method, request.scope["path"]
        if self._is_page(request):
            return self._gets[path]()
        if method == "POST" and path in self._posts:
            return await self._posts[path].answer(request, body)
        if path in self.paths:
            wanted = "POST" if path in self._posts else "GET, HEAD"
            text = f"{method:.80} is not for {path}; send {wanted}"
            raise service.refuse(HTTPStatus.METHOD_NOT_ALLOWED, text, Allow=wanted)
        if method == "POST":
            return _text(await self.service.predict(request, body))
        path = request.scope["raw_path"].decode("ascii")
        return _text(rest.describe(self.service.require_model(), method, path))

    def _is_page(self, request):
        return request.method in ("GET", "HEAD") and request.scope["path"] in self._gets

    def _ready(self):
        state = self.service.state
        code = HTTPStatus.OK if state == "ready" else HTTPStatus.SERVICE_UNAVAILABLE
        return _json({"status": state}, code)

    def _guard(self, request):
        """Refuses requests of pages of other sites, and those without the key."""
        headers, access = request.headers, self._access
        path, version = request.scope["path"], request.scope["http_version"]
        if version not in ("1.0", "1.1"):
            text = f"HTTP/{version} is not spoken here; send HTTP/1.1"
            raise service.refuse(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, text)
        if path in _HEALTH_PATHS:
            return
        host = headers.get("host", "")
        if "*" not in access.hosts and not _is_known(host, access.hosts):
            text = f"Host is {host:.80}; start the server with --allowed_hosts for it"
            raise service.refuse(HTTPStatus.FORBIDDEN, text)
        origin = headers.get("origin")
        if request.method == "POST" and origin is not None:
            is_same = origin.partition("://")[2] == host
            if not is_same and not {"*", origin} & {*access.origins}:
                text = f"Origin is {origin:.80}; start the server with --cors_origins"
                raise service.refuse(HTTPStatus.FORBIDDEN, f"{text} for it")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and kind not in _CONTENT_TYPES:
            text = f"Content-Type is {kind:.80}; send {JSON}"
            raise service.refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text)
        keys = [access.key, access.metrics_key if path == "/metrics" else ""]
        if any(keys) and path not in _OPEN_PATHS and not _has_key(headers, keys):
            raise service.refuse(
                HTTPStatus.UNAUTHORIZED,
                "send the server's key as Authorization: Bearer KEY",
                WWW_Authenticate="Bearer",
            )
        if self.service.state != "ready" and not self._is_page(request):
            text = doors.NOT_READY.format(self.service.state)
            status = HTTPStatus.SERVICE_UNAVAILABLE
            raise service.refuse(status, text, Retry_After=doors.RETRY_SECONDS)

    def _kind(self, request):
        """The path of a request as a label, one of a few."""
        path = request.scope["path"]
        if path in self.paths:
            return path
        return "predict" if _PREDICT.fullmatch(path) else "other"

    def _write_log(self, request, request_id, status, took, work):
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "client": request.client.host if request.client else "",
            "request": f"{request.method} {request.scope['path']:.200}",
            "status": int(status),
            "ms": round(1000 * took, 1),
            "id": request_id,
        }
        if work:
            entry |= {"rows": work.size.rows, "batch": work.joined}
        if self._log == "json":
            text = json.dumps(entry)
        else:  # as JSON, so that no byte of a path ends the line
            entry["request"] = json.dumps(entry["request"])
            text = " ".join(map(str, entry.values()))
        with contextlib.suppress(OSError, AttributeError):  # nobody reads it any more
            os.write(sys.stderr.fileno(), f"{text}\n".encode())


def _is_known(host, names):
    name = _HOST.sub("", host).strip("[]").lower()  # without its port
    if name == "localhost" or name in names:
        return True
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _has_key(headers, keys):
    scheme, _, actual = headers.get("authorization", "").partition(" ")
    pairs = [(actual.strip().encode(), key.encode()) for key in keys if key]
    is_equal = [hmac.compare_digest(actual, key) for actual, key in pairs]
    return scheme.lower() == "bearer" and any(is_equal)


def _timing(took, work):
    """The header Server-Timing, in milliseconds."""
    parts = {"total": took}
    if work:
        queue, compute = work.seconds
        parts = {"queue": queue, "compute": compute, **parts}
    return ", ".join(f"{name};dur={1000 * part:.2f}" for name, part in parts.items())


def _text(text, status=HTTPStatus.OK, headers=None):
    return responses.Response(text, status, headers, media_type=JSON)


def _json(value, status=HTTPStatus.OK):
    return _text(json.dumps(value), status)
