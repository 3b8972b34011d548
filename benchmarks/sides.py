"""The work of both sides of a comparison, and the clock for both.

Each side runs in a process and a Python of its own, so this module needs only NumPy.
Both sides read the same `Work`: the same token ids in the same batches, sorted by
length as in our runs, each padded to its longest sequence.
"""

import dataclasses
import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from contract import features

PEAK_SIZE = 1536  # rows and columns of the matrix product that shows a side's peak
PEAK_ROUNDS = 20
# Variables that decide on kernels, threads and allocators.
_VARIABLES = re.compile(
    "TF_(ENABLE|DISABLE|CPU|NUM|XLA|ONEDNN)_|XLA_FLAGS|(TORCH|ATEN|MKL|OMP|ONEDNN)_|"
    "KMP_(AFFINITY|BLOCKTIME)|MALLOC_|LD_PRELOAD"
)
NEW_TOKENS = 128  # written after each sequence; no text ends earlier


@dataclasses.dataclass(frozen=True)
class Job:
    """One turn of one side, as JSON on its command line."""

    action: str  # "train", "predict", "write" (NEW_TOKENS) or "answer" (an export)
    head: str  # of pretrainers.HEADS
    num_classes: int | None
    pretrained: str  # directory of the weights
    work: str  # file of `Work.save`; "" for "answer"
    warm_up: int  # steps or sentences before those that are timed
    steps: int
    precision: str = "float32"  # or "bfloat16"
    variant: str = ""  # of the peer; see compare.PEER_VARIANTS
    export: str = ""  # the directory of our export that answers or predicts
    texts: str = ""  # for "answer" a JSON file of batches of texts
    begun: float = 0.0  # time.time() of the command

    @property
    def keeps_weights(self) -> bool:
        """Whether no weight changes, as in a server, so that weights may be packed."""
        return self.action in ("answer", "write")


@dataclasses.dataclass(frozen=True)
class Work:
    """N sequences without padding, and which of them make which batch."""

    tokens: np.ndarray  # int32, end to end
    splits: np.ndarray  # int64 [N + 1], where each begins and the last one ends
    first_lengths: np.ndarray  # int32 [N], tokens of segment 0
    order: np.ndarray  # int32 [steps, B] examples, warm-up included
    targets: Mapping[str, np.ndarray]  # [N, ...]
    token_targets: Mapping[str, np.ndarray]  # as `tokens`
    num_sequences: int = 1  # G of an example, one after another

    def save(self, path: str) -> None:
        """Writes an .npz."""
        columns: dict[str, Any] = dict(vars(self))
        for group in ("targets", "token_targets"):
            values = columns.pop(group)
            columns |= {f"{group}.{name}": value for name, value in values.items()}
        np.savez(path, **columns)

    @classmethod
    def load(cls, path: str) -> "Work":
        """Reads a file that `save` wrote."""
        fields: dict[str, Any] = {"targets": {}, "token_targets": {}}
        with np.load(path) as arrays:
            for name, value in arrays.items():
                group, _, column = name.rpartition(".")
                (fields[group] if group else fields)[column] = value
        return cls(**{**fields, "num_sequences": int(fields["num_sequences"])})

    def batches(self, steps: int) -> Iterator[dict[str, np.ndarray]]:
        """The first batches: our features, padded to the batch's longest sequence.

        They are [B, ...], and those of sequences [B * G, S].
        """
        for examples in self.order[:steps]:
            rows = self.sequences(examples)
            lengths = np.diff(self.splits)[rows][:, np.newaxis]  # [B, 1]
            places = np.arange(lengths.max())  # [S]
            is_real = places < lengths
            taken = (self.splits[rows][:, np.newaxis] + places)[is_real]

            def pad(values, filling, taken=taken, is_real=is_real):
                grid = np.full(is_real.shape, filling, values.dtype)
                grid[is_real] = values[taken]
                return grid

            is_second = is_real & (places >= self.first_lengths[rows][:, np.newaxis])
            yield {
                features.INPUT_IDS: pad(self.tokens, 0),
                features.INPUT_MASK: is_real.astype(features.INTEGER),
                features.SEGMENT_IDS: is_second.astype(features.INTEGER),
                **{name: values[examples] for name, values in self.targets.items()},
                **{k: pad(v, features.IGNORED) for k, v in self.token_targets.items()},
            }

    def sequences(self, examples: np.ndarray) -> np.ndarray:
        """The sequences of examples [B], [B * G]."""
        count = self.num_sequences
        return (count * examples[:, np.newaxis] + np.arange(count)).ravel()


def useful_gflop(shape: Mapping[str, Any], work: Work, job: Job) -> float:
    """Billions of operations that the timed steps of a job need, on either side.

    A weight of the blocks takes 2 a token (a multiplication and an addition), a weight
    of the head that predicts tokens 2 a predicted one, and training three times as
    many. Padding, attention between tokens and everything that is no matrix product do
    not count.
    `shape` holds the keys of bert_config.json.
    """
    width, inner = shape["hidden_size"], shape["intermediate_size"]
    blocks = shape["num_hidden_layers"] * (4 * width**2 + 2 * width * inner)
    head = width**2 + width * shape["vocab_size"]
    rows = work.order[job.warm_up : job.warm_up + job.steps].ravel()
    tokens = np.diff(work.splits)[work.sequences(rows)].sum()
    predicted = 0
    if features.MASKED_LM_WEIGHTS in work.targets:
        predicted = work.targets[features.MASKED_LM_WEIGHTS][rows].sum()
    if job.head == "language_model":  # each token but the first, by the table alone
        predicted, head = tokens - len(rows), width * shape["vocab_size"]
    if job.action == "write":  # the last token is not read
        predicted = len(rows) * NEW_TOKENS
        tokens += predicted - len(rows)
    operations = 6 if job.action == "train" else 2
    return float(operations * (blocks * tokens + head * predicted) / 1e9)


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


def time_answers(classify: Callable[[list[str]], Any], job: Job) -> dict[str, float]:
    """Seconds of all batches of texts; median and 99th percentile of one, in ms."""
    with open(job.texts, encoding="utf-8") as file:
        seconds = seconds_of(classify, json.load(file), job.warm_up)
    median, late = (1e3 * np.percentile(seconds, [50, 99])).tolist()
    return {"seconds": sum(seconds), "p50_ms": median, "p99_ms": late}


def peak_gflops(product: Callable[[], Any]) -> float:
    """Billions of operations a second of a product of PEAK_SIZE, the best of many."""
    best = min(seconds_of(lambda _: product(), range(PEAK_ROUNDS + 1), 1))
    return 2 * PEAK_SIZE**3 / best / 1e9


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory_mb() -> float:
    """Most memory that this process has held, in 10^6 bytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / 1e6 if sys.platform == "darwin" else size * 1024 / 1e6


def environment() -> dict[str, str]:
    """The variables of the environment that change speed or memory."""
    return {k: os.environ[k] for k in sorted(os.environ) if _VARIABLES.match(k)}
