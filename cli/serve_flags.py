"""Flags of a server: its address, its limits, who may send requests."""

import importlib
import os
import re
from typing import Any

from absl import flags

from cli import command_line
from contract import errors, tf_serving
from serving.server import doors, limits

FLAGS = flags.FLAGS
door: doors.Door | None = None  # of this process, which serves
KEY_VARIABLE, METRICS_VARIABLE = "BERT_API_KEY", "BERT_METRICS_KEY"
_KEY = re.compile("[!-~]+")  # no other letters stand in a header without doubt
_MEANINGS = {
    "max_body_bytes": "Bytes of a request.",
    "max_request_rows": "Rows of a request.",
    "max_request_tokens": "Tokens of a request, padding included; texts have one for "
    "4 bytes.",
    "max_top_k": "Texts for a query of a search.",
    "max_waiting": "Requests that may wait; others are answered with 429.",
    "max_connections": "Connections that may be open.",
    "max_batch_tokens": "Tokens of requests that are computed together.",
    "request_seconds": "Seconds until a request is answered with 504.",
    "header_seconds": "Seconds until the head of a request is there.",
    "body_seconds": "Seconds until the body of a request is there.",
    "drain_seconds": "Seconds after SIGTERM or Ctrl-C in which accepted requests are "
    "answered.",
    "max_batch_wait_ms": "Milliseconds that a request waits for others to be computed "
    "with.",
}


@command_line.heading("Server")
def define() -> None:
    """Defines --serve and the flags that it reads."""
    flags.DEFINE_bool("serve", False, "Serve over HTTP until stopped.")
    flags.DEFINE_string(
        "host", "127.0.0.1", "Address to listen on; 0.0.0.0 takes other machines."
    )
    flags.DEFINE_integer(
        "port",
        tf_serving.REST_PORT,
        "Port to listen on; 0 selects a free port.",
        0,
        65535,
    )
    flags.DEFINE_list(
        "allowed_hosts",
        [],
        "Names in the header Host, besides localhost and addresses by number; * for "
        "all.",
    )
    flags.DEFINE_list(
        "cors_origins", [], "Sites whose pages may send requests; * for all."
    )
    flags.DEFINE_enum(
        "access_log",
        "lines",
        ["lines", "json", "none"],
        "A line for each request on standard error.",
    )
    for name, default in limits.Limits()._asdict().items():
        if isinstance(default, float):
            command_line.define_float(name, default, _MEANINGS[name], lower_bound=0)
        else:
            flags.DEFINE_integer(name, default, _MEANINGS[name], lower_bound=1)


def check() -> None:
    """Raises ValueError where an address is empty, or a key is no word of ASCII."""
    command_line.refuse(
        (
            FLAGS.serve and not FLAGS.host,
            "--host is empty, which would be every address; name one, such as "
            "127.0.0.1 or 0.0.0.0",
        ),
    )
    for name in (KEY_VARIABLE, METRICS_VARIABLE):
        if not _KEY.fullmatch(os.environ.get(name, "key")):
            raise errors.InputError(
                f"{name} is empty, or has spaces, line ends or letters beyond ASCII; "
                "set it to another key (printf writes no line end), or unset it"
            )


def open_door() -> None:
    """Listens, if there is --serve, and answers that the server loads.

    Raises InputError where the address is not available.
    """
    global door
    if FLAGS.serve:
        door = doors.Door(FLAGS.host, FLAGS.port)


def import_command() -> Any:
    """The module cli.serve_command; InputError where a package of it is missing."""
    try:
        return importlib.import_module(f"{__package__}.serve_command")
    except ModuleNotFoundError as error:
        raise errors.InputError(
            f"--serve needs {error.name}, which is not installed: pip install "
            "starlette uvicorn prometheus-client"
        ) from error
