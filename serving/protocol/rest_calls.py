"""Calls of a model server by REST, with nothing but the standard library."""

import contextlib
import http.client
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib import error, parse, request

from contract import errors, tf_serving

_SHOWN = 300  # characters of a message


class Calls:
    """A model of a server; `version` 0 is the newest.

    Every method raises InputError where the server does not answer, or refuses.
    """

    def __init__(
        self, address: str, model: str, version: int, timeout_seconds: float
    ) -> None:
        self._address = address
        self._timeout_seconds = timeout_seconds
        # A proxy of the environment has another localhost.
        host = address.rpartition(":")[0].strip("[]")
        is_here = host in ("localhost", "::1") or host.startswith("127.")
        proxies = [request.ProxyHandler({})] if is_here else []
        self._open = request.build_opener(*proxies).open
        self._model = f"/v1/models/{parse.quote(model, safe='')}"
        if version:
            self._model += f"/versions/{version}"

    def signatures(self) -> dict[str, Any]:
        """{name: SignatureDef as JSON} of the model."""
        answer = self._call("/metadata")
        return self._part(answer, "metadata", "signature_def", "signature_def")

    def predict(
        self, signature: str, inputs: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """The outputs by name, as nested lists; one alone has the name ""."""
        body = json.dumps({"signature_name": signature, "inputs": inputs})
        outputs = self._part(self._call(":predict", body.encode()), "outputs")
        return outputs if isinstance(outputs, dict) else {"": outputs}

    def _part(self, answer: Any, *keys: str) -> Any:
        try:
            for key in keys:
                answer = answer[key]
        except (KeyError, TypeError) as error:
            raise errors.InputError(
                f"{self._address}: the answer has no {'.'.join(keys)}; is a model "
                "server listening there?"
            ) from error
        return answer

    def _call(self, method: str, body: bytes | None = None) -> Any:
        url = f"http://{self._address}{self._model}{method}"
        message = request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with self._open(message, timeout=self._timeout_seconds) as answer:
                return json.load(answer)
        except error.HTTPError as refusal:
            with refusal:
                raise errors.InputError(f"{url}: {_message(refusal)}") from refusal
        except (http.client.HTTPException, OSError, ValueError) as failure:
            reason = getattr(failure, "reason", failure)  # of an URLError
            if isinstance(reason, TimeoutError):
                text = too_late(self._address, self._timeout_seconds)
            elif isinstance(failure, error.URLError):
                text = no_server(self._address, reason, "REST", tf_serving.REST_PORT)
            else:
                text = (
                    f"{url}: the answer is no JSON over HTTP ({failure!r:.80}); is "
                    f"this the REST port, {tf_serving.REST_PORT} by default?"
                )
            raise errors.InputError(text) from failure


def _message(refusal: error.HTTPError) -> str:
    text = refusal.read().decode("utf-8", "replace")
    with contextlib.suppress(ValueError, TypeError, KeyError):  # a proxy's, perhaps
        text = json.loads(text)["error"]
    return f"{one_line(text) or refusal.reason} (HTTP {refusal.code})"


def one_line(message: object) -> str:
    """The beginning of a message of a server or the system."""
    return " ".join(str(message).split())[:_SHOWN]


def too_late(address: str, timeout_seconds: float) -> str:
    """The message where a server takes too long."""
    return (
        f"{address}: no answer within {timeout_seconds:g} seconds; raise "
        "--timeout_seconds, or give fewer or shorter texts"
    )


def no_server(address: str, reason: object, protocol: str, port: int) -> str:
    """The message where nothing listens."""
    return (
        f"{address}: no server answers ({one_line(reason)}); "
        f"start one, or correct --address ({protocol} is port {port} by default)"
    )
