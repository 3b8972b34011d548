"""Signatures of a network that writes and scores, around functions that count."""

import types

import numpy as np
import pytest
import tensorflow as tf

from serving import answers, export, generation
from tests.serving import exported_ops

TOKENS = [*"abcdefgh", "."]
LIMITS = types.SimpleNamespace(
    vocab_size=9, type_vocab_size=0, max_position_embeddings=5
)


def write(ids, lengths, seeds=None, draws=None):
    """The three tokens after the last, or so many as `top_k` says."""
    last = tf.gather(ids, lengths - 1, batch_dims=1)
    new = last[:, tf.newaxis] + tf.range(1, 4)
    count = (
        tf.fill([tf.shape(ids)[0], 1], 3) if draws is None else draws["top_k"][:, None]
    )
    if seeds is not None:
        new += tf.cast(seeds, tf.int32)[:, tf.newaxis]
    return new, tf.range(3) < count


def score(ids, mask):
    return tf.cast(ids[:, 1:] - ids[:, :-1], tf.float32) / tf.cast(
        mask[:, 1:], tf.float32
    )


def encode(texts):
    return tf.cast(tf.strings.unicode_decode(texts, "UTF-8"), tf.int32) - ord("a")


def decode(prompts, ids):
    return tf.strings.reduce_join(tf.gather(TOKENS, ids), axis=1)


@pytest.fixture(scope="module")
def functions():
    spelling = generation.Spelling(encode, encode, decode, TOKENS)
    return generation.TextGenerator(write, score, [], spelling, LIMITS).signatures()


def test_texts_are_written_as_the_export_or_the_row_says(functions):
    actual = functions["generate"](text=tf.constant(["ab", "e"]))
    assert actual["generated"].numpy().tolist() == [b"cde", b"fgh"]
    assert actual["num_tokens"].numpy().tolist() == [3, 3]
    actual = functions["sample"](
        text=tf.constant(["ab", "a"]),
        seed=tf.constant([1, 0], tf.int64),
        temperature=tf.ones(2),
        top_k=tf.constant([1, 2]),
        top_p=tf.ones(2),
    )
    assert actual["generated"].numpy().tolist() == [b"d", b"bc"]


def test_scores_end_where_texts_end(functions):
    outputs = functions["score"](text=tf.constant(["adf", "b", "gh"]))
    outputs = {name: value.numpy() for name, value in outputs.items()}
    rows = answers.rows(outputs, ())
    assert [row["token_nll"] for row in rows] == [[3.0, 2.0], [], [1.0]]
    assert [row["pieces"] for row in rows] == [["d", "f"], [], ["h"]]
    assert [row["nll"] for row in rows] == [5.0, 0.0, 1.0]
    np.testing.assert_allclose(outputs["perplexity"], np.exp([2.5, 0.0, 1.0]))
    (line, *_) = answers.lines(["adf", "b", "gh"], rows, as_json=False)
    assert line == "adf\n    perplexity 12.18"


def test_ids_are_padded_to_the_right(functions):
    ids, mask = tf.constant([[0, 1, 0], [2, 3, 4]]), tf.constant([[1, 1, 0], [1, 1, 1]])
    actual = functions["generate_ids"](input_ids=ids, input_mask=mask)
    assert actual["generated_ids"].numpy().tolist() == [[2, 3, 4], [5, 6, 7]]
    actual = functions["score_ids"](input_ids=ids, input_mask=mask)
    assert actual["token_nll"].numpy().tolist() == [[1.0, 0.0], [1.0, 1.0]]
    assert actual["num_tokens"].numpy().tolist() == [1, 2]


@pytest.mark.parametrize("name", ["generate_ids", "score_ids"])
@pytest.mark.parametrize(
    ("ids", "mask", "message"),
    [
        ([[0, 0, 5]], [[0, 1, 1]], "has zeros before ones; pad on the right"),
        ([[5, 0, 5]], [[1, 0, 1]], "has zeros before ones; pad on the right"),
        ([[1, -1, 2]], [[1, 1, 1]], "not all from 0 to 8, the rows of the vocabulary"),
        ([[1, 9, 2]], [[1, 1, 1]], "not all from 0 to 8"),
        ([[1] * 6], [[1] * 6], "more tokens than 5, the positions of the model"),
    ],
)
def test_wrong_ids_are_refused(functions, name, ids, mask, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        functions[name](input_ids=tf.constant(ids), input_mask=tf.constant(mask))


def test_without_a_tokenizer_in_the_graph_there_are_ids_alone(tmp_path):
    module = generation.TextGenerator(write, score, [], None, LIMITS)
    assert set(module.functions) == {"serving_default", "generate_ids", "score_ids"}
    path = export.save(module, str(tmp_path / "export"), {})
    assert exported_ops.operations(path)[0] <= exported_ops.ALLOWED
