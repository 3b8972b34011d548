"""Tests of batches.load with records of tests/tiny.py."""

import dataclasses
import types

import numpy as np
import pytest

from data_pipeline.pretraining import batches as record_batches
from data_pipeline.pretraining import masking, metadata
from tests import tiny

RULE = masking.Rule("word_piece", 0.3, 3)
VOCAB = [*tiny.SPECIAL, *tiny.FILLERS, *"abcdefghijklmnopqrstuvwxyz"]
TOKENIZER = types.SimpleNamespace(
    vocab=VOCAB,
    definition=lambda: VOCAB,
    vocab_size=len(VOCAB),
    do_lower_case=True,
    cls_id=2,
    sep_id=3,
    mask_id=4,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("records")
    tiny.write_records(path / "masked", tiny.records(12))
    for name, seed in (("plain", 0), ("order", 1)):
        tiny.write_records(path / name, tiny.records(8, seed, is_masked=False))
    known = metadata.Metadata(
        max_seq_length=16,
        max_predictions_per_seq=0,
        masking="none",
        masked_lm_prob=0.15,
        sentence_task="order",
        do_lower_case=True,
        vocab_size=len(VOCAB),
        vocab_digest=metadata.vocab_digest(VOCAB),
        dupe_factor=1,
        short_seq_prob=0.1,
        random_seed=1,
        num_instances=8,
        num_bytes=(path / "order").stat().st_size,
    )
    metadata.write(str(path / "order"), known)
    plain = (path / "plain").stat().st_size
    metadata.write(
        str(path / "plain"),
        dataclasses.replace(known, sentence_task="next", num_bytes=plain),
    )
    return path


@pytest.fixture
def load(directory):
    def load(tokenizer=TOKENIZER, *, asked=False, **names):
        return record_batches.load(
            {flag: str(directory / name) for flag, name in names.items()},
            tokenizer,
            RULE,
            max_seq_length=16,
            vocab_size=len(VOCAB),
            spare_rows=0,
            has_mask_flags=asked,
        )

    return load


def test_masked_records_are_read_as_they_are(load):
    data = load(None, input_file="masked")
    assert data.train == data.held_out and data.mask is None
    expected = tiny.records(12)
    (batch,) = data.evaluation_batches(12, 1)
    for name, values in expected.items():
        np.testing.assert_array_equal(np.asarray(batch[name]), np.squeeze(values))


def test_held_out_records_may_be_masked_where_the_others_are_not(load):
    data = load(input_file="plain", eval_input_file="masked")
    assert not data.train.has_masks and data.held_out.has_masks and data.mask
    (batch,) = data.evaluation_batches(12, 1)
    np.testing.assert_array_equal(batch["input_ids"], tiny.records(12)["input_ids"])


@pytest.mark.parametrize(
    ("names", "tokenizer", "asked", "message"),
    [
        ({"input_file": "masked"}, TOKENIZER, True, "are for records not masked yet"),
        ({"input_file": "plain"}, None, False, "set --vocab_file to the one"),
        (
            {"input_file": "plain", "eval_input_file": "order"},
            *(TOKENIZER, False),
            "--eval_input_file has records with sentence_task=order, --input_file with "
            "next",
        ),
    ],
    ids=["masked", "no vocabulary", "other task"],
)
def test_what_does_not_fit_is_refused(load, names, tokenizer, asked, message):
    with pytest.raises(ValueError, match=message):
        load(tokenizer, asked=asked, **names)


def test_digest_tells_records_apart(load):
    digests = [load(input_file=name).digest() for name in ("masked", "plain", "order")]
    assert digests[0].startswith("12 records, digest ") and len(set(digests)) == 3
    assert load(input_file="masked").digest() == digests[0]
