"""Tests of data_pipeline/pretraining/denoising/special_entries.py."""

import pytest

from data_pipeline.pretraining.denoising import batches as denoising_batches
from data_pipeline.pretraining.denoising import corruptions
from tests import byte_tokenizer
from tests.data_pipeline.pretraining.denoising import text_records

SPANS = corruptions.rule("random_spans")


def entries_of(vocab, name="random_spans", width=100, **settings):
    rule = corruptions.rule(name, **settings)
    return denoising_batches.noise_tokens(text_records.tokenizer_of(vocab), rule, width)


def test_sentinels_are_unused_entries_counting_down():
    found = entries_of(text_records.VOCAB)
    assert found.sentinels.tolist() == [26, 25, 24, 23, 22]
    assert [text_records.VOCAB[i] for i in found.sentinels[:2]] == [
        "[unused25]",
        "[unused24]",
    ]
    assert (found.mask_id, found.vocab_size) == (
        text_records.MASK,
        len(text_records.VOCAB),
    )


def test_sentinels_are_the_last_entries_where_none_is_unused():
    vocab = ["[PAD]", "[UNK]", "[SEP]", "a", "b", "c", "d", "e", "[CLS]", "f", "[MASK]"]
    found = entries_of(vocab, noise_density=0.12, width=33)
    assert found.sentinels.tolist() == [9]
    found = entries_of(vocab, mean_noise_span_length=2.0, width=40)
    assert found.sentinels.tolist() == [9, 7, 6]


def test_no_sentinel_is_taken_where_none_is_needed():
    for name in ("bert", "mass", "drop", "infilling"):
        assert entries_of(text_records.VOCAB, name).sentinels.size == 0


def test_too_few_sentinels_are_refused():
    with pytest.raises(ValueError) as raised:
        entries_of(text_records.VOCAB, "replace_spans")
    text = str(raised.value)
    assert text.startswith(
        "--corruption=replace_spans needs 38 sentinels for texts of up to 100 tokens, "
        "but the vocabulary has 26 [unused] entries; set --corruption=random_spans"
    )
    assert len(entries_of(text_records.VOCAB, "replace_spans", 50).sentinels) == 24


@pytest.mark.parametrize("name", corruptions.CORRUPTIONS)
def test_vocabulary_without_a_mask_is_refused_where_it_is_written(name):
    vocab = [token for token in text_records.VOCAB if token != "[MASK]"]
    if name in ("bert", "mass", "infilling"):
        with pytest.raises(
            ValueError, match=f"lacks .MASK., which --corruption={name}"
        ):
            entries_of(vocab, name, 20)
    else:
        assert entries_of(vocab, name, 20).mask_id is None


def test_sources_stand_between_the_tokens_of_bert():
    found = denoising_batches.around_source(text_records.tokenizer_of())
    assert found == (text_records.CLS, text_records.SEP)


@pytest.mark.parametrize("tokenizer", [None, byte_tokenizer.ByteTokenizer()])
def test_vocabulary_of_word_pieces_is_needed(tokenizer):
    with pytest.raises(ValueError, match="set --vocab_file to a "):
        denoising_batches.around_source(tokenizer)
