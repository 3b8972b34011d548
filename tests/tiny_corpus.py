"""A text in which every word occurs once, and the script that makes records of it.

So each token of a record says which document and which sentence it comes from.
"""

import contextlib
import dataclasses
import importlib
import os
import pathlib
import random

import numpy as np
import pytest

from data_pipeline import engines
from data_pipeline.pretraining import metadata
from data_pipeline.pretraining.creation import job as creation_job
from data_pipeline.pretraining.creation import runners
from tests import tiny

SCRIPT = "create_pretraining_data"
NUM_WORDS = 3000
VOCAB = [*tiny.SPECIAL, "##x", "##y", *(f"w{i}" for i in range(NUM_WORDS))]
FIRST_PIECE = len(tiny.SPECIAL)
FIRST_WORD = len(VOCAB) - NUM_WORDS
# So small that the text has several units, each of several chunks.
SIZES = {
    "data_pipeline.vocabularies.byte_ranges.RANGE_BYTES": 512,
    "data_pipeline.pretraining.creation.job.UNIT_BYTES": 4096,
    "data_pipeline.pretraining.creation.job.CHUNK_BYTES": 1024,
}
SETTINGS = metadata.Metadata(
    max_seq_length=32,
    max_predictions_per_seq=5,
    masking="word_piece",
    masked_lm_prob=0.15,
    sentence_task="next",
    do_lower_case=True,
    vocab_size=len(VOCAB),
    vocab_digest=metadata.vocab_digest(VOCAB),
    dupe_factor=2,
    short_seq_prob=0.1,
    random_seed=12345,
)
UNMASKED = {"masking": "none", "max_predictions_per_seq": 0, "masked_lm_prob": 0.0}
LEFT_TO_RIGHT = dataclasses.replace(
    SETTINGS,
    objective="left_to_right",
    sentence_task="none",
    dupe_factor=1,
    short_seq_prob=0.0,
    **UNMASKED,
)


def documents(count=50, seed=0):
    """Lists of sentences; the words count upwards, some of them of two pieces."""
    rng, number, actual = random.Random(seed), 0, []
    for _ in range(count):
        sentences = []
        for _ in range(rng.randint(1, 12)):
            words = []
            for _ in range(rng.randint(1, 14)):
                words.append(f"w{number}" + rng.choice(["", "", "", "x", "y"]))
                number += 1
            sentences.append(" ".join(words))
        actual.append(sentences)
    assert number <= NUM_WORDS
    return actual


def text(actual):
    return "\n\n".join("\n".join(sentences) for sentences in actual) + "\n"


def write(directory, count=50):
    directory = pathlib.Path(directory)
    (directory / "text.txt").write_text(text(documents(count)))
    (directory / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCAB))
    return directory


def job_of(settings, source, place, count=1, **changes):
    """A creation_job.Job on what `write` wrote, with changes to metadata's."""
    return creation_job.Job(
        input_files=(f"{source}/text.txt",),
        output_files=tuple(f"{place}/{i}.tfrecord" for i in range(count)),
        vocab_file=f"{source}/vocab.txt",
        settings=dataclasses.replace(settings, **changes),
    )


def run(job, executor=None):
    """Runs a job in this process; returns its totals."""
    executor = executor or engines.InThisProcess()
    return runners.run_local(job, executor, 1, lambda *_, **__: None)


@contextlib.contextmanager
def tokenized_by(tokenizer):
    """All jobs have this tokenizer for as long as the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(creation_job, "load_tokenizer", lambda *_: tokenizer)
        yield


def arguments(directory, output="out.tfrecord", **flags):
    directory = pathlib.Path(directory)
    flags = {
        "input_file": directory / "text.txt",
        "vocab_file": directory / "vocab.txt",
        "output_file": ",".join(str(directory / name) for name in output.split(",")),
        "max_seq_length": 32,
        "max_predictions_per_seq": 5,
        "dupe_factor": 3,
        "num_workers": 1,
        **flags,
    }
    return [f"--{name}={value}" for name, value in flags.items() if value is not None]


@contextlib.contextmanager
def sizes(changes):
    """Sets constants by their dotted names for a while."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changes.items():
            module, constant = name.rsplit(".", 1)
            patch.setattr(importlib.import_module(module), constant, value)
        yield


def create(directory, *, small=True, **flags):
    """Runs the script in this process."""
    with sizes(SIZES if small else {}):
        return tiny.run_script(SCRIPT, *arguments(directory, **flags))


def raw(*paths):
    """The serialized records of files, in order."""
    import tensorflow as tf

    return list(tf.data.TFRecordDataset([str(p) for p in paths]).as_numpy_iterator())


def parse(records):
    """{feature: [N, L]} of serialized records."""
    import tensorflow as tf

    actual = {}
    for record in records:
        for name, value in tf.train.Example.FromString(record).features.feature.items():
            numbers = value.int64_list.value or value.float_list.value
            actual.setdefault(name, []).append(np.array(numbers))
    return {name: np.stack(values) for name, values in actual.items()}


def restored(actual):
    """input_ids of parsed records with what was hidden back in place."""
    ids = actual["input_ids"].copy()
    row, column = np.nonzero(actual["masked_lm_weights"])
    places = actual["masked_lm_positions"][row, column]
    ids[row, places] = actual["masked_lm_ids"][row, column]
    return ids


def listing(directory):
    """The names in a directory, without the input."""
    return sorted(set(os.listdir(directory)) - {"text.txt", "vocab.txt"})
