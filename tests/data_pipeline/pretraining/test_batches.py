"""Tests of data_pipeline/pretraining/batches.py."""

import dataclasses
import functools
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.pretraining import batches as record_batches
from data_pipeline.pretraining import masking
from data_pipeline.pretraining import source as source_lib
from data_pipeline.text import wordpiece
from tests.data_pipeline import tiny_records
from tests.data_pipeline.pretraining.batch_arrays import assert_equal, of_hosts, read

COUNTS = (9, 4, 7, 3, 6)
TOTAL = sum(COUNTS)
GIVEN = {
    "max_seq_length": tiny_records.LENGTH,
    "max_predictions_per_seq": tiny_records.PREDICTIONS,
    "vocab_size": len(tiny_records.VOCAB),
    "spare_rows": 7,
}


def sets(source, mask=None):
    return record_batches.RecordSets(source, source, mask)


def training_batches(source, *order, mask=None, context=source_lib.ONE_HOST):
    return sets(source, mask).training_batches(*order, context)


def evaluation_batches(source, *sizes, mask=None, context=source_lib.ONE_HOST):
    return sets(source, mask).evaluation_batches(*sizes, context)


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch):
    monkeypatch.setattr(record_batches, "WINDOW_RECORDS", 8)


def write_source(directory, about=None, has_masks=True):
    """Five files of records numbered from 0 to 28, opened."""
    ends = [0, *np.cumsum(COUNTS).tolist()]
    paths = [
        tiny_records.write_numbered(
            directory / f"part-{i}", *ends[i : i + 2], about=about, has_masks=has_masks
        )
        for i in range(len(COUNTS))
    ]
    return source_lib.check_records(paths, **GIVEN)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_source(tmp_path_factory.mktemp("masked"))


@pytest.fixture(scope="module")
def unmasked(tmp_path_factory):
    return write_source(tmp_path_factory.mktemp("unmasked"), has_masks=False)


def train(source, num_steps, *, seed=1, start_step=0, batch_size=4, mask=None):
    order = batch_size, seed, start_step, num_steps
    return read(training_batches(source, *order, mask=mask))


def numbers(batches):
    actual = [tiny_records.number_of(batch["input_ids"]) for batch in batches]
    return np.concatenate(actual).tolist()


@pytest.fixture(scope="module")
def thirty(source):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batches, "WINDOW_RECORDS", 8)
        return train(source, 30)


def test_batches_hold_the_records(thirty):
    for batch in thirty:
        for name, value in batch.items():
            is_float = name == "masked_lm_weights"
            assert value.dtype == (np.float32 if is_float else np.int32)
        for i, number in enumerate(tiny_records.number_of(batch["input_ids"])):
            wanted = tiny_records.values(number)
            (wanted["next_sentence_labels"],) = wanted["next_sentence_labels"]
            assert {name: value[i].tolist() for name, value in batch.items()} == wanted


# Batches of 4 end at 28 and 32 records, the first epoch at 29, windows of it at 8, 16
# and 24.
@pytest.mark.parametrize("step", [3, 8, 30])
def test_resuming_continues_with_the_same_batches(source, thirty, step):
    later = train(source, 32, start_step=step)
    assert len(later) == 32 - step
    if step < 30:
        assert_equal(later[:-2], thirty[step:])
        assert numbers(later[:-3]) != numbers(thirty[step + 1 :])


# The shares of hosts.


def host(number, hosts):
    return tf.distribute.InputContext(hosts, number, num_replicas_in_sync=hosts)


def real_mask(input_ids, lengths, rows, batch_size, rng):
    """As RecordSets masks, words in runs."""
    rule = masking.Rule("span", 0.3, tiny_records.PREDICTIONS)
    pieces = masking.MaskingVocab(2, 3, 4, 20, np.arange(20) >= 20)
    draws = masking.draw((batch_size, tiny_records.LENGTH), rule, pieces, rng)
    return masking.mask(input_ids, lengths, rule, pieces, draws.take(rows))


@pytest.mark.slow
def test_shares_of_all_hosts_are_the_batches_of_one(unmasked):
    def alone(input_ids, lengths, rows, batch_size, rng):
        """Draws for the rows of one host as if they were the batch."""
        return real_mask(input_ids, lengths, slice(0, len(lengths)), len(lengths), rng)

    with pytest.raises(ValueError, match="batch of 7 rows: no equal shares for 2"):
        training_batches(unmasked, 7, 1, 0, 1, context=host(0, 2))
    for make in (
        functools.partial(training_batches, unmasked, 64, 1, 3, 5),
        functools.partial(evaluation_batches, unmasked, 64, 2),
    ):
        whole = read(make(mask=real_mask))
        assert_equal(of_hosts(functools.partial(make, mask=real_mask), 4), whole)
        for batch, other in zip(
            of_hosts(functools.partial(make, mask=alone), 2), whole, strict=True
        ):
            np.testing.assert_array_equal(batch["input_mask"], other["input_mask"])
            name = "masked_lm_positions"
            assert np.any(batch[name][32:] != other[name][32:])


def draws(source, start=0, context=source_lib.ONE_HOST, seed=3):
    drawing = dataclasses.replace(sets(source), has_draws=True)
    batches = read(drawing.training_batches(6, seed, start, 9, context))
    return np.stack([batch["generator_draws"] for batch in batches])


@pytest.mark.slow
def test_draws_belong_to_the_rows_of_a_step(source):
    """Whichever host has them, and wherever a run begins; here for 9 steps."""
    whole = draws(source)
    assert (
        whole.shape[:2] == (9, 6) and whole.shape[2] == source.max_predictions_per_seq
    )
    assert whole.min() >= 0 and whole.max() < 1
    assert len(np.unique(whole)) > 0.99 * whole.size
    halves = [draws(source, 0, tf.distribute.InputContext(2, i)) for i in (0, 1)]
    np.testing.assert_array_equal(np.concatenate(halves, axis=1), whole)
    np.testing.assert_array_equal(draws(source, 5), whole[5:])
    assert np.abs(draws(source, seed=4) - whole).mean() > 0.2
    assert "generator_draws" not in read(training_batches(source, 6, 3, 0, 1))[0]
    # An evaluation has the same each time.
    drawing = dataclasses.replace(sets(source), has_draws=True)
    first, second = (read(drawing.evaluation_batches(6, 2)) for _ in range(2))
    for name in ("generator_draws", "input_ids"):
        for one, other in zip(first, second, strict=True):
            np.testing.assert_array_equal(one[name], other[name])
    assert np.abs(first[0]["generator_draws"] - first[1]["generator_draws"]).max() > 0.1


@pytest.mark.slow
def test_names_of_a_batch_are_the_places_of_its_records(source):
    """The first epoch ends within the fourth step, and the second within the eighth."""
    absent = dataclasses.replace(source, files=("a", "b", "c", "d", "e"))
    places = [
        f"{file}:{number}"
        for file, count in zip(absent.files, COUNTS, strict=True)
        for number in range(count)
    ]
    every = []
    for step, batch in enumerate(train(source, 10, batch_size=7)):
        names = sets(absent).batch_names(batch_size=7, seed=1, step=step)
        every += [places.index(name) for name in names]
        assert every[-7:] == numbers([batch])
    assert sorted(every[:TOTAL]) == sorted(every[TOTAL : 2 * TOTAL]) == [*range(TOTAL)]
    assert every[:TOTAL] != every[TOTAL : 2 * TOTAL]


# Masking while training.


def random_mask(input_ids, lengths, rows, batch_size, rng):
    """Hides the second token, and predicts one that nobody can know."""
    assert input_ids.dtype == lengths.dtype == np.int32
    np.testing.assert_array_equal(lengths, np.count_nonzero(input_ids, axis=1))
    hidden = input_ids.copy()
    hidden[:, 3] = 4
    drawn = rng.integers(1000, size=(batch_size, 2), dtype=np.int32)[rows]
    return {
        "input_ids": hidden,
        "masked_lm_positions": np.full_like(drawn, 3),
        "masked_lm_ids": drawn,
        "masked_lm_weights": np.ones(drawn.shape, np.float32),
    }


def test_unmasked_records_are_masked(unmasked, thirty):
    batches = train(unmasked, 30, mask=random_mask)
    assert numbers(batches) == numbers(thirty)
    for batch in batches:
        assert set(batch) == set(thirty[0])
        assert (batch["masked_lm_positions"] == 3).all()
        assert (batch["input_ids"][:, 3] == 4).all()
    assert len({str(batch["masked_lm_ids"]) for batch in batches}) == 30
    resumed = train(unmasked, 30, start_step=26, mask=random_mask)
    assert_equal(resumed, batches[26:])
    other = train(unmasked, 2, seed=2, mask=random_mask)
    assert np.any(other[0]["masked_lm_ids"] != batches[0]["masked_lm_ids"])


# Evaluation.


def evaluate(source, num_batches, batch_size=4):
    return read(evaluation_batches(source, batch_size, num_batches))


def test_evaluation_is_in_the_order_of_the_files(source):
    batches = evaluate(source, 9)
    assert numbers(batches) == [i % TOTAL for i in range(36)]
    assert batches[0]["masked_lm_ids"].tolist() == [[5, 0], [6, 0], [7, 0], [8, 0]]
    assert batches[1]["next_sentence_labels"].tolist() == [0, 1, 0, 1]


def test_recorded_file_of_the_original(shared_file):
    path = str(shared_file("golden/pretraining/original.tfrecord"))
    given = {"max_seq_length": 128, "max_predictions_per_seq": 20}
    original = source_lib.check_records([path], **given, vocab_size=30522)
    wanted = [
        tf.train.Example.FromString(record.numpy()).features.feature
        for record in tf.data.TFRecordDataset(path).take(6)
    ]
    batches = evaluate(original, 2, batch_size=3)
    for i, features in enumerate(wanted):
        for name, value in batches[i // 3].items():
            feature = features[name]
            items = feature.float_list.value or feature.int64_list.value
            assert np.atleast_1d(value[i % 3]).tolist() == list(items)
    assert batches[0]["input_ids"][0, 0] == 101  # [CLS]
    assert original.counts == (400,)


# Files that are damaged where nothing was looked at.


def copied(source, directory):
    """A source whose files may be changed."""
    files = [directory / pathlib.Path(path).name for path in source.files]
    for path, copy in zip(source.files, files, strict=True):
        copy.write_bytes(pathlib.Path(path).read_bytes())
    return dataclasses.replace(source, files=tuple(map(str, files)))


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[-30] ^= 1
    path.write_bytes(data)


def write_record(record):
    return lambda path: tiny_records.write(path, [tiny_records.values(2), record])


DAMAGED = ": damaged between records 0 and 1023 ("


@pytest.mark.parametrize(
    ("damage", "kind", "message"),
    [
        (flip_a_bit, tf.errors.DataLossError, f"{DAMAGED}corrupted re"),
        (write_record(b"\xff\xfe\xff\xff" * 9), UnicodeDecodeError, DAMAGED),
        (write_record(b"plain text"), tf.errors.InvalidArgumentError, DAMAGED),
        (write_record(b""), tf.errors.InvalidArgumentError, DAMAGED),
        (pathlib.Path.unlink, tf.errors.NotFoundError, ": is gone; copy"),
    ],
)
def test_file_that_cannot_be_read_is_named(tmp_path, source, damage, kind, message):
    changed = copied(source, tmp_path)
    damage(pathlib.Path(changed.files[1]))
    with pytest.raises(kind) as raised:
        evaluate(changed, 7)
    text = sets(changed).explain(raised.value)
    assert text.startswith(f"{changed.files[1]}{message}")
    assert text.endswith("; copy the file again, or make it again")
    assert sets(source).explain(raised.value) is None  # these files are whole


def test_other_errors_are_not_explained_by_files(source):
    for error in (
        tf.errors.InvalidArgumentError(None, None, "indices[0] = 99 is not in"),
        tf.errors.DataLossError(None, None, "of a disk that is well again"),
    ):
        assert sets(source).explain(error) is None


# Left to right.


@pytest.fixture(scope="module")
def left_to_right(tmp_path_factory):
    text = {"num_predictions": 10, "num_words": 7, "num_text_bytes": 30}
    plain = {"masking": "none", "max_predictions_per_seq": 0, **text}
    path = tmp_path_factory.mktemp("left")
    files = write_source(path, about=plain, has_masks=False).files
    return source_lib.check_records(files, **GIVEN, is_masked=False)


def test_left_to_right_an_evaluation_has_every_record_once(left_to_right):
    most = sets(left_to_right).num_evaluation_batches(8, None)
    assert most == 4  # 29 records
    batches = read(evaluation_batches(left_to_right, 8, most))
    is_real = [batch["input_mask"].any(axis=1) for batch in batches]
    actual = np.array(numbers(batches))[np.concatenate(is_real)]
    assert actual.tolist() == [*range(TOTAL)]
    assert [int(real.sum()) for real in is_real] == [8, 8, 8, 5]
    assert {batch["input_ids"].shape for batch in batches} == {(8, 8)}
    assert sets(left_to_right).num_evaluation_batches(8, 3) == 3
    assert sets(left_to_right).num_evaluation_batches(8, 100) == 4
    assert_equal(read(evaluation_batches(left_to_right, 8, 100)), batches)
    counts = left_to_right.num_predictions, left_to_right.num_words
    assert (*counts, left_to_right.num_text_bytes) == (50, 35, 150)


@pytest.mark.slow
@pytest.mark.parametrize("is_masked_already", [True, False])
def test_all_masked_records_count_once(source, unmasked, is_masked_already):
    records, mask = (source, None) if is_masked_already else (unmasked, random_mask)
    make = functools.partial(evaluation_batches, records, 8, None, mask=mask)
    batches = read(make())
    repeated = read(evaluation_batches(records, 8, 4, mask=mask))
    assert_equal(batches[:3], repeated[:3])
    last, other = batches[3], repeated[3]
    assert other["masked_lm_weights"].any(axis=1).all()
    for name in ("masked_lm_weights", "next_sentence_labels"):
        np.testing.assert_array_equal(last[name][:5], other[name][:5])
    assert not last["masked_lm_weights"][5:].any()
    assert not last["input_mask"][5:].any() and other["input_mask"][5:].any()
    np.testing.assert_array_equal(last["input_mask"][:5], other["input_mask"][:5])
    assert last["next_sentence_labels"][5:].tolist() == [-1] * 3
    assert_equal(of_hosts(make, 2), batches)


# Opening.


@pytest.fixture
def load(source):
    def load(tokenizer=None, *, has_mask_flags=False, **files):
        return record_batches.load(
            {
                flag: source.files[0] if f == "masked" else f
                for flag, f in files.items()
            },
            tokenizer,
            masking.Rule("word_piece", 0.3, tiny_records.PREDICTIONS),
            max_seq_length=tiny_records.LENGTH,
            vocab_size=len(tiny_records.VOCAB),
            spare_rows=0,
            has_mask_flags=has_mask_flags,
        )

    return load


@pytest.fixture(scope="module")
def tokenizer():
    return wordpiece.BertTokenizer(tiny_records.VOCAB)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Files of unmasked records, by their sentence task."""
    path = tmp_path_factory.mktemp("plain")
    settings = {"masking": "none", "max_predictions_per_seq": 0}
    return {
        task: tiny_records.write_numbered(
            *(path / task, 0, 8),
            about={**settings, "sentence_task": task},
            has_masks=False,
        )
        for task in ("next", "order")
    }


def test_held_out_records_may_be_masked_where_the_others_are_not(
    load, tokenizer, plain
):
    data = load(tokenizer, input_file=plain["next"], eval_input_file="masked")
    assert not data.train.has_masks and data.held_out.has_masks
    (batch,) = data.evaluation_batches(4, 1)
    assert tiny_records.number_of(batch["input_ids"]).tolist() == [0, 1, 2, 3]
    (batch,) = data.training_batches(8, 1, 0, 1)
    assert (batch["input_ids"].numpy() == 4).any()  # [MASK]
    both = load(input_file="masked")
    assert both.train == both.held_out and both.mask is None


def test_records_that_cannot_be_masked_are_refused(load, tokenizer, plain):
    for message, arguments, files in (
        (
            "are masked already; leave out --masking",
            {"has_mask_flags": True},
            ["masked"],
        ),
        ("set --vocab_file", {"tokenizer": None}, [plain["next"]]),
        (
            "--eval_input_file has records with sentence_task=order, --input_file with "
            "next",
            {},
            [plain["next"], plain["order"]],
        ),
    ):
        flags = dict(zip(("input_file", "eval_input_file"), files, strict=False))
        with pytest.raises(ValueError, match=message):
            load(**{"tokenizer": tokenizer, **arguments}, **flags)


@pytest.mark.slow
def test_unmasked_records_need_a_mask(unmasked):
    with pytest.raises(ValueError, match="--vocab_file") as raised:
        train(unmasked, 3)
    assert f"{unmasked.files[0]} and 4 more hold unmasked" in str(raised.value)
