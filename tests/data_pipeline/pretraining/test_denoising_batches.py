"""Tests of data_pipeline/pretraining/denoising_batches.py."""

import functools

import numpy as np
import pytest

from contract import features
from data_pipeline.pretraining import batches as record_batches
from data_pipeline.pretraining import denoising_batches, metadata
from tests import byte_tokenizer
from tests.data_pipeline import tiny_records
from tests.data_pipeline.pretraining import text_records
from tests.data_pipeline.pretraining.batch_arrays import assert_equal, of_hosts, read

CLS, SEP, MASK = text_records.CLS, text_records.SEP, text_records.MASK
FIRST_WORD = text_records.FIRST_WORD
TOTAL, HELD_OUT = 29, 11
NAMES = (*features.ENCODER_INPUTS, *features.DECODER_INPUTS)


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch):
    monkeypatch.setattr(record_batches, "WINDOW_RECORDS", 8)


@pytest.fixture(scope="module")
def tokenizer():
    return text_records.tokenizer_of()


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("blocks")
    for i, (start, stop) in enumerate([(0, 9), (9, 13), (13, TOTAL)]):
        text_records.write(path / f"train-{i}", start, stop)
    text_records.write(path / "held_out", 40, 40 + HELD_OUT)
    return path


@pytest.fixture
def load(directory, tokenizer):
    def load(name="random_spans", *, most=text_records.LENGTH, given=tokenizer, **more):
        specs = more.pop("specs", None) or {
            "input_file": f"{directory}/train-*",
            "eval_input_file": f"{directory}/held_out",
        }
        rule = denoising_batches.rule(*([name] if isinstance(name, str) else name))
        return denoising_batches.load(
            specs,
            given,
            rule,
            max_seq_length=most,
            vocab_size=len(text_records.VOCAB),
            spare_rows=0,
            **more,
        )

    return load


def numbers(batch):
    """Which record each row is of, by the first word of its target, or None."""
    first = batch["labels"][:, 0]
    return [token - FIRST_WORD if token >= FIRST_WORD else None for token in first]


def differ(batches, wanted):
    """Whether each batch has other sources."""
    return all(
        np.any(batch["input_ids"] != other["input_ids"])
        for batch, other in zip(batches, wanted, strict=True)
    )


# What is in a batch.


def test_features_are_what_is_written_out(load):
    sets = load("infilling", tokens=features.DecoderTokens(30, 2, 7))
    batches = read(sets.training_batches(4, 3, 2, 10))
    assert len(batches) == 8
    for step, batch in enumerate(batches, 2):
        assert set(batch) == set(NAMES)
        drawn = np.random.default_rng([3, step]).random((4, 2, 18))
        for i, number in enumerate(numbers(batch)):
            text = [] if number is None else text_records.words(number)
            places, counts = denoising_batches.infilling(
                np.array([len(text)]), 0.3, 3.0, drawn[i : i + 1]
            )
            left = places[0, : counts[0]]
            hidden = [MASK if place < 0 else text[place] for place in left]
            zeros, padding = [0] * (18 - len(text)), [7] * (18 - len(text))
            shorter = 18 - len(hidden)
            wanted = {
                "input_ids": [CLS, *hidden, SEP, *[7] * shorter],
                "input_mask": [1] * (len(hidden) + 2) + [0] * shorter,
                "segment_ids": [0] * 20,
                "decoder_input_ids": [30, *text, *padding],
                "decoder_mask": [1] * (len(text) + 1) + zeros,
                "labels": [*text, 2, *padding],
            }
            assert {value.dtype for value in batch.values()} == {np.dtype(np.int32)}
            assert {name: batch[name][i].tolist() for name in batch} == wanted


# Batches of 4 end at 28 and 32 records, the first epoch at 29.
def test_resuming_continues_with_the_same_batches(load):
    sets = load("infilling")
    batches = read(sets.training_batches(4, 1, 0, 20))
    for step in (7, 19):
        later = read(sets.training_batches(4, 1, step, 20))
        assert_equal(later, batches[step:])
        assert differ(later[:-1], batches[step + 1 :])


# The shares of hosts.


@pytest.mark.slow
def test_shares_of_two_hosts_are_the_batches_of_one(load):
    sets = load("infilling")
    for make in (
        functools.partial(sets.training_batches, 16, 1, 3, 5),
        functools.partial(sets.evaluation_batches, 8, 2),
    ):
        assert_equal(of_hosts(make, 2), read(make()))


# Evaluation.


def test_evaluation_has_every_record_once_and_always_the_same_noise(load):
    sets = load()
    assert sets.num_evaluation_batches(4, None) == 3
    assert sets.num_evaluation_batches(4, 2) == 2
    batches = read(sets.evaluation_batches(4, 3))
    assert_equal(read(sets.evaluation_batches(4, 3)), batches)
    actual = {name: np.concatenate([b[name] for b in batches]) for name in NAMES}
    for row in range(12):
        words = [
            token
            for ids, mask in (("input_ids", "input_mask"), ("labels", "decoder_mask"))
            for token in text_records.unframed(actual[ids][[row]], actual[mask][[row]])[
                0
            ]
            if token >= FIRST_WORD
        ]
        wanted = sorted(text_records.words(40 + row)) if row < HELD_OUT else []
        assert sorted(words) == wanted
    for name in NAMES:  # a row that fills the last batch
        assert not actual[name][HELD_OUT].any()


# Lengths.


def test_too_long_records_are_refused_with_what_fits(load, directory):
    message = "records of 20 tokens do not fit; set --max_seq_length=18, or .* 13"
    with pytest.raises(ValueError, match=f"{directory}/train-0 and 2 more.*{message}"):
        load(most=12)


def test_held_out_records_may_be_of_another_length(load, directory, tmp_path):
    short = [
        {n: v[:12] for n, v in text_records.record(5 + 6 * i).items()} for i in (0, 1)
    ]
    about = {"max_seq_length": 12, "max_predictions_per_seq": 0, "masking": "none"}
    about |= {"sentence_task": "none", "vocab_size": len(text_records.VOCAB)}
    about["vocab_digest"] = metadata.vocab_digest(text_records.VOCAB)
    path = tiny_records.write(tmp_path / "short", short, about=about)
    specs = {"input_file": f"{directory}/train-*", "eval_input_file": path}
    sets = load("infilling", specs=specs)
    assert sets.train_corruptor.lengths == (20, 19)
    assert sets.held_out_corruptor.lengths == (12, 11)
    (batch,) = read(sets.evaluation_batches(2, 1))
    assert (batch["input_ids"].shape, batch["labels"].shape) == ((2, 12), (2, 11))


def test_record_of_text_alone_is_cut_to_what_others_hold(load):
    train = load("infilling").train_corruptor
    ids = np.arange(FIRST_WORD, FIRST_WORD + 20, dtype=np.int32)[np.newaxis]
    actual = train.features(ids, np.ones_like(ids), np.ones((1, 2, 18)))
    assert actual["input_mask"].shape == (1, 20)
    assert actual["labels"].tolist() == [[*ids[0, :18], SEP]]


# What is said of the records, and what is refused.


def test_description_names_lengths_and_sentinels(load, tokenizer):
    assert load().describe(tokenizer) == (
        "texts: up to 18 tokens; sources up to 18, targets up to 5; sentinels "
        "[unused25] to [unused25] (26 to 26)"
    )
    assert load("infilling").describe(tokenizer) == (
        "texts: up to 18 tokens; sources up to 20, targets up to 19"
    )


def test_pairs_and_masked_records_are_refused(load, tmp_path):
    pairs = text_records.write(tmp_path / "pairs", 0, 4, sentence_task="next")
    with pytest.raises(ValueError, match=r"are pairs \(sentence_task=next"):
        load(specs={"input_file": pairs})
    masked = tiny_records.write_numbered(tmp_path / "masked", 0, 4)
    with pytest.raises(ValueError, match="reads texts as they are, but the records of"):
        load(specs={"input_file": masked})


def test_vocabulary_has_to_be_that_of_the_records(load):
    for tokenizer in (None, byte_tokenizer.ByteTokenizer()):
        with pytest.raises(ValueError, match="set --vocab_file to the vocab"):
            load(given=tokenizer)
    vocab = [*text_records.VOCAB[:-1], "other"]
    with pytest.raises(ValueError, match="were made with another vocabulary"):
        load(given=text_records.tokenizer_of(vocab))


# The tokens that replace noise.


def noise_tokens(vocab, name="random_spans", width=100, **settings):
    rule = denoising_batches.rule(name, **settings)
    tokenizer = text_records.tokenizer_of(vocab)
    return denoising_batches.noise_tokens(tokenizer, rule, width)


def test_sentinels_are_unused_entries_counting_down():
    tokens = noise_tokens(text_records.VOCAB)
    assert tokens.sentinels.tolist() == [26, 25, 24, 23, 22]
    assert [text_records.VOCAB[i] for i in (26, 25)] == ["[unused25]", "[unused24]"]
    assert tokens.mask_id == MASK
    assert noise_tokens(text_records.VOCAB, "infilling").sentinels.size == 0
    # Where no entry is unused, they are the last ones.
    vocab = ["[PAD]", "[UNK]", "[SEP]", "a", "b", "c", "d", "e", "[CLS]", "f", "[MASK]"]
    tokens = noise_tokens(vocab, mean_noise_span_length=2.0, width=40)
    assert tokens.sentinels.tolist() == [9, 7, 6]
    message = r"300 tokens need 30 sentinels.* has 26; .*--num_unused_tokens"
    with pytest.raises(ValueError, match=message):
        noise_tokens(text_records.VOCAB, mean_noise_span_length=1.5, width=300)


def test_vocabulary_without_a_mask_is_refused_where_it_is_written():
    vocab = [token for token in text_records.VOCAB if token != "[MASK]"]
    with pytest.raises(ValueError, match=r"lacks \[MASK\]; give another --vocab_file"):
        noise_tokens(vocab, "infilling", 20)
    assert noise_tokens(vocab, "random_spans", 20).mask_id is None
