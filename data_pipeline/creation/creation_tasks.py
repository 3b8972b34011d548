"""Pretraining records from a corpus, in tasks that any process can do in any order.

A unit is what the original holds in memory: second segments are drawn from its
documents, and its instances are shuffled. Its chunks are tokenized and cut into pairs
(`cut`), the shuffled pairs are masked and written as shards (`write`), and last the
shards of a file are joined (`assemble`); creation_job.py has the picture.

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

from contract import atomic_files, features
from data_pipeline.creation import creation_job, pairing
from data_pipeline.examples import tf_records
from data_pipeline.pretraining import masking, record_metadata

BATCH_ROWS = 2048  # assembled at a time: some megabytes, which stay in the cache
_COPY_BYTES = 1 << 24
COUNTS = ("documents", "sentences", "tokens", "instances")


def cut(job: creation_job.Job, unit: int, chunk: int) -> None:
    """Tokenizes one chunk of a unit and cuts it into pairs."""
    path = job.chunk_path(unit, chunk)
    if tf.io.gfile.exists(path) or is_written(job, unit):
        return
    plan, settings = creation_job.load_plan(job), job.settings
    lines: list[bytes] = []
    for index in plan.chunks(unit)[chunk]:
        lines += plan.text.read(int(index)).split(b"\n")
        lines.append(b"")  # a range ends a document
    documents = pairing.read_documents(lines, job.tokenizer)
    pairs = pairing.cut(
        documents,
        sentence_task=settings.sentence_task,
        max_seq_length=settings.max_seq_length,
        short_seq_prob=settings.short_seq_prob,
        passes=settings.dupe_factor,
        seed=f"{settings.random_seed} {unit} {chunk}",
    )
    buffer = io.BytesIO()
    np.savez(buffer, **vars(documents), **vars(pairs))
    atomic_files.write_bytes(path, buffer.getvalue(), shared=True)


def write(job: creation_job.Job, unit: int, task: int) -> dict[str, int]:
    """Masks and writes a task's shards of a unit, all of whose chunks are cut.

    Returns their COUNTS; task 0 counts documents, sentences and tokens of the unit.
    """
    marker = job.counts_path(unit, task)
    if tf.io.gfile.exists(marker):
        return atomic_files.read_json(marker)
    documents, pairs = _load_unit(job, unit)
    indices = np.arange(len(pairs))
    rng = np.random.default_rng(job.seed(2, unit, task))
    counts = dict.fromkeys(COUNTS, 0)
    if task == 0:
        counts["documents"] = len(documents)
        counts["sentences"] = len(documents.sentence_ends) - 1
        counts["tokens"] = len(documents.tokens)
    files, shard, shards = job.shards(task)
    for file in files:
        of_file = indices[file :: len(job.output_files)]
        chosen = np.array_split(of_file, shards)[shard]
        path = job.shard_path(file, unit, shard, len(chosen))
        with (
            atomic_files.replacing(path, shared=True) as (temporary,),
            tf.io.TFRecordWriter(temporary) as writer,
        ):
            for start in range(0, len(chosen), BATCH_ROWS):
                batch = pairs.take(chosen[start : start + BATCH_ROWS])
                for record in make_records(job, batch, documents, rng):
                    writer.write(record)
        counts["instances"] += len(chosen)
    atomic_files.write_json(marker, counts, shared=True)
    return counts


def write_unit(job: creation_job.Job, unit: int) -> None:
    """All of one unit, for engines that give every task to another machine."""
    for chunk in range(len(creation_job.load_plan(job).chunks(unit))):
        cut(job, unit, chunk)
    for task in range(job.num_tasks):
        write(job, unit, task)
    remove_chunks(job, unit)


def totals(job: creation_job.Job) -> dict[str, int]:
    """The sums of COUNTS over everything that is written."""
    counts = [
        atomic_files.read_json(path)
        for path in tf.io.gfile.glob(job.path("unit-*.json"))
    ]
    return {name: sum(count[name] for count in counts) for name in COUNTS}


def make_records(
    job: creation_job.Job, pairs: pairing.Pairs, documents: pairing.Documents, rng
) -> Iterator[bytes]:
    """Serialized tf.train.Examples of some pairs, in order."""
    settings, tokenizer = job.settings, job.tokenizer
    pairs = pairing.fill(pairs, documents, rng)
    pairs = pairing.truncate(
        pairs, settings.max_seq_length, settings.sentence_task, rng
    )
    input_ids, lengths, first_lengths = pairing.assemble(
        pairs,
        documents.tokens,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        max_seq_length=settings.max_seq_length,
        sentence_task=settings.sentence_task,
    )
    column = np.arange(settings.max_seq_length)
    is_real = column < lengths[:, None]
    is_second = is_real & (column >= first_lengths[:, None])
    arrays = {
        features.INPUT_IDS: input_ids,
        features.INPUT_MASK: is_real.view(np.uint8),
        features.SEGMENT_IDS: is_second.view(np.uint8),
        features.NEXT_SENTENCE_LABELS: pairs.label[:, None],
    }
    if settings.masking != record_metadata.UNMASKED:
        rule = masking.Rule(
            settings.masking, settings.masked_lm_prob, settings.max_predictions_per_seq
        )
        draws = masking.draw(input_ids.shape, rule, _pieces(job), rng)
        arrays |= masking.mask(input_ids, lengths, rule, _pieces(job), draws)
    return tf_records.records(arrays)


@functools.lru_cache(maxsize=2)
def _pieces(job: creation_job.Job) -> masking.Pieces:
    return masking.pieces_of(job.tokenizer)


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
        atomic_files.remove(f"{path}{record_metadata.SUFFIX}")
    settings = dataclasses.replace(
        job.settings,
        num_instances=sum(int(shard.split("-")[-2]) for shard in shards),
        num_bytes=tf.io.gfile.stat(path).length,
    )
    record_metadata.write(path, settings)
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
) -> tuple[pairing.Documents, pairing.Pairs]:
    """All documents of a unit, and its pairs in random order."""
    documents, pairs = [], []
    num_tokens = num_documents = 0
    for chunk in range(len(creation_job.load_plan(job).chunks(unit))):
        with tf.io.gfile.GFile(job.chunk_path(unit, chunk), "rb") as file:
            arrays = np.load(io.BytesIO(file.read()))
        documents.append(_from(pairing.Documents, arrays))
        pairs.append(_from(pairing.Pairs, arrays).moved(num_tokens, num_documents))
        num_tokens += len(documents[-1].tokens)
        num_documents += len(documents[-1])
    joined = pairing.join_pairs(pairs)
    order = np.random.default_rng(job.seed(1, unit)).permutation(len(joined))
    return pairing.join_documents(documents), joined.take(order)


def _from(kind: Any, arrays: Any) -> Any:
    return kind(*(arrays[field.name] for field in dataclasses.fields(kind)))
