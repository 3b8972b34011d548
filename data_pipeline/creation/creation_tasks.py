"""Pretraining records from a corpus, in tasks that any process can do in any order.

The ranges of the corpus are shuffled and gathered in units of some megabytes. A unit is
what the original's memory is to the original: second segments are drawn from its
documents, and its instances are shuffled. Its parts are tokenized and cut into pairs
(`cut`), then lanes of its shuffled pairs are masked and written to pieces of the output
files (`write`), and last the pieces of a file are joined (`assemble`).

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


def cut(job: creation_job.Job, unit: int, part: int) -> None:
    """Tokenizes the ranges of one part of a unit and cuts them into pairs."""
    path = job.part_path(unit, part)
    if tf.io.gfile.exists(path) or is_written(job, unit):
        return
    plan, settings = creation_job.load_plan(job), job.settings
    lines: list[bytes] = []
    for index in plan.parts(unit)[part]:
        lines += plan.text.read(int(index)).split(b"\n")
        lines.append(b"")  # a range ends a document
    documents = pairing.read_documents(lines, job.tokenizer)
    pairs = pairing.cut(
        documents,
        sentence_task=settings.sentence_task,
        max_seq_length=settings.max_seq_length,
        short_seq_prob=settings.short_seq_prob,
        passes=settings.dupe_factor,
        seed=f"{settings.random_seed} {unit} {part}",
    )
    buffer = io.BytesIO()
    np.savez(buffer, **_fields(documents), **_fields(pairs))  # type: ignore[arg-type]
    atomic_files.write_bytes(path, buffer.getvalue(), shared=True)


def write(job: creation_job.Job, unit: int, lane: int) -> dict[str, int]:
    """Masks and writes a share of the pairs of a unit; all its parts must be cut.

    Returns:
        COUNTS of what is written; documents, sentences and tokens are those of the
        unit and are counted by its lane 0.
    """
    marker = job.lane_path(unit, lane)
    if tf.io.gfile.exists(marker):
        return atomic_files.read_json(marker)
    documents, pairs = _load_unit(job, unit)
    indices = np.arange(len(pairs))
    rng = np.random.default_rng(job.seed(2, unit, lane))
    files, share, shares = job.lane(lane)
    result = dict.fromkeys(COUNTS, 0)
    if lane == 0:
        result["documents"] = len(documents)
        result["sentences"] = len(documents.sentence_ends) - 1
        result["tokens"] = len(documents.tokens)
    for file in files:
        chosen = np.array_split(indices[file :: len(job.output_files)], shares)[share]
        path = job.piece_path(file, unit, share, len(chosen))
        with (
            atomic_files.replacing(path, shared=True) as (temporary,),
            tf.io.TFRecordWriter(temporary) as writer,
        ):
            for start in range(0, len(chosen), BATCH_ROWS):
                batch = pairs.take(chosen[start : start + BATCH_ROWS])
                for record in make_records(job, batch, documents, rng):
                    writer.write(record)
        result["instances"] += len(chosen)
    atomic_files.write_json(marker, result, shared=True)
    return result


def write_unit(job: creation_job.Job, unit: int) -> None:
    """All of one unit, for engines that give every task to another machine."""
    for part in range(len(creation_job.load_plan(job).parts(unit))):
        cut(job, unit, part)
    for lane in range(job.num_lanes):
        write(job, unit, lane)
    forget_parts(job, unit)


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
        arrays |= masking.mask(input_ids, lengths, rule, _pieces(job), rng)
    return tf_records.records(arrays)


@functools.lru_cache(maxsize=2)
def _pieces(job: creation_job.Job) -> masking.Pieces:
    return masking.pieces_of(job.tokenizer)


def forget_parts(job: creation_job.Job, unit: int) -> None:
    """Removes what `cut` left of a unit of which every lane is written."""
    for part in range(len(creation_job.load_plan(job).parts(unit))):
        atomic_files.remove(job.part_path(unit, part))


def is_written(job: creation_job.Job, unit: int) -> bool:
    """Whether every lane of a unit is written, so that its parts are not needed."""
    lanes = range(job.num_lanes)
    return all(tf.io.gfile.exists(job.lane_path(unit, lane)) for lane in lanes)


def assemble(job: creation_job.Job, file: int) -> None:
    """Joins the pieces of one output file, and writes its metadata."""
    if tf.io.gfile.exists(job.file_path(file)):
        return
    path, directory = job.output_files[file], job.pieces_dir(file)
    pieces = sorted(
        name
        for name in tf.io.gfile.listdir(directory)
        if name.endswith(creation_job.PIECE_SUFFIX)
    )
    with atomic_files.replacing(path, shared=True) as (temporary,):
        with tf.io.gfile.GFile(temporary, "wb") as sink:
            sink.write(b"")  # without any writing there would be no file
            for piece in pieces:
                with tf.io.gfile.GFile(os.path.join(directory, piece), "rb") as source:
                    while block := source.read(_COPY_BYTES):
                        sink.write(block)
        # Before the records take their name, so that no metadata lies beside others.
        atomic_files.remove(f"{path}{record_metadata.SUFFIX}")
    settings = dataclasses.replace(
        job.settings,
        num_instances=sum(int(piece.split("-")[-2]) for piece in pieces),
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


def _fields(instance: Any) -> dict[str, np.ndarray]:
    return {f.name: getattr(instance, f.name) for f in dataclasses.fields(instance)}


@functools.lru_cache(maxsize=1)  # a worker writes several lanes of a unit
def _load_unit(
    job: creation_job.Job, unit: int
) -> tuple[pairing.Documents, pairing.Pairs]:
    """All documents of a unit, and its pairs in random order."""
    parts, pairs = [], []
    num_tokens = num_documents = 0
    for part in range(len(creation_job.load_plan(job).parts(unit))):
        with tf.io.gfile.GFile(job.part_path(unit, part), "rb") as file:
            arrays = np.load(io.BytesIO(file.read()))
        documents = _from(pairing.Documents, arrays)
        pairs.append(_from(pairing.Pairs, arrays).moved(num_tokens, num_documents))
        parts.append(documents)
        num_tokens += len(documents.tokens)
        num_documents += len(documents)
    joined = pairing.join_pairs(pairs)
    order = np.random.default_rng(job.seed(1, unit)).permutation(len(joined))
    return pairing.join_documents(parts), joined.take(order)


def _from(kind: Any, arrays: Any) -> Any:
    return kind(*(arrays[field.name] for field in dataclasses.fields(kind)))
