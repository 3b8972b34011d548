"""What create_pretraining_data.py was asked for, and its work directory.

The directory lies beside the first output file until the job is done. Everything in it
is written whole under its name, so what is there need not be done again.
"""

import dataclasses
import functools
import json
import os
from typing import Any

import numpy as np
import tensorflow as tf

from contract import atomic_files
from data_pipeline.corpus import byte_ranges
from data_pipeline.pretraining import record_metadata
from data_pipeline.text import tokenization

UNIT_BYTES = 1 << 24
PART_BYTES = 1 << 18
PIECE_SUFFIX = "-records"
_SETTLED = "corpus.json"
LANES = 8  # at least so many tasks write a unit, so that small corpora use all cores


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What is asked for.

    Attributes:
        input_files: text, one sentence a line; see corpus.
        output_files: TFRecord files, each of which gets an equal share.
        vocab_file: the vocabulary.
        settings: how records are made; its counts are 0.
    """

    input_files: tuple[str, ...]
    output_files: tuple[str, ...]
    vocab_file: str
    settings: record_metadata.Metadata

    @property
    def work_dir(self) -> str:
        """Where pieces lie until the job is done."""
        return self.output_files[0] + atomic_files.SUFFIX

    @property
    def tokenizer(self) -> tokenization.BertTokenizer:
        """What cuts the text; see `load_tokenizer`."""
        return load_tokenizer(self.vocab_file, self.settings.do_lower_case)

    @property
    def num_lanes(self) -> int:
        """Tasks that write one unit."""
        files = len(self.output_files)
        return files * -(-LANES // files) if files < LANES else LANES

    def lane(self, number: int) -> tuple[list[int], int, int]:
        """The files that a lane writes to, and which of how many shares of them."""
        files = len(self.output_files)
        if files >= LANES:
            return list(range(number, files, LANES)), 0, 1
        return [number % files], number // files, self.num_lanes // files

    def seed(self, *numbers: int) -> list[int]:
        """For np.random.default_rng: the job's seed and what else tells tasks apart."""
        return [self.settings.random_seed % (1 << 64), *numbers]

    def path(self, *parts: str) -> str:
        """A file in the work directory."""
        return os.path.join(self.work_dir, *parts)

    def part_path(self, unit: int, part: int) -> str:
        """What `creation_tasks.cut` leaves of a part of a unit."""
        return self.path(f"unit-{unit:07}-part-{part:03}.npz")

    def lane_path(self, unit: int, lane: int) -> str:
        """What `creation_tasks.write` has counted in a lane, when it is done."""
        return self.path(f"unit-{unit:07}-lane-{lane:03}.json")

    def pieces_dir(self, file: int) -> str:
        """Where the pieces of an output file lie; they are joined by name."""
        return self.path(f"file-{file:05}")

    def piece_path(self, file: int, unit: int, share: int, count: int) -> str:
        """One of them, with so many records."""
        return os.path.join(
            self.pieces_dir(file), f"{unit:07}-{share}-{count}{PIECE_SUFFIX}"
        )

    def file_path(self, file: int) -> str:
        """What says that an output file is assembled."""
        return self.path(f"file-{file:05}.json")

    def unpacked_path(self, index: int) -> str:
        """An unpacked input file."""
        return self.path(f"input-{index:05}.txt")


@dataclasses.dataclass(frozen=True)
class Plan:
    """Which ranges of the corpus belong to which unit."""

    text: byte_ranges.Corpus
    units: list[np.ndarray]

    def parts(self, unit: int) -> list[np.ndarray]:
        """The ranges of each part of a unit; not kept, for a terabyte has millions."""
        return self.text.groups(self.units[unit], PART_BYTES)


@functools.lru_cache(maxsize=2)
def load_plan(job: Job) -> Plan:
    """The plan of a job that has begun; the same in every process."""
    text = byte_ranges.Corpus.of(**atomic_files.read_json(job.path(_SETTLED)))
    order = np.random.default_rng(job.seed(0)).permutation(len(text.range_files))
    return Plan(text, text.groups(order, UNIT_BYTES))


@functools.lru_cache(maxsize=2)
def load_tokenizer(vocab_file: str, lower: bool) -> tokenization.BertTokenizer:
    """The tokenizer of a vocabulary, ready to work, made once in a process.

    Raises:
        ValueError: as in BertTokenizer.from_file.
    """
    tokenizer = tokenization.BertTokenizer.from_file(vocab_file, lower)
    tokenizer.tokenize(["first"])  # which takes longer than the second
    return tokenizer


def begin(job: Job) -> list[int]:
    """Makes the work directory, or finds that of the same job, killed before.

    Returns:
        The input files that have to be unpacked, as indices.

    Raises:
        ValueError: the directory holds another unfinished job.
    """
    record = {
        **dataclasses.asdict(job),
        "input_sizes": [tf.io.gfile.stat(path).length for path in job.input_files],
    }
    record = json.loads(json.dumps(record))
    path = job.path("job.json")
    before = atomic_files.read_json(path) if tf.io.gfile.exists(path) else None
    if before != record:
        if before and tf.io.gfile.exists(job.path(_SETTLED)):
            raise ValueError(_difference(job, before, record))
        if tf.io.gfile.isdir(job.work_dir):
            # Half removed by a killed `end`, or holds nothing but unpacked input.
            tf.io.gfile.rmtree(job.work_dir)
        for output in job.output_files:
            tf.io.gfile.makedirs(os.path.dirname(output) or ".")
        tf.io.gfile.makedirs(job.work_dir)
        atomic_files.write_json(path, record, shared=True)
    for output in job.output_files:
        for left in tf.io.gfile.glob(f"{output}{atomic_files.SUFFIX}-*"):
            atomic_files.remove(left)  # of a killed `creation_tasks.assemble`
    return [
        index
        for index, file in enumerate(job.input_files)
        if byte_ranges.is_packed(file)
        and not tf.io.gfile.exists(job.unpacked_path(index))
    ]


def _difference(job: Job, before: dict[str, Any], now: dict[str, Any]) -> str:
    before = {**before.pop("settings"), **before}
    now = {**now.pop("settings"), **now}
    differing = [
        f"{key} was {before.get(key)!r} and is {value!r}"
        for key, value in now.items()
        if before.get(key) != value
    ]
    return (
        f"{job.work_dir} holds an unfinished job with other settings: "
        f"{'; '.join(differing)[:1000]}; finish that with its own flags, or delete "
        "the directory to start anew"
    )


def unpack(job: Job, index: int) -> None:
    """Unpacks one gzip file of the input into the work directory."""
    byte_ranges.unpack(job.input_files[index], job.unpacked_path(index))


def settle(job: Job) -> Plan:
    """Fixes which plain files are read; after all unpacking, before all else."""
    files = [
        job.unpacked_path(index) if byte_ranges.is_packed(file) else file
        for index, file in enumerate(job.input_files)
    ]
    sizes = byte_ranges.Corpus.of(files).sizes
    settled = {"files": files, "sizes": sizes}
    atomic_files.write_json(job.path(_SETTLED), settled, shared=True)
    load_plan.cache_clear()
    return load_plan(job)


def end(job: Job) -> None:
    """Removes the work directory of a job whose files are all assembled."""
    tf.io.gfile.rmtree(job.work_dir)
