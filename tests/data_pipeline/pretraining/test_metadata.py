"""Tests of data_pipeline/pretraining/metadata.py."""

import dataclasses
import hashlib
import json
import os
import pathlib

import pytest
import tensorflow as tf

from data_pipeline.pretraining import metadata
from tests.data_pipeline import tiny_records

SEQUENCE = tf.io.FixedLenFeature([8], tf.int64)
# run_pretraining.py, input_fn_builder, with 8 tokens and 2 predictions; but the label
# is read as one number, where the original has it as a vector of one.
ORIGINAL_SPEC = {
    "input_ids": SEQUENCE,
    "input_mask": SEQUENCE,
    "segment_ids": SEQUENCE,
    "masked_lm_positions": tf.io.FixedLenFeature([2], tf.int64),
    "masked_lm_ids": tf.io.FixedLenFeature([2], tf.int64),
    "masked_lm_weights": tf.io.FixedLenFeature([2], tf.float32),
    "next_sentence_labels": tf.io.FixedLenFeature([], tf.int64),
}


def error_of(path):
    """What `describe` complains about, without the file's name, which must be there."""
    with pytest.raises(ValueError) as raised:
        metadata.describe(str(path))
    text = str(raised.value)
    assert text.startswith(f"{path}") and "\n" not in text
    return text.replace(str(path), "FILE")


def test_spec_is_the_originals():
    assert metadata.spec(8, 2) == ORIGINAL_SPEC
    unmasked = metadata.spec(8, 0)
    assert set(ORIGINAL_SPEC) - set(unmasked) == set(metadata.PREDICTIONS)
    assert unmasked.items() <= ORIGINAL_SPEC.items()


def test_metadata_are_believed(tmp_path):
    path = tiny_records.write_numbered(tmp_path / "a", 0, 3, about={"masking": "span"})
    contents = metadata.describe(path)
    assert (contents.file, contents.count, contents.is_probed) == (path, 3, False)
    assert contents.known == vars(metadata.read(path))


@pytest.mark.parametrize("has_masks", [True, False])
def test_records_without_metadata_are_probed(tmp_path, has_masks):
    path = tiny_records.write_numbered(tmp_path / "a", 0, 7, has_masks=has_masks)
    known = {
        "max_seq_length": 8,
        "max_predictions_per_seq": 2 if has_masks else 0,
        "sentence_task": "next",
    }
    if not has_masks:
        known["masking"] = "none"
    splits = (0, pathlib.Path(path).stat().st_size)
    wanted = metadata.Contents(path, 7, known, splits, is_probed=True)
    assert metadata.describe(path) == wanted


def test_changed_size_is_refused(tmp_path):
    path = tiny_records.write_numbered(tmp_path / "a", 0, 3, about={})
    size = pathlib.Path(path).stat().st_size
    with open(path, "ab") as file:
        file.write(b"more")
    text = error_of(path)
    assert f"has {size + 4} bytes, not {size} as in FILE.metadata.json;" in text


def test_empty_file_is_refused_without_metadata(tmp_path):
    path = tiny_records.write(tmp_path / "a", [])
    assert "is empty" in error_of(path)
    tiny_records.write(path, [], about={})
    assert metadata.describe(path).count == 0


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a").write_text("This is plain text, not a record.\n")
    text = error_of(tmp_path / "a")
    assert "is no TFRecord file" in text and "copy the file again" in text


RECORD = tiny_records.values(1)


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        *(
            ({n: v for n, v in RECORD.items() if n != name}, f"has no {name} of kind")
            for name in ("input_ids", "segment_ids", *metadata.PREDICTIONS[::2])
        ),
        (b"\xff\xff not an example", "is no tf.train.Example"),
        (RECORD | {"input_mask": [1] * 7}, "has 7 values of input_mask, not 8"),
        (RECORD | {"masked_lm_ids": [1] * 3}, "has 3 values of masked_lm_ids, not 2"),
        (RECORD | {"next_sentence_labels": [0, 1]}, "has 2 values of next_sentence_l"),
    ],
)
def test_wrong_record_is_named(tmp_path, record, wanted):
    path = tiny_records.write(tmp_path / "a", [tiny_records.values(0), record])
    assert f"record 1 {wanted}" in error_of(path)


def test_lengths_of_records_must_be_one(tmp_path):
    longer = {
        name: items * 2 if len(items) == 8 else items
        for name, items in tiny_records.values(1).items()
    }
    path = tiny_records.write(tmp_path / "a", [tiny_records.values(0), longer])
    assert "values of input_ids: 8 in record 0, but 16 in record 1" in error_of(path)
    integers = tiny_records.values(1) | {"masked_lm_weights": [1, 0]}
    path = tiny_records.write(tmp_path / "a", [tiny_records.values(0), integers])
    text = "next_sentence_labels in record 0, but next_sentence_labels, integer weights"
    assert text in error_of(path)


@pytest.mark.parametrize("block", [8, 200])
def test_counting_walks_over_blocks(tmp_path, monkeypatch, block):
    monkeypatch.setattr(metadata, "_CHUNK_BYTES", block)
    path = tiny_records.write_numbered(tmp_path / "a", 0, 9)
    size = tiny_records.starts(path)[-1]
    assert size == pathlib.Path(path).stat().st_size
    monkeypatch.setattr(metadata, "BLOCK_RECORDS", 4)
    starts = tiny_records.starts(path)
    splits = (starts[0], starts[4], starts[8], size)
    assert metadata.count_records(path, size) == (9, splits)


@pytest.mark.parametrize("left", [7, 50])
def test_truncated_file_is_refused(tmp_path, left):
    path = tiny_records.write_numbered(tmp_path / "a", 0, 5)
    begin = tiny_records.starts(path)[3]
    data = pathlib.Path(path).read_bytes()
    pathlib.Path(path).write_bytes(data[: begin + left])
    assert (
        f"FILE: record 3, which begins at byte {begin}, goes beyond the end of the "
        f"file at byte {begin + left}" in error_of(path)
    )
    pathlib.Path(path).write_bytes(data[:begin])
    assert metadata.describe(path).count == 3


# The file of metadata.

EXAMPLE = metadata.Metadata(**tiny_records.METADATA, num_instances=3, num_bytes=99)


def test_what_is_written_is_read(tmp_path):
    assert EXAMPLE.mask_proportions == (0.8, 0.1, 0.1)
    path = f"{tmp_path}/a.tfrecord"
    metadata.write(path, EXAMPLE)
    assert metadata.read(path) == EXAMPLE
    other = dataclasses.replace(EXAMPLE, masking="none", num_bytes=100)
    other = dataclasses.replace(other, mask_proportions=(1.0, 0.0, 0.0))
    metadata.write(path, other)
    assert metadata.read(path) == other != EXAMPLE
    assert os.listdir(tmp_path) == ["a.tfrecord.metadata.json"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"max_seq_length": 1', "delimiter"),
        ("7", "Metadata"),
        ('{"max_seq_length": 128}', "missing"),
        (json.dumps(dataclasses.asdict(EXAMPLE) | {"new": 1}), "new"),
    ],
)
def test_damaged_file_is_refused(tmp_path, text, word):
    (tmp_path / "a.metadata.json").write_text(text)
    with pytest.raises(ValueError) as error:
        metadata.read(f"{tmp_path}/a")
    assert "a.metadata.json: cannot be read" in str(error.value)
    assert word in str(error.value) and "delete it" in str(error.value)


def test_records_of_before_the_flag_were_masked_as_by_default(tmp_path):
    text = dataclasses.asdict(EXAMPLE)
    del text["mask_proportions"]
    (tmp_path / "a.metadata.json").write_text(json.dumps(text))
    assert metadata.read(f"{tmp_path}/a") == EXAMPLE


def test_digest_is_of_all_tokens_in_order():
    digest = metadata.vocab_digest(["[PAD]", "海", "b"])
    assert digest == hashlib.sha256("[PAD]\n海\nb\n".encode()).hexdigest()[:16]
