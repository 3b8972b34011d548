r"""Sends requests to a server of exports by several clients, and prints what they saw.

    python -m benchmarks.load --texts=texts.txt --clients=1,8,32,200 --seconds=60 \
        --address=127.0.0.1:8501 --model_name=messages --server_pid=1234

Each client sends a text, waits for the answer, and sends the next on the same
connection. A line of JSON for each number of clients: requests a second, milliseconds
of the median and of the slowest in a hundred, answers by status, connections that ended
without an answer to a request that was sent, and the server's memory.
"""

import asyncio
import collections
import dataclasses
import json
import random
import time
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import psutil

from cli import command_line
from tasks.settings import fields

_NO_ANSWER = "no answer"
_MIN_SECONDS = 0.05  # until a client that was refused connects again


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadSettings(fields.Settings):
    """The server, the texts and the clients."""

    program: ClassVar[str] = "benchmarks.load"

    address: str = fields.server("127.0.0.1:8501", "Of the server.")
    model_name: str = fields.server("default", "Name of the model.")
    server_pid: int | None = fields.server(None, "Process whose memory is printed.")
    texts: str = fields.data(fields.REQUIRED, "File with a text a line.", path=True)
    clients: Sequence[str] = fields.data(("1", "8", "32", "200"), "Clients at a time.")
    seconds: float = fields.data(60.0, "Of each number of clients.", least=0.1)


async def send(settings, texts, seed, until, seconds, counts):
    """Sends texts of a shuffled list until a time; notes seconds and statuses."""
    host, _, port = settings.address.partition(":")
    chooser, reader, writer = random.Random(seed), None, None
    path = f"/v1/models/{settings.model_name}:predict"
    while time.monotonic() < until:
        body = json.dumps({"instances": [chooser.choice(texts)]}).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {settings.address}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            if reader is None or writer is None:
                reader, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            counts["not connected"] += 1
            await asyncio.sleep(_MIN_SECONDS)
            continue
        began = time.perf_counter()
        status, stays_open = _NO_ANSWER, False
        try:
            writer.write(head.encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            status = answer.split(b" ", 2)[1].decode()
            length = int(answer.partition(b"content-length: ")[2].split(b"\r")[0])
            await reader.readexactly(length)
            stays_open = b"connection: close" not in answer
        except (OSError, asyncio.IncompleteReadError):
            status = _NO_ANSWER
        counts[status] += 1
        if status == "200":
            seconds.append(time.perf_counter() - began)
        if not stays_open:
            writer.close()
            writer = None
        if status != "200":
            await asyncio.sleep(_MIN_SECONDS)
    if writer is not None:
        writer.close()


async def measure(settings, texts, num_clients):
    """The numbers of some clients, as a dict."""
    seconds: list[float] = []
    counts: collections.Counter = collections.Counter()
    until = time.monotonic() + settings.seconds
    await asyncio.gather(
        *(
            send(settings, texts, seed, until, seconds, counts)
            for seed in range(num_clients)
        )
    )
    numbers = {"clients": num_clients, "per_second": len(seconds) / settings.seconds}
    if seconds:
        numbers["p50_ms"], numbers["p99_ms"] = np.percentile(seconds, [50, 99]) * 1000
    numbers = {name: round(float(number), 2) for name, number in numbers.items()}
    if settings.server_pid:
        memory = psutil.Process(settings.server_pid).memory_info().rss
        numbers["server_mb"] = round(memory / 2**20)
    return {**numbers, "answers": dict(counts)}


def run(settings: LoadSettings) -> None:
    """Measures each number of clients."""
    with open(settings.texts, encoding="utf-8") as file:
        texts = [line.rstrip("\n") for line in file]
    for count in settings.numbers("clients", int):
        print(json.dumps(asyncio.run(measure(settings, texts, count))), flush=True)


if __name__ == "__main__":
    command_line.run(run, command_line.parse(LoadSettings, __doc__))
