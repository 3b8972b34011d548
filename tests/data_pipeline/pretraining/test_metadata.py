"""What lies beside records, and what is said when it cannot be read."""

import dataclasses
import hashlib
import json
import os

import pytest

from data_pipeline.pretraining import metadata

EXAMPLE = metadata.Metadata(
    max_seq_length=128,
    max_predictions_per_seq=20,
    masking="word_piece",
    masked_lm_prob=0.15,
    sentence_task="next",
    do_lower_case=True,
    vocab_size=5,
    vocab_digest="0123456789abcdef",
    dupe_factor=10,
    short_seq_prob=0.1,
    random_seed=12345,
    num_instances=3,
    num_bytes=99,
)


def test_what_is_written_is_read(tmp_path):
    path = f"{tmp_path}/a.tfrecord"
    metadata.write(path, EXAMPLE)
    assert metadata.read(path) == EXAMPLE
    other = dataclasses.replace(EXAMPLE, masking="none", num_bytes=100)
    other = dataclasses.replace(other, mask_proportions=(1.0, 0.0, 0.0))
    metadata.write(path, other)
    assert metadata.read(path) == other != EXAMPLE
    assert os.listdir(tmp_path) == ["a.tfrecord.metadata.json"]


def test_file_is_json_that_people_read(tmp_path):
    metadata.write(f"{tmp_path}/a", EXAMPLE)
    text = (tmp_path / "a.metadata.json").read_text()
    said = dataclasses.asdict(EXAMPLE)
    assert json.loads(text) == said | {"mask_proportions": [0.8, 0.1, 0.1]}
    assert text.startswith('{\n  "max_seq_length": 128,\n') and text.endswith("\n}\n")


def test_records_of_the_original_have_none(tmp_path):
    assert metadata.read(f"{tmp_path}/a.tfrecord") is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "Expecting value"),
        ('{"max_seq_length": 1', "delimiter"),
        ("[]", "Metadata"),
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
    assert EXAMPLE.mask_proportions == (0.8, 0.1, 0.1)


def test_digest_is_of_all_tokens_in_order():
    digest = metadata.vocab_digest(["[PAD]", "海", "b"])
    assert digest == hashlib.sha256("[PAD]\n海\nb\n".encode()).hexdigest()[:16]
    assert metadata.vocab_digest(["b", "海", "[PAD]"]) != digest
    assert metadata.vocab_digest(["[PAD]", "海"]) != digest
    assert metadata.vocab_digest(["[PAD]", "海", "b", ""]) != digest
