"""Requests to outputs: the limits of a server, and the model that it answers from."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent import futures
from http import HTTPStatus
from typing import Any

from starlette import exceptions, requests

from contract import cores, tf_serving
from serving.protocol import rest, servables
from serving.server import batching, limits, metrics

_INLINE_BYTES = 1 << 14  # of a body or an answer that is read or written between others
_MAX_VALUES = 1 << 20  # lists, objects and commas of a body; an object is 64 bytes
_MAX_DROPPED_BYTES = 1 << 28  # of the body of a refused request
_MAX_BODIES = 8  # of the largest size, in memory at a time
_CLOSE = {"Connection": "close"}


class Gone(Exception):
    """The client has closed its connection."""


def refuse(status: int, detail: str, **headers: str) -> exceptions.HTTPException:
    """The error of a request; its answer is `{"error": detail}`."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return exceptions.HTTPException(status, detail, fields)


class Service:
    """Answers of a model, or of a function of another kind.

    Attributes:
        model: may be replaced while requests are answered, each of which keeps the one
            with which it began; None while it loads, or where there is none.
        state: "loading", "ready" or "draining".
        num_unanswered: requests that were accepted, and had no answer at the end.
    """

    def __init__(self, bounds: limits.Limits):
        self.limits = bounds
        self.model: servables.Model | None = None
        self.state = "loading"
        self.metrics = metrics.Metrics(lambda: len(self.batcher), self._newest)
        self.batcher = batching.Batcher(
            cores.usable(),
            bounds.max_waiting,
            bounds.max_batch_tokens,
            bounds.max_batch_wait_ms / 1000,
            self.metrics.count_batch,
        )
        self.num_unanswered = 0
        self._waiting: set[Callable] = set()  # what ends each request
        self._body_bytes = 0  # of requests that are not answered
        self._pool = futures.ThreadPoolExecutor(1)  # one large body at a time

    def _newest(self):
        return max(self.model.versions) if self.model else 0

    async def predict(self, request: requests.Request, body: bytes) -> str:
        """The JSON that answers a prediction of TensorFlow Serving's API."""
        path = request.scope["raw_path"].decode("ascii")
        model, most = self.require_model(), self.limits.max_request_rows
        prediction = await self.run(rest.read, len(body), model, path, body, most)
        outputs = await self.compute(
            request, prediction.version, prediction.signature_name, prediction.arrays
        )
        self.metrics.count_labels(model.labels, outputs)
        num_bytes = 8 * sum(array.size for array in outputs.values())
        return await self.run(prediction.write, num_bytes, outputs)

    def require_model(self) -> servables.Model:
        """The model in service; HTTPException where there is none."""
        if self.model is None:
            raise refuse(HTTPStatus.NOT_FOUND, "no model is served here")
        return self.model

    async def run(self, function: Callable, num_bytes: int, *arguments: Any) -> Any:
        """Calls a function, in a thread where there are many bytes."""
        if num_bytes <= _INLINE_BYTES:
            return function(*arguments)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, function, *arguments)

    async def compute(
        self,
        request: requests.Request,
        version: servables.Version,
        signature_name: str,
        arrays: servables.Arrays,
    ) -> Mapping[str, Any]:
        """The outputs of a signature for the rows of a request.

        Raises:
            tf.errors.OpError: the inputs are not those of the signature, or the model
                has failed.
            HTTPException, Gone: as of `wait`.
        """
        name = signature_name or tf_serving.DEFAULT_SIGNATURE
        version.check(name, arrays)
        size = batching.measure(arrays)
        key = (id(version), name) if name in version.joined_signatures else None
        call = functools.partial(version.call, name)
        return await self.wait(request, batching.Work(call, arrays, size, key))

    async def wait(self, request: requests.Request, work: batching.Work) -> Any:
        """The result of a Work, or its error.

        Raises:
            TooManyRowsError: there are too many rows.
            HTTPException: there are too many tokens, too many requests wait, or the
                time is over.
            Gone: nobody waits for the answer.
        """
        rest.check_rows(work.size.rows, self.limits.max_request_rows)
        count, limit = work.size.tokens, self.limits.max_request_tokens
        if count > limit:
            text = f"a request of {count} tokens, padding included, the limit is"
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            remedy = "send several, or raise --max_request_tokens"
            raise refuse(status, f"{text} {limit}; {remedy}")
        try:
            self.batcher.submit(work)
        except batching.Overloaded:
            text = f"{self.limits.max_waiting} requests wait already; try again later"
            raise refuse(HTTPStatus.TOO_MANY_REQUESTS, text, Retry_After="1") from None
        loop = asyncio.get_running_loop()
        ended, watchers = loop.create_future(), list[asyncio.Task]()

        def end(error=None):
            if not ended.done():
                ended.set_result(error)

        async def watch():
            await request.receive()
            end(Gone())

        def arrive(_):
            if not loop.is_closed():
                loop.call_soon_threadsafe(end)

        work.future.add_done_callback(arrive)
        seconds = self.limits.request_seconds
        text = f"no answer within {seconds:g} s; send less, or try again later"
        late = refuse(HTTPStatus.GATEWAY_TIMEOUT, text)
        timers = (
            loop.call_later(seconds, end, late),
            # Only then, because a task takes as long as the work beside a short text.
            loop.call_later(0.05, lambda: watchers.append(loop.create_task(watch()))),
        )
        self._waiting.add(end)
        try:
            error = await ended
        finally:
            self._waiting.discard(end)
            for timer in timers:
                timer.cancel()
            for watcher in watchers:
                watcher.cancel()
        if error:
            self.batcher.drop(work)
            raise error
        request.state.work = work
        return work.future.result()

    def give_up(self) -> None:
        """Answers the requests that wait that the server stops."""
        text = "the server stopped before there was an answer"
        self.num_unanswered = len(self._waiting)
        for end in self._waiting:
            end(refuse(HTTPStatus.SERVICE_UNAVAILABLE, text, **_CLOSE))

    def check_head(self, request: requests.Request) -> None:
        """Raises HTTPException where the head names a body that is not read as JSON."""
        headers, limit = request.headers, self.limits.max_body_bytes
        if request.method != "POST":  # a body without a meaning
            return
        if (encoding := headers.get("content-encoding", "identity")) != "identity":
            text = f"Content-Encoding is {encoding:.80}; send the JSON as it is"
            raise refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text, **_CLOSE)
        if "transfer-encoding" in headers or "content-length" not in headers:
            text = "give the size of the body in bytes as Content-Length"
            raise refuse(HTTPStatus.LENGTH_REQUIRED, text, **_CLOSE)
        if (length := _length(request)) > limit:
            text = f"a body of {length} bytes, the limit is {limit}; send less"
            raise refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, **_CLOSE)

    @contextlib.asynccontextmanager
    async def body(
        self, request: requests.Request, refusal: exceptions.HTTPException | None
    ) -> AsyncIterator[bytes]:
        """Yields the body of a POST, which counts until the request is answered.

        Every body is read to its end, so that its sender reads the answer; that of a
        refused request, or of another method, is dropped.

        Raises:
            HTTPException: `refusal`, or the body is too slow, has too many values, or
                those of other requests take all memory.
            Gone: the client has closed its connection.
        """
        parts, seconds = list[bytes](), self.limits.body_seconds
        if refusal and (
            "expect" in request.headers or _length(request) > _MAX_DROPPED_BYTES
        ):
            raise _closing(refusal)  # before the client sends the body, or all of it
        late = refuse(HTTPStatus.REQUEST_TIMEOUT, f"no body arrived in {seconds:g} s")
        try:
            with _within(seconds, _closing(refusal or late)):
                async for part in request.stream():
                    if refusal or request.method != "POST":
                        continue
                    parts.append(part)
                    self._body_bytes += len(part)
                    if self._body_bytes > _MAX_BODIES * self.limits.max_body_bytes:
                        text = "bodies of other requests take all memory; try again"
                        refusal = refuse(
                            HTTPStatus.TOO_MANY_REQUESTS, text, Retry_After="1"
                        )
                        self._release(parts)
            if refusal:
                raise refusal
            body = b"".join(parts)
            if sum(body.count(sign) for sign in (b",", b"[", b"{")) > _MAX_VALUES:
                text = f"a body of more than {_MAX_VALUES} values; send several"
                raise refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
            yield body
        except requests.ClientDisconnect as error:
            raise Gone from error
        finally:
            self._release(parts)

    def _release(self, parts):
        self._body_bytes -= sum(map(len, parts))
        parts.clear()


@contextlib.contextmanager
def _within(seconds, late):
    """Raises `late` where its block takes longer."""
    task, is_late = asyncio.current_task(), list[bool]()
    assert task
    loop = asyncio.get_running_loop()
    timer = loop.call_later(seconds, lambda: is_late.append(task.cancel()))
    try:
        yield
    except asyncio.CancelledError as error:
        if not is_late:
            raise
        raise late from error
    finally:
        timer.cancel()


def _length(request):
    return int(request.headers.get("content-length", 0))  # at most 20 digits


def _closing(refusal):
    """The error of a request whose body is not read to its end."""
    headers = {**(refusal.headers or {}), **_CLOSE}
    return exceptions.HTTPException(refusal.status_code, refusal.detail, headers)
