"""Words computed once and in part, against each word computed whole."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.networks.elmo import characters

WIDEST = 3
CUT = 16  # 13 characters and the widest filter
END = 9  # the character that follows a word's last
LENGTHS = [5, 13, 14, 50, 2, 49]  # up to 13 is short


def words():
    rng = np.random.default_rng(0)
    each = np.full((len(LENGTHS) + 1, 50), END, np.int32)
    for row, length in zip(each, LENGTHS, strict=False):
        row[:length] = rng.integers(1, END, length)
    each[-1] = 0
    return tf.constant(np.concatenate([each, each[::-1]]))


def sizes(actual):
    """Instead of a convolution: the characters of a word, and the number of rows."""
    shape = tf.shape(actual)
    return tf.fill([shape[0], 1], tf.cast(shape[1], tf.float32))


def with_rows(x):
    return tf.concat([x, tf.ones_like(x) * tf.cast(tf.shape(x)[0], tf.float32)], 1)


def largest(actual):
    """The largest sum of a few characters' numbers over all places, [N, F]."""
    table = np.random.default_rng(1).normal(size=(10, WIDEST, 4)).astype(np.float32)
    places = actual.shape[1] - WIDEST + 1
    parts = [tf.gather(table[:, k], actual[:, k : k + places]) for k in range(WIDEST)]
    return tf.reduce_max(tf.add_n(parts), 1)


def compute_once(convolve, finish, ids):
    return characters.compute_once(convolve, finish, ids, WIDEST)


@pytest.mark.parametrize("is_graph", [False, True])
def test_each_word_is_computed_once_and_short_ones_in_part(is_graph):
    function = compute_once
    if is_graph:
        function = tf.function(compute_once, autograph=False)
    actual = function(sizes, with_rows, words()).numpy()
    once = [CUT if n <= 13 else 50 for n in [*LENGTHS, 0]]
    np.testing.assert_array_equal(actual[:, 0], once + once[::-1])
    # Seven words, and one more row in either group, so that none is empty.
    np.testing.assert_array_equal(actual[:, 1], 9)


def test_result_is_that_of_whole_words():
    all_short, all_long = (np.full((2, 50), END, np.int32) for _ in range(2))
    all_short[:, :3] = all_long[:] = 4
    for ids in (words(), tf.constant(all_short), tf.constant(all_long)):
        outputs = compute_once(largest, tf.tanh, ids)
        np.testing.assert_array_equal(outputs, tf.tanh(largest(ids)))
    # Which reads the end of long words, so that cutting them would show.
    assert np.abs(largest(words()[:, :CUT]) - largest(words())).max() > 0.1


def test_xla_takes_words_as_they_are():
    compiled = tf.function(compute_once, jit_compile=True, autograph=False)
    actual = compiled(sizes, with_rows, words()).numpy()
    np.testing.assert_array_equal(actual, [[50, 14]] * 14)
