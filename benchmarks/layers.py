"""Times the operations of modeling/kernels.py against the plain ones, in pairs.

    python benchmarks/layers.py --tokens=24

Prints one JSON object: median milliseconds of a forward and a backward pass of each
operation and of the plain one in the same rounds, and the matrix-product peak.
"""

import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from cli import environment

environment.prepare()  # before TensorFlow is imported

import keras
import tensorflow as tf
from absl import app, flags

from benchmarks import ours
from modeling import kernels

FLAGS = flags.FLAGS
RATE = 0.1  # of dropout


def forward_backward(operation, *inputs):
    """A compiled function that runs the operation and its gradients once."""

    @tf.function
    def run(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = operation(*inputs)
        return y, tape.gradient(y, inputs)

    return lambda: run(*inputs)


def milliseconds(operations, *inputs):
    """Median time of each; one call of each a round, so that drift hits all."""
    functions = {
        name: forward_backward(operation, *inputs)
        for name, operation in operations.items()
    }
    for function in functions.values():
        function()
    times = {name: [] for name in functions}
    for _ in range(FLAGS.rounds):
        for name, function in functions.items():
            begin = time.perf_counter()
            function()
            times[name].append(1e3 * (time.perf_counter() - begin))
    return {name: round(statistics.median(t), 3) for name, t in times.items()}


def pairs(seed):
    """{operation: {"ours", "plain"}}, functions of tensors."""
    drop = keras.layers.Dropout(RATE)
    norm = keras.layers.LayerNormalization(epsilon=1e-12)
    norm.build((None, None, FLAGS.hidden_size))

    def attend(query, key, value):
        adder = tf.zeros([FLAGS.batch_size, 1, 1, FLAGS.tokens])
        return kernels.attend(
            *(query, key, value, adder), scale=0.2, rate=RATE, seed=seed, site=3
        )

    def attend_plainly(query, key, value):
        adder = tf.zeros([FLAGS.batch_size, 1, 1, FLAGS.tokens])
        weights = tf.nn.softmax(tf.matmul(query * 0.2, key, transpose_b=True) + adder)
        return tf.matmul(drop(weights, training=True), value)

    return {
        "gelu": {
            "ours": lambda x: kernels.gelu(x, approximate=True, training=True),
            "plain": lambda x: tf.nn.gelu(x, approximate=True),
        },
        "dropout": {
            "ours": lambda x: kernels.dropout(x, RATE, seed, 1),
            "plain": lambda x: drop(x, training=True),
        },
        "norm_of_sum": {
            "ours": lambda x, y: kernels.norm_of_sum(norm, x, y, RATE, seed, 2),
            "plain": lambda x, y: norm(x + drop(y, training=True)),
        },
        "attend": {"ours": attend, "plain": attend_plainly},
    }


def main(_):
    """Times each operation beside the plain one."""
    rows = FLAGS.batch_size, FLAGS.tokens
    heads = FLAGS.batch_size, FLAGS.heads, FLAGS.tokens
    hidden = tf.random.normal([*rows, FLAGS.hidden_size])
    vectors = tf.random.normal([*heads, FLAGS.hidden_size // FLAGS.heads])
    inputs = {
        "gelu": [tf.random.normal([*rows, 4 * FLAGS.hidden_size])],
        "dropout": [tf.random.normal([*heads, FLAGS.tokens])],
        "norm_of_sum": [hidden, hidden],
        "attend": [vectors, vectors, vectors],
    }
    results = {"peak_gflops": round(ours.peak_gflops())}
    for name, pair in pairs(tf.constant([1, 2], tf.int64)).items():
        results[name] = milliseconds(pair, *inputs[name])
    print(json.dumps(results))


if __name__ == "__main__":
    flags.DEFINE_integer("tokens", 128, "Length of the sequences.")
    flags.DEFINE_integer("batch_size", 32, "Sequences.")
    flags.DEFINE_integer("hidden_size", 384, "Width of the network.")
    flags.DEFINE_integer("heads", 12, "Attention heads.")
    flags.DEFINE_integer("rounds", 20, "Calls of each that are timed.")
    app.run(main)
