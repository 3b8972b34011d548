"""Pretraining records from a corpus, in tasks that any process can do in any order.

A unit is what the original holds in memory: its documents give second segments, and its
instances are shuffled. Its chunks are cut into instances (`write_chunk`), these written
as shards (`write_shards`), and the shards of a file joined (`assemble`); job.py has the
picture. What an objective's instances are is a class below instances.Instances.

A task's result follows from the job and the task's numbers alone, and appears under its
name when it is complete. So any number of workers gives the same records, and a killed
job goes on with the tasks whose results are missing.

Differs from google-research/bert: document order and random second segments come from
units of about 16 MB of text, each drawn from all over the corpus, not from all of it; a
corpus of up to 16 MB is one unit. The end of a file ends a document, and a document of
more than 4 MB is cut.
"""

import collections
import dataclasses
import functools
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from contract import atomic_files, features, json_files
from data_pipeline.pretraining import metadata
from data_pipeline.pretraining.creation import blocks, instances, sentence_pairs
from data_pipeline.pretraining.creation import job as creation_job
from data_pipeline.vocabularies import byte_ranges

BATCH_ROWS = 2048  # assembled at a time: some megabytes, which stay in the cache
_COPY_BYTES = 1 << 24
# Of the text itself; `ranges` are those that are not blank.
TEXT_COUNTS = ("lines", "invalid_lines", "ranges")
_KINDS: dict[str, type[instances.Instances]] = {
    metadata.MASKED_LM: sentence_pairs.ShuffledPairs,
    metadata.LEFT_TO_RIGHT: blocks.Blocks,
}


def _kind(job: creation_job.Job) -> type[instances.Instances]:
    return _KINDS[job.settings.objective]


def write_chunk(job: creation_job.Job, unit: int, chunk: int) -> None:
    """Tokenizes one chunk of a unit and cuts it."""
    path = job.chunk_path(unit, chunk)
    if tf.io.gfile.exists(path) or is_written(job, unit):
        return
    buffer = io.BytesIO()
    arrays: Any = _chunk(job, unit, chunk)
    np.savez(buffer, **arrays)
    atomic_files.write_bytes(path, buffer.getvalue(), shared=True)


def _chunk(job: creation_job.Job, unit: int, chunk: int) -> dict[str, np.ndarray]:
    """{name: array} of the instances of a chunk, and its "text_counts"."""
    plan = creation_job.load_plan(job)
    texts = [plan.text.read(int(index)) for index in plan.chunks(unit)[chunk]]
    counts = [
        (*byte_ranges.count_lines(t), not t.isspace() and t != b"") for t in texts
    ]
    text_counts = np.asarray(np.sum(counts, axis=0, dtype=np.int64))
    return {"text_counts": text_counts} | _kind(job).cut(job, unit, chunk, texts)


def write_shards(job: creation_job.Job, unit: int, task: int) -> dict[str, int]:
    """Writes a task's shards of a unit, all of whose chunks are written.

    Returns `count_names`; task 0 counts what the text of the unit holds.
    """
    marker = job.counts_path(unit, task)
    if tf.io.gfile.exists(marker):
        return json_files.read_object(marker)
    try:
        joined = _load_unit(job, unit)
    except tf.errors.NotFoundError:
        if tf.io.gfile.exists(marker):  # another process was faster
            return json_files.read_object(marker)
        raise
    return _write(job, unit, task, *joined)


def _write(
    job: creation_job.Job,
    unit: int,
    task: int,
    shuffled: instances.Instances,
    text_counts: dict[str, int],
) -> dict[str, int]:
    """Writes a task's shards of the unit that `_join` returns, and their counts."""
    rng = np.random.default_rng(job.seed(2, unit, task))
    counts = dict.fromkeys(count_names(job), 0)
    if task == 0:
        counts |= shuffled.counts | text_counts
    for shard in creation_job.load_plan(job).shards(unit, task):
        first, chosen = _share(len(shuffled), shard)
        about = (len(chosen), *shuffled.in_metadata(chosen, first))
        path = job.shard_path(shard.file, unit, shard.number, about)
        with (
            atomic_files.replacing(path, shared=True) as (temporary,),
            tf.io.TFRecordWriter(temporary) as writer,
        ):
            for start in range(0, len(chosen), BATCH_ROWS):
                batch = chosen[start : start + BATCH_ROWS]
                records, numbers = shuffled.records(job, batch, rng)
                for record in records:
                    writer.write(record)
                for name, number in zip(shuffled.RECORD_COUNTS, numbers, strict=True):
                    counts[name] += number
        counts["instances"] += len(chosen)
    atomic_files.write_json(job.counts_path(unit, task), counts, shared=True)
    return counts


def _share(count, shard):
    """Indices of a shard's instances, and how many are in the shards before it."""
    parts = np.array_split(np.arange(count)[shard.place :: shard.files], shard.shards)
    before = sum(len(range(place, count, shard.files)) for place in range(shard.place))
    return before + sum(map(len, parts[: shard.number])), parts[shard.number]


def write_unit(job: creation_job.Job, unit: int) -> dict[str, int]:
    """All of one unit in one process, whose chunks are in no files; returns counts."""
    plan = creation_job.load_plan(job)
    markers = [job.counts_path(unit, task) for task in range(plan.num_tasks)]
    if all(map(tf.io.gfile.exists, markers)):
        return add_counts(map(json_files.read_object, markers))
    joined = _join(
        job, unit, [_chunk(job, unit, n) for n in range(len(plan.chunks(unit)))]
    )
    tasks = range(plan.num_tasks)
    return add_counts(_write(job, unit, task, *joined) for task in tasks)


def add_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums of numbers by their names."""
    totals: collections.Counter[str] = collections.Counter()
    for each in counts:
        totals.update(each)
    return dict(totals)


def count_names(job: creation_job.Job) -> tuple[str, ...]:
    """The names of all counts of a job."""
    kind = _kind(job)
    return (*kind.COUNTS, "instances", *kind.RECORD_COUNTS, *TEXT_COUNTS)


def remove_chunks(job: creation_job.Job, unit: int) -> None:
    """Removes what `write_chunk` left of a unit that is written."""
    for chunk in range(len(creation_job.load_plan(job).chunks(unit))):
        atomic_files.remove(job.chunk_path(unit, chunk))


def is_written(job: creation_job.Job, unit: int) -> bool:
    """Whether every shard of a unit is written, so that its chunks are not needed."""
    tasks = range(creation_job.load_plan(job).num_tasks)
    return all(tf.io.gfile.exists(job.counts_path(unit, task)) for task in tasks)


def assemble(job: creation_job.Job, file: int) -> None:
    """Joins the shards of one output file, and writes its metadata.

    Another process may do the same: shards that it has begun to remove are not joined.
    """
    try:
        if not _is_assembled(job, file):
            _assemble(job, file)
    except (OSError, tf.errors.NotFoundError):
        if not _is_assembled(job, file):
            raise


def _is_assembled(job, file):
    """Whether shards of a file may be missing: after `assemble` or `job.end`."""
    is_complete = tf.io.gfile.exists(job.file_path(file))
    return is_complete or not creation_job.is_under_way(job)


def _assemble(job, file):
    path, directory = job.output_files[file], job.shards_dir(file)
    with atomic_files.replacing(path, shared=True) as (temporary,):
        shards = sorted(
            name
            for name in tf.io.gfile.listdir(directory)
            if name.endswith(creation_job.SHARD_SUFFIX)
        )
        with tf.io.gfile.GFile(temporary, "wb") as sink:
            sink.write(b"")  # without any writing there would be no file
            for shard in shards:
                with tf.io.gfile.GFile(os.path.join(directory, shard), "rb") as source:
                    while block := source.read(_COPY_BYTES):
                        sink.write(block)
        if _is_assembled(job, file):
            raise FileNotFoundError(directory)  # some of the shards, perhaps
        # Before the records take their name, so that no metadata lies beside others.
        atomic_files.remove(f"{path}{metadata.SUFFIX}")
    names = ("num_instances", *_kind(job).IN_METADATA)
    about = np.array([creation_job.shard_counts(shard) for shard in shards], np.int64)
    totals = about.reshape(-1, len(names)).sum(0).tolist()
    settings = dataclasses.replace(
        job.settings,
        num_bytes=tf.io.gfile.stat(path).length,
        **dict(zip(names, totals, strict=True)),
    )
    metadata.write(path, settings)
    atomic_files.write_json(job.file_path(file), {}, shared=True)
    tf.io.gfile.rmtree(directory)


def describe(job: creation_job.Job, count: int) -> Iterator[str]:
    """Lines that show the first records, as the original logs them."""
    tokenizer = job.tokenizer
    records = tf.data.TFRecordDataset(job.output_files[0]).take(count)
    for record in records.as_numpy_iterator():
        example = tf.train.Example.FromString(record).features.feature
        ids = example[features.INPUT_IDS].int64_list.value
        yield "*** Example ***"
        yield f"tokens: {' '.join(tokenizer.ids_to_tokens(ids))}"
        for name in sorted(example):
            values = example[name].int64_list.value or example[name].float_list.value
            yield f"{name}: {' '.join(map(str, values))}"


@functools.lru_cache(maxsize=1)  # a worker does several tasks of a unit
def _load_unit(
    job: creation_job.Job, unit: int
) -> tuple[instances.Instances, dict[str, int]]:
    """`_join` of the chunks that are written."""
    chunks = []
    for chunk in range(len(creation_job.load_plan(job).chunks(unit))):
        with tf.io.gfile.GFile(job.chunk_path(unit, chunk), "rb") as file:
            chunks.append(np.load(io.BytesIO(file.read())))
    return _join(job, unit, chunks)


def _join(
    job: creation_job.Job, unit: int, chunks: Sequence[instances.Arrays]
) -> tuple[instances.Instances, dict[str, int]]:
    """The instances of the unit of these chunks, and {name: number} of TEXT_COUNTS."""
    text_counts = np.sum([arrays["text_counts"] for arrays in chunks], axis=0).tolist()
    shuffled = _kind(job).join(job, unit, chunks)
    return shuffled, dict(zip(TEXT_COUNTS, text_counts, strict=True))
