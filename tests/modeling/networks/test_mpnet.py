"""MPNet's distances; its recorded outputs are among those of test_bert_family.py."""

import math

import numpy as np
import tensorflow as tf

from modeling import pretrainers
from modeling.networks import mpnet

CONFIG = mpnet.MPNetConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=8,
    max_position_embeddings=300,
    relative_attention_num_buckets=34,
)


def bucket(distance):
    """Raffel et al. (2020) as their code has it, for 32 buckets and 128 at most."""
    half, far = 16 * (distance > 0), abs(distance)
    if far < 8:
        return half + far
    # A doubling is a half of 4; float64 is exact where a distance is 8 * 2^(k / 2).
    steps = round(2 * math.log2(far / 8), 9)
    return half + min(8 + math.floor(steps), 15)


def test_distances_have_the_numbers_of_their_buckets():
    model = pretrainers.build("none", None, CONFIG)
    layer = model.network.distances
    assert layer.bias.path.endswith("/distances/bias")  # which does not decay
    layer.bias.assign(np.random.default_rng(1).normal(size=(34, 2)))
    table, length = np.asarray(layer.bias), 290
    every = np.asarray(layer.look_up(length))
    expected = [
        [table[bucket(key - query)] for key in range(length)] for query in range(length)
    ]
    np.testing.assert_array_equal(every[0], np.transpose(expected, (2, 0, 1)))
    assert len({*map(bucket, range(-length, length))}) == 31  # none is 16
    positions = tf.constant([[0, 289, 7], [9, 9, 0]])
    some = np.asarray(layer.look_up(length, positions))
    for row, places in zip(some, positions.numpy(), strict=True):
        np.testing.assert_array_equal(row, every[0][:, places])


def test_all_layers_share_one_table():
    names = [row.path for row in CONFIG.spec.rows(CONFIG)]
    assert sum("distances" in name for name in names) == 1
    assert CONFIG.spec.depth("bert/distances/bias") == 0
    tables = 20 * 8 + 302 * 8 + 2 * 8 + 34 * 2
    layer = 4 * 9 * 8 + 9 * 8 + 9 * 8 + 4 * 8
    assert CONFIG.num_weights() == tables + layer
