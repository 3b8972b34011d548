import itertools

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.tagging import graph, schemes
from data_pipeline.text import normalization, offsets, wordpiece

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
    columns = offsets.split_words(tf.constant(texts))
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


@pytest.mark.parametrize(
    ("cjk", "marks", "expected"),
    [
        (True, False, ["Mira's", "中", "文", "a"]),
        (False, True, ["Mira", "'", "s", "中文a"]),
        (False, False, ["Mira's", "中文a"]),
    ],
)
def test_text_is_split_as_the_tokenizer_has_it(cjk, marks, expected):
    rules = normalization.WordRules(False, False, cjk, marks)
    words = offsets.split_words(tf.constant(["Mira's 中文a"]), rules)["words"]
    assert [word.decode() for word in words.numpy()[0]] == expected


def names_of(scheme):
    if scheme == schemes.PLAIN:
        return ("NOUN", "VERB", "O")
    return ("PAD", *schemes.all_tags(["", "x", "y"], scheme))


@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_tags_are_repaired_by_their_scheme(scheme):
    tag_set = schemes.TagNames(names_of(scheme), scheme)
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, 12, 150)
    cells = np.where(np.arange(12) < lengths[:, None], "a", "")
    windows = graph.encoder(TOKENIZER, max_seq_length=14)(tf.constant(cells.tolist()))
    ids = rng.integers(0, len(tag_set.names), lengths.sum())
    shape = (*windows.features["input_ids"].shape, len(tag_set.names))
    logits = rng.uniform(0, 1, shape)
    window, place = windows.outputs.numpy().T
    logits[window, place, ids] += 2
    chosen = graph.chooser(tag_set)(windows, tf.constant(logits, tf.float32))
    expected = tag_set.decode(np.split(ids, np.cumsum(lengths)[:-1]))
    tags = [[tag.decode() for tag in row if tag] for row in chosen["tags"].numpy()]
    assert tags == expected
    np.testing.assert_array_equal(chosen["probabilities"].numpy() > 0, cells == "a")
    pairs = zip(itertools.chain.from_iterable(tags), ids, strict=True)
    num_changed = sum(tag != tag_set.names[index] for tag, index in pairs)
    assert (num_changed > 100) == (scheme != schemes.PLAIN)
