import itertools

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.tagging import graph, schemes
from data_pipeline.text import wordpiece

TOKENIZER = wordpiece.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"])


def test_text_is_split_at_white_space_and_punctuation():
    texts = [
        "Mira's bus, 3.50$!",
        "",
        " \t\u3000\x85",
        "Zoë\u2003中文a\nb",
        b"\xffa\xe6\x9d b",
        "a\u200bb a\u0301\u00ad A_b",
    ]
    columns = graph.split_words(tf.constant(texts))
    words = [[w.decode() for w in row if w] for row in columns["words"].numpy()]
    assert words == [
        ["Mira", "'", "s", "bus", ",", "3", ".", "50", "$", "!"],
        [],
        [],
        ["Zoë", "中", "文", "a", "b"],
        ["a", "b"],
        ["a\u200bb", "a\u0301\u00ad", "A", "_", "b"],
    ]
    for i, text in enumerate(texts):
        text = text if isinstance(text, str) else text.decode(errors="ignore")
        starts, ends = (columns[n][i].numpy().tolist() for n in ("starts", "ends"))
        count = len(words[i])
        places = zip(starts[:count], ends[:count], strict=True)
        assert [text[start:end] for start, end in places] == words[i]
        assert set(starts[count:]) | set(ends[count:]) <= {-1}


def names_of(scheme):
    if scheme == schemes.PLAIN:
        return ("NOUN", "VERB", "O")
    return ("PAD", *schemes.all_tags(["", "x", "y"], scheme))


def choose(tag_set, ids, lengths):
    """Tags and probabilities of sentences whose words have these likeliest tags."""
    splits = np.cumsum([0, *lengths])
    longest = max(lengths)
    rows = [["a"] * length + [""] * (longest - length) for length in lengths]
    windows = graph.encoder(TOKENIZER, max_seq_length=2 + longest)(tf.constant(rows))
    logits = np.random.default_rng(1).uniform(
        0, 1, [*windows.features["input_ids"].shape, len(tag_set.names)]
    )
    window, place = windows.outputs.numpy().T
    logits[window, place, ids] += 2
    chosen = graph.chooser(tag_set)(windows, tf.constant(logits, tf.float32))
    weights = np.exp(logits[window, place])
    probabilities = weights.max(axis=1) / weights.sum(axis=1)
    return (
        [
            [tag.decode() for tag in row[:length]]
            for row, length in zip(chosen["tags"].numpy(), lengths, strict=True)
        ],
        chosen,
        [probabilities[a:b] for a, b in itertools.pairwise(splits)],
    )


@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_tags_are_repaired_by_their_scheme(scheme):
    tag_set = schemes.TagNames(names_of(scheme), scheme)
    rng = np.random.default_rng(2)
    lengths = [int(length) for length in rng.integers(0, 12, 150)]
    ids = rng.integers(0, len(tag_set.names), sum(lengths))
    tags, chosen, probabilities = choose(tag_set, ids, lengths)
    rows = np.split(ids, np.cumsum(lengths)[:-1])
    assert tags == tag_set.decode(rows)
    pairs = zip(itertools.chain.from_iterable(tags), ids, strict=True)
    num_changed = sum(tag != tag_set.names[index] for tag, index in pairs)
    assert (num_changed > 100) == (scheme != schemes.PLAIN)
    for row, wanted in zip(chosen["probabilities"].numpy(), probabilities, strict=True):
        np.testing.assert_allclose(row[: len(wanted)], wanted, rtol=1e-5)
        assert not row[len(wanted) :].any()
