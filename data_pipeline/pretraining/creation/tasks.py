"""Pretraining records from a corpus, in tasks that any process can do in any order.

A unit is what the original holds in memory: second segments are drawn from its
documents, and its instances are shuffled. Its chunks are tokenized and cut (`cut`), the
shuffled instances are written as shards (`write`), and last the shards of a file are
joined (`assemble`); job.py has the picture. What an instance is depends on the
objective: sentence_pairs.py or blocks.py.

What a task writes follows from the job and the task's numbers alone, and appears under
its name when it is complete. So any number of workers gives the same records, and a
killed job goes on with the tasks whose results are missing.

Differs from google-research/bert: document order and random second segments come from
units of about 16 MB of text, each drawn from all over the corpus, not from all of it; a
corpus of up to 16 MB is one unit. The end of a file ends a document, and a document of
more than 4 MB is cut.
"""

import dataclasses
import functools
import io
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from contract import atomic_files, features, json_files, remote_files
from data_pipeline.pretraining import metadata
from data_pipeline.pretraining.creation import blocks, sentence_pairs
from data_pipeline.pretraining.creation import job as creation_job

BATCH_ROWS = 2048  # assembled at a time: some megabytes, which stay in the cache
_COPY_BYTES = 1 << 24
_INSTANCES = {metadata.MASKED_LM: sentence_pairs, metadata.LEFT_TO_RIGHT: blocks}


def _instances(job: creation_job.Job) -> Any:
    return _INSTANCES[job.settings.objective]


def cut(job: creation_job.Job, unit: int, chunk: int) -> None:
    """Tokenizes one chunk of a unit and cuts it."""
    path = job.chunk_path(unit, chunk)
    if tf.io.gfile.exists(path) or is_written(job, unit):
        return
    plan = creation_job.load_plan(job)
    texts = [plan.text.read(int(index)) for index in plan.chunks(unit)[chunk]]
    buffer = io.BytesIO()
    np.savez(buffer, **_instances(job).cut(job, unit, chunk, texts))
    atomic_files.write_bytes(path, buffer.getvalue(), shared=True)


def write(job: creation_job.Job, unit: int, task: int) -> dict[str, int]:
    """Writes a task's shards of a unit, all of whose chunks are cut.

    Returns the COUNTS of the objective; task 0 counts what the text of the unit holds.
    """
    marker = job.counts_path(unit, task)
    if tf.io.gfile.exists(marker):
        return json_files.read_object(marker)
    instances = _load_unit(job, unit)
    rng = np.random.default_rng(job.seed(2, unit, task))
    counts = dict.fromkeys(_instances(job).COUNTS, 0)
    if task == 0:
        counts |= instances.counts
    files, shard, shards = job.shards(task)
    for file in files:
        first, chosen = _share(job, len(instances), file, shard, shards)
        about = (len(chosen), *instances.in_metadata(chosen, first))
        path = job.shard_path(file, unit, shard, about)
        with (
            atomic_files.replacing(path, shared=True) as (temporary,),
            tf.io.TFRecordWriter(temporary) as writer,
        ):
            for start in range(0, len(chosen), BATCH_ROWS):
                batch = chosen[start : start + BATCH_ROWS]
                for record in instances.records(job, batch, rng):
                    writer.write(record)
        counts["instances"] += len(chosen)
    atomic_files.write_json(marker, counts, shared=True)
    return counts


def _share(job, count, file, shard, shards):
    """Indices of a shard's instances, and how many are in the shards before it."""
    files, indices = len(job.output_files), np.arange(count)
    of_file = np.array_split(indices[file::files], shards)
    before = sum(len(range(other, count, files)) for other in range(file))
    return before + sum(map(len, of_file[:shard])), of_file[shard]


def write_unit(job: creation_job.Job, unit: int) -> None:
    """All of one unit, for engines that give every task to another machine."""
    for chunk in range(len(creation_job.load_plan(job).chunks(unit))):
        cut(job, unit, chunk)
    for task in range(job.num_tasks):
        write(job, unit, task)
    remove_chunks(job, unit)


def totals(job: creation_job.Job) -> dict[str, int]:
    """The sums of all counts over everything that is written."""
    counts = [
        json_files.read_object(path)
        for path in remote_files.matching(job.work_dir, "unit-*.json")
    ]
    names = _instances(job).COUNTS
    return {name: sum(count[name] for count in counts) for name in names}


def remove_chunks(job: creation_job.Job, unit: int) -> None:
    """Removes what `cut` left of a unit that is written."""
    for chunk in range(len(creation_job.load_plan(job).chunks(unit))):
        atomic_files.remove(job.chunk_path(unit, chunk))


def is_written(job: creation_job.Job, unit: int) -> bool:
    """Whether every shard of a unit is written, so that its chunks are not needed."""
    tasks = range(job.num_tasks)
    return all(tf.io.gfile.exists(job.counts_path(unit, task)) for task in tasks)


def assemble(job: creation_job.Job, file: int) -> None:
    """Joins the shards of one output file, and writes its metadata."""
    if tf.io.gfile.exists(job.file_path(file)):
        return
    path, directory = job.output_files[file], job.shards_dir(file)
    shards = sorted(
        name
        for name in tf.io.gfile.listdir(directory)
        if name.endswith(creation_job.SHARD_SUFFIX)
    )
    with atomic_files.replacing(path, shared=True) as (temporary,):
        with tf.io.gfile.GFile(temporary, "wb") as sink:
            sink.write(b"")  # without any writing there would be no file
            for shard in shards:
                with tf.io.gfile.GFile(os.path.join(directory, shard), "rb") as source:
                    while block := source.read(_COPY_BYTES):
                        sink.write(block)
        # Before the records take their name, so that no metadata lies beside others.
        atomic_files.remove(f"{path}{metadata.SUFFIX}")
    names = ("num_instances", *_instances(job).IN_METADATA)
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
def _load_unit(job: creation_job.Job, unit: int) -> Any:
    chunks = []
    for chunk in range(len(creation_job.load_plan(job).chunks(unit))):
        with tf.io.gfile.GFile(job.chunk_path(unit, chunk), "rb") as file:
            chunks.append(np.load(io.BytesIO(file.read())))
    return _instances(job).join(job, unit, chunks)
