"""Bounds of a server; without TensorFlow, because flags take their defaults here."""

from typing import NamedTuple


class Limits(NamedTuple):
    """Bounds by the names of their flags, which tasks/settings/server.py describes."""

    max_body_bytes: int = 8 << 20
    max_request_rows: int = 1024
    max_request_tokens: int = 1 << 16
    max_top_k: int = 100
    max_waiting: int = 256
    max_connections: int = 1024
    max_batch_tokens: int = 4096
    request_seconds: float = 60.0
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    drain_seconds: float = 30.0
    max_batch_wait_ms: float = 0.0
