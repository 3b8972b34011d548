"""The work of both sides of a comparison, and the clock for both.

A side runs in a process and a Python of its own, so this module needs only NumPy.
"""

import dataclasses
import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from contract import features

# Our features under the peer's names.
PEER_NAMES = {
    "input_ids": features.INPUT_IDS,
    "attention_mask": features.INPUT_MASK,
    "token_type_ids": features.SEGMENT_IDS,
}
PEAK_SIZE = 1536  # rows and columns of the matrix product that shows a side's peak
PEAK_ROUNDS = 20
# Variables that decide on kernels, threads and allocators.
_VARIABLES = re.compile(
    "TF_(ENABLE|DISABLE|CPU|NUM|XLA|ONEDNN)_|XLA_FLAGS|(TORCH|ATEN|MKL|OMP|ONEDNN)_|"
    "KMP_(AFFINITY|BLOCKTIME)|MALLOC_|LD_PRELOAD"
)


@dataclasses.dataclass(frozen=True)
class Job:
    """One turn of one side, as JSON on its command line."""

    action: str  # "train", "export" (of the peer) or "answer" (texts)
    head: str  # of pretrainers.HEADS
    num_classes: int | None
    pretrained: str  # directory of the weights
    batches: str  # file of `write_batches`; "" for "answer"
    warm_up: int  # batches or sentences before those that are timed
    steps: int
    variant: str = ""  # of the peer; see rows.Side
    export: str = ""  # directory of our export that answers, or of the peer's
    texts: str = ""  # for "answer" a JSON file of batches of texts
    max_seq_length: int = 128  # of these texts, in tokens
    checked: str = ""  # a JSON file of texts whose answers are scored
    cache: str = ""  # directory of what a peer converts, with calibration.json
    begun: float = 0.0  # time.time() of the command


def write_batches(path: str, batches: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Writes batches of named arrays to an .npz, which both sides read."""
    arrays: dict[str, Any] = {
        f"{number} {name}": values
        for number, batch in enumerate(batches)
        for name, values in batch.items()
    }
    np.savez(path, **arrays)


def read_batches(job: Job) -> list[dict[str, np.ndarray]]:
    """The batches of a job, those of the warm-up first."""
    batches: list[dict[str, np.ndarray]] = [{} for _ in range(job.warm_up + job.steps)]
    with np.load(job.batches) as arrays:
        for key in arrays:
            number, name = key.split(" ")
            if int(number) < len(batches):
                batches[int(number)][name] = arrays[key]
    return batches


def seconds_of(
    run: Callable[[Any], Any], inputs: Iterable[Any], warm_up: int
) -> list[float]:
    """Seconds of `run` on each input after the first; making inputs is not timed."""
    seconds = []
    for number, each in enumerate(inputs):
        begin = time.perf_counter()
        run(each)
        if number >= warm_up:
            seconds.append(time.perf_counter() - begin)
    return seconds


def time_answers(answer: Callable[[list[str]], Any], job: Job) -> dict[str, Any]:
    """Seconds of all batches of texts; their median and, of 100, 99th percentile in ms.

    `answer` returns probabilities [B, C] or vectors [B, D]. With `job.checked`,
    "answers" are the likeliest classes of its texts or, of vectors, the cosines of the
    first and second text, the third and fourth, and so on; they are not timed, and not
    in the memory.
    """
    seconds = seconds_of(answer, read_texts(job.texts), job.warm_up)
    figures = {"seconds": sum(seconds), "p50_ms": 1e3 * float(np.median(seconds))}
    if len(seconds) >= 100:
        figures["p99_ms"] = 1e3 * float(np.percentile(seconds, 99))
    figures["peak_memory_mb"] = peak_memory()
    texts = read_texts(job.checked) if job.checked else []
    each = [answer(texts[i : i + 32]) for i in range(0, len(texts), 32)]
    if each and job.head == "text_encoder":
        unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in each]
        cosines = [(part[::2] * part[1::2]).sum(axis=1) for part in unit]
        figures["answers"] = np.concatenate(cosines).tolist()
    elif each:
        figures["answers"] = np.concatenate(each).argmax(axis=1).tolist()
    return figures


def read_texts(path: str) -> list[Any]:
    """A JSON file of texts, or of batches of texts."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def peak_memory() -> float:
    """The most that this process has held, in 10^6 bytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / 1e6 if sys.platform == "darwin" else size * 1024 / 1e6


def described(
    figures: Mapping[str, Any], product: Callable[[], Any], versions: Mapping[str, str]
) -> dict[str, Any]:
    """A turn's figures with memory, environment, and the peak of `product`.

    "peak_memory_mb", if not in `figures`, is that before the product of PEAK_SIZE;
    "peak_gflops" are of the fastest of PEAK_ROUNDS.
    """
    memory = peak_memory()
    best = min(seconds_of(lambda _: product(), range(PEAK_ROUNDS + 1), 1))
    variables = sorted(name for name in os.environ if _VARIABLES.match(name))
    return {
        "peak_memory_mb": memory,
        **figures,
        "peak_gflops": 2 * PEAK_SIZE**3 / best / 1e9,
        "versions": dict(versions),
        "environment": {name: os.environ[name] for name in variables},
    }
