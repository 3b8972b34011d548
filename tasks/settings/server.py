"""Settings of a server: its address, its limits, who may send requests."""

import dataclasses
import os
import re
from collections.abc import Sequence
from typing import Any

from contract import errors, tf_serving
from serving.server import limits
from tasks.settings import fields

KEY_VARIABLE, METRICS_VARIABLE = "BERT_API_KEY", "BERT_METRICS_KEY"
_KEY = re.compile("[!-~]+")  # no other letters stand in a header without doubt


def _limit(name: str, help_text: str) -> Any:
    default = limits.Limits._field_defaults[name]
    return fields.server(
        default, help_text, least=0 if isinstance(default, float) else 1
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Server(fields.Settings):
    """An address, the limits, who may send requests, and the log."""

    serve: bool = fields.server(False, "Serve over HTTP until stopped.")
    host: str = fields.server(
        "127.0.0.1", "Address to listen on; 0.0.0.0 takes other machines."
    )
    port: int = fields.server(
        tf_serving.REST_PORT,
        "Port to listen on; 0 selects a free port.",
        least=0,
        most=65535,
    )
    allowed_hosts: Sequence[str] = fields.server(
        (),
        "Names in the header Host, besides localhost and addresses by number; * for "
        "all.",
    )
    cors_origins: Sequence[str] = fields.server(
        (), "Sites whose pages may send requests; * for all."
    )
    access_log: str = fields.server(
        "lines",
        "A line for each request on standard error.",
        choices=["lines", "json", "none"],
    )
    max_body_bytes: int = _limit("max_body_bytes", "Bytes of a request.")
    max_request_rows: int = _limit("max_request_rows", "Rows of a request.")
    max_request_tokens: int = _limit(
        "max_request_tokens",
        "Tokens of a request, padding included; texts have one for 4 bytes.",
    )
    max_top_k: int = _limit("max_top_k", "Texts for a query of a search.")
    max_waiting: int = _limit(
        "max_waiting", "Requests that may wait; others are answered with 429."
    )
    max_connections: int = _limit("max_connections", "Connections that may be open.")
    max_batch_tokens: int = _limit(
        "max_batch_tokens", "Tokens of requests that are computed together."
    )
    request_seconds: float = _limit(
        "request_seconds", "Seconds until a request is answered with 504."
    )
    header_seconds: float = _limit(
        "header_seconds", "Seconds until the head of a request is there."
    )
    body_seconds: float = _limit(
        "body_seconds", "Seconds until the body of a request is there."
    )
    drain_seconds: float = _limit(
        "drain_seconds",
        "Seconds after SIGTERM or Ctrl-C in which accepted requests are answered.",
    )
    max_batch_wait_ms: float = _limit(
        "max_batch_wait_ms",
        "Milliseconds that a request waits for others to be computed with.",
    )

    def limits(self) -> limits.Limits:
        """The limits by their names."""
        values: Any = {name: getattr(self, name) for name in limits.Limits._fields}
        return limits.Limits(**values)

    def check(self) -> None:
        """Refuses an empty address, or a key that is no word of ASCII."""
        super().check()
        if self.serve:
            needed = "starlette", "uvicorn", "h11", "prometheus_client"
            errors.check_installed("--serve", *needed)
        if self.serve and not self.host:
            raise errors.InputError(
                "--host is empty, which would be every address; name one, such as "
                "127.0.0.1 or 0.0.0.0"
            )
        for name in (KEY_VARIABLE, METRICS_VARIABLE):
            if not _KEY.fullmatch(os.environ.get(name, "key")):
                raise errors.InputError(
                    f"{name} is empty, or has spaces, line ends or letters beyond "
                    "ASCII; set it to another key (printf writes no line end), or "
                    "unset it"
                )
