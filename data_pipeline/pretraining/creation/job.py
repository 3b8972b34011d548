"""The job of create_pretraining_data.py, and its work directory.

    corpus         ranges of 256 KB, or files, in random order
     +- unit       16 MB of ranges, what is shuffled together
         +- chunk  256 KB of a unit, tokenized and cut into instances at once
         +- shard  the records of a unit that one task writes for one output file
    output file    its shards, end to end

A unit has shards of all output files while these are MAX_SHARDS together. Beyond, it is
written by one task, and for a few files, which take turns: shards stay as few as units.

The directory lies beside the first output file until the job is done. Everything in it
is written whole under its name, so what is there need not be done again:

    job.json                          the job, and the sizes of its input files
    input-00000.txt                   an unpacked input file
    corpus.json                       the plain files that are read, with their sizes,
                                      and where the ranges of long documents begin
    unit-0000000-part-000.npz         a chunk, until its unit is written
    file-00000/0000000-0-512-records  a shard: its unit, number and count of records,
                                      which further numbers for its metadata may follow
    unit-0000000-lane-000.json        what a task counted whose shards are all written
    complete-00000.json               marks an output file that is complete
"""

import contextlib
import dataclasses
import functools
import glob
import json
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from contract import atomic_files, errors, json_files, remote_files, wording
from data_pipeline.pretraining import metadata
from data_pipeline.tables import file_patterns
from data_pipeline.text import base, opening
from data_pipeline.vocabularies import byte_ranges

UNIT_BYTES = 1 << 24
CHUNK_BYTES = 1 << 18
SHARD_SUFFIX = "-records"
_JOB, _CORPUS, _TOTALS = "job.json", "corpus.json", "totals.json"
_FORMAT = 3  # of the files in the work directory
MIN_TASKS = 8  # that write a unit, so that small corpora use all cores
MAX_SHARDS = 1 << 16  # of a job whose units have shards of all files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """Input, output and settings; output files have equal shares of records.

    Those of a job beyond MAX_SHARDS differ by some shards.
    """

    input_files: tuple[str, ...]
    output_files: tuple[str, ...]
    vocab_file: str
    settings: metadata.Metadata  # its counts are 0
    split_words: str | None = None  # as in opening.open_vocabulary
    refuses_unknown: bool = True  # texts of which most tokens are [UNK]

    @property
    def work_dir(self) -> str:
        return self.output_files[0] + atomic_files.SUFFIX

    @property
    def tokenizer(self) -> base.Tokenizer:
        lower = self.settings.do_lower_case
        return load_tokenizer(self.vocab_file, lower, self.split_words)

    def seed(self, *numbers: int) -> list[int]:
        """A seed for np.random.default_rng: the job's, and the numbers of a task."""
        return [self.settings.random_seed % (1 << 64), *numbers]

    def path(self, *names: str) -> str:
        return os.path.join(self.work_dir, *names)

    def chunk_path(self, unit: int, chunk: int) -> str:
        """The result of `tasks.write_chunk`."""
        return self.path(f"unit-{unit:07}-part-{chunk:03}.npz")

    @property
    def totals_path(self) -> str:
        """The sums of the counts of units, by Beam."""
        return self.path(_TOTALS)

    def counts_path(self, unit: int, task: int) -> str:
        """The counts of `tasks.write_shards`, when it is done."""
        return self.path(f"unit-{unit:07}-lane-{task:03}.json")

    def shards_dir(self, file: int) -> str:
        """The shards of an output file, ordered by their names."""
        return self.path(f"file-{file:05}")

    def shard_path(
        self, file: int, unit: int, shard: int, counts: Sequence[int]
    ) -> str:
        """A shard; `shard_counts` reads the counts, the first of records."""
        numbers = "-".join(map(str, counts))
        name = f"{unit:07}-{shard}-{numbers}{SHARD_SUFFIX}"
        return os.path.join(self.shards_dir(file), name)

    def file_path(self, file: int) -> str:
        """The marker of an output file that is complete."""
        return self.path(f"complete-{file:05}.json")

    def has_records(self, path: str) -> bool:
        """Whether an output file is whole, by its metadata."""
        about = metadata.read(path)
        if about is None or not tf.io.gfile.exists(path):
            return False
        is_whole = about.num_bytes == tf.io.gfile.stat(path).length
        settings = dataclasses.asdict(about) | metadata.NO_COUNTS
        return is_whole and settings == dataclasses.asdict(self.settings)

    def unpacked_path(self, index: int) -> str:
        return self.path(f"input-{index:05}.txt")


def shard_counts(name: str) -> list[int]:
    """The counts in the name of a shard."""
    return [int(number) for number in name.removesuffix(SHARD_SUFFIX).split("-")[2:]]


class Shard(NamedTuple):
    """The part of a unit that a task writes for one output file.

    The unit's instances are dealt to `files` of them; the `number`-th of `shards` equal
    parts of those at `place` is written.
    """

    file: int
    place: int
    files: int
    number: int = 0
    shards: int = 1


@dataclasses.dataclass(frozen=True)
class UnitPlan:
    """The ranges of the corpus that each unit has, and the files that it writes."""

    text: byte_ranges.Corpus
    units: list[np.ndarray]
    num_files: int

    @property
    def is_large(self) -> bool:
        """Whether a unit is one task, because shards of all files were too many."""
        return len(self.units) * max(self.num_files, MIN_TASKS) > MAX_SHARDS

    @property
    def num_tasks(self) -> int:
        """The tasks that write a unit."""
        if self.is_large:
            return 1
        files = self.num_files
        return files * -(-MIN_TASKS // files) if files < MIN_TASKS else MIN_TASKS

    def shards(self, unit: int, task: int) -> list[Shard]:
        """The shards of a unit that a task writes."""
        files = self.num_files
        if self.is_large:
            dealt = min(files, -(-MAX_SHARDS // len(self.units)))
            places = range(dealt)
            return [Shard((unit * dealt + i) % files, i, dealt) for i in places]
        if files >= MIN_TASKS:
            return [Shard(file, file, files) for file in range(task, files, MIN_TASKS)]
        number, file = divmod(task, files)
        return [Shard(file, file, files, number, self.num_tasks // files)]

    def chunks(self, unit: int) -> list[np.ndarray]:  # a terabyte has millions
        return self.text.groups(self.units[unit], CHUNK_BYTES)


@functools.lru_cache(maxsize=2)
def load_plan(job: Job) -> UnitPlan:
    """The plan of a job that has begun; the same in every process."""
    text = byte_ranges.Corpus.from_files(
        **json_files.read_object(job.path(_CORPUS)),
        whole_files=job.settings.document_end == metadata.FILE,
    )
    order = np.random.default_rng(job.seed(0)).permutation(len(text.range_files))
    return UnitPlan(text, text.groups(order, UNIT_BYTES), len(job.output_files))


@functools.lru_cache(maxsize=2)
def load_tokenizer(
    vocab_file: str, lower: bool, split_words: str | None = None
) -> base.Tokenizer:
    """The tokenizer of a vocabulary, made and warmed up once in a process."""
    tokenizer = opening.open_vocabulary(vocab_file, lower, split_words, checks=False)
    tokenizer.tokenize(["first"])  # which takes longer than the second
    return tokenizer


def begin(job: Job) -> list[int]:
    """Makes or finds the work directory; returns indices of input files to unpack."""
    record = {
        **dataclasses.asdict(job),
        "input_sizes": file_patterns.sizes(job.input_files),
        "work_format": _FORMAT,
        "gpt_tokenizer": None,  # of earlier versions, whose jobs go on
    }
    record = json.loads(json.dumps(record))
    path = job.path(_JOB)
    before = json_files.read_object(path) if tf.io.gfile.exists(path) else None
    is_unpacked = before and tf.io.gfile.exists(job.path(_CORPUS))
    sizes = {"input_sizes": record["input_sizes"]}
    if before and before != record and not is_unpacked and before | sizes == record:
        before = None  # an input that could not be unpacked is another now
    if before is None:
        if tf.io.gfile.isdir(job.work_dir):  # perhaps half removed by a killed `end`
            tf.io.gfile.rmtree(job.work_dir)
        for output in job.output_files:
            tf.io.gfile.makedirs(os.path.dirname(output) or ".")
        tf.io.gfile.makedirs(job.work_dir)
        atomic_files.write_json(path, record, shared=True)
        before = json_files.read_object(path)  # another command may begin meanwhile
    if before != record:
        # Settings one by one, so that only those that differ are shown.
        old, new = ({**each.pop("settings"), **each} for each in (before, record))
        raise errors.InputError(
            f"{job.work_dir} holds an unfinished job: "
            f"{wording.differences(old, new)[:1000]}; give its flags, or delete it"
        )
    return [
        index
        for index, file in enumerate(job.input_files)
        if byte_ranges.is_packed(file)
        and not tf.io.gfile.exists(job.unpacked_path(index))
    ]


def unpack(job: Job, index: int) -> None:
    """Unpacks one gzip file of the input into the work directory."""
    byte_ranges.unpack(job.input_files[index], job.unpacked_path(index))


def write_plan(job: Job) -> UnitPlan:
    """Fixes which plain files are read; after all unpacking, before all else."""
    files = [
        job.unpacked_path(index) if byte_ranges.is_packed(file) else file
        for index, file in enumerate(job.input_files)
    ]
    sizes = json_files.read_object(job.path(_JOB))["input_sizes"]
    unpacked = [i for i, file in enumerate(job.input_files) if file != files[i]]
    for i, size in zip(
        unpacked, file_patterns.sizes([files[i] for i in unpacked]), strict=True
    ):
        sizes[i] = size
    corpus = {"files": files, "sizes": sizes}
    if job.settings.document_end != metadata.FILE:
        corpus["boundaries"] = byte_ranges.find_boundaries(files, sizes)
    atomic_files.write_json(job.path(_CORPUS), corpus, shared=True)
    load_plan.cache_clear()
    return load_plan(job)


def end(job: Job) -> None:
    """Removes the work directory of a job whose files are all assembled.

    Another process may still write into it; that, or the next job, removes the rest. A
    local one gets another name first, so that nothing goes of the same job that a
    command begins meanwhile.
    """
    removed = job.work_dir
    if remote_files.is_remote(removed):
        atomic_files.remove(job.path(_JOB))  # first, see `is_under_way`
    else:
        removed = f"{job.work_dir}.done-{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            os.rename(job.work_dir, removed)
    for output in job.output_files:
        directory, name = os.path.split(output)
        unfinished = f"{glob.escape(name)}{atomic_files.SUFFIX}-*"
        for left in remote_files.matching(directory, unfinished):
            atomic_files.remove(left)  # of a killed `tasks.assemble`
    with contextlib.suppress(tf.errors.OpError):
        tf.io.gfile.rmtree(removed)


def is_under_way(job: Job) -> bool:
    """Whether no process has called `end` since `begin`."""
    return tf.io.gfile.exists(job.path(_JOB))


def is_done(job: Job) -> bool:
    """Whether another process has ended the job, and its records are whole."""
    return not is_under_way(job) and all(map(job.has_records, job.output_files))
