"""What the two sides of a comparison are given, and how both are timed.

Each side runs in a process and a Python of its own, so here is only NumPy. Both read
the same `Work`: the same token ids in the same batches, by length as our runs have
them, each padded to its longest sequence.
"""

import dataclasses
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from contract import features

PEAK_SIZE = 1536  # rows and columns of the matrix product that shows a side's peak
PEAK_ROUNDS = 20
# That are written after each sequence, by head; a text never ends before.
NEW_TOKENS = {"language_model": 128, "seq2seq": 64}
# Of 16 words each, for the latency of one sentence.
SENTENCES = (
    "my parcel should have been here on monday and there is still no sign of it",
    "you charged my card twice for the same order and i would like the money back",
    "the shoes fit very well but one of the boxes was open when it arrived here",
    "could you please tell me how long it takes to send a lamp to another town",
)


@dataclasses.dataclass(frozen=True)
class Job:
    """One turn of one side, as JSON on its command line."""

    # "train", "predict", "write" (NEW_TOKENS), or of an export "answer" for the latency
    # of one sentence and "answer_all" for the rate of many
    action: str
    head: str  # of pretrainers.HEADS
    num_classes: int | None
    pretrained: str  # directory of the weights
    work: str  # file of `Work.save`; or the directory of an export
    warm_up: int  # steps or sentences before those that are timed
    steps: int
    precision: str = "float32"  # or "bfloat16"
    variant: str = ""  # of the peer; see peer.VARIANTS
    num_beams: int = 1  # of "write"; 1 for the likeliest token each time
    texts: str = ""  # for "answer_all" a JSON file of batches of texts

    def to_json(self) -> str:
        """What `from_json` reads."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """The job of `to_json`."""
        return cls(**json.loads(text))


@dataclasses.dataclass(frozen=True)
class Work:
    """N sequences without padding, and which of them make which batch."""

    tokens: np.ndarray  # int32, end to end
    splits: np.ndarray  # int64 [N + 1], where each begins and the last one ends
    first_lengths: np.ndarray  # int32 [N], tokens of segment 0
    order: np.ndarray  # int32 [steps, B], warm-up included
    targets: Mapping[str, np.ndarray]  # [N, ...]
    token_targets: Mapping[str, np.ndarray]  # as `tokens`

    def save(self, path: str) -> None:
        """Writes an .npz."""
        columns = {
            **{f"targets.{name}": value for name, value in self.targets.items()},
            **{f"token_targets.{name}": v for name, v in self.token_targets.items()},
        }
        np.savez(
            path,
            tokens=self.tokens,
            splits=self.splits,
            first_lengths=self.first_lengths,
            order=self.order,
            **columns,
        )

    @classmethod
    def load(cls, path: str) -> "Work":
        """What `save` wrote."""
        fields: dict[str, Any] = {"targets": {}, "token_targets": {}}
        with np.load(path) as arrays:
            for name, value in arrays.items():
                group, _, column = name.rpartition(".")
                (fields[group] if group else fields)[column] = value
        return cls(**fields)

    def batches(self, steps: int) -> Iterator[dict[str, np.ndarray]]:
        """The first batches: our features, [B, ...], padded to the batch's longest."""
        for rows in self.order[:steps]:
            lengths = np.diff(self.splits)[rows][:, np.newaxis]  # [B, 1]
            places = np.arange(lengths.max())  # [S]
            is_real = places < lengths
            taken = (self.splits[rows][:, np.newaxis] + places)[is_real]

            def padded(values, filling, taken=taken, is_real=is_real):
                grid = np.full(is_real.shape, filling, values.dtype)
                grid[is_real] = values[taken]
                return grid

            is_second = is_real & (places >= self.first_lengths[rows][:, np.newaxis])
            yield {
                features.INPUT_IDS: padded(self.tokens, 0),
                features.INPUT_MASK: is_real.astype(features.INTEGER),
                features.SEGMENT_IDS: is_second.astype(features.INTEGER),
                **{name: values[rows] for name, values in self.targets.items()},
                **{
                    name: padded(values, features.IGNORED)
                    for name, values in self.token_targets.items()
                },
            }


def useful_gflop(shape: Mapping[str, int], work: Work, job: Job) -> float:
    """Billions of operations that the timed steps of a job need, on either side.

    A weight of the blocks takes 2 a token (a multiplication and an addition), a weight
    of the head that predicts tokens 2 a predicted one, and training three times as
    many. Padding,
    attention between tokens and everything that is no matrix product do not count.
    `shape` holds the keys of bert_config.json, or under "encoder" and "decoder" those
    of two.
    """
    if job.head == "seq2seq":
        return _gflop_of_pairs(shape, work, job)
    width, inner = shape["hidden_size"], shape["intermediate_size"]
    blocks = shape["num_hidden_layers"] * (4 * width**2 + 2 * width * inner)
    head = width**2 + width * shape["vocab_size"]
    rows = work.order[job.warm_up : job.warm_up + job.steps].ravel()
    tokens = np.diff(work.splits)[rows].sum()
    predicted = 0
    if features.MASKED_LM_WEIGHTS in work.targets:
        predicted = work.targets[features.MASKED_LM_WEIGHTS][rows].sum()
    if job.head == "language_model":  # each token but the first, by the table alone
        predicted, head = tokens - len(rows), width * shape["vocab_size"]
    if job.action == "write":  # nothing is asked of the last
        predicted = len(rows) * NEW_TOKENS[job.head]
        tokens += predicted - len(rows)
    operations = 6 if job.action == "train" else 2
    return float(operations * (blocks * tokens + head * predicted) / 1e9)


def _gflop_of_pairs(
    shape: Mapping[str, Mapping[str, int]], work: Work, job: Job
) -> float:
    """As `useful_gflop`, of "write": sources are read once, and each beam writes."""
    sides = shape["encoder"], shape["decoder"]
    width, inner = sides[0]["hidden_size"], [s["intermediate_size"] for s in sides]
    layers = [side["num_hidden_layers"] for side in sides]
    # The decoder asks its own text and the source, whose keys and values are read.
    read = layers[0] * (4 * width**2 + 2 * width * inner[0]) + layers[1] * 2 * width**2
    written = layers[1] * (6 * width**2 + 2 * width * inner[1])
    written += width**2 + width * sides[1]["vocab_size"]
    rows = work.order[job.warm_up : job.warm_up + job.steps].ravel()
    new = len(rows) * NEW_TOKENS[job.head] * job.num_beams
    tokens = np.diff(work.splits)[rows].sum()
    return float(2 * (read * tokens + written * new) / 1e9)


def seconds_of(
    run: Callable[[Any], Any], inputs: Iterable[Any], warm_up: int
) -> list[float]:
    """Seconds of `run` on each input after the first; making inputs is not timed."""
    found = []
    for number, each in enumerate(inputs):
        begin = time.perf_counter()
        run(each)
        if number >= warm_up:
            found.append(time.perf_counter() - begin)
    return found


def latency(seconds: list[float]) -> dict[str, float]:
    """Median and 99th percentile of the answers to single sentences."""
    median, late = np.percentile(seconds, [50, 99])
    return {"p50_ms": 1e3 * float(median), "p99_ms": 1e3 * float(late)}


def batches_of_texts(job: Job) -> list[list[str]]:
    """What "answer_all" asks, the warm-up first."""
    with open(job.texts, encoding="utf-8") as file:
        return json.load(file)


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


def environment(*beginnings: str) -> dict[str, str]:
    """The variables of the environment whose names begin so."""
    names = sorted(name for name in os.environ if name.startswith(beginnings))
    return {name: os.environ[name] for name in names}
